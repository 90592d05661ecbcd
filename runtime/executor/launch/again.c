/* SPDX-License-Identifier: Apache-2.0 */
/* What was given up comes back.

       kernel k      launched, kept        again                   again, for the last time
       its inputs    held ------------------------------------------------------> not held
       its output    written .. given up   written .. given up     written

   While a plan is followed, it says when a kept kernel runs again. A plan that is left hands its kept kernels
   over (leave), and before anything else happens to any tensor they run, in the order of their first runs, if
   an output of theirs is given up (restore).

   Why nothing is lost: a content is given up only while its kernel is kept. A kept kernel's inputs are held:
   neither a release nor a discard frees them. No kernel of the plan writes one before the kernel has run
   again, since the plan was checked; a kernel that is not the plan's, or the program, comes behind the
   restoring. An input may be given up itself: then the kernel that wrote it is kept too, and ran before.

   Invariants: hold_count counts the uses of kept kernels; a tensor that is given up is EMPTY and held;
   kernels are in the list only while no plan is followed. */
#include "runtime/executor/launch/again.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/launch/launch.h"
#include "runtime/executor/records/tensor.h"
#include "runtime/executor/state/residency.h"
#include "runtime/executor/state/table.h"

void dao_again_keep(dao_item_t *item, uint32_t count, uint64_t again_ns)
{
    DAO_ASSERT(count > 0);
    DAO_ASSERT(item->again_count == 0);
    item->again_count = count;
    item->again_ns = again_ns;
    for (uint32_t i = 0; i < item->use_count; i++) {
        item->uses[i].tensor->hold_count++;
    }
}

/* Its tensors are not held by it any more; what was put off for that is done. */
static void let_go(dao_engine_t *engine, dao_item_t *item)
{
    item->again_count = 0;
    for (uint32_t i = 0; i < item->use_count; i++) {
        dao_managed_t *tensor = item->uses[i].tensor;
        DAO_ASSERT(tensor->hold_count > 0);
        tensor->hold_count--;
        if (tensor->hold_count > 0) {
            continue;
        }
        tensor->is_given_up = false;
        if (tensor->is_discard_due) {
            tensor->is_discard_due = false;
            dao_residency_discard(engine, tensor);
        }
        dao_table_settle(engine, tensor);
    }
    dao_launch_keep(engine, item);
}

bool dao_again_pass(dao_engine_t *engine, dao_item_t *item)
{
    DAO_ASSERT(item->again_count > 0);
    engine->stats.again_count++;
    engine->stats.again_ns += item->again_ns;
    if (--item->again_count > 0) {
        return false;
    }
    let_go(engine, item);
    return true;
}

void dao_again_give_up(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->hold_count > 0);
    dao_residency_discard(engine, tensor);
    tensor->is_given_up = true;
}

bool dao_again_puts_off_discard(dao_managed_t *tensor)
{
    tensor->is_discard_due = tensor->hold_count > 0;
    return tensor->is_discard_due;
}

void dao_again_leave(dao_engine_t *engine, dao_item_t *item)
{
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(item->again_count > 0);
    item->next = NULL;
    *(engine->first_kept != NULL ? &engine->last_kept->next : &engine->first_kept) = item;
    engine->last_kept = item;
}

static dao_item_t *take_first(dao_engine_t *engine)
{
    dao_item_t *item = engine->first_kept;
    engine->first_kept = item->next;
    engine->last_kept = engine->first_kept != NULL ? engine->last_kept : NULL;
    return item;
}

static bool has_given_up(const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        if (item->uses[i].kind != DAO_USE_READ && item->uses[i].tensor->is_given_up) {
            return true;
        }
    }
    return false;
}

/* Returns true if an input has no content: what made it has failed. Zeros of a first touch are not what the
   first run read either: that has left a content. */
static bool lacks_input(const dao_item_t *item)
{
    for (uint32_t i = 0; i < item->use_count; i++) {
        const dao_managed_t *tensor = item->uses[i].tensor;
        if (item->uses[i].kind == DAO_USE_READ && tensor->residency == DAO_RESIDENCY_EMPTY) {
            return true;
        }
    }
    return false;
}

static dao_status_t run_once_more(dao_engine_t *engine, dao_item_t *item)
{
    dao_placement_t placement = {.is_again = true};
    uint64_t sequence = 0;
    dao_fence_t fence = {0};
    if (lacks_input(item)) {
        return dao_error(DAO_ERR_NEVER_WRITTEN, "what it reads could not be made again either");
    }
    dao_status_t status = dao_launch_prepare(engine, item, &placement);
    status = status == DAO_OK ? dao_launch_queue(engine, item, &placement, &sequence) : status;
    if (status == DAO_OK) {
        dao_launch_commit(engine, item, &placement, sequence);
        engine->stats.again_count++;
        engine->stats.again_ns += item->again_ns;
    } else {
        dao_fence_add(&fence, dao_timeline_compute(item->stream_index), sequence);
        dao_launch_undo(engine, item, &placement, &fence);
    }
    dao_launch_mark(item, false);
    return status;
}

bool dao_again_restore(dao_engine_t *engine)
{
    while (engine->first_kept != NULL) {
        dao_item_t *item = take_first(engine);
        DAO_ASSERT(engine->plan == NULL);
        dao_status_t status = has_given_up(item) && !engine->is_lost ? run_once_more(engine, item) : DAO_OK;
        if (status != DAO_OK) {
            dao_error_prefix("kernel \"%s\" cannot run again, and its outputs count as never written: ",
                             item->name);
            dao_engine_fail(engine, status, false);
        }
        let_go(engine, item);
    }
    return !engine->has_failed && !engine->is_lost;
}

void dao_again_abandon(dao_engine_t *engine)
{
    while (engine->first_kept != NULL) {
        let_go(engine, take_first(engine));
    }
}
