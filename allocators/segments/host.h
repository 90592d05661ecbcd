/* SPDX-License-Identifier: Apache-2.0 */
/* Ordinary host memory: the range allocator over cached regions. */
#ifndef DAO_ALLOCATORS_HOST_H
#define DAO_ALLOCATORS_HOST_H

#include "allocators/accounting/budget.h"
#include "allocators/allocator.h"
#include "allocators/range/range.h"

#include <dao/host_memory.h>

/* Smallest region that is taken from the system, if the config does not say. */
#define DAO_HOST_REGION_BYTES ((size_t)64 << 20)

/* The first one: a program that needs little takes little. */
#define DAO_HOST_FIRST_BYTES ((size_t)4 << 20)

typedef struct dao_host_config {
    const char *name;                  /* the place, for messages; copied */
    dao_host_memory_config_t settings; /* of the regions */
    dao_budget_t *budget;              /* of all host memory; borrowed; NULL: none */
    dao_range_fit_t fit;               /* how a hole is chosen */
    size_t segment_bytes;              /* smallest region; 0: DAO_HOST_REGION_BYTES */
    size_t initial_bytes;              /* taken at once, as one region */
    size_t limit_bytes;                /* as for limit_set */
} dao_host_config_t;

/* DAO_ERR_NO_HOST_MEMORY; DAO_ERR_LIMIT if initial_bytes are more. */
DAO_NODISCARD dao_status_t dao_host_allocator_create(const dao_host_config_t *config,
                                                     dao_allocator_t **out_allocator);

#endif
