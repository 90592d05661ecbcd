/* SPDX-License-Identifier: Apache-2.0 */
/* What happens to buffers, one allocation or free after the other, with a time and a place for each: what
   formats of other tools are written from. A buffer that is alive before the first event has no allocation in
   it, one that stays no free. */
#ifndef DAO_TOOLS_HISTORY_H
#define DAO_TOOLS_HISTORY_H

#include "tools/model/plan_input.h"
#include "tools/model/step_trace.h"

/* Sizes of placed buffers are rounded up to this, as PyTorch's allocator does. */
#define DAO_HISTORY_ROUND_BYTES UINT64_C(512)

typedef struct dao_history_buffer {
    const char *id;  /* borrowed from what the history was made of; NULL: it is called by its number */
    const char *tag; /* what it is for; "": not told */
    uint64_t size_bytes;
    uint64_t offset_bytes; /* written by dao_history_place() */
    bool is_before;
    bool is_kept; /* it stays behind the last event */
} dao_history_buffer_t;

typedef struct dao_history_event {
    uint64_t time_ns; /* never lower than that of the event before */
    uint32_t buffer;
    uint32_t operator_index; /* that it belongs to; DAO_TRACE_NONE */
    bool is_alloc;
} dao_history_event_t;

typedef struct dao_history {
    dao_history_buffer_t *buffers;
    size_t buffer_count;
    dao_history_event_t *events;
    size_t event_count;
    const dao_step_trace_t *trace; /* borrowed; NULL: it was not made of a step */
    uint64_t end_ns;               /* behind the last event */
    uint64_t span_bytes;           /* all offsets and sizes lie below; written by dao_history_place() */
    bool is_timed;                 /* else times are the numbers of events, as microseconds */
    bool has_tags;
} dao_history_t;

/* Makes the history of a packed step: an operator's allocations are at its begin, its frees at its end.
   Without recorded begins operators follow each other. What has no bytes is left out. DAO_ERR_NO_HOST_MEMORY.
   The caller finishes it, before the trace. */
DAO_NODISCARD dao_status_t dao_history_of_step(const dao_step_trace_t *trace, dao_history_t *out_history);

/* The same of lifetimes, which are not by clocks (DAO_ERR_UNSUPPORTED): at each time first the frees. */
DAO_NODISCARD dao_status_t dao_history_of_lifetimes(const dao_plan_input_t *lifetimes,
                                                    dao_history_t *out_history);

void dao_history_finish(dao_history_t *history);

/* Returns when each operator begins: its recorded time, or where the one before ends. `out_begins_ns` has one
   for each operator, and the end of the last behind them. */
void dao_history_operator_begins(const dao_step_trace_t *trace, uint64_t *out_begins_ns);

/* Gives every buffer a place, as an allocator that knows nothing ahead would: no two that live at one time
   share a byte. DAO_ERR_LIMIT if they do not fit 2^40 bytes; DAO_ERR_NO_HOST_MEMORY. Cost: O(log n) an
   event. */
DAO_NODISCARD dao_status_t dao_history_place(dao_history_t *history);

/* Bytes that a buffer takes of its place. */
uint64_t dao_history_rounded(const dao_history_buffer_t *buffer);

/* Every event fits the ones before it, and times do not go back. Cost: a walk. */
bool dao_history_is_valid(const dao_history_t *history);

#endif
