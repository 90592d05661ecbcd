/* SPDX-License-Identifier: Apache-2.0 */
/* Pages that are tried when a device is opened: on a driver that allows no access to those behind others, and
   whichever call of the try fails. */
#define _GNU_SOURCE /* setenv */
#include DAO_VENDOR_NAMES

#include "base/log.h"
#include "tests/loopback/failures.h"

#include <stdlib.h>

static const loopback_settings_t usual;
static const loopback_settings_t refusing = {.refuses_tails = true};
static const dao_backend_ops_t *ops;
static char line[512]; /* the latest of the log */

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    (void)snprintf(line, sizeof(line), "%s", message);
}

static int start(void)
{
    ops = loopback_ops();
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_WARNING);
    return 0;
}

/* Opens a device, and returns the bytes of its pages; 0: it is used without. The driver sees what is left. */
static dao_status_t open_and_close(const char *map_pages, uint64_t *out_page_bytes)
{
    static const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_backend_t *backend = NULL;
    dao_backend_device_t *device = NULL;
    dao_device_info_t info = {0};
    CU_ASSERT_EQUAL(map_pages != NULL ? setenv("DAO_MAP_PAGES", map_pages, 1) : unsetenv("DAO_MAP_PAGES"), 0);
    dao_status_t status = ops->open(&config, &backend);
    if (status == DAO_OK) {
        line[0] = '\0';
        status = ops->device_open(backend, 0, &device);
    }
    if (status == DAO_OK) {
        status = ops->device_query(device, &info);
        ops->device_close(device);
    }
    if (backend != NULL) {
        ops->close(backend);
    }
    *out_page_bytes = info.page_bytes;
    return status;
}

static void pages_that_grow_are_used(void)
{
    uint64_t page_bytes = 0;
    loopback_set(&usual);
    CU_ASSERT_EQUAL(open_and_close(NULL, &page_bytes), DAO_OK);
    CU_ASSERT_NOT_EQUAL(page_bytes, 0);
    CU_ASSERT_STRING_EQUAL(line, "");
}

static void pages_that_do_not_grow_are_not_used(void)
{
    uint64_t page_bytes = 0;
    loopback_set(&refusing);
    CU_ASSERT_EQUAL(open_and_close(NULL, &page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(page_bytes == 0, VENDOR_TRIES_PAGES);
    CU_ASSERT_EQUAL(strstr(line, "is used in segments") != NULL, VENDOR_TRIES_PAGES);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
}

static void pages_that_are_trusted_are_not_tried(void)
{
    uint64_t page_bytes = 0;
    loopback_set(&refusing);
    uint64_t calls = loopback_call_count();
    CU_ASSERT_EQUAL(open_and_close("1", &page_bytes), DAO_OK);
    CU_ASSERT_NOT_EQUAL(page_bytes, 0);
    uint64_t trusted_calls = loopback_call_count() - calls;
    CU_ASSERT_EQUAL(open_and_close(NULL, &page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(loopback_call_count() - calls > 2 * trusted_calls, VENDOR_TRIES_PAGES);
    loopback_set(&usual);
    CU_ASSERT_EQUAL(open_and_close("0", &page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(page_bytes, 0);
}

/* The device opens, with pages or without, or says why not. */
static void whichever_call_of_the_try_fails_nothing_is_lost(void)
{
    long used_count = 0, unused_count = 0, refused_count = 0;
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        bool has_failed = true;
        for (long calls = 0; has_failed; calls++) {
            uint64_t page_bytes = 0;
            loopback_set(&usual);
            loopback_fail(calls, failures[i].error);
            dao_status_t status = open_and_close(NULL, &page_bytes);
            has_failed = loopback_has_failed();
            used_count += status == DAO_OK && page_bytes != 0;
            unused_count += status == DAO_OK && page_bytes == 0;
            refused_count += status != DAO_OK;
            CU_ASSERT_TRUE(status == DAO_OK || status == dao_last_status());
            CU_ASSERT_TRUE(status == DAO_OK || has_failed);
            CU_ASSERT_TRUE(status == DAO_OK || dao_last_vendor_code() == (int)failures[i].error);
            CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
            CU_ASSERT_EQUAL(loopback_current_device(), 0);
        }
    }
    CU_ASSERT_TRUE(used_count > 0 && refused_count > 0);
    CU_ASSERT_EQUAL(unused_count > 0, VENDOR_TRIES_PAGES);
}

int main(void)
{
    static CU_TestInfo tests[] = {
        {"pages that grow are used", pages_that_grow_are_used},
        {"pages that do not grow are not used", pages_that_do_not_grow_are_not_used},
        {"pages that are trusted are not tried", pages_that_are_trusted_are_not_tried},
        {"whichever call of the try fails, nothing is lost", whichever_call_of_the_try_fails_nothing_is_lost},
        CU_TEST_INFO_NULL,
    };
    CU_SuiteInfo suites[] = {{"vendor: pages that are tried", start, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
