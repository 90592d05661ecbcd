/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a free: no wake is missed, and the time is kept. */
#include "allocators/slow_path.h"
#include "base/threads/sync.h"
#include "runtime/core/waiters.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

static void a_free_wakes_nobody_when_none_waits(void)
{
    uint64_t seen = dao_waiters_wakes();
    dao_waiters_note_free();
    CU_ASSERT_EQUAL(dao_waiters_wakes(), seen);
}

static void a_waiter_needs_the_slow_path(void)
{
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
    dao_waiters_begin();
    CU_ASSERT_TRUE(dao_slow_path_is_needed());
    CU_ASSERT_EQUAL(atomic_load(&dao_waiter_count), 1);
    dao_waiters_end();
    CU_ASSERT_EQUAL(atomic_load(&dao_waiter_count), 0);
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
}

static void a_wake_before_the_wait_is_seen(void)
{
    dao_waiters_begin();
    uint64_t seen = dao_waiters_wakes();
    dao_waiters_note_free();
    CU_ASSERT_TRUE(dao_waiters_wait(seen, UINT64_MAX));
    CU_ASSERT_EQUAL(dao_waiters_wakes(), seen + 1);
    dao_waiters_end();
}

static void a_wait_ends_with_its_time(void)
{
    dao_waiters_begin();
    CU_ASSERT_FALSE(dao_waiters_wait(dao_waiters_wakes(), 0)); /* in the past */
    dao_waiters_end();
}

/* ---- threads ---- */

#define THREAD_COUNT 3u

static _Atomic uint32_t woken_count;

static void *wait_for_a_free(void *user)
{
    const uint64_t *seen = user;
    if (dao_waiters_wait(*seen, UINT64_MAX)) {
        atomic_fetch_add(&woken_count, 1);
    }
    return NULL;
}

static void a_free_wakes_all_that_wait(void)
{
    dao_thread_t threads[THREAD_COUNT];
    dao_waiters_begin();
    uint64_t seen = dao_waiters_wakes();
    atomic_store(&woken_count, 0);
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "waiter", wait_for_a_free, &seen), DAO_OK);
    }
    dao_waiters_note_free();
    for (size_t i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(atomic_load(&woken_count), THREAD_COUNT);
    dao_waiters_end();
}

static CU_TestInfo tests[] = {
    {"a free wakes nobody when none waits", a_free_wakes_nobody_when_none_waits},
    {"a waiter needs the slow path", a_waiter_needs_the_slow_path},
    {"a wake before the wait is seen", a_wake_before_the_wait_is_seen},
    {"a wait ends with its time", a_wait_ends_with_its_time},
    {"a free wakes all that wait", a_free_wakes_all_that_wait},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"waiters", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
