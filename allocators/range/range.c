/* SPDX-License-Identifier: Apache-2.0 */
/* Divides offsets [0, capacity) into free and used blocks, in units of 256 bytes.

   nodes     a block each, 32 bytes, in one table; a link is a node's place in it, in bytes. By address:

                 sentinel <-> node 4 (offset 0) <-> node 7 <-> ... <-> node 3 <-> sentinel

             Node 0 is the sentinel, so that every block has neighbours. Nodes without a block are chained
             through bin_after, from `unused`.
   fences    the stream fence of each node. Apart from the nodes, so that merging and searching touch it only
             where there is one.
   bins      free nodes by size, 16 bins an octave, each a list; bin_words has a bit for each with nodes.
   starts    for every 64 KiB of offsets the first used block that starts there. It finds a block by its
             start, with a step or two where blocks are smaller than that.
   firsts    if the range is indexed: for every 2 MiB of offsets the first block that starts there, where
             page_words has the page's bit. It finds the block around any offset.

   What holds between calls:

       sum of size_units of all blocks == capacity_units; each begins where the one before it ends
       sum of size_units of used blocks == used_units
       no two neighbours are free and fenced by the same streams, or by none
       a free block is in the bin of its size, of its fence's set, and nothing else is in a bin
       a cell of starts has the first used block in it
       sentinel + the room of the bins + blocks + unused nodes == node_count

   A block's states (dao_range_state_t): free, fenced (free, but some streams may still use it), used, marked
   (used, and streams are noted on it). Gaps are in range_parts.c, fences in range_fences.c: what is fenced
   lies in bins of its own, so that nobody looks at it who must not have it.

       free, fenced ──alloc──> used ──mark──> marked        used, marked ──free──> free, or fenced
       fenced ──settle: its streams have passed──> free

   A call that may fail first makes room in nodes for all that it is going to do, then does it. Freeing makes
   blocks fewer, so it never needs memory. What is taken from the front of a hole gets a node of its own; the
   hole keeps its node, which mostly stays in its bin, too.

   Which hole is taken: with good fit the lowest of a few that are little larger than the request, in O(1)
   (dao_range_find_good()). With best fit, and for requests that say that memory is tight, the one of least
   cost (cost_of()): what it has more than the request and, for tight requests, its offset. So large holes
   stay at the end. Tight requests look at eight holes (dao_range_find_tight()), but for those in the order of
   a stream and aligned ones.

   This file is all that others call but for parts and fences. range_table.c has the memory of the tables,
   range_index.c finds the block around an offset, range_valid.c checks it all. */
#include "allocators/range/range_internal.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#define NONE DAO_RANGE_NONE

/* ---- choosing a hole ---- */

/* A request in units. */
typedef struct wish {
    uint64_t size_units;
    uint64_t alignment_units;
    uint64_t slope; /* see cost_of() */
    uint32_t stream;
    uint32_t depth; /* entries of a bin that are looked at at first, and if nothing is found */
    uint32_t most;
    bool takes_fenced;
    bool is_by_cost; /* takes the hole of the least cost; else the lowest of the lowest bin that has any */
} wish_t;

static uint64_t aligned_start(const dao_range_t *range, const dao_range_node_t *node, const wish_t *wish)
{
    uint64_t mask = wish->alignment_units - 1;
    return ((range->base_units + node->offset_units + mask) & ~mask) - range->base_units;
}

static bool is_allowed(const dao_range_t *range, uint32_t link, const wish_t *wish)
{
    if (!dao_range_is_fenced(range, link) || wish->takes_fenced) {
        return true;
    }
    dao_stream_fence_t fence = dao_range_fence_of(range, link);
    return dao_stream_fence_is_own(&fence, wish->stream);
}

static bool fits(const dao_range_t *range, uint32_t link, const wish_t *wish)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    uint64_t end_units = node->offset_units + node->size_units;
    uint64_t start_units = aligned_start(range, node, wish);
    return wish->size_units <= node->size_units && start_units <= end_units - wish->size_units &&
           is_allowed(range, link, wish);
}

/* Where memory is tight, a hole at the end of as many units as are used costs as much as one at offset 0 that
   is larger by this part of the request; small requests count as ones of 16 MiB. For random blocks of 256 B
   to 64 MiB, a fifth to a third of 16 MiB needed less memory than of 4 MiB or none, and than three fifths. */
#define SLACK_SHARE       3u
#define SLACK_UNITS_LEAST ((UINT64_C(16) << 20 >> UNIT_SHIFT) / SLACK_SHARE)

/* Costs have so many bits behind the point. */
#define COST_SHIFT 16

/* Holes that are looked at for a request where memory is tight, and of these in one bin. Looking at 12, or at
   2 or 4 of each bin, needed more memory for such blocks. */
#define TIGHT_LOOKS 8u
#define TIGHT_DEPTH 3u

/* Returns what a unit of offset costs where memory is tight: no more than a unit of size, so that no cost
   overflows. */
static uint64_t tight_slope(const dao_range_t *range, uint64_t size_units)
{
    uint64_t slack_units = size_units / SLACK_SHARE;
    slack_units = slack_units > SLACK_UNITS_LEAST ? slack_units : SLACK_UNITS_LEAST;
    return slack_units < range->used_units ? (slack_units << COST_SHIFT) / range->used_units
                                           : UINT64_C(1) << COST_SHIFT;
}

/* Returns what it costs to take a hole that fits: the units that it has more than the request, and its offset
   times the slope. */
static uint64_t cost_of(const dao_range_node_t *node, const wish_t *wish)
{
    return ((node->size_units - wish->size_units) << COST_SHIFT) + node->offset_units * wish->slope;
}

static bool is_better(const dao_range_t *range, uint32_t link, uint32_t best, const wish_t *wish)
{
    if (best == NONE) {
        return true;
    }
    const dao_range_node_t *node = dao_range_at(range, link), *other = dao_range_at(range, best);
    uint64_t cost = wish->is_by_cost ? cost_of(node, wish) : node->bin;
    uint64_t other_cost = wish->is_by_cost ? cost_of(other, wish) : other->bin;
    return cost != other_cost ? cost < other_cost : node->offset_units < other->offset_units;
}

/* Returns true if holes of a bin may be better than the best of other bins. */
static bool may_be_better(const dao_range_t *range, size_t bin, uint32_t best, const wish_t *wish)
{
    if (best == NONE || !wish->is_by_cost) {
        return best == NONE || bin <= dao_range_at(range, best)->bin;
    }
    uint64_t least_units = dao_range_bin_least(bin);
    uint64_t excess_units = least_units > wish->size_units ? least_units - wish->size_units : 0;
    return excess_units << COST_SHIFT <= cost_of(dao_range_at(range, best), wish);
}

/* As dao_range_look(), for all that a request may ask for. */
static uint32_t look_slow(const dao_range_t *range, uint32_t first, uint32_t best, const wish_t *wish,
                          uint32_t depth)
{
    for (uint32_t i = first; i != NONE && depth > 0; i = dao_range_at(range, i)->bin_after, depth--) {
        if (fits(range, i, wish) && is_better(range, i, best, wish)) {
            best = i;
        }
    }
    return best;
}

/* Returns the better one of `best` and the best of some bins. */
static uint32_t find_in(const dao_range_t *range, dao_range_set_t *bins, uint32_t best, const wish_t *wish,
                        uint32_t depth)
{
    size_t bin = dao_range_next_bin(range, bins, dao_range_bin_of(wish->size_units));
    while (bin != DAO_RANGE_NO_BIN && may_be_better(range, bin, best, wish)) {
        best = look_slow(range, dao_range_bin_first(range, bins, bin), best, wish, depth);
        bin = dao_range_next_bin(range, bins, bin + 1);
    }
    return best;
}

/* Returns the better one of `best` and the best of some sets' bins */
static uint32_t find_in_sets(const dao_range_t *range, uint64_t set_bits, uint32_t best, const wish_t *wish,
                             uint32_t depth)
{
    while (set_bits != 0) {
        dao_range_set_t *set = range->sets[__builtin_ctzll(set_bits)];
        best = set->count > 0 ? find_in(range, set, best, wish, depth) : best;
        set_bits &= set_bits - 1;
    }
    return best;
}

/* Any kind of request: what nothing fences, what its stream fences, and what others do if it takes that.
   Where nothing is found more holes of each bin are looked at. */
static uint32_t find_slow(const dao_range_t *range, const wish_t *wish)
{
    uint64_t own_bits = wish->stream != 0 ? UINT64_C(1) << wish->stream | UINT64_C(1) << DAO_RANGE_MIXED : 0;
    uint64_t set_bits = range->set_bits & (wish->takes_fenced ? UINT64_MAX : own_bits);
    for (uint32_t depth = wish->depth;; depth = wish->most) {
        uint32_t best = find_in(range, NULL, NONE, wish, depth);
        best = find_in_sets(range, set_bits, best, wish, depth);
        if (best != NONE || depth == wish->most) {
            return best;
        }
    }
}

/* The best hole for a request where memory is tight, while it is looked for. */
typedef struct tight_search {
    const dao_range_t *range;
    uint64_t size_units;
    uint64_t slope;
    uint64_t least_cost;
    uint32_t best;
    uint32_t looks_left;
} tight_search_t;

/* Looks at the first holes of a bin, of which there is one at least; `are_large`: all of them are large
   enough. */
static DAO_ON_THE_PATH void look_tightly(tight_search_t *search, uint32_t link, bool are_large)
{
    uint32_t end = search->looks_left > TIGHT_DEPTH ? search->looks_left - TIGHT_DEPTH : 0;
    do {
        const dao_range_node_t *node = dao_range_at(search->range, link);
        uint64_t excess_units = node->size_units - search->size_units;
        uint64_t cost = (excess_units << COST_SHIFT) + node->offset_units * search->slope;
        bool is_better = cost < search->least_cost && (are_large || (int64_t)excess_units >= 0);
        search->best = is_better ? link : search->best;
        search->least_cost = is_better ? cost : search->least_cost;
        link = node->bin_after;
        search->looks_left--;
    } while (link != NONE && search->looks_left != end);
}

/* Looks into bins of a word, all of whose holes are large enough. False: no other bin has a better one. */
static DAO_ON_THE_PATH bool look_into_word(tight_search_t *search, size_t word, uint64_t bits)
{
    for (; bits != 0; bits &= bits - 1) {
        size_t bin = BIN_FIRST + word * WORD_BITS + (size_t)__builtin_ctzll(bits);
        uint32_t first = dao_range_bin_first(search->range, NULL, bin);
        if (first == NONE) {
            dao_range_words(search->range, NULL)[word] ^= bits & -bits;
            continue;
        }
        uint64_t excess_units = dao_range_bin_least(bin) - search->size_units;
        if (excess_units << COST_SHIFT >= search->least_cost) {
            return false;
        }
        look_tightly(search, first, true);
        if (search->looks_left == 0) {
            return false;
        }
    }
    return true;
}

/* As dao_range_find_good(), where memory is tight: of the first holes that are large enough, smaller ones
   before larger ones, the one of least cost, which is what it has more than the request and its offset times
   the slope. */
uint32_t dao_range_find_tight(const dao_range_t *range, uint64_t size_units)
{
    tight_search_t search = {.range = range,
                             .size_units = size_units,
                             .slope = tight_slope(range, size_units),
                             .least_cost = UINT64_MAX,
                             .best = NONE,
                             .looks_left = TIGHT_LOOKS};
    size_t bin = dao_range_bin_of(size_units);
    uint32_t link = dao_range_bin_first(range, NULL, bin);
    if (link != NONE) {
        look_tightly(&search, link, false);
    }
    bin++;
    size_t word = bin / WORD_BITS - BIN_WORD_FIRST;
    uint64_t bits = range->bin_words[word] & UINT64_MAX << bin % WORD_BITS;
    while (look_into_word(&search, word, bits) && ++word < BIN_WORDS) {
        bits = range->bin_words[word];
    }
    return search.best;
}

/* ---- taking ---- */

/* Cuts the front off a hole, as a hole of its own; gives the back part. */
static uint32_t cut_front(dao_range_t *range, uint32_t hole, uint64_t size_units)
{
    uint32_t back = dao_range_node_take(range);
    dao_range_node_t *front = dao_range_at(range, hole);
    *dao_range_at(range, back) =
        (dao_range_node_t){.size_units = front->size_units - size_units,
                           .offset_units = (uint32_t)(front->offset_units + size_units),
                           .before = hole,
                           .after = front->after};
    dao_range_at(range, front->after)->before = back;
    front->after = back;
    front->size_units = size_units;
    range->fenced_units -= dao_range_is_fenced(range, hole) ? dao_range_at(range, back)->size_units : 0;
    dao_range_bin_again(range, dao_range_bins_of(range, hole), hole);
    dao_range_put_split(range, back, hole);
    if (range->firsts != NULL) {
        dao_range_index_add(range, back);
    }
    return back;
}

/* Takes [start, start + size) out of any hole. Room has been made. */
static void carve(dao_range_t *range, uint32_t hole, uint64_t start_units, uint64_t size_units, uint64_t user)
{
    if (start_units > dao_range_at(range, hole)->offset_units) {
        hole = cut_front(range, hole, start_units - dao_range_at(range, hole)->offset_units);
    }
    if (dao_range_at(range, hole)->size_units == size_units) {
        (void)dao_range_take_out(range, hole);
        dao_range_enter_used(range, hole, (uint32_t)start_units, size_units, user);
        return;
    }
    if (range->firsts != NULL) {
        dao_range_index_drop(range, hole);
    }
    range->fenced_units -= dao_range_is_fenced(range, hole) ? size_units : 0;
    uint32_t taken = dao_range_take_front(range, dao_range_bins_of(range, hole), hole, size_units, user);
    if (range->firsts != NULL) {
        dao_range_index_add(range, taken);
        dao_range_index_add(range, hole);
    }
}

/* dao_range_alloc() for requests that ask for more than a size, and for ranges that are not plain. */
static dao_status_t alloc_slow(dao_range_t *range, const dao_range_request_t *request, uint64_t size_units,
                               dao_range_grant_t *out_grant)
{
    bool is_best = range->config.fit == DAO_RANGE_FIT_BEST;
    wish_t wish = {.size_units = size_units,
                   .alignment_units = request->alignment_bytes > DAO_RANGE_GRANULE
                                          ? request->alignment_bytes >> UNIT_SHIFT
                                          : 1,
                   .slope = request->is_tight && !is_best ? tight_slope(range, size_units) : 0,
                   .stream = request->stream,
                   .depth = is_best ? UINT32_MAX : DAO_RANGE_SCAN_DEPTH,
                   .most = is_best ? UINT32_MAX : DAO_RANGE_LOOKS_MAX,
                   .takes_fenced = request->takes_fenced,
                   .is_by_cost = request->is_tight || is_best};
    DAO_ASSERT((request->alignment_bytes & (request->alignment_bytes - 1)) == 0);
    uint32_t hole = find_slow(range, &wish);
    if (hole == NONE) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_has_room(range) ? DAO_OK : dao_range_reserve(range);
    if (status != DAO_OK) {
        return status;
    }
    out_grant->fence = dao_range_fence_of(range, hole);
    uint64_t start_units = aligned_start(range, dao_range_at(range, hole), &wish);
    carve(range, hole, start_units, size_units, request->user);
    out_grant->offset_bytes = start_units << UNIT_SHIFT;
    return DAO_OK;
}

dao_status_t dao_range_alloc(dao_range_t *range, const dao_range_request_t *request,
                             dao_range_grant_t *out_grant)
{
    DAO_ASSERT(request->size_bytes > 0);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    if (request->size_bytes > range->config.capacity_bytes) {
        return DAO_ERR_LIMIT;
    }
    uint64_t size_units = (request->size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    dao_range_set_t *set = NULL;
    bool may_be_mixed = false;
    if (request->stream != 0) {
        dao_range_announce(range, request->stream);
        set = range->sets[request->stream];
        may_be_mixed = range->sets[DAO_RANGE_MIXED]->count > 0;
    }
    if ((range->fenced_units > 0 && request->takes_fenced) || may_be_mixed ||
        request->alignment_bytes > DAO_RANGE_GRANULE || !range->is_plain ||
        (request->is_tight && request->stream != 0)) {
        return alloc_slow(range, request, size_units, out_grant);
    }
    uint32_t hole = request->is_tight ? dao_range_find_tight(range, size_units)
                    : set != NULL     ? dao_range_find_for(range, set, size_units)
                                      : dao_range_find_good(range, NULL, size_units);
    if (hole == NONE) {
        hole = find_slow(range, &(wish_t){.size_units = size_units,
                                          .alignment_units = 1,
                                          .stream = request->stream,
                                          .depth = DAO_RANGE_LOOKS_MAX,
                                          .most = DAO_RANGE_LOOKS_MAX});
    }
    if (hole == NONE) {
        return DAO_ERR_LIMIT;
    }
    if (!dao_range_has_room(range)) {
        dao_status_t status = dao_range_reserve(range); /* moves nodes but not their indices */
        if (status != DAO_OK) {
            return status;
        }
    }
    out_grant->offset_bytes = (uint64_t)dao_range_at(range, hole)->offset_units << UNIT_SHIFT;
    out_grant->fence = dao_range_fence_of(range, hole);
    dao_range_take_for(range, set, hole, size_units, request->user);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return DAO_OK;
}

dao_status_t dao_range_alloc_in(dao_range_t *range, uint32_t id, uint64_t offset_bytes, uint64_t size_bytes,
                                uint64_t user)
{
    DAO_ASSERT(size_bytes > 0);
    DAO_ASSERT(offset_bytes % DAO_RANGE_GRANULE == 0 && size_bytes % DAO_RANGE_GRANULE == 0);
    uint64_t start_units = offset_bytes >> UNIT_SHIFT;
    uint64_t size_units = size_bytes >> UNIT_SHIFT;
    const dao_range_node_t *node = dao_range_at(range, id);
    if (node->state != NODE_FREE || start_units < node->offset_units ||
        start_units + size_units > node->offset_units + node->size_units) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_has_room(range) ? DAO_OK : dao_range_reserve(range);
    if (status == DAO_OK) {
        carve(range, id, start_units, size_units, user);
        DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    }
    return status;
}

dao_status_t dao_range_alloc_at(dao_range_t *range, uint64_t offset_bytes, uint64_t size_bytes, uint64_t user)
{
    uint64_t capacity_bytes = range->config.capacity_bytes;
    if (offset_bytes >= capacity_bytes || size_bytes > capacity_bytes - offset_bytes) {
        return DAO_ERR_LIMIT;
    }
    uint32_t around = dao_range_node_around(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
    return dao_range_alloc_in(range, around, offset_bytes, size_bytes, user);
}

/* ---- giving back ---- */

/* Tells why no used block starts at an offset. */
static dao_status_t free_error(const dao_range_t *range, uint64_t offset_bytes)
{
    if (offset_bytes >= range->config.capacity_bytes) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t around = dao_range_node_around(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
    if (dao_range_at(range, around)->state == NODE_GAP) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    return dao_range_is_free(range, around) ? DAO_ERR_DOUBLE_FREE : DAO_ERR_INTERIOR_POINTER;
}

/* Releases a used block. */
static DAO_ON_THE_PATH void release(dao_range_t *range, uint32_t link, uint64_t offset_bytes,
                                    dao_stream_fence_t *fence, dao_range_block_t *out_block)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    out_block->offset_bytes = offset_bytes;
    out_block->size_bytes = node->size_units << UNIT_SHIFT;
    out_block->user = node->user;
    out_block->is_free = false;
    dao_range_leave_used(range, link);
    if (range->is_plain && fence == NULL && node->state == NODE_USED) {
        dao_range_make_free(range, link);
    } else {
        if (fence != NULL && node->state == NODE_MARKED) {
            fence->streams |= dao_range_fence(range, link)->streams;
        }
        dao_range_put_merged(range, link, fence != NULL ? *fence : (dao_stream_fence_t){0});
    }
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
}

dao_status_t dao_range_free(dao_range_t *range, uint64_t offset_bytes, dao_stream_fence_t *fence,
                            dao_range_block_t *out_block)
{
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    uint32_t link = dao_range_find_used(range, offset_bytes);
    if (link == NONE) {
        return free_error(range, offset_bytes);
    }
    release(range, link, offset_bytes, fence, out_block);
    return DAO_OK;
}

dao_status_t dao_range_free_marked(dao_range_t *range, uint64_t offset_bytes, uint64_t mark,
                                   dao_stream_fence_t *fence, dao_range_block_t *out_block)
{
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    uint32_t link = dao_range_find_used(range, offset_bytes);
    if (link == NONE) {
        return free_error(range, offset_bytes);
    }
    if (__builtin_expect(dao_range_at(range, link)->user >> DAO_RANGE_MARK_SHIFT != mark, false)) {
        return DAO_ERR_NOT_YOURS;
    }
    release(range, link, offset_bytes, fence, out_block);
    return DAO_OK;
}

/* ---- taking what several parts cover ---- */

static uint64_t end_of(const dao_range_t *range, uint32_t link)
{
    const dao_range_node_t *node = dao_range_at(range, link);
    return node->offset_units + node->size_units;
}

/* Returns true if free parts that a request may have cover [the begin of `first`, end). */
static bool are_allowed(const dao_range_t *range, uint32_t first, uint64_t end_units, const wish_t *wish)
{
    for (uint32_t link = first;; link = dao_range_at(range, link)->after) {
        if (!dao_range_is_free(range, link) || !is_allowed(range, link, wish)) {
            return false;
        }
        if (end_of(range, link) >= end_units) {
            return true;
        }
    }
}

/* Takes [start, end) out of free parts, of which `part` has the start. What is left of the first and of the
   last one keeps its own fence. Room has been made. */
static dao_stream_fence_t take_over(dao_range_t *range, uint32_t part, uint64_t start_units,
                                    uint64_t end_units, uint64_t user)
{
    if (dao_range_at(range, part)->offset_units < start_units) {
        part = cut_front(range, part, start_units - dao_range_at(range, part)->offset_units);
    }
    uint32_t last = part;
    while (end_of(range, last) < end_units) {
        last = dao_range_at(range, last)->after;
    }
    if (end_of(range, last) > end_units) {
        (void)cut_front(range, last, end_units - dao_range_at(range, last)->offset_units);
    }
    dao_stream_fence_t fence = dao_range_take_out(range, part);
    while (end_of(range, part) < end_units) {
        dao_range_absorb_after(range, part, &fence);
    }
    dao_range_enter_used(range, part, (uint32_t)start_units, end_units - start_units, user);
    return fence;
}

dao_status_t dao_range_alloc_over(dao_range_t *range, uint64_t offset_bytes,
                                  const dao_range_request_t *request, dao_stream_fence_t *out_fence)
{
    DAO_ASSERT(request->size_bytes > 0 && offset_bytes % DAO_RANGE_GRANULE == 0);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    uint64_t capacity_bytes = range->config.capacity_bytes;
    if (offset_bytes >= capacity_bytes || request->size_bytes > capacity_bytes - offset_bytes) {
        return DAO_ERR_LIMIT;
    }
    wish_t wish = {.stream = request->stream, .takes_fenced = request->takes_fenced};
    uint64_t start_units = offset_bytes >> UNIT_SHIFT;
    uint64_t size_units = (request->size_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT;
    uint32_t part = dao_range_node_around(range, (uint32_t)start_units);
    if (!are_allowed(range, part, start_units + size_units, &wish)) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = dao_range_has_room(range) ? DAO_OK : dao_range_reserve(range);
    if (status != DAO_OK) {
        return status;
    }
    *out_fence = take_over(range, part, start_units, start_units + size_units, request->user);
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return DAO_OK;
}

/* ---- marks ---- */

dao_status_t dao_range_mark(dao_range_t *range, uint64_t offset_bytes, uint32_t stream)
{
    DAO_ASSERT(stream > 0 && stream <= DAO_STREAM_FENCE_STREAM_MAX);
    uint32_t link = dao_range_find_used(range, offset_bytes);
    if (link == NONE) {
        return free_error(range, offset_bytes);
    }
    dao_range_node_t *node = dao_range_at(range, link);
    uint64_t *streams = &dao_range_fence(range, link)->streams;
    *streams = UINT64_C(1) << stream | (node->state == NODE_MARKED ? *streams : 0);
    node->state = NODE_MARKED;
    return DAO_OK;
}

dao_status_t dao_range_renumber(dao_range_t *range, uint64_t offset_bytes, uint64_t user)
{
    uint32_t link = dao_range_find_used(range, offset_bytes);
    if (link == NONE) {
        return free_error(range, offset_bytes);
    }
    dao_range_at(range, link)->user = user;
    return DAO_OK;
}

/* ---- looking ---- */

dao_status_t dao_range_query(const dao_range_t *range, uint64_t offset_bytes, dao_range_block_t *out_block)
{
    if (offset_bytes >= range->config.capacity_bytes) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    uint32_t link = dao_range_find_used(range, offset_bytes);
    link = link != NONE ? link : dao_range_node_around(range, (uint32_t)(offset_bytes >> UNIT_SHIFT));
    if (dao_range_at(range, link)->state == NODE_GAP) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    *out_block = dao_range_describe(range, link);
    return DAO_OK;
}

void dao_range_walk(const dao_range_t *range, dao_range_visit_t visit, void *user)
{
    for (uint32_t link = dao_range_first(range); link != NONE; link = dao_range_at(range, link)->after) {
        if (dao_range_at(range, link)->state == NODE_GAP) {
            continue;
        }
        dao_range_block_t block = dao_range_describe(range, link);
        if (!visit(&block, user)) {
            return;
        }
    }
}

/* Returns the sets that have nodes. */
static uint64_t sets_in_use(const dao_range_t *range)
{
    uint64_t in_use = 0;
    for (uint64_t bits = range->fenced_units > 0 ? range->set_bits : 0; bits != 0; bits &= bits - 1) {
        in_use |= range->sets[__builtin_ctzll(bits)]->count > 0 ? bits & -bits : 0;
    }
    return in_use;
}

/* Which nodes of a bin are seen, and by whom. */
typedef struct bin_walk {
    uint64_t least_units;
    uint32_t most; /* of each set */
    dao_range_visit_t visit;
    void *user;
} bin_walk_t;

/* Sees the nodes of a bin, those of sets behind the others; false: `visit` has answered that. */
static bool walk_bin(const dao_range_t *range, uint64_t set_bits, size_t bin, const bin_walk_t *walk)
{
    dao_range_set_t *bins = NULL;
    for (;;) {
        uint32_t left = walk->most;
        for (uint32_t link = dao_range_bin_first(range, bins, bin); link != NONE && left > 0; left--) {
            const dao_range_node_t *node = dao_range_at(range, link);
            if (node->size_units >= walk->least_units) {
                dao_range_block_t block = dao_range_describe(range, link);
                if (!walk->visit(&block, walk->user)) {
                    return false;
                }
            }
            link = node->bin_after;
        }
        if (set_bits == 0) {
            return true;
        }
        bins = range->sets[__builtin_ctzll(set_bits)];
        set_bits &= set_bits - 1;
    }
}

/* Returns the next bin in which any of these may have nodes, from `bin` on upwards, or before it. */
static size_t next_bin_of_all(const dao_range_t *range, uint64_t set_bits, size_t bin)
{
    size_t next = dao_range_next_bin(range, NULL, bin);
    for (; set_bits != 0; set_bits &= set_bits - 1) {
        size_t other = dao_range_next_bin(range, range->sets[__builtin_ctzll(set_bits)], bin);
        next = next == DAO_RANGE_NO_BIN || (other != DAO_RANGE_NO_BIN && other < next) ? other : next;
    }
    return next;
}

static size_t previous_bin_of_all(const dao_range_t *range, uint64_t set_bits, size_t bin)
{
    size_t previous = dao_range_previous_bin(range, NULL, bin);
    for (; set_bits != 0; set_bits &= set_bits - 1) {
        dao_range_set_t *bins = range->sets[__builtin_ctzll(set_bits)];
        size_t other = dao_range_previous_bin(range, bins, bin);
        previous = other > previous ? other : previous; /* NO_BIN is below all */
    }
    return previous;
}

void dao_range_walk_holes(const dao_range_t *range, dao_range_visit_t visit, void *user)
{
    bin_walk_t walk = {.most = UINT32_MAX, .visit = visit, .user = user};
    uint64_t set_bits = sets_in_use(range);
    size_t bin = previous_bin_of_all(range, set_bits, BIN_END);
    while (bin != DAO_RANGE_NO_BIN && walk_bin(range, set_bits, bin, &walk)) {
        bin = previous_bin_of_all(range, set_bits, bin);
    }
}

void dao_range_walk_holes_from(const dao_range_t *range, uint64_t least_bytes, dao_range_visit_t visit,
                               void *user)
{
    DAO_ASSERT(least_bytes > 0);
    if (least_bytes > range->config.capacity_bytes) {
        return;
    }
    bin_walk_t walk = {.least_units = (least_bytes + DAO_RANGE_GRANULE - 1) >> UNIT_SHIFT,
                       .most = DAO_RANGE_LOOKS_MAX,
                       .visit = visit,
                       .user = user};
    uint64_t set_bits = sets_in_use(range);
    size_t bin = next_bin_of_all(range, set_bits, dao_range_bin_of(walk.least_units));
    while (bin != DAO_RANGE_NO_BIN && walk_bin(range, set_bits, bin, &walk)) {
        bin = next_bin_of_all(range, set_bits, bin + 1);
    }
}

static bool add_fence(const dao_range_block_t *hole, void *user)
{
    dao_stream_fence_join(user, &hole->fence);
    return true;
}

dao_stream_fence_t dao_range_all_fences(const dao_range_t *range)
{
    dao_stream_fence_t all = {0};
    if (range->fenced_units > 0) {
        dao_range_walk_holes(range, add_fence, &all);
    }
    return all;
}

uint64_t dao_range_capacity(const dao_range_t *range)
{
    return range->config.capacity_bytes;
}

uint64_t dao_range_used(const dao_range_t *range)
{
    return range->used_units << UNIT_SHIFT;
}

static bool measure_hole(const dao_range_block_t *hole, void *user)
{
    uint64_t *largest_bytes = user;
    *largest_bytes = hole->size_bytes > *largest_bytes ? hole->size_bytes : *largest_bytes;
    return true;
}

uint64_t dao_range_largest_hole(const dao_range_t *range)
{
    uint64_t largest_bytes = 0;
    bin_walk_t walk = {.most = DAO_RANGE_LOOKS_MAX, .visit = measure_hole, .user = &largest_bytes};
    uint64_t set_bits = sets_in_use(range);
    size_t bin = previous_bin_of_all(range, set_bits, BIN_END);
    if (bin != DAO_RANGE_NO_BIN) {
        (void)walk_bin(range, set_bits, bin, &walk);
    }
    return largest_bytes;
}

/* ---- create, destroy ---- */

dao_status_t dao_range_create(const dao_range_config_t *config, dao_range_t **out_range)
{
    DAO_ASSERT(config->capacity_bytes >= DAO_RANGE_GRANULE &&
               config->capacity_bytes <= DAO_RANGE_CAPACITY_MAX);
    DAO_ASSERT(config->capacity_bytes % DAO_RANGE_GRANULE == 0 && config->base % DAO_RANGE_GRANULE == 0);
    dao_range_t *range = dao_host_calloc(1, sizeof(*range));
    if (range == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of a range");
    }
    range->config = *config;
    range->capacity_units = config->capacity_bytes >> UNIT_SHIFT;
    range->base_units = config->base >> UNIT_SHIFT;
    range->is_plain = config->fit == DAO_RANGE_FIT_GOOD && !config->is_indexed;
    if (!dao_range_tables_create(range)) {
        dao_range_destroy(range);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the tables of a range");
    }
    uint32_t all = dao_range_node_take(range);
    *dao_range_at(range, all) = (dao_range_node_t){.size_units = range->capacity_units, .state = NODE_FREE};
    dao_range_at(range, DAO_RANGE_NONE)->before = all;
    dao_range_at(range, DAO_RANGE_NONE)->after = all;
    if (config->is_parts) {
        dao_range_gap_insert(range, all);
    } else {
        dao_range_put(range, all, &(dao_stream_fence_t){0});
    }
    if (range->firsts != NULL) {
        dao_range_index_add(range, all);
    }
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    *out_range = range;
    return DAO_OK;
}

void dao_range_destroy(dao_range_t *range)
{
    if (range == NULL) {
        return;
    }
    dao_range_tables_destroy(range);
    dao_host_free(range);
}
