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
    uint32_t run_count; /* of aliases */
};

void dao_virtual_memory_init(dao_virtual_memory_t *memory)
{
    memory->used_bytes = 0;
    memory->device_blocks = NULL;
    memory->pinned_blocks = NULL;
    memory->alias_blocks = NULL;
    memory->alias_run_count = 0;
    dao_mutex_init(&memory->lock, DAO_RANK_BACKEND);
}

void dao_virtual_memory_finish(dao_virtual_memory_t *memory)
{
    DAO_ASSERT(memory->device_blocks == NULL && memory->pinned_blocks == NULL);
    DAO_ASSERT(memory->alias_blocks == NULL && memory->alias_run_count == 0);
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
    uint64_t run_count = 0;
    for (const dao_virtual_block_t *block = memory->alias_blocks; block != NULL; block = block->next) {
        run_count += block->run_count;
    }
    return block_bytes <= memory->used_bytes && memory->used_bytes <= memory->capacity_bytes &&
           run_count <= memory->alias_run_count && memory->alias_run_count <= DAO_VIRTUAL_ALIAS_RUN_MAX;
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
    *block = (dao_virtual_block_t){.next = *list, .address = address, .size_bytes = size_bytes};
    *list = block;
    DAO_ASSERT_HEAVY(is_valid(memory));
    dao_mutex_unlock(&memory->lock);
    *out_address = address;
    return DAO_OK;
}

/* Gives the bytes of a block from keep_bytes on back; with 0, the block leaves its list. */
static dao_status_t unmap_block(dao_virtual_memory_t *memory, dao_virtual_block_t **list, void *address,
                                size_t size_bytes, size_t keep_bytes)
{
    dao_mutex_lock(&memory->lock);
    dao_virtual_block_t **link = list;
    while (*link != NULL && ((*link)->address != address || (*link)->size_bytes != size_bytes)) {
        link = &(*link)->next;
    }
    dao_virtual_block_t *block = *link;
    if (block != NULL && keep_bytes > 0) {
        block->size_bytes = keep_bytes;
    } else if (block != NULL) {
        *link = block->next;
        memory->alias_run_count -= block->run_count;
    }
    dao_mutex_unlock(&memory->lock);
    if (block == NULL) {
        return dao_error(DAO_ERR_FOREIGN_POINTER,
                         "virtual device %" PRId32 " has no memory of %zu bytes at %p", memory->device_index,
                         size_bytes, address);
    }
    dao_host_unmap((char *)address + keep_bytes, size_bytes - keep_bytes);
    if (keep_bytes == 0) {
        dao_host_free(block);
    }
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
    dao_status_t status = unmap_block(memory, &memory->device_blocks, address, size_bytes, 0);
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
    return unmap_block(memory, &memory->pinned_blocks, address, size_bytes, 0);
}

/* ---- pages at several addresses ---- */

dao_status_t dao_virtual_memory_alias_prepare(dao_virtual_memory_t *memory, void *base, size_t size_bytes,
                                              size_t *out_page_bytes)
{
    size_t whole_bytes = size_bytes - size_bytes % DAO_VIRTUAL_ALIAS_PAGE_BYTES;
    if ((uintptr_t)base % memory->alignment_bytes != 0 || whole_bytes == 0) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "virtual device %" PRId32 ": %zu bytes at %p have no whole page of %zu bytes",
                         memory->device_index, size_bytes, base, DAO_VIRTUAL_ALIAS_PAGE_BYTES);
    }
    if (!memory->has_no_bytes && !dao_host_has_aliases()) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "virtual device %" PRId32 ": this system maps no shared memory twice",
                         memory->device_index);
    }
    if (!memory->has_no_bytes && !dao_host_share(base, whole_bytes)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused %zu bytes of shared memory for virtual device %" PRId32,
                         size_bytes, memory->device_index);
    }
    *out_page_bytes = DAO_VIRTUAL_ALIAS_PAGE_BYTES;
    return DAO_OK;
}

/* Pages from `first` on that are neighbours. */
static size_t run_length(const uint32_t *pages, size_t page_count, size_t first)
{
    size_t count = 1;
    while (first + count < page_count && pages[first + count] == pages[first] + count) {
        count++;
    }
    return count;
}

static uint32_t count_runs(const uint32_t *pages, size_t page_count)
{
    uint32_t count = 0;
    for (size_t first = 0; first < page_count; first += run_length(pages, page_count, first)) {
        count++;
    }
    return count;
}

static bool map_aliases(char *base, size_t page_bytes, const uint32_t *pages, size_t page_count,
                        char *address)
{
    bool is_mapped = true;
    for (size_t first = 0; is_mapped && first < page_count; first += run_length(pages, page_count, first)) {
        is_mapped = dao_host_alias(base + pages[first] * page_bytes, address + first * page_bytes,
                                   run_length(pages, page_count, first) * page_bytes);
    }
    return is_mapped;
}

/* Counts runs against their limit. */
static bool take_runs(dao_virtual_memory_t *memory, uint32_t run_count)
{
    dao_mutex_lock(&memory->lock);
    bool fits = run_count <= DAO_VIRTUAL_ALIAS_RUN_MAX - memory->alias_run_count;
    memory->alias_run_count += fits ? run_count : 0;
    dao_mutex_unlock(&memory->lock);
    return fits;
}

dao_status_t dao_virtual_memory_alias_map(dao_virtual_memory_t *memory, void *base, size_t page_bytes,
                                          const uint32_t *pages, size_t page_count, void **out_address)
{
    /* without bytes the system maps nothing */
    uint32_t run_count = memory->has_no_bytes ? 0 : count_runs(pages, page_count);
    size_t size_bytes = page_count * page_bytes;
    if (!take_runs(memory, run_count)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "virtual device %" PRId32 ": %" PRIu32
                         " more runs of pages at further addresses; the "
                         "most are %u",
                         memory->device_index, run_count, DAO_VIRTUAL_ALIAS_RUN_MAX);
    }
    dao_virtual_block_t *block = dao_host_calloc(1, sizeof(*block));
    char *address = block != NULL ? dao_host_reserve(size_bytes, page_bytes) : NULL;
    if (address == NULL ||
        (!memory->has_no_bytes && !map_aliases(base, page_bytes, pages, page_count, address))) {
        if (address != NULL) {
            dao_host_unmap(address, size_bytes);
        }
        dao_host_free(block);
        dao_mutex_lock(&memory->lock);
        memory->alias_run_count -= run_count;
        dao_mutex_unlock(&memory->lock);
        return dao_error(DAO_ERR_NO_HOST_MEMORY,
                         "the system refused to map %zu pages once more for virtual device %" PRId32,
                         page_count, memory->device_index);
    }
    dao_mutex_lock(&memory->lock);
    *block = (dao_virtual_block_t){memory->alias_blocks, address, size_bytes, run_count};
    memory->alias_blocks = block;
    DAO_ASSERT_HEAVY(is_valid(memory));
    dao_mutex_unlock(&memory->lock);
    *out_address = address;
    return DAO_OK;
}

dao_status_t dao_virtual_memory_alias_unmap(dao_virtual_memory_t *memory, void *address, size_t page_bytes,
                                            size_t page_count, size_t keep_count)
{
    DAO_ASSERT(keep_count < page_count);
    return unmap_block(memory, &memory->alias_blocks, address, page_count * page_bytes,
                       keep_count * page_bytes);
}
