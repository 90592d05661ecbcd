/* The buffer pool of MNN, as HeuristicAllocator's bufferAllocator.py has it, to the byte: free pieces by size, the smallest
   that is large enough, always split, joined again only when all pieces of a parent are free. The pool never shrinks. */
#ifndef DAO_TOOLS_TREE_POOL_H
#define DAO_TOOLS_TREE_POOL_H

#include <dao/status.h>

#define DAO_TREE_POOL_ALIGNMENT 64u

/* A piece of memory. Parents are split into children. */
typedef struct dao_tree_node {
    uint32_t parent;    /* DAO_TREE_NODE_NONE: taken from the system */
    uint32_t use_count; /* of a parent: children in use, as the pool counts them */
    uint64_t size_bytes;
} dao_tree_node_t;

#define DAO_TREE_NODE_NONE UINT32_MAX

typedef struct dao_tree_pool {
    dao_tree_node_t *nodes;
    size_t node_count, node_capacity;
    uint32_t *free_nodes; /* by size; of one size the latest last */
    size_t free_count, free_capacity;
    uint64_t total_bytes; /* taken from the system so far */
} dao_tree_pool_t;

void dao_tree_pool_init(dao_tree_pool_t *pool);
void dao_tree_pool_finish(dao_tree_pool_t *pool);

/* Gives a piece of at least size_bytes. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_tree_pool_alloc(dao_tree_pool_t *pool, uint64_t size_bytes,
                                               uint32_t *out_node);

/* Gives a piece back. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_tree_pool_free(dao_tree_pool_t *pool, uint32_t node);

#endif
