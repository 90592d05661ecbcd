/* SPDX-License-Identifier: Apache-2.0 */
/* The issue order: every operation behind all that its fence names, copies before kernels, each once. */
#include "base/report/fault.h"
#include "runtime/executor/plans/issue_order.h"
#include "tests/support/suite.h"

#include <string.h>

enum { KERNELS = 6, COPIES = 4 };

static dao_swap_fence_t kernel_after[KERNELS];
static dao_swap_copy_t copies[DAO_SWAP_STREAM_COUNT][COPIES];
static dao_swap_schedule_t schedule;
static dao_swap_kernel_t kernels[KERNELS];
static dao_swap_problem_t problem = {.kernels = kernels};

static const dao_swap_problem_t *with(uint32_t kernel_count)
{
    problem.kernel_count = kernel_count;
    return &problem;
}

static void wait_for_nothing(dao_swap_fence_t *fence)
{
    for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT; i++) {
        fence->done[i] = DAO_SWAP_NO_WAIT;
    }
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX - 1; i++) {
        fence->done_beside[i] = DAO_SWAP_NO_WAIT;
    }
}

static void begin(uint32_t in_count, uint32_t out_count)
{
    memset(&schedule, 0, sizeof(schedule));
    memset(copies, 0, sizeof(copies));
    memset(kernels, 0, sizeof(kernels));
    schedule.kernel_after = kernel_after;
    for (int i = 0; i < KERNELS; i++) {
        wait_for_nothing(&kernel_after[i]);
    }
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        schedule.copies[stream] = copies[stream];
        for (int i = 0; i < COPIES; i++) {
            wait_for_nothing(&copies[stream][i].after);
        }
    }
    schedule.copy_count[DAO_SWAP_STREAM_HOST_IN] = in_count;
    schedule.copy_count[DAO_SWAP_STREAM_HOST_OUT] = out_count;
}

/* The place in the order of the `number`-th operation of a stream, from 1; 0 and below: before all. */
static int64_t place_of(const dao_issue_order_t *order, dao_swap_stream_t stream, int32_t number)
{
    for (uint32_t i = 0; number > 0 && i < order->count; i++) {
        dao_issue_operation_t operation = order->operations[i];
        if (dao_issue_order_streams[operation.stream] == stream && operation.index == (uint32_t)number - 1) {
            return i;
        }
    }
    return -1;
}

/* Every operation is behind what it waits for. */
static void expect_behind_fences(const dao_issue_order_t *order)
{
    CU_ASSERT_TRUE(dao_issue_order_is_valid(order));
    for (uint32_t i = 0; i < order->count; i++) {
        const dao_swap_fence_t *after = dao_issue_order_fence(&schedule, order->operations[i]);
        for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
            if (after->done[stream] != DAO_SWAP_NO_WAIT) {
                CU_ASSERT_TRUE(place_of(order, (dao_swap_stream_t)stream, after->done[stream]) < (int64_t)i);
            }
        }
    }
}

static void copies_go_before_kernels(void)
{
    dao_issue_order_t order;
    begin(2, 1);
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(2), NULL), DAO_OK);
    CU_ASSERT_EQUAL(order.count, 5);
    for (uint32_t i = 0; i < order.count; i++) {
        bool is_kernel = dao_issue_order_copy(&schedule, order.operations[i]) == NULL;
        CU_ASSERT_EQUAL(is_kernel, i >= 3);
    }
    dao_issue_order_finish(&order);
}

/* Kernel 0 writes, a copy out waits for it, a copy in for that, and kernel 1 for the copy in. */
static void a_chain_is_issued_in_its_order(void)
{
    dao_issue_order_t order;
    begin(1, 1);
    copies[DAO_SWAP_STREAM_HOST_OUT][0].after.done[DAO_SWAP_STREAM_COMPUTE] = 1;
    copies[DAO_SWAP_STREAM_HOST_IN][0].after.done[DAO_SWAP_STREAM_HOST_OUT] = 1;
    kernel_after[1].done[DAO_SWAP_STREAM_HOST_IN] = 1;
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(2), NULL), DAO_OK);
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_COMPUTE, 1), 0);
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_HOST_OUT, 1), 1);
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_HOST_IN, 1), 2);
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_COMPUTE, 2), 3);
    expect_behind_fences(&order);
    dao_issue_order_finish(&order);
}

static void what_waits_for_the_step_before_is_ready(void)
{
    dao_issue_order_t order;
    begin(1, 0);
    copies[DAO_SWAP_STREAM_HOST_IN][0].after.done[DAO_SWAP_STREAM_COMPUTE] = -1;
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(1), NULL), DAO_OK);
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_HOST_IN, 1), 0);
    dao_issue_order_finish(&order);
}

static uint64_t number_of(const void *user, uint32_t lane, int64_t done)
{
    const uint64_t *base = user;
    return done + (int64_t)base[lane] > 0 ? base[lane] + (uint64_t)done : 0;
}

/* Its own stream is not waited for, and neither is what lies before the first number. */
static void a_fence_names_numbers_of_other_streams(void)
{
    const uint64_t base[DAO_ISSUE_ORDER_LANE_COUNT] = {100, 10, 0, 0, 0};
    dao_issue_order_t order;
    begin(1, 1);
    dao_swap_fence_t *after = &copies[DAO_SWAP_STREAM_HOST_IN][0].after;
    after->done[DAO_SWAP_STREAM_COMPUTE] = -3;
    after->done[DAO_SWAP_STREAM_HOST_IN] = 1;
    after->done[DAO_SWAP_STREAM_HOST_OUT] = -1;
    dao_issue_operation_t operation = {.stream = 1, .index = 0};
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_streams[operation.stream], DAO_SWAP_STREAM_HOST_IN);
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(KERNELS), NULL), DAO_OK);
    dao_fence_t fence = dao_issue_order_fence_in_numbers(&order, &schedule, operation, number_of, base);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, DAO_STREAM_ROLE_COMPUTE), 97);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, DAO_STREAM_ROLE_H2D), 0);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, DAO_STREAM_ROLE_D2H), 0);
    dao_issue_order_finish(&order);
}

/* Counts of all kernels become counts of those on each compute stream:

       kernels   0 1 2 3 4 5     of the step before, and once more before that
       streams   0 1 1 0 3 1 */
static void kernels_are_counted_on_their_own_streams(void)
{
    const uint64_t base[DAO_ISSUE_ORDER_LANE_COUNT] = {100, 10, 10, 0, 0, 200, 300, 400};
    static const uint32_t on[KERNELS] = {0, 1, 1, 0, 3, 1};
    dao_issue_order_t order;
    begin(1, 0);
    for (uint32_t k = 0; k < KERNELS; k++) {
        kernels[k].stream = on[k];
    }
    dao_swap_fence_t *after = &copies[DAO_SWAP_STREAM_HOST_IN][0].after;
    after->done[DAO_SWAP_STREAM_COMPUTE] = -2;    /* kernel 3 of the step before, the last one on 0 */
    after->done_beside[0] = 3;                    /* kernel 2 of this step, the second one on 1 */
    after->done_beside[2] = 5 - 2 * (int)KERNELS; /* kernel 4 of two steps before, the only one on 3 */
    kernel_after[5].done[DAO_SWAP_STREAM_COMPUTE] = 4;
    kernel_after[5].done_beside[0] = 2; /* its own */
    CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(KERNELS), NULL), DAO_OK);
    dao_issue_operation_t in = {.stream = 1, .index = 0}, last = {.stream = 0, .index = 5};
    dao_fence_t fence = dao_issue_order_fence_in_numbers(&order, &schedule, in, number_of, base);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(0)), 100);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(1)), 202);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(2)), 0);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(3)), 399);
    fence = dao_issue_order_fence_in_numbers(&order, &schedule, last, number_of, base);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(0)), 102);
    CU_ASSERT_EQUAL(dao_fence_number(&fence, dao_timeline_compute(1)), 0);
    CU_ASSERT_EQUAL(dao_issue_order_place(&order, last).index, 2);
    CU_ASSERT_EQUAL(dao_issue_order_roles[dao_issue_order_place(&order, last).lane], dao_timeline_compute(1));
    CU_ASSERT_EQUAL(place_of(&order, DAO_SWAP_STREAM_HOST_IN, 1), 3); /* behind kernel 2 */
    dao_issue_order_finish(&order);
}

static void a_circle_is_refused(void)
{
    dao_issue_order_t order;
    begin(1, 0);
    copies[DAO_SWAP_STREAM_HOST_IN][0].after.done[DAO_SWAP_STREAM_COMPUTE] = 1;
    kernel_after[0].done[DAO_SWAP_STREAM_HOST_IN] = 1;
    CU_ASSERT_EQUAL(dao_issue_order_init(&order, &schedule, with(1), NULL), DAO_ERR_INVALID);
}

#if defined(DAO_FAULTS)
static void want_of_memory_is_answered(void)
{
    dao_issue_order_t order;
    begin(1, 1);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    dao_status_t status = dao_issue_order_init(&order, &schedule, with(KERNELS), NULL);
    (void)dao_fault_disarm();
    CU_ASSERT_EQUAL(status, DAO_ERR_NO_HOST_MEMORY);
}
#endif

/* Fences that name only operations before them in some order never make a circle. */
static void random_schedules_are_issued_behind_their_fences(void)
{
    static const dao_swap_stream_t used[] = {DAO_SWAP_STREAM_COMPUTE, DAO_SWAP_STREAM_HOST_IN,
                                             DAO_SWAP_STREAM_HOST_OUT};
    uint64_t seed = dao_test_seed("random schedules are issued behind their fences", 17);
    for (int round = 0; round < 300; round++) {
        int32_t next[DAO_SWAP_STREAM_COUNT] = {0};
        const int32_t most[DAO_SWAP_STREAM_COUNT] = {KERNELS, COPIES, COPIES, 0, 0};
        begin(COPIES, COPIES);
        for (int placed = 0; placed < KERNELS + 2 * COPIES;) {
            dao_swap_stream_t stream = used[dao_random_below(&seed, 3)];
            dao_swap_stream_t other = used[dao_random_below(&seed, 3)];
            if (next[stream] == most[stream]) {
                continue;
            }
            dao_swap_fence_t *after = stream == DAO_SWAP_STREAM_COMPUTE ? &kernel_after[next[stream]]
                                                                        : &copies[stream][next[stream]].after;
            if (other != stream) {
                after->done[other] = next[other];
            }
            next[stream]++;
            placed++;
        }
        dao_issue_order_t order;
        CU_ASSERT_EQUAL_FATAL(dao_issue_order_init(&order, &schedule, with(KERNELS), NULL), DAO_OK);
        expect_behind_fences(&order);
        dao_issue_order_finish(&order);
    }
}

static CU_TestInfo tests[] = {
    {"copies go before kernels", copies_go_before_kernels},
    {"a chain is issued in its order", a_chain_is_issued_in_its_order},
    {"what waits for the step before is ready", what_waits_for_the_step_before_is_ready},
    {"a fence names numbers of other streams", a_fence_names_numbers_of_other_streams},
    {"kernels are counted on their own streams", kernels_are_counted_on_their_own_streams},
    {"a circle is refused", a_circle_is_refused},
#if defined(DAO_FAULTS)
    {"want of memory is answered", want_of_memory_is_answered},
#endif
    {"random schedules are issued behind their fences", random_schedules_are_issued_behind_their_fences},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"issue order", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
