/* SPDX-License-Identifier: Apache-2.0 */
/* What every backend owes, as a suite that runs on any table:

       backend_contract_set(&ops, &config);
       {"NAME", init, NULL, backend_contract_begin, backend_contract_end, backend_contract_tests},
       {"NAME, pages", init, NULL, backend_contract_begin, backend_contract_end, backend_contract_pages_tests}

   where `init` calls backend_contract_set(). Device memory is looked at through copies alone. */
#ifndef DAO_TESTS_CONTRACT_BACKEND_CONTRACT_H
#define DAO_TESTS_CONTRACT_BACKEND_CONTRACT_H

#include "backends/backend.h"
#include "tests/support/suite.h"

/* Sets the subject of the tests that run next. Both are borrowed; the config is copied. */
void backend_contract_set(const dao_backend_ops_t *ops, const dao_config_t *config);

/* How a stream is held up, and how time goes by. For a backend in virtual time, where no host function may
   wait. */
typedef struct backend_contract_time {
    void *(*hold)(dao_backend_stream_t *stream); /* the stream stops here until the gate is opened */
    void (*await_held)(void *gate);              /* until it has come there */
    void (*open)(void *gate);
    void (*drop)(void *gate);
    void (*pass)(dao_backend_device_t *device, uint64_t duration_ns);
} backend_contract_time_t;

/* Sets it for the tests that run next. Before the first call host functions wait, and time is real. */
void backend_contract_set_time(const backend_contract_time_t *time);

/* Before and after each test: device 0 is open, with two streams. */
void backend_contract_begin(void);
void backend_contract_end(void);

extern CU_TestInfo backend_contract_tests[];
extern CU_TestInfo backend_contract_byteless_tests[]; /* of these, what can be seen without bytes */
extern CU_TestInfo backend_contract_pages_tests[];    /* virtual memory; skipped by name without it */

/* Ends the program, naming the line: for calls without which a test cannot go on. */
void test_need(dao_status_t status, const char *file, int line);
#define NEED(call) test_need((call), __FILE__, __LINE__)

#endif
