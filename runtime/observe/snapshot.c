/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots: the blocks of a place, copied under its allocator's lock into memory that was made before.

       segments   [ a: blocks 0 .. 2 ][ b: blocks 3 .. 3 ] ...
       blocks     [ live ][ free ][ live ] [ pending ] ...

   Invariants of a finished snapshot: the blocks of a segment follow each other without a gap, from
   first_block on, and fill it. Each segment has at least one block.

   The number of blocks is known only after a walk. If the room was too small, the walk goes on to count them.
   Room for as many and some more is then made without the lock, and the place is walked again. */
#include "runtime/observe/snapshot.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

/* Walks before a place that grows all the time is given up. */
#define WALK_COUNT_MAX 16

/* Room beyond what is expected, in blocks. */
#define ROOM_SPARE 64u

/* ---- the walk ---- */

static void segment_begin(dao_snapshot_t *snapshot, const dao_block_t *block)
{
    snapshot->segments[snapshot->segment_count++] =
        (dao_snapshot_segment_t){.address = (uintptr_t)block->address, .first_block = snapshot->block_count};
}

/* Copies a block into its segment, as far as there is room. */
static void block_copy(const dao_block_t *block, void *user)
{
    dao_snapshot_t *snapshot = user;
    snapshot->seen_count++;
    if (snapshot->block_count == snapshot->capacity) {
        return;
    }
    if (block->begins_segment || snapshot->segment_count == 0) {
        segment_begin(snapshot, block);
    }
    dao_snapshot_segment_t *segment = &snapshot->segments[snapshot->segment_count - 1];
    DAO_ASSERT(segment->address + segment->size_bytes == (uintptr_t)block->address);
    segment->size_bytes += block->block_bytes;
    segment->live_bytes += block->state == DAO_BLOCK_STATE_LIVE ? block->block_bytes : 0;
    segment->pending_bytes += block->state == DAO_BLOCK_STATE_PENDING ? block->block_bytes : 0;
    segment->requested_bytes += block->requested_bytes;
    segment->block_count++;
    snapshot->blocks[snapshot->block_count++] =
        (dao_snapshot_block_t){.address = (uintptr_t)block->address,
                               .size_bytes = block->block_bytes,
                               .requested_bytes = block->requested_bytes,
                               .tag = block->tag,
                               .stream = block->stream,
                               .state = block->state,
                               .segment = (uint32_t)(snapshot->segment_count - 1)};
}

static void walk(dao_snapshot_t *snapshot, dao_allocator_t *allocator)
{
    snapshot->block_count = 0;
    snapshot->segment_count = 0;
    snapshot->seen_count = 0;
    allocator->ops->walk_all(allocator, block_copy, snapshot);
}

static bool room_make(dao_snapshot_t *snapshot, size_t capacity)
{
    dao_host_free(snapshot->blocks);
    dao_host_free(snapshot->segments);
    snapshot->blocks = dao_host_calloc(capacity, sizeof(*snapshot->blocks));
    snapshot->segments = dao_host_calloc(capacity, sizeof(*snapshot->segments));
    snapshot->capacity = capacity;
    return snapshot->blocks != NULL && snapshot->segments != NULL;
}

/* Walks until there is room for all. */
static dao_status_t fill(dao_snapshot_t *snapshot, dao_allocator_t *allocator)
{
    char text[DAO_PLACE_TEXT_BYTES];
    (void)dao_place_format(snapshot->place, text);
    for (int i = 0; i < WALK_COUNT_MAX; i++) {
        size_t capacity = snapshot->seen_count + snapshot->seen_count / 4 + ROOM_SPARE;
        if (!room_make(snapshot, capacity)) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a snapshot of %zu blocks of %s",
                             capacity, text);
        }
        walk(snapshot, allocator);
        if (snapshot->seen_count == snapshot->block_count) {
            return DAO_OK;
        }
    }
    return dao_error(DAO_ERR_BUSY, "%s grows faster than its blocks can be copied: %zu of them", text,
                     snapshot->seen_count);
}

dao_status_t dao_snapshot_take(dao_place_t place, dao_allocator_t *allocator, dao_snapshot_t **out_snapshot)
{
    dao_snapshot_t *snapshot = dao_host_calloc(1, sizeof(*snapshot));
    if (snapshot == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a snapshot: %zu bytes",
                         sizeof(*snapshot));
    }
    snapshot->place = place;
    dao_status_t status = DAO_OK;
    if (allocator != NULL) {
        dao_stats_t stats;
        allocator->ops->stats_get(allocator, &stats);
        snapshot->seen_count = (size_t)stats.live_count * 2; /* a guess: a hole behind each */
        status = fill(snapshot, allocator);
    }
    if (status == DAO_OK) {
        status = dao_snapshot_trace(snapshot);
    }
    if (status != DAO_OK) {
        dao_snapshot_destroy(snapshot);
        return status;
    }
    *out_snapshot = snapshot;
    return DAO_OK;
}

void dao_snapshot_destroy(dao_snapshot_t *snapshot)
{
    if (snapshot != NULL) {
        dao_host_free(snapshot->blocks);
        dao_host_free(snapshot->segments);
        dao_host_free(snapshot->entries);
        dao_host_free(snapshot);
    }
}

const dao_snapshot_block_t *dao_snapshot_blocks(const dao_snapshot_t *snapshot, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = snapshot != NULL ? snapshot->block_count : 0;
    }
    return snapshot != NULL ? snapshot->blocks : NULL;
}

const dao_snapshot_segment_t *dao_snapshot_segments(const dao_snapshot_t *snapshot, size_t *out_count)
{
    if (out_count != NULL) {
        *out_count = snapshot != NULL ? snapshot->segment_count : 0;
    }
    return snapshot != NULL ? snapshot->segments : NULL;
}

const char *dao_snapshot_state_text(dao_block_state_t state)
{
    static const char *const texts[] = {[DAO_BLOCK_STATE_LIVE] = "active_allocated",
                                        [DAO_BLOCK_STATE_FREE] = "inactive",
                                        [DAO_BLOCK_STATE_PENDING] = "active_pending_free"};
    return texts[state];
}
