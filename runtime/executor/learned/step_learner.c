/* SPDX-License-Identifier: Apache-2.0 */
/* From step boundaries to plans.

       boundary   |          |                 |                       |
       step       |  learnt  | the same: its   | the same: measured,   | the same: its plan is
                  |          | future is known | then planned          | followed from here on
       worker                                         [ bound, plan, compile ]

   At the first kernel of a step, the known step is expected that fits the queued kernels furthest. Of
   several, it is the one that came behind the step before the last time; then the latest. Later kernels
   are compared one by one.

   A step with a plan that is not quicker for it goes on without; both ways are measured from time to time,
   and the quicker one stays.

   Invariants: `now` is a known step whose first log.kernel_count kernels are those of the step under way;
   a plan is followed only if it is that of `now`, which is not `is_online`, or between two steps; the
   worker's job is that of `submitted`, which is not forgotten meanwhile; known_step_count <=
   DAO_KNOWN_STEP_COUNT_MAX. */
#include "runtime/executor/learned/step_learner.h"

#include "base/log.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/learned/step_file.h"
#include "runtime/executor/learned/step_planning.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/table.h"
#include "runtime/executor/state/victims.h"

#include <inttypes.h>
#include <string.h>

/* Queued kernels that are looked at to see which step begins. */
#define EXPECT_KERNELS_MAX 64u

dao_status_t dao_step_learner_create(dao_engine_t *engine, bool is_at_once, dao_step_learner_t **out_learner)
{
    dao_step_learner_t *learner = dao_host_calloc(1, sizeof(*learner));
    if (learner == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to learn steps");
    }
    learner->engine = engine;
    dao_plan_worker_init(&learner->worker, is_at_once);
    dao_step_log_init(&learner->log);
    *out_learner = learner;
    return DAO_OK;
}

static bool is_known(const dao_step_learner_t *learner, const dao_known_step_t *known)
{
    bool is_found = known == NULL;
    for (uint32_t i = 0; !is_found && i < learner->known_step_count; i++) {
        is_found = learner->known_steps[i] == known;
    }
    return is_found;
}

bool dao_step_learner_is_valid(const dao_step_learner_t *learner)
{
    const dao_compiled_plan_t *followed = learner->engine->plan;
    bool is_found = followed == NULL;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        const dao_known_step_t *known = learner->known_steps[i];
        is_found = is_found || known->plan == followed;
        if (!is_known(learner, known->after) || !dao_step_log_is_valid(&known->log)) {
            return false;
        }
    }
    return is_found && learner->known_step_count <= DAO_KNOWN_STEP_COUNT_MAX &&
           is_known(learner, learner->now) && is_known(learner, learner->before) &&
           is_known(learner, learner->measured) && is_known(learner, learner->submitted);
}

/* The step is as one that is known, and was never planned. */
static void forget_plans_of(dao_known_step_t *known)
{
    dao_compiled_plan_destroy(known->plan);
    dao_compiled_plan_destroy(known->new_plan);
    dao_compiled_plan_destroy(known->former);
    known->plan = known->new_plan = known->former = NULL;
    known->has_evicted = known->is_returning = known->is_online = false;
    known->try_count = known->measure_steps = 0;
    known->next_measure = 0;
    known->planned = known->online = (dao_step_time_t){0};
}

static void destroy_known(dao_known_step_t *known)
{
    forget_plans_of(known);
    dao_step_log_finish(&known->log);
    dao_host_free(known->kernel_ns);
    dao_host_free(known);
}

void dao_step_learner_destroy(dao_step_learner_t *learner)
{
    if (learner == NULL) {
        return;
    }
    DAO_ASSERT(learner->engine->plan == NULL);
    dao_plan_worker_finish(&learner->worker);
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        destroy_known(learner->known_steps[i]);
    }
    dao_step_log_finish(&learner->log);
    dao_host_free(learner);
}

/* ---- which step is it ---- */

/* Returns how many queued kernels are those that a known step begins with; 0: it begins otherwise. */
static uint32_t count_alike(const dao_known_step_t *known, const dao_item_t *first)
{
    uint32_t count = 0;
    for (const dao_item_t *item = first; item != NULL && item->kind != DAO_ITEM_STEP_BOUNDARY;
         item = item->next) {
        if (item->kind != DAO_ITEM_KERNEL) {
            continue;
        }
        if (count == EXPECT_KERNELS_MAX) {
            return count;
        }
        if (count == known->log.kernel_count || item->signature != known->log.kernels[count].signature) {
            return 0;
        }
        count++;
    }
    return count;
}

static dao_known_step_t *expect(const dao_step_learner_t *learner, const dao_item_t *item)
{
    const dao_known_step_t *after = learner->before != NULL ? learner->before->after : NULL;
    dao_known_step_t *best = NULL;
    uint32_t best_count = 0;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        dao_known_step_t *known = learner->known_steps[i];
        uint32_t count = count_alike(known, item);
        bool is_better = count > best_count || (count == best_count && count > 0 && best != after &&
                                                (known == after || known->seen_at > best->seen_at));
        if (is_better) {
            best = known;
            best_count = count;
        }
    }
    return best;
}

/* Returns the known step that is as the step under way up to now. */
static dao_known_step_t *find_alike(const dao_step_learner_t *learner, bool is_whole)
{
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        dao_known_step_t *known = learner->known_steps[i];
        bool is_same = !is_whole || known->log.kernel_count == learner->log.kernel_count;
        for (uint32_t k = 0; is_same && k < learner->log.kernel_count; k++) {
            is_same = dao_step_log_is_kernel_same(&learner->log, &known->log, k);
        }
        if (is_same) {
            return known;
        }
    }
    return NULL;
}

/* ---- plans ---- */

static void leave(dao_step_learner_t *learner)
{
    if (learner->engine->plan != NULL) {
        dao_plan_follow_leave(learner->engine);
    }
}

/* The step goes on otherwise than was expected: what was foreseen of tensors does not hold any more. */
static void forget_forecasts(dao_step_learner_t *learner)
{
    dao_engine_t *engine = learner->engine;
    for (dao_managed_t *tensor = learner->has_forecasts ? engine->table : NULL; tensor != NULL;
         tensor = tensor->table_next) {
        tensor->forecast_time = 0;
        dao_victims_update(engine, tensor);
    }
    learner->has_forecasts = false;
    engine->last_forecast = 0;
}

/* The first `kernel_count` kernels of the step under way were still those of the known one. */
static void deviate(dao_step_learner_t *learner, uint32_t kernel_count)
{
    dao_step_log_take_names(&learner->log, &learner->now->log, kernel_count);
    leave(learner);
    forget_forecasts(learner);
    learner->now = NULL;
    DAO_ASSERT(learner->engine->plan == NULL);
}

/* The new plan takes its place; the one that had it is kept to be compared with, or is the one that did not
   pay. */
static void take_new_plan(dao_known_step_t *known)
{
    DAO_ASSERT(known->new_plan != NULL);
    dao_compiled_plan_destroy(known->former);
    if (known->is_returning) {
        dao_compiled_plan_destroy(known->plan);
        known->plan = NULL;
    }
    known->former = known->plan;
    known->former_step_ns = dao_step_time_ns(&known->planned);
    known->plan = known->new_plan;
    known->new_plan = NULL;
    known->is_returning = false;
    known->is_online = false;
    known->planned = (dao_step_time_t){0};
}

/* On an error the plan is given up; a new one may be tried. */
static dao_status_t enter(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_status_t status = dao_plan_follow_enter(learner->engine, known->plan, &known->log);
    if (status != DAO_OK) {
        dao_compiled_plan_destroy(known->plan);
        known->plan = NULL;
        known->try_count++;
    }
    return status;
}

/* Other tensors are pinned than before: what was measured says nothing any more. A plan for them is wanted
   soon, later each time that one was made. Of two plans the one stays that was made beside them. */
static void note_pins(dao_step_learner_t *learner, dao_known_step_t *known)
{
    uint64_t soon = known->seen_count + known->measure_steps / DAO_STEP_LEARNER_MEASURE_STEPS;
    if (dao_step_planning_fits(learner, known->plan) && known->new_plan != NULL &&
        !dao_step_planning_fits(learner, known->new_plan)) {
        dao_compiled_plan_destroy(known->new_plan);
        known->new_plan = NULL;
        known->is_returning = false;
    }
    if (known->pins == learner->engine->pins) {
        return;
    }
    known->pins = learner->engine->pins;
    known->planned = known->online = (dao_step_time_t){0};
    known->is_online = false;
    known->next_measure = dao_smaller(known->next_measure, soon);
    known->try_count = 0;
    dao_compiled_plan_destroy(known->former);
    known->former = NULL;
}

/* The step begins as this known does: its plan is followed, the newest one, unless it is slower than none. */
static void follow(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_engine_t *engine = learner->engine;
    DAO_ASSERT(learner->now == known);
    DAO_ASSERT(learner->log.kernel_count == 1); /* the step has just begun */
    note_pins(learner, known);
    if (known->new_plan != NULL || known->is_online || engine->plan != known->plan) {
        leave(learner);
    }
    if (known->new_plan != NULL) {
        take_new_plan(known);
    }
    if (engine->plan != NULL || dao_step_planning_usual(learner, known) == NULL) {
        return;
    }
    (void)enter(learner, known); /* else the step goes on without */
}

/* ---- measuring ---- */

static bool is_worth_measuring(const dao_step_learner_t *learner)
{
    const dao_known_step_t *known = learner->now;
    if (known == NULL) {
        return false;
    }
    if (known->plan != NULL) {
        return known->seen_count >= known->next_measure;
    }
    return known->seen_count + 1 >= DAO_KNOWN_STEP_SEEN_MIN &&
           known->try_count < DAO_STEP_LEARNER_TRIES_MAX &&
           (known->has_evicted || known->seen_count < DAO_KNOWN_STEP_SEEN_MIN);
}

static void measure_step(dao_step_learner_t *learner)
{
    dao_profiler_t *profiler = &learner->engine->profiler;
    if (profiler->state == DAO_PROFILER_IDLE && is_worth_measuring(learner)) {
        dao_profiler_start(profiler);
        learner->measuring_plan = learner->engine->plan;
    }
}

/* ---- kernels ---- */

void dao_step_learner_kernel(dao_step_learner_t *learner, const dao_item_t *item)
{
    uint32_t index = learner->log.kernel_count;
    if (!learner->has_boundary || learner->log.is_broken) {
        return;
    }
    DAO_ASSERT(index > 0 ||
               learner->now == NULL); /* a step that has not begun is none of the known ones yet */
    if (index == 0) {
        learner->now = expect(learner, item);
        learner->eviction_count = learner->engine->stats.eviction_count;
    }
    dao_step_log_add(&learner->log, item);
    if (learner->log.is_broken) {
        dao_step_learner_break(learner);
        return;
    }
    learner->engine->step_kernel = index;
    if (learner->now != NULL && !dao_step_log_is_kernel_same(&learner->log, &learner->now->log, index)) {
        deviate(learner, index);
        learner->now = find_alike(learner, false);
    }
    if (learner->now == NULL) {
        dao_step_log_name(&learner->log, item);
    }
    if (index == 0 && learner->now != NULL) {
        follow(learner, learner->now);
        measure_step(learner);
    } else if (index == 0) {
        leave(learner); /* another step than the last one */
        forget_forecasts(learner);
    }
}

void dao_step_learner_break(dao_step_learner_t *learner)
{
    leave(learner);
    forget_forecasts(learner);
    learner->log.is_broken = true;
    learner->now = NULL;
    DAO_ASSERT(learner->engine->plan == NULL);
    if (learner->engine->profiler.state == DAO_PROFILER_RUNNING) {
        dao_profiler_reset(&learner->engine->profiler);
    }
}

void dao_step_learner_forget_plans(dao_step_learner_t *learner)
{
    DAO_ASSERT(learner->engine->plan == NULL);
    DAO_ASSERT(learner->engine->profiler.state != DAO_PROFILER_RUNNING);
    bool is_at_once = learner->worker.is_at_once;
    dao_plan_worker_finish(&learner->worker);
    dao_plan_worker_init(&learner->worker, is_at_once);
    learner->submitted = learner->measured = NULL;
    learner->measured_plan = learner->measuring_plan = NULL;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        forget_plans_of(learner->known_steps[i]);
    }
    learner->eviction_count = learner->engine->stats.eviction_count;
}

void dao_step_learner_forecast(dao_step_learner_t *learner, const dao_item_t *item)
{
    dao_engine_t *engine = learner->engine;
    if (learner->now == NULL) {
        return;
    }
    const dao_step_log_t *log = &learner->now->log;
    DAO_ASSERT(learner->log.kernel_count > 0);
    DAO_ASSERT(learner->log.kernel_count <= log->kernel_count);
    const dao_step_log_use_t *uses = log->uses + log->kernels[learner->log.kernel_count - 1].first_use;
    for (uint32_t i = 0; i < item->use_count; i++) {
        uint64_t time = uses[i].distance != 0 ? item->time + uses[i].distance : 0;
        item->uses[i].tensor->forecast_time = time;
        learner->has_forecasts = learner->has_forecasts || time != 0;
        engine->last_forecast = time > engine->last_forecast ? time : engine->last_forecast;
    }
}

/* ---- step boundaries ---- */

/* Which contents live on after the step. */
static void note_persistence(dao_step_learner_t *learner)
{
    for (const dao_managed_t *tensor = learner->engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->log_epoch == learner->log.epoch && tensor->residency != DAO_RESIDENCY_EMPTY) {
            learner->log.roles[tensor->log_role].is_persistent = true;
        }
    }
}

static void forget_references(dao_step_learner_t *learner, const dao_known_step_t *known)
{
    learner->measured = learner->measured == known ? NULL : learner->measured;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        if (learner->known_steps[i]->after == known) {
            learner->known_steps[i]->after = NULL;
        }
    }
}

/* Returns a place in the table for one more step. With the table full, the one that was not seen for
   longest is forgotten; not the step that ended last, which can still be written. */
static dao_known_step_t **find_place(dao_step_learner_t *learner)
{
    dao_known_step_t **oldest = NULL;
    if (learner->known_step_count < DAO_KNOWN_STEP_COUNT_MAX) {
        return &learner->known_steps[learner->known_step_count++];
    }
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        dao_known_step_t **place = &learner->known_steps[i];
        bool is_needed = *place == learner->submitted || *place == learner->before;
        if (!is_needed && (oldest == NULL || (*place)->seen_at < (*oldest)->seen_at)) {
            oldest = place;
        }
    }
    DAO_ASSERT(oldest != NULL); /* at most two of several are needed */
    DAO_ASSERT((*oldest)->plan == NULL || (*oldest)->plan != learner->engine->plan);
    forget_references(learner, *oldest);
    destroy_known(*oldest);
    return oldest;
}

/* Makes a known step of the log, which has all that is told of it, and begins anew. NULL without memory. */
static dao_known_step_t *learn(dao_step_learner_t *learner)
{
    dao_known_step_t *known = dao_host_calloc(1, sizeof(*known));
    if (known == NULL) {
        return NULL;
    }
    known->log = learner->log;
    dao_step_log_init(&learner->log);
    learner->log.epoch = known->log.epoch;
    if (!dao_step_log_close(&known->log)) {
        destroy_known(known);
        return NULL;
    }
    *find_place(learner) = known;
    return known;
}

/* Returns the known step that has just ended; NULL without memory for a new one. */
static dao_known_step_t *recognize(dao_step_learner_t *learner)
{
    dao_known_step_t *known = learner->now;
    if (known != NULL && known->log.kernel_count != learner->log.kernel_count) {
        deviate(learner, learner->log.kernel_count); /* it ends early */
        known = NULL;
    }
    known = known != NULL ? known : find_alike(learner, true);
    bool is_settled = known != NULL && (known->plan != NULL || known == learner->submitted);
    if (!is_settled) {
        note_persistence(learner);
    }
    if (known != NULL && !is_settled) {
        dao_step_log_take_over(&known->log, &learner->log);
    }
    return known != NULL ? known : learn(learner);
}

/* Notes whether a plan is of use. That there is none, as kernels could only run again and the step uses
   several streams, is said once. */
static void note_evictions(const dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_executor_stats_t *stats = &learner->engine->stats;
    bool evicts = stats->eviction_count > learner->eviction_count;
    bool is_first = evicts && !known->has_evicted;
    bool is_unplanned =
        known->log.has_streams && learner->engine->config.recompute_mode == DAO_RECOMPUTE_MODE_ONLY;
    known->has_evicted = known->has_evicted || evicts;
    if (is_unplanned && evicts) {
        stats->unplanned_count++;
    }
    if (is_unplanned && is_first) {
        dao_log(DAO_LOG_LEVEL_INFO,
                "a step of %" PRIu32
                " kernels on several compute streams gets no plan without copies: kernels "
                "run again on one",
                known->log.kernel_count);
    }
}

static void end_step(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_engine_t *engine = learner->engine;
    DAO_ASSERT(is_known(learner, known));
    known->seen_count++;
    known->seen_at = learner->step_count;
    note_evictions(learner, known);
    if (learner->before != NULL) {
        learner->before->after = known;
    }
    if (engine->plan != NULL) {
        dao_plan_follow_turn(engine);
    }
    if (engine->plan != NULL) {
        known->try_count = 0; /* it was followed to its end: what failed before has passed */
    }
    if (engine->profiler.state == DAO_PROFILER_RUNNING) {
        dao_profiler_stop(&engine->profiler);
        learner->measured = known;
        learner->measured_plan = engine->plan;
        if (learner->measuring_plan ==
            dao_step_planning_usual(learner, known)) { /* else one came meanwhile: it has set its time */
            known->next_measure = known->seen_count + (known->plan != NULL ? known->measure_steps : 0);
        }
    }
}

static void make_and_look(dao_step_learner_t *learner)
{
    dao_plan_worker_run(&learner->worker);
    dao_step_planning_look(learner);
}

/* Waits for the figures of a step that is to be planned, so that its plan is there with the next one. A
   better one is there a step later. */
static void plan_at_once(dao_step_learner_t *learner)
{
    dao_engine_t *engine = learner->engine;
    make_and_look(learner);
    if (learner->measured == NULL || learner->measured->plan != NULL || !learner->measured->has_evicted) {
        return;
    }
    dao_status_t status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, status);
    dao_step_planning_look(learner); /* hands it in */
    make_and_look(learner);
}

void dao_step_learner_boundary(dao_step_learner_t *learner)
{
    DAO_ASSERT_HEAVY(dao_step_learner_is_valid(learner));
    bool is_empty = learner->log.kernel_count == 0 && !learner->log.is_broken;
    if (!learner->has_boundary || is_empty) {
        learner->has_boundary = true;
        learner->log.is_broken = false; /* what failed before was in no step */
        return;
    }
    learner->step_count++;
    dao_known_step_t *known = learner->log.is_broken ? NULL : recognize(learner);
    if (known != NULL) {
        end_step(learner, known);
    } else {
        dao_step_learner_break(learner);
    }
    learner->before = known;
    learner->now = NULL;
    dao_step_log_restart(&learner->log);
    if (learner->worker.is_at_once) {
        plan_at_once(learner);
    }
    DAO_ASSERT_HEAVY(dao_step_learner_is_valid(learner));
}

/* Sources have the bytes of tensors that nothing has used yet: plans take those from there. */
static void list_sources(dao_engine_t *engine, const dao_item_t *first)
{
    for (const dao_item_t *item = first; item != NULL; item = item->next) {
        for (uint32_t i = 0; i < item->use_count; i++) {
            dao_managed_t *tensor = item->uses[i].tensor;
            if (tensor->source != NULL && !tensor->is_released) {
                dao_table_list(engine, tensor);
            }
        }
    }
}

/* Of the plans that a step has, the newest one that was made beside what is pinned now is left. */
static void choose_plan(dao_step_learner_t *learner, dao_known_step_t *known)
{
    note_pins(learner, known);
    if (known->new_plan != NULL) {
        take_new_plan(known);
    }
    if (known->plan != NULL && !dao_step_planning_fits(learner, known->plan)) {
        dao_compiled_plan_destroy(known->plan);
        known->plan = NULL;
    }
}

dao_status_t dao_step_learner_register(dao_step_learner_t *learner, const dao_item_t *first,
                                       uint64_t work_limit)
{
    dao_engine_t *engine = learner->engine;
    DAO_ASSERT(learner->has_boundary);
    DAO_ASSERT(learner->log.kernel_count == 0);
    DAO_ASSERT(engine->plan == NULL);
    dao_step_log_restart(&learner->log); /* what the program wrote before is no input of the step */
    dao_step_log_describe(&learner->log, first);
    bool is_broken = learner->log.is_broken, is_empty = !is_broken && learner->log.kernel_count == 0;
    dao_known_step_t *known = NULL;
    if (!is_broken && !is_empty) {
        known = find_alike(learner, true);
        known = known != NULL ? known : learn(learner);
    }
    dao_step_log_restart(&learner->log);
    if (known == NULL) {
        return is_empty ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to learn a step");
    }
    known->seen_at = ++learner->step_count; /* it is expected next, rather than others that begin alike */
    if (learner->before != NULL) {
        learner->before->after = known;
    }
    list_sources(engine, first);
    choose_plan(learner, known);
    dao_status_t status = known->plan == NULL ? dao_step_planning_first(learner, known, work_limit) : DAO_OK;
    if (status == DAO_OK && dao_step_planning_usual(learner, known) != NULL) {
        status = enter(learner, known);
    }
    DAO_ASSERT_HEAVY(dao_step_learner_is_valid(learner));
    return status;
}

dao_status_t dao_step_learner_write(const dao_step_learner_t *learner, const char *path)
{
    const dao_known_step_t *known = learner->before;
    if (known == NULL) {
        return dao_error(DAO_ERR_NOT_READY,
                         "no step has ended, or the last one failed: call dao_executor_step_begin() before "
                         "a step and dao_executor_step_end() behind it");
    }
    return dao_step_file_write(&known->log, known->kernel_ns, path);
}

uint64_t dao_step_learner_paged_count(const dao_step_learner_t *learner)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        const dao_compiled_plan_t *plan = learner->known_steps[i]->plan;
        count += plan != NULL && plan->window != NULL ? 1 : 0;
    }
    return count;
}

uint64_t dao_step_learner_plan_count(const dao_step_learner_t *learner)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        count += learner->known_steps[i]->plan != NULL ? 1 : 0;
    }
    return count;
}
