/* SPDX-License-Identifier: Apache-2.0 */
/* Small random steps for what plans swaps. */
#ifndef DAO_TESTS_SUPPORT_SWAP_STEPS_H
#define DAO_TESTS_SUPPORT_SWAP_STEPS_H

#include <dao/swap.h>

#define SWAP_STEP_TENSOR_MAX 256u
#define SWAP_STEP_KERNEL_MAX 256u
#define SWAP_STEP_USE_MAX    4u /* of a kernel */

/* A step and all that it points to. Not to be copied. */
typedef struct swap_step_box {
    dao_swap_problem_t problem;
    dao_swap_tensor_t tensors[SWAP_STEP_TENSOR_MAX];
    dao_swap_kernel_t kernels[SWAP_STEP_KERNEL_MAX];
    dao_swap_use_t uses[SWAP_STEP_KERNEL_MAX][SWAP_STEP_USE_MAX];
} swap_step_box_t;

/* What a random step may be. */
typedef struct swap_step_range {
    uint32_t tensor_max, kernel_max;
    uint64_t size_max;      /* of a tensor */
    uint64_t time_max;      /* of a kernel */
    uint64_t workspace_max; /* 0: none */
} swap_step_range_t;

/* Fills the box; without links, all bytes have a capacity. */
void swap_step_random(swap_step_box_t *box, const swap_step_range_t *range, uint64_t *random);

/* A step of `layer_count` kernels forwards, each of which writes an activation of `size_bytes` and reads the
   one before, and as many backwards, which read them again. At most SWAP_STEP_KERNEL_MAX / 2 layers. */
void swap_step_chain(swap_step_box_t *box, uint32_t layer_count, uint64_t size_bytes, uint64_t time_ns);

/* A step of kernels that read a carried weight of `size_bytes` each. */
void swap_step_stream(swap_step_box_t *box, uint32_t kernel_count, uint64_t size_bytes, uint64_t time_ns);

/* True for a bound that is searched for, of a step that is known to take `least_ns`: no more than that, and
   less than a hundredth and a rounding below it. */
bool swap_step_is_bound(uint64_t found_ns, uint64_t least_ns);

/* ---- tiny steps, ns by ns: tensors of one byte, and copies of 1 ns ---- */

/* Where the contents of tensors are: bit t is tensor t. */
typedef struct swap_bytes {
    uint8_t device, host;
} swap_bytes_t;

/* Sees what follows one state. */
typedef void (*swap_bytes_see_t)(swap_bytes_t next, void *user);

/* Shows all that may be where after a ns, in which at most one tensor comes and one goes; nothing may, too.
   `written` are those that kernels which run write. */
void swap_bytes_copy(const dao_swap_problem_t *problem, uint32_t tensor_count, swap_bytes_t now,
                     uint8_t written, swap_bytes_see_t see, void *user);

/* Shows what is there without one tensor on the device. `used` are those that kernels which run use. */
void swap_bytes_drop(uint32_t tensor_count, swap_bytes_t now, uint8_t used, swap_bytes_see_t see, void *user);

#endif
