/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ring.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"

#include <string.h>

/* Values of the first allocation; a ring doubles from there. */
#define CAPACITY_AT_FIRST 64

void dao_ring_init(dao_ring_t *ring, size_t value_bytes)
{
    *ring = (dao_ring_t){.value_bytes = value_bytes};
}

void dao_ring_finish(dao_ring_t *ring)
{
    dao_host_free(ring->values);
    ring->values = NULL;
    ring->capacity = ring->count = 0;
}

/* Doubles the memory and moves all values there, the oldest to its start. */
static bool grow(dao_ring_t *ring)
{
    size_t capacity = ring->capacity == 0 ? CAPACITY_AT_FIRST : 2 * ring->capacity;
    char *values = dao_host_calloc(capacity, ring->value_bytes);
    if (values == NULL) {
        return false;
    }
    for (size_t i = 0; i < ring->count; i++) {
        memcpy(values + i * ring->value_bytes, dao_ring_at(ring, i), ring->value_bytes);
    }
    dao_host_free(ring->values);
    ring->values = values;
    ring->capacity = capacity;
    ring->first_index = 0;
    return true;
}

bool dao_ring_push(dao_ring_t *ring, const void *value)
{
    if (ring->count == ring->capacity && !grow(ring)) {
        return false;
    }
    ring->count++;
    memcpy(dao_ring_at(ring, ring->count - 1), value, ring->value_bytes);
    DAO_ASSERT_HEAVY(dao_ring_is_valid(ring));
    return true;
}

bool dao_ring_is_valid(const dao_ring_t *ring)
{
    return ring->count <= ring->capacity && (ring->capacity == 0) == (ring->values == NULL) &&
           (ring->capacity == 0 ||
            (dao_is_power_of_two(ring->capacity) && ring->first_index < ring->capacity));
}
