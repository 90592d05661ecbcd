/* SPDX-License-Identifier: Apache-2.0 */
/* Eviction: victims for a hole in the arena.

       no hole -> evict by the policy -> host full: evict what is clean -> none: drop spare host copies

   Room must be contiguous. A policy that ranks tensors takes them one by one, the first to leave first,
   until some that are neighbours, with the holes between them, are large enough: of all windows the one
   whose last tensor ranks highest, found without looking at the others.

       arena    | A | free | B |  C  | free | D |       B and then A are taken: a run of A, free, B;
       rank       2          1    7           3         then D: a run of its own; then C joins all

   The ends of a run know each other, so that one more tensor is joined to its neighbours in O(1). Within
   the run that is large enough the window with the fewest bytes to copy leaves. Other policies value
   windows: they see all blocks (policy.h).

   A tensor that a plan has left in pages is several blocks of one user. It leaves alone and as a whole, and
   if what it leaves is not large enough, others follow.

   Invariant: after an error every tensor has its bytes somewhere; some may have left the
   device. */
#include "runtime/executor/online/eviction.h"

#include "base/internal_error.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/online/policy.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/partial.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

/* Blocks that the view holds at first. */
#define VIEW_AT_FIRST 256

/* No bound on the next use of a victim. */
#define ANY_TIME INT64_C(-1)

/* Tensors that are looked at for a taker that may as well wait. */
#define EARLY_LOOK_MAX 8u

/* Which tensors may leave. */
typedef struct leave_rule {
    int64_t used_after; /* only what is used after this time; ANY_TIME: all */
    bool keep_dirty;    /* the host is full: only what needs no copy */
} leave_rule_t;

/* A stretch of the arena: used parts of tensors that may leave, and holes. */
typedef struct window {
    uint64_t begin_bytes, end_bytes;
    uint64_t copy_bytes; /* of tensors in it that are not clean */
    dao_managed_t *only; /* the one tensor that it consists of; NULL: it has to be looked at */
} window_t;

typedef struct view_builder {
    dao_engine_t *engine;
    size_t count;
    leave_rule_t rule;
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

static bool may_leave(const leave_rule_t *rule, const dao_managed_t *tensor, uint64_t next_use)
{
    return !tensor->is_operand && tensor->pin.count == 0 &&
           !(rule->keep_dirty && !dao_residency_is_clean(tensor)) &&
           (rule->used_after == ANY_TIME || next_use > (uint64_t)rule->used_after);
}

static void describe_tensor(const view_builder_t *builder, const dao_managed_t *tensor,
                            dao_policy_block_t *block)
{
    uint64_t next_use = dao_victims_next_use(builder->engine, tensor);
    uint64_t last_use = dao_victims_last_use(tensor);
    uint64_t now = builder->engine->now;
    block->is_fixed = !may_leave(&builder->rule, tensor, next_use);
    block->victim = (dao_victim_t){
        .id = tensor->id,
        .name = tensor->name,
        .size_bytes = tensor->size_bytes,
        .now = now,
        .last_use = dao_smaller(last_use, now), /* that of what was fetched early is to come */
        .next_use = next_use,
        .clean = dao_residency_is_clean(tensor),
        .priority = tensor->priority,
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

/* The window that the policy values most, of all. */
static dao_status_t find_valued(dao_engine_t *engine, uint64_t size_bytes, const leave_rule_t *rule,
                                window_t *out_window)
{
    view_builder_t builder = {.engine = engine, .rule = *rule};
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
    out_window->begin_bytes = engine->view_blocks[first].offset_bytes;
    out_window->end_bytes = engine->view_blocks[last].offset_bytes + engine->view_blocks[last].size_bytes;
    return DAO_OK;
}

/* ---- by rank ---- */

static dao_range_block_t block_at(const dao_engine_t *engine, uint64_t offset_bytes)
{
    dao_range_block_t block = {0};
    DAO_MUST(dao_range_query(engine->arena.range, offset_bytes, &block));
    return block;
}

static dao_managed_t *tensor_of(const dao_range_block_t *block)
{
    bool is_tensor = !block->is_free && block->user != DAO_OWNER_WORKSPACE;
    return is_tensor ? (dao_managed_t *)(uintptr_t)block->user : NULL;
}

static bool is_taken(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    return tensor != NULL && tensor->run.search == engine->search_count;
}

static void join_left(const dao_engine_t *engine, dao_victim_run_t *run)
{
    dao_range_block_t block = {.is_free = true, .offset_bytes = run->begin_bytes};
    for (int i = 0; i < 2 && block.is_free && run->begin_bytes > 0; i++) { /* a hole and what is behind it */
        block = block_at(engine, run->begin_bytes - 1);
        const dao_managed_t *tensor = tensor_of(&block);
        if (is_taken(engine, tensor)) {
            run->first = tensor->run.first;
            run->begin_bytes = tensor->run.begin_bytes;
        } else if (block.is_free) {
            run->begin_bytes = block.offset_bytes;
        }
    }
}

static void join_right(const dao_engine_t *engine, dao_victim_run_t *run)
{
    dao_range_block_t block = {.is_free = true};
    for (int i = 0; i < 2 && block.is_free && run->end_bytes < engine->config.arena_bytes; i++) {
        block = block_at(engine, run->end_bytes);
        const dao_managed_t *tensor = tensor_of(&block);
        if (is_taken(engine, tensor)) {
            run->last = tensor->run.last;
            run->end_bytes = tensor->run.end_bytes;
        } else if (block.is_free) {
            run->end_bytes = block.offset_bytes + block.size_bytes;
        }
    }
}

/* Takes one more tensor. Returns the run that it is in now. */
static dao_victim_run_t take(const dao_engine_t *engine, dao_managed_t *tensor)
{
    uint64_t part_bytes = dao_device_arena_part_bytes(tensor->size_bytes);
    dao_victim_run_t run = {.search = engine->search_count,
                            .first = tensor,
                            .last = tensor,
                            .begin_bytes = tensor->device_offset_bytes,
                            .end_bytes = tensor->device_offset_bytes + part_bytes};
    join_left(engine, &run);
    join_right(engine, &run);
    tensor->run = run;
    run.first->run = run;
    run.last->run = run;
    return run;
}

static uint64_t copy_bytes_of(const dao_range_block_t *block)
{
    const dao_managed_t *tensor = tensor_of(block);
    return tensor != NULL && !dao_residency_is_clean(tensor) ? block->size_bytes : 0;
}

/* Of the windows of a run, such that no block at either end could be left out, the one with the fewest bytes
   to copy. */
static window_t cheapest_window(const dao_engine_t *engine, const dao_victim_run_t *run, uint64_t size_bytes)
{
    window_t window = {run->begin_bytes, run->begin_bytes, 0, NULL};
    window_t best = {run->begin_bytes, run->end_bytes, UINT64_MAX, NULL};
    while (window.end_bytes < run->end_bytes) {
        dao_range_block_t last = block_at(engine, window.end_bytes);
        window.end_bytes += last.size_bytes;
        window.copy_bytes += copy_bytes_of(&last);
        dao_range_block_t first = block_at(engine, window.begin_bytes);
        while (window.end_bytes - window.begin_bytes - first.size_bytes >= size_bytes) {
            window.begin_bytes += first.size_bytes;
            window.copy_bytes -= copy_bytes_of(&first);
            first = block_at(engine, window.begin_bytes);
        }
        bool is_large = window.end_bytes - window.begin_bytes >= size_bytes;
        best = is_large && window.copy_bytes < best.copy_bytes ? window : best;
    }
    DAO_ASSERT(best.copy_bytes != UINT64_MAX);
    return best;
}

/* Returns true if a tensor lies in pages that need not be neighbours: a plan that was left has put it there.
 */
static bool is_scattered(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    return dao_device_arena_window(&engine->arena, tensor->device_offset_bytes) != NULL;
}

/* Takes one more tensor. DAO_ERR_LIMIT: what is taken leaves no window that is large enough. */
static dao_status_t take_more(dao_engine_t *engine, dao_managed_t *tensor, uint64_t size_bytes,
                              window_t *out_window)
{
    dao_victim_run_t run = take(engine, tensor);
    if (run.end_bytes - run.begin_bytes < size_bytes) {
        return DAO_ERR_LIMIT;
    }
    *out_window = cheapest_window(engine, &run, size_bytes);
    return DAO_OK;
}

/* The window whose last tensor ranks highest; a scattered one alone, which may not be enough. */
static dao_status_t find_ranked(dao_engine_t *engine, uint64_t size_bytes, const leave_rule_t *rule,
                                window_t *out_window)
{
    dao_status_t status = DAO_ERR_LIMIT;
    uint32_t look_max = rule->used_after == ANY_TIME ? UINT32_MAX : EARLY_LOOK_MAX;
    engine->search_count++;
    for (uint32_t i = 0; status == DAO_ERR_LIMIT && i < look_max && engine->first_victim != NULL; i++) {
        dao_managed_t *tensor = engine->first_victim;
        uint64_t next_use = dao_victims_next_use(engine, tensor);
        if (rule->used_after != ANY_TIME && engine->config.policy == DAO_POLICY_BELADY &&
            next_use <= (uint64_t)rule->used_after) {
            break; /* and so are all others */
        }
        bool may_go = may_leave(rule, tensor, next_use);
        if (may_go &&
            (dao_device_arena_part_bytes(tensor->size_bytes) >= size_bytes || is_scattered(engine, tensor))) {
            *out_window = (window_t){.only = tensor}; /* it need not be set aside */
            status = DAO_OK;
            break;
        }
        (void)dao_victims_pop(engine);
        status = may_go ? take_more(engine, tensor, size_bytes, out_window) : DAO_ERR_LIMIT;
    }
    dao_victims_put_back(engine);
    return status;
}

/* Returns true if the policy ranks tensors, whatever their neighbours are. */
static bool is_ranking(dao_policy_t policy)
{
    return policy == DAO_POLICY_LRU || policy == DAO_POLICY_BELADY || policy == DAO_POLICY_SIZE;
}

/* Evicts what the policy chooses. DAO_ERR_LIMIT: nothing that may leave makes enough room. */
static dao_status_t evict_window(dao_engine_t *engine, uint64_t size_bytes, const leave_rule_t *rule)
{
    window_t window = {0};
    dao_status_t status = is_ranking(engine->config.policy) ? find_ranked(engine, size_bytes, rule, &window)
                                                            : find_valued(engine, size_bytes, rule, &window);
    if (status == DAO_OK && window.only != NULL) {
        return dao_residency_evict(engine, window.only);
    }
    uint64_t offset = window.begin_bytes;
    while (status == DAO_OK && offset < window.end_bytes) {
        dao_range_block_t block = block_at(engine, offset);
        dao_managed_t *tensor = tensor_of(&block);
        offset = block.offset_bytes + block.size_bytes;
        status = tensor != NULL ? dao_residency_evict(engine, tensor) : DAO_OK;
    }
    return status;
}

/* The last resort on a full host: host copies that are only kept to save a copy out. */
static bool drop_spare_host_copies(dao_engine_t *engine)
{
    bool dropped = false;
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        bool is_partial = tensor->residency == DAO_RESIDENCY_PARTIAL && !tensor->is_operand;
        if (tensor->residency == DAO_RESIDENCY_BOTH ||
            (is_partial && dao_partial_complete(engine, tensor) == DAO_OK)) {
            dao_residency_drop_host(engine, tensor);
            dropped = true;
        }
    }
    return dropped;
}

/* Evicts, and with the host full tries what needs no copy, then what frees a copy. */
static dao_status_t evict_somehow(dao_engine_t *engine, uint64_t size_bytes)
{
    static const leave_rule_t any = {.used_after = ANY_TIME};
    static const leave_rule_t clean = {.used_after = ANY_TIME, .keep_dirty = true};
    dao_status_t status = evict_window(engine, size_bytes, &any);
    if (status != DAO_ERR_HOST_FULL) {
        return status;
    }
    dao_error_record_t host_full;
    dao_error_save(&host_full, status);
    status = evict_window(engine, size_bytes, &clean);
    if (status == DAO_ERR_LIMIT) {
        status = drop_spare_host_copies(engine) ? evict_window(engine, size_bytes, &any)
                                                : dao_error_restore(&host_full);
    }
    return status;
}

/* Evicts whatever lies in a stretch of the arena. DAO_ERR_LIMIT: something there must stay. */
static dao_status_t evict_stretch(dao_engine_t *engine, uint64_t begin_bytes, uint64_t end_bytes)
{
    static const leave_rule_t any = {.used_after = ANY_TIME};
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && begin_bytes < end_bytes) {
        dao_range_block_t block = block_at(engine, begin_bytes);
        dao_managed_t *tensor = tensor_of(&block);
        bool must_stay = !block.is_free && (tensor == NULL || !may_leave(&any, tensor, DAO_TIME_NEVER));
        begin_bytes = block.offset_bytes + block.size_bytes;
        status = must_stay ? DAO_ERR_LIMIT : tensor != NULL ? dao_residency_evict(engine, tensor) : DAO_OK;
    }
    return status;
}

dao_status_t dao_eviction_take_at(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes)
{
    uint64_t bytes = dao_device_arena_part_bytes(tensor->size_bytes);
    DAO_ASSERT(engine->plan == NULL);
    dao_status_t status = evict_stretch(engine, offset_bytes, offset_bytes + bytes);
    return status == DAO_OK
               ? dao_device_arena_take_at(&engine->arena, offset_bytes, bytes, (uint64_t)(uintptr_t)tensor)
               : status;
}

/* A pinned tensor comes to its own place. */
static dao_managed_t *pinned_of(uint64_t owner)
{
    dao_managed_t *tensor = owner != DAO_OWNER_WORKSPACE ? (dao_managed_t *)(uintptr_t)owner : NULL;
    return tensor != NULL && tensor->pin.count > 0 ? tensor : NULL;
}

/* Takes a part, and evicts for it: what the rule lets go, or, without one, whatever makes room. */
static dao_status_t take_evicting(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner,
                                  const leave_rule_t *rule, uint64_t *out_offset_bytes)
{
    DAO_ASSERT(engine->plan == NULL); /* else the plan has the arena */
    DAO_ASSERT(owner != 0);
    dao_managed_t *pinned = pinned_of(owner);
    if (pinned != NULL) {
        *out_offset_bytes = pinned->pin.offset_bytes;
        return dao_eviction_take_at(engine, pinned, pinned->pin.offset_bytes);
    }
    size_bytes = dao_device_arena_part_bytes(size_bytes);
    dao_status_t status = dao_device_arena_take(&engine->arena, size_bytes, owner, out_offset_bytes);
    dao_status_t evicted = DAO_OK;
    while (status == DAO_ERR_LIMIT && evicted == DAO_OK) { /* more than once behind scattered tensors alone */
        evicted = rule == NULL ? evict_somehow(engine, size_bytes) : evict_window(engine, size_bytes, rule);
        status = evicted == DAO_OK
                     ? dao_device_arena_take(&engine->arena, size_bytes, owner, out_offset_bytes)
                     : evicted;
    }
    return status;
}

dao_status_t dao_eviction_take(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner,
                               uint64_t *out_offset_bytes)
{
    return take_evicting(engine, size_bytes, owner, NULL, out_offset_bytes);
}

dao_status_t dao_eviction_take_early(dao_engine_t *engine, uint64_t size_bytes, uint64_t owner, uint64_t time,
                                     uint64_t *out_offset_bytes)
{
    const leave_rule_t rule = {.used_after = (int64_t)time};
    return take_evicting(engine, size_bytes, owner, &rule, out_offset_bytes);
}

dao_status_t dao_eviction_clear(dao_engine_t *engine)
{
    DAO_ASSERT(engine->plan == NULL);
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (dao_residency_is_on_device(tensor) && tensor->pin.count == 0) {
            dao_status_t status = dao_residency_evict(engine, tensor);
            if (status != DAO_OK) {
                return status;
            }
        }
    }
    DAO_ASSERT(dao_range_used(engine->arena.range) <= engine->pinned_bytes);
    return DAO_OK;
}
