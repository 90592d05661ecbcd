/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads: no two threads have the same, and a number ends with its thread. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "base/threads/sync.h"
#include "base/threads/thread_number.h"
#include "tests/support/suite.h"

#include <stdio.h>

enum { THREAD_COUNT = 50 };

/* What a thread sees of itself. */
typedef struct numbered {
    uint64_t number;
    bool is_the_same; /* when it is asked for again */
    bool lives;
    dao_status_t left; /* the last error of a thread that had one of its own before */
} numbered_t;

static void *ask_for_number(void *user)
{
    numbered_t *numbered = user;
    (void)dao_error(DAO_ERR_BUSY, "the thread's own");
    numbered->number = dao_thread_number();
    numbered->is_the_same = numbered->number == dao_thread_number();
    numbered->lives = numbered->number != 0 && dao_thread_number_lives(numbered->number);
    numbered->left = dao_last_status();
    return NULL;
}

static numbered_t run_numbered(void)
{
    numbered_t numbered = {0};
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "numbered", ask_for_number, &numbered), DAO_OK);
    dao_thread_join(&thread);
    return numbered;
}

static void no_two_threads_have_one_number(void)
{
    uint64_t numbers[THREAD_COUNT + 1] = {dao_thread_number()};
    CU_ASSERT_NOT_EQUAL(numbers[0], 0);
    for (uint32_t i = 1; i <= THREAD_COUNT; i++) {
        numbered_t numbered = run_numbered();
        CU_ASSERT_TRUE(numbered.is_the_same);
        CU_ASSERT_TRUE(numbered.lives);
        CU_ASSERT_FALSE(dao_thread_number_lives(numbered.number));
        numbers[i] = numbered.number;
        for (uint32_t k = 0; k < i; k++) {
            CU_ASSERT_NOT_EQUAL(numbers[i], numbers[k]);
        }
    }
    CU_ASSERT_TRUE(dao_thread_number_lives(numbers[0]));
}

/* Threads that all ask before any of them ends. */
enum { CROWD_COUNT = DAO_THREAD_NUMBER_MAX + 8 };

static struct {
    dao_mutex_t lock;
    dao_cond_t may_end;
    uint32_t asked_count, started_count; /* UINT32_MAX: more are started */
    uint64_t numbers[CROWD_COUNT];
} crowd;

static void *ask_and_stay(void *user)
{
    uint64_t *number = user;
    *number = dao_thread_number();
    dao_mutex_lock(&crowd.lock);
    crowd.asked_count++;
    dao_cond_broadcast(&crowd.may_end);
    while (crowd.asked_count < crowd.started_count) {
        dao_cond_wait(&crowd.may_end, &crowd.lock);
    }
    dao_mutex_unlock(&crowd.lock);
    return NULL;
}

/* Returns how many of a crowd could be started; all have ended. */
static uint32_t run_crowd(void)
{
    static dao_thread_t threads[CROWD_COUNT];
    uint32_t count = 0;
    crowd.asked_count = 0;
    crowd.started_count = UINT32_MAX;
    dao_mutex_init(&crowd.lock, DAO_RANK_LEAF);
    dao_cond_init(&crowd.may_end);
    while (count < CROWD_COUNT &&
           dao_thread_start(&threads[count], "crowd", ask_and_stay, &crowd.numbers[count]) == DAO_OK) {
        count++;
    }
    dao_mutex_lock(&crowd.lock);
    crowd.started_count = count;
    dao_cond_broadcast(&crowd.may_end);
    dao_mutex_unlock(&crowd.lock);
    for (uint32_t i = 0; i < count; i++) {
        dao_thread_join(&threads[i]);
    }
    dao_cond_finish(&crowd.may_end);
    dao_mutex_finish(&crowd.lock);
    return count;
}

static void threads_beyond_the_most_have_no_number(void)
{
    static bool is_taken[DAO_THREAD_NUMBER_MAX];
    uint32_t without_count = 0;
    is_taken[dao_thread_number() % DAO_THREAD_NUMBER_MAX] = true; /* this thread's */
    uint32_t count = run_crowd();
    if (count < CROWD_COUNT) {
        printf("    skipped: the system starts only %u threads\n", count);
        return;
    }
    for (uint32_t i = 0; i < CROWD_COUNT; i++) {
        uint64_t number = crowd.numbers[i];
        without_count += number == 0;
        CU_ASSERT_TRUE(number == 0 || !is_taken[number % DAO_THREAD_NUMBER_MAX]);
        is_taken[number % DAO_THREAD_NUMBER_MAX] |= number != 0;
    }
    CU_ASSERT_EQUAL(without_count, CROWD_COUNT - DAO_THREAD_NUMBER_MAX + 1);
    CU_ASSERT_NOT_EQUAL(run_numbered().number, 0); /* they have ended */
}

#if defined(DAO_FAULTS)
/* Runs first: no thread has asked for the ends of threads yet. */
static void a_thread_whose_end_cannot_be_seen_has_no_number(void)
{
    numbered_t numbered = {0};
    dao_thread_t thread;
    dao_fault_arm(DAO_FAULT_THREAD, 1, true); /* the next one starts */
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "numbered", ask_for_number, &numbered), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1); /* it does not ask again */
    CU_ASSERT_EQUAL(numbered.number, 0);
    CU_ASSERT_EQUAL(numbered.left, DAO_ERR_BUSY);
    CU_ASSERT_NOT_EQUAL(run_numbered().number, 0);
    dao_fault_arm(DAO_FAULT_THREAD, 1, true); /* ends of threads are seen now, but not this one's */
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "numbered", ask_for_number, &numbered), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(numbered.number, 0);
    CU_ASSERT_EQUAL(numbered.left, DAO_ERR_BUSY);
    CU_ASSERT_NOT_EQUAL(run_numbered().number, 0);
}
#endif

static CU_TestInfo tests[] = {
#if defined(DAO_FAULTS)
    {"a thread whose end cannot be seen has no number", a_thread_whose_end_cannot_be_seen_has_no_number},
#endif
    {"no two threads have one number", no_two_threads_have_one_number},
    {"threads beyond the most have no number", threads_beyond_the_most_have_no_number},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"thread_number", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
