/* SPDX-License-Identifier: Apache-2.0 */
/* Sorting, against a stable insertion. */
#include "planning/offsets/support/sort.h"
#include "tests/support/suite.h"

#include <string.h>

enum { COUNT_MAX = 5000, ROUND_COUNT = 60 };

static dao_plan_key_t keys[COUNT_MAX], sorted[COUNT_MAX], scratch[COUNT_MAX];
static dao_plan_span_t spans[COUNT_MAX], span_scratch[COUNT_MAX];

/* Draws `count` keys whose bits are those of `mask`. */
static void draw_keys(uint32_t count, uint64_t mask, uint64_t *random)
{
    for (uint32_t i = 0; i < count; i++) {
        keys[i] = (dao_plan_key_t){.key = dao_random_next(random) & mask, .value = i};
    }
}

static void sort_slowly(uint32_t count)
{
    memcpy(sorted, keys, count * sizeof(*keys));
    for (uint32_t i = 1; i < count; i++) {
        dao_plan_key_t key = sorted[i];
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1].key > key.key; at--) {
            sorted[at] = sorted[at - 1];
        }
        sorted[at] = key;
    }
}

static void keys_are_sorted_and_equal_ones_keep_their_order(void)
{
    static const uint64_t masks[] = {
        0, 1, 0x7ff, 0x800, UINT64_C(0xfff000), UINT64_C(1) << 63, UINT64_MAX, UINT64_C(0xff000000000000ff)};
    static const uint32_t counts[] = {0, 1, 2, 3, 100, 2047, 2048, 2049};
    uint64_t random = dao_test_seed("keys", 20261122);
    for (size_t m = 0; m < sizeof(masks) / sizeof(masks[0]); m++) {
        for (size_t c = 0; c < sizeof(counts) / sizeof(counts[0]); c++) {
            dao_plan_work_t work = dao_plan_work_unlimited();
            draw_keys(counts[c], masks[m], &random);
            sort_slowly(counts[c]);
            dao_plan_sort_keys(keys, scratch, counts[c], &work);
            for (uint32_t i = 0; i < counts[c]; i++) {
                CU_ASSERT_FATAL(keys[i].key == sorted[i].key && keys[i].value == sorted[i].value);
            }
        }
    }
}

/* Where nothing differs, nothing is moved, whatever lies behind the keys. */
static void equal_keys_need_no_scratch(void)
{
    for (uint32_t count = 0; count < 3; count++) {
        dao_plan_work_t work = dao_plan_work_unlimited();
        memset(scratch, 0xa5, sizeof(scratch[0]));
        for (uint32_t i = 0; i < 3; i++) {
            keys[i] = (dao_plan_key_t){.key = i < count ? 7 : 1, .value = i};
        }
        dao_plan_sort_keys(keys, scratch, count, &work);
        CU_ASSERT_EQUAL(((const unsigned char *)scratch)[0], 0xa5);
        for (uint32_t i = 0; i < 3; i++) {
            CU_ASSERT(keys[i].key == (i < count ? 7u : 1u) && keys[i].value == i);
        }
    }
}

static void spans_are_sorted_by_where_they_begin(void)
{
    uint64_t random = dao_test_seed("spans", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        uint32_t count = (uint32_t)(dao_random_next(&random) % COUNT_MAX);
        uint64_t range = UINT64_C(1) << dao_random_next(&random) % 60, sum = 0;
        dao_plan_work_t work = dao_plan_work_unlimited();
        for (uint32_t i = 0; i < count; i++) {
            spans[i].low = dao_random_next(&random) % range;
            spans[i].high = spans[i].low + 1;
            sum += spans[i].low;
        }
        dao_plan_sort_spans(spans, span_scratch, count, &work);
        for (uint32_t i = 0; i < count; i++) {
            CU_ASSERT_FATAL(i == 0 || spans[i - 1].low <= spans[i].low);
            CU_ASSERT_FATAL(spans[i].high == spans[i].low + 1); /* the two stay together */
            sum -= spans[i].low;
        }
        CU_ASSERT_EQUAL(sum, 0);
    }
}

/* A cancelled sort ends at once: its work is that of a stretch at most. */
static void a_cancelled_sort_ends(void)
{
    _Atomic bool is_cancelled = true;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_cancelled};
    uint64_t random = dao_test_seed("cancelled", 20261122);
    draw_keys(COUNT_MAX, UINT64_MAX, &random);
    dao_plan_sort_keys(keys, scratch, COUNT_MAX, &work);
    dao_plan_sort_spans(spans, span_scratch, COUNT_MAX, &work);
    CU_ASSERT(work.used <= 2 * (1 + DAO_PLAN_STRETCH / DAO_PLAN_PASS_PER_WORK));
}

static CU_TestInfo tests[] = {
    {"keys are sorted and equal ones keep their order", keys_are_sorted_and_equal_ones_keep_their_order},
    {"equal keys need no scratch", equal_keys_need_no_scratch},
    {"spans are sorted by where they begin", spans_are_sorted_by_where_they_begin},
    {"a cancelled sort ends", a_cancelled_sort_ends},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan sort", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
