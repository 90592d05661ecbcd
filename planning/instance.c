/* From a problem to items and pieces: rows are cut, their times numbered, and sorted. */
#include "planning/instance.h"

#include "base/error.h"
#include "base/math.h"
#include "planning/sort.h"

#include <string.h>

static dao_status_t no_memory(uint32_t count)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to plan %u buffers", count);
}

bool dao_plan_instance_is_ordered(const dao_plan_instance_t *instance, uint32_t first, uint32_t second)
{
    uint32_t width = instance->clock_count;
    const uint32_t *begins = instance->begin_clocks, *ends = instance->end_clocks;
    return width > 0 &&
           (dao_plan_clock_is_before(ends + (size_t)first * width, begins + (size_t)second * width, width) ||
            dao_plan_clock_is_before(ends + (size_t)second * width, begins + (size_t)first * width, width));
}

/* ---- items ---- */

static dao_plan_item_t item_of(const dao_plan_problem_t *problem, uint32_t source)
{
    const dao_plan_buffer_t *buffer = &problem->buffers[source];
    bool is_fixed = buffer->fixed_offset != DAO_PLAN_NOWHERE;
    uint16_t pool = buffer->pool == DAO_PLAN_ANY_POOL ? DAO_PLAN_ITEM_ANY_POOL : (uint16_t)buffer->pool;
    if (problem->pool_count <= 1 || (is_fixed && pool == DAO_PLAN_ITEM_ANY_POOL)) {
        pool = 0;
    }
    return (dao_plan_item_t){.size_bytes = buffer->size_bytes,
                             .source = source,
                             .pool = pool,
                             .alignment_log2 = (uint8_t)__builtin_ctzll(dao_plan_alignment(problem, source)),
                             .is_fixed = is_fixed};
}

/* Each row is a buffer: items in the order of the rows' beginnings. */
static void fill_whole_items(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                             const dao_plan_rows_t *rows, const uint32_t *order)
{
    for (uint32_t i = 0; i < instance->item_count; i++) {
        uint32_t row = order[i];
        instance->items[i] = item_of(problem, rows->sources[row]);
        instance->items[i].begin = (uint32_t)rows->begin_times[row];
        instance->items[i].end = (uint32_t)rows->end_times[row];
    }
}

/* Items in the order in which their first rows come. `item_of_source` gets the number of each buffer's item. */
static void fill_cut_items(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                           const dao_plan_rows_t *rows, const uint32_t *order, uint32_t *item_of_source)
{
    memset(item_of_source, 0xff, instance->item_count * sizeof(*item_of_source));
    uint32_t item_count = 0;
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = order[i], source = rows->sources[row];
        if (item_of_source[source] == UINT32_MAX) {
            item_of_source[source] = item_count;
            instance->items[item_count] = item_of(problem, source);
            instance->items[item_count].begin = (uint32_t)rows->begin_times[row];
            item_count++;
        }
        dao_plan_item_t *item = &instance->items[item_of_source[source]];
        item->end = rows->end_times[row] > item->end ? (uint32_t)rows->end_times[row] : item->end;
    }
    DAO_ASSERT(item_count == instance->item_count);
}

/* Pieces in the order of their beginnings, and each item's list of them. */
static void fill_pieces(dao_plan_instance_t *instance, const dao_plan_rows_t *rows, const uint32_t *order,
                        const uint32_t *item_of_source)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        uint32_t row = order[i];
        instance->pieces[i] = (dao_plan_piece_t){.low = rows->lows[row],
                                                 .high = rows->highs[row],
                                                 .begin = (uint32_t)rows->begin_times[row],
                                                 .end = (uint32_t)rows->end_times[row],
                                                 .item = item_of_source[rows->sources[row]]};
        instance->first_pieces[instance->pieces[i].item + 1]++;
    }
    for (uint32_t i = 0; i < instance->item_count; i++) {
        instance->first_pieces[i + 1] += instance->first_pieces[i];
    }
    for (uint32_t i = rows->count;
         i-- > 0;) { /* fills each list from its end; then its number is where it begins */
        uint32_t item = instance->pieces[i].item;
        instance->item_pieces[--instance->first_pieces[item + 1]] = i;
    }
    memmove(instance->first_pieces, instance->first_pieces + 1, instance->item_count * sizeof(uint32_t));
    instance->first_pieces[instance->item_count] = rows->count;
}

static dao_status_t build_cut(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                              const dao_plan_rows_t *rows, const uint32_t *order)
{
    dao_plan_memory_t *memory = &instance->memory;
    uint32_t *item_of_source = dao_plan_take(memory, instance->item_count, sizeof(*item_of_source));
    instance->pieces = dao_plan_take(memory, rows->count, sizeof(*instance->pieces));
    instance->item_pieces = dao_plan_take(memory, rows->count, sizeof(*instance->item_pieces));
    instance->first_pieces =
        dao_plan_take(memory, (size_t)instance->item_count + 1, sizeof(*instance->first_pieces));
    bool is_complete = item_of_source != NULL && instance->pieces != NULL && instance->item_pieces != NULL &&
                       instance->first_pieces != NULL;
    if (is_complete) {
        fill_cut_items(instance, problem, rows, order, item_of_source);
        fill_pieces(instance, rows, order, item_of_source);
    }
    dao_plan_give(memory, item_of_source);
    return is_complete ? DAO_OK : no_memory(instance->item_count);
}

/* ---- what is rare ---- */

static dao_status_t copy_fixed(dao_plan_instance_t *instance, const dao_plan_problem_t *problem)
{
    bool is_any = false;
    for (uint32_t i = 0; i < instance->item_count && !is_any; i++) {
        is_any = instance->items[i].is_fixed;
    }
    if (!is_any) {
        return DAO_OK;
    }
    instance->fixed_offsets = dao_plan_take(&instance->memory, instance->item_count, sizeof(uint64_t));
    if (instance->fixed_offsets == NULL) {
        return no_memory(instance->item_count);
    }
    for (uint32_t i = 0; i < instance->item_count; i++) {
        instance->fixed_offsets[i] = problem->buffers[instance->items[i].source].fixed_offset;
    }
    return DAO_OK;
}

static dao_status_t copy_clocks(dao_plan_instance_t *instance, const dao_plan_problem_t *problem)
{
    size_t width = problem->clock_count, count = instance->item_count;
    instance->begin_clocks = dao_plan_take(&instance->memory, count * width, sizeof(uint32_t));
    instance->end_clocks = dao_plan_take(&instance->memory, count * width, sizeof(uint32_t));
    if (instance->begin_clocks == NULL || instance->end_clocks == NULL) {
        return no_memory(instance->item_count);
    }
    for (size_t i = 0; i < count; i++) {
        size_t source = instance->items[i].source;
        memcpy(instance->begin_clocks + i * width, problem->begin_clocks + source * width,
               width * sizeof(uint32_t));
        memcpy(instance->end_clocks + i * width, problem->end_clocks + source * width,
               width * sizeof(uint32_t));
    }
    instance->clock_count = problem->clock_count;
    return DAO_OK;
}

static void copy_pools(dao_plan_instance_t *instance, const dao_plan_problem_t *problem)
{
    instance->pool_count = problem->pool_count == 0 ? 1 : problem->pool_count;
    for (uint32_t i = 0; i < instance->pool_count; i++) {
        instance->capacities[i] = dao_plan_capacity(problem, i);
        instance->has_capacity = instance->has_capacity || instance->capacities[i] != UINT64_MAX;
    }
}

/* ---- all of it ---- */

/* The bound of clocks that no times tell exactly: of times that overlap too seldom. */
static dao_status_t bound_of_sums(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                                  dao_plan_rows_t *rows, uint32_t *order)
{
    uint32_t time_count = 0;
    dao_plan_clocks_to_sums(problem, rows->begin_times, rows->end_times);
    dao_status_t status = dao_plan_number_times(rows, &instance->memory, order, &time_count);
    return status != DAO_OK
               ? status
               : dao_plan_bound(rows, problem, time_count, &instance->memory, &instance->bound_bytes);
}

static dao_status_t build(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                          dao_plan_rows_t *rows, uint32_t *order)
{
    dao_plan_memory_t *memory = &instance->memory;
    dao_status_t status = dao_plan_number_times(rows, memory, order, &instance->time_count);
    if (status != DAO_OK) {
        return status;
    }
    instance->piece_count = rows->count;
    if (rows->lows == NULL) {
        fill_whole_items(instance, problem, rows, order);
    } else {
        status = build_cut(instance, problem, rows, order);
    }
    if (status == DAO_OK) {
        status = copy_fixed(instance, problem);
    }
    if (status == DAO_OK && !rows->is_exact) {
        status = copy_clocks(instance, problem);
    }
    if (status != DAO_OK) {
        return status;
    }
    return rows->is_exact
               ? dao_plan_bound(rows, problem, instance->time_count, memory, &instance->bound_bytes)
               : bound_of_sums(instance, problem, rows, order);
}

dao_status_t dao_plan_instance_init(dao_plan_instance_t *instance, const dao_plan_problem_t *problem)
{
    *instance = (dao_plan_instance_t){0};
    dao_status_t status = dao_plan_problem_check(problem);
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_memory_t *memory = &instance->memory;
    copy_pools(instance, problem);
    instance->item_count = (uint32_t)problem->buffer_count;
    instance->items = dao_plan_take(memory, instance->item_count, sizeof(*instance->items));
    dao_plan_rows_t rows = {0};
    uint32_t *order = NULL;
    status =
        instance->items == NULL ? no_memory(instance->item_count) : dao_plan_rows_cut(&rows, problem, memory);
    if (status == DAO_OK) {
        order = dao_plan_take(memory, rows.count, sizeof(*order));
        status = order == NULL ? no_memory(rows.count) : build(instance, problem, &rows, order);
    }
    dao_plan_give(memory, order);
    dao_plan_rows_finish(&rows, memory);
    if (status != DAO_OK) {
        dao_plan_instance_finish(instance);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_plan_instance_is_valid(instance));
    return DAO_OK;
}

void dao_plan_instance_finish(dao_plan_instance_t *instance)
{
    dao_plan_memory_t *memory = &instance->memory;
    dao_plan_give(memory, instance->items);
    dao_plan_give(memory, instance->fixed_offsets);
    dao_plan_give(memory, instance->pieces);
    dao_plan_give(memory, instance->item_pieces);
    dao_plan_give(memory, instance->first_pieces);
    dao_plan_give(memory, instance->begin_clocks);
    dao_plan_give(memory, instance->end_clocks);
    *instance = (dao_plan_instance_t){0};
}

static bool pieces_are_valid(const dao_plan_instance_t *instance)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < instance->piece_count && is_valid; i++) {
        dao_plan_piece_t piece = dao_plan_instance_piece(instance, i);
        const dao_plan_item_t *item = &instance->items[piece.item];
        is_valid = piece.begin < piece.end && piece.end <= instance->time_count && piece.low < piece.high &&
                   piece.high <= item->size_bytes && piece.begin >= item->begin && piece.end <= item->end &&
                   (i == 0 || dao_plan_instance_piece(instance, i - 1).begin <= piece.begin);
    }
    return is_valid;
}

bool dao_plan_instance_is_valid(const dao_plan_instance_t *instance)
{
    bool is_valid = pieces_are_valid(instance) && instance->pool_count >= 1;
    uint32_t piece_count = 0;
    for (uint32_t i = 0; i < instance->item_count && is_valid; i++) {
        const dao_plan_item_t *item = &instance->items[i];
        uint32_t own_count = dao_plan_instance_piece_count(instance, i);
        for (uint32_t j = 0; j < own_count && is_valid; j++) {
            uint32_t piece = dao_plan_instance_piece_at(instance, i, j);
            is_valid = dao_plan_instance_piece(instance, piece).item == i;
        }
        piece_count += own_count;
        is_valid = is_valid && own_count > 0 && item->begin < item->end &&
                   (i == 0 || instance->items[i - 1].begin <= item->begin) &&
                   (item->pool < instance->pool_count || item->pool == DAO_PLAN_ITEM_ANY_POOL);
    }
    return is_valid && piece_count == instance->piece_count;
}
