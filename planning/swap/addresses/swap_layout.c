/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors with their times become buffers for the offset planner, whose period is the step.

       tensor   in============free        in====free
       head     |--------------|          |------|
       tail     |---free  in---|          |------|

   Each box is a residency interval: between two of them nothing of the tensor is on the device. Each becomes
   a buffer. A tail that leaves alone becomes a gap in the bytes of the buffer.

   A tensor of which always some part is there has one endless residency interval: its buffer lives for a
   whole period. A gap takes one range of bytes at a time; of several parts that are gone the longest run
   counts. Parts leave from the tail on, so that is nearly always all of them. */
#include "planning/swap/addresses/swap_layout.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/addresses/swap_pages.h"

#include <stdlib.h>
#include <string.h>

/* A part of a residency interval that is not there from `from_ns` to `to_ns`. */
typedef struct absence {
    int64_t from_ns, to_ns;
    uint32_t part; /* of the tensor, from 0 */
} absence_t;

typedef struct layout_builder {
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    const dao_swap_decision_t *decisions;
    const dao_swap_timing_t *timing;
    dao_swap_layout_t *layout;
    dao_plan_buffer_t
        *buffers; /* of each residency interval; once the endless ones are out, of those that are left */
    uint32_t *residency_of_buffer; /* of those */
    uint64_t *offsets;             /* of those, above the endless ones */
    uint32_t buffer_count;
    dao_plan_gap_t *holes;
    size_t hole_count, hole_capacity;
    absence_t *absences; /* of the residency interval at hand */
    size_t absence_count, absence_capacity;
    int64_t *cuts; /* times at which the parts that are there change */
    bool *is_gone; /* of each part of the tensor at hand */
    size_t cut_capacity;
} layout_builder_t;

static uint32_t part_count(const layout_builder_t *builder, uint32_t tensor)
{
    return builder->parts->first[tensor + 1] - builder->parts->first[tensor];
}

/* Returns true if at some time of the inactive period behind an access nothing of the tensor is on the
   device. */
static bool goes_as_a_whole(const layout_builder_t *builder, uint32_t access)
{
    const dao_swap_access_t *one = &builder->step->accesses[access];
    uint32_t first = builder->parts->first_inactive[access], end = first + part_count(builder, one->tensor);
    int64_t free_ns = INT64_MIN, taken_ns = INT64_MAX;
    for (uint32_t g = first; g < end; g++) {
        if (!dao_swap_is_absent(one, &builder->decisions[g])) {
            return false;
        }
        const dao_swap_moment_t *moment = &builder->timing->moments[g];
        free_ns = moment->free_ns > free_ns ? moment->free_ns : free_ns;
        taken_ns = moment->taken_ns < taken_ns ? moment->taken_ns : taken_ns;
    }
    return free_ns <= taken_ns;
}

static bool add_absence(layout_builder_t *builder, int64_t from_ns, int64_t to_ns, uint32_t part)
{
    if (from_ns >= to_ns) {
        return true;
    }
    if (builder->absence_count == builder->absence_capacity) {
        size_t capacity = builder->absence_capacity == 0 ? 64 : 2 * builder->absence_capacity;
        absence_t *absences = dao_host_realloc(builder->absences, capacity, sizeof(*absences));
        if (absences == NULL) {
            return false;
        }
        builder->absences = absences;
        builder->absence_capacity = capacity;
    }
    builder->absences[builder->absence_count++] = (absence_t){from_ns, to_ns, part};
    return true;
}

static bool add_hole(layout_builder_t *builder, const dao_plan_gap_t *hole)
{
    if (builder->hole_count > 0) { /* goes on with the same bytes */
        dao_plan_gap_t *last = &builder->holes[builder->hole_count - 1];
        if (last->buffer == hole->buffer && last->end_time == hole->begin_time &&
            last->low_byte == hole->low_byte && last->high_byte == hole->high_byte) {
            last->end_time = hole->end_time;
            return true;
        }
    }
    if (builder->hole_count == builder->hole_capacity) {
        size_t capacity = builder->hole_capacity == 0 ? 64 : 2 * builder->hole_capacity;
        dao_plan_gap_t *holes = dao_host_realloc(builder->holes, capacity, sizeof(*holes));
        if (holes == NULL) {
            return false;
        }
        builder->holes = holes;
        builder->hole_capacity = capacity;
    }
    builder->holes[builder->hole_count++] = *hole;
    return true;
}

static int compare_times(const void *left, const void *right)
{
    int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
    return (a > b) - (a < b);
}

/* The longest run of parts that are gone, in bytes of the tensor. False if none is. */
static bool longest_run(const layout_builder_t *builder, uint32_t tensor, uint64_t *out_low,
                        uint64_t *out_high)
{
    uint32_t count = part_count(builder, tensor), best = 0, best_end = 0;
    for (uint32_t i = 0, length = 0; i < count; i++) {
        length = builder->is_gone[i] ? length + 1 : 0;
        if (length > best) {
            best = length;
            best_end = i + 1;
        }
    }
    uint64_t size = builder->step->size_bytes[tensor], part_bytes = builder->parts->part_bytes;
    *out_low = (best_end - best) * part_bytes;
    *out_high = best_end == count ? size : best_end * part_bytes;
    return best > 0;
}

/* Turns the absences of a residency interval, whose life begins at `begin_ns`, into inactive periods of its
   buffer. */
static bool cut_holes(layout_builder_t *builder, uint32_t residency, int64_t begin_ns)
{
    uint32_t tensor = builder->layout->residencies[residency].tensor;
    size_t cut_count = 0, needed = 2 * builder->absence_count + part_count(builder, tensor);
    if (builder->absence_count == 0) {
        return true;
    }
    if (needed > builder->cut_capacity) {
        int64_t *cuts = dao_host_realloc(builder->cuts, needed, sizeof(*cuts));
        builder->cuts = cuts != NULL ? cuts : builder->cuts;
        bool *is_gone = cuts != NULL ? dao_host_realloc(builder->is_gone, needed, sizeof(*is_gone)) : NULL;
        if (is_gone == NULL) {
            return false;
        }
        builder->is_gone = is_gone;
        builder->cut_capacity = needed;
    }
    DAO_ASSERT(builder->cuts != NULL || builder->absence_count == 0);
    for (size_t i = 0; i < builder->absence_count; i++) {
        builder->cuts[cut_count++] = builder->absences[i].from_ns;
        builder->cuts[cut_count++] = builder->absences[i].to_ns;
    }
    qsort(builder->cuts, cut_count, sizeof(*builder->cuts), compare_times);
    for (size_t i = 0; i + 1 < cut_count; i++) {
        int64_t from_ns = builder->cuts[i], to_ns = builder->cuts[i + 1];
        if (from_ns == to_ns) {
            continue;
        }
        memset(builder->is_gone, 0, part_count(builder, tensor) * sizeof(*builder->is_gone));
        for (size_t a = 0; a < builder->absence_count; a++) {
            const absence_t *absence = &builder->absences[a];
            if (absence->from_ns <= from_ns && absence->to_ns >= to_ns) {
                builder->is_gone[absence->part] = true;
            }
        }
        uint64_t base = builder->buffers[residency].begin_time;
        dao_plan_gap_t hole = {.buffer = residency,
                               .begin_time = base + (uint64_t)(from_ns - begin_ns),
                               .end_time = base + (uint64_t)(to_ns - begin_ns)};
        if (longest_run(builder, tensor, &hole.low_byte, &hole.high_byte) && !add_hole(builder, &hole)) {
            return false;
        }
    }
    return true;
}

static uint32_t open_residency(layout_builder_t *builder, uint32_t first_access)
{
    dao_swap_layout_t *layout = builder->layout;
    uint32_t tensor = builder->step->accesses[first_access].tensor;
    layout->residencies[layout->residency_count] =
        (dao_swap_residency_t){.tensor = tensor, .first_access = first_access};
    return layout->residency_count++;
}

/* A residency interval from access `first`, behind the inactive period of access `before`, up to the next
   inactive period in which the tensor goes as a whole. Times count from the step of `first`. */
static bool build_residency(layout_builder_t *builder, uint32_t before, uint32_t first)
{
    const dao_swap_step_t *step = builder->step;
    uint32_t residency = open_residency(builder, first), access = first,
             count = part_count(builder, step->accesses[first].tensor);
    int64_t period_ns = (int64_t)builder->timing->step_ns,
            since_ns = -dao_swap_steps_to_next(step, before) * period_ns;
    const dao_swap_moment_t *taken = &builder->timing->moments[builder->parts->first_inactive[before]];
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
    for (uint32_t i = 0; i < count; i++) {
        begin_ns = since_ns + taken[i].taken_ns < begin_ns ? since_ns + taken[i].taken_ns : begin_ns;
    }
    builder->absence_count = 0;
    bool ok = true;
    for (uint32_t i = 0; i < count && ok; i++) {
        ok = add_absence(builder, begin_ns, since_ns + taken[i].taken_ns, i);
    }
    since_ns = 0;
    for (;; access = step->accesses[access].next) {
        builder->layout->residency_of[access] = residency;
        if (goes_as_a_whole(builder, access)) {
            break;
        }
        uint32_t first_inactive = builder->parts->first_inactive[access];
        for (uint32_t i = 0; i < count && ok; i++) {
            const dao_swap_moment_t *moment = &builder->timing->moments[first_inactive + i];
            if (dao_swap_is_absent(&step->accesses[access], &builder->decisions[first_inactive + i])) {
                ok = add_absence(builder, since_ns + moment->free_ns, since_ns + moment->taken_ns, i);
            }
        }
        since_ns += dao_swap_steps_to_next(step, access) * period_ns;
    }
    const dao_swap_moment_t *left = &builder->timing->moments[builder->parts->first_inactive[access]];
    for (uint32_t i = 0; i < count; i++) {
        end_ns = since_ns + left[i].free_ns > end_ns ? since_ns + left[i].free_ns : end_ns;
    }
    for (uint32_t i = 0; i < count && ok; i++) {
        ok = add_absence(builder, since_ns + left[i].free_ns, end_ns, i);
    }
    DAO_ASSERT(begin_ns < end_ns && end_ns - begin_ns <= period_ns);
    dao_plan_buffer_t *buffer = &builder->buffers[residency];
    buffer->begin_time = dao_modulo(begin_ns, (uint64_t)period_ns);
    buffer->end_time = buffer->begin_time + (uint64_t)(end_ns - begin_ns);
    return ok && cut_holes(builder, residency, begin_ns);
}

/* The residency interval of a tensor that never goes as a whole. Its life begins with the step. */
static bool build_endless_residency(layout_builder_t *builder, uint32_t first)
{
    const dao_swap_step_t *step = builder->step;
    uint32_t residency = open_residency(builder, first), access = first,
             count = part_count(builder, step->accesses[first].tensor);
    int64_t period_ns = (int64_t)builder->timing->step_ns;
    builder->absence_count = 0;
    builder->buffers[residency].begin_time = 0;
    builder->buffers[residency].end_time = (uint64_t)period_ns;
    bool ok = true;
    do {
        builder->layout->residency_of[access] = residency;
        uint32_t first_inactive = builder->parts->first_inactive[access];
        for (uint32_t i = 0; i < count && ok; i++) {
            const dao_swap_moment_t *moment = &builder->timing->moments[first_inactive + i];
            if (!dao_swap_is_absent(&step->accesses[access], &builder->decisions[first_inactive + i]) ||
                moment->taken_ns <= moment->free_ns) {
                continue;
            }
            int64_t from_ns = (int64_t)dao_modulo(moment->free_ns, (uint64_t)period_ns);
            int64_t to_ns = from_ns + moment->taken_ns - moment->free_ns;
            ok = add_absence(builder, from_ns, to_ns < period_ns ? to_ns : period_ns, i) &&
                 add_absence(builder, 0, to_ns - period_ns, i);
        }
        access = step->accesses[access].next;
    } while (access != first);
    return ok && cut_holes(builder, residency, 0);
}

static bool build_tensor(layout_builder_t *builder, uint32_t tensor)
{
    const dao_swap_step_t *step = builder->step;
    uint32_t first = step->first_access[tensor], access = first,
             residency_count = builder->layout->residency_count;
    bool ok = true;
    if (first == DAO_SWAP_NONE || dao_swap_is_paged(step, step->size_bytes[tensor])) {
        return true;
    }
    do {
        if (goes_as_a_whole(builder, access)) {
            ok = ok && build_residency(builder, access, step->accesses[access].next);
        }
        access = step->accesses[access].next;
    } while (access != first);
    if (residency_count == builder->layout->residency_count) {
        ok = ok && build_endless_residency(builder, first);
    }
    for (uint32_t residency = residency_count; residency < builder->layout->residency_count; residency++) {
        dao_plan_buffer_t *buffer = &builder->buffers[residency];
        buffer->size_bytes = step->size_bytes[tensor];
        buffer->fixed_offset = DAO_PLAN_NOWHERE;
        buffer->pool = DAO_PLAN_ANY_POOL;
    }
    return ok;
}

/* ---- addresses ---- */

/* Puts residency intervals that are there at all times, with all of their bytes, one on the other from
   address 0 on: each shares its time with everything, so that any layout could be turned into one with these
   at the bottom. Leaves the buffers and holes of the other residency intervals, for which memory begins
   above. */
static uint64_t stack_endless(layout_builder_t *builder)
{
    dao_swap_layout_t *layout = builder->layout;
    uint64_t period_ns = builder->timing->step_ns, top = 0;
    size_t hole = 0;
    for (uint32_t residency = 0; residency < layout->residency_count; residency++) {
        const dao_plan_buffer_t *buffer = &builder->buffers[residency];
        bool has_holes = hole < builder->hole_count && builder->holes[hole].buffer == residency;
        if (buffer->end_time - buffer->begin_time == period_ns && !has_holes) {
            layout->residencies[residency].address_bytes = top;
            top += buffer->size_bytes;
            continue;
        }
        for (; hole < builder->hole_count && builder->holes[hole].buffer == residency; hole++) {
            builder->holes[hole].buffer = builder->buffer_count;
        }
        builder->residency_of_buffer[builder->buffer_count] = residency;
        builder->buffers[builder->buffer_count++] = *buffer;
    }
    DAO_ASSERT(hole == builder->hole_count);
    DAO_ASSERT(builder->buffer_count <= layout->residency_count);
    return top;
}

static void take_addresses(const layout_builder_t *builder, const dao_swap_placement_t *placement,
                           uint64_t bottom)
{
    dao_swap_layout_t *layout = builder->layout;
    layout->is_repeated = placement->is_repeated;
    layout->unplaced_count = placement->is_repeated ? builder->buffer_count : placement->unplaced_count;
    layout->unplaced_bytes = placement->unplaced_bytes;
    layout->arena_bytes = bottom + placement->peak_bytes;
    DAO_ASSERT(placement->is_repeated ||
               (placement->unplaced_count == 0) == (placement->unplaced_bytes == 0));
    for (uint32_t i = 0; i < builder->buffer_count; i++) {
        bool is_placed = !placement->is_repeated && builder->offsets[i] != DAO_PLAN_NOWHERE;
        layout->residencies[builder->residency_of_buffer[i]].address_bytes =
            is_placed ? bottom + builder->offsets[i] : DAO_SWAP_NOWHERE;
    }
}

/* Places what lies at static addresses, above `bottom`. */
static dao_status_t place_residencies(layout_builder_t *builder, uint64_t bottom, uint64_t capacity_bytes,
                                      bool is_thorough, dao_swap_past_t *past)
{
    if (builder->buffer_count == 0) {
        builder->layout->arena_bytes = bottom;
        return DAO_OK;
    }
    DAO_ASSERT(bottom < capacity_bytes);
    const dao_plan_pool_t pool = {.capacity_bytes = capacity_bytes - bottom};
    dao_plan_problem_t problem = {.buffers = builder->buffers,
                                  .buffer_count = builder->buffer_count,
                                  .gaps = builder->holes,
                                  .gap_count = builder->hole_count,
                                  .pools = &pool,
                                  .pool_count = 1,
                                  .period = builder->timing->step_ns,
                                  .alignment_bytes = (uint32_t)builder->step->alignment_bytes};
    dao_swap_placement_t placement;
    dao_status_t status = dao_swap_place(builder->step, &problem, builder->buffers, is_thorough, past,
                                         builder->offsets, &placement);
    if (status == DAO_OK) {
        take_addresses(builder, &placement, bottom);
        DAO_ASSERT(builder->layout->arena_bytes <= capacity_bytes);
    }
    return status;
}

/* Finds pages for the rest, in what the tensors at static addresses leave. */
static dao_status_t place_pages(layout_builder_t *builder, uint64_t bottom, uint64_t capacity_bytes)
{
    dao_swap_layout_t *layout = builder->layout;
    uint64_t period_ns = builder->timing->step_ns;
    dao_swap_span_t *spans = dao_host_calloc((size_t)builder->buffer_count + 1, sizeof(*spans));
    size_t span_count = 0;
    if (spans == NULL) {
        return dao_swap_step_give_up(builder->step);
    }
    spans[span_count++] = (dao_swap_span_t){0, bottom, 0, period_ns}; /* of no bytes where bottom is 0 */
    for (uint32_t i = 0; i < builder->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &builder->buffers[i];
        uint64_t address = layout->residencies[builder->residency_of_buffer[i]].address_bytes;
        spans[span_count++] =
            (dao_swap_span_t){address, address + buffer->size_bytes, buffer->begin_time, buffer->end_time};
    }
    dao_status_t status =
        dao_swap_pages_find(layout, builder->parts, builder->decisions, builder->timing, spans, span_count,
                            (uint32_t)(capacity_bytes / builder->step->page_bytes));
    dao_host_free(spans);
    return status;
}

/* Bytes that come, or go, at a time. */
typedef struct coming {
    uint64_t time_ns;
    int64_t size_bytes;
} coming_t;

/* What goes comes before what comes. */
static int compare_comings(const void *left, const void *right)
{
    const coming_t *a = left, *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    return (a->size_bytes > b->size_bytes) - (a->size_bytes < b->size_bytes);
}

/* The capacity in which offsets for what comes and goes are first looked for, where others lie in pages: the
   most bytes of it that are there at a time, and an eighth more for holes between them. All of it without
   host memory. */
static uint64_t compact_bytes(const layout_builder_t *builder, uint64_t bottom, uint64_t capacity_bytes)
{
    uint64_t period_ns = builder->timing->step_ns, most_bytes = 0;
    coming_t *comings = dao_host_calloc(2 * (size_t)builder->buffer_count + 1, sizeof(*comings));
    size_t count = 0;
    int64_t bytes = 0;
    if (comings == NULL) {
        return capacity_bytes;
    }
    for (uint32_t i = 0; i < builder->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &builder->buffers[i];
        int64_t size = (int64_t)buffer->size_bytes;
        bytes += buffer->end_time > period_ns ? size : 0;
        comings[count++] = (coming_t){buffer->begin_time, size};
        comings[count++] =
            (coming_t){buffer->end_time % period_ns, buffer->end_time == period_ns ? 0 : -size};
    }
    qsort(comings, count, sizeof(*comings), compare_comings);
    for (size_t i = 0; i < count; i++) {
        bytes += comings[i].size_bytes;
        most_bytes = dao_larger(most_bytes, (uint64_t)bytes);
    }
    dao_host_free(comings);
    return dao_smaller(bottom + most_bytes + most_bytes / 8, capacity_bytes);
}

static dao_status_t place_all(layout_builder_t *builder, uint64_t capacity_bytes, bool is_thorough,
                              dao_swap_past_t *past)
{
    uint64_t bottom = stack_endless(builder);
    if (builder->step->page_bytes == 0) {
        return place_residencies(builder, bottom, capacity_bytes, is_thorough, past);
    }
    uint64_t compact = compact_bytes(builder, bottom, capacity_bytes);
    dao_swap_layout_t *layout = builder->layout;
    dao_status_t status = DAO_OK;
    capacity_bytes -= capacity_bytes % builder->step->page_bytes;
    for (uint32_t round = 0; round < 2; round++) {
        status = place_residencies(
            builder, bottom, round == 0 ? dao_smaller(compact, capacity_bytes) : capacity_bytes, false, past);
        if (status != DAO_OK || layout->unplaced_count == 0) {
            break;
        }
    }
    return status == DAO_OK && layout->unplaced_count == 0 ? place_pages(builder, bottom, capacity_bytes)
                                                           : status;
}

static bool allocate(dao_swap_layout_t *layout, const dao_swap_step_t *step)
{
    size_t accesses = (size_t)step->access_count + 1;
    *layout = (dao_swap_layout_t){0};
    return (layout->residencies = dao_host_calloc(accesses, sizeof(*layout->residencies))) != NULL &&
           (layout->residency_of = dao_host_calloc(accesses, sizeof(*layout->residency_of))) != NULL;
}

dao_status_t dao_swap_layout_init(dao_swap_layout_t *layout, const dao_swap_parts_t *parts,
                                  const dao_swap_decision_t *decisions, const dao_swap_timing_t *timing,
                                  uint64_t capacity_bytes, bool is_thorough, dao_swap_past_t *past)
{
    const dao_swap_step_t *step = parts->step;
    layout_builder_t builder = {
        .parts = parts, .step = step, .decisions = decisions, .timing = timing, .layout = layout};
    bool ok =
        allocate(layout, step) &&
        (builder.buffers = dao_host_calloc((size_t)step->access_count + 1, sizeof(*builder.buffers))) !=
            NULL &&
        (builder.residency_of_buffer =
             dao_host_calloc((size_t)step->access_count + 1, sizeof(*builder.residency_of_buffer))) != NULL &&
        (builder.offsets = dao_host_calloc((size_t)step->access_count + 1, sizeof(*builder.offsets))) != NULL;
    for (uint32_t t = 0; t < step->tensor_count && ok; t++) {
        ok = build_tensor(&builder, t) && !dao_swap_is_cancelled(step->cancel);
    }
    dao_status_t status =
        ok ? place_all(&builder, capacity_bytes, is_thorough, past) : dao_swap_step_give_up(step);
    dao_host_free(builder.buffers);
    dao_host_free(builder.residency_of_buffer);
    dao_host_free(builder.offsets);
    dao_host_free(builder.holes);
    dao_host_free(builder.absences);
    dao_host_free(builder.cuts);
    dao_host_free(builder.is_gone);
    if (status != DAO_OK) {
        dao_swap_layout_finish(layout);
    }
    return status;
}

dao_status_t dao_swap_layout_init_empty(dao_swap_layout_t *layout, const dao_swap_step_t *step)
{
    if (!allocate(layout, step)) {
        dao_swap_layout_finish(layout);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the addresses of a step");
    }
    return DAO_OK;
}

void dao_swap_layout_finish(dao_swap_layout_t *layout)
{
    dao_host_free(layout->residencies);
    dao_host_free(layout->residency_of);
    dao_host_free(layout->pages);
    *layout = (dao_swap_layout_t){0};
}
