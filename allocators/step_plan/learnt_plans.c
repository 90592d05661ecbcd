/* SPDX-License-Identifier: Apache-2.0 */
/* The plans of a place: which of them a step follows, and when one is learnt.

   There is one rule. A step matches a plan if half of the bytes that it asks for are in it. A step that
   matches none is learnt as a plan of its own. Once DAO_PLANNED_PLAN_COUNT steps in a row match none, the
   program does not repeat itself, and the next step is plain: nothing is recorded, and all requests go to the
   usual allocator. Then two steps are looked at: one is learnt, and the other one may match it. If it does
   not, two steps are plain, then four, and so on.

       nothing -- a step matches no plan  --> learnt -- settled: offsets are found --> ready
          ^                                    ^  |                                     |  ^
          |                                    |  learnt with each step that matches    |  learnt anew
          +-- another plan takes its place: it was used least recently

   `settled` is what the config says (stable_count, max_count). A ready plan is learnt anew with its first
   step that is not all hits, then with the second such step, the fourth, and so on: a program that never
   repeats itself exactly pays less and less.

   All plans are followed until one knows DAO_FOLLOW_LOOK more of the step's requests than another: that many
   a plan of this step would have found again.

   What holds between calls:

       is_ready     implies a script with offsets or bins; not while `learning` has the only script
       current      is one of `candidates`, or DAO_PLANNED_PLAN_COUNT
       candidates   are plans with a script that is followed since the step began */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

/* A step matches a plan that has this part of its bytes: with less, more blocks are in the way of others
   than lie where they should. */
#define MATCH_PART 2u

/* Steps that are looked at between plain ones: one is learnt, and the next one may match it. */
#define LOOK_STEPS 2u

static_assert(DAO_PLANNED_PLAN_COUNT % LOOK_STEPS == 0, "backing off begins with a whole look");

/* Plain steps in a row are a power of two, at most of this one: a program that begins to repeat itself waits
   for 64 steps at most. */
#define BACKOFF_SHIFT_MAX 6u

/* ---- plans ---- */

void dao_learnt_plan_finish(dao_learnt_plan_t *plan)
{
    dao_bins_destroy(plan->bins);
    dao_follow_finish(&plan->follow);
    dao_script_destroy(plan->script);
    *plan = (dao_learnt_plan_t){0};
}

void dao_planned_replace(dao_planned_t *planned, uint32_t number, const dao_learnt_plan_t *plan)
{
    DAO_ASSERT(!plan->is_ready || plan->script != NULL);
    dao_spin_lock(&planned->lock);
    dao_learnt_plan_t before = planned->plans[number];
    planned->plans[number] = *plan;
    planned->candidates &= ~(1u << number);
    planned->current = DAO_PLANNED_PLAN_COUNT;
    dao_spin_unlock(&planned->lock);
    dao_learnt_plan_finish(&before);
    if (plan->is_ready) {
        planned->stats.plan_count++;
        planned->stats.plan_bytes = plan->arena_bytes;
        planned->stats.plan_bound_bytes = plan->script->bound_bytes;
    }
}

static dao_status_t bins_create(dao_planned_t *planned, const dao_script_t *script, dao_bins_t **out_bins)
{
    dao_bin_plan_t plan;
    dao_status_t status = dao_script_bins(script, planned->config.margin, &plan);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_bins_create(&plan, out_bins);
    if (status != DAO_OK) {
        dao_bin_plan_finish(&plan);
    }
    return status;
}

dao_status_t dao_learnt_plan_make_ready(dao_planned_t *planned, dao_learnt_plan_t *plan)
{
    dao_status_t status = dao_follow_init(&plan->follow, plan->script);
    plan->arena_bytes = plan->script->arena_bytes;
    if (status == DAO_OK && planned->config.mode == DAO_STEP_PLAN_BINS) {
        status = bins_create(planned, plan->script, &plan->bins);
        plan->arena_bytes = status == DAO_OK ? dao_bins_total_bytes(plan->bins) : 0;
    }
    plan->is_ready = status == DAO_OK;
    return status;
}

/* ---- which plan a step follows ---- */

void dao_planned_recognise_restart(dao_planned_t *planned)
{
    planned->candidates = 0;
    planned->current = DAO_PLANNED_PLAN_COUNT;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_t *plan = &planned->plans[i];
        if (plan->script == NULL) {
            continue;
        }
        dao_follow_restart(&plan->follow);
        plan->known_count = plan->known_bytes = 0;
        planned->candidates |= 1u << i;
        if (planned->current == DAO_PLANNED_PLAN_COUNT ||
            plan->latest_step > planned->plans[planned->current].latest_step) {
            planned->current = i; /* the latest one, until another knows more */
        }
    }
}

static bool is_candidate(const dao_planned_t *planned, uint32_t number)
{
    return (planned->candidates >> number & 1) != 0;
}

/* Chooses the plan that knows most of the requests so far. */
static void choose(dao_planned_t *planned)
{
    uint32_t best = planned->current;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        bool is_better =
            is_candidate(planned, i) && planned->plans[i].known_count > planned->plans[best].known_count;
        best = is_better ? i : best;
    }
    uint64_t known_count = planned->plans[best].known_count;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (planned->plans[i].known_count + DAO_FOLLOW_LOOK < known_count) {
            planned->candidates &= ~(1u << i);
        }
    }
    planned->current = best;
}

/* Returns true if a request is in a plan, as the one that was found for it: those with keys may have any
   size. */
static bool is_known(const dao_learnt_plan_t *plan, uint32_t entry, uint64_t size_bytes)
{
    return entry != DAO_SCRIPT_NONE &&
           dao_script_has_size(&plan->script->entries[entry], dao_lifetime_units(size_bytes));
}

uint32_t dao_planned_recognise(dao_planned_t *planned, const dao_lifetime_t *item)
{
    uint32_t entries[DAO_PLANNED_PLAN_COUNT];
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_t *plan = &planned->plans[i];
        if (is_candidate(planned, i)) {
            entries[i] = dao_follow_next(&plan->follow, item->slot, item->key, item->size_bytes);
            bool knows = is_known(plan, entries[i], item->size_bytes);
            plan->known_count += knows;
            plan->known_bytes += knows ? item->size_bytes : 0;
        }
    }
    if (planned->candidates == 0) {
        return DAO_SCRIPT_NONE;
    }
    choose(planned);
    DAO_ASSERT(is_candidate(planned, planned->current));
    return entries[planned->current];
}

/* ---- the rule ---- */

/* Returns true if nothing is learnt any more so many steps from now. */
static bool has_stopped(const dao_planned_t *planned, uint64_t later)
{
    uint32_t stop = planned->config.stop_step;
    return stop != 0 && planned->number + later >= stop;
}

/* Returns true if offsets are to be looked for. Where nothing more is learnt, what there is has to do. */
static bool is_settled(const dao_planned_t *planned, const dao_learnt_plan_t *plan)
{
    const dao_step_plan_config_t *config = &planned->config;
    bool waits = config->stable_count != 0 || config->max_count != 0;
    return has_stopped(planned, 1) || !waits || plan->stable_run > config->stable_count ||
           (config->max_count != 0 && plan->learnt_count > config->max_count);
}

/* Notes whether a step matched a plan. */
static void back_off(dao_planned_t *planned, bool matches)
{
    planned->bad_run = matches ? 0 : planned->bad_run + 1;
    bool is_due = planned->bad_run >= DAO_PLANNED_PLAN_COUNT && planned->bad_run % LOOK_STEPS == 0;
    if (is_due) {
        uint32_t shift = (planned->bad_run - DAO_PLANNED_PLAN_COUNT) / LOOK_STEPS;
        shift = shift < BACKOFF_SHIFT_MAX ? shift : BACKOFF_SHIFT_MAX;
        planned->plain_until = planned->number + (UINT64_C(1) << shift);
    }
}

/* ---- learning ---- */

/* Makes a script of the step that has ended. What it leaves alive has no place in a plan: nobody knows for
   how long. But in a step that is the same as the one before it is taken to be replaced as the next begins.
   NULL: there is no memory. */
static dao_script_t *learn(dao_planned_t *planned, bool is_same)
{
    const dao_lifetimes_t *recording = &planned->recording;
    dao_script_t *script = NULL;
    dao_status_t status = dao_script_create(recording->count, &script);
    if (status == DAO_OK) {
        uint32_t open_end = is_same ? recording->count + 1 : DAO_LIFETIME_OPEN;
        dao_spin_lock(&planned->lock); /* blocks may be freed meanwhile */
        dao_script_fill(script, recording, open_end);
        dao_spin_unlock(&planned->lock);
        status = dao_script_index(script);
    }
    if (status != DAO_OK) {
        dao_script_destroy(script);
        planned->stats.failed_count++;
        return NULL;
    }
    planned->stats.learn_count++;
    return script;
}

/* Asks a planner for the offsets of a plan's script, and takes it over. */
static void learning_create(dao_planned_t *planned, uint32_t number, dao_learnt_plan_t *plan)
{
    const dao_step_plan_config_t *wanted = &planned->config;
    dao_planner_config_t config = {.method = wanted->method,
                                   .work_limit = wanted->work_limit,
                                   .submit =
                                       wanted->worker == DAO_STEP_PLAN_WORKER_SUBMIT ? wanted->submit : NULL,
                                   .submit_user = wanted->submit_user};
    bool has_bins = wanted->mode == DAO_STEP_PLAN_BINS;
    dao_planned_learning_t *learning = dao_host_calloc(1, sizeof(*learning));
    DAO_ASSERT(planned->learning == NULL);
    if (learning == NULL || (!has_bins && dao_script_planner(plan->script, wanted->margin, &config,
                                                             &learning->planner) != DAO_OK)) {
        planned->stats.failed_count++;
        dao_host_free(learning);
        dao_learnt_plan_finish(plan);
        return;
    }
    learning->plan = *plan;
    learning->number = number;
    learning->reference_count = 1;
    learning->is_under_way = !has_bins;
    planned->learning = learning;
}

/* Learns the step that has ended for a plan: it takes the place of one with that number. If that one is ready
   it is used until there are offsets. */
static void learn_as(dao_planned_t *planned, uint32_t number, const dao_learnt_plan_t *plan)
{
    uint64_t request_count = planned->stats.latest.request_count;
    bool is_same =
        plan->script != NULL && plan->script->count == request_count && plan->known_count == request_count;
    dao_script_t *script = learn(planned, is_same);
    if (script == NULL) {
        return;
    }
    dao_learnt_plan_t next = {.script = script,
                              .learnt_count = plan->learnt_count + 1,
                              .stable_run = is_same ? plan->stable_run + 1 : 0,
                              .inexact_count = plan->inexact_count,
                              .latest_step = planned->number};
    if (plan->is_ready) {
        learning_create(planned, number, &next);
    } else if (dao_follow_init(&next.follow, script) == DAO_OK) {
        dao_planned_replace(planned, number, &next);
    } else {
        dao_learnt_plan_finish(&next);
    }
}

/* Returns true if a step that matched a plan says something new. */
static bool is_news(dao_learnt_plan_t *plan, const dao_step_counts_t *counts)
{
    bool is_exact = counts->hit_count == counts->request_count;
    plan->inexact_count += !is_exact;
    return !plan->is_ready || (!is_exact && dao_is_power_of_two(plan->inexact_count));
}

/* Returns a plan that is nothing, or the one that was used least recently. */
static uint32_t oldest(const dao_planned_t *planned)
{
    uint32_t oldest = 0;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        bool is_nothing = planned->plans[i].script == NULL;
        bool is_older = planned->plans[oldest].script != NULL &&
                        (is_nothing || planned->plans[i].latest_step < planned->plans[oldest].latest_step);
        oldest = is_older ? i : oldest;
    }
    return oldest;
}

/* Looks for the offsets of a plan that is settled. */
static void look_for_offsets(dao_planned_t *planned)
{
    uint32_t number = 0;
    for (; number < DAO_PLANNED_PLAN_COUNT; number++) {
        const dao_learnt_plan_t *plan = &planned->plans[number];
        if (plan->script != NULL && !plan->is_ready && is_settled(planned, plan)) {
            break;
        }
    }
    if (number == DAO_PLANNED_PLAN_COUNT) {
        return;
    }
    dao_spin_lock(&planned->lock);
    dao_learnt_plan_t plan = planned->plans[number];
    planned->plans[number] = (dao_learnt_plan_t){.latest_step = plan.latest_step};
    planned->candidates = 0;
    planned->current = DAO_PLANNED_PLAN_COUNT;
    dao_spin_unlock(&planned->lock);
    dao_follow_finish(&plan.follow);
    learning_create(planned, number, &plan);
}

dao_planned_learning_t *dao_planned_learn(dao_planned_t *planned)
{
    static const dao_learnt_plan_t nothing = {0};
    const dao_step_counts_t *counts = &planned->stats.latest;
    dao_learnt_plan_t *plan =
        planned->current < DAO_PLANNED_PLAN_COUNT ? &planned->plans[planned->current] : NULL;
    bool matches =
        plan != NULL && plan->known_count > 0 && plan->known_bytes >= counts->requested_bytes / MATCH_PART;
    bool is_whole = counts->request_count > 0 && counts->dropped_count == 0;
    bool may_learn = planned->learning == NULL && !has_stopped(planned, 0);
    if (is_whole && matches) {
        bool is_new = is_news(plan, counts);
        back_off(planned, true);
        if (may_learn && is_new) {
            learn_as(planned, planned->current, plan);
        }
        plan->latest_step = planned->number;
    } else if (is_whole && planned->learning == NULL) {
        back_off(planned, false);
        if (may_learn) {
            learn_as(planned, oldest(planned), &nothing);
        }
    }
    if (planned->learning == NULL) {
        look_for_offsets(planned);
    }
    dao_planned_learning_t *learning = planned->learning;
    if (learning == NULL || !learning->is_under_way || learning->reference_count > 1) {
        return NULL;
    }
    learning->reference_count++;
    return learning;
}

/* ---- a learning under way ---- */

void dao_planned_learning_release(dao_planned_learning_t *learning)
{
    DAO_ASSERT(learning->reference_count > 0);
    if (--learning->reference_count == 0) {
        dao_planner_destroy(learning->planner);
        dao_learnt_plan_finish(&learning->plan);
        dao_host_free(learning);
    }
}

void dao_planned_adopt(dao_planned_t *planned)
{
    dao_planned_learning_t *learning = planned->learning;
    if (learning == NULL || learning->is_under_way ||
        (learning->planner != NULL && dao_planner_wait(learning->planner, 0) == DAO_ERR_NOT_READY)) {
        return;
    }
    dao_learnt_plan_t plan = learning->plan;
    DAO_ASSERT(!atomic_load_explicit(&planned->is_open, memory_order_relaxed));
    DAO_ASSERT(plan.script != NULL);
    plan.latest_step = dao_larger(plan.latest_step, planned->plans[learning->number].latest_step);
    learning->plan = (dao_learnt_plan_t){0};
    planned->learning = NULL;
    dao_status_t status =
        learning->planner != NULL ? dao_script_place(plan.script, learning->planner) : DAO_OK;
    if (status == DAO_OK && dao_learnt_plan_make_ready(planned, &plan) == DAO_OK) {
        dao_planned_replace(planned, learning->number, &plan);
    } else {
        dao_learnt_plan_finish(&plan);
        planned->stats.failed_count++; /* the plan before, if there is one, goes on */
    }
    dao_planned_learning_release(learning);
}
