/* SPDX-License-Identifier: Apache-2.0 */
/* From items to sections. */
#include "planning/offsets/search/search_model.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>

/* A twin is looked for among so many items before. */
#define TWIN_REACH 64u

/* ---- units ---- */

static uint64_t common_divisor(uint64_t left, uint64_t right)
{
    while (right != 0) {
        uint64_t rest = left % right;
        left = right;
        right = rest;
    }
    return left;
}

/* What divides all sizes and fixed offsets, and divides or is divided by each alignment: then it divides
   every offset at which an item rests on others. */
static uint64_t find_unit(const dao_plan_instance_t *instance, dao_plan_work_t *work)
{
    uint64_t unit = 0;
    dao_plan_pass_t sizes = {.count = instance->item_count};
    while (dao_plan_pass_next(&sizes, work)) {
        for (size_t i = sizes.begin; i < sizes.end; i++) {
            unit = common_divisor(unit, instance->items[i].size_bytes);
            if (instance->items[i].is_fixed) {
                unit = common_divisor(unit, instance->fixed_offsets[i]);
            }
        }
    }
    dao_plan_pass_t alignments = {.count = instance->item_count};
    while (dao_plan_pass_next(&alignments, work)) {
        for (size_t i = alignments.begin; i < alignments.end; i++) {
            uint64_t alignment = UINT64_C(1) << instance->items[i].alignment_log2;
            if (unit % alignment != 0) {
                unit = common_divisor(unit, alignment);
            }
        }
    }
    return unit == 0 ? 1 : unit;
}

static void fill_size(dao_plan_search_model_t *model, const dao_plan_instance_t *instance, size_t index)
{
    const dao_plan_item_t *item = &instance->items[index];
    uint64_t alignment = UINT64_C(1) << item->alignment_log2;
    bool is_coarse = alignment > model->unit_bytes && alignment % model->unit_bytes == 0;
    model->sizes[index] = (dao_plan_units_t)(item->size_bytes / model->unit_bytes);
    model->alignments[index] = is_coarse ? (dao_plan_units_t)(alignment / model->unit_bytes) : 1;
    model->fixed[index] = item->is_fixed
                              ? (dao_plan_units_t)(instance->fixed_offsets[index] / model->unit_bytes)
                              : DAO_PLAN_UNITS_NOWHERE;
}

static void fill_sizes(dao_plan_search_model_t *model, const dao_plan_instance_t *instance,
                       dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = model->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            fill_size(model, instance, i);
        }
    }
}

/* ---- sections ---- */

/* Each number becomes the sum of all up to it: counts that stand one place late become where each list
   begins. */
static void sum_up(uint32_t *counts, size_t count, dao_plan_work_t *work)
{
    uint32_t sum = 0;
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            sum += counts[i];
            counts[i] = sum;
        }
    }
}

/* Numbers the sections: `sections`, one a time, is 1 first where an item has ended by then. */
static void fill_sections(dao_plan_search_model_t *model, const dao_plan_instance_t *instance,
                          uint32_t *sections, dao_plan_work_t *work)
{
    dao_plan_pass_t ends = {.count = model->item_count};
    while (dao_plan_pass_next(&ends, work)) {
        for (size_t i = ends.begin; i < ends.end; i++) {
            if (instance->items[i].end < instance->time_count) {
                sections[instance->items[i].end] = 1;
            }
        }
    }
    sum_up(sections, instance->time_count, work);
    model->section_count = instance->time_count == 0 ? 0 : sections[instance->time_count - 1] + 1;
    dao_plan_pass_t items = {.count = model->item_count};
    while (dao_plan_pass_next(&items, work)) {
        for (size_t i = items.begin; i < items.end; i++) {
            model->first_sections[i] = sections[instance->items[i].begin];
            model->end_sections[i] = sections[instance->items[i].end - 1] + 1;
        }
    }
}

static uint64_t count_members(const dao_plan_search_model_t *model, dao_plan_work_t *work)
{
    uint64_t count = 0;
    dao_plan_pass_t pass = {.count = model->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            count += model->end_sections[i] - model->first_sections[i];
        }
    }
    return count;
}

/* Counts an item in each of its sections. */
static void count_item(dao_plan_search_model_t *model, uint32_t item, dao_plan_work_t *work)
{
    uint32_t first = model->first_sections[item];
    model->first_items[first + 1]++;
    dao_plan_pass_t pass = {.count = model->end_sections[item] - first};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t s = first + (uint32_t)pass.begin; s < first + pass.end; s++) {
            model->first_members[s + 1]++;
            model->totals[s] += model->sizes[item];
            model->crossings[s] += s > first ? 1 : 0;
        }
    }
}

/* Puts an item behind the members that each of its sections has so far: nexts[s]. */
static void put_member(dao_plan_search_model_t *model, uint32_t item, uint32_t *nexts, dao_plan_work_t *work)
{
    uint32_t first = model->first_sections[item];
    dao_plan_pass_t pass = {.count = model->end_sections[item] - first};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t s = first + (uint32_t)pass.begin; s < first + pass.end; s++) {
            model->members[model->first_members[s] + nexts[s]++] = item;
        }
    }
}

static dao_status_t fill_members(dao_plan_search_model_t *model, dao_plan_work_t *work)
{
    size_t section_count = model->section_count;
    for (uint32_t i = 0; i < model->item_count && !dao_plan_work_is_cancelled(work); i++) {
        count_item(model, i, work);
    }
    sum_up(model->first_items, section_count + 1, work);
    sum_up(model->first_members, section_count + 1, work);
    uint32_t *nexts = dao_plan_memory_alloc(model->memory, section_count, sizeof(*nexts));
    if (nexts == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < model->item_count && !dao_plan_work_is_cancelled(work); i++) {
        put_member(model, i, nexts, work);
    }
    dao_plan_memory_free(model->memory, nexts);
    return DAO_OK;
}

/* ---- twins ---- */

static bool are_twins(const dao_plan_search_model_t *model, uint32_t left, uint32_t right)
{
    return model->first_sections[left] == model->first_sections[right] &&
           model->end_sections[left] == model->end_sections[right] &&
           model->sizes[left] == model->sizes[right] && model->alignments[left] == model->alignments[right] &&
           model->fixed[left] == DAO_PLAN_UNITS_NOWHERE && model->fixed[right] == DAO_PLAN_UNITS_NOWHERE;
}

static void find_twin(dao_plan_search_model_t *model, uint32_t item)
{
    uint32_t first = model->first_items[model->first_sections[item]];
    model->twins[item] = DAO_PLAN_ITEM_NONE;
    model->next_twins[item] = DAO_PLAN_ITEM_NONE;
    first = item - first > TWIN_REACH ? item - TWIN_REACH : first;
    for (uint32_t other = item; other-- > first && model->twins[item] == DAO_PLAN_ITEM_NONE;) {
        if (are_twins(model, item, other)) {
            model->twins[item] = other;
            model->next_twins[other] = item;
        }
    }
}

static void fill_twins(dao_plan_search_model_t *model, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = model->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            find_twin(model, (uint32_t)i);
            work->used++; /* it looks at several */
        }
    }
}

/* ---- all of it ---- */

static dao_status_t check_kind(const dao_plan_instance_t *instance)
{
    if (instance->pieces != NULL || instance->clock_count > 0 || instance->pool_count > 1) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "the exact search knows one pool, and whole lives within the step");
    }
    return DAO_OK;
}

static bool take_items(dao_plan_search_model_t *model)
{
    uint32_t count = model->item_count;
    model->first_sections = dao_plan_memory_alloc(model->memory, count, sizeof(*model->first_sections));
    model->end_sections = dao_plan_memory_alloc(model->memory, count, sizeof(*model->end_sections));
    model->sizes = dao_plan_memory_alloc(model->memory, count, sizeof(*model->sizes));
    model->alignments = dao_plan_memory_alloc(model->memory, count, sizeof(*model->alignments));
    model->fixed = dao_plan_memory_alloc(model->memory, count, sizeof(*model->fixed));
    model->twins = dao_plan_memory_alloc(model->memory, count, sizeof(*model->twins));
    model->next_twins = dao_plan_memory_alloc(model->memory, count, sizeof(*model->next_twins));
    return model->first_sections != NULL && model->end_sections != NULL && model->sizes != NULL &&
           model->alignments != NULL && model->fixed != NULL && model->twins != NULL &&
           model->next_twins != NULL;
}

static bool take_sections(dao_plan_search_model_t *model, uint64_t member_count)
{
    size_t count = (size_t)model->section_count + 1;
    model->first_items = dao_plan_memory_alloc(model->memory, count, sizeof(*model->first_items));
    model->first_members = dao_plan_memory_alloc(model->memory, count, sizeof(*model->first_members));
    model->members = dao_plan_memory_alloc(model->memory, member_count, sizeof(*model->members));
    model->totals = dao_plan_memory_alloc(model->memory, model->section_count, sizeof(*model->totals));
    model->crossings = dao_plan_memory_alloc(model->memory, model->section_count, sizeof(*model->crossings));
    return model->first_items != NULL && model->first_members != NULL && model->members != NULL &&
           model->totals != NULL && model->crossings != NULL;
}

static dao_status_t build(dao_plan_search_model_t *model, const dao_plan_instance_t *instance,
                          dao_plan_work_t *work)
{
    uint32_t *sections = dao_plan_memory_alloc(model->memory, instance->time_count, sizeof(*sections));
    if (sections == NULL || !take_items(model)) {
        dao_plan_memory_free(model->memory, sections);
        return DAO_ERR_NO_HOST_MEMORY;
    }
    fill_sizes(model, instance, work);
    fill_sections(model, instance, sections, work);
    dao_plan_memory_free(model->memory, sections);
    uint64_t member_count = count_members(model, work);
    if (member_count > DAO_PLAN_SEARCH_MEMBER_COUNT_MAX) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%u buffers live together too often for the exact search: %" PRIu64
                         " times, at most %u",
                         model->item_count, member_count, DAO_PLAN_SEARCH_MEMBER_COUNT_MAX);
    }
    if (dao_plan_work_is_cancelled(work)) {
        return DAO_ERR_STOPPED;
    }
    if (!take_sections(model, member_count)) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status = fill_members(model, work);
    if (status == DAO_OK) {
        fill_twins(model, work);
    }
    return status == DAO_OK && dao_plan_work_is_cancelled(work) ? DAO_ERR_STOPPED : status;
}

dao_status_t dao_plan_search_model_init(dao_plan_search_model_t *model, dao_plan_instance_t *instance,
                                        dao_plan_work_t *work)
{
    *model = (dao_plan_search_model_t){.memory = &instance->memory, .item_count = instance->item_count};
    dao_status_t status = check_kind(instance);
    if (status == DAO_OK) {
        model->unit_bytes = find_unit(instance, work);
        status = build(model, instance, work);
    }
    if (status == DAO_ERR_NO_HOST_MEMORY) {
        status =
            dao_error(status, "no host memory to search for offsets of %u buffers", instance->item_count);
    }
    if (status != DAO_OK) {
        dao_plan_search_model_finish(model);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_plan_search_model_is_valid(model));
    return DAO_OK;
}

void dao_plan_search_model_finish(dao_plan_search_model_t *model)
{
    dao_plan_memory_t *memory = model->memory;
    if (memory != NULL) {
        dao_plan_memory_free(memory, model->first_sections);
        dao_plan_memory_free(memory, model->end_sections);
        dao_plan_memory_free(memory, model->sizes);
        dao_plan_memory_free(memory, model->alignments);
        dao_plan_memory_free(memory, model->fixed);
        dao_plan_memory_free(memory, model->twins);
        dao_plan_memory_free(memory, model->next_twins);
        dao_plan_memory_free(memory, model->first_items);
        dao_plan_memory_free(memory, model->first_members);
        dao_plan_memory_free(memory, model->members);
        dao_plan_memory_free(memory, model->totals);
        dao_plan_memory_free(memory, model->crossings);
    }
    *model = (dao_plan_search_model_t){0};
}

static bool item_is_valid(const dao_plan_search_model_t *model, uint32_t item)
{
    uint32_t first = model->first_sections[item], twin = model->twins[item];
    return first < model->end_sections[item] && model->end_sections[item] <= model->section_count &&
           model->first_items[first] <= item && item < model->first_items[first + 1] &&
           model->sizes[item] >= 1 && model->alignments[item] >= 1 &&
           (twin == DAO_PLAN_ITEM_NONE || (twin < item && model->next_twins[twin] == item));
}

bool dao_plan_search_model_is_valid(const dao_plan_search_model_t *model)
{
    bool is_valid = true;
    for (uint32_t i = 0; i < model->item_count && is_valid; i++) {
        is_valid = item_is_valid(model, i);
    }
    for (uint32_t s = 0; s < model->section_count && is_valid; s++) {
        is_valid = model->first_members[s] < model->first_members[s + 1];
        for (uint32_t at = model->first_members[s]; at < model->first_members[s + 1] && is_valid; at++) {
            uint32_t item = model->members[at];
            is_valid = model->first_sections[item] <= s && s < model->end_sections[item] &&
                       (at == model->first_members[s] || model->members[at - 1] < item);
        }
    }
    return is_valid;
}
