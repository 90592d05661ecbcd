/* The errors with which tests make calls of a vendor fail, and the statuses that they are to the library. Included behind the
   names of one vendor. */
#ifndef DAO_TESTS_LOOPBACK_FAILURES_H
#define DAO_TESTS_LOOPBACK_FAILURES_H

#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

typedef struct failure {
    vendorError_t error;
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

/* For the end of a program, or of its part whose calls are its own: every call that has come has failed with every error. */
static inline void every_call_has_failed_with_every_error(void)
{
    int errors[FAILURE_COUNT];
    long case_count = 0;
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        errors[i] = (int)failures[i].error;
    }
    CU_ASSERT_EQUAL(loopback_missing_cases(errors, FAILURE_COUNT, &case_count), 0);
    CU_ASSERT_TRUE(case_count >= 100);
    (void)printf("    calls x errors: %ld cases\n", case_count);
}

/* Gives something back. A call that fails because a test asked for it is made once more; a device that is lost keeps all. */
#define GIVE_BACK(call)                                                                                      \
    do {                                                                                                     \
        dao_status_t first_ = (call);                                                                        \
        dao_status_t second_ = first_ != DAO_OK ? (call) : DAO_OK;                                           \
        CU_ASSERT_TRUE(first_ == DAO_OK || loopback_has_failed());                                           \
        CU_ASSERT_TRUE(second_ == DAO_OK || first_ == DAO_ERR_DEVICE_LOST);                                  \
    } while (0)

#endif
