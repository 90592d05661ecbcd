/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory in pages that can be moved, as a device has them: paged.c over the system's calls. A host place
   that is served from plans keeps its memory so, as what is idle in a plan's window is then there for
   everybody. */
#ifndef DAO_ALLOCATORS_HOST_PAGES_H
#define DAO_ALLOCATORS_HOST_PAGES_H

#include "allocators/accounting/budget.h"
#include "allocators/allocator.h"
#include "allocators/range/range.h"

#include <dao/host_memory.h>

/* Where the pages come from; outlives the allocator. */
typedef struct dao_host_pages {
    const dao_host_memory_config_t *settings; /* of the pages; borrowed */
    dao_budget_t *budget;                     /* of all host memory; borrowed; NULL: none */
    size_t page_bytes;                        /* set by create() */
    int numa_error; /* with which the system refuses to choose the node, as create() finds out; else 0 */
} dao_host_pages_t;

typedef struct dao_host_pages_config {
    dao_host_pages_t *pages; /* borrowed */
    const char *name;        /* the place, for messages; copied */
    dao_range_fit_t fit;     /* how a hole is chosen */
    size_t initial_bytes;    /* taken at once */
    size_t limit_bytes;      /* as for limit_set */
    size_t page_bytes;       /* a power of two; 0: DAO_PAGE_BYTES */
} dao_host_pages_config_t;

/* Returns true if memory by such settings can be moved: not the huge pages that an administrator has set
   apart. */
bool dao_host_pages_suit(const dao_host_memory_config_t *settings);

/* DAO_ERR_NO_HOST_MEMORY; for initial_bytes what alloc of as many bytes would answer. */
DAO_NODISCARD dao_status_t dao_host_pages_create(const dao_host_pages_config_t *config,
                                                 dao_allocator_t **out_allocator);

/* Logs what the system refuses of the settings, if it does. The allocator itself never does: pages are taken
   under its lock. */
void dao_host_pages_warn(const dao_host_pages_t *pages);

#endif
