/* SPDX-License-Identifier: Apache-2.0 */
/* A write beyond the limit of file sizes fails while the signal is held, and nothing is left of that. */
#define _GNU_SOURCE
#include "base/threads/size_signal.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define LIMIT_BYTES 16

static bool is_pending(void)
{
    sigset_t pending;
    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

/* Writes up to the limit, and beyond it. Returns the errno of that. */
static int write_beyond(int file)
{
    static const char text[LIMIT_BYTES];
    dao_size_signal_t held;
    dao_size_signal_hold(&held);
    int error = write(file, text, sizeof(text)) == LIMIT_BYTES && write(file, text, 1) < 0 ? errno : 0;
    dao_size_signal_release(&held);
    return error;
}

static int in_child(bool blocks_itself)
{
    struct rlimit limit = {LIMIT_BYTES, RLIM_INFINITY};
    char path[] = "/tmp/dao-size-XXXXXX";
    int file = mkstemp(path);
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGXFSZ);
    if (file < 0 || unlink(path) != 0 || setrlimit(RLIMIT_FSIZE, &limit) != 0) {
        return 1;
    }
    if (blocks_itself) { /* what the program holds back of its own stays */
        return sigprocmask(SIG_BLOCK, &set, NULL) == 0 && raise(SIGXFSZ) == 0 &&
                       write_beyond(file) == EFBIG && is_pending()
                   ? 0
                   : 2;
    }
    if (write_beyond(file) != EFBIG || is_pending()) {
        return 3;
    }
    (void)raise(SIGXFSZ); /* it is no longer held */
    return 4;
}

static int status_of_child(bool blocks_itself)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        _exit(in_child(blocks_itself));
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    return status;
}

static void a_write_beyond_the_limit_fails(void)
{
    int status = status_of_child(false);
    CU_ASSERT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
}

static void a_signal_of_the_program_stays(void)
{
    int status = status_of_child(true);
    CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static CU_TestInfo tests[] = {
    {"a write beyond the limit fails", a_write_beyond_the_limit_fails},
    {"a signal of the program stays", a_signal_of_the_program_stays},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"size signal", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
