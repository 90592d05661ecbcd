/* SPDX-License-Identifier: Apache-2.0 */
/* The fuzz target of the readers of steps and events. The first byte of an input picks the reader: `.tr`, our
   own form, the lines of G10, recorded events, JSON tokens, or the four JSON files of a step, of which the
   input is one and the others are right. The others are the file (fuzz_file.h).

   What is read has to be whole: figures can be taken, every operator's accesses name tensors that there are.
   What is refused has a message. */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz_file.h"
#include "tools/model/step_trace.h"
#include "tools/read/events/read_event_file.h"
#include "tools/read/kernels/read_g10.h"
#include "tools/read/kernels/read_tr.h"
#include "tools/read/kernels/read_use_list.h"
#include "tools/read/step/read_dao_step.h"
#include "tools/read/step/read_json_step.h"
#include "tools/read/text/json_reader.h"
#include "tools/write/write_dao_step.h"

#include <dao/status.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const tr_words[] = {"T 2\n0 4096 1 weight\n1 1024 0 activation\n",
                                       "K 2 1\n",
                                       "93.4785 2 0:1 1:2\n",
                                       "12.5 2 1:1 0:3\n",
                                       "T ",
                                       "K ",
                                       "0 4096 1 weight\n",
                                       "\n",
                                       " ",
                                       ":",
                                       ".",
                                       "-",
                                       "0",
                                       "1",
                                       "2",
                                       "3",
                                       "9",
                                       "4096",
                                       "1e3",
                                       "18446744073709551615",
                                       "w",
                                       NULL};

static const char *const use_words[] = {"3 2\n4096 1024 512\n",
                                        "0.25 2 0 1\n",
                                        "1.5 2 1 2\n",
                                        "2 1\n",
                                        "\n",
                                        " ",
                                        "0",
                                        "1",
                                        "2",
                                        "9",
                                        "4096",
                                        ".",
                                        "1e3",
                                        "18446744073709551615",
                                        NULL};

static const char *const dao_words[] = {"dao-step 1\n",
                                        "model m\nbatch 2\n",
                                        "tensor x 4096 tag=input\n",
                                        "tensor y 512 name=a%20b\n",
                                        "tensor v 128 of=y at=128\n",
                                        "op a 12.5 at=1.25 stream=1 module=b pure",
                                        "op b 1",
                                        " <x",
                                        " *x",
                                        " =v",
                                        " >y",
                                        " ^x",
                                        " +t:100",
                                        " -t",
                                        " -x",
                                        " -y",
                                        "\n",
                                        "backward\n",
                                        "end\n",
                                        "# remark\n",
                                        "tensor ",
                                        "op ",
                                        " ",
                                        "%",
                                        "=",
                                        ":",
                                        "0",
                                        "9",
                                        "18446744073709551615",
                                        NULL};

static const char *const g10_words[] = {
    "{\"format\": \"g10-derived 1\", \"model\": \"bert\", \"batch\": 256, \"cycles_per_second\": 1200000000, "
    "\"tensors\": 1, \"kernels\": 1}\n",
    "{\"tensor\": 0, \"weight\": 0, \"size\": 4096}\n",
    "{\"kernel\": 0, \"name\": \"Linear_Forward\", \"cycles\": 37158, \"inputs\": [0], \"outputs\": [0], "
    "\"workspace\": 0}\n",
    "{\"tensor\": ",
    "\"weight\": ",
    "\"size\": ",
    "{\"kernel\": ",
    "\"name\": \"n_Backward\"",
    "\"cycles\": ",
    "\"inputs\": [",
    "\"outputs\": [",
    "\"workspace\": ",
    "]",
    "}",
    ",",
    "\n",
    "-",
    "0",
    "1",
    "2",
    "9",
    "1e9",
    "18446744073709551615",
    NULL};

static const char *const event_words[] = {"time_ns,event,id,bytes,op\n",
                                          "0,step,0,0,0\n",
                                          "1,alloc,8,200,0\n",
                                          "2,free,8,200,1\n",
                                          "3,free,9,50,1\n",
                                          ",alloc,",
                                          ",free,",
                                          ",step,",
                                          ",",
                                          "\n",
                                          "-",
                                          "0",
                                          "1",
                                          "7",
                                          "8",
                                          "18446744073709551615",
                                          NULL};

static const char *const json_words[] = {"[",
                                         "]",
                                         "{",
                                         "}",
                                         ",",
                                         ":",
                                         "\"a\"",
                                         "\"b\"",
                                         "\"",
                                         "\\u00e9",
                                         "\\ud83d\\ude00",
                                         "\\",
                                         "true",
                                         "false",
                                         "null",
                                         "0",
                                         "1",
                                         "-",
                                         ".",
                                         "e",
                                         "18446744073709551615",
                                         "\n",
                                         " ",
                                         "\xc3\xa9",
                                         "\xff",
                                         NULL};

static const char *const step_words[] = {
    "[{\"op\":\"0th:a\",\"id\":0,\"inputs\":[0],\"outputs\":[1],\"mutates\":[],\"temporary\":[\"0:0\"],"
    "\"release\":[]}]",
    "{\"0\":64,\"1\":128,\"0:0\":256}",
    "[[[\"alloc\",\"0:0\"],[\"free\",\"0:0\"]]]",
    "{\"0\":1.5}",
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "\"alloc\"",
    "\"free\"",
    "\"op\"",
    "\"id\"",
    "\"inputs\"",
    "\"outputs\"",
    "\"mutates\"",
    "\"temporary\"",
    "\"release\"",
    "\"0:0\"",
    "\"1\"",
    "\"0\"",
    "0",
    "1",
    "2",
    "-",
    "1.5",
    "18446744073709551615",
    NULL};

/* ---- the four files ---- */

static const char *const step_names[] = {"m.io_info.json", "m.1.tensor_size.json", "m.1.resize_info.json",
                                         "m.1.cost_info.json"};
enum { STEP_FILE_COUNT = 4 };

/* A folder for each of the four that an input can be. */
static char folders[STEP_FILE_COUNT][FUZZ_PATH_BYTES];

static void remove_folders(void)
{
    for (uint32_t fuzzed = 0; fuzzed < STEP_FILE_COUNT; fuzzed++) {
        char path[512];
        for (uint32_t i = 0; i < STEP_FILE_COUNT; i++) {
            (void)snprintf(path, sizeof(path), "%s/%s", folders[fuzzed], step_names[i]);
            (void)unlink(path);
        }
        (void)rmdir(folders[fuzzed]);
    }
}

/* A file of a step that is right. */
static fuzz_file_t right_file(uint32_t index)
{
    const char *const only[] = {step_words[index], NULL};
    const uint8_t one_word[] = {1, 0};
    fuzz_input_t input = {.next = one_word, .left = sizeof(one_word)};
    fuzz_file_t file = fuzz_file_begin();
    fuzz_file_fill(&file, &input, only);
    return file;
}

/* Makes the folders, of links to right files and to the input's. */
static void make_folders(const fuzz_file_t *input)
{
    fuzz_file_t right[STEP_FILE_COUNT];
    for (uint32_t i = 0; i < STEP_FILE_COUNT; i++) {
        right[i] = right_file(i);
    }
    for (uint32_t fuzzed = 0; fuzzed < STEP_FILE_COUNT; fuzzed++) {
        char path[512];
        (void)snprintf(folders[fuzzed], sizeof(folders[fuzzed]), "/tmp/dao_fuzz_step_XXXXXX");
        FUZZ_REQUIRE(mkdtemp(folders[fuzzed]) != NULL);
        for (uint32_t i = 0; i < STEP_FILE_COUNT; i++) {
            (void)snprintf(path, sizeof(path), "%s/%s", folders[fuzzed], step_names[i]);
            FUZZ_REQUIRE(symlink(i == fuzzed ? input->path : right[i].path, path) == 0);
        }
    }
    FUZZ_REQUIRE(atexit(remove_folders) == 0);
}

/* ---- what is read ---- */

static void check_step(const dao_step_trace_t *trace)
{
    dao_step_figures_t figures;
    dao_status_t status = dao_step_trace_figures(trace, &figures);
    FUZZ_REQUIRE(status == DAO_OK || status == DAO_ERR_OVERFLOW);
    FUZZ_REQUIRE(status != DAO_OK || figures.peak_bytes <= figures.rounded_bytes);
    for (size_t i = 0; i < trace->operator_count; i++) {
        dao_trace_range_t range = trace->operators[i].operands;
        FUZZ_REQUIRE(range.begin <= trace->operand_count &&
                     range.count <= trace->operand_count - range.begin);
        for (size_t k = range.begin; k < range.begin + range.count; k++) {
            FUZZ_REQUIRE(trace->operands[k].tensor < trace->tensor_count);
        }
    }
}

static char *write_step(const dao_step_trace_t *trace)
{
    char *text = NULL;
    size_t length = 0;
    FILE *stream = open_memstream(&text, &length);
    FUZZ_REQUIRE(stream != NULL && dao_write_dao_step(stream, trace) == DAO_OK);
    FUZZ_REQUIRE(fclose(stream) == 0);
    return text;
}

/* Written in our own form and read again it is the same step. */
static void check_written(const dao_step_trace_t *trace)
{
    fuzz_file_t file = fuzz_file_begin();
    dao_step_trace_t again;
    char *once = write_step(trace);
    FUZZ_REQUIRE(write(file.descriptor, once, strlen(once)) == (ssize_t)strlen(once));
    FUZZ_REQUIRE(dao_read_dao_step(file.path, &again) == DAO_OK);
    char *twice = write_step(&again);
    FUZZ_REQUIRE(strcmp(once, twice) == 0);
    dao_step_trace_finish(&again);
    free(once);
    free(twice);
    fuzz_file_end(&file);
}

static dao_status_t read_events(const char *path)
{
    dao_event_file_t events;
    dao_status_t status = dao_event_file_read(path, &events);
    if (status != DAO_OK) {
        return status;
    }
    for (size_t i = 0; i < events.record_count; i++) {
        FUZZ_REQUIRE(events.records[i].tensor < events.tensor_count);
    }
    for (size_t i = 0; i < events.step_count; i++) {
        FUZZ_REQUIRE(events.steps[i] <= events.record_count);
    }
    dao_event_file_finish(&events);
    return DAO_OK;
}

/* Returns what the last token answers; each is inside of as many containers as were opened. */
static dao_status_t read_tokens(const char *path)
{
    dao_json_reader_t reader;
    dao_status_t status = dao_json_reader_open(&reader, path);
    if (status != DAO_OK) {
        return status;
    }
    uint32_t depth = 0;
    do {
        status = dao_json_next(&reader);
        if (status == DAO_OK) {
            bool is_begin =
                reader.token == DAO_JSON_TOKEN_OBJECT_BEGIN || reader.token == DAO_JSON_TOKEN_ARRAY_BEGIN;
            bool is_end =
                reader.token == DAO_JSON_TOKEN_OBJECT_END || reader.token == DAO_JSON_TOKEN_ARRAY_END;
            depth += (is_begin ? 1u : 0u) - (is_end ? 1u : 0u);
            FUZZ_REQUIRE(reader.depth == depth && depth <= DAO_JSON_DEPTH_MAX);
            FUZZ_REQUIRE(reader.token != DAO_JSON_TOKEN_END || depth == 0);
        }
    } while (status == DAO_OK && reader.token != DAO_JSON_TOKEN_END);
    dao_json_reader_close(&reader);
    return status;
}

static dao_status_t read_step(uint32_t part, const fuzz_file_t *file)
{
    dao_step_trace_t trace;
    dao_status_t status = part == 0   ? dao_read_tr(file->path, &trace)
                          : part == 1 ? dao_read_g10(file->path, &trace)
                          : part == 9 ? dao_read_use_list(file->path, &trace)
                          : part == 8 ? dao_read_dao_step(file->path, &trace)
                                      : dao_read_json_step(folders[part - 4], NULL, &trace);
    if (status == DAO_OK) {
        check_step(&trace);
        check_written(&trace);
        dao_step_trace_finish(&trace);
    }
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
    static const char *const *const words[] = {tr_words,   g10_words,  event_words, json_words, step_words,
                                               step_words, step_words, step_words,  dao_words,  use_words};
    static fuzz_file_t file; /* of every input */
    fuzz_input_t input = {.next = data, .left = size_bytes};
    if (file.path[0] == '\0') {
        file = fuzz_file_begin();
        make_folders(&file);
    }
    uint32_t part = fuzz_byte(&input) % 10;
    fuzz_file_fill(&file, &input, words[part]);
    dao_status_t status = part == 2   ? read_events(file.path)
                          : part == 3 ? read_tokens(file.path)
                                      : read_step(part, &file);
    FUZZ_REQUIRE(status == DAO_OK || strlen(dao_last_message()) > 0);
    return 0;
}
