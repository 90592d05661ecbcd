/* SPDX-License-Identifier: Apache-2.0 */
/* The trace of a snapshot: the events that the place keeps, made to agree with the blocks and segments.

   Other threads work while blocks are copied and events are read, a ring drops events, and memory that was
   given back is in no segment any more. A viewer goes through the trace backwards from the blocks, and wants
   that each event finds its block and each block its segment. So, for each address:

       alloc, free, alloc ...     they take turns; where one between two was lost, the alloc goes that has no
                                  free, or the free that has no alloc
       the last one, alloc        the block is live; else the alloc goes: it came after the blocks were copied
                  free            no block is live there; else the free goes
                                  a block that is kept back: its free was asked for and is not done

   Where no segment is, there was one: it begins with the trace and ends with the last free in it, as when it
   was given back is not known. */
#include "runtime/observe/snapshot.h"

#include "allocators/accounting/tag_names.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "runtime/observe/event_ring.h"

#include <stdlib.h>

/* Orders of entries of one time: three for each event, as a segment begins before it or ends after it. */
enum { ORDER_BEFORE, ORDER_EVENT, ORDER_BEHIND, ORDERS };

/* A walk through the addresses of events, in order. */
typedef struct trace_walk {
    dao_snapshot_t *snapshot;
    size_t capacity;                         /* of the snapshot's entries */
    const dao_snapshot_segment_t **segments; /* in order of address */
    size_t next_segment;                     /* the first one that does not end before the address */
    uint64_t gone_end;   /* where the latest segment that is gone ends so far; 0: there is none */
    size_t gone;         /* the index of its entries: its begin, and its end behind that */
    uint64_t first_time; /* of all entries */
} trace_walk_t;

static int compare(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int compare_times(const void *left, const void *right)
{
    const dao_snapshot_entry_t *a = left, *b = right;
    int by_time = compare(a->time, b->time);
    return by_time != 0 ? by_time : compare(a->order, b->order);
}

static int compare_addresses(const void *left, const void *right)
{
    const dao_snapshot_entry_t *a = left, *b = right;
    int by_address = compare(a->address, b->address);
    return by_address != 0 ? by_address : compare_times(left, right);
}

/* ---- events ---- */

/* Takes over what happened to blocks until now. */
static dao_status_t entries_read(dao_snapshot_t *snapshot, uint64_t now)
{
    dao_core_t *core = dao_core_started();
    dao_memory_event_t *events = NULL;
    size_t count = 0;
    dao_status_t status =
        core != NULL ? dao_events_ring_copy(core->event_rings, snapshot->place, &events, &count) : DAO_OK;
    if (status != DAO_OK || events == NULL) {
        return status;
    }
    snapshot->entries = dao_host_calloc(count + 1, sizeof(*snapshot->entries));
    for (size_t i = 0; i < count && snapshot->entries != NULL; i++) {
        const dao_memory_event_t *event = &events[i];
        bool is_alloc = event->kind == DAO_MEMORY_EVENT_KIND_ALLOC;
        if ((is_alloc || event->kind == DAO_MEMORY_EVENT_KIND_FREE) && event->time_ns <= now) {
            snapshot->entries[snapshot->entry_count++] = (dao_snapshot_entry_t){
                .time = event->time_ns,
                .order = (i + 1) * ORDERS + ORDER_EVENT,
                .address = event->address,
                .size_bytes = event->size_bytes,
                .action = is_alloc ? DAO_SNAPSHOT_ACTION_ALLOC : DAO_SNAPSHOT_ACTION_FREE,
                .tag = event->tag,
                .stream = event->stream};
        }
    }
    dao_host_free(events);
    return snapshot->entries != NULL
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a trace of %zu events", count);
}

/* ---- an address ---- */

/* Drops entries of an address until they take turns, and agree with its block, or that there is none. */
static void address_settle(dao_snapshot_entry_t *entries, size_t count, const dao_snapshot_block_t *block)
{
    dao_snapshot_entry_t *last = NULL;
    for (size_t i = 0; i < count; i++) {
        bool is_again = last != NULL && last->action == entries[i].action;
        if (is_again && last->action == DAO_SNAPSHOT_ACTION_FREE) {
            entries[i].action = DAO_SNAPSHOT_ACTION_NONE;
            continue;
        }
        if (is_again) {
            last->action = DAO_SNAPSHOT_ACTION_NONE;
        }
        last = &entries[i];
    }
    bool is_alloc = last->action == DAO_SNAPSHOT_ACTION_ALLOC;
    bool is_live =
        block != NULL && block->state == DAO_BLOCK_STATE_LIVE && block->requested_bytes == last->size_bytes;
    if (is_alloc != is_live) {
        last->action = DAO_SNAPSHOT_ACTION_NONE;
    } else if (!is_alloc && block != NULL && block->state == DAO_BLOCK_STATE_PENDING) {
        last->action = DAO_SNAPSHOT_ACTION_FREE_ASKED;
    }
}

/* Returns the segment around an address that is not before the last one asked for; NULL: there is none. */
static const dao_snapshot_segment_t *segment_find(trace_walk_t *walk, uint64_t address)
{
    size_t count = walk->snapshot->segment_count;
    while (walk->next_segment < count &&
           walk->segments[walk->next_segment]->address + walk->segments[walk->next_segment]->size_bytes <=
               address) {
        walk->next_segment++;
    }
    return walk->next_segment < count && walk->segments[walk->next_segment]->address <= address
               ? walk->segments[walk->next_segment]
               : NULL;
}

static int compare_block(const void *key, const void *block)
{
    return compare(*(const uint64_t *)key, ((const dao_snapshot_block_t *)block)->address);
}

/* Returns the block of a segment that begins at an address; NULL: none does. */
static const dao_snapshot_block_t *block_find(const dao_snapshot_t *snapshot,
                                              const dao_snapshot_segment_t *segment, uint64_t address)
{
    const dao_snapshot_block_t *blocks = snapshot->blocks;
    return segment != NULL ? bsearch(&address, &blocks[segment->first_block], segment->block_count,
                                     sizeof(*blocks), compare_block)
                           : NULL;
}

/* ---- segments that are gone ---- */

static dao_status_t entry_append(trace_walk_t *walk, dao_snapshot_entry_t entry)
{
    dao_snapshot_t *snapshot = walk->snapshot;
    if (snapshot->entry_count == walk->capacity) {
        size_t capacity = walk->capacity + walk->capacity / 2 + 2;
        dao_snapshot_entry_t *entries =
            dao_host_realloc(snapshot->entries, capacity, sizeof(*snapshot->entries));
        if (entries == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a trace of %zu entries", capacity);
        }
        snapshot->entries = entries;
        walk->capacity = capacity;
    }
    snapshot->entries[snapshot->entry_count++] = entry;
    return DAO_OK;
}

/* Enlarges the latest segment that is gone by what was at an address, or begins another one. `last` is the
   last entry of the address. */
static dao_status_t gone_note(trace_walk_t *walk, uint64_t address, uint64_t size_bytes,
                              dao_snapshot_entry_t last)
{
    const dao_snapshot_t *snapshot = walk->snapshot;
    dao_status_t status = DAO_OK;
    if (walk->gone_end == 0 || address > walk->gone_end) {
        walk->gone = snapshot->entry_count;
        status = entry_append(walk, (dao_snapshot_entry_t){.time = walk->first_time,
                                                           .order = ORDER_BEFORE,
                                                           .address = address,
                                                           .action = DAO_SNAPSHOT_ACTION_SEGMENT_ALLOC});
        if (status == DAO_OK) {
            status = entry_append(
                walk, (dao_snapshot_entry_t){.address = address, .action = DAO_SNAPSHOT_ACTION_SEGMENT_FREE});
        }
        walk->gone_end = address;
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_snapshot_entry_t *begin = &snapshot->entries[walk->gone], *end = begin + 1;
    uint64_t next_segment = walk->next_segment < snapshot->segment_count
                                ? walk->segments[walk->next_segment]->address
                                : UINT64_MAX;
    walk->gone_end = dao_larger(walk->gone_end, dao_smaller(address + size_bytes, next_segment));
    begin->size_bytes = end->size_bytes = walk->gone_end - begin->address;
    if (compare_times(end, &last) < 0) {
        end->time = last.time;
        end->order = last.order - ORDER_EVENT + ORDER_BEHIND;
    }
    return DAO_OK;
}

/* ---- all of it ---- */

/* Goes through the addresses of the entries, which are sorted by them. */
static dao_status_t addresses_walk(trace_walk_t *walk, size_t event_count)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0, end; i < event_count && status == DAO_OK; i = end) {
        dao_snapshot_entry_t *entries = &walk->snapshot->entries[i];
        uint64_t size_bytes = 0;
        for (end = i; end < event_count && walk->snapshot->entries[end].address == entries->address; end++) {
            size_bytes = dao_larger(size_bytes, walk->snapshot->entries[end].size_bytes);
        }
        const dao_snapshot_segment_t *segment = segment_find(walk, entries->address);
        address_settle(entries, end - i, block_find(walk->snapshot, segment, entries->address));
        if (segment == NULL && size_bytes > 0) {
            status = gone_note(walk, entries->address, size_bytes, entries[end - i - 1]);
        }
    }
    return status;
}

static int compare_segments(const void *left, const void *right)
{
    const dao_snapshot_segment_t *const *a = left, *const *b = right;
    return compare((*a)->address, (*b)->address);
}

/* Makes the entries, which are not in order yet, agree with blocks and segments. */
static dao_status_t entries_settle(dao_snapshot_t *snapshot)
{
    size_t count = snapshot->entry_count;
    trace_walk_t walk = {.snapshot = snapshot,
                         .capacity = count,
                         .segments = dao_host_calloc(snapshot->segment_count + 1, sizeof(void *)),
                         .first_time = UINT64_MAX};
    if (walk.segments == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the order of %zu segments",
                         snapshot->segment_count);
    }
    for (size_t i = 0; i < snapshot->segment_count; i++) {
        walk.segments[i] = &snapshot->segments[i];
    }
    for (size_t i = 0; i < count; i++) {
        walk.first_time = dao_smaller(walk.first_time, snapshot->entries[i].time);
    }
    qsort(walk.segments, snapshot->segment_count, sizeof(void *), compare_segments);
    qsort(snapshot->entries, count, sizeof(*snapshot->entries), compare_addresses);
    dao_status_t status = addresses_walk(&walk, count);
    dao_host_free(walk.segments);
    return status;
}

dao_status_t dao_snapshot_trace(dao_snapshot_t *snapshot)
{
    dao_status_t status = entries_read(snapshot, dao_ticks());
    if (status != DAO_OK || snapshot->entry_count == 0 || (status = entries_settle(snapshot)) != DAO_OK) {
        return status;
    }
    qsort(snapshot->entries, snapshot->entry_count, sizeof(*snapshot->entries), compare_times);
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        snapshot->entries[i].time = dao_ticks_to_ns(snapshot->entries[i].time);
    }
    return DAO_OK;
}

/* ---- as a viewer is told ---- */

void dao_snapshot_walk_events(const dao_snapshot_t *snapshot, dao_snapshot_event_function_t take, void *user)
{
    static const dao_snapshot_event_t events[] = {
        [DAO_SNAPSHOT_ACTION_SEGMENT_ALLOC] = DAO_SNAPSHOT_EVENT_SEGMENT_ALLOC,
        [DAO_SNAPSHOT_ACTION_ALLOC] = DAO_SNAPSHOT_EVENT_ALLOC,
        [DAO_SNAPSHOT_ACTION_FREE] = DAO_SNAPSHOT_EVENT_FREE_REQUESTED,
        [DAO_SNAPSHOT_ACTION_FREE_ASKED] = DAO_SNAPSHOT_EVENT_FREE_REQUESTED,
        [DAO_SNAPSHOT_ACTION_SEGMENT_FREE] = DAO_SNAPSHOT_EVENT_SEGMENT_FREE};
    dao_snapshot_entry_t last = {.time = 0};
    bool has_any = false;
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        const dao_snapshot_entry_t *entry = &snapshot->entries[i];
        last.time = entry->time;
        if (entry->action != DAO_SNAPSHOT_ACTION_NONE) {
            take(events[entry->action], entry, user);
            has_any = true;
        }
        if (entry->action == DAO_SNAPSHOT_ACTION_FREE) {
            take(DAO_SNAPSHOT_EVENT_FREE_COMPLETED, entry, user);
        }
    }
    if (has_any) { /* no tag is for it, so one category is "unknown", without which the viewer throws */
        take(DAO_SNAPSHOT_EVENT_SNAPSHOT, &last, user);
    }
}

const char *dao_snapshot_event_text(dao_snapshot_event_t event)
{
    static const char *const texts[] = {
#define EVENT_TEXT(symbol, text) text,
        DAO_SNAPSHOT_EVENT_LIST(EVENT_TEXT)
#undef EVENT_TEXT
    };
    return texts[event];
}

bool dao_snapshot_has_tags(const dao_snapshot_t *snapshot)
{
    for (size_t i = 0; i < snapshot->entry_count; i++) {
        if (snapshot->entries[i].tag != 0) {
            return true;
        }
    }
    return false;
}

const char *dao_snapshot_tag_text(uint32_t tag)
{
    const char *name = tag != 0 ? dao_tag_names_get(tag) : NULL;
    return name != NULL ? name : "unknown";
}
