/* SPDX-License-Identifier: Apache-2.0 */
/* Streams whose work ends when a test says so, for tests of what must wait for it: a backend table with
   events alone, and a table of stream fences over it. */
#ifndef DAO_TESTS_SUPPORT_CONTROLLED_STREAMS_H
#define DAO_TESTS_SUPPORT_CONTROLLED_STREAMS_H

#include "allocators/stream_fence.h"

#define CONTROLLED_STREAM_COUNT 4u

typedef struct controlled_streams {
    dao_stream_fences_t *fences;
    uint32_t numbers[CONTROLLED_STREAM_COUNT]; /* in the table of fences */
} controlled_streams_t;

/* One at a time. */
void controlled_streams_begin(controlled_streams_t *streams);

/* Checks that no event is left. */
void controlled_streams_end(controlled_streams_t *streams);

/* Queues work on stream `index` and returns the fence of a block that is freed after it. */
dao_stream_fence_t controlled_streams_mark(controlled_streams_t *streams, uint32_t index);

/* Ends all work of stream `index` so far; its events report it when they are queried. */
void controlled_streams_finish(uint32_t index);

#endif
