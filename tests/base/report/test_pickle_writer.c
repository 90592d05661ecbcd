/* SPDX-License-Identifier: Apache-2.0 */
/* Pickles, byte for byte as pickletools.py of Python reads them. */
#include "base/report/pickle_writer.h"
#include "tests/support/suite.h"

#include <string.h>

#define KEPT_BYTES (64 * KIB)

static char kept[KEPT_BYTES];
static size_t kept_count;
static uint32_t write_count;
static dao_status_t answer;
static dao_pickle_writer_t pickle;

static dao_status_t keep(const char *bytes, size_t count, void *user)
{
    (void)user;
    write_count++;
    CU_ASSERT_TRUE_FATAL(count <= KEPT_BYTES - kept_count);
    memcpy(kept + kept_count, bytes, count);
    kept_count += count;
    return answer;
}

static void begin(void)
{
    kept_count = write_count = 0;
    answer = DAO_OK;
    dao_pickle_begin(&pickle, keep, NULL);
}

/* Ends the pickle and compares what stands between its head and its end. */
static void is(const char *bytes, size_t count)
{
    CU_ASSERT_EQUAL(dao_pickle_end(&pickle), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(kept_count, count + 3);
    CU_ASSERT_EQUAL(memcmp(kept, "\x80\x02", 2), 0);
    CU_ASSERT_EQUAL(memcmp(kept + 2, bytes, count), 0);
    CU_ASSERT_EQUAL(kept[count + 2], '.');
}

#define IS(bytes) is(bytes, sizeof(bytes) - 1)

static void numbers_have_the_shortest_form(void)
{
    static const uint64_t numbers[] = {
        0, 255, 256, UINT16_MAX, INT32_MAX, (uint64_t)INT32_MAX + 1, UINT32_MAX, INT64_MAX, UINT64_MAX};
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        dao_pickle_count(&pickle, numbers[i]);
    }
    IS("K\0"
       "K\xff"
       "M\0\x01"
       "M\xff\xff"
       "J\xff\xff\xff\x7f"
       "\x8a\x05\0\0\0\x80\0"
       "\x8a\x05\xff\xff\xff\xff\0"
       "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
       "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0");
}

static void a_text_that_recurs_is_written_once(void)
{
    dao_pickle_memo_t name = 0, empty = 0;
    dao_pickle_dict_begin(&pickle);
    dao_pickle_text(&pickle, "ab", &name);
    dao_pickle_flag(&pickle, true);
    dao_pickle_text(&pickle, "c", NULL);
    dao_pickle_flag(&pickle, false);
    dao_pickle_text(&pickle, "ab", &name);
    dao_pickle_empty_list(&pickle, &empty);
    dao_pickle_empty_list(&pickle, &empty);
    dao_pickle_dict_end(&pickle);
    IS("}(X\x02\0\0\0abq\0\x88X\x01\0\0\0c\x89h\0]q\x01h\x01u");
}

static void a_byte_that_is_no_utf_8_is_replaced(void)
{
    dao_pickle_text(&pickle, "a\xff\xc3\xa4", NULL);
    IS("X\x06\0\0\0a\xef\xbf\xbd\xc3\xa4");
}

static void later_memos_have_long_numbers(void)
{
    dao_pickle_memo_t memos[257] = {0};
    for (size_t i = 0; i < 257; i++) {
        dao_pickle_empty_list(&pickle, &memos[i]);
    }
    size_t before = 255 * 3; /* those of one byte, but the last */
    dao_pickle_again(&pickle, memos[255]);
    dao_pickle_again(&pickle, memos[256]);
    CU_ASSERT_EQUAL(dao_pickle_end(&pickle), DAO_OK);
    static const char last[] = "]q\xff]r\0\x01\0\0h\xffj\0\x01\0\0.";
    CU_ASSERT_EQUAL_FATAL(kept_count, 2 + before + sizeof(last) - 1);
    CU_ASSERT_EQUAL(memcmp(kept + 2 + before, last, sizeof(last) - 1), 0);
}

/* Viewers take no more than 1000 items at a time. */
static void long_lists_come_in_batches(void)
{
    static char expected[2 + 2 * DAO_PICKLE_BATCH_ITEMS + 2 + 2 + 1];
    uint32_t count = 0;
    size_t at = 0;
    dao_pickle_list_begin(&pickle);
    expected[at++] = ']';
    expected[at++] = '(';
    for (int i = 0; i <= DAO_PICKLE_BATCH_ITEMS; i++) {
        dao_pickle_list_item(&pickle, &count);
        dao_pickle_count(&pickle, 7);
        if (i == DAO_PICKLE_BATCH_ITEMS) {
            expected[at++] = 'e';
            expected[at++] = '(';
        }
        expected[at++] = 'K';
        expected[at++] = 7;
    }
    dao_pickle_list_end(&pickle);
    expected[at++] = 'e';
    CU_ASSERT_EQUAL_FATAL(at, sizeof(expected));
    is(expected, at);
}

static void what_is_written_comes_in_pieces_until_one_is_refused(void)
{
    char text[3 * DAO_PICKLE_PIECE_BYTES];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    dao_pickle_text(&pickle, text, NULL);
    CU_ASSERT_EQUAL(write_count, 3);
    CU_ASSERT_EQUAL(kept_count, 3 * DAO_PICKLE_PIECE_BYTES);
    answer = DAO_ERR_IO;
    dao_pickle_text(&pickle, text, NULL);
    CU_ASSERT_EQUAL(write_count, 4);
    answer = DAO_OK;
    CU_ASSERT_EQUAL(dao_pickle_end(&pickle), DAO_ERR_IO);
    CU_ASSERT_EQUAL(write_count, 4);
}

/* Head, op of the text, its length and the end are eight bytes. */
static void a_pickle_that_just_fills_its_last_piece_is_written_once(void)
{
    char text[DAO_PICKLE_PIECE_BYTES - 7];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    dao_pickle_text(&pickle, text, NULL);
    CU_ASSERT_EQUAL(write_count, 0);
    CU_ASSERT_EQUAL(dao_pickle_end(&pickle), DAO_OK);
    CU_ASSERT_EQUAL(write_count, 1);
    CU_ASSERT_EQUAL(kept_count, DAO_PICKLE_PIECE_BYTES);
    CU_ASSERT_EQUAL(kept[kept_count - 1], '.');
}

static CU_TestInfo tests[] = {
    {"numbers have the shortest form", numbers_have_the_shortest_form},
    {"a text that recurs is written once", a_text_that_recurs_is_written_once},
    {"a byte that is no UTF-8 is replaced", a_byte_that_is_no_utf_8_is_replaced},
    {"later memos have long numbers", later_memos_have_long_numbers},
    {"long lists come in batches", long_lists_come_in_batches},
    {"what is written comes in pieces until one is refused",
     what_is_written_comes_in_pieces_until_one_is_refused},
    {"a pickle that just fills its last piece is written once",
     a_pickle_that_just_fills_its_last_piece_is_written_once},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"pickle writer", NULL, NULL, begin, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
