/* SPDX-License-Identifier: Apache-2.0 */
/* Counts in the file are checked, not trusted: nothing is allocated by them. */
#include "tools/read/kernels/read_use_list.h"

#include "base/report/error.h"
#include "tools/base/decimal.h"
#include "tools/read/kernels/access_list.h"
#include "tools/read/text/word_reader.h"

#include <inttypes.h>
#include <stdio.h>

enum { WORD_BYTES_MAX = 64, NAME_BYTES = 32, NS_PLACES_OF_MS = 6 };

typedef struct use_reader {
    dao_word_reader_t words;
    dao_access_list_t list;
    uint64_t tensor_count, kernel_count; /* as the first line has them */
} use_reader_t;

static dao_status_t read_head(use_reader_t *reader)
{
    dao_status_t status = dao_word_take_u64(&reader->words, "a number of tensors", &reader->tensor_count);
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "a number of kernels", &reader->kernel_count);
    }
    return status == DAO_OK ? dao_word_end_line(&reader->words) : status;
}

/* Reads the sizes of a line. An empty line is one that has none: the file may end before all are there. */
static dao_status_t read_sizes_of_line(use_reader_t *reader)
{
    size_t before = reader->list.tensor_count;
    dao_status_t status = dao_word_next(&reader->words);
    while (status == DAO_OK && reader->words.word_length > 0) {
        char name[NAME_BYTES];
        uint64_t size_bytes = 0;
        if (reader->list.tensor_count == reader->tensor_count) {
            return dao_word_error(&reader->words, DAO_ERR_PARSE,
                                  "the first line tells of %" PRIu64 " tensors only", reader->tensor_count);
        }
        status = dao_word_parse_u64(&reader->words, reader->words.word, '\0', "a size in bytes", &size_bytes);
        (void)snprintf(name, sizeof(name), "%zu", reader->list.tensor_count);
        if (status == DAO_OK) {
            status = dao_word_place(&reader->words,
                                    dao_access_list_add_tensor(&reader->list, name, size_bytes, false));
        }
        status = status == DAO_OK ? dao_word_next(&reader->words) : status;
    }
    if (status == DAO_OK && reader->list.tensor_count == before) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "expected the sizes of %" PRIu64 " tensors",
                              reader->tensor_count);
    }
    return status == DAO_OK ? dao_word_end_line(&reader->words) : status;
}

static dao_status_t read_use(use_reader_t *reader)
{
    uint64_t tensor = 0;
    dao_status_t status = dao_word_take_u64(&reader->words, "a tensor's number", &tensor);
    if (status == DAO_OK && reader->tensor_count == 0) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE, "there are no tensors");
    }
    if (status == DAO_OK && tensor >= reader->tensor_count) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE,
                              "there is no tensor %" PRIu64 ": they are 0 to %" PRIu64, tensor,
                              reader->tensor_count - 1);
    }
    if (status != DAO_OK) {
        return status;
    }
    uint32_t last_kernel = reader->list.tensors[tensor].last_kernel;
    bool is_used = last_kernel != DAO_TRACE_NONE;
    if (is_used && last_kernel + 1 == reader->list.kernel_count) {
        return DAO_OK; /* the kernel names it twice */
    }
    return dao_word_place(&reader->words,
                          dao_access_list_add_access(&reader->list, (uint32_t)tensor, is_used, true));
}

static dao_status_t read_kernel(use_reader_t *reader)
{
    char name[NAME_BYTES];
    uint64_t cost_ns = 0, count = 0;
    dao_status_t status = dao_word_take(&reader->words, "a duration in milliseconds");
    if (status == DAO_OK && !dao_decimal_is_plain(reader->words.word)) {
        return dao_word_error(&reader->words, DAO_ERR_PARSE,
                              "expected a duration in milliseconds, such as 0.25");
    }
    if (status == DAO_OK && !dao_decimal_scale(reader->words.word, NS_PLACES_OF_MS, &cost_ns)) {
        return dao_word_error(&reader->words, DAO_ERR_OVERFLOW, "this duration is too long");
    }
    if (status == DAO_OK) {
        (void)snprintf(name, sizeof(name), "%zu", reader->list.kernel_count);
        status = dao_word_place(&reader->words, dao_access_list_add_kernel(&reader->list, name, cost_ns, 0));
    }
    if (status == DAO_OK) {
        status = dao_word_take_u64(&reader->words, "a number of tensors", &count);
    }
    for (uint64_t i = 0; status == DAO_OK && i < count; i++) {
        status = read_use(reader);
    }
    return status == DAO_OK ? dao_word_end_line(&reader->words) : status;
}

static dao_status_t read_all(use_reader_t *reader, dao_step_trace_t *trace)
{
    dao_status_t status = read_head(reader);
    while (status == DAO_OK && reader->list.tensor_count < reader->tensor_count) {
        status = read_sizes_of_line(reader);
    }
    for (uint64_t i = 0; status == DAO_OK && i < reader->kernel_count; i++) {
        status = read_kernel(reader);
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

dao_status_t dao_read_use_list(const char *path, dao_step_trace_t *out_trace)
{
    use_reader_t reader = {0};
    dao_step_trace_t trace;
    dao_status_t status = dao_word_open(&reader.words, path, WORD_BYTES_MAX);
    if (status != DAO_OK) {
        return status;
    }
    dao_access_list_init(&reader.list);
    status = read_all(&reader, &trace);
    dao_access_list_finish(&reader.list);
    dao_word_close(&reader.words);
    if (status == DAO_OK) {
        dao_step_trace_name_file(&trace, path);
        *out_trace = trace;
    }
    return status;
}
