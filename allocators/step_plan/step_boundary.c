/* SPDX-License-Identifier: Apache-2.0 */
/* Where steps begin and end, and the calls that come between them.

       begin                    end                              begin
         |  requests are           |  deferred frees, counters      |  what was learnt is adopted,
         |  recorded, and          |  the step is learnt            |  the arena is made to fit
         |  follow a plan          |  the planner works: in the caller, a thread, the program's executor

   The lock of boundaries is held while the program's functions are called: who shows a plan does, and lines
   of the log come from where the window does. So each thread knows whether it has one, and public calls
   answer DAO_ERR_REENTRANT.

   What holds between calls:

       depth > 0 within a step; is_open implies it
       arena_bytes is at most window.size_bytes, and at least what each ready plan needs
       learning  a plan that cannot be used yet; nothing is learnt while it is there */
#include "allocators/step_plan/planned_internal.h"

#include "base/internal_error.h"
#include "base/memory/host_policy.h"
#include "base/memory/measure.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/thread_number.h"

#include <inttypes.h>

static _Thread_local bool is_at_boundary;

bool dao_planned_at_boundary(void)
{
    return is_at_boundary;
}

static void boundary_lock(dao_planned_t *planned)
{
    dao_mutex_lock(&planned->boundary);
    is_at_boundary = true;
}

static void boundary_unlock(dao_planned_t *planned)
{
    is_at_boundary = false;
    dao_mutex_unlock(&planned->boundary);
}

/* ---- the window ---- */

/* Touches the memory of the first bytes of the window, if that was asked for: what was not touched before, if
   it is idle. */
static void prefault(dao_planned_t *planned, uint64_t size_bytes)
{
    uint64_t done_bytes = planned->touched_bytes;
    if (!planned->config.prefault || !planned->is_host_memory || size_bytes <= done_bytes) {
        return;
    }
    size_t new_bytes = (size_t)(size_bytes - done_bytes);
    dao_status_t status =
        planned->inner->ops->window_back(planned->inner, &planned->window, (size_t)done_bytes, new_bytes);
    bool is_done = status == DAO_OK && dao_host_touch(planned->window.address + done_bytes, new_bytes);
    planned->touched_bytes = is_done ? size_bytes : done_bytes; /* else as pages are needed */
}

/* Begins the window, or makes the part of it that plans use larger, as those that are ready ask for. */
static void arena_fit(dao_planned_t *planned)
{
    dao_window_t window = planned->window;
    dao_status_t status = DAO_OK;
    uint64_t size_bytes = 0;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        size_bytes = dao_larger(size_bytes, planned->plans[i].arena_bytes);
    }
    if (size_bytes <= planned->arena_bytes) {
        return;
    }
    if (window.size_bytes == 0) {
        size_t released_bytes;
        status = planned->inner->ops->window_begin(planned->inner, &window);
        /* What fronts keep of small blocks would keep pages from the window; else they are kept. */
        (void)planned->inner->ops->trim(planned->inner, SIZE_MAX, &released_bytes);
    }
    if (status == DAO_OK && size_bytes > window.size_bytes) {
        status = dao_error(DAO_ERR_LIMIT, "%s: a plan needs %" PRIu64 " bytes, of %zu addresses",
                           planned->name, size_bytes, window.size_bytes);
    }
    dao_spin_lock(&planned->lock);
    planned->window = window;
    planned->arena_bytes = status == DAO_OK ? size_bytes : 0;
    dao_spin_unlock(&planned->lock);
    planned->stats.failed_count += status != DAO_OK;
    if (status == DAO_OK) {
        prefault(planned, size_bytes);
    }
}

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
    bool has_windows = planned->inner->ops->window_begin != NULL;
    bool is_started = planned->number > planned->config.start_step;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        is_started = is_started || planned->plans[i].is_ready; /* a plan that was loaded */
    }
    return has_windows && planned->is_enabled && is_started && planned->number > planned->plain_until;
}

static void step_open(dao_planned_t *planned)
{
    DAO_ASSERT(planned->depth == 1);
    DAO_ASSERT(planned->deferred_count == 0);
    planned->number++;
    dao_planned_adopt(planned);
    arena_fit(planned);
    planned->stats.backoff_count += planned->is_enabled && planned->number <= planned->plain_until;
    if (!is_looked_at(planned)) {
        return;
    }
    planned->fault_count = dao_measure_minor_faults();
    dao_spin_lock(&planned->lock);
    dao_lifetimes_clear(&planned->recording, (uint32_t)planned->number);
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
    boundary_lock(planned);
    if (planned->depth++ == 0) {
        step_open(planned);
        (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    }
    boundary_unlock(planned);
    return DAO_OK;
}

/* ---- end ---- */

/* Frees the blocks whose frees were deferred: only what could be freed at once was. No step is open any
   more. */
static void deferred_reclaim(dao_planned_t *planned)
{
    for (size_t i = 0; i < planned->deferred_count; i++) {
        dao_planned_deferred_t *deferred = &planned->deferred[i];
        DAO_MUST(dao_planned_free_now(planned, deferred->address, &deferred->fence, deferred->owner));
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
    stats->bound_bytes = planned->recording.bound_bytes;
    stats->total_bytes = planned->own.peak_used_bytes;
    dao_spin_unlock(&planned->lock);
    stats->latest.minor_fault_count = dao_measure_minor_faults() - planned->fault_count;
    stats->latest.small_count = atomic_load_explicit(&planned->small_count, memory_order_relaxed);
    counts_add(&stats->all, &stats->latest);
}

/* Ends a step that is open; returns what somebody has to start, with a reference for it. */
static dao_planned_learning_t *step_close(dao_planned_t *planned)
{
    dao_spin_lock(&planned->lock);
    atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
    dao_spin_unlock(&planned->lock);
    deferred_reclaim(planned);
    figures_take(planned);
    return dao_planned_learn(planned);
}

/* Works on what is being learnt, or lets others do so. No lock is held; the caller gives its reference up. */
static void learning_start(dao_planned_t *planned, dao_planned_learning_t *learning)
{
    dao_status_t status = DAO_ERR_THREAD;
    if (planned->config.worker != DAO_STEP_PLAN_WORKER_CALLER) {
        status = dao_planner_start(learning->planner);
    }
    if (status != DAO_OK) { /* the caller is to do it, or there is no thread; what it finds is used */
        bool is_done;
        status = dao_planner_work(learning->planner, UINT64_MAX, &is_done);
        (void)status; /* a planner that failed has no plan */
    }
    boundary_lock(planned);
    learning->is_under_way = false;
    dao_planned_learning_release(learning);
    dao_cond_broadcast(&planned->changed);
    boundary_unlock(planned);
}

dao_status_t dao_planned_end(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_learning_t *learning = NULL;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    boundary_lock(planned);
    if (planned->depth == 0) {
        boundary_unlock(planned);
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
    boundary_unlock(planned);
    if (learning != NULL) {
        learning_start(planned, learning);
    }
    (void)dao_error_restore(&record); /* what failed on the way is no failure of this call */
    return DAO_OK;
}

/* ---- control ---- */

void dao_planned_enable(dao_allocator_t *allocator, bool is_enabled)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    boundary_lock(planned);
    planned->is_enabled = is_enabled;
    if (!is_enabled && atomic_load_explicit(&planned->is_open, memory_order_relaxed)) {
        dao_spin_lock(&planned->lock);
        atomic_store_explicit(&planned->is_open, false, memory_order_relaxed);
        dao_lifetimes_clear(&planned->recording, 0); /* half a step is not learnt */
        dao_spin_unlock(&planned->lock);
        deferred_reclaim(planned);
    }
    boundary_unlock(planned);
}

dao_status_t dao_planned_wait(dao_allocator_t *allocator, uint64_t timeout_ns)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    uint64_t now_ns = dao_clock_ns();
    uint64_t until_ns = timeout_ns < UINT64_MAX - now_ns ? now_ns + timeout_ns : UINT64_MAX;
    bool is_late = false;
    boundary_lock(planned);
    dao_planned_learning_t *learning = planned->learning;
    if (learning != NULL) {
        learning->reference_count++;
        while (learning->is_under_way && !is_late) {
            is_late = !dao_cond_wait_until(&planned->changed, &planned->boundary, until_ns);
        }
        is_late = learning->is_under_way;
        boundary_unlock(planned);
        now_ns = dao_clock_ns();
        if (!is_late && learning->planner != NULL) {
            uint64_t rest_ns = until_ns == UINT64_MAX ? UINT64_MAX
                               : until_ns > now_ns    ? until_ns - now_ns
                                                      : 0;
            is_late = dao_planner_wait(learning->planner, rest_ns) == DAO_ERR_NOT_READY;
        }
        boundary_lock(planned);
        dao_planned_learning_release(learning);
    }
    boundary_unlock(planned);
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
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_planned_replace(planned, i, &nothing);
    }
    planned->bad_run = 0;
    planned->plain_until = 0;
    planned->stats.plan_bytes = planned->stats.plan_bound_bytes = 0;
    dao_spin_lock(&planned->lock);
    dao_lifetimes_clear(&planned->recording, 0);
    dao_spin_unlock(&planned->lock);
}

dao_status_t dao_planned_reset(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    boundary_lock(planned);
    dao_status_t status = check_idle(planned, "dao_step_plan_reset()");
    if (status == DAO_OK) {
        forget(planned);
    }
    boundary_unlock(planned);
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
    boundary_lock(planned);
    dao_status_t status = DAO_OK;
    if (planned->depth > 0) {
        status = dao_error(DAO_ERR_BUSY, "%s: dao_step_plan_save() within a step", planned->name);
    } else {
        dao_planned_adopt(planned);
        status = save_all(planned, write, user);
    }
    boundary_unlock(planned);
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
        if (status == DAO_OK) {
            plans[i] = (dao_learnt_plan_t){.script = script, .learnt_count = 1};
            status = dao_learnt_plan_make_ready(planned, &plans[i]);
        }
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
    boundary_lock(planned);
    status = check_idle(planned, "dao_step_plan_load()");
    if (status == DAO_OK) {
        forget(planned);
    }
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (status == DAO_OK && plans[i].script != NULL) {
            dao_planned_replace(planned, i, &plans[i]);
        } else {
            dao_learnt_plan_finish(&plans[i]);
        }
    }
    boundary_unlock(planned);
    return status;
}

/* ---- figures for <dao/step_plan.h> ---- */

void dao_planned_stats_get(dao_allocator_t *allocator, dao_step_plan_stats_t *out_stats)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    boundary_lock(planned);
    *out_stats = planned->stats;
    out_stats->arena_bytes = planned->arena_bytes;
    out_stats->has_plan = false;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        out_stats->has_plan |= planned->plans[i].is_ready && planned->arena_bytes > 0;
    }
    boundary_unlock(planned);
}

/* Shows one item. What was freed at the end itself was freed before the next step began. */
static dao_step_plan_lifetime_t describe(const dao_lifetime_t *item, uint32_t index)
{
    return (dao_step_plan_lifetime_t){.size_bytes = item->size_bytes,
                                      .key = item->key,
                                      .begin = index,
                                      .end = item->end != DAO_LIFETIME_OPEN ? item->end : UINT64_MAX,
                                      .begin_ns =
                                          item->begin_ticks != 0 ? dao_ticks_to_ns(item->begin_ticks) : 0,
                                      .end_ns = item->end_ticks != 0 ? dao_ticks_to_ns(item->end_ticks) : 0,
                                      .thread_slot = item->slot};
}

dao_status_t dao_planned_walk(dao_allocator_t *allocator, dao_step_plan_visit_t visit, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    boundary_lock(planned);
    dao_status_t status = DAO_OK;
    if (planned->depth > 0) {
        status = dao_error(DAO_ERR_BUSY, "%s: dao_step_plan_walk() within a step", planned->name);
    }
    const dao_lifetimes_t *recording = &planned->recording;
    for (uint32_t i = 0; status == DAO_OK && i < recording->count; i++) {
        dao_spin_lock(&planned->lock); /* its block may be freed meanwhile */
        dao_step_plan_lifetime_t lifetime = describe(&recording->items[i], i);
        dao_spin_unlock(&planned->lock);
        visit(&lifetime, user);
    }
    boundary_unlock(planned);
    return status;
}
