/* SPDX-License-Identifier: Apache-2.0 */
/* Starts and ends of the library in processes of their own: the first one of a process, one that leaves much,
   and those of children of a process that has started it, or had. */
#define _GNU_SOURCE /* sendfile */
#include <dao/dao.h>

#include "tests/support/suite.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static dao_config_t config_small(void)
{
    return (dao_config_t){.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
}

/* Runs a function in a child process and gives what it answers; -1 if the child died otherwise. */
static int in_child(int (*function)(void *), void *user)
{
    (void)fflush(NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(300); /* a child that hangs has failed */
        _exit(function(user));
    }
    int result = -1;
    return child > 0 && waitpid(child, &result, 0) == child && WIFEXITED(result) ? WEXITSTATUS(result) : -1;
}

/* In a process of its own: only the first start may be another call's. */
static int start_by_a_call(void *user)
{
    const dao_config_t defaults = {.cpu.device_count = 0};
    dao_config_t asked = defaults;
    (void)user;
    bool is_good = dao_device_count(&asked.cpu.device_count) == DAO_OK && asked.cpu.device_count > 0;
    is_good = is_good && dao_init(&asked) == DAO_ERR_BUSY; /* what is in force, but nobody said it */
    is_good = is_good && strstr(dao_last_message(), "cpu.device_count is") != NULL;
    is_good = is_good && strstr(dao_last_message(), "was started without it") != NULL;
    is_good = is_good && dao_init(NULL) == DAO_OK && dao_init(&defaults) == DAO_OK;
    is_good = is_good && dao_finalize() == DAO_OK && dao_finalize() == DAO_OK;
    return is_good && dao_finalize() == DAO_ERR_SHUTDOWN ? 0 : 1;
}

static void a_start_by_another_call_says_nothing(void)
{
    CU_ASSERT_EQUAL(in_child(start_by_a_call, NULL), 0);
}

static int left_lines;
static bool has_rest;

static void count_left(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    (void)user;
    left_lines += strstr(message, "live at shutdown: ") != NULL;
    has_rest = has_rest || strcmp(message, "live at shutdown: 7 more handles") == 0;
}

/* More handles than a program that leaks wants to read of. */
static int leave_handles(void *user)
{
    enum { NAMED_COUNT = 100, LEFT_COUNT = NAMED_COUNT + 7 };
    static char bytes[LEFT_COUNT];
    (void)user;
    dao_config_t config = config_small();
    config.log_callback = count_left;
    config.log_level = DAO_LOG_LEVEL_WARNING;
    bool is_good = dao_init(&config) == DAO_OK;
    for (int i = 0; is_good && i < LEFT_COUNT; i++) {
        dao_memory_t *left = NULL;
        is_good = dao_memory_from_pointer(dao_cpu_place(), &bytes[i], 1, NULL, NULL, &left) == DAO_OK;
    }
    is_good = is_good && dao_finalize() == DAO_ERR_BUSY;
    return is_good && left_lines == NAMED_COUNT + 1 && has_rest ? 0 : 1;
}

static void many_handles_that_are_left_are_counted(void)
{
    CU_ASSERT_EQUAL(in_child(leave_handles, NULL), 0);
}

static int use_forked_library(void *user)
{
    int32_t count;
    dao_memory_t *part = NULL;
    bool is_good = dao_alloc(dao_device_place(0), 10) == NULL && dao_last_status() == DAO_ERR_FORKED;
    is_good = is_good && dao_device_count(&count) == DAO_ERR_FORKED && dao_init(NULL) == DAO_ERR_FORKED;
    is_good = is_good && dao_finalize() == DAO_ERR_FORKED;
    is_good = is_good && dao_memory_sub_range(user, 0, 1, &part) == DAO_ERR_FORKED;
    return is_good && dao_memory_release(user) == DAO_OK ? 0 : 1;
}

static int start_after_fork(void *user)
{
    dao_config_t config = config_small();
    void *block = dao_init(&config) == DAO_OK ? dao_alloc(dao_cpu_place(), 10) : NULL;
    bool is_good = block != NULL && dao_free(dao_cpu_place(), block) == DAO_OK && dao_finalize() == DAO_OK;
    return is_good && (user == NULL || dao_memory_release(user) == DAO_OK) ? 0 : 1;
}

static void a_child_of_a_started_process_is_told(void)
{
    dao_config_t config = config_small();
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 100, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(in_child(use_forked_library, memory), 0);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_child_of_a_stopped_process_may_start(void)
{
    dao_config_t config = config_small();
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(in_child(start_after_fork, NULL), 0);
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_cpu_place()), 100, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(in_child(start_after_fork, memory), 0); /* and the old handle is left alone */
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

/* ---- a process with more rights than who starts it ---- */

enum { NOBODY = 65534, IS_NOT_SECURE = 77 };
static const char started_by_others[] = "--started-by-others";
static const char recording_name[] = "recording";

/* The process: its environment says DAO_LOG=off and DAO_RECORD. */
static int heeds_no_setting(void)
{
    if (getauxval(AT_SECURE) == 0) {
        return IS_NOT_SECURE; /* such as from a file system that is mounted with nosuid */
    }
    dao_config_t config = {.log_callback = count_left};
    bool is_good = dao_init(&config) == DAO_OK && dao_alloc(dao_cpu_place(), 100) != NULL;
    is_good = is_good && dao_finalize() == DAO_ERR_BUSY && left_lines > 0;
    return is_good && access(recording_name, F_OK) != 0 ? 0 : 1;
}

/* Copies this program to a file whose owner's rights whoever starts it gets. */
static bool copy_with_rights(const char *path)
{
    struct stat info;
    int from = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    bool is_good = from >= 0 && to >= 0 && fstat(from, &info) == 0;
    for (off_t left = is_good ? info.st_size : 0; is_good && left > 0;) {
        ssize_t count = sendfile(to, from, NULL, (size_t)left);
        is_good = count > 0;
        left -= count;
    }
    is_good = is_good && fchmod(to, S_ISUID | 0755) == 0;
    return (from < 0 || close(from) == 0) && (to < 0 || close(to) == 0) && is_good;
}

static int start_as_nobody(void *path)
{
    char recording[] = "DAO_RECORD=recording", log[] = "DAO_LOG=off";
    char *arguments[] = {path, (char *)(uintptr_t)started_by_others, NULL};
    char *environment[] = {recording, log, NULL};
    if (setgid(NOBODY) == 0 && setuid(NOBODY) == 0) {
        (void)execve(path, arguments, environment);
    }
    return IS_NOT_SECURE;
}

static void more_rights_than_who_starts_it_heed_no_setting(void)
{
    char folder[] = "/tmp/dao_rights_XXXXXX";
    char path[sizeof(folder) + 16];
    if (geteuid() != 0) {
        (void)printf("    not root: not run\n");
        return;
    }
    CU_ASSERT_TRUE_FATAL(mkdtemp(folder) != NULL && chmod(folder, 0777) == 0);
    (void)snprintf(path, sizeof(path), "%s/program", folder);
    CU_ASSERT_TRUE(copy_with_rights(path));
    int back = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CU_ASSERT_TRUE_FATAL(back >= 0 && chdir(folder) == 0);
    int result = in_child(start_as_nobody, path);
    (void)printf("%s",
                 result == IS_NOT_SECURE ? "    the system gives no rights to a program: not run\n" : "");
    CU_ASSERT_TRUE(result == 0 || result == IS_NOT_SECURE);
    (void)unlink(recording_name);
    CU_ASSERT_TRUE(fchdir(back) == 0 && close(back) == 0 && unlink(path) == 0 && rmdir(folder) == 0);
}

static CU_TestInfo tests[] = {
    {"a start by another call says nothing", a_start_by_another_call_says_nothing},
    {"many handles that are left are counted", many_handles_that_are_left_are_counted},
    {"a child of a started process is told", a_child_of_a_started_process_is_told},
    {"a child of a stopped process may start", a_child_of_a_stopped_process_may_start},
    {"more rights than who starts it heed no setting", more_rights_than_who_starts_it_heed_no_setting},
    CU_TEST_INFO_NULL,
};

int main(int argument_count, char **arguments)
{
    if (argument_count == 2 && strcmp(arguments[1], started_by_others) == 0) {
        return heeds_no_setting();
    }
    CU_SuiteInfo suites[] = {{"context, processes", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
