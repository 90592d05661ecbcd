/* SPDX-License-Identifier: Apache-2.0 */
/* Looking into places: events while threads allocate, snapshots, queries, figures under other tools' names,
   and the report of what was forgotten. */
#include <dao/dao.h>

#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/start/context.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t pinned_1 = {DAO_PLACE_KIND_PINNED, 1};
static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t device_9 = {DAO_PLACE_KIND_DEVICE, 9};

/* ---- helpers ---- */

static void ignore(dao_status_t status)
{
    (void)status;
}

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 256 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void *take(dao_place_t place, size_t size_bytes)
{
    void *address = dao_alloc(place, size_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(address);
    return address;
}

static void give(dao_place_t place, void *address)
{
    CU_ASSERT_EQUAL(dao_free(place, address), DAO_OK);
}

/* A text that grows by what a writer writes. */
typedef struct text {
    char *bytes; /* closed by a zero */
    size_t count;
    size_t room; /* writing more fails */
} text_t;

static dao_status_t text_append(const char *bytes, size_t count, void *user)
{
    text_t *text = user;
    if (count > text->room - text->count - 1) {
        return DAO_ERR_IO;
    }
    memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    text->bytes[text->count] = '\0';
    return DAO_OK;
}

/* ---- events ---- */

#define EVENTS_MAX 4096
static dao_memory_event_t events[EVENTS_MAX];

static size_t events_read(dao_place_t place, size_t capacity, uint64_t expected_lost)
{
    size_t count = SIZE_MAX;
    uint64_t lost = UINT64_MAX;
    CU_ASSERT_EQUAL_FATAL(dao_events_read(place, events, capacity, &count, &lost), DAO_OK);
    CU_ASSERT_EQUAL(lost, expected_lost);
    CU_ASSERT_TRUE_FATAL(count <= capacity);
    return count;
}

static void expect_event(size_t index, dao_memory_event_kind_t kind, const void *address, size_t size_bytes)
{
    CU_ASSERT_EQUAL(events[index].kind, kind);
    CU_ASSERT_EQUAL(events[index].address, (uintptr_t)address);
    CU_ASSERT_EQUAL(events[index].size_bytes, size_bytes);
    CU_ASSERT_TRUE(events[index].thread > 0);
    CU_ASSERT_TRUE(index == 0 || events[index - 1].time_ns <= events[index].time_ns);
}

static void what_happens_at_a_place_is_recorded(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_events_start(places[i], 0), DAO_OK);
        uint64_t before_ns = dao_clock_ns();
        void *block = take(places[i], 1 * MIB);
        give(places[i], block);
        CU_ASSERT_PTR_NULL(dao_alloc(places[i], SIZE_MAX));
        size_t released_bytes = 0;
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, &released_bytes), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(events_read(places[i], EVENTS_MAX, 0), 4);
        expect_event(0, DAO_MEMORY_EVENT_KIND_ALLOC, block, 1 * MIB);
        expect_event(1, DAO_MEMORY_EVENT_KIND_FREE, block, 0);
        expect_event(2, DAO_MEMORY_EVENT_KIND_ALLOC_FAILED, NULL, ((size_t)1 << 41) - 1);
        expect_event(3, DAO_MEMORY_EVENT_KIND_TRIM, NULL, released_bytes);
        CU_ASSERT_TRUE(events[0].time_ns + 1000000 >= before_ns &&
                       events[3].time_ns <= dao_clock_ns() + 1000000);
        CU_ASSERT_EQUAL(events_read(places[i], EVENTS_MAX, 0), 0);
        CU_ASSERT_EQUAL(dao_events_stop(places[i]), DAO_OK);
        give(places[i], take(places[i], 1 * MIB));
        CU_ASSERT_EQUAL(events_read(places[i], EVENTS_MAX, 0), 0);
    }
}

static void a_refused_free_is_no_event(void)
{
    char *block = take(host, 100);
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(host, block + 1), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 0);
    give(host, block);
    CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 1);
}

static void blocks_of_handles_are_recorded(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
    for (size_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_events_start(places[i], 16), DAO_OK);
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[i], 1000, NULL, &memory), DAO_OK);
        void *address = dao_memory_address(memory);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        if (i > 0) {
            CU_ASSERT_EQUAL(dao_device_synchronize(places[i].index), DAO_OK);
        }
        CU_ASSERT_EQUAL_FATAL(events_read(places[i], EVENTS_MAX, 0), 2);
        expect_event(0, DAO_MEMORY_EVENT_KIND_ALLOC, address, 1000);
        expect_event(1, DAO_MEMORY_EVENT_KIND_FREE, address, 0);
    }
}

static void a_full_ring_keeps_the_latest_and_counts_the_rest(void)
{
    CU_ASSERT_EQUAL(dao_events_start(host, 5), DAO_OK); /* 8 slots */
    for (size_t i = 0; i < 10; i++) {
        give(host, take(host, 100 + i));
    }
    CU_ASSERT_EQUAL_FATAL(events_read(host, 3, 12), 3);
    CU_ASSERT_EQUAL(events[0].size_bytes, 106);
    CU_ASSERT_EQUAL(events[2].size_bytes, 107);
    CU_ASSERT_EQUAL_FATAL(events_read(host, EVENTS_MAX, 0), 5);
    CU_ASSERT_EQUAL(events[3].size_bytes, 109);
    give(host, take(host, 1));
    CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 2);
}

static void places_record_apart_and_start_anew(void)
{
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_OK);
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_ERR_BUSY);
    give(device_0, take(device_0, 100));
    CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 0);
    size_t count;
    CU_ASSERT_EQUAL(dao_events_read(pinned_1, events, EVENTS_MAX, &count, NULL), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(dao_events_stop(pinned_1), DAO_ERR_NOT_READY);
    for (size_t i = 0; i < 6; i++) { /* sizes come again: their rings are taken again */
        give(host, take(host, 200 + i));
        CU_ASSERT_EQUAL(dao_events_stop(host), DAO_OK);
        CU_ASSERT_EQUAL(dao_events_start(host, i % 2 == 0 ? 32 : 16), DAO_OK);
        CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 0);
    }
    give(host, take(host, 300));
    CU_ASSERT_EQUAL_FATAL(events_read(host, EVENTS_MAX, 0), 2);
    CU_ASSERT_EQUAL(events[0].size_bytes, 300);
}

static void wrong_arguments_of_events_are_refused(void)
{
    size_t count = 77;
    CU_ASSERT_EQUAL(dao_events_start(device_9, 16), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_events_start(host, DAO_EVENTS_COUNT_MAX + 1), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_events_stop(device_9), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_events_read(host, NULL, 1, &count, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_events_read(host, events, 0, &count, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_events_read(host, events, 1, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_events_write_csv(events, 1, true, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(count, 77);
}

/* Threads that allocate and free, each in sizes of its own, while the events are read. */
#define WRITER_COUNT 3u
#define PAIR_COUNT   4000u
static _Atomic uint32_t writers_left;

static void *write_events(void *user)
{
    const size_t *size_bytes = user;
    for (uint32_t i = 0; i < PAIR_COUNT; i++) {
        ignore(dao_free(host, dao_alloc(host, *size_bytes)));
    }
    atomic_fetch_sub(&writers_left, 1);
    return NULL;
}

/* A torn event would have the kind of one and the size of another, or the size of one thread and the number
   of another. */
static void check_writers_events(size_t count, const size_t *sizes, uint32_t *threads)
{
    for (size_t i = 0; i < count; i++) {
        if (events[i].kind == DAO_MEMORY_EVENT_KIND_FREE) {
            CU_ASSERT_EQUAL(events[i].size_bytes, 0);
            continue;
        }
        CU_ASSERT_EQUAL(events[i].kind, DAO_MEMORY_EVENT_KIND_ALLOC);
        size_t writer = 0;
        while (writer < WRITER_COUNT && sizes[writer] != events[i].size_bytes) {
            writer++;
        }
        CU_ASSERT_TRUE_FATAL(writer < WRITER_COUNT);
        threads[writer] = threads[writer] == 0 ? events[i].thread : threads[writer];
        CU_ASSERT_EQUAL(threads[writer], events[i].thread);
    }
}

static void many_writers_and_a_reader_lose_or_keep_whole_events(void)
{
    static const size_t ring_sizes[] = {4, 64, 65536}; /* it turns often, sometimes, never */
    size_t sizes[WRITER_COUNT] = {1001, 2002, 3003};
    for (size_t k = 0; k < 3; k++) {
        uint32_t numbers[WRITER_COUNT] = {0};
        dao_thread_t threads[WRITER_COUNT];
        uint64_t seen_count = 0, lost_count = 0, lost;
        size_t count;
        CU_ASSERT_EQUAL(dao_events_start(host, ring_sizes[k]), DAO_OK);
        atomic_store(&writers_left, WRITER_COUNT);
        for (size_t i = 0; i < WRITER_COUNT; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "writer", write_events, &sizes[i]), DAO_OK);
        }
        bool is_last = false;
        while (!is_last) {
            is_last = atomic_load(&writers_left) == 0;
            do {
                CU_ASSERT_EQUAL_FATAL(dao_events_read(host, events, EVENTS_MAX, &count, &lost), DAO_OK);
                check_writers_events(count, sizes, numbers);
                seen_count += count;
                lost_count += lost;
            } while (count == EVENTS_MAX);
        }
        for (size_t i = 0; i < WRITER_COUNT; i++) {
            dao_thread_join(&threads[i]);
        }
        CU_ASSERT_EQUAL(seen_count + lost_count, 2 * WRITER_COUNT * PAIR_COUNT);
        CU_ASSERT_TRUE(lost_count == 0 || ring_sizes[k] < 65536);
        CU_ASSERT_EQUAL(dao_events_stop(host), DAO_OK);
    }
}

static void events_are_written_with_the_columns_of_rmm(void)
{
    static const dao_memory_event_t some[] = {
        {.time_ns = UINT64_C(3723000004999),
         .address = 0xabc00,
         .size_bytes = 4096,
         .thread = 2,
         .kind = 1,
         .stream = 3},
        {.time_ns = UINT64_C(3723000005000), .address = 0xabc00, .thread = 2, .kind = 2},
        {.time_ns = UINT64_C(3723000006000), .size_bytes = 7, .thread = 3, .kind = 4},
        {.time_ns = UINT64_C(360000000000000), .size_bytes = 1099511627776, .thread = 262143, .kind = 3}};
    static const char expected[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                                   "2,01:02:03.000004,allocate,0xabc00,4096,3\n"
                                   "2,01:02:03.000005,free,0xabc00,0,0\n"
                                   "262143,100:00:00.000000,allocate failure,0x0,1099511627776,0\n";
    char bytes[512];
    text_t text = {.bytes = bytes, .room = sizeof(bytes)};
    CU_ASSERT_EQUAL(dao_events_write_csv(some, 4, true, text_append, &text), DAO_OK);
    CU_ASSERT_STRING_EQUAL(bytes, expected);
    for (size_t room = 1; room <= sizeof(expected) - 1; room++) {
        text = (text_t){.bytes = bytes, .room = room};
        CU_ASSERT_EQUAL(dao_events_write_csv(some, 4, true, text_append, &text), DAO_ERR_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_events_write_csv"));
    }
    text = (text_t){.bytes = bytes, .room = 42};
    CU_ASSERT_EQUAL(dao_events_write_csv(&some[2], 1, false, text_append, &text), DAO_OK);
    CU_ASSERT_EQUAL(text.count, 0);
}

static void a_recording_that_nobody_stops_ends_with_the_library(void)
{
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_OK);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(host, 1000, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK); /* into no ring */
    size_t count;
    CU_ASSERT_EQUAL(dao_events_read(host, events, EVENTS_MAX, &count, NULL), DAO_ERR_SHUTDOWN);
    begin();
    CU_ASSERT_EQUAL(dao_events_read(host, events, EVENTS_MAX, &count, NULL), DAO_ERR_NOT_READY);
}

#if defined(DAO_FAULTS)
static void a_start_without_memory_records_nothing(void)
{
    for (uint64_t n = 0; n < 2; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_ERR_NO_HOST_MEMORY);
        CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
        CU_ASSERT_EQUAL(dao_events_stop(host), DAO_ERR_NOT_READY);
    }
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_OK);
}
#endif

static void ticks_are_times_of_the_clock(void)
{
    uint64_t last_ns = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t ns = dao_ticks_to_ns(dao_ticks());
        CU_ASSERT_TRUE(ns >= last_ns);
        last_ns = ns;
    }
    uint64_t now_ns = dao_clock_ns();
    CU_ASSERT_TRUE(last_ns <= now_ns + 1000000 && last_ns + 100000000 >= now_ns);
}

static CU_TestInfo event_tests[] = {
    {"what happens at a place is recorded", what_happens_at_a_place_is_recorded},
    {"a refused free is no event", a_refused_free_is_no_event},
    {"blocks of handles are recorded", blocks_of_handles_are_recorded},
    {"a full ring keeps the latest and counts the rest", a_full_ring_keeps_the_latest_and_counts_the_rest},
    {"places record apart and start anew", places_record_apart_and_start_anew},
    {"wrong arguments of events are refused", wrong_arguments_of_events_are_refused},
    {"many writers and a reader lose or keep whole events",
     many_writers_and_a_reader_lose_or_keep_whole_events},
    {"events are written with the columns of RMM", events_are_written_with_the_columns_of_rmm},
    {"a recording that nobody stops ends with the library",
     a_recording_that_nobody_stops_ends_with_the_library},
#if defined(DAO_FAULTS)
    {"a start without memory records nothing", a_start_without_memory_records_nothing},
#endif
    {"ticks are times of the clock", ticks_are_times_of_the_clock},
    CU_TEST_INFO_NULL,
};

/* ---- snapshots ---- */

static dao_snapshot_t *snapshot_take(dao_place_t place)
{
    dao_snapshot_t *snapshot = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(place, &snapshot), DAO_OK);
    return snapshot;
}

/* Segments do not overlap, blocks fill them without a gap, and the sums are right. */
static void check_snapshot(const dao_snapshot_t *snapshot, const dao_stats_t *stats)
{
    size_t segment_count, block_count;
    const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &segment_count);
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &block_count);
    dao_stats_t sum = {0};
    size_t next_block = 0;
    for (size_t i = 0; i < segment_count; i++) {
        const dao_snapshot_segment_t *segment = &segments[i];
        uint64_t live_bytes = 0, address = segment->address;
        CU_ASSERT_EQUAL(segment->first_block, next_block);
        CU_ASSERT_TRUE(segment->block_count > 0);
        for (size_t k = 0; k < segment->block_count; k++) {
            const dao_snapshot_block_t *block = &blocks[next_block++];
            CU_ASSERT_EQUAL(block->segment, i);
            CU_ASSERT_EQUAL(block->address, address);
            address += block->size_bytes;
            live_bytes += block->state == DAO_BLOCK_STATE_LIVE ? block->size_bytes : 0;
            sum.live_count += block->state == DAO_BLOCK_STATE_LIVE;
            CU_ASSERT_TRUE(block->requested_bytes <= block->size_bytes);
            CU_ASSERT_TRUE((block->requested_bytes > 0) == (block->state == DAO_BLOCK_STATE_LIVE));
        }
        CU_ASSERT_EQUAL(address, segment->address + segment->size_bytes);
        CU_ASSERT_EQUAL(live_bytes, segment->live_bytes);
        sum.used_bytes += live_bytes;
        sum.requested_bytes += segment->requested_bytes;
        sum.reserved_bytes += segment->size_bytes;
    }
    CU_ASSERT_EQUAL(next_block, block_count);
    CU_ASSERT_EQUAL(sum.live_count, stats->live_count);
    CU_ASSERT_EQUAL(sum.used_bytes, stats->used_bytes);
    CU_ASSERT_EQUAL(sum.requested_bytes, stats->requested_bytes);
    CU_ASSERT_EQUAL(sum.reserved_bytes, stats->reserved_bytes);
}

static dao_stats_t stats_now(dao_place_t place)
{
    dao_stats_t stats;
    CU_ASSERT_EQUAL_FATAL(dao_stats_get(place, &stats), DAO_OK);
    return stats;
}

#define SCATTER_COUNT 600u

/* Blocks of many sizes with holes between them, and pages given back behind some of the holes. */
static void scatter(dao_place_t place, void **blocks)
{
    uint64_t seed = 11;
    for (size_t i = 0; i < SCATTER_COUNT; i++) {
        blocks[i] = take(place, 1 + (size_t)(dao_random_next(&seed) % (256 * KIB)));
    }
    for (size_t i = 0; i < SCATTER_COUNT; i++) {
        if (i % 3 == 0 || (i > 100 && i < 200)) {
            give(place, blocks[i]);
            blocks[i] = NULL;
        }
    }
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    for (size_t i = 0; i < 20; i++) {
        give(place, blocks[301 + 3 * i]);
        blocks[301 + 3 * i] = NULL;
    }
}

static void a_snapshot_has_all_that_is_reserved(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
    static void *blocks[SCATTER_COUNT];
    for (size_t i = 0; i < 3; i++) {
        dao_snapshot_t *snapshot = snapshot_take(places[i]);
        dao_stats_t empty = stats_now(places[i]);
        check_snapshot(snapshot, &empty);
        dao_snapshot_destroy(snapshot);
        scatter(places[i], blocks);
        snapshot = snapshot_take(places[i]);
        dao_stats_t stats = stats_now(places[i]);
        check_snapshot(snapshot, &stats);
        for (size_t k = 0; k < SCATTER_COUNT; k++) {
            if (blocks[k] != NULL) {
                give(places[i], blocks[k]);
            }
        }
        check_snapshot(snapshot, &stats); /* it is a copy */
        dao_snapshot_destroy(snapshot);
    }
}

static void a_snapshot_without_page_mapping_has_the_segments(void)
{
    static void *blocks[SCATTER_COUNT];
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB, .no_page_mapping = true}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    scatter(device_0, blocks);
    dao_snapshot_t *snapshot = snapshot_take(device_0);
    dao_stats_t stats = stats_now(device_0);
    check_snapshot(snapshot, &stats);
    size_t count;
    CU_ASSERT_PTR_NOT_NULL(dao_snapshot_segments(snapshot, &count));
    CU_ASSERT_EQUAL(count, stats.grow_count - stats.shrink_count);
    dao_snapshot_destroy(snapshot);
    for (size_t k = 0; k < SCATTER_COUNT; k++) {
        CU_ASSERT_EQUAL(dao_free(device_0, blocks[k]), DAO_OK);
    }
}

/* Finds the live block of a snapshot that begins at an address, or gives NULL. */
static const dao_snapshot_block_t *snapshot_find(const dao_snapshot_t *snapshot, const void *address)
{
    size_t count;
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &count);
    for (size_t i = 0; i < count; i++) {
        if (blocks[i].address == (uintptr_t)address && blocks[i].state == DAO_BLOCK_STATE_LIVE) {
            return &blocks[i];
        }
    }
    return NULL;
}

#define ALIGNED_COUNT 14u

/* Up to 32 MiB: chunks hardly ever begin at such multiples, so that blocks begin behind what their alignment
   costs. */
static void a_snapshot_has_aligned_blocks_of_a_buddy(void)
{
    void *blocks[ALIGNED_COUNT];
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB},
                           .device_strategy = DAO_STRATEGY_BINARY_BUDDY};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    for (size_t i = 0; i < ALIGNED_COUNT; i++) {
        dao_alloc_options_t options = {.alignment_bytes = (size_t)4096 << i};
        blocks[i] = dao_alloc_with(device_0, 1000 + i, &options);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    dao_snapshot_t *snapshot = snapshot_take(device_0);
    dao_stats_t stats = stats_now(device_0);
    uint64_t live_bytes = 0;
    for (size_t i = 0; i < ALIGNED_COUNT; i++) {
        const dao_snapshot_block_t *block = snapshot_find(snapshot, blocks[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(block->requested_bytes, 1000 + i);
        live_bytes += block->size_bytes;
        give(device_0, blocks[i]);
    }
    CU_ASSERT_TRUE(live_bytes <= stats.used_bytes);
    stats.used_bytes = live_bytes; /* without what lies before them */
    check_snapshot(snapshot, &stats);
    dao_snapshot_destroy(snapshot);
}

static void a_snapshot_while_others_allocate_is_of_one_moment(void)
{
    size_t size_bytes = 5000;
    dao_thread_t thread;
    atomic_store(&writers_left, 1);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "writer", write_events, &size_bytes), DAO_OK);
    while (atomic_load(&writers_left) > 0) {
        dao_snapshot_t *snapshot = snapshot_take(host);
        size_t count;
        const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &count);
        CU_ASSERT_TRUE(count <= 1);
        CU_ASSERT_TRUE(count == 0 || segments[0].requested_bytes == 5000);
        dao_snapshot_destroy(snapshot);
    }
    dao_thread_join(&thread);
}

static void a_snapshot_is_written_as_json(void)
{
    char *low = take(device_0, 100000), *middle = take(device_0, 400 * KIB),
         *high = take(device_0, 2 * MIB - 100096 - 409600);
    give(device_0, middle);
    dao_snapshot_t *snapshot = snapshot_take(device_0);
    char expected[2048], bytes[2048];
    int length = snprintf(
        expected, sizeof(expected),
        "{\"place\": \"device:0\",\n \"segments\": [\n"
        "  {\"device\": 0, \"address\": %" PRIu64 ", \"total_size\": 2097152, \"allocated_size\": 1687552, "
        "\"active_size\": 1687552, \"requested_size\": 1687456, \"stream\": 0, \"segment_type\": \"large\", "
        "\"segment_pool_id\": [0, 0], \"is_expandable\": false, \"frames\": [], \"blocks\": [\n"
        "    {\"address\": %" PRIu64 ", \"size\": 100096, \"requested_size\": 100000, \"state\": "
        "\"active_allocated\", \"tag\": 0, \"frames\": []},\n"
        "    {\"address\": %" PRIu64
        ", \"size\": 409600, \"requested_size\": 0, \"state\": \"inactive\", \"tag\": 0, \"frames\": []},\n"
        "    {\"address\": %" PRIu64 ", \"size\": 1587456, \"requested_size\": 1587456, \"state\": "
        "\"active_allocated\", \"tag\": 0, \"frames\": []}]}],\n"
        " \"device_traces\": []}\n",
        (uint64_t)(uintptr_t)low, (uint64_t)(uintptr_t)low, (uint64_t)(uintptr_t)middle,
        (uint64_t)(uintptr_t)high);
    CU_ASSERT_TRUE_FATAL(length > 0 && (size_t)length < sizeof(expected));
    text_t text = {.bytes = bytes, .room = sizeof(bytes)};
    CU_ASSERT_EQUAL(dao_snapshot_write_json(snapshot, text_append, &text), DAO_OK);
    CU_ASSERT_STRING_EQUAL(bytes, expected);
    for (size_t room = 1; room <= (size_t)length; room += 7) {
        text = (text_t){.bytes = bytes, .room = room};
        CU_ASSERT_EQUAL(dao_snapshot_write_json(snapshot, text_append, &text), DAO_ERR_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_snapshot_write_json"));
    }
    dao_snapshot_destroy(snapshot);
    give(device_0, low);
    give(device_0, high);
}

static void wrong_arguments_of_snapshots_are_refused(void)
{
    dao_snapshot_t *snapshot = NULL;
    char byte;
    text_t text = {.bytes = &byte, .room = 1};
    size_t count = 1;
    CU_ASSERT_EQUAL(dao_snapshot_create(host, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_snapshot_create(device_9, &snapshot), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(snapshot);
    CU_ASSERT_EQUAL(dao_snapshot_write_json(NULL, text_append, &text), DAO_ERR_INVALID);
    snapshot = snapshot_take(host);
    CU_ASSERT_EQUAL(dao_snapshot_write_json(snapshot, NULL, &text), DAO_ERR_INVALID);
    dao_snapshot_destroy(snapshot);
    dao_snapshot_destroy(NULL);
    CU_ASSERT_PTR_NULL(dao_snapshot_blocks(NULL, &count));
    CU_ASSERT_EQUAL(count, 0);
    CU_ASSERT_PTR_NULL(dao_snapshot_blocks(NULL, NULL));
    CU_ASSERT_PTR_NULL(dao_snapshot_segments(NULL, NULL));
}

#if defined(DAO_FAULTS)
static void a_snapshot_without_memory_changes_nothing(void)
{
    void *block = take(host, 100 * KIB);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    uint64_t n = 0;
    for (; status != DAO_OK && n < 10; n++) {
        dao_snapshot_t *snapshot = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = dao_snapshot_create(host, &snapshot);
        CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_TRUE((status == DAO_OK) == (snapshot != NULL));
        dao_snapshot_destroy(snapshot);
    }
    CU_ASSERT_EQUAL(n, 4);
    give(host, block);
}
#endif

static CU_TestInfo snapshot_tests[] = {
    {"a snapshot has all that is reserved", a_snapshot_has_all_that_is_reserved},
    {"a snapshot without page mapping has the segments", a_snapshot_without_page_mapping_has_the_segments},
    {"a snapshot has aligned blocks of a buddy", a_snapshot_has_aligned_blocks_of_a_buddy},
    {"a snapshot while others allocate is of one moment", a_snapshot_while_others_allocate_is_of_one_moment},
    {"a snapshot is written as JSON", a_snapshot_is_written_as_json},
    {"wrong arguments of snapshots are refused", wrong_arguments_of_snapshots_are_refused},
#if defined(DAO_FAULTS)
    {"a snapshot without memory changes nothing", a_snapshot_without_memory_changes_nothing},
#endif
    CU_TEST_INFO_NULL,
};

/* ---- who holds a byte, and figures ---- */

static void a_query_finds_the_block_and_its_handles(void)
{
    char *block = take(device_0, 1000);
    dao_block_info_t info;
    CU_ASSERT_EQUAL(dao_block_query(device_0, block + 999, &info), DAO_OK);
    CU_ASSERT_PTR_EQUAL(info.address, block);
    CU_ASSERT_EQUAL(info.size_bytes, 1024);
    CU_ASSERT_EQUAL(info.requested_bytes, 1000);
    CU_ASSERT_EQUAL(info.offset_bytes, 999);
    CU_ASSERT_EQUAL(info.handle_count, 0);
    CU_ASSERT_PTR_NULL(info.handle_address);
    give(device_0, block);
    dao_memory_t *whole, *part;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device_0, 4096, NULL, &whole), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(whole, 1024, 512, &part), DAO_OK);
    char *address = dao_memory_address(whole);
    CU_ASSERT_EQUAL(dao_block_query(device_0, address + 1535, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.handle_count, 2);
    CU_ASSERT_PTR_EQUAL(info.handle_address, address + 1024);
    CU_ASSERT_EQUAL(info.handle_bytes, 512);
    CU_ASSERT_EQUAL(dao_block_query(device_0, address + 1536, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.handle_count, 1);
    CU_ASSERT_PTR_EQUAL(info.handle_address, address);
    CU_ASSERT_EQUAL(dao_block_query(host, address, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_memory_release(part), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(whole), DAO_OK);
}

static void a_query_that_finds_nothing_says_why(void)
{
    dao_block_info_t info = {.size_bytes = 77};
    int foreign = 0;
    CU_ASSERT_EQUAL(dao_block_query(host, &foreign, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_block_query(device_0, &foreign, &info), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_block_query(device_9, &foreign, &info), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_block_query(host, NULL, &info), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_block_query(host, &foreign, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(info.size_bytes, 77);
}

typedef struct figure {
    const char *name;
    uint64_t value;
    uint32_t count; /* times it was seen */
} figure_t;

static figure_t figures[] = {{"allocated_bytes.all.current", 1 << 20, 0},
                             {"allocated_bytes.all.peak", (2 << 20) + 51200, 0},
                             {"active_bytes.all.current", 1 << 20, 0},
                             {"requested_bytes.all.current", (1 << 20) - 1, 0},
                             {"requested_bytes.all.peak", (2 << 20) + 51100, 0},
                             {"reserved_bytes.all.current", 4 << 20, 0},
                             {"reserved_bytes.all.peak", 4 << 20, 0},
                             {"inactive_split_bytes.all.current", 3 << 20, 0},
                             {"allocation.all.current", 1, 0},
                             {"allocation.all.allocated", 3, 0},
                             {"allocation.all.freed", 2, 0},
                             {"active.all.current", 1, 0},
                             {"segment.all.current", 1, 0},
                             {"inactive_split.all.current", 1, 0},
                             {"num_ooms", 1, 0},
                             {"num_device_alloc", 2, 0},
                             {"num_device_free", 0, 0}};

static void see_figure(const char *name, uint64_t value, void *user)
{
    uint32_t *unknown_count = user;
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        if (strcmp(figures[i].name, name) == 0) {
            figures[i].count++;
            CU_ASSERT_EQUAL(value, figures[i].value);
            if (value != figures[i].value) {
                (void)printf("    %s is %" PRIu64 ", not %" PRIu64 "\n", name, value, figures[i].value);
            }
            return;
        }
    }
    (*unknown_count)++;
}

static void figures_have_pytorchs_names(void)
{
    uint32_t unknown_count = 0;
    void *low = take(device_0, 1 * MIB - 1), *small = take(device_0, 51101), *high = take(device_0, 1 * MIB);
    give(device_0, small);
    give(device_0, high);
    CU_ASSERT_PTR_NULL(dao_alloc(device_0, 1 * GIB));
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_0, see_figure, &unknown_count), DAO_OK);
    CU_ASSERT_EQUAL(unknown_count, 0);
    for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
        CU_ASSERT_EQUAL(figures[i].count, 1);
    }
    give(device_0, low);
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_0, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_stats_tree_walk(device_9, see_figure, &unknown_count), DAO_ERR_NO_DEVICE);
}

/* ---- the report of what was forgotten ---- */

#define LINE_COUNT_MAX 16
#define LINE_BYTES     200

typedef struct lines {
    char texts[LINE_COUNT_MAX][LINE_BYTES];
    uint32_t count;
} lines_t;

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    lines_t *lines = user;
    if (level == DAO_LOG_LEVEL_WARNING && lines->count < LINE_COUNT_MAX) {
        (void)snprintf(lines->texts[lines->count++], LINE_BYTES, "%s", message);
    }
}

static uint32_t lines_with(const lines_t *lines, const char *text)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        count += strstr(lines->texts[i], text) != NULL;
    }
    return count;
}

static void leaks_are_listed_and_summed_up_by_tag(void)
{
    uint32_t first_tag, second_tag;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("weights", &first_tag), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("gradients", &second_tag), DAO_OK);
    const dao_block_request_t requests[] = {{.size_bytes = 1000, .tag = first_tag},
                                            {.size_bytes = 2000, .tag = first_tag},
                                            {.size_bytes = 3000, .tag = second_tag},
                                            {.size_bytes = 100}};
    static lines_t lines;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_config_t config = {.cpu = {.device_count = 1},
                           .log_callback = keep_line,
                           .log_user = &lines,
                           .log_level = DAO_LOG_LEVEL_WARNING};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    dao_runtime_t *runtime;
    CU_ASSERT_EQUAL_FATAL(dao_runtime_acquire(0, &runtime), DAO_OK);
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, DAO_PLACE_KIND_DEVICE);
    for (size_t i = 0; i < 4; i++) {
        dao_block_grant_t grant;
        CU_ASSERT_EQUAL(allocator->ops->alloc(allocator, &requests[i], &grant), DAO_OK);
    }
    dao_runtime_release(runtime);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(lines.count, 6);
    CU_ASSERT_EQUAL(lines_with(&lines, "block of 1024 bytes (1000 asked for) at device:0"), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, ", tag \"weights\""), 2);
    CU_ASSERT_EQUAL(lines_with(&lines, ", tag \"gradients\""), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, "tag \"weights\" at device:0: 2 blocks, 3072 bytes"), 1);
    CU_ASSERT_EQUAL(lines_with(&lines, "tag \"gradients\" at device:0: 1 blocks, 3072 bytes"), 1);
    begin();
}

static CU_TestInfo inspect_tests[] = {
    {"a query finds the block and its handles", a_query_finds_the_block_and_its_handles},
    {"a query that finds nothing says why", a_query_that_finds_nothing_says_why},
    {"figures have PyTorch's names", figures_have_pytorchs_names},
    {"leaks are listed and summed up by tag", leaks_are_listed_and_summed_up_by_tag},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"events", NULL, NULL, begin, end, event_tests},
                             {"snapshots", NULL, NULL, begin, end, snapshot_tests},
                             {"inspect", NULL, NULL, begin, end, inspect_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
