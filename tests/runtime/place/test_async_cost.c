/* SPDX-License-Identifier: Apache-2.0 */
/* What memory in stream order must not cost: bytes, driver calls and events beside plain memory on the same
   device, whatever the size of the blocks and however many streams there are. */
#include <dao/dao.h>

#include "tests/support/backends/fault_backend.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include "base/numbers/random.h"
#include "runtime/start/context.h"

#define DEVICE_BYTES  (UINT64_C(512) * MIB)
#define BLOCK_COUNT   24u
#define STREAM_COUNT  8u
#define REPLACE_COUNT 600u

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};
static const size_t sizes[] = {8 * KIB, 64 * KIB, 1 * MIB, 5 * MIB};
#define SIZE_COUNT (sizeof(sizes) / sizeof(sizes[0]))

static dao_stream_t *streams[STREAM_COUNT];
static void *blocks[BLOCK_COUNT];

/* ---- helpers ---- */

static void begin(void)
{
    static const fault_config_t quiet;
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = DEVICE_BYTES}};
    const dao_backend_ops_t *wrapped = fault_backend_wrap(dao_backend_ops(), &quiet);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, wrapped), DAO_OK);
    for (uint32_t i = 0; i < STREAM_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &streams[i]), DAO_OK);
    }
}

static void end(void)
{
    for (uint32_t i = 0; i < STREAM_COUNT; i++) {
        dao_stream_destroy(streams[i]);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

static dao_stats_t stats(void)
{
    dao_stats_t answer;
    CU_ASSERT_EQUAL_FATAL(dao_stats_get(device, &answer), DAO_OK);
    return answer;
}

static uint64_t event_calls(void)
{
    return fault_backend_calls(FAULT_CALL_EVENT_RECORD);
}

static void take_all(size_t size_bytes, dao_stream_t *stream)
{
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] =
            stream != NULL ? dao_alloc_async(device, size_bytes, stream) : dao_alloc(device, size_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
}

static void give_all(dao_stream_t *stream)
{
    for (uint32_t i = BLOCK_COUNT; i-- > 0;) {
        CU_ASSERT_EQUAL(
            stream != NULL ? dao_free_async(device, blocks[i], stream) : dao_free(device, blocks[i]), DAO_OK);
    }
}

/* ---- what a stream has freed ---- */

static void plain_memory_takes_what_an_idle_stream_freed(void)
{
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        take_all(sizes[i], streams[0]);
        give_all(streams[0]);
        uint64_t reserved_bytes = stats().reserved_bytes;
        uint64_t call_count = stats().driver_call_count;
        take_all(sizes[i], NULL);
        CU_ASSERT_EQUAL(stats().reserved_bytes, reserved_bytes);
        CU_ASSERT_EQUAL(stats().driver_call_count, call_count);
        give_all(NULL);
    }
}

static void another_stream_takes_it_too(void)
{
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        for (uint32_t k = 0; k < STREAM_COUNT; k++) {
            uint64_t reserved_bytes = stats().reserved_bytes;
            take_all(sizes[i], streams[k]);
            give_all(streams[k]);
            CU_ASSERT_TRUE(k == 0 || stats().reserved_bytes == reserved_bytes);
        }
    }
}

/* While the stream is held up plain memory has to be other memory; once it is done, it need not be. */
static void a_stream_that_was_busy_leaves_nothing_behind(void)
{
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_stream_host_func(streams[0], dao_gate_wait, &gate), DAO_OK);
    take_all(1 * MIB, streams[0]);
    give_all(streams[0]);
    uint64_t reserved_bytes = stats().reserved_bytes;
    take_all(1 * MIB, NULL);
    give_all(NULL);
    CU_ASSERT_EQUAL(stats().reserved_bytes, 2 * reserved_bytes);
    CU_ASSERT_TRUE(stats().grow_fenced_count > 0);
    CU_ASSERT_EQUAL(stats().grow_pieces_count, 0);
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(streams[0]), DAO_OK);
    take_all(2 * MIB, NULL);
    CU_ASSERT_EQUAL(stats().reserved_bytes, 2 * reserved_bytes);
    give_all(NULL);
    dao_gate_finish(&gate);
}

static void a_busy_stream_uses_its_own_again(void)
{
    dao_gate_t gate;
    dao_gate_init(&gate);
    CU_ASSERT_EQUAL(dao_stream_host_func(streams[0], dao_gate_wait, &gate), DAO_OK);
    take_all(1 * MIB, streams[0]);
    give_all(streams[0]);
    uint64_t reserved_bytes = stats().reserved_bytes;
    uint64_t record_count = event_calls();
    for (uint32_t i = 0; i < 50; i++) {
        take_all(1 * MIB, streams[0]);
        give_all(streams[0]);
    }
    CU_ASSERT_EQUAL(stats().reserved_bytes, reserved_bytes);
    CU_ASSERT_EQUAL(event_calls(), record_count); /* it is alone */
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_stream_synchronize(streams[0]), DAO_OK);
    dao_gate_finish(&gate);
}

/* ---- many streams ---- */

/* Replaces blocks of random sizes on random streams, each with plain memory beside it. */
static void replace(uint64_t *seed, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = (uint32_t)(dao_random_next(seed) % BLOCK_COUNT);
        size_t size_bytes = 8 * KIB + dao_random_next(seed) % (3 * MIB);
        dao_stream_t *stream = streams[place % STREAM_COUNT];
        CU_ASSERT_EQUAL(dao_free_async(device, blocks[place], stream), DAO_OK);
        blocks[place] = dao_alloc_async(device, size_bytes, stream);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[place]);
        void *beside = dao_alloc(device, size_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(beside);
        CU_ASSERT_EQUAL(dao_free(device, beside), DAO_OK);
    }
}

static void streams_in_turns_reach_a_steady_state(void)
{
    uint64_t seed = dao_test_seed("streams in turns", 1);
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] = dao_alloc_async(device, 1 * MIB, streams[i % STREAM_COUNT]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    replace(&seed, REPLACE_COUNT);
    dao_stats_t before = stats();
    replace(&seed, REPLACE_COUNT);
    dao_stats_t after = stats();
    CU_ASSERT_TRUE(after.reserved_bytes <= before.reserved_bytes + before.reserved_bytes / 8);
    CU_ASSERT_TRUE(after.reserved_bytes < 2 * after.peak_used_bytes);
    for (uint32_t i = 0; i < BLOCK_COUNT; i++) {
        CU_ASSERT_EQUAL(dao_free_async(device, blocks[i], streams[i % STREAM_COUNT]), DAO_OK);
    }
    size_t released_bytes = 0;
    CU_ASSERT_EQUAL(dao_trim(device, 0, &released_bytes), DAO_OK);
    CU_ASSERT_EQUAL(stats().reserved_bytes, 0); /* all streams are idle */
}

static CU_TestInfo tests[] = {
    {"plain memory takes what an idle stream freed", plain_memory_takes_what_an_idle_stream_freed},
    {"another stream takes it too", another_stream_takes_it_too},
    {"a stream that was busy leaves nothing behind", a_stream_that_was_busy_leaves_nothing_behind},
    {"a busy stream uses its own again", a_busy_stream_uses_its_own_again},
    {"streams in turns reach a steady state", streams_in_turns_reach_a_steady_state},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"async, cost", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
