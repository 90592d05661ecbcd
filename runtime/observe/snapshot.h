/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of an allocator that was found:

       snapshot.c         the blocks
       snapshot_trace.c   what happened before, if the place keeps its events
       snapshot_pickle.c  both as a pickle, for PyTorch's memory viewer
       snapshot_json.c    both as JSON */
#ifndef DAO_RUNTIME_SNAPSHOT_H
#define DAO_RUNTIME_SNAPSHOT_H

#include "allocators/allocator.h"

#include <dao/observe.h>

/* An entry of the trace: what happened to a block, or to the segment that it was in. */
typedef enum dao_snapshot_action {
    DAO_SNAPSHOT_ACTION_NONE, /* one that does not count */
    DAO_SNAPSHOT_ACTION_SEGMENT_ALLOC,
    DAO_SNAPSHOT_ACTION_ALLOC,
    DAO_SNAPSHOT_ACTION_FREE,       /* asked for and done */
    DAO_SNAPSHOT_ACTION_FREE_ASKED, /* the block is kept back still */
    DAO_SNAPSHOT_ACTION_SEGMENT_FREE
} dao_snapshot_action_t;

typedef struct dao_snapshot_entry {
    uint64_t time;  /* in ticks until the trace is whole, then in ns */
    uint64_t order; /* of entries of one time */
    uint64_t address;
    uint64_t size_bytes;
    dao_snapshot_action_t action;
    uint16_t tag;
    uint8_t stream;
} dao_snapshot_entry_t;

struct dao_snapshot {
    dao_place_t place;
    dao_snapshot_block_t *blocks;
    dao_snapshot_segment_t *segments; /* as much room as for blocks */
    size_t block_count;
    size_t segment_count;
    size_t capacity;               /* of both */
    size_t seen_count;             /* blocks of the last walk, with those that found no room */
    dao_snapshot_entry_t *entries; /* what happened before it, in order; NULL: the place does not record */
    size_t entry_count;
};

/* An event as PyTorch has it: symbol and its word. */
#define DAO_SNAPSHOT_EVENT_LIST(X)                                                                           \
    X(SEGMENT_ALLOC, "segment_alloc")                                                                        \
    X(ALLOC, "alloc")                                                                                        \
    X(FREE_REQUESTED, "free_requested")                                                                      \
    X(FREE_COMPLETED, "free_completed")                                                                      \
    X(SEGMENT_FREE, "segment_free")                                                                          \
    X(SNAPSHOT, "snapshot") /* it was taken: behind all others */

typedef enum dao_snapshot_event {
#define DAO_SNAPSHOT_EVENT(symbol, text) DAO_SNAPSHOT_EVENT_##symbol,
    DAO_SNAPSHOT_EVENT_LIST(DAO_SNAPSHOT_EVENT)
#undef DAO_SNAPSHOT_EVENT
        DAO_SNAPSHOT_EVENT_COUNT
} dao_snapshot_event_t;

typedef void (*dao_snapshot_event_function_t)(dao_snapshot_event_t event, const dao_snapshot_entry_t *entry,
                                              void *user);

/* Goes through the events that a viewer is told, in order; of an empty trace there are none. */
void dao_snapshot_walk_events(const dao_snapshot_t *snapshot, dao_snapshot_event_function_t take, void *user);

/* Returns PyTorch's word for an event. */
const char *dao_snapshot_event_text(dao_snapshot_event_t event);

/* Returns true if any event has a tag: then every event gets a category, "unknown" without a tag. */
bool dao_snapshot_has_tags(const dao_snapshot_t *snapshot);

/* Returns the name of a tag; "unknown": it is 0, or gone. */
const char *dao_snapshot_tag_text(uint32_t tag);

/* Fills the entries from the events that the place keeps, so that they and the blocks agree. */
DAO_NODISCARD dao_status_t dao_snapshot_trace(dao_snapshot_t *snapshot);

/* Returns PyTorch's word for the state of a block. */
const char *dao_snapshot_state_text(dao_block_state_t state);

/* dao_snapshot_create(), without a look at frees that wait; allocator NULL: an empty one. */
DAO_NODISCARD dao_status_t dao_snapshot_take(dao_place_t place, dao_allocator_t *allocator,
                                             dao_snapshot_t **out_snapshot);

#endif
