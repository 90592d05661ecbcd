/* SPDX-License-Identifier: Apache-2.0 */
/* The model of a step: what it refuses, peaks of steps made by hand and of the example, packing against a
   slow model. */
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/read/step/read_json_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static dao_step_trace_t trace;

static void begin(void)
{
    dao_step_trace_init(&trace);
}

static void end(void)
{
    dao_step_trace_finish(&trace);
}

static uint32_t tensor(const char *id, uint64_t size_bytes)
{
    uint32_t index = 0;
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_add_tensor(&trace, id, size_bytes, &index), DAO_OK);
    return index;
}

static void op(const char *name)
{
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_add_operator(&trace, name), DAO_OK);
}

static uint32_t last_op(void)
{
    return (uint32_t)trace.operator_count - 1;
}

static void alloc(const char *id, uint64_t size_bytes)
{
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_add_alloc(&trace, last_op(), id, size_bytes), DAO_OK);
}

static void give(const char *id)
{
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_add_free(&trace, last_op(), id), DAO_OK);
}

static dao_step_figures_t figures(void)
{
    dao_step_figures_t result = {0};
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_pack(&trace), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_figures(&trace, &result), DAO_OK);
    return result;
}

static void an_empty_step_needs_nothing(void)
{
    begin();
    dao_step_figures_t result = figures();
    CU_ASSERT_EQUAL(result.peak_bytes, 0);
    CU_ASSERT_EQUAL(result.largest_work_bytes, 0);
    CU_ASSERT_EQUAL(result.largest_operator, DAO_TRACE_NONE);
    end();
}

/* weights 1000, x 100; y = f(x, weights) with temporaries 500 then 300; weights change in place; x goes. */
static void the_peak_counts_outputs_temporaries_and_releases(void)
{
    begin();
    uint32_t weights = tensor("w", 1000), x = tensor("x", 100), y = tensor("y", 200), z = tensor("z", 50);
    op("f");
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, x), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_output(&trace, y), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_release(&trace, x), DAO_OK);
    alloc("0:0", 500);
    give("0:0");
    alloc("0:1", 300);
    op("g");
    dao_step_trace_begin_temporaries(&trace, 1);
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, y), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_mutate(&trace, weights), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_output(&trace, z), DAO_OK);
    dao_step_figures_t result = figures();
    CU_ASSERT_EQUAL(result.persistent_bytes, 1100);
    CU_ASSERT_EQUAL(result.persistent_count, 2);
    CU_ASSERT_EQUAL(result.peak_bytes, 1000 + 100 + 200 + 500);
    CU_ASSERT_EQUAL(result.rounded_bytes, 1024 + 256 + 256 + 512);
    CU_ASSERT_EQUAL(result.largest_operator, 0);
    CU_ASSERT_EQUAL(result.largest_work_bytes, 1024 + 256 + 256 + 512);
    CU_ASSERT_EQUAL(trace.operators[1].operands.count, 3);
    end();
}

static void an_operand_named_twice_counts_once(void)
{
    begin();
    uint32_t x = tensor("x", 256), y = tensor("y", 256);
    op("square");
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, x), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, x), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_mutate(&trace, x), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_output(&trace, y), DAO_OK);
    uint64_t work_bytes = 0;
    CU_ASSERT_EQUAL(dao_step_trace_work(&trace, 0, &work_bytes), DAO_OK);
    CU_ASSERT_EQUAL(work_bytes, 512);
    CU_ASSERT_EQUAL(trace.operands[0].access, DAO_ACCESS_READ_WRITE);
    end();
}

static void expect_refused(dao_status_t status, const char *fragment)
{
    CU_ASSERT_EQUAL(status, DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), fragment));
}

static void what_cannot_be_is_refused(void)
{
    begin();
    uint32_t x = tensor("x", 4), y = tensor("y", 4);
    op("a");
    CU_ASSERT_EQUAL(dao_step_trace_add_input(&trace, x), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_add_output(&trace, y), DAO_OK);
    expect_refused(dao_step_trace_add_output(&trace, y),
                   "operator 0 produces tensor y, which operator 0 has produced");
    expect_refused(dao_step_trace_add_output(&trace, x),
                   "operator 0 uses it before anything is written to it");
    CU_ASSERT_EQUAL(dao_step_trace_add_release(&trace, x), DAO_OK);
    expect_refused(dao_step_trace_add_release(&trace, x), "releases tensor x, which operator 0 released");
    expect_refused(dao_step_trace_add_free(&trace, 0, "t"), "frees temporary t before it is allocated");
    alloc("t", 8);
    expect_refused(dao_step_trace_add_alloc(&trace, 0, "t", 8), "allocates temporary t, which is live");
    give("t");
    expect_refused(dao_step_trace_add_free(&trace, 0, "t"), "frees temporary t twice");
    alloc("t", 8);
    op("b");
    expect_refused(dao_step_trace_add_input(&trace, x),
                   "operator 1 reads tensor x, which operator 0 released");
    expect_refused(dao_step_trace_add_mutate(&trace, x), "operator 1 changes tensor x");
    end();
}

static void sums_beyond_64_bits_are_refused_by_name(void)
{
    begin();
    tensor("huge", UINT64_MAX - 4096);
    uint32_t more = tensor("more", 8192);
    op("too much");
    dao_step_figures_t result;
    CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &result), DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "tensor more of 8192 bytes"));
    CU_ASSERT_EQUAL(dao_step_trace_add_output(&trace, more), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &result), DAO_ERR_OVERFLOW);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "operator 0 \"too much\""));
    alloc("t", UINT64_MAX);
    CU_ASSERT_EQUAL(dao_step_trace_pack(&trace), DAO_ERR_OVERFLOW);
    end();
}

/* A bitmap of 256-byte units is the slow model of first fit. */
enum { UNIT_COUNT = 4096 };

static uint64_t slow_first_fit(bool *used, uint64_t units)
{
    for (uint64_t at = 0;; at++) {
        uint64_t length = 0;
        while (length < units && !used[at + length]) {
            length++;
        }
        if (length == units) {
            memset(used + at, true, units);
            return at;
        }
    }
}

static void make_random_operator(uint64_t *state)
{
    bool is_live[64] = {false};
    char id[16];
    op("random");
    dao_step_trace_begin_temporaries(&trace, last_op());
    for (int i = 0; i < 120; i++) {
        unsigned which = (unsigned)(dao_random_next(state) % 40);
        (void)snprintf(id, sizeof(id), "t%u", which);
        if (is_live[which]) {
            give(id);
        } else {
            alloc(id, dao_random_next(state) % 5000);
        }
        is_live[which] = !is_live[which];
    }
}

static void packing_is_first_fit(void)
{
    uint64_t state = dao_test_seed("packing is first fit", 7);
    begin();
    for (int i = 0; i < 50; i++) {
        make_random_operator(&state);
    }
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_pack(&trace), DAO_OK);
    for (size_t o = 0; o < trace.operator_count; o++) {
        static bool used[UNIT_COUNT];
        memset(used, 0, sizeof(used));
        uint64_t peak = 0;
        const dao_trace_operator_t *op = &trace.operators[o];
        for (size_t e = 0; e < op->events.count; e++) {
            const dao_trace_event_t *event = &trace.events[op->events.begin + e];
            const dao_trace_temporary_t *temporary =
                &trace.temporaries[op->temporaries.begin + event->temporary];
            uint64_t units = (temporary->size_bytes + 255) / 256;
            if (units == 0) {
                continue;
            }
            if (event->is_alloc) {
                CU_ASSERT_EQUAL(temporary->offset_bytes, slow_first_fit(used, units) * 256);
                uint64_t top = temporary->offset_bytes + units * 256;
                peak = top > peak ? top : peak;
            } else {
                memset(used + temporary->offset_bytes / 256, false, units);
            }
        }
        CU_ASSERT_EQUAL(op->workspace_bytes, peak);
    }
    end();
}

static void the_example_has_its_published_figures(void)
{
    begin();
    if (dao_read_json_step(DAO_TEST_TRACE, NULL, &trace) != DAO_OK) {
        CU_FAIL_FATAL("the example trace cannot be read");
    }
    dao_step_figures_t result = figures();
    CU_ASSERT_STRING_EQUAL(trace.model, "mobilenet_v2");
    CU_ASSERT_STRING_EQUAL(trace.batch, "4");
    CU_ASSERT_EQUAL(trace.operator_count, 2366);
    CU_ASSERT_EQUAL(trace.tensor_count, 2524);
    CU_ASSERT_EQUAL(trace.temporary_count, 2057);
    CU_ASSERT_EQUAL(trace.ignored_count, 0);
    CU_ASSERT_EQUAL(result.peak_bytes, 362281164);
    CU_ASSERT_EQUAL(result.persistent_bytes, 44604440);
    CU_ASSERT_EQUAL(result.persistent_count, 790);
    CU_ASSERT_TRUE(result.largest_work_bytes < result.peak_bytes);
    end();
}

/* The traces beside the project, where they are. Peaks were computed by a separate program. */
static void other_traces_have_their_peaks(void)
{
    static const struct {
        const char *path;
        uint64_t peak_bytes;
    } others[] = {
        {"resnet50", 1053569524}, {"gpt2_small", 3021888188}, {"lstm", 222867788}, {"moe", 527309956}};
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        char path[512];
        if (!dao_test_shared_trace(others[i].path, path, sizeof(path))) {
            (void)printf("    no %s here: not looked at\n", others[i].path);
            continue;
        }
        begin();
        CU_ASSERT_EQUAL_FATAL(dao_read_json_step(path, NULL, &trace), DAO_OK);
        CU_ASSERT_EQUAL(figures().peak_bytes, others[i].peak_bytes);
        end();
    }
}

static CU_TestInfo tests[] = {
    {"an empty step needs nothing", an_empty_step_needs_nothing},
    {"the peak counts outputs, temporaries and releases", the_peak_counts_outputs_temporaries_and_releases},
    {"an operand named twice counts once", an_operand_named_twice_counts_once},
    {"what cannot be is refused", what_cannot_be_is_refused},
    {"sums beyond 64 bits are refused by name", sums_beyond_64_bits_are_refused_by_name},
    {"packing is first fit", packing_is_first_fit},
    {"the example has its published figures", the_example_has_its_published_figures},
    {"other traces have their peaks", other_traces_have_their_peaks},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"step_trace", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
