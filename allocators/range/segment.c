/* SPDX-License-Identifier: Apache-2.0 */
/* One segment: the answers of a range, by addresses, words and blocks.

       address    segment->address + offset       offset -> range.c -> a block, whose `user` is its word

   What a used block is, by its word:

       word != 0     live: counted in the ledger, seen by walks, counted by a recount
       word == 0     retired (segments.c): still used in the range, for nobody */
#include "allocators/range/segment.h"

#include "base/report/assert.h"

static uint64_t offset_in(const dao_segment_t *segment, const void *address)
{
    return (uint64_t)((uintptr_t)address - (uintptr_t)segment->address);
}

dao_status_t dao_segment_free(dao_segment_t *segment, dao_ledger_t *ledger, const void *address,
                              dao_stream_fence_t *fence, dao_block_owner_t owner)
{
    uint64_t offset_bytes = offset_in(segment, address);
    dao_range_block_t block;
    dao_status_t status = dao_range_free_marked(segment->range, offset_bytes, (uint64_t)owner, fence, &block);
    if (status == DAO_OK) {
        DAO_ASSERT(block.user != 0);
        dao_ledger_count_free_slow(ledger, address, block.user, (size_t)block.size_bytes);
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

dao_status_t dao_segment_query(const dao_segment_t *segment, const void *address, dao_block_t *out_block)
{
    dao_range_block_t block;
    dao_status_t status = dao_range_query(segment->range, offset_in(segment, address), &block);
    if (status != DAO_OK || block.is_free) {
        return DAO_ERR_FOREIGN_POINTER;
    }
    *out_block = dao_segment_describe(segment->address + block.offset_bytes, &block);
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
        dao_block_t seen = dao_segment_describe(walk->segment->address + block->offset_bytes, block);
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
    dao_block_t seen = dao_segment_describe(walk->segment->address + block->offset_bytes, block);
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

/* Returns the first page of [page, end) that is mapped, or is not, as asked; `end` if there is none. */
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

bool dao_segment_is_valid(const dao_segment_t *segment, dao_recount_t *recount)
{
    if (recount != NULL) {
        dao_range_walk(segment->range, dao_segment_recount, recount);
    }
    return dao_range_is_valid(segment->range) && dao_range_capacity(segment->range) == segment->size_bytes;
}
