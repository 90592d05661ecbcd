/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of values of one size: a ring buffer in host memory that doubles when it is full.

       values   [ 5 | 6 |   |   |   |   | 3 | 4 ]     capacity 8, first_index 6, count 4: the oldest is 3

   Invariants: count <= capacity; capacity is 0 or a power of two; first_index < capacity.
   Not thread-safe: the owner locks. */
#ifndef DAO_BASE_RING_H
#define DAO_BASE_RING_H

#include "base/report/assert.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct dao_ring {
    char *values;
    size_t value_bytes;
    size_t capacity;    /* in values: 0, or a power of two */
    size_t first_index; /* of the oldest */
    size_t count;
} dao_ring_t;

/* Makes an empty ring without memory. Never fails. */
void dao_ring_init(dao_ring_t *ring, size_t value_bytes);
void dao_ring_finish(dao_ring_t *ring);

/* Appends a copy of a value. Returns false, with nothing changed, if there is no host memory. */
bool dao_ring_push(dao_ring_t *ring, const void *value);

/* Returns the value at `index` (0: the oldest), below count. Valid until the next push. */
static inline void *dao_ring_at(const dao_ring_t *ring, size_t index)
{
    DAO_ASSERT(index < ring->count);
    return ring->values + ((ring->first_index + index) & (ring->capacity - 1)) * ring->value_bytes;
}

/* Removes the oldest value of a ring that is not empty. Its bytes stay until the next push. */
static inline void dao_ring_pop(dao_ring_t *ring)
{
    DAO_ASSERT(ring->count > 0);
    ring->first_index = (ring->first_index + 1) & (ring->capacity - 1);
    ring->count--;
}

bool dao_ring_is_valid(const dao_ring_t *ring);

#endif
