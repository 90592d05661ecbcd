/* SPDX-License-Identifier: Apache-2.0 */
/* Writeback: what is copied out while the link is idle and the host is near the device. On devices in
   virtual time, with bytes. */
#include "runtime/executor/online/writeback.h"
#include "runtime/executor/records/access.h"
#include "tests/support/suite.h"
#include "tests/support/timed_program.h"

#include <dao/dao.h>

static timed_program_t timed;

static void make(uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        uint32_t tensor = program_tensor(&timed.program, UNIT);
        CU_ASSERT_NOT_EQUAL_FATAL(tensor, UINT32_MAX);
        program_kernel_t kernel = {"make", 1, {tensor}, {DAO_ACCESS_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_push(&timed.program, &kernel), DAO_OK);
    }
}

/* Eight tensors fill the device; while kernels run that need none of them, those unused for longest are
   copied out up to the high mark, and leave for nothing when others come. */
static void near_the_device_victims_are_copied_out_ahead(void)
{
    static uint64_t one_ms = MS;
    dao_executor_config_t config = {
        .capacity_bytes = 8 * UNIT, .queue_kernels = 1, .in_flight_ns = 5 * MS, .check = true};
    timed_program_begin(&timed, &config);
    timed_program_push(&timed, &one_ms, FIRST_KERNELS);
    make(8);
    timed_program_push(&timed, &one_ms, 200);
    uint64_t high = (8 * DAO_WRITEBACK_HIGH_PERCENT + 99) / 100;
    CU_ASSERT_EQUAL(program_stats(&timed.program).writeback_count, high);
    CU_ASSERT_EQUAL(program_stats(&timed.program).out_bytes, high * UNIT);
    CU_ASSERT_EQUAL(program_stats(&timed.program).eviction_count, 0);
    make(4);
    CU_ASSERT_EQUAL(dao_executor_sync(timed.executor), DAO_OK);
    CU_ASSERT_EQUAL(program_stats(&timed.program).eviction_count, 4);
    CU_ASSERT_EQUAL(program_stats(&timed.program).clean_eviction_count, 4);
    timed_program_end(&timed);
}

/* Far ahead evictions are queued early enough by themselves, and a host that is nearly full has no room to
   spare. */
static void elsewhere_nothing_is_copied_ahead(void)
{
    static uint64_t one_ms = MS;
    dao_executor_config_t far = {.capacity_bytes = 8 * UNIT, .queue_kernels = 1};
    dao_executor_config_t full = {
        .capacity_bytes = 8 * UNIT, .queue_kernels = 1, .in_flight_ns = 5 * MS, .host_bytes = UNIT};
    const dao_executor_config_t *configs[] = {&far, &full};
    for (int i = 0; i < 2; i++) {
        timed_program_begin(&timed, configs[i]);
        timed_program_push(&timed, &one_ms, FIRST_KERNELS);
        make(8);
        timed_program_push(&timed, &one_ms, 200);
        CU_ASSERT_EQUAL(program_stats(&timed.program).writeback_count, 0);
        timed_program_end(&timed);
    }
}

static dao_engine_t *engine;

static void begin_filled(void)
{
    static uint64_t one_ms = MS;
    dao_executor_config_t config = {.capacity_bytes = 8 * UNIT, .queue_kernels = 1, .in_flight_ns = 5 * MS};
    timed_program_begin(&timed, &config);
    engine = &timed.executor->engine;
    timed_program_push(&timed, &one_ms, FIRST_KERNELS);
    make(8);
    CU_ASSERT_EQUAL(dao_executor_sync(timed.executor), DAO_OK);
}

/* The number of the first tensor that only the device has: of those, the one unused for longest. */
static uint32_t first_dirty(void)
{
    uint32_t number = 0;
    while (number < timed.program.tensor_count &&
           timed.program.tensors[number].handle->residency != DAO_RESIDENCY_DEVICE) {
        number++;
    }
    CU_ASSERT_TRUE_FATAL(number + 1 < timed.program.tensor_count);
    return number;
}

/* The policy evicts what is unused for longest: that is copied first. */
static void the_first_victim_is_copied_first(void)
{
    begin_filled();
    uint64_t count = engine->stats.writeback_count;
    uint32_t first = first_dirty();
    dao_writeback_run(engine);
    CU_ASSERT_EQUAL(engine->stats.writeback_count, count + 1);
    CU_ASSERT_EQUAL(timed.program.tensors[first].handle->residency, DAO_RESIDENCY_BOTH);
    CU_ASSERT_EQUAL(first_dirty(), first + 1);
    CU_ASSERT_TRUE(engine->is_writing_back);
    dao_writeback_run(engine); /* the link is not idle */
    CU_ASSERT_EQUAL(engine->stats.writeback_count, count + 1);
    timed_program_end(&timed);
}

static void a_content_that_is_written_next_is_not_kept(void)
{
    begin_filled();
    uint32_t first = first_dirty();
    dao_use_t use = {.tensor = timed.program.tensors[first].handle, .kind = DAO_USE_WRITE};
    dao_access_append(&use, engine->next_time);
    dao_writeback_run(engine);
    CU_ASSERT_EQUAL(timed.program.tensors[first].handle->residency, DAO_RESIDENCY_DEVICE);
    CU_ASSERT_EQUAL(timed.program.tensors[first + 1].handle->residency, DAO_RESIDENCY_BOTH);
    dao_access_pop(&use);
    timed_program_end(&timed);
}

static void nothing_is_copied_after_a_failure(void)
{
    begin_filled();
    uint64_t count = engine->stats.writeback_count;
    engine->has_failed = true;
    dao_writeback_run(engine);
    engine->has_failed = false;
    CU_ASSERT_EQUAL(engine->stats.writeback_count, count);
    timed_program_end(&timed);
}

static CU_TestInfo tests[] = {
    {"near the device victims are copied out ahead", near_the_device_victims_are_copied_out_ahead},
    {"elsewhere nothing is copied ahead", elsewhere_nothing_is_copied_ahead},
    {"the first victim is copied first", the_first_victim_is_copied_first},
    {"a content that is written next is not kept", a_content_that_is_written_next_is_not_kept},
    {"nothing is copied after a failure", nothing_is_copied_after_a_failure},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"writeback", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
