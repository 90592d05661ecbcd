/* SPDX-License-Identifier: Apache-2.0 */
/* Hands over to the reader of a file's form, and makes lifetimes of what happened one thing
   after the other: each allocation and each free is a time of its own, from 1; what was there before lives
   from 0, what stays lives to the time behind the last one. */
#include "tools/read/events/read_lifetimes.h"

#include "base/report/assert.h"
#include "tools/base/grow.h"
#include "tools/read/events/read_events.h"
#include "tools/read/events/read_lifetimes_internal.h"
#include "tools/read/step/read_step.h"

#include <string.h>

/* What made that which was there before the step. */
#define MAKER_BEFORE "before the step"

/* Longer names of modules are left out. */
enum { MODULE_BYTES = 512 };

/* A life while it is not known yet whether it ends. */
typedef struct life {
    uint64_t begin;
    uint64_t end; /* 0: not yet */
} life_t;

static dao_status_t add_life(dao_plan_input_t *lifetimes, const char *id, const life_t *life, uint64_t last,
                             uint64_t size_bytes, bool *out_added)
{
    if (size_bytes > DAO_PLAN_SIZE_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "\"%.64s\" has more than 2^48 bytes",
                         id != NULL ? id : "a buffer");
    }
    dao_plan_buffer_t buffer = {.begin_time = life->begin,
                                .end_time = life->end != 0 ? life->end : last,
                                .size_bytes = size_bytes,
                                .fixed_offset = DAO_PLAN_NOWHERE,
                                .pool = DAO_PLAN_ANY_POOL};
    return dao_plan_input_add(lifetimes, id, &buffer, out_added);
}

/* Of a whole life, which is not of one line. */
static void prefix_path(const char *path, dao_status_t status)
{
    if (status != DAO_OK) {
        dao_error_prefix("%.200s: ", path);
    }
}

static life_t *make_lives(size_t count)
{
    life_t *lives = dao_host_calloc(count + 1, sizeof(*lives));
    if (lives == NULL) {
        (void)dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for %zu lifetimes", count);
    }
    return lives;
}

/* ---- events ---- */

/* Texts keep their numbers: they stand one after the other in both. */
static dao_status_t add_texts(const dao_event_file_t *file, dao_plan_input_t *lifetimes)
{
    const dao_id_map_t *texts = &file->label_texts;
    dao_status_t status = DAO_OK;
    size_t number = 0;
    for (size_t at = 0; at < texts->text_bytes && status == DAO_OK; at += strlen(texts->text + at) + 1) {
        status = dao_plan_input_add_text(lifetimes, texts->text + at, &number);
        DAO_ASSERT(status != DAO_OK || number == at + 1);
    }
    return status;
}

static dao_status_t add_event_label(const dao_event_file_t *file, size_t tensor, dao_plan_input_t *lifetimes)
{
    if (tensor >= file->label_count) {
        return DAO_OK;
    }
    const dao_event_label_t *label = &file->labels[tensor];
    return dao_plan_input_add_label(
        lifetimes, &(dao_plan_label_t){.tag = label->tag, .maker = label->maker, .module = label->module});
}

/* The ids of the map stand one after the other in its text, in the order of the tensors. */
static dao_status_t add_tensors(const dao_event_file_t *file, const life_t *lives,
                                dao_plan_input_t *lifetimes)
{
    const char *id = file->ids.count > 0 ? file->ids.text : NULL;
    dao_status_t status = add_texts(file, lifetimes);
    for (size_t i = 0; i < file->tensor_count && status == DAO_OK; i++) {
        bool is_added = false;
        status = add_life(lifetimes, id, &lives[i], file->record_count + 1, file->tensors[i].size_bytes,
                          &is_added);
        status = status == DAO_OK && is_added ? add_event_label(file, i, lifetimes) : status;
        id = id != NULL ? id + strlen(id) + 1 : NULL;
    }
    return status;
}

dao_status_t dao_plan_input_of_events(const dao_event_file_t *file, dao_plan_input_t *lifetimes)
{
    life_t *lives = make_lives(file->tensor_count);
    dao_status_t status = lives != NULL ? DAO_OK : DAO_ERR_NO_HOST_MEMORY;
    for (size_t i = 0; i < file->record_count && status == DAO_OK; i++) {
        life_t *life = &lives[file->records[i].tensor];
        *(file->records[i].is_alloc ? &life->begin : &life->end) = i + 1;
    }
    if (status == DAO_OK) {
        status = add_tensors(file, lives, lifetimes);
    }
    lifetimes->counts = file->counts;
    lifetimes->window_end = file->record_count + 1;
    dao_host_free(lives);
    return status;
}

static dao_status_t read_event_lives(const char *path, const dao_read_choice_t *choice,
                                     dao_plan_input_t *lifetimes)
{
    dao_event_file_t file;
    dao_status_t status = choice->has_labels ? dao_read_labelled_events(path, choice->device, &file)
                                             : dao_read_events(path, choice->device, &file);
    if (status != DAO_OK) {
        return status;
    }
    status = dao_plan_input_of_events(&file, lifetimes);
    prefix_path(path, status);
    dao_event_file_finish(&file);
    return status;
}

/* ---- a step ---- */

/* The lives of a step's tensors, and behind them of its temporaries. */
typedef struct step_lives {
    const dao_step_trace_t *trace;
    life_t *lives;
    uint64_t time;      /* of the last thing that happened */
    dao_id_map_t texts; /* of labels -> their numbers */
} step_lives_t;

/* Outputs come first, then the temporaries as recorded, then what is left of them goes, if it does; what is
   released goes last. */
static void take_operator(step_lives_t *step, uint32_t index)
{
    const dao_step_trace_t *trace = step->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    for (size_t i = op->operands.begin; i < op->operands.begin + op->operands.count; i++) {
        uint32_t tensor = trace->operands[i].tensor;
        if (trace->tensors[tensor].producer == index) {
            step->lives[tensor].begin = ++step->time;
        }
    }
    for (size_t i = op->events.begin; i < op->events.begin + op->events.count; i++) {
        const dao_trace_event_t *event = &trace->events[i];
        life_t *life = &step->lives[trace->tensor_count + op->temporaries.begin + event->temporary];
        *(event->is_alloc ? &life->begin : &life->end) = ++step->time;
    }
    size_t left_count = trace->keeps_temporaries ? 0 : op->temporaries.count;
    for (size_t i = op->temporaries.begin; i < op->temporaries.begin + left_count; i++) {
        life_t *life = &step->lives[trace->tensor_count + i];
        life->end = life->end != 0 ? life->end : ++step->time;
    }
    for (size_t i = op->releases.begin; i < op->releases.begin + op->releases.count; i++) {
        step->lives[trace->releases[i]].end = ++step->time;
    }
}

/* Returns what an operator does: its name without its number, which some forms put before it: "18th:add"; ""
   if its name is a number alone. */
static const char *maker_of(const dao_step_trace_t *trace, uint32_t index)
{
    const char *name = dao_trace_operator_name(trace, index);
    const char *rest = name + strspn(name, "0123456789");
    if (rest > name && strncmp(rest, "th:", strlen("th:")) == 0) {
        return rest + strlen("th:");
    }
    return *rest == '\0' ? rest : name;
}

/* Finds the number of a text of labels, or adds it. */
static dao_status_t find_text(step_lives_t *step, dao_plan_input_t *lifetimes, const char *text,
                              size_t *out_number)
{
    uint64_t number = lifetimes->text_bytes + 1;
    bool is_known = false;
    *out_number = 0;
    if (*text == '\0') {
        return DAO_OK;
    }
    dao_status_t status = dao_id_map_add(&step->texts, text, strlen(text), number, &is_known, &number);
    *out_number = (size_t)number;
    return status == DAO_OK && !is_known ? dao_plan_input_add_text(lifetimes, text, out_number) : status;
}

static dao_status_t add_label(step_lives_t *step, dao_plan_input_t *lifetimes, const char *tag,
                              const char *maker, const char *module)
{
    dao_plan_label_t label = {0};
    dao_status_t status = find_text(step, lifetimes, tag, &label.tag);
    status = status == DAO_OK ? find_text(step, lifetimes, maker, &label.maker) : status;
    status = status == DAO_OK ? find_text(step, lifetimes, module, &label.module) : status;
    return status == DAO_OK ? dao_plan_input_add_label(lifetimes, &label) : status;
}

/* Says of the last buffer what the trace tells: of what was there before, the module is what stands before
   the last dot of its name. */
static dao_status_t label_tensor(step_lives_t *step, uint32_t index, dao_plan_input_t *lifetimes)
{
    const dao_step_trace_t *trace = step->trace;
    const dao_trace_tensor_t *tensor = &trace->tensors[index];
    const char *tag = dao_trace_name(trace, tensor->tag_offset);
    if (tensor->producer != DAO_TRACE_NONE) {
        return add_label(step, lifetimes, tag, maker_of(trace, tensor->producer),
                         dao_trace_name(trace, trace->operators[tensor->producer].module_offset));
    }
    char module[MODULE_BYTES] = "";
    const char *name = dao_trace_name(trace, tensor->name_offset);
    const char *dot = strrchr(name, '.');
    if (dot != NULL && dot - name < MODULE_BYTES) {
        memcpy(module, name, (size_t)(dot - name));
    }
    return add_label(step, lifetimes, tag, MAKER_BEFORE, module);
}

static dao_status_t add_tensor(step_lives_t *step, uint32_t index, dao_plan_input_t *lifetimes)
{
    const dao_step_trace_t *trace = step->trace;
    bool is_added = false;
    dao_status_t status = add_life(lifetimes, dao_trace_tensor_id(trace, index), &step->lives[index],
                                   step->time + 1, trace->tensors[index].size_bytes, &is_added);
    return status == DAO_OK && is_added ? label_tensor(step, index, lifetimes) : status;
}

/* Adds the workspace of an operator. */
static dao_status_t add_temporaries(step_lives_t *step, uint32_t index, dao_plan_input_t *lifetimes)
{
    const dao_step_trace_t *trace = step->trace;
    const dao_trace_operator_t *op = &trace->operators[index];
    dao_status_t status = DAO_OK;
    for (size_t i = op->temporaries.begin;
         i < op->temporaries.begin + op->temporaries.count && status == DAO_OK; i++) {
        const dao_trace_temporary_t *temporary = &trace->temporaries[i];
        bool is_added = false;
        status =
            add_life(lifetimes, dao_trace_name(trace, temporary->id_offset),
                     &step->lives[trace->tensor_count + i], step->time + 1, temporary->size_bytes, &is_added);
        if (status == DAO_OK && is_added) {
            status = add_label(step, lifetimes, "", maker_of(trace, index),
                               dao_trace_name(trace, op->module_offset));
        }
    }
    return status;
}

static dao_status_t add_step(step_lives_t *step, dao_plan_input_t *lifetimes)
{
    const dao_step_trace_t *trace = step->trace;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < trace->tensor_count && status == DAO_OK; i++) {
        status = add_tensor(step, i, lifetimes);
    }
    for (uint32_t i = 0; i < trace->operator_count && status == DAO_OK; i++) {
        status = add_temporaries(step, i, lifetimes);
    }
    return status;
}

static dao_status_t add_operator_time(dao_plan_input_t *lifetimes, uint32_t index, uint64_t time)
{
    uint64_t *times =
        dao_tool_grow(lifetimes->operator_times, &lifetimes->operator_time_capacity, index, sizeof(*times));
    if (times == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    lifetimes->operator_times = times;
    times[index] = time;
    lifetimes->operator_count = index + 1;
    return DAO_OK;
}

dao_status_t dao_plan_input_of_step(const dao_step_trace_t *trace, dao_plan_input_t *out_lifetimes)
{
    dao_plan_input_t lifetimes;
    step_lives_t step = {.trace = trace, .lives = make_lives(trace->tensor_count + trace->temporary_count)};
    if (step.lives == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    dao_plan_input_init(&lifetimes);
    dao_id_map_init(&step.texts);
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < trace->operator_count && status == DAO_OK; i++) {
        status = add_operator_time(&lifetimes, i, step.time + 1);
        take_operator(&step, i);
    }
    if (status == DAO_OK) {
        lifetimes.window_end = step.time + 1;
        status = add_step(&step, &lifetimes);
    }
    dao_id_map_finish(&step.texts);
    dao_host_free(step.lives);
    if (status != DAO_OK) {
        dao_plan_input_finish(&lifetimes);
        return status;
    }
    *out_lifetimes = lifetimes;
    return DAO_OK;
}

static dao_status_t read_step(const char *path, const char *batch, dao_plan_input_t *lifetimes)
{
    dao_step_trace_t trace;
    dao_status_t status = dao_read_step(path, batch, &trace);
    if (status == DAO_OK) {
        status = dao_plan_input_of_step(&trace, lifetimes);
        prefix_path(path, status);
        dao_step_trace_finish(&trace);
    }
    return status;
}

/* ---- which one ---- */

static dao_status_t read_form(dao_file_form_t form, const char *path, const dao_read_choice_t *choice,
                              dao_plan_input_t *lifetimes)
{
    if (dao_file_form_is_step(form)) {
        return read_step(path, choice->batch, lifetimes);
    }
    switch (form) {
    case DAO_FILE_FORM_OBJECT:
        return dao_read_lifetimes_object(path, lifetimes);
    case DAO_FILE_FORM_LIFETIMES:
        return dao_read_lifetimes_lines(path, lifetimes);
    default:
        return read_event_lives(path, choice, lifetimes);
    }
}

dao_status_t dao_read_lifetimes(const char *path, const dao_read_choice_t *choice,
                                dao_plan_input_t *out_lifetimes)
{
    dao_plan_input_t lifetimes;
    dao_file_form_t form = DAO_FILE_FORM_JSON_STEP;
    dao_status_t status = dao_recognise_part(path, choice->batch, choice->device, &form);
    if (status != DAO_OK) {
        return status;
    }
    dao_plan_input_init(&lifetimes);
    status = read_form(form, path, choice, &lifetimes);
    if (status == DAO_OK && lifetimes.buffer_count == 0) {
        status = dao_error(DAO_ERR_PARSE, "%.200s:1:1: no buffer in it has bytes and a life", path);
    }
    if (status != DAO_OK) {
        dao_plan_input_finish(&lifetimes);
        return status;
    }
    *out_lifetimes = lifetimes;
    return DAO_OK;
}
