/* SPDX-License-Identifier: Apache-2.0 */
/* A step made ready: accesses, inactive periods and what is live, against a model that asks each kernel. */
#include "base/report/fault.h"
#include "planning/swap/step/swap_step.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 300 };

static swap_step_box_t box;
static dao_swap_step_t step;

/* The picture of swap_step.h: W - R . R, and the content of a tensor that is written first ends there. */
static void the_picture_in_the_header_holds(void)
{
    swap_step_stream(&box, 4, 1, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.tensor_count = 1;
    box.tensors[0] = (dao_swap_tensor_t){.size_bytes = 5};
    box.uses[0][0] = (dao_swap_use_t){0, DAO_ACCESS_WRITE};
    box.uses[1][0] = (dao_swap_use_t){0, DAO_ACCESS_READ};
    box.kernels[2].use_count = 0;
    box.uses[3][0] = (dao_swap_use_t){0, DAO_ACCESS_READ};
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(step.access_count, 3);
    static const uint32_t nexts[] = {1, 2, 0}, lengths[] = {1, 2, 1};
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(step.accesses[i].next, nexts[i]);
        CU_ASSERT_EQUAL(step.accesses[i].inactive_length, lengths[i]);
        CU_ASSERT_EQUAL(step.accesses[i].inactive_is_live, i < 2);
        CU_ASSERT_EQUAL(step.accesses[i].writer, 0);
    }
    CU_ASSERT_EQUAL(step.live_bytes[2], 5); /* it waits for the last read */
    CU_ASSERT_EQUAL(step.kernel_bytes[2], 0);
    CU_ASSERT_EQUAL(step.time_before[4], 40);
    dao_swap_step_finish(&step);
}

static void a_tensor_named_twice_counts_once(void)
{
    swap_step_stream(&box, 1, 7, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.uses[0][0] = (dao_swap_use_t){0, DAO_ACCESS_READ};
    box.uses[0][1] = (dao_swap_use_t){0, DAO_ACCESS_WRITE};
    box.kernels[0].use_count = 2;
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    CU_ASSERT_EQUAL(step.access_count, 1);
    CU_ASSERT(step.accesses[0].reads && step.accesses[0].writes);
    CU_ASSERT(step.accesses[0].next == 0 && step.accesses[0].inactive_length == 1);
    CU_ASSERT_EQUAL(step.kernel_bytes[0], 7);
    dao_swap_step_finish(&step);
}

/* Whether a tensor has content that is read later, between two kernels, looked for kernel by kernel. */
static bool is_live_after(uint32_t tensor, uint32_t kernel)
{
    for (uint32_t i = 1; i <= box.problem.kernel_count; i++) {
        uint32_t k = (kernel + i) % box.problem.kernel_count;
        bool is_used = false, is_read = false;
        for (uint32_t u = 0; u < box.kernels[k].use_count; u++) {
            const dao_swap_use_t *use = &box.uses[k][u];
            is_used = is_used || use->tensor == tensor;
            is_read = is_read || (use->tensor == tensor && use->access != DAO_ACCESS_WRITE);
        }
        if (is_used) {
            return is_read;
        }
    }
    return false;
}

static void what_is_live_is_what_the_model_says(void)
{
    uint64_t random = dao_test_seed("steps", 20261122);
    const swap_step_range_t range = {.tensor_max = 8, .kernel_max = 12, .size_max = 30, .time_max = 9};
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_step_random(&box, &range, &random);
        box.problem.host.in_bytes_per_second = 1000000000;
        CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
        CU_ASSERT(dao_swap_step_is_valid(&step));
        for (uint32_t i = 0; i < step.access_count; i++) {
            const dao_swap_access_t *one = &step.accesses[i];
            const dao_swap_access_t *next = &step.accesses[one->next];
            uint32_t distance = (next->kernel + step.kernel_count - one->kernel) % step.kernel_count;
            CU_ASSERT_EQUAL(next->tensor, one->tensor);
            CU_ASSERT_EQUAL(one->inactive_length, distance == 0 ? step.kernel_count : distance);
            CU_ASSERT_EQUAL(next->previous_inactive_is_live, one->inactive_is_live);
            bool may_be_live = is_live_after(one->tensor, one->kernel);
            CU_ASSERT(!one->inactive_is_live || may_be_live);
            CU_ASSERT(one->next <= i || one->inactive_is_live == may_be_live);
        }
        for (uint32_t k = 0; k < step.kernel_count; k++) {
            CU_ASSERT(step.kernel_bytes[k] <= step.live_bytes[k]);
            CU_ASSERT(step.kernel_bytes[k] <= step.kernel_bytes[dao_swap_step_largest_kernel(&step)]);
        }
        uint64_t least = step.kernel_bytes[dao_swap_step_largest_kernel(&step)];
        CU_ASSERT_EQUAL(dao_swap_step_check_capacity(&step, least), DAO_OK);
        CU_ASSERT(least == 0 || dao_swap_step_check_capacity(&step, least - 1) == DAO_ERR_KERNEL_TOO_LARGE);
        dao_swap_step_finish(&step);
    }
}

static void what_comes_from_a_file_has_a_link_and_is_only_read(void)
{
    swap_step_stream(&box, 2, 100, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.tensors[1].is_from_file = true;
    CU_ASSERT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_ERR_INVALID);
    box.problem.file.in_bytes_per_second = 1000000000;
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    dao_swap_step_finish(&step);
    box.uses[1][0].access = DAO_ACCESS_READ_WRITE;
    CU_ASSERT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_ERR_INVALID);
}

static void sizes_and_times_have_limits(void)
{
    swap_step_stream(&box, 2, DAO_SWAP_SIZE_MAX / 2, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    dao_swap_step_finish(&step);
    box.tensors[0].size_bytes++;
    CU_ASSERT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_ERR_OVERFLOW);
    swap_step_stream(&box, 2, 1, DAO_SWAP_TIME_MAX);
    box.problem.host.in_bytes_per_second = 1000000000;
    CU_ASSERT_NOT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    swap_step_stream(&box, 1, UINT64_MAX, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    CU_ASSERT_NOT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    swap_step_stream(&box, 1, 0, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    CU_ASSERT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_ERR_INVALID);
    swap_step_stream(&box, 1, 1, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.uses[0][0].tensor = 1;
    CU_ASSERT_EQUAL(dao_swap_step_init(&step, &box.problem), DAO_ERR_INVALID);
}

/* How often it was asked. */
static bool says_no_at_the_third(void *user)
{
    uint32_t *count = user;
    return ++*count >= 3;
}

static void who_cancels_is_not_asked_again(void)
{
    uint32_t count = 0;
    dao_swap_cancel_t cancel = {.is_cancelled = says_no_at_the_third, .user = &count};
    for (int i = 0; i < 6; i++) {
        CU_ASSERT_EQUAL(dao_swap_is_cancelled(&cancel), i >= 2);
    }
    CU_ASSERT_EQUAL(count, 3);
    CU_ASSERT(!dao_swap_is_cancelled(NULL));
    step.cancel = &cancel;
    CU_ASSERT_EQUAL(dao_swap_step_give_up(&step), DAO_ERR_STOPPED);
    step.cancel = NULL;
    CU_ASSERT_EQUAL(dao_swap_step_give_up(&step), DAO_ERR_NO_HOST_MEMORY);
}

static void want_of_memory_is_said(void)
{
    swap_step_chain(&box, 8, 100, 1);
    box.problem.host.in_bytes_per_second = 1000000000;
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_swap_step_init(&step, &box.problem);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        CU_ASSERT(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
    }
    dao_swap_step_finish(&step);
}

static CU_TestInfo tests[] = {
    {"the picture in the header holds", the_picture_in_the_header_holds},
    {"a tensor named twice counts once", a_tensor_named_twice_counts_once},
    {"what is live is what the model says", what_is_live_is_what_the_model_says},
    {"what comes from a file has a link, and is only read",
     what_comes_from_a_file_has_a_link_and_is_only_read},
    {"sizes and times have limits", sizes_and_times_have_limits},
    {"who cancels is not asked again", who_cancels_is_not_asked_again},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap step", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
