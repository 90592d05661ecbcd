/* SPDX-License-Identifier: Apache-2.0 */
/* Memory at every kind of place: what is right, and what is misused; handles and their ends; copies. */
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "base/report/fault.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS     8
#define PLACE_COUNT 5

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t places[PLACE_COUNT] = {
    {DAO_PLACE_KIND_CPU, 0},    {DAO_PLACE_KIND_PINNED, 0}, {DAO_PLACE_KIND_PINNED, 1},
    {DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_DEVICE, 1},
};

/* The built backend, but without copies between devices, and with events that can be made to fail. */
static dao_backend_ops_t table;
static _Atomic bool record_fails;

static dao_status_t record_or_fail(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    return record_fails ? DAO_ERR_BACKEND : dao_backend_ops()->event_record(event, stream);
}

static int start_with(bool has_peers)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    table = *dao_backend_ops();
    table.event_record = record_or_fail;
    if (!has_peers) {
        table.copy_peer = NULL;
    }
    return dao_context_start(&config, &table) != DAO_OK;
}

static int runtime_start(void)
{
    return start_with(true);
}

static int staging_start(void)
{
    return start_with(false);
}

static int runtime_stop(void)
{
    return dao_finalize() != DAO_OK;
}

/* ---- what must not change when a call fails ---- */

typedef struct snapshot {
    size_t used[PLACE_COUNT];
    int32_t current_device;
} snapshot_t;

static snapshot_t snapshot_take(void)
{
    snapshot_t snapshot;
    memset(&snapshot, 0, sizeof(snapshot));
    for (int i = 0; i < PLACE_COUNT; i++) {
        snapshot.used[i] = dao_used(places[i]);
    }
    snapshot.current_device = dao_device_get_current();
    return snapshot;
}

static void assert_unchanged(const snapshot_t *before)
{
    snapshot_t now = snapshot_take();
    CU_ASSERT_EQUAL(memcmp(&now, before, sizeof(now)), 0);
}

/* ---- raw memory ---- */

static void blocks_come_and_go_at_every_place(void)
{
    static const size_t sizes[] = {1, 100, 4096, 40000, 3 * MIB + 1};
    for (int i = 0; i < PLACE_COUNT; i++) {
        size_t used_before = dao_used(places[i]);
        for (size_t j = 0; j < sizeof(sizes) / sizeof(sizes[0]); j++) {
            void *block = dao_alloc(places[i], sizes[j]);
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            CU_ASSERT_EQUAL((uintptr_t)block % (places[i].kind == DAO_PLACE_KIND_CPU ? 64 : 256), 0);
            CU_ASSERT_TRUE(dao_used(places[i]) >= used_before + sizes[j]);
            CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
            CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
        }
    }
}

static void typed_places_pick_the_same_allocators(void)
{
    void *on_host = dao_alloc(dao_cpu_place(), 10);
    void *pinned = dao_alloc(dao_pinned_place(1), 10);
    void *on_device = dao_alloc(dao_device_place(1), 10);
    CU_ASSERT_EQUAL(dao_used(dao_cpu_place()), (dao_used)(dao_place_of(dao_cpu_place())));
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(1)), (dao_used)(dao_place_of(dao_pinned_place(1))));
    CU_ASSERT_EQUAL(dao_used(dao_device_place(1)), (dao_used)(dao_place_of(dao_device_place(1))));
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_cpu_place()), on_host), DAO_OK);
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_pinned_place(1)), pinned), DAO_OK);
    CU_ASSERT_EQUAL((dao_free)(dao_place_of(dao_device_place(1)), on_device), DAO_OK);
}

static void nothing_is_nothing(void)
{
    snapshot_t before = snapshot_take();
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free(places[i], NULL), DAO_OK);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], 0));
        CU_ASSERT_EQUAL(dao_copy(places[i], NULL, places[0], NULL, 0), DAO_OK);
    }
    assert_unchanged(&before);
}

static void a_size_that_cannot_be_is_an_overflow_or_no_memory(void)
{
    snapshot_t before = snapshot_take();
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_OVERFLOW);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX - 255));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_OVERFLOW);
    }
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(0), 65 * MIB));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0"));
    assert_unchanged(&before);
}

static void addresses_that_are_none_are_refused_untouched(void)
{
    int on_stack = 0;
    for (int i = 0; i < PLACE_COUNT; i++) {
        char *block = dao_alloc(places[i], 100000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        snapshot_t before = snapshot_take();
        CU_ASSERT_EQUAL(dao_free(places[i], &on_stack), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], (void *)(uintptr_t)8), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], (void *)UINTPTR_MAX), DAO_ERR_FOREIGN_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], block + 1), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[i], block + 4096), DAO_ERR_INTERIOR_POINTER);
        assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_DOUBLE_FREE);
    }
}

static void a_wrong_place_is_named_with_the_right_one(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        void *block = dao_alloc(places[i], 50000);
        char right_text[DAO_PLACE_TEXT_BYTES];
        (void)dao_place_format(places[i], right_text);
        snapshot_t before = snapshot_take();
        for (int j = 0; j < PLACE_COUNT; j++) {
            char wrong_text[DAO_PLACE_TEXT_BYTES];
            if (i != j) {
                CU_ASSERT_EQUAL(dao_free(places[j], block), DAO_ERR_WRONG_PLACE);
                CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), right_text));
                CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), dao_place_format(places[j], wrong_text)));
            }
        }
        CU_ASSERT_EQUAL(dao_free(dao_device_place(9), block), DAO_ERR_WRONG_PLACE);
        assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
    }
}

static void a_place_that_is_not_there_is_named(void)
{
    dao_place_t nowhere = {(dao_place_kind_t)5, 0};
    dao_place_t second_host = {DAO_PLACE_KIND_CPU, 1};
    dao_stats_t stats;
    int on_stack = 0;
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(2), 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_pinned_place(-1), 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc(nowhere, 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(dao_alloc(second_host, 10));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(2), &on_stack), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_used(dao_device_place(2)), 0);
    CU_ASSERT_EQUAL(dao_trim(dao_place_of(dao_device_place(2)), 0, NULL), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_limit_set(dao_place_of(dao_device_place(2)), 0), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_stats_get(dao_place_of(dao_device_place(2)), &stats), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_stats_get(host, NULL), DAO_ERR_INVALID);
}

/* ---- two threads, one pointer ---- */

typedef struct race {
    dao_place_t place;
    void *block;
    _Atomic int ready_count;
    _Atomic int success_count;
} race_t;

static void *free_at_once(void *user)
{
    race_t *race = user;
    race->ready_count++;
    while (race->ready_count < 2) {
        dao_thread_yield();
    }
    dao_status_t status = dao_free(race->place, race->block);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_DOUBLE_FREE);
    race->success_count += status == DAO_OK;
    return NULL;
}

static void of_two_frees_at_once_one_succeeds(void)
{
    for (int round = 0; round < 20 * PLACE_COUNT; round++) {
        race_t race = {.place = places[round % PLACE_COUNT]};
        race.block = dao_alloc(race.place, 2000);
        dao_thread_t threads[2];
        for (int i = 0; i < 2; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "free", free_at_once, &race), DAO_OK);
        }
        dao_thread_join(&threads[0]);
        dao_thread_join(&threads[1]);
        CU_ASSERT_EQUAL(race.success_count, 1);
    }
}

static void *churn(void *user)
{
    uint64_t random = *(uint64_t *)user;
    void *blocks[32] = {NULL};
    int at[32] = {0};
    for (int i = 0; i < 1000; i++) {
        uint64_t draw = dao_random_next(&random);
        int slot = (int)(draw % 32);
        CU_ASSERT_EQUAL(dao_device_set_current((int32_t)(draw >> 8 & 1)), DAO_OK);
        if (blocks[slot] != NULL) {
            CU_ASSERT_EQUAL(dao_free(places[at[slot]], blocks[slot]), DAO_OK);
            blocks[slot] = NULL;
            continue;
        }
        at[slot] = (int)((draw >> 16) % PLACE_COUNT);
        blocks[slot] = dao_alloc(places[at[slot]], 1 + (draw >> 24) % 20000);
        CU_ASSERT_PTR_NOT_NULL(blocks[slot]);
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL(dao_memory_create(places[at[slot]], 1 + (draw >> 30) % 5000, NULL, &memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    for (int i = 0; i < 32; i++) {
        CU_ASSERT_EQUAL(dao_free(places[at[i]], blocks[i]), DAO_OK);
    }
    return NULL;
}

static void threads_share_all_places(void)
{
    uint64_t seed = dao_test_seed("threads_share_all_places", 7);
    uint64_t seeds[THREADS];
    dao_thread_t threads[THREADS];
    snapshot_t before = snapshot_take();
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = seed + (uint64_t)i;
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "churn", churn, &seeds[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
    }
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK); /* waits for frees that were deferred */
    }
    assert_unchanged(&before);
}

/* ---- limits, trimming, statistics ---- */

static void limits_hold_and_trimming_gives_back(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        dao_stats_t stats;
        size_t released = 1;
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released), DAO_OK);
        void *block = dao_alloc(places[i], MIB);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.requested_bytes, MIB);
        CU_ASSERT_EQUAL(stats.live_count, 1);
        CU_ASSERT_EQUAL(stats.used_bytes, dao_used(places[i]));
        CU_ASSERT_EQUAL(dao_limit_set(places[i], KIB), DAO_ERR_LIMIT);
        CU_ASSERT_EQUAL(dao_limit_set(places[i], (size_t)stats.reserved_bytes), DAO_OK);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], (size_t)stats.reserved_bytes + 1));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_LIMIT);
        CU_ASSERT_EQUAL(dao_limit_set(places[i], 0), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_stats_reset_peaks(places[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released), DAO_OK);
        CU_ASSERT_TRUE(released >= MIB);
        CU_ASSERT_EQUAL(dao_stats_get(places[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.reserved_bytes, 0);
        CU_ASSERT_EQUAL(stats.peak_used_bytes, 0);
    }
}

/* ---- handles ---- */

static void a_handle_frees_its_memory_with_the_last_reference(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        size_t used_before = dao_used(places[i]);
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[i], 3000, NULL, &memory), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL(dao_memory_address(memory));
        CU_ASSERT_EQUAL(dao_memory_size(memory), 3000);
        CU_ASSERT_TRUE(dao_place_equal(dao_memory_place(memory), places[i]));
        CU_ASSERT_EQUAL(dao_memory_stream(memory) == NULL, places[i].kind == DAO_PLACE_KIND_CPU);
        CU_ASSERT_EQUAL(dao_memory_retain(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 2);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_TRUE(dao_used(places[i]) > used_before);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory),
                        DAO_ERR_INVALID); /* it rests, see runtime/core/handle.h */
        CU_ASSERT_EQUAL(dao_memory_retain(memory), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 0);
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
    }
}

static void bad_arguments_of_handles_are_named(void)
{
    dao_memory_t *memory = NULL;
    dao_stream_t *stream = NULL;
    int byte = 0;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    snapshot_t before = snapshot_take();
    CU_ASSERT_EQUAL(dao_memory_create(host, 10, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 10, stream, &memory),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(host, 10, stream, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(4)), 10, NULL, &memory),
                    DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_memory_create(host, SIZE_MAX, NULL, &memory), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, NULL, 1, NULL, NULL, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, &byte, SIZE_MAX, NULL, NULL, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, &byte, 1, NULL, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_sub_range(NULL, 0, 0, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_retain(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_release(NULL), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_memory_address(NULL));
    CU_ASSERT_PTR_NULL(memory);
    assert_unchanged(&before);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(dao_place_of(dao_device_place(1)), 0, stream, &memory), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_memory_address(memory));
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

typedef struct deletion {
    int count;
    void *address;
    size_t size_bytes;
} deletion_t;

static void note_deletion(void *address, size_t size_bytes, void *user)
{
    deletion_t *deletion = user;
    deletion->count++;
    deletion->address = address;
    deletion->size_bytes = size_bytes;
    void *block = dao_alloc(dao_device_place(0), 100); /* no lock is held */
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
}

static void a_deleter_is_called_once(void)
{
    char bytes[100];
    deletion_t deletion = {0};
    dao_memory_t *memory = NULL;
    dao_memory_t *part = NULL;
    dao_memory_t *smaller = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_from_pointer(host, bytes, 100, note_deletion, &deletion, &memory),
                          DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 90, 11, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 101, 0, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 1, SIZE_MAX, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(memory, 10, 50, &part), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_use_count(memory), 2);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(part, 50, 0, &smaller), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_memory_address(part), bytes + 10);
    CU_ASSERT_PTR_EQUAL(dao_memory_address(smaller), bytes + 60);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(part), DAO_OK);
    CU_ASSERT_EQUAL(deletion.count, 0);
    CU_ASSERT_EQUAL(dao_memory_release(smaller), DAO_OK);
    CU_ASSERT_EQUAL(deletion.count, 1);
    CU_ASSERT_PTR_EQUAL(deletion.address, bytes);
    CU_ASSERT_EQUAL(deletion.size_bytes, 100);
}

/* A stream whose work does not move until the gate opens. */
static dao_stream_t *held_stream(int32_t device_index, dao_gate_t *gate)
{
    dao_stream_t *stream = NULL;
    dao_gate_init(gate);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(device_index, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(device_gate(stream, gate), DAO_OK);
    return stream;
}

static void released_memory_waits_for_its_stream(void)
{
    static const dao_place_t ordered[] = {{DAO_PLACE_KIND_DEVICE, 0}, {DAO_PLACE_KIND_PINNED, 0}};
    for (int i = 0; i < 2; i++) {
        dao_gate_t gate;
        dao_stream_t *stream = held_stream(0, &gate);
        dao_memory_t *memory = NULL;
        dao_stats_t stats;
        size_t used_before = dao_used(ordered[i]);
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(ordered[i], 5000, stream, &memory), DAO_OK);
        size_t used = dao_used(ordered[i]);
        void *address = dao_memory_address(memory);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(ordered[i]), used);
        CU_ASSERT_EQUAL(dao_stats_get(ordered[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.deferred_count, 1);
        void *other = dao_alloc(ordered[i], 5000); /* work that hangs holds up nobody else */
        CU_ASSERT_PTR_NOT_EQUAL(other, address);
        CU_ASSERT_EQUAL(dao_free(ordered[i], other), DAO_OK);
        dao_gate_open(&gate);
        CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(ordered[i]), used_before);
        CU_ASSERT_EQUAL(dao_stats_get(ordered[i], &stats), DAO_OK);
        CU_ASSERT_EQUAL(stats.deferred_count, 0);
        dao_stream_destroy(stream);
        dao_gate_finish(&gate);
    }
}

static void one_stream_that_hangs_holds_up_no_other(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_stream_t *held = held_stream(0, &gate);
    size_t used_before = dao_used(device);
    for (int i = 0; i < 100; i++) {
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, held, &memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    dao_stream_t *compute = NULL;
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &compute), DAO_OK);
    size_t used_held = dao_used(device);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, compute, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    for (int i = 0; i < 10; i++) {
        CU_ASSERT_EQUAL(dao_stream_synchronize(compute), DAO_OK); /* asks some of those that wait, in turn */
    }
    CU_ASSERT_EQUAL(dao_used(device), used_held);
    dao_gate_open(&gate);
    dao_stream_destroy(held);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_gate_finish(&gate);
}

static void *open_later(void *user)
{
    dao_sleep_until(dao_clock_ns() + 20 * UINT64_C(1000000));
    dao_gate_open(user);
    return NULL;
}

static void memory_that_waits_for_a_stream_is_not_out_of_memory(void)
{
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(1, &gate);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 40 * MIB, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    void *block = dao_alloc(device, 40 * MIB);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void memory_that_waits_for_a_stream_is_not_above_a_limit(void)
{
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(1, &gate);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 40 * MIB, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 8 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(device, 0), DAO_OK);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void *trim_device(void *user)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    *(dao_status_t *)user = dao_trim(device, 0, NULL);
    return NULL;
}

static void a_thread_that_waits_for_a_stream_holds_up_no_other(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gates[2];
    dao_stream_t *streams[2] = {held_stream(0, &gates[0]), held_stream(0, &gates[1])};
    size_t used_before = dao_used(device);
    for (int i = 0; i < 2; i++) {
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, i == 0 ? 1 * MIB : 8 * MIB, streams[i], &memory),
                              DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    }
    dao_status_t trim_status = DAO_ERR_NOT_READY;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "trim", trim_device, &trim_status), DAO_OK);
    dao_sleep_until(dao_clock_ns() + 20 * UINT64_C(1000000)); /* it waits for the first stream now */
    dao_gate_open(&gates[1]);
    CU_ASSERT_EQUAL(dao_stream_synchronize(streams[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before + 1 * MIB);
    dao_gate_open(&gates[0]);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(trim_status, DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    for (int i = 0; i < 2; i++) {
        dao_stream_destroy(streams[i]);
        dao_gate_finish(&gates[i]);
    }
}

static void a_release_waits_where_no_event_can_be_recorded(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_gate_t gate;
    dao_thread_t thread;
    dao_stream_t *held = held_stream(0, &gate);
    dao_memory_t *memory = NULL;
    size_t used_before = dao_used(device);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, held, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "open later", open_later, &gate), DAO_OK);
    record_fails = true;
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    record_fails = false;
    CU_ASSERT_TRUE(gate.is_open);
    CU_ASSERT_EQUAL(dao_used(device), used_before);
    dao_thread_join(&thread);
    dao_stream_destroy(held);
    dao_gate_finish(&gate);
}

static void a_handle_keeps_its_stream(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, stream, &memory), DAO_OK);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_stream_device(dao_memory_stream(memory)), 0);
    CU_ASSERT_EQUAL(dao_stream_fill(dao_memory_stream(memory), dao_memory_address(memory), 1, 1000), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
}

static void pinned_memory_of_another_device_is_freed_later(void)
{
    dao_place_t pinned = dao_place_of(dao_pinned_place(1));
    dao_memory_t *memory = NULL;
    size_t used_before = dao_used(pinned);
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(pinned, 1000, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(1), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(pinned), used_before);
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
}

#if defined(DAO_FAULTS)
static void handles_survive_any_missing_resource(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        snapshot_t before = snapshot_take();
        dao_memory_t *memory = NULL;
        for (uint64_t n = 0; memory == NULL && n < 1000; n++) {
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            dao_status_t status = dao_memory_create(places[i], 100 * KIB, NULL, &memory);
            uint64_t fired_count = dao_fault_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
            CU_ASSERT_EQUAL(status == DAO_OK, memory != NULL);
            if (memory == NULL) {
                assert_unchanged(&before);
            }
        }
        dao_fault_arm(DAO_FAULT_ANY, 0, true); /* a release does without whatever it would like to have */
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        (void)dao_fault_disarm();
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        assert_unchanged(&before);
    }
}

static void alloc_survives_any_missing_resource(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        snapshot_t before = snapshot_take();
        void *block = NULL;
        for (uint64_t n = 0; block == NULL && n < 1000; n++) {
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            block = dao_alloc(places[i], 100 * KIB);
            uint64_t fired_count = dao_fault_disarm();
            CU_ASSERT_TRUE(block != NULL || fired_count > 0);
            if (block == NULL) {
                assert_unchanged(&before);
            }
        }
        dao_fault_arm(DAO_FAULT_ANY, 0, true); /* nor does a free */
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_fault_disarm(), 0);
        assert_unchanged(&before);
    }
}
#endif

/* ---- copies ---- */

static void bytes_survive_a_copy_between_any_two_places(void)
{
    static const size_t sizes[] = {1, 1000, 5 * MIB + 13};
    static unsigned char sent[5 * MIB + 13];
    static unsigned char received[5 * MIB + 13];
    uint64_t random = dao_test_seed("bytes_survive_a_copy_between_any_two_places", 3);
    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (unsigned char)dao_random_next(&random);
    }
    for (int i = 0; i < PLACE_COUNT * PLACE_COUNT * 3; i++) {
        dao_place_t from = places[i % PLACE_COUNT];
        dao_place_t to = places[i / PLACE_COUNT % PLACE_COUNT];
        size_t size = sizes[i / (PLACE_COUNT * PLACE_COUNT)];
        void *first = dao_alloc(from, size);
        void *second = dao_alloc(to, size);
        snapshot_t before = snapshot_take();
        memset(received, 0, size);
        CU_ASSERT_EQUAL(dao_copy(from, first, host, sent, size), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(to, second, from, first, size), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(host, received, to, second, size), DAO_OK);
        CU_ASSERT_EQUAL(memcmp(sent, received, size), 0);
        assert_unchanged(&before);
        CU_ASSERT_EQUAL(dao_free(from, first), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(to, second), DAO_OK);
    }
}

static void copies_stay_inside_their_blocks(void)
{
    char bytes[2000];
    for (int i = 1; i < PLACE_COUNT; i++) {
        char *block = dao_alloc(places[i], 1000);
        char *other = dao_alloc(places[i], 1000);
        CU_ASSERT_EQUAL(dao_copy(places[i], block + 500, host, bytes, 500), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], block + 500, host, bytes, 501), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], block, SIZE_MAX), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(host, bytes, places[i], bytes, 1), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, places[i], block + 10, 100), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, places[i], other, 1000), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], NULL, host, bytes, 1), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_copy(dao_place_of(dao_device_place(5)), block, host, bytes, 1),
                        DAO_ERR_NO_DEVICE);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_copy(places[i], block, host, bytes, 1), DAO_ERR_OUT_OF_BOUNDS);
        CU_ASSERT_EQUAL(dao_free(places[i], other), DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"blocks come and go at every place", blocks_come_and_go_at_every_place},
    {"typed places pick the same allocators", typed_places_pick_the_same_allocators},
    {"nothing is nothing", nothing_is_nothing},
    {"a size that cannot be is an overflow or no memory", a_size_that_cannot_be_is_an_overflow_or_no_memory},
    {"addresses that are none are refused untouched", addresses_that_are_none_are_refused_untouched},
    {"a wrong place is named with the right one", a_wrong_place_is_named_with_the_right_one},
    {"a place that is not there is named", a_place_that_is_not_there_is_named},
    {"of two frees at once one succeeds", of_two_frees_at_once_one_succeeds},
    {"threads share all places", threads_share_all_places},
    {"limits hold and trimming gives back", limits_hold_and_trimming_gives_back},
    {"a handle frees its memory with the last reference", a_handle_frees_its_memory_with_the_last_reference},
    {"bad arguments of handles are named", bad_arguments_of_handles_are_named},
    {"a deleter is called once", a_deleter_is_called_once},
    {"released memory waits for its stream", released_memory_waits_for_its_stream},
    {"one stream that hangs holds up no other", one_stream_that_hangs_holds_up_no_other},
    {"memory that waits for a stream is not out of memory",
     memory_that_waits_for_a_stream_is_not_out_of_memory},
    {"memory that waits for a stream is not above a limit",
     memory_that_waits_for_a_stream_is_not_above_a_limit},
    {"a thread that waits for a stream holds up no other",
     a_thread_that_waits_for_a_stream_holds_up_no_other},
    {"a release waits where no event can be recorded", a_release_waits_where_no_event_can_be_recorded},
    {"a handle keeps its stream", a_handle_keeps_its_stream},
    {"pinned memory of another device is freed later", pinned_memory_of_another_device_is_freed_later},
#if defined(DAO_FAULTS)
    {"handles survive any missing resource", handles_survive_any_missing_resource},
    {"alloc survives any missing resource", alloc_survives_any_missing_resource},
#endif
    {"copies stay inside their blocks", copies_stay_inside_their_blocks},
    {"bytes survive a copy between any two places", bytes_survive_a_copy_between_any_two_places},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo staging_tests[] = {
    {"bytes survive a copy between any two places", bytes_survive_a_copy_between_any_two_places},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"memory", runtime_start, runtime_stop, NULL, NULL, tests},
                             {"memory without peers", staging_start, runtime_stop, NULL, NULL, staging_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
