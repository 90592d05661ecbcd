/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in stream order on streams that are being captured into a graph. What ends a capture ends the
   program on the loopback driver, and makes capture_end() fail on a device. */
#include <dao/async.h>
#include <dao/context.h>
#include <dao/lease.h>
#include <dao/memory.h>
#include <dao/observe.h>
#include <dao/place_config.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "allocators/pages/page_buddy.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "runtime/device/deferred_free.h"
#include "runtime/start/context.h"
#include "tests/support/backends/capture.h"
#include "tests/support/suite.h"

#define PAGE           ((size_t)DAO_PAGE_BYTES)
#define CAPACITY_BYTES (64 * MIB)
#define SMALL_BYTES    64u
#define HANDLE_COUNT   40 /* more than one drain looks at */
#define EVENT_COUNT    64

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static dao_stream_t *captured, *other;

/* ---- the backend's calls, with a word for the test ---- */

static dao_backend_ops_t ops;
static bool begins_meanwhile; /* a capture, behind the question whether there is one */
static bool fails_to_record;
static uint32_t stream_wait_count;
static dao_backend_event_t *captured_event; /* the latest of the stream that is captured */
static bool others_seem_busy;               /* events of the other streams have not finished, for who asks */
static bool stops_meanwhile; /* the capture, in the first wait for an event; another thread looks then */
static void stop(void);
static void act_elsewhere(void);

static dao_status_t stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture)
{
    dao_status_t status = dao_backend_ops()->stream_capture(stream, out_capture);
    if (begins_meanwhile && stream == captured->backend) {
        begins_meanwhile = false;
        CU_ASSERT_TRUE(capture_begin(dao_stream_native(captured)));
    }
    return status;
}

static dao_status_t event_record(dao_backend_event_t *event, dao_backend_stream_t *stream)
{
    captured_event = stream == captured->backend ? event : captured_event;
    return fails_to_record ? dao_error(DAO_ERR_BACKEND, "failed on purpose")
                           : dao_backend_ops()->event_record(event, stream);
}

/* However long the device takes, the event behind the capture has finished, and those of other streams have
   not. */
static dao_status_t event_query(dao_backend_event_t *event)
{
    if (!others_seem_busy) {
        return dao_backend_ops()->event_query(event);
    }
    return event == captured_event && !stops_meanwhile ? dao_backend_ops()->event_synchronize(event)
                                                       : DAO_ERR_NOT_READY;
}

static dao_status_t event_synchronize(dao_backend_event_t *event)
{
    if (stops_meanwhile) {
        stops_meanwhile = false;
        stop();
        act_elsewhere();
    }
    return dao_backend_ops()->event_synchronize(event);
}

static dao_status_t stream_synchronize(dao_backend_stream_t *stream)
{
    stream_wait_count++;
    return dao_backend_ops()->stream_synchronize(stream);
}

/* ---- helpers ---- */

static void begin_streams(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = CAPACITY_BYTES}};
    ops = *dao_backend_ops();
    ops.stream_capture = stream_capture;
    ops.event_record = event_record;
    ops.event_query = event_query;
    ops.event_synchronize = event_synchronize;
    ops.stream_synchronize = stream_synchronize;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &ops), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &captured), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &other), DAO_OK);
}

/* Two streams free, so that events are recorded behind frees. */
static void begin(void)
{
    begin_streams();
    dao_stream_t *streams[] = {captured, other};
    for (int i = 0; i < 2; i++) {
        void *block = dao_alloc_async(device, PAGE, streams[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(dao_free_async(device, block, streams[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
}

/* Others have taken all numbers of streams, so that blocks of handles follow none, and their frees are
   deferred. */
static void begin_without_numbers(void)
{
    uint32_t number;
    begin_streams();
    ops.made_streams_wait_on_host = true; /* so that there is no crowd */
    while (dao_stream_fences_stream_add(captured->runtime->fences, other->backend, &number) == DAO_OK) {
    }
}

/* All memory comes back when all captures have ended. */
static void end(void)
{
    CU_ASSERT_EQUAL(dao_stream_synchronize(captured), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(other), DAO_OK);
    void *all = dao_alloc(device, CAPACITY_BYTES);
    CU_ASSERT_PTR_NOT_NULL(all);
    CU_ASSERT_EQUAL(dao_free(device, all), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    dao_stream_destroy(captured);
    dao_stream_destroy(other);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void capture(void)
{
    CU_ASSERT_TRUE_FATAL(capture_begin(dao_stream_native(captured)));
}

static void stop(void)
{
    CU_ASSERT_TRUE(capture_end(dao_stream_native(captured)));
}

static char *take(size_t size_bytes, dao_stream_t *stream)
{
    char *block = dao_alloc_async(device, size_bytes, stream);
    CU_ASSERT_PTR_NOT_NULL(block);
    return block;
}

static void give(void *block, dao_stream_t *stream)
{
    CU_ASSERT_EQUAL(dao_free_async(device, block, stream), DAO_OK);
}

/* Returns a small block that a lease retains. */
static char *take_retained(dao_lease_t **out_lease)
{
    char *block = dao_alloc(device, SMALL_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(device, out_lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(*out_lease, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(*out_lease), DAO_OK);
    return block;
}

/* Another thread's calls, which ask the device's events meanwhile. */
static void *act(void *user)
{
    (void)user;
    for (int i = 0; i < 8; i++) {
        (void)dao_used(device);
        if (atomic_load(&other->number) != 0) {
            give(take(PAGE, other), other);
        }
        void *block = dao_alloc(device, SMALL_BYTES);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(dao_free(device, block), DAO_OK);
    }
    return NULL;
}

static void act_elsewhere(void)
{
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "elsewhere", act, NULL), DAO_OK);
    dao_thread_join(&thread);
}

/* Releases a new handle of a stream. */
static void release_of(size_t size_bytes, dao_stream_t *stream)
{
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, size_bytes, stream, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

static void release_one(size_t size_bytes)
{
    release_of(size_bytes, captured);
}

static uint64_t deferred_count(void)
{
    return atomic_load(&captured->runtime->deferred.count);
}

/* ---- tests ---- */

static void what_is_freed_is_used_again_in_the_same_capture(void)
{
    dao_lease_t *lease = NULL;
    begin();
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(device, &lease), DAO_OK);
    capture();
    char *first = take(4 * PAGE, captured);
    CU_ASSERT_EQUAL(dao_stream_copy(captured, device, first, device, first + PAGE, PAGE), DAO_OK);
    give(first, captured);
    act_elsewhere();
    char *second = take(4 * PAGE, captured);
    CU_ASSERT_PTR_EQUAL(second, first);
    CU_ASSERT_EQUAL(dao_stream_copy(captured, device, second, device, second + PAGE, PAGE), DAO_OK);
    give(second, captured);
    stop();
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    dao_lease_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_lease_stats_get(lease, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.live_count, 0);
    CU_ASSERT_TRUE(stats.held_bytes >= 4 * PAGE); /* the graph's, as long as the lease lasts */
    CU_ASSERT_PTR_NULL(dao_alloc(device, CAPACITY_BYTES));
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    end();
}

/* Without a lease, too: nobody else gets it before the capture has ended, and asking for it spoils
   nothing. */
static void what_is_freed_is_nobody_elses_until_the_capture_has_ended(void)
{
    begin();
    char *block = take(CAPACITY_BYTES / 2, captured);
    char *rest = take(CAPACITY_BYTES / 2, other);
    capture();
    give(block, captured);
    CU_ASSERT_PTR_NULL(dao_alloc_async(device, CAPACITY_BYTES / 2, other));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(dao_alloc(device, CAPACITY_BYTES / 2));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_used(device), CAPACITY_BYTES / 2);
    stop();
    char *again = take(CAPACITY_BYTES / 2, other);
    CU_ASSERT_PTR_EQUAL(again, block);
    give(again, other);
    give(rest, other);
    end();
}

/* A part of a graph cannot wait for work outside of it: the host has waited before the block is given. */
static void a_capture_has_what_others_have_finished_with(void)
{
    begin();
    char *block = take(CAPACITY_BYTES, other);
    CU_ASSERT_EQUAL(
        dao_stream_copy(other, device, block, device, block + CAPACITY_BYTES / 2, CAPACITY_BYTES / 2),
        DAO_OK);
    capture();
    give(block, other);
    char *again = take(CAPACITY_BYTES, captured);
    CU_ASSERT_PTR_EQUAL(again, block);
    CU_ASSERT_EQUAL(dao_stream_copy(captured, device, again, device, again + PAGE, PAGE), DAO_OK);
    give(again, captured);
    stop();
    end();
}

static void streams_of_one_capture_wait_for_each_other_in_it(void)
{
    dao_event_t *fork = NULL, *join = NULL;
    begin();
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &fork), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(0, &join), DAO_OK);
    char *block = take(CAPACITY_BYTES, captured);
    capture();
    CU_ASSERT_EQUAL(dao_event_record(fork, captured), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_wait_event(other, fork), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_copy(captured, device, block, device, block + PAGE, PAGE), DAO_OK);
    give(block, captured);
    char *again = take(CAPACITY_BYTES, other);
    CU_ASSERT_PTR_EQUAL(again, block);
    CU_ASSERT_EQUAL(dao_stream_copy(other, device, again, device, again + PAGE, PAGE), DAO_OK);
    give(again, other);
    CU_ASSERT_EQUAL(dao_event_record(join, other), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_wait_event(captured, join), DAO_OK);
    stop();
    dao_event_destroy(fork);
    dao_event_destroy(join);
    end();
}

/* A graph has a node for a copy and none for a batch. */
static void a_batch_of_copies_is_captured_one_by_one(void)
{
    begin();
    char *block = take(4 * PAGE, captured);
    void *dsts[2] = {block, block + PAGE};
    const void *srcs[2] = {block + 2 * PAGE, block + 3 * PAGE};
    size_t sizes[2] = {PAGE, PAGE};
    dao_copy_batch_t batch = {2, dsts, srcs, sizes};
    capture();
    CU_ASSERT_EQUAL(dao_stream_copy_batch(captured, device, device, &batch), DAO_OK);
    stop();
    CU_ASSERT_EQUAL(dao_stream_copy_batch(captured, device, device, &batch), DAO_OK);
    give(block, captured);
    end();
}

static void the_memory_of_a_handle_comes_back_behind_the_capture(void)
{
    begin();
    capture();
    release_one(CAPACITY_BYTES / 2);
    act_elsewhere();
    CU_ASSERT_PTR_NULL(dao_alloc(device, CAPACITY_BYTES));
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(deferred_count(), 0);
    stop();
    end();
}

static void so_does_that_of_one_without_a_number(void)
{
    begin_without_numbers();
    capture();
    release_one(CAPACITY_BYTES / 2);
    act_elsewhere();
    CU_ASSERT_PTR_NULL(dao_alloc(device, CAPACITY_BYTES));
    CU_ASSERT_EQUAL(dao_used(device), CAPACITY_BYTES / 2);
    stop();
    end();
}

/* Another thread may begin it. */
static void a_capture_that_begins_meanwhile_is_seen(void)
{
    begin_without_numbers();
    begins_meanwhile = true;
    release_one(CAPACITY_BYTES / 2);
    CU_ASSERT_FALSE(begins_meanwhile);
    act_elsewhere();
    CU_ASSERT_EQUAL(deferred_count(), 1);
    stop();
    end();
}

static void an_event_that_fails_behind_a_capture_is_recorded_later(void)
{
    begin_without_numbers();
    capture();
    release_one(SMALL_BYTES);
    stop();
    stream_wait_count = 0;
    fails_to_record = true;
    CU_ASSERT_NOT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(deferred_count(), 1);
    CU_ASSERT_EQUAL(stream_wait_count, 0); /* who looks does not wait */
    void *all = dao_alloc(device, CAPACITY_BYTES);
    CU_ASSERT_PTR_NOT_NULL(all); /* who needs it does */
    CU_ASSERT_EQUAL(stream_wait_count, 1);
    fails_to_record = false;
    CU_ASSERT_EQUAL(dao_free(device, all), DAO_OK);
    end();
}

/* A wait for all frees goes on to the last one, whatever another thread reclaims of those that it has
   passed over. */
static void a_wait_for_frees_is_not_ended_by_another_threads_look(void)
{
    begin_without_numbers();
    capture();
    others_seem_busy = stops_meanwhile = true;
    release_one(SMALL_BYTES);
    release_of(SMALL_BYTES, other);
    release_of(CAPACITY_BYTES / 2, other);
    CU_ASSERT_EQUAL(deferred_count(), 3);
    dao_runtime_drain_all(captured->runtime);
    CU_ASSERT_FALSE(stops_meanwhile);
    CU_ASSERT_EQUAL(deferred_count(), 0);
    others_seem_busy = false;
    end();
}

/* Whoever made the stream may destroy it then. */
static void what_a_capture_has_retired_keeps_no_stream_that_is_destroyed(void)
{
    begin_without_numbers();
    capture();
    for (int i = 0; i < HANDLE_COUNT; i++) {
        release_one(SMALL_BYTES);
    }
    dao_stream_destroy(captured);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(deferred_count(), HANDLE_COUNT);
    stop();
    dao_stream_destroy(captured);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &captured), DAO_OK);
    CU_ASSERT_EQUAL(deferred_count(), 0);
    end();
}

/* A small block of dao_alloc() follows no stream: its free has to wait, and there is nothing to wait for
   yet. */
static void what_would_have_to_wait_is_refused(void)
{
    dao_lease_t *lease = NULL;
    begin();
    char *retained = take_retained(&lease);
    char *small = dao_alloc(device, SMALL_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(small);
    char *pinned = dao_alloc(dao_place_of(dao_pinned_place(0)), 2 * SMALL_BYTES);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pinned);
    capture();
    CU_ASSERT_EQUAL(dao_free_async(device, small, captured), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_free_async(device, retained, captured), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    dao_place_t host = dao_place_of(dao_cpu_place());
    CU_ASSERT_EQUAL(dao_stream_copy(captured, host, pinned, host, pinned + SMALL_BYTES, SMALL_BYTES),
                    DAO_ERR_UNSUPPORTED);
    stop();
    CU_ASSERT_EQUAL(dao_free_async(device, small, captured), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_place_of(dao_pinned_place(0)), pinned), DAO_OK);
    end();
}

/* It is a block in stream order still, small as it is. */
static void what_a_capture_keeps_others_do_without(void)
{
    begin();
    char *block = take(PAGE, captured);
    capture();
    give(block, captured);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK); /* what is left has no memory yet */
    char *small = take(SMALL_BYTES, other);
    CU_ASSERT_TRUE(small + SMALL_BYTES <= block || small >= block + PAGE);
    CU_ASSERT_EQUAL(dao_record_stream(device, small, captured), DAO_OK);
    give(small, other);
    stop();
    end();
}

static void a_free_that_is_refused_is_no_event(void)
{
    dao_lease_t *lease = NULL;
    dao_memory_event_t events[EVENT_COUNT];
    size_t count = 0;
    uint64_t lost = 0;
    begin();
    char *retained = take_retained(&lease);
    capture();
    CU_ASSERT_EQUAL(dao_free_async(device, retained, captured), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_events_start(device, EVENT_COUNT), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_events_read(device, events, EVENT_COUNT, &count, &lost), DAO_OK);
    CU_ASSERT_EQUAL(count, 0);
    stop();
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_events_read(device, events, EVENT_COUNT, &count, &lost), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(count, 1);
    CU_ASSERT_EQUAL(events[0].kind, DAO_MEMORY_EVENT_KIND_FREE);
    CU_ASSERT_EQUAL(events[0].address, (uintptr_t)retained);
    CU_ASSERT_EQUAL(dao_events_stop(device), DAO_OK);
    end();
}

static CU_TestInfo tests[] = {
    {"what is freed is used again in the same capture", what_is_freed_is_used_again_in_the_same_capture},
    {"what is freed is nobody else's until the capture has ended",
     what_is_freed_is_nobody_elses_until_the_capture_has_ended},
    {"a capture has what others have finished with", a_capture_has_what_others_have_finished_with},
    {"streams of one capture wait for each other in it", streams_of_one_capture_wait_for_each_other_in_it},
    {"what a capture keeps others do without", what_a_capture_keeps_others_do_without},
    {"a batch of copies is captured one by one", a_batch_of_copies_is_captured_one_by_one},
    {"the memory of a handle comes back behind the capture",
     the_memory_of_a_handle_comes_back_behind_the_capture},
    {"so does that of one without a number", so_does_that_of_one_without_a_number},
    {"a capture that begins meanwhile is seen", a_capture_that_begins_meanwhile_is_seen},
    {"an event that fails behind a capture is recorded later",
     an_event_that_fails_behind_a_capture_is_recorded_later},
    {"a wait for frees is not ended by another thread's look",
     a_wait_for_frees_is_not_ended_by_another_threads_look},
    {"what a capture has retired keeps no stream that is destroyed",
     what_a_capture_has_retired_keeps_no_stream_that_is_destroyed},
    {"a free that is refused is no event", a_free_that_is_refused_is_no_event},
    {"what would have to wait is refused", what_would_have_to_wait_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"captures", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
