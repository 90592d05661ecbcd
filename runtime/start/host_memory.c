/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the host place's memory: the config's, else the environment's, else the defaults. */
#include "runtime/start/settings.h"

#include "base/report/error.h"

#include <stdlib.h>
#include <string.h>

/* Returns an environment variable, or NULL if it is empty. */
static const char *environment(const char *name)
{
    const char *text = getenv(name);
    return text == NULL || text[0] == '\0' ? NULL : text;
}

/* Reads "node:N". */
static bool parse_node(const char *text, int32_t *out_node)
{
    static const char prefix[] = "node:";
    const char *digits = text + sizeof(prefix) - 1;
    if (strncmp(text, prefix, sizeof(prefix) - 1) != 0 || digits[0] < '0' || digits[0] > '9') {
        return false;
    }
    char *end = NULL;
    unsigned long node = strtoul(digits, &end, 10);
    if (*end != '\0' || node >= DAO_NUMA_NODE_MAX) {
        return false;
    }
    *out_node = (int32_t)node;
    return true;
}

static dao_status_t numa_find(dao_host_memory_config_t *settings)
{
    const char *text = environment("DAO_HOST_NUMA");
    int numa = (int)settings->numa;
    if (numa < DAO_NUMA_DEFAULT || numa > DAO_NUMA_NODE || settings->numa_node < 0 ||
        settings->numa_node >= DAO_NUMA_NODE_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "host.numa is %d with node %d; it goes from 0 (default) to 3 (node), nodes to %d",
                         numa, (int)settings->numa_node, DAO_NUMA_NODE_MAX - 1);
    }
    if (settings->numa != DAO_NUMA_DEFAULT || text == NULL) {
        return DAO_OK;
    }
    if (strcmp(text, "local") == 0) {
        settings->numa = DAO_NUMA_LOCAL;
    } else if (strcmp(text, "interleave") == 0) {
        settings->numa = DAO_NUMA_INTERLEAVE;
    } else if (parse_node(text, &settings->numa_node)) {
        settings->numa = DAO_NUMA_NODE;
    } else {
        return dao_error(DAO_ERR_INVALID, "DAO_HOST_NUMA is \"%.64s\"; write node:N, interleave or local",
                         text);
    }
    return DAO_OK;
}

static dao_status_t huge_pages_find(dao_host_memory_config_t *settings)
{
    static const char *const texts[] = {"", "never", "advise", "explicit"}; /* by number */
    const char *text = environment("DAO_HOST_HUGE_PAGES");
    int huge_pages = (int)settings->huge_pages;
    if (huge_pages < DAO_HUGE_PAGES_DEFAULT || huge_pages > DAO_HUGE_PAGES_EXPLICIT) {
        return dao_error(DAO_ERR_INVALID, "host.huge_pages is %d; it goes from 0 (default) to 3 (explicit)",
                         huge_pages);
    }
    if (settings->huge_pages != DAO_HUGE_PAGES_DEFAULT || text == NULL) {
        settings->huge_pages =
            huge_pages == DAO_HUGE_PAGES_DEFAULT ? DAO_HUGE_PAGES_ADVISE : settings->huge_pages;
        return DAO_OK;
    }
    for (int i = DAO_HUGE_PAGES_NEVER; i <= DAO_HUGE_PAGES_EXPLICIT; i++) {
        if (strcmp(text, texts[i]) == 0) {
            settings->huge_pages = (dao_huge_pages_t)i;
            return DAO_OK;
        }
    }
    return dao_error(DAO_ERR_INVALID, "DAO_HOST_HUGE_PAGES is \"%.64s\"; write never, advise or explicit",
                     text);
}

static dao_status_t prefault_find(dao_host_memory_config_t *settings)
{
    const char *text = environment("DAO_HOST_PREFAULT");
    if (settings->prefault || text == NULL || strcmp(text, "0") == 0) {
        return DAO_OK;
    }
    if (strcmp(text, "1") != 0) {
        return dao_error(DAO_ERR_INVALID, "DAO_HOST_PREFAULT is \"%.64s\"; write 0 or 1", text);
    }
    settings->prefault = true;
    return DAO_OK;
}

dao_status_t dao_host_memory_find(const dao_host_memory_config_t *config,
                                  dao_host_memory_config_t *out_settings)
{
    dao_host_memory_config_t settings = *config;
    dao_status_t status = numa_find(&settings);
    if (status == DAO_OK) {
        status = huge_pages_find(&settings);
    }
    if (status == DAO_OK) {
        status = prefault_find(&settings);
    }
    if (status == DAO_OK) {
        *out_settings = settings;
    }
    return status;
}
