/* The table of blocks that leases retain: an array in order of address.

       blocks   [ 0x1000, 2 leases ][ 0x5000, 1 lease, freed ][ 0x9000, 1 lease ]

   What holds: addresses grow; each block has a lease; count <= capacity. There are few such blocks, what a graph uses from
   elsewhere: adding and removing one moves those behind it, a free looks in a number of steps that is its logarithm. */
#include "runtime/retained.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"

#include <string.h>

/* Blocks of the first array; each following one is twice as large. */
#define FIRST_CAPACITY 32u

void dao_retained_init(dao_retained_t *retained)
{
    *retained = (dao_retained_t){0};
    dao_mutex_init(&retained->lock, DAO_RANK_RUNTIME);
}

void dao_retained_finish(dao_retained_t *retained)
{
    DAO_ASSERT(atomic_load(&retained->count) == 0);
    dao_host_free(retained->blocks);
    dao_mutex_finish(&retained->lock);
}

/* Gives the number of blocks with a lower address. */
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
    size_t count = atomic_load(&retained->count);
    if (count < retained->capacity) {
        return DAO_OK;
    }
    size_t capacity = retained->capacity == 0 ? FIRST_CAPACITY : retained->capacity * 2;
    dao_retained_block_t *blocks = dao_host_calloc(capacity, sizeof(*blocks));
    if (blocks == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the table of retained blocks");
    }
    if (count > 0) {
        memcpy(blocks, retained->blocks, count * sizeof(*blocks));
    }
    dao_host_free(retained->blocks);
    retained->blocks = blocks;
    retained->capacity = capacity;
    return DAO_OK;
}

void dao_retained_add(dao_retained_t *retained, void *address, uint64_t block_bytes)
{
    dao_retained_block_t *block = dao_retained_find(retained, address);
    if (block == NULL) {
        size_t rank = rank_of(retained, address), count = atomic_load(&retained->count);
        DAO_ASSERT(count < retained->capacity);
        block = &retained->blocks[rank];
        memmove(block + 1, block, (count - rank) * sizeof(*block));
        *block = (dao_retained_block_t){.address = address, .block_bytes = block_bytes};
        atomic_store(&retained->count, count + 1);
    }
    block->lease_count++;
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
}

bool dao_retained_drop(dao_retained_t *retained, const void *address, dao_retained_block_t *out_block)
{
    dao_retained_block_t *block = dao_retained_find(retained, address);
    DAO_ASSERT(block != NULL);
    if (--block->lease_count > 0) {
        return false;
    }
    *out_block = *block;
    size_t count = atomic_load(&retained->count) - 1;
    memmove(block, block + 1, (count - (size_t)(block - retained->blocks)) * sizeof(*block));
    atomic_store(&retained->count, count);
    DAO_ASSERT_HEAVY(dao_retained_is_valid(retained));
    return out_block->is_freed;
}

bool dao_retained_is_valid(const dao_retained_t *retained)
{
    size_t count = atomic_load(&retained->count);
    for (size_t i = 0; i < count && count <= retained->capacity; i++) {
        const dao_retained_block_t *block = &retained->blocks[i];
        if (block->lease_count == 0 || (!block->is_freed && !dao_hold_is_empty(&block->hold)) ||
            (i > 0 && (uintptr_t)block[-1].address >= (uintptr_t)block->address)) {
            return false;
        }
    }
    return count <= retained->capacity;
}
