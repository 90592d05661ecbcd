/* SPDX-License-Identifier: Apache-2.0 */
/* Running a step again and again through the executor in virtual time. */
#ifndef DAO_TOOLS_SIMULATE_H
#define DAO_TOOLS_SIMULATE_H

#include "backends/sim/sim.h"
#include "tools/model/step_trace.h"
#include "tools/write/write_run_trace.h"

#include <dao/dao.h>

/* Steps at the beginning that do not count for the long run, if there are more. */
#define DAO_SIMULATE_WARM_UP_COUNT 2u

/* The same where the executor learns: one is new, one is measured, one has the first plan, one takes tensors
   to where a better one has them. */
#define DAO_SIMULATE_LEARN_COUNT 4u

/* Most kernels of all steps together: their times are kept. */
#define DAO_SIMULATE_KERNEL_COUNT_MAX (1u << 24)

typedef struct dao_simulate_config {
    dao_policy_t policy;
    bool on_demand;    /* as in dao_executor_config_t */
    bool learns;       /* steps are marked, so that the executor plans them by itself */
    bool is_described; /* with `learns`: it is told the step, and plans it before the first one */
    dao_swap_addresses_t addresses; /* as in dao_executor_config_t */
    uint32_t step_count; /* at least 1; one more is run behind, so that the last one is followed by a step */
    uint32_t window_kernels; /* that the executor knows ahead; 0: two steps */
    uint64_t in_flight_ns;   /* as in dao_executor_config_t */
    /* The compute stream of each kernel, from 0 on without gaps, below DAO_EXECUTOR_STREAM_COUNT_MAX; NULL:
       as the problem has them. Borrowed. */
    const uint32_t *streams;
    const dao_step_trace_t *trace; /* names the kernels in messages; borrowed; NULL: they have none */
} dao_simulate_config_t;

/* Times are from the first step's begin. Copies are in the order of their ends. The kernels of step s are
   [s x kernel_count, (s + 1) x kernel_count), in the problem's order; on several streams they overlap, and so
   do steps: a step takes what it takes the slowest stream. */
typedef struct dao_simulation {
    dao_sim_span_t *kernels;
    size_t kernel_count, kernel_capacity;
    dao_sim_span_t *copies; /* and delays of the file */
    size_t copy_count, copy_capacity;
    uint32_t step_count; /* without the one behind */
    uint64_t first_step_ns;
    uint64_t step_ns;    /* in the long run: the mean of the steps behind those at the beginning */
    uint64_t compute_ns; /* kernels of a step */
    uint64_t in_bytes;   /* of a step in the long run */
    uint64_t out_bytes;
    dao_executor_stats_t stats; /* of all steps, the one behind too */
} dao_simulation_t;

/* Refuses what cannot be simulated: DAO_ERR_INVALID, DAO_ERR_LIMIT. */
DAO_NODISCARD dao_status_t dao_simulate_check(const dao_swap_problem_t *problem, uint32_t step_count);

/**
 * Simulates a step: problem->capacity_bytes of device memory, problem->host as the link. Persistent tensors
 * begin on the host. The library must not be started. The same arguments always give the same result.
 *
 * @param problem  Borrowed; no shared_bytes_per_second, no file in half duplex.
 * @param out_simulation  Written only on DAO_OK; the caller owns it, until dao_simulation_finish().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_LIMIT for a device larger than an executor takes;
 *         DAO_ERR_KERNEL_TOO_LARGE for a capacity below what one kernel needs; DAO_ERR_NO_HOST_MEMORY; what
 *         the executor answers.
 *
 * Threads: one. Waits: never. Cost: some microseconds a kernel, and the policy's.
 */
DAO_NODISCARD dao_status_t dao_simulate(const dao_swap_problem_t *problem,
                                        const dao_simulate_config_t *config,
                                        dao_simulation_t *out_simulation);

/**
 * Simulates the replay of a plan for the same problem, whose compute streams have no gaps, in the same way;
 * the first step begins with all that the plan keeps on the device in place. A copy with the file takes what
 * problem->file says of it, beside the host's link. Answers as dao_simulate().
 */
DAO_NODISCARD dao_status_t dao_simulate_plan(const dao_swap_problem_t *problem,
                                             const dao_swap_schedule_t *schedule, uint32_t step_count,
                                             dao_simulation_t *out_simulation);

/* Adds all kernels and copies to spans, for a trace. */
void dao_simulation_spans(const dao_simulation_t *simulation, uint32_t kernel_count, dao_run_spans_t *spans);

void dao_simulation_finish(dao_simulation_t *simulation);

#endif
