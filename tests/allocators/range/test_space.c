/* SPDX-License-Identifier: Apache-2.0 */
/* Many extents under one range: where they lie in the space, and how addresses and offsets agree. */
#include "allocators/range/space.h"
#include "tests/support/suite.h"

#define PAGE ((size_t)DAO_RANGE_PAGE_BYTES)
#define BASE ((uintptr_t)1 << 44)

static dao_space_t space;

static void begin(void)
{
    space = (dao_space_t){0};
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_space_is_valid(&space));
    dao_space_finish(&space);
}

static void add(uintptr_t address, size_t size_bytes)
{
    dao_range_place_t place;
    CU_ASSERT_EQUAL_FATAL(dao_space_find_place(&space, size_bytes, &place), DAO_OK);
    dao_space_add(&space, &place, (void *)address, size_bytes);
}

static void extents_are_listed_by_address(void)
{
    add(BASE + 3 * PAGE, PAGE);
    add(BASE, PAGE);
    add(BASE + 7 * PAGE + 512, 2 * PAGE);
    CU_ASSERT_EQUAL_FATAL(space.count, 3);
    CU_ASSERT_PTR_EQUAL(space.list[0].address, (char *)BASE);
    CU_ASSERT_PTR_EQUAL(space.list[1].address, (char *)BASE + 3 * PAGE);
    CU_ASSERT_PTR_EQUAL(space.list[2].address, (char *)BASE + 7 * PAGE + 512);
}

static void an_address_is_found_in_its_extent_alone(void)
{
    add(BASE, PAGE);
    add(BASE + 2 * PAGE, PAGE);
    CU_ASSERT_PTR_EQUAL(dao_space_extent(&space, (void *)(BASE + PAGE - 1)), &space.list[0]);
    CU_ASSERT_PTR_NULL(dao_space_extent(&space, (void *)(BASE + PAGE)));
    CU_ASSERT_PTR_EQUAL(dao_space_extent(&space, (void *)(BASE + 2 * PAGE)), &space.list[1]);
    CU_ASSERT_PTR_NULL(dao_space_extent(&space, (void *)(BASE - 1)));
    CU_ASSERT_PTR_NULL(dao_space_extent(&space, (void *)(BASE + 3 * PAGE)));
}

/* Returns true if an address has the offset that it has in the extent it lies in, or none that a block may
   have if it lies in none. */
static bool has_its_offset(uintptr_t address)
{
    const dao_extent_t *extent = dao_space_extent(&space, (void *)address);
    if (space.count == 0) {
        return extent == NULL;
    }
    uint64_t offset_bytes = dao_space_offset(&space, (void *)address);
    CU_ASSERT_TRUE(dao_space_is_valid(&space));
    if (extent != NULL) {
        return offset_bytes == dao_extent_offset(extent, (void *)address);
    }
    dao_range_block_t block;
    return dao_range_query(space.range, offset_bytes, &block) == DAO_ERR_FOREIGN_POINTER;
}

static void an_offset_goes_with_its_extent(void)
{
    CU_ASSERT_TRUE(has_its_offset(0) && has_its_offset(BASE));
    add(BASE, PAGE);
    add(BASE + 2 * PAGE, PAGE);
    CU_ASSERT_TRUE(has_its_offset(BASE + 3 * PAGE - 1) && has_its_offset(BASE + 3 * PAGE));
    CU_ASSERT_TRUE(has_its_offset(BASE + PAGE - 1) && has_its_offset(BASE + PAGE));
    dao_space_remove(&space, 0);
    CU_ASSERT_EQUAL(dao_space_offset(&space, (void *)BASE), DAO_SPACE_NONE);
    CU_ASSERT_TRUE(has_its_offset(BASE + 2 * PAGE));
    add(BASE, PAGE / 2);
    CU_ASSERT_TRUE(has_its_offset(BASE + PAGE / 2 - 1) && has_its_offset(BASE + PAGE / 2));
}

/* Pages of addresses that are so far apart share an entry. */
static void addresses_that_share_an_entry_have_their_own_offsets(void)
{
    add(BASE, PAGE);
    uintptr_t apart = BASE + (space.page_mask + 1) * PAGE;
    add(apart, PAGE);
    CU_ASSERT_TRUE(has_its_offset(BASE) && has_its_offset(apart));
    CU_ASSERT_TRUE(has_its_offset(BASE) && has_its_offset(apart));
}

static void of_two_extents_in_a_page_the_one_found_last_is_known(void)
{
    uintptr_t second = BASE + PAGE / 2;
    add(BASE, PAGE / 4);
    add(second, PAGE / 4);
    dao_range_block_t block;
    CU_ASSERT_TRUE(has_its_offset(BASE));
    uint64_t offset_bytes = dao_space_offset(&space, (void *)second);
    CU_ASSERT_EQUAL(dao_range_query(space.range, offset_bytes, &block), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_PTR_EQUAL(dao_space_find_extent(&space, (void *)second), &space.list[1]);
    CU_ASSERT_TRUE(has_its_offset(second));
}

static void offsets_and_addresses_agree_modulo_a_page(void)
{
    add(BASE + 768, 3 * PAGE);
    add(BASE + 9 * PAGE + 256, PAGE);
    for (size_t i = 0; i < space.count; i++) {
        const dao_extent_t *extent = &space.list[i];
        CU_ASSERT_EQUAL(extent->offset_bytes % PAGE, (uintptr_t)extent->address % PAGE);
        for (size_t at = 0; at < extent->size_bytes; at += PAGE / 4) {
            uint64_t offset_bytes = dao_extent_offset(extent, extent->address + at);
            CU_ASSERT_PTR_EQUAL(dao_space_address(&space, offset_bytes), extent->address + at);
        }
    }
}

static void one_search_places_blocks_in_all_extents(void)
{
    add(BASE, PAGE);
    add(BASE + 4 * PAGE, PAGE);
    dao_range_request_t whole = {.size_bytes = PAGE, .user = 1};
    dao_range_grant_t grants[2], none;
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc(space.range, &whole, &grants[0]), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_range_alloc(space.range, &whole, &grants[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_range_alloc(space.range, &whole, &none), DAO_ERR_LIMIT);
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_FALSE(dao_space_is_free(&space, i));
        dao_range_block_t block;
        CU_ASSERT_EQUAL(dao_range_free(space.range, grants[i].offset_bytes, NULL, &block), DAO_OK);
    }
    CU_ASSERT_TRUE(dao_space_is_free(&space, 0) && dao_space_is_free(&space, 1));
}

static void a_block_is_found_by_its_address(void)
{
    dao_range_block_t block;
    CU_ASSERT_EQUAL(dao_space_query(&space, (void *)BASE, &block), DAO_ERR_FOREIGN_POINTER);
    add(BASE, PAGE);
    CU_ASSERT_EQUAL(dao_space_query(&space, (void *)(BASE + PAGE - 1), &block), DAO_OK);
    CU_ASSERT_TRUE(block.is_free);
    CU_ASSERT_EQUAL(block.size_bytes, PAGE);
    CU_ASSERT_EQUAL(dao_space_query(&space, (void *)(BASE + PAGE), &block), DAO_ERR_FOREIGN_POINTER);
}

static void free_extents_are_not_merged(void)
{
    add(BASE, PAGE);
    add(BASE + PAGE, PAGE); /* neighbours by address */
    CU_ASSERT_EQUAL(dao_range_largest_hole(space.range), PAGE);
}

static void the_place_of_a_removed_extent_is_used_again(void)
{
    add(BASE, 2 * PAGE); /* a place has a page more than its extent, for any address in a page */
    add(BASE + 4 * PAGE, PAGE);
    uint64_t first_offset_bytes = space.list[0].offset_bytes;
    dao_space_remove(&space, 0);
    CU_ASSERT_EQUAL(space.count, 1);
    CU_ASSERT_PTR_NULL(dao_space_extent(&space, (void *)BASE));
    add(BASE + 8 * PAGE, PAGE);
    CU_ASSERT_EQUAL(space.list[1].offset_bytes, first_offset_bytes);
}

static void the_largest_extent_fits_once(void)
{
    dao_range_place_t place;
    add(BASE, DAO_SPACE_EXTENT_MAX);
    CU_ASSERT_EQUAL(dao_space_find_place(&space, DAO_SPACE_EXTENT_MAX, &place), DAO_ERR_LIMIT);
}

static CU_TestInfo tests[] = {
    {"extents are listed by address", extents_are_listed_by_address},
    {"an address is found in its extent alone", an_address_is_found_in_its_extent_alone},
    {"an offset goes with its extent", an_offset_goes_with_its_extent},
    {"addresses that share an entry have their own offsets",
     addresses_that_share_an_entry_have_their_own_offsets},
    {"of two extents in a page the one found last is known",
     of_two_extents_in_a_page_the_one_found_last_is_known},
    {"offsets and addresses agree modulo a page", offsets_and_addresses_agree_modulo_a_page},
    {"one search places blocks in all extents", one_search_places_blocks_in_all_extents},
    {"a block is found by its address", a_block_is_found_by_its_address},
    {"free extents are not merged", free_extents_are_not_merged},
    {"the place of a removed extent is used again", the_place_of_a_removed_extent_is_used_again},
    {"the largest extent fits once", the_largest_extent_fits_once},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"space", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
