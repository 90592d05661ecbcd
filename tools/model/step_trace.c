/* SPDX-License-Identifier: Apache-2.0 */
/* Building the model of a step: growing arrays, of which every operator owns a range.

   Invariants: the operators' ranges follow each other without gaps, in order; every index is below its count;
   a tensor is produced at most once, never used before that, never accessed after its release; a range of
   events frees only what it allocated before. */
#include "tools/model/step_trace.h"

#include "base/report/error.h"
#include "base/text/printable.h"
#include "tools/base/grow.h"

#include <inttypes.h>
#include <string.h>

void dao_step_trace_init(dao_step_trace_t *trace)
{
    *trace = (dao_step_trace_t){.first_backward = DAO_TRACE_NONE, .current_alias = DAO_TRACE_NONE};
}

void dao_step_trace_finish(dao_step_trace_t *trace)
{
    dao_host_free(trace->operators);
    dao_host_free(trace->tensors);
    dao_host_free(trace->operands);
    dao_host_free(trace->releases);
    dao_host_free(trace->saves);
    dao_host_free(trace->aliases);
    dao_host_free(trace->temporaries);
    dao_host_free(trace->events);
    dao_host_free(trace->names);
    dao_step_trace_init(trace);
}

/* Copies text, cut to what fits, with what cannot be printed in one line replaced. */
static void copy_printable(const char *text, size_t length, char *out_text, size_t capacity)
{
    length = length < capacity - 1 ? length : capacity - 1;
    memcpy(out_text, text, length);
    out_text[length] = '\0';
    dao_make_printable(out_text);
}

void dao_step_trace_name(dao_step_trace_t *trace, const char *model, size_t length, const char *batch)
{
    copy_printable(model, length, trace->model, sizeof(trace->model));
    copy_printable(batch, strlen(batch), trace->batch, sizeof(trace->batch));
}

void dao_step_trace_name_file(dao_step_trace_t *trace, const char *path)
{
    static const char *const endings[] = {".gz", ".zst", ".tr", ".dao", ".json"}; /* the outer ones first */
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(endings) / sizeof(endings[0]); i++) {
        size_t bytes = strlen(endings[i]);
        if (length > bytes && memcmp(name + length - bytes, endings[i], bytes) == 0) {
            length -= bytes;
        }
    }
    dao_step_trace_name(trace, name, length, "1");
}

dao_status_t dao_step_trace_add_text(dao_step_trace_t *trace, const char *name, size_t *out_offset)
{
    *out_offset = trace->name_bytes;
    return dao_tool_put_text(&trace->names, &trace->name_bytes, &trace->name_capacity, name, strlen(name));
}

dao_status_t dao_step_trace_add_tensor(dao_step_trace_t *trace, const char *id, uint64_t size_bytes,
                                       uint32_t *out_tensor)
{
    if (trace->tensor_count >= DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_OVERFLOW, "more than %" PRIu32 " tensors", DAO_TRACE_NONE);
    }
    dao_trace_tensor_t *tensors =
        dao_tool_grow(trace->tensors, &trace->tensor_capacity, trace->tensor_count, sizeof(*tensors));
    if (tensors == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->tensors = tensors;
    size_t id_offset;
    dao_status_t status = dao_step_trace_add_text(trace, id, &id_offset);
    if (status != DAO_OK) {
        return status;
    }
    tensors[trace->tensor_count] = (dao_trace_tensor_t){.id_offset = id_offset,
                                                        .name_offset = DAO_TRACE_NO_NAME,
                                                        .tag_offset = DAO_TRACE_NO_NAME,
                                                        .size_bytes = size_bytes,
                                                        .producer = DAO_TRACE_NONE,
                                                        .first_user = DAO_TRACE_NONE,
                                                        .released_by = DAO_TRACE_NONE,
                                                        .mark = DAO_TRACE_NONE};
    *out_tensor = (uint32_t)trace->tensor_count++;
    return DAO_OK;
}

dao_status_t dao_step_trace_add_alias(dao_step_trace_t *trace, const char *id, const dao_trace_alias_t *alias,
                                      uint32_t *out_alias)
{
    uint64_t whole_bytes = trace->tensors[alias->tensor].size_bytes;
    if (alias->offset_bytes > whole_bytes || alias->size_bytes > whole_bytes - alias->offset_bytes) {
        return dao_error(DAO_ERR_PARSE, "%.32s is no part of tensor %.32s, which has %" PRIu64 " bytes", id,
                         dao_trace_tensor_id(trace, alias->tensor), whole_bytes);
    }
    if (trace->alias_count >= DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_OVERFLOW, "more than %" PRIu32 " aliases", DAO_TRACE_NONE);
    }
    dao_trace_alias_t *aliases =
        dao_tool_grow(trace->aliases, &trace->alias_capacity, trace->alias_count, sizeof(*aliases));
    if (aliases == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->aliases = aliases;
    aliases[trace->alias_count] = *alias;
    dao_status_t status = dao_step_trace_add_text(trace, id, &aliases[trace->alias_count].id_offset);
    if (status == DAO_OK) {
        *out_alias = (uint32_t)trace->alias_count++;
    }
    return status;
}

/* What draws random numbers, changes statistics of its own, adds in any order, or waits for other devices, by
   the names that PyTorch and others have for it. */
static bool may_be_pure(const char *name)
{
    static const char *const impure[] = {
        "dropout",    "bernoulli",      "rand",           "normal_",   "multinomial",
        "uniform",    "exponential",    "batch_norm",     "index_add", "scatter_add",
        "index_put",  "dense_backward", "conv_backward",  "nccl",      "convolution_backward",
        "all_reduce", "allreduce",      "reduce_scatter", "all_gather"};
    for (size_t i = 0; i < sizeof(impure) / sizeof(impure[0]); i++) {
        if (strstr(name, impure[i]) != NULL) {
            return false;
        }
    }
    return true;
}

dao_status_t dao_step_trace_add_operator(dao_step_trace_t *trace, const char *name)
{
    if (trace->operator_count >= DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_OVERFLOW, "more than %" PRIu32 " operators", DAO_TRACE_NONE);
    }
    dao_trace_operator_t *operators =
        dao_tool_grow(trace->operators, &trace->operator_capacity, trace->operator_count, sizeof(*operators));
    if (operators == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->operators = operators;
    size_t name_offset;
    dao_status_t status = dao_step_trace_add_text(trace, name, &name_offset);
    if (status != DAO_OK) {
        return status;
    }
    operators[trace->operator_count++] = (dao_trace_operator_t){.name_offset = name_offset,
                                                                .module_offset = DAO_TRACE_NO_NAME,
                                                                .begin_ns = DAO_TRACE_NO_TIME,
                                                                .is_pure = may_be_pure(name),
                                                                .saves = {trace->save_count, 0},
                                                                .operands = {trace->operand_count, 0},
                                                                .releases = {trace->release_count, 0},
                                                                .temporaries = {trace->temporary_count, 0},
                                                                .events = {trace->event_count, 0}};
    return DAO_OK;
}

static uint32_t current_operator(const dao_step_trace_t *trace)
{
    return (uint32_t)(trace->operator_count - 1);
}

/* Finds a tensor among the operands that the current operator has so far; its mark is a hint that is
   checked. */
static dao_trace_operand_t *find_operand(dao_step_trace_t *trace, uint32_t tensor)
{
    const dao_trace_operator_t *op = &trace->operators[current_operator(trace)];
    uint32_t mark = trace->tensors[tensor].mark;
    if (mark < op->operands.count && trace->operands[op->operands.begin + mark].tensor == tensor) {
        return &trace->operands[op->operands.begin + mark];
    }
    return NULL;
}

/* A second access of a tensor keeps its alias only if it is by the same one. */
static void join_alias(const dao_step_trace_t *trace, dao_trace_operand_t *operand)
{
    operand->alias = operand->alias == trace->current_alias ? operand->alias : DAO_TRACE_NONE;
}

static dao_status_t add_operand(dao_step_trace_t *trace, uint32_t tensor, dao_access_t access)
{
    dao_trace_operator_t *op = &trace->operators[current_operator(trace)];
    dao_trace_operand_t *operands =
        dao_tool_grow(trace->operands, &trace->operand_capacity, trace->operand_count, sizeof(*operands));
    if (operands == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->operands = operands;
    trace->tensors[tensor].mark = (uint32_t)op->operands.count++;
    operands[trace->operand_count++] = (dao_trace_operand_t){tensor, access, trace->current_alias};
    return DAO_OK;
}

static dao_status_t check_alive(const dao_step_trace_t *trace, uint32_t tensor, const char *verb)
{
    uint32_t released_by = trace->tensors[tensor].released_by;
    if (released_by != DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_PARSE,
                         "operator %" PRIu32 " %s tensor %.32s, which operator %" PRIu32 " released",
                         current_operator(trace), verb, dao_trace_tensor_id(trace, tensor), released_by);
    }
    return DAO_OK;
}

static void note_use(dao_step_trace_t *trace, uint32_t tensor)
{
    if (trace->tensors[tensor].first_user == DAO_TRACE_NONE) {
        trace->tensors[tensor].first_user = current_operator(trace);
    }
}

dao_status_t dao_step_trace_add_input(dao_step_trace_t *trace, uint32_t tensor)
{
    dao_status_t status = check_alive(trace, tensor, "reads");
    dao_trace_operand_t *operand = find_operand(trace, tensor);
    if (status == DAO_OK && operand == NULL) {
        status = add_operand(trace, tensor, DAO_ACCESS_READ);
    } else if (status == DAO_OK) {
        join_alias(trace, operand);
    }
    if (status == DAO_OK) {
        note_use(trace, tensor);
    }
    return status;
}

/* Adds a use that writes; one that the operator reads as well becomes a change in place. */
static dao_status_t add_write(dao_step_trace_t *trace, uint32_t tensor, dao_access_t access, const char *verb)
{
    dao_status_t status = check_alive(trace, tensor, verb);
    if (status != DAO_OK) {
        return status;
    }
    dao_trace_operand_t *operand = find_operand(trace, tensor);
    if (operand != NULL) {
        operand->access = operand->access == access ? access : DAO_ACCESS_READ_WRITE;
        join_alias(trace, operand);
    } else {
        status = add_operand(trace, tensor, access);
    }
    if (status == DAO_OK) {
        note_use(trace, tensor);
    }
    return status;
}

dao_status_t dao_step_trace_add_mutate(dao_step_trace_t *trace, uint32_t tensor)
{
    return add_write(trace, tensor, DAO_ACCESS_READ_WRITE, "changes");
}

dao_status_t dao_step_trace_add_overwrite(dao_step_trace_t *trace, uint32_t tensor)
{
    return add_write(trace, tensor, DAO_ACCESS_WRITE, "overwrites");
}

dao_status_t dao_step_trace_add_output(dao_step_trace_t *trace, uint32_t tensor)
{
    const dao_trace_tensor_t *about = &trace->tensors[tensor];
    const char *id = dao_trace_tensor_id(trace, tensor);
    uint32_t index = current_operator(trace);
    if (about->producer != DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_PARSE,
                         "operator %" PRIu32 " produces tensor %.32s, which operator %" PRIu32
                         " has produced",
                         index, id, about->producer);
    }
    if (about->first_user != DAO_TRACE_NONE) {
        return dao_error(DAO_ERR_PARSE,
                         "operator %" PRIu32 " produces tensor %.32s, but operator %" PRIu32
                         " uses it before anything is written to it",
                         index, id, about->first_user);
    }
    dao_status_t status = add_operand(trace, tensor, DAO_ACCESS_WRITE);
    if (status == DAO_OK) {
        trace->tensors[tensor].producer = index;
    }
    return status;
}

dao_status_t dao_step_trace_add_release(dao_step_trace_t *trace, uint32_t tensor)
{
    uint32_t index = current_operator(trace);
    dao_status_t status = check_alive(trace, tensor, "releases");
    if (status != DAO_OK) {
        return status;
    }
    uint32_t *releases =
        dao_tool_grow(trace->releases, &trace->release_capacity, trace->release_count, sizeof(*releases));
    if (releases == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->releases = releases;
    releases[trace->release_count++] = tensor;
    trace->operators[index].releases.count++;
    trace->tensors[tensor].released_by = index;
    note_use(trace, tensor);
    return DAO_OK;
}

dao_status_t dao_step_trace_add_save(dao_step_trace_t *trace, uint32_t tensor)
{
    dao_status_t status = check_alive(trace, tensor, "saves");
    if (status != DAO_OK) {
        return status;
    }
    uint32_t *saves = dao_tool_grow(trace->saves, &trace->save_capacity, trace->save_count, sizeof(*saves));
    if (saves == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->saves = saves;
    saves[trace->save_count++] = tensor;
    trace->operators[current_operator(trace)].saves.count++;
    if (trace->tensors[tensor].producer == DAO_TRACE_NONE) {
        note_use(trace, tensor); /* it was alive before */
    }
    return DAO_OK;
}

void dao_step_trace_by_alias(dao_step_trace_t *trace, uint32_t alias)
{
    trace->current_alias = alias;
}

void dao_step_trace_begin_temporaries(dao_step_trace_t *trace, uint32_t index)
{
    trace->operators[index].temporaries = (dao_trace_range_t){trace->temporary_count, 0};
    trace->operators[index].events = (dao_trace_range_t){trace->event_count, 0};
}

/* Finds the latest temporary of that id, and whether it is live. The limit on temporaries bounds the
   search. */
static bool find_temporary(const dao_step_trace_t *trace, uint32_t index, const char *id,
                           uint32_t *out_temporary, bool *out_live)
{
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = op->events.count; i-- > 0;) {
        const dao_trace_event_t *event = &trace->events[op->events.begin + i];
        size_t at = op->temporaries.begin + event->temporary;
        if (strcmp(dao_trace_name(trace, trace->temporaries[at].id_offset), id) == 0) {
            *out_temporary = event->temporary;
            *out_live = event->is_alloc;
            return true;
        }
    }
    return false;
}

static dao_status_t add_event(dao_step_trace_t *trace, uint32_t index, uint32_t temporary, bool is_alloc)
{
    dao_trace_event_t *events =
        dao_tool_grow(trace->events, &trace->event_capacity, trace->event_count, sizeof(*events));
    if (events == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->events = events;
    events[trace->event_count++] = (dao_trace_event_t){temporary, is_alloc};
    trace->operators[index].events.count++;
    return DAO_OK;
}

dao_status_t dao_step_trace_add_alloc(dao_step_trace_t *trace, uint32_t index, const char *id,
                                      uint64_t size_bytes)
{
    dao_trace_operator_t *op = &trace->operators[index];
    uint32_t earlier;
    bool is_live;
    if (find_temporary(trace, index, id, &earlier, &is_live) && is_live) {
        return dao_error(DAO_ERR_PARSE, "operator %" PRIu32 " allocates temporary %.32s, which is live",
                         index, id);
    }
    if (op->temporaries.count >= DAO_TRACE_TEMPORARY_COUNT_MAX) {
        return dao_error(DAO_ERR_PARSE, "operator %" PRIu32 " has more than %d temporaries", index,
                         DAO_TRACE_TEMPORARY_COUNT_MAX);
    }
    dao_trace_temporary_t *temporaries = dao_tool_grow(trace->temporaries, &trace->temporary_capacity,
                                                       trace->temporary_count, sizeof(*temporaries));
    if (temporaries == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    trace->temporaries = temporaries;
    size_t id_offset;
    dao_status_t status = dao_step_trace_add_text(trace, id, &id_offset);
    if (status == DAO_OK) {
        status = add_event(trace, index, (uint32_t)op->temporaries.count, true);
    }
    if (status == DAO_OK) {
        temporaries[trace->temporary_count++] = (dao_trace_temporary_t){id_offset, size_bytes, 0};
        op->temporaries.count++;
    }
    return status;
}

dao_status_t dao_step_trace_add_free(dao_step_trace_t *trace, uint32_t index, const char *id)
{
    uint32_t temporary;
    bool is_live;
    if (!find_temporary(trace, index, id, &temporary, &is_live)) {
        return dao_error(DAO_ERR_PARSE, "operator %" PRIu32 " frees temporary %.32s before it is allocated",
                         index, id);
    }
    if (!is_live) {
        return dao_error(DAO_ERR_PARSE, "operator %" PRIu32 " frees temporary %.32s twice", index, id);
    }
    return add_event(trace, index, temporary, false);
}

dao_status_t dao_trace_number_streams(const dao_step_trace_t *trace, uint32_t *streams, uint32_t *out_count)
{
    uint32_t found[DAO_EXECUTOR_STREAM_COUNT_MAX] = {0}, count = 0;
    for (size_t i = 0; i < trace->operator_count; i++) {
        uint32_t index = 0;
        while (index < count && found[index] != trace->operators[i].stream) {
            index++;
        }
        if (index == DAO_EXECUTOR_STREAM_COUNT_MAX) {
            return dao_error(DAO_ERR_INVALID,
                             "operator %zu \"%.64s\" is on a stream beyond the first %u, more than an "
                             "executor has",
                             i, dao_trace_operator_name(trace, (uint32_t)i), DAO_EXECUTOR_STREAM_COUNT_MAX);
        }
        found[index] = trace->operators[i].stream;
        count += index == count ? 1 : 0;
        streams[i] = index;
    }
    *out_count = count;
    return DAO_OK;
}
