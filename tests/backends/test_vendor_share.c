/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of several processes as cuda and hip have it, call by call, on the loopback driver: whichever call
   fails, nothing is lost; and the driver sees what callers do wrong. What goes from one process to another is
   in test_share.c. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include DAO_VENDOR_NAMES

#include "base/memory/shared.h"
#include "base/report/error.h"
#include "tests/loopback/failures.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SIZE_BYTES (3 * MIB + 1)

static const dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
static const dao_backend_ops_t *ops;
static loopback_settings_t settings; /* of the suite: pages or plain allocations */

/* Everything that a scenario takes, NULL where it did not come to it. The thread's device is 0, the work is
   on 1. */
typedef struct world {
    dao_backend_t *backend;
    dao_backend_device_t *device;
    dao_backend_stream_t *stream;
    dao_backend_shared_t *shared;
    void *address;
    dao_backend_share_t share;
    dao_backend_shared_t *imported; /* of pages: a driver lets a process have its own once more */
    void *imported_address;
} world_t;

static dao_status_t world_open(world_t *world)
{
    *world = (world_t){.share = {.descriptor = DAO_NO_DESCRIPTOR}};
    dao_status_t status = ops->open(&config, &world->backend);
    status = status != DAO_OK ? status : ops->device_open(world->backend, 1, &world->device);
    status = status != DAO_OK ? status : ops->stream_create(world->device, &world->stream);
    status = status != DAO_OK
                 ? status
                 : ops->shared_create(world->device, SIZE_BYTES, &world->shared, &world->address);
    status = status != DAO_OK ? status : ops->shared_export(world->device, world->shared, &world->share);
    return status != DAO_OK ? status : ops->fill(world->stream, world->address, 1, SIZE_BYTES);
}

static dao_status_t world_import(world_t *world)
{
    return ops->shared_import(world->device, &world->share, SIZE_BYTES, &world->imported,
                              &world->imported_address);
}

static void world_close_failing(world_t *world, long calls, int error)
{
    loopback_fail(-1, 0);
    if (world->stream != NULL) {
        (void)ops->stream_synchronize(world->stream); /* that of a lost device went with it */
    }
    loopback_fail(calls, error);
    dao_descriptor_close(world->share.descriptor);
    if (world->imported != NULL) {
        GIVE_BACK(ops->shared_destroy(world->device, world->imported));
    }
    if (world->shared != NULL) {
        GIVE_BACK(ops->shared_destroy(world->device, world->shared));
    }
    if (world->stream != NULL) {
        ops->stream_destroy(world->stream);
    }
    if (world->device != NULL) {
        ops->device_close(world->device);
    }
    CU_ASSERT_EQUAL(loopback_last_error(), vendorSuccess);
    if (world->backend != NULL) {
        ops->close(world->backend); /* here the driver sees what is left */
    }
    CU_ASSERT_EQUAL(loopback_current_device(), 0);
}

static void world_close(world_t *world)
{
    world_close_failing(world, -1, 0);
}

static void begin_world(world_t *world)
{
    loopback_set(&settings);
    CU_ASSERT_EQUAL_FATAL(world_open(world), DAO_OK);
}

/* ---- failures ---- */

/* As check_answer(); an import may say instead that there is nothing of that kind to import. */
static void check_share_answer(const world_t *world, dao_status_t status, failure_t failure)
{
    if (failure.status == DAO_ERR_BACKEND && status == DAO_ERR_INVALID) {
        failure.status = DAO_ERR_INVALID;
    }
    check_answer(world->backend != NULL, status, failure);
}

static void work_failing(long call_count, failure_t failure)
{
    world_t world;
    loopback_set(&settings);
    loopback_fail(call_count, failure.error);
    dao_status_t status = world_open(&world);
    if (status == DAO_OK && world.share.descriptor != DAO_NO_DESCRIPTOR) {
        status = world_import(&world);
    }
    check_share_answer(&world, status, failure);
    world_close(&world);
}

/* The same for the calls that give everything back. */
static void give_back_failing(long call_count, failure_t failure)
{
    world_t world;
    begin_world(&world);
    world_close_failing(&world, call_count, (int)failure.error);
}

/* A plain import fails at the driver's door: behind it there is another process. */
static void fail_import(failure_t failure)
{
    for (long n = 0; n < 2; n++) {
        world_t world;
        begin_world(&world);
        world.share.descriptor = DAO_NO_DESCRIPTOR;
        loopback_fail(n, failure.error);
        dao_status_t status = world_import(&world);
        CU_ASSERT_TRUE(loopback_has_failed() && status != DAO_OK);
        check_share_answer(&world, status, failure);
        CU_ASSERT_PTR_NULL(world.imported);
        world_close(&world);
    }
}

static void whichever_call_fails_nothing_is_lost(void)
{
    CU_ASSERT_TRUE(fail_every_call_with_every_error(work_failing, give_back_failing) >= 100);
    for (size_t i = 0; i < FAILURE_COUNT && settings.is_unshareable; i++) {
        fail_import(failures[i]);
    }
}

/* ---- sizes ---- */

static void a_size_is_rounded_up_and_the_wrong_one_is_refused(void)
{
    world_t world;
    begin_world(&world);
    CU_ASSERT_EQUAL(ops->fill(world.stream, world.address, 7, 4 * MIB), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world.stream), DAO_OK);
    dao_backend_shared_t *none = NULL;
    void *address = NULL;
    CU_ASSERT_EQUAL(ops->shared_create(world.device, SIZE_MAX, &none, &address), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(ops->shared_create(world.device, SIZE_MAX / 2, &none, &address),
                    DAO_ERR_NO_DEVICE_MEMORY);
    if (!settings.is_unshareable) {
        CU_ASSERT_EQUAL(ops->shared_import(world.device, &world.share, 4 * MIB + 1, &none, &address),
                        DAO_ERR_INVALID);
        dao_backend_share_t larger = world.share;
        size_t mapped_bytes = 6 * MIB;
        memcpy(larger.bytes, &mapped_bytes, sizeof(mapped_bytes));
        loopback_tolerate(true);
        CU_ASSERT_EQUAL(ops->shared_import(world.device, &larger, SIZE_BYTES, &none, &address),
                        DAO_ERR_BACKEND);
        CU_ASSERT_EQUAL(loopback_take_breaches(LOOPBACK_RULE_BAD_RANGE), 1);
        loopback_tolerate(false);
        mapped_bytes++;
        memcpy(larger.bytes, &mapped_bytes, sizeof(mapped_bytes));
        CU_ASSERT_EQUAL(ops->shared_import(world.device, &larger, SIZE_BYTES, &none, &address),
                        DAO_ERR_UNSUPPORTED);
    }
    CU_ASSERT_PTR_NULL(none);
    CU_ASSERT_PTR_NULL(address);
    world_close(&world);
}

/* ---- what the driver sees ---- */

static bool has_seen(loopback_rule_t rule)
{
    (void)vendorGetLastError();
    return loopback_take_breaches(rule) == 1;
}

static void wrong_calls_in_one_process_are_seen(void)
{
    world_t world;
    vendorIpcMemHandle_t handle;
    void *address = NULL;
    begin_world(&world);
    loopback_tolerate(true);
    CU_ASSERT_EQUAL(vendorSetDevice(1), vendorSuccess);
    void *plain = NULL;
    CU_ASSERT_EQUAL(vendorMalloc(&plain, SIZE_BYTES), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorIpcGetMemHandle(&handle, (char *)plain + 1), vendorSuccess);
    CU_ASSERT_TRUE(has_seen(LOOPBACK_RULE_UNKNOWN));
    CU_ASSERT_EQUAL(vendorIpcGetMemHandle(&handle, plain), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorIpcOpenMemHandle(&address, handle, vendorIpcMemLazyEnablePeerAccess),
                        vendorSuccess);
    CU_ASSERT_TRUE(has_seen(LOOPBACK_RULE_OWN_SHARE));
    CU_ASSERT_NOT_EQUAL(vendorIpcOpenMemHandle(&address, handle, 77), vendorSuccess);
    CU_ASSERT_TRUE(has_seen(LOOPBACK_RULE_BAD_FLAGS));
    CU_ASSERT_NOT_EQUAL(vendorIpcCloseMemHandle(plain), vendorSuccess);
    CU_ASSERT_TRUE(has_seen(LOOPBACK_RULE_UNKNOWN));
    CU_ASSERT_EQUAL(vendorFree(plain), vendorSuccess);
    CU_ASSERT_EQUAL(vendorSetDevice(0), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorIpcGetMemHandle(&handle, plain), vendorSuccess);
    CU_ASSERT_TRUE(has_seen(LOOPBACK_RULE_UNKNOWN));
    loopback_tolerate(false);
    CU_ASSERT_PTR_NULL(address);
    world_close(&world);
}

#define HOLDS(condition)                                                                                     \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            (void)fprintf(stderr, "%s:%d: process %d: %s\n", __FILE__, __LINE__, (int)getpid(), #condition); \
            return false;                                                                                    \
        }                                                                                                    \
    } while (0)

static bool say(int socket, const void *bytes, size_t size_bytes)
{
    return send(socket, bytes, size_bytes, MSG_NOSIGNAL) == (ssize_t)size_bytes;
}

static bool hear(int socket, void *bytes, size_t size_bytes)
{
    return recv(socket, bytes, size_bytes, MSG_WAITALL) == (ssize_t)size_bytes;
}

/* The other process: opens memory, frees it where it is to be closed, and closes it twice. */
static bool open_and_misuse(int socket)
{
    world_t world;
    vendorIpcMemHandle_t handle;
    void *address = NULL;
    HOLDS(hear(socket, &handle, sizeof(handle)));
    begin_world(&world);
    loopback_tolerate(true);
    HOLDS(vendorSetDevice(1) == vendorSuccess);
    HOLDS(vendorIpcOpenMemHandle(&address, handle, vendorIpcMemLazyEnablePeerAccess) == vendorSuccess);
    HOLDS(vendorFree(address) != vendorSuccess && has_seen(LOOPBACK_RULE_SHARED));
    HOLDS(vendorIpcGetMemHandle(&handle, address) != vendorSuccess && has_seen(LOOPBACK_RULE_UNKNOWN));
    HOLDS(say(socket, "o", 1));
    HOLDS(hear(socket, &handle, 1)); /* it was freed there */
    HOLDS(vendorSetDevice(0) == vendorSuccess);
    HOLDS(vendorIpcCloseMemHandle(address) != vendorSuccess && has_seen(LOOPBACK_RULE_WRONG_DEVICE));
    HOLDS(vendorSetDevice(1) == vendorSuccess);
    HOLDS(vendorIpcCloseMemHandle(address) == vendorSuccess);
    HOLDS(vendorIpcCloseMemHandle(address) != vendorSuccess && has_seen(LOOPBACK_RULE_UNKNOWN));
    HOLDS(vendorSetDevice(0) == vendorSuccess);
    world_close(&world);
    return true;
}

static bool free_what_is_open(int socket)
{
    world_t world;
    vendorIpcMemHandle_t handle;
    void *plain = NULL;
    char byte;
    begin_world(&world);
    loopback_tolerate(true);
    HOLDS(vendorSetDevice(1) == vendorSuccess);
    HOLDS(vendorMalloc(&plain, SIZE_BYTES) == vendorSuccess);
    HOLDS(vendorIpcGetMemHandle(&handle, plain) == vendorSuccess);
    HOLDS(say(socket, &handle, sizeof(handle)));
    HOLDS(hear(socket, &byte, 1));
    HOLDS(vendorFree(plain) == vendorSuccess && has_seen(LOOPBACK_RULE_SHARED));
    HOLDS(vendorSetDevice(0) == vendorSuccess);
    HOLDS(say(socket, "f", 1));
    loopback_tolerate(false);
    world_close(&world);
    return true;
}

/* The process that has the memory, as long as the other one wants it. */
static bool export_and_wait(int socket)
{
    world_t world;
    char byte;
    begin_world(&world);
    HOLDS(say(socket, world.share.bytes, sizeof(world.share.bytes)));
    HOLDS(hear(socket, &byte, 1));
    world_close(&world);
    return true;
}

/* What the other process says of its memory's size is not believed, and an import that fails behind the
   driver's door closes what it has opened. */
static bool refuse_to_import(const dao_backend_share_t *share)
{
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        bool has_failed = true;
        for (long n = 0; has_failed; n++) {
            world_t world;
            begin_world(&world);
            dao_descriptor_close(world.share.descriptor);
            world.share = *share;
            loopback_fail(n, failures[i].error);
            dao_status_t status = world_import(&world);
            has_failed = loopback_has_failed();
            HOLDS((status == DAO_OK) == !has_failed && (world.imported == NULL) == has_failed);
            loopback_fail(-1, 0);
            world_close(&world);
        }
    }
    world_t world;
    begin_world(&world);
    HOLDS(ops->shared_import(world.device, share, 64 * MIB, &world.imported, &world.imported_address) ==
          DAO_ERR_INVALID);
    HOLDS(strstr(dao_last_message(), "claims more than") != NULL && world.imported == NULL);
    world_close(&world);
    return true;
}

/* A close that fails is made again, whatever the error. */
static bool import_and_fail_to_close(int socket)
{
    dao_backend_share_t share = {.descriptor = DAO_NO_DESCRIPTOR};
    HOLDS(hear(socket, share.bytes, sizeof(share.bytes)));
    HOLDS(refuse_to_import(&share));
    for (size_t i = 0; i < FAILURE_COUNT; i++) {
        world_t world;
        begin_world(&world);
        world.share = share;
        HOLDS(world_import(&world) == DAO_OK);
        HOLDS(ops->fill(world.stream, world.imported_address, 2, SIZE_BYTES) == DAO_OK);
        HOLDS(ops->stream_synchronize(world.stream) == DAO_OK);
        world_close_failing(&world, 1, (int)failures[i].error); /* first it asks for the current device */
        HOLDS(loopback_has_failed());
    }
    HOLDS(say(socket, "q", 1));
    return true;
}

static void run_both(bool (*here)(int socket), bool (*there)(int socket))
{
    int sockets[2];
    int status = -1;
    CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    pid_t child = fork(); /* the driver is closed, and has no threads */
    CU_ASSERT_TRUE_FATAL(child >= 0);
    if (child == 0) {
        (void)close(sockets[0]);
        _exit(there(sockets[1]) ? 0 : 1);
    }
    (void)close(sockets[1]);
    CU_ASSERT_TRUE(here(sockets[0]));
    (void)close(sockets[0]);
    CU_ASSERT_EQUAL(waitpid(child, &status, 0), child);
    CU_ASSERT_EQUAL(status, 0);
}

static void wrong_calls_of_two_processes_are_seen(void)
{
    run_both(free_what_is_open, open_and_misuse);
}

static void another_process_s_memory_is_closed_whatever_fails(void)
{
    if (settings.is_unshareable) {
        run_both(import_and_fail_to_close, export_and_wait);
    }
}

static CU_TestInfo tests[] = {
    {"whichever call fails, nothing is lost", whichever_call_fails_nothing_is_lost},
    {"a size is rounded up, and the wrong one is refused", a_size_is_rounded_up_and_the_wrong_one_is_refused},
    {"another process's memory is closed, whatever fails", another_process_s_memory_is_closed_whatever_fails},
    CU_TEST_INFO_NULL,
};
static CU_TestInfo driver_tests[] = {
    {"wrong calls in one process are seen", wrong_calls_in_one_process_are_seen},
    {"wrong calls of two processes are seen", wrong_calls_of_two_processes_are_seen},
    CU_TEST_INFO_NULL,
};
static CU_TestInfo last_tests[] = {
    {"every call has failed with every error", every_call_has_failed_with_every_error},
    CU_TEST_INFO_NULL,
};

static int share_pages(void)
{
    settings = (loopback_settings_t){.is_unshareable = false};
    return 0;
}

static int share_plain_memory(void)
{
    settings = (loopback_settings_t){.is_unshareable = true};
    return 0;
}

int main(void)
{
    ops = loopback_ops();
    (void)setenv("DAO_MAP_PAGES", "1",
                 1); /* whichever call fails: those of the try are in test_vendor_pages */
    CU_SuiteInfo suites[] = {
        {"pages of several processes", share_pages, NULL, NULL, NULL, tests},
        {"plain memory of several processes", share_plain_memory, NULL, NULL, NULL, tests},
        {"what the driver sees", share_pages, NULL, NULL, NULL, driver_tests},
        {"at last", NULL, NULL, NULL, NULL, last_tests},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
