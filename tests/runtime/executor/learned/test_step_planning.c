/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that are described before they run: the first run follows a plan and takes what later ones take,
   other steps than were described lose nothing, and what cannot be planned runs all the same. */
#include "base/report/fault.h"
#include "runtime/executor/learned/link_probe.h"
#include "runtime/executor/learned/step_learner.h"
#include "runtime/executor/records/tensor.h"
#include "tests/runtime/executor/planned_network.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VIRTUAL_SEEDS = TEST_ROUNDS(4), THREAD_SEEDS = 1 + TEST_ROUNDS(2), FAIL_EVERY = 3 * TEST_CALL_STEP };

/* The work_limit of a plan that is not looked for for long, neither before nor behind. */
enum { BRIEF = 2 };

static uint64_t now_ns(void)
{
    return dao_sim_now_ns(executor->runtime->device);
}

static uint64_t time_step(void)
{
    uint64_t begin_ns = now_ns();
    run_well(&usual);
    return now_ns() - begin_ns;
}

static void begin_with_costs(const dao_executor_config_t *config)
{
    begin(&dao_sim_bytes_backend_ops, true, config);
    program.cost_ns = kernel_ns;
}

/* The first step that follows a plan, and the one of a program that was not described. */
static void the_first_step_takes_what_later_ones_take(void)
{
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&usual, 0), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    CU_ASSERT_EQUAL(stats_now().kernel_count, 0);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK); /* what the plan begins with is there */
    uint64_t first_ns = time_step();
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 1);
    uint64_t better_ns = time_step(); /* moves tensors to where the better plan has them */
    uint64_t later_ns = 0;
    for (int i = 0; i < STEPS; i++) {
        later_ns = time_step();
    }
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, STEPS + 2);
    CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
    CU_ASSERT_EQUAL(stats_now().replan_count, 0); /* what the program and the probe said was true */
    (void)printf("    first step %" PRIu64 " ns, second %" PRIu64 ", later %" PRIu64 "\n", first_ns,
                 better_ns, later_ns);
    CU_ASSERT_TRUE((double)first_ns <= 1.05 * (double)later_ns);
    end();
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(dao_executor_step_begin(executor), DAO_OK);
    CU_ASSERT_TRUE(time_step() > first_ns);
    end();
}

/* A first plan is there at once; a better one takes its place. */
static void a_first_plan_is_bettered(void)
{
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&usual, 1), DAO_OK);
    run_usual(STEPS);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, STEPS);
    CU_ASSERT_EQUAL(stats_now().better_plan_count, IN_PAGES ? 0 : 1);
    end();
}

/* Kernels that say nothing of their times take none in the plan, until they are measured. */
static void wrong_times_are_planned_anew(void)
{
    for (uint64_t cost_ns = 0; cost_ns <= 10 * KERNEL_NS; cost_ns += 10 * KERNEL_NS) {
        begin(&dao_sim_bytes_backend_ops, true, &tight);
        program.cost_ns = cost_ns;
        CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
        run_usual(1);
        CU_ASSERT_EQUAL(stats_now().plan_hit_count, 1);
        run_usual(STEPS);
        CU_ASSERT_EQUAL(stats_now().replan_count, 1);
        CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
        end();
    }
}

/* The list that describes the step may be run itself, by its own kernels. */
static void a_list_that_was_planned_follows_it(void)
{
    enum { TENSORS = 8 };
    dao_command_list_t *list = NULL;
    dao_executor_config_t config = tight;
    uint32_t tensors[TENSORS];
    config.capacity_bytes = (TENSORS / 2) * UNIT;
    begin_with_costs(&config);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(dao_command_list_plan(list, BRIEF), DAO_OK); /* of nothing there is nothing to plan */
    for (uint32_t i = 0; i < TENSORS; i++) {
        tensors[i] = tensor(UNIT);
        CU_ASSERT_EQUAL(program_write(&program, tensors[i]), DAO_OK);
        program_kernel_t kernel = {"turn", 1, {tensors[i]}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    for (uint64_t i = 1; i <= 3; i++) {
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().plan_hit_count, i);
    }
    CU_ASSERT_EQUAL(dao_command_list_plan(list, BRIEF), DAO_OK); /* it is known, and its plan is there */
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    end();
}

/* Another step that has come before begins as the described one does, and has the same kernels. */
static void what_was_described_is_expected(void)
{
    enum { TENSORS = 8 };
    dao_executor_config_t config = tight;
    config.capacity_bytes = (TENSORS / 2) * UNIT;
    begin_with_costs(&config);
    for (int round = 0; round < 4; round++) {
        dao_command_list_t *list = NULL;
        uint32_t first = tensor(UNIT);
        CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
        for (uint32_t i = 0; i < TENSORS; i++) {
            uint32_t number = i == 0 ? first : tensor(UNIT);
            program_kernel_t kernel = {"turn", 1, {number}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
            kernel.accesses[0] = i == 0 ? DAO_ACCESS_WRITE : DAO_ACCESS_READ_WRITE;
            CU_ASSERT_TRUE(i == 0 || program_write(&program, number) == DAO_OK);
            CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
        }
        if (round > 0) {
            CU_ASSERT_EQUAL(dao_command_list_plan(list, BRIEF), DAO_OK);
        }
        CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        CU_ASSERT_EQUAL(stats_now().plan_hit_count, (uint64_t)round);
        dao_command_list_destroy(list);
    }
    end();
}

/* What is known of the link when nothing was copied yet. */
static void the_link_is_measured_first(void)
{
    for (int is_half_duplex = 0; is_half_duplex < 2; is_half_duplex++) {
        if (is_half_duplex != 0) {
            begin_on_half_duplex(&tight);
        } else {
            begin(&dao_sim_bytes_backend_ops, true, &tight);
        }
        const dao_known_links_t *links = &executor->engine.learner->links;
        CU_ASSERT_FALSE(dao_known_links_have_any(links));
        CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
        CU_ASSERT_DOUBLE_EQUAL((double)links->host.in_bytes_per_second, LINK_BYTES_PER_S,
                               1e-3 * LINK_BYTES_PER_S);
        CU_ASSERT_DOUBLE_EQUAL((double)links->host.out_bytes_per_second, LINK_BYTES_PER_S,
                               1e-3 * LINK_BYTES_PER_S);
        CU_ASSERT_EQUAL(links->host.shared_bytes_per_second != 0, is_half_duplex != 0);
        run_usual(2);
        CU_ASSERT_EQUAL(stats_now().plan_hit_count, 2);
        end();
    }
}

/* What the host may have is for tensors: the link is measured with other memory. A list changes eight of
   them, of which four fit. */
static void the_link_is_measured_beside_a_full_host(void)
{
    enum { TENSORS = 8, TENSOR_UNITS = 8 };
    dao_command_list_t *list = NULL;
    size_t size_bytes = (size_t)TENSOR_UNITS * UNIT;
    dao_executor_config_t config = {.capacity_bytes = TENSORS / 2 * size_bytes, .check = TEST_WALKS};
    config.host_bytes = TENSORS * size_bytes;
    for (uint32_t i = 0; i < LAYERS; i++) {
        config.host_bytes += (i % 3 + 2) * UNIT + 100; /* the network's weights, which nothing uses */
    }
    begin(&dao_sim_bytes_backend_ops, true, &config);
    CU_ASSERT_EQUAL_FATAL(dao_command_list_create(executor, &list), DAO_OK);
    for (uint32_t i = 0; i < TENSORS; i++) {
        uint32_t number = tensor(size_bytes);
        program_kernel_t kernel = {"turn", 1, {number}, {DAO_ACCESS_READ_WRITE}, 0, DAO_OK};
        CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
        CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(stats_now().host_used_bytes, config.host_bytes);
    CU_ASSERT_EQUAL(dao_command_list_plan(list, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    CU_ASSERT_DOUBLE_EQUAL((double)executor->engine.learner->links.host.in_bytes_per_second, LINK_BYTES_PER_S,
                           1e-3 * LINK_BYTES_PER_S);
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 1);
    dao_command_list_destroy(list);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    end();
}

/* A copy that is refused once is tried again, as those of tensors. */
static void a_copy_of_the_probe_is_tried_again(void)
{
    static const fault_config_t quiet = {.seed = 1};
    const dao_backend_ops_t *ops = fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet);
    begin(ops, true, &tight);
    fault_backend_arm(FAULT_CALL_COPY, 0, false);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(fault_backend_disarm(), 1);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    end();
    begin(ops, true, &tight);
    fault_backend_arm(FAULT_CALL_COPY, 0, true);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_ERR_COPY_FAILED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "measuring the link: copying"));
    (void)fault_backend_disarm();
    end();
}

/* Pinned tensors leave room for copies that say nothing of the link's speed. */
static void too_little_room_measures_nothing(void)
{
    dao_executor_config_t config = {.capacity_bytes = (size_t)1 * MIB, .check = TEST_WALKS};
    begin(&dao_sim_bytes_backend_ops, true, &config);
    uint32_t large = tensor((size_t)1 * MIB - 8192);
    CU_ASSERT_EQUAL(program_write(&program, large), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(program.tensors[large].handle, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_link_probe(&executor->engine, &executor->engine.learner->links), DAO_ERR_LIMIT);
    CU_ASSERT_FALSE(dao_known_links_have_any(&executor->engine.learner->links));
    end();
}

enum { FILLERS = 64 };

/* Takes all pinned memory that a limit of what there is leaves; returns the number of blocks. */
static uint32_t fill_pinned(void *blocks[FILLERS])
{
    dao_stats_t stats;
    uint32_t count = 0;
    CU_ASSERT_EQUAL(dao_stats_get(dao_pinned_place(0), &stats), DAO_OK);
    CU_ASSERT_EQUAL(dao_limit_set(dao_pinned_place(0), (size_t)stats.reserved_bytes), DAO_OK);
    for (size_t size_bytes = 64 * MIB; size_bytes >= 256 && count < FILLERS;) {
        blocks[count] = dao_alloc(dao_pinned_place(0), size_bytes);
        size_bytes /= blocks[count] == NULL ? 2 : 1;
        count += blocks[count] != NULL;
    }
    CU_ASSERT_TRUE(count < FILLERS);
    return count;
}

/* The call says which memory the copies lack, the step is learnt all the same, and the next call measures. */
static void without_pinned_memory_nothing_is_measured(void)
{
    begin_with_costs(&tight);
    const dao_known_links_t *links = &executor->engine.learner->links;
    void *blocks[FILLERS] = {NULL};
    uint32_t block_count = fill_pinned(blocks);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_ERR_HOST_FULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "no pinned memory to measure the link with"));
    CU_ASSERT_FALSE(dao_known_links_have_any(links));
    CU_ASSERT_EQUAL(stats_now().plan_count, 0);
    CU_ASSERT_EQUAL(dao_limit_set(dao_pinned_place(0), 0), DAO_OK);
    for (uint32_t i = 0; i < block_count; i++) {
        CU_ASSERT_EQUAL(dao_free(dao_pinned_place(0), blocks[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_TRUE(dao_known_links_have_any(links));
    run_usual(2);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 2);
    end();
}

static void a_step_that_goes_on_otherwise_loses_nothing(void)
{
    dao_executor_config_t config = tight;
    uint64_t deviation_count = 0;
    config.queue_kernels = 2; /* it does not tell that the step will be another one */
    for (int i = 0; i < OTHER_COUNT; i++) {
        begin_with_costs(&config);
        CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
        run_well(&others[i]);
        CU_ASSERT_EQUAL(program.mismatch_count, 0);
        CU_ASSERT_EQUAL(program_count_lost(&program), 0);
        deviation_count += stats_now().deviation_count;
        run_until_planned(&usual, 2); /* the one that was described comes after all */
        run_until_planned(&others[i], 2);
        end();
    }
    CU_ASSERT_TRUE(deviation_count >= 3);
}

/* What was said of contents that live on, and of those that do not, need not be true. */
static void a_wrong_description_loses_nothing(void)
{
    const variation_t keeps = {.keeps_activations = true};
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    for (int i = 0; i < 3; i++) {
        run_well(&keeps);
        CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    }
    end();
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&keeps, BRIEF), DAO_OK);
    run_usual(3);
    CU_ASSERT_TRUE(stats_now().plan_hit_count >= 2);
    end();
}

static void several_steps_are_planned_before_they_run(void)
{
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&usual, 1), DAO_OK); /* a better one is on its way */
    CU_ASSERT_EQUAL(plan_network(&others[1], 1), DAO_OK);
    CU_ASSERT_EQUAL(plan_network(&others[2], BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 3);
    for (uint64_t i = 0; i < 6; i++) {
        run_well(i % 3 == 0 ? &usual : &others[i % 3]);
        CU_ASSERT_EQUAL(stats_now().plan_hit_count, i + 1);
    }
    end();
}

/* Of the file's speed nothing is known yet either. */
static void what_does_not_fit_the_host_goes_to_the_file(void)
{
    dao_executor_config_t config = tight_with_file(8 * UNIT);
    begin_with_costs(&config);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    run_usual(2);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 2);
    end();
}

/* Pins a tensor that no step uses; its number. */
static uint32_t pin(size_t size_bytes)
{
    void *address = NULL;
    uint32_t number = tensor(size_bytes);
    CU_ASSERT_EQUAL(program_write(&program, number), DAO_OK);
    CU_ASSERT_EQUAL(dao_managed_pin(program.tensors[number].handle, &address), DAO_OK);
    return number;
}

/* Beside what was pinned there was no plan: without, there is one, from what is measured. */
static void a_step_that_was_not_planned_is_learnt(void)
{
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&others[1], BRIEF), DAO_OK); /* so that the link is known */
    uint32_t pinned = pin(16 * UNIT);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(executor->engine.learner->known_steps[1]->try_count, 0);
    CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[pinned].handle), DAO_OK);
    program_drop(&program, pinned);
    run_usual(4);
    CU_ASSERT_TRUE(stats_now().plan_hit_count > 0);
    end();
}

/* What is pinned takes room, unless the step uses it. */
static void what_is_pinned_leaves_less_room(void)
{
    void *address = NULL;
    dao_executor_config_t config = tight;
    config.capacity_bytes = 64 * UNIT;
    begin_with_costs(&config);
    CU_ASSERT_EQUAL(dao_managed_pin(program.tensors[network.weights[0]].handle, &address), DAO_OK);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 0);
    (void)pin(32 * UNIT);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 1);
    run_usual(1);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 1);
    end();
}

static dao_status_t leave_the_bytes(const dao_launch_t *launch, void *user)
{
    (void)launch;
    (void)user;
    return DAO_OK;
}

/* A kernel has changed some of its bytes, of which the host has the others: a plan moves whole tensors alone,
   and the host's copy is no longer one. */
static void a_pinned_tensor_of_two_halves_is_whole_in_a_plan(void)
{
    dao_managed_t *view = NULL;
    begin_with_costs(&tight);
    uint32_t pinned = pin(UNIT);
    const dao_managed_t *tensor = program.tensors[pinned].handle;
    CU_ASSERT_EQUAL_FATAL(dao_managed_view(program.tensors[pinned].handle, 16, 32, &view), DAO_OK);
    dao_operand_t operand = {view, DAO_ACCESS_READ_WRITE};
    dao_kernel_t kernel = {.launch = leave_the_bytes, .operands = &operand, .operand_count = 1};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_PARTIAL);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(executor->engine.plan);
    CU_ASSERT_EQUAL(tensor->residency, DAO_RESIDENCY_DEVICE);
    CU_ASSERT_PTR_NULL(tensor->host_address);
    run_usual(2);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, 2);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    CU_ASSERT_EQUAL(dao_managed_release(view), DAO_OK);
    end();
}

/* Describes the usual step once more, beside what is pinned now: its plan is entered, and followed. */
static void plan_again(void)
{
    uint64_t hit_count = stats_now().plan_hit_count;
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(executor->engine.plan);
    run_usual(2);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, hit_count + 2);
}

static void begin_with_a_plan(void)
{
    begin_with_costs(&tight);
    CU_ASSERT_EQUAL(plan_network(&usual, 1), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(executor->engine.learner->submitted);
}

/* Others are pinned while a better plan is looked for, after it was found, and after the step was quicker
   without. */
static void a_step_is_planned_anew_beside_other_pins(void)
{
    begin_with_a_plan();
    (void)pin(UNIT);
    plan_again();
    CU_ASSERT_EQUAL(stats_now().better_plan_count, 0); /* it was one beside other pins */
    end();
    begin_with_a_plan();
    run_well(&others[2]);
    CU_ASSERT_PTR_NOT_NULL(executor->engine.learner->known_steps[0]->new_plan);
    (void)pin(UNIT);
    plan_again();
    end();
    begin_with_a_plan();
    run_usual(2);
    executor->engine.learner->known_steps[0]->is_online = true;
    (void)pin(UNIT);
    plan_again();
    end();
}

/* A better plan is there, too, when the first one cannot be entered. */
static void a_plan_that_cannot_be_entered_is_made_anew(void)
{
    static const fault_config_t quiet = {.seed = 1};
    begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet), true, &tight);
    program.cost_ns = KERNEL_NS;
    CU_ASSERT_EQUAL(plan_network(&usual, 1), DAO_OK);
    run_well(&others[2]);
    CU_ASSERT_PTR_NOT_NULL(executor->engine.learner->known_steps[0]->new_plan);
    fault_backend_arm(FAULT_CALL_COPY, 0, true);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_ERR_COPY_FAILED);
    (void)fault_backend_disarm();
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    plan_again();
    end();
}

static void what_cannot_be_planned_is_said(void)
{
    dao_executor_config_t config = tight;
    config.capacity_bytes = 4 * MIB; /* all of it has a place */
    begin_with_costs(&config);
    CU_ASSERT_EQUAL(plan_network(&usual, BRIEF), DAO_OK);
    CU_ASSERT_EQUAL(stats_now().plan_count, 0);
    CU_ASSERT_EQUAL(stats_now().in_bytes, 0);
    run_usual(2);
    CU_ASSERT_EQUAL(program_push(&program, &(program_kernel_t){"bad", 0, {0}, {0}, 0, DAO_ERR_INVALID}),
                    DAO_OK);
    CU_ASSERT_EQUAL(plan_network(&usual, 0), DAO_ERR_BUSY); /* the failure comes first */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_command_list_plan"));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_ERR_KERNEL_FAILED);
    CU_ASSERT_EQUAL(dao_command_list_plan(NULL, 0), DAO_ERR_INVALID);
    end();
    config = tight;
    config.capacity_bytes = 6 * UNIT; /* less than one kernel needs */
    begin_with_costs(&config);
    CU_ASSERT_EQUAL(plan_network(&usual, 0), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(stats_now().plan_count, 0);
    end();
    config = tight;
    config.without_plans = true;
    begin_with_costs(&config);
    CU_ASSERT_EQUAL(plan_network(&usual, 0), DAO_ERR_UNSUPPORTED);
    run_usual(2);
    end();
}

/* ---- what fails ---- */

#if defined(DAO_FAULTS)
/* Without memory at any moment the call says so, or has no plan, or has one; the step runs. */
static void a_plan_without_memory_harms_nothing(void)
{
    bool has_failed = true;
    for (uint64_t n = 0; has_failed; n += FAIL_EVERY) {
        begin_with_costs(&tight);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = plan_network(&usual, BRIEF);
        has_failed = dao_fault_disarm() > 0;
        CU_ASSERT_TRUE(status == DAO_OK ||
                       (has_failed && (status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_COPY_FAILED)));
        run_usual(2);
        CU_ASSERT_EQUAL(program.mismatch_count, 0);
        end();
    }
}
#endif

/* A copy that measures the link, or takes tensors to where the plan begins, is refused. */
static void refused_calls_lose_nothing(void)
{
    static const fault_call_t calls[] = {FAULT_CALL_COPY, FAULT_CALL_STREAM_WAIT_EVENT,
                                         FAULT_CALL_EVENT_RECORD, FAULT_CALL_PINNED_ALLOC};
    static const fault_config_t quiet = {.seed = 1};
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++) {
        bool has_failed = true;
        for (uint64_t n = 0; has_failed && n < 40; n += FAIL_EVERY) {
            begin(fault_backend_wrap(&dao_sim_bytes_backend_ops, &quiet), true, &tight);
            fault_backend_arm(calls[c], n, n % 2 == 0);
            dao_status_t status = plan_network(&usual, BRIEF);
            has_failed = fault_backend_fired_count() > 0;
            (void)fault_backend_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || has_failed);
            CU_ASSERT_NOT_EQUAL(dao_executor_sync(executor), DAO_ERR_DEVICE_LOST);
            run_usual(2);
            CU_ASSERT_EQUAL(program.mismatch_count, 0);
            end();
            CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
        }
    }
}

/* ---- random steps ---- */

static uint64_t state;

static uint64_t below(uint64_t limit)
{
    return dao_random_next(&state) % limit;
}

static variation_t random_variation(void)
{
    return (variation_t){.kernel_left_out = (uint32_t)below(LAYERS + 1),
                         .kernels_swapped = (uint32_t)below(LAYERS + 1),
                         .layer_count = below(2) == 0 ? 0 : 2 + (uint32_t)below(LAYERS - 1),
                         .keeps_activations = below(3) == 0};
}

/* Steps that were described, such that were not, and some of which half was said. */
static void run_random_steps(const dao_backend_ops_t *ops, bool is_still)
{
    dao_executor_config_t config = below(2) == 0 ? tight : tight_with_file(1 + (size_t)below(40) * UNIT);
    config.capacity_bytes = (12 + (size_t)below(24)) * UNIT;
    config.queue_kernels = 1 + (uint32_t)below(40);
    begin(ops, is_still, &config);
    program.cost_ns = below(2) * KERNEL_NS;
    variation_t variation = usual;
    for (int i = 0; i < 12; i++) {
        variation = below(2) == 0 ? random_variation() : variation;
        if (below(2) == 0) {
            dao_status_t status = plan_network(&variation, below(4) == 0 ? 1 : BRIEF);
            CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_HOST_FULL || status == DAO_ERR_LIMIT);
        }
        if (below(3) == 0) {
            CU_ASSERT_EQUAL(program_write(&program, network.weights[below(LAYERS)]), DAO_OK);
        }
        run_well(&variation);
    }
    end();
}

static void random_steps_in_virtual_time(void)
{
    uint64_t seed = dao_test_seed("random steps", 600);
    for (uint64_t i = 0; i < VIRTUAL_SEEDS && program.mismatch_count == 0; i++) {
        state = seed + i;
        run_random_steps(&dao_sim_bytes_backend_ops, true);
    }
}

static void random_steps_on_threads(void)
{
    uint64_t seed = dao_test_seed("random steps on threads", 700);
    for (uint64_t i = 0; i < THREAD_SEEDS && program.mismatch_count == 0; i++) {
        fault_config_t delays = {
            .seed = seed + i, .delay_ns_max = i % 2 == 0 ? 0 : 20000, .not_ready_max = 2};
        state = seed + i;
        run_random_steps(fault_backend_wrap(dao_backend_ops(), &delays), false);
        CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    }
}

static CU_TestInfo tests[] = {
    {"the first step takes what later ones take", the_first_step_takes_what_later_ones_take},
    {"a first plan is bettered", a_first_plan_is_bettered},
    {"wrong times are planned anew", wrong_times_are_planned_anew},
    {"a list that was planned follows it", a_list_that_was_planned_follows_it},
    {"what was described is expected", what_was_described_is_expected},
    {"the link is measured first", the_link_is_measured_first},
    {"the link is measured beside a full host", the_link_is_measured_beside_a_full_host},
    {"a copy of the probe is tried again", a_copy_of_the_probe_is_tried_again},
    {"too little room measures nothing", too_little_room_measures_nothing},
    {"without pinned memory nothing is measured", without_pinned_memory_nothing_is_measured},
    {"a step that goes on otherwise loses nothing", a_step_that_goes_on_otherwise_loses_nothing},
    {"a wrong description loses nothing", a_wrong_description_loses_nothing},
    {"several steps are planned before they run", several_steps_are_planned_before_they_run},
    {"what does not fit the host goes to the file", what_does_not_fit_the_host_goes_to_the_file},
    {"a step that was not planned is learnt", a_step_that_was_not_planned_is_learnt},
    {"what is pinned leaves less room", what_is_pinned_leaves_less_room},
    {"a pinned tensor of two halves is whole in a plan", a_pinned_tensor_of_two_halves_is_whole_in_a_plan},
    {"a step is planned anew beside other pins", a_step_is_planned_anew_beside_other_pins},
    {"a plan that cannot be entered is made anew", a_plan_that_cannot_be_entered_is_made_anew},
    {"what cannot be planned is said", what_cannot_be_planned_is_said},
#if defined(DAO_FAULTS)
    {"a plan without memory harms nothing", a_plan_without_memory_harms_nothing},
#endif
    {"refused calls lose nothing", refused_calls_lose_nothing},
    {"random steps in virtual time", random_steps_in_virtual_time},
    {"random steps on threads", random_steps_on_threads},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"steps planned before they run", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
