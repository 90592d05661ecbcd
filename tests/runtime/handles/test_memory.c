/* SPDX-License-Identifier: Apache-2.0 */
/* Memory handles: references, deleters, parts, and what their end needs. */
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/stats.h>
#include <dao/stream.h>

#include "base/report/fault.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/five_places.h"
#include "tests/support/suite.h"

#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static void a_handle_frees_its_memory_with_the_last_reference(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        size_t used_before = dao_used(places[i]);
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[i], 3000, NULL, &memory), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL(dao_memory_address(memory));
        CU_ASSERT_EQUAL(dao_memory_size(memory), 3000);
        CU_ASSERT_TRUE(dao_place_equal(dao_memory_place(memory), places[i]));
        CU_ASSERT_EQUAL(dao_memory_stream(memory) == NULL, places[i].kind == DAO_PLACE_KIND_CPU);
        CU_ASSERT_EQUAL(dao_memory_retain(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 2);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_TRUE(dao_used(places[i]) > used_before);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(dao_memory_release(memory),
                        DAO_ERR_INVALID); /* it rests, see runtime/core/handle.h */
        CU_ASSERT_EQUAL(dao_memory_retain(memory), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_memory_use_count(memory), 0);
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(places[i]), used_before);
    }
}

static void bad_arguments_of_handles_are_named(void)
{
    dao_memory_t *memory = NULL;
    dao_stream_t *stream = NULL;
    int byte = 0;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    places_state_t before = places_state();
    CU_ASSERT_EQUAL(dao_memory_create(host, 10, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 10, stream, &memory),
                    DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(host, 10, stream, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(4)), 10, NULL, &memory),
                    DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_memory_create(host, SIZE_MAX, NULL, &memory), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, NULL, 1, NULL, NULL, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, &byte, SIZE_MAX, NULL, NULL, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(host, &byte, 1, NULL, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_sub_range(NULL, 0, 0, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_retain(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_release(NULL), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_memory_address(NULL));
    CU_ASSERT_EQUAL(dao_memory_size(NULL), 0);
    CU_ASSERT_EQUAL(dao_memory_place(NULL).kind, DAO_PLACE_KIND_CPU);
    CU_ASSERT_PTR_NULL(dao_memory_stream(NULL));
    CU_ASSERT_EQUAL(dao_memory_use_count(NULL), 0);
    CU_ASSERT_PTR_NULL(memory);
    places_assert_unchanged(&before);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(dao_place_of(dao_device_place(1)), 0, stream, &memory), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_memory_address(memory));
    dao_memory_t *part = NULL;
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 0, 0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 0, 1, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_PTR_NULL(part);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 0, 0, &part), DAO_OK); /* nothing of nothing */
    CU_ASSERT_PTR_NULL(dao_memory_address(part));
    CU_ASSERT_EQUAL(dao_memory_use_count(part), 1);
    CU_ASSERT_EQUAL(dao_memory_release(part), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
}

typedef struct deletion {
    int count;
    void *address;
    size_t size_bytes;
} deletion_t;

static void note_deletion(void *address, size_t size_bytes, void *user)
{
    deletion_t *deletion = user;
    deletion->count++;
    deletion->address = address;
    deletion->size_bytes = size_bytes;
    void *block = dao_alloc(dao_device_place(0), 100); /* no lock is held */
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
}

static void a_deleter_is_called_once(void)
{
    char bytes[100];
    deletion_t deletion = {0};
    dao_memory_t *memory = NULL;
    dao_memory_t *part = NULL;
    dao_memory_t *smaller = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_memory_from_pointer(host, bytes, 100, note_deletion, &deletion, &memory),
                          DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 90, 11, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 101, 0, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL(dao_memory_sub_range(memory, 1, SIZE_MAX, &part), DAO_ERR_OUT_OF_BOUNDS);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(memory, 10, 50, &part), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_use_count(memory), 2);
    CU_ASSERT_EQUAL_FATAL(dao_memory_sub_range(part, 50, 0, &smaller), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_memory_address(part), bytes + 10);
    CU_ASSERT_PTR_EQUAL(dao_memory_address(smaller), bytes + 60);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(part), DAO_OK);
    CU_ASSERT_EQUAL(deletion.count, 0);
    CU_ASSERT_EQUAL(dao_memory_release(smaller), DAO_OK);
    CU_ASSERT_EQUAL(deletion.count, 1);
    CU_ASSERT_PTR_EQUAL(deletion.address, bytes);
    CU_ASSERT_EQUAL(deletion.size_bytes, 100);
}

static void a_handle_keeps_its_stream(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1000, stream, &memory), DAO_OK);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_stream_device(dao_memory_stream(memory)), 0);
    CU_ASSERT_EQUAL(dao_stream_fill(dao_memory_stream(memory), dao_memory_address(memory), 1, 1000), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_OK);
}

/* As dao_free_async() does, whoever owns the block. */
static void a_release_keeps_to_the_fast_path(void)
{
    enum { COUNT = 20 };
    dao_place_t device = dao_place_of(dao_device_place(1));
    dao_memory_t *memories[COUNT];
    for (uint32_t round = 0; round < 2; round++) { /* what is new in the first one is there in the second */
        for (uint32_t i = 0; i < COUNT; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_memory_create(device, 1 * MIB, NULL, &memories[i]), DAO_OK);
        }
        dao_stats_t before, after;
        CU_ASSERT_EQUAL(dao_stats_get(device, &before), DAO_OK);
        for (uint32_t i = 0; i < COUNT; i++) {
            CU_ASSERT_EQUAL(dao_memory_release(memories[i]), DAO_OK);
        }
        CU_ASSERT_EQUAL(dao_stats_get(device, &after), DAO_OK);
        CU_ASSERT_EQUAL(after.free_count, before.free_count + COUNT);
        CU_ASSERT_EQUAL(after.slow_count, before.slow_count);
    }
}

#if defined(DAO_FAULTS)
static void handles_survive_any_missing_resource(void)
{
    for (int i = 0; i < PLACE_COUNT; i++) {
        places_state_t before = places_state();
        dao_memory_t *memory = NULL;
        for (uint64_t n = 0; memory == NULL && n < 1000; n++) {
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            dao_status_t status = dao_memory_create(places[i], 100 * KIB, NULL, &memory);
            uint64_t fired_count = dao_fault_disarm();
            CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
            CU_ASSERT_EQUAL(status == DAO_OK, memory != NULL);
            if (memory == NULL) {
                places_assert_unchanged(&before);
            }
        }
        dao_fault_arm(DAO_FAULT_ANY, 0, true); /* a release does without whatever it would like to have */
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        (void)dao_fault_disarm();
        CU_ASSERT_EQUAL(dao_trim(places[i], 0, NULL), DAO_OK);
        places_assert_unchanged(&before);
    }
}
#endif

static CU_TestInfo tests[] = {
    {"a handle frees its memory with the last reference", a_handle_frees_its_memory_with_the_last_reference},
    {"bad arguments of handles are named", bad_arguments_of_handles_are_named},
    {"a deleter is called once", a_deleter_is_called_once},
    {"a handle keeps its stream", a_handle_keeps_its_stream},
    {"a release keeps to the fast path", a_release_keeps_to_the_fast_path},
#if defined(DAO_FAULTS)
    {"handles survive any missing resource", handles_survive_any_missing_resource},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"memory", places_start, places_stop, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
