/* SPDX-License-Identifier: Apache-2.0 */
/* Packed files: read as what was packed, in pieces of any size; damaged and cut ones are refused. */
#include "base/report/error.h"
#include "tests/support/suite.h"
#include "tools/read/bytes/gunzip.h"

#include <string.h>
#include <zlib.h>

enum { TEXT_BYTES = 100000, PACKED_BYTES_MAX = 150000 };

static unsigned char text[TEXT_BYTES], packed[PACKED_BYTES_MAX], unpacked[TEXT_BYTES + 1];
static size_t packed_count;

/* A file in memory, which is read on from `at` in pieces. */
typedef struct packed_file {
    const unsigned char *bytes;
    size_t count, at, piece;
    dao_status_t status;
} packed_file_t;

static dao_status_t read_piece(void *user, unsigned char *bytes, size_t most, size_t *out_count)
{
    packed_file_t *file = user;
    size_t count = file->count - file->at;
    count = count < file->piece ? count : file->piece;
    count = count < most ? count : most;
    memcpy(bytes, file->bytes + file->at, count);
    file->at += count;
    *out_count = count;
    return file->status;
}

static int pack_text(void)
{
    z_stream stream = {
        .next_in = text, .avail_in = TEXT_BYTES, .next_out = packed, .avail_out = PACKED_BYTES_MAX};
    for (size_t i = 0; i < TEXT_BYTES; i++) {
        text[i] = (unsigned char)(i * i % 251);
    }
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK ||
        deflate(&stream, Z_FINISH) != Z_STREAM_END) {
        return 1;
    }
    packed_count = PACKED_BYTES_MAX - stream.avail_out;
    return deflateEnd(&stream) == Z_OK ? 0 : 1;
}

/* Unpacks all of a file. Returns the bytes that came, and in *out_status what ended it. */
static size_t unpack(const unsigned char *bytes, size_t count, size_t first, size_t piece,
                     dao_status_t *out_status)
{
    packed_file_t file = {.bytes = bytes, .count = count, .at = first, .piece = piece, .status = DAO_OK};
    dao_gunzip_t *gunzip = NULL;
    size_t done = 0, came = 1;
    CU_ASSERT_EQUAL_FATAL(dao_gunzip_create(bytes, first, &gunzip), DAO_OK);
    *out_status = DAO_OK;
    while (*out_status == DAO_OK && came > 0 && done < sizeof(unpacked)) {
        came = 0;
        *out_status =
            dao_gunzip_next(gunzip, read_piece, &file, unpacked + done, sizeof(unpacked) - done, &came);
        done += came;
    }
    dao_gunzip_destroy(gunzip);
    return done;
}

static void pieces_of_any_size_give_the_same(void)
{
    static const size_t pieces[] = {1, 7, 1000, PACKED_BYTES_MAX};
    for (size_t i = 0; i < sizeof(pieces) / sizeof(pieces[0]); i++) {
        dao_status_t status;
        memset(unpacked, 0, sizeof(unpacked));
        CU_ASSERT_EQUAL(unpack(packed, packed_count, 10, pieces[i], &status), TEXT_BYTES);
        CU_ASSERT_EQUAL(status, DAO_OK);
        CU_ASSERT_EQUAL(memcmp(unpacked, text, TEXT_BYTES), 0);
    }
}

static void packed_files_are_known_by_their_beginning(void)
{
    CU_ASSERT_TRUE(dao_gunzip_is_packed(packed, packed_count));
    CU_ASSERT_FALSE(dao_gunzip_is_packed(text, TEXT_BYTES));
    CU_ASSERT_FALSE(dao_gunzip_is_packed(packed, 1));
    CU_ASSERT_FALSE(dao_gunzip_is_packed(packed, 0));
}

static void a_cut_file_is_refused(void)
{
    for (size_t count = 11; count < packed_count; count += packed_count / 5) {
        dao_status_t status;
        CU_ASSERT_TRUE(unpack(packed, count, 10, 100, &status) <= TEXT_BYTES);
        CU_ASSERT_EQUAL(status, DAO_ERR_PARSE);
    }
}

static void a_damaged_file_is_refused(void)
{
    dao_status_t status;
    packed[packed_count - 6] ^= 1; /* of the check sum */
    CU_ASSERT_TRUE(unpack(packed, packed_count, 10, 100, &status) <= TEXT_BYTES);
    CU_ASSERT_EQUAL(status, DAO_ERR_PARSE);
    CU_ASSERT_TRUE(strlen(dao_last_message()) > 0);
    packed[packed_count - 6] ^= 1;
}

static void what_reading_answers_is_passed_on(void)
{
    packed_file_t file = {.bytes = packed, .count = packed_count, .at = 10, .piece = 5, .status = DAO_ERR_IO};
    dao_gunzip_t *gunzip = NULL;
    size_t came;
    CU_ASSERT_EQUAL_FATAL(dao_gunzip_create(packed, 10, &gunzip), DAO_OK);
    CU_ASSERT_EQUAL(dao_gunzip_next(gunzip, read_piece, &file, unpacked, 100, &came), DAO_ERR_IO);
    dao_gunzip_destroy(gunzip);
    dao_gunzip_destroy(NULL);
}

static CU_TestInfo tests[] = {
    {"pieces of any size give the same", pieces_of_any_size_give_the_same},
    {"packed files are known by their beginning", packed_files_are_known_by_their_beginning},
    {"a cut file is refused", a_cut_file_is_refused},
    {"a damaged file is refused", a_damaged_file_is_refused},
    {"what reading answers is passed on", what_reading_answers_is_passed_on},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"gunzip", pack_text, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
