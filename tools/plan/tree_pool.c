/* SPDX-License-Identifier: Apache-2.0 */
/* The pool as it is upstream. What the pool took from the system is the root of a tree; a node is cut in two
   where it is larger than what is asked for, however little is left, and is put together again when neither
   part is in use:

       root 640  use_count 1              a node is in one of three states:
         |-- 512  in use                    in use      somebody has it
         `-- 128  free                      free        in the set of free nodes
                                            cut         its two parts stand for it

   use_count counts the parts of a node that are in use or cut. A request gets the smallest free node that is
   large enough, of equal ones the one that was freed last, and takes all of it or cuts it.

   Free nodes are in a treap, in the order of size and, with equal sizes, from the latest to the first;
   priorities are drawn from the nodes' numbers, so that equal calls do the same.

   Invariants: a free or used part's parent is cut; no two free neighbours stay whose parent has use_count 0;
   with PYTHON a part that was freed is in no state until its parent is put together. */
#include "tools/plan/tree_pool.h"

#include "tools/base/grow.h"

#define NONE DAO_TREE_NODE_NONE

enum { NOT_FREE = 0 };

struct dao_tree_node {
    uint64_t size_bytes;
    uint64_t freed_at; /* the number of the free, from 1; NOT_FREE */
    uint32_t parent;   /* NONE: a root */
    uint32_t part;     /* the first of its two parts, which have numbers in a row; while it is cut */
    uint32_t use_count;
    uint32_t smaller; /* treap: subtrees */
    uint32_t larger;
};

void dao_tree_pool_init(dao_tree_pool_t *pool, dao_tree_pool_variant_t variant)
{
    *pool = (dao_tree_pool_t){.variant = variant, .spare = NONE, .free_root = NONE};
}

void dao_tree_pool_finish(dao_tree_pool_t *pool)
{
    dao_host_free(pool->nodes);
    dao_tree_pool_init(pool, pool->variant);
}

/* ---- the free nodes ---- */

static uint32_t priority(uint32_t node)
{
    uint32_t x = node * 0x9e3779b9u;
    x = (x ^ x >> 16) * 0x85ebca6bu;
    return x ^ x >> 13;
}

/* Returns true if node `a` comes before `b`: it is smaller, or as large and freed later. */
static bool comes_before(const dao_tree_pool_t *pool, uint32_t a, uint32_t b)
{
    const dao_tree_node_t *left = &pool->nodes[a];
    const dao_tree_node_t *right = &pool->nodes[b];
    return left->size_bytes != right->size_bytes ? left->size_bytes < right->size_bytes
                                                 : left->freed_at > right->freed_at;
}

static void add_free(dao_tree_pool_t *pool, uint32_t node)
{
    pool->nodes[node].freed_at = ++pool->free_count;
    uint32_t *link = &pool->free_root;
    while (*link != NONE && priority(*link) >= priority(node)) {
        link = comes_before(pool, node, *link) ? &pool->nodes[*link].smaller : &pool->nodes[*link].larger;
    }
    /* What is below is split into what comes before the node and what comes after it. */
    uint32_t rest = *link;
    uint32_t *before = &pool->nodes[node].smaller;
    uint32_t *after = &pool->nodes[node].larger;
    *link = node;
    while (rest != NONE) {
        if (comes_before(pool, rest, node)) {
            *before = rest;
            before = &pool->nodes[rest].larger;
            rest = *before;
        } else {
            *after = rest;
            after = &pool->nodes[rest].smaller;
            rest = *after;
        }
    }
    *before = *after = NONE;
}

static void remove_free(dao_tree_pool_t *pool, uint32_t node)
{
    uint32_t *link = &pool->free_root;
    while (*link != node) {
        link = comes_before(pool, node, *link) ? &pool->nodes[*link].smaller : &pool->nodes[*link].larger;
    }
    uint32_t before = pool->nodes[node].smaller;
    uint32_t after = pool->nodes[node].larger;
    while (before != NONE && after != NONE) {
        if (priority(before) > priority(after)) {
            *link = before;
            link = &pool->nodes[before].larger;
            before = *link;
        } else {
            *link = after;
            link = &pool->nodes[after].smaller;
            after = *link;
        }
    }
    *link = before != NONE ? before : after;
    pool->nodes[node].freed_at = NOT_FREE;
}

/* Finds the smallest free node of at least that size, the latest among equals; NONE. */
static uint32_t find_free(const dao_tree_pool_t *pool, uint64_t size_bytes)
{
    uint32_t found = NONE;
    for (uint32_t at = pool->free_root; at != NONE;) {
        const dao_tree_node_t *node = &pool->nodes[at];
        if (node->size_bytes >= size_bytes) {
            found = at;
            at = node->smaller;
        } else {
            at = node->larger;
        }
    }
    return found;
}

/* ---- nodes ---- */

/* Makes two nodes with numbers in a row. */
static dao_status_t make_pair(dao_tree_pool_t *pool, uint32_t *out_first)
{
    if (pool->spare != NONE) {
        *out_first = pool->spare;
        pool->spare = pool->nodes[pool->spare].part;
        return DAO_OK;
    }
    for (size_t i = 0; i < 2; i++) {
        dao_tree_node_t *nodes =
            dao_tool_grow(pool->nodes, &pool->node_capacity, pool->node_count + i, sizeof(*nodes));
        if (nodes == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        pool->nodes = nodes;
    }
    *out_first = (uint32_t)pool->node_count;
    pool->node_count += 2;
    return DAO_OK;
}

/* A root is the first of a pair; the second stays unused. */
static dao_status_t take_root(dao_tree_pool_t *pool, uint64_t size_bytes, uint32_t *out_node)
{
    if (size_bytes > UINT64_MAX - pool->total_bytes) {
        return dao_error(DAO_ERR_OVERFLOW, "the pool would take more than 2^64 bytes");
    }
    dao_status_t status = make_pair(pool, out_node);
    if (status == DAO_OK) {
        pool->nodes[*out_node] = (dao_tree_node_t){.size_bytes = size_bytes, .parent = NONE};
        pool->total_bytes += size_bytes;
    }
    return status;
}

/* Cuts a free node; the first part is in use, the second free. */
static dao_status_t cut(dao_tree_pool_t *pool, uint32_t node, uint64_t size_bytes, uint32_t *out_part)
{
    uint32_t part = NONE;
    dao_status_t status = make_pair(pool, &part);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t rest_bytes = pool->nodes[node].size_bytes - size_bytes;
    pool->nodes[part] = (dao_tree_node_t){.size_bytes = size_bytes, .parent = node};
    pool->nodes[part + 1] = (dao_tree_node_t){.size_bytes = rest_bytes, .parent = node};
    pool->nodes[node].part = part;
    pool->nodes[node].use_count = 1;
    add_free(pool, part + 1);
    *out_part = part;
    return DAO_OK;
}

dao_status_t dao_tree_pool_alloc(dao_tree_pool_t *pool, uint64_t size_bytes, uint32_t *out_node)
{
    if (size_bytes > UINT64_MAX - (DAO_TREE_POOL_ALIGNMENT - 1)) {
        return dao_error(DAO_ERR_OVERFLOW, "the pool would take more than 2^64 bytes");
    }
    size_bytes += DAO_TREE_POOL_ALIGNMENT - 1;
    size_bytes -= size_bytes % DAO_TREE_POOL_ALIGNMENT;
    uint32_t node = find_free(pool, size_bytes);
    if (node == NONE) {
        return take_root(pool, size_bytes, out_node);
    }
    remove_free(pool, node);
    if (pool->nodes[node].parent != NONE) {
        pool->nodes[pool->nodes[node].parent].use_count++;
    }
    if (pool->nodes[node].size_bytes > size_bytes) {
        return cut(pool, node, size_bytes, out_node);
    }
    *out_node = node;
    return DAO_OK;
}

/* Puts a node together again, of whose parts none is in use. */
static void join(dao_tree_pool_t *pool, uint32_t node)
{
    uint32_t part = pool->nodes[node].part;
    for (uint32_t i = part; i < part + 2; i++) {
        if (pool->nodes[i].freed_at != NOT_FREE) {
            remove_free(pool, i);
        }
    }
    pool->nodes[part].part = pool->spare;
    pool->spare = part;
    add_free(pool, node);
}

void dao_tree_pool_free(dao_tree_pool_t *pool, uint32_t node)
{
    uint32_t parent = pool->nodes[node].parent;
    if (parent == NONE || pool->variant == DAO_TREE_POOL_MNN) {
        add_free(pool, node);
    }
    for (; parent != NONE && --pool->nodes[parent].use_count == 0; parent = pool->nodes[parent].parent) {
        join(pool, parent);
    }
}
