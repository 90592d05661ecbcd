/* SPDX-License-Identifier: Apache-2.0 */
/* The window bound of a step that copies and runs kernels again.

   For the kernels p .. q of a window, D is their time, U the bytes of the contents that exist before p and
   that the window reads first, C the capacity. At the window's begin at most C bytes of U are on the device.
   Each other byte comes by a copy, or by its kernel, which runs again inside the window: the device is busy
   with p at the window's begin and with q at its end. To make y bytes so takes at least c(y): the kernels
   that wrote U in the order of time a byte of all that they write for others, parts of kernels allowed. So

       w(p, q) = min over y of max(D + c(y), (U - C - y) / in speed)

   c is convex, so the two cross once. The crossing is found by walking down a Fenwick tree over the kernels
   in that order. Of what the window writes and is needed after it, only what no kernel may make again has to
   be copied out: (N - C) / out speed. Over a link of one copy at a time both are added.

   Windows that do not overlap add up: each run lies in one of them. They begin and end at "places", all
   kernels of a step up to DAO_RECOMPUTE_PLACE_MAX. Each window is weighed once, which takes 8 MiB at most.
   The step repeats, so windows go around its end, and the sum is taken for several starts. */
#include "planning/recompute/bound/recompute_windows.h"

#include "base/memory/host.h"
#include "base/report/assert.h"

#include <stdlib.h>
#include <string.h>

#define START_COUNT      24u /* that the sum is taken for */
#define REFINE_ROUND_MAX 3u  /* then from where a window ends that lies over the start */

/* Bytes that kernels may make again, in the order of time a byte. */
typedef struct makers {
    uint32_t count;     /* of kernels that may */
    uint32_t top;       /* the greatest power of two up to it */
    uint32_t *rank;     /* of each kernel, from 1; 0: it may not */
    double *density_ns; /* count + 1: of each rank, of a byte */
    double *bytes, *ns; /* count + 1: Fenwick trees */
} makers_t;

/* One sweep over windows with the same begin. */
typedef struct sweep {
    const dao_recompute_windows_t *windows;
    makers_t makers;
    int64_t *leaves; /* by kernels from the begin: bytes that are not needed behind it */
} sweep_t;

typedef struct candidate {
    double density_ns;
    uint32_t kernel;
} candidate_t;

static int compare_candidates(const void *a, const void *b)
{
    const candidate_t *left = a;
    const candidate_t *right = b;
    if (left->density_ns != right->density_ns) {
        return left->density_ns < right->density_ns ? -1 : 1;
    }
    return left->kernel < right->kernel ? -1 : left->kernel > right->kernel;
}

static bool may_make(const dao_recompute_contents_t *contents, uint32_t kernel)
{
    return contents->is_repeatable[kernel] && contents->again_bytes[kernel] != 0;
}

static bool makers_init(makers_t *makers, const dao_recompute_contents_t *contents)
{
    const dao_swap_step_t *step = contents->step;
    size_t kernels = step->kernel_count;
    candidate_t *candidates = dao_host_calloc(kernels, sizeof(*candidates));
    *makers = (makers_t){
        .rank = dao_host_calloc(kernels, sizeof(*makers->rank)),
        .density_ns = dao_host_calloc(kernels + 1, sizeof(*makers->density_ns)),
        .bytes = dao_host_calloc(kernels + 1, sizeof(*makers->bytes)),
        .ns = dao_host_calloc(kernels + 1, sizeof(*makers->ns)),
    };
    bool is_ready = candidates != NULL && makers->rank != NULL && makers->density_ns != NULL &&
                    makers->bytes != NULL && makers->ns != NULL;
    for (uint32_t k = 0; is_ready && k < kernels; k++) {
        if (may_make(contents, k)) {
            candidates[makers->count++] = (candidate_t){
                (double)step->problem->kernels[k].time_ns / (double)contents->again_bytes[k], k};
        }
    }
    if (is_ready) {
        qsort(candidates, makers->count, sizeof(*candidates), compare_candidates);
        for (uint32_t i = 0; i < makers->count; i++) {
            makers->rank[candidates[i].kernel] = i + 1;
            makers->density_ns[i + 1] = candidates[i].density_ns;
        }
        for (makers->top = 1; makers->top * 2 <= makers->count; makers->top *= 2) {
        }
    }
    dao_host_free(candidates);
    return is_ready;
}

static void makers_finish(makers_t *makers)
{
    dao_host_free(makers->rank);
    dao_host_free(makers->density_ns);
    dao_host_free(makers->bytes);
    dao_host_free(makers->ns);
}

static void makers_clear(makers_t *makers)
{
    memset(makers->bytes, 0, (makers->count + 1) * sizeof(*makers->bytes));
    memset(makers->ns, 0, (makers->count + 1) * sizeof(*makers->ns));
}

static void makers_add(makers_t *makers, uint32_t kernel, double bytes)
{
    uint32_t rank = makers->rank[kernel];
    if (rank == 0) {
        return;
    }
    double ns = bytes * makers->density_ns[rank];
    for (uint32_t i = rank; i <= makers->count; i += i & (0u - i)) {
        makers->bytes[i] += bytes;
        makers->ns[i] += ns;
    }
}

/* Returns the least W that is at least `compute_ns` + c(y) and `fixed_ns` + (need - y) x `byte_ns` for some y
   from 0 to `need`. */
static double cross(const makers_t *makers, double compute_ns, double need, double fixed_ns, double byte_ns)
{
    double made = 0, again_ns = 0;
    uint32_t rank = 0;
    if (need <= 0 || fixed_ns + need * byte_ns <= compute_ns) {
        return compute_ns > fixed_ns ? compute_ns : fixed_ns;
    }
    for (uint32_t width = makers->top; width > 0 && makers->count > 0; width /= 2) {
        uint32_t next = rank + width;
        if (next <= makers->count && made + makers->bytes[next] <= need &&
            fixed_ns + (need - made - makers->bytes[next]) * byte_ns >=
                compute_ns + again_ns + makers->ns[next]) {
            rank = next;
            made += makers->bytes[next];
            again_ns += makers->ns[next];
        }
    }
    double moving_ns = fixed_ns + (need - made) * byte_ns;
    if (rank == makers->count || moving_ns <= compute_ns + again_ns) {
        return moving_ns;
    }
    double density_ns = makers->density_ns[rank + 1];
    double part = (moving_ns - compute_ns - again_ns) / (byte_ns + density_ns);
    return part < need - made ? moving_ns - part * byte_ns : fixed_ns;
}

/* Returns the least time of a window. A negative need or rest is none. */
static double window_ns(const makers_t *makers, const dao_recompute_links_t *links, double compute_ns,
                        double need, double rest)
{
    double out_ns = rest > 0 ? rest * links->out_ns : 0;
    if (links->is_half) {
        return cross(makers, compute_ns, need, out_ns, links->in_ns);
    }
    double least_ns = cross(makers, compute_ns, need, 0, links->in_ns);
    least_ns = out_ns > least_ns ? out_ns : least_ns;
    if (links->shared_ns > 0) {
        double shared_ns =
            cross(makers, compute_ns, need, rest > 0 ? rest * links->shared_ns : 0, links->shared_ns);
        least_ns = shared_ns > least_ns ? shared_ns : least_ns;
    }
    return least_ns;
}

/* Lets a window grow by a kernel, which is number `position` from its begin. */
static void grow(sweep_t *sweep, uint32_t kernel, uint32_t position, int64_t *need, int64_t *rest)
{
    const dao_recompute_contents_t *contents = sweep->windows->contents;
    const dao_swap_step_t *step = contents->step;
    *rest -= sweep->leaves[position];
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        int64_t size = (int64_t)step->size_bytes[one->tensor];
        if (dao_recompute_is_from_before(contents, i, position)) {
            uint32_t content = dao_recompute_found(contents, i);
            *need += size;
            if (content != DAO_SWAP_NONE) {
                makers_add(&sweep->makers, step->accesses[content].kernel, (double)size);
            }
        }
        if (contents->length[i] != 0 && !contents->is_repeatable[kernel]) {
            *rest += size;
            if (contents->length[i] < step->kernel_count - position) {
                sweep->leaves[position + contents->length[i]] += size;
            }
        }
    }
}

/* Weighs all windows that begin at a place. */
static void weigh(sweep_t *sweep, uint32_t place)
{
    const dao_recompute_windows_t *windows = sweep->windows;
    const dao_swap_step_t *step = windows->contents->step;
    uint32_t n = step->kernel_count, m = windows->place_count, position = 0;
    int64_t capacity = (int64_t)step->problem->capacity_bytes, need = -capacity, rest = -capacity;
    uint64_t compute_ns = 0;
    makers_clear(&sweep->makers);
    memset(sweep->leaves, 0, n * sizeof(*sweep->leaves));
    for (uint32_t length = 1; length <= m; length++) {
        uint32_t row = (place + length - 1) % m;
        for (uint32_t k = windows->first[row]; k < windows->first[row + 1]; k++) {
            grow(sweep, k, position++, &need, &rest);
        }
        compute_ns += step->time_before[windows->first[row + 1]] - step->time_before[windows->first[row]];
        /* Rounded down: it stays below every schedule. */
        uint64_t least_ns = (uint64_t)window_ns(&sweep->makers, &windows->links, (double)compute_ns,
                                                (double)need, (double)rest);
        windows->added_ns[(size_t)place * m + length - 1] = least_ns > compute_ns ? least_ns - compute_ns : 0;
    }
}

static bool allocate(dao_recompute_windows_t *windows)
{
    size_t n = windows->contents->step->kernel_count;
    size_t m = n < DAO_RECOMPUTE_PLACE_MAX ? n : DAO_RECOMPUTE_PLACE_MAX;
    windows->place_count = (uint32_t)m;
    return (windows->first = dao_host_calloc(m + 1, sizeof(*windows->first))) != NULL &&
           (windows->added_ns = dao_host_calloc(m * m, sizeof(*windows->added_ns))) != NULL &&
           (windows->sums_ns = dao_host_calloc(m + 1, sizeof(*windows->sums_ns))) != NULL &&
           (windows->from = dao_host_calloc(m + 1, sizeof(*windows->from))) != NULL;
}

dao_status_t dao_recompute_windows_init(dao_recompute_windows_t *windows,
                                        const dao_recompute_contents_t *contents)
{
    const dao_swap_step_t *step = contents->step;
    *windows =
        (dao_recompute_windows_t){.contents = contents, .links = dao_recompute_links_of(step->problem)};
    sweep_t sweep = {.windows = windows,
                     .leaves = dao_host_calloc(step->kernel_count, sizeof(*sweep.leaves))};
    bool is_ready = allocate(windows) && makers_init(&sweep.makers, contents) && sweep.leaves != NULL;
    if (is_ready) {
        for (uint32_t i = 0; i <= windows->place_count; i++) {
            windows->first[i] = (uint32_t)((uint64_t)i * step->kernel_count / windows->place_count);
        }
        for (uint32_t i = 0; i < windows->place_count; i++) {
            weigh(&sweep, i);
        }
    } else {
        dao_recompute_windows_finish(windows);
    }
    makers_finish(&sweep.makers);
    dao_host_free(sweep.leaves);
    return is_ready ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
}

void dao_recompute_windows_finish(dao_recompute_windows_t *windows)
{
    dao_host_free(windows->first);
    dao_host_free(windows->added_ns);
    dao_host_free(windows->sums_ns);
    dao_host_free(windows->from);
    memset(windows, 0, sizeof(*windows));
}

uint64_t dao_recompute_windows_sum(dao_recompute_windows_t *windows, uint32_t start, uint32_t length)
{
    uint32_t m = windows->place_count;
    uint64_t *sums = windows->sums_ns;
    DAO_ASSERT(length <= m);
    memset(sums, 0, (length + 1) * sizeof(*sums));
    memset(windows->from, 0xff, (length + 1) * sizeof(*windows->from));
    for (uint32_t begin = 0; begin < length; begin++) {
        const uint64_t *added = &windows->added_ns[(size_t)((start + begin) % m) * m];
        for (uint32_t end = begin + 1; end <= length; end++) {
            if (added[end - begin - 1] != 0 && sums[begin] + added[end - begin - 1] > sums[end]) {
                sums[end] = sums[begin] + added[end - begin - 1];
                windows->from[end] = begin;
            }
        }
        if (sums[begin + 1] < sums[begin]) {
            sums[begin + 1] = sums[begin];
            windows->from[begin + 1] = DAO_RECOMPUTE_NO_PLACE;
        }
    }
    return sums[length];
}

uint64_t dao_recompute_windows_best(dao_recompute_windows_t *windows, uint32_t *out_start)
{
    uint32_t m = windows->place_count, count = m < START_COUNT ? m : START_COUNT, best_start = 0;
    uint64_t best_ns = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t start = (uint32_t)((uint64_t)i * m / count);
        uint64_t sum_ns = dao_recompute_windows_sum(windows, start, m);
        best_start = sum_ns > best_ns ? start : best_start;
        best_ns = dao_larger(best_ns, sum_ns);
    }
    for (uint32_t round = 0; round < REFINE_ROUND_MAX && best_ns > 0; round++) {
        (void)dao_recompute_windows_sum(windows, best_start, m);
        uint32_t end = m;
        while (windows->from[end] == DAO_RECOMPUTE_NO_PLACE) {
            end--;
        }
        uint32_t start = (end + best_start) % m;
        uint64_t sum_ns = dao_recompute_windows_sum(windows, start, m);
        if (sum_ns <= best_ns) {
            break;
        }
        best_ns = sum_ns;
        best_start = start;
    }
    *out_start = best_start;
    (void)dao_recompute_windows_sum(windows, best_start, m);
    return best_ns;
}

uint64_t dao_recompute_window_kernels_ns(const dao_recompute_windows_t *windows, uint32_t place,
                                         uint32_t length)
{
    const uint64_t *before = windows->contents->step->time_before;
    uint32_t m = windows->place_count, end = place + length;
    return end <= m
               ? before[windows->first[end]] - before[windows->first[place]]
               : before[windows->first[m]] - before[windows->first[place]] + before[windows->first[end - m]];
}
