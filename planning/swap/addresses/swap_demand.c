/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel by kernel, around the step:

       address ->  | A | free |  B  | C |  free  |     the kernel wants D: | B | C | together have room

   What a kernel uses and is not there takes a window of neighbours, free or not wanted now, at the least sum
   of (bytes to move) / (kernels to the next use): what leaves costs its way back, and out if the host has not
   its bytes, and the room that is won lasts until it comes back. Source: the executor note's windows, by
   which the policy `window` of the executor chooses, too. What the kernel before has just used stays if it
   may: copies need not wait for its end then. Where the kernel's own tensors leave no window, all that is
   there leaves, and the kernel's tensors lie one behind the other.

   Every step has to find memory as the one before did. So laps go around the step until one ends with all
   that it began with, at the same addresses. Where that does not come by itself, a lap begins with what the
   one before began and ended with alone. Laps begin with the kernel that needs most, as little else is there.

   Invariant: blocks ascend and cover the capacity; no two free ones are neighbours. */
#include "planning/swap/addresses/swap_demand.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Laps that begin as the one before ended; as many may leave something out. */
#define SETTLING_LAP_COUNT 2u

/* Memory that is free, or a tensor's. */
typedef struct block {
    uint64_t address_bytes, size_bytes;
    uint32_t access; /* the last one of the tensor, maybe in the lap before; DAO_SWAP_NONE: free */
    uint32_t kernel, next_kernel; /* of that access, and of the next one */
    bool is_changed;              /* the host has not these bytes */
    bool is_wanted;               /* by the kernel at hand, whose access is the next one or `access` */
} block_t;

/* What the kernel at hand uses and is not there. */
typedef struct missing {
    uint64_t size_bytes;
    uint32_t access;
} missing_t;

typedef struct demand_walk {
    const dao_swap_step_t *step;
    dao_swap_decision_t *decisions;
    uint64_t *addresses; /* of each access's tensor */
    block_t *blocks;
    uint32_t block_count;
    block_t *begun; /* what the lap began with */
    uint32_t begun_count;
    block_t *kept; /* of that, what it also ended with */
    uint32_t kept_count;
    missing_t *missing;
    uint32_t missing_count;
    uint64_t capacity_bytes;
} demand_walk_t;

static bool is_free(const block_t *block)
{
    return block->access == DAO_SWAP_NONE;
}

static uint64_t size_of(const demand_walk_t *walk, uint32_t access)
{
    return walk->step->size_bytes[walk->step->accesses[access].tensor];
}

/* Makes one block of some neighbours, with what `merged` says beside their bytes. */
static block_t *merge(demand_walk_t *walk, uint32_t first, uint32_t last, block_t merged)
{
    block_t *blocks = walk->blocks;
    merged.address_bytes = blocks[first].address_bytes;
    merged.size_bytes = blocks[last].address_bytes + blocks[last].size_bytes - merged.address_bytes;
    memmove(&blocks[first + 1], &blocks[last + 1], (walk->block_count - last - 1) * sizeof(*blocks));
    walk->block_count -= last - first;
    blocks[first] = merged;
    return &blocks[first];
}

/* Makes a block free. Returns the index of the free block that it is a part of then. */
static uint32_t release(demand_walk_t *walk, uint32_t at)
{
    uint32_t first = at > 0 && is_free(&walk->blocks[at - 1]) ? at - 1 : at;
    uint32_t last = at + 1 < walk->block_count && is_free(&walk->blocks[at + 1]) ? at + 1 : at;
    (void)merge(walk, first, last, (block_t){.access = DAO_SWAP_NONE});
    return first;
}

/* Lets a tensor leave, in the inactive period behind its last access. */
static void leave(demand_walk_t *walk, const block_t *block)
{
    DAO_ASSERT(walk->step->accesses[block->access].inactive_is_live);
    walk->decisions[block->access].is_away = true;
}

/* What it costs that a block's tensor is away until its next use, in bytes a kernel. */
static double cost_of(const demand_walk_t *walk, const block_t *block, uint32_t kernel)
{
    if (is_free(block)) {
        return 0;
    }
    uint32_t next = block->next_kernel;
    uint32_t kernels = next > kernel ? next - kernel : next + walk->step->kernel_count - kernel;
    return (double)block->size_bytes * (block->is_changed ? 2 : 1) / kernels;
}

/* Returns true if a block is not to leave for a kernel. */
static bool has_to_stay(const block_t *block, uint32_t kernel, bool spares_last)
{
    return block->is_wanted || (spares_last && !is_free(block) && block->kernel + 1 == kernel);
}

typedef struct window {
    uint32_t first, last; /* blocks */
    uint64_t size_bytes;
    double cost; /* INFINITY: there is none */
} window_t;

static window_t cheaper(window_t a, window_t b)
{
    return b.cost < a.cost || (b.cost == a.cost && b.size_bytes < a.size_bytes) ? b : a;
}

/* Finds the window of at least `size_bytes` that costs least, of those the smallest. Each is as short as it
   can be. `spares_last`: what the kernel before used stays. */
static window_t find_window(const demand_walk_t *walk, uint64_t size_bytes, uint32_t kernel, bool spares_last)
{
    const block_t *blocks = walk->blocks;
    window_t best = {.size_bytes = UINT64_MAX, .cost = INFINITY}, window = {0};
    for (uint32_t last = 0; last < walk->block_count; last++) {
        if (has_to_stay(&blocks[last], kernel, spares_last)) {
            window = (window_t){.first = last + 1};
            continue;
        }
        window.size_bytes += blocks[last].size_bytes;
        while (window.size_bytes - blocks[window.first].size_bytes >= size_bytes) {
            window.size_bytes -= blocks[window.first++].size_bytes;
        }
        if (window.size_bytes < size_bytes) {
            continue;
        }
        window.last = last;
        window.cost = 0;
        for (uint32_t i = window.first; i <= last && window.cost <= best.cost; i++) {
            window.cost += cost_of(walk, &blocks[i], kernel);
        }
        best = cheaper(best, window);
    }
    dao_swap_add_work(walk->step, walk->block_count / 2);
    return best;
}

/* Gives a window to an access: what is in it leaves, and what it does not fill stays free. */
static void take(demand_walk_t *walk, const window_t *window, uint32_t access)
{
    uint64_t size_bytes = size_of(walk, access);
    for (uint32_t i = window->first; i <= window->last; i++) {
        if (!is_free(&walk->blocks[i])) {
            leave(walk, &walk->blocks[i]);
        }
    }
    block_t *taken = merge(walk, window->first, window->last, (block_t){.access = access, .is_wanted = true});
    uint64_t left_bytes = taken->size_bytes - size_bytes;
    if (left_bytes > 0) {
        taken->size_bytes = size_bytes;
        block_t rest = {.address_bytes = taken->address_bytes + size_bytes,
                        .size_bytes = left_bytes,
                        .access = DAO_SWAP_NONE};
        memmove(taken + 2, taken + 1, (walk->block_count - window->first - 1) * sizeof(*taken));
        taken[1] = rest;
        walk->block_count++;
        (void)release(walk, window->first + 1); /* it may have a free neighbour */
    }
}

/* Empties the device, then puts what a kernel uses at its begin. */
static void pack(demand_walk_t *walk, uint32_t kernel)
{
    const dao_swap_step_t *step = walk->step;
    uint32_t first = step->kernel_access[kernel], end = step->kernel_access[kernel + 1];
    for (uint32_t i = 0; i < walk->block_count; i++) {
        const block_t *block = &walk->blocks[i];
        if (!is_free(block) && (block->access < first || block->access >= end)) {
            leave(walk, block);
        }
    }
    walk->blocks[0] = (block_t){.size_bytes = walk->capacity_bytes, .access = DAO_SWAP_NONE};
    walk->block_count = 1;
    for (uint32_t t = first; t < end; t++) {
        const window_t rest = {.first = walk->block_count - 1, .last = walk->block_count - 1};
        take(walk, &rest, t);
    }
}

static int compare_missing(const void *a, const void *b)
{
    const missing_t *one = a, *other = b;
    if (one->size_bytes != other->size_bytes) {
        return one->size_bytes > other->size_bytes ? -1 : 1;
    }
    return one->access < other->access ? -1 : 1;
}

/* Marks what a kernel wants and is there, and lists the rest, the largest first. */
static void look_for(demand_walk_t *walk, uint32_t kernel)
{
    const dao_swap_step_t *step = walk->step;
    uint32_t first = step->kernel_access[kernel], count = step->kernel_access[kernel + 1] - first;
    for (uint32_t i = 0; i < count; i++) {
        walk->missing[i] = (missing_t){size_of(walk, first + i), first + i};
    }
    for (uint32_t i = 0; i < walk->block_count; i++) {
        block_t *block = &walk->blocks[i];
        uint32_t next = is_free(block) ? DAO_SWAP_NONE : step->accesses[block->access].next;
        block->is_wanted = next >= first && next < first + count;
        if (block->is_wanted) {
            walk->missing[next - first].access = DAO_SWAP_NONE;
        }
    }
    walk->missing_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (walk->missing[i].access != DAO_SWAP_NONE) {
            walk->missing[walk->missing_count++] = walk->missing[i];
        }
    }
    qsort(walk->missing, walk->missing_count, sizeof(*walk->missing), compare_missing);
}

/* What a kernel used has been read and written: what nobody reads again is gone. */
static void pass_kernel(demand_walk_t *walk, uint32_t kernel)
{
    const dao_swap_step_t *step = walk->step;
    uint32_t first = step->kernel_access[kernel];
    for (uint32_t i = 0; i < walk->block_count; i++) {
        block_t *block = &walk->blocks[i];
        if (!block->is_wanted) {
            continue;
        }
        if (block->access < first || block->access >= step->kernel_access[kernel + 1]) {
            block->access = step->accesses[block->access].next;
        }
        walk->addresses[block->access] = block->address_bytes;
        block->is_wanted = false;
        block->kernel = kernel;
        block->next_kernel = step->accesses[step->accesses[block->access].next].kernel;
        block->is_changed = block->is_changed || step->accesses[block->access].writes;
        i = step->accesses[block->access].inactive_is_live ? i : release(walk, i);
    }
}

static void walk_kernel(demand_walk_t *walk, uint32_t kernel)
{
    bool has_room = true;
    look_for(walk, kernel);
    for (uint32_t i = 0; i < walk->missing_count && has_room; i++) {
        window_t window = find_window(walk, walk->missing[i].size_bytes, kernel, true);
        if (window.cost == INFINITY) {
            window = find_window(walk, walk->missing[i].size_bytes, kernel, false);
        }
        has_room = window.cost < INFINITY;
        if (has_room) {
            take(walk, &window, walk->missing[i].access);
        }
    }
    if (!has_room) {
        pack(walk, kernel);
    }
    pass_kernel(walk, kernel);
}

/* Returns true if a block lies where it lay as the lap began. `at` goes on with each block of a rising
 * address.
 */
static bool lies_as_begun(const demand_walk_t *walk, const block_t *block, uint32_t *at)
{
    while (*at + 1 < walk->begun_count && walk->begun[*at].address_bytes < block->address_bytes) {
        ++*at;
    }
    const block_t *begun = &walk->begun[*at];
    return begun->address_bytes == block->address_bytes && begun->access == block->access;
}

/* Keeps of what a lap ended with what it also began with. Returns true if that is all that it began with. */
static bool ends_as_begun(demand_walk_t *walk)
{
    uint32_t begun_tensors = 0, kept_tensors = 0, count = 0;
    for (uint32_t i = 0; i < walk->begun_count; i++) {
        begun_tensors += !is_free(&walk->begun[i]);
    }
    for (uint32_t i = 0, at = 0; i < walk->block_count; i++) {
        block_t block = walk->blocks[i];
        if (!is_free(&block) && lies_as_begun(walk, &block, &at)) {
            kept_tensors++;
        } else {
            block.access = DAO_SWAP_NONE;
        }
        if (count > 0 && is_free(&block) && is_free(&walk->kept[count - 1])) {
            walk->kept[count - 1].size_bytes += block.size_bytes;
        } else {
            walk->kept[count++] = block;
        }
    }
    walk->kept_count = count;
    return kept_tensors == begun_tensors;
}

static void walk_lap(demand_walk_t *walk)
{
    const dao_swap_step_t *step = walk->step;
    uint32_t start = dao_swap_step_largest_kernel(step);
    memcpy(walk->blocks, walk->begun, walk->begun_count * sizeof(*walk->blocks));
    walk->block_count = walk->begun_count;
    memset(walk->decisions, 0, step->access_count * sizeof(*walk->decisions));
    for (uint32_t k = 0; k < step->kernel_count && !dao_swap_is_cancelled(step->cancel); k++) {
        walk_kernel(walk, (start + k) % step->kernel_count);
    }
}

static void begin_with(demand_walk_t *walk, const block_t *blocks, uint32_t count)
{
    memcpy(walk->begun, blocks, count * sizeof(*blocks));
    walk->begun_count = count;
}

/* Walks laps until one ends with all that it began with. At first each begins as the one before ended: most
   steps settle. Then what moves is left out, and at last all. */
static void walk_laps(demand_walk_t *walk)
{
    const block_t nothing = {.size_bytes = walk->capacity_bytes, .access = DAO_SWAP_NONE};
    begin_with(walk, &nothing, 1);
    walk_lap(walk);
    begin_with(walk, walk->blocks, walk->block_count);
    walk_lap(walk);
    for (uint32_t lap = 0; !ends_as_begun(walk); lap++) {
        if (lap < SETTLING_LAP_COUNT) {
            begin_with(walk, walk->blocks, walk->block_count);
        } else if (lap < 2 * SETTLING_LAP_COUNT) {
            begin_with(walk, walk->kept, walk->kept_count);
        } else {
            begin_with(walk, &nothing, 1);
        }
        walk_lap(walk);
    }
    for (uint32_t i = 0, at = 0; i < walk->block_count; i++) {
        if (!is_free(&walk->blocks[i]) && !lies_as_begun(walk, &walk->blocks[i], &at)) {
            leave(walk, &walk->blocks[i]);
        }
    }
}

/* ---- lives ---- */

static uint32_t open_life(dao_swap_layout_t *layout, const demand_walk_t *walk, uint32_t access)
{
    uint64_t address_bytes = walk->addresses[access];
    layout->arena_bytes = dao_larger(layout->arena_bytes, address_bytes + size_of(walk, access));
    layout->residencies[layout->residency_count] =
        (dao_swap_residency_t){.address_bytes = address_bytes,
                               .tensor = walk->step->accesses[access].tensor,
                               .first_access = access};
    return layout->residency_count++;
}

/* Names a tensor's lives, from one access up to the next one that it is away before; around the step. */
static void list_lives(dao_swap_layout_t *layout, const demand_walk_t *walk, uint32_t tensor)
{
    const dao_swap_access_t *accesses = walk->step->accesses;
    uint32_t first = walk->step->first_access[tensor], at = first;
    if (first == DAO_SWAP_NONE) {
        return;
    }
    while (!dao_swap_is_absent(&accesses[at], &walk->decisions[at]) && accesses[at].next != first) {
        at = accesses[at].next;
    }
    uint32_t begin = at = accesses[at].next, life = open_life(layout, walk, begin);
    do {
        layout->residency_of[at] = life;
        bool is_last = dao_swap_is_absent(&accesses[at], &walk->decisions[at]);
        at = accesses[at].next;
        life = is_last && at != begin ? open_life(layout, walk, at) : life;
    } while (at != begin);
}

static bool allocate(demand_walk_t *walk)
{
    /* tensors, a hole behind each, and what is cut off before it is merged */
    size_t blocks = 2 * (size_t)walk->step->tensor_count + 3, accesses = (size_t)walk->step->access_count + 1;
    return (walk->blocks = dao_host_calloc(blocks, sizeof(*walk->blocks))) != NULL &&
           (walk->begun = dao_host_calloc(blocks, sizeof(*walk->begun))) != NULL &&
           (walk->kept = dao_host_calloc(blocks, sizeof(*walk->kept))) != NULL &&
           (walk->addresses = dao_host_calloc(accesses, sizeof(*walk->addresses))) != NULL &&
           (walk->missing = dao_host_calloc(accesses, sizeof(*walk->missing))) != NULL;
}

dao_status_t dao_swap_demand(const dao_swap_parts_t *parts, uint64_t capacity_bytes,
                             dao_swap_decision_t *decisions, dao_swap_layout_t *layout)
{
    const dao_swap_step_t *step = parts->step;
    DAO_ASSERT(parts->part_bytes == 0 && parts->inactive_count == step->access_count);
    demand_walk_t walk = {.step = step, .decisions = decisions, .capacity_bytes = capacity_bytes};
    dao_status_t status = dao_swap_layout_init_empty(layout, step);
    if (status != DAO_OK) {
        return status;
    }
    bool ok = allocate(&walk);
    if (ok) {
        walk_laps(&walk);
        ok = !dao_swap_is_cancelled(step->cancel);
    }
    for (uint32_t t = 0; t < step->tensor_count && ok; t++) {
        list_lives(layout, &walk, t);
    }
    dao_host_free(walk.blocks);
    dao_host_free(walk.begun);
    dao_host_free(walk.kept);
    dao_host_free(walk.addresses);
    dao_host_free(walk.missing);
    if (!ok) {
        dao_swap_layout_finish(layout);
    }
    return ok ? DAO_OK : dao_swap_step_give_up(step);
}
