/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer in pieces: every byte once, rests asked for again, nothing cut after an error. */
#include "base/files/file_job.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <errno.h>

static char memory[1]; /* addresses are counted, not touched */

static dao_file_job_t job_of(size_t size_bytes)
{
    return (dao_file_job_t){.direction = DAO_FILE_WRITE, .remaining = {4096, memory, size_bytes}};
}

static void pieces_cover_a_job_once(void)
{
    size_t size_bytes = 3 * DAO_FILE_PIECE_BYTES + 5;
    dao_file_job_t job = job_of(size_bytes);
    dao_file_piece_t piece;
    size_t covered_bytes = 0;
    while (dao_file_job_next(&job, &piece)) {
        CU_ASSERT_EQUAL(piece.offset_bytes, 4096 + covered_bytes);
        CU_ASSERT_PTR_EQUAL(piece.address, memory + covered_bytes);
        CU_ASSERT_TRUE(piece.size_bytes > 0 && piece.size_bytes <= DAO_FILE_PIECE_BYTES);
        covered_bytes += piece.size_bytes;
    }
    CU_ASSERT_EQUAL(covered_bytes, size_bytes);
}

static void a_short_answer_leaves_a_rest(void)
{
    dao_file_job_t job = job_of(100);
    dao_file_piece_t piece;
    CU_ASSERT_TRUE_FATAL(dao_file_job_next(&job, &piece));
    CU_ASSERT_TRUE(dao_file_job_complete(&job, &piece, 60));
    CU_ASSERT_EQUAL(piece.offset_bytes, 4096 + 60);
    CU_ASSERT_EQUAL(piece.size_bytes, 40);
    CU_ASSERT_TRUE(dao_file_job_complete(&job, &piece, -EINTR)); /* asked again, as it is */
    CU_ASSERT_TRUE(dao_file_job_complete(&job, &piece, -EAGAIN));
    CU_ASSERT_EQUAL(piece.size_bytes, 40);
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, 40));
    CU_ASSERT_EQUAL(job.error, 0);
}

static void the_first_error_ends_a_job(void)
{
    dao_file_job_t job = job_of(2 * DAO_FILE_PIECE_BYTES);
    dao_file_piece_t piece;
    CU_ASSERT_TRUE_FATAL(dao_file_job_next(&job, &piece));
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, -ENOSPC));
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, -EIO));
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, -EINTR)); /* not asked again after an error */
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, 60));     /* nor is its rest */
    CU_ASSERT_EQUAL(job.error, ENOSPC);
    CU_ASSERT_FALSE(dao_file_job_next(&job, &piece));
}

static void nothing_read_is_an_error(void)
{
    dao_file_job_t job = job_of(1);
    dao_file_piece_t piece;
    CU_ASSERT_TRUE_FATAL(dao_file_job_next(&job, &piece));
    CU_ASSERT_FALSE(dao_file_job_complete(&job, &piece, 0));
    CU_ASSERT_EQUAL(job.error, EIO);
}

#if defined(DAO_FAULTS)
static void fault_points_shorten_and_refuse(void)
{
    dao_file_piece_t piece = {0, memory, 7};
    dao_fault_arm(DAO_FAULT_FILE_SHORT, 0, false);
    CU_ASSERT_EQUAL(dao_file_piece_request_bytes(&piece), 4);
    CU_ASSERT_EQUAL(dao_file_piece_request_bytes(&piece), 7);
    dao_fault_arm(DAO_FAULT_FILE_READ, 0, false);
    CU_ASSERT_EQUAL(dao_file_fault(DAO_FILE_WRITE), 0);
    CU_ASSERT_EQUAL(dao_file_fault(DAO_FILE_READ), EIO);
    dao_fault_arm(DAO_FAULT_FILE_WRITE, 0, false);
    CU_ASSERT_EQUAL(dao_file_fault(DAO_FILE_WRITE), ENOSPC);
    (void)dao_fault_disarm();
}
#endif

static CU_TestInfo tests[] = {
    {"pieces cover a job once", pieces_cover_a_job_once},
    {"a short answer leaves a rest", a_short_answer_leaves_a_rest},
    {"the first error ends a job", the_first_error_ends_a_job},
    {"nothing read is an error", nothing_read_is_an_error},
#if defined(DAO_FAULTS)
    {"fault points shorten and refuse", fault_points_shorten_and_refuse},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"file_job", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
