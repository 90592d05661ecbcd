/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the databases that nsys exports. The first byte of an input says whether the others are
   such a file; else they are changes to one that is right: how many, then of each the place and the byte that
   comes there. What the first byte says, too, is how much of the end is missing.

   What is read is whole. What is refused has a message. */
#include "tests/fuzz/fuzz_file.h"
#include "tools/read/events/read_events.h"

#include <dao/status.h>

#include <sqlite3.h>
#include <string.h>

enum { DATABASE_BYTES_MAX = 8192, CUT_BYTES = 64, CHANGE_COUNT_MAX = 32 };

static const char script[] =
    "PRAGMA page_size = 512; CREATE TABLE CUDA_GPU_MEMORY_USAGE_EVENTS (start INT, globalPid INT, "
    "deviceId INT, contextId INT, address INT, bytes INT, memKind INT, memoryOperationType INT);"
    "INSERT INTO CUDA_GPU_MEMORY_USAGE_EVENTS VALUES (10, 7, 0, 1, 4096, 1024, 2, 0), "
    "(50, 7, 0, 1, 4096, 1024, 2, 1), (20, 8, 0, 1, 4096, 512, 4, 0), (30, 7, 0, 1, 64, 100000, 1, 0), "
    "(40, 7, 1, 2, -4096, 256, 2, 0), (45, 7, 0, 1, 9, 9, 2, 7), (60, 8, 0, 1, 8192, 32, 2, 1);";

/* The database that is right. */
static unsigned char right[DATABASE_BYTES_MAX];
static size_t right_bytes;

static void make_right(void)
{
    sqlite3 *database = NULL;
    sqlite3_int64 size = 0;
    FUZZ_REQUIRE(sqlite3_open(":memory:", &database) == SQLITE_OK);
    FUZZ_REQUIRE(sqlite3_exec(database, script, NULL, NULL, NULL) == SQLITE_OK);
    unsigned char *bytes = sqlite3_serialize(database, "main", &size, 0);
    FUZZ_REQUIRE(bytes != NULL && size > 0 && size <= DATABASE_BYTES_MAX);
    right_bytes = (size_t)size;
    memcpy(right, bytes, right_bytes);
    sqlite3_free(bytes);
    FUZZ_REQUIRE(sqlite3_close(database) == SQLITE_OK);
}

static void put_changed(const fuzz_file_t *file, fuzz_input_t *input, size_t cut_bytes)
{
    unsigned char changed[DATABASE_BYTES_MAX];
    memcpy(changed, right, right_bytes);
    for (uint32_t left = fuzz_byte(input) % CHANGE_COUNT_MAX; left > 0 && input->left > 0; left--) {
        size_t at = fuzz_word(input) % right_bytes;
        changed[at] = (unsigned char)fuzz_byte(input);
    }
    fuzz_file_put(file, changed, right_bytes - cut_bytes % right_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static fuzz_file_t file; /* of every input */
    fuzz_input_t input = {.next = data, .left = size_bytes};
    if (right_bytes == 0) {
        make_right();
        file = fuzz_file_begin();
    }
    uint32_t form = fuzz_byte(&input);
    if (form % 8 == 7) {
        fuzz_file_put(&file, input.next, input.left);
    } else {
        put_changed(&file, &input, form % 8 == 6 ? form * CUT_BYTES : 0);
    }
    dao_life_log_t log;
    dao_status_t status = dao_read_event_log(file.path, &log);
    if (status == DAO_OK) {
        FUZZ_REQUIRE(dao_life_log_is_valid(&log));
        dao_life_log_finish(&log);
    }
    FUZZ_REQUIRE(status == DAO_OK || strlen(dao_last_message()) > 0);
    return 0;
}
