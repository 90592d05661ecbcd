/* A portfolio is a list of methods. Each is a recipe: the lowest segment first or greedy, with an order, or bins.

   Where items are more than plain intervals (pieces, fixed offsets, clocks that times tell only roughly), the skyline sees
   each item's whole time, which is safe but wastes; greedy then places all once more, exactly, in the order of the offsets
   that the skyline gave. That is the settling.

   The exact search comes last, and looks only for what is better than the best plan so far. It raises the bound, too: then the
   best plan is published once more, with the bound that it is known to have. */
#include "planning/portfolio.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "planning/bins.h"
#include "planning/check.h"
#include "planning/greedy.h"
#include "planning/lowest.h"
#include "planning/plan.h"
#include "planning/search.h"

/* Where the bound is not met, nobody knows when to end: the search as one of several methods ends after so many steps, about a
   minute. */
#define SEARCH_WORK_MAX (UINT64_C(1) << 32)

typedef enum recipe_kind {
    RECIPE_NONE,
    RECIPE_LOWEST,
    RECIPE_FIRST_FIT,
    RECIPE_BEST_FIT,
    RECIPE_BINS,
    RECIPE_SEARCH
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
    [DAO_PLAN_METHOD_SEARCH] = {RECIPE_SEARCH, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_BINS] = {RECIPE_BINS, DAO_PLAN_ORDER_SIZE},
    [DAO_PLAN_METHOD_BREADTH_FIRST_FIT] = {RECIPE_FIRST_FIT, DAO_PLAN_ORDER_BREADTH},
    [DAO_PLAN_METHOD_BREADTH_BEST_FIT] = {RECIPE_BEST_FIT, DAO_PLAN_ORDER_BREADTH},
};

/* What `best` tries, the quick ones first. */
static const dao_plan_method_t best_methods[] = {
    DAO_PLAN_METHOD_LOWEST_START,   DAO_PLAN_METHOD_LOWEST_AREA,    DAO_PLAN_METHOD_LOWEST_DURATION,
    DAO_PLAN_METHOD_LOWEST_SIZE,    DAO_PLAN_METHOD_SIZE_FIRST_FIT, DAO_PLAN_METHOD_AREA_FIRST_FIT,
    DAO_PLAN_METHOD_START_BEST_FIT, DAO_PLAN_METHOD_SEARCH,
};

/* The search alone begins below a plan, which stays where it finds none. */
static const dao_plan_method_t search_methods[] = {DAO_PLAN_METHOD_LOWEST_AREA, DAO_PLAN_METHOD_SEARCH};

#define BEST_METHOD_COUNT   (sizeof(best_methods) / sizeof(best_methods[0]))
#define SEARCH_METHOD_COUNT (sizeof(search_methods) / sizeof(search_methods[0]))

struct dao_plan_portfolio {
    dao_plan_instance_t instance;
    dao_plan_method_t only;           /* what was asked for */
    const dao_plan_method_t *methods; /* what it is made of */
    size_t method_count;
    size_t next; /* of the methods */
    dao_plan_method_t method;
    uint64_t seed;
    dao_plan_lowest_t *lowest; /* of the method at hand */
    dao_plan_bins_t *bins;     /* of the method at hand */
    dao_plan_greedy_t *greedy; /* of the method at hand, or what settles one above */
    dao_plan_search_t *search; /* of the method at hand */
    uint64_t search_work;
    bool is_found;        /* its layout waits to be compared */
    bool is_bound_raised; /* the best plan waits to be published once more */
    bool has_best;
    dao_plan_worth_t best;
    dao_plan_t *best_plan; /* a reference */
    uint64_t version;
    uint64_t work;
    bool is_done;
};

/* ---- the method at hand ---- */

static void drop_method(dao_plan_portfolio_t *portfolio)
{
    dao_plan_greedy_destroy(portfolio->greedy);
    dao_plan_lowest_destroy(portfolio->lowest);
    dao_plan_bins_destroy(portfolio->bins);
    dao_plan_search_destroy(portfolio->search);
    portfolio->search = NULL;
    portfolio->greedy = NULL;
    portfolio->lowest = NULL;
    portfolio->bins = NULL;
}

/* Looks below the best plan, and within the capacity. What the search does not know it leaves to the other methods. */
static dao_status_t start_search(dao_plan_portfolio_t *portfolio)
{
    uint64_t capacity_bytes = portfolio->instance.capacities[0];
    uint64_t below_bytes = capacity_bytes == UINT64_MAX ? capacity_bytes : capacity_bytes + 1;
    if (portfolio->has_best && portfolio->best.unplaced_count == 0 &&
        portfolio->best.peak_bytes < below_bytes) {
        below_bytes = portfolio->best.peak_bytes;
    }
    dao_status_t status =
        dao_plan_search_create(&portfolio->instance, below_bytes, portfolio->seed, &portfolio->search);
    return status == DAO_ERR_UNSUPPORTED ? DAO_OK : status;
}

static dao_status_t start_method(dao_plan_portfolio_t *portfolio)
{
    if (portfolio->next == portfolio->method_count) {
        portfolio->is_done = true;
        return DAO_OK;
    }
    portfolio->method = portfolio->methods[portfolio->next];
    const recipe_t *recipe = &recipes[portfolio->method];
    dao_plan_greedy_config_t config = {.order = recipe->order,
                                       .is_best_fit = recipe->kind == RECIPE_BEST_FIT};
    dao_status_t status = DAO_OK;
    if (recipe->kind == RECIPE_LOWEST) {
        status = dao_plan_lowest_create(&portfolio->instance, recipe->order, &portfolio->lowest);
    } else if (recipe->kind == RECIPE_SEARCH) {
        status = start_search(portfolio);
    } else if (recipe->kind == RECIPE_BINS) {
        status = dao_plan_bins_create(&portfolio->instance, DAO_BIN_ORDER_END, &portfolio->bins);
    } else {
        status = dao_plan_greedy_create(&portfolio->instance, &config, &portfolio->greedy);
    }
    portfolio->next += status == DAO_OK ? 1 : 0;
    return status;
}

static dao_plan_layout_t *layout_at_hand(const dao_plan_portfolio_t *portfolio)
{
    if (portfolio->search != NULL) {
        return dao_plan_search_layout(portfolio->search);
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

static dao_status_t step_search(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter)
{
    dao_plan_search_event_t event = DAO_PLAN_SEARCH_OPEN;
    uint64_t used_before = meter->used;
    dao_status_t status = dao_plan_search_step(portfolio->search, meter, &event);
    portfolio->search_work += meter->used - used_before;
    portfolio->is_found = event == DAO_PLAN_SEARCH_BETTER;
    uint64_t bound_bytes = dao_plan_search_bound(portfolio->search);
    if (event == DAO_PLAN_SEARCH_BOUND && bound_bytes > portfolio->instance.bound_bytes) {
        portfolio->instance.bound_bytes = bound_bytes;
        portfolio->is_bound_raised = true;
    }
    bool is_over = portfolio->only == DAO_PLAN_METHOD_BEST && portfolio->search_work >= SEARCH_WORK_MAX;
    if (event == DAO_PLAN_SEARCH_DONE || (is_over && !portfolio->is_found)) {
        drop_method(portfolio);
    }
    return status;
}

static dao_status_t step_method(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter)
{
    if (portfolio->search != NULL) {
        return step_search(portfolio, meter);
    }
    if (portfolio->greedy != NULL) {
        return dao_plan_greedy_step(portfolio->greedy, meter, &portfolio->is_found);
    }
    return portfolio->lowest != NULL ? dao_plan_lowest_step(portfolio->lowest, meter, &portfolio->is_found)
                                     : dao_plan_bins_step(portfolio->bins, meter, &portfolio->is_found);
}

/* ---- results ---- */

static dao_plan_report_t report_of(const dao_plan_portfolio_t *portfolio, const dao_plan_meter_t *meter)
{
    dao_plan_report_t report = {.method = portfolio->method, .version = portfolio->version + 1};
    report.work = portfolio->work + meter->used;
    report.memory_bytes = portfolio->instance.memory.most_bytes +
                          2 * dao_plan_memory_of(&portfolio->instance); /* this plan and the one before */
    return report;
}

/* Hands a new plan out, and keeps a reference. */
static void hand_out(dao_plan_portfolio_t *portfolio, dao_plan_t *plan, dao_plan_t **out_plan)
{
    dao_plan_release(portfolio->best_plan);
    portfolio->best_plan = dao_plan_retain(plan);
    portfolio->version++;
    *out_plan = plan;
}

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
    dao_plan_report_t report = report_of(portfolio, meter);
    dao_plan_t *plan = NULL;
    dao_status_t status = dao_plan_make_of(instance, layout, &report, &plan);
    if (status != DAO_OK) {
        return status;
    }
    if (portfolio->bins != NULL) {
        dao_plan_set_policy_bytes(plan, dao_plan_bins_policy_bytes(portfolio->bins));
    }
    portfolio->best = worth;
    portfolio->has_best = true;
    hand_out(portfolio, plan, out_plan);
    return DAO_OK;
}

static bool is_bound_met(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->has_best && portfolio->best.unplaced_count == 0 &&
           portfolio->best.peak_bytes == portfolio->instance.bound_bytes;
}

/* The method at hand has a layout. */
static dao_status_t take_result(dao_plan_portfolio_t *portfolio, const dao_plan_meter_t *meter,
                                dao_plan_t **out_plan)
{
    const dao_plan_instance_t *instance = &portfolio->instance;
    bool is_order = portfolio->greedy == NULL && portfolio->bins != NULL && !dao_plan_bins_is_exact(instance);
    bool is_rough = is_order || (portfolio->greedy == NULL && !dao_plan_instance_is_plain(instance));
    dao_status_t status = is_order ? DAO_OK : compare(portfolio, meter, out_plan);
    if (status != DAO_OK) {
        return status;
    }
    portfolio->is_done = is_bound_met(portfolio);
    if (portfolio->search != NULL && !portfolio->is_done) {
        portfolio->is_found = false; /* it looks for more */
        return DAO_OK;
    }
    if (is_rough && !portfolio->is_done) {
        status = settle(portfolio);
    } else {
        drop_method(portfolio);
    }
    portfolio->is_found = status != DAO_OK;
    return status;
}

/* The bound has risen: the best plan is published once more. */
static dao_status_t take_bound(dao_plan_portfolio_t *portfolio, const dao_plan_meter_t *meter,
                               dao_plan_t **out_plan)
{
    dao_plan_report_t best_report;
    dao_status_t status = dao_plan_report_get(portfolio->best_plan, &best_report);
    DAO_ASSERT(status == DAO_OK); /* there is a plan before the search begins */
    dao_plan_report_t report = report_of(portfolio, meter);
    report.method = best_report.method;
    dao_plan_t *plan = NULL;
    status = dao_plan_make_again(&portfolio->instance, portfolio->best_plan, &report, &plan);
    if (status == DAO_OK) {
        portfolio->is_bound_raised = false;
        portfolio->is_done = is_bound_met(portfolio);
        hand_out(portfolio, plan, out_plan);
    }
    return status;
}

static bool has_method(const dao_plan_portfolio_t *portfolio)
{
    return portfolio->greedy != NULL || portfolio->lowest != NULL || portfolio->bins != NULL ||
           portfolio->search != NULL;
}

dao_status_t dao_plan_portfolio_step(dao_plan_portfolio_t *portfolio, dao_plan_meter_t *meter,
                                     dao_plan_t **out_plan)
{
    uint64_t used_before = meter->used;
    dao_status_t status = DAO_OK;
    *out_plan = NULL;
    while (status == DAO_OK && !portfolio->is_done && *out_plan == NULL && dao_plan_meter_has(meter)) {
        if (portfolio->is_found) {
            status = take_result(portfolio, meter, out_plan);
        } else if (portfolio->is_bound_raised) {
            status = take_bound(portfolio, meter, out_plan);
        } else if (has_method(portfolio)) {
            status = step_method(portfolio, meter);
        } else {
            status = start_method(portfolio);
        }
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

static void choose_methods(dao_plan_portfolio_t *portfolio)
{
    portfolio->methods = &portfolio->only;
    portfolio->method_count = 1;
    if (portfolio->only == DAO_PLAN_METHOD_BEST) {
        portfolio->methods = best_methods;
        portfolio->method_count = BEST_METHOD_COUNT;
    } else if (portfolio->only == DAO_PLAN_METHOD_SEARCH) {
        portfolio->methods = search_methods;
        portfolio->method_count = SEARCH_METHOD_COUNT;
    }
}

dao_status_t dao_plan_portfolio_create(const dao_plan_problem_t *problem, const dao_planner_config_t *config,
                                       dao_plan_portfolio_t **out_portfolio)
{
    dao_plan_portfolio_t *portfolio = dao_host_calloc(1, sizeof(*portfolio));
    if (portfolio == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a planner");
    }
    portfolio->only = config->method;
    portfolio->seed = config->seed;
    choose_methods(portfolio);
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
        drop_method(portfolio);
        dao_plan_release(portfolio->best_plan);
        dao_plan_instance_finish(&portfolio->instance);
        dao_host_free(portfolio);
    }
}
