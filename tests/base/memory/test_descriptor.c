/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors that are kept: never at a standard stream's place, and at high numbers while there are any. */
#define _GNU_SOURCE
#include "base/files/file.h"
#include "base/memory/descriptor.h"
#include "base/memory/shared.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static int null_file;

static int open_null(void)
{
    null_file = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return null_file < 0;
}

static int close_null(void)
{
    return close(null_file) != 0;
}

/* In a child whose standard streams are closed: the lowest descriptor that is free would be 0. */
static int kept_without_standard_streams(void)
{
    void *address = NULL;
    dao_file_t *file = NULL;
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        (void)close(stream);
    }
    int kept = dao_shared_create(4096);
    bool is_above = kept > STDERR_FILENO && dao_descriptor_copy(kept) > STDERR_FILENO &&
                    dao_shared_show("dao test", 4096, &address) > STDERR_FILENO &&
                    fileno(dao_descriptor_fopen("/dev/null")) > STDERR_FILENO &&
                    dao_file_create(".", DAO_FILE_ENGINE_AUTO, &file) == DAO_OK;
    struct stat standard;
    for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; stream++) {
        is_above = is_above && fstat(stream, &standard) != 0 && errno == EBADF;
    }
    return is_above ? 0 : 1;
}

/* What a child process answers, 0 if all is right. */
static int in_child(int (*function)(void))
{
    int result = -1;
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        _exit(function());
    }
    bool has_ended = child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result);
    return has_ended ? WEXITSTATUS(result) : -1;
}

static void nothing_that_is_kept_takes_the_place_of_a_standard_stream(void)
{
    CU_ASSERT_EQUAL(in_child(kept_without_standard_streams), 0);
    CU_ASSERT_PTR_NULL(dao_descriptor_fopen("/none/such"));
    CU_ASSERT_EQUAL(errno, ENOENT);
}

/* Numbers of 128 and above come first, then those that are left, then what is there is kept as it is. */
static int keep_until_there_are_no_more(void)
{
    enum { MOST = 256 };
    struct rlimit files;
    bool is_good = getrlimit(RLIMIT_NOFILE, &files) == 0;
    files.rlim_cur = MOST;
    is_good = is_good && setrlimit(RLIMIT_NOFILE, &files) == 0;
    int high_count = 0, copy = 0;
    while ((copy = dao_descriptor_copy(null_file)) >= MOST / 2) {
        high_count++;
    }
    is_good = is_good && high_count > MOST / 2 - 16 && copy > STDERR_FILENO;
    int last = copy;
    while ((copy = dao_descriptor_copy(null_file)) >= 0) {
        last = copy;
    }
    is_good = is_good && errno == EMFILE && dao_descriptor_keep(last) == last;
    return is_good && dao_descriptor_keep(-1) == -1 && dao_descriptor_keep(STDIN_FILENO) == -1 ? 0 : 1;
}

static void what_is_kept_has_a_high_number_while_there_is_one(void)
{
    CU_ASSERT_EQUAL(in_child(keep_until_there_are_no_more), 0);
}

#define TEXT_BYTES  100000
#define LIMIT_BYTES 4096

/* Bytes of a file that a text was written to, which the caller says is whole or not. -1: none. */
static off_t size_of_written(bool is_whole, int expected_error)
{
    static const char text[TEXT_BYTES];
    char path[] = "/tmp/dao-descriptor-XXXXXX";
    int made = mkstemp(path);
    FILE *file = made >= 0 ? dao_descriptor_fopen(path) : NULL;
    struct stat found = {.st_size = -1};
    if (file != NULL) {
        (void)fwrite(text, 1, sizeof(text), file);
        CU_ASSERT_EQUAL(dao_descriptor_fclose(file, is_whole), expected_error);
        CU_ASSERT_EQUAL(fstat(made, &found), 0);
    }
    CU_ASSERT_EQUAL(unlink(path), 0);
    (void)close(made);
    return found.st_size;
}

static void no_part_of_a_file_is_left(void)
{
    struct rlimit before;
    CU_ASSERT_EQUAL(size_of_written(true, 0), TEXT_BYTES);
    CU_ASSERT_EQUAL(size_of_written(false, 0), 0);
    CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &before), 0);
    struct rlimit limit = {LIMIT_BYTES, before.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &limit), 0);
    CU_ASSERT_EQUAL(size_of_written(true, EFBIG), 0);
    CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &before), 0);
    (void)signal(SIGXFSZ, handler);
    FILE *full = dao_descriptor_fopen("/dev/full");
    CU_ASSERT_PTR_NOT_NULL_FATAL(full);
    CU_ASSERT_NOT_EQUAL(fputc('a', full), EOF);
    CU_ASSERT_EQUAL(dao_descriptor_fclose(full, true), ENOSPC);
}

static CU_TestInfo tests[] = {
    {"nothing that is kept takes the place of a standard stream",
     nothing_that_is_kept_takes_the_place_of_a_standard_stream},
    {"what is kept has a high number while there is one", what_is_kept_has_a_high_number_while_there_is_one},
    {"no part of a file is left", no_part_of_a_file_is_left},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"descriptor", open_null, close_null, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
