/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is, by what stands in it: every form once, what is known and refused by its name, and bytes
   that are nothing. None of those bytes gets into a message. */
#include "tests/support/suite.h"
#include "tools/read/form/recognise.h"

#include <stdio.h>
#include <string.h>

#define BYTES(text) text, sizeof(text) - 1

static void forms_are_told_by_content(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        dao_file_form_t form;
    } files[] = {
        {BYTES("T 2\n0 1 1 x\n"), DAO_FILE_FORM_TR},
        {BYTES("120 300\n8 8\n"), DAO_FILE_FORM_USE_LIST},
        {BYTES("SQLite format 3\x00\x10"), DAO_FILE_FORM_NSYS},
        {BYTES("4096 -1\n"), DAO_FILE_FORM_SIZE_LIST},
        {BYTES("{\"format\": \"g10-derived 1\"}\n"), DAO_FILE_FORM_G10},
        {BYTES("{\"schema\": \"1.0.1\", \"pid\": 7, \"nodes\": []}"), DAO_FILE_FORM_EXECUTION_TRACE},
        {BYTES("id,lower,upper,size\n"), DAO_FILE_FORM_LIFETIMES},
        {BYTES("\"id\";\"lower\";\"upper\";\"size\"\n"), DAO_FILE_FORM_LIFETIMES},
        {BYTES("17 0 568 29503488\n"), DAO_FILE_FORM_LIFETIMES},
        {BYTES(" \t dao-step 1\n"), DAO_FILE_FORM_DAO_STEP},
        {BYTES("\n \t\n  # one, two\n \t dao-step 1\n"), DAO_FILE_FORM_DAO_STEP},
        {BYTES(" \n{\"a\": {\"size\": 1, \"alloc\": 1}}"), DAO_FILE_FORM_OBJECT},
        {BYTES("time_ns,event,id,bytes,op\n"), DAO_FILE_FORM_EVENTS},
        {BYTES("time_ns,event,place,address,bytes,tag,stream\n"), DAO_FILE_FORM_RECORDING},
        {BYTES("\x80\x02}."), DAO_FILE_FORM_SNAPSHOT},
        {BYTES("\x80\x05\x95"), DAO_FILE_FORM_SNAPSHOT},
        {BYTES("{\"host\": {}, \"device_traces\": []}"), DAO_FILE_FORM_SNAPSHOT},
        {BYTES("{\"a\": [1, 2], \"b\": {\"c\": 3}, \"traceEvents\": []}"), DAO_FILE_FORM_CHROME_TRACE},
        {BYTES("[{\"ph\": \"X\"}]"), DAO_FILE_FORM_CHROME_TRACE},
        {BYTES("[[-1, 1, 8, 0]]"), DAO_FILE_FORM_MEMORY_TIMELINE},
        {BYTES("Thread,Time,Action,Pointer,Size,Stream\n"), DAO_FILE_FORM_RMM},
        {BYTES("Stream,Size,Pointer,Other,Action\n"), DAO_FILE_FORM_RMM},
        {BYTES("{\"timestamp\": 1, \"category\": \"operation\"}\n"), DAO_FILE_FORM_UMPIRE},
        {BYTES("\"Agent_Id\",\"Kind\",\"Operation\",\"Allocation_Size\"\n"), DAO_FILE_FORM_ROCPROF},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        dao_file_form_t form = DAO_FILE_FORM_COUNT;
        dao_test_write_file(dao_test_path, files[i].bytes, files[i].length);
        CU_ASSERT_EQUAL(dao_recognise(dao_test_path, &form), DAO_OK);
        CU_ASSERT_EQUAL(form, files[i].form);
    }
    for (int form = 0; form < DAO_FILE_FORM_COUNT; form++) {
        CU_ASSERT(strlen(dao_file_form_name((dao_file_form_t)form)) > 0);
    }
}

static void what_is_known_and_not_read_is_named(void)
{
    static const struct {
        const char *bytes;
        size_t length;
        dao_status_t status;
        const char *wanted;
    } files[] = {
        {BYTES("PK\x03\x04\x14\x00"), DAO_ERR_UNSUPPORTED, "a zip archive; unpack it"},
        {BYTES("\x08\x07\x12\x07pytorch"), DAO_ERR_UNSUPPORTED, "an ONNX model"},
        {BYTES("\xff\xfei\x00"), DAO_ERR_UNSUPPORTED, "text in UTF-16"},
        {BYTES("heap profile:   3:  12 ["), DAO_ERR_UNSUPPORTED, "a heap profile"},
        {BYTES("heap_v2/524288\n"), DAO_ERR_UNSUPPORTED, "a jemalloc heap profile"},
        {BYTES("v 10400 3\n"), DAO_ERR_UNSUPPORTED, "a heaptrack file"},
        {BYTES("{\"INSTRUCTION\": \"CALL\"}\n"), DAO_ERR_UNSUPPORTED, "a log of DTR"},
        {BYTES("{\"timestamp\": 0, \"input_length\": 4, \"output_length\": 6, \"hash_ids\": [0, 1]}\n"),
         DAO_ERR_UNSUPPORTED, "a trace of inference requests"},
        {BYTES("TIMESTAMP,ContextTokens,GeneratedTokens\n"), DAO_ERR_UNSUPPORTED,
         "a trace of inference requests"},
        {BYTES("1, 158.53139989144336, 19.5\n2, 958.8, 9.7\n"), DAO_ERR_UNSUPPORTED, "a table of numbers"},
        {BYTES("load_tensors: CUDA0 model buffer size = 15339.44 MiB\n"), DAO_ERR_UNSUPPORTED,
         "a log of llama.cpp"},
        {BYTES("<!DOCTYPE html>"), DAO_ERR_UNSUPPORTED, "a page"},
        {BYTES("[[1, 2], [3, 4]]"), DAO_ERR_UNSUPPORTED, "the sums of a memory timeline"},
        {BYTES("\x7f"
               "ELF\x02\x01\x01\x00"),
         DAO_ERR_PARSE, "no form that dao knows"},
        {BYTES("\x1b[31mred\x07"), DAO_ERR_PARSE, "no form that dao knows"},
        {BYTES(""), DAO_ERR_PARSE, ":1:1: the file is empty"},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        dao_file_form_t form;
        dao_test_write_file(dao_test_path, files[i].bytes, files[i].length);
        CU_ASSERT_EQUAL(dao_recognise(dao_test_path, &form), files[i].status);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), files[i].wanted));
        CU_ASSERT_PTR_NULL(strpbrk(dao_last_message(), "\x1b\x07\x7f"));
    }
}

static CU_TestInfo tests[] = {
    {"forms are told by content", forms_are_told_by_content},
    {"what is known and not read is named", what_is_known_and_not_read_is_named},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"recognise", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
