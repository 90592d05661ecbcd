/* SPDX-License-Identifier: Apache-2.0 */
/* Plans as a program has them: made by the search, timed by their fences, and replayed with other times and
   links. */
#include "planning/swap/swap_plan.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/step/swap_tier.h"
#include "planning/swap/swap_emit.h"
#include "planning/swap/times/swap_replay.h"

#include <inttypes.h>

#define REPLAY_STEP_COUNT 8u

/* Addresses that cost less than this part of a step cost little: what comes on demand waits for more, and to
   plan a step of 12,000 kernels that way, too, takes a fourth of the time of its search. */
#define LITTLE_PART 64u

struct dao_swap_plan {
    dao_swap_program_t program;
    uint32_t kernel_count;
    uint64_t *kernel_times_ns;
    uint32_t *kernel_streams; /* NULL: all kernels are on one compute stream */
    dao_swap_tier_t host, file;
    bool is_on_demand; /* see DAO_SWAP_FOUND_ON_DEMAND */
};

/* How a plan is played with its own times. */
static dao_swap_play_t play_of(const dao_swap_plan_t *plan)
{
    return (dao_swap_play_t){
        .schedule = &plan->program.schedule,
        .kernel_count = plan->kernel_count,
        .step_count = REPLAY_STEP_COUNT,
        .kernel_times_ns = plan->kernel_times_ns,
        .kernel_streams = plan->kernel_streams,
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
    if (!ends && dao_swap_is_cancelled(step->cancel)) {
        return dao_swap_step_give_up(step);
    }
    DAO_ASSERT(ends);
    if (!ends) {
        return dao_error(DAO_ERR_CORRUPT, "the plan's fences wait for each other");
    }
    dao_swap_schedule_t *schedule = &plan->program.schedule;
    schedule->step_ns = replay.step_ns;
    if (plan->kernel_streams != NULL) { /* the search had all begins in one order */
        schedule->fluid_step_ns = dao_smaller(schedule->fluid_step_ns, schedule->step_ns);
    }
    return DAO_OK;
}

/* A plan with the times and links of a problem, and no program yet. */
static dao_status_t plan_create(const dao_swap_problem_t *problem, dao_swap_plan_t **out_plan)
{
    dao_swap_plan_t *plan = dao_host_calloc(1, sizeof(*plan));
    size_t kernels = problem->kernel_count;
    bool has_streams = dao_swap_compute_stream_count(problem) > 1;
    if (plan == NULL ||
        (plan->kernel_times_ns = dao_host_calloc(kernels, sizeof(*plan->kernel_times_ns))) == NULL ||
        (has_streams &&
         (plan->kernel_streams = dao_host_calloc(kernels, sizeof(*plan->kernel_streams))) == NULL)) {
        dao_swap_plan_destroy(plan);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for a plan");
    }
    plan->kernel_count = problem->kernel_count;
    plan->host = problem->host;
    plan->file = problem->file;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        plan->kernel_times_ns[k] = problem->kernels[k].time_ns;
        if (has_streams) {
            plan->kernel_streams[k] = problem->kernels[k].stream;
        }
    }
    *out_plan = plan;
    return DAO_OK;
}

/* One way to search: what the machine is taken to be. */
typedef struct search_way {
    uint64_t page_bytes;  /* 0: no tensor lies in pages */
    uint32_t least_pages; /* tensors of so many pages and more do */
    bool is_apart;        /* directions that share a link do not mind each other */
    bool is_in_a_row;     /* kernels are timed one behind the other, whatever their streams */
} search_way_t;

#define WAY_COUNT_MAX 12u /* no pages or either of two kinds, each of the other two or not */

/* The searches that a plan is the best of. */
typedef struct search_series {
    const dao_swap_plan_config_t *config;
    dao_swap_cancel_t cancel;
    uint64_t work_end;
    search_way_t ways[WAY_COUNT_MAX];
    uint32_t way_count;
    dao_swap_ranking_t rankings[2][2]; /* of ways that are apart or not, in a row or not */
} search_series_t;

/* Plans with the links and pages of `planned`, for those of `problem`, by a search of a way with its ranking;
   on demand without one. NULL: no plan takes less than `known_ns`. */
static dao_status_t make_plan(const dao_swap_problem_t *problem, const dao_swap_problem_t *planned,
                              search_series_t *series, const search_way_t *way, uint64_t known_ns,
                              dao_swap_plan_t **out_plan)
{
    dao_swap_step_t step;
    dao_status_t status =
        dao_swap_step_init_paged(&step, planned, way != NULL ? way->least_pages : DAO_SWAP_PAGED_PAGES);
    if (status != DAO_OK) {
        return status;
    }
    dao_swap_plan_t *plan = NULL;
    dao_swap_found_t found = DAO_SWAP_FOUND_ON_DEMAND;
    step.cancel = &series->cancel;
    status = dao_swap_step_check_capacity(&step, planned->capacity_bytes);
    status = status == DAO_OK ? plan_create(problem, &plan) : status;
    if (status == DAO_OK && way != NULL) {
        step.runs_beside = !way->is_in_a_row && dao_swap_runs_beside(problem);
        status = dao_swap_search(&step, series->config, known_ns,
                                 &series->rankings[way->is_apart][way->is_in_a_row], &plan->program, &found);
    } else if (status == DAO_OK) {
        status = dao_swap_write_on_demand(&step, &plan->program);
    }
    bool is_found = status == DAO_OK && found != DAO_SWAP_FOUND_NONE;
    status = is_found ? measure_plan(&step, plan) : status;
    dao_swap_step_finish(&step);
    if (status != DAO_OK || !is_found) {
        dao_swap_plan_destroy(plan);
        return status;
    }
    plan->is_on_demand = found == DAO_SWAP_FOUND_ON_DEMAND;
    *out_plan = plan;
    return DAO_OK;
}

/* A tier as if its directions did not mind each other. */
static dao_swap_tier_t apart(const dao_swap_tier_t *tier)
{
    dao_swap_tier_t alone = *tier;
    alone.in_bytes_per_second = dao_swap_speed(tier, true);
    alone.out_bytes_per_second = dao_swap_speed(tier, false);
    alone.shared_bytes_per_second = 0;
    return alone;
}

static uint64_t step_ns_of(const dao_swap_plan_t *plan)
{
    return plan != NULL ? plan->program.schedule.step_ns : UINT64_MAX;
}

/* Makes a plan as if the problem were `planned`, and keeps the quicker one of it and the plan that is there.
   `way` as for make_plan(). Where kernels run beside each other a plan takes less than its search thinks, so
   that none is given up for that. */
static dao_status_t better_plan(const dao_swap_problem_t *problem, const dao_swap_problem_t *planned,
                                search_series_t *series, const search_way_t *way, dao_swap_plan_t **plan)
{
    dao_swap_plan_t *other = NULL;
    bool is_known = *plan != NULL && !(*plan)->is_on_demand && !dao_swap_runs_beside(problem);
    dao_status_t status =
        make_plan(problem, planned, series, way, is_known ? step_ns_of(*plan) : UINT64_MAX, &other);
    if (status != DAO_OK) {
        bool is_refused = status == DAO_ERR_HOST_FULL || status == DAO_ERR_KERNEL_TOO_LARGE;
        return is_refused && *plan != NULL ? DAO_OK : status;
    }
    if (step_ns_of(other) < step_ns_of(*plan)) {
        dao_swap_plan_t *slower = *plan;
        *plan = other;
        other = slower;
    }
    dao_swap_plan_destroy(other);
    return DAO_OK;
}

static bool is_shared(const dao_swap_problem_t *problem)
{
    return dao_swap_is_shared(&problem->host) || dao_swap_is_shared(&problem->file);
}

/* Searches one way. It shares the work that is left with those that are still to come. */
static dao_status_t search_way(const dao_swap_problem_t *problem, search_series_t *series, uint32_t index,
                               dao_swap_plan_t **plan)
{
    uint64_t work = series->cancel.work, left = dao_larger(series->work_end, work) - work;
    const search_way_t *way = &series->ways[index];
    dao_swap_problem_t planned = *problem;
    planned.page_bytes = way->page_bytes;
    if (way->is_apart) {
        planned.host = apart(&problem->host);
        planned.file = apart(&problem->file);
    }
    series->cancel.work_end = work + left / (series->way_count - index);
    return better_plan(problem, &planned, series, way, plan);
}

/* Says whether all that is alive at once has room, not in whole pages. */
static dao_status_t find_room(const dao_swap_problem_t *problem, bool *out_has_room)
{
    dao_swap_problem_t exact = *problem;
    exact.page_bytes = 0;
    dao_swap_step_t step;
    dao_status_t status = dao_swap_step_init(&step, &exact);
    if (status == DAO_OK) {
        *out_has_room = true;
        for (uint32_t k = 0; k < step.kernel_count; k++) {
            *out_has_room = *out_has_room && step.live_bytes[k] <= problem->capacity_bytes;
        }
        dao_swap_step_finish(&step);
    }
    return status;
}

static bool moves_nothing(const dao_swap_plan_t *plan)
{
    return plan != NULL && plan->program.schedule.in_bytes == 0 && plan->program.schedule.out_bytes == 0;
}

/* Counts the tensors that would lie in pages. */
static dao_status_t count_paged(const dao_swap_problem_t *problem, uint32_t least_pages, uint32_t *out_count)
{
    dao_swap_step_t step;
    dao_status_t status = dao_swap_step_init_paged(&step, problem, least_pages);
    if (status == DAO_OK) {
        *out_count = 0;
        for (uint32_t t = 0; t < step.tensor_count; t++) {
            *out_count += dao_swap_is_paged(&step, step.size_bytes[t]) ? 1 : 0;
        }
        dao_swap_step_finish(&step);
    }
    return status;
}

/* Adds the ways with pages from `least_pages` on, or without.

   Where directions share a link, copies beside each other each get a part of it, whichever is more urgent;
   the calendars let the later one wait for the earlier one. Where few copies meet, a plan that does not look
   at that is better. Where kernels run beside each other their begins are in one order, which costs some
   steps more than it spares to see kernels overlap. */
static void add_ways(const dao_swap_problem_t *problem, uint64_t page_bytes, uint32_t least_pages,
                     search_series_t *series)
{
    for (int is_apart = 0; is_apart <= (is_shared(problem) ? 1 : 0); is_apart++) {
        for (int is_in_a_row = 0; is_in_a_row <= (dao_swap_runs_beside(problem) ? 1 : 0); is_in_a_row++) {
            DAO_ASSERT(series->way_count < WAY_COUNT_MAX);
            series->ways[series->way_count++] =
                (search_way_t){page_bytes, least_pages, is_apart != 0, is_in_a_row != 0};
        }
    }
}

/* Adds the ways with small tensors in pages, too. They come last, with work of their own: the others find
   what they find without them. */
static void add_small_ways(const dao_swap_problem_t *problem, search_series_t *series)
{
    uint32_t others = series->way_count;
    add_ways(problem, problem->page_bytes, DAO_SWAP_PAGED_PAGES_LEAST, series);
    if (series->config->work_limit == 0 && others > 0) {
        series->work_end = series->work_end / others * series->way_count;
    }
}

/* Lists the ways to search. Static addresses come first where all has room, as whole pages may not have it.
   Else pages do, as a plan with them takes little more than its copies. Pages for small tensors, too, leave
   fewer holes and round more up: which of it costs less, the plans tell. */
static dao_status_t list_ways(const dao_swap_problem_t *problem, search_series_t *series, bool *out_has_room)
{
    dao_swap_addresses_t addresses = series->config->addresses;
    uint32_t large_count = 0, paged_count = 0;
    dao_status_t status = DAO_OK;
    if (problem->page_bytes != 0 &&
        (addresses == DAO_SWAP_ADDRESSES_BEST || addresses == DAO_SWAP_ADDRESSES_PAGES)) {
        status = count_paged(problem, DAO_SWAP_PAGED_PAGES, &large_count);
        status = status == DAO_OK ? count_paged(problem, DAO_SWAP_PAGED_PAGES_LEAST, &paged_count) : status;
    }
    addresses = paged_count > 0 ? addresses : DAO_SWAP_ADDRESSES_STATIC;
    if (status == DAO_OK && addresses == DAO_SWAP_ADDRESSES_BEST) {
        status = find_room(problem, out_has_room);
    }
    if (large_count > 0 && !*out_has_room) {
        add_ways(problem, problem->page_bytes, DAO_SWAP_PAGED_PAGES, series);
    }
    if (addresses != DAO_SWAP_ADDRESSES_PAGES) {
        add_ways(problem, 0, 0, series);
    }
    if (large_count > 0 && *out_has_room) {
        add_ways(problem, problem->page_bytes, DAO_SWAP_PAGED_PAGES, series);
    }
    if (status == DAO_OK && paged_count > large_count) {
        add_small_ways(problem, series);
    }
    return status;
}

/* Searches each way, and keeps the best plan. */
static dao_status_t best_plan(const dao_swap_problem_t *problem, search_series_t *series,
                              dao_swap_plan_t **plan)
{
    bool has_room = false;
    dao_status_t status = list_ways(problem, series, &has_room);
    bool is_final = status != DAO_OK;
    for (uint32_t i = 0; i < series->way_count && !is_final; i++) {
        if (series->ways[i].least_pages == DAO_SWAP_PAGED_PAGES_LEAST && *plan != NULL &&
            series->cancel.work >= series->work_end) {
            break; /* these come last: not every step of many kernels pays for one more search */
        }
        status = search_way(problem, series, i, plan);
        is_final = status == DAO_ERR_STOPPED || status == DAO_ERR_NO_HOST_MEMORY ||
                   (status == DAO_OK && has_room && moves_nothing(*plan));
    }
    return status;
}

/* Returns true if a plan takes about what its copies do: a search paid little for addresses. */
static bool pays_little_for_addresses(const dao_swap_plan_t *plan)
{
    const dao_swap_schedule_t *schedule = &plan->program.schedule;
    return schedule->step_ns <= schedule->fluid_step_ns + schedule->fluid_step_ns / LITTLE_PART;
}

/* Where what a search chose has found few addresses, what comes on demand may move less. */
static dao_status_t better_on_demand(const dao_swap_problem_t *problem, search_series_t *series,
                                     dao_swap_plan_t **plan)
{
    dao_swap_addresses_t addresses = series->config->addresses;
    bool may_be_better = series->config->granularity != DAO_SWAP_GRANULARITY_PARTS &&
                         (addresses == DAO_SWAP_ADDRESSES_BEST || addresses == DAO_SWAP_ADDRESSES_STATIC);
    if (*plan == NULL || (*plan)->is_on_demand || pays_little_for_addresses(*plan) || !may_be_better) {
        return DAO_OK;
    }
    uint64_t fluid_step_ns = (*plan)->program.schedule.fluid_step_ns;
    dao_swap_problem_t planned = *problem;
    planned.page_bytes = 0;
    dao_status_t status = better_plan(problem, &planned, series, NULL, plan);
    (*plan)->program.schedule.fluid_step_ns = fluid_step_ns;
    return status;
}

/* How much work a plan may take, and until when. */
static search_series_t begin_series(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config)
{
    return (search_series_t){
        .config = config,
        .work_end = dao_swap_work_limit(problem, config),
        .cancel = {.is_cancelled = config->is_cancelled,
                   .user = config->cancel_user,
                   .time_end_ns = config->time_limit_ns != 0
                                      ? dao_add_capped(dao_clock_ns(), config->time_limit_ns)
                                      : UINT64_MAX}};
}

static dao_status_t check_config(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config)
{
    if (config->granularity < DAO_SWAP_GRANULARITY_BEST || config->granularity > DAO_SWAP_GRANULARITY_PARTS) {
        return dao_error(DAO_ERR_INVALID, "there is no granularity %d", (int)config->granularity);
    }
    if (config->addresses < DAO_SWAP_ADDRESSES_BEST || config->addresses > DAO_SWAP_ADDRESSES_NONE) {
        return dao_error(DAO_ERR_INVALID, "there is no choice %d of addresses", (int)config->addresses);
    }
    if (config->addresses == DAO_SWAP_ADDRESSES_PAGES && problem->page_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "a plan with pages for a device without");
    }
    if (config->part_bytes > DAO_SWAP_SIZE_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "parts of %" PRIu64 " bytes: at most %" PRIu64, config->part_bytes,
                         DAO_SWAP_SIZE_MAX);
    }
    return DAO_OK;
}

dao_status_t dao_swap_plan_make_ranked(const dao_swap_problem_t *problem,
                                       const dao_swap_plan_config_t *config, dao_swap_ranking_t *ranking,
                                       dao_swap_plan_t **out_plan)
{
    static const dao_swap_plan_config_t defaults = {0};
    if (problem == NULL || out_plan == NULL) {
        return dao_error(DAO_ERR_INVALID, "the problem or the place for its plan is NULL");
    }
    dao_swap_plan_t *plan = NULL;
    config = config != NULL ? config : &defaults;
    dao_status_t status = check_config(problem, config);
    search_series_t series = begin_series(problem, config);
    series.rankings[0][0] = *ranking;
    status = status == DAO_OK ? best_plan(problem, &series, &plan) : status;
    status = status == DAO_OK ? better_on_demand(problem, &series, &plan) : status;
    if (status != DAO_OK) {
        dao_swap_plan_destroy(plan);
        return status;
    }
    *ranking = series.rankings[0][0];
    *out_plan = plan;
    return DAO_OK;
}

dao_status_t dao_swap_plan_make(const dao_swap_problem_t *problem, const dao_swap_plan_config_t *config,
                                dao_swap_plan_t **out_plan)
{
    dao_swap_ranking_t ranking = {0};
    return dao_swap_plan_make_ranked(problem, config, &ranking, out_plan);
}

void dao_swap_plan_destroy(dao_swap_plan_t *plan)
{
    if (plan != NULL) {
        dao_swap_program_finish(&plan->program);
        dao_host_free(plan->kernel_times_ns);
        dao_host_free(plan->kernel_streams);
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
    if (tier != NULL && own->in_bytes_per_second != 0 && tier->in_bytes_per_second == 0) {
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
