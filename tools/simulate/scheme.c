/* SPDX-License-Identifier: Apache-2.0 */
#include "tools/simulate/scheme.h"
#include "tools/simulate/forward_end.h"

#include "base/report/error.h"
#include "base/threads/sync.h"
#include "planning/recompute/published/recompute_baselines.h"
#include "planning/recompute/recompute_plan.h"
#include "planning/swap/step/swap_tier.h"

#include <dao/recompute.h>

#include <stdio.h>
#include <string.h>

static dao_status_t simulate(dao_policy_t policy, bool on_demand, const dao_scheme_input_t *input,
                             dao_scheme_run_t *out_run)
{
    dao_simulate_config_t config = {.policy = policy,
                                    .on_demand = on_demand,
                                    .step_count = input->step_count,
                                    .window_kernels = input->window_kernels,
                                    .in_flight_ns = input->in_flight_ns,
                                    .streams = input->streams,
                                    .trace = input->trace};
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes};
    return dao_simulate(input->problem, &config, &out_run->simulation);
}

/* The executor as it is by default, looking ahead. */
static dao_status_t run_online(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                               dao_scheme_run_t *out_run)
{
    return simulate((dao_policy_t)scheme->choice, false, input, out_run);
}

/* The executor that knows where steps begin and end. */
static dao_status_t simulate_steps(const dao_scheme_t *scheme, bool is_described,
                                   const dao_scheme_input_t *input, dao_scheme_run_t *out_run)
{
    dao_simulate_config_t config = {.policy = (dao_policy_t)scheme->choice,
                                    .learns = true,
                                    .is_described = is_described,
                                    .addresses = input->addresses,
                                    .step_count = input->step_count,
                                    .window_kernels = input->window_kernels,
                                    .in_flight_ns = input->in_flight_ns,
                                    .streams = input->streams,
                                    .trace = input->trace};
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes};
    return dao_simulate(input->problem, &config, &out_run->simulation);
}

/* The same, told where steps end: it plans them by itself. */
static dao_status_t run_learn(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                              dao_scheme_run_t *out_run)
{
    return simulate_steps(scheme, false, input, out_run);
}

/* The same, told the step before it runs. */
static dao_status_t run_described(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                  dao_scheme_run_t *out_run)
{
    return simulate_steps(scheme, true, input, out_run);
}

/* The executor fetches what a kernel needs when that is next. */
static dao_status_t run_on_demand(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                  dao_scheme_run_t *out_run)
{
    return simulate((dao_policy_t)scheme->choice, true, input, out_run);
}

/* A link that copies share at any time, of which virtual time has none: the plan's own time is exact. */
static dao_status_t replay_shared(const dao_swap_plan_t *plan, const dao_scheme_input_t *input,
                                  dao_simulation_t *out_simulation)
{
    const dao_swap_schedule_t *schedule = dao_swap_plan_schedule(plan);
    const dao_swap_replay_config_t config = {.step_count = input->step_count > 1 ? input->step_count : 2};
    dao_swap_replay_t replay;
    dao_status_t status = dao_swap_plan_replay(plan, &config, &replay);
    if (status != DAO_OK) {
        return status;
    }
    *out_simulation =
        (dao_simulation_t){.step_count = config.step_count,
                           .first_step_ns = replay.first_step_ns,
                           .step_ns = input->step_count > 1 ? replay.step_ns : replay.first_step_ns,
                           .in_bytes = schedule->in_bytes,
                           .out_bytes = schedule->out_bytes};
    for (uint32_t i = 0; i < input->problem->kernel_count; i++) {
        out_simulation->compute_ns += input->problem->kernels[i].time_ns;
    }
    return DAO_OK;
}

static dao_status_t play_plan(const dao_swap_plan_t *plan, const dao_scheme_input_t *input,
                              dao_simulation_t *out_simulation)
{
    return input->problem->host.shared_bytes_per_second != 0
               ? replay_shared(plan, input, out_simulation)
               : dao_simulate_plan(input->problem, dao_swap_plan_schedule(plan), input->step_count,
                                   out_simulation);
}

void dao_scheme_known_finish(dao_scheme_known_t *known)
{
    dao_swap_plan_destroy(known->plan);
    *known = (dao_scheme_known_t){0};
}

/* Keeps the quicker one of a plan that was played and of what is known, which is played in its place. Takes
   the plan. */
static dao_status_t keep_quicker(dao_swap_plan_t *plan, const dao_scheme_input_t *input,
                                 dao_simulation_t *simulation)
{
    dao_scheme_known_t *known = input->known;
    if (known->plan == NULL || simulation->step_ns <= known->step_ns) {
        dao_scheme_known_finish(known);
        *known = (dao_scheme_known_t){plan, simulation->step_ns};
        return DAO_OK;
    }
    dao_swap_plan_destroy(plan);
    dao_simulation_finish(simulation);
    return play_plan(known->plan, input, simulation);
}

/* The whole step is planned and the plan replayed. */
static dao_status_t run_plan(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                             dao_scheme_run_t *out_run)
{
    dao_swap_plan_config_t config = {.granularity = (dao_swap_granularity_t)scheme->choice,
                                     .addresses = input->addresses,
                                     .work_limit = input->plan_work,
                                     .is_cancelled = input->is_cancelled,
                                     .cancel_user = input->cancel_user};
    dao_swap_plan_t *plan = NULL;
    bool is_shared = input->problem->host.shared_bytes_per_second != 0;
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes};
    uint64_t begin_ns = dao_clock_ns();
    dao_status_t status = is_shared ? DAO_OK : dao_simulate_check(input->problem, input->step_count);
    status = status == DAO_OK ? dao_swap_plan_make(input->problem, &config, &plan) : status;
    out_run->plan_ns = dao_clock_ns() - begin_ns;
    status = status == DAO_OK ? play_plan(plan, input, &out_run->simulation) : status;
    if (status == DAO_OK && input->known != NULL) {
        return keep_quicker(plan, input, &out_run->simulation);
    }
    dao_swap_plan_destroy(plan);
    return status;
}

/* Replays a plan with kernels that run again; before, it is checked that each run reads what the first one of
   its kernel did. */
static dao_status_t play_again(const dao_swap_problem_t *problem, const dao_recompute_plan_t *plan,
                               uint32_t step_count, dao_scheme_run_t *out_run)
{
    const dao_recompute_step_t *step = dao_recompute_plan_step(plan);
    out_run->again_ns = step->again_ns;
    out_run->again_count = step->again_count;
    dao_status_t status = dao_recompute_check(problem, step);
    return status == DAO_OK ? dao_simulate_plan(&step->problem, dao_recompute_plan_schedule(plan), step_count,
                                                &out_run->simulation)
                            : status;
}

/* The same as run_plan() with kernels that run again. */
static dao_status_t run_recompute(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                  dao_scheme_run_t *out_run)
{
    dao_recompute_config_t config = {.mode = (dao_recompute_mode_t)scheme->choice,
                                     .try_count = input->try_count,
                                     .known_ns = input->known_ns,
                                     .on_progress = input->on_progress,
                                     .progress_user = input->progress_user,
                                     .swap = {.addresses = input->addresses,
                                              .work_limit = input->plan_work,
                                              .is_cancelled = input->is_cancelled,
                                              .cancel_user = input->cancel_user}};
    dao_recompute_plan_t *plan = NULL;
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes, .runs_again = true};
    uint64_t begin_ns = dao_clock_ns();
    dao_status_t status = dao_recompute_plan_make(input->problem, &config, &plan);
    out_run->plan_ns = dao_clock_ns() - begin_ns;
    status = status == DAO_OK ? play_again(input->problem, plan, input->step_count, out_run) : status;
    dao_recompute_plan_destroy(plan);
    return status;
}

static dao_status_t run_capuchin(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                 dao_scheme_run_t *out_run)
{
    const dao_swap_plan_config_t config = {.addresses = input->addresses, .work_limit = input->plan_work};
    dao_recompute_plan_t *plan = NULL;
    (void)scheme;
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes, .runs_again = true};
    uint64_t begin_ns = dao_clock_ns();
    dao_status_t status =
        dao_recompute_plan_published(input->problem, DAO_RECOMPUTE_CAPUCHIN, &config, &plan);
    out_run->plan_ns = dao_clock_ns() - begin_ns;
    status = status == DAO_OK ? play_again(input->problem, plan, input->step_count, out_run) : status;
    dao_recompute_plan_destroy(plan);
    return status;
}

/* What others run again, by sums of times alone. */
static dao_status_t run_baseline(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                 dao_scheme_run_t *out_run)
{
    dao_recompute_baseline_run_t run;
    dao_status_t status =
        dao_recompute_baseline(input->problem, (dao_recompute_baseline_t)scheme->choice, &run);
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes, .runs_again = true};
    if (status == DAO_OK) {
        out_run->again_ns = run.again_ns;
        out_run->again_count = run.again_count;
        out_run->simulation = (dao_simulation_t){
            .first_step_ns = run.step_ns, .step_ns = run.step_ns, .compute_ns = run.step_ns - run.again_ns};
    }
    return status;
}

static dao_status_t maps_config(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                                dao_swap_maps_config_t *out_config)
{
    const dao_swap_tier_t *host = &input->problem->host;
    if (host->limit_bytes != 0) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "maps that move by rule take what host memory they need: leave --host out");
    }
    *out_config = (dao_swap_maps_config_t){
        .mode = (dao_swap_maps_mode_t)scheme->choice,
        .threshold = input->threshold,
        .in_bytes_per_second = host->in_bytes_per_second,
        .out_bytes_per_second = dao_swap_out_speed(host),
        .latency_ns = host->latency_ns,
        .capacity_bytes = input->moves_all ? UINT64_MAX : input->problem->capacity_bytes,
    };
    return input->threshold == DAO_TRACE_NONE ? dao_forward_end_find(input->trace, &out_config->threshold)
                                              : DAO_OK;
}

/* Feature maps go and come by rule. */
static dao_status_t run_maps(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                             dao_scheme_run_t *out_run)
{
    dao_swap_maps_config_t config;
    dao_swap_maps_result_t result;
    *out_run = (dao_scheme_run_t){.capacity_bytes = input->problem->capacity_bytes};
    dao_status_t status = maps_config(scheme, input, &config);
    if (status == DAO_OK) {
        status = dao_swap_maps(input->trace, &config, &out_run->simulation, &result);
    }
    if (status != DAO_OK) {
        dao_simulation_finish(&out_run->simulation);
        return status;
    }
    out_run->capacity_bytes = input->moves_all ? result.peak_bytes : out_run->capacity_bytes;
    return DAO_OK;
}

/* The same by the published scripts, in the memory of their pool. */
static dao_status_t run_script(const dao_scheme_t *scheme, const dao_scheme_input_t *input,
                               dao_scheme_run_t *out_run)
{
    dao_swap_maps_config_t config;
    dao_swap_maps_result_t result;
    *out_run = (dao_scheme_run_t){.capacity_bytes = 0};
    dao_status_t status = maps_config(scheme, input, &config);
    if (status == DAO_OK) {
        status = dao_swap_maps_by_script(input->trace, &config, &result);
    }
    if (status == DAO_OK) {
        out_run->capacity_bytes = result.pool_bytes;
        out_run->simulation = (dao_simulation_t){.first_step_ns = result.step_ns,
                                                 .step_ns = result.step_ns,
                                                 .compute_ns = result.compute_ns,
                                                 .in_bytes = result.in_bytes,
                                                 .out_bytes = result.out_bytes};
    }
    return status;
}

const dao_scheme_t dao_schemes[] = {
#define SCHEME_ROW(name, meaning, choice, run) {name, choice, run},
    DAO_SCHEME_LIST(SCHEME_ROW)
#undef SCHEME_ROW
        {NULL, 0, NULL},
};

bool dao_scheme_moves_maps(const dao_scheme_t *scheme)
{
    return scheme->run == run_maps || scheme->run == run_script;
}

bool dao_scheme_is_executor(const dao_scheme_t *scheme)
{
    return scheme->run == run_online || scheme->run == run_learn || scheme->run == run_described ||
           scheme->run == run_on_demand;
}

bool dao_scheme_has_streams(const dao_scheme_t *scheme)
{
    return dao_scheme_is_executor(scheme) || scheme->run == run_plan;
}

bool dao_scheme_takes_known(const dao_scheme_t *scheme)
{
    return scheme->run == run_plan;
}

bool dao_scheme_grows(const dao_scheme_t *scheme)
{
    return scheme->run == run_plan || scheme->run == run_recompute;
}

bool dao_scheme_plans(const dao_scheme_t *scheme)
{
    return scheme->run == run_plan || scheme->run == run_recompute || scheme->run == run_capuchin ||
           scheme->run == run_learn || scheme->run == run_described;
}

dao_status_t dao_scheme_find(const char *name, const dao_scheme_t **out_scheme)
{
    char names[512] = "";
    for (const dao_scheme_t *scheme = dao_schemes; scheme->name != NULL; scheme++) {
        if (strcmp(scheme->name, name) == 0) {
            *out_scheme = scheme;
            return DAO_OK;
        }
        size_t length = strlen(names);
        (void)snprintf(names + length, sizeof(names) - length, "%s%s", length == 0 ? "" : ", ", scheme->name);
    }
    return dao_error(DAO_ERR_INVALID, "\"%.40s\" is no scheme: there are %s", name, names);
}
