/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of rounds. A round fills the skyline by an order whose values are multiplied by weights, one an item,
   and then raises the weights of all items whose top lies above an aim between the bound and the best peak. A
   run ends when its rounds have not become better for a while. Runs begin with weights of about 1 and each
   order in turn, or, every other one, with those of the best layout; how fast weights rise, where the aim is
   and how long it waits is drawn for each run.

   This is squeaky wheel optimization (Joslin and Clements, 1999), with the lowest segment first as what
   builds.

   Where items are more than plain intervals the skyline is rough, and greedy places all once more (see
   portfolio.c); then those offsets count.

   What holds between steps: `lowest` or `greedy` is there while a round is at work; weights are finite and
   above 0. */
#include "planning/offsets/methods/bump.h"

#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/methods/greedy.h"
#include "planning/offsets/methods/lowest.h"

/* Work without anything better after which it is tired: some twenty seconds, and less for few items, which
   have few orders. */
#define PATIENCE_WORK      (UINT64_C(1) << 30)
#define PATIENCE_PAIR_WORK (UINT64_C(1) << 14)

/* Above it all weights are drawn together. */
#define WEIGHT_MAX 1048576.0f

/* Weights at the start of a run differ from those asked for by up to so much, either way. */
#define NOISE 0.07

static const dao_plan_order_t orders[] = {DAO_PLAN_ORDER_START, DAO_PLAN_ORDER_DURATION, DAO_PLAN_ORDER_AREA,
                                          DAO_PLAN_ORDER_SIZE};

#define ORDER_COUNT (sizeof(orders) / sizeof(orders[0]))

/* What is drawn for a run. */
typedef struct habit {
    double raise_low; /* a weight is multiplied by 1 plus something between these */
    double raise_high;
    double aim;            /* 0: the bound; 1: the best peak */
    uint32_t stale_rounds; /* so many rounds in a row without anything better end it */
} habit_t;

struct dao_plan_bump {
    dao_plan_instance_t *instance;
    dao_plan_lowest_t *lowest;
    dao_plan_greedy_t *greedy; /* NULL: the skyline's layout counts */
    float *weights;
    float *best_weights;
    size_t order;
    size_t best_order;
    bool has_best_weights;
    bool is_round_over; /* its layout is to be bumped before the next one */
    habit_t habit;
    uint64_t random;
    uint64_t run; /* the first one is 1 */
    uint32_t stale_count;
    dao_plan_worth_t worth; /* of the round */
    dao_plan_worth_t run_best;
    dao_plan_worth_t best;
    uint64_t idle_work;
};

static dao_status_t no_memory(const dao_plan_bump_t *bump)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to weigh %u buffers",
                     bump->instance->item_count);
}

/* ---- runs ---- */

static const dao_plan_worth_t worst = {.unplaced_bytes = UINT64_MAX, .peak_bytes = UINT64_MAX};

static void begin_run(dao_plan_bump_t *bump, dao_plan_meter_t *meter)
{
    bool goes_on = bump->run % 2 == 1 && bump->has_best_weights;
    bump->order = goes_on ? bump->best_order : bump->run / 2 % ORDER_COUNT;
    dao_plan_pass_t pass = {.count = bump->instance->item_count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            double weight = goes_on ? (double)bump->best_weights[i] : 1.0;
            bump->weights[i] = (float)(weight * (1.0 + NOISE * (2.0 * dao_random_unit(&bump->random) - 1.0)));
        }
    }
    static const habit_t habits[] = {
        {.raise_low = 0.05, .raise_high = 0.3, .aim = 0.0, .stale_rounds = 60},
        {.raise_low = 0.05, .raise_high = 0.3, .aim = 0.5, .stale_rounds = 60},
        {.raise_low = 0.2, .raise_high = 1.0, .aim = 0.0, .stale_rounds = 240},
        {.raise_low = 0.2, .raise_high = 1.0, .aim = 0.5, .stale_rounds = 60},
    };
    bump->habit = habits[dao_random_below(&bump->random, sizeof(habits) / sizeof(habits[0]))];
    bump->run_best = worst;
    bump->stale_count = 0;
    bump->run++;
}

/* ---- rounds ---- */

static bool is_rough(const dao_plan_bump_t *bump)
{
    return !dao_plan_instance_is_plain(bump->instance);
}

static void drop_round(dao_plan_bump_t *bump)
{
    dao_plan_greedy_destroy(bump->greedy);
    dao_plan_lowest_destroy(bump->lowest);
    bump->greedy = NULL;
    bump->lowest = NULL;
    bump->is_round_over = false;
}

static dao_status_t begin_round(dao_plan_bump_t *bump, dao_plan_meter_t *meter)
{
    if (bump->stale_count >= bump->habit.stale_rounds) {
        begin_run(bump, meter);
    }
    const dao_plan_lowest_config_t config = {.order = orders[bump->order], .weights = bump->weights};
    return dao_plan_lowest_create(bump->instance, &config, meter, &bump->lowest);
}

dao_plan_layout_t *dao_plan_bump_layout(dao_plan_bump_t *bump)
{
    return bump->greedy != NULL ? dao_plan_greedy_layout(bump->greedy) : dao_plan_lowest_layout(bump->lowest);
}

/* Keeps what a round came to. Tells whether it is better than all before. */
static bool end_round(dao_plan_bump_t *bump, dao_plan_meter_t *meter)
{
    dao_plan_layout_worth(bump->instance, dao_plan_bump_layout(bump), meter, &bump->worth);
    if (dao_plan_meter_is_cancelled(meter)) {
        return false;
    }
    bump->is_round_over = true;
    bump->stale_count++;
    if (dao_plan_worth_is_better(&bump->worth, &bump->run_best)) {
        bump->run_best = bump->worth;
        bump->stale_count = 0;
    }
    if (!dao_plan_worth_is_better(&bump->worth, &bump->best)) {
        return false;
    }
    bump->best = bump->worth;
    dao_plan_pass_copy(bump->best_weights, bump->weights, bump->instance->item_count * sizeof(*bump->weights),
                       meter);
    bump->best_order = bump->order;
    bump->has_best_weights = true;
    bump->idle_work = 0;
    return true;
}

/* How far the tops of a round are to come down. */
static uint64_t excess_of(const dao_plan_bump_t *bump)
{
    uint64_t bound_bytes = bump->instance->bound_bytes;
    uint64_t best_bytes =
        bump->best.peak_bytes == UINT64_MAX ? bump->worth.peak_bytes : bump->best.peak_bytes;
    uint64_t above = best_bytes > bound_bytes ? best_bytes - bound_bytes : 0;
    uint64_t aim_bytes = bound_bytes + (uint64_t)(bump->habit.aim * (double)above);
    return bump->worth.peak_bytes > aim_bytes ? bump->worth.peak_bytes - aim_bytes : 1;
}

/* Tells whether an item is where it should not be: nowhere, if any is; else too high in its pool. */
static bool is_too_high(const dao_plan_bump_t *bump, const dao_plan_layout_t *layout, uint32_t item,
                        uint64_t excess)
{
    if (bump->worth.unplaced_count > 0) {
        return layout->offsets[item] == DAO_PLAN_NOWHERE;
    }
    uint64_t top = layout->offsets[item] + bump->instance->items[item].size_bytes;
    return top + excess > bump->worth.pool_peaks[dao_plan_layout_pool(layout, item)];
}

/* Three steps of Newton's, which is near enough, and the same on every machine. */
static float root_of(float weight)
{
    float root = 1.0f;
    for (float power = 4.0f; power < weight; power *= 4.0f) {
        root *= 2.0f;
    }
    for (uint32_t step = 0; step < 3; step++) {
        root = 0.5f * (root + weight / root);
    }
    return root;
}

/* Draws all weights together: their order stays, their distances shrink. */
static void calm_weights(dao_plan_bump_t *bump, dao_plan_meter_t *meter)
{
    dao_plan_pass_t pass = {.count = bump->instance->item_count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            bump->weights[i] = root_of(bump->weights[i]);
        }
    }
}

static void raise_weights(dao_plan_bump_t *bump, dao_plan_meter_t *meter)
{
    const dao_plan_layout_t *layout = dao_plan_bump_layout(bump);
    uint64_t excess = excess_of(bump);
    float most = 0.0f;
    dao_plan_pass_t pass = {.count = bump->instance->item_count};
    while (dao_plan_pass_next(&pass, meter)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (is_too_high(bump, layout, i, excess)) {
                double range = bump->habit.raise_high - bump->habit.raise_low;
                bump->weights[i] *=
                    (float)(1.0 + bump->habit.raise_low + range * dao_random_unit(&bump->random));
                most = bump->weights[i] > most ? bump->weights[i] : most;
            }
        }
    }
    if (most > WEIGHT_MAX) {
        calm_weights(bump, meter);
    }
}

/* Does a part of a round. */
static dao_status_t step_round(dao_plan_bump_t *bump, dao_plan_meter_t *meter, bool *out_is_found)
{
    bool is_done = false;
    dao_status_t status = DAO_OK;
    if (bump->is_round_over) {
        raise_weights(bump, meter);
        drop_round(bump);
        return DAO_OK;
    }
    if (bump->lowest == NULL) {
        return begin_round(bump, meter);
    }
    if (bump->greedy != NULL) {
        status = dao_plan_greedy_step(bump->greedy, meter, &is_done);
    } else {
        status = dao_plan_lowest_step(bump->lowest, meter, &is_done);
        if (status == DAO_OK && is_done && is_rough(bump)) {
            const dao_plan_greedy_config_t config = {
                .order = DAO_PLAN_ORDER_OFFSET, .offsets = dao_plan_lowest_layout(bump->lowest)->offsets};
            is_done = false;
            status = dao_plan_greedy_create(bump->instance, &config, meter, &bump->greedy);
        }
    }
    if (status == DAO_OK && is_done) {
        *out_is_found = end_round(bump, meter);
    }
    return status;
}

dao_status_t dao_plan_bump_step(dao_plan_bump_t *bump, dao_plan_meter_t *meter, bool *out_is_found)
{
    dao_status_t status = DAO_OK;
    *out_is_found = false;
    while (status == DAO_OK && !*out_is_found && dao_plan_meter_has(meter)) {
        uint64_t used_before = meter->used++;
        status = step_round(bump, meter, out_is_found);
        bump->idle_work += meter->used - used_before;
    }
    DAO_ASSERT_HEAVY(dao_plan_meter_is_cancelled(meter) || dao_plan_bump_is_valid(bump));
    return status;
}

bool dao_plan_bump_is_tired(const dao_plan_bump_t *bump)
{
    uint64_t pairs = (uint64_t)bump->instance->item_count * bump->instance->item_count;
    bool are_few = pairs < PATIENCE_WORK / PATIENCE_PAIR_WORK;
    return bump->idle_work > (are_few ? pairs * PATIENCE_PAIR_WORK : PATIENCE_WORK);
}

/* ---- start and end ---- */

dao_status_t dao_plan_bump_create(dao_plan_instance_t *instance, uint64_t seed, dao_plan_meter_t *meter,
                                  dao_plan_bump_t **out_bump)
{
    dao_plan_bump_t *bump = dao_plan_take(&instance->memory, 1, sizeof(*bump));
    if (bump == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to weigh buffers");
    }
    bump->instance = instance;
    bump->random = seed;
    bump->best = worst;
    bump->weights = dao_plan_take(&instance->memory, instance->item_count, sizeof(*bump->weights));
    bump->best_weights = dao_plan_take(&instance->memory, instance->item_count, sizeof(*bump->best_weights));
    if (bump->weights == NULL || bump->best_weights == NULL) {
        dao_status_t status = no_memory(bump);
        dao_plan_bump_destroy(bump);
        return status;
    }
    begin_run(bump, meter);
    *out_bump = bump;
    return DAO_OK;
}

void dao_plan_bump_destroy(dao_plan_bump_t *bump)
{
    if (bump == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &bump->instance->memory;
    drop_round(bump);
    dao_plan_give(memory, bump->weights);
    dao_plan_give(memory, bump->best_weights);
    dao_plan_give(memory, bump);
}

void dao_plan_bump_set_best(dao_plan_bump_t *bump, const dao_plan_worth_t *best)
{
    if (dao_plan_worth_is_better(best, &bump->best)) {
        bump->best = *best;
    }
}

bool dao_plan_bump_is_valid(const dao_plan_bump_t *bump)
{
    bool is_valid = bump->order < ORDER_COUNT && (bump->greedy == NULL || bump->lowest != NULL) &&
                    (!bump->is_round_over || bump->lowest != NULL);
    for (uint32_t i = 0; i < bump->instance->item_count && is_valid; i++) {
        is_valid = bump->weights[i] > 0.0f && bump->weights[i] < 4.0f * WEIGHT_MAX;
    }
    return is_valid;
}
