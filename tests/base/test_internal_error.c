/* SPDX-License-Identifier: Apache-2.0 */
/* Internal errors: each is counted, logged once, and shown by dao_stats_get(). */
#include <dao/context.h>
#include <dao/stats.h>

#include "base/internal_error.h"
#include "base/log.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static uint32_t line_count;
static char last_line[1024];

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    CU_ASSERT_EQUAL(level, DAO_LOG_LEVEL_ERROR);
    line_count++;
    (void)snprintf(last_line, sizeof(last_line), "%s", message);
}

static void begin(void)
{
    line_count = 0;
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_ERROR);
}

static void end(void)
{
    dao_internal_errors_clear();
    dao_log_set(NULL, NULL, DAO_LOG_LEVEL_ERROR);
}

static void each_is_counted_and_logged_once(void)
{
    dao_internal_error_note(DAO_ERR_DOUBLE_FREE, "give(block)", "file.c", 7);
    CU_ASSERT_EQUAL(dao_internal_error_count(), 1);
    CU_ASSERT_EQUAL(line_count, 0); /* a lock may be held */
    dao_internal_errors_log();
    CU_ASSERT_EQUAL(line_count, 1);
    CU_ASSERT_PTR_NOT_NULL(
        strstr(last_line, "internal error 1 at file.c:7: give(block) answered DAO_ERR_DOUBLE_FREE"));
    dao_internal_errors_log();
    CU_ASSERT_EQUAL(line_count, 1);
    for (int i = 0; i < 100; i++) {
        dao_internal_error_note(DAO_ERR_INVALID, "more", "file.c", i);
    }
    dao_internal_errors_log();
    CU_ASSERT_EQUAL(dao_internal_error_count(), 101);
    CU_ASSERT_EQUAL(line_count, 32); /* the first ones */
}

static void statistics_show_the_count(void)
{
    dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(host, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.internal_error_count, 0);
    dao_log_set(keep_line, NULL, DAO_LOG_LEVEL_ERROR);
    dao_internal_error_note(DAO_ERR_INVALID, "status", "file.c", 1);
    CU_ASSERT_EQUAL(dao_stats_get(host, &stats), DAO_OK);
    CU_ASSERT_EQUAL(stats.internal_error_count, 1);
    CU_ASSERT_EQUAL(line_count, 1);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* What the place itself may answer is no internal error; what says that the owner was wrong is one. */
static void a_place_in_trouble_is_none(void)
{
    DAO_MUST(DAO_OK);
    DAO_MUST_FREE(DAO_OK);
    DAO_MUST_FREE(DAO_ERR_CORRUPT);
    DAO_MUST_FREE(DAO_ERR_BACKEND);
    DAO_MUST_FREE(DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_internal_error_count(), 0);
#if !defined(DAO_ASSERTS) /* they end the process */
    static const dao_status_t wrong_owners[] = {
        DAO_ERR_FOREIGN_POINTER, DAO_ERR_INTERIOR_POINTER, DAO_ERR_DOUBLE_FREE, DAO_ERR_NOT_YOURS,
        DAO_ERR_WRONG_PLACE,     DAO_ERR_UNSUPPORTED,      DAO_ERR_INVALID};
    DAO_MUST(DAO_ERR_CORRUPT);
    CU_ASSERT_EQUAL(dao_internal_error_count(), 1);
    for (uint64_t i = 0; i < sizeof(wrong_owners) / sizeof(wrong_owners[0]); i++) {
        DAO_MUST_FREE(wrong_owners[i]);
        CU_ASSERT_EQUAL(dao_internal_error_count(), 2 + i);
    }
#endif
}

static CU_TestInfo tests[] = {
    {"each is counted and logged once", each_is_counted_and_logged_once},
    {"statistics show the count", statistics_show_the_count},
    {"a place in trouble is none", a_place_in_trouble_is_none},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"internal error", NULL, NULL, begin, end, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
