/* SPDX-License-Identifier: Apache-2.0 */
/* Checks a layout by a sweep over time. The pieces that are alive are bits in a tree of words, in the order
   of pool and offset:

       word     0                    1
       bit      0 1 2 3 ... 63       64 ...         bit i: the i-th lowest piece is alive
       above    bit 0: word 0 is not empty          and so on

   The pieces that are alive do not overlap, so it is enough to compare a piece that begins with its two
   neighbours. With clocks, pieces may share bytes though their times overlap. Then it is compared with all
   that are alive. */
#include "planning/offsets/check.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/problem/problem.h"
#include "planning/offsets/support/sort.h"

#include <inttypes.h>

#define WORD_BITS  64u
#define LEVELS_MAX 6u
#define NONE       UINT32_MAX

typedef struct bits {
    uint64_t *levels[LEVELS_MAX];
    uint32_t level_count;
} bits_t;

typedef struct piece_sweep {
    dao_plan_instance_t *instance;
    const dao_plan_layout_t *layout;
    dao_plan_work_t *work;
    bool is_fixed_alone;
    dao_plan_key_t *keys; /* placed pieces by pool and lowest byte */
    dao_plan_key_t *scratch;
    uint32_t *ranks; /* of each piece in that order */
    uint32_t *ends;  /* pieces by their ends */
    bits_t alive;
    uint32_t count; /* pieces that are looked at */
} piece_sweep_t;

/* ---- bits ---- */

static bool bits_init(bits_t *bits, dao_plan_memory_t *memory, uint32_t count)
{
    *bits = (bits_t){0};
    uint32_t words = count;
    do {
        words = words / WORD_BITS + 1;
        bits->levels[bits->level_count] = dao_plan_memory_alloc(memory, words, sizeof(uint64_t));
        if (bits->levels[bits->level_count++] == NULL) {
            return false;
        }
    } while (words > 1);
    return true;
}

static void bits_finish(bits_t *bits, dao_plan_memory_t *memory)
{
    for (uint32_t i = 0; i < bits->level_count; i++) {
        dao_plan_memory_free(memory, bits->levels[i]);
    }
}

static void bits_set(bits_t *bits, uint32_t at)
{
    for (uint32_t i = 0; i < bits->level_count; i++, at /= WORD_BITS) {
        bits->levels[i][at / WORD_BITS] |= UINT64_C(1) << at % WORD_BITS;
    }
}

static void bits_clear(bits_t *bits, uint32_t at)
{
    for (uint32_t i = 0; i < bits->level_count; i++, at /= WORD_BITS) {
        bits->levels[i][at / WORD_BITS] &= ~(UINT64_C(1) << at % WORD_BITS);
        if (bits->levels[i][at / WORD_BITS] != 0) {
            return;
        }
    }
}

/* The next bit above, or NONE. */
static uint32_t bits_above(const bits_t *bits, uint32_t at)
{
    for (uint32_t i = 0; i < bits->level_count; i++, at /= WORD_BITS) {
        uint64_t above =
            at % WORD_BITS == WORD_BITS - 1 ? 0 : bits->levels[i][at / WORD_BITS] >> (at % WORD_BITS + 1);
        if (above != 0) {
            at += 1 + (uint32_t)__builtin_ctzll(above);
            while (i-- > 0) {
                at = at * WORD_BITS + (uint32_t)__builtin_ctzll(bits->levels[i][at]);
            }
            return at;
        }
    }
    return NONE;
}

/* The next bit below, or NONE. */
static uint32_t bits_below(const bits_t *bits, uint32_t at)
{
    for (uint32_t i = 0; i < bits->level_count; i++, at /= WORD_BITS) {
        uint64_t below = bits->levels[i][at / WORD_BITS] & ((UINT64_C(1) << at % WORD_BITS) - 1);
        if (below != 0) {
            at = at / WORD_BITS * WORD_BITS + WORD_BITS - 1 - (uint32_t)__builtin_clzll(below);
            while (i-- > 0) {
                at = at * WORD_BITS + WORD_BITS - 1 - (uint32_t)__builtin_clzll(bits->levels[i][at]);
            }
            return at;
        }
    }
    return NONE;
}

/* ---- the sweep ---- */

static bool is_looked_at(const piece_sweep_t *sweep, uint32_t item)
{
    return sweep->layout->offsets[item] != DAO_PLAN_NOWHERE &&
           (!sweep->is_fixed_alone || sweep->instance->items[item].is_fixed);
}

/* Lists the pieces by their ends, or by their lowest bytes. */
static void sort_pieces(piece_sweep_t *sweep, bool is_by_end)
{
    DAO_ASSERT(sweep->layout->offsets != NULL || sweep->instance->piece_count == 0);
    sweep->count = 0;
    dao_plan_pass_t list = {.count = sweep->instance->piece_count};
    while (dao_plan_pass_next(&list, sweep->work)) {
        for (size_t i = list.begin; i < list.end; i++) {
            dao_plan_piece_t piece = dao_plan_instance_piece(sweep->instance, (uint32_t)i);
            if (is_looked_at(sweep, piece.item)) {
                uint64_t low = sweep->layout->offsets[piece.item] + piece.low;
                sweep->keys[sweep->count++] =
                    (dao_plan_key_t){.key = is_by_end ? piece.end : low, .value = (uint32_t)i};
            }
        }
    }
    dao_plan_sort_keys(sweep->keys, sweep->scratch, sweep->count, sweep->work);
}

static void list_ends(piece_sweep_t *sweep)
{
    sort_pieces(sweep, true);
    dao_plan_pass_t fill = {.count = sweep->count};
    while (dao_plan_pass_next(&fill, sweep->work)) {
        for (size_t i = fill.begin; i < fill.end; i++) {
            sweep->ends[i] = sweep->keys[i].value;
        }
    }
}

/* Leaves the pieces in the order of pool and lowest byte: both sorts are stable. */
static void rank_pieces(piece_sweep_t *sweep)
{
    sort_pieces(sweep, false);
    dao_plan_pass_t pools = {.count = sweep->count};
    while (dao_plan_pass_next(&pools, sweep->work)) {
        for (size_t i = pools.begin; i < pools.end; i++) {
            uint32_t item = dao_plan_instance_piece(sweep->instance, sweep->keys[i].value).item;
            sweep->keys[i].key = dao_plan_layout_pool(sweep->layout, item);
        }
    }
    dao_plan_sort_keys(sweep->keys, sweep->scratch, sweep->count, sweep->work);
    dao_plan_pass_t ranks = {.count = sweep->count};
    while (dao_plan_pass_next(&ranks, sweep->work)) {
        for (size_t i = ranks.begin; i < ranks.end; i++) {
            sweep->ranks[sweep->keys[i].value] = (uint32_t)i;
        }
    }
}

/* Returns true if two pieces share bytes, though they must not. */
static bool do_clash(const piece_sweep_t *sweep, uint32_t first, uint32_t second)
{
    dao_plan_piece_t left = dao_plan_instance_piece(sweep->instance, first);
    dao_plan_piece_t right = dao_plan_instance_piece(sweep->instance, second);
    uint64_t left_at = sweep->layout->offsets[left.item], right_at = sweep->layout->offsets[right.item];
    return dao_plan_layout_pool(sweep->layout, left.item) ==
               dao_plan_layout_pool(sweep->layout, right.item) &&
           left_at + left.low < right_at + right.high && right_at + right.low < left_at + left.high &&
           !dao_plan_instance_is_ordered(sweep->instance, left.item, right.item);
}

/* Returns a piece that is alive and clashes with one that begins, or NONE. */
static uint32_t find_clash(const piece_sweep_t *sweep, uint32_t piece)
{
    const bool are_all = sweep->instance->clock_count > 0;
    for (uint32_t at = bits_above(&sweep->alive, sweep->ranks[piece]); at != NONE;
         at = are_all ? bits_above(&sweep->alive, at) : NONE) {
        if (do_clash(sweep, piece, sweep->keys[at].value)) {
            return sweep->keys[at].value;
        }
    }
    for (uint32_t at = bits_below(&sweep->alive, sweep->ranks[piece]); at != NONE;
         at = are_all ? bits_below(&sweep->alive, at) : NONE) {
        if (do_clash(sweep, piece, sweep->keys[at].value)) {
            return sweep->keys[at].value;
        }
    }
    return NONE;
}

static dao_status_t report(const piece_sweep_t *sweep, uint32_t first, uint32_t second)
{
    const dao_plan_instance_t *instance = sweep->instance;
    uint32_t items[2] = {dao_plan_instance_piece(instance, first).item,
                         dao_plan_instance_piece(instance, second).item};
    uint32_t low = instance->items[items[0]].source < instance->items[items[1]].source ? 0 : 1;
    uint32_t left = items[low], right = items[1 - low];
    const uint64_t *offsets = sweep->layout->offsets;
    return dao_error(DAO_ERR_INVALID,
                     "buffers %" PRIu32 " and %" PRIu32 " are alive together and share bytes: at %" PRIu64
                     " and %" PRIu64 ", of %" PRIu64 " and %" PRIu64 " bytes",
                     instance->items[left].source, instance->items[right].source, offsets[left],
                     offsets[right], instance->items[left].size_bytes, instance->items[right].size_bytes);
}

/* Lets a piece begin, after those that have ended by then. Returns one that it clashes with, or NONE. */
static uint32_t begin_piece(piece_sweep_t *sweep, uint32_t index, uint32_t *ended)
{
    const dao_plan_instance_t *instance = sweep->instance;
    dao_plan_piece_t piece = dao_plan_instance_piece(instance, index);
    if (!is_looked_at(sweep, piece.item)) {
        return NONE;
    }
    while (*ended < sweep->count &&
           dao_plan_instance_piece(instance, sweep->ends[*ended]).end <= piece.begin) {
        bits_clear(&sweep->alive, sweep->ranks[sweep->ends[(*ended)++]]);
    }
    DAO_ASSERT(sweep->keys[sweep->ranks[index]].value == index); /* its bit is its rank */
    uint32_t clash = find_clash(sweep, index);
    bits_set(&sweep->alive, sweep->ranks[index]);
    return clash;
}

static dao_status_t sweep_pieces(piece_sweep_t *sweep)
{
    uint32_t ended = 0;
    dao_plan_pass_t pass = {.count = sweep->instance->piece_count};
    while (dao_plan_pass_next(&pass, sweep->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint32_t clash = begin_piece(sweep, (uint32_t)i, &ended);
            if (clash != NONE) {
                return report(sweep, (uint32_t)i, clash);
            }
        }
    }
    return DAO_OK;
}

dao_status_t dao_plan_layout_check(dao_plan_instance_t *instance, const dao_plan_layout_t *layout,
                                   bool is_fixed_alone, dao_plan_work_t *work)
{
    dao_plan_memory_t *memory = &instance->memory;
    size_t count = instance->piece_count;
    piece_sweep_t sweep = {
        .instance = instance, .layout = layout, .work = work, .is_fixed_alone = is_fixed_alone};
    sweep.keys = dao_plan_memory_alloc(memory, count, sizeof(*sweep.keys));
    sweep.scratch = dao_plan_memory_alloc(memory, count, sizeof(*sweep.scratch));
    sweep.ranks = dao_plan_memory_alloc(memory, count, sizeof(*sweep.ranks));
    sweep.ends = dao_plan_memory_alloc(memory, count, sizeof(*sweep.ends));
    bool is_complete = bits_init(&sweep.alive, memory, instance->piece_count) && sweep.keys != NULL &&
                       sweep.scratch != NULL && sweep.ranks != NULL && sweep.ends != NULL;
    dao_status_t status = DAO_OK;
    if (is_complete) {
        list_ends(&sweep);
        rank_pieces(&sweep);
        status = dao_plan_work_is_cancelled(work) ? DAO_OK : sweep_pieces(&sweep);
    } else {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to check %zu lives", count);
    }
    bits_finish(&sweep.alive, memory);
    dao_plan_memory_free(memory, sweep.ends);
    dao_plan_memory_free(memory, sweep.ranks);
    dao_plan_memory_free(memory, sweep.scratch);
    dao_plan_memory_free(memory, sweep.keys);
    return status;
}

/* ---- the public check ---- */

static dao_status_t check_places(const dao_plan_problem_t *problem, const uint64_t *offsets,
                                 const uint32_t *pools)
{
    uint32_t pool_count = problem->pool_count == 0 ? 1 : problem->pool_count;
    for (size_t i = 0; i < problem->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &problem->buffers[i];
        uint32_t pool = pools == NULL ? 0 : pools[i];
        uint64_t offset = offsets[i];
        if (offset == DAO_PLAN_NOWHERE) {
            continue;
        }
        bool is_fixed = buffer->fixed_offset != DAO_PLAN_NOWHERE;
        uint32_t own_pool = is_fixed && buffer->pool == DAO_PLAN_ANY_POOL ? 0 : buffer->pool;
        if (pool >= pool_count || (own_pool != DAO_PLAN_ANY_POOL && pool != own_pool)) {
            return dao_error(DAO_ERR_INVALID, "buffer %zu is in pool %" PRIu32 ", where it may not be", i,
                             pool);
        }
        if (offset % dao_plan_alignment(problem, i) != 0 || (is_fixed && offset != buffer->fixed_offset)) {
            return dao_error(DAO_ERR_INVALID, "buffer %zu is at %" PRIu64 ", where it may not be", i, offset);
        }
        uint64_t capacity_bytes = dao_plan_capacity(problem, pool);
        capacity_bytes = capacity_bytes < DAO_PLAN_TOTAL_MAX ? capacity_bytes : DAO_PLAN_TOTAL_MAX;
        if (offset > capacity_bytes || buffer->size_bytes > capacity_bytes - offset) {
            return dao_error(DAO_ERR_INVALID,
                             "buffer %zu lies at %" PRIu64 " and has %" PRIu64
                             " bytes, its pool holds %" PRIu64,
                             i, offset, buffer->size_bytes, capacity_bytes);
        }
    }
    return DAO_OK;
}

static void copy_layout(const dao_plan_instance_t *instance, dao_plan_layout_t *layout,
                        const uint64_t *offsets, const uint32_t *pools)
{
    DAO_ASSERT(offsets != NULL || instance->item_count == 0);
    for (uint32_t i = 0; i < instance->item_count; i++) {
        uint32_t source = instance->items[i].source;
        if (offsets[source] != DAO_PLAN_NOWHERE) {
            dao_plan_layout_put(layout, i, offsets[source], pools == NULL ? 0 : pools[source]);
        }
    }
}

dao_status_t dao_plan_layout_make(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                                  const uint64_t *offsets, const uint32_t *pools,
                                  dao_plan_layout_t *out_layout)
{
    if (offsets == NULL && problem->buffer_count > 0) {
        return dao_error(DAO_ERR_INVALID, "a plan's offsets are NULL");
    }
    dao_status_t status = check_places(problem, offsets, pools);
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_layout_t layout = {0};
    dao_plan_work_t work = dao_plan_work_unlimited();
    if (!dao_plan_layout_init(&layout, instance, &work)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %u offsets", instance->item_count);
    }
    copy_layout(instance, &layout, offsets, pools);
    status = dao_plan_layout_check(instance, &layout, false, &work);
    if (status != DAO_OK) {
        dao_plan_layout_finish(&layout, instance);
        return status;
    }
    *out_layout = layout;
    return DAO_OK;
}

dao_status_t dao_plan_check(const dao_plan_problem_t *problem, const uint64_t *offsets, const uint32_t *pools)
{
    if (problem == NULL) {
        return dao_error_null(__func__, "problem");
    }
    dao_plan_instance_t instance;
    dao_plan_layout_t layout = {0};
    dao_status_t status = dao_plan_instance_make(&instance, problem);
    if (status == DAO_OK) {
        status = dao_plan_layout_make(&instance, problem, offsets, pools, &layout);
        dao_plan_layout_finish(&layout, &instance);
        dao_plan_instance_finish(&instance);
    }
    return status;
}
