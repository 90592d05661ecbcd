/* SPDX-License-Identifier: Apache-2.0 */
/* Where the time of a simulated step goes, and what would help. */
#ifndef DAO_TOOLS_EXPLAIN_H
#define DAO_TOOLS_EXPLAIN_H

#include "tools/model/step_trace.h"
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

/* Prints the worst stalls of the last step, the window that decides the bound, and whether memory, the link
   or the file should be bought. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_explain(const dao_step_trace_t *trace, const dao_swap_problem_t *problem,
                                       const dao_swap_bound_t *bound, const dao_simulation_t *simulation);

#endif
