/* SPDX-License-Identifier: Apache-2.0 */
/* Slabs by themselves: classes, the states of a slab, the mail. The memory of objects is never touched. */
#include "allocators/slab/slab.h"
#include "tests/support/suite.h"

#define BASE       ((uintptr_t)0x7f0000000000)
#define UNIT_BYTES ((size_t)256)
#define CLASS      0u /* objects of one unit */
#define COUNT      8u /* objects of a slab here */

static dao_slabs_t slabs;
static uintptr_t next_address;

static void begin(void)
{
    dao_slabs_init(&slabs, &dao_slab_device_sizes);
    next_address = BASE;
}

static void recycle_all(void)
{
    for (dao_slab_t *slab = dao_slabs_take_retired(&slabs), *next; slab != NULL; slab = next) {
        next = slab->next;
        dao_slabs_recycle(&slabs, slab);
    }
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_slabs_is_valid(&slabs));
    recycle_all();
    dao_slabs_finish(&slabs);
}

static dao_slab_t *add(void)
{
    dao_slab_t *slab = dao_slabs_prepare(&slabs, CLASS, COUNT);
    CU_ASSERT_PTR_NOT_NULL_FATAL(slab);
    CU_ASSERT_TRUE_FATAL(dao_slabs_add(&slabs, slab, (void *)next_address));
    next_address += DAO_SLAB_BYTES_MAX;
    return slab;
}

static void give(void *address)
{
    dao_slabs_give(&slabs, dao_slabs_object_at(&slabs, address));
}

static uint32_t take(void **addresses, uint32_t most)
{
    dao_slab_item_t items[COUNT + 1];
    CU_ASSERT_TRUE_FATAL(most <= COUNT + 1);
    uint32_t count = dao_slabs_take(&slabs, CLASS, items, most);
    for (uint32_t i = 0; i < count; i++) {
        const dao_slab_item_t *item = &items[count - 1 - i];
        addresses[i] = atomic_load(&item->address);
        dao_slab_t *slab = dao_slabs_slab_of(&slabs, item);
        CU_ASSERT_EQUAL(dao_slab_object(slab, dao_slab_item_index(slab, item)),
                        dao_slabs_object_at(&slabs, addresses[i]));
    }
    return count;
}

static void every_size_has_the_smallest_class_that_holds_it(void)
{
    static const dao_slab_sizes_t *const all_sizes[] = {&dao_slab_device_sizes, &dao_slab_host_sizes};
    for (size_t i = 0; i < 2; i++) {
        const dao_slab_sizes_t *sizes = all_sizes[i];
        dao_slabs_t of_sizes;
        dao_slabs_init(&of_sizes, sizes);
        for (size_t size_bytes = 1; size_bytes <= DAO_SLAB_OBJECT_BYTES_MAX; size_bytes++) {
            uint32_t class_index = dao_slabs_class_of(&of_sizes, size_bytes);
            CU_ASSERT_TRUE(class_index < dao_slab_class_count(sizes));
            CU_ASSERT_TRUE(dao_slab_object_bytes(sizes, class_index) >= size_bytes);
            CU_ASSERT_TRUE(class_index == 0 || dao_slab_object_bytes(sizes, class_index - 1) < size_bytes);
        }
        CU_ASSERT_EQUAL(dao_slab_object_bytes(sizes, dao_slab_class_count(sizes) - 1),
                        DAO_SLAB_OBJECT_BYTES_MAX);
        dao_slabs_finish(&of_sizes);
    }
}

/* All offsets of a slab, for every size. */
static void an_offset_is_divided_exactly(void)
{
    static const dao_slab_sizes_t *const all_sizes[] = {&dao_slab_device_sizes, &dao_slab_host_sizes};
    for (size_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < dao_slab_class_count(all_sizes[i]); k++) {
            uint32_t object_bytes = dao_slab_object_bytes(all_sizes[i], k), wrong_count = 0;
            uint32_t reciprocal = dao_slab_reciprocal(object_bytes);
            for (uint32_t offset = 0; offset < DAO_SLAB_BYTES_MAX; offset++) {
                wrong_count += dao_slab_index(offset, reciprocal) != offset / object_bytes;
            }
            CU_ASSERT_EQUAL(wrong_count, 0);
        }
    }
}

static void objects_are_taken_by_address_and_found_again(void)
{
    void *addresses[COUNT + 1];
    add();
    CU_ASSERT_EQUAL(take(addresses, COUNT + 1), COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        CU_ASSERT_PTR_EQUAL(addresses[i], (void *)(BASE + i * UNIT_BYTES));
        uint64_t object = dao_slabs_object_at(&slabs, addresses[i]);
        CU_ASSERT_EQUAL(dao_slab_object_index(object), i);
    }
    CU_ASSERT_EQUAL(take(addresses, 1), 0);
    CU_ASSERT_EQUAL(slabs.classes[CLASS].out_count, COUNT);
}

static void count_block(const dao_block_t *block, void *user)
{
    (void)block;
    ++*(uint32_t *)user;
}

/* Its owner has freed it, and another thread is to take it back. */
static void an_object_left_to_another_thread_is_no_block(void)
{
    void *addresses[2];
    dao_slab_t *slab = add();
    CU_ASSERT_EQUAL_FATAL(take(addresses, 2), 2);
    atomic_store(&slab->words[0], dao_slab_word(100, 0));
    atomic_store(&slab->words[1], DAO_SLAB_WORD_LEFT);
    uint32_t block_count = 0;
    dao_slabs_walk(&slabs, count_block, &block_count);
    CU_ASSERT_EQUAL(block_count, 1);
    dao_recount_t recount = {0};
    CU_ASSERT_EQUAL(dao_slabs_recount(&slabs, &recount), UNIT_BYTES);
    CU_ASSERT_EQUAL(recount.live_count, 1);
    CU_ASSERT_EQUAL(recount.requested_bytes, 100);
    for (uint32_t i = 0; i < 2; i++) {
        atomic_store(&slab->words[i], 0);
        give(addresses[i]);
    }
}

static void a_full_slab_is_in_no_list_and_a_partial_one_is(void)
{
    void *addresses[COUNT];
    dao_slab_t *slab = add();
    CU_ASSERT_PTR_EQUAL(slabs.classes[CLASS].partial, slab);
    (void)take(addresses, COUNT);
    CU_ASSERT_PTR_NULL(slabs.classes[CLASS].partial);
    give(addresses[3]);
    CU_ASSERT_PTR_EQUAL(slabs.classes[CLASS].partial, slab);
    CU_ASSERT_TRUE(dao_slabs_is_valid(&slabs));
}

static void the_first_whole_slab_is_kept_and_the_next_one_ends(void)
{
    void *addresses[2 * COUNT];
    add();
    CU_ASSERT_EQUAL(take(addresses, COUNT), COUNT);
    add();
    CU_ASSERT_EQUAL(take(addresses + COUNT, COUNT), COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        give(addresses[i]);
    }
    CU_ASSERT_PTR_NOT_NULL(slabs.classes[CLASS].spare);
    CU_ASSERT_PTR_NULL(slabs.retired);
    for (uint32_t i = 0; i < COUNT; i++) {
        give(addresses[COUNT + i]);
    }
    CU_ASSERT_PTR_NOT_NULL(slabs.retired);
    CU_ASSERT_EQUAL(slabs.slab_count, 1);
    CU_ASSERT_EQUAL(dao_slab_map_find(&slabs.map, slabs.retired->address), 0);
    dao_slabs_drop_spares(&slabs);
    CU_ASSERT_EQUAL(slabs.slab_count, 0);
    CU_ASSERT_EQUAL(slabs.taken_count, slabs.given_count);
}

static void a_spare_slab_is_used_again(void)
{
    void *addresses[COUNT];
    dao_slab_t *slab = add();
    CU_ASSERT_EQUAL(take(addresses, 1), 1);
    give(addresses[0]);
    CU_ASSERT_PTR_EQUAL(slabs.classes[CLASS].spare, slab);
    CU_ASSERT_EQUAL(take(addresses, COUNT), COUNT);
    CU_ASSERT_PTR_NULL(slabs.classes[CLASS].spare);
}

static void a_descriptor_is_used_again(void)
{
    void *address;
    dao_slab_t *slab = add();
    CU_ASSERT_EQUAL(take(&address, 1), 1);
    give(address);
    dao_slabs_drop_spares(&slabs);
    recycle_all();
    CU_ASSERT_PTR_EQUAL(dao_slabs_prepare(&slabs, CLASS, COUNT), slab);
    dao_slabs_recycle(&slabs, slab);
}

static void what_was_mailed_is_put_back_by_a_drain(void)
{
    void *addresses[COUNT] = {NULL};
    add();
    CU_ASSERT_EQUAL(take(addresses, COUNT), COUNT);
    for (uint32_t i = 0; i < 3; i++) {
        dao_slabs_mail(&slabs, dao_slabs_object_at(&slabs, addresses[i]));
    }
    CU_ASSERT_EQUAL(dao_slabs_mail_bytes(&slabs), 3 * UNIT_BYTES);
    CU_ASSERT_EQUAL(slabs.classes[CLASS].out_count, COUNT);
    dao_slabs_drain(&slabs);
    CU_ASSERT_EQUAL(dao_slabs_mail_bytes(&slabs), 0);
    CU_ASSERT_EQUAL(slabs.classes[CLASS].out_count, COUNT - 3);
    dao_slabs_drain(&slabs); /* nothing is left */
    CU_ASSERT_EQUAL(slabs.classes[CLASS].out_count, COUNT - 3);
}

static void an_address_between_granules_is_refused(void)
{
    dao_slab_t *slab = dao_slabs_prepare(&slabs, CLASS, COUNT);
    CU_ASSERT_FALSE(dao_slabs_add(&slabs, slab, (void *)(BASE + UNIT_BYTES)));
    CU_ASSERT_EQUAL(slabs.slab_count, 0);
    dao_slabs_recycle(&slabs, slab);
}

static void an_object_is_found_from_within(void)
{
    uint32_t class_index = dao_slabs_class_of(&slabs, 3 * UNIT_BYTES), index = 0;
    dao_slab_t *slab = dao_slabs_prepare(&slabs, class_index, 5);
    CU_ASSERT_TRUE_FATAL(dao_slabs_add(&slabs, slab, (void *)BASE));
    const char *inside = (const char *)BASE + 3 * UNIT_BYTES + 700;
    uint64_t entry = dao_slab_map_find(&slabs.map, inside);
    CU_ASSERT_TRUE(dao_slab_entry_object_index(slabs.sizes, entry, inside, &index));
    CU_ASSERT_EQUAL(index, 1);
    CU_ASSERT_FALSE(dao_slab_entry_begins_object(slabs.sizes, entry, inside));
    CU_ASSERT_TRUE(dao_slab_entry_begins_object(slabs.sizes, entry, (const char *)BASE + 3 * UNIT_BYTES));
    CU_ASSERT_FALSE(
        dao_slab_entry_object_index(slabs.sizes, entry, (const char *)BASE + 15 * UNIT_BYTES, &index));
    dao_block_t block = dao_slab_describe(slabs.sizes, entry, inside, dao_slab_word(600, 9));
    CU_ASSERT_PTR_EQUAL(block.address, (char *)BASE + 3 * UNIT_BYTES);
    CU_ASSERT_EQUAL(block.requested_bytes, 600);
    CU_ASSERT_EQUAL(block.block_bytes, 3 * UNIT_BYTES);
    CU_ASSERT_EQUAL(block.tag, 9);
}

static CU_TestInfo tests[] = {
    {"every size has the smallest class that holds it", every_size_has_the_smallest_class_that_holds_it},
    {"an offset is divided exactly", an_offset_is_divided_exactly},
    {"objects are taken by address and found again", objects_are_taken_by_address_and_found_again},
    {"an object left to another thread is no block", an_object_left_to_another_thread_is_no_block},
    {"a full slab is in no list and a partial one is", a_full_slab_is_in_no_list_and_a_partial_one_is},
    {"the first whole slab is kept and the next one ends",
     the_first_whole_slab_is_kept_and_the_next_one_ends},
    {"a spare slab is used again", a_spare_slab_is_used_again},
    {"a descriptor is used again", a_descriptor_is_used_again},
    {"what was mailed is put back by a drain", what_was_mailed_is_put_back_by_a_drain},
    {"an address between granules is refused", an_address_between_granules_is_refused},
    {"an object is found from within", an_object_is_found_from_within},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"slabs", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
