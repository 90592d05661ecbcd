/* SPDX-License-Identifier: Apache-2.0 */
/* Every option goes with every call, so each pair has to be made: where the subject cannot be what a call is
   about, as the host for leases and streams, the call is about another place beside it (call_place()). */
#include "tests/harness/pairs.h"

#include <stdatomic.h>
#include <stdio.h>

#define PLACE place_config
#define PLAN  place_config.step_plan

/* The options: symbol, what is printed, when a config has it. */
#define OPTION_LIST(X)                                                                                       \
    X(DEVICE, "place=device", c->place.kind == DAO_PLACE_KIND_DEVICE)                                        \
    X(PINNED, "place=pinned", c->place.kind == DAO_PLACE_KIND_PINNED)                                        \
    X(CPU, "place=cpu", c->place.kind == DAO_PLACE_KIND_CPU)                                                 \
    X(STRATEGY_DEFAULT, "strategy=default", c->PLACE.strategy == DAO_STRATEGY_DEFAULT)                       \
    X(STRATEGY_GOOD_FIT, "strategy=good_fit", c->PLACE.strategy == DAO_STRATEGY_GOOD_FIT)                    \
    X(STRATEGY_BEST_FIT, "strategy=best_fit", c->PLACE.strategy == DAO_STRATEGY_BEST_FIT)                    \
    X(STRATEGY_BUDDY, "strategy=binary_buddy", c->PLACE.strategy == DAO_STRATEGY_BINARY_BUDDY)               \
    X(STRATEGY_CLASS, "strategy=size_class", c->PLACE.strategy == DAO_STRATEGY_SIZE_CLASS)                   \
    X(STRATEGY_SYSTEM, "strategy=system", c->PLACE.strategy == DAO_STRATEGY_SYSTEM)                          \
    X(DEVICE_STRATEGY, "device_strategy", c->library.device_strategy != DAO_STRATEGY_DEFAULT)                \
    X(GUARD, "hardening=guard", (c->PLACE.hardening & DAO_HARDENING_GUARD) != 0)                             \
    X(JUNK, "hardening=junk", (c->PLACE.hardening & DAO_HARDENING_JUNK) != 0)                                \
    X(ZERO, "hardening=zero", (c->PLACE.hardening & DAO_HARDENING_ZERO) != 0)                                \
    X(QUARANTINE, "hardening=quarantine", (c->PLACE.hardening & DAO_HARDENING_QUARANTINE) != 0)              \
    X(CHECKSUM, "hardening=checksum", (c->PLACE.hardening & DAO_HARDENING_CHECKSUM) != 0)                    \
    X(HARDENING_NONE, "hardening=none", c->PLACE.hardening == DAO_HARDENING_NONE)                            \
    X(HARDENING_ALL, "hardening of all places", c->library.hardening != 0)                                   \
    X(PAGES_NONE, "device without pages", c->hides_pages)                                                    \
    X(PAGES_OFF, "no_page_mapping", c->PLACE.no_page_mapping)                                                \
    X(POOL, "memory_pool", c->PLACE.memory_pool)                                                             \
    X(SMALL, "small_bytes", c->PLACE.small_bytes != 0)                                                       \
    X(INITIAL, "initial_bytes", c->PLACE.initial_bytes != 0)                                                 \
    X(SEGMENT, "segment_bytes", c->PLACE.segment_bytes != 0)                                                 \
    X(LIMIT, "limit_bytes", c->PLACE.limit_bytes != 0)                                                       \
    X(HOST_LIMIT, "host_limit_bytes", c->library.host_limit_bytes != 0)                                      \
    X(TAG_LIMIT, "limit of a tag", c->tag_limit_bytes != 0)                                                  \
    X(PLAN_OFF, "step_plan=off", c->PLAN.mode == DAO_STEP_PLAN_OFF)                                          \
    X(PLAN_OFFSETS, "step_plan=offsets", c->PLAN.mode == DAO_STEP_PLAN_OFFSETS)                              \
    X(PLAN_BINS, "step_plan=bins", c->PLAN.mode == DAO_STEP_PLAN_BINS)                                       \
    X(DEFERS, "defers_frees", c->PLAN.defers_frees)                                                          \
    X(PLAN_TAGS, "uses_tags", c->PLAN.uses_tags)                                                             \
    X(PLAN_TIME, "records_time", c->PLAN.records_time)                                                       \
    X(SMALLEST, "smallest_bytes", c->PLAN.smallest_bytes != 0)                                               \
    X(MARGIN, "margin", c->PLAN.margin != 0)                                                                 \
    X(START, "start_step", c->PLAN.start_step != 0)                                                          \
    X(MAX_COUNT, "max_count", c->PLAN.max_count != 0)

enum {
#define OPTION_ENUMERATOR(symbol, text, condition) OPTION_##symbol,
    OPTION_LIST(OPTION_ENUMERATOR)
#undef OPTION_ENUMERATOR
        OPTION_COUNT
};

static const char *const texts[] = {
#define OPTION_TEXT(symbol, text, condition) text,
    OPTION_LIST(OPTION_TEXT)
#undef OPTION_TEXT
};

static _Atomic uint64_t counts[OPTION_COUNT][HARNESS_CALL_COUNT];

void harness_pairs_note(const harness_config_t *c, harness_call_t call)
{
#define OPTION_NOTE(symbol, text, condition)                                                                 \
    if (condition) {                                                                                         \
        atomic_fetch_add_explicit(&counts[OPTION_##symbol][call], 1, memory_order_relaxed);                  \
    }
    OPTION_LIST(OPTION_NOTE)
#undef OPTION_NOTE
}

uint32_t harness_pairs_print(bool is_long)
{
    uint32_t made_count = 0;
    for (uint32_t option = 0; option < OPTION_COUNT; option++) {
        uint64_t least = UINT64_MAX;
        for (uint32_t call = 0; call < HARNESS_CALL_COUNT; call++) {
            uint64_t count = atomic_load(&counts[option][call]);
            made_count += count > 0;
            least = count < least ? count : least;
            if (count == 0) {
                (void)printf("never made: %s under %s\n", harness_call_text((harness_call_t)call),
                             texts[option]);
            } else if (is_long) {
                (void)printf("%s, %s: %llu\n", texts[option], harness_call_text((harness_call_t)call),
                             (unsigned long long)count);
            }
        }
        if (!is_long) {
            (void)printf("%-24s %u calls, each at least %llu times\n", texts[option], HARNESS_CALL_COUNT,
                         (unsigned long long)least);
        }
    }
    uint32_t pair_count = OPTION_COUNT * HARNESS_CALL_COUNT;
    (void)printf("pairs of options and calls: %u of %u\n", made_count, pair_count);
    return pair_count - made_count;
}
