/* SPDX-License-Identifier: Apache-2.0 */
/* Physical pages behind windows of addresses: which page is mapped where, growing, moving free pages to where
   they are needed, giving them back. Which addresses of a window are free is asked of the range that places
   blocks in it. Not thread-safe: the owner locks. Memory is never touched. */
#ifndef DAO_ALLOCATORS_PAGES_H
#define DAO_ALLOCATORS_PAGES_H

#include "allocators/range/range.h"
#include "backends/backend.h"

/* Most windows. */
#define DAO_PAGES_WINDOW_MAX 17u

typedef struct dao_pages dao_pages_t;

typedef struct dao_pages_config {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device; /* borrowed */
    uint64_t page_bytes;          /* a power of two, a multiple of the device's page_bytes */
    uint32_t page_count;          /* pages of the device */
    uint32_t place_count;         /* pages of addresses of each window, at least page_count */
} dao_pages_config_t;

/* What was done, for statistics. */
typedef struct dao_pages_counts {
    uint64_t call_count;  /* calls of the backend for pages */
    uint64_t moved_count; /* pages that were moved to where they were needed */
} dao_pages_counts_t;

/* The ranges over the windows, in their order. */
typedef struct dao_pages_ranges {
    const dao_range_t *ranges[DAO_PAGES_WINDOW_MAX];
    bool stays[DAO_PAGES_WINDOW_MAX]; /* the window's pages stay where they are, free or not */
    uint32_t count;
} dao_pages_ranges_t;

/* Without a window. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_pages_create(const dao_pages_config_t *config, dao_pages_t **out_pages);

/* Unmaps and gives back everything; NULL is allowed. */
void dao_pages_destroy(dao_pages_t *pages);

/* Reserves the addresses of one more window; windows are numbered from 0. DAO_ERR_LIMIT;
   DAO_ERR_NO_HOST_MEMORY; the backend's answer. */
DAO_NODISCARD dao_status_t dao_pages_window_add(dao_pages_t *pages, uint32_t *out_window);

/* Takes the latest window back, in which nothing was mapped. */
void dao_pages_window_drop(dao_pages_t *pages);

/* The first address of a window. */
void *dao_pages_address(const dao_pages_t *pages, uint32_t window);

/* A bit a page of addresses of a window: mapped. Stays where it is. */
const uint64_t *dao_pages_mapped(const dao_pages_t *pages, uint32_t window);

/* Number of pages of addresses from the start of a window on that are all mapped. */
uint32_t dao_pages_mapped_floor(const dao_pages_t *pages, uint32_t window);

/* Number of pages that are mapped in a window. */
uint32_t dao_pages_mapped_count(const dao_pages_t *pages, uint32_t window);

/* Number of pages taken from the backend. */
uint32_t dao_pages_count(const dao_pages_t *pages);

dao_pages_counts_t dao_pages_counts(const dao_pages_t *pages);

/* Number of pages behind [offset, offset + size) of a window that are not mapped. */
uint32_t dao_pages_missing(const dao_pages_t *pages, uint32_t window, uint64_t offset_bytes,
                           uint64_t size_bytes);

/* Maps what is missing behind [offset, offset + size) of a window, which its range has as used: pages that
   stand idle, then at most new_page_max new ones, then whole free pages from elsewhere (highest address
   first). DAO_ERR_LIMIT if new_page_max is in the way, DAO_ERR_NO_DEVICE_MEMORY, or the
   backend's answer; then the pages are as they were, as far as the backend lets them be put back. */
dao_status_t dao_pages_back(dao_pages_t *pages, const dao_pages_ranges_t *ranges, uint32_t window,
                            uint64_t offset_bytes, uint64_t size_bytes, uint32_t new_page_max);

/* Number of new pages that can be had, at most new_page_max. */
uint32_t dao_pages_growable(const dao_pages_t *pages, uint32_t new_page_max);

/* Bytes of memory that nothing lives in and that streams may still use. A fenced part may have addresses
   without memory as well. O(holes); O(1) without fences. */
uint64_t dao_pages_fenced_bytes(const dao_pages_t *pages, const dao_pages_ranges_t *ranges);

/* Number of pages that nothing lives in and that are not fenced, without those that stay. */
uint32_t dao_pages_free_count(dao_pages_t *pages, const dao_pages_ranges_t *ranges);

/* Releases up to page_count such pages, highest address first. The backend's answer if it refuses one:
   those before it are given back. */
dao_status_t dao_pages_release(dao_pages_t *pages, const dao_pages_ranges_t *ranges, uint32_t page_count);

/* Bytes of the longest free stretch of a window that is mapped throughout, or, where more than
   DAO_RANGE_LOOKS_MAX are about as long, of one that is less than a fifth shorter. */
uint64_t dao_pages_largest_hole(const dao_pages_t *pages, uint32_t window, const dao_range_t *range);

/* Walks everything; every used block is mapped. */
bool dao_pages_is_valid(const dao_pages_t *pages, const dao_pages_ranges_t *ranges);

/* Tells from a window's bits whether the pages `first` to `last` are mapped. */
static inline bool dao_pages_are_mapped(const uint64_t *mapped, uint64_t first, uint64_t last)
{
    uint64_t word = first / 64;
    uint64_t missing = ~mapped[word] & UINT64_MAX << first % 64;
    while (word < last / 64) {
        if (missing != 0) {
            return false;
        }
        missing = ~mapped[++word];
    }
    return (missing & UINT64_MAX >> (63 - last % 64)) == 0;
}

#endif
