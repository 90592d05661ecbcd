/* SPDX-License-Identifier: Apache-2.0 */
/* Streams whose work ends when a test says so, for tests of what must wait for it: a table of calls with
   events alone, and a table of holds over it. */
#ifndef DAO_TESTS_SUPPORT_TOLD_STREAMS_H
#define DAO_TESTS_SUPPORT_TOLD_STREAMS_H

#include "allocators/stream_fence.h"

#define TOLD_STREAM_COUNT 4u

typedef struct told_streams {
    dao_stream_fences_t *fences;
    uint32_t numbers[TOLD_STREAM_COUNT]; /* in the table of holds */
} told_streams_t;

/* One at a time. */
void told_streams_begin(told_streams_t *streams);

/* Checks that no event is left. */
void told_streams_end(told_streams_t *streams);

/* Queues work on stream `index` and gives the hold of a block that is freed behind it. */
dao_stream_fence_t told_streams_mark(told_streams_t *streams, uint32_t index);

/* Says that all work so far of stream `index` has ended. Whoever asks its events learns it. */
void told_streams_finish(uint32_t index);

#endif
