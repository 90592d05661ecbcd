/* SPDX-License-Identifier: Apache-2.0 */
/* Following a script: each request is its entry, and those around a request that is new, missing or resized
   are theirs. */
#include "planning/steps/follow.h"
#include "tests/support/suite.h"

enum { COUNT = 400, NEW_UNITS = 1 << 20, SHIFT_COUNT = 3 };

static dao_script_t *script;
static dao_follow_t follow;
static uint64_t sizes[COUNT]; /* in units */

static uint64_t key_of(uint32_t index)
{
    return index % 4 == 3 ? 1 + index % 5 : 0;
}

static uint32_t slot_of(uint32_t index)
{
    return index / 7 % 3;
}

/* Sizes that come again and again, as in recorded steps. */
static void begin(void)
{
    dao_lifetimes_t recording;
    uint64_t state = dao_test_seed("following", 7);
    CU_ASSERT_EQUAL_FATAL(dao_lifetimes_init(&recording, 1), DAO_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        sizes[i] = 1 + dao_random_next(&state) % 37;
        dao_lifetime_t item = {
            .size_bytes = sizes[i] * DAO_LIFETIME_UNIT_BYTES, .key = key_of(i), .slot = (uint16_t)slot_of(i)};
        CU_ASSERT_EQUAL(dao_lifetimes_add(&recording, &item), i);
    }
    CU_ASSERT_EQUAL_FATAL(dao_script_create(COUNT, &script), DAO_OK);
    dao_script_fill(script, &recording, DAO_LIFETIME_OPEN);
    CU_ASSERT_EQUAL_FATAL(dao_script_index(script), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_follow_init(&follow, script), DAO_OK);
    dao_lifetimes_finish(&recording);
}

static void end(void)
{
    dao_follow_finish(&follow);
    dao_script_destroy(script);
}

static uint32_t ask(uint32_t index, uint64_t units)
{
    uint32_t entry = dao_follow_next(&follow, slot_of(index), key_of(index), units * DAO_LIFETIME_UNIT_BYTES);
    CU_ASSERT_TRUE(dao_follow_is_valid(&follow));
    return entry;
}

/* Asks as recorded from an index on; returns how many are found as the entry that they are. */
static uint32_t ask_from(uint32_t index)
{
    uint32_t found_count = 0;
    for (; index < COUNT; index++) {
        found_count += ask(index, sizes[index]) == index;
    }
    return found_count;
}

static void every_request_is_its_entry_in_each_pass(void)
{
    for (int pass = 0; pass < 3; pass++) {
        dao_follow_restart(&follow);
        CU_ASSERT_EQUAL(ask_from(0), COUNT);
        CU_ASSERT_EQUAL(ask(0, sizes[0]), DAO_SCRIPT_NONE); /* none is found twice */
    }
}

static void what_is_new_costs_no_other_its_entry(void)
{
    for (uint32_t i = 0; i < COUNT; i++) {
        for (uint32_t k = 0; i % 20 == 0 && k < SHIFT_COUNT; k++) {
            CU_ASSERT_EQUAL(dao_follow_next(&follow, slot_of(i), 0, (uint64_t)NEW_UNITS << k),
                            DAO_SCRIPT_NONE);
        }
        CU_ASSERT_EQUAL(ask(i, sizes[i]), i);
    }
}

static void a_resized_request_is_its_entry(void)
{
    uint32_t found_count = 0;
    for (uint32_t i = 0; i < COUNT; i++) {
        bool is_resized = i % 20 == 0;
        uint32_t entry = ask(i, is_resized ? 40 + sizes[i] % 5 : sizes[i]);
        found_count += entry == i;
        CU_ASSERT_TRUE(entry == i || entry == DAO_SCRIPT_NONE || is_resized || sizes[entry] == sizes[i]);
    }
    CU_ASSERT_TRUE(found_count >= COUNT - COUNT / 10);
}

static void a_program_that_leaves_most_out_is_found_again(void)
{
    CU_ASSERT_EQUAL(ask(0, sizes[0]), 0);
    uint32_t first = COUNT / 2; /* requests with a key, a fourth, are those whose turn it is */
    CU_ASSERT_TRUE(ask_from(first) >= (COUNT - first) / 2);
}

static void every_key_has_a_place(void)
{
    dao_lifetimes_t recording;
    dao_script_t *keyed = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_lifetimes_init(&recording, 1), DAO_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        dao_lifetime_t item = {.size_bytes = DAO_LIFETIME_UNIT_BYTES, .key = 1 + i};
        CU_ASSERT_EQUAL(dao_lifetimes_add(&recording, &item), i);
    }
    CU_ASSERT_EQUAL_FATAL(dao_script_create(COUNT, &keyed), DAO_OK);
    dao_script_fill(keyed, &recording, DAO_LIFETIME_OPEN);
    CU_ASSERT_EQUAL_FATAL(dao_script_index(keyed), DAO_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        const dao_script_key_t *found = &keyed->keys[dao_script_key_slot(keyed, 1 + i)];
        CU_ASSERT(found->key == 1 + i && found->first == i);
    }
    CU_ASSERT_EQUAL(keyed->keys[dao_script_key_slot(keyed, 1 + COUNT)].key, 0);
    dao_script_destroy(keyed);
    dao_lifetimes_finish(&recording);
}

static CU_TestInfo tests[] = {
    {"every request is its entry in each pass", every_request_is_its_entry_in_each_pass},
    {"what is new costs no other its entry", what_is_new_costs_no_other_its_entry},
    {"a resized request is its entry", a_resized_request_is_its_entry},
    {"a program that leaves most out is found again", a_program_that_leaves_most_out_is_found_again},
    {"every key has a place", every_key_has_a_place},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"follow", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
