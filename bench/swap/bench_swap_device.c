/* SPDX-License-Identifier: Apache-2.0 */
/* The set `device` of `dao-bench swap`: steps that are planned and run, each operator for as long as it was
   recorded, on links that are held back to 1 GB/s each way. What else the machine does is in these
   figures. */
#include "bench/swap/bench_swap.h"

#include "base/numbers/math.h"
#include "tools/print/report.h"
#include "tools/run/run_plan.h"

#include <math.h>
#include <stdio.h>

#define LINK_BYTES_PER_SECOND UINT64_C(1000000000)

#define STEP_OVER_BOUND_MAX 1.10
#define FORECAST_ERROR_MAX  0.07

typedef struct cell {
    dao_bench_step_t step;
    uint32_t percent; /* of the peak */
} cell_t;

static const cell_t cells[] = {
    {{"torch-steps/mobilenet_v2/mobilenet_v2.io_info.json", NULL}, 50},
    {{"heuristic-allocator/MobilenetV2.io_info.json.gz", "4"}, 50},
    {{"heuristic-allocator/Squeezenet.io_info.json.gz", "16"}, 90},
};

#define CELL_COUNT (sizeof(cells) / sizeof(cells[0]))

/* What a step is judged by. */
#define RATIO_LIST(X)                                                                                        \
    X(bound, result->bound.step_ns)                                                                          \
    X(forecast, result->forecast_ns)                                                                         \
    X(replayed, result->replayed_ns)

static double seconds(uint64_t time_ns)
{
    return (double)time_ns / (double)DAO_NS_PER_S;
}

static double step_over(const dao_run_plan_result_t *result, uint64_t time_ns)
{
    return time_ns > 0 ? (double)result->step_ns / (double)time_ns : 0;
}

static void print_row(dao_bench_swap_t *bench, const cell_t *cell, const char *name,
                      const dao_run_plan_result_t *result)
{
    if (!bench->is_json) {
        printf("%-24s %7u%% %8.4fs", name, cell->percent, seconds(result->step_ns));
#define PRINT_RATIO(what, time_ns) printf(" %10.4f", step_over(result, time_ns));
        RATIO_LIST(PRINT_RATIO)
#undef PRINT_RATIO
        printf(" %10llu\n", (unsigned long long)result->mismatch_count);
        dao_output_flush();
        return;
    }
    dao_bench_step_json(bench, &cell->step);
    dao_json_rows_count(&bench->json, "capacity_bytes", result->capacity_bytes);
    dao_json_rows_decimal(&bench->json, "step_s", seconds(result->step_ns), 6);
#define JSON_RATIO(what, time_ns)                                                                            \
    dao_json_rows_decimal(&bench->json, "step_over_" #what, step_over(result, time_ns), 4);
    RATIO_LIST(JSON_RATIO)
#undef JSON_RATIO
    dao_json_rows_count(&bench->json, "mismatches", result->mismatch_count);
}

static void hold_row(dao_bench_swap_t *bench, const char *name, const dao_run_plan_result_t *result)
{
    dao_bench_swap_hold(bench, name, "step / bound", step_over(result, result->bound.step_ns),
                        STEP_OVER_BOUND_MAX);
    dao_bench_swap_hold(bench, name, "distance of step / forecast from 1",
                        fabs(step_over(result, result->forecast_ns) - 1), FORECAST_ERROR_MAX);
    dao_bench_swap_hold(bench, name, "wrong words", (double)result->mismatch_count, 0);
}

static dao_status_t run_trace(dao_bench_swap_t *bench, const cell_t *cell, const dao_step_trace_t *trace)
{
    dao_step_figures_t figures;
    dao_run_plan_result_t result;
    char name[DAO_BENCH_STEP_NAME_BYTES];
    dao_status_t status = dao_step_trace_figures(trace, &figures);
    if (status == DAO_OK) {
        const dao_run_plan_config_t config = {
            .capacity_bytes = figures.peak_bytes / 100 * cell->percent,
            .link_in_bytes_per_second = LINK_BYTES_PER_SECOND,
            .link_out_bytes_per_second = LINK_BYTES_PER_SECOND,
            .time_scale = 1,
        };
        status = dao_run_plan(&config, trace, &result);
    }
    if (status != DAO_OK) {
        return status;
    }
    bench->row_count++;
    dao_bench_step_name(&cell->step, name);
    print_row(bench, cell, name, &result);
    hold_row(bench, name, &result);
    return DAO_OK;
}

dao_status_t dao_bench_swap_device(dao_bench_swap_t *bench)
{
    dao_status_t status = DAO_OK;
    if (!bench->is_json) {
        printf("%-24s %8s %9s", "step", "capacity", "measured");
#define PRINT_HEAD(what, time_ns) printf(" %10s", "/" #what);
        RATIO_LIST(PRINT_HEAD)
#undef PRINT_HEAD
        printf(" %10s\n", "mismatches");
    }
    for (size_t i = 0; i < CELL_COUNT && status == DAO_OK; i++) {
        dao_step_trace_t trace;
        bool is_there;
        status = dao_bench_step_read(bench, &cells[i].step, &trace, &is_there);
        if (status == DAO_OK && is_there) {
            status = run_trace(bench, &cells[i], &trace);
            dao_step_trace_finish(&trace);
        }
    }
    return status;
}
