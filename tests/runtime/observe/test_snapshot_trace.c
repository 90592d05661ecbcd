/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a snapshot: what a viewer is told of events agrees with the blocks and segments, whatever the
   ring has lost. Blocks, segments and events are made up here, but for the last cases. */
#include <dao/dao.h>

#include "base/memory/host.h"
#include "base/report/fault.h"
#include "runtime/observe/event_ring.h"
#include "runtime/observe/snapshot.h"
#include "tests/support/suite.h"

#include <string.h>

#define TOLD_MAX    512
#define BLOCK_COUNT 24
#define EVENT_COUNT 256 /* that the ring keeps */

static const dao_place_t place = {DAO_PLACE_KIND_DEVICE, 0};

/* What a viewer was told. */
typedef struct told {
    dao_snapshot_event_t event;
    uint64_t address, size_bytes, time;
    uint32_t tag;
} told_t;

static told_t told[TOLD_MAX];
static size_t told_count;

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 256 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_events_start(place, EVENT_COUNT), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void note_alloc(uint64_t address, size_t size_bytes, uint32_t tag)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = (dao_tag_t)tag};
    dao_events_note_alloc_now(place, &request, (const void *)(uintptr_t)address, DAO_OK);
}

static void note_free(uint64_t address, size_t size_bytes)
{
    dao_freeing_t freeing = {
        .ticks = dao_ticks(), .address = (const void *)(uintptr_t)address, .size_bytes = size_bytes};
    dao_events_note_freed(NULL, place, &freeing);
}

static void take_event(dao_snapshot_event_t event, const dao_snapshot_entry_t *entry, void *user)
{
    (void)user;
    CU_ASSERT_TRUE_FATAL(told_count < TOLD_MAX);
    told[told_count++] = (told_t){event, entry->address, entry->size_bytes, entry->time, entry->tag};
}

static void tell(const dao_snapshot_t *snapshot)
{
    told_count = 0;
    dao_snapshot_walk_events(snapshot, take_event, NULL);
    for (size_t i = 1; i < told_count; i++) {
        CU_ASSERT_TRUE(told[i - 1].time <= told[i].time);
    }
}

/* The trace of what was noted, with such blocks, each the whole of a segment. */
static void tell_with(dao_snapshot_block_t *blocks, size_t count)
{
    dao_snapshot_segment_t segments[4] = {{0}};
    for (size_t i = 0; i < count; i++) {
        segments[i] = (dao_snapshot_segment_t){.address = blocks[i].address,
                                               .size_bytes = blocks[i].size_bytes,
                                               .first_block = i,
                                               .block_count = 1};
    }
    dao_snapshot_t snapshot = {
        .place = place, .blocks = blocks, .segments = segments, .block_count = count, .segment_count = count};
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_trace(&snapshot), DAO_OK);
    tell(&snapshot);
    dao_host_free(snapshot.entries);
}

static dao_snapshot_block_t block_at(uint64_t address, size_t size_bytes, dao_block_state_t state)
{
    return (dao_snapshot_block_t){.address = address,
                                  .size_bytes = size_bytes + 24,
                                  .requested_bytes = state == DAO_BLOCK_STATE_FREE ? 0 : size_bytes,
                                  .state = state};
}

static void expect(size_t index, dao_snapshot_event_t event, uint64_t address, uint64_t size_bytes)
{
    CU_ASSERT_TRUE_FATAL(index < told_count);
    CU_ASSERT_EQUAL(told[index].event, event);
    CU_ASSERT_EQUAL(told[index].address, address);
    CU_ASSERT_EQUAL(told[index].size_bytes, size_bytes);
}

static void expect_end(size_t index)
{
    CU_ASSERT_EQUAL(told_count, index + 1);
    CU_ASSERT_EQUAL(told[index].event, DAO_SNAPSHOT_EVENT_SNAPSHOT);
}

/* ---- cases ---- */

static void without_events_nothing_is_told(void)
{
    tell_with(NULL, 0);
    CU_ASSERT_EQUAL(told_count, 0);
    CU_ASSERT_EQUAL(dao_events_stop(place), DAO_OK);
    tell_with(NULL, 0);
    CU_ASSERT_EQUAL(told_count, 0);
}

static void blocks_come_and_go_in_order(void)
{
    dao_snapshot_block_t blocks[] = {block_at(0x1000, 100, DAO_BLOCK_STATE_LIVE),
                                     block_at(0x2000, 0, DAO_BLOCK_STATE_FREE)};
    note_alloc(0x2000, 200, 0);
    note_alloc(0x1000, 100, 7);
    note_free(0x2000, 200);
    tell_with(blocks, 2);
    expect(0, DAO_SNAPSHOT_EVENT_ALLOC, 0x2000, 200);
    expect(1, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 100);
    CU_ASSERT_EQUAL(told[0].tag, 0);
    CU_ASSERT_EQUAL(told[1].tag, 7);
    expect(2, DAO_SNAPSHOT_EVENT_FREE_REQUESTED, 0x2000, 200);
    expect(3, DAO_SNAPSHOT_EVENT_FREE_COMPLETED, 0x2000, 200);
    expect_end(4);
}

static void all_that_a_full_ring_keeps_is_told(void)
{
    dao_snapshot_block_t block = block_at(0x1000, 0, DAO_BLOCK_STATE_FREE);
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        note_alloc(0x1000, 100 + i, 0);
        note_free(0x1000, 100 + i);
    }
    tell_with(&block, 1);
    expect(0, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 100 + EVENT_COUNT / 2);
    expect_end(EVENT_COUNT / 2 * 3); /* a free is told twice */
}

static void of_two_allocs_without_a_free_the_later_one_stays(void)
{
    dao_snapshot_block_t block = block_at(0x1000, 300, DAO_BLOCK_STATE_LIVE);
    note_alloc(0x1000, 100, 0);
    note_alloc(0x1000, 200, 0);
    note_alloc(0x1000, 300, 0);
    tell_with(&block, 1);
    expect(0, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 300);
    expect_end(1);
}

static void of_two_frees_without_an_alloc_the_earlier_one_stays(void)
{
    dao_snapshot_block_t block = block_at(0x1000, 0, DAO_BLOCK_STATE_FREE);
    note_alloc(0x1000, 100, 0);
    note_free(0x1000, 100);
    note_free(0x1000, 200);
    note_free(0x1000, 300);
    tell_with(&block, 1);
    expect(0, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 100);
    expect(1, DAO_SNAPSHOT_EVENT_FREE_REQUESTED, 0x1000, 100);
    expect(2, DAO_SNAPSHOT_EVENT_FREE_COMPLETED, 0x1000, 100);
    expect_end(3);
}

/* They came behind the copy of the blocks. */
static void what_does_not_agree_with_its_block_is_not_told(void)
{
    dao_snapshot_block_t blocks[] = {block_at(0x1000, 100, DAO_BLOCK_STATE_LIVE),
                                     block_at(0x2000, 0, DAO_BLOCK_STATE_FREE),
                                     block_at(0x3000, 100, DAO_BLOCK_STATE_LIVE)};
    note_free(0x1000, 100);
    note_alloc(0x2000, 100, 0);
    note_alloc(0x3000, 101, 0); /* another block than the one that is there */
    tell_with(blocks, 3);
    CU_ASSERT_EQUAL(told_count, 0);
    note_alloc(0x4000, 100, 0); /* no segment at all */
    tell_with(blocks, 3);
    expect(0, DAO_SNAPSHOT_EVENT_SEGMENT_ALLOC, 0x4000, 100);
    expect(1, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x4000, 100);
    expect_end(2);
}

static void the_free_of_a_block_that_is_kept_back_is_not_done(void)
{
    dao_snapshot_block_t block = block_at(0x1000, 100, DAO_BLOCK_STATE_PENDING);
    note_alloc(0x1000, 100, 0);
    note_free(0x1000, 100);
    tell_with(&block, 1);
    expect(0, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 100);
    expect(1, DAO_SNAPSHOT_EVENT_FREE_REQUESTED, 0x1000, 100);
    expect_end(2);
}

/* From the begin of the trace to the last free in it; what adjoins is one, what does not is another one. */
static void a_segment_that_is_gone_was_around_its_blocks(void)
{
    dao_snapshot_block_t block = block_at(0x9000, 100, DAO_BLOCK_STATE_LIVE);
    note_alloc(0x1000, 0x1000, 0);
    note_alloc(0x2000, 0x800, 0); /* adjoins */
    note_alloc(0x2801, 0x800, 0); /* does not */
    note_free(0x2000, 0x800);
    note_free(0x1000, 0x1000);
    note_alloc(0x9000, 100, 0);
    note_free(0x2801, 0x800);
    tell_with(&block, 1);
    expect(0, DAO_SNAPSHOT_EVENT_SEGMENT_ALLOC, told[0].address, told[0].size_bytes);
    expect(1, DAO_SNAPSHOT_EVENT_SEGMENT_ALLOC, told[1].address, told[1].size_bytes);
    CU_ASSERT_EQUAL(told[0].address + told[1].address, 0x1000 + 0x2801);
    expect(2, DAO_SNAPSHOT_EVENT_ALLOC, 0x1000, 0x1000);
    CU_ASSERT_EQUAL(told[0].time, told[2].time);
    CU_ASSERT_EQUAL(told[1].time, told[2].time);
    expect(8, DAO_SNAPSHOT_EVENT_FREE_COMPLETED, 0x1000, 0x1000);
    expect(9, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x1000, 0x1800);
    CU_ASSERT_EQUAL(told[8].time, told[9].time);
    expect(10, DAO_SNAPSHOT_EVENT_ALLOC, 0x9000, 100);
    expect(12, DAO_SNAPSHOT_EVENT_FREE_COMPLETED, 0x2801, 0x800);
    expect(13, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x2801, 0x800);
    expect_end(14);
}

/* A block that was there before was larger than what is left in front of the segment. Segments come in no
   order. */
static void a_segment_that_is_gone_ends_where_the_next_one_begins(void)
{
    dao_snapshot_block_t blocks[] = {block_at(0x9000, 100, DAO_BLOCK_STATE_LIVE),
                                     block_at(0x5000, 100, DAO_BLOCK_STATE_LIVE)};
    note_free(0x8000, 0x4000);
    note_free(0x4000, 0x4000);
    note_free(0x9000 + 124, 1); /* the first byte behind the segment */
    tell_with(blocks, 2);
    CU_ASSERT_EQUAL_FATAL(told_count, 13);
    expect(5, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x8000, 0x1000);
    expect(8, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x4000, 0x1000);
    expect(11, DAO_SNAPSHOT_EVENT_SEGMENT_FREE, 0x9000 + 124, 1);
}

static void a_tag_is_told_by_its_name(void)
{
    uint32_t tag = 0;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("weights", &tag), DAO_OK);
    CU_ASSERT_STRING_EQUAL(dao_snapshot_tag_text(tag), "weights");
    CU_ASSERT_STRING_EQUAL(dao_snapshot_tag_text(0), "unknown");
    CU_ASSERT_STRING_EQUAL(dao_snapshot_tag_text(tag + 1), "unknown");
    dao_snapshot_entry_t entries[2] = {{.tag = 0}, {.tag = 0}};
    dao_snapshot_t snapshot = {.entries = entries, .entry_count = 2};
    CU_ASSERT_FALSE(dao_snapshot_has_tags(&snapshot));
    entries[1].tag = (uint16_t)tag;
    CU_ASSERT_TRUE(dao_snapshot_has_tags(&snapshot));
}

/* ---- of a place at work ---- */

/* Returns the latest event of an address in front of the one at `index`; NULL: there is none. */
static const told_t *last_before(size_t index)
{
    for (size_t i = index; i-- > 0;) {
        bool is_block =
            told[i].event == DAO_SNAPSHOT_EVENT_ALLOC || told[i].event == DAO_SNAPSHOT_EVENT_FREE_COMPLETED;
        if (is_block && told[i].address == told[index].address) {
            return &told[i];
        }
    }
    return NULL;
}

static const dao_snapshot_block_t *live_at(const dao_snapshot_t *snapshot, uint64_t address)
{
    for (size_t i = 0; i < snapshot->block_count; i++) {
        if (snapshot->blocks[i].address == address) {
            return snapshot->blocks[i].state == DAO_BLOCK_STATE_LIVE ? &snapshot->blocks[i] : NULL;
        }
    }
    return NULL;
}

/* Allocs and frees of an address take turns, and the last one is as the snapshot has it. */
static void check_told(const dao_snapshot_t *snapshot)
{
    for (size_t i = 0; i < told_count; i++) {
        const told_t *last = last_before(i);
        if (told[i].event == DAO_SNAPSHOT_EVENT_ALLOC) {
            CU_ASSERT_TRUE(last == NULL || last->event == DAO_SNAPSHOT_EVENT_FREE_COMPLETED);
        } else if (told[i].event == DAO_SNAPSHOT_EVENT_FREE_REQUESTED) {
            CU_ASSERT_TRUE(last == NULL || (last->event == DAO_SNAPSHOT_EVENT_ALLOC &&
                                            last->size_bytes == told[i].size_bytes));
        } else if (told[i].event == DAO_SNAPSHOT_EVENT_FREE_COMPLETED) {
            CU_ASSERT_EQUAL(told[i - 1].event, DAO_SNAPSHOT_EVENT_FREE_REQUESTED);
        }
    }
    for (size_t i = 0; i < snapshot->block_count; i++) {
        told[told_count] = (told_t){.address = snapshot->blocks[i].address};
        const told_t *last = last_before(told_count);
        const dao_snapshot_block_t *live = live_at(snapshot, snapshot->blocks[i].address);
        CU_ASSERT_TRUE(last == NULL || (last->event == DAO_SNAPSHOT_EVENT_ALLOC) == (live != NULL));
        CU_ASSERT_TRUE(last == NULL || live == NULL || last->size_bytes == live->requested_bytes);
    }
}

/* Its ring is too short for all of them, so the oldest are lost. */
static void traces_of_random_blocks_agree_with_the_snapshots(void)
{
    uint64_t random = dao_test_seed("traces", 41);
    void *blocks[BLOCK_COUNT] = {0};
    for (size_t i = 0; i < 2000; i++) {
        size_t index = dao_random_below(&random, BLOCK_COUNT);
        if (blocks[index] == NULL) {
            blocks[index] = dao_alloc(place, dao_random_between(&random, 1, 3 * MIB));
            CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[index]);
        } else {
            CU_ASSERT_EQUAL(dao_free(place, blocks[index]), DAO_OK);
            blocks[index] = NULL;
        }
        if (i % 100 == 99) {
            CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
        }
        if (i % 20 == 19) {
            dao_snapshot_t *snapshot = NULL;
            CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(place, &snapshot), DAO_OK);
            tell(snapshot);
            CU_ASSERT_TRUE(told_count > 0);
            check_told(snapshot);
            dao_snapshot_destroy(snapshot);
        }
    }
    for (size_t i = 0; i < BLOCK_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free(place, blocks[i]), DAO_OK);
    }
}

#if defined(DAO_FAULTS)
static void a_trace_without_memory_is_refused(void)
{
    void *block = dao_alloc(place, 5 * MIB), *kept = dao_alloc(place, 1000);
    CU_ASSERT_EQUAL(dao_free(place, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(place, 0, NULL), DAO_OK);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    uint64_t n = 0;
    for (; status != DAO_OK && n < 20; n++) {
        dao_snapshot_t *snapshot = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        status = dao_snapshot_create(place, &snapshot);
        CU_ASSERT_EQUAL(status, dao_fault_disarm() > 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_TRUE((status == DAO_OK) == (snapshot != NULL));
        CU_ASSERT_TRUE(status == DAO_OK || strstr(dao_last_message(), "no host memory") != NULL);
        dao_snapshot_destroy(snapshot);
    }
    CU_ASSERT_TRUE(n > 6); /* those of a snapshot without a trace are fewer */
    CU_ASSERT_EQUAL(dao_free(place, kept), DAO_OK);
}
#endif

static CU_TestInfo tests[] = {
    {"without events nothing is told", without_events_nothing_is_told},
    {"blocks come and go in order", blocks_come_and_go_in_order},
    {"all that a full ring keeps is told", all_that_a_full_ring_keeps_is_told},
    {"of two allocs without a free the later one stays", of_two_allocs_without_a_free_the_later_one_stays},
    {"of two frees without an alloc the earlier one stays",
     of_two_frees_without_an_alloc_the_earlier_one_stays},
    {"what does not agree with its block is not told", what_does_not_agree_with_its_block_is_not_told},
    {"the free of a block that is kept back is not done", the_free_of_a_block_that_is_kept_back_is_not_done},
    {"a segment that is gone was around its blocks", a_segment_that_is_gone_was_around_its_blocks},
    {"a segment that is gone ends where the next one begins",
     a_segment_that_is_gone_ends_where_the_next_one_begins},
    {"a tag is told by its name", a_tag_is_told_by_its_name},
    {"traces of random blocks agree with the snapshots", traces_of_random_blocks_agree_with_the_snapshots},
#if defined(DAO_FAULTS)
    {"a trace without memory is refused", a_trace_without_memory_is_refused},
#endif
    CU_TEST_INFO_NULL};

int main(void)
{
    CU_SuiteInfo suites[] = {{"traces of snapshots", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
