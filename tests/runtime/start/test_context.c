/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and stopping: counts, races, what is left over, and what outlives the library. */
#define _GNU_SOURCE
#include <dao/dao.h>

#include "base/report/fault.h"
#include "runtime/start/context.h"
#include "runtime/start/settings.h"
#include "tests/support/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define THREADS    8
#define LINES_MAX  64
#define LINE_BYTES 1024

/* ---- a backend that counts how often it is opened and closed ---- */

static dao_backend_ops_t counting;
static _Atomic int open_count;
static _Atomic int device_open_count;

static dao_status_t counting_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    dao_status_t status = dao_backend_ops()->open(config, out_backend);
    open_count += status == DAO_OK;
    return status;
}

static void counting_close(dao_backend_t *backend)
{
    open_count--;
    dao_backend_ops()->close(backend);
}

static dao_status_t counting_device_open(dao_backend_t *backend, int32_t index,
                                         dao_backend_device_t **out_device)
{
    dao_status_t status = dao_backend_ops()->device_open(backend, index, out_device);
    device_open_count += status == DAO_OK;
    return status;
}

static void counting_device_close(dao_backend_device_t *device)
{
    device_open_count--;
    dao_backend_ops()->device_close(device);
}

static const dao_backend_ops_t *counting_ops(void)
{
    counting = *dao_backend_ops();
    counting.open = counting_open;
    counting.close = counting_close;
    counting.device_open = counting_device_open;
    counting.device_close = counting_device_close;
    return &counting;
}

/* ---- a log that keeps its lines ---- */

typedef struct lines {
    char text[LINES_MAX][LINE_BYTES];
    int count;
    bool calls_back; /* the callback allocates, too */
} lines_t;

static lines_t lines;

static void keep_line(dao_log_level_t level, const char *message, void *user)
{
    lines_t *kept = user;
    (void)level;
    if (kept->count < LINES_MAX) {
        (void)snprintf(kept->text[kept->count++], LINE_BYTES, "%s", message);
    }
    if (kept->calls_back) {
        CU_ASSERT_PTR_NULL(dao_alloc(dao_cpu_place(), 16));
        CU_ASSERT_NOT_EQUAL(dao_init(NULL), DAO_OK);
        CU_ASSERT_NOT_EQUAL(dao_finalize(), DAO_OK);
    }
}

/* Counts the kept lines that contain all of up to three texts. */
static int lines_with(const char *first, const char *second, const char *third)
{
    int count = 0;
    for (int i = 0; i < lines.count; i++) {
        count += strstr(lines.text[i], first) != NULL && strstr(lines.text[i], second) != NULL &&
                 strstr(lines.text[i], third) != NULL;
    }
    return count;
}

static dao_config_t config_small(void)
{
    dao_config_t config = {.cpu = {.device_count = 2, .device_bytes = 64 * MIB}};
    return config;
}

static dao_config_t config_logging(void)
{
    dao_config_t config = config_small();
    memset(&lines, 0, sizeof(lines));
    config.log_callback = keep_line;
    config.log_user = &lines;
    config.log_level = DAO_LOG_LEVEL_WARNING;
    return config;
}

/* ---- counts ---- */

static void before_any_start_there_is_nothing_to_stop(void) /* the first test of all */
{
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_SHUTDOWN);
}

static void any_call_starts_it_until_it_was_finalized(void) /* the first that starts it */
{
    void *block = dao_alloc(dao_cpu_place(), 100);
    CU_ASSERT_PTR_NOT_NULL_FATAL(block);
    CU_ASSERT_EQUAL(dao_free(dao_cpu_place(), block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_cpu_place(), 100));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_SHUTDOWN);
}

static void every_init_is_undone_by_one_finalize(void)
{
    dao_config_t config = config_small();
    int32_t count = -1;
    CU_ASSERT_EQUAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_init(NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_count(&count), DAO_OK);
    CU_ASSERT_EQUAL(count, 2);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_SHUTDOWN);
}

/* Expects a later dao_init() to be refused by a message that names this. */
static void expect_refused(const dao_config_t *config, const char *name)
{
    CU_ASSERT_EQUAL(dao_init(config), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), name));
}

static void a_later_init_asks_for_nothing_else(void)
{
    dao_config_t started = config_logging();
    started.host = (dao_host_memory_config_t){.numa = DAO_NUMA_NODE, .numa_node = 1};
    CU_ASSERT_EQUAL_FATAL(dao_init(&started), DAO_OK);
    dao_config_t later = started;
    CU_ASSERT_EQUAL(dao_init(&later), DAO_OK);
    later.cpu.device_count++;
    expect_refused(&later, "cpu.device_count is 3, but the library was started with 2");
    later = started;
    later.host.numa_node = 0;
    expect_refused(&later, "host.numa_node is 0, but the library was started with 1");
    later = started;
    later.log_user = &later;
    expect_refused(&later, "log_user");
    later = (dao_config_t){.cpu.device_count = -1};
    expect_refused(&later, "cpu.device_count is -1, but the library was started with 2");
    later = (dao_config_t){.hardening = DAO_HARDENING_GUARD};
    expect_refused(&later, "hardening is 0x1, but the library was started without it");
    later = (dao_config_t){.cpu.device_bytes = started.cpu.device_bytes}; /* the rest is left open */
    CU_ASSERT_EQUAL(dao_init(&later), DAO_OK);
    for (int i = 0; i < 3; i++) { /* refused ones are not counted */
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_SHUTDOWN);
}

static void after_the_end_every_call_says_so(void)
{
    dao_place_t device = dao_place_of(dao_device_place(0));
    char byte = 0;
    int32_t count = -1;
    dao_device_info_t info;
    dao_stats_t stats;
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    dao_memory_t *memory = NULL;
    dao_tensor_t *tensor = NULL;
    CU_ASSERT_EQUAL(dao_device_count(&count), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_device_query(0, &info), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_device_set_current(0), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_device_synchronize(0), DAO_ERR_SHUTDOWN);
    CU_ASSERT_PTR_NULL(dao_alloc(device, 1));
    CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_free(device, &byte), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_free(device, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_used(device), 0);
    CU_ASSERT_EQUAL(dao_trim(device, 0, NULL), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_limit_set(device, 0), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_copy(device, &byte, device, &byte, 1), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_stats_get(device, &stats), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_stats_reset_peaks(device), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_stream_create(0, &stream), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_stream_get(0, DAO_STREAM_ROLE_H2D, &stream), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_event_create(0, &event), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_memory_create(device, 1, NULL, &memory), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_memory_from_pointer(device, &byte, 1, NULL, NULL, &memory), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(dao_tensor_empty(device, DAO_TYPE_U8, 0, NULL, &tensor), DAO_ERR_SHUTDOWN);
    CU_ASSERT_STRING_EQUAL(dao_backend_name(), dao_backend_ops()->name);
}

static void settings_that_are_not_valid_are_named(void)
{
    dao_config_t config = config_small();
    config.log_level = (dao_log_level_t)5;
    CU_ASSERT_EQUAL(dao_init(&config), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "log_level"));
    config = config_small();
    CU_ASSERT_EQUAL(setenv("DAO_LOG", "loud", 1), 0);
    CU_ASSERT_EQUAL(dao_init(&config), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "DAO_LOG"));
    CU_ASSERT_EQUAL(setenv("DAO_LOG", "info", 1), 0);
    memset(&lines, 0, sizeof(lines));
    config.log_callback = keep_line;
    config.log_user = &lines;
    CU_ASSERT_EQUAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(unsetenv("DAO_LOG"), 0);
    CU_ASSERT_EQUAL(lines_with("started", dao_backend_name(), "2 devices"), 1);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* Every setting that a later dao_init() may not change: the same value and none are taken, another one and
   one that was not said are refused with its name. */
static void a_later_start_with_another_setting_is_refused(void)
{
#define REFUSED(setting, first, other)                                                                       \
    {                                                                                                        \
        dao_config_t none = {0}, one = {0}, two = {0};                                                       \
        one.setting = (first);                                                                               \
        two.setting = (other);                                                                               \
        CU_ASSERT_EQUAL(dao_settings_check(&one, &one), DAO_OK);                                             \
        CU_ASSERT_EQUAL(dao_settings_check(&none, &one), DAO_OK);                                            \
        CU_ASSERT_EQUAL(dao_settings_check(&one, &none), DAO_ERR_BUSY);                                      \
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), #setting));                                        \
        CU_ASSERT_EQUAL(dao_settings_check(&two, &one), DAO_ERR_BUSY);                                       \
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), #setting));                                        \
    }
    REFUSED(cpu.device_count, 1, 2)
    REFUSED(cpu.device_bytes, 1, 2)
    REFUSED(cpu.h2d_bytes_per_second, 1, 2)
    REFUSED(cpu.d2h_bytes_per_second, 1, 2)
    REFUSED(cpu.host_bytes_per_second, 1, 2)
    REFUSED(cpu.copy_latency_ns, 1, 2)
    REFUSED(host.numa, DAO_NUMA_LOCAL, DAO_NUMA_INTERLEAVE)
    REFUSED(host.huge_pages, DAO_HUGE_PAGES_ADVISE, DAO_HUGE_PAGES_EXPLICIT)
    REFUSED(host_limit_bytes, 1, 2)
    REFUSED(log_level, DAO_LOG_LEVEL_ERROR, DAO_LOG_LEVEL_INFO)
    REFUSED(hardening, 1, 2)
    REFUSED(quarantine_bytes, 1, 2)
    REFUSED(device_strategy, (dao_strategy_t)1, (dao_strategy_t)2)
#undef REFUSED
    dao_config_t none = {0}, node = {.host = {.numa = DAO_NUMA_NODE, .numa_node = 0}}, other = node;
    other.host.numa_node = 1;
    CU_ASSERT_EQUAL(dao_settings_check(&other, &node), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "host.numa_node"));
    dao_config_t logs = {.log_callback = keep_line},
                 logs_elsewhere = {.log_callback = keep_line, .log_user = &lines};
    CU_ASSERT_EQUAL(dao_settings_check(&logs, &logs), DAO_OK);
    CU_ASSERT_EQUAL(dao_settings_check(&logs, &none), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(dao_settings_check(&logs, &logs_elsewhere), DAO_ERR_BUSY);
    dao_config_t switches = {.cpu = {.half_duplex = true, .no_page_mapping = true},
                             .host = {.prefault = true}};
    CU_ASSERT_EQUAL(dao_settings_check(&switches, &switches), DAO_OK);
    CU_ASSERT_EQUAL(dao_settings_check(&switches, &none), DAO_ERR_BUSY);
}

/* DAO_HOST_NUMA with each form of it, and with what is near to one. */
static void a_numa_node_is_read_from_the_environment(void)
{
    static const struct {
        const char *text;
        dao_status_t status;
        dao_numa_t numa;
        int32_t node;
    } rows[] = {{"local", DAO_OK, DAO_NUMA_LOCAL, 0},
                {"interleave", DAO_OK, DAO_NUMA_INTERLEAVE, 0},
                {"node:0", DAO_OK, DAO_NUMA_NODE, 0},
                {"node:5", DAO_OK, DAO_NUMA_NODE, 5},
                {"node:1023", DAO_OK, DAO_NUMA_NODE, 1023},
                {"node:1024", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0},
                {"node:", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0},
                {"node:-1", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0},
                {"node:x", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0},
                {"node:1x", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0},
                {"nod", DAO_ERR_INVALID, DAO_NUMA_DEFAULT, 0}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        dao_host_memory_config_t none = {0}, found = {0};
        CU_ASSERT_EQUAL(setenv("DAO_HOST_NUMA", rows[i].text, 1), 0);
        CU_ASSERT_EQUAL(dao_host_memory_find(&none, &found), rows[i].status);
        CU_ASSERT_TRUE(rows[i].status != DAO_OK ||
                       (found.numa == rows[i].numa && found.numa_node == rows[i].node));
        CU_ASSERT_TRUE(rows[i].status == DAO_OK || strstr(dao_last_message(), rows[i].text) != NULL);
    }
    CU_ASSERT_EQUAL(unsetenv("DAO_HOST_NUMA"), 0);
}

/* What a program sees of a mistake in a variable's name: the nearest one. */
static void unknown_variables_are_told_with_the_nearest_name(void)
{
    char *environment[] = {"DAO_LOG=debug",
                           "DAO_LOGG=debug",
                           "DAO_CPU_DEVICE=3",
                           "DAO_harden",
                           "DAO_TEST_SEED=1",
                           "DAO_STEP_PLAN_START=100",
                           "PATH=/bin",
                           "DAO_=",
                           "XDAO_STRATEGY=no",
                           "DAO_MALLOC_REPORT=x",
                           NULL};
    dao_config_t config = config_logging();
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    dao_environment_check(environment);
    CU_ASSERT_EQUAL(lines.count, 4);
    CU_ASSERT_EQUAL(lines_with("DAO_LOGG is not known", "nearest is DAO_LOG;", "docs/settings.md"), 1);
    CU_ASSERT_EQUAL(lines_with("DAO_CPU_DEVICE is not known", "nearest is DAO_CPU_DEVICES;", ""), 1);
    CU_ASSERT_EQUAL(lines_with("DAO_harden is not known", "nearest is DAO_", ""), 1);
    CU_ASSERT_EQUAL(lines_with("DAO_ is not known", "", ""), 1);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* The table of documented settings is the table of known ones. */
static void every_documented_variable_is_known(void)
{
    FILE *file = fopen(DAO_TEST_SOURCE_DIR "/docs/settings.md", "r");
    char line[1024], name[64];
    int count = 0;
    dao_config_t config = config_logging();
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    while (fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "| `%63[A-Z0-9_]` |", name) == 1 && strncmp(name, "DAO_", 4) == 0) {
            char *environment[] = {name, NULL};
            dao_environment_check(environment);
            count++;
        }
    }
    CU_ASSERT_EQUAL(fclose(file), 0);
    CU_ASSERT_TRUE(count >= 20);
    CU_ASSERT_EQUAL(lines.count, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* A program may ask until it is refused: the first refusal at a place is a warning, the others are not. */
static void refusals_are_logged(void)
{
    dao_device_place_t device = dao_device_place(0);
    for (int level = DAO_LOG_LEVEL_WARNING; level <= DAO_LOG_LEVEL_DEBUG; level += 2) {
        dao_config_t config = config_logging();
        config.log_level = (dao_log_level_t)level;
        int shown = level == DAO_LOG_LEVEL_DEBUG ? 3 : 1;
        CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
        for (int i = 0; i < 3; i++) {
            CU_ASSERT_PTR_NULL(dao_alloc(device, 100 * MIB));
            CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_NO_DEVICE_MEMORY);
            CU_ASSERT_EQUAL(dao_free(device, &lines), DAO_ERR_FOREIGN_POINTER);
            CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(1), 100 * MIB));
        }
        CU_ASSERT_EQUAL(lines_with("device:0", "bytes asked for", ""), shown);
        CU_ASSERT_EQUAL(lines_with("device:0", "cannot be freed", ""), shown);
        CU_ASSERT_EQUAL(lines_with("device:1", "bytes asked for", ""), shown);
        CU_ASSERT_EQUAL(lines_with("the first of the refused allocations", "DAO_LOG=debug", ""), 2);
        CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    }
}

static dao_status_t many_devices(dao_backend_t *backend, int32_t *out_count)
{
    (void)backend;
    *out_count = DAO_DEVICE_COUNT_MAX + 1;
    return DAO_OK;
}

static void a_bad_table_starts_nothing(void)
{
    dao_config_t config = config_small();
    dao_backend_ops_t ops = *counting_ops();
    ops.copy = NULL;
    CU_ASSERT_EQUAL(dao_context_start(&config, &ops), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "copy"));
    CU_ASSERT_EQUAL(dao_context_start(&config, NULL), DAO_ERR_INVALID);
    ops = *counting_ops();
    ops.device_count = many_devices;
    CU_ASSERT_EQUAL(dao_context_start(&config, &ops), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "65"));
    CU_ASSERT_EQUAL(open_count, 0);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_SHUTDOWN);
}

/* ---- devices ---- */

static void devices_are_there_and_no_others(void)
{
    dao_config_t config = config_small();
    dao_device_info_t info;
    memset(&info, 0, sizeof(info));
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_query(1, &info), DAO_OK);
    CU_ASSERT_EQUAL(info.total_bytes, 64 * MIB);
    CU_ASSERT_TRUE(info.alignment_bytes >= 256);
    CU_ASSERT_EQUAL(dao_device_query(2, &info), DAO_ERR_NO_DEVICE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "device:2"));
    CU_ASSERT_EQUAL(dao_device_query(-1, &info), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_device_query(0, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_device_count(NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_device_synchronize(INT32_MAX), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void *see_own_device(void *user)
{
    *(bool *)user = dao_device_get_current() == 0 && dao_device_set_current(0) == DAO_OK;
    return NULL;
}

static void each_thread_has_its_own_device(void)
{
    dao_config_t config = config_small();
    bool was_own = false;
    dao_thread_t thread;
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_get_current(), 0);
    CU_ASSERT_EQUAL(dao_device_set_current(1), DAO_OK);
    CU_ASSERT_EQUAL(dao_device_set_current(2), DAO_ERR_NO_DEVICE);
    CU_ASSERT_EQUAL(dao_device_get_current(), 1);
    CU_ASSERT_EQUAL_FATAL(dao_thread_start(&thread, "own device", see_own_device, &was_own), DAO_OK);
    dao_thread_join(&thread);
    CU_ASSERT_TRUE(was_own);
    CU_ASSERT_EQUAL(dao_device_get_current(), 1);
    CU_ASSERT_EQUAL(dao_device_set_current(0), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

/* ---- races ---- */

static void *use_first(void *user)
{
    dao_runtime_t *runtime = NULL;
    if (dao_runtime_acquire(1, &runtime) == DAO_OK) {
        dao_runtime_release(runtime);
    }
    *(dao_runtime_t **)user = runtime;
    return NULL;
}

static void a_device_starts_once_however_many_use_it_first(void)
{
    dao_config_t config = config_small();
    dao_runtime_t *runtimes[THREADS] = {NULL};
    dao_thread_t threads[THREADS];
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "first use", use_first, &runtimes[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_PTR_NOT_NULL(runtimes[i]);
        CU_ASSERT_PTR_EQUAL(runtimes[i], runtimes[0]);
    }
    CU_ASSERT_EQUAL(device_open_count, 1);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(device_open_count, 0);
    CU_ASSERT_EQUAL(open_count, 0);
}

static void *start_and_stop(void *user)
{
    bool is_good = true;
    for (int i = 0; i < 20; i++) {
        dao_config_t config = config_small();
        is_good = is_good && dao_context_start(&config, &counting) == DAO_OK;
        void *block = dao_alloc(dao_device_place(i % 2), 1000);
        is_good = is_good && block != NULL && dao_free(dao_device_place(i % 2), block) == DAO_OK;
        is_good = is_good && dao_finalize() == DAO_OK;
    }
    *(bool *)user = is_good;
    return NULL;
}

static void init_and_finalize_may_race(void)
{
    bool good[THREADS] = {false};
    dao_thread_t threads[THREADS];
    (void)counting_ops();
    for (int i = 0; i < THREADS; i++) {
        CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "start stop", start_and_stop, &good[i]), DAO_OK);
    }
    for (int i = 0; i < THREADS; i++) {
        dao_thread_join(&threads[i]);
        CU_ASSERT_TRUE(good[i]);
    }
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL(open_count, 0);
    CU_ASSERT_EQUAL(device_open_count, 0);
}

/* ---- what is left ---- */

static void what_is_left_is_reported_line_by_line(void)
{
    dao_config_t config = config_logging();
    dao_memory_t *memory = NULL;
    dao_memory_t *foreign = NULL;
    dao_stream_t *stream = NULL;
    dao_event_t *event = NULL;
    char bytes[64];
    char address[32];
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    void *host_block = dao_alloc(dao_cpu_place(), 1234);
    void *device_block = dao_alloc(dao_device_place(1), 5000);
    void *pinned_block = dao_alloc(dao_pinned_place(0), 777);
    CU_ASSERT_PTR_NOT_NULL(host_block);
    CU_ASSERT_PTR_NOT_NULL(pinned_block);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 4321, NULL, &memory), DAO_OK);
    CU_ASSERT_EQUAL(
        dao_memory_from_pointer(dao_place_of(dao_cpu_place()), bytes, sizeof(bytes), NULL, NULL, &foreign),
        DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_create(1, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_event_create(1, &event), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "7 "));
    CU_ASSERT_EQUAL(lines.count, 7);
    CU_ASSERT_EQUAL(lines_with("block", "1234 asked for", "cpu"), 1);
    (void)snprintf(address, sizeof(address), "%p", device_block);
    CU_ASSERT_EQUAL(lines_with(address, "5000 asked for", "device:1"), 1);
    CU_ASSERT_EQUAL(lines_with("block", "777 asked for", "pinned:0"), 1);
    CU_ASSERT_EQUAL(lines_with("block", "4321 asked for", "device:0"), 1);
    CU_ASSERT_EQUAL(lines_with("memory handle", "64 bytes", "cpu"), 1);
    CU_ASSERT_EQUAL(lines_with("stream", "", "device:1"), 1);
    CU_ASSERT_EQUAL(lines_with("event", "", "device:1"), 1);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(foreign), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_synchronize(stream), DAO_OK);
    dao_stream_destroy(stream);
    dao_event_destroy(event);
}

static void the_log_callback_may_call_the_library(void)
{
    dao_config_t config = config_logging();
    CU_ASSERT_EQUAL_FATAL(dao_init(&config), DAO_OK);
    CU_ASSERT_PTR_NOT_NULL(dao_alloc(dao_cpu_place(), 10));
    lines.calls_back = true;
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(lines.count, 1);
    lines.calls_back = false;
}

static void handles_keep_what_they_need_after_the_end(void)
{
    dao_config_t config = config_small();
    dao_memory_t *device = NULL;
    dao_memory_t *host = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 100, NULL, &device), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_cpu_place()), 100, NULL, &host), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL(open_count, 1);
    CU_ASSERT_EQUAL(device_open_count, 1);
    memset(dao_memory_address(host), 1, 100);
    CU_ASSERT_EQUAL(dao_memory_retain(device), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(device), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_release(device), DAO_OK);
    CU_ASSERT_EQUAL(device_open_count, 0);
    CU_ASSERT_EQUAL(open_count, 1);
    CU_ASSERT_EQUAL(dao_memory_release(host), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
}

/* A log callback that stops the library at the first line about a device. */
static void stop_at_device_line(dao_log_level_t level, const char *message, void *user)
{
    (void)level;
    dao_status_t *status = user;
    if (*status == DAO_OK && strstr(message, "device:0 started") != NULL) {
        *status = dao_finalize();
    }
}

static void a_device_that_starts_is_not_stopped_by_its_log_line(void)
{
    dao_status_t status = DAO_OK;
    dao_config_t config = config_small();
    config.log_callback = stop_at_device_line;
    config.log_user = &status;
    config.log_level = DAO_LOG_LEVEL_INFO;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    void *block = dao_alloc(dao_device_place(0), 1000);
    CU_ASSERT_EQUAL(status, DAO_ERR_REENTRANT);
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_PTR_NULL(dao_alloc(dao_device_place(0), 1000));
    CU_ASSERT_EQUAL(device_open_count, 0);
}

static void a_stream_of_an_earlier_start_is_refused(void)
{
    dao_config_t config = config_small();
    dao_stream_t *stream = NULL;
    dao_memory_t *memory = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &stream), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    dao_place_t place = dao_place_of(dao_device_place(0));
    CU_ASSERT_EQUAL(dao_memory_create(place, 1000, stream, &memory), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_memory_release(memory), DAO_OK);
    char byte = 0;
    CU_ASSERT_EQUAL(dao_stream_copy(stream, dao_place_of(dao_device_place(1)), &byte, place, &byte, 1),
                    DAO_ERR_INVALID);
    dao_stream_destroy(stream);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
}

#define HANDLES 50

static void *release_all(void *user)
{
    dao_memory_t **memories = user;
    for (int i = 0; i < HANDLES; i++) {
        CU_ASSERT_EQUAL(dao_memory_release(memories[i]), DAO_OK);
    }
    return NULL;
}

static void releases_may_race_with_finalize(void)
{
    static const dao_place_t places[] = {
        {DAO_PLACE_KIND_CPU, 0}, {DAO_PLACE_KIND_PINNED, 1}, {DAO_PLACE_KIND_DEVICE, 0}};
    static dao_memory_t *memories[THREADS][HANDLES];
    for (int round = 0; round < 5; round++) {
        dao_config_t config = config_logging();
        dao_thread_t threads[THREADS];
        CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
        for (int i = 0; i < THREADS * HANDLES; i++) {
            CU_ASSERT_EQUAL_FATAL(
                dao_memory_create(places[i % 3], 1000, NULL, &memories[i / HANDLES][i % HANDLES]), DAO_OK);
        }
        for (int i = 0; i < THREADS; i++) {
            CU_ASSERT_EQUAL_FATAL(dao_thread_start(&threads[i], "release", release_all, memories[i]), DAO_OK);
        }
        dao_status_t status = dao_finalize();
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_BUSY);
        for (int i = 0; i < THREADS; i++) {
            dao_thread_join(&threads[i]);
        }
        CU_ASSERT_EQUAL(open_count, 0);
        CU_ASSERT_EQUAL(device_open_count, 0);
    }
}

static void a_handle_of_an_earlier_start_does_not_disturb_the_next(void)
{
    dao_config_t config = config_small();
    dao_memory_t *old = NULL;
    dao_memory_t *young = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 100, NULL, &old), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &counting), DAO_OK);
    CU_ASSERT_EQUAL(dao_memory_create(dao_place_of(dao_device_place(0)), 100, NULL, &young), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 2);
    CU_ASSERT_EQUAL(dao_memory_release(old), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 1);
    CU_ASSERT_EQUAL(dao_memory_release(young), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
}

/* The block is none, for a reason. */
static void expect_no_block(dao_place_t place, dao_stream_t *stream, dao_status_t reason)
{
    CU_ASSERT_PTR_NULL(dao_alloc_async(place, 1000, stream));
    CU_ASSERT_EQUAL(dao_last_status(), reason);
}

static void a_stream_orders_memory_of_its_own_device_and_start_alone(void)
{
    static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};
    static const dao_place_t device_0 = {DAO_PLACE_KIND_DEVICE, 0}, device_1 = {DAO_PLACE_KIND_DEVICE, 1};
    dao_config_t config = config_small();
    dao_stream_t *old = NULL;
    dao_place_t no_place;
    memset(&no_place, 0xff, sizeof(no_place));
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_stream_create(0, &old), DAO_OK);
    for (int i = 0; i < 2; i++) { /* the second one takes the fast path */
        void *block = dao_alloc_async(device_0, 1000, old);
        CU_ASSERT_PTR_NOT_NULL(block);
        CU_ASSERT_EQUAL(dao_free_async(device_0, block, old), DAO_OK);
    }
    expect_no_block(device_1, old, DAO_ERR_INVALID);
    expect_no_block(host, old, DAO_ERR_UNSUPPORTED);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_ERR_BUSY);
    expect_no_block(device_0, old, DAO_ERR_SHUTDOWN);
    expect_no_block(host, old, DAO_ERR_SHUTDOWN);
    expect_no_block(no_place, old, DAO_ERR_SHUTDOWN);
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, &counting), DAO_OK);
    void *young = dao_alloc(dao_device_place(0), 1000);
    CU_ASSERT_PTR_NOT_NULL(young);
    expect_no_block(device_0, old, DAO_ERR_INVALID);
    expect_no_block(no_place, old, DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_free_async(device_0, young, old), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), young), DAO_OK);
    CU_ASSERT_EQUAL(dao_stream_destroy(old), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
}

static void a_runtime_outlives_the_context(void)
{
    dao_config_t config = config_small();
    dao_runtime_t *runtime = NULL;
    void *block = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_runtime_acquire(0, &runtime), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, DAO_PLACE_KIND_DEVICE);
    CU_ASSERT_EQUAL(dao_allocator_alloc(allocator, 100, &block), DAO_OK);
    CU_ASSERT_EQUAL(dao_allocator_free(allocator, block), DAO_OK);
    dao_runtime_release(runtime);
    CU_ASSERT_EQUAL(open_count, 0);
}

/* ---- what can run out ---- */

#if defined(DAO_FAULTS)
static void init_survives_any_missing_resource(void)
{
    dao_config_t config = config_small();
    const dao_backend_ops_t *ops = counting_ops();
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t n = 0; status != DAO_OK && n < 1000; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        status = dao_context_start(&config, ops);
        uint64_t fired_count = dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || fired_count > 0);
        CU_ASSERT_EQUAL(open_count, status == DAO_OK);
        CU_ASSERT_TRUE(status == DAO_OK || dao_finalize() == DAO_ERR_SHUTDOWN);
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
}

static void a_device_that_could_not_start_starts_later(void)
{
    dao_config_t config = config_small();
    CU_ASSERT_EQUAL_FATAL(dao_context_start(&config, counting_ops()), DAO_OK);
    void *block = NULL;
    for (uint64_t n = 0; block == NULL && n < 1000; n++) {
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        block = dao_alloc(dao_device_place(0), 1000);
        uint64_t fired_count = dao_fault_disarm();
        CU_ASSERT_TRUE(block != NULL || fired_count > 0);
        CU_ASSERT_TRUE(block != NULL || dao_used(dao_device_place(0)) == 0);
    }
    CU_ASSERT_PTR_NOT_NULL(block);
    CU_ASSERT_EQUAL(dao_free(dao_device_place(0), block), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(open_count, 0);
    CU_ASSERT_EQUAL(device_open_count, 0);
}
#endif

/* Tests and tools start the library with a table of their own: the first one stays. */
static void a_start_with_another_table_is_refused(void)
{
    const dao_backend_ops_t *ops = dao_backend_ops();
    dao_backend_ops_t other = *ops;
    CU_ASSERT_EQUAL_FATAL(dao_context_start(NULL, ops), DAO_OK);
    CU_ASSERT_EQUAL(dao_context_start(NULL, &other), DAO_ERR_BUSY);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "another table"));
    CU_ASSERT_EQUAL(dao_context_start(NULL, ops), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK);
    CU_ASSERT_EQUAL(dao_finalize(), DAO_OK); /* one for each start that was not refused */
    CU_ASSERT_NOT_EQUAL(dao_finalize(), DAO_OK);
}

static CU_TestInfo tests[] = {
    {"before any start there is nothing to stop", before_any_start_there_is_nothing_to_stop},
    {"any call starts it until it was finalized", any_call_starts_it_until_it_was_finalized},
    {"every init is undone by one finalize", every_init_is_undone_by_one_finalize},
    {"a start with another table is refused", a_start_with_another_table_is_refused},
    {"a later init asks for nothing else", a_later_init_asks_for_nothing_else},
    {"after the end every call says so", after_the_end_every_call_says_so},
    {"settings that are not valid are named", settings_that_are_not_valid_are_named},
    {"a NUMA node is read from the environment", a_numa_node_is_read_from_the_environment},
    {"a later start with another setting is refused", a_later_start_with_another_setting_is_refused},
    {"unknown variables are told with the nearest name", unknown_variables_are_told_with_the_nearest_name},
    {"every documented variable is known", every_documented_variable_is_known},
    {"refusals are logged", refusals_are_logged},
    {"a bad table starts nothing", a_bad_table_starts_nothing},
    {"devices are there and no others", devices_are_there_and_no_others},
    {"each thread has its own device", each_thread_has_its_own_device},
    {"a device starts once however many use it first", a_device_starts_once_however_many_use_it_first},
    {"init and finalize may race", init_and_finalize_may_race},
    {"what is left is reported line by line", what_is_left_is_reported_line_by_line},
    {"the log callback may call the library", the_log_callback_may_call_the_library},
    {"handles keep what they need after the end", handles_keep_what_they_need_after_the_end},
    {"a device that starts is not stopped by its log line",
     a_device_that_starts_is_not_stopped_by_its_log_line},
    {"a stream of an earlier start is refused", a_stream_of_an_earlier_start_is_refused},
    {"releases may race with finalize", releases_may_race_with_finalize},
    {"a handle of an earlier start does not disturb the next",
     a_handle_of_an_earlier_start_does_not_disturb_the_next},
    {"a stream orders memory of its own device and start alone",
     a_stream_orders_memory_of_its_own_device_and_start_alone},
    {"a runtime outlives the context", a_runtime_outlives_the_context},
#if defined(DAO_FAULTS)
    {"init survives any missing resource", init_survives_any_missing_resource},
    {"a device that could not start starts later", a_device_that_could_not_start_starts_later},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"context", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
