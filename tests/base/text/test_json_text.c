/* SPDX-License-Identifier: Apache-2.0 */
/* Texts between the quotes of JSON: whatever bytes they have, it is JSON. */
#include "base/text/json_text.h"
#include "tests/support/suite.h"

#include <string.h>

static void is_written(const char *text, const char *expected)
{
    char written[64] = "", piece[DAO_JSON_PIECE_BYTES];
    for (size_t count; (count = dao_json_text_next(&text, piece)) > 0;) {
        CU_ASSERT_EQUAL(strlen(piece), count);
        CU_ASSERT_TRUE_FATAL(strlen(written) + count < sizeof(written));
        strcat(written, piece);
    }
    CU_ASSERT_STRING_EQUAL(written, expected);
}

static void what_json_keeps_for_itself_is_escaped(void)
{
    is_written("", "");
    is_written("a \"b\" \\c", "a \\\"b\\\" \\\\c");
    is_written("\x01\n\x1f ~\x7f", "\\u0001\\u000a\\u001f ~\x7f");
}

static void whole_characters_stay(void)
{
    is_written("\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf",
               "\xc2\x80 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf"); /* of each length */
}

#define UNKNOWN "\xef\xbf\xbd"

static void bytes_that_are_no_characters_are_replaced_one_by_one(void)
{
    is_written("\xff.dao", UNKNOWN ".dao");
    is_written("\xed\xbf\xbf", UNKNOWN UNKNOWN UNKNOWN); /* a surrogate */
    is_written("a\xe2\x82", "a" UNKNOWN UNKNOWN);        /* cut off */
    is_written("\xe2\x82\xc3\xa4\"", UNKNOWN UNKNOWN "\xc3\xa4\\\"");
}

static CU_TestInfo tests[] = {
    {"what JSON keeps for itself is escaped", what_json_keeps_for_itself_is_escaped},
    {"whole characters stay", whole_characters_stay},
    {"bytes that are no characters are replaced one by one",
     bytes_that_are_no_characters_are_replaced_one_by_one},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"json_text", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
