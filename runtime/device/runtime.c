/* SPDX-License-Identifier: Apache-2.0 */
/* A device's record: references, spare events, and waiting.

   Counted: the context holds one reference, each handle, stream and event of the device one. */
#include "runtime/device/runtime.h"

/* ---- references ---- */

dao_runtime_t *dao_runtime_retain(dao_runtime_t *runtime)
{
    uint32_t before = atomic_fetch_add_explicit(&runtime->reference_count, 1, memory_order_relaxed);
    DAO_ASSERT(before > 0);
    (void)before;
    return runtime;
}

void dao_runtime_release(dao_runtime_t *runtime)
{
    uint32_t before = atomic_fetch_sub_explicit(&runtime->reference_count, 1, memory_order_acq_rel);
    DAO_ASSERT(before > 0);
    if (before == 1 && !dao_core_is_forked(runtime->core)) {
        runtime->end(runtime);
    }
}

dao_allocator_t *dao_runtime_allocator(dao_runtime_t *runtime, dao_place_kind_t kind)
{
    DAO_ASSERT(kind == DAO_PLACE_KIND_PINNED || kind == DAO_PLACE_KIND_DEVICE);
    return kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
}

/* ---- events ---- */

dao_status_t dao_runtime_event_take(dao_runtime_t *runtime, dao_backend_event_t **out_event)
{
    dao_spare_events_t *spare = &runtime->spare;
    dao_backend_event_t *event = NULL;
    dao_mutex_lock(&spare->lock);
    if (spare->count > 0) {
        event = spare->events[--spare->count];
    }
    dao_mutex_unlock(&spare->lock);
    if (event == NULL) {
        dao_status_t status =
            dao_runtime_told(runtime, runtime->ops->event_create(runtime->device, false, &event));
        if (status != DAO_OK) {
            return status;
        }
    }
    *out_event = event;
    return DAO_OK;
}

void dao_runtime_event_give(dao_runtime_t *runtime, dao_backend_event_t *event)
{
    dao_spare_events_t *spare = &runtime->spare;
    dao_mutex_lock(&spare->lock);
    if (event != NULL && spare->count < DAO_SPARE_EVENT_COUNT) {
        spare->events[spare->count++] = event;
        event = NULL;
    }
    dao_mutex_unlock(&spare->lock);
    if (event != NULL) {
        runtime->ops->event_destroy(event);
    }
}

/* Waits by the stream itself: for later work too, but surely. */
static dao_status_t wait_for_stream(dao_runtime_t *runtime, dao_backend_stream_t *stream,
                                    dao_status_t first_status)
{
    dao_error_record_t record;
    dao_error_save(&record, first_status);
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->stream_synchronize(stream));
    return first_status == DAO_OK ? status : dao_error_restore(&record);
}

dao_status_t dao_runtime_wait(dao_runtime_t *runtime, dao_backend_stream_t *stream)
{
    dao_backend_event_t *event;
    if (dao_runtime_event_take(runtime, &event) != DAO_OK) {
        return wait_for_stream(runtime, stream, DAO_OK);
    }
    dao_status_t status;
    if (dao_runtime_told(runtime, runtime->ops->event_record(event, stream)) != DAO_OK) {
        status = wait_for_stream(runtime, stream, DAO_OK);
    } else if ((status = dao_runtime_told(runtime, runtime->ops->event_synchronize(event))) != DAO_OK) {
        status = wait_for_stream(runtime, stream, status); /* the caller may let go of the memory now */
    }
    dao_runtime_event_give(runtime, event);
    return status;
}

dao_status_t dao_runtime_synchronize(dao_runtime_t *runtime)
{
    uint64_t epoch =
        dao_stream_fences_close(runtime->fences); /* before the wait: later frees may not be covered */
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->device_synchronize(runtime->device));
    if (status == DAO_OK) {
        dao_stream_fences_finished(runtime->fences, 0, epoch);
    }
    return status;
}
