/* A device that is lost, on the loopback driver: what needs it is refused without asking the driver again, frees are done,
   everything else goes on, and a new start has the device again. */
#include "base/error.h"
#include "runtime/detours.h"
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
    dao_event_destroy(world->event);
    dao_stream_destroy(world->stream);
    dao_status_t status = dao_device_synchronize(1); /* where it works the handle's memory waits for it */
    CU_ASSERT_EQUAL(status, dao_device_health(1));
    CU_ASSERT_EQUAL(dao_used(lost), 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_FALSE(dao_detours_are_needed());
}

static void is_refused(dao_status_t status)
{
    CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_DEVICE_LOST);
    CU_ASSERT_EQUAL(dao_last_vendor_code(), LOOPBACK_ILLEGAL_ADDRESS);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:1"));
}

static void what_needs_the_device_is_refused_and_the_driver_not_asked(void)
{
    world_t world;
    begin(&world);
    lose(&world);
    uint64_t calls = loopback_call_count();
    dao_memory_t *memory = NULL;
    dao_device_info_t info;
    is_refused(dao_device_health(1));
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
    CU_ASSERT_EQUAL(loopback_call_count(), calls);
    is_refused(dao_copy(dao_place_of(lost), world.large, dao_place_of(dao_pinned_place(1)), world.pinned, 1));
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

/* Whatever is the first to hear of it. */
static void any_call_that_hears_of_it_tells(void)
{
    for (int way = 0; way < 5; way++) {
        world_t world;
        begin(&world);
        loopback_fail(1, LOOPBACK_ILLEGAL_ADDRESS);
        dao_status_t status = DAO_OK;
        switch (way) {
        case 0:
            status = dao_alloc(lost, 48 * MIB) != NULL ? DAO_OK : dao_last_status();
            break;
        case 1:
            status = dao_stream_synchronize(world.stream);
            break;
        case 2:
            status = dao_device_synchronize(1);
            break;
        case 3:
            status = dao_event_record(world.event, world.stream);
            break;
        default:
            status = dao_event_query(world.event);
            break;
        }
        CU_ASSERT_EQUAL(status, DAO_ERR_DEVICE_LOST);
        is_refused(dao_device_health(1));
        end(&world);
    }
}

static CU_TestInfo tests[] = {
    {"what needs the device is refused, and the driver not asked",
     what_needs_the_device_is_refused_and_the_driver_not_asked},
    {"frees make no call that can fail", frees_make_no_call_that_can_fail},
    {"all other places go on", all_other_places_go_on},
    {"a new start has the device again", a_new_start_has_the_device_again},
    {"any call that hears of it tells", any_call_that_hears_of_it_tells},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"health", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
