/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a program against the library and the model. */
#ifndef DAO_TESTS_HARNESS_RUN_H
#define DAO_TESTS_HARNESS_RUN_H

#include "backends/backend.h"
#include "tests/harness/model.h"

/* How a program is run. All zero: no fault, all blocks are compared every eighth call and at the end. */
typedef struct harness_run {
    bool has_faults; /* the engine arms fault points: see model_answer() */
    bool prints;     /* what it does, as a C program, on standard output */
    uint32_t deep_every;
    const dao_backend_ops_t *(*wrap)(const dao_backend_ops_t *ops); /* around the device; or NULL */
    /* Called before each call, if it is set: the engine's own. */
    void (*before)(const harness_program_t *program, uint32_t op_index, void *user);
    void *user;
} harness_run_t;

/* Makes one call, without a comparison behind it. Returns true if it has called the library. */
bool harness_call(model_t *model, const harness_op_t *op);

/* Runs all calls, one after the other in this thread, then ends the library and checks that nothing is left.
   A wrong answer is printed and aborts. */
void harness_run(const harness_program_t *program, const harness_run_t *run);

#endif
