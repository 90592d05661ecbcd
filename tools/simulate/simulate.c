/* SPDX-License-Identifier: Apache-2.0 */
/* A step through the executor in virtual time:

       for each step: push kernel, release what it was the last to use ... -> still executor -> sim backend
                                                                                                   |
                                                              spans of kernels and copies <--------+ as they
                                                              end

   The executor has no thread: a push that finds its queue full runs the oldest kernel, so that it always
   knows as many kernels ahead as its queue holds, and every run is the same. */
#include "tools/simulate/simulate.h"

#include "allocators/range/range.h"
#include "allocators/range/space.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/units.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/step/swap_tier.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/start/context.h"
#include "tools/base/grow.h"
#include "tools/run/play_plan.h"

#include <inttypes.h>

typedef struct simulator {
    const dao_swap_problem_t *problem;
    const dao_step_trace_t *trace; /* NULL: kernels have no names */
    const uint32_t *streams;       /* of each kernel; NULL: as the problem has them */
    uint32_t stream_count;
    const dao_backend_stream_t *backends[DAO_EXECUTOR_STREAM_COUNT_MAX]; /* the compute streams */
    uint32_t due[DAO_EXECUTOR_STREAM_COUNT_MAX]; /* of each: which of its kernels ends next, of all steps */
    uint32_t step_count;
    uint32_t warm_up_count;
    bool learns;
    dao_command_list_t *list; /* the step is described; NULL: it is pushed */
    uint64_t begin_ns;        /* of the first step */
    dao_executor_t *executor;
    dao_managed_t **tensors; /* those that are alive */
    uint32_t *last_kernels;  /* of each tensor: the last kernel that uses it */
    dao_operand_t *operands; /* of the kernel that is being pushed */
    dao_simulation_t *result;
    dao_status_t span_status; /* the first failure to keep a span */
} simulator_t;

/* ---- what happens in virtual time ---- */

static uint32_t stream_of(const simulator_t *simulator, size_t run)
{
    size_t kernel = run % simulator->problem->kernel_count;
    return simulator->streams != NULL ? simulator->streams[kernel]
                                      : simulator->problem->kernels[kernel].stream;
}

/* Makes room for the kernels of all steps; a stream's are those of its compute stream, in their order. */
static dao_status_t expect_kernels(simulator_t *simulator)
{
    dao_simulation_t *result = simulator->result;
    size_t count = (size_t)simulator->problem->kernel_count * (simulator->step_count + 1);
    result->kernels = dao_host_calloc(count, sizeof(*result->kernels));
    if (result->kernels == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times of %zu kernels", count);
    }
    result->kernel_capacity = count;
    for (uint32_t i = 0; i < simulator->stream_count; i++) {
        while (stream_of(simulator, simulator->due[i]) != i) {
            simulator->due[i]++;
        }
    }
    return DAO_OK;
}

/* Returns the place of a kernel that has ended: its stream runs its kernels in their order. */
static dao_sim_span_t *kernel_slot(simulator_t *simulator, const dao_backend_stream_t *backend)
{
    uint32_t stream = 0;
    while (simulator->backends[stream] != backend) {
        stream++;
        DAO_ASSERT(stream < simulator->stream_count);
    }
    uint32_t *due = &simulator->due[stream];
    DAO_ASSERT(*due < simulator->result->kernel_capacity);
    dao_sim_span_t *slot = &simulator->result->kernels[(*due)++];
    while (stream_of(simulator, *due) != stream) {
        (*due)++;
    }
    simulator->result->kernel_count++;
    return slot;
}

static dao_sim_span_t *copy_slot(simulator_t *simulator)
{
    dao_simulation_t *result = simulator->result;
    dao_sim_span_t *grown =
        dao_tool_grow(result->copies, &result->copy_capacity, result->copy_count, sizeof(*result->copies));
    if (grown == NULL) {
        simulator->span_status = DAO_ERR_NO_HOST_MEMORY;
        return NULL;
    }
    result->copies = grown;
    return &grown[result->copy_count++];
}

static void keep_span(const dao_sim_span_t *span, void *user)
{
    simulator_t *simulator = user;
    dao_sim_span_t *slot =
        span->kind == DAO_SIM_SPAN_WORK ? kernel_slot(simulator, span->stream) : copy_slot(simulator);
    if (slot != NULL) {
        *slot = *span;
        slot->begin_ns -= simulator->begin_ns;
        slot->end_ns -= simulator->begin_ns;
    }
}

static dao_status_t launch_kernel(const dao_launch_t *launch, void *user)
{
    const dao_swap_kernel_t *kernel = user;
    return dao_sim_stream_work(launch->stream->backend, kernel->time_ns);
}

/* ---- pushing ---- */

/* The backend's memory has no bytes, so that none are read from here. */
static const char no_bytes;

static dao_status_t create_tensor(simulator_t *simulator, uint32_t index)
{
    const dao_swap_tensor_t *tensor = &simulator->problem->tensors[index];
    dao_managed_config_t settings = {.size_bytes = tensor->size_bytes};
    return dao_managed_create(simulator->executor, &settings, &simulator->tensors[index]);
}

static dao_status_t create_persistent_tensors(simulator_t *simulator)
{
    const dao_swap_problem_t *problem = simulator->problem;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < problem->tensor_count; i++) {
        if (problem->tensors[i].is_persistent) {
            status = create_tensor(simulator, i);
            status = status == DAO_OK
                         ? dao_managed_write(simulator->tensors[i], &no_bytes, problem->tensors[i].size_bytes)
                         : status;
        }
    }
    return status;
}

static dao_status_t push_kernel(simulator_t *simulator, uint32_t index)
{
    const dao_swap_kernel_t *kernel = &simulator->problem->kernels[index];
    for (uint32_t i = 0; i < kernel->use_count; i++) {
        uint32_t tensor = kernel->uses[i].tensor;
        dao_status_t status = simulator->tensors[tensor] == NULL ? create_tensor(simulator, tensor) : DAO_OK;
        if (status != DAO_OK) {
            return status;
        }
        simulator->operands[i] = (dao_operand_t){simulator->tensors[tensor], kernel->uses[i].access};
    }
    dao_kernel_t pushed = {
        .cost_ns = kernel->time_ns,
        .name = simulator->trace != NULL ? dao_trace_operator_name(simulator->trace, index) : NULL,
        .launch = launch_kernel,
        .user = (void *)(uintptr_t)kernel, /* it is only read */
        .operands = simulator->operands,
        .operand_count = kernel->use_count,
        .workspace_bytes = kernel->workspace_bytes,
        .stream_index = stream_of(simulator, index),
    };
    return simulator->list != NULL ? dao_command_list_push(simulator->list, &pushed)
                                   : dao_executor_push(simulator->executor, &pushed);
}

static dao_status_t release_last_used(simulator_t *simulator, uint32_t index)
{
    const dao_swap_problem_t *problem = simulator->problem;
    const dao_swap_kernel_t *kernel = &problem->kernels[index];
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < kernel->use_count; i++) {
        uint32_t tensor = kernel->uses[i].tensor;
        bool is_over = simulator->last_kernels[tensor] == index && !problem->tensors[tensor].is_persistent;
        if (is_over && simulator->list != NULL) {
            status = dao_command_list_discard(simulator->list, simulator->tensors[tensor]);
        } else if (is_over) {
            status = dao_managed_release(simulator->tensors[tensor]);
            simulator->tensors[tensor] = NULL;
        }
    }
    return status;
}

static dao_status_t push_step(simulator_t *simulator)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < simulator->problem->kernel_count; i++) {
        status = push_kernel(simulator, i);
        status = status == DAO_OK ? release_last_used(simulator, i) : status;
    }
    return status;
}

/* Tells the executor the step, which has not run: its plan is there with the first one. */
static dao_status_t describe_step(simulator_t *simulator)
{
    const dao_swap_problem_t *problem = simulator->problem;
    dao_status_t status = dao_command_list_create(simulator->executor, &simulator->list);
    status = status == DAO_OK ? push_step(simulator) : status;
    status = status == DAO_OK ? dao_command_list_plan(simulator->list, 0) : status;
    dao_command_list_destroy(simulator->list);
    simulator->list = NULL;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        if (!problem->tensors[i].is_persistent) {
            (void)dao_managed_release(simulator->tensors[i]); /* NULL or ours */
            simulator->tensors[i] = NULL;
        }
    }
    return status;
}

static dao_status_t run_steps(simulator_t *simulator)
{
    dao_status_t status = simulator->learns ? dao_executor_step_begin(simulator->executor) : DAO_OK;
    for (uint32_t step = 0; status == DAO_OK && step <= simulator->step_count; step++) {
        status = push_step(simulator);
        if (status == DAO_OK && simulator->learns) {
            status = dao_executor_step_end(simulator->executor);
        }
    }
    dao_status_t sync_status = dao_executor_sync(simulator->executor);
    status = sync_status != DAO_OK ? sync_status : status;
    return status == DAO_OK ? simulator->span_status : status;
}

/* What is there before the first step gets to where it is; with a file tier that takes time. */
static dao_status_t begin_steps(simulator_t *simulator, bool is_described, dao_backend_device_t *device)
{
    dao_status_t status = create_persistent_tensors(simulator);
    status = status == DAO_OK && is_described ? describe_step(simulator) : status;
    if (status == DAO_OK) {
        status = dao_executor_sync(simulator->executor);
    }
    simulator->begin_ns = dao_sim_now_ns(device);
    dao_sim_span_callback_set(device, keep_span, simulator);
    return status;
}

/* ---- what comes out ---- */

/* When a stream's kernels of a step have ended. */
static uint64_t end_of_step(const simulator_t *simulator, uint32_t stream, uint32_t step)
{
    size_t run = (size_t)(step + 1) * simulator->problem->kernel_count - 1;
    while (stream_of(simulator, run) != stream) {
        run--;
    }
    return simulator->result->kernels[run].end_ns;
}

static void sum_up(simulator_t *simulator)
{
    const dao_swap_problem_t *problem = simulator->problem;
    dao_simulation_t *result = simulator->result;
    uint32_t count = problem->kernel_count;
    uint32_t steps = simulator->step_count;
    uint32_t warm = steps > simulator->warm_up_count ? simulator->warm_up_count : steps - 1;
    uint64_t begin_ns = 0, end_ns = 0; /* of the stream whose steps take longest: others may be ahead of it */
    result->step_count = steps;
    for (uint32_t i = 0; i < simulator->stream_count; i++) {
        uint64_t first_ns = end_of_step(simulator, i, 0), last_ns = end_of_step(simulator, i, steps - 1);
        uint64_t warm_ns = warm > 0 ? end_of_step(simulator, i, warm - 1) : 0;
        result->first_step_ns = first_ns > result->first_step_ns ? first_ns : result->first_step_ns;
        if (i == 0 || last_ns - warm_ns > end_ns - begin_ns) {
            begin_ns = warm_ns;
            end_ns = last_ns;
        }
    }
    result->step_ns = (end_ns - begin_ns) / (steps - warm);
    for (size_t i = 0; i < result->copy_count; i++) {
        const dao_sim_span_t *copy = &result->copies[i];
        if (copy->kind != DAO_SIM_SPAN_DELAY && copy->end_ns > begin_ns && copy->end_ns <= end_ns) {
            *(copy->kind == DAO_SIM_SPAN_IN ? &result->in_bytes : &result->out_bytes) += copy->size_bytes;
        }
    }
    result->in_bytes /= steps - warm;
    result->out_bytes /= steps - warm;
    for (uint32_t i = 0; i < count; i++) {
        result->compute_ns += problem->kernels[i].time_ns;
    }
}

/* ---- the run ---- */

static dao_status_t start_context(const dao_swap_problem_t *problem)
{
    const dao_swap_tier_t *host = &problem->host;
    dao_config_t settings = {
        .cpu = {.device_count = 1,
                .device_bytes = dao_round_up(problem->capacity_bytes, DAO_PAGE_BYTES),
                .h2d_bytes_per_second = host->in_bytes_per_second,
                .d2h_bytes_per_second = dao_swap_out_speed(host),
                .copy_latency_ns = host->latency_ns,
                .half_duplex = host->duplex == DAO_SWAP_DUPLEX_HALF},
    };
    return dao_context_start(&settings, &dao_sim_backend_ops);
}

static dao_status_t create_parts(simulator_t *simulator)
{
    const dao_swap_problem_t *problem = simulator->problem;
    uint32_t most_uses = 1;
    for (uint32_t i = 0; i < problem->kernel_count; i++) {
        most_uses = problem->kernels[i].use_count > most_uses ? problem->kernels[i].use_count : most_uses;
    }
    simulator->tensors = dao_host_calloc(problem->tensor_count + 1, sizeof(dao_managed_t *));
    simulator->last_kernels = dao_host_calloc(problem->tensor_count + 1, sizeof(uint32_t));
    simulator->operands = dao_host_calloc(most_uses, sizeof(dao_operand_t));
    if (simulator->tensors == NULL || simulator->last_kernels == NULL || simulator->operands == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to simulate %" PRIu32 " tensors",
                         problem->tensor_count);
    }
    for (uint32_t i = 0; i < problem->kernel_count; i++) {
        for (uint32_t k = 0; k < problem->kernels[i].use_count; k++) {
            simulator->last_kernels[problem->kernels[i].uses[k].tensor] = i;
        }
    }
    return expect_kernels(simulator);
}

static uint32_t count_streams(const dao_swap_problem_t *problem, const uint32_t *streams)
{
    uint32_t count = dao_swap_compute_stream_count(problem);
    for (uint32_t i = 0; streams != NULL && i < problem->kernel_count; i++) {
        count = streams[i] >= count ? streams[i] + 1 : count;
    }
    DAO_ASSERT(count <= DAO_EXECUTOR_STREAM_COUNT_MAX);
    return count;
}

/* In virtual time nothing is written, wherever the file is said to be. */
static dao_file_config_t file_of(const dao_swap_tier_t *file)
{
    bool is_there = file->in_bytes_per_second != 0;
    return (dao_file_config_t){.directory = is_there ? "virtual time" : NULL,
                               .limit_bytes = file->limit_bytes,
                               .in_bytes_per_second = file->in_bytes_per_second,
                               .out_bytes_per_second = is_there ? dao_swap_out_speed(file) : 0,
                               .latency_ns = file->latency_ns};
}

static dao_status_t run_in_context(simulator_t *simulator, const dao_simulate_config_t *config)
{
    const dao_swap_problem_t *problem = simulator->problem;
    uint32_t window = config->window_kernels;
    dao_executor_config_t settings = {
        .capacity_bytes = problem->capacity_bytes,
        .host_bytes = problem->host.limit_bytes,
        .file = file_of(&problem->file),
        .policy = config->policy,
        .on_demand = config->on_demand,
        .in_flight_ns = config->in_flight_ns,
        .without_plans = !simulator->learns,
        .addresses = config->addresses,
        .queue_kernels = window != 0 ? window : 2 * problem->kernel_count,
        .stream_count = simulator->stream_count,
    };
    dao_status_t status = dao_executor_create_still(&settings, &simulator->executor);
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_device_t *device = simulator->executor->runtime->device;
    for (uint32_t i = 0; i < simulator->stream_count; i++) {
        simulator->backends[i] = simulator->executor->engine.config.compute_streams[i]->backend;
    }
    status = begin_steps(simulator, config->is_described, device);
    if (status == DAO_OK) {
        status = run_steps(simulator);
    }
    if (status == DAO_OK) {
        sum_up(simulator);
        status = dao_executor_stats_get(simulator->executor, &simulator->result->stats);
    }
    dao_sim_span_callback_set(device, NULL, NULL);
    return status;
}

static void finish_parts(simulator_t *simulator)
{
    for (uint32_t i = 0; simulator->tensors != NULL && i < simulator->problem->tensor_count; i++) {
        (void)dao_managed_release(simulator->tensors[i]); /* NULL or ours */
    }
    (void)dao_executor_destroy(simulator->executor); /* what it could report, the sync has */
    dao_host_free(simulator->tensors);
    dao_host_free(simulator->last_kernels);
    dao_host_free(simulator->operands);
}

dao_status_t dao_simulate_check(const dao_swap_problem_t *problem, uint32_t step_count)
{
    if (step_count < 1 || step_count >= DAO_SIMULATE_KERNEL_COUNT_MAX / (problem->kernel_count + 1)) {
        return dao_error(DAO_ERR_INVALID,
                         "%" PRIu32 " steps of %" PRIu32 " kernels cannot be simulated; at least 1 step, at "
                         "most %u kernels",
                         step_count, problem->kernel_count, DAO_SIMULATE_KERNEL_COUNT_MAX);
    }
    if (problem->host.shared_bytes_per_second != 0 || problem->file.duplex != DAO_SWAP_DUPLEX_FULL) {
        return dao_error(DAO_ERR_INVALID,
                         "links that share a speed, and half-duplex files, cannot be simulated");
    }
    if (problem->capacity_bytes > DAO_SPACE_EXTENT_MAX) {
        char size[DAO_UNITS_TEXT_BYTES];
        return dao_error(DAO_ERR_LIMIT,
                         "a device of %s cannot be simulated: an executor takes less than 1 TiB",
                         dao_units_format_bytes(problem->capacity_bytes, size));
    }
    return DAO_OK;
}

/* Stops the library; of a run that has failed nothing is left. */
static dao_status_t end_context(dao_status_t status, dao_simulation_t *result,
                                dao_simulation_t *out_simulation)
{
    dao_error_record_t error;
    dao_error_save(&error, status);
    dao_status_t finalize_status = dao_finalize();
    status = status != DAO_OK ? dao_error_restore(&error) : finalize_status;
    if (status != DAO_OK) {
        dao_simulation_finish(result);
        return status;
    }
    *out_simulation = *result;
    return DAO_OK;
}

dao_status_t dao_simulate(const dao_swap_problem_t *problem, const dao_simulate_config_t *config,
                          dao_simulation_t *out_simulation)
{
    dao_simulation_t result = {.kernels = NULL};
    simulator_t simulator = {
        .problem = problem,
        .trace = config->trace,
        .streams = config->streams,
        .stream_count = count_streams(problem, config->streams),
        .step_count = config->step_count,
        .warm_up_count =
            config->learns && !config->is_described ? DAO_SIMULATE_LEARN_COUNT : DAO_SIMULATE_WARM_UP_COUNT,
        .learns = config->learns,
        .result = &result,
    };
    dao_status_t status = dao_simulate_check(problem, config->step_count);
    if (status == DAO_OK) {
        status = start_context(problem);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = create_parts(&simulator);
    if (status == DAO_OK) {
        status = run_in_context(&simulator, config);
    }
    dao_error_record_t error;
    dao_error_save(&error, status);
    finish_parts(&simulator);
    status = status != DAO_OK ? dao_error_restore(&error) : DAO_OK;
    return end_context(status, &result, out_simulation);
}

/* ---- a plan ---- */

/* What a plan's kernels are launched with. */
typedef struct planned {
    const dao_swap_problem_t *problem;
    dao_player_t player;
} planned_t;

static dao_status_t launch_planned(uint32_t index, void *const *addresses, void *workspace, void *user)
{
    planned_t *planned = user;
    (void)addresses; /* there are no bytes */
    (void)workspace;
    const dao_swap_kernel_t *kernel = &planned->problem->kernels[index];
    return dao_sim_stream_work(dao_player_compute(&planned->player, kernel)->backend, kernel->time_ns);
}

static void read_nothing(uint32_t tensor, uint64_t offset_bytes, uint64_t size_bytes, void *out_bytes,
                         void *user)
{
    (void)tensor;
    (void)offset_bytes;
    (void)size_bytes;
    (void)out_bytes;
    (void)user;
}

static dao_status_t play(simulator_t *simulator, planned_t *planned)
{
    dao_player_t *player = &planned->player;
    dao_backend_device_t *device = player->runtime->device;
    dao_status_t status = dao_player_place(player, read_nothing);
    for (uint32_t k = 0; k < planned->problem->kernel_count; k++) {
        const dao_swap_kernel_t *kernel = &planned->problem->kernels[k];
        simulator->backends[kernel->stream] = dao_player_compute(player, kernel)->backend;
    }
    simulator->begin_ns = dao_sim_now_ns(device);
    dao_sim_span_callback_set(device, keep_span, simulator);
    for (uint32_t step = 0; status == DAO_OK && step <= simulator->step_count; step++) {
        status = dao_player_step(player);
    }
    dao_status_t wait_status = dao_player_wait(player);
    status = status == DAO_OK ? wait_status : status;
    dao_sim_span_callback_set(device, NULL, NULL);
    return status == DAO_OK ? simulator->span_status : status;
}

dao_status_t dao_simulate_plan(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                               uint32_t step_count, dao_simulation_t *out_simulation)
{
    dao_simulation_t result = {.kernels = NULL};
    simulator_t simulator = {.problem = problem,
                             .stream_count = count_streams(problem, NULL),
                             .step_count = step_count,
                             .warm_up_count = DAO_SIMULATE_WARM_UP_COUNT,
                             .result = &result};
    planned_t planned = {.problem = problem};
    dao_status_t status = dao_simulate_check(problem, step_count);
    if (status == DAO_OK) {
        status = start_context(problem);
    }
    if (status != DAO_OK) {
        return status;
    }
    const dao_player_config_t player = {.problem = problem,
                                        .schedule = schedule,
                                        .file = file_of(&problem->file),
                                        .launch = launch_planned,
                                        .user = &planned};
    status = dao_player_create(&planned.player, &player);
    status = status == DAO_OK ? expect_kernels(&simulator) : status;
    if (status == DAO_OK) {
        status = play(&simulator, &planned);
    }
    if (status == DAO_OK) {
        sum_up(&simulator);
        result.in_bytes +=
            dao_player_stream_bytes(schedule, DAO_SWAP_STREAM_FILE_IN); /* beside the host's link, */
        result.out_bytes +=
            dao_player_stream_bytes(schedule, DAO_SWAP_STREAM_FILE_OUT); /* where spans are told */
    }
    dao_error_record_t error;
    dao_error_save(&error, status);
    dao_player_finish(&planned.player);
    status = status != DAO_OK ? dao_error_restore(&error) : DAO_OK;
    return end_context(status, &result, out_simulation);
}

/* Kernels come in the order of the steps. */
void dao_simulation_spans(const dao_simulation_t *simulation, uint32_t kernel_count, dao_run_spans_t *spans)
{
    static const dao_run_lane_t lanes[] = {[DAO_SIM_SPAN_IN] = DAO_RUN_LANE_IN,
                                           [DAO_SIM_SPAN_OUT] = DAO_RUN_LANE_OUT,
                                           [DAO_SIM_SPAN_DELAY] = DAO_RUN_LANE_FILE};
    for (size_t i = 0; i < simulation->kernel_count; i++) {
        const dao_sim_span_t *kernel = &simulation->kernels[i];
        dao_run_spans_add(spans, &(dao_run_span_t){.begin_ns = kernel->begin_ns,
                                                   .end_ns = kernel->end_ns,
                                                   .kernel = (uint32_t)(i % kernel_count)});
    }
    for (size_t i = 0; i < simulation->copy_count; i++) {
        const dao_sim_span_t *copy = &simulation->copies[i];
        dao_run_spans_add(spans, &(dao_run_span_t){.lane = lanes[copy->kind],
                                                   .begin_ns = copy->begin_ns,
                                                   .end_ns = copy->end_ns,
                                                   .size_bytes = copy->size_bytes});
    }
}

void dao_simulation_finish(dao_simulation_t *simulation)
{
    dao_host_free(simulation->kernels);
    dao_host_free(simulation->copies);
    *simulation = (dao_simulation_t){.kernels = NULL};
}
