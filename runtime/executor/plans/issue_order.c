/* SPDX-License-Identifier: Apache-2.0 */
/* The issue order of a plan's step. The streams of the plan are these streams of the timeline:

       plan       COMPUTE     HOST_IN     HOST_OUT    FILE_IN     FILE_OUT
       timeline   COMPUTE     H2D         D2H         STAGE_IN    STAGE_OUT

   Kernels are queued in the one order of the step, and finish on the lanes of their compute streams. With
   half duplex both directions are on HOST_IN. An operation is issued once all that its fence names of this
   step is issued, so that no event is waited for before it is recorded. Copies go before kernels: they wait
   on the device for what they need. Only for writes to the file the host waits, as they may fail. So an
   operation that waits for one is not issued before kernels that begin earlier by the plan: they would wait
   with the host.

   Invariants: operations of a stream are issued in the order of their numbers, each once; so are those of a
   lane. */
#include "runtime/executor/plans/issue_order.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/times/swap_replay.h"
#include "runtime/executor/streams/fence.h"

#include <assert.h>
#include <string.h>

/* Steps that are played for their times: the first ones are not as the later ones. */
#define TIMES_STEP_COUNT 4u

const dao_swap_stream_t dao_issue_order_streams[DAO_ISSUE_ORDER_STREAM_COUNT] = {
    DAO_SWAP_STREAM_COMPUTE, DAO_SWAP_STREAM_HOST_IN,  DAO_SWAP_STREAM_HOST_OUT,
    DAO_SWAP_STREAM_FILE_IN, DAO_SWAP_STREAM_FILE_OUT,
};

static_assert(DAO_SWAP_COMPUTE_STREAM_MAX == DAO_EXECUTOR_STREAM_COUNT_MAX, "a lane for each compute stream");

const dao_stream_role_t dao_issue_order_roles[DAO_ISSUE_ORDER_LANE_COUNT] = {
    DAO_STREAM_ROLE_COMPUTE,
    DAO_STREAM_ROLE_H2D,
    DAO_STREAM_ROLE_D2H,
    DAO_TIMELINE_STAGE_IN,
    DAO_TIMELINE_STAGE_OUT,
    (dao_stream_role_t)DAO_STREAM_ROLE_COUNT, /* dao_timeline_compute() of 1 and on */
    (dao_stream_role_t)(DAO_STREAM_ROLE_COUNT + 1),
    (dao_stream_role_t)(DAO_STREAM_ROLE_COUNT + 2),
};

/* The lane of a compute stream. */
static uint32_t lane_of(uint32_t compute)
{
    uint32_t lane = compute == 0 ? 0 : DAO_ISSUE_ORDER_STREAM_COUNT + compute - 1;
    DAO_ASSERT(dao_issue_order_roles[lane] == dao_timeline_compute(compute));
    return lane;
}

const dao_swap_copy_t *dao_issue_order_copy(const dao_swap_schedule_t *schedule,
                                            dao_issue_operation_t operation)
{
    dao_swap_stream_t stream = dao_issue_order_streams[operation.stream];
    return stream == DAO_SWAP_STREAM_COMPUTE ? NULL : &schedule->copies[stream][operation.index];
}

const dao_swap_fence_t *dao_issue_order_fence(const dao_swap_schedule_t *schedule,
                                              dao_issue_operation_t operation)
{
    const dao_swap_copy_t *copy = dao_issue_order_copy(schedule, operation);
    return copy != NULL ? &copy->after : &schedule->kernel_after[operation.index];
}

dao_issue_place_t dao_issue_order_place(const dao_issue_order_t *order, dao_issue_operation_t operation)
{
    bool is_kernel = dao_issue_order_streams[operation.stream] == DAO_SWAP_STREAM_COMPUTE;
    return is_kernel ? order->kernels[operation.index]
                     : (dao_issue_place_t){operation.stream, operation.index};
}

/* Counts kernels of a lane where `done` counts all of them, the last of them one of the lane. */
static int64_t done_of_lane(const dao_issue_order_t *order, uint32_t lane, int32_t done)
{
    int64_t count = order->stream_counts[0], last = (int64_t)done - 1;
    int64_t step = last >= 0 ? last / count : -((count - 1 - last) / count);
    dao_issue_place_t place = order->kernels[last - step * count];
    DAO_ASSERT(place.lane == lane);
    return (int64_t)place.index + 1 + step * order->lane_counts[lane];
}

dao_fence_t dao_issue_order_fence_in_numbers(const dao_issue_order_t *order,
                                             const dao_swap_schedule_t *schedule,
                                             dao_issue_operation_t operation, dao_issue_number_t number_of,
                                             const void *user)
{
    const dao_swap_fence_t *after = dao_issue_order_fence(schedule, operation);
    uint32_t own = dao_issue_order_place(order, operation).lane;
    dao_fence_t fence = {0};
    for (uint32_t lane = 1; lane < DAO_ISSUE_ORDER_STREAM_COUNT; lane++) {
        int32_t done = after->done[dao_issue_order_streams[lane]];
        if (done != DAO_SWAP_NO_WAIT && lane != own) {
            dao_fence_add(&fence, dao_issue_order_roles[lane], number_of(user, lane, done));
        }
    }
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX; i++) {
        int32_t done = dao_swap_fence_kernels_done(after, i);
        uint32_t lane = lane_of(i);
        if (done != DAO_SWAP_NO_WAIT && lane != own && order->lane_counts[lane] > 0) {
            dao_fence_add(&fence, dao_issue_order_roles[lane],
                          number_of(user, lane, done_of_lane(order, lane, done)));
        }
    }
    return fence;
}

/* Returns true if all that a stream's next operation waits for is queued. */
static bool is_ready(const dao_swap_schedule_t *schedule, uint32_t stream, const uint32_t *next)
{
    const dao_swap_fence_t *after =
        dao_issue_order_fence(schedule, (dao_issue_operation_t){stream, next[stream]});
    for (uint32_t other = 1; other < DAO_ISSUE_ORDER_STREAM_COUNT; other++) {
        int32_t done = after->done[dao_issue_order_streams[other]];
        if (other != stream && done > 0 && (uint32_t)done > next[other]) {
            return false;
        }
    }
    int32_t kernels = dao_swap_fence_all_kernels(after);
    return kernels <= 0 || (uint32_t)kernels <= next[0];
}

static bool waits_for_write(const dao_swap_schedule_t *schedule, dao_issue_operation_t operation)
{
    return dao_issue_order_fence(schedule, operation)->done[DAO_SWAP_STREAM_FILE_OUT] != DAO_SWAP_NO_WAIT;
}

/* The stream whose next operation is queued now; DAO_ISSUE_ORDER_STREAM_COUNT if none can be. */
static uint32_t find_stream(const dao_issue_order_t *order, const dao_swap_schedule_t *schedule,
                            const dao_issue_order_times_t *times, const uint32_t *next)
{
    uint32_t first = DAO_ISSUE_ORDER_STREAM_COUNT;
    uint64_t first_ns = 0;
    for (uint32_t stream = DAO_ISSUE_ORDER_STREAM_COUNT; stream-- > 0;) {
        if (next[stream] == order->stream_counts[stream] || !is_ready(schedule, stream, next)) {
            continue;
        }
        bool is_kernel = dao_issue_order_streams[stream] == DAO_SWAP_STREAM_COMPUTE;
        if (times == NULL ||
            (!is_kernel && !waits_for_write(schedule, (dao_issue_operation_t){stream, next[stream]}))) {
            return stream;
        }
        uint64_t begin_ns = times->begin_ns[stream][next[stream]];
        if (first == DAO_ISSUE_ORDER_STREAM_COUNT || begin_ns < first_ns) {
            first = stream;
            first_ns = begin_ns;
        }
    }
    return first;
}

static uint32_t count_of(const dao_swap_schedule_t *schedule, uint32_t kernel_count, uint32_t stream)
{
    bool is_kernel = dao_issue_order_streams[stream] == DAO_SWAP_STREAM_COMPUTE;
    return is_kernel ? kernel_count : schedule->copy_count[dao_issue_order_streams[stream]];
}

dao_status_t dao_issue_order_times_init(dao_issue_order_times_t *times, const dao_swap_schedule_t *schedule,
                                        const dao_swap_problem_t *problem)
{
    dao_swap_play_t play = {.schedule = schedule,
                            .kernel_count = problem->kernel_count,
                            .step_count = TIMES_STEP_COUNT,
                            .host = &problem->host,
                            .file = &problem->file};
    size_t count = problem->kernel_count; /* their times come first */
    uint32_t *streams = dao_host_calloc(problem->kernel_count, sizeof(*streams));
    for (uint32_t stream = 0; stream < DAO_ISSUE_ORDER_STREAM_COUNT; stream++) {
        count += count_of(schedule, problem->kernel_count, stream);
    }
    uint64_t *next = times->memory = dao_host_calloc(count, sizeof(*times->memory));
    if (next == NULL || streams == NULL) {
        dao_host_free(streams);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the times of a plan's step");
    }
    memset(next, 0xff, count * sizeof(*next)); /* what has not begun by then comes last */
    play.kernel_times_ns = next;
    play.kernel_streams = streams;
    for (uint32_t i = 0; i < problem->kernel_count; i++) {
        *next++ = problem->kernels[i].time_ns;
        streams[i] = problem->kernels[i].stream;
    }
    for (uint32_t stream = 0; stream < DAO_ISSUE_ORDER_STREAM_COUNT; stream++) {
        times->begin_ns[stream] = play.begin_ns[dao_issue_order_streams[stream]] = next;
        next += count_of(schedule, problem->kernel_count, stream);
    }
    dao_swap_replay_t replay;
    bool ends = dao_swap_replay(&play, &replay);
    dao_host_free(streams);
    DAO_ASSERT(ends); /* the planner has played it */
    (void)ends;
    return DAO_OK;
}

void dao_issue_order_times_finish(dao_issue_order_times_t *times)
{
    dao_host_free(times->memory);
    times->memory = NULL;
}

/* Counts the operations of streams and lanes. False without memory. */
static bool count_all(dao_issue_order_t *order, const dao_swap_schedule_t *schedule,
                      const dao_swap_problem_t *problem)
{
    for (uint32_t stream = 0; stream < DAO_ISSUE_ORDER_STREAM_COUNT; stream++) {
        order->stream_counts[stream] = count_of(schedule, problem->kernel_count, stream);
        order->lane_counts[stream] = stream != 0 ? order->stream_counts[stream] : 0;
        order->count += order->stream_counts[stream];
    }
    order->operations = dao_host_calloc((size_t)order->count + 1, sizeof(*order->operations));
    order->kernels = dao_host_calloc((size_t)problem->kernel_count + 1, sizeof(*order->kernels));
    for (uint32_t k = 0; order->kernels != NULL && k < problem->kernel_count; k++) {
        uint32_t lane = lane_of(problem->kernels[k].stream);
        order->kernels[k] = (dao_issue_place_t){lane, order->lane_counts[lane]++};
    }
    return order->operations != NULL && order->kernels != NULL;
}

dao_status_t dao_issue_order_init(dao_issue_order_t *order, const dao_swap_schedule_t *schedule,
                                  const dao_swap_problem_t *problem, const dao_issue_order_times_t *times)
{
    uint32_t next[DAO_ISSUE_ORDER_STREAM_COUNT] = {0};
    *order = (dao_issue_order_t){.operations = NULL};
    if (!count_all(order, schedule, problem)) {
        dao_issue_order_finish(order);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the order of a plan's step");
    }
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t stream = find_stream(order, schedule, times, next);
        if (stream == DAO_ISSUE_ORDER_STREAM_COUNT) {
            dao_issue_order_finish(order);
            return dao_error(DAO_ERR_INVALID,
                             "the plan's step cannot be queued: an operation waits for a later one");
        }
        order->operations[i] = (dao_issue_operation_t){stream, next[stream]++};
    }
    DAO_ASSERT_HEAVY(dao_issue_order_is_valid(order));
    return DAO_OK;
}

bool dao_issue_order_is_valid(const dao_issue_order_t *order)
{
    uint32_t next[DAO_ISSUE_ORDER_STREAM_COUNT] = {0};
    for (uint32_t i = 0; i < order->count; i++) {
        dao_issue_operation_t operation = order->operations[i];
        if (operation.stream >= DAO_ISSUE_ORDER_STREAM_COUNT || operation.index != next[operation.stream]++) {
            return false;
        }
    }
    for (uint32_t stream = 0; stream < DAO_ISSUE_ORDER_STREAM_COUNT; stream++) {
        if (next[stream] != order->stream_counts[stream]) {
            return false;
        }
    }
    return true;
}

void dao_issue_order_finish(dao_issue_order_t *order)
{
    dao_host_free(order->operations);
    dao_host_free(order->kernels);
    order->operations = NULL;
    order->kernels = NULL;
}
