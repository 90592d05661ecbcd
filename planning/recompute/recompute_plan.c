/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as a program has them: of the plan that only swaps, the one that only runs again, and those of the
   best longer steps that the search found, the quickest one. */
#include "planning/recompute/recompute_plan.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/recompute/recompute_search.h"
#include "planning/swap/swap_search.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LESS_PART 256u /* of the memory is tried without first, then without twice as much each time */

/* Each longer step that gets addresses has such a part of the work, those that are only compared share
   another one: so a plan of 1,000 kernels takes some 2 s. */
#define WORK_PART 5u

#define ALONE_FACTOR 4u

/* Longer steps that get addresses: the quickest ones without; all, until one has a plan. */
#define PLACED_MAX 2u

struct dao_recompute_plan {
    dao_recompute_draft_t draft;
    dao_recompute_step_t step;
    dao_swap_plan_t *swap;
};

void dao_recompute_plan_destroy(dao_recompute_plan_t *plan)
{
    if (plan != NULL) {
        dao_swap_plan_destroy(plan->swap);
        dao_recompute_draft_finish(&plan->draft);
        dao_host_free(plan);
    }
}

const dao_recompute_step_t *dao_recompute_plan_step(const dao_recompute_plan_t *plan)
{
    return plan != NULL ? &plan->step : NULL;
}

const dao_swap_schedule_t *dao_recompute_plan_schedule(const dao_recompute_plan_t *plan)
{
    return plan != NULL ? dao_swap_plan_schedule(plan->swap) : NULL;
}

/* What a call works on. */
typedef struct maker {
    const dao_swap_problem_t *problem;
    const dao_recompute_config_t *config;
    uint64_t work; /* for a plan of copies */
    dao_recompute_plan_t *best;
    dao_error_record_t refusal; /* what the plan without runs again lacks; DAO_OK: nothing */
    uint32_t part_begin, done;  /* where the part of the progress begins, and what was told */
} maker_t;

/* What is told of the progress: the search, its plans, the plan without runs again, and runs alone take about
   as long each. */
enum {
    PART_SEARCH = 0,
    PART_KEPT = DAO_RECOMPUTE_PROGRESS_PARTS / 4,
    PART_PLAIN = DAO_RECOMPUTE_PROGRESS_PARTS / 2,
    PART_ALONE = DAO_RECOMPUTE_PROGRESS_PARTS / 4 * 3,
};

static void tell(maker_t *maker, uint32_t done)
{
    if (maker->config->on_progress != NULL && done > maker->done) {
        maker->done = done;
        maker->config->on_progress(maker->config->progress_user, done);
    }
}

/* Runs alone are weighed without a bound, which takes most of a try: there may be more of them. */
static uint32_t try_count_of(const maker_t *maker, bool is_alone)
{
    uint32_t count = maker->config->try_count != 0 ? maker->config->try_count : DAO_RECOMPUTE_TRIES_DEFAULT;
    return is_alone && count <= UINT32_MAX / ALONE_FACTOR ? ALONE_FACTOR * count : count;
}

static void tell_try(void *user, uint32_t tries_left)
{
    maker_t *maker = user;
    uint64_t tries = try_count_of(maker, maker->part_begin == PART_ALONE), made = tries - tries_left;
    tell(maker, maker->part_begin + (uint32_t)(PART_KEPT * made / tries));
}

static uint64_t step_ns_of(const dao_recompute_plan_t *plan)
{
    return plan != NULL ? dao_swap_plan_schedule(plan->swap)->step_ns : UINT64_MAX;
}

/* Returns what a bound has to be below of, to be planned. */
static uint64_t known_ns_of(const maker_t *maker)
{
    uint64_t known_ns = maker->config->known_ns != 0 ? maker->config->known_ns : UINT64_MAX;
    return dao_smaller(known_ns, step_ns_of(maker->best));
}

static bool moves_nothing(const dao_recompute_plan_t *plan)
{
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan->swap);
    return schedule->in_bytes == 0 && schedule->out_bytes == 0;
}

dao_status_t dao_recompute_plan_draft(dao_recompute_draft_t *draft, const dao_swap_problem_t *problem,
                                      const dao_swap_plan_config_t *config, dao_recompute_plan_t **out_plan)
{
    dao_recompute_plan_t *plan = dao_host_calloc(1, sizeof(*plan));
    if (plan == NULL) {
        dao_recompute_draft_finish(draft);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
    }
    plan->draft = *draft;
    plan->draft.problem = problem;
    memset(draft, 0, sizeof(*draft));
    plan->step = (dao_recompute_step_t){.problem = dao_recompute_draft_problem(&plan->draft),
                                        .runs = plan->draft.runs,
                                        .tensor_sources = plan->draft.tensor_sources,
                                        .again_count = plan->draft.kernel_count - problem->kernel_count,
                                        .again_ns = plan->draft.again_ns};
    DAO_ASSERT_HEAVY(dao_recompute_check(problem, &plan->step) != DAO_ERR_CORRUPT);
    dao_status_t status = dao_swap_plan_make(&plan->step.problem, config, &plan->swap);
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

/* Keeps the better one of a plan and the best one; the other is destroyed. */
static void keep_better(maker_t *maker, dao_recompute_plan_t *plan)
{
    bool is_allowed = maker->config->mode != DAO_RECOMPUTE_MODE_ONLY || moves_nothing(plan);
    if (is_allowed && step_ns_of(plan) < step_ns_of(maker->best)) {
        dao_recompute_plan_t *slower = maker->best;
        maker->best = plan;
        plan = slower;
    }
    dao_recompute_plan_destroy(plan);
}

/* Plans the step as it is, unless no plan of it is better than the best one. Where the tiers are full it is
   no plan, and running again may be one. */
static dao_status_t try_plain(maker_t *maker, uint64_t bound_ns)
{
    dao_recompute_draft_t draft;
    dao_recompute_plan_t *plan = NULL;
    const dao_swap_problem_t *problem = maker->problem;
    if (bound_ns >= known_ns_of(maker)) {
        return DAO_OK;
    }
    dao_status_t status = dao_recompute_draft_init(&draft, problem);
    for (uint32_t k = 0; status == DAO_OK && k < problem->kernel_count; k++) {
        status = dao_recompute_draft_add_first(&draft, k)
                     ? DAO_OK
                     : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a step of %" PRIu32 " kernels",
                                 problem->kernel_count);
    }
    status =
        status == DAO_OK ? dao_recompute_plan_draft(&draft, problem, &maker->config->swap, &plan) : status;
    dao_recompute_draft_finish(&draft);
    if (status == DAO_ERR_HOST_FULL) {
        dao_error_save(&maker->refusal, status);
        return DAO_OK;
    }
    if (status == DAO_OK) {
        keep_better(maker, plan);
    }
    return status;
}

/* Plans a choice of a search. What cannot be planned is none: `*out_plan` stays NULL. */
static dao_status_t plan_choice(const maker_t *maker, dao_recompute_search_t *search,
                                const dao_recompute_choice_t *choice, const dao_swap_plan_config_t *config,
                                dao_recompute_plan_t **out_plan)
{
    if (!dao_recompute_search_replay(search, choice)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the runs of a step");
    }
    dao_status_t status = dao_recompute_plan_draft(&search->draft, maker->problem, config, out_plan);
    bool is_refused =
        status == DAO_ERR_HOST_FULL || status == DAO_ERR_KERNEL_TOO_LARGE || status == DAO_ERR_OVERFLOW;
    status = is_refused ? DAO_OK : status;
    return status == DAO_OK ? dao_recompute_draft_init(&search->draft, search->step->problem) : status;
}

/* A choice and what its plan takes, as if memory had no addresses. */
typedef struct contender {
    const dao_recompute_choice_t *choice;
    uint64_t step_ns;
} contender_t;

static int compare_contenders(const void *a, const void *b)
{
    const contender_t *left = a;
    const contender_t *right = b;
    if (left->step_ns != right->step_ns) {
        return left->step_ns < right->step_ns ? -1 : 1;
    }
    return left->choice < right->choice ? -1 : left->choice > right->choice;
}

/* Plans what a search keeps as if memory had no addresses, to find which takes most of a plan, and tensors
   moved whole, which takes less. What cannot be quicker than the best plan is left out; what has no such plan
   may have one in parts, and comes last. */
static dao_status_t find_contenders(const maker_t *maker, dao_recompute_search_t *search,
                                    contender_t *contenders, uint32_t *out_count)
{
    dao_status_t status = DAO_OK;
    dao_swap_plan_config_t config = maker->config->swap;
    config.addresses = DAO_SWAP_ADDRESSES_NONE;
    config.granularity = DAO_SWAP_GRANULARITY_WHOLE;
    config.work_limit = maker->work / WORK_PART / DAO_RECOMPUTE_KEPT_MAX + 1;
    *out_count = 0;
    for (uint32_t i = 0; status == DAO_OK && i < DAO_RECOMPUTE_KEPT_MAX; i++) {
        dao_recompute_plan_t *plan = NULL;
        if (search->kept[i].bound_ns >= known_ns_of(maker)) {
            break;
        }
        status = plan_choice(maker, search, &search->kept[i], &config, &plan);
        contenders[(*out_count)++] = (contender_t){&search->kept[i], step_ns_of(plan)};
        dao_recompute_plan_destroy(plan);
    }
    qsort(contenders, *out_count, sizeof(*contenders), compare_contenders);
    return status;
}

static dao_status_t try_choice(maker_t *maker, dao_recompute_search_t *search,
                               const dao_recompute_choice_t *choice, uint64_t work)
{
    dao_swap_plan_config_t config = maker->config->swap;
    dao_recompute_plan_t *plan = NULL;
    config.work_limit = work;
    dao_status_t status = plan_choice(maker, search, choice, &config, &plan);
    if (plan != NULL) {
        keep_better(maker, plan);
    }
    return status;
}

/* Plans the quickest ones of what a search keeps, with a part of the work each. Without copies the time of a
   plan is known before: the best one is planned, with all of it. */
static dao_status_t try_kept(maker_t *maker, dao_recompute_search_t *search)
{
    contender_t contenders[DAO_RECOMPUTE_KEPT_MAX];
    uint32_t count = 0;
    if (search->is_alone) {
        bool may_be_better = search->kept[0].bound_ns < known_ns_of(maker);
        return may_be_better ? try_choice(maker, search, &search->kept[0], maker->work) : DAO_OK;
    }
    dao_status_t status = find_contenders(maker, search, contenders, &count);
    for (uint32_t i = 0; status == DAO_OK && i < count && (i < PLACED_MAX || maker->best == NULL); i++) {
        bool may_be_better = contenders[i].choice->bound_ns < known_ns_of(maker) &&
                             contenders[i].step_ns <= step_ns_of(maker->best);
        status = may_be_better ? try_choice(maker, search, contenders[i].choice, maker->work / WORK_PART + 1)
                               : DAO_OK;
    }
    return status;
}

/* Searches for runs as if there were so much memory, and plans what is best for what there is.
   `*out_bound_ns`: of the best step that was found; UINT64_MAX: none. */
static dao_status_t try_search(maker_t *maker, bool is_alone, uint64_t capacity_bytes, uint64_t *out_bound_ns)
{
    dao_swap_problem_t exact = *maker->problem;
    exact.page_bytes = 0;
    exact.capacity_bytes = capacity_bytes;
    *out_bound_ns = UINT64_MAX;
    dao_swap_step_t step;
    dao_recompute_search_t search;
    dao_status_t status = dao_swap_step_init(&step, &exact);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_recompute_search_init(&search, &step);
    if (status == DAO_OK) {
        search.is_alone = is_alone;
        search.is_cancelled = maker->config->swap.is_cancelled;
        search.cancel_user = maker->config->swap.cancel_user;
        search.tries_left = try_count_of(maker, is_alone);
        search.on_try = tell_try;
        search.try_user = maker;
        maker->part_begin = is_alone ? PART_ALONE : PART_SEARCH;
        search.least_ns = step.time_before[step.kernel_count];
        dao_recompute_search_run(&search);
        *out_bound_ns = search.kept[0].bound_ns;
        tell(maker, is_alone ? PART_ALONE : PART_KEPT);
        status = try_kept(maker, &search);
    }
    dao_recompute_search_finish(&search);
    dao_swap_step_finish(&step);
    return status;
}

/* Runs alone are searched for by live bytes; where no addresses are found for what just fits, what fits
   less and less is tried, down to half, as long as that may be the quickest. */
static dao_status_t try_alone(maker_t *maker)
{
    uint64_t capacity_bytes = maker->problem->capacity_bytes, less = 0, bound_ns = 0;
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && bound_ns < known_ns_of(maker) && less <= capacity_bytes / 2) {
        status = try_search(maker, true, capacity_bytes - less, &bound_ns);
        less = less == 0 ? capacity_bytes / LESS_PART + 1 : 2 * less;
    }
    return status;
}

/* Says why there is no plan. */
static dao_status_t why_none(const maker_t *maker)
{
    const dao_recompute_config_t *config = maker->config;
    if (config->mode == DAO_RECOMPUTE_MODE_HYBRID && maker->refusal.status != DAO_OK) {
        return dao_error_restore(&maker->refusal);
    }
    if (config->known_ns != 0) {
        return dao_error(DAO_ERR_LIMIT, "no plan is quicker than %" PRIu64 " ns", config->known_ns);
    }
    return dao_error(DAO_ERR_LIMIT,
                     "no order of runs fits %" PRIu64
                     " bytes without copies: what lives on, or what cannot be "
                     "made again, takes too much",
                     maker->problem->capacity_bytes);
}

dao_status_t dao_recompute_plan_make(const dao_swap_problem_t *problem, const dao_recompute_config_t *config,
                                     dao_recompute_plan_t **out_plan)
{
    static const dao_recompute_config_t defaults = {0};
    config = config != NULL ? config : &defaults;
    if (problem == NULL || out_plan == NULL) {
        return dao_error_null(__func__, problem == NULL ? "problem" : "out_plan");
    }
    if (config->mode != DAO_RECOMPUTE_MODE_HYBRID && config->mode != DAO_RECOMPUTE_MODE_ONLY) {
        return dao_error(DAO_ERR_INVALID, "%s: mode %d is none; see dao_recompute_mode_t", __func__,
                         (int)config->mode);
    }
    dao_swap_bound_t bound;
    dao_status_t status = dao_swap_find_bound(problem, &bound); /* what is no step is not drafted */
    if (status != DAO_OK) {
        return status;
    }
    maker_t maker = {
        .problem = problem, .config = config, .work = dao_swap_work_limit(problem, &config->swap)};
    if (config->mode == DAO_RECOMPUTE_MODE_HYBRID) {
        uint64_t bound_ns;
        status = try_search(&maker, false, problem->capacity_bytes, &bound_ns);
    }
    tell(&maker, PART_PLAIN);
    status = status == DAO_OK ? try_plain(&maker, bound.step_ns) : status;
    tell(&maker, PART_ALONE);
    status = status == DAO_OK ? try_alone(&maker) : status; /* behind it, as its time is known before */
    if (status == DAO_OK && maker.best == NULL) {
        status = why_none(&maker);
    }
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(maker.best);
        return status;
    }
    *out_plan = maker.best;
    return DAO_OK;
}
