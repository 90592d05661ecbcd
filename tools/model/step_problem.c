/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/model/step_problem.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"

#include <inttypes.h>

/* Numbers the tensors that have bytes; gives their numbers by trace tensor. */
static void number_tensors(const dao_step_trace_t *trace, dao_step_problem_t *step, uint32_t *numbers)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const dao_trace_tensor_t *tensor = &trace->tensors[i];
        numbers[i] = count;
        if (tensor->size_bytes > 0) {
            step->trace_tensors[count] = i;
            step->tensors[count++] = (dao_swap_tensor_t){
                .size_bytes = dao_round_up(tensor->size_bytes, DAO_TRACE_ALIGNMENT_BYTES),
                .is_persistent = tensor->producer == DAO_TRACE_NONE,
            };
        }
    }
    step->problem.alignment_bytes = DAO_TRACE_ALIGNMENT_BYTES;
    step->problem.tensors = step->tensors;
    step->problem.tensor_count = count;
}

static void fill_kernels(const dao_step_trace_t *trace, dao_step_problem_t *step, const uint32_t *numbers)
{
    dao_swap_use_t *use = step->uses;
    for (size_t i = 0; i < trace->operator_count; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        dao_swap_kernel_t *kernel = &step->kernels[i];
        *kernel = (dao_swap_kernel_t){.time_ns = op->cost_ns,
                                      .workspace_bytes = op->workspace_bytes,
                                      .uses = use,
                                      .is_repeatable = op->is_pure};
        for (size_t k = 0; k < op->operands.count; k++) {
            const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + k];
            if (trace->tensors[operand->tensor].size_bytes > 0) {
                *use++ = (dao_swap_use_t){numbers[operand->tensor], operand->access};
                kernel->use_count++;
            }
        }
    }
    step->problem.kernels = step->kernels;
    step->problem.kernel_count = (uint32_t)trace->operator_count;
}

dao_status_t dao_step_problem_check(const dao_step_trace_t *trace)
{
    if (trace->operator_count == 0) {
        return dao_error(DAO_ERR_INVALID, "the step has no operators");
    }
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (trace->tensors[i].size_bytes > DAO_SWAP_SIZE_MAX - DAO_TRACE_ALIGNMENT_BYTES) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "tensor %.32s has %" PRIu64 " bytes; at most %" PRIu64 " are possible",
                             dao_trace_tensor_id(trace, i), trace->tensors[i].size_bytes,
                             DAO_SWAP_SIZE_MAX - DAO_TRACE_ALIGNMENT_BYTES);
        }
    }
    return DAO_OK;
}

dao_status_t dao_step_problem_make(const dao_step_trace_t *trace, dao_step_problem_t *out_step)
{
    dao_status_t status = dao_step_problem_check(trace);
    if (status != DAO_OK) {
        return status;
    }
    dao_step_problem_t step = {
        .trace_tensors = dao_host_calloc(trace->tensor_count + 1, sizeof(uint32_t)),
        .tensors = dao_host_calloc(trace->tensor_count + 1, sizeof(dao_swap_tensor_t)),
        .kernels = dao_host_calloc(trace->operator_count, sizeof(dao_swap_kernel_t)),
        .uses = dao_host_calloc(trace->operand_count + 1, sizeof(dao_swap_use_t)),
    };
    uint32_t *numbers = dao_host_calloc(trace->tensor_count + 1, sizeof(*numbers));
    if (step.trace_tensors == NULL || step.tensors == NULL || step.kernels == NULL || step.uses == NULL ||
        numbers == NULL) {
        dao_host_free(numbers);
        dao_step_problem_finish(&step);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a step of %zu operators",
                         trace->operator_count);
    }
    number_tensors(trace, &step, numbers);
    fill_kernels(trace, &step, numbers);
    dao_host_free(numbers);
    *out_step = step;
    return DAO_OK;
}

void dao_step_problem_finish(dao_step_problem_t *step)
{
    dao_host_free(step->trace_tensors);
    dao_host_free(step->tensors);
    dao_host_free(step->kernels);
    dao_host_free(step->uses);
    *step = (dao_step_problem_t){.trace_tensors = NULL};
}
