/* SPDX-License-Identifier: Apache-2.0 */
/* An executor with room for some tensors of one size, and a program on it: what suites of whole executors
   begin and end with. */
#ifndef DAO_TESTS_RUNTIME_EXECUTOR_CORE_UNITS_H
#define DAO_TESTS_RUNTIME_EXECUTOR_CORE_UNITS_H

#include "tests/support/backends/device_bytes.h"
#include "tests/support/program.h"

#define UNIT ((size_t)64 << 10) /* size of most tensors */

#define R  DAO_ACCESS_READ
#define W  DAO_ACCESS_WRITE
#define RW DAO_ACCESS_READ_WRITE

extern dao_executor_t *units_executor;
extern program_t units;

/* Tests that need other settings change it before units_begin(); units_end() has the usual ones again. */
extern dao_executor_config_t units_config;

/* The begin and the end of a suite. */
int units_start_suite(void);
int units_end_suite(void);

/* Starts an executor with room for `count` tensors of one unit. */
void units_begin(size_t count);

/* Every scenario ends so: nothing is wrong, nothing is left. */
void units_end(void);

/* What the executor counts, once all that was pushed has run. */
dao_executor_stats_t units_stats(void);

dao_status_t units_push1(const char *name, uint32_t a, dao_access_t access);
dao_status_t units_push2(const char *name, uint32_t a, dao_access_t access_a, uint32_t b,
                         dao_access_t access_b);
dao_status_t units_create(dao_managed_config_t of, dao_managed_t **out_tensor);

/* Creates `count` tensors of one unit, each written by a kernel. */
void units_make_written(uint32_t count);

/* Launches a kernel with one operand of one unit. */
dao_status_t units_launch(const dao_launch_t *launch, device_kernel_t function, void *user);

#endif
