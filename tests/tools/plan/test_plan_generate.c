/* SPDX-License-Identifier: Apache-2.0 */
/* The steps that are made: every life ends, equal seeds make equal steps, and their figures are near those of
   the steps that the planner's first measurements were taken on. */
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/plan/plan_generate.h"
#include "tools/read/events/read_lifetimes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const kinds[] = {"tf", "pp", "rec", "rnd", "cut"};

enum { KIND_COUNT = sizeof(kinds) / sizeof(kinds[0]) };

static void make(const char *text, dao_plan_input_t *out_lifetimes)
{
    dao_plan_generate_config_t config;
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate_parse(text, &config), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_generate(&config, out_lifetimes), DAO_OK);
}

static void every_life_ends(void)
{
    static const uint64_t counts[] = {16, 100, 1777, 12000};
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        for (size_t i = 0; i < 4; i++) {
            char text[64];
            dao_plan_input_t lifetimes;
            (void)snprintf(text, sizeof(text), "%s:%" PRIu64 ":7", kinds[kind], counts[i]);
            make(text, &lifetimes);
            CU_ASSERT(lifetimes.buffer_count >= counts[i]);
            CU_ASSERT_EQUAL(lifetimes.left_out_count, 0);
            uint64_t wrong_count = 0;
            for (size_t k = 0; k < lifetimes.buffer_count; k++) {
                const dao_plan_buffer_t *buffer = &lifetimes.buffers[k];
                wrong_count += buffer->end_time <= buffer->begin_time || buffer->end_time == UINT64_MAX ||
                               buffer->size_bytes % 256 != 0;
            }
            CU_ASSERT_EQUAL(wrong_count, 0);
            dao_plan_input_finish(&lifetimes);
        }
    }
}

static void equal_seeds_make_equal_steps(void)
{
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        char text[3][64];
        dao_plan_input_t lifetimes[3];
        for (int i = 0; i < 3; i++) {
            (void)snprintf(text[i], sizeof(text[i]), "%s:500:%d", kinds[kind], i < 2 ? 3 : 4);
            make(text[i], &lifetimes[i]);
        }
        size_t bytes = lifetimes[0].buffer_count * sizeof(dao_plan_buffer_t);
        CU_ASSERT_EQUAL_FATAL(lifetimes[0].buffer_count, lifetimes[1].buffer_count);
        CU_ASSERT_EQUAL(memcmp(lifetimes[0].buffers, lifetimes[1].buffers, bytes), 0);
        CU_ASSERT(lifetimes[2].buffer_count != lifetimes[0].buffer_count ||
                  memcmp(lifetimes[0].buffers, lifetimes[2].buffers, bytes) != 0);
        for (int i = 0; i < 3; i++) {
            dao_plan_input_finish(&lifetimes[i]);
        }
    }
}

static uint64_t live_bytes(const dao_plan_input_t *lifetimes)
{
    dao_alloc_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(lifetimes, false, &trace), DAO_OK);
    uint64_t bytes = trace.peak_bytes;
    dao_alloc_trace_finish(&trace);
    return bytes;
}

/* Counts of the transformer do not depend on what is drawn; the others', and all bytes, do. */
static void figures_are_those_of_the_first_measurements(void)
{
    static const struct {
        const char *text;
        uint64_t buffer_count, live_bytes;
        double most_count, most_bytes; /* how many times as much, or as little */
    } steps[] = {
        {"tf:2000:1", 2100, 12259712000, 1, 1.02},    {"tf:20000:1", 20130, 16334009856, 1, 1.02},
        {"pp:2000:1", 2024, 12405035520, 1.01, 1.35}, {"pp:20000:1", 20048, 25743028224, 1.01, 1.35},
        {"rec:2000:1", 2000, 347958528, 1.02, 2},     {"rec:20000:1", 20002, 471382784, 1.02, 2},
        {"rnd:2000:1", 2000, 115938560, 1, 2.5},      {"rnd:20000:1", 20000, 270812928, 1, 2.5},
    };
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        dao_plan_input_t lifetimes;
        make(steps[i].text, &lifetimes);
        double count = (double)lifetimes.buffer_count / (double)steps[i].buffer_count;
        double bytes = (double)live_bytes(&lifetimes) / (double)steps[i].live_bytes;
        (void)printf("    %s: %.4f times the buffers, %.4f times the bytes\n", steps[i].text, count, bytes);
        CU_ASSERT(count <= steps[i].most_count && 1 / count <= steps[i].most_count);
        CU_ASSERT(bytes <= steps[i].most_bytes && 1 / bytes <= steps[i].most_bytes);
        dao_plan_input_finish(&lifetimes);
    }
}

/* At every time all of the square is alive. */
static void a_square_stays_whole(void)
{
    dao_plan_input_t lifetimes;
    uint64_t area = 0;
    make("cut:3000:5", &lifetimes);
    for (size_t i = 0; i < lifetimes.buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &lifetimes.buffers[i];
        area += (buffer->end_time - buffer->begin_time) * buffer->size_bytes;
    }
    CU_ASSERT_EQUAL(lifetimes.buffer_count, 3000);
    CU_ASSERT_EQUAL(area, UINT64_C(1) << 40);
    CU_ASSERT_EQUAL(live_bytes(&lifetimes), 1 << 20);
    dao_plan_input_finish(&lifetimes);
}

static void what_is_no_step_is_told(void)
{
    static const char *const texts[] = {
        "",         "tf",      "tf:",     "tf:15",         "xy:100",
        "t:100",    "tfx:100", "tf:100:", "tf:100:1:2",    "tf:-100",
        "tf:1e6",   "tf: 100", "tf:100x", "rnd:134217729", "rnd:99999999999999999999",
        "tf:100:+1"};
    dao_plan_generate_config_t config = {0};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        CU_ASSERT_EQUAL(dao_plan_generate_parse(texts[i], &config), DAO_ERR_INVALID);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "is not KIND:COUNT or KIND:COUNT:SEED"));
    }
    CU_ASSERT_EQUAL(dao_plan_generate_parse("rnd:16", &config), DAO_OK);
    CU_ASSERT_EQUAL(config.seed, 1);
    CU_ASSERT_EQUAL(config.kind, DAO_PLAN_KIND_RND);
}

static void steps_without_memory_are_refused(void)
{
    for (size_t kind = 0; kind < KIND_COUNT; kind++) {
        char text[64];
        dao_plan_generate_config_t config;
        uint64_t failed = 1;
        (void)snprintf(text, sizeof(text), "%s:60", kinds[kind]);
        CU_ASSERT_EQUAL_FATAL(dao_plan_generate_parse(text, &config), DAO_OK);
        for (uint64_t n = 0; failed > 0; n++) {
            dao_plan_input_t lifetimes;
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            dao_status_t status = dao_plan_generate(&config, &lifetimes);
            failed = dao_fault_disarm();
            CU_ASSERT_EQUAL(status == DAO_OK, failed == 0);
            if (status == DAO_OK) {
                dao_plan_input_finish(&lifetimes);
            }
        }
    }
}

static CU_TestInfo tests[] = {
    {"every life ends", every_life_ends},
    {"equal seeds make equal steps", equal_seeds_make_equal_steps},
    {"figures are those of the first measurements", figures_are_those_of_the_first_measurements},
    {"a square stays whole", a_square_stays_whole},
    {"what is no step is told", what_is_no_step_is_told},
    {"steps without memory are refused", steps_without_memory_are_refused},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"plan_generate", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
