/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/scoreboard/place_stats.h"

#include "allocators/accounting/ledger.h"
#include "runtime/device/deferred_free.h"
#include "runtime/scoreboard/peak_marks.h"

void dao_place_stats_read(dao_place_t place, dao_allocator_t *allocator, dao_runtime_t *runtime,
                          dao_stats_t *out_stats)
{
    /* Both first: the one is not above failed_count, and where the other is 0, nothing that used_bytes counts
       has been freed. */
    uint64_t cured_count = atomic_load(&allocator->ledger->cured_count);
    uint64_t deferred_count = runtime != NULL ? dao_runtime_deferred_count(runtime, place.kind) : 0;
    dao_stats_t stats = {0};
    allocator->ops->stats_get(allocator, &stats);
    dao_peak_marks_raise(place, &stats); /* behind it: what is taken from the allocator is not missed */
    stats.failed_count -= cured_count;
    stats.deferred_count += deferred_count;
    if (runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_shares_count(&runtime->shares, &stats.shared_bytes, &stats.imported_bytes);
    }
    *out_stats = stats;
}
