/* SPDX-License-Identifier: Apache-2.0 */
/* The bound of a step on several compute streams: where it is known, and against the best of all schedules of
   tiny steps. */
#include "planning/swap/bound/swap_streams.h"

#include "base/report/fault.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#include <stdlib.h>
#include <string.h>

#define NS_PER_S 1000000000u

static swap_step_box_t box;
static uint32_t streams[SWAP_STEP_KERNEL_MAX];

static uint64_t bound_ns(void)
{
    uint64_t step_ns = 0;
    CU_ASSERT_EQUAL(dao_swap_find_streams_bound(&box.problem, streams, &step_ns), DAO_OK);
    return step_ns;
}

/* ---- where it is known ---- */

/* Kernels of a tensor each, with a link of a byte a ns and all memory. */
static void begin(uint32_t kernel_count, uint64_t size_bytes, uint64_t time_ns)
{
    swap_step_stream(&box, kernel_count, size_bytes, time_ns);
    box.problem.host.in_bytes_per_second = NS_PER_S;
    memset(streams, 0, sizeof(streams));
}

static void use(uint32_t kernel, uint32_t tensor, dao_access_t access)
{
    box.uses[kernel][box.kernels[kernel].use_count++] = (dao_swap_use_t){tensor, access};
}

static void streams_that_share_nothing_take_the_time_of_the_longest(void)
{
    begin(5, 1, 10);
    CU_ASSERT_EQUAL(bound_ns(), 50);
    streams[1] = streams[3] = 1;
    CU_ASSERT_EQUAL(bound_ns(), 30);
    streams[1] = 2;
    CU_ASSERT_EQUAL(bound_ns(), 30);
    box.kernels[1].time_ns = 40;
    CU_ASSERT_EQUAL(bound_ns(), 40);
}

/* Of kernels 0 and 2 on one stream and 1 on another. */
static void kernels_that_wait_for_each_other_add_up(void)
{
    begin(3, 1, 10);
    streams[1] = 1;
    box.kernels[1].time_ns = 15;
    use(0, 1, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(bound_ns(), 20); /* 1 waits for 0, nobody for 1 */
    use(1, 2, DAO_ACCESS_WRITE);
    CU_ASSERT_EQUAL(bound_ns(), 35); /* 2 for 1, and 0 for 2 */
    box.uses[2][0].access = DAO_ACCESS_WRITE;
    CU_ASSERT_EQUAL(bound_ns(), 20); /* 2 overwrites what 1 has written */
}

/* 1 waits for 0 of the step before, 0 for 1 of this one: a cycle over a step's end, of one step. */
static void a_cycle_may_cross_the_steps_end(void)
{
    begin(2, 1, 10);
    streams[0] = 1;
    box.uses[0][0].access = DAO_ACCESS_READ_WRITE;
    box.uses[1][0].access = DAO_ACCESS_READ_WRITE;
    CU_ASSERT_EQUAL(bound_ns(), 10);
    use(0, 1, DAO_ACCESS_READ);
    CU_ASSERT_EQUAL(bound_ns(), 10);
    use(1, 0, DAO_ACCESS_READ);
    CU_ASSERT_EQUAL(bound_ns(), 20);
}

/* Two steps of the one follow each other while the other one has one. */
static void a_cycle_of_two_steps_counts_for_half(void)
{
    begin(4, 1, 1);
    const uint64_t times_ns[] = {10, 1, 30, 1};
    for (uint32_t k = 0; k < 4; k++) {
        box.kernels[k].time_ns = times_ns[k];
        streams[k] = k;
        box.uses[k][0] = (dao_swap_use_t){k, DAO_ACCESS_WRITE};
    }
    use(1, 2, DAO_ACCESS_READ); /* of the step before */
    use(0, 3, DAO_ACCESS_READ); /* likewise */
    use(2, 0, DAO_ACCESS_READ);
    use(3, 1, DAO_ACCESS_READ);
    CU_ASSERT_EQUAL(bound_ns(), 30); /* 0, 2, 1, 3 take 42 in two steps: 2 alone takes longer */
    box.kernels[0].time_ns = 29;
    box.kernels[3].time_ns = 28;
    CU_ASSERT_EQUAL(bound_ns(), (29 + 30 + 1 + 28) / 2);
}

/* Ten weights of 100 ns each, of which four fit; the other stream's ten are its own matter. A kernel has its
   weight and three of the nine others. */
static void a_streams_weights_come_in_beside_its_kernels(void)
{
    begin(20, 100, 10);
    box.problem.capacity_bytes = 400;
    for (uint32_t k = 0; k < 20; k++) {
        streams[k] = k % 2;
    }
    CU_ASSERT(swap_step_is_bound(bound_ns(), 10 * 100 * 6 / 9));
    memset(streams, 0, sizeof(streams));
    CU_ASSERT(swap_step_is_bound(bound_ns(), 20 * 100 * 16 / 19));
}

/* What another stream writes needs no copy, though the memory is full of it. */
static void what_another_stream_writes_is_free(void)
{
    begin(4, 100, 10);
    box.problem.capacity_bytes = 200;
    for (uint32_t k = 0; k < 4; k++) { /* 0 and 2 write what 1 and 3 read */
        streams[k] = k % 2;
        box.uses[k][0] = (dao_swap_use_t){k / 2, k % 2 == 0 ? DAO_ACCESS_READ_WRITE : DAO_ACCESS_READ};
    }
    CU_ASSERT_EQUAL(bound_ns(), 20);
    box.problem.capacity_bytes = 100;
    CU_ASSERT(swap_step_is_bound(bound_ns(), 200)); /* the writer's own two: one is away at a time */
}

/* 0, 1 and 2 follow each other, 1 on another stream. Their weights need 100 bytes each beside the 1 byte that
   they hand on, in memory for one and a half. */
static void streams_that_wait_for_each_other_share_the_memory(void)
{
    begin(5, 100, 10);
    box.problem.kernel_count = 3;
    box.tensors[3].size_bytes = box.tensors[4].size_bytes = 1;
    box.problem.capacity_bytes = 150;
    streams[1] = 1;
    use(0, 3, DAO_ACCESS_WRITE);
    use(1, 3, DAO_ACCESS_READ);
    CU_ASSERT(swap_step_is_bound(bound_ns(), 101)); /* nothing waits for 1: it may be steps behind */
    use(1, 4, DAO_ACCESS_WRITE);
    use(2, 4, DAO_ACCESS_READ);
    CU_ASSERT_EQUAL(bound_ns(), 151); /* from 2 on: what 1 has written, and all weights */
    box.problem.capacity_bytes = 302;
    CU_ASSERT_EQUAL(bound_ns(), 30);
}

static void what_cannot_run_is_refused(void)
{
    uint64_t step_ns = 7;
    begin(2, 100, 10);
    streams[1] = 1;
    box.problem.capacity_bytes = 99;
    CU_ASSERT_EQUAL(dao_swap_find_streams_bound(&box.problem, streams, &step_ns), DAO_ERR_KERNEL_TOO_LARGE);
    CU_ASSERT_EQUAL(step_ns, 7);
}

static void no_host_memory_is_answered(void)
{
    begin(6, 100, 10);
    box.problem.capacity_bytes = 200;
    streams[1] = 1;
    uint64_t failed;
    uint32_t points = 0;
    do {
        uint64_t step_ns = 77;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, points++, false);
        dao_status_t status = dao_swap_find_streams_bound(&box.problem, streams, &step_ns);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed != 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(step_ns == 77, failed != 0);
    } while (failed != 0);
}

/* ---- the best of all schedules ---- */

/* Of tiny steps on two streams whose tensors have one byte each, at one byte a ns: states are explored in the
   order of time. A kernel takes no time or 1 ns; meanwhile one byte may come in and one go out. A kernel
   waits for those before it with which it shares a tensor that either writes. */
enum { TENSORS = 4, STEPS = 3, KERNELS = 5, LANES = 2, MASKS = 1 << TENSORS, RUNS = STEPS * KERNELS + 1 };

typedef struct state {
    uint8_t began[LANES]; /* kernels of each stream */
    uint8_t left[LANES];  /* ns of the last one */
    uint8_t device, host; /* bytes with their content */
} state_t;

typedef struct explorer {
    state_t now[RUNS * RUNS * 2 * 2 * MASKS * MASKS], next[RUNS * RUNS * 2 * 2 * MASKS * MASKS];
    size_t now_count, next_count;
    bool seen[RUNS][RUNS][2][2][MASKS][MASKS];
    uint32_t lanes[LANES][KERNELS]; /* kernels of each stream */
    uint32_t counts[LANES];
} explorer_t;

static explorer_t *explorer;

static void visit(state_t *list, size_t *count, state_t state)
{
    bool *seen =
        &explorer
             ->seen[state.began[0]][state.began[1]][state.left[0]][state.left[1]][state.device][state.host];
    if (!*seen) {
        *seen = true;
        list[(*count)++] = state;
    }
}

static void masks_of(uint32_t kernel, uint8_t *reads, uint8_t *all, uint8_t *writes)
{
    *reads = *all = *writes = 0;
    for (uint32_t u = 0; u < box.kernels[kernel].use_count; u++) {
        const dao_swap_use_t *one = &box.uses[kernel][u];
        uint8_t bit = (uint8_t)(1u << one->tensor);
        *all |= bit;
        *reads |= one->access != DAO_ACCESS_WRITE ? bit : 0;
        *writes |= one->access != DAO_ACCESS_READ ? bit : 0;
    }
}

/* What the kernels that run use and write. */
static void masks_of_running(state_t state, uint8_t *all, uint8_t *writes)
{
    *all = *writes = 0;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        uint8_t reads, one_all = 0, one_writes = 0;
        if (state.left[lane] > 0) {
            masks_of(explorer->lanes[lane][(state.began[lane] - 1u) % explorer->counts[lane]], &reads,
                     &one_all, &one_writes);
        }
        *all |= one_all;
        *writes |= one_writes;
    }
}

/* Returns true if all kernels of the other stream have ended that a kernel waits for. */
static bool is_its_turn(state_t state, uint32_t lane)
{
    uint32_t other = 1 - lane, step = state.began[lane] / explorer->counts[lane];
    uint32_t kernel = explorer->lanes[lane][state.began[lane] % explorer->counts[lane]];
    uint32_t ended = state.began[other] - (state.left[other] > 0 ? 1u : 0u);
    uint8_t reads, all, writes, other_all, other_writes;
    masks_of(kernel, &reads, &all, &writes);
    for (uint32_t i = 0; i < explorer->counts[other]; i++) {
        masks_of(explorer->lanes[other][i], &reads, &other_all, &other_writes);
        bool is_before = explorer->lanes[other][i] < kernel;
        bool waits = ((all & other_writes) | (writes & other_all)) != 0 && (is_before || step > 0);
        if (waits && (is_before ? step : step - 1) * explorer->counts[other] + i + 1 > ended) {
            return false;
        }
    }
    return true;
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

/* All that can follow within the same ns: bytes are dropped, a kernel begins. */
static void act_at_once(state_t state, uint32_t step_count)
{
    uint8_t reads, all, writes;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        if (state.left[lane] > 0 || state.began[lane] == step_count * explorer->counts[lane] ||
            !is_its_turn(state, lane)) {
            continue;
        }
        uint32_t kernel = explorer->lanes[lane][state.began[lane] % explorer->counts[lane]];
        masks_of(kernel, &reads, &all, &writes);
        if ((reads & state.device) == reads &&
            (uint64_t)__builtin_popcount(state.device | all) <= box.problem.capacity_bytes) {
            state_t next = state;
            next.began[lane]++;
            next.left[lane] = (uint8_t)box.kernels[kernel].time_ns;
            next.device |= all;
            next.host = (uint8_t)(next.host & ~writes);
            visit(explorer->now, &explorer->now_count, next);
        }
    }
    masks_of_running(state, &all, &writes);
    swap_bytes_drop(TENSORS, (swap_bytes_t){state.device, state.host}, all, see_at_once, &state);
}

/* All that one ns can bring. */
static void pass_time(state_t state)
{
    uint8_t all, writes;
    masks_of_running(state, &all, &writes);
    state.left[0] = state.left[1] = 0; /* a kernel takes 1 ns at most */
    swap_bytes_copy(&box.problem, TENSORS, (swap_bytes_t){state.device, state.host}, writes, see_after,
                    &state);
}

static bool is_end(state_t state, uint32_t step_count)
{
    bool is_all = true;
    for (uint32_t lane = 0; lane < LANES; lane++) {
        is_all = is_all && state.left[lane] == 0 && state.began[lane] == step_count * explorer->counts[lane];
    }
    return is_all;
}

/* Least ns for some steps that begin with all in the host; 0 if there is no way within a lot of time. */
static uint64_t fastest(uint32_t step_count)
{
    memset(explorer->seen, 0, sizeof(explorer->seen));
    explorer->now_count = explorer->next_count = 0;
    visit(explorer->now, &explorer->now_count, (state_t){.host = MASKS - 1});
    for (uint64_t time_ns = 0; time_ns < 1000 && explorer->now_count > 0; time_ns++) {
        for (size_t i = 0; i < explorer->now_count; i++) { /* grows meanwhile */
            if (is_end(explorer->now[i], step_count)) {
                return time_ns;
            }
            act_at_once(explorer->now[i], step_count);
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

/* A random tiny step, and the stream of each kernel; both streams have some. Returns its least capacity. */
static uint64_t make_step(uint64_t *random)
{
    const swap_step_range_t range = {
        .tensor_max = TENSORS, .kernel_max = KERNELS, .size_max = 1, .time_max = 1};
    dao_swap_bound_t bound = {0};
    do {
        swap_step_random(&box, &range, random);
    } while (box.problem.kernel_count < LANES);
    memset(explorer->counts, 0, sizeof(explorer->counts));
    for (uint32_t k = 0; k < box.problem.kernel_count; k++) {
        streams[k] = k < LANES ? k : (uint32_t)dao_random_below(random, LANES);
        explorer->lanes[streams[k]][explorer->counts[streams[k]]++] = k;
    }
    box.problem.host.in_bytes_per_second = NS_PER_S;
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    return bound.least_capacity_bytes;
}

static void no_schedule_of_a_tiny_step_is_faster(void)
{
    uint64_t random = dao_test_seed("no schedule is faster", 20261129);
    explorer = calloc(1, sizeof(*explorer));
    CU_ASSERT_PTR_NOT_NULL_FATAL(explorer);
    int tight = 0, beside = 0;
    for (int round = 0; round < 2000; round++) {
        box.problem.capacity_bytes = make_step(&random) + dao_random_below(&random, 2);
        box.problem.host.duplex =
            dao_random_next(&random) % 2 == 0 ? DAO_SWAP_DUPLEX_FULL : DAO_SWAP_DUPLEX_HALF;
        dao_swap_bound_t in_a_row;
        CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &in_a_row), DAO_OK);
        uint64_t step_ns = bound_ns(), two = fastest(STEPS - 1), three = fastest(STEPS);
        CU_ASSERT(three > 0 || step_ns == 0);
        CU_ASSERT(three >= (STEPS - 1) * step_ns); /* its window may lie across the step's end */
        CU_ASSERT(two >= (STEPS - 2) * step_ns);
        tight += step_ns > 0 && three - two == step_ns;
        beside += three < (STEPS - 1) * in_a_row.step_ns;
    }
    CU_ASSERT(tight > 500);
    CU_ASSERT(beside > 10); /* kernels one behind the other would take longer */
    free(explorer);
}

static CU_TestInfo tests[] = {
    {"streams that share nothing take the time of the longest",
     streams_that_share_nothing_take_the_time_of_the_longest},
    {"kernels that wait for each other add up", kernels_that_wait_for_each_other_add_up},
    {"a cycle may cross the step's end", a_cycle_may_cross_the_steps_end},
    {"a cycle of two steps counts for half", a_cycle_of_two_steps_counts_for_half},
    {"a stream's weights come in beside its kernels", a_streams_weights_come_in_beside_its_kernels},
    {"what another stream writes is free", what_another_stream_writes_is_free},
    {"streams that wait for each other share the memory", streams_that_wait_for_each_other_share_the_memory},
    {"what cannot run is refused", what_cannot_run_is_refused},
    {"no host memory is answered", no_host_memory_is_answered},
    {"no schedule of a tiny step is faster", no_schedule_of_a_tiny_step_is_faster},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap streams", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
