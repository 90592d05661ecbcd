/* SPDX-License-Identifier: Apache-2.0 */
/* An executor without a capacity takes what the device has free but for a headroom, asks for less if that is
   refused, and says what it took. */
#include <dao/context.h>
#include <dao/executor.h>
#include <dao/memory.h>
#include <dao/pressure.h>
#include <dao/stats.h>

#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static char line[1024]; /* the latest of the log about an arena */

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    if (level == DAO_LOG_LEVEL_INFO && strstr(message, "arena of") != NULL) {
        (void)snprintf(line, sizeof(line), "%s", message);
    }
}

/* Large devices are without page mapping: an arena of 60 GiB is one mapping then. */
static void begin(uint64_t device_bytes)
{
    dao_config_t config = {
        .cpu = {.device_count = 1, .device_bytes = device_bytes, .no_page_mapping = device_bytes > GIB},
        .log_callback = keep_line,
        .log_level = DAO_LOG_LEVEL_INFO};
    line[0] = '\0';
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static uint64_t free_bytes(void)
{
    dao_device_info_t info = {0};
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_OK);
    return info.free_bytes;
}

static uint64_t capacity_of(dao_executor_t *executor)
{
    dao_executor_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_executor_stats_get(executor, &stats), DAO_OK);
    return stats.capacity_bytes;
}

static void an_arena_leaves_headroom(void)
{
    static const struct {
        uint64_t device_bytes, headroom_bytes;
    } cases[] = {{64 * MIB, 4 * MIB},        /* a sixteenth */
                 {4 * GIB, 256 * MIB},       /* a sixteenth */
                 {16 * GIB, 512 * MIB},      /* the least of a large one */
                 {64 * GIB, 64 * GIB / 50}}; /* 2 % */
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[32];
        dao_executor_t *executor = NULL;
        begin(cases[i].device_bytes);
        CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
        uint64_t capacity_bytes = capacity_of(executor);
        CU_ASSERT_TRUE(capacity_bytes <= cases[i].device_bytes - cases[i].headroom_bytes);
        CU_ASSERT_TRUE(capacity_bytes > cases[i].device_bytes - cases[i].headroom_bytes - 4 * MIB);
        CU_ASSERT_TRUE(free_bytes() >= cases[i].headroom_bytes / (2 * MIB) * (2 * MIB)); /* whole pages */
        (void)snprintf(text, sizeof(text), "arena of %llu bytes", (unsigned long long)capacity_bytes);
        CU_ASSERT_PTR_NOT_NULL(strstr(line, text));
        void *beside = dao_alloc(device, 1 * MIB);
        CU_ASSERT_PTR_NOT_NULL(beside);
        CU_ASSERT_EQUAL(dao_free(device, beside), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

/* As where free memory lies in pieces, or less of it can be had than the driver calls free. */
static void what_is_refused_is_asked_for_again_and_lower(void)
{
    dao_executor_t *executor = NULL;
    begin(64 * MIB);
    CU_ASSERT_EQUAL(dao_limit_set(device, 20 * MIB), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
    CU_ASSERT_TRUE(capacity_of(executor) <= 20 * MIB && capacity_of(executor) > 15 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 2 * MIB), DAO_OK);
    executor = NULL;
    CU_ASSERT_EQUAL(dao_executor_create(NULL, &executor), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "an executor's arena of"));
    CU_ASSERT_PTR_NULL(executor);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_device_without_room_is_said_to_have_none(void)
{
    dao_executor_t *executor = NULL;
    begin(64 * MIB);
    void *block = dao_alloc(device, 62 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_executor_create(NULL, &executor), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "capacity_bytes"));
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_capacity_that_was_named_is_taken_or_refused(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 64 * MIB};
    begin(64 * MIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK); /* all of it */
    CU_ASSERT_EQUAL(capacity_of(executor), 64 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    executor = NULL;
    config.capacity_bytes += 2 * MIB;
    CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(executor);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A segment that idles in the place's cache and is too small for the arena is given back for it. */
static void a_named_capacity_gets_what_idles_in_caches(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 3 * GIB};
    begin(4 * GIB);
    void *block = dao_alloc(device, 2 * GIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    CU_ASSERT_TRUE(free_bytes() <= 2 * GIB);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_EQUAL(capacity_of(executor), 3 * GIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static size_t free_block(dao_place_t place, size_t needed_bytes, void *user)
{
    void **block = user;
    size_t freed_bytes = *block != NULL && dao_free(place, *block) == DAO_OK ? needed_bytes : 0;
    *block = NULL;
    return freed_bytes;
}

/* A capacity that is named asks for memory in use; one of what is free leaves that alone. */
static void a_named_capacity_asks_pressure_callbacks(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 32 * MIB};
    begin(64 * MIB);
    void *block = dao_alloc(device, 48 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    uint64_t id = 0;
    CU_ASSERT_EQUAL_FATAL(dao_pressure_callback_add(device, free_block, &block, &id), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(NULL, &executor), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    CU_ASSERT_PTR_NULL(block);
    CU_ASSERT_EQUAL(capacity_of(executor), 32 * MIB);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Settings that no executor can have: it is not made, and the message says which. */
static void settings_that_cannot_be_are_named(void)
{
    const struct {
        dao_executor_config_t config;
        const char *what;
    } wrong[] = {
        {{.addresses = (dao_swap_addresses_t)9}, "choice 9 of addresses"},
        {{.policy = (dao_policy_t)99}, "policy 99"},
        {{.file = {.engine = (dao_file_engine_t)9}}, "file engine 9"},
        {{.file = {.engine = DAO_FILE_ENGINE_THREADS}}, "needs a directory"},
        {{.file = {.limit_bytes = MIB}}, "needs a directory"},
        {{.file = {.in_bytes_per_second = 1}}, "needs a directory"},
        {{.file = {.out_bytes_per_second = 1}}, "needs a directory"},
        {{.file = {.latency_ns = 1}}, "needs a directory"},
    };
    begin(64 * MIB);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_executor_t *executor = NULL;
        dao_executor_config_t config = wrong[i].config;
        config.capacity_bytes = MIB;
        CU_ASSERT_EQUAL(dao_executor_create(&config, &executor), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i].what));
        CU_ASSERT_PTR_NULL(executor);
    }
    dao_executor_stats_t stats;
    CU_ASSERT_EQUAL(dao_executor_stats_get(NULL, &stats), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"an arena leaves headroom", an_arena_leaves_headroom},
    {"what is refused is asked for again, and lower", what_is_refused_is_asked_for_again_and_lower},
    {"a device without room is said to have none", a_device_without_room_is_said_to_have_none},
    {"a capacity that was named is taken or refused", a_capacity_that_was_named_is_taken_or_refused},
    {"a named capacity gets what idles in caches", a_named_capacity_gets_what_idles_in_caches},
    {"a named capacity asks pressure callbacks", a_named_capacity_asks_pressure_callbacks},
    {"settings that cannot be are named", settings_that_cannot_be_are_named},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor capacity", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
