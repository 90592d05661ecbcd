/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the whole library: what the config says, else the environment, else a default. And whether a
   later dao_init() asks for what the first one was given. */
#include "runtime/start/settings.h"

#include "base/log.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "base/text/setting.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log ---- */

dao_status_t dao_log_level_find(const dao_config_t *config, dao_log_level_t *out_level)
{
    static const dao_named_t levels[] = {{"off", DAO_LOG_LEVEL_OFF},         {"error", DAO_LOG_LEVEL_ERROR},
                                         {"warning", DAO_LOG_LEVEL_WARNING}, {"info", DAO_LOG_LEVEL_INFO},
                                         {"debug", DAO_LOG_LEVEL_DEBUG},     {NULL, 0}};
    int level = (int)config->log_level;
    if (level < DAO_LOG_LEVEL_OFF || level > DAO_LOG_LEVEL_DEBUG) {
        return dao_error(DAO_ERR_INVALID, "log_level is %d; it goes from -1 (off) to 4 (debug)", level);
    }
    const char *text = dao_setting("DAO_LOG");
    if (level == DAO_LOG_LEVEL_DEFAULT && text != NULL &&
        dao_name_parse(levels, "level", text, &level) != DAO_OK) {
        return dao_error(DAO_ERR_INVALID, "DAO_LOG is \"%.64s\"; write off, error, warning, info or debug",
                         text);
    }
    *out_level = level == DAO_LOG_LEVEL_DEFAULT ? DAO_LOG_LEVEL_WARNING : (dao_log_level_t)level;
    return DAO_OK;
}

/* ---- strategies ---- */

static const dao_named_t strategies[] = {
#define STRATEGY_ROW(number, symbol, name, text) {name, DAO_STRATEGY_##symbol},
    DAO_STRATEGY_LIST(STRATEGY_ROW)
#undef STRATEGY_ROW
        {NULL, 0}};

const char *dao_strategy_name(dao_strategy_t strategy)
{
    return strategy == DAO_STRATEGY_DEFAULT ? "default" : dao_name_of(strategies, (int)strategy);
}

dao_status_t dao_strategy_parse(const char *text, dao_strategy_t *out_strategy)
{
    int value;
    dao_status_t status = dao_name_parse(strategies, "strategy", text, out_strategy != NULL ? &value : NULL);
    if (status == DAO_OK && out_strategy != NULL) {
        *out_strategy = (dao_strategy_t)value;
    }
    return status;
}

bool dao_strategy_is_valid(dao_strategy_t strategy)
{
    return (int)strategy >= DAO_STRATEGY_DEFAULT && (int)strategy <= (int)DAO_STRATEGY_COUNT;
}

dao_status_t dao_strategy_find(dao_strategy_t configured, dao_strategy_t *out_strategy)
{
    if (!dao_strategy_is_valid(configured)) {
        return dao_error(DAO_ERR_INVALID, "device_strategy is %d; it goes from 0 (default) to %d",
                         (int)configured, DAO_STRATEGY_COUNT);
    }
    const char *text = dao_setting("DAO_STRATEGY");
    if (configured != DAO_STRATEGY_DEFAULT || text == NULL) {
        *out_strategy = configured != DAO_STRATEGY_DEFAULT ? configured : DAO_STRATEGY_GOOD_FIT;
        return DAO_OK;
    }
    dao_status_t status = dao_strategy_parse(text, out_strategy);
    if (status != DAO_OK) {
        dao_error_prefix("DAO_STRATEGY: ");
    }
    return status;
}

/* ---- host memory ---- */

dao_status_t dao_host_limit_find(const dao_config_t *config, uint64_t *out_bytes)
{
    const char *text = dao_setting("DAO_HOST_LIMIT");
    *out_bytes = config->host_limit_bytes;
    if (config->host_limit_bytes != 0 || text == NULL) {
        return DAO_OK;
    }
    dao_status_t status = dao_units_parse_bytes(text, out_bytes);
    return status == DAO_OK
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "the environment's DAO_HOST_LIMIT: %s", dao_last_message());
}

/* ---- where host memory lies ---- */

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
    const char *text = dao_setting("DAO_HOST_NUMA");
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
    const char *text = dao_setting("DAO_HOST_HUGE_PAGES");
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
    const char *text = dao_setting("DAO_HOST_PREFAULT");
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

/* ---- unknown variables ---- */

#define PREFIX "DAO_"

/* All that the library and its plug-ins read; docs/settings.md and docs/malloc.md say what they mean. */
static const char *const variables[] = {"DAO_LOG",
                                        "DAO_STRATEGY",
                                        "DAO_HARDENING",
                                        "DAO_QUARANTINE_BYTES",
                                        "DAO_ANNOTATE",
                                        "DAO_WATCH",
                                        "DAO_RECORD",
                                        "DAO_HISTORY",
                                        "DAO_ON_OOM",
                                        "DAO_SNAPSHOT_SIGNAL",
                                        "DAO_SNAPSHOT_FILE",
                                        "DAO_HOST_LIMIT",
                                        "DAO_HOST_NUMA",
                                        "DAO_HOST_HUGE_PAGES",
                                        "DAO_HOST_PREFAULT",
                                        "DAO_STEP_PLAN",
                                        "DAO_STEP_PLAN_START",
                                        "DAO_STEP_PLAN_STABLE",
                                        "DAO_STEP_PLAN_MAX",
                                        "DAO_STEP_PLAN_STOP",
                                        "DAO_MAP_PAGES",
                                        "DAO_ALIAS_PAGES",
                                        "DAO_CPU_DEVICES",
                                        "DAO_CPU_DEVICE_BYTES",
                                        "DAO_CPU_H2D_BYTES_PER_SECOND",
                                        "DAO_CPU_D2H_BYTES_PER_SECOND",
                                        "DAO_CPU_HOST_BYTES_PER_SECOND",
                                        "DAO_CPU_COPY_LATENCY_NS",
                                        "DAO_CPU_HALF_DUPLEX",
                                        "DAO_CPU_NO_PAGE_MAPPING",
                                        "DAO_MALLOC_SMALLEST",
                                        "DAO_MALLOC_REPORT"};

#define VARIABLE_COUNT (sizeof(variables) / sizeof(variables[0]))

/* Prefixes of variables that the project's own tests and benchmarks read. */
static const char *const others[] = {"DAO_TEST", "DAO_BENCH", "DAO_RUNS"};

/* Longer names are cut before they are compared. */
#define NAME_BYTES_MAX 64

/* Returns how many letters have to be inserted, erased or replaced to make one name of the other
   (Levenshtein). `name` has at most NAME_BYTES_MAX. */
static size_t distance_of(const char *name, size_t length, const char *variable)
{
    size_t row[NAME_BYTES_MAX + 1]; /* row[j]: from what was read of the variable to j letters of the name */
    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; variable[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= length; j++) {
            size_t best = diagonal + (variable[i] != name[j - 1]);
            best = row[j] + 1 < best ? row[j] + 1 : best;
            best = row[j - 1] + 1 < best ? row[j - 1] + 1 : best;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[length];
}

/* Returns the variable whose name is nearest, and how far it is. */
static const char *nearest_of(const char *name, size_t length, size_t *out_distance)
{
    size_t nearest = 0;
    *out_distance = SIZE_MAX;
    length = length < NAME_BYTES_MAX ? length : NAME_BYTES_MAX;
    for (size_t i = 0; i < VARIABLE_COUNT; i++) {
        size_t distance = distance_of(name, length, variables[i]);
        if (distance < *out_distance) {
            nearest = i;
            *out_distance = distance;
        }
    }
    return variables[nearest];
}

static bool is_of_others(const char *name)
{
    bool is_others = strncmp(name, PREFIX, sizeof(PREFIX) - 1) != 0;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        is_others = is_others || strncmp(name, others[i], strlen(others[i])) == 0;
    }
    return is_others;
}

void dao_environment_check(char *const *environment_lines)
{
    bool is_trusted = dao_settings_are_trusted();
    for (char *const *line = environment_lines; line != NULL && *line != NULL; line++) {
        size_t length = strcspn(*line, "=");
        size_t distance = 0;
        if (is_of_others(*line)) {
            continue;
        }
        const char *nearest = nearest_of(*line, length, &distance);
        if (!is_trusted) {
            dao_log(DAO_LOG_LEVEL_INFO,
                    "the environment's DAO_ variables are not read: this process has more rights than who "
                    "started it");
            return;
        }
        if (distance > 0) {
            dao_log(DAO_LOG_LEVEL_WARNING,
                    "the environment's %.*s is not known, the nearest is %s; docs/settings.md has all",
                    (int)(length < NAME_BYTES_MAX ? length : NAME_BYTES_MAX), *line, nearest);
        }
    }
}

/* ---- a later dao_init() ---- */

/* The settings that are numbers, as messages name them, and how they are printed; but for host.numa_node, of
   which 0 is one like any other. */
#define SETTING_LIST(X)                                                                                      \
    X(cpu.device_count, PRId32)                                                                              \
    X(cpu.device_bytes, PRIu64)                                                                              \
    X(cpu.h2d_bytes_per_second, PRIu64)                                                                      \
    X(cpu.d2h_bytes_per_second, PRIu64)                                                                      \
    X(cpu.host_bytes_per_second, PRIu64)                                                                     \
    X(cpu.copy_latency_ns, PRIu64)                                                                           \
    X(cpu.half_duplex, "d")                                                                                  \
    X(cpu.no_page_mapping, "d")                                                                              \
    X(host.numa, "d")                                                                                        \
    X(host.huge_pages, "d")                                                                                  \
    X(host.prefault, "d")                                                                                    \
    X(host_limit_bytes, PRIu64)                                                                              \
    X(log_level, "d")                                                                                        \
    X(hardening, "#" PRIx32)                                                                                 \
    X(quarantine_bytes, "zu")                                                                                \
    X(device_strategy, "d")

#define SAY_FIRST "; say it in the first dao_init(), before any other call"

dao_status_t dao_settings_check(const dao_config_t *wanted, const dao_config_t *started)
{
#define SETTING_CHECK(setting, format)                                                                       \
    if (wanted->setting != 0 && started->setting == 0) {                                                     \
        return dao_error(DAO_ERR_BUSY,                                                                       \
                         "dao_init: " #setting " is %" format                                                \
                         ", but the library was started without it" SAY_FIRST,                               \
                         wanted->setting);                                                                   \
    }                                                                                                        \
    if (wanted->setting != 0 && wanted->setting != started->setting) {                                       \
        return dao_error(DAO_ERR_BUSY,                                                                       \
                         "dao_init: " #setting " is %" format                                                \
                         ", but the library was started with %" format SAY_FIRST,                            \
                         wanted->setting, started->setting);                                                 \
    }
    SETTING_LIST(SETTING_CHECK)
#undef SETTING_CHECK
    if (wanted->host.numa == DAO_NUMA_NODE && wanted->host.numa_node != started->host.numa_node) {
        return dao_error(DAO_ERR_BUSY,
                         "dao_init: host.numa_node is %" PRId32
                         ", but the library was started with %" PRId32 SAY_FIRST,
                         wanted->host.numa_node, started->host.numa_node);
    }
    if (wanted->log_callback != NULL &&
        (wanted->log_callback != started->log_callback || wanted->log_user != started->log_user)) {
        return dao_error(DAO_ERR_BUSY, "dao_init: log_callback or log_user is another than the library was "
                                       "started with" SAY_FIRST);
    }
    return DAO_OK;
}
