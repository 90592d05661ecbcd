/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan does to one tensor: it leaves the device where the plan has no room for it any more, and it
   comes or is saved where the plan has a copy.

       drop      has a copy elsewhere, or is made again, or is overwritten      it goes
                 else                                                           it is copied out first
       copy in   from where the bytes are, which need not be the plan's tier
       copy out  to where there is place for them

   Nothing here knows which operation of the plan is due, but for the contents that later ones make again. */
#include "runtime/executor/plans/plan_moves.h"

#include "base/report/assert.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/residency.h"

dao_fence_t dao_plan_everything(const dao_timeline_t *timeline)
{
    dao_fence_t fence = {0};
    for (int role = 0; role < DAO_TIMELINE_DEVICE_STREAM_COUNT; role++) {
        dao_fence_add(&fence, (dao_stream_role_t)role, timeline->streams[role].issued);
    }
    return fence;
}

uint64_t dao_plan_place(const dao_compiled_plan_t *plan, uint64_t address)
{
    bool is_in_pages = plan->window != NULL && address >= plan->schedule->paged_begin;
    return is_in_pages ? address - plan->schedule->paged_begin + plan->window->map.begin_bytes : address;
}

/* ---- drops ---- */

dao_status_t dao_plan_unless_refused(const dao_engine_t *engine, dao_status_t status)
{
    return status == DAO_ERR_COPY_FAILED && !engine->is_lost ? DAO_OK : status;
}

uint32_t dao_plan_source(const dao_compiled_plan_t *plan, uint32_t role)
{
    return plan->runs.plan != NULL ? plan->runs.step->tensor_sources[role] : role;
}

/* Returns true if an operation that is to come makes the content again. */
static bool is_made_again(const dao_compiled_plan_t *plan, const dao_managed_t *tensor)
{
    const dao_plan_runs_t *runs = &plan->runs;
    if (runs->plan == NULL || tensor->plan_role == NULL) {
        return false;
    }
    uint32_t source = dao_plan_source(plan, (uint32_t)(tensor->plan_role - plan->roles));
    return runs->made_until[source] > plan->next && runs->kept[runs->makers[source]] != NULL;
}

static bool needs_saving(const dao_managed_t *tensor)
{
    bool is_overwritten = tensor->first_use != NULL && tensor->first_use->kind == DAO_USE_WRITE;
    return tensor->has_device && tensor->residency == DAO_RESIDENCY_DEVICE &&
           !dao_residency_is_clean(tensor) && !is_overwritten;
}

/* A content that only the file has besides, and that the plan brings from the host, goes to its slot there
   first, once. */
static dao_status_t settle_on_host(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor)
{
    if (!dao_plan_role_needs_slot(tensor) || tensor->residency != DAO_RESIDENCY_DEVICE ||
        tensor->is_unverified || tensor->source != NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_residency_save(engine, tensor);
    if (status == DAO_OK) {
        dao_fence_join(&plan->extra, &tensor->host_written);
        engine->stats.save_count++;
    }
    return dao_plan_unless_refused(engine, status);
}

dao_status_t dao_plan_drop(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor)
{
    if (tensor == NULL || !tensor->has_device) {
        return DAO_OK;
    }
    DAO_ASSERT(engine->plan == plan);
    DAO_ASSERT(tensor->plan_role != NULL);
    dao_status_t status = DAO_OK;
    if (needs_saving(tensor) && tensor->file_copy == DAO_FILE_COPY_WRITING) {
        status = dao_file_copy_await(engine, tensor);
    }
    if (status == DAO_OK && dao_residency_is_clean(tensor)) {
        status = settle_on_host(engine, plan, tensor);
        if (status == DAO_OK) {
            dao_residency_drop_device(engine, tensor);
        }
        return status;
    }
    if (status != DAO_OK) {
        return status;
    }
    if (is_made_again(plan, tensor)) { /* for a kernel that is kept, if for no other */
        dao_again_give_up(engine, tensor);
        return DAO_OK;
    }
    if (!needs_saving(tensor)) {
        dao_residency_discard(engine, tensor);
        return DAO_OK;
    }
    status = dao_residency_evict(engine, tensor);
    dao_fence_join(&plan->extra, &tensor->host_written);
    engine->stats.save_count += status == DAO_OK ? 1 : 0;
    return status;
}

dao_status_t dao_plan_drop_all(dao_engine_t *engine, dao_compiled_plan_t *plan, uint32_t index)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(index < plan->order.count);
    for (uint32_t i = plan->drop_first[index]; status == DAO_OK && i < plan->drop_first[index + 1]; i++) {
        status = dao_plan_drop(engine, plan, plan->roles[plan->drops[i]].tensor);
    }
    return status;
}

bool dao_plan_drops_live_content(const dao_compiled_plan_t *plan, uint32_t index)
{
    for (uint32_t i = plan->drop_first[index]; i < plan->drop_first[index + 1]; i++) {
        const dao_managed_t *tensor = plan->roles[plan->drops[i]].tensor;
        if (tensor != NULL && needs_saving(tensor) && !is_made_again(plan, tensor)) {
            return true;
        }
    }
    return false;
}

/* ---- copies ---- */

bool dao_plan_can_come(const dao_managed_t *tensor)
{
    return !tensor->has_device &&
           (tensor->residency == DAO_RESIDENCY_HOST || tensor->residency == DAO_RESIDENCY_FILE);
}

dao_status_t dao_plan_copy_in(dao_engine_t *engine, dao_managed_t *tensor, uint64_t address,
                              const dao_fence_t *fence)
{
    DAO_ASSERT(dao_plan_can_come(tensor));
    bool is_file = tensor->residency == DAO_RESIDENCY_FILE;
    dao_status_t status =
        dao_engine_before(engine, is_file ? DAO_TIMELINE_STAGE_IN : DAO_STREAM_ROLE_H2D, fence);
    if (status != DAO_OK) {
        return status;
    }
    dao_residency_land(engine, tensor, address);
    status = dao_residency_fetch(engine, tensor);
    if (status != DAO_OK) {
        dao_residency_unland(engine, tensor);
    }
    return status;
}

static dao_status_t copy_out(dao_engine_t *engine, dao_managed_t *tensor, bool is_file,
                             const dao_fence_t *fence)
{
    dao_status_t status =
        dao_engine_before(engine, is_file ? DAO_TIMELINE_STAGE_OUT : DAO_STREAM_ROLE_D2H, fence);
    if (status != DAO_OK) {
        return status;
    }
    if (!is_file) {
        return dao_residency_save(engine, tensor);
    }
    dao_file_copy_save(engine, tensor); /* if that failed, the content is saved elsewhere before it leaves */
    return engine->is_lost ? engine->failure.status : DAO_OK;
}

dao_status_t dao_plan_move(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor,
                           const dao_swap_copy_t *copy, const dao_fence_t *fence)
{
    if (!copy->is_in) {
        bool is_on_its_way = tensor->file_copy != DAO_FILE_COPY_NONE;
        return tensor->residency == DAO_RESIDENCY_DEVICE && !is_on_its_way
                   ? copy_out(engine, tensor, copy->is_file, fence)
                   : DAO_OK;
    }
    if (!dao_plan_can_come(tensor)) {
        return DAO_OK;
    }
    bool is_off_plan = (tensor->residency == DAO_RESIDENCY_FILE) != copy->is_file;
    dao_status_t status = dao_plan_copy_in(engine, tensor, dao_plan_place(plan, copy->address_bytes), fence);
    if (status == DAO_OK && is_off_plan) {
        dao_fence_join(&plan->extra, &tensor->device_written); /* on another stream than fences name */
    }
    return status;
}
