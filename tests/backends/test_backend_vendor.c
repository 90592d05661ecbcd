/* SPDX-License-Identifier: Apache-2.0 */
/* The backend for real devices, in builds for cuda and hip. Without a device it has to say so in words; where
   DAO_TEST_DEVICE is on a device is promised, and its absence is a failure. */
#include "backends/vendor/vendor.h"

#include "base/report/error.h"
#include "tests/contract/backend_contract.h"

#include <stdio.h>
#include <string.h>

static void the_table_is_whole(void)
{
    const dao_backend_ops_t *ops = &dao_vendor_backend_ops;
    CU_ASSERT_EQUAL(dao_backend_ops_check(ops), DAO_OK);
    CU_ASSERT_STRING_EQUAL(ops->name, DAO_TEST_BACKEND);
    CU_ASSERT_STRING_EQUAL(dao_backend_ops()->name, "cpu"); /* the tests' own, see tests/CMakeLists.txt */
    CU_ASSERT_PTR_NOT_NULL(ops->copy_peer);
    CU_ASSERT_TRUE(dao_backend_has_pages(ops));
}

static void opening_gives_a_device_or_says_why_not(void)
{
    const dao_backend_ops_t *ops = &dao_vendor_backend_ops;
    dao_config_t config = {0};
    dao_backend_t *const untouched = (dao_backend_t *)&config;
    for (int i = 0; i < 2; i++) { /* a failure does not spoil the next try */
        dao_backend_t *backend = untouched;
        dao_status_t status = ops->open(&config, &backend);
        if (status == DAO_OK) {
            int32_t count = 0;
            CU_ASSERT_EQUAL(ops->device_count(backend, &count), DAO_OK);
            CU_ASSERT_TRUE(count >= 1 && count <= DAO_DEVICE_COUNT_MAX);
            ops->close(backend);
            continue;
        }
        CU_ASSERT_EQUAL(status, DAO_ERR_NO_DEVICE);
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device"));
        CU_ASSERT_PTR_EQUAL(backend, untouched);
        CU_ASSERT_FALSE(DAO_TEST_DEVICE);
        (void)printf("    no device: %s (code %d)\n", dao_last_message(), dao_last_vendor_code());
    }
}

static void a_device_that_is_not_there_is_refused(void)
{
    const dao_backend_ops_t *ops = &dao_vendor_backend_ops;
    dao_config_t config = {0};
    dao_backend_t *backend = NULL;
    if (ops->open(&config, &backend) != DAO_OK) {
        (void)printf("    skipped: %s\n", dao_last_message());
        return;
    }
    int32_t count = 0;
    dao_backend_device_t *device = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->device_count(backend, &count), DAO_OK);
    CU_ASSERT_EQUAL(ops->device_open(backend, count, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(ops->device_open(backend, -1, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(device);
    ops->close(backend);
}

static CU_TestInfo tests[] = {
    {"the table is whole", the_table_is_whole},
    {"opening gives a device or says why not", opening_gives_a_device_or_says_why_not},
    {"a device that is not there is refused", a_device_that_is_not_there_is_refused},
    CU_TEST_INFO_NULL,
};

/* The contract runs where a device opens; elsewhere the program says why it does not. */
static bool has_device(void)
{
    dao_config_t config = {0};
    dao_backend_t *backend = NULL;
    if (dao_vendor_backend_ops.open(&config, &backend) != DAO_OK) {
        (void)printf("    skipped: the contract of backends: %s\n", dao_last_message());
        return false;
    }
    dao_vendor_backend_ops.close(backend);
    return true;
}

static int be_the_vendor(void)
{
    dao_config_t config = {0};
    backend_contract_set(&dao_vendor_backend_ops, &config);
    return 0;
}

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"backend_vendor", NULL, NULL, NULL, NULL, tests},
        {"contract: " DAO_TEST_BACKEND, be_the_vendor, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: " DAO_TEST_BACKEND ", pages", be_the_vendor, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_pages_tests},
        CU_SUITE_INFO_NULL,
    };
    if (!has_device()) {
        suites[1] = (CU_SuiteInfo)CU_SUITE_INFO_NULL;
    }
    return dao_suite_run(suites);
}
