/* SPDX-License-Identifier: Apache-2.0 */
/* Reading the files that say which kernel accesses which tensors: `.tr`, and JSON lines made from G10's
   graphs. Good ones become the step that they mean; wrong ones are refused with code, file, line and
   column. */
#define _GNU_SOURCE
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/read/kernels/read_g10.h"
#include "tools/read/kernels/read_tr.h"
#include "tools/read/step/read_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef enum form { TR, G10, FORM_COUNT } form_t;

static const char *const endings[FORM_COUNT] = {"s.tr", "s.jsonl"};

/* The same step twice: 0 is a weight, 1 fed, 2 produced, read, overwritten, read again; 3 only written. */
static const char *const good[FORM_COUNT] = {
    "T 4\n0 4096 1 a weight\n1 1000 0 input\n2 512 0 y\n3 256 0 \n"
    "K 4 2\n1.5 3 0:1 1:1 2:2\n0.0004 1 2:1\n10 2 2:2 0:3\n2 3 2:1 0:2 3:2\n",
    "{\"format\":\"g10-derived "
    "1\",\"model\":\"m\",\"batch\":7,\"cycles_per_second\":2000000000,\"gpu\":\"x\","
    "\"tensors\":4,\"kernels\":4}\n"
    "{\"tensor\":0,\"weight\":1,\"size\":4096}\n{\"weight\":0,\"size\":1000,\"tensor\":1}\n"
    "{\"tensor\":2,\"weight\":0,\"size\":512}\n{\"tensor\":3,\"weight\":0,\"size\":256}\n"
    "{\"kernel\":0,\"name\":\"A_Forward\",\"cycles\":3000,\"inputs\":[0,1],\"outputs\":[2],\"workspace\":0}\n"
    "{\"kernel\":1,\"name\":\"B\",\"cycles\":0,\"inputs\":[2,2],\"outputs\":[],\"workspace\":0}\n"
    "{\"kernel\":2,\"name\":\"A_Backward\",\"cycles\":20000,\"inputs\":[0],\"outputs\":[2,0],\"workspace\":0}"
    "\n"
    "{\"kernel\":3,\"name\":\"C\",\"cycles\":4000,\"inputs\":[2],\"outputs\":[0,3],\"workspace\":300}\n",
};

static char folder[] = "/tmp/dao-test-accesses-XXXXXX";

static void path_of(form_t form, char out_path[256])
{
    (void)snprintf(out_path, 256, "%s/%s", folder, endings[form]);
}

static void write_bytes(form_t form, const char *bytes, size_t length)
{
    char path[256];
    path_of(form, path);
    dao_test_write_file(path, bytes, length);
}

static int make_folder(void)
{
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void)
{
    for (form_t form = 0; form < FORM_COUNT; form++) {
        char path[256];
        path_of(form, path);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static dao_status_t read_form(form_t form, dao_step_trace_t *out_trace)
{
    char path[256];
    path_of(form, path);
    return form == TR ? dao_read_tr(path, out_trace) : dao_read_g10(path, out_trace);
}

static dao_status_t try_bytes(form_t form, const char *bytes, size_t length)
{
    dao_step_trace_t trace;
    write_bytes(form, bytes, length);
    dao_status_t status = read_form(form, &trace);
    if (status == DAO_OK) {
        dao_step_trace_finish(&trace);
    }
    return status;
}

/* Tensors in the order of the trace: weight, input, y, y+1, last. */
static void check_good_step(const dao_step_trace_t *trace, bool has_workspace)
{
    static const uint64_t costs_ns[] = {1500, 0, 10000, 2000};
    static const struct {
        uint64_t size_bytes;
        uint32_t producer, released_by;
    } tensors[] = {{4096, DAO_TRACE_NONE, DAO_TRACE_NONE},
                   {1000, DAO_TRACE_NONE, 0},
                   {512, 0, 1},
                   {512, 2, 3},
                   {256, 3, 3}};
    CU_ASSERT_EQUAL_FATAL(trace->operator_count, 4);
    CU_ASSERT_EQUAL_FATAL(trace->tensor_count, 5);
    for (uint32_t i = 0; i < 4; i++) {
        CU_ASSERT_EQUAL(trace->operators[i].cost_ns, costs_ns[i]);
    }
    for (uint32_t i = 0; i < 5; i++) {
        CU_ASSERT_EQUAL(trace->tensors[i].size_bytes, tensors[i].size_bytes);
        CU_ASSERT_EQUAL(trace->tensors[i].producer, tensors[i].producer);
        CU_ASSERT_EQUAL(trace->tensors[i].released_by, tensors[i].released_by);
    }
    const dao_trace_operator_t *last = &trace->operators[3];
    CU_ASSERT_EQUAL_FATAL(last->operands.count, 3);
    for (uint32_t i = 0; i < 3; i++) { /* the weight is overwritten as it is */
        const dao_trace_operand_t *operand = &trace->operands[last->operands.begin + i];
        CU_ASSERT_EQUAL(operand->access, operand->tensor == 3 ? DAO_ACCESS_READ : DAO_ACCESS_WRITE);
    }
    CU_ASSERT_EQUAL(last->workspace_bytes, has_workspace ? 512 : 0);
    CU_ASSERT_EQUAL(trace->first_backward, 2);
    dao_step_figures_t figures;
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_figures(trace, &figures), DAO_OK);
    CU_ASSERT_EQUAL(figures.persistent_bytes, 5096);
    CU_ASSERT_EQUAL(figures.peak_bytes, 5608); /* at the first kernel */
    CU_ASSERT_EQUAL(figures.largest_operator, 0);
}

static void both_forms_give_the_same_step(void)
{
    for (form_t form = 0; form < FORM_COUNT; form++) {
        dao_step_trace_t trace;
        write_bytes(form, good[form], strlen(good[form]));
        CU_ASSERT_EQUAL_FATAL(read_form(form, &trace), DAO_OK);
        check_good_step(&trace, form == G10);
        CU_ASSERT_STRING_EQUAL(trace.model, form == TR ? "s" : "m");
        CU_ASSERT_STRING_EQUAL(trace.batch, form == TR ? "1" : "7");
        CU_ASSERT_STRING_EQUAL(dao_trace_tensor_id(&trace, 0), form == TR ? "a weight.0" : "0");
        CU_ASSERT_STRING_EQUAL(dao_trace_tensor_id(&trace, 3), form == TR ? "y.2+1" : "2+1");
        CU_ASSERT_STRING_EQUAL(dao_trace_operator_name(&trace, 0), form == TR ? "0" : "A_Forward");
        dao_step_trace_finish(&trace);
    }
}

static void harmless_forms_are_accepted(void)
{
    static const char *const tr = "\xef\xbb\xbfT  1 \r\n 18446744073709551615 0  0\t\r\nK 1 1\r\n"
                                  "000.5 1 18446744073709551615:3   \r\n\r\n\n";
    CU_ASSERT_EQUAL(try_bytes(TR, tr, strlen(tr)), DAO_OK);
    CU_ASSERT_EQUAL(try_bytes(TR, "T 0\nK 0 0", 9), DAO_OK);
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(read_form(TR, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.first_backward, DAO_TRACE_NONE);
    dao_step_trace_finish(&trace);
    char name[600] = "T 1\n0 1 1 ";
    memset(name + strlen(name), 'n', 200);
    (void)strcat(name, "\nK 0 0\n");
    write_bytes(TR, name, strlen(name));
    CU_ASSERT_EQUAL_FATAL(read_form(TR, &trace), DAO_OK);
    CU_ASSERT_STRING_EQUAL(dao_trace_tensor_id(&trace, 0) + 60, "nn.0"); /* the number is what counts */
    dao_step_trace_finish(&trace);
}

#define HEAD                                                                                                 \
    "{\"format\":\"g10-derived 1\",\"model\":\"m\",\"batch\":1,\"cycles_per_second\":1,\"tensors\":1,"       \
    "\"kernels\":1}\n{\"tensor\":5,\"weight\":0,\"size\":1}\n"

static const struct {
    form_t form;
    const char *text;
    dao_status_t status;
    const char *fragment;
} cases[] = {
    {TR, "", DAO_ERR_PARSE, "s.tr:1:1: the line ends here, expected T and the number of tensors"},
    {TR, "X 1\n", DAO_ERR_PARSE, ":1:1: expected T and the number of tensors"},
    {TR, "T\n", DAO_ERR_PARSE, ":1:2: the line ends here, expected a count"},
    {TR, "T x\n", DAO_ERR_PARSE, ":1:3: expected a count"},
    {TR, "T 1 2\n", DAO_ERR_PARSE, ":1:5: expected the end of the line"},
    {TR, "T 1\nK 0 0\n", DAO_ERR_PARSE, ":2:1: expected a tensor's number"},
    {TR, "T 99999999999999999999\n", DAO_ERR_OVERFLOW, ":1:3: a count: more than 18446744073709551615"},
    {TR, "T 18446744073709551615\n", DAO_ERR_PARSE, ":2:1: the line ends here, expected a tensor's number"},
    {TR, "T 1\n0 -1 0 x\n", DAO_ERR_PARSE, ":2:3: expected a size in bytes"},
    {TR, "T 1\n0 1 2 x\n", DAO_ERR_PARSE, ":2:5: expected 0 or 1"},
    {TR, "T 2\n0 1 1 x\n00 1 1 y\n", DAO_ERR_PARSE, ":3:8: tensor 0 was there before"},
    {TR, "T 0\nT 0\n", DAO_ERR_PARSE, ":2:1: expected K and the number of kernels"},
    {TR, "T 0\nK 1\n", DAO_ERR_PARSE, ":2:4: the line ends here, expected the first kernel"},
    {TR, "T 0\nK 1 2\n", DAO_ERR_PARSE, ":2:5: there are only 1 kernels"},
    {TR, "T 0\nK 1 0\n", DAO_ERR_PARSE, ":3:1: the line ends here, expected a duration"},
    {TR, "T 0\nK 1 0\n-1 0\n", DAO_ERR_PARSE, ":3:1: expected a duration in microseconds"},
    {TR, "T 0\nK 1 0\n1e3 0\n", DAO_ERR_PARSE, ":3:1: expected a duration in microseconds"},
    {TR, "T 0\nK 1 0\n1. 0\n", DAO_ERR_PARSE, ":3:1: expected a duration in microseconds"},
    {TR, "T 0\nK 1 0\nnan 0\n", DAO_ERR_PARSE, ":3:1: expected a duration in microseconds"},
    {TR, "T 0\nK 1 0\n18446744073709552 0\n", DAO_ERR_OVERFLOW, ":3:1: this duration is too long"},
    {TR, "T 0\nK 1 0\n1 1 0:1\n", DAO_ERR_PARSE, ":3:5: there is no tensor 0"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 2 0:1\n", DAO_ERR_PARSE,
     ":4:8: the line ends here, expected a tensor and a mode"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 1 0:1 0:1\n", DAO_ERR_PARSE, ":4:9: expected the end of the line"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 2 0:1 0:2\n", DAO_ERR_PARSE, ":4:9: kernel 0 names tensor x.0 twice"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 1 0:0\n", DAO_ERR_PARSE, ":4:5: 0 is no mode"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 1 0:4\n", DAO_ERR_PARSE, ":4:5: 4 is no mode"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 1 0\n", DAO_ERR_PARSE, ":4:5: expected a tensor and a mode"},
    {TR, "T 1\n0 1 0 x\nK 1 0\n1 1 0:\n", DAO_ERR_PARSE, ":4:5: expected a mode"},
    {TR, "T 0\nK 0 0\nmore\n", DAO_ERR_PARSE, ":3:1: expected the end of the line"},
    {G10, "", DAO_ERR_PARSE, "s.jsonl:1:1: the file ends here"},
    {G10, "[]", DAO_ERR_PARSE, ":1:1: expected an object, found a list"},
    {G10, "{\"format\":\"g11\"}", DAO_ERR_PARSE, ":1:11: this is no \"g10-derived 1\""},
    {G10, "{\"format\":\"g10-derived 1\"}", DAO_ERR_PARSE, ":1:1: a header without \"batch\""},
    {G10, "{\"tensors\":-1}", DAO_ERR_PARSE, ":1:12: \"-1\" is negative"},
    {G10, "{\"tensors\":\"1\"}", DAO_ERR_PARSE, ":1:12: expected a whole number, found a string"},
    {G10, HEAD, DAO_ERR_PARSE, ":3:1: the file ends with 1 tensors and 0 kernels; its header says 1 and 1"},
    {G10, HEAD "{\"tensor\":5,\"weight\":0,\"size\":1}", DAO_ERR_PARSE, ":3:1: tensor 5 was there before"},
    {G10, HEAD "{\"tensor\":6,\"weight\":2,\"size\":1}", DAO_ERR_PARSE,
     ":3:1: \"weight\" is neither 0 nor 1"},
    {G10, HEAD "{\"size\":1}", DAO_ERR_PARSE, ":3:1: a tensor without \"tensor\""},
    {G10, HEAD "{\"kernel\":0}", DAO_ERR_PARSE, ":3:1: a kernel without \"cycles\""},
    {G10, HEAD "{\"kernel\":1,\"name\":\"\",\"cycles\":1,\"inputs\":[],\"outputs\":[],\"workspace\":0}",
     DAO_ERR_PARSE, ":3:1: kernel 0 says that it is number 1"},
    {G10, HEAD "{\"kernel\":0,\"name\":\"\",\"cycles\":1,\"inputs\":[7],\"outputs\":[],\"workspace\":0}",
     DAO_ERR_PARSE, ":3:44: there is no tensor 7"},
    {G10,
     HEAD "{\"kernel\":0,\"name\":\"\",\"cycles\":18446744074,\"inputs\":[],\"outputs\":[],\"workspace\":0}",
     DAO_ERR_OVERFLOW, ":3:1: it takes too long"},
    {G10, HEAD "{\"kernel\":0,\"inputs\":[\"7\"]}", DAO_ERR_PARSE, "expected a whole number, found a string"},
    {G10, HEAD "{\"kernel\":0} x", DAO_ERR_PARSE, ":3:1: a kernel without"},
    {G10, HEAD "x", DAO_ERR_PARSE, ":3:1: \"x\" is no JSON value"},
};

static void every_wrong_file_is_refused_with_its_place(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_status_t status = try_bytes(cases[i].form, cases[i].text, strlen(cases[i].text));
        if (status != cases[i].status || strstr(dao_last_message(), cases[i].fragment) == NULL) {
            (void)printf("\n    %s\n    gives %s: %s\n    not %s\n", cases[i].text, dao_status_name(status),
                         status == DAO_OK ? "" : dao_last_message(), cases[i].fragment);
            CU_FAIL("a wrong file");
        }
    }
}

static void a_form_without_batches_says_so(void)
{
    dao_step_trace_t trace;
    char path[256];
    path_of(TR, path);
    write_bytes(TR, "T 0\nK 0 0\n", strlen("T 0\nK 0 0\n"));
    CU_ASSERT_EQUAL(dao_read_step(path, "4", &trace), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(dao_read_step("/nowhere/s.tr", NULL, &trace), DAO_ERR_IO);
    CU_ASSERT_EQUAL(dao_read_step(".tr", NULL, &trace), DAO_ERR_IO);
}

static void damaged_bytes_do_no_harm(void)
{
    uint64_t state = dao_test_seed("damaged bytes", 0x7e5u);
    for (form_t form = 0; form < FORM_COUNT; form++) {
        size_t length = strlen(good[form]);
        char *text = strdup(good[form]);
        size_t refused = 0;
        for (int round = 0; text != NULL && round < 600; round++) {
            memcpy(text, good[form], length);
            for (int i = 0; i < 2; i++) {
                text[dao_random_next(&state) % length] = (char)dao_random_next(&state);
            }
            size_t kept = round % 4 == 0 ? dao_random_next(&state) % length : length;
            refused += try_bytes(form, text, kept) != DAO_OK;
        }
        free(text);
        CU_ASSERT_TRUE(refused > 400);
    }
}

static void every_failing_call_is_answered(void)
{
#if defined(DAO_FAULTS)
    static const dao_fault_t faults[] = {DAO_FAULT_HOST_MEMORY, DAO_FAULT_FILE_READ};
    static const dao_status_t wanted[] = {DAO_ERR_NO_HOST_MEMORY, DAO_ERR_IO};
    for (form_t form = 0; form < FORM_COUNT; form++) {
        write_bytes(form, good[form], strlen(good[form]));
        for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
            uint64_t n = 0;
            for (bool has_fired = true; has_fired && n < 10000; n++) {
                dao_step_trace_t trace;
                dao_fault_arm(faults[i], n, false);
                dao_status_t status = read_form(form, &trace);
                has_fired = dao_fault_disarm() > 0;
                CU_ASSERT_EQUAL(status, has_fired ? wanted[i] : DAO_OK);
                if (status == DAO_OK) {
                    dao_step_trace_finish(&trace);
                }
            }
            CU_ASSERT_TRUE(n > 2);
        }
    }
#endif
}

static CU_TestInfo tests[] = {
    {"both forms give the same step", both_forms_give_the_same_step},
    {"harmless forms are accepted", harmless_forms_are_accepted},
    {"every wrong file is refused with its place", every_wrong_file_is_refused_with_its_place},
    {"a form without batches says so", a_form_without_batches_says_so},
    {"damaged bytes do no harm", damaged_bytes_do_no_harm},
    {"every failing call is answered", every_failing_call_is_answered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"read_accesses", make_folder, remove_folder, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
