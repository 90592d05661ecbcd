/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for tensors that need not lie in one piece of the device's memory. */
#ifndef DAO_PLANNING_SWAP_PAGES_H
#define DAO_PLANNING_SWAP_PAGES_H

#include "planning/swap/addresses/swap_layout.h"

/* Finds pages for all tensors of a layout that lie in them, in the first `page_max` pages of the arena.
   Tensors at static addresses have theirs already, and keep their bytes for the times in `spans`. Adds a
   residency for each address of a tensor; what found no pages is counted as unplaced. DAO_ERR_NO_HOST_MEMORY,
   DAO_ERR_STOPPED: dao_swap_layout_finish() follows. */

/* Bytes of the arena that a tensor at a static address uses at some time of the step. */
typedef struct dao_swap_span {
    uint64_t begin_bytes, end_bytes;
    uint64_t begin_ns, end_ns; /* begin in the step, end at most a step later */
} dao_swap_span_t;

DAO_NODISCARD dao_status_t dao_swap_pages_find(dao_swap_layout_t *layout, const dao_swap_parts_t *parts,
                                               const dao_swap_decision_t *decisions,
                                               const dao_swap_timing_t *timing, const dao_swap_span_t *spans,
                                               size_t span_count, uint32_t page_max);

#endif
