/* Measuring a step.

       compute lane   ... end(n-1) | waits | begin(n) kernel n end(n) ...
                                   <-gap--><-------- time ----------->

   Ends are the timeline's events, begins are the meter's own, recorded behind the waits. A gap is put down to the copy that
   the kernel waited for and that ended last, or to the host if that was before the gap. Events are used again after
   DAO_TIMELINE_SLOTS operations: what is looked at later than that spoils the measurement. */
#include "runtime/executor/meter.h"

#include "base/assert.h"
#include "base/host.h"
#include "base/math.h"

#include <string.h>

/* Kernels that the list of times holds at first. */
#define KERNELS_AT_FIRST 256u

void dao_meter_init(dao_meter_t *meter, dao_timeline_t *timeline)
{
    *meter = (dao_meter_t){.timeline = timeline};
}

void dao_meter_finish(dao_meter_t *meter)
{
    for (int lane = 0; lane < DAO_STREAM_ROLE_COUNT; lane++) {
        for (uint32_t i = 0; meter->slots[lane] != NULL && i < DAO_TIMELINE_SLOTS; i++) {
            if (meter->slots[lane][i].begin != NULL) {
                meter->timeline->ops->event_destroy(meter->slots[lane][i].begin);
            }
        }
        dao_host_free(meter->slots[lane]);
    }
    dao_host_free(meter->kernel_ns);
    *meter = (dao_meter_t){.timeline = NULL};
}

static bool has_slots(dao_meter_t *meter)
{
    bool has_all = true;
    for (int lane = 0; lane < DAO_STREAM_ROLE_COUNT; lane++) {
        if (meter->slots[lane] == NULL) {
            meter->slots[lane] = dao_host_calloc(DAO_TIMELINE_SLOTS, sizeof(dao_meter_slot_t));
        }
        has_all = has_all && meter->slots[lane] != NULL;
    }
    return has_all;
}

void dao_meter_start(dao_meter_t *meter)
{
    DAO_ASSERT(meter->state == DAO_METER_IDLE);
    if (!has_slots(meter)) {
        return;
    }
    meter->state = DAO_METER_RUNNING;
    meter->is_spoilt = false;
    meter->kernel_count = 0;
    meter->step_ns = 0;
    memset(meter->stall_ns, 0, sizeof(meter->stall_ns));
    memset(meter->links, 0, sizeof(meter->links));
    for (int lane = 0; lane < DAO_STREAM_ROLE_COUNT; lane++) {
        meter->next[lane] = meter->timeline->lanes[lane].issued + 1;
    }
}

void dao_meter_stop(dao_meter_t *meter)
{
    DAO_ASSERT(meter->state == DAO_METER_RUNNING);
    for (int lane = 0; lane < DAO_STREAM_ROLE_COUNT; lane++) {
        meter->end[lane] = meter->timeline->lanes[lane].issued;
    }
    meter->state = DAO_METER_DRAINING;
}

void dao_meter_reset(dao_meter_t *meter)
{
    meter->state = DAO_METER_IDLE;
}

static dao_meter_slot_t *slot_of(const dao_meter_t *meter, int lane, uint64_t sequence)
{
    return &meter->slots[lane][sequence & (DAO_TIMELINE_SLOTS - 1)];
}

/* Records the begin of the operation that is queued next on a lane; NULL: it is not measured. */
static dao_meter_slot_t *begin(dao_meter_t *meter, dao_stream_role_t lane_index)
{
    const dao_timeline_t *timeline = meter->timeline;
    const dao_lane_t *lane = &timeline->lanes[lane_index];
    if (meter->state != DAO_METER_IDLE &&
        lane->issued + 1 - meter->next[lane_index] >= DAO_TIMELINE_DEPTH / 2) {
        dao_meter_collect(meter); /* before events are used again */
    }
    if (meter->state != DAO_METER_RUNNING) {
        return NULL;
    }
    dao_meter_slot_t *slot = slot_of(meter, (int)lane_index, lane->issued + 1);
    slot->sequence = 0;
    if ((slot->begin == NULL &&
         timeline->ops->event_create(timeline->device, true, &slot->begin) != DAO_OK) ||
        timeline->ops->event_record(slot->begin, lane->stream) != DAO_OK) {
        meter->is_spoilt = true;
        return NULL;
    }
    slot->sequence = lane->issued + 1;
    return slot;
}

void dao_meter_before_kernel(dao_meter_t *meter, uint32_t kernel, const dao_fence_t *fence)
{
    dao_meter_slot_t *slot = begin(meter, DAO_STREAM_ROLE_COMPUTE);
    if (slot != NULL) {
        slot->kernel = kernel;
        slot->fence = *fence;
    }
}

void dao_meter_before_copy(dao_meter_t *meter, dao_stream_role_t lane, uint64_t size_bytes)
{
    dao_meter_slot_t *slot = begin(meter, lane);
    if (slot != NULL) {
        slot->size_bytes = size_bytes;
    }
}

void dao_meter_after(dao_meter_t *meter, dao_stream_role_t lane_index)
{
    const dao_lane_t *lane = &meter->timeline->lanes[lane_index];
    if (meter->state == DAO_METER_RUNNING && lane->recorded != lane->issued) {
        meter->is_spoilt = true; /* there is no event behind it */
        slot_of(meter, (int)lane_index, lane->issued)->sequence = 0;
    }
}

/* The event behind an operation, if it is still that of this operation. */
static dao_backend_event_t *event_of(const dao_meter_t *meter, int lane_index, uint64_t sequence)
{
    const dao_lane_t *lane = &meter->timeline->lanes[lane_index];
    bool is_kept = sequence > 0 && sequence <= lane->issued && lane->issued - sequence < DAO_TIMELINE_SLOTS;
    return is_kept ? lane->events[sequence & (DAO_TIMELINE_SLOTS - 1)] : NULL;
}

/* Nanoseconds between two events of a lane; what the device cannot tell spoils the measurement. */
static uint64_t elapsed(dao_meter_t *meter, dao_backend_event_t *from, dao_backend_event_t *to)
{
    int64_t ns = 0;
    if (meter->timeline->ops->event_elapsed(from, to, &ns) != DAO_OK) {
        meter->is_spoilt = true;
    }
    return ns > 0 ? (uint64_t)ns : 0;
}

static void note_gap(dao_meter_t *meter, const dao_meter_slot_t *slot, uint64_t gap_ns)
{
    static const struct {
        dao_stream_role_t lane;
        dao_stall_cause_t cause;
    } others[] = {{DAO_STREAM_ROLE_H2D, DAO_STALL_CAUSE_IN},
                  {DAO_LANE_STAGE_IN, DAO_STALL_CAUSE_IN},
                  {DAO_STREAM_ROLE_D2H, DAO_STALL_CAUSE_OUT},
                  {DAO_LANE_STAGE_OUT, DAO_STALL_CAUSE_OUT}};
    dao_stall_cause_t cause = DAO_STALL_CAUSE_HOST;
    uint64_t least_ns = gap_ns;
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        dao_backend_event_t *event =
            event_of(meter, (int)others[i].lane, slot->fence.sequence[others[i].lane]);
        int64_t since_ns = 0;
        if (event != NULL && meter->timeline->ops->event_elapsed(event, slot->begin, &since_ns) == DAO_OK &&
            since_ns >= 0 && (uint64_t)since_ns < least_ns) {
            least_ns = (uint64_t)since_ns;
            cause = others[i].cause;
        }
    }
    meter->stall_ns[cause] += gap_ns;
    meter->step_ns += gap_ns;
}

static void note_kernel(dao_meter_t *meter, const dao_meter_slot_t *slot, uint64_t time_ns)
{
    if (slot->kernel >= meter->kernel_capacity) {
        uint32_t capacity = meter->kernel_capacity == 0 ? KERNELS_AT_FIRST : 2 * meter->kernel_capacity;
        capacity = capacity > slot->kernel ? capacity : slot->kernel + 1;
        uint64_t *times = dao_host_realloc(meter->kernel_ns, capacity, sizeof(*times));
        if (times == NULL) {
            meter->is_spoilt = true;
            return;
        }
        meter->kernel_ns = times;
        meter->kernel_capacity = capacity;
    }
    meter->kernel_ns[slot->kernel] = time_ns;
    meter->kernel_count = slot->kernel + 1;
    meter->step_ns += time_ns;
}

void dao_meter_link_note(dao_meter_link_t *link, uint64_t size_bytes, uint64_t time_ns)
{
    double bytes = (double)size_bytes;
    double ns = (double)time_ns;
    link->count++;
    link->bytes += bytes;
    link->ns += ns;
    link->bytes_bytes += bytes * bytes;
    link->bytes_ns += bytes * ns;
}

static void look_at(dao_meter_t *meter, int lane, uint64_t sequence)
{
    const dao_meter_slot_t *slot = slot_of(meter, lane, sequence);
    dao_backend_event_t *end = event_of(meter, lane, sequence);
    if (end == NULL) {
        meter->is_spoilt = true;
        return;
    }
    if (slot->sequence != sequence) {
        return; /* nobody asked to measure it: a fill, a request of the program */
    }
    uint64_t time_ns = elapsed(meter, slot->begin, end);
    if (lane != DAO_STREAM_ROLE_COMPUTE) {
        dao_meter_link_note(&meter->links[lane], slot->size_bytes, time_ns);
        return;
    }
    dao_backend_event_t *before = event_of(meter, lane, sequence - 1);
    note_gap(meter, slot, before != NULL ? elapsed(meter, before, slot->begin) : 0);
    note_kernel(meter, slot, time_ns);
}

void dao_meter_collect(dao_meter_t *meter)
{
    bool is_done = meter->state == DAO_METER_DRAINING;
    if (meter->state != DAO_METER_RUNNING && meter->state != DAO_METER_DRAINING) {
        return;
    }
    for (int i = 0; i < DAO_STREAM_ROLE_COUNT; i++) {
        const dao_lane_t *lane = &meter->timeline->lanes[i];
        uint64_t end = meter->state == DAO_METER_RUNNING ? lane->issued : meter->end[i];
        for (; meter->next[i] <= end && meter->next[i] <= lane->completed; meter->next[i]++) {
            look_at(meter, i, meter->next[i]);
        }
        is_done = is_done && meter->next[i] > end;
    }
    if (is_done) {
        meter->state = DAO_METER_DONE;
    }
}

void dao_meter_link_speed(const dao_meter_link_t *link, uint64_t *out_bytes_per_second,
                          uint64_t *out_latency_ns)
{
    double count = (double)link->count;
    double spread = count * link->bytes_bytes - link->bytes * link->bytes;
    double product = count * link->bytes_ns - link->bytes * link->ns;
    double ns_per_byte = spread > 0 ? product / spread : 0;
    double latency_ns = (link->ns - ns_per_byte * link->bytes) / count;
    DAO_ASSERT(link->count > 0);
    if (ns_per_byte <= 0 ||
        latency_ns < 0) { /* sizes are alike, or noise is larger than what they differ by */
        ns_per_byte = link->ns / link->bytes;
        latency_ns = 0;
    }
    double bytes_per_second = ns_per_byte > 0 ? (double)DAO_NS_PER_S / ns_per_byte : (double)DAO_NS_PER_S;
    *out_bytes_per_second = bytes_per_second >= 1 ? (uint64_t)bytes_per_second : 1;
    *out_latency_ns = (uint64_t)latency_ns;
}
