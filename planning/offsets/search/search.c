/* SPDX-License-Identifier: Apache-2.0 */
/* The lowest peak lies between a lower bound and the best peak so far, and runs of the search for a fit
   (search_fit.h) close in on it. A run at a capacity finds a layout, which lowers the upper end; or proves
   that there is none, which raises the lower end; or reaches its limit of nodes, and teaches which sections
   are hard.

       bound            lower                        capacity       upper
       |................|----------------------------|-------------|          peak
         proved: none     what is open                                         found

   Time is far from monotone in the capacity: the tightest capacity prunes most, so that the optimum is often
   found faster than something slightly above it, and most instances attain their bound. So a third of the
   probes try the lower end at once, some the upper one, the others are spread over what is open, and none
   lasts long.

   A probe is a series of runs at one capacity: by turns with four orders of values, at first as they are,
   then with some noise, after Gomes, Selman and Kautz, "Boosting combinatorial search through randomization"
   (AAAI 1998): one order may take a thousand times as long as the next. Runs are short at first and get
   longer within a probe; probes get longer too, so that a proof is found once it fits a run. What a run has
   learnt about its sections is kept for the next one of the probe.

   What holds: no layout has a peak below `lower`; the best one has `upper`, or what is looked for is below
   it. */
#include "planning/offsets/search/search.h"

#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/search/search_fit.h"

/* The first limit of nodes, per item, and the growth of limits whenever all orders had their turn. */
#define NODES_PER_ITEM 2.0
#define NODES_GROWTH   1.1

/* How many turns all orders have in a probe: one more after so many probes. */
#define FIRST_ROUND_COUNT 4u
#define PROBES_PER_ROUND  2u

/* Every eighth probe is just below the best peak, or at the capacity: the first one too. Of the others every
   third is at the lower end. */
#define HIGHEST_PERIOD 8u
#define LOWER_PERIOD   3u

/* Values are multiplied by something from 1 - NOISE to 1 + NOISE, but in a probe's first round. */
#define NOISE 0.1

/* What comes first among items that may lie lowest: the largest value. */
typedef enum value_kind {
    VALUE_AREA,
    VALUE_DURATION, /* then size */
    VALUE_LOAD,     /* in the fullest section, then duration, then size */
    VALUE_SIZE,     /* then duration */
    VALUE_KIND_COUNT,
} value_kind_t;

struct dao_plan_search {
    dao_plan_instance_t *instance;
    dao_plan_search_model_t model;
    dao_plan_fit_t *fit;
    dao_plan_layout_t layout;
    double *values;          /* of the run at hand */
    dao_plan_units_t *loads; /* one an item: the largest total of its sections */
    dao_plan_units_t lower;
    dao_plan_units_t upper;
    uint64_t random;
    uint32_t probe_count;
    uint32_t turns_left;       /* of the probe at hand */
    uint32_t turn;             /* in it */
    dao_plan_units_t capacity; /* of it */
    double node_limit;         /* of the run at hand */
    bool is_running;
};

/* A number in which the first one decides, unless two are as good as equal. */
static double then(double first, double second)
{
    return first * 1e6 + second;
}

static double value_of(const dao_plan_search_t *search, value_kind_t kind, uint32_t item)
{
    const dao_plan_search_model_t *model = &search->model;
    double duration = (double)(model->end_sections[item] - model->first_sections[item]);
    double size = (double)model->sizes[item];
    switch (kind) {
    case VALUE_DURATION:
        return then(duration, size);
    case VALUE_LOAD:
        return then((double)search->loads[item], duration * 1e3 + size);
    case VALUE_SIZE:
        return then(size, duration);
    case VALUE_AREA:
    case VALUE_KIND_COUNT:
        break;
    }
    return duration * size;
}

static void draw_values(dao_plan_search_t *search)
{
    value_kind_t kind = (value_kind_t)(search->turn % VALUE_KIND_COUNT);
    double noise = search->turn < VALUE_KIND_COUNT ? 0.0 : NOISE;
    for (uint32_t i = 0; i < search->model.item_count; i++) {
        search->values[i] =
            value_of(search, kind, i) * (1.0 + noise * (2.0 * dao_random_unit(&search->random) - 1.0));
    }
}

static dao_plan_units_t draw_capacity(dao_plan_search_t *search)
{
    double open_count = (double)(search->upper - search->lower),
           at = dao_random_unit(&search->random) * open_count;
    if (search->probe_count % HIGHEST_PERIOD == 0) {
        return search->upper - 1;
    }
    if (search->probe_count % LOWER_PERIOD == 1) {
        return search->lower;
    }
    dao_plan_units_t capacity = search->lower + (dao_plan_units_t)at;
    return capacity < search->upper ? capacity : search->upper - 1; /* rounding may have reached it */
}

/* ---- runs ---- */

static void start_probe(dao_plan_search_t *search)
{
    search->capacity = draw_capacity(search);
    search->turn = 0;
    search->turns_left = VALUE_KIND_COUNT * (FIRST_ROUND_COUNT + search->probe_count / PROBES_PER_ROUND);
    search->node_limit = NODES_PER_ITEM * search->model.item_count;
    search->probe_count++;
}

static void start_run(dao_plan_search_t *search)
{
    if (search->turns_left == 0) {
        start_probe(search);
    } else if (search->turn % VALUE_KIND_COUNT == 0) {
        search->node_limit *= NODES_GROWTH;
    }
    draw_values(search);
    search->turn++;
    search->turns_left--;
    uint64_t node_limit = search->node_limit < 0x1p63 ? (uint64_t)search->node_limit : UINT64_MAX;
    dao_plan_fit_start(search->fit, search->capacity, node_limit, search->values);
    search->is_running = true;
}

static void take_layout(dao_plan_search_t *search)
{
    const dao_plan_units_t *offsets = dao_plan_fit_offsets(search->fit);
    dao_plan_units_t peak = 0;
    for (uint32_t i = 0; i < search->model.item_count; i++) {
        dao_plan_units_t top = offsets[i] + search->model.sizes[i];
        peak = top > peak ? top : peak;
        dao_plan_layout_put(&search->layout, i, (uint64_t)offsets[i] * search->model.unit_bytes, 0);
    }
    DAO_ASSERT(search->lower <= peak && peak <= search->capacity);
    DAO_ASSERT(peak < search->upper);
    search->upper = peak;
}

static dao_plan_search_event_t end_run(dao_plan_search_t *search, dao_plan_fit_end_t end)
{
    search->is_running = end == DAO_PLAN_FIT_OPEN;
    if (end == DAO_PLAN_FIT_FOUND) {
        take_layout(search);
        search->turns_left = 0;
        return DAO_PLAN_SEARCH_BETTER;
    }
    if (end == DAO_PLAN_FIT_NONE) {
        DAO_ASSERT(search->capacity >= search->lower);
        search->lower = search->capacity + 1;
        search->turns_left = 0;
        return DAO_PLAN_SEARCH_BOUND;
    }
    return DAO_PLAN_SEARCH_OPEN;
}

/* Returns true if the capacity of a run lies in the range that is left, below what is known to be reached. */
static bool is_valid(const dao_plan_search_t *search)
{
    return !search->is_running || (search->lower <= search->capacity && search->capacity < search->upper);
}

dao_status_t dao_plan_search_step(dao_plan_search_t *search, dao_plan_work_t *work,
                                  dao_plan_search_event_t *out_event)
{
    DAO_ASSERT(is_valid(search));
    *out_event = search->lower < search->upper ? DAO_PLAN_SEARCH_OPEN : DAO_PLAN_SEARCH_DONE;
    while (*out_event == DAO_PLAN_SEARCH_OPEN && dao_plan_work_is_left(work)) {
        if (!search->is_running) {
            start_run(search);
            work->used += search->model.item_count;
        }
        dao_plan_fit_end_t end = DAO_PLAN_FIT_OPEN;
        dao_status_t status = dao_plan_fit_step(search->fit, work, &end);
        if (status != DAO_OK) {
            return status;
        }
        *out_event = end_run(search, end);
    }
    DAO_ASSERT(is_valid(search));
    return DAO_OK;
}

/* ---- start and end ---- */

static void fill_loads(dao_plan_search_t *search, dao_plan_work_t *work)
{
    const dao_plan_search_model_t *model = &search->model;
    for (uint32_t i = 0; i < model->item_count && !dao_plan_work_is_cancelled(work); i++) {
        uint32_t first = model->first_sections[i];
        dao_plan_pass_t pass = {.count = model->end_sections[i] - first};
        while (dao_plan_pass_next(&pass, work)) {
            for (size_t s = first + pass.begin; s < first + pass.end; s++) {
                search->loads[i] = model->totals[s] > search->loads[i] ? model->totals[s] : search->loads[i];
            }
        }
    }
}

/* The units that hold so many bytes. */
static dao_plan_units_t units_of(const dao_plan_search_t *search, uint64_t bytes)
{
    uint64_t unit = search->model.unit_bytes;
    return bytes > DAO_PLAN_TOTAL_MAX ? DAO_PLAN_UNITS_NOWHERE
                                      : (dao_plan_units_t)((bytes + unit - 1) / unit);
}

static dao_status_t take_parts(dao_plan_search_t *search, dao_plan_work_t *work)
{
    dao_plan_memory_t *memory = &search->instance->memory;
    uint32_t count = search->instance->item_count;
    dao_status_t status = dao_plan_search_model_init(&search->model, search->instance, work);
    if (status == DAO_OK) {
        status = dao_plan_fit_create(&search->model, &search->fit);
    }
    if (status != DAO_OK) {
        return status;
    }
    search->values = dao_plan_memory_alloc(memory, count, sizeof(*search->values));
    search->loads = dao_plan_memory_alloc(memory, count, sizeof(*search->loads));
    if (search->values == NULL || search->loads == NULL ||
        !dao_plan_layout_init(&search->layout, search->instance, work)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to search for offsets of %u buffers", count);
    }
    return DAO_OK;
}

dao_status_t dao_plan_search_create(dao_plan_instance_t *instance, uint64_t below_bytes, uint64_t seed,
                                    dao_plan_work_t *work, dao_plan_search_t **out_search)
{
    dao_plan_search_t *search = dao_plan_memory_alloc(&instance->memory, 1, sizeof(*search));
    if (search == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a search");
    }
    search->instance = instance;
    dao_status_t status = take_parts(search, work);
    if (status != DAO_OK) {
        dao_plan_search_destroy(search);
        return status;
    }
    fill_loads(search, work);
    search->lower = units_of(search, instance->bound_bytes);
    search->upper = units_of(search, below_bytes);
    search->random = seed;
    *out_search = search;
    return DAO_OK;
}

void dao_plan_search_destroy(dao_plan_search_t *search)
{
    if (search == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &search->instance->memory;
    dao_plan_fit_destroy(search->fit);
    dao_plan_memory_free(memory, search->values);
    dao_plan_memory_free(memory, search->loads);
    dao_plan_layout_finish(&search->layout, search->instance);
    dao_plan_search_model_finish(&search->model);
    dao_plan_memory_free(memory, search);
}

dao_plan_layout_t *dao_plan_search_layout(dao_plan_search_t *search)
{
    return &search->layout;
}

uint64_t dao_plan_search_bound(const dao_plan_search_t *search)
{
    return (uint64_t)search->lower * search->model.unit_bytes;
}
