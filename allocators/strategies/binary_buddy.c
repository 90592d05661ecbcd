/* SPDX-License-Identifier: Apache-2.0 */
/* Textbook binary buddy that places blocks: each takes the next power of two, cut from chunks by halving, and
   is merged with its buddy as soon as both are free. It is there to be compared with: on tensor sizes it
   costs 15 to 49 % more memory than the default.

       chunk 64 MiB   [  16  ][ 8 ][4][4][         32         ]   page_buddy.c over units of 256 bytes
       chunk 128 MiB  [                  128                  ]   for one large request

   A request goes to the first chunk, by address, that has a run for it, so that the last ones run empty. A
   chunk whose blocks are all free stays until trimming, a limit or an upstream without memory asks for it.

   What holds between calls:

       chunks do not overlap and are in order of address
       chunk.size_bytes == dao_page_buddy_page_count(chunk.buddy) * chunk.unit_bytes
       a block's size is a power of two; it lies at a multiple of that, counted from its chunk's address

   A chunk's unit is 256 bytes, or more where that would be more pages than page_buddy.c has: smaller blocks
   go elsewhere. */
#include "allocators/strategies/strategy.h"

#include "allocators/pages/page_buddy.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

#define LIST_MIN 8u

typedef struct chunk {
    char *address;
    size_t size_bytes;
    size_t unit_bytes; /* a power of two */
    dao_page_buddy_t *buddy;
} chunk_t;

typedef struct binary_buddy {
    dao_placer_t base;
    size_t chunk_bytes; /* the usual size, a power of two */
    chunk_t *chunks;
    size_t count;
    size_t capacity;
} binary_buddy_t;

static binary_buddy_t *buddy_of(dao_placer_t *placer)
{
    return (binary_buddy_t *)placer;
}

static const binary_buddy_t *buddy_of_const(const dao_placer_t *placer)
{
    return (const binary_buddy_t *)placer;
}

/* ---- blocks ---- */

/* Returns the power of two that a need takes; the need is at most 2^62. */
static size_t power_above(size_t needed_bytes)
{
    return needed_bytes <= DAO_BINARY_BUDDY_BLOCK_BYTES
               ? DAO_BINARY_BUDDY_BLOCK_BYTES
               : (size_t)1 << (64 - __builtin_clzll(needed_bytes - 1));
}

/* Returns what a request takes in a chunk. A block lies at a multiple of its own size, counted from the
   chunk's address. */
static size_t block_bytes_in(const binary_buddy_t *buddy, const chunk_t *chunk, size_t size_bytes,
                             size_t alignment_bytes)
{
    if ((uintptr_t)chunk->address % alignment_bytes != 0) {
        return power_above(dao_supply_padded(buddy->base.supply, size_bytes, alignment_bytes));
    }
    return power_above(size_bytes > alignment_bytes ? size_bytes : alignment_bytes);
}

static uint32_t order_of(const chunk_t *chunk, size_t block_bytes)
{
    DAO_ASSERT(dao_is_power_of_two(block_bytes));
    DAO_ASSERT(block_bytes >= chunk->unit_bytes);
    return (uint32_t)__builtin_ctzll(block_bytes / chunk->unit_bytes);
}

/* Takes a piece from a chunk that has room for it. */
static dao_status_t take_from(const chunk_t *chunk, size_t block_bytes, dao_piece_t *out_piece)
{
    uint32_t page = 0;
    dao_status_t status = dao_page_buddy_alloc(chunk->buddy, order_of(chunk, block_bytes), &page);
    if (status == DAO_OK) {
        *out_piece = (dao_piece_t){chunk->address + page * chunk->unit_bytes, block_bytes};
    }
    return status;
}

static bool has_room(const chunk_t *chunk, size_t block_bytes)
{
    uint32_t largest = dao_page_buddy_largest_free_order(chunk->buddy);
    return block_bytes >= chunk->unit_bytes && largest != UINT32_MAX &&
           block_bytes <= chunk->unit_bytes << largest;
}

/* Finds the first chunk that has room for a request, or NULL, and what the request takes there. Without one
   it takes what holds it in any chunk. */
static const chunk_t *find_room(const binary_buddy_t *buddy, size_t size_bytes, size_t alignment_bytes,
                                size_t *out_block_bytes)
{
    for (size_t i = 0; i < buddy->count; i++) {
        const chunk_t *chunk = &buddy->chunks[i];
        *out_block_bytes = block_bytes_in(buddy, chunk, size_bytes, alignment_bytes);
        if (has_room(chunk, *out_block_bytes)) {
            return chunk;
        }
    }
    *out_block_bytes = power_above(dao_supply_padded(buddy->base.supply, size_bytes, alignment_bytes));
    return NULL;
}

/* ---- chunks ---- */

/* Returns the index of the first chunk that begins after an address. */
static size_t index_after(const binary_buddy_t *buddy, const void *address)
{
    size_t low = 0, high = buddy->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if ((uintptr_t)buddy->chunks[middle].address <= (uintptr_t)address) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Returns the chunk that an address lies in, or NULL. */
static const chunk_t *chunk_around(const binary_buddy_t *buddy, const void *address)
{
    size_t index = index_after(buddy, address);
    const chunk_t *chunk = index > 0 ? &buddy->chunks[index - 1] : NULL;
    bool is_inside = chunk != NULL && (uintptr_t)address - (uintptr_t)chunk->address < chunk->size_bytes;
    return is_inside ? chunk : NULL;
}

static bool chunk_is_free(const chunk_t *chunk)
{
    return dao_page_buddy_free_count(chunk->buddy) == dao_page_buddy_page_count(chunk->buddy);
}

static bool list_reserve(binary_buddy_t *buddy)
{
    if (buddy->count < buddy->capacity) {
        return true;
    }
    size_t capacity = buddy->capacity * 2 + LIST_MIN;
    chunk_t *chunks = dao_host_realloc(buddy->chunks, capacity, sizeof(*chunks));
    if (chunks == NULL) {
        return false;
    }
    buddy->chunks = chunks;
    buddy->capacity = capacity;
    return true;
}

/* Returns true if a chunk lies behind the one before it and before the one behind it. */
static bool is_in_order(const binary_buddy_t *buddy, size_t index)
{
    const chunk_t *chunk = &buddy->chunks[index];
    return (index == 0 || chunk[-1].address + chunk[-1].size_bytes <= chunk->address) &&
           (index + 1 == buddy->count || chunk->address + chunk->size_bytes <= chunk[1].address);
}

/* Takes a chunk from the upstream. Its tables are made before. */
static dao_status_t take_chunk(binary_buddy_t *buddy, size_t size_bytes, bool presses,
                               const chunk_t **out_chunk)
{
    chunk_t chunk = {.unit_bytes = DAO_BINARY_BUDDY_BLOCK_BYTES};
    while (size_bytes > chunk.unit_bytes << DAO_PAGE_BUDDY_ORDER_MAX) {
        chunk.unit_bytes *= 2;
    }
    chunk.size_bytes = dao_round_up(size_bytes, chunk.unit_bytes);
    if (!list_reserve(buddy)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the list of chunks");
    }
    dao_status_t status = dao_supply_make_room(buddy->base.supply, chunk.size_bytes);
    if (status == DAO_OK) {
        status = dao_page_buddy_create((uint32_t)(chunk.size_bytes / chunk.unit_bytes), &chunk.buddy);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_piece_t piece;
    status = dao_supply_take(buddy->base.supply, chunk.size_bytes, presses, &piece);
    if (status != DAO_OK) {
        dao_page_buddy_destroy(chunk.buddy);
        return status;
    }
    chunk.address = piece.address;
    size_t index = index_after(buddy, chunk.address);
    memmove(&buddy->chunks[index + 1], &buddy->chunks[index], (buddy->count - index) * sizeof(chunk));
    buddy->chunks[index] = chunk;
    buddy->count++;
    DAO_ASSERT(is_in_order(buddy, index));
    *out_chunk = &buddy->chunks[index];
    return DAO_OK;
}

/* Takes a chunk with room for a block: of the usual size, else of what the limit leaves, else of just the
   block. */
static dao_status_t grow(binary_buddy_t *buddy, size_t block_bytes, const chunk_t **out_chunk)
{
    dao_supply_t *supply = buddy->base.supply;
    if (block_bytes > DAO_STRATEGY_BLOCK_BYTES_MAX) {
        return dao_error(supply->full_status, "the next power of two is more than 1 TiB");
    }
    dao_status_t status = dao_supply_make_room(supply, block_bytes);
    if (status != DAO_OK) {
        return status;
    }
    size_t wanted_bytes = block_bytes > buddy->chunk_bytes ? block_bytes : buddy->chunk_bytes;
    if (wanted_bytes > dao_supply_budget_room(supply)) {
        wanted_bytes = block_bytes; /* the rest is for those who share the budget */
    }
    while (wanted_bytes > block_bytes && wanted_bytes > dao_supply_room(supply)) {
        wanted_bytes /= 2; /* powers of two: it ends at block_bytes */
    }
    status = take_chunk(buddy, wanted_bytes, wanted_bytes == block_bytes, out_chunk);
    if (dao_allocator_is_short(status) && wanted_bytes > block_bytes) {
        status = take_chunk(buddy, block_bytes, true, out_chunk);
    }
    return status;
}

/* Releases a chunk to the upstream. If that refuses, the chunk stays. */
static dao_status_t give_chunk(binary_buddy_t *buddy, size_t index)
{
    chunk_t chunk = buddy->chunks[index];
    DAO_ASSERT(chunk_is_free(&chunk));
    dao_piece_t piece = {chunk.address, chunk.size_bytes};
    dao_status_t status = dao_supply_give(buddy->base.supply, &piece);
    if (status == DAO_OK) {
        dao_page_buddy_destroy(chunk.buddy);
        buddy->count--;
        memmove(&buddy->chunks[index], &buddy->chunks[index + 1], (buddy->count - index) * sizeof(chunk));
    }
    return status;
}

/* ---- the placer ---- */

static dao_status_t buddy_start(dao_placer_t *placer, size_t initial_bytes)
{
    const chunk_t *chunk = NULL;
    return take_chunk(buddy_of(placer), initial_bytes, false, &chunk);
}

static size_t buddy_block_bytes(const dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes)
{
    size_t block_bytes = 0;
    (void)find_room(buddy_of_const(placer), size_bytes, alignment_bytes, &block_bytes);
    return block_bytes;
}

static dao_status_t buddy_take(dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes,
                               dao_piece_t *out_piece)
{
    binary_buddy_t *buddy = buddy_of(placer);
    size_t block_bytes = 0;
    const chunk_t *chunk = find_room(buddy, size_bytes, alignment_bytes, &block_bytes);
    if (chunk == NULL) {
        dao_status_t status = grow(buddy, block_bytes, &chunk);
        if (status != DAO_OK) {
            return status;
        }
    }
    DAO_ASSERT(chunk != NULL);
    DAO_ASSERT(has_room(chunk, block_bytes));
    return take_from(chunk, block_bytes, out_piece);
}

static dao_status_t buddy_give(dao_placer_t *placer, const dao_piece_t *piece)
{
    const chunk_t *chunk = chunk_around(buddy_of(placer), piece->address);
    DAO_ASSERT(chunk != NULL);
    DAO_ASSERT((size_t)(piece->address - chunk->address) % piece->size_bytes == 0);
    uint32_t page = (uint32_t)((size_t)(piece->address - chunk->address) / chunk->unit_bytes);
    return dao_page_buddy_free(chunk->buddy, page, order_of(chunk, piece->size_bytes));
}

static uint64_t buddy_idle_bytes(const dao_placer_t *placer)
{
    const binary_buddy_t *buddy = buddy_of_const(placer);
    uint64_t idle_bytes = 0;
    for (size_t i = 0; i < buddy->count; i++) {
        idle_bytes += chunk_is_free(&buddy->chunks[i]) ? buddy->chunks[i].size_bytes : 0;
    }
    return idle_bytes;
}

/* Highest address first. */
static dao_status_t buddy_release(dao_placer_t *placer, uint64_t wanted_bytes)
{
    binary_buddy_t *buddy = buddy_of(placer);
    uint64_t released_bytes = 0;
    for (size_t i = buddy->count; i > 0 && released_bytes < wanted_bytes; i--) {
        size_t size_bytes = buddy->chunks[i - 1].size_bytes;
        if (!chunk_is_free(&buddy->chunks[i - 1])) {
            continue;
        }
        dao_status_t status = give_chunk(buddy, i - 1);
        if (status != DAO_OK) {
            return status;
        }
        released_bytes += size_bytes;
    }
    return DAO_OK;
}

static uint64_t buddy_largest_hole(const dao_placer_t *placer)
{
    const binary_buddy_t *buddy = buddy_of_const(placer);
    uint64_t largest_bytes = 0;
    for (size_t i = 0; i < buddy->count; i++) {
        uint32_t order = dao_page_buddy_largest_free_order(buddy->chunks[i].buddy);
        uint64_t hole_bytes = order == UINT32_MAX ? 0 : (uint64_t)buddy->chunks[i].unit_bytes << order;
        largest_bytes = hole_bytes > largest_bytes ? hole_bytes : largest_bytes;
    }
    return largest_bytes;
}

static void walk_chunk(const chunk_t *chunk, dao_placed_visit_t visit, void *user)
{
    for (uint32_t page = 0; page < dao_page_buddy_page_count(chunk->buddy);) {
        uint32_t order = dao_page_buddy_run_order(chunk->buddy, page);
        dao_placed_t placed = {
            .piece = {chunk->address + page * chunk->unit_bytes, chunk->unit_bytes << order},
            .is_used = !dao_page_buddy_is_free_run(chunk->buddy, page),
            .begins_segment = page == 0};
        visit(&placed, user);
        page += 1u << order;
    }
}

static void buddy_walk(const dao_placer_t *placer, dao_placed_visit_t visit, void *user)
{
    const binary_buddy_t *buddy = buddy_of_const(placer);
    for (size_t i = 0; i < buddy->count; i++) {
        walk_chunk(&buddy->chunks[i], visit, user);
    }
}

static bool buddy_is_hole(const dao_placer_t *placer, const void *address)
{
    const chunk_t *chunk = chunk_around(buddy_of_const(placer), address);
    if (chunk == NULL) {
        return false;
    }
    size_t offset_bytes = (size_t)((const char *)address - chunk->address);
    return offset_bytes % chunk->unit_bytes == 0 &&
           dao_page_buddy_is_free_run(chunk->buddy, (uint32_t)(offset_bytes / chunk->unit_bytes));
}

static bool buddy_is_valid(const dao_placer_t *placer, uint64_t used_bytes, uint64_t *reserved_bytes)
{
    const binary_buddy_t *buddy = buddy_of_const(placer);
    uint64_t placed_bytes = 0;
    for (size_t i = 0; i < buddy->count; i++) {
        const chunk_t *chunk = &buddy->chunks[i];
        const chunk_t *before = i > 0 ? &buddy->chunks[i - 1] : NULL;
        uint64_t page_count = dao_page_buddy_page_count(chunk->buddy);
        if ((before != NULL && before->address + before->size_bytes > chunk->address) ||
            page_count * chunk->unit_bytes != chunk->size_bytes || !dao_page_buddy_is_valid(chunk->buddy)) {
            return false;
        }
        placed_bytes += (page_count - dao_page_buddy_free_count(chunk->buddy)) * chunk->unit_bytes;
        *reserved_bytes += chunk->size_bytes;
    }
    return buddy->count <= buddy->capacity && placed_bytes == used_bytes;
}

static void buddy_destroy(dao_placer_t *placer)
{
    binary_buddy_t *buddy = buddy_of(placer);
    for (size_t i = 0; i < buddy->count; i++) {
        dao_piece_t piece = {buddy->chunks[i].address, buddy->chunks[i].size_bytes};
        (void)dao_supply_give(placer->supply, &piece); /* nobody is left to be told */
        dao_page_buddy_destroy(buddy->chunks[i].buddy);
    }
    dao_host_free(buddy->chunks);
    dao_host_free(buddy);
}

static const dao_placer_ops_t buddy_ops = {
    .name = "binary_buddy",
    .start = buddy_start,
    .block_bytes = buddy_block_bytes,
    .take = buddy_take,
    .give = buddy_give,
    .idle_bytes = buddy_idle_bytes,
    .release = buddy_release,
    .largest_hole = buddy_largest_hole,
    .walk = buddy_walk,
    .walks_used = true,
    .is_hole = buddy_is_hole,
    .is_valid = buddy_is_valid,
    .destroy = buddy_destroy,
};

dao_status_t dao_binary_buddy_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    binary_buddy_t *buddy = dao_host_calloc(1, sizeof(*buddy));
    if (buddy == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    buddy->base.ops = &buddy_ops;
    buddy->chunk_bytes = config->segment_bytes != 0 ? config->segment_bytes : DAO_BINARY_BUDDY_CHUNK_BYTES;
    DAO_ASSERT(dao_is_power_of_two(buddy->chunk_bytes));
    DAO_ASSERT(buddy->chunk_bytes >= DAO_BINARY_BUDDY_BLOCK_BYTES);
    return dao_strategy_create(config, &buddy->base, out_allocator);
}
