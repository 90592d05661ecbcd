/* SPDX-License-Identifier: Apache-2.0 */
/* The database that `nsys export --type sqlite` makes of a run with --cuda-memory-usage=true. A row is an
   allocation or a free of the driver:

       CUDA_GPU_MEMORY_USAGE_EVENTS
           start  globalPid  contextId  deviceId  address  bytes  memKind      memoryOperationType
                                                                  0, 1: host   0: allocate, 1: free

   Addresses are unique in a context of a process. A column that nothing was written to is left out of the
   table. Source: the schema in the user guide of Nsight Systems, and what its users read from it. No module
   is loaded and no view is run: a file cannot have code executed. */
#define _POSIX_C_SOURCE 200809L /* O_CLOEXEC, pread */
#include "tools/read/foreign/foreign.h"

#include "base/report/error.h"

#if defined(DAO_HAS_SQLITE)

#include "base/memory/host.h"
#include "base/report/format.h"
#include "tools/read/bytes/standard_input.h"
#include "tools/read/bytes/text_source.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define TABLE "CUDA_GPU_MEMORY_USAGE_EVENTS"

enum { KIND_PINNED = 1, OPERATION_ALLOC = 0, OPERATION_FREE = 1, URI_PATH_BYTES = 4096 };
enum { PAGE_BYTES_AT = 16 }; /* in the head of a database: two bytes, the high one first */

static const char magic[16] = "SQLite format 3";

typedef enum column {
    COLUMN_ADDRESS,
    COLUMN_BYTES,
    COLUMN_OPERATION,
    COLUMN_REQUIRED_COUNT,
    COLUMN_PROCESS = COLUMN_REQUIRED_COUNT,
    COLUMN_CONTEXT,
    COLUMN_DEVICE,
    COLUMN_KIND,
    COLUMN_START,
    COLUMN_COUNT,
} column_t;

static const char *const column_names[COLUMN_COUNT] = {
    [COLUMN_ADDRESS] = "address",
    [COLUMN_BYTES] = "bytes",
    [COLUMN_OPERATION] = "memoryOperationType",
    [COLUMN_PROCESS] = "globalPid",
    [COLUMN_CONTEXT] = "contextId",
    [COLUMN_DEVICE] = "deviceId",
    [COLUMN_KIND] = "memKind",
    [COLUMN_START] = "start",
};

typedef struct nsys {
    const char *path;
    unsigned char *bytes; /* of what is no plain file */
    size_t byte_count;
    sqlite3 *database;
    sqlite3_stmt *statement;
    bool has_column[COLUMN_COUNT];
    dao_id_map_t spaces; /* process, context and device -> space */
    dao_life_log_t *log;
} nsys_t;

DAO_PRINTF(3, 4)
static dao_status_t wrong(const nsys_t *nsys, dao_status_t status, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(status, "%.200s: %s", nsys->path, what);
}

/* What SQLite says is wrong: never bytes of the file. */
static dao_status_t refuse(const nsys_t *nsys, int code)
{
    return code == SQLITE_NOMEM
               ? wrong(nsys, DAO_ERR_NO_HOST_MEMORY, "no memory to read the database")
               : wrong(nsys, DAO_ERR_PARSE, "the database cannot be read: %s", sqlite3_errstr(code));
}

/* ---- the database ---- */

static dao_status_t read_bytes(nsys_t *nsys)
{
    dao_text_source_t source;
    dao_status_t status = dao_text_source_open(&source, nsys->path);
    size_t capacity = 0, taken = 0;
    if (status != DAO_OK) {
        return status;
    }
    do {
        capacity = capacity == 0 ? DAO_TEXT_SOURCE_BYTES : 2 * capacity;
        unsigned char *grown = dao_host_realloc(nsys->bytes, capacity, 1);
        if (grown == NULL) {
            status = wrong(nsys, DAO_ERR_NO_HOST_MEMORY, "no memory for %zu bytes of a database", capacity);
            break;
        }
        nsys->bytes = grown;
        status = dao_text_source_read(&source, grown + nsys->byte_count, capacity - nsys->byte_count, &taken);
        nsys->byte_count += taken;
    } while (status == DAO_OK && nsys->byte_count == capacity);
    dao_text_source_close(&source);
    return status;
}

/* Standard input or a packed file: SQLite is given all of its bytes. */
static dao_status_t open_bytes(nsys_t *nsys, int *out_code)
{
    dao_status_t status = read_bytes(nsys);
    if (status != DAO_OK) {
        return status;
    }
    int code = sqlite3_open_v2(":memory:", &nsys->database, SQLITE_OPEN_READWRITE, NULL);
    if (code == SQLITE_OK) {
        code = sqlite3_deserialize(nsys->database, "main", nsys->bytes, (sqlite3_int64)nsys->byte_count,
                                   (sqlite3_int64)nsys->byte_count, SQLITE_DESERIALIZE_READONLY);
    }
    *out_code = code;
    return DAO_OK;
}

/* Looks whether a file begins as a database does, so that it is not packed and SQLite may read it. SQLite
   takes what lacks of the last page for zeros. */
static dao_status_t look_at_file(const nsys_t *nsys, bool *out_is_plain)
{
    unsigned char head[PAGE_BYTES_AT + 2] = "";
    struct stat about = {0};
    int file =
        dao_path_is_standard_input(nsys->path) ? -1 : open(nsys->path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
    *out_is_plain = file >= 0 && fstat(file, &about) == 0 &&
                    pread(file, head, sizeof(head), 0) == (ssize_t)sizeof(head) &&
                    memcmp(head, magic, sizeof(magic)) == 0 && strlen(nsys->path) < URI_PATH_BYTES;
    if (file >= 0) {
        (void)close(file); /* it was only read */
    }
    unsigned page_bytes = (unsigned)head[PAGE_BYTES_AT] << 8 | head[PAGE_BYTES_AT + 1];
    page_bytes = page_bytes == 1 ? 65536 : page_bytes; /* which two bytes do not hold */
    return *out_is_plain && page_bytes > 0 && about.st_size % (off_t)page_bytes != 0
               ? wrong(nsys, DAO_ERR_PARSE, "the database is cut off within a page of %u bytes", page_bytes)
               : DAO_OK;
}

/* Opens a database that is only read, page by page where it is a file, and trusts nothing in it. As it does
   not change meanwhile, no lock and no journal is looked for. */
static int open_file(nsys_t *nsys)
{
    static const char end[] = "?mode=ro&immutable=1";
    char uri[64 + 3 * (size_t)URI_PATH_BYTES];
    size_t length = (size_t)snprintf(uri, sizeof(uri), nsys->path[0] == '/' ? "file://" : "file:");
    for (const char *at = nsys->path; *at != '\0'; at++) {
        bool is_plain_letter = strchr("%?#", *at) == NULL;
        length +=
            (size_t)snprintf(uri + length, sizeof(uri) - length, is_plain_letter ? "%c" : "%%%02X", *at);
    }
    memcpy(uri + length, end, sizeof(end));
    return sqlite3_open_v2(uri, &nsys->database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
}

static dao_status_t open_database(nsys_t *nsys)
{
    int code = SQLITE_OK;
    bool is_plain = false;
    dao_status_t status = look_at_file(nsys, &is_plain);
    if (status == DAO_OK && is_plain) {
        code = open_file(nsys);
    } else if (status == DAO_OK) {
        status = open_bytes(nsys, &code);
    }
    if (status != DAO_OK) {
        return status;
    }
    if (code == SQLITE_OK) {
        code = sqlite3_db_config(nsys->database, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_db_config(nsys->database, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    }
    if (code == SQLITE_OK) {
        code = sqlite3_db_config(nsys->database, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    }
    return code == SQLITE_OK ? DAO_OK : refuse(nsys, code);
}

static void close_database(nsys_t *nsys)
{
    (void)sqlite3_finalize(nsys->statement); /* answers what the last step answered */
    (void)sqlite3_close(nsys->database);     /* has no statement any more */
    dao_host_free(nsys->bytes);
}

static dao_status_t prepare(nsys_t *nsys, const char *query)
{
    (void)sqlite3_finalize(nsys->statement); /* was stepped to its end */
    nsys->statement = NULL;
    int code = sqlite3_prepare_v2(nsys->database, query, -1, &nsys->statement, NULL);
    return code == SQLITE_OK ? DAO_OK : refuse(nsys, code);
}

/* Takes the next row. */
static dao_status_t next_row(nsys_t *nsys, bool *out_more)
{
    int code = sqlite3_step(nsys->statement);
    *out_more = code == SQLITE_ROW;
    return code == SQLITE_ROW || code == SQLITE_DONE ? DAO_OK : refuse(nsys, code);
}

/* ---- columns ---- */

static dao_status_t check_columns(const nsys_t *nsys, bool has_table, bool is_umpire)
{
    if (is_umpire && !has_table) {
        return wrong(nsys, DAO_ERR_UNSUPPORTED,
                     "this is a database of Umpire; set UMPIRE_REPLAY=On for its JSON lines");
    }
    if (!has_table) {
        return wrong(nsys, DAO_ERR_UNSUPPORTED,
                     "this database has no table " TABLE
                     ": of nsys, profile with --cuda-memory-usage=true and export with --type sqlite");
    }
    for (column_t i = 0; i < COLUMN_REQUIRED_COUNT; i++) {
        if (!nsys->has_column[i]) {
            return wrong(nsys, DAO_ERR_PARSE, TABLE " has no column %s", column_names[i]);
        }
    }
    return DAO_OK;
}

static dao_status_t find_columns(nsys_t *nsys)
{
    bool has_more = true, has_table = false, is_umpire = false;
    dao_status_t status = prepare(nsys, "SELECT t.name, c.name FROM pragma_table_list AS t, "
                                        "pragma_table_info(t.name) AS c WHERE t.type = 'table' AND "
                                        "t.name IN ('" TABLE "', 'EVENTS')");
    while (status == DAO_OK && has_more) {
        status = next_row(nsys, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        const char *table = (const char *)sqlite3_column_text(nsys->statement, 0);
        const char *column = (const char *)sqlite3_column_text(nsys->statement, 1);
        bool is_ours = table != NULL && strcmp(table, TABLE) == 0;
        has_table = has_table || is_ours;
        is_umpire = is_umpire || !is_ours;
        for (column_t i = 0; is_ours && column != NULL && i < COLUMN_COUNT; i++) {
            nsys->has_column[i] = nsys->has_column[i] || strcmp(column, column_names[i]) == 0;
        }
    }
    return status == DAO_OK ? check_columns(nsys, has_table, is_umpire) : status;
}

static dao_status_t query_events(nsys_t *nsys)
{
    char query[1024] = "SELECT ";
    size_t used = strlen(query);
    for (column_t i = 0; i < COLUMN_COUNT; i++) {
        used += (size_t)snprintf(query + used, sizeof(query) - used, "%s%s", i > 0 ? ", " : "",
                                 nsys->has_column[i] ? column_names[i] : "NULL");
    }
    (void)snprintf(query + used, sizeof(query) - used, " FROM " TABLE " ORDER BY %srowid",
                   nsys->has_column[COLUMN_START] ? "start, " : "");
    return prepare(nsys, query);
}

/* ---- events ---- */

/* Writes the name of the device that a row is about. */
static void name_device(const nsys_t *nsys, char out_name[DAO_LIFE_DEVICE_NAME_BYTES])
{
    sqlite3_stmt *row = nsys->statement;
    bool is_host = nsys->has_column[COLUMN_KIND] && sqlite3_column_int64(row, COLUMN_KIND) <= KIND_PINNED;
    (void)snprintf(out_name, DAO_LIFE_DEVICE_NAME_BYTES, "%" PRId64,
                   (int64_t)sqlite3_column_int64(row, COLUMN_DEVICE)); /* 0 where there is none */
    if (is_host) {
        (void)snprintf(out_name, DAO_LIFE_DEVICE_NAME_BYTES, "host");
    }
}

static dao_status_t find_space(nsys_t *nsys, uint32_t *out_space)
{
    char name[DAO_LIFE_DEVICE_NAME_BYTES], key[128];
    uint64_t space = 0;
    uint32_t device = 0;
    bool is_found = false;
    name_device(nsys, name);
    int length = snprintf(key, sizeof(key), "%" PRId64 "/%" PRId64 "/%s",
                          (int64_t)sqlite3_column_int64(nsys->statement, COLUMN_PROCESS),
                          (int64_t)sqlite3_column_int64(nsys->statement, COLUMN_CONTEXT), name);
    if (dao_id_map_find(&nsys->spaces, key, (size_t)length, &space)) {
        *out_space = (uint32_t)space;
        return DAO_OK;
    }
    dao_status_t status = dao_life_log_device(nsys->log, name, &device);
    if (status == DAO_OK) {
        status = dao_life_log_space(nsys->log, device, DAO_LIFE_KEYS_ADDRESSES, out_space);
    }
    return status == DAO_OK
               ? dao_id_map_add(&nsys->spaces, key, (size_t)length, *out_space, &is_found, &space)
               : status;
}

static bool has_number(const nsys_t *nsys, column_t column)
{
    return sqlite3_column_type(nsys->statement, (int)column) == SQLITE_INTEGER;
}

static dao_status_t take_event(nsys_t *nsys)
{
    uint32_t space = 0;
    for (column_t i = 0; i < COLUMN_REQUIRED_COUNT; i++) {
        if (!has_number(nsys, i)) {
            return wrong(nsys, DAO_ERR_PARSE, "an event has no number as its %s", column_names[i]);
        }
    }
    int64_t operation = sqlite3_column_int64(nsys->statement, COLUMN_OPERATION);
    int64_t bytes = sqlite3_column_int64(nsys->statement, COLUMN_BYTES);
    uint64_t address = (uint64_t)sqlite3_column_int64(nsys->statement, COLUMN_ADDRESS);
    if (bytes < 0) {
        return wrong(nsys, DAO_ERR_PARSE, "an event has %" PRId64 " bytes", bytes);
    }
    dao_status_t status = find_space(nsys, &space);
    if (status != DAO_OK) {
        return status;
    }
    if (operation == OPERATION_ALLOC) {
        return dao_life_log_alloc(nsys->log, space, address, (uint64_t)bytes);
    }
    if (operation == OPERATION_FREE) {
        return dao_life_log_free(nsys->log, space, address, (uint64_t)bytes);
    }
    dao_life_log_counts(nsys->log, space)->ignored_count++;
    return DAO_OK;
}

dao_status_t dao_read_nsys(const char *path, dao_life_log_t *log)
{
    nsys_t nsys = {.path = path, .log = log};
    bool has_more = true;
    dao_id_map_init(&nsys.spaces);
    dao_status_t status = open_database(&nsys);
    if (status == DAO_OK) {
        status = find_columns(&nsys);
    }
    if (status == DAO_OK) {
        status = query_events(&nsys);
    }
    while (status == DAO_OK && has_more) {
        status = next_row(&nsys, &has_more);
        if (status == DAO_OK && has_more) {
            status = take_event(&nsys);
        }
    }
    close_database(&nsys);
    dao_id_map_finish(&nsys.spaces);
    return status;
}

#else

dao_status_t dao_read_nsys(const char *path, dao_life_log_t *log)
{
    (void)log; /* nothing is read */
    return dao_error(DAO_ERR_UNSUPPORTED,
                     "%.200s: this is an SQLite database, and dao was built without libsqlite3; of nsys, "
                     "export a CSV; of Umpire, set UMPIRE_REPLAY=On for its JSON lines",
                     path);
}

#endif
