/* SPDX-License-Identifier: Apache-2.0 */
/* An object of lifetimes, read as it comes: {"id": {"alloc": N, "free": N, "size": N}, ...}. */
#include "tools/read/events/read_lifetimes_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "tools/read/text/json_reader.h"

#include <inttypes.h>
#include <string.h>

enum { FIELD_ALLOC, FIELD_FREE, FIELD_SIZE, FIELD_COUNT };

static const char *const field_names[FIELD_COUNT] = {"alloc", "free", "size"};

/* An object's field while it is read. */
typedef struct entry {
    char *id; /* a copy: the reader's text changes */
    dao_json_position_t position;
    uint64_t values[FIELD_COUNT];
    bool is_seen[FIELD_COUNT];
} entry_t;

static size_t find_field(const char *name)
{
    size_t field = 0;
    while (field < FIELD_COUNT && strcmp(field_names[field], name) != 0) {
        field++;
    }
    return field;
}

static dao_status_t read_field(dao_json_reader_t *json, entry_t *entry)
{
    size_t field = find_field(json->text);
    dao_status_t status = dao_json_next(json);
    if (status != DAO_OK) {
        return status;
    }
    if (field == FIELD_COUNT) {
        return dao_json_skip(json);
    }
    entry->is_seen[field] = true;
    return dao_json_u64(json, &entry->values[field]);
}

static dao_status_t check_entry(const dao_json_reader_t *json, const entry_t *entry)
{
    for (size_t i = 0; i < FIELD_COUNT; i++) {
        if (!entry->is_seen[i]) {
            return dao_json_error_at(json, entry->position, DAO_ERR_PARSE, "this has no \"%s\"",
                                     field_names[i]);
        }
    }
    if (entry->values[FIELD_FREE] < entry->values[FIELD_ALLOC]) {
        return dao_json_error_at(json, entry->position, DAO_ERR_PARSE, "the life ends before it begins");
    }
    return entry->values[FIELD_SIZE] <= DAO_PLAN_SIZE_MAX
               ? DAO_OK
               : dao_json_error_at(json, entry->position, DAO_ERR_PARSE, "its size is more than %" PRIu64,
                                   DAO_PLAN_SIZE_MAX);
}

static dao_status_t read_values(dao_json_reader_t *json, entry_t *entry)
{
    dao_status_t status = dao_json_expect(
        json, DAO_JSON_TOKEN_OBJECT_BEGIN,
        "an object with alloc, free, size (or, of a step in four JSON files, the name of the folder)");
    while (status == DAO_OK) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_OBJECT_END) {
            break;
        }
        status = read_field(json, entry);
    }
    return status == DAO_OK ? check_entry(json, entry) : status;
}

/* Reads what the last token, a key, names. */
static dao_status_t read_entry(dao_json_reader_t *json, dao_plan_input_t *lifetimes)
{
    if (json->text_length == 0 || strpbrk(json->text, ",\r\n") != NULL) {
        return dao_json_error(json, "an id is not empty, and without a comma or a line's end");
    }
    entry_t entry = {.id = dao_host_strdup(json->text), .position = json->position};
    if (entry.id == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no memory to read it", dao_json_name(json));
    }
    dao_status_t status = read_values(json, &entry);
    if (status == DAO_OK) {
        dao_plan_buffer_t buffer = {.begin_time = entry.values[FIELD_ALLOC],
                                    .end_time = entry.values[FIELD_FREE],
                                    .size_bytes = entry.values[FIELD_SIZE],
                                    .fixed_offset = DAO_PLAN_NOWHERE,
                                    .pool = DAO_PLAN_ANY_POOL};
        status = dao_plan_input_add(lifetimes, entry.id, &buffer, NULL);
    }
    dao_host_free(entry.id);
    return status;
}

static dao_status_t read_object(dao_json_reader_t *json, dao_plan_input_t *lifetimes)
{
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object of lifetimes");
    while (status == DAO_OK) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_OBJECT_END) {
            break;
        }
        status = read_entry(json, lifetimes);
    }
    return status == DAO_OK ? dao_json_expect(json, DAO_JSON_TOKEN_END, "the file's end") : status;
}

dao_status_t dao_read_lifetimes_object(const char *path, dao_plan_input_t *lifetimes)
{
    dao_json_reader_t *json = dao_host_calloc(1, sizeof(*json));
    if (json == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    dao_status_t status = dao_json_reader_open(json, path);
    if (status == DAO_OK) {
        status = read_object(json, lifetimes);
        dao_json_reader_close(json);
    }
    dao_host_free(json);
    return status;
}
