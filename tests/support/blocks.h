/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks at places for tests of what happens when memory is short. */
#ifndef DAO_TESTS_SUPPORT_BLOCKS_H
#define DAO_TESTS_SUPPORT_BLOCKS_H

#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>

#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static inline void start_with(uint64_t host_limit_bytes, bool no_page_mapping)
{
    dao_config_t config = {
        .cpu = {.device_count = 2, .device_bytes = 64 * MIB, .no_page_mapping = no_page_mapping},
        .host_limit_bytes = host_limit_bytes};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

/* A suite's start and stop where no limit is part of the test. */
static inline void start(void)
{
    start_with(0, false);
}

static inline void stop(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static inline uint64_t failed_count(dao_place_t place)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_OK);
    return stats.failed_count;
}

static inline void *take(dao_place_t place, size_t size_bytes)
{
    void *block = dao_alloc(place, size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    return block;
}

static inline void give(dao_place_t place, void *block)
{
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
}

static inline void take_and_fail(dao_place_t place, size_t size_bytes, dao_status_t expected)
{
    size_t used_before = dao_used(place);
    CU_ASSERT_PTR_NULL(dao_alloc(place, size_bytes));
    CU_ASSERT_EQUAL(dao_last_status(), expected);
    CU_ASSERT_EQUAL(dao_used(place), used_before);
}

static inline bool says(const char *part)
{
    bool found = strstr(dao_last_message(), part) != NULL;
    if (!found) {
        (void)printf("    not in the message: \"%s\"\n    %s\n", part, dao_last_message());
    }
    return found;
}

#endif
