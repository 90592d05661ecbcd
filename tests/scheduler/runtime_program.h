/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that share what has a life of its own: handles, an executor, the library itself. Each program is
   the functions of a scenario_t. */
#ifndef DAO_TESTS_SCHEDULER_RUNTIME_PROGRAM_H
#define DAO_TESTS_SCHEDULER_RUNTIME_PROGRAM_H

#include <stdint.h>

/* One memory handle that all threads hold: references, ranges and tensors of it, and one call of its
   deleter. */
void handle_program_begin(const void *program, uint64_t *random);
void handle_program_part(const void *program, uint32_t thread, uint64_t *random);
void handle_program_end(const void *program);

/* An executor with room for two of its tensors: kernels, reads and syncs of several threads. It ends with
   kernels in flight. */
void executor_program_begin(const void *program, uint64_t *random);
void executor_program_part(const void *program, uint32_t thread, uint64_t *random);
void executor_program_end(const void *program);

/* The library starts and stops while others start it, use it and stop it. */
void start_program_part(const void *program, uint32_t thread, uint64_t *random);
void start_program_end(const void *program);

/* The library stops while others release handles. */
void stop_program_begin(const void *program, uint64_t *random);
void stop_program_part(const void *program, uint32_t thread, uint64_t *random);
void stop_program_end(const void *program);

/* A thread forks while others call: in the child every call says so, and waits for nobody. */
void fork_program_begin(const void *program, uint64_t *random);
void fork_program_part(const void *program, uint32_t thread, uint64_t *random);
void fork_program_end(const void *program);

#endif
