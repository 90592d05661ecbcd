/* SPDX-License-Identifier: Apache-2.0 */
/* What operators do. Every operator is a list of actions, fixed when the step is prepared:

       check each tensor that it reads           against its id and the number of writes so far
       fill each tensor that it writes
       fill / check each temporary               at its recorded alloc / free, or at the end

   Where the host may touch device memory, one job on the compute stream does all of them. Elsewhere each
   action is a copy through one pinned staging buffer and a job on that: the stream's order keeps them apart.

   Jobs of one compute stream run one after the other; a staging buffer is of one stream, and what jobs of
   several count has a lock. The executor's sync is between them and whoever reads the counts. Jobs do not
   call the library. */
#include "tools/run/run_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "tools/run/pattern.h"

#include <dao/memory.h>
#include <dao/stream.h>

#include <inttypes.h>
#include <stdio.h>

/* Longer operators are cut, so that times can be added up. */
#define LONGEST_NS 1e18

/* Owners of patterns: tensors and temporaries must not look alike. */
static uint64_t temporary_owner(size_t temporary)
{
    return UINT64_C(1) << 40 | temporary;
}

/* Words as dao_pattern_check() counts them. */
static uint64_t words_of(uint64_t size_bytes)
{
    return size_bytes / 8 + (size_bytes % 8 != 0);
}

static void note_mismatch(const run_action_t *action, uint64_t word_count, const char *what, const char *id)
{
    run_t *run = action->kernel->run;
    uint32_t index = action->kernel->index;
    if (word_count == 0) {
        return;
    }
    if (run->mismatch_count == 0) {
        (void)snprintf(run->first_mismatch, sizeof(run->first_mismatch),
                       "operator %" PRIu32 " \"%.64s\": %s %.32s is wrong in %" PRIu64 " of its %" PRIu64
                       " words",
                       index, dao_trace_operator_name(run->trace, index), what, id, word_count,
                       words_of(action->size_bytes));
    }
    run->mismatch_count += word_count;
}

void dao_run_verify_tensor(run_t *run, uint32_t tensor, const void *address, uint64_t base, const char *when)
{
    uint64_t size_bytes = run->trace->tensors[tensor].size_bytes;
    uint64_t word_count = dao_pattern_check(address, size_bytes, base + run->salt);
    if (word_count > 0 && run->mismatch_count == 0) {
        (void)snprintf(run->first_mismatch, sizeof(run->first_mismatch),
                       "%s: tensor %.32s is wrong in %" PRIu64 " of its %" PRIu64 " words", when,
                       dao_trace_tensor_id(run->trace, tensor), word_count, words_of(size_bytes));
    }
    run->mismatch_count += word_count;
    run->verified_count++;
}

static void run_action(void *user)
{
    const run_action_t *action = user;
    run_t *run = action->kernel->run;
    if (!action->is_check) {
        dao_pattern_fill(action->address, action->size_bytes, action->base + run->salt);
        return;
    }
    bool is_temporary = action->operand == RUN_WORKSPACE;
    size_t id_offset = is_temporary ? run->trace->temporaries[action->owner].id_offset
                                    : run->trace->tensors[action->owner].id_offset;
    uint64_t word_count = dao_pattern_check(action->address, action->size_bytes, action->base + run->salt);
    dao_mutex_lock(&run->lock);
    note_mismatch(action, word_count, is_temporary ? "temporary" : "tensor",
                  dao_trace_name(run->trace, id_offset));
    run->temporary_count += is_temporary ? 1 : 0;
    run->verified_count += is_temporary ? 0 : 1;
    dao_mutex_unlock(&run->lock);
}

static void begin_kernel(void *user)
{
    run_kernel_t *kernel = user;
    kernel->begin_ns = dao_clock_ns();
}

static void end_kernel(void *user)
{
    run_kernel_t *kernel = user;
    if (kernel->compute_ns > 0 && !kernel->run->is_warming_up) {
        dao_sleep_until(kernel->begin_ns + kernel->compute_ns);
    }
    kernel->end_ns = dao_clock_ns();
    dao_progress_add(kernel->is_again ? 0 : 1);
}

static void run_kernel(void *user)
{
    run_kernel_t *kernel = user;
    begin_kernel(kernel);
    for (size_t i = 0; i < kernel->action_count; i++) {
        run_action(&kernel->actions[i]);
    }
    end_kernel(kernel);
}

static void *device_address(const dao_launch_t *launch, const run_action_t *action)
{
    if (action->operand != RUN_WORKSPACE) {
        return launch->addresses[action->operand];
    }
    return (char *)launch->workspace + action->offset_bytes;
}

/* The kernel of a launch. One that runs again is another one, with the same actions: both may be queued, and
   have addresses of their own. Launches come one after the other. */
static dao_status_t kernel_of(const dao_launch_t *launch, run_kernel_t *kernel, run_kernel_t **out_kernel)
{
    *out_kernel = kernel;
    if (!launch->is_again) {
        return DAO_OK;
    }
    run_kernel_t *copy = dao_host_calloc(1, sizeof(*copy) + kernel->action_count * sizeof(run_action_t));
    if (copy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for an operator that runs again");
    }
    /* Not its times: the first one may be at work now. */
    copy->run = kernel->run;
    copy->index = kernel->index;
    copy->stream_index = kernel->stream_index;
    copy->actions = (run_action_t *)(copy + 1);
    copy->action_count = kernel->action_count;
    copy->compute_ns = kernel->compute_ns;
    for (size_t i = 0; i < kernel->action_count; i++) {
        copy->actions[i] = kernel->actions[i];
        copy->actions[i].kernel = copy;
    }
    copy->is_again = true;
    copy->next = kernel->run->again;
    kernel->run->again = copy;
    *out_kernel = copy;
    return DAO_OK;
}

dao_status_t dao_run_launch_direct(const dao_launch_t *launch, void *user)
{
    run_kernel_t *kernel;
    dao_status_t status = kernel_of(launch, user, &kernel);
    if (status != DAO_OK) {
        return status;
    }
    for (size_t i = 0; i < kernel->action_count; i++) {
        kernel->actions[i].address = device_address(launch, &kernel->actions[i]);
    }
    return dao_stream_host_func(launch->stream, run_kernel, kernel);
}

static dao_status_t stage_action(const dao_launch_t *launch, run_action_t *action)
{
    run_t *run = action->kernel->run;
    dao_place_t device = dao_place_from_device(dao_device_place(launch->device_index));
    dao_place_t pinned = dao_place_from_pinned(dao_pinned_place(launch->device_index));
    void *address = device_address(launch, action);
    void *staging = run->stagings[action->kernel->stream_index];
    action->address = staging;
    dao_status_t status = DAO_OK;
    if (action->is_check) {
        status = dao_stream_copy(launch->stream, pinned, staging, device, address, action->size_bytes);
    }
    if (status == DAO_OK) {
        status = dao_stream_host_func(launch->stream, run_action, action);
    }
    if (status == DAO_OK && !action->is_check) {
        status = dao_stream_copy(launch->stream, device, address, pinned, staging, action->size_bytes);
    }
    return status;
}

dao_status_t dao_run_launch_staged(const dao_launch_t *launch, void *user)
{
    run_kernel_t *kernel;
    dao_status_t status = kernel_of(launch, user, &kernel);
    status = status == DAO_OK ? dao_stream_host_func(launch->stream, begin_kernel, kernel) : status;
    for (size_t i = 0; status == DAO_OK && i < kernel->action_count; i++) {
        status = stage_action(launch, &kernel->actions[i]);
    }
    return status == DAO_OK ? dao_stream_host_func(launch->stream, end_kernel, kernel) : status;
}

static void add_action(run_t *run, run_kernel_t *kernel, run_action_t action)
{
    if (action.size_bytes == 0) {
        return;
    }
    action.kernel = kernel;
    run->largest_bytes = action.size_bytes > run->largest_bytes ? action.size_bytes : run->largest_bytes;
    run->actions[run->action_count++] = action;
    kernel->action_count++;
}

/* Tensors of size 0 are no operands; `slot` counts the others. */
static void add_operand_actions(run_t *run, run_kernel_t *kernel, bool is_check)
{
    const dao_step_trace_t *trace = run->trace;
    const dao_trace_operator_t *op = &trace->operators[kernel->index];
    uint32_t slot = 0;
    for (size_t i = 0; i < op->operands.count; i++) {
        const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + i];
        uint64_t size_bytes = trace->tensors[operand->tensor].size_bytes;
        if (size_bytes == 0) {
            continue;
        }
        bool is_read = operand->access != DAO_ACCESS_WRITE;
        bool is_written = operand->access != DAO_ACCESS_READ;
        if (is_check ? is_read : is_written) {
            run->versions[operand->tensor] += is_check ? 0 : 1;
            add_action(
                run, kernel,
                (run_action_t){.is_check = is_check,
                               .operand = slot,
                               .owner = operand->tensor,
                               .size_bytes = size_bytes,
                               .base = dao_pattern_base(operand->tensor, run->versions[operand->tensor])});
        }
        slot++;
    }
}

static void add_temporary_action(run_t *run, run_kernel_t *kernel, size_t temporary, bool is_check)
{
    const dao_trace_temporary_t *about = &run->trace->temporaries[temporary];
    add_action(run, kernel,
               (run_action_t){.is_check = is_check,
                              .operand = RUN_WORKSPACE,
                              .owner = (uint32_t)temporary,
                              .offset_bytes = about->offset_bytes,
                              .size_bytes = about->size_bytes,
                              .base = dao_pattern_base(temporary_owner(temporary), 1)});
}

/* Those that the record does not free are looked at when the operator ends. */
static void add_temporary_actions(run_t *run, run_kernel_t *kernel)
{
    const dao_step_trace_t *trace = run->trace;
    const dao_trace_operator_t *op = &trace->operators[kernel->index];
    bool is_freed[DAO_TRACE_TEMPORARY_COUNT_MAX] = {false};
    for (size_t i = 0; i < op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        is_freed[event->temporary] = !event->is_alloc;
        add_temporary_action(run, kernel, op->temporaries.begin + event->temporary, !event->is_alloc);
    }
    for (size_t i = 0; i < op->temporaries.count; i++) {
        if (!is_freed[i]) {
            add_temporary_action(run, kernel, op->temporaries.begin + i, true);
        }
    }
}

static void prepare_kernel(run_t *run, run_kernel_t *kernel, uint32_t index, double time_scale)
{
    *kernel = (run_kernel_t){.run = run, .index = index, .actions = run->actions + run->action_count};
    double compute_ns = (double)run->trace->operators[index].cost_ns * time_scale;
    kernel->compute_ns = (uint64_t)(compute_ns < LONGEST_NS ? compute_ns : LONGEST_NS);
    add_operand_actions(run, kernel, true);
    add_operand_actions(run, kernel, false);
    add_temporary_actions(run, kernel);
}

static void collect_kernel(const run_kernel_t *kernel, dao_run_spans_t *spans)
{
    if (kernel->end_ns != 0) {
        dao_run_spans_add(spans, &(dao_run_span_t){.lane = DAO_RUN_LANE_COMPUTE,
                                                   .begin_ns = kernel->begin_ns,
                                                   .end_ns = kernel->end_ns,
                                                   .kernel = kernel->index});
    }
}

void dao_run_collect_kernels(const run_t *run, size_t count, dao_run_spans_t *spans)
{
    for (size_t i = 0; i < count; i++) {
        collect_kernel(&run->kernels[i], spans);
    }
    for (const run_kernel_t *kernel = run->again; kernel != NULL; kernel = kernel->next) {
        collect_kernel(kernel, spans);
    }
}

/* Each kernel is on the stream of its operator. */
static dao_status_t take_streams(run_t *run, size_t kernel_count)
{
    uint32_t *streams = dao_host_calloc(run->trace->operator_count + 1, sizeof(*streams));
    if (streams == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the streams of %zu operators",
                         run->trace->operator_count);
    }
    dao_status_t status = dao_trace_number_streams(run->trace, streams, &run->stream_count);
    for (size_t i = 0; status == DAO_OK && i < kernel_count; i++) {
        run->kernels[i].stream_index = streams[run->kernels[i].index];
    }
    dao_host_free(streams);
    return status;
}

dao_status_t dao_run_prepare_kernels(run_t *run, double time_scale, uint32_t step_count, bool keeps_streams)
{
    const dao_step_trace_t *trace = run->trace;
    dao_mutex_init(&run->lock, DAO_RANK_LEAF);
    size_t most_actions = step_count * (2 * trace->operand_count + 2 * trace->temporary_count) + 1;
    run->kernels = dao_host_calloc(step_count * trace->operator_count + 1, sizeof(*run->kernels));
    run->actions = dao_host_calloc(most_actions, sizeof(*run->actions));
    run->versions = dao_host_calloc(trace->tensor_count + 1, sizeof(*run->versions));
    if (run->kernels == NULL || run->actions == NULL || run->versions == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu kernels in each of %" PRIu32 " steps",
                         trace->operator_count, step_count);
    }
    for (size_t i = 0; i < trace->tensor_count; i++) {
        uint64_t size_bytes = trace->tensors[i].size_bytes;
        run->largest_bytes = size_bytes > run->largest_bytes ? size_bytes : run->largest_bytes;
    }
    for (size_t i = 0; i < step_count * trace->operator_count; i++) {
        prepare_kernel(run, &run->kernels[i], (uint32_t)(i % trace->operator_count), time_scale);
    }
    run->stream_count = 1;
    return keeps_streams ? take_streams(run, step_count * trace->operator_count) : DAO_OK;
}

void dao_run_free_kernels(run_t *run)
{
    while (run->again != NULL) {
        run_kernel_t *kernel = run->again;
        run->again = kernel->next;
        dao_host_free(kernel);
    }
    dao_host_free(run->kernels);
    dao_host_free(run->actions);
    dao_host_free(run->versions);
    dao_mutex_finish(&run->lock);
}

dao_status_t dao_run_take_stagings(run_t *run)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; run->largest_bytes > 0 && status == DAO_OK && i < run->stream_count; i++) {
        run->stagings[i] = dao_alloc(dao_pinned_place(0), run->largest_bytes);
        status = run->stagings[i] == NULL ? dao_last_status() : DAO_OK;
    }
    return status;
}

void dao_run_give_stagings(run_t *run)
{
    for (uint32_t i = 0; i < run->stream_count && run->stagings[i] != NULL; i++) {
        (void)dao_free(dao_pinned_place(0), run->stagings[i]); /* ours */
    }
}
