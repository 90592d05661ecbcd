/* SPDX-License-Identifier: Apache-2.0 */
/* Times of decisions: in the order in which things need each other, and the same in every step. */
#include "base/report/fault.h"
#include "planning/swap/times/swap_timing.h"
#include "planning/swap/victims/swap_choose.h"
#include "planning/swap/victims/swap_cycle.h"
#include "tests/support/models/swap_pass.h"
#include "tests/support/suite.h"

#include <string.h>

enum { ROUND_COUNT = 250, NS_PER_S = 1000000000 };

static swap_step_box_t box;

/* Decides for a random step with a random capacity, and times that. */
static void begin_random(swap_pass_t *pass, dao_swap_timing_t *timing, uint64_t *random)
{
    static const dao_swap_variant_t variant = {64, 4, true};
    uint64_t step_ns;
    swap_pass_random(&box, random);
    swap_pass_begin(pass, &box, dao_random_next(random) % 3 * 8);
    uint64_t range = pass->peak_bytes - pass->least_bytes;
    uint64_t capacity = pass->least_bytes + dao_random_next(random) % 5 * range / 4;
    CU_ASSERT_EQUAL_FATAL(dao_swap_choose(&pass->parts, capacity, &variant, 4, pass->decisions, &step_ns),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_cycle(&pass->parts, capacity, true, pass->decisions), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(timing, &pass->parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass->parts, capacity, pass->decisions, timing), DAO_OK);
}

static void end(swap_pass_t *pass, dao_swap_timing_t *timing)
{
    dao_swap_timing_finish(timing);
    swap_pass_end(pass);
}

/* The end of a kernel, whose lives have a length. */
static int64_t end_of(const swap_pass_t *pass, const dao_swap_timing_t *timing, uint32_t kernel)
{
    uint64_t time_ns = pass->step.problem->kernels[kernel].time_ns;
    return timing->kernel_begin_ns[kernel] + (int64_t)(time_ns > 0 ? time_ns : 1);
}

static void check_order(const swap_pass_t *pass, const dao_swap_timing_t *timing)
{
    const dao_swap_step_t *step = &pass->step;
    int64_t period = (int64_t)timing->step_ns;
    for (uint32_t k = 0; k + 1 < step->kernel_count; k++) {
        CU_ASSERT(timing->kernel_begin_ns[k + 1] >= end_of(pass, timing, k));
    }
    CU_ASSERT(end_of(pass, timing, step->kernel_count - 1) <= timing->kernel_begin_ns[0] + period);
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        int64_t use_ns =
            timing->kernel_begin_ns[step->accesses[one->next].kernel] + (one->next <= i ? period : 0);
        for (uint32_t g = pass->parts.first_inactive[i]; g < pass->parts.first_inactive[i + 1]; g++) {
            const dao_swap_moment_t *moment = &timing->moments[g];
            bool is_away = pass->decisions[g].is_away;
            if (!is_away && one->inactive_is_live) {
                continue;
            }
            CU_ASSERT(moment->free_ns >= end_of(pass, timing, one->kernel));
            CU_ASSERT(moment->free_ns <= moment->taken_ns && moment->taken_ns <= use_ns);
            CU_ASSERT(!is_away || (moment->taken_ns < moment->in_end_ns && moment->in_end_ns <= use_ns));
            CU_ASSERT(!is_away || !moment->is_out || moment->out_end_ns <= moment->free_ns);
            CU_ASSERT(!is_away || !one->writes || moment->is_out);
        }
    }
}

static void times_are_in_order(void)
{
    uint64_t random = dao_test_seed("order", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        dao_swap_timing_t timing;
        begin_random(&pass, &timing, &random);
        CU_ASSERT(timing.step_ns >= pass.step.time_before[pass.step.kernel_count]);
        check_order(&pass, &timing);
        end(&pass, &timing);
    }
}

static void copies_in_are_delayed_up_to_their_kernels(void)
{
    uint64_t random = dao_test_seed("delay", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        swap_pass_t pass;
        dao_swap_timing_t timing, late;
        begin_random(&pass, &timing, &random);
        CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&late, &pass.parts), DAO_OK);
        for (uint32_t part = 0; part <= 2; part++) {
            dao_swap_timing_copy(&late, &timing, &pass.parts);
            CU_ASSERT_EQUAL(dao_swap_delay(&pass.parts, pass.decisions, part, 2, &late), DAO_OK);
            CU_ASSERT_EQUAL(late.step_ns, timing.step_ns);
            check_order(&pass, &late);
            for (uint32_t g = 0; g < pass.parts.inactive_count; g++) {
                int64_t later_ns = late.moments[g].taken_ns - timing.moments[g].taken_ns;
                CU_ASSERT(part == 0 ? later_ns == 0 : later_ns >= 0);
                CU_ASSERT_EQUAL(late.moments[g].in_end_ns - timing.moments[g].in_end_ns, later_ns);
            }
        }
        dao_swap_timing_finish(&late);
        end(&pass, &timing);
    }
}

static void what_stays_takes_the_time_of_its_kernels(void)
{
    swap_pass_t pass;
    dao_swap_timing_t timing;
    swap_step_chain(&box, 5, 100, 7);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    swap_pass_begin(&pass, &box, 0);
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass.parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time(&pass.parts, pass.peak_bytes, pass.decisions, &timing), DAO_OK);
    CU_ASSERT_EQUAL(timing.step_ns, 70);
    for (uint32_t k = 0; k < 10; k++) {
        CU_ASSERT_EQUAL(timing.kernel_begin_ns[k], 7 * (int64_t)k);
    }
    end(&pass, &timing);
}

/* Two kernels that read a weight of 100 bytes each at 1 byte a ns: in, run, in, run. */
static void times_on_demand_are_one_after_the_other(void)
{
    swap_pass_t pass;
    dao_swap_timing_t timing;
    swap_step_stream(&box, 2, 100, 10);
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S, .latency_ns = 5};
    swap_pass_begin(&pass, &box, 0);
    pass.decisions[0].is_away = pass.decisions[1].is_away = true;
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass.parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time_on_demand(&pass.parts, pass.decisions, &timing), DAO_OK);
    CU_ASSERT_EQUAL(timing.kernel_begin_ns[0], 105);
    CU_ASSERT_EQUAL(timing.kernel_begin_ns[1], 220);
    CU_ASSERT_EQUAL(timing.step_ns, 230);
    CU_ASSERT_EQUAL(timing.moments[0].taken_ns, 230); /* in the next step */
    CU_ASSERT_EQUAL(timing.moments[0].in_end_ns, 335);
    CU_ASSERT(!timing.moments[0].is_out);
    end(&pass, &timing);
}

/* Two kernels that write an activation each and two that read them: the first one stays meanwhile. */
static void what_stays_on_demand_is_not_copied(void)
{
    swap_pass_t pass;
    dao_swap_timing_t timing;
    swap_step_chain(&box, 2, 100, 10);
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S};
    swap_pass_begin(&pass, &box, 0);
    uint32_t written = pass.step.kernel_access[0], read = pass.step.accesses[written].next;
    CU_ASSERT(pass.step.accesses[written].inactive_is_live && pass.step.accesses[read].inactive_is_live);
    CU_ASSERT_EQUAL_FATAL(dao_swap_timing_init(&timing, &pass.parts), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_swap_time_on_demand(&pass.parts, pass.decisions, &timing), DAO_OK);
    CU_ASSERT_EQUAL(timing.step_ns, 40);
    pass.decisions[read].is_away = true; /* its bytes go then, not behind the kernel that wrote them */
    CU_ASSERT_EQUAL_FATAL(dao_swap_time_on_demand(&pass.parts, pass.decisions, &timing), DAO_OK);
    CU_ASSERT_EQUAL(timing.step_ns, 240);
    CU_ASSERT(!timing.moments[written].is_out && timing.moments[read].is_out);
    CU_ASSERT_EQUAL(timing.moments[read].out_end_ns - timing.moments[read].out_begin_ns, 100);
    end(&pass, &timing);
}

static void want_of_memory_is_said(void)
{
    swap_pass_t pass;
    dao_swap_timing_t timing;
    uint64_t random = dao_test_seed("want of memory", 20261122);
    begin_random(&pass, &timing, &random);
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_swap_time(&pass.parts, pass.peak_bytes, pass.decisions, &timing);
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
    }
    end(&pass, &timing);
}

static CU_TestInfo tests[] = {
    {"times are in order", times_are_in_order},
    {"copies in are delayed up to their kernels", copies_in_are_delayed_up_to_their_kernels},
    {"what stays takes the time of its kernels", what_stays_takes_the_time_of_its_kernels},
    {"times on demand are one after the other", times_on_demand_are_one_after_the_other},
    {"what stays on demand is not copied", what_stays_on_demand_is_not_copied},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap timing", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
