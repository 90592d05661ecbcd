/* SPDX-License-Identifier: Apache-2.0 */
/* One test program a module: a table of CUnit suites and a main that runs them. */
#ifndef DAO_TESTS_SUPPORT_SUITE_H
#define DAO_TESTS_SUPPORT_SUITE_H

#include "base/numbers/random.h"

#include <CUnit/CUnit.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Runs the suites (closed by CU_SUITE_INFO_NULL) and prints CUnit's summary. With an argument, `test_slab
   "frees"`, or DAO_TEST_CASE in the environment, only the cases with that word in their own or their suite's
   name run; if there is none, the nearest names are printed. Returns main's result: a failure too if the
   library counted an internal error (base/internal_error.h). */
int dao_suite_run(CU_SuiteInfo *suites);

/* The seed of a random test: DAO_TEST_SEED if set, else `fallback`; printed, so that a failure can be
   repeated. */
uint64_t dao_test_seed(const char *test, uint64_t fallback);

/* Returns true where the environment says that this build runs the same objects on another backend as well
   (DAO_TEST_AGAIN): what takes long is to run a part of its rounds, as it is the backend that differs. */
bool dao_test_is_again(void);

/* A file in a folder of its own: setup and teardown of the one suite of a program that writes it. */
extern char dao_test_path[];
int dao_test_path_begin(void);
int dao_test_path_end(void);

/* Writes a file that a test reads then; a failure ends the test. */
void dao_test_write_file(const char *path, const void *bytes, size_t length);

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)

#endif
