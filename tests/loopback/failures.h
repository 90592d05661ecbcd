/* SPDX-License-Identifier: Apache-2.0 */
/* The errors with which tests make a vendor's calls fail, and the library's status for each. Included after
   the names of one vendor. */
#ifndef DAO_TESTS_LOOPBACK_FAILURES_H
#define DAO_TESTS_LOOPBACK_FAILURES_H

#include "base/report/error.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

typedef struct failure {
    int error;           /* a vendorError_t */
    dao_status_t status; /* memory: or DAO_ERR_NO_HOST_MEMORY */
} failure_t;

static const failure_t failures[] = {{(vendorError_t)LOOPBACK_INVALID_VALUE, DAO_ERR_BACKEND},
                                     {vendorErrorMemoryAllocation, DAO_ERR_NO_DEVICE_MEMORY},
                                     {vendorErrorNotReady, DAO_ERR_NOT_READY},
                                     {vendorErrorNoDevice, DAO_ERR_NO_DEVICE},
#define LOST_ROW(code) {(vendorError_t)(code), DAO_ERR_DEVICE_LOST},
                                     VENDOR_LOST_LIST(LOST_ROW)
#undef LOST_ROW
};

#define FAILURE_COUNT (sizeof(failures) / sizeof(failures[0]))

/* Checks at the end of a program that every call that was made has failed with every error. */
static inline void every_call_has_failed_with_every_error(void)
{
    int errors[FAILURE_COUNT];
    long case_count = 0;
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        errors[i] = failures[i].error;
    }
    CU_ASSERT_EQUAL(loopback_missing_cases(errors, FAILURE_COUNT, &case_count), 0);
    CU_ASSERT_TRUE(case_count >= 100);
    (void)printf("    calls x errors: %ld cases\n", case_count);
}

/* Checks a backend's answer after a failed vendor call, and that the driver is left as it was. `is_open` is
   false for the call that opens the backend. */
static inline void check_failure(bool is_open, dao_status_t status, failure_t failure)
{
    CU_ASSERT_EQUAL(status, dao_last_status());
    CU_ASSERT_EQUAL(dao_last_vendor_code(), failure.error);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    CU_ASSERT_EQUAL(loopback_current_device(), 0);
    CU_ASSERT_TRUE(loopback_has_own_capture_mode());
    if (!is_open) {
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_DEVICE);
    } else if (failure.error == vendorErrorMemoryAllocation) {
        CU_ASSERT_TRUE(status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_NO_DEVICE_MEMORY);
    } else {
        CU_ASSERT_EQUAL(status, failure.status);
    }
}

/* Returns true if a call is the one that allows access to pages, or what comes before each call. */
static inline bool is_of_access(const char *call)
{
    return strcmp(call, "allow") == 0 || strcmp(call, "get device") == 0 ||
           strcmp(call, "get current context") == 0;
}

/* Checks the answer of a scenario in which a call had to fail. It may have made fewer calls. */
static inline void check_answer(bool is_open, dao_status_t status, failure_t failure)
{
    if (!loopback_has_failed()) {
        CU_ASSERT_EQUAL(status, DAO_OK);
    } else if (status == DAO_OK && failure.error == vendorErrorNotReady) { /* it was asked again */
        CU_ASSERT_TRUE(is_of_access(loopback_failed_call()));
    } else if (status == DAO_OK) { /* asked for pools of the driver: there are none */
        CU_ASSERT_EQUAL(failure.error, vendorErrorInvalidValue);
    } else {
        check_failure(is_open, status, failure);
    }
}

/* A scenario in which `call_count` calls to the vendor succeed and the next one fails. */
typedef void (*failing_scenario_t)(long call_count, failure_t failure);

/* Fails each call of a scenario in turn. Returns their number. */
static inline long fail_every_call(failing_scenario_t scenario, failure_t failure)
{
    long call_count = -1;
    do {
        scenario(++call_count, failure);
    } while (loopback_has_failed());
    return call_count;
}

/* Fails each call of both scenarios with every error. Returns the number of cases. */
static inline long fail_every_call_with_every_error(failing_scenario_t work, failing_scenario_t give_back)
{
    long case_count = 0;
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        case_count += fail_every_call(work, failures[i]) + fail_every_call(give_back, failures[i]);
    }
    (void)printf("    %zu errors, each at every call: %ld cases\n", FAILURE_COUNT, case_count);
    return case_count;
}

/* Frees something. A call that fails on request is repeated; a lost device keeps everything. */
#define GIVE_BACK(call)                                                                                      \
    do {                                                                                                     \
        dao_status_t first_ = (call);                                                                        \
        dao_status_t second_ = first_ != DAO_OK ? (call) : DAO_OK;                                           \
        CU_ASSERT_TRUE(first_ == DAO_OK || loopback_has_failed());                                           \
        CU_ASSERT_TRUE(second_ == DAO_OK || first_ == DAO_ERR_DEVICE_LOST);                                  \
    } while (0)

#endif
