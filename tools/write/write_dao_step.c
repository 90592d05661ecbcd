/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's line stands before the first operator that needs it or one behind it, so that tensors keep their
   numbers, and a change of a step changes few lines of its file. Aliases stand behind their tensor. */
#include "tools/write/write_dao_step.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/report/step_form.h"

#include <inttypes.h>
#include <string.h>

/* What a temporary that is called like a tensor gets behind its name: ids of a file are all different. */
#define TEMPORARY_ENDING "%25temporary"

typedef struct step_writer {
    FILE *file;
    const dao_step_trace_t *trace;
    uint32_t next_tensor;  /* that has no line yet */
    uint32_t *first_alias; /* of each tensor; DAO_TRACE_NONE */
    uint32_t *next_alias;  /* of the same tensor */
    dao_id_map_t ids;      /* of tensors and aliases */
} step_writer_t;

/* ---- words ---- */

static void put_value(const step_writer_t *writer, const char *key, size_t offset)
{
    if (offset != DAO_TRACE_NO_NAME && *dao_trace_name(writer->trace, offset) != '\0') {
        (void)fprintf(writer->file, " %s=", key);
        dao_step_form_put_word(writer->file, dao_trace_name(writer->trace, offset));
    }
}

/* ---- tensors ---- */

static void put_tensor(const step_writer_t *writer, uint32_t tensor)
{
    const dao_step_trace_t *trace = writer->trace;
    const dao_trace_tensor_t *about = &trace->tensors[tensor];
    (void)fputs("tensor ", writer->file);
    dao_step_form_put_word(writer->file, dao_trace_tensor_id(trace, tensor));
    (void)fprintf(writer->file, " %" PRIu64, about->size_bytes);
    put_value(writer, "tag", about->tag_offset);
    put_value(writer, "name", about->name_offset);
    (void)fputc('\n', writer->file);
    for (uint32_t i = writer->first_alias[tensor]; i != DAO_TRACE_NONE; i = writer->next_alias[i]) {
        const dao_trace_alias_t *alias = &trace->aliases[i];
        (void)fputs("tensor ", writer->file);
        dao_step_form_put_word(writer->file, dao_trace_name(trace, alias->id_offset));
        (void)fprintf(writer->file, " %" PRIu64 " of=", alias->size_bytes);
        dao_step_form_put_word(writer->file, dao_trace_tensor_id(trace, tensor));
        if (alias->offset_bytes > 0) {
            (void)fprintf(writer->file, " at=%" PRIu64, alias->offset_bytes);
        }
        (void)fputc('\n', writer->file);
    }
}

static void put_tensors_to(step_writer_t *writer, uint32_t last)
{
    while (writer->next_tensor <= last) {
        put_tensor(writer, writer->next_tensor++);
    }
}

static void put_tensors_of(step_writer_t *writer, const dao_trace_operator_t *op)
{
    const dao_step_trace_t *trace = writer->trace;
    for (size_t i = 0; i < op->operands.count; i++) {
        put_tensors_to(writer, trace->operands[op->operands.begin + i].tensor);
    }
    for (size_t i = 0; i < op->saves.count; i++) {
        put_tensors_to(writer, trace->saves[op->saves.begin + i]);
    }
    for (size_t i = 0; i < op->releases.count; i++) {
        put_tensors_to(writer, trace->releases[op->releases.begin + i]);
    }
}

/* ---- operators ---- */

static void put_operand(const step_writer_t *writer, char sign, const char *id)
{
    (void)fprintf(writer->file, " %c", sign);
    dao_step_form_put_word(writer->file, id);
}

static char sign_of(const dao_step_trace_t *trace, const dao_trace_operand_t *operand, uint32_t index)
{
    if (trace->tensors[operand->tensor].producer == index) {
        return DAO_STEP_SIGN_OUTPUT;
    }
    if (operand->access == DAO_ACCESS_READ) {
        return DAO_STEP_SIGN_READ;
    }
    return operand->access == DAO_ACCESS_WRITE ? DAO_STEP_SIGN_OVERWRITE : DAO_STEP_SIGN_CHANGE;
}

/* Writes the accesses of what was alive, or the outputs. */
static void put_accesses(const step_writer_t *writer, uint32_t index, bool is_outputs)
{
    const dao_step_trace_t *trace = writer->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = 0; i < op->operands.count; i++) {
        const dao_trace_operand_t *operand = &trace->operands[op->operands.begin + i];
        char sign = sign_of(trace, operand, index);
        bool is_output = sign == DAO_STEP_SIGN_OUTPUT;
        bool is_alias = operand->alias != DAO_TRACE_NONE && !is_output;
        if (is_output == is_outputs) {
            put_operand(writer, sign,
                        is_alias ? dao_trace_name(trace, trace->aliases[operand->alias].id_offset)
                                 : dao_trace_tensor_id(trace, operand->tensor));
        }
    }
}

/* In the order in which the reader tells them to a trace, so that read and written again they are the same.
 */
static void put_operands(const step_writer_t *writer, uint32_t index)
{
    const dao_step_trace_t *trace = writer->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    put_accesses(writer, index, false);
    put_accesses(writer, index, true);
    for (size_t i = 0; i < op->saves.count; i++) {
        put_operand(writer, DAO_STEP_SIGN_SAVE,
                    dao_trace_tensor_id(trace, trace->saves[op->saves.begin + i]));
    }
}

static void put_temporaries(const step_writer_t *writer, const dao_trace_operator_t *op)
{
    const dao_step_trace_t *trace = writer->trace;
    for (size_t i = 0; i < op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        const dao_trace_temporary_t *temporary =
            &trace->temporaries[op->temporaries.begin + event->temporary];
        const char *id = dao_trace_name(trace, temporary->id_offset);
        uint64_t tensor;
        put_operand(writer, event->is_alloc ? DAO_STEP_SIGN_ALLOC : DAO_STEP_SIGN_FREE, id);
        if (dao_id_map_find(&writer->ids, id, strlen(id), &tensor)) {
            (void)fputs(TEMPORARY_ENDING, writer->file);
        }
        if (event->is_alloc) {
            (void)fprintf(writer->file, ":%" PRIu64, temporary->size_bytes);
        }
    }
}

static void put_operator(step_writer_t *writer, uint32_t index)
{
    const dao_step_trace_t *trace = writer->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    const char *name = dao_trace_operator_name(trace, index);
    put_tensors_of(writer, op);
    (void)fputs(index == trace->first_backward ? "backward\nop " : "op ", writer->file);
    dao_step_form_put_name(writer->file, *name != '\0' ? name : "?");
    (void)fputc(' ', writer->file);
    dao_step_form_put_us(writer->file, op->cost_ns);
    if (op->begin_ns != DAO_TRACE_NO_TIME) {
        (void)fputs(" at=", writer->file);
        dao_step_form_put_us(writer->file, op->begin_ns);
    }
    if (op->stream != 0) {
        (void)fprintf(writer->file, " stream=%" PRIu32, op->stream);
    }
    put_value(writer, "module", op->module_offset);
    (void)fputs(op->is_pure ? " pure" : "", writer->file);
    put_operands(writer, index);
    put_temporaries(writer, op);
    for (size_t i = 0; i < op->releases.count; i++) {
        put_operand(writer, DAO_STEP_SIGN_FREE,
                    dao_trace_tensor_id(trace, trace->releases[op->releases.begin + i]));
    }
    (void)fputc('\n', writer->file);
}

/* ---- the file ---- */

static dao_status_t add_id(step_writer_t *writer, const char *id)
{
    bool is_known = false;
    uint64_t value = 0;
    return dao_id_map_add(&writer->ids, id, strlen(id), 0, &is_known, &value);
}

/* Chains the aliases of each tensor, in their order, and notes all ids. */
static dao_status_t prepare(step_writer_t *writer)
{
    const dao_step_trace_t *trace = writer->trace;
    writer->first_alias = dao_host_calloc(trace->tensor_count + 1, sizeof(uint32_t));
    writer->next_alias = dao_host_calloc(trace->alias_count + 1, sizeof(uint32_t));
    if (writer->first_alias == NULL || writer->next_alias == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory to write a step of %zu tensors",
                         trace->tensor_count);
    }
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < trace->tensor_count && status == DAO_OK; i++) {
        writer->first_alias[i] = DAO_TRACE_NONE;
        status = add_id(writer, dao_trace_tensor_id(trace, i));
    }
    for (size_t i = trace->alias_count; i-- > 0 && status == DAO_OK;) {
        const dao_trace_alias_t *alias = &trace->aliases[i];
        writer->next_alias[i] = writer->first_alias[alias->tensor];
        writer->first_alias[alias->tensor] = (uint32_t)i;
        status = add_id(writer, dao_trace_name(trace, alias->id_offset));
    }
    return status;
}

static void put_all(step_writer_t *writer)
{
    const dao_step_trace_t *trace = writer->trace;
    (void)fprintf(writer->file, DAO_STEP_FILE_MARK " 1\nmodel %s\nbatch %s\n",
                  trace->model[0] != '\0' ? trace->model : "?", trace->batch[0] != '\0' ? trace->batch : "?");
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        put_operator(writer, i);
    }
    if (trace->tensor_count > 0) {
        put_tensors_to(writer, (uint32_t)(trace->tensor_count - 1));
    }
    (void)fputs("end\n", writer->file);
}

dao_status_t dao_write_dao_step(FILE *file, const dao_step_trace_t *trace)
{
    step_writer_t writer = {.file = file, .trace = trace};
    dao_id_map_init(&writer.ids);
    dao_status_t status = prepare(&writer);
    if (status == DAO_OK) {
        put_all(&writer);
    }
    dao_id_map_finish(&writer.ids);
    dao_host_free(writer.first_alias);
    dao_host_free(writer.next_alias);
    return status;
}
