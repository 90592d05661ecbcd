/* SPDX-License-Identifier: Apache-2.0 */
/* The probe table, by a kind whose hash is the key, so that a test chooses where entries stand. */
#include "base/memory/probe_table.h"
#include "tests/support/suite.h"

#define CAPACITY 16u

typedef struct entry {
    uint32_t key;
    uint32_t value;
} entry_t;

static entry_t entries[CAPACITY];
static size_t count;

static uint64_t key_of(const void *entry)
{
    return ((const entry_t *)entry)->key;
}

static uint64_t hash_of(uint64_t key)
{
    return key;
}

static bool is_empty(const void *entry)
{
    return ((const entry_t *)entry)->key == 0;
}

/* The owner is the key of the entry that must stay. */
static bool may_move(const void *entry, const void *owner)
{
    return ((const entry_t *)entry)->key != *(const uint32_t *)owner;
}

static const dao_probe_kind_t kind = {
    .entry_bytes = sizeof(entry_t), .key_of = key_of, .hash_of = hash_of, .is_empty = is_empty};

static void begin(void)
{
    memset(entries, 0, sizeof(entries));
    count = 0;
}

static void end(void)
{
    CU_ASSERT_TRUE(dao_probe_is_valid(&kind, entries, CAPACITY, count));
}

static entry_t *find(uint32_t key)
{
    return dao_probe_find(&kind, entries, CAPACITY, key);
}

static bool has(uint32_t key)
{
    return find(key)->key == key;
}

static void insert(uint32_t key)
{
    entry_t *entry = dao_probe_empty(&kind, entries, CAPACITY, key);
    *entry = (entry_t){key, ~key};
    count++;
}

static void erase(uint32_t key)
{
    dao_probe_erase(&kind, entries, CAPACITY, find(key), NULL);
    count--;
}

static void an_empty_table_has_nothing(void)
{
    CU_ASSERT_FALSE(has(1));
    CU_ASSERT_PTR_EQUAL(find(5), &entries[5]);
    CU_ASSERT_TRUE(dao_probe_is_valid(&kind, NULL, 0, 0));
    CU_ASSERT_FALSE(dao_probe_is_valid(&kind, NULL, 0, 1));
}

static void entries_of_one_home_stand_behind_each_other(void)
{
    insert(3);
    insert(3 + CAPACITY);
    insert(3 + 2 * CAPACITY);
    CU_ASSERT_PTR_EQUAL(find(3), &entries[3]);
    CU_ASSERT_PTR_EQUAL(find(3 + CAPACITY), &entries[4]);
    CU_ASSERT_PTR_EQUAL(find(3 + 2 * CAPACITY), &entries[5]);
    CU_ASSERT_FALSE(has(3 + 3 * CAPACITY));
}

static void probes_go_on_at_the_begin_of_the_table(void)
{
    insert(CAPACITY - 1);
    insert(2 * CAPACITY - 1);
    CU_ASSERT_PTR_EQUAL(find(2 * CAPACITY - 1), &entries[0]);
    erase(CAPACITY - 1);
    CU_ASSERT_PTR_EQUAL(find(2 * CAPACITY - 1), &entries[CAPACITY - 1]);
    CU_ASSERT_EQUAL(entries[0].key, 0);
}

static void an_erased_entry_leaves_no_gap(void)
{
    insert(3);
    insert(3 + CAPACITY);
    insert(5); /* at home: stays */
    insert(4); /* behind 5 */
    erase(3);
    CU_ASSERT_PTR_EQUAL(find(3 + CAPACITY), &entries[3]);
    CU_ASSERT_PTR_EQUAL(find(4), &entries[4]);
    CU_ASSERT_PTR_EQUAL(find(5), &entries[5]);
    CU_ASSERT_EQUAL(entries[6].key, 0);
    CU_ASSERT_EQUAL(find(4)->value, ~4u);
}

static void an_entry_that_must_stay_is_passed_over(void)
{
    dao_probe_kind_t strict = kind;
    strict.may_move = may_move;
    uint32_t fixed = 3 + CAPACITY;
    insert(3);
    insert(fixed);
    insert(3 + 2 * CAPACITY);
    dao_probe_erase(&strict, entries, CAPACITY, find(3), &fixed);
    count--;
    CU_ASSERT_EQUAL(entries[3].key, 3 + 2 * CAPACITY);
    CU_ASSERT_EQUAL(entries[4].key, fixed);
    CU_ASSERT_EQUAL(entries[5].key, 0);
}

static void a_larger_table_has_all_entries(void)
{
    entry_t larger[2 * CAPACITY] = {{0}};
    for (uint32_t i = 1; i <= 12; i++) {
        insert(i * 7);
    }
    CU_ASSERT_TRUE(dao_probe_has_room(CAPACITY, count));
    CU_ASSERT_FALSE(dao_probe_has_room(CAPACITY, count + 1));
    dao_probe_copy_all(&kind, entries, CAPACITY, larger, 2 * CAPACITY);
    CU_ASSERT_TRUE(dao_probe_is_valid(&kind, larger, 2 * CAPACITY, count));
    for (uint32_t i = 1; i <= 12; i++) {
        const entry_t *entry = dao_probe_find(&kind, larger, 2 * CAPACITY, i * 7);
        CU_ASSERT_EQUAL(entry->value, ~(i * 7));
    }
}

static void what_is_wrong_is_found(void)
{
    insert(3);
    insert(3 + CAPACITY);
    CU_ASSERT_FALSE(dao_probe_is_valid(&kind, entries, CAPACITY, 1)); /* the count */
    entries[3].key = 0;                                               /* a gap before the second */
    CU_ASSERT_FALSE(dao_probe_is_valid(&kind, entries, CAPACITY, 1));
    entries[3].key = 3;
    CU_ASSERT_FALSE(dao_probe_is_valid(&kind, entries, CAPACITY - 1, 2)); /* no power of two */
}

static void random_entries_are_as_in_a_slow_model(void)
{
    bool is_there[64] = {false}; /* by key; 0 is none */
    uint64_t random = dao_test_seed("probe table", 1);
    for (int i = 0; i < 20000; i++) {
        uint32_t key = (uint32_t)dao_random_between(&random, 1, 63);
        if (is_there[key]) {
            erase(key);
        } else if (dao_probe_has_room(CAPACITY, count + 1)) {
            insert(key);
        } else {
            continue;
        }
        is_there[key] = !is_there[key];
        for (uint32_t other = 1; other < 64; other++) {
            CU_ASSERT_EQUAL(has(other), is_there[other]);
        }
    }
}

static CU_TestInfo tests[] = {
    {"an empty table has nothing", an_empty_table_has_nothing},
    {"entries of one home stand behind each other", entries_of_one_home_stand_behind_each_other},
    {"probes go on at the begin of the table", probes_go_on_at_the_begin_of_the_table},
    {"an erased entry leaves no gap", an_erased_entry_leaves_no_gap},
    {"an entry that must stay is passed over", an_entry_that_must_stay_is_passed_over},
    {"a larger table has all entries", a_larger_table_has_all_entries},
    {"what is wrong is found", what_is_wrong_is_found},
    {"random entries are as in a slow model", random_entries_are_as_in_a_slow_model},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"probe table", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
