/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/swap/bench_swap.h"

#include "base/report/error.h"
#include "tools/read/step/read_step.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 4096 };

void dao_bench_step_name(const dao_bench_step_t *step, char text[DAO_BENCH_STEP_NAME_BYTES])
{
    const char *file = strrchr(step->file, '/') + 1, *end = strstr(file, ".io_info");
    end = end != NULL ? end : strrchr(file, '.');
    (void)snprintf(text, DAO_BENCH_STEP_NAME_BYTES, "%.*s%s%s", (int)(end - file), file,
                   step->batch != NULL ? "." : "", step->batch != NULL ? step->batch : "");
}

dao_status_t dao_bench_step_read(const dao_bench_swap_t *bench, const dao_bench_step_t *step,
                                 dao_step_trace_t *out_trace, bool *out_is_there)
{
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof(path), "%s/%s", bench->data, step->file);
    if (length < 0 || length >= (int)sizeof(path)) {
        return dao_error(DAO_ERR_INVALID, "%.200s: the path is too long", bench->data);
    }
    *out_is_there = access(path, R_OK) == 0;
    if (!*out_is_there) {
        (void)fprintf(stderr, "%s: not there, left out\n", path);
        return DAO_OK;
    }
    return dao_read_step(path, step->batch, out_trace);
}

void dao_bench_step_json(dao_bench_swap_t *bench, const dao_bench_step_t *step)
{
    dao_json_rows_begin(&bench->json);
    dao_json_rows_text(&bench->json, "step", step->file);
    if (step->batch != NULL) {
        dao_json_rows_text(&bench->json, "batch", step->batch);
    }
}

void dao_bench_swap_hold(dao_bench_swap_t *bench, const char *row, const char *what, double figure,
                         double most)
{
    if (bench->is_checked && figure > most) {
        (void)fprintf(stderr, "%s: %s is %.4f, at most %.4f\n", row, what, figure, most);
        bench->breach_count++;
    }
}
