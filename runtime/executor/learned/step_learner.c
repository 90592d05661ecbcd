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

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/learned/step_file.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/failure.h"
#include "runtime/executor/state/victims.h"

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
    known->former_step_ns = known->planned.least_ns;
    known->plan = known->new_plan;
    known->new_plan = NULL;
    known->is_returning = false;
    known->is_online = false;
    known->planned = (dao_step_time_t){0};
}

/* The step begins as this known does: its plan is followed, the newest one, unless it is slower than none. */
static void follow(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_engine_t *engine = learner->engine;
    DAO_ASSERT(learner->now == known);
    DAO_ASSERT(learner->log.kernel_count == 1); /* the step has just begun */
    if (known->new_plan != NULL || known->is_online || engine->plan != known->plan) {
        leave(learner);
    }
    if (known->new_plan != NULL) {
        take_new_plan(known);
    }
    bool is_pinned = engine->first_pinned != NULL; /* plans move all tensors, and need all of the arena */
    if (known->plan == NULL || known->is_online || engine->plan != NULL || is_pinned) {
        return;
    }
    if (dao_plan_follow_enter(engine, known->plan, &known->log) != DAO_OK) {
        dao_compiled_plan_destroy(known->plan); /* the step goes on without; a new plan may be tried */
        known->plan = NULL;
        known->try_count++;
    }
}

/* ---- measuring ---- */

/* The plan that the step's next run is to follow; NULL: none. */
static const dao_compiled_plan_t *usual_plan(const dao_known_step_t *known)
{
    return known->is_online ? NULL : known->plan;
}

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

static uint64_t sum_of_kernels(const dao_profiler_t *profiler)
{
    uint64_t sum_ns = 0;
    for (uint32_t i = 0; i < profiler->kernel_count; i++) {
        sum_ns += profiler->kernel_ns[i];
    }
    return sum_ns;
}

/* Returns true if what was measured, and noted, is not what the plan was made with any more. */
static bool has_changed(const dao_step_learner_t *learner, const dao_plan_basis_t *basis)
{
    const dao_profiler_t *profiler = &learner->engine->profiler;
    return dao_measured_is_off((double)sum_of_kernels(profiler), (double)basis->compute_ns) ||
           dao_known_links_have_changed(&learner->links, profiler, &basis->host, &basis->file);
}

/* What is known of links, from the step that was measured. */
static void note_links(dao_step_learner_t *learner)
{
    dao_file_tier_t *tier = &learner->engine->file_tier;
    dao_known_links_note_host(&learner->links, &learner->engine->profiler);
    if (tier->is_there &&
        dao_known_links_note_file(&learner->links, &tier->moved[DAO_FILE_READ], &tier->moved[DAO_FILE_WRITE],
                                  tier->staging_bytes, dao_file_tier_open_share(tier))) {
        dao_file_tier_forget_moved(tier);
    }
}

/* For those who ask for the step's file; without memory the former times stay. */
static void note_kernels(const dao_step_learner_t *learner, dao_known_step_t *known)
{
    const dao_profiler_t *profiler = &learner->engine->profiler;
    DAO_ASSERT(profiler->kernel_count == known->log.kernel_count && profiler->kernel_count > 0);
    if (known->kernel_ns == NULL) {
        known->kernel_ns = dao_host_calloc(profiler->kernel_count, sizeof(*known->kernel_ns));
    }
    if (known->kernel_ns != NULL) {
        memcpy(known->kernel_ns, profiler->kernel_ns, profiler->kernel_count * sizeof(*known->kernel_ns));
    }
}

static void count_step(dao_step_learner_t *learner, const dao_known_step_t *known)
{
    const dao_profiler_t *profiler = &learner->engine->profiler;
    dao_executor_stats_t *stats = &learner->engine->stats;
    stats->measured_step_count++;
    stats->stall_in_ns += profiler->stall_ns[DAO_STALL_CAUSE_IN];
    stats->stall_out_ns += profiler->stall_ns[DAO_STALL_CAUSE_OUT];
    stats->stall_host_ns += profiler->stall_ns[DAO_STALL_CAUSE_HOST];
    if (known->plan != NULL && learner->measured_plan == known->plan) {
        uint64_t compute_ns = sum_of_kernels(profiler); /* kernels may have taken longer than in the plan */
        uint64_t bound_ns = known->plan->bound_ns > compute_ns ? known->plan->bound_ns : compute_ns;
        stats->bound_ns += bound_ns;
        stats->forecast_ns += known->plan->schedule->step_ns;
        stats->lost_ns += profiler->step_ns > bound_ns ? profiler->step_ns - bound_ns : 0;
    }
}

/* ---- planning ---- */

/* Bytes that the program writes for each step: they come through the host, beside what a plan keeps there. */
static uint64_t fed_bytes(const dao_step_log_t *log)
{
    uint64_t bytes = 0;
    uint32_t known_count = 0; /* roles are numbered by their first uses */
    for (uint32_t i = 0; i < log->use_count; i++) {
        if (log->uses[i].role == known_count) {
            const dao_step_log_role_t *role = &log->roles[known_count++];
            bytes += role->begins_anew && log->uses[i].kind != DAO_USE_WRITE ? role->size_bytes : 0;
        }
    }
    return bytes;
}

/* The host's link, and its limit less what plans leave to the program. Where nothing fits the host, all that
   was seen to move are pieces of the file. */
static dao_swap_tier_t host_of(const dao_step_learner_t *learner, const dao_step_log_t *log)
{
    uint64_t limit_bytes = learner->engine->config.host_limit_bytes, fed = fed_bytes(log);
    dao_swap_tier_t host =
        learner->links.host.in_bytes_per_second != 0 ? learner->links.host : learner->links.file;
    host.limit_bytes = limit_bytes > fed ? limit_bytes - fed : limit_bytes != 0 ? 1 : 0;
    return host;
}

static void hand_in(dao_step_learner_t *learner, dao_known_step_t *known, dao_plan_job_t *job)
{
    if (dao_plan_worker_submit(&learner->worker, job) != DAO_OK) {
        dao_plan_job_destroy(job);
        known->try_count++;
        return;
    }
    learner->submitted = known;
}

static void submit(dao_step_learner_t *learner, dao_known_step_t *known)
{
    const dao_engine_config_t *config = &learner->engine->config;
    if (learner->submitted != NULL) {
        return; /* one after the other: it will be measured again */
    }
    DAO_ASSERT(known->new_plan == NULL);
    /* What was given up comes back at once where a plan is left, and what it displaces goes to the host. */
    dao_plan_job_t *job =
        dao_plan_job_create(&known->log, learner->engine->profiler.kernel_ns, config->host_limit_bytes == 0);
    if (job == NULL) {
        known->try_count++;
        return;
    }
    job->problem.capacity_bytes = config->arena_bytes;
    job->problem.host = host_of(learner, &known->log);
    job->problem.file = learner->links.file;
    job->problem.file.limit_bytes = learner->engine->file_tier.limit_bytes;
    job->problem.page_bytes = learner->engine->pages.page_bytes;
    job->addresses = job->problem.page_bytes != 0 ? config->addresses : DAO_SWAP_ADDRESSES_STATIC;
    job->pages = &learner->engine->pages;
    job->work_limit = known->plan == NULL ? DAO_COMPILED_PLAN_FIRST : 0;
    hand_in(learner, known, job);
}

/* A new plan was measured. It stays if the step is as quick as with the former one; else that comes back, and
   is taken to be made with what is known now. Where kernels take other times the two cannot be compared: the
   new one stays. */
static void compare_with_former(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_compiled_plan_t *former = known->former;
    bool is_comparable = former != NULL && known->former_step_ns != 0 && known->new_plan == NULL &&
                         known != learner->submitted && /* else a better one may be on its way */
                         !dao_measured_is_off((double)sum_of_kernels(&learner->engine->profiler),
                                              (double)former->basis.compute_ns);
    known->former = NULL;
    if (is_comparable &&
        known->planned.least_ns > known->former_step_ns + known->former_step_ns / DAO_STEP_LEARNER_LOSS) {
        former->basis = known->plan->basis;
        known->new_plan = former;
        known->is_returning = true;
        known->next_measure = known->seen_count + 2;
        learner->engine->stats.plan_dropped_count++;
        return;
    }
    dao_compiled_plan_destroy(former);
}

static void measure_less_often(dao_known_step_t *known)
{
    uint32_t steps = known->measure_steps == 0 ? DAO_STEP_LEARNER_MEASURE_STEPS : 2 * known->measure_steps;
    known->measure_steps = (uint32_t)dao_smaller(steps, DAO_STEP_LEARNER_MEASURE_STEPS_MAX);
}

static void note_time(dao_step_time_t *time, uint64_t step_ns)
{
    time->least_ns = time->count == 0 || step_ns < time->least_ns ? step_ns : time->least_ns;
    time->count++;
}

/* A step with a plan was measured: from the next time on it goes the other way, with its plan or without, if
   that was quicker. Before, it is measured until it is not slow by chance. */
static void choose_quicker(dao_step_learner_t *learner, dao_known_step_t *known)
{
    const dao_step_time_t *taken = known->is_online ? &known->online : &known->planned;
    dao_step_time_t *other = known->is_online ? &known->planned : &known->online;
    bool is_slower = taken->count > 0 && other->count > 0 && taken->least_ns > other->least_ns;
    if (!is_slower || known->new_plan != NULL || learner->engine->config.keeps_plans) {
        return;
    }
    if (taken->count < DAO_STEP_LEARNER_PROOFS) {
        known->next_measure = known->seen_count;
        return;
    }
    learner->engine->stats.plan_dropped_count += known->is_online ? 0 : 1;
    known->is_online = !known->is_online;
    *other = (dao_step_time_t){0};
    known->next_measure = known->seen_count + known->measure_steps;
    measure_less_often(known);
}

/* Returns true if the step that was measured is to be planned, or planned anew. */
static bool wants_plan(const dao_step_learner_t *learner, const dao_known_step_t *known)
{
    bool is_wanted =
        known->plan != NULL
            ? learner->measured_plan == usual_plan(known) && has_changed(learner, &known->plan->basis)
            : known->has_evicted && known->try_count < DAO_STEP_LEARNER_TRIES_MAX;
    bool is_pinned = learner->engine->first_pinned != NULL; /* no plan would be followed */
    return is_wanted && !is_pinned && known->new_plan == NULL && dao_known_links_have_any(&learner->links);
}

static void use_measurement(dao_step_learner_t *learner)
{
    const dao_profiler_t *profiler = &learner->engine->profiler;
    dao_known_step_t *known = learner->measured;
    learner->measured = NULL;
    if (known == NULL || profiler->is_spoilt || profiler->kernel_count != known->log.kernel_count) {
        return;
    }
    note_links(learner);
    note_kernels(learner, known);
    count_step(learner, known);
    const dao_compiled_plan_t *plan = learner->measured_plan;
    if (plan == NULL && learner->measuring_plan == NULL) {
        note_time(&known->online, profiler->step_ns);
    } else if (plan != NULL && plan == known->plan) {
        note_time(&known->planned, profiler->step_ns);
        compare_with_former(learner, known);
    }
    if (wants_plan(learner, known)) {
        if (known->plan != NULL) { /* the step has changed since */
            known->online = (dao_step_time_t){profiler->step_ns, known->is_online ? 1 : 0};
        }
        submit(learner, known);
    } else {
        choose_quicker(learner, known);
    }
}

/* The step has its plan from the next time on. */
static void take_plan(dao_step_learner_t *learner, dao_known_step_t *known, dao_plan_job_t *job)
{
    bool is_first = known->plan == NULL, is_better = job->known_ns != 0;
    DAO_ASSERT(known->new_plan == NULL);
    learner->engine->stats.better_plan_count += is_better ? 1 : 0;
    learner->engine->stats.replan_count += is_first || is_better ? 0 : 1;
    known->measure_steps = is_first || is_better ? 0 : known->measure_steps;
    measure_less_often(known);
    DAO_ASSERT(job->plan != NULL);
    *(is_first ? &known->plan : &known->new_plan) = job->plan;
    known->next_measure = known->seen_count + 2; /* the first step that follows it moves more than it says */
    job->plan = NULL;
}

/* A first plan is followed while the same job looks for a better one, unless it is at the bound. */
static void deliver(dao_step_learner_t *learner, dao_plan_job_t *job)
{
    dao_known_step_t *known = learner->submitted;
    DAO_ASSERT(known != NULL);
    learner->submitted = NULL;
    uint64_t step_ns = job->status == DAO_OK ? job->plan->schedule->step_ns : 0;
    bool is_over =
        job->status != DAO_OK || job->work_limit != DAO_COMPILED_PLAN_FIRST || step_ns <= job->plan->bound_ns;
    if (job->status != DAO_OK) {
        known->try_count =
            job->status == DAO_ERR_NO_HOST_MEMORY ? known->try_count + 1 : DAO_STEP_LEARNER_TRIES_MAX;
    } else if (job->known_ns == 0 || step_ns < job->known_ns) {
        take_plan(learner, known, job);
    }
    if (is_over) {
        dao_plan_job_destroy(job);
        return;
    }
    job->work_limit = 0;
    job->known_ns = step_ns;
    hand_in(learner, known, job);
}

void dao_step_learner_look(dao_step_learner_t *learner)
{
    dao_profiler_t *profiler = &learner->engine->profiler;
    if (profiler->state != DAO_PROFILER_IDLE) {
        dao_profiler_collect(profiler);
    }
    if (profiler->state == DAO_PROFILER_DONE) {
        use_measurement(learner);
        dao_profiler_reset(profiler);
    }
    dao_plan_job_t *job = dao_plan_worker_take(&learner->worker);
    if (job != NULL) {
        deliver(learner, job);
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
    learner->before = learner->before == known ? NULL : learner->before;
    learner->measured = learner->measured == known ? NULL : learner->measured;
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        if (learner->known_steps[i]->after == known) {
            learner->known_steps[i]->after = NULL;
        }
    }
}

/* Returns a place in the table for one more step. With the table full, the one that was not seen for
   longest is forgotten. */
static dao_known_step_t **find_place(dao_step_learner_t *learner)
{
    dao_known_step_t **oldest = NULL;
    if (learner->known_step_count < DAO_KNOWN_STEP_COUNT_MAX) {
        return &learner->known_steps[learner->known_step_count++];
    }
    for (uint32_t i = 0; i < learner->known_step_count; i++) {
        dao_known_step_t **place = &learner->known_steps[i];
        if (*place != learner->submitted && (oldest == NULL || (*place)->seen_at < (*oldest)->seen_at)) {
            oldest = place;
        }
    }
    DAO_ASSERT(oldest != NULL); /* at most one of several is at the worker */
    DAO_ASSERT((*oldest)->plan == NULL || (*oldest)->plan != learner->engine->plan);
    forget_references(learner, *oldest);
    destroy_known(*oldest);
    return oldest;
}

/* Makes a known step of the log, which begins anew. NULL without memory. */
static dao_known_step_t *learn(dao_step_learner_t *learner)
{
    dao_known_step_t *known = dao_host_calloc(1, sizeof(*known));
    if (known == NULL) {
        return NULL;
    }
    note_persistence(learner);
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
    if (known != NULL && known->plan == NULL && known != learner->submitted) {
        note_persistence(learner);
        dao_step_log_take_over(&known->log, &learner->log);
    }
    return known != NULL ? known : learn(learner);
}

static void end_step(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_engine_t *engine = learner->engine;
    DAO_ASSERT(is_known(learner, known));
    known->seen_count++;
    known->seen_at = learner->step_count;
    known->has_evicted = known->has_evicted || engine->stats.eviction_count > learner->eviction_count;
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
        if (learner->measuring_plan == usual_plan(known)) { /* else one came meanwhile: it has set its time */
            known->next_measure = known->seen_count + (known->plan != NULL ? known->measure_steps : 0);
        }
    }
}

static void make_and_look(dao_step_learner_t *learner)
{
    dao_plan_worker_run(&learner->worker);
    dao_step_learner_look(learner);
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
    dao_step_learner_look(learner); /* hands it in */
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
