/* SPDX-License-Identifier: Apache-2.0 */
/* See proc(5) for /proc/meminfo, cgroups(7) for /proc/self/cgroup, and the kernel's documents
   admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst for the files of a group. What a group uses counts its
   file cache, which the system takes back: as everywhere, it counts as free. */
#include "base/memory/available.h"

#include "base/memory/host.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* A line of these files; of /proc/self/cgroup one holds a path (PATH_MAX of Linux is 4096). */
#define LINE_BYTES (4096 + 128)

/* How a hierarchy calls things. */
typedef struct hierarchy {
    const char *folder, *limit, *usage;
    const char *caches[2]; /* lines of memory.stat: the sum is file cache */
} hierarchy_t;

static const hierarchy_t version_1 = {.folder = "/memory",
                                      .limit = "memory.limit_in_bytes",
                                      .usage = "memory.usage_in_bytes",
                                      .caches = {"total_inactive_file ", "total_active_file "}};
static const hierarchy_t version_2 = {.folder = "",
                                      .limit = "memory.max",
                                      .usage = "memory.current",
                                      .caches = {"inactive_file ", "active_file "}};

/* Reads the number behind `key` at the start of a line. Returns false if there is none. */
static bool read_number(const char *path, const char *key, uint64_t *out_number)
{
    char line[LINE_BYTES];
    bool is_found = false;
    FILE *file = fopen(path, "re");
    while (file != NULL && !is_found && fgets(line, sizeof(line), file) != NULL) {
        is_found = strncmp(line, key, strlen(key)) == 0 &&
                   sscanf(line + strlen(key), "%" SCNu64, out_number) == 1; /* "max" is none */
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return is_found;
}

/* Returns false, too, if the path is too long. */
static bool read_of_group(const char *group, const char *name, const char *key, uint64_t *out_number)
{
    char path[LINE_BYTES];
    int length = snprintf(path, sizeof(path), "%s/%s", group, name);
    return length > 0 && length < (int)sizeof(path) && read_number(path, key, out_number);
}

static void take_least(uint64_t bytes, uint64_t *least_bytes)
{
    *least_bytes = bytes < *least_bytes ? bytes : *least_bytes;
}

static void look_at_group(const hierarchy_t *hierarchy, const char *group, dao_available_memory_t *memory)
{
    uint64_t limit_bytes, used_bytes, cache_bytes, cached_bytes = 0;
    if (!read_of_group(group, hierarchy->limit, "", &limit_bytes) ||
        !read_of_group(group, hierarchy->usage, "", &used_bytes)) {
        return;
    }
    for (uint32_t i = 0; i < 2; i++) {
        if (read_of_group(group, "memory.stat", hierarchy->caches[i], &cache_bytes)) {
            cached_bytes += cache_bytes;
        }
    }
    used_bytes -= cached_bytes < used_bytes ? cached_bytes : used_bytes;
    take_least(limit_bytes, &memory->total_bytes);
    take_least(limit_bytes - (used_bytes < limit_bytes ? used_bytes : limit_bytes), &memory->free_bytes);
}

/* Looks at a group and all above it: each one's limit holds. In a container the path may be the host's, of
   which there is only the top. */
static void look_up(const hierarchy_t *hierarchy, const char *root, const char *name,
                    dao_available_memory_t *memory)
{
    char group[LINE_BYTES];
    int length =
        snprintf(group, sizeof(group), "%s%s%s", root, hierarchy->folder, strcmp(name, "/") == 0 ? "" : name);
    size_t top = strlen(root) + strlen(hierarchy->folder);
    while (length > 0 && length < (int)sizeof(group)) {
        look_at_group(hierarchy, group, memory);
        char *slash = strrchr(group + top, '/');
        if (slash == NULL) {
            return;
        }
        *slash = '\0';
    }
}

/* Returns whether a list with commas has "memory". */
static bool has_memory(const char *controllers, size_t length)
{
    static const char memory[] = "memory";
    for (size_t at = 0, end; at < length; at = end + 1) {
        end = at + strcspn(controllers + at, ",:");
        if (end - at == sizeof(memory) - 1 && strncmp(controllers + at, memory, end - at) == 0) {
            return true;
        }
    }
    return false;
}

/* A line is "number:controllers:path"; version 2 has no controllers. */
static void look_at_line(char *line, const char *root, dao_available_memory_t *memory)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':');
    char *name = controllers != NULL ? strchr(controllers + 1, ':') : NULL;
    if (name == NULL) {
        return;
    }
    size_t length = (size_t)(name - controllers) - 1;
    if (length == 0) {
        look_up(&version_2, root, name + 1, memory);
    } else if (has_memory(controllers + 1, length)) {
        look_up(&version_1, root, name + 1, memory);
    }
}

dao_available_memory_t dao_available_memory_by(const dao_available_paths_t *paths)
{
    uint64_t kib;
    dao_available_memory_t memory = {.total_bytes = UINT64_MAX, .free_bytes = UINT64_MAX};
    if (read_number(paths->memory, "MemAvailable: ", &kib)) {
        memory.free_bytes = kib << 10;
    }
    char line[LINE_BYTES];
    FILE *file = fopen(paths->groups, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        look_at_line(line, paths->root, &memory);
    }
    if (file != NULL) {
        (void)fclose(file);
    }
    return memory;
}

dao_available_memory_t dao_available_memory(void)
{
    static const dao_available_paths_t paths = {
        .memory = "/proc/meminfo", .groups = "/proc/self/cgroup", .root = "/sys/fs/cgroup"};
    dao_available_memory_t memory = dao_available_memory_by(&paths);
    take_least(dao_host_total_bytes(), &memory.total_bytes);
    return memory;
}
