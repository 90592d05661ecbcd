/* SPDX-License-Identifier: Apache-2.0 */
/* A step in this project's own form: what each mark means to the model, the text that is written back, what
   is refused and where, files that are cut anywhere, memory that runs out; and random steps, which are the
   same after they were written and read. */
#define _GNU_SOURCE
#include "base/numbers/random.h"
#include "base/report/fault.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/step/read_dao_step.h"
#include "tools/write/write_dao_step.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BODY                                                                                                 \
    "tensor w 4096 tag=parameter name=conv%201.weight\n"                                                     \
    "tensor x 1000 tag=input\n"                                                                              \
    "tensor y 512\n"                                                                                         \
    "tensor y.row 128 of=y at=128\n"                                                                         \
    "op aten::conv 12.5 at=1.25 stream=1 module=a.b pure <w <x >y ^x +t:100 +u:50 -t\n"                      \
    "op fill 0.007 =y.row -x\n"                                                                              \
    "backward\n"                                                                                             \
    "tensor z 256 tag=input\n"                                                                               \
    "op grad 4 <y.row *w >z -y\n"                                                                            \
    "end\n"
#define GOOD "dao-step 1\nmodel a model\nbatch 4\n" BODY

static dao_status_t read_text(const char *text, size_t length, dao_step_trace_t *out_trace)
{
    dao_test_write_file(dao_test_path, text, length);
    return dao_read_dao_step(dao_test_path, out_trace);
}

/* Writes a step, and returns the text; the caller frees it. */
static char *write_text(const dao_step_trace_t *trace)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    CU_ASSERT_EQUAL(dao_write_dao_step(file, trace), DAO_OK);
    (void)fclose(file);
    return text;
}

/* ---- what it means ---- */

static void the_marks_are_told_to_the_step(void)
{
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(read_text(GOOD, strlen(GOOD), &trace), DAO_OK);
    CU_ASSERT_STRING_EQUAL(trace.model, "a model");
    CU_ASSERT_STRING_EQUAL(trace.batch, "4");
    CU_ASSERT_EQUAL_FATAL(trace.tensor_count, 4);
    CU_ASSERT_EQUAL_FATAL(trace.operator_count, 3);
    CU_ASSERT_EQUAL(trace.first_backward, 2);
    const dao_trace_tensor_t *tensors = trace.tensors;
    CU_ASSERT_STRING_EQUAL(dao_trace_name(&trace, tensors[0].name_offset), "conv 1.weight");
    CU_ASSERT_STRING_EQUAL(dao_trace_name(&trace, tensors[0].tag_offset), "parameter");
    CU_ASSERT_EQUAL(tensors[1].tag_offset, tensors[3].tag_offset); /* texts that recur are there once */
    CU_ASSERT_STRING_EQUAL(dao_trace_name(&trace, tensors[2].tag_offset), "");
    CU_ASSERT_EQUAL(tensors[1].released_by, 1);
    CU_ASSERT_EQUAL(tensors[2].producer, 0);
    CU_ASSERT_EQUAL(tensors[2].released_by, 2);
    CU_ASSERT_EQUAL(tensors[3].released_by, DAO_TRACE_NONE);
    const dao_trace_operator_t *conv = &trace.operators[0];
    CU_ASSERT_EQUAL(conv->cost_ns, 12500);
    CU_ASSERT_EQUAL(conv->begin_ns, 1250);
    CU_ASSERT_EQUAL(conv->stream, 1);
    CU_ASSERT_TRUE(conv->is_pure && !trace.operators[1].is_pure);
    CU_ASSERT_STRING_EQUAL(dao_trace_name(&trace, conv->module_offset), "a.b");
    CU_ASSERT_EQUAL_FATAL(conv->saves.count, 1);
    CU_ASSERT_EQUAL(trace.saves[conv->saves.begin], 1);
    CU_ASSERT_EQUAL(conv->temporaries.count, 2);
    CU_ASSERT_EQUAL(conv->workspace_bytes, 512);
    CU_ASSERT_EQUAL(trace.operators[1].begin_ns, DAO_TRACE_NO_TIME);
    CU_ASSERT_EQUAL(trace.operators[1].cost_ns, 7);
    dao_step_trace_finish(&trace);
}

static void a_part_that_is_written_changes_its_tensor(void)
{
    static const char whole[] = "dao-step 1\ntensor y 512\ntensor v 512 of=y\nop a 1 =v\nend\n";
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(read_text(GOOD, strlen(GOOD), &trace), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(trace.alias_count, 1);
    CU_ASSERT_EQUAL(trace.aliases[0].tensor, 2);
    CU_ASSERT_EQUAL(trace.aliases[0].offset_bytes, 128);
    const dao_trace_operand_t *fill = &trace.operands[trace.operators[1].operands.begin];
    CU_ASSERT_EQUAL(fill->tensor, 2);
    CU_ASSERT_EQUAL(fill->access, DAO_ACCESS_READ_WRITE); /* the other bytes stay */
    CU_ASSERT_EQUAL(fill->alias, 0);
    dao_step_trace_finish(&trace);
    CU_ASSERT_EQUAL_FATAL(read_text(whole, strlen(whole), &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.operands[0].access, DAO_ACCESS_WRITE);
    dao_step_trace_finish(&trace);
}

static void a_workspace_ends_with_its_operator(void)
{
    dao_step_trace_t trace;
    dao_step_figures_t figures;
    dao_plan_input_t lifetimes;
    dao_alloc_trace_t replayed;
    CU_ASSERT_EQUAL_FATAL(read_text(GOOD, strlen(GOOD), &trace), DAO_OK);
    CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &figures), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_of_step(&trace, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(&lifetimes, false, &replayed), DAO_OK);
    CU_ASSERT_EQUAL(figures.peak_bytes, 4096 + 1000 + 512 + 150);
    CU_ASSERT_EQUAL(replayed.peak_bytes, figures.peak_bytes); /* u, which nothing frees, is gone by then */
    dao_alloc_trace_finish(&replayed);
    dao_plan_input_finish(&lifetimes);
    dao_step_trace_finish(&trace);
}

/* ---- the text ---- */

static void what_is_written_is_what_was_read(void)
{
    static const char *const texts[] = {
        GOOD,
        "dao-step 1\nmodel a%b\nbatch ?\nend\n",
        "dao-step 1\nmodel m\nbatch 1\ntensor a%20b 18446744073709551615\nop %25 0 <a%20b\nend\n",
        "dao-step 1\nmodel m\nbatch 1\nop o 9007199254740.991 at=0 +t:1 -t +t:2\nend\n",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        dao_step_trace_t trace;
        dao_status_t status = read_text(texts[i], strlen(texts[i]), &trace);
        CU_ASSERT_EQUAL_FATAL(status, DAO_OK);
        char *text = write_text(&trace);
        if (i == 0) { /* tensors stand before the first operator that needs them */
            CU_ASSERT_PTR_NOT_NULL(strstr(text, "-x\ntensor z 256 tag=input\nbackward\nop grad 4"));
        } else {
            CU_ASSERT_STRING_EQUAL(text, texts[i]);
        }
        free(text);
        dao_step_trace_finish(&trace);
    }
}

static void harmless_texts_are_taken(void)
{
    static const char text[] = "\xef\xbb\xbf# first\r\n  dao-step\t1 \r\n\n# x\nop a 1 -x\nend\n\n";
    static const char with_tensor[] = "# first\ndao-step 1\n\ntensor x 0\nop a 01.50 >x <x *x =x -x\nend";
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL(read_text(text, strlen(text), &trace), DAO_ERR_PARSE); /* -x frees nothing */
    CU_ASSERT_EQUAL(read_text(with_tensor, strlen(with_tensor), &trace), DAO_ERR_PARSE);
    static const char twice[] = "# first\r\ndao-step 1\r\n\ntensor x 0\nop a 01.50 <x <x *x =x -x\r\nend";
    CU_ASSERT_EQUAL_FATAL(read_text(twice, strlen(twice), &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.operand_count, 1);
    CU_ASSERT_EQUAL(trace.operands[0].access, DAO_ACCESS_READ_WRITE);
    dao_step_trace_finish(&trace);
}

#define HEAD "dao-step 1\ntensor x 8\ntensor v 4 of=x\n"

static const struct {
    const char *text;
    dao_status_t status;
    const char *fragment;
} wrong[] = {
    {"dao-step 2\n", DAO_ERR_UNSUPPORTED, ":1:10: the form has version 2, this program reads 1"},
    {"dao-step\n", DAO_ERR_PARSE, ":1:9: the line ends here, expected the form's version"},
    {"dao-step 1 x\n", DAO_ERR_PARSE, ":1:12: expected the end of the line"},
    {"dao-step 1\n", DAO_ERR_PARSE, ":2:1: the file is cut off: there is no line end"},
    {"dao-step 1\nend\nop a 1\n", DAO_ERR_PARSE, ":3:1: expected the end of the line"},
    {"dao-step 1\nfoo\x01\n", DAO_ERR_PARSE, ":2:1: \"foo?\" is unknown here; a line begins with"},
    {"dao-step 1\nmodel\n", DAO_ERR_PARSE, ":2:6: the line ends here, expected a name"},
    {"dao-step 1\nbackward\nbackward\n", DAO_ERR_PARSE, ":3:1: the backward pass has begun before"},
    {"dao-step 1\nmodel a\nmodel b\n", DAO_ERR_PARSE, ":3:1: the model was named before"},
    {"dao-step 1\nbatch 1\nmodel b\nbatch 2\n", DAO_ERR_PARSE, ":4:1: the batch was named before"},
    {"dao-step 1\ntensor\n", DAO_ERR_PARSE, ":2:7: the line ends here, expected a tensor's id"},
    {"dao-step 1\ntensor x -1\n", DAO_ERR_PARSE, ":2:10: expected a size in bytes"},
    {"dao-step 1\ntensor x 18446744073709551616\n", DAO_ERR_OVERFLOW, ":2:10: a size in bytes: more than"},
    {"dao-step 1\ntensor % 1\n", DAO_ERR_PARSE, ":2:8: behind % stand two digits"},
    {"dao-step 1\ntensor %00 1\n", DAO_ERR_PARSE, ":2:8: behind % stand two digits"},
    {"dao-step 1\ntensor x 1 tag=\n", DAO_ERR_PARSE, ":2:12: a name here is empty"},
    {"dao-step 1\ntensor x 1 color=red\n", DAO_ERR_PARSE, ":2:12: \"color=red\" is unknown of a tensor"},
    {"dao-step 1\ntensor x 1 at=0 of=y\n", DAO_ERR_PARSE, ":2:17: no line before says what tensor y is"},
    {"dao-step 1\ntensor x 1 at=4\n", DAO_ERR_PARSE, "at= is for a part: of= is missing"},
    {HEAD "tensor x 1\n", DAO_ERR_PARSE, ":4:11: tensor x was there before"},
    {HEAD "tensor u 4 of=v\n", DAO_ERR_PARSE, ":4:12: v is an alias itself; name its tensor"},
    {HEAD "tensor u 4 of=x at=5\n", DAO_ERR_PARSE, "u is no part of tensor x, which has 8 bytes"},
    {HEAD "tensor u 4 of=x at=18446744073709551615\n", DAO_ERR_PARSE, "u is no part of tensor x"},
    {HEAD "tensor u 4 of=x tag=y\n", DAO_ERR_PARSE, "an alias has the tag and name of its tensor"},
    {HEAD "op\n", DAO_ERR_PARSE, ":4:3: the line ends here, expected an operator's name"},
    {HEAD "op a\n", DAO_ERR_PARSE, ":4:5: the line ends here, expected a duration in microseconds"},
    {HEAD "op a 1e3\n", DAO_ERR_PARSE, ":4:6: expected a duration in microseconds, such as 12.5"},
    {HEAD "op a 1 <y\n", DAO_ERR_PARSE, ":4:8: no line before says what tensor y is"},
    {HEAD "op a 1 x\n", DAO_ERR_PARSE, ":4:8: \"x\" is unknown of an operator"},
    {HEAD "op a 1 stream=4294967296\n", DAO_ERR_PARSE, ":4:8: a stream's number is at most 4294967295"},
    {HEAD "op a 1 >v\n", DAO_ERR_PARSE, ":4:8: v is an alias, which has no life of its own"},
    {HEAD "op a 1 -v\n", DAO_ERR_PARSE, ":4:8: v is an alias, which has no life of its own"},
    {HEAD "op a 1 <x >x\n", DAO_ERR_PARSE, ":4:11: operator 0 produces tensor x, but operator 0 uses it"},
    {HEAD "op a 1 -x\nop b 1 <v\n", DAO_ERR_PARSE,
     ":5:8: operator 1 reads tensor x, which operator 0 released"},
    {HEAD "op a 1 -x\nop b 1 ^x\n", DAO_ERR_PARSE,
     ":5:8: operator 1 saves tensor x, which operator 0 released"},
    {HEAD "op a 1 +t\n", DAO_ERR_PARSE, ":4:8: expected a temporary and its bytes, such as +t:4096"},
    {HEAD "op a 1 +x:4\n", DAO_ERR_PARSE, ":4:8: x is a tensor, not a temporary"},
    {HEAD "op a 1 +t:4 +t:4\n", DAO_ERR_PARSE, ":4:13: operator 0 allocates temporary t, which is live"},
    {HEAD "op a 1 -t\n", DAO_ERR_PARSE, ":4:8: operator 0 frees temporary t before it is allocated"},
};

static void what_is_wrong_is_refused_with_its_place(void)
{
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        dao_step_trace_t trace;
        dao_status_t status = read_text(wrong[i].text, strlen(wrong[i].text), &trace);
        CU_ASSERT_EQUAL(status, wrong[i].status);
        if (status != wrong[i].status || strstr(dao_last_message(), wrong[i].fragment) == NULL) {
            (void)printf("\n%zu: %d \"%s\"\n", i, status, dao_last_message());
            CU_FAIL("another message");
        }
    }
}

static void a_file_that_is_cut_is_refused(void)
{
    for (size_t length = 0; length < strlen(GOOD) - 1; length++) {
        dao_step_trace_t trace;
        dao_status_t status = read_text(GOOD, length, &trace);
        CU_ASSERT_NOT_EQUAL(status, DAO_OK);
        if (status == DAO_OK) {
            dao_step_trace_finish(&trace);
        }
    }
}

#if defined(DAO_FAULTS)
static void memory_that_runs_out_is_told(void)
{
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    dao_test_write_file(dao_test_path, GOOD, strlen(GOOD));
    for (uint64_t point = 0; status != DAO_OK && point < 1000; point++) {
        dao_step_trace_t trace;
        dao_fault_arm(DAO_FAULT_HOST_MEMORY, point, false);
        status = dao_read_dao_step(dao_test_path, &trace);
        (void)dao_fault_disarm();
        CU_ASSERT_TRUE(status == DAO_OK || status == DAO_ERR_NO_HOST_MEMORY);
        if (status == DAO_OK) {
            CU_ASSERT_TRUE(point > 5);
            dao_step_trace_finish(&trace);
        }
    }
    CU_ASSERT_EQUAL(status, DAO_OK);
}
#endif

/* ---- random steps ---- */

enum { STEPS = 200, OPERATORS_MOST = 30 };

/* Writes a random step that is right, by a model that knows what is alive. */
static char *make_text(uint64_t *random)
{
    char *text = NULL;
    size_t length = 0;
    FILE *file = open_memstream(&text, &length);
    bool is_live[OPERATORS_MOST * 2] = {false};
    uint32_t count = 0, operators = 1 + (uint32_t)dao_random_below(random, OPERATORS_MOST);
    CU_ASSERT_PTR_NOT_NULL_FATAL(file);
    (void)fputs("dao-step 1\nmodel m\nbatch 1\n", file);
    for (uint32_t i = 0; i < operators; i++) {
        bool is_before = dao_random_below(random, 4) == 0;
        (void)fprintf(file, "tensor t%" PRIu32 " %" PRIu64 "%s\n", count, dao_random_below(random, 5000),
                      dao_random_below(random, 3) == 0 ? " tag=a%20b" : "");
        (void)fprintf(file, "op o%" PRIu64 " %" PRIu64, dao_random_below(random, 3),
                      dao_random_below(random, 100));
        for (uint32_t k = 0; k < count; k++) {
            if (is_live[k] && dao_random_below(random, 3) == 0) {
                (void)fprintf(file, " %ct%" PRIu32, "<*="[dao_random_below(random, 3)], k);
            }
        }
        (void)fprintf(file, is_before ? " <t%" PRIu32 : " >t%" PRIu32, count);
        is_live[count++] = true;
        if (dao_random_below(random, 2) == 0) {
            (void)fprintf(file, " +w:%" PRIu64 "%s", dao_random_below(random, 900),
                          dao_random_below(random, 2) == 0 ? " -w" : "");
        }
        for (uint32_t k = 0; k < count; k++) {
            if (is_live[k] && dao_random_below(random, 6) == 0) {
                (void)fprintf(file, " -t%" PRIu32, k);
                is_live[k] = false;
            }
        }
        (void)fputc('\n', file);
    }
    (void)fputs("end\n", file);
    (void)fclose(file);
    return text;
}

static void a_random_step_is_the_same_when_read_again(void)
{
    uint64_t random = dao_test_seed("a random step is the same", 11);
    for (int i = 0; i < STEPS; i++) {
        char *text = make_text(&random);
        dao_step_trace_t first, second;
        dao_step_figures_t figures[2];
        CU_ASSERT_EQUAL_FATAL(read_text(text, strlen(text), &first), DAO_OK);
        char *once = write_text(&first);
        CU_ASSERT_EQUAL_FATAL(read_text(once, strlen(once), &second), DAO_OK);
        char *twice = write_text(&second);
        CU_ASSERT_STRING_EQUAL(once, twice);
        CU_ASSERT_EQUAL(dao_step_trace_figures(&first, &figures[0]), DAO_OK);
        CU_ASSERT_EQUAL(dao_step_trace_figures(&second, &figures[1]), DAO_OK);
        CU_ASSERT_EQUAL(figures[0].peak_bytes, figures[1].peak_bytes);
        CU_ASSERT_EQUAL(figures[0].largest_work_bytes, figures[1].largest_work_bytes);
        CU_ASSERT_EQUAL_FATAL(first.operand_count, second.operand_count);
        for (size_t k = 0; k < first.operand_count; k++) {
            CU_ASSERT_EQUAL(first.operands[k].tensor, second.operands[k].tensor);
            CU_ASSERT_EQUAL(first.operands[k].access, second.operands[k].access);
        }
        dao_step_trace_finish(&first);
        dao_step_trace_finish(&second);
        free(text);
        free(once);
        free(twice);
    }
}

static CU_TestInfo tests[] = {
    {"the marks are told to the step", the_marks_are_told_to_the_step},
    {"a part that is written changes its tensor", a_part_that_is_written_changes_its_tensor},
    {"a workspace ends with its operator", a_workspace_ends_with_its_operator},
    {"what is written is what was read", what_is_written_is_what_was_read},
    {"harmless texts are taken", harmless_texts_are_taken},
    {"what is wrong is refused with its place", what_is_wrong_is_refused_with_its_place},
    {"a file that is cut is refused", a_file_that_is_cut_is_refused},
#if defined(DAO_FAULTS)
    {"memory that runs out is told", memory_that_runs_out_is_told},
#endif
    {"a random step is the same when read again", a_random_step_is_the_same_when_read_again},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"dao_step", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
