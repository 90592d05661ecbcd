/* SPDX-License-Identifier: Apache-2.0 */
/* What RMM's own replay takes: its columns in its order, the words `allocate` and `free`, sizes in both,
   stream 0, a row an event in the order in which it happened, no free of what no row has allocated. */
#include "tools/write/writers.h"

#include <inttypes.h>

/* Addresses are not 0, which is none. */
#define BASE_ADDRESS UINT64_C(0x7f0000000000)

static void put_row(FILE *file, const dao_history_buffer_t *buffer, uint64_t time_ns, bool is_alloc)
{
    uint64_t us = time_ns / 1000;
    uint64_t seconds = us / 1000000;
    (void)fprintf(file, "1,%02u:%02u:%02u.%06u,%s,0x%" PRIx64 ",%" PRIu64 ",0\n",
                  (unsigned)(seconds / 3600 % 24), (unsigned)(seconds / 60 % 60), (unsigned)(seconds % 60),
                  (unsigned)(us % 1000000), is_alloc ? "allocate" : "free",
                  BASE_ADDRESS + buffer->offset_bytes, buffer->size_bytes);
}

void dao_write_rmm(FILE *file, const dao_history_t *history)
{
    (void)fputs("Thread,Time,Action,Pointer,Size,Stream\n", file);
    for (size_t i = 0; i < history->buffer_count; i++) {
        if (history->buffers[i].is_before) {
            put_row(file, &history->buffers[i], 0, true);
        }
    }
    for (size_t i = 0; i < history->event_count; i++) {
        const dao_history_event_t *event = &history->events[i];
        put_row(file, &history->buffers[event->buffer], event->time_ns, event->is_alloc);
    }
}
