/* SPDX-License-Identifier: Apache-2.0 */
/* See the picture in tree.h. */
#include "planning/offsets/support/tree.h"

#include "base/report/assert.h"

#include <string.h>

#define FAN      DAO_PLAN_TREE_FAN
#define FAN_LOG2 4u
static_assert(FAN == 1u << FAN_LOG2, "places are found by shifts");
/* Eight levels of sixteen are all that a place can number. */
static_assert(FAN_LOG2 * DAO_PLAN_TREE_LEVELS_MAX >= 32, "levels for every place");

static uint32_t blocks_of(uint32_t count)
{
    return count / FAN + (count % FAN != 0 ? 1 : 0);
}

bool dao_plan_tree_init(dao_plan_tree_t *tree, dao_plan_memory_t *memory, uint32_t count,
                        dao_plan_work_t *work)
{
    *tree = (dao_plan_tree_t){.count = count};
    size_t starts[DAO_PLAN_TREE_LEVELS_MAX];
    size_t place_count = 0;
    uint32_t blocks = count == 0 ? 1 : blocks_of(count);
    for (bool is_top = false; !is_top; blocks = blocks_of(blocks)) {
        starts[tree->level_count++] = place_count;
        place_count += (size_t)blocks * FAN;
        is_top = blocks == 1;
    }
    uint32_t *places = dao_plan_memory_alloc(memory, place_count, sizeof(*places));
    if (places == NULL) {
        return false;
    }
    dao_plan_pass_fill(places, 0xff, place_count * sizeof(*places), work);
    for (uint32_t level = 0; level < tree->level_count; level++) {
        tree->levels[level] = places + starts[level];
    }
    return true;
}

void dao_plan_tree_finish(dao_plan_tree_t *tree, dao_plan_memory_t *memory)
{
    dao_plan_memory_free(memory, tree->levels[0]);
    *tree = (dao_plan_tree_t){0};
}

/* Four places that are compared at once, and what comes of it. */
typedef uint32_t four_t __attribute__((vector_size(16)));
typedef uint64_t two_t __attribute__((vector_size(16)));
#define FOUR 4u

static inline four_t lesser_of(four_t left, four_t right)
{
    four_t is_less = (four_t)(left < right);
    return (left & is_less) | (right & ~is_less);
}

static uint32_t least_of_block(const uint32_t *block)
{
    four_t four[FAN / FOUR];
    memcpy(four, block, sizeof(four));
    four_t least = lesser_of(lesser_of(four[0], four[1]), lesser_of(four[2], four[3]));
    uint32_t first = least[0] < least[1] ? least[0] : least[1];
    uint32_t second = least[2] < least[3] ? least[2] : least[3];
    return first < second ? first : second;
}

void dao_plan_tree_set(dao_plan_tree_t *tree, uint32_t place, uint32_t number)
{
    DAO_ASSERT(place < tree->count);
    uint32_t before = tree->levels[0][place];
    tree->levels[0][place] = number;
    for (uint32_t level = 1; level < tree->level_count; level++) {
        place /= FAN;
        uint32_t least = tree->levels[level][place];
        if (least < before && least <= number) {
            return; /* another one is the least, and stays so */
        }
        before = least;
        number = number < least ? number : least_of_block(tree->levels[level - 1] + (size_t)place * FAN);
        tree->levels[level][place] = number;
        if (number == before) {
            return;
        }
    }
}

void dao_plan_tree_build(dao_plan_tree_t *tree, dao_plan_work_t *work)
{
    uint32_t count = tree->count;
    for (uint32_t level = 1; level < tree->level_count; level++) {
        count = blocks_of(count);
        dao_plan_pass_t pass = {.count = count};
        while (dao_plan_pass_next(&pass, work)) {
            for (size_t i = pass.begin; i < pass.end; i++) {
                tree->levels[level][i] = least_of_block(tree->levels[level - 1] + i * FAN);
            }
        }
    }
    DAO_ASSERT_HEAVY(dao_plan_work_is_cancelled(work) || dao_plan_tree_is_valid(tree));
}

/* The bits of those of four places whose numbers are too large. */
static inline four_t large_of(const uint32_t *places, four_t most, four_t bits)
{
    four_t four;
    memcpy(&four, places, sizeof(four));
    return (four_t)(four > most) & bits;
}

/* The places from `at` to the end of its block whose numbers are small enough, a bit each; bit 0 is the
   block's first. No branch: where the first one is, is as good as random. */
static inline uint32_t small_from(const uint32_t *places, uint32_t at, uint32_t most)
{
    static const four_t bits[FAN / FOUR] = {{0x1, 0x2, 0x4, 0x8},
                                            {0x10, 0x20, 0x40, 0x80},
                                            {0x100, 0x200, 0x400, 0x800},
                                            {0x1000, 0x2000, 0x4000, 0x8000}};
    const uint32_t *block = places + (at & ~(FAN - 1));
    const four_t four = {most, most, most, most};
    two_t large =
        (two_t)((large_of(block, four, bits[0]) | large_of(block + FOUR, four, bits[1])) |
                (large_of(block + 2 * FOUR, four, bits[2]) | large_of(block + 3 * FOUR, four, bits[3])));
    uint64_t both = large[0] | large[1];
    return ~(uint32_t)(both | both >> 32) & ((1u << FAN) - (1u << (at & (FAN - 1))));
}

static uint32_t first_of(uint32_t at, uint32_t small)
{
    return (at & ~(FAN - 1)) + (uint32_t)__builtin_ctz(small);
}

uint32_t dao_plan_tree_find(const dao_plan_tree_t *tree, uint32_t low, uint32_t high, uint32_t most)
{
    DAO_ASSERT(low <= high && high <= tree->count);
    DAO_ASSERT(most < DAO_PLAN_TREE_NONE);
    uint32_t level = 0, at = low, small = 0;
    while (level < tree->level_count && (uint64_t)at << (FAN_LOG2 * level) < high) {
        small = small_from(tree->levels[level], at, most);
        if (small != 0) {
            break;
        }
        at = (at >> FAN_LOG2) + 1; /* the block is done */
        level++;
    }
    if (small == 0) {
        return high;
    }
    for (at = first_of(at, small); level > 0; level--) {
        at <<= FAN_LOG2;
        at = first_of(at, small_from(tree->levels[level - 1], at, most));
    }
    return at < high ? at : high;
}

bool dao_plan_tree_is_valid(const dao_plan_tree_t *tree)
{
    uint32_t count = tree->count;
    bool is_valid = true;
    for (uint32_t level = 1; level < tree->level_count && is_valid; level++) {
        count = blocks_of(count);
        for (uint32_t i = 0; i < count && is_valid; i++) {
            is_valid = tree->levels[level][i] == least_of_block(tree->levels[level - 1] + (size_t)i * FAN);
        }
    }
    return is_valid && (tree->level_count == 0 || count <= FAN || tree->level_count == 1);
}
