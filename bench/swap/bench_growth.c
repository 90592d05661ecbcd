/* SPDX-License-Identifier: Apache-2.0 */
/* What planning takes for a step of some kernels: for callgrind, which counts what it does between the
   problem and the times of one variant, without addresses. `bench_growth KERNELS`; bench/gate holds its
   growth to a limit. `bench_growth KERNELS first` says what a first plan takes with its addresses, in seconds
   of the processor.

       kernel     0  1  2  ...  n/2 - 1 | n/2  ...  n - 1        forward, then backward
       content    w                       r                      of one kernel in eight, w of another one; the
                     w                                        r  half of all has room */
#include "base/memory/measure.h"
#include "planning/swap/step/swap_step.h"
#include "planning/swap/times/swap_timing.h"
#include "planning/swap/victims/swap_choose.h"
#include "planning/swap/victims/swap_cycle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZE_BYTES ((uint64_t)1 << 20)
#define SIZE_PARTS 8u /* the largest tensor is so many times the smallest */
#define TIME_NS    30000u
#define SPEED      ((uint64_t)50000000000)
#define LATENCY_NS 10000u
#define SLOWER     8u
#define STEP_COUNT 4u
#define LEAD       32u
#define CHOICES    64u

/* The step of a problem whose arrays are the caller's. */
typedef struct step_arrays {
    dao_swap_tensor_t *tensors;
    dao_swap_kernel_t *kernels;
    dao_swap_use_t *uses;
} step_arrays_t;

static void must(dao_status_t status)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "bench_growth: %s\n", dao_last_message());
        exit(1);
    }
}

static void *must_calloc(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    must(memory != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
    return memory;
}

/* A tensor a kernel of the first half, which one of the second half reads, the last written first. */
static dao_swap_problem_t make_problem(uint32_t kernel_count, step_arrays_t *arrays)
{
    uint32_t half = kernel_count / 2;
    uint64_t bytes = 0;
    arrays->tensors = must_calloc(half, sizeof(*arrays->tensors));
    arrays->kernels = must_calloc(kernel_count, sizeof(*arrays->kernels));
    arrays->uses = must_calloc(kernel_count, sizeof(*arrays->uses));
    for (uint32_t k = 0; k < 2 * half; k++) {
        uint32_t tensor = k < half ? k : 2 * half - 1 - k;
        arrays->uses[k] =
            (dao_swap_use_t){.tensor = tensor, .access = k < half ? DAO_ACCESS_WRITE : DAO_ACCESS_READ};
        arrays->kernels[k] =
            (dao_swap_kernel_t){.time_ns = TIME_NS * (1 + k % 3), .uses = &arrays->uses[k], .use_count = 1};
        if (k < half) {
            arrays->tensors[k].size_bytes = SIZE_BYTES * (1 + k * 5 % SIZE_PARTS);
            bytes += arrays->tensors[k].size_bytes;
        }
    }
    return (dao_swap_problem_t){.tensors = arrays->tensors,
                                .tensor_count = half,
                                .kernels = arrays->kernels,
                                .kernel_count = 2 * half,
                                .capacity_bytes = bytes / 2,
                                .host = {.in_bytes_per_second = SPEED, .latency_ns = LATENCY_NS}};
}

/* Chooses victims, makes them hold for a step that repeats, and times them. Callgrind counts this. */
__attribute__((noinline)) static uint64_t plan(const dao_swap_step_t *step)
{
    const dao_swap_variant_t variant = {.choice_count = CHOICES, .lead_kernels = LEAD};
    uint64_t capacity = step->problem->capacity_bytes, step_ns = 0;
    dao_swap_parts_t parts;
    dao_swap_timing_t timing;
    must(dao_swap_parts_init(&parts, step, 0));
    must(dao_swap_timing_init(&timing, &parts));
    dao_swap_decision_t *decisions = must_calloc(parts.inactive_count, sizeof(*decisions));
    must(dao_swap_choose(&parts, capacity, &variant, STEP_COUNT, decisions, &step_ns));
    must(dao_swap_cycle(&parts, capacity, true, decisions));
    must(dao_swap_time(&parts, capacity, decisions, &timing));
    step_ns = timing.step_ns;
    free(decisions);
    dao_swap_timing_finish(&timing);
    dao_swap_parts_finish(&parts);
    return step_ns;
}

/* Makes a plan with addresses, but no better one, over a link that decides what the step takes. */
static void plan_first(const dao_swap_problem_t *problem)
{
    const dao_swap_plan_config_t config = {.work_limit = 1};
    dao_swap_plan_t *plan = NULL;
    dao_swap_bound_t bound;
    dao_swap_problem_t slow = *problem;
    slow.host.in_bytes_per_second /= SLOWER;
    must(dao_swap_find_bound(&slow, &bound));
    uint64_t begin_ns = dao_measure_thread_ns();
    must(dao_swap_plan_make(&slow, &config, &plan));
    printf("%.2f s, %.3f of the bound\n", (double)(dao_measure_thread_ns() - begin_ns) / 1e9,
           (double)dao_swap_plan_schedule(plan)->step_ns / (double)bound.step_ns);
    dao_swap_plan_destroy(plan);
}

static void plan_variant(const dao_swap_problem_t *problem)
{
    dao_swap_step_t step;
    must(dao_swap_step_init(&step, problem));
    printf("%llu ns\n", (unsigned long long)plan(&step));
    dao_swap_step_finish(&step);
}

int main(int argc, char **argv)
{
    uint32_t kernel_count = argc >= 2 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
    bool is_first = argc == 3 && strcmp(argv[2], "first") == 0;
    if (kernel_count < 2 || (argc != 2 && !is_first)) {
        (void)fprintf(stderr, "usage: bench_growth KERNELS [first]\n");
        return 2;
    }
    step_arrays_t arrays;
    dao_swap_problem_t problem = make_problem(kernel_count, &arrays);
    (is_first ? plan_first : plan_variant)(&problem);
    free(arrays.tensors);
    free(arrays.kernels);
    free(arrays.uses);
    return 0;
}
