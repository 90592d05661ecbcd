/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers for what the tool makes: equal seeds give equal numbers. */
#ifndef DAO_TOOLS_RANDOM_H
#define DAO_TOOLS_RANDOM_H

#include <math.h>
#include <stdint.h>

/* splitmix64: any seed will do, 0 too. */
static inline uint64_t dao_random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* From 0 to below 1. */
static inline double dao_random_unit(uint64_t *state)
{
    return (double)(dao_random_next(state) >> 11) * 0x1p-53;
}

static inline uint64_t dao_random_below(uint64_t *state, uint64_t bound)
{
    return dao_random_next(state) % bound; /* bounds are small: no number is noticeably likelier */
}

static inline uint64_t dao_random_between(uint64_t *state, uint64_t least, uint64_t most)
{
    return least + dao_random_below(state, most - least + 1);
}

/* Every octave is as likely as every other. */
static inline uint64_t dao_random_log(uint64_t *state, uint64_t least, uint64_t most)
{
    double octaves = log2((double)most / (double)least);
    return (uint64_t)((double)least * exp2(octaves * dao_random_unit(state)));
}

/* The exponential of a normal number with that mean and deviation (Box and Muller, 1958). */
static inline double dao_random_log_normal(uint64_t *state, double mean, double deviation)
{
    double radius = sqrt(-2 * log(1 - dao_random_unit(state)));
    return exp(mean + deviation * radius * cos(6.283185307179586 * dao_random_unit(state)));
}

#endif
