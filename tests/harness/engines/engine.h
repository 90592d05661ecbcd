/* SPDX-License-Identifier: Apache-2.0 */
/* What the engines share: an input is a program and the faults that it meets. Inputs run in child processes,
   so that a crash, a wrong answer and a hang are alike, and what is found is shrunk. */
#ifndef DAO_TESTS_HARNESS_ENGINES_ENGINE_H
#define DAO_TESTS_HARNESS_ENGINES_ENGINE_H

#include "base/report/fault.h"
#include "tests/harness/program.h"
#include "tests/support/backends/fault_backend.h"

/* The points at which an input can fail: those of the library, then the calls of the device. */
#define ENGINE_POINT_COUNT ((uint32_t)DAO_FAULT_COUNT + (uint32_t)FAULT_CALL_COUNT)

/* One fault: the skip-th call of a point, and all behind it if it is persistent. */
typedef struct engine_fault {
    bool is_set;
    uint32_t point;
    uint64_t skip;
    bool is_persistent;
} engine_fault_t;

typedef struct engine_input {
    uint64_t index; /* for what makes inputs: which one this is */
    size_t length;
    engine_fault_t faults[2]; /* the second one is armed when the first one has fired */
    bool spares_start;        /* points are counted from the first call on, not from the library's start */
    uint8_t bytes[HARNESS_PROGRAM_BYTES];
} engine_input_t;

/* Makes the `index`-th input of an engine; returns false behind the last one. */
typedef bool (*engine_next_t)(uint64_t index, engine_input_t *out_input, void *user);

/* What running an input has shown, for the next one. */
typedef struct engine_result {
    uint64_t passed[ENGINE_POINT_COUNT]; /* calls of each point */
    bool has_fired[2];
} engine_result_t;

/* Called after each input that ran to its end. */
typedef void (*engine_done_t)(const engine_input_t *input, const engine_result_t *result, void *user);

/* Runs one input in this process. */
void engine_run(const engine_input_t *input, bool prints, engine_result_t *out_result);

/* Runs an input in a child process. Returns true if it ends well. */
bool engine_run_apart(const engine_input_t *input, bool prints, bool is_quiet);

/* Runs inputs [0, ...) in one child process until next() says no. Returns true if all end well; else
 *out_failed is the one that did not. */
bool engine_run_all(engine_next_t next, engine_done_t done, void *user, engine_input_t *out_failed);

/* Makes a failing input smaller: drops calls, clears bytes, as long as it fails. */
void engine_shrink(engine_input_t *input);

/* Shrinks a failing input and prints it: as a C program, as bytes, and how to repeat it. */
void engine_report(engine_input_t *input, const char *path);

const char *engine_point_text(uint32_t point);

/* ---- the sweep of faults (sweep.c) ---- */

/* Runs programs of seeds [first, ...) with each fault that they pass, once and persistently, and short ones
   with pairs, until run_count inputs have run; or paired_count programs with all pairs, unless that is 0.
   Returns true if nothing was found and, without paired_count, every point that can be reached was hit. */
bool engine_sweep(uint64_t first_seed, uint64_t run_count, uint64_t paired_count);

#endif
