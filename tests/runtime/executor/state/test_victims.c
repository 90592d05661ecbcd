/* SPDX-License-Identifier: Apache-2.0 */
/* Victims: tensors come off in the order of their ranks, whatever has changed in between, against a search
   of all of them. */
#include "runtime/executor/core/engine_state.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/victims.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TENSOR_COUNT 60
#define ACTION_COUNT 3000

static uint64_t state;
static dao_engine_t engine;
static dao_managed_t tensors[TENSOR_COUNT];

static uint64_t below(uint64_t limit)
{
    return dao_random_next(&state) % limit;
}

static void begin(dao_policy_t policy)
{
    memset(&engine, 0, sizeof(engine));
    memset(tensors, 0, sizeof(tensors));
    engine.config.policy = policy;
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        tensors[i].id = i;
        tensors[i].size_bytes = 256 * (1 + below(20));
        tensors[i].table_next = engine.table;
        engine.table = &tensors[i];
    }
}

/* Returns true if `a` leaves before `b`, by the words of victims.h. */
static bool ranks_before(const dao_managed_t *a, const dao_managed_t *b)
{
    bool is_size = engine.config.policy == DAO_POLICY_SIZE;
    bool is_age = engine.config.policy == DAO_POLICY_LRU;
    uint64_t a_next = is_age ? DAO_TIME_NEVER : dao_victims_next_use(&engine, a);
    uint64_t b_next = is_age ? DAO_TIME_NEVER : dao_victims_next_use(&engine, b);
    bool a_is_clean = a->residency == DAO_RESIDENCY_BOTH;
    bool b_is_clean = b->residency == DAO_RESIDENCY_BOTH;
    if (is_size && a->size_bytes != b->size_bytes) {
        return a->size_bytes > b->size_bytes;
    }
    if (!is_size && a_next != b_next) {
        return a_next > b_next;
    }
    if (!is_size && a_next == DAO_TIME_NEVER && a->last_use_time != b->last_use_time) {
        return a->last_use_time < b->last_use_time;
    }
    return a_is_clean != b_is_clean ? a_is_clean : a->id < b->id;
}

static void change(dao_managed_t *tensor)
{
    engine.now += below(3);
    switch (below(4)) {
    case 0:
        tensor->has_device = false;
        tensor->residency = DAO_RESIDENCY_HOST;
        break;
    case 1:
        tensor->has_device = true;
        tensor->residency = below(2) == 0 ? DAO_RESIDENCY_DEVICE : DAO_RESIDENCY_BOTH;
        break;
    case 2:
        tensor->last_use_time = engine.now;
        break;
    case 3:
        tensor->forecast_time = below(2) == 0 ? 0 : engine.now + below(100);
        break;
    }
    dao_victims_update(&engine, tensor);
}

/* Takes all off: each ranks behind the one before, and none is missing. */
static void come_off_in_order(void)
{
    uint32_t on_device = 0;
    uint32_t count = 0;
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        dao_victims_update(&engine, &tensors[i]); /* a forecast that has passed ranks as `now` */
        on_device += tensors[i].has_device ? 1 : 0;
    }
    const dao_managed_t *before = NULL;
    for (dao_managed_t *tensor = dao_victims_pop(&engine); tensor != NULL;
         tensor = dao_victims_pop(&engine)) {
        CU_ASSERT_TRUE(tensor->has_device);
        CU_ASSERT_TRUE(before == NULL || ranks_before(before, tensor));
        before = tensor;
        count++;
    }
    CU_ASSERT_EQUAL(count, on_device);
    dao_victims_put_back(&engine);
}

static void run(dao_policy_t policy)
{
    begin(policy);
    for (uint32_t i = 0; i < ACTION_COUNT; i++) {
        change(&tensors[below(TENSOR_COUNT)]);
        if (i % 50 == 0) {
            CU_ASSERT_TRUE(dao_victims_is_valid(&engine));
            come_off_in_order();
            CU_ASSERT_TRUE(dao_victims_is_valid(&engine));
        }
    }
}

static void tensors_come_off_in_the_order_of_their_ranks(void)
{
    state = dao_test_seed("victims", 77);
    run(DAO_POLICY_LRU);
    run(DAO_POLICY_BELADY);
    run(DAO_POLICY_SIZE);
}

/* What was fetched early was used long ago, and is about to be used again. */
static void what_was_fetched_early_leaves_as_if_it_had_been_used(void)
{
    begin(DAO_POLICY_LRU);
    dao_use_t use = {.tensor = &tensors[1], .kind = DAO_USE_READ};
    dao_access_append(&use, 9);
    for (uint32_t i = 0; i < 3; i++) {
        tensors[i].has_device = true;
        tensors[i].residency = DAO_RESIDENCY_BOTH;
        tensors[i].last_use_time = 4 + i;
    }
    tensors[1].last_use_time = 1;
    tensors[1].is_early = true;
    for (uint32_t i = 0; i < 3; i++) {
        dao_victims_update(&engine, &tensors[i]);
    }
    static const uint32_t order[] = {0, 2, 1};
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_PTR_EQUAL(dao_victims_pop(&engine), &tensors[order[i]]);
    }
    dao_victims_put_back(&engine);
    uint64_t key = tensors[1].victim.key;
    tensors[1].is_early = false; /* the use has its time */
    dao_access_pop(&use);
    dao_victims_update(&engine, &tensors[1]);
    CU_ASSERT_EQUAL(tensors[1].victim.key, key);
    CU_ASSERT_TRUE(dao_victims_is_valid(&engine));
}

/* By size, it stays behind all others until its use. */
static void what_was_fetched_early_does_not_leave_as_the_largest(void)
{
    begin(DAO_POLICY_SIZE);
    for (uint32_t i = 0; i < 2; i++) {
        tensors[i].has_device = true;
        tensors[i].residency = DAO_RESIDENCY_BOTH;
        tensors[i].size_bytes = 1000 + i;
    }
    tensors[1].is_early = true;
    dao_victims_update(&engine, &tensors[0]);
    dao_victims_update(&engine, &tensors[1]);
    CU_ASSERT_PTR_EQUAL(dao_victims_pop(&engine), &tensors[0]);
    dao_victims_put_back(&engine);
    tensors[1].is_early = false;
    dao_victims_update(&engine, &tensors[1]);
    CU_ASSERT_PTR_EQUAL(dao_victims_pop(&engine), &tensors[1]);
    dao_victims_put_back(&engine);
}

static void what_is_not_on_the_device_is_not_in(void)
{
    state = 5;
    begin(DAO_POLICY_LRU);
    CU_ASSERT_PTR_NULL(dao_victims_pop(&engine));
    tensors[3].has_device = true;
    tensors[3].residency = DAO_RESIDENCY_BOTH;
    dao_victims_update(&engine, &tensors[3]);
    CU_ASSERT_EQUAL(engine.clean_bytes, tensors[3].size_bytes);
    dao_victims_remove(&engine, &tensors[3]);
    dao_victims_remove(&engine, &tensors[3]); /* once more changes nothing */
    CU_ASSERT_EQUAL(engine.clean_bytes, 0);
    CU_ASSERT_PTR_NULL(dao_victims_pop(&engine));
}

static void the_check_sees_what_is_wrong(void)
{
    state = 6;
    begin(DAO_POLICY_LRU);
    tensors[3].has_device = true;
    CU_ASSERT_FALSE(dao_victims_is_valid(&engine)); /* it is not in */
    dao_victims_update(&engine, &tensors[3]);
    tensors[4].has_device = true;
    dao_victims_update(&engine, &tensors[4]);
    CU_ASSERT_TRUE(dao_victims_is_valid(&engine));
    engine.first_victim->victim.key = 0; /* below its child's */
    CU_ASSERT_FALSE(dao_victims_is_valid(&engine));
}

static CU_TestInfo tests[] = {
    {"tensors come off in the order of their ranks", tensors_come_off_in_the_order_of_their_ranks},
    {"what was fetched early leaves as if it had been used",
     what_was_fetched_early_leaves_as_if_it_had_been_used},
    {"what was fetched early does not leave as the largest",
     what_was_fetched_early_does_not_leave_as_the_largest},
    {"what is not on the device is not in", what_is_not_on_the_device_is_not_in},
    {"the check sees what is wrong", the_check_sees_what_is_wrong},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"victims", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
