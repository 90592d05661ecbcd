/* SPDX-License-Identifier: Apache-2.0 */
/* A JSON object a line, its keys in any order:

       {"category": "operation", "name": "allocate", "numeric_args": {"size": 128},
        "string_args": {"allocator_ref": "0x10", "pointer": "0x20"}, "tags": {...}, "timestamp": 1656026907}

   The rules are those of Umpire's tool `replay`: a block is named by its allocator and its address; a
   reallocate is two lines, and what stands between them is its inside. What an allocator takes from the one
   below it is not in the file. A device is the resource that an allocator stands on. */
#include "tools/read/foreign/foreign.h"

#include "tools/read/text/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_BYTES = 256 };

typedef struct line {
    char category[TEXT_BYTES], name[TEXT_BYTES], allocator[TEXT_BYTES], allocator_name[TEXT_BYTES];
    char below[TEXT_BYTES]; /* the allocator that this one stands on */
    char pointer[TEXT_BYTES], current[TEXT_BYTES], moved_to[TEXT_BYTES];
    uint64_t size_bytes;
    bool has_size;
} line_t;

typedef struct umpire_reader {
    dao_json_reader_t json;
    dao_id_map_t spaces;  /* reference of an allocator -> its space */
    dao_id_map_t devices; /* name of an allocator -> its device */
    line_t line;
    bool is_inside; /* of a reallocate, which was taken to be */
    line_t reallocate;
    dao_life_log_t *log;
} umpire_reader_t;

/* ---- a line ---- */

static dao_status_t read_text(umpire_reader_t *reader, char out_text[TEXT_BYTES])
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_STRING) {
        if (reader->json.text_length >= TEXT_BYTES) {
            return dao_json_error(&reader->json, "a text of more than %d bytes", TEXT_BYTES - 1);
        }
        memcpy(out_text, reader->json.text, reader->json.text_length + 1);
        return DAO_OK;
    }
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

static dao_status_t read_size(umpire_reader_t *reader)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_NUMBER, "a number of bytes");
    reader->line.has_size = true;
    return status == DAO_OK ? dao_json_u64(&reader->json, &reader->line.size_bytes) : status;
}

static dao_status_t read_item(umpire_reader_t *reader)
{
    line_t *line = &reader->line;
    const struct {
        const char *key;
        char *text;
    } texts[] = {{"allocator_ref", line->allocator},
                 {"allocator_name", line->allocator_name},
                 {"arg0", line->below},
                 {"pointer", line->pointer},
                 {"current_ptr", line->current},
                 {"new_ptr", line->moved_to}};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (strcmp(reader->json.text, texts[i].key) == 0) {
            return read_text(reader, texts[i].text);
        }
    }
    if (strcmp(reader->json.text, "size") == 0) {
        return read_size(reader);
    }
    dao_status_t status = dao_json_next(&reader->json);
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

/* Reads the arguments, which stand in objects of their own. */
static dao_status_t read_items(umpire_reader_t *reader)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status != DAO_OK || reader->json.token != DAO_JSON_TOKEN_OBJECT_BEGIN) {
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
    status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        status = read_item(reader);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status;
}

static dao_status_t read_line(umpire_reader_t *reader)
{
    reader->line = (line_t){0};
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object");
    status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        bool is_category = strcmp(reader->json.text, "category") == 0;
        bool is_name = strcmp(reader->json.text, "name") == 0;
        status = is_category ? read_text(reader, reader->line.category)
                 : is_name   ? read_text(reader, reader->line.name)
                             : read_items(reader);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status;
}

/* ---- allocators ---- */

/* Finds the device of an allocator by its name, or makes it the device of that name. */
static dao_status_t find_device(umpire_reader_t *reader, const char *name, uint32_t *out_device)
{
    uint64_t device = 0;
    if (dao_id_map_find(&reader->devices, name, strlen(name), &device)) {
        *out_device = (uint32_t)device;
        return DAO_OK;
    }
    return dao_life_log_device(reader->log, name, out_device);
}

/* Enters an allocator. One that was destroyed may have had its reference before: it is another one now. */
static dao_status_t add_allocator(umpire_reader_t *reader)
{
    const line_t *line = &reader->line;
    const char *base = line->below[0] != '\0' ? line->below : line->allocator_name;
    uint32_t device = 0, space = 0;
    uint64_t known = 0;
    bool is_found = false;
    dao_status_t status = find_device(reader, base, &device);
    if (status == DAO_OK) {
        status = dao_id_map_add(&reader->devices, line->allocator_name, strlen(line->allocator_name), device,
                                &is_found, &known);
    }
    if (status == DAO_OK &&
        !dao_id_map_find(&reader->spaces, line->allocator, strlen(line->allocator), &known)) {
        status = dao_life_log_space(reader->log, device, DAO_LIFE_KEYS_ADDRESSES, &space);
        if (status == DAO_OK) {
            status = dao_id_map_add(&reader->spaces, line->allocator, strlen(line->allocator), space,
                                    &is_found, &known);
        }
    }
    return status;
}

static dao_status_t find_space(umpire_reader_t *reader, uint32_t *out_space)
{
    uint64_t space = 0;
    const char *allocator = reader->line.allocator;
    if (!dao_id_map_find(&reader->spaces, allocator, strlen(allocator), &space)) {
        return dao_json_error(&reader->json, "no line before makes the allocator %.40s", allocator);
    }
    *out_space = (uint32_t)space;
    return DAO_OK;
}

/* ---- operations ---- */

static dao_status_t read_address(umpire_reader_t *reader, const char *text, uint64_t *out_address)
{
    return dao_foreign_address(text, out_address)
               ? DAO_OK
               : dao_json_error(&reader->json, "\"%.40s\" is no address", text);
}

/* Takes an allocation or a free. */
static dao_status_t take_block(umpire_reader_t *reader, bool is_alloc)
{
    uint32_t space = 0;
    uint64_t address = 0;
    dao_status_t status = find_space(reader, &space);
    if (status == DAO_OK) {
        status = read_address(reader, reader->line.pointer, &address);
    }
    if (status == DAO_OK && is_alloc && !reader->line.has_size) {
        return dao_json_error(&reader->json, "an allocation has no size");
    }
    if (status != DAO_OK) {
        return status;
    }
    return is_alloc ? dao_life_log_alloc(reader->log, space, address, reader->line.size_bytes)
                    : dao_life_log_free(reader->log, space, address, 0);
}

/* Takes the second line of a reallocate: the block of the first ends, one of the new size begins. */
static dao_status_t end_reallocate(umpire_reader_t *reader)
{
    uint64_t old_address = 0, address = 0;
    uint32_t space = 0;
    dao_status_t status = find_space(reader, &space);
    reader->is_inside = false;
    if (status == DAO_OK) {
        status = read_address(reader, reader->reallocate.current, &old_address);
    }
    if (status == DAO_OK) {
        status = read_address(reader, reader->line.moved_to, &address);
    }
    if (status == DAO_OK && old_address != 0) {
        status = dao_life_log_free(reader->log, space, old_address, 0);
    }
    return status == DAO_OK ? dao_life_log_alloc(reader->log, space, address, reader->reallocate.size_bytes)
                            : status;
}

static dao_status_t take_reallocate(umpire_reader_t *reader)
{
    if (reader->line.moved_to[0] != '\0') {
        return reader->is_inside ? end_reallocate(reader)
                                 : dao_json_error(&reader->json, "a reallocate ends that has not begun");
    }
    reader->is_inside = true;
    reader->reallocate = reader->line;
    return DAO_OK;
}

static dao_status_t take_line(umpire_reader_t *reader)
{
    const char *name = reader->line.name;
    bool is_alloc = strcmp(name, "allocate") == 0 || strcmp(name, "named_allocate") == 0;
    bool is_free = strcmp(name, "deallocate") == 0;
    if (strcmp(reader->line.category, "operation") != 0) {
        return DAO_OK;
    }
    if (strcmp(name, "make_memory_resource") == 0 || strcmp(name, "make_allocator") == 0) {
        return add_allocator(reader);
    }
    if (strcmp(name, "reallocate") == 0) {
        return take_reallocate(reader);
    }
    return (is_alloc || is_free) && !reader->is_inside ? take_block(reader, is_alloc) : DAO_OK;
}

dao_status_t dao_read_umpire(const char *path, dao_life_log_t *log)
{
    umpire_reader_t reader = {.log = log};
    bool has_more = true;
    dao_status_t status = dao_json_reader_open(&reader.json, path);
    if (status != DAO_OK) {
        return status;
    }
    dao_id_map_init(&reader.spaces);
    dao_id_map_init(&reader.devices);
    while (status == DAO_OK) {
        status = dao_json_next_document(&reader.json, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        status = read_line(&reader);
        if (status == DAO_OK) {
            status = take_line(&reader);
        }
    }
    dao_id_map_finish(&reader.spaces);
    dao_id_map_finish(&reader.devices);
    dao_json_reader_close(&reader.json);
    return status;
}
