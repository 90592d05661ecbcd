/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a step once at the wanted capacity and once with unlimited memory, each in a context of its own:

       start context -> executor -> [ tensors, those alive before the step written -> kernels registered
                                      -> { run, sync } <- step_ns -> read back ]  -> all given up

   What stands in brackets is a pass. The first one warms up: it takes its memory from the system and does not
   wait for recorded costs. The second one is measured, so that both runs are compared as a step in the middle
   of many.

   A run that fails anywhere gives up what it has, in the opposite order, and keeps the first error. */
#include "tools/run/run_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/executor/executor_internal.h"
#include "runtime/start/context.h"
#include "tools/options/capacity.h"
#include "tools/run/pattern.h"

#include <dao/dao.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { PAGE_BYTES = 2 << 20, HUGE_ALIGNMENT = 4096 };

enum { LEARN_ALL_STEPS = DAO_RUN_LEARN_STEPS + DAO_RUN_ENTER_STEPS + DAO_RUN_FOLLOW_STEPS };

/* How often a plan is looked for. */
#define PLAN_LOOK_NS (UINT64_C(5) * 1000000)

/* Makes the content of the measured pass differ from what the pass before left behind. */
#define MEASURED_SALT UINT64_C(0x5851f42d4c957f2d)

/* One of the two runs. */
typedef struct run_plan {
    const dao_run_config_t *config;
    const dao_step_figures_t *figures;
    uint64_t capacity_bytes;
    bool is_unlimited;
} run_plan_t;

static uint64_t round_up_saturated(uint64_t value, uint64_t unit)
{
    return value > UINT64_MAX - (unit - 1) ? value / unit * unit : (value + unit - 1) / unit * unit;
}

/* Twice the peak, so that a hole for everything is found without moving anything. */
static uint64_t unlimited_capacity(const dao_step_figures_t *figures)
{
    uint64_t bytes = figures->rounded_bytes > UINT64_MAX / 4 ? UINT64_MAX / 4 : figures->rounded_bytes;
    return round_up_saturated(2 * bytes + figures->largest_work_bytes % (UINT64_MAX / 4), PAGE_BYTES) +
           PAGE_BYTES;
}

/* Spans are of the run in limited memory. */
static bool is_traced(const run_plan_t *plan)
{
    return plan->config->spans != NULL && !plan->is_unlimited;
}

static dao_status_t start_context(const run_plan_t *plan, dao_copy_tracer_t *tracer)
{
    dao_config_t settings = {
        .cpu = {.device_count = 1,
                .device_bytes = round_up_saturated(plan->capacity_bytes, PAGE_BYTES),
                .h2d_bytes_per_second = plan->config->link_in_bytes_per_second,
                .d2h_bytes_per_second = plan->config->link_out_bytes_per_second},
    };
    const dao_backend_ops_t *ops = plan->config->ops != NULL ? plan->config->ops : dao_backend_ops();
    return dao_context_start(&settings, is_traced(plan) ? dao_copy_tracer_begin(tracer, ops) : ops);
}

static bool is_learning(const run_plan_t *plan)
{
    return plan->config->mode == DAO_RUN_MODE_LEARN && !plan->is_unlimited;
}

static bool is_planned_first(const run_plan_t *plan)
{
    return plan->config->is_planned_first && plan->config->mode == DAO_RUN_MODE_STEP && !plan->is_unlimited;
}

static dao_status_t create_executor(const run_plan_t *plan, run_t *run)
{
    dao_executor_config_t settings = {
        .capacity_bytes = plan->capacity_bytes,
        .host_bytes = plan->is_unlimited ? 0 : plan->config->host_bytes,
        .file = plan->is_unlimited ? (dao_file_config_t){0} : plan->config->file,
        .policy = plan->config->policy,
        .without_plans = !is_learning(plan) && !is_planned_first(plan),
        .addresses = plan->config->addresses,
        .check = plan->config->is_walked && !plan->is_unlimited,
        .check_repeatable = plan->config->is_repeat_checked,
        .stream_count = run->stream_count,
    };
    dao_status_t status = dao_executor_create(&settings, &run->executor);
    if (status == DAO_OK && plan->config->copies_nothing) {
        dao_engine_config_t *engine = &run->executor->engine.config; /* nothing was pushed yet */
        engine->recompute_mode = DAO_RECOMPUTE_MODE_ONLY;
        engine->keeps_plans = true;
    }
    return status;
}

/* Staging for devices that the host cannot touch, and a buffer to write and read tensors with. */
static dao_status_t create_buffers(const run_plan_t *plan, run_t *run)
{
    dao_device_info_t info;
    dao_status_t status = dao_device_query(0, &info);
    if (status != DAO_OK || run->largest_bytes == 0) {
        return status;
    }
    run->host_buffer = dao_host_map(run->largest_bytes, HUGE_ALIGNMENT);
    if (run->host_buffer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a tensor of %" PRIu64 " bytes",
                         run->largest_bytes);
    }
    return !info.host_accessible || plan->config->is_staged ? dao_run_take_stagings(run) : DAO_OK;
}

/* Those that are not there. */
static dao_status_t create_missing_tensors(run_t *run)
{
    const dao_step_trace_t *trace = run->trace;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        dao_managed_config_t settings = {.name = dao_trace_tensor_id(trace, i),
                                         .size_bytes = trace->tensors[i].size_bytes};
        if (settings.size_bytes == 0 || run->tensors[i] != NULL) {
            continue;
        }
        dao_status_t status = dao_managed_create(run->executor, &settings, &run->tensors[i]);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

static dao_status_t create_tensors(run_t *run)
{
    const dao_step_trace_t *trace = run->trace;
    run->tensors = dao_host_calloc(trace->tensor_count + 1, sizeof(dao_managed_t *));
    run->operands = dao_host_calloc(DAO_OPERAND_COUNT_MAX, sizeof(*run->operands));
    if (run->tensors == NULL || run->operands == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu tensors", trace->tensor_count);
    }
    return create_missing_tensors(run);
}

static dao_status_t write_persistent_tensors(run_t *run, const dao_step_figures_t *figures)
{
    const dao_step_trace_t *trace = run->trace;
    dao_progress_phase("writing what is alive before the step", DAO_PROGRESS_UNIT_PARTS,
                       figures->persistent_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        uint64_t size_bytes = trace->tensors[i].size_bytes;
        if (trace->tensors[i].producer != DAO_TRACE_NONE) {
            continue;
        }
        dao_progress_add(1);
        if (size_bytes == 0) {
            continue;
        }
        dao_pattern_fill(run->host_buffer, size_bytes, dao_pattern_base(i, 0) + run->salt);
        dao_status_t status = dao_managed_write(run->tensors[i], run->host_buffer, size_bytes);
        if (status != DAO_OK) {
            return status;
        }
    }
    return DAO_OK;
}

static uint32_t fill_operands(run_t *run, const dao_trace_operator_t *op)
{
    uint32_t count = 0;
    for (size_t i = 0; i < op->operands.count; i++) {
        const dao_trace_operand_t *operand = &run->trace->operands[op->operands.begin + i];
        if (run->tensors[operand->tensor] != NULL) {
            run->operands[count++] = (dao_operand_t){run->tensors[operand->tensor], operand->access};
        }
    }
    return count;
}

/* Adds an operator to the step or to the queue. */
static dao_status_t push_kernel(run_t *run, uint32_t index)
{
    const dao_trace_operator_t *op = &run->trace->operators[index];
    dao_kernel_t kernel = {
        .name = dao_trace_operator_name(run->trace, index),
        .launch = run->stagings[0] != NULL ? dao_run_launch_staged : dao_run_launch_direct,
        .user = &run->kernels[run->first_kernel + index],
        .operands = run->operands,
        .operand_count = fill_operands(run, op),
        .workspace_bytes = op->workspace_bytes,
        .cost_ns = run->kernels[run->first_kernel + index].compute_ns,
        .stream_index = run->kernels[run->first_kernel + index].stream_index,
        .flags = run->runs_again && op->is_pure ? DAO_KERNEL_REPEATABLE : 0,
    };
    return run->step != NULL ? dao_command_list_push(run->step, &kernel)
                             : dao_executor_push(run->executor, &kernel);
}

static dao_status_t push_releases(run_t *run, uint32_t index)
{
    const dao_trace_operator_t *op = &run->trace->operators[index];
    dao_status_t status = DAO_OK;
    for (size_t i = 0; status == DAO_OK && i < op->releases.count; i++) {
        uint32_t tensor = run->trace->releases[op->releases.begin + i];
        bool is_input = run->trace->tensors[tensor].producer == DAO_TRACE_NONE;
        if (run->tensors[tensor] == NULL || (is_input && run->keeps_inputs)) {
            continue;
        }
        if (run->step != NULL) {
            status = dao_command_list_discard(run->step, run->tensors[tensor]);
        } else {
            status = dao_managed_release(run->tensors[tensor]);
            run->tensors[tensor] = NULL;
        }
    }
    return status;
}

static dao_status_t push_all(run_t *run)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; status == DAO_OK && i < run->trace->operator_count; i++) {
        status = push_kernel(run, i);
        if (status == DAO_OK) {
            status = push_releases(run, i);
        }
    }
    return status;
}

/* The whole step is registered, and planned if that is wanted: what the plan begins with is on the device
   then. */
static dao_status_t register_step(const run_plan_t *plan, run_t *run)
{
    dao_status_t status = dao_command_list_create(run->executor, &run->step);
    status = status == DAO_OK ? push_all(run) : status;
    if (status == DAO_OK && is_planned_first(plan) && !run->is_warming_up) {
        dao_progress_phase("planning", DAO_PROGRESS_UNIT_PARTS, 0);
        status = dao_command_list_plan(run->step, 0);
        status = status == DAO_OK ? dao_executor_sync(run->executor) : status;
    }
    return status;
}

/* Runs what is measured. In step mode registering comes before it. */
static dao_status_t execute(const run_plan_t *plan, run_t *run, dao_executor_stats_t *out_before,
                            uint64_t *out_elapsed_ns)
{
    dao_status_t status = plan->config->mode == DAO_RUN_MODE_STEP ? register_step(plan, run) : DAO_OK;
    status = status == DAO_OK ? dao_executor_stats_get(run->executor, out_before) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_progress_phase(run->is_warming_up
                           ? (plan->is_unlimited ? "warming up with unlimited memory" : "warming up")
                       : plan->is_unlimited ? "running with unlimited memory"
                                            : "running operators",
                       DAO_PROGRESS_UNIT_PARTS, run->trace->operator_count);
    uint64_t begin_ns = dao_clock_ns();
    status = run->step != NULL ? dao_command_list_run(run->step) : push_all(run);
    dao_status_t sync_status = dao_executor_sync(run->executor);
    *out_elapsed_ns = dao_clock_ns() - begin_ns;
    return sync_status != DAO_OK ? sync_status : status;
}

/* ---- steps in a row ---- */

static dao_status_t push_steps(run_t *run, uint32_t first, uint32_t count)
{
    dao_status_t status =
        dao_executor_step_begin(run->executor); /* what was pushed before is no part of the step */
    for (uint32_t i = 0; status == DAO_OK && i < count; i++) {
        run->first_kernel = (first + i) * run->trace->operator_count;
        status = create_missing_tensors(run);
        status = status == DAO_OK ? push_all(run) : status;
        status = status == DAO_OK ? dao_executor_step_end(run->executor) : status;
    }
    dao_status_t sync_status = dao_executor_sync(run->executor);
    return sync_status != DAO_OK ? sync_status : status;
}

/* The plan is made meanwhile, by a thread of the executor's: a first one, then a better one, or none, behind
   the step that was measured. It is waited for however long it takes. What fits needs none, and a step whose
   times could not be had gets none. */
static dao_status_t wait_for_plan(run_t *run, bool copies_nothing)
{
    dao_executor_stats_t stats;
    dao_status_t status = dao_executor_stats_get(run->executor, &stats);
    while (status == DAO_OK && stats.eviction_count > 0 && stats.planning_count > 0) {
        dao_sleep_until(dao_clock_ns() + PLAN_LOOK_NS);
        status = dao_executor_sync(run->executor);
        status = status == DAO_OK ? dao_executor_stats_get(run->executor, &stats) : status;
    }
    if (status != DAO_OK || !copies_nothing || stats.eviction_count == 0) {
        return status;
    }
    if (stats.measured_step_count == 0) {
        return dao_error(DAO_ERR_LIMIT, "no step was measured, so that no order of runs was looked for: try "
                                        "again where less else runs");
    }
    if (stats.plan_count == 0) {
        return dao_error(DAO_ERR_LIMIT,
                         "no order of runs fits %" PRIu64 " bytes without copies, or none was found",
                         stats.capacity_bytes);
    }
    return status;
}

/* Runs steps until they follow a plan, then those that are measured. */
static dao_status_t execute_learning(const run_plan_t *plan, run_t *run, dao_executor_stats_t *out_before,
                                     uint64_t *out_elapsed_ns)
{
    uint32_t first = DAO_RUN_LEARN_STEPS + DAO_RUN_ENTER_STEPS;
    dao_progress_phase("running steps", DAO_PROGRESS_UNIT_PARTS,
                       LEARN_ALL_STEPS * run->trace->operator_count);
    run->keeps_inputs = true;
    dao_status_t status = push_steps(run, 0, DAO_RUN_LEARN_STEPS);
    status = status == DAO_OK ? wait_for_plan(run, plan->config->copies_nothing) : status;
    status = status == DAO_OK ? push_steps(run, DAO_RUN_LEARN_STEPS, DAO_RUN_ENTER_STEPS) : status;
    status = status == DAO_OK ? dao_executor_stats_get(run->executor, out_before) : status;
    uint64_t begin_ns = dao_clock_ns();
    status = status == DAO_OK ? push_steps(run, first, DAO_RUN_FOLLOW_STEPS) : status;
    *out_elapsed_ns = (dao_clock_ns() - begin_ns) / DAO_RUN_FOLLOW_STEPS;
    return status;
}

static void divide(dao_executor_stats_t *stats, uint32_t step_count)
{
    stats->kernel_count /= step_count;
    stats->eviction_count /= step_count;
    stats->clean_eviction_count /= step_count;
    stats->fetch_count /= step_count;
    stats->in_bytes /= step_count;
    stats->out_bytes /= step_count;
}

static bool is_alive_at_end(const dao_step_trace_t *trace, uint32_t tensor)
{
    return trace->tensors[tensor].released_by == DAO_TRACE_NONE && trace->tensors[tensor].size_bytes > 0;
}

static dao_status_t read_back(run_t *run)
{
    const dao_step_trace_t *trace = run->trace;
    dao_progress_phase("reading back", DAO_PROGRESS_UNIT_PARTS, trace->tensor_count);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        dao_progress_add(1);
        if (!is_alive_at_end(trace, i)) {
            continue;
        }
        uint64_t size_bytes = trace->tensors[i].size_bytes;
        dao_status_t status = dao_managed_read(run->tensors[i], run->host_buffer, size_bytes);
        if (status != DAO_OK) {
            return status;
        }
        dao_run_verify_tensor(run, i, run->host_buffer, dao_pattern_base(i, run->versions[i]),
                              "after the step");
    }
    return DAO_OK;
}

/* Counters of the step alone: those before it are taken off; levels and peaks stay as they are. */
static void take_off(dao_executor_stats_t *stats, const dao_executor_stats_t *before)
{
    stats->kernel_count -= before->kernel_count;
    stats->skipped_count -= before->skipped_count;
    stats->eviction_count -= before->eviction_count;
    stats->clean_eviction_count -= before->clean_eviction_count;
    stats->fetch_count -= before->fetch_count;
    stats->in_bytes -= before->in_bytes;
    stats->out_bytes -= before->out_bytes;
    stats->compaction_count -= before->compaction_count;
    stats->throttle_count -= before->throttle_count;
    stats->file_write_count -= before->file_write_count;
    stats->file_fetch_count -= before->file_fetch_count;
    stats->file_in_bytes -= before->file_in_bytes;
    stats->file_out_bytes -= before->file_out_bytes;
    stats->file_failure_count -= before->file_failure_count;
}

/* Gives up what a pass has made. */
static void finish_pass(run_t *run)
{
    dao_command_list_destroy(run->step);
    run->step = NULL;
    for (size_t i = 0; run->tensors != NULL && i < run->trace->tensor_count; i++) {
        (void)dao_managed_release(run->tensors[i]); /* NULL or ours */
    }
    dao_host_free(run->tensors);
    dao_host_free(run->operands);
    run->tensors = NULL;
    run->operands = NULL;
}

static dao_status_t run_pass(const run_plan_t *plan, run_t *run, dao_executor_stats_t *out_stats,
                             uint64_t *out_elapsed_ns)
{
    dao_executor_stats_t before;
    run->verified_count = 0; /* mismatches of all passes count */
    run->temporary_count = 0;
    dao_status_t status = create_tensors(run);
    if (status == DAO_OK) {
        status = write_persistent_tensors(run, plan->figures);
    }
    if (status == DAO_OK) {
        status = dao_executor_sync(run->executor);
    }
    if (status == DAO_OK) {
        status = dao_executor_stats_get(run->executor, &before);
    }
    if (status == DAO_OK) {
        status = is_learning(plan) ? execute_learning(plan, run, &before, out_elapsed_ns)
                                   : execute(plan, run, &before, out_elapsed_ns);
    }
    if (status == DAO_OK) {
        status = dao_executor_stats_get(run->executor, out_stats);
    }
    if (status == DAO_OK) {
        take_off(out_stats, &before);
        divide(out_stats, is_learning(plan) ? DAO_RUN_FOLLOW_STEPS : 1);
        status = plan->config->is_read_back ? read_back(run) : DAO_OK;
    }
    return status;
}

static dao_status_t run_in_context(const run_plan_t *plan, run_t *run, dao_executor_stats_t *out_stats,
                                   uint64_t *out_elapsed_ns)
{
    dao_status_t status = create_buffers(plan, run);
    if (status == DAO_OK) {
        status = create_executor(plan, run);
    }
    if (status == DAO_OK && plan->config->is_warmed_up && !is_learning(plan)) {
        run->is_warming_up = true;
        status = run_pass(plan, run, out_stats, out_elapsed_ns);
        run->is_warming_up = false;
        run->salt = MEASURED_SALT;
        if (status == DAO_OK) {
            finish_pass(run);
        }
    }
    return status == DAO_OK ? run_pass(plan, run, out_stats, out_elapsed_ns) : status;
}

/* Gives up all of a run; its error, if there is one, is already kept. */
static void finish_run(run_t *run)
{
    finish_pass(run);
    (void)dao_executor_destroy(run->executor); /* what it could report, the sync has */
    dao_run_give_stagings(run);
    if (run->host_buffer != NULL) {
        dao_host_unmap(run->host_buffer, run->largest_bytes);
    }
}

static dao_status_t run_once(const run_plan_t *plan, run_t *run, dao_executor_stats_t *out_stats,
                             uint64_t *out_elapsed_ns)
{
    uint32_t step_count = is_learning(plan) ? LEARN_ALL_STEPS : 1;
    dao_copy_tracer_t tracer = {.base = NULL};
    run->runs_again = is_learning(plan) && plan->config->runs_again;
    dao_status_t status =
        dao_run_prepare_kernels(run, plan->config->time_scale, step_count, plan->config->keeps_streams);
    if (status == DAO_OK) {
        status = start_context(plan, &tracer);
    }
    if (status == DAO_OK) {
        status = run_in_context(plan, run, out_stats, out_elapsed_ns);
        dao_error_record_t error;
        dao_error_save(&error, status);
        finish_run(run);
        dao_status_t finalize_status = dao_finalize();
        status = status != DAO_OK ? dao_error_restore(&error) : finalize_status;
    }
    if (is_traced(plan)) {
        dao_run_collect_kernels(run, step_count * run->trace->operator_count, plan->config->spans);
        dao_copy_tracer_end(&tracer, plan->config->spans);
    }
    dao_run_free_kernels(run);
    return status;
}

static dao_status_t check_config(const dao_run_config_t *config, const dao_step_trace_t *trace,
                                 const dao_step_figures_t *figures)
{
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        if (trace->operators[i].operands.count > DAO_OPERAND_COUNT_MAX) {
            return dao_error(DAO_ERR_INVALID,
                             "operator %" PRIu32 " \"%.64s\" has %zu operands; at most %d are possible", i,
                             dao_trace_operator_name(trace, i), trace->operators[i].operands.count,
                             DAO_OPERAND_COUNT_MAX);
        }
    }
    uint64_t usable_bytes = config->capacity_bytes - config->capacity_bytes % DAO_TRACE_ALIGNMENT_BYTES;
    if (usable_bytes < figures->largest_work_bytes) {
        uint32_t index = figures->largest_operator;
        return dao_capacity_error(config->capacity_bytes, figures->largest_work_bytes, index,
                                  dao_trace_operator_name(trace, index));
    }
    return DAO_OK;
}

/* On a device that cannot hold it all there is nothing to compare with. */
static bool has_no_room(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_LIMIT;
}

static dao_status_t run_both(const dao_run_config_t *config, const dao_step_trace_t *trace,
                             dao_run_result_t *result)
{
    run_t run = {.trace = trace};
    uint64_t most_bytes = unlimited_capacity(&result->figures); /* more is never used */
    run_plan_t plan = {.config = config,
                       .figures = &result->figures,
                       .capacity_bytes =
                           result->capacity_bytes < most_bytes ? result->capacity_bytes : most_bytes};
    dao_status_t status = run_once(&plan, &run, &result->stats, &result->step_ns);
    result->stream_count = run.stream_count;
    result->verified_count = run.verified_count;
    result->temporary_count = run.temporary_count;
    result->mismatch_count = run.mismatch_count;
    memcpy(result->first_mismatch, run.first_mismatch, sizeof(result->first_mismatch));
    if (status != DAO_OK || config->is_without_comparison) {
        return status;
    }
    run_t unlimited = {.trace = trace};
    dao_executor_stats_t stats;
    plan.capacity_bytes = most_bytes;
    plan.is_unlimited = true;
    status = run_once(&plan, &unlimited, &stats, &result->unlimited_ns);
    if (has_no_room(status)) {
        result->unlimited_ns = 0;
        return DAO_OK;
    }
    result->unlimited_mismatch_count = unlimited.mismatch_count;
    if (result->mismatch_count == 0 && unlimited.mismatch_count > 0) {
        (void)snprintf(result->first_mismatch, sizeof(result->first_mismatch), "with unlimited memory: %.*s",
                       (int)sizeof(result->first_mismatch) - 32, unlimited.first_mismatch);
    }
    return status;
}

dao_status_t dao_run_step(const dao_run_config_t *config, const dao_step_trace_t *trace,
                          dao_run_result_t *out_result)
{
    dao_run_result_t result = {.capacity_bytes = config->capacity_bytes};
    dao_status_t status = dao_step_trace_figures(trace, &result.figures);
    if (status == DAO_OK) {
        status = check_config(config, trace, &result.figures);
    }
    if (status != DAO_OK) {
        return status;
    }
    status = run_both(config, trace, &result);
    *out_result = result;
    return status;
}
