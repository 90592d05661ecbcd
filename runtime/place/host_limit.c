/* SPDX-License-Identifier: Apache-2.0 */
/* The limit of all host memory: one budget of the core, from which the host's allocator and those of pinned
   memory take their bytes before they ask the system or the backend (allocators/accounting/ledger.c). */
#include <dao/pressure.h>

#include "base/numbers/units.h"
#include "base/report/error.h"
#include "runtime/place/pressure_internal.h"

#include <inttypes.h>
#include <stdlib.h>

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

dao_status_t dao_host_limit_set(uint64_t limit_bytes)
{
    dao_core_t *core;
    dao_status_t status = dao_context_enter(&core);
    if (status != DAO_OK) {
        return status;
    }
    bool is_set = dao_budget_limit_set(&core->host_budget, limit_bytes);
    if (!is_set && dao_pressure_trim_host(core) > 0) {
        is_set = dao_budget_limit_set(&core->host_budget, limit_bytes);
    }
    if (!is_set) {
        return dao_error(DAO_ERR_LIMIT,
                         "dao_host_limit_set: the host and the pinned places hold %" PRIu64
                         " bytes in use, which is more than the new limit of %" PRIu64,
                         atomic_load(&core->host_budget.used_bytes), limit_bytes);
    }
    dao_pressure_note_free();
    return DAO_OK;
}

dao_status_t dao_host_stats_get(dao_host_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_host_stats_get: out_stats is NULL");
    }
    dao_core_t *core;
    dao_status_t status = dao_context_enter(&core);
    if (status == DAO_OK) {
        const dao_budget_t *budget = &core->host_budget;
        *out_stats = (dao_host_stats_t){.reserved_bytes = atomic_load(&budget->used_bytes),
                                        .peak_reserved_bytes = atomic_load(&budget->peak_bytes),
                                        .limit_bytes = atomic_load(&budget->limit_bytes)};
    }
    return status;
}
