/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that the planner is held to, and the instances that they are taken on. */
#ifndef DAO_TOOLS_BENCH_PLAN_H
#define DAO_TOOLS_BENCH_PLAN_H

#include "tools/plan/plan_contest.h"
#include "tools/print/json_rows.h"

/* What is run, and what must come of it. A limit of 0 is none. */
typedef struct dao_plan_goal {
    const char *figure; /* goals of one name belong together */
    const char *file;   /* below the folder of data; NULL: none */
    const char
        *stand_in; /* where that is not there: KIND:COUNT:SEED, or a file of the project; NULL: left out */
    const char *method;
    const char *rival;       /* another method: ratio_most is to its peak; NULL: to the bound */
    uint64_t capacity_bytes; /* 0: none */
    double budget_s;         /* of processor time, as all times */
    uint64_t peak_most_bytes;
    double ratio_most;
    double first_ratio_most; /* of the first plan, */
    double first_most_s;     /* and its time */
    double most_s;
    double most_us_each; /* besides, a buffer */
    double peer_s;       /* what MiniMalloc needs for it, on the machine of dao_bench_plan_speed() */
    double bytes_most;   /* of memory, a buffer */
    double look_most_ms; /* between two looks at the cancellation; 0: they are not timed */
    bool needs_proof;
} dao_plan_goal_t;

/* plan_goals.c */
extern const dao_plan_goal_t dao_plan_goals[];
extern const size_t dao_plan_goal_count;

/* The part of a peer's time that a method may take. */
#define DAO_PLAN_PEER_PART 0.1

/* What came of a goal. */
typedef struct dao_plan_result {
    const dao_plan_goal_t *goal;
    const char *instance; /* what it was run on */
    bool is_file;         /* the goal's own file: peaks and times of peers hold for that alone */
    dao_plan_row_t row;   /* without its plan */
    double ratio;         /* to the bound, or to the rival's peak */
    double speed;         /* of dao_bench_plan_speed() */
    uint64_t look_ns;     /* longest time between two looks, in a run of its own; 0: not timed */
} dao_plan_result_t;

/* Writes which limits a result breaks, with commas between; "" if none. Returns their number. */
size_t dao_plan_result_judge(const dao_plan_result_t *result, char *out_text, size_t text_bytes);

/* Writes what a result is held to. */
void dao_plan_result_describe(const dao_plan_result_t *result, char *out_text, size_t text_bytes);

/* Prints a row; under a head, if it is the first one. Or adds it to an array. */
void dao_plan_result_print(const dao_plan_result_t *result, bool is_first, const char *limits,
                           const char *breaches);
void dao_plan_result_add_json(const dao_plan_result_t *result, const char *limits, const char *breaches,
                              dao_json_rows_t *json);

/* How many times as fast this machine is now as the one on which peers were measured, by a loop of loads,
   comparisons and stores. Takes most of a second. */
double dao_bench_plan_speed(void);

#endif
