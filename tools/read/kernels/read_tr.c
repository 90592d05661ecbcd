/* SPDX-License-Identifier: Apache-2.0 */
/* A line is a list of words with spaces between them; a name is the rest of its line. Counts in the file are
   checked, not trusted: nothing is allocated by them. */
#include "tools/read/kernels/read_tr.h"

#include "base/report/error.h"
#include "tools/read/kernels/access_list.h"
#include "tools/read/text/word_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Longest word, and longest name. */
enum { WORD_BYTES_MAX = 256 };

/* What an access does. */
enum { MODE_READ = 1, MODE_OVERWRITE = 2, MODE_BOTH = 3 };

typedef struct tr_reader {
    dao_word_reader_t words;
    dao_id_map_t ids; /* -> the tensor's index in the list */
    dao_access_list_t list;
    uint32_t first_backward;
} tr_reader_t;

/* A line `LETTER count`, up to where more may follow. */
static dao_status_t take_head(tr_reader_t *reader, const char *letter, const char *what, uint64_t *out_count)
{
    dao_word_reader_t *words = &reader->words;
    dao_status_t status = dao_word_take(words, what);
    if (status == DAO_OK && strcmp(words->word, letter) != 0) {
        return dao_word_error(words, DAO_ERR_PARSE, "expected %s", what);
    }
    return status == DAO_OK ? dao_word_take_u64(words, "a count", out_count) : status;
}

/* ---- tensors ---- */

static dao_status_t add_tensor(tr_reader_t *reader, uint64_t id, uint64_t size_bytes, bool is_carried)
{
    char name[WORD_BYTES_MAX + 32];
    char key[32];
    bool is_known = false;
    uint64_t index = reader->list.tensor_count;
    int key_length = snprintf(key, sizeof(key), "%" PRIu64, id);
    (void)snprintf(name, sizeof(name), "%.*s.%s", DAO_TOUCH_NAME_MAX - key_length - 1, reader->words.word,
                   key);
    dao_status_t status = dao_id_map_add(&reader->ids, key, (size_t)key_length, index, &is_known, &index);
    if (status == DAO_OK && is_known) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "tensor %s was there before", key);
    }
    return status == DAO_OK
               ? dao_word_place(&reader->words,
                                dao_access_list_add_tensor(&reader->list, name, size_bytes, is_carried))
               : status;
}

static dao_status_t read_tensor(tr_reader_t *reader)
{
    uint64_t id = 0;
    uint64_t size_bytes = 0;
    uint64_t is_carried = 0;
    dao_status_t status = dao_word_take_u64(&reader->words, "a tensor's number", &id);
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "a size in bytes", &size_bytes);
    }
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "0 or 1", &is_carried);
    }
    if (status == DAO_OK && is_carried > 1) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE,
                              "expected 0 or 1: whether the tensor is carried between steps");
    }
    if (status == DAO_OK) {
        status = dao_word_rest(&reader->words);
    }
    if (status == DAO_OK) {
        status = add_tensor(reader, id, size_bytes, is_carried == 1);
    }
    return status == DAO_OK ? dao_word_end_line(&reader->words) : status;
}

static dao_status_t read_tensors(tr_reader_t *reader)
{
    uint64_t count = 0;
    dao_status_t status = take_head(reader, "T", "T and the number of tensors", &count);
    if (status == DAO_OK) {
        status = dao_word_end_line(&reader->words);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_tensor(reader);
    }
    return status;
}

/* ---- kernels ---- */

static dao_status_t read_access(tr_reader_t *reader)
{
    dao_status_t status = dao_word_take(&reader->words, "a tensor and a mode, such as 7:1");
    if (status != DAO_OK) {
        return status;
    }
    uint64_t id = 0;
    uint64_t mode = 0;
    status =
        dao_word_parse_u64(&reader->words, reader->words.word, ':', "a tensor and a mode, such as 7:1", &id);
    if (status == DAO_OK) {
        const char *behind = strchr(reader->words.word, ':') + 1;
        status =
            dao_word_parse_u64(&reader->words, behind, '\0', "a mode: 1 read, 2 overwrite, 3 both", &mode);
    }
    if (status == DAO_OK && (mode < MODE_READ || mode > MODE_BOTH)) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE,
                              "%" PRIu64 " is no mode: 1 read, 2 overwrite, 3 both", mode);
    }
    char key[32];
    int key_length = snprintf(key, sizeof(key), "%" PRIu64, id);
    uint64_t index = 0;
    if (status == DAO_OK && !dao_id_map_find(&reader->ids, key, (size_t)key_length, &index)) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "there is no tensor %s", key);
    }
    return status == DAO_OK
               ? dao_word_place(&reader->words,
                                dao_access_list_add_access(&reader->list, (uint32_t)index,
                                                           mode != MODE_OVERWRITE, mode != MODE_READ))
               : status;
}

static dao_status_t read_kernel(tr_reader_t *reader)
{
    char name[32];
    uint64_t cost_ns = 0;
    uint64_t count = 0;
    dao_status_t status = dao_word_take(&reader->words, "a duration in microseconds");
    if (status == DAO_OK) {
        status = dao_word_parse_us(&reader->words, reader->words.word, &cost_ns);
    }
    if (status == DAO_OK) {
        (void)snprintf(name, sizeof(name), "%zu", reader->list.kernel_count);
        status = dao_word_place(&reader->words, dao_access_list_add_kernel(&reader->list, name, cost_ns, 0));
    }
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "a number of accesses", &count);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_access(reader);
    }
    return status == DAO_OK ? dao_word_end_line(&reader->words) : status;
}

static dao_status_t read_kernels(tr_reader_t *reader)
{
    uint64_t count = 0;
    uint64_t first_backward = 0;
    dao_status_t status = take_head(reader, "K", "K and the number of kernels", &count);
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "the first kernel of the backward pass", &first_backward);
    }
    if (status == DAO_OK && first_backward > count) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "there are only %" PRIu64 " kernels", count);
    }
    if (status == DAO_OK) {
        status = dao_word_end_line(&reader->words);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_kernel(reader);
    }
    if (status == DAO_OK) {
        reader->first_backward = first_backward < count ? (uint32_t)first_backward : DAO_TRACE_NONE;
    }
    return status;
}

/* ---- the file ---- */

static dao_status_t read_all(tr_reader_t *reader, dao_step_trace_t *trace)
{
    dao_status_t status = read_tensors(reader);
    if (status == DAO_OK) {
        status = read_kernels(reader);
    }
    if (status == DAO_OK) {
        status = dao_word_end_file(&reader->words);
    }
    if (status == DAO_OK) {
        status = dao_access_list_build(&reader->list, trace);
        if (status != DAO_OK) {
            dao_error_prefix("%s: ", dao_text_source_name(&reader->words.source));
        }
    }
    return status;
}

dao_status_t dao_read_tr(const char *path, dao_step_trace_t *out_trace)
{
    tr_reader_t reader = {.first_backward = DAO_TRACE_NONE};
    dao_step_trace_t trace;
    dao_status_t status = dao_word_open(&reader.words, path, WORD_BYTES_MAX);
    if (status != DAO_OK) {
        return status;
    }
    dao_id_map_init(&reader.ids);
    dao_access_list_init(&reader.list);
    status = read_all(&reader, &trace);
    dao_id_map_finish(&reader.ids);
    dao_access_list_finish(&reader.list);
    dao_word_close(&reader.words);
    if (status == DAO_OK) {
        trace.first_backward = reader.first_backward;
        dao_step_trace_name_file(&trace, path);
        *out_trace = trace;
    }
    return status;
}
