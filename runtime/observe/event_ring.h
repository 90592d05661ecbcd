/* SPDX-License-Identifier: Apache-2.0 */
/* The events of places: one branch where nothing is recorded. */
#ifndef DAO_RUNTIME_EVENT_RING_H
#define DAO_RUNTIME_EVENT_RING_H

#include "runtime/core/core.h"
#include "runtime/observe/annotate.h"
#include "runtime/recording/recording.h"

#include <dao/observe.h>

/* Number of places that record, in all of the process. */
extern _Atomic uint32_t dao_events_on;

/* Returns true if any place records. */
static inline bool dao_events_are_on(void)
{
    return __builtin_expect(atomic_load_explicit(&dao_events_on, memory_order_relaxed) != 0, 0);
}

/* Off the usual path: notes an allocation that succeeded or failed just now. */
void dao_events_note_alloc_now(dao_place_t place, const dao_block_request_t *request, const void *address,
                               dao_status_t status);

static inline void dao_events_note_alloc(dao_place_t place, const dao_block_request_t *request,
                                         const void *address, dao_status_t status)
{
    if (dao_events_are_on()) {
        dao_events_note_alloc_now(place, request, address, status);
    }
}

/* What is kept of a free that begins, until it is noted. */
typedef struct dao_freeing {
    uint64_t ticks; /* 0: nothing is recorded anywhere */
    const void *address;
    size_t size_bytes; /* as requested; 0 for an address that is no block */
} dao_freeing_t;

/* Off the usual path: looks at the block that is about to be freed, and its time, which is before that of the
   block's next life. */
dao_freeing_t dao_events_free_begins_now(dao_allocator_t *allocator, dao_place_t place, const void *address);

/* A free in two parts, as it may be refused: before it, and if it has succeeded. */
static inline dao_freeing_t dao_events_free_begins(dao_allocator_t *allocator, dao_place_t place,
                                                   const void *address)
{
    return dao_events_are_on() ? dao_events_free_begins_now(allocator, place, address) : (dao_freeing_t){0};
}
void dao_events_note_freed(dao_core_t *core, dao_place_t place, const dao_freeing_t *freeing);

/* Notes a free that surely will succeed, before it. */
static inline void dao_events_note_free(dao_core_t *core, dao_allocator_t *allocator, dao_place_t place,
                                        const void *address)
{
    if (dao_events_are_on()) {
        dao_freeing_t freeing = dao_events_free_begins_now(allocator, place, address);
        dao_events_note_freed(core, place, &freeing);
    }
}

/* Off the usual path: dao_allocator_free(), noted if it succeeds. */
dao_status_t dao_events_free(dao_allocator_t *allocator, dao_place_t place, void *address);

/* Notes that memory was given back. */
void dao_events_note_trim(dao_place_t place, size_t released_bytes);

/* The rings of a core, none of them there yet; NULL without memory. */
dao_event_rings_t *dao_events_create(void);

/* Adds an observer of all blocks, for the rest of the process. */
void dao_events_observe(void);

/* Starts recording at a place, into as many slots as events or, rounded up to a power of two, more.
   DAO_ERR_BUSY if it records already, DAO_ERR_NO_HOST_MEMORY; neither has a message. */
DAO_NODISCARD dao_status_t dao_events_ring_start(dao_event_rings_t *rings, dao_place_t place,
                                                 uint64_t event_count);

/* Reads DAO_HISTORY, how many events every place keeps. DAO_ERR_INVALID, with a message. */
DAO_NODISCARD dao_status_t dao_events_history_find(dao_event_rings_t *rings);

/* Starts recording at a place that starts, if DAO_HISTORY wants it. DAO_ERR_NO_HOST_MEMORY, with a
   message. */
DAO_NODISCARD dao_status_t dao_events_history_begin(dao_event_rings_t *rings, dao_place_t place);

/* Stops recording at a place. Returns false if it did not record. */
bool dao_events_ring_stop(dao_event_rings_t *rings, dao_place_t place);

/* Reads up to `capacity` events of the latest recording, their times in ticks. Returns false if there was
   none. */
bool dao_events_ring_read(dao_event_rings_t *rings, dao_place_t place, dao_memory_event_t *events,
                          size_t capacity, size_t *out_count, uint64_t *out_lost);

/* Copies the events that the ring of a place keeps, if it records, read or not, their times in ticks; none
   counts as read by it. *out_events is the caller's, for dao_host_free(); NULL: there are none.
   DAO_ERR_NO_HOST_MEMORY, with a message. */
DAO_NODISCARD dao_status_t dao_events_ring_copy(dao_event_rings_t *rings, dao_place_t place,
                                                dao_memory_event_t **out_events, size_t *out_count);

/* Stops recording at all places, as the library ends. */
void dao_events_stop_all(dao_event_rings_t *rings);

/* Frees the rings; the core has no references any more. NULL is allowed. */
void dao_events_destroy(dao_event_rings_t *rings);

#endif
