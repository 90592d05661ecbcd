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
          |                                    +------- is_block: a request misses -----+
          +-- another plan takes its place: it was used least recently

   `settled` is what the config says (stable_count, max_count). A ready plan is learnt anew with its first,
   second, fourth, eighth step and so on, if that is not all hits: a program that never repeats itself exactly
   pays less and less.

   All plans are followed until one knows DAO_FOLLOW_LOOK more of the step's requests than another: that many
   a plan of this step would have found again.

   Where the arena is one block (is_block), nobody else has its idle bytes, so a wrong plan grows the place.
   There a plan is settled after PROOF_STEPS steps that change nothing in it, and the first miss ends its use.
   After each end it takes twice as many steps. Bins are exempt: they suit any order.

   What holds between calls:

       is_ready     implies a script with offsets or bins; not while `learning` has the only script
       current      is one of `candidates`, or DAO_PLANNED_PLAN_COUNT
       candidates   are plans with a script that is followed since the step began */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <string.h>

/* A step matches a plan that has this part of its bytes: with less, more blocks are in the way of others
   than lie where they should. */
#define MATCH_PART 2u

/* Steps that are looked at between plain ones: one is learnt, and the next one may match it. */
#define LOOK_STEPS 2u

static_assert(DAO_PLANNED_PLAN_COUNT % LOOK_STEPS == 0, "backing off begins with a whole look");

/* Unchanged steps after which a plan is used in an arena that is a block: warming up takes two or three. */
#define PROOF_STEPS 8u

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
    dao_learnt_plan_t before[DAO_PLANNED_PLAN_COUNT] = {0};
    DAO_ASSERT(!plan->is_ready || plan->script != NULL);
    dao_spin_lock(&planned->lock);
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        if (i == number || number == DAO_PLANNED_PLAN_COUNT) {
            before[i] = planned->plans[i];
            planned->plans[i] = i == number ? *plan : (dao_learnt_plan_t){0};
            planned->candidates &= ~(1u << i);
        }
    }
    planned->current = DAO_PLANNED_PLAN_COUNT;
    dao_spin_unlock(&planned->lock);
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_finish(&before[i]);
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

dao_status_t dao_learnt_plan_init(dao_planned_t *planned, dao_script_t *script, dao_learnt_plan_t *out_plan)
{
    dao_learnt_plan_t plan = {.script = script, .is_ready = true, .arena_bytes = script->arena_bytes};
    dao_status_t status = dao_follow_init(&plan.follow, script);
    if (status == DAO_OK && planned->config.mode == DAO_STEP_PLAN_BINS) {
        status = bins_create(planned, script, &plan.bins);
        plan.arena_bytes = status == DAO_OK ? dao_bins_total_bytes(plan.bins) : 0;
    }
    if (status != DAO_OK) {
        dao_learnt_plan_finish(&plan);
    }
    *out_plan = plan;
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
           dao_script_size_is_usual(&plan->script->entries[entry], dao_lifetime_units(size_bytes));
}

void dao_planned_recognise(dao_planned_t *planned, const dao_lifetime_t *item,
                           uint32_t out_entries[DAO_PLANNED_PLAN_COUNT],
                           uint32_t out_counts[DAO_PLANNED_PLAN_COUNT])
{
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_t *plan = &planned->plans[i];
        out_entries[i] = DAO_SCRIPT_NONE;
        out_counts[i] = 0;
        if (is_candidate(planned, i)) {
            out_entries[i] = dao_follow_next(&plan->follow, item->slot, item->key, item->size_bytes);
            out_counts[i] = plan->follow.positions[item->slot].request_count;
            bool knows = is_known(plan, out_entries[i], item->size_bytes);
            plan->known_count += knows;
            plan->known_bytes += knows ? item->size_bytes : 0;
        }
    }
    if (planned->candidates != 0) {
        choose(planned);
    }
    DAO_ASSERT(planned->current == DAO_PLANNED_PLAN_COUNT || is_candidate(planned, planned->current));
}

void dao_planned_recognise_undo(dao_planned_t *planned, const dao_lifetime_t *item,
                                const uint32_t entries[DAO_PLANNED_PLAN_COUNT],
                                const uint32_t counts[DAO_PLANNED_PLAN_COUNT])
{
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        dao_learnt_plan_t *plan = &planned->plans[i];
        if (is_candidate(planned, i)) {
            dao_follow_take_back(&plan->follow, item->slot, item->key, entries[i], counts[i]);
            bool knows = is_known(plan, entries[i], item->size_bytes);
            plan->known_count -= knows;
            plan->known_bytes -= knows ? item->size_bytes : 0;
        }
    }
}

/* ---- the rule ---- */

/* Returns true if nothing is learnt any more so many steps from now. */
static bool has_stopped(const dao_planned_t *planned, uint64_t later)
{
    uint32_t stop = planned->config.stop_step;
    return stop != 0 && planned->number + later >= stop;
}

/* Returns true if a plan is used only while the program keeps to it exactly. */
static bool needs_proof(const dao_planned_t *planned)
{
    return dao_planned_has_block(planned) && planned->config.mode == DAO_STEP_PLAN_OFFSETS;
}

/* Returns true if offsets are to be looked for. Where nothing more is learnt, what there is has to do. */
static bool is_settled(const dao_planned_t *planned, const dao_learnt_plan_t *plan)
{
    const dao_step_plan_config_t *config = &planned->config;
    bool waits = config->stable_count != 0 || config->max_count != 0;
    bool is_stable = !waits || plan->stable_run > config->stable_count ||
                     (config->max_count != 0 && plan->learnt_count > config->max_count);
    uint32_t shift = plan->failure_count < DAO_PLANNED_BACKOFF_SHIFT_MAX ? plan->failure_count
                                                                         : DAO_PLANNED_BACKOFF_SHIFT_MAX;
    bool is_proved = !needs_proof(planned) || plan->stable_run >= PROOF_STEPS << shift;
    return has_stopped(planned, 1) ? plan->failure_count == 0 : is_stable && is_proved;
}

/* Notes whether a step matched a plan. */
static void back_off(dao_planned_t *planned, bool matches)
{
    planned->bad_run = matches ? 0 : planned->bad_run + 1;
    bool is_due = planned->bad_run >= DAO_PLANNED_PLAN_COUNT && planned->bad_run % LOOK_STEPS == 0;
    if (is_due) {
        uint32_t shift = (planned->bad_run - DAO_PLANNED_PLAN_COUNT) / LOOK_STEPS;
        shift = shift < DAO_PLANNED_BACKOFF_SHIFT_MAX ? shift : DAO_PLANNED_BACKOFF_SHIFT_MAX;
        planned->plain_until = planned->number + (UINT64_C(1) << shift);
    }
}

/* Ends the use of a plan: it has to be proved anew. */
static void end_use(dao_planned_t *planned, uint32_t number)
{
    dao_learnt_plan_t *plan = &planned->plans[number];
    DAO_ASSERT(plan->is_ready);
    DAO_ASSERT(needs_proof(planned));
    dao_spin_lock(&planned->lock);
    plan->is_ready = false;
    plan->arena_bytes = 0;
    plan->stable_run = 0;
    plan->failure_count++;
    dao_spin_unlock(&planned->lock);
    if (planned->learning != NULL && planned->learning->number == number) {
        planned->learning->is_outdated = true;
    }
}

/* ---- learning ---- */

/* Copies what was recorded: blocks may be freed while it is learnt. An empty copy where that step is not
   there. */
static dao_status_t recording_copy(dao_planned_t *planned, uint32_t serial, dao_lifetimes_t *out_copy)
{
    const dao_lifetimes_t *recording = &planned->recordings[serial & 1];
    *out_copy = (dao_lifetimes_t){0};
    if (recording->serial != serial || recording->count == 0) {
        return DAO_OK;
    }
    dao_status_t status = dao_lifetimes_init(out_copy, recording->count);
    if (status == DAO_OK) {
        dao_spin_lock(&planned->lock);
        dao_lifetime_t *items = out_copy->items;
        *out_copy = *recording;
        out_copy->items = items;
        out_copy->capacity = recording->count;
        memcpy(items, recording->items, recording->count * sizeof(*items));
        dao_spin_unlock(&planned->lock);
    }
    return status;
}

/* Learns a recorded step; *script is what was learnt so far, which the caller owns, or NULL, with `base` in
   its place. */
static dao_status_t learn_one(dao_planned_t *planned, uint32_t serial, const dao_script_t *base,
                              dao_script_t **script)
{
    dao_lifetimes_t copy;
    dao_script_t *next;
    dao_status_t status = recording_copy(planned, serial, &copy);
    if (status == DAO_OK && copy.count > 0) {
        status = dao_script_learn(*script != NULL ? *script : base, &copy, &next);
        if (status == DAO_OK) {
            next->changed_count += *script != NULL ? (*script)->changed_count : 0;
            dao_script_destroy(*script);
            *script = next;
        }
    }
    dao_lifetimes_finish(&copy);
    return status;
}

/* Returns true if the step before matched the same plan, and blocks of it were freed in this one: their lives
   are known only now. */
static bool goes_on(dao_planned_t *planned, const dao_learnt_plan_t *plan)
{
    dao_spin_lock(&planned->lock);
    bool goes = planned->recordings[(planned->serial - 1) & 1].carried_count > 0;
    dao_spin_unlock(&planned->lock);
    return goes && plan->latest_step + 1 == planned->number;
}

/* Learns the step that has ended, and before it what has become known of the one before. NULL: there was
   nothing, or no memory. */
static dao_script_t *learn(dao_planned_t *planned, const dao_learnt_plan_t *plan)
{
    dao_script_t *script = NULL;
    dao_status_t status =
        goes_on(planned, plan) ? learn_one(planned, planned->serial - 1, plan->script, &script) : DAO_OK;
    if (status == DAO_OK) {
        status = learn_one(planned, planned->serial, plan->script, &script);
    }
    if (status != DAO_OK) {
        dao_script_destroy(script);
        planned->stats.failed_count++;
        return NULL;
    }
    planned->stats.learn_count += script != NULL;
    return script;
}

/* Asks a planner for the offsets of a plan's script, and takes it over. */
static void learning_create(dao_planned_t *planned, uint32_t number, dao_learnt_plan_t *plan)
{
    dao_planner_config_t config = {
        .method = planned->config.method,
        .work_limit = planned->config.work_limit,
        .submit = planned->config.worker == DAO_STEP_PLAN_WORKER_SUBMIT ? planned->config.submit : NULL,
        .submit_user = planned->config.submit_user};
    dao_planned_learning_t *learning = dao_host_calloc(1, sizeof(*learning));
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    DAO_ASSERT(planned->learning == NULL);
    if (learning != NULL) {
        bool has_bins = planned->config.mode == DAO_STEP_PLAN_BINS;
        *learning = (dao_planned_learning_t){
            .plan = *plan, .number = number, .reference_count = 1, .is_under_way = !has_bins};
        status = has_bins
                     ? DAO_OK
                     : dao_script_planner(plan->script, planned->config.margin, &config, &learning->planner);
    }
    if (status != DAO_OK) {
        planned->stats.failed_count++;
        dao_host_free(learning);
        dao_learnt_plan_finish(plan);
        return;
    }
    *plan = (dao_learnt_plan_t){0};
    planned->learning = learning;
}

/* A plan with one more step learnt. Only its script is new; following it is left out. */
static dao_learnt_plan_t learnt_once_more(const dao_planned_t *planned, const dao_learnt_plan_t *plan,
                                          dao_script_t *script)
{
    return (dao_learnt_plan_t){.script = script,
                               .learnt_count = plan->learnt_count + 1,
                               .stable_run = script->changed_count == 0 ? plan->stable_run + 1 : 0,
                               .failure_count = plan->failure_count,
                               .step_count = plan->step_count,
                               .latest_step = planned->number};
}

/* Learns a step that matched a plan, as far as it says something new. */
static void learn_matched(dao_planned_t *planned, uint32_t number)
{
    dao_learnt_plan_t *plan = &planned->plans[number];
    const dao_step_counts_t *counts = &planned->stats.latest;
    bool is_exact = counts->hit_count == counts->request_count;
    plan->step_count++;
    if (planned->learning == NULL && !has_stopped(planned, 0) &&
        (!plan->is_ready || (!is_exact && dao_is_power_of_two(plan->step_count)))) {
        dao_script_t *script = learn(planned, plan);
        dao_learnt_plan_t next = {0};
        if (script != NULL) {
            next = learnt_once_more(planned, plan, script);
        }
        if (script != NULL && plan->is_ready) {
            learning_create(planned, number, &next);
        } else if (script != NULL && dao_follow_init(&next.follow, script) == DAO_OK) {
            dao_planned_replace(planned, number, &next);
        } else if (script != NULL) {
            dao_learnt_plan_finish(&next);
        }
    }
    planned->plans[number].latest_step = planned->number;
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

/* Learns a step that matched no plan as one of its own. */
static void learn_new(dao_planned_t *planned)
{
    const dao_learnt_plan_t nothing = {0};
    dao_script_t *script = learn(planned, &nothing);
    if (script == NULL) {
        return;
    }
    dao_learnt_plan_t plan = {.script = script, .learnt_count = 1, .latest_step = planned->number};
    if (dao_follow_init(&plan.follow, script) == DAO_OK) {
        dao_planned_replace(planned, oldest(planned), &plan);
    } else {
        dao_learnt_plan_finish(&plan);
    }
}

/* Looks for the offsets of a plan that is settled, the latest one first. */
static void look_for_offsets(dao_planned_t *planned)
{
    uint32_t latest = DAO_PLANNED_PLAN_COUNT;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        const dao_learnt_plan_t *plan = &planned->plans[i];
        bool is_due = plan->script != NULL && !plan->is_ready && is_settled(planned, plan);
        if (is_due &&
            (latest == DAO_PLANNED_PLAN_COUNT || plan->latest_step > planned->plans[latest].latest_step)) {
            latest = i;
        }
    }
    if (latest == DAO_PLANNED_PLAN_COUNT) {
        return;
    }
    dao_spin_lock(&planned->lock);
    dao_learnt_plan_t plan = planned->plans[latest];
    planned->plans[latest] = (dao_learnt_plan_t){.latest_step = plan.latest_step};
    planned->candidates = 0;
    planned->current = DAO_PLANNED_PLAN_COUNT;
    dao_spin_unlock(&planned->lock);
    dao_follow_finish(&plan.follow);
    learning_create(planned, latest, &plan);
}

dao_planned_learning_t *dao_planned_learn(dao_planned_t *planned)
{
    const dao_step_counts_t *counts = &planned->stats.latest;
    uint32_t number = planned->current;
    bool matches = number < DAO_PLANNED_PLAN_COUNT &&
                   planned->plans[number].known_bytes >= counts->requested_bytes / MATCH_PART &&
                   planned->plans[number].known_count > 0;
    if (counts->request_count > 0 && counts->dropped_count == 0) {
        bool is_used = matches && planned->plans[number].is_ready && dao_planned_has_arena(planned) &&
                       !planned->arena.is_closed;
        if (is_used && needs_proof(planned) && counts->hit_count < counts->request_count) {
            end_use(planned, number);
        }
        if (matches || planned->learning == NULL) {
            back_off(planned, matches);
        }
        if (matches) {
            learn_matched(planned, number);
        } else if (planned->learning == NULL && !has_stopped(planned, 0)) {
            learn_new(planned);
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

void dao_planned_learning_start(dao_planned_t *planned, dao_planned_learning_t *learning)
{
    dao_status_t status = DAO_ERR_THREAD;
    if (planned->config.worker != DAO_STEP_PLAN_WORKER_CALLER) {
        status = dao_planner_start(learning->planner);
    }
    if (status !=
        DAO_OK) { /* the caller is to do it, or there is no thread; what it finds until it fails is used */
        bool is_done;
        status = dao_planner_work(learning->planner, UINT64_MAX, &is_done);
        (void)status; /* a planner that failed has no plan */
    }
    dao_planned_boundary_lock(planned);
    learning->is_under_way = false;
    dao_planned_learning_release(learning);
    dao_cond_broadcast(&planned->changed);
    dao_planned_boundary_unlock(planned);
}

/* Makes what a plan with its offsets needs, but keeps what is known of it. */
static dao_status_t make_ready(dao_planned_t *planned, dao_planned_learning_t *learning,
                               dao_learnt_plan_t *out_plan)
{
    dao_learnt_plan_t *plan = &learning->plan;
    dao_script_t *script = plan->script;
    plan->script = NULL;
    dao_status_t status = learning->planner != NULL ? dao_script_place(script, learning->planner) : DAO_OK;
    if (status != DAO_OK) {
        dao_script_destroy(script);
        return status;
    }
    status = dao_learnt_plan_init(planned, script, out_plan);
    out_plan->learnt_count = plan->learnt_count;
    out_plan->stable_run = plan->stable_run;
    out_plan->failure_count = plan->failure_count;
    out_plan->step_count = plan->step_count;
    out_plan->latest_step = dao_larger(plan->latest_step, planned->plans[learning->number].latest_step);
    return status;
}

void dao_planned_adopt(dao_planned_t *planned)
{
    dao_planned_learning_t *learning = planned->learning;
    if (learning == NULL || learning->is_under_way ||
        (learning->planner != NULL && dao_planner_wait(learning->planner, 0) == DAO_ERR_NOT_READY)) {
        return;
    }
    dao_learnt_plan_t plan = {0};
    DAO_ASSERT(!atomic_load_explicit(&planned->is_open, memory_order_relaxed));
    DAO_ASSERT(learning->plan.script != NULL);
    planned->learning = NULL;
    if (!learning->is_outdated) {
        if (make_ready(planned, learning, &plan) == DAO_OK) {
            planned->stats.plan_count++;
            planned->stats.plan_bytes = plan.arena_bytes;
            planned->stats.plan_bound_bytes = plan.script->bound_bytes;
            dao_planned_replace(planned, learning->number, &plan);
        } else {
            planned->stats.failed_count++; /* the plan before, if there is one, goes on */
        }
    }
    dao_planned_learning_release(learning);
}
