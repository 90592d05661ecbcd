/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of values of one size, in host memory that is used around and doubles when it is full.

       values   [ 5 | 6 |   |   | 3 | 4 ]     first_index = 4, count = 4: the oldest is 3

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

/* An empty ring, without memory; never fails. */
void dao_ring_init(dao_ring_t *ring, size_t value_bytes);
void dao_ring_finish(dao_ring_t *ring);

/* Copies a value behind the others. False, and nothing changed, without host memory. */
bool dao_ring_push(dao_ring_t *ring, const void *value);

/* Gives the value that has so many older ones, less than count. It is there until the next push. */
static inline void *dao_ring_at(const dao_ring_t *ring, size_t index)
{
    DAO_ASSERT(index < ring->count);
    return ring->values + ((ring->first_index + index) & (ring->capacity - 1)) * ring->value_bytes;
}

/* Takes the oldest off; there is one. Its bytes are there until the next push. */
static inline void dao_ring_pop(dao_ring_t *ring)
{
    DAO_ASSERT(ring->count > 0);
    ring->first_index = (ring->first_index + 1) & (ring->capacity - 1);
    ring->count--;
}

bool dao_ring_is_valid(const dao_ring_t *ring);

#endif
