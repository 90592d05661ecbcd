/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/recompute/published/recompute_sets.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"

#include <stdlib.h>
#include <string.h>

enum { PREFIX_COUNT = 64, BUDGET_COUNT = 32, QUANTUM_COUNT = 10000 };

uint32_t dao_recompute_sets_turn(const dao_swap_step_t *step)
{
    uint32_t turn = 0;
    for (uint32_t k = 1; k < step->kernel_count; k++) {
        turn = step->live_bytes[k] > step->live_bytes[turn] ? k : turn;
    }
    return turn;
}

/* The least time a byte first; of equal ones those of a kind side by side. */
static int compare_items(const void *a, const void *b)
{
    const dao_recompute_item_t *left = a;
    const dao_recompute_item_t *right = b;
    double first = (double)left->time_ns * (double)right->size_bytes;
    double second = (double)right->time_ns * (double)left->size_bytes;
    if (first != second) {
        return first < second ? -1 : 1;
    }
    if (left->size_bytes != right->size_bytes) {
        return left->size_bytes < right->size_bytes ? -1 : 1;
    }
    return left->access < right->access ? -1 : left->access > right->access;
}

dao_status_t dao_recompute_sets_init(dao_recompute_sets_t *sets, const dao_recompute_contents_t *contents,
                                     const dao_recompute_play_t *play)
{
    const dao_swap_step_t *step = contents->step;
    size_t accesses = (size_t)step->access_count + 1;
    *sets = (dao_recompute_sets_t){.contents = contents,
                                   .turn = dao_recompute_sets_turn(step),
                                   .items = dao_host_calloc(accesses, sizeof(*sets->items)),
                                   .is_given_up = dao_host_calloc(accesses, sizeof(*sets->is_given_up))};
    if (sets->items == NULL || sets->is_given_up == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the contents of a step");
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (one->kernel < sets->turn && one->next > i && step->accesses[one->next].kernel >= sets->turn &&
            dao_recompute_play_may_give_up(play, i)) {
            uint32_t kernel = step->accesses[one->writer].kernel;
            sets->items[sets->item_count++] =
                (dao_recompute_item_t){.access = i,
                                       .size_bytes = step->size_bytes[one->tensor],
                                       .time_ns = step->problem->kernels[kernel].time_ns};
        }
    }
    qsort(sets->items, sets->item_count, sizeof(*sets->items), compare_items);
    return DAO_OK;
}

void dao_recompute_sets_finish(dao_recompute_sets_t *sets)
{
    dao_host_free(sets->items);
    dao_host_free(sets->is_taken);
    dao_host_free(sets->is_given_up);
    *sets = (dao_recompute_sets_t){.items = NULL};
}

/* ---- knapsack ---- */

/* A quantum is a part of all items' bytes. */
static void count_quanta(dao_recompute_sets_t *sets)
{
    double sum_bytes = 0;
    for (uint32_t i = 0; i < sets->item_count; i++) {
        sum_bytes += (double)sets->items[i].size_bytes;
    }
    for (uint32_t i = 0; i < sets->item_count; i++) {
        sets->items[i].quanta = (uint32_t)((double)sets->items[i].size_bytes * QUANTUM_COUNT / sum_bytes);
    }
}

dao_status_t dao_recompute_sets_fill_knapsack(dao_recompute_sets_t *sets)
{
    size_t row = QUANTUM_COUNT + 1;
    uint64_t *best_ns = dao_host_calloc(row, sizeof(*best_ns)); /* that stays, by budget */
    sets->is_taken = dao_host_calloc(row * ((size_t)sets->item_count + 1), sizeof(*sets->is_taken));
    if (best_ns == NULL || sets->is_taken == NULL) {
        dao_host_free(best_ns);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a knapsack of %u contents",
                         sets->item_count);
    }
    count_quanta(sets);
    for (uint32_t i = 0; i < sets->item_count; i++) {
        uint32_t quanta = sets->items[i].quanta;
        for (uint32_t budget = QUANTUM_COUNT; budget >= quanta && budget > 0; budget--) {
            uint64_t with_ns = best_ns[budget - quanta] + sets->items[i].time_ns;
            if (with_ns > best_ns[budget]) {
                best_ns[budget] = with_ns;
                sets->is_taken[i * row + budget] = true;
            }
        }
    }
    dao_host_free(best_ns);
    return DAO_OK;
}

/* All but what stays within a budget. */
static void choose_knapsack(dao_recompute_sets_t *sets, uint32_t budget)
{
    for (uint32_t i = sets->item_count; i-- > 0;) {
        bool stays = sets->is_taken[i * (size_t)(QUANTUM_COUNT + 1) + budget];
        sets->is_given_up[sets->items[i].access] = !stays;
        budget -= stays ? sets->items[i].quanta : 0;
    }
}

/* ---- the others ---- */

/* The first so many of the items, and those of the same kind as the last one. */
static void choose_prefix(dao_recompute_sets_t *sets, uint32_t count, bool whole_kinds)
{
    const dao_recompute_item_t *items = sets->items;
    while (whole_kinds && count > 0 && count < sets->item_count &&
           items[count].size_bytes == items[count - 1].size_bytes &&
           items[count].time_ns == items[count - 1].time_ns) {
        count++;
    }
    for (uint32_t i = 0; i < count; i++) {
        sets->is_given_up[items[i].access] = true;
    }
}

static uint32_t segment_of(const dao_recompute_sets_t *sets, uint32_t kernel, uint32_t segment_count)
{
    return (uint32_t)((uint64_t)kernel * segment_count / (sets->turn + 1));
}

/* What no other segment reads before the turn. */
static void choose_segments(dao_recompute_sets_t *sets, uint32_t segment_count)
{
    const dao_swap_step_t *step = sets->contents->step;
    for (uint32_t i = 0; i < sets->item_count; i++) {
        uint32_t last = sets->items[i].access, writer = step->accesses[last].writer;
        sets->is_given_up[last] = segment_of(sets, step->accesses[writer].kernel, segment_count) ==
                                  segment_of(sets, step->accesses[last].kernel, segment_count);
    }
}

uint32_t dao_recompute_sets_count(const dao_recompute_sets_t *sets, dao_recompute_baseline_t baseline)
{
    uint32_t segment_count = 0;
    switch (baseline) {
    case DAO_RECOMPUTE_BASELINE_SQRT:
        while (segment_count * segment_count < 4 * sets->turn) { /* twice the root */
            segment_count++;
        }
        return segment_count;
    case DAO_RECOMPUTE_BASELINE_KNAPSACK:
        return BUDGET_COUNT;
    default:
        return PREFIX_COUNT;
    }
}

void dao_recompute_sets_choose(dao_recompute_sets_t *sets, dao_recompute_baseline_t baseline, uint32_t index)
{
    memset(sets->is_given_up, 0, sets->contents->step->access_count * sizeof(*sets->is_given_up));
    switch (baseline) {
    case DAO_RECOMPUTE_BASELINE_SQRT:
        choose_segments(sets, index + 1);
        break;
    case DAO_RECOMPUTE_BASELINE_KNAPSACK:
        choose_knapsack(sets, index * QUANTUM_COUNT / (BUDGET_COUNT - 1));
        break;
    default:
        choose_prefix(sets, (uint32_t)((uint64_t)sets->item_count * index / (PREFIX_COUNT - 1)),
                      baseline == DAO_RECOMPUTE_BASELINE_SELECTIVE);
        break;
    }
}
