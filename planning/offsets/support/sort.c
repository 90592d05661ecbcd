/* SPDX-License-Identifier: Apache-2.0 */
/* A radix sort for many numbers, a merge sort for the few around one buffer. */
#include "planning/offsets/support/sort.h"

#include "base/report/assert.h"

#define DIGIT_BITS  11u
#define DIGIT_COUNT (1u << DIGIT_BITS)

/* Runs of this length are sorted by insertion before they are merged. */
#define RUN_COUNT 8u

static uint32_t digit_of(uint64_t key, unsigned shift)
{
    return (uint32_t)(key >> shift) & (DIGIT_COUNT - 1);
}

/* Counts the keys of each digit; then turns the counts into where the keys of each digit begin. */
static void find_places(const dao_plan_key_t *keys, size_t count, unsigned shift, uint32_t *places,
                        dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            places[digit_of(keys[i].key, shift)]++;
        }
    }
    uint32_t place = 0;
    for (uint32_t digit = 0; digit < DIGIT_COUNT; digit++) {
        uint32_t of_digit = places[digit];
        places[digit] = place;
        place += of_digit;
    }
}

static void sort_by_digit(const dao_plan_key_t *from, dao_plan_key_t *to, size_t count, unsigned shift,
                          dao_plan_work_t *work)
{
    uint32_t places[DIGIT_COUNT] = {0};
    find_places(from, count, shift, places, work);
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            to[places[digit_of(from[i].key, shift)]++] = from[i];
        }
    }
}

/* The bits in which keys differ. */
static uint64_t differing_bits(const dao_plan_key_t *keys, size_t count, dao_plan_work_t *work)
{
    uint64_t differing = 0;
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            differing |= keys[i].key ^ keys[0].key;
        }
    }
    return differing;
}

static bool are_sorted(const dao_plan_key_t *keys, size_t count)
{
    bool is_sorted = true;
    for (size_t i = 1; i < count && is_sorted; i++) {
        is_sorted = keys[i - 1].key <= keys[i].key;
    }
    return is_sorted;
}

void dao_plan_sort_keys(dao_plan_key_t *keys, dao_plan_key_t *scratch, size_t count, dao_plan_work_t *work)
{
    uint64_t differing = differing_bits(keys, count, work);
    if (differing !=
        0) { /* fresh pages come here in a row: scattered writes would wait for thousands in a stretch */
        dao_plan_pass_fill(scratch, 0, count * sizeof(*scratch), work);
    }
    dao_plan_key_t *from = keys, *to = scratch;
    for (unsigned shift = 0; shift < 64 && differing >> shift != 0; shift += DIGIT_BITS) {
        if (digit_of(differing, shift) != 0) {
            sort_by_digit(from, to, count, shift, work);
            dao_plan_key_t *swapped = from;
            from = to;
            to = swapped;
        }
    }
    if (from != keys) {
        dao_plan_pass_copy(keys, from, count * sizeof(*keys), work);
    }
    DAO_ASSERT_HEAVY(are_sorted(keys, count) || dao_plan_work_is_cancelled(work));
}

static void sort_run(dao_plan_span_t *spans, size_t count)
{
    for (size_t i = 1; i < count; i++) {
        dao_plan_span_t span = spans[i];
        size_t at = i;
        for (; at > 0 && spans[at - 1].low > span.low; at--) {
            spans[at] = spans[at - 1];
        }
        spans[at] = span;
    }
}

/* Merges from[0, middle) and from[middle, count). */
static void merge(const dao_plan_span_t *from, dao_plan_span_t *to, size_t middle, size_t count,
                  dao_plan_work_t *work)
{
    size_t left = 0, right = middle;
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            if (right == count || (left < middle && from[left].low <= from[right].low)) {
                to[i] = from[left++];
            } else {
                to[i] = from[right++];
            }
        }
    }
}

void dao_plan_sort_spans(dao_plan_span_t *spans, dao_plan_span_t *scratch, size_t count,
                         dao_plan_work_t *work)
{
    dao_plan_pass_t runs = {.count = (count + RUN_COUNT - 1) / RUN_COUNT};
    while (dao_plan_pass_next(&runs, work)) {
        for (size_t at = runs.begin * RUN_COUNT; at < count && at < runs.end * RUN_COUNT; at += RUN_COUNT) {
            sort_run(spans + at, count - at < RUN_COUNT ? count - at : RUN_COUNT);
        }
    }
    dao_plan_span_t *from = spans, *to = scratch;
    for (size_t width = RUN_COUNT; width < count && !dao_plan_work_is_cancelled(work); width *= 2) {
        for (size_t at = 0; at < count; at += 2 * width) {
            size_t left = count - at;
            merge(from + at, to + at, left < width ? left : width, left < 2 * width ? left : 2 * width, work);
        }
        dao_plan_span_t *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != spans) {
        dao_plan_pass_copy(spans, from, count * sizeof(*spans), work);
    }
}
