/* SPDX-License-Identifier: Apache-2.0 */
/* dao_place_register(): checks the program's table, and gives it the next device number. */
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/own/own_device.h"
#include "runtime/start/context.h"

#include <inttypes.h>
#include <string.h>

/* Largest pages. */
#define PAGE_BYTES_MAX ((size_t)1 << 30)

static dao_status_t invalid(const char *what)
{
    return dao_error(DAO_ERR_INVALID, "dao_place_register: %s", what);
}

/* Returns how many of `count` slots are filled. */
static int filled(const bool *slots, int count)
{
    int filled_count = 0;
    for (int i = 0; i < count; i++) {
        filled_count += slots[i];
    }
    return filled_count;
}

/* Returns true if a group is neither whole nor empty. */
static bool is_part(const bool *slots, int count)
{
    return filled(slots, count) != 0 && filled(slots, count) != count;
}

static dao_status_t groups_check(const dao_own_memory_t *memory)
{
    const bool pages[] = {memory->page_bytes != 0,      memory->reserve != NULL,
                          memory->unreserve != NULL,    memory->page_create != NULL,
                          memory->page_destroy != NULL, memory->page_map != NULL,
                          memory->page_unmap != NULL};
    const bool events[] = {memory->event_create != NULL,      memory->event_destroy != NULL,
                           memory->event_record != NULL,      memory->event_query != NULL,
                           memory->event_synchronize != NULL, memory->stream_wait_event != NULL};
    if (is_part(pages, sizeof(pages))) {
        return invalid(
            "page_bytes, reserve, unreserve, page_create, page_destroy, page_map and page_unmap go "
            "together");
    }
    if (is_part(events, sizeof(events))) {
        return invalid("event_create, event_destroy, event_record, event_query, event_synchronize and "
                       "stream_wait_event go together");
    }
    if (memory->is_on_device && (events[0] || memory->copy != NULL)) {
        return invalid("memory on a device follows that device's streams: copy and the events are NULL");
    }
    if (!memory->is_on_device && memory->device_index != 0) {
        return invalid("device_index is set, and is_on_device is false");
    }
    return DAO_OK;
}

static dao_status_t table_check(const dao_own_memory_t *memory)
{
    if (memory->name == NULL || memory->name[0] == '\0' ||
        strlen(memory->name) >= DAO_OWN_MEMORY_NAME_BYTES) {
        return invalid("name is NULL, empty or too long");
    }
    if (memory->obtain == NULL || memory->release == NULL) {
        return invalid("obtain or release is NULL");
    }
    if (memory->capacity_bytes == 0 || memory->capacity_bytes > PTRDIFF_MAX) {
        return invalid("capacity_bytes is 0, or more than addresses can reach");
    }
    if (memory->alignment_bytes != 0 && !dao_is_power_of_two(memory->alignment_bytes)) {
        return invalid("alignment_bytes is no power of two");
    }
    if (memory->page_bytes != 0 &&
        (!dao_is_power_of_two(memory->page_bytes) || memory->page_bytes > PAGE_BYTES_MAX)) {
        return invalid("page_bytes is no power of two up to 1 GiB");
    }
    return groups_check(memory);
}

dao_status_t dao_place_register(const dao_own_memory_t *memory, dao_place_t *out_place)
{
    if (memory == NULL || out_place == NULL) {
        return invalid(memory == NULL ? "memory is NULL" : "out_place is NULL");
    }
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    if (status != DAO_OK || (status = table_check(memory)) != DAO_OK ||
        (status = dao_context_enter(&core)) != DAO_OK) {
        return status;
    }
    if (memory->is_on_device && (memory->device_index < 0 || memory->device_index >= core->device_count)) {
        return dao_core_no_device(core, memory->device_index);
    }
    dao_backend_device_t *device = NULL;
    status = dao_own_device_create(memory, &device);
    if (status != DAO_OK) {
        return status;
    }
    int32_t index = dao_core_own_add(core, device, dao_own_device_destroy);
    if (index < 0) {
        dao_own_device_destroy(device);
        return dao_error(DAO_ERR_TOO_MANY, "dao_place_register: there are %d devices and such places already",
                         DAO_DEVICE_COUNT_MAX);
    }
    *out_place = (dao_place_t){DAO_PLACE_KIND_DEVICE, index};
    return DAO_OK;
}
