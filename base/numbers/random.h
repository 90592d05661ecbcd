/* SPDX-License-Identifier: Apache-2.0 */
/* The pseudorandom generator of the whole program: SplitMix64, of Steele, Lea and Flood, "Fast splittable
   pseudorandom number generators" (OOPSLA 2014). Its state is one word and any seed will do, 0 too. Equal
   seeds draw equal numbers on every machine. Not for secrets. */
#ifndef DAO_BASE_RANDOM_H
#define DAO_BASE_RANDOM_H

#include <stdint.h>

/* Returns bits that each depend on all of `bits`: the generator's last step, and a hash of one word. */
static inline uint64_t dao_random_mix(uint64_t bits)
{
    bits = (bits ^ bits >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    bits = (bits ^ bits >> 27) * UINT64_C(0x94d049bb133111eb);
    return bits ^ bits >> 31;
}

/* Returns 64 random bits. */
static inline uint64_t dao_random_next(uint64_t *state)
{
    return dao_random_mix(*state += UINT64_C(0x9e3779b97f4a7c15));
}

/* Returns a number from 0 to below 1. */
static inline double dao_random_unit(uint64_t *state)
{
    return (double)(dao_random_next(state) >> 11) * 0x1p-53;
}

/* Returns a number below `bound`, which is small against 2^64: no number is noticeably likelier. */
static inline uint64_t dao_random_below(uint64_t *state, uint64_t bound)
{
    return dao_random_next(state) % bound;
}

/* Returns a number from `least` to `most`, both included. */
static inline uint64_t dao_random_between(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + dao_random_below(state, most - least + 1);
}

#endif
