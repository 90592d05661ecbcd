/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/swap/step/swap_levels.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

static int64_t larger(int64_t left, int64_t right)
{
    return left > right ? left : right;
}

bool dao_swap_levels_init(dao_swap_levels_t *levels, const uint64_t *kernel_bytes, uint32_t kernel_count)
{
    *levels = (dao_swap_levels_t){.kernel_count = kernel_count, .leaf_count = 1};
    while (levels->leaf_count < kernel_count) {
        levels->leaf_count *= 2;
    }
    levels->most = dao_host_calloc(2 * (size_t)levels->leaf_count, sizeof(*levels->most));
    levels->added = dao_host_calloc(levels->leaf_count, sizeof(*levels->added));
    if (levels->most == NULL || levels->added == NULL) {
        dao_swap_levels_finish(levels);
        return false;
    }
    for (uint32_t k = 0; k < kernel_count; k++) {
        levels->most[levels->leaf_count + k] = (int64_t)kernel_bytes[k];
    }
    for (uint32_t node = levels->leaf_count - 1; node > 0; node--) {
        levels->most[node] = larger(levels->most[2 * node], levels->most[2 * node + 1]);
    }
    return true;
}

void dao_swap_levels_finish(dao_swap_levels_t *levels)
{
    dao_host_free(levels->most);
    dao_host_free(levels->added);
    *levels = (dao_swap_levels_t){0};
}

static void add_to_node(dao_swap_levels_t *levels, uint32_t node, int64_t size_bytes)
{
    levels->most[node] += size_bytes;
    if (node < levels->leaf_count) {
        levels->added[node] += size_bytes;
    }
}

/* Sees again to the nodes above a leaf. */
static void see_to_above(dao_swap_levels_t *levels, uint32_t leaf)
{
    for (uint32_t node = leaf / 2; node > 0; node /= 2) {
        levels->most[node] = larger(levels->most[2 * node], levels->most[2 * node + 1]) + levels->added[node];
    }
}

/* Kernels `low` to `high` - 1, at least one. */
static void add_between(dao_swap_levels_t *levels, uint32_t low, uint32_t high, int64_t size_bytes)
{
    uint32_t left = low + levels->leaf_count, right = high + levels->leaf_count;
    for (; left < right; left /= 2, right /= 2) {
        if (left % 2 != 0) {
            add_to_node(levels, left++, size_bytes);
        }
        if (right % 2 != 0) {
            add_to_node(levels, --right, size_bytes);
        }
    }
    see_to_above(levels, low + levels->leaf_count);
    see_to_above(levels, high - 1 + levels->leaf_count);
}

void dao_swap_levels_add(dao_swap_levels_t *levels, uint32_t kernel, uint32_t count, int64_t size_bytes)
{
    uint32_t n = levels->kernel_count, rest = n - kernel;
    DAO_ASSERT(kernel < n && count <= n);
    if (count > 0) {
        add_between(levels, kernel, kernel + (count < rest ? count : rest), size_bytes);
    }
    if (count > rest) {
        add_between(levels, 0, count - rest, size_bytes);
    }
}

/* The most in the leaves `low` to `high` - 1 below `node`, which has those from `first` on, `width` of them.
 */
static int64_t most_below(const dao_swap_levels_t *levels, uint32_t node, uint32_t first, uint32_t width,
                          uint32_t low, uint32_t high)
{
    if (low <= first && first + width <= high) {
        return levels->most[node];
    }
    uint32_t half = width / 2, middle = first + half;
    int64_t most = INT64_MIN;
    if (low < middle) {
        most = most_below(levels, 2 * node, first, half, low, high);
    }
    if (high > middle) {
        most = larger(most, most_below(levels, 2 * node + 1, middle, half, low, high));
    }
    return most + levels->added[node];
}

uint64_t dao_swap_levels_most(const dao_swap_levels_t *levels, uint32_t kernel, uint32_t count)
{
    uint32_t n = levels->kernel_count, rest = n - kernel;
    int64_t most = 0;
    DAO_ASSERT(kernel < n && count <= n);
    if (count > 0) {
        most = most_below(levels, 1, 0, levels->leaf_count, kernel, kernel + (count < rest ? count : rest));
    }
    if (count > rest) {
        most = larger(most, most_below(levels, 1, 0, levels->leaf_count, 0, count - rest));
    }
    DAO_ASSERT(most >= 0);
    return (uint64_t)most;
}

bool dao_swap_levels_is_valid(const dao_swap_levels_t *levels)
{
    bool is_valid = true;
    for (uint32_t node = 1; node < levels->leaf_count && is_valid; node++) {
        is_valid = levels->most[node] ==
                   larger(levels->most[2 * node], levels->most[2 * node + 1]) + levels->added[node];
    }
    return is_valid;
}
