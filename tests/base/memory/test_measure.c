/* SPDX-License-Identifier: Apache-2.0 */
/* What measurements ask of the system. No case depends on how fast the machine is. */
#include "base/memory/host.h"
#include "base/memory/measure.h"
#include "tests/support/suite.h"

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

/* Last: the thread stays where it was put. */
static void a_thread_stays_where_it_is_put(void)
{
    if (dao_measure_stay(0)) {
        CU_ASSERT_TRUE(dao_measure_stay(7)); /* counted round and round: one processor is left to it */
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
