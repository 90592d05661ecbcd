/* SPDX-License-Identifier: Apache-2.0 */
/* Questions about a place that are asked off the hot path: which block an address is in, figures under
   PyTorch's names, and damage at a hardened place. */
#include "allocators/layers/hardened.h"
#include "allocators/layers/stream_ordered.h"
#include "base/report/error.h"
#include "runtime/device/block.h"
#include "runtime/device/deferred_free.h"
#include "runtime/place/lookup.h"
#include "runtime/start/hardening.h"

#include <dao/observe.h>

/* ---- which block a byte is in ---- */

/* Counts the memory handles of a place that an address lies in, and finds the smallest of them. */
static void holders_find(dao_core_t *core, dao_place_t place, const void *address, dao_block_info_t *info)
{
    dao_mutex_lock(&core->lock);
    for (const dao_live_t *live = core->first_live; live != NULL; live = live->next) {
        if (!dao_place_equal(live->place, place) ||
            (uintptr_t)address - (uintptr_t)live->address >= live->size_bytes) {
            continue;
        }
        info->handle_count++;
        if (info->handle_address == NULL || live->size_bytes < info->handle_bytes) {
            info->handle_address = live->address;
            info->handle_bytes = live->size_bytes;
        }
    }
    dao_mutex_unlock(&core->lock);
}

dao_status_t dao_block_query(dao_place_t place, const void *address, dao_block_info_t *out_info)
{
    if (address == NULL || out_info == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_block_query: %s is NULL",
                         address == NULL ? "address" : "out_info");
    }
    dao_core_t *core;
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_context_enter(&core);
    if (status != DAO_OK || (status = dao_place_peek(place, &allocator, &runtime)) != DAO_OK) {
        return status;
    }
    dao_place_drain(place, runtime);
    if (allocator == NULL) {
        char text[DAO_PLACE_TEXT_BYTES];
        return dao_error(DAO_ERR_FOREIGN_POINTER, "dao_block_query: %p is not at %s, which was never used",
                         address, dao_place_format(place, text));
    }
    dao_block_t block;
    status = allocator->ops->query(allocator, address, &block);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_info_t info = {.address = block.address,
                             .size_bytes = block.block_bytes,
                             .requested_bytes = block.requested_bytes,
                             .offset_bytes = (size_t)((const char *)address - (const char *)block.address),
                             .tag = block.tag,
                             .stream = block.stream,
                             .owner = block.owner};
    if (runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE &&
        dao_retained_is_freed(&runtime->retained, block.address)) {
        info.owner = DAO_BLOCK_OWNER_LEASE;
    }
    holders_find(core, place, address, &info);
    *out_info = info;
    return DAO_OK;
}

dao_status_t dao_address_place(const void *address, dao_place_t *out_place)
{
    static const dao_place_t none = {DAO_PLACE_KIND_CPU, -1};
    if (address == NULL || out_place == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_address_place: %s is NULL",
                         address == NULL ? "address" : "out_place");
    }
    dao_core_t *core;
    dao_place_t place;
    dao_status_t status = dao_thread_check();
    if (status != DAO_OK || (status = dao_context_enter(&core)) != DAO_OK) {
        return status;
    }
    if (!dao_block_place_find(core, none, address, &place)) {
        return dao_error(DAO_ERR_FOREIGN_POINTER, "dao_address_place: %p is in no live block of any place",
                         address);
    }
    *out_place = place;
    return DAO_OK;
}

/* ---- figures under PyTorch's names ---- */

/* What a snapshot adds to the counters. */
typedef struct figures {
    uint64_t active_bytes;
    uint64_t active_count;
    uint64_t split_bytes;
    uint64_t split_count;
    uint64_t segment_count;
} figures_t;

static figures_t figures_of(const dao_snapshot_t *snapshot)
{
    figures_t figures = {0};
    size_t segment_count, block_count;
    const dao_snapshot_segment_t *segments = dao_snapshot_segments(snapshot, &segment_count);
    const dao_snapshot_block_t *blocks = dao_snapshot_blocks(snapshot, &block_count);
    for (size_t i = 0; i < block_count; i++) {
        const dao_snapshot_segment_t *segment = &segments[blocks[i].segment];
        bool is_free = blocks[i].state == DAO_BLOCK_STATE_FREE;
        bool is_split = is_free && segment->live_bytes + segment->pending_bytes > 0;
        figures.active_bytes += is_free ? 0 : blocks[i].size_bytes;
        figures.active_count += !is_free;
        figures.split_bytes += is_split ? blocks[i].size_bytes : 0;
        figures.split_count += is_split;
    }
    figures.segment_count = segment_count;
    return figures;
}

/* The names, and what each is. */
#define STATS_TREE_LIST(X)                                                                                   \
    X("allocated_bytes.all.current", stats.used_bytes)                                                       \
    X("allocated_bytes.all.peak", stats.peak_used_bytes)                                                     \
    X("active_bytes.all.current", figures.active_bytes)                                                      \
    X("requested_bytes.all.current", stats.requested_bytes)                                                  \
    X("requested_bytes.all.peak", stats.peak_requested_bytes)                                                \
    X("reserved_bytes.all.current", stats.reserved_bytes)                                                    \
    X("reserved_bytes.all.peak", stats.peak_reserved_bytes)                                                  \
    X("inactive_split_bytes.all.current", figures.split_bytes)                                               \
    X("allocation.all.current", stats.live_count)                                                            \
    X("allocation.all.allocated", stats.alloc_count)                                                         \
    X("allocation.all.freed", stats.free_count)                                                              \
    X("active.all.current", figures.active_count)                                                            \
    X("segment.all.current", figures.segment_count)                                                          \
    X("inactive_split.all.current", figures.split_count)                                                     \
    X("num_ooms", stats.failed_count)                                                                        \
    X("num_device_alloc", stats.grow_count)                                                                  \
    X("num_device_free", stats.shrink_count)

dao_status_t dao_stats_tree_walk(dao_place_t place, dao_stats_visit_t visit, void *user)
{
    if (visit == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_stats_tree_walk: visit is NULL");
    }
    dao_stats_t stats;
    dao_snapshot_t *snapshot;
    dao_status_t status = dao_stats_get(place, &stats);
    if (status != DAO_OK || (status = dao_snapshot_create(place, &snapshot)) != DAO_OK) {
        return status;
    }
    figures_t figures = figures_of(snapshot);
    dao_snapshot_destroy(snapshot);
#define VISIT(name, value) visit(name, value, user);
    STATS_TREE_LIST(VISIT)
#undef VISIT
    return DAO_OK;
}

/* ---- damage ---- */

dao_status_t dao_hardening_check(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_status_t status = dao_place_peek_drained(place, &allocator);
    if (status != DAO_OK) {
        return status;
    }
    dao_core_t *core;
    status = dao_context_enter(&core);
    if (status != DAO_OK) {
        return status;
    }
    allocator = allocator != NULL ? dao_stream_ordered_behind(allocator) : NULL;
    if (allocator != NULL ? !dao_is_hardened(allocator) : dao_hardening_of(core, place) == 0) {
        char text[DAO_PLACE_TEXT_BYTES];
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "dao_hardening_check: %s is not hardened; dao_config_t.hardening,"
                         " dao_place_config_t.hardening and DAO_HARDENING say what is",
                         dao_place_format(place, text));
    }
    return allocator != NULL ? dao_hardened_check(allocator) : DAO_OK; /* a device that was never used */
}
