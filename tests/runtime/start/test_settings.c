/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: a config comes before the environment, an empty variable is none, and what is wrong is named. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "runtime/start/settings.h"

#include "base/report/error.h"
#include "runtime/scoreboard/scoreboard_thread.h"
#include "runtime/start/step_plan_settings.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

static const dao_config_t no_config;

static void environment_set(const char *name, const char *text)
{
    CU_ASSERT_EQUAL_FATAL(text != NULL ? setenv(name, text, 1) : unsetenv(name), 0);
}

/* ---- the log, the limit of host memory ---- */

static void the_level_of_the_log_is_the_configs_or_the_environments(void)
{
    static const struct {
        const char *text;
        int configured;
        dao_status_t status;
        dao_log_level_t level;
    } cases[] = {{NULL, 0, DAO_OK, DAO_LOG_LEVEL_WARNING},
                 {"", 0, DAO_OK, DAO_LOG_LEVEL_WARNING},
                 {"debug", 0, DAO_OK, DAO_LOG_LEVEL_DEBUG},
                 {"off", DAO_LOG_LEVEL_ERROR, DAO_OK, DAO_LOG_LEVEL_ERROR},
                 {"loud", 0, DAO_ERR_INVALID, 0},
                 {"loud", DAO_LOG_LEVEL_OFF, DAO_OK, DAO_LOG_LEVEL_OFF},
                 {NULL, DAO_LOG_LEVEL_OFF - 1, DAO_ERR_INVALID, 0},
                 {NULL, DAO_LOG_LEVEL_DEBUG + 1, DAO_ERR_INVALID, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_config_t config = {.log_level = (dao_log_level_t)cases[i].configured};
        dao_log_level_t level = 0;
        environment_set("DAO_LOG", cases[i].text);
        CU_ASSERT_EQUAL(dao_log_level_find(&config, &level), cases[i].status);
        CU_ASSERT_EQUAL(level, cases[i].level);
    }
    environment_set("DAO_LOG", NULL);
}

static void the_limit_of_host_memory_is_the_configs_or_the_environments(void)
{
    uint64_t bytes = 7;
    environment_set("DAO_HOST_LIMIT", "");
    CU_ASSERT_EQUAL(dao_host_limit_find(&no_config, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 0);
    environment_set("DAO_HOST_LIMIT", "2MiB");
    CU_ASSERT_EQUAL(dao_host_limit_find(&no_config, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 2 * MIB);
    CU_ASSERT_EQUAL(dao_host_limit_find(&(dao_config_t){.host_limit_bytes = 9}, &bytes), DAO_OK);
    CU_ASSERT_EQUAL(bytes, 9);
    environment_set("DAO_HOST_LIMIT", "much");
    CU_ASSERT_EQUAL(dao_host_limit_find(&no_config, &bytes), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_HOST_LIMIT"));
    environment_set("DAO_HOST_LIMIT", NULL);
}

/* ---- host memory ---- */

static void numbers_beyond_the_last_name_are_refused(void)
{
    static const dao_host_memory_config_t wrong[] = {{.huge_pages = (dao_huge_pages_t)-1},
                                                     {.huge_pages = (dao_huge_pages_t)4},
                                                     {.numa = (dao_numa_t)-1},
                                                     {.numa = (dao_numa_t)4},
                                                     {.numa = DAO_NUMA_NODE, .numa_node = -1},
                                                     {.numa = DAO_NUMA_NODE, .numa_node = DAO_NUMA_NODE_MAX}};
    dao_host_memory_config_t settings;
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CU_ASSERT_EQUAL(dao_host_memory_find(&wrong[i], &settings), DAO_ERR_INVALID);
    }
}

static void huge_pages_are_the_configs_or_the_environments(void)
{
    static const struct {
        dao_huge_pages_t config;
        const char *text;
        dao_huge_pages_t found;
    } cases[] = {{DAO_HUGE_PAGES_DEFAULT, NULL, DAO_HUGE_PAGES_ADVISE},
                 {DAO_HUGE_PAGES_NEVER, NULL, DAO_HUGE_PAGES_NEVER},
                 {DAO_HUGE_PAGES_EXPLICIT, "never", DAO_HUGE_PAGES_EXPLICIT},
                 {DAO_HUGE_PAGES_DEFAULT, "explicit", DAO_HUGE_PAGES_EXPLICIT},
                 {DAO_HUGE_PAGES_DEFAULT, "never", DAO_HUGE_PAGES_NEVER}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_host_memory_config_t settings = {0}, config = {.huge_pages = cases[i].config};
        environment_set("DAO_HOST_HUGE_PAGES", cases[i].text);
        CU_ASSERT_EQUAL(dao_host_memory_find(&config, &settings), DAO_OK);
        CU_ASSERT_EQUAL(settings.huge_pages, cases[i].found);
    }
    environment_set("DAO_HOST_HUGE_PAGES", NULL);
}

static void prefaulting_is_switched_by_0_and_1(void)
{
    static const struct {
        const char *text;
        dao_status_t status;
        bool prefaults;
    } cases[] = {{NULL, DAO_OK, false},
                 {"", DAO_OK, false},
                 {"0", DAO_OK, false},
                 {"1", DAO_OK, true},
                 {"2", DAO_ERR_INVALID, false}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_host_memory_config_t settings = {0};
        environment_set("DAO_HOST_PREFAULT", cases[i].text);
        CU_ASSERT_EQUAL(dao_host_memory_find(&no_config.host, &settings), cases[i].status);
        CU_ASSERT_TRUE(cases[i].status != DAO_OK || settings.prefault == cases[i].prefaults);
    }
    environment_set("DAO_HOST_PREFAULT", NULL);
}

/* ---- step plans ---- */

static void the_environment_says_which_steps_are_planned(void)
{
    static const struct {
        const char *text;
        dao_status_t status;
        uint32_t count;
    } cases[] = {{"", DAO_OK, 0},
                 {"0", DAO_OK, 0},
                 {"4294967295", DAO_OK, UINT32_MAX},
                 {"4294967296", DAO_ERR_INVALID, 0},
                 {"-1", DAO_ERR_INVALID, 0},
                 {"7x", DAO_ERR_INVALID, 0}};
    dao_step_plan_config_t defaults;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        environment_set("DAO_STEP_PLAN_START", cases[i].text);
        CU_ASSERT_EQUAL(dao_step_plan_find(&defaults), cases[i].status);
        CU_ASSERT_EQUAL(defaults.start_step, cases[i].count);
    }
    environment_set("DAO_STEP_PLAN_START", NULL);
    environment_set("DAO_STEP_PLAN", "");
    CU_ASSERT_EQUAL(dao_step_plan_find(&defaults), DAO_OK);
    CU_ASSERT_EQUAL(defaults.mode, DAO_STEP_PLAN_OFF);
    environment_set("DAO_STEP_PLAN", NULL);
}

static void submit_nothing(dao_plan_run_func_t run, void *argument, void *user)
{
    (void)run;
    (void)argument;
    (void)user;
}

static void who_plans_and_how_is_checked(void)
{
    static const dao_step_plan_config_t wrong[] = {
        {.mode = (dao_step_plan_mode_t)-1},
        {.worker = (dao_step_plan_worker_t)(DAO_STEP_PLAN_WORKER_CALLER - 1)},
        {.worker = (dao_step_plan_worker_t)(DAO_STEP_PLAN_WORKER_SUBMIT + 1)},
        {.worker = DAO_STEP_PLAN_WORKER_SUBMIT},
        {.worker = DAO_STEP_PLAN_WORKER_CALLER, .submit = submit_nothing},
        {.method = (dao_plan_method_t)-1},
        {.method = DAO_PLAN_METHOD_COUNT}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        CU_ASSERT_EQUAL(dao_step_plan_config_check("device:0", &wrong[i]), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:0: step_plan."));
    }
}

/* ---- being watched ---- */

static void a_process_is_watched_where_the_environment_says_so(void)
{
    bool is_watched = true;
    environment_set("DAO_WATCH", "");
    CU_ASSERT_EQUAL(dao_scoreboard_find(&is_watched), DAO_OK);
    CU_ASSERT_FALSE(is_watched);
    environment_set("DAO_WATCH", "1");
    CU_ASSERT_EQUAL(dao_scoreboard_find(&is_watched), DAO_OK);
    CU_ASSERT_TRUE(is_watched);
    environment_set("DAO_WATCH", "always");
    CU_ASSERT_EQUAL(dao_scoreboard_find(&is_watched), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_WATCH"));
    environment_set("DAO_WATCH", NULL);
}

static CU_TestInfo tests[] = {
    {"the level of the log is the config's or the environment's",
     the_level_of_the_log_is_the_configs_or_the_environments},
    {"the limit of host memory is the config's or the environment's",
     the_limit_of_host_memory_is_the_configs_or_the_environments},
    {"numbers beyond the last name are refused", numbers_beyond_the_last_name_are_refused},
    {"huge pages are the config's or the environment's", huge_pages_are_the_configs_or_the_environments},
    {"prefaulting is switched by 0 and 1", prefaulting_is_switched_by_0_and_1},
    {"the environment says which steps are planned", the_environment_says_which_steps_are_planned},
    {"who plans, and how, is checked", who_plans_and_how_is_checked},
    {"a process is watched where the environment says so",
     a_process_is_watched_where_the_environment_says_so},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"settings", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
