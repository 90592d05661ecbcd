/* SPDX-License-Identifier: Apache-2.0 */
/* Following a schedule: a program that does just what the follower says, in any order of ends, finds all
   bytes where its kernels need them and has never more of them than the capacity. */
#include "base/report/fault.h"
#include "tests/support/models/swap_steps.h"
#include "tests/support/suite.h"

#include <dao/status.h>
#include <dao/swap_follow.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S         1000000000u
#define LITTLE_WORK      100000u
#define STEPS            4u
#define TENSOR_BYTES_MAX 64u /* of a tensor */
#define UNDER_WAY        512u
#define ABSENT           (-1)
#define UNKNOWN          (-2)

static swap_step_box_t box;

/* The program's memory, a version for each byte of each tensor: which write it is of. */
typedef struct program {
    dao_swap_follower_t *follower;
    const dao_swap_schedule_t *schedule;
    int device[SWAP_STEP_TENSOR_MAX][TENSOR_BYTES_MAX];
    int tiers[2][SWAP_STEP_TENSOR_MAX][TENSOR_BYTES_MAX]; /* host, file */
    int current[SWAP_STEP_TENSOR_MAX];
    const dao_swap_copy_t *under_way[DAO_SWAP_STREAM_COUNT][UNDER_WAY];
    uint32_t first[DAO_SWAP_STREAM_COUNT], count[DAO_SWAP_STREAM_COUNT];
    uint64_t used_bytes;
    uint32_t kernel, step;
    uint32_t due; /* of the latest drain */
    bool is_running;
    bool copy_has_ended; /* since the latest drain */
    bool counts;         /* bytes, against the capacity */
    int drops, dead, ins, outs, ahead;
    const char *failure;
} program_t;

static program_t program;

static void fail(const char *what)
{
    if (program.failure == NULL) {
        printf("step %" PRIu32 ", kernel %" PRIu32 ": %s\n", program.step, program.kernel, what);
        program.failure = what;
    }
}

static void take(uint32_t tensor, uint64_t offset, uint64_t size)
{
    for (uint64_t i = offset; i < offset + size; i++) {
        program.used_bytes += program.device[tensor][i] == ABSENT;
        program.device[tensor][i] = UNKNOWN;
    }
}

static void check_capacity(uint64_t workspace_bytes)
{
    if (program.counts && program.used_bytes + workspace_bytes > box.problem.capacity_bytes) {
        fail("more bytes than the capacity");
    }
}

static bool is_used_now(uint32_t tensor)
{
    const dao_swap_kernel_t *kernel = &box.kernels[program.kernel];
    for (uint32_t u = 0; program.is_running && u < kernel->use_count; u++) {
        if (kernel->uses[u].tensor == tensor) {
            return true;
        }
    }
    return false;
}

static bool is_moving(uint32_t tensor, uint64_t offset, uint64_t size)
{
    for (uint32_t s = 1; s < DAO_SWAP_STREAM_COUNT; s++) {
        for (uint32_t i = 0; i < program.count[s]; i++) {
            const dao_swap_copy_t *copy = program.under_way[s][(program.first[s] + i) % UNDER_WAY];
            if (copy->tensor == tensor && copy->offset_bytes < offset + size &&
                offset < copy->offset_bytes + copy->size_bytes) {
                return true;
            }
        }
    }
    return false;
}

static void give_up(const dao_swap_action_t *action)
{
    int *there = program.device[action->tensor];
    if (is_used_now(action->tensor) || is_moving(action->tensor, action->offset_bytes, action->size_bytes)) {
        fail("bytes that are in use are to be given up");
    }
    for (uint64_t i = action->offset_bytes; i < action->offset_bytes + action->size_bytes; i++) {
        bool is_kept = program.tiers[0][action->tensor][i] == there[i] ||
                       program.tiers[1][action->tensor][i] == there[i];
        if (there[i] == ABSENT) {
            fail("bytes are to be given up that are not there");
        } else if (!action->is_dead && !is_kept) {
            fail("a content is to be given up that is nowhere else");
        }
        program.used_bytes -= there[i] != ABSENT;
        there[i] = ABSENT;
    }
    program.drops++;
    program.dead += action->is_dead;
}

static void start_copy(const dao_swap_action_t *action)
{
    const dao_swap_copy_t *copy = action->copy;
    int *there = program.device[copy->tensor];
    CU_ASSERT(copy->tensor == action->tensor && copy->offset_bytes == action->offset_bytes &&
              copy->size_bytes == action->size_bytes && !action->is_dead);
    if (!copy->is_in && there[copy->offset_bytes] == ABSENT) {
        if (program.step > 0) {
            fail("bytes are to be copied out that are not there");
        }
        CU_ASSERT_EQUAL(program.count[action->stream], 0); /* or they would end out of order */
        CU_ASSERT_EQUAL(dao_swap_follower_copy_end(program.follower, action->stream), DAO_OK);
        return;
    }
    if (copy->is_in) {
        for (uint64_t i = copy->offset_bytes; i < copy->offset_bytes + copy->size_bytes; i++) {
            if (there[i] != ABSENT) {
                fail("bytes are to be brought that are there");
            }
        }
        take(copy->tensor, copy->offset_bytes, copy->size_bytes);
        check_capacity(program.is_running ? box.kernels[program.kernel].workspace_bytes : 0);
    }
    uint32_t s = action->stream;
    CU_ASSERT_FATAL(program.count[s] < UNDER_WAY);
    program.under_way[s][(program.first[s] + program.count[s]++) % UNDER_WAY] = copy;
    program.ins += copy->is_in;
    program.outs += !copy->is_in;
}

static void drain(uint32_t ended_kernel)
{
    dao_swap_action_t action;
    bool is_first = true;
    while (dao_swap_follower_next(program.follower, &action)) {
        if (is_first && !program.copy_has_ended && ended_kernel != UINT32_MAX) {
            CU_ASSERT(ended_kernel >= program.due);
        }
        is_first = false;
        if (action.copy == NULL) {
            give_up(&action);
        } else {
            start_copy(&action);
        }
    }
    program.ahead += is_first;
    program.due = dao_swap_follower_due(program.follower);
    CU_ASSERT(program.due <= box.problem.kernel_count);
    program.copy_has_ended = false;
}

static void end_copy(uint32_t s)
{
    const dao_swap_copy_t *copy = program.under_way[s][program.first[s]];
    int *there = program.device[copy->tensor], *slot = program.tiers[copy->is_file][copy->tensor];
    for (uint64_t i = copy->offset_bytes; i < copy->offset_bytes + copy->size_bytes; i++) {
        if (copy->is_in ? slot[i] != program.current[copy->tensor]
                        : there[i] != program.current[copy->tensor]) {
            fail("a copy moves another content than the latest");
        }
        *(copy->is_in ? &there[i] : &slot[i]) = copy->is_in ? slot[i] : there[i];
    }
    program.first[s] = (program.first[s] + 1) % UNDER_WAY;
    program.count[s]--;
    program.copy_has_ended = true;
    CU_ASSERT_EQUAL(dao_swap_follower_copy_end(program.follower, (dao_swap_stream_t)s), DAO_OK);
    drain(UINT32_MAX);
}

static bool begin_kernel(void)
{
    dao_swap_stream_t awaited = DAO_SWAP_STREAM_COUNT;
    const dao_swap_kernel_t *kernel = &box.kernels[program.kernel];
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(program.follower, program.kernel, &awaited), DAO_OK);
    if (awaited != DAO_SWAP_STREAM_COMPUTE) {
        CU_ASSERT(program.count[awaited] > 0);
        return false;
    }
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        for (uint64_t i = 0; i < box.tensors[tensor].size_bytes; i++) {
            if (kernel->uses[u].access != DAO_ACCESS_WRITE &&
                program.device[tensor][i] != program.current[tensor]) {
                fail("a kernel does not find its bytes");
            }
        }
    }
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            take(kernel->uses[u].tensor, 0, box.tensors[kernel->uses[u].tensor].size_bytes);
        }
    }
    check_capacity(kernel->workspace_bytes);
    program.is_running = true;
    return true;
}

static void end_kernel(void)
{
    uint32_t k = program.kernel;
    const dao_swap_kernel_t *kernel = &box.kernels[k];
    for (uint32_t u = 0; u < kernel->use_count; u++) {
        uint32_t tensor = kernel->uses[u].tensor;
        if (kernel->uses[u].access != DAO_ACCESS_READ) {
            program.current[tensor] = (int)(program.step * box.problem.kernel_count + k + 1);
            for (uint64_t i = 0; i < box.tensors[tensor].size_bytes; i++) {
                program.device[tensor][i] = program.current[tensor];
            }
        }
    }
    program.is_running = false;
    program.kernel = (k + 1) % box.problem.kernel_count;
    program.step += program.kernel == 0;
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(program.follower, k), DAO_OK);
    drain(k);
}

/* What the schedule asks for before the first step. */
static void begin_program(bool counts)
{
    dao_swap_follower_t *follower = program.follower;
    const dao_swap_schedule_t *schedule = program.schedule;
    memset(&program, 0, sizeof(program));
    program.follower = follower;
    program.schedule = schedule;
    program.counts = counts;
    memset(program.device, 0xff, sizeof(program.device)); /* ABSENT */
    for (uint32_t i = 0; i < schedule->resident_count; i++) {
        const dao_swap_resident_t *one = &schedule->residents[i];
        take(one->tensor, one->offset_bytes, one->size_bytes);
        memset(&program.device[one->tensor][one->offset_bytes], 0, one->size_bytes * sizeof(int));
    }
    drain(UINT32_MAX);
}

/* Runs the steps, in a random order of ends. */
static void run_program(uint64_t *random)
{
    while (program.step < STEPS && program.failure == NULL) {
        uint32_t choices[DAO_SWAP_STREAM_COUNT], count = 0;
        if (program.is_running || begin_kernel()) {
            choices[count++] = DAO_SWAP_STREAM_COMPUTE;
        }
        for (uint32_t s = 1; s < DAO_SWAP_STREAM_COUNT; s++) {
            if (program.count[s] > 0) {
                choices[count++] = s;
            }
        }
        CU_ASSERT_FATAL(count > 0); /* else all wait for each other */
        uint32_t choice = choices[dao_random_next(random) % count];
        if (choice == DAO_SWAP_STREAM_COMPUTE) {
            end_kernel();
        } else {
            end_copy(choice);
        }
    }
    CU_ASSERT_PTR_NULL(program.failure);
}

static void take_random_step(uint64_t *random)
{
    const swap_step_range_t range = {
        .tensor_max = 14, .kernel_max = 24, .size_max = 60, .time_max = 100, .workspace_max = 60};
    dao_swap_bound_t bound;
    swap_step_random(&box, &range, random);
    box.problem.alignment_bytes = 1;
    box.problem.host = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S,
                                         .duplex = (dao_swap_duplex_t)(dao_random_next(random) % 2)};
    if (dao_random_next(random) % 2 == 0) {
        box.problem.host.limit_bytes = 1 + dao_random_next(random) % 300;
        box.problem.file = (dao_swap_tier_t){.in_bytes_per_second = NS_PER_S / 4,
                                             .duplex = (dao_swap_duplex_t)(dao_random_next(random) % 2)};
    }
    CU_ASSERT_EQUAL(dao_swap_find_bound(&box.problem, &bound), DAO_OK);
    uint64_t least = bound.least_capacity_bytes, peak = bound.peak_bytes;
    box.problem.capacity_bytes = least + dao_random_next(random) % 8 * (peak - least) / 7;
}

static void what_a_follower_says_holds_the_plan(void)
{
    uint64_t random = dao_test_seed("a follower holds the plan", 20261125);
    int drops = 0, dead = 0, ins = 0, outs = 0, ahead = 0;
    for (int round = 0; round < 200; round++) {
        take_random_step(&random);
        bool counts = dao_random_next(&random) % 4 != 0;
        const dao_swap_plan_config_t config = {
            .granularity = (dao_swap_granularity_t)(dao_random_next(&random) % 3),
            .addresses = counts ? DAO_SWAP_ADDRESSES_NONE : DAO_SWAP_ADDRESSES_STATIC,
            .part_bytes = 8 + dao_random_next(&random) % 20,
            .work_limit = LITTLE_WORK};
        dao_swap_plan_t *plan = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_swap_plan_make(&box.problem, &config, &plan), DAO_OK);
        program.schedule = dao_swap_plan_schedule(plan);
        CU_ASSERT_EQUAL_FATAL(dao_swap_follower_create(&box.problem, program.schedule, &program.follower),
                              DAO_OK);
        for (int again = 0; again < 2; again++) {
            begin_program(counts);
            run_program(&random);
            dao_swap_follower_restart(program.follower);
            drops += program.drops, dead += program.dead, ins += program.ins, outs += program.outs;
            ahead += program.ahead;
        }
        dao_swap_follower_destroy(program.follower);
        dao_swap_plan_destroy(plan);
    }
    CU_ASSERT(drops - dead > 1000 && dead > 1000 && ins > 1000 && outs > 1000 && ahead > 1000);
}

/* ---- a schedule by hand ---- */

enum { A, B };

static const dao_swap_tensor_t hand_tensors[] = {{.size_bytes = 64}, {.size_bytes = 32}};
static const dao_swap_use_t writes_a = {A, DAO_ACCESS_WRITE}, reads_a = {A, DAO_ACCESS_READ},
                            writes_b = {B, DAO_ACCESS_WRITE};
static const dao_swap_kernel_t hand_kernels[] = {{.uses = &writes_a, .use_count = 1},
                                                 {.uses = &reads_a, .use_count = 1},
                                                 {.uses = &writes_b, .use_count = 1},
                                                 {.uses = &reads_a, .use_count = 1}};

#define N DAO_SWAP_NO_WAIT
#define AFTER(kernels, in, out)                                                                              \
    {                                                                                                        \
        .done = {(kernels), (in), (out), N, N}, .done_beside = { N, N, N }                                   \
    }

static dao_swap_copy_t hand_out = {.tensor = A, .size_bytes = 64, .after = AFTER(1, N, N)};
static dao_swap_copy_t hand_in = {.tensor = A, .is_in = true, .size_bytes = 64, .after = AFTER(3, N, 1)};
static dao_swap_fence_t hand_after[] = {AFTER(N, N, N), AFTER(N, N, N), AFTER(N, N, 1), AFTER(N, 1, N)};
static const dao_swap_problem_t hand_problem = {.tensors = hand_tensors,
                                                .tensor_count = 2,
                                                .kernels = hand_kernels,
                                                .kernel_count = 4,
                                                .capacity_bytes = 64,
                                                .host = {.in_bytes_per_second = NS_PER_S}};
static const dao_swap_schedule_t hand_schedule = {.copies = {NULL, &hand_in, &hand_out, NULL, NULL},
                                                  .copy_count = {0, 1, 1, 0, 0},
                                                  .kernel_after = hand_after,
                                                  .host_bytes = 64};

static dao_swap_follower_t *hand_follower(void)
{
    dao_swap_follower_t *follower = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_swap_follower_create(&hand_problem, &hand_schedule, &follower), DAO_OK);
    return follower;
}

/* Says in letters what may be done: o out, i in, a or b given up, A or B dead. */
static const char *actions_of(dao_swap_follower_t *follower)
{
    static char text[16];
    size_t length = 0;
    dao_swap_action_t action;
    while (dao_swap_follower_next(follower, &action)) {
        const char *letters = action.is_dead ? "AB" : "ab";
        CU_ASSERT_FATAL(length + 1 < sizeof(text));
        if (action.copy != NULL) {
            letters = action.stream == DAO_SWAP_STREAM_HOST_IN ? "ii" : "oo";
        }
        text[length++] = letters[action.tensor];
    }
    text[length] = '\0';
    return text;
}

static dao_swap_stream_t awaited_by(const dao_swap_follower_t *follower, uint32_t kernel)
{
    dao_swap_stream_t awaited = DAO_SWAP_STREAM_COUNT;
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(follower, kernel, &awaited), DAO_OK);
    return awaited;
}

/* A may be copied behind its write, kernel 0, and goes only behind its last reader before, kernel 1. */
static void bytes_go_behind_their_last_reader(void)
{
    dao_swap_follower_t *follower = hand_follower();
    for (int step = 0; step < 3; step++) {
        bool is_late = step == 2; /* the copy out ends behind that reader */
        CU_ASSERT_STRING_EQUAL(actions_of(follower), "");
        CU_ASSERT_EQUAL(dao_swap_follower_due(follower), 0);
        CU_ASSERT_EQUAL(awaited_by(follower, 0), DAO_SWAP_STREAM_COMPUTE);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 0), DAO_OK);
        CU_ASSERT_STRING_EQUAL(actions_of(follower), "o");
        CU_ASSERT_EQUAL(dao_swap_follower_due(follower), 1);
        if (!is_late) {
            CU_ASSERT_EQUAL(dao_swap_follower_copy_end(follower, DAO_SWAP_STREAM_HOST_OUT), DAO_OK);
            CU_ASSERT_STRING_EQUAL(actions_of(follower), "");
        }
        CU_ASSERT_EQUAL(awaited_by(follower, 1), DAO_SWAP_STREAM_COMPUTE);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 1), DAO_OK);
        CU_ASSERT_STRING_EQUAL(actions_of(follower), is_late ? "" : "a");
        if (is_late) {
            CU_ASSERT_EQUAL(awaited_by(follower, 2), DAO_SWAP_STREAM_HOST_OUT);
            CU_ASSERT_EQUAL(dao_swap_follower_copy_end(follower, DAO_SWAP_STREAM_HOST_OUT), DAO_OK);
            CU_ASSERT_STRING_EQUAL(actions_of(follower), "a");
        }
        CU_ASSERT_EQUAL(awaited_by(follower, 2), DAO_SWAP_STREAM_COMPUTE);
        CU_ASSERT_EQUAL(dao_swap_follower_due(follower), 2);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 2), DAO_OK);
        CU_ASSERT_STRING_EQUAL(actions_of(follower), "Bi"); /* memory first */
        CU_ASSERT_EQUAL(awaited_by(follower, 3), DAO_SWAP_STREAM_HOST_IN);
        CU_ASSERT_EQUAL(dao_swap_follower_copy_end(follower, DAO_SWAP_STREAM_HOST_IN), DAO_OK);
        CU_ASSERT_EQUAL(awaited_by(follower, 3), DAO_SWAP_STREAM_COMPUTE);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 3), DAO_OK);
        CU_ASSERT_STRING_EQUAL(actions_of(follower), "A");
    }
    dao_swap_follower_destroy(follower);
}

/* Several kernels at once, kernels that did not wait, and a step given up in its middle. */
static void a_program_may_go_its_own_way(void)
{
    dao_swap_follower_t *follower = hand_follower();
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 3), DAO_OK);
    CU_ASSERT_STRING_EQUAL(actions_of(follower), "BAo");
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 3), DAO_OK);
    CU_ASSERT_STRING_EQUAL(actions_of(follower), "BAo");
    dao_swap_follower_restart(follower);
    CU_ASSERT_STRING_EQUAL(actions_of(follower), "");
    CU_ASSERT_EQUAL(awaited_by(follower, 0), DAO_SWAP_STREAM_COMPUTE);
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 0), DAO_OK);
    CU_ASSERT_STRING_EQUAL(actions_of(follower), "o");
    CU_ASSERT_EQUAL(dao_swap_follower_copy_end(follower, DAO_SWAP_STREAM_HOST_OUT), DAO_OK);
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 2), DAO_OK);
    CU_ASSERT_STRING_EQUAL(actions_of(follower), "aBi");
    dao_swap_follower_destroy(follower);
}

/* ---- wrong calls ---- */

static void wrong_calls_change_nothing(void)
{
    dao_swap_follower_t *follower = hand_follower();
    dao_swap_action_t action;
    dao_swap_stream_t awaited = DAO_SWAP_STREAM_COUNT;
    CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 0), DAO_OK);
    for (int round = 0; round < 2; round++) { /* once "o" may start, then while it is under way */
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(NULL, 1), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 0), DAO_ERR_INVALID); /* has ended */
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "it is the turn of 1"));
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_end(follower, 4), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(NULL, 1, &awaited), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(follower, 1, NULL), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(follower, 0, &awaited), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(dao_swap_follower_kernel_begin(follower, 2, &awaited), DAO_ERR_INVALID);
        CU_ASSERT_EQUAL(awaited, DAO_SWAP_STREAM_COUNT);
        CU_ASSERT_EQUAL(dao_swap_follower_copy_end(NULL, DAO_SWAP_STREAM_HOST_OUT), DAO_ERR_INVALID);
        static const int streams[] = {-1, DAO_SWAP_STREAM_COMPUTE, DAO_SWAP_STREAM_HOST_IN,
                                      DAO_SWAP_STREAM_FILE_OUT, DAO_SWAP_STREAM_COUNT};
        for (size_t i = 0; i < sizeof(streams) / sizeof(*streams); i++) {
            CU_ASSERT_EQUAL(dao_swap_follower_copy_end(follower, (dao_swap_stream_t)streams[i]),
                            DAO_ERR_INVALID);
        }
        CU_ASSERT_FALSE(dao_swap_follower_next(NULL, &action));
        CU_ASSERT_EQUAL(dao_last_status(), DAO_ERR_INVALID);
        CU_ASSERT_FALSE(dao_swap_follower_next(follower, NULL));
        CU_ASSERT_EQUAL(dao_swap_follower_due(NULL), 0);
        CU_ASSERT_STRING_EQUAL(actions_of(follower), round == 0 ? "o" : "");
    }
    dao_swap_follower_restart(NULL);
    dao_swap_follower_destroy(NULL);
    dao_swap_follower_destroy(follower);
}

static void a_schedule_of_another_problem_is_refused(void)
{
    static dao_swap_copy_t far = {.tensor = 2, .size_bytes = 1, .after = AFTER(1, N, N)},
                           too_long = {.tensor = A,
                                       .offset_bytes = 1,
                                       .size_bytes = 64,
                                       .after = AFTER(1, N, N)},
                           late = {.tensor = A, .size_bytes = 64, .after = AFTER(5, N, N)};
    static const struct {
        const dao_swap_copy_t *out;
        const char *says;
    } cases[] = {{&far, "moves tensor 2, but there are 2"},
                 {&too_long, "64 bytes from 1 on of tensor 0, which has 64"},
                 {&late, "waits for 5 operations of stream 0, which has 4 in a step"}};
    dao_swap_follower_t *none = NULL;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        dao_swap_schedule_t schedule = hand_schedule;
        schedule.copies[DAO_SWAP_STREAM_HOST_OUT] = cases[i].out;
        CU_ASSERT_EQUAL(dao_swap_follower_create(&hand_problem, &schedule, &none), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].says));
    }
    dao_swap_schedule_t without[] = {hand_schedule, hand_schedule, hand_schedule, {.arena_bytes = 0}};
    without[0].kernel_after = NULL;
    without[1].copies[DAO_SWAP_STREAM_HOST_OUT] = NULL;
    without[2].residents = NULL;
    without[2].resident_count = 1;
    for (size_t i = 0; i < sizeof(without) / sizeof(*without); i++) {
        CU_ASSERT_EQUAL(dao_swap_follower_create(&hand_problem, &without[i], &none), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), " is NULL"));
    }
    dao_swap_problem_t unused = hand_problem, bad = hand_problem;
    unused.kernel_count = 1;
    unused.kernels = &hand_kernels[2];
    CU_ASSERT_EQUAL(dao_swap_follower_create(&unused, &hand_schedule, &none), DAO_ERR_INVALID);
    bad.kernel_count = 0;
    CU_ASSERT_EQUAL(dao_swap_follower_create(&bad, &hand_schedule, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_swap_follower_create(NULL, &hand_schedule, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_swap_follower_create(&hand_problem, NULL, &none), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_swap_follower_create(&hand_problem, &hand_schedule, NULL), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NULL(none);
}

#if defined(DAO_FAULTS)
static void no_host_memory_is_answered(void)
{
    uint64_t failed, points = 0;
    do {
        dao_swap_follower_t *follower = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, points++, false);
        dao_status_t status = dao_swap_follower_create(&hand_problem, &hand_schedule, &follower);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status, failed != 0 ? DAO_ERR_NO_HOST_MEMORY : DAO_OK);
        CU_ASSERT_EQUAL(follower == NULL, status != DAO_OK);
        dao_swap_follower_destroy(follower);
    } while (failed != 0);
    CU_ASSERT(points > 8);
}
#endif

static CU_TestInfo tests[] = {
    {"what a follower says holds the plan", what_a_follower_says_holds_the_plan},
    {"bytes go behind their last reader", bytes_go_behind_their_last_reader},
    {"a program may go its own way", a_program_may_go_its_own_way},
    {"wrong calls change nothing", wrong_calls_change_nothing},
    {"a schedule of another problem is refused", a_schedule_of_another_problem_is_refused},
#if defined(DAO_FAULTS)
    {"no host memory is answered", no_host_memory_is_answered},
#endif
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"swap follow", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
