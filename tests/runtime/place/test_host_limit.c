/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of all host memory: the host's place and all pinned places together. */
#define _POSIX_C_SOURCE 200809L
#include <dao/place_config.h>
#include <dao/pressure.h>

#include "base/threads/sync.h"
#include "tests/support/blocks.h"

#include <stdlib.h>

#define THREADS 4
#define ROUNDS  60

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t other_pinned = {DAO_PLACE_KIND_PINNED, 1};

static dao_host_stats_t host_now(void)
{
    dao_host_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_host_stats_get(&stats), DAO_OK);
    CU_ASSERT_TRUE(stats.limit_bytes == 0 || stats.reserved_bytes <= stats.limit_bytes);

    return stats;
}

/* The budget is the sum of what the places hold. */
static void check_host(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_PINNED, 1}};
    uint64_t reserved_bytes = 0;
    for (int i = 0; i < 3; i++) {
        dao_stats_t stats = {0};
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        reserved_bytes += stats.reserved_bytes;
    }
    CU_ASSERT_EQUAL(host_now().reserved_bytes, reserved_bytes);
}

static void start_limited(void)
{
    start_with(8 * MIB, false);
}

/* Blocks of one size until there is no room for another: of the limit less than a block is left. */
static void a_limit_is_used_to_its_end(void)
{
    static const size_t sizes[] = {300 * 1000, 700 * 1000, MIB + 1, 1500 * 1000, 2 * MIB + 1, 3 * MIB};
    static void *blocks[64];
    for (size_t i = 0; i < 2 * sizeof(sizes) / sizeof(sizes[0]); i++) {
        dao_place_t place = i % 2 == 0 ? host : pinned;
        size_t count = 0;
        while (count < 64 && (blocks[count] = dao_alloc(place, sizes[i / 2])) != NULL) {
            count++;
        }
        CU_ASSERT_EQUAL_FATAL(dao_last_status(), DAO_ERR_LIMIT);
        CU_ASSERT_EQUAL(count, 8 * MIB / sizes[i / 2]);
        check_host();
        while (count > 0) {
            give(place, blocks[--count]);
        }
        CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    }
}

static void host_places_share_one_limit(void)
{
    CU_ASSERT_EQUAL(host_now().limit_bytes, 8 * MIB);
    void *on_host = take(host, 3 * MIB);
    void *on_pinned = take(pinned, 3 * MIB);
    check_host();
    take_and_fail(other_pinned, 3 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("pinned:1: 3145728 bytes asked for"));
    CU_ASSERT_TRUE(
        says("all host memory together may be 8388608 bytes, of which the host and the pinned places hold "));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "in pieces"));
    take_and_fail(other_pinned, 9 * MIB, DAO_ERR_LIMIT);
    take_and_fail(host, 9 * MIB, DAO_ERR_LIMIT);
    check_host();
    give(host, on_host);
    give(pinned, on_pinned);
}

/* In pages, too: the place has a limit of its own, which is not in the way. */
static void a_refusal_names_the_limit_that_is_in_the_way(void)
{
    CU_ASSERT_EQUAL(
        dao_place_configure(host, &(dao_place_config_t){.limit_bytes = 6 * MIB, .host_pages = true}), DAO_OK);
    void *on_pinned = take(pinned, 7 * MIB);
    take_and_fail(host, 3 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("all host memory together may be 8388608 bytes"));
    give(pinned, on_pinned);
    void *on_host = take(host, 3 * MIB);
    take_and_fail(host, 4 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("are missing"));
    CU_ASSERT_FALSE(says("all host memory together"));
    give(host, on_host);
}

static void cached_memory_of_one_host_place_makes_room_at_another(void)
{
    give(host, take(host, 7 * MIB)); /* stays cached */
    CU_ASSERT_TRUE(host_now().reserved_bytes >= 7 * MIB);
    void *on_pinned = take(pinned, 7 * MIB);
    CU_ASSERT_EQUAL(failed_count(pinned), 0);
    check_host();
    give(pinned, on_pinned);
    void *small = take(host, 100);                /* the pinned cache gives way */
    void *on_other = take(other_pinned, 6 * MIB); /* the small one has a region */
    check_host();
    give(host, small);
    give(other_pinned, on_other);
}

static void small_host_blocks_count_to_the_last_byte(void)
{
    static void *blocks[4096];
    int count = 0;
    CU_ASSERT_EQUAL(dao_host_limit_set(1 * MIB + 63), DAO_OK);
    while (count < 4096 && (blocks[count] = dao_alloc(host, 1024)) != NULL) {
        count++;
    }
    CU_ASSERT_EQUAL(count, 1024);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(host_now().reserved_bytes, 1 * MIB);
    while (count > 0) {
        give(host, blocks[--count]);
    }
    CU_ASSERT_EQUAL(dao_trim(host, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(host_now().reserved_bytes, 0);
}

static void a_lower_host_limit_trims_and_never_cuts_live_blocks(void)
{
    void *on_host = take(host, 2 * MIB);
    give(pinned, take(pinned, 3 * MIB)); /* stays cached */
    CU_ASSERT_EQUAL(dao_host_limit_set(1 * MIB), DAO_ERR_LIMIT);
    CU_ASSERT_TRUE(says("which is more than the new limit of 1048576"));
    CU_ASSERT_EQUAL(host_now().limit_bytes, 8 * MIB);
    CU_ASSERT_EQUAL(dao_host_limit_set(2 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(host_now().reserved_bytes, 2 * MIB);
    CU_ASSERT_EQUAL(dao_host_limit_set(0), DAO_OK);
    void *more = take(pinned, 20 * MIB);
    CU_ASSERT_EQUAL(dao_host_stats_get(NULL), DAO_ERR_INVALID);
    give(host, on_host);
    give(pinned, more);
}

/* What lives counts: a little of it takes a little, idle segments are given back, and a refusal says what is
   in the way. */
static void limits_count_what_lives(void)
{
    CU_ASSERT_EQUAL(dao_host_limit_set(0), DAO_OK);
    static const dao_place_t both[] = {{DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    for (int i = 0; i < 2; i++) {
        dao_stats_t stats = {0};
        void *block = take(both[i], 1 * MIB);
        CU_ASSERT_EQUAL(dao_stats_get(both[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.reserved_bytes, 4 * MIB);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 32 * MIB), DAO_OK);
        CU_ASSERT_EQUAL(dao_host_limit_set(32 * MIB), DAO_OK);
        CU_ASSERT_EQUAL(dao_host_limit_set(0), DAO_OK);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 0), DAO_OK);
        void *idle = take(both[i], 20 * MIB);
        give(both[i], idle);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 2 * MIB), DAO_ERR_LIMIT);
        CU_ASSERT_TRUE(
            says("blocks and slabs hold 1048576 bytes, but the segments that they lie in hold 4194304"));
        CU_ASSERT_EQUAL(dao_stats_get(both[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.reserved_bytes, 4 * MIB); /* what was idle is gone */
        CU_ASSERT_EQUAL(stats.limit_bytes, 0);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 1 * MIB - 1), DAO_ERR_LIMIT);
        CU_ASSERT_TRUE(says("blocks and slabs hold 1048576 bytes, more than the new limit of 1048575"));
        CU_ASSERT_EQUAL(dao_host_limit_set(2 * MIB), DAO_ERR_LIMIT);
        CU_ASSERT_TRUE(says("hold 1048576 bytes, in segments of 4194304"));
        give(both[i], block);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 2 * MIB), DAO_OK);
        CU_ASSERT_EQUAL(dao_limit_set(both[i], 0), DAO_OK);
        CU_ASSERT_EQUAL(dao_trim(both[i], 0, NULL), DAO_OK);
    }
    check_host();
}

static void segments_grow_with_what_is_needed(void)
{
    CU_ASSERT_EQUAL(dao_host_limit_set(0), DAO_OK);
    void *blocks[160];
    uint64_t grow_count = 0;
    dao_stats_t stats = {0};
    for (int i = 0; i < 160; i++) {
        blocks[i] = take(pinned, 1 * MIB);
        CU_ASSERT_EQUAL(dao_stats_get(pinned, &stats), DAO_OK);
        CU_ASSERT_TRUE(stats.reserved_bytes <= 2 * stats.used_bytes + 4 * MIB);
        grow_count = stats.grow_count;
    }
    CU_ASSERT_EQUAL(stats.reserved_bytes, 192 * MIB); /* 4, 4, 8, 16, 32, 64, and as many again */
    CU_ASSERT_EQUAL(grow_count, 7);
    for (int i = 0; i < 160; i++) {
        give(pinned, blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_trim(pinned, 0, NULL), DAO_OK);
}

static void *fill_host(void *user)
{
    uint64_t state = *(const uint64_t *)user;
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_PINNED, 1}};
    for (int i = 0; i < ROUNDS; i++) {
        dao_place_t place = places[dao_random_next(&state) % 3];
        size_t size_bytes = (size_t)(dao_random_next(&state) % (2 * MIB)) + 1;
        void *block = dao_alloc(place, dao_random_next(&state) % 2 == 0 ? size_bytes : size_bytes / 1000 + 1);
        dao_thread_yield();
        CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    }
    return NULL;
}

static void threads_never_exceed_the_host_limit(void)
{
    uint64_t seeds[THREADS];
    dao_thread_t threads[THREADS];
    uint64_t state = dao_test_seed("threads never exceed the host limit", 3);
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = dao_random_next(&state);
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "fill", fill_host, &seeds[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
    check_host();
    CU_ASSERT_TRUE(host_now().peak_reserved_bytes > 0);
    CU_ASSERT_TRUE(host_now().peak_reserved_bytes <= 8 * MIB);
}

static size_t free_pinned(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    give(pinned, user);
    return 1;
}

static void a_callback_can_free_at_another_host_place(void)
{
    uint64_t id = 0;
    CU_ASSERT_EQUAL(dao_pressure_callback_add(host, free_pinned, take(pinned, 6 * MIB), &id), DAO_OK);
    void *block = take(host, 6 * MIB); /* what was freed lies in the pinned cache, which is trimmed then */
    CU_ASSERT_EQUAL(dao_used(pinned), 0);
    give(host, block);
}

/* Allocates and frees at all host places, with a full budget most of the time. */
static void churn(uint64_t *state)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_PINNED, 1}};
    void *blocks[12] = {0};
    uint64_t served_count = 0;
    for (int i = 0; i < 300; i++) {
        size_t index = (size_t)(dao_random_next(state) % 12);
        dao_place_t place = places[index % 3];
        give(place, blocks[index]);
        blocks[index] = dao_alloc(place, (size_t)(dao_random_next(state) % (3 * MIB)) + 1);
        served_count += blocks[index] != NULL;
        CU_ASSERT_TRUE(blocks[index] != NULL || dao_last_status() == DAO_ERR_LIMIT);
        check_host();
    }
    CU_ASSERT_TRUE(served_count > 100);
    for (size_t index = 0; index < 12; index++) {
        give(places[index % 3], blocks[index]);
    }
}

static void every_strategy_keeps_to_the_host_limit(void)
{
    uint64_t state = dao_test_seed("every strategy keeps to the host limit", 5);
    for (int strategy = DAO_STRATEGY_GOOD_FIT; strategy <= DAO_STRATEGY_SYSTEM; strategy++) {
        stop();
        start_limited();
        dao_place_config_t config = {.strategy = (dao_strategy_t)strategy};
        CU_ASSERT_EQUAL(dao_place_configure(host, &config), DAO_OK);
        CU_ASSERT_EQUAL(dao_place_configure(pinned, &config), DAO_OK);
        CU_ASSERT_EQUAL(dao_place_configure(other_pinned, &config), DAO_OK);
        churn(&state);
        CU_ASSERT_TRUE(host_now().peak_reserved_bytes <= 8 * MIB);
        CU_ASSERT_EQUAL(dao_host_limit_set(1), DAO_OK); /* nothing is live: all is given back */
        CU_ASSERT_EQUAL(host_now().reserved_bytes, 0);
    }
}

static void what_a_place_begins_with_counts(void)
{
    stop();
    start_limited();
    dao_place_config_t config = {.initial_bytes = 9 * MIB};
    CU_ASSERT_EQUAL(dao_place_configure(host, &config), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc(host, 1));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(host_now().peak_reserved_bytes, 0);
    config.initial_bytes = 6 * MIB;
    CU_ASSERT_EQUAL(dao_place_configure(host, &config), DAO_OK);
    give(host, take(host, 1 * MIB));
    CU_ASSERT_EQUAL(host_now().reserved_bytes, 6 * MIB);
}

static void the_environment_can_limit_host_memory(void)
{
    stop();
    CU_ASSERT_EQUAL(setenv("DAO_HOST_LIMIT", "3MiB", 1), 0);
    start_with(0, false);
    CU_ASSERT_EQUAL(host_now().limit_bytes, 3 * MIB);
    stop();
    start_limited();
    CU_ASSERT_EQUAL(host_now().limit_bytes, 8 * MIB); /* the config's comes first */
    stop();
    CU_ASSERT_EQUAL(setenv("DAO_HOST_LIMIT", "much", 1), 0);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_INVALID);
    CU_ASSERT_TRUE(says("DAO_HOST_LIMIT"));
    CU_ASSERT_EQUAL(unsetenv("DAO_HOST_LIMIT"), 0);
    start_with(0, false);
    CU_ASSERT_EQUAL(host_now().limit_bytes, 0);
}

static CU_TestInfo tests[] = {
    {"a limit is used to its end", a_limit_is_used_to_its_end},
    {"host places share one limit", host_places_share_one_limit},
    {"a refusal names the limit that is in the way", a_refusal_names_the_limit_that_is_in_the_way},
    {"cached memory of one host place makes room at another",
     cached_memory_of_one_host_place_makes_room_at_another},
    {"small host blocks count to the last byte", small_host_blocks_count_to_the_last_byte},
    {"a lower host limit trims and never cuts live blocks",
     a_lower_host_limit_trims_and_never_cuts_live_blocks},
    {"limits count what lives", limits_count_what_lives},
    {"segments grow with what is needed", segments_grow_with_what_is_needed},
    {"a callback can free at another host place", a_callback_can_free_at_another_host_place},
    {"threads never exceed the host limit", threads_never_exceed_the_host_limit},
    {"every strategy keeps to the host limit", every_strategy_keeps_to_the_host_limit},
    {"what a place begins with counts", what_a_place_begins_with_counts},
    {"the environment can limit host memory", the_environment_can_limit_host_memory},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host limit", NULL, NULL, start_limited, stop, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
