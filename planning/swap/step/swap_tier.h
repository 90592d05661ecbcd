/* SPDX-License-Identifier: Apache-2.0 */
/* What a tier's numbers mean. */
#ifndef DAO_PLANNING_SWAP_TIER_H
#define DAO_PLANNING_SWAP_TIER_H

#include "base/numbers/math.h"

#include <dao/swap.h>

/* A tier's speed out of the device. */
static inline uint64_t dao_swap_out_speed(const dao_swap_tier_t *tier)
{
    return tier->out_bytes_per_second != 0 ? tier->out_bytes_per_second : tier->in_bytes_per_second;
}

/* The speed of a direction while the other one rests. */
static inline uint64_t dao_swap_speed(const dao_swap_tier_t *tier, bool is_in)
{
    uint64_t speed = is_in ? tier->in_bytes_per_second : dao_swap_out_speed(tier);
    return tier->shared_bytes_per_second != 0 && tier->shared_bytes_per_second < speed
               ? tier->shared_bytes_per_second
               : speed;
}

/* Returns true if both directions at once are slower than each alone. */
static inline bool dao_swap_is_shared(const dao_swap_tier_t *tier)
{
    return tier->duplex == DAO_SWAP_DUPLEX_FULL && tier->shared_bytes_per_second != 0 &&
           tier->shared_bytes_per_second < tier->in_bytes_per_second + dao_swap_out_speed(tier);
}

/* How long a copy holds its direction while the other one rests. */
static inline uint64_t dao_swap_copy_ns(const dao_swap_tier_t *tier, bool is_in, uint64_t size_bytes)
{
    return tier->latency_ns + dao_transfer_ns(size_bytes, dao_swap_speed(tier, is_in));
}

#endif
