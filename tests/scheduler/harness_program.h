/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of the harness (tests/harness) on several threads: a call's byte says which thread makes it. */
#ifndef DAO_TESTS_SCHEDULER_HARNESS_PROGRAM_H
#define DAO_TESTS_SCHEDULER_HARNESS_PROGRAM_H

#include <stdint.h>

/* Functions of a scenario_t. The program's bytes come from the scenario's generator. */
void harness_program_begin(const void *program, uint64_t *random);
void harness_program_part(const void *program, uint32_t thread, uint64_t *random);
void harness_program_end(const void *program);

#endif
