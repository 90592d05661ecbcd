/* SPDX-License-Identifier: Apache-2.0 */
/* In a step that goes through its tensors over and over, all of them are about equally far from their next
   use. So the rule that the furthest one leaves says little, and picks neighbours. Then the link brings all
   that one part of the step reads, and idles during the other part.

       by the furthest   | stays stays stays stays | away away away away |     the link has half of the step
       spread            | stays away stays away     stays away stays away |   the link has all of it

   The step may go through them once, as inference does, or several times, as diffusion does. Who leaves,
   leaves each time: those that stay never move. Tensors that no kernel writes leave alone if they are enough,
   as nothing of them is copied out. In pages all tensors give some parts, so that little is there for a
   kernel alone; at a static address the rest of a tensor would keep others from the room of its parts. */
#include "planning/swap/victims/swap_spread.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"

#include <string.h>

/* An inactive period is long if it is this much of the step, of which each use of the tensor has an equal
   share. */
#define LONG_PART 0.75

#define QUARTERS 4u

/* What may be spread. */
typedef struct spread {
    const dao_swap_step_t *step;
    uint32_t *use_count; /* of each tensor */
    bool *is_taken;      /* of each tensor: it was met before */
    bool is_clean;       /* only what no kernel writes */
} spread_t;

static bool spread_init(spread_t *spread, const dao_swap_step_t *step)
{
    *spread = (spread_t){.step = step};
    spread->use_count = dao_host_calloc((size_t)step->tensor_count + 1, sizeof(*spread->use_count));
    spread->is_taken = dao_host_calloc((size_t)step->tensor_count + 1, sizeof(*spread->is_taken));
    if (spread->use_count == NULL || spread->is_taken == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        spread->use_count[step->accesses[i].tensor]++;
    }
    return true;
}

static void spread_finish(spread_t *spread)
{
    dao_host_free(spread->use_count);
    dao_host_free(spread->is_taken);
}

static bool is_long(const spread_t *spread, const dao_swap_access_t *one)
{
    return one->inactive_is_live && (!spread->is_clean || one->writer == DAO_SWAP_NONE) &&
           (double)one->inactive_length * spread->use_count[one->tensor] >=
               LONG_PART * spread->step->kernel_count;
}

/* Bytes that an access puts among those that may leave: of its tensor, where that is not among them yet. */
static uint64_t take(spread_t *spread, const dao_swap_access_t *one)
{
    if (spread->is_taken[one->tensor] || !is_long(spread, one)) {
        return 0;
    }
    spread->is_taken[one->tensor] = true;
    return spread->step->size_bytes[one->tensor];
}

static void begin(spread_t *spread)
{
    memset(spread->is_taken, 0, spread->step->tensor_count * sizeof(*spread->is_taken));
}

/* Bytes that may leave, and how many of them are used in each quarter of the step's time. */
static uint64_t sum_long(spread_t *spread, uint64_t quarters[QUARTERS])
{
    const dao_swap_step_t *step = spread->step;
    uint64_t bytes = 0, step_ns = step->time_before[step->kernel_count];
    memset(quarters, 0, QUARTERS * sizeof(*quarters));
    begin(spread);
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint64_t size = is_long(spread, one) ? step->size_bytes[one->tensor] : 0;
        quarters[step->time_before[one->kernel] * QUARTERS / (step_ns + 1)] += size;
        bytes += take(spread, one);
    }
    return bytes;
}

/* The most by which what is live is more than the capacity. */
static uint64_t find_deficit(const dao_swap_step_t *step, uint64_t capacity_bytes)
{
    uint64_t most_bytes = capacity_bytes;
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        most_bytes = dao_larger(most_bytes, step->live_bytes[k]);
    }
    return most_bytes - capacity_bytes;
}

dao_status_t dao_swap_is_streamed(const dao_swap_step_t *step, bool *out_is_streamed)
{
    uint64_t quarters[QUARTERS], most_bytes = 0, used_bytes = 0;
    uint64_t deficit_bytes = find_deficit(step, step->problem->capacity_bytes);
    spread_t spread;
    *out_is_streamed = false;
    if (!spread_init(&spread, step)) {
        spread_finish(&spread);
        return dao_swap_step_give_up(step);
    }
    uint64_t bytes = sum_long(&spread, quarters);
    for (uint32_t i = 0; i < QUARTERS; i++) {
        most_bytes = dao_larger(most_bytes, quarters[i]);
        used_bytes += quarters[i];
    }
    spread_finish(&spread);
    *out_is_streamed = deficit_bytes > 0 && bytes >= deficit_bytes && most_bytes <= used_bytes / 2;
    return DAO_OK;
}

/* Lets a part of a tensor leave in each of its long inactive periods. */
static void leave(const spread_t *spread, const dao_swap_parts_t *parts, uint32_t first_access, uint32_t part,
                  double lead, dao_swap_decision_t *decisions)
{
    uint32_t access = first_access;
    do {
        const dao_swap_access_t *one = &spread->step->accesses[access];
        if (is_long(spread, one)) {
            decisions[parts->first_inactive[access] + part] = (dao_swap_decision_t){
                .lead = lead < one->inactive_length ? (uint32_t)lead : one->inactive_length - 1,
                .is_away = true};
        }
        access = one->next;
    } while (access != first_access);
}

/* Lets parts leave until as much of what was met is away as of all. */
static void spread_all(spread_t *spread, const dao_swap_parts_t *parts, double all, double wanted,
                       double lead, dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = spread->step;
    double passed = 0, away = 0;
    begin(spread);
    for (uint32_t i = 0; i < step->access_count; i++) {
        uint32_t tensor = step->accesses[i].tensor;
        uint64_t size = take(spread, &step->accesses[i]);
        uint32_t count = size > 0 ? parts->first[tensor + 1] - parts->first[tensor] : 0;
        bool is_split = dao_swap_is_paged(step, size);
        passed += (double)size;
        count = is_split || away < passed / all * wanted ? count : 0;
        for (uint32_t part = 0; part < count && (!is_split || away < passed / all * wanted); part++) {
            leave(spread, parts, i, part, lead, decisions);
            away += (double)dao_swap_part_size(parts, parts->first[tensor] + part);
        }
    }
}

dao_status_t dao_swap_spread(const dao_swap_parts_t *parts, uint64_t capacity_bytes, uint64_t ahead_bytes,
                             dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t quarters[QUARTERS];
    double wanted = (double)(find_deficit(step, capacity_bytes) + ahead_bytes);
    spread_t spread;
    if (!spread_init(&spread, step)) {
        spread_finish(&spread);
        return dao_swap_step_give_up(step);
    }
    spread.is_clean = true;
    double all = (double)sum_long(&spread, quarters);
    if (all < wanted) {
        spread.is_clean = false;
        all = (double)sum_long(&spread, quarters);
    }
    wanted = wanted < all ? wanted : all;
    double lead =
        (double)ahead_bytes / wanted * step->kernel_count; /* what comes back meanwhile fills the rest */
    memset(decisions, 0, parts->inactive_count * sizeof(*decisions));
    spread_all(&spread, parts, all, wanted, lead, decisions);
    spread_finish(&spread);
    return DAO_OK;
}
