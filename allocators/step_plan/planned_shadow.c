/* SPDX-License-Identifier: Apache-2.0 */
/* The shadow of a place that is served from plans: what it would have if its allocator placed all blocks, for
   as long as the program is not seen to keep to its plan.

       the plan is new, or a step left it --> shadow --> a step kept to it, the plan is given up or reset, a lease begins,
                                                               no memory for the shadow, or the limit is in
                                                               its way

   It begins at a border, with the blocks that live then, where they lie but for those of the arena, and with
   as many pages as the place is known to have had without a plan. From then on it is told of every block of
   the place, also of those from outside of steps. What changes the place while it is made, a limit, a
   trim or a lease, lets the next border try again.

   What holds between calls, under the lock:

       is_shadowed exactly if there is a shadow; shadow_serial is another one for each alone_bytes is the most
       that earlier ones had as they ended, and the place before its first window: what is given back
       meanwhile it would take again */
#include "allocators/step_plan/planned_internal.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <stdlib.h>

/* Room for blocks that other threads allocate while those that live are looked at. */
#define LIVE_REST_COUNT 64u

void dao_planned_shadow_end(dao_planned_t *planned)
{
    if (planned->shadow != NULL) {
        planned->alone_bytes = dao_larger(planned->alone_bytes, dao_shadow_reserved(planned->shadow));
        dao_shadow_destroy(planned->shadow);
        planned->shadow = NULL;
        atomic_store_explicit(&planned->is_shadowed, false, memory_order_relaxed);
    }
}

/* ---- begin ---- */

/* Blocks that live, as a walk sees them. */
typedef struct live_walk {
    dao_piece_t *blocks; /* what they asked for */
    uint64_t count, capacity;
} live_walk_t;

static void look_at_block(const dao_block_t *block, void *user)
{
    live_walk_t *walk = user;
    if (walk->count < walk->capacity) {
        walk->blocks[walk->count] = (dao_piece_t){block->address, block->requested_bytes};
    }
    walk->count++;
}

static int compare_addresses(const void *left, const void *right)
{
    uintptr_t a = (uintptr_t)((const dao_piece_t *)left)->address;
    uintptr_t b = (uintptr_t)((const dao_piece_t *)right)->address;
    return (a > b) - (a < b);
}

/* Blocks on their way into a shadow, by their addresses. */
typedef struct filling {
    dao_shadow_t *shadow;
    char *begin;        /* of the part that is filled from its begin on */
    uint64_t end_bytes; /* of what lies there, and was left out */
    void **gaps;        /* stand for what was left out between blocks */
    uint64_t gap_count;
    uint64_t room_bytes; /* that the shadow has: no more is left out */
} filling_t;

static void *fill_take(const filling_t *filling, uint64_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = (size_t)size_bytes};
    return dao_shadow_take(filling->shadow, &request);
}

/* Leaves out what lies in front of a block, so that it comes to lie where it lies in the place: free memory
   is taken from its begin on. Where there is no room for that the block lies where it may. */
static void leave_gap(filling_t *filling, const dao_piece_t *block)
{
    uint64_t offset_bytes = (uint64_t)((uintptr_t)block->address - (uintptr_t)filling->begin);
    if (block->address < filling->begin || offset_bytes < filling->end_bytes ||
        offset_bytes > filling->room_bytes) {
        return;
    }
    if (offset_bytes > filling->end_bytes) {
        void *gap = fill_take(filling, offset_bytes - filling->end_bytes);
        if (gap == NULL) {
            return;
        }
        filling->gaps[filling->gap_count++] = gap;
    }
    filling->end_bytes = offset_bytes + dao_planned_rounded(block->size_bytes);
}

/* Lets a shadow that nobody knows of yet have the blocks; tells whether it could. */
static bool has_taken(filling_t *filling, const dao_planned_t *planned, const live_walk_t *walk)
{
    bool is_right = walk->count <= walk->capacity;
    for (uint64_t i = 0; i < walk->count && is_right; i++) {
        const dao_piece_t *block = &walk->blocks[i];
        if (!dao_planned_in_arena(planned, block->address)) {
            leave_gap(filling, block);
        }
        void *stand_in = fill_take(filling, block->size_bytes);
        is_right =
            stand_in != NULL && dao_shadow_bind(filling->shadow, stand_in, block->address, block->size_bytes);
    }
    for (uint64_t i = 0; i < filling->gap_count; i++) {
        dao_shadow_drop(filling->shadow, filling->gaps[i], UINT64_MAX);
    }
    return is_right;
}

/* Shows all that lives to a shadow. What other threads allocate and free meanwhile it does not see, or for
   too long. */
static bool fill(dao_planned_t *planned, uint64_t live_count, dao_shadow_t *shadow)
{
    live_walk_t walk = {.capacity = live_count + LIVE_REST_COUNT};
    filling_t filling = {.shadow = shadow,
                         .begin = planned->arena.window.first_address,
                         .room_bytes = dao_shadow_reserved(shadow)};
    walk.blocks = dao_host_calloc((size_t)walk.capacity, sizeof(*walk.blocks));
    filling.gaps = dao_host_calloc((size_t)walk.capacity, sizeof(*filling.gaps));
    bool is_right = walk.blocks != NULL && filling.gaps != NULL;
    if (is_right) {
        planned->inner->ops->walk(planned->inner, look_at_block, &walk);
        qsort(walk.blocks, (size_t)dao_smaller(walk.count, walk.capacity), sizeof(*walk.blocks),
              compare_addresses);
        is_right = has_taken(&filling, planned, &walk);
    }
    dao_host_free(filling.gaps);
    dao_host_free(walk.blocks);
    return is_right;
}

static void shadow_begin(dao_planned_t *planned)
{
    dao_stats_t stats;
    dao_spin_lock(&planned->lock);
    uint64_t alone_bytes = planned->alone_bytes;
    uint32_t change_count = planned->change_count;
    dao_spin_unlock(&planned->lock);
    planned->inner->ops->stats_get(planned->inner, &stats);
    dao_shadow_config_t config = {.name = planned->name,
                                  .page_bytes = planned->arena.window.page_bytes,
                                  .capacity_bytes = planned->inner->ledger->capacity_bytes,
                                  .initial_bytes = alone_bytes,
                                  .fit = planned->arena.window.fit};
    dao_shadow_t *shadow;
    if (dao_shadow_create(&config, &shadow) != DAO_OK) {
        return;
    }
    bool is_right = fill(planned, stats.live_count, shadow);
    dao_shadow_shrink(shadow, alone_bytes); /* what the gaps have brought goes again */
    is_right = is_right && dao_shadow_limit_set(shadow, (size_t)stats.limit_bytes) == DAO_OK;
    dao_spin_lock(&planned->lock);
    if (is_right && planned->change_count == change_count &&
        atomic_load_explicit(&planned->lease_count, memory_order_relaxed) == 0) {
        planned->shadow = shadow;
        planned->shadow_serial++;
        atomic_store_explicit(&planned->is_shadowed, true, memory_order_relaxed);
        shadow = NULL;
    }
    dao_spin_unlock(&planned->lock);
    dao_shadow_destroy(shadow); /* NULL, unless something came between */
}

void dao_planned_shadow_fit(dao_planned_t *planned)
{
    bool is_wanted = planned->is_unsure && planned->is_enabled && planned->served.script != NULL &&
                     planned->served.bins == NULL && dao_planned_has_window(planned) &&
                     atomic_load_explicit(&planned->lease_count, memory_order_relaxed) == 0;
    bool is_there = atomic_load_explicit(&planned->is_shadowed, memory_order_relaxed);
    if (is_wanted &&
        !is_there) { /* at the end of a step that departed, as blocks may come before the next one */
        shadow_begin(planned);
    } else if (!is_wanted && is_there) {
        dao_spin_lock(&planned->lock);
        dao_planned_shadow_end(planned);
        dao_spin_unlock(&planned->lock);
    }
}

/* ---- blocks ---- */

dao_stand_in_t dao_planned_shadow_take(dao_planned_t *planned, const dao_block_request_t *request)
{
    dao_stand_in_t stand_in = {.alone_bytes = dao_shadow_reserved(planned->shadow),
                               .serial = planned->shadow_serial};
    stand_in.address = dao_shadow_take(planned->shadow, request);
    return stand_in;
}

/* Tells whether something is of the shadow that there is now. */
static bool is_of_shadow(const dao_planned_t *planned, const dao_stand_in_t *stand_in)
{
    return planned->shadow != NULL && stand_in->serial == planned->shadow_serial;
}

void dao_planned_shadow_bind(dao_planned_t *planned, const dao_stand_in_t *stand_in, void *address,
                             size_t size_bytes)
{
    if (is_of_shadow(planned, stand_in) &&
        (stand_in->address == NULL ||
         !dao_shadow_bind(planned->shadow, stand_in->address, address, size_bytes))) {
        dao_planned_shadow_end(planned);
    }
}

void dao_planned_shadow_drop(dao_planned_t *planned, const dao_stand_in_t *stand_in)
{
    if (is_of_shadow(planned, stand_in) && stand_in->address != NULL) {
        dao_shadow_drop(planned->shadow, stand_in->address, stand_in->alone_bytes);
    }
}

dao_status_t dao_planned_shadow_alloc(dao_planned_t *planned, const dao_block_request_t *request,
                                      dao_block_grant_t *out_grant)
{
    dao_stand_in_t stand_in = {0};
    dao_spin_lock(&planned->lock);
    if (planned->shadow != NULL && request->size_bytes <= PTRDIFF_MAX) {
        stand_in = dao_planned_shadow_take(planned, request);
    }
    dao_spin_unlock(&planned->lock);
    dao_status_t status = planned->inner->ops->alloc(planned->inner, request, out_grant);
    dao_spin_lock(&planned->lock);
    if (status == DAO_OK) {
        dao_planned_shadow_bind(planned, &stand_in, out_grant->address, request->size_bytes);
    } else {
        dao_planned_shadow_drop(planned, &stand_in);
    }
    dao_spin_unlock(&planned->lock);
    return status;
}

/* ---- the place ---- */

void dao_planned_shadow_trim(dao_planned_t *planned, size_t keep_bytes)
{
    dao_spin_lock(&planned->lock);
    planned->change_count++;
    if (planned->shadow != NULL) {
        dao_shadow_trim(planned->shadow, keep_bytes);
    }
    dao_spin_unlock(&planned->lock);
}

void dao_planned_shadow_limit(dao_planned_t *planned, size_t limit_bytes)
{
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_spin_lock(&planned->lock);
    planned->change_count++;
    if (planned->shadow != NULL && dao_shadow_limit_set(planned->shadow, limit_bytes) != DAO_OK) {
        dao_planned_shadow_end(planned);
    }
    dao_spin_unlock(&planned->lock);
    (void)dao_error_restore(&record); /* the place has taken the limit */
}
