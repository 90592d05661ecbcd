/* SPDX-License-Identifier: Apache-2.0 */
/* What memory in stream order owes at a place, whatever keeps the place: a test program starts it and runs
   the tests. */
#ifndef DAO_TESTS_CONTRACT_STREAM_CONTRACT_H
#define DAO_TESTS_CONTRACT_STREAM_CONTRACT_H

#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

#include <dao/place_config.h>

/* Starts the library with a place of device 0 to allocate at. Not 0 if that fails. */
int stream_contract_start(dao_place_t where, const dao_place_config_t *config, const fault_config_t *faults);
int stream_contract_stop(void);

/* Setup and teardown of a test. */
void stream_contract_begin(void);
void stream_contract_end(void);

/* The tests: of every place; of those that hand freed blocks out again before their streams are done; of
   those whose blocks are cut and merged; programs at random. */
extern CU_TestInfo stream_contract_tests[];
extern CU_TestInfo stream_contract_reuse_tests[];
extern CU_TestInfo stream_contract_range_tests[];
extern CU_TestInfo stream_contract_random_tests[];

/* Starts the library itself, as the suite before did. */
extern CU_TestInfo stream_contract_end_tests[];

#endif
