/* SPDX-License-Identifier: Apache-2.0 */
/* A signal that ends the process takes a file that is not whole away, and nothing else. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "tests/support/suite.h"
#include "tools/base/interrupt.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static const int ends[] = {SIGTERM, SIGHUP, SIGINT};

/* What a process does with a file before it gets a signal. */
typedef enum way {
    WAY_PART,    /* the file is not whole yet */
    WAY_WHOLE,   /* it was not, and is now */
    WAY_IGNORED, /* it is not, and the signal is ignored */
} way_t;

/* Makes a file, and a process that is sent a signal. Returns how that ended; tells whether the file is left,
   which it then removes. */
static int status_after(way_t way, int signal_number, bool *out_is_left)
{
    char path[] = "/tmp/dao-interrupt-XXXXXX";
    int status = 0;
    int file = mkstemp(path);
    CU_ASSERT_TRUE_FATAL(file >= 0);
    pid_t child = fork();
    if (child == 0) {
        (void)signal(signal_number, way == WAY_IGNORED ? SIG_IGN : SIG_DFL);
        dao_interrupt_remove(path);
        if (way == WAY_WHOLE) {
            dao_interrupt_remove(NULL);
        }
        (void)raise(signal_number);
        _exit(0);
    }
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    *out_is_left = unlink(path) == 0;
    (void)close(file);
    return status;
}

/* Sends each signal: whether it ends the process, and leaves the file. */
static void check_signals(way_t way, bool ends_process, bool leaves_file)
{
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        bool is_left = !leaves_file;
        int status = status_after(way, ends[i], &is_left);
        CU_ASSERT_EQUAL(WIFSIGNALED(status) && WTERMSIG(status) == ends[i], ends_process);
        CU_ASSERT_EQUAL(WIFEXITED(status) && WEXITSTATUS(status) == 0, !ends_process);
        CU_ASSERT_EQUAL(is_left, leaves_file);
    }
}

static void a_signal_takes_a_part_of_a_file_away(void)
{
    check_signals(WAY_PART, true, false);
}

static void a_whole_file_stays(void)
{
    check_signals(WAY_WHOLE, true, true);
}

static void a_signal_that_is_ignored_stays_so(void)
{
    check_signals(WAY_IGNORED, false, true);
}

static CU_TestInfo tests[] = {
    {"a signal takes a part of a file away", a_signal_takes_a_part_of_a_file_away},
    {"a whole file stays", a_whole_file_stays},
    {"a signal that is ignored stays so", a_signal_that_is_ignored_stays_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"interrupt", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
