/* SPDX-License-Identifier: Apache-2.0 */
/* Mapped host memory by a policy: on which NUMA node, with which pages, touched at once or later. */
#ifndef DAO_BASE_HOST_POLICY_H
#define DAO_BASE_HOST_POLICY_H

#include <dao/host_memory.h>

#include <stdbool.h>
#include <stddef.h>

/* Parts of a policy that the system refused: errno, or 0. */
typedef struct dao_host_refusals {
    int huge_pages;
    int numa;
} dao_host_refusals_t;

/* As dao_host_map(), by a policy. A part of the policy that the system refuses is left out and noted,
   in *out_refusals, which is always written. Returns NULL if the memory itself is refused. */
void *dao_host_map_by(const dao_host_memory_config_t *policy, size_t size_bytes, size_t alignment_bytes,
                      dao_host_refusals_t *out_refusals);

/* Populates all pages of mapped memory, contents unchanged, so that no later access faults. Returns false if
   the system refuses some, or has no call for it (Linux before 5.14). */
bool dao_host_touch(void *address, size_t size_bytes);

#endif
