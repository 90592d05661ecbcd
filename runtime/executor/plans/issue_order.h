/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which one host thread queues the operations of a plan's step, kernels and copies, each
   behind its fence. */
#ifndef DAO_RUNTIME_EXECUTOR_ISSUE_ORDER_H
#define DAO_RUNTIME_EXECUTOR_ISSUE_ORDER_H

#include "runtime/executor/streams/fence.h"

#include <dao/swap.h>

/* The streams of a plan, of which one has the kernels of all compute streams, and the lanes on which their
   operations finish: the same, and behind them one for each further compute stream. A lane is a stream of the
   timeline. */
enum {
    DAO_ISSUE_ORDER_STREAM_COUNT = 5,
    DAO_ISSUE_ORDER_LANE_COUNT = DAO_ISSUE_ORDER_STREAM_COUNT + DAO_SWAP_COMPUTE_STREAM_MAX - 1,
};
extern const dao_swap_stream_t dao_issue_order_streams[DAO_ISSUE_ORDER_STREAM_COUNT];
extern const dao_stream_role_t dao_issue_order_roles[DAO_ISSUE_ORDER_LANE_COUNT];

/* An operation of a step. */
typedef struct dao_issue_operation {
    uint32_t stream; /* index in dao_issue_order_streams */
    uint32_t index;  /* in its stream */
} dao_issue_operation_t;

/* Where an operation finishes. */
typedef struct dao_issue_place {
    uint32_t lane;
    uint32_t index; /* in its lane */
} dao_issue_place_t;

typedef struct dao_issue_order {
    dao_issue_operation_t *operations;
    uint32_t count;
    uint32_t stream_counts[DAO_ISSUE_ORDER_STREAM_COUNT];
    uint32_t lane_counts[DAO_ISSUE_ORDER_LANE_COUNT];
    dao_issue_place_t *kernels; /* of each kernel */
} dao_issue_order_t;

/* When the operations of a step begin, by the plan. */
typedef struct dao_issue_order_times {
    uint64_t *begin_ns[DAO_ISSUE_ORDER_STREAM_COUNT];
    uint64_t *memory;
} dao_issue_order_times_t;

/* Plays the plan for its times. DAO_ERR_NO_HOST_MEMORY; what they hold is given up by
   dao_issue_order_times_finish(). */
DAO_NODISCARD dao_status_t dao_issue_order_times_init(dao_issue_order_times_t *times,
                                                      const dao_swap_schedule_t *schedule,
                                                      const dao_swap_problem_t *problem);
void dao_issue_order_times_finish(dao_issue_order_times_t *times);

/* Finds the order: every operation comes behind all that its fence names, and copies as early as they can.
   `times` may be NULL; with them, copies that wait for a write to the file come before the kernels that begin
   later. DAO_ERR_INVALID if an operation waits for a later one; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_issue_order_init(dao_issue_order_t *order, const dao_swap_schedule_t *schedule,
                                                const dao_swap_problem_t *problem,
                                                const dao_issue_order_times_t *times);
void dao_issue_order_finish(dao_issue_order_t *order);

/* Each stream's operations are there once, in the order of their numbers. */
bool dao_issue_order_is_valid(const dao_issue_order_t *order);

/* What an operation waits for, and its copy; NULL for a kernel. */
const dao_swap_fence_t *dao_issue_order_fence(const dao_swap_schedule_t *schedule,
                                              dao_issue_operation_t operation);
const dao_swap_copy_t *dao_issue_order_copy(const dao_swap_schedule_t *schedule,
                                            dao_issue_operation_t operation);

dao_issue_place_t dao_issue_order_place(const dao_issue_order_t *order, dao_issue_operation_t operation);

/* Returns the sequence number that `done` names on a lane, as in dao_swap_fence_t but of the lane's
   operations alone; 0: nothing to wait for. */
typedef uint64_t (*dao_issue_number_t)(const void *user, uint32_t lane, int64_t done);

/* Returns what an operation waits for in numbers of the timeline. Its own lane keeps its order by itself. */
dao_fence_t dao_issue_order_fence_in_numbers(const dao_issue_order_t *order,
                                             const dao_swap_schedule_t *schedule,
                                             dao_issue_operation_t operation, dao_issue_number_t number_of,
                                             const void *user);

#endif
