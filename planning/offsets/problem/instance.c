/* SPDX-License-Identifier: Apache-2.0 */
/* From a problem to items and pieces: rows are cut, their times numbered, and sorted. */
#include "planning/offsets/problem/instance.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/problem/problem.h"
#include "planning/offsets/problem/rows.h"
#include "planning/offsets/support/sort.h"

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

/* What an instance is made of. */
typedef struct instance_builder {
    const dao_plan_problem_t *problem;
    dao_plan_work_t *work;
    dao_plan_rows_t rows;
    uint32_t *places; /* of each row in the order of beginnings */
} instance_builder_t;

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

/* Items come in no order: one is fetched from memory while so many before it are dealt with. */
#define ITEMS_AHEAD 16u

/* Each row is a buffer: items at the places of the rows. */
static void fill_whole_items(dao_plan_instance_t *instance, const instance_builder_t *builder)
{
    const dao_plan_rows_t *rows = &builder->rows;
    /* Fresh pages come here in a row: scattered writes would wait for thousands in a stretch. */
    dao_plan_pass_fill(instance->items, 0, instance->item_count * sizeof(*instance->items), builder->work);
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            if (i + ITEMS_AHEAD < pass.end) {
                __builtin_prefetch(&instance->items[builder->places[i + ITEMS_AHEAD]], 1);
            }
            dao_plan_item_t *item = &instance->items[builder->places[i]];
            *item = item_of(builder->problem, (uint32_t)i);
            item->begin = (uint32_t)rows->begin_times[i];
            item->end = (uint32_t)rows->end_times[i];
        }
    }
}

/* Turns places into the rows at each. */
static void fill_order(uint32_t *order, const instance_builder_t *builder)
{
    /* Fresh pages in a row, as above. */
    dao_plan_pass_fill(order, 0, builder->rows.count * sizeof(*order), builder->work);
    dao_plan_pass_t pass = {.count = builder->rows.count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            order[builder->places[i]] = (uint32_t)i;
        }
    }
}

/* Items in the order in which their first rows come. `item_of_source` gets the number of each buffer's
   item. */
static void fill_cut_items(dao_plan_instance_t *instance, const instance_builder_t *builder,
                           const uint32_t *order, uint32_t *item_of_source)
{
    const dao_plan_rows_t *rows = &builder->rows;
    dao_plan_pass_fill(item_of_source, 0xff, instance->item_count * sizeof(*item_of_source), builder->work);
    uint32_t item_count = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint32_t row = order[i], source = rows->sources[row];
            if (item_of_source[source] == UINT32_MAX) {
                item_of_source[source] = item_count;
                instance->items[item_count] = item_of(builder->problem, source);
                instance->items[item_count].begin = (uint32_t)rows->begin_times[row];
                item_count++;
            }
            dao_plan_item_t *item = &instance->items[item_of_source[source]];
            item->end = rows->end_times[row] > item->end ? (uint32_t)rows->end_times[row] : item->end;
        }
    }
}

/* Pieces in the order of their beginnings, and each item's list of them. */
static void fill_pieces(dao_plan_instance_t *instance, const instance_builder_t *builder,
                        const uint32_t *order, const uint32_t *item_of_source)
{
    const dao_plan_rows_t *rows = &builder->rows;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint32_t row = order[i];
            instance->pieces[i] = (dao_plan_piece_t){.low = rows->lows[row],
                                                     .high = rows->highs[row],
                                                     .begin = (uint32_t)rows->begin_times[row],
                                                     .end = (uint32_t)rows->end_times[row],
                                                     .item = item_of_source[rows->sources[row]]};
        }
    }
}

/* Each item's list of its pieces. `nexts`, one an item, is zero. */
static void list_pieces(dao_plan_instance_t *instance, uint32_t *nexts, dao_plan_work_t *work)
{
    dao_plan_pass_t count = {.count = instance->piece_count};
    while (dao_plan_pass_next(&count, work)) {
        for (size_t i = count.begin; i < count.end; i++) {
            instance->first_pieces[instance->pieces[i].item + 1]++;
        }
    }
    dao_plan_pass_t sum = {.count = instance->item_count};
    while (dao_plan_pass_next(&sum, work)) {
        for (size_t i = sum.begin; i < sum.end; i++) {
            instance->first_pieces[i + 1] += instance->first_pieces[i];
        }
    }
    dao_plan_pass_t fill = {.count = instance->piece_count};
    while (dao_plan_pass_next(&fill, work)) {
        for (size_t i = fill.begin; i < fill.end; i++) {
            uint32_t item = instance->pieces[i].item;
            instance->item_pieces[instance->first_pieces[item] + nexts[item]++] = (uint32_t)i;
        }
    }
}

static dao_status_t build_cut(dao_plan_instance_t *instance, const instance_builder_t *builder)
{
    dao_plan_memory_t *memory = &instance->memory;
    size_t count = instance->item_count, piece_count = instance->piece_count;
    uint32_t *item_of_source = dao_plan_memory_alloc(memory, count, sizeof(*item_of_source));
    uint32_t *nexts = dao_plan_memory_alloc(memory, count, sizeof(*nexts));
    uint32_t *order = dao_plan_memory_alloc(memory, piece_count, sizeof(*order));
    instance->pieces = dao_plan_memory_alloc(memory, piece_count, sizeof(*instance->pieces));
    instance->item_pieces = dao_plan_memory_alloc(memory, piece_count, sizeof(*instance->item_pieces));
    instance->first_pieces = dao_plan_memory_alloc(memory, count + 1, sizeof(*instance->first_pieces));
    bool is_complete = item_of_source != NULL && nexts != NULL && order != NULL && instance->pieces != NULL &&
                       instance->item_pieces != NULL && instance->first_pieces != NULL;
    if (is_complete) {
        fill_order(order, builder);
    }
    if (is_complete && !dao_plan_work_is_cancelled(builder->work)) { /* else it is not the rows' yet */
        fill_cut_items(instance, builder, order, item_of_source);
        fill_pieces(instance, builder, order, item_of_source);
    }
    if (is_complete && !dao_plan_work_is_cancelled(builder->work)) { /* else items are not numbers yet */
        list_pieces(instance, nexts, builder->work);
    }
    dao_plan_memory_free(memory, order);
    dao_plan_memory_free(memory, nexts);
    dao_plan_memory_free(memory, item_of_source);
    return is_complete ? DAO_OK : no_memory(instance->item_count);
}

/* ---- what is rare ---- */

static bool is_any_fixed(const dao_plan_instance_t *instance, dao_plan_work_t *work)
{
    bool is_any = false;
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (!is_any && dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            is_any = is_any || instance->items[i].is_fixed;
        }
    }
    return is_any;
}

static dao_status_t copy_fixed(dao_plan_instance_t *instance, const instance_builder_t *builder)
{
    if (!is_any_fixed(instance, builder->work)) {
        return DAO_OK;
    }
    instance->fixed_offsets =
        dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(uint64_t));
    if (instance->fixed_offsets == NULL) {
        return no_memory(instance->item_count);
    }
    dao_plan_pass_t pass = {.count = instance->item_count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            instance->fixed_offsets[i] = builder->problem->buffers[instance->items[i].source].fixed_offset;
        }
    }
    return DAO_OK;
}

static dao_status_t copy_clocks(dao_plan_instance_t *instance, const instance_builder_t *builder)
{
    const dao_plan_problem_t *problem = builder->problem;
    size_t width = problem->clock_count, count = instance->item_count;
    instance->begin_clocks = dao_plan_memory_alloc(&instance->memory, count * width, sizeof(uint32_t));
    instance->end_clocks = dao_plan_memory_alloc(&instance->memory, count * width, sizeof(uint32_t));
    if (instance->begin_clocks == NULL || instance->end_clocks == NULL) {
        return no_memory(instance->item_count);
    }
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, builder->work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            size_t source = instance->items[i].source;
            memcpy(instance->begin_clocks + i * width, problem->begin_clocks + source * width,
                   width * sizeof(uint32_t));
            memcpy(instance->end_clocks + i * width, problem->end_clocks + source * width,
                   width * sizeof(uint32_t));
        }
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

/* Of clocks that no times tell exactly the bound is that of times that overlap too seldom. Then the rows are
   not those of the items any more. */
static dao_status_t find_bound(dao_plan_instance_t *instance, instance_builder_t *builder)
{
    dao_plan_rows_t *rows = &builder->rows;
    dao_plan_memory_t *memory = &instance->memory;
    uint32_t time_count = instance->time_count;
    dao_status_t status = DAO_OK;
    if (!rows->is_exact) {
        dao_plan_clocks_to_sums(builder->problem, rows->begin_times, rows->end_times, builder->work);
        status = dao_plan_number_times(rows, memory, builder->places, &time_count, builder->work);
    }
    if (status == DAO_OK) {
        status =
            dao_plan_bound(rows, builder->problem, time_count, memory, builder->work, &instance->bound_bytes);
    }
    dao_plan_memory_trim(memory, builder->work);
    return status;
}

static dao_status_t build_items(dao_plan_instance_t *instance, instance_builder_t *builder)
{
    const dao_plan_rows_t *rows = &builder->rows;
    instance->piece_count = rows->count;
    instance->items =
        dao_plan_memory_alloc(&instance->memory, instance->item_count, sizeof(*instance->items));
    if (instance->items == NULL) {
        return no_memory(instance->item_count);
    }
    if (rows->lows != NULL) {
        return build_cut(instance, builder);
    }
    fill_whole_items(instance, builder);
    return DAO_OK;
}

static dao_status_t build(dao_plan_instance_t *instance, instance_builder_t *builder)
{
    dao_plan_memory_t *memory = &instance->memory;
    dao_status_t status = dao_plan_rows_cut(&builder->rows, builder->problem, memory, builder->work);
    if (status != DAO_OK) {
        return status;
    }
    builder->places = dao_plan_memory_alloc(memory, builder->rows.count, sizeof(*builder->places));
    if (builder->places == NULL) {
        return no_memory(instance->item_count);
    }
    status =
        dao_plan_number_times(&builder->rows, memory, builder->places, &instance->time_count, builder->work);
    bool is_exact = builder->rows.is_exact;
    if (status == DAO_OK && is_exact) {
        status = find_bound(instance, builder); /* before the items: what it takes is given back */
    }
    if (status == DAO_OK) {
        status = build_items(instance, builder);
    }
    if (status == DAO_OK) {
        status = copy_fixed(instance, builder);
    }
    if (status == DAO_OK && !is_exact) {
        status = copy_clocks(instance, builder);
    }
    return status == DAO_OK && !is_exact ? find_bound(instance, builder) : status;
}

dao_status_t dao_plan_instance_init(dao_plan_instance_t *instance, const dao_plan_problem_t *problem,
                                    dao_plan_work_t *work)
{
    *instance =
        (dao_plan_instance_t){.memory.is_patient = true, .item_count = (uint32_t)problem->buffer_count};
    instance_builder_t builder = {.problem = problem, .work = work};
    copy_pools(instance, problem);
    dao_status_t status = build(instance, &builder);
    dao_plan_memory_free(&instance->memory, builder.places);
    dao_plan_rows_finish(&builder.rows, &instance->memory);
    dao_plan_memory_trim(&instance->memory, work);
    if (status == DAO_OK && dao_plan_work_is_cancelled(work)) {
        return DAO_ERR_STOPPED; /* freeing it takes long: the caller does that */
    }
    if (status != DAO_OK) {
        dao_plan_instance_finish(instance);
        return status;
    }
    DAO_ASSERT(instance->piece_count >= instance->item_count);
    DAO_ASSERT(instance->time_count <= instance->piece_count); /* each time is the begin of a piece */
    DAO_ASSERT(instance->bound_bytes <= DAO_PLAN_TOTAL_MAX);
    DAO_ASSERT_HEAVY(dao_plan_instance_is_valid(instance));
    return DAO_OK;
}

dao_status_t dao_plan_instance_make(dao_plan_instance_t *instance, const dao_plan_problem_t *problem)
{
    dao_plan_work_t work = dao_plan_work_unlimited();
    *instance = (dao_plan_instance_t){0};
    dao_status_t status = dao_plan_problem_check(problem);
    if (status == DAO_OK) {
        status = dao_plan_instance_init(instance, problem, &work);
        instance->memory.is_patient = false; /* it is not trimmed later */
    }
    return status;
}

void dao_plan_instance_finish(dao_plan_instance_t *instance)
{
    dao_plan_memory_t *memory = &instance->memory;
    dao_plan_memory_free(memory, instance->items);
    dao_plan_memory_free(memory, instance->fixed_offsets);
    dao_plan_memory_free(memory, instance->pieces);
    dao_plan_memory_free(memory, instance->item_pieces);
    dao_plan_memory_free(memory, instance->first_pieces);
    dao_plan_memory_free(memory, instance->begin_clocks);
    dao_plan_memory_free(memory, instance->end_clocks);
    dao_plan_work_t endless = dao_plan_work_unlimited();
    dao_plan_memory_trim(memory, &endless);
    DAO_ASSERT(memory->used_bytes == 0); /* what works on an instance gives its arrays back before */
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
