/* SPDX-License-Identifier: Apache-2.0 */
/* Ways to run a step in limited memory, under the names that the command line has for them. */
#ifndef DAO_TOOLS_SCHEME_H
#define DAO_TOOLS_SCHEME_H

#include "tools/simulate/swap_maps.h"

/* The quickest plan so far of a step for several capacities, the least of which comes first, as a plan for
   less memory is one for more. All zero: there is none. */
typedef struct dao_scheme_known {
    dao_swap_plan_t *plan;
    uint64_t step_ns; /* as it runs */
} dao_scheme_known_t;

void dao_scheme_known_finish(dao_scheme_known_t *known);

/* What a scheme is asked to run. */
typedef struct dao_scheme_input {
    const dao_swap_problem_t *problem; /* with its capacity and link */
    const dao_step_trace_t *trace;     /* that it was made of */
    uint32_t threshold;                /* last operator of the forward pass; DAO_TRACE_NONE: to be found */
    bool moves_all; /* schemes that move feature maps: all of them, whatever the capacity */
    uint32_t step_count;
    uint32_t window_kernels;        /* 0: the scheme's own */
    uint64_t in_flight_ns;          /* 0: the executor's own */
    const uint32_t *streams;        /* schemes of the executor: as in dao_simulate_config_t */
    dao_swap_addresses_t addresses; /* of plans; the problem says of what size pages are */
    uint64_t plan_work;             /* as work_limit of dao_swap_plan_config_t */
    uint32_t try_count;             /* as that of dao_recompute_config_t */
    uint64_t known_ns;              /* the same */
    void (*on_progress)(void *progress_user, uint32_t done); /* the same */
    void *progress_user;
    bool (*is_cancelled)(void *cancel_user); /* of what is planned, as that of dao_swap_plan_config_t */
    void *cancel_user;
    /* NULL, or what plans of the same step for less memory led to: it runs where the plan's step is longer,
       else the plan takes its place. For schemes that plan copies alone. */
    dao_scheme_known_t *known;
} dao_scheme_input_t;

/* What it takes. */
typedef struct dao_scheme_run {
    uint64_t capacity_bytes; /* that it was given, or that it reaches if it takes none */
    bool runs_again;         /* the bound of swapping does not hold for it */
    uint64_t again_ns;       /* of a step: kernels that run again */
    uint32_t again_count;
    uint64_t plan_ns; /* of the host, to plan before the first step; 0: it decides as it goes */
    dao_simulation_t simulation;
} dao_scheme_run_t;

typedef struct dao_scheme {
    const char *name;
    int choice; /* a dao_policy_t, a dao_swap_maps_mode_t, a dao_swap_granularity_t, a dao_recompute_mode_t
                   or a dao_recompute_baseline_t */
    dao_status_t (*run)(const struct dao_scheme *scheme, const dao_scheme_input_t *input,
                        dao_scheme_run_t *out_run);
} dao_scheme_t;

/* Name, meaning, choice, and the function that runs it. */
#define DAO_SCHEME_LIST(X)                                                                                   \
    X("plan", "the step is planned as a whole; the plan is replayed", DAO_SWAP_GRANULARITY_BEST, run_plan)   \
    X("plan-whole", "the same with tensors that move whole", DAO_SWAP_GRANULARITY_WHOLE, run_plan)           \
    X("hybrid", "planned as a whole; what left is copied back, or made again by its kernel",                 \
      DAO_RECOMPUTE_MODE_HYBRID, run_recompute)                                                              \
    X("recompute", "the same without any copies: all that left is made again", DAO_RECOMPUTE_MODE_ONLY,      \
      run_recompute)                                                                                         \
    X("capuchin", "Capuchin: copies that are hidden, then runs again by bytes saved a second", 0,            \
      run_capuchin)                                                                                          \
    X("dtr", "DTR: least time of it and of what left around it, over bytes and staleness; no copies",        \
      DAO_RECOMPUTE_BASELINE_DTR, run_baseline)                                                              \
    X("dtr-class", "DTR with classes of what has left", DAO_RECOMPUTE_BASELINE_DTR_CLASS, run_baseline)      \
    X("dtr-local", "DTR with a content's own time", DAO_RECOMPUTE_BASELINE_DTR_LOCAL, run_baseline)          \
    X("again-lru", "run again what was used longest ago", DAO_RECOMPUTE_BASELINE_LRU, run_baseline)          \
    X("again-largest", "run again what is largest", DAO_RECOMPUTE_BASELINE_LARGEST, run_baseline)            \
    X("sqrt", "Chen's segments of the forward run", DAO_RECOMPUTE_BASELINE_SQRT, run_baseline)               \
    X("selective", "run again the same tensor of all layers", DAO_RECOMPUTE_BASELINE_SELECTIVE,              \
      run_baseline)                                                                                          \
    X("greedy", "run again what takes least time a byte", DAO_RECOMPUTE_BASELINE_GREEDY, run_baseline)       \
    X("knapsack", "keep the most time in a budget of bytes", DAO_RECOMPUTE_BASELINE_KNAPSACK, run_baseline)  \
    X("learn", "the executor, which learns the step, plans it and follows the plan", DAO_POLICY_BELADY,      \
      run_learn)                                                                                             \
    X("described", "the same, which is told the step and plans it before the first one", DAO_POLICY_BELADY,  \
      run_described)                                                                                         \
    X("online", "the executor at its best without a plan", DAO_POLICY_BELADY, run_online)                    \
    X("lru", "on demand; least recently used first", DAO_POLICY_LRU, run_on_demand)                          \
    X("belady", "on demand; furthest next use first", DAO_POLICY_BELADY, run_on_demand)                      \
    X("weighted_lru", "on demand; window of greatest mean age", DAO_POLICY_WEIGHTED_LRU, run_on_demand)      \
    X("weighted_belady", "on demand; window of greatest mean distance", DAO_POLICY_WEIGHTED_BELADY,          \
      run_on_demand)                                                                                         \
    X("window", "on demand; window with the least bytes to move over distance", DAO_POLICY_WINDOW,           \
      run_on_demand)                                                                                         \
    X("size", "on demand; largest first", DAO_POLICY_SIZE, run_on_demand)                                    \
    X("sync", "feature maps; everything waits for their copies", DAO_SWAP_MAPS_SYNC, run_maps)               \
    X("half-sync", "feature maps; copies beside the neighbouring operator", DAO_SWAP_MAPS_HALF_SYNC,         \
      run_maps)                                                                                              \
    X("async", "feature maps; copies queue up and are called for at the last moment", DAO_SWAP_MAPS_ASYNC,   \
      run_maps)                                                                                              \
    X("script-sync", "sync as HeuristicAllocator's script does it", DAO_SWAP_MAPS_SYNC, run_script)          \
    X("script-half-sync", "half-sync as that script does it", DAO_SWAP_MAPS_HALF_SYNC, run_script)           \
    X("script-async", "async as that script does it", DAO_SWAP_MAPS_ASYNC, run_script)

/* All schemes; a name of NULL closes the table. */
extern const dao_scheme_t dao_schemes[];

/* Returns true if a scheme moves feature maps: it takes `threshold`. */
bool dao_scheme_moves_maps(const dao_scheme_t *scheme);

/* Returns true if the executor decides as it goes: it takes `window_kernels`, `in_flight_ns` and `streams`.
 */
bool dao_scheme_is_executor(const dao_scheme_t *scheme);

/* Returns true if kernels may be on several compute streams: in the executor, and in plans that only copy. */
bool dao_scheme_has_streams(const dao_scheme_t *scheme);

/* Returns true if what a scheme plans for less memory counts as a plan for more. */
bool dao_scheme_grows(const dao_scheme_t *scheme);

/* Returns true if a scheme plans copies alone: it takes `known`. */
bool dao_scheme_takes_known(const dao_scheme_t *scheme);

/* Returns true if a scheme makes plans: it takes `addresses`. */
bool dao_scheme_plans(const dao_scheme_t *scheme);

/* DAO_ERR_INVALID with a message that lists all names. */
DAO_NODISCARD dao_status_t dao_scheme_find(const char *name, const dao_scheme_t **out_scheme);

#endif
