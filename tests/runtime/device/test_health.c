/* SPDX-License-Identifier: Apache-2.0 */
/* A device that is lost, on the loopback driver: what needs it is refused without asking the driver again,
   frees are done, everything else goes on, and a new start has the device again. */
#include "allocators/slow_path.h"
#include "base/report/error.h"
#include "tests/loopback/loopback.h"
#include "tests/support/suite.h"

#include <dao/async.h>
#include <dao/dao.h>
#include <dao/stream.h>

#include <string.h>

#define SIZE_BYTES (1 * MIB)

/* What is there when device 1 is lost: blocks, a handle, a free that waits, a stream, an event. */
typedef struct world {
    void *small;
    void *large;
    void *ordered;
    void *elsewhere; /* at device 0 */
    void *pinned;
    dao_memory_t *handle;
    dao_memory_t *shared; /* of several processes */
    dao_stream_t *stream;
    dao_event_t *event;
} world_t;

static const dao_device_place_t lost = {1};
static const dao_device_place_t other = {0};

static void begin(world_t *world)
{
    static const loopback_settings_t usual = {.device_count = 0};
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    loopback_set(&usual);
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    *world = (world_t){.small = dao_alloc(lost, 100),
                       .large = dao_alloc(lost, SIZE_BYTES),
                       .elsewhere = dao_alloc(other, SIZE_BYTES),
                       .pinned = dao_alloc(dao_pinned_place(1), SIZE_BYTES)};
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(1, &world->stream), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_event_create(1, &world->event), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create(dao_place_of(lost), SIZE_BYTES, NULL, &world->handle), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_memory_create_shared(dao_place_of(lost), SIZE_BYTES, &world->shared), DAO_OK);
    world->ordered = dao_alloc_async(lost, SIZE_BYTES, world->stream);
    CU_ASSERT_TRUE_FATAL(world->small != NULL && world->large != NULL && world->ordered != NULL &&
                         world->elsewhere != NULL && world->pinned != NULL);
    CU_ASSERT_EQUAL(dao_device_health(1), DAO_OK);
}

/* The driver's calls are: which device is current, and the fill. */
static void lose(const world_t *world)
{
    loopback_fail(1, LOOPBACK_ILLEGAL_ADDRESS);
    CU_ASSERT_EQUAL(dao_stream_fill(world->stream, world->large, 0, SIZE_BYTES), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_TRUE(loopback_has_failed());
}

/* The world's own are given back: all frees succeed. */
static void end(const world_t *world)
{
    CU_ASSERT_EQUAL(dao_free(lost, world->small), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(lost, world->large), DAO_OK);
    CU_ASSERT_EQUAL(dao_free_async(lost, world->ordered, world->stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(other, world->elsewhere), DAO_OK);
    CU_ASSERT_EQUAL(dao_free(dao_pinned_place(1), world->pinned), DAO_OK);
    dao_memory_release(world->handle);
    dao_memory_release(world->shared);
    dao_event_destroy(world->event);
    dao_stream_destroy(world->stream);
    dao_status_t status = dao_device_synchronize(1); /* where it works the handle's memory waits for it */
    CU_ASSERT_EQUAL(status, dao_device_health(1));
    CU_ASSERT_EQUAL(dao_used(lost), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_FALSE(dao_slow_path_is_needed());
}

static void is_refused(dao_status_t status)
{
    CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), LOOPBACK_ILLEGAL_ADDRESS);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:1"));
}

static dao_stream_t *stream_of(dao_device_place_t device)
{
    dao_stream_t *stream = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_stream_get(device.index, DAO_STREAM_ROLE_COMPUTE, &stream), DAO_OK);
    return stream;
}

static void what_needs_the_device_is_refused_and_the_driver_not_asked(void)
{
    static unsigned char own_memory[2];
    world_t world;
    begin(&world);
    CU_ASSERT_EQUAL(dao_host_register(1, own_memory, 1), DAO_OK);
    lose(&world);
    uint64_t calls = loopback_call_count();
    void *address = NULL;
    dao_peer_info_t peer;
    dao_share_t share;
    dao_memory_t *memory = NULL;
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    dao_device_info_t info;
    is_refused(dao_device_health(1));
    is_refused(dao_memory_create_shared(dao_place_of(lost), 1, &memory));
    is_refused(dao_memory_export(world.shared, &share));
    CU_ASSERT_PTR_NULL(dao_alloc(lost, 100));
    is_refused(dao_last_status());
    CU_ASSERT_PTR_NULL(dao_alloc(lost, SIZE_BYTES));
    is_refused(dao_last_status());
    CU_ASSERT_PTR_NULL(dao_alloc_async(lost, SIZE_BYTES, world.stream));
    is_refused(dao_last_status());
    is_refused(dao_memory_create(dao_place_of(lost), SIZE_BYTES, NULL, &memory));
    is_refused(dao_trim(dao_place_of(lost), 0, NULL));
    is_refused(dao_device_query(1, &info));
    is_refused(dao_stream_fill(world.stream, world.large, 0, 1));
    is_refused(dao_stream_copy(world.stream, dao_place_of(lost), world.large,
                               dao_place_of(dao_pinned_place(1)), world.pinned, 1));
    is_refused(dao_stream_synchronize(world.stream));
    is_refused(dao_event_record(world.event, world.stream));
    is_refused(dao_event_query(world.event));
    is_refused(dao_event_synchronize(world.event));
    is_refused(dao_device_synchronize(1));
    is_refused(dao_stream_create(1, &stream));
    is_refused(dao_stream_adopt(1, NULL, &stream));
    is_refused(dao_event_create(1, &event));
    is_refused(dao_copy(dao_place_of(lost), world.large, dao_place_of(dao_pinned_place(1)), world.pinned, 1));
    is_refused(dao_copy(dao_place_of(dao_pinned_place(1)), world.pinned, dao_place_of(lost), world.large, 1));
    is_refused(dao_copy(dao_place_of(other), world.elsewhere, dao_place_of(lost), world.large, 1));
    is_refused(dao_copy(dao_place_of(lost), world.large, dao_place_of(other), world.elsewhere, 1));
    is_refused(dao_stream_copy(stream_of(other), dao_place_of(lost), world.large, dao_place_of(other),
                               world.elsewhere, 1));
    is_refused(dao_peer_query(0, 1, &peer));
    is_refused(dao_peer_enable(1, 0));
    is_refused(dao_host_register(1, own_memory + 1, 1));
    is_refused(dao_host_device_address_query(1, own_memory, &address));
    CU_ASSERT_EQUAL(dao_host_unregister(own_memory), DAO_OK); /* it went with the device */
    CU_ASSERT_EQUAL(dao_host_unregister(own_memory), DAO_ERR_FOREIGN_POINTER);
    CU_ASSERT_TRUE(stream == NULL && event == NULL && memory == NULL && address == NULL);
    CU_ASSERT_EQUAL(loopback_call_count(), calls);
    CU_ASSERT_EQUAL(dao_device_health(0), DAO_OK);
    CU_ASSERT_EQUAL(
        dao_copy(dao_place_of(other), world.elsewhere, dao_place_of(dao_pinned_place(1)), world.pinned, 1),
        DAO_OK); /* the lost device's pinned memory is the host's */
    end(&world);
}

static void frees_make_no_call_that_can_fail(void)
{
    world_t world;
    begin(&world);
    lose(&world);
    uint64_t calls = loopback_call_count();
    void *const blocks[] = {world.small, world.large};
    for (int i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(dao_free(lost, blocks[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(lost, blocks[i]), DAO_ERR_DOUBLE_FREE);
    }
    world.small = NULL;
    world.large = NULL;
    CU_ASSERT_EQUAL(dao_free_async(lost, world.ordered, NULL), DAO_OK);
    world.ordered = NULL;
    CU_ASSERT_EQUAL(loopback_call_count(), calls);
    end(&world);
}

static void all_other_places_go_on(void)
{
    world_t world;
    begin(&world);
    lose(&world);
    unsigned char bytes[2][100] = {{7}, {0}};
    void *blocks[64];
    for (int i = 0; i < 64; i++) {
        blocks[i] = dao_alloc(other, (size_t)(i + 1) * 1000);
        CU_ASSERT_PTR_NOT_NULL(blocks[i]);
    }
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(other), blocks[63], dao_place_of(dao_cpu_place()), bytes[0], 100),
                    DAO_OK);
    CU_ASSERT_EQUAL(dao_copy(dao_place_of(dao_cpu_place()), bytes[1], dao_place_of(other), blocks[63], 100),
                    DAO_OK);
    CU_ASSERT_EQUAL(memcmp(bytes[0], bytes[1], 100), 0);
    for (int i = 0; i < 64; i++) {
        CU_ASSERT_EQUAL(dao_free(other, blocks[i]), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_device_health(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_health(2), DAO_ERR_NO_DEVICE);
    end(&world);
}

static void a_new_start_has_the_device_again(void)
{
    world_t world;
    begin(&world);
    lose(&world);
    end(&world);
    begin(&world);
    CU_ASSERT_EQUAL(dao_stream_fill(world.stream, world.large, 0, SIZE_BYTES), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_synchronize(1), DAO_OK);
    end(&world);
}

/* Calls that hear of it and say so. */

static dao_status_t hear_alloc(world_t *world)
{
    (void)world;
    return dao_alloc(lost, 48 * MIB) != NULL ? DAO_OK : dao_last_status();
}

static dao_status_t hear_stream_synchronize(world_t *world)
{
    return dao_stream_synchronize(world->stream);
}

static dao_status_t hear_device_synchronize(world_t *world)
{
    (void)world;
    return dao_device_synchronize(1);
}

static dao_status_t hear_event_record(world_t *world)
{
    return dao_event_record(world->event, world->stream);
}

static dao_status_t hear_event_query(world_t *world)
{
    return dao_event_query(world->event);
}

static dao_status_t hear_stream_create(world_t *world)
{
    dao_stream_t *stream = NULL;
    (void)world;
    return dao_stream_create(1, &stream);
}

static dao_status_t hear_event_create(world_t *world)
{
    dao_event_t *event = NULL;
    (void)world;
    return dao_event_create(1, &event);
}

static dao_status_t hear_copy(world_t *world)
{
    return dao_copy(dao_place_of(lost), world->large, dao_place_of(dao_pinned_place(1)), world->pinned, 1);
}

static dao_status_t hear_copy_to_a_peer(world_t *world)
{
    return dao_copy(dao_place_of(other), world->elsewhere, dao_place_of(lost), world->large, 1);
}

static dao_status_t hear_stream_copy_to_a_peer(world_t *world)
{
    return dao_stream_copy(world->stream, dao_place_of(other), world->elsewhere, dao_place_of(lost),
                           world->large, 1);
}

static dao_status_t hear_query(world_t *world)
{
    dao_device_info_t info;
    (void)world;
    return dao_device_query(1, &info);
}

static dao_status_t hear_peer_enable(world_t *world)
{
    (void)world;
    return dao_peer_enable(1, 0);
}

static dao_status_t hear_host_register(world_t *world)
{
    static unsigned char own_memory[1];
    (void)world;
    return dao_host_register(1, own_memory, 1);
}

/* It hears of it and has nobody to say so to. */
static dao_status_t hear_stream_destroy(world_t *world)
{
    dao_stream_destroy(world->stream);
    world->stream = NULL;
    return DAO_ERR_DEVICE_LOST;
}

/* Whatever is the first to hear of it, and at whichever of its driver's calls. The first asks which device is
   current. */
static void any_call_that_hears_of_it_tells(void)
{
    static dao_status_t (*const ways[])(world_t * world) = {hear_alloc,
                                                            hear_stream_synchronize,
                                                            hear_device_synchronize,
                                                            hear_event_record,
                                                            hear_event_query,
                                                            hear_stream_create,
                                                            hear_event_create,
                                                            hear_copy,
                                                            hear_copy_to_a_peer,
                                                            hear_stream_copy_to_a_peer,
                                                            hear_query,
                                                            hear_peer_enable,
                                                            hear_host_register,
                                                            hear_stream_destroy};
    for (size_t way = 0; way < sizeof(ways) / sizeof(ways[0]); way++) {
        world_t world;
        begin(&world);
        loopback_fail(1, LOOPBACK_ILLEGAL_ADDRESS);
        dao_status_t status = ways[way](&world);
        CU_ASSERT_TRUE(loopback_has_failed());
        CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
        is_refused(dao_device_health(1));
        CU_ASSERT_EQUAL(dao_device_health(0), DAO_OK);
        end(&world);
    }
}

/* A copy is queued on a stream of one device, and the other one is lost. */
static void a_copy_between_devices_tells_of_the_one_that_is_lost(void)
{
    for (int way = 0; way < 3; way++) {
        world_t world;
        begin(&world);
        loopback_lose(1, LOOPBACK_ILLEGAL_ADDRESS);
        dao_place_t here = dao_place_of(other), there = dao_place_of(lost);
        dao_status_t status =
            way == 0   ? dao_copy(there, world.large, here, world.elsewhere, 1)
            : way == 1 ? dao_stream_copy(stream_of(other), there, world.large, here, world.elsewhere, 1)
                       : dao_stream_copy(stream_of(other), here, world.elsewhere, there, world.large, 1);
        CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
        is_refused(dao_device_health(1));
        CU_ASSERT_EQUAL(dao_device_health(0), DAO_OK);
        CU_ASSERT_EQUAL(dao_stream_fill(stream_of(other), world.elsewhere, 1, 1), DAO_OK);
        end(&world);
    }
}

/* A free that waits for its stream's event hears it from that. */
static void a_free_that_waits_hears_of_it(void)
{
    world_t world;
    begin(&world);
    dao_memory_release(world.handle);
    world.handle = NULL;
    loopback_fail(1, LOOPBACK_ILLEGAL_ADDRESS);
    void *block = dao_alloc(lost, SIZE_BYTES); /* asks the events of frees that wait */
    CU_ASSERT_TRUE(loopback_has_failed());
    is_refused(dao_device_health(1));
    CU_ASSERT_EQUAL(dao_free(lost, block), DAO_OK);
    end(&world);
}

static CU_TestInfo tests[] = {
    {"what needs the device is refused, and the driver not asked",
     what_needs_the_device_is_refused_and_the_driver_not_asked},
    {"frees make no call that can fail", frees_make_no_call_that_can_fail},
    {"all other places go on", all_other_places_go_on},
    {"a new start has the device again", a_new_start_has_the_device_again},
    {"any call that hears of it tells", any_call_that_hears_of_it_tells},
    {"a copy between devices tells of the one that is lost",
     a_copy_between_devices_tells_of_the_one_that_is_lost},
    {"a free that waits hears of it", a_free_that_waits_hears_of_it},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"health", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
