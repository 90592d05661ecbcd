/* SPDX-License-Identifier: Apache-2.0 */
/* A step of a classifier that does not say where its backward pass begins still shows it: its labels become a
   matrix, and that meets what the network has found.

       labels --OneHot--> . --> .  --+
                         weights --> target --+
                                           meeting --> ...
       network --> ... --> prediction --------+--> ...

   Forward ends with the operators in a row, from the meeting on, that read the prediction, or the one tensor
   that it was made of. */
#include "tools/simulate/forward_end.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <string.h>

/* Returns the k-th tensor that an operator reads, from 0; DAO_TRACE_NONE: it reads fewer. */
static uint32_t input_of(const dao_step_trace_t *trace, uint32_t index, uint32_t k)
{
    dao_trace_range_t range = trace->operators[index].operands;
    for (size_t i = 0; i < range.count; i++) {
        const dao_trace_operand_t *operand = &trace->operands[range.begin + i];
        if (operand->access != DAO_ACCESS_WRITE && k-- == 0) {
            return operand->tensor;
        }
    }
    return DAO_TRACE_NONE;
}

/* Of an operator's inputs. */
typedef struct inputs {
    uint32_t marked;  /* the first one with a mark; DAO_TRACE_NONE: none has one */
    uint32_t another; /* the first one without */
} inputs_t;

static inputs_t look_at_inputs(const dao_step_trace_t *trace, uint32_t index, const bool *marks)
{
    inputs_t inputs = {DAO_TRACE_NONE, DAO_TRACE_NONE};
    uint32_t input = 0;
    for (uint32_t k = 0; (input = input_of(trace, index, k)) != DAO_TRACE_NONE; k++) {
        uint32_t *which = marks[input] ? &inputs.marked : &inputs.another;
        *which = *which == DAO_TRACE_NONE ? input : *which;
    }
    return inputs;
}

static void mark_outputs(const dao_step_trace_t *trace, uint32_t index, bool *marks)
{
    dao_trace_range_t range = trace->operators[index].operands;
    for (size_t i = 0; i < range.count; i++) {
        const dao_trace_operand_t *operand = &trace->operands[range.begin + i];
        marks[operand->tensor] = marks[operand->tensor] || operand->access != DAO_ACCESS_READ;
    }
}

/* Returns the first operator that reads the target and something else; DAO_TRACE_NONE: there is none. */
static uint32_t find_meeting(const dao_step_trace_t *trace, bool *marks, uint32_t *out_prediction)
{
    bool is_target_made = false; /* marks are of it; before, of what labels alone have become */
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        inputs_t inputs = look_at_inputs(trace, i, marks);
        bool is_label = !is_target_made && strstr(dao_trace_operator_name(trace, i), "OneHot") != NULL;
        if (inputs.marked != DAO_TRACE_NONE && inputs.another != DAO_TRACE_NONE) {
            if (is_target_made) {
                *out_prediction = inputs.another;
                return i;
            }
            is_target_made = true;
            memset(marks, 0, trace->tensor_count * sizeof(*marks));
            mark_outputs(trace, i, marks);
        } else if (is_label || inputs.marked != DAO_TRACE_NONE) {
            mark_outputs(trace, i, marks);
        }
    }
    return DAO_TRACE_NONE;
}

/* Returns the only input of the operator that made a tensor; DAO_TRACE_NONE: it had more, or none. */
static uint32_t source_of(const dao_step_trace_t *trace, uint32_t tensor)
{
    uint32_t producer = trace->tensors[tensor].producer;
    bool has_one = producer != DAO_TRACE_NONE && input_of(trace, producer, 1) == DAO_TRACE_NONE;
    return has_one ? input_of(trace, producer, 0) : DAO_TRACE_NONE;
}

static dao_status_t find_by_labels(const dao_step_trace_t *trace, uint32_t *out_operator)
{
    bool *marks = dao_host_calloc(trace->tensor_count + 1, sizeof(*marks));
    if (marks == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu tensors", trace->tensor_count);
    }
    uint32_t prediction = DAO_TRACE_NONE;
    uint32_t last = find_meeting(trace, marks, &prediction);
    if (last != DAO_TRACE_NONE) {
        uint32_t source = source_of(trace, prediction);
        memset(marks, 0, trace->tensor_count * sizeof(*marks));
        marks[prediction] = true;
        if (source != DAO_TRACE_NONE) {
            marks[source] = true;
        }
        while (last + 1 < trace->operator_count &&
               look_at_inputs(trace, last + 1, marks).marked != DAO_TRACE_NONE) {
            last++;
        }
        *out_operator = last;
    }
    dao_host_free(marks);
    return last != DAO_TRACE_NONE
               ? DAO_OK
               : dao_error(DAO_ERR_UNSUPPORTED, "nothing in the step says where its forward pass ends; give "
                                                "the operator with --threshold");
}

dao_status_t dao_forward_end_find(const dao_step_trace_t *trace, uint32_t *out_operator)
{
    uint32_t backward = trace->first_backward;
    for (uint32_t i = 0; backward == DAO_TRACE_NONE && i < trace->operator_count; i++) {
        backward = strstr(dao_trace_operator_name(trace, i), "ackward") != NULL ? i : DAO_TRACE_NONE;
    }
    if (backward == DAO_TRACE_NONE || backward == 0) {
        return find_by_labels(trace, out_operator);
    }
    *out_operator = backward - 1;
    return DAO_OK;
}
