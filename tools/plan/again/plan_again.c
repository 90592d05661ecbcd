/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/plan/again/plan_again.h"

#include "base/report/error.h"
#include "tools/base/progress.h"
#include "tools/plan/again/longer_step.h"
#include "tools/print/report.h"
#include "tools/read/step/read_step.h"
#include "tools/write/out_file.h"
#include "tools/write/write_dao_step.h"

#include <string.h>

/* Writes the longer step, reads it back and checks what was read. Standard output is not read back. */
static dao_status_t write_longer(const char *path, const dao_step_trace_t *trace,
                                 const dao_step_problem_t *step, const dao_recompute_step_t *longer)
{
    dao_step_trace_t made;
    dao_status_t status = dao_longer_step_make(trace, step, longer, &made);
    if (status != DAO_OK) {
        return status;
    }
    FILE *file = dao_out_file_open(path);
    status = file == NULL ? DAO_ERR_IO : dao_out_file_close(file, path, dao_write_dao_step(file, &made));
    dao_step_trace_finish(&made);
    if (status == DAO_OK && !dao_out_file_is_standard(path)) {
        dao_step_trace_t read;
        dao_step_trace_init(&read);
        status = dao_read_step(path, NULL, &read);
        if (status == DAO_OK && (status = dao_longer_step_check(step, longer, &read)) != DAO_OK) {
            dao_error_prefix("%s: ", path);
        }
        dao_step_trace_finish(&read);
    }
    return status;
}

static int report(const dao_plan_again_config_t *config, const dao_recompute_bound_t *bound,
                  const dao_recompute_plan_t *plan)
{
    const dao_recompute_step_t *longer = dao_recompute_plan_step(plan);
    const dao_swap_schedule_t *schedule = dao_recompute_plan_schedule(plan);
    dao_report_t lines;
    dao_report_begin(&lines, config->is_json);
    dao_report_bytes(&lines, "capacity_bytes", "capacity", config->capacity_bytes);
    dao_report_bytes(&lines, "arena_bytes", "used of it", schedule->arena_bytes);
    dao_report_bytes(&lines, "host_bytes", "host memory", schedule->host_bytes);
    dao_report_time(&lines, "compute_s", "kernels, each once", bound->compute_ns);
    dao_report_time(&lines, "step_s", "a step", schedule->step_ns);
    dao_report_time(&lines, "bound_s", "at least", bound->step_ns);
    dao_report_count(&lines, "again_count", "kernels run again", longer->again_count);
    dao_report_time(&lines, "again_s", "which takes", longer->again_ns);
    dao_report_bytes(&lines, "bytes_in", "copied in", schedule->in_bytes);
    dao_report_bytes(&lines, "bytes_out", "copied out", schedule->out_bytes);
    return dao_report_end(&lines);
}

static void tell(void *user, uint32_t done)
{
    (void)user; /* a process has one progress */
    dao_progress_set(done);
}

static dao_status_t plan_step(const dao_plan_again_config_t *config, const dao_step_trace_t *trace,
                              const dao_step_problem_t *step, int *out_exit)
{
    dao_recompute_bound_t bound;
    dao_recompute_plan_t *plan = NULL;
    const dao_recompute_config_t plan_config = {.on_progress = tell};
    dao_progress_phase("planning", DAO_PROGRESS_UNIT_PARTS, DAO_RECOMPUTE_PROGRESS_PARTS);
    dao_status_t status = dao_recompute_find_bound(&step->problem, &bound);
    status = status == DAO_OK ? dao_recompute_plan_make(&step->problem, &plan_config, &plan) : status;
    status = status == DAO_OK ? dao_recompute_check(&step->problem, dao_recompute_plan_step(plan)) : status;
    if (status == DAO_OK && config->output != NULL) {
        status = write_longer(config->output, trace, step, dao_recompute_plan_step(plan));
    }
    if (status == DAO_OK && !dao_out_file_is_standard(config->output)) {
        dao_progress_hide();
        *out_exit = report(config, &bound, plan);
    }
    dao_recompute_plan_destroy(plan);
    return status;
}

dao_status_t dao_plan_again(const dao_plan_again_config_t *config, int *out_exit)
{
    dao_step_trace_t trace;
    dao_step_problem_t step;
    dao_step_trace_init(&trace);
    dao_status_t status = dao_read_step(config->path, config->batch, &trace);
    if (status == DAO_OK) {
        status = dao_step_problem_make(&trace, &step);
    }
    if (status == DAO_OK) {
        step.problem.capacity_bytes = config->capacity_bytes;
        step.problem.host = config->host;
        status = plan_step(config, &trace, &step, out_exit);
        dao_step_problem_finish(&step);
    }
    dao_step_trace_finish(&trace);
    return status;
}
