/* A portfolio has methods that build a plan, one after the other: the lowest segment first or greedy, with an order, or
   bins. Then there is what improves on the best of them for as long as it is let: priority bumping.

   Where items are more than plain intervals (pieces, fixed offsets, clocks that times tell only roughly), the skyline sees
   each item's whole time, which is safe but wastes; greedy then places all once more, exactly, in the order of the offsets
   that the skyline gave. That is the settling. */
#include "planning/portfolio.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "planning/bins.h"
#include "planning/bump.h"
#include "planning/check.h"
#include "planning/greedy.h"
#include "planning/lowest.h"
#include "planning/plan.h"

typedef enum recipe_kind {
    RECIPE_NONE,
    RECIPE_LOWEST,
    RECIPE_FIRST_FIT,
    RECIPE_BEST_FIT,
    RECIPE_BINS,
    RECIPE_BUMPED
} recipe_kind_t;

typedef struct recipe {
    recipe_kind_t kind;
    dao_plan_order_t order;
} recipe_t;

static const recipe_t recipes[DAO_PLAN_METHOD_COUNT] = {
    [DAO_PLAN_METHOD_LOWEST_START] = {RECIPE_LOWEST, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_LOWEST_DURATION] = {RECIPE_LOWEST, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_LOWEST_AREA] = {RECIPE_LOWEST, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_LOWEST_SIZE] = {RECIPE_LOWEST, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_START_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_START_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_START},
    [DAO_PLAN_METHOD_SIZE_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_SIZE_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_DURATION_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_DURATION_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_DURATION},
    [DAO_PLAN_METHOD_AREA_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_AREA_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_AREA},
    [DAO_PLAN_METHOD_BINS] = {RECIPE_BINS, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_BREADTH_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_BREADTH},
    [DAO_PLAN_METHOD_BREADTH_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_BREADTH},
    [DAO_PLAN_METHOD_LOWEST_BUMPED] = {RECIPE_BUMPED, DAO_PLAN_ORDER_START},
};

/* What `best` builds first, the quick ones first. */
static const dao_plan_method_t best_methods[] = {
    DAO_PLAN_METHOD_LOWEST_START,   DAO_PLAN_METHOD_LOWEST_AREA,    DAO_PLAN_METHOD_LOWEST_DURATION,
    DAO_PLAN_METHOD_LOWEST_SIZE,    DAO_PLAN_METHOD_SIZE_FIRST_FIT, DAO_PLAN_METHOD_BREADTH_BEST_FIT,
    DAO_PLAN_METHOD_AREA_FIRST_FIT,
};

#define BEST_METHOD_COUNT (sizeof(best_methods) / sizeof(best_methods[0]))

/* With more items `best` leaves greedy ones out: bumping gets further in their time. */
#define GREEDY_ITEMS_MAX 4096u

struct dao_plan_portfolio {
    dao_plan_instance_t instance;
    dao_planner_config_t config;
    size_t next;               /* of the methods that build */
    dao_plan_method_t method;  /* whose layout is at hand */
    dao_plan_lowest_t *lowest; /* what builds */
    dao_plan_bins_t *bins;
    dao_plan_greedy_t *greedy; /* what builds, or settles the ones above */
    dao_plan_bump_t *bump;     /* what improves, once everything is built */
    bool is_found;             /* the layout at hand waits to be compared */
    bool has_best;
    dao_plan_worth_t best;
    uint64_t version;
    uint64_t work;
    bool is_done;
};

/* ---- what builds ---- */

static bool is_building(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->greedy != NULL || portfolio->lowest != NULL || portfolio->bins != NULL;
}

static void drop_builder(dao_plan_portfolio_t *portfolio)
{
    dao_plan_greedy_destroy(portfolio->greedy);
    dao_plan_lowest_destroy(portfolio->lowest);
    dao_plan_bins_destroy(portfolio->bins);
    portfolio->greedy = NULL;
    portfolio->lowest = NULL;
    portfolio->bins = NULL;
}

/* Gives the next method that builds; DAO_PLAN_METHOD_COUNT: that was all. */
static dao_plan_method_t next_builder(dao_plan_portfolio_t *portfolio)
{
    dao_plan_method_t only = portfolio->config.method;
    if (only != DAO_PLAN_METHOD_BEST) {
        bool is_next = portfolio->next == 0 && recipes[only].kind != RECIPE_BUMPED;
        return is_next ? only : DAO_PLAN_METHOD_COUNT;
    }
    while (portfolio->next < BEST_METHOD_COUNT &&
           recipes[best_methods[portfolio->next]].kind != RECIPE_LOWEST &&
           portfolio->instance.item_count > GREEDY_ITEMS_MAX) {
        portfolio->next++;
    }
    return portfolio->next < BEST_METHOD_COUNT ? best_methods[portfolio->next] : DAO_PLAN_METHOD_COUNT;
}

static dao_status_t start_builder(dao_plan_portfolio_t *portfolio, dao_plan_method_t method)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    const recipe_t *recipe = &recipes[method];
    dao_status_t status = DAO_OK;
    if (recipe->kind == RECIPE_LOWEST) {
        const dao_plan_lowest_config_t config = {.order = recipe->order};
        status = dao_plan_lowest_create(instance, &config, &portfolio->lowest);
    } else if (recipe->kind == RECIPE_BINS) {
        status = dao_plan_bins_create(instance, DAO_BIN_ORDER_END, &portfolio->bins);
    } else {
        const dao_plan_greedy_config_t config = {.order = recipe->order,
                                                 .is_best_fit = recipe->kind == RECIPE_BEST_FIT};
        status = dao_plan_greedy_create(instance, &config, &portfolio->greedy);
    }
    if (status == DAO_OK) {
        portfolio->method = method;
        portfolio->next++;
    }
    return status;
}

static dao_plan_layout_t *layout_at_hand(const dao_plan_portfolio_t *portfolio)
{
    if (portfolio->bump != NULL) {
        return dao_plan_bump_layout(portfolio->bump);
    }
    if (portfolio->greedy != NULL) {
        return dao_plan_greedy_layout(portfolio->greedy);
    }
    return portfolio->lowest != NULL ? dao_plan_lowest_layout(portfolio->lowest)
                                     : dao_plan_bins_layout(portfolio->bins);
}

/* Begins to place all once more, in the order of the offsets that there are. */
static dao_status_t settle(dao_plan_portfolio_t *portfolio)
{
    dao_plan_greedy_config_t config = {.order = DAO_PLAN_ORDER_OFFSET,
                                       .offsets = layout_at_hand(portfolio)->offsets};
    return dao_plan_greedy_create(&portfolio->instance, &config, &portfolio->greedy);
}

static dao_status_t step_builder(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter)
{
    if (portfolio->greedy != NULL) {
        return dao_plan_greedy_step(portfolio->greedy, meter, &portfolio->is_found);
    }
    return portfolio->lowest != NULL ? dao_plan_lowest_step(portfolio->lowest, meter, &portfolio->is_found)
                                     : dao_plan_bins_step(portfolio->bins, meter, &portfolio->is_found);
}

/* ---- what improves ---- */

static bool does_improve(const dao_plan_portfolio_t *portfolio)
{
    dao_plan_method_t only = portfolio->config.method;
    return only == DAO_PLAN_METHOD_BEST || recipes[only].kind == RECIPE_BUMPED;
}

static dao_status_t step_improver(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter)
{
    if (portfolio->bump == NULL) {
        dao_status_t status =
            dao_plan_bump_create(&portfolio->instance, portfolio->config.seed, &portfolio->bump);
        if (status != DAO_OK) {
            return status;
        }
        portfolio->method = DAO_PLAN_METHOD_LOWEST_BUMPED;
        if (portfolio->has_best) {
            dao_plan_bump_set_best(portfolio->bump, &portfolio->best);
        }
    }
    dao_status_t status = dao_plan_bump_step(portfolio->bump, meter, &portfolio->is_found);
    portfolio->is_done = !portfolio->is_found && dao_plan_bump_is_tired(portfolio->bump);
    return status;
}

/* ---- results ---- */

/* Compares the layout at hand with the best one, and makes a plan of it if it is better. */
static dao_status_t compare(dao_plan_portfolio_t *portfolio, const dao_plan_meter_t *meter,
                            dao_plan_t **out_plan)
{
    dao_plan_instance_t *instance = &portfolio->instance;
    const dao_plan_layout_t *layout = layout_at_hand(portfolio);
    dao_plan_worth_t worth;
    dao_plan_layout_worth(instance, layout, &worth);
    if (portfolio->has_best && !dao_plan_worth_is_better(&worth, &portfolio->best)) {
        return DAO_OK;
    }
    DAO_ASSERT_HEAVY(dao_plan_layout_check(instance, layout, false) != DAO_ERR_INVALID);
    dao_plan_report_t report = {.method = portfolio->method, .version = portfolio->version + 1};
    report.work = portfolio->work + meter->used;
    report.memory_bytes =
        instance->memory.most_bytes + 2 * dao_plan_memory_of(instance); /* this plan and the one before */
    dao_status_t status = dao_plan_make_of(instance, layout, &report, out_plan);
    if (status == DAO_OK && portfolio->bins != NULL) {
        dao_plan_set_policy_bytes(*out_plan, dao_plan_bins_policy_bytes(portfolio->bins));
    }
    if (status == DAO_OK) {
        portfolio->best = worth;
        portfolio->has_best = true;
        portfolio->version++;
    }
    return status;
}

static bool is_bound_met(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->has_best && portfolio->best.unplaced_count == 0 &&
           portfolio->best.peak_bytes == portfolio->instance.bound_bytes;
}

/* A layout waits: what builds is dropped, or settled. */
static dao_status_t take_result(dao_plan_portfolio_t *portfolio, const dao_plan_meter_t *meter,
                                dao_plan_t **out_plan)
{
    const dao_plan_instance_t *instance = &portfolio->instance;
    bool is_first = is_building(portfolio) && portfolio->greedy == NULL; /* else it is exact */
    bool is_order = is_first && portfolio->bins != NULL && !dao_plan_bins_is_exact(instance);
    bool is_rough = is_order || (is_first && !dao_plan_instance_is_plain(instance));
    dao_status_t status = is_order ? DAO_OK : compare(portfolio, meter, out_plan);
    if (status != DAO_OK) {
        return status;
    }
    portfolio->is_done = is_bound_met(portfolio);
    if (is_rough && !portfolio->is_done) {
        status = settle(portfolio);
    } else {
        drop_builder(portfolio);
    }
    portfolio->is_found = status != DAO_OK;
    return status;
}

/* Goes on with what is at hand, or begins what comes next. */
static dao_status_t step_once(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter)
{
    if (is_building(portfolio)) {
        return step_builder(portfolio, meter);
    }
    dao_plan_method_t next = next_builder(portfolio);
    if (next != DAO_PLAN_METHOD_COUNT) {
        return start_builder(portfolio, next);
    }
    if (does_improve(portfolio)) {
        return step_improver(portfolio, meter);
    }
    portfolio->is_done = true;
    return DAO_OK;
}

dao_status_t dao_plan_portfolio_step(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter,
                                     dao_plan_t **out_plan)
{
    uint64_t used_before = meter->used;
    dao_status_t status = DAO_OK;
    *out_plan = NULL;
    while (status == DAO_OK && !portfolio->is_done && *out_plan == NULL && dao_plan_meter_has(meter)) {
        status = portfolio->is_found ? take_result(portfolio, meter, out_plan) : step_once(portfolio, meter);
        meter->used++;
    }
    portfolio->work += meter->used - used_before;
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

/* Fixed items must not clash with each other. */
static dao_status_t check_fixed(dao_plan_instance_t *instance)
{
    dao_plan_layout_t layout = {0};
    if (instance->fixed_offsets == NULL) {
        return DAO_OK;
    }
    if (!dao_plan_layout_init(&layout, instance)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %u offsets", instance->item_count);
    }
    for (uint32_t i = 0; i < instance->item_count; i++) {
        if (instance->items[i].is_fixed) {
            dao_plan_layout_put(&layout, i, instance->fixed_offsets[i], instance->items[i].pool);
        }
    }
    dao_status_t status = dao_plan_layout_check(instance, &layout, true);
    dao_plan_layout_finish(&layout, instance);
    return status;
}

dao_status_t dao_plan_portfolio_create(const dao_plan_problem_t *problem, const dao_planner_config_t *config,
                                       dao_plan_portfolio_t **out_portfolio)
{
    dao_plan_portfolio_t *portfolio = dao_host_calloc(1, sizeof(*portfolio));
    if (portfolio == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a planner");
    }
    portfolio->config = *config;
    dao_status_t status = dao_plan_instance_init(&portfolio->instance, problem);
    if (status == DAO_OK) {
        status = check_fixed(&portfolio->instance);
    }
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
        dao_plan_bump_destroy(portfolio->bump);
        dao_plan_instance_finish(&portfolio->instance);
        dao_host_free(portfolio);
    }
}
