/* SPDX-License-Identifier: Apache-2.0 */
/* Feature maps on their way: the three schemes counted by hand, and the published scripts' figures to the
   byte where their traces are found beside the project. */
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/plan/tree_pool.h"
#include "tools/read/step/read_step.h"
#include "tools/simulate/forward_end.h"
#include "tools/simulate/swap_maps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- by hand ----

   Three operators forward, three back, 100 ns each; a byte takes the link a nanosecond.

       f0 -> a -> f1 -> b -> f2 -> c -> b3,  b -> b4,  a -> b5 */
enum { A_BYTES = 160, B_BYTES = 50, C_BYTES = 40, COST_NS = 100, THRESHOLD = 2 };

static dao_step_trace_t trace;

#define NEED(call) CU_ASSERT_EQUAL_FATAL((call), DAO_OK)

static bool add_operator(uint32_t index, const char *name, uint32_t tensor)
{
    bool is_forward = index <= THRESHOLD;
    bool is_added = dao_step_trace_add_operator(&trace, name) == DAO_OK;
    if (index > 0) { /* what the operator before has made, and back the same way */
        uint32_t input = is_forward ? tensor - 1 : tensor;
        is_added = is_added && dao_step_trace_add_input(&trace, input) == DAO_OK;
    }
    if (is_forward) {
        is_added = is_added && dao_step_trace_add_output(&trace, tensor) == DAO_OK;
    } else {
        is_added = is_added && dao_step_trace_add_release(&trace, tensor) == DAO_OK;
    }
    trace.operators[index].cost_ns = COST_NS;
    return is_added;
}

static int make_step(void)
{
    static const char *const names[] = {"f0", "f1", "f2", "b3", "b4", "b5"};
    static const uint32_t tensors[] = {0, 1, 2, 2, 1, 0};
    uint32_t tensor;
    dao_step_trace_init(&trace);
    bool is_made = dao_step_trace_add_tensor(&trace, "a", A_BYTES, &tensor) == DAO_OK &&
                   dao_step_trace_add_tensor(&trace, "b", B_BYTES, &tensor) == DAO_OK &&
                   dao_step_trace_add_tensor(&trace, "c", C_BYTES, &tensor) == DAO_OK;
    for (uint32_t i = 0; is_made && i < 6; i++) {
        is_made = add_operator(i, names[i], tensors[i]);
    }
    return is_made && dao_step_trace_pack(&trace) == DAO_OK ? 0 : 1;
}

static int forget_step(void)
{
    dao_step_trace_finish(&trace);
    return 0;
}

static dao_swap_maps_config_t config_of(dao_swap_maps_mode_t mode)
{
    return (dao_swap_maps_config_t){.mode = mode,
                                    .threshold = THRESHOLD,
                                    .in_bytes_per_second = UINT64_C(1000000000),
                                    .out_bytes_per_second = UINT64_C(1000000000),
                                    .capacity_bytes = UINT64_MAX};
}

static dao_swap_maps_result_t run(const dao_swap_maps_config_t *config, dao_simulation_t *simulation)
{
    dao_swap_maps_result_t result = {0};
    CU_ASSERT_EQUAL_FATAL(dao_swap_maps(&trace, config, simulation, &result), DAO_OK);
    CU_ASSERT_EQUAL(result.compute_ns, 6 * COST_NS);
    return result;
}

static void sync_waits_for_every_copy(void)
{
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_SYNC);
    dao_swap_maps_result_t result = run(&config, NULL);
    CU_ASSERT_EQUAL(result.step_ns, 6 * COST_NS + 2 * (A_BYTES + B_BYTES + C_BYTES));
    CU_ASSERT_EQUAL(result.map_count, 3);
    CU_ASSERT_EQUAL(result.map_bytes, A_BYTES + B_BYTES + C_BYTES);
    CU_ASSERT_EQUAL(result.in_bytes, A_BYTES + B_BYTES + C_BYTES);
    CU_ASSERT_EQUAL(result.out_bytes, A_BYTES + B_BYTES + C_BYTES);
    CU_ASSERT_EQUAL(result.peak_bytes,
                    A_BYTES + B_BYTES); /* f1 has both; then a is out, and f1 was its last use */
    config.latency_ns = 7;
    CU_ASSERT_EQUAL(run(&config, NULL).step_ns, 6 * COST_NS + 2 * (A_BYTES + B_BYTES + C_BYTES) + 6 * 7);
}

/* f1 waits 60 ns for a on its way out, b4 as long for a on its way in. c is called for as f2 begins, before
   it is there: it stays. */
static void half_sync_waits_at_both_ends(void)
{
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_HALF_SYNC);
    dao_swap_maps_result_t result = run(&config, NULL);
    CU_ASSERT_EQUAL(result.step_ns, 6 * COST_NS + 2 * (A_BYTES - COST_NS));
    CU_ASSERT_EQUAL(result.in_bytes, A_BYTES + B_BYTES);
    CU_ASSERT_EQUAL(result.out_bytes, A_BYTES + B_BYTES);
}

/* Out: a 100-260, b 260-310, c 310-350. As b3 begins, at 300, a has to be called for: from 400 on b5 would
   wait. b and c have not left yet and stay. a comes 350-510, and b5 waits 10 ns. */
static void async_calls_for_maps_at_the_latest_begin(void)
{
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_ASYNC);
    dao_simulation_t simulation = {.kernels = NULL};
    dao_swap_maps_result_t result = run(&config, &simulation);
    CU_ASSERT_EQUAL(result.step_ns, 6 * COST_NS + 10);
    CU_ASSERT_EQUAL(result.in_bytes, A_BYTES);
    CU_ASSERT_EQUAL(result.out_bytes, A_BYTES + B_BYTES + C_BYTES);
    CU_ASSERT_EQUAL_FATAL(simulation.kernel_count, 6);
    CU_ASSERT_EQUAL_FATAL(simulation.copy_count, 4);
    CU_ASSERT_EQUAL(simulation.copies[3].kind, DAO_SIM_SPAN_IN);
    CU_ASSERT_EQUAL(simulation.copies[3].begin_ns, 350);
    CU_ASSERT_EQUAL(simulation.copies[3].end_ns, 510);
    CU_ASSERT_EQUAL(simulation.kernels[5].begin_ns, 510);
    dao_simulation_finish(&simulation);
}

/* With longer operators there is time: a is called for as late as the begin of b4, and nobody waits. */
static void async_does_not_call_too_early(void)
{
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_ASYNC);
    dao_simulation_t simulation = {.kernels = NULL};
    for (uint32_t i = 0; i < 6; i++) {
        trace.operators[i].cost_ns = 3 * COST_NS;
    }
    dao_swap_maps_result_t result = {0};
    NEED(dao_swap_maps(&trace, &config, &simulation, &result));
    CU_ASSERT_EQUAL(result.step_ns, 18 * COST_NS);
    CU_ASSERT_EQUAL_FATAL(simulation.copy_count, 5); /* c, on its way out as b3 begins, stays */
    CU_ASSERT_EQUAL(simulation.copies[3].size_bytes, B_BYTES);
    CU_ASSERT_EQUAL(simulation.copies[3].begin_ns,
                    940); /* b is called for by b3, and c goes out until then */
    CU_ASSERT_EQUAL(simulation.copies[4].size_bytes, A_BYTES);
    CU_ASSERT_EQUAL(simulation.copies[4].begin_ns, 1200);
    dao_simulation_finish(&simulation);
    for (uint32_t i = 0; i < 6; i++) {
        trace.operators[i].cost_ns = COST_NS;
    }
}

static void a_capacity_moves_as_few_maps_as_keep_it(void)
{
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_SYNC);
    config.capacity_bytes = A_BYTES + B_BYTES + C_BYTES;
    CU_ASSERT_EQUAL(run(&config, NULL).map_count, 0);
    config.capacity_bytes--;
    dao_swap_maps_result_t result = run(&config, NULL);
    CU_ASSERT_EQUAL(result.map_count, 1); /* a, which is needed last */
    CU_ASSERT_EQUAL(result.map_bytes, A_BYTES);
    CU_ASSERT_EQUAL(result.step_ns, 6 * COST_NS + 2 * A_BYTES);
    config.capacity_bytes = A_BYTES + B_BYTES - 1;
    CU_ASSERT_EQUAL(dao_swap_maps(&trace, &config, NULL, &result), DAO_ERR_LIMIT);
}

static void the_threshold_is_found_or_asked_for(void)
{
    uint32_t threshold = 0;
    CU_ASSERT_EQUAL(dao_forward_end_find(&trace, &threshold), DAO_ERR_UNSUPPORTED);
    trace.first_backward = 3;
    NEED(dao_forward_end_find(&trace, &threshold));
    CU_ASSERT_EQUAL(threshold, 2);
    trace.first_backward = DAO_TRACE_NONE;
    dao_swap_maps_config_t config = config_of(DAO_SWAP_MAPS_SYNC);
    dao_swap_maps_result_t result;
    config.threshold = 6;
    CU_ASSERT_EQUAL(dao_swap_maps(&trace, &config, NULL, &result), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_swap_maps_by_script(&trace, &config, &result), DAO_ERR_INVALID);
}

/* The scripts, with f2 already behind the threshold: a and b go after f1 and come before b4 and b5. */
static void the_scripts_are_counted_by_hand_too(void)
{
    dao_swap_maps_result_t result;
    for (int mode = DAO_SWAP_MAPS_SYNC; mode <= DAO_SWAP_MAPS_ASYNC; mode++) {
        dao_swap_maps_config_t config = config_of((dao_swap_maps_mode_t)mode);
        NEED(dao_swap_maps_by_script(&trace, &config, &result));
        CU_ASSERT_EQUAL(result.map_count, 2);
        /* b is read by f2, which the scripts count as backward: it comes in there. */
        static const uint64_t times_ns[] = {
            6 * COST_NS + 2 * (A_BYTES + B_BYTES), /* sync */
            /* f0, f1, out of both, b in, then a in beside b4 */
            6 * COST_NS + (A_BYTES + B_BYTES) + B_BYTES + (A_BYTES - COST_NS),
            /* copies end at 200 + 210 + 50 = 460, when f2 begins; a comes until 620, long before b5 */
            6 * COST_NS + (A_BYTES + B_BYTES) + B_BYTES,
        };
        CU_ASSERT_EQUAL(result.step_ns, times_ns[mode]);
        CU_ASSERT_TRUE(result.pool_bytes % DAO_TREE_POOL_ALIGNMENT == 0);
    }
}

static void without_memory_nothing_is_left_behind(void)
{
    for (int mode = DAO_SWAP_MAPS_SYNC; mode <= DAO_SWAP_MAPS_ASYNC; mode++) {
        for (int by_script = 0; by_script <= 1; by_script++) {
            dao_swap_maps_config_t config = config_of((dao_swap_maps_mode_t)mode);
            dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
            for (uint64_t n = 0; status != DAO_OK; n++) {
                dao_simulation_t simulation = {.kernels = NULL};
                dao_swap_maps_result_t result;
                dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
                status = by_script != 0 ? dao_swap_maps_by_script(&trace, &config, &result)
                                        : dao_swap_maps(&trace, &config, &simulation, &result);
                CU_ASSERT_EQUAL(dao_fault_disarm() > 0, status != DAO_OK);
                CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
                dao_simulation_finish(&simulation);
            }
        }
    }
}

/* ---- the pool ---- */

static void the_pool_splits_always_and_joins_whole_parents(void)
{
    dao_tree_pool_t pool;
    uint32_t whole, first, second, third;
    dao_tree_pool_init(&pool, DAO_TREE_POOL_PYTHON);
    NEED(dao_tree_pool_alloc(&pool, 1000, &whole)); /* 1024 */
    dao_tree_pool_free(&pool, whole);
    NEED(dao_tree_pool_alloc(&pool, 100, &first)); /* 128 of it */
    CU_ASSERT_EQUAL(pool.total_bytes, 1024);
    NEED(dao_tree_pool_alloc(&pool, 800, &second)); /* 832 of the 896 that are left */
    CU_ASSERT_EQUAL(pool.total_bytes, 1024);
    dao_tree_pool_free(&pool, first); /* it waits for the others: not handed out */
    NEED(dao_tree_pool_alloc(&pool, 128, &third));
    CU_ASSERT_EQUAL(pool.total_bytes, 1024 + 128);
    dao_tree_pool_free(&pool, second);
    dao_tree_pool_free(&pool, third);
    NEED(dao_tree_pool_alloc(&pool, 1024, &whole)); /* joined */
    CU_ASSERT_EQUAL(pool.total_bytes, 1024 + 128);
    dao_tree_pool_finish(&pool);
}

/* ---- the published figures ---- */

#define SCRIPT_BYTES_PER_S UINT64_C(390300836) /* 107374182400 bytes in 275106.1875 ms */

typedef struct published {
    const char *model;
    const char *batch;
    uint32_t threshold;
    uint64_t map_count, map_bytes;
    uint64_t pool_bytes[3];
    double ms[3];
} published_t;

static const published_t published[] = {
    {"Squeezenet", "4", 119, 34, 171602304, {357052416, 337784832, 491122688}, {2664.9, 2574.2, 1847.7}},
    {"Squeezenet",
     "16",
     119,
     34,
     686409216,
     {1428209664, 1274068992, 2135490560},
     {10640.7, 10284.0, 7386.3}},
    {"MobilenetV2", "4", 1438, 246, 529559840, {287456512, 309533952, 415893760}, {5202.0, 4904.8, 3143.0}},
    {"MobilenetV2",
     "16",
     1438,
     246,
     2118239360,
     {697036672, 951529344, 1883600768},
     {18869.2, 17863.4, 11671.2}},
};

static void check_published(const published_t *row, const dao_step_trace_t *step)
{
    for (int mode = DAO_SWAP_MAPS_SYNC; mode <= DAO_SWAP_MAPS_ASYNC; mode++) {
        dao_swap_maps_config_t config = {.mode = (dao_swap_maps_mode_t)mode,
                                         .threshold = row->threshold,
                                         .in_bytes_per_second = SCRIPT_BYTES_PER_S,
                                         .out_bytes_per_second = SCRIPT_BYTES_PER_S,
                                         .capacity_bytes = UINT64_MAX};
        dao_swap_maps_result_t script, ours;
        NEED(dao_swap_maps_by_script(step, &config, &script));
        CU_ASSERT_EQUAL(script.map_count, row->map_count);
        CU_ASSERT_EQUAL(script.map_bytes, row->map_bytes);
        CU_ASSERT_EQUAL(script.pool_bytes, row->pool_bytes[mode]);
        CU_ASSERT_TRUE(fabs((double)script.step_ns / 1e6 - row->ms[mode]) <= 0.051);
        NEED(dao_swap_maps(step, &config, NULL, &ours));
        CU_ASSERT_TRUE(ours.step_ns >= ours.compute_ns);
    }
}

static void the_published_figures_come_out(void)
{
    for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
        char name[128], path[4096];
        dao_step_trace_t step;
        uint32_t threshold = 0;
        (void)snprintf(name, sizeof(name), "../heuristic-allocator/%s.io_info.json.gz", published[i].model);
        if (!dao_test_shared_trace(name, path, sizeof(path))) {
            continue;
        }
        NEED(dao_read_step(path, published[i].batch, &step));
        NEED(dao_forward_end_find(&step, &threshold));
        CU_ASSERT_EQUAL(threshold, published[i].threshold);
        check_published(&published[i], &step);
        dao_step_trace_finish(&step);
    }
}

/* A recorded step, which the scripts refuse: it gives tensors back that they have no map for. Figures of the
   code that gives the published ones. */
static void a_recorded_step_moves_the_same_maps(void)
{
    static const uint64_t peaks[] = {147729216, 147729216, 189476416};
    static const uint64_t ins[] = {312990632, 312990624, 312933664};
    dao_step_trace_t step;
    uint32_t threshold = 0;
    NEED(dao_read_step(DAO_TEST_TRACE, NULL, &step));
    NEED(dao_forward_end_find(&step, &threshold));
    CU_ASSERT_EQUAL(threshold, 301);
    for (int mode = DAO_SWAP_MAPS_SYNC; mode <= DAO_SWAP_MAPS_ASYNC; mode++) {
        dao_swap_maps_config_t config = {.mode = (dao_swap_maps_mode_t)mode,
                                         .threshold = threshold,
                                         .in_bytes_per_second = SCRIPT_BYTES_PER_S,
                                         .out_bytes_per_second = SCRIPT_BYTES_PER_S,
                                         .capacity_bytes = UINT64_MAX};
        dao_swap_maps_result_t result;
        NEED(dao_swap_maps(&step, &config, NULL, &result));
        CU_ASSERT_EQUAL(result.map_count, 249);
        CU_ASSERT_EQUAL(result.map_bytes, 312990632);
        CU_ASSERT_EQUAL(result.peak_bytes, peaks[mode]);
        CU_ASSERT_EQUAL(result.in_bytes, ins[mode]);
        CU_ASSERT_TRUE(result.step_ns > result.compute_ns);
        CU_ASSERT_EQUAL(dao_swap_maps_by_script(&step, &config, &result), DAO_ERR_UNSUPPORTED);
    }
    dao_step_trace_finish(&step);
}

static CU_TestInfo by_hand[] = {
    {"sync waits for every copy", sync_waits_for_every_copy},
    {"half-sync waits at both ends", half_sync_waits_at_both_ends},
    {"async calls for maps at the latest begin", async_calls_for_maps_at_the_latest_begin},
    {"async does not call too early", async_does_not_call_too_early},
    {"a capacity moves as few maps as keep it", a_capacity_moves_as_few_maps_as_keep_it},
    {"the threshold is found or asked for", the_threshold_is_found_or_asked_for},
    {"the scripts are counted by hand too", the_scripts_are_counted_by_hand_too},
    {"without memory nothing is left behind", without_memory_nothing_is_left_behind},
    CU_TEST_INFO_NULL,
};

static CU_TestInfo published_figures[] = {
    {"the pool splits always and joins whole parents", the_pool_splits_always_and_joins_whole_parents},
    {"the published figures come out", the_published_figures_come_out},
    {"a recorded step moves the same maps", a_recorded_step_moves_the_same_maps},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {
        {"feature maps by hand", make_step, forget_step, NULL, NULL, by_hand},
        {"published figures", NULL, NULL, NULL, NULL, published_figures},
        CU_SUITE_INFO_NULL,
    };
    return dao_suite_run(suites);
}
