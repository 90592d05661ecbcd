/* SPDX-License-Identifier: Apache-2.0 */
/* Rounding, comparing, sums that saturate, and the time of a transfer. */
#ifndef DAO_BASE_MATH_H
#define DAO_BASE_MATH_H

#include "base/report/assert.h"

#include <stdbool.h>
#include <stdint.h>

static inline bool dao_is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

/* Returns the smallest multiple of `unit`, a power of two, that is at least `value`. It must fit 64 bits. */
static inline uint64_t dao_round_up(uint64_t value, uint64_t unit)
{
    DAO_ASSERT(dao_is_power_of_two(unit));
    DAO_ASSERT(value <= UINT64_MAX - (unit - 1));
    return (value + (unit - 1)) & ~(unit - 1);
}

/* Returns ceil(value) for -1 < value < 2^64, without libm. */
static inline uint64_t dao_ceil(double value)
{
    uint64_t whole = (uint64_t)value;
    return whole + ((double)whole < value ? 1 : 0);
}

static inline uint64_t dao_larger(uint64_t left, uint64_t right)
{
    return left > right ? left : right;
}

/* Returns the sum, or UINT64_MAX if it does not fit. */
static inline uint64_t dao_add_capped(uint64_t left, uint64_t right)
{
    return right > UINT64_MAX - left ? UINT64_MAX : left + right;
}

static inline uint64_t dao_smaller(uint64_t left, uint64_t right)
{
    return left < right ? left : right;
}

/* Returns value - n * unit for the whole n that puts it into [0, unit): a time of a period, say, also one
   before its start. */
static inline uint64_t dao_modulo(int64_t value, uint64_t unit)
{
    DAO_ASSERT(unit > 0);
    DAO_ASSERT(unit <= INT64_MAX);
    int64_t rest = value % (int64_t)unit;
    return (uint64_t)(rest < 0 ? rest + (int64_t)unit : rest);
}

#define DAO_NS_PER_S UINT64_C(1000000000)

/* Returns the ns to move bytes at a rate of at least 1, rounded up; UINT64_MAX if it does not fit. */
static inline uint64_t dao_transfer_ns(uint64_t size_bytes, uint64_t bytes_per_second)
{
    __extension__ typedef unsigned __int128 wide_t;
    DAO_ASSERT(bytes_per_second > 0);
    if (size_bytes <= (UINT64_MAX - bytes_per_second) / DAO_NS_PER_S) {
        /* The usual case, with the faster division. */
        return (size_bytes * DAO_NS_PER_S + bytes_per_second - 1) / bytes_per_second;
    }
    wide_t ns = ((wide_t)size_bytes * DAO_NS_PER_S + bytes_per_second - 1) / bytes_per_second;
    return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

#endif
