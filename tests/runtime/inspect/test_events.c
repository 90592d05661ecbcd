/* SPDX-License-Identifier: Apache-2.0 */
/* Events of places: what is recorded while threads allocate, and the ring that keeps it. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "runtime/observe/event_ring.h"
#include "tests/runtime/inspect/text.h"
#include "tests/support/blocks.h"
#include "tests/support/suite.h"

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
        size_t count = SIZE_MAX;
        CU_ASSERT_EQUAL(dao_events_read(places[i], events + 4, 1, &count, NULL), DAO_OK);
        CU_ASSERT_EQUAL(count, 0);
        expect_event(0, DAO_MEMORY_EVENT_KIND_ALLOC, block, 1 * MIB);
        expect_event(1, DAO_MEMORY_EVENT_KIND_FREE, block, 1 * MIB);
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
        expect_event(1, DAO_MEMORY_EVENT_KIND_FREE, address, 1000);
    }
}

static void frees_in_stream_order_have_their_sizes(void)
{
    CU_ASSERT_EQUAL(dao_events_start(device_0, 16), DAO_OK);
    void *block = dao_alloc_async(device_0, 5000, NULL);
    CU_ASSERT_EQUAL(dao_free_async(device_0, block, NULL), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(events_read(device_0, EVENTS_MAX, 0), 2);
    expect_event(1, DAO_MEMORY_EVENT_KIND_FREE, block, 5000);
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

static dao_status_t refuse_to_write(const char *text, size_t length, void *user)
{
    (void)text;
    (void)length;
    (void)user;
    return DAO_ERR_IO;
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
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "write is NULL"));
    CU_ASSERT_EQUAL(dao_events_write_csv(NULL, 1, true, refuse_to_write, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "events is NULL"));
    CU_ASSERT_EQUAL(dao_events_write_csv(NULL, 0, false, refuse_to_write, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_events_write_csv(NULL, 0, true, refuse_to_write, NULL), DAO_ERR_IO);
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
        CU_ASSERT_TRUE(events[i].kind == DAO_MEMORY_EVENT_KIND_FREE ||
                       events[i].kind == DAO_MEMORY_EVENT_KIND_ALLOC);
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
        {.time_ns = UINT64_C(3723000005000), .address = 0xabc00, .size_bytes = 4096, .thread = 2, .kind = 2},
        {.time_ns = UINT64_C(3723000006000), .size_bytes = 7, .thread = 3, .kind = 4},
        {.time_ns = UINT64_C(360000000000000), .size_bytes = 1099511627776, .thread = 262143, .kind = 3}};
    static const char expected[] = "Thread,Time,Action,Pointer,Size,Stream\n"
                                   "2,01:02:03.000004,allocate,0xabc00,4096,3\n"
                                   "2,01:02:03.000005,free,0xabc00,4096,0\n"
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
    CU_ASSERT_FALSE(dao_events_are_on());
    CU_ASSERT_EQUAL(dao_events_start(host, 16), DAO_OK);
    CU_ASSERT_TRUE(dao_events_are_on());
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(host, 1000, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_FALSE(dao_events_are_on());                /* the next start has its fast paths */
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK); /* into no ring */
    size_t count;
    CU_ASSERT_EQUAL(dao_events_read(host, events, EVENTS_MAX, &count, NULL), DAO_ERR_SHUTDOWN);
    begin();
    CU_ASSERT_EQUAL(dao_events_read(host, events, EVENTS_MAX, &count, NULL), DAO_ERR_NOT_READY);
}

static void begin_again(const char *history)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(setenv("DAO_HISTORY", history, 1), 0);
    begin();
    CU_ASSERT_EQUAL(unsetenv("DAO_HISTORY"), 0);
}

static void history_is_kept_from_the_start_of_each_place(void)
{
    const dao_place_t places[] = {host, pinned_1, device_0};
    begin_again("4");
    for (size_t i = 0; i < 3; i++) {
        void *block = NULL;
        for (size_t size_bytes = 100; size_bytes <= 300; size_bytes += 100) {
            block = take(places[i], size_bytes);
            give(places[i], block);
        }
        CU_ASSERT_EQUAL(dao_events_start(places[i], 16), DAO_ERR_BUSY);
        CU_ASSERT_EQUAL_FATAL(events_read(places[i], EVENTS_MAX, 2), 4);
        expect_event(2, DAO_MEMORY_EVENT_KIND_ALLOC, block, 300);
        expect_event(3, DAO_MEMORY_EVENT_KIND_FREE, block, 300);
    }
    begin_again("0");
    give(host, take(host, 100));
    CU_ASSERT_EQUAL(dao_events_stop(host), DAO_ERR_NOT_READY);
}

#if defined(DAO_FAULTS)
static void a_place_without_memory_for_its_history_does_not_start(void)
{
    uint64_t n = 0, named_count = 0;
    void *block = NULL;
    begin_again("100");
    for (; block == NULL && n < 20; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        block = dao_alloc(host, 1000);
        CU_ASSERT_TRUE(dao_fault_disarm() > 0 || block != NULL);
        CU_ASSERT_TRUE(block != NULL || dao_last_status() == DAO_ERR_NO_HOST_MEMORY);
        named_count += block == NULL && strstr(dao_last_message(), "DAO_HISTORY") != NULL;
    }
    CU_ASSERT_EQUAL(named_count, 2); /* the ring, and its slots */
    CU_ASSERT_EQUAL(events_read(host, EVENTS_MAX, 0), 1);
    give(host, block);
}

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

static void a_start_anew_has_its_memory_already(void)
{
    for (size_t event_count = 16; event_count <= 64; event_count *= 2) {
        CU_ASSERT_EQUAL(dao_events_start(host, event_count), DAO_OK);
        CU_ASSERT_EQUAL(dao_events_stop(host), DAO_OK);
    }
    for (size_t event_count = 16; event_count <= 64; event_count *= 2) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
        CU_ASSERT_EQUAL(dao_events_start(host, event_count), DAO_OK);
        CU_ASSERT_EQUAL(dao_fault_disarm(), 0);
        CU_ASSERT_EQUAL(dao_events_stop(host), DAO_OK);
    }
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
    {"frees in stream order have their sizes", frees_in_stream_order_have_their_sizes},
    {"a full ring keeps the latest and counts the rest", a_full_ring_keeps_the_latest_and_counts_the_rest},
    {"places record apart and start anew", places_record_apart_and_start_anew},
    {"wrong arguments of events are refused", wrong_arguments_of_events_are_refused},
    {"many writers and a reader lose or keep whole events",
     many_writers_and_a_reader_lose_or_keep_whole_events},
    {"events are written with the columns of RMM", events_are_written_with_the_columns_of_rmm},
    {"a recording that nobody stops ends with the library",
     a_recording_that_nobody_stops_ends_with_the_library},
    {"history is kept from the start of each place", history_is_kept_from_the_start_of_each_place},
#if defined(DAO_FAULTS)
    {"a place without memory for its history does not start",
     a_place_without_memory_for_its_history_does_not_start},
    {"a start without memory records nothing", a_start_without_memory_records_nothing},
    {"a start anew has its memory already", a_start_anew_has_its_memory_already},
#endif
    {"ticks are times of the clock", ticks_are_times_of_the_clock},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"events", NULL, NULL, begin, end, event_tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
