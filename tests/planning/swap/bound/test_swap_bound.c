/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a swapped step: against its definition, against the best of all schedules of tiny steps, and
   where it is known. */
#include "base/report/fault.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#include <dao/recompute.h>
#include <dao/status.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000u

static swap_step_box_t box;

static dao_swap_bound_t bound_of(void)
{
    dao_swap_bound_t bound = {0};
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound;
}

/* Least capacity and peak. */
static void measure(uint64_t *out_least, uint64_t *out_peak)
{
    box.problem.host.in_bytes_per_second = NS_PER_S;
    dao_swap_bound_t bound = bound_of();
    *out_least = bound.least_capacity_bytes;
    *out_peak = bound.peak_bytes;
}

static void a_stream_of_weights_needs_what_does_not_fit(void)
{
    swap_step_stream(&box, 100, 1000, 10);
    box.problem.host.in_bytes_per_second =
        10 * (uint64_t)NS_PER_S; /* 10 bytes a ns: a weight takes 100 ns, its kernel 10 */
    box.problem.capacity_bytes = 40 * 1000;
    dao_swap_bound_t bound = bound_of();
    CU_ASSERT_EQUAL(bound.compute_ns, 1000);
    CU_ASSERT_EQUAL(bound.peak_bytes, 100000);
    CU_ASSERT_EQUAL(bound.least_capacity_bytes, 1000);
    CU_ASSERT_EQUAL(bound.out_bytes, 0);
    /* Any window of all weights needs the 60 that were not there; half a byte of rounding is forgiven. */
    CU_ASSERT_EQUAL(bound.window_ns, 6000);
    CU_ASSERT_EQUAL(bound.window_binding, DAO_SWAP_BINDING_IN);
    CU_ASSERT(bound.in_bytes >= 59000 && bound.in_bytes <= 60000);
    /* A kernel has its own weight and 39 of the 99 others: of all misses, no step has less in the mean. */
    CU_ASSERT(swap_step_is_bound(bound.volume_ns, 100 * 100 * 60 / 99));
    CU_ASSERT_EQUAL(bound.step_ns, bound.volume_ns);
    CU_ASSERT_EQUAL(bound.lookahead_kernels, 100);
    box.problem.capacity_bytes = 100 * 1000;
    bound = bound_of();
    CU_ASSERT_EQUAL(bound.step_ns, bound.compute_ns);
    CU_ASSERT_EQUAL(bound.in_bytes, 0);
    CU_ASSERT_EQUAL(bound.window_kernel_count, 0);
    CU_ASSERT_EQUAL(bound.lookahead_kernels, 0);
}

static void each_copy_but_one_of_a_window_has_its_latency(void)
{
    swap_step_stream(&box, 100, 1000, 10);
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = 10 * (uint64_t)NS_PER_S, .latency_ns = 50};
    box.problem.capacity_bytes = 40 * 1000;
    CU_ASSERT_EQUAL(bound_of().window_ns, 60 * 100 + 59 * 50);
    box.tensors[0].size_bytes = 20 * 1000; /* one copy for what twenty others had */
    CU_ASSERT_EQUAL(bound_of().window_ns, 79 * 100 + 59 * 50);
    box.problem.file.in_bytes_per_second = 1; /* bytes may go both ways */
    CU_ASSERT(bound_of().window_ns <= 79 * 100);
    swap_step_chain(&box, 50, 1000, 10);
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = 10 * (uint64_t)NS_PER_S, .latency_ns = 50};
    box.problem.capacity_bytes = 20 * 1000;
    CU_ASSERT_EQUAL(bound_of().window_ns, 2 * (30 * 100 + 29 * 50));
    CU_ASSERT_EQUAL(bound_of().volume_ns, 30 * 100 + 29 * 50);
    box.problem.host.duplex = DAO_SWAP_DUPLEX_HALF;
    CU_ASSERT_EQUAL(bound_of().volume_ns, 2 * (30 * 100 + 29 * 50));
}

static void a_chain_pays_out_forwards_and_in_backwards(void)
{
    enum { LAYERS = 50, KEPT = 20 };
    swap_step_chain(&box, LAYERS, 1000, 10);
    box.problem.host.in_bytes_per_second = 10 * (uint64_t)NS_PER_S;
    box.problem.capacity_bytes = KEPT * 1000;
    dao_swap_bound_t bound = bound_of();
    CU_ASSERT_EQUAL(bound.peak_bytes, LAYERS * 1000);
    /* Forwards LAYERS - KEPT go out at 100 ns each, backwards the same come in. */
    CU_ASSERT_EQUAL(bound.window_ns, 2 * (LAYERS - KEPT) * 100);
    CU_ASSERT_EQUAL(bound.in_bytes, (LAYERS - KEPT) * 1000);
    CU_ASSERT_EQUAL(bound.out_bytes, (LAYERS - KEPT) * 1000);
    CU_ASSERT_EQUAL(bound.volume_ns, (LAYERS - KEPT) * 100);
    box.problem.host.duplex = DAO_SWAP_DUPLEX_HALF;
    bound = bound_of();
    CU_ASSERT_EQUAL(bound.volume_ns, 2 * (LAYERS - KEPT) * 100);
    CU_ASSERT_EQUAL(bound.step_ns, 2 * (LAYERS - KEPT) * 100);
}

static void what_the_host_cannot_hold_uses_the_file(void)
{
    swap_step_stream(&box, 100, 1000, 10);
    box.problem.host.in_bytes_per_second = 10 * (uint64_t)NS_PER_S;
    box.problem.host.limit_bytes = 50 * 1000;
    box.problem.file.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 40 * 1000;
    CU_ASSERT_EQUAL(bound_of().window_ns, 10 * 1000); /* 60 come in, 50 at most from the host */
    box.problem.file.in_bytes_per_second = 20 * (uint64_t)NS_PER_S;
    CU_ASSERT_EQUAL(bound_of().window_ns, 60 * 1000 / 30); /* both links at once */
}

static void a_shared_link_is_slower(void)
{
    swap_step_chain(&box, 4, 1000, 10);
    /* A tensor that every kernel changes goes out and in within one window. */
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        box.uses[k][box.kernels[k].use_count++] = (dao_swap_use_t){k % 2, DAO_ACCESS_READ_WRITE};
    }
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 3000;
    dao_swap_bound_t full = bound_of();
    box.problem.host.shared_bytes_per_second = NS_PER_S;
    dao_swap_bound_t shared = bound_of();
    box.problem.host.duplex = DAO_SWAP_DUPLEX_HALF;
    dao_swap_bound_t half = bound_of();
    CU_ASSERT(full.step_ns <= shared.step_ns);
    CU_ASSERT_EQUAL(shared.step_ns, half.step_ns);
    CU_ASSERT(half.volume_ns >= half.in_bytes + half.out_bytes);
    CU_ASSERT(swap_step_is_bound(half.volume_ns, 4000));
}

/* Kernels 1 and 3 need the place of a tensor. One that is written may be away for both, and goes out and
   comes in; of the two others, each may be away for one, and only comes in. */
static void bytes_of_both_ways_are_least_with_one_choice(void)
{
    enum { SIZE = 1000, KERNELS_OF_FIVE = 5 };
    static const dao_swap_use_t uses[KERNELS_OF_FIVE][2] = {
        {{0, DAO_ACCESS_READ_WRITE}, {1, DAO_ACCESS_READ}},
        {{0}},
        {{1, DAO_ACCESS_READ}, {2, DAO_ACCESS_READ}},
        {{0}},
        {{2, DAO_ACCESS_READ}}};
    static const uint32_t use_counts[KERNELS_OF_FIVE] = {2, 0, 2, 0, 1};
    swap_step_stream(&box, KERNELS_OF_FIVE, SIZE, 1);
    box.problem.tensor_count = 3;
    for (uint32_t k = 0; k < KERNELS_OF_FIVE; k++) {
        memcpy(box.uses[k], uses[k], sizeof(uses[k]));
        box.kernels[k].use_count = use_counts[k];
        box.kernels[k].workspace_bytes = k % 2 == 1 ? SIZE : 0;
    }
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.host.duplex = DAO_SWAP_DUPLEX_HALF;
    box.problem.capacity_bytes = 3 * SIZE;
    dao_swap_bound_t half = bound_of();
    CU_ASSERT_EQUAL(half.in_bytes, SIZE);
    CU_ASSERT_EQUAL(half.out_bytes, 0);
    CU_ASSERT(swap_step_is_bound(half.volume_ns, 2 * SIZE));
    box.problem.host.duplex = DAO_SWAP_DUPLEX_FULL;
    CU_ASSERT(swap_step_is_bound(bound_of().volume_ns, SIZE));
}

/* What a window adds to its kernels, by its definition: `count` kernels from `start` on. */
static uint64_t added_by_definition(const dao_swap_problem_t *problem, uint32_t start, uint32_t count)
{
    uint32_t n = problem->kernel_count;
    uint64_t in = 0, out = 0, compute = 0;
    for (uint32_t i = 0; i < count; i++) {
        compute += problem->kernels[(start + i) % n].time_ns;
    }
    for (uint32_t t = 0; t < problem->tensor_count; t++) {
        bool carried = problem->tensors[t].is_persistent, was_used = false;
        for (uint32_t k = 0; k < n && !was_used; k++) { /* what the step first reads is carried too */
            bool reads = false;
            for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
                bool own = problem->kernels[k].uses[u].tensor == t;
                was_used = was_used || own;
                reads = reads || (own && problem->kernels[k].uses[u].access != DAO_ACCESS_WRITE);
            }
            carried = carried || reads;
        }
        bool accessed = false, written = false, needed = false, known = false, alive = true;
        for (uint32_t i = 0; i < 2 * n; i++) { /* first the window, then what follows it */
            uint32_t k = (start + i) % n;
            bool reads = false, writes = false;
            alive = alive && (carried || k != 0 || i == 0); /* not carried: ends with the step */
            for (uint32_t u = 0; u < problem->kernels[k].use_count; u++) {
                const dao_swap_use_t *one = &problem->kernels[k].uses[u];
                reads = reads || (one->tensor == t && one->access != DAO_ACCESS_WRITE);
                writes = writes || (one->tensor == t && one->access != DAO_ACCESS_READ);
            }
            if (i < count) {
                in += reads && !accessed && alive && (carried || k > 0) ? problem->tensors[t].size_bytes : 0;
                accessed = accessed || reads || writes;
                written = written || writes;
                alive = alive || writes;
            } else if ((reads || writes) && !known) {
                known = true;
                needed = reads && (carried || alive);
            }
        }
        out += written && needed ? problem->tensors[t].size_bytes : 0;
    }
    uint64_t capacity = problem->capacity_bytes;
    in = in > capacity ? in - capacity : 0;
    out = out > capacity ? out - capacity : 0;
    uint64_t time = problem->host.duplex == DAO_SWAP_DUPLEX_HALF ? in + out : in > out ? in : out;
    return time > compute ? time - compute : 0;
}

/* The best cut into windows of all rotations, one byte a ns. */
static uint64_t windows_by_definition(const dao_swap_problem_t *problem)
{
    uint64_t added[32][32 + 1], sums[32 + 1], best = 0;
    uint32_t n = problem->kernel_count;
    for (uint32_t start = 0; start < n; start++) {
        for (uint32_t count = 1; count <= n; count++) {
            added[start][count] = added_by_definition(problem, start, count);
        }
    }
    for (uint32_t rotation = 0; rotation < n; rotation++) {
        memset(sums, 0, sizeof(sums));
        for (uint32_t end = 1; end <= n; end++) {
            for (uint32_t begin = 0; begin < end; begin++) {
                uint64_t sum = sums[begin] + added[(rotation + begin) % n][end - begin];
                sums[end] = sum > sums[end] ? sum : sums[end];
            }
        }
        best = sums[n] > best ? sums[n] : best;
    }
    return best;
}

static void windows_are_as_defined(void)
{
    uint64_t random = dao_test_seed("windows are as defined", 20260801);
    const swap_step_range_t range = {.tensor_max = 8, .kernel_max = 20, .size_max = 100, .time_max = 9};
    int with_windows = 0;
    for (int round = 0; round < 400; round++) {
        uint64_t least, peak;
        swap_step_random(&box, &range, &random);
        measure(&least, &peak);
        box.problem.capacity_bytes = least + dao_random_next(&random) % (peak - least + 1);
        box.problem.host.duplex =
            dao_random_next(&random) % 2 == 0 ? DAO_SWAP_DUPLEX_FULL : DAO_SWAP_DUPLEX_HALF;
        dao_swap_bound_t bound = bound_of();
        uint64_t wanted = windows_by_definition(&box.problem);
        with_windows += wanted != 0;
        CU_ASSERT_EQUAL(bound.window_ns, bound.compute_ns + wanted);
        CU_ASSERT(bound.window_added_ns <= wanted);
        CU_ASSERT_EQUAL(bound.window_kernel_count == 0, wanted == 0);
    }
    CU_ASSERT(with_windows > 40);
}

/* The fastest of all schedules of a tiny step whose tensors have one byte each, at one byte a ns: states are
   explored in the order of time. Kernels run in turns of 1 ns; meanwhile one byte may come in and one go
   out. */
enum { TENSORS = 4, STEPS = 3, KERNELS = 6, TIMES = 2, MASKS = 1 << TENSORS };

typedef struct state {
    uint8_t kernel, left, device,
        host; /* kernels that began, ns left of the last one, bytes with their content */
} state_t;

typedef struct explorer {
    state_t now[STEPS * KERNELS * TIMES * MASKS * MASKS * 2],
        next[STEPS * KERNELS * TIMES * MASKS * MASKS * 2];
    size_t now_count, next_count;
    bool seen[STEPS * KERNELS + 1][TIMES][MASKS][MASKS];
} explorer_t;

static explorer_t *explorer;

static void visit(state_t *list, size_t *count, state_t state)
{
    bool *seen = &explorer->seen[state.kernel][state.left][state.device][state.host];
    if (!*seen) {
        *seen = true;
        list[(*count)++] = state;
    }
}

static void masks_of(uint32_t kernel, uint8_t *reads, uint8_t *all, uint8_t *writes)
{
    const dao_swap_kernel_t *one = &box.kernels[kernel % box.problem.kernel_count];
    *reads = *all = *writes = 0;
    for (uint32_t u = 0; u < one->use_count; u++) {
        uint8_t bit = (uint8_t)(1u << one->uses[u].tensor);
        *all |= bit;
        *reads |= one->uses[u].access != DAO_ACCESS_WRITE ? bit : 0;
        *writes |= one->uses[u].access != DAO_ACCESS_READ ? bit : 0;
    }
}

/* What follows `user`, a state, within the same ns, and a ns later. */
static void see_at_once(swap_bytes_t bytes, void *user)
{
    state_t next = *(const state_t *)user;
    next.device = bytes.device;
    next.host = bytes.host;
    visit(explorer->now, &explorer->now_count, next);
}

static void see_after(swap_bytes_t bytes, void *user)
{
    state_t next = *(const state_t *)user;
    next.device = bytes.device;
    next.host = bytes.host;
    visit(explorer->next, &explorer->next_count, next);
}

/* All that can follow within the same ns: bytes are dropped, the next kernel begins. */
static void act_at_once(state_t state)
{
    uint8_t reads, all, writes;
    if (state.left == 0) {
        masks_of(state.kernel, &reads, &all, &writes);
        if ((reads & state.device) == reads &&
            (uint64_t)__builtin_popcount(state.device | all) <= box.problem.capacity_bytes) {
            state_t next = {(uint8_t)(state.kernel + 1),
                            (uint8_t)box.kernels[state.kernel % box.problem.kernel_count].time_ns,
                            state.device | all, (uint8_t)(state.host & ~writes)};
            visit(explorer->now, &explorer->now_count, next);
        }
    }
    all = writes = 0;
    if (state.left > 0) {
        masks_of((uint32_t)state.kernel - 1, &reads, &all, &writes);
    }
    swap_bytes_drop(TENSORS, (swap_bytes_t){state.device, state.host}, all, see_at_once, &state);
}

/* All that one ns can bring. */
static void pass_time(state_t state)
{
    uint8_t reads, all, writes = 0;
    if (state.left > 0) {
        masks_of((uint32_t)state.kernel - 1, &reads, &all, &writes);
    }
    state.left = (uint8_t)(state.left > 0 ? state.left - 1 : 0);
    swap_bytes_copy(&box.problem, TENSORS, (swap_bytes_t){state.device, state.host}, writes, see_after,
                    &state);
}

/* Least ns for some steps that begin with all in the host; 0 if there is no way within a lot of time. */
static uint64_t fastest(uint32_t step_count)
{
    uint32_t end = step_count * box.problem.kernel_count;
    memset(explorer->seen, 0, sizeof(explorer->seen));
    explorer->now_count = explorer->next_count = 0;
    visit(explorer->now, &explorer->now_count, (state_t){0, 0, 0, MASKS - 1});
    for (uint64_t time_ns = 0; time_ns < 1000 && explorer->now_count > 0; time_ns++) {
        for (size_t i = 0; i < explorer->now_count; i++) { /* grows meanwhile */
            if (explorer->now[i].kernel == end && explorer->now[i].left == 0) {
                return time_ns;
            }
            if (explorer->now[i].kernel < end) {
                act_at_once(explorer->now[i]);
            }
        }
        explorer->next_count = 0;
        for (size_t i = 0; i < explorer->now_count; i++) {
            pass_time(explorer->now[i]);
        }
        memcpy(explorer->now, explorer->next, explorer->next_count * sizeof(state_t));
        explorer->now_count = explorer->next_count;
    }
    return 0;
}

static void no_schedule_of_a_tiny_step_is_faster(void)
{
    uint64_t random = dao_test_seed("no schedule is faster", 20260802);
    const swap_step_range_t range = {
        .tensor_max = TENSORS, .kernel_max = KERNELS, .size_max = 1, .time_max = TIMES - 1};
    explorer = calloc(1, sizeof(*explorer));
    CU_ASSERT_PTR_NOT_NULL_FATAL(explorer);
    int tight = 0, bound_by_links = 0;
    for (int round = 0; round < 300; round++) {
        uint64_t least, peak;
        swap_step_random(&box, &range, &random);
        measure(&least, &peak);
        box.problem.capacity_bytes = least;
        box.problem.host.duplex =
            dao_random_next(&random) % 2 == 0 ? DAO_SWAP_DUPLEX_FULL : DAO_SWAP_DUPLEX_HALF;
        dao_swap_bound_t bound = bound_of();
        uint64_t two = fastest(STEPS - 1), three = fastest(STEPS);
        CU_ASSERT(three >= (STEPS - 1) * bound.step_ns); /* its window may lie across the step's end */
        CU_ASSERT(two >= (STEPS - 2) * bound.step_ns);
        bool links = bound.step_ns > bound.compute_ns;
        bound_by_links += links;
        tight += links && three - two == bound.step_ns;
    }
    CU_ASSERT(bound_by_links > 10);
    CU_ASSERT(tight > 1); /* some are met exactly */
    free(explorer);
}

static void more_memory_or_speed_is_never_slower(void)
{
    uint64_t random = dao_test_seed("more is never slower", 20260803);
    const swap_step_range_t range = {
        .tensor_max = 16, .kernel_max = 24, .size_max = 1000, .time_max = 300, .workspace_max = 100};
    for (int round = 0; round < 200; round++) {
        uint64_t least, peak;
        swap_step_random(&box, &range, &random);
        measure(&least, &peak);
        uint64_t before = UINT64_MAX;
        for (uint64_t i = 0; i <= 8; i++) {
            box.problem.capacity_bytes = least + (peak - least) * i / 8;
            box.problem.host.in_bytes_per_second = NS_PER_S;
            dao_swap_bound_t slow = bound_of();
            CU_ASSERT(slow.step_ns <= before && slow.step_ns >= slow.compute_ns);
            before = slow.step_ns;
            box.problem.host.in_bytes_per_second = 2 * (uint64_t)NS_PER_S;
            CU_ASSERT(bound_of().step_ns <= slow.step_ns);
        }
        CU_ASSERT_EQUAL(before, bound_of().compute_ns); /* all fits */
    }
}

static void a_long_step_is_bounded_by_coarser_windows(void)
{
    enum { WEIGHTS = 16, KERNELS_A_WEIGHT = DAO_SWAP_CUT_MAX / 8 };
    static dao_swap_kernel_t kernels[WEIGHTS * KERNELS_A_WEIGHT];
    swap_step_stream(&box, WEIGHTS, 1000, 1);
    for (uint32_t k = 0; k < WEIGHTS * KERNELS_A_WEIGHT; k++) {
        kernels[k] = box.kernels[k / KERNELS_A_WEIGHT];
        kernels[k].time_ns = k % KERNELS_A_WEIGHT == 0;
    }
    box.problem.kernels = kernels;
    box.problem.kernel_count = WEIGHTS * KERNELS_A_WEIGHT;
    box.problem.capacity_bytes = 4000;
    box.problem.host.in_bytes_per_second = NS_PER_S;
    /* The window begins behind the one kernel of the first weight that takes time, and ends before it comes
       again. */
    CU_ASSERT_EQUAL(bound_of().window_ns, (WEIGHTS - 4) * 1000 + 1);
}

static void a_kernel_that_never_fits_is_named(void)
{
    swap_step_chain(&box, 8, 1000, 10);
    box.kernels[5].workspace_bytes = 3000;
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 4999;
    dao_swap_bound_t bound = {0};
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(bound.least_capacity_bytes, 5000);
    CU_ASSERT_EQUAL(bound.least_capacity_kernel, 5);
    CU_ASSERT_EQUAL(bound.compute_ns, 160);
    CU_ASSERT_EQUAL(bound.step_ns, 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "kernel 5"));
}

static void what_is_no_step_is_refused(void)
{
    dao_swap_bound_t bound = {.step_ns = 77};
    CU_ASSERT_EQUAL(dao_swap_find_bound(NULL, &bound), DAO_ERR_INVALID);
    swap_step_chain(&box, 4, 1000, 10);
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, NULL), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID); /* no link */
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.alignment_bytes = 3;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK); /* the bound has no alignment */
    box.problem.host.duplex = (dao_swap_duplex_t)2;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID);
    box.problem.host.duplex = DAO_SWAP_DUPLEX_FULL;
    bound.step_ns = 77;
    box.problem.kernel_count = 0;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID);
    box.problem.kernel_count = 8;
    box.uses[3][0].tensor = 4;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID);
    box.uses[3][0].tensor = 3;
    box.tensors[2].size_bytes = 0;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_INVALID);
    box.tensors[2].size_bytes = DAO_SWAP_SIZE_MAX;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_OVERFLOW);
    box.tensors[2].size_bytes = 1000;
    box.kernels[2].time_ns = DAO_SWAP_TIME_MAX + 1;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_ERR_OVERFLOW);
    CU_ASSERT_EQUAL(bound.step_ns, 77);
}

/* UINT64_MAX is how a program says that there is no limit. */
static void beyond_all_capacities_a_step_takes_its_kernels_alone(void)
{
    static const uint64_t capacities[] = {DAO_SWAP_SIZE_MAX, INT64_MAX, (uint64_t)INT64_MAX + 1,
                                          UINT64_MAX - 255, UINT64_MAX};
    swap_step_chain(&box, 8, 1000, 10);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.tensors[0].is_persistent = true;
    for (size_t i = 0; i < sizeof(capacities) / sizeof(capacities[0]); i++) {
        dao_swap_bound_t bound = {0};
        dao_recompute_bound_t again = {0};
        box.problem.capacity_bytes = capacities[i];
        CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
        CU_ASSERT_TRUE(bound.compute_ns > 0);
        CU_ASSERT_EQUAL(bound.step_ns, bound.compute_ns);
        CU_ASSERT_EQUAL(bound.window_ns, bound.compute_ns);
        CU_ASSERT_EQUAL(dao_recompute_find_bound(&box.problem, &again), DAO_OK);
        CU_ASSERT_EQUAL(again.step_ns, bound.compute_ns);
    }
}

static void no_host_memory_is_answered(void)
{
    swap_step_chain(&box, 8, 1000, 10);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    box.problem.capacity_bytes = 4000;
    uint64_t failed;
    uint32_t points = 0;
    do {
        dao_swap_bound_t bound = {.step_ns = 77};
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, points++, false);
        dao_status_t status = dao_swap_find_bound(&box.problem, &bound);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed != 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(bound.step_ns == 77, failed != 0);
    } while (failed != 0);
}

static CU_TestInfo tests[] = {
    {"a stream of weights needs what does not fit", a_stream_of_weights_needs_what_does_not_fit},
    {"each copy but one of a window has its latency", each_copy_but_one_of_a_window_has_its_latency},
    {"a chain pays out forwards and in backwards", a_chain_pays_out_forwards_and_in_backwards},
    {"what the host cannot hold uses the file", what_the_host_cannot_hold_uses_the_file},
    {"a shared link is slower", a_shared_link_is_slower},
    {"bytes of both ways are least with one choice", bytes_of_both_ways_are_least_with_one_choice},
    {"windows are as defined", windows_are_as_defined},
    {"beyond all capacities a step takes its kernels alone",
     beyond_all_capacities_a_step_takes_its_kernels_alone},
    {"no schedule of a tiny step is faster", no_schedule_of_a_tiny_step_is_faster},
    {"more memory or speed is never slower", more_memory_or_speed_is_never_slower},
    {"a long step is bounded by coarser windows", a_long_step_is_bounded_by_coarser_windows},
    {"a kernel that never fits is named", a_kernel_that_never_fits_is_named},
    {"what is no step is refused", what_is_no_step_is_refused},
    {"no host memory is answered", no_host_memory_is_answered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap bound", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
