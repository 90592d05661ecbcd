/* SPDX-License-Identifier: Apache-2.0 */
/* Execution traces of both schemas: the order of calls, what is a tensor, storages and devices, what is
   wrong; and the real files that lie beside the project. */
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/read/step/read_execution_trace.h"
#include "tools/read/step/read_step.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TENSOR(storage, offset, elements, device)                                                            \
    "[1, " #storage ", " #offset ", " #elements ", 4, \"" device "\"]"
#define NODE(id, name, inputs, outputs)                                                                      \
    "{\"id\": " #id ", \"name\": \"" name "\", \"inputs\": " inputs ", \"outputs\": " outputs "}"

/* mm makes 2 of 1; its parent, whose line stands behind it, also has the weight 3, which lies in a list. A
   host tensor and numbers are stepped over. */
static const char plain[] = "{\"schema\": \"1.0.1\", \"nodes\": [" NODE(
    4, "aten::mm", "[" TENSOR(1, 0, 10, "cuda:0") ", 7, [1, 2], \"x\"]",
    "[" TENSOR(
        2, 0, 4,
        "cuda:0") "]") ", " NODE(3, "aten::linear",
                                 "[" TENSOR(1, 2, 10, "cuda:0") ", [" TENSOR(3, 0, 100, "cuda:0") "]]",
                                 "[" TENSOR(
                                     9, 0, 5,
                                     "cpu") "]") ", " NODE(5, "aten::relu_",
                                                           "[" TENSOR(2, 0, 4, "cuda:0") "]",
                                                           "[" TENSOR(
                                                               2, 0, 4,
                                                               "cuda:0") "]") ", " NODE(6, "none",
                                                                                        "[" TENSOR(
                                                                                            0, 0, 4,
                                                                                            "cuda:0") ", [1, "
                                                                                                      "5, 0, "
                                                                                                      "1, 4, "
                                                                                                      "\"\"],"
                                                                                                      " [1, "
                                                                                                      "2, 3, "
                                                                                                      "4, "
                                                                                                      "5]]",
                                                                                        "[]") "]}";

static dao_status_t read_text(const char *text, dao_step_trace_t *out_trace)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    return dao_read_step(dao_test_path, NULL, out_trace);
}

static void calls_are_in_the_order_of_their_begins(void)
{
    dao_step_trace_t trace;
    dao_step_figures_t figures;
    CU_ASSERT_EQUAL_FATAL(read_text(plain, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.operator_count, 3);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_trace_operator_name(&trace, 0), "aten::linear"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_trace_operator_name(&trace, 1), "aten::mm"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_trace_operator_name(&trace, 2), "aten::relu_"));
    CU_ASSERT_EQUAL(trace.tensor_count, 3);
    CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &figures), DAO_OK);
    /* 1 is 12 elements by the tensor that begins at 2; 2 is 4, 3 is 100; 4 bytes each. */
    CU_ASSERT_EQUAL(figures.persistent_bytes, 448);
    CU_ASSERT_EQUAL(figures.peak_bytes, 464);
    dao_step_trace_finish(&trace);
}

static void the_later_schema_is_the_same(void)
{
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(
        read_text("{\"schema\": \"1.0.3-chakra.0.0.4\", \"nodes\": [{\"id\": 1, \"name\": \"a\", \"inputs\": "
                  "{\"values\": [], \"shapes\": [[1, 2]]}, \"outputs\": {\"types\": [], \"values\": [" TENSOR(
                      7, 0, 2, "cuda:0") "]}, \"attrs\": [{\"name\": \"x\"}]}]}",
                  &trace),
        DAO_OK);
    CU_ASSERT_EQUAL(trace.operator_count, 1);
    CU_ASSERT_EQUAL(trace.tensor_count, 1);
    CU_ASSERT_EQUAL(trace.tensors[0].size_bytes, 8);
    dao_step_trace_finish(&trace);
}

static void what_is_wrong_is_told(void)
{
    static const struct {
        const char *text;
        dao_status_t status;
        const char *wanted;
    } wrong[] = {
        {"{\"nodes\": [{\"id\": 1, \"name\": \"a\", \"inputs\": [[1, 2, 0, 1, 4, \"cuda:0\"]]}]} 7",
         DAO_ERR_PARSE, "found, expected nothing more"},
        {"{\"nodes\": []}", DAO_ERR_PARSE, "no node of it names a tensor"},
        {"{\"nodes\": {}}", DAO_ERR_PARSE, ":1:11: expected a list of nodes"},
        {"{\"nodes\": [7]}", DAO_ERR_PARSE, ":1:12: expected a node"},
        {"{\"nodes\": [{\"id\": \"x\"}]}", DAO_ERR_PARSE, "expected a number"},
        {"{\"nodes\": [{\"id\": 1}]}", DAO_ERR_PARSE, "this node has no name"},
        {"{\"nodes\": [{\"id\": 1, \"name\": \"a\", \"inputs\": [[1, 2, 18446744073709551615, 1, 4, "
         "\"cuda:0\"]]}]}",
         DAO_ERR_OVERFLOW, "the end of this tensor does not fit 64 bits"},
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_step_trace_t trace;
        CU_ASSERT_EQUAL(read_text(wrong[i].text, &trace), wrong[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), wrong[i].wanted));
    }
    for (size_t length = 0; length < sizeof(plain) - 1; length++) {
        dao_step_trace_t trace;
        dao_test_write_file(dao_test_path, plain, length);
        CU_ASSERT_NOT_EQUAL(dao_read_step(dao_test_path, NULL, &trace), DAO_OK);
    }
}

#if defined(DAO_FAULTS)
static void want_of_memory_is_told(void)
{
    bool is_complete = false;
    dao_test_write_file(dao_test_path, plain, sizeof(plain) - 1);
    for (uint64_t skip = 0; !is_complete; skip++) {
        dao_step_trace_t trace;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, skip, false);
        dao_status_t status = dao_read_execution_trace(dao_test_path, &trace);
        is_complete = dao_fault_disarm() == 0;
        CU_ASSERT_EQUAL(status, is_complete ? DAO_OK : DAO_ERR_NO_HOST_MEMORY);
        if (status == DAO_OK) {
            dao_step_trace_finish(&trace);
        }
    }
}
#endif

/* Peaks that a script which shares no code with this counted. */
static void real_files_have_their_peaks(void)
{
    static const struct {
        const char *name;
        uint64_t peak_bytes;
    } files[] = {{"dlrm_eg_0.json.gz", 5134197584},
                 {"linear_et.json.gz", 254980096},
                 {"resnet_1gpu_et_1.0.3.json.gz", 3700422360}};
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        char path[512];
        dao_step_trace_t trace;
        dao_step_figures_t figures = {0};
        (void)snprintf(path, sizeof(path), "%s/../shared/data/torch-et/%s", DAO_TEST_SOURCE_DIR,
                       files[i].name);
        if (access(path, R_OK) != 0) {
            continue; /* the files are not a part of the project; its own are above */
        }
        CU_ASSERT_EQUAL_FATAL(dao_read_step(path, NULL, &trace), DAO_OK);
        CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &figures), DAO_OK);
        CU_ASSERT_EQUAL(figures.peak_bytes, files[i].peak_bytes);
        dao_step_trace_finish(&trace);
    }
}

static CU_TestInfo tests[] = {
    {"calls are in the order of their begins", calls_are_in_the_order_of_their_begins},
    {"the later schema is the same", the_later_schema_is_the_same},
    {"what is wrong is told", what_is_wrong_is_told},
#if defined(DAO_FAULTS)
    {"want of memory is told", want_of_memory_is_told},
#endif
    {"real files have their peaks", real_files_have_their_peaks},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"execution trace", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
