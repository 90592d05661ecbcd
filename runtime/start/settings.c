/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the whole library: what the config says, else the environment, else a default. And whether a
   later dao_init() asks for what the first one was given. */
#include "runtime/start/settings.h"

#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/report/names.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the log ---- */

dao_status_t dao_log_level_find(const dao_config_t *config, dao_log_level_t *out_level)
{
    static const char *const texts[] = {"error", "warning", "info", "debug"};
    int level = (int)config->log_level;
    if (level < DAO_LOG_LEVEL_ERROR || level > DAO_LOG_LEVEL_DEBUG) {
        return dao_error(DAO_ERR_INVALID, "log_level is %d; it goes from 0 (error) to 3 (debug)", level);
    }
    const char *text = getenv("DAO_LOG");
    *out_level = config->log_level;
    if (level != DAO_LOG_LEVEL_ERROR || text == NULL || text[0] == '\0') {
        return DAO_OK;
    }
    for (int i = DAO_LOG_LEVEL_ERROR; i <= DAO_LOG_LEVEL_DEBUG; i++) {
        if (strcmp(text, texts[i]) == 0) {
            *out_level = (dao_log_level_t)i;
            return DAO_OK;
        }
    }
    return dao_error(DAO_ERR_INVALID, "DAO_LOG is \"%.64s\"; write error, warning, info or debug", text);
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
    const char *text = getenv("DAO_STRATEGY");
    if (configured != DAO_STRATEGY_DEFAULT || text == NULL || text[0] == '\0') {
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
    const char *text = getenv("DAO_HOST_LIMIT");
    *out_bytes = config->host_limit_bytes;
    if (config->host_limit_bytes != 0 || text == NULL || text[0] == '\0') {
        return DAO_OK;
    }
    dao_status_t status = dao_units_parse_bytes(text, out_bytes);
    return status == DAO_OK
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "the environment's DAO_HOST_LIMIT: %s", dao_last_message());
}

/* ---- a later dao_init() ---- */

/* The settings that are numbers, as messages name them, and how they are printed; but for host.numa_node, of
   which 0 is one like any other. */
#define SETTING_LIST(X)                                                                                      \
    X(cpu.device_count, PRId32)                                                                              \
    X(cpu.device_bytes, PRIu64)                                                                              \
    X(cpu.h2d_bytes_per_second, PRIu64)                                                                      \
    X(cpu.d2h_bytes_per_second, PRIu64)                                                                      \
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
