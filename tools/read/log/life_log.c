/* SPDX-License-Identifier: Apache-2.0 */
/* One probe table a space. Each entry is a live tensor; `earlier` leads to those of the same size before it,
   where sizes are the keys. */
#include "tools/read/log/life_log.h"

#include "base/memory/probe_table.h"
#include "base/report/assert.h"
#include "tools/base/grow.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_TABLE_CAPACITY = 16 };

/* A chain's end, and no tensor. */
#define NO_TENSOR UINT32_MAX

typedef struct live_entry {
    uint64_t key;
    uint32_t tensor; /* of the device's events, plus 1; 0: empty */
    uint32_t chain;  /* index in `earlier` of the space, plus 1; 0: no earlier one of this size */
} live_entry_t;

/* A life of a size that a later one of the same size hides. */
typedef struct earlier_life {
    uint32_t tensor;
    uint32_t chain; /* as that of an entry; of an unused one: the next unused */
} earlier_life_t;

typedef struct dao_life_space {
    uint32_t device;
    dao_life_keys_t keys;
    live_entry_t *entries;
    size_t capacity, count;
    earlier_life_t *earlier;
    size_t earlier_count, earlier_capacity;
    uint32_t unused; /* first of the unused items of `earlier`, plus 1 */
} life_space_t;

static uint64_t key_of(const void *entry)
{
    return ((const live_entry_t *)entry)->key;
}

static uint64_t hash_of(uint64_t key)
{
    return (key * UINT64_C(0x9e3779b97f4a7c15)) >> 32;
}

static bool is_empty(const void *entry)
{
    return ((const live_entry_t *)entry)->tensor == 0;
}

static const dao_probe_kind_t live_kind = {
    .entry_bytes = sizeof(live_entry_t), .key_of = key_of, .hash_of = hash_of, .is_empty = is_empty};

/* ---- devices and spaces ---- */

void dao_life_log_init(dao_life_log_t *log)
{
    *log = (dao_life_log_t){0};
}

void dao_life_log_finish(dao_life_log_t *log)
{
    for (size_t i = 0; i < log->device_count; i++) {
        dao_event_file_finish(&log->devices[i].events);
    }
    for (size_t i = 0; i < log->space_count; i++) {
        dao_host_free(log->spaces[i].entries);
        dao_host_free(log->spaces[i].earlier);
    }
    dao_host_free(log->devices);
    dao_host_free(log->spaces);
    *log = (dao_life_log_t){0};
}

dao_status_t dao_life_log_device(dao_life_log_t *log, const char *name, uint32_t *out_device)
{
    dao_life_device_t device = {0};
    (void)snprintf(device.name, sizeof(device.name), "%s", name);
    for (size_t i = 0; i < log->device_count; i++) {
        if (strcmp(log->devices[i].name, device.name) == 0) {
            *out_device = (uint32_t)i;
            return DAO_OK;
        }
    }
    if (log->device_count == DAO_LIFE_DEVICE_COUNT_MAX) {
        return dao_error(DAO_ERR_LIMIT, "there are more than %d devices", DAO_LIFE_DEVICE_COUNT_MAX);
    }
    dao_life_device_t *grown =
        dao_tool_grow(log->devices, &log->device_capacity, log->device_count, sizeof(*log->devices));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    log->devices = grown;
    dao_event_file_init(&device.events);
    *out_device = (uint32_t)log->device_count;
    log->devices[log->device_count++] = device;
    return DAO_OK;
}

void dao_life_log_name(dao_life_log_t *log, uint32_t device, const char *name)
{
    (void)snprintf(log->devices[device].name, sizeof(log->devices[device].name), "%s", name);
}

dao_status_t dao_life_log_space(dao_life_log_t *log, uint32_t device, dao_life_keys_t keys,
                                uint32_t *out_space)
{
    life_space_t *grown =
        dao_tool_grow(log->spaces, &log->space_capacity, log->space_count, sizeof(*log->spaces));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    log->spaces = grown;
    *out_space = (uint32_t)log->space_count;
    log->spaces[log->space_count++] = (life_space_t){.device = device, .keys = keys};
    return DAO_OK;
}

dao_life_counts_t *dao_life_log_counts(dao_life_log_t *log, uint32_t space)
{
    return &log->devices[log->spaces[space].device].events.counts;
}

/* ---- the table of a space ---- */

static live_entry_t *find_live(const life_space_t *space, uint64_t key)
{
    if (space->capacity == 0) {
        return NULL;
    }
    live_entry_t *entry = dao_probe_find(&live_kind, space->entries, space->capacity, key);
    return is_empty(entry) ? NULL : entry;
}

static dao_status_t make_table_room(life_space_t *space)
{
    if (space->capacity > 0 && dao_probe_has_room(space->capacity, space->count + 1)) {
        return DAO_OK;
    }
    size_t capacity = space->capacity == 0 ? FIRST_TABLE_CAPACITY : space->capacity * 2;
    live_entry_t *entries = dao_host_calloc(capacity, sizeof(*entries));
    if (entries == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu live blocks", capacity);
    }
    if (space->capacity > 0) {
        dao_probe_copy_all(&live_kind, space->entries, space->capacity, entries, capacity);
    }
    dao_host_free(space->entries);
    space->entries = entries;
    space->capacity = capacity;
    return DAO_OK;
}

/* Puts the life of an entry behind the new one of its size. */
static dao_status_t hide_life(life_space_t *space, live_entry_t *entry)
{
    if (space->unused == 0) {
        earlier_life_t *grown = dao_tool_grow(space->earlier, &space->earlier_capacity, space->earlier_count,
                                              sizeof(*space->earlier));
        if (grown == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        space->earlier = grown;
        space->earlier[space->earlier_count++] = (earlier_life_t){0};
        space->unused = (uint32_t)space->earlier_count;
    }
    uint32_t chain = space->unused;
    space->unused = space->earlier[chain - 1].chain;
    space->earlier[chain - 1] = (earlier_life_t){.tensor = entry->tensor, .chain = entry->chain};
    entry->chain = chain;
    return DAO_OK;
}

/* Takes the latest life of an entry out. */
static void drop_life(life_space_t *space, live_entry_t *entry)
{
    uint32_t chain = entry->chain;
    if (chain == 0) {
        dao_probe_erase(&live_kind, space->entries, space->capacity, entry, NULL);
        space->count--;
        return;
    }
    earlier_life_t *earlier = &space->earlier[chain - 1];
    entry->tensor = earlier->tensor;
    entry->chain = earlier->chain;
    *earlier = (earlier_life_t){.chain = space->unused};
    space->unused = chain;
}

bool dao_life_log_is_live(const dao_life_log_t *log, uint32_t space, uint64_t key)
{
    return find_live(&log->spaces[space], key) != NULL;
}

/* ---- events ---- */

static dao_status_t add_tensor(dao_event_file_t *events, uint64_t size_bytes, bool is_before,
                               uint32_t *out_tensor)
{
    dao_status_t status = dao_event_file_add_tensor(events, size_bytes, out_tensor);
    if (status == DAO_OK) {
        events->tensors[*out_tensor].is_before = is_before;
    }
    return status;
}

static dao_status_t add_free(dao_event_file_t *events, uint32_t tensor)
{
    events->tensors[tensor].is_live = false;
    return dao_event_file_add_record(events, tensor, false, 0);
}

/* Enters a live tensor under a key that has none, or by size in front of the others. */
static dao_status_t enter(life_space_t *space, uint64_t key, uint32_t tensor)
{
    live_entry_t *entry = find_live(space, key);
    dao_status_t status = entry != NULL ? hide_life(space, entry) : make_table_room(space);
    if (status != DAO_OK) {
        return status;
    }
    if (entry == NULL) {
        entry = dao_probe_find(&live_kind, space->entries, space->capacity, key);
        *entry = (live_entry_t){.key = key};
        space->count++;
    }
    entry->tensor = tensor + 1;
    return DAO_OK;
}

dao_status_t dao_life_log_alloc(dao_life_log_t *log, uint32_t space_index, uint64_t key, uint64_t size_bytes)
{
    life_space_t *space = &log->spaces[space_index];
    dao_event_file_t *events = &log->devices[space->device].events;
    live_entry_t *entry = find_live(space, key);
    uint32_t tensor = 0;
    dao_status_t status = DAO_OK;
    if (entry != NULL && space->keys == DAO_LIFE_KEYS_ADDRESSES) {
        uint32_t old = entry->tensor - 1;
        drop_life(space, entry);
        events->counts.replaced_count++;
        status = add_free(events, old);
    }
    if (status == DAO_OK) {
        status = add_tensor(events, size_bytes, false, &tensor);
    }
    if (status == DAO_OK) {
        status = enter(space, key, tensor);
    }
    if (status == DAO_OK) {
        events->tensors[tensor].is_live = true;
        status = dao_event_file_add_record(events, tensor, true, 0);
    }
    return status;
}

dao_status_t dao_life_log_free(dao_life_log_t *log, uint32_t space_index, uint64_t key, uint64_t size_bytes)
{
    life_space_t *space = &log->spaces[space_index];
    dao_event_file_t *events = &log->devices[space->device].events;
    live_entry_t *entry = find_live(space, key);
    uint32_t tensor = 0;
    if (entry != NULL) {
        tensor = entry->tensor - 1;
        events->counts.guessed_count += entry->chain != 0;
        drop_life(space, entry);
        return add_free(events, tensor);
    }
    dao_status_t status = add_tensor(events, size_bytes, true, &tensor);
    return status == DAO_OK ? add_free(events, tensor) : status;
}

dao_status_t dao_life_log_resident(dao_life_log_t *log, uint32_t space_index, uint64_t key,
                                   uint64_t size_bytes)
{
    life_space_t *space = &log->spaces[space_index];
    dao_event_file_t *events = &log->devices[space->device].events;
    uint32_t tensor = 0;
    if (space->keys == DAO_LIFE_KEYS_ADDRESSES && find_live(space, key) != NULL) {
        return DAO_OK;
    }
    dao_status_t status = add_tensor(events, size_bytes, true, &tensor);
    if (status == DAO_OK) {
        events->tensors[tensor].is_live = true;
        status = enter(space, key, tensor);
    }
    return status;
}

dao_event_file_t *dao_life_log_events(dao_life_log_t *log, uint32_t space)
{
    return &log->devices[log->spaces[space].device].events;
}

dao_status_t dao_life_log_label(dao_life_log_t *log, uint32_t space, uint64_t key,
                                const dao_event_label_t *label)
{
    dao_event_file_t *events = dao_life_log_events(log, space);
    const live_entry_t *entry = find_live(&log->spaces[space], key);
    uint32_t tensor = entry != NULL ? entry->tensor - 1 : 0;
    if (entry == NULL || (tensor < events->label_count && events->labels[tensor].maker != 0)) {
        return DAO_OK;
    }
    return dao_event_file_label(events, tensor, label);
}

/* ---- the end ---- */

dao_status_t dao_life_log_close(dao_life_log_t *log)
{
    DAO_ASSERT_HEAVY(dao_life_log_is_valid(log));
    for (size_t i = 0; i < log->device_count; i++) {
        dao_life_device_t *device = &log->devices[i];
        dao_status_t status = dao_event_file_peak(&device->events, &device->peak_bytes);
        if (status != DAO_OK) {
            dao_error_prefix("device %s: ", device->name);
            return status;
        }
        dao_event_file_count(&device->events);
    }
    return DAO_OK;
}

const dao_life_device_t *dao_life_log_find(const dao_life_log_t *log, const char *name)
{
    const dao_life_device_t *found = NULL;
    for (size_t i = 0; i < log->device_count; i++) {
        const dao_life_device_t *device = &log->devices[i];
        bool is_better = name != NULL ? strcmp(device->name, name) == 0
                                      : found == NULL || device->peak_bytes > found->peak_bytes;
        found = is_better ? device : found;
    }
    return found;
}

static bool space_is_valid(const dao_life_log_t *log, const life_space_t *space)
{
    const dao_event_file_t *events = &log->devices[space->device].events;
    bool is_valid = dao_probe_is_valid(&live_kind, space->entries, space->capacity, space->count);
    for (size_t i = 0; i < space->capacity && is_valid; i++) {
        const live_entry_t *entry = &space->entries[i];
        if (is_empty(entry)) {
            continue;
        }
        is_valid = entry->tensor <= events->tensor_count && events->tensors[entry->tensor - 1].is_live;
        for (uint32_t chain = entry->chain; chain != 0 && is_valid; chain = space->earlier[chain - 1].chain) {
            is_valid = space->keys == DAO_LIFE_KEYS_SIZES && chain <= space->earlier_count &&
                       events->tensors[space->earlier[chain - 1].tensor - 1].is_live;
        }
    }
    return is_valid;
}

bool dao_life_log_is_valid(const dao_life_log_t *log)
{
    bool is_valid = true;
    for (size_t i = 0; i < log->space_count && is_valid; i++) {
        is_valid = space_is_valid(log, &log->spaces[i]);
    }
    return is_valid;
}
