/* SPDX-License-Identifier: Apache-2.0 */
/* From a program to calls: start, each call with a comparison behind it, end. */
#include "tests/harness/run.h"

#include "base/report/fault.h"
#include "tests/harness/calls/calls.h"
#include "tests/harness/pairs.h"
#include "tests/support/backends/fault_backend.h"

#include <assert.h>

#define DEEP_EVERY 8u

static const harness_call_func_t functions[] = {
    call_alloc,
    call_alloc_with,
    call_alloc_async,
    call_free,
    call_free_async,
    call_free_wrong,
    call_record_stream,
    call_work,
    call_stream_fill,
    call_stream_copy,
    call_stream_copy_batch,
    call_copy,
    call_run,
    call_stream_create,
    call_stream_adopt,
    call_stream_destroy,
    call_stream_synchronize,
    call_device_synchronize,
    call_event_create,
    call_event_destroy,
    call_event_record,
    call_event_query,
    call_event_synchronize,
    call_event_elapsed,
    call_stream_wait_event,
    call_memory_create,
    call_memory_from_pointer,
    call_memory_sub_range,
    call_memory_retain,
    call_memory_release,
    call_tensor_empty,
    call_tensor_zeros,
    call_tensor_from_memory,
    call_tensor_view,
    call_tensor_release,
    call_dlpack_export,
    call_dlpack_import,
    call_lease_begin,
    call_lease_commit,
    call_lease_cancel,
    call_lease_enter,
    call_lease_leave,
    call_lease_retain,
    call_lease_release,
    call_trim,
    call_limit_set,
    call_host_limit_set,
    call_tag_set_current,
    call_tag_limit_set,
    call_step_begin,
    call_step_end,
    call_step_key_set,
    call_step_enable,
    call_step_reset,
    call_step_save_load,
    call_step_stats,
    call_configure,
    call_events,
    call_snapshot,
    call_block_query,
    call_stats_reset,
    call_hardening_check,
    call_pressure,
    call_segment,
    call_host_register,
    call_address_place,
    call_stream_query,
    call_place_register,
    call_peer,
    call_share,
    call_executor_create,
    call_executor_push,
    call_executor_step,
    call_executor_sync,
    call_executor_destroy,
    call_managed_create,
    call_managed_create_from,
    call_managed_write,
    call_managed_view,
    call_managed_read,
    call_managed_pin,
    call_managed_release,
    call_command_list,
    call_command_list_plan,
    call_fork,
    call_finalize,
};
static_assert(sizeof(functions) / sizeof(functions[0]) == HARNESS_CALL_COUNT, "a function for each call");

uint64_t harness_fault_count(void)
{
    return dao_fault_fired_count() + fault_backend_fired_count();
}

bool harness_call(model_t *model, const harness_op_t *op)
{
    model->where = harness_call_text(op->call);
    model->fault_count = harness_fault_count();
    return functions[op->call](model, op);
}

/* Makes one call and compares. */
static void make_call(model_t *model, const harness_op_t *op, bool is_deep)
{
    if (harness_call(model, op)) {
        harness_pairs_note(&model->program->config, op->call);
        model_compare(model, is_deep);
    }
    model->has_met_fault = model->has_met_fault || harness_fault_count() > 0;
}

void harness_run(const harness_program_t *program, const harness_run_t *run)
{
    static model_t model;
    uint32_t deep_every = run->deep_every != 0 ? run->deep_every : DEEP_EVERY;
    model = (model_t){.program = program,
                      .may_fail = run->has_faults,
                      .wrap = run->wrap,
                      .prints = run->prints,
                      .where = "start"};
    model.fault_count = harness_fault_count();
    bool is_started = harness_start(&model);
    for (uint32_t i = 0; is_started && model.is_started && i < program->op_count; i++) {
        model.op_index = i;
        if (run->before != NULL) {
            run->before(program, i, run->user);
        }
        make_call(&model, &program->ops[i], i % deep_every == deep_every - 1 || i + 1 == program->op_count);
    }
    model.where = "end";
    model.fault_count = harness_fault_count();
    harness_stop(&model);
}
