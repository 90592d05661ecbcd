/* SPDX-License-Identifier: Apache-2.0 */
/* What a thread keeps for an owner, and the two ways in which that ends. */
#include "allocators/slab/magazines.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

/* An owner that lists its magazines, as the contract of attach and detach says. */
typedef struct listed {
    dao_magazine_owner_t owner;
    dao_magazines_t *first;
    uint32_t attach_count;
    uint32_t detach_count;
} listed_t;

static listed_t listed;
static const dao_slab_sizes_t *sizes = &dao_slab_device_sizes;

static void attach(dao_magazine_owner_t *owner, dao_magazines_t *magazines)
{
    listed_t *list = (listed_t *)owner; /* its first member */
    atomic_store(&magazines->epoch, DAO_MAGAZINES_EPOCH_NONE + 1);
    magazines->next = list->first;
    if (list->first != NULL) {
        list->first->previous = magazines;
    }
    list->first = magazines;
    list->attach_count++;
}

static void detach(dao_magazine_owner_t *owner, dao_magazines_t *magazines)
{
    listed_t *list = (listed_t *)owner;
    if (magazines->previous != NULL) {
        magazines->previous->next = magazines->next;
    } else {
        list->first = magazines->next;
    }
    if (magazines->next != NULL) {
        magazines->next->previous = magazines->previous;
    }
    list->detach_count++;
}

static void owner_begin(listed_t *list)
{
    *list = (listed_t){.owner = {.attach = attach, .detach = detach, .sizes = sizes}};
    dao_magazines_owner_init(&list->owner);
}

static void begin(void)
{
    owner_begin(&listed);
}

static void end(void)
{
    dao_magazines_owner_finish(&listed.owner, &listed.first);
    CU_ASSERT_PTR_NULL(listed.first);
}

static void a_thread_has_none_at_first(void)
{
    CU_ASSERT_PTR_EQUAL(dao_magazines_own(&listed.owner), &dao_magazines_none);
    CU_ASSERT_EQUAL(atomic_load(&dao_magazines_none.epoch), DAO_MAGAZINES_EPOCH_NONE);
}

static void a_thread_gets_empty_ones_of_its_own(void)
{
    dao_magazines_t *own = dao_magazines_create(&listed.owner);
    CU_ASSERT_PTR_NOT_NULL_FATAL(own);
    CU_ASSERT_PTR_EQUAL(dao_magazines_own(&listed.owner), own);
    CU_ASSERT_EQUAL(listed.attach_count, 1);
    CU_ASSERT_EQUAL(own->used_floor, -(int64_t)sizes->kept_bytes);
    for (uint32_t i = 0; i < dao_slab_class_count(sizes); i++) {
        const dao_magazine_t *magazine = &own->magazines[i];
        CU_ASSERT_EQUAL(atomic_load(&magazine->count), 0);
        CU_ASSERT_EQUAL(magazine->object_bytes, dao_slab_object_bytes(sizes, i));
        CU_ASSERT_TRUE(magazine->capacity >= DAO_MAGAZINE_OBJECT_MIN);
        CU_ASSERT_TRUE(magazine->capacity <= DAO_MAGAZINE_OBJECT_MAX);
        CU_ASSERT_TRUE(magazine->capacity == DAO_MAGAZINE_OBJECT_MIN ||
                       (size_t)magazine->object_bytes * magazine->capacity <= sizes->magazine_bytes);
        CU_ASSERT_TRUE(i == 0 ||
                       magazine->objects == own->magazines[i - 1].objects + own->magazines[i - 1].capacity);
    }
}

static void an_owner_that_ends_leaves_no_pointer(void)
{
    listed_t other;
    owner_begin(&other);
    CU_ASSERT_NOT_EQUAL(other.owner.slot, listed.owner.slot);
    CU_ASSERT_PTR_NOT_NULL_FATAL(dao_magazines_create(&other.owner));
    uint32_t slot = other.owner.slot;
    dao_magazines_owner_finish(&other.owner, &other.first);
    CU_ASSERT_EQUAL(other.detach_count, 0); /* it frees them itself */
    owner_begin(&other);
    CU_ASSERT_EQUAL(other.owner.slot, slot); /* the slot is used again, and nobody points there */
    CU_ASSERT_PTR_EQUAL(dao_magazines_own(&other.owner), &dao_magazines_none);
    dao_magazines_owner_finish(&other.owner, &other.first);
}

static void *create_own(void *user)
{
    listed_t *list = user;
    return dao_magazines_create(&list->owner) != NULL ? user : NULL;
}

static void a_thread_that_ends_takes_its_own_off(void)
{
    CU_ASSERT_PTR_NOT_NULL_FATAL(dao_magazines_create(&listed.owner));
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "other", create_own, &listed), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(listed.attach_count, 2);
    CU_ASSERT_EQUAL(listed.detach_count, 1);
    CU_ASSERT_PTR_EQUAL(listed.first, dao_magazines_own(&listed.owner));
    CU_ASSERT_PTR_NULL(listed.first->next);
}

static void an_owner_without_a_slot_does_without(void)
{
    static listed_t many[DAO_MAGAZINES_OWNER_MAX];
    for (uint32_t i = 0; i < DAO_MAGAZINES_OWNER_MAX; i++) {
        owner_begin(&many[i]); /* one slot is taken already */
    }
    listed_t *last = &many[DAO_MAGAZINES_OWNER_MAX - 1];
    CU_ASSERT_EQUAL(last->owner.slot, DAO_MAGAZINES_OWNER_MAX);
    CU_ASSERT_PTR_NULL(dao_magazines_create(&last->owner));
    CU_ASSERT_PTR_EQUAL(dao_magazines_own(&last->owner), &dao_magazines_none);
    for (uint32_t i = 0; i < DAO_MAGAZINES_OWNER_MAX; i++) {
        dao_magazines_owner_finish(&many[i].owner, &many[i].first);
    }
}

static CU_TestInfo tests[] = {
    {"a thread has none at first", a_thread_has_none_at_first},
    {"a thread gets empty ones of its own", a_thread_gets_empty_ones_of_its_own},
    {"an owner that ends leaves no pointer", an_owner_that_ends_leaves_no_pointer},
    {"a thread that ends takes its own off", a_thread_that_ends_takes_its_own_off},
    {"an owner without a slot does without", an_owner_without_a_slot_does_without},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"magazines", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
