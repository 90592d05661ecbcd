/* SPDX-License-Identifier: Apache-2.0 */
/* Batches of copies of the backends for CUDA and HIP, on the loopback driver: where the driver has none, and
   on streams for which it has none, the core is told to make the copies one by one. */
#include DAO_VENDOR_NAMES

#include "base/report/error.h"
#include "tests/loopback/loopback.h"
#include "tests/support/backends/capture.h"
#include "tests/support/suite.h"

#define SIZE_BYTES ((size_t)1000)

static const dao_backend_ops_t *ops;
static dao_backend_t *backend;
static dao_backend_device_t *device;
static dao_backend_stream_t *stream;
static void *memory, *pinned;

static int driver_start(void)
{
    ops = loopback_ops();
    if (ops->copy_batch == NULL) {
        (void)printf("    skipped: %s has no batches of copies\n", ops->name);
    }
    return 0;
}

static void begin(void)
{
    static const dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 0, &device), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->stream_create(device, &stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->memory_alloc(device, SIZE_BYTES, &memory), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->pinned_alloc(device, SIZE_BYTES, &pinned), DAO_OK);
}

static void end(void)
{
    CU_ASSERT_EQUAL(ops->stream_synchronize(stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_free(device, memory, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(ops->pinned_free(device, pinned, SIZE_BYTES), DAO_OK);
    ops->stream_destroy(stream);
    ops->device_close(device);
    ops->close(backend);
}

/* Two copies to the device on a stream. */
static dao_status_t batch_on(dao_backend_stream_t *on)
{
    void *const dsts[2] = {memory, (char *)memory + 10};
    const void *const srcs[2] = {pinned, (char *)pinned + 10};
    const size_t sizes[2] = {10, 10};
    return ops->copy_batch(on, DAO_COPY_KIND_H2D, dsts, srcs, sizes, 2);
}

static void batches_that_the_driver_has_not_are_said_to_be_none(void)
{
    dao_backend_stream_t *default_stream = NULL;
    if (ops->copy_batch == NULL) {
        return;
    }
    begin();
    loopback_set(&(loopback_settings_t){.has_no_batches = true});
    CU_ASSERT_EQUAL(batch_on(stream), DAO_ERR_UNSUPPORTED);
    loopback_set(&(loopback_settings_t){0});
    CU_ASSERT_EQUAL(batch_on(stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_adopt(device, NULL, &default_stream), DAO_OK);
    CU_ASSERT_EQUAL(batch_on(default_stream), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    ops->stream_destroy(default_stream);
    end();
}

/* A graph has no node for a batch: the driver would end the capture. */
static void a_batch_on_a_captured_stream_is_said_to_be_none(void)
{
    if (ops->copy_batch == NULL) {
        return;
    }
    begin();
    CU_ASSERT_TRUE(capture_begin(ops->stream_native(stream)));
    CU_ASSERT_EQUAL(batch_on(stream), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(ops->copy(stream, DAO_COPY_KIND_H2D, memory, pinned, 10), DAO_OK);
    CU_ASSERT_TRUE(capture_end(ops->stream_native(stream)));
    CU_ASSERT_EQUAL(batch_on(stream), DAO_OK);
    end();
}

#ifdef vendorCopyBatch
/* What the backend does not ask for. */
static void the_driver_refuses_a_captured_batch(void)
{
    size_t size_bytes = 10;
    const void *src;
    begin();
    src = pinned;
    vendorStream_t native = (vendorStream_t)ops->stream_native(stream);
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    CU_ASSERT_TRUE(capture_begin((void *)native));
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    loopback_tolerate(true);
    CU_ASSERT_EQUAL(vendorCopyBatch(&memory, &src, &size_bytes, 1, native),
                    vendorErrorStreamCaptureUnsupported);
    CU_ASSERT_EQUAL(vendorGetLastError(), vendorErrorStreamCaptureUnsupported);
    CU_ASSERT_EQUAL(loopback_take_breaches(LOOPBACK_RULE_CAPTURED), 1);
    loopback_tolerate(false);
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    CU_ASSERT_TRUE(capture_end((void *)native));
    end();
}
#endif

static CU_TestInfo tests[] = {
    {"batches that the driver has not are said to be none",
     batches_that_the_driver_has_not_are_said_to_be_none},
    {"a batch on a captured stream is said to be none", a_batch_on_a_captured_stream_is_said_to_be_none},
#ifdef vendorCopyBatch
    {"the driver refuses a captured batch", the_driver_refuses_a_captured_batch},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"vendor batch", driver_start, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
