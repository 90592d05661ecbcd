/* SPDX-License-Identifier: Apache-2.0 */
/* Why a step cannot be faster where kernels of several streams run beside each other: the greatest of

       of each stream   its kernels, as a step of their own: dao_swap_find_bound_cut()
                        and windows of them, with what others certainly do in them: swap_chain.c
       a cycle          kernels that wait for each other, round and round

   A stream's step. Take the kernels of the other streams out of any schedule: what is left is a schedule of
   that stream's kernels, in no more memory and with no more copies. A tensor that another stream writes is
   only written there, never read: its content may come from that stream without a copy, and need not be kept
   for it. No sum over streams is taken: streams that share nothing may be any number of steps apart, and
   fetch for several steps at once.

   A cycle. A kernel waits for the one before it on its stream, and for those that wrote what it reads, of
   this step or of the one before. A chain of such waits from a kernel to the same one m steps later takes at
   least the times of its kernels, so a step takes a part of m of that. The chain that decides is found by
   playing a few steps with memory for everything: the way back from the last end, kernel by kernel, to what
   each waited for. Any cycle on it is a bound; the one that decides in the long run is there as soon as the
   play has become periodic. */
#include "planning/swap/bound/swap_streams.h"

#include "base/memory/host.h"
#include "base/report/assert.h"
#include "planning/swap/bound/swap_bound.h"
#include "planning/swap/bound/swap_chain.h"
#include "planning/swap/step/swap_fence.h"
#include "planning/swap/step/swap_step.h"

#include <assert.h>
#include <string.h>

#define PLAYED_STEPS 8u

/* ---- a stream's kernels as a step ---- */

/* The kernels of one stream at a time, and all that they point to. */
typedef struct own_step {
    const dao_swap_problem_t *problem;
    const uint32_t *streams;
    bool *is_others; /* of each tensor: another stream writes it */
    dao_swap_tensor_t *tensors;
    dao_swap_kernel_t *kernels;
    dao_swap_use_t *uses;
} own_step_t;

static bool allocate_own_step(own_step_t *own)
{
    const dao_swap_problem_t *problem = own->problem;
    size_t use_count = 0, tensor_count = (size_t)problem->tensor_count + 1;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        use_count += problem->kernels[k].use_count;
    }
    return (own->is_others = dao_host_calloc(tensor_count, sizeof(*own->is_others))) != NULL &&
           (own->tensors = dao_host_calloc(tensor_count, sizeof(*own->tensors))) != NULL &&
           (own->kernels = dao_host_calloc(problem->kernel_count, sizeof(*own->kernels))) != NULL &&
           (own->uses = dao_host_calloc(use_count + 1, sizeof(*own->uses))) != NULL;
}

static void release_own_step(own_step_t *own)
{
    dao_host_free(own->is_others);
    dao_host_free(own->tensors);
    dao_host_free(own->kernels);
    dao_host_free(own->uses);
}

static void find_others(own_step_t *own, uint32_t stream)
{
    const dao_swap_problem_t *problem = own->problem;
    memset(own->is_others, 0, problem->tensor_count * sizeof(*own->is_others));
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        const dao_swap_kernel_t *kernel = &problem->kernels[k];
        for (uint32_t u = 0; own->streams[k] != stream && u < kernel->use_count; u++) {
            if (kernel->uses[u].access != DAO_ACCESS_READ) {
                own->is_others[kernel->uses[u].tensor] = true;
            }
        }
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        own->tensors[t] = problem->tensors[t];
        own->tensors[t].is_persistent = own->tensors[t].is_persistent && !own->is_others[t];
    }
}

/* Returns the step of a stream's kernels. */
static dao_swap_problem_t take_own_step(own_step_t *own, uint32_t stream)
{
    dao_swap_problem_t one = *own->problem;
    dao_swap_use_t *use = own->uses;
    find_others(own, stream);
    one.tensors = own->tensors;
    one.kernels = own->kernels;
    one.kernel_count = 0;
    for (uint32_t k = 0; k < own->problem->kernel_count; k++) {
        if (own->streams[k] != stream) {
            continue;
        }
        dao_swap_kernel_t *kernel = &own->kernels[one.kernel_count++];
        *kernel = own->problem->kernels[k];
        const dao_swap_use_t *uses = kernel->uses;
        kernel->uses = use;
        for (uint32_t u = 0; u < kernel->use_count; u++) {
            *use = uses[u];
            use->access = own->is_others[use->tensor] ? DAO_ACCESS_WRITE : use->access;
            use++;
        }
    }
    DAO_ASSERT(one.kernel_count > 0); /* streams have no gaps */
    return one;
}

static dao_status_t find_own_steps(const dao_swap_problem_t *problem, const uint32_t *streams,
                                   uint32_t stream_count, uint64_t *step_ns)
{
    own_step_t own = {.problem = problem, .streams = streams};
    dao_status_t status = DAO_OK;
    if (!allocate_own_step(&own)) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    for (uint32_t i = 0; status == DAO_OK && i < stream_count; i++) {
        dao_swap_problem_t one = take_own_step(&own, i);
        dao_swap_bound_t bound;
        status = dao_swap_find_bound_cut(&one, DAO_SWAP_CUT_MAX, &bound);
        *step_ns = status == DAO_OK && bound.step_ns > *step_ns ? bound.step_ns : *step_ns;
        status = status == DAO_OK ? dao_swap_chain_bound(problem, streams, i, step_ns) : status;
    }
    release_own_step(&own);
    return status;
}

/* ---- kernels that wait for each other ---- */

/* Some steps with memory for everything. A run is a kernel in one of them: kernel r % count in step r /
 * count. */
typedef struct play {
    const dao_swap_problem_t *problem;
    const uint32_t *streams;
    uint64_t *end_ns;  /* of each run */
    uint32_t *awaited; /* of each run: the one whose end it begins with; DAO_SWAP_NONE: it waits for none */
    uint32_t *writer;  /* of each tensor: the latest run that wrote it; DAO_SWAP_NONE */
    uint32_t *latest;  /* of each stream: its latest run; DAO_SWAP_NONE */
    uint32_t *visited; /* of each kernel: its run on the way back that was met last; DAO_SWAP_NONE */
} play_t;

static bool allocate_play(play_t *play)
{
    size_t kernels = play->problem->kernel_count, tensors = (size_t)play->problem->tensor_count + 1;
    size_t runs = kernels * PLAYED_STEPS;
    if ((play->end_ns = dao_host_calloc(runs, sizeof(*play->end_ns))) == NULL ||
        (play->awaited = dao_host_calloc(runs, sizeof(*play->awaited))) == NULL ||
        (play->writer = dao_host_calloc(tensors, sizeof(*play->writer))) == NULL ||
        (play->latest = dao_host_calloc(kernels, sizeof(*play->latest))) == NULL ||
        (play->visited = dao_host_calloc(kernels, sizeof(*play->visited))) == NULL) {
        return false;
    }
    memset(play->writer, 0xff, tensors * sizeof(*play->writer));
    memset(play->latest, 0xff, kernels * sizeof(*play->latest));
    memset(play->visited, 0xff, kernels * sizeof(*play->visited));
    return true;
}

static void release_play(play_t *play)
{
    dao_host_free(play->end_ns);
    dao_host_free(play->awaited);
    dao_host_free(play->writer);
    dao_host_free(play->latest);
    dao_host_free(play->visited);
}

/* The run begins no earlier than another one ends. */
static void await(play_t *play, uint32_t run, uint32_t other)
{
    bool is_later = other != DAO_SWAP_NONE && (play->awaited[run] == DAO_SWAP_NONE ||
                                               play->end_ns[other] > play->end_ns[play->awaited[run]]);
    play->awaited[run] = is_later ? other : play->awaited[run];
}

static void play_run(play_t *play, uint32_t run)
{
    uint32_t k = run % play->problem->kernel_count;
    const dao_swap_kernel_t *kernel = &play->problem->kernels[k];
    play->awaited[run] = DAO_SWAP_NONE;
    await(play, run, play->latest[play->streams[k]]);
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        if (kernel->uses[u].access != DAO_ACCESS_WRITE) {
            await(play, run, play->writer[kernel->uses[u].tensor]);
        }
    }
    uint64_t begin_ns = play->awaited[run] != DAO_SWAP_NONE ? play->end_ns[play->awaited[run]] : 0;
    play->end_ns[run] = begin_ns + kernel->time_ns;
    play->latest[play->streams[k]] = run;
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            play->writer[kernel->uses[u].tensor] = run;
        }
    }
}

/* Returns the most time a step of all cycles that follow each other on the way back from a run. */
static uint64_t longest_cycle(play_t *play, uint32_t run)
{
    uint32_t count = play->problem->kernel_count;
    uint64_t longest_ns = 0;
    for (; run != DAO_SWAP_NONE; run = play->awaited[run]) {
        uint32_t later = play->visited[run % count];
        if (later != DAO_SWAP_NONE) {
            uint64_t step_ns = (play->end_ns[later] - play->end_ns[run]) / (later / count - run / count);
            longest_ns = step_ns > longest_ns ? step_ns : longest_ns;
        }
        play->visited[run % count] = run;
    }
    return longest_ns;
}

static dao_status_t find_cycle(const dao_swap_problem_t *problem, const uint32_t *streams, uint64_t *step_ns)
{
    static_assert((uint64_t)DAO_SWAP_COUNT_MAX * PLAYED_STEPS < DAO_SWAP_NONE, "runs have numbers");
    play_t play = {.problem = problem, .streams = streams};
    if (!allocate_play(&play)) {
        release_play(&play);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
    }
    uint32_t last = 0;
    for (uint32_t run = 0; run < problem->kernel_count * PLAYED_STEPS; run++) {
        play_run(&play, run);
        last = play.end_ns[run] > play.end_ns[last] ? run : last;
    }
    uint64_t cycle_ns = longest_cycle(&play, last);
    *step_ns = cycle_ns > *step_ns ? cycle_ns : *step_ns;
    release_play(&play);
    return DAO_OK;
}

dao_status_t dao_swap_find_streams_bound(const dao_swap_problem_t *problem, const uint32_t *streams,
                                         uint64_t *out_step_ns)
{
    dao_swap_bound_t whole;
    dao_status_t status = dao_swap_find_bound_cut(problem, DAO_SWAP_CUT_MAX, &whole);
    if (status != DAO_OK) {
        return status;
    }
    uint32_t stream_count = 0;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        stream_count = streams[k] + 1 > stream_count ? streams[k] + 1 : stream_count;
    }
    DAO_ASSERT(stream_count <= problem->kernel_count);
    uint64_t step_ns = stream_count == 1 ? whole.step_ns : 0;
    if (stream_count > 1) {
        status = find_own_steps(problem, streams, stream_count, &step_ns);
        status = status == DAO_OK ? find_cycle(problem, streams, &step_ns) : status;
    }
    if (status == DAO_OK) {
        *out_step_ns = step_ns;
    }
    return status;
}

/* The compute stream of each kernel, numbered without gaps. */
static void number_streams(const dao_swap_problem_t *problem, uint32_t *numbers)
{
    uint32_t used = 0;
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        used |= UINT32_C(1) << problem->kernels[k].stream;
    }
    for (uint32_t k = 0; k < problem->kernel_count; k++) {
        uint32_t below = used & ((UINT32_C(1) << problem->kernels[k].stream) - 1);
        numbers[k] = (uint32_t)__builtin_popcount(below);
    }
}

dao_status_t dao_swap_find_bound(const dao_swap_problem_t *problem, dao_swap_bound_t *out_bound)
{
    dao_swap_bound_t bound;
    if (problem == NULL || out_bound == NULL) {
        return dao_error(DAO_ERR_INVALID, "the problem or the place for its bound is NULL");
    }
    dao_status_t status = dao_swap_find_bound_cut(problem, DAO_SWAP_CUT_MAX, &bound);
    if (status == DAO_OK && dao_swap_compute_stream_count(problem) > 1) {
        uint32_t *numbers = dao_host_calloc(problem->kernel_count, sizeof(*numbers));
        if (numbers == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory for the bound of a step");
        }
        number_streams(problem, numbers);
        status = dao_swap_find_streams_bound(problem, numbers, &bound.step_ns);
        dao_host_free(numbers);
    }
    if (status == DAO_OK || status == DAO_ERR_KERNEL_TOO_LARGE) {
        *out_bound = bound;
    }
    return status;
}
