/* SPDX-License-Identifier: Apache-2.0 */
/* Files without a name: contents by both engines, transfers that come back short, and errors. */
#define _GNU_SOURCE
#include "base/files/file.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <dao/status.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* 12 pieces and a rest: more than is under way at once. */
#define AREA_BYTES (3 * DAO_FILE_PIECE_BYTES * DAO_FILE_DEPTH / 2 + 777)

static const char *directory;
static char *area, *expected;

static int create_areas(void)
{
    directory = getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
    area = malloc(AREA_BYTES);
    expected = malloc(AREA_BYTES);
    return area != NULL && expected != NULL ? 0 : 1;
}

static int free_areas(void)
{
    free(area);
    free(expected);
    return 0;
}

static void fill(char *bytes, size_t size_bytes, uint64_t seed)
{
    for (size_t i = 0; i < size_bytes; i += sizeof(uint64_t)) {
        uint64_t word = dao_random_next(&seed);
        memcpy(bytes + i, &word, size_bytes - i < sizeof(word) ? size_bytes - i : sizeof(word));
    }
}

/* Runs a test on every engine that is there. */
static void on_every_engine(void (*test)(dao_file_t *file))
{
    for (int engine = DAO_FILE_ENGINE_URING; engine <= DAO_FILE_ENGINE_THREADS; engine++) {
        dao_file_t *file = NULL;
        dao_status_t status = dao_file_create(directory, (dao_file_engine_t)engine, &file);
        if (status == DAO_ERR_UNSUPPORTED && engine == DAO_FILE_ENGINE_URING) {
            (void)printf("    without io_uring: %s\n", dao_last_message());
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        CU_ASSERT_TRUE(dao_file_free_bytes(file) > 0);
        test(file);
        dao_file_destroy(file);
    }
}

static void check_round_trip(dao_file_t *file, uint64_t offset_bytes, size_t size_bytes, uint64_t seed)
{
    fill(expected, size_bytes, seed);
    memset(area, 0, size_bytes);
    CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_WRITE, offset_bytes, expected, size_bytes), 0);
    CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_READ, offset_bytes, area, size_bytes), 0);
    CU_ASSERT_EQUAL(memcmp(area, expected, size_bytes), 0);
}

static void check_sizes(dao_file_t *file)
{
    static const size_t sizes[] = {1, 255, 4096, DAO_FILE_PIECE_BYTES, DAO_FILE_PIECE_BYTES + 1, AREA_BYTES};
    uint64_t offset_bytes = 0;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        check_round_trip(file, offset_bytes, sizes[i], 11 + i);
        offset_bytes += sizes[i];
    }
    check_round_trip(file, (uint64_t)5 << 32, 1000, 99); /* behind a hole */
}

static void what_is_written_is_read(void)
{
    on_every_engine(check_sizes);
}

#if defined(DAO_FAULTS)
static void check_short(dao_file_t *file)
{
    for (uint64_t skip = 0; skip < 4; skip++) {
        dao_fault_arm(DAO_FAULT_FILE_SHORT, skip, true);
        check_round_trip(file, 4096 * skip, DAO_FILE_PIECE_BYTES + 4321, 7 + skip);
        (void)dao_fault_disarm();
    }
}

static void short_transfers_go_on(void)
{
    on_every_engine(check_short);
}

/* Every piece fails once; then all is as it should be. */
static void check_refusals(dao_file_t *file)
{
    bool has_failed = true;
    for (uint64_t skip = 0; has_failed; skip++) {
        dao_fault_arm(DAO_FAULT_FILE_WRITE, skip, false);
        int error = dao_file_transfer(file, DAO_FILE_WRITE, 0, expected, AREA_BYTES);
        has_failed = dao_fault_disarm() > 0;
        CU_ASSERT_EQUAL(error, has_failed ? ENOSPC : 0);
        CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_WRITE, 0, expected, AREA_BYTES), 0);
        dao_fault_arm(DAO_FAULT_FILE_READ, skip, false);
        error = dao_file_transfer(file, DAO_FILE_READ, 0, area, AREA_BYTES);
        CU_ASSERT_EQUAL(error, dao_fault_disarm() > 0 ? EIO : 0);
    }
    check_round_trip(file, 0, AREA_BYTES, 5);
}

static void errors_come_back(void)
{
    on_every_engine(check_refusals);
}
#endif

static void check_limit(dao_file_t *file)
{
    struct rlimit before;
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {.rlim_cur = 2 * DAO_FILE_PIECE_BYTES + 100, .rlim_max = before.rlim_max};
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    int error = dao_file_transfer(file, DAO_FILE_WRITE, 0, expected, AREA_BYTES);
    CU_ASSERT_EQUAL(error, EFBIG); /* and no signal */
    error = dao_file_transfer(file, DAO_FILE_WRITE, 3 * DAO_FILE_PIECE_BYTES, expected, 1);
    CU_ASSERT_EQUAL(error, EFBIG);
    check_round_trip(file, 0, DAO_FILE_PIECE_BYTES, 6); /* what has room is still taken */
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
}

static void a_file_that_may_not_grow_says_so(void)
{
    on_every_engine(check_limit);
}

static void check_end(dao_file_t *file)
{
    check_round_trip(file, 0, 1000, 8);
    CU_ASSERT_EQUAL(dao_file_transfer(file, DAO_FILE_READ, 500, area, 1000), EIO);
}

static void reading_beyond_the_end_is_an_error(void)
{
    on_every_engine(check_end);
}

static void check_unreadable(dao_file_t *file)
{
    int handle = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CU_ASSERT_TRUE_FATAL(handle >= 0);
    CU_ASSERT_EQUAL(dao_file_read_from(file, handle, 0, area, 1000), EBADF);
    CU_ASSERT_EQUAL(close(handle), 0);
    check_round_trip(file, 0, 1000, 9); /* its own file is as it was */
}

static void what_cannot_be_read_says_the_systems_error(void)
{
    on_every_engine(check_unreadable);
}

static void a_directory_that_is_none_is_refused(void)
{
    dao_file_t *file = NULL;
    CU_ASSERT_EQUAL(dao_file_create("/nowhere/at/all", DAO_FILE_ENGINE_AUTO, &file), DAO_ERR_IO);
    CU_ASSERT_PTR_NULL(file);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "/nowhere/at/all"));
}

#if defined(DAO_FAULTS)
/* A thread or memory that is refused: either all is undone, or fewer do. */
static void a_refusal_while_it_is_made_leaves_nothing(void)
{
    bool has_failed = true;
    for (uint64_t skip = 0; has_failed; skip++) {
        dao_file_t *file = NULL;
        dao_fault_arm(DAO_FAULT_ANY, skip, false);
        dao_status_t status = dao_file_create(directory, DAO_FILE_ENGINE_THREADS, &file);
        has_failed = dao_fault_disarm() > 0;
        CU_ASSERT_TRUE(has_failed || status == DAO_OK);
        if (status == DAO_OK) {
            check_round_trip(file, 0, 3 * DAO_FILE_PIECE_BYTES, skip);
            dao_file_destroy(file);
        }
    }
}
#endif

static void engines_have_names(void)
{
    for (int i = DAO_FILE_ENGINE_AUTO; i <= DAO_FILE_ENGINE_THREADS; i++) {
        dao_file_engine_t engine = DAO_FILE_ENGINE_AUTO;
        CU_ASSERT_EQUAL(dao_file_engine_parse(dao_file_engine_name((dao_file_engine_t)i), &engine), DAO_OK);
        CU_ASSERT_EQUAL((int)engine, i);
    }
    dao_file_engine_t engine = DAO_FILE_ENGINE_THREADS;
    CU_ASSERT_EQUAL(dao_file_engine_parse("aio", &engine), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(engine, DAO_FILE_ENGINE_THREADS);
    CU_ASSERT_EQUAL(dao_file_engine_parse("threads", NULL), DAO_ERR_INVALID);
    CU_ASSERT_STRING_EQUAL(dao_file_engine_name((dao_file_engine_t)7), "unknown");
    CU_ASSERT_EQUAL(dao_file_engine_check(DAO_FILE_ENGINE_THREADS), DAO_OK);
    CU_ASSERT_EQUAL(dao_file_engine_check((dao_file_engine_t)7), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_file_engine_check((dao_file_engine_t)-1), DAO_ERR_INVALID);
}

static CU_TestInfo tests[] = {
    {"what is written is read", what_is_written_is_read},
#if defined(DAO_FAULTS)
    {"short transfers go on", short_transfers_go_on},
    {"errors come back", errors_come_back},
    {"a refusal while it is made leaves nothing", a_refusal_while_it_is_made_leaves_nothing},
#endif
    {"a file that may not grow says so", a_file_that_may_not_grow_says_so},
    {"reading beyond the end is an error", reading_beyond_the_end_is_an_error},
    {"what cannot be read says the system's error", what_cannot_be_read_says_the_systems_error},
    {"a directory that is none is refused", a_directory_that_is_none_is_refused},
    {"engines have names", engines_have_names},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"files", create_areas, free_areas, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
