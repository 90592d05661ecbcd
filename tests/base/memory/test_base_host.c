/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the system: they move with their bytes, keep their alignment and leave nothing behind. */
#include "base/memory/host.h"
#include "tests/support/suite.h"

#include <stdint.h>
#include <stdio.h>

#define PAGE (2 * MIB)

static void pages_move_with_their_bytes_and_come_home(void)
{
    enum { COUNT = 4, ROUNDS = 20 };
    char *range = dao_host_reserve(COUNT * PAGE, PAGE);
    char *pages = dao_host_map(PAGE, PAGE);
    CU_ASSERT_PTR_NOT_NULL_FATAL(range);
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    CU_ASSERT_EQUAL((uintptr_t)range % PAGE, 0);
    CU_ASSERT_EQUAL((uintptr_t)pages % PAGE, 0);
    for (int i = 0; i < ROUNDS; i++) {
        char *place = range + (size_t)(i * i % COUNT) * PAGE;
        CU_ASSERT_EQUAL(pages[0], (char)i);
        CU_ASSERT_TRUE_FATAL(dao_host_move(pages, place, PAGE));
        place[0]++;
        place[PAGE - 1]--;
        pages = dao_host_move_home(place, PAGE, PAGE);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
        CU_ASSERT_TRUE(pages < range || pages >= range + COUNT * PAGE);
        CU_ASSERT_EQUAL(pages[PAGE - 1], (char)-(i + 1));
    }
    dao_host_unmap(pages, PAGE);
    dao_host_unmap(range, COUNT * PAGE);
}

/* Address space of the process, in pages of the system. */
static long mapped_page_count(void)
{
    long count = -1;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file != NULL) {
        CU_ASSERT_EQUAL(fscanf(file, "%ld", &count), 1);
        (void)fclose(file);
    }
    return count;
}

static void odd_sizes_leave_nothing_behind(void)
{
    enum { COUNT = 300 };
    dao_host_unmap(dao_host_map(1, PAGE), 1);
    long before = mapped_page_count();
    for (size_t i = 0; i < COUNT; i++) {
        char *pages = dao_host_map(PAGE + i * 127 + 1, PAGE);
        CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
        pages[PAGE + i * 127] = 1;
        dao_host_unmap(pages, PAGE + i * 127 + 1);
    }
    CU_ASSERT_TRUE(mapped_page_count() - before < COUNT);
}

static CU_TestInfo tests[] = {
    {"pages move with their bytes and come home", pages_move_with_their_bytes_and_come_home},
    {"odd sizes leave nothing behind", odd_sizes_leave_nothing_behind},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
