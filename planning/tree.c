/* See the picture in tree.h. */
#include "planning/tree.h"

#include "base/assert.h"

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
                        dao_plan_meter_t *meter)
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
    uint32_t *places = dao_plan_take(memory, place_count, sizeof(*places));
    if (places == NULL) {
        return false;
    }
    dao_plan_pass_fill(places, 0xff, place_count * sizeof(*places), meter);
    for (uint32_t level = 0; level < tree->level_count; level++) {
        tree->levels[level] = places + starts[level];
    }
    return true;
}

void dao_plan_tree_finish(dao_plan_tree_t *tree, dao_plan_memory_t *memory)
{
    dao_plan_give(memory, tree->levels[0]);
    *tree = (dao_plan_tree_t){0};
}

static uint32_t least_of_block(const uint32_t *block)
{
    uint32_t least = block[0];
    for (uint32_t i = 1; i < FAN; i++) {
        least = block[i] < least ? block[i] : least;
    }
    return least;
}

void dao_plan_tree_set(dao_plan_tree_t *tree, uint32_t place, uint32_t number)
{
    DAO_ASSERT(place < tree->count);
    tree->levels[0][place] = number;
    for (uint32_t level = 1; level < tree->level_count; level++) {
        place /= FAN;
        uint32_t least = least_of_block(tree->levels[level - 1] + (size_t)place * FAN);
        if (tree->levels[level][place] == least) {
            return;
        }
        tree->levels[level][place] = least;
    }
}

void dao_plan_tree_build(dao_plan_tree_t *tree, dao_plan_meter_t *meter)
{
    uint32_t count = tree->count;
    for (uint32_t level = 1; level < tree->level_count; level++) {
        count = blocks_of(count);
        dao_plan_pass_t pass = {.count = count};
        while (dao_plan_pass_next(&pass, meter)) {
            for (size_t i = pass.begin; i < pass.end; i++) {
                tree->levels[level][i] = least_of_block(tree->levels[level - 1] + i * FAN);
            }
        }
    }
}

/* Gives the first of the places from `at` to the end of its block that is small enough; the block's end if there is none. */
static uint32_t find_in_block(const uint32_t *places, uint32_t at, uint32_t most)
{
    uint32_t end = (at | (FAN - 1)) + 1;
    while (at < end && places[at] > most) {
        at++;
    }
    return at;
}

uint32_t dao_plan_tree_find(const dao_plan_tree_t *tree, uint32_t low, uint32_t high, uint32_t most)
{
    if (low >= high) {
        return high;
    }
    uint32_t level = 0, at = low;
    for (;;) {
        uint32_t end = (at | (FAN - 1)) + 1;
        at = find_in_block(tree->levels[level], at, most);
        if (at < end) {
            break;
        }
        at >>= FAN_LOG2;
        level++;
        if (level == tree->level_count || (uint64_t)at << (FAN_LOG2 * level) >= high) {
            return high;
        }
    }
    for (; level > 0; level--) {
        at = find_in_block(tree->levels[level - 1], at << FAN_LOG2, most);
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
