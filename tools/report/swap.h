/* SPDX-License-Identifier: Apache-2.0 */
/* What less memory costs a step: the time over the capacity, beside the bound; and the copies and stalls of
   one step in a given capacity, from the simulator. */
#ifndef DAO_TOOLS_REPORT_SWAP_H
#define DAO_TOOLS_REPORT_SWAP_H

#include "tools/fit/fit_swap.h"
#include "tools/options/capacity.h"
#include "tools/report/view.h"
#include "tools/simulate/explain.h"
#include "tools/simulate/scheme.h"

/* Capacities of the sweep, both ends included; their distance is a whole part of the grid's. */
enum { DAO_REPORT_SWEEP_COUNT = 9 };

typedef struct dao_report_swap_config {
    uint64_t rate;                  /* of the link, each way */
    uint64_t host_bytes;            /* 0: no limit */
    const dao_capacity_t *capacity; /* NULL: no step is simulated */
} dao_report_swap_config_t;

typedef struct dao_report_swap {
    dao_step_problem_t step;
    dao_fit_swap_t fit;
    dao_fit_point_t sweep[DAO_REPORT_SWEEP_COUNT]; /* from the smallest capacity up */
    bool has_run;
    dao_swap_bound_t bound; /* of the run's capacity */
    dao_scheme_run_t run;
    uint32_t first_step; /* of the run: the one that is shown */
    dao_stall_t *stalls; /* one a kernel */
} dao_report_swap_t;

/* Plans and simulates. What the planner and the simulator answer; DAO_ERR_NO_HOST_MEMORY. The caller finishes
   it, whatever is answered, before the trace. Cost: a plan for each capacity. */
DAO_NODISCARD dao_status_t dao_report_swap_make(const dao_report_swap_config_t *config,
                                                const dao_step_trace_t *trace, dao_report_swap_t *out_swap);

void dao_report_swap_finish(dao_report_swap_t *swap);

#endif
