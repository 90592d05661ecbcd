/* Ordinary host memory: malloc up to 32 KiB, the range allocator over cached regions above. */
#ifndef DAO_ALLOCATORS_HOST_H
#define DAO_ALLOCATORS_HOST_H

#include "allocators/allocator.h"

/* Requests up to this many bytes go to malloc. */
#define DAO_HOST_SMALL_BYTES (UINT64_C(32) << 10)

/* Smallest region that is taken from the system. */
#define DAO_HOST_REGION_BYTES (UINT64_C(64) << 20)

/* DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_host_allocator_create(const char *name, dao_allocator_t **out_allocator);

#endif
