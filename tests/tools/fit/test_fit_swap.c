/* SPDX-License-Identifier: Apache-2.0 */
/* How slow a step is in less memory: never slower with more of it, never faster than the bound, the same as
   the scheme `plan` of dao simulate at the capacity that it names, of which a sketch with less work is close;
   and the smallest memory for a slow-down. */
#include "base/report/error.h"
#include "tests/support/sanitizer.h"
#include "tests/support/suite.h"
#include "tools/fit/fit_swap.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/scheme.h"

#include <inttypes.h>
#include <stdio.h>

static dao_step_trace_t trace;
static dao_step_problem_t step;
static dao_fit_swap_t fit;

static int read_trace(void)
{
    if (dao_read_step(DAO_TEST_SOURCE_DIR "/examples/traces/resnet101.tr", NULL, &trace) != DAO_OK ||
        dao_step_problem_make(&trace, &step) != DAO_OK) {
        return 1;
    }
    step.problem.host.in_bytes_per_second = UINT64_C(50000000000);
    step.problem.host.latency_ns = 10000;
    dao_status_t status = dao_fit_swap_init(&fit, &trace, &step.problem);
    fit.is_sketch = true;
    return status != DAO_OK;
}

static int finish_trace(void)
{
    dao_step_problem_finish(&step);
    dao_step_trace_finish(&trace);
    return 0;
}

/* How good plans are, of a large step; under a sanitizer steps at random are looked at in the same ways. */
#if !defined(TEST_HAS_SANITIZER)

static void more_memory_is_never_slower(void)
{
    enum { LOOKS = 5 };
    uint64_t last_ns = UINT64_MAX;
    for (uint64_t i = 0; i <= LOOKS; i++) {
        uint64_t capacity_bytes = fit.least_bytes + (fit.peak_bytes - fit.least_bytes) / LOOKS * i;
        dao_fit_point_t point = {0};
        dao_status_t status = dao_fit_swap_at(&fit, capacity_bytes, &point);
        CU_ASSERT_TRUE(status == DAO_OK || (status == DAO_ERR_LIMIT && last_ns == UINT64_MAX));
        if (status == DAO_OK) {
            CU_ASSERT_TRUE(point.capacity_bytes <= capacity_bytes);
            CU_ASSERT_TRUE(point.step_ns <= last_ns);
            CU_ASSERT_TRUE(point.step_ns >= fit.compute_ns);
            last_ns = point.step_ns;
        }
    }
    CU_ASSERT_EQUAL(last_ns, fit.compute_ns); /* with all of the peak nothing moves */
}

/* Runs a scheme of dao simulate with the capacity of a point. */
static dao_scheme_run_t simulate(const char *name, uint64_t capacity_bytes, uint64_t plan_work)
{
    const dao_scheme_t *scheme = NULL;
    dao_swap_problem_t problem = step.problem;
    dao_scheme_run_t run;
    problem.capacity_bytes = capacity_bytes;
    dao_scheme_input_t input = {.problem = &problem,
                                .trace = &trace,
                                .threshold = DAO_TRACE_NONE,
                                .step_count = 6,
                                .plan_work = plan_work};
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find(name, &scheme), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(scheme->run(scheme, &input, &run), DAO_OK);
    dao_simulation_t lists = run.simulation;
    dao_simulation_finish(&lists);
    run.simulation.kernels = NULL; /* its numbers stay */
    run.simulation.copies = NULL;
    return run;
}

/* Returns by which part of a step fit says more than dao simulate. */
static double longer_by(uint64_t fit_ns, uint64_t simulated_ns)
{
    return (double)fit_ns / (double)simulated_ns - 1;
}

static void a_point_is_what_simulate_says(void)
{
    dao_fit_swap_t full;
    dao_fit_point_t point, sketch, again;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_init(&full, &trace, &step.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_at(&full, fit.peak_bytes / 2, &point), DAO_OK);
    dao_scheme_run_t run = simulate("plan", point.capacity_bytes, 0);
    CU_ASSERT_EQUAL(run.simulation.step_ns, point.step_ns);
    CU_ASSERT_EQUAL(run.simulation.in_bytes, point.in_bytes);
    CU_ASSERT_TRUE(point.bound_ns <= point.step_ns);
    CU_ASSERT_TRUE(point.step_ns <= simulate("plan", fit.peak_bytes / 2, 0).simulation.step_ns);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_at(&fit, fit.peak_bytes / 2, &sketch), DAO_OK);
    run = simulate("plan", sketch.capacity_bytes, DAO_FIT_PLAN_WORK);
    CU_ASSERT_EQUAL(run.simulation.step_ns, sketch.step_ns);
    CU_ASSERT_TRUE(longer_by(sketch.step_ns, point.step_ns) < 0.03);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_again_at(&fit, fit.peak_bytes / 2, &again), DAO_OK);
    run = simulate("hybrid", again.capacity_bytes, 0);
    CU_ASSERT_TRUE(again.step_ns < point.step_ns);
    CU_ASSERT_TRUE(longer_by(again.step_ns, run.simulation.step_ns) < 0.03);
}

static void the_smallest_memory_for_a_slow_down_is_found(void)
{
    dao_fit_point_t wish, below;
    uint64_t most_ns = fit.compute_ns + fit.compute_ns / 2;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_for(&fit, most_ns, &wish), DAO_OK);
    CU_ASSERT_TRUE(wish.step_ns <= most_ns);
    uint64_t apart = (fit.peak_bytes - fit.least_bytes) / DAO_FIT_GRID;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_at(&fit, wish.capacity_bytes - apart, &below), DAO_OK);
    CU_ASSERT_TRUE(below.step_ns > most_ns);
    CU_ASSERT_EQUAL(dao_fit_swap_for(&fit, fit.compute_ns - 1, &wish), DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL(dao_fit_swap_at(&fit, fit.least_bytes - 1, &wish), DAO_ERR_LIMIT);
}

#endif

static bool count_down(void *user)
{
    uint64_t *left = user;
    *left -= *left > 0;
    return *left == 0;
}

/* Under a sanitizer no search is followed to its end: what stops leave behind is what counts. */
#if defined(TEST_HAS_SANITIZER)
enum { CALLS_MAX = 16 * 16 };
#else
static const uint64_t CALLS_MAX = UINT64_MAX;
#endif

/* Stops a search after ever more calls until it ends by itself, as `whole` did, unless that is NULL. Where
   swapping alone was planned before, every stop leaves a plan. */
static void stop_searches(const dao_fit_point_t *whole, bool has_plan)
{
    dao_status_t status = DAO_ERR_STOPPED;
    for (uint64_t calls = 1; status == DAO_ERR_STOPPED && calls <= CALLS_MAX; calls *= 16) {
        dao_fit_swap_t stopped;
        dao_fit_point_t point;
        uint64_t left = calls;
        CU_ASSERT_EQUAL_FATAL(dao_fit_swap_init(&stopped, &trace, &step.problem), DAO_OK);
        stopped.is_sketch = true;
        CU_ASSERT_TRUE(!has_plan || dao_fit_swap_at(&stopped, stopped.peak_bytes / 2, &point) == DAO_OK);
        stopped.is_cancelled = count_down;
        stopped.cancel_user = &left;
        status = dao_fit_swap_again_at(&stopped, stopped.peak_bytes / 2, &point);
        CU_ASSERT_TRUE_FATAL(status == DAO_ERR_STOPPED || status == DAO_OK);
        CU_ASSERT_TRUE(calls > 1 || status == DAO_ERR_STOPPED);
        CU_ASSERT_TRUE(calls > 1 || (point.step_ns != UINT64_MAX) == has_plan);
        CU_ASSERT_TRUE(point.step_ns != UINT64_MAX || !has_plan);
        CU_ASSERT_TRUE(point.step_ns >= point.bound_ns);
        if (whole != NULL) {
            CU_ASSERT_TRUE(point.step_ns >= whole->step_ns && point.bound_ns == whole->bound_ns);
            CU_ASSERT_TRUE(status == DAO_ERR_STOPPED || point.step_ns == whole->step_ns);
        }
    }
}

static void a_stopped_search_gives_the_best_so_far(void)
{
#if defined(TEST_HAS_SANITIZER)
    const dao_fit_point_t *whole = NULL;
#else
    dao_fit_point_t found;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_again_at(&fit, fit.peak_bytes / 2, &found), DAO_OK);
    const dao_fit_point_t *whole = &found;
#endif
    stop_searches(whole, false);
    stop_searches(whole, true);
}

/* ---- steps that nobody has looked at ---- */

enum { LAYER_COUNT = 4, TEXT_BYTES = 8192, AGAIN_LOOKS = 3, GROWING_LOOKS = TEST_ROUNDS(6) };

/* Writes a step of layers with random sizes and times, whose activations come back in the backward pass. */
static void write_step(uint64_t *random)
{
    char text[TEXT_BYTES];
    size_t length = (size_t)snprintf(text, sizeof(text), "dao-step 1\ntensor w %" PRIu64 " tag=parameter\n",
                                     512 * (1 + dao_random_below(random, 4000)));
    for (int i = 0; i < LAYER_COUNT; i++) {
        length += (size_t)snprintf(
            text + length, sizeof(text) - length, "tensor a%d %" PRIu64 "\ntensor g%d %" PRIu64 "\n", i,
            512 * (1 + dao_random_below(random, 8000)), i, 512 * (1 + dao_random_below(random, 8000)));
    }
    for (int i = 0; i < LAYER_COUNT; i++) {
        char input[16];
        (void)snprintf(input, sizeof(input), "<a%d", i - 1);
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "op f%d %" PRIu64 " pure <w %s >a%d\n", i,
                             10 + dao_random_below(random, 300), i > 0 ? input : "", i);
    }
    length += (size_t)snprintf(text + length, sizeof(text) - length, "backward\n");
    for (int i = LAYER_COUNT - 1; i >= 0; i--) {
        char next[32];
        (void)snprintf(next, sizeof(next), "<g%d -g%d", i + 1, i + 1);
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "op b%d %" PRIu64 " <a%d %s >g%d -a%d\n",
                             i, 10 + dao_random_below(random, 600), i, i + 1 < LAYER_COUNT ? next : "", i, i);
    }
    length += (size_t)snprintf(text + length, sizeof(text) - length, "op u 9 *w <g0 -g0\nend\n");
    dao_test_write_file(dao_test_path, text, length);
}

/* What the scheme of dao simulate takes in a capacity; UINT64_MAX: it has no plan. */
static uint64_t simulated_ns(const dao_step_trace_t *read, const dao_step_problem_t *made,
                             uint64_t capacity_bytes)
{
    const dao_scheme_t *scheme = NULL;
    dao_swap_problem_t problem = made->problem;
    dao_scheme_run_t run;
    problem.capacity_bytes = capacity_bytes;
    dao_scheme_input_t input = {
        .problem = &problem, .trace = read, .threshold = DAO_TRACE_NONE, .step_count = 6};
    CU_ASSERT_EQUAL_FATAL(dao_scheme_find("plan", &scheme), DAO_OK);
    if (scheme->run(scheme, &input, &run) != DAO_OK) {
        return UINT64_MAX;
    }
    uint64_t step_ns = run.simulation.step_ns;
    dao_simulation_finish(&run.simulation);
    return step_ns;
}

/* With kernels that run again a step is never slower than without, and never faster than its bound. Returns
   true if it is faster than without. */
static bool check_again(dao_fit_swap_t *all, uint64_t capacity_bytes)
{
    dao_fit_point_t swapped = {.step_ns = UINT64_MAX}, again = {.step_ns = 0};
    dao_status_t status = dao_fit_swap_at(all, capacity_bytes, &swapped);
    CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_LIMIT);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_again_at(all, capacity_bytes, &again), DAO_OK);
    CU_ASSERT_TRUE(again.step_ns <= swapped.step_ns);
    CU_ASSERT_TRUE(again.step_ns >= again.bound_ns && again.bound_ns >= all->compute_ns);
    CU_ASSERT_TRUE(again.capacity_bytes <= capacity_bytes);
    CU_ASSERT_TRUE(again.step_ns == swapped.step_ns || again.again_count > 0);
    CU_ASSERT_EQUAL(dao_fit_swap_again_at(all, all->least_bytes - 1, &again), DAO_ERR_LIMIT);
    return again.step_ns < swapped.step_ns;
}

/* Nor does more memory make a step longer whose kernels may run again, whatever a plan of one capacity finds.
 */
static void check_again_grows(dao_fit_swap_t *all)
{
    uint64_t last_ns = UINT64_MAX, apart = (all->peak_bytes - all->least_bytes) / DAO_FIT_GRID;
    for (uint64_t i = 0; i <= GROWING_LOOKS; i++) {
        dao_fit_point_t again = {.step_ns = UINT64_MAX};
        dao_status_t status = dao_fit_swap_again_at(all, all->least_bytes + apart * i, &again);
        CU_ASSERT_TRUE(status == DAO_OK || (status == DAO_ERR_LIMIT && last_ns == UINT64_MAX));
        CU_ASSERT_TRUE(again.step_ns <= last_ns);
        last_ns = again.step_ns;
    }
}

static int with_again; /* steps that are faster with kernels that run again */

/* Every point against plans of all points of the grid, and the smallest memory against a look at each. */
static void check_grid(const dao_step_trace_t *read, const dao_step_problem_t *made, uint64_t wanted_ns)
{
    dao_fit_swap_t all, fresh;
    dao_fit_point_t points[DAO_FIT_GRID + 1], wish;
    uint64_t best_ns = UINT64_MAX, smallest_bytes = 0;
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_init(&all, read, &made->problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_sweep(&all, DAO_FIT_GRID + 1, points), DAO_OK);
    for (uint32_t i = 0; i <= DAO_FIT_GRID; i++) {
        dao_fit_point_t point = {.step_ns = UINT64_MAX};
        uint64_t own_ns = simulated_ns(read, made, points[i].capacity_bytes);
        best_ns = own_ns < best_ns ? own_ns : best_ns;
        smallest_bytes =
            smallest_bytes == 0 && best_ns <= wanted_ns ? points[i].capacity_bytes : smallest_bytes;
        dao_status_t status = dao_fit_swap_at(&all, points[i].capacity_bytes, &point);
        CU_ASSERT_EQUAL(status, best_ns == UINT64_MAX ? DAO_ERR_LIMIT : DAO_OK);
        CU_ASSERT_EQUAL(point.step_ns, best_ns);
    }
    CU_ASSERT_EQUAL_FATAL(dao_fit_swap_init(&fresh, read, &made->problem), DAO_OK);
    dao_status_t status = dao_fit_swap_for(&fresh, wanted_ns, &wish);
    CU_ASSERT_EQUAL(status, smallest_bytes == 0 ? DAO_ERR_LIMIT : DAO_OK);
    CU_ASSERT_TRUE(status != DAO_OK || wish.capacity_bytes == smallest_bytes);
    for (uint64_t i = 0; i < AGAIN_LOOKS; i++) {
        with_again +=
            check_again(&all, all.least_bytes + (all.peak_bytes - all.least_bytes) / AGAIN_LOOKS * i);
    }
    check_again_grows(&all);
}

static void any_step_is_as_it_is_simulated(void)
{
    enum { STEP_COUNT = 1 + TEST_ROUNDS(2) };
    uint64_t random = dao_test_seed("fit_swap", 31);
    for (int i = 0; i < STEP_COUNT; i++) {
        dao_step_trace_t read;
        dao_step_problem_t made;
        write_step(&random);
        CU_ASSERT_EQUAL_FATAL(dao_read_step(dao_test_path, NULL, &read), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_step_problem_make(&read, &made), DAO_OK);
        made.problem.host.in_bytes_per_second = UINT64_C(250000000) << i * 3; /* on the first all waits */
        made.problem.host.latency_ns = 10000;
        check_grid(&read, &made, 10000 + dao_random_below(&random, 8000000));
        dao_step_problem_finish(&made);
        dao_step_trace_finish(&read);
    }
    CU_ASSERT_TRUE(with_again > 0);
}

static CU_TestInfo random_tests[] = {
    {"any step is as it is simulated", any_step_is_as_it_is_simulated},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo tests[] = {
#if !defined(TEST_HAS_SANITIZER)
    {"more memory is never slower", more_memory_is_never_slower},
    {"a point is what simulate says", a_point_is_what_simulate_says},
    {"the smallest memory for a slow-down is found", the_smallest_memory_for_a_slow_down_is_found},
#endif
    {"a stopped search gives the best so far", a_stopped_search_gives_the_best_so_far},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"fit_swap", read_trace, finish_trace, NULL, NULL, tests},
        {"fit_swap of random steps", dao_test_path_begin, dao_test_path_end, NULL, NULL, random_tests},
        CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
