/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of JSON: what is read, numbers exactly, what is refused and where, nesting, several documents. */
#include "base/report/error.h"
#include "tests/support/suite.h"
#include "tools/read/text/json_reader.h"

#include <stdio.h>
#include <string.h>

static dao_json_reader_t reader;

static void open_text(const char *text)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    CU_ASSERT_EQUAL_FATAL(dao_json_reader_open(&reader, dao_test_path), DAO_OK);
}

/* Reads all tokens of a text. Returns what ended it. */
static dao_status_t read_all(const char *text)
{
    dao_status_t status;
    open_text(text);
    do {
        status = dao_json_next(&reader);
    } while (status == DAO_OK && reader.token != DAO_JSON_TOKEN_END);
    dao_json_reader_close(&reader);
    return status;
}

static void next_is(dao_json_token_t token, const char *text)
{
    CU_ASSERT_EQUAL(dao_json_next(&reader), DAO_OK);
    CU_ASSERT_EQUAL(reader.token, token);
    if (text != NULL) {
        CU_ASSERT_STRING_EQUAL(reader.text, text);
    }
}

static void tokens_come_in_their_order(void)
{
    open_text(" {\"a\": [1, -2.5e3, true], \"b\\u00e4\\n\": null, \"c\": {}, \"d\": \"x\", \"e\": false} ");
    next_is(DAO_JSON_TOKEN_OBJECT_BEGIN, NULL);
    next_is(DAO_JSON_TOKEN_KEY, "a");
    next_is(DAO_JSON_TOKEN_ARRAY_BEGIN, NULL);
    next_is(DAO_JSON_TOKEN_NUMBER, "1");
    next_is(DAO_JSON_TOKEN_NUMBER, "-2.5e3");
    next_is(DAO_JSON_TOKEN_TRUE, NULL);
    next_is(DAO_JSON_TOKEN_ARRAY_END, NULL);
    next_is(DAO_JSON_TOKEN_KEY, "b\xc3\xa4\n");
    next_is(DAO_JSON_TOKEN_NULL, NULL);
    next_is(DAO_JSON_TOKEN_KEY, "c");
    next_is(DAO_JSON_TOKEN_OBJECT_BEGIN, NULL);
    CU_ASSERT_EQUAL(reader.depth, 2);
    next_is(DAO_JSON_TOKEN_OBJECT_END, NULL);
    next_is(DAO_JSON_TOKEN_KEY, "d");
    next_is(DAO_JSON_TOKEN_STRING, "x");
    next_is(DAO_JSON_TOKEN_KEY, "e");
    next_is(DAO_JSON_TOKEN_FALSE, NULL);
    next_is(DAO_JSON_TOKEN_OBJECT_END, NULL);
    next_is(DAO_JSON_TOKEN_END, NULL);
    dao_json_reader_close(&reader);
}

static void numbers_are_exact(void)
{
    static const struct {
        const char *text;
        bool is_right;
        uint64_t wanted;
    } whole[] = {{"18446744073709551615", true, UINT64_MAX},
                 {"0", true, 0},
                 {"18446744073709551616", false, 0},
                 {"-1", false, 0},
                 {"1.5", false, 0}};
    for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
        uint64_t value = 77;
        open_text(whole[i].text);
        next_is(DAO_JSON_TOKEN_NUMBER, whole[i].text);
        CU_ASSERT_EQUAL(dao_json_u64(&reader, &value) == DAO_OK, whole[i].is_right);
        CU_ASSERT_EQUAL(value, whole[i].is_right ? whole[i].wanted : 77);
        dao_json_reader_close(&reader);
    }
    uint64_t ns = 0;
    open_text("0.1234567");
    next_is(DAO_JSON_TOKEN_NUMBER, NULL);
    CU_ASSERT_EQUAL(dao_json_ms_as_ns(&reader, &ns), DAO_OK);
    CU_ASSERT_EQUAL(ns, 123457);
    dao_json_reader_close(&reader);
}

static void what_is_wrong_is_refused_with_its_place(void)
{
    static const struct {
        const char *text, *place;
    } files[] = {
        {"", ":1:1: "},
        {"{\"a\": 1,}", ":1:9: "},
        {"[1 2]", ":1:4: "},
        {"[1,\n 2", ":2:3: "},
        {"{\"a\": 1, \"a\": 2}", ":1:10: "}, /* a key twice */
        {"[01]", ":1:"},
        {"[+1]", ":1:2: "},
        {"[\"\\u0000\"]", ":1:"}, /* NUL */
        {"[\"\xff\"]", ":1:"},    /* no UTF-8 */
        {"[\"\\ud800\"]", ":1:"}, /* half a pair */
        {"[tru]", ":1:2: "},
        {"[1] 2", ":1:5: "},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        CU_ASSERT_EQUAL(read_all(files[i].text), DAO_ERR_PARSE);
        if (strstr(dao_last_message(), files[i].place) == NULL) {
            (void)printf("    %s: %s\n", files[i].text, dao_last_message());
            CU_FAIL("a place");
        }
    }
}

static void nesting_is_bounded(void)
{
    char text[2 * DAO_JSON_DEPTH_MAX + 4] = "";
    memset(text, '[', DAO_JSON_DEPTH_MAX);
    memset(text + DAO_JSON_DEPTH_MAX, ']', DAO_JSON_DEPTH_MAX);
    CU_ASSERT_EQUAL(read_all(text), DAO_OK);
    memset(text, '[', DAO_JSON_DEPTH_MAX + 1);
    memset(text + DAO_JSON_DEPTH_MAX + 1, ']', DAO_JSON_DEPTH_MAX + 1);
    CU_ASSERT_EQUAL(read_all(text), DAO_ERR_PARSE);
}

static void values_are_skipped(void)
{
    open_text("[{\"a\": [1, {\"b\": 2}]}, 3]");
    next_is(DAO_JSON_TOKEN_ARRAY_BEGIN, NULL);
    next_is(DAO_JSON_TOKEN_OBJECT_BEGIN, NULL);
    CU_ASSERT_EQUAL(dao_json_skip(&reader), DAO_OK);
    next_is(DAO_JSON_TOKEN_NUMBER, "3");
    CU_ASSERT_EQUAL(dao_json_expect(&reader, DAO_JSON_TOKEN_NUMBER, "a size"), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "a size"));
    dao_json_reader_close(&reader);
}

static void documents_stand_behind_each_other(void)
{
    bool has_more = false;
    open_text("{\"a\": 1}\n[2]\n");
    CU_ASSERT_EQUAL(dao_json_expect(&reader, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object"), DAO_OK);
    CU_ASSERT_EQUAL(dao_json_skip(&reader), DAO_OK);
    CU_ASSERT_EQUAL(dao_json_next_document(&reader, &has_more), DAO_OK);
    CU_ASSERT_TRUE(has_more);
    CU_ASSERT_EQUAL(dao_json_expect(&reader, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list"), DAO_OK);
    CU_ASSERT_EQUAL(dao_json_skip(&reader), DAO_OK);
    CU_ASSERT_EQUAL(dao_json_next_document(&reader, &has_more), DAO_OK);
    CU_ASSERT_FALSE(has_more);
    dao_json_reader_close(&reader);
}

static void quoted_text_is_plain_and_short(void)
{
    char quoted[DAO_JSON_QUOTE_BYTES], text[200];
    CU_ASSERT_PTR_NULL(strchr(dao_json_quote("a\033[31m\n", quoted), '\033'));
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    CU_ASSERT_TRUE(strlen(dao_json_quote(text, quoted)) < DAO_JSON_QUOTE_BYTES);
}

static CU_TestInfo tests[] = {
    {"tokens come in their order", tokens_come_in_their_order},
    {"numbers are exact", numbers_are_exact},
    {"what is wrong is refused with its place", what_is_wrong_is_refused_with_its_place},
    {"nesting is bounded", nesting_is_bounded},
    {"values are skipped", values_are_skipped},
    {"documents stand behind each other", documents_stand_behind_each_other},
    {"quoted text is plain and short", quoted_text_is_plain_and_short},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"json_reader", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
