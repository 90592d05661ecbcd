/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of kernels and of the tensors that each uses: a good one is the step that it means; wrong ones are
   refused with file, line and column. */
#include "tests/support/suite.h"
#include "tools/read/step/read_step.h"

#include <inttypes.h>
#include <string.h>

static dao_status_t read_text(const char *text, dao_step_trace_t *out_trace)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    return dao_read_step(dao_test_path, NULL, out_trace);
}

/* Tensor 3 is used by nobody; the second kernel names tensor 1 twice. */
static void a_list_is_a_step(void)
{
    static const struct {
        uint64_t size_bytes;
        uint32_t producer, released_by;
    } tensors[] = {{4096, 0, 0}, {1024, 0, 2}, {512, 1, 2}};
    static const uint64_t costs_ns[] = {250000, 1500000, 1};
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(
        read_text("4 3\n4096 1024\r\n512 7\n0.25 2 0 1\n1.5 3 1 2 1\n0.000001 2 2 1\n\n", &trace), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(trace.operator_count, 3);
    CU_ASSERT_EQUAL_FATAL(trace.tensor_count, 3);
    for (uint32_t i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(trace.tensors[i].size_bytes, tensors[i].size_bytes);
        CU_ASSERT_EQUAL(trace.tensors[i].producer, tensors[i].producer);
        CU_ASSERT_EQUAL(trace.tensors[i].released_by, tensors[i].released_by);
        CU_ASSERT_EQUAL(trace.operators[i].cost_ns, costs_ns[i]);
    }
    CU_ASSERT_EQUAL_FATAL(trace.operators[1].operands.count, 2);
    CU_ASSERT_EQUAL(trace.operands[trace.operators[1].operands.begin].access, DAO_ACCESS_READ_WRITE);
    dao_step_trace_finish(&trace);
}

static void wrong_lists_are_told_with_their_place(void)
{
    static const struct {
        const char *text, *wanted;
        dao_status_t status;
    } lists[] = {
        {"2 1\n8\n", ":3:1: expected the sizes of 2 tensors", DAO_ERR_PARSE},
        {"2 1\n8 8 8\n", ":2:5: the first line tells of 2 tensors only", DAO_ERR_PARSE},
        {"1 1\n8k\n", ":2:1: ", DAO_ERR_PARSE},
        {"1 1\n8\n1 1 1\n", ":3:5: there is no tensor 1: they are 0 to 0", DAO_ERR_PARSE},
        {"0 1\n1 1 0\n", ":2:5: there are no tensors", DAO_ERR_PARSE},
        {"1 1\n8\n-1 1 0\n", ":3:1: expected a duration in milliseconds", DAO_ERR_PARSE},
        {"1 1\n8\n99999999999999999 1 0\n", ":3:1: this duration is too long", DAO_ERR_OVERFLOW},
        {"1 1\n8\n1 2 0\n", ":3:6: ", DAO_ERR_PARSE},
        {"1 1\n8\n1 1 0 0\n", ":3:7: expected the end of the line", DAO_ERR_PARSE},
        {"1 2\n8\n1 1 0\n", ":4:1: ", DAO_ERR_PARSE},
        {"1 1\n8\n1 1 0\n1 1 0\n", ":4:1: ", DAO_ERR_PARSE},
        {"1 18446744073709551616\n8\n", ":1:3: ", DAO_ERR_OVERFLOW},
    };
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        dao_step_trace_t trace;
        dao_status_t status = read_text(lists[i].text, &trace);
        CU_ASSERT_EQUAL(status, lists[i].status);
        if (status == DAO_OK || strstr(dao_last_message(), lists[i].wanted) == NULL) {
            printf("list %zu: \"%s\"\n", i, dao_last_message());
            CU_FAIL("another message was wanted");
        }
        if (status == DAO_OK) {
            dao_step_trace_finish(&trace);
        }
    }
}

static CU_TestInfo tests[] = {
    {"a list is a step", a_list_is_a_step},
    {"wrong lists are told with their place", wrong_lists_are_told_with_their_place},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"use_list", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
