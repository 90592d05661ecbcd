/* SPDX-License-Identifier: Apache-2.0 */
/* Such a file says which kernel accesses what, and its reader finds the lives (read_tr.h). A workspace is a
   tensor that one kernel writes. */
#include "tools/write/writers.h"

#include <inttypes.h>

enum { MODE_READ = 1, MODE_OVERWRITE = 2, MODE_BOTH = 3 };

static int mode_of(dao_access_t access)
{
    return access == DAO_ACCESS_READ ? MODE_READ : access == DAO_ACCESS_WRITE ? MODE_OVERWRITE : MODE_BOTH;
}

static void put_tensors(FILE *file, const dao_step_trace_t *trace)
{
    uint32_t workspaces = 0;
    for (size_t i = 0; i < trace->operator_count; i++) {
        workspaces += trace->operators[i].workspace_bytes > 0;
    }
    (void)fprintf(file, "T %zu\n", trace->tensor_count + workspaces);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const dao_trace_tensor_t *tensor = &trace->tensors[i];
        bool is_carried = tensor->producer == DAO_TRACE_NONE && tensor->released_by == DAO_TRACE_NONE;
        (void)fprintf(file, "%" PRIu32 " %" PRIu64 " %d %.200s\n", i, tensor->size_bytes, is_carried,
                      dao_trace_tensor_id(trace, i));
    }
    size_t number = trace->tensor_count;
    for (size_t i = 0; i < trace->operator_count; i++) {
        if (trace->operators[i].workspace_bytes > 0) {
            (void)fprintf(file, "%zu %" PRIu64 " 0 workspace\n", number++,
                          trace->operators[i].workspace_bytes);
        }
    }
}

void dao_write_tr(FILE *file, const dao_step_trace_t *trace)
{
    size_t workspace = trace->tensor_count;
    put_tensors(file, trace);
    (void)fprintf(file, "K %zu %zu\n", trace->operator_count,
                  trace->first_backward != DAO_TRACE_NONE ? trace->first_backward : trace->operator_count);
    for (size_t i = 0; i < trace->operator_count; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        bool has_workspace = op->workspace_bytes > 0;
        (void)fprintf(file, "%" PRIu64 ".%03u %zu", op->cost_ns / 1000, (unsigned)(op->cost_ns % 1000),
                      op->operands.count + has_workspace);
        for (size_t k = 0; k < op->operands.count; k++) {
            const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + k];
            (void)fprintf(file, " %" PRIu32 ":%d", operand->tensor, mode_of(operand->access));
        }
        if (has_workspace) {
            (void)fprintf(file, " %zu:%d", workspace++, MODE_OVERWRITE);
        }
        (void)fputc('\n', file);
    }
}
