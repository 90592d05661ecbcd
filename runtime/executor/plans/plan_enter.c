/* SPDX-License-Identifier: Apache-2.0 */
/* Entering a plan and leaving it.

       enter   roles get their tensors -> what is elsewhere leaves, or moves to its place -> roles get slots
               -> the range allocator gives up its parts -> what the step begins with comes

       leave   roles give up their slots -> the range allocator takes its parts back, behind what is queued

   A role that does not begin anew is that of the tensor that had it when the step was learnt. Between the two
   calls the arena is the plan's, but for pinned tensors, which stay where they are. */
#include "runtime/executor/plans/plan_follow.h"

#include "base/internal_error.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/again.h"
#include "runtime/executor/plans/plan_moves.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/pins.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

#include <string.h>

/* Times that all residents that are not in their places are looked at. */
#define MOVE_ROUND_MAX 16

static const dao_fence_t no_fence;

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

/* Gives roles to the tensors that had them; not to pinned ones. */
static void bind_all(dao_engine_t *engine, dao_compiled_plan_t *plan, const dao_step_log_t *known)
{
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        uint32_t role = dao_step_log_find_reader(known, tensor->id);
        if (role != DAO_STEP_LOG_NO_ROLE && tensor->pin.count == 0) {
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
        if (tensor->has_device && tensor->pin.count == 0 &&
            (!stays || tensor->residency == DAO_RESIDENCY_PARTIAL)) {
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

/* Plans move whole tensors, and their kernels use such. */
static dao_status_t complete_pinned(dao_engine_t *engine)
{
    dao_status_t status = DAO_OK;
    for (dao_managed_t *tensor = engine->first_pinned; status == DAO_OK && tensor != NULL;
         tensor = tensor->pin.next) {
        if (tensor->residency == DAO_RESIDENCY_PARTIAL) {
            status = dao_partial_complete(engine, tensor);
        }
        if (tensor->residency == DAO_RESIDENCY_PARTIAL && status == DAO_OK) {
            dao_residency_drop_host(engine, tensor); /* it lacks bytes */
        }
    }
    return status;
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
        role->size_bytes = known->roles[dao_plan_source(plan, i)].size_bytes;
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
        if (tensor->has_device && tensor->pin.count == 0) {
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
        if (tensor->has_device && tensor->pin.count == 0) {
            dao_victims_remove(engine, tensor);
            dao_device_arena_forget(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes);
        }
    }
    DAO_ASSERT(dao_range_used(engine->arena.range) <= engine->pinned_bytes);
    uint64_t pages = plan->window != NULL ? plan->schedule->arena_bytes / plan->schedule->page_bytes : 0;
    dao_status_t status =
        dao_device_arena_reserve(&engine->arena, dao_pins_free_bytes(engine),
                                 (uint32_t)dao_smaller(plan->role_count + pages, UINT32_MAX));
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
        if (role->start_address != DAO_PLAN_NOWHERE && role->tensor != NULL &&
            dao_plan_can_come(role->tensor)) {
            status = dao_plan_unless_refused(
                engine, dao_plan_copy_in(engine, role->tensor, role->start_address, &no_fence));
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
        *address = *address != DAO_PLAN_NOWHERE ? dao_plan_place(plan, *address) : DAO_PLAN_NOWHERE;
    }
}

dao_status_t dao_plan_follow_enter(dao_engine_t *engine, dao_compiled_plan_t *plan,
                                   const dao_step_log_t *known)
{
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(plan->role_count >= known->role_count);
    DAO_ASSERT(plan->pins == engine->pins);
    DAO_ASSERT(plan->schedule->arena_bytes <= dao_pins_free_bytes(engine));
    open_window(engine, plan);
    bind_all(engine, plan, known);
    dao_status_t status = complete_pinned(engine);
    status = status == DAO_OK ? clear_arena(engine, plan) : status;
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
    dao_device_arena_note_used(&engine->arena,
                               plan->schedule->arena_bytes + dao_range_used(engine->arena.range));
    status = bring_residents(engine, plan); /* behind the fences of the arena */
    plan->extra = dao_plan_everything(&engine->timeline);
    dao_fence_map_clear(&engine->arena.fences);
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
    dao_fence_t fence = dao_plan_everything(&engine->timeline);
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
