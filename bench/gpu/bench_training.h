/* SPDX-License-Identifier: Apache-2.0 */
/* A training that limits its own memory, run as a program of its own: examples/train prints the table that is
   read here. */
#ifndef DAO_TOOLS_BENCH_TRAINING_H
#define DAO_TOOLS_BENCH_TRAINING_H

#include "base/report/error.h"

/* A share of the training's own peak, and the mean of its steps there. */
typedef struct dao_bench_training_row {
    double percent; /* of the peak; 0: no limit */
    double step_ms;
    double over_bound, over_forecast; /* of steps that followed a plan; 0: none was measured */
} dao_bench_training_row_t;

/* Runs a command by the shell and visits its rows, the one without a limit first. DAO_ERR_INVALID if it
   cannot be run, fails, computes other losses in less memory, or prints no such table. */
DAO_NODISCARD dao_status_t dao_bench_training_run(
    const char *command, void (*visit)(const dao_bench_training_row_t *row, void *user), void *user);

#endif
