/* SPDX-License-Identifier: Apache-2.0 */
/* A snapshot has two parts: `device_traces`, a ring of the last events of each device, and `segments`, what
   its caching allocator holds at the end. The events are replayed; an active block that they have not made
   was alive before the window. Sizes are those that the program asked for.

   An entry of a list of events is replayed as soon as it was read, and not kept: windows have millions of
   them. Which device the list belongs to is known at the end of the file alone; until then the device has
   the name of a trace.

       device_traces   [ [TAKEN 1] [] [TAKEN 0] ]     trace 1 is of device 0, trace 0 of device 2

       free_requested .. free_completed     one free; between them another stream still uses the block
       active_pending_free                  a block between the two: it is used

   Source of the form: torch/csrc/cuda/memory_snapshot.cpp and torch/cuda/_memory_viz.py of PyTorch. */
#include "tools/read/foreign/foreign.h"

#include "base/report/error.h"
#include "base/report/format.h"
#include "tools/read/foreign/snapshot_stacks.h"
#include "tools/read/foreign/values/json_values.h"
#include "tools/read/foreign/values/pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef enum key {
    KEY_SEGMENTS,
    KEY_DEVICE_TRACES,
    KEY_BLOCKS,
    KEY_DEVICE,
    KEY_ADDRESS,
    KEY_TOTAL_SIZE,
    KEY_SIZE,
    KEY_REQUESTED_SIZE,
    KEY_STATE,
    KEY_HISTORY,
    KEY_REAL_SIZE,
    KEY_ACTION,
    KEY_ADDR,
    KEY_FRAMES, /* these and those of frames only where labels are kept */
    KEY_CATEGORY,
    KEY_COUNT = DAO_SNAPSHOT_KEY_LINE + 1,
} entry_key_t;

#define KEYS                                                                                                 \
    [KEY_SEGMENTS] = "segments", [KEY_DEVICE_TRACES] = "device_traces", [KEY_BLOCKS] = "blocks",             \
    [KEY_DEVICE] = "device", [KEY_ADDRESS] = "address", [KEY_TOTAL_SIZE] = "total_size",                     \
    [KEY_SIZE] = "size", [KEY_REQUESTED_SIZE] = "requested_size", [KEY_STATE] = "state",                     \
    [KEY_HISTORY] = "history", [KEY_REAL_SIZE] = "real_size", [KEY_ACTION] = "action", [KEY_ADDR] = "addr"

static const char *const keys[] = {KEYS, NULL};
static const char *const all_keys[] = {KEYS,
                                       [KEY_FRAMES] = "frames",
                                       [KEY_CATEGORY] = "category",
                                       [DAO_SNAPSHOT_KEY_NAME] = "name",
                                       [DAO_SNAPSHOT_KEY_FILENAME] = "filename",
                                       [DAO_SNAPSHOT_KEY_LINE] = "line",
                                       [KEY_COUNT] = NULL};

typedef struct snapshot {
    const char *path;
    dao_value_store_t store;
    dao_life_log_t *log;
    dao_snapshot_stacks_t stacks;
    uint32_t trace_count; /* whose devices are the first of the log */
} snapshot_t;

DAO_PRINTF(2, 3) static dao_status_t wrong(const snapshot_t *snapshot, const char *format, ...)
{
    char what[DAO_ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return dao_error(DAO_ERR_PARSE, "%.200s: %s", snapshot->path, what);
}

/* Finds the space of a device, or makes it; there is one a device, so both have one number. */
static dao_status_t find_space(const snapshot_t *snapshot, const char *name, uint32_t *out_space)
{
    dao_status_t status = dao_life_log_device(snapshot->log, name, out_space);
    while (status == DAO_OK && snapshot->log->space_count <= *out_space) {
        uint32_t made;
        status = dao_life_log_space(snapshot->log, (uint32_t)snapshot->log->space_count,
                                    DAO_LIFE_KEYS_ADDRESSES, &made);
    }
    return status;
}

/* ---- what made a block ---- */

/* Says what an entry or a block tells of the block at an address, if that is wanted. */
static dao_status_t take_label(snapshot_t *snapshot, uint32_t space, uint64_t address, dao_value_t item)
{
    const dao_value_store_t *store = &snapshot->store;
    dao_event_label_t label = {0};
    if (!snapshot->log->keeps_labels) {
        return DAO_OK;
    }
    dao_event_file_t *events = dao_life_log_events(snapshot->log, space);
    dao_status_t status = dao_snapshot_stacks_label(&snapshot->stacks, store, space,
                                                    dao_value_get(store, item, KEY_FRAMES), events, &label);
    if (status == DAO_OK) {
        status = dao_event_file_find_text(
            events, dao_value_text(store, dao_value_get(store, item, KEY_CATEGORY)), &label.tag);
    }
    return status == DAO_OK ? dao_life_log_label(snapshot->log, space, address, &label) : status;
}

/* ---- the events ---- */

static dao_status_t take_entry(snapshot_t *snapshot, uint32_t space, dao_value_t entry)
{
    const dao_value_store_t *store = &snapshot->store;
    const char *action = dao_value_text(store, dao_value_get(store, entry, KEY_ACTION));
    dao_life_counts_t *counts = dao_life_log_counts(snapshot->log, space);
    uint64_t address = 0, size_bytes = 0;
    bool is_alloc = strcmp(action, "alloc") == 0;
    bool is_free = strcmp(action, "free_completed") == 0 || strcmp(action, "free") == 0;
    if (strcmp(action, "oom") == 0) {
        counts->refused_count++;
        return DAO_OK;
    }
    if (!is_alloc && !is_free) {
        counts->ignored_count += strcmp(action, "free_requested") != 0;
        return DAO_OK;
    }
    if (!dao_value_get_count(store, entry, KEY_ADDR, &address) ||
        !dao_value_get_count(store, entry, KEY_SIZE, &size_bytes)) {
        return wrong(snapshot, "an entry \"%s\" has no addr or no size", action);
    }
    if (is_free) {
        return dao_life_log_free(snapshot->log, space, address, size_bytes);
    }
    dao_status_t status = dao_life_log_alloc(snapshot->log, space, address, size_bytes);
    return status == DAO_OK ? take_label(snapshot, space, address, entry) : status;
}

static void write_trace_name(uint64_t number, char name[DAO_LIFE_DEVICE_NAME_BYTES])
{
    (void)snprintf(name, DAO_LIFE_DEVICE_NAME_BYTES, "trace %" PRIu64, number);
}

/* Finds the space of a list of events by its first item, or makes it with the first event. */
static dao_status_t find_trace(snapshot_t *snapshot, dao_value_t list, uint32_t *out_space)
{
    dao_value_list_t items = dao_value_list(&snapshot->store, list);
    char name[DAO_LIFE_DEVICE_NAME_BYTES];
    if (items.count > 0 && items.items[0].type == DAO_VALUE_TYPE_TAKEN) {
        *out_space = (uint32_t)items.items[0].payload;
        return DAO_OK;
    }
    if (items.count > 0) {
        return wrong(snapshot, "a list has events and other things");
    }
    write_trace_name(snapshot->trace_count, name);
    dao_status_t status = find_space(snapshot, name, out_space);
    if (status == DAO_OK) {
        snapshot->trace_count++;
        status = dao_value_append(&snapshot->store, list,
                                  (dao_value_t){.type = DAO_VALUE_TYPE_TAKEN, .payload = *out_space});
    }
    return status;
}

/* Takes what has an action: it is an event. */
static dao_status_t take_dict(void *user, dao_value_t list, dao_value_t dict, bool *out_taken)
{
    snapshot_t *snapshot = user;
    uint32_t space = 0;
    *out_taken = dao_value_get(&snapshot->store, dict, KEY_ACTION).type == DAO_VALUE_TYPE_TEXT;
    if (!*out_taken) {
        return DAO_OK;
    }
    dao_status_t status = find_trace(snapshot, list, &space);
    return status == DAO_OK ? take_entry(snapshot, space, dict) : status;
}

/* Gives the device of a list of events its number. What is in the list besides events is counted. */
static dao_status_t name_trace(snapshot_t *snapshot, size_t device, dao_value_list_t items)
{
    char trace_name[DAO_LIFE_DEVICE_NAME_BYTES], name[DAO_LIFE_DEVICE_NAME_BYTES];
    if (items.items[0].type != DAO_VALUE_TYPE_TAKEN) {
        return wrong(snapshot, "the trace of device %zu begins with what is no event", device);
    }
    uint32_t space = (uint32_t)items.items[0].payload;
    write_trace_name(space, trace_name);
    if (strcmp(snapshot->log->devices[space].name, trace_name) != 0) {
        return wrong(snapshot, "device %zu has the trace of device %s", device,
                     snapshot->log->devices[space].name);
    }
    (void)snprintf(name, sizeof(name), "%zu", device);
    dao_life_log_name(snapshot->log, space, name);
    dao_life_log_counts(snapshot->log, space)->ignored_count += items.count - 1;
    return DAO_OK;
}

static dao_status_t name_traces(snapshot_t *snapshot, dao_value_t traces)
{
    dao_value_list_t devices = dao_value_list(&snapshot->store, traces);
    dao_status_t status = DAO_OK;
    uint32_t named_count = 0;
    for (size_t i = 0; i < devices.count && status == DAO_OK; i++) {
        dao_value_list_t items = dao_value_list(&snapshot->store, devices.items[i]);
        status = items.count > 0 ? name_trace(snapshot, i, items) : DAO_OK;
        named_count += items.count > 0;
    }
    return status == DAO_OK && named_count < snapshot->trace_count
               ? wrong(snapshot, "there are events outside of device_traces")
               : status;
}

/* ---- the segments ---- */

/* What the program asked for: in files before 2023 the first of the block's history says it. */
static uint64_t requested_bytes(const dao_value_store_t *store, dao_value_t block, uint64_t size_bytes)
{
    uint64_t requested = size_bytes;
    if (dao_value_get_count(store, block, KEY_REQUESTED_SIZE, &requested)) {
        return requested;
    }
    dao_value_list_t history = dao_value_list(store, dao_value_get(store, block, KEY_HISTORY));
    if (history.count > 0) {
        (void)dao_value_get_count(store, history.items[0], KEY_REAL_SIZE, &requested); /* it may have none */
    }
    return requested;
}

/* Takes the blocks of a segment, which lie one behind the other. */
static dao_status_t take_segment(snapshot_t *snapshot, dao_value_t segment)
{
    const dao_value_store_t *store = &snapshot->store;
    uint64_t device = 0, address = 0, total_bytes = 0;
    uint32_t space = 0;
    char name[DAO_LIFE_DEVICE_NAME_BYTES];
    (void)dao_value_get_count(store, segment, KEY_DEVICE, &device); /* 0 where there was one device */
    if (!dao_value_get_count(store, segment, KEY_ADDRESS, &address) ||
        !dao_value_get_count(store, segment, KEY_TOTAL_SIZE, &total_bytes)) {
        return wrong(snapshot, "a segment has no address or no total_size");
    }
    (void)snprintf(name, sizeof(name), "%" PRIu64, device);
    dao_status_t status = find_space(snapshot, name, &space);
    if (status != DAO_OK) {
        return status;
    }
    dao_life_log_counts(snapshot->log, space)->reserved_bytes += total_bytes;
    dao_value_list_t blocks = dao_value_list(store, dao_value_get(store, segment, KEY_BLOCKS));
    for (size_t i = 0; i < blocks.count && status == DAO_OK; i++) {
        uint64_t size_bytes = 0;
        const char *state = dao_value_text(store, dao_value_get(store, blocks.items[i], KEY_STATE));
        (void)dao_value_get_count(store, blocks.items[i], KEY_ADDRESS, &address); /* or it follows the last */
        if (!dao_value_get_count(store, blocks.items[i], KEY_SIZE, &size_bytes)) {
            return wrong(snapshot, "a block at %" PRIx64 " has no size", address);
        }
        if (strncmp(state, "active", strlen("active")) == 0) {
            status = dao_life_log_resident(snapshot->log, space, address,
                                           requested_bytes(store, blocks.items[i], size_bytes));
            status = status == DAO_OK ? take_label(snapshot, space, address, blocks.items[i]) : status;
        }
        address += size_bytes;
    }
    return status;
}

static dao_status_t take_all(snapshot_t *snapshot, dao_value_t top)
{
    const dao_value_store_t *store = &snapshot->store;
    bool is_dict = top.type == DAO_VALUE_TYPE_DICT;
    dao_value_list_t segments =
        dao_value_list(store, is_dict ? dao_value_get(store, top, KEY_SEGMENTS) : top);
    dao_status_t status =
        name_traces(snapshot, is_dict ? dao_value_get(store, top, KEY_DEVICE_TRACES) : (dao_value_t){0});
    for (size_t i = 0; i < segments.count && status == DAO_OK; i++) {
        status = take_segment(snapshot, segments.items[i]);
    }
    if (status == DAO_OK && snapshot->log->device_count == 0) {
        return wrong(snapshot, "there is neither a segment nor an event: was memory ever allocated?");
    }
    return status;
}

/* `*out_misses`: an event is said again which was not kept. */
static dao_status_t read_once(const char *path, bool keeps_taken, dao_life_log_t *log, bool *out_misses)
{
    snapshot_t snapshot = {.path = path, .log = log};
    dao_value_t top = {0};
    bool is_pickle = false;
    dao_value_store_init(&snapshot.store, log->keeps_labels ? all_keys : keys, DAO_SNAPSHOT_KEY_NAME);
    snapshot.store.take = take_dict;
    snapshot.store.take_user = &snapshot;
    snapshot.store.keeps_taken = keeps_taken;
    dao_snapshot_stacks_init(&snapshot.stacks);
    dao_status_t status = dao_pickle_is(path, &is_pickle);
    if (status == DAO_OK) {
        status = is_pickle ? dao_pickle_read(path, &snapshot.store, &top)
                           : dao_json_values_read(path, &snapshot.store, &top);
    }
    if (status == DAO_OK) {
        status = take_all(&snapshot, top);
    }
    *out_misses = snapshot.store.misses_taken;
    dao_snapshot_stacks_finish(&snapshot.stacks);
    dao_value_store_finish(&snapshot.store);
    return status;
}

/* PyTorch says no event twice. Where another program does, all is read once more, and kept. */
dao_status_t dao_read_snapshot(const char *path, dao_life_log_t *log)
{
    bool misses = false, keeps_labels = log->keeps_labels;
    dao_status_t status = read_once(path, false, log, &misses);
    if (status != DAO_OK && misses) {
        dao_life_log_finish(log);
        dao_life_log_init(log);
        log->keeps_labels = keeps_labels;
        status = read_once(path, true, log, &misses);
    }
    return status;
}
