/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks in an array, linked to their neighbours in the segment; free ones also in a sorted array a kind.

       segment   | block <-> block <-> block |        addresses grow from segment to segment
       free[k]   (size, address) in order: the best fit is the first that is large enough

   Invariants: the blocks of a segment follow each other without a gap; two neighbours are never both free;
   reserved_bytes is the sum of the segments, that is of all blocks. */
#include "tools/fit/torch_pool.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "tools/base/grow.h"

#include <string.h>

/* kMinBlockSize, kSmallSize, kSmallBuffer, kLargeBuffer, kMinLargeAlloc and kRoundLarge of PyTorch. */
#define BLOCK_BYTES         UINT64_C(512)
#define SMALL_BYTES         (UINT64_C(1) << 20)
#define SMALL_SEGMENT_BYTES (UINT64_C(2) << 20)
#define LARGE_SEGMENT_BYTES (UINT64_C(20) << 20)
#define LARGE_ALLOC_BYTES   (UINT64_C(10) << 20)
#define LARGE_ROUND_BYTES   (UINT64_C(2) << 20)

/* No block. */
#define NONE UINT32_MAX

enum { KIND_SMALL, KIND_LARGE, KIND_COUNT };

typedef struct torch_block {
    uint64_t address, size_bytes;
    uint32_t previous, next; /* in the segment; of an unused entry `next` is the next unused */
    uint8_t kind;
    bool is_free;
    bool is_unused; /* the entry, for a later block */
} torch_block_t;

typedef struct free_list {
    uint32_t *blocks; /* by size, then address */
    size_t count, capacity;
} free_list_t;

struct dao_torch_pool {
    uint64_t limit_bytes;
    uint64_t reserved_bytes, peak_bytes;
    uint64_t next_address;
    torch_block_t *blocks;
    size_t block_count, block_capacity;
    uint32_t unused; /* the first of the unused entries */
    free_list_t free[KIND_COUNT];
};

dao_status_t dao_torch_pool_create(uint64_t limit_bytes, dao_torch_pool_t **out_pool)
{
    dao_torch_pool_t *pool = dao_host_calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a pool");
    }
    pool->limit_bytes = limit_bytes;
    pool->unused = NONE;
    *out_pool = pool;
    return DAO_OK;
}

void dao_torch_pool_destroy(dao_torch_pool_t *pool)
{
    if (pool != NULL) {
        dao_host_free(pool->blocks);
        for (int kind = 0; kind < KIND_COUNT; kind++) {
            dao_host_free(pool->free[kind].blocks);
        }
        dao_host_free(pool);
    }
}

uint64_t dao_torch_pool_reserved(const dao_torch_pool_t *pool)
{
    return pool->reserved_bytes;
}

uint64_t dao_torch_pool_peak(const dao_torch_pool_t *pool)
{
    return pool->peak_bytes;
}

/* ---- entries ---- */

static dao_status_t take_entry(dao_torch_pool_t *pool, uint32_t *out_block)
{
    if (pool->unused != NONE) {
        *out_block = pool->unused;
        pool->unused = pool->blocks[*out_block].next;
        return DAO_OK;
    }
    torch_block_t *grown =
        dao_tool_grow(pool->blocks, &pool->block_capacity, pool->block_count, sizeof(*pool->blocks));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pool->blocks = grown;
    *out_block = (uint32_t)pool->block_count++;
    return DAO_OK;
}

static void give_entry(dao_torch_pool_t *pool, uint32_t block)
{
    pool->blocks[block] = (torch_block_t){.next = pool->unused, .is_unused = true};
    pool->unused = block;
}

/* ---- free blocks in order ---- */

/* Returns the first of a list that is at least this large; of equal ones, not below the address. */
static size_t find_free(const dao_torch_pool_t *pool, const free_list_t *list, uint64_t size_bytes,
                        uint64_t address)
{
    size_t low = 0, high = list->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const torch_block_t *block = &pool->blocks[list->blocks[middle]];
        bool is_before =
            block->size_bytes < size_bytes || (block->size_bytes == size_bytes && block->address < address);
        *(is_before ? &low : &high) = is_before ? middle + 1 : middle;
    }
    return low;
}

static dao_status_t add_free(dao_torch_pool_t *pool, uint32_t number)
{
    torch_block_t *block = &pool->blocks[number];
    free_list_t *list = &pool->free[block->kind];
    uint32_t *grown = dao_tool_grow(list->blocks, &list->capacity, list->count, sizeof(*list->blocks));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    list->blocks = grown;
    size_t at = find_free(pool, list, block->size_bytes, block->address);
    memmove(&list->blocks[at + 1], &list->blocks[at], (list->count - at) * sizeof(*list->blocks));
    list->blocks[at] = number;
    list->count++;
    block->is_free = true;
    return DAO_OK;
}

static void remove_free(dao_torch_pool_t *pool, uint32_t number)
{
    torch_block_t *block = &pool->blocks[number];
    free_list_t *list = &pool->free[block->kind];
    size_t at = find_free(pool, list, block->size_bytes, block->address);
    DAO_ASSERT(at < list->count && list->blocks[at] == number);
    list->count--;
    memmove(&list->blocks[at], &list->blocks[at + 1], (list->count - at) * sizeof(*list->blocks));
    block->is_free = false;
}

/* ---- segments ---- */

static uint64_t segment_bytes(uint64_t size_bytes)
{
    return size_bytes <= SMALL_BYTES        ? SMALL_SEGMENT_BYTES
           : size_bytes < LARGE_ALLOC_BYTES ? LARGE_SEGMENT_BYTES
                                            : dao_round_up(size_bytes, LARGE_ROUND_BYTES);
}

/* Gives back every segment that is one free block. */
static void give_segments(dao_torch_pool_t *pool)
{
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        free_list_t *list = &pool->free[kind];
        size_t kept = 0;
        for (size_t i = 0; i < list->count; i++) {
            uint32_t number = list->blocks[i];
            torch_block_t *block = &pool->blocks[number];
            if (block->previous != NONE || block->next != NONE) {
                list->blocks[kept++] = number;
                continue;
            }
            pool->reserved_bytes -= block->size_bytes;
            give_entry(pool, number);
        }
        list->count = kept;
    }
}

static bool has_room(const dao_torch_pool_t *pool, uint64_t bytes)
{
    return bytes <= pool->limit_bytes && pool->reserved_bytes <= pool->limit_bytes - bytes;
}

/* Takes a segment of the system as one block, which is not in the lists. */
static dao_status_t take_segment(dao_torch_pool_t *pool, uint64_t size_bytes, uint32_t *out_block)
{
    uint64_t bytes = segment_bytes(size_bytes);
    if (!has_room(pool, bytes)) {
        give_segments(pool);
    }
    if (!has_room(pool, bytes)) {
        return DAO_ERR_LIMIT;
    }
    dao_status_t status = take_entry(pool, out_block);
    if (status == DAO_OK) {
        pool->blocks[*out_block] =
            (torch_block_t){.address = pool->next_address,
                            .size_bytes = bytes,
                            .previous = NONE,
                            .next = NONE,
                            .kind = size_bytes <= SMALL_BYTES ? KIND_SMALL : KIND_LARGE};
        pool->next_address += bytes;
        pool->reserved_bytes += bytes;
        pool->peak_bytes = dao_larger(pool->peak_bytes, pool->reserved_bytes);
    }
    return status;
}

/* ---- blocks ---- */

/* Cuts what a block has too much of into a free one behind it. */
static dao_status_t split(dao_torch_pool_t *pool, uint32_t number, uint64_t size_bytes)
{
    uint64_t left_bytes = pool->blocks[number].size_bytes - size_bytes;
    bool is_small = pool->blocks[number].kind == KIND_SMALL;
    uint32_t rest = NONE;
    if (is_small ? left_bytes < BLOCK_BYTES : left_bytes <= SMALL_BYTES) {
        return DAO_OK;
    }
    dao_status_t status = take_entry(pool, &rest);
    if (status != DAO_OK) {
        return status;
    }
    torch_block_t *block = &pool->blocks[number]; /* entries may have moved */
    pool->blocks[rest] = (torch_block_t){.address = block->address + size_bytes,
                                         .size_bytes = left_bytes,
                                         .previous = number,
                                         .next = block->next,
                                         .kind = block->kind};
    if (block->next != NONE) {
        pool->blocks[block->next].previous = rest;
    }
    block->next = rest;
    block->size_bytes = size_bytes;
    return add_free(pool, rest);
}

dao_status_t dao_torch_pool_alloc(dao_torch_pool_t *pool, uint64_t size_bytes, uint32_t *out_block)
{
    DAO_ASSERT(size_bytes > 0);
    if (size_bytes > UINT64_MAX / 2) {
        return DAO_ERR_LIMIT; /* rounding it up would not fit */
    }
    size_bytes = dao_round_up(size_bytes, BLOCK_BYTES);
    const free_list_t *list = &pool->free[size_bytes <= SMALL_BYTES ? KIND_SMALL : KIND_LARGE];
    size_t at = find_free(pool, list, size_bytes, 0);
    dao_status_t status = DAO_OK;
    if (at < list->count) {
        *out_block = list->blocks[at];
        remove_free(pool, *out_block);
    } else {
        status = take_segment(pool, size_bytes, out_block);
    }
    return status == DAO_OK ? split(pool, *out_block, size_bytes) : status;
}

/* Lengthens a block by the free one behind it, which is gone then. */
static void absorb_next(dao_torch_pool_t *pool, uint32_t number)
{
    torch_block_t *block = &pool->blocks[number];
    uint32_t next = block->next;
    block->size_bytes += pool->blocks[next].size_bytes;
    block->next = pool->blocks[next].next;
    if (block->next != NONE) {
        pool->blocks[block->next].previous = number;
    }
    give_entry(pool, next);
}

dao_status_t dao_torch_pool_free(dao_torch_pool_t *pool, uint32_t number)
{
    DAO_ASSERT(number < pool->block_count && !pool->blocks[number].is_free);
    uint32_t next = pool->blocks[number].next, previous = pool->blocks[number].previous;
    if (next != NONE && pool->blocks[next].is_free) {
        remove_free(pool, next);
        absorb_next(pool, number);
    }
    if (previous != NONE && pool->blocks[previous].is_free) {
        remove_free(pool, previous);
        absorb_next(pool, previous);
        number = previous;
    }
    return add_free(pool, number);
}

/* ---- validity ---- */

static bool is_block_valid(const dao_torch_pool_t *pool, uint32_t number)
{
    const torch_block_t *block = &pool->blocks[number];
    if (block->next == NONE) {
        return block->size_bytes > 0;
    }
    const torch_block_t *next = &pool->blocks[block->next];
    return block->size_bytes > 0 && next->previous == number && !next->is_unused &&
           next->address == block->address + block->size_bytes && !(block->is_free && next->is_free);
}

bool dao_torch_pool_is_valid(const dao_torch_pool_t *pool)
{
    uint64_t sum_bytes = 0;
    size_t free_count = 0;
    bool is_valid = pool->reserved_bytes <= pool->peak_bytes && pool->reserved_bytes <= pool->limit_bytes;
    for (uint32_t i = 0; i < pool->block_count && is_valid; i++) {
        if (!pool->blocks[i].is_unused) {
            is_valid = is_block_valid(pool, i);
            sum_bytes += pool->blocks[i].size_bytes;
            free_count += pool->blocks[i].is_free;
        }
    }
    for (int kind = 0; kind < KIND_COUNT && is_valid; kind++) {
        const free_list_t *list = &pool->free[kind];
        free_count -= list->count;
        for (size_t i = 0; i < list->count && is_valid; i++) {
            const torch_block_t *block = &pool->blocks[list->blocks[i]];
            is_valid = block->is_free && block->kind == kind &&
                       find_free(pool, list, block->size_bytes, block->address) == i;
        }
    }
    return is_valid && sum_bytes == pool->reserved_bytes && free_count == 0;
}

/* ---- a history ---- */

/* `blocks` has one for each buffer. */
static dao_status_t replay(const dao_history_t *history, dao_torch_pool_t *pool, uint32_t *blocks)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < history->buffer_count && status == DAO_OK; i++) {
        if (history->buffers[i].is_before) {
            status = dao_torch_pool_alloc(pool, history->buffers[i].size_bytes, &blocks[i]);
        }
    }
    for (size_t i = 0; i < history->event_count && status == DAO_OK; i++) {
        const dao_history_event_t *event = &history->events[i];
        status = event->is_alloc ? dao_torch_pool_alloc(pool, history->buffers[event->buffer].size_bytes,
                                                        &blocks[event->buffer])
                                 : dao_torch_pool_free(pool, blocks[event->buffer]);
    }
    DAO_ASSERT_HEAVY(dao_torch_pool_is_valid(pool));
    return status;
}

dao_status_t dao_torch_pool_run(const dao_history_t *history, uint64_t limit_bytes, dao_torch_run_t *out_run)
{
    dao_torch_pool_t *pool = NULL;
    dao_status_t status = dao_torch_pool_create(limit_bytes, &pool);
    if (status != DAO_OK) {
        return status;
    }
    uint32_t *blocks = dao_host_calloc(history->buffer_count + 1, sizeof(*blocks));
    status = blocks != NULL ? replay(history, pool, blocks)
                            : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to replay %zu buffers",
                                        history->buffer_count);
    if (status == DAO_OK || status == DAO_ERR_LIMIT) {
        *out_run = (dao_torch_run_t){
            .peak_bytes = pool->peak_bytes, .reserved_bytes = pool->reserved_bytes, .fits = status == DAO_OK};
        status = DAO_OK;
    }
    dao_host_free(blocks);
    dao_torch_pool_destroy(pool);
    return status;
}
