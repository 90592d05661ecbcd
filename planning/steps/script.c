/* SPDX-License-Identifier: Apache-2.0 */
/* Scripts as data: making one, its tables, its plan.

       entries   in the order in which they are asked for
       order     the indices of those without a key, thread slot 0 first, then 1, ...
       keys      each key with its first entry; key_next leads on to the others in order

   What holds once it is made:

       size_bytes > 0; end is above the entry's index
       entries that have an offset are apart: where two share bytes, they are never alive at the same time
       every entry is either in `order` once or in the chain of its key once */
#include "planning/steps/script.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/random.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

static dao_status_t no_memory(void)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
}

dao_status_t dao_script_create(uint32_t count, dao_script_t **out_script)
{
    dao_script_t *script = dao_host_calloc(1, sizeof(*script));
    if (script == NULL) {
        return no_memory();
    }
    script->entries = dao_host_calloc((size_t)count + 1, sizeof(*script->entries)); /* at least one */
    script->count = count;
    if (script->entries == NULL) {
        dao_script_destroy(script);
        return no_memory();
    }
    *out_script = script;
    return DAO_OK;
}

void dao_script_fill(dao_script_t *script, const dao_lifetimes_t *recording, uint32_t open_end)
{
    DAO_ASSERT(script->count == recording->count);
    for (uint32_t i = 0; i < script->count; i++) {
        const dao_lifetime_t *item = &recording->items[i];
        script->entries[i] =
            (dao_script_entry_t){.size_bytes = item->size_bytes,
                                 .key = item->key,
                                 .offset_bytes = DAO_PLAN_NOWHERE,
                                 .end = item->end != DAO_LIFETIME_OPEN ? item->end : open_end,
                                 .slot = item->slot,
                                 .alignment_shift = item->alignment_shift};
    }
}

void dao_script_destroy(dao_script_t *script)
{
    if (script != NULL) {
        dao_host_free(script->entries);
        dao_host_free(script->order);
        dao_host_free(script->keys);
        dao_host_free(script->key_next);
        dao_host_free(script);
    }
}

/* ---- tables ---- */

/* A power of two that is at least twice a count. */
static uint32_t table_size(uint32_t count)
{
    uint32_t size = 2;
    while (size < 2 * count) {
        size *= 2;
    }
    return size;
}

static void fill_order(dao_script_t *script)
{
    uint32_t next = 0;
    for (uint32_t slot = 0; slot < DAO_LIFETIME_SLOT_COUNT; slot++) {
        script->slot_begin[slot] = next;
        for (uint32_t i = 0; i < script->count; i++) {
            if (script->entries[i].key == 0 && script->entries[i].slot == slot) {
                script->order[next++] = i;
            }
        }
    }
    script->slot_begin[DAO_LIFETIME_SLOT_COUNT] = next;
}

uint32_t dao_script_key_slot(const dao_script_t *script, uint64_t key)
{
    uint32_t slot = (uint32_t)dao_random_mix(key) & script->key_mask;
    while (script->keys[slot].key != 0 && script->keys[slot].key != key) {
        slot = (slot + 1) & script->key_mask;
    }
    return slot;
}

/* From the last entry to the first, so that each chain is in order. */
static void fill_keys(dao_script_t *script)
{
    for (uint32_t i = script->count; i-- > 0;) {
        script->key_next[i] = DAO_SCRIPT_NONE;
        if (script->entries[i].key != 0) {
            dao_script_key_t *slot = &script->keys[dao_script_key_slot(script, script->entries[i].key)];
            script->key_next[i] = slot->key != 0 ? slot->first : DAO_SCRIPT_NONE;
            *slot = (dao_script_key_t){.key = script->entries[i].key, .first = i};
        }
    }
}

dao_status_t dao_script_index(dao_script_t *script)
{
    uint32_t keyed_count = 0;
    for (uint32_t i = 0; i < script->count; i++) {
        keyed_count += script->entries[i].key != 0;
    }
    size_t room = (size_t)script->count + 1; /* at least one */
    script->key_mask = table_size(keyed_count) - 1;
    script->order = dao_host_calloc(room, sizeof(*script->order));
    script->keys = dao_host_calloc((size_t)script->key_mask + 1, sizeof(*script->keys));
    script->key_next = dao_host_calloc(room, sizeof(*script->key_next));
    if (script->order == NULL || script->keys == NULL || script->key_next == NULL) {
        return no_memory();
    }
    fill_order(script);
    fill_keys(script);
    return DAO_OK;
}

/* ---- the plan ---- */

/* What a planner is asked, and the offsets that are there. Buffers stand in the order of their entries. */
typedef struct question {
    dao_plan_problem_t problem;
    dao_plan_buffer_t *buffers;
    uint64_t *offsets;
} question_t;

static void question_finish(question_t *question)
{
    dao_host_free(question->buffers);
    dao_host_free(question->offsets);
}

/* Returns true if an entry can have a place: somebody saw its end. */
static bool can_be_placed(const dao_script_entry_t *entry)
{
    return entry->end != DAO_LIFETIME_OPEN &&
           entry->size_bytes <= DAO_PLAN_SIZE_MAX - DAO_LIFETIME_UNIT_BYTES;
}

static dao_status_t question_init(question_t *question, const dao_script_t *script)
{
    size_t room = (size_t)script->count + 1; /* at least one */
    *question = (question_t){.buffers = dao_host_calloc(room, sizeof(*question->buffers)),
                             .offsets = dao_host_calloc(room, sizeof(*question->offsets))};
    if (question->buffers == NULL || question->offsets == NULL) {
        question_finish(question);
        return no_memory();
    }
    question->problem = (dao_plan_problem_t){
        .buffers = question->buffers, .period = script->count, .alignment_bytes = DAO_LIFETIME_UNIT_BYTES};
    return DAO_OK;
}

static void question_add(question_t *question, const dao_script_t *script, uint32_t index)
{
    const dao_script_entry_t *entry = &script->entries[index];
    size_t buffer = question->problem.buffer_count++;
    /* What lives longer than a whole step has its place for itself, and finds it in use every other time. */
    uint64_t last = (uint64_t)index + script->count;
    uint32_t alignment_bytes = UINT32_C(1) << entry->alignment_shift;
    question->offsets[buffer] = entry->offset_bytes;
    question->buffers[buffer] = (dao_plan_buffer_t){
        .begin_time = index,
        .end_time = entry->end < last ? entry->end : last,
        .size_bytes = dao_lifetime_units(entry->size_bytes) * DAO_LIFETIME_UNIT_BYTES,
        .fixed_offset = DAO_PLAN_NOWHERE,
        .alignment_bytes =
            alignment_bytes > DAO_LIFETIME_UNIT_BYTES ? alignment_bytes : DAO_LIFETIME_UNIT_BYTES,
        .pool = DAO_PLAN_ANY_POOL,
    };
}

/* Sets what follows from a plan. */
static void set_figures(dao_script_t *script, const dao_plan_t *plan)
{
    dao_plan_report_t report;
    DAO_MUST(dao_plan_report_get(plan, &report)); /* there is a plan */
    script->arena_bytes = dao_round_up(report.peak_bytes, DAO_LIFETIME_UNIT_BYTES);
    script->bound_bytes = report.bound_bytes;
}

/* Asks about all entries that are to have a place. */
static dao_status_t question_ask(question_t *question, const dao_script_t *script, uint32_t margin)
{
    dao_status_t status = question_init(question, script);
    if (status != DAO_OK) {
        return status;
    }
    question->problem.margin = margin;
    for (uint32_t i = 0; i < script->count; i++) {
        if (can_be_placed(&script->entries[i])) {
            question_add(question, script, i);
        }
    }
    return DAO_OK;
}

dao_status_t dao_script_planner(const dao_script_t *script, uint32_t margin,
                                const dao_planner_config_t *config, dao_planner_t **out_planner)
{
    question_t question;
    dao_status_t status = question_ask(&question, script, margin);
    if (status == DAO_OK) {
        status = dao_planner_create(&question.problem, config, out_planner);
        question_finish(&question);
    }
    return status;
}

dao_status_t dao_script_bins(const dao_script_t *script, uint32_t margin, dao_bin_plan_t *out_plan)
{
    question_t question;
    dao_status_t status = question_ask(&question, script, margin);
    if (status == DAO_OK) {
        status = dao_bin_plan_init(out_plan, &question.problem, DAO_BIN_ORDER_BEGIN);
        question_finish(&question);
    }
    return status;
}

dao_status_t dao_script_place(dao_script_t *script, dao_planner_t *planner)
{
    dao_plan_t *plan;
    dao_status_t status = dao_planner_best(planner, &plan);
    if (status != DAO_OK) {
        return status;
    }
    size_t buffer = 0;
    for (uint32_t i = 0; i < script->count; i++) {
        if (can_be_placed(&script->entries[i])) {
            script->entries[i].offset_bytes = dao_plan_offset(plan, buffer++);
        }
    }
    DAO_ASSERT(buffer == dao_plan_count(plan)); /* the planner is the script's own */
    set_figures(script, plan);
    dao_plan_release(plan);
    DAO_ASSERT_HEAVY(dao_script_is_valid(script));
    return DAO_OK;
}

dao_status_t dao_script_adopt(dao_script_t *script)
{
    question_t question;
    dao_status_t status = question_init(&question, script);
    if (status != DAO_OK) {
        return status;
    }
    for (uint32_t i = 0; i < script->count && status == DAO_OK; i++) {
        if (dao_script_is_placed(&script->entries[i])) {
            if (!can_be_placed(&script->entries[i])) {
                status = dao_error(DAO_ERR_INVALID, "entry %u has an offset, but no end", i);
            } else {
                question_add(&question, script, i);
            }
        }
    }
    dao_plan_t *plan = NULL;
    if (status == DAO_OK) {
        status = dao_plan_create(&question.problem, question.offsets, NULL, &plan);
    }
    if (status == DAO_OK) {
        set_figures(script, plan);
        dao_plan_release(plan);
    }
    question_finish(&question);
    return status;
}

/* ---- the check ---- */

static bool entry_is_valid(const dao_script_t *script, uint32_t index)
{
    const dao_script_entry_t *entry = &script->entries[index];
    bool is_open = entry->end == DAO_LIFETIME_OPEN;
    uint64_t size_bytes = dao_lifetime_units(entry->size_bytes) * DAO_LIFETIME_UNIT_BYTES;
    bool is_in_arena = size_bytes <= script->arena_bytes &&
                       entry->offset_bytes <= script->arena_bytes - size_bytes &&
                       entry->offset_bytes % (UINT64_C(1) << entry->alignment_shift) == 0;
    return entry->size_bytes > 0 && (is_open || entry->end > index) &&
           entry->slot < DAO_LIFETIME_SLOT_COUNT &&
           (!dao_script_is_placed(entry) || (!is_open && is_in_arena));
}

/* Every entry is in `order` or in a chain, once. */
static bool tables_are_valid(const dao_script_t *script)
{
    uint32_t found_count = script->slot_begin[DAO_LIFETIME_SLOT_COUNT];
    for (uint32_t place = 0; place < found_count; place++) {
        if (script->order[place] >= script->count || script->entries[script->order[place]].key != 0) {
            return false;
        }
    }
    for (uint32_t slot = 0; slot <= script->key_mask; slot++) {
        uint32_t i = script->keys[slot].key != 0 ? script->keys[slot].first : DAO_SCRIPT_NONE;
        for (; i != DAO_SCRIPT_NONE; i = script->key_next[i]) {
            found_count++;
            if (i >= script->count || script->entries[i].key != script->keys[slot].key ||
                (script->key_next[i] != DAO_SCRIPT_NONE && script->key_next[i] <= i)) {
                return false;
            }
        }
    }
    return found_count == script->count;
}

bool dao_script_is_valid(const dao_script_t *script)
{
    question_t question;
    for (uint32_t i = 0; i < script->count; i++) {
        if (!entry_is_valid(script, i)) {
            return false;
        }
    }
    if (!tables_are_valid(script)) {
        return false;
    }
    if (question_init(&question, script) != DAO_OK) {
        return true;
    }
    for (uint32_t i = 0; i < script->count; i++) {
        if (dao_script_is_placed(&script->entries[i])) {
            question_add(&question, script, i);
        }
    }
    dao_status_t status = dao_plan_check(&question.problem, question.offsets, NULL);
    bool is_plan = status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY;
    question_finish(&question);
    return is_plan;
}
