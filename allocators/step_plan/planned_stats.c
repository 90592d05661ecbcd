/* SPDX-License-Identifier: Apache-2.0 */
/* What a place that is served from plans holds: the inner allocator's blocks but for the arena, and the
   arena's. Peaks are the inner allocator's: there the arena counts in full, so that they may be too high,
   never too low. */
#include "allocators/step_plan/planned_internal.h"

#include "base/report/error.h"

uint64_t dao_planned_used_get(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_spin_lock(&planned->lock);
    uint64_t used_bytes = planned->inner->ops->used_get(planned->inner);
    used_bytes = used_bytes - planned->arena.given_bytes + planned->arena.ledger.stats.used_bytes;
    dao_spin_unlock(&planned->lock);
    return used_bytes;
}

/* Puts the arena's blocks in the place of the one that it is. */
static void arena_add(const dao_planned_arena_t *arena, dao_stats_t *stats)
{
    const dao_stats_t *blocks = &arena->ledger.stats;
    bool is_there = arena->segment.range != NULL;
    if (arena->window.size_bytes > 0) {
        return; /* they are there already */
    }
    stats->requested_bytes = stats->requested_bytes - arena->segment.size_bytes + blocks->requested_bytes;
    stats->used_bytes = stats->used_bytes - arena->given_bytes + blocks->used_bytes;
    stats->live_count = stats->live_count - is_there + blocks->live_count;
    stats->alloc_count = stats->alloc_count - arena->take_count + blocks->alloc_count;
    stats->free_count = stats->free_count - (arena->take_count - is_there) + blocks->free_count;
}

void dao_planned_table_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_spin_lock(&planned->lock);
    planned->inner->ops->stats_get(planned->inner, out_stats);
    arena_add(&planned->arena, out_stats);
    dao_spin_unlock(&planned->lock);
}

void dao_planned_stats_reset_peaks(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    planned->inner->ops->stats_reset_peaks(planned->inner);
}

/* ---- walks ---- */

typedef struct inner_walk {
    const dao_planned_t *planned;
    dao_block_visit_t visit;
    void *user;
    bool begins_segment; /* the arena's block does */
} inner_walk_t;

static bool is_arena(const dao_planned_t *planned, const dao_block_t *block)
{
    return planned->arena.segment.range != NULL && block->address == planned->arena.segment.address;
}

static void visit_other(const dao_block_t *block, void *user)
{
    const inner_walk_t *walk = user;
    if (!is_arena(walk->planned, block)) {
        walk->visit(block, walk->user);
    }
}

void dao_planned_table_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    inner_walk_t walk = {.planned = planned, .visit = visit, .user = user};
    dao_spin_lock(&planned->lock);
    if (planned->arena.segment.range != NULL) {
        dao_segment_walk(&planned->arena.segment, visit, user);
    }
    planned->inner->ops->walk(planned->inner, visit_other, &walk);
    dao_spin_unlock(&planned->lock);
}

/* A block of the arena, in the segment where the arena lies. */
static void visit_in_arena(const dao_block_t *block, void *user)
{
    const inner_walk_t *walk = user;
    dao_block_t seen = *block;
    seen.begins_segment = block->begins_segment && walk->begins_segment;
    walk->visit(&seen, walk->user);
}

static void visit_any(const dao_block_t *block, void *user)
{
    inner_walk_t *walk = user;
    const dao_segment_t *segment = &walk->planned->arena.segment;
    if (!is_arena(walk->planned, block) || block->state != DAO_BLOCK_STATE_LIVE) {
        walk->visit(block, walk->user);
        return;
    }
    walk->begins_segment = block->begins_segment;
    dao_segment_walk_all(segment, visit_in_arena, walk);
    if (block->block_bytes > segment->size_bytes) { /* the inner allocator's roundings */
        dao_block_t rest = {.address = segment->address + segment->size_bytes,
                            .block_bytes = block->block_bytes - segment->size_bytes,
                            .state = DAO_BLOCK_STATE_FREE};
        walk->visit(&rest, walk->user);
    }
}

void dao_planned_table_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    inner_walk_t walk = {.planned = planned, .visit = visit, .user = user};
    dao_spin_lock(&planned->lock);
    planned->inner->ops->walk_all(planned->inner, visit_any, &walk);
    dao_spin_unlock(&planned->lock);
}

/* ---- figures for <dao/step_plan.h> ---- */

void dao_planned_stats_get(dao_allocator_t *allocator, dao_step_plan_stats_t *out_stats)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    *out_stats = planned->stats;
    out_stats->arena_bytes = planned->arena.segment.size_bytes;
    out_stats->has_plan = false;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        out_stats->has_plan |= planned->plans[i].is_ready && dao_planned_has_arena(planned);
    }
    dao_planned_boundary_unlock(planned);
}

/* Shows one item. What was freed at the end itself was freed before the next step began. */
static dao_step_plan_lifetime_t describe(const dao_lifetime_t *item, uint32_t index)
{
    return (dao_step_plan_lifetime_t){.size_bytes = item->size_bytes,
                                      .key = item->key,
                                      .begin = index,
                                      .end = item->end != DAO_LIFETIME_OPEN ? item->end : UINT64_MAX,
                                      .begin_ns =
                                          item->begin_ticks != 0 ? dao_ticks_to_ns(item->begin_ticks) : 0,
                                      .end_ns = item->end_ticks != 0 ? dao_ticks_to_ns(item->end_ticks) : 0,
                                      .thread_slot = item->slot};
}

dao_status_t dao_planned_walk(dao_allocator_t *allocator, dao_step_plan_visit_t visit, void *user)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_planned_boundary_lock(planned);
    dao_status_t status = DAO_OK;
    if (planned->depth > 0) {
        status = dao_error(DAO_ERR_BUSY, "%s: dao_step_plan_walk() within a step", planned->name);
    }
    const dao_lifetimes_t *recording = &planned->recordings[planned->serial & 1];
    for (uint32_t i = 0; status == DAO_OK && i < recording->count; i++) {
        dao_spin_lock(&planned->lock); /* its block may be freed meanwhile */
        dao_step_plan_lifetime_t lifetime = describe(&recording->items[i], i);
        dao_spin_unlock(&planned->lock);
        visit(&lifetime, user);
    }
    dao_planned_boundary_unlock(planned);
    return status;
}

/* ---- the check ---- */

static bool plan_is_valid(const dao_learnt_plan_t *plan)
{
    return (!plan->is_ready || plan->script != NULL) && dao_follow_is_valid(&plan->follow) &&
           (plan->bins == NULL || dao_bins_is_valid(plan->bins));
}

static bool is_valid_locked(const dao_planned_t *planned)
{
    uint64_t live_bytes = 0, beside_bytes = 0;
    for (size_t i = 0; i < planned->tracked.capacity; i++) {
        const dao_block_entry_t *entry = &planned->tracked.entries[i];
        if (entry->address != NULL) {
            bool is_beside = !dao_planned_in_arena(planned, entry->address);
            live_bytes += entry->piece.size_bytes;
            beside_bytes += is_beside ? dao_planned_rounded(entry->piece.size_bytes) : 0;
        }
    }
    bool is_valid = live_bytes == planned->live_bytes && beside_bytes == planned->beside_bytes;
    for (uint32_t i = 0; i < DAO_PLANNED_PLAN_COUNT; i++) {
        bool is_followed = (planned->candidates >> i & 1) != 0;
        is_valid = is_valid && plan_is_valid(&planned->plans[i]) &&
                   (!is_followed || planned->plans[i].script != NULL) &&
                   (planned->current != i || is_followed);
    }
    return is_valid && dao_block_map_is_valid(&planned->tracked) &&
           dao_lifetimes_is_valid(&planned->recordings[0]) && dao_lifetimes_is_valid(&planned->recordings[1]);
}

bool dao_planned_is_valid(dao_allocator_t *allocator)
{
    dao_planned_t *planned = dao_planned_of(allocator);
    dao_spin_lock(&planned->lock);
    bool is_valid = is_valid_locked(planned);
    if (planned->arena.segment.range != NULL) {
        const dao_stats_t *stats = &planned->arena.ledger.stats;
        dao_recount_t recount = {0};
        is_valid = is_valid && dao_segment_is_valid(&planned->arena.segment, &recount) &&
                   recount.used_bytes == stats->used_bytes && recount.live_count == stats->live_count &&
                   recount.requested_bytes == stats->requested_bytes;
    }
    dao_spin_unlock(&planned->lock);
    return is_valid && planned->inner->ops->is_valid(planned->inner);
}
