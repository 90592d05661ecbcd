/* SPDX-License-Identifier: Apache-2.0 */
/* mbind, madvise and mmap's huge pages. The policy is a preference: memory elsewhere is better than none, so
   a refusal is noted and the rest goes on. The system calls are made by number, without libnuma. */
#define _GNU_SOURCE
#include "base/memory/host_policy.h"

#include "base/memory/host.h"
#include "base/report/fault.h"

#include <errno.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From linux/mempolicy.h, which need not be installed. */
#define POLICY_PREFERRED  1
#define POLICY_INTERLEAVE 3
#define POLICY_LOCAL      4
#define MEMS_ALLOWED      (1 << 2)

#define HUGE_PAGE_BYTES ((size_t)2 << 20)
#define HUGE_PAGE_SHIFT 21
#define MAP_SIZE_SHIFT  26

#define WORD_BITS (8 * sizeof(unsigned long))

typedef struct node_set {
    unsigned long words[DAO_NUMA_NODE_MAX / WORD_BITS];
} node_set_t;

/* mbind reads one bit less than maxnode says: mbind(2). */
#define NODE_BIT_COUNT (DAO_NUMA_NODE_MAX + 1)

/* Maps huge pages that the administrator has set aside; returns NULL with errno if there are not enough. mmap
   reserves them, so touching them cannot fail. */
static void *map_explicitly(size_t size_bytes)
{
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY)) {
        errno = ENOMEM;
        return NULL;
    }
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | HUGE_PAGE_SHIFT << MAP_SIZE_SHIFT;
    void *address = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
    return address == MAP_FAILED ? NULL : address;
}

/* Returns 0 or errno. */
static int place_on_nodes(const dao_host_memory_config_t *policy, void *address, size_t size_bytes)
{
    node_set_t nodes = {{0}};
    int mode = POLICY_LOCAL;
    if (dao_fault_fires(DAO_FAULT_SYSTEM_MEMORY)) {
        return EPERM;
    }
    if (policy->numa == DAO_NUMA_NODE) {
        mode = POLICY_PREFERRED;
        nodes.words[(size_t)policy->numa_node / WORD_BITS] |= 1ul << (size_t)policy->numa_node % WORD_BITS;
    } else if (policy->numa == DAO_NUMA_INTERLEAVE) {
        mode = POLICY_INTERLEAVE;
        if (syscall(SYS_get_mempolicy, NULL, nodes.words, DAO_NUMA_NODE_MAX, NULL, MEMS_ALLOWED) != 0) {
            return errno;
        }
    }
    bool has_nodes = mode != POLICY_LOCAL;
    long result = syscall(SYS_mbind, address, size_bytes, mode, has_nodes ? nodes.words : NULL,
                          has_nodes ? NODE_BIT_COUNT : 0, 0);
    return result == 0 ? 0 : errno;
}

bool dao_host_touch(void *address, size_t size_bytes)
{
#if defined(MADV_POPULATE_WRITE)
    return madvise(address, size_bytes, MADV_POPULATE_WRITE) == 0;
#else
    (void)address;
    (void)size_bytes;
    return false;
#endif
}

/* Populates all pages of new memory. */
static void touch_all(char *address, size_t size_bytes)
{
    if (dao_host_touch(address, size_bytes)) {
        return;
    }
    size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t offset = 0; offset < size_bytes; offset += page_bytes) {
        ((volatile char *)address)[offset] = 0;
    }
}

void *dao_host_map_by(const dao_host_memory_config_t *policy, size_t size_bytes, size_t alignment_bytes,
                      dao_host_refusals_t *out_refusals)
{
    void *address = NULL;
    *out_refusals = (dao_host_refusals_t){0};
    if (policy->huge_pages == DAO_HUGE_PAGES_EXPLICIT) {
        errno = EINVAL;
        bool is_whole = size_bytes % HUGE_PAGE_BYTES == 0 && alignment_bytes <= HUGE_PAGE_BYTES;
        address = is_whole ? map_explicitly(size_bytes) : NULL;
        out_refusals->huge_pages = address == NULL ? errno : 0;
    }
    address = address != NULL ? address : dao_host_map(size_bytes, alignment_bytes);
    if (address == NULL) {
        return NULL;
    }
    if (policy->huge_pages == DAO_HUGE_PAGES_NEVER) {
        (void)madvise(address, size_bytes,
                      MADV_NOHUGEPAGE); /* a system without huge pages refuses: there are none */
    }
    if (policy->numa != DAO_NUMA_DEFAULT) {
        out_refusals->numa = place_on_nodes(policy, address, size_bytes);
    }
    if (policy->prefault) {
        touch_all(address, size_bytes);
    }
    return address;
}
