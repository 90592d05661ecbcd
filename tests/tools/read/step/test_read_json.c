/* SPDX-License-Identifier: Apache-2.0 */
/* Reading traces that are wrong: each gets its code and a message with file, line and column; none takes more
   than its share. A case replaces one of the four files of a small good trace. */
#define _GNU_SOURCE
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/read/step/read_json_step.h"
#include "tools/read/text/json_reader.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum file { IO, SIZES, RESIZE, COST, FILE_COUNT } file_t;

static const char *const endings[FILE_COUNT] = {"m.io_info.json", "m.1.tensor_size.json",
                                                "m.1.resize_info.json", "m.1.cost_info.json"};
static const char *const good[FILE_COUNT] = {
    "[{\"op\":\"a\",\"id\":0,\"inputs\":[1],\"outputs\":[2],\"mutates\":[1],\"temporary\":[\"0:0\"],"
    "\"release\":[]},\n"
    " {\"release\":[2],\"outputs\":[3],\"inputs\":[2,1,2],\"id\":1,\"op\":\"b\"}]\n",
    "{\"1\": 100, \"2\": 18446744073709551615, \"3\": 0, \"0:0\": 64, \"9\": 5}",
    "[[[\"alloc\",\"0:0\"],[\"free\",\"0:0\"]],[]]",
    "{\"0\": 1.5, \"1\": 2e-3}",
};

static char folder[] = "/tmp/dao-test-read-XXXXXX";

static void path_of(file_t file, char out_path[256])
{
    (void)snprintf(out_path, 256, "%s/%s", folder, endings[file]);
}

static void write_file(file_t file, const char *text)
{
    char path[256];
    path_of(file, path);
    dao_test_write_file(path, text, strlen(text));
}

static void write_good(void)
{
    for (file_t file = 0; file < FILE_COUNT; file++) {
        write_file(file, good[file]);
    }
}

static int make_folder(void)
{
    return mkdtemp(folder) == NULL;
}

static int remove_folder(void)
{
    for (file_t file = 0; file < FILE_COUNT; file++) {
        char path[256];
        path_of(file, path);
        (void)unlink(path);
    }
    return rmdir(folder);
}

static dao_status_t read_trace(void)
{
    dao_step_trace_t trace;
    dao_status_t status = dao_read_json_step(folder, NULL, &trace);
    if (status == DAO_OK) {
        dao_step_trace_finish(&trace);
    }
    return status;
}

static void a_good_trace_is_read_exactly(void)
{
    write_good();
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_read_json_step(folder, NULL, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.operator_count, 2);
    CU_ASSERT_EQUAL(trace.tensor_count, 4);
    CU_ASSERT_EQUAL(trace.tensors[1].size_bytes, UINT64_MAX);
    CU_ASSERT_EQUAL(trace.operators[0].cost_ns, 1500000);
    CU_ASSERT_EQUAL(trace.operators[1].cost_ns, 2000);
    CU_ASSERT_EQUAL(trace.operators[0].operands.count, 2);
    CU_ASSERT_EQUAL(trace.operators[1].operands.count, 3);
    CU_ASSERT_EQUAL(trace.operators[0].workspace_bytes, 256);
    CU_ASSERT_STRING_EQUAL(dao_trace_tensor_id(&trace, 3), "9");
    dao_step_figures_t figures;
    CU_ASSERT_EQUAL(dao_step_trace_figures(&trace, &figures), DAO_ERR_OVERFLOW);
    dao_step_trace_finish(&trace);
    char path[256];
    path_of(IO, path);
    CU_ASSERT_EQUAL_FATAL(dao_read_json_step(path, "1", &trace), DAO_OK);
    dao_step_trace_finish(&trace);
}

static void harmless_forms_are_accepted(void)
{
    write_good();
    write_file(COST, "\xef\xbb\xbf{\r\n\t\"1\" : 0 ,\"0\":0.0000004e+3 }\r\n\n");
    write_file(
        IO, "[{\"op\":\"\",\"id\":0,\"inputs\":[\"1\"],\"outputs\":[2],\"release\":[],\"extra\":{\"x\":[1,["
            "null]]}},"
            "{\"op\":\"\\u00e9\\ud83d\\ude00\\n\",\"id\":1,\"inputs\":[],\"outputs\":[3],\"release\":[]}]");
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_read_json_step(folder, NULL, &trace), DAO_OK);
    CU_ASSERT_EQUAL(trace.operators[0].cost_ns, 400);
    CU_ASSERT_EQUAL(trace.ignored_count, 1);
    CU_ASSERT_STRING_EQUAL(dao_trace_operator_name(&trace, 1), "\xc3\xa9\xf0\x9f\x98\x80?");
    dao_step_trace_finish(&trace);
    write_file(IO, "[]");
    write_file(SIZES, "{}");
    write_file(RESIZE, "[]");
    write_file(COST, "{}");
    CU_ASSERT_EQUAL(read_trace(), DAO_OK);
}

#define OP(inputs, outputs, mutates, release)                                                                \
    "{\"op\":\"x\",\"id\":0,\"inputs\":[" inputs "],\"outputs\":[" outputs "],\"mutates\":[" mutates         \
    "],\"release\":[" release "]}"

static const struct {
    file_t file;
    const char *text;
    dao_status_t status;
    const char *fragment;
} cases[] = {
    /* form */
    {IO, "", DAO_ERR_PARSE, "m.io_info.json:1:1: the file ends here, expected a value"},
    {IO, " \n\n  ", DAO_ERR_PARSE, "m.io_info.json:3:3: the file ends here"},
    {IO, "[", DAO_ERR_PARSE, ":1:2: the file ends here, expected a value or \"]\""},
    {IO, "[{", DAO_ERR_PARSE, ":1:3: the file ends here, expected a key or \"}\""},
    {IO, "[{\"op\"", DAO_ERR_PARSE, ":1:7: a colon is missing behind a key"},
    {IO, "[{\"op\":\"abc", DAO_ERR_PARSE, ":1:8: this string has no closing quote"},
    {IO, "[] x", DAO_ERR_PARSE, ":1:4: 'x' found, expected nothing more"},
    {IO, "[][]", DAO_ERR_PARSE, ":1:3: '[' found, expected nothing more"},
    {IO, "[}", DAO_ERR_PARSE, ":1:2: '}' found, expected a value or \"]\""},
    {IO, "[{]", DAO_ERR_PARSE, ":1:3: ']' found, expected a key or \"}\""},
    {IO, "[,]", DAO_ERR_PARSE, ":1:2: ',' found"},
    {IO, "[{\"op\":\"x\",}]", DAO_ERR_PARSE, ":1:12: '}' found, expected a key"},
    {IO, "[{\"op\" \"x\"}]", DAO_ERR_PARSE, ":1:8: a colon is missing"},
    {IO, "[nul]", DAO_ERR_PARSE, ":1:2: \"nul\" is no JSON value"},
    {IO, "[NaN]", DAO_ERR_PARSE, ":1:2: \"NaN\" is no JSON value"},
    {IO, "\xff\xfe[\x01]", DAO_ERR_PARSE, ":1:1: byte 0xff found"},
    {IO, "[{\"op\":\"\xc3\x28\"}]", DAO_ERR_PARSE, ":1:9: not UTF-8"},
    {IO, "[{\"op\":\"\xed\xa0\x80\"}]", DAO_ERR_PARSE, ":1:9: not UTF-8"},
    {IO, "[{\"op\":\"\xc0\x80\"}]", DAO_ERR_PARSE, ":1:9: not UTF-8"},
    {IO, "[{\"op\":\"\xf8\"}]", DAO_ERR_PARSE, ":1:9: not UTF-8"},
    {IO, "[{\"op\":\"\xc3\xa9\x01\"}]", DAO_ERR_PARSE, ":1:10: control character in a string"},
    {IO, "[{\"op\":\"a\nb\"}]", DAO_ERR_PARSE, ":1:10: control character"},
    {IO, "[{\"op\":\"\\u0000\"}]", DAO_ERR_PARSE, "NUL in a string"},
    {IO, "[{\"op\":\"\\ud800x\"}]", DAO_ERR_PARSE, "half a surrogate pair"},
    {IO, "[{\"op\":\"\\udc00\"}]", DAO_ERR_PARSE, "half a surrogate pair"},
    {IO, "[{\"op\":\"\\u12g4\"}]", DAO_ERR_PARSE, "four hexadecimal digits"},
    {IO, "[{\"op\":\"\\x\"}]", DAO_ERR_PARSE, "unknown escape"},
    {IO, "[{\"op\":\"x\",\n  \"op\":\"y\"}]", DAO_ERR_PARSE,
     ":2:3: key \"op\" stands here again, first at 1:3"},
    {IO, "[{\"z\":{\"a\":1,\"a\":2}}]", DAO_ERR_PARSE, ":1:14: key \"a\" stands here again, first at 1:8"},
    /* fields */
    {IO, "{}", DAO_ERR_PARSE, ":1:1: expected a list of operators, found an object"},
    {IO, "[1]", DAO_ERR_PARSE, ":1:2: expected an operator, found a number"},
    {IO, "[{}]", DAO_ERR_PARSE, ":1:3: operator 0 has no \"op\""},
    {IO, "[{\"op\":\"x\",\"id\":0,\"inputs\":[],\"outputs\":[]}]", DAO_ERR_PARSE,
     "operator 0 has no \"release\""},
    {IO, "[{\"op\":7}]", DAO_ERR_PARSE, ":1:8: expected the operator's name, found a number"},
    {IO, "[{\"id\":1}]", DAO_ERR_PARSE, ":1:8: operator 0 says that it is number 1"},
    {IO, "[{\"id\":\"0\"}]", DAO_ERR_PARSE, "expected the operator's number, found a string"},
    {IO, "[{\"inputs\":1}]", DAO_ERR_PARSE, ":1:12: expected a list of ids, found a number"},
    {IO, "[{\"inputs\":[null]}]", DAO_ERR_PARSE, ":1:13: expected an id, found \"null\""},
    {IO, "[{\"inputs\":[-1]}]", DAO_ERR_PARSE, ":1:13: \"-1\" is negative"},
    {IO, "[{\"inputs\":[1.0]}]", DAO_ERR_PARSE, "\"1.0\" is not a whole number"},
    {IO, "[{\"inputs\":[\"\"]}]", DAO_ERR_PARSE, ":1:13: \"\" is no id"},
    {IO, "[{\"inputs\":[\"a b\"]}]", DAO_ERR_PARSE, "\"a b\" is no id"},
    /* meaning */
    {IO, "[" OP("77", "", "", "") "]", DAO_ERR_PARSE, ":1:29: id 77 has no size in tensor_size"},
    {IO, "[" OP("", "2,2", "", "") "]", DAO_ERR_PARSE,
     ":1:44: operator 0 produces tensor 2, which operator 0 has"},
    {IO, "[" OP("2", "2", "", "") "]", DAO_ERR_PARSE,
     ":1:43: operator 0 produces tensor 2, but operator 0 uses it"},
    {IO, "[" OP("", "", "", "1,1") "]", DAO_ERR_PARSE,
     ":1:70: operator 0 releases tensor 1, which operator 0"},
    {IO, "[" OP("1", "", "", "1") ",\n{\"op\":\"y\",\"id\":1,\"outputs\":[],\"release\":[],\"inputs\":[1]}]",
     DAO_ERR_PARSE, ":2:54: operator 1 reads tensor 1, which operator 0 released"},
    {RESIZE, "[]", DAO_ERR_PARSE, "m.1.resize_info.json:1:2: fewer lists than the 2 operators"},
    {RESIZE, "[[],[],[]]", DAO_ERR_PARSE, ":1:8: more lists than the 2 operators"},
    {RESIZE, "[[[\"free\",\"0:0\"]],[]]", DAO_ERR_PARSE,
     ":1:11: operator 0 frees temporary 0:0 before it is allocated"},
    {RESIZE, "[[[\"alloc\",\"0:0\"],[\"alloc\",\"0:0\"]],[]]", DAO_ERR_PARSE, "temporary 0:0, which is live"},
    {RESIZE, "[[[\"alloc\",\"2\"]],[]]", DAO_ERR_PARSE, ":1:12: id 2 is a tensor of an operator"},
    {RESIZE, "[[[\"alloc\",\"q\"]],[]]", DAO_ERR_PARSE, "id q has no size"},
    {RESIZE, "[[[\"move\",\"0:0\"]],[]]", DAO_ERR_PARSE,
     ":1:4: expected \"alloc\" or \"free\", found \"move\""},
    {RESIZE, "[[[\"alloc\",\"0:0\",1]],[]]", DAO_ERR_PARSE, "expected \"]\", found a number"},
    {RESIZE, "[[[]],[]]", DAO_ERR_PARSE, "expected \"alloc\" or \"free\", found \"]\""},
    {RESIZE, "[[\"alloc\"],[]]", DAO_ERR_PARSE, "expected [action, id], found a string"},
    {RESIZE, "[1,2]", DAO_ERR_PARSE, "expected a list of [action, id], found a number"},
    /* numbers */
    {SIZES, "[]", DAO_ERR_PARSE, "m.1.tensor_size.json:1:1: expected an object of sizes, found a list"},
    {SIZES, "{\"1\":-5}", DAO_ERR_PARSE, ":1:6: \"-5\" is negative"},
    {SIZES, "{\"1\":+5}", DAO_ERR_PARSE, ":1:6: '+' found"},
    {SIZES, "{\"1\":05}", DAO_ERR_PARSE, ":1:6: a number with a leading zero"},
    {SIZES, "{\"1\":1.5}", DAO_ERR_PARSE, "is not a whole number"},
    {SIZES, "{\"1\":1e3}", DAO_ERR_PARSE, "is not a whole number"},
    {SIZES, "{\"1\":1e400}", DAO_ERR_PARSE, "is not a whole number"},
    {SIZES, "{\"1\":18446744073709551616}", DAO_ERR_OVERFLOW, ":1:6: \"18446744073709551616\" is more than"},
    {SIZES, "{\"1\":10000000000000000000000000000000000000000}", DAO_ERR_OVERFLOW, "is more than"},
    {SIZES, "{\"1\":1.}", DAO_ERR_PARSE, ":1:8: a digit is missing"},
    {SIZES, "{\"1\":1e}", DAO_ERR_PARSE, "a digit is missing"},
    {SIZES, "{\"1\":-}", DAO_ERR_PARSE, "a digit is missing"},
    {SIZES, "{\"1\":\"5\"}", DAO_ERR_PARSE, "expected a size in bytes, found a string"},
    {SIZES, "{\"1\":1,\"1\":1}", DAO_ERR_PARSE, ":1:8: key \"1\" stands here again, first at 1:2"},
    {SIZES, "{\"a\\nb\":1}", DAO_ERR_PARSE, "\"a?b\" is no id"},
    {COST, "{\"0\":1}", DAO_ERR_PARSE, "m.1.cost_info.json:1:7: 1 costs for 2 operators"},
    {COST, "{\"0\":1,\"2\":1}", DAO_ERR_PARSE, ":1:8: \"2\" is none of the 2 operators"},
    {COST, "{\"00\":1}", DAO_ERR_PARSE, "\"00\" is none of the 2 operators"},
    {COST, "{\"18446744073709551616\":1}", DAO_ERR_PARSE, "is none of the 2 operators"},
    {COST, "{\"\":1}", DAO_ERR_PARSE, "\"\" is none of the 2 operators"},
    {COST, "{\"0\":-1}", DAO_ERR_PARSE, "a time of \"-1\" ms is negative"},
    {COST, "{\"0\":1e400}", DAO_ERR_OVERFLOW, "a time of \"1e400\" ms is too long"},
    {COST, "{\"0\":1e99999999999999999999}", DAO_ERR_OVERFLOW, "is too long"},
    {COST, "{\"0\":true}", DAO_ERR_PARSE, "expected milliseconds, found \"true\""},
};

static void every_wrong_file_is_refused_with_its_place(void)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        write_good();
        write_file(cases[i].file, cases[i].text);
        dao_status_t status = read_trace();
        bool has_fragment = strstr(dao_last_message(), cases[i].fragment) != NULL;
        bool has_line_end = strchr(dao_last_message(), '\n') != NULL;
        if (status != cases[i].status || !has_fragment || has_line_end) {
            (void)printf("    case %zu: %s\n    %s, \"%s\"\n    expected \"%s\"\n", i, cases[i].text,
                         dao_status_name(status), dao_last_message(), cases[i].fragment);
            CU_FAIL("a wrong file");
        }
    }
}

static void a_zero_byte_is_refused(void)
{
    write_good();
    char path[256];
    path_of(IO, path);
    dao_test_write_file(path, "[\0]", 3);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":1:2: byte 0x00 found"));
    dao_test_write_file(path, "[{\"op\":\"a\0b\"}]", 15);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":1:10: NUL in a string"));
}

/* Every prefix of every file is an error, none of them a crash. */
static void every_truncated_file_is_refused(void)
{
    for (file_t file = 0; file < FILE_COUNT; file++) {
        write_good();
        size_t length = strlen(good[file]) - (good[file][strlen(good[file]) - 1] == '\n');
        char path[256];
        path_of(file, path);
        for (size_t cut = 0; cut < length; cut++) {
            dao_test_write_file(path, good[file], cut);
            CU_ASSERT_NOT_EQUAL(read_trace(), DAO_OK);
        }
    }
}

static void a_million_brackets_are_refused_at_once(void)
{
    static const char *const units[] = {"[", "{\"a\":", "[{\"x\":"};
    enum { REPEATS = 1000000 };
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        size_t length = strlen(units[i]);
        char *text = dao_host_calloc(REPEATS, length);
        CU_ASSERT_PTR_NOT_NULL_FATAL(text);
        for (size_t r = 0; r < REPEATS; r++) {
            memcpy(text + r * length, units[i], length);
        }
        char path[256];
        write_good();
        path_of(IO, path);
        FILE *stream = fopen(path, "wb");
        CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
        (void)fputs("[{\"deep\":", stream);
        (void)fwrite(text, length, REPEATS, stream);
        (void)fclose(stream);
        CU_ASSERT_EQUAL(read_trace(), DAO_ERR_PARSE);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "nested deeper than 64"));
        dao_host_free(text);
    }
}

static void a_string_has_a_limit(void)
{
    char path[256];
    write_good();
    path_of(IO, path);
    FILE *stream = fopen(path, "wb");
    CU_ASSERT_PTR_NOT_NULL_FATAL(stream);
    (void)fputs("[{\"op\":\"", stream);
    for (size_t i = 0; i < DAO_JSON_TEXT_MAX + 10; i++) {
        (void)fputc('a', stream);
    }
    (void)fclose(stream);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), ":1:8: longer than the limit of 1048576 bytes"));
}

static void what_is_no_file_is_an_io_error(void)
{
    char path[256];
    write_good();
    path_of(COST, path);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "m.1.cost_info.json: No such file"));
    CU_ASSERT_EQUAL(mkdir(path, 0700), 0);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "this is a folder"));
    CU_ASSERT_EQUAL(rmdir(path), 0);
    CU_ASSERT_EQUAL(mkfifo(path, 0600), 0);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "this is not a regular file"));
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL(dao_read_json_step("/nowhere/at/all", NULL, &trace), DAO_ERR_IO);
    CU_ASSERT_EQUAL(dao_read_json_step(path, NULL, &trace), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(unlink(path), 0);
}

static void a_choice_of_batches_is_asked_for(void)
{
    write_good();
    char path[256];
    (void)snprintf(path, sizeof(path), "%s/m.16.tensor_size.json", folder);
    dao_test_write_file(path, "{}", 2);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "choose one with --batch"));
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "16"));
    dao_step_trace_t trace;
    CU_ASSERT_EQUAL(dao_read_json_step(folder, "1", &trace), DAO_OK);
    dao_step_trace_finish(&trace);
    CU_ASSERT_EQUAL(dao_read_json_step(folder, "../x", &trace), DAO_ERR_INVALID);
    CU_ASSERT_EQUAL(unlink(path), 0);
    path_of(SIZES, path);
    CU_ASSERT_EQUAL(unlink(path), 0);
    CU_ASSERT_EQUAL(read_trace(), DAO_ERR_IO);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "m.BATCH.tensor_size.json"));
}

/* A seeded change of a byte anywhere never does worse than an error. */
static void damaged_bytes_do_no_harm(void)
{
    uint64_t state = dao_test_seed("damaged bytes do no harm", 11);
    unsigned refused = 0;
    for (int i = 0; i < 1500; i++) {
        write_good();
        file_t file = (file_t)(dao_random_next(&state) % FILE_COUNT);
        char text[512];
        size_t length = strlen(good[file]);
        memcpy(text, good[file], length);
        for (uint64_t changes = 1 + dao_random_next(&state) % 3; changes > 0; changes--) {
            static const char bytes[] = "[]{}\",:0129-.eE\\u \n\0\xc3\x80z";
            text[dao_random_next(&state) % length] = bytes[dao_random_next(&state) % (sizeof(bytes) - 1)];
        }
        char path[256];
        path_of(file, path);
        dao_test_write_file(path, text, length);
        refused += read_trace() != DAO_OK;
    }
    CU_ASSERT_TRUE(refused > 1000);
}

static void every_failing_call_is_answered(void)
{
#if defined(DAO_FAULTS)
    static const dao_fault_t faults[] = {DAO_FAULT_HOST_MEMORY, DAO_FAULT_FILE_READ};
    static const dao_status_t wanted[] = {DAO_ERR_NO_HOST_MEMORY, DAO_ERR_IO};
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
        write_good();
        uint64_t n = 0;
        for (bool has_fired = true; has_fired && n < 10000; n++) {
            dao_fault_arm(faults[i], n, false);
            dao_status_t status = read_trace();
            has_fired = dao_fault_disarm() > 0;
            CU_ASSERT_EQUAL(status, has_fired ? wanted[i] : DAO_OK);
        }
        (void)printf("    %s: %" PRIu64 " calls\n", dao_fault_text(faults[i]), n - 1);
        CU_ASSERT_TRUE(n > 8);
    }
#endif
}

static void a_map_finds_what_it_was_given(void)
{
    dao_id_map_t map;
    dao_id_map_init(&map);
    uint64_t value = 0;
    bool is_found;
    CU_ASSERT_FALSE(dao_id_map_find(&map, "x", 1, &value));
    for (int round = 0; round < 2; round++) {
        char key[32];
        for (uint64_t i = 0; i < 5000; i++) {
            int length = snprintf(key, sizeof(key), "%" PRIu64 "%s", i, i % 3 == 0 ? "-and-more" : "");
            CU_ASSERT_EQUAL(dao_id_map_add(&map, key, (size_t)length, i, &is_found, &value), DAO_OK);
            CU_ASSERT_FALSE(is_found);
        }
        CU_ASSERT_EQUAL(dao_id_map_add(&map, "4999", 4, 1, &is_found, &value), DAO_OK);
        CU_ASSERT_TRUE(is_found && value == 4999);
        CU_ASSERT_TRUE(dao_id_map_find(&map, "3-and-more", 10, &value) && value == 3);
        CU_ASSERT_FALSE(dao_id_map_find(&map, "5000", 4, &value));
        CU_ASSERT_EQUAL(map.count, 5000);
        dao_id_map_clear(&map);
        CU_ASSERT_EQUAL(map.count, 0);
    }
    dao_id_map_finish(&map);
}

static CU_TestInfo tests[] = {
    {"a map finds what it was given", a_map_finds_what_it_was_given},
    {"a good trace is read exactly", a_good_trace_is_read_exactly},
    {"harmless forms are accepted", harmless_forms_are_accepted},
    {"every wrong file is refused with its place", every_wrong_file_is_refused_with_its_place},
    {"a zero byte is refused", a_zero_byte_is_refused},
    {"every truncated file is refused", every_truncated_file_is_refused},
    {"a million brackets are refused at once", a_million_brackets_are_refused_at_once},
    {"a string has a limit", a_string_has_a_limit},
    {"what is no file is an IO error", what_is_no_file_is_an_io_error},
    {"a choice of batches is asked for", a_choice_of_batches_is_asked_for},
    {"damaged bytes do no harm", damaged_bytes_do_no_harm},
    {"every failing call is answered", every_failing_call_is_answered},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"read_json", make_folder, remove_folder, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
