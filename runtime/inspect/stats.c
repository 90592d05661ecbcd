/* SPDX-License-Identifier: Apache-2.0 */
/* A place's figures: its allocator's, and what the runtime adds to them. */
#include <dao/stats.h>

#include "base/internal_error.h"
#include "base/report/error.h"
#include "runtime/device/deferred_free.h"
#include "runtime/place/lookup.h"
#include "runtime/scoreboard/place_stats.h"

dao_status_t dao_stats_get(dao_place_t place, dao_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_stats_get: out_stats is NULL");
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_stats_t stats = {0};
    if (allocator != NULL) {
        dao_place_drain(place, runtime);
        dao_place_stats_read(place, allocator, runtime, &stats);
    }
    dao_internal_errors_log();
    stats.internal_error_count = dao_internal_error_count();
    *out_stats = stats;
    return DAO_OK;
}

dao_status_t dao_stats_reset_peaks(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    if (status == DAO_OK && allocator != NULL) {
        dao_place_drain(place, runtime);
        allocator->ops->stats_reset_peaks(allocator);
    }
    return status;
}
