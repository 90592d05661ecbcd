/* SPDX-License-Identifier: Apache-2.0 */
/* What stands beside the tables of allocators: which groups one in front of another can offer, who goes on
   where the shortest ways end, and who calls them off. */
#include "allocators/allocator.h"

#include "allocators/slow_path.h"

_Atomic uint32_t dao_slow_path_count;

void dao_allocator_ops_limit(dao_allocator_ops_t *outer, const dao_allocator_ops_t *inner)
{
    if (inner->stream_mark == NULL) {
        outer->stream_mark = NULL;
    }
    if (inner->free_deferred == NULL) {
        outer->free_deferred = NULL;
        outer->drain = NULL;
    }
    if (inner->lease_begin == NULL) {
        outer->lease_begin = NULL;
        outer->lease_end = NULL;
        outer->lease_stats = NULL;
    }
    if (inner->window_begin == NULL) {
        outer->window_begin = NULL;
        outer->alloc_at = NULL;
    }
}

static void *outer_alloc_fallback(void *user, size_t size_bytes)
{
    return dao_allocator_alloc_fallback(user, size_bytes);
}

static dao_status_t outer_free_fallback(void *user, void *address)
{
    return dao_allocator_free_fallback(user, address);
}

void dao_allocator_stand_before(dao_allocator_t *outer, dao_allocator_t *inner)
{
    inner->fallback =
        (dao_fallback_t){.alloc = outer_alloc_fallback, .free = outer_free_fallback, .user = outer};
}
