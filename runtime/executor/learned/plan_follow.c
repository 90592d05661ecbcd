/* SPDX-License-Identifier: Apache-2.0 */
/* Following a plan.

       kernel k -> the plan's copies before k -> drops, places of its operands -> launched -> copies behind k

   Every operation waits for what its fence in the plan names, as numbers on streams, and for `extra`.

       state          holds                                                           left by
       not followed   engine->plan is not this one; no role has a tensor or a slot    enter
       followed       engine->plan is this one; next is the operation that is due     leave
       between steps  followed, with next == 0                                        a kernel, leave

   Invariants while a plan is followed: the range allocator has no part in use; a tensor on the device has
   a role and lies where the plan has it now, and no two of them have a byte of the arena in common, by
   whatever addresses; the drops of an operation leave before its bytes come, also if they do not come; next
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
#include "runtime/executor/learned/plan_follow.h"

#include "base/internal_error.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/launch/launch.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/failure.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

#include <string.h>

/* Times that all residents that are not in their places are looked at. */
#define MOVE_ROUND_MAX 16

static const dao_fence_t no_fence;

/* All that was queued so far and may use the device's memory. */
static dao_fence_t everything(const dao_timeline_t *timeline)
{
    dao_fence_t fence = no_fence;
    for (int role = 0; role < DAO_TIMELINE_DEVICE_STREAM_COUNT; role++) {
        dao_fence_add(&fence, (dao_stream_role_t)role, timeline->streams[role].issued);
    }
    return fence;
}

/* Where the arena has an address of the plan: those of its pages are in its window. */
static uint64_t place_of(const dao_compiled_plan_t *plan, uint64_t address)
{
    bool is_in_pages = plan->window != NULL && address >= plan->schedule->paged_begin;
    return is_in_pages ? address - plan->schedule->paged_begin + plan->window->map.begin_bytes : address;
}

static dao_status_t mismatch(const dao_managed_t *tensor)
{
    return dao_error(DAO_ERR_UNSUPPORTED, "tensor \"%s\" is not where the step's plan has it", tensor->name);
}

/* ---- fences ---- */

/* Numbers of a stream's operations, of this step or of the one before. */
static uint64_t *sequences_of(const dao_compiled_plan_t *plan, uint32_t stream, bool is_before)
{
    uint64_t *sequences = plan->sequences + (is_before ? plan->order.count : 0);
    for (uint32_t i = 0; i < stream; i++) {
        sequences += plan->order.stream_counts[i];
    }
    return sequences;
}

/* Returns the sequence number that `done` names: the done-th operation of the stream in this step or, for
   done <= 0, of the step before, counted from its end. What lies before that step is covered by its first
   operation, as a stream keeps its order. */
static uint64_t sequence_of(const void *user, uint32_t stream, int32_t done)
{
    const dao_compiled_plan_t *plan = user;
    uint32_t count = plan->order.stream_counts[stream];
    DAO_ASSERT(done <= (int64_t)count);
    if (done > 0) {
        return sequences_of(plan, stream, false)[done - 1];
    }
    int64_t before = (int64_t)count + done;
    return count > 0 ? sequences_of(plan, stream, true)[before > 0 ? before - 1 : 0] : 0;
}

static dao_fence_t fence_of(const dao_compiled_plan_t *plan, dao_issue_operation_t operation)
{
    dao_fence_t fence = dao_issue_order_fence_in_numbers(plan->schedule, operation, sequence_of, plan);
    dao_fence_join(&fence, &plan->extra);
    return fence;
}

static void number(dao_compiled_plan_t *plan, dao_issue_operation_t operation, uint64_t sequence)
{
    DAO_ASSERT(operation.index < plan->order.stream_counts[operation.stream]);
    sequences_of(plan, operation.stream, false)[operation.index] = sequence;
}

/* ---- drops ---- */

/* A copy that is refused is no failure yet: the operand's kernel tries again. */
static dao_status_t unless_refused(const dao_engine_t *engine, dao_status_t status)
{
    return status == DAO_ERR_COPY_FAILED && !engine->is_lost ? DAO_OK : status;
}

/* The step's role of a role of the plan. */
static uint32_t source_of(const dao_compiled_plan_t *plan, uint32_t role)
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
    uint32_t source = source_of(plan, (uint32_t)(tensor->plan_role - plan->roles));
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
        tensor->is_unverified) {
        return DAO_OK;
    }
    dao_status_t status = dao_residency_save(engine, tensor);
    if (status == DAO_OK) {
        dao_fence_join(&plan->extra, &tensor->host_written);
        engine->stats.save_count++;
    }
    return unless_refused(engine, status);
}

static dao_status_t drop(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor)
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

static dao_status_t drop_all(dao_engine_t *engine, dao_compiled_plan_t *plan, uint32_t index)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(index < plan->order.count);
    for (uint32_t i = plan->drop_first[index]; status == DAO_OK && i < plan->drop_first[index + 1]; i++) {
        status = drop(engine, plan, plan->roles[plan->drops[i]].tensor);
    }
    return status;
}

/* Returns true if a drop of this operation would have to be saved. */
static bool drops_live_content(const dao_compiled_plan_t *plan, uint32_t index)
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

/* Returns true if the host or the file has a content that the device has not. */
static bool can_come(const dao_managed_t *tensor)
{
    return !tensor->has_device &&
           (tensor->residency == DAO_RESIDENCY_HOST || tensor->residency == DAO_RESIDENCY_FILE);
}

static dao_status_t copy_in(dao_engine_t *engine, dao_managed_t *tensor, uint64_t address,
                            const dao_fence_t *fence)
{
    DAO_ASSERT(can_come(tensor));
    bool is_file = tensor->residency == DAO_RESIDENCY_FILE;
    dao_status_t status =
        dao_timeline_before(&engine->timeline, is_file ? DAO_TIMELINE_STAGE_IN : DAO_STREAM_ROLE_H2D, fence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
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
        dao_timeline_before(&engine->timeline, is_file ? DAO_TIMELINE_STAGE_OUT : DAO_STREAM_ROLE_D2H, fence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
        return status;
    }
    if (!is_file) {
        return dao_residency_save(engine, tensor);
    }
    dao_file_copy_save(engine, tensor); /* if that failed, the content is saved elsewhere before it leaves */
    return engine->is_lost ? engine->failure.status : DAO_OK;
}

/* A copy goes from where the bytes are, or to where there is place for them, which need not be the plan's
   tier. */
static dao_status_t move_bytes(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor,
                               const dao_swap_copy_t *copy, const dao_fence_t *fence)
{
    if (!copy->is_in) {
        bool is_on_its_way = tensor->file_copy != DAO_FILE_COPY_NONE;
        return tensor->residency == DAO_RESIDENCY_DEVICE && !is_on_its_way
                   ? copy_out(engine, tensor, copy->is_file, fence)
                   : DAO_OK;
    }
    if (!can_come(tensor)) {
        return DAO_OK;
    }
    bool is_off_plan = (tensor->residency == DAO_RESIDENCY_FILE) != copy->is_file;
    dao_status_t status = copy_in(engine, tensor, place_of(plan, copy->address_bytes), fence);
    if (status == DAO_OK && is_off_plan) {
        dao_fence_join(&plan->extra, &tensor->device_written); /* on another stream than fences name */
    }
    return status;
}

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
    dao_status_t status = drop_all(engine, plan, index);
    dao_fence_join(&fence, &plan->extra); /* the drops may have been saved */
    uint64_t issued = stream->issued;
    if (status == DAO_OK && tensor != NULL) {
        status = unless_refused(engine, move_bytes(engine, plan, tensor, copy, &fence));
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
        status = drop(engine, plan, former);
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
    DAO_ASSERT(tensor->plan_role != NULL);
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
    dao_fence_t all = everything(&engine->timeline);
    if (can_come(tensor)) {
        status = copy_in(engine, tensor, address, &all);
    } else {
        status = dao_timeline_before(&engine->timeline, DAO_STREAM_ROLE_COMPUTE, &all);
        if (status != DAO_OK) {
            dao_engine_fail(engine, status, true);
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

/* ---- runs again ---- */

/* Gives an output of a run again its place: scratch, or its tensor's, which has the new role from now on. */
static dao_status_t place_output(dao_engine_t *engine, dao_compiled_plan_t *plan, dao_managed_t *tensor,
                                 uint32_t role, uint64_t address, uint64_t *scratch)
{
    if (plan->runs.is_scratch[role]) {
        *scratch = address;
        return DAO_OK;
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
    uint32_t first = runs->first_uses[kernel];
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        uint64_t address = place_of(plan, plan->schedule->use_address[first + i]);
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
    dao_status_t status = drop_all(engine, plan, index);
    status = status == DAO_OK ? place_again(engine, plan, item, operation.index) : status;
    status = status == DAO_OK ? dao_launch_verify(engine, item) : status;
    placement.has_workspace = item->workspace_bytes > 0;
    placement.workspace_offset = place_of(plan, plan->schedule->workspace_address[operation.index]);
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
           (is_due || !drops_live_content(plan, plan->next))) {
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
    bool has_runs = plan->runs.plan != NULL;
    uint32_t first_use =
        has_runs ? plan->runs.first_uses[operation.index] : log->kernels[operation.index].first_use;
    const uint64_t *addresses = plan->schedule->use_address + first_use;
    DAO_ASSERT(!has_runs || plan->runs.step->runs[operation.index].kernel == log->kernel_count - 1);
    status = drop_all(engine, plan, plan->next);
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        dao_plan_role_t *role =
            &plan->roles[has_runs ? plan->runs.roles[first_use + i] : log->uses[first_use + i].role];
        if (role->tensor != item->uses[i].tensor) {
            status = pass_on(engine, plan, role, item->uses[i].tensor);
        }
    }
    for (uint32_t i = 0; status == DAO_OK && i < item->use_count; i++) {
        dao_use_t *use = &item->uses[i];
        bool is_over = use->tensor->is_discard_due && use->kind != DAO_USE_WRITE; /* only runs again see it */
        status = is_over ? mismatch(use->tensor) : bring(engine, plan, use, place_of(plan, addresses[i]));
    }
    *out_placement = (dao_placement_t){.is_planned = true,
                                       .has_workspace = item->workspace_bytes > 0,
                                       .workspace_offset =
                                           place_of(plan, plan->schedule->workspace_address[operation.index]),
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

/* ---- slots ---- */

uint64_t dao_plan_follow_idle_bytes(const dao_compiled_plan_t *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->role_count; i++) {
        const dao_plan_role_t *role = &plan->roles[i];
        bool is_used = role->tensor != NULL && role->tensor->host_address == role->slot;
        bytes += role->slot != NULL && !is_used ? role->size_bytes : 0;
    }
    return bytes;
}

/* ---- entering and leaving ---- */

/* Roles that do not begin anew are those of the tensors that had them when the step was learnt. */
static void bind_all(dao_engine_t *engine, dao_compiled_plan_t *plan, const dao_step_log_t *known)
{
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        uint32_t role = dao_step_log_find_reader(known, tensor->id);
        if (role != DAO_STEP_LOG_NO_ROLE) {
            DAO_ASSERT(role < plan->role_count);
            dao_plan_role_bind(&plan->roles[role], tensor);
        }
    }
}

/* Takes all roles away. A slot stays with the tensor whose bytes are in it. */
static void give_up_roles(dao_engine_t *engine, dao_compiled_plan_t *plan)
{
    for (uint32_t i = 0; i < plan->role_count; i++) {
        dao_plan_role_t *role = &plan->roles[i];
        bool is_used = role->tensor != NULL && role->tensor->host_address == role->slot;
        if (role->slot != NULL && !is_used) {
            dao_status_t status = dao_host_tier_give(&engine->host_tier, &engine->timeline, role->slot,
                                                     role->size_bytes, &role->slot_busy);
            dao_engine_lose_unless_ok(engine, status);
        } else if (role->slot != NULL) {
            dao_fence_join(&role->tensor->host_busy, &role->slot_busy);
        }
        if (role->tensor != NULL) {
            dao_plan_role_unbind(role->tensor);
        }
        role->slot = NULL;
        role->slot_busy = no_fence;
    }
}

static bool is_in_place(const dao_managed_t *tensor)
{
    return tensor->plan_role != NULL && tensor->device_offset_bytes == tensor->plan_role->start_address;
}

/* Evicts tensors that do not begin the step where they are, or that are there in part. With `keeps_residents`
   those stay for now that begin it somewhere else on the device. */
static dao_status_t evict_others(dao_engine_t *engine, bool keeps_residents)
{
    dao_status_t status = DAO_OK;
    for (dao_managed_t *tensor = engine->table; status == DAO_OK && tensor != NULL;
         tensor = tensor->table_next) {
        bool is_resident = tensor->plan_role != NULL && tensor->plan_role->start_address != DAO_PLAN_NOWHERE;
        bool stays = is_in_place(tensor) || (keeps_residents && is_resident);
        if (tensor->has_device && (!stays || tensor->residency == DAO_RESIDENCY_PARTIAL)) {
            status = dao_residency_evict(engine, tensor);
        }
    }
    return status;
}

/* Moves a tensor on the device to where it begins the step. Returns false if that place is not free. */
static bool move(dao_engine_t *engine, dao_managed_t *tensor)
{
    uint64_t address = tensor->plan_role->start_address;
    if (dao_device_arena_take_at(&engine->arena, address, tensor->size_bytes, (uint64_t)(uintptr_t)tensor) !=
        DAO_OK) {
        return false;
    }
    if (dao_residency_move(engine, tensor, address) != DAO_OK) {
        dao_device_arena_forget(&engine->arena, address, tensor->size_bytes); /* it is where it was */
        return false;
    }
    return true;
}

/* Moves residents on the device as long as one more finds its place free. */
static void move_residents(dao_engine_t *engine, const dao_compiled_plan_t *plan)
{
    bool has_moved = true;
    for (int round = 0; has_moved && round < MOVE_ROUND_MAX; round++) {
        has_moved = false;
        for (uint32_t i = 0; !engine->is_lost && i < plan->role_count; i++) {
            dao_managed_t *tensor = plan->roles[i].tensor;
            bool is_elsewhere = tensor != NULL && tensor->has_device && !is_in_place(tensor);
            has_moved = (is_elsewhere && move(engine, tensor)) || has_moved;
        }
    }
}

/* Leaves tensors on the device that are in their places, and evicts all others. */
static dao_status_t clear_arena(dao_engine_t *engine, const dao_compiled_plan_t *plan)
{
    dao_status_t status = evict_others(engine, true);
    if (status == DAO_OK) {
        move_residents(engine, plan);
        status = engine->is_lost ? engine->failure.status : evict_others(engine, false);
    }
    return status;
}

static dao_status_t take_slots(dao_engine_t *engine, dao_compiled_plan_t *plan, const dao_step_log_t *known)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < plan->role_count; i++) {
        dao_plan_role_t *role = &plan->roles[i];
        DAO_ASSERT(role->slot == NULL);
        role->size_bytes = known->roles[source_of(plan, i)].size_bytes;
        role->slot_busy = no_fence;
        if (role->needs_slot && role->tensor != NULL && role->tensor->host_address != NULL) {
            role->slot = role->tensor->host_address;
        } else if (role->needs_slot) {
            status = dao_residency_take_slot(engine, role->size_bytes, &role->slot);
        }
    }
    return status;
}

/* The range allocator has the parts again; it has the memory to do so. */
static void take_back_arena(dao_engine_t *engine)
{
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->has_device) {
            DAO_MUST(dao_device_arena_take_at(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes,
                                              (uint64_t)(uintptr_t)tensor));
            dao_victims_update(engine, tensor);
        }
    }
}

/* The range allocator gives up all parts, and is made sure to have the memory to take as many as tensors may
   have when the plan is left. */
static dao_status_t hand_over_arena(dao_engine_t *engine, const dao_compiled_plan_t *plan)
{
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->has_device) {
            dao_victims_remove(engine, tensor);
            dao_device_arena_forget(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes);
        }
    }
    DAO_ASSERT(dao_range_used(engine->arena.range) == 0);
    uint64_t pages = plan->window != NULL ? plan->schedule->arena_bytes / plan->schedule->page_bytes : 0;
    dao_status_t status =
        dao_device_arena_reserve(&engine->arena, (uint32_t)dao_smaller(plan->role_count + pages, UINT32_MAX));
    if (status != DAO_OK) {
        take_back_arena(engine);
    }
    return status;
}

static dao_status_t bring_residents(dao_engine_t *engine, dao_compiled_plan_t *plan)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < plan->role_count; i++) {
        dao_plan_role_t *role = &plan->roles[i];
        if (role->start_address != DAO_PLAN_NOWHERE && role->tensor != NULL && can_come(role->tensor)) {
            status = unless_refused(engine, copy_in(engine, role->tensor, role->start_address, &no_fence));
        }
    }
    return status;
}

/* Makes the plan's window one of the arena, the first time. */
static void open_window(dao_engine_t *engine, dao_compiled_plan_t *plan)
{
    if (plan->window == NULL || plan->window->map.begin_bytes != 0) {
        return;
    }
    dao_device_arena_open(&engine->arena, plan->window);
    for (uint32_t i = 0; i < plan->role_count; i++) {
        uint64_t *address = &plan->roles[i].start_address;
        *address = *address != DAO_PLAN_NOWHERE ? place_of(plan, *address) : DAO_PLAN_NOWHERE;
    }
}

dao_status_t dao_plan_follow_enter(dao_engine_t *engine, dao_compiled_plan_t *plan,
                                   const dao_step_log_t *known)
{
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(plan->role_count >= known->role_count);
    open_window(engine, plan);
    bind_all(engine, plan, known);
    dao_status_t status = clear_arena(engine, plan);
    status = status == DAO_OK ? take_slots(engine, plan, known) : status;
    status = status == DAO_OK ? hand_over_arena(engine, plan) : status;
    if (status != DAO_OK) {
        give_up_roles(engine, plan);
        return status;
    }
    for (uint32_t i = 0; i < 2 * plan->order.count; i++) {
        plan->sequences[i] = 0;
    }
    plan->next = 0;
    engine->plan = plan;
    dao_device_arena_note_used(&engine->arena, plan->schedule->arena_bytes);
    status = bring_residents(engine, plan); /* behind the fences of the arena */
    plan->extra = everything(&engine->timeline);
    dao_fence_map_clear(&engine->arena.fences);
    DAO_ASSERT(dao_range_used(engine->arena.range) == 0);
    DAO_ASSERT_HEAVY(dao_plan_follow_is_valid(plan));
    if (status != DAO_OK) {
        dao_plan_follow_leave(engine);
    }
    return status;
}

void dao_plan_follow_leave(dao_engine_t *engine)
{
    dao_compiled_plan_t *plan = engine->plan;
    DAO_ASSERT(plan != NULL);
    DAO_ASSERT(plan->next <= plan->order.count);
    DAO_ASSERT_HEAVY(dao_plan_follow_is_valid(plan));
    dao_fence_t fence = everything(&engine->timeline);
    engine->stats.deviation_count += plan->next > 0 ? 1 : 0; /* else it is left between two steps */
    engine->plan = NULL;
    give_up_roles(engine, plan);
    take_back_arena(engine);
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(dao_plan_follow_idle_bytes(plan) == 0);
    dao_status_t status = dao_device_arena_fence_all(&engine->arena, &engine->timeline, &fence);
    dao_engine_lose_unless_ok(engine, status);
    for (uint32_t i = 0; i < plan->runs.kernel_count; i++) {
        if (plan->runs.kept[i] != NULL) {
            dao_again_leave(engine, plan->runs.kept[i]);
            plan->runs.kept[i] = NULL;
        }
    }
}

/* Marks the pages of all tensors on the device that lie in the plan's window. Returns false if two of them
   have one. */
static bool mark_pages(const dao_compiled_plan_t *plan)
{
    memset(plan->page_marks, 0, dao_compiled_plan_page_max(plan));
    for (uint32_t i = 0; i < plan->role_count && plan->window != NULL; i++) {
        const dao_managed_t *tensor = plan->roles[i].tensor;
        const dao_page_map_t *map = &plan->window->map;
        if (tensor == NULL || !tensor->has_device || tensor->device_offset_bytes < map->begin_bytes) {
            continue;
        }
        uint64_t first = (tensor->device_offset_bytes - map->begin_bytes) / map->page_bytes;
        for (uint64_t page = 0; page * map->page_bytes < tensor->size_bytes; page++) {
            if (plan->page_marks[map->pages[first + page]]++ != 0) {
                return false;
            }
        }
    }
    return true;
}

/* Returns true if a tensor on the device shares bytes with one of the roles before it, or, where it does not
   lie in pages, with one that does. */
static bool shares_bytes(const dao_compiled_plan_t *plan, uint32_t role)
{
    const dao_managed_t *tensor = plan->roles[role].tensor;
    uint64_t begin = tensor->device_offset_bytes, end = begin + tensor->size_bytes;
    for (uint32_t k = 0; k < role; k++) {
        const dao_managed_t *other = plan->roles[k].tensor;
        if (other != NULL && other->has_device && other->device_offset_bytes < end &&
            begin < other->device_offset_bytes + other->size_bytes) {
            return true;
        }
    }
    bool is_in_pages = plan->window == NULL || begin >= plan->window->map.begin_bytes;
    for (uint64_t page = is_in_pages ? 0 : begin / plan->schedule->page_bytes;
         !is_in_pages && page * plan->schedule->page_bytes < end; page++) {
        if (plan->page_marks[page] != 0) {
            return true;
        }
    }
    return false;
}

bool dao_plan_follow_is_valid(const dao_compiled_plan_t *plan)
{
    if (!mark_pages(plan)) {
        return false;
    }
    for (uint32_t i = 0; i < plan->role_count; i++) {
        const dao_managed_t *tensor = plan->roles[i].tensor;
        if (tensor != NULL &&
            (tensor->plan_role != &plan->roles[i] || (tensor->has_device && shares_bytes(plan, i)))) {
            return false;
        }
    }
    return true;
}
