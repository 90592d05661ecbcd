/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files with %p, %n and %l in them: what is no name is refused, and so is a path that gets too long.
 */
#include "runtime/recording/file_name.h"

#include "base/report/error.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 3};

static dao_status_t keep(const char *text, const char *known)
{
    char name[DAO_FILE_NAME_BYTES];
    return dao_file_name_keep("DAO_TEST", text, known, name);
}

static void a_name_is_kept_with_what_is_known_in_it(void)
{
    char name[DAO_FILE_NAME_BYTES] = "";
    CU_ASSERT_EQUAL(dao_file_name_keep("DAO_TEST", "a%p.%n-%l%%", "pnl", name), DAO_OK);
    CU_ASSERT_STRING_EQUAL(name, "a%p.%n-%l%%");
    CU_ASSERT_EQUAL(keep("a%n", "p"), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), "%l"));
    CU_ASSERT_EQUAL(keep("a%x%p", "pnl"), DAO_ERR_INVALID); /* the first that is wrong ends it */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "%l the place"));
    CU_ASSERT_EQUAL(keep("a%", "pnl"), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(keep("", "pnl"), DAO_ERR_INVALID);
}

static void the_longest_name_is_kept_and_no_longer_one(void)
{
    char text[DAO_FILE_NAME_BYTES + 1];
    memset(text, 'x', sizeof(text));
    text[DAO_FILE_NAME_BYTES - 1] = '\0';
    CU_ASSERT_EQUAL(keep(text, "p"), DAO_OK);
    text[DAO_FILE_NAME_BYTES - 1] = 'x';
    text[DAO_FILE_NAME_BYTES] = '\0';
    CU_ASSERT_EQUAL(keep(text, "p"), DAO_ERR_INVALID);
}

static void a_path_tells_the_process_the_number_and_the_place(void)
{
    char path[DAO_FILE_NAME_BYTES], expected[DAO_FILE_NAME_BYTES];
    CU_ASSERT_TRUE(dao_file_name_make("%p-%n-%l-%%", device, 12, path));
    (void)snprintf(expected, sizeof(expected), "%d-12-device3-%%", dao_process_self());
    CU_ASSERT_STRING_EQUAL(path, expected);
    CU_ASSERT_TRUE(dao_file_name_make("%l", host, 0, path));
    CU_ASSERT_STRING_EQUAL(path, "cpu");
}

/* A name that fits may have a path that does not. */
static void a_path_that_gets_too_long_is_refused(void)
{
    char name[DAO_FILE_NAME_BYTES], path[DAO_FILE_NAME_BYTES];
    for (size_t i = 0; i + 2 < sizeof(name); i += 2) {
        memcpy(name + i, "%l", 3);
    }
    CU_ASSERT_EQUAL(keep(name, "l"), DAO_OK);
    CU_ASSERT_FALSE(dao_file_name_make(name, device, 0, path));
    CU_ASSERT_EQUAL(strlen(path), DAO_FILE_NAME_BYTES - 1);
}

static CU_TestInfo tests[] = {
    {"a name is kept with what is known in it", a_name_is_kept_with_what_is_known_in_it},
    {"the longest name is kept, and no longer one", the_longest_name_is_kept_and_no_longer_one},
    {"a path tells the process, the number and the place", a_path_tells_the_process_the_number_and_the_place},
    {"a path that gets too long is refused", a_path_that_gets_too_long_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"file_name", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
