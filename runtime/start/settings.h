/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the whole library: the config's, else the environment's, else defaults. All answer
   DAO_ERR_INVALID with a message. */
#ifndef DAO_RUNTIME_SETTINGS_H
#define DAO_RUNTIME_SETTINGS_H

#include <dao/context.h>
#include <dao/host_memory.h>
#include <dao/place_config.h>

/* Finds the level of the log: the config's, else DAO_LOG's, else that of warnings. */
DAO_NODISCARD dao_status_t dao_log_level_find(const dao_config_t *config, dao_log_level_t *out_level);

/* Number of strategies that have a name; they count from 1. */
#define STRATEGY_ONE(number, symbol, name, text) +1
enum { DAO_STRATEGY_COUNT = 0 DAO_STRATEGY_LIST(STRATEGY_ONE) };
#undef STRATEGY_ONE

/* Returns true for one that has a name, and for the default. */
bool dao_strategy_is_valid(dao_strategy_t strategy);

/* Finds the strategy of device places without a config: `configured`, else DAO_STRATEGY's, else good fit. */
DAO_NODISCARD dao_status_t dao_strategy_find(dao_strategy_t configured, dao_strategy_t *out_strategy);

/* Finds the limit of all host memory: the config's, else DAO_HOST_LIMIT's, else 0. */
DAO_NODISCARD dao_status_t dao_host_limit_find(const dao_config_t *config, uint64_t *out_bytes);

/* Finds how the host's memory is to be taken: NUMA nodes, huge pages, prefaulting. */
DAO_NODISCARD dao_status_t dao_host_memory_find(const dao_host_memory_config_t *config,
                                                dao_host_memory_config_t *out_settings);

/* Logs a warning for each variable DAO_... that nothing reads, with the nearest one that is read. Takes lines
   NAME=VALUE, as environ has them. */
void dao_environment_check(char *const *environment_lines);

/* Checks what a later dao_init() asks for against what the first one's config said. DAO_ERR_BUSY. */
DAO_NODISCARD dao_status_t dao_settings_check(const dao_config_t *wanted, const dao_config_t *started);

#endif
