/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, of device 0's place. The model's thread allocates under one at a time: the one that it captures or
   has entered. */
#include "tests/harness/calls/calls.h"

#include <string.h>

#define NONE MODEL_LEASE_COUNT

bool call_lease_begin(model_t *model, const harness_op_t *op)
{
    dao_place_t place = op->kind % 4 == 0 ? call_place(model, op) : model_place(0);
    model_lease_t *lease = &model->leases[op->slot % MODEL_LEASE_COUNT];
    bool is_device = place.kind == DAO_PLACE_KIND_DEVICE;
    if (is_device && (place.index != 0 || (model->lease_here == NONE && lease->lease != NULL))) {
        return false;
    }
    dao_status_t wanted = !is_device                  ? DAO_ERR_UNSUPPORTED
                          : model->lease_here != NONE ? DAO_ERR_BUSY
                                                      : DAO_OK;
    dao_lease_t *got_lease = NULL;
    model_say(model, "dao_lease_begin(((dao_place_t){%d, %d}), &lease_%u);", place.kind, place.index,
              op->slot % MODEL_LEASE_COUNT);
    dao_status_t got = dao_lease_begin(place, &got_lease);
    if (got == DAO_ERR_TOO_MANY && wanted == DAO_OK) { /* ended ones count while their blocks live */
        return true;
    }
    if (model_answer(model, got, wanted)) {
        *lease = (model_lease_t){.lease = got_lease, .is_capturing = true};
        model->lease_here = op->slot % MODEL_LEASE_COUNT;
    }
    return true;
}

/* A lease that is there, the one in use first where `kind` says so. */
static uint32_t find_lease(const model_t *model, const harness_op_t *op)
{
    if (op->kind % 2 == 0 && model->lease_here != NONE) {
        return model->lease_here;
    }
    uint32_t i = op->slot % MODEL_LEASE_COUNT;
    return model->leases[i].lease != NULL ? i : NONE;
}

bool call_lease_commit(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_lease(model, op);
    if (i == NONE) {
        return model_answer(model, dao_lease_commit(NULL), DAO_ERR_INVALID) || true;
    }
    dao_status_t wanted = model->leases[i].is_capturing ? DAO_OK : DAO_ERR_INVALID;
    model_say(model, "dao_lease_commit(lease_%u);", i);
    if (model_answer(model, dao_lease_commit(model->leases[i].lease), wanted)) {
        model->leases[i].is_capturing = false;
        model->lease_here = NONE;
    }
    return true;
}

bool call_lease_cancel(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_lease(model, op);
    if (i == NONE) {
        return model_answer(model, dao_lease_cancel(NULL), DAO_ERR_INVALID) || true;
    }
    dao_status_t wanted = model->leases[i].is_capturing ? DAO_OK : DAO_ERR_INVALID;
    model_say(model, "dao_lease_cancel(lease_%u);", i);
    if (model_answer(model, dao_lease_cancel(model->leases[i].lease), wanted)) {
        model->lease_here = NONE;
        model->leases[i] = (model_lease_t){0};
        model_lease_end(model, i);
    }
    return true;
}

bool call_lease_enter(model_t *model, const harness_op_t *op)
{
    uint32_t i = op->slot % MODEL_LEASE_COUNT;
    if (model->leases[i].lease == NULL) {
        return model_answer(model, dao_lease_enter(NULL), DAO_ERR_INVALID) || true;
    }
    dao_status_t wanted = model->lease_here != NONE ? DAO_ERR_BUSY : DAO_OK;
    model_say(model, "dao_lease_enter(lease_%u);", i);
    if (model_answer(model, dao_lease_enter(model->leases[i].lease), wanted)) {
        model->leases[i].is_entered = true;
        model->lease_here = i;
    }
    return true;
}

bool call_lease_leave(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_lease(model, op);
    if (i == NONE) {
        return model_answer(model, dao_lease_leave(NULL), DAO_ERR_INVALID) || true;
    }
    dao_status_t wanted = model->leases[i].is_entered ? DAO_OK : DAO_ERR_INVALID;
    model_say(model, "dao_lease_leave(lease_%u);", i);
    if (model_answer(model, dao_lease_leave(model->leases[i].lease), wanted)) {
        model->leases[i].is_entered = false;
        model->lease_here = NONE;
    }
    return true;
}

/* A block of dao_alloc() at device 0; its owner may have freed it. */
static model_block_t *find_raw(model_t *model, uint32_t slot)
{
    for (uint32_t i = 0; i < MODEL_BLOCK_COUNT; i++) {
        model_block_t *block = &model->blocks[(slot + i) % MODEL_BLOCK_COUNT];
        if (block->owner == MODEL_RAW && dao_place_equal(block->place, model_place(0))) {
            return block;
        }
    }
    return NULL;
}

bool call_lease_retain(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_lease(model, op);
    model_block_t *block = find_raw(model, op->other);
    if (i == NONE || block == NULL) {
        return false;
    }
    bool is_inside = op->kind % 16 == 4 && !block->is_gone && block->size_bytes > 1;
    dao_status_t wanted = block->is_gone ? DAO_ERR_DOUBLE_FREE
                          : is_inside    ? DAO_ERR_INTERIOR_POINTER
                                         : DAO_OK;
    model_say(model, "dao_lease_retain(lease_%u, (char *)block_%u + %d);", i, model_slot(model, block),
              is_inside);
    if (model_answer(model, dao_lease_retain(model->leases[i].lease, block->address + is_inside), wanted)) {
        block->retained_by |= 1u << i;
    }
    return true;
}

bool call_lease_release(model_t *model, const harness_op_t *op)
{
    uint32_t i = find_lease(model, op);
    if (i == NONE) {
        return model_answer(model, dao_lease_release(NULL), DAO_ERR_INVALID) || true;
    }
    model_lease_t *lease = &model->leases[i];
    dao_lease_stats_t stats;
    (void)model_answer(model, dao_lease_stats_get(lease->lease, &stats), DAO_OK);
    dao_status_t wanted = lease->is_capturing || lease->is_entered ? DAO_ERR_BUSY : DAO_OK;
    model_say(model, "dao_lease_release(lease_%u);", i);
    if (model_answer(model, dao_lease_release(lease->lease), wanted)) {
        *lease = (model_lease_t){0};
        model_lease_end(model, i);
    }
    return true;
}
