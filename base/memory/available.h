/* SPDX-License-Identifier: Apache-2.0 */
/* How much memory this process may have: of the machine's, and of what a container (a control group of Linux)
   is limited to. */
#ifndef DAO_BASE_AVAILABLE_H
#define DAO_BASE_AVAILABLE_H

#include <stdint.h>

typedef struct dao_available_memory {
    uint64_t total_bytes; /* of the machine, or the least that a group may have */
    uint64_t free_bytes;  /* that can be had without others' memory being pushed out; UINT64_MAX: not known */
} dao_available_memory_t;

/* A few small files are read, a limit may change at any time. */
dao_available_memory_t dao_available_memory(void);

/* Where the system says so; other places are for tests. */
typedef struct dao_available_paths {
    const char *memory; /* "/proc/meminfo" */
    const char *groups; /* "/proc/self/cgroup": a line for each hierarchy, with the process's group in it */
    const char *root;   /* "/sys/fs/cgroup": where the hierarchies are mounted */
} dao_available_paths_t;

/* What these files say alone: total_bytes is UINT64_MAX where no group has a limit. */
dao_available_memory_t dao_available_memory_by(const dao_available_paths_t *paths);

#endif
