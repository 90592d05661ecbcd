/* SPDX-License-Identifier: Apache-2.0 */
/* Policies: which window of blocks leaves, and that every answer is a minimal window of what may leave. */
#include "runtime/executor/online/policy.h"
#include "tests/support/suite.h"

#include <dao/status.h>

#include <string.h>

#define BLOCK_COUNT_MAX 24

static dao_policy_block_t blocks[BLOCK_COUNT_MAX];
static dao_policy_view_t view;

/* Begins a view at time 100 with all uses known up to 200. */
static void begin_view(dao_policy_t policy, uint64_t need_bytes)
{
    memset(blocks, 0, sizeof(blocks));
    view = (dao_policy_view_t){.blocks = blocks, .need_bytes = need_bytes, .horizon = 200, .policy = policy};
}

static dao_policy_block_t *add_block(uint64_t size_bytes)
{
    dao_policy_block_t *block = &blocks[view.block_count];
    block->offset_bytes = view.block_count == 0 ? 0 : block[-1].offset_bytes + block[-1].size_bytes;
    block->size_bytes = size_bytes;
    view.block_count++;
    return block;
}

static void add_free(uint64_t size_bytes)
{
    add_block(size_bytes)->is_free = true;
}

static void add_fixed(uint64_t size_bytes)
{
    add_block(size_bytes)->is_fixed = true;
}

static void add_tensor(uint64_t size_bytes, uint64_t last_use, uint64_t next_use, bool clean)
{
    add_block(size_bytes)->victim = (dao_victim_t){.id = view.block_count,
                                                   .name = "t",
                                                   .size_bytes = size_bytes,
                                                   .now = 100,
                                                   .last_use = last_use,
                                                   .next_use = next_use,
                                                   .clean = clean};
}

static void expect_window(size_t first, size_t last)
{
    size_t got_first = SIZE_MAX;
    size_t got_last = SIZE_MAX;
    CU_ASSERT_TRUE(dao_policy_choose(&view, &got_first, &got_last));
    CU_ASSERT_EQUAL(got_first, first);
    CU_ASSERT_EQUAL(got_last, last);
}

static void lru_clears_the_oldest(void)
{
    begin_view(DAO_POLICY_LRU, 512);
    add_tensor(512, 90, 101, false);
    add_tensor(512, 10, 101, false);
    add_tensor(512, 50, 101, false);
    expect_window(1, 1);
}

static void belady_clears_the_furthest_next_use(void)
{
    begin_view(DAO_POLICY_BELADY, 512);
    add_tensor(512, 10, 110, false);
    add_tensor(512, 10, 150, false);
    add_tensor(512, 10, 190, false);
    expect_window(2, 2);
}

static void belady_prefers_no_known_next_use_and_there_the_older(void)
{
    begin_view(DAO_POLICY_BELADY, 512);
    add_tensor(512, 10, 200, false);
    add_tensor(512, 60, UINT64_MAX, false);
    add_tensor(512, 20, UINT64_MAX, false);
    expect_window(2, 2);
}

static void a_ranking_is_judged_by_its_worst_victim(void)
{
    begin_view(DAO_POLICY_BELADY, 1024);
    add_tensor(512, 10, 199, false); /* the furthest of all, but beside one that is needed at once */
    add_tensor(512, 10, 101, false);
    add_tensor(512, 10, 150, false);
    add_tensor(512, 10, 160, false);
    expect_window(2, 3);
}

static void weighted_policies_take_the_mean_by_bytes(void)
{
    begin_view(DAO_POLICY_WEIGHTED_BELADY, 1024);
    add_tensor(256, 10, 105, false);
    add_tensor(768, 10, 190, false); /* mean about 69 */
    add_fixed(256);
    add_tensor(512, 10, 150, false);
    add_tensor(512, 10, 160, false); /* mean 56 */
    expect_window(0, 1);
    view.policy = DAO_POLICY_BELADY; /* by the worst victim it is the other one */
    expect_window(3, 4);

    begin_view(DAO_POLICY_WEIGHTED_LRU, 1024);
    add_tensor(512, 40, 101, false);
    add_tensor(512, 40, 101, false);
    add_fixed(256);
    add_tensor(768, 5, 101, false);
    add_tensor(256, 95, 101, false);
    expect_window(3, 4);
    view.policy = DAO_POLICY_LRU;
    expect_window(0, 1);
}

static void window_weighs_bytes_to_move_against_distance(void)
{
    begin_view(DAO_POLICY_WINDOW, 512);
    add_tensor(4096, 10, 150, false); /* moves 8 KiB */
    add_tensor(512, 10, 150, false);  /* moves 1 KiB */
    add_tensor(512, 10, 150, true);   /* clean: moves 512 bytes */
    add_tensor(512, 10, 101, true);   /* clean, but needed at once */
    expect_window(2, 2);
}

static void size_clears_the_largest(void)
{
    begin_view(DAO_POLICY_SIZE, 256);
    add_tensor(512, 1, 101, false);
    add_tensor(2048, 99, 101, false);
    add_tensor(1024, 1, 101, false);
    expect_window(1, 1);
}

static double prefer_id_2(const dao_victim_t *victim, void *user)
{
    ++*(int *)user;
    return victim->id == 2 ? 10 : 1;
}

static void the_program_may_score(void)
{
    int calls = 0;
    begin_view(DAO_POLICY_USER, 256);
    view.score = prefer_id_2;
    view.score_user = &calls;
    add_tensor(256, 1, 101, false);
    add_tensor(256, 1, 101, false);
    add_tensor(256, 1, 101, false);
    expect_window(1, 1);
    CU_ASSERT_TRUE(calls >= 3);
}

static void free_neighbours_count_and_an_exact_fit_is_enough(void)
{
    begin_view(DAO_POLICY_LRU, 1024);
    add_tensor(512, 1, 101, false);
    add_fixed(256);
    add_free(512);
    add_tensor(512, 50, 101, false);
    add_tensor(512, 99, 101, false);
    expect_window(2, 3);
}

static void ties_go_to_fewer_copies_then_to_the_lower_address(void)
{
    begin_view(DAO_POLICY_LRU, 256);
    add_tensor(256, 10, 101, false);
    add_tensor(256, 10, 101, true);
    add_tensor(256, 10, 101, true);
    expect_window(1, 1);
}

static void what_must_stay_may_leave_no_window(void)
{
    size_t first = 7;
    size_t last = 7;
    begin_view(DAO_POLICY_LRU, 1024);
    add_tensor(512, 1, 101, false);
    add_fixed(256);
    add_tensor(768, 1, 101, false);
    CU_ASSERT_FALSE(dao_policy_choose(&view, &first, &last));
    CU_ASSERT_EQUAL(first, 7);
    view.block_count = 0;
    CU_ASSERT_FALSE(dao_policy_choose(&view, &first, &last));
}

/* What every answer owes, and that there is one whenever any window fits. */
static void check_against_brute_force(void)
{
    size_t first = 0;
    size_t last = 0;
    bool found = dao_policy_choose(&view, &first, &last);
    bool exists = false;
    for (size_t begin = 0; begin < view.block_count; begin++) {
        uint64_t bytes = 0;
        for (size_t i = begin; i < view.block_count && !blocks[i].is_fixed; i++) {
            bytes += blocks[i].size_bytes;
            exists = exists || bytes >= view.need_bytes;
        }
    }
    CU_ASSERT_EQUAL(found, exists);
    if (!found) {
        return;
    }
    uint64_t bytes = 0;
    for (size_t i = first; i <= last; i++) {
        CU_ASSERT_FALSE(blocks[i].is_fixed);
        bytes += blocks[i].size_bytes;
    }
    CU_ASSERT_TRUE(bytes >= view.need_bytes);
    CU_ASSERT_TRUE(first == last || bytes - blocks[first].size_bytes < view.need_bytes);
    CU_ASSERT_TRUE(first == last || bytes - blocks[last].size_bytes < view.need_bytes);
}

static void every_answer_is_a_minimal_window(void)
{
    uint64_t state = dao_test_seed("minimal windows", 7);
    int calls = 0;
    for (int round = 0; round < 20000; round++) {
        begin_view((dao_policy_t)(dao_random_next(&state) % 7), 256 * (1 + dao_random_next(&state) % 12));
        view.score = prefer_id_2;
        view.score_user = &calls;
        size_t count = dao_random_next(&state) % BLOCK_COUNT_MAX;
        for (size_t i = 0; i < count; i++) {
            uint64_t size_bytes = 256 * (1 + dao_random_next(&state) % 6);
            switch (dao_random_next(&state) % 6) {
            case 0:
                add_fixed(size_bytes);
                break;
            case 1:
                add_free(size_bytes);
                break;
            default:
                add_tensor(size_bytes, dao_random_next(&state) % 100, 100 + dao_random_next(&state) % 100,
                           dao_random_next(&state) % 2 == 0);
            }
        }
        check_against_brute_force();
    }
}

static void names_go_both_ways(void)
{
    dao_policy_t policy = DAO_POLICY_SIZE;
#define CHECK_NAME(number, name, text, meaning)                                                              \
    CU_ASSERT_EQUAL(dao_policy_parse(text, &policy), DAO_OK);                                                \
    CU_ASSERT_EQUAL(policy, DAO_POLICY_##name);                                                              \
    CU_ASSERT_STRING_EQUAL(dao_policy_name(DAO_POLICY_##name), text);
    DAO_POLICY_LIST(CHECK_NAME)
#undef CHECK_NAME
    CU_ASSERT_EQUAL(dao_policy_parse("best", &policy), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "weighted_belady"));
    CU_ASSERT_EQUAL(dao_policy_parse(NULL, &policy), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_policy_name((dao_policy_t)99), "unknown");
}

static CU_TestInfo tests[] = {
    {"lru clears the oldest", lru_clears_the_oldest},
    {"belady clears the furthest next use", belady_clears_the_furthest_next_use},
    {"belady prefers no known next use, and there the older",
     belady_prefers_no_known_next_use_and_there_the_older},
    {"a ranking is judged by its worst victim", a_ranking_is_judged_by_its_worst_victim},
    {"weighted policies take the mean by bytes", weighted_policies_take_the_mean_by_bytes},
    {"window weighs bytes to move against distance", window_weighs_bytes_to_move_against_distance},
    {"size clears the largest", size_clears_the_largest},
    {"the program may score", the_program_may_score},
    {"free neighbours count, and an exact fit is enough", free_neighbours_count_and_an_exact_fit_is_enough},
    {"ties go to fewer copies, then to the lower address", ties_go_to_fewer_copies_then_to_the_lower_address},
    {"what must stay may leave no window", what_must_stay_may_leave_no_window},
    {"every answer is a minimal window", every_answer_is_a_minimal_window},
    {"names go both ways", names_go_both_ways},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"policy", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
