/* SPDX-License-Identifier: Apache-2.0 */
/* Windows of one stream's kernels, the chain, and what kernels of other streams are certain to do in them.

       chain      c0    c1    c2    c3    c4    c5 ...      one behind the other in any schedule
       others        `------> k ------->'                   k begins behind c1 and ends before c4

   A window is the time from the begin of a kernel of the chain to that of a later one. The kernels in it are
   those of the chain, and each other one that is certain to begin behind the end of the one or a later one of
   the chain, and to end before the begin of the other. U is the bytes of distinct tensors that they read and
   that were certain to be written before the window. At most C of these are on the device as it begins, so
   U - C come in meanwhile, and it takes at least

       w = max(times of the chain's kernels, (U - C) / in speed)

   Windows behind each other add up, and all those from a kernel of the chain to the same one a step later are
   a step: the best sum, for each begin, is the bound. What is certain: kernels of a stream run in their
   order, and what reads a content runs behind what wrote it. That is followed over a few steps; beyond them
   less is known, which only lowers the bound.

   A *place* is a kernel of the chain, counted on over steps: place p + length is that of p a step later. */
#include "planning/swap/bound/swap_chain.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/step/swap_step.h"

#include <string.h>

#define FOLLOWED_STEPS 6u
#define BASE_STEP      (FOLLOWED_STEPS / 2) /* as much is followed before it as behind it */
#define NEVER          INT64_MAX
#define ALWAYS         INT64_MIN

typedef struct chain {
    const dao_swap_problem_t *problem;
    const uint32_t *streams;
    uint32_t stream;
    uint32_t length;     /* kernels of the chain */
    uint32_t use_count;  /* of all kernels */
    uint32_t *place;     /* of each kernel: kernels of the chain before it in the step */
    uint32_t *first_use; /* of each kernel: its uses are numbered on from here */
    uint32_t *writer;    /* of each use of each step: the run that wrote what it reads; DAO_SWAP_NONE */
    int64_t *behind;     /* of each run: the latest place whose kernel ends before it begins; ALWAYS: none */
    int64_t *before;     /* the earliest place whose kernel begins behind its end; NEVER: none */
    uint32_t *latest;    /* of each stream, then of each tensor: the latest run of it, or that wrote it */
    uint32_t cut_count;
    uint32_t *cut;         /* cut_count: places where windows begin and end */
    uint32_t *cut_at;      /* length: of each place of a step, the first cut from it on */
    uint32_t *entry;       /* of each tensor: the cut with which windows from one begin on have it */
    uint64_t *window_ns;   /* cut_count x (cut_count + 1): by begin, and by cuts to the end */
    uint64_t *sum_ns;      /* 2 x cut_count + 1 */
    uint64_t *time_before; /* length + 1: of the chain's kernels before each place */
} chain_t;

static bool is_on(const chain_t *chain, uint32_t run)
{
    return chain->streams[run % chain->problem->kernel_count] == chain->stream;
}

static int64_t place_of(const chain_t *chain, uint32_t run)
{
    uint32_t count = chain->problem->kernel_count;
    return (int64_t)(run / count) * chain->length + chain->place[run % count];
}

static bool allocate(chain_t *chain)
{
    const dao_swap_problem_t *problem = chain->problem;
    size_t kernels = problem->kernel_count, runs = kernels * FOLLOWED_STEPS, cuts = DAO_SWAP_CHAIN_CUT_MAX;
    return (chain->place = dao_host_calloc(kernels + 1, sizeof(*chain->place))) != NULL &&
           (chain->first_use = dao_host_calloc(kernels + 1, sizeof(*chain->first_use))) != NULL &&
           (chain->behind = dao_host_calloc(runs, sizeof(*chain->behind))) != NULL &&
           (chain->before = dao_host_calloc(runs, sizeof(*chain->before))) != NULL &&
           (chain->latest = dao_host_calloc(kernels + problem->tensor_count, sizeof(*chain->latest))) !=
               NULL &&
           (chain->cut = dao_host_calloc(cuts, sizeof(*chain->cut))) != NULL &&
           (chain->cut_at = dao_host_calloc(kernels, sizeof(*chain->cut_at))) != NULL &&
           (chain->entry = dao_host_calloc((size_t)problem->tensor_count + 1, sizeof(*chain->entry))) !=
               NULL &&
           (chain->window_ns = dao_host_calloc(cuts * (cuts + 1), sizeof(*chain->window_ns))) != NULL &&
           (chain->sum_ns = dao_host_calloc(2 * cuts + 1, sizeof(*chain->sum_ns))) != NULL &&
           (chain->time_before = dao_host_calloc(kernels + 1, sizeof(*chain->time_before))) != NULL;
}

static void release(chain_t *chain)
{
    dao_host_free(chain->place);
    dao_host_free(chain->first_use);
    dao_host_free(chain->writer);
    dao_host_free(chain->behind);
    dao_host_free(chain->before);
    dao_host_free(chain->latest);
    dao_host_free(chain->cut);
    dao_host_free(chain->cut_at);
    dao_host_free(chain->entry);
    dao_host_free(chain->window_ns);
    dao_host_free(chain->sum_ns);
    dao_host_free(chain->time_before);
}

/* Numbers the chain's kernels and all uses. */
static bool number(chain_t *chain)
{
    const dao_swap_problem_t *problem = chain->problem;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        chain->place[k] = chain->length;
        chain->first_use[k] = chain->use_count;
        chain->use_count += problem->kernels[k].use_count;
        if (chain->streams[k] == chain->stream) {
            chain->time_before[chain->length + 1] =
                chain->time_before[chain->length] + problem->kernels[k].time_ns;
            chain->length++;
        }
    }
    DAO_ASSERT(chain->length > 0);
    chain->writer = dao_host_calloc((size_t)chain->use_count * FOLLOWED_STEPS + 1, sizeof(*chain->writer));
    return chain->writer != NULL;
}

/* ---- who is certain to run behind whom ---- */

static uint32_t *writer_of(const chain_t *chain, uint32_t run, uint32_t use)
{
    uint32_t count = chain->problem->kernel_count;
    return &chain->writer[(size_t)(run / count) * chain->use_count + chain->first_use[run % count] + use];
}

/* The run begins behind the end of another one. */
static void follow(chain_t *chain, uint32_t run, uint32_t other)
{
    int64_t place = is_on(chain, other) ? place_of(chain, other) : chain->behind[other];
    chain->behind[run] = place > chain->behind[run] ? place : chain->behind[run];
}

static void precede(chain_t *chain, uint32_t run, uint32_t other)
{
    int64_t place = is_on(chain, other) ? place_of(chain, other) : chain->before[other];
    chain->before[run] = place < chain->before[run] ? place : chain->before[run];
}

static void follow_run(chain_t *chain, uint32_t run)
{
    uint32_t k = run % chain->problem->kernel_count;
    const dao_swap_kernel_t *kernel = &chain->problem->kernels[k];
    uint32_t *on_stream = &chain->latest[chain->streams[k]];
    uint32_t *writers = chain->latest + chain->problem->kernel_count;
    chain->behind[run] = ALWAYS;
    chain->before[run] = NEVER;
    if (*on_stream != DAO_SWAP_NONE) {
        follow(chain, run, *on_stream);
    }
    *on_stream = run;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        bool reads = kernel->uses[u].access != DAO_ACCESS_WRITE;
        uint32_t writer = reads ? writers[kernel->uses[u].tensor] : DAO_SWAP_NONE;
        *writer_of(chain, run, u) = writer;
        if (writer != DAO_SWAP_NONE) {
            follow(chain, run, writer);
        }
    }
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            writers[kernel->uses[u].tensor] = run;
        }
    }
}

/* Each run hands on to those that it waits for what it comes before itself. */
static void precede_run(chain_t *chain, uint32_t run)
{
    uint32_t k = run % chain->problem->kernel_count;
    uint32_t *next = &chain->latest[chain->streams[k]];
    if (*next != DAO_SWAP_NONE) {
        precede(chain, run, *next);
    }
    *next = run;
    for (uint32_t u = 0; u < chain->problem->kernels[k].use_count; u++) {
        uint32_t writer = *writer_of(chain, run, u);
        if (writer != DAO_SWAP_NONE) {
            precede(chain, writer, run);
        }
    }
}

static void find_order(chain_t *chain)
{
    uint32_t runs = chain->problem->kernel_count * FOLLOWED_STEPS;
    size_t streams = chain->problem->kernel_count, tensors = chain->problem->tensor_count;
    memset(chain->latest, 0xff, (streams + tensors) * sizeof(*chain->latest));
    for (uint32_t run = 0; run < runs; run++) {
        follow_run(chain, run);
    }
    memset(chain->latest, 0xff, streams * sizeof(*chain->latest));
    for (uint32_t run = runs; run-- > 0;) {
        precede_run(chain, run);
    }
}

/* ---- windows ---- */

static void find_cuts(chain_t *chain)
{
    uint32_t length = chain->length, at = 0;
    chain->cut_count = length < DAO_SWAP_CHAIN_CUT_MAX ? length : DAO_SWAP_CHAIN_CUT_MAX;
    for (uint32_t i = 0; i < chain->cut_count; i++) {
        chain->cut[i] = (uint32_t)((uint64_t)i * length / chain->cut_count);
        for (; at <= chain->cut[i]; at++) {
            chain->cut_at[at] = i;
        }
    }
    for (; at < length; at++) {
        chain->cut_at[at] = chain->cut_count; /* the first one of the next step */
    }
}

/* A place as it is in the base step, moved by steps to the first one from `begin` on: by how much. */
static int64_t move_behind(const chain_t *chain, int64_t place, int64_t begin)
{
    int64_t length = chain->length, missing = begin - place;
    return missing >= 0 ? (missing + length - 1) / length * length : -(-missing / length * length);
}

/* A kernel of the base step: what it is certain to read in windows from a cut on, and from which end on. */
static void enter_kernel(chain_t *chain, uint32_t k, uint32_t begin_cut)
{
    uint32_t run = BASE_STEP * chain->problem->kernel_count + k;
    int64_t base = (int64_t)BASE_STEP * chain->length, begin = chain->cut[begin_cut];
    int64_t from = is_on(chain, run) ? place_of(chain, run) : chain->behind[run];
    int64_t to = is_on(chain, run) ? place_of(chain, run) + 1 : chain->before[run];
    if (from == ALWAYS || to == NEVER) {
        return;
    }
    int64_t moved = move_behind(chain, from - base, begin) - base, end = to + moved;
    if (end > begin + chain->length) {
        return; /* no window of a step has it */
    }
    uint32_t cut =
        chain->cut_at[end % chain->length] + (uint32_t)(end / chain->length) * chain->cut_count - begin_cut;
    for (uint32_t u = 0; u < chain->problem->kernels[k].use_count; u++) {
        const dao_swap_use_t *use = &chain->problem->kernels[k].uses[u];
        uint32_t writer = *writer_of(chain, run, u);
        int64_t written = writer == DAO_SWAP_NONE ? ALWAYS
                          : is_on(chain, writer)  ? place_of(chain, writer) + 1
                                                  : chain->before[writer];
        bool is_there = written == ALWAYS || (written != NEVER && written + moved <= begin);
        if (use->access != DAO_ACCESS_WRITE && is_there && cut < chain->entry[use->tensor]) {
            chain->entry[use->tensor] = cut;
        }
    }
}

/* What bytes take to come in, over both links. */
static uint64_t in_ns(const dao_swap_problem_t *problem, uint64_t bytes)
{
    double speed = (double)problem->host.in_bytes_per_second + (double)problem->file.in_bytes_per_second;
    return (uint64_t)((double)bytes * 1e9 / speed);
}

/* The windows that begin at a cut. */
static void find_windows(chain_t *chain, uint32_t begin_cut)
{
    const dao_swap_problem_t *problem = chain->problem;
    uint64_t *window_ns = chain->window_ns + (size_t)begin_cut * (DAO_SWAP_CHAIN_CUT_MAX + 1);
    memset(chain->entry, 0xff, problem->tensor_count * sizeof(*chain->entry));
    memset(window_ns, 0, ((size_t)DAO_SWAP_CHAIN_CUT_MAX + 1) * sizeof(*window_ns));
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        enter_kernel(chain, k, begin_cut);
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        if (chain->entry[t] <= chain->cut_count) {
            window_ns[chain->entry[t]] += problem->tensors[t].size_bytes;
        }
    }
    uint64_t bytes = 0;
    for (uint32_t cuts = 1; cuts <= chain->cut_count; cuts++) {
        uint32_t end_cut = begin_cut + cuts;
        bool is_around = end_cut >= chain->cut_count;
        uint64_t end_ns = chain->time_before[chain->cut[end_cut % chain->cut_count]] +
                          (is_around ? chain->time_before[chain->length] : 0);
        uint64_t kernels_ns = end_ns - chain->time_before[chain->cut[begin_cut]];
        bytes += window_ns[cuts];
        uint64_t copies_ns =
            bytes > problem->capacity_bytes ? in_ns(problem, bytes - problem->capacity_bytes) : 0;
        window_ns[cuts] = kernels_ns > copies_ns ? kernels_ns : copies_ns;
    }
}

/* The best sum of windows from a cut to the same one a step later. */
static uint64_t sum_windows(chain_t *chain, uint32_t begin_cut)
{
    uint32_t count = chain->cut_count;
    chain->sum_ns[0] = 0;
    for (uint32_t end = 1; end <= count; end++) {
        chain->sum_ns[end] = 0;
        for (uint32_t begin = 0; begin < end; begin++) {
            size_t row = (begin_cut + begin) % count;
            uint64_t sum_ns =
                chain->sum_ns[begin] + chain->window_ns[row * (DAO_SWAP_CHAIN_CUT_MAX + 1) + end - begin];
            chain->sum_ns[end] = sum_ns > chain->sum_ns[end] ? sum_ns : chain->sum_ns[end];
        }
    }
    return chain->sum_ns[count];
}

dao_status_t dao_swap_chain_bound(const dao_swap_problem_t *problem, const uint32_t *streams, uint32_t stream,
                                  uint64_t *step_ns)
{
    chain_t chain = {.problem = problem, .streams = streams, .stream = stream};
    if (!allocate(&chain) || !number(&chain)) {
        release(&chain);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    find_order(&chain);
    find_cuts(&chain);
    for (uint32_t i = 0; i < chain.cut_count; i++) {
        find_windows(&chain, i);
    }
    for (uint32_t i = 0; i < chain.cut_count; i++) {
        uint64_t sum_ns = sum_windows(&chain, i);
        *step_ns = sum_ns > *step_ns ? sum_ns : *step_ns;
    }
    release(&chain);
    return DAO_OK;
}
