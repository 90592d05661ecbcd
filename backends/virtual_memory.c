/* SPDX-License-Identifier: Apache-2.0 */
/* Blocks are in plain lists: the allocators above ask for few and large ones. */
#include "backends/virtual_memory.h"

#include "base/memory/host.h"
#include "base/report/error.h"

#include <inttypes.h>

struct dao_virtual_block {
    dao_virtual_block_t *next;
    void *address;
    size_t size_bytes;
};

void dao_virtual_memory_init(dao_virtual_memory_t *memory)
{
    memory->used_bytes = 0;
    memory->device_blocks = NULL;
    memory->pinned_blocks = NULL;
    dao_mutex_init(&memory->lock, DAO_RANK_BACKEND);
}

void dao_virtual_memory_finish(dao_virtual_memory_t *memory)
{
    DAO_ASSERT(memory->device_blocks == NULL && memory->pinned_blocks == NULL);
    DAO_ASSERT(memory->used_bytes == 0);
    dao_mutex_finish(&memory->lock);
}

/* The caller holds the lock, or is the only user. */
static bool is_valid(const dao_virtual_memory_t *memory)
{
    uint64_t block_bytes = 0;
    for (const dao_virtual_block_t *block = memory->device_blocks; block != NULL; block = block->next) {
        block_bytes += block->size_bytes;
    }
    return block_bytes <= memory->used_bytes && memory->used_bytes <= memory->capacity_bytes;
}

/* ---- capacity ---- */

dao_status_t dao_virtual_memory_take(dao_virtual_memory_t *memory, size_t size_bytes)
{
    dao_mutex_lock(&memory->lock);
    uint64_t used_bytes = memory->used_bytes;
    bool fits = size_bytes <= memory->capacity_bytes && used_bytes <= memory->capacity_bytes - size_bytes;
    memory->used_bytes += fits ? size_bytes : 0;
    dao_mutex_unlock(&memory->lock);
    return fits ? DAO_OK
                : dao_error(DAO_ERR_NO_DEVICE_MEMORY,
                            "virtual device %" PRId32 ": %zu bytes asked for, %" PRIu64 " of %" PRIu64
                            " in use",
                            memory->device_index, size_bytes, used_bytes, memory->capacity_bytes);
}

void dao_virtual_memory_give(dao_virtual_memory_t *memory, size_t size_bytes)
{
    dao_mutex_lock(&memory->lock);
    DAO_ASSERT(memory->used_bytes >= size_bytes);
    memory->used_bytes -= size_bytes;
    DAO_ASSERT_HEAVY(is_valid(memory));
    dao_mutex_unlock(&memory->lock);
}

uint64_t dao_virtual_memory_free_bytes(dao_virtual_memory_t *memory)
{
    dao_mutex_lock(&memory->lock);
    uint64_t free_bytes = memory->capacity_bytes - memory->used_bytes;
    dao_mutex_unlock(&memory->lock);
    return free_bytes;
}

/* ---- blocks ---- */

/* Takes addresses from the system, and enters them into a list. */
static dao_status_t map_block(dao_virtual_memory_t *memory, dao_virtual_block_t **list, size_t size_bytes,
                              void **out_address)
{
    dao_virtual_block_t *block = dao_host_calloc(1, sizeof(*block));
    void *address = NULL;
    if (block != NULL) {
        address = memory->has_no_bytes ? dao_host_reserve(size_bytes, memory->alignment_bytes)
                                       : dao_host_map(size_bytes, memory->alignment_bytes);
    }
    if (address == NULL) {
        dao_host_free(block);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "the system refused %zu bytes for virtual device %" PRId32,
                         size_bytes, memory->device_index);
    }
    dao_mutex_lock(&memory->lock);
    *block = (dao_virtual_block_t){*list, address, size_bytes};
    *list = block;
    DAO_ASSERT_HEAVY(is_valid(memory));
    dao_mutex_unlock(&memory->lock);
    *out_address = address;
    return DAO_OK;
}

static dao_status_t unmap_block(dao_virtual_memory_t *memory, dao_virtual_block_t **list, void *address,
                                size_t size_bytes)
{
    dao_mutex_lock(&memory->lock);
    dao_virtual_block_t **link = list;
    while (*link != NULL && ((*link)->address != address || (*link)->size_bytes != size_bytes)) {
        link = &(*link)->next;
    }
    dao_virtual_block_t *block = *link;
    if (block != NULL) {
        *link = block->next;
    }
    dao_mutex_unlock(&memory->lock);
    if (block == NULL) {
        return dao_error(DAO_ERR_FOREIGN_POINTER,
                         "virtual device %" PRId32 " has no memory of %zu bytes at %p", memory->device_index,
                         size_bytes, address);
    }
    dao_host_unmap(address, size_bytes);
    dao_host_free(block);
    return DAO_OK;
}

dao_status_t dao_virtual_memory_alloc(dao_virtual_memory_t *memory, size_t size_bytes, void **out_address)
{
    dao_status_t status = dao_virtual_memory_take(memory, size_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = map_block(memory, &memory->device_blocks, size_bytes, out_address);
    if (status != DAO_OK) {
        dao_virtual_memory_give(memory, size_bytes);
    }
    return status;
}

dao_status_t dao_virtual_memory_free(dao_virtual_memory_t *memory, void *address, size_t size_bytes)
{
    dao_status_t status = unmap_block(memory, &memory->device_blocks, address, size_bytes);
    if (status == DAO_OK) {
        dao_virtual_memory_give(memory, size_bytes);
    }
    return status;
}

dao_status_t dao_virtual_memory_alloc_pinned(dao_virtual_memory_t *memory, size_t size_bytes,
                                             void **out_address)
{
    return map_block(memory, &memory->pinned_blocks, size_bytes, out_address);
}

dao_status_t dao_virtual_memory_free_pinned(dao_virtual_memory_t *memory, void *address, size_t size_bytes)
{
    return unmap_block(memory, &memory->pinned_blocks, address, size_bytes);
}
