/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of two windows A and B, B right behind A, that share contents: a forward run writes what the
   backward run reads. One window each sees either the copies out or the copies in, and that both could be
   spared by running kernels again; the pair sees that what is spared is the same.

   N are the bytes that A writes and B reads first, and what else of A no kernel may make again and is needed
   after it; U what exists as A ends and B reads first. x(k) in 0 .. 1 says how much of kernel k runs again in
   B, n(k) and u(k) what it makes of N and U, d(k) its time. Then, whatever the schedule,

       W_A >= D_A        W_A >= (N - C - sum n x) / out        W_B >= D_B + sum d x        W_B >= (U - C - sum
   u x) / in

   as at most C bytes of N or U are on the device as A ends, and a byte of N that is not, and was not copied
   out in A, is made again in B. Any weighted sum of the four holds too, with the x that makes it least:

       W_A + W_B >= (1 - g) D_A + g (N - C) / out + (1 - i) D_B + i (U - C) / in
                    + sum over k of min(0, (1 - i) d(k) - i u(k) / in - g n(k) / out)

   This is concave in the weights i and g, so the best ones are found by going uphill.

   A kernel that runs again in B needs what it read there too: kept, copied, or made. So the sum over kernels,
   with i U / in and g N / out, becomes the least price of having U, a minimum cut (recompute_cut.c), which is
   concave in the weights as well. It takes longer: only the best pair, and what lies around it, is weighed
   so. */
#include "planning/recompute/bound/recompute_pairs.h"

#include "base/memory/host.h"
#include "planning/recompute/bound/recompute_cut.h"

#include <string.h>

#define COARSE_COUNT      12u  /* places that coarse pairs begin and end at */
#define WEIGHT_STEP_FIRST 0.25 /* of the search uphill */
#define WEIGHT_STEP_LAST  0.01
#define CUT_STEP_FIRST    0.125 /* the same with cuts, from the best weights without */
#define CUT_STEP_LAST     0.03
#define CUT_MOVE_PARTS    4u /* of the places of a coarse pair, that one weighed by cuts is moved by */

/* A pair in figures. Those by kernel are of the kernels listed. */
typedef struct figures {
    const dao_recompute_windows_t *windows;
    double first_ns, second_ns; /* D_A, D_B */
    double out_bytes, in_bytes; /* N - C, U - C */
    double alone_bytes;         /* N - C less what a kernel may make again */
    uint32_t needed_count;
    dao_recompute_needed_t *needed; /* U */
    dao_recompute_cut_t *cut;
    bool is_by_cut; /* sums are weighed by cuts */
    uint32_t kernel_count;
    uint32_t *index;         /* of each kernel of the step in the lists */
    double *again_ns;        /* d */
    double *again_in_bytes;  /* u */
    double *again_out_bytes; /* n */
} figures_t;

static void clear(figures_t *figures)
{
    size_t n = figures->windows->contents->step->kernel_count;
    memset(figures->index, 0xff, n * sizeof(*figures->index));
    figures->kernel_count = figures->needed_count = 0;
}

/* Adds what a kernel may make again. */
static void add_again(figures_t *figures, uint32_t kernel, double in_bytes, double out_bytes)
{
    uint32_t at = figures->index[kernel];
    if (at == UINT32_MAX) {
        at = figures->index[kernel] = figures->kernel_count++;
        figures->again_ns[at] = (double)figures->windows->contents->step->problem->kernels[kernel].time_ns;
        figures->again_in_bytes[at] = figures->again_out_bytes[at] = 0;
    }
    figures->again_in_bytes[at] += in_bytes;
    figures->again_out_bytes[at] += out_bytes;
}

/* Adds what a kernel of B, `position` behind its begin `cut`, reads of before. A has `first_kernels`. */
static void gather_reads(figures_t *figures, uint32_t kernel, uint32_t position, uint32_t cut,
                         uint32_t first_kernels)
{
    const dao_recompute_contents_t *contents = figures->windows->contents;
    const dao_swap_step_t *step = contents->step;
    uint32_t n = step->kernel_count;
    for (uint32_t i = step->kernel_access[kernel]; i < step->kernel_access[kernel + 1]; i++) {
        const dao_swap_access_t *one = &step->accesses[i];
        if (!dao_recompute_is_from_before(contents, i, position)) {
            continue;
        }
        uint32_t content = dao_recompute_found(contents, i);
        double size = (double)step->size_bytes[one->tensor];
        dao_recompute_needed_t *needed = &figures->needed[figures->needed_count++];
        *needed = (dao_recompute_needed_t){.content = content, .tensor = one->tensor};
        figures->in_bytes += size;
        if (content != DAO_SWAP_NONE && contents->is_repeatable[step->accesses[content].kernel]) {
            uint32_t writer = step->accesses[content].kernel;
            bool is_shared = (cut + n - writer - 1) % n < first_kernels;
            needed->is_shared = is_shared;
            figures->out_bytes += is_shared ? size : 0;
            add_again(figures, writer, size, is_shared ? size : 0);
        }
    }
}

/* Adds what a kernel of A, `behind` kernels before its end, writes that only a copy can keep. */
static void gather_writes(figures_t *figures, uint32_t kernel, uint32_t behind)
{
    const dao_recompute_contents_t *contents = figures->windows->contents;
    const dao_swap_step_t *step = contents->step;
    for (uint32_t i = step->kernel_access[kernel];
         !contents->is_repeatable[kernel] && i < step->kernel_access[kernel + 1]; i++) {
        double size = contents->length[i] != 0 && contents->length[i] >= behind
                          ? (double)step->size_bytes[step->accesses[i].tensor]
                          : 0;
        figures->out_bytes += size;
        figures->alone_bytes += size;
    }
}

static void gather(figures_t *figures, const dao_recompute_pair_t *pair)
{
    const dao_recompute_windows_t *windows = figures->windows;
    const dao_swap_step_t *step = windows->contents->step;
    uint32_t n = step->kernel_count, m = windows->place_count, cut = (pair->begin + pair->first_length) % m;
    uint32_t begin_kernel = windows->first[pair->begin], cut_kernel = windows->first[cut];
    uint32_t end_kernel = windows->first[(cut + pair->second_length) % m];
    uint32_t first_kernels = (cut_kernel + n - begin_kernel - 1) % n + 1;
    uint32_t second_kernels = (end_kernel + n - cut_kernel - 1) % n + 1;
    clear(figures);
    figures->first_ns = (double)dao_recompute_window_kernels_ns(windows, pair->begin, pair->first_length);
    figures->second_ns = (double)dao_recompute_window_kernels_ns(windows, cut, pair->second_length);
    figures->in_bytes = figures->out_bytes = figures->alone_bytes = -(double)step->problem->capacity_bytes;
    for (uint32_t i = 0; i < first_kernels; i++) {
        gather_writes(figures, (begin_kernel + i) % n, first_kernels - i);
    }
    for (uint32_t i = 0; i < second_kernels; i++) {
        gather_reads(figures, (cut_kernel + i) % n, i, cut_kernel, first_kernels);
    }
    if (figures->is_by_cut) {
        dao_recompute_cut_set(figures->cut, cut_kernel, figures->needed, figures->needed_count);
    }
}

/* The same with the inputs of what runs again. */
static double weigh_by_cut(const figures_t *figures, double in_weight, double out_weight)
{
    const dao_recompute_links_t *links = &figures->windows->links;
    double capacity = (double)figures->windows->contents->step->problem->capacity_bytes;
    const dao_recompute_prices_t prices = {
        .in_byte = in_weight * links->in_ns, .out_byte = out_weight * links->out_ns, .kernel = 1 - in_weight};
    return dao_recompute_cut_least(figures->cut, &prices) +
           out_weight * (figures->alone_bytes * links->out_ns - figures->first_ns) -
           in_weight * (capacity * links->in_ns + figures->second_ns);
}

/* Returns the weighted sum less the kernels of both windows. */
static double weigh(const figures_t *figures, double in_weight, double out_weight)
{
    const dao_recompute_links_t *links = &figures->windows->links;
    if (figures->is_by_cut) {
        return weigh_by_cut(figures, in_weight, out_weight);
    }
    double sum = out_weight * (figures->out_bytes * links->out_ns - figures->first_ns) +
                 in_weight * (figures->in_bytes * links->in_ns - figures->second_ns);
    for (uint32_t i = 0; i < figures->kernel_count; i++) {
        double one = (1 - in_weight) * figures->again_ns[i] -
                     in_weight * figures->again_in_bytes[i] * links->in_ns -
                     out_weight * figures->again_out_bytes[i] * links->out_ns;
        sum += one < 0 ? one : 0;
    }
    return sum;
}

/* Finds the weights of a pair by going uphill from those that it has, and what it adds with them. */
static void find_weights(const figures_t *figures, double first_step, double last_step,
                         dao_recompute_pair_t *pair)
{
    static const double moves[][2] = {{1, 0}, {-1, 0}, {0, 1}, {0, -1}, {1, 1}, {-1, -1}, {1, -1}, {-1, 1}};
    double in = pair->in_weight, out = pair->out_weight, best = weigh(figures, in, out);
    for (double step = first_step; step >= last_step;) {
        bool is_better = false;
        for (uint32_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
            double next_in = in + moves[i][0] * step, next_out = out + moves[i][1] * step;
            if (next_in < 0 || next_in > 1 || next_out < 0 || next_out > 1) {
                continue;
            }
            double sum = weigh(figures, next_in, next_out);
            if (sum > best) {
                best = sum;
                in = next_in;
                out = next_out;
                is_better = true;
                break;
            }
        }
        step = is_better ? step : step / 2;
    }
    pair->in_weight = in;
    pair->out_weight = out;
    pair->added_ns = best > 0 ? (uint64_t)best : 0;
}

/* What a pair could add if no kernel ran again. */
static double most_ns(const figures_t *figures)
{
    const dao_recompute_links_t *links = &figures->windows->links;
    double out = figures->out_bytes * links->out_ns - figures->first_ns;
    double in = figures->in_bytes * links->in_ns - figures->second_ns;
    return (out > 0 ? out : 0) + (in > 0 ? in : 0);
}

/* Keeps the better of two pairs. True if it is the new one. */
static bool try_pair(figures_t *figures, dao_recompute_pair_t pair, dao_recompute_pair_t *best)
{
    gather(figures, &pair);
    if (most_ns(figures) <= (double)best->added_ns) {
        return false;
    }
    find_weights(figures, WEIGHT_STEP_FIRST, WEIGHT_STEP_LAST, &pair);
    if (pair.added_ns <= best->added_ns) {
        return false;
    }
    *best = pair;
    return true;
}

static void try_coarse(figures_t *figures, dao_recompute_pair_t *best)
{
    uint32_t m = figures->windows->place_count, count = m < COARSE_COUNT ? m : COARSE_COUNT;
    for (uint32_t begin = 0; begin < count; begin++) {
        for (uint32_t first = 1; first < count; first++) {
            for (uint32_t second = 1; first + second <= count; second++) {
                uint32_t place = begin * m / count, cut = (begin + first) * m / count;
                uint32_t end = (begin + first + second) * m / count;
                (void)try_pair(figures,
                               (dao_recompute_pair_t){
                                   .begin = place, .first_length = cut - place, .second_length = end - cut},
                               best);
            }
        }
    }
}

/* Moves the begin, the cut or the end of a pair. */
static bool move(dao_recompute_pair_t *pair, uint32_t which, int64_t by, uint32_t place_count)
{
    int64_t m = place_count, begin = pair->begin, first = pair->first_length, second = pair->second_length;
    begin += which == 0 ? by : 0;
    first += which == 0 ? -by : which == 1 ? by : 0;
    second += which == 1 ? -by : which == 2 ? by : 0;
    pair->begin = (uint32_t)((begin + m) % m);
    pair->first_length = (uint32_t)first;
    pair->second_length = (uint32_t)second;
    return first >= 1 && second >= 1 && first + second <= m;
}

static void refine(figures_t *figures, dao_recompute_pair_t *best)
{
    uint32_t m = figures->windows->place_count;
    for (uint32_t step = m / COARSE_COUNT + 1; step > 0 && best->added_ns > 0; step /= 2) {
        for (uint32_t i = 0; i < 6; i++) {
            dao_recompute_pair_t next = *best;
            if (move(&next, i / 2, i % 2 == 0 ? (int64_t)step : -(int64_t)step, m)) {
                (void)try_pair(figures, next, best);
            }
        }
    }
}

/* Weighs the best pair by cuts, and pairs around it. */
static void refine_by_cut(figures_t *figures, dao_recompute_pair_t *best)
{
    uint32_t m = figures->windows->place_count;
    figures->is_by_cut = true;
    gather(figures, best);
    find_weights(figures, CUT_STEP_FIRST, CUT_STEP_LAST, best);
    for (uint32_t step = m / COARSE_COUNT + 1; step > m / COARSE_COUNT / CUT_MOVE_PARTS; step /= 2) {
        for (uint32_t i = 0; i < 6; i++) {
            dao_recompute_pair_t next = *best;
            if (move(&next, i / 2, i % 2 == 0 ? (int64_t)step : -(int64_t)step, m)) {
                gather(figures, &next);
                find_weights(figures, CUT_STEP_LAST, CUT_STEP_LAST, &next);
                *best = next.added_ns > best->added_ns ? next : *best;
            }
        }
    }
}

dao_status_t dao_recompute_pairs_best(const dao_recompute_windows_t *windows, dao_recompute_pair_t *out_pair)
{
    size_t n = windows->contents->step->kernel_count;
    figures_t figures = {
        .windows = windows,
        .index = dao_host_calloc(n, sizeof(*figures.index)),
        .again_ns = dao_host_calloc(n, sizeof(*figures.again_ns)),
        .again_in_bytes = dao_host_calloc(n, sizeof(*figures.again_in_bytes)),
        .again_out_bytes = dao_host_calloc(n, sizeof(*figures.again_out_bytes)),
        .needed = dao_host_calloc((size_t)windows->contents->step->tensor_count + 1, sizeof(*figures.needed)),
    };
    bool is_ready = figures.needed != NULL &&
                    dao_recompute_cut_create(windows->contents, &figures.cut) == DAO_OK &&
                    figures.index != NULL && figures.again_ns != NULL && figures.again_in_bytes != NULL &&
                    figures.again_out_bytes != NULL;
    dao_recompute_pair_t best = {.added_ns = 0};
    if (is_ready) {
        try_coarse(&figures, &best);
        refine(&figures, &best);
        if (best.added_ns > 0) {
            refine_by_cut(&figures, &best);
        }
        *out_pair = best;
    }
    dao_host_free(figures.index);
    dao_host_free(figures.again_ns);
    dao_host_free(figures.again_in_bytes);
    dao_host_free(figures.again_out_bytes);
    dao_host_free(figures.needed);
    dao_recompute_cut_destroy(figures.cut);
    return is_ready ? DAO_OK : dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
}
