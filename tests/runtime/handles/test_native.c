/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by native streams, what a stream is asked, and the place of an address. */
#include <dao/dao.h>

#include "base/threads/sync.h"
#include "tests/runtime/own/own_tables.h"
#include "tests/support/gate.h"
#include "tests/support/suite.h"

#include <string.h>

enum { BLOCK_BYTES = 1 << 20, THREAD_COUNT = 4, ROUND_COUNT = 300 };

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

static void must(dao_status_t status)
{
    CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
}

static void library_start(void)
{
    own_tables_begin();
    must(dao_init(&(dao_config_t){.cpu = {.device_count = 2, .device_bytes = 256 * MIB}}));
}

static void library_stop(void)
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* the library gives back what it has adopted */
    own_tables_end();
}

/* Asks a stream until it says that it is done: the event that asks has to pass, too. */
static void await_done(dao_stream_t *stream)
{
    dao_status_t status;
    while ((status = dao_stream_query(stream)) == DAO_ERR_NOT_READY) {
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
}

/* ---- by native stream ---- */

static void a_handle_is_its_stream(void)
{
    dao_stream_t *stream;
    must(dao_stream_create(0, &stream));
    void *native = dao_stream_native(stream);
    void *block = dao_alloc_native(0, BLOCK_BYTES, native);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    void *wall = dao_alloc_native(0, BLOCK_BYTES, native);
    must(dao_free_native(0, block, native));
    CU_ASSERT_PTR_EQUAL(dao_alloc_native(0, BLOCK_BYTES, native), block);
    must(dao_record_native(0, block, NULL));
    must(dao_free_native(0, block, native));
    must(dao_free_native(0, wall, NULL));
    CU_ASSERT_PTR_NULL(dao_alloc_native(0, 0, native));
    must(dao_free_native(0, NULL, native));
    must(dao_device_synchronize(0));
    CU_ASSERT_EQUAL(dao_used(device), 0);
    dao_stream_destroy(stream);
}

/* A block that a stream still uses is not another stream's before it waits. */
static void handles_keep_their_order(void)
{
    dao_stream_t *streams[2];
    must(dao_stream_create(0, &streams[0]));
    must(dao_stream_create(0, &streams[1]));
    void *natives[] = {dao_stream_native(streams[0]), dao_stream_native(streams[1])};
    dao_gate_t gate;
    dao_gate_init(&gate);
    void *block = dao_alloc_native(0, BLOCK_BYTES, natives[0]);
    must(dao_stream_host_func(streams[0], dao_gate_wait, &gate));
    must(dao_free_native(0, block, natives[0]));
    CU_ASSERT_EQUAL(dao_stream_query(streams[0]), DAO_ERR_NOT_READY);
    await_done(streams[1]);
    void *plain = dao_alloc(device, BLOCK_BYTES);
    CU_ASSERT_PTR_NOT_EQUAL(plain, block);
    dao_gate_open(&gate);
    must(dao_stream_synchronize(streams[0]));
    await_done(streams[0]);
    must(dao_free(device, plain));
    dao_gate_finish(&gate);
    dao_stream_destroy(streams[0]);
    dao_stream_destroy(streams[1]);
}

static void wrong_handles_and_devices_are_refused(void)
{
    int none = 0;
    CU_ASSERT_PTR_NULL(dao_alloc_native(0, BLOCK_BYTES, &none));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(dao_alloc_native(2, BLOCK_BYTES, NULL));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(dao_alloc_native(-1, BLOCK_BYTES, NULL));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE);
    void *block = dao_alloc_native(0, BLOCK_BYTES, NULL);
    CU_ASSERT_EQUAL(dao_free_native(0, block, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_record_native(0, block, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_record_native(0, (char *)block + 1, NULL), DAO_ERR_INTERIOR_POINTER);
    CU_ASSERT_EQUAL(dao_free_native(1, block, NULL), DAO_ERR_WRONG_PLACE);
    must(dao_free_native(0, block, NULL));
    CU_ASSERT_NOT_EQUAL(dao_free_native(0, block, NULL), DAO_OK);
}

/* More streams than can be followed, then more than are kept: each is refused, and the others go on. */
static void too_many_handles_are_refused(void)
{
    static own_stream_t natives[DAO_NATIVE_STREAM_MAX + 1];
    dao_own_memory_t memory = own_chip_table(64 * MIB);
    dao_place_t place;
    must(dao_place_register(&memory, &place));
    int followed_count = 0;
    for (int i = 0; i < DAO_NATIVE_STREAM_MAX; i++) {
        void *block = dao_alloc_native(place.index, BLOCK_BYTES, &natives[i]);
        CU_ASSERT_TRUE(block != NULL || dao_last_status() == DAO_ERR_TOO_MANY);
        followed_count += block != NULL;
        must(block != NULL ? dao_free_native(place.index, block, &natives[i]) : DAO_OK);
    }
    CU_ASSERT_EQUAL(followed_count, 62);
    CU_ASSERT_PTR_NULL(dao_alloc_native(place.index, BLOCK_BYTES, &natives[62]));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "62 streams of device:"));
    CU_ASSERT_PTR_NULL(dao_alloc_native(place.index, BLOCK_BYTES, &natives[DAO_NATIVE_STREAM_MAX]));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_TOO_MANY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "by their handles"));
    void *block = dao_alloc_native(place.index, BLOCK_BYTES, &natives[0]);
    CU_ASSERT_PTR_NOT_NULL(block);
    must(dao_free_native(place.index, block, &natives[0]));
}

static void *natives_of_threads[THREAD_COUNT];

static void *allocate_by_all(void *user)
{
    for (int i = 0; i < ROUND_COUNT; i++) {
        void *native = natives_of_threads[i % THREAD_COUNT];
        void *block = dao_alloc_native(0, 64 * KIB, native);
        if (block == NULL || dao_free_native(0, block, native) != DAO_OK) {
            return NULL;
        }
    }
    atomic_fetch_add((_Atomic int *)user, 1);
    return NULL;
}

static void threads_name_the_same_streams(void)
{
    dao_stream_t *streams[THREAD_COUNT];
    dao_thread_t threads[THREAD_COUNT];
    _Atomic int done_count = 0;
    for (int i = 0; i < THREAD_COUNT; i++) {
        must(dao_stream_create(0, &streams[i]));
        natives_of_threads[i] = dao_stream_native(streams[i]);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        must(dao_thread_start(&threads[i], "native", allocate_by_all, &done_count));
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(atomic_load(&done_count), THREAD_COUNT);
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_stream_destroy(streams[i]);
    }
}

/* ---- the place of an address ---- */

static void an_address_tells_its_place(void)
{
    dao_own_memory_t memory = own_malloc_table(64 * MIB);
    dao_place_t own, found;
    must(dao_place_register(&memory, &own));
    const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 1}, own};
    for (size_t i = 0; i < 4; i++) {
        for (size_t size_bytes = 100; size_bytes < 10 * MIB; size_bytes *= 1000) {
            char *block = dao_alloc(places[i], size_bytes);
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            must(dao_address_place(block, &found));
            CU_ASSERT_TRUE(dao_place_equal(found, places[i]));
            must(dao_address_place(block + size_bytes - 1, &found));
            CU_ASSERT_TRUE(dao_place_equal(found, places[i]));
            must(dao_free(places[i], block));
        }
    }
    int outside = 0;
    found = device;
    CU_ASSERT_EQUAL(dao_address_place(&outside, &found), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(dao_address_place(NULL, &found), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_address_place(&outside, NULL), DAO_ERR_INVALID);
    CU_ASSERT_TRUE(dao_place_equal(found, device));
}

static void a_stream_is_asked_at_any_time(void)
{
    dao_stream_t *stream;
    CU_ASSERT_EQUAL(dao_stream_query(NULL), DAO_ERR_INVALID);
    must(dao_stream_get(0, DAO_STREAM_ROLE_COMPUTE, &stream));
    for (int i = 0; i < 200; i++) { /* more often than there are spare events */
        await_done(stream);
    }
}

static CU_TestInfo tests[] = {
    {"a handle is its stream", a_handle_is_its_stream},
    {"handles keep their order", handles_keep_their_order},
    {"wrong handles and devices are refused", wrong_handles_and_devices_are_refused},
    {"too many handles are refused", too_many_handles_are_refused},
    {"threads name the same streams", threads_name_the_same_streams},
    {"an address tells its place", an_address_tells_its_place},
    {"a stream is asked at any time", a_stream_is_asked_at_any_time},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"native", NULL, NULL, library_start, library_stop, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
