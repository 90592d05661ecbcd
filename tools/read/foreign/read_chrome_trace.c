/* SPDX-License-Identifier: Apache-2.0 */
/* The profiler writes an instant event "[memory]" for each allocation and free, among millions of others,
   which are stepped over. The order of the file is not that of time, so events are kept and sorted.

       {"ph": "i", "name": "[memory]", "ts": 1669783687464300, "args": {"Device Type": 1, "Device Id": 0,
        "Addr": 139926520725504, "Bytes": 5242880, "Total Allocated": 5435638784}}

   Files before 2022 have no Addr. "Total Allocated" of a device's first event tells how much was alive before
   it. Source of the form: torch/csrc/profiler/collection.cpp of PyTorch. */
#include "tools/read/foreign/foreign.h"

#include "tools/base/decimal.h"
#include "tools/base/grow.h"
#include "tools/read/text/json_reader.h"
#include "tools/read/text/signed_number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { US_TO_NS_PLACES = 3 };

/* Device types of c10/core/DeviceType.h. */
enum { DEVICE_TYPE_CPU = 0, DEVICE_TYPE_CUDA = 1 };

typedef struct memory_event {
    uint64_t time_ns;
    uint64_t number; /* in the order of the file */
    dao_signed_number_t bytes, device_type, device_id;
    uint64_t address;
    uint64_t total_bytes;
    bool is_memory, has_address, has_total, has_time;
} memory_event_t;

typedef struct chrome_reader {
    dao_json_reader_t json;
    memory_event_t *events;
    size_t count, capacity;
    dao_life_log_t *log;
} chrome_reader_t;

/* ---- one event ---- */

static dao_status_t read_count(chrome_reader_t *reader, uint64_t *out_count, bool *out_has)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_NUMBER) {
        status = dao_json_u64(&reader->json, out_count);
        *out_has = true;
        return status;
    }
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

static dao_status_t read_signed(chrome_reader_t *reader, dao_signed_number_t *out_number)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status != DAO_OK || reader->json.token != DAO_JSON_TOKEN_NUMBER) {
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
    return dao_signed_number_read(reader->json.text, out_number)
               ? DAO_OK
               : dao_json_error(&reader->json, "this is no whole number of 64 bits");
}

static dao_status_t read_argument(chrome_reader_t *reader, memory_event_t *event)
{
    const char *key = reader->json.text;
    if (strcmp(key, "Bytes") == 0) {
        return read_signed(reader, &event->bytes);
    }
    if (strcmp(key, "Device Type") == 0) {
        return read_signed(reader, &event->device_type);
    }
    if (strcmp(key, "Device Id") == 0) {
        return read_signed(reader, &event->device_id);
    }
    if (strcmp(key, "Addr") == 0) {
        return read_count(reader, &event->address, &event->has_address);
    }
    if (strcmp(key, "Total Allocated") == 0) {
        return read_count(reader, &event->total_bytes, &event->has_total);
    }
    dao_status_t status = dao_json_next(&reader->json);
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

static dao_status_t read_arguments(chrome_reader_t *reader, memory_event_t *event)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status != DAO_OK || reader->json.token != DAO_JSON_TOKEN_OBJECT_BEGIN) {
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
    status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        status = read_argument(reader, event);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status;
}

/* Reads a time in microseconds; an event whose time is none is told later, if it is one of memory. */
static dao_status_t read_time(chrome_reader_t *reader, memory_event_t *event)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status != DAO_OK || reader->json.token != DAO_JSON_TOKEN_NUMBER) {
        return status == DAO_OK ? dao_json_skip(&reader->json) : status;
    }
    event->has_time =
        reader->json.text[0] != '-' && dao_decimal_scale(reader->json.text, US_TO_NS_PLACES, &event->time_ns);
    return DAO_OK;
}

static dao_status_t read_field(chrome_reader_t *reader, memory_event_t *event)
{
    const char *key = reader->json.text;
    if (strcmp(key, "args") == 0) {
        return read_arguments(reader, event);
    }
    if (strcmp(key, "ts") == 0) {
        return read_time(reader, event);
    }
    bool is_name = strcmp(key, "name") == 0;
    dao_status_t status = dao_json_next(&reader->json);
    if (status == DAO_OK && is_name && reader->json.token == DAO_JSON_TOKEN_STRING) {
        event->is_memory = strcmp(reader->json.text, "[memory]") == 0;
        return DAO_OK;
    }
    return status == DAO_OK ? dao_json_skip(&reader->json) : status;
}

static dao_status_t keep_event(chrome_reader_t *reader, const memory_event_t *event)
{
    if (!event->has_time || event->bytes.magnitude == 0) {
        return dao_json_error(&reader->json, "this [memory] event has no ts, or no Bytes");
    }
    memory_event_t *grown =
        dao_tool_grow(reader->events, &reader->capacity, reader->count, sizeof(*reader->events));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    reader->events = grown;
    grown[reader->count] = *event;
    grown[reader->count].number = reader->count;
    reader->count++;
    return DAO_OK;
}

/* Reads an event, whose bracket was taken. */
static dao_status_t read_event(chrome_reader_t *reader)
{
    memory_event_t event = {0};
    dao_status_t status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        status = read_field(reader, &event);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status == DAO_OK && event.is_memory ? keep_event(reader, &event) : status;
}

/* Reads the list of events, whose bracket was taken. */
static dao_status_t read_events(chrome_reader_t *reader)
{
    dao_status_t status = dao_json_next(&reader->json);
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_OBJECT_BEGIN) {
        status = read_event(reader);
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status == DAO_OK && reader->json.token != DAO_JSON_TOKEN_ARRAY_END
               ? dao_json_error(&reader->json, "expected an event")
               : status;
}

/* The events are a list, or the item "traceEvents" of an object. */
static dao_status_t read_file(chrome_reader_t *reader)
{
    dao_status_t status = dao_json_next(&reader->json);
    if (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN) {
        return read_events(reader);
    }
    if (status == DAO_OK && reader->json.token != DAO_JSON_TOKEN_OBJECT_BEGIN) {
        return dao_json_error(&reader->json, "expected an object or a list of events");
    }
    status = status == DAO_OK ? dao_json_next(&reader->json) : status;
    while (status == DAO_OK && reader->json.token == DAO_JSON_TOKEN_KEY) {
        bool is_events = strcmp(reader->json.text, "traceEvents") == 0;
        status = dao_json_next(&reader->json);
        if (status == DAO_OK) {
            status = is_events && reader->json.token == DAO_JSON_TOKEN_ARRAY_BEGIN
                         ? read_events(reader)
                         : dao_json_skip(&reader->json);
        }
        if (status == DAO_OK) {
            status = dao_json_next(&reader->json);
        }
    }
    return status;
}

/* ---- all events ---- */

static int by_time(const void *left, const void *right)
{
    const memory_event_t *a = left;
    const memory_event_t *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return a->number < b->number ? -1 : a->number > b->number;
}

/* What each device has besides its events: a space, and what its first event says of the time before. */
typedef struct devices {
    uint32_t *spaces; /* of each device, plus 1 */
    uint64_t *before_bytes;
} devices_t;

static void name_device(const memory_event_t *event, char out_name[DAO_LIFE_DEVICE_NAME_BYTES])
{
    uint64_t type = event->device_type.magnitude;
    if (type == DEVICE_TYPE_CPU) {
        (void)snprintf(out_name, DAO_LIFE_DEVICE_NAME_BYTES, "cpu");
    } else if (type == DEVICE_TYPE_CUDA) {
        (void)snprintf(out_name, DAO_LIFE_DEVICE_NAME_BYTES, "%" PRIu64, event->device_id.magnitude);
    } else {
        (void)snprintf(out_name, DAO_LIFE_DEVICE_NAME_BYTES, "%" PRIu64 ":%" PRIu64, type,
                       event->device_id.magnitude);
    }
}

static dao_status_t find_space(chrome_reader_t *reader, devices_t *devices, const memory_event_t *event,
                               uint32_t *out_space)
{
    char name[DAO_LIFE_DEVICE_NAME_BYTES];
    uint32_t device = 0;
    name_device(event, name);
    dao_status_t status = dao_life_log_device(reader->log, name, &device);
    if (status == DAO_OK && devices->spaces[device] == 0) {
        status =
            dao_life_log_space(reader->log, device,
                               event->has_address ? DAO_LIFE_KEYS_ADDRESSES : DAO_LIFE_KEYS_SIZES, out_space);
        devices->spaces[device] = *out_space + 1;
        uint64_t added = event->bytes.is_negative ? 0 : event->bytes.magnitude;
        uint64_t after = event->total_bytes + (event->bytes.is_negative ? event->bytes.magnitude : 0);
        devices->before_bytes[device] = event->has_total && after > added ? after - added : 0;
    }
    *out_space = status == DAO_OK ? devices->spaces[device] - 1 : 0;
    return status;
}

static dao_status_t replay_events(chrome_reader_t *reader, devices_t *devices)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < reader->count && status == DAO_OK; i++) {
        const memory_event_t *event = &reader->events[i];
        uint32_t space = 0;
        uint64_t size_bytes = event->bytes.magnitude;
        status = find_space(reader, devices, event, &space);
        uint64_t key = event->has_address ? event->address : size_bytes;
        if (status == DAO_OK) {
            status = event->bytes.is_negative ? dao_life_log_free(reader->log, space, key, size_bytes)
                                              : dao_life_log_alloc(reader->log, space, key, size_bytes);
        }
    }
    return status;
}

/* What was alive before, and was not freed: one buffer without a name. */
static dao_status_t add_before(chrome_reader_t *reader, const devices_t *devices)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < reader->log->device_count && status == DAO_OK; i++) {
        const dao_event_file_t *events = &reader->log->devices[i].events;
        uint64_t left_bytes = devices->before_bytes[i];
        uint32_t space = 0;
        for (size_t k = 0; k < events->tensor_count; k++) {
            uint64_t size_bytes = events->tensors[k].is_before ? events->tensors[k].size_bytes : 0;
            left_bytes -= size_bytes < left_bytes ? size_bytes : left_bytes;
        }
        if (left_bytes > 0) {
            status = dao_life_log_space(reader->log, i, DAO_LIFE_KEYS_SIZES, &space);
        }
        if (status == DAO_OK && left_bytes > 0) {
            status = dao_life_log_resident(reader->log, space, left_bytes, left_bytes);
        }
    }
    return status;
}

static dao_status_t take_events(chrome_reader_t *reader)
{
    devices_t devices = {.spaces = dao_host_calloc(DAO_LIFE_DEVICE_COUNT_MAX, sizeof(*devices.spaces)),
                         .before_bytes =
                             dao_host_calloc(DAO_LIFE_DEVICE_COUNT_MAX, sizeof(*devices.before_bytes))};
    dao_status_t status = devices.spaces != NULL && devices.before_bytes != NULL
                              ? DAO_OK
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the devices");
    if (reader->count > 0) {
        qsort(reader->events, reader->count, sizeof(*reader->events), by_time);
    }
    if (status == DAO_OK) {
        status = replay_events(reader, &devices);
    }
    if (status == DAO_OK) {
        status = add_before(reader, &devices);
    }
    dao_host_free(devices.spaces);
    dao_host_free(devices.before_bytes);
    return status;
}

dao_status_t dao_read_chrome_trace(const char *path, dao_life_log_t *log)
{
    chrome_reader_t reader = {.log = log};
    dao_status_t status = dao_json_reader_open(&reader.json, path);
    if (status != DAO_OK) {
        return status;
    }
    status = read_file(&reader);
    if (status == DAO_OK && reader.count == 0) {
        status = dao_json_error(&reader.json,
                                "no event is called [memory]; record with profile(profile_memory=True)");
    }
    if (status == DAO_OK) {
        status = dao_json_expect(&reader.json, DAO_JSON_TOKEN_END, "the end of the file");
    }
    dao_json_reader_close(&reader.json);
    if (status == DAO_OK) {
        status = take_events(&reader);
    }
    dao_host_free(reader.events);
    return status;
}
