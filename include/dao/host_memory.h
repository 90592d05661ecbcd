/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Where the host place's memory lies, and in which pages: NUMA nodes, huge pages, pages that are populated at
 * once.
 */
#ifndef DAO_HOST_MEMORY_H
#define DAO_HOST_MEMORY_H

#include <dao/api.h>

#include <stdbool.h>
#include <stdint.h>

DAO_BEGIN_DECLS

/** On which NUMA node pages are taken when they are touched. */
typedef enum dao_numa {
    DAO_NUMA_DEFAULT = 0, /**< DAO_HOST_NUMA; if that is not set, as the system places the process's pages */
    DAO_NUMA_LOCAL = 1,   /**< "local": the node of the thread that touches a page first */
    DAO_NUMA_INTERLEAVE = 2, /**< "interleave": page by page on all nodes that the process may use */
    DAO_NUMA_NODE = 3,       /**< "node:N": one node, as long as it has room */
} dao_numa_t;

/** Which pages the system is asked for. */
typedef enum dao_huge_pages {
    DAO_HUGE_PAGES_DEFAULT = 0,  /**< DAO_HOST_HUGE_PAGES; if that is not set, "advise" */
    DAO_HUGE_PAGES_NEVER = 1,    /**< "never": small ones */
    DAO_HUGE_PAGES_ADVISE = 2,   /**< "advise": huge ones where the system has them */
    DAO_HUGE_PAGES_EXPLICIT = 3, /**< "explicit": of those of 2 MiB that the administrator has set apart */
} dao_huge_pages_t;

/**
 * Settings of the host place's regions, which hold its blocks with the strategies good_fit and best_fit.
 *
 * What the system refuses is logged once as a warning, and the memory is used as by default. Examples are a
 * node that is not there, a container that may not choose nodes, and huge pages that are not set apart.
 * Pinned memory lies where its device's driver puts it.
 */
typedef struct dao_host_memory_config {
    dao_numa_t numa;
    int32_t numa_node; /**< from 0, below DAO_NUMA_NODE_MAX; for DAO_NUMA_NODE alone */
    dao_huge_pages_t huge_pages;
    /**
     * Populate regions when they are made, which takes long, instead of page by page on first touch;
     * DAO_HOST_PREFAULT=1.
     */
    bool prefault;
} dao_host_memory_config_t;

/** Nodes that can be named: 0 to one below. */
#define DAO_NUMA_NODE_MAX 1024

DAO_END_DECLS

#endif
