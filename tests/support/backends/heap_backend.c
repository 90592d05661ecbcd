/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory is reserved address space, so that an allocator that touches it crashes; pages are only
   counted. */
#include "tests/support/backends/heap_backend.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdio.h>

#define ALIGNMENT_BYTES 4096u

/* Memory of at least this many bytes begins at a multiple of them, as on a real device. */
#define LARGE_BYTES ((size_t)2 << 20)

struct dao_backend_pages {
    size_t size_bytes;
    void *address; /* NULL while it is not mapped */
};

struct heap_backend {
    uint64_t capacity_bytes;
    uint64_t page_bytes;

    dao_mutex_t lock;
    uint64_t device_bytes;
    uint64_t taken_bytes;
    uint64_t pinned_bytes;
    uint64_t reserved_count;
    uint64_t mapped_count;
    uint64_t calls[HEAP_CALL_COUNT];
    heap_call_t failing;
    bool is_armed;
    bool is_persistent;
    uint64_t skip_count;
    uint64_t failed_count;
};

static heap_backend_t *heap_of(dao_backend_device_t *device)
{
    return (heap_backend_t *)device; /* the one device of a backend */
}

/* Counts a call; tells whether it is to fail. */
static bool enter_locked(heap_backend_t *heap, heap_call_t call)
{
    heap->calls[call]++;
    if (!heap->is_armed || (heap->failing != HEAP_CALL_COUNT && heap->failing != call)) {
        return false;
    }
    if (heap->skip_count > 0) {
        heap->skip_count--;
        return false;
    }
    heap->is_armed = heap->is_persistent;
    heap->failed_count++;
    return true;
}

static dao_status_t refuse(dao_status_t status)
{
    return dao_error_vendor(status, 77, "the heap backend refuses");
}

/* Counts a call and, if it is allowed to go on, adds to a sum. */
static dao_status_t begin(heap_backend_t *heap, heap_call_t call, uint64_t *sum, uint64_t add_bytes)
{
    bool is_alloc = call == HEAP_CALL_MEMORY_ALLOC || call == HEAP_CALL_PAGES_CREATE;
    dao_status_t full = call == HEAP_CALL_PINNED_ALLOC ? DAO_ERR_NO_HOST_MEMORY : DAO_ERR_NO_DEVICE_MEMORY;
    dao_mutex_lock(&heap->lock);
    bool fails = enter_locked(heap, call);
    bool is_full = is_alloc && add_bytes > heap->capacity_bytes - heap->device_bytes - heap->taken_bytes;
    if (!fails && !is_full) {
        *sum += add_bytes;
    }
    dao_mutex_unlock(&heap->lock);
    if (fails || is_full) {
        return refuse(is_alloc || call == HEAP_CALL_PINNED_ALLOC ? full : DAO_ERR_BACKEND);
    }
    return DAO_OK;
}

static void add(heap_backend_t *heap, uint64_t *sum, uint64_t add_bytes)
{
    dao_mutex_lock(&heap->lock);
    *sum += add_bytes;
    dao_mutex_unlock(&heap->lock);
}

static dao_status_t device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    heap_backend_t *heap = heap_of(device);
    *out_info = (dao_device_info_t){.total_bytes = heap->capacity_bytes,
                                    .free_bytes = heap->capacity_bytes - heap->device_bytes,
                                    .page_bytes = heap->page_bytes,
                                    .alignment_bytes = ALIGNMENT_BYTES};
    (void)snprintf(out_info->name, sizeof(out_info->name), "heap");
    return DAO_OK;
}

static dao_status_t memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    heap_backend_t *heap = heap_of(device);
    dao_status_t status = begin(heap, HEAP_CALL_MEMORY_ALLOC, &heap->device_bytes, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    void *address = dao_host_reserve(size_bytes, size_bytes < LARGE_BYTES ? ALIGNMENT_BYTES : LARGE_BYTES);
    if (address == NULL) {
        add(heap, &heap->device_bytes, 0 - (uint64_t)size_bytes);
        return refuse(DAO_ERR_NO_DEVICE_MEMORY);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    heap_backend_t *heap = heap_of(device);
    dao_status_t status = begin(heap, HEAP_CALL_MEMORY_FREE, &heap->device_bytes, 0 - (uint64_t)size_bytes);
    if (status == DAO_OK) {
        dao_host_unmap(address, size_bytes);
    }
    return status;
}

static dao_status_t pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    heap_backend_t *heap = heap_of(device);
    dao_status_t status = begin(heap, HEAP_CALL_PINNED_ALLOC, &heap->pinned_bytes, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    void *address = dao_host_map(size_bytes, ALIGNMENT_BYTES);
    if (address == NULL) {
        add(heap, &heap->pinned_bytes, 0 - (uint64_t)size_bytes);
        return refuse(DAO_ERR_NO_HOST_MEMORY);
    }
    *out_address = address;
    return DAO_OK;
}

static dao_status_t pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    heap_backend_t *heap = heap_of(device);
    dao_status_t status = begin(heap, HEAP_CALL_PINNED_FREE, &heap->pinned_bytes, 0 - (uint64_t)size_bytes);
    if (status == DAO_OK) {
        dao_host_unmap(address, size_bytes);
    }
    return status;
}

static dao_status_t address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    heap_backend_t *heap = heap_of(device);
    void *address = dao_host_reserve(size_bytes, heap->page_bytes);
    if (address == NULL) {
        return refuse(DAO_ERR_NO_HOST_MEMORY);
    }
    add(heap, &heap->reserved_count, 1);
    *out_address = address;
    return DAO_OK;
}

static dao_status_t address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    heap_backend_t *heap = heap_of(device);
    add(heap, &heap->reserved_count, 0 - UINT64_C(1));
    dao_host_unmap(address, size_bytes);
    return DAO_OK;
}

static dao_status_t pages_create(dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_pages_t **out_pages)
{
    heap_backend_t *heap = heap_of(device);
    DAO_ASSERT(size_bytes % heap->page_bytes == 0);
    dao_status_t status = begin(heap, HEAP_CALL_PAGES_CREATE, &heap->device_bytes, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_pages_t *pages = dao_host_calloc(1, sizeof(*pages));
    if (pages == NULL) {
        add(heap, &heap->device_bytes, 0 - (uint64_t)size_bytes);
        return refuse(DAO_ERR_NO_HOST_MEMORY);
    }
    pages->size_bytes = size_bytes;
    *out_pages = pages;
    return DAO_OK;
}

static dao_status_t pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    heap_backend_t *heap = heap_of(device);
    DAO_ASSERT(pages->address == NULL);
    dao_status_t status =
        begin(heap, HEAP_CALL_PAGES_DESTROY, &heap->device_bytes, 0 - (uint64_t)pages->size_bytes);
    if (status == DAO_OK) {
        dao_host_free(pages);
    }
    return status;
}

static dao_status_t pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    heap_backend_t *heap = heap_of(device);
    DAO_ASSERT(pages->address == NULL && (uintptr_t)address % heap->page_bytes == 0);
    dao_status_t status = begin(heap, HEAP_CALL_PAGES_MAP, &heap->mapped_count, 1);
    if (status == DAO_OK) {
        pages->address = address;
    }
    return status;
}

static dao_status_t pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    heap_backend_t *heap = heap_of(device);
    DAO_ASSERT(pages->address == address && address != NULL);
    dao_status_t status = begin(heap, HEAP_CALL_PAGES_UNMAP, &heap->mapped_count, 0 - UINT64_C(1));
    if (status == DAO_OK) {
        pages->address = NULL;
    }
    return status;
}

static size_t pages_size(const dao_backend_pages_t *pages)
{
    return pages->size_bytes;
}

static const dao_backend_ops_t flat_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "heap",
    .device_query = device_query,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
};

static const dao_backend_ops_t paged_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "heap",
    .device_query = device_query,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .pinned_alloc = pinned_alloc,
    .pinned_free = pinned_free,
    .address_reserve = address_reserve,
    .address_release = address_release,
    .pages_create = pages_create,
    .pages_destroy = pages_destroy,
    .pages_map = pages_map,
    .pages_unmap = pages_unmap,
    .pages_size = pages_size,
};

heap_backend_t *heap_backend_create(uint64_t capacity_bytes, uint64_t page_bytes)
{
    heap_backend_t *heap = dao_host_calloc(1, sizeof(*heap));
    if (heap != NULL) {
        heap->capacity_bytes = capacity_bytes;
        heap->page_bytes = page_bytes;
        dao_mutex_init(&heap->lock, DAO_RANK_BACKEND);
    }
    return heap;
}

bool heap_backend_destroy(heap_backend_t *heap)
{
    bool is_empty = heap->device_bytes == 0 && heap->pinned_bytes == 0 && heap->reserved_count == 0 &&
                    heap->mapped_count == 0;
    dao_mutex_finish(&heap->lock);
    dao_host_free(heap);
    return is_empty;
}

const dao_backend_ops_t *heap_backend_ops(const heap_backend_t *heap)
{
    return heap->page_bytes == 0 ? &flat_ops : &paged_ops;
}

dao_backend_device_t *heap_backend_device(heap_backend_t *heap)
{
    return (dao_backend_device_t *)heap;
}

dao_status_t heap_backend_pinned_take(void *user, size_t size_bytes, void **out_address)
{
    heap_backend_t *from = user;
    return heap_backend_ops(from)->pinned_alloc(heap_backend_device(from), size_bytes, out_address);
}

dao_status_t heap_backend_pinned_give(void *user, void *address, size_t size_bytes)
{
    heap_backend_t *from = user;
    return heap_backend_ops(from)->pinned_free(heap_backend_device(from), address, size_bytes);
}

void heap_backend_fail(heap_backend_t *heap, heap_call_t call, uint64_t skip_count, bool persistent)
{
    dao_mutex_lock(&heap->lock);
    heap->failing = call;
    heap->is_armed = true;
    heap->is_persistent = persistent;
    heap->skip_count = skip_count;
    heap->failed_count = 0;
    dao_mutex_unlock(&heap->lock);
}

uint64_t heap_backend_heal(heap_backend_t *heap)
{
    dao_mutex_lock(&heap->lock);
    heap->is_armed = false;
    uint64_t failed_count = heap->failed_count;
    dao_mutex_unlock(&heap->lock);
    return failed_count;
}

uint64_t heap_backend_calls(const heap_backend_t *heap, heap_call_t call)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < HEAP_CALL_COUNT; i++) {
        sum += call == HEAP_CALL_COUNT || (unsigned)call == i ? heap->calls[i] : 0;
    }
    return sum;
}

uint64_t heap_backend_device_bytes(const heap_backend_t *heap)
{
    return heap->device_bytes;
}

uint64_t heap_backend_pinned_bytes(const heap_backend_t *heap)
{
    return heap->pinned_bytes;
}

void heap_backend_take_bytes(heap_backend_t *heap, uint64_t taken_bytes)
{
    dao_mutex_lock(&heap->lock);
    heap->taken_bytes = taken_bytes;
    dao_mutex_unlock(&heap->lock);
}
