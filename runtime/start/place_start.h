/* SPDX-License-Identifier: Apache-2.0 */
/* Starting a place: from what was said about it to the allocator that keeps it so. */
#ifndef DAO_RUNTIME_PLACE_START_H
#define DAO_RUNTIME_PLACE_START_H

#include "allocators/accounting/budget.h"
#include "allocators/allocator.h"
#include "allocators/paged/host_pages.h"
#include "backends/backend.h"

#include <dao/host_memory.h>
#include <dao/place_config.h>

/* What a place's memory comes from, borrowed, which outlives its allocators. The host has no device. */
typedef struct dao_place_origin {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    bool is_poisoned; /* libdao maps it, with bytes: those of freed blocks are poison for AddressSanitizer */
    bool has_pool;    /* the device's memory comes from a pool of the driver's, which has no pages */
    dao_stream_fences_t *fences;                   /* of the device's streams; NULL: no stream order */
    dao_budget_t *budget;                          /* of all host memory; NULL for a device */
    const dao_host_memory_config_t *host_settings; /* NULL for a device */
    dao_host_pages_t *host_pages;            /* the host's, where it is kept in pages; NULL for a device */
    const dao_step_plan_config_t *step_plan; /* where a config says nothing of it */
} dao_place_origin_t;

/* Makes the allocator of a place. The config is valid and names its strategy; the origin outlives the
   allocator. What the allocators' own functions answer. */
DAO_NODISCARD dao_status_t dao_place_start(dao_place_t place, const dao_place_config_t *config,
                                           dao_place_origin_t *origin, dao_allocator_t **out_allocator);

#endif
