/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the leaves of a schedule. Copies out are looked up by tensor, part and tier, kernels by tensor. */
#include "planning/swap/swap_leaves.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_fence.h"

#include <inttypes.h>
#include <stdlib.h>

/* A copy out of a part, by what is looked for. */
typedef struct way_out {
    uint32_t tensor;
    bool is_file;
    uint64_t offset_bytes;
    uint32_t index; /* in its stream */
} way_out_t;

typedef struct finder {
    dao_swap_step_t step;
    const dao_swap_schedule_t *schedule;
    way_out_t *outs; /* sorted */
    uint32_t out_count;
    dao_swap_stream_t out_stream[2]; /* of the host, of the file */
    uint32_t *users;                 /* kernels that use each tensor, in order, tensor by tensor */
    uint32_t *user_first;            /* tensors + 1 */
    dao_swap_resident_t *residents;  /* sorted */
    dao_swap_leave_t *leaves;
    uint32_t count;
} finder_t;

static int compare_outs(const void *left, const void *right)
{
    const way_out_t *a = left, *b = right;
    if (a->tensor != b->tensor) {
        return a->tensor < b->tensor ? -1 : 1;
    }
    if (a->is_file != b->is_file) {
        return a->is_file ? 1 : -1;
    }
    if (a->offset_bytes != b->offset_bytes) {
        return a->offset_bytes < b->offset_bytes ? -1 : 1;
    }
    return a->index < b->index ? -1 : a->index > b->index;
}

static int compare_leaves(const void *left, const void *right)
{
    const dao_swap_leave_t *a = left, *b = right;
    if (a->kernel != b->kernel) {
        return a->kernel < b->kernel ? -1 : 1;
    }
    if (a->tensor != b->tensor) {
        return a->tensor < b->tensor ? -1 : 1;
    }
    return a->offset_bytes < b->offset_bytes ? -1 : a->offset_bytes > b->offset_bytes;
}

static int compare_residents(const void *left, const void *right)
{
    const dao_swap_resident_t *a = left, *b = right;
    if (a->tensor != b->tensor) {
        return a->tensor < b->tensor ? -1 : 1;
    }
    return a->offset_bytes < b->offset_bytes ? -1 : a->offset_bytes > b->offset_bytes;
}

/* ---- is it this problem's schedule? ---- */

static dao_status_t check_fence(const finder_t *finder, const dao_swap_fence_t *fence, const char *what,
                                uint32_t index)
{
    for (uint32_t stream = 0; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        uint32_t count = stream == DAO_SWAP_STREAM_COMPUTE ? finder->step.kernel_count
                                                           : finder->schedule->copy_count[stream];
        int32_t done =
            stream == DAO_SWAP_STREAM_COMPUTE ? dao_swap_fence_all_kernels(fence) : fence->done[stream];
        if (done > (int64_t)count) {
            return dao_error(DAO_ERR_INVALID,
                             "the schedule is not of this problem: %s %" PRIu32 " waits for %" PRId32
                             " operations of stream %" PRIu32 ", which has %" PRIu32 " in a step",
                             what, index, done, stream, count);
        }
    }
    return DAO_OK;
}

static dao_status_t check_copy(const finder_t *finder, const dao_swap_copy_t *copy, uint32_t index)
{
    const dao_swap_problem_t *problem = finder->step.problem;
    if (copy->tensor >= problem->tensor_count) {
        return dao_error(DAO_ERR_INVALID,
                         "the schedule is not of this problem: copy %" PRIu32 " moves tensor %" PRIu32
                         ", but there are %" PRIu32,
                         index, copy->tensor, problem->tensor_count);
    }
    uint64_t size_bytes = problem->tensors[copy->tensor].size_bytes;
    if (copy->offset_bytes > size_bytes || copy->size_bytes > size_bytes - copy->offset_bytes) {
        return dao_error(DAO_ERR_INVALID,
                         "the schedule is not of this problem: copy %" PRIu32 " moves %" PRIu64
                         " bytes from %" PRIu64 " on of tensor %" PRIu32 ", which has %" PRIu64,
                         index, copy->size_bytes, copy->offset_bytes, copy->tensor, size_bytes);
    }
    if (finder->step.first_access[copy->tensor] == DAO_SWAP_NONE) {
        return dao_error(DAO_ERR_INVALID,
                         "the schedule is not of this problem: copy %" PRIu32 " moves tensor %" PRIu32
                         ", which no kernel uses",
                         index, copy->tensor);
    }
    return check_fence(finder, &copy->after, "copy", index);
}

/* Only what a follower looks at: a schedule without addresses has no others. */
static dao_status_t check_arrays(const finder_t *finder)
{
    const dao_swap_schedule_t *schedule = finder->schedule;
    const char *missing = schedule->kernel_after == NULL                                ? "kernel_after"
                          : schedule->residents == NULL && schedule->resident_count > 0 ? "residents"
                                                                                        : NULL;
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        if (schedule->copies[stream] == NULL && schedule->copy_count[stream] > 0) {
            missing = "copies";
        }
    }
    return missing == NULL ? DAO_OK : dao_error(DAO_ERR_INVALID, "the schedule's %s is NULL", missing);
}

static dao_status_t check_schedule(const finder_t *finder)
{
    dao_status_t status = check_arrays(finder);
    for (uint32_t k = 0; status == DAO_OK && k < finder->step.kernel_count; k++) {
        status = check_fence(finder, &finder->schedule->kernel_after[k], "kernel", k);
    }
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        for (uint32_t i = 0; status == DAO_OK && i < finder->schedule->copy_count[stream]; i++) {
            status = check_copy(finder, &finder->schedule->copies[stream][i], i);
        }
    }
    return status;
}

/* ---- looking up ---- */

static void list_outs(finder_t *finder)
{
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        for (uint32_t i = 0; i < finder->schedule->copy_count[stream]; i++) {
            const dao_swap_copy_t *copy = &finder->schedule->copies[stream][i];
            if (!copy->is_in) {
                finder->outs[finder->out_count++] =
                    (way_out_t){copy->tensor, copy->is_file, copy->offset_bytes, i};
                finder->out_stream[copy->is_file] = (dao_swap_stream_t)stream;
            }
        }
    }
    qsort(finder->outs, finder->out_count, sizeof(*finder->outs), compare_outs);
}

static void list_users(finder_t *finder)
{
    const dao_swap_step_t *step = &finder->step;
    uint32_t *first = finder->user_first;
    for (uint32_t a = 0; a < step->access_count; a++) {
        first[step->accesses[a].tensor + 1]++;
    }
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        first[t + 1] += first[t];
    }
    for (uint32_t a = 0; a < step->access_count; a++) { /* first[t] becomes the end of t: moved back below */
        finder->users[first[step->accesses[a].tensor]++] = step->accesses[a].kernel;
    }
    for (uint32_t t = step->tensor_count; t > 0; t--) {
        first[t] = first[t - 1];
    }
    first[0] = 0;
}

/* Returns the last of the copies out of a part that is at an index below `limit`; DAO_SWAP_NONE. */
static uint32_t last_out(const finder_t *finder, const dao_swap_copy_t *in, uint32_t limit)
{
    const way_out_t wanted = {in->tensor, in->is_file, in->offset_bytes, limit};
    uint32_t low = 0, high = finder->out_count;
    while (low < high) { /* the first one that is not below it */
        uint32_t middle = low + (high - low) / 2;
        if (compare_outs(&finder->outs[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const way_out_t *found = low > 0 ? &finder->outs[low - 1] : NULL;
    bool is_it = found != NULL && found->tensor == in->tensor && found->is_file == in->is_file &&
                 found->offset_bytes == in->offset_bytes;
    return is_it ? found->index : DAO_SWAP_NONE;
}

/* Returns the last kernel that uses a tensor among the first `limit`; DAO_SWAP_NONE. */
static uint32_t last_user(const finder_t *finder, uint32_t tensor, uint32_t limit)
{
    uint32_t low = finder->user_first[tensor], first = low, high = finder->user_first[tensor + 1];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (finder->users[middle] < limit) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low > first ? finder->users[low - 1] : DAO_SWAP_NONE;
}

/* Returns true if a copy's part is on the device as a step starts. */
static bool is_resident(const finder_t *finder, const dao_swap_copy_t *in)
{
    const dao_swap_resident_t wanted = {.tensor = in->tensor, .offset_bytes = in->offset_bytes};
    uint32_t low = 0, high = finder->schedule->resident_count;
    while (low < high) { /* the first one behind it */
        uint32_t middle = low + (high - low) / 2;
        if (compare_residents(&finder->residents[middle], &wanted) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const dao_swap_resident_t *found = low > 0 ? &finder->residents[low - 1] : NULL;
    return found != NULL && found->tensor == in->tensor &&
           in->offset_bytes < found->offset_bytes + found->size_bytes;
}

/* ---- leaves ---- */

/* `done` of a fence as a count of the step before where it is 0 or less: at least 0. */
static uint32_t count_before(int32_t done, uint32_t count, bool *out_is_before)
{
    int64_t before = done;
    *out_is_before = done <= 0;
    if (done <= 0) {
        before = (int64_t)count + done;
    }
    return before > 0 ? (uint32_t)before : 0;
}

/* What a copy in brings back. */
static void note_way(finder_t *finder, dao_swap_stream_t stream, uint32_t index)
{
    const dao_swap_schedule_t *schedule = finder->schedule;
    const dao_swap_copy_t *in = &schedule->copies[stream][index];
    bool is_before;
    uint32_t limit =
        count_before(dao_swap_fence_all_kernels(&in->after), finder->step.kernel_count, &is_before);
    uint32_t kernel = last_user(finder, in->tensor, limit);
    if (kernel == DAO_SWAP_NONE) {
        is_before = true;
        kernel = last_user(finder, in->tensor, UINT32_MAX);
    }
    DAO_ASSERT(kernel != DAO_SWAP_NONE); /* the tensor is used */
    dao_swap_leave_t leave = {.tensor = in->tensor,
                              .kernel = kernel,
                              .offset_bytes = in->offset_bytes,
                              .size_bytes = in->size_bytes,
                              .stream = DAO_SWAP_STREAM_COMPUTE,
                              .is_resident = is_before && is_resident(finder, in)};
    dao_swap_stream_t out_stream = finder->out_stream[in->is_file];
    int32_t done = out_stream == stream ? (int32_t)index : in->after.done[out_stream];
    if (out_stream != DAO_SWAP_STREAM_COMPUTE && done != DAO_SWAP_NO_WAIT) {
        int64_t count = schedule->copy_count[out_stream];
        bool out_is_before = false;
        uint32_t out_limit =
            out_stream == stream ? index : count_before(done, (uint32_t)count, &out_is_before);
        uint32_t out = last_out(finder, in, out_limit);
        if (out == DAO_SWAP_NONE) {
            out_is_before = true;
            out = last_out(finder, in, UINT32_MAX);
        }
        if (out != DAO_SWAP_NONE) {
            leave.stream = out_stream;
            leave.done = (int64_t)out + 1 - (out_is_before ? count : 0) + (is_before ? count : 0);
        }
    }
    finder->leaves[finder->count++] = leave;
}

/* Tensors whose content nobody needs behind a use. Workspaces have no number that a caller knows. */
static void note_deaths(finder_t *finder)
{
    const dao_swap_step_t *step = &finder->step;
    for (uint32_t a = 0; a < step->access_count; a++) {
        const dao_swap_access_t *access = &step->accesses[a];
        if (!access->inactive_is_live && access->tensor < step->problem->tensor_count) {
            finder->leaves[finder->count++] =
                (dao_swap_leave_t){.tensor = access->tensor,
                                   .kernel = access->kernel,
                                   .size_bytes = step->problem->tensors[access->tensor].size_bytes,
                                   .stream = DAO_SWAP_STREAM_COMPUTE,
                                   .is_dead = true};
        }
    }
}

/* Returns false without memory for the lists of a finder. */
static bool make_lists(finder_t *finder)
{
    const dao_swap_step_t *step = &finder->step;
    size_t copies = 0, residents = finder->schedule->resident_count;
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        copies += finder->schedule->copy_count[stream];
    }
    finder->outs = dao_host_calloc(copies + 1, sizeof(*finder->outs));
    finder->users = dao_host_calloc((size_t)step->access_count + 1, sizeof(*finder->users));
    finder->user_first = dao_host_calloc((size_t)step->tensor_count + 1, sizeof(*finder->user_first));
    finder->residents = dao_host_calloc(residents + 1, sizeof(*finder->residents));
    finder->leaves = dao_host_calloc(copies + step->access_count + 1, sizeof(*finder->leaves));
    return finder->outs != NULL && finder->users != NULL && finder->user_first != NULL &&
           finder->residents != NULL && finder->leaves != NULL;
}

static dao_status_t find_all(finder_t *finder)
{
    if (!make_lists(finder)) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to follow the schedule of a step");
    }
    list_outs(finder);
    list_users(finder);
    for (uint32_t i = 0; i < finder->schedule->resident_count; i++) {
        finder->residents[i] = finder->schedule->residents[i];
    }
    qsort(finder->residents, finder->schedule->resident_count, sizeof(*finder->residents), compare_residents);
    for (uint32_t stream = DAO_SWAP_STREAM_COMPUTE + 1; stream < DAO_SWAP_STREAM_COUNT; stream++) {
        for (uint32_t i = 0; i < finder->schedule->copy_count[stream]; i++) {
            if (finder->schedule->copies[stream][i].is_in) {
                note_way(finder, (dao_swap_stream_t)stream, i);
            }
        }
    }
    note_deaths(finder);
    qsort(finder->leaves, finder->count, sizeof(*finder->leaves), compare_leaves);
    return DAO_OK;
}

dao_status_t dao_swap_leaves_find(const dao_swap_problem_t *problem, const dao_swap_schedule_t *schedule,
                                  dao_swap_leave_t **out_leaves, uint32_t *out_count)
{
    finder_t finder = {.schedule = schedule};
    dao_status_t status = dao_swap_step_init(&finder.step, problem);
    if (status != DAO_OK) {
        return status;
    }
    status = check_schedule(&finder);
    status = status == DAO_OK ? find_all(&finder) : status;
    dao_host_free(finder.outs);
    dao_host_free(finder.users);
    dao_host_free(finder.user_first);
    dao_host_free(finder.residents);
    dao_swap_step_finish(&finder.step);
    if (status != DAO_OK) {
        dao_host_free(finder.leaves);
        return status;
    }
    *out_leaves = finder.leaves;
    *out_count = finder.count;
    return DAO_OK;
}
