/* SPDX-License-Identifier: Apache-2.0 */
/* Learning steps and adopting plans: what the engine does at marks and before kernels.

   A step is what lies between two marks of the program. One that was seen before is recognized kernel by
   kernel; while it goes on as it did, the executor knows its future. Once it has been measured it is planned,
   and followed by its course (course.h) from then on. A kernel that is another one than the time before ends
   that at once. */
#ifndef DAO_RUNTIME_EXECUTOR_ADOPT_H
#define DAO_RUNTIME_EXECUTOR_ADOPT_H

#include "runtime/executor/learned/desk.h"

/* Steps that are remembered, each with its plan; the one that was not seen for longest goes first. */
#define DAO_SHAPE_COUNT_MAX 8u

/* A step is planned when it comes for this time, at the earliest. */
#define DAO_SHAPE_SEEN_MIN 2u

/* While a plan is followed, every so many of its steps are measured; twice as many after each new plan, up to
   the most. */
#define DAO_ADOPT_MEASURE_STEPS     8u
#define DAO_ADOPT_MEASURE_STEPS_MAX 512u

/* Measured times that differ by more than 1 / this from those that a plan was made with are planned anew: 5
   %. */
#define DAO_ADOPT_TOLERANCE 20u

/* A new plan that takes more than 1 / this longer than the one before is given up for that: 2 %. */
#define DAO_ADOPT_LOSS 50u

/* Times in a row that a step's plan is tried to be made, or entered, where host memory lacks or the disk is
   full. */
#define DAO_ADOPT_TRIES_MAX 3u

/* A step that was seen. */
typedef struct dao_shape {
    dao_step_log_t log;
    uint64_t seen_count;
    uint64_t seen_at;         /* number of the step in which it came last */
    struct dao_shape *after;  /* the step that came behind it the last time; NULL: none did */
    bool has_evicted;         /* tensors had to leave the device in it: a plan is of use */
    uint32_t try_count;       /* plans that could not be made or entered since one was followed */
    dao_course_t *course;     /* NULL: none is made yet */
    dao_course_t *new_course; /* takes its place when the step begins the next time */
    dao_course_t *former;     /* that it took the place of, until the new one is measured; NULL */
    bool is_returning;        /* new_course was the former one */
    uint64_t step_ns;         /* as measured last while `course` was followed; 0: not yet */
    uint64_t former_step_ns;
    uint32_t measure_steps; /* between measurements, while its course is followed */
    uint64_t next_measure;  /* seen_count from which on it is measured */
} dao_shape_t;

struct dao_adopt {
    dao_engine_t *engine;
    dao_desk_t desk;
    bool has_mark; /* the program marks its steps */
    dao_step_log_t log;
    uint64_t step_count;     /* marks with kernels before them */
    uint64_t eviction_count; /* of the engine, when the step began */
    dao_shape_t *shapes[DAO_SHAPE_COUNT_MAX];
    uint32_t shape_count;
    dao_shape_t *now;      /* the step goes on as this one did; NULL: as none, or it has not begun */
    dao_shape_t *before;   /* the step before; NULL: none of the shapes */
    dao_shape_t *measured; /* whose step the meter has; NULL: of none */
    const dao_course_t *measured_course; /* that was followed throughout that step; NULL: none was */
    dao_shape_t *at_desk;
    dao_swap_tier_t link; /* as measured last; without speed: not yet */
    double lost_share; /* of what its directions move by themselves, lost while both copy; as measured last */
    dao_swap_tier_t file; /* likewise, through the pinned pieces */
};

/* With `is_at_once` plans are made when they are asked for, and the device is waited for to be measured: the
   same calls always do the same. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_adopt_create(dao_engine_t *engine, bool is_at_once, dao_adopt_t **out_adopt);

/* Gives up a plan that is being made; no course is followed. NULL is allowed. */
void dao_adopt_destroy(dao_adopt_t *adopt);

/* A kernel is about to run: notes it, and enters or leaves a course. */
void dao_adopt_kernel(dao_adopt_t *adopt, const dao_item_t *item);

/* The step under way is not to be learnt; no course is followed in it any more. */
void dao_adopt_break(dao_adopt_t *adopt);

/* The program's step ends here. */
void dao_adopt_mark(dao_adopt_t *adopt);

/* Looks what measurements and plans have come to. */
void dao_adopt_look(dao_adopt_t *adopt);

/* Behind the waits of a kernel's stream, in front of the kernel: has it measured. */
void dao_adopt_measure(dao_engine_t *engine, const dao_fence_t *fence);

/* A kernel was launched: when its tensors are used next, as far as the step goes on as the time before. */
void dao_adopt_forecast(dao_adopt_t *adopt, const dao_item_t *item);

/* Plans that are kept. */
uint64_t dao_adopt_plan_count(const dao_adopt_t *adopt);

#endif
