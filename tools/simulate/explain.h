/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a simulated step goes, and what would help. */
#ifndef DAO_TOOLS_EXPLAIN_H
#define DAO_TOOLS_EXPLAIN_H

#include "tools/model/step_trace.h"
#include "tools/print/report.h"
#include "tools/simulate/simulate.h"

/* Time of a step in which no kernel runs, by what the links do meanwhile. */
typedef struct dao_stall {
    uint32_t kernel; /* that begins late */
    uint64_t total_ns;
    uint64_t in_ns;   /* a copy to the device is under way */
    uint64_t out_ns;  /* only a copy from the device is: room is made */
    uint64_t file_ns; /* only the file is read or written */
    uint64_t begin_ns;
} dao_stall_t;

/* Finds the stalls of one step of a simulation, in the order of its kernels; out_stalls has room for
   kernel_count. */
void dao_find_stalls(const dao_simulation_t *simulation, uint32_t kernel_count, uint32_t step,
                     dao_stall_t *out_stalls);

/* Puts the time of all stalls and the worst of them into an object: `stall_s`, of it `stall_in_s`,
   `stall_out_s`, `stall_file_s`, and `stalls`. The stalls are sorted then, the longest first. */
void dao_explain_stalls(dao_report_t *report, const dao_step_trace_t *trace, dao_stall_t *stalls,
                        uint32_t count);

/* Puts all that dao_explain() prints into an object. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_explain_report(dao_report_t *report, const dao_step_trace_t *trace,
                                              const dao_swap_problem_t *problem,
                                              const dao_swap_bound_t *bound,
                                              const dao_simulation_t *simulation);

/* Prints the worst stalls of the last step, the window that decides the bound, and whether memory, the link
   or the file should be bought. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_explain(const dao_step_trace_t *trace, const dao_swap_problem_t *problem,
                                       const dao_swap_bound_t *bound, const dao_simulation_t *simulation);

#endif
