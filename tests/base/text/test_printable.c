/* SPDX-License-Identifier: Apache-2.0 */
/* Text from outside in one line: every byte stays or becomes '?', and the length does not change. */
#include "base/text/printable.h"
#include "tests/support/suite.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void becomes(const char *text, const char *expected)
{
    char copy[64];
    (void)snprintf(copy, sizeof(copy), "%s", text);
    dao_make_printable(copy);
    CU_ASSERT_STRING_EQUAL(copy, expected);
}

static void printable_text_stays(void)
{
    becomes("", "");
    becomes(" ~\"\\", " ~\"\\");
    becomes(
        "\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf",
        "\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xef\xbf\xbf \xf4\x8f\xbf\xbf"); /* first and last of each length */
}

static void every_control_character_is_replaced(void)
{
    for (unsigned c = 1; c < 0xa0; c++) {
        char text[3] = {(char)c, '\0', '\0'};
        bool is_c1 = c >= 0x80; /* two bytes in UTF-8 */
        if (is_c1) {
            text[0] = (char)0xc2;
            text[1] = (char)c;
        }
        dao_make_printable(text);
        bool is_control = c < 0x20 || c == 0x7f || is_c1;
        CU_ASSERT_EQUAL(text[0] == '?', is_control || c == '?');
        CU_ASSERT_EQUAL(strlen(text), is_c1 ? 2 : 1);
    }
}

static void malformed_bytes_are_replaced_one_by_one(void)
{
    becomes("\x80", "?");                      /* a continuation byte alone */
    becomes("\xc1\xbf", "??");                 /* not the shortest form */
    becomes("\xe0\x9f\xbf", "???");            /* likewise */
    becomes("\xf0\x8f\xbf\xbf", "????");       /* likewise */
    becomes("\xed\xbf\xbf", "???");            /* a surrogate */
    becomes("\xf4\x90\x80\x80", "????");       /* above U+10FFFF */
    becomes("a\xe2\x82", "a??");               /* cut off */
    becomes("\xe2\x82\xc3\xa4", "??\xc3\xa4"); /* the next character stays whole */
}

static CU_TestInfo tests[] = {
    {"printable text stays", printable_text_stays},
    {"every control character is replaced", every_control_character_is_replaced},
    {"malformed bytes are replaced one by one", malformed_bytes_are_replaced_one_by_one},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"printable", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
