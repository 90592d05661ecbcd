/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels on several compute streams, of the executor's and of the program's: which of them wait for which,
   that nothing moves under one that still runs, and what becomes of steps and plans. Contents are checked by
   random programs on several streams in test_executor_random.c, and failing calls in test_executor_faults.c.
 */
#include "runtime/executor/learned/step_learner.h"
#include "runtime/start/context.h"
#include "tests/runtime/executor/planned_network.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <dao/command_list.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

/* ---- who waits for whom ---- */

/* Whose the compute streams are. */
typedef enum owner { EXECUTORS, MADE, ADOPTED } owner_t;

static owner_t owner = EXECUTORS;
static dao_stream_t *made[2], *given[2];
static dao_gate_t gate;

static dao_status_t launch_gate(const dao_launch_t *launch, void *user)
{
    return device_gate(launch->stream, user);
}

/* Pushes a kernel for a stream that ends only once the gate is open. */
static void hold(uint32_t stream_index, uint32_t tensor, dao_access_t access)
{
    dao_operand_t operand = {program.tensors[tensor].handle, access};
    dao_kernel_t kernel = {.name = "hold",
                           .launch = launch_gate,
                           .user = &gate,
                           .operands = &operand,
                           .operand_count = 1,
                           .stream_index = stream_index};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
}

static void use(uint32_t stream_index, uint32_t tensor, dao_access_t access)
{
    program_kernel_t kernel = {.name = "use", .operand_count = 1, .tensors = {tensor}, .accesses = {access}};
    program.stream_index = stream_index;
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_OK);
    program.stream_index = 0;
}

/* Has the executor queue all that was pushed: a request that is refused behind it, while the device may be
   held up. */
static void run_host(void)
{
    CU_ASSERT_EQUAL(dao_managed_unpin(program.tensors[0].handle), DAO_ERR_INVALID);
}

static const dao_timeline_stream_t *stream_of(uint32_t stream_index)
{
    return &executor->engine.timeline.streams[dao_timeline_compute(stream_index)];
}

static dao_stream_t *compute_stream(uint32_t stream_index)
{
    return stream_index == 0 ? executor->streams[DAO_STREAM_ROLE_COMPUTE]
                             : executor->more_streams[stream_index];
}

/* The latest operation of another stream that a stream waits for; 0: none. */
static uint64_t waited(uint32_t stream_index, uint32_t other)
{
    return stream_of(stream_index)->waited[dao_timeline_compute(other)];
}

static void make_streams(void)
{
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &made[i]), DAO_OK);
        given[i] = made[i];
        if (owner == ADOPTED) {
            CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, dao_stream_native(made[i]), &given[i]), DAO_OK);
        }
    }
}

static void destroy_streams(void)
{
    for (int i = 0; i < 2; i++) {
        if (given[i] != made[i]) {
            dao_stream_destroy(given[i]);
        }
        dao_stream_destroy(made[i]);
        made[i] = given[i] = NULL;
    }
}

/* A still executor of two streams with so much room, and tensors that have contents on the device. */
static void begin_two(size_t units, uint32_t tensor_count)
{
    dao_config_t cpu = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_executor_config_t config = {
        .capacity_bytes = units * UNIT, .stream_count = 2, .policy = DAO_POLICY_LRU, .check = true};
    CU_ASSERT_EQUAL_FATAL(dao_init(&cpu), DAO_OK);
    if (owner != EXECUTORS) {
        make_streams();
        config.streams = given;
    }
    CU_ASSERT_EQUAL_FATAL(dao_executor_create_still(&config, &executor), DAO_OK);
    for (uint32_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(owner == EXECUTORS, compute_stream(i) != given[i]);
    }
    program_init(&program, executor);
    dao_gate_init(&gate);
    for (uint32_t i = 0; i < tensor_count; i++) {
        CU_ASSERT_EQUAL_FATAL(program_tensor(&program, UNIT), i);
        use(0, i, W);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

static void end_two(void)
{
    dao_gate_open(&gate);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    dao_gate_finish(&gate);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program_count_lost(&program), 0);
    program_drop_all(&program);
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    destroy_streams();
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_kernel_waits_for_what_it_shares(void)
{
    static const struct {
        dao_access_t first, then;
        bool waits;
    } cases[] = {{W, R, true}, {R, W, true}, {W, W, true}, {RW, R, true}, {R, RW, true}, {R, R, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (uint32_t first = 0; first < 2; first++) {
            begin_two(4, 3);
            hold(first, 1, cases[i].first);
            use(1 - first, 1, cases[i].then);
            run_host();
            CU_ASSERT_EQUAL(waited(1 - first, first), cases[i].waits ? stream_of(first)->issued : 0);
            CU_ASSERT_EQUAL(waited(first, 1 - first), 0);
            end_two();
        }
    }
}

/* The second stream comes to its end while the first one is held up. */
static void kernels_that_share_nothing_run_beside_each_other(void)
{
    begin_two(4, 3);
    hold(0, 1, RW);
    for (int i = 0; i < 3; i++) {
        use(1, 2, RW);
    }
    run_host();
    CU_ASSERT_EQUAL(waited(1, 0), 0);
    CU_ASSERT_EQUAL(dao_stream_synchronize(compute_stream(1)), DAO_OK);
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    CU_ASSERT_EQUAL(program.read_count, 3);
    end_two();
}

/* What takes the place of a tensor waits for the stream that used it last: the copy that brings another one,
   or the kernel that writes one there. */
static void memory_is_taken_behind_its_last_use(void)
{
    for (int is_written = 0; is_written < 2; is_written++) {
        begin_two(2, 4); /* the last two are on the device */
        hold(1, 2, R);
        use(0, 3, R);
        use(0, 0, is_written ? W : R);
        run_host();
        const dao_timeline_stream_t *copies = &executor->engine.timeline.streams[DAO_STREAM_ROLE_H2D];
        uint64_t held = stream_of(1)->issued;
        CU_ASSERT_EQUAL(program_stats(&program).eviction_count, 3);
        CU_ASSERT_FALSE(program.tensors[2].handle->has_device);
        CU_ASSERT_EQUAL(is_written ? waited(0, 1) : copies->waited[dao_timeline_compute(1)], held);
        end_two();
    }
}

/* Nothing is queued then, and the program keeps what it pushed. */
static void streams_that_are_not_there_are_refused(void)
{
    dao_executor_t *none = NULL;
    dao_command_list_t *list = NULL;
    begin_two(4, 1);
    dao_executor_config_t config = {.capacity_bytes = UNIT,
                                    .stream_count = DAO_EXECUTOR_STREAM_COUNT_MAX + 1};
    CU_ASSERT_EQUAL(dao_executor_create(&config, &none), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "at most 4 compute streams"));
    program_kernel_t kernel = {.name = "stray", .operand_count = 1, .tensors = {0}, .accesses = {R}};
    program.stream_index = 2;
    CU_ASSERT_EQUAL(program_push(&program, &kernel), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "\"stray\": the stream is 2, and the executor has 2"));
    CU_ASSERT_EQUAL(dao_command_list_create(executor, &list), DAO_OK);
    CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_ERR_INVALID);
    program.stream_index = 1;
    CU_ASSERT_EQUAL(program_list_push(&program, list, &kernel), DAO_OK);
    program.stream_index = 0;
    CU_ASSERT_EQUAL(dao_command_list_run(list), DAO_OK);
    run_host();
    CU_ASSERT_EQUAL(stream_of(1)->issued, 1);
    CU_ASSERT_EQUAL(program.open_count, 1); /* the list's */
    dao_command_list_destroy(list);
    end_two();
}

/* ---- streams of the program's ---- */

static void the_same_holds_on_the_programs_streams(void)
{
    for (owner = MADE; owner <= ADOPTED; owner++) {
        a_kernel_waits_for_what_it_shares();
        kernels_that_share_nothing_run_beside_each_other();
        memory_is_taken_behind_its_last_use();
        streams_that_are_not_there_are_refused();
    }
    owner = EXECUTORS;
}

/* The executor waits for its own work alone: a sync answers while the program's is held up behind it. */
static void kernels_run_between_the_programs_own_work(void)
{
    for (owner = MADE; owner <= ADOPTED; owner++) {
        begin_two(4, 3);
        CU_ASSERT_EQUAL(device_gate(given[1], &gate), DAO_OK);
        use(0, 1, RW);
        use(1, 2, RW);
        run_host();
        CU_ASSERT_EQUAL(dao_stream_synchronize(given[0]), DAO_OK);
        CU_ASSERT_EQUAL(stream_of(1)->completed + 1, stream_of(1)->issued);
        CU_ASSERT_EQUAL(dao_timeline_poll(&executor->engine.timeline), DAO_OK);
        CU_ASSERT_EQUAL(stream_of(1)->completed + 1, stream_of(1)->issued); /* behind the program's work */
        dao_gate_open(&gate);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        dao_gate_finish(&gate);
        dao_gate_init(&gate);
        CU_ASSERT_EQUAL(device_gate(given[1], &gate), DAO_OK);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        dao_gate_open(&gate);
        CU_ASSERT_EQUAL(dao_stream_synchronize(given[1]), DAO_OK);
        end_two();
    }
    owner = EXECUTORS;
}

/* An entry that is NULL is one of the executor's own. */
static void streams_of_both_are_side_by_side(void)
{
    dao_executor_t *mixed = NULL;
    owner = ADOPTED;
    begin_two(4, 1);
    dao_stream_t *const streams[] = {NULL, given[0], NULL};
    dao_executor_config_t config = {.capacity_bytes = UNIT, .stream_count = 3, .streams = streams};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &mixed), DAO_OK);
    CU_ASSERT_PTR_EQUAL(mixed->more_streams[1], given[0]);
    CU_ASSERT_PTR_NOT_NULL(mixed->streams[DAO_STREAM_ROLE_COMPUTE]);
    CU_ASSERT_PTR_NOT_NULL(mixed->more_streams[2]);
    CU_ASSERT_EQUAL(dao_executor_destroy(mixed), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(given[0]), DAO_OK); /* it is still the program's */
    end_two();
    owner = EXECUTORS;
}

/* What the program gives up the executor keeps. */
static void the_program_destroys_its_streams_first(void)
{
    for (owner = MADE; owner <= ADOPTED; owner++) {
        begin_two(2, 3);
        for (int i = 0; i < 2; i++) {
            dao_stream_destroy(given[i]);
            given[i] = owner == ADOPTED ? made[i] : NULL;
            made[i] = given[i];
        }
        use(0, 0, RW);
        use(1, 2, RW);
        use(1, 0, RW);
        CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
        end_two();
    }
    owner = EXECUTORS;
}

/* ---- steps ---- */

static const variation_t two_streams = {.update_stream = 1};

static dao_executor_config_t with_streams(size_t units)
{
    dao_executor_config_t config = tight;
    config.capacity_bytes = units * UNIT;
    config.stream_count = 2;
    return config;
}

static void a_step_of_two_streams_is_planned_and_followed(void)
{
    dao_executor_config_t config = with_streams(22);
    begin(&dao_sim_bytes_backend_ops, true, &config);
    run_until_planned(&two_streams, STEPS);
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_EQUAL(stats.deviation_count + stats.unplanned_count, 0);
    CU_ASSERT_EQUAL(stats.plan_count, 1);
    CU_ASSERT_EQUAL(executor->engine.learner->known_step_count, 1);
    const dao_compiled_plan_t *plan = executor->engine.plan;
    CU_ASSERT_PTR_NOT_NULL_FATAL(plan);
    CU_ASSERT_EQUAL(plan->order.lane_counts[0], 2 * LAYERS);
    CU_ASSERT_EQUAL(plan->order.lane_counts[DAO_ISSUE_ORDER_STREAM_COUNT], LAYERS);
    end();
}

/* Before it has run; then it is followed from the first step on. */
static void a_described_step_of_two_streams_is_planned(void)
{
    dao_executor_config_t config = with_streams(22);
    begin(&dao_sim_bytes_backend_ops, true, &config);
    CU_ASSERT_EQUAL(plan_network(&two_streams, 1), DAO_OK);
    run_until_planned(&two_streams, STEPS);
    CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
    end();
}

/* A measured step is that of the slowest stream, and no quicker than its bound; every kernel has its time. */
static void a_step_of_two_streams_is_measured(void)
{
    dao_executor_config_t config = with_streams(22);
    begin(&dao_sim_bytes_backend_ops, true, &config);
    run_until_planned(&two_streams, STEPS);
    const dao_known_step_t *known = executor->engine.learner->known_steps[0];
    CU_ASSERT_EQUAL_FATAL(known->log.kernel_count, 3 * LAYERS);
    for (uint32_t k = 0; k < known->log.kernel_count; k++) {
        CU_ASSERT_EQUAL(known->kernel_ns[k], kernel_ns);
    }
    dao_executor_stats_t stats = stats_now();
    CU_ASSERT_TRUE(stats.measured_step_count > 0 && stats.bound_ns > 0);
    CU_ASSERT_TRUE(stats.forecast_ns >= stats.bound_ns);
    CU_ASSERT_EQUAL(known->plan->basis.compute_ns, 3 * LAYERS * kernel_ns);
    end();
}

static void without_copies_there_is_no_plan_of_two_streams(void)
{
    dao_executor_config_t config = with_streams(22);
    begin(&dao_sim_bytes_backend_ops, true, &config);
    executor->engine.config.recompute_mode = DAO_RECOMPUTE_MODE_ONLY;
    for (int i = 0; i < STEPS; i++) {
        run_well(&two_streams);
    }
    CU_ASSERT_EQUAL(stats_now().plan_count, 0);
    CU_ASSERT_EQUAL(stats_now().unplanned_count,
                    STEPS - 1); /* the first one ends where the program says so */
    CU_ASSERT_EQUAL(plan_network(&two_streams, 1), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "one compute stream"));
    run_well(&two_streams);
    end();
}

/* A step that goes on with another stream leaves the plan there, also while it is measured. */
static void a_plan_is_left_for_another_stream(void)
{
    dao_executor_config_t config = with_streams(22);
    config.queue_kernels = 2; /* so that it is not seen before */
    begin(&dao_sim_bytes_backend_ops, true, &config);
    run_until_planned(&usual, 2);
    uint64_t hits = stats_now().plan_hit_count;
    CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
    run_well(&two_streams);
    CU_ASSERT_EQUAL(stats_now().deviation_count, 1);
    CU_ASSERT_EQUAL(stats_now().plan_hit_count, hits);
    for (int i = 0; i < STEPS; i++) {
        run_until_planned(&usual, 1);
        run_until_planned(&two_streams, 1);
    }
    CU_ASSERT_EQUAL(stats_now().plan_count, 2);
    end();
}

static void the_capacity_changes_between_streams(void)
{
    dao_executor_config_t config = with_streams(22);
    begin(dao_backend_ops(), false, &config);
    for (size_t i = 0; i < STEPS; i++) {
        run_well(i % 3 == 0 ? &usual : &two_streams);
        CU_ASSERT_EQUAL(dao_executor_capacity_set(executor, (16 + i * 5 % 12) * UNIT), DAO_OK);
    }
    CU_ASSERT_EQUAL(program.mismatch_count, 0);
    end();
}

/* Stream 0 is the program's: steps are measured, planned and followed there as on one of the executor's. */
static void a_step_on_the_programs_stream_is_planned(void)
{
    gives_stream = true;
    begin(&dao_sim_bytes_backend_ops, true, &tight);
    CU_ASSERT_EQUAL(executor->given_streams, 1);
    run_until_planned(&usual, STEPS);
    CU_ASSERT_EQUAL(stats_now().deviation_count, 0);
    end();
    gives_stream = false;
}

/* Of a step in virtual time, with everything on the device. */
static uint64_t step_ns_of(const variation_t *variation)
{
    enum { ROOM = 200 };
    dao_executor_config_t config = with_streams(ROOM);
    config.without_plans = true;
    begin(&dao_sim_bytes_backend_ops, true, &config);
    run_well(variation);
    uint64_t begin_ns = dao_sim_now_ns(executor->runtime->device);
    for (int i = 0; i < STEPS; i++) {
        run_well(variation);
    }
    uint64_t taken_ns = (dao_sim_now_ns(executor->runtime->device) - begin_ns) / STEPS;
    CU_ASSERT_EQUAL(stats_now().eviction_count, 0);
    end();
    return taken_ns;
}

/* All updates but the last one run beside the backward kernels of other layers: the memory that one stream
   gives back does not tie the other to it. */
static void streams_overlap(void)
{
    uint64_t one_ns = step_ns_of(&usual), two_ns = step_ns_of(&two_streams);
    (void)printf("    step: %" PRIu64 " ns on one stream, %" PRIu64 " ns on two\n", one_ns, two_ns);
    CU_ASSERT_TRUE(two_ns + (LAYERS - 1) * KERNEL_NS <= one_ns);
}

static CU_TestInfo tests[] = {

    {"a kernel waits for what it shares", a_kernel_waits_for_what_it_shares},
    {"kernels that share nothing run beside each other", kernels_that_share_nothing_run_beside_each_other},
    {"memory is taken behind its last use", memory_is_taken_behind_its_last_use},
    {"streams that are not there are refused", streams_that_are_not_there_are_refused},
    {"the same holds on the program's streams", the_same_holds_on_the_programs_streams},
    {"kernels run between the program's own work", kernels_run_between_the_programs_own_work},
    {"streams of both are side by side", streams_of_both_are_side_by_side},
    {"the program destroys its streams first", the_program_destroys_its_streams_first},
    {"a step on the program's stream is planned", a_step_on_the_programs_stream_is_planned},
    {"a step of two streams is planned and followed", a_step_of_two_streams_is_planned_and_followed},
    {"a described step of two streams is planned", a_described_step_of_two_streams_is_planned},
    {"a step of two streams is measured", a_step_of_two_streams_is_measured},
    {"without copies there is no plan of two streams", without_copies_there_is_no_plan_of_two_streams},
    {"a plan is left for another stream", a_plan_is_left_for_another_stream},
    {"the capacity changes between streams", the_capacity_changes_between_streams},
    {"streams overlap", streams_overlap},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor streams", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
