/* SPDX-License-Identifier: Apache-2.0 */
/* From times to order: a replayer has no clock, so fences say once more what a plan says by times.

   Every copy has a place in its stream, by its time in the step. Seven rules say what waits for what:

       copy out      after the kernel that wrote the bytes
       copy in       after the copy out of the same inactive period
       copy in       after the kernels before the inactive period: a tensor is at one place at a time
       copy in       after everything that had its memory before: the last kernels and copy out of the tensors
                     at those addresses
       kernel        after the copies in of what it uses for the first time since they came
       kernel        after everything that had the memory of its outputs before
       kernel        after those of other compute streams that use what it writes, or write what it reads

   The last kernels are one on each compute stream that uses the content. By its times kernels begin in the
   order of the step, whatever their streams: so all that an operation waits for is of operations before it in
   the one order that all can be queued in, and kernels run beside each other as far as fences let them.

   A sweep in the order of time, over a map of the arena, finds the earlier users of each address. It takes
   what becomes free and what is taken again, twice around the step. In the second lap every byte's last user
   is known.

       address ->  |  free since period 7  |  taken  |  free since period 3, in the lap before  | ...

   A plan without addresses (no layout) has the bytes of the step's frees in place of an arena, one behind the
   other in the order of time. What is taken takes those that became free first, and waits for their users.
   Each byte that is freed is taken once, so the bytes on the device are never more than the capacity.

   Times that end an inactive period count from the step in which it began; `step` is how many steps after
   that something lies. So a fence of X on Y, whose steps differ by d, names place(Y) + 1 + d x (number of
   things in Y's stream).

   Invariants: segments of the map ascend and do not overlap; whatever is taken in the second lap was free. */
#include "planning/swap/swap_emit.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_fence.h"

#include <stdlib.h>
#include <string.h>

#define NO_PLACE   UINT32_MAX
#define ANY_STREAM UINT32_MAX

/* A copy's place in its stream. */
typedef struct stream_place {
    dao_swap_stream_t stream;
    uint32_t index;
    int32_t step; /* after the one in which the inactive period began */
} stream_place_t;

/* The last kernel of a compute stream that uses a content. */
typedef struct last_use {
    uint32_t kernel; /* NO_PLACE: none */
    int32_t step;    /* after that of the access which it is known of: 0 or -1 */
} last_use_t;

/* What is known of an inactive period. */
typedef struct inactive_info {
    uint32_t access;
    uint32_t part;
    stream_place_t in, out; /* index NO_PLACE: none */
} inactive_info_t;

/* A copy on its way into a stream, or a part's room that is taken or becomes free. */
typedef struct emit_moment {
    int64_t time_ns; /* in the step, 0 .. step_ns - 1 */
    int32_t step;    /* after the one in which the inactive period began */
    uint32_t inactive;
    bool is_in; /* a copy in, or room that is taken */
} emit_moment_t;

/* Bytes of the arena. */
typedef struct segment {
    uint64_t begin, end;
    uint32_t inactive; /* behind which they became free; NO_PLACE: they are taken */
    int32_t step;      /* in which that inactive period began */
} segment_t;

typedef struct emitter {
    const dao_swap_parts_t *parts;
    const dao_swap_step_t *step;
    const dao_swap_decision_t *decisions;
    const dao_swap_timing_t *timing;
    const dao_swap_layout_t *layout;
    dao_swap_program_t *program;
    dao_swap_copy_t *streams[DAO_SWAP_STREAM_COUNT];
    uint32_t stream_counts[DAO_SWAP_STREAM_COUNT];
    inactive_info_t *infos;
    emit_moment_t *moments;
    uint64_t *slots; /* of each part, in its tier */
    uint32_t compute_count;
    /* Up to each access and with it, of each compute stream; NULL with one: the access is the last use. */
    last_use_t *last_uses;
    segment_t *segments;
    size_t segment_count, segment_capacity;
} emitter_t;

static bool allocate(emitter_t *emitter)
{
    const dao_swap_step_t *step = emitter->step;
    dao_swap_program_t *program = emitter->program;
    size_t decisions = (size_t)emitter->parts->inactive_count + 1, uses = 1;
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        uses += step->problem->kernels[k].use_count;
    }
    return (emitter->infos = dao_host_calloc(decisions, sizeof(*emitter->infos))) != NULL &&
           (emitter->moments = dao_host_calloc(2 * decisions, sizeof(*emitter->moments))) != NULL &&
           (emitter->slots = dao_host_calloc((size_t)emitter->parts->count + 1, sizeof(*emitter->slots))) !=
               NULL &&
           (emitter->compute_count == 1 ||
            (emitter->last_uses = dao_host_calloc((size_t)step->access_count * emitter->compute_count + 1,
                                                  sizeof(*emitter->last_uses))) != NULL) &&
           (program->copies = dao_host_calloc(2 * decisions, sizeof(*program->copies))) != NULL &&
           (program->kernel_after = dao_host_calloc(step->kernel_count, sizeof(*program->kernel_after))) !=
               NULL &&
           (program->use_address = dao_host_calloc(uses, sizeof(*program->use_address))) != NULL &&
           (program->workspace_address =
                dao_host_calloc(step->kernel_count, sizeof(*program->workspace_address))) != NULL &&
           (program->residents =
                dao_host_calloc((size_t)emitter->parts->count + 1, sizeof(*program->residents))) != NULL;
}

static void release(emitter_t *emitter)
{
    dao_host_free(emitter->infos);
    dao_host_free(emitter->moments);
    dao_host_free(emitter->slots);
    dao_host_free(emitter->last_uses);
    dao_host_free(emitter->segments);
}

static const dao_swap_access_t *access_of(const emitter_t *emitter, uint32_t inactive)
{
    return &emitter->step->accesses[emitter->infos[inactive].access];
}

static uint64_t part_address(const emitter_t *emitter, uint32_t access, uint32_t part)
{
    uint64_t offset = dao_swap_part_offset(emitter->parts, part);
    const dao_swap_layout_t *layout = emitter->layout;
    return layout != NULL ? layout->residencies[layout->residency_of[access]].address_bytes + offset : offset;
}

static dao_swap_stream_t stream_of(const emitter_t *emitter, bool is_file, bool is_in)
{
    const dao_swap_problem_t *problem = emitter->step->problem;
    dao_swap_duplex_t duplex = is_file ? problem->file.duplex : problem->host.duplex;
    if (is_in || duplex == DAO_SWAP_DUPLEX_HALF) {
        return is_file ? DAO_SWAP_STREAM_FILE_IN : DAO_SWAP_STREAM_HOST_IN;
    }
    return is_file ? DAO_SWAP_STREAM_FILE_OUT : DAO_SWAP_STREAM_HOST_OUT;
}

static emit_moment_t moment_at(const emitter_t *emitter, uint32_t inactive, int64_t time_ns, bool is_in)
{
    int64_t period_ns = (int64_t)emitter->timing->step_ns;
    int64_t step = time_ns >= 0 ? time_ns / period_ns : -((period_ns - 1 - time_ns) / period_ns);
    return (emit_moment_t){
        .time_ns = time_ns - step * period_ns, .step = (int32_t)step, .inactive = inactive, .is_in = is_in};
}

/* By time; at the same time what leaves goes first. */
static int compare_moments(const void *left, const void *right)
{
    const emit_moment_t *a = left, *b = right;
    if (a->time_ns != b->time_ns) {
        return a->time_ns < b->time_ns ? -1 : 1;
    }
    if (a->is_in != b->is_in) {
        return a->is_in ? 1 : -1;
    }
    return (a->inactive > b->inactive) - (a->inactive < b->inactive);
}

static void describe_decisions(emitter_t *emitter)
{
    const dao_swap_parts_t *parts = emitter->parts;
    for (uint32_t i = 0; i < emitter->step->access_count; i++) {
        uint32_t tensor = emitter->step->accesses[i].tensor;
        for (uint32_t part = parts->first[tensor]; part < parts->first[tensor + 1]; part++) {
            emitter->infos[parts->first_inactive[i] + part - parts->first[tensor]] = (inactive_info_t){
                .access = i, .part = part, .in = {.index = NO_PLACE}, .out = {.index = NO_PLACE}};
        }
    }
}

/* Assigns bytes of its own to every part that is ever away in its tier. */
static void place_slots(emitter_t *emitter)
{
    dao_swap_schedule_t *schedule = &emitter->program->schedule;
    memset(emitter->slots, 0xff, emitter->parts->count * sizeof(*emitter->slots));
    for (uint32_t g = 0; g < emitter->parts->inactive_count; g++) {
        uint32_t part = emitter->infos[g].part;
        if (emitter->decisions[g].is_away && emitter->slots[part] == UINT64_MAX) {
            uint64_t *end = emitter->decisions[g].is_file ? &schedule->file_bytes : &schedule->host_bytes;
            emitter->slots[part] = *end;
            *end += dao_swap_part_size(emitter->parts, part);
        }
    }
}

static void raise_to(int32_t *done, int64_t wanted)
{
    DAO_ASSERT(wanted > DAO_SWAP_NO_WAIT && wanted <= INT32_MAX);
    *done = wanted > *done ? (int32_t)wanted : *done;
}

/* Raises a fence: X waits for the copy at `index` of a stream, `steps` after X's own step. */
static void wait_for(const emitter_t *emitter, dao_swap_fence_t *fence, dao_swap_stream_t stream,
                     uint32_t index, int32_t steps)
{
    DAO_ASSERT(stream != DAO_SWAP_STREAM_COMPUTE);
    raise_to(&fence->done[stream], (int64_t)index + 1 + (int64_t)steps * emitter->stream_counts[stream]);
}

static uint32_t compute_of(const emitter_t *emitter, uint32_t kernel)
{
    return emitter->step->problem->kernels[kernel].stream;
}

/* The same for a kernel. */
static void wait_for_kernel(const emitter_t *emitter, dao_swap_fence_t *fence, uint32_t kernel, int32_t steps)
{
    raise_to(dao_swap_fence_kernels(fence, compute_of(emitter, kernel)),
             (int64_t)kernel + 1 + (int64_t)steps * emitter->step->kernel_count);
}

/* The same for the last kernels that use what an access leaves, but for those of compute stream `own`, which
   X comes behind anyway; ANY_STREAM: X is a copy. */
static void wait_for_users(const emitter_t *emitter, dao_swap_fence_t *fence, uint32_t own, uint32_t access,
                           int32_t steps)
{
    for (uint32_t i = 0; i < emitter->compute_count; i++) {
        last_use_t last = {emitter->step->accesses[access].kernel, 0};
        if (emitter->last_uses != NULL) {
            last = emitter->last_uses[(size_t)access * emitter->compute_count + i];
        }
        if (i != own && last.kernel != NO_PLACE) {
            wait_for_kernel(emitter, fence, last.kernel, steps + last.step);
        }
    }
}

static void clear_fence(dao_swap_fence_t *fence)
{
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        fence->done[stream] = DAO_SWAP_NO_WAIT;
    }
    for (uint32_t i = 0; i < DAO_SWAP_COMPUTE_STREAM_MAX - 1; i++) {
        fence->done_beside[i] = DAO_SWAP_NO_WAIT;
    }
}

/* Lists all copies by time, and deals them out to their streams. */
static void place_copies(emitter_t *emitter)
{
    dao_swap_program_t *program = emitter->program;
    size_t count = 0;
    for (uint32_t g = 0; g < emitter->parts->inactive_count; g++) {
        const dao_swap_moment_t *moment = &emitter->timing->moments[g];
        if (emitter->decisions[g].is_away) {
            emitter->moments[count++] = moment_at(emitter, g, moment->taken_ns, true);
            if (moment->is_out) {
                emitter->moments[count++] = moment_at(emitter, g, moment->out_begin_ns, false);
            }
        }
    }
    qsort(emitter->moments, count, sizeof(*emitter->moments), compare_moments);
    for (size_t i = 0; i < count; i++) {
        const emit_moment_t *moment = &emitter->moments[i];
        dao_swap_stream_t stream =
            stream_of(emitter, emitter->decisions[moment->inactive].is_file, moment->is_in);
        stream_place_t place = {
            .stream = stream, .index = emitter->stream_counts[stream]++, .step = moment->step};
        *(moment->is_in ? &emitter->infos[moment->inactive].in : &emitter->infos[moment->inactive].out) =
            place;
    }
    dao_swap_copy_t *next = program->copies;
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        emitter->streams[stream] = next;
        program->schedule.copies[stream] = next;
        program->schedule.copy_count[stream] = emitter->stream_counts[stream];
        next += emitter->stream_counts[stream];
    }
}

/* The copy at a place, all but its fence. */
static dao_swap_copy_t *write_copy(emitter_t *emitter, uint32_t inactive, const stream_place_t *place,
                                   bool is_in)
{
    const inactive_info_t *info = &emitter->infos[inactive];
    dao_swap_copy_t *copy = &emitter->streams[place->stream][place->index];
    uint32_t access = is_in ? access_of(emitter, inactive)->next : info->access;
    *copy = (dao_swap_copy_t){.tensor = emitter->parts->tensor[info->part],
                              .is_in = is_in,
                              .is_file = emitter->decisions[inactive].is_file,
                              .offset_bytes = dao_swap_part_offset(emitter->parts, info->part),
                              .size_bytes = dao_swap_part_content(emitter->parts, info->part),
                              .address_bytes = part_address(emitter, access, info->part),
                              .slot_bytes = emitter->slots[info->part]};
    clear_fence(&copy->after);
    *(is_in ? &emitter->program->schedule.in_bytes : &emitter->program->schedule.out_bytes) +=
        copy->size_bytes;
    return copy;
}

static void write_copies(emitter_t *emitter)
{
    for (uint32_t g = 0; g < emitter->parts->inactive_count; g++) {
        const inactive_info_t *info = &emitter->infos[g];
        if (info->in.index == NO_PLACE) {
            continue;
        }
        const dao_swap_access_t *one = access_of(emitter, g);
        dao_swap_copy_t *in = write_copy(emitter, g, &info->in, true);
        int32_t steps_to_next = (int32_t)dao_swap_steps_to_next(emitter->step, info->access);
        uint32_t kernel = emitter->step->accesses[one->next].kernel;
        wait_for(emitter, &emitter->program->kernel_after[kernel], info->in.stream, info->in.index,
                 info->in.step - steps_to_next);
        wait_for_users(emitter, &in->after, ANY_STREAM, info->access, -info->in.step);
        if (info->out.index == NO_PLACE) {
            continue; /* a copy in of an earlier inactive period has waited for the copy out */
        }
        dao_swap_copy_t *out = write_copy(emitter, g, &info->out, false);
        int32_t writer_step = one->writer > info->access ? -1 : 0;
        wait_for_kernel(emitter, &out->after, emitter->step->accesses[one->writer].kernel,
                        writer_step - info->out.step);
        if (info->out.stream != info->in.stream) {
            wait_for(emitter, &in->after, info->out.stream, info->out.index, info->out.step - info->in.step);
        }
    }
}

/* Notes for each access of a tensor which kernels use its content last, stream by stream: those since it was
   written, as the kernel that did has waited for all before. */
static void find_last_uses(emitter_t *emitter, uint32_t first)
{
    last_use_t latest[DAO_SWAP_COMPUTE_STREAM_MAX];
    uint32_t count = emitter->compute_count, access = first;
    memset(latest, 0xff, sizeof(latest));
    for (int32_t lap = 0; lap < 2; lap++) {
        do {
            const dao_swap_access_t *one = &emitter->step->accesses[access];
            if (one->writes) {
                memset(latest, 0xff, sizeof(latest));
            }
            latest[compute_of(emitter, one->kernel)] = (last_use_t){one->kernel, lap};
            for (uint32_t i = 0; i < count; i++) {
                emitter->last_uses[(size_t)access * count + i] =
                    (last_use_t){latest[i].kernel, latest[i].step - lap};
            }
            access = one->next;
        } while (access != first);
    }
}

/* Kernels of further compute streams that use what a copy brings, before it goes: they do not come behind the
   first one that does. */
static void wait_on_all_streams(emitter_t *emitter, uint32_t inactive)
{
    const inactive_info_t *info = &emitter->infos[inactive];
    uint32_t index = info->part - emitter->parts->first[emitter->parts->tensor[info->part]];
    uint32_t access = access_of(emitter, inactive)->next;
    uint32_t seen = UINT32_C(1) << compute_of(emitter, emitter->step->accesses[access].kernel);
    int32_t steps = (int32_t)dao_swap_steps_to_next(emitter->step, info->access);
    while (seen + 1 != UINT32_C(1) << emitter->compute_count) {
        const dao_swap_access_t *one = &emitter->step->accesses[access];
        uint32_t behind = emitter->parts->first_inactive[access] + index;
        if (dao_swap_is_absent(one, &emitter->decisions[behind])) {
            break; /* it goes at the latest in the period that it came from */
        }
        steps += (int32_t)dao_swap_steps_to_next(emitter->step, access);
        access = one->next;
        one = &emitter->step->accesses[access];
        if ((seen >> compute_of(emitter, one->kernel) & 1) == 0) {
            wait_for(emitter, &emitter->program->kernel_after[one->kernel], info->in.stream, info->in.index,
                     info->in.step - steps);
        }
        seen |= UINT32_C(1) << compute_of(emitter, one->kernel);
    }
}

/* The next copy out of a part writes to its slot, from which a copy in reads. The kernel that wrote what it
   saves need not have come behind those that waited for the copy in. */
static void keep_slot(emitter_t *emitter, uint32_t inactive)
{
    const inactive_info_t *info = &emitter->infos[inactive], *later = info;
    uint32_t index = info->part - emitter->parts->first[emitter->parts->tensor[info->part]];
    int32_t steps = 0;
    do {
        steps += (int32_t)dao_swap_steps_to_next(emitter->step, later->access);
        uint32_t access = emitter->step->accesses[later->access].next;
        later = &emitter->infos[emitter->parts->first_inactive[access] + index];
    } while (later->in.index == NO_PLACE);
    if (later->out.index != NO_PLACE && later->out.stream != info->in.stream) {
        wait_for(emitter, &emitter->streams[later->out.stream][later->out.index].after, info->in.stream,
                 info->in.index, info->in.step - steps - later->out.step);
    }
}

/* A kernel waits for those of other streams that use what it writes, and for the one that wrote what it
   reads. A content that nobody needs any more may still be read where the next one comes to other bytes: its
   fences of room say so. Without addresses it may come to the same. */
static void write_kernel_fences(emitter_t *emitter)
{
    const dao_swap_step_t *step = emitter->step;
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i], *next = &step->accesses[one->next];
        dao_swap_fence_t *fence = &emitter->program->kernel_after[next->kernel];
        uint32_t own = compute_of(emitter, next->kernel);
        bool is_in_place = one->inactive_is_live || emitter->layout == NULL;
        if (is_in_place && next->writes) {
            wait_for_users(emitter, fence, own, i, -(int32_t)dao_swap_steps_to_next(step, i));
        } else if (one->inactive_is_live && one->writer != DAO_SWAP_NONE &&
                   compute_of(emitter, step->accesses[one->writer].kernel) != own) {
            wait_for_kernel(emitter, fence, step->accesses[one->writer].kernel,
                            one->writer >= one->next ? -1 : 0);
        }
    }
}

static void find_all_last_uses(emitter_t *emitter)
{
    for (uint32_t t = 0; t < emitter->step->tensor_count; t++) {
        if (emitter->step->first_access[t] != DAO_SWAP_NONE) {
            find_last_uses(emitter, emitter->step->first_access[t]);
        }
    }
}

/* What the order of one compute stream says by itself. */
static void write_stream_fences(emitter_t *emitter)
{
    for (uint32_t g = 0; g < emitter->parts->inactive_count; g++) {
        if (emitter->infos[g].in.index != NO_PLACE) {
            wait_on_all_streams(emitter, g);
            keep_slot(emitter, g);
        }
    }
    write_kernel_fences(emitter);
}

/* The first segment that ends behind `address`. */
static size_t find_segment(const emitter_t *emitter, uint64_t address)
{
    size_t low = 0, high = emitter->segment_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (emitter->segments[middle].end > address) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    return low;
}

/* Puts a segment into the map in place of what lay there: at most two more segments than before. */
static bool put_segment(emitter_t *emitter, const segment_t *segment)
{
    if (emitter->segment_count + 2 > emitter->segment_capacity) {
        size_t capacity = 2 * emitter->segment_capacity + 64;
        segment_t *segments = dao_host_realloc(emitter->segments, capacity, sizeof(*segments));
        if (segments == NULL) {
            return false;
        }
        emitter->segments = segments;
        emitter->segment_capacity = capacity;
    }
    size_t first = find_segment(emitter, segment->begin), end = first;
    segment_t fresh[3];
    size_t fresh_count = 0, count = emitter->segment_count;
    while (end < count && emitter->segments[end].begin < segment->end) {
        end++;
    }
    if (end > first && emitter->segments[first].begin < segment->begin) {
        fresh[fresh_count] = emitter->segments[first];
        fresh[fresh_count++].end = segment->begin;
    }
    fresh[fresh_count++] = *segment;
    if (end > first && emitter->segments[end - 1].end > segment->end) {
        fresh[fresh_count] = emitter->segments[end - 1];
        fresh[fresh_count++].begin = segment->end;
    }
    memmove(emitter->segments + first + fresh_count, emitter->segments + end, (count - end) * sizeof(*fresh));
    memcpy(emitter->segments + first, fresh, fresh_count * sizeof(*fresh));
    emitter->segment_count = count + fresh_count - (end - first);
    return true;
}

/* X, in step `step` of the map's count, waits for the last users of the bytes from `begin` to `end`. A kernel
   is of compute stream `own`; a copy of ANY_STREAM. */
static void wait_for_room(const emitter_t *emitter, dao_swap_fence_t *fence, dao_swap_stream_t own_stream,
                          uint32_t own, int32_t step, uint64_t begin, uint64_t end)
{
    for (size_t i = find_segment(emitter, begin);
         i < emitter->segment_count && emitter->segments[i].begin < end; i++) {
        const segment_t *segment = &emitter->segments[i];
        DAO_ASSERT(segment->inactive != NO_PLACE);
        wait_for_users(emitter, fence, own, emitter->infos[segment->inactive].access, segment->step - step);
        const stream_place_t *out = &emitter->infos[segment->inactive].out;
        if (out->index != NO_PLACE && out->stream != own_stream) {
            wait_for(emitter, fence, out->stream, out->index, segment->step + out->step - step);
        }
    }
}

/* Room that is taken in the second lap. `step` is the one in which the inactive period began. */
static void fence_room(emitter_t *emitter, uint32_t inactive, int32_t step, uint64_t begin, uint64_t end)
{
    const inactive_info_t *info = &emitter->infos[inactive];
    if (info->in.index != NO_PLACE) {
        dao_swap_copy_t *copy = &emitter->streams[info->in.stream][info->in.index];
        wait_for_room(emitter, &copy->after, info->in.stream, ANY_STREAM, step + info->in.step, begin, end);
        return;
    }
    uint32_t kernel = emitter->step->accesses[access_of(emitter, inactive)->next].kernel;
    wait_for_room(emitter, &emitter->program->kernel_after[kernel], DAO_SWAP_STREAM_COMPUTE,
                  compute_of(emitter, kernel),
                  step + (int32_t)dao_swap_steps_to_next(emitter->step, info->access), begin, end);
}

/* Plays what becomes free, or is taken, in a lap of the step, for all bytes of the arena behind the part. */
static bool play_moment(emitter_t *emitter, const emit_moment_t *moment, int32_t lap)
{
    const inactive_info_t *info = &emitter->infos[moment->inactive];
    uint32_t access = moment->is_in ? access_of(emitter, moment->inactive)->next : info->access;
    uint64_t address = part_address(emitter, access, info->part);
    uint64_t end = address + dao_swap_part_size(emitter->parts, info->part);
    while (address < end) {
        dao_swap_run_t run = dao_swap_layout_run(emitter->layout, address, end);
        segment_t segment = {.begin = run.begin_bytes,
                             .end = run.end_bytes,
                             .inactive = moment->is_in ? NO_PLACE : moment->inactive,
                             .step = lap - moment->step};
        if (moment->is_in && lap == 1) {
            fence_room(emitter, moment->inactive, segment.step, segment.begin, segment.end);
        }
        if (!put_segment(emitter, &segment)) {
            return false;
        }
        DAO_ASSERT(run.begin_bytes < run.end_bytes);
        address += run.end_bytes - run.begin_bytes;
    }
    return true;
}

/* Lists what becomes free and what is taken, by time. */
static size_t list_moments(emitter_t *emitter)
{
    size_t count = 0;
    for (uint32_t g = 0; g < emitter->parts->inactive_count; g++) {
        const dao_swap_moment_t *moment = &emitter->timing->moments[g];
        if (dao_swap_is_absent(access_of(emitter, g), &emitter->decisions[g])) {
            emitter->moments[count++] = moment_at(emitter, g, moment->free_ns, false);
            emitter->moments[count++] = moment_at(emitter, g, moment->taken_ns, true);
        }
    }
    qsort(emitter->moments, count, sizeof(*emitter->moments), compare_moments);
    return count;
}

/* Plays what becomes free and what is taken around the step twice. False without memory, or if it was
   cancelled. */
static bool write_room_fences(emitter_t *emitter)
{
    size_t count = list_moments(emitter);
    for (int32_t lap = 0; lap < 2; lap++) {
        for (size_t i = 0; i < count; i++) {
            if (!play_moment(emitter, &emitter->moments[i], lap) ||
                dao_swap_is_cancelled(emitter->step->cancel)) {
                return false;
            }
        }
    }
    return true;
}

static uint64_t size_of(const emitter_t *emitter, const emit_moment_t *moment)
{
    return dao_swap_part_size(emitter->parts, emitter->infos[moment->inactive].part);
}

/* Bytes on the device as a step starts, before what happens at its very start. */
static int64_t bytes_at_start(const emitter_t *emitter, size_t moment_count)
{
    int64_t bytes = 0;
    for (uint32_t part = 0; part < emitter->parts->count; part++) {
        bool is_used = emitter->step->first_access[emitter->parts->tensor[part]] != DAO_SWAP_NONE;
        bytes += is_used ? (int64_t)dao_swap_part_size(emitter->parts, part) : 0;
    }
    for (size_t i = 0; i < moment_count; i++) { /* absent over as many starts as lie between its moments */
        const emit_moment_t *moment = &emitter->moments[i];
        bytes += (moment->is_in ? -moment->step : moment->step) * (int64_t)size_of(emitter, moment);
    }
    return bytes;
}

/* Puts what becomes free in a step into the map, one behind the other. False without memory. */
static bool line_up_frees(emitter_t *emitter, size_t moment_count, uint64_t *out_bytes)
{
    if ((emitter->segments = dao_host_calloc(moment_count + 1, sizeof(*emitter->segments))) == NULL) {
        return false;
    }
    *out_bytes = 0;
    for (size_t i = 0; i < moment_count; i++) {
        const emit_moment_t *moment = &emitter->moments[i];
        if (!moment->is_in) {
            uint64_t end = *out_bytes + size_of(emitter, moment);
            emitter->segments[emitter->segment_count++] =
                (segment_t){*out_bytes, end, moment->inactive, -moment->step};
            *out_bytes = end;
        }
    }
    return true;
}

/* Room that is taken in a step is that of the frees at `position`, around the step: negative, it was freed in
   steps before. */
static void fence_taken(emitter_t *emitter, const emit_moment_t *moment, int64_t position,
                        int64_t freed_bytes)
{
    int64_t end = position + (int64_t)size_of(emitter, moment);
    while (position < end) {
        int64_t lap = position >= 0 ? position / freed_bytes : -((freed_bytes - 1 - position) / freed_bytes);
        int64_t lap_begin = lap * freed_bytes;
        int64_t piece_end = end < lap_begin + freed_bytes ? end : lap_begin + freed_bytes;
        fence_room(emitter, moment->inactive, -moment->step - (int32_t)lap, (uint64_t)(position - lap_begin),
                   (uint64_t)(piece_end - lap_begin));
        position = piece_end;
    }
}

/* Fences of a plan without addresses. False without memory, or if it was cancelled. */
static bool write_count_fences(emitter_t *emitter)
{
    size_t count = list_moments(emitter);
    int64_t capacity_bytes = (int64_t)emitter->step->problem->capacity_bytes;
    int64_t used_bytes = bytes_at_start(emitter, count), most_bytes = used_bytes, taken_bytes = 0;
    int64_t idle_bytes = capacity_bytes - used_bytes;
    uint64_t freed_bytes;
    if (!line_up_frees(emitter, count, &freed_bytes)) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const emit_moment_t *moment = &emitter->moments[i];
        int64_t size = (int64_t)size_of(emitter, moment);
        if (dao_swap_is_cancelled(emitter->step->cancel)) {
            return false;
        }
        if (moment->is_in) {
            fence_taken(emitter, moment, taken_bytes - idle_bytes, (int64_t)freed_bytes);
            taken_bytes += size;
        }
        used_bytes += moment->is_in ? size : -size;
        most_bytes = used_bytes > most_bytes ? used_bytes : most_bytes;
    }
    DAO_ASSERT(most_bytes <= capacity_bytes && taken_bytes == (int64_t)freed_bytes);
    emitter->program->schedule.arena_bytes = (uint64_t)most_bytes;
    return true;
}

/* Hands the layout's pages over to the program. */
static bool write_pages(emitter_t *emitter)
{
    const dao_swap_layout_t *layout = emitter->layout;
    dao_swap_program_t *program = emitter->program;
    if (layout->page_bytes == 0) {
        return true;
    }
    if ((program->pages = dao_host_calloc((size_t)layout->page_count + 1, sizeof(*program->pages))) == NULL) {
        return false;
    }
    memcpy(program->pages, layout->pages, layout->page_count * sizeof(*program->pages));
    program->schedule.page_bytes = layout->page_bytes;
    program->schedule.paged_begin = layout->paged_begin;
    program->schedule.pages = program->pages;
    program->schedule.page_count = layout->page_count;
    return true;
}

static void add_resident(emitter_t *emitter, uint32_t part, uint64_t address)
{
    dao_swap_program_t *program = emitter->program;
    uint32_t *count = &program->schedule.resident_count, tensor = emitter->parts->tensor[part];
    uint64_t offset = dao_swap_part_offset(emitter->parts, part);
    DAO_ASSERT(program->residents != NULL); /* there is room for each part */
    dao_swap_resident_t *last = *count > 0 ? &program->residents[*count - 1] : NULL;
    if (last != NULL && last->tensor == tensor && last->offset_bytes + last->size_bytes == offset &&
        last->address_bytes + last->size_bytes == address) {
        last->size_bytes += dao_swap_part_content(emitter->parts, part);
        return;
    }
    program->residents[(*count)++] =
        (dao_swap_resident_t){tensor, offset, dao_swap_part_content(emitter->parts, part), address};
}

/* Returns true if a part that came at the end of the inactive period behind `before` is there, and still of
   use, as a step starts. */
static bool stays_over_start(const emitter_t *emitter, uint32_t before, uint32_t index)
{
    const dao_swap_step_t *step = emitter->step;
    emit_moment_t taken = moment_at(
        emitter, 0, emitter->timing->moments[emitter->parts->first_inactive[before] + index].taken_ns, true);
    int64_t since = -1 - taken.step; /* the latest step of `before` for which it came before step 0 */
    uint32_t access = before, inactive;
    do {
        since += dao_swap_steps_to_next(step, access);
        access = step->accesses[access].next;
        inactive = emitter->parts->first_inactive[access] + index;
    } while (!dao_swap_is_absent(&step->accesses[access], &emitter->decisions[inactive]));
    const stream_place_t *out = &emitter->infos[inactive].out;
    return since >= 0 || (out->index != NO_PLACE && since + out->step >= 0);
}

static void write_residents(emitter_t *emitter)
{
    const dao_swap_step_t *step = emitter->step;
    for (uint32_t part = 0; part < emitter->parts->count; part++) {
        uint32_t tensor = emitter->parts->tensor[part], index = part - emitter->parts->first[tensor];
        uint32_t first = step->first_access[tensor], access = first;
        bool ever_goes = false;
        if (first == DAO_SWAP_NONE) {
            continue;
        }
        do {
            bool goes = dao_swap_is_absent(
                &step->accesses[access], &emitter->decisions[emitter->parts->first_inactive[access] + index]);
            if (goes && stays_over_start(emitter, access, index)) {
                add_resident(emitter, part, part_address(emitter, step->accesses[access].next, part));
            }
            ever_goes = ever_goes || goes;
            access = step->accesses[access].next;
        } while (access != first);
        if (!ever_goes) {
            add_resident(emitter, part, part_address(emitter, first, part));
        }
    }
}

static void write_addresses(emitter_t *emitter)
{
    const dao_swap_step_t *step = emitter->step;
    dao_swap_schedule_t *schedule = &emitter->program->schedule;
    uint64_t *address = emitter->program->use_address;
    schedule->use_address = emitter->program->use_address;
    schedule->workspace_address = emitter->program->workspace_address;
    schedule->arena_bytes = emitter->layout->arena_bytes;
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        const dao_swap_kernel_t *kernel = &step->problem->kernels[k];
        for (uint32_t i = 0; i < kernel->use_count; i++) {
            uint32_t access = step->kernel_access[k];
            while (step->accesses[access].tensor != kernel->uses[i].tensor) {
                access++;
            }
            *address++ = emitter->layout->residencies[emitter->layout->residency_of[access]].address_bytes;
        }
        if (step->workspace_tensor[k] != DAO_SWAP_NONE) { /* the kernel's last access */
            uint32_t access = step->kernel_access[k + 1] - 1;
            emitter->program->workspace_address[k] =
                emitter->layout->residencies[emitter->layout->residency_of[access]].address_bytes;
        }
    }
}

dao_status_t dao_swap_emit(const dao_swap_parts_t *parts, const dao_swap_decision_t *decisions,
                           const dao_swap_timing_t *timing, const dao_swap_layout_t *layout,
                           dao_swap_program_t *program)
{
    emitter_t emitter = {.parts = parts,
                         .step = parts->step,
                         .decisions = decisions,
                         .timing = timing,
                         .layout = layout,
                         .program = program,
                         .compute_count = dao_swap_compute_stream_count(parts->step->problem)};
    *program = (dao_swap_program_t){0};
    bool ok = allocate(&emitter);
    if (ok) {
        for (uint32_t k = 0; k < parts->step->kernel_count; k++) {
            clear_fence(&program->kernel_after[k]);
        }
        describe_decisions(&emitter);
        place_slots(&emitter);
        place_copies(&emitter);
        if (emitter.compute_count > 1) {
            find_all_last_uses(&emitter);
        }
        write_copies(&emitter);
        if (emitter.compute_count > 1) {
            write_stream_fences(&emitter);
        }
        ok = layout != NULL ? write_room_fences(&emitter) && write_pages(&emitter)
                            : write_count_fences(&emitter);
    }
    if (ok) {
        write_residents(&emitter);
        if (layout != NULL) {
            write_addresses(&emitter);
        }
        program->schedule.kernel_after = program->kernel_after;
        program->schedule.residents = program->residents;
        DAO_ASSERT(program->schedule.copy_count[DAO_SWAP_STREAM_COMPUTE] == 0);
    }
    release(&emitter);
    if (!ok) {
        dao_swap_program_finish(program);
        return dao_swap_step_give_up(parts->step);
    }
    return DAO_OK;
}

void dao_swap_program_finish(dao_swap_program_t *program)
{
    dao_host_free(program->copies);
    dao_host_free(program->kernel_after);
    dao_host_free(program->use_address);
    dao_host_free(program->workspace_address);
    dao_host_free(program->residents);
    dao_host_free(program->pages);
    *program = (dao_swap_program_t){0};
}
