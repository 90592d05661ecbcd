/* SPDX-License-Identifier: Apache-2.0 */
/* Training steps of known networks, made from their public descriptions: those that Checkmate (Jain et al.,
   MLSys'20) was measured on. */
#ifndef DAO_BENCH_MADE_STEP_H
#define DAO_BENCH_MADE_STEP_H

#include "base/report/error.h"

#include <dao/swap.h>

typedef struct dao_made_step {
    dao_swap_problem_t problem; /* without capacity and links; every kernel may run again */
    dao_swap_tensor_t *tensors;
    dao_swap_kernel_t *kernels;
    dao_swap_use_t *uses;
} dao_made_step_t;

/* Returns the name of the index-th network, or NULL behind the last one. */
const char *dao_made_step_name(size_t index);

/* Makes the step of the index-th network; dao_made_step_finish() follows. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_made_step(size_t index, dao_made_step_t *out_step);
void dao_made_step_finish(dao_made_step_t *step);

#endif
