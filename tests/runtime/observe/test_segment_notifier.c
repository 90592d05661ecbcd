/* SPDX-License-Identifier: Apache-2.0 */
/* Segment callbacks: what memory comes and goes, against a list of what is there. */
#include <dao/async.h>
#include <dao/lease.h>
#include <dao/place_config.h>
#include <dao/pressure.h>
#include <dao/segment.h>
#include <dao/share.h>
#include <dao/tensor.h>

#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/blocks.h"
#include "tests/support/gate.h"

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t other_device = {DAO_PLACE_KIND_DEVICE, 1};
static const dao_place_t pinned = {DAO_PLACE_KIND_PINNED, 0};
static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

/* ---- a list of what is there ---- */

#define SEEN_COUNT_MAX 256

typedef struct seen {
    dao_place_t place;
    uint64_t id;
    uint64_t bytes;
    int obtained_count;
    int released_count;
    int count;
    struct {
        char *address;
        size_t size_bytes;
    } segments[SEEN_COUNT_MAX];
} seen_t;

static int find_segment(const seen_t *seen, const char *address)
{
    int i = 0;
    while (i < seen->count && seen->segments[i].address != address) {
        i++;
    }
    return i;
}

/* Touches the first and the last byte: the memory has to be there at both events. */
static void touch(dao_place_t place, char *address, size_t size_bytes)
{
    device_fill(place, address, 1, 1);
    device_fill(place, address + size_bytes - 1, 1, 1);
}

static void see(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes, void *user)
{
    seen_t *seen = user;
    CU_ASSERT_TRUE(dao_place_equal(place, seen->place));
    touch(place, address, size_bytes);
    int index = find_segment(seen, address);
    if (event == DAO_SEGMENT_EVENT_OBTAINED) {
        CU_ASSERT_EQUAL(index, seen->count);
        CU_ASSERT_TRUE_FATAL(seen->count < SEEN_COUNT_MAX);
        seen->segments[seen->count].address = address;
        seen->segments[seen->count++].size_bytes = size_bytes;
        seen->bytes += size_bytes;
        seen->obtained_count++;
    } else {
        CU_ASSERT_EQUAL(event, DAO_SEGMENT_EVENT_RELEASING);
        CU_ASSERT_TRUE_FATAL(index < seen->count);
        CU_ASSERT_EQUAL(seen->segments[index].size_bytes, size_bytes);
        seen->segments[index] = seen->segments[--seen->count];
        seen->bytes -= size_bytes;
        seen->released_count++;
    }
}

static void observe_place(seen_t *seen, dao_place_t place)
{
    *seen = (seen_t){.place = place};
    device_bytes_open(place);
    CU_ASSERT_EQUAL_FATAL(dao_segment_callback_add(place, see, seen, &seen->id), DAO_OK);
}

/* What was told is what the place holds. */
static void check(const seen_t *seen)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(seen->place, &stats), DAO_OK);
    CU_ASSERT_EQUAL(seen->bytes, stats.reserved_bytes);
}

static void churn(seen_t *seen, uint64_t *state)
{
    void *blocks[16] = {0};
    for (int i = 0; i < 300; i++) {
        size_t index = (size_t)(dao_random_next(state) % 16);
        give(seen->place, blocks[index]);
        blocks[index] = dao_alloc(seen->place, (size_t)(dao_random_next(state) % (8 * MIB)) + 1);
        if (i % 50 == 0) {
            CU_ASSERT_EQUAL(dao_trim(seen->place, 0, NULL), DAO_OK);
        }
        check(seen);
    }
    for (size_t index = 0; index < 16; index++) {
        give(seen->place, blocks[index]);
    }
    CU_ASSERT_EQUAL(dao_trim(seen->place, 0, NULL), DAO_OK);
    check(seen);
    CU_ASSERT_EQUAL(seen->count, 0);
    CU_ASSERT_TRUE(seen->obtained_count > 0);
}

/* ---- tests ---- */

static void callbacks_know_what_every_strategy_holds(void)
{
    static const dao_place_t places[] = {{DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    uint64_t state = dao_test_seed("callbacks know what every strategy holds", 13);
    static seen_t seen;
    for (int strategy = DAO_STRATEGY_GOOD_FIT; strategy <= DAO_STRATEGY_SYSTEM; strategy++) {
        for (int i = 0; i < 2; i++) {
            stop();
            start_with(0, strategy == DAO_STRATEGY_BEST_FIT);
            dao_place_config_t config = {.strategy = (dao_strategy_t)strategy, .limit_bytes = 60 * MIB};
            CU_ASSERT_EQUAL(dao_place_configure(places[i], &config), DAO_OK);
            observe_place(&seen, places[i]);
            churn(&seen, &state);
            CU_ASSERT_EQUAL(dao_segment_callback_remove(seen.id), DAO_OK);
            int obtained_count = seen.obtained_count;
            give(places[i], take(places[i], 5 * MIB));
            CU_ASSERT_EQUAL(seen.obtained_count, obtained_count); /* removed is removed */
        }
    }
}

static void a_page_that_is_moved_is_released_and_obtained(void)
{
    static seen_t seen;
    observe_place(&seen, device);
    void *blocks[32];
    for (int i = 0; i < 32; i++) {
        blocks[i] = take(device, 2 * MIB);
    }
    CU_ASSERT_EQUAL(seen.bytes, 64 * MIB);
    CU_ASSERT_EQUAL(dao_limit_set(device, 64 * MIB), DAO_OK);
    for (int i = 0; i < 32; i += 2) {
        give(device, blocks[i]);
    }
    void *large = take(device, 32 * MIB);
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_OK);
    CU_ASSERT_TRUE(stats.remap_count > 0);
    CU_ASSERT_EQUAL(seen.released_count, (int)stats.remap_count);
    CU_ASSERT_EQUAL(seen.bytes, 64 * MIB);
    for (size_t offset_bytes = 0; offset_bytes < 32 * MIB; offset_bytes += 2 * MIB) {
        CU_ASSERT_TRUE(find_segment(&seen, (char *)large + offset_bytes) < seen.count);
    }
    give(device, large);
    for (int i = 1; i < 32; i += 2) {
        give(device, blocks[i]);
    }
}

static void all_that_is_left_is_released_at_the_end(void)
{
    static seen_t seen, seen_pinned;
    observe_place(&seen, device);
    observe_place(&seen_pinned, pinned);
    give(device, take(device, 10 * MIB));
    give(pinned, take(pinned, 10 * MIB));
    CU_ASSERT_TRUE(seen.bytes >= 10 * MIB && seen_pinned.bytes >= 10 * MIB);
    stop();
    CU_ASSERT_EQUAL(seen.count, 0);
    CU_ASSERT_EQUAL(seen_pinned.count, 0);
    start();
    give(device, take(device, 10 * MIB));
    CU_ASSERT_EQUAL(seen.count, 0); /* dao_finalize() has removed it */
    CU_ASSERT_EQUAL(dao_segment_callback_remove(seen.id), DAO_ERR_INVALID);
}

static void only_the_place_that_was_named_is_told_of(void)
{
    static seen_t seen;
    observe_place(&seen, other_device);
    give(device, take(device, 1 * MIB));
    give(pinned, take(pinned, 1 * MIB));
    CU_ASSERT_EQUAL(seen.obtained_count, 0);
    give(other_device, take(other_device, 1 * MIB));
    CU_ASSERT_TRUE(seen.obtained_count > 0);
}

static _Atomic bool free_refused;

static dao_status_t pinned_free_or_refuse(dao_backend_device_t *backend_device, void *address,
                                          size_t size_bytes)
{
    return atomic_exchange(&free_refused, false)
               ? DAO_ERR_BACKEND
               : dao_backend_ops()->pinned_free(backend_device, address, size_bytes);
}

static void what_the_backend_refuses_to_take_back_is_obtained_again(void)
{
    static dao_backend_ops_t table;
    static seen_t seen;
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    stop();
    table = *dao_backend_ops();
    table.pinned_free = pinned_free_or_refuse;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &table), DAO_OK);
    observe_place(&seen, pinned);
    give(pinned, take(pinned, 10 * MIB));
    atomic_store(&free_refused, true);
    CU_ASSERT_EQUAL(dao_trim(pinned, 0, NULL), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(seen.count, 1);
    CU_ASSERT_EQUAL(seen.obtained_count, 2);
    check(&seen);
    CU_ASSERT_EQUAL(dao_trim(pinned, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(seen.count, 0);
}

static _Atomic int unmaps_left; /* until one is refused */

static dao_status_t unmap_run_or_refuse(dao_backend_device_t *backend_device,
                                        dao_backend_pages_t *const *pages, size_t page_count, void *address)
{
    if (atomic_fetch_sub(&unmaps_left, 1) == 1) {
        return DAO_ERR_BACKEND;
    }
    size_t page_bytes = dao_backend_ops()->pages_size(pages[0]);
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < page_count && status == DAO_OK; i++) {
        status = dao_backend_ops()->pages_unmap(backend_device, pages[i], (char *)address + i * page_bytes);
    }
    return status;
}

/* A backend that unmaps a run by one call: each page is told of, and again where the call is refused. */
static void pages_of_a_run_are_released_one_by_one(void)
{
    static dao_backend_ops_t table;
    static seen_t seen;
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    if (!dao_backend_has_pages(dao_backend_ops())) {
        (void)printf("    skipped: pages are not mapped\n");
        return;
    }
    stop();
    table = *dao_backend_ops();
    table.pages_unmap_run = unmap_run_or_refuse;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &table), DAO_OK);
    observe_place(&seen, device);
    give(device, take(device, 10 * MIB));
    int obtained_count = seen.count;
    CU_ASSERT_TRUE(obtained_count > 1);
    atomic_store(&unmaps_left, 1);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_ERR_BACKEND);
    CU_ASSERT_EQUAL(seen.count, obtained_count);
    CU_ASSERT_EQUAL(seen.obtained_count, 2 * obtained_count);
    check(&seen);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(seen.count, 0);
}

/* ---- misuse ---- */

typedef struct misuse {
    void *block;
    void *large;
    dao_memory_t *memory;
    dao_tensor_t *tensor;
    uint64_t id;
    int call_count;
} misuse_t;

static void use_the_library(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                            void *user)
{
    (void)event;
    (void)address;
    (void)size_bytes;
    misuse_t *misuse = user;
    uint64_t id = 0;
    dao_stats_t stats;
    dao_device_info_t info;
    dao_place_t found;
    dao_memory_t *memory;
    dao_lease_t *lease;
    CU_ASSERT_PTR_NULL(dao_alloc(place, 1000));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_REENTRANT);
    CU_ASSERT_PTR_NULL(dao_alloc(host, 1000));
    CU_ASSERT_PTR_NULL(dao_alloc_async(device, 1000, NULL));
    CU_ASSERT_EQUAL(dao_free(place, misuse->block), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), misuse->block), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), misuse->large), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_free_async(device, misuse->block, NULL), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_memory_release(misuse->memory), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_tensor_release(misuse->tensor), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_used(place), 0);
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_limit_set(place, 0), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_stats_get(place, &stats), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_device_set_current(1), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_segment_callback_add(place, use_the_library, NULL, &id), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(misuse->id), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_address_place(misuse->block, &found), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_hardening_check(place), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_host_limit_set(0), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_memory_create_shared(device, 1000, &memory), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_lease_begin(device, &lease), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_REENTRANT);
    misuse->call_count++;
}

static misuse_t misuse_begin(void)
{
    misuse_t misuse = {.block = take(device, 1000), .large = take(device, 1 * MIB)};
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, NULL, &misuse.memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tensor_empty(device, DAO_TYPE_F32, 1, (const int64_t[]){250}, &misuse.tensor),
                          DAO_OK);
    return misuse;
}

static void misuse_end(const misuse_t *misuse)
{
    CU_ASSERT_EQUAL(dao_memory_release(misuse->memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_tensor_release(misuse->tensor), DAO_OK);
    give(device, misuse->block);
    give(device, misuse->large);
}

static void a_callback_that_uses_the_library_is_refused(void)
{
    misuse_t misuse = misuse_begin();
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, use_the_library, &misuse, &misuse.id), DAO_OK);
    size_t used_bytes = dao_used(device);
    give(device, take(device, 20 * MIB));
    CU_ASSERT_TRUE(misuse.call_count > 0);
    CU_ASSERT_EQUAL(dao_used(device), used_bytes);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(misuse.id), DAO_OK); /* this thread is outside again */
    misuse_end(&misuse);
}

/* Of another place, whose lock is held while the callback runs. */
static void a_callback_that_frees_elsewhere_is_refused(void)
{
    misuse_t misuse = misuse_begin();
    CU_ASSERT_EQUAL(dao_segment_callback_add(pinned, use_the_library, &misuse, &misuse.id), DAO_OK);
    give(pinned, take(pinned, 1 * MIB));
    CU_ASSERT_TRUE(misuse.call_count > 0);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(misuse.id), DAO_OK);
    misuse_end(&misuse);
}

static void wrong_callbacks_are_refused(void)
{
    uint64_t id = 7;
    dao_place_t nowhere = {DAO_PLACE_KIND_DEVICE, 2};
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, NULL, NULL, &id), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, see, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_segment_callback_add(host, see, NULL, &id), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_segment_callback_add(nowhere, see, NULL, &id), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(0), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(id, 7);
    for (int i = 0; i < DAO_SEGMENT_CALLBACK_COUNT_MAX; i++) {
        CU_ASSERT_EQUAL(dao_segment_callback_add(device, see, NULL, &id), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, see, NULL, &id), DAO_ERR_TOO_MANY);
}

/* ---- threads ---- */

typedef struct held {
    dao_gate_t gate;
    uint64_t id;
    _Atomic bool has_ended;
    bool was_removed_after_its_end;
} held_t;

static void wait_at_gate(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                         void *user)
{
    (void)place;
    (void)event;
    (void)address;
    (void)size_bytes;
    held_t *held = user;
    dao_gate_wait(&held->gate);
    atomic_store(&held->has_ended, true);
}

static void *allocate(void *user)
{
    *(void **)user = dao_alloc(device, 1 * MIB);
    return NULL;
}

static void *remove_held(void *user)
{
    held_t *held = user;
    CU_ASSERT_EQUAL(dao_segment_callback_remove(held->id), DAO_OK);
    held->was_removed_after_its_end = atomic_load(&held->has_ended);
    return NULL;
}

static void removing_waits_for_a_running_callback(void)
{
    held_t held = {0};
    dao_thread_t caller, remover;
    void *block = NULL;
    dao_gate_init(&held.gate);
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, wait_at_gate, &held, &held.id), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&caller, "caller", allocate, &block), DAO_OK);
    dao_gate_await_reached(&held.gate);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&remover, "remover", remove_held, &held), DAO_OK);
    dao_gate_open(&held.gate);
    dao_thread_join(&remover);
    dao_thread_join(&caller);
    CU_ASSERT_TRUE(held.was_removed_after_its_end);
    give(device, block);
    dao_gate_finish(&held.gate);
}

static _Atomic bool churn_ends;

static void count_call(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                       void *user)
{
    (void)place;
    (void)event;
    touch(place, address, size_bytes);
    atomic_fetch_add((_Atomic uint64_t *)user, 1);
}

static void *add_and_remove(void *user)
{
    while (!atomic_load(&churn_ends)) {
        uint64_t id;
        CU_ASSERT_EQUAL(dao_segment_callback_add(device, count_call, user, &id), DAO_OK);
        dao_thread_yield();
        CU_ASSERT_EQUAL(dao_segment_callback_remove(id), DAO_OK);
    }
    return NULL;
}

static void *grow_and_shrink(void *user)
{
    dao_place_t place = *(const dao_place_t *)user;
    for (int i = 0; i < 200; i++) {
        CU_ASSERT_EQUAL(dao_free(place, dao_alloc(place, 3 * MIB)), DAO_OK);
        CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    }
    return NULL;
}

static void threads_add_remove_and_are_told(void)
{
    static _Atomic uint64_t calls;
    static dao_place_t places[] = {
        {DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_DEVICE, 1}};
    dao_thread_t growers[3], churner;
    uint64_t id = 0;
    calls = 0;
    churn_ends = false;
    device_bytes_open(device);
    CU_ASSERT_EQUAL(dao_segment_callback_add(device, count_call, (void *)&calls, &id), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&churner, "churner", add_and_remove, (void *)&calls), DAO_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&growers[i], "grower", grow_and_shrink, &places[i]), DAO_OK);
    }
    for (int i = 0; i < 3; i++) {
        dao_thread_join(&growers[i]);
    }
    atomic_store(&churn_ends, true);
    dao_thread_join(&churner);
    CU_ASSERT_TRUE(calls > 0);
    CU_ASSERT_EQUAL(dao_segment_callback_remove(id), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"callbacks know what every strategy holds", callbacks_know_what_every_strategy_holds},
    {"a page that is moved is released and obtained", a_page_that_is_moved_is_released_and_obtained},
    {"all that is left is released at the end", all_that_is_left_is_released_at_the_end},
    {"only the place that was named is told of", only_the_place_that_was_named_is_told_of},
    {"what the backend refuses to take back is obtained again",
     what_the_backend_refuses_to_take_back_is_obtained_again},
    {"pages of a run are released one by one", pages_of_a_run_are_released_one_by_one},
    {"a callback that uses the library is refused", a_callback_that_uses_the_library_is_refused},
    {"a callback that frees elsewhere is refused", a_callback_that_frees_elsewhere_is_refused},
    {"wrong callbacks are refused", wrong_callbacks_are_refused},
    {"removing waits for a running callback", removing_waits_for_a_running_callback},
    {"threads add, remove and are told", threads_add_remove_and_are_told},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"segment_notifier", NULL, NULL, start, stop, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
