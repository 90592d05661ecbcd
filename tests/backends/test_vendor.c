/* SPDX-License-Identifier: Apache-2.0 */
/* The source that cuda and hip share, on the loopback driver: every slot makes its device current and puts
   the caller's back, maps each error, leaves no error of its own behind, and loses nothing whichever call
   fails. And the driver itself: it sees what callers do wrong. */
#define _POSIX_C_SOURCE 200809L /* pipe */
#include DAO_VENDOR_NAMES

#include "base/report/error.h"
#include "tests/contract/backend_contract.h"
#include "tests/loopback/failures.h"
#include "tests/support/backends/capture.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SIZE_BYTES ((size_t)1000)
#define PAGE_COUNT 3

#define TEXT_OF(name)          TEXT_OF_EXPANDED(name)
#define TEXT_OF_EXPANDED(name) #name

static const dao_config_t config = {
    .cpu = {.device_count = 2, .device_bytes = (uint64_t)64 << 20, .h2d_bytes_per_second = 0}};
static const loopback_settings_t usual = {.device_count = 0};
static const dao_backend_ops_t *ops;

/* Everything that a scenario takes, NULL where it did not come to it. The thread's device is 0, the work is
   on 1. */
typedef struct world {
    dao_backend_t *backend;
    dao_backend_device_t *device;
    dao_backend_device_t *peer; /* device 0 */
    void *memory;
    void *peer_memory;
    void *pinned;
    dao_backend_stream_t *stream;
    dao_backend_stream_t *adopted; /* the same one */
    dao_backend_event_t *begin;
    dao_backend_event_t *end;
    size_t page_bytes;
    void *addresses; /* of PAGE_COUNT pages */
    dao_backend_pages_t *pages[PAGE_COUNT];
    bool is_mapped; /* all of them */
    void *registered;
} world_t;

/* Host memory of the test's own. */
static unsigned char own_memory[SIZE_BYTES];

static dao_status_t world_open_pages(world_t *world)
{
    dao_device_info_t info;
    dao_backend_pages_t *made[PAGE_COUNT - 1];
    dao_status_t status = ops->device_query(world->device, &info);
    if (status != DAO_OK) {
        return status;
    }
    size_t page_bytes = (size_t)info.page_bytes;
    world->page_bytes = page_bytes;
    status = ops->address_reserve(world->device, PAGE_COUNT * page_bytes, &world->addresses);
    status = status != DAO_OK ? status : ops->pages_create(world->device, page_bytes, &world->pages[0]);
    status = status != DAO_OK ? status : ops->pages_map(world->device, world->pages[0], world->addresses);
    if (status != DAO_OK) {
        return status;
    }
    status = ops->pages_create_mapped(world->device, page_bytes, PAGE_COUNT - 1,
                                      (char *)world->addresses + page_bytes, made);
    if (status != DAO_OK) {
        (void)ops->pages_unmap(world->device, world->pages[0], world->addresses);
        return status;
    }
    memcpy(&world->pages[1], made, sizeof(made));
    world->is_mapped = true;
    return DAO_OK;
}

/* Others in the process call the driver, while nobody is at a capture. Returns the mode to restore. */
static vendorStreamCaptureMode_t begin_as_others(void)
{
    vendorStreamCaptureMode_t mode = vendorStreamCaptureModeRelaxed;
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

static void end_as_others(vendorStreamCaptureMode_t mode)
{
    (void)vendorThreadExchangeStreamCaptureMode(&mode);
}

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
    status = status != DAO_OK
                 ? status
                 : ops->stream_adopt(world->device, ops->stream_native(world->stream), &world->adopted);
    status = status != DAO_OK ? status : ops->event_create(world->device, true, &world->begin);
    status = status != DAO_OK ? status : ops->event_create(world->device, true, &world->end);
    return status != DAO_OK ? status : world_open_pages(world);
}

static void world_close_pages(const world_t *world)
{
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        if (world->pages[i] != NULL && world->is_mapped) {
            GIVE_BACK(ops->pages_unmap(world->device, world->pages[i],
                                       (char *)world->addresses + i * world->page_bytes));
        }
        if (world->pages[i] != NULL) {
            GIVE_BACK(ops->pages_destroy(world->device, world->pages[i]));
        }
    }
    if (world->addresses != NULL) {
        GIVE_BACK(ops->address_release(world->device, world->addresses, PAGE_COUNT * world->page_bytes));
    }
}

/* Lets so many calls succeed, then one fail. Answers of a lost device are expected: the driver collects what
   it holds. */
static void world_close_failing(world_t *world, long calls, int error)
{
    loopback_fail(calls, error);
    if (world->stream != NULL) {
        (void)ops->stream_synchronize(world->stream);
    }
    world_close_pages(world);
    if (world->end != NULL) {
        ops->event_destroy(world->end);
    }
    if (world->begin != NULL) {
        ops->event_destroy(world->begin);
    }
    if (world->adopted != NULL) {
        ops->stream_destroy(world->adopted);
    }
    if (world->stream != NULL) {
        ops->stream_destroy(world->stream);
    }
    if (world->registered != NULL) {
        GIVE_BACK(ops->host_unregister(world->device, world->registered));
    }
    if (world->pinned != NULL) {
        GIVE_BACK(ops->pinned_free(world->device, world->pinned, SIZE_BYTES));
    }
    if (world->peer_memory != NULL) {
        GIVE_BACK(ops->memory_free(world->peer, world->peer_memory, SIZE_BYTES));
    }
    if (world->memory != NULL) {
        GIVE_BACK(ops->memory_free(world->device, world->memory, SIZE_BYTES));
    }
    if (world->peer != NULL) {
        ops->device_close(world->peer);
    }
    if (world->device != NULL) {
        ops->device_close(world->device);
    }
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    if (world->backend != NULL) {
        ops->close(world->backend); /* here the driver sees what is left */
    }
    CU_ASSERT_EQUAL(loopback_current_device(), 0);
    CU_ASSERT_TRUE(loopback_has_own_capture_mode());
}

static void world_close(world_t *world)
{
    world_close_failing(world, -1, 0);
}

static void begin_world(world_t *world)
{
    loopback_set(&usual);
    CU_ASSERT_EQUAL_FATAL(world_open(world), DAO_OK);
}

/* What a device reaches besides its own memory, each call once. */
static dao_status_t reach(world_t *world)
{
    bool can = false;
    void *address = NULL;
    dao_status_t status = ops->peer_can(world->device, world->peer, &can);
    status = status != DAO_OK ? status : ops->peer_enable(world->device, world->peer);
    status = status != DAO_OK ? status : ops->peer_enable(world->peer, world->device); /* which has pages */
    status = status != DAO_OK ? status : ops->fill(world->stream, world->peer_memory, 3, SIZE_BYTES);
    if (status == DAO_OK) {
        CU_ASSERT_TRUE(can);
        status = ops->host_register(world->device, own_memory, SIZE_BYTES);
        world->registered = status == DAO_OK ? own_memory : NULL;
    }
    status = status != DAO_OK ? status : ops->host_device_address(world->device, own_memory, &address);
    status = status != DAO_OK ? status : ops->fill(world->stream, address, 4, SIZE_BYTES);
    status = status != DAO_OK ? status : ops->stream_synchronize(world->stream);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(own_memory[SIZE_BYTES - 1], 4);
        status = ops->host_unregister(world->device, own_memory);
        world->registered = status == DAO_OK ? NULL : own_memory;
    }
    return status;
}

static void add_one(void *user)
{
    (void)atomic_fetch_add((_Atomic int *)user, 1);
}

/* Every kind of work once; stops at the first failure, when all that was queued is done. */
static dao_status_t work(world_t *world, _Atomic int *ran_count)
{
    static unsigned char host[2][SIZE_BYTES];
    memset(host[0], 7, SIZE_BYTES);
    memset(host[1], 0, SIZE_BYTES);
    dao_backend_stream_t *stream = world->stream;
    void *mapped = (char *)world->addresses + world->page_bytes - SIZE_BYTES / 2; /* in two pages */
    int64_t elapsed_ns = -1;
    dao_device_info_t info;
    dao_status_t status = ops->event_record(world->begin, stream);
    status = status != DAO_OK ? status : ops->fill(stream, world->memory, 9, SIZE_BYTES);
    status =
        status != DAO_OK ? status : ops->copy(stream, DAO_COPY_KIND_H2H, world->pinned, host[0], SIZE_BYTES);
    status =
        status != DAO_OK ? status : ops->copy(stream, DAO_COPY_KIND_H2D, mapped, world->pinned, SIZE_BYTES);
    status =
        status != DAO_OK ? status : ops->copy(stream, DAO_COPY_KIND_D2D, world->memory, mapped, SIZE_BYTES);
    status = status != DAO_OK ? status
                              : ops->copy_peer(stream, world->peer, world->peer_memory, world->device,
                                               world->memory, SIZE_BYTES);
    status = status != DAO_OK
                 ? status
                 : ops->copy_peer(stream, world->device, mapped, world->peer, world->peer_memory, SIZE_BYTES);
    status = status != DAO_OK || ops->copy_batch == NULL
                 ? status
                 : ops->copy_batch(stream, DAO_COPY_KIND_D2D, &world->memory, (const void *const *)&mapped,
                                   &(size_t){SIZE_BYTES}, 1);
    status = status != DAO_OK ? status : ops->copy(stream, DAO_COPY_KIND_D2H, host[1], mapped, SIZE_BYTES);
    status = status != DAO_OK ? status : ops->host_func(stream, add_one, ran_count);
    status = status != DAO_OK ? status : ops->event_record(world->end, stream);
    status = status != DAO_OK ? status : ops->stream_wait_event(stream, world->end);
    status = status != DAO_OK ? status : ops->event_synchronize(world->end);
    status = status != DAO_OK ? status : ops->event_query(world->end);
    status = status != DAO_OK ? status : ops->event_elapsed(world->begin, world->end, &elapsed_ns);
    status = status != DAO_OK ? status : ops->stream_synchronize(stream);
    status = status != DAO_OK ? status : ops->device_synchronize(world->device);
    status = status != DAO_OK ? status : ops->device_query(world->device, &info);
    if (status == DAO_OK) {
        CU_ASSERT_EQUAL(memcmp(host[0], host[1], SIZE_BYTES), 0);
        CU_ASSERT_EQUAL(atomic_load(ran_count), 1);
        CU_ASSERT_TRUE(elapsed_ns >= 0);
    }
    return status;
}

static void the_table_is_whole(void)
{
    CU_ASSERT_EQUAL(dao_backend_ops_check(ops), DAO_OK);
    CU_ASSERT_STRING_EQUAL(ops->name, VENDOR_BACKEND_NAME);
    CU_ASSERT_TRUE(dao_backend_has_pages(ops));
}

/* A version as the vendor numbers it. */
static int version_of(int major, int minor)
{
    for (int version = 0;; version++) {
        if (VENDOR_VERSION_MAJOR(version) == major && VENDOR_VERSION_MINOR(version) == minor) {
            return version;
        }
    }
}

static void is_refused_for_want_of_a_device(const loopback_settings_t *settings, const char *expected)
{
    dao_backend_t *const untouched = (dao_backend_t *)&config;
    dao_backend_t *backend = untouched;
    loopback_set(settings);
    CU_ASSERT_EQUAL(ops->open(&config, &backend), DAO_ERR_NO_DEVICE);
    if (strstr(dao_last_message(), expected) == NULL) {
        (void)printf("    \"%s\" does not say \"%s\"\n", dao_last_message(), expected);
        CU_FAIL("the message");
    }
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    CU_ASSERT_PTR_EQUAL(backend, untouched);
}

static void a_missing_driver_is_said_in_words(void)
{
    char expected[256];
    (void)snprintf(expected, sizeof(expected), "there is no %s device: %s is not installed", VENDOR_NAME,
                   VENDOR_DRIVER);
    is_refused_for_want_of_a_device(&(loopback_settings_t){.has_no_driver = true}, expected);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), vendorErrorInsufficientDriver);
    (void)snprintf(expected, sizeof(expected),
                   "%s is too old: it serves %s 11.2, the library was built with 13.0", VENDOR_DRIVER,
                   VENDOR_NAME);
    is_refused_for_want_of_a_device(&(loopback_settings_t){.has_no_driver = true,
                                                           .driver_version = version_of(11, 2),
                                                           .runtime_version = version_of(13, 0)},
                                    expected);
    (void)snprintf(expected, sizeof(expected), "there is no %s device: see whether %s runs, what %s lists",
                   VENDOR_NAME, VENDOR_DRIVER, VENDOR_LIST_DEVICES);
    is_refused_for_want_of_a_device(&(loopback_settings_t){.device_count = -1}, expected);
}

static void more_devices_than_the_library_handles_are_refused(void)
{
    dao_backend_t *backend = NULL;
    int32_t count = -1;
    loopback_set(&(loopback_settings_t){.device_count = DAO_DEVICE_COUNT_MAX + 1});
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL(ops->device_count(backend, &count), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), VENDOR_VISIBLE_DEVICES));
    CU_ASSERT_EQUAL(count, -1);
    ops->close(backend);
}

static void nine_devices_are_nine(void)
{
    dao_config_t nine = {.cpu = {.device_count = 9, .device_bytes = (uint64_t)64 << 20}};
    dao_backend_t *backend = NULL;
    dao_backend_device_t *device = NULL;
    int32_t count = 0;
    loopback_set(&usual);
    CU_ASSERT_EQUAL_FATAL(ops->open(&nine, &backend), DAO_OK);
    CU_ASSERT_EQUAL(ops->device_count(backend, &count), DAO_OK);
    CU_ASSERT_EQUAL(count, 9);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 8, &device), DAO_OK);
    ops->device_close(device);
    ops->close(backend);
}

static void all_work_is_done_with_its_device_current(void)
{
    world_t world;
    begin_world(&world);
    _Atomic int ran_count = 0;
    CU_ASSERT_EQUAL(work(&world, &ran_count), DAO_OK);
    dao_device_info_t info;
    CU_ASSERT_EQUAL(ops->device_query(world.device, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.total_bytes, config.cpu.device_bytes);
    CU_ASSERT_TRUE(info.free_bytes <= info.total_bytes - PAGE_COUNT * world.page_bytes - SIZE_BYTES);
    CU_ASSERT_TRUE(info.page_bytes > 0);
    CU_ASSERT_EQUAL(info.alignment_bytes, 256);
    CU_ASSERT_FALSE(info.host_accessible);
    CU_ASSERT_STRING_EQUAL(info.pci_address, "0000:a1:00.0");
    CU_ASSERT_TRUE(info.compute_major == 9 && info.compute_minor == 0 && info.multiprocessor_count == 132);
    world_close(&world);
}

/* A program that uses one device pays for a context on none of the others, whichever is the first. */
static void a_device_that_is_not_used_has_no_context(void)
{
    dao_backend_t *backend = NULL;
    dao_backend_device_t *device = NULL;
    void *memory = NULL;
    loopback_set(&usual);
    loopback_forget_choice();
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 1, &device), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_alloc(device, SIZE_BYTES, &memory), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_free(device, memory, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(loopback_current_device(), 0); /* as it was */
    CU_ASSERT_TRUE(loopback_has_context(1));
    CU_ASSERT_FALSE(loopback_has_context(0));
    CU_ASSERT_EQUAL(vendorSetDevice(0), vendorSuccess); /* now it is the program's choice */
    CU_ASSERT_EQUAL(ops->device_synchronize(device), DAO_OK);
    CU_ASSERT_EQUAL(loopback_current_device(), 0);
    ops->device_close(device);
    ops->close(backend);
}

/* The system refuses to read the byte for us. */
static bool is_out_of_reach(const void *address)
{
    int ends[2];
    CU_ASSERT_EQUAL_FATAL(pipe(ends), 0);
    bool is_refused = write(ends[1], address, 1) < 0 && errno == EFAULT;
    (void)close(ends[0]);
    (void)close(ends[1]);
    return is_refused;
}

/* So that a test which passes here touches none either, and can run on a real device. */
static void the_host_touches_no_memory_of_a_device(void)
{
    world_t world;
    begin_world(&world);
    CU_ASSERT_TRUE(is_out_of_reach(world.memory));
    CU_ASSERT_TRUE(is_out_of_reach((char *)world.memory + SIZE_BYTES - 1));
    CU_ASSERT_TRUE(is_out_of_reach(world.addresses));
    CU_ASSERT_FALSE(is_out_of_reach(world.pinned));
    world_close(&world);
}

static void a_long_name_is_cut(void)
{
    dao_backend_t *backend = NULL;
    dao_backend_device_t *device = NULL;
    dao_device_info_t info;
    loopback_set(&(loopback_settings_t){.has_long_names = true});
    CU_ASSERT_EQUAL_FATAL(ops->open(&config, &backend), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->device_open(backend, 1, &device), DAO_OK);
    CU_ASSERT_EQUAL(ops->device_query(device, &info), DAO_OK);
    CU_ASSERT_EQUAL(strlen(info.name), sizeof(info.name) - 1);
    ops->device_close(device);
    ops->close(backend);
}

static void memory_that_is_refused_names_its_kind(void)
{
    world_t world;
    begin_world(&world);
    void *const untouched = &world;
    void *address = untouched;
    char expected[256];
    (void)snprintf(expected, sizeof(expected), "123 bytes: device:1: %s: out of memory (%s)",
                   TEXT_OF(vendorMalloc), TEXT_OF(vendorErrorMemoryAllocation));
    loopback_fail(1, vendorErrorMemoryAllocation); /* the first asks for the current device */
    CU_ASSERT_EQUAL(ops->memory_alloc(world.device, 123, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_STRING_EQUAL(dao_last_message(), expected);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), vendorErrorMemoryAllocation);
    loopback_fail(1, vendorErrorMemoryAllocation);
    CU_ASSERT_EQUAL(ops->pinned_alloc(world.device, 123, &address), DAO_ERR_NO_HOST_MEMORY);
    CU_ASSERT_EQUAL(ops->memory_alloc(world.device, (size_t)1 << 40, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_EQUAL(address, untouched);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    world_close(&world);
}

static void a_device_that_cannot_be_made_current_fails_the_call(void)
{
    world_t world;
    begin_world(&world);
    loopback_set(&(loopback_settings_t){.refused_device = 1 + 1});
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.memory, 1, SIZE_BYTES), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(loopback_current_device(), 0);
    CU_ASSERT_TRUE(loopback_has_own_capture_mode());
    loopback_set(&usual);
    dao_backend_device_t *device = NULL;
    CU_ASSERT_EQUAL(ops->device_open(world.backend, 2, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(ops->device_open(world.backend, -1, &device), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NULL(device);
    world_close(&world);
}

static void await_gate(void *user)
{
    while (!atomic_load((_Atomic bool *)user)) {
    }
}

static void an_event_is_late_finished_or_without_a_record(void)
{
    world_t world;
    begin_world(&world);
    int64_t elapsed_ns = -1;
    _Atomic bool gate = false;
    CU_ASSERT_EQUAL(ops->host_func(world.stream, await_gate, &gate), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(world.begin), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(ops->event_record(world.begin, world.stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(ops->event_record(world.end, world.stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(world.end), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_ERR_NOT_READY);
    CU_ASSERT_EQUAL(elapsed_ns, -1);
    atomic_store(&gate, true);
    CU_ASSERT_EQUAL(ops->event_synchronize(world.end), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_elapsed(world.begin, world.end, &elapsed_ns), DAO_OK);
    CU_ASSERT_TRUE(elapsed_ns >= 0);
    world_close(&world);
}

static void devices_that_cannot_reach_each_other_say_so(void)
{
    world_t world;
    begin_world(&world);
    bool can = true;
    loopback_set(&(loopback_settings_t){.has_no_peers = true});
    CU_ASSERT_EQUAL(ops->peer_can(world.device, world.peer, &can), DAO_OK);
    CU_ASSERT_FALSE(can);
    CU_ASSERT_EQUAL(ops->peer_enable(world.device, world.peer), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), vendorErrorPeerAccessUnsupported);
    CU_ASSERT_EQUAL(
        ops->copy_peer(world.stream, world.peer, world.peer_memory, world.device, world.memory, SIZE_BYTES),
        DAO_OK); /* the driver goes through the host then */
    loopback_set(&usual);
    vendorStreamCaptureMode_t mode = begin_as_others();
    CU_ASSERT_EQUAL(vendorDeviceEnablePeerAccess(1, 0), vendorSuccess);
    end_as_others(mode);
    CU_ASSERT_EQUAL(ops->peer_enable(world.peer, world.device), DAO_OK);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    world_close(&world);
}

static void access_to_a_run_of_pages_is_allowed_by_one_call(void)
{
    world_t world;
    begin_world(&world);
    for (size_t i = 0; i < PAGE_COUNT; i++) {
        CU_ASSERT_EQUAL(
            ops->pages_unmap(world.device, world.pages[i], (char *)world.addresses + i * world.page_bytes),
            DAO_OK);
    }
    uint64_t calls = loopback_call_count();
    CU_ASSERT_EQUAL(ops->pages_map_run(world.device, world.pages, PAGE_COUNT, world.addresses), DAO_OK);
    CU_ASSERT_EQUAL(loopback_call_count() - calls, PAGE_COUNT + 1);
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.addresses, 1, PAGE_COUNT * world.page_bytes), DAO_OK);
    world_close(&world);
}

static void a_run_of_pages_is_unmapped_by_one_call(void)
{
    world_t world;
    if (ops->pages_unmap_run == NULL) {
        (void)printf("    skipped: %s unmaps pages one by one\n", ops->name);
        return;
    }
    begin_world(&world);
    uint64_t calls = loopback_call_count();
    CU_ASSERT_EQUAL(ops->pages_unmap_run(world.device, world.pages, PAGE_COUNT, world.addresses), DAO_OK);
    CU_ASSERT_EQUAL(loopback_call_count() - calls, 1);
    CU_ASSERT_EQUAL(ops->pages_map_run(world.device, world.pages, PAGE_COUNT, world.addresses), DAO_OK);
    loopback_fail(1, LOOPBACK_INVALID_VALUE);
    CU_ASSERT_EQUAL(ops->pages_unmap_run(world.device, world.pages, PAGE_COUNT, world.addresses),
                    DAO_ERR_BACKEND);
    CU_ASSERT_TRUE(loopback_has_failed());
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.addresses, 1, PAGE_COUNT * world.page_bytes), DAO_OK);
    world_close(&world);
}

/* Pages that the driver does not unmap stay within reach of all who may, also of those who came meanwhile. */
static void pages_that_stay_mapped_stay_within_reach(void)
{
    world_t world;
    begin_world(&world);
    dao_backend_stream_t *stream = NULL;
    CU_ASSERT_EQUAL(ops->stream_create(world.peer, &stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->peer_enable(world.peer, world.device), DAO_OK);
    loopback_fail(1, LOOPBACK_INVALID_VALUE);
    CU_ASSERT_EQUAL(ops->pages_unmap(world.device, world.pages[0], world.addresses), DAO_ERR_BACKEND);
    CU_ASSERT_TRUE(loopback_has_failed());
    CU_ASSERT_EQUAL(ops->fill(stream, world.addresses, 1, PAGE_COUNT * world.page_bytes), DAO_OK);
    ops->stream_destroy(stream);
    world_close(&world);
}

static void host_memory_that_others_have_registered_is_left_to_them(void)
{
    world_t world;
    begin_world(&world);
    vendorStreamCaptureMode_t mode = begin_as_others();
    CU_ASSERT_EQUAL(
        vendorHostRegister(own_memory + 1, 1, vendorHostRegisterPortable | vendorHostRegisterMapped),
        vendorSuccess);
    CU_ASSERT_EQUAL(ops->host_register(world.device, own_memory, SIZE_BYTES), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "is registered already"));
    CU_ASSERT_EQUAL(ops->host_unregister(world.device, own_memory), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    CU_ASSERT_EQUAL(vendorHostUnregister(own_memory + 1), vendorSuccess);
    end_as_others(mode);
    world_close(&world);
}

static void access_that_waits_for_work_is_asked_for_again(void)
{
    world_t world;
    begin_world(&world);
    CU_ASSERT_EQUAL(ops->pages_unmap(world.device, world.pages[0], world.addresses), DAO_OK);
    loopback_set(&(loopback_settings_t){.busy_allows = 3});
    CU_ASSERT_EQUAL(ops->pages_map(world.device, world.pages[0], world.addresses), DAO_OK);
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.addresses, 1, world.page_bytes), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world.stream),
                    DAO_OK); /* or the fill meets what is mapped next */
    CU_ASSERT_EQUAL(ops->pages_unmap(world.device, world.pages[0], world.addresses), DAO_OK);
    loopback_set(&(loopback_settings_t){.busy_allows = 1000}); /* a driver that never does */
    CU_ASSERT_EQUAL(ops->pages_map(world.device, world.pages[0], world.addresses), DAO_ERR_NOT_READY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "asked for 11 times"));
    loopback_set(&usual);
    CU_ASSERT_EQUAL(ops->pages_map(world.device, world.pages[0], world.addresses), DAO_OK);
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    world_close(&world);
}

/* ---- failures ---- */

static void work_failing(long call_count, failure_t failure)
{
    world_t world;
    _Atomic int ran_count = 0;
    loopback_set(&usual);
    loopback_fail(call_count, failure.error);
    dao_status_t status = world_open(&world);
    if (status == DAO_OK) {
        status = work(&world, &ran_count);
    }
    if (status == DAO_OK) {
        status = reach(&world);
    }
    check_answer(world.backend != NULL, status, failure);
    world_close(&world);
}

/* The same for the calls that give everything back. */
static void give_back_failing(long call_count, failure_t failure)
{
    world_t world;
    begin_world(&world);
    CU_ASSERT_EQUAL(ops->host_register(world.device, own_memory, SIZE_BYTES), DAO_OK);
    world.registered = own_memory;
    world_close_failing(&world, call_count, (int)failure.error);
}

static void whichever_call_fails_nothing_is_lost(void)
{
    CU_ASSERT_TRUE(fail_every_call_with_every_error(work_failing, give_back_failing) >= 100);
}

static void a_lost_device_answers_nothing_else_and_the_others_go_on(void)
{
    world_t world;
    begin_world(&world);
    loopback_fail(1, LOOPBACK_ILLEGAL_ADDRESS); /* the first call asks which device is current */
    void *address = NULL;
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.memory, 1, SIZE_BYTES), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world.stream), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(ops->memory_alloc(world.device, SIZE_BYTES, &address), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(ops->memory_alloc(world.peer, SIZE_BYTES, &address), DAO_OK);
    CU_ASSERT_EQUAL(ops->memory_free(world.peer, address, SIZE_BYTES), DAO_OK);
    world_close(&world);
    begin_world(&world); /* a new start of the driver has the device again */
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.memory, 1, SIZE_BYTES), DAO_OK);
    world_close(&world);
}

/* The driver says neither that work of a capture has ended nor when; a host function may not ask. */
static void an_event_that_nothing_is_known_of_has_not_ended(void)
{
    static const int answers[][3] = {/* an error, what it says of an event, and of work */
#ifdef vendorErrorNotPermitted
                                     {vendorErrorNotPermitted, DAO_ERR_REENTRANT, DAO_ERR_REENTRANT},
#endif
                                     {vendorErrorCapturedEvent, DAO_ERR_NOT_READY, DAO_ERR_BUSY},
                                     {vendorErrorStreamCaptureUnsupported, DAO_ERR_NOT_READY, DAO_ERR_BUSY}};
    world_t world;
    begin_world(&world);
    CU_ASSERT_EQUAL(ops->event_record(world.end, world.stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world.stream), DAO_OK);
    for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]); i++) {
        loopback_fail(1, answers[i][0]); /* the first call asks which device is current */
        CU_ASSERT_EQUAL((int)ops->event_query(world.end), answers[i][1]);
        loopback_fail(1, answers[i][0]);
        CU_ASSERT_EQUAL((int)ops->fill(world.stream, world.memory, 1, SIZE_BYTES), answers[i][2]);
        CU_ASSERT_EQUAL(ops->event_query(world.end), DAO_OK);
    }
    world_close(&world);
}

static void a_stream_is_destroyed_whatever_its_work_did(void)
{
    for (long n = 0; n < 4; n++) {
        world_t world;
        begin_world(&world);
        ops->stream_destroy(world.adopted);
        world.adopted = NULL;
        loopback_fail(n, LOOPBACK_ILLEGAL_ADDRESS);
        ops->stream_destroy(world.stream);
        world.stream = NULL;
        CU_ASSERT_TRUE(loopback_has_failed());
        CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
        world_close(&world);
    }
}

/* ---- what the driver sees ---- */

static void expect_breach(loopback_rule_t rule)
{
    CU_ASSERT_EQUAL(loopback_take_breaches(rule), 1);
    (void)vendorGetLastError();
}

static void call_the_driver(void *user)
{
    void *address = NULL;
    *(vendorError_t *)user = vendorMalloc(&address, 1);
}

static void wrong_objects_are_seen(const world_t *world)
{
    vendorStream_t stream = ops->stream_native(world->stream);
    vendorEvent_t event = NULL;
    CU_ASSERT_EQUAL(vendorStreamSynchronize(stream), vendorSuccess); /* with device 0 current, not relaxed */
    expect_breach(LOOPBACK_RULE_WRONG_DEVICE);
    expect_breach(LOOPBACK_RULE_CAPTURE);
    vendorStreamCaptureMode_t mode = begin_as_others();
    CU_ASSERT_EQUAL_FATAL(vendorEventCreateWithFlags(&event, vendorEventDefault), vendorSuccess);
    CU_ASSERT_EQUAL(vendorEventDestroy(event), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorEventDestroy(event), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    CU_ASSERT_NOT_EQUAL(vendorEventQuery((vendorEvent_t)(void *)stream), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    CU_ASSERT_NOT_EQUAL(vendorEventCreateWithFlags(&event, ~(unsigned)vendorEventDefault), vendorSuccess);
    expect_breach(LOOPBACK_RULE_BAD_FLAGS);
    CU_ASSERT_NOT_EQUAL(vendorFree((char *)world->peer_memory + 1), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    vendorError_t error = vendorSuccess;
    CU_ASSERT_EQUAL(ops->host_func(world->stream, call_the_driver, &error), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world->stream), DAO_OK);
    CU_ASSERT_NOT_EQUAL(error, vendorSuccess);
    expect_breach(LOOPBACK_RULE_IN_HOST_FUNCTION);
    end_as_others(mode);
}

static void wrong_ranges_are_seen(const world_t *world)
{
    unsigned char host[SIZE_BYTES];
    CU_ASSERT_EQUAL(ops->fill(world->stream, world->peer_memory, 1, SIZE_BYTES), DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_NOT_ALLOWED);
    CU_ASSERT_EQUAL(ops->fill(world->stream, host, 1, SIZE_BYTES), DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_BAD_RANGE);
    CU_ASSERT_EQUAL(ops->fill(world->stream, world->memory, 1, SIZE_BYTES + 1), DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_BAD_RANGE);
    CU_ASSERT_EQUAL(ops->copy(world->stream, DAO_COPY_KIND_H2D, host, world->pinned, SIZE_BYTES),
                    DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_BAD_RANGE);
    CU_ASSERT_EQUAL(ops->copy(world->stream, DAO_COPY_KIND_D2H, world->addresses, world->memory, SIZE_BYTES),
                    DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_BAD_RANGE);
}

static void wrong_mappings_are_seen(world_t *world)
{
    CU_ASSERT_EQUAL(ops->pages_destroy(world->device, world->pages[1]), DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_MAPPED);
    CU_ASSERT_EQUAL(ops->pages_map(world->device, world->pages[0], world->addresses), DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_MAPPED);
    CU_ASSERT_EQUAL(ops->address_release(world->device, world->addresses, PAGE_COUNT * world->page_bytes),
                    DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_MAPPED);
    CU_ASSERT_EQUAL(
        ops->pages_unmap(world->device, world->pages[2], (char *)world->addresses + world->page_bytes * 2),
        DAO_OK);
    CU_ASSERT_EQUAL(ops->fill(world->stream, (char *)world->addresses + world->page_bytes * 2 - 1, 1, 2),
                    DAO_ERR_BACKEND);
    expect_breach(LOOPBACK_RULE_BAD_RANGE);
    loopback_fail(3, LOOPBACK_INVALID_VALUE); /* mapped, but access is not allowed: and undone */
    CU_ASSERT_EQUAL(
        ops->pages_map(world->device, world->pages[2], (char *)world->addresses + world->page_bytes * 2),
        DAO_ERR_BACKEND);
    CU_ASSERT_TRUE(loopback_has_failed());
    CU_ASSERT_EQUAL(
        ops->pages_map(world->device, world->pages[2], (char *)world->addresses + world->page_bytes * 2),
        DAO_OK);
}

/* A forked stream that is waited for, and has more to do then, is not joined. */
static void work_behind_a_join_is_seen(const world_t *world, dao_backend_stream_t *second)
{
    for (int does_more = 0; does_more < 2; does_more++) {
        CU_ASSERT_TRUE(capture_begin(ops->stream_native(world->stream)));
        CU_ASSERT_EQUAL(ops->event_record(world->end, world->stream), DAO_OK);
        CU_ASSERT_EQUAL(ops->stream_wait_event(second, world->end), DAO_OK);
        CU_ASSERT_EQUAL(ops->fill(second, world->memory, 1, 1), DAO_OK);
        CU_ASSERT_EQUAL(ops->event_record(world->begin, second), DAO_OK);
        if (does_more) {
            CU_ASSERT_EQUAL(ops->fill(second, world->memory, 2, 1), DAO_OK);
        }
        CU_ASSERT_EQUAL(ops->stream_wait_event(world->stream, world->begin), DAO_OK);
        CU_ASSERT_EQUAL(capture_end(ops->stream_native(world->stream)), !does_more);
        CU_ASSERT_EQUAL(loopback_take_breaches(LOOPBACK_RULE_CAPTURED), does_more);
        (void)vendorGetLastError();
    }
}

static void what_ends_a_capture_is_seen(const world_t *world)
{
    dao_backend_stream_t *second = NULL;
    CU_ASSERT_EQUAL_FATAL(ops->stream_create(world->device, &second), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_record(world->begin, second), DAO_OK);
    CU_ASSERT_TRUE(capture_begin(ops->stream_native(world->stream)));
    CU_ASSERT_EQUAL(ops->event_record(world->end, world->stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->event_query(world->end), DAO_ERR_NOT_READY);
    expect_breach(LOOPBACK_RULE_CAPTURED);
    CU_ASSERT_EQUAL(ops->event_synchronize(world->end), DAO_ERR_BUSY);
    expect_breach(LOOPBACK_RULE_CAPTURED);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world->stream), DAO_ERR_BUSY);
    expect_breach(LOOPBACK_RULE_CAPTURED);
    CU_ASSERT_EQUAL(ops->device_synchronize(world->device), DAO_ERR_BUSY);
    expect_breach(LOOPBACK_RULE_CAPTURED);
    CU_ASSERT_EQUAL(ops->stream_wait_event(world->stream, world->begin), DAO_ERR_BACKEND); /* not of it */
    expect_breach(LOOPBACK_RULE_CAPTURED);
    uint64_t capture = 0;
    CU_ASSERT_EQUAL(ops->stream_capture(world->stream, &capture), DAO_OK);
    CU_ASSERT_EQUAL(capture,
                    DAO_CAPTURE_UNKNOWN); /* it has ended, and its stream waits for somebody to say so */
    CU_ASSERT_FALSE(capture_end(ops->stream_native(world->stream)));
    (void)vendorGetLastError();
    CU_ASSERT_EQUAL(ops->stream_capture(world->stream, &capture), DAO_OK);
    CU_ASSERT_EQUAL(capture, 0);
    CU_ASSERT_EQUAL(ops->event_query(world->end),
                    DAO_ERR_NOT_READY); /* it never will be, and harms nothing now */
    CU_ASSERT_TRUE(capture_begin(ops->stream_native(world->stream)));
    CU_ASSERT_EQUAL(ops->event_record(world->end, world->stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_wait_event(second, world->end), DAO_OK); /* drawn in, never waited for */
    CU_ASSERT_FALSE(capture_end(ops->stream_native(world->stream)));
    expect_breach(LOOPBACK_RULE_CAPTURED);
    work_behind_a_join_is_seen(world, second);
    ops->stream_destroy(second);
}

static void what_callers_do_wrong_is_seen(void)
{
    world_t world;
    begin_world(&world);
    loopback_tolerate(true);
    wrong_objects_are_seen(&world);
    wrong_ranges_are_seen(&world);
    wrong_mappings_are_seen(&world);
    what_ends_a_capture_is_seen(&world);
    world_close(&world);
    CU_ASSERT_NOT_EQUAL(vendorDeviceSynchronize(), vendorSuccess);
    expect_breach(LOOPBACK_RULE_NOT_OPEN);
    begin_world(&world);
    CU_ASSERT_NOT_EQUAL(vendorEventDestroy(NULL), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    world.pinned = NULL; /* forgotten */
    world_close(&world);
    expect_breach(LOOPBACK_RULE_LEFT);
    for (int rule = 0; rule < LOOPBACK_RULE_COUNT; rule++) {
        CU_ASSERT_EQUAL(loopback_take_breaches((loopback_rule_t)rule), 0);
    }
    loopback_tolerate(false);
}

static CU_TestInfo tests[] = {
    {"the table is whole", the_table_is_whole},
    {"a missing driver is said in words", a_missing_driver_is_said_in_words},
    {"more devices than the library handles are refused", more_devices_than_the_library_handles_are_refused},
    {"nine devices are nine", nine_devices_are_nine},
    {"all work is done with its device current", all_work_is_done_with_its_device_current},
    {"a device that is not used has no context", a_device_that_is_not_used_has_no_context},
    {"the host touches no memory of a device", the_host_touches_no_memory_of_a_device},
    {"a long name is cut", a_long_name_is_cut},
    {"memory that is refused names its kind", memory_that_is_refused_names_its_kind},
    {"a device that cannot be made current fails the call",
     a_device_that_cannot_be_made_current_fails_the_call},
    {"an event is late, finished, or without a record", an_event_is_late_finished_or_without_a_record},
    {"devices that cannot reach each other say so", devices_that_cannot_reach_each_other_say_so},
    {"access to a run of pages is allowed by one call", access_to_a_run_of_pages_is_allowed_by_one_call},
    {"a run of pages is unmapped by one call", a_run_of_pages_is_unmapped_by_one_call},
    {"access that waits for work is asked for again", access_that_waits_for_work_is_asked_for_again},
    {"pages that stay mapped stay within reach", pages_that_stay_mapped_stay_within_reach},
    {"host memory that others have registered is left to them",
     host_memory_that_others_have_registered_is_left_to_them},
    {"whichever call fails, nothing is lost", whichever_call_fails_nothing_is_lost},
    {"a lost device answers nothing else, and the others go on",
     a_lost_device_answers_nothing_else_and_the_others_go_on},
    {"an event that nothing is known of has not ended", an_event_that_nothing_is_known_of_has_not_ended},
    {"a stream is destroyed whatever its work did", a_stream_is_destroyed_whatever_its_work_did},
    {"what callers do wrong is seen", what_callers_do_wrong_is_seen},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo last_tests[] = {
    {"every call has failed with every error", every_call_has_failed_with_every_error},
    CU_TEST_INFO_NULL,
};

static int be_the_vendor(void)
{
    loopback_set(&usual);
    backend_contract_set(ops, &config);
    return 0;
}

int main(void)
{
    ops = loopback_ops();
    (void)setenv("DAO_MAP_PAGES", "1",
                 1); /* whichever call fails: those of the try are in test_vendor_pages */
    CU_SuiteInfo suites[] = {
        {"vendor", NULL, NULL, NULL, NULL, tests},
        {"contract: " VENDOR_BACKEND_NAME, be_the_vendor, NULL, backend_contract_begin, backend_contract_end,
         backend_contract_tests},
        {"contract: " VENDOR_BACKEND_NAME ", pages", be_the_vendor, NULL, backend_contract_begin,
         backend_contract_end, backend_contract_pages_tests},
        {"vendor, at last", NULL, NULL, NULL, NULL, last_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
