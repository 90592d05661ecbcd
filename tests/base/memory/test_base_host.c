/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the system: they move with their bytes, keep their alignment and leave nothing behind. */
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

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

/* Tables that are mapped once they are large: what they had stays, whichever way they are resized. */
static void sparse_tables_keep_what_they_have(void)
{
    enum { FEW = 100 };
    size_t many = 2 * DAO_HOST_SPARSE_BYTES / sizeof(uint64_t);
    const size_t counts[] = {FEW, 2 * FEW, many, 3 * many, 2 * many, 2 * many - 1, many, FEW, 1};
    uint64_t *table = dao_host_sparse_resize(NULL, 0, counts[0], sizeof(*table));
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    table[0] = 77;
    for (size_t i = 1; i < sizeof(counts) / sizeof(counts[0]); i++) {
        table = dao_host_sparse_resize(table, counts[i - 1], counts[i], sizeof(*table));
        CU_ASSERT_PTR_NOT_NULL_FATAL(table);
        CU_ASSERT_EQUAL(table[0], 77);
        table[counts[i] - 1] = counts[i] == 1 ? 77 : i;
    }
    CU_ASSERT_PTR_NULL(dao_host_sparse(SIZE_MAX / 2, sizeof(*table)));
    CU_ASSERT_PTR_NULL(dao_host_sparse_resize(table, 1, SIZE_MAX / 2, sizeof(*table)));
    CU_ASSERT_EQUAL(table[0], 77);
    dao_host_sparse_free(table, 1, sizeof(*table));
    table = dao_host_sparse_resize(NULL, 0, many, sizeof(*table));
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    CU_ASSERT_EQUAL(table[many - 1], 0);
    dao_host_sparse_free(table, many, sizeof(*table));
}

#if defined(DAO_FAULTS)
static void what_is_refused_leaves_all_as_it_was(void)
{
    char *pages = dao_host_map(PAGE, PAGE);
    uint64_t *table = dao_host_sparse_resize(NULL, 0, 10, sizeof(*table));
    CU_ASSERT_PTR_NOT_NULL_FATAL(pages);
    CU_ASSERT_PTR_NOT_NULL_FATAL(table);
    pages[0] = 7;
    table[9] = 77;
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 0, true);
    CU_ASSERT_FALSE(dao_host_map_at(pages, PAGE));
    CU_ASSERT_FALSE(dao_host_alias(pages, pages + PAGE / 2, PAGE / 2));
    size_t many = 2 * DAO_HOST_SPARSE_BYTES / sizeof(*table);
    CU_ASSERT_PTR_NULL(dao_host_sparse_resize(table, 10, many, sizeof(*table)));
    CU_ASSERT_EQUAL(dao_fault_disarm(), 3);
    CU_ASSERT_EQUAL(pages[0], 7);
    CU_ASSERT_EQUAL(table[9], 77);
    dao_host_sparse_free(table, 10, sizeof(*table));
    dao_host_unmap(pages, PAGE);
}
#endif

static CU_TestInfo tests[] = {
#if defined(DAO_FAULTS)
    {"what is refused leaves all as it was", what_is_refused_leaves_all_as_it_was},
#endif
    {"pages move with their bytes and come home", pages_move_with_their_bytes_and_come_home},
    {"odd sizes leave nothing behind", odd_sizes_leave_nothing_behind},
    {"sparse tables keep what they have", sparse_tables_keep_what_they_have},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
