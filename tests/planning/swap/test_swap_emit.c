/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules of timed decisions, run byte by byte in any order that their fences allow. */
#include "base/report/fault.h"
#include "planning/swap/addresses/swap_demand.h"
#include "planning/swap/swap_emit.h"
#include "planning/swap/victims/swap_choose.h"
#include "planning/swap/victims/swap_cycle.h"
#include "tests/support/models/swap_machine.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 200 };

static swap_step_box_t box;

/* Decides, times and lays out with `capacity_bytes`, for addresses below `arena_bytes`. */
static bool lay_out(swap_pass_t *pass, uint64_t capacity_bytes, uint64_t arena_bytes,
                    dao_swap_timing_t *timing, dao_swap_layout_t *layout)
{
    static const dao_swap_variant_t variant = {64, UINT32_MAX, true};
    dao_swap_past_t past;
    uint64_t step_ns;
    dao_swap_past_init(&past);
    CU_ASSERT_EQUAL_FATAL(
        dao_swap_choose(&pass->parts, capacity_bytes, &variant, 4, pass->decisions, &step_ns), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_cycle(&pass->parts, capacity_bytes, true, pass->decisions), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(timing, &pass->parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass->parts, capacity_bytes, pass->decisions, timing), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(
        dao_swap_layout_init(layout, &pass->parts, pass->decisions, timing, arena_bytes, false, &past),
        DAO_OK);
    return layout->unplaced_count == 0;
}

/* Emits what was laid out and runs it byte by byte. Returns true if it copies. */
static bool emit_and_run(swap_pass_t *pass, dao_swap_timing_t *timing, dao_swap_layout_t *layout,
                         uint64_t *random)
{
    dao_swap_program_t program;
    CU_ASSERT_EQUAL_FATAL(dao_swap_emit(&pass->parts, pass->decisions, timing, layout, &program), DAO_OK);
    CU_ASSERT(swap_machine_run(&box.problem, &program.schedule, 4, random));
    bool copies = program.schedule.in_bytes > 0;
    dao_swap_program_finish(&program);
    return copies;
}

/* Chosen decisions of a random step. Returns true if they have copies. */
static bool check_chosen(swap_pass_t *pass, uint64_t *random)
{
    dao_swap_timing_t timing;
    dao_swap_layout_t layout;
    uint64_t range = pass->peak_bytes - pass->least_bytes;
    uint64_t capacity = pass->least_bytes + dao_random_next(random) % 4 * range / 4;
    box.problem.capacity_bytes = 4 * pass->peak_bytes + 1;
    bool copies = lay_out(pass, capacity, box.problem.capacity_bytes, &timing, &layout) &&
                  emit_and_run(pass, &timing, &layout, random);
    dao_swap_layout_finish(&layout);
    dao_swap_timing_finish(&timing);
    return copies;
}

/* The plan that always is: tensors come as kernels ask for them. */
static bool check_on_demand(swap_pass_t *pass, uint64_t *random)
{
    dao_swap_timing_t timing;
    dao_swap_layout_t layout;
    uint64_t range = pass->peak_bytes - pass->least_bytes;
    box.problem.capacity_bytes = pass->least_bytes + dao_random_next(random) % 4 * range / 4;
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass->parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_demand(&pass->parts, box.problem.capacity_bytes, pass->decisions, &layout),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time_on_demand(&pass->parts, pass->decisions, &timing), DAO_OK);
    CU_ASSERT(layout.arena_bytes <= box.problem.capacity_bytes);
    bool copies = emit_and_run(pass, &timing, &layout, random);
    dao_swap_layout_finish(&layout);
    dao_swap_timing_finish(&timing);
    return copies;
}

/* Random steps, each by `check`. Parts have 0, 9, 18, ... bytes: so many sizes are drawn from. */
static void check_steps(const char *name, uint64_t part_sizes, bool (*check)(swap_pass_t *, uint64_t *))
{
    uint64_t random = dao_test_seed(name, 20261122);
    int copy_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        swap_pass_random(&box, &random);
        swap_pass_begin(&pass, &box, dao_random_below(&random, part_sizes) * 9);
        copy_count += check(&pass, &random) ? 1 : 0;
        swap_pass_end(&pass);
    }
    CU_ASSERT(copy_count > ROUND_COUNT / 3);
}

static void schedules_do_what_they_should(void)
{
    check_steps("emit", 3, check_chosen);
}

static void schedules_on_demand_do_so_too(void)
{
    check_steps("on demand", 1, check_on_demand);
}

static void want_of_memory_is_said(void)
{
    swap_pass_t pass;
    dao_swap_timing_t timing;
    dao_swap_layout_t layout;
    swap_step_chain(&box, 6, 16, 10);
    box.problem.host.in_bytes_per_second = 1000000000;
    box.problem.capacity_bytes = 1000;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT_FATAL(lay_out(&pass, 64, 1000, &timing, &layout));
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_swap_program_t program;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_swap_emit(&pass.parts, pass.decisions, &timing, &layout, &program);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        dao_swap_program_finish(&program);
    }
    dao_swap_layout_finish(&layout);
    dao_swap_timing_finish(&timing);
    swap_pass_end(&pass);
}

static CU_TestInfo tests[] = {
    {"schedules do what they should", schedules_do_what_they_should},
    {"schedules on demand do so too", schedules_on_demand_do_so_too},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap emit", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
