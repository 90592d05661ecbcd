/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the segment callbacks what memory the places of devices obtain and release.

       allocator ──> watch->ops ──> the backend's table
                         │
                         └──> callbacks of the place, each with the allocator's lock held

   Being a table around the backend's, it sees all that any strategy takes, and allocators know nothing of it.
   Obtained is told after the backend's call, releasing before it; if the backend then refuses, the memory is
   told to be there again.

   Callbacks are in a table (callback_table.h): while its count is 0 nothing else is looked at. */
#include "runtime/observe/watch.h"

#include "allocators/slow_path.h"
#include "base/memory/poison.h"
#include "base/report/error.h"
#include "runtime/core/callback_table.h"
#include "runtime/core/thread.h"
#include "runtime/observe/annotate.h"

static dao_callback_slot_t slots[DAO_SEGMENT_CALLBACK_COUNT_MAX];
static dao_callback_table_t callbacks = DAO_CALLBACK_TABLE_INITIALIZER(slots);

/* ---- callbacks ---- */

bool dao_watch_add(dao_place_t place, dao_segment_callback_t function, void *user, uint64_t *out_id)
{
    return dao_callback_table_add(&callbacks, place, (void (*)(void))function, user, out_id);
}

dao_status_t dao_segment_callback_remove(uint64_t id)
{
    dao_status_t status = dao_thread_check();
    return status != DAO_OK ? status
                            : dao_callback_table_remove(&callbacks, id, NULL, "dao_segment_callback_remove");
}

void dao_watch_clear(void)
{
    dao_callback_table_clear(&callbacks);
}

/* ---- telling ---- */

typedef struct watch_range {
    dao_place_t place;
    char *address;
    size_t size_bytes;
} watch_range_t;

static void tell(const watch_range_t *segment, dao_segment_event_t event)
{
    if (atomic_load_explicit(&callbacks.count, memory_order_relaxed) == 0) {
        return;
    }
    uint64_t last = dao_callback_table_last(&callbacks), after = 0;
    dao_callback_slot_t *callback;
    while ((callback = dao_callback_table_enter(&callbacks, segment->place, after, last)) != NULL) {
        after = callback->id;
        dao_slow_path_begin();
        dao_thread_is_in_callback = true;
        ((dao_segment_callback_t)callback->function)(segment->place, event, segment->address,
                                                     segment->size_bytes, callback->user);
        dao_thread_is_in_callback = false;
        dao_slow_path_end();
        dao_callback_table_leave(&callbacks, callback);
    }
}

void dao_watch_tell(int32_t device_index, dao_segment_event_t event, void *address, size_t size_bytes)
{
    watch_range_t segment = {{DAO_PLACE_KIND_DEVICE, device_index}, address, size_bytes};
    tell(&segment, event);
}

static dao_watch_t *watch_of(dao_backend_device_t *device)
{
    return (dao_watch_t *)(void *)device;
}

static watch_range_t segment_of(const dao_watch_t *watch, dao_place_kind_t kind, void *address,
                                size_t size_bytes)
{
    return (watch_range_t){{kind, watch->device_index}, address, size_bytes};
}

static dao_place_t place_of(const dao_watch_t *watch)
{
    return (dao_place_t){DAO_PLACE_KIND_DEVICE, watch->device_index};
}

/* Tells that the backend has refused to take memory back, if it has. */
static dao_status_t tell_kept(watch_range_t segment, dao_status_t status)
{
    if (status != DAO_OK) {
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

/* Tells of pages of one size, one behind the other. */
static void tell_each(const dao_watch_t *watch, dao_segment_event_t event, size_t page_count,
                      size_t page_bytes, void *address)
{
    for (size_t i = 0; i < page_count; i++) {
        watch_range_t page =
            segment_of(watch, DAO_PLACE_KIND_DEVICE, (char *)address + i * page_bytes, page_bytes);
        tell(&page, event);
    }
}

/* ---- the table ---- */

static dao_status_t watch_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    const dao_watch_t *watch = watch_of(device);
    return watch->inner->device_query(watch->device, out_info);
}

static dao_status_t memory_take(const dao_watch_t *watch, size_t size_bytes, void **out_address)
{
    return watch->pool == NULL
               ? watch->inner->memory_alloc(watch->device, size_bytes, out_address)
               : watch->inner->pool_alloc(watch->device, watch->pool, size_bytes, out_address);
}

static dao_status_t memory_give(const dao_watch_t *watch, void *address, size_t size_bytes)
{
    return watch->pool == NULL ? watch->inner->memory_free(watch->device, address, size_bytes)
                               : watch->inner->pool_free(watch->device, watch->pool, address);
}

static dao_status_t watch_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status = memory_take(watch, size_bytes, out_address);
    if (status == DAO_OK) {
        dao_annotate_obtained(place_of(watch), *out_address, size_bytes);
        watch_range_t segment = segment_of(watch, DAO_PLACE_KIND_DEVICE, *out_address, size_bytes);
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

/* Memory is about to go back, which callbacks may touch once more; whoever has the addresses next did not
   free what is poison there. */
static void unpoison(const dao_watch_t *watch, void *address, size_t size_bytes)
{
    if (watch->is_poisoned) {
        dao_unpoison(address, size_bytes);
    }
}

static dao_status_t watch_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_watch_t *watch = watch_of(device);
    watch_range_t segment = segment_of(watch, DAO_PLACE_KIND_DEVICE, address, size_bytes);
    unpoison(watch, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    dao_annotate_releasing(place_of(watch), address);
    dao_status_t status = memory_give(watch, address, size_bytes);
    if (status != DAO_OK) {
        dao_annotate_obtained(place_of(watch), address, size_bytes);
    }
    return tell_kept(segment, status);
}

static dao_status_t watch_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status = watch->inner->pinned_alloc(watch->device, size_bytes, out_address);
    if (status == DAO_OK) {
        watch_range_t segment = segment_of(watch, DAO_PLACE_KIND_PINNED, *out_address, size_bytes);
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

static dao_status_t watch_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_watch_t *watch = watch_of(device);
    watch_range_t segment = segment_of(watch, DAO_PLACE_KIND_PINNED, address, size_bytes);
    unpoison(watch, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    return tell_kept(segment, watch->inner->pinned_free(watch->device, address, size_bytes));
}

static dao_status_t watch_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status = watch->inner->address_reserve(watch->device, size_bytes, out_address);
    if (status == DAO_OK) { /* with page mapping blocks lie across pages: the whole range is annotated */
        dao_annotate_obtained(place_of(watch), *out_address, size_bytes);
    }
    return status;
}

static dao_status_t watch_address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_watch_t *watch = watch_of(device);
    dao_annotate_releasing(place_of(watch), address);
    dao_status_t status = watch->inner->address_release(watch->device, address, size_bytes);
    if (status != DAO_OK) {
        dao_annotate_obtained(place_of(watch), address, size_bytes);
    }
    return status;
}

static dao_status_t watch_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                       dao_backend_pages_t **out_pages)
{
    const dao_watch_t *watch = watch_of(device);
    return watch->inner->pages_create(watch->device, size_bytes, out_pages);
}

static dao_status_t watch_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    const dao_watch_t *watch = watch_of(device);
    return watch->inner->pages_destroy(watch->device, pages);
}

static dao_status_t watch_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status = watch->inner->pages_map(watch->device, pages, address);
    if (status == DAO_OK) {
        watch_range_t segment =
            segment_of(watch, DAO_PLACE_KIND_DEVICE, address, watch->inner->pages_size(pages));
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

static dao_status_t watch_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status = watch->inner->pages_map_run(watch->device, pages, page_count, address);
    if (status == DAO_OK) {
        tell_each(watch, DAO_SEGMENT_EVENT_OBTAINED, page_count, watch->inner->pages_size(pages[0]), address);
    }
    return status;
}

static dao_status_t watch_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    const dao_watch_t *watch = watch_of(device);
    size_t size_bytes = watch->inner->pages_size(pages);
    watch_range_t segment = segment_of(watch, DAO_PLACE_KIND_DEVICE, address, size_bytes);
    unpoison(watch, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    return tell_kept(segment, watch->inner->pages_unmap(watch->device, pages, address));
}

static dao_status_t watch_pages_unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                          size_t page_count, void *address)
{
    const dao_watch_t *watch = watch_of(device);
    size_t page_bytes = watch->inner->pages_size(pages[0]);
    unpoison(watch, address, page_count * page_bytes);
    tell_each(watch, DAO_SEGMENT_EVENT_RELEASING, page_count, page_bytes, address);
    dao_status_t status = watch->inner->pages_unmap_run(watch->device, pages, page_count, address);
    if (status != DAO_OK) {
        tell_each(watch, DAO_SEGMENT_EVENT_OBTAINED, page_count, page_bytes, address);
    }
    return status;
}

static dao_status_t watch_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                              size_t page_count, void *address,
                                              dao_backend_pages_t **out_pages)
{
    const dao_watch_t *watch = watch_of(device);
    dao_status_t status =
        watch->inner->pages_create_mapped(watch->device, page_bytes, page_count, address, out_pages);
    if (status == DAO_OK) {
        tell_each(watch, DAO_SEGMENT_EVENT_OBTAINED, page_count, page_bytes, address);
    }
    return status;
}

void dao_watch_init(dao_watch_t *watch, const dao_backend_ops_t *ops, dao_backend_device_t *device,
                    int32_t device_index)
{
    *watch = (dao_watch_t){.inner = ops, .device = device, .device_index = device_index};
    watch->ops = (dao_backend_ops_t){.version = ops->version,
                                     .name = ops->name,
                                     .device_query = watch_device_query,
                                     .memory_alloc = watch_memory_alloc,
                                     .memory_free = watch_memory_free,
                                     .pinned_alloc = watch_pinned_alloc,
                                     .pinned_free = watch_pinned_free};
    if (dao_backend_has_pages(ops)) {
        watch->ops.address_reserve = watch_address_reserve;
        watch->ops.address_release = watch_address_release;
        watch->ops.pages_create = watch_pages_create;
        watch->ops.pages_destroy = watch_pages_destroy;
        watch->ops.pages_map = watch_pages_map;
        watch->ops.pages_map_run = ops->pages_map_run != NULL ? watch_pages_map_run : NULL;
        watch->ops.pages_unmap = watch_pages_unmap;
        watch->ops.pages_unmap_run = ops->pages_unmap_run != NULL ? watch_pages_unmap_run : NULL;
        watch->ops.pages_size = ops->pages_size;
        watch->ops.pages_create_mapped = ops->pages_create_mapped != NULL ? watch_pages_create_mapped : NULL;
    }
}

dao_status_t dao_watch_pool_begin(dao_watch_t *watch)
{
    dao_status_t status = watch->inner->pool_create(watch->device, &watch->pool);
    if (status != DAO_OK) {
        watch->pool = NULL;
    }
    return status;
}

void dao_watch_pool_end(dao_watch_t *watch)
{
    if (watch->pool != NULL) {
        watch->inner->pool_destroy(watch->device, watch->pool);
        watch->pool = NULL;
    }
}
