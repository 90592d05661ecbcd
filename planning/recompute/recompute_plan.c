/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as a program has them: of the plan that only swaps, the one that only runs again, and those of the
   best longer steps that the search found, the quickest one. */
#include "planning/recompute/recompute_plan.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/recompute/recompute_search.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/swap_plan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define LESS_PART 256u /* of the memory is tried without first, then without twice as much each time */

/* A longer step gets addresses with such a part of the work, and is compared before with another one. So a
   plan of 1,000 kernels takes some 2 s. */
#define WORK_PART 3u
#define RANK_PART 20u

#define ALONE_FACTOR 4u

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
    dao_swap_cancel_t cancel;
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

/* Plans the copies of the step in a draft, which is the plan's then; on an error it is finished. `problem`:
   what the draft was made of, with the capacity and pages to plan for. `ranking` as
   dao_swap_plan_make_ranked(). */
static dao_status_t plan_ranked(dao_recompute_draft_t *draft, const dao_swap_problem_t *problem,
                                const dao_swap_plan_config_t *config, dao_swap_ranking_t *ranking,
                                dao_recompute_plan_t **out_plan)
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
    dao_status_t status = dao_swap_plan_make_ranked(&plan->step.problem, config, ranking, &plan->swap);
    if (status != DAO_OK) {
        dao_recompute_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

/* What is best for whole tensors is tried for parts as well. */
static void add_parts(dao_swap_ranking_t *ranking)
{
    for (uint32_t i = ranking->count; i-- > 0;) {
        ranking->rows[ranking->count] = ranking->rows[i];
        ranking->rows[ranking->count++].is_in_parts = true;
    }
}

/* Says whether a longer step is none that can be planned. */
static bool is_refusal(dao_status_t status)
{
    return status == DAO_ERR_HOST_FULL || status == DAO_ERR_KERNEL_TOO_LARGE || status == DAO_ERR_OVERFLOW;
}

static dao_swap_plan_config_t part_of_work(const dao_swap_problem_t *problem,
                                           const dao_swap_plan_config_t *config, uint64_t part)
{
    dao_swap_plan_config_t parted = *config;
    parted.work_limit = dao_swap_work_limit(problem, config) / part + 1;
    return parted;
}

/* Plans a longer step as if memory had no addresses, to find which takes most of a plan, and tensors moved
   whole, which takes less. `*out_step_ns`: UINT64_MAX if there is no such plan; there may be one in parts. */
static dao_status_t rank_variants(dao_recompute_draft_t *draft, const dao_swap_problem_t *problem,
                                  const dao_swap_plan_config_t *config, dao_swap_ranking_t *out_ranking,
                                  uint64_t *out_step_ns)
{
    dao_swap_plan_config_t quick = part_of_work(problem, config, RANK_PART);
    dao_swap_problem_t longer = dao_recompute_draft_problem(draft);
    dao_swap_plan_t *plan = NULL;
    longer.capacity_bytes = problem->capacity_bytes;
    longer.page_bytes = problem->page_bytes;
    quick.addresses = DAO_SWAP_ADDRESSES_NONE;
    quick.granularity = DAO_SWAP_GRANULARITY_WHOLE;
    *out_ranking = (dao_swap_ranking_t){0};
    dao_status_t status = dao_swap_plan_make_ranked(&longer, &quick, out_ranking, &plan);
    *out_step_ns = plan != NULL ? dao_swap_plan_schedule(plan)->step_ns : UINT64_MAX;
    add_parts(out_ranking);
    dao_swap_plan_destroy(plan);
    return is_refusal(status) ? DAO_OK : status;
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
    dao_swap_ranking_t ranking = {0};
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
    status = status == DAO_OK ? plan_ranked(&draft, problem, &maker->config->swap, &ranking, &plan) : status;
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

/* Plans what a player has drafted, and keeps the better one of that and the best one. What cannot be planned
   is none. */
static dao_status_t try_draft(maker_t *maker, dao_recompute_player_t *player,
                              const dao_swap_plan_config_t *config, dao_swap_ranking_t *ranking)
{
    dao_recompute_plan_t *plan = NULL;
    dao_status_t status = plan_ranked(&player->draft, maker->problem, config, ranking, &plan);
    if (plan != NULL) {
        keep_better(maker, plan);
    }
    return status == DAO_OK || is_refusal(status)
               ? dao_recompute_draft_init(&player->draft, player->contents.step->problem)
               : status;
}

/* ---- what a search keeps ---- */

/* A choice and what its plan takes, as if memory had no addresses. */
typedef struct contender {
    const dao_recompute_choice_t *choice;
    uint64_t step_ns;
    dao_swap_ranking_t ranking; /* the variants of copies that are the best for it */
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

static dao_status_t replay(dao_recompute_search_t *search, const dao_recompute_choice_t *choice)
{
    return dao_recompute_search_replay(search, choice)
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the runs of a step");
}

/* Returns true if a choice makes the same longer step as one that is a contender already. */
static bool is_known(const contender_t *contenders, uint32_t count, const dao_recompute_choice_t *choice)
{
    for (uint32_t i = 0; i < count; i++) {
        if (contenders[i].choice->fingerprint == choice->fingerprint) {
            return true;
        }
    }
    return false;
}

/* Compares what a search keeps. What cannot be quicker than the best one is left out. */
static dao_status_t find_contenders(const maker_t *maker, dao_recompute_search_t *search,
                                    contender_t *contenders, uint32_t *out_count)
{
    dao_status_t status = DAO_OK;
    uint64_t quickest_ns = known_ns_of(maker);
    uint32_t count = 0;
    for (uint32_t i = 0; status == DAO_OK && i < DAO_RECOMPUTE_KEPT_MAX; i++) {
        contender_t *contender = &contenders[count];
        if (search->kept[i].bound_ns >= quickest_ns || is_known(contenders, count, &search->kept[i])) {
            continue;
        }
        count++;
        contender->choice = &search->kept[i];
        status = replay(search, contender->choice);
        if (status == DAO_OK) {
            status = rank_variants(&search->player.draft, maker->problem, &maker->config->swap,
                                   &contender->ranking, &contender->step_ns);
            quickest_ns = dao_smaller(quickest_ns, contender->step_ns);
        }
    }
    qsort(contenders, count, sizeof(*contenders), compare_contenders);
    *out_count = count;
    return status;
}

/* Plans the quickest one of what a search keeps; the others as long as there is no plan. */
static dao_status_t try_kept(maker_t *maker, dao_recompute_search_t *search)
{
    contender_t contenders[DAO_RECOMPUTE_KEPT_MAX] = {0};
    const dao_swap_plan_config_t config = part_of_work(maker->problem, &maker->config->swap, WORK_PART);
    uint32_t count = 0;
    dao_status_t status = find_contenders(maker, search, contenders, &count);
    for (uint32_t i = 0; status == DAO_OK && i < count && (i == 0 || maker->best == NULL); i++) {
        status = replay(search, contenders[i].choice);
        status =
            status == DAO_OK ? try_draft(maker, &search->player, &config, &contenders[i].ranking) : status;
    }
    return status;
}

/* The same without copies: the time of a plan is known before. The best one is planned, with all of the
   work. */
static dao_status_t try_kept_alone(maker_t *maker, dao_recompute_search_t *search)
{
    dao_swap_ranking_t any = {0};
    if (search->kept[0].bound_ns >= known_ns_of(maker)) {
        return DAO_OK;
    }
    dao_status_t status = replay(search, &search->kept[0]);
    return status == DAO_OK ? try_draft(maker, &search->player, &maker->config->swap, &any) : status;
}

/* ---- what others would run again ---- */

/* Says what a drafted step takes at least. */
static dao_status_t find_least(const maker_t *maker, dao_recompute_player_t *player, uint64_t *out_least_ns)
{
    dao_swap_bound_t bound;
    if (maker->config->mode == DAO_RECOMPUTE_MODE_ONLY) {
        const dao_swap_step_t *step = player->contents.step;
        *out_least_ns = step->time_before[step->kernel_count] + player->draft.again_ns;
        return DAO_OK;
    }
    dao_swap_problem_t longer = dao_recompute_draft_problem(&player->draft);
    dao_status_t status = dao_swap_find_bound(&longer, &bound);
    *out_least_ns = status == DAO_OK ? bound.step_ns : UINT64_MAX;
    return status;
}

/* Plans what others would run again, which was drafted with a status, as dao_recompute_plan_published() does:
   so no plan is slower than theirs. What takes too long by its bound is left out. */
static dao_status_t try_published(maker_t *maker, dao_recompute_player_t *player, dao_status_t status)
{
    const dao_swap_plan_config_t config = part_of_work(maker->problem, &maker->config->swap, WORK_PART);
    dao_swap_ranking_t ranking;
    uint64_t least_ns = UINT64_MAX, quick_ns;
    if (status == DAO_ERR_LIMIT) {
        return DAO_OK; /* it does not get through */
    }
    status = status == DAO_OK ? find_least(maker, player, &least_ns) : status;
    if (status != DAO_OK || least_ns >= known_ns_of(maker)) {
        return is_refusal(status) ? DAO_OK : status;
    }
    status = rank_variants(&player->draft, maker->problem, &maker->config->swap, &ranking, &quick_ns);
    return status == DAO_OK ? try_draft(maker, player, &config, &ranking) : status;
}

/* Capuchin's order. A search that did not begin there had ended before. */
static dao_status_t try_capuchin(maker_t *maker, dao_recompute_search_t *search)
{
    dao_status_t status = DAO_OK;
    if (known_ns_of(maker) <= search->least_ns) {
        return DAO_OK; /* nothing is quicker */
    }
    if (!search->is_ordered) {
        status = dao_recompute_capuchin_choose(&search->player, search->ordered);
    }
    status = status == DAO_OK ? dao_recompute_capuchin_draft(&search->player, search->ordered) : status;
    return try_published(maker, &search->player, status);
}

/* A step whose memory has no pages, and what plays it. */
typedef struct published {
    dao_swap_problem_t bytes;
    dao_swap_step_t step;
    dao_recompute_player_t player;
} published_t;

static void published_finish(published_t *published)
{
    dao_recompute_player_finish(&published->player);
    dao_swap_step_finish(&published->step);
}

/* On an error there is nothing to finish. The cancel is borrowed. */
static dao_status_t published_init(published_t *published, const dao_swap_problem_t *problem,
                                   dao_swap_cancel_t *cancel)
{
    *published = (published_t){.bytes = *problem};
    published->bytes.page_bytes = 0;
    dao_status_t status = dao_swap_step_init(&published->step, &published->bytes);
    if (status != DAO_OK) {
        return status;
    }
    published->step.cancel = cancel;
    status = dao_swap_step_check_capacity(&published->step, problem->capacity_bytes);
    status = status == DAO_OK ? dao_recompute_player_init(&published->player, &published->step) : status;
    if (status != DAO_OK) {
        published_finish(published);
    }
    return status;
}

dao_status_t dao_recompute_plan_published(const dao_swap_problem_t *problem, uint32_t way,
                                          const dao_swap_plan_config_t *config,
                                          dao_recompute_plan_t **out_plan)
{
    static const dao_swap_plan_config_t defaults = {0};
    config = config != NULL ? config : &defaults;
    const dao_swap_plan_config_t part = part_of_work(problem, config, WORK_PART);
    dao_swap_cancel_t cancel = {.is_cancelled = config->is_cancelled, .user = config->cancel_user};
    published_t published;
    dao_swap_ranking_t ranking;
    uint64_t quick_ns;
    dao_status_t status = published_init(&published, problem, &cancel);
    if (status != DAO_OK) {
        return status;
    }
    dao_recompute_draft_t *draft = &published.player.draft;
    status = dao_recompute_published_draft(&published.player, way);
    status = status == DAO_OK ? rank_variants(draft, problem, config, &ranking, &quick_ns) : status;
    status = status == DAO_OK ? plan_ranked(draft, problem, &part, &ranking, out_plan) : status;
    published_finish(&published);
    return status;
}

/* The ways that copy nothing. */
static dao_status_t try_baselines(maker_t *maker, uint64_t compute_ns)
{
    published_t published;
    if (known_ns_of(maker) <= compute_ns) {
        return DAO_OK; /* nothing is quicker */
    }
    dao_status_t status = published_init(&published, maker->problem, &maker->cancel);
    if (status != DAO_OK) {
        return status;
    }
    for (uint32_t i = 0; i < DAO_RECOMPUTE_BASELINE_COUNT && status == DAO_OK; i++) {
        status = dao_recompute_baseline_draft(&published.player, (dao_recompute_baseline_t)i);
        status = try_published(maker, &published.player, status);
    }
    published_finish(&published);
    return status;
}

/* ---- the search ---- */

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
    step.cancel = &maker->cancel;
    status = dao_recompute_search_init(&search, &step);
    if (status == DAO_OK) {
        search.is_alone = is_alone;
        search.tries_left = try_count_of(maker, is_alone);
        search.on_try = tell_try;
        search.try_user = maker;
        maker->part_begin = is_alone ? PART_ALONE : PART_SEARCH;
        search.least_ns = step.time_before[step.kernel_count];
        dao_recompute_search_run(&search);
        *out_bound_ns = search.kept[0].bound_ns;
        tell(maker, is_alone ? PART_ALONE : PART_KEPT);
        status = maker->cancel.was_cancelled ? dao_swap_step_give_up(&step)
                 : is_alone                  ? try_kept_alone(maker, &search)
                                             : try_kept(maker, &search);
        status = status == DAO_OK && !is_alone ? try_capuchin(maker, &search) : status;
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

/* ---- the call ---- */

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
    if (status == DAO_OK && dao_swap_compute_stream_count(problem) > 1) {
        status = dao_error(DAO_ERR_UNSUPPORTED, "%s: kernels run again in steps of one compute stream only",
                           __func__);
    }
    if (status != DAO_OK) {
        return status;
    }
    maker_t maker = {.problem = problem,
                     .config = config,
                     .cancel = {.is_cancelled = config->swap.is_cancelled, .user = config->swap.cancel_user}};
    if (config->mode == DAO_RECOMPUTE_MODE_HYBRID) {
        uint64_t bound_ns;
        status = try_search(&maker, false, problem->capacity_bytes, &bound_ns);
    }
    tell(&maker, PART_PLAIN);
    status = status == DAO_OK ? try_plain(&maker, bound.step_ns) : status;
    tell(&maker, PART_ALONE);
    status = status == DAO_OK ? try_alone(&maker) : status; /* behind it, as its time is known before */
    status = status == DAO_OK ? try_baselines(&maker, bound.compute_ns) : status;
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
