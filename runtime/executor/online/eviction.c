/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction: the arena's blocks as a view for the policy, and the evictions that follow from its choice.

       no hole -> evict by the policy -> host full: evict what is clean -> none: drop spare host copies

   A free block of the window is not looked up again: by the time its neighbours have left it is part of a
   larger hole. Invariant: after an error every tensor has its bytes somewhere; some may have left the
   device. */
#include "runtime/executor/online/eviction.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/residency.h"

/* Blocks that the view holds at first. */
#define VIEW_AT_FIRST 256

/* No bound on the next use of a victim. */
#define ANY_TIME INT64_C(-1)

typedef struct view_builder {
    dao_engine_t *engine;
    size_t count;
    int64_t used_after; /* only what is used after this time may leave; ANY_TIME: all may */
    bool keep_dirty;    /* the host is full: only what needs no copy may leave */
    bool no_memory;
} view_builder_t;

static bool make_room_in_view(view_builder_t *builder)
{
    dao_engine_t *engine = builder->engine;
    if (builder->count < engine->view_capacity) {
        return true;
    }
    size_t capacity = engine->view_capacity == 0 ? VIEW_AT_FIRST : 2 * engine->view_capacity;
    dao_policy_block_t *blocks = dao_host_realloc(engine->view_blocks, capacity, sizeof(*blocks));
    if (blocks == NULL) {
        builder->no_memory = true;
        return false;
    }
    engine->view_blocks = blocks;
    engine->view_capacity = capacity;
    return true;
}

/* When a tensor is used next: by what is queued, else by what the step was the time before. */
static uint64_t next_use_of(const view_builder_t *builder, const dao_managed_t *tensor)
{
    uint64_t time = dao_access_next_use(tensor);
    bool is_expected = tensor->first_use == NULL && tensor->forecast_time >= builder->engine->now;
    return is_expected ? tensor->forecast_time : time;
}

static void describe_tensor(const view_builder_t *builder, const dao_managed_t *tensor,
                            dao_policy_block_t *block)
{
    bool is_clean = dao_residency_is_clean(tensor);
    uint64_t next_use = next_use_of(builder, tensor);
    block->is_fixed = tensor->is_pinned || (builder->keep_dirty && !is_clean) ||
                      (builder->used_after != ANY_TIME && next_use <= (uint64_t)builder->used_after);
    block->victim = (dao_victim_t){
        .id = tensor->id,
        .name = tensor->name,
        .size_bytes = tensor->size_bytes,
        .now = builder->engine->now,
        .last_use = tensor->last_use_time,
        .next_use = next_use,
        .clean = is_clean,
    };
}

static bool add_to_view(const dao_range_block_t *range_block, void *user)
{
    view_builder_t *builder = user;
    if (!make_room_in_view(builder)) {
        return false;
    }
    dao_policy_block_t *block = &builder->engine->view_blocks[builder->count++];
    *block = (dao_policy_block_t){
        .offset_bytes = range_block->offset_bytes,
        .size_bytes = range_block->size_bytes,
        .is_free = range_block->is_free,
    };
    if (range_block->user == DAO_OWNER_WORKSPACE) {
        block->is_fixed = true;
    } else if (!range_block->is_free) {
        describe_tensor(builder, (const dao_managed_t *)(uintptr_t)range_block->user, block);
    }
    return true;
}

/* Evicts what the policy chooses. DAO_ERR_LIMIT: nothing that may leave makes enough room. */
static dao_status_t evict_window(dao_engine_t *engine, uint64_t size_bytes, bool keep_dirty,
                                 int64_t used_after, uint64_t *out_offset_bytes)
{
    view_builder_t builder = {.engine = engine, .keep_dirty = keep_dirty, .used_after = used_after};
    dao_range_walk(engine->arena.range, add_to_view, &builder);
    if (builder.no_memory) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to choose victims");
    }
    dao_policy_view_t view = {
        .blocks = engine->view_blocks,
        .block_count = builder.count,
        .need_bytes = size_bytes,
        .horizon = engine->next_time > engine->last_forecast ? engine->next_time : engine->last_forecast,
        .policy = engine->config.policy,
        .score = engine->config.score,
        .score_user = engine->config.score_user,
    };
    size_t first = 0;
    size_t last = 0;
    if (!dao_policy_choose(&view, &first, &last)) {
        return DAO_ERR_LIMIT;
    }
    for (size_t i = first; i <= last; i++) {
        if (engine->view_blocks[i].is_free) {
            continue; /* by now perhaps a part of a larger hole, which would have to be searched for */
        }
        dao_range_block_t block;
        dao_status_t status =
            dao_range_query(engine->arena.range, engine->view_blocks[i].offset_bytes, &block);
        DAO_ASSERT(status == DAO_OK);
        if (status == DAO_OK) {
            status = dao_residency_evict(engine, (dao_managed_t *)(uintptr_t)block.user);
        }
        if (status != DAO_OK) {
            return status;
        }
    }
    DAO_ASSERT(first <= last);
    *out_offset_bytes = engine->view_blocks[first].offset_bytes;
    return DAO_OK;
}

/* The last resort on a full host: host copies that are only kept to save a copy out. */
static bool drop_spare_host_copies(dao_engine_t *engine)
{
    bool dropped = false;
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->residency == DAO_RESIDENCY_BOTH) {
            dao_residency_drop_host(engine, tensor);
            dropped = true;
        }
    }
    return dropped;
}

/* Evicts, and with the host full tries what needs no copy, then what frees a copy. */
static dao_status_t evict_somehow(dao_engine_t *engine, uint64_t size_bytes, uint64_t *out_offset_bytes)
{
    dao_status_t status = evict_window(engine, size_bytes, false, ANY_TIME, out_offset_bytes);
    if (status != DAO_ERR_HOST_FULL) {
        return status;
    }
    dao_error_record_t host_full;
    dao_error_save(&host_full, status);
    status = evict_window(engine, size_bytes, true, ANY_TIME, out_offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        status = drop_spare_host_copies(engine)
                     ? evict_window(engine, size_bytes, false, ANY_TIME, out_offset_bytes)
                     : dao_error_restore(&host_full);
    }
    return status;
}

static dao_status_t take_window(dao_engine_t *engine, uint64_t offset_bytes, uint64_t size_bytes,
                                uint64_t owner, uint64_t *out_offset_bytes)
{
    dao_status_t status = dao_device_arena_take_at(&engine->arena, offset_bytes, size_bytes, owner);
    if (status == DAO_OK) {
        *out_offset_bytes = offset_bytes;
    }
    return status;
}

dao_status_t dao_eviction_take(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner,
                               uint64_t *out_offset_bytes)
{
    DAO_ASSERT(engine->plan == NULL); /* else the plan has the arena */
    DAO_ASSERT(owner != 0);
    size_bytes = dao_device_arena_part_bytes(size_bytes);
    dao_status_t status = dao_device_arena_take(&engine->arena, size_bytes, owner, out_offset_bytes);
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    uint64_t offset = 0;
    status = evict_somehow(engine, size_bytes, &offset);
    return status == DAO_OK ? take_window(engine, offset, size_bytes, owner, out_offset_bytes) : status;
}

dao_status_t dao_eviction_take_early(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner, uint64_t time,
                                     uint64_t *out_offset_bytes)
{
    DAO_ASSERT(engine->plan == NULL); /* else the plan has the arena */
    DAO_ASSERT(owner != 0);
    size_bytes = dao_device_arena_part_bytes(size_bytes);
    dao_status_t status = dao_device_arena_take(&engine->arena, size_bytes, owner, out_offset_bytes);
    if (status != DAO_ERR_LIMIT) {
        return status;
    }
    uint64_t offset = 0;
    status = evict_window(engine, size_bytes, false, (int64_t)time, &offset);
    return status == DAO_OK ? take_window(engine, offset, size_bytes, owner, out_offset_bytes) : status;
}

dao_status_t dao_eviction_clear(dao_engine_t *engine)
{
    DAO_ASSERT(engine->plan == NULL);
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (tensor->residency == DAO_RESIDENCY_DEVICE || tensor->residency == DAO_RESIDENCY_BOTH) {
            dao_status_t status = dao_residency_evict(engine, tensor);
            if (status != DAO_OK) {
                return status;
            }
        }
    }
    DAO_ASSERT(dao_range_used(engine->arena.range) == 0);
    return DAO_OK;
}
