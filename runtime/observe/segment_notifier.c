/* SPDX-License-Identifier: Apache-2.0 */
/* Tells the segment callbacks what memory the places of devices obtain and release.

       allocator ──> notifier->ops ──> the backend's table
                         │
                         └──> callbacks of the place, each with the allocator's lock held

   Being a table around the backend's, it sees all that any strategy takes, and allocators know nothing of it.
   Obtained is told after the backend's call, releasing before it; if the backend then refuses, the memory is
   told to be there again.

   Callbacks are in a table (callback_table.h): while its count is 0 nothing else is looked at. */
#include "runtime/observe/segment_notifier.h"

#include "allocators/slow_path.h"
#include "base/memory/poison.h"
#include "base/report/error.h"
#include "runtime/core/callback_table.h"
#include "runtime/core/thread.h"
#include "runtime/observe/annotate.h"

static dao_callback_slot_t slots[DAO_SEGMENT_CALLBACK_COUNT_MAX];
static dao_callback_table_t callbacks = DAO_CALLBACK_TABLE_INITIALIZER(slots);

/* ---- callbacks ---- */

bool dao_segment_notifier_add(dao_place_t place, dao_segment_callback_t function, void *user,
                              uint64_t *out_id)
{
    return dao_callback_table_add(&callbacks, place, (void (*)(void))function, user, out_id);
}

dao_status_t dao_segment_callback_remove(uint64_t id)
{
    dao_status_t status = dao_thread_check();
    return status != DAO_OK ? status
                            : dao_callback_table_remove(&callbacks, id, NULL, "dao_segment_callback_remove");
}

void dao_segment_notifier_clear(void)
{
    dao_callback_table_clear(&callbacks);
}

/* ---- telling ---- */

typedef struct segment_range {
    dao_place_t place;
    char *address;
    size_t size_bytes;
} segment_range_t;

static void tell(const segment_range_t *segment, dao_segment_event_t event)
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

void dao_segment_notify(int32_t device_index, dao_segment_event_t event, void *address, size_t size_bytes)
{
    segment_range_t segment = {{DAO_PLACE_KIND_DEVICE, device_index}, address, size_bytes};
    tell(&segment, event);
}

static dao_segment_notifier_t *notifier_of(dao_backend_device_t *device)
{
    return (dao_segment_notifier_t *)(void *)device;
}

static segment_range_t segment_of(const dao_segment_notifier_t *notifier, dao_place_kind_t kind,
                                  void *address, size_t size_bytes)
{
    return (segment_range_t){{kind, notifier->device_index}, address, size_bytes};
}

static dao_place_t place_of(const dao_segment_notifier_t *notifier)
{
    return (dao_place_t){DAO_PLACE_KIND_DEVICE, notifier->device_index};
}

/* Tells that the backend has refused to take memory back, if it has. */
static dao_status_t tell_kept(segment_range_t segment, dao_status_t status)
{
    if (status != DAO_OK) {
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

/* Tells of pages of one size, one behind the other. */
static void tell_each(const dao_segment_notifier_t *notifier, dao_segment_event_t event, size_t page_count,
                      size_t page_bytes, void *address)
{
    for (size_t i = 0; i < page_count; i++) {
        segment_range_t page =
            segment_of(notifier, DAO_PLACE_KIND_DEVICE, (char *)address + i * page_bytes, page_bytes);
        tell(&page, event);
    }
}

/* ---- the table ---- */

static dao_status_t device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    return notifier->inner->device_query(notifier->device, out_info);
}

static dao_status_t memory_take(const dao_segment_notifier_t *notifier, size_t size_bytes, void **out_address)
{
    return notifier->pool == NULL
               ? notifier->inner->memory_alloc(notifier->device, size_bytes, out_address)
               : notifier->inner->pool_alloc(notifier->device, notifier->pool, size_bytes, out_address);
}

static dao_status_t memory_give(const dao_segment_notifier_t *notifier, void *address, size_t size_bytes)
{
    return notifier->pool == NULL ? notifier->inner->memory_free(notifier->device, address, size_bytes)
                                  : notifier->inner->pool_free(notifier->device, notifier->pool, address);
}

static dao_status_t memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status = memory_take(notifier, size_bytes, out_address);
    if (status == DAO_OK) {
        dao_annotate_obtained(place_of(notifier), *out_address, size_bytes);
        segment_range_t segment = segment_of(notifier, DAO_PLACE_KIND_DEVICE, *out_address, size_bytes);
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

/* Memory is about to go back, which callbacks may touch once more; whoever has the addresses next did not
   free what is poison there. */
static void unpoison(const dao_segment_notifier_t *notifier, void *address, size_t size_bytes)
{
    if (notifier->is_poisoned) {
        dao_unpoison(address, size_bytes);
    }
}

static dao_status_t memory_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    segment_range_t segment = segment_of(notifier, DAO_PLACE_KIND_DEVICE, address, size_bytes);
    unpoison(notifier, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    dao_annotate_releasing(place_of(notifier), address);
    dao_status_t status = memory_give(notifier, address, size_bytes);
    if (status != DAO_OK) {
        dao_annotate_obtained(place_of(notifier), address, size_bytes);
    }
    return tell_kept(segment, status);
}

static dao_status_t pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status = notifier->inner->pinned_alloc(notifier->device, size_bytes, out_address);
    if (status == DAO_OK) {
        segment_range_t segment = segment_of(notifier, DAO_PLACE_KIND_PINNED, *out_address, size_bytes);
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

static dao_status_t pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    segment_range_t segment = segment_of(notifier, DAO_PLACE_KIND_PINNED, address, size_bytes);
    unpoison(notifier, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    return tell_kept(segment, notifier->inner->pinned_free(notifier->device, address, size_bytes));
}

static dao_status_t address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status = notifier->inner->address_reserve(notifier->device, size_bytes, out_address);
    if (status == DAO_OK) { /* with page mapping blocks lie across pages: the whole range is annotated */
        dao_annotate_obtained(place_of(notifier), *out_address, size_bytes);
    }
    return status;
}

static dao_status_t address_release(dao_backend_device_t *device, void *address, size_t size_bytes)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_annotate_releasing(place_of(notifier), address);
    dao_status_t status = notifier->inner->address_release(notifier->device, address, size_bytes);
    if (status != DAO_OK) {
        dao_annotate_obtained(place_of(notifier), address, size_bytes);
    }
    return status;
}

static dao_status_t pages_create(dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_pages_t **out_pages)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    return notifier->inner->pages_create(notifier->device, size_bytes, out_pages);
}

static dao_status_t pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    return notifier->inner->pages_destroy(notifier->device, pages);
}

static dao_status_t pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status = notifier->inner->pages_map(notifier->device, pages, address);
    if (status == DAO_OK) {
        segment_range_t segment =
            segment_of(notifier, DAO_PLACE_KIND_DEVICE, address, notifier->inner->pages_size(pages));
        tell(&segment, DAO_SEGMENT_EVENT_OBTAINED);
    }
    return status;
}

static dao_status_t pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                  size_t page_count, void *address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status = notifier->inner->pages_map_run(notifier->device, pages, page_count, address);
    if (status == DAO_OK) {
        tell_each(notifier, DAO_SEGMENT_EVENT_OBTAINED, page_count, notifier->inner->pages_size(pages[0]),
                  address);
    }
    return status;
}

static dao_status_t pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    size_t size_bytes = notifier->inner->pages_size(pages);
    segment_range_t segment = segment_of(notifier, DAO_PLACE_KIND_DEVICE, address, size_bytes);
    unpoison(notifier, address, size_bytes);
    tell(&segment, DAO_SEGMENT_EVENT_RELEASING);
    return tell_kept(segment, notifier->inner->pages_unmap(notifier->device, pages, address));
}

static dao_status_t pages_unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                    size_t page_count, void *address)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    size_t page_bytes = notifier->inner->pages_size(pages[0]);
    unpoison(notifier, address, page_count * page_bytes);
    tell_each(notifier, DAO_SEGMENT_EVENT_RELEASING, page_count, page_bytes, address);
    dao_status_t status = notifier->inner->pages_unmap_run(notifier->device, pages, page_count, address);
    if (status != DAO_OK) {
        tell_each(notifier, DAO_SEGMENT_EVENT_OBTAINED, page_count, page_bytes, address);
    }
    return status;
}

static dao_status_t pages_create_mapped(dao_backend_device_t *device, size_t page_bytes, size_t page_count,
                                        void *address, dao_backend_pages_t **out_pages)
{
    const dao_segment_notifier_t *notifier = notifier_of(device);
    dao_status_t status =
        notifier->inner->pages_create_mapped(notifier->device, page_bytes, page_count, address, out_pages);
    if (status == DAO_OK) {
        tell_each(notifier, DAO_SEGMENT_EVENT_OBTAINED, page_count, page_bytes, address);
    }
    return status;
}

void dao_segment_notifier_init(dao_segment_notifier_t *notifier, const dao_backend_ops_t *ops,
                               dao_backend_device_t *device, int32_t device_index)
{
    *notifier = (dao_segment_notifier_t){.inner = ops, .device = device, .device_index = device_index};
    notifier->ops = (dao_backend_ops_t){.version = ops->version,
                                        .name = ops->name,
                                        .device_query = device_query,
                                        .memory_alloc = memory_alloc,
                                        .memory_free = memory_free,
                                        .pinned_alloc = pinned_alloc,
                                        .pinned_free = pinned_free};
    if (dao_backend_has_pages(ops)) {
        notifier->ops.address_reserve = address_reserve;
        notifier->ops.address_release = address_release;
        notifier->ops.pages_create = pages_create;
        notifier->ops.pages_destroy = pages_destroy;
        notifier->ops.pages_map = pages_map;
        notifier->ops.pages_map_run = ops->pages_map_run != NULL ? pages_map_run : NULL;
        notifier->ops.pages_unmap = pages_unmap;
        notifier->ops.pages_unmap_run = ops->pages_unmap_run != NULL ? pages_unmap_run : NULL;
        notifier->ops.pages_size = ops->pages_size;
        notifier->ops.pages_create_mapped = ops->pages_create_mapped != NULL ? pages_create_mapped : NULL;
    }
}

dao_status_t dao_segment_notifier_pool_begin(dao_segment_notifier_t *notifier)
{
    dao_status_t status = notifier->inner->pool_create(notifier->device, &notifier->pool);
    if (status != DAO_OK) {
        notifier->pool = NULL;
    }
    return status;
}

void dao_segment_notifier_pool_end(dao_segment_notifier_t *notifier)
{
    if (notifier->pool != NULL) {
        notifier->inner->pool_destroy(notifier->device, notifier->pool);
        notifier->pool = NULL;
    }
}
