/* SPDX-License-Identifier: Apache-2.0 */
/* Where the forward pass ends: as recorded, by a name, or where the labels meet the prediction. */
#include "tests/support/suite.h"
#include "tools/simulate/forward_end.h"

#include <string.h>

#define NEED(call) CU_ASSERT_EQUAL_FATAL((call), DAO_OK)

enum { INPUT_MAX = 2, OPERATOR_MAX = 12, NO_INPUT = 99 };

/* Operator i makes tensor i. */
typedef struct row {
    const char *name;
    uint32_t inputs[INPUT_MAX];
} row_t;

typedef struct shape {
    const char *what;
    row_t rows[OPERATOR_MAX]; /* up to one without a name */
    uint32_t last_forward;
} shape_t;

static const shape_t shapes[] = {
    {"the loss is a few operators",
     {{"Raster", {NO_INPUT, NO_INPUT}}, /* 0: data */
      {"MatMul", {0, NO_INPUT}},
      {"Raster", {NO_INPUT, NO_INPUT}}, /* 2: weights of classes */
      {"OneHot", {NO_INPUT, NO_INPUT}},
      {"Raster", {3, NO_INPUT}},
      {"BinaryOp", {4, 2}},      /* 5: the target */
      {"Raster", {1, NO_INPUT}}, /* 6: the prediction */
      {"BinaryOp", {5, 6}},      /* they meet */
      {"Reduction", {7, NO_INPUT}},
      {"BinaryOp", {8, 1}}},
     7},
    {"the prediction is used twice behind a softmax",
     {{"OneHot", {NO_INPUT, NO_INPUT}},
      {"Raster", {NO_INPUT, NO_INPUT}},
      {"BinaryOp", {1, 0}}, /* 2: the target */
      {"MatMul", {NO_INPUT, NO_INPUT}},
      {"Softmax", {3, NO_INPUT}},
      {"BinaryOp", {4, 2}}, /* they meet */
      {"BinaryOp", {4, 5}},
      {"Reduction", {6, NO_INPUT}},
      {"BinaryOp", {7, 4}}},
     6},
    {"copies of the prediction",
     {{"OneHot", {NO_INPUT, NO_INPUT}},
      {"Raster", {0, NO_INPUT}},
      {"Raster", {NO_INPUT, NO_INPUT}},
      {"BinaryOp", {2, 1}}, /* 3: the target */
      {"Softmax", {2, NO_INPUT}},
      {"Raster", {4, NO_INPUT}}, /* 5: the prediction */
      {"BinaryOp", {5, 3}},      /* they meet */
      {"Raster", {4, NO_INPUT}},
      {"Raster", {6, NO_INPUT}},
      {"BinaryOp", {7, 8}}},
     7},
    {"the target meets the prediction in the last operator",
     {{"OneHot", {NO_INPUT, NO_INPUT}},
      {"MatMul", {NO_INPUT, NO_INPUT}},
      {"BinaryOp", {0, 1}},
      {"BinaryOp", {1, 2}}},
     3},
    {"a name says it",
     {{"Softmax", {NO_INPUT, NO_INPUT}}, {"loss", {0, NO_INPUT}}, {"SoftmaxBackward", {1, NO_INPUT}}},
     1},
    {"labels meet nothing",
     {{"OneHot", {NO_INPUT, NO_INPUT}}, {"Raster", {0, NO_INPUT}}, {"Softmax", {NO_INPUT, NO_INPUT}}},
     DAO_TRACE_NONE},
    {"no labels",
     {{"MatMul", {NO_INPUT, NO_INPUT}}, {"Softmax", {0, NO_INPUT}}, {"BinaryOp", {1, 0}}},
     DAO_TRACE_NONE},
};

static void make(const shape_t *shape, dao_step_trace_t *trace)
{
    uint32_t tensor = 0;
    dao_step_trace_init(trace);
    for (uint32_t i = 0; shape->rows[i].name != NULL; i++) {
        const char id[] = {(char)('a' + i), '\0'};
        NEED(dao_step_trace_add_tensor(trace, id, 1, &tensor));
    }
    for (uint32_t i = 0; shape->rows[i].name != NULL; i++) {
        NEED(dao_step_trace_add_operator(trace, shape->rows[i].name));
        for (uint32_t k = 0; k < INPUT_MAX && shape->rows[i].inputs[k] != NO_INPUT; k++) {
            NEED(dao_step_trace_add_input(trace, shape->rows[i].inputs[k]));
        }
        NEED(dao_step_trace_add_output(trace, i));
    }
    NEED(dao_step_trace_pack(trace));
}

static void labels_and_names_say_where(void)
{
    for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
        dao_step_trace_t trace;
        uint32_t last = DAO_TRACE_NONE;
        make(&shapes[i], &trace);
        bool is_known = shapes[i].last_forward != DAO_TRACE_NONE;
        CU_ASSERT_EQUAL(dao_forward_end_find(&trace, &last), is_known ? DAO_OK : DAO_ERR_UNSUPPORTED);
        CU_ASSERT_EQUAL(last, shapes[i].last_forward);
        if (last != shapes[i].last_forward) {
            (void)printf("    %s: %u\n", shapes[i].what, last);
        }
        CU_ASSERT_TRUE(is_known || strstr(dao_last_message(), "--threshold") != NULL);
        dao_step_trace_finish(&trace);
    }
}

static void what_is_recorded_comes_first(void)
{
    dao_step_trace_t trace;
    uint32_t last = DAO_TRACE_NONE;
    make(&shapes[0], &trace);
    trace.first_backward = 3;
    NEED(dao_forward_end_find(&trace, &last));
    CU_ASSERT_EQUAL(last, 2);
    dao_step_trace_finish(&trace);
}

static CU_TestInfo tests[] = {
    {"labels and names say where", labels_and_names_say_where},
    {"what is recorded comes first", what_is_recorded_comes_first},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"forward end", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
