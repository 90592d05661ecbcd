/* SPDX-License-Identifier: Apache-2.0 */
/* Allocators that stand in front of another one: what their table leaves out, the one behind them does. */
#ifndef DAO_ALLOCATORS_FRONT_H
#define DAO_ALLOCATORS_FRONT_H

#include "allocators/allocator.h"

#include <stddef.h>

/* How each such allocator begins. */
typedef struct dao_front {
    dao_allocator_t base;
    dao_allocator_t *inner; /* owned */
} dao_front_t;

#define DAO_FRONT_ASSERT(type)                                                                               \
    static_assert(offsetof(type, inner) == offsetof(dao_front_t, inner), "it begins as dao_front_t does")

/* Makes a table of what the front does itself: other members go to the inner allocator, and what that cannot
   do is not offered. alloc, alloc_fast, free, free_owned, is_valid and destroy are the front's own. The front
   gets the table and the inner allocator's ledger; the fast paths of that one end where those of the front
   do. */
void dao_front_init(dao_front_t *front, dao_allocator_t *inner, dao_allocator_ops_t *ops);

#endif
