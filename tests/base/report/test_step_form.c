/* SPDX-License-Identifier: Apache-2.0 */
/* Words of steps that are written: a name is one word, a time has no zeros at its end. */
#define _POSIX_C_SOURCE 200809L /* open_memstream */
#include "base/report/step_form.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

/* Writes a name, a blank and a time. */
static char *written(const char *name, uint64_t ns)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    dao_step_form_put_word(file, name);
    (void)fputc(' ', file);
    dao_step_form_put_us(file, ns);
    CU_ASSERT_EQUAL(fclose(file), 0);
    return text;
}

static void a_name_is_one_word_and_a_time_is_short(void)
{
    static const struct {
        const char *name;
        uint64_t ns;
        const char *text;
    } cases[] = {
        {"conv1", 0, "conv1 0"},
        {"a b\t100%", 1000, "a%20b%09100%25 1"},
        {"\x7f\x1f!", 1200, "%7F%1F! 1.2"},
        {"\xc3\xa4", 1230, "\xc3\xa4 1.23"},
        {"", 1234, " 1.234"},
        {"~", 7, "~ 0.007"},
        {"^", UINT64_MAX, "^ 18446744073709551.615"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char *text = written(cases[i].name, cases[i].ns);
        CU_ASSERT_STRING_EQUAL(text, cases[i].text);
        free(text);
    }
}

/* A name that is too long for a word ends behind a whole letter. */
static void a_long_name_is_cut_to_a_word(void)
{
    static const char *const letters[] = {"a", " ", "\xc3\xa4", "\xf0\x9f\x98\x80", "\x80"};
    char name[4 * DAO_STEP_WORD_BYTES_MAX + 1], *text;
    for (size_t i = 0; i < sizeof(letters) / sizeof(letters[0]); i++) {
        size_t bytes = strlen(letters[i]), length = 0, written_bytes = 0;
        while (length + bytes < sizeof(name)) {
            memcpy(name + length, letters[i], bytes);
            length += bytes;
        }
        name[length] = '\0';
        FILE *file = open_memstream(&text, &written_bytes);
        CU_ASSERT_PTR_NOT_NULL_FATAL(file);
        dao_step_form_put_name(file, name);
        CU_ASSERT_EQUAL(fclose(file), 0);
        CU_ASSERT_TRUE(written_bytes < DAO_STEP_WORD_BYTES_MAX);
        CU_ASSERT_TRUE(written_bytes > DAO_STEP_WORD_BYTES_MAX - 32);
        CU_ASSERT_EQUAL(written_bytes % (letters[i][0] == ' ' ? 3 : bytes), 0);
        free(text);
    }
}

static CU_TestInfo tests[] = {
    {"a long name is cut to a word", a_long_name_is_cut_to_a_word},
    {"a name is one word and a time is short", a_name_is_one_word_and_a_time_is_short},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"step form", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
