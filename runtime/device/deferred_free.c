/* SPDX-License-Identifier: Apache-2.0 */
/* Deferred frees: blocks whose handle is gone while a stream may still use them, and that follow no stream.

       dao_memory_release() --event not finished--> deferred list --event finished--> allocator's free
                                                     ^      |
                                                     +------+ asked again, at calls of the place

   Who takes or frees a block by the place's fast path does not ask. So they cost nothing there; a request
   that finds no memory leaves that path, and asks before the place grows.

   A deferred free holds no reference to the runtime: the end of the runtime waits for all of them. Until its
   event is recorded, which the capture of its stream or want of memory may put off, it holds a reference to
   the stream, and counts in the stream's late_count.

   Invariants, while the lock is free: `count` includes the frees on the list and those that a draining thread
   has taken off it. pinned_count is the number of those in pinned memory. */
#include "runtime/device/deferred_free.h"

#include "allocators/segments/pinned.h"
#include "base/log.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/core/waiters.h"
#include "runtime/observe/event_ring.h"

/* Deferred frees that one drain asks for at most. */
#define DRAIN_COUNT 16

void dao_deferred_list_init(dao_deferred_list_t *list)
{
    dao_mutex_init(&list->lock, DAO_RANK_RUNTIME);
}

void dao_deferred_list_finish(dao_deferred_list_t *list)
{
    DAO_ASSERT(list->first == NULL);
    DAO_ASSERT(atomic_load(&list->count) == 0);
    DAO_ASSERT(atomic_load(&list->pinned_count) == 0);
    dao_mutex_finish(&list->lock);
}

/* The list ends at `last`, and is part of what is counted. */
static bool is_valid_locked(const dao_deferred_list_t *list)
{
    uint64_t count = 0;
    const dao_deferred_free_t *last = NULL;
    for (const dao_deferred_free_t *deferred = list->first; deferred != NULL; deferred = deferred->next) {
        count++;
        last = deferred;
    }
    return list->last == last && count <= atomic_load(&list->count);
}

static void lock(dao_deferred_list_t *list)
{
    dao_mutex_lock(&list->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(list));
}

static void unlock(dao_deferred_list_t *list)
{
    DAO_ASSERT_HEAVY(is_valid_locked(list));
    dao_mutex_unlock(&list->lock);
}

/* ---- freeing ---- */

void dao_runtime_block_free(dao_runtime_t *runtime, dao_place_kind_t kind, void *address)
{
    dao_status_t status;
    if (dao_retained_retires(&runtime->retained, kind, address, NULL, DAO_BLOCK_OWNER_HANDLE, &status)) {
        if (status != DAO_OK) {
            dao_log(DAO_LOG_LEVEL_ERROR, "the memory of a handle could not be freed: %s", dao_last_message());
        }
        return;
    }
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, kind);
    dao_events_note_free(runtime->core, allocator, (dao_place_t){kind, runtime->device_index}, address);
    if (kind == DAO_PLACE_KIND_PINNED && dao_device_get_current() != runtime->device_index &&
        allocator->ops->free_deferred != NULL) {
        dao_pinned_free_deferred(allocator, address, DAO_BLOCK_OWNER_HANDLE);
        dao_waiters_note_free();
        return;
    }
    if (dao_allocator_free_owned(allocator, address, DAO_BLOCK_OWNER_HANDLE) != DAO_OK) {
        dao_log(DAO_LOG_LEVEL_ERROR, "the memory of a handle could not be freed: %s", dao_last_message());
    }
    dao_waiters_note_free();
}

/* Lets go of the stream of a deferred free. Whoever finds the stream's late_count to be 0 finds the
   references gone, too. */
static void late_end(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    dao_deferred_list_t *list = &runtime->deferred;
    dao_stream_t *stream = deferred->stream;
    if (stream == NULL) {
        return;
    }
    deferred->stream = NULL;
    lock(list);
    DAO_ASSERT(stream->late_count > 0);
    stream->late_count--;
    bool is_last = dao_stream_drop(stream);
    unlock(list);
    if (is_last) {
        dao_stream_end(stream, false);
    }
}

static void reclaim(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    dao_deferred_list_t *list = &runtime->deferred;
    late_end(runtime, deferred);
    dao_runtime_block_free(runtime, deferred->kind, deferred->address);
    dao_runtime_event_give(runtime, deferred->event);
    if (deferred->kind == DAO_PLACE_KIND_PINNED) {
        atomic_fetch_sub(&list->pinned_count, 1);
    }
    dao_handle_bury(deferred->container); /* `deferred` is a part of it */
    atomic_fetch_sub(&list->count, 1);
}

static void list_append(dao_deferred_list_t *list, dao_deferred_free_t *deferred)
{
    deferred->next = NULL;
    lock(list);
    if (list->last != NULL) {
        list->last->next = deferred;
    } else {
        list->first = deferred;
    }
    list->last = deferred;
    unlock(list);
}

/* Takes the frees that have waited longest, at most `count`, off the list. */
static dao_deferred_free_t *list_take(dao_deferred_list_t *list, uint32_t count)
{
    lock(list);
    dao_deferred_free_t *first = list->first;
    dao_deferred_free_t *last = first;
    while (last != NULL && --count > 0 && last->next != NULL) {
        last = last->next;
    }
    if (last != NULL) {
        list->first = last->next;
        list->last = list->first != NULL ? list->last : NULL;
        last->next = NULL;
    }
    unlock(list);
    return first;
}

/* Records the event of a free, unless it is. DAO_ERR_BUSY: its stream is being captured still. */
static dao_status_t record(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    if (deferred->stream == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_stream_is_captured(deferred->stream) ? DAO_ERR_BUSY : DAO_OK;
    if (status == DAO_OK && deferred->event == NULL) {
        status = dao_runtime_event_take(runtime, &deferred->event);
    }
    if (status == DAO_OK) {
        status = dao_runtime_record(runtime, deferred->event, deferred->stream);
    }
    if (status == DAO_OK) {
        late_end(runtime, deferred);
    }
    return status;
}

void dao_runtime_defer(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    dao_deferred_list_t *list = &runtime->deferred;
    if (deferred->kind == DAO_PLACE_KIND_PINNED) {
        atomic_fetch_add(&list->pinned_count, 1);
    }
    dao_stream_retain(deferred->stream);
    lock(list);
    deferred->stream->late_count++;
    unlock(list);
    dao_error_record_t before;
    dao_error_save(&before, dao_last_status());
    (void)record(runtime, deferred); /* or later */
    (void)dao_error_restore(&before);
    atomic_fetch_add(&list->count, 1);
    list_append(list, deferred);
    dao_waiters_note_free();
}

uint64_t dao_runtime_deferred_count(dao_runtime_t *runtime, dao_place_kind_t kind)
{
    uint64_t pinned_count = atomic_load(&runtime->deferred.pinned_count);
    uint64_t count = atomic_load(&runtime->deferred.count);
    return kind == DAO_PLACE_KIND_PINNED ? pinned_count
                                         : count - (pinned_count < count ? pinned_count : count);
}

/* Returns true if the work before a deferred free is done. A lost device does no more work, and is not asked.
   An event that cannot be recorded now is recorded at the next attempt; a host function cannot ask. */
static bool has_finished(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    if (dao_runtime_is_lost(runtime)) {
        return true;
    }
    if (record(runtime, deferred) != DAO_OK) {
        return false;
    }
    return dao_stream_fence_means_ended(
        dao_runtime_told(runtime, runtime->ops->event_query(deferred->event)));
}

/* Waits for the work before a deferred free, by its stream where its event cannot be recorded. False if that
   is being captured, or this is a host function, which may not wait. */
static bool wait_for_deferred(dao_runtime_t *runtime, dao_deferred_free_t *deferred)
{
    if (dao_runtime_is_lost(runtime)) {
        return true;
    }
    dao_status_t status = record(runtime, deferred);
    if (status == DAO_OK) {
        status = dao_runtime_told(runtime, runtime->ops->event_synchronize(deferred->event));
    } else if (status != DAO_ERR_BUSY) {
        status = dao_runtime_told(runtime, runtime->ops->stream_synchronize(deferred->stream->backend));
    }
    if (dao_stream_fence_must_wait_elsewhere(status)) {
        return false;
    }
    if (status != DAO_OK) { /* an error is an end, too */
        (void)dao_runtime_told(runtime, runtime->ops->device_synchronize(runtime->device));
    }
    return true;
}

/* Queries every event of a chain. Frees whose events have not finished go to the end of the list, behind all
   others. An event that answers an error has finished; the next synchronize reports the error. */
static void chain_poll(dao_runtime_t *runtime, dao_deferred_free_t *chain)
{
    while (chain != NULL) {
        dao_deferred_free_t *deferred = chain;
        chain = deferred->next;
        if (has_finished(runtime, deferred)) {
            reclaim(runtime, deferred);
        } else {
            list_append(&runtime->deferred, deferred);
        }
    }
}

void dao_runtime_drain_some(dao_runtime_t *runtime)
{
    if (dao_thread_is_in_callback) {
        return; /* an allocator is locked */
    }
    dao_error_record_t record; /* what the events answer is not this caller's error */
    dao_error_save(&record, dao_last_status());
    chain_poll(runtime, list_take(&runtime->deferred, DRAIN_COUNT));
    (void)dao_error_restore(&record);
}

static uint64_t pass_begin(dao_deferred_list_t *list)
{
    lock(list);
    uint64_t pass = ++list->pass;
    unlock(list);
    return pass;
}

/* Takes the first free off the list that this pass, or a later one, has not found under capture. The others
   stay, where other threads find them. Returns false if all that are left are under capture. Returns true
   with NULL if another thread has taken the rest off the list. */
static bool pass_take(dao_runtime_t *runtime, uint64_t pass, dao_deferred_free_t **out_deferred)
{
    dao_deferred_list_t *list = &runtime->deferred;
    lock(list);
    uint64_t passed_count = 0;
    dao_deferred_free_t *before = NULL;
    dao_deferred_free_t *deferred = list->first;
    for (; deferred != NULL && deferred->passed_by >= pass; deferred = deferred->next) {
        before = deferred;
        passed_count++;
    }
    if (deferred != NULL) {
        *(before != NULL ? &before->next : &list->first) = deferred->next;
        list->last = list->last == deferred ? before : list->last;
    }
    bool is_left = atomic_load(&list->count) > passed_count;
    unlock(list);
    *out_deferred = deferred;
    return is_left;
}

void dao_runtime_drain_all(dao_runtime_t *runtime)
{
    dao_deferred_list_t *list = &runtime->deferred;
    uint64_t pass = pass_begin(list);
    dao_deferred_free_t *deferred;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    while (pass_take(runtime, pass, &deferred)) {
        if (deferred == NULL) {
            dao_thread_yield();
        } else if (wait_for_deferred(runtime, deferred)) {
            reclaim(runtime, deferred);
        } else {
            deferred->passed_by = pass;
            list_append(list, deferred);
        }
    }
    (void)dao_error_restore(&record);
}

static bool is_late(dao_runtime_t *runtime, const dao_stream_t *stream)
{
    lock(&runtime->deferred);
    bool is_named = stream->late_count > 0;
    unlock(&runtime->deferred);
    return is_named;
}

void dao_runtime_drain_late(dao_runtime_t *runtime, dao_stream_t *stream)
{
    if (dao_thread_is_in_callback) {
        return; /* an allocator is locked */
    }
    while (is_late(runtime, stream)) {
        dao_deferred_free_t *chain = list_take(&runtime->deferred, UINT32_MAX);
        if (chain == NULL) {
            dao_thread_yield(); /* another thread has taken them off the list */
        }
        while (chain != NULL) {
            dao_deferred_free_t *deferred = chain;
            chain = deferred->next;
            if (deferred->stream == stream) {
                reclaim(runtime, deferred);
            } else {
                list_append(&runtime->deferred, deferred);
            }
        }
    }
}

void dao_runtime_drain_rest(dao_runtime_t *runtime)
{
    dao_deferred_free_t *deferred;
    while ((deferred = list_take(&runtime->deferred, 1)) != NULL) {
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

void dao_place_drain(dao_place_t place, dao_runtime_t *runtime)
{
    if (runtime != NULL) {
        dao_runtime_drain(runtime);
        if (place.kind == DAO_PLACE_KIND_PINNED) {
            dao_pinned_drain(runtime->pinned_memory);
        }
    }
}
