/* SPDX-License-Identifier: Apache-2.0 */
/* Pages of the system by a policy: on which NUMA node, of which size, when they are taken. */
#ifndef DAO_BASE_HOST_POLICY_H
#define DAO_BASE_HOST_POLICY_H

#include <dao/host_memory.h>

#include <stdbool.h>
#include <stddef.h>

/* What the system has refused: errno, or 0. */
typedef struct dao_host_refusals {
    int huge_pages;
    int numa;
} dao_host_refusals_t;

/* As dao_host_map(), by a policy. What the system refuses of it is left out and noted in
   *out_refusals, which is written in any case; NULL: it refuses the memory, too. */
void *dao_host_map_by(const dao_host_memory_config_t *policy, size_t size_bytes, size_t alignment_bytes,
                      dao_host_refusals_t *out_refusals);

/* Takes all pages of memory that is mapped, contents unchanged, so that nobody waits for them later. Tells
   whether it did: the system may refuse some, or have no call for it (Linux before 5.14). */
bool dao_host_touch(void *address, size_t size_bytes);

#endif
