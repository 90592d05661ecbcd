/* SPDX-License-Identifier: Apache-2.0 */
/* The least price of having some contents, where what is made again needs its inputs: a minimum cut, see
   recompute_cut.c. */
#ifndef DAO_PLANNING_RECOMPUTE_CUT_H
#define DAO_PLANNING_RECOMPUTE_CUT_H

#include "planning/recompute/bound/recompute_contents.h"

/* A content that is to be had. */
typedef struct dao_recompute_needed {
    uint32_t content; /* DAO_SWAP_NONE: no kernel writes the tensor */
    uint32_t tensor;
    bool is_shared; /* a kernel that may repeat wrote it in the window before: it is there too if it was
                       copied out then */
} dao_recompute_needed_t;

/* Prices in ns. */
typedef struct dao_recompute_prices {
    double in_byte;  /* of a byte that comes by a copy */
    double out_byte; /* of a byte of what is shared and was copied out: of all whose kernel does not run */
    double kernel;   /* of a ns of a kernel that runs again */
} dao_recompute_prices_t;

typedef struct dao_recompute_cut dao_recompute_cut_t;

/* The contents are borrowed as long as the cut. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_cut_create(const dao_recompute_contents_t *contents,
                                                    dao_recompute_cut_t **out_cut);

void dao_recompute_cut_destroy(dao_recompute_cut_t *cut);

/* Says what is needed in a window that begins with kernel `begin`: contents from before it. */
void dao_recompute_cut_set(dao_recompute_cut_t *cut, uint32_t begin, const dao_recompute_needed_t *needed,
                           uint32_t count);

/* Returns the least price, or a little less. */
double dao_recompute_cut_least(dao_recompute_cut_t *cut, const dao_recompute_prices_t *prices);

#endif
