/* SPDX-License-Identifier: Apache-2.0 */
/* Learns the steps of the program: what the engine does at step boundaries and before kernels.

   A step is what lies between two boundaries. One that was seen before is recognized kernel by kernel;
   while it goes on as it did, the executor knows its future. Once it has been measured it is planned, and
   its plan is followed (plan_follow.h). A kernel that is another one than the time before ends that at
   once. */
#ifndef DAO_RUNTIME_EXECUTOR_STEP_LEARNER_H
#define DAO_RUNTIME_EXECUTOR_STEP_LEARNER_H

#include "runtime/executor/learned/plan_worker.h"
#include "runtime/executor/streams/known_links.h"

/* Steps that are remembered, each with its plan; the one that was not seen for longest goes first. */
#define DAO_KNOWN_STEP_COUNT_MAX 8u

/* A step is planned when it comes for this time, at the earliest. */
#define DAO_KNOWN_STEP_SEEN_MIN 2u

/* While a plan is followed, every so many of its steps are measured; twice as many after each new plan, up to
   the most. */
#define DAO_STEP_LEARNER_MEASURE_STEPS     8u
#define DAO_STEP_LEARNER_MEASURE_STEPS_MAX 512u

/* A new plan that takes more than 1 / this longer than the one before is given up for that: 2 %. */
#define DAO_STEP_LEARNER_LOSS 50u

/* Measured so often, a step that is slower than it was the other way, with its plan or without, goes the
   other way again: the middle one of three is not slow by chance. */
#define DAO_STEP_LEARNER_PROOFS 3u

/* Times in a row that a step's plan is tried to be made, or entered, where host memory lacks or the disk is
   full. */
#define DAO_STEP_LEARNER_TRIES_MAX 3u

/* What a step takes one way, with its plan or without, since it goes that way. Without, it begins with what
   the step before has left, and some take longer than others: no single one says what the step takes. */
typedef struct dao_step_time {
    uint64_t taken_ns[DAO_STEP_LEARNER_PROOFS]; /* measurement m is number m mod PROOFS */
    uint32_t count;                             /* of the measurements */
} dao_step_time_t;

/* A step that was seen. */
typedef struct dao_known_step {
    dao_step_log_t log;
    uint64_t *kernel_ns; /* as measured last; NULL: not yet */
    uint64_t seen_count;
    uint64_t seen_at;              /* number of the step in which it came last */
    struct dao_known_step *after;  /* the step that came behind it the last time; NULL: none did */
    bool has_evicted;              /* tensors had to leave the device in it: a plan is of use */
    uint32_t try_count;            /* plans that could not be made or entered since one was followed */
    dao_compiled_plan_t *plan;     /* NULL: none is made yet */
    dao_compiled_plan_t *new_plan; /* takes its place when the step begins the next time */
    dao_compiled_plan_t *former;   /* that it took the place of, until the new one is measured; NULL */
    bool is_returning;             /* new_plan was the former one */
    uint64_t former_step_ns;
    uint64_t pins;           /* of the engine, beside which the times below were measured */
    dao_step_time_t planned; /* while `plan` was followed */
    dao_step_time_t online;  /* without a plan */
    bool is_online;          /* `plan` lies by: without it the step was quicker */
    uint32_t measure_steps;  /* between measurements, once it has a plan */
    uint64_t next_measure;   /* seen_count from which on it is measured */
} dao_known_step_t;

struct dao_step_learner {
    dao_engine_t *engine;
    dao_plan_worker_t worker;
    bool has_boundary;  /* the program says where its steps begin */
    bool has_forecasts; /* of tensors' next uses, which hold while the step goes on as it did */
    dao_step_log_t log;
    uint64_t step_count;     /* steps that have ended or were described, with at least one kernel */
    uint64_t eviction_count; /* of the engine, when the step began */
    dao_known_step_t *known_steps[DAO_KNOWN_STEP_COUNT_MAX];
    uint32_t known_step_count;
    dao_known_step_t *now;      /* the step goes on as this one did; NULL: as none, or it has not begun */
    dao_known_step_t *before;   /* the step before; NULL: none of the known_steps */
    dao_known_step_t *measured; /* whose step the profiler has; NULL: of none */
    const dao_compiled_plan_t *measured_plan;  /* that was followed throughout that step; NULL: none was */
    const dao_compiled_plan_t *measuring_plan; /* as the step that is being measured began */
    dao_known_step_t *submitted;
    dao_known_links_t links;
};

/* With `is_at_once` plans are made when they are asked for, and the device is waited for to be measured: the
   same calls always do the same. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_step_learner_create(dao_engine_t *engine, bool is_at_once,
                                                   dao_step_learner_t **out_learner);

/* Gives up a plan that is being made; no plan is followed. NULL is allowed. */
void dao_step_learner_destroy(dao_step_learner_t *learner);

/* A kernel is about to run: notes it, and enters or leaves a plan. */
void dao_step_learner_kernel(dao_step_learner_t *learner, const dao_item_t *item);

/* The step under way is not to be learnt; no plan is followed in it any more. */
void dao_step_learner_break(dao_step_learner_t *learner);

/* Plans do not hold any more, as the arena is another one: all are given up, also one that is being made.
   What is known of steps stays. No plan is followed, and nothing is measured. */
void dao_step_learner_forget_plans(dao_step_learner_t *learner);

/* A boundary: the program's step ends here, and the next one begins. */
void dao_step_learner_boundary(dao_step_learner_t *learner);

/* At a boundary, with no plan followed: learns the step of a command list that has not run, plans it if
   something has to move, and enters its plan. What dao_step_planning_first() and dao_plan_follow_enter()
   answer: the step is known all the same, and has no plan yet; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_step_learner_register(dao_step_learner_t *learner, const dao_item_t *first,
                                                     uint64_t work_limit);

/* A kernel was launched: when its tensors are used next, as far as the step goes on as the time before. */
void dao_step_learner_forecast(dao_step_learner_t *learner, const dao_item_t *item);

/* Writes the step that ended last to a file, with what was measured of it. DAO_ERR_NOT_READY: there is none;
   what writing answers. */
DAO_NODISCARD dao_status_t dao_step_learner_write(const dao_step_learner_t *learner, const char *path);

/* The steps that it refers to are known ones, and the plan that is followed is one of theirs. */
bool dao_step_learner_is_valid(const dao_step_learner_t *learner);

/* Plans that are kept. */
uint64_t dao_step_learner_plan_count(const dao_step_learner_t *learner);
uint64_t dao_step_learner_paged_count(const dao_step_learner_t *learner); /* of these, with pages */

#endif
