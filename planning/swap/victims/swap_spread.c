/* SPDX-License-Identifier: Apache-2.0 */
/* In a step that goes through its tensors once, all of them are about equally far from their next use. So the
   rule that the furthest one leaves says little, and picks neighbours. Then the link brings all that one part
   of the step reads, and idles during the other part.

       by the furthest   | stays stays stays stays | away away away away |     the link has half of the step
       spread            | stays away stays away     stays away stays away |   the link has all of it */
#include "planning/swap/victims/swap_spread.h"

#include "base/numbers/math.h"

#include <string.h>

/* A tensor is used in one place if it is out of use for this part of the step in one piece. */
#define LONG_PART 0.75

#define QUARTERS 4u

static bool is_long(const dao_swap_step_t *step, const dao_swap_access_t *one)
{
    return one->inactive_is_live && one->inactive_length >= LONG_PART * step->kernel_count;
}

/* Bytes that are used in one place, by the quarter of the step's time in which that is. Returns their sum. */
static uint64_t sum_long(const dao_swap_step_t *step, uint64_t quarters[QUARTERS])
{
    uint64_t bytes = 0, step_ns = step->time_before[step->kernel_count];
    memset(quarters, 0, QUARTERS * sizeof(*quarters));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint64_t size = is_long(step, one) ? step->size_bytes[one->tensor] : 0;
        quarters[step->time_before[one->kernel] * QUARTERS / (step_ns + 1)] += size;
        bytes += size;
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

bool dao_swap_is_streamed(const dao_swap_step_t *step)
{
    uint64_t quarters[QUARTERS], bytes = sum_long(step, quarters), most_bytes = 0;
    uint64_t deficit_bytes = find_deficit(step, step->problem->capacity_bytes);
    for (uint32_t i = 0; i < QUARTERS; i++) {
        most_bytes = dao_larger(most_bytes, quarters[i]);
    }
    return deficit_bytes > 0 && bytes >= deficit_bytes && most_bytes <= bytes / 2;
}

void dao_swap_spread(const dao_swap_parts_t *parts, uint64_t capacity_bytes, uint64_t ahead_bytes,
                     dao_swap_decision_t *decisions)
{
    const dao_swap_step_t *step = parts->step;
    uint64_t quarters[QUARTERS];
    double all = (double)sum_long(step, quarters), passed = 0, away = 0;
    double wanted = (double)(find_deficit(step, capacity_bytes) + ahead_bytes);
    wanted = wanted < all ? wanted : all;
    double lead =
        (double)ahead_bytes / wanted * step->kernel_count; /* what comes back meanwhile fills the rest */
    memset(decisions, 0, parts->inactive_count * sizeof(*decisions));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        double size = is_long(step, one) ? (double)step->size_bytes[one->tensor] : 0;
        passed += size;
        if (size > 0 && away < passed / all * wanted) {
            const dao_swap_decision_t decision = {
                .lead = lead < one->inactive_length ? (uint32_t)lead : one->inactive_length - 1,
                .is_away = true};
            for (uint32_t g = parts->first_inactive[i]; g < parts->first_inactive[i + 1]; g++) {
                decisions[g] = decision;
            }
            away += size;
        }
    }
}
