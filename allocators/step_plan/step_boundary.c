/* SPDX-License-Identifier: Apache-2.0 */
/* Where steps begin and end, and the calls that come between them.

       begin                    end                              begin
         |  requests are           |  deferred frees, counters      |  what was learnt is adopted,
         |  recorded, and          |  the step is learnt            |  the arena is made to fit
         |  follow a plan          |  the planner works: in the caller, a thread, the program's executor

   Lifetimes that go over a boundary are known one step later: then the step before is learnt once more,
   first.

   What holds between calls:

       depth > 0 within a step; is_open implies it
       learning  a plan that cannot be used yet; nothing is learnt while it is there */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

#include <inttypes.h>

/* ---- begin ---- */

/* Slots of threads that have ended are for others, in the order in which these come. */
static void slots_free_locked(dao_planned_t *planned)
{
    for (uint32_t slot = 0; slot < DAO_LIFETIME_SLOT_COUNT; slot++) {
        uint64_t thread = planned->slot_threads[slot];
        planned->slot_threads[slot] = thread != 0 && dao_thread_number_lives(thread) ? thread : 0;
    }
}

/* Returns true if the step is recorded, and may follow a plan. */
static bool is_looked_at(const dao_planned_t *planned)
{
    bool is_started = planned->number > planned->config.start_step;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        is_started = is_started || planned->plans[i].is_ready; /* a plan that was loaded */
    }
    return planned->is_enabled && is_started && planned->number > planned->plain_until;
}

static void step_open(dao_planned_t *planned)
{
    DAO_ASSERT(planned->depth == 1);
    DAO_ASSERT(planned->deferred_count == 0);
    planned->number++;
    dao_planned_adopt(planned);
    dao_planned_arena_fit(planned);
    planned->stats.backoff_count += planned->is_enabled && planned->number <= planned->plain_until;
    if (!is_looked_at(planned)) {
        return;
    }
    planned->fault_count = dao_measure_minor_faults();
    dao_spin_lock(&planned->lock);
    planned->serial = (uint32_t)planned->number;
    dao_lifetimes_clear(&planned->recordings[planned->serial & 1], planned->serial);
    dao_planned_recognise_restart(planned);
    slots_free_locked(planned);
    planned->counts = (dao_step_counts_t){0};
    planned->own = (dao_planned_own_t){0};
    atomic_store_explicit(&planned->small_count, 0, memory_order_relaxed);
    atomic_store_explicit(&planned->is_open, true, memory_order_relaxed);
    dao_spin_unlock(&planned->lock);
}

dao_status_t dao_planned_begin(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_planned_boundary_lock(planned);
    if (planned->depth++ == 0) {
        step_open(planned);
        (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    }
    dao_planned_boundary_unlock(planned);
    return DAO_OK;
}

/* ---- end ---- */

/* Frees the blocks whose frees were deferred. No step is open any more. */
static void deferred_reclaim(dao_planned_t *planned)
{
    for (size_t i = 0; i < planned->deferred_count; i++) {
        dao_planned_deferred_t *deferred = &planned->deferred[i];
        dao_status_t status = dao_planned_free_now(planned, deferred->address, &deferred->fence);
        DAO_ASSERT(status == DAO_OK); /* it lives: nobody else could free it */
        (void)status;
    }
    planned->deferred_count = 0;
}

static void counts_add(dao_step_counts_t *sum, const dao_step_counts_t *counts)
{
#define COUNT_ADD(name, text) sum->name += counts->name;
    DAO_STEP_COUNTS_LIST(COUNT_ADD)
#undef COUNT_ADD
}

/* Closes the books of a step. */
static void figures_take(dao_planned_t *planned)
{
    dao_step_plan_stats_t *stats = &planned->stats;
    dao_spin_lock(&planned->lock);
    stats->latest = planned->counts;
    stats->bound_bytes = planned->recordings[planned->serial & 1].bound_bytes;
    stats->total_bytes = dao_planned_has_window(planned)
                             ? planned->own.peak_used_bytes
                             : planned->arena.segment.size_bytes + planned->own.peak_beside_bytes;
    dao_spin_unlock(&planned->lock);
    stats->latest.minor_fault_count = dao_measure_minor_faults() - planned->fault_count;
    stats->latest.small_count = atomic_load_explicit(&planned->small_count, memory_order_relaxed);
    counts_add(&stats->all, &stats->latest);
}

/* Makes room for more where a step had too little. Without memory for it the next one lacks it, too. */
static void room_make(dao_planned_t *planned)
{
    uint32_t wanted = 2 * planned->config.allocation_count;
    if (planned->stats.latest.dropped_count == 0 || wanted > DAO_LIFETIME_COUNT_MAX) {
        return;
    }
    dao_lifetimes_t larger[2] = {0};
    if (dao_lifetimes_init(&larger[0], wanted) == DAO_OK &&
        dao_lifetimes_init(&larger[1], wanted) == DAO_OK) {
        dao_spin_lock(&planned->lock);
        for (int i = 0; i < 2; i++) {
            dao_lifetimes_t before = planned->recordings[i];
            planned->recordings[i] = larger[i];
            larger[i] = before;
        }
        (void)dao_block_map_reserve(&planned->tracked, wanted); /* else it grows when it has to */
        dao_spin_unlock(&planned->lock);
        planned->config.allocation_count = wanted;
    }
    dao_lifetimes_finish(&larger[0]);
    dao_lifetimes_finish(&larger[1]);
}

/* Ends a step that is open; returns what somebody has to start, with a reference for it. */
static dao_planned_learning_t *step_close(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
    dao_spin_unlock(&planned->lock);
    deferred_reclaim(planned);
    figures_take(planned);
    dao_planned_learning_t *learning = dao_planned_learn(planned);
    room_make(planned);
    dao_planned_arena_fit(planned);
    return learning;
}

dao_status_t dao_planned_end(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_learning_t *learning = NULL;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_planned_boundary_lock(planned);
    if (planned->depth == 0) {
        dao_planned_boundary_unlock(planned);
        return dao_error(DAO_ERR_INVALID, "%s: a step ends, but none has begun", planned->name);
    }
    if (--planned->depth == 0) {
        planned->stats.step_count++;
        if (atomic_load_explicit(&planned->is_open, memory_order_relaxed)) {
            learning = step_close(planned);
        } else { /* it passed by, or does since its middle */
            planned->stats.latest = (dao_step_counts_t){0};
            planned->stats.bound_bytes = planned->stats.total_bytes = 0;
        }
    }
    dao_planned_boundary_unlock(planned);
    if (learning != NULL) {
        dao_planned_learning_start(planned, learning);
    }
    (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    return DAO_OK;
}

/* ---- control ---- */

void dao_planned_enable(dao_allocator_t *allocator, bool is_enabled)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    planned->is_enabled = is_enabled;
    if (!is_enabled && atomic_load_explicit(&planned->is_open, memory_order_relaxed)) {
        dao_spin_lock(&planned->lock);
        atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
        dao_lifetimes_clear(&planned->recordings[planned->serial & 1], 0); /* half a step is not learnt */
        dao_spin_unlock(&planned->lock);
        deferred_reclaim(planned);
    }
    dao_planned_boundary_unlock(planned);
}

dao_status_t dao_planned_wait(dao_allocator_t *allocator, uint64_t timeout_ns)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    uint64_t now_ns = dao_clock_ns();
    uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
    bool is_late = false;
    dao_planned_boundary_lock(planned);
    dao_planned_learning_t *learning = planned->learning;
    if (learning != NULL) {
        learning->reference_count++;
        while (learning->is_under_way && !is_late) {
            is_late = !dao_cond_wait_until(&planned->changed, &planned->boundary, until_ns);
        }
        is_late = learning->is_under_way;
        dao_planned_boundary_unlock(planned);
        now_ns = dao_clock_ns();
        if (!is_late && learning->planner != NULL) {
            uint64_t rest_ns = until_ns == UINT64_MAX ? UINT64_MAX
                               : until_ns > now_ns    ? until_ns - now_ns
                                                      : 0;
            is_late = dao_planner_wait(learning->planner, rest_ns) == DAO_ERR_NOT_READY;
        }
        dao_planned_boundary_lock(planned);
        dao_planned_learning_release(learning);
    }
    dao_planned_boundary_unlock(planned);
    return is_late ? dao_error(DAO_ERR_NOT_READY, "%s: a plan is still being made", planned->name) : DAO_OK;
}

/* Refuses what is for the time between steps, while nobody learns. A plan that is done is adopted first: no
   step may be under way then, as it would go on without the plans that it follows. */
static dao_status_t check_idle(dao_planned_t *planned, const char *what)
{
    if (planned->depth > 0) {
        return dao_error(DAO_ERR_BUSY, "%s: %s within a step", planned->name, what);
    }
    dao_planned_adopt(planned);
    return planned->learning != NULL
               ? dao_error(DAO_ERR_BUSY, "%s: %s while a plan is being made", planned->name, what)
               : DAO_OK;
}

/* Forgets what was learnt. */
static void forget(dao_planned_t *planned)
{
    const dao_learnt_plan_t nothing = {0};
    dao_planned_replace(planned, DAO_PLANNED_PLAN_COUNT, &nothing);
    planned->bad_run = 0;
    planned->plain_until = 0;
    planned->arena_retry = 0;
    planned->arena_failure_count = 0;
    planned->stats.plan_bytes = planned->stats.plan_bound_bytes = 0;
    dao_spin_lock(&planned->lock);
    dao_lifetimes_clear(&planned->recordings[0], 0);
    dao_lifetimes_clear(&planned->recordings[1], 0);
    dao_spin_unlock(&planned->lock);
}

dao_status_t dao_planned_reset(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    dao_status_t status = check_idle(planned, "dao_step_plan_reset()");
    if (status == DAO_OK) {
        forget(planned);
        (void)dao_planned_arena_give(planned); /* else it goes with its last block */
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

static dao_status_t save_all(dao_planned_t *planned, dao_write_t write, void *user)
{
    dao_status_t status = DAO_OK;
    bool is_there = false;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT && status == DAO_OK; i++) {
        if (planned->plans[i].is_ready) {
            is_there = true;
            status = dao_script_write(planned->plans[i].script, write, user);
        }
    }
    return status == DAO_OK && !is_there
               ? dao_error(DAO_ERR_NOT_READY, "%s: there is no plan yet", planned->name)
               : status;
}

dao_status_t dao_planned_save(dao_allocator_t *allocator, dao_write_t write, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    dao_status_t status = DAO_OK;
    if (planned->depth > 0) {
        status = dao_error(DAO_ERR_BUSY, "%s: dao_step_plan_save() within a step", planned->name);
    } else {
        dao_planned_adopt(planned);
        status = save_all(planned, write, user);
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

/* Reads all plans of a text. On failure there are none. */
static dao_status_t load_all(dao_planned_t *planned, dao_script_text_t *text,
                             dao_learnt_plan_t plans[DAO_PLANNED_PLAN_COUNT])
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && (i == 0 || text->next < text->end); i++) {
        dao_script_t *script;
        if (i == DAO_PLANNED_PLAN_COUNT) {
            status = dao_error(DAO_ERR_PARSE, "line %" PRIu64 " of the plan: there are more than %u plans",
                               text->line, DAO_PLANNED_PLAN_COUNT);
            break;
        }
        status = dao_script_read(text, &script);
        status = status == DAO_OK ? dao_learnt_plan_init(planned, script, &plans[i]) : status;
        plans[i].learnt_count = status == DAO_OK;
    }
    for (uint32_t i = 0; status != DAO_OK && i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_finish(&plans[i]);
    }
    return status;
}

dao_status_t dao_planned_load(dao_allocator_t *allocator, const char *text, size_t text_bytes)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_learnt_plan_t plans[DAO_PLANNED_PLAN_COUNT] = {0};
    dao_script_text_t at = {.next = text, .end = text + text_bytes, .line = 1};
    dao_status_t status = load_all(planned, &at, plans);
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", planned->name);
        return status;
    }
    dao_planned_boundary_lock(planned);
    status = check_idle(planned, "dao_step_plan_load()");
    if (status == DAO_OK) {
        forget(planned);
    }
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (status == DAO_OK && plans[i].script != NULL) {
            planned->stats.plan_count++;
            planned->stats.plan_bytes = plans[i].arena_bytes;
            planned->stats.plan_bound_bytes = plans[i].script->bound_bytes;
            dao_planned_replace(planned, i, &plans[i]);
        } else {
            dao_learnt_plan_finish(&plans[i]);
        }
    }
    dao_planned_boundary_unlock(planned);
    return status;
}
