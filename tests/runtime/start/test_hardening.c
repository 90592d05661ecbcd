/* SPDX-License-Identifier: Apache-2.0 */
/* Hardening through the library: misuse found at every kind of place, over any strategy, on and off by the
   environment, and whatever the backend or the system refuses. */
#define _GNU_SOURCE
#include "allocators/layers/hardened.h"
#include "base/report/fault.h"
#include "runtime/start/context.h"
#include "tests/support/backends/device_bytes.h"
#include "tests/support/backends/fault_backend.h"
#include "tests/support/suite.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>

#define EVERYTHING                                                                                           \
    (DAO_HARDENING_GUARD | DAO_HARDENING_JUNK | DAO_HARDENING_QUARANTINE | DAO_HARDENING_CHECKSUM)

static const dao_place_t places[] = {
    {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
#define PLACE_COUNT (sizeof(places) / sizeof(places[0]))

static dao_status_t library_start(uint32_t flags)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB},
                           .hardening = flags,
                           .quarantine_bytes = 64 * KIB};
    return dao_init(&config);
}

static void flip(dao_place_t place, void *address)
{
    device_fill(place, address, device_byte(place, address) ^ 1, 1);
}

static void every_place_is_hardened(void)
{
    CU_ASSERT_EQUAL_FATAL(library_start(EVERYTHING), DAO_OK);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        unsigned char *block = dao_alloc(places[i], 1000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(block);
        CU_ASSERT_EQUAL(device_byte(places[i], block), DAO_HARDENED_JUNK_VALUE);
        CU_ASSERT_EQUAL(dao_hardening_check(places[i]), DAO_OK);
        CU_ASSERT_EQUAL(dao_free(places[i], block + 1), DAO_ERR_INTERIOR_POINTER);
        CU_ASSERT_EQUAL(dao_free(places[(i + 1) % PLACE_COUNT], block), DAO_ERR_WRONG_PLACE);
        CU_ASSERT_EQUAL(dao_free(places[i], &block), DAO_ERR_FOREIGN_POINTER);
        device_fill(places[i], block + 1200, 0, 1);
        CU_ASSERT_EQUAL(dao_hardening_check(places[i]), DAO_ERR_CORRUPT);
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_CORRUPT);
        char text[DAO_PLACE_TEXT_BYTES];
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), dao_place_format(places[i], text)));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "offset 1200"));
        CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_DOUBLE_FREE);
        CU_ASSERT_EQUAL(dao_used(places[i]), 0);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_CORRUPT); /* the last to say so */
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "at 3 places"));
}

static void a_large_block_is_looked_at_as_a_whole(void)
{
    CU_ASSERT_EQUAL_FATAL(library_start(DAO_HARDENING_QUARANTINE), DAO_OK);
    unsigned char *block = dao_alloc(places[2], 60000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(places[2], block), DAO_OK);
    CU_ASSERT_EQUAL(dao_hardening_check(places[2]), DAO_OK);
    flip(places[2], block + 59999);
    CU_ASSERT_EQUAL(dao_hardening_check(places[2]), DAO_ERR_CORRUPT);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "offset 59999"));
    flip(places[2], block + 59999);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void handles_work_at_hardened_places(void)
{
    CU_ASSERT_EQUAL_FATAL(library_start(EVERYTHING), DAO_OK);
    for (size_t i = 0; i < PLACE_COUNT; i++) { /* the current device is 0: pinned:1 is not its own */
        dao_memory_t *memory = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_memory_create(places[i], 10000, NULL, &memory), DAO_OK);
        device_fill(places[i], dao_memory_address(memory), 1, 10000);
        CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
        CU_ASSERT_EQUAL(i == 0 ? DAO_OK : dao_device_synchronize(places[i].index), DAO_OK);
        CU_ASSERT_EQUAL(dao_used(places[i]), 0);
        CU_ASSERT_EQUAL(dao_hardening_check(places[i]), DAO_OK);
        dao_snapshot_t *snapshot = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(places[i], &snapshot), DAO_OK);
        size_t count, pending_count = 0;
        const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &count);
        for (size_t k = 0; k < count; k++) {
            pending_count += blocks[k].state == DAO_BLOCK_STATE_PENDING;
        }
        CU_ASSERT_EQUAL(pending_count, 1);
        dao_snapshot_destroy(snapshot);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static size_t count_call(dao_place_t place, size_t needed_bytes, void *user)
{
    (void)place;
    (void)needed_bytes;
    ++*(int *)user;
    return 0;
}

static void what_is_larger_than_the_device_asks_nobody(void)
{
    for (int i = 0; i < 2; i++) {
        int call_count = 0;
        uint64_t id = 0;
        CU_ASSERT_EQUAL_FATAL(library_start(i == 0 ? 0 : EVERYTHING), DAO_OK);
        CU_ASSERT_EQUAL(dao_pressure_callback_add(places[2], count_call, &call_count, &id), DAO_OK);
        CU_ASSERT_PTR_NULL(dao_alloc(places[2], 65 * MIB));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "can never fit: the device has 67108864 bytes"));
        CU_ASSERT_EQUAL(call_count, 0);
        void *block = dao_alloc(places[2], 40 * MIB);
        CU_ASSERT_PTR_NULL(dao_alloc(places[2], 40 * MIB));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "have to be freed or swapped out first"));
        CU_ASSERT_EQUAL(call_count, 1);
        CU_ASSERT_EQUAL(dao_free(places[2], block), DAO_OK);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

static void a_place_that_is_not_hardened_has_no_check(void)
{
    CU_ASSERT_EQUAL_FATAL(library_start(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_hardening_check(places[0]), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_hardening_check(((dao_place_t){DAO_PLACE_KIND_DEVICE, 9})), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void places_are_hardened_apart_over_any_strategy(void)
{
    for (int strategy = DAO_STRATEGY_GOOD_FIT; strategy <= DAO_STRATEGY_SYSTEM; strategy++) {
        CU_ASSERT_EQUAL_FATAL(library_start(0), DAO_OK);
        dao_place_config_t config = {.strategy = (dao_strategy_t)strategy, .hardening = 1u << 6};
        CU_ASSERT_EQUAL(dao_place_configure(places[2], &config), DAO_ERR_INVALID);
        config.hardening = EVERYTHING;
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            CU_ASSERT_EQUAL(i == 1 ? DAO_OK : dao_place_configure(places[i], &config), DAO_OK);
        }
        for (size_t i = 0; i < PLACE_COUNT; i++) {
            unsigned char *block = dao_alloc(places[i], 1000), *other = dao_alloc(places[i], 70000);
            CU_ASSERT_PTR_NOT_NULL_FATAL(block);
            CU_ASSERT_PTR_NOT_NULL_FATAL(other);
            dao_status_t checked = dao_hardening_check(places[i]);
            CU_ASSERT_EQUAL(checked, i == 1 ? DAO_ERR_UNSUPPORTED : DAO_OK);
            flip(places[i], block + 1000);
            CU_ASSERT_EQUAL(dao_free(places[i], block), i == 1 ? DAO_OK : DAO_ERR_CORRUPT);
            CU_ASSERT_EQUAL(dao_free(places[i], other), DAO_OK);
            CU_ASSERT_EQUAL(dao_free(places[i], other), DAO_ERR_DOUBLE_FREE);
            CU_ASSERT_EQUAL(dao_free(places[i], block), DAO_ERR_DOUBLE_FREE);
            CU_ASSERT_EQUAL(dao_used(places[i]), 0);
        }
        CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_CORRUPT); /* the blocks that were damaged */
    }
}

static void a_place_stays_out_of_the_hardening_of_all(void)
{
    dao_place_config_t config = {.hardening = DAO_HARDENING_NONE};
    dao_place_config_t wrong = {.hardening = DAO_HARDENING_NONE | DAO_HARDENING_GUARD};
    CU_ASSERT_EQUAL_FATAL(library_start(EVERYTHING), DAO_OK);
    CU_ASSERT_EQUAL(dao_place_configure(places[2], &wrong), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_place_configure(places[2], &config), DAO_OK);
    CU_ASSERT_EQUAL(dao_hardening_check(places[2]), DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_hardening_check(places[0]), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_device_that_was_not_used_has_nothing_wrong(void)
{
    CU_ASSERT_EQUAL_FATAL(library_start(EVERYTHING), DAO_OK);
    CU_ASSERT_EQUAL(dao_hardening_check(places[2]), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static dao_status_t start_with_environment(const char *hardening, const char *bytes)
{
    (void)setenv("DAO_HARDENING", hardening, 1);
    (void)setenv("DAO_QUARANTINE_BYTES", bytes, 1);
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}};
    dao_status_t status = dao_init(&config);
    (void)unsetenv("DAO_HARDENING");
    (void)unsetenv("DAO_QUARANTINE_BYTES");
    return status;
}

/* As if it said nothing. */
static void the_environment_may_say_none(void)
{
    CU_ASSERT_EQUAL_FATAL(start_with_environment("", ""), DAO_OK);
    dao_status_t status = dao_hardening_check(places[2]);
    CU_ASSERT_NOT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(start_with_environment("none", ""), DAO_OK);
    CU_ASSERT_EQUAL(dao_hardening_check(places[2]), status);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void the_environment_hardens(void)
{
    static const char *const wrong[] = {"guard,bogus", "guard,",     ",",     "Guard",
                                        "guar",        "guard junk", "guards"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CU_ASSERT_EQUAL(start_with_environment(wrong[i], ""), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_HARDENING"));
    }
    CU_ASSERT_EQUAL(start_with_environment("guard", "1 apple"), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_QUARANTINE_BYTES"));
    CU_ASSERT_EQUAL(library_start(1u << 6), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL_FATAL(start_with_environment("zero,quarantine,guard,checksum,junk", "4KiB"), DAO_OK);
    unsigned char *small = dao_alloc(places[2], 3000), *large = dao_alloc(places[2], 5000);
    CU_ASSERT_PTR_NOT_NULL_FATAL(small);
    CU_ASSERT_PTR_NOT_NULL_FATAL(large);
    CU_ASSERT_EQUAL(dao_free(places[2], small), DAO_OK);
    CU_ASSERT_EQUAL(device_byte(places[2], small), 0);
    CU_ASSERT_EQUAL(dao_free(places[2], large), DAO_OK);
    dao_snapshot_t *snapshot = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(places[2], &snapshot), DAO_OK);
    size_t count;
    const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &count);
    CU_ASSERT_EQUAL_FATAL(count, 1);
    CU_ASSERT_EQUAL(segments[0].pending_bytes, 3072 + 256);
    dao_snapshot_destroy(snapshot);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Every call of the backend fails in turn, by the device's memory as it is elsewhere: what was is as it
   was. */
static dao_status_t scenario(const dao_backend_ops_t *ops)
{
    dao_config_t config = {.cpu = {.device_count = 1, .device_bytes = 64 * MIB}, .hardening = EVERYTHING};
    dao_status_t status = dao_context_start(&config, ops);
    if (status != DAO_OK) {
        return status;
    }
    void *block = dao_alloc(places[2], 10000);
    status = block == NULL ? dao_last_status() : DAO_OK;
    if (block != NULL) {
        status = dao_free(places[2], block);
        if (status != DAO_OK) {
            CU_ASSERT_NOT_EQUAL(status, DAO_ERR_CORRUPT);
            CU_ASSERT_TRUE(dao_used(places[2]) >= 10000);
            CU_ASSERT_EQUAL(dao_free(places[2], block), DAO_OK);
        }
        CU_ASSERT_EQUAL(dao_used(places[2]), 0);
    }
    dao_status_t checked = dao_hardening_check(places[2]);
    CU_ASSERT_NOT_EQUAL(checked, DAO_ERR_CORRUPT);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    return status == DAO_OK ? checked : status;
}

static void every_failing_call_of_the_backend_is_survived(void)
{
    fault_config_t config = {.hide_host_access = true};
    const dao_backend_ops_t *ops = fault_backend_wrap(dao_backend_ops(), &config);
    uint64_t fired = 1, n = 0;
    for (; fired > 0 && n < 200; n++) {
        fault_backend_arm(FAULT_CALL_ANY, n, false);
        dao_status_t status = scenario(ops);
        fired = fault_backend_disarm();
        CU_ASSERT_TRUE(fired > 0 || status == DAO_OK);
        CU_ASSERT_EQUAL(fault_backend_live_count(), 0);
    }
    CU_ASSERT_EQUAL(fired, 0);
    CU_ASSERT_TRUE(n > 10);
}

#if defined(DAO_FAULTS)
static void ignore(dao_status_t status)
{
    (void)status;
}

static void every_lack_of_host_memory_at_the_start_is_survived(void)
{
    uint64_t fired = 1, n = 0;
    for (; fired > 0 && n < 200; n++) {
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = library_start(EVERYTHING);
        void *block = status == DAO_OK ? dao_alloc(places[2], 100) : NULL;
        fired = dao_fault_disarm();
        CU_ASSERT_TRUE(fired > 0 || block != NULL);
        if (status == DAO_OK) {
            ignore(dao_free(places[2], block));
            CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
        }
    }
    CU_ASSERT_EQUAL(fired, 0);
}
#endif

static CU_TestInfo tests[] = {
    {"every place is hardened", every_place_is_hardened},
    {"a large block is looked at as a whole", a_large_block_is_looked_at_as_a_whole},
    {"handles work at hardened places", handles_work_at_hardened_places},
    {"what is larger than the device asks nobody", what_is_larger_than_the_device_asks_nobody},
    {"a place that is not hardened has no check", a_place_that_is_not_hardened_has_no_check},
    {"places are hardened apart, over any strategy", places_are_hardened_apart_over_any_strategy},
    {"a place stays out of the hardening of all", a_place_stays_out_of_the_hardening_of_all},
    {"a device that was not used has nothing wrong", a_device_that_was_not_used_has_nothing_wrong},
    {"the environment may say none", the_environment_may_say_none},
    {"the environment hardens", the_environment_hardens},
    {"every failing call of the backend is survived", every_failing_call_of_the_backend_is_survived},
#if defined(DAO_FAULTS)
    {"every lack of host memory at the start is survived",
     every_lack_of_host_memory_at_the_start_is_survived},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"hardened places", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
