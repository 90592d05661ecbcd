/* SPDX-License-Identifier: Apache-2.0 */
/* What a program says of memory pressure: callbacks that free some, how long an allocation may wait for a
   free, and the limit of all host memory. That is one budget of the core, from which the host's allocator and
   those of pinned memory take their bytes before they ask the system or the backend
   (allocators/accounting/ledger.c). */
#include <dao/pressure.h>

#include "base/report/error.h"
#include "runtime/core/thread.h"
#include "runtime/core/waiters.h"
#include "runtime/device/pressure_ladder.h"
#include "runtime/start/context.h"

#include <inttypes.h>

/* ---- callbacks and waiting ---- */

dao_status_t dao_pressure_callback_add(dao_place_t place, dao_pressure_callback_t function, void *user,
                                       uint64_t *out_id)
{
    if (function == NULL || out_id == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_pressure_callback_add: %s is NULL",
                         function == NULL ? "function" : "out_id");
    }
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status != DAO_OK) {
        return status;
    }
    return dao_pressure_add(place, function, user, out_id)
               ? DAO_OK
               : dao_error(DAO_ERR_TOO_MANY,
                           "dao_pressure_callback_add: there are %d callbacks already: remove one with "
                           "dao_pressure_callback_remove()",
                           DAO_PRESSURE_CALLBACK_COUNT_MAX);
}

dao_status_t dao_pressure_wait_set(dao_place_t place, uint64_t wait_ns)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status == DAO_OK) {
        dao_pressure_wait_keep(place, wait_ns);
    }
    return status;
}

/* ---- the limit of all host memory ---- */

dao_status_t dao_host_limit_set(uint64_t limit_bytes)
{
    dao_core_t *core;
    dao_status_t status = dao_thread_check();
    if (status != DAO_OK || (status = dao_context_enter(&core)) != DAO_OK) {
        return status;
    }
    bool is_set = dao_budget_limit_set(&core->host_budget, limit_bytes);
    if (!is_set && dao_pressure_trim_host(core) > 0) {
        is_set = dao_budget_limit_set(&core->host_budget, limit_bytes);
    }
    if (!is_set) {
        return dao_error(DAO_ERR_LIMIT,
                         "dao_host_limit_set: live blocks of the host and the pinned places hold %" PRIu64
                         " bytes, in segments of %" PRIu64 ", which is more than the new limit of %" PRIu64,
                         dao_pressure_host_used(core), atomic_load(&core->host_budget.used_bytes),
                         limit_bytes);
    }
    dao_waiters_note_free();
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
