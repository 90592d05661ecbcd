/* SPDX-License-Identifier: Apache-2.0 */
/* What a process may have, by the files of machines and containers as they are met. */
#define _GNU_SOURCE
#include "base/memory/available.h"
#include "base/memory/host.h"
#include "tests/support/suite.h"

#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MEMORY "MemTotal:       1048576 kB\nMemFree:  7 kB\nMemAvailable:    524288 kB\n"

static char folder[] = "/tmp/dao_test_available_XXXXXX";
static char root[PATH_MAX];

static int remove_entry(const char *path, const struct stat *info, int type, struct FTW *at)
{
    (void)info;
    (void)type;
    (void)at;
    return remove(path);
}

static int make_folder(void)
{
    (void)strcpy(folder + sizeof(folder) - 7, "XXXXXX");
    return mkdtemp(folder) == NULL || snprintf(root, sizeof(root), "%s/groups", folder) < 0;
}

static int remove_folder(void)
{
    return nftw(folder, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

static void empty_folder(void)
{
    CU_ASSERT_EQUAL_FATAL(remove_folder() != 0 || make_folder() != 0, 0);
}

/* Writes a file of the folder, with the folders above it. */
static void put(const char *name, const char *text)
{
    char path[PATH_MAX];
    (void)snprintf(path, sizeof(path), "%s/%s", folder, name);
    for (char *slash = strchr(path + strlen(folder) + 1, '/'); slash != NULL;
         slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT(fputs(text, file) >= 0 && fclose(file) == 0);
}

static dao_available_memory_t look(void)
{
    char memory[PATH_MAX], groups[PATH_MAX];
    (void)snprintf(memory, sizeof(memory), "%s/meminfo", folder);
    (void)snprintf(groups, sizeof(groups), "%s/cgroup", folder);
    return dao_available_memory_by(
        &(dao_available_paths_t){.memory = memory, .groups = groups, .root = root});
}

static void expect(uint64_t total_bytes, uint64_t free_bytes)
{
    dao_available_memory_t found = look();
    CU_ASSERT_EQUAL(found.total_bytes, total_bytes);
    CU_ASSERT_EQUAL(found.free_bytes, free_bytes);
}

static void says_nothing_where_the_system_does_not(void)
{
    empty_folder();
    expect(UINT64_MAX, UINT64_MAX);
    put("meminfo", "MemTotal:\nMemAvailable: none\n");
    put("cgroup", "0\n\n:\n::\n0::\n4:memory\n4:memory:\n");
    expect(UINT64_MAX, UINT64_MAX);
}

static void machine_without_limits(void)
{
    empty_folder();
    put("meminfo", MEMORY);
    expect(UINT64_MAX, 512 * MIB);
    put("cgroup", "0::/user.slice/of me\n");
    put("groups/user.slice/of me/memory.max", "max\n");
    put("groups/user.slice/of me/memory.current", "1048576\n");
    expect(UINT64_MAX, 512 * MIB);
}

/* Each group above has its limit, too; the file cache of a group is taken back. */
static void groups_of_version_2(void)
{
    empty_folder();
    put("meminfo", MEMORY);
    put("cgroup", "0::/pod/box\n");
    put("groups/pod/memory.max", "268435456\n");
    put("groups/pod/memory.current", "201326592\n");
    put("groups/pod/memory.stat", "anon 1\ninactive_file 33554432\nactive_file 67108864\n");
    put("groups/pod/box/memory.max", "536870912\n");
    put("groups/pod/box/memory.current", "0\n");
    expect(256 * MIB, 160 * MIB);
    put("groups/pod/box/memory.max", "134217728\n");
    put("groups/pod/box/memory.current", "150000000\n"); /* a limit was lowered below what is used */
    expect(128 * MIB, 0);
}

/* Inside of a container the group is the top one, whatever its path says. */
static void top_group_of_a_container(void)
{
    empty_folder();
    put("meminfo", MEMORY);
    put("groups/memory.max", "134217728\n");
    put("groups/memory.current", "33554432\n");
    put("cgroup", "0::/\n");
    expect(128 * MIB, 96 * MIB);
    put("cgroup", "0::/docker/0123456789abcdef\n");
    expect(128 * MIB, 96 * MIB);
}

static void groups_of_version_1(void)
{
    empty_folder();
    put("meminfo", MEMORY);
    put("cgroup", "9:name=systemd:/\n5:memory_of_another:/box\n4:cpu,memory:/box\n0::/\n");
    put("groups/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put("groups/memory/memory.usage_in_bytes", "8000000000\n");
    put("groups/memory/box/memory.limit_in_bytes", "268435456\n");
    put("groups/memory/box/memory.usage_in_bytes", "134217728\n");
    put("groups/memory/box/memory.stat",
        "inactive_file 1\nactive_file 1\ntotal_inactive_file 33554432\ntotal_active_file 0\n");
    expect(256 * MIB, 160 * MIB);
    put("cgroup", "5:memory_of_another:/box\n");
    expect(UINT64_MAX, 512 * MIB);
}

static void groups_that_cannot_be_read(void)
{
    empty_folder();
    put("meminfo", MEMORY);
    put("cgroup", "0::/box\n");
    put("groups/box/memory.max", "134217728\n"); /* and nobody says what it uses */
    expect(UINT64_MAX, 512 * MIB);
    put("groups/memory.max", "268435456\n");
    put("groups/memory.current", "0\n");
    expect(256 * MIB, 256 * MIB);
}

/* What lies above a path that cannot be opened holds, as long as the path fits into a line; then the
   machine's figures do. */
static void groups_with_the_longest_paths(void)
{
    char line[4300];
    empty_folder();
    put("meminfo", MEMORY);
    put("groups/memory.max", "268435456\n");
    put("groups/memory.current", "0\n");
    bool is_of_group = true;
    for (int length = 4000; length <= 4215; length++) {
        (void)snprintf(line, sizeof(line), "0::/%0*d\n", length, 0);
        put("cgroup", line);
        dao_available_memory_t found = look();
        CU_ASSERT(found.total_bytes == 256 * MIB || (found.total_bytes == UINT64_MAX && length > 4096));
        CU_ASSERT(is_of_group || found.total_bytes == UINT64_MAX);
        is_of_group = found.total_bytes == 256 * MIB;
    }
    CU_ASSERT_FALSE(is_of_group);
}

static void this_machine(void)
{
    dao_available_memory_t memory = dao_available_memory();
    CU_ASSERT(memory.total_bytes > 0 && memory.total_bytes <= dao_host_total_bytes());
    CU_ASSERT(memory.free_bytes <= memory.total_bytes);
}

static CU_TestInfo tests[] = {
    {"nothing where the system says nothing", says_nothing_where_the_system_does_not},
    {"a machine without limits", machine_without_limits},
    {"groups of version 2", groups_of_version_2},
    {"the top group of a container", top_group_of_a_container},
    {"groups of version 1", groups_of_version_1},
    {"groups that cannot be read", groups_that_cannot_be_read},
    {"groups with the longest paths", groups_with_the_longest_paths},
    {"this machine", this_machine},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"available", make_folder, remove_folder, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
