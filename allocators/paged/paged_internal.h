/* SPDX-License-Identifier: Apache-2.0 */
/* What the files paged*.c share: the place, its arenas, and the locks. What holds is said in paged.c. */
#ifndef DAO_ALLOCATORS_PAGED_INTERNAL_H
#define DAO_ALLOCATORS_PAGED_INTERNAL_H

#include "allocators/paged/paged.h"
#include "allocators/pages/pages.h"
#include "allocators/range/segment.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"
#include "base/threads/thread_local.h"

/* Every arena has a window. */
static_assert(DAO_PAGED_ARENA_MAX + DAO_PAGED_LEASE_MAX + DAO_PAGED_WINDOW_MAX <= DAO_PAGES_WINDOW_MAX,
              "each arena has a window");

/* Which requests an arena takes. A shared one and a window keep their role for ever; the others change as
   paged_lease.c says. */
typedef enum arena_role {
    ARENA_SHARED, /* all threads */
    ARENA_LEASED, /* requests of its lease; its pages stay where they are */
    ARENA_ENDED,  /* nobody: of a lease that has ended */
    ARENA_WINDOW, /* requests that say where; for ever */
} arena_role_t;

typedef struct arena {
    _Alignas(64) dao_spin_t lock;
    uint32_t page_shift;
    const uint64_t *mapped;      /* a bit a page of the window */
    uint64_t mapped_floor_bytes; /* all of the window below this is mapped */
    /* Bytes that a block is placed higher for to leave a page free; 0: memory is not tight. As of the last
       change of pages or of the limit, and of the last trim: what others take of a budget that is shared is
       not seen before. */
    uint64_t tight_page_bytes;
    uint64_t fast_bytes;   /* requests of more leave the usual path: 0 where memory is tight */
    dao_segment_t segment; /* the window, and the range over it */
    uint32_t window;
    arena_role_t role;            /* changed with the world's locks */
    dao_ledger_t ledger;          /* of this arena's blocks */
    _Atomic uint64_t taken_count; /* times the lock was found taken */
} arena_t;

typedef struct paged {
    dao_allocator_t base;
    _Atomic uint32_t shared_count;
    /* Of all arenas, those that threads share. In the places behind them stands the first one again, so that
       every thread finds one in its own. */
    _Atomic(arena_t *) shared[DAO_PAGED_ARENA_MAX];
    _Atomic uint32_t arena_count;
    arena_t *arenas[DAO_PAGES_WINDOW_MAX]; /* by their windows */
    dao_stream_fences_t *fences;           /* borrowed; NULL: no streams */
    uint64_t page_bytes;
    uint64_t window_bytes;
    uint64_t window_units; /* the same, in units of a range */
    dao_range_fit_t fit;
    dao_status_t full_status; /* to callers; within, it is DAO_ERR_NO_DEVICE_MEMORY */
    dao_allocator_ops_t ops;  /* what is said of alloc_fast goes for good fit */
    /* guarded by the world's locks */
    dao_ledger_t ledger; /* of the place; what arenas count is added up by dao_paged_gather() */
    dao_pages_t *pages;
    uint32_t window_count; /* arenas whose role is ARENA_WINDOW */
} paged_t;

static inline paged_t *dao_paged_of(dao_allocator_t *allocator)
{
    return (paged_t *)allocator;
}

/* The arena of this thread among the shared ones, at every place that has so many. */
extern DAO_FAST_THREAD_LOCAL size_t dao_paged_home_arena;

/* ---- arenas and their locks: paged_arena.c ---- */

static inline uint32_t dao_paged_arena_count(const paged_t *paged)
{
    return atomic_load_explicit(&paged->arena_count, memory_order_acquire);
}

static inline uint32_t dao_paged_shared_count(const paged_t *paged)
{
    return atomic_load_explicit(&paged->shared_count, memory_order_acquire);
}

/* Takes the locks of all arenas, and gives them back. */
void dao_paged_lock(paged_t *paged);
void dao_paged_unlock(paged_t *paged);

/* Adds an arena, with all locks held; takes the new one's as well. DAO_ERR_NO_HOST_MEMORY; the backend's
   answer. */
DAO_NODISCARD dao_status_t dao_paged_add_arena(paged_t *paged, arena_role_t role);

/* The arena that this thread wanted is taken: gives another one, locked, or waits. */
arena_t *dao_paged_enter_another(paged_t *paged, arena_t *wanted);

/* Returns one of the shared arenas, for a place below DAO_PAGED_ARENA_MAX. */
static inline arena_t *dao_paged_shared(const paged_t *paged, size_t place)
{
    return atomic_load_explicit(&paged->shared[place], memory_order_acquire);
}

/* Returns this thread's arena. */
static inline arena_t *dao_paged_home(const paged_t *paged)
{
    return dao_paged_shared(paged, dao_paged_home_arena);
}

/* Returns this thread's arena, or another one, locked. */
static inline arena_t *dao_paged_enter(paged_t *paged)
{
    arena_t *arena = dao_paged_home(paged);
    return __builtin_expect(dao_spin_try(&arena->lock), true) ? arena : dao_paged_enter_another(paged, arena);
}

static inline uint64_t dao_arena_offset(const arena_t *arena, const void *address)
{
    return (uintptr_t)address - (uintptr_t)arena->segment.address;
}

/* Returns the unit of an arena that an address is the begin of; more than there are if it is none. */
static inline uint64_t dao_arena_unit(const arena_t *arena, const void *address)
{
    uint64_t offset_bytes = dao_arena_offset(arena, address);
    return offset_bytes / DAO_RANGE_GRANULE |
           offset_bytes * (UINT64_MAX / DAO_RANGE_GRANULE + 1); /* huge within a unit */
}

/* Returns the arena that an address lies in, or NULL. */
static inline arena_t *arena_around(const paged_t *paged, const void *address)
{
    uint32_t count = dao_paged_arena_count(paged);
    for (uint32_t i = 0; i < count; i++) {
        if (dao_arena_offset(paged->arenas[i], address) < paged->window_bytes) {
            return paged->arenas[i];
        }
    }
    return NULL;
}

/* Takes a certain arena's lock. */
static inline void dao_arena_lock(arena_t *arena)
{
    if (!__builtin_expect(dao_spin_try(&arena->lock), true)) {
        atomic_fetch_add_explicit(&arena->taken_count, 1, memory_order_relaxed);
        dao_spin_lock(&arena->lock);
    }
}

/* Returns the arena of a lease, which is not ended. */
static inline arena_t *dao_paged_leased(const paged_t *paged, uint32_t lease)
{
    DAO_ASSERT(lease <= dao_paged_arena_count(paged));
    return paged->arenas[lease - 1];
}

/* ---- leases: paged_lease.c ---- */

dao_status_t dao_paged_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease);
void dao_paged_lease_end(dao_allocator_t *allocator, uint32_t lease);
void dao_paged_lease_stats(dao_allocator_t *allocator, uint32_t lease, dao_block_lease_stats_t *out_stats);
dao_status_t dao_paged_lease_resume(dao_allocator_t *allocator, void *address,
                                    const dao_block_request_t *request, dao_block_grant_t *out_grant);

/* ---- in stream order: paged_ordered.c ---- */

void *dao_paged_alloc_ordered(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream);
dao_status_t dao_paged_free_ordered(dao_allocator_t *allocator, void *address, uint32_t stream,
                                    dao_block_owner_t owner);

/* ---- windows: paged_window.c ---- */

dao_status_t dao_paged_window_begin(dao_allocator_t *allocator, dao_window_t *out_window);
dao_status_t dao_paged_alloc_at(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                                const dao_block_request_t *request, dao_block_grant_t *out_grant);

dao_status_t dao_paged_window_back(dao_allocator_t *allocator, const dao_window_t *window,
                                   size_t offset_bytes, size_t size_bytes);

/* ---- what is asked of all arenas, with all locks held: paged_arena.c ---- */

dao_pages_ranges_t dao_paged_ranges(const paged_t *paged);

/* Adds up what the arenas have counted. */
void dao_paged_gather(paged_t *paged);

uint64_t dao_paged_live_bytes(const paged_t *paged); /* of the live blocks of all arenas */

/* Returns why the place would grow for a block. */
dao_grow_reason_t dao_paged_grow_reason(const paged_t *paged, uint64_t block_bytes);

/* Returns the number of pages that the place may still take, as far as its limits go; and of those that the
   device has, too. */
uint32_t dao_paged_room(const paged_t *paged);
uint32_t dao_paged_growable(const paged_t *paged);

/* Notes what has become of the pages: what the backend has given or got back, where they are, and whether
   memory is tight. */
void dao_paged_note_pages(paged_t *paged);

/* Returns the number of pages that blocks live in, fences keep, or leases keep. */
uint32_t dao_paged_used_count(paged_t *paged);

uint64_t dao_paged_largest_hole(const paged_t *paged); /* of those that threads share */

/* Frees up to `most` fenced parts of each arena whose streams are known to have passed; if there is none,
   asks the device's events first. Returns true if anything is free now that was not. */
bool dao_paged_settle(paged_t *paged, uint32_t most);

/* Frees all fenced parts whose streams have passed. */
void dao_paged_settle_all(paged_t *paged);

/* Waits on the host for all fences that may keep a request, which are not those of other leases; without a
   lock. False if there is nothing to wait for. */
bool dao_paged_wait_for_fences(paged_t *paged, const dao_block_request_t *request);

/* Frees the arenas; nobody uses the place any more. */
void dao_paged_drop_arenas(paged_t *paged);

bool dao_paged_is_valid_locked(paged_t *paged);

/* ---- placing: paged_place.c ---- */

/* A block on its way: what is asked for, and where it came to be. */
typedef struct placing {
    const dao_block_request_t *request;
    uint64_t block_bytes;
    arena_t *arena;
    dao_range_grant_t grant;
} placing_t;

static inline bool dao_paged_is_mapped(const arena_t *arena, uint64_t offset_bytes, uint64_t size_bytes)
{
    return __builtin_expect(offset_bytes + size_bytes <= arena->mapped_floor_bytes, true) ||
           dao_pages_are_mapped(arena->mapped, offset_bytes >> arena->page_shift,
                                (offset_bytes + size_bytes - 1) >> arena->page_shift);
}

/* Where a block may go: a hole of an arena's range, and an offset in it. */
typedef struct tight_place {
    uint32_t hole;
    uint64_t offset_bytes;
} tight_place_t;

/* Finds the place for a block in an arena whose lock is held and where memory is tight, as paged_tight.c
   says; false: there is none that needs no pages. An alignment of 0 is the granule's. */
bool dao_paged_find_tight(const arena_t *arena, uint64_t block_bytes, uint64_t alignment_bytes,
                          tight_place_t *out_place);

/* Counts a block that was placed, and grants it. */
static inline void dao_paged_finish(placing_t *placing, dao_block_grant_t *out_grant)
{
    arena_t *arena = placing->arena;
    DAO_ASSERT(dao_paged_is_mapped(arena, placing->grant.offset_bytes, placing->block_bytes));
    dao_ledger_count_alloc(&arena->ledger, placing->request, (size_t)placing->block_bytes);
    out_grant->address = arena->segment.address + placing->grant.offset_bytes;
    out_grant->fence = placing->grant.fence;
}

/* The same, out of line. */
void dao_paged_finish_slow(placing_t *placing, dao_block_grant_t *out_grant);

/* Places a block where it lacks the fewest pages, in one of the first `count` arenas, this thread's own being
   the first, and brings them there; with all locks held. */
DAO_NODISCARD dao_status_t dao_paged_place_and_back(paged_t *paged, placing_t *placing, uint32_t count);

/* Brings the pages that a placed block lacks, with all locks held; undoes the placing where that fails. */
DAO_NODISCARD dao_status_t dao_paged_back(paged_t *paged, placing_t *placing);

/* Takes the place of a block in its arena, whose lock is held, if it is free; else DAO_ERR_LIMIT without a
   message. Pages are not looked at. */
DAO_NODISCARD dao_status_t dao_paged_take_at(placing_t *placing, uint64_t offset_bytes);

/* Undoes a placing: the part is fenced as it was. */
void dao_paged_take_back(arena_t *arena, const dao_range_grant_t *grant);

/* Takes a block in an arena, whose lock is held, where that needs no pages. DAO_ERR_LIMIT, without a message,
   if there is no such place. */
DAO_NODISCARD dao_status_t dao_paged_place_in(arena_t *arena, placing_t *placing, bool takes_fenced);

/* What is behind the usual path: all the ways to a block that the head comment of paged.c lists. */
DAO_NODISCARD dao_status_t dao_paged_alloc_slow(paged_t *paged, placing_t *placing,
                                                dao_block_grant_t *out_grant);

#endif
