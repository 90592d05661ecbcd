/* SPDX-License-Identifier: Apache-2.0 */
/* One walk over the operators, with a clock for kernels and one for the link:

       begin of op i     copies that have ended are noted; copies for this point are queued
                         its outputs and temporaries take memory; it runs
       end of op i       temporaries and releases give memory back; its maps go out

   The life of a map:

       HERE --queued--> GOING --ended, no forward use--> AWAY --called for--> COMING --ended--> HERE
         ^                |
         +--- called for -+    before it left: it stays

   Invariants: `live_bytes` are the sizes of all tensors that are there, and of maps that come; copies end in
   the order in which they are queued. */
#include "tools/simulate/swap_maps.h"

#include "base/numbers/math.h"
#include "tools/base/grow.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef enum map_state { MAP_HERE, MAP_GOING, MAP_AWAY, MAP_COMING } map_state_t;

typedef struct map {
    uint32_t tensor;
    uint32_t written_by;   /* the last forward operator that writes it */
    uint32_t last_forward; /* the last one that uses it */
    uint32_t first_backward;
    bool is_chosen; /* it goes */
    map_state_t state;
    uint64_t end_ns; /* of its latest copy */
} map_t;

typedef struct walk {
    const dao_step_trace_t *trace;
    const dao_swap_maps_config_t *config;
    map_t *maps;        /* in the order of first_backward */
    uint32_t *by_write; /* the same maps in the order of written_by */
    uint32_t map_count;
    uint32_t next_write,
        next_call; /* first in by_write that has not been queued, in maps that was not called for */
    uint64_t now_ns, link_ns;
    uint64_t live_bytes;
    dao_simulation_t *simulation;
    dao_swap_maps_result_t *result;
} walk_t;

/* ---- maps ---- */

static int compare_calls(const void *a, const void *b)
{
    const map_t *left = a;
    const map_t *right = b;
    if (left->first_backward != right->first_backward) {
        return left->first_backward < right->first_backward ? -1 : 1;
    }
    return left->tensor < right->tensor ? -1 : 1;
}

/* Notes in `uses` which operators use each tensor. */
static void note_uses(const dao_step_trace_t *trace, uint32_t threshold, map_t *uses)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        uses[i] = (map_t){.tensor = i,
                          .written_by = DAO_TRACE_NONE,
                          .last_forward = DAO_TRACE_NONE,
                          .first_backward = DAO_TRACE_NONE};
    }
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        const dao_trace_operator_t *op = &trace->operators[i];
        for (size_t k = 0; k < op->operands.count; k++) {
            const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + k];
            map_t *map = &uses[operand->tensor];
            if (i <= threshold) {
                map->written_by = operand->access != DAO_ACCESS_READ ? i : map->written_by;
                map->last_forward = i;
            } else if (map->first_backward == DAO_TRACE_NONE) {
                map->first_backward = i;
            }
        }
    }
}

/* Maps are needed in about the opposite order, so that few are out of place in this one. */
static void sort_by_write(walk_t *walk)
{
    for (uint32_t i = 0; i < walk->map_count; i++) {
        uint32_t moved = walk->map_count - 1 - i;
        uint32_t at = i;
        while (at > 0 && walk->maps[walk->by_write[at - 1]].written_by > walk->maps[moved].written_by) {
            walk->by_write[at] = walk->by_write[at - 1];
            at--;
        }
        walk->by_write[at] = moved;
    }
}

/* Those that are written forward and used backward, in the order in which they are needed. */
static dao_status_t find_maps(walk_t *walk)
{
    const dao_step_trace_t *trace = walk->trace;
    walk->maps = dao_host_calloc(trace->tensor_count + 1, sizeof(*walk->maps));
    walk->by_write = dao_host_calloc(trace->tensor_count + 1, sizeof(*walk->by_write));
    if (walk->maps == NULL || walk->by_write == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu tensors", trace->tensor_count);
    }
    note_uses(trace, walk->config->threshold, walk->maps);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const map_t *map = &walk->maps[i];
        if (map->written_by != DAO_TRACE_NONE && map->first_backward != DAO_TRACE_NONE &&
            trace->tensors[i].size_bytes > 0) {
            walk->maps[walk->map_count++] = *map;
        }
    }
    qsort(walk->maps, walk->map_count, sizeof(*walk->maps), compare_calls);
    sort_by_write(walk);
    return DAO_OK;
}

/* Those that are needed last go: `count` of them. */
static void choose_maps(walk_t *walk, uint32_t count)
{
    walk->result->map_count = count;
    walk->result->map_bytes = 0;
    for (uint32_t i = 0; i < walk->map_count; i++) {
        map_t *map = &walk->maps[i];
        map->is_chosen = walk->map_count - i <= count;
        map->state = MAP_HERE;
        walk->result->map_bytes += map->is_chosen ? walk->trace->tensors[map->tensor].size_bytes : 0;
    }
}

/* ---- the link ---- */

static dao_status_t add_span(dao_sim_span_t **spans, size_t *count, size_t *capacity, dao_sim_span_t span)
{
    dao_sim_span_t *grown = dao_tool_grow(*spans, capacity, *count, sizeof(*grown));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    *spans = grown;
    grown[(*count)++] = span;
    return DAO_OK;
}

static uint64_t copy_ns(const walk_t *walk, const map_t *map, bool is_in)
{
    uint64_t rate = is_in ? walk->config->in_bytes_per_second : walk->config->out_bytes_per_second;
    return walk->config->latency_ns + dao_transfer_ns(walk->trace->tensors[map->tensor].size_bytes, rate);
}

/* Queues a copy behind all others. */
static dao_status_t queue_copy(walk_t *walk, map_t *map, bool is_in)
{
    uint64_t size_bytes = walk->trace->tensors[map->tensor].size_bytes;
    uint64_t begin_ns = walk->link_ns > walk->now_ns ? walk->link_ns : walk->now_ns;
    map->end_ns = begin_ns + copy_ns(walk, map, is_in);
    map->state = is_in ? MAP_COMING : MAP_GOING;
    walk->link_ns = map->end_ns;
    *(is_in ? &walk->result->in_bytes : &walk->result->out_bytes) += size_bytes;
    dao_sim_span_t span = {.kind = is_in ? DAO_SIM_SPAN_IN : DAO_SIM_SPAN_OUT,
                           .begin_ns = begin_ns,
                           .end_ns = map->end_ns,
                           .size_bytes = size_bytes};
    dao_simulation_t *simulation = walk->simulation;
    return simulation == NULL
               ? DAO_OK
               : add_span(&simulation->copies, &simulation->copy_count, &simulation->copy_capacity, span);
}

/* ---- memory ---- */

static void take(walk_t *walk, uint64_t size_bytes)
{
    walk->live_bytes += size_bytes;
    if (walk->live_bytes > walk->result->peak_bytes) {
        walk->result->peak_bytes = walk->live_bytes;
    }
}

/* What has ended by now: maps that are out leave, unless a forward operator from `index` on uses them. */
static void note_ends(walk_t *walk, uint32_t index)
{
    for (uint32_t i = 0; i < walk->next_write; i++) {
        map_t *map = &walk->maps[walk->by_write[i]];
        if (map->state == MAP_GOING && map->end_ns <= walk->now_ns && map->last_forward < index) {
            map->state = MAP_AWAY;
            walk->live_bytes -= walk->trace->tensors[map->tensor].size_bytes;
        }
    }
    for (uint32_t i = 0; i < walk->next_call; i++) {
        map_t *map = &walk->maps[i];
        map->state = map->state == MAP_COMING && map->end_ns <= walk->now_ns ? MAP_HERE : map->state;
    }
}

/* ---- copies, when their point has come ---- */

/* Maps whose last write was operator `index` or before it go out. */
static dao_status_t send_written(walk_t *walk, uint32_t index)
{
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && walk->next_write < walk->map_count &&
           walk->maps[walk->by_write[walk->next_write]].written_by <= index) {
        map_t *map = &walk->maps[walk->by_write[walk->next_write++]];
        bool was_called = map < walk->maps + walk->next_call;
        status = map->is_chosen && !was_called ? queue_copy(walk, map, false) : DAO_OK;
    }
    return status;
}

/* The next map is called for; one that has not left stays. */
static dao_status_t call_next(walk_t *walk)
{
    map_t *map = &walk->maps[walk->next_call++];
    if (map->state != MAP_AWAY) {
        map->state = MAP_HERE;
        return DAO_OK;
    }
    take(walk, walk->trace->tensors[map->tensor].size_bytes);
    return queue_copy(walk, map, true);
}

/* Maps that operators up to `index` use are called for. */
static dao_status_t call_for(walk_t *walk, uint32_t index)
{
    dao_status_t status = DAO_OK;
    while (status == DAO_OK && walk->next_call < walk->map_count &&
           walk->maps[walk->next_call].first_backward <= index) {
        status = call_next(walk);
    }
    return status;
}

/* async: how many maps have to be called for at the begin of operator `index`, because calling at the begin
   of the next one would be too late: latest begins are counted back from the last map, on a link that copies
   one at a time. */
static uint32_t count_due(const walk_t *walk, uint32_t index, const uint64_t *cost_before_ns)
{
    uint64_t next_begin_ns = walk->now_ns + cost_before_ns[index + 1] - cost_before_ns[index];
    uint64_t latest_ns = UINT64_MAX;
    uint32_t due = walk->next_call;
    for (uint32_t i = walk->map_count; i > walk->next_call; i--) {
        const map_t *map = &walk->maps[i - 1];
        uint64_t need_ns = walk->now_ns + cost_before_ns[map->first_backward] - cost_before_ns[index];
        uint64_t end_ns = need_ns < latest_ns ? need_ns : latest_ns;
        uint64_t copied_ns = map->state == MAP_AWAY ? copy_ns(walk, map, true) : 0;
        latest_ns = end_ns > copied_ns ? end_ns - copied_ns : 0;
        if (latest_ns < next_begin_ns && due == walk->next_call) {
            due = i;
        }
    }
    return due - walk->next_call;
}

static dao_status_t call_due(walk_t *walk, uint32_t index, const uint64_t *cost_before_ns)
{
    dao_status_t status = DAO_OK;
    for (uint32_t count = count_due(walk, index, cost_before_ns); status == DAO_OK && count > 0; count--) {
        status = call_next(walk);
    }
    return status;
}

/* Kernels wait for the maps that they read. */
static void wait_for_maps(walk_t *walk, uint32_t index)
{
    for (uint32_t i = walk->next_call; i > 0 && walk->maps[i - 1].first_backward >= index; i--) {
        const map_t *map = &walk->maps[i - 1];
        if (map->first_backward == index && map->state == MAP_COMING && map->end_ns > walk->now_ns) {
            walk->now_ns = map->end_ns;
        }
    }
}

/* ---- operators ---- */

static dao_status_t compute(walk_t *walk, uint32_t index)
{
    const dao_step_trace_t *trace = walk->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = 0; i < op->operands.count; i++) {
        const dao_trace_tensor_t *tensor = &trace->tensors[trace->operands[op->operands.begin + i].tensor];
        take(walk, tensor->producer == index ? tensor->size_bytes : 0);
    }
    for (size_t i = 0; i < op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        uint64_t size_bytes = trace->temporaries[op->temporaries.begin + event->temporary].size_bytes;
        take(walk, event->is_alloc ? size_bytes : 0);
    }
    uint64_t begin_ns = walk->now_ns;
    walk->now_ns += op->cost_ns;
    for (size_t i = 0; i < op->temporaries.count; i++) {
        walk->live_bytes -= trace->temporaries[op->temporaries.begin + i].size_bytes;
    }
    dao_sim_span_t span = {.kind = DAO_SIM_SPAN_WORK, .begin_ns = begin_ns, .end_ns = walk->now_ns};
    dao_simulation_t *simulation = walk->simulation;
    return simulation == NULL ? DAO_OK
                              : add_span(&simulation->kernels, &simulation->kernel_count,
                                         &simulation->kernel_capacity, span);
}

/* A map that is away takes no memory; it can only be one without a later use. */
static void release(walk_t *walk, uint32_t index)
{
    const dao_step_trace_t *trace = walk->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = 0; i < op->releases.count; i++) {
        walk->live_bytes -= trace->tensors[trace->releases[op->releases.begin + i]].size_bytes;
    }
}

static dao_status_t run_sync(walk_t *walk, uint32_t index)
{
    dao_status_t status = index > walk->config->threshold ? call_for(walk, index) : DAO_OK;
    walk->now_ns = walk->link_ns > walk->now_ns ? walk->link_ns : walk->now_ns;
    note_ends(walk, index);
    status = status == DAO_OK ? compute(walk, index) : status;
    release(walk, index);
    status = status == DAO_OK ? send_written(walk, index) : status;
    walk->now_ns = walk->link_ns > walk->now_ns ? walk->link_ns : walk->now_ns;
    note_ends(walk, index + 1);
    return status;
}

static dao_status_t run_half_sync(walk_t *walk, uint32_t index)
{
    dao_status_t status = index > 0 ? send_written(walk, index - 1) : DAO_OK;
    if (status == DAO_OK && index >= walk->config->threshold) {
        status = call_for(walk, index + 1);
    }
    status = status == DAO_OK ? compute(walk, index) : status;
    release(walk, index);
    walk->now_ns = walk->link_ns > walk->now_ns ? walk->link_ns : walk->now_ns;
    note_ends(walk, index + 1);
    return status;
}

static dao_status_t run_async(walk_t *walk, uint32_t index, const uint64_t *cost_before_ns)
{
    dao_status_t status = DAO_OK;
    note_ends(walk, index);
    if (index > walk->config->threshold) {
        status = call_due(walk, index, cost_before_ns);
        wait_for_maps(walk, index);
        note_ends(walk, index);
    }
    status = status == DAO_OK ? compute(walk, index) : status;
    release(walk, index);
    return status == DAO_OK ? send_written(walk, index) : status;
}

/* ---- the step ---- */

static uint64_t bytes_before(const dao_step_trace_t *trace)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < trace->tensor_count; i++) {
        bytes += trace->tensors[i].producer == DAO_TRACE_NONE ? trace->tensors[i].size_bytes : 0;
    }
    return bytes;
}

/* Runs the step with so many maps on their way. */
static dao_status_t run(walk_t *walk, uint32_t map_count, const uint64_t *cost_before_ns)
{
    uint32_t count = (uint32_t)walk->trace->operator_count;
    dao_status_t status = DAO_OK;
    *walk->result = (dao_swap_maps_result_t){.compute_ns = cost_before_ns[count]};
    walk->next_write = walk->next_call = 0;
    walk->now_ns = walk->link_ns = walk->live_bytes = 0;
    choose_maps(walk, map_count);
    take(walk, bytes_before(walk->trace));
    for (uint32_t i = 0; status == DAO_OK && i < count; i++) {
        switch (walk->config->mode) {
        case DAO_SWAP_MAPS_SYNC:
            status = run_sync(walk, i);
            break;
        case DAO_SWAP_MAPS_HALF_SYNC:
            status = run_half_sync(walk, i);
            break;
        case DAO_SWAP_MAPS_ASYNC:
            status = run_async(walk, i, cost_before_ns);
            break;
        }
    }
    walk->result->step_ns = walk->now_ns;
    return status;
}

/* The fewest maps that keep the capacity, by halving: more maps mean less memory but for a few that come
   early. */
static dao_status_t fit(walk_t *walk, const uint64_t *cost_before_ns, uint32_t *out_count)
{
    uint64_t capacity_bytes = walk->config->capacity_bytes;
    uint32_t enough = walk->map_count;
    uint32_t too_few = 0;
    dao_status_t status = run(walk, enough, cost_before_ns);
    if (status == DAO_OK && capacity_bytes != UINT64_MAX && walk->result->peak_bytes > capacity_bytes) {
        return dao_error(DAO_ERR_LIMIT,
                         "with every feature map on its way the step still takes %" PRIu64
                         " bytes at its peak, more than the capacity of %" PRIu64,
                         walk->result->peak_bytes, capacity_bytes);
    }
    while (status == DAO_OK && capacity_bytes != UINT64_MAX && too_few < enough) {
        uint32_t middle = too_few + (enough - too_few) / 2;
        status = run(walk, middle, cost_before_ns);
        if (walk->result->peak_bytes <= capacity_bytes) {
            enough = middle;
        } else {
            too_few = middle + 1;
        }
    }
    *out_count = enough;
    return status;
}

static dao_status_t check(const dao_step_trace_t *trace, const dao_swap_maps_config_t *config)
{
    if (config->threshold >= trace->operator_count) {
        return dao_error(DAO_ERR_INVALID, "the forward pass cannot end at operator %" PRIu32 " of %zu",
                         config->threshold, trace->operator_count);
    }
    return DAO_OK;
}

static void finish_simulation(const walk_t *walk)
{
    dao_simulation_t *simulation = walk->simulation;
    const dao_swap_maps_result_t *result = walk->result;
    simulation->step_count = 1;
    simulation->first_step_ns = simulation->step_ns = result->step_ns;
    simulation->compute_ns = result->compute_ns;
    simulation->in_bytes = result->in_bytes;
    simulation->out_bytes = result->out_bytes;
}

dao_status_t dao_swap_maps(const dao_step_trace_t *trace, const dao_swap_maps_config_t *config,
                           dao_simulation_t *simulation, dao_swap_maps_result_t *out_result)
{
    dao_swap_maps_result_t result;
    walk_t walk = {.trace = trace, .config = config, .result = &result};
    uint32_t map_count = 0;
    dao_status_t status = check(trace, config);
    uint64_t *cost_before_ns =
        status == DAO_OK ? dao_host_calloc(trace->operator_count + 1, sizeof(*cost_before_ns)) : NULL;
    if (status == DAO_OK) {
        status = cost_before_ns != NULL ? find_maps(&walk)
                                        : dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu operators",
                                                    trace->operator_count);
    }
    for (size_t i = 0; status == DAO_OK && i < trace->operator_count; i++) {
        cost_before_ns[i + 1] = cost_before_ns[i] + trace->operators[i].cost_ns;
    }
    status = status == DAO_OK ? fit(&walk, cost_before_ns, &map_count) : status;
    if (status == DAO_OK) {
        walk.simulation = simulation;
        status = run(&walk, map_count, cost_before_ns);
    }
    if (status == DAO_OK) {
        *out_result = result;
        if (simulation != NULL) {
            finish_simulation(&walk);
        }
    }
    dao_host_free(cost_before_ns);
    dao_host_free(walk.maps);
    dao_host_free(walk.by_write);
    return status;
}
