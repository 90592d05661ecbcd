/* SPDX-License-Identifier: Apache-2.0 */
/* A process that may have no more addresses, files or bytes of files: each refusal of the system is answered,
   and changes nothing. Not under a sanitizer, which needs addresses itself. */
#include "base/files/file_uring.h"
#include "base/memory/host.h"
#include "base/memory/shared.h"
#include "tests/support/suite.h"

#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE (2 * MIB)

/* Sets the process's soft limit; returns the former one. */
static rlim_t limit_set(__rlimit_resource_t resource, rlim_t most)
{
    struct rlimit limit;
    CU_ASSERT_EQUAL(getrlimit(resource, &limit), 0);
    rlim_t former = limit.rlim_cur;
    limit.rlim_cur = most;
    CU_ASSERT_EQUAL(setrlimit(resource, &limit), 0);
    return former;
}

/* In a process that may have no more addresses. Returns the number of the first wrong answer; 0: none. */
static int ask_without_addresses(char *pages, uint64_t *table, size_t many)
{
    void *address = pages;
    size_t size_bytes = 0;
    int shared = dao_shared_create(PAGE);
    dao_file_uring_t *uring = NULL;
    rlim_t former = limit_set(RLIMIT_AS, 1);
    int wrong = dao_host_map(PAGE, PAGE) != NULL                                        ? 1
                : dao_host_reserve(PAGE, PAGE) != NULL                                  ? 2
                : dao_host_map_pages(PAGE) != NULL                                      ? 3
                : dao_host_grow_pages(pages, PAGE, 2 * PAGE) != NULL                    ? 4
                : dao_host_has_aliases()                                                ? 5
                : dao_host_move_home(pages, PAGE, PAGE) != NULL                         ? 6
                : dao_host_map_at(pages, SIZE_MAX / 2)                                  ? 15
                : dao_host_sparse(many, sizeof(*table)) != NULL                         ? 7
                : dao_host_sparse_resize(table, many, 2 * many, sizeof(*table)) != NULL ? 8
                : dao_shared_show("dao test", PAGE, &address) != DAO_NO_DESCRIPTOR      ? 9
                : address != pages                                                      ? 10
                : dao_shared_look(shared, &size_bytes) != NULL                          ? 11
                : dao_file_uring_create(&uring) != DAO_ERR_UNSUPPORTED                  ? 12
                : uring != NULL                                                         ? 13
                : pages[0] != 7 || table[0] != 77                                       ? 14
                                                                                        : 0;
    (void)limit_set(RLIMIT_AS, former);
    return wrong;
}

/* The same of a process that may write no files, and of one that may open none. */
static int ask_without_files(void)
{
    void *address = NULL;
    dao_file_uring_t *uring = NULL;
    size_t size_bytes;
    rlim_t former = limit_set(RLIMIT_FSIZE, 1);
    int wrong = dao_shared_create(PAGE) != DAO_NO_DESCRIPTOR                       ? 20
                : dao_shared_show("dao test", PAGE, &address) != DAO_NO_DESCRIPTOR ? 21
                                                                                   : 0;
    (void)limit_set(RLIMIT_FSIZE, former);
    former = limit_set(RLIMIT_NOFILE, 0);
    wrong = wrong != 0                                                         ? wrong
            : dao_shared_create(PAGE) != DAO_NO_DESCRIPTOR                     ? 22
            : dao_shared_show("dao test", PAGE, &address) != DAO_NO_DESCRIPTOR ? 23
            : dao_shared_look(DAO_NO_DESCRIPTOR, &size_bytes) != NULL          ? 24
            : dao_file_uring_create(&uring) != DAO_ERR_UNSUPPORTED             ? 25
                                                                               : 0;
    (void)limit_set(RLIMIT_NOFILE, former);
    return wrong;
}

static void a_system_that_refuses_is_answered(void)
{
    size_t many = 2 * DAO_HOST_SPARSE_BYTES / sizeof(uint64_t);
    char *pages = dao_host_map(PAGE, PAGE);
    uint64_t *table = dao_host_sparse(many, sizeof(*table));
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    pages[0] = 7;
    table[0] = 77;
    pid_t child = fork();
    if (child == 0) {
        int wrong = ask_without_addresses(pages, table, many);
        _exit(wrong != 0 ? wrong : ask_without_files());
    }
    int status = -1;
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
    dao_host_sparse_free(table, many, sizeof(*table));
    dao_host_unmap(pages, PAGE);
}

static CU_TestInfo tests[] = {
    {"a system that refuses is answered", a_system_that_refuses_is_answered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"limits", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
