/* SPDX-License-Identifier: Apache-2.0 */
/* A segment tree over DAO_DEMAND_KERNELS kernels, used as a ring: kernel t is leaf t mod DAO_DEMAND_KERNELS.

   Invariants: of an inner node, most == added + the greater `most` of its children; of a leaf, most == added;
   the root's `most` is not negative between two calls that belong together. */
#include "runtime/executor/core/demand.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <string.h>

static_assert((DAO_DEMAND_KERNELS & (DAO_DEMAND_KERNELS - 1)) == 0, "places are found with a mask");

dao_status_t dao_demand_init(dao_demand_t *demand)
{
    demand->nodes = dao_host_calloc(2 * DAO_DEMAND_KERNELS, sizeof(*demand->nodes));
    return demand->nodes != NULL
               ? DAO_OK
               : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to look %u kernels ahead", DAO_DEMAND_KERNELS);
}

void dao_demand_finish(dao_demand_t *demand)
{
    DAO_ASSERT_HEAVY(demand->nodes == NULL || dao_demand_is_valid(demand));
    dao_host_free(demand->nodes);
    demand->nodes = NULL;
}

void dao_demand_clear(dao_demand_t *demand)
{
    memset(demand->nodes, 0, 2 * DAO_DEMAND_KERNELS * sizeof(*demand->nodes));
}

static void add_to_node(dao_demand_node_t *node, int64_t bytes)
{
    node->added += bytes;
    node->most += bytes;
}

static void sum_up_node(dao_demand_t *demand, uint32_t index)
{
    int64_t left = demand->nodes[2 * index].most;
    int64_t right = demand->nodes[2 * index + 1].most;
    demand->nodes[index].most = demand->nodes[index].added + (left > right ? left : right);
}

/* Sums up from the parents of two leaves to the root: what they have in common once. */
static void sum_up(dao_demand_t *demand, uint32_t low, uint32_t high)
{
    for (low /= 2, high /= 2; low > 0; low /= 2, high /= 2) {
        sum_up_node(demand, low);
        if (high != low) {
            sum_up_node(demand, high);
        }
    }
}

/* Places [first, last], first <= last. */
static void add_to_places(dao_demand_t *demand, uint32_t first, uint32_t last, int64_t bytes)
{
    uint32_t low = first + DAO_DEMAND_KERNELS;
    uint32_t high = last + DAO_DEMAND_KERNELS + 1;
    DAO_ASSERT(first <= last);
    DAO_ASSERT(last < DAO_DEMAND_KERNELS);
    for (; low < high; low /= 2, high /= 2) {
        if (low % 2 == 1) {
            add_to_node(&demand->nodes[low++], bytes);
        }
        if (high % 2 == 1) {
            add_to_node(&demand->nodes[--high], bytes);
        }
    }
    sum_up(demand, first + DAO_DEMAND_KERNELS, last + DAO_DEMAND_KERNELS);
}

void dao_demand_add(dao_demand_t *demand, uint64_t first, uint64_t last, int64_t bytes)
{
    DAO_ASSERT(first <= last && last - first < DAO_DEMAND_KERNELS);
    uint32_t low = (uint32_t)(first % DAO_DEMAND_KERNELS);
    uint32_t high = (uint32_t)(last % DAO_DEMAND_KERNELS);
    if (low <= high) {
        add_to_places(demand, low, high, bytes);
    } else {
        add_to_places(demand, low, DAO_DEMAND_KERNELS - 1, bytes);
        add_to_places(demand, 0, high, bytes);
    }
}

void dao_demand_pass(dao_demand_t *demand, uint64_t time)
{
    uint32_t place = (uint32_t)(time % DAO_DEMAND_KERNELS);
    int64_t bytes = 0;
    for (uint32_t index = place + DAO_DEMAND_KERNELS; index > 0; index /= 2) {
        bytes += demand->nodes[index].added;
    }
    add_to_places(demand, place, place, -bytes);
}

bool dao_demand_is_valid(const dao_demand_t *demand)
{
    for (uint32_t index = 1; index < 2 * DAO_DEMAND_KERNELS; index++) {
        int64_t below = 0;
        if (index < DAO_DEMAND_KERNELS) {
            int64_t left = demand->nodes[2 * index].most;
            int64_t right = demand->nodes[2 * index + 1].most;
            below = left > right ? left : right;
        }
        if (demand->nodes[index].most != demand->nodes[index].added + below) {
            return false;
        }
    }
    return true;
}

uint64_t dao_demand_most(const dao_demand_t *demand)
{
    DAO_ASSERT(demand->nodes[1].most >= 0);
    return (uint64_t)demand->nodes[1].most;
}
