/* The pool as it is upstream. A block that the pool took from the system is the root of a tree; a block is cut in two where
   it is larger than what is asked for, however little is left, and is put together again when neither part is in use:

       root 640  use_count 1              a block is in one of three states:
         |-- 512  in use                    in use      somebody has it
         `-- 128  free                      free        in the set of free blocks
                                            cut         its two parts stand for it

   use_count counts the parts of a block that are in use or cut. A request gets the smallest free block that is large enough,
   of equal ones the one that was freed last, and takes all of it or cuts it.

   Free blocks are in a treap, in the order of size and, with equal sizes, from the latest to the first; priorities are drawn
   from the blocks' numbers, so that equal traces do the same.

   Invariants: a free or used part's parent is cut; no two free neighbours stay whose parent has use_count 0; with PYTHON a
   part that was freed is in no state until its parent is put together. */
#include "tools/plan_pool.h"

#include "allocators/range.h"
#include "tools/grow.h"

#define NONE UINT32_MAX

enum { NOT_FREE = 0 };

typedef struct block {
    uint64_t size_bytes;
    uint64_t freed_at; /* the number of the free, from 1; NOT_FREE */
    uint32_t parent;   /* NONE: a root */
    uint32_t part;     /* the first of its two parts, which have numbers in a row; while it is cut */
    uint32_t use_count;
    uint32_t smaller; /* treap: subtrees */
    uint32_t larger;
} block_t;

typedef struct pool {
    dao_plan_pool_variant_t variant;
    block_t *blocks;
    size_t block_count, block_capacity;
    uint32_t spare; /* the first of a chain of pairs that may be used again, by their `part` */
    uint32_t free_root;
    uint64_t free_count; /* frees so far */
    uint64_t total_bytes;
} pool_t;

/* ---- the free blocks ---- */

static uint32_t priority(uint32_t block)
{
    uint32_t x = block * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    return x ^ x >> 13;
}

/* Tells whether block `a` comes before `b`: it is smaller, or as large and freed later. */
static bool comes_before(const pool_t *pool, uint32_t a, uint32_t b)
{
    const block_t *left = &pool->blocks[a];
    const block_t *right = &pool->blocks[b];
    return left->size_bytes != right->size_bytes ? left->size_bytes < right->size_bytes
                                                 : left->freed_at > right->freed_at;
}

static void add_free(pool_t *pool, uint32_t block)
{
    pool->blocks[block].freed_at = ++pool->free_count;
    uint32_t *link = &pool->free_root;
    while (*link != NONE && priority(*link) >= priority(block)) {
        link = comes_before(pool, block, *link) ? &pool->blocks[*link].smaller : &pool->blocks[*link].larger;
    }
    /* What is below is split into what comes before the block and what comes after it. */
    uint32_t rest = *link;
    uint32_t *before = &pool->blocks[block].smaller;
    uint32_t *after = &pool->blocks[block].larger;
    *link = block;
    while (rest != NONE) {
        if (comes_before(pool, rest, block)) {
            *before = rest;
            before = &pool->blocks[rest].larger;
            rest = *before;
        } else {
            *after = rest;
            after = &pool->blocks[rest].smaller;
            rest = *after;
        }
    }
    *before = *after = NONE;
}

static void remove_free(pool_t *pool, uint32_t block)
{
    uint32_t *link = &pool->free_root;
    while (*link != block) {
        link = comes_before(pool, block, *link) ? &pool->blocks[*link].smaller : &pool->blocks[*link].larger;
    }
    uint32_t before = pool->blocks[block].smaller;
    uint32_t after = pool->blocks[block].larger;
    while (before != NONE && after != NONE) {
        if (priority(before) > priority(after)) {
            *link = before;
            link = &pool->blocks[before].larger;
            before = *link;
        } else {
            *link = after;
            link = &pool->blocks[after].smaller;
            after = *link;
        }
    }
    *link = before != NONE ? before : after;
    pool->blocks[block].freed_at = NOT_FREE;
}

/* Finds the smallest free block of at least that size, the latest among equals; NONE. */
static uint32_t find_free(const pool_t *pool, uint64_t size_bytes)
{
    uint32_t found = NONE;
    for (uint32_t at = pool->free_root; at != NONE;) {
        const block_t *block = &pool->blocks[at];
        if (block->size_bytes >= size_bytes) {
            found = at;
            at = block->smaller;
        } else {
            at = block->larger;
        }
    }
    return found;
}

/* ---- blocks ---- */

/* Makes two blocks with numbers in a row. */
static dao_status_t make_pair(pool_t *pool, uint32_t *out_first)
{
    if (pool->spare != NONE) {
        *out_first = pool->spare;
        pool->spare = pool->blocks[pool->spare].part;
        return DAO_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        block_t *blocks =
            dao_tool_grow(pool->blocks, &pool->block_capacity, pool->block_count + i, sizeof(*blocks));
        if (blocks == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        pool->blocks = blocks;
    }
    *out_first = (uint32_t)pool->block_count;
    pool->block_count += 2;
    return DAO_OK;
}

/* A root is the first of a pair; the second stays unused. */
static dao_status_t take_root(pool_t *pool, uint64_t size_bytes, uint32_t *out_block)
{
    if (size_bytes > UINT64_MAX - pool->total_bytes) {
        return dao_error(DAO_ERR_OVERFLOW, "the pool would take more than 2^64 bytes");
    }
    dao_status_t status = make_pair(pool, out_block);
    if (status == DAO_OK) {
        pool->blocks[*out_block] = (block_t){.size_bytes = size_bytes, .parent = NONE};
        pool->total_bytes += size_bytes;
    }
    return status;
}

/* Cuts a block that is in use by nobody; the first part is in use, the second free. */
static dao_status_t cut(pool_t *pool, uint32_t block, uint64_t size_bytes, uint32_t *out_part)
{
    uint32_t part = NONE;
    dao_status_t status = make_pair(pool, &part);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t rest_bytes = pool->blocks[block].size_bytes - size_bytes;
    pool->blocks[part] = (block_t){.size_bytes = size_bytes, .parent = block};
    pool->blocks[part + 1] = (block_t){.size_bytes = rest_bytes, .parent = block};
    pool->blocks[block].part = part;
    pool->blocks[block].use_count = 1;
    add_free(pool, part + 1);
    *out_part = part;
    return DAO_OK;
}

static dao_status_t take(pool_t *pool, uint64_t size_bytes, uint32_t *out_block)
{
    if (size_bytes > UINT64_MAX - (DAO_PLAN_POOL_ALIGNMENT_BYTES - 1)) {
        return dao_error(DAO_ERR_OVERFLOW, "the pool would take more than 2^64 bytes");
    }
    size_bytes += DAO_PLAN_POOL_ALIGNMENT_BYTES - 1;
    size_bytes -= size_bytes % DAO_PLAN_POOL_ALIGNMENT_BYTES;
    uint32_t block = find_free(pool, size_bytes);
    if (block == NONE) {
        return take_root(pool, size_bytes, out_block);
    }
    remove_free(pool, block);
    if (pool->blocks[block].parent != NONE) {
        pool->blocks[pool->blocks[block].parent].use_count++;
    }
    if (pool->blocks[block].size_bytes > size_bytes) {
        return cut(pool, block, size_bytes, out_block);
    }
    *out_block = block;
    return DAO_OK;
}

/* Puts a block together again, of whose parts none is in use. */
static void join(pool_t *pool, uint32_t block)
{
    uint32_t part = pool->blocks[block].part;
    for (uint32_t i = part; i < part + 2; i++) {
        if (pool->blocks[i].freed_at != NOT_FREE) {
            remove_free(pool, i);
        }
    }
    pool->blocks[part].part = pool->spare;
    pool->spare = part;
    add_free(pool, block);
}

static void give(pool_t *pool, uint32_t block)
{
    uint32_t parent = pool->blocks[block].parent;
    if (parent == NONE || pool->variant == DAO_PLAN_POOL_MNN) {
        add_free(pool, block);
    }
    for (; parent != NONE && --pool->blocks[parent].use_count == 0; parent = pool->blocks[parent].parent) {
        join(pool, parent);
    }
}

/* ---- replays ---- */

/* `slots` has one for each of the trace's. */
static dao_status_t replay(pool_t *pool, const dao_alloc_trace_t *trace, uint32_t *slots)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < trace->event_count && status == DAO_OK; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        if (event->size_bytes != 0) {
            status = take(pool, event->size_bytes, &slots[event->slot]);
        } else {
            give(pool, slots[event->slot]);
        }
    }
    return status;
}

dao_status_t dao_plan_pool_run(const dao_alloc_trace_t *trace, dao_plan_pool_variant_t variant,
                               uint64_t *out_bytes)
{
    pool_t pool = {.variant = variant, .spare = NONE, .free_root = NONE};
    uint32_t *slots = dao_host_calloc(trace->slot_count + 1, sizeof(*slots));
    dao_status_t status = slots != NULL
                              ? replay(&pool, trace, slots)
                              : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the blocks of a pool");
    dao_host_free(slots);
    dao_host_free(pool.blocks);
    if (status == DAO_OK) {
        *out_bytes = pool.total_bytes;
    }
    return status;
}

/* `offsets` has one for each of the trace's slots. */
static dao_status_t replay_on_range(dao_range_t *range, const dao_alloc_trace_t *trace, uint64_t *offsets,
                                    uint64_t *out_bytes)
{
    dao_status_t status = DAO_OK;
    *out_bytes = 0;
    for (size_t i = 0; i < trace->event_count && status == DAO_OK; i++) {
        const dao_alloc_event_t *event = &trace->events[i];
        dao_range_block_t block;
        if (event->size_bytes == 0) {
            status = dao_range_free(range, offsets[event->slot], NULL, &block);
            continue;
        }
        dao_range_request_t request = {.size_bytes = event->size_bytes};
        dao_range_grant_t grant;
        status = dao_range_alloc(range, &request, &grant);
        if (status == DAO_ERR_LIMIT) {
            status = dao_error(status, "the buffers take more than %llu bytes",
                               (unsigned long long)DAO_RANGE_CAPACITY_MAX);
        }
        if (status == DAO_OK) {
            uint64_t end = grant.offset_bytes + event->size_bytes;
            offsets[event->slot] = grant.offset_bytes;
            *out_bytes = end > *out_bytes ? end : *out_bytes;
        }
    }
    return status;
}

dao_status_t dao_plan_online_run(const dao_alloc_trace_t *trace, bool is_best, uint64_t *out_bytes)
{
    dao_range_config_t config = {.capacity_bytes = DAO_RANGE_CAPACITY_MAX,
                                 .fit = is_best ? DAO_RANGE_FIT_BEST : DAO_RANGE_FIT_GOOD};
    dao_range_t *range = NULL;
    uint64_t bytes = 0;
    dao_status_t status = dao_range_create(&config, &range);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t *offsets = dao_host_calloc(trace->slot_count + 1, sizeof(*offsets));
    status = offsets != NULL ? replay_on_range(range, trace, offsets, &bytes)
                             : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a replay");
    dao_host_free(offsets);
    dao_range_destroy(range);
    if (status == DAO_OK) {
        *out_bytes = bytes;
    }
    return status;
}
