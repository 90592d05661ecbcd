/* SPDX-License-Identifier: Apache-2.0 */
/* A trace is built event by event. An alloc takes the slot that was emptied last, or a new one.

   Invariants: a slot is on the stack of empty ones exactly if its slot_bytes is 0; live_bytes is the sum of
   slot_bytes. */
#include "tools/model/alloc_trace.h"

#include "base/report/error.h"
#include "tools/base/grow.h"

#include <stdio.h>
#include <string.h>

void dao_alloc_trace_init(dao_alloc_trace_t *trace, const char *name)
{
    *trace = (dao_alloc_trace_t){0};
    (void)snprintf(trace->name, sizeof(trace->name), "%s", name);
}

void dao_alloc_trace_finish(dao_alloc_trace_t *trace)
{
    dao_host_free(trace->events);
    dao_host_free(trace->slot_bytes);
    dao_host_free(trace->empty_slots);
    *trace = (dao_alloc_trace_t){0};
}

static dao_status_t add_event(dao_alloc_trace_t *trace, uint64_t size_bytes, uint32_t slot)
{
    dao_alloc_event_t *grown =
        dao_tool_grow(trace->events, &trace->event_capacity, trace->event_count, sizeof(*trace->events));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->events = grown;
    trace->events[trace->event_count++] = (dao_alloc_event_t){.size_bytes = size_bytes, .slot = slot};
    return DAO_OK;
}

/* Makes one more slot, and room for it on the stack of empty ones. */
static dao_status_t add_slot(dao_alloc_trace_t *trace)
{
    if (trace->slot_count == UINT32_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "more than %u blocks are live at once", UINT32_MAX);
    }
    uint64_t *slot_bytes =
        dao_tool_grow(trace->slot_bytes, &trace->slot_capacity, trace->slot_count, sizeof(*slot_bytes));
    if (slot_bytes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->slot_bytes = slot_bytes;
    uint32_t *empty_slots =
        dao_tool_grow(trace->empty_slots, &trace->empty_capacity, trace->slot_count, sizeof(*empty_slots));
    if (empty_slots == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->empty_slots = empty_slots;
    trace->slot_bytes[trace->slot_count] = 0;
    trace->empty_slots[trace->empty_count++] = (uint32_t)trace->slot_count++;
    return DAO_OK;
}

dao_status_t dao_alloc_trace_take(dao_alloc_trace_t *trace, uint64_t size_bytes, uint32_t *out_slot)
{
    dao_status_t status = trace->empty_count == 0 ? add_slot(trace) : DAO_OK;
    uint32_t slot = status == DAO_OK ? trace->empty_slots[trace->empty_count - 1] : 0;
    if (status == DAO_OK && size_bytes > UINT64_MAX - trace->live_bytes) {
        status = dao_error(DAO_ERR_OVERFLOW, "the live blocks have more bytes than 64 bits can count");
    }
    if (status == DAO_OK) {
        status = add_event(trace, size_bytes, slot);
    }
    if (status != DAO_OK) {
        return status;
    }
    trace->empty_count--;
    trace->slot_bytes[slot] = size_bytes;
    trace->live_bytes += size_bytes;
    trace->live_count++;
    trace->peak_bytes = trace->live_bytes > trace->peak_bytes ? trace->live_bytes : trace->peak_bytes;
    trace->peak_count = trace->live_count > trace->peak_count ? trace->live_count : trace->peak_count;
    *out_slot = slot;
    return DAO_OK;
}

dao_status_t dao_alloc_trace_give(dao_alloc_trace_t *trace, uint32_t slot)
{
    dao_status_t status = add_event(trace, 0, slot);
    if (status != DAO_OK) {
        return status;
    }
    trace->live_bytes -= trace->slot_bytes[slot];
    trace->live_count--;
    trace->pair_count++;
    trace->slot_bytes[slot] = 0;
    trace->empty_slots[trace->empty_count++] = slot;
    return DAO_OK;
}

void dao_alloc_trace_steady(dao_alloc_trace_t *trace)
{
    trace->steady_begin = trace->event_count;
    trace->pair_count = 0;
}

bool dao_alloc_trace_is_valid(const dao_alloc_trace_t *trace)
{
    dao_alloc_trace_t again = *trace;
    again.slot_bytes = dao_host_calloc(trace->slot_count + 1, sizeof(*again.slot_bytes));
    bool is_valid = again.slot_bytes != NULL && trace->steady_begin <= trace->event_count;
    again.live_bytes = again.live_count = again.peak_bytes = again.peak_count = again.pair_count = 0;
    for (size_t i = 0; is_valid && i < trace->event_count; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        is_valid = event->slot < trace->slot_count &&
                   (again.slot_bytes[event->slot] == 0) == (event->size_bytes != 0);
        if (is_valid) {
            again.live_bytes += event->size_bytes - again.slot_bytes[event->slot];
            again.live_count += event->size_bytes != 0 ? 1 : UINT64_MAX;
            again.pair_count += event->size_bytes == 0 && i >= trace->steady_begin ? 1 : 0;
            again.slot_bytes[event->slot] = event->size_bytes;
        }
        again.peak_bytes = again.live_bytes > again.peak_bytes ? again.live_bytes : again.peak_bytes;
        again.peak_count = again.live_count > again.peak_count ? again.live_count : again.peak_count;
    }
    is_valid = is_valid && again.live_bytes == trace->live_bytes && again.live_count == trace->live_count &&
               again.peak_bytes == trace->peak_bytes && again.peak_count == trace->peak_count &&
               again.pair_count == trace->pair_count;
    dao_host_free(again.slot_bytes);
    return is_valid;
}
