/* SPDX-License-Identifier: Apache-2.0 */
/* The contract of memory in stream order on all that keeps a place: pages, segments, pinned regions, each
   strategy of whole blocks, and hardening over any of them; slowly, too, with commands held back so that
   streams interleave in other ways. */
#include "tests/contract/stream_contract.h"

#include <dao/context.h>

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
    return stream_contract_start((dao_place_t){kind->place_kind, 0}, &config, &faults);
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
