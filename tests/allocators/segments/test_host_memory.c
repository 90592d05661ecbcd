/* SPDX-License-Identifier: Apache-2.0 */
/* The settings of the host place's memory: from the config, from the environment, and wrong ones. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static void clear_environment(void)
{
    CU_ASSERT_EQUAL(unsetenv("DAO_HOST_NUMA"), 0);
    CU_ASSERT_EQUAL(unsetenv("DAO_HOST_HUGE_PAGES"), 0);
    CU_ASSERT_EQUAL(unsetenv("DAO_HOST_PREFAULT"), 0);
}

static char warned_line[256];

static void keep_warning(dao_log_level_t level, const char *message, void *user)
{
    (void)user;
    if (level == DAO_LOG_LEVEL_WARNING) {
        (void)snprintf(warned_line, sizeof(warned_line), "%s", message);
    }
}

/* Starts the library, takes a region and writes to it. */
static void use_region(const dao_host_memory_config_t *settings)
{
    dao_config_t config = {
        .host = *settings, .log_callback = keep_warning, .log_level = DAO_LOG_LEVEL_WARNING};
    memset(warned_line, 0, sizeof(warned_line));
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    char *block = dao_alloc(host, 1 * MIB);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    memset(block, 1, 1 * MIB);
    CU_ASSERT_EQUAL(dao_free(host, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void every_setting_is_known_by_its_text(void)
{
    static const char *const numas[] = {"local", "interleave", "node:0", ""};
    static const char *const pages[] = {"never", "advise", "explicit", ""};
    dao_host_memory_config_t defaults = {0};
    for (size_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(setenv("DAO_HOST_NUMA", numas[i], 1), 0);
        CU_ASSERT_EQUAL(setenv("DAO_HOST_HUGE_PAGES", pages[i], 1), 0);
        CU_ASSERT_EQUAL(setenv("DAO_HOST_PREFAULT", i % 2 == 0 ? "1" : "0", 1), 0);
        use_region(&defaults);
    }
}

/* A node that no machine has is noticed, and so tells which setting was in effect. */
static void the_config_goes_before_the_environment(void)
{
    dao_host_memory_config_t settings = {0};
    CU_ASSERT_EQUAL(setenv("DAO_HOST_NUMA", "node:1023", 1), 0);
    use_region(&settings);
    CU_ASSERT_PTR_NOT_NULL(strstr(warned_line, "NUMA"));
    clear_environment();
    use_region(&settings);
    CU_ASSERT_PTR_NULL(strstr(warned_line, "NUMA"));
    settings = (dao_host_memory_config_t){.numa = DAO_NUMA_NODE, .numa_node = 1023};
    CU_ASSERT_EQUAL(setenv("DAO_HOST_NUMA", "local", 1), 0);
    use_region(&settings);
    CU_ASSERT_PTR_NOT_NULL(strstr(warned_line, "NUMA"));
}

/* A log callback that stops the library where it can, and allocates. */
static void stop_at_warning(dao_log_level_t level, const char *message, void *user)
{
    (void)message;
    dao_status_t *status = user;
    if (level == DAO_LOG_LEVEL_WARNING) {
        *status = dao_finalize();
        void *block = dao_alloc(host, 1 * MIB);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(dao_free(host, block), DAO_OK);
    }
}

/* The place keeps its memory in regions, or in pages where plans are served. */
static void warn_and_alloc(dao_step_plan_mode_t mode)
{
    dao_status_t status = DAO_OK;
    dao_config_t config = {.host = {.numa = DAO_NUMA_NODE, .numa_node = 1023},
                           .log_callback = stop_at_warning,
                           .log_user = &status,
                           .log_level = DAO_LOG_LEVEL_WARNING};
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_place_configure(host, &(dao_place_config_t){.step_plan = {.mode = mode}}), DAO_OK);
    void *block = dao_alloc(host, 1 * MIB);
    CU_ASSERT_EQUAL(status, DAO_ERR_REENTRANT);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(host, block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_log_line_cannot_stop_the_library_under_an_allocation(void)
{
    warn_and_alloc(DAO_STEP_PLAN_OFF);
    warn_and_alloc(DAO_STEP_PLAN_OFFSETS);
}

static void wrong_texts_are_named(void)
{
    static const struct {
        const char *name;
        const char *text;
    } cases[] = {
        {"DAO_HOST_NUMA", "near"},         {"DAO_HOST_NUMA", "node:"},
        {"DAO_HOST_NUMA", "node:-1"},      {"DAO_HOST_NUMA", "node:1024"},
        {"DAO_HOST_NUMA", "node:1x"},      {"DAO_HOST_NUMA", "node:99999999999999999999"},
        {"DAO_HOST_HUGE_PAGES", "always"}, {"DAO_HOST_PREFAULT", "yes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        CU_ASSERT_EQUAL(setenv(cases[i].name, cases[i].text, 1), 0);
        CU_ASSERT_EQUAL(dao_init(NULL), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].name));
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].text));
        clear_environment();
    }
}

static void wrong_numbers_are_named(void)
{
    static const dao_host_memory_config_t cases[] = {{.numa = (dao_numa_t)4},
                                                     {.numa = (dao_numa_t)-1},
                                                     {.numa = DAO_NUMA_NODE, .numa_node = -1},
                                                     {.numa = DAO_NUMA_NODE, .numa_node = DAO_NUMA_NODE_MAX},
                                                     {.huge_pages = (dao_huge_pages_t)4}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_config_t config = {.host = cases[i]};
        CU_ASSERT_EQUAL(dao_init(&config), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "host."));
    }
}

static CU_TestInfo tests[] = {
    {"every setting is known by its text", every_setting_is_known_by_its_text},
    {"the config goes before the environment", the_config_goes_before_the_environment},
    {"a log line cannot stop the library under an allocation",
     a_log_line_cannot_stop_the_library_under_an_allocation},
    {"wrong texts are named", wrong_texts_are_named},
    {"wrong numbers are named", wrong_numbers_are_named},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"host memory", NULL, NULL, clear_environment, clear_environment, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
