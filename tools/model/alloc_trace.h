/* SPDX-License-Identifier: Apache-2.0 */
/* Traces of allocations and frees, as `dao-bench alloc` replays them and strategies of `dao plan` see them.

   A trace is an array of events. Each names a slot: an alloc fills an empty one, a free empties a filled one,
   so that a replay needs one array of addresses. Events before `steady_begin` build up what a program holds
   from its start. */
#ifndef DAO_TOOLS_ALLOC_TRACE_H
#define DAO_TOOLS_ALLOC_TRACE_H

#include <dao/status.h>

typedef struct dao_alloc_event {
    uint64_t size_bytes; /* of an alloc; 0: a free */
    uint32_t slot;       /* below the trace's slot_count */
} dao_alloc_event_t;

typedef struct dao_alloc_trace {
    char name[64];
    dao_alloc_event_t *events;
    size_t event_count, event_capacity;
    size_t steady_begin;
    uint64_t *slot_bytes; /* what each slot holds at the end; 0: it is empty */
    size_t slot_count, slot_capacity;
    uint32_t *empty_slots; /* the latest is used again first */
    size_t empty_count, empty_capacity;
    uint64_t pair_count; /* frees from steady_begin on */
    uint64_t live_bytes, live_count;
    uint64_t peak_bytes, peak_count; /* each at its own time */
} dao_alloc_trace_t;

void dao_alloc_trace_init(dao_alloc_trace_t *trace, const char *name);
void dao_alloc_trace_finish(dao_alloc_trace_t *trace);

/* Building. Both answer DAO_ERR_NO_HOST_MEMORY or DAO_OK; out_slot is written on DAO_OK. size_bytes is at
   least 1. */
DAO_NODISCARD dao_status_t dao_alloc_trace_take(dao_alloc_trace_t *trace, uint64_t size_bytes,
                                                uint32_t *out_slot);
DAO_NODISCARD dao_status_t dao_alloc_trace_give(dao_alloc_trace_t *trace, uint32_t slot);

/* From here on the program is in its steady state. */
void dao_alloc_trace_steady(dao_alloc_trace_t *trace);

/* Every event fits the ones before it, and the counts and peaks are those of the events. Cost: a walk. */
bool dao_alloc_trace_is_valid(const dao_alloc_trace_t *trace);

#endif
