/* SPDX-License-Identifier: Apache-2.0 */
/* The engine's failure: the first one is kept, and the loss of the device stands above it. */
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "tests/support/suite.h"

#include <string.h>

static dao_engine_t engine;

static void begin(void)
{
    memset(&engine, 0, sizeof(engine));
}

static void the_first_failure_is_kept(void)
{
    begin();
    dao_engine_fail(&engine, dao_error(DAO_ERR_COPY_FAILED, "the first"), false);
    CU_ASSERT_TRUE(engine.has_failed);
    CU_ASSERT_FALSE(engine.is_lost);
    dao_engine_fail(&engine, dao_error(DAO_ERR_KERNEL_FAILED, "a consequence"), false);
    CU_ASSERT_EQUAL(engine.failure.status, DAO_ERR_COPY_FAILED);
    CU_ASSERT_STRING_EQUAL(engine.failure.message, "the first");
}

static void a_loss_replaces_a_failure_and_names_it(void)
{
    begin();
    dao_engine_fail(&engine, dao_error(DAO_ERR_COPY_FAILED, "the first"), false);
    dao_engine_fail(&engine, dao_error(DAO_ERR_BACKEND, "the device is gone"), true);
    CU_ASSERT_TRUE(engine.is_lost);
    CU_ASSERT_EQUAL(engine.failure.status, DAO_ERR_BACKEND);
    CU_ASSERT_PTR_NOT_NULL(strstr(engine.failure.message, "the device is gone"));
    CU_ASSERT_PTR_NOT_NULL(strstr(engine.failure.message, "the first"));
}

static void a_lost_device_is_a_loss_without_being_told(void)
{
    begin();
    dao_engine_fail(&engine, dao_error(DAO_ERR_DEVICE_LOST, "lost"), false);
    CU_ASSERT_TRUE(engine.is_lost);
    dao_engine_fail(&engine, dao_error(DAO_ERR_DEVICE_LOST, "lost again"), true);
    CU_ASSERT_STRING_EQUAL(engine.failure.message, "lost");
}

static void what_went_well_is_no_loss(void)
{
    begin();
    dao_engine_lose_unless_ok(&engine, DAO_OK);
    CU_ASSERT_FALSE(engine.has_failed);
    dao_engine_lose_unless_ok(&engine, dao_error(DAO_ERR_BACKEND, "a wait"));
    CU_ASSERT_TRUE(engine.is_lost);
}

static CU_TestInfo tests[] = {
    {"the first failure is kept", the_first_failure_is_kept},
    {"a loss replaces a failure and names it", a_loss_replaces_a_failure_and_names_it},
    {"a lost device is a loss without being told", a_lost_device_is_a_loss_without_being_told},
    {"what went well is no loss", what_went_well_is_no_loss},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"failure", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
