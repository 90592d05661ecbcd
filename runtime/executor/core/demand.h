/* SPDX-License-Identifier: Apache-2.0 */
/* The device memory that the kernels of a window need at once, kernel by kernel. Bytes are added over a
   range of kernels; the greatest sum is read at the root. */
#ifndef DAO_RUNTIME_EXECUTOR_DEMAND_H
#define DAO_RUNTIME_EXECUTOR_DEMAND_H

#include <dao/status.h>

/* Kernels that a window may hold. A power of two. */
#define DAO_DEMAND_KERNELS 4096u

/* A node's `most` is the greatest sum below it, with its own `added` but without those above it. */
typedef struct dao_demand_node {
    int64_t added; /* to all kernels below */
    int64_t most;
} dao_demand_node_t;

typedef struct dao_demand {
    dao_demand_node_t
        *nodes; /* a binary tree: children of n are 2n and 2n + 1; kernel t is the leaf t mod KERNELS */
} dao_demand_t;

/* DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_demand_init(dao_demand_t *demand);
void dao_demand_finish(dao_demand_t *demand);

/* Adds bytes, or takes them off, from kernel `first` to `last`: at most DAO_DEMAND_KERNELS. O(log). */
void dao_demand_add(dao_demand_t *demand, uint64_t first, uint64_t last, int64_t bytes);

/* A kernel has passed: its place is the one of the kernel DAO_DEMAND_KERNELS after it. O(log). */
void dao_demand_pass(dao_demand_t *demand, uint64_t time);

/* Nothing is needed any more. */
void dao_demand_clear(dao_demand_t *demand);

/* Walks the tree. */
bool dao_demand_is_valid(const dao_demand_t *demand);

/* The most that any kernel needs. O(1). */
uint64_t dao_demand_most(const dao_demand_t *demand);

#endif
