/* The source that cuda and hip share, over a fake vendor: every slot makes its device current and puts the caller's
   back, maps each error, leaves no error of its own behind, and leaks nothing whichever call fails. */
#include "backends/backend.h"
#include "base/error.h"
#include "tests/support/fake_vendor.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

/* What fake_vendor_names.h makes of dao_vendor_backend_ops in vendor.c. */
extern const dao_backend_ops_t dao_fake_vendor_ops;

#define SIZE_BYTES ((size_t)1000)

static const dao_backend_ops_t *const ops = &dao_fake_vendor_ops;
static const dao_config_t config;

/* Everything that a scenario takes, NULL where it did not come to it. The thread's device is 0, the work is on 1. */
typedef struct world {
    dao_backend_t *backend;
    dao_backend_device_t *device;
    dao_backend_device_t *peer; /* device 0 */
    void *memory;
    void *peer_memory;
    void *pinned;
    dao_backend_stream_t *stream;
    dao_backend_event_t *begin;
    dao_backend_event_t *end;
} world_t;

static dao_status_t world_open(world_t *world)
{
    *world = (world_t){0};
    dao_status_t status = ops->open(&config, &world->backend);
    status = status != DAO_OK ? status : ops->device_open(world->backend, 1, &world->device);
    status = status != DAO_OK ? status : ops->device_open(world->backend, 0, &world->peer);
    status = status != DAO_OK ? status : ops->memory_alloc(world->device, SIZE_BYTES, &world->memory);
    status = status != DAO_OK ? status : ops->memory_alloc(world->peer, SIZE_BYTES, &world->peer_memory);
    status = status != DAO_OK ? status : ops->pinned_alloc(world->device, SIZE_BYTES, &world->pinned);
    status = status != DAO_OK ? status : ops->stream_create(world->device, &world->stream);
    status = status != DAO_OK ? status : ops->event_create(world->device, &world->begin);
    return status != DAO_OK ? status : ops->event_create(world->device, &world->end);
}

static void world_close(world_t *world)
{
    fake_vendor.calls_until_fail = -1;
    if (world->end != NULL) {
        ops->event_destroy(world->end);
    }
    if (world->begin != NULL) {
        ops->event_destroy(world->begin);
    }
    if (world->stream != NULL) {
        ops->stream_destroy(world->stream);
    }
    if (world->pinned != NULL) {
        CU_ASSERT_EQUAL(ops->pinned_free(world->device, world->pinned, SIZE_BYTES), DAO_OK);
    }
    if (world->peer_memory != NULL) {
        CU_ASSERT_EQUAL(ops->memory_free(world->peer, world->peer_memory, SIZE_BYTES), DAO_OK);
    }
    if (world->memory != NULL) {
        CU_ASSERT_EQUAL(ops->memory_free(world->device, world->memory, SIZE_BYTES), DAO_OK);
    }
    if (world->peer != NULL) {
        ops->device_close(world->peer);
    }
    if (world->device != NULL) {
        ops->device_close(world->device);
    }
    if (world->backend != NULL) {
        ops->close(world->backend);
    }
    CU_ASSERT_EQUAL(fake_vendor.live_count, 0);
    CU_ASSERT_EQUAL(fake_vendor.wrong_device_count, 0);
    CU_ASSERT_EQUAL(fake_vendor.current_device, 0);
}

static void begin_world(world_t *world)
{
    fake_vendor_reset();
    CU_ASSERT_EQUAL_FATAL(world_open(world), DAO_OK);
}

static void add_one(void *user)
{
    *(int *)user += 1;
}

/* Every kind of work once; stops at the first failure. */
static dao_status_t work(world_t *world, int *ran_count)
{
    unsigned char host[2][SIZE_BYTES];
    memset(host[0], 7, SIZE_BYTES);
    dao_backend_stream_t *stream = world->stream;
    int64_t elapsed_ns = 0;
    dao_device_info_t info;
    dao_status_t status = ops->event_record(world->begin, stream);
    status = status != DAO_OK ? status : ops->fill(stream, world->memory, 9, SIZE_BYTES);
    status =
        status != DAO_OK ? status : ops->copy(stream, DAO_COPY_KIND_H2H, world->pinned, host[0], SIZE_BYTES);
    status = status != DAO_OK
                 ? status
                 : ops->copy(stream, DAO_COPY_KIND_H2D, world->memory, world->pinned, SIZE_BYTES);
    status = status != DAO_OK ? status
                              : ops->copy_peer(stream, world->peer, world->peer_memory, world->device,
                                               world->memory, SIZE_BYTES);
    status = status != DAO_OK ? status
                              : ops->copy(stream, DAO_COPY_KIND_D2H, host[1], world->peer_memory, SIZE_BYTES);
    status = status != DAO_OK ? status : ops->host_func(stream, add_one, ran_count);
    status = status != DAO_OK ? status : ops->event_record(world->end, stream);
    status = status != DAO_OK ? status : ops->stream_wait_event(stream, world->end);
    status = status != DAO_OK ? status : ops->event_query(world->end);
    status = status != DAO_OK ? status : ops->event_synchronize(world->end);
    status = status != DAO_OK ? status : ops->event_elapsed(world->begin, world->end, &elapsed_ns);
    status = status != DAO_OK ? status : ops->stream_synchronize(stream);
    status = status != DAO_OK ? status : ops->device_synchronize(world->device);
    status = status != DAO_OK ? status : ops->device_query(world->device, &info);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(memcmp(host[0], host[1], SIZE_BYTES), 0);
        CU_ASSERT_EQUAL(*ran_count, 1);
    }
    return status;
}

static void the_table_is_whole(void)
{
    CU_ASSERT_EQUAL(dao_backend_ops_check(ops), DAO_OK);
    CU_ASSERT_FALSE(dao_backend_has_pages(ops));
}

static void a_missing_driver_is_said_in_words(void)
{
    dao_backend_t *backend = NULL;
    fake_vendor_reset();
    fake_vendor.calls_until_fail = 0;
    fake_vendor.failure = FAKE_ERROR_INSUFFICIENT_DRIVER;
    fake_vendor.driver_version = 0;
    CU_ASSERT_EQUAL(ops->open(&config, &backend), DAO_ERR_NO_DEVICE);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), "there is no FAKE device: the fake driver is not installed");
    fake_vendor_reset();
    fake_vendor.calls_until_fail = 0;
    fake_vendor.failure = FAKE_ERROR_INSUFFICIENT_DRIVER;
    CU_ASSERT_EQUAL(ops->open(&config, &backend), DAO_ERR_NO_DEVICE);
    CU_ASSERT_STRING_EQUAL(
        dao_last_message(),
        "the fake driver is too old: it serves FAKE 12.2, the library was built with 13.0");
    CU_ASSERT_EQUAL(dao_last_vendor_code(), FAKE_ERROR_INSUFFICIENT_DRIVER);
    fake_vendor_reset();
    fake_vendor.device_count = 0;
    CU_ASSERT_EQUAL(ops->open(&config, &backend), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "there is no FAKE device"));
    CU_ASSERT_EQUAL(fake_vendor.last_error, FAKE_SUCCESS);
    CU_ASSERT_PTR_NULL(backend);
}

static void more_devices_than_the_library_handles_are_refused(void)
{
    dao_backend_t *backend = NULL;
    int32_t count = -1;
    fake_vendor_reset();
    fake_vendor.device_count = DAO_DEVICE_COUNT_MAX + 1;
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL(ops->device_count(backend, &count), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "FAKE_VISIBLE_DEVICES"));
    CU_ASSERT_EQUAL(count, -1);
    ops->close(backend);
}

static void all_work_is_done_with_its_device_current(void)
{
    world_t world;
    begin_world(&world);
    int ran_count = 0;
    CU_ASSERT_EQUAL(work(&world, &ran_count), DAO_OK);
    CU_ASSERT_EQUAL(fake_vendor.copy_count, 2); /* the one within host memory goes as a host function */
    CU_ASSERT_EQUAL(fake_vendor.peer_copy_count, 1);
    dao_device_info_t info;
    CU_ASSERT_EQUAL(ops->device_query(world.device, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.free_bytes, 3001);
    CU_ASSERT_EQUAL(info.total_bytes, 4000);
    CU_ASSERT_EQUAL(info.page_bytes, 0);
    CU_ASSERT_EQUAL(info.alignment_bytes, 256);
    CU_ASSERT_FALSE(info.host_accessible);
    CU_ASSERT_EQUAL(strlen(info.name), sizeof(info.name) - 1);
    world_close(&world);
}

static void memory_that_is_refused_names_its_kind(void)
{
    world_t world;
    begin_world(&world);
    void *const untouched = &world;
    void *address = untouched;
    fake_vendor.failure = FAKE_ERROR_MEMORY_ALLOCATION;
    fake_vendor.calls_until_fail = 1; /* the first asks for the current device */
    CU_ASSERT_EQUAL(ops->memory_alloc(world.device, 123, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_STRING_EQUAL(dao_last_message(),
                           "123 bytes: device:1: fake_malloc: out of memory (fakeErrorMemoryAllocation)");
    CU_ASSERT_EQUAL(dao_last_vendor_code(), FAKE_ERROR_MEMORY_ALLOCATION);
    fake_vendor.calls_until_fail = 1;
    CU_ASSERT_EQUAL(ops->pinned_alloc(world.device, 123, &address), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_PTR_EQUAL(address, untouched);
    CU_ASSERT_EQUAL(fake_vendor.last_error, FAKE_SUCCESS);
    world_close(&world);
}

static void a_device_that_cannot_be_made_current_fails_the_call(void)
{
    world_t world;
    begin_world(&world);
    fake_vendor.refused_device = 1;
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.memory, 1, SIZE_BYTES), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(fake_vendor.current_device, 0);
    fake_vendor.refused_device = -1;
    dao_backend_device_t *device = NULL;
    CU_ASSERT_EQUAL(ops->device_open(world.backend, 2, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(ops->device_open(world.backend, -1, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(device);
    world_close(&world);
}

static void an_event_is_late_finished_or_without_a_record(void)
{
    world_t world;
    begin_world(&world);
    int64_t elapsed_ns = -1;
    fake_vendor.events_are_late = true;
    CU_ASSERT_EQUAL(ops->event_query(world.begin), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(ops->event_record(world.begin, world.stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(ops->event_record(world.end, world.stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(world.end), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(fake_vendor.last_error, FAKE_SUCCESS);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(elapsed_ns, -1);
    fake_vendor.events_are_late = false;
    fake_vendor.elapsed_ms = 2.5f;
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_OK);
    CU_ASSERT_EQUAL(elapsed_ns, 2500000);
    world_close(&world);
}

/* Fails each call in turn with one error. Gives back how many there were. */
static long sweep(fake_error_t failure, dao_status_t expected)
{
    for (long n = 0;; n++) {
        world_t world;
        int ran_count = 0;
        fake_vendor_reset();
        fake_vendor.failure = failure;
        fake_vendor.calls_until_fail = n;
        dao_status_t status = world_open(&world);
        if (status == DAO_OK) {
            status = work(&world, &ran_count);
        }
        bool has_failed = fake_vendor.calls_until_fail < 0;
        if (has_failed) {
            CU_ASSERT_EQUAL(status, dao_last_status());
            CU_ASSERT_EQUAL(dao_last_vendor_code(), failure);
            CU_ASSERT_EQUAL(fake_vendor.last_error, FAKE_SUCCESS);
            CU_ASSERT_EQUAL(fake_vendor.current_device, 0);
            if (world.backend == NULL) {
                CU_ASSERT_EQUAL(status, DAO_ERR_NO_DEVICE);
            } else if (failure == FAKE_ERROR_MEMORY_ALLOCATION) {
                CU_ASSERT_TRUE(status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_NO_DEVICE_MEMORY);
            } else {
                CU_ASSERT_EQUAL(status, expected);
            }
        } else {
            CU_ASSERT_EQUAL(status, DAO_OK);
        }
        world_close(&world);
        if (!has_failed) {
            return n;
        }
    }
}

static void whichever_call_fails_nothing_is_lost(void)
{
    CU_ASSERT_TRUE(sweep(FAKE_ERROR_INVALID_VALUE, DAO_ERR_BACKEND) > 30);
    CU_ASSERT_TRUE(sweep(FAKE_ERROR_ILLEGAL_ADDRESS, DAO_ERR_DEVICE_LOST) > 30);
    CU_ASSERT_TRUE(sweep(FAKE_ERROR_MEMORY_ALLOCATION, DAO_ERR_NO_DEVICE_MEMORY) > 30);
}

static void a_stream_is_destroyed_whatever_its_work_did(void)
{
    for (long n = 0; n < 4; n++) {
        world_t world;
        begin_world(&world);
        fake_stream_t native = ops->stream_native(world.stream);
        fake_vendor.failure = FAKE_ERROR_ILLEGAL_ADDRESS;
        fake_vendor.calls_until_fail = n;
        ops->stream_destroy(world.stream);
        world.stream = NULL;
        CU_ASSERT_EQUAL(fake_vendor.last_error, FAKE_SUCCESS);
        if (n == 2) {
            /* The guard failed, so that the vendor was not asked: its stream stays with the lost device. */
            CU_ASSERT_EQUAL(fake_set_device(1), FAKE_SUCCESS);
            CU_ASSERT_EQUAL(fake_stream_destroy(native), FAKE_SUCCESS);
            CU_ASSERT_EQUAL(fake_set_device(0), FAKE_SUCCESS);
        }
        world_close(&world);
    }
}

static CU_TestInfo tests[] = {
    {"the table is whole", the_table_is_whole},
    {"a missing driver is said in words", a_missing_driver_is_said_in_words},
    {"more devices than the library handles are refused", more_devices_than_the_library_handles_are_refused},
    {"all work is done with its device current", all_work_is_done_with_its_device_current},
    {"memory that is refused names its kind", memory_that_is_refused_names_its_kind},
    {"a device that cannot be made current fails the call",
     a_device_that_cannot_be_made_current_fails_the_call},
    {"an event is late, finished, or without a record", an_event_is_late_finished_or_without_a_record},
    {"whichever call fails, nothing is lost", whichever_call_fails_nothing_is_lost},
    {"a stream is destroyed whatever its work did", a_stream_is_destroyed_whatever_its_work_did},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"vendor", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
