/* SPDX-License-Identifier: Apache-2.0 */
/* The table of blocks that leases retain: an array in order of address.

       blocks   [ 0x1000, 2 leases ][ 0x5000, 1 lease, freed ][ 0x9000, 1 lease ]

   Invariants: addresses increase; each block has a lease; count + leaving_count <= capacity.

   There are few such blocks: those that a graph uses but that were allocated elsewhere. Adding or removing
   one moves those behind it. A free searches in O(log blocks). */
#include "runtime/device/retained.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <string.h>

/* Blocks of the first array; each following one is twice as large. */
#define FIRST_CAPACITY 32u

void dao_retained_init(dao_retained_t *retained, int32_t device_index)
{
    *retained = (dao_retained_t){.device_index = device_index};
    dao_mutex_init(&retained->lock, DAO_RANK_RUNTIME);
}

void dao_retained_finish(dao_retained_t *retained)
{
    DAO_ASSERT(atomic_load(&retained->count) == 0);
    dao_host_free(retained->blocks);
    dao_mutex_finish(&retained->lock);
}

/* Returns the number of blocks with a lower address. */
static size_t rank_of(const dao_retained_t *retained, const void *address)
{
    size_t first = 0, end = atomic_load(&retained->count);
    while (first < end) {
        size_t middle = first + (end - first) / 2;
        if ((uintptr_t)retained->blocks[middle].address < (uintptr_t)address) {
            first = middle + 1;
        } else {
            end = middle;
        }
    }
    return first;
}

dao_retained_block_t *dao_retained_find(const dao_retained_t *retained, const void *address)
{
    size_t rank = rank_of(retained, address);
    bool is_there = rank < atomic_load(&retained->count) && retained->blocks[rank].address == address;
    return is_there ? &retained->blocks[rank] : NULL;
}

dao_status_t dao_retained_reserve(dao_retained_t *retained)
{
    if (atomic_load(&retained->count) + retained->leaving_count < retained->capacity) {
        return DAO_OK;
    }
    size_t capacity = retained->capacity == 0 ? FIRST_CAPACITY : retained->capacity * 2;
    dao_retained_block_t *blocks = dao_host_realloc(retained->blocks, capacity, sizeof(*blocks));
    if (blocks == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "device:%" PRId32 ": no host memory for the table of retained blocks",
                         retained->device_index);
    }
    retained->blocks = blocks;
    retained->capacity = capacity;
    return DAO_OK;
}

/* Puts a block into the table, where it has its place. */
static dao_retained_block_t *insert(dao_retained_t *retained, const dao_retained_block_t *block)
{
    size_t rank = rank_of(retained, block->address), count = atomic_load(&retained->count);
    DAO_ASSERT(count < retained->capacity);
    dao_retained_block_t *place = &retained->blocks[rank];
    memmove(place + 1, place, (count - rank) * sizeof(*place));
    *place = *block;
    atomic_store(&retained->count, count + 1);
    return place;
}

void dao_retained_add(dao_retained_t *retained, void *address, uint64_t block_bytes, dao_block_owner_t owner)
{
    dao_retained_block_t *block = dao_retained_find(retained, address);
    if (block == NULL) {
        block =
            insert(retained,
                   &(dao_retained_block_t){.address = address, .block_bytes = block_bytes, .owner = owner});
    }
    block->lease_count++;
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
}

bool dao_retained_drop(dao_retained_t *retained, const void *address, dao_retained_block_t *out_block)
{
    dao_retained_block_t *block = dao_retained_find(retained, address);
    DAO_ASSERT(block != NULL);
    *out_block = *block;
    if (--block->lease_count > 0) {
        return false;
    }
    size_t count = atomic_load(&retained->count) - 1;
    memmove(block, block + 1, (count - (size_t)(block - retained->blocks)) * sizeof(*block));
    atomic_store(&retained->count, count);
    retained->leaving_count += out_block->is_freed;
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
    return out_block->is_freed;
}

void dao_retained_drop_end(dao_retained_t *retained, const dao_retained_block_t *back)
{
    DAO_ASSERT(retained->leaving_count > 0);
    retained->leaving_count--;
    if (back != NULL) {
        dao_retained_block_t *block = dao_retained_find(retained, back->address);
        uint32_t lease_count = block != NULL ? block->lease_count : 0; /* retained meanwhile, though freed */
        block = block != NULL ? block : insert(retained, back);
        *block = *back;
        block->lease_count += lease_count;
    }
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
}

bool dao_retained_is_valid(const dao_retained_t *retained)
{
    size_t count = atomic_load(&retained->count);
    for (size_t i = 0; i < count && count <= retained->capacity; i++) {
        const dao_retained_block_t *block = &retained->blocks[i];
        if (block->lease_count == 0 || (!block->is_freed && !dao_stream_fence_is_empty(&block->fence)) ||
            (i > 0 && (uintptr_t)block[-1].address >= (uintptr_t)block->address)) {
            return false;
        }
    }
    return count + retained->leaving_count <= retained->capacity;
}

bool dao_retained_is_freed(dao_retained_t *retained, const void *address)
{
    if (!dao_retained_any(retained)) {
        return false;
    }
    dao_mutex_lock(&retained->lock);
    const dao_retained_block_t *block = dao_retained_find(retained, address);
    bool is_freed = block != NULL && block->is_freed;
    dao_mutex_unlock(&retained->lock);
    return is_freed;
}

bool dao_retained_retires_slow(dao_retained_t *retained, const void *address, const dao_stream_fence_t *fence,
                               dao_block_owner_t owner, dao_status_t *out_status)
{
    dao_mutex_lock(&retained->lock);
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
    dao_retained_block_t *block = dao_retained_find(retained, address);
    if (block != NULL && block->owner != owner) {
        *out_status = dao_error(DAO_ERR_NOT_YOURS, "device:%" PRId32 ": %p cannot be freed: it belongs to %s",
                                retained->device_index, address, dao_block_owner_text(block->owner));
    } else if (block != NULL && block->is_freed) {
        *out_status = dao_error(DAO_ERR_DOUBLE_FREE,
                                "device:%" PRId32 ": %p was freed before; a lease retains it until it ends",
                                retained->device_index, address);
    } else if (block != NULL) {
        block->is_freed = true;
        block->fence = fence != NULL ? *fence : (dao_stream_fence_t){0};
        *out_status = DAO_OK;
    }
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
    dao_mutex_unlock(&retained->lock);
    return block != NULL;
}
