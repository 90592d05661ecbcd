/* SPDX-License-Identifier: Apache-2.0 */
/* Times become numbers of beginnings: see the picture in instance.h. Times that lie as close together as
   numbers of operations do are counted, each at a slot of its own. Others are sorted. Both give the same
   numbers. */
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/problem/rows.h"
#include "planning/offsets/support/sort.h"

static void list_times(dao_plan_key_t *keys, const uint64_t *times, uint32_t count, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            keys[i] = (dao_plan_key_t){.key = times[i], .value = (uint32_t)i};
        }
    }
}

/* Numbers the begins, and leaves the different times in `distinct`. Returns their count. */
static uint32_t number_begins(dao_plan_rows_t *rows, const dao_plan_key_t *keys, uint32_t *places,
                              uint64_t *distinct, dao_plan_work_t *work)
{
    uint32_t count = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            if (count == 0 || distinct[count - 1] != keys[i].key) {
                distinct[count++] = keys[i].key;
            }
            rows->begin_times[keys[i].value] = count - 1;
            places[keys[i].value] = (uint32_t)i;
        }
    }
    return count;
}

/* Numbers the ends: how many different begins lie before each. */
static void number_ends(dao_plan_rows_t *rows, const dao_plan_key_t *keys, const uint64_t *distinct,
                        uint32_t distinct_count, dao_plan_work_t *work)
{
    uint32_t before = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            while (before < distinct_count && distinct[before] < keys[i].key) {
                before++;
            }
            rows->end_times[keys[i].value] = before;
        }
    }
}

static dao_status_t no_memory(uint32_t count)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to sort %u times", count);
}

static dao_status_t number_by_sorting(dao_plan_rows_t *rows, dao_plan_memory_t *memory, uint32_t *places,
                                      uint32_t *out_time_count, dao_plan_work_t *work)
{
    uint32_t count = rows->count;
    dao_plan_key_t *keys = dao_plan_memory_alloc(memory, count, sizeof(*keys));
    dao_plan_key_t *scratch = dao_plan_memory_alloc(memory, count, sizeof(*scratch));
    uint64_t *distinct = dao_plan_memory_alloc(memory, count, sizeof(*distinct));
    bool is_complete = keys != NULL && scratch != NULL && distinct != NULL;
    if (is_complete) {
        list_times(keys, rows->begin_times, count, work);
        dao_plan_sort_keys(keys, scratch, count, work);
        dao_plan_pass_fill(places, 0, count * sizeof(*places), work); /* fresh pages come here in a row */
        uint32_t distinct_count = number_begins(rows, keys, places, distinct, work);
        list_times(keys, rows->end_times, count, work);
        dao_plan_sort_keys(keys, scratch, count, work);
        number_ends(rows, keys, distinct, distinct_count, work);
        *out_time_count = distinct_count;
    }
    dao_plan_memory_free(memory, distinct);
    dao_plan_memory_free(memory, scratch);
    dao_plan_memory_free(memory, keys);
    return is_complete ? DAO_OK : no_memory(count);
}

/* ---- by counting ---- */

/* Begins are counted where there are at most so many times for each: the slots take no more memory than
   sorting does. */
#define TIMES_PER_ROW 4u

/* A time from the first begin to the last. */
typedef struct slot {
    uint32_t place; /* how many rows begin here; then the place of the next one of them */
    uint32_t rank;  /* how many different begins lie before */
} slot_t;

typedef struct slots {
    slot_t *slots;
    size_t count;
    uint64_t first_time; /* of slot 0 */
    uint32_t distinct_count;
} slots_t;

/* Finds the first and the last begin. */
static void find_range(const dao_plan_rows_t *rows, uint64_t *out_first, uint64_t *out_last,
                       dao_plan_work_t *work)
{
    uint64_t first = UINT64_MAX, last = 0;
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            uint64_t time = rows->begin_times[i];
            first = time < first ? time : first;
            last = time > last ? time : last;
        }
    }
    *out_first = first;
    *out_last = last;
}

static void count_begins(slots_t *slots, const dao_plan_rows_t *rows, dao_plan_work_t *work)
{
    /* Fresh pages come here in a row: scattered writes would wait for thousands in a stretch. */
    dao_plan_pass_fill(slots->slots, 0, slots->count * sizeof(*slots->slots), work);
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            slots->slots[rows->begin_times[i] - slots->first_time].place++;
        }
    }
}

/* Turns counts into places and ranks. */
static void sum_begins(slots_t *slots, dao_plan_work_t *work)
{
    uint32_t place = 0, rank = 0;
    dao_plan_pass_t pass = {.count = slots->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            slot_t *slot = &slots->slots[i];
            uint32_t begin_count = slot->place;
            *slot = (slot_t){.place = place, .rank = rank};
            place += begin_count;
            rank += begin_count > 0 ? 1 : 0;
        }
    }
    slots->distinct_count = rank;
}

static uint32_t rank_of(const slots_t *slots, uint64_t time)
{
    if (time <= slots->first_time) {
        return 0;
    }
    uint64_t at = time - slots->first_time;
    return at < slots->count ? slots->slots[at].rank : slots->distinct_count;
}

static void number_rows(dao_plan_rows_t *rows, const slots_t *slots, uint32_t *places, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = rows->count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            slot_t *slot = &slots->slots[rows->begin_times[i] - slots->first_time];
            places[i] = slot->place++;
            rows->begin_times[i] = slot->rank;
            rows->end_times[i] = rank_of(slots, rows->end_times[i]);
        }
    }
}

/* ---- one or the other ---- */

dao_status_t dao_plan_number_times(dao_plan_rows_t *rows, dao_plan_memory_t *memory, uint32_t *places,
                                   uint32_t *out_time_count, dao_plan_work_t *work)
{
    uint64_t first_time = 0, last_time = 0;
    find_range(rows, &first_time, &last_time, work);
    bool are_close = rows->count > 0 && last_time - first_time < (uint64_t)TIMES_PER_ROW * rows->count;
    dao_status_t status = DAO_OK;
    if (are_close && !dao_plan_work_is_cancelled(work)) { /* else the range is not that of all */
        slots_t slots = {.count = (size_t)(last_time - first_time) + 1, .first_time = first_time};
        slots.slots = dao_plan_memory_alloc(memory, slots.count, sizeof(*slots.slots));
        if (slots.slots == NULL) {
            return no_memory(rows->count);
        }
        count_begins(&slots, rows, work);
        sum_begins(&slots, work);
        number_rows(rows, &slots, places, work);
        *out_time_count = slots.distinct_count;
        dao_plan_memory_free(memory, slots.slots);
    } else {
        status = number_by_sorting(rows, memory, places, out_time_count, work);
    }
    dao_plan_memory_trim(memory, work);
    return status;
}
