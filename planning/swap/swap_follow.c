/* SPDX-License-Identifier: Apache-2.0 */
/* Following a schedule: what has ended, counted since the first step, and what may start therefore.

       leave     listed --its kernel ends--> waiting --its copy out has ended--> returned
       copy      due --its fence is met--> returned, under way --> ended

   Invariants: ended[stream] <= started[stream]; copies of a stream are returned in their order, and two under
   way have the same direction; a leave waits once at most; next_leave is the first one of a kernel that has
   not ended. */
#include "planning/swap/swap_leaves.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_fence.h"

#include <dao/swap_follow.h>

#include <inttypes.h>

#define NOTHING UINT32_MAX

/* A leave whose kernel has ended. */
typedef struct waiting {
    uint64_t needed; /* copies of its stream */
    uint32_t next;   /* in the list; NOTHING: the last */
    bool is_waiting;
} waiting_t;

struct dao_swap_follower {
    const dao_swap_schedule_t *schedule;
    uint32_t kernel_count;
    uint32_t leave_count;
    dao_swap_leave_t *leaves; /* by kernel */
    waiting_t *waiting;       /* of each leave */
    uint32_t first_waiting, last_waiting;
    uint32_t looked_at; /* the one before the next to be looked at; NOTHING: the list's begin */
    bool is_looked_through;
    uint32_t next_leave;
    uint64_t started[DAO_SWAP_STREAM_COUNT], ended[DAO_SWAP_STREAM_COUNT];
};

static uint64_t count_of(const dao_swap_follower_t *follower, uint32_t stream)
{
    return stream == DAO_SWAP_STREAM_COMPUTE ? follower->kernel_count
                                             : follower->schedule->copy_count[stream];
}

static uint64_t step_of(const dao_swap_follower_t *follower)
{
    return follower->ended[DAO_SWAP_STREAM_COMPUTE] / follower->kernel_count;
}

/* How many operations of a stream have to have ended for `done` of an operation in a step. */
static uint64_t needed_of(const dao_swap_follower_t *follower, uint32_t stream, uint64_t step, int64_t done)
{
    int64_t needed = (int64_t)(step * count_of(follower, stream)) + done;
    return done == DAO_SWAP_NO_WAIT || needed < 0 ? 0 : (uint64_t)needed;
}

/* Returns the first stream that an operation waits for, among those behind COMPUTE; COMPUTE: none. */
static dao_swap_stream_t awaited_copies(const dao_swap_follower_t *follower, const dao_swap_fence_t *fence,
                                        uint64_t step)
{
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        if (needed_of(follower, stream, step, fence->done[stream]) > follower->ended[stream]) {
            return (dao_swap_stream_t)stream;
        }
    }
    return DAO_SWAP_STREAM_COMPUTE;
}

/* How many kernels have to have ended before a copy. No copy runs more than a step ahead. */
static uint64_t kernels_before(const dao_swap_follower_t *follower, const dao_swap_copy_t *copy,
                               uint64_t step)
{
    uint64_t needed =
        needed_of(follower, DAO_SWAP_STREAM_COMPUTE, step, dao_swap_fence_all_kernels(&copy->after));
    return dao_larger(needed, step > 0 ? (step - 1) * follower->kernel_count : 0);
}

/* ---- bytes that leave ---- */

static void add_waiting(dao_swap_follower_t *follower, uint32_t index, uint64_t step)
{
    const dao_swap_leave_t *leave = &follower->leaves[index];
    waiting_t *waiting = &follower->waiting[index];
    bool is_listed = waiting->is_waiting;
    waiting->is_waiting = true;
    waiting->needed = needed_of(follower, leave->stream, step, leave->done);
    if (is_listed) { /* the program is a step ahead of its copies: it leaves once */
        return;
    }
    waiting->next = NOTHING;
    if (follower->last_waiting == NOTHING) {
        follower->first_waiting = index;
    } else {
        follower->waiting[follower->last_waiting].next = index;
    }
    follower->last_waiting = index;
}

static void look_again(dao_swap_follower_t *follower)
{
    follower->looked_at = NOTHING;
    follower->is_looked_through = false;
}

/* Takes the next leave whose copy out has ended from the list. NULL: there is none until something ends. */
static const dao_swap_leave_t *next_leave(dao_swap_follower_t *follower)
{
    while (!follower->is_looked_through) {
        uint32_t *link = follower->looked_at == NOTHING ? &follower->first_waiting
                                                        : &follower->waiting[follower->looked_at].next;
        uint32_t index = *link;
        if (index == NOTHING) {
            follower->is_looked_through = true;
            break;
        }
        waiting_t *waiting = &follower->waiting[index];
        const dao_swap_leave_t *leave = &follower->leaves[index];
        DAO_ASSERT(waiting->is_waiting);
        if (leave->stream != DAO_SWAP_STREAM_COMPUTE && follower->ended[leave->stream] < waiting->needed) {
            follower->looked_at = index;
            continue;
        }
        *link = waiting->next;
        waiting->is_waiting = false;
        if (follower->last_waiting == index) {
            follower->last_waiting = follower->looked_at;
        }
        return leave;
    }
    return NULL;
}

/* ---- copies ---- */

static const dao_swap_copy_t *next_copy(const dao_swap_follower_t *follower, uint32_t stream,
                                        uint64_t *out_step)
{
    uint32_t count = follower->schedule->copy_count[stream];
    if (count == 0) {
        return NULL;
    }
    *out_step = follower->started[stream] / count;
    return &follower->schedule->copies[stream][follower->started[stream] % count];
}

/* Returns true if a copy's turn has come among those of its stream. With half duplex one in takes the room
   of one out before it. */
static bool is_its_turn(const dao_swap_follower_t *follower, uint32_t stream, const dao_swap_copy_t *copy)
{
    uint64_t started = follower->started[stream];
    DAO_ASSERT(started >= follower->ended[stream]);
    if (started == follower->ended[stream]) {
        return true;
    }
    return follower->schedule->copies[stream][(started - 1) % count_of(follower, stream)].is_in ==
           copy->is_in;
}

static bool may_start(const dao_swap_follower_t *follower, uint32_t stream, const dao_swap_copy_t *copy,
                      uint64_t step)
{
    dao_swap_fence_t after = copy->after;
    after.done[stream] = DAO_SWAP_NO_WAIT; /* a stream keeps its order */
    return kernels_before(follower, copy, step) <= follower->ended[DAO_SWAP_STREAM_COMPUTE] &&
           awaited_copies(follower, &after, step) == DAO_SWAP_STREAM_COMPUTE &&
           is_its_turn(follower, stream, copy);
}

/* Returns a stream whose oldest copy under way has to end before the next one of `stream` can. Only if there
   is none, as the program has not asked for the next copy, that one's stream. */
static dao_swap_stream_t under_way_before(const dao_swap_follower_t *follower, dao_swap_stream_t stream)
{
    for (uint32_t i = 0; i < DAO_SWAP_STREAM_COUNT && follower->started[stream] == follower->ended[stream];
         i++) {
        uint64_t step = 0;
        const dao_swap_copy_t *copy = next_copy(follower, stream, &step);
        if (copy == NULL) {
            break;
        }
        dao_swap_fence_t after = copy->after;
        after.done[stream] = DAO_SWAP_NO_WAIT;
        dao_swap_stream_t awaited = awaited_copies(follower, &after, step);
        if (awaited == DAO_SWAP_STREAM_COMPUTE) {
            break;
        }
        stream = awaited;
    }
    return stream;
}

/* ---- calls ---- */

dao_status_t dao_swap_follower_create(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                                      dao_swap_follower_t **out_follower)
{
    if (problem == NULL || schedule == NULL || out_follower == NULL) {
        return dao_error_null(__func__, problem == NULL    ? "problem"
                                        : schedule == NULL ? "schedule"
                                                           : "out_follower");
    }
    dao_swap_leave_t *leaves = NULL;
    uint32_t leave_count = 0;
    dao_status_t status = dao_swap_leaves_find(problem, schedule, &leaves, &leave_count);
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", __func__);
        return status;
    }
    dao_swap_follower_t *follower = dao_host_calloc(1, sizeof(*follower));
    waiting_t *waiting = dao_host_calloc((size_t)leave_count + 1, sizeof(*waiting));
    if (follower == NULL || waiting == NULL) {
        dao_host_free(follower);
        dao_host_free(waiting);
        dao_host_free(leaves);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for a follower of %" PRIu32 " kernels",
                         __func__, problem->kernel_count);
    }
    *follower = (dao_swap_follower_t){.schedule = schedule,
                                      .kernel_count = problem->kernel_count,
                                      .leave_count = leave_count,
                                      .leaves = leaves,
                                      .waiting = waiting};
    dao_swap_follower_restart(follower);
    *out_follower = follower;
    return DAO_OK;
}

void dao_swap_follower_destroy(dao_swap_follower_t *follower)
{
    if (follower != NULL) {
        dao_host_free(follower->leaves);
        dao_host_free(follower->waiting);
        dao_host_free(follower);
    }
}

void dao_swap_follower_restart(dao_swap_follower_t *follower)
{
    if (follower == NULL) {
        return;
    }
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        follower->started[stream] = follower->ended[stream] = 0;
    }
    follower->first_waiting = follower->last_waiting = NOTHING;
    follower->next_leave = 0;
    look_again(follower);
    for (uint32_t i = 0; i < follower->leave_count; i++) {
        follower->waiting[i].is_waiting = false;
    }
    for (uint32_t i = 0; i < follower->leave_count; i++) {
        if (follower->leaves[i].is_resident) {
            add_waiting(follower, i, 0);
            int64_t needed =
                follower->leaves[i].done - (int64_t)count_of(follower, follower->leaves[i].stream);
            follower->waiting[i].needed = needed > 0 ? (uint64_t)needed : 0;
        }
    }
}

bool dao_swap_follower_next(dao_swap_follower_t *follower, dao_swap_action_t *out_action)
{
    if (follower == NULL || out_action == NULL) {
        (void)dao_error_null(__func__,
                             follower == NULL ? "follower" : "out_action"); /* by dao_last_status() */
        return false;
    }
    const dao_swap_leave_t *leave = next_leave(follower);
    if (leave != NULL) {
        *out_action = (dao_swap_action_t){.stream = DAO_SWAP_STREAM_COMPUTE,
                                          .tensor = leave->tensor,
                                          .offset_bytes = leave->offset_bytes,
                                          .size_bytes = leave->size_bytes,
                                          .is_dead = leave->is_dead};
        return true;
    }
    static const dao_swap_stream_t order[] = {DAO_SWAP_STREAM_HOST_OUT, DAO_SWAP_STREAM_FILE_OUT,
                                              DAO_SWAP_STREAM_HOST_IN, DAO_SWAP_STREAM_FILE_IN};
    for (uint32_t i = 0; i < sizeof(order) / sizeof(*order); i++) {
        uint64_t step = 0;
        const dao_swap_copy_t *copy = next_copy(follower, order[i], &step);
        if (copy != NULL && may_start(follower, order[i], copy, step)) {
            follower->started[order[i]]++;
            *out_action = (dao_swap_action_t){
                copy, order[i], copy->tensor, copy->offset_bytes, copy->size_bytes, false};
            return true;
        }
    }
    return false;
}

dao_status_t dao_swap_follower_kernel_begin(const dao_swap_follower_t *follower, uint32_t kernel,
                                            dao_swap_stream_t *out_awaited)
{
    if (follower == NULL || out_awaited == NULL) {
        return dao_error_null(__func__, follower == NULL ? "follower" : "out_awaited");
    }
    uint64_t step = step_of(follower);
    uint32_t due = (uint32_t)(follower->ended[DAO_SWAP_STREAM_COMPUTE] % follower->kernel_count);
    if (kernel != due) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: kernel %" PRIu32 " of %" PRIu32 ", but it is the turn of %" PRIu32
                         " in step %" PRIu64,
                         __func__, kernel, follower->kernel_count, due, step);
    }
    dao_swap_stream_t awaited = awaited_copies(follower, &follower->schedule->kernel_after[kernel], step);
    *out_awaited = awaited != DAO_SWAP_STREAM_COMPUTE ? under_way_before(follower, awaited) : awaited;
    return DAO_OK;
}

dao_status_t dao_swap_follower_kernel_end(dao_swap_follower_t *follower, uint32_t kernel)
{
    if (follower == NULL) {
        return dao_error_null(__func__, "follower");
    }
    uint64_t *ended = &follower->ended[DAO_SWAP_STREAM_COMPUTE], step = step_of(follower);
    uint32_t due = (uint32_t)(*ended % follower->kernel_count);
    if (kernel < due || kernel >= follower->kernel_count) {
        return dao_error(DAO_ERR_INVALID,
                         "%s: kernel %" PRIu32 " of %" PRIu32 ", but it is the turn of %" PRIu32
                         " in step %" PRIu64,
                         __func__, kernel, follower->kernel_count, due, step);
    }
    *ended += kernel - due + 1;
    while (follower->next_leave < follower->leave_count &&
           follower->leaves[follower->next_leave].kernel <= kernel) {
        add_waiting(follower, follower->next_leave++, step);
    }
    if (kernel + 1 == follower->kernel_count) {
        follower->next_leave = 0;
    }
    look_again(follower);
    return DAO_OK;
}

dao_status_t dao_swap_follower_copy_end(dao_swap_follower_t *follower, dao_swap_stream_t stream)
{
    if (follower == NULL) {
        return dao_error_null(__func__, "follower");
    }
    if (stream <= DAO_SWAP_STREAM_COMPUTE || stream >= DAO_SWAP_STREAM_COUNT ||
        follower->ended[stream] == follower->started[stream]) {
        return dao_error(DAO_ERR_INVALID, "%s: no copy of stream %d is under way", __func__, (int)stream);
    }
    follower->ended[stream]++;
    look_again(follower);
    return DAO_OK;
}

uint32_t dao_swap_follower_due(const dao_swap_follower_t *follower)
{
    if (follower == NULL) {
        (void)dao_error_null(__func__, "follower"); /* by dao_last_status() */
        return 0;
    }
    uint64_t ended = follower->ended[DAO_SWAP_STREAM_COMPUTE];
    uint64_t begin = step_of(follower) * follower->kernel_count, due = begin + follower->kernel_count;
    if (follower->next_leave < follower->leave_count) {
        due = begin + follower->leaves[follower->next_leave].kernel;
    }
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        uint64_t step = 0;
        const dao_swap_copy_t *copy = next_copy(follower, stream, &step);
        uint64_t needed = copy != NULL ? kernels_before(follower, copy, step) : 0;
        due = needed > ended ? dao_smaller(due, needed - 1) : due;
    }
    return (uint32_t)dao_smaller(due - begin, follower->kernel_count);
}
