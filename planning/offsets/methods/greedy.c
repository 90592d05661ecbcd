/* SPDX-License-Identifier: Apache-2.0 */
/* Items are taken from a heap in their order: fixed ones first, then those that must lie in one pool, then
   the others.

   A tree (tree.h) holds the ends of the placed pieces, in the order of their begins. It finds the pieces that
   overlap a time one by one. Each of them forbids a span of offsets to the item:

       the item's piece     [low, high)                       its offset x must not be in
       a placed piece       [at + its low, at + its high)     (at + its low - high, at + its high - low)

   Between these spans, sorted, lie the holes. Nothing else is kept: there is no graph of overlaps.

   Where there are few pieces and many of them overlap, a shelf (shelf.h) holds the placed pieces as well.
   Long items without gaps get their offsets from it. The offsets are the same.

   What holds between steps: the first sift_count items of the heap are not sifted yet; items that left the
   heap are placed or left out. */
#include "planning/offsets/methods/greedy.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/support/shelf.h"
#include "planning/offsets/support/sort.h"
#include "planning/offsets/support/tree.h"

#define FIRST_SPAN_COUNT 256u

/* With a shelf, there are at most so many pieces, and one of so many pairs overlaps at least. */
#define SHELF_PIECES_MAX ((uint32_t)1 << 18)
#define SHELF_PAIRS      64u

/* One of so many placed pieces, at least, overlaps an item that is placed by the shelf. */
#define SHELF_OVERLAP 128u

/* So many entries of a shelf are looked at in the time of one piece that is found in the tree. */
#define SHELF_WORK 8u

/* An offset that no pool reaches. */
#define OFFSET_NONE UINT64_MAX

struct dao_plan_greedy {
    dao_plan_instance_t *instance;
    dao_plan_greedy_config_t config;
    dao_plan_layout_t layout;
    dao_plan_tree_t tree;   /* at each placed piece: ~end, so that what ends late is small */
    dao_plan_shelf_t shelf; /* the same pieces; with a capacity of 0 there is none */
    uint32_t mean_overlap;  /* pieces that overlap the begin of one, in the mean */
    uint32_t *first_pieces; /* of each time: the first piece that begins at or after it */
    uint32_t *turns;        /* for DAO_PLAN_ORDER_BREADTH: of each item, the smaller the sooner; else NULL */
    uint32_t *heap;         /* items that are not placed yet */
    uint32_t heap_count;
    uint64_t pool_peaks[DAO_PLAN_POOL_COUNT_MAX];
    uint64_t left_out_bytes; /* of items that found no place */
    uint32_t sift_count;     /* while the heap is made: so many of its first entries are not sifted yet */
    dao_plan_span_t *spans;
    dao_plan_span_t *scratch;
    uint32_t span_count;
    uint32_t span_capacity;
};

static dao_status_t no_memory(const dao_plan_greedy_t *greedy)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to place %u buffers one by one",
                     greedy->instance->item_count);
}

/* ---- the order ---- */

/* The smaller the sooner. */
static unsigned rank_of(const dao_plan_item_t *item)
{
    if (item->is_fixed) {
        return 0;
    }
    return item->pool == DAO_PLAN_ITEM_ANY_POOL ? 2 : 1;
}

static bool is_sooner(const dao_plan_greedy_t *greedy, uint32_t left, uint32_t right)
{
    const dao_plan_item_t *left_item = &greedy->instance->items[left];
    const dao_plan_item_t *right_item = &greedy->instance->items[right];
    if (rank_of(left_item) != rank_of(right_item)) {
        return rank_of(left_item) < rank_of(right_item);
    }
    if (greedy->config.order == DAO_PLAN_ORDER_OFFSET) {
        uint64_t left_offset = greedy->config.offsets[left], right_offset = greedy->config.offsets[right];
        return left_offset < right_offset || (left_offset == right_offset && left < right);
    }
    if (greedy->turns != NULL && greedy->turns[left] != greedy->turns[right]) {
        return greedy->turns[left] < greedy->turns[right];
    }
    double left_value = dao_plan_order_value(greedy->config.order, left_item);
    double right_value = dao_plan_order_value(greedy->config.order, right_item);
    return left_value > right_value || (left_value == right_value && left < right);
}

static void sift_down(dao_plan_greedy_t *greedy, uint32_t at)
{
    uint32_t *heap = greedy->heap;
    uint32_t item = heap[at];
    for (uint32_t child = 2 * at + 1; child < greedy->heap_count; child = 2 * at + 1) {
        child += child + 1 < greedy->heap_count && is_sooner(greedy, heap[child + 1], heap[child]) ? 1 : 0;
        if (!is_sooner(greedy, heap[child], item)) {
            break;
        }
        heap[at] = heap[child];
        at = child;
    }
    heap[at] = item;
}

static void pop(dao_plan_greedy_t *greedy)
{
    greedy->heap[0] = greedy->heap[--greedy->heap_count];
    if (greedy->heap_count > 0) {
        sift_down(greedy, 0);
    }
}

/* ---- holes ---- */

static bool reserve_spans(dao_plan_greedy_t *greedy)
{
    if (greedy->span_count < greedy->span_capacity) {
        return true;
    }
    dao_plan_memory_t *memory = &greedy->instance->memory;
    uint32_t capacity = 2 * greedy->span_capacity + FIRST_SPAN_COUNT;
    dao_plan_span_t *spans = dao_plan_memory_grow(memory, greedy->spans, capacity, sizeof(*spans));
    greedy->spans = spans != NULL ? spans : greedy->spans;
    dao_plan_span_t *scratch =
        spans == NULL ? NULL : dao_plan_memory_grow(memory, greedy->scratch, capacity, sizeof(*scratch));
    greedy->scratch = scratch != NULL ? scratch : greedy->scratch;
    if (scratch == NULL) {
        return false;
    }
    greedy->span_capacity = capacity;
    return true;
}

/* Adds what one placed piece forbids. There is room. */
static void forbid(dao_plan_greedy_t *greedy, const dao_plan_piece_t *piece, const dao_plan_piece_t *placed)
{
    uint64_t at = greedy->layout.offsets[placed->item];
    uint64_t end = at + placed->high;
    if (end <= piece->low) {
        return; /* it lies below every offset that there is */
    }
    DAO_ASSERT(greedy->span_count < greedy->span_capacity);
    uint64_t low = at + placed->low < piece->high ? 0 : at + placed->low - piece->high + 1;
    greedy->spans[greedy->span_count++] = (dao_plan_span_t){.low = low, .high = end - piece->low};
}

/* Lists what the placed pieces in a pool forbid to one piece. */
static dao_status_t forbid_piece(dao_plan_greedy_t *greedy, const dao_plan_piece_t *piece, uint32_t pool,
                                 dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = greedy->instance;
    uint32_t end = greedy->first_pieces[piece->end];
    for (uint32_t i = 0; i < end && !dao_plan_work_is_cancelled(work); i++) {
        i = dao_plan_tree_find(&greedy->tree, i, end, ~piece->begin - 1); /* ends after its begin */
        work->used++;
        if (i == end) {
            break;
        }
        dao_plan_piece_t placed = dao_plan_instance_piece(instance, i);
        if (dao_plan_layout_pool(&greedy->layout, placed.item) != pool ||
            dao_plan_instance_is_ordered(instance, placed.item, piece->item)) {
            continue;
        }
        if (!reserve_spans(greedy)) {
            return no_memory(greedy);
        }
        forbid(greedy, piece, &placed);
    }
    return DAO_OK;
}

static dao_status_t forbid_all(dao_plan_greedy_t *greedy, uint32_t item, uint32_t pool, dao_plan_work_t *work)
{
    greedy->span_count = 0;
    for (uint32_t i = 0; i < dao_plan_instance_piece_count(greedy->instance, item); i++) {
        dao_plan_piece_t piece =
            dao_plan_instance_piece(greedy->instance, dao_plan_instance_piece_at(greedy->instance, item, i));
        dao_status_t status = forbid_piece(greedy, &piece, pool, work);
        if (status != DAO_OK) {
            return status;
        }
    }
    dao_plan_sort_spans(greedy->spans, greedy->scratch, greedy->span_count, work);
    return DAO_OK;
}

/* Chooses an offset that no span forbids: the lowest one, or the lowest one of the smallest hole. */
static uint64_t choose_offset(const dao_plan_greedy_t *greedy, uint64_t alignment_bytes,
                              dao_plan_work_t *work)
{
    uint64_t chosen = OFFSET_NONE, chosen_slack = UINT64_MAX, offset = 0;
    bool is_chosen = false;
    dao_plan_pass_t pass = {.count = greedy->span_count};
    while (!is_chosen && dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end && !is_chosen; i++) {
            const dao_plan_span_t *span = &greedy->spans[i];
            if (offset < span->low && span->low - offset < chosen_slack) {
                chosen = offset;
                chosen_slack = span->low - offset;
                is_chosen = !greedy->config.is_best_fit;
            }
            if (offset < span->high) {
                offset = dao_round_up(span->high, alignment_bytes);
            }
        }
    }
    return chosen == OFFSET_NONE ? offset : chosen; /* above everything, if nothing else */
}

/* ---- placing ---- */

static void put(dao_plan_greedy_t *greedy, uint32_t item, uint64_t offset, uint32_t pool)
{
    uint64_t end = offset + greedy->instance->items[item].size_bytes;
    DAO_ASSERT(greedy->layout.offsets[item] == DAO_PLAN_NOWHERE);
    DAO_ASSERT(end <= greedy->instance->capacities[pool]);
    DAO_ASSERT(offset % (UINT64_C(1) << greedy->instance->items[item].alignment_log2) == 0);
    dao_plan_layout_put(&greedy->layout, item, offset, pool);
    greedy->pool_peaks[pool] = dao_larger(greedy->pool_peaks[pool], end);
    for (uint32_t i = 0; i < dao_plan_instance_piece_count(greedy->instance, item); i++) {
        uint32_t index = dao_plan_instance_piece_at(greedy->instance, item, i);
        dao_plan_piece_t piece = dao_plan_instance_piece(greedy->instance, index);
        dao_plan_tree_set(&greedy->tree, index, ~piece.end);
        if (greedy->shelf.capacity > 0) {
            const dao_plan_shelf_entry_t entry = {offset + piece.low, offset + piece.high, piece.begin,
                                                  piece.end};
            dao_plan_shelf_put(&greedy->shelf, &entry);
        }
    }
}

/* The times of an item that is one piece, or two because its life goes on at the start of the step. False if
   it has gaps. */
static bool is_whole(const dao_plan_instance_t *instance, uint32_t item, dao_plan_shelf_life_t *out_life)
{
    uint32_t count = dao_plan_instance_piece_count(instance, item);
    uint64_t size_bytes = instance->items[item].size_bytes;
    dao_plan_piece_t first = dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, item, 0));
    dao_plan_piece_t last =
        dao_plan_instance_piece(instance, dao_plan_instance_piece_at(instance, item, count - 1));
    *out_life = (dao_plan_shelf_life_t){.begin = first.begin, .end = first.end};
    if (count > 1) { /* else there is no second one, at no time */
        out_life->second_begin = last.begin;
        out_life->second_end = last.end;
    }
    return count <= 2 && first.high - first.low == size_bytes && last.high - last.low == size_bytes;
}

/* Returns true if so many pieces overlap a life that the shelf is quicker than the tree. */
static bool is_long(const dao_plan_greedy_t *greedy, const dao_plan_shelf_life_t *life)
{
    uint32_t begins = greedy->first_pieces[life->end] - greedy->first_pieces[life->begin];
    uint32_t others = greedy->first_pieces[life->second_end] - greedy->first_pieces[life->second_begin];
    return (uint64_t)(begins + others + greedy->mean_overlap) * SHELF_OVERLAP >= greedy->shelf.count;
}

/* Finds an offset in a pool. */
static dao_status_t find_offset(dao_plan_greedy_t *greedy, uint32_t index, uint32_t pool,
                                dao_plan_work_t *work, uint64_t *out_offset)
{
    const dao_plan_item_t *item = &greedy->instance->items[index];
    uint64_t alignment_bytes = (uint64_t)1 << item->alignment_log2;
    dao_plan_shelf_life_t life;
    if (greedy->shelf.capacity > 0 && is_whole(greedy->instance, index, &life) && is_long(greedy, &life)) {
        *out_offset = dao_plan_shelf_find(&greedy->shelf, &life, item->size_bytes, alignment_bytes,
                                          greedy->config.is_best_fit);
        work->used += greedy->shelf.count / SHELF_WORK;
        return DAO_OK;
    }
    dao_status_t status = forbid_all(greedy, index, pool, work);
    if (status == DAO_OK) {
        *out_offset = choose_offset(greedy, alignment_bytes, work);
    }
    return status;
}

/* Returns how much higher a pool becomes; 0 if the first pool that holds an item is to be taken. */
static uint64_t growth_of(const dao_plan_greedy_t *greedy, uint32_t pool, uint64_t end)
{
    uint64_t peak = greedy->pool_peaks[pool];
    return greedy->config.grows_least && end > peak ? end - peak : 0;
}

/* Places an item in the first of its pools that holds it, or in the first of those that grow least; or
   nowhere. */
static dao_status_t place(dao_plan_greedy_t *greedy, uint32_t index, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = greedy->instance;
    const dao_plan_item_t *item = &instance->items[index];
    if (item->is_fixed) {
        put(greedy, index, instance->fixed_offsets[index], item->pool);
        return DAO_OK;
    }
    bool is_any = item->pool == DAO_PLAN_ITEM_ANY_POOL;
    uint32_t pool = is_any ? 0 : item->pool, last_pool = is_any ? instance->pool_count - 1 : item->pool;
    uint32_t chosen_pool = 0;
    uint64_t chosen_offset = 0, least = UINT64_MAX;
    for (; pool <= last_pool && least > 0; pool++) {
        uint64_t offset;
        dao_status_t status = find_offset(greedy, index, pool, work, &offset);
        if (status != DAO_OK || dao_plan_work_is_cancelled(work)) {
            return status;
        }
        uint64_t end = offset + item->size_bytes, growth = growth_of(greedy, pool, end);
        if (end <= instance->capacities[pool] && growth < least) {
            least = growth;
            chosen_pool = pool;
            chosen_offset = offset;
        }
    }
    if (least < UINT64_MAX) {
        put(greedy, index, chosen_offset, chosen_pool);
    } else {
        greedy->left_out_bytes += item->size_bytes;
    }
    return DAO_OK;
}

static bool has_left_out_too_much(const dao_plan_greedy_t *greedy)
{
    return greedy->config.left_out_bytes_max != 0 &&
           greedy->left_out_bytes >= greedy->config.left_out_bytes_max;
}

dao_status_t dao_plan_greedy_step(dao_plan_greedy_t *greedy, dao_plan_work_t *work, bool *out_is_done)
{
    DAO_ASSERT(greedy->sift_count <= greedy->heap_count);
    DAO_ASSERT_HEAVY(dao_plan_tree_is_valid(&greedy->tree));
    while (greedy->sift_count > 0 && dao_plan_work_is_left(work)) {
        sift_down(greedy, --greedy->sift_count);
        work->used++;
    }
    dao_status_t status = DAO_OK;
    while (greedy->heap_count > 0 && status == DAO_OK && dao_plan_work_is_left(work)) {
        status = place(greedy, greedy->heap[0], work);
        work->used++;
        if (status == DAO_OK && !dao_plan_work_is_cancelled(work)) {
            pop(greedy);
        }
        if (has_left_out_too_much(greedy)) {
            greedy->heap_count = 0;
        }
    }
    DAO_ASSERT(greedy->sift_count <= greedy->heap_count);
    DAO_ASSERT_HEAVY(dao_plan_tree_is_valid(&greedy->tree));
    DAO_ASSERT_HEAVY(dao_plan_shelf_is_valid(&greedy->shelf));
    *out_is_done = greedy->heap_count == 0;
    return status;
}

/* ---- breadth ---- */

/* Lists the times, those at which most bytes are alive first. */
static void list_broadest(const dao_plan_instance_t *instance, dao_plan_key_t *times, dao_plan_key_t *scratch,
                          dao_plan_work_t *work)
{
    uint64_t alive = 0;
    dao_plan_pass_t pieces = {.count = instance->piece_count};
    while (dao_plan_pass_next(&pieces, work)) {
        for (uint32_t i = (uint32_t)pieces.begin; i < pieces.end; i++) {
            dao_plan_piece_t piece = dao_plan_instance_piece(instance, i);
            times[piece.begin].key += piece.high - piece.low;
            if (piece.end < instance->time_count) {
                times[piece.end].key -= piece.high - piece.low; /* may wrap; the sums do not */
            }
        }
    }
    dao_plan_pass_t list = {.count = instance->time_count};
    while (dao_plan_pass_next(&list, work)) {
        for (uint32_t time = (uint32_t)list.begin; time < list.end; time++) {
            alive += times[time].key;
            times[time] = (dao_plan_key_t){.key = DAO_PLAN_TOTAL_MAX - alive, .value = time};
        }
    }
    dao_plan_sort_keys(times, scratch, instance->time_count, work);
}

/* Assigns their turn to the pieces that live at a time, and takes them out of the tree. */
static void give_turn(dao_plan_greedy_t *greedy, uint32_t time, uint32_t turn, dao_plan_work_t *work)
{
    uint32_t end = greedy->first_pieces[time + 1];
    uint32_t piece = dao_plan_tree_find(&greedy->tree, 0, end, ~time - 1);
    while (piece < end && !dao_plan_work_is_cancelled(work)) {
        uint32_t item = dao_plan_instance_piece(greedy->instance, piece).item;
        greedy->turns[item] = turn < greedy->turns[item] ? turn : greedy->turns[item];
        dao_plan_tree_set(&greedy->tree, piece, DAO_PLAN_TREE_NONE);
        piece = dao_plan_tree_find(&greedy->tree, piece, end, ~time - 1);
        work->used++;
    }
}

/* Assigns each item the turn of the broadest time that it lives at. The tree lends itself: all pieces are put
   into it, and taken as their items get their turns. */
static void give_turns(dao_plan_greedy_t *greedy, const dao_plan_key_t *times, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = greedy->instance;
    dao_plan_pass_fill(greedy->turns, 0xff, instance->item_count * sizeof(*greedy->turns), work);
    dao_plan_pass_t pieces = {.count = instance->piece_count};
    while (dao_plan_pass_next(&pieces, work)) {
        for (uint32_t i = (uint32_t)pieces.begin; i < pieces.end; i++) {
            greedy->tree.levels[0][i] = ~dao_plan_instance_piece(instance, i).end;
        }
    }
    dao_plan_tree_build(&greedy->tree, work);
    dao_plan_pass_t turns = {.count = instance->time_count};
    while (dao_plan_pass_next(&turns, work)) {
        for (uint32_t turn = (uint32_t)turns.begin; turn < turns.end; turn++) {
            give_turn(greedy, times[turn].value, turn, work);
        }
    }
}

static bool order_by_breadth(dao_plan_greedy_t *greedy, dao_plan_work_t *work)
{
    dao_plan_memory_t *memory = &greedy->instance->memory;
    size_t time_count = greedy->instance->time_count;
    dao_plan_key_t *times = dao_plan_memory_alloc(memory, time_count, sizeof(*times));
    dao_plan_key_t *scratch = dao_plan_memory_alloc(memory, time_count, sizeof(*scratch));
    greedy->turns = dao_plan_memory_alloc(memory, greedy->instance->item_count, sizeof(*greedy->turns));
    bool is_complete = times != NULL && scratch != NULL && greedy->turns != NULL;
    if (is_complete) {
        list_broadest(greedy->instance, times, scratch, work);
        give_turns(greedy, times, work);
    }
    dao_plan_memory_free(memory, scratch);
    dao_plan_memory_free(memory, times);
    return is_complete;
}

/* ---- start and end ---- */

static void fill_first_pieces(dao_plan_greedy_t *greedy, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = greedy->instance;
    uint32_t piece = 0;
    dao_plan_pass_t pass = {.count = (size_t)instance->time_count + 1};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t time = pass.begin; time < pass.end; time++) {
            while (piece < instance->piece_count && dao_plan_instance_piece(instance, piece).begin < time) {
                piece++;
            }
            greedy->first_pieces[time] = piece;
        }
    }
}

/* Counts pairs that overlap, and tells whether a shelf pays. Clocks and pools are the tree's. */
static bool count_overlaps(dao_plan_greedy_t *greedy, dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = greedy->instance;
    uint64_t count = instance->piece_count, pairs = 0;
    if (count > SHELF_PIECES_MAX || instance->pool_count > 1 || instance->clock_count > 0) {
        return false;
    }
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            pairs += greedy->first_pieces[dao_plan_instance_piece(instance, i).end] - i - 1;
        }
    }
    greedy->mean_overlap = (uint32_t)(pairs / (count > 0 ? count : 1));
    return pairs * SHELF_PAIRS >= count * (count - 1) / 2 && count > 0;
}

/* All items wait, fixed ones too; the heap is sifted as part of the work. */
static void fill_heap(dao_plan_greedy_t *greedy, dao_plan_work_t *work)
{
    const uint64_t *placed = greedy->config.placed;
    dao_plan_pass_t pass = {.count = greedy->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            if (placed != NULL && placed[i] != DAO_PLAN_NOWHERE) {
                put(greedy, i, placed[i], 0);
            } else {
                greedy->heap[greedy->heap_count++] = i;
            }
        }
    }
    greedy->sift_count = greedy->heap_count / 2;
}

dao_status_t dao_plan_greedy_create(dao_plan_instance_t *instance, const dao_plan_greedy_config_t *config,
                                    dao_plan_work_t *work, dao_plan_greedy_t **out_greedy)
{
    dao_plan_memory_t *memory = &instance->memory;
    dao_plan_greedy_t *greedy = dao_plan_memory_alloc(memory, 1, sizeof(*greedy));
    if (greedy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to place buffers one by one");
    }
    greedy->instance = instance;
    greedy->config = *config;
    greedy->heap = dao_plan_memory_alloc(memory, instance->item_count, sizeof(*greedy->heap));
    greedy->first_pieces =
        dao_plan_memory_alloc(memory, (size_t)instance->time_count + 1, sizeof(*greedy->first_pieces));
    if (greedy->heap == NULL || greedy->first_pieces == NULL ||
        !dao_plan_layout_init(&greedy->layout, instance, work) ||
        !dao_plan_tree_init(&greedy->tree, memory, instance->piece_count, work)) {
        dao_status_t status = no_memory(greedy);
        dao_plan_greedy_destroy(greedy);
        return status;
    }
    fill_first_pieces(greedy, work);
    bool is_complete =
        !count_overlaps(greedy, work) ||
        dao_plan_shelf_init(&greedy->shelf, memory, instance->piece_count, instance->time_count);
    if (!is_complete || (config->order == DAO_PLAN_ORDER_BREADTH && !order_by_breadth(greedy, work))) {
        dao_status_t status = no_memory(greedy);
        dao_plan_greedy_destroy(greedy);
        return status;
    }
    fill_heap(greedy, work);
    *out_greedy = greedy;
    return DAO_OK;
}

void dao_plan_greedy_destroy(dao_plan_greedy_t *greedy)
{
    if (greedy == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &greedy->instance->memory;
    dao_plan_tree_finish(&greedy->tree, memory);
    dao_plan_shelf_finish(&greedy->shelf, memory);
    dao_plan_layout_finish(&greedy->layout, greedy->instance);
    dao_plan_memory_free(memory, greedy->heap);
    dao_plan_memory_free(memory, greedy->turns);
    dao_plan_memory_free(memory, greedy->first_pieces);
    dao_plan_memory_free(memory, greedy->spans);
    dao_plan_memory_free(memory, greedy->scratch);
    dao_plan_memory_free(memory, greedy);
}

dao_plan_layout_t *dao_plan_greedy_layout(dao_plan_greedy_t *greedy)
{
    return &greedy->layout;
}
