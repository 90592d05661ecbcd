/* SPDX-License-Identifier: Apache-2.0 */
/* Runs of rounds. A round fills the skyline by an order whose values are multiplied by weights, one an item.
   Then it raises the weights of all items whose top lies above an aim between the bound and the best peak. A
   run ends when its rounds have not become better for a while.

   Runs begin by turns with weights of about 1 and the next order, or with the weights of the best layout.
   Drawn for each run are: how fast weights rise, where the aim is, and how long it goes on without an
   improvement.

   Where items are more than plain intervals the skyline is too careful, and greedy places all items once more
   (see portfolio.c). Then those offsets count.

   What holds between steps: greedy is there only beside the skyline, whose offsets it follows; a round that
   is over has its skyline; weights are finite and above 0. */
#include "planning/offsets/methods/squeaky_wheel.h"

#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/methods/greedy.h"
#include "planning/offsets/methods/skyline.h"

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

struct dao_plan_squeaky_wheel {
    dao_plan_instance_t *instance;
    dao_plan_skyline_t *skyline;
    dao_plan_greedy_t *greedy; /* NULL: the skyline's layout counts */
    float *weights;
    float *best_weights;
    size_t order;
    size_t best_order;
    bool has_best_weights;
    bool is_round_over; /* its weights are to be raised before the next one */
    habit_t habit;
    uint64_t random;
    uint64_t run; /* the first one is 1 */
    uint32_t stale_count;
    dao_plan_score_t score; /* of the round */
    dao_plan_score_t run_best;
    dao_plan_score_t best;
    uint64_t idle_work;
};

static dao_status_t no_memory(const dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to weigh %u buffers",
                     squeaky_wheel->instance->item_count);
}

/* ---- runs ---- */

static const dao_plan_score_t worst = {.unplaced_bytes = UINT64_MAX, .peak_bytes = UINT64_MAX};

static void begin_run(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work)
{
    bool goes_on = squeaky_wheel->run % 2 == 1 && squeaky_wheel->has_best_weights;
    squeaky_wheel->order = goes_on ? squeaky_wheel->best_order : squeaky_wheel->run / 2 % ORDER_COUNT;
    dao_plan_pass_t pass = {.count = squeaky_wheel->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            double weight = goes_on ? (double)squeaky_wheel->best_weights[i] : 1.0;
            squeaky_wheel->weights[i] =
                (float)(weight * (1.0 + NOISE * (2.0 * dao_random_unit(&squeaky_wheel->random) - 1.0)));
        }
    }
    static const habit_t habits[] = {
        {.raise_low = 0.05, .raise_high = 0.3, .aim = 0.0, .stale_rounds = 60},
        {.raise_low = 0.05, .raise_high = 0.3, .aim = 0.5, .stale_rounds = 60},
        {.raise_low = 0.2, .raise_high = 1.0, .aim = 0.0, .stale_rounds = 240},
        {.raise_low = 0.2, .raise_high = 1.0, .aim = 0.5, .stale_rounds = 60},
    };
    squeaky_wheel->habit =
        habits[dao_random_below(&squeaky_wheel->random, sizeof(habits) / sizeof(habits[0]))];
    squeaky_wheel->run_best = worst;
    squeaky_wheel->stale_count = 0;
    squeaky_wheel->run++;
}

/* ---- rounds ---- */

static bool is_rough(const dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    return !dao_plan_instance_is_plain(squeaky_wheel->instance);
}

static void drop_round(dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    dao_plan_greedy_destroy(squeaky_wheel->greedy);
    dao_plan_skyline_destroy(squeaky_wheel->skyline);
    squeaky_wheel->greedy = NULL;
    squeaky_wheel->skyline = NULL;
    squeaky_wheel->is_round_over = false;
}

static dao_status_t begin_round(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work)
{
    if (squeaky_wheel->stale_count >= squeaky_wheel->habit.stale_rounds) {
        begin_run(squeaky_wheel, work);
    }
    const dao_plan_skyline_config_t config = {.order = orders[squeaky_wheel->order],
                                              .weights = squeaky_wheel->weights};
    return dao_plan_skyline_create(squeaky_wheel->instance, &config, work, &squeaky_wheel->skyline);
}

dao_plan_layout_t *dao_plan_squeaky_wheel_layout(dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    return squeaky_wheel->greedy != NULL ? dao_plan_greedy_layout(squeaky_wheel->greedy)
                                         : dao_plan_skyline_layout(squeaky_wheel->skyline);
}

/* Keeps what a round came to. Returns true if it is better than all before. */
static bool end_round(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work)
{
    dao_plan_layout_score(squeaky_wheel->instance, dao_plan_squeaky_wheel_layout(squeaky_wheel), work,
                          &squeaky_wheel->score);
    if (dao_plan_work_is_cancelled(work)) {
        return false;
    }
    squeaky_wheel->is_round_over = true;
    squeaky_wheel->stale_count++;
    if (dao_plan_score_is_better(&squeaky_wheel->score, &squeaky_wheel->run_best)) {
        squeaky_wheel->run_best = squeaky_wheel->score;
        squeaky_wheel->stale_count = 0;
    }
    if (!dao_plan_score_is_better(&squeaky_wheel->score, &squeaky_wheel->best)) {
        return false;
    }
    squeaky_wheel->best = squeaky_wheel->score;
    dao_plan_pass_copy(squeaky_wheel->best_weights, squeaky_wheel->weights,
                       squeaky_wheel->instance->item_count * sizeof(*squeaky_wheel->weights), work);
    squeaky_wheel->best_order = squeaky_wheel->order;
    squeaky_wheel->has_best_weights = true;
    squeaky_wheel->idle_work = 0;
    return true;
}

/* How far the tops of a round are to come down. */
static uint64_t excess_of(const dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    uint64_t bound_bytes = squeaky_wheel->instance->bound_bytes;
    uint64_t best_bytes = squeaky_wheel->best.peak_bytes == UINT64_MAX ? squeaky_wheel->score.peak_bytes
                                                                       : squeaky_wheel->best.peak_bytes;
    uint64_t above = best_bytes > bound_bytes ? best_bytes - bound_bytes : 0;
    uint64_t aim_bytes = bound_bytes + (uint64_t)(squeaky_wheel->habit.aim * (double)above);
    return squeaky_wheel->score.peak_bytes > aim_bytes ? squeaky_wheel->score.peak_bytes - aim_bytes : 1;
}

/* Returns true if an item is where it should not be: nowhere, if any is; else too high in its pool. */
static bool is_too_high(const dao_plan_squeaky_wheel_t *squeaky_wheel, const dao_plan_layout_t *layout,
                        uint32_t item, uint64_t excess)
{
    if (squeaky_wheel->score.unplaced_count > 0) {
        return layout->offsets[item] == DAO_PLAN_NOWHERE;
    }
    uint64_t top = layout->offsets[item] + squeaky_wheel->instance->items[item].size_bytes;
    return top + excess > squeaky_wheel->score.pool_peaks[dao_plan_layout_pool(layout, item)];
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
static void calm_weights(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = squeaky_wheel->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            squeaky_wheel->weights[i] = root_of(squeaky_wheel->weights[i]);
        }
    }
}

static void raise_weights(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work)
{
    const dao_plan_layout_t *layout = dao_plan_squeaky_wheel_layout(squeaky_wheel);
    uint64_t excess = excess_of(squeaky_wheel);
    float most = 0.0f;
    dao_plan_pass_t pass = {.count = squeaky_wheel->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (is_too_high(squeaky_wheel, layout, i, excess)) {
                double range = squeaky_wheel->habit.raise_high - squeaky_wheel->habit.raise_low;
                squeaky_wheel->weights[i] *= (float)(1.0 + squeaky_wheel->habit.raise_low +
                                                     range * dao_random_unit(&squeaky_wheel->random));
                most = squeaky_wheel->weights[i] > most ? squeaky_wheel->weights[i] : most;
            }
        }
    }
    if (most > WEIGHT_MAX) {
        calm_weights(squeaky_wheel, work);
    }
}

/* Does a part of a round. */
static dao_status_t step_round(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work,
                               bool *out_is_found)
{
    bool is_done = false;
    dao_status_t status = DAO_OK;
    if (squeaky_wheel->is_round_over) {
        raise_weights(squeaky_wheel, work);
        drop_round(squeaky_wheel);
        return DAO_OK;
    }
    if (squeaky_wheel->skyline == NULL) {
        return begin_round(squeaky_wheel, work);
    }
    if (squeaky_wheel->greedy != NULL) {
        status = dao_plan_greedy_step(squeaky_wheel->greedy, work, &is_done);
    } else {
        status = dao_plan_skyline_step(squeaky_wheel->skyline, work, &is_done);
        if (status == DAO_OK && is_done && is_rough(squeaky_wheel)) {
            const dao_plan_greedy_config_t config = {
                .order = DAO_PLAN_ORDER_OFFSET,
                .offsets = dao_plan_skyline_layout(squeaky_wheel->skyline)->offsets};
            is_done = false;
            status = dao_plan_greedy_create(squeaky_wheel->instance, &config, work, &squeaky_wheel->greedy);
        }
    }
    if (status == DAO_OK && is_done) {
        *out_is_found = end_round(squeaky_wheel, work);
    }
    return status;
}

dao_status_t dao_plan_squeaky_wheel_step(dao_plan_squeaky_wheel_t *squeaky_wheel, dao_plan_work_t *work,
                                         bool *out_is_found)
{
    dao_status_t status = DAO_OK;
    *out_is_found = false;
    DAO_ASSERT(squeaky_wheel->greedy == NULL || squeaky_wheel->skyline != NULL);
    while (status == DAO_OK && !*out_is_found && dao_plan_work_is_left(work)) {
        uint64_t used_before = work->used++;
        status = step_round(squeaky_wheel, work, out_is_found);
        squeaky_wheel->idle_work += work->used - used_before;
    }
    DAO_ASSERT(!*out_is_found || squeaky_wheel->skyline != NULL);
    DAO_ASSERT_HEAVY(dao_plan_work_is_cancelled(work) || dao_plan_squeaky_wheel_is_valid(squeaky_wheel));
    return status;
}

bool dao_plan_squeaky_wheel_is_exhausted(const dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    uint64_t pairs = (uint64_t)squeaky_wheel->instance->item_count * squeaky_wheel->instance->item_count;
    bool are_few = pairs < PATIENCE_WORK / PATIENCE_PAIR_WORK;
    return squeaky_wheel->idle_work > (are_few ? pairs * PATIENCE_PAIR_WORK : PATIENCE_WORK);
}

/* ---- start and end ---- */

dao_status_t dao_plan_squeaky_wheel_create(dao_plan_instance_t *instance, uint64_t seed,
                                           dao_plan_work_t *work,
                                           dao_plan_squeaky_wheel_t **out_squeaky_wheel)
{
    dao_plan_squeaky_wheel_t *squeaky_wheel =
        dao_plan_memory_alloc(&instance->memory, 1, sizeof(*squeaky_wheel));
    if (squeaky_wheel == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to weigh buffers");
    }
    squeaky_wheel->instance = instance;
    squeaky_wheel->random = seed;
    squeaky_wheel->best = worst;
    squeaky_wheel->weights =
        dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(*squeaky_wheel->weights));
    squeaky_wheel->best_weights =
        dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(*squeaky_wheel->best_weights));
    if (squeaky_wheel->weights == NULL || squeaky_wheel->best_weights == NULL) {
        dao_status_t status = no_memory(squeaky_wheel);
        dao_plan_squeaky_wheel_destroy(squeaky_wheel);
        return status;
    }
    begin_run(squeaky_wheel, work);
    *out_squeaky_wheel = squeaky_wheel;
    return DAO_OK;
}

void dao_plan_squeaky_wheel_destroy(dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    if (squeaky_wheel == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &squeaky_wheel->instance->memory;
    drop_round(squeaky_wheel);
    dao_plan_memory_free(memory, squeaky_wheel->weights);
    dao_plan_memory_free(memory, squeaky_wheel->best_weights);
    dao_plan_memory_free(memory, squeaky_wheel);
}

void dao_plan_squeaky_wheel_set_best(dao_plan_squeaky_wheel_t *squeaky_wheel, const dao_plan_score_t *best)
{
    if (dao_plan_score_is_better(best, &squeaky_wheel->best)) {
        squeaky_wheel->best = *best;
    }
}

bool dao_plan_squeaky_wheel_is_valid(const dao_plan_squeaky_wheel_t *squeaky_wheel)
{
    bool is_valid = squeaky_wheel->order < ORDER_COUNT &&
                    (squeaky_wheel->greedy == NULL || squeaky_wheel->skyline != NULL) &&
                    (!squeaky_wheel->is_round_over || squeaky_wheel->skyline != NULL);
    for (uint32_t i = 0; i < squeaky_wheel->instance->item_count && is_valid; i++) {
        is_valid = squeaky_wheel->weights[i] > 0.0f && squeaky_wheel->weights[i] < 4.0f * WEIGHT_MAX;
    }
    return is_valid;
}
