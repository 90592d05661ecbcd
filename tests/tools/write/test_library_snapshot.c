/* SPDX-License-Identifier: Apache-2.0 */
/* The library's own snapshot as a pickle, read by the reader of PyTorch's: the same blocks, the same reserved
   bytes; writers that refuse. */
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

static dao_status_t write_pickle(const dao_snapshot_t *snapshot, size_t room)
{
    sink_t sink = {.file = fopen(dao_test_path, "wb"), .room = room};
    CU_ASSERT_PTR_NOT_NULL_FATAL(sink.file);
    dao_status_t status = dao_snapshot_write_pickle(snapshot, write_bytes, &sink);
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
    CU_ASSERT_EQUAL(write_pickle(snapshot, SIZE_MAX), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(log.device_count, 1);
    CU_ASSERT_EQUAL(log.devices[0].peak_bytes, requested_bytes);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.reserved_bytes, reserved_bytes);
    CU_ASSERT_EQUAL(log.devices[0].events.counts.older_kept_count, live_count);
    dao_life_log_finish(&log);
    for (size_t room = 0; room < 3; room++) {
        CU_ASSERT_EQUAL(write_pickle(snapshot, room * 4096), DAO_ERR_IO);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "dao_snapshot_write_pickle"));
    }
    CU_ASSERT_EQUAL(dao_snapshot_write_pickle(snapshot, NULL, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_snapshot_write_pickle(NULL, write_bytes, NULL), DAO_ERR_INVALID);
    dao_snapshot_destroy(snapshot);
    for (size_t i = 0; i < BLOCKS; i++) {
        CU_ASSERT_TRUE(blocks[i] == NULL || dao_free(device_0, blocks[i]) == DAO_OK);
    }
}

static CU_TestInfo tests[] = {
    {"a snapshot is read as one of PyTorch", a_snapshot_is_read_as_one_of_pytorch},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"library_snapshot", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    int result = dao_suite_run(suites);
    return dao_finalize() == DAO_OK ? result : 1;
}
