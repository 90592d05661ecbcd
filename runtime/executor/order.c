/* The queue order of a plan's step. Lanes of the plan as lanes of the timeline:

       plan       COMPUTE     HOST_IN     HOST_OUT    FILE_IN     FILE_OUT
       timeline   COMPUTE     H2D         D2H         STAGE_IN    STAGE_OUT

   With half duplex both directions are on HOST_IN. A thing is queued once all that its fence names of this step is queued,
   so that no event is waited for before it is recorded. Copies go before kernels: they wait on the device for what they
   need. Only for writes to the file the host waits, as they may fail: what comes after one is queued when kernels cannot go
   on without it. */
#include "runtime/executor/order.h"

#include "base/error.h"
#include "base/host.h"
#include "runtime/executor/fence.h"

const dao_swap_lane_t dao_order_lanes[DAO_ORDER_LANE_COUNT] = {
    DAO_SWAP_LANE_COMPUTE, DAO_SWAP_LANE_HOST_IN,  DAO_SWAP_LANE_HOST_OUT,
    DAO_SWAP_LANE_FILE_IN, DAO_SWAP_LANE_FILE_OUT,
};

const dao_stream_role_t dao_order_roles[DAO_ORDER_LANE_COUNT] = {
    DAO_STREAM_ROLE_COMPUTE, DAO_STREAM_ROLE_H2D, DAO_STREAM_ROLE_D2H, DAO_LANE_STAGE_IN, DAO_LANE_STAGE_OUT,
};

const dao_swap_copy_t *dao_order_copy(const dao_swap_schedule_t *schedule, dao_order_thing_t thing)
{
    dao_swap_lane_t lane = dao_order_lanes[thing.lane];
    return lane == DAO_SWAP_LANE_COMPUTE ? NULL : &schedule->copies[lane][thing.index];
}

const dao_swap_fence_t *dao_order_fence(const dao_swap_schedule_t *schedule, dao_order_thing_t thing)
{
    const dao_swap_copy_t *copy = dao_order_copy(schedule, thing);
    return copy != NULL ? &copy->after : &schedule->kernel_after[thing.index];
}

/* Tells whether all that a lane's next thing waits for is queued. */
static bool is_ready(const dao_swap_schedule_t *schedule, uint32_t lane, const uint32_t *next)
{
    const dao_swap_fence_t *after = dao_order_fence(schedule, (dao_order_thing_t){lane, next[lane]});
    for (uint32_t other = 0; other < DAO_ORDER_LANE_COUNT; other++) {
        int32_t done = after->done[dao_order_lanes[other]];
        if (other != lane && done > 0 && (uint32_t)done > next[other]) {
            return false;
        }
    }
    return true;
}

/* Tells whether a thing waits for a write to the file in the same step. */
static bool waits_for_write(const dao_swap_schedule_t *schedule, dao_order_thing_t thing)
{
    return dao_order_fence(schedule, thing)->done[DAO_SWAP_LANE_FILE_OUT] > 0;
}

/* The lane whose next thing is queued now; DAO_ORDER_LANE_COUNT if none can be. */
static uint32_t find_lane(const dao_order_t *order, const dao_swap_schedule_t *schedule, const uint32_t *next)
{
    uint32_t waiting = DAO_ORDER_LANE_COUNT;
    for (uint32_t lane = DAO_ORDER_LANE_COUNT; lane-- > 0;) {
        if (next[lane] < order->lane_counts[lane] && is_ready(schedule, lane, next)) {
            if (!waits_for_write(schedule, (dao_order_thing_t){lane, next[lane]})) {
                return lane;
            }
            waiting = lane;
        }
    }
    return waiting;
}

dao_status_t dao_order_init(dao_order_t *order, const dao_swap_schedule_t *schedule, uint32_t kernel_count)
{
    uint32_t next[DAO_ORDER_LANE_COUNT] = {0};
    *order = (dao_order_t){.things = NULL};
    for (uint32_t lane = 0; lane < DAO_ORDER_LANE_COUNT; lane++) {
        bool is_kernel = dao_order_lanes[lane] == DAO_SWAP_LANE_COMPUTE;
        order->lane_counts[lane] = is_kernel ? kernel_count : schedule->copy_count[dao_order_lanes[lane]];
        order->count += order->lane_counts[lane];
    }
    order->things = dao_host_calloc((size_t)order->count + 1, sizeof(*order->things));
    if (order->things == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the order of a plan's step");
    }
    for (uint32_t i = 0; i < order->count; i++) {
        uint32_t lane = find_lane(order, schedule, next);
        if (lane == DAO_ORDER_LANE_COUNT) {
            dao_order_finish(order);
            return dao_error(DAO_ERR_INVALID,
                             "the plan's step cannot be queued: a thing waits for a later one");
        }
        order->things[i] = (dao_order_thing_t){lane, next[lane]++};
    }
    return DAO_OK;
}

void dao_order_finish(dao_order_t *order)
{
    dao_host_free(order->things);
    order->things = NULL;
}
