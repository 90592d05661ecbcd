/* SPDX-License-Identifier: Apache-2.0 */
/* libdao_malloc.so, preloaded into a program that is linked with jemalloc: the whole family is the preloaded
   library's, so no block may reach an allocator that did not give it. */
#define _GNU_SOURCE
#include "integrations/malloc/dao_malloc.h"

#include "tests/support/suite.h"

#include <dao/dao.h>

#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Weak, so that the program starts, and says what is missing, without the preloaded library. */
#pragma weak dao_malloc_step_begin

/* jemalloc's own, which it has besides malloc(): the program uses it, so the linker keeps the library. */
extern int mallctl(const char *name, void *old, size_t *old_bytes, void *new, size_t new_bytes);

/* On both sides of what libdao serves, and of what realloc() leaves to glibc. */
static const size_t sizes[] = {1, 24, 1000, 32 << 10, (32 << 10) + 1, 200 << 10, 3 << 20, 20 << 20};

enum { SIZE_COUNT = sizeof(sizes) / sizeof(sizes[0]) };

/* So that the compiler does not know what becomes of a block. */
static void *volatile sink;

static char *seen(void *address)
{
    sink = address;
    return sink;
}

static int begin(void)
{
    return &dao_malloc_step_begin == NULL; /* LD_PRELOAD=libdao_malloc.so is missing */
}

static void the_other_allocator_is_loaded(void)
{
    const char *version = NULL;
    size_t bytes = sizeof(version);
    CU_ASSERT_EQUAL(mallctl("version", (void *)&version, &bytes, NULL, 0), 0);
    CU_ASSERT_PTR_NOT_NULL(version);
    void *jemalloc = dlopen("libjemalloc.so.2", RTLD_LAZY | RTLD_NOLOAD);
    CU_ASSERT_PTR_NOT_NULL_FATAL(jemalloc);
    CU_ASSERT_PTR_NOT_NULL(dlsym(jemalloc, "malloc_usable_size")); /* what a search by name would find */
    CU_ASSERT_EQUAL(dlclose(jemalloc), 0);
}

static void every_block_says_its_usable_size(void)
{
    for (int i = 0; i < SIZE_COUNT; i++) {
        char *block = seen(malloc(sizes[i]));
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        size_t usable_bytes = malloc_usable_size(block);
        CU_ASSERT_TRUE(usable_bytes >= sizes[i]);
        memset(block, 0x5a, usable_bytes);
        free(block);
    }
    CU_ASSERT_EQUAL(malloc_usable_size(NULL), 0);
}

static void a_block_grows_and_shrinks_through_all_sizes(void)
{
    for (int from = 0; from < SIZE_COUNT; from++) {
        for (int to = 0; to < SIZE_COUNT; to++) {
            char *block = seen(calloc(1, sizes[from]));
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            memset(block, 'a' + from, sizes[from]);
            block = seen(realloc(block, sizes[to]));
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            size_t kept_bytes = sizes[from] < sizes[to] ? sizes[from] : sizes[to];
            CU_ASSERT_EQUAL(block[0], 'a' + from);
            CU_ASSERT_EQUAL(block[kept_bytes - 1], 'a' + from);
            CU_ASSERT_TRUE(malloc_usable_size(block) >= sizes[to]);
            free(block);
        }
    }
}

static void large_blocks_are_libdaos(void)
{
    size_t before_bytes = dao_used(dao_cpu_place());
    char *block = seen(malloc(200 << 10));
    CU_ASSERT_EQUAL(dao_used(dao_cpu_place()), before_bytes + (200 << 10));
    free(block);
    CU_ASSERT_EQUAL(dao_used(dao_cpu_place()), before_bytes);
}

static CU_TestInfo tests[] = {
    {"the other allocator is loaded", the_other_allocator_is_loaded},
    {"every block says its usable size", every_block_says_its_usable_size},
    {"a block grows and shrinks through all sizes", a_block_grows_and_shrinks_through_all_sizes},
    {"large blocks are libdao's", large_blocks_are_libdaos},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"malloc beside jemalloc", begin, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
