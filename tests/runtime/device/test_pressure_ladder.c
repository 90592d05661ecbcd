/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is short: callbacks, frees that wait, and waiting for frees. */
#include <dao/async.h>
#include <dao/pressure.h>
#include <dao/stream.h>

#include "base/report/fault.h"
#include "runtime/core/waiters.h"
#include "runtime/device/runtime.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/blocks.h"
#include "tests/support/gate.h"

#define WAIT_FOR_EVER_NS UINT64_MAX

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};

/* ---- callbacks ---- */

/* A stash that a callback can give up, and what the callback saw. */
typedef struct stash {
    void *block;
    size_t claimed_bytes; /* what the callback says it freed */
    size_t needed_bytes;
    uint64_t id;
    int call_count;
} stash_t;

static size_t give_stash_up(dao_place_t place, size_t needed_bytes, void *user)
{
    stash_t *stash = user;
    DAO_ASSERT_UNLOCKED();
    CU_ASSERT_TRUE(dao_place_equal(place, device));
    stash->call_count++;
    stash->needed_bytes = needed_bytes;
    give(place, stash->block);
    stash->block = NULL;
    return stash->claimed_bytes;
}

static void stash_add(stash_t *stash, dao_pressure_callback_t function)
{
    CU_ASSERT_EQUAL_FATAL(dao_pressure_callback_add(device, function, stash, &stash->id), DAO_OK);
}

static void a_callback_that_frees_lets_the_allocation_succeed(void)
{
    stash_t stash = {.block = take(device, 60 * MIB), .claimed_bytes = 60 * MIB};
    stash_add(&stash, give_stash_up);
    void *block = take(device, 32 * MIB);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    CU_ASSERT_EQUAL(stash.needed_bytes, 32 * MIB);
    CU_ASSERT_EQUAL(failed_count(device), 0); /* the caller saw no failure */
    give(device, block);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stash.id), DAO_OK);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stash.id), DAO_ERR_INVALID);
}

static void a_callback_that_frees_nothing_is_asked_once(void)
{
    stash_t stash = {0};
    stash_add(&stash, give_stash_up);
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    CU_ASSERT_EQUAL(failed_count(device), 1);
    CU_ASSERT_TRUE(says("device:0: 33554432 bytes asked for"));
    give(device, block);
}

/* Blocks that a callback gives up one at a time. */
typedef struct stashes {
    void *blocks[5];
    size_t count;
    int call_count;
} stashes_t;

static size_t give_one_up(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)needed_bytes;
    stashes_t *stashes = user;
    stashes->call_count++;
    if (stashes->count == 0) {
        return 0;
    }
    give(place, stashes->blocks[--stashes->count]);
    return 1;
}

static void a_callback_is_asked_again_as_long_as_it_frees(void)
{
    stashes_t stashes = {.count = 5};
    for (size_t i = 0; i < stashes.count; i++) {
        stashes.blocks[i] = take(device, 12 * MIB);
    }
    uint64_t id;
    CU_ASSERT_EQUAL_FATAL(dao_pressure_callback_add(device, give_one_up, &stashes, &id), DAO_OK);
    void *block = take(device, 32 * MIB); /* 4 MiB are free: three of them have to go */
    CU_ASSERT_EQUAL(stashes.call_count, 3);
    CU_ASSERT_EQUAL(stashes.count, 2);
    CU_ASSERT_EQUAL(failed_count(device), 0);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 60 * MIB)); /* two more go, and one call has nothing */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stashes.call_count, 6);
    CU_ASSERT_EQUAL(dao_used(device), 32 * MIB);
    give(device, block);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(id), DAO_OK);
}

static size_t stop_the_library(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    stash_t *stash = user;
    stash->call_count++;
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* it goes on for whoever started it */
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_REENTRANT);
    return 0;
}

static void a_callback_cannot_stop_the_library(void)
{
    stash_t stash = {0};
    stash_add(&stash, stop_the_library);
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    give(device, block);
}

static void callbacks_are_asked_in_order_until_it_fits(void)
{
    stash_t empty = {0}, full = {.block = take(device, 60 * MIB), .claimed_bytes = 1}, never = {0};
    stash_add(&empty, give_stash_up);
    stash_add(&full, give_stash_up);
    stash_add(&never, give_stash_up);
    void *block = take(device, 32 * MIB);
    CU_ASSERT_EQUAL(empty.call_count, 1);
    CU_ASSERT_EQUAL(full.call_count, 1);
    CU_ASSERT_EQUAL(never.call_count, 0);
    give(device, block);
}

static void callbacks_that_only_claim_to_free_end_with_the_error(void)
{
    static stash_t stashes[DAO_PRESSURE_CALLBACK_COUNT_MAX];
    memset(stashes, 0, sizeof(stashes));
    for (int i = 0; i < DAO_PRESSURE_CALLBACK_COUNT_MAX; i++) {
        stashes[i].claimed_bytes = 64 * MIB;
        stash_add(&stashes[i], give_stash_up);
    }
    uint64_t id = 7;
    CU_ASSERT_EQUAL(dao_pressure_callback_add(device, give_stash_up, NULL, &id), DAO_ERR_TOO_MANY);
    CU_ASSERT_EQUAL(id, 7);
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    for (int i = 0; i < DAO_PRESSURE_CALLBACK_COUNT_MAX; i++) {
        CU_ASSERT_EQUAL(stashes[i].call_count, 1);
    }
    CU_ASSERT_EQUAL(failed_count(device), 1); /* of 65 attempts */
    give(device, block);
}

static void see_that_nobody_is_asked(dao_strategy_t strategy)
{
    stash_t stash = {.claimed_bytes = 1};
    CU_ASSERT_EQUAL_FATAL(dao_place_configure(device, &(dao_place_config_t){.strategy = strategy}), DAO_OK);
    stash_add(&stash, give_stash_up);
    CU_ASSERT_EQUAL(dao_pressure_wait_set(device, WAIT_FOR_EVER_NS), DAO_OK);
    take_and_fail(device, 65 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(says("it can never fit: the device has 67108864 bytes"));
    CU_ASSERT_EQUAL(dao_limit_set(device, 16 * MIB), DAO_OK);
    take_and_fail(device, 17 * MIB, DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NULL(dao_alloc(device, SIZE_MAX));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(stash.call_count, 0);
}

static void a_request_that_never_fits_asks_nobody(void)
{
#define STRATEGY(number, symbol, name, text) DAO_STRATEGY_##symbol,
    static const dao_strategy_t strategies[] = {DAO_STRATEGY_LIST(STRATEGY)};
#undef STRATEGY
    for (size_t i = 0; i < sizeof(strategies) / sizeof(strategies[0]); i++) {
        see_that_nobody_is_asked(strategies[i]);
        stop();
        start();
    }
}

static void live_blocks_in_the_way_leave_the_cache_alone(void)
{
    dao_stats_t before = {0}, after = {0};
    void *block = take(device, 40 * MIB);
    give(device, take(device, 16 * MIB)); /* stays cached */
    CU_ASSERT_EQUAL(dao_stats_get(device, &before), DAO_OK);
    CU_ASSERT_EQUAL(before.reserved_bytes, 56 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_stats_get(device, &after), DAO_OK);
    CU_ASSERT_EQUAL(after.reserved_bytes, before.reserved_bytes);
    give(device, block);
}

static size_t add_another(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)needed_bytes;
    stash_t *stashes = user;
    stashes[0].call_count++;
    CU_ASSERT_EQUAL(dao_pressure_callback_add(place, give_stash_up, &stashes[1], &stashes[1].id), DAO_OK);
    return 0;
}

static void a_callback_added_by_a_callback_waits_for_the_next_time(void)
{
    stash_t stashes[2] = {{0}, {0}};
    stash_add(&stashes[0], add_another);
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stashes[1].call_count, 0);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stashes[0].id), DAO_OK);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stashes[0].call_count, 1);
    CU_ASSERT_EQUAL(stashes[1].call_count, 1);
    give(device, block);
}

static size_t remove_both(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    stash_t *stashes = user;
    stashes[0].call_count++;
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stashes[0].id), DAO_OK); /* itself */
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stashes[0].id), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stashes[1].id), DAO_OK);
    return 0;
}

static void a_callback_can_remove_itself_and_others(void)
{
    stash_t stashes[2] = {{0}, {0}};
    stash_add(&stashes[0], remove_both);
    stash_add(&stashes[1], give_stash_up);
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stashes[0].call_count, 1);
    CU_ASSERT_EQUAL(stashes[1].call_count, 0);
    for (int i = 0; i < DAO_PRESSURE_CALLBACK_COUNT_MAX; i++) { /* both slots are empty again */
        stash_add(&stashes[1], give_stash_up);
    }
    give(device, block);
}

static size_t allocate_inside(dao_place_t place, size_t needed_bytes, void *user)
{
    stash_t *stash = user;
    stash->call_count++;
    CU_ASSERT_EQUAL(dao_pressure_wait_set(place, WAIT_FOR_EVER_NS), DAO_OK);
    take_and_fail(place, needed_bytes, DAO_ERR_NO_DEVICE_MEMORY); /* neither asks nor waits */
    CU_ASSERT_EQUAL(dao_pressure_wait_set(place, 0), DAO_OK);
    void *small = take(place, 1 * MIB);
    give(place, small);
    give(place, stash->block);
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(place, 63 * MIB), DAO_OK);
    return stash->claimed_bytes;
}

static void a_callback_can_allocate_free_and_trim(void)
{
    stash_t stash = {.block = take(device, 58 * MIB), .claimed_bytes = 58 * MIB};
    stash_add(&stash, allocate_inside);
    void *block = take(device, 32 * MIB);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    give(device, block);
}

static size_t raise_limit(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(dao_limit_set(place, 40 * MIB), DAO_OK);
    return needed_bytes;
}

static void a_callback_can_raise_the_limit(void)
{
    stash_t stash = {0};
    CU_ASSERT_EQUAL(dao_limit_set(device, 20 * MIB), DAO_OK);
    stash_add(&stash, raise_limit);
    void *first = take(device, 16 * MIB);
    void *second = take(device, 16 * MIB);
    give(device, first);
    give(device, second);
}

/* They free memory, and cannot know that it is a tag that has no room: not for bytes that are asked for, nor
   for those that a block of them has. */
static void the_limit_of_a_tag_asks_no_callback(void)
{
    dao_alloc_options_t options = {0};
    stash_t stash = {.block = take(device, 8 * MIB), .claimed_bytes = 8 * MIB};
    stash_add(&stash, give_stash_up);
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("pressed", &options.tag), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, options.tag, 4 * MIB), DAO_OK);
    void *block = dao_alloc_with(device, 4 * MIB - 256, &options);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 1 * MIB, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    give(device, block);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, options.tag, 1000), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 999, &options)); /* 1024 with rounding */
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(stash.call_count, 0);
    give(device, stash.block);
}

/* Memory is short, and then the tag is. */
static size_t free_and_limit_tag(dao_place_t place, size_t needed_bytes, void *user)
{
    stash_t *stash = user;
    stash->call_count++;
    if (stash->call_count == 1) {
        CU_ASSERT_EQUAL(dao_tag_limit_set(place, (dao_tag_t)stash->claimed_bytes, needed_bytes - 1), DAO_OK);
    }
    give(place, stash->block);
    stash->block = NULL;
    return needed_bytes;
}

static void a_tag_that_has_no_room_meanwhile_ends_the_asking(void)
{
    dao_alloc_options_t options = {0};
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("pressed", &options.tag), DAO_OK);
    stash_t stash = {.block = take(device, 60 * MIB), .claimed_bytes = options.tag}, never = {0};
    stash_add(&stash, free_and_limit_tag);
    stash_add(&never, give_stash_up);
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 8 * MIB, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    CU_ASSERT_EQUAL(never.call_count, 0);
}

/* The device is full, but to free some would not help. A hardened place looks for memory first. */
static void a_tag_without_room_is_named_though_the_device_is_full(void)
{
    dao_alloc_options_t options = {0};
    dao_place_config_t hardened = {.hardening = DAO_HARDENING_QUARANTINE};
    CU_ASSERT_EQUAL_FATAL(dao_place_configure(device, &hardened), DAO_OK);
    dao_tag_stats_t stats = {0};
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("kept small", &options.tag), DAO_OK);
    CU_ASSERT_EQUAL(dao_tag_limit_set(device, options.tag, MIB), DAO_OK);
    void *block = take(device, 60 * MIB);
    CU_ASSERT_PTR_NULL(dao_alloc_with(device, 8 * MIB, &options));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0: 8388608 bytes asked for"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "the limit of the tag \"kept small\" is 1048576"));
    CU_ASSERT_EQUAL(dao_tag_stats_get(device, options.tag, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.refused_count, 1);
    take_and_fail(device, 8 * MIB, DAO_ERR_NO_DEVICE_MEMORY); /* without a tag it is the device */
    give(device, block);
}

static void wrong_callbacks_are_refused(void)
{
    uint64_t id = 7;
    dao_place_t nowhere = {DAO_PLACE_KIND_DEVICE, 2};
    CU_ASSERT_EQUAL(dao_pressure_callback_add(device, NULL, NULL, &id), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_pressure_callback_add(device, give_stash_up, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_pressure_callback_add(nowhere, give_stash_up, NULL, &id), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(UINT64_MAX), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_pressure_wait_set(nowhere, 1), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(id, 7);
}

static void callbacks_end_with_the_library(void)
{
    stash_t stash = {0};
    stash_add(&stash, give_stash_up);
    CU_ASSERT_EQUAL(dao_pressure_wait_set(device, WAIT_FOR_EVER_NS), DAO_OK);
    stop();
    start();
    void *block = take(device, 60 * MIB);
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(stash.call_count, 0);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(stash.id), DAO_ERR_INVALID);
    give(device, block);
}

/* ---- callbacks and threads ---- */

typedef struct held_call {
    dao_gate_t gate;
    uint64_t id;
    uint64_t other_id;
    _Atomic bool has_ended;
    bool was_removed_after_its_end;
} held_call_t;

static size_t wait_at_gate(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    held_call_t *held = user;
    dao_gate_wait(&held->gate);
    atomic_store(&held->has_ended, true);
    return 0;
}

static void *fail_to_allocate(void *user)
{
    (void)user;
    CU_ASSERT_PTR_NULL(dao_alloc(device, 32 * MIB));
    return NULL;
}

static void *remove_held(void *user)
{
    held_call_t *held = user;
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(held->id), DAO_OK);
    held->was_removed_after_its_end = atomic_load(&held->has_ended);
    return NULL;
}

static size_t try_to_remove_held(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    held_call_t *held = user;
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(held->id), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(held->other_id), DAO_OK); /* itself: nobody else runs it */
    return 0;
}

static void removing_waits_for_a_running_callback(void)
{
    held_call_t held = {0};
    dao_thread_t caller, remover;
    dao_gate_init(&held.gate);
    void *block = take(device, 60 * MIB);
    CU_ASSERT_EQUAL(dao_pressure_callback_add(device, wait_at_gate, &held, &held.id), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&caller, "caller", fail_to_allocate, NULL), DAO_OK);
    dao_gate_await_reached(&held.gate);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&remover, "remover", remove_held, &held), DAO_OK);
    dao_gate_open(&held.gate);
    dao_thread_join(&remover);
    dao_thread_join(&caller);
    CU_ASSERT_TRUE(held.was_removed_after_its_end);
    give(device, block);
    dao_gate_finish(&held.gate);
}

static void a_callback_does_not_wait_for_a_running_callback(void)
{
    held_call_t held = {0};
    dao_thread_t caller;
    dao_place_t other = {DAO_PLACE_KIND_DEVICE, 1};
    dao_gate_init(&held.gate);
    void *block = take(device, 60 * MIB);
    void *other_block = take(other, 60 * MIB);
    CU_ASSERT_EQUAL(dao_pressure_callback_add(device, wait_at_gate, &held, &held.id), DAO_OK);
    CU_ASSERT_EQUAL(dao_pressure_callback_add(other, try_to_remove_held, &held, &held.other_id), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&caller, "caller", fail_to_allocate, NULL), DAO_OK);
    dao_gate_await_reached(&held.gate);
    take_and_fail(other, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    dao_gate_open(&held.gate);
    dao_thread_join(&caller);
    CU_ASSERT_EQUAL(dao_pressure_callback_remove(held.id), DAO_OK);
    give(device, block);
    give(other, other_block);
    dao_gate_finish(&held.gate);
}

#define THREADS 4
#define ROUNDS  60

static _Atomic bool churn_ends;

static size_t claim_little(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    atomic_fetch_add((_Atomic uint64_t *)user, 1);
    return 1;
}

static void *churn_callbacks(void *user)
{
    _Atomic uint64_t *calls = user;
    while (!atomic_load(&churn_ends)) {
        uint64_t id;
        CU_ASSERT_EQUAL(dao_pressure_callback_add(device, claim_little, calls, &id), DAO_OK);
        CU_ASSERT_EQUAL(dao_pressure_callback_remove(id), DAO_OK);
    }
    return NULL;
}

static void *press(void *user)
{
    (void)user;
    for (int i = 0; i < ROUNDS; i++) {
        void *block = dao_alloc(device, 24 * MIB);
        dao_thread_yield();
        CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    }
    return NULL;
}

static void threads_add_remove_and_call_callbacks(void)
{
    static _Atomic uint64_t calls;
    dao_thread_t pressers[THREADS], churners[2];
    calls = 0;
    atomic_store(&churn_ends, false);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&churners[i], "churn", churn_callbacks, (void *)&calls),
                              DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&pressers[i], "press", press, NULL), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&pressers[i]);
    }
    atomic_store(&churn_ends, true);
    for (int i = 0; i < 2; i++) {
        dao_thread_join(&churners[i]);
    }
    CU_ASSERT_EQUAL(dao_used(device), 0);
}

/* ---- frees that wait, and waiting for frees ---- */

static void *open_gate(void *user)
{
    dao_gate_t *gate = user;
    dao_gate_await_reached(gate);
    dao_gate_open(gate);
    return NULL;
}

static void frees_that_wait_for_a_stream_come_before_callbacks(void)
{
    dao_gate_t gate;
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    dao_thread_t opener;
    stash_t stash = {0};
    stash_add(&stash, give_stash_up);
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 60 * MIB, stream, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(device_gate(stream, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&opener, "opener", open_gate, &gate), DAO_OK);
    void *block = take(device, 32 * MIB);
    CU_ASSERT_EQUAL(stash.call_count, 0);
    give(device, block);
    dao_thread_join(&opener);
    dao_stream_destroy(stream);
    dao_gate_finish(&gate);
}

typedef struct waiter {
    dao_place_t place;
    size_t size_bytes;
    void *block;
} waiter_t;

static void *wait_for_block(void *user)
{
    waiter_t *waiter = user;
    waiter->block = dao_alloc(waiter->place, waiter->size_bytes);
    return NULL;
}

/* Starts a thread that allocates, and waits until it waits. */
static void waiter_start(waiter_t *waiter, dao_thread_t *thread)
{
    CU_ASSERT_EQUAL(dao_pressure_wait_set(waiter->place, WAIT_FOR_EVER_NS), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(thread, "waiter", wait_for_block, waiter), DAO_OK);
    while (atomic_load(&dao_waiter_count) == 0) {
        dao_thread_yield();
    }
}

static void waiter_end(waiter_t *waiter, dao_thread_t *thread)
{
    dao_thread_join(thread);
    CU_ASSERT_PTR_NOT_NULL(waiter->block);
    CU_ASSERT_EQUAL(failed_count(waiter->place), 0);
    CU_ASSERT_EQUAL(atomic_load(&dao_waiter_count), 0);
    give(waiter->place, waiter->block);
}

static void a_free_of_another_thread_ends_the_waiting(void)
{
    waiter_t waiter = {.place = device, .size_bytes = 32 * MIB};
    dao_thread_t thread;
    void *first = take(device, 30 * MIB), *second = take(device, 30 * MIB);
    waiter_start(&waiter, &thread);
    give(device, first); /* wakes it, but is not enough */
    give(device, second);
    waiter_end(&waiter, &thread);
}

/* As that of a small block, which looks for threads that wait without a lock: it may have looked before. */
static void a_free_that_wakes_nobody_ends_the_waiting(void)
{
    waiter_t waiter = {.place = device, .size_bytes = 32 * MIB};
    dao_thread_t thread;
    dao_stats_t stats = {0};
    void *block = take(device, 60 * MIB);
    dao_allocator_t *allocator = dao_runtime_started(0)->device_memory;
    waiter_start(&waiter, &thread);
    while (stats.failed_count < 3) { /* the third attempt is the one before it sleeps */
        dao_thread_yield();
        allocator->ops->stats_get(allocator, &stats);
    }
    CU_ASSERT_EQUAL(allocator->ops->free(allocator, block, NULL), DAO_OK);
    waiter_end(&waiter, &thread);
}

static void a_handle_that_is_dropped_ends_the_waiting(void)
{
    dao_place_t places[] = {device, host, pinned};
    for (int i = 0; i < 3; i++) {
        waiter_t waiter = {.place = places[i], .size_bytes = 32 * MIB};
        dao_thread_t thread;
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 60 * MIB), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[i], 50 * MIB, NULL, &memory), DAO_OK);
        waiter_start(&waiter, &thread);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        waiter_end(&waiter, &thread);
    }
}

static void a_free_in_stream_order_ends_the_waiting(void)
{
    waiter_t waiter = {.place = device, .size_bytes = 32 * MIB};
    dao_thread_t thread;
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    void *block = dao_alloc_async(device, 60 * MIB, stream);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    waiter_start(&waiter, &thread);
    CU_ASSERT_EQUAL(dao_free_async(device, block, stream), DAO_OK);
    waiter_end(&waiter, &thread);
    dao_stream_destroy(stream);
}

static void callbacks_help_allocations_in_stream_order(void)
{
    stash_t stash = {.block = take(device, 60 * MIB), .claimed_bytes = 60 * MIB};
    stash_add(&stash, give_stash_up);
    void *block = dao_alloc_async(device, 32 * MIB, NULL);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(stash.call_count, 1);
    CU_ASSERT_EQUAL(dao_free_async(device, block, NULL), DAO_OK);
}

static void a_raised_limit_ends_the_waiting(void)
{
    waiter_t waiter = {.place = device, .size_bytes = 32 * MIB};
    dao_thread_t thread;
    CU_ASSERT_EQUAL(dao_limit_set(device, 40 * MIB), DAO_OK);
    void *block = take(device, 16 * MIB);
    waiter_start(&waiter, &thread);
    CU_ASSERT_EQUAL(dao_limit_set(device, 60 * MIB), DAO_OK);
    waiter_end(&waiter, &thread);
    give(device, block);
}

static void waiting_ends_with_the_error(void)
{
    const uint64_t wait_ns = 2000000;
    void *block = take(device, 60 * MIB);
    CU_ASSERT_EQUAL(dao_pressure_wait_set(device, wait_ns), DAO_OK);
    uint64_t begin_ns = dao_clock_ns();
    take_and_fail(device, 32 * MIB, DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_TRUE(dao_clock_ns() - begin_ns >= wait_ns);
    CU_ASSERT_TRUE(says("33554432 bytes asked for"));
    CU_ASSERT_EQUAL(failed_count(device), 1);
    give(device, block);
}

static void *take_turns(void *user)
{
    _Atomic uint64_t *failures = user;
    for (int i = 0; i < ROUNDS; i++) {
        void *block = dao_alloc(device, 40 * MIB);
        atomic_fetch_add(failures, block == NULL);
        CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    }
    return NULL;
}

static void threads_that_wait_for_each_other_all_get_their_turn(void)
{
    static _Atomic uint64_t failures;
    dao_thread_t threads[THREADS];
    failures = 0;
    CU_ASSERT_EQUAL(dao_pressure_wait_set(device, WAIT_FOR_EVER_NS), DAO_OK);
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "turns", take_turns, (void *)&failures), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(failures, 0);
    CU_ASSERT_EQUAL(failed_count(device), 0);
}

/* ---- every failure on the way ---- */

#if defined(DAO_FAULTS)
static size_t give_if_there(dao_place_t place, size_t needed_bytes, void *user)
{
    void **block = user;
    void *freed = *block;
    *block = NULL;
    return dao_free(place, freed) == DAO_OK && freed != NULL ? needed_bytes : 0;
}

static void every_failure_on_the_way_leaves_all_as_it_was(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_DEVICE, 0}};
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 7 * MIB), DAO_OK);
        uint64_t fired = 1;
        for (uint64_t n = 0; fired > 0; n++) {
            void *stashed = take(places[i], 5 * MIB);
            uint64_t id = 0;
            CU_ASSERT_EQUAL(dao_pressure_callback_add(places[i], give_if_there, (void *)&stashed, &id),
                            DAO_OK);
            dao_fault_arm(DAO_FAULT_ANY, n, true);
            void *block = dao_alloc(places[i], 6 * MIB);
            fired = dao_fault_disarm();
            CU_ASSERT_TRUE(block != NULL || fired > 0);
            CU_ASSERT_EQUAL(dao_used(places[i]),
                            (block != NULL ? 6 * MIB : 0) + (stashed != NULL ? 5 * MIB : 0));
            give(places[i], block);
            give(places[i], stashed);
            CU_ASSERT_EQUAL(dao_pressure_callback_remove(id), DAO_OK);
            CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
            CU_ASSERT_EQUAL(dao_used(places[i]), 0);
        }
    }
    dao_host_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_host_stats_get(&stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
}
#endif

static CU_TestInfo callback_tests[] = {
    {"a callback that frees lets the allocation succeed", a_callback_that_frees_lets_the_allocation_succeed},
    {"a callback that frees nothing is asked once", a_callback_that_frees_nothing_is_asked_once},
    {"a callback is asked again as long as it frees", a_callback_is_asked_again_as_long_as_it_frees},
    {"a callback cannot stop the library", a_callback_cannot_stop_the_library},
    {"callbacks are asked in order until it fits", callbacks_are_asked_in_order_until_it_fits},
    {"callbacks that only claim to free end with the error",
     callbacks_that_only_claim_to_free_end_with_the_error},
    {"a request that never fits asks nobody", a_request_that_never_fits_asks_nobody},
    {"live blocks in the way leave the cache alone", live_blocks_in_the_way_leave_the_cache_alone},
    {"a callback added by a callback waits for the next time",
     a_callback_added_by_a_callback_waits_for_the_next_time},
    {"a callback can remove itself and others", a_callback_can_remove_itself_and_others},
    {"a callback can allocate, free and trim", a_callback_can_allocate_free_and_trim},
    {"a callback can raise the limit", a_callback_can_raise_the_limit},
    {"the limit of a tag asks no callback", the_limit_of_a_tag_asks_no_callback},
    {"a tag that has no room meanwhile ends the asking", a_tag_that_has_no_room_meanwhile_ends_the_asking},
    {"a tag without room is named though the device is full",
     a_tag_without_room_is_named_though_the_device_is_full},
    {"wrong callbacks are refused", wrong_callbacks_are_refused},
    {"callbacks end with the library", callbacks_end_with_the_library},
    {"removing waits for a running callback", removing_waits_for_a_running_callback},
    {"a callback does not wait for a running callback", a_callback_does_not_wait_for_a_running_callback},
    {"threads add, remove and call callbacks", threads_add_remove_and_call_callbacks},
#if defined(DAO_FAULTS)
    {"every failure on the way leaves all as it was", every_failure_on_the_way_leaves_all_as_it_was},
#endif
    CU_TEST_INFO_NULL,
};

static CU_TestInfo wait_tests[] = {
    {"frees that wait for a stream come before callbacks",
     frees_that_wait_for_a_stream_come_before_callbacks},
    {"a free of another thread ends the waiting", a_free_of_another_thread_ends_the_waiting},
    {"a free that wakes nobody ends the waiting", a_free_that_wakes_nobody_ends_the_waiting},
    {"a handle that is dropped ends the waiting", a_handle_that_is_dropped_ends_the_waiting},
    {"a free in stream order ends the waiting", a_free_in_stream_order_ends_the_waiting},
    {"callbacks help allocations in stream order", callbacks_help_allocations_in_stream_order},
    {"a raised limit ends the waiting", a_raised_limit_ends_the_waiting},
    {"waiting ends with the error", waiting_ends_with_the_error},
    {"threads that wait for each other all get their turn",
     threads_that_wait_for_each_other_all_get_their_turn},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pressure, callbacks", NULL, NULL, start, stop, callback_tests},
                             {"pressure, waiting", NULL, NULL, start, stop, wait_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
