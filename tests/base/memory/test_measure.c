/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements ask of the system. No case depends on how fast the machine is. */
#define _GNU_SOURCE /* sched_getcpu */
#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "base/threads/sync.h"
#include "tests/support/suite.h"

#include <sched.h>
#include <unistd.h>

static void a_threads_time_never_goes_back(void)
{
    uint64_t before = dao_measure_thread_ns();
    CU_ASSERT_TRUE(dao_measure_lock_pairs(1000) < UINT64_MAX / 2); /* a difference that did not wrap */
    CU_ASSERT_TRUE(dao_measure_thread_ns() >= before);
}

static void first_touches_are_page_faults(void)
{
    enum { PAGE_COUNT = 64 };
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = dao_host_map_pages(PAGE_COUNT * page_bytes);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    uint64_t before = dao_measure_minor_faults();
    pages[0] = 1;
    CU_ASSERT_TRUE(dao_measure_minor_faults() > before);
    dao_host_unmap(pages, PAGE_COUNT * page_bytes);
}

/* Where a thread ran after each time that it was put somewhere; it stays there, so it is one of its own. */
typedef struct stay {
    bool is_put[3];
    int processors[3];
} stay_t;

static void *stay_twice(void *user)
{
    static const uint32_t indices[] = {1, 0, 7};
    stay_t *stay = user;
    for (int i = 0; i < 3; i++) {
        stay->is_put[i] = dao_measure_stay(indices[i]);
        stay->processors[i] = sched_getcpu();
    }
    return NULL;
}

static void a_thread_stays_where_it_is_put(void)
{
    stay_t stay = {0};
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "staying", stay_twice, &stay), DAO_OK);
    dao_thread_join(&thread);
    for (int i = 1; stay.is_put[0] && i < 3; i++) {
        CU_ASSERT_TRUE(stay.is_put[i]); /* counted round and round: one processor is left to it */
        CU_ASSERT_EQUAL(stay.processors[i], stay.processors[0]);
    }
}

static CU_TestInfo tests[] = {
    {"a thread's time never goes back", a_threads_time_never_goes_back},
    {"first touches are page faults", first_touches_are_page_faults},
    {"a thread stays where it is put", a_thread_stays_where_it_is_put},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"measure", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
