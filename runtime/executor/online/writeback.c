/* SPDX-License-Identifier: Apache-2.0 */
/* Which copy begins, if any:

       idle       no copy out is in flight, and the bytes were written: the copy runs at once, and
                  delays one that is needed by its own time at most
       near       the host is not far ahead of the device: where it is, evictions are queued long
                  before their memory is needed
       pressure   free bytes, and those of clean tensors, are less than a share of the arena
       victim     the tensor that the policy would evict first: used by no admitted kernel
                  (prefetch.c), and of these the furthest next use, or the longest unused. Its next
                  use is a read, or unknown: a content that is written next need not be kept

   Host memory is taken only where there is some to spare. is_writing_back holds from the low mark to the
   high mark of DAO_WRITEBACK_LOW_PERCENT and DAO_WRITEBACK_HIGH_PERCENT. */
#include "runtime/executor/online/writeback.h"

#include "base/report/assert.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/victims.h"

/* The time of the first kernel that is not admitted; of the next one that comes, if all are. */
static uint64_t frontier_time(const dao_engine_t *engine)
{
    const dao_item_t *item = engine->frontier;
    return item != NULL && item->use_count > 0 ? item->uses[0].time : engine->next_time;
}

static bool may_leave(const dao_managed_t *tensor, uint64_t time)
{
    return !tensor->is_operand && !dao_access_is_dead(tensor) && dao_access_next_use(tensor) >= time;
}

static bool can_be_copied(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    bool is_kept = tensor->first_use == NULL || tensor->first_use->kind == DAO_USE_READ;
    return is_kept && dao_residency_is_on_device(tensor) && !dao_residency_is_clean(tensor) &&
           dao_timeline_is_done(&engine->timeline, &tensor->device_written);
}

/* Returns the first of the next victims that can be copied; NULL: none can. */
static dao_managed_t *choose(dao_engine_t *engine)
{
    uint64_t time = frontier_time(engine);
    dao_managed_t *found = NULL;
    for (uint32_t i = 0; found == NULL && i < DAO_WRITEBACK_LOOK_MAX; i++) {
        dao_managed_t *tensor = dao_victims_pop(engine);
        if (tensor == NULL) {
            break;
        }
        found = may_leave(tensor, time) && can_be_copied(engine, tensor) ? tensor : NULL;
    }
    dao_victims_put_back(engine);
    return found;
}

/* Policies whose victims can be told before they are chosen. */
static bool is_foreseeable(dao_policy_t policy)
{
    return policy == DAO_POLICY_LRU || policy == DAO_POLICY_WEIGHTED_LRU || policy == DAO_POLICY_BELADY ||
           policy == DAO_POLICY_WEIGHTED_BELADY;
}

static bool is_way_out_idle(const dao_engine_t *engine)
{
    const dao_timeline_stream_t *stream = &engine->timeline.streams[DAO_STREAM_ROLE_D2H];
    return stream->issued == stream->completed;
}

/* Returns true if a compute stream has work for long. */
static bool is_far_ahead(const dao_engine_t *engine)
{
    bool is_ahead = false;
    for (uint32_t i = 0; !is_ahead && i < engine->config.stream_count; i++) {
        is_ahead = dao_throttle_is_ahead(&engine->throttles[i], &engine->timeline, DAO_WRITEBACK_NS_MAX);
    }
    return is_ahead;
}

void dao_writeback_run(dao_engine_t *engine)
{
    DAO_ASSERT(engine->plan == NULL);
    if (engine->has_failed || engine->is_lost || !is_foreseeable(engine->config.policy) ||
        !is_way_out_idle(engine) || is_far_ahead(engine)) {
        return;
    }
    uint64_t ready_bytes =
        engine->config.arena_bytes - dao_range_used(engine->arena.range) + engine->clean_bytes;
    unsigned percent = engine->is_writing_back ? DAO_WRITEBACK_HIGH_PERCENT : DAO_WRITEBACK_LOW_PERCENT;
    DAO_ASSERT(ready_bytes <= engine->config.arena_bytes);
    engine->is_writing_back = ready_bytes < engine->config.arena_bytes / 100 * percent;
    dao_managed_t *tensor = engine->is_writing_back ? choose(engine) : NULL;
    if (tensor != NULL && dao_host_tier_has_spare(&engine->host_tier, tensor->size_bytes)) {
        engine->is_writing_back =
            dao_residency_save(engine, tensor) == DAO_OK; /* else it stays where it is */
        engine->stats.writeback_count += engine->is_writing_back ? 1 : 0;
    }
}
