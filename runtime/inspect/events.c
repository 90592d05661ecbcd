/* SPDX-License-Identifier: Apache-2.0 */
/* Recording the events of a place, reading them, and writing them as RMM's CSV. The rings are in
   observe/event_ring.c. */
#include <dao/observe.h>

#include "base/report/error.h"
#include "runtime/observe/event_ring.h"
#include "runtime/start/context.h"

#include <inttypes.h>
#include <stdio.h>

/* Bytes of a line of CSV. */
#define LINE_BYTES 160

static dao_status_t rings_find(dao_place_t place, dao_event_rings_t **out_rings)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status == DAO_OK) {
        *out_rings = core->event_rings;
    }
    return status;
}

dao_status_t dao_events_start(dao_place_t place, size_t event_count)
{
    if (event_count > DAO_EVENTS_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "dao_events_start: %zu events; a ring has at most %zu", event_count,
                         DAO_EVENTS_COUNT_MAX);
    }
    dao_event_rings_t *rings;
    dao_status_t status = rings_find(place, &rings);
    if (status != DAO_OK) {
        return status;
    }
    char text[DAO_PLACE_TEXT_BYTES];
    event_count = event_count == 0 ? DAO_EVENTS_COUNT_DEFAULT : event_count;
    status = dao_events_ring_start(rings, place, event_count);
    switch (status) {
    case DAO_OK:
        return status;
    case DAO_ERR_BUSY:
        return dao_error(status, "dao_events_start: %s is recording already", dao_place_format(place, text));
    default:
        return dao_error(status, "no host memory for %zu events of %s", event_count,
                         dao_place_format(place, text));
    }
}

static dao_status_t not_recording_error(const char *function, dao_place_t place)
{
    char text[DAO_PLACE_TEXT_BYTES];
    return dao_error(DAO_ERR_NOT_READY, "%s: %s is not recording; call dao_events_start()", function,
                     dao_place_format(place, text));
}

dao_status_t dao_events_stop(dao_place_t place)
{
    dao_event_rings_t *rings;
    dao_status_t status = rings_find(place, &rings);
    if (status != DAO_OK) {
        return status;
    }
    return dao_events_ring_stop(rings, place) ? DAO_OK : not_recording_error("dao_events_stop", place);
}

dao_status_t dao_events_read(dao_place_t place, dao_memory_event_t *events, size_t capacity,
                             size_t *out_count, uint64_t *out_lost)
{
    if (events == NULL || capacity == 0 || out_count == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_events_read: %s",
                         events == NULL      ? "events is NULL"
                         : out_count == NULL ? "out_count is NULL"
                                             : "there is no room for events");
    }
    dao_event_rings_t *rings;
    dao_status_t status = rings_find(place, &rings);
    if (status != DAO_OK) {
        return status;
    }
    size_t count = 0;
    uint64_t lost_count = 0;
    if (!dao_events_ring_read(rings, place, events, capacity, &count, &lost_count)) {
        return not_recording_error("dao_events_read", place);
    }
    for (size_t i = 0; i < count; i++) {
        events[i].time_ns = dao_ticks_to_ns(events[i].time_ns);
    }
    *out_count = count;
    if (out_lost != NULL) {
        *out_lost = lost_count;
    }
    return DAO_OK;
}

/* ---- CSV ---- */

static const char *action_text(uint8_t kind)
{
    switch (kind) {
    case DAO_MEMORY_EVENT_KIND_ALLOC:
        return "allocate";
    case DAO_MEMORY_EVENT_KIND_FREE:
        return "free";
    case DAO_MEMORY_EVENT_KIND_ALLOC_FAILED:
        return "allocate failure";
    default: /* RMM has no word for it */
        return NULL;
    }
}

static dao_status_t line_write(const dao_memory_event_t *event, const char *action, dao_write_t write,
                               void *user)
{
    char line[LINE_BYTES];
    uint64_t seconds = event->time_ns / UINT64_C(1000000000);
    uint64_t microseconds = event->time_ns / 1000 % 1000000;
    int length = snprintf(line, sizeof(line),
                          "%" PRIu32 ",%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64 ".%06" PRIu64 ",%s,0x%" PRIx64
                          ",%" PRIu64 ",%u\n",
                          event->thread, seconds / 3600, seconds / 60 % 60, seconds % 60, microseconds,
                          action, event->address, event->size_bytes, (unsigned)event->stream);
    DAO_ASSERT(length > 0 && (size_t)length < sizeof(line));
    return write(line, (size_t)length, user);
}

dao_status_t dao_events_write_csv(const dao_memory_event_t *events, size_t count, bool with_header,
                                  dao_write_t write, void *user)
{
    static const char header[] = "Thread,Time,Action,Pointer,Size,Stream\n";
    if ((events == NULL && count > 0) || write == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_events_write_csv: %s is NULL",
                         write == NULL ? "write" : "events");
    }
    dao_status_t status = with_header ? write(header, sizeof(header) - 1, user) : DAO_OK;
    for (size_t i = 0; i < count && status == DAO_OK; i++) {
        const char *action = action_text(events[i].kind);
        if (action != NULL) {
            status = line_write(&events[i], action, write, user);
        }
    }
    return status == DAO_OK ? DAO_OK : dao_error_refused("dao_events_write_csv", status);
}
