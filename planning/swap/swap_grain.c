/* SPDX-License-Identifier: Apache-2.0 */
#include "planning/swap/swap_grain.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/victims/swap_choose.h"
#include "planning/swap/victims/swap_cycle.h"
#include "planning/swap/victims/swap_spread.h"
#include "planning/swap/victims/swap_tiers.h"

#define CHOOSE_STEP_COUNT 4u

/* In the order in which they are tried for as long as there is work: those for steps that stream, those that
   weigh copies, and the others by what they plan ahead. */
static const struct {
    dao_swap_variant_t choice;
    /* Not 0: for steps that stream; such a part of the capacity is for copies in ahead of their kernels, see
       swap_spread.h. */
    uint32_t ahead_part;
} variants[] = {
    {.ahead_part = 64},
    {.ahead_part = 256},
    {.ahead_part = 16},
    {.choice = {.choice_count = 1, .lead_kernels = 4, .weighs_copies = true}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = 4, .weighs_copies = true}},
    {.choice = {.choice_count = 1, .lead_kernels = 0, .weighs_copies = true}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = 0, .weighs_copies = true}},
    {.choice = {.choice_count = 64, .lead_kernels = 4}},
    {.choice = {.choice_count = 1, .lead_kernels = 4}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = 4}},
    {.choice = {.choice_count = 64, .lead_kernels = 32}},
    {.choice = {.choice_count = 1, .lead_kernels = 32}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = 32}},
    {.choice = {.choice_count = 64, .lead_kernels = 0}},
    {.choice = {.choice_count = 1, .lead_kernels = 0}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = 0}},
    {.choice = {.choice_count = 64, .lead_kernels = UINT32_MAX}},
    {.choice = {.choice_count = 1, .lead_kernels = UINT32_MAX}},
    {.choice = {.choice_count = UINT32_MAX, .lead_kernels = UINT32_MAX}},
};

static_assert(sizeof(variants) / sizeof(variants[0]) == DAO_SWAP_VARIANT_COUNT, "each has a row");

bool dao_swap_variant_streams(uint32_t variant)
{
    return variants[variant].ahead_part != 0;
}

dao_status_t dao_swap_grain_init(dao_swap_grain_t *grain, const dao_swap_step_t *step, uint64_t part_bytes)
{
    *grain = (dao_swap_grain_t){0};
    dao_status_t status = dao_swap_parts_init(&grain->parts, step, part_bytes);
    if (status != DAO_OK) {
        return status;
    }
    size_t inactive_count = (size_t)grain->parts.inactive_count + 1;
    status = dao_swap_timing_init(&grain->timing, &grain->parts);
    status = status == DAO_OK ? dao_swap_timing_init(&grain->late, &grain->parts) : status;
    status = status == DAO_OK ? dao_swap_timing_init(&grain->kept_timing, &grain->parts) : status;
    grain->decisions = dao_host_calloc(inactive_count, sizeof(*grain->decisions));
    grain->improved = dao_host_calloc(inactive_count, sizeof(*grain->improved));
    grain->kept_decisions = dao_host_calloc(inactive_count, sizeof(*grain->kept_decisions));
    if (status == DAO_OK &&
        (grain->decisions == NULL || grain->improved == NULL || grain->kept_decisions == NULL)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to plan the swaps of a step");
    }
    return status;
}

void dao_swap_grain_finish(dao_swap_grain_t *grain)
{
    dao_swap_timing_finish(&grain->timing);
    dao_swap_timing_finish(&grain->late);
    dao_swap_timing_finish(&grain->kept_timing);
    dao_host_free(grain->decisions);
    dao_host_free(grain->improved);
    dao_host_free(grain->kept_decisions);
    dao_swap_parts_finish(&grain->parts);
}

/* Times what was decided, with one order of those that go to the file. */
static dao_status_t time_tiers(dao_swap_grain_t *grain, uint64_t capacity_bytes, dao_swap_tier_order_t order,
                               bool *out_has_file)
{
    dao_status_t status = dao_swap_tiers(&grain->parts, order, grain->decisions, out_has_file);
    return status == DAO_OK ? dao_swap_time(&grain->parts, capacity_bytes, grain->decisions, &grain->timing)
                            : status;
}

dao_status_t dao_swap_grain_time(dao_swap_grain_t *grain, uint64_t capacity_bytes)
{
    bool has_file = false;
    dao_status_t status = time_tiers(grain, capacity_bytes, DAO_SWAP_TIER_ORDER_LONG, &has_file);
    if (!has_file || (status != DAO_OK && status != DAO_ERR_HOST_FULL)) {
        return status;
    }
    bool fits = status == DAO_OK;
    uint64_t step_ns = fits ? grain->timing.step_ns : UINT64_MAX;
    status = time_tiers(grain, capacity_bytes, DAO_SWAP_TIER_ORDER_SPREAD, &has_file);
    bool is_worse = status == DAO_ERR_HOST_FULL || (status == DAO_OK && grain->timing.step_ns > step_ns);
    return fits && is_worse ? time_tiers(grain, capacity_bytes, DAO_SWAP_TIER_ORDER_LONG, &has_file) : status;
}

dao_status_t dao_swap_grain_choose(dao_swap_grain_t *grain, uint32_t variant, uint64_t capacity_bytes)
{
    uint64_t step_ns;
    return dao_swap_variant_streams(variant)
               ? dao_swap_spread(&grain->parts, capacity_bytes, capacity_bytes / variants[variant].ahead_part,
                                 grain->decisions)
               : dao_swap_choose(&grain->parts, capacity_bytes, &variants[variant].choice, CHOOSE_STEP_COUNT,
                                 grain->decisions, &step_ns);
}

dao_status_t dao_swap_grain_time_choice(dao_swap_grain_t *grain, uint64_t capacity_bytes, bool keeps_most)
{
    dao_status_t status = dao_swap_cycle(&grain->parts, capacity_bytes, keeps_most, grain->decisions);
    return status == DAO_OK ? dao_swap_grain_time(grain, capacity_bytes) : status;
}
