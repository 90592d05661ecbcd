/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding, comparing, and time of a transfer. */
#ifndef DAO_BASE_MATH_H
#define DAO_BASE_MATH_H

#include "base/report/assert.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool dao_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* The smallest multiple of `unit`, a power of two, that is at least `value`; the caller knows that it fits.
   */
static inline uint64_t dao_round_up(uint64_t value, uint64_t unit)
{
    DAO_ASSERT(dao_is_power_of_two(unit));
    DAO_ASSERT(value <= UINT64_MAX - (unit - 1));
    return (value + unit - 1) & ~(unit - 1);
}

/* The least whole number that is no less than `value`, which is above -1 and below 2^64. As ceil(), without
   libm. */
static inline uint64_t dao_ceil(double value)
{
    uint64_t whole = (uint64_t)value;
    return whole + ((double)whole < value ? 1 : 0);
}

/* The larger one of two, the later one of two times; and the smaller one. */
static inline uint64_t dao_larger(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

/* The sum, or UINT64_MAX if it is larger than that. */
static inline uint64_t dao_add_capped(uint64_t left, uint64_t right)
{
    return right > UINT64_MAX - left ? UINT64_MAX : left + right;
}

static inline uint64_t dao_smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

#define DAO_NS_PER_S UINT64_C(1000000000)

/* Time to move bytes at a speed, which is at least 1, in ns, rounded up; UINT64_MAX if it is longer. */
static inline uint64_t dao_transfer_ns(uint64_t size_bytes, uint64_t bytes_per_second)
{
    __extension__ typedef unsigned __int128 wide_t;
    DAO_ASSERT(bytes_per_second > 0);
    if (size_bytes <=
        (UINT64_MAX - bytes_per_second) / DAO_NS_PER_S) { /* nearly always, and the quicker division */
        return (size_bytes * DAO_NS_PER_S + bytes_per_second - 1) / bytes_per_second;
    }
    wide_t ns = ((wide_t)size_bytes * DAO_NS_PER_S + bytes_per_second - 1) / bytes_per_second;
    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

#endif
