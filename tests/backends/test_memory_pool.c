/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the driver's pools, on the loopback driver: call by call, whichever fails, and as a place takes
   its segments. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include DAO_VENDOR_NAMES

#include "base/report/error.h"
#include "tests/loopback/failures.h"

#include <dao/dao.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES   (3 * MIB)
#define DEVICE_BYTES (64 * MIB)

static const dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = DEVICE_BYTES}};
static const loopback_settings_t usual = {.has_no_pools = false};
static const dao_place_t device_1 = {DAO_PLACE_KIND_DEVICE, 1};
static const dao_backend_ops_t *ops;

/* Everything that a scenario takes, NULL where it did not come to it. The thread's device is 0, the pool is
   on 1. */
typedef struct world {
    dao_backend_t *backend;
    dao_backend_device_t *device;
    dao_backend_device_t *peer; /* device 0 */
    dao_backend_stream_t *stream;
    dao_backend_stream_t *peer_stream;
    dao_backend_pool_t *pool;
    void *memory;
} world_t;

static dao_status_t world_open(world_t *world)
{
    *world = (world_t){0};
    dao_device_info_t info = {0};
    dao_status_t status = ops->open(&config, &world->backend);
    status = status != DAO_OK ? status : ops->device_open(world->backend, 1, &world->device);
    status = status != DAO_OK ? status : ops->device_open(world->backend, 0, &world->peer);
    status = status != DAO_OK ? status : ops->device_query(world->device, &info);
    status = status != DAO_OK ? status : ops->stream_create(world->device, &world->stream);
    status = status != DAO_OK ? status : ops->stream_create(world->peer, &world->peer_stream);
    if (status != DAO_OK || !info.memory_pools) {
        return status;
    }
    status = ops->pool_create(world->device, &world->pool);
    status =
        status != DAO_OK ? status : ops->pool_alloc(world->device, world->pool, SIZE_BYTES, &world->memory);
    status = status != DAO_OK ? status : ops->peer_enable(world->peer, world->device);
    status = status != DAO_OK ? status : ops->fill(world->stream, world->memory, 1, SIZE_BYTES);
    return status != DAO_OK ? status : ops->stream_synchronize(world->stream);
}

/* Lets so many calls succeed, then one fail. */
static void world_close_failing(world_t *world, long calls, int error)
{
    loopback_fail(-1, 0);
    if (world->stream != NULL) {
        (void)ops->stream_synchronize(world->stream); /* that of a lost device went with it */
    }
    loopback_fail(calls, error);
    if (world->memory != NULL) {
        GIVE_BACK(ops->pool_free(world->device, world->pool, world->memory));
    }
    if (world->pool != NULL) {
        ops->pool_destroy(world->device, world->pool);
    }
    if (world->peer_stream != NULL) {
        ops->stream_destroy(world->peer_stream);
    }
    if (world->stream != NULL) {
        ops->stream_destroy(world->stream);
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

/* ---- failures ---- */

static void work_failing(long call_count, failure_t failure)
{
    world_t world;
    loopback_set(&usual);
    loopback_fail(call_count, failure.error);
    dao_status_t status = world_open(&world);
    check_answer(world.backend != NULL, status, failure);
    CU_ASSERT_TRUE(loopback_has_failed() || world.memory != NULL);
    world_close(&world);
}

/* The same for the calls that give everything back. */
static void give_back_failing(long call_count, failure_t failure)
{
    world_t world;
    begin_world(&world);
    world_close_failing(&world, call_count, (int)failure.error);
}

static void whichever_call_fails_nothing_is_lost(void)
{
    CU_ASSERT_TRUE(fail_every_call_with_every_error(work_failing, give_back_failing) >= 100);
}

/* ---- pools ---- */

static void peers_reach_pools_made_before_and_after(void)
{
    world_t world;
    dao_backend_pool_t *late = NULL;
    void *address = NULL;
    begin_world(&world); /* the peer is let in there */
    CU_ASSERT_EQUAL_FATAL(ops->pool_create(world.device, &late), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(ops->pool_alloc(world.device, late, SIZE_BYTES, &address), DAO_OK);
    CU_ASSERT_EQUAL(ops->fill(world.peer_stream, world.memory, 2, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(ops->fill(world.peer_stream, address, 2, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(ops->stream_synchronize(world.peer_stream), DAO_OK);
    CU_ASSERT_EQUAL(ops->pool_free(world.device, late, address), DAO_OK);
    ops->pool_destroy(world.device, late);
    world_close(&world);
}

static void a_pool_that_is_full_says_so(void)
{
    world_t world;
    void *address = NULL;
    begin_world(&world);
    CU_ASSERT_EQUAL(ops->pool_alloc(world.device, world.pool, 2 * DEVICE_BYTES, &address),
                    DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_PTR_NULL(address);
    CU_ASSERT_EQUAL(loopback_pool_bytes(), SIZE_BYTES);
    world_close(&world);
}

static void expect_breach(loopback_rule_t rule)
{
    CU_ASSERT_EQUAL(loopback_take_breaches(rule), 1);
    (void)vendorGetLastError();
}

static void what_callers_do_wrong_is_seen(void)
{
    world_t world;
    void *plain = NULL;
    vendorMemPool_t pool = NULL;
    begin_world(&world);
    loopback_tolerate(true);
    vendorStream_t peer_stream = ops->stream_native(world.peer_stream);
    vendorMemPoolProps_t properties = {.allocType = vendorMemAllocationTypePinned,
                                       .location = {.type = vendorMemLocationTypeDevice, .id = 1}};
    CU_ASSERT_EQUAL(vendorSetDevice(1), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorFree(world.memory), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    CU_ASSERT_EQUAL(vendorMalloc(&plain, SIZE_BYTES), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorFreeAsync(plain, ops->stream_native(world.stream)), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    CU_ASSERT_EQUAL(vendorFree(plain), vendorSuccess);
    CU_ASSERT_EQUAL_FATAL(vendorMemPoolCreate(&pool, &properties), vendorSuccess);
    CU_ASSERT_EQUAL(vendorSetDevice(0), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorMallocFromPoolAsync(&plain, SIZE_BYTES, pool, peer_stream), vendorSuccess);
    expect_breach(LOOPBACK_RULE_POOLED);
    CU_ASSERT_EQUAL(vendorSetDevice(1), vendorSuccess);
    CU_ASSERT_EQUAL(vendorMallocFromPoolAsync(&plain, SIZE_BYTES, pool, ops->stream_native(world.stream)),
                    vendorSuccess);
    CU_ASSERT_EQUAL(vendorSetDevice(0), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(ops->fill(world.peer_stream, plain, 1, SIZE_BYTES), DAO_OK); /* not let in */
    expect_breach(LOOPBACK_RULE_NOT_ALLOWED);
    CU_ASSERT_EQUAL(vendorSetDevice(1), vendorSuccess);
    CU_ASSERT_NOT_EQUAL(vendorMemPoolDestroy(pool), vendorSuccess);
    expect_breach(LOOPBACK_RULE_POOLED);
    CU_ASSERT_NOT_EQUAL(vendorMemPoolDestroy(pool), vendorSuccess);
    expect_breach(LOOPBACK_RULE_UNKNOWN);
    CU_ASSERT_EQUAL(vendorFreeAsync(plain, ops->stream_native(world.stream)), vendorSuccess);
    CU_ASSERT_EQUAL(vendorSetDevice(0), vendorSuccess);
    loopback_tolerate(false);
    world_close(&world);
}

/* ---- places ---- */

static void start_place(const loopback_settings_t *settings, dao_strategy_t strategy)
{
    dao_place_config_t place = {.strategy = strategy, .memory_pool = true};
    loopback_set(settings);
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_place_configure(device_1, &place), DAO_OK);
}

static uint64_t reserved_bytes(void)
{
    dao_stats_t stats = {0};
    CU_ASSERT_EQUAL(dao_stats_get(device_1, &stats), DAO_OK);
    return stats.reserved_bytes;
}

static void note_bytes(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                       void *user)
{
    uint64_t *bytes = user;
    (void)place;
    (void)address;
    *bytes += event == DAO_SEGMENT_EVENT_OBTAINED ? size_bytes : 0 - size_bytes;
}

static void a_place_takes_its_memory_from_a_pool(dao_strategy_t strategy)
{
    dao_device_info_t info;
    uint64_t told_bytes = 0;
    uint64_t id;
    start_place(&usual, strategy);
    CU_ASSERT_EQUAL(dao_segment_callback_add(device_1, note_bytes, &told_bytes, &id), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_query(1, &info), DAO_OK);
    CU_ASSERT_TRUE(info.memory_pools);
    void *block = dao_alloc(device_1, SIZE_BYTES);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_TRUE(loopback_pool_bytes() >= SIZE_BYTES);
    CU_ASSERT_EQUAL(loopback_pool_bytes(), reserved_bytes());
    CU_ASSERT_EQUAL(loopback_pool_bytes(), told_bytes);
    CU_ASSERT_EQUAL(dao_free(device_1, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_trim(device_1, 0, NULL), DAO_OK);
    CU_ASSERT_EQUAL(loopback_pool_bytes(), 0);
    CU_ASSERT_EQUAL(told_bytes, 0);
    CU_ASSERT_PTR_NULL(dao_alloc(device_1, 2 * DEVICE_BYTES));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void segments_and_blocks_come_from_the_pool(void)
{
    a_place_takes_its_memory_from_a_pool(DAO_STRATEGY_GOOD_FIT);
    a_place_takes_its_memory_from_a_pool(DAO_STRATEGY_BEST_FIT);
    a_place_takes_its_memory_from_a_pool(DAO_STRATEGY_BINARY_BUDDY);
    a_place_takes_its_memory_from_a_pool(DAO_STRATEGY_SIZE_CLASS);
    a_place_takes_its_memory_from_a_pool(DAO_STRATEGY_SYSTEM);
}

static void without_pools_it_is_as_if_nothing_had_been_said(void)
{
    dao_device_info_t info;
    start_place(&(loopback_settings_t){.has_no_pools = true}, DAO_STRATEGY_GOOD_FIT);
    CU_ASSERT_EQUAL(dao_device_query(1, &info), DAO_OK);
    CU_ASSERT_FALSE(info.memory_pools);
    void *block = dao_alloc(device_1, SIZE_BYTES);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(loopback_pool_bytes(), 0);
    CU_ASSERT_EQUAL(reserved_bytes() % info.page_bytes, 0);
    CU_ASSERT_EQUAL(dao_free(device_1, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void other_places_have_no_pool(void)
{
    dao_place_config_t place = {.memory_pool = true};
    loopback_set(&usual);
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_place_configure(((dao_place_t){DAO_PLACE_KIND_CPU, 0}), &place), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "memory_pool"));
    CU_ASSERT_EQUAL(dao_place_configure(((dao_place_t){DAO_PLACE_KIND_PINNED, 1}), &place), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* The start of the device, a segment, and its end: whichever call is refused, the next try has it all. */
static void a_place_survives_whichever_call_is_refused(void)
{
    bool has_failed = true;
    for (long n = 0; has_failed; n++) {
        start_place(&usual, DAO_STRATEGY_GOOD_FIT);
        loopback_fail(n, vendorErrorMemoryAllocation);
        void *block = dao_alloc(device_1, SIZE_BYTES);
        has_failed = loopback_has_failed();
        loopback_fail(-1, 0);
        block = block != NULL ? block : dao_alloc(device_1, SIZE_BYTES);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(loopback_pool_bytes(), reserved_bytes());
        CU_ASSERT_EQUAL(dao_free(device_1, block), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"whichever call fails, nothing is lost", whichever_call_fails_nothing_is_lost},
    {"peers reach pools made before and after", peers_reach_pools_made_before_and_after},
    {"a pool that is full says so", a_pool_that_is_full_says_so},
    {"every call has failed with every error", every_call_has_failed_with_every_error},
    {"what callers do wrong is seen", what_callers_do_wrong_is_seen},
    CU_TEST_INFO_NULL,
};
static CU_TestInfo place_tests[] = {
    {"segments and blocks come from the pool", segments_and_blocks_come_from_the_pool},
    {"without pools it is as if nothing had been said", without_pools_it_is_as_if_nothing_had_been_said},
    {"other places have no pool", other_places_have_no_pool},
    {"a place survives whichever call is refused", a_place_survives_whichever_call_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    ops = loopback_ops();
    (void)setenv("DAO_MAP_PAGES", "1",
                 1); /* whichever call fails: those of the try are in test_vendor_pages */
    CU_SuiteInfo suites[] = {{"pools of the driver", NULL, NULL, NULL, NULL, tests},
                             {"places over them", NULL, NULL, NULL, NULL, place_tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
