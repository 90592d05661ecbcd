/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library: the program's signals never reach them. */
#define _GNU_SOURCE
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>

static void *read_mask(void *user)
{
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_SETMASK, NULL, user), 0);
    return NULL;
}

static void a_thread_takes_no_signal_of_the_program(void)
{
    static const int signals[] = {SIGALRM, SIGINT, SIGPROF, SIGTERM, SIGUSR1};
    sigset_t own, before, after;
    CU_ASSERT_EQUAL(sigemptyset(&own), 0);
    CU_ASSERT_EQUAL(sigaddset(&own, SIGUSR2), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_sigmask(SIG_SETMASK, &own, &before), 0);
    sigset_t seen;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "masked", read_mask, &seen), DAO_OK);
    dao_thread_join(&thread);
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
        CU_ASSERT_EQUAL(sigismember(&seen, signals[i]), 1);
    }
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    CU_ASSERT_EQUAL(sigismember(&after, SIGUSR2), 1); /* who starts a thread keeps his own mask */
    CU_ASSERT_EQUAL(sigismember(&after, SIGUSR1), 0);
}

static CU_TestInfo tests[] = {
    {"a thread takes no signal of the program", a_thread_takes_no_signal_of_the_program},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"sync", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
