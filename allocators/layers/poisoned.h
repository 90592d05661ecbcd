/* SPDX-License-Identifier: Apache-2.0 */
/* In builds with AddressSanitizer, an allocator in front of a place's own that poisons the bytes of freed
   blocks: who touches them is reported. Elsewhere there is no such layer. */
#ifndef DAO_ALLOCATORS_POISONED_H
#define DAO_ALLOCATORS_POISONED_H

#include "allocators/allocator.h"

#if defined(DAO_POISONS)
/* Takes over `inner`, of whatever memory. On failure it stays the caller's. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_poisoned_create(dao_allocator_t *inner, dao_allocator_t **out_allocator);

/* Returns the allocator behind such a layer, borrowed, or the allocator itself. */
dao_allocator_t *dao_poisoned_behind(dao_allocator_t *allocator);
#else
DAO_NODISCARD static inline dao_status_t dao_poisoned_create(dao_allocator_t *inner,
                                                             dao_allocator_t **out_allocator)
{
    *out_allocator = inner;
    return DAO_OK;
}

static inline dao_allocator_t *dao_poisoned_behind(dao_allocator_t *allocator)
{
    return allocator;
}
#endif

#endif
