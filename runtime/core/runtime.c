/* SPDX-License-Identifier: Apache-2.0 */
/* One device: its allocators, its three streams, its spare events, and the frees that wait for a stream.

       dao_memory_release() --event not finished--> deferred list --event finished--> allocator's free
                                                     ^      |
                                                     +------+ asked again, at the next alloc, free, trim or
                                                     sync

   Counted: the context holds one reference, each handle, stream and event of the device one. A deferred free
   holds none: the last reference waits for all of them, so that nothing is left behind. One that was made
   while its stream was being captured holds a reference to the stream until its event is recorded, and is
   counted in the stream's late_count.

   Invariants, outside of the lock's critical sections: `deferred_count` is the number of deferred frees on
   the list and in the hands of threads that drain; spare_events[0 .. spare_count) are not recorded by anybody
   else. */
#include "runtime/observe/watch.h"
#include "runtime/place/pressure_internal.h"

#include "allocators/segments/pinned.h"
#include "allocators/slow_path.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/observe/event_ring.h"
#include "runtime/place/hardening.h"
#include "runtime/place/place_start.h"
#include "runtime/sharing/lease_internal.h"

#include <inttypes.h>

/* Deferred frees that one drain asks for at most. */
#define DRAIN_COUNT 16

/* Events kept for reuse. */
#define SPARE_COUNT 64

struct dao_runtime_private {
    dao_core_t *core;                       /* a reference of its own */
    dao_watch_t watch;                      /* tells what memory comes and goes */
    dao_place_origin_t origin;              /* where the allocators' memory comes from */
    _Atomic uint64_t deferred_pinned_count; /* of the runtime's deferred frees, those of pinned memory */
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_deferred_t *first;
    dao_deferred_t *last;
    uint64_t pass; /* the latest dao_runtime_drain_all(), from 1 */
    dao_backend_event_t *spare_events[SPARE_COUNT];
    uint32_t spare_count;
};

/* ---- start and end ---- */

static void drop_all(dao_runtime_t *runtime);

static void runtime_destroy(dao_runtime_t *runtime)
{
    struct dao_runtime_private *own = runtime->own;
    for (uint32_t i = 0; i < own->spare_count; i++) {
        runtime->ops->event_destroy(own->spare_events[i]);
    }
    for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
        if (runtime->streams[role].backend != NULL) {
            runtime->ops->stream_destroy(runtime->streams[role].backend);
        }
    }
    if (runtime->pinned_memory != NULL) {
        runtime->pinned_memory->ops->destroy(runtime->pinned_memory);
    }
    if (runtime->device_memory != NULL) {
        runtime->device_memory->ops->destroy(runtime->device_memory);
    }
    dao_watch_pool_end(&own->watch);
    dao_stream_fences_destroy(runtime->fences);
    if (runtime->bytes_stream != NULL) {
        runtime->ops->stream_destroy(runtime->bytes_stream);
    }
    if (runtime->device != NULL) {
        runtime->ops->device_close(runtime->device);
    }
    if (dao_runtime_is_lost(runtime)) {
        dao_slow_path_end();
    }
    dao_core_release(own->core);
    dao_retained_finish(&runtime->retained);
    dao_shares_finish(&runtime->shares);
    dao_mutex_finish(&own->lock);
    dao_host_free(own);
    dao_host_free(runtime);
}

/* Gives a runtime that runtime_destroy() takes, with nothing opened; NULL without memory. */
static dao_runtime_t *runtime_empty(dao_core_t *core, int32_t device_index)
{
    dao_runtime_t *runtime = dao_host_calloc(1, sizeof(*runtime));
    struct dao_runtime_private *own = dao_host_calloc(1, sizeof(*own));
    if (runtime == NULL || own == NULL) {
        dao_host_free(own);
        dao_host_free(runtime);
        return NULL;
    }
    dao_mutex_init(&own->lock, DAO_RANK_RUNTIME);
    dao_retained_init(&runtime->retained);
    dao_shares_init(&runtime->shares);
    own->core = dao_core_retain(core);
    runtime->ops = core->ops;
    runtime->device_index = device_index;
    runtime->own = own;
    atomic_init(&runtime->reference_count, 1);
    return runtime;
}

/* Hardens both places, as far as that is said, and makes what the device's needs for it. */
static dao_status_t harden(dao_runtime_t *runtime)
{
    dao_core_t *core = runtime->own->core;
    dao_place_t device = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    if (dao_hardening_of(core, device) != 0) {
        dao_status_t status = runtime->ops->stream_create(runtime->device, &runtime->bytes_stream);
        if (status != DAO_OK) {
            runtime->bytes_stream = NULL;
            return status;
        }
    }
    dao_status_t status = dao_hardening_wrap(core, runtime, DAO_PLACE_KIND_DEVICE, &runtime->device_memory);
    return status != DAO_OK
               ? status
               : dao_hardening_wrap(core, runtime, DAO_PLACE_KIND_PINNED, &runtime->pinned_memory);
}

/* Both as they were configured: nobody changes that while the device starts. */
static dao_status_t allocators_create(dao_runtime_t *runtime)
{
    struct dao_runtime_private *own = runtime->own;
    dao_watch_init(&own->watch, runtime->ops, runtime->device, runtime->device_index);
    own->origin = (dao_place_origin_t){.ops = &own->watch.ops,
                                       .device = dao_watch_device(&own->watch),
                                       .fences = runtime->fences,
                                       .step_plan = &own->core->step_plan};
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    const dao_place_config_t *config = &own->core->device_configs[place.index];
    dao_status_t status = DAO_OK;
    if (config->memory_pool && runtime->info.memory_pools) {
        status = dao_watch_pool_begin(&own->watch);
        own->origin.has_pool = status == DAO_OK;
    }
    if (status == DAO_OK) {
        status = dao_place_start(place, config, &own->origin, &runtime->device_memory);
    }
    if (status == DAO_OK) {
        place.kind = DAO_PLACE_KIND_PINNED;
        own->origin.budget = &own->core->host_budget;
        status = dao_place_start(place, &own->core->pinned_configs[place.index], &own->origin,
                                 &runtime->pinned_memory);
    }
    status = status == DAO_OK ? harden(runtime) : status;
    if (status == DAO_OK) {
        dao_alloc_fallback_set(runtime);
    }
    return status;
}

static dao_status_t streams_create(dao_runtime_t *runtime)
{
    for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
        dao_stream_t *stream = &runtime->streams[role];
        stream->runtime = runtime;
        stream->is_own = true;
        atomic_init(&stream->reference_count, 1);
        dao_status_t status = runtime->ops->stream_create(runtime->device, &stream->backend);
        if (status != DAO_OK) {
            stream->backend = NULL;
            return status;
        }
    }
    return DAO_OK;
}

dao_status_t dao_runtime_create(dao_core_t *core, int32_t device_index, dao_runtime_t **out_runtime)
{
    dao_runtime_t *runtime = runtime_empty(core, device_index);
    if (runtime == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to start device:%" PRId32, device_index);
    }
    dao_status_t status = core->ops->device_open(core->backend, device_index, &runtime->device);
    if (status == DAO_OK) {
        status = core->ops->device_query(runtime->device, &runtime->info);
    }
    if (status == DAO_OK) {
        status = dao_stream_fences_create(runtime->ops, runtime->device, &runtime->fences);
    }
    if (status == DAO_OK) {
        status = allocators_create(runtime);
    }
    if (status == DAO_OK) {
        status = streams_create(runtime);
    }
    if (status != DAO_OK) {
        dao_error_prefix("device:%" PRId32 " could not be started: ", device_index);
        dao_error_record_t record;
        dao_error_save(&record, status);
        runtime_destroy(runtime);
        return dao_error_restore(&record);
    }
    dao_log(DAO_LOG_LEVEL_INFO, "device:%" PRId32 " started: %s, %" PRIu64 " bytes", device_index,
            runtime->info.name, runtime->info.total_bytes);
    *out_runtime = runtime;
    return DAO_OK;
}

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
    if (before == 1 && !dao_core_is_forked(runtime->own->core)) {
        dao_runtime_drain_all(runtime);
        drop_all(runtime);
        runtime_destroy(runtime);
    }
}

dao_core_t *dao_runtime_core(dao_runtime_t *runtime)
{
    return runtime->own->core;
}

dao_allocator_t *dao_runtime_allocator(dao_runtime_t *runtime, dao_place_kind_t kind)
{
    DAO_ASSERT(kind == DAO_PLACE_KIND_PINNED || kind == DAO_PLACE_KIND_DEVICE);
    return kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
}

/* ---- events ---- */

dao_status_t dao_runtime_event_take(dao_runtime_t *runtime, dao_backend_event_t **out_event)
{
    struct dao_runtime_private *own = runtime->own;
    dao_backend_event_t *event = NULL;
    dao_mutex_lock(&own->lock);
    if (own->spare_count > 0) {
        event = own->spare_events[--own->spare_count];
    }
    dao_mutex_unlock(&own->lock);
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
    struct dao_runtime_private *own = runtime->own;
    dao_mutex_lock(&own->lock);
    if (event != NULL && own->spare_count < SPARE_COUNT) {
        own->spare_events[own->spare_count++] = event;
        event = NULL;
    }
    dao_mutex_unlock(&own->lock);
    if (event != NULL) {
        runtime->ops->event_destroy(event);
    }
}

/* It is looked at behind the event, too, since another thread may begin the capture. */
dao_status_t dao_runtime_record(dao_runtime_t *runtime, dao_backend_event_t *event,
                                const dao_stream_t *stream)
{
    if (dao_stream_is_captured(stream)) {
        return DAO_ERR_BUSY;
    }
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->event_record(event, stream->backend));
    return status == DAO_OK && dao_stream_is_captured(stream) ? DAO_ERR_BUSY : status;
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
        dao_stream_fences_epoch(runtime->fences); /* before the wait: later frees may not be covered */
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->device_synchronize(runtime->device));
    if (status == DAO_OK) {
        dao_stream_fences_finished(runtime->fences, 0, epoch);
    }
    return status;
}

/* ---- frees that wait for a stream ---- */

void dao_runtime_block_free(dao_runtime_t *runtime, dao_place_kind_t kind, void *address)
{
    dao_status_t status;
    if (dao_lease_retires(runtime, kind, address, NULL, &status)) {
        if (status != DAO_OK) {
            dao_log(DAO_LOG_LEVEL_ERROR, "the memory of a handle could not be freed: %s", dao_last_message());
        }
        return;
    }
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, kind);
    dao_events_note_free(runtime->own->core, (dao_place_t){kind, runtime->device_index}, address,
                         dao_events_ticks());
    if (kind == DAO_PLACE_KIND_PINNED && dao_device_get_current() != runtime->device_index &&
        allocator->ops->free_deferred != NULL) {
        dao_pinned_free_deferred(allocator, address);
        dao_pressure_note_free();
        return;
    }
    if (dao_allocator_free(allocator, address) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "the memory of a handle could not be freed: %s", dao_last_message());
    }
    dao_pressure_note_free();
}

/* Lets go of the stream of a deferred free. Whoever finds the stream's late_count to be 0 finds the
   references gone, too. */
static void late_end(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    struct dao_runtime_private *own = runtime->own;
    dao_stream_t *stream = deferred->stream;
    if (stream == NULL) {
        return;
    }
    deferred->stream = NULL;
    dao_mutex_lock(&own->lock);
    stream->late_count--;
    bool is_last = dao_stream_drop(stream);
    dao_mutex_unlock(&own->lock);
    if (is_last) {
        dao_stream_end(stream);
    }
}

static void reclaim(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    struct dao_runtime_private *own = runtime->own;
    late_end(runtime, deferred);
    dao_runtime_block_free(runtime, deferred->kind, deferred->address);
    dao_runtime_event_give(runtime, deferred->event);
    if (deferred->kind == DAO_PLACE_KIND_PINNED) {
        atomic_fetch_sub(&own->deferred_pinned_count, 1);
    }
    dao_handle_bury(deferred->container); /* `deferred` is a part of it */
    atomic_fetch_sub(&runtime->deferred_count, 1);
    dao_slow_path_end();
}

static void list_append(struct dao_runtime_private *own, dao_deferred_t *deferred)
{
    deferred->next = NULL;
    dao_mutex_lock(&own->lock);
    if (own->last != NULL) {
        own->last->next = deferred;
    } else {
        own->first = deferred;
    }
    own->last = deferred;
    dao_mutex_unlock(&own->lock);
}

/* Takes the frees that have waited longest, at most `count`, off the list. */
static dao_deferred_t *list_take(struct dao_runtime_private *own, uint32_t count)
{
    dao_mutex_lock(&own->lock);
    dao_deferred_t *first = own->first;
    dao_deferred_t *last = first;
    while (last != NULL && --count > 0 && last->next != NULL) {
        last = last->next;
    }
    if (last != NULL) {
        own->first = last->next;
        own->last = own->first != NULL ? own->last : NULL;
        last->next = NULL;
    }
    dao_mutex_unlock(&own->lock);
    return first;
}

void dao_runtime_defer(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    struct dao_runtime_private *own = runtime->own;
    if (deferred->kind == DAO_PLACE_KIND_PINNED) {
        atomic_fetch_add(&own->deferred_pinned_count, 1);
    }
    if (deferred->stream != NULL) {
        dao_stream_retain(deferred->stream);
        dao_mutex_lock(&own->lock);
        deferred->stream->late_count++;
        dao_mutex_unlock(&own->lock);
    }
    dao_slow_path_begin();
    atomic_fetch_add(&runtime->deferred_count, 1);
    list_append(own, deferred);
    dao_pressure_note_free();
}

uint64_t dao_runtime_deferred_count(dao_runtime_t *runtime, dao_place_kind_t kind)
{
    uint64_t pinned_count = atomic_load(&runtime->own->deferred_pinned_count);
    uint64_t count = atomic_load(&runtime->deferred_count);
    return kind == DAO_PLACE_KIND_PINNED ? pinned_count
                                         : count - (pinned_count < count ? pinned_count : count);
}

/* Records the event of a free that was made while its stream was being captured. DAO_ERR_BUSY: it is being
   captured still. */
static dao_status_t record_late(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    if (deferred->stream == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_runtime_record(runtime, deferred->event, deferred->stream);
    if (status == DAO_OK) {
        late_end(runtime, deferred);
    }
    return status;
}

/* Tells whether the work before a deferred free is done. A lost device does none any more, and is not asked.
   An event that cannot be recorded now is recorded when its free is looked at again. */
static bool has_finished(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    return dao_runtime_is_lost(runtime) ||
           (record_late(runtime, deferred) == DAO_OK &&
            dao_runtime_told(runtime, runtime->ops->event_query(deferred->event)) != DAO_ERR_NOT_READY);
}

/* Waits for the work before a deferred free, by its stream where its event cannot be recorded. False if that
   is being captured. */
static bool wait_for_deferred(dao_runtime_t *runtime, dao_deferred_t *deferred)
{
    if (dao_runtime_is_lost(runtime)) {
        return true;
    }
    dao_status_t status = record_late(runtime, deferred);
    if (status == DAO_OK) {
        status = dao_runtime_told(runtime, runtime->ops->event_synchronize(deferred->event));
    } else if (status != DAO_ERR_BUSY) {
        status = dao_runtime_told(runtime, runtime->ops->stream_synchronize(deferred->stream->backend));
    }
    if (deferred->stream != NULL && dao_stream_fence_must_wait_elsewhere(status)) {
        return false;
    }
    if (status != DAO_OK) { /* an error is an end, too */
        (void)dao_runtime_told(runtime, runtime->ops->device_synchronize(runtime->device));
    }
    return true;
}

/* Asks every event of a chain. Those that have not finished go to the end of the list: their turn comes again
   after all others had theirs. An event that answers an error has finished; the error is for whoever
   synchronizes. */
static void chain_poll(dao_runtime_t *runtime, dao_deferred_t *chain)
{
    while (chain != NULL) {
        dao_deferred_t *deferred = chain;
        chain = deferred->next;
        if (has_finished(runtime, deferred)) {
            reclaim(runtime, deferred);
        } else {
            list_append(runtime->own, deferred);
        }
    }
}

void dao_runtime_drain_some(dao_runtime_t *runtime)
{
    if (dao_watch_callback_runs) {
        return; /* an allocator is locked */
    }
    dao_error_record_t record; /* what the events answer is not this caller's error */
    dao_error_save(&record, dao_last_status());
    chain_poll(runtime, list_take(runtime->own, DRAIN_COUNT));
    (void)dao_error_restore(&record);
}

static uint64_t pass_begin(struct dao_runtime_private *own)
{
    dao_mutex_lock(&own->lock);
    uint64_t pass = ++own->pass;
    dao_mutex_unlock(&own->lock);
    return pass;
}

/* Takes the first free off the list that no pass from this one on has found under capture: the others stay
   where other threads find them. False: there is none, nor in the hands of another thread; true with NULL:
   there may be one in such hands. */
static bool pass_take(dao_runtime_t *runtime, uint64_t pass, dao_deferred_t **out_deferred)
{
    struct dao_runtime_private *own = runtime->own;
    dao_mutex_lock(&own->lock);
    uint64_t passed_count = 0;
    dao_deferred_t *before = NULL;
    dao_deferred_t *deferred = own->first;
    for (; deferred != NULL && deferred->passed_by >= pass; deferred = deferred->next) {
        before = deferred;
        passed_count++;
    }
    if (deferred != NULL) {
        *(before != NULL ? &before->next : &own->first) = deferred->next;
        own->last = own->last == deferred ? before : own->last;
    }
    bool is_left = atomic_load(&runtime->deferred_count) > passed_count;
    dao_mutex_unlock(&own->lock);
    *out_deferred = deferred;
    return is_left;
}

void dao_runtime_drain_all(dao_runtime_t *runtime)
{
    struct dao_runtime_private *own = runtime->own;
    uint64_t pass = pass_begin(own);
    dao_deferred_t *deferred;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    while (pass_take(runtime, pass, &deferred)) {
        if (deferred == NULL) {
            dao_thread_yield();
        } else if (wait_for_deferred(runtime, deferred)) {
            reclaim(runtime, deferred);
        } else {
            deferred->passed_by = pass;
            list_append(own, deferred);
        }
    }
    (void)dao_error_restore(&record);
}

static bool is_late(dao_runtime_t *runtime, const dao_stream_t *stream)
{
    dao_mutex_lock(&runtime->own->lock);
    bool is_named = stream->late_count > 0;
    dao_mutex_unlock(&runtime->own->lock);
    return is_named;
}

void dao_runtime_drain_late(dao_runtime_t *runtime, dao_stream_t *stream)
{
    if (dao_watch_callback_runs) {
        return; /* an allocator is locked */
    }
    while (is_late(runtime, stream)) {
        dao_deferred_t *chain = list_take(runtime->own, UINT32_MAX);
        if (chain == NULL) {
            dao_thread_yield(); /* they are in the hands of another thread */
        }
        while (chain != NULL) {
            dao_deferred_t *deferred = chain;
            chain = deferred->next;
            if (deferred->stream == stream) {
                reclaim(runtime, deferred);
            } else {
                list_append(runtime->own, deferred);
            }
        }
    }
}

/* Reclaims what is left, when nobody has the runtime any more: frees on the device's own streams, which
   are being captured. */
static void drop_all(dao_runtime_t *runtime)
{
    dao_deferred_t *deferred;
    while ((deferred = list_take(runtime->own, 1)) != NULL) {
        reclaim(runtime, deferred);
    }
}

bool dao_runtime_wait_frees(dao_runtime_t *runtime, dao_place_kind_t kind)
{
    dao_stream_fence_t pending = dao_stream_fences_pending(runtime->fences);
    bool has_deferred = dao_runtime_deferred_count(runtime, kind) > 0;
    if (has_deferred) {
        dao_runtime_drain_all(runtime);
    }
    if (!dao_stream_fence_is_empty(&pending)) {
        dao_error_record_t record;
        dao_error_save(&record, dao_last_status());
        (void)dao_stream_fences_wait(runtime->fences, &pending); /* an error is an end, too */
        (void)dao_error_restore(&record);
    }
    return has_deferred || !dao_stream_fence_is_empty(&pending);
}
