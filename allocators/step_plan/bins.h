/* SPDX-License-Identifier: Apache-2.0 */
/* Lifetime bins in use: each bin has blocks of one size, handed out from a stack, and rights to
   borrow from bins with larger ones. Where the sizes of a step have changed, bins that are not much larger
   lend without a right. Which offset is handed out is all that is decided here: whether it is really free is
   for the arena to know. Not thread-safe: the owner locks. Needs no memory once it is made. */
#ifndef DAO_ALLOCATORS_BINS_H
#define DAO_ALLOCATORS_BINS_H

#include "planning/offsets/methods/lifetime_bins.h"

typedef struct dao_bins dao_bins_t;

/* What a request comes to. */
typedef enum dao_bins_answer {
    DAO_BINS_HIT,    /* an offset */
    DAO_BINS_MISSED, /* its bin and those that could lend are empty */
    DAO_BINS_NULL,   /* no bin is for its size, and none could lend */
} dao_bins_answer_t;

/* Takes a plan over, on DAO_OK. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_bins_create(dao_bin_plan_t *plan, dao_bins_t **out_bins);
void dao_bins_destroy(dao_bins_t *bins); /* NULL is allowed */

/* Takes a block. As dao_bin_plan_find(), and O(rights) where the bin is empty. */
dao_bins_answer_t dao_bins_take(dao_bins_t *bins, uint64_t size_bytes, uint64_t *out_offset_bytes);

/* Returns a block back that was taken, to be the first or the last that its bin hands out; true if one
   that is out begins there. O(log bins). */
bool dao_bins_give(dao_bins_t *bins, uint64_t offset_bytes, bool is_last);

/* Returns the bytes of all blocks. */
uint64_t dao_bins_total_bytes(const dao_bins_t *bins);

bool dao_bins_is_valid(const dao_bins_t *bins);

#endif
