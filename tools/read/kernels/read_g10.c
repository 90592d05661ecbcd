/* SPDX-License-Identifier: Apache-2.0 */
/* Every line is an object whose fields may stand in any order. So a line's fields are taken first, each into
   its place of `line_t`; then the line is used, as the header, a tensor or a kernel. */
#define _GNU_SOURCE
#include "tools/read/kernels/read_g10.h"

#include "base/numbers/math.h"
#include "tools/base/grow.h"
#include "tools/read/kernels/access_list.h"
#include "tools/read/text/json_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FORMAT_TEXT "g10-derived 1"

/* The clock may not be faster, so that cycles become nanoseconds without leaving 64 bits. */
#define CYCLES_PER_SECOND_MAX UINT64_C(10000000000)

/* The fields, by what they hold. */
typedef enum field {
    FIELD_TENSOR, /* numbers up to here ... */
    FIELD_WEIGHT,
    FIELD_SIZE,
    FIELD_KERNEL,
    FIELD_CYCLES,
    FIELD_WORKSPACE,
    FIELD_BATCH,
    FIELD_CYCLES_PER_SECOND,
    FIELD_TENSORS,
    FIELD_KERNELS, /* ... from here on texts */
    FIELD_FORMAT,
    FIELD_MODEL,
    FIELD_NAME, /* lists */
    FIELD_INPUTS,
    FIELD_OUTPUTS,
    FIELD_COUNT,
} field_t;

static const char *const field_names[FIELD_COUNT] = {
    "tensor",  "weight",  "size",   "kernel", "cycles", "workspace", "batch",  "cycles_per_second",
    "tensors", "kernels", "format", "model",  "name",   "inputs",    "outputs"};

enum {
    HEADER_FIELDS = 1 << FIELD_FORMAT | 1 << FIELD_MODEL | 1 << FIELD_BATCH | 1 << FIELD_CYCLES_PER_SECOND |
                    1 << FIELD_TENSORS | 1 << FIELD_KERNELS,
    TENSOR_FIELDS = 1 << FIELD_TENSOR | 1 << FIELD_WEIGHT | 1 << FIELD_SIZE,
    KERNEL_FIELDS = 1 << FIELD_KERNEL | 1 << FIELD_NAME | 1 << FIELD_CYCLES | 1 << FIELD_INPUTS |
                    1 << FIELD_OUTPUTS | 1 << FIELD_WORKSPACE,
};

typedef struct g10_mention {
    uint64_t tensor; /* as the line says; while the line is used, its index */
    bool is_input, is_output;
    dao_json_position_t position;
} g10_mention_t;

typedef struct line {
    dao_json_position_t position;
    unsigned seen;
    uint64_t numbers[FIELD_KERNELS + 1];
    char model[DAO_TOUCH_NAME_MAX + 1];
    char name[DAO_TOUCH_NAME_MAX + 1];
    g10_mention_t *mentions;
    size_t mention_count, mention_capacity;
} line_t;

typedef struct g10_reader {
    dao_json_reader_t json;
    line_t line;
    uint64_t tensor_count, kernel_count, cycles_per_second; /* as the header says */
    char batch[32];
    char model[DAO_TOUCH_NAME_MAX + 1];
    dao_id_map_t ids; /* -> the tensor's index in the list */
    uint32_t *mark;   /* of each tensor: where the current kernel mentions it, a hint that is checked */
    size_t mark_capacity;
    dao_access_list_t list;
    uint32_t first_backward;
    uint64_t ignored_count;
} g10_reader_t;

/* ---- a line's fields ---- */

static dao_status_t read_text(g10_reader_t *reader, field_t field)
{
    dao_status_t status = dao_json_expect(&reader->json, DAO_JSON_TOKEN_STRING, "a text");
    if (status != DAO_OK) {
        return status;
    }
    if (field == FIELD_FORMAT) {
        return strcmp(reader->json.text, FORMAT_TEXT) == 0
                   ? DAO_OK
                   : dao_json_error(&reader->json, "this is no \"%s\"", FORMAT_TEXT);
    }
    char *out = field == FIELD_MODEL ? reader->line.model : reader->line.name;
    (void)snprintf(out, DAO_TOUCH_NAME_MAX + 1, "%s", reader->json.text);
    return DAO_OK;
}

static dao_status_t read_mentions(g10_reader_t *reader, bool is_output)
{
    line_t *line = &reader->line;
    dao_json_reader_t *json = &reader->json;
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_ARRAY_BEGIN, "a list of tensors");
    while (status == DAO_OK) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_ARRAY_END) {
            break;
        }
        uint64_t tensor = 0;
        status = dao_json_u64(json, &tensor);
        g10_mention_t *mentions = status != DAO_OK ? NULL
                                                   : dao_tool_grow(line->mentions, &line->mention_capacity,
                                                                   line->mention_count, sizeof(*mentions));
        if (mentions == NULL) {
            return status != DAO_OK ? status : DAO_ERR_NO_HOST_MEMORY;
        }
        line->mentions = mentions;
        mentions[line->mention_count++] = (g10_mention_t){tensor, !is_output, is_output, json->position};
    }
    return status;
}

static dao_status_t read_field(g10_reader_t *reader, field_t field)
{
    dao_json_reader_t *json = &reader->json;
    dao_status_t status;
    switch (field) {
    case FIELD_FORMAT:
    case FIELD_MODEL:
    case FIELD_NAME:
        return read_text(reader, field);
    case FIELD_INPUTS:
    case FIELD_OUTPUTS:
        return read_mentions(reader, field == FIELD_OUTPUTS);
    case FIELD_COUNT:
        reader->ignored_count++;
        status = dao_json_next(json);
        return status == DAO_OK ? dao_json_skip(json) : status;
    default:
        status = dao_json_expect(json, DAO_JSON_TOKEN_NUMBER, "a whole number");
        return status == DAO_OK ? dao_json_u64(json, &reader->line.numbers[field]) : status;
    }
}

/* Takes all fields of the next line. */
static dao_status_t read_line(g10_reader_t *reader)
{
    dao_json_reader_t *json = &reader->json;
    line_t *line = &reader->line;
    line->seen = 0;
    line->mention_count = 0;
    dao_status_t status = dao_json_expect(json, DAO_JSON_TOKEN_OBJECT_BEGIN, "an object");
    line->position = json->position;
    while (status == DAO_OK) {
        status = dao_json_next(json);
        if (status != DAO_OK || json->token == DAO_JSON_TOKEN_OBJECT_END) {
            break;
        }
        field_t field = 0;
        while (field < FIELD_COUNT && strcmp(json->text, field_names[field]) != 0) {
            field++;
        }
        line->seen |= field < FIELD_COUNT ? 1u << field : 0;
        status = read_field(reader, field);
    }
    return status;
}

static dao_status_t check_fields(const g10_reader_t *reader, unsigned wanted, const char *what)
{
    for (unsigned field = 0; field < FIELD_COUNT; field++) {
        if ((wanted >> field & 1) != 0 && (reader->line.seen >> field & 1) == 0) {
            return dao_json_error_at(&reader->json, reader->line.position, DAO_ERR_PARSE, "%s without \"%s\"",
                                     what, field_names[field]);
        }
    }
    return DAO_OK;
}

/* ---- what a line means ---- */

static dao_status_t use_header(g10_reader_t *reader)
{
    const uint64_t *numbers = reader->line.numbers;
    dao_status_t status = check_fields(reader, HEADER_FIELDS, "a header");
    if (status != DAO_OK) {
        return status;
    }
    reader->cycles_per_second = numbers[FIELD_CYCLES_PER_SECOND];
    if (reader->cycles_per_second == 0 || reader->cycles_per_second > CYCLES_PER_SECOND_MAX) {
        return dao_json_error_at(&reader->json, reader->line.position, DAO_ERR_PARSE,
                                 "a clock of %" PRIu64 " cycles per second; possible are 1 to %" PRIu64,
                                 reader->cycles_per_second, CYCLES_PER_SECOND_MAX);
    }
    reader->tensor_count = numbers[FIELD_TENSORS];
    reader->kernel_count = numbers[FIELD_KERNELS];
    (void)snprintf(reader->batch, sizeof(reader->batch), "%" PRIu64, numbers[FIELD_BATCH]);
    memcpy(reader->model, reader->line.model, sizeof(reader->model));
    return DAO_OK;
}

static dao_status_t use_tensor(g10_reader_t *reader)
{
    const uint64_t *numbers = reader->line.numbers;
    char key[32];
    bool is_known = false;
    uint64_t index = reader->list.tensor_count;
    int key_length = snprintf(key, sizeof(key), "%" PRIu64, numbers[FIELD_TENSOR]);
    dao_status_t status = check_fields(reader, TENSOR_FIELDS, "a tensor");
    if (status == DAO_OK && numbers[FIELD_WEIGHT] > 1) {
        return dao_json_error_at(&reader->json, reader->line.position, DAO_ERR_PARSE,
                                 "\"weight\" is neither 0 nor 1");
    }
    if (status == DAO_OK) {
        status = dao_id_map_add(&reader->ids, key, (size_t)key_length, index, &is_known, &index);
    }
    if (status == DAO_OK && is_known) {
        return dao_json_error_at(&reader->json, reader->line.position, DAO_ERR_PARSE,
                                 "tensor %s was there before", key);
    }
    uint32_t *mark = status != DAO_OK ? NULL
                                      : dao_tool_grow(reader->mark, &reader->mark_capacity,
                                                      reader->list.tensor_count, sizeof(*mark));
    if (mark == NULL) {
        return status != DAO_OK ? status : DAO_ERR_NO_HOST_MEMORY;
    }
    reader->mark = mark;
    mark[reader->list.tensor_count] = 0;
    return dao_json_prefix(
        &reader->json, reader->line.position,
        dao_access_list_add_tensor(&reader->list, key, numbers[FIELD_SIZE], numbers[FIELD_WEIGHT] == 1));
}

/* Joins what a line says about one tensor into its first mention. */
static dao_status_t join_mentions(g10_reader_t *reader)
{
    line_t *line = &reader->line;
    size_t kept = 0;
    for (size_t i = 0; i < line->mention_count; i++) {
        g10_mention_t mention = line->mentions[i];
        char key[32];
        int key_length = snprintf(key, sizeof(key), "%" PRIu64, mention.tensor);
        if (!dao_id_map_find(&reader->ids, key, (size_t)key_length, &mention.tensor)) {
            return dao_json_error_at(&reader->json, mention.position, DAO_ERR_PARSE, "there is no tensor %s",
                                     key);
        }
        uint32_t mark = reader->mark[mention.tensor];
        if (mark < kept && line->mentions[mark].tensor == mention.tensor) {
            line->mentions[mark].is_input |= mention.is_input;
            line->mentions[mark].is_output |= mention.is_output;
        } else {
            reader->mark[mention.tensor] = (uint32_t)kept;
            line->mentions[kept++] = mention;
        }
    }
    line->mention_count = kept;
    return DAO_OK;
}

/* False: more than 64 bits of nanoseconds. */
static bool cycles_to_ns(const g10_reader_t *reader, uint64_t cycles, uint64_t *out_ns)
{
    uint64_t clock = reader->cycles_per_second;
    uint64_t rest_ns = (cycles % clock * DAO_NS_PER_S + clock / 2) / clock;
    uint64_t seconds = cycles / clock;
    if (seconds > (UINT64_MAX - rest_ns) / DAO_NS_PER_S) {
        return false;
    }
    *out_ns = seconds * DAO_NS_PER_S + rest_ns;
    return true;
}

static dao_status_t use_kernel(g10_reader_t *reader)
{
    const line_t *line = &reader->line;
    uint64_t index = reader->list.kernel_count;
    uint64_t cost_ns = 0;
    dao_status_t status = check_fields(reader, KERNEL_FIELDS, "a kernel");
    if (status == DAO_OK && line->numbers[FIELD_KERNEL] != index) {
        return dao_json_error_at(&reader->json, line->position, DAO_ERR_PARSE,
                                 "kernel %" PRIu64 " says that it is number %" PRIu64, index,
                                 line->numbers[FIELD_KERNEL]);
    }
    if (status == DAO_OK && !cycles_to_ns(reader, line->numbers[FIELD_CYCLES], &cost_ns)) {
        return dao_json_error_at(&reader->json, line->position, DAO_ERR_OVERFLOW, "it takes too long");
    }
    if (status == DAO_OK) {
        status = join_mentions(reader);
    }
    if (status == DAO_OK) {
        status = dao_json_prefix(
            &reader->json, line->position,
            dao_access_list_add_kernel(&reader->list, line->name, cost_ns, line->numbers[FIELD_WORKSPACE]));
    }
    for (size_t i = 0; status == DAO_OK && i < line->mention_count; i++) {
        const g10_mention_t *mention = &line->mentions[i];
        status = dao_json_prefix(&reader->json, mention->position,
                                 dao_access_list_add_access(&reader->list, (uint32_t)mention->tensor,
                                                            mention->is_input, mention->is_output));
    }
    if (reader->first_backward == DAO_TRACE_NONE && strstr(line->name, "_Backward") != NULL) {
        reader->first_backward = (uint32_t)index;
    }
    return status;
}

static dao_status_t check_counts(const g10_reader_t *reader)
{
    if (reader->list.tensor_count != reader->tensor_count ||
        reader->list.kernel_count != reader->kernel_count) {
        return dao_json_error(
            &reader->json,
            "the file ends with %zu tensors and %zu kernels; its header says %" PRIu64 " and %" PRIu64,
            reader->list.tensor_count, reader->list.kernel_count, reader->tensor_count, reader->kernel_count);
    }
    return DAO_OK;
}

static dao_status_t read_lines(g10_reader_t *reader)
{
    dao_status_t status = read_line(reader);
    if (status == DAO_OK) {
        status = use_header(reader);
    }
    while (status == DAO_OK) {
        bool has_more = false;
        status = dao_json_next_document(&reader->json, &has_more);
        if (status != DAO_OK || !has_more) {
            break;
        }
        status = read_line(reader);
        if (status == DAO_OK) {
            status = (reader->line.seen >> FIELD_KERNEL & 1) != 0 ? use_kernel(reader) : use_tensor(reader);
        }
    }
    return status == DAO_OK ? check_counts(reader) : status;
}

static dao_status_t read_file(g10_reader_t *reader, const char *path, dao_step_trace_t *trace)
{
    dao_status_t status = dao_json_reader_open(&reader->json, path);
    if (status != DAO_OK) {
        return status;
    }
    status = read_lines(reader);
    if (status == DAO_OK) {
        status = dao_access_list_build(&reader->list, trace);
        if (status != DAO_OK) {
            dao_error_prefix("%s: ", dao_json_name(&reader->json));
        }
    }
    dao_json_reader_close(&reader->json);
    return status;
}

dao_status_t dao_read_g10(const char *path, dao_step_trace_t *out_trace)
{
    g10_reader_t *reader = dao_host_calloc(1, sizeof(*reader));
    if (reader == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    dao_step_trace_t trace;
    reader->first_backward = DAO_TRACE_NONE;
    dao_id_map_init(&reader->ids);
    dao_access_list_init(&reader->list);
    dao_status_t status = read_file(reader, path, &trace);
    if (status == DAO_OK) {
        trace.first_backward = reader->first_backward;
        trace.ignored_count = reader->ignored_count;
        dao_step_trace_name(&trace, reader->model, strlen(reader->model), reader->batch);
        *out_trace = trace;
    }
    dao_id_map_finish(&reader->ids);
    dao_access_list_finish(&reader->list);
    dao_host_free(reader->mark);
    dao_host_free(reader->line.mentions);
    dao_host_free(reader);
    return status;
}
