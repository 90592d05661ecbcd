/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetime bins, after PRMalloc. Sizes are rounded up to a bin, and each bin has blocks of one size. A buffer
   joins the first block of its own bin that is free during its life. Else it joins a block of a larger bin,
   which its bin then has the right to borrow. Else its bin gets one more block.

       offset 0                                                      total
       | 2 blocks of 96 KiB  | 3 blocks of 64 KiB | ... | small ones |        the largest bin comes first

   Three policies round in steps of 4, 8 and 16 KiB; the one that needs the fewest bytes is taken. Blocks are
   never cut, so a plan wastes more than those of other methods. But it serves steps whose order changes: it
   says how many blocks a bin needs, not which buffer gets which block.

   Differences from PRMalloc: buffers up to 32 KiB have bins too, eight an octave; lifetimes are half-open
   unless the problem says that they are closed; a right is to one block, however many buffers borrowed it. */
#ifndef DAO_PLANNING_BINS_H
#define DAO_PLANNING_BINS_H

#include "planning/offsets/problem/layout.h"

/* Buffers above it are rounded in the steps of the policy; those up to it in eighths of an octave. */
#define DAO_BIN_SMALL_MAX ((uint64_t)32 << 10)

/* Bins up to this size are found by a table, those above by a search. */
#define DAO_BIN_DENSE_MAX ((uint64_t)32 << 20)

/* In which order the buffers of a bin join. */
typedef enum dao_bin_order {
    DAO_BIN_ORDER_END,   /* as PRMalloc does: when they are freed they are recorded */
    DAO_BIN_ORDER_BEGIN, /* needs less: 11 % on a recorded step of resnet50 */
} dao_bin_order_t;

/* Returns the size of the bin that a buffer belongs to. */
uint64_t dao_bin_round(uint32_t policy, uint64_t size_bytes);

typedef struct dao_bin {
    uint64_t size_bytes; /* what its blocks hold: dao_bin_round() of its buffers */
    uint64_t
        stride_bytes; /* from block to block: the size rounded up to the greatest alignment of its buffers */
    uint64_t offset_bytes; /* of its first block */
    uint32_t block_count;  /* 0: it only borrows */
    uint32_t first_right;  /* its rights are rights[first_right] and on */
    uint32_t right_count;
} dao_bin_t;

/* What bins a step needs. */
typedef struct dao_bin_plan {
    uint32_t policy;
    dao_bin_t *bins; /* from the smallest to the largest */
    uint32_t bin_count;
    uint32_t *rights; /* larger bins that may be borrowed from, one a block, the smallest bins first */
    uint32_t right_count;
    uint32_t
        *dense; /* bin of each size up to DAO_BIN_DENSE_MAX: at dense_index() of bins.c; UINT32_MAX: none */
    uint64_t total_bytes;
    uint64_t policy_bytes[DAO_PLAN_BIN_POLICY_COUNT]; /* what each policy would need */
    dao_plan_memory_t memory;
} dao_bin_plan_t;

/* Makes the bins of a problem with one pool and nothing fixed. The statuses of dao_planner_create();
   DAO_ERR_UNSUPPORTED for fixed offsets and pools. */
DAO_NODISCARD dao_status_t dao_bin_plan_init(dao_bin_plan_t *plan, const dao_plan_problem_t *problem,
                                             dao_bin_order_t order);
void dao_bin_plan_finish(dao_bin_plan_t *plan); /* also one that is all zero */

/* Returns the bin of a size; UINT32_MAX if there is none. Cost: O(1) up to DAO_BIN_DENSE_MAX, O(log bins)
   above. */
uint32_t dao_bin_plan_find(const dao_bin_plan_t *plan, uint64_t size_bytes);

/* Returns the first bin whose blocks hold so many bytes; bin_count if there is none. Cost: O(log bins). */
uint32_t dao_bin_plan_above(const dao_bin_plan_t *plan, uint64_t size_bytes);

bool dao_bin_plan_is_valid(const dao_bin_plan_t *plan);

/* ---- as a method ---- */

typedef struct dao_plan_lifetime_bins dao_plan_lifetime_bins_t;

/* In a pass. The instance outlives it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_lifetime_bins_create(dao_plan_instance_t *instance, dao_bin_order_t order,
                                                         dao_plan_work_t *work,
                                                         dao_plan_lifetime_bins_t **out_bins);
void dao_plan_lifetime_bins_destroy(dao_plan_lifetime_bins_t *bins);

/* Goes on until it is done or the work counter ends. DAO_ERR_NO_HOST_MEMORY: it can be called again. */
DAO_NODISCARD dao_status_t dao_plan_lifetime_bins_step(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work,
                                                       bool *out_is_done);

/* Valid once it is done, if dao_plan_lifetime_bins_is_exact(); else its offsets are an order alone.
   Borrowed. */
dao_plan_layout_t *dao_plan_lifetime_bins_layout(dao_plan_lifetime_bins_t *bins);

/* Returns true if bins keep all that the instance asks for: they know no fixed offsets, pools and
   capacities. */
bool dao_plan_lifetime_bins_is_exact(const dao_plan_instance_t *instance);

/* What each policy needs, once it is done: DAO_PLAN_BIN_POLICY_COUNT numbers. Borrowed. */
const uint64_t *dao_plan_lifetime_bins_policy_bytes(const dao_plan_lifetime_bins_t *bins);

#endif
