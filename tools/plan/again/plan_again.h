/* SPDX-License-Identifier: Apache-2.0 */
/* `dao plan STEP --recompute`: a step in less memory than its peak, by copies and kernels that run again. The
   plan is a longer step, written as a file that every command reads. */
#ifndef DAO_TOOLS_PLAN_AGAIN_H
#define DAO_TOOLS_PLAN_AGAIN_H

#include <dao/swap.h>

typedef struct dao_plan_again_config {
    const char *path, *batch; /* of the step */
    uint64_t capacity_bytes;
    dao_swap_tier_t host; /* its link, and the limit of bytes there */
    const char *output;   /* file for the longer step; NULL: none is written */
    bool is_json;
} dao_plan_again_config_t;

/* Plans, checks that each run reads what the first one of its kernel does, writes the longer step, reads it
   back and checks that once more; and prints what it takes, unless the file is standard output, which is not
   read back either. DAO_ERR_INVALID for a file that is no step; what dao_recompute_plan_make() answers;
   DAO_ERR_IO; DAO_ERR_CORRUPT: a check found something wrong. */
DAO_NODISCARD dao_status_t dao_plan_again(const dao_plan_again_config_t *config, int *out_exit);

#endif
