/* SPDX-License-Identifier: Apache-2.0 */
/* A step that grows run by run: the runs of kernels in their order, first ones and repeated ones, and the
   tensors that they use. A content that is made again has a tensor of its own. */
#ifndef DAO_PLANNING_RECOMPUTE_STEP_H
#define DAO_PLANNING_RECOMPUTE_STEP_H

#include "base/report/error.h"

#include <dao/recompute.h>

/* The tensors of the step that it is made of come first, under their own numbers. */
typedef struct dao_recompute_draft {
    const dao_swap_problem_t *problem; /* borrowed: that it is made of */
    dao_swap_tensor_t *tensors;
    uint32_t *tensor_sources; /* of each tensor: that of the problem */
    uint32_t tensor_count, tensor_capacity;
    dao_swap_use_t *uses;
    uint32_t use_count, use_capacity;
    dao_swap_kernel_t *kernels; /* without their uses, until it is finished */
    dao_recompute_run_t *runs;  /* of each kernel */
    uint32_t kernel_count, kernel_capacity;
    uint64_t again_ns; /* time of repeated runs */
} dao_recompute_draft_t;

/* A draft without runs. DAO_ERR_NO_HOST_MEMORY; dao_recompute_draft_finish() follows in any case. */
DAO_NODISCARD dao_status_t dao_recompute_draft_init(dao_recompute_draft_t *draft,
                                                    const dao_swap_problem_t *problem);

void dao_recompute_draft_finish(dao_recompute_draft_t *draft);

/* Forgets all runs and further tensors. */
void dao_recompute_draft_clear(dao_recompute_draft_t *draft);

/* Adds a tensor for a content that is made again. False: no host memory. */
bool dao_recompute_draft_add_tensor(dao_recompute_draft_t *draft, uint32_t source, uint32_t *out_tensor);

/* Adds a run. `operand_at` gives the tensor for a tensor of the problem. False: no host memory. */
bool dao_recompute_draft_add_run(dao_recompute_draft_t *draft, uint32_t kernel, bool is_again,
                                 uint32_t (*operand_at)(const void *user, uint32_t tensor), const void *user);

/* Adds the first run of a kernel, on the tensors of the problem. False: no host memory. */
bool dao_recompute_draft_add_first(dao_recompute_draft_t *draft, uint32_t kernel);

/* Makes the draft a problem, which borrows from the draft as long as that does not change. */
dao_swap_problem_t dao_recompute_draft_problem(dao_recompute_draft_t *draft);

#endif
