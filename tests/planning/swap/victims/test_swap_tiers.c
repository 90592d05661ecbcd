/* SPDX-License-Identifier: Apache-2.0 */
/* Which parts go to the file, on steps made by hand: tensors are whole parts, and all of them are away
   whenever they may be. */
#include "planning/swap/victims/swap_tiers.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#define NS_PER_S 1000000000u

static swap_step_box_t box;
static dao_swap_step_t step;
static dao_swap_parts_t parts;
static dao_swap_decision_t decisions[SWAP_STEP_KERNEL_MAX];

/* Carried tensors of these sizes; kernel k reads tensor reads[k]. */
static void begin(const uint64_t *sizes, uint32_t tensor_count, const uint32_t *reads, uint32_t kernel_count)
{
    swap_step_stream(&box, kernel_count, 1, 10);
    box.problem.tensor_count = tensor_count;
    for (uint32_t t = 0; t < tensor_count; t++) {
        box.tensors[t].size_bytes = sizes[t];
    }
    for (uint32_t k = 0; k < kernel_count; k++) {
        box.uses[k][0].tensor = reads[k];
    }
    box.problem.alignment_bytes = 1;
    box.problem.capacity_bytes = 1000;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S};
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_parts_init(&parts, &step, 0), DAO_OK);
    for (uint32_t g = 0; g < parts.inactive_count; g++) {
        decisions[g] = (dao_swap_decision_t){.is_away = true};
    }
}

static void end(void)
{
    dao_swap_parts_finish(&parts);
    dao_swap_step_finish(&step);
}

static dao_status_t send(uint64_t host_limit, uint64_t file_limit, dao_swap_tier_order_t order)
{
    bool has_file = false;
    box.problem.host.limit_bytes = host_limit;
    box.problem.file = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S, .limit_bytes = file_limit};
    return dao_swap_tiers(&parts, order, decisions, &has_file);
}

static bool is_sent(uint32_t tensor)
{
    return decisions[parts.first_inactive[step.first_access[tensor]]].is_file;
}

static void who_moves_most_often_does_not_go_last(void)
{
    begin((uint64_t[]){40, 100, 60}, 3, (uint32_t[]){0, 2, 1, 2}, 4);
    CU_ASSERT_EQUAL(send(110, 0, DAO_SWAP_TIER_ORDER_LONG), DAO_OK); /* 90 have to go, 40 do first */
    CU_ASSERT(is_sent(0) && is_sent(1) && !is_sent(2));              /* 60 would be enough, but move twice */
    CU_ASSERT_EQUAL(send(110, 100, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT(is_sent(0) && !is_sent(1) && is_sent(2)); /* the file has no room for 100 */
    end();
}

static void the_last_one_is_hardly_more_than_has_to_go(void)
{
    begin((uint64_t[]){40, 100, 70, 50, 10}, 5, (uint32_t[]){0, 1, 2, 3, 4}, 5);
    CU_ASSERT_EQUAL(send(270 - 90, 0, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT(is_sent(0) && !is_sent(1) && !is_sent(2) && is_sent(3) && !is_sent(4));
    CU_ASSERT_EQUAL(send(270 - 105, 107, DAO_SWAP_TIER_ORDER_LONG),
                    DAO_ERR_HOST_FULL); /* 40, 50, 10: 100 of 105 */
    CU_ASSERT_EQUAL(send(270 - 100, 107, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT(is_sent(0) && !is_sent(1) && !is_sent(2) && is_sent(3) && is_sent(4));
    end();
}

static void orders_fill_a_file_differently(void)
{
    begin((uint64_t[]){60, 40, 50}, 3, (uint32_t[]){2, 1, 0}, 3);
    CU_ASSERT_EQUAL(send(50, 100, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT_EQUAL(send(50, 100, DAO_SWAP_TIER_ORDER_SPREAD), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(send(50, 99, DAO_SWAP_TIER_ORDER_LONG), DAO_ERR_HOST_FULL); /* 100 have to go */
    end();
}

/* They are in the file all the time, and take no byte of a limit. */
static void what_comes_from_a_file_takes_no_room_of_a_tier(void)
{
    begin((uint64_t[]){40, 100, 60}, 3, (uint32_t[]){0, 1, 2}, 3);
    box.tensors[1].is_from_file = true;
    CU_ASSERT_EQUAL(send(100, 1, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT(!is_sent(0) && is_sent(1) && !is_sent(2));
    CU_ASSERT_EQUAL(send(99, 1, DAO_SWAP_TIER_ORDER_LONG), DAO_ERR_HOST_FULL);
    CU_ASSERT_EQUAL(send(99, 40, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    CU_ASSERT(is_sent(0) && is_sent(1) && !is_sent(2));
    end();
}

/* Workspaces are counted behind the tensors, and are none. */
static void a_workspace_comes_from_no_file(void)
{
    swap_step_stream(&box, 2, 100, 10);
    box.kernels[0].workspace_bytes = 50;
    box.tensors[2].is_from_file = true; /* behind the last one */
    box.problem.alignment_bytes = 1;
    box.problem.capacity_bytes = 1000;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S};
    CU_ASSERT_EQUAL_FATAL(dao_swap_step_init(&step, &box.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_parts_init(&parts, &step, 0), DAO_OK);
    CU_ASSERT_EQUAL(send(0, 0, DAO_SWAP_TIER_ORDER_LONG), DAO_OK);
    for (uint32_t g = 0; g < parts.inactive_count; g++) {
        CU_ASSERT_FALSE(decisions[g].is_file);
    }
    box.tensors[2].is_from_file = false;
    end();
}

/* A program that has had enough when it is asked for the n-th time. */
typedef struct patience {
    uint32_t limit, asked_count;
} patience_t;

static bool is_cancelled(void *user)
{
    patience_t *patience = user;
    return ++patience->asked_count >= patience->limit;
}

static void it_can_be_cancelled_at_any_time(void)
{
    enum { PARTS = 32 };
    uint64_t sizes[PARTS];
    uint32_t reads[PARTS];
    for (uint32_t i = 0; i < PARTS; i++) {
        sizes[i] = 10;
        reads[i] = i;
    }
    begin(sizes, PARTS, reads, PARTS);
    dao_status_t status = DAO_ERR_STOPPED;
    uint32_t limit = 0;
    while (status == DAO_ERR_STOPPED) {
        patience_t patience = {.limit = ++limit};
        dao_swap_cancel_t cancel = {.is_cancelled = is_cancelled, .user = &patience};
        step.cancel = &cancel;
        status = send(10, 0, DAO_SWAP_TIER_ORDER_LONG);
        CU_ASSERT(status == DAO_OK || patience.asked_count == limit);
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT(limit > PARTS + PARTS - 1); /* for each use, for each that is sent */
    end();
}

static CU_TestInfo tests[] = {
    {"who moves most often does not go last", who_moves_most_often_does_not_go_last},
    {"the last one is hardly more than has to go", the_last_one_is_hardly_more_than_has_to_go},
    {"orders fill a file differently", orders_fill_a_file_differently},
    {"what comes from a file takes no room of a tier", what_comes_from_a_file_takes_no_room_of_a_tier},
    {"a workspace comes from no file", a_workspace_comes_from_no_file},
    {"it can be cancelled at any time", it_can_be_cancelled_at_any_time},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap tiers", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
