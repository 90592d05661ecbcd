/* SPDX-License-Identifier: Apache-2.0 */
/* The parts that tensors move in, and the decision of a plan for each of their inactive periods. */
#ifndef DAO_PLANNING_SWAP_PARTS_H
#define DAO_PLANNING_SWAP_PARTS_H

#include "planning/swap/step/swap_step.h"

/* Part number first[tensor] + i of tensor is its bytes from i x part_bytes on; the last one may be
   shorter. */
typedef struct dao_swap_parts {
    const dao_swap_step_t *step; /* borrowed */
    uint64_t part_bytes;         /* 0: every tensor is one part */
    uint32_t count;
    uint32_t inactive_count;
    uint32_t *first; /* tensor_count + 1 */
    /* access_count + 1: the inactive period of part i behind an access is first_inactive[access] + i. */
    uint32_t *first_inactive;
    uint32_t *tensor; /* of each part */
} dao_swap_parts_t;

/* What is done with a part in an inactive period. */
typedef struct dao_swap_decision {
    uint32_t
        lead; /* kernels before the next use at which its room is taken again: 0 .. inactive_length - 1 */
    bool is_away;
    bool is_file; /* away in the file tier */
} dao_swap_decision_t;

DAO_NODISCARD dao_status_t dao_swap_parts_init(dao_swap_parts_t *parts, const dao_swap_step_t *step,
                                               uint64_t part_bytes);

void dao_swap_parts_finish(dao_swap_parts_t *parts);

static inline uint64_t dao_swap_part_offset(const dao_swap_parts_t *parts, uint32_t part)
{
    return (part - parts->first[parts->tensor[part]]) * parts->part_bytes;
}

static inline uint64_t dao_swap_part_size(const dao_swap_parts_t *parts, uint32_t part)
{
    uint64_t left = parts->step->size_bytes[parts->tensor[part]] - dao_swap_part_offset(parts, part);
    return parts->part_bytes != 0 && left > parts->part_bytes ? parts->part_bytes : left;
}

/* Bytes of a part that are copied: without those that round up its tensor. */
static inline uint64_t dao_swap_part_content(const dao_swap_parts_t *parts, uint32_t part)
{
    uint32_t tensor = parts->tensor[part];
    const dao_swap_problem_t *problem = parts->step->problem;
    uint64_t size = dao_swap_part_size(parts, part);
    if (tensor >= problem->tensor_count) {
        return size; /* a workspace, which is never copied */
    }
    uint64_t left = problem->tensors[tensor].size_bytes - dao_swap_part_offset(parts, part);
    return size < left ? size : left;
}

#endif
