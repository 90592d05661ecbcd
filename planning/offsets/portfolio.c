/* SPDX-License-Identifier: Apache-2.0 */
/* A portfolio has builders and improvers. A builder makes one plan: by the skyline or greedily, with an
   order, or by lifetime bins. Builders come one after the other. Then the improvers take turns on the best
   plan: the squeaky wheel and the exact search. With few items most turns are the search's, with many those
   of the squeaky wheel.

   Where items are more than plain intervals (pieces, fixed offsets, clocks that times tell only roughly), the
   skyline takes each item's whole time, which is safe but wasteful. Then the layout is settled: greedy places
   all items once more, exactly, in the order of the offsets that the skyline gave.

   With several pools, builders fill one after the other. Then come the spreaders: greedy puts each item where
   the pools grow least. The squeaky wheel fills the pools in their order, so the spreaders' layouts are no
   aim for it.

   With several pools and few items, all splits over the pools are tried after the builders (pools.h). If that
   finds the best plan, it is the end.

   The search looks only for layouts that are better than the plan at its start. It raises the bound, too:
   then the best plan is published once more, with the new bound.

   What holds between steps: best_plan is there once has_best is set, and `version` plans were handed out; of
   the skyline and the bins one is at hand at most, and greedy settles them; `next` counts the builders and
   spreaders that were begun; nothing is built or improved before the instance is prepared. */
#include "planning/offsets/portfolio.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/check.h"
#include "planning/offsets/methods/greedy.h"
#include "planning/offsets/methods/lifetime_bins.h"
#include "planning/offsets/methods/pools.h"
#include "planning/offsets/methods/skyline.h"
#include "planning/offsets/methods/squeaky_wheel.h"
#include "planning/offsets/plan.h"
#include "planning/offsets/problem/problem.h"
#include "planning/offsets/search/search.h"

/* Where the bound is not met, no method knows when to end: the search as one of several methods ends after so
   many steps, about a minute. */
#define SEARCH_WORK_MAX (UINT64_C(1) << 32)

/* Up to so many items, greedy builders take part in `best`, and the search has most turns. */
#define FEW_ITEMS 4096u

/* Work of a turn of an improver: at least so much, and so much an item. */
#define TURN_WORK      (UINT64_C(1) << 18)
#define TURN_ITEM_WORK 16u

/* Of so many turns, one belongs to the improver that has fewer. */
#define TURN_CYCLE 4u

typedef enum recipe_kind {
    RECIPE_NONE,
    RECIPE_SKYLINE,
    RECIPE_FIRST_FIT,
    RECIPE_BEST_FIT,
    RECIPE_BINS,
    RECIPE_SQUEAKY_WHEEL,
    RECIPE_SEARCH
} recipe_kind_t;

typedef struct recipe {
    recipe_kind_t kind;
    dao_plan_order_t order;
} recipe_t;

static const recipe_t recipes[DAO_PLAN_METHOD_COUNT] = {
    [DAO_PLAN_METHOD_SKYLINE_START] = {RECIPE_SKYLINE, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_SKYLINE_DURATION] = {RECIPE_SKYLINE, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_SKYLINE_AREA] = {RECIPE_SKYLINE, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_SKYLINE_SIZE] = {RECIPE_SKYLINE, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_START_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_START_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_SIZE_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_SIZE_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_DURATION_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_DURATION_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_AREA_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_AREA_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_SEARCH] = {RECIPE_SEARCH, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_BINS] = {RECIPE_BINS, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_BREADTH_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_BREADTH},
    [DAO_PLAN_METHOD_BREADTH_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_BREADTH},
    [DAO_PLAN_METHOD_SQUEAKY_WHEEL] = {RECIPE_SQUEAKY_WHEEL, DAO_PLAN_ORDER_START},
};

/* What `best` builds first, the quick ones first. */
static const dao_plan_method_t best_builders[] = {
    DAO_PLAN_METHOD_SKYLINE_START,  DAO_PLAN_METHOD_SKYLINE_AREA,   DAO_PLAN_METHOD_SKYLINE_DURATION,
    DAO_PLAN_METHOD_SKYLINE_SIZE,   DAO_PLAN_METHOD_SIZE_FIRST_FIT, DAO_PLAN_METHOD_BREADTH_BEST_FIT,
    DAO_PLAN_METHOD_AREA_FIRST_FIT,
};

/* What it builds then with several pools: each item goes where the pools grow least. */
static const dao_plan_method_t best_spreaders[] = {
    DAO_PLAN_METHOD_SIZE_FIRST_FIT,     DAO_PLAN_METHOD_BREADTH_BEST_FIT, DAO_PLAN_METHOD_AREA_FIRST_FIT,
    DAO_PLAN_METHOD_DURATION_FIRST_FIT, DAO_PLAN_METHOD_START_BEST_FIT,
};

/* The search alone begins below a plan, which stays where it finds none. */
static const dao_plan_method_t search_builder = DAO_PLAN_METHOD_SKYLINE_AREA;

#define BEST_BUILDER_COUNT  (sizeof(best_builders) / sizeof(best_builders[0]))
#define BEST_SPREADER_COUNT (sizeof(best_spreaders) / sizeof(best_spreaders[0]))

/* Whose layout is at hand. */
typedef enum layout_source {
    WORKER_BUILDER,
    WORKER_SQUEAKY_WHEEL,
    WORKER_SEARCH,
    WORKER_POOLS
} layout_source_t;

struct dao_plan_portfolio {
    dao_planner_config_t config;
    dao_plan_problem_copy_t copy; /* of the problem, until it is prepared */
    bool is_prepared;             /* the instance is there, and its methods are chosen */
    dao_plan_instance_t instance;
    const dao_plan_method_t *builders; /* what there is to build */
    size_t builder_count;
    size_t next; /* of them; then, from builder_count on, those of the spreaders */
    size_t spreader_count;
    dao_plan_method_t builder;      /* the one at hand */
    dao_plan_skyline_t *skyline;    /* of the builder */
    dao_plan_lifetime_bins_t *bins; /* of the builder */
    dao_plan_greedy_t *greedy;      /* of the builder, or what settles the ones above */
    layout_source_t worker;
    bool does_squeaky_wheel;
    bool does_search;
    bool does_pools;         /* all splits over the pools are to be looked at */
    dao_plan_pools_t *pools; /* that does so, until its result is compared */
    dao_plan_squeaky_wheel_t *squeaky_wheel;
    dao_plan_search_t *search;
    uint64_t search_work;
    uint64_t turn;        /* of the improvers */
    uint64_t turn_left;   /* work of it */
    bool is_found;        /* the layout at hand waits to be compared */
    bool is_bound_raised; /* the best plan waits to be published once more */
    bool has_best;
    dao_plan_score_t best;
    dao_plan_score_t unspread; /* the best without spreaders: the aim of the squeaky wheel */
    dao_plan_t *best_plan;     /* a reference */
    uint64_t version;
    bool is_done;
};

/* ---- builders ---- */

static bool is_building(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->greedy != NULL || portfolio->skyline != NULL || portfolio->bins != NULL;
}

static void drop_builder(dao_plan_portfolio_t *portfolio)
{
    dao_plan_greedy_destroy(portfolio->greedy);
    dao_plan_skyline_destroy(portfolio->skyline);
    dao_plan_lifetime_bins_destroy(portfolio->bins);
    dao_plan_pools_destroy(portfolio->pools);
    portfolio->greedy = NULL;
    portfolio->skyline = NULL;
    portfolio->bins = NULL;
    portfolio->pools = NULL;
}

static dao_status_t start_builder(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    bool is_spreader = portfolio->next >= portfolio->builder_count;
    DAO_ASSERT(!is_building(portfolio));
    DAO_ASSERT(portfolio->next < portfolio->builder_count + portfolio->spreader_count);
    dao_plan_method_t method = is_spreader ? best_spreaders[portfolio->next - portfolio->builder_count]
                                           : portfolio->builders[portfolio->next];
    const recipe_t *recipe = &recipes[method];
    dao_status_t status = DAO_OK;
    if (recipe->kind == RECIPE_SKYLINE) {
        const dao_plan_skyline_config_t config = {.order = recipe->order};
        status = dao_plan_skyline_create(instance, &config, work, &portfolio->skyline);
    } else if (recipe->kind == RECIPE_BINS) {
        status = dao_plan_lifetime_bins_create(instance, DAO_BIN_ORDER_END, work, &portfolio->bins);
    } else {
        const dao_plan_greedy_config_t config = {.order = recipe->order,
                                                 .is_best_fit = recipe->kind == RECIPE_BEST_FIT,
                                                 .grows_least = is_spreader};
        status = dao_plan_greedy_create(instance, &config, work, &portfolio->greedy);
    }
    DAO_ASSERT(status != DAO_OK || is_building(portfolio));
    if (status == DAO_OK) {
        portfolio->worker = WORKER_BUILDER;
        portfolio->builder = method;
        portfolio->next++;
    }
    return status;
}

static const dao_plan_layout_t *layout_at_hand(const dao_plan_portfolio_t *portfolio)
{
    if (portfolio->worker == WORKER_SQUEAKY_WHEEL) {
        return dao_plan_squeaky_wheel_layout(portfolio->squeaky_wheel);
    }
    if (portfolio->worker == WORKER_SEARCH) {
        return dao_plan_search_layout(portfolio->search);
    }
    if (portfolio->worker == WORKER_POOLS) {
        return dao_plan_pools_layout(portfolio->pools);
    }
    if (portfolio->greedy != NULL) {
        return dao_plan_greedy_layout(portfolio->greedy);
    }
    return portfolio->skyline != NULL ? dao_plan_skyline_layout(portfolio->skyline)
                                      : dao_plan_lifetime_bins_layout(portfolio->bins);
}

static dao_plan_method_t method_at_hand(const dao_plan_portfolio_t *portfolio)
{
    static const dao_plan_method_t improvers[] = {[WORKER_SQUEAKY_WHEEL] = DAO_PLAN_METHOD_SQUEAKY_WHEEL,
                                                  [WORKER_SEARCH] = DAO_PLAN_METHOD_SEARCH,
                                                  [WORKER_POOLS] = DAO_PLAN_METHOD_SEARCH};
    return portfolio->worker == WORKER_BUILDER ? portfolio->builder : improvers[portfolio->worker];
}

/* Begins to place all once more, in the order of the offsets that there are. */
static dao_status_t settle(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_OFFSET,
                                       .offsets = layout_at_hand(portfolio)->offsets};
    return dao_plan_greedy_create(&portfolio->instance, &config, work, &portfolio->greedy);
}

static dao_status_t step_builder(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    DAO_ASSERT(portfolio->worker == WORKER_BUILDER);
    if (portfolio->greedy != NULL) {
        return dao_plan_greedy_step(portfolio->greedy, work, &portfolio->is_found);
    }
    return portfolio->skyline != NULL
               ? dao_plan_skyline_step(portfolio->skyline, work, &portfolio->is_found)
               : dao_plan_lifetime_bins_step(portfolio->bins, work, &portfolio->is_found);
}

/* ---- improvers ---- */

static dao_status_t step_squeaky_wheel(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    if (portfolio->squeaky_wheel == NULL) {
        dao_status_t status = dao_plan_squeaky_wheel_create(&portfolio->instance, portfolio->config.seed,
                                                            work, &portfolio->squeaky_wheel);
        if (status != DAO_OK) {
            return status;
        }
    }
    if (portfolio->has_best) {
        dao_plan_squeaky_wheel_set_best(portfolio->squeaky_wheel, &portfolio->unspread);
    }
    dao_status_t status = dao_plan_squeaky_wheel_step(portfolio->squeaky_wheel, work, &portfolio->is_found);
    portfolio->does_squeaky_wheel =
        portfolio->is_found || !dao_plan_squeaky_wheel_is_exhausted(portfolio->squeaky_wheel);
    return status;
}

/* Looks below the best plan, and within the capacity. What the search does not know it leaves to the other
   methods, and so it does where not everything can fit. */
static dao_status_t start_search(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    uint64_t capacity_bytes = portfolio->instance.capacities[0];
    if (capacity_bytes < portfolio->instance.bound_bytes) {
        portfolio->does_search = false;
        return DAO_OK;
    }
    uint64_t below_bytes = capacity_bytes == UINT64_MAX ? capacity_bytes : capacity_bytes + 1;
    if (portfolio->has_best && portfolio->best.unplaced_count == 0 &&
        portfolio->best.peak_bytes < below_bytes) {
        below_bytes = portfolio->best.peak_bytes;
    }
    dao_status_t status = dao_plan_search_create(&portfolio->instance, below_bytes, portfolio->config.seed,
                                                 work, &portfolio->search);
    portfolio->does_search = status != DAO_ERR_UNSUPPORTED;
    return status == DAO_ERR_UNSUPPORTED ? DAO_OK : status;
}

static dao_status_t step_search(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    if (portfolio->search == NULL) {
        return start_search(portfolio, work);
    }
    dao_plan_search_event_t event = DAO_PLAN_SEARCH_OPEN;
    uint64_t used_before = work->used;
    dao_status_t status = dao_plan_search_step(portfolio->search, work, &event);
    portfolio->search_work += work->used - used_before;
    portfolio->is_found = event == DAO_PLAN_SEARCH_BETTER;
    uint64_t bound_bytes = dao_plan_search_bound(portfolio->search);
    if (event == DAO_PLAN_SEARCH_BOUND && bound_bytes > portfolio->instance.bound_bytes) {
        portfolio->instance.bound_bytes = bound_bytes;
        portfolio->is_bound_raised = true;
    }
    bool is_over =
        portfolio->config.method == DAO_PLAN_METHOD_BEST && portfolio->search_work >= SEARCH_WORK_MAX;
    if (event == DAO_PLAN_SEARCH_DONE || (is_over && !portfolio->is_found)) {
        dao_plan_search_destroy(portfolio->search);
        portfolio->search = NULL;
        portfolio->does_search = false;
    }
    return status;
}

/* Ends the search for better plans: the best score is known. The bound is then that peak or, where not
   everything fits, above the capacity. */
static void end_with(dao_plan_portfolio_t *portfolio, const dao_plan_score_t *best)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    uint64_t bound_bytes = best->peak_bytes;
    if (best->unplaced_count > 0) {
        bound_bytes = 1;
        for (uint32_t i = 0; i < instance->pool_count && bound_bytes != 0; i++) {
            uint64_t capacity_bytes = instance->capacities[i];
            bound_bytes = capacity_bytes == UINT64_MAX ? 0 : dao_add_capped(bound_bytes, capacity_bytes);
        }
    }
    if (bound_bytes > instance->bound_bytes) {
        instance->bound_bytes = bound_bytes;
        portfolio->is_bound_raised = true;
    }
    portfolio->does_squeaky_wheel = portfolio->does_search = false;
}

/* Looks at all splits over the pools. */
static dao_status_t step_pools(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    if (portfolio->pools == NULL) {
        return dao_plan_pools_create(&portfolio->instance, DAO_PLAN_POOLS_STEPS_MAX, work, &portfolio->pools);
    }
    if (!dao_plan_pools_step(portfolio->pools, work)) {
        return DAO_OK;
    }
    dao_plan_score_t score;
    dao_plan_layout_score(&portfolio->instance, dao_plan_pools_layout(portfolio->pools), work, &score);
    if (dao_plan_work_is_cancelled(work)) {
        return DAO_ERR_STOPPED; /* the score may be half known */
    }
    if (dao_plan_pools_is_exact(portfolio->pools)) {
        end_with(portfolio, &score);
    }
    portfolio->does_pools = false;
    portfolio->worker = WORKER_POOLS;
    portfolio->is_found = true;
    return DAO_OK;
}

/* Begins a turn; the first one is the search's with few items, else the squeaky wheel's. */
static void begin_turn(dao_plan_portfolio_t *portfolio)
{
    bool are_few = portfolio->instance.item_count <= FEW_ITEMS;
    bool is_rare = portfolio->turn++ % TURN_CYCLE == TURN_CYCLE - 1;
    bool is_for_search = portfolio->does_search && (are_few != is_rare || !portfolio->does_squeaky_wheel);
    portfolio->worker = is_for_search ? WORKER_SEARCH : WORKER_SQUEAKY_WHEEL;
    portfolio->turn_left = TURN_WORK + (uint64_t)TURN_ITEM_WORK * portfolio->instance.item_count;
    DAO_ASSERT(portfolio->does_search || portfolio->does_squeaky_wheel);
}

static bool may_improve(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->worker == WORKER_SEARCH ? portfolio->does_search : portfolio->does_squeaky_wheel;
}

/* Goes on with the turn at hand, or with the next one. */
static dao_status_t step_improver(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    if (portfolio->turn_left == 0 || !may_improve(portfolio)) {
        begin_turn(portfolio);
    }
    DAO_ASSERT(work->used < work->limit);
    uint64_t left = work->limit - work->used, used_before = work->used;
    dao_plan_work_t turn = *work;
    turn.limit = work->used + (left < portfolio->turn_left ? left : portfolio->turn_left);
    dao_status_t status = portfolio->worker == WORKER_SEARCH ? step_search(portfolio, &turn)
                                                             : step_squeaky_wheel(portfolio, &turn);
    work->used = turn.used;
    uint64_t used = turn.used - used_before;
    portfolio->turn_left -= used < portfolio->turn_left ? used : portfolio->turn_left;
    return status;
}

/* ---- results ---- */

static dao_plan_report_t report_of(const dao_plan_portfolio_t *portfolio, const dao_plan_work_t *work)
{
    dao_plan_report_t report = {.method = method_at_hand(portfolio), .version = portfolio->version + 1};
    report.work = work->used;
    report.memory_bytes = portfolio->instance.memory.most_bytes +
                          2 * dao_plan_memory_of(&portfolio->instance); /* this plan and the one before */
    return report;
}

/* Hands a new plan out, and keeps a reference. */
static void hand_out(dao_plan_portfolio_t *portfolio, dao_plan_t *plan, dao_plan_t **out_plan)
{
    DAO_ASSERT(portfolio->has_best);
    dao_plan_release(portfolio->best_plan);
    portfolio->best_plan = dao_plan_retain(plan);
    portfolio->version++;
    *out_plan = plan;
}

/* Returns true if the layout at hand is a spreader's. */
static bool is_spread(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->worker == WORKER_BUILDER && portfolio->next > portfolio->builder_count;
}

/* Compares the layout at hand with the best one, and makes a plan of it if it is better. */
static dao_status_t compare(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work, dao_plan_t **out_plan)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    const dao_plan_layout_t *layout = layout_at_hand(portfolio);
    dao_plan_score_t score;
    dao_plan_layout_score(instance, layout, work, &score);
    if (dao_plan_work_is_cancelled(work)) {
        return DAO_ERR_STOPPED;
    }
    bool is_first = !portfolio->has_best;
    if (!is_spread(portfolio) && (is_first || dao_plan_score_is_better(&score, &portfolio->unspread))) {
        portfolio->unspread = score;
    }
    if (!is_first && !dao_plan_score_is_better(&score, &portfolio->best)) {
        return DAO_OK;
    }
    dao_plan_work_t endless = dao_plan_work_unlimited(); /* the work of an assertion is not counted */
    DAO_ASSERT_HEAVY(dao_plan_layout_check(instance, layout, false, &endless) != DAO_ERR_INVALID);
    dao_plan_report_t report = report_of(portfolio, work);
    dao_plan_t *plan = NULL;
    dao_status_t status = dao_plan_make_of(instance, layout, &score, &report, work, &plan);
    if (status != DAO_OK) {
        return status;
    }
    if (portfolio->worker == WORKER_BUILDER && portfolio->bins != NULL) {
        dao_plan_set_policy_bytes(plan, dao_plan_lifetime_bins_policy_bytes(portfolio->bins));
    }
    portfolio->best = score;
    portfolio->has_best = true;
    portfolio->is_bound_raised = false; /* the plan has it */
    hand_out(portfolio, plan, out_plan);
    return DAO_OK;
}

static bool is_bound_met(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->has_best && portfolio->best.unplaced_count == 0 &&
           portfolio->best.peak_bytes == portfolio->instance.bound_bytes;
}

/* A layout waits. An improver looks for more; what was built is dropped, or settled. */
static dao_status_t take_result(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work, dao_plan_t **out_plan)
{
    const dao_plan_instance_t *instance = &portfolio->instance;
    bool is_first = portfolio->worker == WORKER_BUILDER && portfolio->greedy == NULL; /* else it is exact */
    bool is_order = is_first && portfolio->bins != NULL && !dao_plan_lifetime_bins_is_exact(instance);
    bool is_rough = is_order || (is_first && !dao_plan_instance_is_plain(instance));
    dao_status_t status = is_order ? DAO_OK : compare(portfolio, work, out_plan);
    if (status != DAO_OK) {
        return status;
    }
    portfolio->is_done = is_bound_met(portfolio) && !portfolio->is_bound_raised;
    if (is_rough && !portfolio->is_done) {
        status = settle(portfolio, work);
    } else {
        drop_builder(portfolio);
    }
    portfolio->is_found = status != DAO_OK;
    return status;
}

/* The bound has risen: the best plan is published once more. */
static dao_status_t take_bound(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work, dao_plan_t **out_plan)
{
    dao_plan_report_t best_report;
    dao_status_t status = dao_plan_report_get(portfolio->best_plan, &best_report);
    DAO_ASSERT(status == DAO_OK); /* there is a plan before the search begins */
    dao_plan_report_t report = report_of(portfolio, work);
    report.method = best_report.method;
    dao_plan_t *plan = NULL;
    status = dao_plan_make_again(&portfolio->instance, portfolio->best_plan, &report, work, &plan);
    if (status == DAO_OK) {
        portfolio->is_bound_raised = false;
        portfolio->is_done = is_bound_met(portfolio);
        hand_out(portfolio, plan, out_plan);
    }
    return status;
}

/* ---- the beginning ---- */

/* Fixed items must not clash with each other. */
static dao_status_t check_fixed(dao_plan_instance_t *instance, dao_plan_work_t *work)
{
    dao_plan_layout_t layout = {0};
    if (instance->fixed_offsets == NULL) {
        return DAO_OK;
    }
    if (!dao_plan_layout_init(&layout, instance, work)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %u offsets", instance->item_count);
    }
    dao_plan_layout_put_fixed(&layout, instance, work);
    dao_status_t status = dao_plan_layout_check(instance, &layout, true, work);
    dao_plan_layout_finish(&layout, instance);
    return status;
}

/* Chooses the builders and the improvers. */
static void choose_workers(dao_plan_portfolio_t *portfolio)
{
    dao_plan_method_t method = portfolio->config.method;
    portfolio->builders = &portfolio->config.method;
    portfolio->builder_count = recipes[method].kind == RECIPE_SQUEAKY_WHEEL ? 0 : 1;
    portfolio->does_squeaky_wheel =
        method == DAO_PLAN_METHOD_BEST || recipes[method].kind == RECIPE_SQUEAKY_WHEEL;
    portfolio->does_search = method == DAO_PLAN_METHOD_BEST || recipes[method].kind == RECIPE_SEARCH;
    portfolio->does_pools = portfolio->does_search && dao_plan_pools_knows(&portfolio->instance);
    if (method == DAO_PLAN_METHOD_BEST) {
        bool are_few = portfolio->instance.item_count <= FEW_ITEMS;
        portfolio->builders = best_builders;
        while (portfolio->builder_count < BEST_BUILDER_COUNT &&
               (are_few || recipes[best_builders[portfolio->builder_count]].kind == RECIPE_SKYLINE)) {
            portfolio->builder_count++;
        }
        portfolio->spreader_count = are_few && portfolio->instance.pool_count > 1 ? BEST_SPREADER_COUNT : 0;
    } else if (portfolio->does_search) {
        portfolio->builders = &search_builder;
    }
}

/* Makes the instance of the copied problem, which is not needed any more. */
static dao_status_t prepare(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    dao_status_t status = dao_plan_instance_init(instance, &portfolio->copy.problem, work);
    if (status != DAO_OK) {
        return status;
    }
    status = check_fixed(instance, work);
    if (status != DAO_OK) {
        dao_plan_instance_finish(instance);
        return status;
    }
    if (dao_plan_work_is_cancelled(work)) {
        return DAO_ERR_STOPPED; /* the instance goes with the portfolio */
    }
    instance->memory.most_bytes += portfolio->copy.memory.used_bytes; /* there were both */
    dao_plan_problem_copy_drop(&portfolio->copy, work);
    choose_workers(portfolio);
    portfolio->is_prepared = true;
    return DAO_OK;
}

/* ---- steps ---- */

/* Goes on with what is at hand, or begins what comes next. */
static dao_status_t step_once(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work)
{
    if (!portfolio->is_prepared) {
        return prepare(portfolio, work);
    }
    if (is_building(portfolio)) {
        return step_builder(portfolio, work);
    }
    if (portfolio->next < portfolio->builder_count + portfolio->spreader_count) {
        return start_builder(portfolio, work);
    }
    if (portfolio->does_pools) {
        return step_pools(portfolio, work);
    }
    if (portfolio->does_squeaky_wheel || portfolio->does_search) {
        return step_improver(portfolio, work);
    }
    portfolio->is_done = true;
    return DAO_OK;
}

/* The invariants of the head, between two steps. */
static bool is_valid(const dao_plan_portfolio_t *portfolio)
{
    bool is_fresh = !is_building(portfolio) && portfolio->next == 0 && portfolio->squeaky_wheel == NULL &&
                    portfolio->search == NULL;
    return (portfolio->is_prepared || is_fresh) && portfolio->has_best == (portfolio->best_plan != NULL) &&
           portfolio->has_best == (portfolio->version > 0) &&
           (portfolio->skyline == NULL || portfolio->bins == NULL) &&
           portfolio->next <= portfolio->builder_count + portfolio->spreader_count;
}

dao_status_t dao_plan_portfolio_step(dao_plan_portfolio_t *portfolio, dao_plan_work_t *work,
                                     dao_plan_t **out_plan)
{
    dao_status_t status = DAO_OK;
    *out_plan = NULL;
    DAO_ASSERT(is_valid(portfolio));
    while (status == DAO_OK && !portfolio->is_done && *out_plan == NULL && dao_plan_work_is_left(work)) {
        if (portfolio->is_found) {
            status = take_result(portfolio, work, out_plan);
        } else if (portfolio->is_bound_raised) {
            status = take_bound(portfolio, work, out_plan);
        } else {
            status = step_once(portfolio, work);
        }
        dao_plan_memory_trim(&portfolio->instance.memory, work);
        work->used++;
    }
    DAO_ASSERT(is_valid(portfolio));
    DAO_ASSERT(*out_plan == NULL || *out_plan == portfolio->best_plan);
    return status;
}

bool dao_plan_portfolio_knows(dao_plan_method_t method)
{
    return method == DAO_PLAN_METHOD_BEST ||
           ((unsigned)method < DAO_PLAN_METHOD_COUNT && recipes[method].kind != RECIPE_NONE);
}

bool dao_plan_portfolio_is_done(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->is_done;
}

/* ---- start and end ---- */

dao_status_t dao_plan_portfolio_create(const dao_plan_problem_t *problem, const dao_planner_config_t *config,
                                       dao_plan_portfolio_t **out_portfolio)
{
    dao_status_t status = dao_plan_problem_check(problem);
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_portfolio_t *portfolio = dao_host_calloc(1, sizeof(*portfolio));
    if (portfolio == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a planner");
    }
    portfolio->config = *config;
    status = dao_plan_problem_copy_init(&portfolio->copy, problem);
    if (status != DAO_OK) {
        dao_plan_portfolio_destroy(portfolio);
        return status;
    }
    *out_portfolio = portfolio;
    return DAO_OK;
}

void dao_plan_portfolio_destroy(dao_plan_portfolio_t *portfolio)
{
    if (portfolio != NULL) {
        drop_builder(portfolio);
        dao_plan_search_destroy(portfolio->search);
        dao_plan_squeaky_wheel_destroy(portfolio->squeaky_wheel);
        dao_plan_release(portfolio->best_plan);
        dao_plan_instance_finish(&portfolio->instance);
        dao_plan_problem_copy_finish(&portfolio->copy);
        dao_host_free(portfolio);
    }
}
