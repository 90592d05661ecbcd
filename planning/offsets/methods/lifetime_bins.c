/* SPDX-License-Identifier: Apache-2.0 */
/* One policy after the other: its bins from the largest to the smallest.

       entries   | bin 0 (largest): items ... | bin 1: items ... |     in the order in which they are placed
       blocks    | of bin 0                   | of bin 1         |     in the order in which they were made

   Sorting is stable, and the instance's items are in the order of their beginnings.

   A block holds its lifetimes, sorted. Two tests avoid most searches of them. One compares with the begin of
   the first lifetime and the end of the last one. The other is a mask of times: a bit for each 64th of all
   time, set where the block is used.

   What holds between steps: entries below `next` have a block; the lifetimes of a block do not overlap;
   blocks of a bin are neighbours, and so are its rights. */
#include "planning/offsets/methods/lifetime_bins.h"

#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/offsets/support/sort.h"

#include <string.h>

#define POLICY_STEP_MIN    ((uint64_t)4 << 10)
#define SMALL_STEP_MIN     UINT64_C(8)
#define SMALL_STEPS_LOG2   3u /* eight an octave */
#define SMALL_LINEAR_LOG2  6u /* up to here the smallest step is larger than an eighth */
#define SMALL_LINEAR_MAX   ((uint64_t)1 << SMALL_LINEAR_LOG2)
#define SMALL_LINEAR_COUNT ((uint32_t)(SMALL_LINEAR_MAX / SMALL_STEP_MIN))
#define SMALL_MAX_LOG2     15u
#define SMALL_BIN_COUNT    (SMALL_LINEAR_COUNT + ((SMALL_MAX_LOG2 - SMALL_LINEAR_LOG2) << SMALL_STEPS_LOG2))
static_assert(DAO_BIN_SMALL_MAX == UINT64_C(1) << SMALL_MAX_LOG2, "the small bins end here");

#define LARGEST_BIN       (2 * DAO_PLAN_SIZE_MAX)
#define MASK_BITS         64u
#define FIRST_BLOCK_COUNT 64u
#define FIRST_LIFE_COUNT  4u
#define BIN_NONE          UINT32_MAX
#define BLOCKS_PER_WORK   16u /* that are looked at for a step of work */

typedef struct bin_life {
    uint32_t begin;
    uint32_t end;
} bin_life_t;

typedef struct bin_block {
    bin_life_t *lives; /* by begin */
    uint32_t count;
    uint32_t capacity;
    uint64_t mask;
    uint32_t borrower; /* the last bin that got a right to it */
} bin_block_t;

/* A bin of the policy at hand. */
typedef struct group {
    uint64_t size_bytes;
    uint64_t alignment_bytes; /* the greatest of its items */
    uint64_t offset_bytes;    /* of its first block, once all are there */
    uint32_t first_entry;
    uint32_t first_block;
    uint32_t first_right;
} group_t;

/* What a policy came to. */
typedef struct result {
    uint32_t policy;
    uint64_t total_bytes;
    group_t *groups; /* one more than there are: where the last one's blocks and rights end */
    uint32_t group_count;
    uint32_t *entries; /* items */
    uint32_t *blocks;  /* of each entry */
    uint32_t *rights;  /* groups that lend */
    uint32_t right_count;
    uint32_t right_capacity;
} result_t;

struct dao_plan_lifetime_bins {
    dao_plan_instance_t *instance;
    dao_plan_layout_t layout;
    dao_bin_order_t order;
    uint32_t policy; /* the one at hand; DAO_PLAN_BIN_POLICY_COUNT: all are done */
    bool is_started; /* `now` and the blocks are the policy's */
    result_t now;
    result_t best;
    uint64_t policy_bytes[DAO_PLAN_BIN_POLICY_COUNT];
    bin_block_t *block_list;
    uint32_t *last_ends; /* of each block of the group at hand, apart, since all of them are looked at */
    uint32_t block_count;
    uint32_t block_capacity;
    uint32_t group; /* at hand */
    uint32_t next;  /* entry */
};

static dao_status_t no_memory(uint32_t count)
{
    return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bins of %u buffers", count);
}

/* ---- sizes ---- */

/* Returns the step of a policy, 4, 8 or 16 KiB. */
static uint64_t policy_step(uint32_t policy)
{
    return POLICY_STEP_MIN << policy;
}

/* The distance of the bins around a small size: an eighth of the power of two below it. */
static uint64_t small_step(uint64_t size_bytes)
{
    uint64_t octave = (uint64_t)1 << (63 - __builtin_clzll(size_bytes));
    uint64_t step = octave >> SMALL_STEPS_LOG2;
    return step > SMALL_STEP_MIN ? step : SMALL_STEP_MIN;
}

uint64_t dao_bin_round(uint32_t policy, uint64_t size_bytes)
{
    bool is_small = size_bytes <= DAO_BIN_SMALL_MAX;
    return dao_round_up(size_bytes, is_small ? small_step(size_bytes) : policy_step(policy));
}

/* ---- blocks ---- */

static void drop_blocks(dao_plan_lifetime_bins_t *bins)
{
    for (uint32_t i = 0; i < bins->block_count; i++) {
        dao_plan_memory_free(&bins->instance->memory, bins->block_list[i].lives);
    }
    bins->block_count = 0;
}

static bool reserve_block(dao_plan_lifetime_bins_t *bins)
{
    if (bins->block_count < bins->block_capacity) {
        return true;
    }
    dao_plan_memory_t *memory = &bins->instance->memory;
    uint32_t capacity = 2 * bins->block_capacity + FIRST_BLOCK_COUNT;
    bin_block_t *list = dao_plan_memory_grow(memory, bins->block_list, capacity, sizeof(*list));
    bins->block_list = list != NULL ? list : bins->block_list;
    uint32_t *ends =
        list == NULL ? NULL : dao_plan_memory_grow(memory, bins->last_ends, capacity, sizeof(*ends));
    bins->last_ends = ends != NULL ? ends : bins->last_ends;
    bins->block_capacity = ends != NULL ? capacity : bins->block_capacity;
    return ends != NULL;
}

/* The first of a block's lives that ends after a time. */
static uint32_t first_after(const bin_block_t *block, uint32_t time)
{
    uint32_t low = 0, high = block->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (block->lives[middle].end <= time) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool reserve_life(dao_plan_lifetime_bins_t *bins, bin_block_t *block)
{
    if (block->count < block->capacity) {
        return true;
    }
    uint32_t capacity = 2 * block->capacity + FIRST_LIFE_COUNT;
    bin_life_t *lives = dao_plan_memory_grow(&bins->instance->memory, block->lives, capacity, sizeof(*lives));
    if (lives != NULL) {
        block->lives = lives;
        block->capacity = capacity;
    }
    return lives != NULL;
}

/* The 64ths of all time that a life touches, or those that it fills. */
static uint64_t mask_of(const dao_plan_lifetime_bins_t *bins, uint32_t begin, uint32_t end, bool is_filled)
{
    uint64_t width = bins->instance->time_count / MASK_BITS + 1;
    uint64_t low = is_filled ? (begin + width - 1) / width : begin / width;
    uint64_t high = is_filled ? end / width : (end + width - 1) / width; /* not included */
    if (low >= high) {
        return 0;
    }
    return (high - low == MASK_BITS ? UINT64_MAX : (UINT64_C(1) << (high - low)) - 1) << low;
}

static void put_life(dao_plan_lifetime_bins_t *bins, uint32_t index, const dao_plan_item_t *item)
{
    bin_block_t *block = &bins->block_list[index];
    uint32_t at = first_after(block, item->begin);
    memmove(block->lives + at + 1, block->lives + at, (block->count - at) * sizeof(*block->lives));
    block->lives[at] = (bin_life_t){.begin = item->begin, .end = item->end};
    block->count++;
    block->mask |= mask_of(bins, item->begin, item->end, false);
    bins->last_ends[index] = block->lives[block->count - 1].end;
}

/* ---- where an item goes ---- */

/* An item, and the masks of its life. */
typedef struct seeker {
    const dao_plan_item_t *item;
    uint64_t touched;
    uint64_t filled;
} seeker_t;

static bool is_free(const bin_block_t *block, const seeker_t *seeker)
{
    if ((block->mask & seeker->touched) == 0) {
        return true;
    }
    if ((block->mask & seeker->filled) != 0) {
        return false;
    }
    uint32_t at = first_after(block, seeker->item->begin);
    return at == block->count || block->lives[at].begin >= seeker->item->end;
}

/* The first own block that is free. */
static uint32_t find_own(const dao_plan_lifetime_bins_t *bins, const seeker_t *seeker)
{
    uint32_t block = bins->now.groups[bins->group].first_block;
    while (block < bins->block_count && bins->last_ends[block] > seeker->item->begin &&
           !is_free(&bins->block_list[block], seeker)) {
        block++;
    }
    return block < bins->block_count ? block : BIN_NONE;
}

/* The first free block of a larger bin, the next larger one first. */
static uint32_t find_lender(const dao_plan_lifetime_bins_t *bins, const seeker_t *seeker, uint32_t *out_group)
{
    const group_t *groups = bins->now.groups;
    for (uint32_t group = bins->group; group-- > 0;) {
        if (groups[group].alignment_bytes >> seeker->item->alignment_log2 == 0) {
            continue;
        }
        for (uint32_t block = groups[group].first_block; block < groups[group + 1].first_block; block++) {
            if (is_free(&bins->block_list[block], seeker)) {
                *out_group = group;
                return block;
            }
        }
    }
    return BIN_NONE;
}

static bool reserve_right(dao_plan_lifetime_bins_t *bins)
{
    result_t *now = &bins->now;
    if (now->right_count < now->right_capacity) {
        return true;
    }
    uint32_t capacity = 2 * now->right_capacity + FIRST_BLOCK_COUNT;
    uint32_t *rights = dao_plan_memory_grow(&bins->instance->memory, now->rights, capacity, sizeof(*rights));
    if (rights != NULL) {
        now->rights = rights;
        now->right_capacity = capacity;
    }
    return rights != NULL;
}

/* Grants the bin at hand the right to a block, unless it has it. There is room. */
static void add_right(dao_plan_lifetime_bins_t *bins, uint32_t block, uint32_t lender)
{
    if (bins->block_list[block].borrower != bins->group) {
        bins->block_list[block].borrower = bins->group;
        bins->now.rights[bins->now.right_count++] = lender;
    }
}

/* Finds a block for an item, or begins a new one, which is not counted yet. There is room for it. */
static uint32_t find_block(dao_plan_lifetime_bins_t *bins, const dao_plan_item_t *item, uint32_t *out_lender,
                           dao_plan_work_t *work)
{
    uint32_t own_first = bins->now.groups[bins->group].first_block;
    const seeker_t seeker = {.item = item,
                             .touched = mask_of(bins, item->begin, item->end, false),
                             .filled = mask_of(bins, item->begin, item->end, true)};
    uint32_t block = find_own(bins, &seeker);
    *out_lender = BIN_NONE;
    work->used += 1 + (bins->block_count - own_first) / BLOCKS_PER_WORK;
    if (block == BIN_NONE) {
        block = find_lender(bins, &seeker, out_lender);
        work->used += own_first / BLOCKS_PER_WORK;
    }
    if (block == BIN_NONE) {
        block = bins->block_count;
        bins->block_list[block] = (bin_block_t){.borrower = BIN_NONE};
    }
    return block;
}

/* Places the next entry. All memory is there before anything changes. */
static dao_status_t place_next(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work)
{
    DAO_ASSERT(bins->next < bins->instance->item_count);
    const dao_plan_item_t *item = &bins->instance->items[bins->now.entries[bins->next]];
    if (!reserve_block(bins) || !reserve_right(bins)) {
        return no_memory(bins->instance->item_count);
    }
    uint32_t lender = BIN_NONE;
    uint32_t block = find_block(bins, item, &lender, work);
    if (!reserve_life(bins, &bins->block_list[block])) {
        return no_memory(bins->instance->item_count);
    }
    bins->block_count += block == bins->block_count ? 1 : 0;
    if (lender != BIN_NONE) {
        add_right(bins, block, lender);
    }
    DAO_ASSERT(lender != BIN_NONE || block >= bins->now.groups[bins->group].first_block);
    DAO_ASSERT(lender == BIN_NONE || lender < bins->group); /* larger bins come first */
    put_life(bins, block, item);
    bins->now.blocks[bins->next++] = block;
    return DAO_OK;
}

/* ---- a policy ---- */

static void drop_result(dao_plan_lifetime_bins_t *bins, result_t *result)
{
    dao_plan_memory_t *memory = &bins->instance->memory;
    dao_plan_memory_free(memory, result->groups);
    dao_plan_memory_free(memory, result->entries);
    dao_plan_memory_free(memory, result->blocks);
    dao_plan_memory_free(memory, result->rights);
    *result = (result_t){0};
}

/* Sorts the items by bins, the largest first; a bin's in the order that was asked for. Both sorts are
   stable. */
static void sort_entries(dao_plan_lifetime_bins_t *bins, dao_plan_key_t *keys, dao_plan_key_t *scratch,
                         dao_plan_work_t *work)
{
    const dao_plan_instance_t *instance = bins->instance;
    bool is_by_end = bins->order == DAO_BIN_ORDER_END;
    dao_plan_pass_t ends = {.count = instance->item_count};
    while (dao_plan_pass_next(&ends, work)) {
        for (uint32_t i = (uint32_t)ends.begin; i < ends.end; i++) {
            keys[i] = (dao_plan_key_t){.key = is_by_end ? instance->items[i].end : 0, .value = i};
        }
    }
    dao_plan_sort_keys(keys, scratch, instance->item_count, work);
    dao_plan_pass_t sizes = {.count = instance->item_count};
    while (dao_plan_pass_next(&sizes, work)) {
        for (size_t i = sizes.begin; i < sizes.end; i++) {
            uint64_t size_bytes = instance->items[keys[i].value].size_bytes;
            keys[i].key = LARGEST_BIN - dao_bin_round(bins->policy, size_bytes);
        }
    }
    dao_plan_sort_keys(keys, scratch, instance->item_count, work);
}

/* A group is a run of equal keys. */
static bool begins_group(const dao_plan_key_t *keys, uint32_t i)
{
    return i == 0 || keys[i].key != keys[i - 1].key;
}

static uint32_t count_groups(const dao_plan_lifetime_bins_t *bins, const dao_plan_key_t *keys,
                             dao_plan_work_t *work)
{
    uint32_t count = 0;
    dao_plan_pass_t pass = {.count = bins->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            count += begins_group(keys, i);
        }
    }
    return count;
}

/* Makes the groups, for which there is room. */
static void make_groups(const dao_plan_lifetime_bins_t *bins, const dao_plan_key_t *keys, group_t *groups,
                        dao_plan_work_t *work)
{
    group_t *next = groups;
    dao_plan_pass_t pass = {.count = bins->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (uint32_t i = (uint32_t)pass.begin; i < pass.end; i++) {
            uint64_t alignment_bytes = (uint64_t)1 << bins->instance->items[keys[i].value].alignment_log2;
            if (begins_group(keys, i)) {
                *next++ = (group_t){.size_bytes = LARGEST_BIN - keys[i].key, .first_entry = i};
            }
            next[-1].alignment_bytes = dao_larger(next[-1].alignment_bytes, alignment_bytes);
        }
    }
}

static void list_entries(result_t *result, const dao_plan_key_t *keys, uint32_t count, dao_plan_work_t *work)
{
    dao_plan_pass_t pass = {.count = count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            result->entries[i] = keys[i].value;
        }
    }
}

static dao_status_t start_policy(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work)
{
    dao_plan_memory_t *memory = &bins->instance->memory;
    uint32_t count = bins->instance->item_count;
    result_t *now = &bins->now;
    now->policy = bins->policy;
    now->entries = dao_plan_memory_alloc(memory, count, sizeof(*now->entries));
    now->blocks = dao_plan_memory_alloc(memory, count, sizeof(*now->blocks));
    dao_plan_key_t *keys = dao_plan_memory_alloc(memory, count, sizeof(*keys));
    dao_plan_key_t *scratch = dao_plan_memory_alloc(memory, count, sizeof(*scratch));
    bool is_made = now->entries != NULL && now->blocks != NULL && keys != NULL && scratch != NULL;
    if (is_made) {
        sort_entries(bins, keys, scratch, work);
        now->group_count = count_groups(bins, keys, work);
        now->groups = dao_plan_memory_alloc(memory, (size_t)now->group_count + 1, sizeof(*now->groups));
        is_made = now->groups != NULL;
    }
    if (is_made) {
        make_groups(bins, keys, now->groups, work);
        now->groups[now->group_count].first_entry = count;
        list_entries(now, keys, count, work);
    }
    dao_plan_memory_free(memory, scratch);
    dao_plan_memory_free(memory, keys);
    if (!is_made) {
        drop_result(bins, now);
        return no_memory(count);
    }
    bins->group = bins->next = 0;
    bins->is_started = true;
    return DAO_OK;
}

static uint64_t stride_of(const group_t *group)
{
    return dao_round_up(group->size_bytes, group->alignment_bytes);
}

/* Lays out the blocks of all groups, one after the other. Returns where they end. */
static uint64_t lay_out_groups(const result_t *result)
{
    uint64_t end = 0;
    for (uint32_t i = 0; i < result->group_count; i++) {
        group_t *group = &result->groups[i];
        uint32_t count = group[1].first_block - group->first_block;
        group->offset_bytes = count == 0 ? end : dao_round_up(end, group->alignment_bytes);
        end = group->offset_bytes + count * stride_of(group);
    }
    return end;
}

/* All entries have a block: keeps the policy if it is the best so far. */
static void end_policy(dao_plan_lifetime_bins_t *bins)
{
    bins->now.groups[bins->now.group_count].first_block = bins->block_count;
    bins->now.groups[bins->now.group_count].first_right = bins->now.right_count;
    bins->now.total_bytes = lay_out_groups(&bins->now);
    bins->policy_bytes[bins->policy] = bins->now.total_bytes;
    bool is_better = bins->policy == 0 || bins->now.total_bytes < bins->best.total_bytes;
    drop_result(bins, is_better ? &bins->best : &bins->now);
    if (is_better) {
        bins->best = bins->now;
        bins->now = (result_t){0};
    }
    drop_blocks(bins);
    bins->is_started = false;
    bins->policy++;
}

/* Goes to the next bin: its first block and right are the next ones. */
static void begin_group(dao_plan_lifetime_bins_t *bins, uint32_t group)
{
    bins->group = group;
    bins->now.groups[group].first_block = bins->block_count;
    bins->now.groups[group].first_right = bins->now.right_count;
}

static dao_status_t step_policy(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work)
{
    if (!bins->is_started) {
        return start_policy(bins, work);
    }
    if (bins->next == bins->instance->item_count) {
        end_policy(bins);
        return DAO_OK;
    }
    while (bins->next == bins->now.groups[bins->group + 1].first_entry) {
        begin_group(bins, bins->group + 1);
    }
    return place_next(bins, work);
}

/* ---- the layout ---- */

/* The group that a block belongs to. */
static const group_t *group_of(const result_t *result, uint32_t block)
{
    uint32_t low = 0, high = result->group_count - 1;
    while (low < high) { /* the last one whose first block is not behind it */
        uint32_t middle = low + (high - low + 1) / 2;
        if (result->groups[middle].first_block <= block) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    return &result->groups[low];
}

static void fill_layout(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work)
{
    const result_t *best = &bins->best;
    dao_plan_pass_t pass = {.count = bins->instance->item_count};
    while (dao_plan_pass_next(&pass, work)) {
        for (size_t i = pass.begin; i < pass.end; i++) {
            const group_t *group = group_of(best, best->blocks[i]);
            uint64_t offset = group->offset_bytes + (best->blocks[i] - group->first_block) * stride_of(group);
            dao_plan_layout_put(&bins->layout, best->entries[i], offset, 0);
        }
    }
}

bool dao_plan_lifetime_bins_is_exact(const dao_plan_instance_t *instance)
{
    return instance->fixed_offsets == NULL && instance->pool_count == 1 && !instance->has_capacity;
}

dao_status_t dao_plan_lifetime_bins_create(dao_plan_instance_t *instance, dao_bin_order_t order,
                                           dao_plan_work_t *work, dao_plan_lifetime_bins_t **out_bins)
{
    dao_plan_lifetime_bins_t *bins = dao_plan_memory_alloc(&instance->memory, 1, sizeof(*bins));
    if (bins == NULL) {
        return no_memory(instance->item_count);
    }
    bins->instance = instance;
    bins->order = order;
    if (!dao_plan_layout_init(&bins->layout, instance, work)) {
        dao_plan_lifetime_bins_destroy(bins);
        return no_memory(instance->item_count);
    }
    *out_bins = bins;
    return DAO_OK;
}

void dao_plan_lifetime_bins_destroy(dao_plan_lifetime_bins_t *bins)
{
    if (bins == NULL) {
        return;
    }
    dao_plan_memory_t *memory = &bins->instance->memory;
    drop_blocks(bins);
    drop_result(bins, &bins->now);
    drop_result(bins, &bins->best);
    dao_plan_layout_finish(&bins->layout, bins->instance);
    dao_plan_memory_free(memory, bins->block_list);
    dao_plan_memory_free(memory, bins->last_ends);
    dao_plan_memory_free(memory, bins);
}

dao_status_t dao_plan_lifetime_bins_step(dao_plan_lifetime_bins_t *bins, dao_plan_work_t *work,
                                         bool *out_is_done)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(bins->policy <= DAO_PLAN_BIN_POLICY_COUNT);
    while (status == DAO_OK && bins->policy < DAO_PLAN_BIN_POLICY_COUNT && dao_plan_work_is_left(work)) {
        status = step_policy(bins, work);
        if (bins->policy == DAO_PLAN_BIN_POLICY_COUNT) {
            fill_layout(bins, work);
        }
    }
    *out_is_done = bins->policy == DAO_PLAN_BIN_POLICY_COUNT;
    return status;
}

dao_plan_layout_t *dao_plan_lifetime_bins_layout(dao_plan_lifetime_bins_t *bins)
{
    return &bins->layout;
}

const uint64_t *dao_plan_lifetime_bins_policy_bytes(const dao_plan_lifetime_bins_t *bins)
{
    return bins->policy_bytes;
}

/* ---- a plan of bins ---- */

/* The place of a rounded size in the table: the small ones, eight an octave, then the policy's. */
static uint32_t dense_index(uint32_t policy, uint64_t rounded_bytes)
{
    if (rounded_bytes > DAO_BIN_SMALL_MAX) {
        return SMALL_BIN_COUNT + (uint32_t)((rounded_bytes - DAO_BIN_SMALL_MAX) / policy_step(policy)) - 1;
    }
    if (rounded_bytes <= SMALL_LINEAR_MAX) {
        return (uint32_t)(rounded_bytes / SMALL_STEP_MIN) - 1;
    }
    uint32_t octave_log2 = 63 - (uint32_t)__builtin_clzll(rounded_bytes - 1);
    uint64_t step = (uint64_t)1 << (octave_log2 - SMALL_STEPS_LOG2);
    uint32_t octave = octave_log2 - SMALL_LINEAR_LOG2; /* 0: the one above SMALL_LINEAR_MAX */
    uint32_t in_octave = (uint32_t)((rounded_bytes - ((uint64_t)1 << octave_log2)) / step) - 1;
    return SMALL_LINEAR_COUNT + (octave << SMALL_STEPS_LOG2) + in_octave;
}

static uint32_t dense_count(uint32_t policy)
{
    return dense_index(policy, DAO_BIN_DENSE_MAX) + 1;
}

/* Copies groups, the smallest first, with their rights. */
static void copy_groups(dao_bin_plan_t *plan, const result_t *best)
{
    uint32_t right = 0;
    for (uint32_t i = 0; i < plan->bin_count; i++) {
        const group_t *group = &best->groups[plan->bin_count - 1 - i];
        plan->bins[i] = (dao_bin_t){.size_bytes = group->size_bytes,
                                    .stride_bytes = stride_of(group),
                                    .offset_bytes = group->offset_bytes,
                                    .block_count = group[1].first_block - group->first_block,
                                    .first_right = right,
                                    .right_count = group[1].first_right - group->first_right};
        for (uint32_t k = group->first_right; k < group[1].first_right; k++) {
            plan->rights[right++] = plan->bin_count - 1 - best->rights[k];
        }
    }
}

static dao_status_t copy_result(dao_bin_plan_t *plan, const dao_plan_lifetime_bins_t *bins)
{
    const result_t *best = &bins->best;
    plan->policy = best->policy;
    plan->bin_count = best->group_count;
    plan->right_count = best->right_count;
    plan->total_bytes = best->total_bytes;
    memcpy(plan->policy_bytes, bins->policy_bytes, sizeof(plan->policy_bytes));
    uint32_t table_count = dense_count(plan->policy);
    plan->bins = dao_plan_memory_alloc(&plan->memory, plan->bin_count, sizeof(*plan->bins));
    plan->rights = dao_plan_memory_alloc(&plan->memory, plan->right_count, sizeof(*plan->rights));
    plan->dense = dao_plan_memory_alloc(&plan->memory, table_count, sizeof(*plan->dense));
    if (plan->bins == NULL || plan->rights == NULL || plan->dense == NULL) {
        return no_memory(bins->instance->item_count);
    }
    copy_groups(plan, best);
    memset(plan->dense, 0xff, table_count * sizeof(*plan->dense));
    for (uint32_t i = 0; i < plan->bin_count && plan->bins[i].size_bytes <= DAO_BIN_DENSE_MAX; i++) {
        plan->dense[dense_index(plan->policy, plan->bins[i].size_bytes)] = i;
    }
    return DAO_OK;
}

static dao_status_t make_plan(dao_bin_plan_t *plan, dao_plan_instance_t *instance, dao_bin_order_t order)
{
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_lifetime_bins_t *bins = NULL;
    bool is_done = false;
    if (!dao_plan_lifetime_bins_is_exact(instance)) {
        return dao_error(DAO_ERR_UNSUPPORTED, "lifetime bins know no fixed offsets, pools and capacities");
    }
    dao_status_t status = dao_plan_lifetime_bins_create(instance, order, &work, &bins);
    while (status == DAO_OK && !is_done) {
        status = dao_plan_lifetime_bins_step(bins, &work, &is_done);
    }
    if (status == DAO_OK) {
        status = copy_result(plan, bins);
    }
    dao_plan_lifetime_bins_destroy(bins);
    return status;
}

dao_status_t dao_bin_plan_init(dao_bin_plan_t *plan, const dao_plan_problem_t *problem, dao_bin_order_t order)
{
    dao_plan_instance_t instance;
    *plan = (dao_bin_plan_t){0};
    dao_status_t status = dao_plan_instance_make(&instance, problem);
    if (status != DAO_OK) {
        return status;
    }
    status = make_plan(plan, &instance, order);
    dao_plan_instance_finish(&instance);
    if (status != DAO_OK) {
        dao_bin_plan_finish(plan);
        return status;
    }
    DAO_ASSERT_HEAVY(dao_bin_plan_is_valid(plan));
    return DAO_OK;
}

void dao_bin_plan_finish(dao_bin_plan_t *plan)
{
    dao_plan_memory_free(&plan->memory, plan->bins);
    dao_plan_memory_free(&plan->memory, plan->rights);
    dao_plan_memory_free(&plan->memory, plan->dense);
    *plan = (dao_bin_plan_t){0};
}

uint32_t dao_bin_plan_find(const dao_bin_plan_t *plan, uint64_t size_bytes)
{
    if (size_bytes == 0 || size_bytes > DAO_PLAN_SIZE_MAX) {
        return BIN_NONE;
    }
    uint64_t rounded_bytes = dao_bin_round(plan->policy, size_bytes);
    if (rounded_bytes <= DAO_BIN_DENSE_MAX) {
        return plan->dense[dense_index(plan->policy, rounded_bytes)];
    }
    uint32_t first = dao_bin_plan_above(plan, rounded_bytes);
    return first < plan->bin_count && plan->bins[first].size_bytes == rounded_bytes ? first : BIN_NONE;
}

uint32_t dao_bin_plan_above(const dao_bin_plan_t *plan, uint64_t size_bytes)
{
    uint32_t low = 0, high = plan->bin_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (plan->bins[middle].size_bytes < size_bytes) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

bool dao_bin_plan_is_valid(const dao_bin_plan_t *plan)
{
    uint64_t end = 0;
    uint32_t right = 0;
    bool is_valid = plan->policy < DAO_PLAN_BIN_POLICY_COUNT;
    for (uint32_t i = plan->bin_count; i-- > 0 && is_valid;) { /* the largest lies lowest */
        const dao_bin_t *bin = &plan->bins[i];
        is_valid = bin->offset_bytes >= end && bin->stride_bytes >= bin->size_bytes &&
                   dao_bin_plan_find(plan, bin->size_bytes) == i &&
                   (i == 0 || plan->bins[i - 1].size_bytes < bin->size_bytes);
        end = bin->offset_bytes + bin->block_count * bin->stride_bytes;
    }
    for (uint32_t i = 0; i < plan->bin_count && is_valid; i++) {
        const dao_bin_t *bin = &plan->bins[i];
        is_valid = bin->first_right == right && bin->block_count + bin->right_count > 0;
        for (uint32_t k = 0; k < bin->right_count && is_valid; k++) {
            uint32_t lender = plan->rights[right + k];
            is_valid = lender > i && lender < plan->bin_count && plan->bins[lender].block_count > 0;
        }
        right += bin->right_count;
    }
    return is_valid && end == plan->total_bytes && right == plan->right_count;
}
