/* SPDX-License-Identifier: Apache-2.0 */
/* The exact search: small problems against all plans there are, larger ones against a packing that is known
   to be perfect. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "planning/offsets/search/search_fit.h"
#include "tests/support/models/plans.h"
#include "tests/support/models/trace.h"
#include "tests/support/sanitizer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL_ROUNDS   TEST_ROUNDS(2000u)
#define PERFECT_ROUNDS TEST_ROUNDS(100u)

/* What the search knows; closed lives and margins are times like others to it. */
#define KNOWN_FEATURES                                                                                       \
    (DAO_TEST_PLAN_ALIGNED | DAO_TEST_PLAN_FIXED | DAO_TEST_PLAN_CLOSED | DAO_TEST_PLAN_MARGIN)

static dao_test_plan_t plan;

static dao_plan_report_t report_of(const dao_plan_t *made)
{
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(dao_plan_report_get(made, &report), DAO_OK);
    CU_ASSERT_EQUAL(dao_plan_check(&plan.problem, dao_plan_offsets(made), NULL), DAO_OK);
    return report;
}

static dao_status_t search(uint64_t work_limit, dao_plan_report_t *out_report)
{
    const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SEARCH, .work_limit = work_limit};
    dao_plan_t *made = NULL;
    dao_status_t status = dao_plan_make(&plan.problem, &config, &made);
    if (status == DAO_OK) {
        *out_report = report_of(made);
        dao_plan_release(made);
    }
    return status;
}

static void set_capacity(uint64_t capacity_bytes)
{
    plan.pools[0].capacity_bytes = capacity_bytes;
    plan.problem.pools = plan.pools;
    plan.problem.pool_count = 1;
}

/* ---- small problems ---- */

static bool make_small(uint32_t round, uint64_t *random)
{
    uint32_t features = (uint32_t)dao_random_next(random) & KNOWN_FEATURES;
    size_t count = 1 + dao_random_next(random) % 7;
    dao_test_plan_make(&plan, round % 3 == 0 ? 0 : features, count, 2 + dao_random_next(random) % 6, random);
    dao_planner_t *planner = NULL;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, NULL, &planner), DAO_OK);
    bool is_possible = dao_planner_work(planner, 0, NULL) == DAO_OK; /* fixed ones may clash */
    dao_planner_destroy(planner);
    return is_possible;
}

static void small_peaks_are_the_lowest_there_are(void)
{
    uint64_t random = dao_test_seed("small peaks", 51);
    uint32_t raised_count = 0;
    for (uint32_t round = 0; round < SMALL_ROUNDS; round++) {
        if (!make_small(round, &random)) {
            continue;
        }
        dao_plan_report_t report, quick;
        const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SKYLINE_AREA};
        dao_plan_t *made = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_plan_make(&plan.problem, &config, &made), DAO_OK);
        quick = report_of(made);
        dao_plan_release(made);
        CU_ASSERT_EQUAL_FATAL(search(0, &report), DAO_OK);
        bool is_right = report.is_proved && report.peak_bytes == report.bound_bytes &&
                        report.peak_bytes <= quick.peak_bytes && report.bound_bytes >= quick.bound_bytes &&
                        !dao_test_plan_is_beaten(&plan.problem, 0, report.peak_bytes);
        raised_count += report.bound_bytes > quick.bound_bytes ? 1 : 0;
        if (!is_right) {
            (void)printf("    round %" PRIu32 ": peak %" PRIu64 ", bound %" PRIu64 "\n", round,
                         report.peak_bytes, report.bound_bytes);
            CU_FAIL_FATAL("a lower peak is possible, or it was not proved");
        }
    }
    CU_ASSERT(raised_count > SMALL_ROUNDS / 100); /* some proofs took more than what is alive at one moment */
}

/* Where what is fixed leaves room for it, one byte less than the lowest peak is proved to be too little. */
static void a_capacity_fits_or_is_proved_too_small(void)
{
    uint64_t random = dao_test_seed("capacities", 52);
    uint32_t small_count = 0;
    for (uint32_t round = 0; round < SMALL_ROUNDS; round++) {
        if (!make_small(round, &random)) {
            continue;
        }
        dao_plan_report_t report, within;
        CU_ASSERT_EQUAL_FATAL(search(0, &report), DAO_OK);
        set_capacity(report.peak_bytes);
        CU_ASSERT_EQUAL_FATAL(search(0, &within), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(within.unplaced_count, 0);
        CU_ASSERT_EQUAL_FATAL(within.peak_bytes, report.peak_bytes);
        set_capacity(report.peak_bytes - 1);
        if (report.peak_bytes > 1 && search(0, &within) == DAO_OK) { /* else a fixed one ends above it */
            CU_ASSERT_FATAL(within.unplaced_count > 0);
            CU_ASSERT_FATAL(within.bound_bytes > plan.pools[0].capacity_bytes);
            CU_ASSERT_FALSE_FATAL(within.is_proved);
            small_count++;
        }
    }
    CU_ASSERT(small_count > SMALL_ROUNDS / 2);
}

/* ---- perfect packings ---- */

typedef struct box {
    uint64_t begin, end, low, high;
} box_t;

/* Cuts a box of 64 times and `height` bytes into `count` ones, whose offsets are forgotten. */
static void make_perfect(size_t count, uint64_t height, uint64_t *random)
{
    box_t boxes[DAO_TEST_PLAN_BUFFERS_MAX] = {{.end = 64, .high = height}};
    for (size_t made = 1; made < count;) {
        box_t *box = &boxes[dao_random_next(random) % made], *half = &boxes[made];
        bool is_upright = dao_random_next(random) % 2 == 0;
        uint64_t length = is_upright ? box->end - box->begin : box->high - box->low;
        if (length >= 2) {
            uint64_t at = 1 + dao_random_next(random) % (length - 1);
            *half = *box;
            *(is_upright ? &box->end : &box->high) = at + (is_upright ? box->begin : box->low);
            *(is_upright ? &half->begin : &half->low) = at + (is_upright ? half->begin : half->low);
            made++;
        }
    }
    memset(&plan, 0, sizeof(plan));
    plan.problem = (dao_plan_problem_t){.buffers = plan.buffers, .buffer_count = count};
    for (size_t i = 0; i < count; i++) {
        plan.buffers[i] = (dao_plan_buffer_t){.begin_time = boxes[i].begin,
                                              .end_time = boxes[i].end,
                                              .size_bytes = boxes[i].high - boxes[i].low,
                                              .fixed_offset = DAO_PLAN_NOWHERE};
    }
}

static void perfect_packings_are_found(void)
{
    uint64_t random = dao_test_seed("perfect packings", 53);
    for (uint32_t round = 0; round < PERFECT_ROUNDS; round++) {
        dao_plan_report_t report;
        uint64_t height = 20 + dao_random_next(&random) % 1000;
        make_perfect(10 + dao_random_next(&random) % 20, height, &random);
        CU_ASSERT_EQUAL_FATAL(search(0, &report), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(report.peak_bytes, height);
        CU_ASSERT_TRUE(report.is_proved);
    }
}

/* Sizes up to 2^48 with no common divisor, an alignment above them, and a fixed buffer at a far offset. */
static void large_numbers_fit(void)
{
    const uint64_t large = (UINT64_C(1) << 48) - 1;
    uint64_t random = 1;
    make_perfect(3, 1000, &random);
    plan.buffers[0] = (dao_plan_buffer_t){.end_time = 3, .size_bytes = large, .fixed_offset = large + 1};
    plan.buffers[1] = (dao_plan_buffer_t){
        .begin_time = 1, .end_time = 2, .size_bytes = 3, .fixed_offset = DAO_PLAN_NOWHERE};
    plan.buffers[2] = (dao_plan_buffer_t){
        .begin_time = 1, .end_time = 2, .size_bytes = large, .fixed_offset = DAO_PLAN_NOWHERE};
    plan.buffers[2].alignment_bytes = UINT32_C(1) << 31;
    dao_plan_report_t report;
    CU_ASSERT_EQUAL_FATAL(search(0, &report), DAO_OK);
    CU_ASSERT_TRUE(report.is_proved);
    CU_ASSERT_EQUAL(report.peak_bytes, 2 * large + 1 + 3);
}

/* ---- how it works ---- */

static dao_plan_t *search_in_slices(uint64_t slice)
{
    const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SEARCH, .work_limit = 300000, .seed = 7};
    dao_planner_t *planner = NULL;
    dao_plan_t *made = NULL;
    bool is_done = false;
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    while (!is_done) {
        CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, slice, &is_done), DAO_OK);
    }
    CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
    dao_planner_destroy(planner);
    return made;
}

static void slices_find_what_one_go_finds(void)
{
    for (uint64_t seed = 1; seed <= 10; seed++) {
        dao_test_plan_make_hard(&plan, seed);
        dao_plan_t *slices = search_in_slices(1000), *whole = search_in_slices(UINT64_MAX);
        dao_plan_report_t slices_report = report_of(slices), whole_report = report_of(whole);
        CU_ASSERT_EQUAL(slices_report.peak_bytes, whole_report.peak_bytes);
        CU_ASSERT_EQUAL(slices_report.bound_bytes, whole_report.bound_bytes);
        CU_ASSERT_EQUAL(slices_report.version, whole_report.version);
        CU_ASSERT_EQUAL(memcmp(dao_plan_offsets(slices), dao_plan_offsets(whole),
                               plan.problem.buffer_count * sizeof(uint64_t)),
                        0);
        dao_plan_release(slices);
        dao_plan_release(whole);
    }
}

static void a_cancelled_search_keeps_its_plan(void)
{
    const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SEARCH};
    dao_planner_t *planner = NULL;
    dao_plan_t *made = NULL;
    dao_test_plan_make_hard(&plan, 3);
    CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, 100000, NULL), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_cancel(planner), DAO_OK);
    CU_ASSERT_EQUAL(dao_planner_work(planner, UINT64_MAX, NULL), DAO_ERR_STOPPED);
    CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
    (void)report_of(made);
    dao_plan_release(made);
    dao_planner_destroy(planner);
}

/* Goes on after each failed allocation, and ends as if there had been none. */
static void failed_allocations_change_nothing(void)
{
    dao_plan_report_t undisturbed;
    uint64_t random = 5, failed_count = 1;
    make_perfect(40, 300, &random);
    CU_ASSERT_EQUAL_FATAL(search(400000, &undisturbed), DAO_OK);
    for (uint64_t n = 0; failed_count > 0; n++) {
        const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SEARCH, .work_limit = 400000};
        dao_planner_t *planner = NULL;
        bool is_done = false;
        CU_ASSERT_EQUAL_FATAL(dao_planner_create(&plan.problem, &config, &planner), DAO_OK);
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, n, false);
        dao_status_t status = dao_planner_work(planner, UINT64_MAX, &is_done);
        failed_count = dao_fault_disarm();
        CU_ASSERT(status == DAO_OK || (failed_count > 0 && status == DAO_ERR_NO_HOST_MEMORY));
        while (!is_done) {
            CU_ASSERT_EQUAL_FATAL(dao_planner_work(planner, UINT64_MAX, &is_done), DAO_OK);
        }
        dao_plan_t *made = NULL;
        CU_ASSERT_EQUAL_FATAL(dao_planner_best(planner, &made), DAO_OK);
        CU_ASSERT_EQUAL(report_of(made).peak_bytes, undisturbed.peak_bytes);
        dao_plan_release(made);
        dao_planner_destroy(planner);
    }
}

/* It ends with the plan that it would have begun with. */
static void what_it_does_not_know_is_left_alone(void)
{
    static const uint32_t unknown[] = {DAO_TEST_PLAN_POOLS, DAO_TEST_PLAN_CYCLIC, DAO_TEST_PLAN_GAPS};
    uint64_t random = dao_test_seed("unknown", 54);
    for (uint32_t round = 0; round < 30; round++) {
        dao_test_plan_make(&plan, unknown[round % 3], 20, 50, &random);
        const dao_planner_config_t config = {.method = DAO_PLAN_METHOD_SEARCH};
        dao_plan_t *made = NULL;
        dao_plan_report_t report;
        dao_status_t status = dao_plan_make(&plan.problem, &config, &made);
        if (status != DAO_OK) {
            CU_ASSERT_EQUAL(status, DAO_ERR_INVALID); /* gaps may fill a life */
            continue;
        }
        CU_ASSERT_EQUAL(dao_plan_report_get(made, &report), DAO_OK);
        bool has_pieces = plan.problem.gap_count > 0 || plan.problem.period > 0;
        CU_ASSERT(report.method == DAO_PLAN_METHOD_SKYLINE_AREA ||
                  (!has_pieces && plan.problem.pool_count <= 1));
        dao_plan_release(made);
    }
}

/* ---- the search for a fit alone ---- */

static void a_limit_of_nodes_ends_a_run(void)
{
    dao_plan_instance_t instance;
    dao_plan_search_model_t model;
    dao_plan_fit_t *fit = NULL;
    _Atomic bool is_cancelled = false;
    dao_plan_work_t work = {.limit = UINT64_MAX, .is_cancelled = &is_cancelled};
    dao_plan_fit_end_t end = DAO_PLAN_FIT_OPEN;
    double values[DAO_TEST_PLAN_BUFFERS_MAX] = {0};
    dao_test_plan_make_hard(&plan, 4);
    CU_ASSERT_EQUAL_FATAL(dao_plan_instance_make(&instance, &plan.problem), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_search_model_init(&model, &instance, &work), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_fit_create(&model, &fit), DAO_OK);
    dao_plan_units_t bound = (dao_plan_units_t)(instance.bound_bytes / model.unit_bytes);
    dao_plan_fit_start(fit, bound, 10, values);
    CU_ASSERT_EQUAL(dao_plan_fit_step(fit, &work, &end), DAO_OK);
    CU_ASSERT_EQUAL(end, DAO_PLAN_FIT_LIMIT);
    dao_plan_fit_start(fit, bound - 1, UINT64_MAX, values);
    CU_ASSERT_EQUAL(dao_plan_fit_step(fit, &work, &end), DAO_OK);
    CU_ASSERT_EQUAL(end, DAO_PLAN_FIT_NONE);
    dao_plan_fit_start(fit, 100 * bound, UINT64_MAX, values);
    CU_ASSERT_EQUAL(dao_plan_fit_step(fit, &work, &end), DAO_OK);
    CU_ASSERT_EQUAL(end, DAO_PLAN_FIT_FOUND);
    CU_ASSERT_TRUE(dao_plan_fit_is_valid(fit));
    dao_plan_fit_destroy(fit);
    dao_plan_search_model_finish(&model);
    dao_plan_instance_finish(&instance);
}

/* ---- instances beside the project ---- */

/* Reads rows of id, lower, upper, size. */
static dao_plan_buffer_t *read_instance(const char *path, size_t *out_count)
{
    FILE *file = fopen(path, "r");
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    dao_plan_buffer_t *buffers = calloc(1000, sizeof(*buffers));
    char line[256];
    size_t count = 0;
    while (fgets(line, sizeof(line), file) != NULL && count < 1000) {
        dao_plan_buffer_t *buffer = &buffers[count];
        buffer->fixed_offset = DAO_PLAN_NOWHERE;
        const char *comma = strchr(line, ',');
        count += comma != NULL && sscanf(comma, ",%" SCNu64 ",%" SCNu64 ",%" SCNu64, &buffer->begin_time,
                                         &buffer->end_time, &buffer->size_bytes) == 3
                     ? 1
                     : 0;
    }
    (void)fclose(file);
    *out_count = count;
    return buffers;
}

static void hard_instances_attain_their_bound(void)
{
    static const char *const names[] = {"A", "B", "G", "H"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64], path[1024];
        (void)snprintf(name, sizeof(name), "data/minimalloc/%s.1048576.csv", names[i]);
        if (!dao_test_shared_file(name, path, sizeof(path))) {
            continue;
        }
        dao_plan_report_t report;
        size_t count = 0;
        dao_plan_buffer_t *buffers = read_instance(path, &count);
        plan.problem = (dao_plan_problem_t){.buffers = buffers, .buffer_count = count};
        CU_ASSERT_EQUAL_FATAL(search(20000000, &report), DAO_OK);
        CU_ASSERT_EQUAL(report.peak_bytes, 1048576);
        CU_ASSERT_TRUE(report.is_proved);
        free(buffers);
    }
}

static CU_TestInfo tests[] = {
    {"small peaks are the lowest there are", small_peaks_are_the_lowest_there_are},
    {"a capacity fits or is proved too small", a_capacity_fits_or_is_proved_too_small},
    {"perfect packings are found", perfect_packings_are_found},
    {"large numbers fit", large_numbers_fit},
    {"slices find what one go finds", slices_find_what_one_go_finds},
    {"a cancelled search keeps its plan", a_cancelled_search_keeps_its_plan},
    {"failed allocations change nothing", failed_allocations_change_nothing},
    {"what it does not know is left alone", what_it_does_not_know_is_left_alone},
    {"a limit of nodes ends a run", a_limit_of_nodes_ends_a_run},
    {"hard instances attain their bound", hard_instances_attain_their_bound},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan search", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
