/* SPDX-License-Identifier: Apache-2.0 */
/* Memory by a policy: there whatever the system refuses of the policy, and what was refused is noted. */
#define _GNU_SOURCE /* syscall */
#include "base/memory/host.h"
#include "base/memory/host_policy.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"

#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* From linux/mempolicy.h, which need not be installed. */
#define MPOL_DEFAULT    0
#define MPOL_PREFERRED  1
#define MPOL_INTERLEAVE 3
#define MPOL_LOCAL      4
#define MPOL_F_ADDR     (1 << 1)

#define ALIGNMENT ((size_t)2 << 20)

static void *map(const dao_host_memory_config_t *policy, size_t size_bytes, dao_host_refusals_t *out_refusals)
{
    *out_refusals = (dao_host_refusals_t){.huge_pages = -1, .numa = -1};
    return dao_host_map_by(policy, size_bytes, ALIGNMENT, out_refusals);
}

/* Every combination gives memory that is zeroed, aligned and can be written. */
static void every_policy_has_memory(void)
{
    static const dao_numa_t numas[] = {DAO_NUMA_DEFAULT, DAO_NUMA_LOCAL, DAO_NUMA_INTERLEAVE, DAO_NUMA_NODE};
    static const dao_huge_pages_t pages[] = {DAO_HUGE_PAGES_NEVER, DAO_HUGE_PAGES_ADVISE,
                                             DAO_HUGE_PAGES_EXPLICIT};
    for (size_t i = 0; i < sizeof(numas) / sizeof(numas[0]); i++) {
        for (size_t k = 0; k < sizeof(pages) / sizeof(pages[0]); k++) {
            dao_host_memory_config_t policy = {
                .numa = numas[i], .huge_pages = pages[k], .prefault = (i + k) % 2 == 0};
            dao_host_refusals_t refusals;
            unsigned char *memory = map(&policy, 2 * ALIGNMENT, &refusals);
            CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
            CU_ASSERT_EQUAL((uintptr_t)memory % ALIGNMENT, 0);
            CU_ASSERT_EQUAL(memory[0] | memory[2 * ALIGNMENT - 1], 0);
            memory[0] = memory[2 * ALIGNMENT - 1] = 1;
            CU_ASSERT_TRUE(refusals.numa >= 0);
            CU_ASSERT_TRUE(refusals.huge_pages >= 0);
            CU_ASSERT_TRUE(numas[i] != DAO_NUMA_DEFAULT || refusals.numa == 0);
            CU_ASSERT_TRUE(pages[k] == DAO_HUGE_PAGES_EXPLICIT || refusals.huge_pages == 0);
            dao_host_unmap(memory, 2 * ALIGNMENT);
        }
    }
}

/* The policy that the system keeps for an address; -1: it does not say. */
static int policy_of(void *address)
{
    int mode = -1;
    return syscall(SYS_get_mempolicy, &mode, NULL, 0, address, MPOL_F_ADDR) == 0 ? mode : -1;
}

static void the_system_is_told_the_policy(void)
{
    static const struct {
        dao_numa_t numa;
        int mode;
    } cases[] = {{DAO_NUMA_DEFAULT, MPOL_DEFAULT},
                 {DAO_NUMA_LOCAL, MPOL_LOCAL},
                 {DAO_NUMA_INTERLEAVE, MPOL_INTERLEAVE},
                 {DAO_NUMA_NODE, MPOL_PREFERRED}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_host_memory_config_t policy = {.numa = cases[i].numa};
        dao_host_refusals_t refusals;
        void *memory = map(&policy, ALIGNMENT, &refusals);
        CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
        int mode = policy_of(memory);
        CU_ASSERT_TRUE(refusals.numa != 0 || mode == -1 || mode == cases[i].mode);
        dao_host_unmap(memory, ALIGNMENT);
    }
}

static void a_node_that_is_not_there_is_noted(void)
{
    dao_host_memory_config_t policy = {.numa = DAO_NUMA_NODE, .numa_node = DAO_NUMA_NODE_MAX - 1};
    dao_host_refusals_t refusals;
    void *memory = map(&policy, ALIGNMENT, &refusals);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_NOT_EQUAL(refusals.numa, 0);
    dao_host_unmap(memory, ALIGNMENT);
}

/* Explicit huge pages have 2 MiB each. */
static void a_part_of_a_huge_page_is_refused(void)
{
    dao_host_memory_config_t policy = {.huge_pages = DAO_HUGE_PAGES_EXPLICIT};
    dao_host_refusals_t refusals;
    void *memory = map(&policy, ALIGNMENT + 4096, &refusals);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_NOT_EQUAL(refusals.huge_pages, 0);
    dao_host_unmap(memory, ALIGNMENT + 4096);
    memory = dao_host_map_by(&policy, 2 * ALIGNMENT, 2 * ALIGNMENT, &refusals); /* nor do they lie so */
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_EQUAL((uintptr_t)memory % (2 * ALIGNMENT), 0);
    CU_ASSERT_EQUAL(refusals.huge_pages, EINVAL);
    dao_host_unmap(memory, 2 * ALIGNMENT);
}

#if defined(DAO_FAULTS)
static void memory_that_is_refused_is_null(void)
{
    dao_host_memory_config_t policy = {.numa = DAO_NUMA_LOCAL, .huge_pages = DAO_HUGE_PAGES_NEVER};
    dao_host_refusals_t refusals;
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 0, true);
    CU_ASSERT_PTR_NULL(map(&policy, ALIGNMENT, &refusals));
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_EQUAL(refusals.numa, 0);
    CU_ASSERT_EQUAL(refusals.huge_pages, 0);
}

static void a_refused_placement_keeps_the_memory(void)
{
    dao_host_memory_config_t policy = {.numa = DAO_NUMA_LOCAL, .huge_pages = DAO_HUGE_PAGES_NEVER};
    dao_host_refusals_t refusals;
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 1, false); /* the first call maps */
    void *memory = map(&policy, ALIGNMENT, &refusals);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_NOT_EQUAL(refusals.numa, 0);
    dao_host_unmap(memory, ALIGNMENT);
}

static void huge_pages_that_run_out_are_replaced_by_others(void)
{
    dao_host_memory_config_t policy = {.huge_pages = DAO_HUGE_PAGES_EXPLICIT};
    dao_host_refusals_t refusals;
    dao_fault_arm(DAO_FAULT_SYSTEM_MEMORY, 0, false);
    unsigned char *memory = map(&policy, ALIGNMENT, &refusals);
    CU_ASSERT_EQUAL(dao_fault_disarm(), 1);
    CU_ASSERT_PTR_NOT_NULL_FATAL(memory);
    CU_ASSERT_EQUAL(refusals.huge_pages, ENOMEM);
    CU_ASSERT_EQUAL(memory[ALIGNMENT - 1], 0);
    dao_host_unmap(memory, ALIGNMENT);
}
#endif

static CU_TestInfo tests[] = {
    {"every policy has memory", every_policy_has_memory},
    {"the system is told the policy", the_system_is_told_the_policy},
    {"a node that is not there is noted", a_node_that_is_not_there_is_noted},
    {"a part of a huge page is refused", a_part_of_a_huge_page_is_refused},
#if defined(DAO_FAULTS)
    {"memory that is refused is NULL", memory_that_is_refused_is_null},
    {"a refused placement keeps the memory", a_refused_placement_keeps_the_memory},
    {"huge pages that run out are replaced by others", huge_pages_that_run_out_are_replaced_by_others},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host_policy", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
