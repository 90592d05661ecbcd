/* SPDX-License-Identifier: Apache-2.0 */
/* Names of enumerators: both ways, and a message that lists them. */
#include "base/report/error.h"
#include "base/report/names.h"
#include "tests/support/suite.h"

#include <string.h>

enum { RED = 1, GREEN = 5 };

static const dao_named_t colours[] = {{"red", RED}, {"green", GREEN}, {NULL, 0}};

static void a_value_has_its_name(void)
{
    CU_ASSERT_STRING_EQUAL(dao_name_of(colours, RED), "red");
    CU_ASSERT_STRING_EQUAL(dao_name_of(colours, GREEN), "green");
    CU_ASSERT_STRING_EQUAL(dao_name_of(colours, 2), "unknown");
}

static void a_name_has_its_value(void)
{
    int value = 0;
    CU_ASSERT_EQUAL(dao_name_parse(colours, "colour", "green", &value), DAO_OK);
    CU_ASSERT_EQUAL(value, GREEN);
}

static void an_unknown_name_lists_the_known_ones(void)
{
    int value = -1;
    CU_ASSERT_EQUAL(dao_name_parse(colours, "colour", "Green", &value), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "\"Green\" is no colour: there are red, green");
    CU_ASSERT_EQUAL(dao_name_parse(colours, "colour", "", &value), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(value, -1);
}

static void null_is_refused(void)
{
    int value = -1;
    CU_ASSERT_EQUAL(dao_name_parse(colours, "colour", NULL, &value), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_name_parse(colours, "colour", "red", NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(value, -1);
}

static void a_long_list_is_cut(void)
{
    enum { COUNT = 26, NAME_BYTES = 16 };
    static char names[COUNT][NAME_BYTES];
    dao_named_t table[COUNT + 1] = {{NULL, 0}};
    int value = -1;
    for (int i = 0; i < COUNT; i++) {
        memset(names[i], 'a' + i, NAME_BYTES - 1);
        table[i] = (dao_named_t){names[i], i};
    }
    CU_ASSERT_EQUAL(dao_name_parse(table, "row", "a", &value), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), names[0]));
    CU_ASSERT_PTR_NULL(strstr(dao_last_message(), names[COUNT - 1]));
    CU_ASSERT_EQUAL(dao_name_parse(table, "row", names[COUNT - 1], &value), DAO_OK); /* past the cut */
    CU_ASSERT_EQUAL(value, COUNT - 1);
}

static CU_TestInfo tests[] = {
    {"a value has its name", a_value_has_its_name},
    {"a name has its value", a_name_has_its_value},
    {"an unknown name lists the known ones", an_unknown_name_lists_the_known_ones},
    {"NULL is refused", null_is_refused},
    {"a long list is cut", a_long_list_is_cut},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"names", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
