/* Rounding. */
#ifndef DAO_BASE_MATH_H
#define DAO_BASE_MATH_H

#include "base/assert.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool dao_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* The smallest multiple of `unit`, a power of two, that is at least `value`; the caller knows that it fits. */
static inline uint64_t dao_round_up(uint64_t value, uint64_t unit)
{
    DAO_ASSERT(dao_is_power_of_two(unit));
    DAO_ASSERT(value <= UINT64_MAX - (unit - 1));
    return (value + unit - 1) & ~(unit - 1);
}

#endif
