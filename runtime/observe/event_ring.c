/* SPDX-License-Identifier: Apache-2.0 */
/* Rings of events, one a place, with many writers and a reader.

       next_index ──> 0 1 2 ... counts all events ever; event i lies in slot i mod size

       slot   [ ticks | address | size, stream | sequence, thread, tag, kind ]      32 bytes

   A slot's last word is its state. It holds the low half of the event's index plus one while the slot is
   whole, and 0 while somebody writes it. A writer takes the next index, then takes the slot by a
   compare-and-swap of that word to 0, writes the other three, and puts its own word there. It drops its event
   (the reader counts it as lost) if the slot is being written, or holds a later event. The ring has turned
   then, while this writer or the other one was interrupted.

   Why no torn event is read: only who has swapped the word to 0 writes a slot, and all its stores are
   releases. The reader loads the state, the words, and the state again. If it saw a word of a later writer,
   it has also seen that writer's swap, so the second state is not the first one.

   The state names 2^32 indices apart the same, which a reader could only mistake if a slot kept one event
   while the ring turned that often.

   Rings are not freed while the library runs, since a writer may still use one that was stopped. They stay in
   the list of their place, and a start reuses one of its size. Sizes are powers of two, so there
   are few. A ring goes on counting where it stopped, so that a writer which comes late writes an event that
   is too early, and gives it up. */
#include "runtime/observe/event_ring.h"

#include "allocators/accounting/word.h"
#include "allocators/slow_path.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/text/setting.h"

#include <inttypes.h>
#include <stdlib.h>

/* A slot's last word, from the lowest bit up. */
#define KIND_BITS     4
#define TAG_BITS      DAO_WORD_TAG_BITS
#define THREAD_BITS   18
#define SEQUENCE_BITS 32

static_assert(KIND_BITS + TAG_BITS + THREAD_BITS + SEQUENCE_BITS == 64, "one word");

#define SIZE_MASK ((UINT64_C(1) << DAO_WORD_REQUESTED_BITS) - 1)

/* How long a reader waits for a writer that was interrupted in the middle of the next event. */
#define READ_WAIT_NS UINT64_C(1000000000)

typedef struct ring_slot {
    _Atomic uint64_t ticks;
    _Atomic uint64_t address;
    _Atomic uint64_t size_and_stream;
    _Atomic uint64_t state;
} ring_slot_t;

static_assert(sizeof(ring_slot_t) == 32 && sizeof(dao_memory_event_t) == 32, "events of 32 bytes");

typedef struct ring {
    struct ring *next;  /* of the same place, from an earlier recording of another size */
    uint64_t slot_mask; /* slots less one; a power of two of them */
    ring_slot_t *slots;
    _Atomic uint64_t next_index;
    /* guarded by the rings' lock */
    uint64_t first_index; /* of the latest recording */
    uint64_t read_index;
} ring_t;

/* The places of a core: the host, then pinned and device of each index. */
#define PLACE_COUNT (1 + 2 * DAO_DEVICE_COUNT_MAX)

struct dao_event_rings {
    uint64_t history_count; /* events that every place keeps from its start on; 0: none (DAO_HISTORY) */
    _Atomic(ring_t *) recording[PLACE_COUNT]; /* NULL: the place does not record */
    dao_mutex_t lock;
    /* guarded by the lock */
    ring_t *rings[PLACE_COUNT]; /* the ring of the latest recording first; NULL: there was none */
};

_Atomic uint32_t dao_events_on;

static size_t place_slot(dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_CPU
               ? 0
               : 1 + 2 * (size_t)place.index + (size_t)(place.kind == DAO_PLACE_KIND_DEVICE);
}

/* ---- writing ---- */

static uint32_t thread_number(void)
{
    static _Atomic uint32_t thread_count;
    static _Thread_local uint32_t own;
    if (own == 0) {
        uint32_t number = atomic_fetch_add_explicit(&thread_count, 1, memory_order_relaxed);
        own = number % ((1u << THREAD_BITS) - 1) + 1;
    }
    return own;
}

static uint64_t state_of(uint64_t index, const dao_noted_t *noted)
{
    return (uint64_t)noted->kind | (uint64_t)noted->tag << KIND_BITS |
           (uint64_t)thread_number() << (KIND_BITS + TAG_BITS) |
           (uint64_t)(uint32_t)(index + 1) << (64 - SEQUENCE_BITS);
}

/* How far a slot's event is ahead of the one with this index, in events: 0 is that one. */
static int32_t state_ahead(uint64_t state, uint64_t index)
{
    return (int32_t)((uint32_t)(state >> (64 - SEQUENCE_BITS)) - (uint32_t)(index + 1));
}

static void ring_write(ring_t *ring, const dao_noted_t *noted)
{
    uint64_t index = atomic_fetch_add_explicit(&ring->next_index, 1, memory_order_relaxed);
    ring_slot_t *slot = &ring->slots[index & ring->slot_mask];
    uint64_t before = atomic_load_explicit(&slot->state, memory_order_relaxed);
    bool is_being_written = before == 0 && index > ring->slot_mask;
    bool is_later = before != 0 && state_ahead(before, index) > 0;
    if (is_being_written || is_later ||
        !atomic_compare_exchange_strong_explicit(&slot->state, &before, 0, memory_order_acquire,
                                                 memory_order_relaxed)) {
        return;
    }
    uint64_t size_bytes = noted->size_bytes < SIZE_MASK ? noted->size_bytes : SIZE_MASK;
    atomic_store_explicit(&slot->ticks, noted->ticks, memory_order_release);
    atomic_store_explicit(&slot->address, (uint64_t)(uintptr_t)noted->address, memory_order_release);
    atomic_store_explicit(&slot->size_and_stream,
                          size_bytes | (uint64_t)noted->stream << DAO_WORD_REQUESTED_BITS,
                          memory_order_release);
    atomic_store_explicit(&slot->state, state_of(index, noted), memory_order_release);
}

/* Writes an event to the recording, and to the ring of its place, if there are such. `core` is NULL in a
   public call, which cannot be under way when the core ends. A release of a handle can: it passes the core
   that it holds a reference to. Lock-free. */
static void note(dao_core_t *core, const dao_noted_t *noted)
{
    dao_recording_note(noted);
    core = core != NULL ? core : dao_core_started();
    ring_t *ring = core == NULL
                       ? NULL
                       : atomic_load_explicit(&core->event_rings->recording[place_slot(noted->place)],
                                              memory_order_acquire);
    if (ring != NULL) {
        ring_write(ring, noted);
    }
}

void dao_events_note_alloc_now(dao_place_t place, const dao_block_request_t *request, const void *address,
                               dao_status_t status)
{
    bool is_done = status == DAO_OK;
    dao_noted_t noted = {.kind = is_done ? DAO_MEMORY_EVENT_KIND_ALLOC : DAO_MEMORY_EVENT_KIND_ALLOC_FAILED,
                         .place = place,
                         .address = is_done ? address : NULL,
                         .size_bytes = request->size_bytes,
                         .tag = request->tag,
                         .stream = request->stream,
                         .ticks = dao_ticks()};
    if (is_done) {
        dao_annotate_alloc(place, address, request->size_bytes);
    }
    note(NULL, &noted);
    dao_recording_tell();
}

dao_freeing_t dao_events_free_begins_now(dao_allocator_t *allocator, dao_place_t place, const void *address)
{
    dao_freeing_t freeing = {.ticks = dao_ticks(), .address = address};
    dao_block_t block;
    if (allocator->ops->query(allocator, address, &block) == DAO_OK) {
        freeing.size_bytes = block.requested_bytes;
    }
    dao_annotate_free(place, address);
    return freeing;
}

void dao_events_note_freed(dao_core_t *core, dao_place_t place, const dao_freeing_t *freeing)
{
    if (freeing->ticks != 0) {
        dao_noted_t noted = {.kind = DAO_MEMORY_EVENT_KIND_FREE,
                             .place = place,
                             .address = freeing->address,
                             .size_bytes = freeing->size_bytes,
                             .ticks = freeing->ticks};
        note(core, &noted);
    }
}

dao_status_t dao_events_free(dao_allocator_t *allocator, dao_place_t place, void *address)
{
    dao_freeing_t freeing = dao_events_free_begins_now(allocator, place, address);
    dao_status_t status = dao_allocator_free(allocator, address);
    if (status == DAO_OK) {
        dao_events_note_freed(NULL, place, &freeing);
    }
    return status;
}

void dao_events_note_trim(dao_place_t place, size_t released_bytes)
{
    if (dao_events_are_on()) {
        dao_noted_t noted = {.kind = DAO_MEMORY_EVENT_KIND_TRIM,
                             .place = place,
                             .size_bytes = released_bytes,
                             .ticks = dao_ticks()};
        note(NULL, &noted);
    }
}

/* ---- reading ---- */

typedef enum reading { READING_WHOLE, READING_LOST, READING_LATER } reading_t;

/* Reads the event of an index, if it is there: whole, lost, or not written yet. */
static reading_t slot_read(ring_slot_t *slot, uint64_t index, dao_memory_event_t *out_event)
{
    uint64_t state = atomic_load_explicit(&slot->state, memory_order_acquire);
    if (state == 0 || state_ahead(state, index) < 0) {
        return READING_LATER;
    }
    uint64_t ticks = atomic_load_explicit(&slot->ticks, memory_order_acquire);
    uint64_t address = atomic_load_explicit(&slot->address, memory_order_acquire);
    uint64_t size_and_stream = atomic_load_explicit(&slot->size_and_stream, memory_order_acquire);
    if (state_ahead(state, index) > 0 || atomic_load_explicit(&slot->state, memory_order_relaxed) != state) {
        return READING_LOST;
    }
    *out_event = (dao_memory_event_t){.time_ns = ticks,
                                      .address = address,
                                      .size_bytes = size_and_stream & SIZE_MASK,
                                      .thread = state >> (KIND_BITS + TAG_BITS) & ((1u << THREAD_BITS) - 1),
                                      .tag = state >> KIND_BITS & ((1u << TAG_BITS) - 1),
                                      .kind = state & ((1u << KIND_BITS) - 1),
                                      .stream = (uint8_t)(size_and_stream >> DAO_WORD_REQUESTED_BITS)};
    return READING_WHOLE;
}

/* Lets a writer that is in the middle of the next event end it. If that takes too long, the event is taken
   for lost: a writer that has given its event up leaves the slot as it was. */
static reading_t slot_wait(ring_slot_t *slot, uint64_t index, dao_memory_event_t *out_event)
{
    uint64_t end_ns = dao_clock_ns() + READ_WAIT_NS;
    reading_t reading = READING_LATER;
    while (reading == READING_LATER && dao_clock_ns() < end_ns) {
        dao_thread_yield();
        reading = slot_read(slot, index, out_event);
    }
    return reading == READING_LATER ? READING_LOST : reading;
}

/* Reads up to `capacity` events, their times in ticks. */
static size_t ring_read_locked(ring_t *ring, dao_memory_event_t *events, size_t capacity, uint64_t *out_lost)
{
    uint64_t end = atomic_load_explicit(&ring->next_index, memory_order_relaxed);
    uint64_t lost_count = 0;
    if (end - ring->read_index > ring->slot_mask + 1) {
        lost_count = end - ring->read_index - (ring->slot_mask + 1);
        ring->read_index += lost_count;
    }
    size_t count = 0;
    while (ring->read_index < end && count < capacity) {
        ring_slot_t *slot = &ring->slots[ring->read_index & ring->slot_mask];
        reading_t reading = slot_read(slot, ring->read_index, &events[count]);
        if (reading == READING_LATER) {
            reading = slot_wait(slot, ring->read_index, &events[count]);
        }
        count += reading == READING_WHOLE;
        lost_count += reading == READING_LOST;
        ring->read_index++;
    }
    DAO_ASSERT(ring->read_index <= end);
    *out_lost = lost_count;
    return count;
}

/* ---- rings ---- */

static void ring_destroy(ring_t *ring)
{
    if (ring != NULL) {
        dao_host_free(ring->slots);
        dao_host_free(ring);
    }
}

static ring_t *ring_create(uint64_t slot_count)
{
    ring_t *ring = dao_host_calloc(1, sizeof(*ring));
    ring_slot_t *slots = dao_host_calloc(slot_count, sizeof(*slots));
    if (ring == NULL || slots == NULL) {
        dao_host_free(slots);
        dao_host_free(ring);
        return NULL;
    }
    ring->slots = slots;
    ring->slot_mask = slot_count - 1;
    return ring;
}

/* Returns the place's ring of a size, new or rested, at the head of its list; NULL without memory. */
static ring_t *ring_take_locked(ring_t **list, uint64_t slot_count)
{
    ring_t **link = list;
    while (*link != NULL && (*link)->slot_mask + 1 != slot_count) {
        link = &(*link)->next;
    }
    ring_t *ring = *link;
    if (ring != NULL) {
        *link = ring->next;
    } else if ((ring = ring_create(slot_count)) == NULL) {
        return NULL;
    }
    ring->next = *list;
    *list = ring;
    ring->first_index = atomic_load_explicit(&ring->next_index, memory_order_relaxed);
    ring->read_index = ring->first_index;
    return ring;
}

dao_event_rings_t *dao_events_create(void)
{
    dao_event_rings_t *rings = dao_host_calloc(1, sizeof(*rings));
    if (rings != NULL) {
        dao_mutex_init(&rings->lock, DAO_RANK_LEAF);
    }
    return rings;
}

void dao_events_destroy(dao_event_rings_t *rings)
{
    if (rings == NULL) {
        return;
    }
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        for (ring_t *ring = rings->rings[i], *next; ring != NULL; ring = next) {
            next = ring->next;
            ring_destroy(ring);
        }
    }
    dao_mutex_finish(&rings->lock);
    dao_host_free(rings);
}

void dao_events_observe(void)
{
    dao_slow_path_begin(); /* allocations pass where blocks are noted, from now on */
    atomic_fetch_add(&dao_events_on, 1);
}

static void observe_end(void)
{
    uint32_t before = atomic_fetch_sub(&dao_events_on, 1);
    DAO_ASSERT(before > 0);
    (void)before;
    dao_slow_path_end();
}

static bool stop_locked(dao_event_rings_t *rings, size_t number)
{
    if (atomic_load(&rings->recording[number]) == NULL) {
        return false;
    }
    atomic_store(&rings->recording[number], NULL);
    observe_end();
    return true;
}

dao_status_t dao_events_ring_start(dao_event_rings_t *rings, dao_place_t place, uint64_t event_count)
{
    size_t number = place_slot(place);
    uint64_t slot_count = 1;
    while (slot_count < event_count) {
        slot_count *= 2;
    }
    dao_mutex_lock(&rings->lock);
    bool is_recording = atomic_load(&rings->recording[number]) != NULL;
    ring_t *ring = is_recording ? NULL : ring_take_locked(&rings->rings[number], slot_count);
    if (ring != NULL) {
        atomic_store(&rings->recording[number], ring);
        dao_events_observe();
    }
    dao_mutex_unlock(&rings->lock);
    return is_recording ? DAO_ERR_BUSY : ring != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
}

dao_status_t dao_events_history_find(dao_event_rings_t *rings)
{
    const char *text = dao_setting("DAO_HISTORY");
    char *end = NULL;
    if (text == NULL) {
        return DAO_OK;
    }
    uint64_t count = strtoull(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || count > DAO_EVENTS_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "DAO_HISTORY is \"%.64s\"; write a number of events, at most %zu",
                         text, DAO_EVENTS_COUNT_MAX);
    }
    rings->history_count = count;
    return DAO_OK;
}

dao_status_t dao_events_history_begin(dao_event_rings_t *rings, dao_place_t place)
{
    char text[DAO_PLACE_TEXT_BYTES];
    if (rings->history_count == 0 ||
        dao_events_ring_start(rings, place, rings->history_count) != DAO_ERR_NO_HOST_MEMORY) {
        return DAO_OK; /* one that records already was asked to by the program */
    }
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for %" PRIu64 " events of %s (DAO_HISTORY)",
                     rings->history_count, dao_place_format(place, text));
}

bool dao_events_ring_stop(dao_event_rings_t *rings, dao_place_t place)
{
    dao_mutex_lock(&rings->lock);
    bool was_recording = stop_locked(rings, place_slot(place));
    dao_mutex_unlock(&rings->lock);
    return was_recording;
}

bool dao_events_ring_read(dao_event_rings_t *rings, dao_place_t place, dao_memory_event_t *events,
                          size_t capacity, size_t *out_count, uint64_t *out_lost)
{
    dao_mutex_lock(&rings->lock);
    ring_t *ring = rings->rings[place_slot(place)];
    if (ring != NULL) {
        *out_count = ring_read_locked(ring, events, capacity, out_lost);
    }
    dao_mutex_unlock(&rings->lock);
    return ring != NULL;
}

dao_status_t dao_events_ring_copy(dao_event_rings_t *rings, dao_place_t place,
                                  dao_memory_event_t **out_events, size_t *out_count)
{
    dao_mutex_lock(&rings->lock);
    ring_t *ring = atomic_load(&rings->recording[place_slot(place)]);
    uint64_t next = ring != NULL ? atomic_load(&ring->next_index) : 0;
    uint64_t count = ring != NULL ? next - ring->first_index : 0;
    count = ring != NULL && count > ring->slot_mask ? ring->slot_mask + 1 : count;
    dao_memory_event_t *events = count > 0 ? dao_host_calloc(count, sizeof(*events)) : NULL;
    size_t read_count = 0;
    if (events != NULL) {
        uint64_t lost_count, read_index = ring->read_index;
        ring->read_index = next - count;
        read_count = ring_read_locked(ring, events, count, &lost_count);
        ring->read_index = read_index;
    }
    dao_mutex_unlock(&rings->lock);
    *out_events = events;
    *out_count = read_count;
    return count > 0 && events == NULL
               ? dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to copy %" PRIu64 " events", count)
               : DAO_OK;
}

void dao_events_stop_all(dao_event_rings_t *rings)
{
    dao_mutex_lock(&rings->lock);
    for (size_t i = 0; i < PLACE_COUNT; i++) {
        (void)stop_locked(rings, i); /* most do not record */
    }
    dao_mutex_unlock(&rings->lock);
}
