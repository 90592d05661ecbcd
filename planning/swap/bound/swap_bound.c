/* SPDX-License-Identifier: Apache-2.0 */
/* A lower bound of the time of a step, for any scheme that only moves bytes.

   Window bound. For the kernels p .. q of a window, U is the bytes of distinct tensors that exist before p
   and whose first use in the window reads; N the bytes written in it and still needed after it. At most C of
   either are on the device at the window's start or end, so U - C bytes come in and N - C go out meanwhile:

       w(p, q) = max(kernel times, (U - C) / in speed, (N - C) / out speed)

   and beyond the host's limit H, U - C - H and N - C - H bytes use the file's link. Windows that do not
   overlap add up, so the step takes at least f(n), f(q + 1) = max over p of f(p) + w(p, q). U and N are
   running sums over differences that are kept per *interval*, some kernels in a row (one, up to
   DAO_SWAP_CUT_MAX kernels): as the window's start moves on, only what its interval accesses changes them.
   Because the step repeats, a window may go around its end: the sum is taken for several starts ("rotations")
   of the step, each of which is valid. Coarse intervals find the rotation, fine ones the sum.

       in_bytes    the inactive period  W------R  over the window's start   +size at R
       out_bytes   the version  W---R---R  that is written in the window    +size at W, -size at the last R

   Latencies. A copy moves bytes of one tensor and holds the link for its latency, too. So what comes in takes
   at least as many copies as there are largest tensors in U that sum up to U - C, and the same for what goes
   out; one of each may have begun before the window. They are counted for the windows of the best sum, which
   stay the same: any cut into windows is a bound. With a file tier they are left out.

   Volume bound: what a whole step moves, in swap_volume.c.

   Why the windows add up: bytes of a window cross the link while it runs, and windows that do not overlap run
   one after the other. */
#include <dao/swap.h>

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "planning/swap/bound/swap_bound.h"
#include "planning/swap/bound/swap_volume.h"
#include "planning/swap/step/swap_step.h"
#include "planning/swap/step/swap_tier.h"

#include <stdlib.h>
#include <string.h>

#define COARSE_CUT_MAX        256u
#define FINE_PER_COARSE       4u /* fine intervals in a coarse one, at least: the many rotations take less */
#define WINDOW_ROTATION_COUNT 24u
#define REFINE_ROUND_MAX      3u
#define NS_PER_S              1e9

typedef struct rates {
    dao_swap_rate_t host, file, both;
    uint64_t host_limit_bytes;
    bool has_file;
} rates_t;

/* The windows of the best sum in one rotation, and what that takes. */
typedef struct windows {
    const dao_swap_step_t *step;
    rates_t rates;
    uint32_t interval_count;
    uint32_t *first;       /* interval_count + 1: the kernel with which each begins; then kernel_count */
    uint32_t *interval_of; /* of each kernel */
    int64_t *in_bytes;     /* of each interval: differences of U for the current start */
    int64_t *out_bytes;    /* differences of N */
    uint64_t *sums;        /* of one rotation, interval_count + 1: added up to the interval */
    uint32_t *from;        /* of one rotation: where the last window of the sum begins */
    uint64_t *best_sums;   /* the same of the best rotation */
    uint32_t *best_from;
    uint32_t
        *version_end;   /* of each access that writes: the last one that reads it; DAO_SWAP_NONE: none does */
    bool *ends_version; /* of each access: it is the end of a version of less than a step */
    uint32_t cut_max;   /* intervals at most */
    uint64_t best;      /* the most that windows add to the kernels */
    uint32_t best_rotation; /* interval with which the step begins for it */
    uint32_t *seen;         /* of each tensor: the last window that accesses it, by its number from 1 on */
    uint64_t *sizes;        /* two for each access: of what moves in a window, or in the step */
} windows_t;

/* What moves one way, and in how many copies at least. */
typedef struct traffic {
    uint64_t bytes;
    uint64_t copy_count;
} traffic_t;

static uint64_t above(uint64_t value, uint64_t limit)
{
    return value > limit ? value - limit : 0;
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

static dao_swap_rate_t rate_of(const dao_swap_tier_t *tier)
{
    return (dao_swap_rate_t){
        .in = NS_PER_S / (double)tier->in_bytes_per_second,
        .out = NS_PER_S / (double)dao_swap_out_speed(tier),
        .shared = tier->shared_bytes_per_second != 0 ? NS_PER_S / (double)tier->shared_bytes_per_second : 0,
        .is_half = tier->duplex == DAO_SWAP_DUPLEX_HALF,
    };
}

static rates_t rates_of(const dao_swap_problem_t *problem)
{
    rates_t rates = {.host = rate_of(&problem->host),
                     .host_limit_bytes =
                         problem->host.limit_bytes != 0 ? problem->host.limit_bytes : UINT64_MAX,
                     .has_file = problem->file.in_bytes_per_second != 0};
    if (rates.has_file) {
        const dao_swap_tier_t both = {
            .in_bytes_per_second = problem->host.in_bytes_per_second + problem->file.in_bytes_per_second,
            .out_bytes_per_second = dao_swap_out_speed(&problem->host) + dao_swap_out_speed(&problem->file)};
        rates.file = rate_of(&problem->file);
        rates.both = rate_of(&both);
    }
    return rates;
}

/* Least time of a link for some bytes in and some bytes out. */
static double rate_ns(const dao_swap_rate_t *rate, uint64_t in_bytes, uint64_t out_bytes)
{
    double in = (double)in_bytes * rate->in, out = (double)out_bytes * rate->out;
    return rate->is_half ? in + out : longer(longer(in, out), (double)(in_bytes + out_bytes) * rate->shared);
}

/* Least time of all links for some bytes in and some bytes out, whichever way they go. */
static double volume_ns(const rates_t *rates, uint64_t in_bytes, uint64_t out_bytes)
{
    return rate_ns(rates->has_file ? &rates->both : &rates->host, in_bytes, out_bytes);
}

/* The same for bytes that all differ. Any of them may take the file's path, which lies beside the host's
   link; what the host cannot hold has to: it serves the same bytes as often as they are asked for, but no
   more of them than it holds. Rounded down: it stays below every schedule. */
static uint64_t links_ns(const rates_t *rates, uint64_t in_bytes, uint64_t out_bytes)
{
    double rest = rates->has_file ? rate_ns(&rates->file, above(in_bytes, rates->host_limit_bytes),
                                            above(out_bytes, rates->host_limit_bytes))
                                  : 0;
    return (uint64_t)longer(volume_ns(rates, in_bytes, out_bytes), rest);
}

static bool allocate(windows_t *windows, const dao_swap_step_t *step, uint32_t cut_max)
{
    size_t kernels = step->kernel_count, accesses = (size_t)step->access_count + 1;
    size_t intervals = kernels < cut_max ? kernels : cut_max;
    windows->step = step;
    windows->cut_max = cut_max;
    windows->rates = rates_of(step->problem);
    return (windows->first = dao_host_calloc(intervals + 1, sizeof(*windows->first))) != NULL &&
           (windows->interval_of = dao_host_calloc(kernels, sizeof(*windows->interval_of))) != NULL &&
           (windows->in_bytes = dao_host_calloc(intervals, sizeof(*windows->in_bytes))) != NULL &&
           (windows->out_bytes = dao_host_calloc(intervals, sizeof(*windows->out_bytes))) != NULL &&
           (windows->sums = dao_host_calloc(intervals + 1, sizeof(*windows->sums))) != NULL &&
           (windows->from = dao_host_calloc(intervals + 1, sizeof(*windows->from))) != NULL &&
           (windows->best_sums = dao_host_calloc(intervals + 1, sizeof(*windows->best_sums))) != NULL &&
           (windows->best_from = dao_host_calloc(intervals + 1, sizeof(*windows->best_from))) != NULL &&
           (windows->version_end = dao_host_calloc(accesses, sizeof(*windows->version_end))) != NULL &&
           (windows->ends_version = dao_host_calloc(accesses, sizeof(*windows->ends_version))) != NULL &&
           (windows->seen = dao_host_calloc((size_t)step->tensor_count + 1, sizeof(*windows->seen))) !=
               NULL &&
           (windows->sizes = dao_host_calloc(2 * accesses, sizeof(*windows->sizes))) != NULL;
}

static void release(windows_t *windows)
{
    dao_host_free(windows->first);
    dao_host_free(windows->interval_of);
    dao_host_free(windows->in_bytes);
    dao_host_free(windows->out_bytes);
    dao_host_free(windows->sums);
    dao_host_free(windows->from);
    dao_host_free(windows->best_sums);
    dao_host_free(windows->best_from);
    dao_host_free(windows->version_end);
    dao_host_free(windows->ends_version);
    dao_host_free(windows->seen);
    dao_host_free(windows->sizes);
}

static void find_versions(windows_t *windows)
{
    const dao_swap_step_t *step = windows->step;
    for (uint32_t i = 0; i < step->access_count; i++) {
        uint32_t end = DAO_SWAP_NONE;
        uint32_t length = step->accesses[i].writes ? dao_swap_content_length(step, i, &end) : 0;
        windows->version_end[i] = length != 0 ? end : DAO_SWAP_NONE;
        if (length != 0 && length < step->kernel_count) {
            windows->ends_version[end] = true;
        }
    }
}

/* Cuts the step into at most `count_max` intervals of about the same number of kernels. */
static void cut_intervals(windows_t *windows, uint32_t count_max)
{
    uint32_t n = windows->step->kernel_count, count = n < count_max ? n : count_max;
    DAO_ASSERT(count > 0);
    windows->interval_count = count;
    for (uint32_t i = 0; i <= count; i++) {
        windows->first[i] = (uint32_t)((uint64_t)i * n / count);
        for (uint32_t k = i > 0 ? windows->first[i - 1] : n; k < windows->first[i]; k++) {
            windows->interval_of[k] = i - 1;
        }
    }
}

static uint32_t interval_at(const windows_t *windows, uint32_t access)
{
    return windows->interval_of[windows->step->accesses[access].kernel];
}

/* The differences for windows that begin with interval `row`. */
static void gather(windows_t *windows, uint32_t row)
{
    const dao_swap_step_t *step = windows->step;
    uint32_t n = step->kernel_count, start = windows->first[row];
    memset(windows->in_bytes, 0, windows->interval_count * sizeof(*windows->in_bytes));
    memset(windows->out_bytes, 0, windows->interval_count * sizeof(*windows->out_bytes));
    for (uint32_t i = 0; i < step->access_count; i++) {
        const dao_swap_access_t *one = &step->accesses[i], *next = &step->accesses[one->next];
        int64_t size = (int64_t)step->size_bytes[one->tensor];
        uint32_t until_next = next->kernel >= start ? next->kernel - start : next->kernel + n - start;
        if (one->inactive_is_live &&
            until_next < one->inactive_length) { /* the inactive period reaches over the window's start */
            windows->in_bytes[interval_at(windows, one->next)] += size;
        }
        uint32_t end = windows->version_end[i];
        if (end == DAO_SWAP_NONE) {
            continue;
        }
        windows->out_bytes[interval_at(windows, i)] += size;
        uint32_t end_kernel = step->accesses[end].kernel;
        uint32_t until_write = one->kernel >= start ? one->kernel - start : one->kernel + n - start;
        uint32_t until_end = end_kernel >= start ? end_kernel - start : end_kernel + n - start;
        if (until_write < until_end) { /* written and used up within a step from the start */
            windows->out_bytes[interval_at(windows, end)] -= size;
        }
    }
}

/* Moves the start of the windows over interval `row`. */
static void advance(windows_t *windows, uint32_t row)
{
    const dao_swap_step_t *step = windows->step;
    uint32_t end = step->kernel_access[windows->first[row + 1]];
    for (uint32_t i = step->kernel_access[windows->first[row]]; i < end; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        int64_t size = (int64_t)step->size_bytes[one->tensor];
        if (one->previous_inactive_is_live) {
            windows->in_bytes[row] -= size;
        }
        if (one->inactive_is_live) {
            windows->in_bytes[interval_at(windows, one->next)] += size;
        }
        if (windows->ends_version[i]) { /* the next time it is written before it ends */
            windows->out_bytes[row] -= size;
        }
        uint32_t version_end = windows->version_end[i];
        if (version_end != DAO_SWAP_NONE && windows->ends_version[version_end]) {
            windows->out_bytes[interval_at(windows, version_end)] += size;
        }
    }
}

/* Weighs the windows of a rotation that begin at its place `place`, interval `row`, and betters the sums
   behind them. */
static void extend(windows_t *windows, uint32_t row, uint32_t place)
{
    const dao_swap_step_t *step = windows->step;
    int64_t capacity = (int64_t)step->problem->capacity_bytes, in = -capacity, out = -capacity;
    uint32_t m = windows->interval_count, column = row;
    uint64_t start_ns = step->time_before[windows->first[row]], lap_ns = 0, sum = windows->sums[place];
    for (uint32_t end = place + 1; end <= m; end++) {
        in += windows->in_bytes[column];
        out += windows->out_bytes[column];
        column++;
        if (in > 0 || out > 0) {
            uint64_t compute_ns = step->time_before[windows->first[column]] + lap_ns - start_ns;
            uint64_t moving_ns =
                links_ns(&windows->rates, in > 0 ? (uint64_t)in : 0, out > 0 ? (uint64_t)out : 0);
            if (moving_ns > compute_ns && sum + moving_ns - compute_ns > windows->sums[end]) {
                windows->sums[end] = sum + moving_ns - compute_ns;
                windows->from[end] = place;
            }
        }
        if (column == m) {
            column = 0;
            lap_ns = step->time_before[step->kernel_count];
        }
    }
}

/* The best sum of windows in the step that begins at interval `rotation`; fills sums and from. */
static uint64_t sum_rotation(windows_t *windows, uint32_t rotation)
{
    uint32_t m = windows->interval_count;
    memset(windows->sums, 0, (m + 1) * sizeof(*windows->sums));
    memset(windows->from, 0xff, (m + 1) * sizeof(*windows->from));
    gather(windows, rotation);
    for (uint32_t place = 0; place < m; place++) {
        uint32_t row = place + rotation < m ? place + rotation : place + rotation - m;
        extend(windows, row, place);
        advance(windows, row);
        if (windows->sums[place + 1] < windows->sums[place]) {
            windows->sums[place + 1] = windows->sums[place];
            windows->from[place + 1] = DAO_SWAP_NONE;
        }
    }
    return windows->sums[m];
}

/* Keeps the rotation that was summed last as the best one. */
static void keep_rotation(windows_t *windows, uint32_t rotation)
{
    uint64_t *sums = windows->best_sums;
    uint32_t *from = windows->best_from;
    windows->best_sums = windows->sums;
    windows->best_from = windows->from;
    windows->sums = sums;
    windows->from = from;
    windows->best = windows->best_sums[windows->interval_count];
    windows->best_rotation = rotation;
}

/* Sums a rotation. True if it is the best so far. */
static bool try_rotation(windows_t *windows, uint32_t rotation)
{
    bool is_better = sum_rotation(windows, rotation) > windows->best;
    if (is_better) {
        keep_rotation(windows, rotation);
    }
    return is_better;
}

/* A start in the middle of a window cuts it: a start where the last window that was found ends is better. */
static void refine_rotation(windows_t *windows)
{
    uint32_t m = windows->interval_count;
    for (uint32_t round = 0; round < REFINE_ROUND_MAX && windows->best > 0; round++) {
        uint32_t end = m;
        while (windows->best_from[end] == DAO_SWAP_NONE) {
            end--;
        }
        if (end == m || !try_rotation(windows, (end + windows->best_rotation) % m)) {
            return;
        }
    }
}

static void find_windows(windows_t *windows)
{
    uint32_t n = windows->step->kernel_count;
    cut_intervals(windows, (uint32_t)dao_smaller(COARSE_CUT_MAX, windows->cut_max / FINE_PER_COARSE));
    uint32_t m = windows->interval_count, count = m < WINDOW_ROTATION_COUNT ? m : WINDOW_ROTATION_COUNT;
    for (uint32_t i = 0; i < count; i++) {
        (void)try_rotation(windows, (uint32_t)((uint64_t)i * m / count));
    }
    if (m < n && m < windows->cut_max) {
        uint32_t kernel = windows->first[windows->best_rotation];
        cut_intervals(windows, windows->cut_max);
        windows->best_rotation = windows->interval_of[kernel];
    }
    /* A coarse window is a fine one too, but for those that the fine start cuts. */
    (void)sum_rotation(windows, windows->best_rotation);
    keep_rotation(windows, windows->best_rotation);
    refine_rotation(windows);
}

/* ---- latencies ---- */

static int compare_sizes(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a < b) - (a > b);
}

/* The fewest copies that move so many bytes of tensors with these sizes, which are sorted. */
static uint64_t fewest_copies(uint64_t *sizes, size_t count, uint64_t bytes)
{
    uint64_t sum = 0;
    size_t copies = 0;
    qsort(sizes, count, sizeof(*sizes), compare_sizes);
    while (copies < count && sum < bytes) {
        sum += sizes[copies++];
    }
    return copies;
}

/* Bytes with a latency for each copy but one, over the host's link. */
static uint64_t traffic_ns(const windows_t *windows, const traffic_t *in, const traffic_t *out)
{
    const rates_t *rates = &windows->rates;
    uint64_t moving_ns = links_ns(rates, in->bytes, out->bytes);
    if (rates->has_file) {
        return moving_ns;
    }
    double latency_ns = (double)windows->step->problem->host.latency_ns;
    double in_ns = (double)in->bytes * rates->host.in + latency_ns * (double)above(in->copy_count, 1);
    double out_ns = (double)out->bytes * rates->host.out + latency_ns * (double)above(out->copy_count, 1);
    return dao_larger(moving_ns, (uint64_t)(rates->host.is_half ? in_ns + out_ns : longer(in_ns, out_ns)));
}

/* What comes in and goes out during the window of `count` kernels from `first` on, the `number`-th one. */
static void find_traffic(windows_t *windows, uint32_t first, uint32_t count, uint32_t number,
                         traffic_t *out_in, traffic_t *out_out)
{
    const dao_swap_step_t *step = windows->step;
    uint32_t n = step->kernel_count;
    uint64_t *in_sizes = windows->sizes, *out_sizes = windows->sizes + step->access_count;
    uint64_t in_bytes = 0, out_bytes = 0, capacity = step->problem->capacity_bytes;
    size_t in_count = 0, out_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t k = (first + i) % n;
        for (uint32_t t = step->kernel_access[k]; t < step->kernel_access[k + 1]; t++) {
            const dao_swap_access_t *one = &step->accesses[t];
            uint64_t size = step->size_bytes[one->tensor];
            if (windows->seen[one->tensor] != number && one->previous_inactive_is_live) {
                in_bytes += in_sizes[in_count++] = size;
            }
            windows->seen[one->tensor] = number;
            uint32_t end = windows->version_end[t];
            if (end != DAO_SWAP_NONE && i + (step->accesses[end].kernel + n - k - 1) % n + 1 >= count) {
                out_bytes += out_sizes[out_count++] = size;
            }
        }
    }
    out_in->bytes = above(in_bytes, capacity);
    out_in->copy_count = fewest_copies(in_sizes, in_count, out_in->bytes);
    out_out->bytes = above(out_bytes, capacity);
    out_out->copy_count = fewest_copies(out_sizes, out_count, out_out->bytes);
}

/* What the windows of the best sum add to the kernels with their latencies. */
static uint64_t add_latencies(windows_t *windows)
{
    const dao_swap_step_t *step = windows->step;
    uint32_t m = windows->interval_count, n = step->kernel_count, number = 0;
    uint64_t sum = 0;
    for (uint32_t end = m; end > 0;) {
        uint32_t begin = windows->best_from[end];
        if (begin == DAO_SWAP_NONE) {
            end--;
            continue;
        }
        uint32_t first = windows->first[(begin + windows->best_rotation) % m];
        uint32_t behind = windows->first[(end + windows->best_rotation) % m];
        uint32_t count = behind > first ? behind - first : behind + n - first;
        uint64_t compute_ns = step->time_before[behind] - step->time_before[first] +
                              (behind > first ? 0 : step->time_before[n]);
        traffic_t in, out;
        find_traffic(windows, first, count, ++number, &in, &out);
        uint64_t moving_ns = traffic_ns(windows, &in, &out);
        DAO_ASSERT(moving_ns - compute_ns >= windows->best_sums[end] - windows->best_sums[begin]);
        sum += moving_ns - compute_ns;
        end = begin;
    }
    return sum;
}

/* The least time of the bytes of each way with their latencies. They are not all different: the host may
   serve some of them several times. */
static uint64_t volume_with_latencies(windows_t *windows, const dao_swap_bound_t *bound)
{
    const dao_swap_step_t *step = windows->step;
    size_t in_count = 0, out_count = 0;
    uint64_t *in_sizes = windows->sizes, *out_sizes = windows->sizes + step->access_count;
    for (uint32_t i = 0; i < step->access_count; i++) {
        uint64_t size = step->size_bytes[step->accesses[i].tensor];
        if (step->accesses[i].inactive_is_live) {
            in_sizes[in_count++] = size;
        }
        if (windows->version_end[i] != DAO_SWAP_NONE) {
            out_sizes[out_count++] = size;
        }
    }
    const traffic_t in = {bound->in_bytes, fewest_copies(in_sizes, in_count, bound->in_bytes)};
    const traffic_t out = {bound->out_bytes, fewest_copies(out_sizes, out_count, bound->out_bytes)};
    return windows->rates.has_file ? (uint64_t)volume_ns(&windows->rates, in.bytes, out.bytes)
                                   : traffic_ns(windows, &in, &out);
}

/* What a step moves at least; both ways together only for all cuts, as that takes a while. */
static dao_status_t find_volume(windows_t *windows, dao_swap_bound_t *bound)
{
    const dao_swap_step_t *step = windows->step;
    const rates_t *rates = &windows->rates;
    const dao_swap_rate_t *rate = rates->has_file ? &rates->both : &rates->host;
    uint64_t together_ns = 0;
    dao_status_t status = dao_swap_least_bytes(step, &bound->in_bytes, &bound->out_bytes);
    if (status == DAO_OK && windows->cut_max == DAO_SWAP_CUT_MAX) {
        double latency_ns = rates->has_file ? 0 : (double)step->problem->host.latency_ns;
        status = dao_swap_volume_ns(step, rate, latency_ns, &together_ns);
    }
    if (status == DAO_OK) {
        find_versions(windows);
        bound->volume_ns = dao_larger(volume_with_latencies(windows, bound), together_ns);
    }
    return status;
}

/* What fills a window's time. */
static dao_swap_binding_t binding_of(windows_t *windows, uint32_t first, uint32_t length)
{
    int64_t read_bytes = 0, written_bytes = 0;
    gather(windows, first);
    for (uint32_t i = 0; i < length; i++) {
        read_bytes += windows->in_bytes[(first + i) % windows->interval_count];
        written_bytes += windows->out_bytes[(first + i) % windows->interval_count];
    }
    uint64_t capacity = windows->step->problem->capacity_bytes;
    uint64_t in = above((uint64_t)read_bytes, capacity), out = above((uint64_t)written_bytes, capacity);
    uint64_t only_in = links_ns(&windows->rates, in, 0), only_out = links_ns(&windows->rates, 0, out);
    uint64_t longest = only_in > only_out ? only_in : only_out;
    if (links_ns(&windows->rates, in, out) > longest) {
        return DAO_SWAP_BINDING_BOTH;
    }
    return only_in >= only_out ? DAO_SWAP_BINDING_IN : DAO_SWAP_BINDING_OUT;
}

/* Writes the window of the best sum that adds most. */
static void report_window(windows_t *windows, dao_swap_bound_t *bound)
{
    const dao_swap_step_t *step = windows->step;
    uint32_t m = windows->interval_count, first = 0, length = 0;
    for (uint32_t end = m; end > 0;) {
        uint32_t begin = windows->best_from[end];
        if (begin == DAO_SWAP_NONE) {
            end--;
            continue;
        }
        uint64_t added = windows->best_sums[end] - windows->best_sums[begin];
        if (added > bound->window_added_ns) {
            bound->window_added_ns = added;
            first = (begin + windows->best_rotation) % m;
            length = end - begin;
        }
        end = begin;
    }
    if (length == 0) {
        return;
    }
    uint32_t begin_kernel = windows->first[first], end_kernel = windows->first[(first + length) % m];
    bound->window_first_kernel = begin_kernel;
    bound->window_kernel_count = end_kernel > begin_kernel ? end_kernel - begin_kernel
                                                           : end_kernel + step->kernel_count - begin_kernel;
    bound->window_binding = binding_of(windows, first, length);
}

static void report_lookahead(const dao_swap_step_t *step, const rates_t *rates, dao_swap_bound_t *bound)
{
    uint32_t n = step->kernel_count;
    uint64_t in_ns = (uint64_t)volume_ns(rates, bound->in_bytes, 0);
    bound->lookahead_ns = in_ns < bound->step_ns ? in_ns : bound->step_ns;
    uint64_t step_ns = step->time_before[n];
    uint32_t end = 0; /* of the kernels that fit, counted on beyond the step's end */
    for (uint32_t begin = 0; begin < n; begin++) {
        end = end > begin ? end : begin;
        while (end < begin + n && (end < n ? step->time_before[end] : step->time_before[end - n] + step_ns) <
                                      step->time_before[begin] + bound->lookahead_ns) {
            end++;
        }
        bound->lookahead_kernels =
            end - begin > bound->lookahead_kernels ? end - begin : bound->lookahead_kernels;
    }
}

static dao_status_t bound_of_step(const dao_swap_step_t *step, uint32_t cut_max, dao_swap_bound_t *bound)
{
    uint32_t largest = dao_swap_step_largest_kernel(step);
    bound->compute_ns = step->time_before[step->kernel_count];
    bound->least_capacity_kernel = largest;
    bound->least_capacity_bytes = step->kernel_bytes[largest];
    for (uint32_t k = 0; k < step->kernel_count; k++) {
        bound->peak_bytes = step->live_bytes[k] > bound->peak_bytes ? step->live_bytes[k] : bound->peak_bytes;
    }
    dao_status_t status = dao_swap_step_check_capacity(step, step->problem->capacity_bytes);
    if (status != DAO_OK) {
        return status;
    }
    windows_t windows = {0};
    if (!allocate(&windows, step, cut_max)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    } else {
        status = find_volume(&windows, bound);
    }
    if (status == DAO_OK) {
        find_windows(&windows);
        report_window(&windows, bound);
        bound->window_ns = bound->compute_ns + add_latencies(&windows);
        bound->step_ns = dao_larger(bound->window_ns, bound->volume_ns);
        report_lookahead(step, &windows.rates, bound);
    }
    release(&windows);
    return status;
}

dao_status_t dao_swap_find_bound_cut(const dao_swap_problem_t *problem, uint32_t cut_max,
                                     dao_swap_bound_t *out_bound)
{
    DAO_ASSERT(cut_max >= DAO_SWAP_BOUND_CUT_LEAST);
    dao_swap_problem_t exact = dao_swap_problem_exact(problem);
    dao_swap_step_t step;
    dao_status_t status = dao_swap_step_init(&step, &exact);
    if (status != DAO_OK) {
        return status;
    }
    dao_swap_bound_t bound = {0};
    status = bound_of_step(&step, cut_max, &bound);
    if (status == DAO_OK || status == DAO_ERR_KERNEL_TOO_LARGE) {
        *out_bound = bound;
    }
    dao_swap_step_finish(&step);
    return status;
}
