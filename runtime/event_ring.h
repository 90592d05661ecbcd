/* The events of places: one branch where nothing is recorded. */
#ifndef DAO_RUNTIME_EVENT_RING_H
#define DAO_RUNTIME_EVENT_RING_H

#include "runtime/context_internal.h"

#include <dao/observe.h>

/* Number of places that record, in all of the process. */
extern _Atomic uint32_t dao_events_on;

/* What is to be noted. */
typedef struct dao_noted {
    dao_memory_event_kind_t kind;
    dao_place_t place;
    const void *address;
    size_t size_bytes;
    uint32_t tag;
    uint32_t stream;
    uint64_t ticks; /* when it happened, of dao_ticks() */
} dao_noted_t;

/* Writes an event, if its place records. `core` is NULL in a public call, which cannot be under way when the core ends;
   whoever may be gives the core that it holds a reference to. Lock-free. */
void dao_events_note(dao_core_t *core, const dao_noted_t *noted);

/* Gives the time for an event that is noted after it happened; 0 if nothing is recorded anywhere. */
static inline uint64_t dao_events_ticks(void)
{
    if (__builtin_expect(atomic_load_explicit(&dao_events_on, memory_order_relaxed) == 0, 1)) {
        return 0;
    }
    return dao_ticks();
}

/* Notes an allocation that succeeded or failed just now. */
static inline void dao_events_note_alloc(dao_place_t place, const dao_block_request_t *request,
                                         const void *address, dao_status_t status)
{
    uint64_t ticks = dao_events_ticks();
    if (__builtin_expect(ticks != 0, 0)) {
        dao_noted_t noted = {.kind = status == DAO_OK ? DAO_MEMORY_EVENT_KIND_ALLOC
                                                      : DAO_MEMORY_EVENT_KIND_ALLOC_FAILED,
                             .place = place,
                             .address = status == DAO_OK ? address : NULL,
                             .size_bytes = request->size_bytes,
                             .tag = request->tag,
                             .stream = request->stream,
                             .ticks = ticks};
        dao_events_note(NULL, &noted);
    }
}

/* Notes a free that has succeeded; `ticks` is dao_events_ticks() before it, so that it comes before the block's next life. */
static inline void dao_events_note_free(dao_core_t *core, dao_place_t place, const void *address,
                                        uint64_t ticks)
{
    if (__builtin_expect(ticks != 0, 0)) {
        dao_noted_t noted = {
            .kind = DAO_MEMORY_EVENT_KIND_FREE, .place = place, .address = address, .ticks = ticks};
        dao_events_note(core, &noted);
    }
}

/* Notes that memory was given back. */
static inline void dao_events_note_trim(dao_place_t place, size_t released_bytes)
{
    uint64_t ticks = dao_events_ticks();
    if (__builtin_expect(ticks != 0, 0)) {
        dao_noted_t noted = {
            .kind = DAO_MEMORY_EVENT_KIND_TRIM, .place = place, .size_bytes = released_bytes, .ticks = ticks};
        dao_events_note(NULL, &noted);
    }
}

/* The rings of a core, none of them there yet; NULL without memory. */
dao_event_rings_t *dao_events_create(void);

/* Stops recording at all places, as the library ends. */
void dao_events_stop_all(dao_event_rings_t *rings);

/* Frees the rings; nobody holds the core any more. NULL is allowed. */
void dao_events_destroy(dao_event_rings_t *rings);

#endif
