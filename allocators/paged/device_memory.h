/* SPDX-License-Identifier: Apache-2.0 */
/* Device memory: pages (or segments, without virtual memory) from the backend, blocks from the range
   allocator, freed blocks kept for the next request. */
#ifndef DAO_ALLOCATORS_DEVICE_MEMORY_H
#define DAO_ALLOCATORS_DEVICE_MEMORY_H

#include "allocators/accounting/budget.h"
#include "allocators/allocator.h"
#include "allocators/range/range.h"
#include "backends/backend.h"

typedef struct dao_device_memory_config {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device; /* borrowed; outlives the allocator */
    const char *name;             /* the place, for messages; copied */
    dao_stream_fences_t *fences;  /* of the device's streams; borrowed; NULL: no stream order */
    dao_range_fit_t fit;          /* how a hole is chosen */
    size_t segment_bytes; /* smallest segment without page mapping; 0: DAO_DEVICE_MEMORY_SEGMENT_BYTES */
    size_t initial_bytes; /* taken at once, as one segment or run of pages */
    size_t limit_bytes;   /* as for limit_set */
    bool no_page_mapping; /* segments, although the device has pages */
    size_t page_bytes;    /* smallest pages; a power of two; 0: DAO_PAGE_BYTES */
    dao_budget_t *budget; /* with pages: what the backend takes them from, itself; borrowed; NULL: none */
    dao_status_t
        full_status; /* with pages: what is answered where there is none left; 0: DAO_ERR_NO_DEVICE_MEMORY */
} dao_device_memory_config_t;

/* Smallest segment that is taken without page mapping, if the config does not say. */
#define DAO_DEVICE_MEMORY_SEGMENT_BYTES ((size_t)20 << 20)

/* DAO_ERR_NO_HOST_MEMORY; the backend's answer; for initial_bytes what alloc of as many bytes would
   answer. */
DAO_NODISCARD dao_status_t dao_device_memory_create(const dao_device_memory_config_t *config,
                                                    dao_allocator_t **out_allocator);

#endif
