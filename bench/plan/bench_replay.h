/* SPDX-License-Identifier: Apache-2.0 */
/* The figures that step plans is held to: how much of recorded steps the arena serves, and what a
   place takes where steps deviate. Recorded steps of programs are replayed for them, as `dao replay` does,
   and blocks are never to share a byte. */
#ifndef DAO_TOOLS_BENCH_REPLAY_H
#define DAO_TOOLS_BENCH_REPLAY_H

#include "tools/print/json_rows.h"
#include "tools/replay/replay_steps.h"

/* What is replayed of a file: symbol, and its name in rows. */
#define DAO_REPLAY_STEPS_LIST(X)                                                                             \
    X(RECORDED, "recorded")                                                                                  \
    X(EQUAL, "equal")                                                                                        \
    X(DEVIATING, "deviating")                                                                                \
    X(SHAPES, "shapes")

/* Its own steps; its first one again and again; its first one and others that deviate from it, for each kind
   of deviation and all together, each of some shares of the events, and each seed: a cell each. */
typedef enum dao_replay_steps {
#define DAO_REPLAY_STEPS_ENUMERATOR(symbol, name) DAO_REPLAY_STEPS_##symbol,
    DAO_REPLAY_STEPS_LIST(DAO_REPLAY_STEPS_ENUMERATOR)
#undef DAO_REPLAY_STEPS_ENUMERATOR
} dao_replay_steps_t;

/* A program whose steps were recorded. */
typedef struct dao_replay_model {
    const char *file;     /* below the folder of data */
    const char *stand_in; /* where that is not there: a file of the project; NULL: left out */
    bool differs; /* sizes are others in each of its steps; else steps are equal, or shifted at the front */
} dao_replay_model_t;

/* What is run, and what must come of it, with each model. A limit of 0 is none; no blocks may overlap in
   any. */
typedef struct dao_replay_goal {
    const char *figure; /* goals of one name stand together */
    const char *place;  /* as --place of `dao replay` */
    dao_replay_steps_t steps;
    bool leaves_out_alike;     /* models whose steps are alike; */
    bool leaves_out_differing; /* and those of which they differ */
    uint64_t first_step;       /* that is held to the limits; steps from 2 on are served */
    double served_least;       /* share of requests, in each step */
    double total_ratio_most;
    double reserved_ratio_most; /* up to each step, over the place without plans */
    double served_mean_least;   /* of all steps and cells */
    double reserved_mean_most;
} dao_replay_goal_t;

/* replay_goals.c */
extern const dao_replay_model_t dao_replay_models[];
extern const size_t dao_replay_model_count;
extern const dao_replay_goal_t dao_replay_goals[];
extern const size_t dao_replay_goal_count;

/* What came of a goal. */
typedef struct dao_replay_result {
    const dao_replay_goal_t *goal;
    const char *instance; /* what it was run on */
    uint64_t step_count;  /* that were looked at, in all cells */
    uint64_t cell_count;
    uint64_t cells_left_out; /* for want of time */
    uint64_t cells_over;     /* that had a step above reserved_ratio_most */
    double served_least;     /* the worst of the steps, and what comes of them all */
    double served_sum, reserved_sum;
    double total_ratio;    /* the worst of the steps */
    double reserved_ratio; /* the worst of the steps, */
    /* and of the last ones: a place may reach its peak a step earlier than without plans */
    double last_ratio;
    uint64_t block_count, overlap_count;
} dao_replay_result_t;

/* Returns true if a goal is for a model. */
bool dao_replay_goal_takes(const dao_replay_goal_t *goal, const dao_replay_model_t *model);

/* Returns true if a goal's place is here: its device, whose memory is mapped in pages. */
bool dao_replay_goal_has_place(const dao_replay_goal_t *goal);

/* Replays a file for the goal of a result, of which all but that and the instance is zero. Cells that would
   begin after budget_ns of processor time are left out, but for the first; 0 is no limit. Their seeds are 1
   to seed_count. As dao_replay_run(). */
DAO_NODISCARD dao_status_t dao_replay_result_run(dao_replay_result_t *result, const dao_event_file_t *file,
                                                 uint64_t budget_ns, uint32_t seed_count);

/* Adds what came of a cell: a row a served step, in order. A result of which all but the goal and the
   instance is zero is that of no cells. */
void dao_replay_result_add(dao_replay_result_t *result, const dao_replay_row_t *rows, size_t row_count,
                           const dao_replay_overlaps_t *overlaps);

/* Writes which limits a result breaks, with commas between; "" if none. Returns their number. */
size_t dao_replay_result_judge(const dao_replay_result_t *result, char *out_text, size_t text_bytes);

/* Writes the limits of a goal. */
void dao_replay_goal_describe(const dao_replay_goal_t *goal, char *out_text, size_t text_bytes);

/* Prints a row; under a head, if it is the first one of its figure. Or adds it to an array. */
void dao_replay_result_print(const dao_replay_result_t *result, bool is_first, const char *limits,
                             const char *breaches);
void dao_replay_result_add_json(const dao_replay_result_t *result, const char *limits, const char *breaches,
                                dao_json_rows_t *json);

#endif
