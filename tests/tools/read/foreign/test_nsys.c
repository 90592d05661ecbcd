/* SPDX-License-Identifier: Apache-2.0 */
/* Databases of nsys, made here by SQLite: one with all columns, one with few, those that are something else,
   and damaged ones. */
#include "base/numbers/random.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_events.h"

#include <inttypes.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"
#define SMALL "PRAGMA page_size = 512; "

enum { DAMAGED_COUNT = 500, DATABASE_BYTES_MAX = 64 * 1024 };

/* Rows out of order; two processes with the same address; pinned memory; a device of 1; an unknown operation.
 */
#define GOOD                                                                                                 \
    SMALL "CREATE TABLE " TABLE " (start INT, globalPid INT, deviceId INT, contextId INT, address INT, "     \
          "bytes INT, memKind INT, memoryOperationType INT, name TEXT);"                                     \
          "INSERT INTO " TABLE " VALUES (50, 7, 0, 1, 4096, 1024, 2, 1, 'x'), (10, 7, 0, 1, 4096, 1024, 2, " \
          "0, 'x'), (20, 8, 0, 1, 4096, 512, 4, 0, 'x'), (30, 7, 0, 1, 64, 100000, 1, 0, 'x'), (40, 7, 1, "  \
          "2, -4096, 256, 2, 0, 'x'), (45, 7, 0, 1, 9, 9, 2, 7, 'x'), (60, 8, 0, 1, 8192, 32, 2, 1, 'x');"

static size_t make_database(const char *script, unsigned char out_bytes[DATABASE_BYTES_MAX])
{
    sqlite3 *database = NULL;
    sqlite3_int64 size = 0;
    CU_ASSERT_EQUAL_FATAL(sqlite3_open(":memory:", &database), SQLITE_OK);
    CU_ASSERT_EQUAL_FATAL(sqlite3_exec(database, script, NULL, NULL, NULL), SQLITE_OK);
    unsigned char *bytes = sqlite3_serialize(database, "main", &size, 0);
    CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
    CU_ASSERT_FATAL(size > 0 && size <= DATABASE_BYTES_MAX);
    memcpy(out_bytes, bytes, (size_t)size);
    sqlite3_free(bytes);
    CU_ASSERT_EQUAL(sqlite3_close(database), SQLITE_OK);
    return (size_t)size;
}

static dao_status_t read_script(const char *script, dao_life_log_t *out_log)
{
    static unsigned char bytes[DATABASE_BYTES_MAX];
    dao_test_write_file(dao_test_path, (const char *)bytes, make_database(script, bytes));
    return dao_read_event_log(dao_test_path, out_log);
}

static void check_device(const dao_life_log_t *log, const char *name, uint64_t peak_bytes,
                         uint64_t open_count)
{
    const dao_life_device_t *device = dao_life_log_find(log, name);
    CU_ASSERT_PTR_NOT_NULL_FATAL(device);
    CU_ASSERT_EQUAL(device->peak_bytes, peak_bytes);
    CU_ASSERT_EQUAL(device->events.counts.open_count, open_count);
}

static void events_are_read_in_the_order_of_time(void)
{
    dao_life_log_t log;
    CU_ASSERT_EQUAL_FATAL(read_script(GOOD, &log), DAO_OK);
    CU_ASSERT_EQUAL(log.device_count, 3);
    check_device(&log, "0", 1024 + 512 + 32, 1);
    check_device(&log, "1", 256, 1);
    check_device(&log, "host", 100000, 1);
    const dao_life_counts_t *counts = &dao_life_log_find(&log, "0")->events.counts;
    CU_ASSERT_EQUAL(counts->in_window_count, 2);
    CU_ASSERT_EQUAL(counts->older_freed_count, 1);
    CU_ASSERT_EQUAL(counts->ignored_count, 1);
    dao_life_log_finish(&log);
}

/* What has a meaning in SQLite's names of files has none here. */
static void a_path_is_taken_as_it_is(void)
{
    static unsigned char bytes[DATABASE_BYTES_MAX];
    char path[256];
    dao_life_log_t log;
    size_t length = make_database(GOOD, bytes);
    (void)snprintf(path, sizeof(path), "%s?x%%41#", dao_test_path);
    dao_test_write_file(path, (const char *)bytes, length);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(path, &log), DAO_OK);
    check_device(&log, "1", 256, 1);
    dao_life_log_finish(&log);
    CU_ASSERT_EQUAL(remove(path), 0);
}

static void what_is_cut_off_is_told(void)
{
    static unsigned char bytes[DATABASE_BYTES_MAX];
    dao_life_log_t log;
    dao_test_write_file(dao_test_path, (const char *)bytes, make_database(GOOD, bytes) - 7);
    CU_ASSERT_EQUAL(dao_read_event_log(dao_test_path, &log), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "cut off within a page of 512 bytes"));
}

/* Such a one is unpacked into memory. */
static void a_packed_database_is_read(void)
{
    static unsigned char bytes[DATABASE_BYTES_MAX], packed[DATABASE_BYTES_MAX];
    dao_life_log_t log;
    z_stream stream = {.next_in = bytes, .next_out = packed, .avail_out = sizeof(packed)};
    stream.avail_in = (uInt)make_database(GOOD, bytes);
    CU_ASSERT_EQUAL_FATAL(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    CU_ASSERT_EQUAL_FATAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
    dao_test_write_file(dao_test_path, (const char *)packed, stream.total_out);
    CU_ASSERT_EQUAL(deflateEnd(&stream), Z_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_event_log(dao_test_path, &log), DAO_OK);
    check_device(&log, "host", 100000, 1);
    dao_life_log_finish(&log);
}

/* Without a start the rows are in order; without a kind they are the device's. */
static void columns_may_be_missing(void)
{
    dao_life_log_t log;
    CU_ASSERT_EQUAL_FATAL(read_script("CREATE TABLE " TABLE
                                      " (address INT, bytes INT, memoryOperationType INT);"
                                      "INSERT INTO " TABLE " VALUES (64, 16, 0), (64, 16, 1), (64, 8, 0)",
                                      &log),
                          DAO_OK);
    check_device(&log, "0", 16, 1);
    dao_life_log_finish(&log);
}

static void what_is_no_such_database_is_told(void)
{
    static const struct {
        const char *script, *wanted;
        dao_status_t status;
    } others[] = {
        {"CREATE TABLE t (x INT)", "--cuda-memory-usage=true", DAO_ERR_UNSUPPORTED},
        {"CREATE TABLE EVENTS (EVENT JSON)", "UMPIRE_REPLAY=On", DAO_ERR_UNSUPPORTED},
        {"CREATE TABLE t (x INT); CREATE VIEW " TABLE " AS SELECT x AS address FROM t", "has no table",
         DAO_ERR_UNSUPPORTED},
        {"CREATE TABLE " TABLE " (address INT, bytes INT)", "has no column memoryOperationType",
         DAO_ERR_PARSE},
        {"CREATE TABLE " TABLE " (address INT, bytes INT, memoryOperationType INT); INSERT INTO " TABLE
         " VALUES (1, -5, 0)",
         "an event has -5 bytes", DAO_ERR_PARSE},
        {"CREATE TABLE " TABLE " (address TEXT, bytes INT, memoryOperationType INT); INSERT INTO " TABLE
         " VALUES ('x', 5, 0)",
         "no number as its address", DAO_ERR_PARSE},
        {"CREATE TABLE " TABLE " (address INT, bytes INT, memoryOperationType INT)", "no event in it",
         DAO_ERR_PARSE},
    };
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        dao_life_log_t log;
        CU_ASSERT_EQUAL(read_script(others[i].script, &log), others[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), others[i].wanted));
    }
}

static void damaged_databases_do_no_harm(void)
{
    static unsigned char bytes[DATABASE_BYTES_MAX];
    uint64_t seed = dao_test_seed("damaged databases", 20261123);
    size_t length = make_database(GOOD, bytes), refused = 0;
    for (int i = 0; i < DAMAGED_COUNT; i++) {
        dao_life_log_t log;
        size_t at = (size_t)dao_random_below(&seed, length);
        size_t kept = i % 4 == 0 ? (size_t)dao_random_below(&seed, length) + 1 : length;
        unsigned char former = bytes[at];
        bytes[at] = (unsigned char)dao_random_next(&seed);
        dao_test_write_file(dao_test_path, (const char *)bytes, kept);
        bytes[at] = former;
        if (dao_read_event_log(dao_test_path, &log) == DAO_OK) {
            CU_ASSERT(dao_life_log_is_valid(&log));
            dao_life_log_finish(&log);
        } else {
            CU_ASSERT(strlen(dao_last_message()) > 0);
            refused++;
        }
    }
    CU_ASSERT(refused > 0 && refused < DAMAGED_COUNT);
}

static CU_TestInfo tests[] = {
    {"events are read in the order of time", events_are_read_in_the_order_of_time},
    {"a path is taken as it is", a_path_is_taken_as_it_is},
    {"what is cut off is told", what_is_cut_off_is_told},
    {"a packed database is read", a_packed_database_is_read},
    {"columns may be missing", columns_may_be_missing},
    {"what is no such database is told", what_is_no_such_database_is_told},
    {"damaged databases do no harm", damaged_databases_do_no_harm},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"nsys", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
