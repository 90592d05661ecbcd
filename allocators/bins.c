/* Bins of a plan, read back from its offsets: entries that share an offset share a block, and the largest of them tells its bin.

       blocks   [ 48 KiB ][ 48 KiB ][ 40 KiB ][ 36 KiB ] ...     in order of their offset
       bins     36 KiB: block 3; rights: to borrow from 48       a right for each block of another bin that was planned
                40 KiB: block 2                                  for entries of this one
                48 KiB: blocks 0, 1
       rights   36 -> 48                                         grouped by the bin that has them

   Sizes lead to their bin by the policy of the plan (planning/bins.h): the one under which every block is as large as its bin.

   What holds between calls:

       a block is in the stack of its bin, or out: then it may hold a right, which is out, too
       a right is out for one block at most */
#include "allocators/bins.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "planning/bins.h"

#include <stdlib.h>
#include <string.h>

#define NONE UINT32_MAX

typedef struct block {
    uint64_t offset_bytes;
    uint64_t size_bytes; /* of its largest entry */
    uint32_t bin;
    uint32_t next;  /* below it in the stack of its bin */
    uint32_t right; /* that it was borrowed by, or NONE */
    bool is_out;
} block_t;

typedef struct bin {
    uint64_t size_bytes;
    uint32_t top; /* of its stack, or NONE */
    uint32_t first_right;
    uint32_t right_count;
} bin_t;

typedef struct right {
    uint32_t holder; /* the bin that may borrow */
    uint32_t block;  /* that was planned for it, while they are made; then any of that block's bin */
    bool is_out;
} right_t;

struct dao_bins {
    block_t *blocks;
    bin_t *bins; /* in order of size */
    right_t *rights;
    uint32_t block_count, bin_count, right_count;
    uint32_t policy;
};

void dao_bins_destroy(dao_bins_t *bins)
{
    if (bins != NULL) {
        dao_host_free(bins->blocks);
        dao_host_free(bins->bins);
        dao_host_free(bins->rights);
        dao_host_free(bins);
    }
}

/* ---- looking up ---- */

static int compare(uint64_t left, uint64_t right)
{
    return left < right ? -1 : left > right;
}

static int compare_blocks(const void *left, const void *right)
{
    return compare(((const block_t *)left)->offset_bytes, ((const block_t *)right)->offset_bytes);
}

static int compare_bins(const void *left, const void *right)
{
    return compare(((const bin_t *)left)->size_bytes, ((const bin_t *)right)->size_bytes);
}

static int compare_rights(const void *left, const void *right)
{
    const right_t *a = left, *b = right;
    return a->holder != b->holder ? compare(a->holder, b->holder) : compare(a->block, b->block);
}

/* Gives the block that begins at an offset, or NULL. */
static block_t *block_find(const dao_bins_t *bins, uint64_t offset_bytes)
{
    block_t wanted = {.offset_bytes = offset_bytes};
    return bins->block_count == 0
               ? NULL
               : bsearch(&wanted, bins->blocks, bins->block_count, sizeof(wanted), compare_blocks);
}

/* Gives the bin of a size, or NULL. */
static bin_t *bin_find(const dao_bins_t *bins, uint64_t size_bytes)
{
    bin_t wanted = {.size_bytes = dao_bin_round(bins->policy, size_bytes)};
    return bins->bin_count == 0 ? NULL
                                : bsearch(&wanted, bins->bins, bins->bin_count, sizeof(wanted), compare_bins);
}

/* ---- create ---- */

/* Keeps one of each run of equal elements; gives how many there are then. */
static uint32_t unique(void *items, uint32_t count, size_t item_bytes,
                       int (*compare_items)(const void *, const void *))
{
    char *bytes = items;
    uint32_t kept = 0;
    if (count > 0) {
        qsort(items, count, item_bytes, compare_items);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (kept == 0 || compare_items(bytes + (kept - 1) * item_bytes, bytes + i * item_bytes) != 0) {
            memmove(bytes + kept * item_bytes, bytes + i * item_bytes, item_bytes);
            kept++;
        }
    }
    return kept;
}

/* Finds the blocks. */
static void blocks_make(dao_bins_t *bins, const dao_script_t *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        if (dao_script_is_placed(&script->entries[i])) {
            bins->blocks[bins->block_count++] =
                (block_t){.offset_bytes = script->entries[i].offset_bytes, .next = NONE, .right = NONE};
        }
    }
    bins->block_count = unique(bins->blocks, bins->block_count, sizeof(*bins->blocks), compare_blocks);
    for (uint32_t i = 0; i < script->count; i++) {
        const dao_script_entry_t *entry = &script->entries[i];
        if (dao_script_is_placed(entry)) {
            block_t *block = block_find(bins, entry->offset_bytes);
            block->size_bytes = entry->most_bytes > block->size_bytes ? entry->most_bytes : block->size_bytes;
        }
    }
}

/* Tells whether every block is as large as the bin of its largest entry under a policy, but for what its alignment may cost. */
static bool policy_fits(const dao_bins_t *bins, const dao_script_t *script, uint32_t policy)
{
    for (uint32_t i = 0; i < bins->block_count; i++) {
        const block_t *block = &bins->blocks[i];
        uint64_t end = i + 1 < bins->block_count ? block[1].offset_bytes : script->arena_bytes;
        uint64_t bin_bytes = dao_bin_round(policy, block->size_bytes);
        uint64_t block_bytes = end - block->offset_bytes;
        if (block_bytes < bin_bytes || block_bytes - bin_bytes >= script->alignment_bytes) {
            return false;
        }
    }
    return true;
}

/* Finds the bins: of blocks, and of entries that only borrow. */
static void bins_make(dao_bins_t *bins, const dao_script_t *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        if (dao_script_is_placed(&script->entries[i])) {
            uint64_t size_bytes = dao_bin_round(bins->policy, script->entries[i].most_bytes);
            bins->bins[bins->bin_count++] = (bin_t){.size_bytes = size_bytes, .top = NONE};
        }
    }
    bins->bin_count = unique(bins->bins, bins->bin_count, sizeof(*bins->bins), compare_bins);
    for (uint32_t i = bins->block_count; i-- > 0;) { /* the lowest block comes to the top */
        bin_t *bin = bin_find(bins, bins->blocks[i].size_bytes);
        bins->blocks[i].bin = (uint32_t)(bin - bins->bins);
        bins->blocks[i].next = bin->top;
        bin->top = i;
    }
}

/* Finds the rights. */
static void rights_make(dao_bins_t *bins, const dao_script_t *script)
{
    for (uint32_t i = 0; i < script->count; i++) {
        const dao_script_entry_t *entry = &script->entries[i];
        if (!dao_script_is_placed(entry)) {
            continue;
        }
        uint32_t holder = (uint32_t)(bin_find(bins, entry->most_bytes) - bins->bins);
        const block_t *block = block_find(bins, entry->offset_bytes);
        if (holder < block->bin) {
            bins->rights[bins->right_count++] =
                (right_t){.holder = holder, .block = (uint32_t)(block - bins->blocks)};
        }
    }
    bins->right_count = unique(bins->rights, bins->right_count, sizeof(*bins->rights), compare_rights);
    for (uint32_t i = bins->right_count; i-- > 0;) {
        bins->bins[bins->rights[i].holder].first_right = i;
        bins->bins[bins->rights[i].holder].right_count++;
    }
}

dao_status_t dao_bins_create(const dao_script_t *script, dao_bins_t **out_bins)
{
    size_t room = (size_t)script->count + 1; /* at least one */
    dao_bins_t *bins = dao_host_calloc(1, sizeof(*bins));
    if (bins != NULL) {
        bins->blocks = dao_host_calloc(room, sizeof(*bins->blocks));
        bins->bins = dao_host_calloc(room, sizeof(*bins->bins));
        bins->rights = dao_host_calloc(room, sizeof(*bins->rights));
    }
    if (bins == NULL || bins->blocks == NULL || bins->bins == NULL || bins->rights == NULL) {
        dao_bins_destroy(bins);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bins of a plan");
    }
    blocks_make(bins, script);
    while (bins->policy < DAO_PLAN_BIN_POLICY_COUNT && !policy_fits(bins, script, bins->policy)) {
        bins->policy++;
    }
    if (bins->policy == DAO_PLAN_BIN_POLICY_COUNT) {
        dao_bins_destroy(bins);
        return dao_error(DAO_ERR_INVALID,
                         "the plan was not made with lifetime bins: its blocks have no sizes of bins");
    }
    bins_make(bins, script);
    rights_make(bins, script);
    DAO_ASSERT_HEAVY(dao_bins_is_valid(bins));
    *out_bins = bins;
    return DAO_OK;
}

/* ---- take and give ---- */

static void block_take(dao_bins_t *bins, bin_t *bin, uint32_t right, uint64_t *out_offset_bytes)
{
    block_t *block = &bins->blocks[bin->top];
    bin->top = block->next;
    block->is_out = true;
    block->right = right;
    *out_offset_bytes = block->offset_bytes;
}

dao_bins_answer_t dao_bins_take(dao_bins_t *bins, uint64_t size_bytes, uint64_t *out_offset_bytes)
{
    bin_t *bin = bin_find(bins, size_bytes);
    if (bin == NULL) {
        return DAO_BINS_NULL;
    }
    if (bin->top != NONE) {
        block_take(bins, bin, NONE, out_offset_bytes);
        return DAO_BINS_HIT;
    }
    for (uint32_t i = bin->first_right + bin->right_count; i-- > bin->first_right;) {
        bin_t *lender = &bins->bins[bins->blocks[bins->rights[i].block].bin];
        if (!bins->rights[i].is_out && lender->top != NONE) {
            bins->rights[i].is_out = true;
            block_take(bins, lender, i, out_offset_bytes);
            return DAO_BINS_HIT;
        }
    }
    return DAO_BINS_MISSED;
}

bool dao_bins_give(dao_bins_t *bins, uint64_t offset_bytes)
{
    block_t *block = block_find(bins, offset_bytes);
    if (block == NULL || !block->is_out) {
        return false;
    }
    if (block->right != NONE) {
        bins->rights[block->right].is_out = false;
        block->right = NONE;
    }
    bin_t *bin = &bins->bins[block->bin];
    block->is_out = false;
    block->next = bin->top;
    bin->top = (uint32_t)(block - bins->blocks);
    return true;
}

/* ---- the check ---- */

bool dao_bins_is_valid(const dao_bins_t *bins)
{
    uint32_t out_count = 0, right_out_count = 0, held_count = 0, stacked_count = 0;
    for (uint32_t i = 0; i < bins->block_count; i++) {
        out_count += bins->blocks[i].is_out;
        held_count += bins->blocks[i].right != NONE;
        if (bins->blocks[i].right != NONE &&
            (!bins->blocks[i].is_out || !bins->rights[bins->blocks[i].right].is_out)) {
            return false;
        }
    }
    for (uint32_t i = 0; i < bins->right_count; i++) {
        right_out_count += bins->rights[i].is_out;
    }
    for (uint32_t i = 0; i < bins->bin_count; i++) {
        for (uint32_t k = bins->bins[i].top; k != NONE && stacked_count <= bins->block_count;
             k = bins->blocks[k].next) {
            stacked_count++;
            if (bins->blocks[k].is_out || bins->blocks[k].bin != i) {
                return false;
            }
        }
    }
    return stacked_count + out_count == bins->block_count && right_out_count == held_count;
}
