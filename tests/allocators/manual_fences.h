/* SPDX-License-Identifier: Apache-2.0 */
/* A table of stream fences over the device of manual_streams. */
#ifndef DAO_TESTS_ALLOCATORS_MANUAL_FENCES_H
#define DAO_TESTS_ALLOCATORS_MANUAL_FENCES_H

#include "allocators/stream_fence.h"
#include "tests/support/manual_streams.h"

/* The table, from begin to end. */
extern dao_stream_fences_t *fences;

void fences_begin(void);

/* Checks that the table is valid, and that no event is left. */
void fences_end(void);

/* Adds a new stream, and returns its number. */
uint32_t stream_new(manual_stream_t **out_stream);

void work_on(manual_stream_t *stream);

/* Queues work on a stream, by its number and itself, and frees the work's block behind it. */
dao_stream_fence_t work_and_free(uint32_t number, manual_stream_t *stream);

/* Runs and polls until all is known to be done. */
void poll_all(void);

#endif
