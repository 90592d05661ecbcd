/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library: the program's signals never reach them, a wait of theirs is not cancelled, and a
   fork finds the locks free that a child needs. */
#define _GNU_SOURCE
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

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
    static const int own_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS};
    for (size_t i = 0; i < sizeof(own_signals) / sizeof(own_signals[0]); i++) {
        CU_ASSERT_EQUAL(sigismember(&seen, own_signals[i]), 0); /* a handler hears of its own faults */
    }
    CU_ASSERT_EQUAL(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
    CU_ASSERT_EQUAL(sigismember(&after, SIGUSR2), 1); /* who starts a thread keeps his own mask */
    CU_ASSERT_EQUAL(sigismember(&after, SIGUSR1), 0);
}

typedef struct waiting {
    dao_mutex_t mutex;
    dao_cond_t cond;
    int passed_count;
} waiting_t;

/* All is done by a thread that was cancelled before. */
static void *wait_cancelled(void *user)
{
    waiting_t *waiting = user;
    CU_ASSERT_EQUAL(pthread_cancel(pthread_self()), 0);
    dao_mutex_lock(&waiting->mutex);
    CU_ASSERT_FALSE(dao_cond_wait_until(&waiting->cond, &waiting->mutex, dao_clock_ns() + 1));
    waiting->passed_count++;
    dao_cond_broadcast(&waiting->cond);
    while (waiting->passed_count == 1) {
        dao_cond_wait(&waiting->cond, &waiting->mutex);
    }
    dao_sleep_until(dao_clock_ns() + 1);
    waiting->passed_count++;
    dao_mutex_unlock(&waiting->mutex);
    pthread_testcancel();
    waiting->passed_count++; /* not reached */
    return NULL;
}

static void a_wait_is_no_cancellation_point(void)
{
    waiting_t waiting = {.passed_count = 0};
    dao_mutex_init(&waiting.mutex, DAO_RANK_LEAF);
    dao_cond_init(&waiting.cond);
    pthread_t thread;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, wait_cancelled, &waiting), 0);
    dao_mutex_lock(&waiting.mutex); /* for ever, where a thread has ended in its wait */
    while (waiting.passed_count == 0) {
        dao_cond_wait(&waiting.cond, &waiting.mutex);
    }
    waiting.passed_count = 2;
    dao_cond_broadcast(&waiting.cond);
    dao_mutex_unlock(&waiting.mutex);
    void *result = NULL;
    CU_ASSERT_EQUAL_FATAL(pthread_join(thread, &result), 0);
    CU_ASSERT_PTR_EQUAL(result, PTHREAD_CANCELED);
    CU_ASSERT_EQUAL(waiting.passed_count, 3);
    dao_cond_finish(&waiting.cond);
    dao_mutex_finish(&waiting.mutex);
}

#define FORK_COUNT    25
#define CHILD_SECONDS 300 /* one that hangs has failed */

static dao_mutex_t held = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
DAO_HELD_OVER_FORK(held)
static uint64_t begun_count, ended_count; /* guarded by the lock */

static void *begin_and_end(void *user)
{
    const _Atomic bool *is_over = user;
    do {
        dao_mutex_lock(&held);
        begun_count++;
        dao_thread_yield();
        ended_count++;
        dao_mutex_unlock(&held);
        dao_thread_yield();
    } while (!atomic_load(is_over));
    return NULL;
}

/* Returns the exit status of a child that takes the lock: 0 if what it guards is whole. */
static int child_takes_it(void)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(CHILD_SECONDS);
        dao_mutex_lock(&held);
        _exit(begun_count != ended_count);
    }
    int status = -1;
    return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void a_child_finds_locks_free_that_are_held_over_forks(void)
{
    _Atomic bool is_over = false;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "changes", begin_and_end, &is_over), DAO_OK);
    int wrong_count = 0;
    for (int i = 0; i < FORK_COUNT && wrong_count == 0; i++) {
        wrong_count += child_takes_it() != 0;
    }
    CU_ASSERT_EQUAL(wrong_count, 0);
    atomic_store(&is_over, true);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(begun_count, ended_count);
    CU_ASSERT(begun_count > 0);
}

static CU_TestInfo tests[] = {
    {"a thread takes no signal of the program", a_thread_takes_no_signal_of_the_program},
    {"a wait is no cancellation point", a_wait_is_no_cancellation_point},
    {"a child finds locks free that are held over forks", a_child_finds_locks_free_that_are_held_over_forks},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"sync", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
