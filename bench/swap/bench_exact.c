/* SPDX-License-Identifier: Apache-2.0 */
/* Who is to blame where a plan takes longer than its bound: `bench_exact [STEPS [SEED]]` makes small steps
   like those that are hard, forward, backward and an update of states, and tries every choice of what leaves
   in which inactive period. Tensors move whole and bytes alone count, for the plan and for the search.

       bound   <=   best of all choices   <=   plan
             gap of the bound            gap of the plan

   Copies have the times that plans give them, as early as there is room, in the order of their kernels; what
   leaves comes back as late as it may, which a plan need not choose, so that it may be the best one itself.
   So the search proves that no other choice is better with these times, not that no other times are. */
#include "base/numbers/random.h"
#include "planning/swap/swap_grain.h"
#include "planning/swap/victims/swap_cycle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define LAYER_COUNT  3u
#define KERNEL_COUNT (3 * LAYER_COUNT)
#define TENSOR_COUNT (2 * LAYER_COUNT) /* activations, states */
#define USE_MAX      3u
#define CHOICE_MAX   16u
#define SPEED        UINT64_C(1000000000)
#define STEPS        200u
#define ABOVE        1.05

typedef struct small_step {
    dao_swap_problem_t problem;
    dao_swap_tensor_t tensors[TENSOR_COUNT];
    dao_swap_kernel_t kernels[KERNEL_COUNT];
    dao_swap_use_t uses[KERNEL_COUNT][USE_MAX];
} small_step_t;

/* Cells that are taken together. */
typedef struct sum {
    unsigned count;
    double log_plan, log_best, worst_plan, worst_best;
} sum_t;

static void must(dao_status_t status)
{
    if (status != DAO_OK) {
        (void)fprintf(stderr, "bench_exact: %s\n", dao_last_message());
        exit(1);
    }
}

static void use(small_step_t *step, uint32_t kernel, uint32_t tensor, dao_access_t access)
{
    step->uses[kernel][step->kernels[kernel].use_count++] = (dao_swap_use_t){tensor, access};
}

/* Layers forwards, which read a state and write an activation, backwards, and updates of the states. */
static void make_step(small_step_t *step, bool is_half, uint64_t *random)
{
    *step = (small_step_t){
        .problem = {.tensors = step->tensors,
                    .tensor_count = TENSOR_COUNT,
                    .kernels = step->kernels,
                    .kernel_count = KERNEL_COUNT,
                    .capacity_bytes = DAO_SWAP_SIZE_MAX,
                    .alignment_bytes = 1,
                    .host = {.in_bytes_per_second = SPEED,
                             .latency_ns = 10,
                             .duplex = is_half ? DAO_SWAP_DUPLEX_HALF : DAO_SWAP_DUPLEX_FULL}}};
    for (uint32_t i = 0; i < TENSOR_COUNT; i++) {
        step->tensors[i] = (dao_swap_tensor_t){.size_bytes = 1000 + dao_random_below(random, 4000),
                                               .is_persistent = i >= LAYER_COUNT};
    }
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        step->kernels[k] =
            (dao_swap_kernel_t){.time_ns = 500 + dao_random_below(random, 3000), .uses = step->uses[k]};
    }
    for (uint32_t i = 0; i < LAYER_COUNT; i++) {
        uint32_t backward = 2 * LAYER_COUNT - 1 - i;
        use(step, i, i, DAO_ACCESS_WRITE);
        use(step, i, LAYER_COUNT + i, DAO_ACCESS_READ);
        use(step, backward, i, DAO_ACCESS_READ);
        use(step, backward, LAYER_COUNT + i, DAO_ACCESS_READ);
        use(step, 2 * LAYER_COUNT + i, LAYER_COUNT + i, DAO_ACCESS_READ_WRITE);
        if (i > 0) {
            use(step, i, i - 1, DAO_ACCESS_READ);
        }
    }
}

/* The shortest step of all choices that fit. */
static uint64_t find_best(const small_step_t *small)
{
    dao_swap_step_t step;
    dao_swap_grain_t grain;
    uint32_t choices[CHOICE_MAX], count = 0;
    uint64_t kernel_bytes[KERNEL_COUNT], best_ns = UINT64_MAX, capacity_bytes = small->problem.capacity_bytes;
    must(dao_swap_step_init(&step, &small->problem));
    must(dao_swap_grain_init(&grain, &step, 0));
    for (uint32_t i = 0; i < step.access_count; i++) {
        if (step.accesses[i].inactive_is_live && step.accesses[i].inactive_length > 1 && count < CHOICE_MAX) {
            choices[count++] = i;
        }
    }
    for (uint32_t set = 0; set < UINT32_C(1) << count; set++) {
        for (uint32_t i = 0; i < count; i++) {
            grain.decisions[choices[i]] = (dao_swap_decision_t){.is_away = (set >> i & 1) != 0};
        }
        if (dao_swap_cycle_is_valid(&grain.parts, capacity_bytes, grain.decisions, kernel_bytes)) {
            must(dao_swap_grain_time(&grain, capacity_bytes));
            best_ns = grain.timing.step_ns < best_ns ? grain.timing.step_ns : best_ns;
        }
    }
    dao_swap_grain_finish(&grain);
    dao_swap_step_finish(&step);
    return best_ns;
}

static void take_cell(small_step_t *small, sum_t *all, sum_t *above)
{
    const dao_swap_plan_config_t config = {.granularity = DAO_SWAP_GRANULARITY_WHOLE,
                                           .addresses = DAO_SWAP_ADDRESSES_NONE};
    dao_swap_bound_t bound;
    dao_swap_plan_t *plan = NULL;
    must(dao_swap_find_bound(&small->problem, &bound));
    must(dao_swap_plan_make(&small->problem, &config, &plan));
    double of_plan = (double)dao_swap_plan_schedule(plan)->fluid_step_ns / (double)bound.step_ns;
    double of_best = fmin((double)find_best(small) / (double)bound.step_ns, of_plan);
    dao_swap_plan_destroy(plan);
    sum_t *sums[] = {all, above};
    for (uint32_t i = 0; i < (of_plan > ABOVE ? 2u : 1u); i++) {
        sums[i]->count++;
        sums[i]->log_plan += log(of_plan);
        sums[i]->log_best += log(of_best);
        sums[i]->worst_plan = fmax(sums[i]->worst_plan, of_plan / of_best);
        sums[i]->worst_best = fmax(sums[i]->worst_best, of_best);
    }
}

static void print_sum(const char *name, unsigned percent, const sum_t *sum)
{
    double count = sum->count > 0 ? sum->count : 1;
    printf("%-10s %3u%% %6u %10.4f %10.4f %12.4f %11.4f\n", name, percent, sum->count,
           exp(sum->log_plan / count), exp(sum->log_best / count), sum->worst_plan, sum->worst_best);
}

int main(int argc, char **argv)
{
    static const unsigned percents[] = {20, 50, 80}; /* of the way from the least capacity to the peak */
    uint32_t step_count = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : STEPS;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    printf("%-10s %4s %6s %10s %10s %12s %11s\n", "link", "memory", "cells", "plan/bound", "best/bound",
           "plan/best max", "best/bound max");
    for (int is_half = 0; is_half < 2; is_half++) {
        for (uint32_t p = 0; p < sizeof(percents) / sizeof(percents[0]); p++) {
            uint64_t random = seed;
            sum_t all = {0}, above = {0};
            for (uint32_t i = 0; i < step_count; i++) {
                small_step_t small;
                dao_swap_bound_t bound;
                make_step(&small, is_half != 0, &random);
                must(dao_swap_find_bound(&small.problem, &bound));
                small.problem.capacity_bytes =
                    bound.least_capacity_bytes +
                    (bound.peak_bytes - bound.least_capacity_bytes) * percents[p] / 100;
                take_cell(&small, &all, &above);
            }
            print_sum(is_half != 0 ? "half" : "full", percents[p], &all);
            print_sum("  over 1.05", percents[p], &above);
        }
    }
    return 0;
}
