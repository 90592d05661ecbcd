/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of places. */
#include <dao/dao.h>

#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "tests/runtime/inspect/text.h"
#include "tests/support/blocks.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};
static const dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1};
static const dao_place_t device_9 = {DAO_PLACE_KIND_DEVICE, 9};

/* ---- helpers ---- */

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 256 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

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

#define PAIR_COUNT 4000u

static _Atomic bool writes;

/* Allocates and frees a block of *user bytes, which no thread keeps, at the host, again and again. */
static void *write_pairs(void *user)
{
    const size_t *size_bytes = user;
    for (uint32_t i = 0; i < PAIR_COUNT; i++) {
        (void)dao_free(host, dao_alloc(host, *size_bytes)); /* what fails is seen in the snapshots */
    }
    atomic_store(&writes, false);
    return NULL;
}

static void a_snapshot_while_others_allocate_is_of_one_moment(void)
{
    size_t size_bytes = 50000;
    dao_thread_t thread;
    atomic_store(&writes, true);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "writer", write_pairs, &size_bytes), DAO_OK);
    while (atomic_load(&writes)) {
        dao_snapshot_t *snapshot = snapshot_take(host);
        size_t count;
        const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &count);
        CU_ASSERT_TRUE(count <= 1);
        uint64_t requested_bytes = count > 0 ? segments[0].requested_bytes : 0;
        CU_ASSERT_TRUE(requested_bytes == 0 || requested_bytes == size_bytes);
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
        " \"device_traces\": [[]]}\n",
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

/* PyTorch's viewer stays blank where a device has no list. */
static void a_snapshot_of_a_later_device_has_a_list_for_each_before(void)
{
    static const char end[] = "\"device_traces\": [[], []]}\n";
    char bytes[4096];
    void *block = take(device_1, 1000);
    dao_snapshot_t *snapshot = snapshot_take(device_1);
    text_t text = {.bytes = bytes, .room = sizeof(bytes)};
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_write_json(snapshot, text_append, &text), DAO_OK);
    size_t length = strlen(bytes);
    CU_ASSERT_TRUE_FATAL(length > strlen(end));
    CU_ASSERT_STRING_EQUAL(bytes + length - strlen(end), end);
    dao_snapshot_destroy(snapshot);
    give(device_1, block);
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
    {"a snapshot of a later device has a list for each before",
     a_snapshot_of_a_later_device_has_a_list_for_each_before},
    {"wrong arguments of snapshots are refused", wrong_arguments_of_snapshots_are_refused},
#if defined(DAO_FAULTS)
    {"a snapshot without memory changes nothing", a_snapshot_without_memory_changes_nothing},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"snapshots", NULL, NULL, begin, end, snapshot_tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
