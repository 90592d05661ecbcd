/* SPDX-License-Identifier: Apache-2.0 */
/* Which addresses belong to slabs: entries by granule, and the bits before them. */
#include "allocators/slab/slab_map.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#define BASE UINT64_C(0x7f0000000000)

static dao_slab_map_t map;

static void begin(void)
{
    dao_slab_map_init(&map);
}

static void end(void)
{
    dao_slab_map_finish(&map);
}

static void *at(uint64_t offset_bytes)
{
    return (void *)(uintptr_t)(BASE + offset_bytes);
}

static uint64_t find(uint64_t offset_bytes)
{
    return dao_slab_map_find(&map, at(offset_bytes));
}

static void an_entry_is_found_from_its_whole_granule(void)
{
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(0), DAO_SLAB_GRANULE_BYTES));
    CU_ASSERT_EQUAL(find(0), 0);
    dao_slab_map_set(&map, at(0), 42);
    CU_ASSERT_EQUAL(find(0), 42);
    CU_ASSERT_EQUAL(find(DAO_SLAB_GRANULE_BYTES - 1), 42);
    CU_ASSERT_EQUAL(find(DAO_SLAB_GRANULE_BYTES), 0);
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)(uintptr_t)(BASE - 1)), 0);
    dao_slab_map_set(&map, at(0), 0);
    CU_ASSERT_EQUAL(find(0), 0);
}

static void a_page_has_its_bit_as_long_as_an_entry(void)
{
    uint64_t granule = (BASE >> DAO_SLAB_GRANULE_SHIFT);
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(0), 2 * DAO_SLAB_GRANULE_BYTES));
    CU_ASSERT_FALSE(dao_slab_map_has_page(atomic_load(&map.root), granule));
    dao_slab_map_set(&map, at(0), 1);
    dao_slab_map_set(&map, at(DAO_SLAB_GRANULE_BYTES), 2);
    dao_slab_map_set(&map, at(0), 3); /* changed, not counted again */
    CU_ASSERT_TRUE(dao_slab_map_has_page(atomic_load(&map.root), granule));
    dao_slab_map_set(&map, at(0), 0);
    CU_ASSERT_TRUE(dao_slab_map_has_page(atomic_load(&map.root), granule));
    dao_slab_map_set(&map, at(DAO_SLAB_GRANULE_BYTES), 0);
    CU_ASSERT_FALSE(dao_slab_map_has_page(atomic_load(&map.root), granule));
}

static void pages_that_share_a_bit_share_nothing_else(void)
{
    uint64_t apart_bytes = (uint64_t)DAO_SLAB_MAP_PAGE_COUNT << DAO_SLAB_MAP_PAGE_SHIFT;
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(0), 1));
    dao_slab_map_set(&map, at(0), 5);
    CU_ASSERT_TRUE(
        dao_slab_map_has_page(atomic_load(&map.root), (BASE + apart_bytes) >> DAO_SLAB_GRANULE_SHIFT));
    CU_ASSERT_EQUAL(find(apart_bytes), 0); /* no leaf */
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(apart_bytes), 1));
    CU_ASSERT_EQUAL(find(apart_bytes), 0);
    dao_slab_map_set(&map, at(apart_bytes), 6);
    dao_slab_map_set(&map, at(0), 0);
    CU_ASSERT_EQUAL(find(apart_bytes), 6);
}

static void a_stretch_may_lie_in_two_leaves(void)
{
    uint64_t leaf_bytes = (uint64_t)DAO_SLAB_MAP_LEAF_COUNT << DAO_SLAB_GRANULE_SHIFT;
    uint64_t last = leaf_bytes - DAO_SLAB_GRANULE_BYTES - BASE % leaf_bytes;
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(last), 2 * DAO_SLAB_GRANULE_BYTES));
    dao_slab_map_set(&map, at(last), 7);
    dao_slab_map_set(&map, at(last + DAO_SLAB_GRANULE_BYTES), 8);
    CU_ASSERT_EQUAL(find(last), 7);
    CU_ASSERT_EQUAL(find(last + DAO_SLAB_GRANULE_BYTES), 8);
}

static void addresses_above_the_table_are_refused(void)
{
    void *above = (void *)(uintptr_t)(UINT64_C(1) << DAO_SLAB_MAP_ADDRESS_BITS);
    CU_ASSERT_FALSE(dao_slab_map_reserve(&map, above, 1));
    CU_ASSERT_FALSE(dao_slab_map_reserve(&map, (char *)above - 1, 2));
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, above), 0);
    CU_ASSERT_EQUAL(dao_slab_map_find(&map, (void *)UINTPTR_MAX), 0);
}

static void a_table_without_an_entry_has_no_memory(void)
{
    CU_ASSERT_EQUAL(find(0), 0);
    CU_ASSERT_PTR_EQUAL(atomic_load(&map.root), &dao_slab_map_none);
#if defined(DAO_FAULTS)
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 0, false);
    CU_ASSERT_FALSE(dao_slab_map_reserve(&map, at(0), 1)); /* no root */
    CU_ASSERT_PTR_EQUAL(atomic_load(&map.root), &dao_slab_map_none);
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 1, false);
    CU_ASSERT_FALSE(dao_slab_map_reserve(&map, at(0), 1)); /* no leaf */
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(find(0), 0);
    CU_ASSERT_TRUE_FATAL(dao_slab_map_reserve(&map, at(0), 1));
#endif
}

static CU_TestInfo tests[] = {
    {"a table without an entry has no memory", a_table_without_an_entry_has_no_memory},
    {"an entry is found from its whole granule", an_entry_is_found_from_its_whole_granule},
    {"a page has its bit as long as an entry", a_page_has_its_bit_as_long_as_an_entry},
    {"pages that share a bit share nothing else", pages_that_share_a_bit_share_nothing_else},
    {"a stretch may lie in two leaves", a_stretch_may_lie_in_two_leaves},
    {"addresses above the table are refused", addresses_above_the_table_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"slab map", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
