/* Sets of segments.

       list   [ 20 MiB | range ] [ 20 MiB | range ] [ 64 MiB | range ]      by address, for binary search

   A request goes to the first segment, by address, that has a hole for it, so that the last ones run empty. If there is
   none, a segment is taken from the upstream: of the usual size, else of what the limit leaves, else of just the request.
   A segment whose blocks are all free stays until trimming, a limit or an upstream without memory asks for it.

   What holds between calls:

       sum of size_bytes of the segments is their part of ledger->stats.reserved_bytes
       segments do not overlap and are in order of address
       dao_range_largest_hole(range) <= bound_bytes

   All that may fail for want of memory (the list, the range) is made before the upstream is asked, so that a failure
   changes nothing but that free segments may have been given back in the attempt. */
#include "allocators/segments.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <string.h>

#define LIST_MIN 8u

static uint64_t round_up(uint64_t value, uint64_t unit)
{
    return (value + unit - 1) & ~(unit - 1);
}

/* ---- one segment ---- */

static uint64_t offset_in(const dao_segment_t *segment, const void *address)
{
    return (uint64_t)((uintptr_t)address - (uintptr_t)segment->address);
}

dao_status_t dao_segment_free(dao_segment_t *segment, dao_ledger_t *ledger, const void *address,
                              dao_hold_t *hold)
{
    uint64_t offset_bytes = offset_in(segment, address);
    dao_range_block_t block;
    dao_status_t status = dao_range_free(segment->range, offset_bytes, hold, &block);
    if (status == DAO_OK) {
        segment->bound_bytes = segment->size_bytes;
        dao_ledger_count_free(ledger, address, block.user, (size_t)block.size_bytes);
    } else if (status == DAO_ERR_DOUBLE_FREE && !dao_ledger_freed_lately(ledger, address)) {
        status = dao_range_query(segment->range, offset_bytes, &block);
        DAO_ASSERT(status == DAO_OK && block.is_free);
        status = block.offset_bytes == offset_bytes ? DAO_ERR_DOUBLE_FREE : DAO_ERR_FOREIGN_POINTER;
    }
    return status;
}

dao_status_t dao_segment_mark(dao_segment_t *segment, const void *address, uint32_t stream)
{
    uint64_t offset_bytes = offset_in(segment, address);
    dao_range_block_t block;
    dao_status_t status = dao_range_query(segment->range, offset_bytes, &block);
    if (status != DAO_OK || block.is_free) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    if (block.offset_bytes != offset_bytes) {
        return DAO_ERR_INTERIOR_POINTER;
    }
    return dao_word_stream(block.user) == 0 ? DAO_ERR_UNSUPPORTED
                                            : dao_range_mark(segment->range, offset_bytes, stream);
}

static dao_block_t describe(const dao_segment_t *segment, const dao_range_block_t *block)
{
    return (dao_block_t){.address = segment->address + block->offset_bytes,
                         .requested_bytes = dao_word_requested_bytes(block->user),
                         .block_bytes = (size_t)block->size_bytes,
                         .tag = dao_word_tag(block->user),
                         .stream = dao_word_stream(block->user),
                         .state = !block->is_free                   ? DAO_BLOCK_STATE_LIVE
                                  : dao_hold_is_empty(&block->hold) ? DAO_BLOCK_STATE_FREE
                                                                    : DAO_BLOCK_STATE_PENDING};
}

dao_status_t dao_segment_query(const dao_segment_t *segment, const void *address, dao_block_t *out_block)
{
    dao_range_block_t block;
    dao_status_t status = dao_range_query(segment->range, offset_in(segment, address), &block);
    if (status != DAO_OK || block.is_free) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    *out_block = describe(segment, &block);
    return DAO_OK;
}

typedef struct walk {
    const dao_segment_t *segment;
    dao_block_visit_t visit;
    void *user;
} walk_t;

static bool walk_block(const dao_range_block_t *block, void *user)
{
    const walk_t *walk = user;
    if (!block->is_free) {
        dao_block_t seen = describe(walk->segment, block);
        walk->visit(&seen, walk->user);
    }
    return true;
}

void dao_segment_walk(const dao_segment_t *segment, dao_block_visit_t visit, void *user)
{
    walk_t walk = {.segment = segment, .visit = visit, .user = user};
    dao_range_walk(segment->range, walk_block, &walk);
}

static bool walk_any_block(const dao_range_block_t *block, void *user)
{
    const walk_t *walk = user;
    dao_block_t seen = describe(walk->segment, block);
    seen.begins_segment = block->offset_bytes == 0;
    walk->visit(&seen, walk->user);
    return true;
}

void dao_segment_walk_all(const dao_segment_t *segment, dao_block_visit_t visit, void *user)
{
    walk_t walk = {.segment = segment, .visit = visit, .user = user};
    dao_range_walk(segment->range, walk_any_block, &walk);
}

typedef struct mapped_walk {
    const dao_segment_t *segment;
    const uint64_t *mapped;
    uint32_t page_shift;
    dao_block_visit_t visit;
    void *user;
    const char *end; /* of the block before; NULL at first */
} mapped_walk_t;

static void walk_piece(mapped_walk_t *walk, dao_block_t block)
{
    block.begins_segment = block.address != walk->end;
    walk->end = (const char *)block.address + block.block_bytes;
    walk->visit(&block, walk->user);
}

/* Gives the first page of [page, end) that is mapped, or is not, as asked; `end` if there is none. */
static uint64_t page_from(const mapped_walk_t *walk, uint64_t page, uint64_t end, bool is_mapped)
{
    while (page < end && (walk->mapped[page / 64] >> page % 64 & 1) != is_mapped) {
        bool is_word_alike = page % 64 == 0 && walk->mapped[page / 64] == (is_mapped ? 0 : UINT64_MAX);
        page += is_word_alike ? 64 : 1;
    }
    return page < end ? page : end;
}

/* Sees a live block, or the mapped parts of a free one. */
static void walk_mapped(const dao_block_t *block, void *user)
{
    mapped_walk_t *walk = user;
    if (block->state == DAO_BLOCK_STATE_LIVE) {
        walk_piece(walk, *block);
        return;
    }
    uint64_t first_byte = offset_in(walk->segment, block->address);
    uint64_t end_byte = first_byte + block->block_bytes;
    uint64_t end_page = ((end_byte - 1) >> walk->page_shift) + 1;
    uint64_t page = page_from(walk, first_byte >> walk->page_shift, end_page, true);
    while (page < end_page) {
        uint64_t after = page_from(walk, page, end_page, false);
        uint64_t begin = page << walk->page_shift;
        uint64_t end = after << walk->page_shift;
        begin = begin < first_byte ? first_byte : begin;
        end = end > end_byte ? end_byte : end;
        dao_block_t piece = *block;
        piece.address = walk->segment->address + begin;
        piece.block_bytes = (size_t)(end - begin);
        walk_piece(walk, piece);
        page = page_from(walk, after, end_page, true);
    }
}

void dao_segment_walk_mapped(const dao_segment_t *segment, const uint64_t *mapped, uint32_t page_shift,
                             dao_block_visit_t visit, void *user)
{
    mapped_walk_t walk = {
        .segment = segment, .mapped = mapped, .page_shift = page_shift, .visit = visit, .user = user};
    dao_segment_walk_all(segment, walk_mapped, &walk);
}

static bool recount_block(const dao_range_block_t *block, void *user)
{
    dao_recount_t *recount = user;
    if (!block->is_free) {
        recount->requested_bytes += dao_word_requested_bytes(block->user);
        recount->used_bytes += block->size_bytes;
        recount->live_count++;
    }
    return true;
}

bool dao_segment_is_valid(const dao_segment_t *segment, dao_recount_t *recount)
{
    dao_range_walk(segment->range, recount_block, recount);
    return dao_range_is_valid(segment->range) && dao_range_capacity(segment->range) == segment->size_bytes &&
           dao_range_largest_hole(segment->range) <= segment->bound_bytes;
}

/* ---- the set ---- */

void dao_segments_init(dao_segments_t *segments, const dao_segments_config_t *config, dao_ledger_t *ledger)
{
    DAO_ASSERT((config->unit_bytes & (config->unit_bytes - 1)) == 0);
    DAO_ASSERT(config->unit_bytes >= DAO_RANGE_GRANULE);
    *segments = (dao_segments_t){.config = *config, .ledger = ledger};
}

/* Gives the index of the first segment that begins after an address. */
static size_t index_after(const dao_segments_t *segments, const void *address)
{
    size_t low = 0, high = segments->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)segments->list[middle].address <= (uintptr_t)address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Gives the segment that an address lies in, or NULL. */
static dao_segment_t *segment_around(const dao_segments_t *segments, const void *address)
{
    size_t index = index_after(segments, address);
    if (index == 0) {
        return NULL;
    }
    dao_segment_t *segment = &segments->list[index - 1];
    return offset_in(segment, address) < segment->size_bytes ? segment : NULL;
}

static bool is_free_segment(const dao_segment_t *segment)
{
    return dao_range_used(segment->range) == 0;
}

static uint64_t free_segment_bytes(const dao_segments_t *segments)
{
    uint64_t free_bytes = 0;
    for (size_t i = 0; i < segments->count; i++) {
        free_bytes += is_free_segment(&segments->list[i]) ? segments->list[i].size_bytes : 0;
    }
    return free_bytes;
}

/* Gives a segment back to the upstream. If that refuses, the segment stays. */
static dao_status_t give_segment(dao_segments_t *segments, size_t index)
{
    dao_segment_t segment = segments->list[index];
    const dao_upstream_t *upstream = &segments->config.upstream;
    dao_status_t status = upstream->give(upstream->user, segment.address, segment.size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    dao_range_destroy(segment.range);
    segments->count--;
    memmove(&segments->list[index], &segments->list[index + 1], (segments->count - index) * sizeof(segment));
    dao_ledger_count_shrink(segments->ledger, segment.size_bytes);
    return DAO_OK;
}

/* Gives the free segment that suits best: the smallest of those that suffice, else the largest; `count` if none is free. */
static size_t segment_to_release(const dao_segments_t *segments, uint64_t wanted_bytes)
{
    size_t best = segments->count;
    for (size_t i = 0; i < segments->count; i++) {
        if (!is_free_segment(&segments->list[i])) {
            continue;
        }
        uint64_t size_bytes = segments->list[i].size_bytes;
        uint64_t best_bytes = best == segments->count ? 0 : segments->list[best].size_bytes;
        bool is_better = best_bytes < wanted_bytes ? size_bytes > best_bytes
                                                   : size_bytes >= wanted_bytes && size_bytes < best_bytes;
        best = is_better ? i : best;
    }
    return best;
}

/* Gives free segments back until at least wanted_bytes are given or none is left. */
static dao_status_t release(dao_segments_t *segments, uint64_t wanted_bytes, uint64_t *out_released_bytes)
{
    dao_status_t status = DAO_OK;
    uint64_t released_bytes = 0;
    while (released_bytes < wanted_bytes && status == DAO_OK) {
        size_t index = segment_to_release(segments, wanted_bytes - released_bytes);
        if (index == segments->count) {
            break;
        }
        uint64_t size_bytes = segments->list[index].size_bytes;
        status = give_segment(segments, index);
        released_bytes += status == DAO_OK ? size_bytes : 0;
    }
    *out_released_bytes = released_bytes;
    return status;
}

dao_status_t dao_segments_make_room(dao_segments_t *segments, uint64_t size_bytes)
{
    uint64_t room_bytes = dao_ledger_room(segments->ledger);
    if (room_bytes >= size_bytes) {
        return DAO_OK;
    }
    if (free_segment_bytes(segments) < size_bytes - room_bytes) {
        return dao_ledger_limit_error(segments->ledger, size_bytes);
    }
    uint64_t released_bytes = 0;
    return release(segments, size_bytes - room_bytes, &released_bytes);
}

static bool list_reserve(dao_segments_t *segments)
{
    if (segments->count < segments->capacity) {
        return true;
    }
    size_t capacity = segments->capacity * 2 + LIST_MIN;
    dao_segment_t *list = dao_host_realloc(segments->list, capacity, sizeof(*list));
    if (list == NULL) {
        return false;
    }
    segments->list = list;
    segments->capacity = capacity;
    return true;
}

/* Takes addresses from the upstream and makes a range over them. */
static dao_status_t take_range(dao_segments_t *segments, dao_segment_t *segment)
{
    const dao_upstream_t *upstream = &segments->config.upstream;
    void *address = NULL;
    dao_status_t status = upstream->take(upstream->user, segment->size_bytes, &address);
    if (status != DAO_OK) {
        return status;
    }
    segment->address = address;
    dao_range_config_t config = {
        .capacity_bytes = segment->size_bytes, .base = (uintptr_t)address, .fit = segments->config.fit};
    status = dao_range_create(&config, &segment->range);
    if (status != DAO_OK) {
        dao_error_record_t record;
        dao_error_save(&record, status);
        (void)upstream->give(upstream->user, address, segment->size_bytes); /* it was taken just now */
        return dao_error_restore(&record);
    }
    return DAO_OK;
}

/* Takes one segment of a size from the upstream. */
static dao_status_t take_segment(dao_segments_t *segments, size_t size_bytes)
{
    if (!list_reserve(segments)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the list of segments");
    }
    dao_segment_t segment = {.size_bytes = size_bytes, .bound_bytes = size_bytes};
    dao_status_t status = dao_ledger_grow_begin(segments->ledger, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = take_range(segments, &segment);
    if (status != DAO_OK) {
        dao_ledger_grow_cancel(segments->ledger, size_bytes);
        return status;
    }
    size_t index = index_after(segments, segment.address);
    memmove(&segments->list[index + 1], &segments->list[index], (segments->count - index) * sizeof(segment));
    segments->list[index] = segment;
    segments->count++;
    dao_ledger_count_grow(segments->ledger, size_bytes);
    return DAO_OK;
}

dao_status_t dao_segments_take_initial(dao_segments_t *segments, size_t size_bytes)
{
    if (size_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(segments->config.full_status, "a segment has at most 1 TiB");
    }
    uint64_t segment_bytes = round_up(size_bytes, DAO_RANGE_GRANULE);
    dao_status_t status = dao_segments_make_room(segments, segment_bytes);
    return status == DAO_OK ? take_segment(segments, (size_t)segment_bytes) : status;
}

/* Whether less, or giving something back, may help; a limit: of the budget, which others have taken from since the look. */
static bool is_out_of_memory(dao_status_t status)
{
    return status == DAO_ERR_NO_DEVICE_MEMORY || status == DAO_ERR_NO_HOST_MEMORY || status == DAO_ERR_LIMIT;
}

/* Takes a segment with room for a block: of the usual size, else of what the limit leaves, else of just the block; last of
   all after giving back what is free. Of a budget that has no room for the usual size it takes no more than the block needs:
   the rest is for those who share it. */
static dao_status_t grow(dao_segments_t *segments, uint64_t block_bytes)
{
    dao_status_t status = dao_segments_make_room(segments, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t room_bytes = dao_ledger_room(segments->ledger) & ~(uint64_t)(DAO_RANGE_GRANULE - 1);
    uint64_t unit_bytes = round_up(block_bytes, segments->config.unit_bytes);
    uint64_t minimum_bytes = segments->config.minimum_bytes;
    uint64_t wanted_bytes = unit_bytes < minimum_bytes ? minimum_bytes : unit_bytes;
    wanted_bytes = wanted_bytes > dao_ledger_budget_room(segments->ledger) ? unit_bytes : wanted_bytes;
    wanted_bytes = wanted_bytes > room_bytes ? room_bytes : wanted_bytes;
    wanted_bytes = wanted_bytes > DAO_RANGE_CAPACITY_MAX ? DAO_RANGE_CAPACITY_MAX : wanted_bytes;
    wanted_bytes =
        wanted_bytes < block_bytes ? block_bytes : wanted_bytes; /* others took from the budget just now */
    status = take_segment(segments, (size_t)wanted_bytes);
    if (is_out_of_memory(status) && wanted_bytes > block_bytes) {
        status = take_segment(segments, (size_t)block_bytes);
    }
    if (is_out_of_memory(status) && free_segment_bytes(segments) > 0) {
        uint64_t released_bytes = 0;
        dao_status_t released = release(segments, UINT64_MAX, &released_bytes);
        status = released != DAO_OK ? released : take_segment(segments, (size_t)block_bytes);
    }
    return status;
}

/* Takes a block from the segments at hand. DAO_ERR_LIMIT, without a message, if none has room. */
static dao_status_t place(dao_segments_t *segments, const dao_block_request_t *request, uint64_t block_bytes,
                          void **out_address)
{
    dao_range_request_t wish = {
        .size_bytes = block_bytes, .alignment_bytes = request->alignment_bytes, .user = dao_word_of(request)};
    for (size_t i = 0; i < segments->count; i++) {
        dao_segment_t *segment = &segments->list[i];
        if (block_bytes > segment->bound_bytes) {
            continue;
        }
        dao_range_grant_t grant;
        dao_status_t status = dao_range_alloc(segment->range, &wish, &grant);
        if (status == DAO_OK) {
            *out_address = segment->address + grant.offset_bytes;
            return DAO_OK;
        }
        if (status != DAO_ERR_LIMIT) {
            return status;
        }
        if (request->alignment_bytes <= DAO_RANGE_GRANULE) {
            segment->bound_bytes = block_bytes - DAO_RANGE_GRANULE;
        }
    }
    return DAO_ERR_LIMIT;
}

static dao_status_t place_or_grow(dao_segments_t *segments, const dao_block_request_t *request,
                                  uint64_t block_bytes, void **out_address)
{
    dao_status_t status = place(segments, request, block_bytes, out_address);
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    uint64_t slack_bytes =
        request->alignment_bytes > DAO_RANGE_GRANULE ? request->alignment_bytes - DAO_RANGE_GRANULE : 0;
    if (slack_bytes > DAO_RANGE_CAPACITY_MAX - block_bytes) {
        return dao_error(segments->config.full_status, "a block and its alignment have at most 1 TiB");
    }
    status = grow(segments, block_bytes + slack_bytes);
    return status != DAO_OK ? status : place(segments, request, block_bytes, out_address);
}

static dao_status_t charge_and_place(dao_segments_t *segments, const dao_block_request_t *request,
                                     void **out_address)
{
    size_t size_bytes = request->size_bytes;
    if (size_bytes > PTRDIFF_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "no block can be that large");
    }
    uint64_t block_bytes = round_up(size_bytes, DAO_RANGE_GRANULE);
    if (block_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(segments->config.full_status, "a block has at most 1 TiB");
    }
    dao_status_t status = dao_ledger_charge(segments->ledger, request, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = place_or_grow(segments, request, block_bytes, out_address);
    if (status != DAO_OK) {
        dao_ledger_refund(segments->ledger, request, block_bytes);
    }
    return status;
}

dao_status_t dao_segments_alloc(dao_segments_t *segments, const dao_block_request_t *request,
                                void **out_address)
{
    size_t size_bytes = request->size_bytes;
    DAO_ASSERT(size_bytes > 0);
    dao_status_t status = charge_and_place(segments, request, out_address);
    if (status != DAO_OK) {
        return dao_ledger_fail(segments->ledger, status, request, dao_segments_largest_hole(segments));
    }
    dao_ledger_count_alloc(segments->ledger, request, (size_t)round_up(size_bytes, DAO_RANGE_GRANULE));
    return DAO_OK;
}

dao_status_t dao_segments_free(dao_segments_t *segments, const void *address)
{
    dao_segment_t *segment = segment_around(segments, address);
    if (segment == NULL) {
        return dao_ledger_freed_lately(segments->ledger, address) ? DAO_ERR_DOUBLE_FREE
                                                                  : DAO_ERR_FOREIGN_POINTER;
    }
    return dao_segment_free(segment, segments->ledger, address, NULL);
}

dao_status_t dao_segments_query(const dao_segments_t *segments, const void *address, dao_block_t *out_block)
{
    const dao_segment_t *segment = segment_around(segments, address);
    return segment == NULL ? DAO_ERR_FOREIGN_POINTER : dao_segment_query(segment, address, out_block);
}

dao_status_t dao_segments_trim(dao_segments_t *segments, uint64_t keep_bytes, uint64_t *out_released_bytes)
{
    uint64_t free_bytes = free_segment_bytes(segments);
    return release(segments, free_bytes > keep_bytes ? free_bytes - keep_bytes : 0, out_released_bytes);
}

dao_status_t dao_segments_limit_set(dao_segments_t *segments, uint64_t limit_bytes)
{
    dao_stats_t *stats = &segments->ledger->stats;
    if (limit_bytes != 0 && stats->reserved_bytes > limit_bytes) {
        uint64_t excess_bytes = stats->reserved_bytes - limit_bytes;
        if (free_segment_bytes(segments) < excess_bytes) {
            return dao_error(DAO_ERR_LIMIT, "%s: live blocks hold more than the new limit of %zu bytes",
                             segments->ledger->name, (size_t)limit_bytes);
        }
        uint64_t released_bytes = 0;
        dao_status_t status = release(segments, excess_bytes, &released_bytes);
        if (status != DAO_OK) {
            return status;
        }
    }
    stats->limit_bytes = limit_bytes;
    return DAO_OK;
}

void dao_segments_walk(const dao_segments_t *segments, dao_block_visit_t visit, void *user)
{
    for (size_t i = 0; i < segments->count; i++) {
        dao_segment_walk(&segments->list[i], visit, user);
    }
}

void dao_segments_walk_all(const dao_segments_t *segments, dao_block_visit_t visit, void *user)
{
    for (size_t i = 0; i < segments->count; i++) {
        dao_segment_walk_all(&segments->list[i], visit, user);
    }
}

uint64_t dao_segments_largest_hole(const dao_segments_t *segments)
{
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < segments->count; i++) {
        if (segments->list[i].bound_bytes > largest_bytes) {
            uint64_t hole_bytes = dao_range_largest_hole(segments->list[i].range);
            largest_bytes = hole_bytes > largest_bytes ? hole_bytes : largest_bytes;
        }
    }
    return largest_bytes;
}

bool dao_segments_is_valid(const dao_segments_t *segments, dao_recount_t *recount)
{
    for (size_t i = 0; i < segments->count; i++) {
        const dao_segment_t *segment = &segments->list[i];
        bool in_order =
            i == 0 || segments->list[i - 1].address + segments->list[i - 1].size_bytes <= segment->address;
        if (!in_order || !dao_segment_is_valid(segment, recount)) {
            return false;
        }
        recount->reserved_bytes += segment->size_bytes;
    }
    return segments->count <= segments->capacity;
}

void dao_segments_finish(dao_segments_t *segments)
{
    const dao_upstream_t *upstream = &segments->config.upstream;
    for (size_t i = 0; i < segments->count; i++) {
        dao_segment_t *segment = &segments->list[i];
        dao_range_destroy(segment->range);
        (void)upstream->give(upstream->user, segment->address,
                             segment->size_bytes); /* nobody is left to be told */
    }
    dao_host_free(segments->list);
    *segments = (dao_segments_t){0};
}
