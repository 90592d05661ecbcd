/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetime bins, against a slow model of the rule: own bin, a larger one, a new block. */
#include "base/report/fault.h"
#include "planning/offsets/methods/lifetime_bins.h"
#include "tests/support/models/plans.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_COUNT_MAX 300u

static dao_plan_buffer_t buffers[BUFFER_COUNT_MAX];
static dao_plan_problem_t problem = {.buffers = buffers};
static uint64_t begins[BUFFER_COUNT_MAX]; /* in any order, while the buffers are sorted */

static void add(uint64_t begin_time, uint64_t end_time, uint64_t size_bytes)
{
    CU_ASSERT_FATAL(problem.buffer_count < BUFFER_COUNT_MAX);
    buffers[problem.buffer_count++] = (dao_plan_buffer_t){.begin_time = begin_time,
                                                          .end_time = end_time,
                                                          .size_bytes = size_bytes,
                                                          .fixed_offset = DAO_PLAN_NOWHERE,
                                                          .pool = DAO_PLAN_ANY_POOL};
}

static void clear(void)
{
    problem = (dao_plan_problem_t){.buffers = buffers};
}

static void make_random(uint64_t *random, uint64_t size_max)
{
    clear();
    size_t count = 1 + dao_random_next(random) % BUFFER_COUNT_MAX;
    for (size_t i = 0; i < count; i++) {
        uint64_t begin_time = dao_random_next(random) % 200;
        uint64_t size_bytes = 1 + dao_random_next(random) % size_max;
        size_bytes >>= dao_random_next(random) % 12;
        add(begin_time, begin_time + 1 + dao_random_next(random) % 30, size_bytes == 0 ? 1 : size_bytes);
    }
}

/* ---- the model ---- */

typedef struct model_block {
    uint64_t size_bytes;
    bool holds[BUFFER_COUNT_MAX];
} model_block_t;

static int by_begin(const void *left, const void *right)
{
    const dao_plan_buffer_t *a = left, *b = right;
    return a->begin_time < b->begin_time ? -1 : a->begin_time > b->begin_time ? 1 : 0;
}

/* Ends with no beginning between them are one end; of those that end together, the one that begins first. */
static int by_end(const void *left, const void *right)
{
    const dao_plan_buffer_t *a = left, *b = right;
    size_t before_a = 0, before_b = 0;
    for (size_t i = 0; i < problem.buffer_count; i++) {
        before_a += begins[i] < a->end_time ? 1 : 0;
        before_b += begins[i] < b->end_time ? 1 : 0;
    }
    return before_a < before_b ? -1 : before_a > before_b ? 1 : by_begin(left, right);
}

static bool has_room(const model_block_t *block, size_t buffer)
{
    for (size_t i = 0; i < problem.buffer_count; i++) {
        if (block->holds[i] && buffers[i].begin_time < buffers[buffer].end_time &&
            buffers[buffer].begin_time < buffers[i].end_time) {
            return false;
        }
    }
    return true;
}

/* What a policy needs, for buffers in the order in which they join. */
static uint64_t total_by_model(uint32_t policy)
{
    static model_block_t blocks[BUFFER_COUNT_MAX];
    size_t block_count = 0;
    uint64_t total_bytes = 0, size_bytes = UINT64_MAX;
    memset(blocks, 0, sizeof(blocks));
    for (;;) { /* the next smaller size */
        uint64_t next_bytes = 0;
        for (size_t i = 0; i < problem.buffer_count; i++) {
            uint64_t own = dao_bin_round(policy, buffers[i].size_bytes);
            next_bytes = own < size_bytes && own > next_bytes ? own : next_bytes;
        }
        if (next_bytes == 0) {
            return total_bytes;
        }
        size_bytes = next_bytes;
        for (size_t i = 0; i < problem.buffer_count; i++) {
            size_t found = block_count;
            if (dao_bin_round(policy, buffers[i].size_bytes) != size_bytes) {
                continue;
            }
            for (size_t k = 0; k < block_count;
                 k++) { /* the smallest size that has one, and there the first */
                bool is_smaller = found == block_count || blocks[k].size_bytes < blocks[found].size_bytes;
                found = is_smaller && has_room(&blocks[k], i) ? k : found;
            }
            if (found == block_count) {
                blocks[block_count++].size_bytes = size_bytes;
                total_bytes += size_bytes;
            }
            blocks[found].holds[i] = true;
        }
    }
}

/* ---- tests ---- */

static void sizes_are_rounded_as_the_policy_says(void)
{
    CU_ASSERT_EQUAL(dao_bin_round(0, 32 * KIB + 1), 36 * KIB);
    CU_ASSERT_EQUAL(dao_bin_round(0, 36 * KIB), 36 * KIB);
    CU_ASSERT_EQUAL(dao_bin_round(1, 36 * KIB), 40 * KIB);
    CU_ASSERT_EQUAL(dao_bin_round(2, 36 * KIB), 48 * KIB);
    CU_ASSERT_EQUAL(dao_bin_round(2, 32 * KIB), 32 * KIB);
    CU_ASSERT_EQUAL(dao_bin_round(0, 1), 8);
    CU_ASSERT_EQUAL(dao_bin_round(0, 64), 64);
    CU_ASSERT_EQUAL(dao_bin_round(0, 65), 72);
    CU_ASSERT_EQUAL(dao_bin_round(0, 1025), 1152);
    for (uint64_t size_bytes = 1; size_bytes <= DAO_BIN_SMALL_MAX; size_bytes++) {
        uint64_t rounded_bytes = dao_bin_round(0, size_bytes);
        CU_ASSERT_FATAL(rounded_bytes >= size_bytes && rounded_bytes - size_bytes <= size_bytes / 8 + 7);
        CU_ASSERT_EQUAL_FATAL(dao_bin_round(0, rounded_bytes), rounded_bytes);
    }
}

static void own_bin_then_a_larger_one_then_a_new_block(void)
{
    clear();
    add(0, 10, 100 * KIB);
    add(10, 20, 100 * KIB); /* the own bin's block, which is free again */
    add(0, 5, 60 * KIB);    /* a new one: the larger is in use */
    add(20, 30, 60 * KIB);  /* the own one again */
    add(22, 25, 60 * KIB);  /* the larger bin's */
    dao_bin_plan_t plan;
    CU_ASSERT_EQUAL_FATAL(dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN), DAO_OK);
    CU_ASSERT_TRUE(dao_bin_plan_is_valid(&plan));
    CU_ASSERT_EQUAL(plan.policy, 0);
    CU_ASSERT_EQUAL(plan.total_bytes, 160 * KIB);
    CU_ASSERT_EQUAL(plan.policy_bytes[1], 168 * KIB);
    CU_ASSERT_EQUAL(plan.policy_bytes[2], 176 * KIB);
    CU_ASSERT_EQUAL(plan.bin_count, 2);
    uint32_t small = dao_bin_plan_find(&plan, 59 * KIB), large = dao_bin_plan_find(&plan, 100 * KIB);
    CU_ASSERT_EQUAL(small, 0);
    CU_ASSERT_EQUAL(large, 1);
    CU_ASSERT_EQUAL(dao_bin_plan_find(&plan, 61 * KIB), UINT32_MAX);
    CU_ASSERT_EQUAL(plan.bins[small].block_count, 1);
    CU_ASSERT_EQUAL(plan.bins[small].offset_bytes, 100 * KIB);
    CU_ASSERT_EQUAL(plan.bins[small].right_count, 1);
    CU_ASSERT_EQUAL(plan.rights[plan.bins[small].first_right], large);
    CU_ASSERT_EQUAL(plan.bins[large].right_count, 0);
    dao_bin_plan_finish(&plan);
}

static void totals_are_those_of_the_model(void)
{
    uint64_t random = dao_test_seed("bins", 51);
    for (uint32_t round = 0; round < 60; round++) {
        make_random(&random, round % 2 == 0 ? 64 * MIB : 256 * KIB);
        dao_bin_order_t order = round % 4 < 2 ? DAO_BIN_ORDER_END : DAO_BIN_ORDER_BEGIN;
        for (size_t i = 0; i < problem.buffer_count; i++) {
            begins[i] = buffers[i].begin_time;
        }
        qsort(buffers, problem.buffer_count, sizeof(buffers[0]),
              order == DAO_BIN_ORDER_END ? by_end : by_begin);
        dao_plan_t *made = NULL;
        dao_bin_plan_t plan;
        const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_BINS};
        CU_ASSERT_EQUAL_FATAL(dao_bin_plan_init(&plan, &problem, order), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &config, &made), DAO_OK);
        CU_ASSERT_TRUE(dao_bin_plan_is_valid(&plan));
        CU_ASSERT_EQUAL(dao_plan_check(&problem, dao_plan_offsets(made), NULL), DAO_OK);
        uint64_t least_bytes = UINT64_MAX;
        for (uint32_t policy = 0; policy < DAO_PLAN_BIN_POLICY_COUNT; policy++) {
            uint64_t total_bytes = total_by_model(policy);
            CU_ASSERT_EQUAL(plan.policy_bytes[policy], total_bytes);
            CU_ASSERT(order != DAO_BIN_ORDER_END || dao_plan_bin_policy_bytes(made, policy) == total_bytes);
            least_bytes = total_bytes < least_bytes ? total_bytes : least_bytes;
        }
        CU_ASSERT_EQUAL(plan.total_bytes, least_bytes);
        CU_ASSERT_EQUAL(dao_plan_bin_policy_bytes(made, DAO_PLAN_BIN_POLICY_COUNT), 0);
        for (size_t i = 0; i < problem.buffer_count; i++) {
            uint32_t bin = dao_bin_plan_find(&plan, buffers[i].size_bytes);
            CU_ASSERT_FATAL(bin < plan.bin_count);
            CU_ASSERT_EQUAL(plan.bins[bin].size_bytes, dao_bin_round(plan.policy, buffers[i].size_bytes));
        }
        dao_plan_release(made);
        dao_bin_plan_finish(&plan);
    }
}

static void blocks_are_aligned_for_all_that_they_hold(void)
{
    uint64_t random = 7;
    for (uint32_t round = 0; round < 30; round++) {
        make_random(&random, 2 * MIB);
        for (size_t i = 0; i < problem.buffer_count; i++) {
            buffers[i].alignment_bytes = 1u << dao_random_next(&random) % 20;
        }
        dao_plan_t *made = NULL;
        const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_BINS};
        CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &config, &made), DAO_OK);
        CU_ASSERT_EQUAL(dao_plan_check(&problem, dao_plan_offsets(made), NULL), DAO_OK);
        CU_ASSERT(dao_plan_bin_policy_bytes(made, 0) > 0);
        dao_plan_release(made);
    }
}

static void what_bins_do_not_know_is_refused_or_settled(void)
{
    clear();
    add(0, 10, 100 * KIB);
    add(0, 10, 100 * KIB);
    buffers[1].fixed_offset = 4 * KIB;
    dao_bin_plan_t plan;
    CU_ASSERT_EQUAL(dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN), DAO_ERR_UNSUPPORTED);
    dao_bin_plan_finish(&plan);
    dao_plan_t *made = NULL;
    const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_BINS};
    CU_ASSERT_EQUAL_FATAL(dao_plan_make(&problem, &config, &made), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_offset(made, 1), 4 * KIB);
    CU_ASSERT_EQUAL(dao_plan_offset(made, 0), 104 * KIB);
    dao_plan_release(made);
    clear();
    CU_ASSERT_EQUAL(dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN),
                    DAO_OK); /* nothing needs nothing */
    CU_ASSERT_EQUAL(plan.total_bytes, 0);
    CU_ASSERT_EQUAL(dao_bin_plan_find(&plan, 1), UINT32_MAX);
    dao_bin_plan_finish(&plan);
}

static void every_failed_allocation_is_told(void)
{
    uint64_t random = 8, failed_count = 1;
    make_random(&random, 2 * MIB);
    for (uint64_t n = 0; failed_count > 0; n++) {
        dao_bin_plan_t plan;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_bin_plan_init(&plan, &problem, DAO_BIN_ORDER_BEGIN);
        failed_count = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed_count > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        dao_bin_plan_finish(&plan);
    }
}

static CU_TestInfo tests[] = {
    {"sizes are rounded as the policy says", sizes_are_rounded_as_the_policy_says},
    {"own bin, then a larger one, then a new block", own_bin_then_a_larger_one_then_a_new_block},
    {"totals are those of the model", totals_are_those_of_the_model},
    {"blocks are aligned for all that they hold", blocks_are_aligned_for_all_that_they_hold},
    {"what bins do not know is refused or settled", what_bins_do_not_know_is_refused_or_settled},
    {"every failed allocation is told", every_failed_allocation_is_told},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan lifetime bins", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
