/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of segments.

       space.c   [ 20 MiB ] [ 20 MiB ] [ 64 MiB ]      extents under one range, which places blocks in all

   A request gets the hole that fits best of all segments, the lowest of the space among those that fit as
   well: segments that came last run empty. If there is no such hole, then, each step bounded:

       1. fenced parts whose streams have passed are free
       2. a request in stream order takes a fenced part, and is told to wait for its fence on the device
       3. a segment is taken from the upstream: of the usual size, else of what the limit leaves, else of half
          as much and so on; last of all after free segments, which are idle, were released
       4. a request in stream order takes parts that several streams fence side by side, joined

   Where more than half is used of all that the place may have, of 2 GiB or more, memory is tight: the range
   then chooses among its holes by cost, so that large ones are kept (range.c).

   A request without a stream gets idle memory alone: who made it may wait for the streams and ask again. A
   segment whose blocks are all free stays until trimming, a limit or an upstream without memory asks for it.

   The usual size is the configured one, or a configured share of what is reserved already if that is more, or
   half of what is left once more than half is reserved. A block that is not much smaller gets a segment of
   just its size. Where blocks as the one asked for would leave a large rest, the size is rounded up to a
   whole number of them: three blocks of 7 MiB get a segment of 22 MiB.

   States of a part of the range; `word` is what the range keeps for the owner of a used part (word.h):

       state      used   fence    word    made by                         left by
       free       no     empty    -       take_segment, free, reclaim,    alloc, give_segment
                                          settle_fences
       fenced     no     some     -       free behind a fence             settle_fences, alloc in stream order
       live       yes    -        not 0   alloc, reuse                    free, retire
       retired    yes    -        0       retire                          reclaim, reuse

   A segment is free, and may go back to the upstream, if one free part fills it. A retired block is used for
   the range and for nobody else: nothing of it is moved, given back or handed out.

   What holds between calls:

       sum of size_bytes of the segments is their part of ledger->stats.reserved_bytes
       the extents of the space are the segments
       retired_count of their used blocks have no word

   All that may fail for want of memory is made before the upstream is asked. So a failure changes nothing,
   but that free segments may have been released in the attempt. */
#include "allocators/segments/segments.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/numbers/path.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Equal blocks leave at most this part of a segment unused. */
#define REST_SHARE 8u

/* Memory is tight where more than this part of what a place may have is used. At three quarters holes are in
   pieces already. */
#define TIGHT_SHARE 2u

/* Places that may have less than this are never tight: what a range calls a little of a hole is much of
   them. */
#define TIGHT_BYTES_LEAST (UINT64_C(2) << 30)

void dao_segments_init(dao_segments_t *segments, const dao_segments_config_t *config, dao_ledger_t *ledger)
{
    DAO_ASSERT((config->unit_bytes & (config->unit_bytes - 1)) == 0);
    DAO_ASSERT(config->unit_bytes >= DAO_RANGE_GRANULE);
    DAO_ASSERT(config->own_share > 0);
    *segments = (dao_segments_t){.config = *config, .ledger = ledger, .space = {.fit = config->fit}};
}

/* Frees the fenced parts whose streams have passed; true if anything may be free now. */
static bool settle_fences(dao_segments_t *segments)
{
    dao_range_t *range = segments->space.range;
    if (range == NULL || !dao_range_has_fences(range)) {
        return false;
    }
    (void)dao_stream_fences_poll(
        segments->config.fences); /* it may be news to another allocator's blocks alone */
    (void)dao_range_settle(range, dao_stream_fences_done_epoch, segments->config.fences, UINT32_MAX);
    return true;
}

static uint64_t free_segment_bytes(const dao_segments_t *segments)
{
    uint64_t free_bytes = 0;
    for (size_t i = 0; i < segments->space.count; i++) {
        free_bytes += dao_space_is_free(&segments->space, i) ? segments->space.list[i].size_bytes : 0;
    }
    return free_bytes;
}

/* Releases a segment to the upstream. If that refuses, the segment stays. */
static dao_status_t give_segment(dao_segments_t *segments, size_t index)
{
    dao_extent_t extent = segments->space.list[index];
    DAO_ASSERT(dao_space_is_free(&segments->space, index));
    DAO_ASSERT(segments->ledger->stats.reserved_bytes >= extent.size_bytes);
    const dao_upstream_t *upstream = &segments->config.upstream;
    dao_status_t status = upstream->give(upstream->user, extent.address, extent.size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_space_remove(&segments->space, index);
    dao_ledger_count_shrink(segments->ledger, extent.size_bytes);
    return DAO_OK;
}

/* Returns the free segment that suits best: the smallest of those that suffice, else the largest; `count` if
   none is free. */
static size_t segment_to_release(const dao_segments_t *segments, uint64_t wanted_bytes)
{
    const dao_space_t *space = &segments->space;
    size_t best = space->count;
    for (size_t i = 0; i < space->count; i++) {
        uint64_t size_bytes = space->list[i].size_bytes;
        uint64_t best_bytes = best == space->count ? 0 : space->list[best].size_bytes;
        bool is_better = best_bytes < wanted_bytes ? size_bytes > best_bytes
                                                   : size_bytes >= wanted_bytes && size_bytes < best_bytes;
        best = is_better && dao_space_is_free(space, i) ? i : best;
    }
    return best;
}

/* Releases all free segments, the last one first. */
static dao_status_t release_all(dao_segments_t *segments)
{
    dao_status_t status = DAO_OK;
    for (size_t i = segments->space.count; i > 0 && status == DAO_OK; i--) {
        if (dao_space_is_free(&segments->space, i - 1)) {
            status = give_segment(segments, i - 1);
        }
    }
    return status;
}

/* Releases free segments until at least wanted_bytes are given, of free_bytes that there are. */
static dao_status_t release(dao_segments_t *segments, uint64_t wanted_bytes, uint64_t free_bytes)
{
    if (wanted_bytes >= free_bytes) {
        return release_all(segments);
    }
    dao_status_t status = DAO_OK;
    uint64_t released_bytes = 0;
    while (released_bytes < wanted_bytes && status == DAO_OK) {
        size_t index = segment_to_release(segments, wanted_bytes - released_bytes);
        DAO_ASSERT(index < segments->space.count); /* what was free still is, or was released */
        uint64_t size_bytes = segments->space.list[index].size_bytes;
        status = give_segment(segments, index);
        released_bytes += size_bytes;
    }
    return status;
}

/* Releases free segments, if that makes room for so many bytes under the limit: DAO_ERR_LIMIT with a
   message and nothing changed if it cannot. */
static dao_status_t make_room(dao_segments_t *segments, uint64_t size_bytes)
{
    uint64_t room_bytes = dao_ledger_room(segments->ledger);
    if (room_bytes >= size_bytes) {
        return DAO_OK;
    }
    uint64_t free_bytes = free_segment_bytes(segments);
    if (free_bytes < size_bytes - room_bytes) {
        return dao_ledger_limit_error(segments->ledger, size_bytes);
    }
    return release(segments, size_bytes - room_bytes, free_bytes);
}

/* ---- growth ---- */

/* Notes from where on memory is tight. */
static void note_most(dao_segments_t *segments)
{
    uint64_t most_bytes = dao_ledger_most(segments->ledger);
    segments->easy_bytes = most_bytes >= TIGHT_BYTES_LEAST ? most_bytes / TIGHT_SHARE : UINT64_MAX;
}

/* Takes one segment of a size from the upstream. */
static dao_status_t take_segment(dao_segments_t *segments, size_t size_bytes)
{
    DAO_ASSERT(size_bytes % DAO_RANGE_GRANULE == 0);
    dao_range_place_t place;
    dao_status_t status = dao_space_find_place(&segments->space, size_bytes, &place);
    if (status == DAO_ERR_LIMIT) {
        return dao_error(segments->config.full_status, "no room among the addresses of 1 TiB");
    }
    if (status == DAO_OK) {
        status = dao_ledger_grow_begin(segments->ledger, size_bytes);
    }
    if (status != DAO_OK) {
        return status;
    }
    void *address = NULL;
    status = segments->config.upstream.take(segments->config.upstream.user, size_bytes, &address);
    if (status != DAO_OK) {
        dao_ledger_grow_cancel(segments->ledger, size_bytes);
        return status;
    }
    dao_space_add(&segments->space, &place, address, size_bytes);
    dao_ledger_count_grow(segments->ledger, size_bytes);
    note_most(segments);
    DAO_ASSERT(dao_space_extent(&segments->space, address)->address == address);
    DAO_ASSERT_HEAVY(dao_space_is_valid(&segments->space));
    return DAO_OK;
}

dao_status_t dao_segments_take_initial(dao_segments_t *segments, size_t size_bytes)
{
    if (size_bytes > DAO_SPACE_EXTENT_MAX) {
        return dao_error(segments->config.full_status, "a segment has at most 1 TiB");
    }
    uint64_t segment_bytes = dao_round_up(size_bytes, DAO_RANGE_GRANULE);
    dao_status_t status = make_room(segments, segment_bytes);
    return status == DAO_OK ? take_segment(segments, (size_t)segment_bytes) : status;
}

/* Returns half of what a place that has taken more than half of all may still take, else 0: with small
   segments blocks would find no room side by side just where memory gets short. With a quarter traces needed
   more memory; all that is left would leave nothing for others. */
static uint64_t left_share(const dao_segments_t *segments)
{
    uint64_t most_bytes = dao_ledger_most(segments->ledger);
    uint64_t reserved_bytes = segments->ledger->stats.reserved_bytes;
    return reserved_bytes > most_bytes / 2 && reserved_bytes < most_bytes ? (most_bytes - reserved_bytes) / 2
                                                                          : 0;
}

/* Returns what a segment for a block has, if nothing is short. */
static uint64_t usual_bytes(const dao_segments_t *segments, uint64_t block_bytes)
{
    const dao_segments_config_t *config = &segments->config;
    uint64_t share_bytes =
        config->growth_share != 0 ? segments->ledger->stats.reserved_bytes / config->growth_share : 0;
    share_bytes =
        config->growth_share != 0 && left_share(segments) > share_bytes ? left_share(segments) : share_bytes;
    share_bytes = dao_round_up(share_bytes, config->unit_bytes);
    uint64_t usual_bytes = share_bytes < config->minimum_bytes ? config->minimum_bytes : share_bytes;
    const dao_stats_t *stats = &segments->ledger->stats;
    bool is_limited = stats->limit_bytes != 0 || dao_ledger_budget_room(segments->ledger) != UINT64_MAX;
    if (config->first_bytes != 0 && !is_limited && stats->reserved_bytes < usual_bytes) {
        uint64_t begin_bytes = dao_round_up(stats->reserved_bytes, config->unit_bytes);
        usual_bytes = begin_bytes < config->first_bytes ? config->first_bytes : begin_bytes;
    }
    if (block_bytes >= usual_bytes / config->own_share) {
        bool has_budget = dao_ledger_budget_room(segments->ledger) != UINT64_MAX; /* it is used to its end */
        return has_budget ? block_bytes : dao_round_up(block_bytes, config->unit_bytes);
    }
    uint64_t rest_bytes = usual_bytes % block_bytes;
    return rest_bytes > usual_bytes / REST_SHARE
               ? dao_round_up(usual_bytes + block_bytes - rest_bytes, config->unit_bytes)
               : usual_bytes;
}

/* Takes a segment of a size, or a smaller one down to least_bytes if the upstream has no more. */
static dao_status_t take_what_there_is(dao_segments_t *segments, uint64_t wanted_bytes, uint64_t least_bytes)
{
    dao_status_t status = take_segment(segments, (size_t)wanted_bytes);
    while (dao_allocator_is_short(status) && wanted_bytes > least_bytes) {
        uint64_t half_bytes = dao_round_up(wanted_bytes / 2, segments->config.unit_bytes);
        wanted_bytes = half_bytes < wanted_bytes && half_bytes > least_bytes ? half_bytes : least_bytes;
        status = take_segment(segments, (size_t)wanted_bytes);
    }
    return status;
}

/* Takes a segment with room for a block: of the usual size, else of what the limit leaves, else of half as
   much and so on down to just the block; last of all after giving back what is free. Of a budget that has no
   room for the usual size it takes no more than a unit of such blocks, or the block itself, needs: the rest
   is for those who share it. */
static dao_status_t grow(dao_segments_t *segments, uint64_t block_bytes)
{
    dao_status_t status = make_room(segments, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t room_bytes = dao_ledger_room(segments->ledger) & ~(uint64_t)(DAO_RANGE_GRANULE - 1);
    uint64_t wanted_bytes = usual_bytes(segments, block_bytes);
    if (wanted_bytes > dao_ledger_budget_room(segments->ledger)) {
        uint64_t block_count = segments->config.unit_bytes / block_bytes;
        wanted_bytes = block_count > 1 ? block_count * block_bytes : block_bytes;
    }
    wanted_bytes = wanted_bytes > room_bytes ? room_bytes : wanted_bytes;
    wanted_bytes =
        wanted_bytes < block_bytes ? block_bytes : wanted_bytes; /* others took from the budget just now */
    wanted_bytes = wanted_bytes > DAO_SPACE_EXTENT_MAX ? DAO_SPACE_EXTENT_MAX : wanted_bytes;
    status = take_what_there_is(segments, wanted_bytes, block_bytes);
    if (dao_allocator_is_short(status) && free_segment_bytes(segments) > 0) {
        status = release_all(segments);
        status = status == DAO_OK ? take_segment(segments, (size_t)block_bytes) : status;
    }
    return status;
}

/* ---- blocks ---- */

/* Places a block that is aligned to more than a page, where nothing is fenced. Addresses and offsets
   agree modulo a page only, so that a larger block is placed, and then cut to what is aligned in it. */
static dao_status_t place_aligned(dao_segments_t *segments, const dao_range_request_t *wish,
                                  dao_block_grant_t *out_grant)
{
    dao_space_t *space = &segments->space;
    dao_range_request_t larger = {.size_bytes = wish->size_bytes + wish->alignment_bytes,
                                  .user = wish->user,
                                  .is_tight = wish->is_tight};
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(space->range, &larger, &grant);
    if (status != DAO_OK) {
        return status;
    }
    uintptr_t address = (uintptr_t)dao_space_address(space, grant.offset_bytes);
    uintptr_t aligned = dao_round_up(address, wish->alignment_bytes);
    dao_range_block_t freed;
    DAO_MUST(dao_range_free(space->range, grant.offset_bytes, NULL, &freed));
    status = dao_range_alloc_at(space->range, grant.offset_bytes + (aligned - address), wish->size_bytes,
                                wish->user);
    if (status == DAO_OK) {
        *out_grant = (dao_block_grant_t){.address = (void *)aligned};
    }
    return status;
}

/* Takes a block from the segments at hand. DAO_ERR_LIMIT, without a message, if none has room. */
static inline dao_status_t place(dao_segments_t *segments, const dao_range_request_t *wish,
                                 dao_block_grant_t *out_grant)
{
    if (wish->alignment_bytes > DAO_RANGE_PAGE_BYTES) {
        return place_aligned(segments, wish, out_grant);
    }
    dao_range_grant_t grant;
    dao_status_t status = dao_range_alloc(segments->space.range, wish, &grant);
    if (status == DAO_OK) {
        out_grant->address = dao_space_address(&segments->space, grant.offset_bytes);
        out_grant->fence = grant.fence;
    }
    return status;
}

/* Returns the bytes that surely hold a block, wherever they begin. */
static uint64_t bytes_with_alignment(uint64_t block_bytes, uint64_t alignment_bytes)
{
    return alignment_bytes > DAO_RANGE_GRANULE ? block_bytes + alignment_bytes : block_bytes;
}

static dao_status_t check_size(const dao_segments_t *segments, const dao_block_request_t *request)
{
    if (request->size_bytes > PTRDIFF_MAX || request->alignment_bytes > PTRDIFF_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "no block can be that large");
    }
    uint64_t block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE);
    if (bytes_with_alignment(block_bytes, request->alignment_bytes) > DAO_SPACE_EXTENT_MAX) {
        return dao_error(segments->config.full_status, "a block has at most 1 TiB");
    }
    return DAO_OK;
}

/* Returns true if a request in stream order finds fenced parts. */
static bool may_take_fenced(const dao_segments_t *segments, const dao_block_request_t *request)
{
    return dao_block_request_takes_fenced(request) && segments->space.range != NULL &&
           dao_range_has_fences(segments->space.range);
}

/* Takes a block of fenced parts: steps 1 and 2 of the head comment. */
static dao_status_t place_fenced(dao_segments_t *segments, const dao_block_request_t *request,
                                 dao_range_request_t *wish, dao_block_grant_t *out_grant)
{
    dao_status_t status = settle_fences(segments) ? place(segments, wish, out_grant) : DAO_ERR_LIMIT;
    if (status == DAO_ERR_LIMIT && may_take_fenced(segments, request)) {
        wish->takes_fenced = true;
        status = place(segments, wish, out_grant);
    }
    return status;
}

/* Returns why the place would grow for a block. Retired blocks are free once their streams have passed. */
static dao_grow_reason_t grow_reason(const dao_segments_t *segments, uint64_t block_bytes)
{
    const dao_range_t *range = segments->space.range;
    uint64_t used_bytes = segments->ledger->stats.used_bytes;
    uint64_t fenced_bytes = range != NULL ? dao_range_used(range) - used_bytes + dao_range_fenced(range) : 0;
    return dao_ledger_grow_reason(segments->ledger, block_bytes, used_bytes, fenced_bytes);
}

/* What dao_segments_alloc() does where no idle block suits, in the order of the head comment. */
static DAO_OFF_THE_PATH dao_status_t place_slow(dao_segments_t *segments, const dao_block_request_t *request,
                                                dao_range_request_t *wish, dao_block_grant_t *out_grant)
{
    dao_status_t status = place_fenced(segments, request, wish, out_grant);
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    uint64_t grow_count = segments->ledger->stats.grow_count;
    dao_grow_reason_t reason = grow_reason(segments, wish->size_bytes);
    status = grow(segments, bytes_with_alignment(wish->size_bytes, wish->alignment_bytes));
    dao_ledger_count_reason(segments->ledger, reason, grow_count);
    if (status == DAO_OK) {
        return place(segments, wish, out_grant);
    }
    if (may_take_fenced(segments, request)) {
        dao_range_join(segments->space.range);
        dao_status_t joined = place(segments, wish, out_grant);
        status = joined != DAO_ERR_LIMIT ? joined : status;
    }
    return status;
}

static DAO_OFF_THE_PATH dao_status_t fail(dao_segments_t *segments, const dao_block_request_t *request,
                                          dao_status_t status)
{
    return dao_ledger_fail(segments->ledger, status, request, dao_segments_largest_hole(segments));
}

static inline dao_range_request_t wish_of(const dao_segments_t *segments, const dao_block_request_t *request)
{
    return (dao_range_request_t){.size_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE),
                                 .alignment_bytes = request->alignment_bytes,
                                 .user = dao_word_of(request),
                                 .stream = dao_block_request_order(request),
                                 .is_tight = dao_segments_is_tight(segments)};
}

/* Ends a request whose bytes were charged: counts its block, or gives the charge back. Returns the status. */
static inline dao_status_t account(dao_segments_t *segments, const dao_block_request_t *request,
                                   uint64_t block_bytes, dao_status_t status)
{
    if (status == DAO_OK) {
        dao_ledger_count_alloc(segments->ledger, request, (size_t)block_bytes);
    } else {
        dao_ledger_refund(segments->ledger, request, block_bytes);
    }
    return status;
}

/* Returns true if a grant is a live block as the request asks for it. */
static bool is_granted(const dao_segments_t *segments, const dao_block_request_t *request,
                       const dao_block_grant_t *grant)
{
    dao_block_t block;
    return dao_segments_query(segments, grant->address, &block) == DAO_OK &&
           block.address == grant->address && block.requested_bytes == request->size_bytes &&
           (request->alignment_bytes == 0 || (uintptr_t)grant->address % request->alignment_bytes == 0);
}

dao_status_t dao_segments_alloc(dao_segments_t *segments, const dao_block_request_t *request,
                                dao_block_grant_t *out_grant)
{
    DAO_ASSERT(request->size_bytes > 0);
    dao_status_t status = check_size(segments, request);
    if (status != DAO_OK) {
        return fail(segments, request, status);
    }
    uint64_t block_bytes = dao_round_up(request->size_bytes, DAO_RANGE_GRANULE);
    status = dao_ledger_charge(segments->ledger, request, block_bytes);
    if (status != DAO_OK) {
        return fail(segments, request, status);
    }
    dao_range_request_t wish = wish_of(segments, request);
    status = segments->space.range != NULL ? place(segments, &wish, out_grant) : DAO_ERR_LIMIT;
    if (status == DAO_ERR_LIMIT) {
        status = place_slow(segments, request, &wish, out_grant);
        segments->ledger->stats.miss_count += status == DAO_OK;
    }
    status = account(segments, request, block_bytes, status);
    DAO_ASSERT(status != DAO_OK || is_granted(segments, request, out_grant));
    return status == DAO_OK ? DAO_OK : fail(segments, request, status);
}

/* An address where no block begins: was it ever one? The statuses of dao_allocator_ops_t.free. */
static dao_status_t free_error(const dao_segments_t *segments, const dao_extent_t *extent,
                               const void *address, dao_status_t status)
{
    if (dao_ledger_freed_lately(segments->ledger, address)) {
        return extent == NULL ? DAO_ERR_DOUBLE_FREE : status;
    }
    if (status != DAO_ERR_DOUBLE_FREE) {
        return status;
    }
    dao_range_block_t block;
    uint64_t offset_bytes = dao_extent_offset(extent, address);
    status = dao_space_query(&segments->space, address, &block);
    DAO_ASSERT(status == DAO_OK && block.is_free);
    return block.offset_bytes == offset_bytes ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER;
}

/* Finds the block that was retired around an address. */
static bool find_retired(const dao_segments_t *segments, const void *address, dao_range_block_t *out_block)
{
    return segments->retired_count > 0 && dao_space_query(&segments->space, address, out_block) == DAO_OK &&
           !out_block->is_free && !dao_segment_block_is_live(out_block);
}

dao_status_t dao_segments_free(dao_segments_t *segments, const void *address, dao_stream_fence_t *fence,
                               dao_block_owner_t owner)
{
    DAO_ASSERT(fence == NULL || dao_stream_fence_is_empty(fence) || segments->config.fences != NULL);
    const dao_extent_t *extent = dao_space_find_extent(&segments->space, address);
    if (extent == NULL) {
        return free_error(segments, extent, address, DAO_ERR_FOREIGN_POINTER);
    }
    dao_range_block_t block;
    if (find_retired(segments, address, &block)) {
        return block.offset_bytes == dao_extent_offset(extent, address) ? DAO_ERR_DOUBLE_FREE
                                                                        : DAO_ERR_FOREIGN_POINTER;
    }
    dao_status_t status = dao_range_free_marked(segments->space.range, dao_extent_offset(extent, address),
                                                (uint64_t)owner, fence, &block);
    if (status != DAO_OK) {
        return free_error(segments, extent, address, status);
    }
    DAO_ASSERT(block.user != 0);
    dao_ledger_count_free_slow(segments->ledger, address, block.user, (size_t)block.size_bytes);
    return DAO_OK;
}

dao_status_t dao_segments_mark(dao_segments_t *segments, const void *address, uint32_t stream)
{
    dao_block_t block;
    dao_status_t status = dao_segments_query(segments, address, &block);
    if (status != DAO_OK) {
        return status;
    }
    if (block.address != address) {
        return DAO_ERR_INTERIOR_POINTER;
    }
    const dao_extent_t *extent = dao_space_extent(&segments->space, address);
    return block.stream == 0
               ? DAO_ERR_UNSUPPORTED
               : dao_range_mark(segments->space.range, dao_extent_offset(extent, address), stream);
}

dao_status_t dao_segments_query(const dao_segments_t *segments, const void *address, dao_block_t *out_block)
{
    dao_range_block_t block;
    dao_status_t status = dao_space_query(&segments->space, address, &block);
    if (status != DAO_OK || !dao_segment_block_is_live(&block)) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    *out_block = dao_segment_describe(dao_space_address(&segments->space, block.offset_bytes), &block);
    return DAO_OK;
}

/* ---- frees in two steps ---- */

dao_status_t dao_segments_retire(dao_segments_t *segments, const void *address, dao_block_owner_t owner,
                                 dao_block_t *out_block)
{
    dao_block_t block;
    dao_status_t status = dao_segments_query(segments, address, &block);
    if (status != DAO_OK || block.address != address || block.owner != owner) {
        return dao_segments_free(segments, address, NULL, owner); /* which says why it cannot be */
    }
    const dao_extent_t *extent = dao_space_extent(&segments->space, address);
    dao_range_block_t before;
    uint64_t offset_bytes = dao_extent_offset(extent, address);
    status = dao_range_query(segments->space.range, offset_bytes, &before);
    DAO_ASSERT(status == DAO_OK);
    DAO_ASSERT(before.user != 0);
    status = dao_range_renumber(segments->space.range, offset_bytes, 0);
    DAO_ASSERT(status == DAO_OK);
    dao_ledger_count_free_slow(segments->ledger, address, before.user, block.block_bytes);
    segments->retired_count++;
    DAO_ASSERT(find_retired(segments, address, &before));
    *out_block = block;
    return status;
}

/* Finds the block that was retired and begins at an address. */
static dao_status_t find_retired_at(const dao_segments_t *segments, const void *address,
                                    dao_range_block_t *out_block)
{
    if (!find_retired(segments, address, out_block)) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    return dao_space_address(&segments->space, out_block->offset_bytes) == address ? DAO_OK
                                                                                   : DAO_ERR_INTERIOR_POINTER;
}

dao_status_t dao_segments_reclaim(dao_segments_t *segments, const void *address)
{
    dao_range_block_t block;
    dao_status_t status = find_retired_at(segments, address, &block);
    if (status == DAO_OK) {
        DAO_ASSERT(segments->retired_count > 0);
        status = dao_range_free(segments->space.range, block.offset_bytes, NULL, &block);
        DAO_ASSERT(status == DAO_OK);
        segments->retired_count--;
    }
    return status;
}

dao_status_t dao_segments_reuse(dao_segments_t *segments, const void *address,
                                const dao_block_request_t *request)
{
    dao_range_block_t block;
    bool suits = find_retired_at(segments, address, &block) == DAO_OK &&
                 block.size_bytes == dao_round_up(request->size_bytes, DAO_RANGE_GRANULE) &&
                 (request->alignment_bytes == 0 || (uintptr_t)address % request->alignment_bytes == 0);
    if (!suits || dao_ledger_charge(segments->ledger, request, block.size_bytes) != DAO_OK) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_renumber(segments->space.range, block.offset_bytes, dao_word_of(request));
    DAO_ASSERT(status == DAO_OK);
    DAO_ASSERT(segments->retired_count > 0);
    dao_ledger_count_alloc(segments->ledger, request, (size_t)block.size_bytes);
    segments->retired_count--;
    DAO_ASSERT(!find_retired(segments, address, &block));
    return status;
}

/* ---- the set ---- */

dao_status_t dao_segments_trim(dao_segments_t *segments, uint64_t keep_bytes)
{
    (void)settle_fences(segments);
    uint64_t free_bytes = free_segment_bytes(segments);
    if (free_bytes <= keep_bytes) {
        return DAO_OK;
    }
    dao_status_t status = release(segments, free_bytes - keep_bytes, free_bytes);
    if (segments->space.range != NULL) {
        dao_range_shrink(segments->space.range);
    }
    return status;
}

/* Says what is in the way of a limit, once all that is idle has been given back: blocks, which may be slabs
   of small ones that threads keep, or what they leave of the segments that they lie in. */
static dao_status_t limit_error(const dao_segments_t *segments, uint64_t limit_bytes)
{
    const dao_stats_t *stats = &segments->ledger->stats;
    if (stats->used_bytes > limit_bytes) {
        return dao_error(DAO_ERR_LIMIT, "%s: blocks and slabs hold %zu bytes, more than the new limit of %zu",
                         segments->ledger->name, (size_t)stats->used_bytes, (size_t)limit_bytes);
    }
    return dao_error(
        DAO_ERR_LIMIT,
        "%s: blocks and slabs hold %zu bytes, but the segments that they lie in hold %zu, more than the new"
        " limit of %zu; free those blocks (small ones that other threads keep go as those trim or end), or"
        " set the limit before the first",
        segments->ledger->name, (size_t)stats->used_bytes, (size_t)stats->reserved_bytes,
        (size_t)limit_bytes);
}

dao_status_t dao_segments_limit_set(dao_segments_t *segments, uint64_t limit_bytes)
{
    dao_stats_t *stats = &segments->ledger->stats;
    if (limit_bytes != 0 && stats->reserved_bytes > limit_bytes) {
        (void)settle_fences(segments);
        uint64_t excess_bytes = stats->reserved_bytes - limit_bytes;
        dao_status_t status = release(segments, excess_bytes, free_segment_bytes(segments));
        if (status != DAO_OK) {
            return status;
        }
        if (stats->reserved_bytes > limit_bytes) {
            return limit_error(segments, limit_bytes);
        }
    }
    DAO_ASSERT(limit_bytes == 0 || stats->reserved_bytes <= limit_bytes);
    stats->limit_bytes = limit_bytes;
    note_most(segments);
    return DAO_OK;
}

typedef struct segments_walk {
    const dao_space_t *space;
    dao_block_visit_t visit;
    void *user;
} segments_walk_t;

static bool walk_segments_block(const dao_range_block_t *block, void *user)
{
    const segments_walk_t *walk = user;
    if (dao_segment_block_is_live(block)) {
        dao_block_t seen = dao_segment_describe(dao_space_address(walk->space, block->offset_bytes), block);
        walk->visit(&seen, walk->user);
    }
    return true;
}

void dao_segments_walk(const dao_segments_t *segments, dao_block_visit_t visit, void *user)
{
    segments_walk_t walk = {.space = &segments->space, .visit = visit, .user = user};
    if (segments->space.range != NULL) {
        dao_range_walk(segments->space.range, walk_segments_block, &walk);
    }
}

static bool walk_segments_any(const dao_range_block_t *block, void *user)
{
    const segments_walk_t *walk = user;
    char *address = dao_space_address(walk->space, block->offset_bytes);
    dao_block_t seen = dao_segment_describe(address, block);
    seen.begins_segment = dao_space_extent(walk->space, address)->address == address;
    walk->visit(&seen, walk->user);
    return true;
}

void dao_segments_walk_all(const dao_segments_t *segments, dao_block_visit_t visit, void *user)
{
    segments_walk_t walk = {.space = &segments->space, .visit = visit, .user = user};
    if (segments->space.range != NULL) {
        dao_range_walk(segments->space.range, walk_segments_any, &walk);
    }
}

uint64_t dao_segments_largest_hole(const dao_segments_t *segments)
{
    return segments->space.range == NULL ? 0 : dao_range_largest_hole(segments->space.range);
}

static bool count_retired(const dao_range_block_t *block, void *user)
{
    size_t *count = user;
    *count += !block->is_free && !dao_segment_block_is_live(block);
    return true;
}

bool dao_segments_is_valid(const dao_segments_t *segments, dao_recount_t *recount)
{
    const dao_space_t *space = &segments->space;
    for (size_t i = 0; i < space->count; i++) {
        recount->reserved_bytes += space->list[i].size_bytes;
    }
    size_t retired_count = 0;
    if (space->range != NULL) {
        dao_range_walk(space->range, dao_segment_recount, recount);
        dao_range_walk(space->range, count_retired, &retired_count);
    }
    return dao_space_is_valid(space) && retired_count == segments->retired_count;
}

void dao_segments_finish(dao_segments_t *segments)
{
    const dao_upstream_t *upstream = &segments->config.upstream;
    for (size_t i = 0; i < segments->space.count; i++) {
        const dao_extent_t *extent = &segments->space.list[i];
        (void)upstream->give(upstream->user, extent->address,
                             extent->size_bytes); /* nobody is left to be told */
    }
    dao_space_finish(&segments->space);
    *segments = (dao_segments_t){0};
}
