/* SPDX-License-Identifier: Apache-2.0 */
/* What a profiler is told. The build's annotator is this test's own, which checks every call: blocks lie in
   heaps, nothing is told twice, nothing is left. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "runtime/observe/annotate.h"

#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAPS_MOST  256
#define BLOCKS_MOST 4096
#define DEPTH_MOST  8
#define THREADS     4

typedef struct stretch {
    char *address;
    size_t size_bytes;
} stretch_t;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static stretch_t heaps[HEAPS_MOST];
static stretch_t blocks[BLOCKS_MOST];
static size_t heap_count, block_count, block_total, wrong_count, foreign_count;
static size_t kernel_count, copy_count, trim_count;
static _Thread_local size_t depth;

static void *told_heap(void *address, size_t size_bytes, const char *name)
{
    (void)pthread_mutex_lock(&lock);
    wrong_count += heap_count == HEAPS_MOST || strncmp(name, "device:", 7) != 0;
    stretch_t *heap = heaps;
    while (heap->address != NULL) {
        heap++;
    }
    *heap = (stretch_t){address, size_bytes};
    heap_count++;
    (void)pthread_mutex_unlock(&lock);
    return heap;
}

static void told_heap_end(void *handle)
{
    stretch_t *heap = handle;
    (void)pthread_mutex_lock(&lock);
    wrong_count += heap->address == NULL;
    *heap = (stretch_t){0};
    heap_count--;
    (void)pthread_mutex_unlock(&lock);
}

static stretch_t *block_at(const void *address)
{
    for (size_t i = 0; i < BLOCKS_MOST; i++) {
        if (blocks[i].address == address) {
            return &blocks[i];
        }
    }
    return NULL;
}

static void told_block(void *handle, const void *address, size_t size_bytes)
{
    const stretch_t *heap = handle;
    (void)pthread_mutex_lock(&lock);
    size_t offset = (size_t)((const char *)address - heap->address);
    wrong_count +=
        offset >= heap->size_bytes || size_bytes > heap->size_bytes - offset || block_at(address) != NULL;
    stretch_t *block = block_at(NULL);
    *block = (stretch_t){(char *)(uintptr_t)address, size_bytes};
    block_count++;
    block_total++;
    (void)pthread_mutex_unlock(&lock);
}

static void told_block_end(const void *address)
{
    (void)pthread_mutex_lock(&lock);
    stretch_t *block = block_at(address);
    foreign_count += block == NULL;
    if (block != NULL) {
        *block = (stretch_t){0};
        block_count--;
    }
    (void)pthread_mutex_unlock(&lock);
}

static void told_range(const char *name)
{
    (void)pthread_mutex_lock(&lock);
    kernel_count += strcmp(name, "step") == 0;
    copy_count += strncmp(name, "dao: copy", 9) == 0;
    trim_count += strcmp(name, "dao: trim") == 0;
    wrong_count += ++depth > DEPTH_MOST;
    (void)pthread_mutex_unlock(&lock);
}

static void told_range_end(void)
{
    (void)pthread_mutex_lock(&lock);
    wrong_count += depth-- == 0;
    (void)pthread_mutex_unlock(&lock);
}

const dao_annotator_t dao_annotator = {
    .range_push = told_range,
    .range_pop = told_range_end,
    .heap_register = told_heap,
    .heap_unregister = told_heap_end,
    .block_register = told_block,
    .block_unregister = told_block_end,
};

static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};

static int library_start(bool has_pages)
{
    (void)setenv("DAO_ANNOTATE", "1", 1);
    dao_config_t config = {
        .cpu = {.device_count = 2, .device_bytes = 64 * MIB, .no_page_mapping = !has_pages}};
    return dao_init(&config) != DAO_OK;
}

static int start_with_pages(void)
{
    return library_start(true);
}

static int start_without_pages(void)
{
    return library_start(false);
}

/* Everything that was told of is gone with the library. */
static int stop(void)
{
    bool is_stopped = dao_finalize() == DAO_OK;
    (void)printf("    %zu blocks told, %zu heaps left, %zu calls wrong\n", block_total, heap_count,
                 wrong_count);
    return !is_stopped || wrong_count != 0 || foreign_count != 0 || heap_count != 0 || block_count != 0;
}

static void blocks_are_told(void)
{
    size_t before = block_count;
    void *large = dao_alloc(device_0, 3 * MIB);
    void *small = dao_alloc(device_0, 100);
    void *ordered = dao_alloc_async(device_0, 1 * MIB, NULL);
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL(dao_memory_create(device_0, 2 * MIB, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(block_count, before + 4);
    CU_ASSERT_TRUE(heap_count > 0);
    CU_ASSERT_EQUAL(dao_free(device_0, (char *)large + 256), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(foreign_count, 1); /* the tool is told of the program's mistake */
    foreign_count = 0;
    CU_ASSERT_EQUAL(dao_free(dao_place_of(dao_device_place(1)), large), DAO_ERR_WRONG_PLACE);
    CU_ASSERT_PTR_NOT_NULL(block_at(large));
    CU_ASSERT_EQUAL(dao_free(device_0, large), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_0, small), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device_0, ordered, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device_0, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(block_count, before);
    CU_ASSERT_TRUE(trim_count > 0);
}

/* A block that a lease retains is told of until the lease ends, however its owner frees it. Leases need
   pages. */
static void retained_blocks_are_told_until_they_go(void)
{
    size_t before = block_count;
    void *blocks_kept[2] = {dao_alloc(device_0, 3 * MIB), dao_alloc_async(device_0, 1 * MIB, NULL)};
    dao_lease_t *lease;
    CU_ASSERT_EQUAL_FATAL(dao_lease_begin(device_0, &lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, blocks_kept[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_retain(lease, blocks_kept[1]), DAO_OK);
    CU_ASSERT_EQUAL(dao_lease_commit(lease), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device_0, blocks_kept[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device_0, blocks_kept[1], NULL), DAO_OK);
    CU_ASSERT_EQUAL(block_count, before + 2);
    CU_ASSERT_EQUAL(dao_lease_release(lease), DAO_OK);
    CU_ASSERT_EQUAL(block_count, before);
}

/* Other places' memory is told of by nobody. */
static void host_and_pinned_memory_are_not_told(void)
{
    size_t before = block_total;
    dao_place_t others[] = {dao_place_of(dao_cpu_place()), dao_place_of(dao_pinned_place(0))};
    for (size_t i = 0; i < 2; i++) {
        void *block = dao_alloc(others[i], 1 * MIB);
        CU_ASSERT_EQUAL(dao_free(others[i], block), DAO_OK);
    }
    CU_ASSERT_EQUAL(block_total, before);
}

static void *allocate_and_free(void *user)
{
    uint64_t seed = (uint64_t)(uintptr_t)user;
    for (int i = 0; i < 300; i++) {
        void *block = dao_alloc(device_0, 1 + dao_random_next(&seed) % (100 * KIB));
        if (dao_free(device_0, block) != DAO_OK) {
            abort();
        }
    }
    return NULL;
}

static void threads_tell_in_order(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(pthread_create(&threads[i], NULL, allocate_and_free, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL(pthread_join(threads[i], NULL), 0);
    }
    CU_ASSERT_EQUAL(wrong_count, 0);
}

static dao_status_t launch_nothing(const dao_launch_t *launch, void *user)
{
    (void)user;
    return dao_stream_fill(launch->stream, launch->addresses[0], 1, 1);
}

/* Three tensors in the room of two: kernels and copies both ways. */
static void kernels_and_copies_are_ranges(void)
{
    dao_executor_t *executor = NULL;
    dao_executor_config_t config = {.capacity_bytes = 2 * MIB};
    dao_managed_t *tensors[3] = {NULL};
    CU_ASSERT_EQUAL_FATAL(dao_executor_create(&config, &executor), DAO_OK);
    for (int i = 0; i < 3; i++) {
        dao_managed_config_t managed = {.size_bytes = 1 * MIB};
        CU_ASSERT_EQUAL_FATAL(dao_managed_create(executor, &managed, &tensors[i]), DAO_OK);
    }
    for (int i = 0; i < 9; i++) {
        dao_operand_t operand = {tensors[i % 3], i < 3 ? DAO_ACCESS_WRITE : DAO_ACCESS_READ_WRITE};
        dao_kernel_t kernel = {
            .name = "step", .launch = launch_nothing, .operands = &operand, .operand_count = 1};
        CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
    CU_ASSERT_TRUE(kernel_count > 0 && kernel_count % 9 == 0);
    CU_ASSERT_TRUE(copy_count > 0);
}

static void a_wrong_setting_is_refused(void)
{
    (void)setenv("DAO_ANNOTATE", "perhaps", 1);
    bool turned_on;
    CU_ASSERT_EQUAL(dao_annotate_find(&turned_on), DAO_ERR_INVALID);
    CU_ASSERT_FALSE(turned_on);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_ANNOTATE"));
    (void)setenv("DAO_ANNOTATE", "1", 1);
}

static void an_empty_setting_says_nothing(void)
{
    (void)setenv("DAO_ANNOTATE", "", 1);
    bool turned_on = true;
    CU_ASSERT_EQUAL(dao_annotate_find(&turned_on), DAO_OK);
    CU_ASSERT_FALSE(turned_on);
    (void)setenv("DAO_ANNOTATE", "1", 1);
}

#if defined(DAO_FAULTS)
/* Nor are the blocks in it told; the library goes on. */
static void memory_that_cannot_be_noted_is_not_told(void)
{
    static char memory[4096];
    size_t heaps_before = heap_count, blocks_before = block_total;
    dao_fault_arm(DAO_FAULT_HOST_MEMORY, 0, false);
    dao_annotate_obtained(device_0, memory, sizeof(memory));
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    dao_annotate_alloc(device_0, memory + 256, 256);
    dao_annotate_free(device_0, memory + 256);
    dao_annotate_releasing(device_0, memory);
    CU_ASSERT_EQUAL(heap_count, heaps_before);
    CU_ASSERT_EQUAL(block_total, blocks_before);
    CU_ASSERT_EQUAL(foreign_count, 0);
}
#endif

static CU_TestInfo tests[] = {
#if defined(DAO_FAULTS)
    {"memory that cannot be noted is not told", memory_that_cannot_be_noted_is_not_told},
#endif
    {"an empty setting says nothing", an_empty_setting_says_nothing},
    {"blocks are told", blocks_are_told},
    {"host and pinned memory are not told", host_and_pinned_memory_are_not_told},
    {"threads tell in order", threads_tell_in_order},
    {"kernels and copies are ranges", kernels_and_copies_are_ranges},
    {"a wrong setting is refused", a_wrong_setting_is_refused},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo tests_of_pages[] = {
    {"retained blocks are told until they go", retained_blocks_are_told_until_they_go},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"annotations, with pages", start_with_pages, stop, NULL, NULL, tests},
                             {"leases, with pages", start_with_pages, stop, NULL, NULL, tests_of_pages},
                             {"annotations, without pages", start_without_pages, stop, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
