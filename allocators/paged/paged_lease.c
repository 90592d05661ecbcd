/* SPDX-License-Identifier: Apache-2.0 */
/* Leases of a place in pages: an arena each, whose pages stay where they are. So a graph that was recorded
   with the addresses of its blocks can run again after they were freed.

       arena 0   shared   [ block ][ hole  ][ block ]           pages of holes go where they are needed
       arena 1   leased   [ block ][ freed ][ block ][ freed ]  pages stay: no survey counts them as free
       arena 2   ended    [ hole  ][ block ]                    pages of holes go where they are needed

       role      who places blocks in it   made by                   left by
       shared    all threads               dao_paged_add_arena       -
       leased    requests of the lease     dao_paged_lease_begin     dao_paged_lease_end
       ended     nobody                    dao_paged_lease_end       dao_paged_lease_begin, once it is empty

   What a lease holds only grows while it lasts: a block is placed where it lacks the fewest pages, so that
   what was freed under the lease is reused first. What is missing is taken from the other arenas or the
   device as for any request. An ended arena is taken by a new lease when nothing lives in it any more, so
   that a lease counts its own blocks alone. A lease's number is its arena's window plus 1. */
#include "allocators/paged/paged_internal.h"

#include "base/numbers/math.h"
#include "base/report/error.h"

#include <inttypes.h>

/* Returns an arena that a new lease may have, making one if need be: with the world's locks. */
static dao_status_t find_arena(paged_t *paged, arena_t **out_arena)
{
    uint32_t count = dao_paged_arena_count(paged);
    for (uint32_t i = 0; i < count; i++) {
        arena_t *arena = paged->arenas[i];
        if (arena->role == ARENA_ENDED && arena->ledger.stats.live_count == 0) {
            *out_arena = arena;
            return DAO_OK;
        }
    }
    if (count - dao_paged_shared_count(paged) - paged->window_count == DAO_PAGED_LEASE_MAX) {
        return dao_error(DAO_ERR_TOO_MANY,
                         "%s: there are %u leases, those that have ended but have live blocks among them; "
                         "release leases, or free such blocks",
                         paged->ledger.name, DAO_PAGED_LEASE_MAX);
    }
    dao_status_t status = dao_paged_add_arena(paged, ARENA_ENDED);
    if (status == DAO_OK) {
        *out_arena = paged->arenas[count];
    }
    return status;
}

dao_status_t dao_paged_lease_begin(dao_allocator_t *allocator, uint32_t *out_lease)
{
    paged_t *paged = dao_paged_of(allocator);
    arena_t *arena = NULL;
    dao_paged_lock(paged);
    dao_status_t status = find_arena(paged, &arena);
    if (status == DAO_OK) {
        arena->role = ARENA_LEASED;
        *out_lease = arena->window + 1;
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

void dao_paged_lease_end(dao_allocator_t *allocator, uint32_t lease)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    arena_t *arena = dao_paged_leased(paged, lease);
    DAO_ASSERT(arena->role == ARENA_LEASED);
    arena->role = ARENA_ENDED;
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
}

void dao_paged_lease_stats(dao_allocator_t *allocator, uint32_t lease, dao_block_lease_stats_t *out_stats)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    const arena_t *arena = dao_paged_leased(paged, lease);
    const dao_stats_t *stats = &arena->ledger.stats;
    *out_stats = (dao_block_lease_stats_t){.held_bytes = dao_pages_mapped_count(paged->pages, arena->window) *
                                                         paged->page_bytes,
                                           .used_bytes = stats->used_bytes,
                                           .live_count = stats->live_count};
    dao_paged_unlock(paged);
}

/* Takes the place of a block, with all locks held: what is in the way may have passed since. */
static dao_status_t take_again(paged_t *paged, placing_t *placing, uint64_t offset_bytes)
{
    if (!dao_paged_is_mapped(placing->arena, offset_bytes, placing->block_bytes)) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    dao_status_t status = dao_paged_take_at(placing, offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        dao_paged_settle_all(paged);
        status = dao_paged_take_at(placing, offset_bytes);
    }
    return status;
}

/* Says why a block cannot be taken again. */
static dao_status_t resume_error(const paged_t *paged, const placing_t *placing, const void *address,
                                 dao_status_t status)
{
    if (status == DAO_ERR_LIMIT) {
        return dao_error(DAO_ERR_BUSY,
                         "%s: of %" PRIu64 " bytes at %p some are in a live block, or a stream may still use "
                         "them; free the block, or synchronize the stream it was freed on",
                         paged->ledger.name, placing->block_bytes, address);
    }
    return status != DAO_ERR_FOREIGN_POINTER
               ? status
               : dao_error(status, "%s: the lease has had no block of %" PRIu64 " bytes at %p",
                           paged->ledger.name, placing->block_bytes, address);
}

dao_status_t dao_paged_lease_resume(dao_allocator_t *allocator, void *address,
                                    const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    paged_t *paged = dao_paged_of(allocator);
    placing_t placing = {.request = request, .arena = dao_paged_leased(paged, request->lease)};
    uint64_t offset_bytes = dao_arena_offset(placing.arena, address);
    DAO_ASSERT(placing.arena->role == ARENA_LEASED && request->size_bytes > 0);
    bool is_inside = offset_bytes < paged->window_bytes && offset_bytes % DAO_RANGE_GRANULE == 0 &&
                     request->size_bytes <= paged->window_bytes - offset_bytes;
    placing.block_bytes =
        is_inside ? dao_round_up(request->size_bytes, DAO_RANGE_GRANULE) : request->size_bytes;
    if (!is_inside) {
        return resume_error(paged, &placing, address, DAO_ERR_FOREIGN_POINTER);
    }
    dao_status_t status = dao_ledger_charge(&paged->ledger, request, placing.block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_paged_lock(paged);
    status = take_again(paged, &placing, offset_bytes);
    if (status == DAO_OK) {
        dao_paged_finish(&placing, out_grant);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    if (status != DAO_OK) {
        dao_ledger_refund(&paged->ledger, request, placing.block_bytes);
    }
    return resume_error(paged, &placing, address, status);
}
