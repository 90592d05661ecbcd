#include "tools/scheme.h"

#include "base/error.h"

#include <stdio.h>
#include <string.h>

/* The executor decides as it goes, with one of its policies. */
static dao_status_t run_policy(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                               dao_scheme_run_t *out_run)
{
    dao_simulate_config_t config = {
        .policy = scheme->policy, .step_count = input->step_count, .window_kernels = input->window_kernels};
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes};
    return dao_simulate(input->problem, &config, &out_run->simulation);
}

const dao_scheme_t dao_schemes[] = {
    {"online", "the executor at its best without a plan", DAO_POLICY_BELADY, run_policy},
    {"lru", "the executor; least recently used first", DAO_POLICY_LRU, run_policy},
    {"belady", "the executor; furthest next use first", DAO_POLICY_BELADY, run_policy},
    {"weighted_lru", "the executor; window of greatest mean age", DAO_POLICY_WEIGHTED_LRU, run_policy},
    {"weighted_belady", "the executor; window of greatest mean distance", DAO_POLICY_WEIGHTED_BELADY,
     run_policy},
    {"window", "the executor; window with the least bytes to move over distance", DAO_POLICY_WINDOW,
     run_policy},
    {"size", "the executor; largest first", DAO_POLICY_SIZE, run_policy},
    {NULL, NULL, DAO_POLICY_LRU, NULL},
};

dao_status_t dao_scheme_find(const char *name, const dao_scheme_t **out_scheme)
{
    char names[256] = "";
    for (const dao_scheme_t *scheme = dao_schemes; scheme->name != NULL; scheme++) {
        if (strcmp(scheme->name, name) == 0) {
            *out_scheme = scheme;
            return DAO_OK;
        }
        size_t length = strlen(names);
        (void)snprintf(names + length, sizeof(names) - length, "%s%s", length == 0 ? "" : ", ", scheme->name);
    }
    return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no scheme: there are %s", name, names);
}
