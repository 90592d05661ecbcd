/* SPDX-License-Identifier: Apache-2.0 */
/* What fails as a plan is made, entered, followed or left: whatever call is refused, by the backend, by the
   system or by the disk, no byte is lost and plans are followed again; and a device that is lost at any call
   takes its own bytes alone. */
#include "base/report/fault.h"
#include "tests/runtime/executor/planned_network.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>

enum { FAIL_EVERY = 3 * TEST_CALL_STEP, LOSE_EVERY = (IN_PAGES ? 17 : 7) * TEST_CALL_STEP };

/* Most calls that a step makes; a search that goes on longer has a bug. */
enum { CALL_COUNT_MAX = 5000 };

static const fault_config_t quiet = {.seed = 1};

/* A refused call fails a step or not; behind the sync that says so all goes on. */
static void refused_calls_lose_nothing(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_COPY, FAULT_CALL_STREAM_WAIT_EVENT,
                                         FAULT_CALL_EVENT_RECORD, FAULT_CALL_HOST_FUNC,
                                         FAULT_CALL_PINNED_ALLOC};
    fault_config_t faults = {.seed = 1};
    begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &faults), true, &tight);
    run_until_planned(&usual, 2);
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        for (uint64_t n = 0; n < 40; n += FAIL_EVERY) {
            fault_backend_arm(calls[c], n, n % 2 == 0);
            dao_status_t status = run_network(&usual);
            (void)fault_backend_disarm();
            CU_ASSERT_NOT_EQUAL(status, DAO_ERR_CORRUPT);
            status = dao_executor_sync(executor); /* what the step has left unsaid */
            CU_ASSERT_NOT_EQUAL(status, DAO_ERR_DEVICE_LOST);
            CU_ASSERT_EQUAL(program.mismatch_count, 0);
        }
    }
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    run_until_planned(&usual, 2);
    end();
}

/* The step before which the plan is made, with the n-th allocation failing; then steps that are followed, and
   one that deviates. */
static bool plan_with_failure(uint64_t n)
{
    begin(&dao_sim_bytes_backend_ops, true, &tight);
    run_well(&usual);
    run_well(&usual);
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
    dao_status_t boundary_status = dao_executor_step_begin(executor);
    dao_status_t status = run_network(&usual);
    dao_status_t next_status = run_network(&others[1]);
    bool has_failed = dao_fault_disarm() > 0;
    CU_ASSERT_TRUE(has_failed || (boundary_status == DAO_OK && status == DAO_OK && next_status == DAO_OK));
    status = dao_executor_sync(executor); /* what is left unsaid */
    CU_ASSERT_NOT_EQUAL(status, DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    run_until_planned(&usual, 2);
    end();
    return has_failed;
}

static void a_plan_that_cannot_be_made_harms_nothing(void)
{
    uint64_t n = 0;
    while (plan_with_failure(n)) {
        n += n < 40 ? (FAIL_EVERY + 2) / 3 : n * FAIL_EVERY / 48;
    }
    (void)printf("    %" PRIu64 " allocations\n", n);
}

#if defined(DAO_FAULTS)
/* Operations of the file fail or come back short for some steps: a step may be refused, nothing is lost, and
   behind the sync that says so plans are followed again. */
static void a_bad_disk_loses_nothing(void)
{
    static const dao_fault_t points[] = {DAO_FAULT_FILE_WRITE, DAO_FAULT_FILE_READ, DAO_FAULT_FILE_SHORT};
    enum { BAD_STEPS = 3 };
    dao_executor_config_t config = tight_with_file(8 * UNIT);
    begin(&dao_sim_bytes_backend_ops, true, &config);
    for (size_t p = 0; p < sizeof(points) / sizeof(points[0]); p++) {
        for (uint64_t n = 0; n < 20; n += FAIL_EVERY) {
            run_until_planned(&usual, 1);
            dao_fault_arm(points[p], n, n % 2 == 0);
            for (int i = 0; i < BAD_STEPS; i++) {
                dao_status_t status = run_network(&usual);
                CU_ASSERT_TRUE(status == DAO_OK || points[p] != DAO_FAULT_FILE_SHORT);
                CU_ASSERT_NOT_EQUAL(status, DAO_ERR_CORRUPT);
            }
            CU_ASSERT_TRUE(dao_fault_disarm() > 0);
            CU_ASSERT_NOT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
            CU_ASSERT_EQUAL(program.mismatch_count, 0);
            CU_ASSERT_EQUAL(program_count_lost(&program), 0);
        }
    }
    run_until_planned(&usual, 2);
    end();
}
#endif

/* ---- a device that is lost ---- */

/* After the loss every tensor has its bytes, or its read says that it is lost, by its name. */
static void end_lost(void)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    uint32_t before_count = 0;
    CU_ASSERT_EQUAL(program_count_wrong_after_loss(&program, &before_count), 0);
    CU_ASSERT_TRUE(before_count <= 3); /* operands of the kernel in which it was lost */
    CU_ASSERT_EQUAL(run_network(&usual), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(program.open_count, 0);
    (void)fault_backend_disarm();
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_used(dao_pinned_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
}

/* A step with the n-th call of a kind failing, behind `step_count` others: from the third on a plan is
   followed, and before it that one is entered. Returns whether a call failed. */
static bool fail_in_step(const dao_executor_config_t *config, int step_count, fault_call_t call, uint64_t n,
                         const variation_t *variation)
{
    begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet), true, config);
    run_usual(step_count);
    fault_backend_arm(call, n, true);
    dao_status_t boundary_status = dao_executor_step_begin(executor);
    dao_status_t status = run_network(variation);
    bool has_failed = fault_backend_fired_count() > 0;
    CU_ASSERT_TRUE(has_failed || (boundary_status == DAO_OK && status == DAO_OK));
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    if (has_failed && call == (fault_call_t)FAULT_CALL_LOSS) {
        CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
        end_lost();
        return true;
    }
    (void)fault_backend_disarm();
    CU_ASSERT_NOT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST); /* what is left unsaid */
    end();
    CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    return has_failed;
}

static void fail_each_call(const char *text, const dao_executor_config_t *config, int step_count,
                           fault_call_t call, const variation_t *variation)
{
    unsigned failures = CU_get_number_of_failures();
    uint64_t n = 0;
    while (n < CALL_COUNT_MAX && fail_in_step(config, step_count, call, n, variation)) {
        if (CU_get_number_of_failures() != failures) {
            (void)printf("    %s, step %d: call %" PRIu64 " fails, and all after it\n", text, step_count, n);
            return;
        }
        n += LOSE_EVERY;
    }
    CU_ASSERT_TRUE(n > 0 && n < CALL_COUNT_MAX);
    (void)printf("    %s, step %d: %" PRIu64 " calls\n", text, step_count, n);
}

/* As a plan is entered, while it is followed, and as another step leaves it. */
static void a_device_lost_within_a_plan_takes_its_own_bytes_alone(void)
{
    const dao_executor_config_t with_file = tight_with_file(8 * UNIT);
    fail_each_call("entered", &tight, 2, (fault_call_t)FAULT_CALL_LOSS, &usual);
    fail_each_call("followed", &tight, 4, (fault_call_t)FAULT_CALL_LOSS, &usual);
    fail_each_call("left", &tight, 4, (fault_call_t)FAULT_CALL_LOSS, &others[1]);
    fail_each_call("entered, with a file", &with_file, 2, (fault_call_t)FAULT_CALL_LOSS, &usual);
    fail_each_call("followed, with a file", &with_file, 4, (fault_call_t)FAULT_CALL_LOSS, &usual);
}

static CU_TestInfo tests[] = {
    {"refused calls lose nothing", refused_calls_lose_nothing},
    {"a plan that cannot be made harms nothing", a_plan_that_cannot_be_made_harms_nothing},
#if defined(DAO_FAULTS)
    {"a bad disk loses nothing", a_bad_disk_loses_nothing},
#endif
    {"a device lost within a plan takes its own bytes alone",
     a_device_lost_within_a_plan_takes_its_own_bytes_alone},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plans of executors that fail", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
