/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/scoreboard/place_stats.h"

#include "allocators/accounting/ledger.h"
#include "runtime/device/deferred_free.h"

void dao_place_stats_read(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                          dao_stats_t *out_stats)
{
    /* first: it is not above failed_count */
    uint64_t cured_count = atomic_load(&allocator->ledger->cured_count);
    dao_stats_t stats = {0};
    allocator->ops->stats_get(allocator, &stats);
    stats.failed_count -= cured_count;
    if (runtime != NULL) {
        stats.deferred_count += dao_runtime_deferred_count(runtime, place.kind);
    }
    if (runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_shares_count(&runtime->shares, &stats.shared_bytes, &stats.imported_bytes);
    }
    *out_stats = stats;
}
