/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of a place in pages: an arena each, in which blocks lie where the caller says. Its pages belong to
   all arenas: a block brings those that it lacks, and what is free in the window goes where it is needed.

       window   [ block ][ free  ][ block ]     -     [ block ]        addresses
                [ mapped ][   -   ][ mapped ]   -     [ mapped ]       pages; free ones stay until needed

   The usual path takes the window's lock alone: the place is free and mapped. Else the locks of all arenas.

   A window is an arena of its own: a request under the window's lease is placed in it as in any arena. */
#include "allocators/paged/paged_internal.h"

#include "base/numbers/math.h"
#include "base/report/error.h"

dao_status_t dao_paged_window_begin(dao_allocator_t *allocator, dao_window_t *out_window)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_paged_lock(paged);
    dao_status_t status = paged->window_count < DAO_PAGED_WINDOW_MAX
                              ? dao_paged_add_arena(paged, ARENA_WINDOW)
                              : dao_error(DAO_ERR_TOO_MANY, "%s: there are %u windows already",
                                          paged->ledger.name, DAO_PAGED_WINDOW_MAX);
    if (status == DAO_OK) {
        paged->window_count++;
        const arena_t *arena = paged->arenas[dao_paged_arena_count(paged) - 1];
        *out_window = (dao_window_t){.address = arena->segment.address,
                                     .size_bytes = arena->segment.size_bytes,
                                     .lease = arena->window + 1};
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

/* Takes it and brings the pages that it lacks, with all locks held. */
static dao_status_t take_and_back(paged_t *paged, placing_t *placing, uint64_t offset_bytes)
{
    dao_status_t status = dao_paged_take_at(placing, offset_bytes);
    if (status == DAO_ERR_LIMIT && !dao_block_request_takes_fenced(placing->request)) {
        dao_paged_settle_all(paged);
        status = dao_paged_take_at(placing, offset_bytes);
    }
    return status == DAO_OK ? dao_paged_back(paged, placing) : status;
}

static dao_status_t place_at(paged_t *paged, placing_t *placing, uint64_t offset_bytes,
                             dao_block_grant_t *out_grant)
{
    arena_t *arena = placing->arena;
    dao_arena_lock(arena);
    dao_status_t status = dao_paged_take_at(placing, offset_bytes);
    bool is_mapped = status == DAO_OK && dao_paged_is_mapped(arena, offset_bytes, placing->block_bytes);
    bool may_settle = status == DAO_ERR_LIMIT && dao_range_has_fences(arena->segment.range);
    if (is_mapped) {
        dao_paged_finish(placing, out_grant);
    } else if (status == DAO_OK) {
        dao_paged_take_back(arena, &placing->grant);
    }
    dao_spin_unlock(&arena->lock);
    if (is_mapped || (status != DAO_OK && !may_settle)) {
        return status;
    }
    dao_paged_lock(paged);
    status = take_and_back(paged, placing, offset_bytes);
    if (status == DAO_OK) {
        dao_paged_finish(placing, out_grant);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}

dao_status_t dao_paged_alloc_at(dao_allocator_t *allocator, const dao_window_t *window, void *address,
                                const dao_block_request_t *request, dao_block_grant_t *out_grant)
{
    paged_t *paged = dao_paged_of(allocator);
    placing_t placing = {.request = request,
                         .block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE),
                         .arena = paged->arenas[window->lease - 1]};
    DAO_ASSERT(placing.arena->role == ARENA_WINDOW &&
               dao_arena_offset(placing.arena, address) < window->size_bytes);
    if (request->alignment_bytes > 0 && (uintptr_t)address % request->alignment_bytes != 0) {
        return DAO_ERR_LIMIT;
    }
    if (dao_ledger_charge(&paged->ledger, request, placing.block_bytes) != DAO_OK) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = place_at(paged, &placing, dao_arena_offset(placing.arena, address), out_grant);
    if (status != DAO_OK) {
        dao_ledger_refund(&paged->ledger, request, placing.block_bytes);
    }
    return status;
}

/* A block brings the memory, and is taken back before anybody sees it. */
dao_status_t dao_paged_window_back(dao_allocator_t *allocator, const dao_window_t *window,
                                   size_t offset_bytes, size_t size_bytes)
{
    paged_t *paged = dao_paged_of(allocator);
    dao_block_request_t request = {.size_bytes = size_bytes};
    placing_t placing = {.request = &request,
                         .block_bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE),
                         .arena = paged->arenas[window->lease - 1]};
    DAO_ASSERT(placing.arena->role == ARENA_WINDOW);
    DAO_ASSERT(size_bytes > 0 && offset_bytes < window->size_bytes);
    dao_paged_lock(paged);
    dao_status_t status = take_and_back(paged, &placing, offset_bytes);
    if (status == DAO_OK) {
        dao_paged_take_back(placing.arena, &placing.grant);
    }
    DAO_ASSERT_HEAVY(dao_paged_is_valid_locked(paged));
    dao_paged_unlock(paged);
    return status;
}
