/* From items to sections. */
#include "planning/search_model.h"

#include "base/assert.h"
#include "base/error.h"

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

/* What divides all sizes and fixed offsets, and divides or is divided by each alignment: then it divides every offset at
   which an item rests on others. */
static uint64_t find_unit(const dao_plan_instance_t *instance)
{
    uint64_t unit = 0;
    for (uint32_t i = 0; i < instance->item_count; i++) {
        unit = common_divisor(unit, instance->items[i].size_bytes);
        if (instance->items[i].is_fixed) {
            unit = common_divisor(unit, instance->fixed_offsets[i]);
        }
    }
    for (uint32_t i = 0; i < instance->item_count; i++) {
        uint64_t alignment = UINT64_C(1) << instance->items[i].alignment_log2;
        if (unit % alignment != 0) {
            unit = common_divisor(unit, alignment);
        }
    }
    return unit == 0 ? 1 : unit;
}

static void fill_sizes(dao_plan_search_model_t *model, const dao_plan_instance_t *instance)
{
    for (uint32_t i = 0; i < model->item_count; i++) {
        const dao_plan_item_t *item = &instance->items[i];
        uint64_t alignment = UINT64_C(1) << item->alignment_log2;
        bool is_coarse = alignment > model->unit_bytes && alignment % model->unit_bytes == 0;
        model->sizes[i] = (dao_plan_units_t)(item->size_bytes / model->unit_bytes);
        model->alignments[i] = is_coarse ? (dao_plan_units_t)(alignment / model->unit_bytes) : 1;
        model->fixed[i] = item->is_fixed ? (dao_plan_units_t)(instance->fixed_offsets[i] / model->unit_bytes)
                                         : DAO_PLAN_UNITS_NOWHERE;
    }
}

/* ---- sections ---- */

/* Numbers the sections: `sections`, one a time, is 1 first where an item has ended by then. */
static void fill_sections(dao_plan_search_model_t *model, const dao_plan_instance_t *instance,
                          uint32_t *sections)
{
    for (uint32_t i = 0; i < model->item_count; i++) {
        if (instance->items[i].end < instance->time_count) {
            sections[instance->items[i].end] = 1;
        }
    }
    for (uint32_t time = 1; time < instance->time_count; time++) {
        sections[time] += sections[time - 1];
    }
    model->section_count = instance->time_count == 0 ? 0 : sections[instance->time_count - 1] + 1;
    for (uint32_t i = 0; i < model->item_count; i++) {
        model->first_sections[i] = sections[instance->items[i].begin];
        model->end_sections[i] = sections[instance->items[i].end - 1] + 1;
    }
}

/* Turns counts, which stand one place late, into where each list begins. */
static void sum_up(uint32_t *counts, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        counts[i + 1] += counts[i];
    }
}

static uint64_t count_members(const dao_plan_search_model_t *model)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < model->item_count; i++) {
        count += model->end_sections[i] - model->first_sections[i];
    }
    return count;
}

static dao_status_t fill_members(dao_plan_search_model_t *model)
{
    uint32_t section_count = model->section_count;
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint32_t first = model->first_sections[i];
        model->first_items[first + 1]++;
        for (uint32_t s = first; s < model->end_sections[i]; s++) {
            model->first_members[s + 1]++;
            model->totals[s] += model->sizes[i];
            model->crossings[s] += s > first ? 1 : 0;
        }
    }
    sum_up(model->first_items, section_count);
    sum_up(model->first_members, section_count);
    uint32_t *nexts = dao_plan_take(model->memory, section_count, sizeof(*nexts));
    if (nexts == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < model->item_count; i++) {
        for (uint32_t s = model->first_sections[i]; s < model->end_sections[i]; s++) {
            model->members[model->first_members[s] + nexts[s]++] = i;
        }
    }
    dao_plan_give(model->memory, nexts);
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

static void fill_twins(dao_plan_search_model_t *model)
{
    for (uint32_t i = 0; i < model->item_count; i++) {
        uint32_t first = model->first_items[model->first_sections[i]];
        model->twins[i] = DAO_PLAN_ITEM_NONE;
        model->next_twins[i] = DAO_PLAN_ITEM_NONE;
        first = i - first > TWIN_REACH ? i - TWIN_REACH : first;
        for (uint32_t j = i; j-- > first && model->twins[i] == DAO_PLAN_ITEM_NONE;) {
            if (are_twins(model, i, j)) {
                model->twins[i] = j;
                model->next_twins[j] = i;
            }
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
    model->first_sections = dao_plan_take(model->memory, count, sizeof(*model->first_sections));
    model->end_sections = dao_plan_take(model->memory, count, sizeof(*model->end_sections));
    model->sizes = dao_plan_take(model->memory, count, sizeof(*model->sizes));
    model->alignments = dao_plan_take(model->memory, count, sizeof(*model->alignments));
    model->fixed = dao_plan_take(model->memory, count, sizeof(*model->fixed));
    model->twins = dao_plan_take(model->memory, count, sizeof(*model->twins));
    model->next_twins = dao_plan_take(model->memory, count, sizeof(*model->next_twins));
    return model->first_sections != NULL && model->end_sections != NULL && model->sizes != NULL &&
           model->alignments != NULL && model->fixed != NULL && model->twins != NULL &&
           model->next_twins != NULL;
}

static bool take_sections(dao_plan_search_model_t *model, uint64_t member_count)
{
    size_t count = (size_t)model->section_count + 1;
    model->first_items = dao_plan_take(model->memory, count, sizeof(*model->first_items));
    model->first_members = dao_plan_take(model->memory, count, sizeof(*model->first_members));
    model->members = dao_plan_take(model->memory, member_count, sizeof(*model->members));
    model->totals = dao_plan_take(model->memory, model->section_count, sizeof(*model->totals));
    model->crossings = dao_plan_take(model->memory, model->section_count, sizeof(*model->crossings));
    return model->first_items != NULL && model->first_members != NULL && model->members != NULL &&
           model->totals != NULL && model->crossings != NULL;
}

static dao_status_t build(dao_plan_search_model_t *model, const dao_plan_instance_t *instance)
{
    uint32_t *sections = dao_plan_take(model->memory, instance->time_count, sizeof(*sections));
    if (sections == NULL || !take_items(model)) {
        dao_plan_give(model->memory, sections);
        return DAO_ERR_NO_HOST_MEMORY;
    }
    fill_sizes(model, instance);
    fill_sections(model, instance, sections);
    dao_plan_give(model->memory, sections);
    uint64_t member_count = count_members(model);
    if (member_count > DAO_PLAN_SEARCH_MEMBER_COUNT_MAX) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%u buffers live together too often for the exact search: %" PRIu64
                         " times, at most %u",
                         model->item_count, member_count, DAO_PLAN_SEARCH_MEMBER_COUNT_MAX);
    }
    if (!take_sections(model, member_count)) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_status_t status = fill_members(model);
    if (status == DAO_OK) {
        fill_twins(model);
    }
    return status;
}

dao_status_t dao_plan_search_model_init(dao_plan_search_model_t *model, dao_plan_instance_t *instance)
{
    *model = (dao_plan_search_model_t){
        .memory = &instance->memory, .unit_bytes = find_unit(instance), .item_count = instance->item_count};
    dao_status_t status = check_kind(instance);
    if (status == DAO_OK) {
        status = build(model, instance);
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
        dao_plan_give(memory, model->first_sections);
        dao_plan_give(memory, model->end_sections);
        dao_plan_give(memory, model->sizes);
        dao_plan_give(memory, model->alignments);
        dao_plan_give(memory, model->fixed);
        dao_plan_give(memory, model->twins);
        dao_plan_give(memory, model->next_twins);
        dao_plan_give(memory, model->first_items);
        dao_plan_give(memory, model->first_members);
        dao_plan_give(memory, model->members);
        dao_plan_give(memory, model->totals);
        dao_plan_give(memory, model->crossings);
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
