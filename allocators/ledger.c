/* Counters, the ring of latest frees, and the messages of allocators. */
#include "allocators/ledger.h"

#include "base/error.h"
#include "base/host.h"

#include <inttypes.h>

dao_status_t dao_ledger_init(dao_ledger_t *ledger, const char *name)
{
    *ledger = (dao_ledger_t){.name = dao_host_strdup(name)};
    if (ledger->name == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    return dao_tags_create(&ledger->tags);
}

void dao_ledger_finish(dao_ledger_t *ledger)
{
    dao_tags_destroy(ledger->tags);
    ledger->tags = NULL;
    dao_host_free(ledger->name);
    ledger->name = NULL;
}

void dao_ledger_init_part(dao_ledger_t *part, const dao_ledger_t *whole)
{
    *part = (dao_ledger_t){.name = whole->name, .tags = whole->tags};
}

bool dao_ledger_freed_lately(const dao_ledger_t *ledger, const void *address)
{
    for (uint32_t i = 0; i < DAO_LEDGER_FREE_COUNT; i++) {
        if (ledger->latest_frees[i] == address && address != NULL) {
            return true;
        }
    }
    return false;
}

dao_status_t dao_ledger_fail(dao_ledger_t *ledger, dao_status_t status, size_t size_bytes,
                             uint64_t hole_bytes)
{
    dao_stats_t *stats = &ledger->stats;
    stats->failed_count++;
    uint64_t cached_bytes = stats->reserved_bytes - stats->used_bytes;
    uint64_t scattered = cached_bytes == 0 ? 0 : (cached_bytes - hole_bytes) * 100 / cached_bytes;
    dao_error_prefix("%s: %zu bytes asked for; used %" PRIu64 ", reserved %" PRIu64 ", limit %" PRIu64
                     ", largest hole %" PRIu64 ", %" PRIu64 " %% of the cached bytes outside of it: ",
                     ledger->name, size_bytes, stats->used_bytes, stats->reserved_bytes, stats->limit_bytes,
                     hole_bytes, scattered);
    return status;
}

dao_status_t dao_ledger_check_free(const dao_ledger_t *ledger, dao_status_t status, const void *address)
{
    if (status == DAO_OK) {
        return DAO_OK;
    }
    return dao_error(status, "%s: %p cannot be freed: %s", ledger->name, address, dao_status_text(status));
}

dao_status_t dao_ledger_check_query(const dao_ledger_t *ledger, dao_status_t status, const void *address)
{
    if (status == DAO_OK) {
        return DAO_OK;
    }
    return dao_error(status, "%s: no live block at %p", ledger->name, address);
}

uint64_t dao_ledger_room(const dao_ledger_t *ledger)
{
    const dao_stats_t *stats = &ledger->stats;
    return stats->limit_bytes == 0 ? UINT64_MAX - stats->reserved_bytes
                                   : stats->limit_bytes - stats->reserved_bytes;
}

bool dao_ledger_matches(const dao_ledger_t *ledger, const dao_recount_t *recount)
{
    const dao_stats_t *stats = &ledger->stats;
    return stats->requested_bytes == recount->requested_bytes && stats->used_bytes == recount->used_bytes &&
           stats->reserved_bytes == recount->reserved_bytes && stats->live_count == recount->live_count &&
           stats->alloc_count - stats->free_count == stats->live_count &&
           stats->peak_requested_bytes >= stats->requested_bytes &&
           stats->peak_used_bytes >= stats->used_bytes &&
           stats->peak_reserved_bytes >= stats->reserved_bytes &&
           (stats->limit_bytes == 0 || stats->reserved_bytes <= stats->limit_bytes);
}
