/* Tries variants and keeps the best plan.

       variant  --choose-->  who leaves  --cycle-->  the same in every step  --tiers, time-->  a step that repeats
                                                                                    |
       C too small for the addresses: again with less  <--  arena > C  <--  layout  +--> the best ones first
                                                                 |
                                                                 v arena <= C
                                             emit (copies and fences)  --replay-->  the plan's time

   All variants are timed with the whole capacity first, as if memory had no addresses. Then the best of them get addresses;
   where those need more than the capacity, the variant is timed once more for as much less, so that what holes cost is paid by
   a little more swapping. Copies in take their room as early as they can for robustness, or as late as they may where only
   that fits. If nothing fits, tensors come and go with each kernel, which always does. */
#include "base/assert.h"
#include "base/error.h"
#include "base/host.h"
#include "base/math.h"
#include "planning/swap_choose.h"
#include "planning/swap_cycle.h"
#include "planning/swap_emit.h"
#include "planning/swap_layout.h"
#include "planning/swap_replay.h"
#include "planning/swap_tier.h"
#include "planning/swap_tiers.h"
#include "planning/swap_timing.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define GRAIN_COUNT         2u /* whole tensors, parts */
#define CHOOSE_STEP_COUNT   4u
#define REPLAY_STEP_COUNT   8u
#define CANDIDATE_COUNT_MAX 2u  /* variants of a grain that are given addresses */
#define SPLIT_ROUND_MAX     6u  /* layouts that are tried for one capacity */
#define LAYOUT_COUNT_MAX    40u /* of a grain, once there is a plan */
#define CAPACITY_PARTS      64u
#define DELAY_PARTS         2u /* how far copies in are delayed, in halves */

struct dao_swap_plan {
    dao_swap_program_t program;
    uint32_t kernel_count;
    uint64_t *kernel_times_ns;
    dao_swap_tier_t host, file;
};

static const dao_swap_variant_t variants[] = {
    {.choice_count = 1, .lead_kernels = 0},
    {.choice_count = 1, .lead_kernels = 4},
    {.choice_count = 1, .lead_kernels = 32},
    {.choice_count = 1, .lead_kernels = UINT32_MAX},
    {.choice_count = 64, .lead_kernels = 0},
    {.choice_count = 64, .lead_kernels = 4},
    {.choice_count = 64, .lead_kernels = 32},
    {.choice_count = 64, .lead_kernels = UINT32_MAX},
    {.choice_count = UINT32_MAX, .lead_kernels = 0},
    {.choice_count = UINT32_MAX, .lead_kernels = 4},
    {.choice_count = UINT32_MAX, .lead_kernels = 32},
    {.choice_count = UINT32_MAX, .lead_kernels = UINT32_MAX},
};

#define VARIANT_COUNT (sizeof(variants) / sizeof(variants[0]))

/* A grain with what its variants are worked out in. */
typedef struct grain {
    dao_swap_parts_t parts;
    dao_swap_gap_t *gaps;
    dao_swap_timing_t timing;
    dao_swap_timing_t early; /* without the delay of copies in */
} grain_t;

/* A variant that was timed. */
typedef struct candidate {
    grain_t *grain;
    uint32_t variant;
    uint64_t step_ns;
} candidate_t;

typedef struct search {
    const dao_swap_step_t *step;
    uint64_t capacity_bytes, least_bytes;
    grain_t grains[GRAIN_COUNT];
    uint32_t grain_count;
    candidate_t candidates[GRAIN_COUNT * VARIANT_COUNT];
    uint32_t candidate_count;
    uint64_t fluid_step_ns;
    uint32_t layout_count; /* that were tried for the grain */
    dao_swap_tried_t tried;
    dao_swap_program_t best;
    bool has_best;
} search_t;

static dao_status_t grain_init(grain_t *grain, const dao_swap_step_t *step, uint64_t part_bytes)
{
    *grain = (grain_t){0};
    dao_status_t status = dao_swap_parts_init(&grain->parts, step, part_bytes);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_swap_timing_init(&grain->timing, &grain->parts);
    status = status == DAO_OK ? dao_swap_timing_init(&grain->early, &grain->parts) : status;
    grain->gaps = dao_host_calloc((size_t)grain->parts.gap_count + 1, sizeof(*grain->gaps));
    if (status == DAO_OK && grain->gaps == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to plan the swaps of a step");
    }
    return status;
}

static void grain_finish(grain_t *grain)
{
    dao_swap_timing_finish(&grain->timing);
    dao_swap_timing_finish(&grain->early);
    dao_host_free(grain->gaps);
    dao_swap_parts_finish(&grain->parts);
}

static uint64_t part_size(const dao_swap_step_t *step, const dao_swap_plan_config_t *config)
{
    uint64_t size = config->part_bytes;
    if (size == 0) {
        size = step->problem->capacity_bytes / CAPACITY_PARTS;
        size = size < DAO_SWAP_PART_BYTES_MIN ? DAO_SWAP_PART_BYTES_MIN : size;
    }
    return dao_round_up(size, step->alignment_bytes);
}

static dao_status_t search_init(search_t *search, const dao_swap_step_t *step,
                                const dao_swap_plan_config_t *config)
{
    dao_status_t status = DAO_OK;
    *search = (search_t){
        .step = step, .capacity_bytes = step->problem->capacity_bytes, .fluid_step_ns = UINT64_MAX};
    search->least_bytes = step->kernel_bytes[dao_swap_step_largest_kernel(step)];
    if (config->grain != DAO_SWAP_GRAIN_PARTS) {
        status = grain_init(&search->grains[search->grain_count++], step, 0);
    }
    if (config->grain != DAO_SWAP_GRAIN_WHOLE && status == DAO_OK) {
        status = grain_init(&search->grains[search->grain_count++], step, part_size(step, config));
    }
    return status;
}

static void search_finish(search_t *search)
{
    for (uint32_t i = 0; i < search->grain_count; i++) {
        grain_finish(&search->grains[i]);
    }
    dao_swap_program_finish(&search->best);
}

/* Works a variant out for a capacity, into its grain. */
static dao_status_t time_variant(grain_t *grain, uint32_t variant, uint64_t capacity_bytes)
{
    uint64_t step_ns;
    dao_status_t status = dao_swap_choose(&grain->parts, capacity_bytes, &variants[variant],
                                          CHOOSE_STEP_COUNT, grain->gaps, &step_ns);
    status = status == DAO_OK ? dao_swap_cycle(&grain->parts, capacity_bytes, grain->gaps) : status;
    status = status == DAO_OK ? dao_swap_tiers(&grain->parts, grain->gaps) : status;
    return status == DAO_OK ? dao_swap_time(&grain->parts, capacity_bytes, grain->gaps, &grain->timing)
                            : status;
}

static int compare_candidates(const void *left, const void *right)
{
    const candidate_t *a = left, *b = right;
    if (a->step_ns != b->step_ns) {
        return a->step_ns < b->step_ns ? -1 : 1;
    }
    return a->variant < b->variant ? -1 : a->variant > b->variant;
}

/* Times all variants as if memory had no addresses. Variants that need more of the slower tiers than they hold drop out. */
static dao_status_t time_variants(search_t *search)
{
    dao_status_t status = DAO_OK, refused = DAO_OK;
    for (uint32_t g = 0; g < search->grain_count; g++) {
        for (uint32_t v = 0; v < VARIANT_COUNT && status == DAO_OK; v++) {
            grain_t *grain = &search->grains[g];
            status = time_variant(grain, v, search->capacity_bytes);
            if (status == DAO_ERR_HOST_FULL) {
                refused = status;
                status = DAO_OK;
                continue;
            }
            search->candidates[search->candidate_count++] = (candidate_t){grain, v, grain->timing.step_ns};
        }
    }
    if (status != DAO_OK || search->candidate_count == 0) {
        return status != DAO_OK ? status : refused;
    }
    qsort(search->candidates, search->candidate_count, sizeof(*search->candidates), compare_candidates);
    search->fluid_step_ns = search->candidates[0].step_ns;
    return DAO_OK;
}

/* Writes a plan down, and keeps it in place of the one before: the caller knows that it is as good. */
static dao_status_t keep(search_t *search, const grain_t *grain, const dao_swap_layout_t *layout)
{
    dao_swap_program_t program;
    dao_status_t status = dao_swap_emit(&grain->parts, grain->gaps, &grain->timing, layout, &program);
    if (status != DAO_OK) {
        return status;
    }
    program.schedule.part_bytes = grain->parts.part_bytes;
    program.schedule.step_ns = grain->timing.step_ns;
    dao_swap_program_finish(&search->best);
    search->best = program;
    search->has_best = true;
    return DAO_OK;
}

/* Finds addresses for a variant whose copies in are delayed by `delay` of DELAY_PARTS. */
static dao_status_t place_delayed(const search_t *search, grain_t *grain, uint32_t delay,
                                  dao_swap_tried_t *tried, dao_swap_layout_t *layout)
{
    dao_swap_timing_copy(&grain->timing, &grain->early, &grain->parts);
    dao_status_t status = dao_swap_delay(&grain->parts, grain->gaps, delay, DELAY_PARTS, &grain->timing);
    return status == DAO_OK ? dao_swap_layout_init(layout, &grain->parts, grain->gaps, &grain->timing,
                                                   search->capacity_bytes, tried)
                            : status;
}

/* The touch in a home behind which the tensor stays longest; DAO_SWAP_NONE if it stays nowhere. */
static uint32_t longest_stay(const grain_t *grain, const dao_swap_layout_t *layout, uint32_t home)
{
    const dao_swap_step_t *step = grain->parts.step;
    uint32_t touch = layout->homes[home].first_touch, longest = DAO_SWAP_NONE;
    do {
        const dao_swap_touch_t *one = &step->touches[touch];
        bool stays =
            !dao_swap_is_absent(one, &grain->gaps[grain->parts.first_gap[touch]]) && one->gap_length > 1;
        if (stays && (longest == DAO_SWAP_NONE || one->gap_length > step->touches[longest].gap_length)) {
            longest = touch;
        }
        touch = one->next;
    } while (layout->home_of[touch] == home && touch != layout->homes[home].first_touch);
    return longest;
}

/* The touch behind which a tensor stays over the kernel of a home that nothing can shorten: one that is as large, else the
   largest, and of those the one that comes back last. DAO_SWAP_NONE if nothing stays over it. */
static uint32_t best_blocker(const grain_t *grain, const dao_swap_home_t *home)
{
    const dao_swap_step_t *step = grain->parts.step;
    uint32_t n = step->kernel_count, kernel = step->touches[home->first_touch].kernel, best = DAO_SWAP_NONE,
             best_left = 0;
    uint64_t needed = step->size_bytes[home->tensor], best_size = 0;
    for (uint32_t t = 0; t < step->touch_count; t++) {
        const dao_swap_touch_t *one = &step->touches[t];
        uint32_t since = kernel >= one->kernel ? kernel - one->kernel : kernel + n - one->kernel;
        uint64_t size = step->size_bytes[one->tensor] < needed ? step->size_bytes[one->tensor] : needed;
        if (since == 0 || since >= one->gap_length ||
            dao_swap_is_absent(one, &grain->gaps[grain->parts.first_gap[t]])) {
            continue;
        }
        uint32_t left = one->gap_length - since;
        if (size > best_size || (size == best_size && left > best_left)) {
            best = t;
            best_size = size;
            best_left = left;
        }
    }
    return best;
}

/* Lets tensors whose homes did not fit leave where they stay longest, or one that is in their way. False if none can. */
static bool split_homes(grain_t *grain, const dao_swap_layout_t *layout)
{
    dao_swap_cancel_t *cancel = grain->parts.step->cancel;
    bool is_split = false;
    for (uint32_t home = 0; home < layout->home_count && !dao_swap_is_cancelled(cancel); home++) {
        if (layout->homes[home].address_bytes != DAO_SWAP_NOWHERE) {
            continue;
        }
        uint32_t touch = longest_stay(grain, layout, home);
        touch = touch != DAO_SWAP_NONE ? touch : best_blocker(grain, &layout->homes[home]);
        if (touch == DAO_SWAP_NONE) {
            continue;
        }
        for (uint32_t g = grain->parts.first_gap[touch]; g < grain->parts.first_gap[touch + 1]; g++) {
            grain->gaps[g] = grain->gaps[g].is_away ? grain->gaps[g] : (dao_swap_gap_t){.is_away = true};
        }
        is_split = true;
    }
    return is_split;
}

/* Keeps the plan that was placed, and those of the same variant with less delay that fit too. */
static dao_status_t keep_earliest(search_t *search, grain_t *grain, const dao_swap_layout_t *layout)
{
    dao_status_t status = keep(search, grain, layout);
    bool fits = true;
    for (uint32_t delay = DELAY_PARTS; delay-- > 0 && fits && status == DAO_OK;) {
        dao_swap_layout_t earlier = {0};
        status = place_delayed(search, grain, delay, NULL, &earlier);
        fits = status == DAO_OK && earlier.unplaced_count == 0;
        status = fits ? keep(search, grain, &earlier) : status;
        dao_swap_layout_finish(&earlier);
    }
    return status;
}

/* Whether what was timed may still better the plan. */
static bool may_go_on(const search_t *search, const grain_t *grain)
{
    return !search->has_best ||
           (search->layout_count < LAYOUT_COUNT_MAX && grain->timing.step_ns < search->best.schedule.step_ns);
}

/* Looks for addresses for what was timed, with all copies in as late as they may be. Keeps a plan that fits; else the homes
   that did not fit are in `layout`, which the caller finishes. */
static dao_status_t place_once(search_t *search, grain_t *grain, dao_swap_tried_t *tried,
                               dao_swap_layout_t *layout)
{
    dao_swap_timing_copy(&grain->early, &grain->timing, &grain->parts);
    dao_status_t status = place_delayed(search, grain, DELAY_PARTS, tried, layout);
    search->layout_count += layout->is_repeated ? 0 : 1;
    return status == DAO_OK && layout->unplaced_count == 0 ? keep_earliest(search, grain, layout) : status;
}

/* The same, and where it does not fit, again with further tensors away. What was tried before ends it. */
static dao_status_t place(search_t *search, grain_t *grain, uint64_t capacity_bytes)
{
    dao_status_t status = DAO_OK;
    for (uint32_t round = 0; round < SPLIT_ROUND_MAX && status == DAO_OK && may_go_on(search, grain);
         round++) {
        dao_swap_layout_t layout = {0};
        status = place_once(search, grain, &search->tried, &layout);
        bool goes_on = status == DAO_OK && layout.unplaced_count > 0 && !layout.is_repeated &&
                       split_homes(grain, &layout);
        dao_swap_layout_finish(&layout);
        if (!goes_on) {
            break;
        }
        status = dao_swap_tiers(&grain->parts, grain->gaps);
        status = status == DAO_OK ? dao_swap_time(&grain->parts, capacity_bytes, grain->gaps, &grain->timing)
                                  : status;
    }
    return status;
}

/* Parts of the capacity with which variants are timed so that they get addresses. */
static const double shares[] = {1, 0.99, 0.978, 0.96, 0.935, 0.905, 0.865, 0.82, 0.76};

#define SHARE_COUNT (sizeof(shares) / sizeof(shares[0]))

static uint64_t share_bytes(const search_t *search, size_t share)
{
    uint64_t capacity_bytes = (uint64_t)((double)search->capacity_bytes * shares[share]);
    return capacity_bytes > search->least_bytes ? capacity_bytes : search->least_bytes;
}

/* Halves the shares for the largest one with which a variant gets addresses as it is. The plan that this finds keeps short what
   place_candidate() does. */
static dao_status_t place_early(search_t *search, const candidate_t *candidate)
{
    grain_t *grain = candidate->grain;
    dao_status_t status = DAO_OK;
    size_t low = 0, high = SHARE_COUNT;
    while (low < high && status == DAO_OK) {
        size_t middle = low + (high - low) / 2;
        status = time_variant(grain, candidate->variant, share_bytes(search, middle));
        bool is_as_good =
            !search->has_best || grain->timing.step_ns <= search->best.schedule.step_ns; /* and moves less */
        bool fits = false;
        if (status == DAO_OK && is_as_good) {
            dao_swap_layout_t layout = {0};
            status = place_once(search, grain, NULL, &layout);
            fits = layout.unplaced_count == 0;
            dao_swap_layout_finish(&layout);
        }
        high = is_as_good && !fits ? high : middle; /* with even less it is not quicker */
        low = is_as_good && !fits ? middle + 1 : low;
    }
    return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
}

/* Gives a variant addresses, with less and less of the capacity, as long as that may better the plan. */
static dao_status_t place_candidate(search_t *search, const candidate_t *candidate)
{
    grain_t *grain = candidate->grain;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < SHARE_COUNT && status == DAO_OK; i++) {
        uint64_t capacity_bytes = share_bytes(search, i);
        if (i > 0 && capacity_bytes == share_bytes(search, i - 1)) {
            break; /* no less would do */
        }
        status = time_variant(grain, candidate->variant, capacity_bytes);
        if (status != DAO_OK || !may_go_on(search, grain)) {
            break;
        }
        status = place(search, grain, capacity_bytes);
    }
    return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
}

/* Lets tensors come and go with each kernel. */
static dao_status_t place_serially(search_t *search)
{
    grain_t grain;
    dao_swap_layout_t layout = {0};
    dao_status_t status = grain_init(&grain, search->step, 0);
    if (status == DAO_OK) {
        for (uint32_t t = 0; t < search->step->touch_count; t++) {
            grain.gaps[t] = (dao_swap_gap_t){.is_away = search->step->touches[t].gap_is_live};
        }
        status = dao_swap_tiers(&grain.parts, grain.gaps);
        status = status == DAO_OK ? dao_swap_time_serial(&grain.parts, grain.gaps, &grain.timing) : status;
        status = status == DAO_OK ? dao_swap_layout_init_serial(&layout, search->step) : status;
        status = status == DAO_OK ? keep(search, &grain, &layout) : status;
        dao_swap_layout_finish(&layout);
    }
    grain_finish(&grain);
    return status;
}

/* Gives the quickest variants of a grain addresses: which grain is better with them, their times without do not tell. */
static dao_status_t place_grain(search_t *search, const grain_t *grain)
{
    dao_status_t status = DAO_OK;
    uint32_t count = 0;
    search->layout_count = 0;
    for (uint32_t i = 0; i < search->candidate_count && count < CANDIDATE_COUNT_MAX && status == DAO_OK;
         i++) {
        if (search->candidates[i].grain != grain) {
            continue;
        }
        status = count++ == 0 ? place_early(search, &search->candidates[i]) : status;
        status = status == DAO_OK ? place_candidate(search, &search->candidates[i]) : status;
    }
    return status;
}

static dao_status_t run_search(search_t *search)
{
    dao_status_t status = time_variants(search);
    for (uint32_t i = 0; i < search->grain_count && status == DAO_OK; i++) {
        status = place_grain(search, &search->grains[i]);
    }
    return status == DAO_OK && !search->has_best ? place_serially(search) : status;
}

/* How a plan is played with its own times. */
static dao_swap_play_t play_of(const dao_swap_plan_t *plan)
{
    return (dao_swap_play_t){
        .schedule = &plan->program.schedule,
        .kernel_count = plan->kernel_count,
        .step_count = REPLAY_STEP_COUNT,
        .kernel_times_ns = plan->kernel_times_ns,
        .host = &plan->host,
        .file = &plan->file,
    };
}

/* Says of a plan what its steps take, by its fences. */
static dao_status_t measure_plan(const dao_swap_step_t *step, dao_swap_plan_t *plan)
{
    dao_swap_play_t play = play_of(plan);
    dao_swap_replay_t replay;
    play.cancel = step->cancel;
    bool ends = dao_swap_replay(&play, &replay);
    if (!ends) {
        DAO_ASSERT(dao_swap_is_cancelled(step->cancel));
        return dao_swap_step_give_up(step);
    }
    plan->program.schedule.step_ns = replay.step_ns;
    return DAO_OK;
}

/* Makes a plan of the best program, and measures it by its fences, with the links of `problem`. */
static dao_status_t finish_plan(search_t *search, const dao_swap_problem_t *problem, dao_swap_plan_t *plan)
{
    plan->kernel_count = problem->kernel_count;
    plan->kernel_times_ns = dao_host_calloc(problem->kernel_count, sizeof(*plan->kernel_times_ns));
    if (plan->kernel_times_ns == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        plan->kernel_times_ns[k] = problem->kernels[k].time_ns;
    }
    plan->host = problem->host;
    plan->file = problem->file;
    plan->program = search->best;
    search->best = (dao_swap_program_t){0};
    dao_swap_schedule_t *schedule = &plan->program.schedule;
    schedule->fluid_step_ns = search->fluid_step_ns;
    return measure_plan(search->step, plan);
}

/* Searches with the links of `planned`, for those of `problem`. */
static dao_status_t make_plan(const dao_swap_problem_t *problem, const dao_swap_problem_t *planned,
                              const dao_swap_plan_config_t *config, dao_swap_plan_t **out_plan)
{
    dao_swap_cancel_t cancel = {.is_cancelled = config->is_cancelled, .user = config->cancel_user};
    dao_swap_step_t step;
    dao_status_t status = dao_swap_step_init(&step, planned);
    if (status != DAO_OK) {
        return status;
    }
    dao_swap_plan_t *plan = NULL;
    step.cancel = &cancel;
    status = dao_swap_step_check_capacity(&step, planned->capacity_bytes);
    if (status == DAO_OK) {
        search_t search;
        status = search_init(&search, &step, config);
        status = status == DAO_OK ? run_search(&search) : status;
        if (status == DAO_OK && (plan = dao_host_calloc(1, sizeof(*plan))) == NULL) {
            status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
        }
        status = status == DAO_OK ? finish_plan(&search, problem, plan) : status;
        search_finish(&search);
    }
    dao_swap_step_finish(&step);
    if (status != DAO_OK) {
        dao_swap_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

/* A tier as if its directions did not mind each other. */
static dao_swap_tier_t apart(const dao_swap_tier_t *tier)
{
    dao_swap_tier_t alone = *tier;
    alone.in_bytes_per_s = dao_swap_speed(tier, true);
    alone.out_bytes_per_s = dao_swap_speed(tier, false);
    alone.shared_bytes_per_s = 0;
    return alone;
}

/* Where directions share a link, copies beside each other each get a part of it, whichever is more urgent; the calendars let the
   later one wait for the earlier one. Where few copies meet, a plan that does not look at that is better: the quicker one is
   kept. */
static dao_status_t better_apart(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config,
                                 dao_swap_plan_t **plan)
{
    dao_swap_problem_t planned = *problem;
    dao_swap_plan_t *other = NULL;
    planned.host = apart(&problem->host);
    planned.file = apart(&problem->file);
    dao_status_t status = make_plan(problem, &planned, config, &other);
    if (status != DAO_OK) {
        return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
    }
    if (other->program.schedule.step_ns < (*plan)->program.schedule.step_ns) {
        other->program.schedule.fluid_step_ns = (*plan)->program.schedule.fluid_step_ns;
        dao_swap_plan_t *slower = *plan;
        *plan = other;
        other = slower;
    }
    dao_swap_plan_destroy(other);
    return DAO_OK;
}

static dao_status_t check_config(const dao_swap_plan_config_t *config)
{
    if (config->grain < DAO_SWAP_GRAIN_BEST || config->grain > DAO_SWAP_GRAIN_PARTS) {
        return dao_error(DAO_ERR_INVALID, "there is no grain %d", (int)config->grain);
    }
    if (config->part_bytes > DAO_SWAP_SIZE_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "parts of %" PRIu64 " bytes: at most %" PRIu64, config->part_bytes,
                         DAO_SWAP_SIZE_MAX);
    }
    return DAO_OK;
}

dao_status_t dao_swap_plan_make(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config,
                                dao_swap_plan_t **out_plan)
{
    static const dao_swap_plan_config_t defaults = {0};
    if (problem == NULL || out_plan == NULL) {
        return dao_error(DAO_ERR_INVALID, "the problem or the place for its plan is NULL");
    }
    dao_swap_plan_t *plan = NULL;
    config = config != NULL ? config : &defaults;
    dao_status_t status = check_config(config);
    status = status == DAO_OK ? make_plan(problem, problem, config, &plan) : status;
    if (status == DAO_OK && (dao_swap_is_shared(&problem->host) || dao_swap_is_shared(&problem->file))) {
        status = better_apart(problem, config, &plan);
    }
    if (status != DAO_OK) {
        dao_swap_plan_destroy(plan);
        return status;
    }
    *out_plan = plan;
    return DAO_OK;
}

void dao_swap_plan_destroy(dao_swap_plan_t *plan)
{
    if (plan != NULL) {
        dao_swap_program_finish(&plan->program);
        dao_host_free(plan->kernel_times_ns);
        dao_host_free(plan);
    }
}

const dao_swap_schedule_t *dao_swap_plan_schedule(const dao_swap_plan_t *plan)
{
    return plan != NULL ? &plan->program.schedule : NULL;
}

/* A tier that stands in for the plan's own has to be of its kind. */
static dao_status_t check_tier(const char *name, const dao_swap_tier_t *tier, const dao_swap_tier_t *own)
{
    if (tier != NULL && tier->duplex != own->duplex) {
        return dao_error(DAO_ERR_INVALID, "%s tier: the plan is for duplex %d, not %d", name,
                         (int)own->duplex, (int)tier->duplex);
    }
    if (tier != NULL && own->in_bytes_per_s != 0 && tier->in_bytes_per_s == 0) {
        return dao_error(DAO_ERR_INVALID, "%s tier: its link has no speed", name);
    }
    return DAO_OK;
}

dao_status_t dao_swap_plan_replay(const dao_swap_plan_t *plan, const dao_swap_replay_config_t *config,
                                  dao_swap_replay_t *out_replay)
{
    static const dao_swap_replay_config_t defaults = {0};
    config = config != NULL ? config : &defaults;
    if (plan == NULL || out_replay == NULL || config->step_count == 1) {
        return dao_error(DAO_ERR_INVALID,
                         "the plan or the place for its time is NULL, or one step is to be played");
    }
    dao_status_t status = check_tier("host", config->host, &plan->host);
    status = status == DAO_OK ? check_tier("file", config->file, &plan->file) : status;
    if (status != DAO_OK) {
        return status;
    }
    dao_swap_play_t play = play_of(plan);
    play.step_count = config->step_count != 0 ? config->step_count : play.step_count;
    play.kernel_times_ns = config->kernel_times_ns != NULL ? config->kernel_times_ns : play.kernel_times_ns;
    play.has_all_times = config->kernel_times_ns != NULL;
    play.host = config->host != NULL ? config->host : play.host;
    play.file = config->file != NULL ? config->file : play.file;
    play.stalls = config->out_stalls;
    bool ends = dao_swap_replay(&play, out_replay);
    DAO_ASSERT(ends);
    return ends ? DAO_OK : dao_error(DAO_ERR_CORRUPT, "the plan's fences wait for each other");
}
