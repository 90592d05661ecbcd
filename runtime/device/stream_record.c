/* SPDX-License-Identifier: Apache-2.0 */
/* A stream's record: references, its number in the device's table of stream fences, and its end.

   Invariant: a stream gets its number with the first call in stream order, and keeps it until its end. */
#include "runtime/device/runtime.h"

#include "base/memory/host.h"

#include <inttypes.h>

/* ---- stream order ---- */

dao_status_t dao_stream_number_find(dao_stream_t *stream, uint32_t *out_number)
{
    uint32_t number = atomic_load_explicit(&stream->number, memory_order_acquire);
    if (number == 0) {
        dao_stream_fences_t *fences = stream->runtime->fences;
        uint32_t added;
        dao_status_t status = dao_stream_fences_stream_add(fences, stream->backend, &added);
        if (status == DAO_ERR_TOO_MANY) {
            return dao_error(status,
                             "%u streams of device:%" PRId32 ", which is a program's own memory, allocate or "
                             "free in stream order already; destroy streams that are not needed",
                             DAO_STREAM_FENCE_CROWD - 1, stream->runtime->device_index);
        }
        if (status != DAO_OK) {
            return status;
        }
        if (atomic_compare_exchange_strong(&stream->number, &number, added)) {
            number = added;
            bool is_fast =
                stream->runtime->device_memory->ops->alloc_ordered != NULL && added < DAO_STREAM_FENCE_CROWD;
            atomic_store(&stream->fast_number, is_fast ? added : 0);
            if (atomic_load(&stream->adopted.is_gone)) { /* set first there: one of the two sees the other */
                atomic_store(&stream->fast_number, 0);
            }
        } else {
            dao_stream_fences_stream_remove(
                fences, added); /* another thread was faster; nothing was freed under this one */
        }
    }
    *out_number = number;
    return DAO_OK;
}

dao_status_t dao_stream_wait(dao_stream_t *stream)
{
    uint32_t number = atomic_load_explicit(&stream->number, memory_order_acquire);
    dao_runtime_t *runtime = stream->runtime;
    uint64_t epoch =
        dao_stream_fences_close(runtime->fences); /* before the wait: later frees may not be covered */
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->stream_synchronize(stream->backend));
    if (status == DAO_OK && number != 0) {
        dao_stream_fences_finished(runtime->fences, number, epoch);
    }
    return status;
}

/* Waits for a stream's work, whatever comes of it. */
static void wait_for_end(dao_stream_t *stream)
{
    dao_runtime_t *runtime = stream->runtime;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    if (dao_runtime_told(runtime, runtime->ops->stream_synchronize(stream->backend)) != DAO_OK) {
        (void)dao_runtime_told(
            runtime, runtime->ops->device_synchronize(runtime->device)); /* an error is an end, too */
    }
    (void)dao_error_restore(&record);
}

/* Ends what a stream has in the table of fences, behind the stream's work. */
static void number_end(dao_stream_t *stream, bool is_idle)
{
    uint32_t number = atomic_load_explicit(&stream->number, memory_order_acquire);
    if (number == 0) {
        return;
    }
    if (!is_idle) {
        wait_for_end(stream);
    }
    dao_stream_fences_stream_remove(stream->runtime->fences, number);
}

/* ---- adopted streams ---- */

dao_status_t dao_stream_alive_check(const dao_stream_t *stream, const char *function)
{
    if (__builtin_expect(atomic_load_explicit(&stream->adopted.is_gone, memory_order_acquire), 0)) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: the adopted stream %p of device:%" PRId32
                         " was destroyed by its maker, and the handle is another stream's; adopt it again",
                         function, stream->adopted.native, stream->runtime->device_index);
    }
    return DAO_OK;
}

/* ---- capture ---- */

bool dao_stream_is_captured(const dao_stream_t *stream)
{
    return dao_backend_stream_capture(stream->runtime->ops, stream->backend) != 0;
}

dao_status_t dao_stream_takes_work(const dao_stream_t *stream)
{
    const dao_backend_ops_t *ops = stream->runtime->ops;
    if (dao_backend_stream_is_gone(ops, stream->backend)) {
        return dao_error(DAO_ERR_INVALID,
                         "the adopted stream %p of device:%" PRId32
                         " was destroyed by its maker, and the executor still has it",
                         stream->adopted.native, stream->runtime->device_index);
    }
    if (dao_stream_is_captured(stream)) {
        return dao_error(DAO_ERR_BUSY,
                         "the stream %p of device:%" PRId32
                         " is being captured into a graph, and an executor queues work on it",
                         ops->stream_native(stream->backend), stream->runtime->device_index);
    }
    return DAO_OK;
}

/* Asked again after the event, since another thread may begin the capture meanwhile. */
dao_status_t dao_runtime_record(dao_runtime_t *runtime, dao_backend_event_t *event,
                                const dao_stream_t *stream)
{
    if (dao_stream_is_captured(stream)) {
        return DAO_ERR_BUSY;
    }
    dao_status_t status = dao_runtime_told(runtime, runtime->ops->event_record(event, stream->backend));
    return status == DAO_OK && dao_stream_is_captured(stream) ? DAO_ERR_BUSY : status;
}

/* ---- references ---- */

void dao_stream_retain(dao_stream_t *stream)
{
    if (!stream->is_builtin) {
        uint32_t before = atomic_fetch_add_explicit(&stream->reference_count, 1, memory_order_relaxed);
        DAO_ASSERT(before > 0);
        (void)before;
    }
}

bool dao_stream_drop(dao_stream_t *stream)
{
    if (stream->is_builtin) {
        return false;
    }
    uint32_t before = atomic_fetch_sub_explicit(&stream->reference_count, 1, memory_order_acq_rel);
    DAO_ASSERT(before > 0);
    return before == 1;
}

void dao_stream_end(dao_stream_t *stream, bool is_idle)
{
    dao_runtime_t *runtime = stream->runtime;
    DAO_ASSERT(atomic_load(&stream->reference_count) == 0);
    DAO_ASSERT(stream->late_count == 0); /* each holds a reference */
    number_end(stream, is_idle);
    runtime->ops->stream_destroy(stream->backend);
    dao_host_free(stream); /* the first member of what handles/stream.c has made */
    dao_runtime_release(runtime);
}

void dao_stream_release(dao_stream_t *stream)
{
    if (dao_stream_drop(stream)) {
        dao_stream_end(stream, false);
    }
}
