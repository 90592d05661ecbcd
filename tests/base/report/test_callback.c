/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks of the program are counted for each thread, and they nest. */
#include "base/report/callback.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

static void outside_of_callbacks_nothing_is_refused(void)
{
    CU_ASSERT_EQUAL(dao_callback_check(), DAO_OK);
}

static void callbacks_nest(void)
{
    dao_callback_begin();
    dao_callback_begin();
    dao_callback_end();
    CU_ASSERT_EQUAL(dao_callback_check(), DAO_ERR_REENTRANT);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_REENTRANT);
    dao_callback_end();
    CU_ASSERT_EQUAL(dao_callback_check(), DAO_OK);
}

static void *check(void *user)
{
    *(dao_status_t *)user = dao_callback_check();
    return NULL;
}

static void another_thread_is_outside(void)
{
    dao_thread_t thread;
    dao_status_t status = DAO_ERR_INVALID;
    dao_callback_begin();
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "outside", check, &status), DAO_OK);
    dao_thread_join(&thread);
    dao_callback_end();
    CU_ASSERT_EQUAL(status, DAO_OK);
}

static CU_TestInfo tests[] = {
    {"outside of callbacks nothing is refused", outside_of_callbacks_nothing_is_refused},
    {"callbacks nest", callbacks_nest},
    {"another thread is outside", another_thread_is_outside},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"callback", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
