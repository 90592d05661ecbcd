/* SPDX-License-Identifier: Apache-2.0 */
/* Adopted streams on the loopback driver: found by their handles, and told apart from streams that got the
   handle of one that was destroyed. */
#include DAO_VENDOR_NAMES

#include <dao/async.h>
#include <dao/context.h>
#include <dao/memory.h>
#include <dao/native.h>
#include <dao/stream.h>

#include "base/threads/sync.h"
#include "runtime/device/runtime.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include <string.h>

#define BLOCK_BYTES  (8 * MIB)
#define STREAM_COUNT 300 /* more than there are buckets */
#define THREAD_COUNT 4

static const dao_place_t device = {DAO_PLACE_KIND_DEVICE, 0};

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(device, dao_alloc(device, BLOCK_BYTES)), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A stream that the program makes by the vendor's own calls. */
static void *native_create(void)
{
    vendorStream_t stream = NULL;
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    CU_ASSERT_EQUAL_FATAL(vendorStreamCreateWithFlags(&stream, vendorStreamNonBlocking), vendorSuccess);
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    return (void *)stream;
}

static void native_destroy(void *native)
{
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    CU_ASSERT_EQUAL(vendorStreamDestroy((vendorStream_t)native), vendorSuccess);
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
}

static dao_stream_t *adopt(void *native)
{
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, native, &stream), DAO_OK);
    CU_ASSERT_PTR_EQUAL(dao_stream_native(stream), native);
    return stream;
}

/* Returns true if the vendor numbers its streams. */
static bool has_numbers(void)
{
    void *natives[2] = {native_create(), native_create()};
    unsigned long long ids[2] = {0, 0};
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(vendorStreamGetId((vendorStream_t)natives[i], &ids[i]), vendorSuccess);
    }
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    native_destroy(natives[0]);
    native_destroy(natives[1]);
    return ids[0] != ids[1];
}

static void a_stream_is_found_as_often_as_it_is_adopted(void)
{
    begin();
    void *native = native_create();
    dao_stream_t *first = adopt(native);
    dao_stream_t *null = adopt(NULL);
    CU_ASSERT_PTR_NOT_EQUAL(null, first);
    for (int i = 0; i < 100; i++) {
        CU_ASSERT_PTR_EQUAL(adopt(native), first);
        CU_ASSERT_PTR_EQUAL(adopt(NULL), null);
    }
    for (int i = 0; i < 100; i++) {
        dao_stream_destroy(first);
        dao_stream_destroy(null);
    }
    void *block = dao_alloc_async(device, BLOCK_BYTES, first); /* one owner is left */
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free_async(device, block, first), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(null), DAO_OK);
    dao_stream_destroy(first);
    dao_stream_destroy(null);
    native_destroy(native);
    end();
}

static void many_streams_are_told_apart(void)
{
    static void *natives[STREAM_COUNT];
    static dao_stream_t *streams[STREAM_COUNT];
    begin();
    for (int i = 0; i < STREAM_COUNT; i++) {
        natives[i] = native_create();
        streams[i] = adopt(natives[i]);
    }
    for (int i = STREAM_COUNT; i-- > 0;) {
        CU_ASSERT_PTR_EQUAL(adopt(natives[i]), streams[i]);
        dao_stream_destroy(streams[i]);
        dao_stream_destroy(streams[i]);
        native_destroy(natives[i]);
    }
    end();
}

static void a_handle_that_is_another_stream_in_each_thread_is_refused(void)
{
    begin();
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL(dao_stream_adopt(0, (void *)vendorStreamPerThread, &stream), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), VENDOR_PER_THREAD));
    CU_ASSERT_PTR_NULL(stream);
    end();
}

/* The work of the old stream is waited for, and the new stream has an order of its own. */
static void a_handle_that_was_made_again_is_another_stream(void)
{
    begin();
    if (!has_numbers()) {
        (void)printf("    skipped: this version of the vendor does not number its streams\n");
        end();
        return;
    }
    void *native = native_create();
    dao_stream_t *old = adopt(native);
    dao_memory_t *memory = NULL;
    void *block = dao_alloc_async(device, BLOCK_BYTES, old);
    CU_ASSERT_EQUAL(dao_memory_create(device, BLOCK_BYTES, old, &memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(device, block, old), DAO_OK);
    native_destroy(native);
    loopback_stream_make_again(native);

    dao_stream_t *renewed = adopt(native);
    CU_ASSERT_PTR_NOT_EQUAL(renewed, old);
    CU_ASSERT_PTR_EQUAL(adopt(native), renewed);
    dao_stream_destroy(renewed);
    CU_ASSERT_PTR_NULL(dao_alloc_async(device, BLOCK_BYTES, old));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "destroyed by its maker"));
    CU_ASSERT_EQUAL(dao_stream_synchronize(old), DAO_ERR_INVALID);
    void *again = dao_alloc_async(device, 7 * BLOCK_BYTES, renewed); /* needs what the old one freed */
    CU_ASSERT_PTR_NOT_NULL(again);
    CU_ASSERT_EQUAL(dao_free_async(device, again, renewed), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK); /* its stream is the old one */
    dao_stream_destroy(old);
    CU_ASSERT_PTR_EQUAL(adopt(native), renewed);
    dao_stream_destroy(renewed);
    dao_stream_destroy(renewed);
    native_destroy(native);
    end();
}

/* Before anybody adopts the handle again, what was freed under it waits for the device, and no event is
   recorded on the stream that has the handle now. */
static void what_was_freed_under_a_handle_that_was_made_again_waits_for_the_device(void)
{
    begin();
    if (has_numbers()) {
        void *natives[2] = {native_create(), native_create()};
        dao_stream_t *old = adopt(natives[0]);
        dao_stream_t *other = adopt(natives[1]);
        void *block = dao_alloc_async(device, 7 * BLOCK_BYTES, old);
        CU_ASSERT_EQUAL(dao_free_async(device, block, old), DAO_OK);
        native_destroy(natives[0]);
        loopback_stream_make_again(natives[0]);
        CU_ASSERT_PTR_EQUAL(dao_alloc_async(device, 7 * BLOCK_BYTES, other), block);
        CU_ASSERT_EQUAL(dao_free_async(device, block, other), DAO_OK);
        dao_stream_destroy(old);
        dao_stream_destroy(other);
        native_destroy(natives[0]);
        native_destroy(natives[1]);
    }
    end();
}

/* What calls by a native handle name is the stream that has it now, as often as it changes. The program's
   stream outlives the library, and with it the driver. */
static void calls_by_a_handle_that_was_made_again_name_the_new_stream(void)
{
    enum { TIMES = 3 };
    const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    const dao_backend_ops_t *ops = loopback_ops();
    dao_backend_t *driver = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &driver), DAO_OK);
    begin();
    void *native = native_create();
    dao_stream_t *before = NULL;
    for (int i = 0; i < (has_numbers() ? TIMES : 1); i++) {
        if (i > 0) {
            native_destroy(native);
            loopback_stream_make_again(native);
        }
        void *block = dao_alloc_native(0, 7 * BLOCK_BYTES, native); /* needs what the old one freed */
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(dao_record_native(0, block, native), DAO_OK);
        CU_ASSERT_EQUAL(dao_free_native(0, block, native), DAO_OK);
        dao_stream_t *stream = adopt(native);
        CU_ASSERT_PTR_NOT_EQUAL(stream, before);
        CU_ASSERT_PTR_EQUAL(dao_alloc_async(device, 7 * BLOCK_BYTES, stream), block); /* in its order */
        CU_ASSERT_EQUAL(dao_free_async(device, block, stream), DAO_OK);
        dao_stream_destroy(stream);
        before = stream;
    }
    end(); /* the library gives all of them back */
    native_destroy(native);
    ops->close(driver);
}

/* A program's last calls may be its streams' end and then the library's, which asks nothing about them. */
static void the_end_asks_nothing_about_streams_that_calls_by_handle_have_named(void)
{
    const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    const dao_backend_ops_t *ops = loopback_ops();
    dao_backend_t *driver = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &driver), DAO_OK);
    begin();
    void *natives[2] = {native_create(), native_create()};
    void *blocks[2];
    for (int i = 0; i < 2; i++) {
        blocks[i] = dao_alloc_native(0, BLOCK_BYTES, natives[i]);
        CU_ASSERT_PTR_NOT_NULL(blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_record_native(0, blocks[1], natives[0]), DAO_OK);
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_free_native(0, blocks[i], natives[i]), DAO_OK);
    }
    for (int i = 0; i < 2; i++) {
        native_destroy(natives[i]);
    }
    loopback_tolerate(true);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(loopback_take_breaches(LOOPBACK_RULE_UNKNOWN), 0);
    loopback_tolerate(false);
    ops->close(driver);
}

static void *adopt_and_destroy(void *native)
{
    for (int i = 0; i < 200; i++) {
        dao_stream_t *stream = adopt(native);
        void *block = dao_alloc_async(device, 1000, stream);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(dao_free_async(device, block, stream), DAO_OK);
        dao_stream_destroy(stream);
    }
    return NULL;
}

static void threads_adopt_one_handle(void)
{
    dao_thread_t threads[THREAD_COUNT];
    begin();
    void *native = native_create();
    for (int i = 0; i < THREAD_COUNT; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "adopt", adopt_and_destroy, native), DAO_OK);
    }
    for (int i = 0; i < THREAD_COUNT; i++) {
        dao_thread_join(&threads[i]);
    }
    native_destroy(native);
    end();
}

static CU_TestInfo tests[] = {
    {"a stream is found as often as it is adopted", a_stream_is_found_as_often_as_it_is_adopted},
    {"many streams are told apart", many_streams_are_told_apart},
    {"a handle that is another stream in each thread is refused",
     a_handle_that_is_another_stream_in_each_thread_is_refused},
    {"a handle that was made again is another stream", a_handle_that_was_made_again_is_another_stream},
    {"what was freed under a handle that was made again waits for the device",
     what_was_freed_under_a_handle_that_was_made_again_waits_for_the_device},
    {"calls by a handle that was made again name the new stream",
     calls_by_a_handle_that_was_made_again_name_the_new_stream},
    {"the end asks nothing about streams that calls by handle have named",
     the_end_asks_nothing_about_streams_that_calls_by_handle_have_named},
    {"threads adopt one handle", threads_adopt_one_handle},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"adopted", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
