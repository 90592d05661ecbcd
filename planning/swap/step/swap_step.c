/* SPDX-License-Identifier: Apache-2.0 */
/* Checks the uses of a step and joins them. One pass over the kernels joins uses of the same tensor; one pass
   backwards links each access with the next one of its tensor; one pass over the inactive periods sums up
   live bytes.

   Invariants: accesses lie in the order of their kernels, and a tensor has one at most in each; the `next`
   links of a tensor's accesses are one ring, whose inactive periods add up to kernel_count; kernel_bytes[k]
   <= live_bytes[k]. */
#include "planning/swap/step/swap_step.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "planning/swap/step/swap_tier.h"

#include <inttypes.h>
#include <string.h>

static dao_status_t check_tier(const char *name, const dao_swap_tier_t *tier)
{
    if (tier->duplex != DAO_SWAP_DUPLEX_FULL && tier->duplex != DAO_SWAP_DUPLEX_HALF) {
        return dao_error(DAO_ERR_INVALID, "%s tier: there is no duplex %d", name, (int)tier->duplex);
    }
    if (tier->latency_ns > DAO_SWAP_TIME_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "%s tier: a latency of %" PRIu64 " ns is more than %" PRIu64, name,
                         tier->latency_ns, DAO_SWAP_TIME_MAX);
    }
    return DAO_OK;
}

static dao_status_t check_counts(const dao_swap_problem_t *problem)
{
    if ((problem->tensors == NULL && problem->tensor_count != 0) || problem->kernels == NULL ||
        problem->kernel_count == 0) {
        return dao_error(DAO_ERR_INVALID, "a step needs at least one kernel, and its tensors");
    }
    if (problem->tensor_count > DAO_SWAP_COUNT_MAX || problem->kernel_count > DAO_SWAP_COUNT_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "%u tensors and %u kernels: at most %u of each",
                         problem->tensor_count, problem->kernel_count, DAO_SWAP_COUNT_MAX);
    }
    return DAO_OK;
}

static dao_status_t check_settings(const dao_swap_problem_t *problem)
{
    if (problem->host.in_bytes_per_second == 0) {
        return dao_error(DAO_ERR_INVALID, "the host's link has no speed: give bytes per second");
    }
    if (problem->alignment_bytes != 0 && !dao_is_power_of_two(problem->alignment_bytes)) {
        return dao_error(DAO_ERR_INVALID, "an alignment of %u bytes is no power of two",
                         problem->alignment_bytes);
    }
    uint64_t alignment =
        problem->alignment_bytes != 0 ? problem->alignment_bytes : DAO_SWAP_ALIGNMENT_DEFAULT;
    if (problem->page_bytes != 0 &&
        (!dao_is_power_of_two(problem->page_bytes) || problem->page_bytes < alignment ||
         problem->page_bytes > DAO_SWAP_SIZE_MAX)) {
        return dao_error(DAO_ERR_INVALID,
                         "pages of %" PRIu64 " bytes: a power of two, at least the alignment of %" PRIu64,
                         problem->page_bytes, alignment);
    }
    dao_status_t status = check_tier("host", &problem->host);
    return status == DAO_OK ? check_tier("file", &problem->file) : status;
}

static dao_status_t check_tensors(const dao_swap_problem_t *problem)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        uint64_t size = problem->tensors[i].size_bytes;
        if (size == 0) {
            return dao_error(DAO_ERR_INVALID, "tensor %u has no bytes", i);
        }
        if (problem->tensors[i].is_from_file && problem->file.in_bytes_per_second == 0) {
            return dao_error(DAO_ERR_INVALID,
                             "tensor %u comes from a file, and the file's link has no speed: give bytes per "
                             "second",
                             i);
        }
        if (size > DAO_SWAP_SIZE_MAX || (sum += size) > DAO_SWAP_SIZE_MAX) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "with tensor %u of %" PRIu64 " bytes all are more than %" PRIu64, i, size,
                             DAO_SWAP_SIZE_MAX);
        }
    }
    return DAO_OK;
}

/* Also counts. */
static dao_status_t check_kernels(const dao_swap_problem_t *problem, uint64_t *out_uses,
                                  uint32_t *out_workspaces)
{
    uint64_t uses = 0, time_ns = 0;
    uint32_t workspaces = 0;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        const dao_swap_kernel_t *kernel = &problem->kernels[k];
        if (kernel->uses == NULL && kernel->use_count != 0) {
            return dao_error(DAO_ERR_INVALID, "kernel %u names %u tensors, and its list is NULL", k,
                             kernel->use_count);
        }
        if (kernel->stream >= DAO_SWAP_COMPUTE_STREAM_MAX) {
            return dao_error(DAO_ERR_INVALID, "kernel %u is on compute stream %u: at most %u are possible", k,
                             kernel->stream, DAO_SWAP_COMPUTE_STREAM_MAX);
        }
        uses += kernel->use_count;
        if (kernel->time_ns > DAO_SWAP_TIME_MAX || (time_ns += kernel->time_ns) > DAO_SWAP_TIME_MAX ||
            kernel->workspace_bytes > DAO_SWAP_SIZE_MAX || uses > DAO_SWAP_COUNT_MAX) {
            return dao_error(DAO_ERR_OVERFLOW,
                             "kernel %u: beyond the limits of a step's times, bytes or uses", k);
        }
        workspaces += kernel->workspace_bytes != 0;
        for (uint32_t i = 0; i < kernel->use_count; i++) {
            const dao_swap_use_t *use = &kernel->uses[i];
            if (use->tensor >= problem->tensor_count || use->access < DAO_ACCESS_READ ||
                use->access > DAO_ACCESS_READ_WRITE) {
                return dao_error(DAO_ERR_INVALID, "kernel %u, use %u: no tensor %u, or no access %d", k, i,
                                 use->tensor, (int)use->access);
            }
            if (use->access != DAO_ACCESS_READ && problem->tensors[use->tensor].is_from_file) {
                return dao_error(DAO_ERR_INVALID,
                                 "kernel %u, use %u: tensor %u, which comes from a file, is written", k, i,
                                 use->tensor);
            }
        }
    }
    *out_uses = uses;
    *out_workspaces = workspaces;
    return DAO_OK;
}

static bool allocate(dao_swap_step_t *step, uint64_t access_max, uint32_t tensor_count)
{
    size_t kernels = step->problem->kernel_count;
    size_t tensors = tensor_count > 0 ? tensor_count : 1;
    return (step->size_bytes = dao_host_calloc(tensors, sizeof(*step->size_bytes))) != NULL &&
           (step->first_access = dao_host_calloc(tensors, sizeof(*step->first_access))) != NULL &&
           (step->kernel_access = dao_host_calloc(kernels + 1, sizeof(*step->kernel_access))) != NULL &&
           (step->workspace_tensor = dao_host_calloc(kernels, sizeof(*step->workspace_tensor))) != NULL &&
           (step->accesses = dao_host_calloc(access_max > 0 ? access_max : 1, sizeof(*step->accesses))) !=
               NULL &&
           (step->kernel_bytes = dao_host_calloc(kernels, sizeof(*step->kernel_bytes))) != NULL &&
           (step->live_bytes = dao_host_calloc(kernels + 1, sizeof(*step->live_bytes))) != NULL &&
           (step->time_before = dao_host_calloc(kernels + 1, sizeof(*step->time_before))) != NULL;
}

/* Adds a use to the access of its tensor by a kernel. */
static void add_use(dao_swap_step_t *step, uint32_t kernel, uint32_t tensor, dao_access_t access)
{
    uint32_t *latest = &step->first_access[tensor]; /* the first one from link_accesses() on */
    uint32_t at = *latest;
    if (at == DAO_SWAP_NONE || step->accesses[at].kernel != kernel) {
        at = step->access_count++;
        *latest = at;
        step->accesses[at] = (dao_swap_access_t){.tensor = tensor, .kernel = kernel, .writer = DAO_SWAP_NONE};
        step->kernel_bytes[kernel] += step->size_bytes[tensor];
    }
    step->accesses[at].reads = step->accesses[at].reads || access != DAO_ACCESS_WRITE;
    step->accesses[at].writes = step->accesses[at].writes || access != DAO_ACCESS_READ;
}

/* What a tensor takes: whole pages, if it lies in them. */
static uint64_t rounded_size(const dao_swap_step_t *step, uint64_t size_bytes)
{
    return dao_round_up(size_bytes,
                        dao_swap_is_paged(step, size_bytes) ? step->page_bytes : step->alignment_bytes);
}

static void join_uses(dao_swap_step_t *step)
{
    const dao_swap_problem_t *problem = step->problem;
    for (uint32_t i = 0; i < problem->tensor_count; i++) {
        step->size_bytes[i] = rounded_size(step, problem->tensors[i].size_bytes);
        step->first_access[i] = DAO_SWAP_NONE;
    }
    step->tensor_count = problem->tensor_count;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        const dao_swap_kernel_t *kernel = &problem->kernels[k];
        step->kernel_access[k] = step->access_count;
        step->time_before[k + 1] = step->time_before[k] + kernel->time_ns;
        for (uint32_t i = 0; i < kernel->use_count; i++) {
            add_use(step, k, kernel->uses[i].tensor, kernel->uses[i].access);
        }
        step->workspace_tensor[k] = DAO_SWAP_NONE;
        if (kernel->workspace_bytes != 0) {
            uint32_t tensor = step->tensor_count++;
            step->size_bytes[tensor] = rounded_size(step, kernel->workspace_bytes);
            step->first_access[tensor] = DAO_SWAP_NONE;
            step->workspace_tensor[k] = tensor;
            add_use(step, k, tensor, DAO_ACCESS_WRITE);
        }
    }
    step->kernel_access[problem->kernel_count] = step->access_count;
}

/* Returns true if a tensor's content goes around the step's end. `first` is its first access. */
static bool lives_on(const dao_swap_step_t *step, uint32_t tensor, uint32_t first)
{
    return step->accesses[first].reads ||
           (tensor < step->problem->tensor_count && step->problem->tensors[tensor].is_persistent);
}

/* Links each access with the next one of its tensor. On entry first_access is each tensor's last access; on
   exit its first. */
static void link_accesses(dao_swap_step_t *step)
{
    for (uint32_t i = step->access_count; i-- > 0;) {
        dao_swap_access_t *one = &step->accesses[i];
        uint32_t last = step->first_access[one->tensor];
        /* The last access keeps the tensor's first one as far as it is known: in the end that closes the
           ring. */
        one->next = last == i ? i : step->accesses[last].next;
        step->accesses[last].next = i;
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        dao_swap_access_t *one = &step->accesses[i];
        const dao_swap_access_t *next = &step->accesses[one->next];
        bool wraps = one->next <= i;
        one->inactive_length = next->kernel - one->kernel + (wraps ? step->kernel_count : 0);
        one->inactive_is_live = next->reads && (!wraps || lives_on(step, one->tensor, one->next));
        step->accesses[one->next].previous_inactive_is_live = one->inactive_is_live;
    }
    for (uint32_t i = step->access_count; i-- > 0;) {
        step->first_access[step->accesses[i].tensor] = i;
    }
}

/* Follows each tensor's ring twice, so that a version that goes around the step's end is known at its
   start. */
static void find_writers(dao_swap_step_t *step)
{
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        uint32_t first = step->first_access[t], writer = DAO_SWAP_NONE;
        if (first == DAO_SWAP_NONE) {
            continue;
        }
        for (int lap = 0; lap < 2; lap++) {
            uint32_t at = first;
            do {
                writer = step->accesses[at].writes ? at : writer;
                step->accesses[at].writer = writer;
                at = step->accesses[at].next;
            } while (at != first);
        }
    }
}

/* live_bytes by differences: a live inactive period adds its bytes to the kernels strictly inside of it. */
static void sum_live(dao_swap_step_t *step)
{
    uint32_t n = step->kernel_count;
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        uint64_t size = step->size_bytes[one->tensor];
        uint32_t begin = one->kernel + 1, end = one->kernel + one->inactive_length;
        if (!one->inactive_is_live || begin == end) {
            continue;
        }
        step->live_bytes[begin % n] += size;
        step->live_bytes[end % n] -= size; /* unsigned wrap-around evens out in the sum */
        step->live_bytes[0] += begin < n && end >= n ? size : 0;
    }
    uint64_t live = 0;
    for (uint32_t k = 0; k < n; k++) {
        live += step->live_bytes[k];
        step->live_bytes[k] = live + step->kernel_bytes[k];
    }
}

/* Times of a few steps in a row fit 64 bits, whatever is copied in them. Workspaces are not: no kernel reads
   them. */
static dao_status_t check_copies(const dao_swap_step_t *step, const char *name, const dao_swap_tier_t *tier)
{
    double bytes = 0, copies = 0;
    if (tier->in_bytes_per_second == 0) {
        return DAO_OK;
    }
    for (uint32_t i = 0; i < step->access_count; i++) {
        if (step->accesses[i].tensor < step->problem->tensor_count) {
            bytes += (double)step->size_bytes[step->accesses[i].tensor];
            copies += 2;
        }
    }
    double ns = copies * (double)tier->latency_ns +
                bytes / (double)dao_swap_speed(tier, true) * (double)DAO_NS_PER_S +
                bytes / (double)dao_swap_speed(tier, false) * (double)DAO_NS_PER_S;
    return ns <= (double)DAO_SWAP_TIME_MAX
               ? DAO_OK
               : dao_error(
                     DAO_ERR_OVERFLOW,
                     "%s tier: to copy in and out what each kernel uses would take %.3g s: at most %" PRIu64,
                     name, ns / (double)DAO_NS_PER_S, DAO_SWAP_TIME_MAX / DAO_NS_PER_S);
}

/* Also counts. */
static dao_status_t check_work(const dao_swap_problem_t *problem, uint64_t *out_uses,
                               uint32_t *out_workspaces)
{
    dao_status_t status = check_counts(problem);
    status = status == DAO_OK ? check_tensors(problem) : status;
    return status == DAO_OK ? check_kernels(problem, out_uses, out_workspaces) : status;
}

dao_status_t dao_swap_step_check_work(const dao_swap_problem_t *problem)
{
    uint64_t uses;
    uint32_t workspaces;
    return check_work(problem, &uses, &workspaces);
}

dao_status_t dao_swap_step_init(dao_swap_step_t *step, const dao_swap_problem_t *problem)
{
    return dao_swap_step_init_paged(step, problem, DAO_SWAP_PAGED_PAGES);
}

dao_status_t dao_swap_step_init_paged(dao_swap_step_t *step, const dao_swap_problem_t *problem,
                                      uint32_t least_pages)
{
    uint64_t uses = 0;
    uint32_t workspaces = 0;
    dao_status_t status = check_work(problem, &uses, &workspaces);
    status = status == DAO_OK ? check_settings(problem) : status;
    if (status != DAO_OK) {
        return status;
    }
    memset(step, 0, sizeof(*step));
    step->problem = problem;
    step->kernel_count = problem->kernel_count;
    step->alignment_bytes =
        problem->alignment_bytes != 0 ? problem->alignment_bytes : DAO_SWAP_ALIGNMENT_DEFAULT;
    step->page_bytes = problem->page_bytes;
    step->least_pages = least_pages;
    if (!allocate(step, uses + workspaces, problem->tensor_count + workspaces)) {
        dao_swap_step_finish(step);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the %" PRIu64 " uses of a step", uses);
    }
    join_uses(step);
    link_accesses(step);
    find_writers(step);
    sum_live(step);
    DAO_ASSERT(step->kernel_access[step->kernel_count] == step->access_count);
    DAO_ASSERT_HEAVY(dao_swap_step_is_valid(step));
    status = check_copies(step, "host", &problem->host);
    status = status == DAO_OK ? check_copies(step, "file", &problem->file) : status;
    if (status != DAO_OK) {
        dao_swap_step_finish(step);
    }
    return status;
}

void dao_swap_step_finish(dao_swap_step_t *step)
{
    dao_host_free(step->size_bytes);
    dao_host_free(step->first_access);
    dao_host_free(step->kernel_access);
    dao_host_free(step->workspace_tensor);
    dao_host_free(step->accesses);
    dao_host_free(step->kernel_bytes);
    dao_host_free(step->live_bytes);
    dao_host_free(step->time_before);
    memset(step, 0, sizeof(*step));
}

static bool ring_is_valid(const dao_swap_step_t *step, uint32_t tensor)
{
    uint32_t first = step->first_access[tensor], at = first;
    uint64_t length = 0;
    if (first == DAO_SWAP_NONE) {
        return true;
    }
    do {
        if (step->accesses[at].tensor != tensor || step->accesses[at].inactive_length == 0) {
            return false;
        }
        length += step->accesses[at].inactive_length;
        at = step->accesses[at].next;
    } while (at != first && length <= step->kernel_count);
    return length == step->kernel_count;
}

bool dao_swap_step_is_valid(const dao_swap_step_t *step)
{
    for (uint32_t t = 0; t < step->tensor_count; t++) {
        if (!ring_is_valid(step, t)) {
            return false;
        }
    }
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        if (step->kernel_bytes[k] > step->live_bytes[k] ||
            step->kernel_access[k] > step->kernel_access[k + 1]) {
            return false;
        }
    }
    return true;
}

uint32_t dao_swap_content_length(const dao_swap_step_t *step, uint32_t at, uint32_t *out_end)
{
    uint32_t writer = at, length = 0;
    DAO_ASSERT(step->accesses[at].writes);
    while (step->accesses[at].inactive_is_live) {
        length += step->accesses[at].inactive_length;
        at = step->accesses[at].next;
        if (step->accesses[at].writes || at == writer) {
            break;
        }
    }
    *out_end = at;
    return length;
}

uint32_t dao_swap_step_largest_kernel(const dao_swap_step_t *step)
{
    uint32_t largest = 0;
    for (uint32_t k = 1; k < step->kernel_count; k++) {
        largest = step->kernel_bytes[k] > step->kernel_bytes[largest] ? k : largest;
    }
    return largest;
}

dao_status_t dao_swap_step_check_capacity(const dao_swap_step_t *step, uint64_t capacity_bytes)
{
    uint32_t largest = dao_swap_step_largest_kernel(step);
    if (step->kernel_bytes[largest] <= capacity_bytes) {
        return DAO_OK;
    }
    return dao_error(DAO_ERR_KERNEL_TOO_LARGE,
                     "kernel %u needs %" PRIu64 " bytes at once and the device has %" PRIu64
                     ": no swapping can run it; split it, or give it a smaller workspace",
                     largest, step->kernel_bytes[largest], capacity_bytes);
}

bool dao_swap_is_over(const dao_swap_step_t *step, uint64_t work_end)
{
    const dao_swap_cancel_t *cancel = step->cancel;
    bool is_late =
        cancel != NULL && cancel->time_end_ns != UINT64_MAX && dao_clock_ns() >= cancel->time_end_ns;
    return is_late || dao_swap_work(step) >= work_end;
}
