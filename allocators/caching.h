/* Device memory: pages (or segments, without virtual memory) from the backend, blocks from the range allocator, freed
   blocks kept for the next request. */
#ifndef DAO_ALLOCATORS_CACHING_H
#define DAO_ALLOCATORS_CACHING_H

#include "allocators/allocator.h"
#include "backends/backend.h"

/* `name` is the place, for messages; copied. The device is borrowed and outlives the allocator. */
DAO_NODISCARD dao_status_t dao_caching_create(const dao_backend_ops_t *ops, dao_backend_device_t *device,
                                              const char *name, dao_allocator_t **out_allocator);

#endif
