/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/offsets/quick.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/check.h"
#include "planning/offsets/methods/drop.h"
#include "planning/offsets/methods/greedy.h"
#include "planning/offsets/methods/skyline.h"
#include "planning/offsets/problem/problem.h"

/* A greedy pass looks at all that is placed, 64 entries at once: with so many items that takes 0.2 s, and
   four times as long with twice as many. More are dropped. */
#define GREEDY_ITEMS_MAX 16384u

/* If so few items find no place, all are dropped once more with these first, so many times. */
#define FEW_COUNT      64u
#define DROP_ROUND_MAX 3u

/* What found no place then looks for a hole between all others: at so many of them in all, below a second. */
#define FILL_LOOKS_MAX ((uint64_t)1 << 28)

static dao_status_t cancelled(void)
{
    return dao_error(DAO_ERR_STOPPED, "the search for offsets was cancelled");
}

dao_status_t dao_plan_quick_init(dao_plan_quick_t *quick, const dao_plan_problem_t *problem,
                                 dao_plan_work_t *work)
{
    *quick = (dao_plan_quick_t){0};
    dao_status_t status = dao_plan_problem_check(problem);
    status = status == DAO_OK ? dao_plan_instance_init(&quick->instance, problem, work) : status;
    quick->instance.memory.is_patient = false; /* it is not trimmed later */
    if (status != DAO_OK) {
        dao_plan_quick_finish(quick);
        return status == DAO_ERR_STOPPED ? cancelled() : status;
    }
    size_t count = (size_t)quick->instance.item_count + 1;
    if ((quick->misses = dao_host_calloc(count, sizeof(*quick->misses))) == NULL ||
        (quick->ranks = dao_host_calloc(count, sizeof(*quick->ranks))) == NULL ||
        (quick->offsets = dao_host_calloc(count, sizeof(*quick->offsets))) == NULL) {
        dao_plan_quick_finish(quick);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to place %zu buffers",
                         problem->buffer_count);
    }
    return DAO_OK;
}

void dao_plan_quick_finish(dao_plan_quick_t *quick)
{
    dao_host_free(quick->misses);
    dao_host_free(quick->ranks);
    dao_host_free(quick->offsets);
    dao_plan_instance_finish(&quick->instance);
    *quick = (dao_plan_quick_t){0};
}

/* Keeps a layout that is better than those before. Returns how many items it has no place for. */
static uint64_t keep_better(dao_plan_quick_t *quick, const dao_plan_layout_t *layout, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = &quick->instance;
    dao_plan_score_t score;
    dao_plan_layout_score(instance, layout, work, &score);
    if (quick->has_best && !dao_plan_score_is_better(&score, &quick->best)) {
        return score.unplaced_count;
    }
    dao_plan_work_t endless = dao_plan_work_unlimited(); /* the work of an assertion is not counted */
    DAO_ASSERT_HEAVY(dao_plan_layout_check(&quick->instance, layout, false, &endless) != DAO_ERR_INVALID);
    (void)endless;
    quick->has_best = true;
    quick->best = score;
    for (uint32_t i = 0; i < instance->item_count; i++) {
        quick->offsets[instance->items[i].source] = layout->offsets[i];
    }
    return score.unplaced_count;
}

/* One pass. `counts_misses`: of what found no place. */
static dao_status_t pass(dao_plan_quick_t *quick, const dao_plan_greedy_config_t *config, bool counts_misses,
                         dao_plan_work_t *work)
{
    dao_plan_greedy_t *greedy = NULL;
    bool is_done = false;
    dao_status_t status = dao_plan_greedy_create(&quick->instance, config, work, &greedy);
    while (status == DAO_OK && !is_done) {
        status =
            dao_plan_work_is_cancelled(work) ? cancelled() : dao_plan_greedy_step(greedy, work, &is_done);
    }
    if (status == DAO_OK) {
        const dao_plan_layout_t *layout = dao_plan_greedy_layout(greedy);
        (void)keep_better(quick, layout, work);
        for (uint32_t i = 0; counts_misses && i < quick->instance.item_count; i++) {
            if (layout->offsets[i] == DAO_PLAN_NOWHERE && quick->misses[i] < DAO_PLAN_QUICK_MISSES_MAX) {
                quick->misses[i]++;
            }
        }
    }
    dao_plan_greedy_destroy(greedy);
    return status;
}

/* Drops all in the order of `offsets`; what finds no place then gets a hole, if there is one. */
static dao_status_t drop_once(dao_plan_quick_t *quick, const uint64_t *offsets, dao_plan_work_t *work)
{
    dao_plan_layout_t layout = {0};
    uint64_t unplaced_count = 0;
    bool is_made = dao_plan_layout_init(&layout, &quick->instance, work);
    dao_status_t status = is_made ? dao_plan_drop_items(&quick->instance, offsets, work, &layout)
                                  : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to drop %u buffers",
                                              quick->instance.item_count);
    status = status == DAO_OK && dao_plan_work_is_cancelled(work) ? cancelled() : status;
    if (status == DAO_OK) {
        unplaced_count = keep_better(quick, &layout, work);
    }
    if (unplaced_count > 0 && unplaced_count * quick->instance.item_count <= FILL_LOOKS_MAX) {
        const dao_plan_greedy_config_t filling = {
            .order = DAO_PLAN_ORDER_OFFSET, .offsets = layout.offsets, .placed = layout.offsets};
        status = pass(quick, &filling, false, work);
    }
    dao_plan_layout_finish(&layout, &quick->instance);
    return status;
}

/* Settles many in the order of the offsets that they have. Few that find no place come first the next
   time. */
static dao_status_t settle_many(dao_plan_quick_t *quick, uint64_t *offsets, dao_plan_work_t *work)
{
    dao_status_t status = drop_once(quick, offsets, work);
    for (uint32_t round = 0; round < DROP_ROUND_MAX && status == DAO_OK &&
                             !dao_plan_quick_is_complete(quick) && quick->best.unplaced_count <= FEW_COUNT;
         round++) {
        for (uint32_t i = 0; i < quick->instance.item_count; i++) {
            bool is_placed = quick->offsets[quick->instance.items[i].source] != DAO_PLAN_NOWHERE;
            offsets[i] = is_placed ? offsets[i] : 0;
        }
        status = drop_once(quick, offsets, work);
    }
    return status;
}

/* The lowest place first; then all settle in the order of their offsets, unless the skyline sees them as they
   are. For many that is a drop, whatever `left_out_bytes_max`. */
static dao_status_t try_skyline(dao_plan_quick_t *quick, const dao_plan_skyline_config_t *config,
                                uint64_t left_out_bytes_max, dao_plan_work_t *work)
{
    dao_plan_skyline_t *skyline = NULL;
    bool is_done = false;
    dao_status_t status = dao_plan_skyline_create(&quick->instance, config, work, &skyline);
    while (status == DAO_OK && !is_done) {
        status =
            dao_plan_work_is_cancelled(work) ? cancelled() : dao_plan_skyline_step(skyline, work, &is_done);
    }
    if (status == DAO_OK && dao_plan_instance_is_plain(&quick->instance)) {
        (void)keep_better(quick, dao_plan_skyline_layout(skyline), work);
    } else if (status == DAO_OK && quick->instance.item_count > GREEDY_ITEMS_MAX &&
               dao_plan_drop_is_possible(&quick->instance)) {
        status = settle_many(quick, dao_plan_skyline_layout(skyline)->offsets, work);
    } else if (status == DAO_OK) {
        const dao_plan_greedy_config_t settling = {.order = DAO_PLAN_ORDER_OFFSET,
                                                   .offsets = dao_plan_skyline_layout(skyline)->offsets,
                                                   .left_out_bytes_max = left_out_bytes_max};
        status = pass(quick, &settling, false, work);
    }
    dao_plan_skyline_destroy(skyline);
    return status;
}

dao_status_t dao_plan_quick_try(dao_plan_quick_t *quick, const dao_plan_quick_method_t *method,
                                uint64_t left_out_bytes_max, dao_plan_work_t *work)
{
    DAO_ASSERT(method->order != DAO_PLAN_ORDER_OFFSET);
    uint64_t most_bytes =
        dao_smaller(quick->has_best ? quick->best.unplaced_bytes : UINT64_MAX, left_out_bytes_max);
    if (method->is_skyline) {
        const dao_plan_skyline_config_t config = {.order = method->order};
        return try_skyline(quick, &config, most_bytes, work);
    }
    const dao_plan_greedy_config_t config = {
        .order = method->order, .is_best_fit = method->is_best_fit, .left_out_bytes_max = most_bytes};
    return pass(quick, &config, false, work);
}

/* Items of one rank come in the order of their begins. */
static void rank_items(dao_plan_quick_t *quick)
{
    for (uint32_t i = 0; i < quick->instance.item_count; i++) {
        quick->ranks[i] = DAO_PLAN_QUICK_MISSES_MAX - quick->misses[i];
    }
}

dao_status_t dao_plan_quick_repeat(dao_plan_quick_t *quick, uint32_t count, dao_plan_work_t *work)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(quick->has_best);
    for (uint32_t i = 0; i < quick->instance.item_count; i++) {
        quick->misses[i] = quick->offsets[quick->instance.items[i].source] == DAO_PLAN_NOWHERE ? 1 : 0;
    }
    for (uint32_t i = 0; i < count && status == DAO_OK && !dao_plan_quick_is_complete(quick); i++) {
        rank_items(quick);
        const dao_plan_greedy_config_t config = {
            .order = DAO_PLAN_ORDER_OFFSET, .offsets = quick->ranks, .is_best_fit = true};
        status = pass(quick, &config, true, work);
    }
    return status;
}
