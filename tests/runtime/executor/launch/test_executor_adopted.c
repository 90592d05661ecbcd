/* SPDX-License-Identifier: Apache-2.0 */
/* An executor on streams that the program has adopted, on the loopback driver: their owner destroys or
   captures them. What the driver does not allow ends the program. What runs where is in
   test_executor_streams. */
#include DAO_VENDOR_NAMES

#include "runtime/executor/executor_internal.h"
#include "tests/loopback/loopback.h"
#include "tests/support/backends/capture.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <string.h>

enum { BYTES = 4096, STREAMS = 2, TENSORS = 4 };

static dao_executor_t *executor;
static void *natives[STREAMS];
static dao_stream_t *streams[STREAMS];
static dao_managed_t *tensors[TENSORS];

/* ---- a program ---- */

/* The program's own calls are allowed beside a capture. */
static void swap_mode(vendorStreamCaptureMode_t *mode)
{
    (void)vendorThreadExchangeStreamCaptureMode(mode);
}

static void *native_create(void)
{
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    vendorStream_t stream = NULL;
    swap_mode(&mode);
    CU_ASSERT_EQUAL_FATAL(vendorStreamCreateWithFlags(&stream, vendorStreamNonBlocking), vendorSuccess);
    swap_mode(&mode);
    return (void *)stream;
}

static void native_destroy(void *native)
{
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    swap_mode(&mode);
    CU_ASSERT_EQUAL(vendorStreamDestroy((vendorStream_t)native), vendorSuccess);
    swap_mode(&mode);
}

/* The owner destroys a stream, and the handle becomes another one's. */
static void make_again(void *native)
{
    native_destroy(native);
    loopback_stream_make_again(native);
}

/* Returns true if the vendor numbers its streams: else nobody can tell. */
static bool has_numbers(void)
{
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    unsigned long long ids[STREAMS] = {0, 0};
    swap_mode(&mode);
    for (int i = 0; i < STREAMS; i++) {
        CU_ASSERT_EQUAL(vendorStreamGetId((vendorStream_t)natives[i], &ids[i]), vendorSuccess);
    }
    swap_mode(&mode);
    if (ids[0] == ids[1]) {
        (void)printf("    skipped: this version of the vendor does not number its streams\n");
    }
    return ids[0] != ids[1];
}

static dao_status_t fill(const dao_launch_t *launch, void *user)
{
    CU_ASSERT_PTR_EQUAL(launch->stream, user);
    return loopback_ops()->fill(launch->stream->backend, launch->addresses[0], 3, BYTES);
}

static void push(uint32_t stream_index, uint32_t tensor, dao_access_t access)
{
    dao_operand_t operand = {tensors[tensor], access};
    dao_kernel_t kernel = {.name = stream_index == 0 ? "first" : "second",
                           .launch = fill,
                           .user = streams[stream_index],
                           .operands = &operand,
                           .operand_count = 1,
                           .stream_index = stream_index};
    CU_ASSERT_EQUAL(dao_executor_push(executor, &kernel), DAO_OK);
}

/* Room for all tensors but one. */
static dao_status_t make_executor(void)
{
    dao_executor_config_t config = {
        .capacity_bytes = 3 * BYTES, .stream_count = STREAMS, .streams = streams, .check = true};
    dao_status_t status = dao_executor_create(&config, &executor);
    for (int i = 0; i < TENSORS && status == DAO_OK; i++) {
        dao_managed_config_t tensor = {.size_bytes = BYTES, .zero_first_touch = i == TENSORS - 1};
        status = dao_managed_create(executor, &tensor, &tensors[i]);
    }
    return status;
}

static void destroy_executor(void)
{
    for (int i = 0; i < TENSORS; i++) {
        CU_ASSERT_EQUAL(dao_managed_release(tensors[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_executor_destroy(executor), DAO_OK);
}

static void begin(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, loopback_ops()), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), dao_alloc(dao_device_place(0), BYTES)), DAO_OK);
    for (int i = 0; i < STREAMS; i++) {
        natives[i] = native_create();
        CU_ASSERT_EQUAL_FATAL(dao_stream_adopt(0, natives[i], &streams[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL_FATAL(make_executor(), DAO_OK);
}

static void end(void)
{
    destroy_executor();
    for (int i = 0; i < STREAMS; i++) {
        dao_stream_destroy(streams[i]);
        native_destroy(natives[i]);
    }
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* The next sync reports so, and the executor goes on. */
static void expect_failure(dao_status_t status, const char *kernel, const char *text)
{
    CU_ASSERT_EQUAL(dao_executor_sync(executor), status);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), kernel));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), text));
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
}

static void expect_bytes(uint32_t tensor)
{
    unsigned char bytes[BYTES] = {0};
    CU_ASSERT_EQUAL(dao_managed_read(tensors[tensor], bytes, BYTES), DAO_OK);
    CU_ASSERT_TRUE(bytes[0] == 3 && bytes[BYTES - 1] == 3);
}

/* ---- streams that are gone ---- */

/* The other stream's kernels go on, what the stream has written before is there, and nothing gets onto the
   stream that has the handle now. */
static void kernels_of_a_stream_that_is_gone_fail(void)
{
    begin();
    push(1, 0, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    if (has_numbers()) {
        make_again(natives[1]);
        push(1, 1, DAO_ACCESS_WRITE);
        expect_failure(DAO_ERR_INVALID, "kernel \"second\" (number 1)", "was destroyed by its maker");
        push(1, 0, DAO_ACCESS_READ_WRITE);
        expect_failure(DAO_ERR_INVALID, "kernel \"second\" (number 2)", "was destroyed by its maker");
        dao_stream_t *renewed = NULL;
        CU_ASSERT_EQUAL(dao_stream_adopt(0, natives[1], &renewed), DAO_OK);
        CU_ASSERT_PTR_NOT_EQUAL(renewed, streams[1]);
        dao_stream_destroy(renewed);
    }
    push(0, 1, DAO_ACCESS_WRITE);
    push(0, 2, DAO_ACCESS_WRITE);
    push(0, 3, DAO_ACCESS_WRITE); /* one leaves for it */
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    for (uint32_t i = 0; i < TENSORS; i++) {
        expect_bytes(i);
    }
    end();
}

/* Zeros of a first touch are work of stream 0. */
static void nothing_is_filled_on_a_stream_that_is_gone(void)
{
    begin();
    push(1, 0, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    if (has_numbers()) {
        make_again(natives[0]);
        push(1, TENSORS - 1, DAO_ACCESS_READ_WRITE);
        expect_failure(DAO_ERR_INVALID, "second", "was destroyed by its maker");
    }
    push(1, 0, DAO_ACCESS_READ_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    expect_bytes(0);
    end();
}

/* ---- streams that are being captured ---- */

/* Neither the kernel nor the sync ends the capture, and behind it kernels run again. */
static void kernels_of_a_stream_that_is_captured_fail(void)
{
    begin();
    push(1, 0, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(capture_begin(natives[1]));
    push(1, 1, DAO_ACCESS_WRITE);
    expect_failure(DAO_ERR_BUSY, "kernel \"second\" (number 1)", "is being captured into a graph");
    push(0, 0, DAO_ACCESS_READ_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(capture_end(natives[1])); /* nothing has ended it before */
    push(1, 1, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    expect_bytes(0);
    expect_bytes(1);
    end();
}

/* An executor may go while the program captures its stream. */
static void an_executor_is_destroyed_beside_a_capture(void)
{
    begin();
    push(1, 0, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(dao_executor_sync(executor), DAO_OK);
    CU_ASSERT_TRUE(capture_begin(natives[1]));
    destroy_executor();
    CU_ASSERT_TRUE(capture_end(natives[1])); /* nothing has ended it before */
    CU_ASSERT_EQUAL(make_executor(), DAO_OK);
    end();
}

/* ---- streams that an executor does not take ---- */

static void refuse(dao_stream_t *stream, dao_status_t status, const char *text)
{
    dao_executor_t *none = NULL;
    dao_stream_t *const pair[STREAMS] = {streams[0], stream};
    dao_executor_config_t config = {.capacity_bytes = BYTES, .stream_count = STREAMS, .streams = pair};
    size_t used_bytes = dao_used(dao_device_place(0));
    CU_ASSERT_EQUAL(dao_executor_create(&config, &none), status);
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "streams[1]"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), text));
    CU_ASSERT_EQUAL(dao_used(dao_device_place(0)), used_bytes);
}

static void streams_that_cannot_be_had_are_refused(void)
{
    begin();
    dao_stream_t *other = NULL;
    CU_ASSERT_EQUAL(dao_stream_get(1, DAO_STREAM_ROLE_COMPUTE, &other), DAO_OK);
    refuse(other, DAO_ERR_INVALID, "is of device:1, and the executor of device:0");
    CU_ASSERT_TRUE(capture_begin(natives[1]));
    refuse(streams[1], DAO_ERR_BUSY, "is being captured");
    CU_ASSERT_TRUE(capture_end(natives[1])); /* nothing has ended it before */
    if (has_numbers()) {
        make_again(natives[1]);
        refuse(streams[1], DAO_ERR_INVALID, "was destroyed by its maker");
    }
    end();
}

static void a_stream_of_an_earlier_start_is_refused(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    dao_stream_t *early = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, loopback_ops()), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_create(0, &early), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    begin();
    refuse(early, DAO_ERR_INVALID, "is of device:0 of an earlier start");
    dao_stream_destroy(early);
    end();
}

static CU_TestInfo tests[] = {
    {"kernels of a stream that is gone fail", kernels_of_a_stream_that_is_gone_fail},
    {"nothing is filled on a stream that is gone", nothing_is_filled_on_a_stream_that_is_gone},
    {"kernels of a stream that is captured fail", kernels_of_a_stream_that_is_captured_fail},
    {"an executor is destroyed beside a capture", an_executor_is_destroyed_beside_a_capture},
    {"streams that cannot be had are refused", streams_that_cannot_be_had_are_refused},
    {"a stream of an earlier start is refused", a_stream_of_an_earlier_start_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"executor on adopted streams", NULL, NULL, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
