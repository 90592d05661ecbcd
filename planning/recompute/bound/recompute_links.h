/* SPDX-License-Identifier: Apache-2.0 */
/* Links in ns a byte, for bounds: what all tiers together carry at most. */
#ifndef DAO_PLANNING_RECOMPUTE_LINKS_H
#define DAO_PLANNING_RECOMPUTE_LINKS_H

#include "planning/swap/step/swap_tier.h"

typedef struct dao_recompute_links {
    double in_ns, out_ns; /* of a byte */
    double shared_ns;     /* of a byte in either direction while both copy; 0: no limit but their own */
    bool is_half;         /* one copy at a time, whatever its direction */
} dao_recompute_links_t;

static inline dao_recompute_links_t dao_recompute_links_of(const dao_swap_problem_t *problem)
{
    const dao_swap_tier_t *host = &problem->host, *file = &problem->file;
    bool has_file = file->in_bytes_per_second != 0;
    double in = (double)host->in_bytes_per_second + (has_file ? (double)file->in_bytes_per_second : 0);
    double out = (double)dao_swap_out_speed(host) + (has_file ? (double)dao_swap_out_speed(file) : 0);
    return (dao_recompute_links_t){
        .in_ns = (double)DAO_NS_PER_S / in,
        .out_ns = (double)DAO_NS_PER_S / out,
        .shared_ns = !has_file && host->shared_bytes_per_second != 0
                         ? (double)DAO_NS_PER_S / (double)host->shared_bytes_per_second
                         : 0,
        .is_half = !has_file && host->duplex == DAO_SWAP_DUPLEX_HALF,
    };
}

#endif
