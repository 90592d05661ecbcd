/* SPDX-License-Identifier: Apache-2.0 */
/* The table of live blocks, against a slow model. */
#include "allocators/accounting/block_map.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <string.h>

#define MODEL_COUNT 600u

static dao_block_map_t map;

static void begin(void)
{
    map = (dao_block_map_t){0};
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_block_map_is_valid(&map));
    dao_block_map_finish(&map);
}

/* Addresses are numbers here: nothing is touched. */
static char *address_of(uint64_t number)
{
    return (char *)(uintptr_t)(4096 + number * 1024);
}

static void insert(uint64_t number, size_t size_bytes, size_t pad_bytes)
{
    dao_block_entry_t entry = {.address = address_of(number),
                               .word = number,
                               .piece = {address_of(number) - pad_bytes, pad_bytes + size_bytes}};
    CU_ASSERT_TRUE_FATAL(dao_block_map_reserve(&map, 1));
    dao_block_map_insert(&map, &entry);
}

static void an_empty_table_has_nothing(void)
{
    CU_ASSERT_PTR_NULL(dao_block_map_find(&map, address_of(1)));
    CU_ASSERT_PTR_NULL(dao_block_map_around(&map, address_of(1)));
    CU_ASSERT_PTR_NULL(dao_block_map_find(&map, NULL));
    insert(1, 64, 0);
    CU_ASSERT_PTR_NULL(dao_block_map_find(&map, NULL));
    CU_ASSERT_PTR_NULL(dao_block_map_around(&map, NULL));
}

static void a_block_is_found_from_its_address_to_the_end_of_its_piece(void)
{
    insert(10, 500, 256);
    dao_block_entry_t *entry = dao_block_map_find(&map, address_of(10));
    CU_ASSERT_PTR_NOT_NULL_FATAL(entry);
    CU_ASSERT_EQUAL(entry->word, 10);
    CU_ASSERT_PTR_EQUAL(dao_block_map_around(&map, address_of(10) + 499), entry);
    CU_ASSERT_PTR_NULL(dao_block_map_around(&map, address_of(10) + 500));
    CU_ASSERT_PTR_NULL(dao_block_map_around(&map, address_of(10) - 1)); /* what the alignment has cost */
    CU_ASSERT_PTR_NULL(dao_block_map_find(&map, address_of(10) + 1));
}

static void random_changes_agree_with_a_model(void)
{
    uint64_t seed = dao_test_seed("block map", 21);
    static bool is_live[MODEL_COUNT];
    memset(is_live, 0, sizeof(is_live));
    size_t count = 0;
    for (size_t i = 0; i < 20000; i++) {
        uint64_t number = dao_random_next(&seed) % MODEL_COUNT;
        dao_block_entry_t *entry = dao_block_map_find(&map, address_of(number));
        CU_ASSERT_EQUAL_FATAL(entry != NULL, is_live[number]);
        if (entry != NULL) {
            CU_ASSERT_EQUAL(entry->word, number);
            dao_block_map_erase(&map, entry);
            count--;
        } else {
            insert(number, 1 + number % 900, 0);
            count++;
        }
        is_live[number] = !is_live[number];
        CU_ASSERT_EQUAL(map.count, count);
        CU_ASSERT_TRUE(i % 16 != 0 || dao_block_map_is_valid(&map));
    }
    for (uint64_t number = 0; number < MODEL_COUNT; number++) {
        CU_ASSERT_EQUAL(dao_block_map_find(&map, address_of(number)) != NULL, is_live[number]);
    }
}

static void a_block_that_is_out_of_place_is_not_valid(void)
{
    for (uint64_t number = 0; number < 20; number++) {
        insert(number, 64, 0);
    }
    CU_ASSERT_TRUE(dao_block_map_is_valid(&map));
    dao_block_entry_t *entry = dao_block_map_find(&map, address_of(7));
    dao_block_entry_t kept = *entry;
    *entry = (dao_block_entry_t){0}; /* taken out without closing the gap */
    CU_ASSERT_FALSE(dao_block_map_is_valid(&map));
    *entry = kept;
    entry->piece.address += 64; /* the address lies before its piece */
    CU_ASSERT_FALSE(dao_block_map_is_valid(&map));
    *entry = kept;
}

#if defined(DAO_FAULTS)
static void without_memory_nothing_is_lost(void)
{
    for (uint64_t number = 0; number < 48; number++) { /* three quarters of the first table */
        insert(number, 64, 0);
    }
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
    CU_ASSERT_FALSE(dao_block_map_reserve(&map, 1));
    CU_ASSERT_TRUE(dao_fault_disarm() > 0);
    CU_ASSERT_EQUAL(map.count, 48);
    for (uint64_t number = 0; number < 48; number++) {
        CU_ASSERT_PTR_NOT_NULL(dao_block_map_find(&map, address_of(number)));
    }
    CU_ASSERT_TRUE(dao_block_map_reserve(&map, 1));
}
#endif

static CU_TestInfo tests[] = {
    {"an empty table has nothing", an_empty_table_has_nothing},
    {"a block is found from its address to the end of its piece",
     a_block_is_found_from_its_address_to_the_end_of_its_piece},
    {"random changes agree with a model", random_changes_agree_with_a_model},
    {"a block that is out of place is not valid", a_block_that_is_out_of_place_is_not_valid},
#if defined(DAO_FAULTS)
    {"without memory nothing is lost", without_memory_nothing_is_lost},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"block map", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
