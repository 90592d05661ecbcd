/* SPDX-License-Identifier: Apache-2.0 */
/* What stands behind stream order in the suites of it: every strategy of whole blocks, a hardened one, and
   segments, which follow streams themselves. */
#ifndef DAO_TESTS_ALLOCATORS_LAYERS_ORDERED_KINDS_H
#define DAO_TESTS_ALLOCATORS_LAYERS_ORDERED_KINDS_H

#include "allocators/layers/stream_ordered.h"
#include "allocators/strategies/strategy.h"
#include "tests/support/backends/heap_backend.h"
#include "tests/support/controlled_streams.h"
#include "tests/support/suite.h"

#define ORDERED_ALIGNMENT_BYTES 256u

typedef struct ordered_kind {
    dao_status_t (*create)(const dao_strategy_config_t *config, dao_allocator_t **out_allocator);
    size_t segment_bytes;
    bool is_hardened;
    bool is_uncached;
} ordered_kind_t;

enum {
    ORDERED_BUDDY,
    ORDERED_CLASSES,
    ORDERED_SYSTEM,
    ORDERED_HARDENED,
    ORDERED_SEGMENTED,
    ORDERED_KIND_COUNT
};

extern const ordered_kind_t ordered_kinds[ORDERED_KIND_COUNT];

/* The subject, and what it stands on. */
extern dao_allocator_t *ordered;
extern heap_backend_t *ordered_heap;
extern controlled_streams_t ordered_streams;
extern bool ordered_is_out_of_reach; /* what a hardened one is to look at cannot be read */

/* Makes a subject for a test, and takes it away; `limit_bytes` 0: none. */
void ordered_begin(size_t kind, size_t limit_bytes);
void ordered_end(void);

/* The same of another allocator, for the contract: its streams have begun. */
dao_status_t ordered_create(const ordered_kind_t *kind, size_t limit_bytes, dao_allocator_t **out_allocator);
void ordered_destroy(dao_allocator_t *made);

dao_stats_t ordered_stats_now(void);

/* Allocates; `stream`: its place among the told ones, or -1. */
dao_status_t ordered_try_take(size_t size_bytes, int stream, uint32_t lease, dao_block_grant_t *out_grant);
char *ordered_take(size_t size_bytes, int stream, uint32_t lease);

/* Frees behind work of a stream, or -1: nothing uses it. */
dao_status_t ordered_try_give(void *address, int stream);
void ordered_give(void *address, int stream);

uint32_t ordered_lease_begin(void);

#endif
