/* SPDX-License-Identifier: Apache-2.0 */
/* First the bytes that files of no text begin with, then the first key of an object that settles it, then the
   words of the first line. Each is a table, so that a new form is a row.

       80 02 ..            a pickle                    { "traceEvents"         a key
       PK 03 04            named and refused           Thread,Time,Action      a line                       */
#include "tools/read/form/recognise.h"

#include "base/report/error.h"
#include "tools/read/log/event_file.h"
#include "tools/read/text/csv_reader.h"
#include "tools/read/text/json_reader.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What a form is that is known and not read. */
#define REFUSED DAO_FILE_FORM_COUNT

/* What there is to do instead, for several rows. */
#define ASK_FOR_A_SNAPSHOT "record a memory snapshot (torch.cuda.memory._dump_snapshot)"
#define ASK_FOR_LIFETIMES  "write its buffers as CSV: id,lower,upper,size"

typedef enum form_kind { KIND_STEP, KIND_LIFETIMES, KIND_EVENTS } form_kind_t;

static const struct {
    const char *name;
    form_kind_t kind;
} forms[DAO_FILE_FORM_COUNT] = {
    [DAO_FILE_FORM_JSON_STEP] = {"a step in four JSON files", KIND_STEP},
    [DAO_FILE_FORM_DAO_STEP] = {"a step of dao", KIND_STEP},
    [DAO_FILE_FORM_TR] = {"a recorded step", KIND_STEP},
    [DAO_FILE_FORM_USE_LIST] = {"a list of kernels and what they use", KIND_STEP},
    [DAO_FILE_FORM_G10] = {"a step of G10", KIND_STEP},
    [DAO_FILE_FORM_EXECUTION_TRACE] = {"a PyTorch execution trace", KIND_STEP},
    [DAO_FILE_FORM_LIFETIMES] = {"a list of lifetimes", KIND_LIFETIMES},
    [DAO_FILE_FORM_OBJECT] = {"an object of lifetimes", KIND_LIFETIMES},
    [DAO_FILE_FORM_EVENTS] = {"a program's allocations and frees", KIND_EVENTS},
    [DAO_FILE_FORM_SNAPSHOT] = {"a PyTorch memory snapshot", KIND_EVENTS},
    [DAO_FILE_FORM_CHROME_TRACE] = {"a PyTorch profiler trace", KIND_EVENTS},
    [DAO_FILE_FORM_MEMORY_TIMELINE] = {"a PyTorch memory timeline", KIND_EVENTS},
    [DAO_FILE_FORM_RMM] = {"a log of RMM", KIND_EVENTS},
    [DAO_FILE_FORM_UMPIRE] = {"a replay file of Umpire", KIND_EVENTS},
    [DAO_FILE_FORM_ROCPROF] = {"a memory allocation trace of rocprofv3", KIND_EVENTS},
    [DAO_FILE_FORM_NSYS] = {"a database of nsys", KIND_EVENTS},
    [DAO_FILE_FORM_SIZE_LIST] = {"a list of sizes and frees", KIND_EVENTS},
    [DAO_FILE_FORM_RECORDING] = {"what a process did with its memory", KIND_EVENTS},
};

const char *dao_file_form_name(dao_file_form_t form)
{
    return forms[form].name;
}

bool dao_file_form_is_step(dao_file_form_t form)
{
    return forms[form].kind == KIND_STEP;
}

bool dao_file_form_has_batches(dao_file_form_t form)
{
    return form == DAO_FILE_FORM_JSON_STEP;
}

bool dao_file_form_has_events(dao_file_form_t form)
{
    return forms[form].kind == KIND_EVENTS;
}

/* A sign of a form; of a refused one, what it is and what to do. */
typedef struct sign {
    const char *text;
    size_t length; /* of bytes; 0: of a text */
    dao_file_form_t form;
    const char *refusal;
} sign_t;

static dao_status_t take_sign(const char *path, const sign_t *sign, dao_file_form_t *out_form)
{
    *out_form = sign->form;
    return sign->form == REFUSED ? dao_error(DAO_ERR_UNSUPPORTED, "%.200s: this is %s", path, sign->refusal)
                                 : DAO_OK;
}

/* ---- bytes ---- */

enum { HEAD_BYTES = 64 };

static const sign_t head_signs[] = {
    {"\x80\x02", 2, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"\x80\x03", 2, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"\x80\x04", 2, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"\x80\x05", 2, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"PK\x03\x04", 4, REFUSED, "a zip archive; unpack it, and name the file in it"},
    {"SQLite format 3", 16, DAO_FILE_FORM_NSYS, NULL},
    {"heap profile:", 13, REFUSED,
     "a heap profile of totals by stack, without lifetimes; " ASK_FOR_LIFETIMES},
    {"--- heapz", 9, REFUSED, "a heap profile of totals by stack, without lifetimes; " ASK_FOR_LIFETIMES},
    {"heap_v2/", 8, REFUSED, "a jemalloc heap profile, sampled, without lifetimes; " ASK_FOR_LIFETIMES},
    {"\x08\x03\x12", 3, REFUSED, "an ONNX model, which has no lifetimes; " ASK_FOR_LIFETIMES},
    {"<!DOCTYPE", 9, REFUSED, "a page; of a memory timeline, export the .raw.json.gz instead"},
    {"<html", 5, REFUSED, "a page; of a memory timeline, export the .raw.json.gz instead"},
    {"TBLH", 4, REFUSED, "a bytehound file; " ASK_FOR_LIFETIMES},
    {"\x1f\x8b", 2, REFUSED, "packed twice; unpack it once"},
    {"\x28\xb5\x2f\xfd", 4, REFUSED, "packed twice; unpack it once"},
    {"\xff\xfe", 2, REFUSED, "text in UTF-16; write it in UTF-8"},
    {"\xfe\xff", 2, REFUSED, "text in UTF-16; write it in UTF-8"},
};

/* Text does not begin with bytes below the blank, but for tabs and ends of lines. What stands further on is
   its reader's business. */
static bool is_text(const unsigned char *bytes, size_t count)
{
    enum { BEGIN_BYTES = 8 }; /* as far as the marks of common files reach */
    for (size_t i = 0; i < count && i < BEGIN_BYTES; i++) {
        if (bytes[i] == '\0' || (bytes[i] < ' ' && strchr("\t\r\n\f", bytes[i]) == NULL)) {
            return false;
        }
    }
    return true;
}

/* An ONNX model begins with its version, 3 to 15, and the name of its producer. */
static bool is_onnx(const unsigned char *bytes, size_t count)
{
    return count > 3 && bytes[0] == 0x08 && bytes[1] >= 3 && bytes[1] <= 15 && bytes[2] == 0x12;
}

static bool head_matches(const sign_t *sign, const unsigned char *bytes, size_t count)
{
    return (count >= sign->length && memcmp(bytes, sign->text, sign->length) == 0) ||
           (sign->text[0] == 0x08 && is_onnx(bytes, count));
}

/* Looks at the first bytes; *out_first gets the first that is no blank, 0 if a sign was found. */
static dao_status_t look_at_head(const char *path, const unsigned char *bytes, size_t count,
                                 dao_file_form_t *out_form, char *out_first)
{
    *out_first = '\0';
    for (size_t i = 0; i < sizeof(head_signs) / sizeof(head_signs[0]); i++) {
        if (head_matches(&head_signs[i], bytes, count)) {
            return take_sign(path, &head_signs[i], out_form);
        }
    }
    if (count == 0) {
        return dao_error(DAO_ERR_PARSE, "%.200s:1:1: the file is empty", path);
    }
    if (!is_text(bytes, count)) {
        return dao_error(DAO_ERR_PARSE, "%.200s: no form that dao knows: it holds bytes that are no text",
                         path);
    }
    size_t blanks = 0;
    while (blanks < count && strchr(" \t\r\n", bytes[blanks]) != NULL) {
        blanks++;
    }
    *out_first = ' ';
    if (blanks < count) {
        *out_first = (char)bytes[blanks];
    }
    return DAO_OK;
}

static dao_status_t read_head(const char *path, dao_file_form_t *out_form, char *out_first)
{
    unsigned char bytes[HEAD_BYTES];
    size_t count = 0;
    dao_text_source_t source;
    dao_status_t status = dao_text_source_open(&source, path);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_text_source_read(&source, bytes, sizeof(bytes), &count);
    dao_text_source_close(&source);
    return status == DAO_OK ? look_at_head(path, bytes, count, out_form, out_first) : status;
}

/* ---- JSON ---- */

/* The first key of the outer object that settles it. */
static const sign_t key_signs[] = {
    {"traceEvents", 0, DAO_FILE_FORM_CHROME_TRACE, NULL},
    {"nodes", 0, DAO_FILE_FORM_EXECUTION_TRACE, NULL},
    {"segments", 0, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"device_traces", 0, DAO_FILE_FORM_SNAPSHOT, NULL},
    {"category", 0, DAO_FILE_FORM_UMPIRE, NULL},
    {"numeric_args", 0, DAO_FILE_FORM_UMPIRE, NULL},
    {"format", 0, DAO_FILE_FORM_G10, NULL},
    {"INSTRUCTION", 0, REFUSED, "a log of DTR, without addresses; " ASK_FOR_LIFETIMES},
    {"hash_ids", 0, REFUSED, "a trace of inference requests, of Mooncake; " ASK_FOR_LIFETIMES},
    {"rocprofiler-sdk-tool", 0, REFUSED, "the JSON of rocprofv3; write it with -f csv"},
};

/* Looks into an object whose bracket was taken: one of a lifetime has these keys and no others. */
static dao_status_t look_at_item(dao_json_reader_t *json, bool *out_is_lifetime)
{
    dao_status_t status = dao_json_next(json);
    *out_is_lifetime = status == DAO_OK && json->token == DAO_JSON_TOKEN_KEY &&
                       (strcmp(json->text, "alloc") == 0 || strcmp(json->text, "free") == 0 ||
                        strcmp(json->text, "size") == 0);
    while (status == DAO_OK && json->token == DAO_JSON_TOKEN_KEY && !*out_is_lifetime) {
        status = dao_json_next(json);
        if (status == DAO_OK) {
            status = dao_json_skip(json);
        }
        if (status == DAO_OK) {
            status = dao_json_next(json);
        }
    }
    return status;
}

static dao_status_t look_at_keys(dao_json_reader_t *json, const char *path, dao_file_form_t *out_form)
{
    bool is_lifetime = false;
    dao_status_t status = dao_json_next(json);
    while (status == DAO_OK && json->token == DAO_JSON_TOKEN_KEY && !is_lifetime) {
        for (size_t i = 0; i < sizeof(key_signs) / sizeof(key_signs[0]); i++) {
            if (strcmp(json->text, key_signs[i].text) == 0) {
                return take_sign(path, &key_signs[i], out_form);
            }
        }
        status = dao_json_next(json);
        if (status == DAO_OK) {
            status = json->token == DAO_JSON_TOKEN_OBJECT_BEGIN ? look_at_item(json, &is_lifetime)
                                                                : dao_json_skip(json);
        }
        if (status == DAO_OK && !is_lifetime) {
            status = dao_json_next(json);
        }
    }
    *out_form = DAO_FILE_FORM_OBJECT; /* its reader says what is wrong with it, if it is none */
    return status;
}

/* [[ and four numbers are a memory timeline; [{ is the list form of a trace, or of a snapshot. */
static dao_status_t look_at_list(dao_json_reader_t *json, const char *path, dao_file_form_t *out_form)
{
    size_t numbers = 0;
    dao_status_t status = dao_json_next(json);
    if (status == DAO_OK && json->token == DAO_JSON_TOKEN_OBJECT_BEGIN) {
        *out_form = DAO_FILE_FORM_CHROME_TRACE;
        return DAO_OK;
    }
    bool is_rows = status == DAO_OK && json->token == DAO_JSON_TOKEN_ARRAY_BEGIN;
    while (status == DAO_OK && is_rows) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token != DAO_JSON_TOKEN_NUMBER) {
            break;
        }
        numbers++;
    }
    if (status != DAO_OK) {
        return status;
    }
    *out_form = DAO_FILE_FORM_MEMORY_TIMELINE;
    return is_rows && numbers == 4 && json->token == DAO_JSON_TOKEN_ARRAY_END
               ? DAO_OK
               : dao_error(DAO_ERR_UNSUPPORTED,
                           "%.200s: this is a list, perhaps the sums of a memory timeline; export its "
                           ".raw.json.gz, or " ASK_FOR_A_SNAPSHOT "; of a step in four JSON files, name "
                           "the folder",
                           path);
}

static dao_status_t look_at_json(const char *path, char first, dao_file_form_t *out_form)
{
    dao_json_reader_t json;
    dao_status_t status = dao_json_reader_open(&json, path);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_json_next(&json); /* it is the bracket that was seen */
    if (status == DAO_OK) {
        status = first == '{' ? look_at_keys(&json, path, out_form) : look_at_list(&json, path, out_form);
    }
    dao_json_reader_close(&json);
    return status;
}

/* ---- lines ---- */

/* Columns that only one form has, in any order. */
enum { HEADER_COLUMN_COUNT = 4 };

static const struct {
    const char *columns[HEADER_COLUMN_COUNT]; /* NULL ends them */
    sign_t sign;
} headers[] = {
    {{"Action", "Pointer", "Size", "Stream"}, {.form = DAO_FILE_FORM_RMM}},
    {{"Kind", "Operation", "Agent_Id", "Allocation_Size"}, {.form = DAO_FILE_FORM_ROCPROF}},
    {{"time_ns", "event", "place", "address"}, {.form = DAO_FILE_FORM_RECORDING}},
    {{"time_ns", NULL}, {.form = DAO_FILE_FORM_EVENTS}},
    {{"TIMESTAMP", "ContextTokens", "GeneratedTokens", NULL},
     {.form = REFUSED, .refusal = "a trace of inference requests, of Azure; " ASK_FOR_LIFETIMES}},
};

static const sign_t no_header = {
    .form = REFUSED,
    .refusal = "a table of numbers whose first line does not say what they are; lifetimes begin with "
               "id,lower,upper,size, events with time_ns,event,id,size"};

static bool has_field(const dao_csv_reader_t *csv, const char *text)
{
    for (size_t i = 0; i < csv->field_count; i++) {
        if (strcmp(csv->fields[i], text) == 0) {
            return true;
        }
    }
    return false;
}

static bool has_columns(const dao_csv_reader_t *csv, const char *const columns[HEADER_COLUMN_COUNT])
{
    bool has_all = true;
    for (size_t i = 0; i < HEADER_COLUMN_COUNT && columns[i] != NULL; i++) {
        has_all = has_all && has_field(csv, columns[i]);
    }
    return has_all;
}

/* A line of numbers alone, some of which are no counts. */
static bool is_table(const dao_csv_reader_t *csv)
{
    bool has_fraction = false;
    for (size_t i = 0; i < csv->field_count; i++) {
        char *end = NULL;
        (void)strtod(csv->fields[i], &end);
        if (end == csv->fields[i] || *end != '\0') {
            return false;
        }
        has_fraction = has_fraction || strchr(csv->fields[i], '.') != NULL;
    }
    return has_fraction;
}

static bool is_count(const char *text)
{
    return *text != '\0' && strspn(text, "0123456789") == strlen(text);
}

/* What a first line of two words is: `T 12`, `120 300`, `4096 -1`. */
static dao_file_form_t form_of_pair(const dao_csv_reader_t *csv)
{
    const char *first = csv->fields[0], *second = csv->fields[1];
    if (csv->field_count != 2 || csv->separator != ' ') {
        return DAO_FILE_FORM_LIFETIMES;
    }
    if (strcmp(first, "T") == 0 && is_count(second)) {
        return DAO_FILE_FORM_TR;
    }
    if (is_count(first) && strcmp(second, "-1") == 0) {
        return DAO_FILE_FORM_SIZE_LIST;
    }
    return is_count(first) && is_count(second) ? DAO_FILE_FORM_USE_LIST : DAO_FILE_FORM_LIFETIMES;
}

static dao_status_t look_at_fields(const dao_csv_reader_t *csv, const char *path, dao_file_form_t *out_form)
{
    static const sign_t words[] = {
        {"dao-step", 0, DAO_FILE_FORM_DAO_STEP, NULL},
        {"load_tensors:", 0, REFUSED, "a log of llama.cpp, with sums alone; " ASK_FOR_LIFETIMES},
        {"llm_load_tensors:", 0, REFUSED, "a log of llama.cpp, with sums alone; " ASK_FOR_LIFETIMES},
        {"v", 0, REFUSED, "a heaptrack file, whose frees name no block; " ASK_FOR_LIFETIMES},
    };
    *out_form = form_of_pair(csv);
    if (*out_form != DAO_FILE_FORM_LIFETIMES) {
        return DAO_OK;
    }
    for (size_t i = 0; i < sizeof(headers) / sizeof(headers[0]); i++) {
        if (has_columns(csv, headers[i].columns)) {
            return take_sign(path, &headers[i].sign, out_form);
        }
    }
    if (is_table(csv)) {
        return take_sign(path, &no_header, out_form);
    }
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]) && csv->field_count > 0; i++) {
        if (strcmp(csv->fields[0], words[i].text) == 0) {
            return take_sign(path, &words[i], out_form);
        }
    }
    return DAO_OK; /* its reader says what is wrong with the line, if it is none of lifetimes */
}

static dao_status_t look_at_line(const char *path, dao_file_form_t *out_form)
{
    dao_csv_reader_t csv;
    bool has_more = false;
    dao_status_t status = dao_csv_open(&csv, path, 0);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_csv_next(&csv, &has_more);
    if (status == DAO_OK && !has_more) {
        status = dao_csv_error(&csv, 0, "the file is empty");
    }
    if (status == DAO_OK) {
        status = look_at_fields(&csv, path, out_form);
    }
    dao_csv_close(&csv);
    return status;
}

/* ---- all of it ---- */

/* Returns true if a name ends so, packed by gzip or not. */
static bool has_ending(const char *path, const char *ending)
{
    static const char packed[] = ".gz";
    size_t length = strlen(path), ending_length = strlen(ending);
    if (length > sizeof(packed) && strcmp(path + length - (sizeof(packed) - 1), packed) == 0) {
        length -= sizeof(packed) - 1;
    }
    return length > ending_length && strncmp(path + length - ending_length, ending, ending_length) == 0;
}

/* The four files of a step are found by their names, so they are told by them: one leads to the others. */
static dao_status_t look_at_name(const char *path, bool *out_is_step)
{
    static const char *const parts[] = {".cost_info.json", ".tensor_size.json", ".resize_info.json"};
    struct stat about;
    bool is_there = stat(path, &about) == 0;
    *out_is_step = (is_there && S_ISDIR(about.st_mode)) || has_ending(path, ".io_info.json");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]) && is_there && !*out_is_step; i++) {
        if (has_ending(path, parts[i])) {
            return dao_error(DAO_ERR_UNSUPPORTED,
                             "%.200s: this is a part of a step in four JSON files; name their folder, or the "
                             ".io_info.json",
                             path);
        }
    }
    return DAO_OK;
}

dao_status_t dao_recognise(const char *path, dao_file_form_t *out_form)
{
    char first = '\0';
    bool is_step = false;
    dao_status_t status = look_at_name(path, &is_step);
    if (status != DAO_OK || is_step) {
        *out_form = DAO_FILE_FORM_JSON_STEP;
        return status;
    }
    status = read_head(path, out_form, &first);
    if (status != DAO_OK || first == '\0') {
        return status;
    }
    return first == '{' || first == '[' ? look_at_json(path, first, out_form) : look_at_line(path, out_form);
}

dao_status_t dao_recognise_part(const char *path, const char *batch, const char *device,
                                dao_file_form_t *out_form)
{
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_status_t status = dao_recognise(path, &form);
    if (status != DAO_OK) {
        return status;
    }
    if (batch != NULL && !dao_file_form_has_batches(form)) {
        return dao_error(DAO_ERR_INVALID, "%.200s: %s has no batches to choose from", path, forms[form].name);
    }
    if (device != NULL && !dao_file_form_has_events(form)) {
        return dao_error(DAO_ERR_INVALID, "%.200s: %s has no devices to choose from", path, forms[form].name);
    }
    *out_form = form;
    return DAO_OK;
}
