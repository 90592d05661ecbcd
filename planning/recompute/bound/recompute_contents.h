/* SPDX-License-Identifier: Apache-2.0 */
/* The contents of a step's tensors, and which kernels may make one again.

       kernel     0      1      2      3
       tensor     W------R......U------R       W write, R read, U read and write (in place)
       content    0      0      2      2       named by the access that wrote it

   A write, also one in place, begins a content; it is named by its access. A content is wanted up to its last
   read, which for one that is changed in place is the change. */
#ifndef DAO_PLANNING_RECOMPUTE_CONTENTS_H
#define DAO_PLANNING_RECOMPUTE_CONTENTS_H

#include "planning/swap/step/swap_step.h"

typedef struct dao_recompute_contents {
    const dao_swap_step_t *step; /* borrowed */
    uint32_t *previous;    /* of each access: the one before it of the same tensor, around the step's end */
    uint32_t *length;      /* of each access that writes: kernels to the last read of it; 0: none reads it */
    uint64_t *again_bytes; /* of each kernel: of its contents that a kernel reads */
    uint32_t
        *fresh_length;   /* of each kernel: to the first that writes anew what it reads; above n: none does */
    bool *is_repeatable; /* of each kernel: it may run again */
} dao_recompute_contents_t;

/* The step is borrowed until dao_recompute_contents_finish(). On an error there is nothing to finish.
   DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_recompute_contents_init(dao_recompute_contents_t *contents,
                                                       const dao_swap_step_t *step);

void dao_recompute_contents_finish(dao_recompute_contents_t *contents);

/* Returns true if a tensor's content goes on into the next step. */
bool dao_recompute_lives_on(const dao_swap_step_t *step, uint32_t tensor);

/* Returns true if the latest run of a kernel before kernel `begin` may be repeated from there on: the
   contents that it read are still to be had. Once a kernel writes one of them for the next step, no copy is
   left. */
static inline bool dao_recompute_may_run_in(const dao_recompute_contents_t *contents, uint32_t kernel,
                                            uint32_t begin)
{
    uint32_t n = contents->step->kernel_count, behind = (begin + n - kernel - 1) % n + 1;
    return contents->is_repeatable[kernel] && contents->fresh_length[kernel] > behind;
}

/* Returns true if an access in a window, `position` kernels behind its begin, finds what was there before. */
static inline bool dao_recompute_is_from_before(const dao_recompute_contents_t *contents, uint32_t access,
                                                uint32_t position)
{
    const dao_swap_access_t *accesses = contents->step->accesses;
    return accesses[access].previous_inactive_is_live &&
           position < accesses[contents->previous[access]].inactive_length;
}

/* Returns the content that an access finds; DAO_SWAP_NONE: no kernel writes it. */
static inline uint32_t dao_recompute_found(const dao_recompute_contents_t *contents, uint32_t access)
{
    return contents->step->accesses[contents->previous[access]].writer;
}

#endif
