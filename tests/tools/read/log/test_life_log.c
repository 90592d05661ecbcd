/* SPDX-License-Identifier: Apache-2.0 */
/* The log of lives against a slow model: random events by address and by size, on spaces of two devices. */
#include "base/numbers/random.h"
#include "tests/support/suite.h"
#include "tools/read/log/life_log.h"

#include <stdio.h>
#include <string.h>

enum { EVENT_COUNT = 4000, KEY_COUNT = 40, SPACE_COUNT = 3, SIZE_COUNT = 4 };

/* What is live: a stack a key, as sizes have several. */
typedef struct model {
    struct {
        uint64_t sizes[EVENT_COUNT];
        size_t count;
    } keys[SPACE_COUNT][KEY_COUNT];
    /* Of each device: what events have added since the beginning, the most of it, and what was there before.
     */
    int64_t added_bytes[2], most_bytes[2], before_bytes[2];
} model_t;

static model_t model;

/* Space 0 and 1 are of device 0 and 1, by address; 2 is of device 1, by size. */
static const uint32_t device_of[SPACE_COUNT] = {0, 1, 1};

static uint64_t size_of(uint32_t space, uint64_t key, uint64_t random)
{
    return space == 2 ? key + 1 : 1 + random % 1000;
}

static void add(uint32_t space, int64_t bytes)
{
    uint32_t device = device_of[space];
    model.added_bytes[device] += bytes;
    if (model.added_bytes[device] > model.most_bytes[device]) {
        model.most_bytes[device] = model.added_bytes[device];
    }
}

static void alloc(dao_life_log_t *log, uint32_t space, uint64_t key, uint64_t size_bytes)
{
    size_t *count = &model.keys[space][key].count;
    if (space != 2 && *count > 0) { /* the old one ends */
        add(space, -(int64_t)model.keys[space][key].sizes[--*count]);
    }
    model.keys[space][key].sizes[(*count)++] = size_bytes;
    add(space, (int64_t)size_bytes);
    CU_ASSERT_EQUAL(dao_life_log_alloc(log, space, key, size_bytes), DAO_OK);
}

static void release(dao_life_log_t *log, uint32_t space, uint64_t key, uint64_t size_bytes)
{
    size_t *count = &model.keys[space][key].count;
    if (*count > 0) {
        add(space, -(int64_t)model.keys[space][key].sizes[--*count]);
    } else { /* it was there before the first event */
        model.before_bytes[device_of[space]] += (int64_t)size_bytes;
        add(space, -(int64_t)size_bytes);
    }
    CU_ASSERT_EQUAL(dao_life_log_free(log, space, key, size_bytes), DAO_OK);
}

static void random_events_are_paired_as_by_the_model(void)
{
    uint64_t random = dao_test_seed("events", 20261122);
    dao_life_log_t log;
    dao_life_log_init(&log);
    memset(&model, 0, sizeof(model));
    for (uint32_t i = 0; i < SPACE_COUNT; i++) {
        uint32_t device = 0, space = 0;
        CU_ASSERT_EQUAL(dao_life_log_device(&log, device_of[i] == 0 ? "a" : "b", &device), DAO_OK);
        CU_ASSERT_EQUAL(device, device_of[i]);
        CU_ASSERT_EQUAL(
            dao_life_log_space(&log, device, i == 2 ? DAO_LIFE_KEYS_SIZES : DAO_LIFE_KEYS_ADDRESSES, &space),
            DAO_OK);
        CU_ASSERT_EQUAL(space, i);
    }
    for (size_t i = 0; i < EVENT_COUNT; i++) {
        uint32_t space = (uint32_t)(dao_random_next(&random) % SPACE_COUNT);
        uint64_t key = dao_random_next(&random) % (space == 2 ? SIZE_COUNT : KEY_COUNT);
        uint64_t size_bytes = size_of(space, key, dao_random_next(&random));
        bool is_alloc = dao_random_next(&random) % 2 == 0;
        (is_alloc ? alloc : release)(&log, space, key, size_bytes);
        CU_ASSERT_EQUAL(dao_life_log_is_live(&log, space, key), model.keys[space][key].count > 0);
        CU_ASSERT(i % 64 != 0 || dao_life_log_is_valid(&log));
    }
    CU_ASSERT_EQUAL(dao_life_log_close(&log), DAO_OK);
    for (uint32_t i = 0; i < 2; i++) {
        const dao_event_file_t *events = &log.devices[i].events;
        int64_t before_bytes = 0, live_bytes = 0;
        for (size_t k = 0; k < events->tensor_count; k++) {
            int64_t size_bytes = (int64_t)events->tensors[k].size_bytes;
            before_bytes += events->tensors[k].is_before ? size_bytes : 0;
            live_bytes += events->tensors[k].is_live ? size_bytes : 0;
        }
        CU_ASSERT_EQUAL(before_bytes, model.before_bytes[i]);
        CU_ASSERT_EQUAL(live_bytes, model.before_bytes[i] + model.added_bytes[i]);
        CU_ASSERT_EQUAL((int64_t)log.devices[i].peak_bytes, model.before_bytes[i] + model.most_bytes[i]);
    }
    dao_life_log_finish(&log);
}

/* By hand: 10 before and freed, 5 live at the peak. */
static void what_was_before_counts_from_the_beginning(void)
{
    dao_life_log_t log;
    uint32_t device = 0, space = 0;
    dao_life_log_init(&log);
    CU_ASSERT_EQUAL(dao_life_log_device(&log, "0", &device), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_space(&log, device, DAO_LIFE_KEYS_ADDRESSES, &space), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_alloc(&log, space, 1, 5), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_free(&log, space, 2, 10), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_alloc(&log, space, 3, 7), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_resident(&log, space, 1, 99), DAO_OK); /* it is known, and 5 bytes */
    CU_ASSERT_EQUAL(dao_life_log_resident(&log, space, 4, 100), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_close(&log), DAO_OK);
    CU_ASSERT_EQUAL(log.devices[0].peak_bytes, 115);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.older_kept_count, 1);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.older_freed_count, 1);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.open_count, 2);
    dao_life_log_finish(&log);
}

static void what_does_not_fit_is_refused(void)
{
    dao_life_log_t log;
    uint32_t device = 0, space = 0;
    char name[DAO_LIFE_DEVICE_NAME_BYTES];
    dao_life_log_init(&log);
    for (uint32_t i = 0; i < DAO_LIFE_DEVICE_COUNT_MAX; i++) {
        (void)snprintf(name, sizeof(name), "%u", (unsigned int)i);
        CU_ASSERT_EQUAL(dao_life_log_device(&log, name, &device), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_life_log_device(&log, "one more", &device), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_life_log_device(&log, "7", &device), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_space(&log, device, DAO_LIFE_KEYS_ADDRESSES, &space), DAO_OK);
    CU_ASSERT_EQUAL(dao_life_log_alloc(&log, space, 1, UINT64_MAX), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_life_log_alloc(&log, space, 1, DAO_EVENT_SIZE_MAX + 1), DAO_ERR_LIMIT);
    for (uint64_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(dao_life_log_alloc(&log, space, i, DAO_EVENT_SIZE_MAX), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_life_log_close(&log), DAO_ERR_OVERFLOW);
    dao_life_log_finish(&log);
}

static CU_TestInfo tests[] = {
    {"random events are paired as by the model", random_events_are_paired_as_by_the_model},
    {"what was before counts from the beginning", what_was_before_counts_from_the_beginning},
    {"what does not fit is refused", what_does_not_fit_is_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"life log", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
