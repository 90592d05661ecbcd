/* SPDX-License-Identifier: Apache-2.0 */
/* What layers do alike with the allocator behind them. */
#ifndef DAO_ALLOCATORS_INNER_H
#define DAO_ALLOCATORS_INNER_H

#include "allocators/allocator.h"

/* Returns the bytes that an allocator has taken from the system. */
static inline uint64_t dao_inner_reserved_bytes(dao_allocator_t *inner)
{
    dao_stats_t stats;
    inner->ops->stats_get(inner, &stats);
    return stats.reserved_bytes;
}

/* Trims an allocator that had `before_bytes` of the system before its layer freed what it kept back. What
   went to the system with that was released, too. */
static inline dao_status_t dao_inner_trim(dao_allocator_t *inner, uint64_t before_bytes, size_t keep_bytes,
                                          size_t *out_released_bytes)
{
    dao_status_t status = inner->ops->trim(inner, keep_bytes, out_released_bytes);
    uint64_t after_bytes = dao_inner_reserved_bytes(inner);
    if (before_bytes > after_bytes + *out_released_bytes) {
        *out_released_bytes = (size_t)(before_bytes - after_bytes);
    }
    return status;
}

#endif
