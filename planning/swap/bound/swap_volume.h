/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes that a step moves at least, and the least time that a link takes for them. */
#ifndef DAO_PLANNING_SWAP_VOLUME_H
#define DAO_PLANNING_SWAP_VOLUME_H

#include "base/report/error.h"
#include "planning/swap/step/swap_step.h"

/* A link in ns a byte. */
typedef struct dao_swap_rate {
    double in, out;
    double shared; /* of both directions together; 0: no limit but their own */
    bool is_half;  /* both directions take turns */
} dao_swap_rate_t;

/* The least bytes to the device in a step that repeats, and the least from it, each by itself. Cost: O(uses).
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_least_bytes(const dao_swap_step_t *step, uint64_t *out_in_bytes,
                                                uint64_t *out_out_bytes);

/* The least time of a link for both together, each copy with its latency. Below the best such bound by some
   percent, as it is searched for. Cost: O(DAO_SWAP_VOLUME_ROUNDS x uses). DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_swap_volume_ns(const dao_swap_step_t *step, const dao_swap_rate_t *rate,
                                              double latency_ns, uint64_t *out_ns);

#define DAO_SWAP_VOLUME_ROUNDS 256u

#endif
