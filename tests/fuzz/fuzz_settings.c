/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the environment: the first byte of an input picks a variable, the others are its value,
   or words of one. A value that is accepted gives settings in their ranges, one that is refused a message
   that names the variable. */
#define _GNU_SOURCE
#include "backends/cpu/cpu_internal.h"
#include "runtime/core/core.h"
#include "runtime/start/hardening.h"
#include "runtime/start/settings.h"
#include "runtime/start/step_plan_settings.h"
#include "tests/fuzz/fuzz.h"

#include <dao/dao.h>

#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 512 };

static const char *const words[] = {"off",      "error",      "debug",
                                    "overflow", "quarantine", "offsets",
                                    "bins",     "1",          "node",
                                    "advise",   "local",      "good",
                                    "buddy",    "64",         "0",
                                    "9",        ".",          "MiB",
                                    "GB/s",     "us",         ",",
                                    ":",        "-",          " ",
                                    "-1",       "1e9",        "all",
                                    "guard",    "junk",       "system",
                                    "TiB",      "",           "18446744073709551615"};
enum { WORD_COUNT = sizeof(words) / sizeof(words[0]) };

static const dao_config_t no_config;

static dao_status_t find_log(void)
{
    dao_log_level_t level;
    return dao_log_level_find(&no_config, &level);
}

static dao_status_t find_strategy(void)
{
    dao_strategy_t strategy = 0;
    dao_status_t status = dao_strategy_find(0, &strategy);
    FUZZ_REQUIRE(status != DAO_OK || dao_strategy_is_valid(strategy));
    return status;
}

static dao_status_t find_limit(void)
{
    uint64_t bytes;
    return dao_host_limit_find(&no_config, &bytes);
}

static dao_status_t find_host_memory(void)
{
    static const dao_host_memory_config_t none;
    dao_host_memory_config_t found = {0};
    dao_status_t status = dao_host_memory_find(&none, &found);
    FUZZ_REQUIRE(status != DAO_OK || (found.numa_node >= 0 && found.numa_node < DAO_NUMA_NODE_MAX));
    return status;
}

static dao_status_t find_hardening(void)
{
    static dao_core_t core;
    return dao_hardening_find(&no_config, &core);
}

static dao_status_t find_step_plan(void)
{
    dao_step_plan_config_t found = {0};
    dao_status_t status = dao_step_plan_find(&found);
    FUZZ_REQUIRE(status != DAO_OK || dao_step_plan_config_check("device:0", &found) == DAO_OK);
    return status;
}

static dao_status_t find_cpu(void)
{
    static const dao_cpu_config_t none;
    dao_backend_t backend = {0};
    dao_status_t status = dao_cpu_read_config(&none, &backend);
    FUZZ_REQUIRE(status != DAO_OK ||
                 (backend.device_count >= 1 && backend.device_count <= DAO_DEVICE_COUNT_MAX));
    return status;
}

static const struct {
    const char *name;
    dao_status_t (*find)(void);
} variables[] = {
    {"DAO_LOG", find_log},
    {"DAO_STRATEGY", find_strategy},
    {"DAO_HOST_LIMIT", find_limit},
    {"DAO_HOST_NUMA", find_host_memory},
    {"DAO_HOST_HUGE_PAGES", find_host_memory},
    {"DAO_HOST_PREFAULT", find_host_memory},
    {"DAO_HARDENING", find_hardening},
    {"DAO_QUARANTINE_BYTES", find_hardening},
    {"DAO_STEP_PLAN", find_step_plan},
    {"DAO_CPU_DEVICES", find_cpu},
    {"DAO_CPU_DEVICE_BYTES", find_cpu},
    {"DAO_CPU_H2D_BYTES_PER_SECOND", find_cpu},
    {"DAO_CPU_HOST_BYTES_PER_SECOND", find_cpu},
    {"DAO_CPU_COPY_LATENCY_NS", find_cpu},
    {"DAO_CPU_NO_PAGE_MAPPING", find_cpu},
};

static void fill(fuzz_input_t *input, char value[VALUE_BYTES])
{
    bool has_words = fuzz_byte(input) % 2 == 1;
    size_t length = 0;
    while (input->left > 0 && length < VALUE_BYTES - 1) {
        uint32_t byte = fuzz_byte(input);
        if (!has_words) {
            value[length++] = (char)byte;
            continue;
        }
        const char *word = words[byte % WORD_COUNT];
        size_t more = strlen(word);
        more = more < VALUE_BYTES - 1 - length ? more : VALUE_BYTES - 1 - length;
        memcpy(value + length, word, more);
        length += more;
    }
    value[length] = '\0';
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    fuzz_input_t input = {.next = data, .left = size_bytes};
    char value[VALUE_BYTES];
    uint32_t at = fuzz_byte(&input) % (sizeof(variables) / sizeof(variables[0]));
    fill(&input, value);
    FUZZ_REQUIRE(setenv(variables[at].name, value, 1) == 0);
    dao_status_t status = variables[at].find();
    FUZZ_REQUIRE(unsetenv(variables[at].name) == 0);
    FUZZ_REQUIRE(status == DAO_OK || strstr(dao_last_message(), variables[at].name) != NULL);
    return 0;
}
