/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as a program has them: of the plan that only swaps, the one that only runs again, and those of the
   best longer steps that the search found, the quickest one. */
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/recompute/recompute_search.h"

#include <inttypes.h>
#include <string.h>

enum { LESS_PART = 256 }; /* of the memory is tried without first, then without twice as much each time */

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
    dao_recompute_plan_t *best;
    dao_error_record_t refusal; /* what the plan without runs again lacks; DAO_OK: nothing */
} maker_t;

static uint64_t step_ns_of(const dao_recompute_plan_t *plan)
{
    return plan != NULL ? dao_swap_plan_schedule(plan->swap)->step_ns : UINT64_MAX;
}

/* Plans the copies of the step in a draft, which the plan takes over. */
static dao_status_t plan_draft(const maker_t *maker, dao_recompute_draft_t *draft,
                               dao_recompute_plan_t **out_plan)
{
    dao_recompute_plan_t *plan = dao_host_calloc(1, sizeof(*plan));
    if (plan == NULL) {
        dao_recompute_draft_finish(draft);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
    }
    plan->draft = *draft;
    plan->draft.problem = maker->problem;
    memset(draft, 0, sizeof(*draft));
    plan->step =
        (dao_recompute_step_t){.problem = dao_recompute_draft_problem(&plan->draft),
                               .runs = plan->draft.runs,
                               .tensor_sources = plan->draft.tensor_sources,
                               .again_count = plan->draft.kernel_count - maker->problem->kernel_count,
                               .again_ns = plan->draft.again_ns};
    DAO_ASSERT_HEAVY(dao_recompute_check(maker->problem, &plan->step) != DAO_ERR_CORRUPT);
    dao_status_t status = dao_swap_plan_make(&plan->step.problem, &maker->config->swap, &plan->swap);
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

/* Plans a draft and keeps the better plan. What cannot be planned is none. */
static dao_status_t try_draft(maker_t *maker, dao_recompute_draft_t *draft)
{
    dao_recompute_plan_t *plan = NULL;
    dao_status_t status = plan_draft(maker, draft, &plan);
    if (status != DAO_OK) {
        bool is_refused =
            status == DAO_ERR_HOST_FULL || status == DAO_ERR_KERNEL_TOO_LARGE || status == DAO_ERR_OVERFLOW;
        return is_refused ? DAO_OK : status;
    }
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan->swap);
    bool is_allowed = maker->config->mode != DAO_RECOMPUTE_MODE_ONLY ||
                      (schedule->in_bytes == 0 && schedule->out_bytes == 0);
    if (is_allowed && step_ns_of(plan) < step_ns_of(maker->best)) {
        dao_recompute_plan_t *slower = maker->best;
        maker->best = plan;
        plan = slower;
    }
    dao_recompute_plan_destroy(plan);
    return DAO_OK;
}

/* Plans the step as it is. Where the tiers are full it is no plan, and running again may be one. */
static dao_status_t try_plain(maker_t *maker)
{
    dao_recompute_draft_t draft;
    const dao_swap_problem_t *problem = maker->problem;
    dao_status_t status = dao_recompute_draft_init(&draft, problem);
    for (uint32_t k = 0; status == DAO_OK && k < problem->kernel_count; k++) {
        status = dao_recompute_draft_add_first(&draft, k)
                     ? DAO_OK
                     : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a step of %" PRIu32 " kernels",
                                 problem->kernel_count);
    }
    if (status == DAO_OK) {
        status = plan_draft(maker, &draft, &maker->best);
    }
    dao_recompute_draft_finish(&draft);
    if (status == DAO_ERR_HOST_FULL) {
        dao_error_save(&maker->refusal, status);
        return DAO_OK;
    }
    if (status == DAO_OK && maker->config->mode == DAO_RECOMPUTE_MODE_ONLY &&
        dao_swap_plan_schedule(maker->best->swap)->in_bytes +
                dao_swap_plan_schedule(maker->best->swap)->out_bytes !=
            0) {
        dao_recompute_plan_destroy(maker->best);
        maker->best = NULL;
    }
    return status;
}

/* Plans what a search keeps, as long as its bound says that it may be better. Without copies the time of a
   plan is known before, and what finds no addresses does so for all that is kept: only the best one is
   planned. */
static dao_status_t try_kept(maker_t *maker, dao_recompute_search_t *search)
{
    dao_status_t status = DAO_OK;
    uint32_t count = search->is_alone ? 1 : DAO_RECOMPUTE_KEPT_MAX;
    for (uint32_t i = 0; status == DAO_OK && i < count; i++) {
        const dao_recompute_choice_t *choice = &search->kept[i];
        if (choice->bound_ns >= step_ns_of(maker->best)) {
            break;
        }
        if (!dao_recompute_search_replay(search, choice)) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the runs of a step");
        }
        status = try_draft(maker, &search->draft);
        status = status == DAO_OK ? dao_recompute_draft_init(&search->draft, search->step->problem) : status;
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
        search.tries_left =
            maker->config->try_count != 0 ? maker->config->try_count : DAO_RECOMPUTE_TRIES_DEFAULT;
        search.least_ns = step.time_before[step.kernel_count];
        dao_recompute_search_run(&search);
        *out_bound_ns = search.kept[0].bound_ns;
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
    while (status == DAO_OK && bound_ns < step_ns_of(maker->best) && less <= capacity_bytes / 2) {
        status = try_search(maker, true, capacity_bytes - less, &bound_ns);
        less = less == 0 ? capacity_bytes / LESS_PART + 1 : 2 * less;
    }
    return status;
}

dao_status_t dao_recompute_plan_make(const dao_swap_problem_t *problem, const dao_recompute_config_t *config,
                                     dao_recompute_plan_t **out_plan)
{
    static const dao_recompute_config_t defaults = {0};
    config = config != NULL ? config : &defaults;
    if (problem == NULL || out_plan == NULL ||
        (config->mode != DAO_RECOMPUTE_MODE_HYBRID && config->mode != DAO_RECOMPUTE_MODE_ONLY)) {
        return dao_error(DAO_ERR_INVALID, "the problem or the place for its plan is NULL, or no such mode");
    }
    maker_t maker = {.problem = problem, .config = config};
    dao_swap_step_t step;
    dao_status_t status = dao_swap_step_init(&step, problem); /* what is no step is not drafted */
    if (status == DAO_OK) {
        dao_swap_step_finish(&step);
        status = try_plain(&maker);
    }
    if (status == DAO_OK && config->mode == DAO_RECOMPUTE_MODE_HYBRID) {
        uint64_t bound_ns;
        status = try_search(&maker, false, problem->capacity_bytes, &bound_ns);
    }
    status = status == DAO_OK ? try_alone(&maker) : status; /* behind it, as its time is known before */
    if (status == DAO_OK && maker.best == NULL && config->mode == DAO_RECOMPUTE_MODE_HYBRID) {
        status = dao_error_restore(&maker.refusal);
    } else if (status == DAO_OK && maker.best == NULL) {
        status = dao_error(DAO_ERR_LIMIT,
                           "no order of runs fits %" PRIu64 " bytes without copies: what lives on, or what "
                           "cannot be made again, takes too much",
                           problem->capacity_bytes);
    }
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(maker.best);
        return status;
    }
    *out_plan = maker.best;
    return DAO_OK;
}
