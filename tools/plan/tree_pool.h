/* SPDX-License-Identifier: Apache-2.0 */
/* The pool that splits what it has into trees, after the BufferAllocator of MNN (Jiang et al., MLSys 2020)
   and after the one of HeuristicAllocator, which models it (Wang et al., "Melon", MobiSys 2022), to the byte:
   of the free pieces the smallest that is large enough, always split; joined again only when no piece of a
   parent is in use. The pool never shrinks. */
#ifndef DAO_TOOLS_TREE_POOL_H
#define DAO_TOOLS_TREE_POOL_H

#include <dao/status.h>

/* Sizes are rounded up to it. */
#define DAO_TREE_POOL_ALIGNMENT 64u

#define DAO_TREE_NODE_NONE UINT32_MAX

/* A freed piece of a parent is free at once in MNN; in HeuristicAllocator it is not, until the whole parent
   is. */
typedef enum dao_tree_pool_variant {
    DAO_TREE_POOL_MNN = 0,
    DAO_TREE_POOL_PYTHON = 1,
} dao_tree_pool_variant_t;

typedef struct dao_tree_node dao_tree_node_t;

typedef struct dao_tree_pool {
    dao_tree_pool_variant_t variant;
    dao_tree_node_t *nodes;
    size_t node_count, node_capacity;
    uint32_t spare; /* the first of a chain of pairs that may be used again */
    uint32_t free_root;
    uint64_t free_count;  /* frees so far */
    uint64_t total_bytes; /* taken from the system so far */
} dao_tree_pool_t;

void dao_tree_pool_init(dao_tree_pool_t *pool, dao_tree_pool_variant_t variant);
void dao_tree_pool_finish(dao_tree_pool_t *pool);

/* Takes a piece of at least size_bytes. DAO_ERR_OVERFLOW if all of them do not fit 64 bits;
   DAO_ERR_NO_HOST_MEMORY. Cost: O(log free pieces). */
DAO_NODISCARD dao_status_t dao_tree_pool_alloc(dao_tree_pool_t *pool, uint64_t size_bytes,
                                               uint32_t *out_node);

/* Gives a piece back. Cost: O(log free pieces) for each piece that is joined. */
void dao_tree_pool_free(dao_tree_pool_t *pool, uint32_t node);

#endif
