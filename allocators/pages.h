/* Physical pages behind one reservation of addresses: which page is mapped where, growing, moving free pages to where they
   are needed, giving them back. Which addresses are free is asked of the range that places the blocks.
   Not thread-safe: the owner locks. Memory is never touched. */
#ifndef DAO_ALLOCATORS_PAGES_H
#define DAO_ALLOCATORS_PAGES_H

#include "allocators/range.h"
#include "backends/backend.h"

typedef struct dao_pages dao_pages_t;

typedef struct dao_pages_config {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device; /* borrowed */
    uint64_t page_bytes;          /* a multiple of the device's page_bytes */
    uint32_t page_count;          /* pages of the device */
    uint32_t place_count;         /* pages of addresses to reserve, at least page_count */
} dao_pages_config_t;

/* Reserves the addresses. DAO_ERR_NO_HOST_MEMORY, or the backend's answer. */
DAO_NODISCARD dao_status_t dao_pages_create(const dao_pages_config_t *config, dao_pages_t **out_pages);

/* Unmaps and gives back everything; NULL is allowed. */
void dao_pages_destroy(dao_pages_t *pages);

/* The first address of the reservation. */
void *dao_pages_address(const dao_pages_t *pages);

/* Number of pages taken from the backend. */
uint32_t dao_pages_count(const dao_pages_t *pages);

/* Number of pages behind [offset, offset + size) that are not mapped. */
uint32_t dao_pages_missing(const dao_pages_t *pages, uint64_t offset_bytes, uint64_t size_bytes);

/* Finds the first stretch of mapped pages in [offset, end); false if there is none. Ends are cut at `offset` and `end`. */
bool dao_pages_next_mapped(const dao_pages_t *pages, uint64_t *offset_bytes, uint64_t *end_bytes);

/* Maps what is missing behind [offset, offset + size), which `range` has as used: pages that stand idle, whole free pages
   from elsewhere (highest address first), at most new_page_max new ones. Adds the pages that were moved to *remap_count.
   DAO_ERR_LIMIT if new_page_max is in the way, DAO_ERR_NO_DEVICE_MEMORY, or the backend's answer; then the pages are as
   they were, as far as the backend lets them be put back. */
dao_status_t dao_pages_back(dao_pages_t *pages, const dao_range_t *range, uint64_t offset_bytes,
                            uint64_t size_bytes, uint32_t new_page_max, uint64_t *remap_count);

/* Number of pages that nothing lives in, counted up to `at_most`. */
uint32_t dao_pages_free_count(const dao_pages_t *pages, const dao_range_t *range, uint32_t at_most);

/* Gives back up to page_count pages that nothing lives in, highest address first. The backend's answer if it refuses one:
   those before it are given back. */
dao_status_t dao_pages_release(dao_pages_t *pages, const dao_range_t *range, uint32_t page_count);

/* Bytes of the longest free stretch that is mapped throughout. */
uint64_t dao_pages_largest_hole(const dao_pages_t *pages, const dao_range_t *range);

/* Walks everything; every used block is mapped. */
bool dao_pages_is_valid(const dao_pages_t *pages, const dao_range_t *range);

#endif
