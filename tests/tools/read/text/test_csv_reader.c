/* SPDX-License-Identifier: Apache-2.0 */
/* Lines and fields: separators, ends, numbers, and where an error stands. */
#include "base/report/error.h"
#include "tests/support/suite.h"
#include "tools/read/text/csv_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static dao_csv_reader_t reader;

static void open_text(const char *text, char separator)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    CU_ASSERT_EQUAL_FATAL(dao_csv_open(&reader, dao_test_path, separator), DAO_OK);
}

/* Takes a line and compares its fields, written with bars between. */
static void check_line(const char *wanted)
{
    char text[256] = "";
    bool has_more = false;
    CU_ASSERT_EQUAL(dao_csv_next(&reader, &has_more), DAO_OK);
    CU_ASSERT_TRUE_FATAL(has_more);
    for (size_t i = 0; i < reader.field_count; i++) {
        size_t length = strlen(text);
        (void)snprintf(text + length, sizeof(text) - length, "%s%s", i > 0 ? "|" : "", reader.fields[i]);
    }
    CU_ASSERT_STRING_EQUAL(text, wanted);
}

static void check_end(void)
{
    bool has_more = true;
    CU_ASSERT_EQUAL(dao_csv_next(&reader, &has_more), DAO_OK);
    CU_ASSERT_FALSE(has_more);
    dao_csv_close(&reader);
}

static void lines_are_cut_at_their_separators(void)
{
    open_text("a,b,,c\r\n\r\nlast,", ',');
    check_line("a|b||c");
    CU_ASSERT_EQUAL(reader.line, 1);
    check_line("");
    CU_ASSERT_EQUAL(reader.field_count, 1);
    check_line("last|");
    CU_ASSERT_EQUAL(reader.line, 3);
    check_end();
    open_text("  a   b \n\nc", ' ');
    check_line("a|b");
    check_line("");
    CU_ASSERT_EQUAL(reader.field_count, 0);
    check_line("c");
    check_end();
    open_text("", ',');
    check_end();
}

/* As people write it, and other tools. */
static void blanks_around_a_field_are_no_part_of_it(void)
{
    open_text("id, lower ,\tupper\t, size \n  a b , \" c \" ,, \n", 0);
    check_line("id|lower|upper|size");
    check_line("a b| c ||");
    check_end();
    open_text("a\t b \t\tc\n", '\t');
    check_line("a|b||c");
    check_end();
    bool has_more;
    open_text(" \"a\" b,c\n", ',');
    CU_ASSERT_EQUAL(dao_csv_next(&reader, &has_more), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":1:6: there is more behind the quotes"));
    dao_csv_close(&reader);
}

static void the_first_line_decides_on_the_separator(void)
{
    open_text("# a remark, with a comma\na b\nc,d\n", 0);
    check_line("a|b");
    check_line("c,d");
    check_end();
    open_text("\n \t\n# a remark\n\n  # another, with a comma\na,b c\n\n", 0); /* not one that says nothing */
    check_line("a|b c");
    check_line("");
    check_end();
    open_text("a,b c\nd e\n", 0);
    check_line("a|b c");
    check_line("d e");
    check_end();
}

static void numbers_are_exact(void)
{
    uint64_t value = 77;
    open_text("18446744073709551615,0,18446744073709551616,-1,,1x\n", ',');
    check_line("18446744073709551615|0|18446744073709551616|-1||1x");
    CU_ASSERT_EQUAL(dao_csv_u64(&reader, 0, "size", &value), DAO_OK);
    CU_ASSERT_EQUAL(value, UINT64_MAX);
    CU_ASSERT_EQUAL(dao_csv_u64(&reader, 1, "size", &value), DAO_OK);
    CU_ASSERT_EQUAL(value, 0);
    for (size_t i = 2; i < 6; i++) {
        CU_ASSERT_NOT_EQUAL(dao_csv_u64(&reader, i, "size", &value), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "size"));
    }
    check_end();
}

static void errors_say_where_they_stand(void)
{
    open_text("a,b\nlong,x,y\n", ',');
    check_line("a|b");
    check_line("long|x|y");
    CU_ASSERT_EQUAL(dao_csv_error(&reader, 1, "%s is wrong", "x"), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":2:6: x is wrong"));
    CU_ASSERT_EQUAL(dao_csv_error_at(&reader, reader.fields[0] + 2, "here"), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":2:3: here"));
    check_end();
}

/* A text of `count` times what is between, in a file. */
static dao_status_t read_many(const char *text, size_t count)
{
    size_t length = strlen(text);
    bool has_more;
    char *all = calloc(count + 1, length);
    CU_ASSERT_PTR_NOT_NULL_FATAL(all);
    for (size_t i = 0; i < count; i++) {
        memcpy(all + i * length, text, length);
    }
    all[count * length] = '\n';
    dao_test_write_file(dao_test_path, all, count * length + 1);
    free(all);
    CU_ASSERT_EQUAL_FATAL(dao_csv_open(&reader, dao_test_path, ','), DAO_OK);
    dao_status_t status = dao_csv_next(&reader, &has_more);
    dao_csv_close(&reader);
    return status;
}

static void lines_have_limits(void)
{
    CU_ASSERT_EQUAL(read_many(",", DAO_CSV_FIELD_COUNT_MAX - 1), DAO_OK);
    CU_ASSERT_EQUAL(read_many(",", DAO_CSV_FIELD_COUNT_MAX), DAO_ERR_PARSE);
    CU_ASSERT_EQUAL(read_many("x", DAO_CSV_LINE_BYTES_MAX / 2), DAO_OK);
    CU_ASSERT_EQUAL(read_many("x", DAO_CSV_LINE_BYTES_MAX + 1), DAO_ERR_PARSE);
}

static CU_TestInfo tests[] = {
    {"lines are cut at their separators", lines_are_cut_at_their_separators},
    {"blanks around a field are no part of it", blanks_around_a_field_are_no_part_of_it},
    {"the first line decides on the separator", the_first_line_decides_on_the_separator},
    {"numbers are exact", numbers_are_exact},
    {"errors say where they stand", errors_say_where_they_stand},
    {"lines have limits", lines_have_limits},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"csv_reader", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
