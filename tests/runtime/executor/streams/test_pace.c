/* SPDX-License-Identifier: Apache-2.0 */
/* Pace: operations begin in estimated time as their streams and fences let them. */
#include "runtime/executor/streams/pace.h"
#include "tests/support/suite.h"

#include <string.h>

#define COMPUTE DAO_STREAM_ROLE_COMPUTE
#define IN      DAO_STREAM_ROLE_H2D

static dao_pace_t pace;
static const dao_fence_t nothing;

static void begin(void)
{
    memset(&pace, 0, sizeof(pace));
}

static dao_fence_t behind(dao_stream_role_t role, uint64_t sequence)
{
    dao_fence_t fence = {0};
    dao_fence_add(&fence, role, sequence);
    return fence;
}

static void a_stream_keeps_its_order(void)
{
    begin();
    dao_pace_queue(&pace, COMPUTE, 1, &nothing, 100);
    dao_pace_queue(&pace, COMPUTE, 2, &nothing, 50);
    dao_fence_t first = behind(COMPUTE, 1);
    dao_fence_t second = behind(COMPUTE, 2);
    CU_ASSERT_EQUAL(dao_pace_fence_ns(&pace, &first), 100);
    CU_ASSERT_EQUAL(dao_pace_fence_ns(&pace, &second), 150);
    CU_ASSERT_EQUAL(dao_pace_fence_ns(&pace, &nothing), 0);
}

static void an_operation_waits_for_its_fence(void)
{
    begin();
    pace.streams[IN].bytes_per_ns = 2;
    dao_pace_queue(&pace, COMPUTE, 1, &nothing, 100);
    dao_fence_t kernel = behind(COMPUTE, 1);
    dao_pace_copy(&pace, IN, 1, &kernel, 60); /* from 100 on */
    CU_ASSERT_EQUAL(pace.streams[IN].end_ns, 130);
    dao_fence_t copy = behind(IN, 1);
    dao_pace_queue(&pace, COMPUTE, 2, &copy, 10);
    CU_ASSERT_EQUAL(pace.streams[COMPUTE].end_ns, 140);
}

static void an_unknown_speed_takes_no_time(void)
{
    begin();
    CU_ASSERT_EQUAL(dao_pace_copy_ns(&pace, IN, 1000), 0);
    pace.streams[IN].bytes_per_ns = 4;
    CU_ASSERT_EQUAL(dao_pace_copy_ns(&pace, IN, 1000), 250);
}

/* What was not told here, while a plan was followed, is not taken for copied. */
static void a_gap_in_the_numbers_begins_anew(void)
{
    begin();
    dao_pace_copy(&pace, IN, 1, &nothing, 10);
    dao_pace_copy(&pace, IN, 2, &nothing, 10);
    CU_ASSERT_EQUAL(pace.streams[IN].first, 1);
    dao_pace_copy(&pace, IN, 9, &nothing, 10);
    CU_ASSERT_EQUAL(pace.streams[IN].first, 9);
    CU_ASSERT_EQUAL(pace.streams[IN].last, 9);
}

static CU_TestInfo tests[] = {
    {"a stream keeps its order", a_stream_keeps_its_order},
    {"an operation waits for its fence", an_operation_waits_for_its_fence},
    {"an unknown speed takes no time", an_unknown_speed_takes_no_time},
    {"a gap in the numbers begins anew", a_gap_in_the_numbers_begins_anew},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pace", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
