/* SPDX-License-Identifier: Apache-2.0 */
/* The copies of one tensor: its part of the device arena, its slot on the host, its slot in the file.

   The functions here take a copy, give it up, and account for it; residency.c and file_copy.c decide
   which, and queue what moves bytes between them. Invariants: backed_bytes are the host slots of tensors
   whose copy in the file is not NONE, writing_bytes those of them whose copy is WRITING. */
#include "runtime/executor/state/residency_parts.h"

#include "base/report/assert.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/state/plan_role.h"
#include "runtime/executor/state/victims.h"
#include "runtime/observe/annotate.h"

static const dao_fence_t no_fence;

/* ---- the device's part ---- */

void dao_residency_land(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes)
{
    DAO_ASSERT(!tensor->has_device);
    tensor->has_device = true;
    tensor->device_offset_bytes = offset_bytes;
    tensor->device_written = no_fence;
    tensor->device_busy = no_fence;
    dao_device_window_t *window = dao_device_arena_window(&engine->arena, offset_bytes);
    if (window != NULL) {
        window->tensor_count++;
    }
}

/* Takes a tensor out of the window that it lies in, if it does: its addresses are used up to here. */
static void leave_window(dao_engine_t *engine, const dao_managed_t *tensor)
{
    dao_device_window_t *window = dao_device_arena_window(&engine->arena, tensor->device_offset_bytes);
    if (window != NULL) {
        DAO_ASSERT(window->tensor_count > 0);
        window->tensor_count--;
        dao_fence_join(&window->busy, &tensor->device_busy);
    }
}

void dao_residency_give_device(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->has_device);
    tensor->has_device = false;
    tensor->is_zero_elsewhere = false;
    dao_victims_remove(engine, tensor);
    dao_residency_not_early(engine, tensor);
    bool is_planned = engine->plan != NULL && tensor->plan_role != NULL; /* the place is the plan's */
    DAO_ASSERT(is_planned || engine->plan == NULL || tensor->pin.count > 0);
    if (!is_planned) {
        dao_status_t status =
            dao_device_arena_give(&engine->arena, &engine->timeline, tensor->device_offset_bytes,
                                  tensor->size_bytes, &tensor->device_busy);
        dao_engine_lose_unless_ok(engine, status);
    }
    leave_window(engine, tensor);
}

bool dao_residency_has_its_copies(const dao_managed_t *tensor)
{
    bool has_host = tensor->host_address != NULL;
    bool may_be_unverified =
        tensor->residency == DAO_RESIDENCY_DEVICE && tensor->file_copy == DAO_FILE_COPY_VALID;
    if (tensor->is_unverified && !may_be_unverified) {
        return false;
    }
    if (tensor->is_zero_elsewhere && tensor->residency != DAO_RESIDENCY_DEVICE) {
        return false;
    }
    switch (tensor->residency) {
    case DAO_RESIDENCY_EMPTY:
        return !has_host && tensor->file_copy == DAO_FILE_COPY_NONE;
    case DAO_RESIDENCY_DEVICE:
        return !has_host && tensor->has_device;
    case DAO_RESIDENCY_BOTH:
        return has_host && tensor->has_device;
    case DAO_RESIDENCY_HOST:
        return has_host;
    case DAO_RESIDENCY_FILE:
        return !has_host && tensor->file_copy == DAO_FILE_COPY_VALID;
    case DAO_RESIDENCY_PARTIAL:
        return has_host && tensor->has_device && tensor->device_valid.end_bytes <= tensor->size_bytes &&
               dao_slice_has(tensor->device_valid, tensor->device_changed) &&
               (tensor->file_copy == DAO_FILE_COPY_NONE || dao_slice_is_empty(tensor->device_changed));
    }
    return false;
}

bool dao_residency_is_landing(const dao_managed_t *tensor)
{
    return tensor->has_device && !dao_residency_is_on_device(tensor);
}

void dao_residency_unland(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(dao_residency_is_landing(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_residency_give_device(engine, tensor);
    DAO_ASSERT(!tensor->has_device);
}

void dao_residency_drop_device(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(dao_residency_is_clean(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    tensor->residency = tensor->residency == DAO_RESIDENCY_DEVICE ? DAO_RESIDENCY_FILE : DAO_RESIDENCY_HOST;
    tensor->is_unverified = false;
    dao_residency_give_device(engine, tensor);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

/* ---- the host's slot ---- */

uint64_t dao_residency_backed_bytes(const dao_managed_t *tensor)
{
    return tensor->host_address != NULL && tensor->file_copy != DAO_FILE_COPY_NONE ? tensor->size_bytes : 0;
}

uint64_t dao_residency_writing_bytes(const dao_managed_t *tensor)
{
    return tensor->file_copy == DAO_FILE_COPY_WRITING ? dao_residency_backed_bytes(tensor) : 0;
}

static void count(dao_engine_t *engine, const dao_managed_t *tensor)
{
    engine->backed_bytes += dao_residency_backed_bytes(tensor);
    engine->writing_bytes += dao_residency_writing_bytes(tensor);
}

static void uncount(dao_engine_t *engine, const dao_managed_t *tensor)
{
    DAO_ASSERT(engine->backed_bytes >= dao_residency_backed_bytes(tensor));
    DAO_ASSERT(engine->writing_bytes >= dao_residency_writing_bytes(tensor));
    engine->backed_bytes -= dao_residency_backed_bytes(tensor);
    engine->writing_bytes -= dao_residency_writing_bytes(tensor);
}

void dao_residency_take_host(dao_engine_t *engine, dao_managed_t *tensor, void *address)
{
    DAO_ASSERT(tensor->host_address == NULL);
    tensor->host_address = address;
    count(engine, tensor);
}

void dao_residency_give_host(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->host_address != NULL);
    void *address = tensor->host_address;
    bool is_of_role = dao_plan_role_give_slot(tensor);
    uncount(engine, tensor);
    tensor->host_address = NULL;
    if (is_of_role) {
        return;
    }
    dao_engine_lose_unless_ok(engine, dao_host_tier_give(&engine->host_tier, &engine->timeline, address,
                                                         tensor->size_bytes, &tensor->host_busy));
}

void dao_residency_drop_host(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(dao_residency_is_on_device(tensor) || tensor->file_copy == DAO_FILE_COPY_VALID);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    tensor->residency = tensor->residency == DAO_RESIDENCY_HOST ? DAO_RESIDENCY_FILE : DAO_RESIDENCY_DEVICE;
    dao_residency_give_host(engine, tensor);
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

void dao_residency_set_file_copy(dao_engine_t *engine, dao_managed_t *tensor, dao_file_copy_t copy)
{
    uncount(engine, tensor);
    tensor->file_copy = copy;
    count(engine, tensor);
    dao_victims_update(engine, tensor);
    DAO_ASSERT(engine->writing_bytes <= engine->backed_bytes);
}

/* ---- copies ---- */

static void name_subject(const dao_managed_t *tensor)
{
    if (tensor != NULL) {
        dao_error_prefix("tensor \"%s\": ", tensor->name);
    } else {
        dao_error_prefix("measuring the link: ");
    }
}

dao_status_t dao_residency_copy(dao_engine_t *engine, const dao_managed_t *tensor, const dao_copy_t *copy,
                                const dao_fence_t *fence, uint64_t *out_sequence)
{
    bool is_measured =
        copy->role < DAO_STREAM_ROLE_COUNT; /* a piece's time says more of the file than of the link */
    DAO_ASSERT(copy->size_bytes > 0);
    DAO_ASSERT(tensor == NULL || copy->size_bytes <= tensor->size_bytes);
    DAO_ASSERT(tensor == NULL || tensor->has_device);
    dao_status_t status = dao_engine_before(engine, copy->role, fence);
    if (status != DAO_OK) {
        return status;
    }
    for (int i = 0; i <= DAO_COPY_RETRY_MAX; i++) {
        if (is_measured) {
            dao_profiler_before_copy(&engine->profiler, copy->role, copy->size_bytes);
        }
        dao_annotate_begin(copy->is_in ? "dao: copy in" : "dao: copy out");
        status = engine->config.ops->copy(engine->timeline.streams[copy->role].backend,
                                          copy->is_in ? DAO_COPY_KIND_H2D : DAO_COPY_KIND_D2H,
                                          copy->destination, copy->source, copy->size_bytes);
        dao_annotate_end();
        if (status == DAO_OK) {
            status = dao_timeline_after(&engine->timeline, copy->role, out_sequence);
            dao_engine_lose_unless_ok(engine, status);
            if (is_measured) {
                dao_profiler_after(&engine->profiler, copy->role);
            }
            if (is_measured && engine->plan == NULL) {
                dao_pace_copy(&engine->pace, copy->role, *out_sequence, fence, copy->size_bytes);
            }
            return status;
        }
        if (status == DAO_ERR_DEVICE_LOST) {
            name_subject(tensor);
            dao_engine_fail(engine, status, true);
            return status;
        }
    }
    status = dao_error_vendor(
        DAO_ERR_COPY_FAILED, dao_last_vendor_code(),
        "copying %zu bytes to the %s failed %d times; they stay where they were: %.200s", copy->size_bytes,
        copy->is_in ? "device" : "host", DAO_COPY_RETRY_MAX + 1, dao_last_message());
    name_subject(tensor);
    return status;
}

dao_status_t dao_residency_copy_part(dao_engine_t *engine, const dao_managed_t *tensor,
                                     dao_stream_role_t role, dao_slice_t slice, const dao_fence_t *fence,
                                     void *host, uint64_t *out_sequence)
{
    bool is_in = role == DAO_STREAM_ROLE_H2D;
    void *device = dao_device_arena_at(&engine->arena, tensor->device_offset_bytes + slice.begin_bytes);
    dao_copy_t copy = {role, is_in, is_in ? device : host, is_in ? host : device, dao_slice_bytes(slice)};
    DAO_ASSERT(slice.end_bytes <= tensor->size_bytes);
    return dao_residency_copy(engine, tensor, &copy, fence, out_sequence);
}
