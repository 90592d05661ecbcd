/* SPDX-License-Identifier: Apache-2.0 */
/* The table of blocks with checksums: states, damage, and random changes against a model. */
#include "allocators/layers/descriptors.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#define MODEL_COUNT 400u

static dao_descriptors_t descriptors;

static void begin(void)
{
    dao_descriptors_init(&descriptors, true);
}

static void end(void)
{
    dao_descriptors_finish(&descriptors);
}

static void *address_of(uint64_t number)
{
    return (void *)(uintptr_t)(4096 + number * 256);
}

static void insert(uint64_t number)
{
    CU_ASSERT_TRUE_FATAL(dao_descriptors_reserve(&descriptors));
    dao_descriptors_insert(&descriptors, address_of(number), number + 1, 256);
}

static dao_descriptor_t *find(uint64_t number)
{
    dao_descriptor_search_t search = dao_descriptors_find(&descriptors, address_of(number));
    return search.is_intact ? search.descriptor : NULL;
}

static void a_new_one_is_live(void)
{
    CU_ASSERT_PTR_NULL(dao_descriptors_find(&descriptors, address_of(1)).descriptor);
    insert(1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(find(1));
    CU_ASSERT_EQUAL(find(1)->state, DAO_DESCRIPTOR_LIVE);
    CU_ASSERT_TRUE(dao_descriptor_is_live(find(1)));
    CU_ASSERT_EQUAL(find(1)->word, 2);
    CU_ASSERT_EQUAL(descriptors.promised_count, 0);
}

static void states_go_along_the_arrows(void)
{
    static const dao_descriptor_state_t way[] = {
        DAO_DESCRIPTOR_LIVE_CHECKED, DAO_DESCRIPTOR_LIVE,        DAO_DESCRIPTOR_FREEING,
        DAO_DESCRIPTOR_LEAVING,      DAO_DESCRIPTOR_QUARANTINED, DAO_DESCRIPTOR_QUARANTINED_CHECKED,
        DAO_DESCRIPTOR_QUARANTINED,  DAO_DESCRIPTOR_LEAVING,     DAO_DESCRIPTOR_RETIRED};
    insert(1);
    for (size_t i = 0; i < sizeof(way) / sizeof(way[0]); i++) {
        dao_descriptors_set_state(find(1), way[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(find(1)); /* its checksum is right */
        CU_ASSERT_EQUAL(dao_descriptor_is_live(find(1)), way[i] <= DAO_DESCRIPTOR_FREEING);
    }
    dao_descriptors_reuse(find(1), 77);
    CU_ASSERT_EQUAL(find(1)->word, 77);
    CU_ASSERT_EQUAL(find(1)->state, DAO_DESCRIPTOR_LIVE);
}

static void a_promise_keeps_room(void)
{
    for (size_t i = 0; i < 49; i++) { /* more than three quarters of the first table */
        CU_ASSERT_TRUE_FATAL(dao_descriptors_reserve(&descriptors));
    }
    CU_ASSERT_TRUE(descriptors.capacity >= 128);
    CU_ASSERT_TRUE(dao_descriptors_is_valid(&descriptors));
    for (size_t i = 0; i < 49; i++) {
        dao_descriptors_unreserve(&descriptors);
    }
    CU_ASSERT_EQUAL(descriptors.promised_count, 0);
}

static void every_bit_counts(void)
{
    insert(1);
    dao_descriptor_t *descriptor = find(1);
    uint64_t *fields[] = {&descriptor->word, &descriptor->block_bytes, &descriptor->state,
                          &descriptor->checksum};
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        for (uint32_t bit = 0; bit < 64; bit++) {
            *fields[i] ^= UINT64_C(1) << bit;
            CU_ASSERT_FALSE(dao_descriptor_is_intact(&descriptors, descriptor));
            CU_ASSERT_FALSE(dao_descriptors_find(&descriptors, address_of(1)).is_intact);
            *fields[i] ^= UINT64_C(1) << bit;
        }
    }
    CU_ASSERT_TRUE(dao_descriptors_is_valid(&descriptors));
}

static void a_damaged_one_hides_no_other(void)
{
    for (uint64_t number = 0; number < 40; number++) {
        insert(number);
    }
    uint64_t address = find(7)->address;
    dao_descriptor_t *damaged = find(7);
    damaged->address ^= 1; /* it is nobody's now */
    CU_ASSERT_FALSE(dao_descriptors_is_valid(&descriptors));
    for (uint64_t number = 0; number < 40; number += 2) {
        dao_descriptors_erase(&descriptors, find(number)); /* what is behind it moves, it stays */
    }
    for (uint64_t number = 1; number < 40; number += 2) {
        CU_ASSERT_EQUAL(find(number) != NULL, number != 7);
    }
    damaged->address = address;
    CU_ASSERT_TRUE(dao_descriptor_is_intact(&descriptors, damaged));
}

static void without_checks_damage_is_not_looked_for(void)
{
    dao_descriptors_init(&descriptors, false);
    insert(1);
    find(1)->checksum ^= 1;
    CU_ASSERT_PTR_NOT_NULL(find(1));
}

static void random_changes_agree_with_a_model(void)
{
    bool is_there[MODEL_COUNT] = {false};
    uint64_t random = dao_test_seed("descriptors", 1);
    for (int i = 0; i < 20000; i++) {
        uint64_t number = dao_random_below(&random, MODEL_COUNT);
        CU_ASSERT_EQUAL(find(number) != NULL, is_there[number]);
        if (is_there[number]) {
            dao_descriptors_erase(&descriptors, find(number));
        } else {
            insert(number);
        }
        is_there[number] = !is_there[number];
    }
    CU_ASSERT_TRUE(dao_descriptors_is_valid(&descriptors));
}

#if defined(DAO_FAULTS)
static void without_memory_nothing_is_promised(void)
{
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_FALSE(dao_descriptors_reserve(&descriptors));
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    CU_ASSERT_EQUAL(descriptors.promised_count, 0);
    insert(1);
}
#endif

static CU_TestInfo tests[] = {
    {"a new one is live", a_new_one_is_live},
    {"states go along the arrows", states_go_along_the_arrows},
    {"a promise keeps room", a_promise_keeps_room},
    {"every bit counts", every_bit_counts},
    {"a damaged one hides no other", a_damaged_one_hides_no_other},
    {"without checks damage is not looked for", without_checks_damage_is_not_looked_for},
    {"random changes agree with a model", random_changes_agree_with_a_model},
#if defined(DAO_FAULTS)
    {"without memory nothing is promised", without_memory_nothing_is_promised},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"descriptors", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
