/* SPDX-License-Identifier: Apache-2.0 */
/* A file is the same packed by gzip, by zstd, or not; cut and damaged ones are refused. Where the tool has no
   zstd its files are named. */
#include "tests/support/suite.h"
#include "tools/read/bytes/text_source.h"
#include "tools/read/bytes/unpack.h"

#include <string.h>

/* "abc" and a line's end, as a frame of zstd with a checksum. */
static const unsigned char frame[] = {0x28, 0xb5, 0x2f, 0xfd, 0x04, 0x58, 0x21, 0x00, 0x00,
                                      'a',  'b',  'c',  '\n', 0x2d, 0x6e, 0x4c, 0x82};

static dao_status_t read_all(char *out_text, size_t bytes, size_t *out_count)
{
    dao_text_source_t source;
    dao_status_t status = dao_text_source_open(&source, dao_test_path);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_text_source_read(&source, out_text, bytes, out_count);
    dao_text_source_close(&source);
    return status;
}

static void frames_are_unpacked_or_named(void)
{
    unsigned char two[2 * sizeof(frame)];
    char text[16] = "";
    size_t count = 0;
    memcpy(two, frame, sizeof(frame));
    memcpy(two + sizeof(frame), frame, sizeof(frame));
    dao_test_write_file(dao_test_path, two, sizeof(two));
    CU_ASSERT_TRUE(dao_unpack_is_packed(frame, sizeof(frame)));
    dao_status_t status = read_all(text, sizeof(text), &count);
    if (status == DAO_ERR_UNSUPPORTED) {
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "packed by zstd"));
        return;
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(count, 8);
    CU_ASSERT_EQUAL(memcmp(text, "abc\nabc\n", 8), 0);
    for (size_t length = 5; length < sizeof(frame); length++) {
        dao_test_write_file(dao_test_path, frame, length);
        CU_ASSERT_EQUAL(read_all(text, sizeof(text), &count), DAO_ERR_PARSE);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "cut off"));
    }
    two[9] ^= 1; /* a byte of the text: the checksum is wrong */
    dao_test_write_file(dao_test_path, two, sizeof(frame));
    CU_ASSERT_EQUAL(read_all(text, sizeof(text), &count), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "damaged"));
}

static void what_is_not_packed_is_read_as_it_is(void)
{
    char text[16] = "";
    size_t count = 0;
    dao_test_write_file(dao_test_path, "\x28\xb5\x2f", 3);
    CU_ASSERT_EQUAL(read_all(text, sizeof(text), &count), DAO_OK);
    CU_ASSERT_EQUAL(count, 3);
    CU_ASSERT_FALSE(dao_unpack_is_packed((const unsigned char *)text, count));
}

static CU_TestInfo tests[] = {
    {"frames are unpacked or named", frames_are_unpacked_or_named},
    {"what is not packed is read as it is", what_is_not_packed_is_read_as_it_is},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"unpack", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
