/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own snapshot as a pickle and as JSON, read by the reader of PyTorch's: the same blocks, the
   same reserved bytes; what happened before, where the place keeps it; writers that refuse. */
#include "base/threads/sync.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_events.h"

#include <dao/dao.h>

#include <stdio.h>
#include <string.h>

enum { BLOCKS = 2500 }; /* more than a batch of the pickle */

static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0};

typedef struct sink {
    FILE *file;
    size_t room; /* bytes that are taken before it refuses */
} sink_t;

static dao_status_t write_bytes(const char *bytes, size_t count, void *user)
{
    sink_t *sink = user;
    if (count > sink->room || fwrite(bytes, 1, count, sink->file) != count) {
        return DAO_ERR_IO;
    }
    sink->room -= count;
    return DAO_OK;
}

typedef dao_status_t (*writer_t)(const dao_snapshot_t *snapshot, dao_write_t write, void *user);

static dao_status_t write_by(writer_t writer, const dao_snapshot_t *snapshot, size_t room)
{
    sink_t sink = {.file = fopen(dao_test_path, "wb"), .room = room};
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink.file);
    dao_status_t status = writer(snapshot, write_bytes, &sink);
    CU_ASSERT_EQUAL(fclose(sink.file), 0);
    return status;
}

static void a_snapshot_is_read_as_one_of_pytorch(void)
{
    static void *blocks[BLOCKS];
    dao_life_log_t log;
    dao_snapshot_t *snapshot = NULL;
    uint64_t reserved_bytes = 0, requested_bytes = 0, live_count = 0;
    size_t count = 0;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = dao_alloc(device_0, 1 + i * 37 % 70000);
        CU_ASSERT_PTR_NOT_NULL_FATAL(blocks[i]);
    }
    for (size_t i = 0; i < BLOCKS; i += 3) {
        CU_ASSERT_EQUAL(dao_free(device_0, blocks[i]), DAO_OK);
        blocks[i] = NULL;
    }
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(device_0, &snapshot), DAO_OK);
    const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &count);
    for (size_t i = 0; i < count; i++) {
        reserved_bytes += segments[i].size_bytes;
    }
    const dao_snapshot_block_t *found = dao_snapshot_blocks(snapshot, &count);
    for (size_t i = 0; i < count; i++) {
        live_count += found[i].state == DAO_BLOCK_STATE_LIVE;
        requested_bytes += found[i].state == DAO_BLOCK_STATE_LIVE ? found[i].requested_bytes : 0;
    }
    CU_ASSERT_EQUAL(write_by(dao_snapshot_write_pickle, snapshot, SIZE_MAX), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(log.device_count, 1);
    CU_ASSERT_EQUAL(log.devices[0].peak_bytes, requested_bytes);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.reserved_bytes, reserved_bytes);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.older_kept_count, live_count);
    dao_life_log_finish(&log);
    for (size_t room = 0; room < 3; room++) {
        CU_ASSERT_EQUAL(write_by(dao_snapshot_write_pickle, snapshot, room * 4096), DAO_ERR_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_snapshot_write_pickle"));
    }
    CU_ASSERT_EQUAL(dao_snapshot_write_pickle(snapshot, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_snapshot_write_pickle(NULL, write_bytes, NULL), DAO_ERR_INVALID);
    dao_snapshot_destroy(snapshot);
    for (size_t i = 0; i < BLOCKS; i++) {
        CU_ASSERT_TRUE(blocks[i] == NULL || dao_free(device_0, blocks[i]) == DAO_OK);
    }
}

/* ---- with what happened before ---- */

enum { KEPT_EVENTS = 1 << 10, LIVE_MAX = 64, TRIM_EVERY = 300 };

/* Blocks that come and go by chance, and the bytes alive after each event. */
typedef struct churn {
    void *blocks[LIVE_MAX];
    size_t sizes[LIVE_MAX];
    uint64_t live_bytes;
    uint64_t history[4 * KEPT_EVENTS]; /* the live bytes before the first event, then after each */
    size_t event_count;
} churn_t;

static void churn_step(churn_t *churn, uint64_t *seed)
{
    size_t i = dao_random_next(seed) % LIVE_MAX, released_bytes;
    if (churn->event_count % TRIM_EVERY == TRIM_EVERY - 1) { /* segments go, which events are in */
        CU_ASSERT_EQUAL(dao_trim(device_0, 0, &released_bytes), DAO_OK);
    } else if (churn->blocks[i] != NULL) {
        CU_ASSERT_EQUAL(dao_free(device_0, churn->blocks[i]), DAO_OK);
        churn->blocks[i] = NULL;
        churn->live_bytes -= churn->sizes[i];
    } else {
        churn->sizes[i] = 1 + dao_random_next(seed) % ((size_t)1 << dao_random_next(seed) % 23);
        churn->blocks[i] = dao_alloc(device_0, churn->sizes[i]);
        CU_ASSERT_PTR_NOT_NULL_FATAL(churn->blocks[i]);
        churn->live_bytes += churn->sizes[i];
    }
    churn->history[++churn->event_count] = churn->live_bytes;
}

/* The most bytes alive in the latest events, and before the first of them. */
static uint64_t churn_peak(const churn_t *churn, size_t event_count)
{
    uint64_t peak_bytes = 0;
    for (size_t i = churn->event_count - event_count; i <= churn->event_count; i++) {
        peak_bytes = churn->history[i] > peak_bytes ? churn->history[i] : peak_bytes;
    }
    return peak_bytes;
}

static void churn_end(churn_t *churn)
{
    for (size_t i = 0; i < LIVE_MAX; i++) {
        CU_ASSERT_TRUE(churn->blocks[i] == NULL || dao_free(device_0, churn->blocks[i]) == DAO_OK);
    }
}

/* Writes a snapshot of the device as a pickle and as JSON, which tell the same, and reads both. The caller
   owns the log. */
static void snapshot_read(dao_life_log_t *out_log)
{
    dao_snapshot_t *snapshot = NULL;
    dao_life_log_t json;
    CU_ASSERT_EQUAL_FATAL(dao_snapshot_create(device_0, &snapshot), DAO_OK);
    CU_ASSERT_EQUAL(write_by(dao_snapshot_write_json, snapshot, SIZE_MAX), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &json), DAO_OK);
    CU_ASSERT_EQUAL(write_by(dao_snapshot_write_pickle, snapshot, SIZE_MAX), DAO_OK);
    dao_snapshot_destroy(snapshot);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, out_log), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(out_log->device_count, 1);
    CU_ASSERT_EQUAL_FATAL(json.device_count, 1);
    CU_ASSERT_EQUAL(json.devices[0].peak_bytes, out_log->devices[0].peak_bytes);
    CU_ASSERT_EQUAL(
        memcmp(&json.devices[0].events.counts, &out_log->devices[0].events.counts, sizeof(dao_life_counts_t)),
        0);
    dao_life_log_finish(&json);
}

static void events_tell_what_happened_before(void)
{
    static churn_t churn;
    uint64_t seed = dao_test_seed("events", 11);
    CU_ASSERT_EQUAL_FATAL(dao_events_start(device_0, KEPT_EVENTS), DAO_OK);
    for (size_t round = 1; round < 4; round++) { /* the ring is not full, then full */
        dao_life_log_t log;
        while (churn.event_count < round * KEPT_EVENTS - KEPT_EVENTS / 4) {
            churn_step(&churn, &seed);
        }
        snapshot_read(&log);
        size_t kept_count = churn.event_count < KEPT_EVENTS ? churn.event_count : KEPT_EVENTS;
        const dao_life_counts_t *counts = &log.devices[0].events.counts;
        CU_ASSERT_EQUAL(log.devices[0].peak_bytes, churn_peak(&churn, kept_count));
        CU_ASSERT_EQUAL(counts->replaced_count, 0);
        CU_ASSERT_EQUAL(counts->older_freed_count > 0, kept_count < churn.event_count);
        dao_life_log_finish(&log);
    }
    CU_ASSERT_EQUAL(dao_events_stop(device_0), DAO_OK);
    churn_end(&churn);
}

/* The reader takes strict UTF-8 only. */
static void a_tag_may_have_any_name(void)
{
    dao_tag_t tag = 0;
    dao_life_log_t log;
    CU_ASSERT_EQUAL_FATAL(dao_tag_create("\xff \"w\\\xc3", &tag), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_events_start(device_0, KEPT_EVENTS), DAO_OK);
    dao_tag_t before = dao_tag_set_current(tag);
    void *block = dao_alloc(device_0, 1000);
    (void)dao_tag_set_current(before);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    snapshot_read(&log);
    CU_ASSERT_EQUAL(log.devices[0].peak_bytes, 1000);
    dao_life_log_finish(&log);
    CU_ASSERT_EQUAL(dao_free(device_0, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_events_stop(device_0), DAO_OK);
}

enum { WRITERS = 3, SNAPSHOTS = 20 };

static _Atomic bool is_over;

static void *write_on(void *user)
{
    void *blocks[LIVE_MAX] = {NULL};
    uint64_t seed = *(const uint64_t *)user;
    for (size_t i = 0; !atomic_load(&is_over); i = dao_random_next(&seed) % LIVE_MAX) {
        if (blocks[i] != NULL) {
            CU_ASSERT_EQUAL(dao_free(device_0, blocks[i]), DAO_OK);
            blocks[i] = NULL;
        } else {
            blocks[i] = dao_alloc(device_0, 1 + dao_random_next(&seed) % 4000);
            CU_ASSERT_PTR_NOT_NULL(blocks[i]);
        }
    }
    for (size_t i = 0; i < LIVE_MAX; i++) {
        CU_ASSERT_TRUE(blocks[i] == NULL || dao_free(device_0, blocks[i]) == DAO_OK);
    }
    return NULL;
}

/* Blocks are copied at one moment and events at another: they agree all the same. */
static void events_agree_with_blocks_while_threads_work(void)
{
    uint64_t seed = dao_test_seed("threads", 5), seeds[WRITERS];
    dao_thread_t threads[WRITERS];
    atomic_store(&is_over, false);
    CU_ASSERT_EQUAL_FATAL(dao_events_start(device_0, KEPT_EVENTS), DAO_OK);
    for (size_t i = 0; i < WRITERS; i++) {
        seeds[i] = dao_random_next(&seed);
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "writer", write_on, &seeds[i]), DAO_OK);
    }
    for (size_t i = 0; i < SNAPSHOTS; i++) {
        dao_life_log_t log;
        snapshot_read(&log);
        const dao_life_counts_t *counts = &log.devices[0].events.counts;
        CU_ASSERT_EQUAL(counts->replaced_count, 0);
        dao_life_log_finish(&log);
    }
    atomic_store(&is_over, true);
    for (size_t i = 0; i < WRITERS; i++) {
        dao_thread_join(&threads[i]);
    }
    CU_ASSERT_EQUAL(dao_events_stop(device_0), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"a snapshot is read as one of PyTorch", a_snapshot_is_read_as_one_of_pytorch},
    {"events tell what happened before", events_tell_what_happened_before},
    {"events agree with blocks while threads work", events_agree_with_blocks_while_threads_work},
    {"a tag may have any name", a_tag_may_have_any_name},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"library_snapshot", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    int result = dao_suite_run(suites);
    return dao_finalize() == DAO_OK ? result : 1;
}
