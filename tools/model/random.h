/* SPDX-License-Identifier: Apache-2.0 */
/* Distributions that need the C library's mathematics, over the program's generator. */
#ifndef DAO_TOOLS_RANDOM_H
#define DAO_TOOLS_RANDOM_H

#include "base/numbers/random.h"

#include <math.h>

/* Returns a number from `least` to `most`; every octave is as likely as every other. */
static inline uint64_t dao_random_log(uint64_t *state, uint64_t least, uint64_t most)
{
    double octaves = log2((double)most / (double)least);
    return (uint64_t)((double)least * exp2(octaves * dao_random_unit(state)));
}

/* Returns the exponential of a normal number with that mean and deviation (Box and Muller, 1958). */
static inline double dao_random_log_normal(uint64_t *state, double mean, double deviation)
{
    double radius = sqrt(-2 * log(1 - dao_random_unit(state)));
    return exp(mean + deviation * radius * cos(6.283185307179586 * dao_random_unit(state)));
}

#endif
