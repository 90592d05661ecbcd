/* SPDX-License-Identifier: Apache-2.0 */
/* Fences as data: what they name, joined and without a stream. */
#include "runtime/executor/streams/fence.h"
#include "tests/support/suite.h"

#define COMPUTE DAO_STREAM_ROLE_COMPUTE
#define H2D     DAO_STREAM_ROLE_H2D
#define LAST    ((dao_stream_role_t)(DAO_TIMELINE_STREAM_COUNT - 1))

/* Each stream that has a number is met once, and no other one. */
static void expect(const dao_fence_t *fence, const uint64_t *numbers)
{
    uint64_t met[DAO_TIMELINE_STREAM_COUNT] = {0};
    for (uint32_t left = dao_fence_streams(fence); left != 0;) {
        dao_stream_role_t role = dao_fence_next(&left);
        CU_ASSERT_FATAL(role < DAO_TIMELINE_STREAM_COUNT);
        CU_ASSERT_EQUAL(met[role], 0);
        CU_ASSERT_NOT_EQUAL(dao_fence_number(fence, role), 0);
        met[role] = dao_fence_number(fence, role);
    }
    for (int role = 0; role < DAO_TIMELINE_STREAM_COUNT; role++) {
        CU_ASSERT_EQUAL(met[role], numbers[role]);
        CU_ASSERT_EQUAL(dao_fence_number(fence, (dao_stream_role_t)role), numbers[role]);
    }
}

static void a_fence_names_the_last_operation_of_each_stream(void)
{
    dao_fence_t fence = {0};
    uint64_t numbers[DAO_TIMELINE_STREAM_COUNT] = {0};
    expect(&fence, numbers);
    dao_fence_add(&fence, COMPUTE, 0); /* nothing to wait for */
    expect(&fence, numbers);
    dao_fence_add(&fence, LAST, 5);
    dao_fence_add(&fence, LAST, 3);
    dao_fence_add(&fence, COMPUTE, 2);
    numbers[LAST] = 5;
    numbers[COMPUTE] = 2;
    expect(&fence, numbers);
}

static void joined_fences_name_the_later_of_both(void)
{
    dao_fence_t fence = {0}, other = {0};
    uint64_t numbers[DAO_TIMELINE_STREAM_COUNT] = {0};
    dao_fence_add(&fence, COMPUTE, 7);
    dao_fence_add(&fence, LAST, 1);
    dao_fence_add(&other, COMPUTE, 6);
    dao_fence_add(&other, LAST, 2);
    dao_fence_add(&other, H2D, 9);
    dao_fence_join(&fence, &other);
    numbers[COMPUTE] = 7;
    numbers[LAST] = 2;
    numbers[H2D] = 9;
    expect(&fence, numbers);
}

static void a_stream_is_dropped_and_may_come_back(void)
{
    dao_fence_t fence = {0};
    uint64_t numbers[DAO_TIMELINE_STREAM_COUNT] = {0};
    dao_fence_add(&fence, COMPUTE, 7);
    dao_fence_add(&fence, H2D, 8);
    dao_fence_drop(&fence, COMPUTE);
    dao_fence_drop(&fence, LAST); /* it was not named */
    numbers[H2D] = 8;
    expect(&fence, numbers);
    dao_fence_add(&fence, COMPUTE, 1);
    numbers[COMPUTE] = 1;
    expect(&fence, numbers);
}

static CU_TestInfo tests[] = {
    {"a fence names the last operation of each stream", a_fence_names_the_last_operation_of_each_stream},
    {"joined fences name the later of both", joined_fences_name_the_later_of_both},
    {"a stream is dropped and may come back", a_stream_is_dropped_and_may_come_back},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"fence", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
