/* SPDX-License-Identifier: Apache-2.0 */
/* Variants are timed with the whole capacity first, as if memory had no addresses. Then the best of them get
   addresses:

       variant --choose--> victims --cycle--> the same in every step --tiers, time--> a step that repeats
          ^                                               ^                                  |
          | less capacity                                 |                                  v
          +----- nothing to split -------- split: more leaves  <------- not all ---------- layout
                                                                                             |
                                           emit: copies and fences  <-- all have addresses --+

   Holes between addresses cost a little more swapping. Addresses are searched for copies in that take their
   memory as late as they may. In the best plan copies are then moved earlier, as far as that still fits, for
   steps whose times vary. If nothing fits, tensors come and go with each kernel, which always fits.

   What holds: the best plan is the `kept_` half of its granularity and `kept_layout`, until it is written
   down at the end. */
#include "planning/swap/swap_search.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/addresses/swap_demand.h"
#include "planning/swap/addresses/swap_layout.h"
#include "planning/swap/bound/swap_bound.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/step/swap_fingerprint.h"
#include "planning/swap/swap_grain.h"
#include "planning/swap/swap_improve.h"
#include "planning/swap/victims/swap_split.h"
#include "planning/swap/victims/swap_spread.h"
#include "planning/swap/victims/swap_tiers.h"

#include <stdlib.h>
#include <string.h>

#define GRANULARITY_COUNT 2u                     /* whole tensors, parts */
#define IMPROVED          DAO_SWAP_VARIANT_COUNT /* the number of what variants were bettered to */
#define SLICE_COUNT       16u                    /* parts of the work with which less capacity is looked at */
#define SPLIT_ROUND_MAX   5u                     /* layouts that are tried for one capacity */
#define FAR_PART          0.15 /* what leaves out more of the capacity does not nearly fit */
#define THOROUGH_COUNT    5u   /* parts of the capacity with which layouts are thorough */
/* Work is for variants, for bettering them, PLACE_PHASES times as much for addresses, and the rest for
   bettering what has them. Without addresses there are the first two phases. */
#define PHASE_COUNT    8u
#define FLUID_PHASES   2u
#define PLACE_PHASES   4u
#define THOROUGH_PARTS 4u /* such a part of that for addresses may go into thorough layouts */
/* What an inactive period costs in a layout beside the search for offsets, in 10 ns. */
#define PLACE_WORK     16u
#define HOPELESS_PART  0.35 /* where more is left out, letting some more leave does not help */
#define CAPACITY_PARTS 64u
#define NS_PER_S       1e9
#define WIDEN_COUNT    6u /* capacities that a plan is timed with again */
#define DELAY_PARTS    2u /* how far copies in are delayed, in halves */

/* A variant that was timed. */
typedef struct candidate {
    dao_swap_grain_t *grain;
    uint32_t variant;
    uint64_t fingerprint; /* of what it decides with the whole capacity */
    uint64_t step_ns;
} candidate_t;

typedef struct plan_search {
    const dao_swap_step_t *step;
    uint64_t capacity_bytes, least_bytes;
    dao_swap_grain_t grains[GRANULARITY_COUNT];
    uint32_t grain_count;
    candidate_t candidates[GRANULARITY_COUNT * (DAO_SWAP_VARIANT_COUNT + 1)];
    uint32_t candidate_count;
    uint64_t fluid_step_ns;
    uint64_t bound_ns;   /* no step is shorter */
    uint64_t known_ns;   /* step of a plan that is there already: others have to be shorter */
    uint64_t phase_work; /* for a phase */
    uint64_t place_work; /* for the search for addresses */
    uint64_t place_end;  /* the work at which the search for addresses ends, once there is a plan */
    bool is_thorough;    /* whether layouts are */
    dao_swap_past_t past;
    dao_swap_grain_t *kept; /* NULL: there is no plan yet */
    uint64_t kept_bytes;    /* the capacity with which it is timed */
    uint64_t timed_bytes;   /* and that of what may take its place */
    dao_swap_layout_t kept_layout;
} plan_search_t;

/* The size of parts. A copy costs its latency, so that V bytes in parts of c take V / c latencies; and room
   for one part each is on its way in and out, so that about 2 c more have to move. With a latency of l bytes
   the sum V / c x l + 2 c is least at c = sqrt(V l / 2), here a power of two near it; the device is to hold
   CAPACITY_PARTS of them. */
static uint64_t part_size(const dao_swap_step_t *step, const dao_swap_plan_config_t *config,
                          const dao_swap_bound_t *bound)
{
    uint64_t size = config->part_bytes;
    if (size == 0) {
        const dao_swap_tier_t *host = &step->problem->host;
        double latency_bytes = (double)host->latency_ns * (double)host->in_bytes_per_second / NS_PER_S;
        double best_square = (double)bound->in_bytes * latency_bytes / 2;
        uint64_t most_bytes = step->problem->capacity_bytes / CAPACITY_PARTS;
        size = DAO_SWAP_PART_BYTES_MIN;
        while (2 * size <= most_bytes && (double)(2 * size) * (double)(2 * size) <= best_square) {
            size *= 2;
        }
    }
    return dao_round_up(size, dao_larger(step->alignment_bytes, step->page_bytes));
}

/* Into how many pieces the bound cuts the step. A search only ends by it once no better plan can be: weighing
   its windows is to take no more than the search itself. */
static uint32_t bound_cuts(uint64_t work)
{
    uint32_t cuts = DAO_SWAP_BOUND_CUT_LEAST;
    while (cuts < DAO_SWAP_CUT_MAX && (uint64_t)cuts * cuts < work) {
        cuts *= 2;
    }
    return cuts;
}

static dao_status_t search_init(plan_search_t *search, const dao_swap_step_t *step,
                                const dao_swap_plan_config_t *config, uint64_t known_ns)
{
    dao_status_t status = DAO_OK;
    *search = (plan_search_t){.step = step,
                              .capacity_bytes = step->problem->capacity_bytes,
                              .fluid_step_ns = UINT64_MAX,
                              .known_ns = known_ns};
    uint64_t done = step->cancel->work, work = dao_larger(step->cancel->work_end, done) - done;
    if (work > 0) {
        bool is_fluid = config->addresses == DAO_SWAP_ADDRESSES_NONE;
        search->phase_work = work / (is_fluid ? FLUID_PHASES : PHASE_COUNT);
        search->place_work = PLACE_PHASES * search->phase_work;
    }
    search->least_bytes = step->kernel_bytes[dao_swap_step_largest_kernel(step)];
    dao_swap_past_init(&search->past);
    search->past.work_end = search->place_work;
    dao_swap_bound_t bound;
    status = dao_swap_find_bound_cut(step->problem, bound_cuts(work), &bound);
    if (status != DAO_OK) {
        return status;
    }
    if (step->runs_beside) { /* that of kernels one behind the other is none */
        status = dao_swap_find_bound(step->problem, &bound);
        if (status != DAO_OK) {
            return status;
        }
    }
    search->bound_ns = bound.step_ns;
    if (config->granularity != DAO_SWAP_GRANULARITY_PARTS) {
        status = dao_swap_grain_init(&search->grains[search->grain_count++], step, 0);
    }
    if (config->granularity != DAO_SWAP_GRANULARITY_WHOLE && status == DAO_OK) {
        status = dao_swap_grain_init(&search->grains[search->grain_count++], step,
                                     part_size(step, config, &bound));
    }
    if (search->grain_count == GRANULARITY_COUNT &&
        search->grains[1].parts.count == search->grains[0].parts.count) {
        dao_swap_grain_finish(
            &search->grains[--search->grain_count]); /* every tensor is one part there, too */
    }
    return status;
}

static void search_finish(plan_search_t *search)
{
    for (uint32_t i = 0; i < search->grain_count; i++) {
        dao_swap_grain_finish(&search->grains[i]);
    }
    dao_swap_layout_finish(&search->kept_layout);
}

/* ---- variants ---- */

/* Betters what a grain was timed with, for a part of the work. */
static dao_status_t improve(const plan_search_t *search, dao_swap_grain_t *grain, uint64_t capacity_bytes,
                            uint32_t work_parts)
{
    const dao_swap_effort_t effort = {
        .work_end = dao_add_capped(dao_swap_work(search->step), search->phase_work / work_parts),
        .goal_ns = search->bound_ns};
    return dao_swap_improve(grain, capacity_bytes, &effort);
}

/* Works a variant out for a capacity, into its grain. What was improved for the whole capacity is made good
   for this one, and improved again. */
static dao_status_t time_variant(const plan_search_t *search, dao_swap_grain_t *grain, uint32_t variant,
                                 uint64_t capacity_bytes)
{
    dao_status_t status = DAO_OK;
    if (variant == IMPROVED) {
        memcpy(grain->decisions, grain->improved, grain->parts.inactive_count * sizeof(*grain->decisions));
    } else {
        status = dao_swap_grain_choose(grain, variant, capacity_bytes);
    }
    status =
        status == DAO_OK ? dao_swap_grain_time_choice(grain, capacity_bytes, variant != IMPROVED) : status;
    return status == DAO_OK && variant == IMPROVED && capacity_bytes < search->capacity_bytes
               ? improve(search, grain, capacity_bytes, SLICE_COUNT)
               : status;
}

static uint64_t fingerprint_choice(const dao_swap_grain_t *grain)
{
    uint64_t fingerprint = DAO_SWAP_FINGERPRINT_NONE;
    for (uint32_t g = 0; g < grain->parts.inactive_count; g++) {
        fingerprint = dao_swap_fingerprint_mix(fingerprint, grain->decisions[g].lead * UINT64_C(2) +
                                                                grain->decisions[g].is_away);
    }
    return fingerprint;
}

/* The candidate of the same granularity that decides the same; NULL if there is none. */
static const candidate_t *find_twin(const plan_search_t *search, const candidate_t *candidate)
{
    for (uint32_t i = search->candidate_count; i-- > 0;) {
        const candidate_t *other = &search->candidates[i];
        if (other->grain == candidate->grain && other->fingerprint == candidate->fingerprint) {
            return other;
        }
    }
    return NULL;
}

/* Times a variant as if memory had no addresses, unless one is known that decides the same. */
static dao_status_t add_candidate(plan_search_t *search, dao_swap_grain_t *grain, uint32_t variant)
{
    dao_status_t status = dao_swap_grain_choose(grain, variant, search->capacity_bytes);
    if (status != DAO_OK) {
        return status;
    }
    candidate_t candidate = {.grain = grain, .variant = variant, .fingerprint = fingerprint_choice(grain)};
    const candidate_t *twin = find_twin(search, &candidate);
    if (twin == NULL) {
        status = dao_swap_grain_time_choice(grain, search->capacity_bytes, true);
    }
    if (status == DAO_OK) {
        candidate.step_ns = twin != NULL ? twin->step_ns : grain->timing.step_ns;
        search->candidates[search->candidate_count++] = candidate;
    }
    return status;
}

static int compare_candidates(const void *left, const void *right)
{
    const candidate_t *a = left, *b = right;
    if (a->step_ns != b->step_ns) {
        return a->step_ns < b->step_ns ? -1 : 1;
    }
    return a->variant < b->variant ? -1 : a->variant > b->variant;
}

/* The granularity of a row; NULL: the search is for the other one. */
static dao_swap_grain_t *grain_of(plan_search_t *search, bool is_in_parts)
{
    for (uint32_t g = 0; g < search->grain_count; g++) {
        if ((search->grains[g].parts.part_bytes != 0) == is_in_parts) {
            return &search->grains[g];
        }
    }
    return NULL;
}

/* Times a variant that is to be tried, unless it needs more of the slower tiers than they hold. */
static dao_status_t try_variant(plan_search_t *search, dao_swap_grain_t *grain, uint32_t variant,
                                dao_status_t *refused)
{
    dao_status_t status = add_candidate(search, grain, variant);
    *refused = status == DAO_ERR_HOST_FULL ? status : *refused;
    return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
}

/* Times all variants for as long as there is work for them, and at least one of each granularity. */
static dao_status_t try_variants(plan_search_t *search, dao_status_t *refused)
{
    bool is_streamed;
    dao_status_t status = dao_swap_is_streamed(search->step, &is_streamed);
    uint64_t work_end = dao_add_capped(dao_swap_work(search->step), search->phase_work);
    for (uint32_t v = 0; v < DAO_SWAP_VARIANT_COUNT && status == DAO_OK; v++) {
        bool is_over = search->candidate_count > 0 && dao_swap_is_over(search->step, work_end);
        for (uint32_t g = 0; !is_over && g < search->grain_count && status == DAO_OK; g++) {
            status = is_streamed || !dao_swap_variant_streams(v)
                         ? try_variant(search, &search->grains[g], v, refused)
                         : DAO_OK;
        }
    }
    return status;
}

/* Writes down which variants of each granularity were the best. */
static void rank(const plan_search_t *search, dao_swap_ranking_t *ranking)
{
    uint32_t counts[GRANULARITY_COUNT] = {0};
    for (uint32_t i = 0; i < search->candidate_count; i++) {
        const candidate_t *candidate = &search->candidates[i];
        bool is_in_parts = candidate->grain->parts.part_bytes != 0;
        if (counts[is_in_parts]++ < DAO_SWAP_RANKED_MAX) {
            ranking->rows[ranking->count].variant = (uint8_t)candidate->variant;
            ranking->rows[ranking->count++].is_in_parts = is_in_parts;
        }
    }
}

/* Times variants as if memory had no addresses. */
static dao_status_t time_variants(plan_search_t *search, dao_swap_ranking_t *ranking)
{
    dao_status_t status = DAO_OK, refused = DAO_OK;
    for (uint32_t i = 0; i < ranking->count && status == DAO_OK; i++) {
        dao_swap_grain_t *grain = grain_of(search, ranking->rows[i].is_in_parts);
        status = grain != NULL ? try_variant(search, grain, ranking->rows[i].variant, &refused) : DAO_OK;
    }
    if (ranking->count == 0) {
        status = try_variants(search, &refused);
    }
    if (status != DAO_OK || search->candidate_count == 0) {
        return status != DAO_OK ? status : refused;
    }
    qsort(search->candidates, search->candidate_count, sizeof(*search->candidates), compare_candidates);
    if (ranking->count == 0) {
        rank(search, ranking);
    }
    return DAO_OK;
}

/* Betters the best variant of each granularity. */
static dao_status_t improve_variants(plan_search_t *search)
{
    dao_status_t status = DAO_OK;
    uint32_t count = search->candidate_count;
    for (uint32_t g = 0; g < search->grain_count && status == DAO_OK; g++) {
        dao_swap_grain_t *grain = &search->grains[g];
        uint32_t best = 0;
        while (best < count && search->candidates[best].grain != grain) {
            best++;
        }
        if (best == count || search->candidates[best].step_ns <= search->bound_ns) {
            continue;
        }
        status = time_variant(search, grain, search->candidates[best].variant, search->capacity_bytes);
        status =
            status == DAO_OK ? improve(search, grain, search->capacity_bytes, search->grain_count) : status;
        if (status == DAO_OK) {
            memcpy(grain->improved, grain->decisions,
                   grain->parts.inactive_count * sizeof(*grain->decisions));
            search->candidates[search->candidate_count++] =
                (candidate_t){.grain = grain, .variant = IMPROVED, .step_ns = grain->timing.step_ns};
        }
    }
    qsort(search->candidates, search->candidate_count, sizeof(*search->candidates), compare_candidates);
    search->fluid_step_ns = search->candidates[0].step_ns;
    DAO_ASSERT(search->fluid_step_ns >= search->bound_ns);
    return status;
}

/* ---- addresses ---- */

static uint64_t kept_step_ns(const plan_search_t *search)
{
    return search->kept != NULL ? search->kept->kept_timing.step_ns : search->known_ns;
}

/* Keeps what was timed with a capacity in place of the plan before. Takes the layout. */
static void keep(plan_search_t *search, dao_swap_grain_t *grain, uint64_t capacity_bytes,
                 dao_swap_layout_t *layout)
{
    DAO_ASSERT(layout->unplaced_count == 0 && layout->arena_bytes <= search->capacity_bytes);
    memcpy(grain->kept_decisions, grain->decisions, grain->parts.inactive_count * sizeof(*grain->decisions));
    dao_swap_timing_copy(&grain->kept_timing, &grain->timing, &grain->parts);
    dao_swap_layout_finish(&search->kept_layout);
    search->kept_layout = *layout;
    search->kept = grain;
    search->kept_bytes = capacity_bytes;
    *layout = (dao_swap_layout_t){0};
}

/* Looks for addresses for decisions with their times, with copies in delayed by `delay` of DELAY_PARTS, into
   `late`. */
static dao_status_t place_delayed(plan_search_t *search, dao_swap_grain_t *grain,
                                  const dao_swap_decision_t *decisions, const dao_swap_timing_t *timing,
                                  uint32_t delay, dao_swap_layout_t *layout)
{
    const dao_swap_step_t *step = search->step;
    uint64_t work_before = search->past.work;
    dao_swap_timing_copy(&grain->late, timing, &grain->parts);
    dao_status_t status = dao_swap_delay(&grain->parts, decisions, delay, DELAY_PARTS, &grain->late);
    status = status == DAO_OK
                 ? dao_swap_layout_init(layout, &grain->parts, decisions, &grain->late,
                                        search->capacity_bytes, search->is_thorough, &search->past)
                 : status;
    dao_swap_add_work(step, search->past.work - work_before + PLACE_WORK * grain->parts.inactive_count +
                                (step->page_bytes != 0 ? search->capacity_bytes / step->page_bytes : 0));
    return status;
}

/* Looks for addresses for what was timed with a capacity. A plan that fits is kept; else the residency
   intervals that did not fit are in `layout`, which the caller finishes. */
static dao_status_t place_once(plan_search_t *search, dao_swap_grain_t *grain, uint64_t capacity_bytes,
                               dao_swap_layout_t *layout, bool *out_fits)
{
    dao_status_t status = place_delayed(search, grain, grain->decisions, &grain->timing, DELAY_PARTS, layout);
    *out_fits = status == DAO_OK && layout->unplaced_count == 0;
    if (*out_fits) {
        keep(search, grain, capacity_bytes, layout);
    }
    return status;
}

/* Returns true if what takes so long may still better the plan, and there is work left to see to that. Until
   there is a plan it is looked for whatever that takes. */
static bool may_go_on(const plan_search_t *search, uint64_t step_ns)
{
    return kept_step_ns(search) == UINT64_MAX ||
           (step_ns < kept_step_ns(search) && !dao_swap_is_over(search->step, search->place_end));
}

/* Lets further tensors leave, those that did not fit or are in their way, until all fit. What was tried
   before ends it, what leaves out as much as the round before, and what is hopeless. Begins with the layout
   of what was timed, which the caller finishes. */
static dao_status_t place_rest(plan_search_t *search, dao_swap_grain_t *grain, uint64_t capacity_bytes,
                               dao_swap_layout_t *layout)
{
    dao_status_t status = DAO_OK;
    uint64_t before_bytes = UINT64_MAX;
    uint64_t most_bytes = (uint64_t)(HOPELESS_PART * (double)search->capacity_bytes);
    bool fits = false;
    for (uint32_t round = 1; round < SPLIT_ROUND_MAX && status == DAO_OK && !fits; round++) {
        if (layout->is_repeated || layout->unplaced_bytes == before_bytes ||
            layout->unplaced_bytes > most_bytes || !dao_swap_split(&grain->parts, layout, grain->decisions)) {
            break;
        }
        status = dao_swap_grain_time(grain, capacity_bytes);
        if (status != DAO_OK || !may_go_on(search, grain->timing.step_ns)) {
            break;
        }
        before_bytes = layout->unplaced_bytes;
        dao_swap_layout_finish(layout);
        status = place_once(search, grain, capacity_bytes, layout, &fits);
    }
    return status;
}

/* Parts of the capacity with which variants are timed so that they get addresses. */
static const double shares[] = {1, 0.99, 0.978, 0.96, 0.935, 0.905, 0.865, 0.82, 0.76};

#define SHARE_COUNT      (sizeof(shares) / sizeof(shares[0]))
#define HALF_SHARE_COUNT (2 * SHARE_COUNT - 1) /* with one between any two */

static uint64_t half_share_bytes(const plan_search_t *search, size_t half)
{
    double share = (shares[half / 2] + shares[(half + 1) / 2]) / 2;
    uint64_t capacity_bytes = (uint64_t)((double)search->capacity_bytes * share);
    return capacity_bytes > search->least_bytes ? capacity_bytes : search->least_bytes;
}

static uint64_t share_bytes(const plan_search_t *search, size_t share)
{
    return half_share_bytes(search, 2 * share);
}

/* Times a variant with a part of the capacity and looks for addresses. `out_is_small`: no less need be tried,
   as it fits, or as a plan that is there is quicker. */
static dao_status_t probe(plan_search_t *search, const candidate_t *candidate, uint64_t capacity_bytes,
                          dao_swap_layout_t *layout, bool *out_is_small)
{
    dao_status_t status = time_variant(search, candidate->grain, candidate->variant, capacity_bytes);
    *out_is_small = status == DAO_OK && candidate->grain->timing.step_ns > kept_step_ns(search);
    return status == DAO_OK && !*out_is_small
               ? place_once(search, candidate->grain, capacity_bytes, layout, out_is_small)
               : status;
}

/* A variant that was timed with one of the shares. */
typedef struct trial {
    uint64_t step_ns;               /* 0: it was not timed */
    dao_swap_decision_t *decisions; /* what was decided, if it did not get addresses; else NULL */
    dao_swap_layout_t layout;       /* which of its residency intervals did not fit */
} trial_t;

/* Remembers what was just probed, whose layout is in the trial if it does not fit. */
static dao_status_t remember(const dao_swap_grain_t *grain, trial_t *trial)
{
    size_t inactive_count = grain->parts.inactive_count;
    trial->step_ns = grain->timing.step_ns;
    if (trial->layout.residencies == NULL) {
        return DAO_OK;
    }
    if ((trial->decisions = dao_host_calloc(inactive_count + 1, sizeof(*trial->decisions))) == NULL) {
        return dao_swap_step_give_up(grain->parts.step);
    }
    memcpy(trial->decisions, grain->decisions, inactive_count * sizeof(*trial->decisions));
    return DAO_OK;
}

static void trial_finish(trial_t *trial)
{
    dao_host_free(trial->decisions);
    dao_swap_layout_finish(&trial->layout);
}

/* Looks for the largest share with which a variant gets addresses as it is. The whole capacity comes first;
   as long as the layouts of whole tensors nearly fit and there is work left, they are thorough and the next
   share follows; then the rest is halved. Parts have inactive periods, which the thorough methods do not
   know. The plan that this finds keeps short what place_candidate() does, which goes on with the layouts that
   did not fit. */
static dao_status_t place_early(plan_search_t *search, const candidate_t *candidate,
                                trial_t trials[SHARE_COUNT])
{
    search->past.thorough_end = dao_add_capped(search->past.work, search->place_work / THOROUGH_PARTS);
    dao_status_t status = DAO_OK;
    size_t low = 0, high = HALF_SHARE_COUNT;
    bool nearly_fits = candidate->grain->parts.part_bytes == 0;
    while (low < high && status == DAO_OK && may_go_on(search, 0)) {
        search->is_thorough =
            nearly_fits && low < THOROUGH_COUNT && search->past.work < search->past.thorough_end;
        size_t half = search->is_thorough || low == 0 ? low : low + (high - low) / 2;
        bool is_between = half % 2 != 0, is_small;
        trial_t between = {0}, *trial = is_between ? &between : &trials[half / 2];
        status = probe(search, candidate, half_share_bytes(search, half), &trial->layout, &is_small);
        status = status == DAO_OK && !is_between ? remember(candidate->grain, trial) : status;
        nearly_fits = search->is_thorough &&
                      (double)trial->layout.unplaced_bytes <= FAR_PART * (double)search->capacity_bytes;
        trial_finish(&between);
        high = is_small ? half : high;
        low = is_small ? low : half + 1;
    }
    search->is_thorough = false;
    return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
}

/* Finds addresses for a variant, with less and less of the capacity, as long as that may better the plan.
   `out_is_new`: it led to layouts that were not looked at before. */
static dao_status_t place_candidate(plan_search_t *search, const candidate_t *candidate,
                                    trial_t trials[SHARE_COUNT], bool *out_is_new)
{
    dao_swap_grain_t *grain = candidate->grain;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < SHARE_COUNT && status == DAO_OK; i++) {
        uint64_t capacity_bytes = share_bytes(search, i);
        trial_t *trial = &trials[i];
        if (i > 0 && capacity_bytes == share_bytes(search, i - 1)) {
            break; /* no less would do */
        }
        if (trial->step_ns == 0) {
            status = time_variant(search, grain, candidate->variant, capacity_bytes);
            trial->step_ns = grain->timing.step_ns;
        }
        if (status != DAO_OK || !may_go_on(search, trial->step_ns)) {
            break; /* also where it got addresses early: that is the plan, or a better one is */
        }
        bool fits = false;
        if (trial->decisions != NULL) {
            memcpy(grain->decisions, trial->decisions,
                   grain->parts.inactive_count * sizeof(*grain->decisions));
        } else {
            status = place_once(search, grain, capacity_bytes, &trial->layout, &fits);
        }
        *out_is_new = *out_is_new || !trial->layout.is_repeated;
        status =
            status == DAO_OK && !fits ? place_rest(search, grain, capacity_bytes, &trial->layout) : status;
    }
    return status == DAO_ERR_HOST_FULL ? DAO_OK : status;
}

/* Finds addresses for the quickest variants of a granularity, or for what they were bettered to: which
   granularity is better with them, their times without do not tell. */
static dao_status_t place_grain(plan_search_t *search, const dao_swap_grain_t *grain, bool is_improved)
{
    dao_status_t status = DAO_OK;
    uint32_t count = 0;
    for (uint32_t i = 0; i < search->candidate_count && count < DAO_SWAP_RANKED_MAX && status == DAO_OK;
         i++) {
        const candidate_t *candidate = &search->candidates[i];
        if (candidate->grain != grain || (candidate->variant == IMPROVED) != is_improved ||
            !may_go_on(search, candidate->step_ns)) {
            continue;
        }
        trial_t trials[SHARE_COUNT] = {0};
        bool is_new = false;
        status = count == 0 ? place_early(search, candidate, trials) : status;
        status = status == DAO_OK ? place_candidate(search, candidate, trials, &is_new) : status;
        count += is_new ? 1 : 0;
        for (size_t share = 0; share < SHARE_COUNT; share++) {
            trial_finish(&trials[share]);
        }
    }
    return status;
}

/* Returns true for what gets addresses as it is; keeps it if it is better than the plan. */
static dao_status_t place_change(void *user, dao_swap_grain_t *grain, bool *out_fits)
{
    plan_search_t *search = user;
    dao_swap_layout_t layout = {0};
    dao_status_t status =
        place_delayed(search, grain, grain->decisions, &grain->timing, DELAY_PARTS, &layout);
    *out_fits = status == DAO_OK && layout.unplaced_count == 0;
    if (*out_fits && grain->timing.step_ns < kept_step_ns(search)) {
        keep(search, grain, search->timed_bytes, &layout);
    }
    dao_swap_layout_finish(&layout);
    return status;
}

/* Times the plan's decisions with more of the capacity than was left to them: copies in begin earlier, as far
   as that gets addresses. */
static dao_status_t widen_kept(plan_search_t *search, dao_swap_grain_t *grain)
{
    dao_status_t status = DAO_OK;
    uint64_t low = search->kept_bytes, high = search->capacity_bytes;
    bool fits = true;
    for (uint32_t i = 0; i < WIDEN_COUNT && status == DAO_OK && low < high &&
                         !dao_swap_is_over(search->step, search->step->cancel->work_end);
         i++) {
        uint64_t capacity_bytes = i == 0 ? high : low + (high - low) / 2;
        memcpy(grain->decisions, grain->kept_decisions,
               grain->parts.inactive_count * sizeof(*grain->decisions));
        status = dao_swap_grain_time(grain, capacity_bytes);
        if (status == DAO_OK && grain->timing.step_ns < kept_step_ns(search)) {
            search->timed_bytes = capacity_bytes;
            status = place_change(search, grain, &fits);
        }
        low = fits ? capacity_bytes : low;
        high = fits ? high : capacity_bytes;
    }
    return status;
}

/* Betters the plan with its addresses: what was bettered before had none, and the plan has them as it left
   some of the capacity free, or let more leave. */
static dao_status_t improve_kept(plan_search_t *search)
{
    dao_swap_grain_t *grain = search->kept;
    if (grain == NULL || grain->kept_timing.step_ns <= search->bound_ns) {
        return DAO_OK;
    }
    dao_status_t status = widen_kept(search, grain);
    const dao_swap_effort_t effort = {.work_end = search->step->cancel->work_end,
                                      .goal_ns = search->bound_ns,
                                      .may_keep = place_change,
                                      .user = search};
    search->timed_bytes = search->kept_bytes;
    memcpy(grain->decisions, grain->kept_decisions, grain->parts.inactive_count * sizeof(*grain->decisions));
    dao_swap_timing_copy(&grain->timing, &grain->kept_timing, &grain->parts);
    return status == DAO_OK ? dao_swap_improve(grain, search->kept_bytes, &effort) : status;
}

/* ---- the end ---- */

static dao_status_t write_down(const dao_swap_grain_t *grain, const dao_swap_decision_t *decisions,
                               const dao_swap_timing_t *timing, const dao_swap_layout_t *layout,
                               dao_swap_program_t *out_program)
{
    dao_status_t status = dao_swap_emit(&grain->parts, decisions, timing, layout, out_program);
    if (status == DAO_OK) {
        out_program->schedule.part_bytes = grain->parts.part_bytes;
        out_program->schedule.step_ns = timing->step_ns;
    }
    return status;
}

/* Writes the kept plan down, with its copies in as early as that fits. */
static dao_status_t write_kept(plan_search_t *search, dao_swap_program_t *out_program)
{
    dao_swap_grain_t *grain = search->kept;
    dao_status_t status = DAO_OK;
    bool fits = false;
    for (uint32_t delay = 0; delay < DELAY_PARTS && !fits && status == DAO_OK; delay++) {
        dao_swap_layout_t layout = {0};
        status = place_delayed(search, grain, grain->kept_decisions, &grain->kept_timing, delay, &layout);
        fits = status == DAO_OK && layout.unplaced_count == 0;
        status = fits ? write_down(grain, grain->kept_decisions, &grain->late, &layout, out_program) : status;
        dao_swap_layout_finish(&layout);
    }
    if (fits || status != DAO_OK) {
        return status;
    }
    dao_swap_timing_copy(&grain->late, &grain->kept_timing, &grain->parts);
    status = dao_swap_delay(&grain->parts, grain->kept_decisions, DELAY_PARTS, DELAY_PARTS, &grain->late);
    return status == DAO_OK
               ? write_down(grain, grain->kept_decisions, &grain->late, &search->kept_layout, out_program)
               : status;
}

dao_status_t dao_swap_write_on_demand(const dao_swap_step_t *step, dao_swap_program_t *out_program)
{
    dao_swap_grain_t grain;
    dao_swap_layout_t layout = {0};
    dao_status_t status = dao_swap_grain_init(&grain, step, 0);
    if (status == DAO_OK) {
        status = dao_swap_demand(&grain.parts, step->problem->capacity_bytes, grain.decisions, &layout);
    }
    if (status == DAO_OK) {
        bool has_file = false;
        status = dao_swap_tiers(&grain.parts, DAO_SWAP_TIER_ORDER_LONG, grain.decisions, &has_file);
        if (status == DAO_ERR_HOST_FULL && has_file) {
            status = dao_swap_tiers(&grain.parts, DAO_SWAP_TIER_ORDER_SPREAD, grain.decisions, &has_file);
        }
        status =
            status == DAO_OK ? dao_swap_time_on_demand(&grain.parts, grain.decisions, &grain.timing) : status;
        status = status == DAO_OK ? write_down(&grain, grain.decisions, &grain.timing, &layout, out_program)
                                  : status;
        dao_swap_layout_finish(&layout);
    }
    dao_swap_grain_finish(&grain);
    return status;
}

/* Writes down the best of what was timed as if memory had no addresses: that is the plan, if it is better
   than the one that is known. Copies in begin halfway between the earliest and the latest time: early enough
   for kernels that vary, and late enough that memory which its owner's holes take is not always full. */
static dao_status_t write_fluid(plan_search_t *search, dao_swap_program_t *out_program,
                                dao_swap_found_t *out_found)
{
    const candidate_t *best = &search->candidates[0];
    *out_found = best->step_ns < search->known_ns ? DAO_SWAP_FOUND_PLAN : DAO_SWAP_FOUND_NONE;
    if (*out_found == DAO_SWAP_FOUND_NONE) {
        return DAO_OK;
    }
    dao_swap_grain_t *grain = best->grain;
    dao_status_t status = time_variant(search, grain, best->variant, search->capacity_bytes);
    status = status == DAO_OK
                 ? dao_swap_delay(&grain->parts, grain->decisions, 1, DELAY_PARTS, &grain->timing)
                 : status;
    return status == DAO_OK ? write_down(grain, grain->decisions, &grain->timing, NULL, out_program) : status;
}

/* Gives addresses to what was timed, and writes the best plan down. */
static dao_status_t write_placed(plan_search_t *search, dao_swap_program_t *out_program,
                                 dao_swap_found_t *out_found)
{
    dao_status_t status = DAO_OK;
    search->place_end = dao_add_capped(dao_swap_work(search->step), search->place_work);
    for (uint32_t i = 0; i < search->grain_count && status == DAO_OK; i++) {
        status = place_grain(search, &search->grains[i], true);
        status = status == DAO_OK ? place_grain(search, &search->grains[i], false) : status;
    }
    status = status == DAO_OK ? improve_kept(search) : status;
    *out_found = search->kept != NULL             ? DAO_SWAP_FOUND_PLAN
                 : search->known_ns == UINT64_MAX ? DAO_SWAP_FOUND_ON_DEMAND
                                                  : DAO_SWAP_FOUND_NONE;
    if (status != DAO_OK || *out_found == DAO_SWAP_FOUND_NONE) {
        return status;
    }
    return search->kept != NULL ? write_kept(search, out_program)
                                : dao_swap_write_on_demand(search->step, out_program);
}

uint64_t dao_swap_work_limit(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config)
{
    uint64_t kernels = problem->kernel_count;
    uint64_t usual = dao_larger(dao_smaller(DAO_SWAP_WORK_PER_KERNEL * kernels, DAO_SWAP_WORK_DEFAULT),
                                DAO_SWAP_WORK_LEAST * kernels);
    usual *= dao_swap_runs_beside(problem) ? 2 : 1; /* twice as many searches share it */
    return config->work_limit != 0 ? config->work_limit : usual;
}

dao_status_t dao_swap_search(const dao_swap_step_t *step, const dao_swap_plan_config_t *config,
                             uint64_t known_ns, dao_swap_ranking_t *ranking, dao_swap_program_t *out_program,
                             dao_swap_found_t *out_found)
{
    plan_search_t search;
    dao_status_t status = search_init(&search, step, config, known_ns);
    status = status == DAO_OK ? time_variants(&search, ranking) : status;
    status = status == DAO_OK ? improve_variants(&search) : status;
    if (status == DAO_OK) {
        status = config->addresses == DAO_SWAP_ADDRESSES_NONE ? write_fluid(&search, out_program, out_found)
                                                              : write_placed(&search, out_program, out_found);
        out_program->schedule.fluid_step_ns = search.fluid_step_ns;
    }
    search_finish(&search);
    return status;
}
