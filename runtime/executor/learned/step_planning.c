/* SPDX-License-Identifier: Apache-2.0 */
/* From measurements to plans.

       profiler     the step's kernels and links  -> has it changed? -> job
       worker       a first plan, then a better one                         -> plan, or new_plan
       profiler     the step with its plan, or without                      -> the quicker one stays

   A step that has not run is planned with what the program says of it, and with a link that is measured for
   that (link_probe.c).

   Invariant: the worker's job is that of `submitted`; a job is handed in only while there is none. */
#include "runtime/executor/learned/step_planning.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/learned/link_probe.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/pins.h"

#include <string.h>

/* A limit of no room, where 0 is none: no tensor is as small. */
#define NO_ROOM_BYTES 1u

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
        /* kernels may have taken longer than in the plan; those of several streams run beside each other */
        uint64_t compute_ns = known->log.has_streams ? 0 : sum_of_kernels(profiler);
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
    host.limit_bytes = limit_bytes > fed ? limit_bytes - fed : limit_bytes != 0 ? NO_ROOM_BYTES : 0;
    return host;
}

/* The file's link, and what fits it: nothing if there are only sources. Where nothing was seen to come from
   them yet, both are taken to be as quick as the host. */
static dao_swap_tier_t file_of(const dao_step_learner_t *learner, const dao_step_log_t *log)
{
    const dao_file_tier_t *tier = &learner->engine->file_tier;
    dao_swap_tier_t file = learner->links.file;
    bool is_used = tier->has_slots;
    for (uint32_t i = 0; !is_used && i < log->role_count; i++) {
        is_used = log->roles[i].has_source;
    }
    if (file.in_bytes_per_second == 0 && is_used) {
        file = learner->links.host;
    }
    file.limit_bytes = tier->has_slots ? tier->limit_bytes : NO_ROOM_BYTES;
    return file;
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

/* With the links as they are known; kernel times are the caller's. NULL without memory. */
static dao_plan_job_t *make_job(dao_step_learner_t *learner, const dao_known_step_t *known,
                                const uint64_t *kernel_ns)
{
    const dao_engine_config_t *config = &learner->engine->config;
    /* What was given up comes back at once where a plan is left, and what it displaces goes to the host. */
    dao_plan_job_t *job = dao_plan_job_create(&known->log, kernel_ns, config->host_limit_bytes == 0,
                                              learner->engine->first_pinned);
    if (job != NULL) {
        job->pins = learner->engine->pins;
        job->problem.capacity_bytes = dao_pins_free_bytes(learner->engine);
        job->problem.host = host_of(learner, &known->log);
        job->problem.file = file_of(learner, &known->log);
        job->problem.page_bytes = learner->engine->pages.page_bytes;
        job->addresses = job->problem.page_bytes != 0 ? config->addresses : DAO_SWAP_ADDRESSES_STATIC;
        job->pages = &learner->engine->pages;
        job->mode = config->recompute_mode;
        bool is_quick =
            job->mode == DAO_RECOMPUTE_MODE_HYBRID && !dao_step_planning_fits(learner, known->plan);
        job->work_limit = is_quick ? DAO_COMPILED_PLAN_FIRST : 0;
    }
    return job;
}

static void submit(dao_step_learner_t *learner, dao_known_step_t *known)
{
    if (learner->submitted != NULL) {
        return; /* one after the other: it will be measured again */
    }
    DAO_ASSERT(known->new_plan == NULL);
    dao_plan_job_t *job = make_job(learner, known, learner->engine->profiler.kernel_ns);
    if (job == NULL) {
        known->try_count++;
        return;
    }
    hand_in(learner, known, job);
}

static void measure_less_often(dao_known_step_t *known)
{
    uint32_t steps = known->measure_steps == 0 ? DAO_STEP_LEARNER_MEASURE_STEPS : 2 * known->measure_steps;
    known->measure_steps = (uint32_t)dao_smaller(steps, DAO_STEP_LEARNER_MEASURE_STEPS_MAX);
}

/* A new plan was measured. It stays if the step is as quick as with the former one; else that comes back, and
   is taken to be made with what is known now, and it is looked at half as often: figures of the link depend
   on the plan, and would have the same new one made at once. Where kernels take other times the two cannot be
   compared: the new one stays. */
static void compare_with_former(dao_step_learner_t *learner, dao_known_step_t *known)
{
    dao_compiled_plan_t *former = known->former;
    bool is_comparable = former != NULL && known->former_step_ns != 0 && known->new_plan == NULL &&
                         known != learner->submitted && /* else a better one may be on its way */
                         !dao_measured_is_off((double)sum_of_kernels(&learner->engine->profiler),
                                              (double)former->basis.compute_ns);
    known->former = NULL;
    if (is_comparable && dao_step_time_ns(&known->planned) >
                             known->former_step_ns + known->former_step_ns / DAO_STEP_LEARNER_LOSS) {
        former->basis = known->plan->basis;
        known->new_plan = former;
        known->is_returning = true;
        known->next_measure = known->seen_count + known->measure_steps;
        measure_less_often(known);
        learner->engine->stats.plan_dropped_count++;
        return;
    }
    dao_compiled_plan_destroy(former);
}

static_assert(DAO_STEP_LEARNER_PROOFS == 3, "of three, the middle one is found");

uint64_t dao_step_time_ns(const dao_step_time_t *time)
{
    uint64_t a = time->taken_ns[0], b = time->taken_ns[1], c = time->taken_ns[2];
    return time->count < DAO_STEP_LEARNER_PROOFS
               ? dao_larger(a, b)
               : dao_larger(dao_smaller(a, b), dao_smaller(dao_larger(a, b), c));
}

static void note_time(dao_step_time_t *time, uint64_t step_ns)
{
    time->taken_ns[time->count++ % DAO_STEP_LEARNER_PROOFS] = step_ns;
}

/* A step with a plan was measured: from the next time on it goes the other way, with its plan or without, if
   that was quicker. Before, it is measured until it is not slow by chance. */
static void choose_quicker(dao_step_learner_t *learner, dao_known_step_t *known)
{
    const dao_step_time_t *taken = known->is_online ? &known->online : &known->planned;
    dao_step_time_t *other = known->is_online ? &known->planned : &known->online;
    bool is_slower =
        taken->count > 0 && other->count > 0 && dao_step_time_ns(taken) > dao_step_time_ns(other);
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
    bool is_wanted = dao_step_planning_fits(learner, known->plan)
                         ? learner->measured_plan == dao_step_planning_usual(learner, known) &&
                               has_changed(learner, &known->plan->basis)
                         : known->has_evicted && known->try_count < DAO_STEP_LEARNER_TRIES_MAX;
    return is_wanted && known->new_plan == NULL && dao_known_links_have_any(&learner->links);
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
            known->online = (dao_step_time_t){0};
            if (known->is_online) {
                note_time(&known->online, profiler->step_ns);
            }
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
    DAO_ASSERT(known->new_plan == NULL || is_better);
    dao_compiled_plan_destroy(known->new_plan); /* the first one, which no step has begun with yet */
    known->new_plan = NULL;
    learner->engine->stats.better_plan_count += is_better ? 1 : 0;
    learner->engine->stats.replan_count += is_first || is_better ? 0 : 1;
    known->measure_steps = is_first || is_better ? 0 : known->measure_steps;
    measure_less_often(known);
    DAO_ASSERT(job->plan != NULL);
    *(is_first ? &known->plan : &known->new_plan) = job->plan;
    known->next_measure = known->seen_count + 2; /* the first step that follows it moves more than it says */
    job->plan = NULL;
}

/* Returns true if a job was made beside other pinned tensors than are there now, and has nothing that the
   step lacks. */
static bool is_stale(const dao_step_learner_t *learner, const dao_known_step_t *known,
                     const dao_plan_job_t *job)
{
    return job->pins != learner->engine->pins &&
           (job->status != DAO_OK || dao_step_planning_fits(learner, known->plan));
}

/* What a job has come to. A first plan is followed while the same job looks for a better one, unless it is at
   the bound. */
static void use_job(dao_step_learner_t *learner, dao_known_step_t *known, dao_plan_job_t *job)
{
    if (is_stale(learner, known, job)) {
        dao_plan_job_destroy(job);
        return;
    }
    uint64_t step_ns = job->status == DAO_OK ? job->plan->schedule->step_ns : 0;
    bool is_over = job->status != DAO_OK || job->work_limit != DAO_COMPILED_PLAN_FIRST ||
                   step_ns <= job->plan->bound_ns || learner->submitted != NULL;
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

static void deliver(dao_step_learner_t *learner, dao_plan_job_t *job)
{
    dao_known_step_t *known = learner->submitted;
    DAO_ASSERT(known != NULL);
    learner->submitted = NULL;
    use_job(learner, known, job);
}

/* ---- before the first run ---- */

/* What a step's tensors and its largest workspace take together, but for those that are pinned. */
static uint64_t moving_bytes(const dao_engine_t *engine, const dao_step_log_t *log)
{
    uint64_t bytes = 0, workspace_bytes = 0;
    for (uint32_t i = 0; i < log->role_count; i++) {
        bytes += dao_device_arena_part_bytes(log->roles[i].size_bytes);
    }
    for (uint32_t i = 0; i < log->kernel_count; i++) {
        workspace_bytes = dao_larger(workspace_bytes, log->kernels[i].workspace_bytes);
    }
    for (const dao_managed_t *pinned = engine->first_pinned; pinned != NULL; pinned = pinned->pin.next) {
        bool is_used = dao_step_log_find_role(log, pinned->id) != DAO_STEP_LOG_NO_ROLE;
        bytes -= is_used ? dao_device_arena_part_bytes(pinned->size_bytes) : 0;
    }
    return bytes + dao_device_arena_part_bytes(workspace_bytes);
}

/* A job with the times that were measured last, else those that the program says; NULL without memory. */
static dao_plan_job_t *make_job_of_costs(dao_step_learner_t *learner, const dao_known_step_t *known)
{
    const dao_step_log_t *log = &known->log;
    uint64_t *costs_ns = dao_host_calloc(log->kernel_count, sizeof(*costs_ns));
    for (uint32_t i = 0; costs_ns != NULL && i < log->kernel_count; i++) {
        costs_ns[i] = known->kernel_ns != NULL ? known->kernel_ns[i] : log->kernels[i].cost_ns;
    }
    dao_plan_job_t *job = costs_ns != NULL ? make_job(learner, known, costs_ns) : NULL;
    dao_host_free(costs_ns);
    return job;
}

dao_status_t dao_step_planning_first(dao_step_learner_t *learner, dao_known_step_t *known,
                                     uint64_t work_limit)
{
    DAO_ASSERT(learner->engine->plan == NULL);
    DAO_ASSERT(known->plan == NULL);
    if (moving_bytes(learner->engine, &known->log) <= dao_pins_free_bytes(learner->engine)) {
        return DAO_OK; /* nothing has to move: all of it has a place at once */
    }
    if (learner->engine->config.arena_bytes == 0) {
        return dao_error(DAO_ERR_KERNEL_TOO_LARGE, "with a capacity of 0 no kernel has room");
    }
    dao_status_t status = DAO_OK;
    if (!dao_known_links_have_any(&learner->links)) {
        status = dao_link_probe(learner->engine, &learner->links);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_job_t *job = make_job_of_costs(learner, known);
    if (job == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to plan a step");
    }
    job->work_limit = work_limit;
    dao_plan_job_run(job);
    status = job->status;
    known->has_evicted = true; /* it would, so that it is planned anew where its times are others */
    use_job(learner, known, job);
    known->try_count = status == DAO_OK ? known->try_count : 0; /* what is measured may tell otherwise */
    return status;
}

/* ---- looking ---- */

void dao_step_planning_look(dao_step_learner_t *learner)
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
