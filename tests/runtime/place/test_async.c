/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memory in stream order on all that keeps a place: pages, segments, pinned regions, each
   strategy of whole blocks, and hardening over any of them; slowly, too, with commands held back so that
   streams interleave in other ways. Blocks of memory handles there. */
#include "tests/contract/stream_contract.h"

#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"

#include <dao/async.h>
#include <dao/context.h>
#include <dao/memory.h>

#include <stdio.h>

#define NAME_BYTES 80

/* Without zero, so that junk is what is found. */
#define HARDENING                                                                                            \
    (DAO_HARDENING_GUARD | DAO_HARDENING_JUNK | DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM)

/* What keeps the place. */
typedef struct kind {
    const char *name;
    dao_place_kind_t place_kind;
    dao_strategy_t strategy;
    bool has_segments; /* for want of pages */
    bool is_hardened;
    bool is_brief; /* no programs at random: those of its neighbours go the same ways */
} kind_t;

static const kind_t kinds[] = {
    {"pages", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_GOOD_FIT, false, false, false},
    {"segments", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_BEST_FIT, true, false, false},
    {"pinned", DAO_PLACE_KIND_PINNED, DAO_STRATEGY_GOOD_FIT, false, false, false},
    {"binary buddy", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_BINARY_BUDDY, false, false, false},
    {"size classes", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_SIZE_CLASS, false, false, false},
    {"pass-through", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_SYSTEM, false, false, false},
    {"pinned size classes", DAO_PLACE_KIND_PINNED, DAO_STRATEGY_SIZE_CLASS, false, false, true},
    {"pinned pass-through", DAO_PLACE_KIND_PINNED, DAO_STRATEGY_SYSTEM, false, false, true},
    {"hardened pages", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_GOOD_FIT, false, true, false},
    {"hardened segments", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_BEST_FIT, true, true, true},
    {"hardened pinned", DAO_PLACE_KIND_PINNED, DAO_STRATEGY_GOOD_FIT, false, true, false},
    {"hardened binary buddy", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_BINARY_BUDDY, false, true, true},
    {"hardened size classes", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_SIZE_CLASS, false, true, true},
    {"hardened pass-through", DAO_PLACE_KIND_DEVICE, DAO_STRATEGY_SYSTEM, false, true, true},
};
#define KIND_COUNT (sizeof(kinds) / sizeof(kinds[0]))

/* ---- blocks of handles ---- */

static dao_place_t place; /* of the suite that runs */

/* Releases a handle of `stream`, whose block `user` uses, too, behind a gate. Who takes memory meanwhile gets
   other memory: the host may write into that at once, be it for the handle's own stream. */
static void release_behind_gate(size_t size_bytes, dao_stream_t *stream, dao_stream_t *user)
{
    dao_gate_t gate;
    dao_memory_t *memory = NULL, *next = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, stream, &memory), DAO_OK);
    void *block = dao_memory_address(memory);
    CU_ASSERT_EQUAL(dao_free_async(place, block, stream), DAO_ERR_NOT_YOURS);
    CU_ASSERT_EQUAL(dao_record_stream(place, block, user), DAO_OK);
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL_FATAL(device_gate(user, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(place, size_bytes, stream, &next), DAO_OK);
    void *plain = dao_alloc(place, size_bytes);
    CU_ASSERT_PTR_NOT_NULL(plain);
    CU_ASSERT_PTR_NOT_EQUAL(dao_memory_address(next), block);
    CU_ASSERT_PTR_NOT_EQUAL(plain, block);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(user), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(next), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(place, plain), DAO_OK);
    dao_gate_finish(&gate);
}

static void a_handles_block_is_idle_and_is_freed_in_order(void)
{
    static const size_t sizes[] = {1000, 2 * MIB};
    dao_stream_t *streams[2] = {NULL};
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &streams[i]), DAO_OK);
    }
    for (int i = 0; i < 4; i++) {
        release_behind_gate(sizes[i % 2], streams[i / 2], streams[1]);
    }
    for (int i = 0; i < 2; i++) {
        dao_stream_destroy(streams[i]);
    }
}

static CU_TestInfo handle_tests[] = {
    {"a handle's block is idle, and is freed in order", a_handles_block_is_idle_and_is_freed_in_order},
    CU_TEST_INFO_NULL,
};

/* ---- the suites ---- */

/* Which tests a kind of place has; and a start each, in the order of the suites. */
typedef struct group {
    const char *name;
    CU_TestInfo *tests;
    bool is_slow;
    bool (*suits)(const kind_t *kind);
} group_t;

static bool suits_all(const kind_t *kind)
{
    (void)kind; /* every place */
    return true;
}

static bool suits_reuse(const kind_t *kind)
{
    return !kind->is_hardened;
}

static bool suits_random(const kind_t *kind)
{
    return !kind->is_brief;
}

/* Bytes of a hardened place are looked at piece by piece, each held back: that takes too long. */
static bool suits_delays(const kind_t *kind)
{
    return !kind->is_brief && !kind->is_hardened;
}

static bool suits_ranges(const kind_t *kind)
{
    return !kind->is_hardened && kind->strategy <= DAO_STRATEGY_BEST_FIT;
}

static const group_t groups[] = {
    {"", stream_contract_tests, false, suits_all},
    {", handles", handle_tests, false, suits_all},
    {", reuse", stream_contract_reuse_tests, false, suits_reuse},
    {", ranges", stream_contract_range_tests, false, suits_ranges},
    {", at random", stream_contract_random_tests, false, suits_random},
    {", at random, slowly", stream_contract_random_tests, true, suits_delays},
};
#define GROUP_COUNT (sizeof(groups) / sizeof(groups[0]))

#define SUITE_COUNT_MAX (KIND_COUNT * GROUP_COUNT + 1)

/* The suites' places in the tables, in the order in which they run: CUnit hands a start no argument. */
static size_t chosen[SUITE_COUNT_MAX];
static size_t chosen_count, started_count;

static int start_next(void)
{
    const kind_t *kind = &kinds[chosen[started_count] / GROUP_COUNT];
    const group_t *group = &groups[chosen[started_count] % GROUP_COUNT];
    started_count++;
    fault_config_t faults = {.hide_pages = kind->has_segments};
    if (group->is_slow) {
        faults.seed = dao_test_seed("stream order, delays", 77);
        faults.delay_ns_max = 100000;
        faults.not_ready_max = 3;
    }
    dao_place_config_t config = {.strategy = kind->strategy};
    config.hardening = kind->is_hardened ? HARDENING : 0;
    place = (dao_place_t){kind->place_kind, 0};
    return stream_contract_start(place, &config, &faults);
}

int main(void)
{
    static CU_SuiteInfo suites[SUITE_COUNT_MAX + 1]; /* ends with an empty one */
    static char names[SUITE_COUNT_MAX][NAME_BYTES];
    for (size_t i = 0; i < KIND_COUNT * GROUP_COUNT; i++) {
        const kind_t *kind = &kinds[i / GROUP_COUNT];
        const group_t *group = &groups[i % GROUP_COUNT];
        if (group->suits(kind)) {
            (void)snprintf(names[chosen_count], NAME_BYTES, "stream order: %s%s", kind->name, group->name);
            suites[chosen_count] =
                (CU_SuiteInfo){names[chosen_count],   start_next,          stream_contract_stop,
                               stream_contract_begin, stream_contract_end, group->tests};
            chosen[chosen_count++] = i;
        }
    }
    suites[chosen_count] =
        (CU_SuiteInfo){"stream order: the end", NULL, NULL, NULL, NULL, stream_contract_end_tests};
    return dao_suite_run(suites);
}
