/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks of 11 sizes that are never cut or merged, as in InfiniCore's pool of pinnable blocks. It is there to
   be compared with: a request that is a little above a class takes up to 8 times its size.

       32 KiB    idle  [ a ][ b ][ c ]      last in, first out; a request takes the smallest class
       256 KiB   idle  [ d ]
       1 MiB ... 256 MiB, each twice the one before
       larger    idle  [ 300 MiB ][ 1 GiB ]  first fit that wastes at most an eighth

   Every block is a call of the upstream of its own. A freed block stays idle until a request takes it, or
   until trimming, a limit or an upstream without memory asks for it. The original gives the first larger
   block whatever its size, so that 4 GiB can go to a request for 257 MiB: here the waste is bounded.

   What holds between calls, for each class and for the larger ones:

       idle_count <= block_count <= capacity, so that giving a block back needs no memory
       block_count is what was taken from the upstream and not given back */
#include "allocators/strategies/strategy.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

static const size_t class_bytes[] = {
    (size_t)32 << 10, (size_t)256 << 10, (size_t)1 << 20,   (size_t)2 << 20,
    (size_t)4 << 20,  (size_t)8 << 20,   (size_t)16 << 20,  (size_t)32 << 20,
    (size_t)64 << 20, (size_t)128 << 20, (size_t)256 << 20,
};

enum { CLASS_COUNT = sizeof(class_bytes) / sizeof(class_bytes[0]), LARGE = CLASS_COUNT, SHELF_COUNT };

/* A larger block may be larger than a request by this part of it. */
#define WASTE_DIVISOR 8u

#define CAPACITY_MIN 8u

/* The blocks of one class, or the larger ones. */
typedef struct shelf {
    dao_piece_t *idle;
    size_t idle_count;
    size_t block_count; /* idle or handed out */
    size_t capacity;
} shelf_t;

typedef struct size_class {
    dao_placer_t base;
    shelf_t shelves[SHELF_COUNT];
} size_class_t;

static size_class_t *pool_of(dao_placer_t *placer)
{
    return (size_class_t *)placer;
}

static const size_class_t *pool_of_const(const dao_placer_t *placer)
{
    return (const size_class_t *)placer;
}

/* Returns the smallest class that holds a need; LARGE if none does. */
static size_t class_of(size_t needed_bytes)
{
    size_t class = 0;
    while (class < CLASS_COUNT && class_bytes[class] < needed_bytes) {
        class ++;
    }
    return class;
}

/* ---- shelves ---- */

static bool shelf_reserve(shelf_t *shelf)
{
    if (shelf->block_count < shelf->capacity) {
        return true;
    }
    size_t capacity = shelf->capacity * 2 + CAPACITY_MIN;
    dao_piece_t *idle = dao_host_realloc(shelf->idle, capacity, sizeof(*idle));
    if (idle == NULL) {
        return false;
    }
    shelf->idle = idle;
    shelf->capacity = capacity;
    return true;
}

/* Takes a block off the idle ones. */
static dao_piece_t shelf_remove(shelf_t *shelf, size_t index)
{
    DAO_ASSERT(index < shelf->idle_count);
    dao_piece_t piece = shelf->idle[index];
    shelf->idle_count--;
    memmove(&shelf->idle[index], &shelf->idle[index + 1], (shelf->idle_count - index) * sizeof(piece));
    return piece;
}

/* Returns the index of the idle block that a need takes; idle_count if there is none. */
static size_t shelf_find(const shelf_t *shelf, bool is_large, size_t needed_bytes)
{
    if (!is_large) {
        return shelf->idle_count > 0 ? shelf->idle_count - 1 : 0;
    }
    size_t i = 0;
    while (i < shelf->idle_count &&
           (shelf->idle[i].size_bytes < needed_bytes ||
            shelf->idle[i].size_bytes - needed_bytes > needed_bytes / WASTE_DIVISOR)) {
        i++;
    }
    return i;
}

/* Takes a block from the upstream. */
static dao_status_t grow(size_class_t *pool, shelf_t *shelf, size_t block_bytes, dao_piece_t *out_piece)
{
    if (!shelf_reserve(shelf)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the list of blocks");
    }
    dao_status_t status = dao_supply_make_room(pool->base.supply, block_bytes);
    if (status == DAO_OK) {
        status = dao_supply_take(pool->base.supply, block_bytes, true, out_piece);
    }
    shelf->block_count += status == DAO_OK;
    DAO_ASSERT(shelf->block_count <= shelf->capacity);
    return status;
}

/* Releases an idle block to the upstream. If that refuses, it stays. */
static dao_status_t give_back(size_class_t *pool, shelf_t *shelf, size_t index)
{
    dao_status_t status = dao_supply_give(pool->base.supply, &shelf->idle[index]);
    if (status == DAO_OK) {
        (void)shelf_remove(shelf, index);
        shelf->block_count--;
        DAO_ASSERT(shelf->idle_count <= shelf->block_count);
    }
    return status;
}

/* Finds the idle block to release: the smallest of those that suffice, else the largest. False if none is
   idle. */
static bool find_to_release(size_class_t *pool, uint64_t wanted_bytes, shelf_t **out_shelf, size_t *out_index)
{
    uint64_t best_bytes = 0;
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        shelf_t *shelf = &pool->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i += class == LARGE ? 1 : shelf->idle_count) {
            uint64_t size_bytes = shelf->idle[i].size_bytes;
            bool is_better = best_bytes < wanted_bytes
                                 ? size_bytes > best_bytes
                                 : size_bytes >= wanted_bytes && size_bytes < best_bytes;
            if (is_better) {
                best_bytes = size_bytes;
                *out_shelf = shelf;
                *out_index = i;
            }
        }
    }
    return best_bytes > 0;
}

/* ---- the placer ---- */

/* Finds the shelf of a request and the idle block that it takes; returns what it takes, from the upstream if
   none is idle. */
static size_t find_block(const size_class_t *pool, size_t size_bytes, size_t alignment_bytes,
                         size_t *out_class, size_t *out_index)
{
    size_t needed_bytes = dao_supply_padded(pool->base.supply, size_bytes, alignment_bytes);
    size_t class = class_of(needed_bytes);
    const shelf_t *shelf = &pool->shelves[class];
    size_t block_bytes = class == LARGE ? dao_round_up(needed_bytes, DAO_RANGE_GRANULE) : class_bytes[class];
    *out_class = class;
    *out_index = shelf_find(shelf, class == LARGE, block_bytes);
    return *out_index < shelf->idle_count ? shelf->idle[*out_index].size_bytes : block_bytes;
}

static size_t pool_block_bytes(const dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes)
{
    size_t class = 0, index = 0;
    return find_block(pool_of_const(placer), size_bytes, alignment_bytes, &class, &index);
}

static dao_status_t pool_take(dao_placer_t *placer, size_t size_bytes, size_t alignment_bytes,
                              dao_piece_t *out_piece)
{
    size_class_t *pool = pool_of(placer);
    size_t class = 0, index = 0;
    size_t block_bytes = find_block(pool, size_bytes, alignment_bytes, &class, &index);
    shelf_t *shelf = &pool->shelves[class];
    if (index < shelf->idle_count) {
        *out_piece = shelf_remove(shelf, index);
        DAO_ASSERT(out_piece->size_bytes >= size_bytes);
        return DAO_OK;
    }
    return grow(pool, shelf, block_bytes, out_piece);
}

static dao_status_t pool_give(dao_placer_t *placer, const dao_piece_t *piece)
{
    size_t class = class_of(piece->size_bytes);
    shelf_t *shelf = &pool_of(placer)->shelves[class];
    DAO_ASSERT(class == LARGE || piece->size_bytes == class_bytes[class]);
    DAO_ASSERT(shelf->idle_count < shelf->block_count);
    shelf->idle[shelf->idle_count++] = *piece;
    return DAO_OK;
}

static uint64_t pool_idle_bytes(const dao_placer_t *placer)
{
    uint64_t idle_bytes = 0;
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        const shelf_t *shelf = &pool_of_const(placer)->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i++) {
            idle_bytes += shelf->idle[i].size_bytes;
        }
    }
    return idle_bytes;
}

static dao_status_t pool_release(dao_placer_t *placer, uint64_t wanted_bytes)
{
    size_class_t *pool = pool_of(placer);
    shelf_t *shelf = NULL;
    size_t index = 0;
    while (wanted_bytes > 0 && find_to_release(pool, wanted_bytes, &shelf, &index)) {
        uint64_t size_bytes = shelf->idle[index].size_bytes;
        dao_status_t status = give_back(pool, shelf, index);
        if (status != DAO_OK) {
            return status;
        }
        wanted_bytes -= size_bytes < wanted_bytes ? size_bytes : wanted_bytes;
    }
    return DAO_OK;
}

static uint64_t pool_largest_hole(const dao_placer_t *placer)
{
    uint64_t largest_bytes = 0;
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        const shelf_t *shelf = &pool_of_const(placer)->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i++) {
            uint64_t size_bytes = shelf->idle[i].size_bytes;
            largest_bytes = size_bytes > largest_bytes ? size_bytes : largest_bytes;
        }
    }
    return largest_bytes;
}

static void pool_walk(const dao_placer_t *placer, dao_placed_visit_t visit, void *user)
{
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        const shelf_t *shelf = &pool_of_const(placer)->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i++) {
            dao_placed_t placed = {.piece = shelf->idle[i], .begins_segment = true};
            visit(&placed, user);
        }
    }
}

static bool pool_is_hole(const dao_placer_t *placer, const void *address)
{
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        const shelf_t *shelf = &pool_of_const(placer)->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i++) {
            if (shelf->idle[i].address == address) {
                return true;
            }
        }
    }
    return false;
}

static bool pool_is_valid(const dao_placer_t *placer, uint64_t used_bytes, uint64_t *reserved_bytes)
{
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        const shelf_t *shelf = &pool_of_const(placer)->shelves[class];
        if (shelf->idle_count > shelf->block_count || shelf->block_count > shelf->capacity) {
            return false;
        }
        for (size_t i = 0; i < shelf->idle_count; i++) {
            size_t size_bytes = shelf->idle[i].size_bytes;
            if (class_of(size_bytes) != class || (class != LARGE && size_bytes != class_bytes[class])) {
                return false;
            }
        }
    }
    *reserved_bytes += pool_idle_bytes(placer) + used_bytes;
    return true;
}

static void pool_destroy(dao_placer_t *placer)
{
    size_class_t *pool = pool_of(placer);
    for (size_t class = 0; class < SHELF_COUNT; class ++) {
        shelf_t *shelf = &pool->shelves[class];
        for (size_t i = 0; i < shelf->idle_count; i++) {
            (void)dao_supply_give(placer->supply, &shelf->idle[i]); /* nobody is left to be told */
        }
        dao_host_free(shelf->idle);
    }
    dao_host_free(pool);
}

static const dao_placer_ops_t pool_ops = {
    .name = "size_class",
    .block_bytes = pool_block_bytes,
    .take = pool_take,
    .give = pool_give,
    .idle_bytes = pool_idle_bytes,
    .release = pool_release,
    .largest_hole = pool_largest_hole,
    .walk = pool_walk,
    .is_hole = pool_is_hole,
    .is_valid = pool_is_valid,
    .destroy = pool_destroy,
};

dao_status_t dao_size_class_create(const dao_strategy_config_t *config, dao_allocator_t **out_allocator)
{
    DAO_ASSERT(config->segment_bytes == 0 && config->initial_bytes == 0);
    size_class_t *pool = dao_host_calloc(1, sizeof(*pool));
    if (pool == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", config->name);
    }
    pool->base.ops = &pool_ops;
    return dao_strategy_create(config, &pool->base, out_allocator);
}
