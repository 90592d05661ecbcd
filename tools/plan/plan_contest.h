/* SPDX-License-Identifier: Apache-2.0 */
/* Every way of placing the same buffers, side by side: the planner's methods (dao/plan.h), and strategies,
   which is what programs had before they planned. A strategy sees the allocations and frees one after the
   other, knows one pool, and keeps no plan. */
#ifndef DAO_TOOLS_PLAN_CONTEST_H
#define DAO_TOOLS_PLAN_CONTEST_H

#include "tools/model/plan_input.h"

/* A strategy, and what it is. */
#define DAO_PLAN_STRATEGY_LIST(X)                                                                            \
    X(ORACLE, "oracle", "the bytes alive at once: nothing needs less")                                       \
    X(BASELINE, "baseline", "a pool that splits blocks, as in MNN; sizes in steps of 64")                    \
    X(BASELINE_PYTHON, "baseline_python", "the same, as HeuristicAllocator models it")                       \
    X(GOOD_FIT, "good_fit", "this library's strategy in one contiguous segment; steps of 256")               \
    X(ONLINE_BEST_FIT, "best_fit", "the same with the smallest hole that fits")

/* A problem, and how long each method may work on it. */
typedef struct dao_plan_contest {
    const dao_plan_input_t *input; /* borrowed */
    dao_plan_problem_t problem;    /* of that input; its pools are borrowed, too */
    uint64_t budget_ns;            /* processor time a method; 0: no limit */
    uint64_t work_limit;           /* steps a method; 0: no limit */
    bool is_decision;              /* a method ends as soon as it has placed all buffers */
    uint64_t bound_bytes;          /* of the problem */
    bool has_trace;                /* of the strategies: made when the first one needs it */
    dao_alloc_trace_t trace;
} dao_plan_contest_t;

/* What a way came to. */
typedef struct dao_plan_row {
    const char *method;
    size_t buffer_count;
    bool has_peak; /* false: its time was over before it had a plan, or a strategy cannot run it */
    uint64_t peak_bytes;
    uint64_t bound_bytes; /* no plan has a lower peak */
    bool is_proved;       /* nothing better is possible */
    size_t unplaced_count;
    uint64_t unplaced_bytes;
    uint64_t cpu_ns;           /* processor time, to the end */
    uint64_t first_cpu_ns;     /* of a method: until it had its first plan */
    uint64_t first_peak_bytes; /* of that plan */
    uint64_t memory_bytes;     /* most that a method held; 0 for a strategy */
    uint32_t pool_count;       /* the peak is that of all of them together */
    dao_plan_t *plan;          /* of a method that has one; else NULL */
} dao_plan_row_t;

/* Begins: checks the problem, whose pools, alignment and ends are taken, and finds its bound. On DAO_OK
   dao_plan_contest_finish() is owed. What dao_plan_create() answers. */
DAO_NODISCARD dao_status_t dao_plan_contest_init(dao_plan_contest_t *contest, const dao_plan_input_t *input,
                                                 const dao_plan_problem_t *problem);
void dao_plan_contest_finish(dao_plan_contest_t *contest);

/* All ways have numbers: first the strategies, then the methods. */
size_t dao_plan_way_count(void);
const char *dao_plan_way_name(size_t way);

/* Finds a way by its name. False: there is none. */
bool dao_plan_way_find(const char *name, size_t *out_way);

/* Runs one of them. On DAO_OK dao_plan_row_finish() is owed; what the planner or the replay answers. */
DAO_NODISCARD dao_status_t dao_plan_contest_run(dao_plan_contest_t *contest, size_t way,
                                                dao_plan_row_t *out_row);
void dao_plan_row_finish(dao_plan_row_t *row);

/* Checks the plan of a row, if it has one, once more: by dao_plan_check(), whose answers it gives. Cost: of
   that. */
DAO_NODISCARD dao_status_t dao_plan_row_verify(const dao_plan_contest_t *contest, const dao_plan_row_t *row);

/* Peak over bound; 1 where nothing is to be placed. */
double dao_plan_row_ratio(const dao_plan_row_t *row);

#endif
