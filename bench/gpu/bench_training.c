/* SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 200809L /* popen */
#include "bench/gpu/bench_training.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_BYTES = 512 };

/* Reads a line of the table; false if it is none. */
static bool read_row(const char *line, dao_bench_training_row_t *out_row, bool *out_is_identical)
{
    static const char no_limit[] = "no limit";
    char over_bound[16], over_forecast[16], identical[8];
    int length = 0;
    *out_row = (dao_bench_training_row_t){.percent = 0};
    if (strncmp(line, no_limit, strlen(no_limit)) == 0) {
        length = (int)strlen(no_limit);
    } else if (sscanf(line, "%lf %%%n", &out_row->percent, &length) != 1 || length == 0) {
        return false;
    }
    /* peak, step, in, out, evictions, fetches, planned, over bound, over forecast, loss, identical */
    if (sscanf(line + length, "%*f %lf %*f %*f %*f %*f %*u %15s %15s %*f %7s", &out_row->step_ms, over_bound,
               over_forecast, identical) != 4) {
        return false;
    }
    out_row->over_bound =
        strtod(over_bound, NULL); /* "-", where no step with a plan was measured, reads as 0 */
    out_row->over_forecast = strtod(over_forecast, NULL);
    *out_is_identical = strcmp(identical, "yes") == 0;
    return true;
}

dao_status_t dao_bench_training_run(const char *command,
                                    void (*visit)(const dao_bench_training_row_t *row, void *user),
                                    void *user)
{
    char line[LINE_BYTES];
    size_t row_count = 0;
    bool all_identical = true;
    (void)fflush(stdout); /* the command's own output is behind ours */
    FILE *output = popen(command, "r");
    if (output == NULL) {
        return dao_error(DAO_ERR_INVALID, "the training cannot be run: %.200s", command);
    }
    while (fgets(line, sizeof(line), output) != NULL) {
        dao_bench_training_row_t row;
        bool is_identical;
        if (read_row(line, &row, &is_identical)) {
            row_count++;
            all_identical = all_identical && is_identical;
            visit(&row, user);
        }
    }
    int exit_code = pclose(output);
    if (exit_code != 0 || !all_identical) {
        return dao_error(DAO_ERR_INVALID, "the training failed%s: %.200s",
                         all_identical ? "" : ": its losses are others in less memory", command);
    }
    return row_count > 0
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "the training printed no row of a capacity: %.200s", command);
}
