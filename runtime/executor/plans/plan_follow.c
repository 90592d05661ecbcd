/* SPDX-License-Identifier: Apache-2.0 */
/* Following a plan.

       kernel k -> the plan's copies before k -> drops, places of its operands -> launched -> copies behind k

   Every operation waits for what its fence in the plan names, as numbers on streams, and for `extra`.

       state          holds                                                           left by
       not followed   engine->plan is not this one; no role has a tensor or a slot    enter
       followed       engine->plan is this one; next is the operation that is due     leave
       between steps  followed, with next == 0                                        a kernel, leave

   Invariants while a plan is followed: the range allocator has the parts of pinned tensors in use, all above
   what the plan has, and no others; any other tensor on the device has a role and lies where the plan has it
   now, and no two of them have a byte of the arena in common, by whatever addresses; the drops of an
   operation leave before its bytes come, also if they do not come; next
   <= order.count; the pages behind the plan's window are those of its schedule.

   What is not in the plan, and what is done:

       a content that may be asked for leaves unsaved   it is copied out first
       a write to the file has failed                   the same: the host has seen it before
       a tensor that comes is there, or has no content  an empty operation waits in the copy's place
       an operand is not there                          it is copied in, or filled, at its place in the plan
       another tensor has a role that begins anew       the former one leaves
       anything else                                    an error: the engine leaves the plan

   A plan with runs again (plan_runs.h) has kernels of its own between those of the program: they are queued
   with the copies before a kernel that is due. A content that one of them is going to make leaves unsaved. */
#include "runtime/executor/plans/plan_follow.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/launch/launch.h"
#include "runtime/executor/plans/plan_moves.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

static const dao_fence_t no_fence;

static dao_status_t mismatch(const dao_managed_t *tensor)
{
    return dao_error(DAO_ERR_UNSUPPORTED, "tensor \"%s\" is not where the step's plan has it", tensor->name);
}

/* ---- fences ---- */

/* Numbers of a lane's operations, of this step or of the one before. */
static uint64_t *sequences_of(const dao_compiled_plan_t *plan, uint32_t lane, bool is_before)
{
    uint64_t *sequences = plan->sequences + (is_before ? plan->order.count : 0);
    for (uint32_t i = 0; i < lane; i++) {
        sequences += plan->order.lane_counts[i];
    }
    return sequences;
}

/* Returns the sequence number that `done` names: the done-th operation of the lane in this step or, for
   done <= 0, of the step before, counted from its end. What lies before that step is covered by its first
   operation, as a lane keeps its order. */
static uint64_t sequence_of(const void *user, uint32_t lane, int64_t done)
{
    const dao_compiled_plan_t *plan = user;
    uint32_t count = plan->order.lane_counts[lane];
    DAO_ASSERT(done <= (int64_t)count);
    if (done > 0) {
        return sequences_of(plan, lane, false)[done - 1];
    }
    int64_t before = (int64_t)count + done;
    return count > 0 ? sequences_of(plan, lane, true)[before > 0 ? before - 1 : 0] : 0;
}

static dao_fence_t fence_of(const dao_compiled_plan_t *plan, dao_issue_operation_t operation)
{
    dao_fence_t fence =
        dao_issue_order_fence_in_numbers(&plan->order, plan->schedule, operation, sequence_of, plan);
    dao_fence_join(&fence, &plan->extra);
    return fence;
}

static void number(dao_compiled_plan_t *plan, dao_issue_operation_t operation, uint64_t sequence)
{
    dao_issue_place_t place = dao_issue_order_place(&plan->order, operation);
    DAO_ASSERT(place.index < plan->order.lane_counts[place.lane]);
    sequences_of(plan, place.lane, false)[place.index] = sequence;
}

/* ---- copies ---- */

/* An empty operation in place of a copy that is not made. What comes later waits for this copy alone, and
   counts on it to have waited for the copies out whose bytes it would take. */
static dao_status_t queue_nothing(dao_engine_t *engine, dao_stream_role_t role, const dao_fence_t *fence)
{
    uint64_t sequence = 0;
    if (dao_timeline_is_done(&engine->timeline, fence)) {
        return DAO_OK;
    }
    dao_status_t status = dao_timeline_before(&engine->timeline, role, fence);
    status = status == DAO_OK ? dao_timeline_after(&engine->timeline, role, &sequence) : status;
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
    }
    return status;
}

static dao_status_t queue_copy(dao_engine_t *engine, dao_compiled_plan_t *plan, uint32_t index)
{
    dao_issue_operation_t operation = plan->order.operations[index];
    const dao_swap_copy_t *copy = dao_issue_order_copy(plan->schedule, operation);
    dao_stream_role_t role = dao_issue_order_roles[operation.stream];
    const dao_timeline_stream_t *stream = &engine->timeline.streams[role];
    dao_fence_t fence = fence_of(plan, operation);
    dao_managed_t *tensor = plan->roles[copy->tensor].tensor;
    DAO_ASSERT(dao_plan_role_is_valid(&plan->roles[copy->tensor]));
    dao_status_t status = dao_plan_drop_all(engine, plan, index);
    dao_fence_join(&fence, &plan->extra); /* the drops may have been saved */
    uint64_t issued = stream->issued;
    if (status == DAO_OK && tensor != NULL) {
        status = dao_plan_unless_refused(engine, dao_plan_move(engine, plan, tensor, copy, &fence));
    }
    if (status == DAO_OK && copy->is_in && stream->issued == issued) {
        status = queue_nothing(engine, role, &fence);
    }
    number(plan, operation, stream->issued);
    return status;
}

/* ---- kernels ---- */

/* Gives the role to another tensor. The former one takes its bytes along, and the slot if they are in it. */
static dao_status_t pass_on(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_plan_role_t *role,
                            dao_managed_t *tensor)
{
    dao_managed_t *former = role->tensor;
    dao_status_t status = DAO_OK;
    if (tensor->plan_role != NULL || tensor->has_device) {
        return mismatch(tensor);
    }
    if (former != NULL) {
        status = dao_plan_drop(engine, plan, former);
        if (status == DAO_OK && former->host_address != NULL && former->host_address == role->slot) {
            role->slot = NULL;
            status = dao_residency_take_slot(engine, role->size_bytes, &role->slot);
            role->slot_busy = no_fence;
        }
        dao_plan_role_unbind(former); /* if the drop did not */
    }
    if (status == DAO_OK) {
        dao_plan_role_bind(role, tensor);
        DAO_ASSERT(!tensor->has_device); /* it comes to its place in the plan */
    }
    return status;
}

/* An operand that no copy of the plan has brought: it comes now, to its place in the plan. */
static dao_status_t bring(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_use_t *use, uint64_t address)
{
    dao_managed_t *tensor = use->tensor;
    DAO_ASSERT(tensor->plan_role != NULL || tensor->pin.count > 0);
    if (tensor->has_device) {
        return tensor->device_offset_bytes == address ? DAO_OK : mismatch(tensor);
    }
    if (tensor->is_given_up && use->kind != DAO_USE_WRITE) {
        return mismatch(tensor); /* the plan was to make it before */
    }
    if (use->kind == DAO_USE_WRITE) {
        dao_residency_land(engine, tensor, address);
        return DAO_OK;
    }
    dao_status_t status = DAO_OK;
    dao_fence_t all = dao_plan_everything(&engine->timeline);
    if (dao_plan_can_come(tensor)) {
        status = dao_plan_copy_in(engine, tensor, address, &all);
    } else {
        status = dao_engine_before(engine, DAO_STREAM_ROLE_COMPUTE, &all);
        if (status != DAO_OK) {
            return status;
        }
        dao_residency_land(engine, tensor, address);
        status = dao_residency_zero(engine, tensor);
        use->made_content = status == DAO_OK;
        if (status != DAO_OK && dao_residency_is_landing(tensor)) {
            dao_residency_unland(engine, tensor);
        }
    }
    if (status == DAO_OK) {
        dao_fence_join(&plan->extra, &tensor->device_busy);
    }
    return status;
}

/* An operand that is pinned has a part of the arena that is no plan's. It comes there if it is not there: it
   has its first content now, or a kernel that failed has spoilt the one it had. */
static dao_status_t bring_pinned(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_use_t *use)
{
    dao_managed_t *tensor = use->tensor;
    uint64_t offset_bytes = tensor->pin.offset_bytes, owner = (uint64_t)(uintptr_t)tensor, part_bytes = 0;
    DAO_ASSERT(tensor->plan_role == NULL);
    if (tensor->has_device) {
        return DAO_OK;
    }
    dao_status_t status = dao_device_arena_take_at(&engine->arena, offset_bytes, tensor->size_bytes, owner);
    if (status != DAO_OK) {
        return status;
    }
    status = bring(engine, plan, use, offset_bytes);
    if (status != DAO_OK && !tensor->has_device && /* it may have had the part, and given it back */
        dao_device_arena_has(&engine->arena, offset_bytes, tensor->size_bytes, owner, &part_bytes)) {
        dao_device_arena_forget(&engine->arena, offset_bytes, tensor->size_bytes);
    }
    return status;
}

/* ---- runs again ---- */

/* Gives an output of a run again its place: scratch, or its tensor's, which has the new role from now on. */
static dao_status_t place_output(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor,
                                 uint32_t role, uint64_t address, uint64_t *scratch)
{
    if (plan->runs.is_scratch[role]) {
        *scratch = address;
        return DAO_OK;
    }
    if (tensor->pin.count > 0) {
        return mismatch(tensor);
    }
    dao_again_give_up(engine, tensor); /* if it is still there: another run needed its room */
    dao_status_t status = pass_on(engine, plan, &plan->roles[role], tensor);
    if (status == DAO_OK) {
        dao_residency_land(engine, tensor, address);
    }
    return status;
}

/* What a run again reads is where the plan has it, or comes there now. */
static dao_status_t place_input(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_use_t *use,
                                uint32_t role, uint64_t address)
{
    bool is_there = use->tensor->plan_role == &plan->roles[role] && !use->tensor->is_given_up;
    return is_there ? bring(engine, plan, use, address) : mismatch(use->tensor);
}

static dao_status_t place_again(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_item_t *item,
                                uint32_t kernel)
{
    dao_plan_runs_t *runs = &plan->runs;
    uint32_t first = plan->first_uses[kernel];
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        uint64_t address = dao_plan_place(plan, plan->schedule->use_address[first + i]);
        uint32_t role = runs->roles[first + i];
        runs->scratch[i] = DAO_PLAN_NOWHERE;
        status = item->uses[i].kind == DAO_USE_READ
                     ? place_input(engine, plan, &item->uses[i], role, address)
                     : place_output(engine, plan, item->uses[i].tensor, role, address, &runs->scratch[i]);
    }
    return status;
}

/* Queues a kernel that runs again. On an error nothing is lost: its outputs are given up. */
static dao_status_t run_again(dao_engine_t *engine, dao_compiled_plan_t *plan, uint32_t index)
{
    dao_issue_operation_t operation = plan->order.operations[index];
    dao_item_t **kept = &plan->runs.kept[plan->runs.step->runs[operation.index].kernel], *item = *kept;
    dao_placement_t placement = {.is_planned = true, .is_again = true, .scratch = plan->runs.scratch};
    uint64_t sequence = 0;
    if (item == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED, "a kernel of the step's plan was not kept to run again");
    }
    dao_status_t status = dao_plan_drop_all(engine, plan, index);
    status = status == DAO_OK ? place_again(engine, plan, item, operation.index) : status;
    status = status == DAO_OK ? dao_launch_verify(engine, item) : status;
    placement.has_workspace = item->workspace_bytes > 0;
    placement.workspace_offset = dao_plan_place(plan, plan->schedule->workspace_address[operation.index]);
    placement.fence = fence_of(plan, operation);
    status = status == DAO_OK ? dao_launch_queue(engine, item, &placement, &sequence) : status;
    if (status != DAO_OK) {
        for (uint32_t i = 0; i < item->use_count; i++) {
            dao_managed_t *tensor = item->uses[i].tensor;
            if (tensor->has_device && dao_residency_is_landing(tensor)) {
                dao_residency_unland(engine, tensor);
            }
        }
        return status;
    }
    dao_launch_commit(engine, item, &placement, sequence);
    number(plan, operation, sequence);
    *kept = dao_again_pass(engine, item) ? NULL : item;
    return DAO_OK;
}

/* Returns true if the operation is a kernel of the program. */
static bool is_first_run(const dao_compiled_plan_t *plan, uint32_t index)
{
    dao_issue_operation_t operation = plan->order.operations[index];
    return dao_issue_order_copy(plan->schedule, operation) == NULL &&
           (plan->runs.plan == NULL || !plan->runs.step->runs[operation.index].is_again);
}

/* Queues copies and runs again up to the next kernel of the program. Unless that kernel is due, a run again
   waits, and so does a copy that would have to save a content: the program may be about to discard it. */
static dao_status_t queue_operations(dao_engine_t *engine, dao_compiled_plan_t *plan, bool is_due)
{
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && plan->next < plan->order.count && !is_first_run(plan, plan->next) &&
           (is_due || !dao_plan_drops_live_content(plan, plan->next))) {
        if (dao_issue_order_copy(plan->schedule, plan->order.operations[plan->next]) != NULL) {
            status = queue_copy(engine, plan, plan->next++);
        } else if (is_due) {
            status = run_again(engine, plan, plan->next);
            plan->next += status == DAO_OK ? 1 : 0;
        } else {
            break;
        }
    }
    return status;
}

/* ---- following ---- */

/* Returns true if the log's latest kernel has a use in the plan's step: it is not of a tensor that was pinned
   as the plan was made. */
static bool is_planned(const dao_compiled_plan_t *plan, const dao_step_log_t *log, uint32_t use)
{
    uint32_t role = log->uses[log->kernels[log->kernel_count - 1].first_use + use].role;
    return !plan->roles[role].is_pinned;
}

/* Gives roles to the operands that are others than before. `kernel` is one of the plan's step. */
static dao_status_t pass_on_all(dao_engine_t *engine, dao_compiled_plan_t *plan, const dao_item_t *item,
                                const dao_step_log_t *log, uint32_t kernel)
{
    uint32_t planned = plan->first_uses[kernel];
    uint32_t first = log->kernels[log->kernel_count - 1].first_use;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        dao_managed_t *tensor = item->uses[i].tensor;
        if (!is_planned(plan, log, i)) {
            continue;
        }
        uint32_t number = plan->runs.plan != NULL ? plan->runs.roles[planned] : log->uses[first + i].role;
        planned++;
        if (tensor->pin.count == 0 && plan->roles[number].tensor != tensor) {
            status = pass_on(engine, plan, &plan->roles[number], tensor);
        }
    }
    return status;
}

/* Brings all operands to their places: those of the plan, or where they are pinned. */
static dao_status_t bring_all(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_item_t *item,
                              const dao_step_log_t *log, uint32_t kernel)
{
    uint32_t planned = plan->first_uses[kernel];
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        dao_use_t *use = &item->uses[i];
        bool has_place = is_planned(plan, log, i);
        uint64_t address = has_place ? dao_plan_place(plan, plan->schedule->use_address[planned]) : 0;
        planned += has_place ? 1 : 0;
        if (use->tensor->pin.count > 0) {
            status = bring_pinned(engine, plan, use);
        } else if (!has_place || (use->tensor->is_discard_due && use->kind != DAO_USE_WRITE)) {
            status = mismatch(use->tensor); /* of what was discarded, only runs again see the content */
        } else {
            status = bring(engine, plan, use, address);
        }
    }
    return status;
}

dao_status_t dao_plan_follow_prepare(dao_engine_t *engine, dao_item_t *item, const dao_step_log_t *log,
                                     dao_placement_t *out_placement)
{
    dao_compiled_plan_t *plan = engine->plan;
    DAO_ASSERT(plan != NULL);
    DAO_ASSERT(plan->next <= plan->order.count);
    dao_status_t status = queue_operations(engine, plan, true);
    if (status != DAO_OK || plan->next == plan->order.count) {
        return status != DAO_OK ? status : dao_error(DAO_ERR_UNSUPPORTED, "the step is longer than its plan");
    }
    dao_issue_operation_t operation = plan->order.operations[plan->next];
    DAO_ASSERT(dao_issue_order_copy(plan->schedule, operation) == NULL); /* all copies before it are queued */
    DAO_ASSERT(plan->runs.plan == NULL ||
               plan->runs.step->runs[operation.index].kernel == log->kernel_count - 1);
    status = dao_plan_drop_all(engine, plan, plan->next);
    status = status == DAO_OK ? pass_on_all(engine, plan, item, log, operation.index) : status;
    status = status == DAO_OK ? bring_all(engine, plan, item, log, operation.index) : status;
    *out_placement = (dao_placement_t){
        .is_planned = true,
        .has_workspace = item->workspace_bytes > 0,
        .workspace_offset = dao_plan_place(plan, plan->schedule->workspace_address[operation.index]),
        .fence = fence_of(plan, operation)};
    return status;
}

bool dao_plan_follow_keep(dao_compiled_plan_t *plan, dao_item_t *item)
{
    const dao_plan_runs_t *runs = &plan->runs;
    if (runs->plan == NULL) {
        return false;
    }
    uint32_t index = plan->order.operations[plan->next].index; /* it is the kernel that is due */
    uint32_t kernel = runs->step->runs[index].kernel;
    if (runs->counts[kernel] > 0) {
        DAO_ASSERT(runs->kept[kernel] == NULL);
        dao_again_keep(item, runs->counts[kernel], runs->step->problem.kernels[index].time_ns);
        runs->kept[kernel] = item;
    }
    return runs->counts[kernel] > 0;
}

void dao_plan_follow_launched(dao_engine_t *engine, uint64_t sequence)
{
    dao_compiled_plan_t *plan = engine->plan;
    DAO_ASSERT(plan->next < plan->order.count);
    DAO_ASSERT(dao_issue_order_copy(plan->schedule, plan->order.operations[plan->next]) == NULL);
    number(plan, plan->order.operations[plan->next++], sequence);
    dao_status_t status = queue_operations(engine, plan, false);
    if (status != DAO_OK && !engine->is_lost) {
        dao_plan_follow_leave(engine);
    }
}

void dao_plan_follow_turn(dao_engine_t *engine)
{
    dao_compiled_plan_t *plan = engine->plan;
    DAO_ASSERT_HEAVY(dao_plan_follow_is_valid(plan));
    dao_status_t status = queue_operations(engine, plan, true);
    if (status != DAO_OK) {
        dao_plan_follow_leave(engine);
        return;
    }
    DAO_ASSERT(plan->next == plan->order.count);
    for (uint32_t i = 0; i < plan->order.count; i++) {
        plan->sequences[plan->order.count + i] = plan->sequences[i];
    }
    plan->next = 0;
    engine->stats.plan_hit_count++;
}
