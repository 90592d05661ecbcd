/* SPDX-License-Identifier: Apache-2.0 */
/* What the program asks of one tensor: its bytes, or that they are others now. */
#include "runtime/executor/requests.h"

#include "base/report/error.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/learned/step_learner.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/online/prefetch.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/pins.h"
#include "runtime/executor/state/residency.h"

dao_status_t dao_requests_refuse(const dao_engine_t *engine)
{
    if (!engine->has_failed) {
        return dao_error_restore(&engine->failure);
    }
    return dao_error(DAO_ERR_BUSY,
                     "an earlier failure has not been reported yet; call dao_executor_sync(): %.300s",
                     engine->failure.message);
}

/* Once the program knows that the device is lost: what the host has in full may still be read. */
static dao_status_t run_request_without_device(dao_engine_t *engine, const dao_item_t *item)
{
    const dao_managed_t *tensor = item->uses[0].tensor;
    dao_slice_t slice = item->request->slice;
    bool is_newer = tensor->residency == DAO_RESIDENCY_PARTIAL &&
                    !dao_slice_is_empty(dao_slice_common(slice, tensor->device_changed));
    if (item->kind == DAO_ITEM_READ && tensor->host_address != NULL && !is_newer &&
        dao_timeline_wait(&engine->timeline, &tensor->host_written) == DAO_OK) {
        dao_host_tier_copy(&engine->host_tier, item->request->destination,
                           (const char *)tensor->host_address + slice.begin_bytes, dao_slice_bytes(slice));
        return DAO_OK;
    }
    if (item->kind == DAO_ITEM_READ && tensor->file_copy == DAO_FILE_COPY_VALID &&
        dao_file_tier_read_now(&engine->file_tier, tensor->source,
                               tensor->file_offset_bytes + slice.begin_bytes, item->request->destination,
                               dao_slice_bytes(slice)) == 0) {
        return DAO_OK;
    }
    return dao_error_vendor(engine->failure.status, engine->failure.vendor_code,
                            "tensor \"%s\" cannot be %s, the executor has given up its device: %.300s",
                            tensor->name, item->kind == DAO_ITEM_READ ? "read" : "written",
                            engine->failure.message);
}

/* The bytes of a request, or of a command list, which writes whole tensors. A pinned tensor of which the host
   has a part is written on the device. */
static dao_status_t write_bytes(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                const void *source)
{
    bool is_whole = dao_slice_bytes(slice) == tensor->size_bytes;
    bool stays_partial = tensor->pin.count > 0 && tensor->residency == DAO_RESIDENCY_PARTIAL;
    return is_whole && !stays_partial ? dao_residency_write(engine, tensor, source)
                                      : dao_partial_write(engine, tensor, slice, source);
}

bool dao_requests_leave_plan(dao_engine_t *engine)
{
    if (engine->plan != NULL) {
        dao_plan_follow_leave(engine);
    }
    return dao_again_restore(engine);
}

/* With the host full, a tensor that is nowhere gets a part of the device for the program's bytes. Where
   pinned tensors leave none that is large enough, the host is what is full. */
static dao_status_t write_tensor(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                 const void *source)
{
    dao_status_t status = write_bytes(engine, tensor, slice, source);
    if (status != DAO_ERR_HOST_FULL || tensor->has_device ||
        dao_device_arena_part_bytes(tensor->size_bytes) > engine->config.arena_bytes) {
        return status;
    }
    uint64_t offset = 0;
    dao_error_record_t refusal;
    dao_error_save(&refusal, status);
    (void)dao_requests_leave_plan(engine); /* its room is the engine's again */
    status = dao_eviction_take(engine, tensor->size_bytes, (uint64_t)(uintptr_t)tensor, &offset);
    if (status != DAO_OK) {
        return status == DAO_ERR_LIMIT ? dao_error_restore(&refusal) : status;
    }
    dao_residency_land(engine, tensor, offset);
    status = write_bytes(engine, tensor, slice, source);
    if (dao_residency_is_landing(tensor)) {
        dao_residency_unland(engine, tensor);
    }
    return status;
}

/* What a plan has given up of a tensor that is read, or needs of one that is written, is made again first; so
   is what a plan needs of one that was discarded, and that is empty then. Returns false if the engine has
   failed over that. */
static bool settle_plan(dao_engine_t *engine, const dao_managed_t *tensor, bool is_write)
{
    bool is_held = tensor->is_given_up || tensor->is_discard_due || (is_write && tensor->hold_count > 0);
    if (engine->plan != NULL && is_held) {
        dao_plan_follow_leave(engine);
        return dao_again_restore(engine);
    }
    return true;
}

dao_status_t dao_requests_write(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                const void *source)
{
    bool is_whole = dao_slice_bytes(slice) == tensor->size_bytes;
    if (!settle_plan(engine, tensor, true)) {
        return dao_error_restore(&engine->failure);
    }
    dao_status_t status = write_tensor(engine, tensor, slice, source);
    if (status == DAO_OK && is_whole && engine->learner != NULL) {
        tensor->fed_epoch = engine->learner->log.epoch;
    }
    return status;
}

/* Brings a tensor to the place where it is going to be pinned; one without a content comes when it has one.
   On an error it is where it was, or has left the device. */
static dao_status_t bring_to(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes)
{
    dao_status_t status = DAO_OK;
    if (tensor->residency == DAO_RESIDENCY_PARTIAL) {
        status = dao_partial_complete(engine, tensor);
    }
    if (tensor->residency == DAO_RESIDENCY_PARTIAL && status == DAO_OK) {
        dao_residency_drop_host(engine, tensor); /* a part that the host lacks bytes of cannot be moved */
    }
    bool is_there = tensor->has_device && tensor->device_offset_bytes == offset_bytes;
    if (status != DAO_OK || is_there || tensor->residency == DAO_RESIDENCY_EMPTY) {
        return status;
    }
    status = dao_eviction_take_at(engine, tensor, offset_bytes);
    if (status != DAO_OK) {
        return status;
    }
    if (!tensor->has_device) {
        dao_residency_land(engine, tensor, offset_bytes);
        status = dao_residency_fetch(engine, tensor);
        if (dao_residency_is_landing(tensor)) {
            dao_residency_unland(engine, tensor);
        }
    } else {
        status = dao_residency_move(engine, tensor, offset_bytes);
        if (status != DAO_OK) {
            dao_device_arena_forget(&engine->arena, offset_bytes, tensor->size_bytes);
        }
    }
    return status;
}

static dao_status_t pin_first(dao_engine_t *engine, dao_managed_t *tensor, uint64_t *out_offset_bytes)
{
    if (!dao_requests_leave_plan(engine)) { /* plans are made for the tensors that are pinned */
        return dao_error_restore(&engine->failure);
    }
    dao_status_t status = dao_pins_find_place(engine, tensor, out_offset_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = bring_to(engine, tensor, *out_offset_bytes);
    if (status != DAO_OK) {
        dao_error_prefix("pinning tensor \"%s\": ", tensor->name);
        return status;
    }
    dao_pins_add(engine, tensor, *out_offset_bytes);
    dao_prefetch_restart(engine);
    return DAO_OK;
}

dao_status_t dao_requests_pin(dao_engine_t *engine, dao_managed_t *tensor, void **out_address)
{
    uint64_t offset_bytes = tensor->pin.offset_bytes;
    if (engine->has_failed || engine->is_lost) {
        return dao_requests_refuse(engine);
    }
    if (tensor->is_released) {
        return dao_error(DAO_ERR_INVALID, "tensor \"%s\" has no handle any more", tensor->name);
    }
    if (tensor->pin.count > 0) {
        tensor->pin.count++;
    } else {
        dao_status_t status = pin_first(engine, tensor, &offset_bytes);
        if (status != DAO_OK) {
            return status;
        }
    }
    *out_address = dao_device_arena_at(&engine->arena, offset_bytes);
    return DAO_OK;
}

void dao_requests_drop_pin(dao_engine_t *engine, dao_managed_t *tensor)
{
    (void)dao_requests_leave_plan(engine); /* it is made beside this pin */
    dao_pins_remove(engine, tensor);
    dao_prefetch_restart(engine);
}

dao_status_t dao_requests_unpin(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (tensor->pin.count == 0) {
        return dao_error(DAO_ERR_INVALID, "tensor \"%s\" is not pinned", tensor->name);
    }
    if (tensor->pin.count > 1) {
        tensor->pin.count--;
        return DAO_OK;
    }
    dao_requests_drop_pin(engine, tensor);
    return DAO_OK;
}

dao_status_t dao_requests_run(dao_engine_t *engine, const dao_item_t *item)
{
    const dao_request_t *request = item->request;
    if (engine->has_failed) {
        return dao_requests_refuse(engine);
    }
    if (engine->is_lost) {
        return run_request_without_device(engine, item);
    }
    if (item->kind == DAO_ITEM_READ && !settle_plan(engine, item->uses[0].tensor, false)) {
        return dao_error_restore(&engine->failure);
    }
    return item->kind == DAO_ITEM_WRITE
               ? dao_requests_write(engine, item->uses[0].tensor, request->slice, request->source)
               : dao_residency_read(engine, item->uses[0].tensor, request->slice, request->destination);
}
