/* SPDX-License-Identifier: Apache-2.0 */
/* Sources by themselves: what can be one, and that its bytes are read at any offset, through the page cache
   and past it. */
#define _GNU_SOURCE
#include "base/report/fault.h"
#include "runtime/executor/records/source.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILE_BYTES (3 * MIB + 1000)

static char path[256];
static unsigned char content[FILE_BYTES];
static int drop_count;

static void note_drop(void *user)
{
    CU_ASSERT_PTR_EQUAL(user, content);
    drop_count++;
}

/* A file in a folder, of the content. */
static void write_file(const char *folder)
{
    (void)snprintf(path, sizeof(path), "%s/dao-source-XXXXXX", folder);
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    for (size_t i = 0; i < FILE_BYTES; i++) {
        content[i] = (unsigned char)(i * 7 + i / 4096);
    }
    CU_ASSERT_EQUAL(write(file, content, FILE_BYTES), (ssize_t)FILE_BYTES);
    CU_ASSERT_EQUAL(close(file), 0);
}

static const char *temporary(void)
{
    return getenv("TMPDIR") != NULL ? getenv("TMPDIR") : "/tmp";
}

/* Any bytes are read right, whatever phase they and the memory have. */
static void read_all_over(const dao_source_t *source, dao_file_t *engine)
{
    static const uint64_t offsets[] = {0, 1, 4095, 4096, 12345, 2 * MIB};
    static const size_t sizes[] = {1, 100, 4096, 8192, 20000, MIB + 1};
    unsigned char *block = NULL;
    CU_ASSERT_EQUAL_FATAL(posix_memalign((void **)&block, DAO_SOURCE_BLOCK_BYTES, 2 * MIB), 0);
    for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
        for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++) {
            for (size_t off = 0; off < 2; off++) { /* with the phase that it wants, and with another one */
                size_t phase = dao_source_phase(source, offsets[o]) + off;
                memset(block, 0xee, 2 * MIB);
                CU_ASSERT_EQUAL(dao_source_read(source, engine, offsets[o], block + phase, sizes[s]), 0);
                CU_ASSERT_EQUAL(memcmp(block + phase, content + offsets[o], sizes[s]), 0);
                CU_ASSERT_EQUAL(block[phase + sizes[s]], 0xee);
                CU_ASSERT_TRUE(phase == 0 || block[phase - 1] == 0xee);
            }
        }
    }
    CU_ASSERT_EQUAL(dao_source_read(source, engine, FILE_BYTES - 5000, block, 5000), 0); /* to the end */
    CU_ASSERT_EQUAL(memcmp(block, content + FILE_BYTES - 5000, 5000), 0);
    free(block);
}

/* Returns true if a file of this process that has the path is open and does not wait. */
static bool has_nonblocking(void)
{
    bool has_one = false;
    DIR *files = opendir("/proc/self/fd");
    CU_ASSERT_PTR_NOT_NULL_FATAL(files);
    for (struct dirent *entry = readdir(files); entry != NULL; entry = readdir(files)) {
        char target[sizeof(path)] = "";
        ssize_t length = readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1);
        int flags = length > 0 && strcmp(target, path) == 0
                        ? fcntl((int)strtol(entry->d_name, NULL, 10), F_GETFL)
                        : 0;
        has_one = has_one || (flags & O_NONBLOCK) != 0;
    }
    CU_ASSERT_EQUAL(closedir(files), 0);
    return has_one;
}

/* The io_uring of older kernels answers EAGAIN else, for as long as it is asked. */
static void reads_of_a_file_wait(void)
{
    dao_source_t *source = NULL;
    write_file(temporary());
    CU_ASSERT_EQUAL_FATAL(dao_source_open(path, DAO_SOURCE_CACHE_BYPASS, &source), DAO_OK);
    CU_ASSERT_FALSE(has_nonblocking());
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

static void a_file_is_read_through_the_cache_and_past_it(void)
{
    static const dao_source_cache_t caches[] = {DAO_SOURCE_CACHE_AUTO, DAO_SOURCE_CACHE_USE,
                                                DAO_SOURCE_CACHE_BYPASS};
    static const char *const folders[] = {NULL, "/dev/shm"}; /* the second may have no such reads */
    for (size_t f = 0; f < 2; f++) {
        const char *folder = folders[f] != NULL ? folders[f] : temporary();
        if (access(folder, W_OK) != 0) {
            continue;
        }
        write_file(folder);
        for (size_t i = 0; i < 3; i++) {
            dao_file_t *engine = NULL;
            dao_source_t *source = NULL;
            CU_ASSERT_EQUAL_FATAL(
                dao_file_create(NULL,
                                (dao_file_engine_t)(i == 1 ? DAO_FILE_ENGINE_THREADS : DAO_FILE_ENGINE_AUTO),
                                &engine),
                DAO_OK);
            CU_ASSERT_EQUAL_FATAL(dao_source_open(path, caches[i], &source), DAO_OK);
            CU_ASSERT_EQUAL(dao_source_size(source), FILE_BYTES);
            CU_ASSERT_STRING_EQUAL(dao_source_name(source), path);
            CU_ASSERT_TRUE(caches[i] == DAO_SOURCE_CACHE_BYPASS || dao_source_phase(source, 5) == 0);
            read_all_over(source, engine);
            CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
            dao_file_destroy(engine);
        }
        CU_ASSERT_EQUAL(unlink(path), 0);
    }
}

static void a_file_that_has_become_shorter_is_an_error(void)
{
    dao_file_t *engine = NULL;
    dao_source_t *source = NULL;
    unsigned char bytes[10];
    write_file(temporary());
    CU_ASSERT_EQUAL_FATAL(dao_file_create(NULL, DAO_FILE_ENGINE_AUTO, &engine), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_source_open(path, DAO_SOURCE_CACHE_USE, &source), DAO_OK);
    CU_ASSERT_EQUAL(truncate(path, 100), 0);
    CU_ASSERT_EQUAL(dao_source_read(source, engine, 90, bytes, 10), 0);
    CU_ASSERT_EQUAL(dao_source_read(source, engine, 91, bytes, 10), EIO);
    CU_ASSERT_EQUAL(dao_source_present_size(source), 100);
    CU_ASSERT_EQUAL(dao_source_size(source), FILE_BYTES);
    CU_ASSERT_EQUAL(unlink(path), 0); /* it is open */
    CU_ASSERT_EQUAL(dao_source_read(source, engine, 0, bytes, 10), 0);
    CU_ASSERT_EQUAL(memcmp(bytes, content, 10), 0);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    dao_file_destroy(engine);
}

static void memory_is_read_and_given_back_once(void)
{
    dao_source_t *source = NULL;
    unsigned char bytes[100];
    drop_count = 0;
    CU_ASSERT_EQUAL_FATAL(dao_source_adopt(content, sizeof(content), note_drop, content, &source), DAO_OK);
    CU_ASSERT_EQUAL(dao_source_size(source), sizeof(content));
    CU_ASSERT_EQUAL(dao_source_phase(source, 77), 0);
    CU_ASSERT_EQUAL(dao_source_read(source, NULL, 1234, bytes, sizeof(bytes)), 0);
    CU_ASSERT_EQUAL(memcmp(bytes, content + 1234, sizeof(bytes)), 0);
    dao_source_hold(source);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_ERR_INVALID); /* the tensor's is not the opener's */
    CU_ASSERT_EQUAL(drop_count, 0);
    dao_source_drop(source);
    CU_ASSERT_EQUAL(drop_count, 1);
    CU_ASSERT_EQUAL(dao_source_adopt(content, 1, NULL, NULL, &source), DAO_OK);
    CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
    CU_ASSERT_EQUAL(drop_count, 1);
}

static void what_can_be_no_source_is_refused(void)
{
    dao_source_t *source = NULL;
    CU_ASSERT_EQUAL(dao_source_open(NULL, DAO_SOURCE_CACHE_AUTO, &source), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_open("/tmp", DAO_SOURCE_CACHE_AUTO, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_open("/tmp", DAO_SOURCE_CACHE_AUTO, &source), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "\"/tmp\" is no regular file"));
    CU_ASSERT_EQUAL(dao_source_open("/tmp", (dao_source_cache_t)3, &source), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_open("/no/such/weights", DAO_SOURCE_CACHE_AUTO, &source), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "/no/such/weights"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), strerror(ENOENT)));
    CU_ASSERT_EQUAL(dao_source_adopt(NULL, 1, NULL, NULL, &source), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_adopt(content, 0, NULL, NULL, &source), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_adopt(content, 1, NULL, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_source_release(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_source_size(NULL), 0);
    CU_ASSERT_PTR_NULL(source);
}

/* Opening one to read waits until somebody writes: it is refused at once. */
static void a_fifo_is_refused_and_not_waited_for(void)
{
    dao_source_t *source = NULL;
    write_file(temporary());
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL_FATAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(dao_source_open(path, DAO_SOURCE_CACHE_AUTO, &source), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "is no regular file"));
    CU_ASSERT_PTR_NULL(source);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

#if defined(DAO_FAULTS)
/* Nor is memory taken over that could not be adopted. */
static void want_of_memory_leaves_nothing_open(void)
{
    dao_source_t *source = NULL;
    uint64_t refused_count = 0;
    write_file(temporary());
    drop_count = 0;
    int first_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CU_ASSERT_EQUAL(close(first_free), 0);
    for (int is_file = 0; is_file < 2; is_file++) {
        bool has_failed = true;
        for (uint64_t n = 0; has_failed; n++) {
            dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
            dao_status_t status = is_file != 0
                                      ? dao_source_open(path, DAO_SOURCE_CACHE_BYPASS, &source)
                                      : dao_source_adopt(content, FILE_BYTES, note_drop, content, &source);
            has_failed = dao_fault_disarm() > 0;
            CU_ASSERT_EQUAL(status, has_failed ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
            CU_ASSERT_EQUAL(source == NULL, has_failed);
            CU_ASSERT_EQUAL(drop_count, is_file);
            refused_count += has_failed;
        }
        CU_ASSERT_EQUAL(dao_source_release(source), DAO_OK);
        source = NULL;
    }
    CU_ASSERT_EQUAL(refused_count, 4); /* the record and its name, each time */
    CU_ASSERT_EQUAL(drop_count, 1);
    int still_free = open("/dev/null", O_RDONLY | O_CLOEXEC);
    CU_ASSERT_EQUAL(still_free, first_free);
    CU_ASSERT_EQUAL(close(still_free), 0);
    CU_ASSERT_EQUAL(unlink(path), 0);
}
#endif

static CU_TestInfo tests[] = {
    {"a file is read through the cache and past it", a_file_is_read_through_the_cache_and_past_it},
    {"reads of a file wait", reads_of_a_file_wait},
    {"a file that has become shorter is an error", a_file_that_has_become_shorter_is_an_error},
    {"memory is read, and given back once", memory_is_read_and_given_back_once},
    {"what can be no source is refused", what_can_be_no_source_is_refused},
    {"a fifo is refused and not waited for", a_fifo_is_refused_and_not_waited_for},
#if defined(DAO_FAULTS)
    {"want of memory leaves nothing open", want_of_memory_leaves_nothing_open},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"sources", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
