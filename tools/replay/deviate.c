/* SPDX-License-Identifier: Apache-2.0 */
/* Each step is written from the events of the recorded one, with tensors of its own:

       recorded   alloc a   alloc b            free a              free b
       deviating  alloc a'  alloc x  alloc b'  (left out)          free b'
       the next   free a'   free x   alloc a"  ...

   x is new; a' and x are left over. */
#include "tools/replay/deviate.h"

#include "base/memory/host.h"
#include "base/numbers/random.h"
#include "base/report/error.h"
#include "tools/base/grow.h"

#include <string.h>

#define NO_TENSOR UINT32_MAX

/* Behind "all". */
#define KIND_TEXT(symbol, name, text) ", " name
#define KINDS_TEXT                    DAO_DEVIATION_LIST(KIND_TEXT)

typedef struct writer {
    const dao_event_file_t *source;
    const dao_deviation_t *deviation;
    dao_event_file_t *file;
    /* of each of the source's, the one that stands for it in this step, while it is alive; or none */
    uint32_t *tensors;
    uint32_t *left; /* over from the step before */
    size_t left_count, left_capacity;
    uint64_t state; /* of the random numbers */
    uint32_t shape; /* of this step, from 1 to deviation->shapes: the largest */
} writer_t;

dao_status_t dao_deviation_kinds_parse(const char *text, uint32_t *out_kinds)
{
    static const char *const names[] = {
#define KIND_NAME(symbol, name, text) name,
        DAO_DEVIATION_LIST(KIND_NAME)
#undef KIND_NAME
    };
    uint32_t kinds = strcmp(text, "all") == 0 ? (1u << DAO_DEVIATION_KIND_COUNT) - 1 : 0;
    for (const char *rest = kinds == 0 ? text : NULL; rest != NULL;) {
        const char *comma = strchr(rest, ',');
        size_t length = comma != NULL ? (size_t)(comma - rest) : strlen(rest);
        uint32_t kind = 0;
        while (kind < DAO_DEVIATION_KIND_COUNT &&
               (strlen(names[kind]) != length || strncmp(names[kind], rest, length) != 0)) {
            kind++;
        }
        if (kind == DAO_DEVIATION_KIND_COUNT) {
            return dao_error(DAO_ERR_INVALID, "\"%.*s\" is no kind of deviation: all" KINDS_TEXT, (int)length,
                             rest);
        }
        kinds |= 1u << kind;
        rest = comma != NULL ? comma + 1 : NULL;
    }
    *out_kinds = kinds;
    return DAO_OK;
}

/* ---- writing ---- */

static dao_status_t write_record(writer_t *writer, uint32_t tensor, bool is_alloc, uint64_t operator_index)
{
    return dao_event_file_add_record(writer->file, tensor, is_alloc, operator_index);
}

static dao_status_t write_alloc(writer_t *writer, uint64_t size_bytes, uint64_t operator_index,
                                uint32_t *out_tensor)
{
    dao_status_t status = dao_event_file_add_tensor(writer->file, size_bytes, out_tensor);
    return status == DAO_OK ? write_record(writer, *out_tensor, true, operator_index) : status;
}

/* Frees a tensor at the begin of the next step. */
static dao_status_t leave(writer_t *writer, uint32_t tensor)
{
    uint32_t *grown =
        dao_tool_grow(writer->left, &writer->left_capacity, writer->left_count, sizeof(*writer->left));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    writer->left = grown;
    writer->left[writer->left_count++] = tensor;
    return DAO_OK;
}

static dao_status_t free_left(writer_t *writer, uint64_t operator_index)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < writer->left_count && status == DAO_OK; i++) {
        status = write_record(writer, writer->left[i], false, operator_index);
    }
    writer->left_count = 0;
    return status;
}

/* Lets the latest two events change places, if both are allocations of this step. */
static void swap_latest(writer_t *writer)
{
    dao_event_file_t *file = writer->file;
    size_t begin = file->steps[file->step_count - 1];
    if (file->record_count - begin < 2) {
        return;
    }
    size_t last = file->record_count - 1;
    dao_event_record_t record = file->records[last];
    if (!file->records[last - 1].is_alloc || !record.is_alloc) {
        return;
    }
    file->records[last] = file->records[last - 1];
    file->records[last - 1] = record;
    if (file->operator_count > 0) {
        uint64_t operator_index = file->operators[last];
        file->operators[last] = file->operators[last - 1];
        file->operators[last - 1] = operator_index;
    }
}

/* ---- events ---- */

/* Draws how an event deviates; none: DAO_DEVIATION_KIND_COUNT. */
static dao_deviation_kind_t draw(writer_t *writer, double share)
{
    if (dao_random_unit(&writer->state) >= share) {
        return DAO_DEVIATION_KIND_COUNT;
    }
    uint64_t kind = dao_random_below(&writer->state, DAO_DEVIATION_KIND_COUNT);
    return (writer->deviation->kinds >> kind & 1) != 0 ? (dao_deviation_kind_t)kind
                                                       : DAO_DEVIATION_KIND_COUNT;
}

/* Returns what a size is in this step's shape: half to all of it. */
static uint64_t shaped(const writer_t *writer, uint64_t size_bytes)
{
    uint64_t shapes = writer->deviation->shapes;
    return shapes > 1 ? size_bytes - size_bytes / (2 * shapes) * (shapes - writer->shape) : size_bytes;
}

static dao_status_t deviate_alloc(writer_t *writer, uint32_t tensor, uint64_t operator_index,
                                  dao_deviation_kind_t kind)
{
    uint64_t size_bytes = shaped(writer, writer->source->tensors[tensor].size_bytes);
    dao_status_t status = DAO_OK;
    if (kind == DAO_DEVIATION_SIZES && size_bytes > 0) {
        size_bytes = size_bytes - size_bytes / 2 + dao_random_below(&writer->state, size_bytes + 1);
    }
    if (kind == DAO_DEVIATION_EXTRA) {
        uint32_t extra;
        status = write_alloc(writer, size_bytes, operator_index, &extra);
        status = status == DAO_OK ? leave(writer, extra) : status;
    }
    if (status == DAO_OK) {
        status = write_alloc(writer, size_bytes, operator_index, &writer->tensors[tensor]);
    }
    if (status == DAO_OK && kind == DAO_DEVIATION_SWAPPED) {
        swap_latest(writer);
    }
    return status;
}

static dao_status_t deviate_free(writer_t *writer, uint32_t recorded, uint64_t operator_index,
                                 dao_deviation_kind_t kind)
{
    uint32_t tensor = writer->tensors[recorded];
    writer->tensors[recorded] = NO_TENSOR;
    if (tensor == NO_TENSOR) { /* it was alive before */
        return DAO_OK;
    }
    return kind == DAO_DEVIATION_MISSING ? leave(writer, tensor)
                                         : write_record(writer, tensor, false, operator_index);
}

/* ---- steps ---- */

/* Writes the source's first step with a share of its events deviating. */
static dao_status_t write_step(writer_t *writer, double share)
{
    const dao_event_file_t *source = writer->source;
    size_t begin = source->steps[0];
    size_t end = source->step_count > 1 ? source->steps[1] : source->record_count;
    dao_status_t status = dao_event_file_add_step(writer->file);
    if (status == DAO_OK) {
        status = free_left(writer, begin < end ? dao_event_file_operator(source, begin) : 0);
    }
    for (size_t i = begin; i < end && status == DAO_OK; i++) {
        uint32_t tensor = source->records[i].tensor;
        uint64_t operator_index = dao_event_file_operator(source, i);
        dao_deviation_kind_t kind = draw(writer, share);
        status = source->records[i].is_alloc ? deviate_alloc(writer, tensor, operator_index, kind)
                                             : deviate_free(writer, tensor, operator_index, kind);
    }
    for (size_t i = 0; i < source->tensor_count && status == DAO_OK; i++) {
        if (writer->tensors[i] != NO_TENSOR) {
            status = leave(writer, writer->tensors[i]);
            writer->tensors[i] = NO_TENSOR;
        }
    }
    return status;
}

dao_status_t dao_event_file_deviate(const dao_event_file_t *file, const dao_deviation_t *deviation,
                                    dao_event_file_t *out_file)
{
    if (file->step_count == 0) {
        return dao_error(DAO_ERR_INVALID, "the file has no step that others could deviate from");
    }
    dao_event_file_init(out_file);
    writer_t writer = {.source = file,
                       .deviation = deviation,
                       .file = out_file,
                       .tensors = dao_host_calloc(file->tensor_count + 1, sizeof(*writer.tensors)),
                       .state = deviation->seed,
                       .shape = deviation->shapes};
    dao_status_t status = DAO_ERR_NO_HOST_MEMORY;
    if (writer.tensors != NULL) {
        memset(writer.tensors, 0xff, file->tensor_count * sizeof(*writer.tensors)); /* NO_TENSOR */
        status = write_step(&writer, 0);
    }
    for (uint32_t i = 0; i < deviation->repeats && status == DAO_OK; i++) {
        writer.shape =
            deviation->shapes > 1 ? 1 + (uint32_t)dao_random_below(&writer.state, deviation->shapes) : 0;
        status = write_step(&writer, deviation->share);
    }
    dao_host_free(writer.tensors);
    dao_host_free(writer.left);
    if (status != DAO_OK) {
        dao_event_file_finish(out_file);
        return dao_error(status, "no memory for steps that deviate");
    }
    return DAO_OK;
}
