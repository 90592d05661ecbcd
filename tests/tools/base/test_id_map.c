/* SPDX-License-Identifier: Apache-2.0 */
/* Ids and the numbers they were given: found, kept once, forgotten; and when memory runs out. */
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/base/id_map.h"

#include <stdio.h>
#include <string.h>

enum { KEY_COUNT = 5000 };

static bool add(dao_id_map_t *map, const char *key, uint64_t value, uint64_t *out_value)
{
    bool is_found = true;
    CU_ASSERT_EQUAL(dao_id_map_add(map, key, strlen(key), value, &is_found, out_value), DAO_OK);
    return is_found;
}

static void a_key_keeps_its_first_value(void)
{
    dao_id_map_t map;
    uint64_t value = 77;
    dao_id_map_init(&map);
    CU_ASSERT_FALSE(dao_id_map_find(&map, "a", 1, &value));
    CU_ASSERT_EQUAL(value, 77);
    CU_ASSERT_FALSE(add(&map, "a", 1, &value));
    CU_ASSERT_EQUAL(value, 1);
    CU_ASSERT_TRUE(add(&map, "a", 2, &value));
    CU_ASSERT_EQUAL(value, 1);
    CU_ASSERT_FALSE(add(&map, "", 3, &value)); /* which is a key like any */
    CU_ASSERT_FALSE(add(&map, "ab", 4, &value));
    CU_ASSERT_TRUE(dao_id_map_find(&map, "ab", 2, &value));
    CU_ASSERT_EQUAL(value, 4);
    CU_ASSERT_TRUE(dao_id_map_find(&map, "ab", 1, &value)); /* "a" */
    CU_ASSERT_EQUAL(value, 1);
    CU_ASSERT_EQUAL(map.count, 3);
    dao_id_map_finish(&map);
}

static void many_keys_are_found_again(void)
{
    dao_id_map_t map;
    char key[16];
    uint64_t value;
    dao_id_map_init(&map);
    for (uint64_t i = 0; i < KEY_COUNT; i++) {
        (void)snprintf(key, sizeof(key), "%d", (int)i);
        CU_ASSERT_FALSE(add(&map, key, i, &value));
    }
    CU_ASSERT_EQUAL(map.count, KEY_COUNT);
    CU_ASSERT_TRUE(map.count * 4 <= map.slot_count * 3);
    for (uint64_t i = 0; i < KEY_COUNT; i++) {
        (void)snprintf(key, sizeof(key), "%d", (int)i);
        CU_ASSERT_TRUE(dao_id_map_find(&map, key, strlen(key), &value));
        CU_ASSERT_EQUAL(value, i);
    }
    CU_ASSERT_FALSE(dao_id_map_find(&map, "5000", 4, &value));
    dao_id_map_finish(&map);
}

static void a_cleared_map_is_empty(void)
{
    dao_id_map_t map;
    uint64_t value;
    dao_id_map_init(&map);
    CU_ASSERT_FALSE(add(&map, "a", 1, &value));
    dao_id_map_clear(&map);
    CU_ASSERT_EQUAL(map.count, 0);
    CU_ASSERT_FALSE(dao_id_map_find(&map, "a", 1, &value));
    CU_ASSERT_FALSE(add(&map, "a", 2, &value));
    CU_ASSERT_EQUAL(value, 2);
    dao_id_map_finish(&map);
}

static void without_memory_it_stays_as_it_was(void)
{
    dao_id_map_t map;
    uint64_t value;
    bool is_found;
    dao_id_map_init(&map);
    CU_ASSERT_FALSE(add(&map, "a", 1, &value));
    char key[16];
    for (uint64_t i = 0; i < 200; i++) { /* it grows several times on the way */
        (void)snprintf(key, sizeof(key), "k%d", (int)i);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, true);
        dao_status_t status = dao_id_map_add(&map, key, strlen(key), i, &is_found, &value);
        (void)dao_fault_disarm();
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(map.count, i + 1);
            CU_ASSERT_FALSE(dao_id_map_find(&map, key, strlen(key), &value));
            CU_ASSERT_FALSE(add(&map, key, i, &value));
        }
    }
    CU_ASSERT_EQUAL(map.count, 201);
    CU_ASSERT_TRUE(dao_id_map_find(&map, "a", 1, &value));
    dao_id_map_finish(&map);
}

static CU_TestInfo tests[] = {
    {"a key keeps its first value", a_key_keeps_its_first_value},
    {"many keys are found again", many_keys_are_found_again},
    {"a cleared map is empty", a_cleared_map_is_empty},
    {"without memory it stays as it was", without_memory_it_stays_as_it_was},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"id_map", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
