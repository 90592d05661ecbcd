/* SPDX-License-Identifier: Apache-2.0 */
/* The sweep of faults. Each program runs once without a fault, which counts how often it passes each point;
   then once for each call of each point, which fails alone, and once more with all behind it. Programs of few
   passes run with pairs, too, or all programs where that is asked for: the second fault is armed with the
   call behind the one that met the first. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include "tests/harness/engines/engine.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#define CALLS_MAX         12u /* of a program: short ones pass the same points */
#define MEMORY_PASSES_MAX 8u  /* of requests for host memory, which are most of all */
#define PASSES_MAX        24u /* of one point in one program: behind it come repetitions */
#define PAIR_PASSES_MAX   24u /* of all points together, for pairs */
#define STARTS_EVERY      16u /* programs: these meet faults in the library's start, too */
#define PAIR_SKIPS        3u

/* Answers of these mean that the device is lost, which the model does not follow. */
static bool is_swept(uint32_t point)
{
    return point < DAO_FAULT_COUNT || (point != DAO_FAULT_COUNT + FAULT_CALL_EVENT_QUERY &&
                                       point != DAO_FAULT_COUNT + FAULT_CALL_EVENT_SYNCHRONIZE &&
                                       point != DAO_FAULT_COUNT + FAULT_CALL_STREAM_SYNCHRONIZE);
}

/* Points that these programs never pass: the device has no batches and waits for no words, and shares nothing
   with itself. */
static bool is_reachable(uint32_t point)
{
    return is_swept(point) && point != DAO_FAULT_COUNT + FAULT_CALL_COPY_BATCH &&
           point != DAO_FAULT_COUNT + FAULT_CALL_STREAM_WAIT_WORD &&
           point != DAO_FAULT_COUNT + FAULT_CALL_SHARED_IMPORT &&
           point != DAO_FAULT_COUNT + FAULT_CALL_COPY_PEER;
}

/* What random programs seldom do, so that each point is passed: the sweep begins with these. */
typedef struct script {
    uint8_t config[HARNESS_CONFIG_BYTES];
    struct {
        harness_call_t call;
        uint8_t slot, other, kind, small;
        uint16_t number;
    } ops[CALLS_MAX];
} script_t;

static const script_t scripts[] = {
    {{0}, /* tensors that fit neither the device nor the host */
     {{HARNESS_EXECUTOR_CREATE, 0, 0, 32, 3, 0},
      {HARNESS_MANAGED_CREATE, 0, 0, 0, 0, 60000},
      {HARNESS_MANAGED_CREATE, 1, 0, 0, 0, 60000},
      {HARNESS_MANAGED_CREATE, 2, 0, 0, 0, 60000},
      {HARNESS_MANAGED_WRITE, 0, 0, 0, 7, 0},
      {HARNESS_MANAGED_WRITE, 1, 0, 0, 8, 0},
      {HARNESS_MANAGED_WRITE, 2, 0, 0, 9, 0},
      {HARNESS_MANAGED_READ, 0, 0, 0, 0, 0},
      {HARNESS_EXECUTOR_PUSH, 1, 2, 1, 4, 1},
      {HARNESS_EXECUTOR_SYNC, 0, 0, 0, 0, 0},
      {HARNESS_MANAGED_READ, 2, 0, 0, 0, 0},
      {HARNESS_EXECUTOR_DESTROY, 0, 0, 0, 0, 0}}},
    {{0}, /* tensors of memory and of files beside others, in a step that is planned before it runs */
     {{HARNESS_EXECUTOR_CREATE, 0, 0, 0, 3, 0},
      {HARNESS_MANAGED_CREATE_FROM, 0, 9, 0, 5, 60000},
      {HARNESS_MANAGED_CREATE_FROM, 3, 0, 1, 6, 60000},
      {HARNESS_MANAGED_CREATE_FROM, 4, 0, 3, 7, 60000},
      {HARNESS_COMMAND_LIST_PLAN, 0, 0, 5, 2, 1},
      {HARNESS_MANAGED_READ, 4, 0, 0, 0, 0},
      {HARNESS_COMMAND_LIST_PLAN, 0, 0, 5, 1, 0},
      {HARNESS_EXECUTOR_SYNC, 0, 0, 0, 0, 0},
      {HARNESS_EXECUTOR_DESTROY, 0, 0, 0, 0, 0}}},
    {{0}, /* shared memory goes out; a stream waits for another one; host memory's device address */
     {{HARNESS_SHARE, 0, 0, 0, 0, 100},
      {HARNESS_SHARE, 0, 0, 0, 0, 0},
      {HARNESS_EVENT_CREATE, 0, 0, 0, 0, 0},
      {HARNESS_ALLOC_ASYNC, 1, 1, 0, 9, 100},
      {HARNESS_EVENT_RECORD, 0, 1, 0, 0, 0},
      {HARNESS_STREAM_WAIT_EVENT, 0, 2, 0, 0, 0},
      {HARNESS_HOST_REGISTER, 0, 0, 0, 0, 0},
      {HARNESS_HOST_REGISTER, 0, 0, 1, 0, 0},
      {HARNESS_PEER, 0, 0, 0, 0, 0}}},
    {{[10] = 1}, /* pages move: a device of eight, every other one free, a request for two in a row */
     {{HARNESS_ALLOC, 0, 0, 0, 3, 4},
      {HARNESS_ALLOC, 1, 0, 0, 3, 4},
      {HARNESS_ALLOC, 2, 0, 0, 3, 4},
      {HARNESS_ALLOC, 3, 0, 0, 3, 4},
      {HARNESS_ALLOC, 4, 0, 0, 3, 4},
      {HARNESS_ALLOC, 5, 0, 0, 3, 4},
      {HARNESS_ALLOC, 6, 0, 0, 3, 4},
      {HARNESS_FREE, 1, 0, 0, 0, 0},
      {HARNESS_FREE, 3, 0, 0, 0, 0},
      {HARNESS_FREE, 5, 0, 0, 0, 0},
      {HARNESS_ALLOC, 1, 0, 0, 3, 5}}},
};
#define SCRIPT_COUNT (sizeof(scripts) / sizeof(scripts[0]))

/* Where the sweep is; in memory that parent and child share. */
typedef struct sweep {
    uint64_t program_count; /* that are done */
    uint64_t seed, run_count, run_count_max, pair_count;
    uint64_t paired_count; /* programs that run with all pairs, which end the sweep; 0: those of few passes */
    uint64_t hits[ENGINE_POINT_COUNT];
    bool is_counted; /* this seed's passes are known */
    engine_result_t base;
    uint32_t point;
    uint64_t skip;
    uint32_t form; /* 0: once, 1: persistent, then pairs */
} sweep_t;

static uint64_t passes_of(const sweep_t *sweep, uint32_t point)
{
    uint64_t count = is_swept(point) ? sweep->base.passed[point] : 0;
    uint64_t most = point == DAO_FAULT_HOST_MEMORY && sweep->program_count >= SCRIPT_COUNT ? MEMORY_PASSES_MAX
                                                                                           : PASSES_MAX;
    return count < most ? count : most;
}

static uint64_t all_passes(const sweep_t *sweep)
{
    uint64_t count = 0;
    for (uint32_t i = 0; i < ENGINE_POINT_COUNT; i++) {
        count += passes_of(sweep, i);
    }
    return count;
}

/* Forms of one fault: alone, persistent, and as the first one of pairs. */
static uint32_t form_count(const sweep_t *sweep)
{
    uint32_t seconds = sweep->paired_count != 0               ? ENGINE_POINT_COUNT
                       : all_passes(sweep) <= PAIR_PASSES_MAX ? DAO_FAULT_COUNT
                                                              : 0; /* points of a second fault */
    return 2 + seconds * PAIR_SKIPS;
}

/* The next form of the fault, or form_count(). */
static uint32_t next_form(const sweep_t *sweep)
{
    uint32_t form = sweep->form + 1, count = form_count(sweep);
    while (form >= 2 && form < count && !is_swept((form - 2) / PAIR_SKIPS)) {
        form++;
    }
    return form;
}

static void take_script(const script_t *script, engine_input_t *input)
{
    memcpy(input->bytes, script->config, HARNESS_CONFIG_BYTES);
    for (uint32_t i = 0; i < CALLS_MAX; i++) {
        uint8_t *op = input->bytes + HARNESS_CONFIG_BYTES + i * HARNESS_OP_BYTES;
        op[0] = (uint8_t)harness_call_byte(script->ops[i].call);
        op[2] = script->ops[i].slot;
        op[3] = script->ops[i].other;
        op[4] = script->ops[i].kind;
        op[5] = script->ops[i].small;
        op[6] = (uint8_t)(script->ops[i].number >> 8);
        op[7] = (uint8_t)script->ops[i].number;
    }
    input->length = HARNESS_CONFIG_BYTES + CALLS_MAX * HARNESS_OP_BYTES;
    input->spares_start = true;
}

static void take_program(const sweep_t *sweep, engine_input_t *input)
{
    memset(input, 0, sizeof(*input));
    if (sweep->program_count < SCRIPT_COUNT) {
        take_script(&scripts[sweep->program_count], input);
        return;
    }
    input->length = harness_random_bytes(sweep->seed, input->bytes);
    input->spares_start = sweep->seed % STARTS_EVERY != 0;
    size_t most = HARNESS_CONFIG_BYTES + CALLS_MAX * HARNESS_OP_BYTES;
    input->length = input->length < most ? input->length : most;
}

/* The next point from `point` on that is passed, or the next program. */
static void settle(sweep_t *sweep)
{
    while (sweep->point < ENGINE_POINT_COUNT && sweep->skip >= passes_of(sweep, sweep->point)) {
        sweep->point++;
        sweep->skip = 0;
    }
    if (sweep->point == ENGINE_POINT_COUNT) {
        sweep->seed += sweep->program_count >= SCRIPT_COUNT;
        sweep->program_count++;
        sweep->is_counted = false;
    }
}

static bool next_input(uint64_t index, engine_input_t *input, void *user)
{
    (void)index;
    sweep_t *sweep = user;
    if (sweep->run_count >= sweep->run_count_max ||
        (sweep->paired_count != 0 && sweep->program_count >= SCRIPT_COUNT + sweep->paired_count)) {
        return false;
    }
    take_program(sweep, input);
    if (!sweep->is_counted) { /* a fault that never fires: everything is wrapped, and counted */
        input->faults[0] = (engine_fault_t){.is_set = true, .point = 0, .skip = INT64_MAX};
        return true;
    }
    input->faults[0] = (engine_fault_t){
        .is_set = true, .point = sweep->point, .skip = sweep->skip, .is_persistent = sweep->form == 1};
    if (sweep->form >= 2) {
        uint32_t pair = sweep->form - 2;
        input->faults[1] =
            (engine_fault_t){.is_set = true, .point = pair / PAIR_SKIPS, .skip = pair % PAIR_SKIPS};
    }
    return true;
}

static void note_done(const engine_input_t *input, const engine_result_t *result, void *user)
{
    (void)input;
    sweep_t *sweep = user;
    if (!sweep->is_counted) {
        sweep->is_counted = true;
        sweep->base = *result;
        sweep->point = 0;
        sweep->skip = 0;
        sweep->form = 0;
        settle(sweep);
        return;
    }
    sweep->run_count++;
    sweep->hits[sweep->point] += result->has_fired[0];
    sweep->pair_count += result->has_fired[1];
    sweep->form = next_form(sweep);
    if (sweep->form == form_count(sweep)) {
        sweep->form = 0;
        sweep->skip++;
        settle(sweep);
    }
}

static bool print_points(const sweep_t *sweep)
{
    bool are_hit = true;
    for (uint32_t i = 0; i < ENGINE_POINT_COUNT; i++) {
        bool is_missed = is_reachable(i) && sweep->hits[i] == 0;
        are_hit = are_hit && !is_missed;
        (void)printf("  point %2u %-20s %8llu times%s\n", i, engine_point_text(i),
                     (unsigned long long)sweep->hits[i],
                     is_missed         ? "  NEVER HIT"
                     : is_reachable(i) ? ""
                                       : "  (not for these programs)");
    }
    return are_hit;
}

bool engine_sweep(uint64_t first_seed, uint64_t run_count, uint64_t paired_count)
{
    sweep_t *sweep = mmap(NULL, sizeof(*sweep), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (sweep == MAP_FAILED) {
        perror("mmap");
        return false;
    }
    *sweep = (sweep_t){.program_count = paired_count != 0 ? SCRIPT_COUNT : 0,
                       .seed = first_seed,
                       .run_count_max = run_count,
                       .paired_count = paired_count};
    static engine_input_t failed;
    if (!engine_run_all(next_input, note_done, sweep, &failed)) {
        (void)printf("seed %llu fails\n", (unsigned long long)sweep->seed);
        engine_report(&failed, "harness_found.bin");
        return false;
    }
    uint64_t seed_count = sweep->seed - first_seed + 1;
    (void)printf("%llu runs with a fault, of programs of %llu seeds, %llu with a pair of them\n",
                 (unsigned long long)sweep->run_count, (unsigned long long)seed_count,
                 (unsigned long long)sweep->pair_count);
    bool are_hit = print_points(sweep) || paired_count != 0;
    (void)munmap(sweep, sizeof(*sweep));
    return are_hit;
}
