/* A freed child is not handed out before its parent is joined: that is how the published pool does it, and what its figures
   were made with (MNN itself hands it out). */
#include "tools/tree_pool.h"

#include "base/math.h"
#include "tools/grow.h"

#include <string.h>

void dao_tree_pool_init(dao_tree_pool_t *pool)
{
    *pool = (dao_tree_pool_t){.nodes = NULL};
}

void dao_tree_pool_finish(dao_tree_pool_t *pool)
{
    dao_host_free(pool->nodes);
    dao_host_free(pool->free_nodes);
    dao_tree_pool_init(pool);
}

static dao_status_t add_node(dao_tree_pool_t *pool, uint32_t parent, uint64_t size_bytes, uint32_t *out_node)
{
    dao_tree_node_t *nodes =
        dao_tool_grow(pool->nodes, &pool->node_capacity, pool->node_count, sizeof(*nodes));
    if (nodes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pool->nodes = nodes;
    nodes[pool->node_count] = (dao_tree_node_t){.parent = parent, .size_bytes = size_bytes};
    *out_node = (uint32_t)pool->node_count++;
    return DAO_OK;
}

/* The first free node of at least this size. */
static size_t first_of_size(const dao_tree_pool_t *pool, uint64_t size_bytes)
{
    size_t low = 0;
    size_t high = pool->free_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (pool->nodes[pool->free_nodes[middle]].size_bytes < size_bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static dao_status_t put_free(dao_tree_pool_t *pool, uint32_t node)
{
    uint32_t *free_nodes =
        dao_tool_grow(pool->free_nodes, &pool->free_capacity, pool->free_count, sizeof(*free_nodes));
    if (free_nodes == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    pool->free_nodes = free_nodes;
    size_t at = first_of_size(pool, pool->nodes[node].size_bytes + 1);
    memmove(&free_nodes[at + 1], &free_nodes[at], (pool->free_count - at) * sizeof(*free_nodes));
    free_nodes[at] = node;
    pool->free_count++;
    return DAO_OK;
}

/* Takes the latest of the smallest free nodes that are large enough; NONE if there is none. */
static uint32_t take_free(dao_tree_pool_t *pool, uint64_t size_bytes)
{
    size_t at = first_of_size(pool, size_bytes);
    if (at == pool->free_count) {
        return DAO_TREE_NODE_NONE;
    }
    at = first_of_size(pool, pool->nodes[pool->free_nodes[at]].size_bytes + 1) - 1;
    uint32_t node = pool->free_nodes[at];
    pool->free_count--;
    memmove(&pool->free_nodes[at], &pool->free_nodes[at + 1],
            (pool->free_count - at) * sizeof(*pool->free_nodes));
    return node;
}

dao_status_t dao_tree_pool_alloc(dao_tree_pool_t *pool, uint64_t size_bytes, uint32_t *out_node)
{
    uint64_t aligned_bytes = dao_round_up(size_bytes, DAO_TREE_POOL_ALIGNMENT);
    uint32_t node = take_free(pool, size_bytes);
    if (node == DAO_TREE_NODE_NONE) {
        dao_status_t status = add_node(pool, DAO_TREE_NODE_NONE, aligned_bytes, out_node);
        pool->total_bytes += status == DAO_OK ? aligned_bytes : 0;
        return status;
    }
    if (pool->nodes[node].parent != DAO_TREE_NODE_NONE) {
        pool->nodes[pool->nodes[node].parent].use_count++;
    }
    if (aligned_bytes >= pool->nodes[node].size_bytes) {
        *out_node = node;
        return DAO_OK;
    }
    uint32_t rest = 0;
    pool->nodes[node].use_count++;
    dao_status_t status = add_node(pool, node, aligned_bytes, out_node);
    if (status == DAO_OK) {
        status = add_node(pool, node, pool->nodes[node].size_bytes - aligned_bytes, &rest);
    }
    return status == DAO_OK ? put_free(pool, rest) : status;
}

static void drop_children(dao_tree_pool_t *pool, uint32_t parent)
{
    size_t kept = 0;
    for (size_t i = 0; i < pool->free_count; i++) {
        if (pool->nodes[pool->free_nodes[i]].parent != parent) {
            pool->free_nodes[kept++] = pool->free_nodes[i];
        }
    }
    pool->free_count = kept;
}

dao_status_t dao_tree_pool_free(dao_tree_pool_t *pool, uint32_t node)
{
    uint32_t parent = pool->nodes[node].parent;
    if (parent == DAO_TREE_NODE_NONE) {
        return put_free(pool, node);
    }
    while (parent != DAO_TREE_NODE_NONE && --pool->nodes[parent].use_count == 0) {
        drop_children(pool, parent);
        dao_status_t status = put_free(pool, parent);
        if (status != DAO_OK) {
            return status;
        }
        parent = pool->nodes[parent].parent;
    }
    return DAO_OK;
}
