/* SPDX-License-Identifier: Apache-2.0 */
/* A program on an executor without a thread, on a device in virtual time: kernels take as long as they are
   told to, so every wait of the host can be told before. */
#ifndef DAO_TESTS_TIMED_PROGRAM_H
#define DAO_TESTS_TIMED_PROGRAM_H

#include "runtime/executor/executor_internal.h"
#include "tests/support/program.h"

/* The link out moves 64 units in a millisecond. */
#define UNIT (64 * KIB)
#define MS   UINT64_C(1000000)

/* More kernels than a stream holds, so that the host has had to wait for some and knows what they take. */
#define FIRST_KERNELS (DAO_TIMELINE_DEPTH + 200)

typedef struct timed_program {
    dao_executor_t *executor;
    program_t program;
} timed_program_t;

void timed_program_begin(timed_program_t *timed, const dao_executor_config_t *config);

/* Nothing was lost or changed. */
void timed_program_end(timed_program_t *timed);

/* Pushes `count` kernels that take `*time_ns` each; `time_ns` outlives them. */
void timed_program_push(timed_program_t *timed, uint64_t *time_ns, uint32_t count);

#endif
