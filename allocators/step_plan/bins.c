/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks over the blocks of a bin plan:

       plan     36 KiB | 40 KiB | 48 KiB    blocks of a bin are neighbours in the arena, the largest first
       stacks   7 5 6  | -      | 1 0       blocks by number; 40 KiB is all out
       rights   40 -> 48, 36 -> 48          a right is used for one block at a time, and that block keeps it

   What holds between calls:

       a block is in the stack of its bin, or out: then it may have a right, which is used
       a right is used by one block at most */
#include "allocators/step_plan/bins.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/steps/script.h"

#define NONE UINT32_MAX

typedef struct block {
    uint32_t next;  /* below it in the stack of its bin */
    uint32_t right; /* that it was borrowed by, or NONE */
    bool is_out;
} block_t;

typedef struct stack {
    uint32_t top;    /* a block, or NONE */
    uint32_t bottom; /* where there is a top */
    uint32_t first_block;
} stack_t;

struct dao_bins {
    dao_bin_plan_t plan; /* owned */
    stack_t *stacks;     /* of each bin */
    block_t *blocks;     /* bin by bin, from the smallest */
    bool *right_is_used;
    uint32_t block_count;
};

void dao_bins_destroy(dao_bins_t *bins)
{
    if (bins != NULL) {
        dao_bin_plan_finish(&bins->plan);
        dao_host_free(bins->stacks);
        dao_host_free(bins->blocks);
        dao_host_free(bins->right_is_used);
        dao_host_free(bins);
    }
}

/* Puts all blocks into their stacks, so that the lowest offset is on top. */
static void fill_stacks(dao_bins_t *bins)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < bins->plan.bin_count; i++) {
        stack_t *stack = &bins->stacks[i];
        uint32_t count = bins->plan.bins[i].block_count;
        *stack = (stack_t){.top = NONE, .bottom = next + count - 1, .first_block = next};
        for (uint32_t k = count; k-- > 0;) {
            bins->blocks[next + k] = (block_t){.next = stack->top, .right = NONE};
            stack->top = next + k;
        }
        next += count;
    }
}

dao_status_t dao_bins_create(dao_bin_plan_t *plan, dao_bins_t **out_bins)
{
    dao_bins_t *bins = dao_host_calloc(1, sizeof(*bins));
    uint32_t block_count = 0;
    for (uint32_t i = 0; i < plan->bin_count; i++) {
        block_count += plan->bins[i].block_count;
    }
    if (bins != NULL) { /* one more than there are: there may be none */
        bins->block_count = block_count;
        bins->stacks = dao_host_calloc((size_t)plan->bin_count + 1, sizeof(*bins->stacks));
        bins->blocks = dao_host_calloc((size_t)block_count + 1, sizeof(*bins->blocks));
        bins->right_is_used = dao_host_calloc((size_t)plan->right_count + 1, sizeof(*bins->right_is_used));
    }
    if (bins == NULL || bins->stacks == NULL || bins->blocks == NULL || bins->right_is_used == NULL) {
        dao_bins_destroy(bins);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bins of a plan");
    }
    bins->plan = *plan;
    fill_stacks(bins);
    DAO_ASSERT_HEAVY(dao_bins_is_valid(bins));
    *out_bins = bins;
    return DAO_OK;
}

uint64_t dao_bins_total_bytes(const dao_bins_t *bins)
{
    return bins->plan.total_bytes;
}

/* ---- take and give ---- */

static uint64_t block_take(dao_bins_t *bins, uint32_t bin, uint32_t right)
{
    stack_t *stack = &bins->stacks[bin];
    uint32_t number = stack->top - stack->first_block;
    block_t *block = &bins->blocks[stack->top];
    stack->top = block->next;
    block->is_out = true;
    block->right = right;
    return bins->plan.bins[bin].offset_bytes + number * bins->plan.bins[bin].stride_bytes;
}

/* Takes a block of the request's own bin, or of one that it has a right to. */
static bool take_own(dao_bins_t *bins, uint32_t own, uint64_t *out_offset_bytes)
{
    if (bins->stacks[own].top != NONE) {
        *out_offset_bytes = block_take(bins, own, NONE);
        return true;
    }
    const dao_bin_t *bin = &bins->plan.bins[own];
    for (uint32_t i = bin->first_right; i < bin->first_right + bin->right_count; i++) {
        uint32_t lender = bins->plan.rights[i];
        if (!bins->right_is_used[i] && bins->stacks[lender].top != NONE) {
            bins->right_is_used[i] = true;
            *out_offset_bytes = block_take(bins, lender, i);
            return true;
        }
    }
    return false;
}

/* Takes a block of the next larger bin that has one to spare, if it is not much larger: a step whose sizes
   have changed uses the bins of the one before. */
static bool take_larger(dao_bins_t *bins, uint64_t size_bytes, uint64_t *out_offset_bytes)
{
    for (uint32_t i = dao_bin_plan_above(&bins->plan, size_bytes);
         i < bins->plan.bin_count &&
         bins->plan.bins[i].size_bytes / DAO_SCRIPT_RESIZED_FACTOR_MAX <= size_bytes;
         i++) {
        if (bins->stacks[i].top != NONE) {
            *out_offset_bytes = block_take(bins, i, NONE);
            return true;
        }
    }
    return false;
}

dao_bins_answer_t dao_bins_take(dao_bins_t *bins, uint64_t size_bytes, uint64_t *out_offset_bytes)
{
    uint32_t own = dao_bin_plan_find(&bins->plan, size_bytes);
    bool is_taken = own != NONE && take_own(bins, own, out_offset_bytes);
    if (is_taken || take_larger(bins, size_bytes, out_offset_bytes)) {
        return DAO_BINS_HIT;
    }
    return own == NONE ? DAO_BINS_NULL : DAO_BINS_MISSED;
}

/* Finds the block that begins at an offset: bins lie in the arena from the largest to the smallest. */
static block_t *block_find(const dao_bins_t *bins, uint64_t offset_bytes, uint32_t *out_bin)
{
    uint32_t low = 0,
             high = bins->plan.bin_count; /* the smallest bin that begins at the offset or below it */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (bins->plan.bins[middle].offset_bytes > offset_bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    for (; low < bins->plan.bin_count && bins->plan.bins[low].block_count == 0;
         low++) { /* those have no blocks */
    }
    if (low == bins->plan.bin_count) {
        return NULL;
    }
    const dao_bin_t *bin = &bins->plan.bins[low];
    uint64_t number = (offset_bytes - bin->offset_bytes) / bin->stride_bytes;
    bool is_there = number < bin->block_count && (offset_bytes - bin->offset_bytes) % bin->stride_bytes == 0;
    *out_bin = low;
    return is_there ? &bins->blocks[bins->stacks[low].first_block + number] : NULL;
}

/* Puts a block into its stack, which it is not in. */
static void stack_put(dao_bins_t *bins, stack_t *stack, uint32_t number, bool is_last)
{
    bool is_empty = stack->top == NONE;
    bool goes_below = is_last && !is_empty;
    bins->blocks[number] = (block_t){.next = goes_below ? NONE : stack->top, .right = NONE};
    if (goes_below) {
        bins->blocks[stack->bottom].next = number;
    } else {
        stack->top = number;
    }
    stack->bottom = goes_below || is_empty ? number : stack->bottom;
}

bool dao_bins_give(dao_bins_t *bins, uint64_t offset_bytes, bool is_last)
{
    uint32_t bin = 0;
    block_t *block = block_find(bins, offset_bytes, &bin);
    if (block == NULL || !block->is_out) {
        return false;
    }
    if (block->right != NONE) {
        bins->right_is_used[block->right] = false;
    }
    stack_put(bins, &bins->stacks[bin], (uint32_t)(block - bins->blocks), is_last);
    return true;
}

/* ---- the check ---- */

bool dao_bins_is_valid(const dao_bins_t *bins)
{
    uint32_t out_count = 0, with_right_count = 0, used_count = 0, stacked_count = 0;
    for (uint32_t i = 0; i < bins->block_count; i++) {
        const block_t *block = &bins->blocks[i];
        out_count += block->is_out;
        with_right_count += block->right != NONE;
        if (block->right != NONE && (!block->is_out || !bins->right_is_used[block->right])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < bins->plan.right_count; i++) {
        used_count += bins->right_is_used[i];
    }
    for (uint32_t i = 0; i < bins->plan.bin_count; i++) {
        uint32_t first = bins->stacks[i].first_block, count = bins->plan.bins[i].block_count;
        for (uint32_t k = bins->stacks[i].top; k != NONE && stacked_count <= bins->block_count;
             k = bins->blocks[k].next) {
            stacked_count++;
            bool is_bottom = k == bins->stacks[i].bottom;
            if (bins->blocks[k].is_out || k - first >= count || is_bottom != (bins->blocks[k].next == NONE)) {
                return false;
            }
        }
    }
    return stacked_count + out_count == bins->block_count && used_count == with_right_count;
}
