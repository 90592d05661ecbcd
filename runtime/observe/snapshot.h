/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of an allocator that was found. */
#ifndef DAO_RUNTIME_SNAPSHOT_H
#define DAO_RUNTIME_SNAPSHOT_H

#include "allocators/allocator.h"

#include <dao/observe.h>

/* dao_snapshot_create(), without a look at frees that wait; allocator NULL: an empty one. */
DAO_NODISCARD dao_status_t dao_snapshot_take(dao_place_t place, dao_allocator_t *allocator,
                                             dao_snapshot_t **out_snapshot);

#endif
