/* SPDX-License-Identifier: Apache-2.0 */
/* Sections keep all overlaps, units keep all bytes; and whether all fits, against trying every offset. */
#include "base/report/fault.h"
#include "planning/offsets/search/search_fit.h"
#include "tests/support/models/plans.h"
#include "tests/support/suite.h"

enum { ROUND_COUNT = 300 };

static const _Atomic bool is_never_cancelled = false;
static dao_test_plan_t plan;
static dao_plan_instance_t instance;
static dao_plan_search_model_t model;

/* Draws a problem that the search knows, and makes its model. False if it has none. */
static bool begin(uint64_t count, uint64_t size_max, uint64_t *random)
{
    uint32_t features = dao_random_next(random) % 2 == 0 ? DAO_TEST_PLAN_ALIGNED : DAO_TEST_PLAN_CLOSED;
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_test_plan_make(&plan, features, count, size_max, random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
    dao_status_t status = dao_plan_search_model_init(&model, &instance, &work);
    CU_ASSERT_EQUAL(status, DAO_OK);
    return status == DAO_OK;
}

static void end(void)
{
    dao_plan_search_model_finish(&model);
    dao_plan_instance_finish(&instance);
}

static void the_picture_in_the_header_holds(void)
{
    static const uint64_t times[4][2] = {{0, 12}, {3, 9}, {10, 23}, {13, 22}};
    dao_plan_work_t work = dao_plan_work_unlimited();
    dao_plan_buffer_t buffers[4];
    for (size_t i = 0; i < 4; i++) {
        buffers[i] = (dao_plan_buffer_t){.begin_time = times[i][0],
                                         .end_time = times[i][1],
                                         .size_bytes = 6 * (i + 1),
                                         .fixed_offset = DAO_PLAN_NOWHERE};
    }
    const dao_plan_problem_t problem = {.buffers = buffers, .buffer_count = 4};
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_search_model_init(&model, &instance, &work), DAO_OK);
    static const uint32_t firsts[] = {0, 0, 1, 2}, ends[] = {2, 1, 3, 3}, first_items[] = {0, 2, 3, 4};
    CU_ASSERT_EQUAL_FATAL(model.section_count, 3);
    CU_ASSERT_EQUAL(model.unit_bytes, 6);
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT(model.first_sections[i] == firsts[i] && model.end_sections[i] == ends[i]);
        CU_ASSERT(model.sizes[i] == (dao_plan_units_t)i + 1 && model.alignments[i] == 1);
        CU_ASSERT_EQUAL(model.first_items[i], first_items[i]);
    }
    CU_ASSERT(model.totals[0] == 3 && model.totals[1] == 4 && model.totals[2] == 7);
    CU_ASSERT(model.crossings[1] == 1 && model.crossings[2] == 1);
    end();
}

static void sections_keep_all_overlaps(void)
{
    uint64_t random = dao_test_seed("sections", 20261122);
    for (int round = 0; round < ROUND_COUNT; round++) {
        if (!begin(1 + dao_random_next(&random) % 20, 40, &random)) {
            continue;
        }
        CU_ASSERT(dao_plan_search_model_is_valid(&model));
        for (uint32_t i = 0; i < model.item_count; i++) {
            CU_ASSERT_EQUAL((uint64_t)model.sizes[i] * model.unit_bytes, instance.items[i].size_bytes);
            for (uint32_t k = 0; k < i; k++) {
                bool do_overlap = instance.items[i].begin < instance.items[k].end &&
                                  instance.items[k].begin < instance.items[i].end;
                bool do_here = model.first_sections[i] < model.end_sections[k] &&
                               model.first_sections[k] < model.end_sections[i];
                CU_ASSERT_EQUAL(do_here, do_overlap);
            }
        }
        end();
    }
}

static void what_it_does_not_know_is_said(void)
{
    static const uint32_t features[] = {DAO_TEST_PLAN_CYCLIC, DAO_TEST_PLAN_GAPS};
    uint64_t random = dao_test_seed("unknown", 20261122);
    for (size_t i = 0; i < 2; i++) {
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_status_t status = DAO_ERR_INVALID;
        while (status == DAO_ERR_INVALID) { /* gaps may fill a life */
            dao_test_plan_make(&plan, features[i], 20, 8, &random);
            status = dao_plan_instance_make(&instance, &plan.problem);
        }
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        CU_ASSERT_EQUAL(dao_plan_search_model_init(&model, &instance, &work), DAO_ERR_UNSUPPORTED);
        end();
    }
}

/* Searches a capacity, in slices. */
static dao_plan_fit_end_t search(dao_plan_fit_t *fit, uint64_t capacity_bytes, const double *values)
{
    dao_plan_work_t work = {.is_cancelled = &is_never_cancelled};
    dao_plan_fit_end_t fit_end = DAO_PLAN_FIT_OPEN;
    dao_plan_fit_start(fit, (dao_plan_units_t)(capacity_bytes / model.unit_bytes), UINT64_MAX, values);
    while (fit_end == DAO_PLAN_FIT_OPEN) {
        work.limit = work.used + 100;
        CU_ASSERT_EQUAL_FATAL(dao_plan_fit_step(fit, &work, &fit_end), DAO_OK);
        CU_ASSERT(dao_plan_fit_is_valid(fit));
    }
    return fit_end;
}

/* A capacity fits if and only if a plan with that peak exists; then the offsets are such a plan. */
static void it_fits_if_there_is_a_plan(void)
{
    uint64_t random = dao_test_seed("fit", 20261122);
    int none_count = 0;
    for (int round = 0; round < ROUND_COUNT; round++) {
        static const double values[7];
        dao_plan_fit_t *fit = NULL;
        if (!begin(1 + dao_random_next(&random) % 6, 6, &random)) {
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(dao_plan_fit_create(&model, &fit), DAO_OK);
        uint64_t capacity = instance.bound_bytes;
        while (search(fit, capacity, values) == DAO_PLAN_FIT_NONE) {
            CU_ASSERT(!dao_test_plan_is_beaten(&plan.problem, 0, capacity + 1));
            capacity += model.unit_bytes;
            none_count++;
        }
        uint64_t offsets[7], peak = 0;
        for (uint32_t i = 0; i < model.item_count; i++) {
            uint64_t offset = (uint64_t)dao_plan_fit_offsets(fit)[i] * model.unit_bytes;
            offsets[instance.items[i].source] = offset;
            peak =
                offset + instance.items[i].size_bytes > peak ? offset + instance.items[i].size_bytes : peak;
        }
        CU_ASSERT(peak <= capacity);
        CU_ASSERT(dao_test_plan_is_valid(&plan.problem, offsets, NULL));
        dao_plan_fit_destroy(fit);
        end();
    }
    CU_ASSERT(none_count > 0);
}

/* Searches within a limit of nodes that is met. Returns the work that it took. */
static uint64_t work_until(uint64_t node_limit)
{
    static const double values[DAO_TEST_PLAN_BUFFERS_MAX];
    dao_plan_fit_t *fit = NULL;
    dao_plan_fit_end_t fit_end = DAO_PLAN_FIT_OPEN;
    dao_plan_work_t work = dao_plan_work_unlimited();
    CU_ASSERT_EQUAL_FATAL(dao_plan_fit_create(&model, &fit), DAO_OK);
    dao_plan_fit_start(fit, (dao_plan_units_t)(instance.bound_bytes / model.unit_bytes), node_limit, values);
    while (fit_end == DAO_PLAN_FIT_OPEN) {
        CU_ASSERT_EQUAL_FATAL(dao_plan_fit_step(fit, &work, &fit_end), DAO_OK);
    }
    CU_ASSERT_EQUAL(fit_end, DAO_PLAN_FIT_LIMIT);
    dao_plan_fit_destroy(fit);
    return work.used;
}

static void nodes_have_a_limit(void)
{
    uint64_t random = dao_test_seed("limit", 20261122);
    CU_ASSERT_FATAL(begin(60, 1000, &random));
    uint64_t none = work_until(0), few = work_until(5), more = work_until(50);
    CU_ASSERT(none < few && few < more);
    end();
}

static void want_of_memory_is_said(void)
{
    uint64_t random = dao_test_seed("want of memory", 20261122);
    dao_test_plan_make(&plan, 0, 20, 40, &random);
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
    uint64_t used_bytes = instance.memory.used_bytes;
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    for (uint64_t skip = 0; status != DAO_OK; skip++) {
        dao_plan_work_t work = dao_plan_work_unlimited();
        dao_plan_fit_t *fit = NULL;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        status = dao_plan_search_model_init(&model, &instance, &work);
        status = status == DAO_OK ? dao_plan_fit_create(&model, &fit) : status;
        CU_ASSERT_EQUAL(dao_fault_disarm() == 0, status == DAO_OK);
        dao_plan_fit_destroy(fit);
        dao_plan_search_model_finish(&model);
        CU_ASSERT_EQUAL(instance.memory.used_bytes, used_bytes);
    }
    dao_plan_instance_finish(&instance);
}

static CU_TestInfo tests[] = {
    {"the picture in the header holds", the_picture_in_the_header_holds},
    {"sections keep all overlaps", sections_keep_all_overlaps},
    {"what it does not know is said", what_it_does_not_know_is_said},
    {"it fits if there is a plan", it_fits_if_there_is_a_plan},
    {"nodes have a limit", nodes_have_a_limit},
    {"want of memory is said", want_of_memory_is_said},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan search model", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
