/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps books of memory and of pages.

       taken_bytes == memory given out + page handles <= device_bytes

   Addresses are numbers: nothing is mapped there, so that an allocator which touches what it manages is found
   out. */
#include "bench/peers/bench_device.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>

enum { ALIGNMENT_BYTES = 256 };

#define PAGE_BYTES ((size_t)2 << 20)

/* Where the addresses lie: where systems put nothing of their own, below the top of 47 bits. */
#define ADDRESS_BEGIN (UINT64_C(1) << 45)
#define ADDRESS_BYTES (UINT64_C(1) << 45)

struct dao_backend_device {
    uint64_t device_bytes;
    bool has_pages;
    _Atomic uint64_t taken_bytes;
    _Atomic uint64_t reserved_bytes; /* addresses */
};

struct dao_backend {
    dao_backend_device_t device;
};

struct dao_backend_pages {
    size_t size_bytes;
    void *address; /* NULL while they are not mapped */
};

/* Work is done when it is queued, so that all streams are alike, and so are all events. */
struct dao_backend_stream {
    char nothing;
};
struct dao_backend_event {
    char nothing;
};
static dao_backend_stream_t the_stream;
static dao_backend_event_t the_event;

static _Atomic uint64_t call_count;

uint64_t dao_bench_device_calls(void)
{
    return atomic_load_explicit(&call_count, memory_order_relaxed);
}

static _Atomic uint64_t handle_count;
static _Atomic bool is_holding;

/* What malloc() takes for a handle: 16 bytes of its own, rounded up. */
#define HANDLE_BYTES ((sizeof(struct dao_backend_pages) + 31) / 16 * 16)

uint64_t dao_bench_device_own_bytes(void)
{
    return atomic_load_explicit(&handle_count, memory_order_relaxed) * HANDLE_BYTES;
}

void dao_bench_device_hold(bool is_held)
{
    atomic_store(&is_holding, is_held);
}

static void count_call(void)
{
    (void)atomic_fetch_add_explicit(&call_count, 1, memory_order_relaxed);
}

static dao_status_t take(dao_backend_device_t *device, size_t size_bytes)
{
    uint64_t taken_bytes = atomic_load_explicit(&device->taken_bytes, memory_order_relaxed);
    do {
        if (size_bytes > device->device_bytes - taken_bytes) {
            return dao_error(DAO_ERR_NO_DEVICE_MEMORY,
                             "%zu bytes asked for, %" PRIu64 " of %" PRIu64 " in use", size_bytes,
                             taken_bytes, device->device_bytes);
        }
    } while (!atomic_compare_exchange_weak(&device->taken_bytes, &taken_bytes, taken_bytes + size_bytes));
    return DAO_OK;
}

static void give(dao_backend_device_t *device, size_t size_bytes)
{
    (void)atomic_fetch_sub_explicit(&device->taken_bytes, size_bytes, memory_order_relaxed);
}

/* Gives addresses; they are not used again. */
static dao_status_t reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    uint64_t rounded_bytes = ((uint64_t)size_bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
    uint64_t offset_bytes =
        atomic_fetch_add_explicit(&device->reserved_bytes, rounded_bytes, memory_order_relaxed);
    if (size_bytes > ADDRESS_BYTES || offset_bytes > ADDRESS_BYTES - rounded_bytes) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY, "no addresses are left for %zu bytes", size_bytes);
    }
    *out_address = (void *)(uintptr_t)(ADDRESS_BEGIN + offset_bytes);
    return DAO_OK;
}

/* ---- the device ---- */

static dao_status_t bench_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    dao_backend_t *backend = dao_host_calloc(1, sizeof(*backend));
    if (backend == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a device");
    }
    backend->device.device_bytes = config->cpu.device_bytes;
    backend->device.has_pages = !config->cpu.no_page_mapping;
    *out_backend = backend;
    return DAO_OK;
}

static void bench_close(dao_backend_t *backend)
{
    dao_host_free(backend);
}

static dao_status_t bench_device_count(dao_backend_t *backend, int32_t *out_count)
{
    (void)backend;
    *out_count = 1;
    return DAO_OK;
}

static dao_status_t bench_device_open(dao_backend_t *backend, int32_t index,
                                      dao_backend_device_t **out_device)
{
    (void)index; /* the core asks for those that device_count tells of */
    *out_device = &backend->device;
    return DAO_OK;
}

static void bench_device_close(dao_backend_device_t *device)
{
    DAO_ASSERT(atomic_load(&device->taken_bytes) == 0);
    (void)device;
}

static dao_status_t bench_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    *out_info = (dao_device_info_t){
        .name = "books",
        .total_bytes = device->device_bytes,
        .free_bytes = device->device_bytes - atomic_load_explicit(&device->taken_bytes, memory_order_relaxed),
        .page_bytes = device->has_pages ? PAGE_BYTES : 0,
        .alignment_bytes = ALIGNMENT_BYTES,
    };
    return DAO_OK;
}

static dao_status_t bench_device_synchronize(dao_backend_device_t *device)
{
    (void)device;
    return DAO_OK;
}

/* ---- memory ---- */

static dao_status_t bench_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    count_call();
    dao_status_t status = take(device, size_bytes);
    if (status == DAO_OK) {
        status = reserve(device, size_bytes, out_address);
        if (status != DAO_OK) {
            give(device, size_bytes);
        }
    }
    return status;
}

static dao_status_t bench_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    count_call();
    (void)address;
    give(device, size_bytes);
    return DAO_OK;
}

static dao_status_t bench_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    return reserve(device, size_bytes, out_address);
}

static dao_status_t bench_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    (void)address;
    (void)size_bytes;
    return DAO_OK;
}

static dao_status_t bench_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    return reserve(device, size_bytes, out_address);
}

static dao_status_t bench_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    (void)device;
    (void)address;
    (void)size_bytes;
    return DAO_OK;
}

static dao_backend_pages_t *make_pages(size_t size_bytes, void *address)
{
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages != NULL) {
        (void)atomic_fetch_add_explicit(&handle_count, 1, memory_order_relaxed);
        *pages = (dao_backend_pages_t){.size_bytes = size_bytes, .address = address};
    }
    return pages;
}

static void drop_pages(dao_backend_pages_t *pages)
{
    (void)atomic_fetch_sub_explicit(&handle_count, 1, memory_order_relaxed);
    dao_host_free(pages);
}

static dao_status_t bench_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                       dao_backend_pages_t **out_pages)
{
    count_call();
    dao_status_t status = take(device, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_pages_t *pages = make_pages(size_bytes, NULL);
    if (pages == NULL) {
        give(device, size_bytes);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a handle of pages");
    }
    *out_pages = pages;
    return DAO_OK;
}

static dao_status_t bench_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                              size_t page_count, void *address,
                                              dao_backend_pages_t **out_pages)
{
    count_call();
    dao_status_t status = take(device, page_bytes * page_count);
    if (status != DAO_OK) {
        return status;
    }
    for (size_t i = 0; i < page_count; i++) {
        out_pages[i] = make_pages(page_bytes, (char *)address + i * page_bytes);
        if (out_pages[i] == NULL) {
            while (i > 0) {
                drop_pages(out_pages[--i]);
            }
            give(device, page_bytes * page_count);
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu handles of pages", page_count);
        }
    }
    return DAO_OK;
}

static dao_status_t bench_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    count_call();
    DAO_ASSERT(pages->address == NULL);
    give(device, pages->size_bytes);
    drop_pages(pages);
    return DAO_OK;
}

static dao_status_t bench_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    (void)device;
    count_call();
    DAO_ASSERT(pages->address == NULL);
    pages->address = address;
    return DAO_OK;
}

static dao_status_t bench_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    (void)device;
    (void)address;
    count_call();
    DAO_ASSERT(pages->address == address);
    pages->address = NULL;
    return DAO_OK;
}

static dao_status_t bench_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address)
{
    (void)device;
    count_call();
    for (size_t i = 0; i < page_count; i++) {
        DAO_ASSERT(pages[i]->address == NULL);
        pages[i]->address = (char *)address + i * pages[i]->size_bytes;
    }
    return DAO_OK;
}

static dao_status_t bench_pages_unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                          size_t page_count, void *address)
{
    (void)device;
    (void)address;
    count_call();
    for (size_t i = 0; i < page_count; i++) {
        DAO_ASSERT(pages[i]->address == (char *)address + i * pages[i]->size_bytes);
        pages[i]->address = NULL;
    }
    return DAO_OK;
}

static size_t bench_pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}

/* ---- streams ---- */

static dao_status_t bench_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream)
{
    (void)device;
    *out_stream = &the_stream;
    return DAO_OK;
}

static void bench_stream_destroy(dao_backend_stream_t *stream)
{
    (void)stream;
}

static dao_status_t bench_stream_synchronize(dao_backend_stream_t *stream)
{
    (void)stream;
    return DAO_OK;
}

static dao_status_t bench_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event)
{
    (void)stream;
    (void)event;
    return DAO_OK;
}

static void *bench_stream_native(dao_backend_stream_t *stream)
{
    return stream;
}

static dao_status_t bench_event_create(dao_backend_device_t *device, bool has_time,
                                       dao_backend_event_t **out_event)
{
    (void)device;
    (void)has_time;
    *out_event = &the_event;
    return DAO_OK;
}

static void bench_event_destroy(dao_backend_event_t *event)
{
    (void)event;
}

static dao_status_t bench_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    (void)event;
    (void)stream;
    return DAO_OK;
}

static dao_status_t bench_event_ask(dao_backend_event_t *event)
{
    (void)event;
    return atomic_load(&is_holding) ? DAO_ERR_NOT_READY : DAO_OK;
}

static dao_status_t bench_event_synchronize(dao_backend_event_t *event)
{
    (void)event;
    return DAO_OK;
}

static dao_status_t bench_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                        int64_t *out_elapsed_ns)
{
    (void)begin;
    (void)end;
    *out_elapsed_ns = 0;
    return DAO_OK;
}

static dao_status_t bench_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                               size_t size_bytes)
{
    (void)stream;
    (void)kind;
    (void)dst;
    (void)src;
    (void)size_bytes;
    return DAO_OK;
}

static dao_status_t bench_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes)
{
    (void)stream;
    (void)dst;
    (void)value;
    (void)size_bytes;
    return DAO_OK;
}

static dao_status_t bench_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user)
{
    (void)stream;
    function(user);
    return DAO_OK;
}

const dao_backend_ops_t dao_bench_device_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "books",
    .open = bench_open,
    .close = bench_close,
    .device_count = bench_device_count,
    .device_open = bench_device_open,
    .device_close = bench_device_close,
    .device_query = bench_device_query,
    .device_synchronize = bench_device_synchronize,
    .memory_alloc = bench_memory_alloc,
    .memory_free = bench_memory_free,
    .pinned_alloc = bench_pinned_alloc,
    .pinned_free = bench_pinned_free,
    .stream_create = bench_stream_create,
    .stream_destroy = bench_stream_destroy,
    .stream_synchronize = bench_stream_synchronize,
    .stream_wait_event = bench_stream_wait_event,
    .stream_native = bench_stream_native,
    .event_create = bench_event_create,
    .event_destroy = bench_event_destroy,
    .event_record = bench_event_record,
    .event_query = bench_event_ask,
    .event_synchronize = bench_event_synchronize,
    .event_elapsed = bench_event_elapsed,
    .copy = bench_copy,
    .fill = bench_fill,
    .host_func = bench_host_func,
    .address_reserve = bench_address_reserve,
    .address_release = bench_address_release,
    .pages_create = bench_pages_create,
    .pages_destroy = bench_pages_destroy,
    .pages_map = bench_pages_map,
    .pages_unmap = bench_pages_unmap,
    .pages_size = bench_pages_size,
    .pages_create_mapped = bench_pages_create_mapped,
    .pages_map_run = bench_pages_map_run,
    .pages_unmap_run = bench_pages_unmap_run,
    .has_no_bytes = true,
};
