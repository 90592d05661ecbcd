/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors that are on the device in part.

       host slot      |hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh|      has all bytes but the changed ones
       device's part  |......|vvvvvvvvv|ccccccc|vvv|.......|      has the valid bytes
                             [        valid        )
                                       [changed)

   Each is one slice: where a use reads or writes elsewhere, what lies between comes, too. So a kernel that
   appends to a tensor brings nothing, and the tensor takes no more than the appended bytes along when it
   leaves. Bytes that are written become valid only once the kernel is queued.

   A tensor without a content that is written in part is filled with zeros on the device. As long as only
   some bytes of it change it is known to be *zero elsewhere*: leaving the device it takes the changed bytes
   along, and the host fills its slot itself.

   Invariants: of PARTIAL, changed lies in valid, valid in the tensor, and with changed bytes the file has no
   copy; of a tensor that is zero elsewhere, that it is DEVICE. Nobody is PARTIAL while a plan is followed:
   plans move whole tensors. */
#include "runtime/executor/state/partial.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/plan_role.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

static const dao_fence_t no_fence;
static const dao_slice_t nothing;

static dao_slice_t all_of(const dao_managed_t *tensor)
{
    return (dao_slice_t){0, tensor->size_bytes};
}

/* All bytes of a tensor that is PARTIAL are on the device. */
static bool is_whole(const dao_managed_t *tensor)
{
    return tensor->residency == DAO_RESIDENCY_PARTIAL && dao_slice_has(tensor->device_valid, all_of(tensor));
}

/* ---- to the device ---- */

/* What has to be valid before a use: what it reads, and what lies between that and what it writes. */
static dao_slice_t needed(const dao_managed_t *tensor, const dao_use_t *use)
{
    bool is_resident = tensor->residency == DAO_RESIDENCY_PARTIAL;
    dao_slice_t whole = use->kind == DAO_USE_WRITE ? nothing : all_of(tensor);
    dao_slice_t slice =
        dao_slice_hull(is_resident ? tensor->device_valid : nothing, use->is_partial ? use->reads : whole);
    if (use->is_partial && dao_slice_leaves_gap(slice, use->writes)) {
        bool is_behind = use->writes.begin_bytes > slice.end_bytes;
        slice.end_bytes = is_behind ? use->writes.begin_bytes : slice.end_bytes;
        slice.begin_bytes = is_behind ? slice.begin_bytes : use->writes.end_bytes;
    }
    return slice;
}

uint64_t dao_partial_missing_bytes(const dao_managed_t *tensor, const dao_use_t *use)
{
    bool is_resident = tensor->residency == DAO_RESIDENCY_PARTIAL;
    DAO_ASSERT(is_resident || tensor->residency == DAO_RESIDENCY_HOST);
    return dao_slice_bytes(needed(tensor, use)) - (is_resident ? dao_slice_bytes(tensor->device_valid) : 0);
}

/* Queues the copy in of bytes beside the valid ones, or of the first. */
static dao_status_t fetch_piece(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t piece)
{
    if (dao_slice_is_empty(piece)) {
        return DAO_OK;
    }
    DAO_ASSERT(dao_slice_is_empty(dao_slice_common(piece, tensor->device_valid)));
    DAO_ASSERT(!dao_slice_leaves_gap(piece, tensor->device_valid));
    dao_fence_t fence = tensor->host_written;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
    uint64_t sequence = 0;
    dao_status_t status =
        dao_residency_copy_part(engine, tensor, DAO_STREAM_ROLE_H2D, piece, &fence,
                                (char *)tensor->host_address + piece.begin_bytes, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    dao_fence_add(&tensor->device_written, DAO_STREAM_ROLE_H2D, sequence);
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_H2D, sequence);
    dao_fence_add(&tensor->host_busy, DAO_STREAM_ROLE_H2D, sequence);
    tensor->device_valid = dao_slice_hull(tensor->device_valid, piece);
    engine->stats.fetch_count++;
    engine->stats.in_bytes += dao_slice_bytes(piece);
    return DAO_OK;
}

/* PARTIAL: makes a slice valid that has the valid one. */
static dao_status_t fetch_around(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice)
{
    dao_slice_t valid = tensor->device_valid;
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(dao_slice_has(slice, valid));
    dao_status_t status = DAO_OK;
    if (dao_slice_is_empty(valid)) {
        status = fetch_piece(engine, tensor, slice);
    } else {
        status = fetch_piece(engine, tensor, (dao_slice_t){slice.begin_bytes, valid.begin_bytes});
        if (status == DAO_OK) {
            status = fetch_piece(engine, tensor, (dao_slice_t){valid.end_bytes, slice.end_bytes});
        }
    }
    if (is_whole(tensor) && dao_slice_is_empty(tensor->device_changed)) {
        tensor->residency = DAO_RESIDENCY_BOTH;
    }
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return status;
}

dao_status_t dao_partial_fetch(dao_engine_t *engine, dao_managed_t *tensor, const dao_use_t *use)
{
    DAO_ASSERT(tensor->has_device);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_slice_t slice = needed(tensor, use);
    if (tensor->residency == DAO_RESIDENCY_HOST) {
        tensor->residency = DAO_RESIDENCY_PARTIAL;
        tensor->device_valid = nothing;
        tensor->device_changed = nothing;
    }
    return fetch_around(engine, tensor, slice);
}

dao_status_t dao_partial_complete(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_PARTIAL);
    return fetch_around(engine, tensor, all_of(tensor));
}

dao_status_t dao_partial_zero(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_status_t status = dao_residency_zero(engine, tensor);
    tensor->is_zero_elsewhere = tensor->residency == DAO_RESIDENCY_DEVICE;
    tensor->device_changed = nothing;
    return status;
}

/* ---- changes ---- */

void dao_partial_written(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                         dao_stream_role_t role, uint64_t sequence)
{
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    DAO_ASSERT(dao_residency_is_on_device(tensor));
    DAO_ASSERT(engine->plan == NULL || tensor->residency == DAO_RESIDENCY_DEVICE);
    if (tensor->residency == DAO_RESIDENCY_BOTH) {
        tensor->residency = DAO_RESIDENCY_PARTIAL;
        tensor->device_valid = all_of(tensor);
        tensor->device_changed = nothing;
    }
    dao_file_copy_forget(engine, tensor);
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE ||
               !dao_slice_leaves_gap(tensor->device_valid, slice)); /* else it was fetched */
    tensor->device_valid = dao_slice_hull(tensor->device_valid, slice);
    tensor->device_changed = dao_slice_hull(tensor->device_changed, slice);
    tensor->device_written = no_fence;
    dao_fence_add(&tensor->device_written, role, sequence);
    dao_fence_add(&tensor->device_busy, role, sequence);
    bool has_changed = dao_slice_has(tensor->device_changed, all_of(tensor));
    if (tensor->residency == DAO_RESIDENCY_PARTIAL && has_changed) {
        tensor->residency = DAO_RESIDENCY_DEVICE;
        dao_residency_give_host(engine, tensor);
    }
    tensor->is_zero_elsewhere = tensor->is_zero_elsewhere && !has_changed;
    dao_victims_update(engine, tensor);
    DAO_ASSERT(!dao_residency_is_clean(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

void dao_partial_spoilt(dao_engine_t *engine, const dao_use_t *use, const dao_fence_t *fence)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE || tensor->residency == DAO_RESIDENCY_PARTIAL);
    dao_status_t status = dao_timeline_wait(&engine->timeline, fence);
    dao_engine_lose_unless_ok(engine, status);
    dao_slice_t slice = use->is_partial ? use->writes : all_of(tensor);
    if (tensor->residency == DAO_RESIDENCY_PARTIAL) {
        slice = dao_slice_common(slice, tensor->device_valid); /* the others are the host's */
    }
    tensor->device_changed = dao_slice_hull(tensor->device_changed, slice);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

/* ---- the program's bytes ---- */

/* The bytes go to the device's part, and the host waits for the copy. */
static dao_status_t write_on_device(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                    const void *source)
{
    dao_status_t status = dao_file_copy_verify(engine, tensor); /* the other bytes have to be there */
    if (status == DAO_OK && tensor->residency == DAO_RESIDENCY_PARTIAL) {
        dao_use_t use = {.tensor = tensor, .kind = DAO_USE_READ_WRITE, .is_partial = true, .writes = slice};
        status = dao_partial_fetch(engine, tensor, &use);
    }
    if (status != DAO_OK) {
        return status;
    }
    if (engine->plan != NULL && tensor->residency == DAO_RESIDENCY_BOTH) {
        dao_residency_drop_host(engine, tensor);
    }
    dao_fence_t fence = tensor->device_busy;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
    uint64_t sequence = 0;
    status = dao_residency_copy_part(engine, tensor, DAO_STREAM_ROLE_H2D, slice, &fence,
                                     (void *)(uintptr_t)source, &sequence); /* it is only read */
    if (status != DAO_OK) {
        return status;
    }
    dao_partial_written(engine, tensor, slice, DAO_STREAM_ROLE_H2D, sequence);
    engine->stats.in_bytes += dao_slice_bytes(slice);
    status = dao_timeline_wait(&engine->timeline, &tensor->device_written);
    dao_engine_lose_unless_ok(engine, status);
    return status;
}

/* HOST: once nothing uses the slot any more, the bytes go there. */
static dao_status_t write_on_host(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                  const void *source)
{
    dao_status_t status = dao_timeline_wait(&engine->timeline, &tensor->host_busy);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" cannot be written: ", tensor->name);
        dao_engine_fail(engine, status, true);
        return status;
    }
    dao_file_copy_forget(engine, tensor);
    dao_host_tier_copy(&engine->host_tier, (char *)tensor->host_address + slice.begin_bytes, source,
                       dao_slice_bytes(slice));
    return DAO_OK;
}

/* EMPTY or FILE -> HOST: the other bytes are zeros, or come from the file. */
static dao_status_t write_to_host(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                  const void *source)
{
    void *address = NULL;
    dao_fence_t busy;
    dao_status_t status = dao_residency_take_slot_of(engine, tensor, &address, &busy);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" (%zu bytes) cannot be written: ", tensor->name, tensor->size_bytes);
        return status;
    }
    status = dao_timeline_wait(&engine->timeline, &busy); /* an idle slot at once */
    dao_engine_lose_unless_ok(engine, status);
    if (status == DAO_OK && tensor->residency == DAO_RESIDENCY_FILE) {
        status = dao_file_copy_read(engine, tensor, all_of(tensor), address);
    } else if (status == DAO_OK) {
        dao_host_tier_zero_around(&engine->host_tier, address, tensor->size_bytes, slice);
    }
    if (status != DAO_OK) {
        dao_residency_return_slot(engine, tensor, address);
        return status;
    }
    dao_host_tier_copy(&engine->host_tier, (char *)address + slice.begin_bytes, source,
                       dao_slice_bytes(slice));
    dao_file_copy_forget(engine, tensor);
    dao_residency_take_host(engine, tensor, address);
    tensor->host_written = no_fence;
    tensor->host_busy = no_fence;
    tensor->residency = DAO_RESIDENCY_HOST;
    return DAO_OK;
}

dao_status_t dao_partial_write(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                               const void *source)
{
    dao_status_t status = DAO_OK;
    bool was_empty = tensor->residency == DAO_RESIDENCY_EMPTY;
    DAO_ASSERT(!dao_slice_is_empty(slice));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    if (dao_residency_is_landing(tensor)) {
        status = tensor->residency == DAO_RESIDENCY_EMPTY ? dao_partial_zero(engine, tensor)
                                                          : dao_residency_fetch(engine, tensor);
    }
    if (status == DAO_OK && dao_residency_is_on_device(tensor)) {
        status = write_on_device(engine, tensor, slice, source);
    } else if (status == DAO_OK && tensor->residency == DAO_RESIDENCY_HOST) {
        status = write_on_host(engine, tensor, slice, source);
    } else if (status == DAO_OK) {
        status = write_to_host(engine, tensor, slice, source);
    }
    if (status != DAO_OK && was_empty && dao_residency_is_on_device(tensor)) {
        dao_residency_discard(engine, tensor); /* zeros alone were written */
    }
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return status;
}
