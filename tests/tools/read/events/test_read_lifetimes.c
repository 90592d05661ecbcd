/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what is to be placed: every format, every way to be wrong with its line and column, memory that
   runs out, files that are cut anywhere, and the instances that lie beside the project with their known
   figures. */
#include "base/memory/host.h"
#include "base/report/fault.h"
#include "tests/support/models/trace.h"
#include "tests/support/suite.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/step/read_json_step.h"
#include "tools/read/text/csv_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static dao_status_t read_text(const char *text, dao_plan_input_t *out_lifetimes)
{
    dao_test_write_file(dao_test_path, text, strlen(text));
    return dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, out_lifetimes);
}

/* Compares with "id begin-end size, ..."; behind the size may stand @alignment, =offset and #pool. */
static void check(const dao_plan_input_t *lifetimes, const char *wanted)
{
    char text[1024] = "";
    size_t length = 0;
    for (size_t i = 0; i < lifetimes->buffer_count; i++) {
        const dao_plan_buffer_t *buffer = &lifetimes->buffers[i];
        char number[DAO_PLAN_INPUT_NUMBER_BYTES];
        length +=
            (size_t)snprintf(text + length, sizeof(text) - length, "%s%s %" PRIu64 "-%" PRIu64 " %" PRIu64,
                             i > 0 ? ", " : "", dao_plan_input_id(lifetimes, i, number), buffer->begin_time,
                             buffer->end_time, buffer->size_bytes);
        if (buffer->alignment_bytes > 0) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "@%u", buffer->alignment_bytes);
        }
        if (buffer->fixed_offset != DAO_PLAN_NOWHERE) {
            length +=
                (size_t)snprintf(text + length, sizeof(text) - length, "=%" PRIu64, buffer->fixed_offset);
        }
        if (buffer->pool != DAO_PLAN_ANY_POOL) {
            length += (size_t)snprintf(text + length, sizeof(text) - length, "#%" PRIu32, buffer->pool);
        }
    }
    CU_ASSERT_STRING_EQUAL(text, wanted);
    if (strcmp(text, wanted) != 0) {
        (void)printf("    read:   %s\n    wanted: %s\n", text, wanted);
    }
}

#define HEADER "id,lower,upper,size\n"
#define EVENTS "time_ns,event,id,bytes,op\n"

static void every_format_is_read(void)
{
    static const struct {
        const char *text, *wanted;
        uint64_t left_out_count;
    } files[] = {
        {HEADER "a,0,3,4\nb,3,9,5\n", "a 0-3 4, b 3-9 5", 0},
        {HEADER "a,0,3,4\r\n\r\nb,3,9,5", "a 0-3 4, b 3-9 5", 0},
        {"\xef\xbb\xbf" HEADER "\xc3\xa4,0,1,1\n", "\xc3\xa4 0-1 1", 0},
        {"size,end,hint,start,buffer\n8,2,7,1,x\n", "x 1-3 8", 0},
        {"buffer_id,begin,upper,size,alignment,offset\nw,1,2,8,,\nx,1,2,8,0,\ny,1,2,8,64,128\n",
         "w 1-2 8, x 1-2 8, y 1-2 8@64=128", 0},
        {"id,lower,upper,size,pool,offset\nx,1,2,8,63,64\ny,1,2,8,0,\nz,1,2,8,,\n",
         "x 1-2 8=64#63, y 1-2 8#0, z 1-2 8", 0},
        {HEADER "a,0,3,0\nb,3,3,5\nc,0,18446744073709551615,281474976710656\n",
         "c 0-18446744073709551615 281474976710656", 2},
        {"2:0  2 3 2408448\n0  0 2 64\n", "2:0 2-3 2408448, 0 0-2 64", 0},
        {"x\t1\t4 8", "x 1-4 8", 0},
        {" {\"2:0\": {\"free\": 3, \"alloc\": 2, \"size\": 64, \"note\": [1, {}]}, \"0\":\n"
         "{\"alloc\": 0, \"free\": 2, \"size\": 1}}",
         "2:0 2-3 64, 0 0-2 1", 0},
        {EVENTS
         "0,step,0,0,0\n1,alloc,8,200,0\n2,alloc,10,0,0\n3,free,9,50,0\n4,free,8,200,0\n5,alloc,11,7,0\n",
         "8 1-4 200, 9 0-3 50, 11 5-6 7", 1},
    };
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        dao_plan_input_t lifetimes;
        dao_status_t status = read_text(files[i].text, &lifetimes);
        CU_ASSERT_EQUAL(status, DAO_OK);
        if (status != DAO_OK) {
            (void)printf("    %s\n", dao_last_message());
            continue;
        }
        check(&lifetimes, files[i].wanted);
        CU_ASSERT_EQUAL(lifetimes.left_out_count, files[i].left_out_count);
        dao_plan_input_finish(&lifetimes);
    }
}

static void gaps_are_read(void)
{
    dao_plan_input_t lifetimes;
    CU_ASSERT_EQUAL_FATAL(
        read_text("id,lower,upper,size,gaps\nx,0,3,0,1-2\na,0,9,8,1-3 5-6@2:4\nb,1,2,8,\n", &lifetimes),
        DAO_OK);
    check(&lifetimes, "a 0-9 8, b 1-2 8");
    CU_ASSERT_EQUAL_FATAL(lifetimes.gap_count, 2);
    static const dao_plan_gap_t wanted[] = {
        {.buffer = 0, .begin_time = 1, .end_time = 3, .low_byte = 0, .high_byte = 8},
        {.buffer = 0, .begin_time = 5, .end_time = 6, .low_byte = 2, .high_byte = 4}};
    for (size_t i = 0; i < 2; i++) {
        CU_ASSERT_EQUAL(lifetimes.gaps[i].buffer, wanted[i].buffer);
        CU_ASSERT_EQUAL(lifetimes.gaps[i].begin_time, wanted[i].begin_time);
        CU_ASSERT_EQUAL(lifetimes.gaps[i].end_time, wanted[i].end_time);
        CU_ASSERT_EQUAL(lifetimes.gaps[i].low_byte, wanted[i].low_byte);
        CU_ASSERT_EQUAL(lifetimes.gaps[i].high_byte, wanted[i].high_byte);
    }
    dao_plan_input_finish(&lifetimes);
    CU_ASSERT_EQUAL_FATAL(read_text("id,lower,end,size,gaps\na,0,8,8,1-2@0:1\n", &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL(lifetimes.buffers[0].end_time, 9);
    CU_ASSERT_EQUAL(lifetimes.gaps[0].end_time, 3); /* inclusive, too */
    dao_plan_input_finish(&lifetimes);
}

/* As OmniMalloc writes them: a line about the pool, clocks with colons. */
static void clocks_are_read(void)
{
    static const uint32_t begins[] = {1, 0, 0, 4, 2, 0};
    static const uint32_t ends[] = {2, 0, 4294967295, 4, 2, 1};
    dao_plan_input_t lifetimes;
    CU_ASSERT_EQUAL_FATAL(read_text("# pool_offset=4096\r\n" HEADER
                                    "a,1:0:0,2:0:4294967295,8\nb,1:1:1,1:1:1,8\n"
                                    "c,4:2:0,4:2:1,9\n",
                                    &lifetimes),
                          DAO_OK);
    CU_ASSERT_EQUAL_FATAL(lifetimes.buffer_count, 2);
    CU_ASSERT_EQUAL(lifetimes.left_out_count, 1);
    CU_ASSERT_EQUAL_FATAL(lifetimes.clock_count, 3);
    CU_ASSERT_EQUAL(memcmp(lifetimes.begin_clocks, begins, sizeof(begins)), 0);
    CU_ASSERT_EQUAL(memcmp(lifetimes.end_clocks, ends, sizeof(ends)), 0);
    dao_alloc_trace_t trace;
    CU_ASSERT_EQUAL(dao_plan_input_replay(&lifetimes, false, &trace), DAO_ERR_UNSUPPORTED);
    dao_plan_input_finish(&lifetimes);
}

#define GAPS "id,lower,upper,size,gaps\na,5,9,8,"

static void what_is_wrong_is_told_with_line_and_column(void)
{
    static const struct {
        const char *text, *wanted;
    } cases[] = {
        {"", "f:1:1: the file is empty"},
        {"\n\n", "f:3:1: the file is empty"},
        {HEADER, "f:1:1: no buffer"},
        {"id,lower,upper\n", "f:1:1: the first line has no column \"size\""},
        {"id,lower,upper,size,start\n", "f:1:21: there are two columns for lower"},
        {"id,lower,upper,size,end\n", "f:1:21: there are two columns for upper"},
        {HEADER "a,0,3\n", "f:2:6: the line has 3 fields, and there have to be 4"},
        {HEADER "a,0,3,4,5\n", "f:2:9: the line has 5 fields, and there have to be 4"},
        {HEADER ",0,3,4\n", "f:2:1: the id is empty"},
        {HEADER "a,0,3,4\na,0,3,4\n", "f:3:1: line 2 has this id, too"},
        {HEADER "\xc3\xa4,x,3,4\n", "f:2:3: lower is no number"},
        {HEADER "a,0,3,4x\n", "f:2:7: size is no whole number"},
        {HEADER "a,0,-3,4\n", "f:2:5: upper is negative"},
        {HEADER "a, x,3,4\n", "f:2:4: lower is no number"},
        {HEADER "a,0,18446744073709551616,4\n", "f:2:5: upper does not fit 64 bits"},
        {"id,lower,end,size\na,0,18446744073709551615,4\n", "f:2:5: the end does not fit 64 bits"},
        {HEADER "a,4,3,4\n", "f:2:5: the life ends before it begins"},
        {HEADER "a,0,3,281474976710657\n", "f:2:7: size is more than 281474976710656"},
        {"id,lower,upper,size,alignment\na,0,3,4,3\n", "f:2:9: alignment is no power of two"},
        {"id,lower,upper,size,alignment\na,0,3,4,4294967296\n", "f:2:9: alignment is no power of two"},
        {"id,lower,upper,size,offset\na,0,3,4,18446744073709551616\n", "f:2:9: offset does not fit"},
        {"id,lower,upper,size,offset\na,0,3,4,18446744073709551615\n", "f:2:9: offset is more than"},
        {"id,lower,upper,size,pool\na,0,3,4,64\n", "f:2:9: pools have numbers from 0 to 63"},
        {"id,lower,upper,size,pool\na,0,3,4,fast\n", "f:2:9: pool is no number"},
        {GAPS "6", "f:2:10: a gap is LOWER-UPPER"},
        {GAPS "6-", "f:2:11: the end of a gap is no number"},
        {GAPS "6-7@", "f:2:13: the begin of a gap is no number"},
        {GAPS "6-7@1-2", "f:2:14: a gap is LOWER-UPPER"},
        {GAPS "6-7@1:2x", "f:2:16: a gap is LOWER-UPPER"},
        {GAPS "6-6", "f:2:9: this is no gap of the buffer's life"},
        {GAPS "4-6", "f:2:9: this is no gap of the buffer's life"},
        {GAPS "6-10", "f:2:9: this is no gap of the buffer's life"},
        {GAPS "6-7@2:2", "f:2:9: these are no bytes of the buffer"},
        {GAPS "6-7@0:9", "f:2:9: these are no bytes of the buffer"},
        {GAPS "5-9", "f:2:9: gaps fill the buffer's life"},
        {GAPS "5-6 6-9@0:8", "f:2:9: gaps fill the buffer's life"},
        {GAPS "6-8 7-9", "f:2:13: gaps have to be in the order of time"},
        {HEADER "a,1:2,3:4,8\nb,1,3,8\n", "f:3:3: this has 0 clocks, and the first line 2"},
        {HEADER "a,1:2,3:4:5,8\n", "f:2:7: this has 3 clocks, and the first line 2"},
        {HEADER "a,1,3:4,8\n", "f:2:5: this has 2 clocks, and the first line 0"},
        {HEADER "a,1:2,3:x,8\n", "f:2:9: upper is no number"},
        {HEADER "a,1:2,3:4x,8\n", "f:2:9: a clock is a number below 2^32"},
        {HEADER "a,1:2,3:4294967296,8\n", "f:2:9: a clock is a number below 2^32"},
        {HEADER "a,1:2,0:4,8\n", "f:2:7: the life ends before it begins"},
        {"id,lower,end,size\na,1:2,3:4,8\n", "f:2:3: an end that is included has no clocks"},
        {"id,lower,upper,size,gaps\na,1:2,3:4,8,1-2\n", "f:2:13: lives by several clocks have no gaps"},
        {"1 2 3\n", "f:1:6: the line has 3 fields, and there have to be 4"},
        {"{", "f:1:2: the file ends here"},
        {"{\"a\": 1}", "f:1:7: expected an object with alloc, free, size"},
        {"{\"a\": {\"alloc\": 1, \"free\": 2}}", "f:1:2: this has no \"size\""},
        {"{\"a\": {\"alloc\": 3, \"free\": 2, \"size\": 1}}", "f:1:2: the life ends before it begins"},
        {"{\"a\": {\"alloc\": 1, \"free\": 2, \"size\": 281474976710657}}", "f:1:2: its size is more than"},
        {"{\"a\": {\"alloc\": -1, \"free\": 2, \"size\": 1}}", "f:1:17: \"-1\" is negative"},
        {"{\"a\": {\"alloc\": 1, \"alloc\": 2, \"size\": 1}}", "f:1:20: "},
        {"{\"a,b\": {}}", "f:1:2: an id is not empty"},
        {"{} 1", "f:1:4: "},
        {EVENTS "1,alloc,8,1,0\n1,alloc,8,1,0\n", "f:3:9: this id was allocated before"},
        {"time_ns,event\n", "f:1:14: the first line is not time_ns"},
        {EVENTS "1,alloc,,1,0\n", "f:2:9: the id is empty"},
        {EVENTS "1,alloc,8,281474976710657,0\n", "f: \"8\" has more than 2^48 bytes"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        dao_plan_input_t lifetimes;
        CU_ASSERT_NOT_EQUAL(read_text(cases[i].text, &lifetimes), DAO_OK);
        CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), cases[i].wanted));
        if (strstr(dao_last_message(), cases[i].wanted) == NULL) {
            (void)printf("    wanted: %s\n    told:   %s\n", cases[i].wanted, dao_last_message());
        }
    }
}

static void lines_have_limits(void)
{
    static char text[DAO_CSV_LINE_BYTES_MAX + 64];
    dao_plan_input_t lifetimes;
    memset(text, 'i', sizeof(text) - 1);
    CU_ASSERT_EQUAL(read_text(text, &lifetimes), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "f:1:65537: the line is too long"));
    memset(text, ',', 64);
    text[64] = '\0';
    CU_ASSERT_EQUAL(read_text(text, &lifetimes), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "f:1:33: the line has more than 32 fields"));
    dao_test_write_file(dao_test_path, HEADER "a\0b,1,2,3\n", sizeof(HEADER "a\0b,1,2,3\n") - 1);
    CU_ASSERT_EQUAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "f:2:2: a byte of the line is zero"));
    CU_ASSERT_EQUAL(dao_read_lifetimes("/nowhere", &(dao_read_choice_t){0}, &lifetimes), DAO_ERR_IO);
}

static void lives_without_memory_are_refused(void)
{
    static const char *const texts[] = {
        "id,lower,upper,size,gaps\na,0,9,8,1-3\nb,1,2,8,\n", HEADER "a,0:1,1:1,8\n", "a 0 9 8\nb 0 9 8\n",
        EVENTS "1,alloc,8,200,0\n4,free,8,200,0\n", "{\"a\": {\"alloc\": 1, \"free\": 2, \"size\": 1}}"};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        uint64_t failed = 1;
        for (uint64_t n = 0; failed > 0; n++) {
            dao_plan_input_t lifetimes;
            dao_test_write_file(dao_test_path, texts[i], strlen(texts[i]));
            dao_fault_arm(DAO_FAULT_ANY, n, false);
            dao_status_t status = dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes);
            failed = dao_fault_disarm();
            CU_ASSERT_EQUAL(status == DAO_OK, failed == 0);
            if (status == DAO_OK) {
                dao_plan_input_finish(&lifetimes);
            }
        }
    }
}

/* ---- packed files ---- */

/* Packs text as gzip does; gives the length. */
static size_t pack(const char *text, unsigned char *out_bytes, size_t most)
{
    z_stream stream = {.next_in = (unsigned char *)(uintptr_t)text,
                       .avail_in = (uInt)strlen(text),
                       .next_out = out_bytes,
                       .avail_out = (uInt)most};
    CU_ASSERT_EQUAL_FATAL(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    CU_ASSERT_EQUAL_FATAL(deflate(&stream, Z_FINISH), Z_STREAM_END);
    (void)deflateEnd(&stream);
    return most - stream.avail_out;
}

static void packed_files_are_read(void)
{
    unsigned char bytes[512];
    dao_plan_input_t lifetimes;
    size_t first = pack(HEADER "a,0,3,4\nb,", bytes, sizeof(bytes));
    size_t second = pack("3,9,5\n", bytes + first, sizeof(bytes) - first);
    dao_test_write_file(dao_test_path, bytes, first + second); /* two packed files in a row are one */
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
    check(&lifetimes, "a 0-3 4, b 3-9 5");
    dao_plan_input_finish(&lifetimes);
    for (size_t length = 2; length < first + second; length++) {
        dao_test_write_file(dao_test_path, bytes, length);
        CU_ASSERT_EQUAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes),
                        DAO_ERR_PARSE);
        if (length != first) { /* there the first of the two is whole, and its last line is not */
            CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "the packed file is cut off"));
        }
    }
    bytes[first / 2] ^= 0xff;
    dao_test_write_file(dao_test_path, bytes, first + second);
    CU_ASSERT_EQUAL(dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes), DAO_ERR_PARSE);
    CU_ASSERT_PTR_NOT_NULL(strstr(dao_last_message(), "the packed file is damaged"));
}

static void packed_files_without_memory_are_refused(void)
{
    unsigned char bytes[512];
    uint64_t failed = 1;
    size_t length = pack(HEADER "a,0,3,4\n", bytes, sizeof(bytes));
    dao_test_write_file(dao_test_path, bytes, length);
    for (uint64_t n = 0; failed > 0; n++) {
        dao_plan_input_t lifetimes;
        dao_fault_arm(DAO_FAULT_ANY, n, false);
        dao_status_t status = dao_read_lifetimes(dao_test_path, &(dao_read_choice_t){0}, &lifetimes);
        failed = dao_fault_disarm();
        CU_ASSERT_EQUAL(status == DAO_OK, failed == 0);
        if (status == DAO_OK) {
            dao_plan_input_finish(&lifetimes);
        }
    }
}

/* ---- steps ---- */

/* The most bytes alive at once are those that the step's own figures tell; all its temporaries are freed. */
static void a_step_has_the_peak_of_its_figures(void)
{
    dao_step_trace_t step;
    dao_step_figures_t figures;
    dao_plan_input_t lifetimes;
    dao_alloc_trace_t trace;
    CU_ASSERT_EQUAL_FATAL(dao_read_json_step(DAO_TEST_TRACE, NULL, &step), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_step_trace_figures(&step, &figures), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(DAO_TEST_TRACE, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
    CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(&lifetimes, false, &trace), DAO_OK);
    CU_ASSERT(dao_alloc_trace_is_valid(&trace));
    CU_ASSERT_EQUAL(trace.peak_bytes, figures.peak_bytes);
    CU_ASSERT_EQUAL(lifetimes.buffer_count + lifetimes.left_out_count,
                    step.tensor_count + step.temporary_count);
    dao_alloc_trace_finish(&trace);
    dao_plan_input_finish(&lifetimes);
    dao_step_trace_finish(&step);
}

/* x is born at 1, its temporary a lives from 2, b from 3 to 4; a goes with the operator, at 5. */
static void a_workspace_ends_with_its_operator(void)
{
    dao_plan_input_t lifetimes;
    CU_ASSERT_EQUAL_FATAL(read_text("dao-step 1\ntensor x 100\ntensor y 10\n"
                                    "op f 1 >x +a:500 +b:300 -b\nop g 1 <x >y -x\nend\n",
                                    &lifetimes),
                          DAO_OK);
    check(&lifetimes, "x 1-7 100, y 6-8 10, a 2-5 500, b 3-4 300");
    dao_plan_input_finish(&lifetimes);
}

/* ---- instances beside the project ---- */

static void known_instances_have_their_figures(void)
{
    static const struct {
        const char *name;
        uint64_t buffer_count, live_bytes;
    } instances[] = {
        {"minimalloc/A.1048576.csv", 154, 1048576},
        {"minimalloc/D.1048576.csv", 213, 986112},
        {"minimalloc/J.1048576.csv", 409, 989184},
        {"minimalloc/input.12.csv", 5, 12},
        {"omnimalloc-small/g.7.csv", 6, 7},
        {"idealloc/somas_resnet50.csv", 1042, 1515472556},
        {"idealloc/iopddl_S_1.csv.gz", 28526, 1498635932},
        {"plan-synthetic/pp.2000.s1.csv.gz", 2024, 12405035520},
    };
    for (size_t i = 0; i < sizeof(instances) / sizeof(instances[0]); i++) {
        char name[256];
        char file[4096];
        dao_plan_input_t lifetimes;
        dao_alloc_trace_t trace;
        (void)snprintf(name, sizeof(name), "data/%s", instances[i].name);
        if (!dao_test_shared_file(name, file, sizeof(file))) {
            continue;
        }
        CU_ASSERT_EQUAL_FATAL(dao_read_lifetimes(file, &(dao_read_choice_t){0}, &lifetimes), DAO_OK);
        CU_ASSERT_EQUAL_FATAL(dao_plan_input_replay(&lifetimes, false, &trace), DAO_OK);
        CU_ASSERT_EQUAL(lifetimes.buffer_count, instances[i].buffer_count);
        CU_ASSERT_EQUAL(trace.peak_bytes, instances[i].live_bytes);
        dao_alloc_trace_finish(&trace);
        dao_plan_input_finish(&lifetimes);
    }
}

static CU_TestInfo tests[] = {
    {"every format is read", every_format_is_read},
    {"gaps are read", gaps_are_read},
    {"clocks are read", clocks_are_read},
    {"what is wrong is told with line and column", what_is_wrong_is_told_with_line_and_column},
    {"lines have limits", lines_have_limits},
    {"lives without memory are refused", lives_without_memory_are_refused},
    {"packed files are read", packed_files_are_read},
    {"packed files without memory are refused", packed_files_without_memory_are_refused},
    {"a step has the peak of its figures", a_step_has_the_peak_of_its_figures},
    {"a workspace ends with its operator", a_workspace_ends_with_its_operator},
    {"known instances have their figures", known_instances_have_their_figures},
    CU_TEST_INFO_NULL,
};

int main(void)
{
    CU_SuiteInfo suites[] = {{"read_lifetimes", dao_test_path_begin, dao_test_path_end, NULL, NULL, tests},
                             CU_SUITE_INFO_NULL};
    return dao_suite_run(suites);
}
