/* SPDX-License-Identifier: Apache-2.0 */
/* Free parts that streams may still use.

       set 0 MIXED    bins    what several streams fence, or one without a set of its own
       set 3          bins    what stream 3 alone fences, and its queue by epoch:
                                  oldest [ 4 ] <-> [ 4 ] <-> [ 7 ] <-> [ 9 ] newest

   So a stream finds its own parts by the same search as what nothing fences, everybody else passes them by,
   and settling takes what has passed from the front of each queue. A part that grows by another free of its
   stream goes to the queue's end.

   A stream's set is made as it allocates here for the first time, or is announced, and stays. Its bins take
   the room of so many nodes in the table, since links lead there. A free never needs memory: what a stream
   without a set fences goes to MIXED.

   What holds between calls:

       a fenced node's state is NODE_FENCED + the number of its set
       a stream's queue has the nodes of its set, count of them, once each, and no epoch is below the one
           before
       fenced_units == the sum of the sizes of all sets' nodes */
#include "allocators/range/range_internal.h"

#include "base/memory/host.h"

#define NONE DAO_RANGE_NONE

/* Returns the set for what a fence fences. */
static uint32_t set_for(const dao_range_t *range, const dao_stream_fence_t *fence)
{
    bool is_one = (fence->streams & (fence->streams - 1)) == 0;
    return is_one && (fence->streams & range->set_bits) != 0 ? (uint32_t)__builtin_ctzll(fence->streams)
                                                             : DAO_RANGE_MIXED;
}

/* ---- into bins and out of them ---- */

/* Gives a free node that is in no bin its state and its fence. */
static void dress(dao_range_t *range, uint32_t link, const dao_stream_fence_t *fence)
{
    if (dao_stream_fence_is_empty(fence)) {
        dao_range_at(range, link)->state = NODE_FREE;
        return;
    }
    uint32_t set = set_for(range, fence);
    dao_range_at(range, link)->state = (uint16_t)(NODE_FENCED + set);
    dao_range_fence(range, link)->epoch = fence->epoch;
    if (set == DAO_RANGE_MIXED) {
        dao_range_fence(range, link)->streams = fence->streams;
    }
}

/* Puts a node into the queue of its set, behind `older` or an even older one: mostly the newest. */
static void queue_insert(dao_range_t *range, dao_range_set_t *set, uint32_t link, uint32_t older)
{
    dao_range_fence_t *fence = dao_range_fence(range, link);
    while (older != NONE && dao_range_fence(range, older)->epoch > fence->epoch) {
        older = dao_range_fence(range, older)->older;
    }
    uint32_t newer = older != NONE ? dao_range_fence(range, older)->newer : set->oldest;
    fence->older = older;
    fence->newer = newer;
    *(older != NONE ? &dao_range_fence(range, older)->newer : &set->oldest) = link;
    *(newer != NONE ? &dao_range_fence(range, newer)->older : &set->newest) = link;
}

/* dao_range_put() beside a node of the same fence, if that is in the same set. */
static void put_beside(dao_range_t *range, uint32_t link, const dao_stream_fence_t *fence, uint32_t alike)
{
    dress(range, link, fence);
    size_t bin = dao_range_bin_of(dao_range_at(range, link)->size_units);
    dao_range_bin_insert(range, dao_range_bins_of(range, link), link, bin);
    if (!dao_stream_fence_is_empty(fence)) {
        dao_range_set_t *set = range->sets[dao_range_set_of(range, link)];
        set->count++;
        range->fenced_units += dao_range_at(range, link)->size_units;
        if (set != range->sets[DAO_RANGE_MIXED]) {
            bool is_beside = dao_range_at(range, alike)->state == dao_range_at(range, link)->state;
            queue_insert(range, set, link, is_beside ? alike : set->newest);
        }
    }
}

void dao_range_put(dao_range_t *range, uint32_t link, const dao_stream_fence_t *fence)
{
    put_beside(range, link, fence, NONE);
}

void dao_range_put_split(dao_range_t *range, uint32_t link, uint32_t from)
{
    dao_stream_fence_t fence = dao_range_fence_of(range, from);
    put_beside(range, link, &fence, from);
}

/* Takes a free node out of its bin and its queue; its fence is as it was. */
static void leave_bin(dao_range_t *range, uint32_t link)
{
    DAO_ASSERT(dao_range_is_free(range, link));
    dao_range_bin_remove(range, link);
    if (dao_range_is_fenced(range, link)) {
        dao_range_set_t *set = range->sets[dao_range_set_of(range, link)];
        set->count--;
        range->fenced_units -= dao_range_at(range, link)->size_units;
        if (set != range->sets[DAO_RANGE_MIXED]) {
            dao_range_queue_remove(range, set, link);
        }
    }
}

dao_stream_fence_t dao_range_take_out(dao_range_t *range, uint32_t link)
{
    leave_bin(range, link);
    return dao_range_fence_of(range, link);
}

void dao_range_absorb_after(dao_range_t *range, uint32_t link, dao_stream_fence_t *fence)
{
    uint32_t after = dao_range_at(range, link)->after;
    dao_stream_fence_t joined = dao_range_take_out(range, after);
    if (range->firsts != NULL) {
        dao_range_index_drop(range, after);
    }
    dao_stream_fence_join(fence, &joined);
    dao_range_join_nodes(range, link, after);
    dao_range_node_give(range, after);
}

uint32_t dao_range_put_merged(dao_range_t *range, uint32_t link, dao_stream_fence_t fence)
{
    dress(range, link, &fence);
    while (dao_range_are_alike(range, link, dao_range_at(range, link)->after)) {
        dao_range_absorb_after(range, link, &fence);
    }
    uint32_t before = dao_range_at(range, link)->before;
    if (dao_range_are_alike(range, before, link)) {
        dao_stream_fence_t joined = dao_range_take_out(range, before);
        dao_stream_fence_join(&fence, &joined);
        if (range->firsts != NULL) {
            dao_range_index_drop(range, link);
        }
        dao_range_join_nodes(range, before, link);
        dao_range_node_give(range, link);
        link = before;
    }
    dao_range_put(range, link, &fence);
    return link;
}

/* ---- what has passed ---- */

bool dao_range_has_fences(const dao_range_t *range)
{
    return range->fenced_units > 0;
}

uint64_t dao_range_fenced(const dao_range_t *range)
{
    return range->fenced_units << UNIT_SHIFT;
}

/* Makes a part that has left its bin free for all. */
static DAO_ON_THE_PATH void put_free(dao_range_t *range, uint32_t link)
{
    if (range->is_plain) {
        dao_range_make_free(range, link);
    } else {
        (void)dao_range_put_merged(range, link, (dao_stream_fence_t){0});
    }
}

/* Settles up to `most` parts of a stream's set, the oldest first: those up to an epoch. They leave the queue
   and the counts together. */
static uint32_t settle_set(dao_range_t *range, dao_range_set_t *set, uint64_t done_epoch, uint32_t most)
{
    uint32_t count = 0;
    uint64_t size_units = 0;
    uint32_t link = set->oldest;
    while (count < most && link != NONE && dao_range_fence(range, link)->epoch <= done_epoch) {
        uint32_t newer = dao_range_fence(range, link)->newer;
        size_units += dao_range_at(range, link)->size_units;
        dao_range_bin_remove(range, link);
        put_free(range, link);
        link = newer;
        count++;
    }
    set->oldest = link;
    if (link != NONE) {
        dao_range_fence(range, link)->older = NONE;
    } else {
        set->newest = NONE;
    }
    range->fenced_units -= size_units;
    set->count -= count;
    return count;
}

/* Returns true if all streams of a fence have passed it. */
static bool has_passed(const dao_stream_fence_t *fence, dao_range_done_epoch_t done_epoch_of, void *user)
{
    for (uint64_t streams = fence->streams; streams != 0; streams &= streams - 1) {
        if (fence->epoch > done_epoch_of((uint32_t)__builtin_ctzll(streams), user)) {
            return false;
        }
    }
    return true;
}

/* Settles up to `most` parts of MIXED, which have no order. Merging with what is not fenced leaves the list
   of a bin there as it is. */
static uint32_t settle_mixed(dao_range_t *range, dao_range_done_epoch_t done_epoch_of, void *user,
                             uint32_t most)
{
    dao_range_set_t *bins = range->sets[DAO_RANGE_MIXED];
    uint32_t count = 0;
    for (size_t bin = dao_range_next_bin(range, bins, BIN_FIRST); bin != DAO_RANGE_NO_BIN;
         bin = dao_range_next_bin(range, bins, bin + 1)) {
        uint32_t after;
        for (uint32_t link = dao_range_bin_first(range, bins, bin); link != NONE && count < most;
             link = after) {
            after = dao_range_at(range, link)->bin_after;
            dao_stream_fence_t fence = dao_range_fence_of(range, link);
            if (has_passed(&fence, done_epoch_of, user)) {
                leave_bin(range, link);
                put_free(range, link);
                count++;
            }
        }
    }
    return count;
}

uint32_t dao_range_settle(dao_range_t *range, dao_range_done_epoch_t done_epoch_of, void *user, uint32_t most)
{
    uint32_t count = 0;
    for (uint64_t bits = range->set_bits; range->fenced_units > 0 && bits != 0; bits &= bits - 1) {
        uint32_t stream = (uint32_t)__builtin_ctzll(bits);
        dao_range_set_t *set = range->sets[stream];
        if (count < most && set->oldest != NONE) {
            count += settle_set(range, set, done_epoch_of(stream, user), most - count);
        }
    }
    if (range->sets[DAO_RANGE_MIXED]->count > 0) {
        count += settle_mixed(range, done_epoch_of, user, most - count);
    }
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
    return count;
}

void dao_range_join(dao_range_t *range)
{
    if (range->fenced_units == 0) {
        return;
    }
    for (uint32_t link = dao_range_first(range); link != NONE; link = dao_range_at(range, link)->after) {
        if (!dao_range_is_free(range, link) || !dao_range_is_free(range, dao_range_at(range, link)->after)) {
            continue;
        }
        dao_stream_fence_t fence = dao_range_take_out(range, link);
        while (dao_range_is_free(range, dao_range_at(range, link)->after)) {
            dao_range_absorb_after(range, link, &fence);
        }
        dao_range_put(range, link, &fence);
    }
    DAO_ASSERT_HEAVY(dao_range_is_valid(range));
}
