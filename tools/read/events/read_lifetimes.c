/* SPDX-License-Identifier: Apache-2.0 */
/* Hands over to the reader of a file's form, and makes lifetimes of what happened one thing
   after the other: each allocation and each free is a time of its own, from 1; what was there before lives
   from 0, what stays lives to the time behind the last one. */
#include "tools/read/events/read_lifetimes.h"

#include "tools/read/events/read_events.h"
#include "tools/read/events/read_lifetimes_internal.h"
#include "tools/read/step/read_step.h"
#include "tools/read/text/grow.h"

#include <string.h>

/* A life while it is not known yet whether it ends. */
typedef struct life {
    uint64_t begin;
    uint64_t end; /* 0: not yet */
} life_t;

static dao_status_t add_life(dao_plan_input_t *lifetimes, const char *id, const life_t *life, uint64_t last,
                             uint64_t size_bytes)
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
    return dao_plan_input_add(lifetimes, id, &buffer, NULL);
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

/* The ids of the map stand one after the other in its text, in the order of the tensors. */
static dao_status_t add_tensors(const dao_event_file_t *file, const life_t *lives,
                                dao_plan_input_t *lifetimes)
{
    const char *id = file->ids.count > 0 ? file->ids.text : NULL;
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < file->tensor_count && status == DAO_OK; i++) {
        status = add_life(lifetimes, id, &lives[i], file->record_count + 1, file->tensors[i].size_bytes);
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
    dao_status_t status = dao_read_events(path, choice->device, &file);
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
    uint64_t time; /* of the last thing that happened */
} step_lives_t;

/* Outputs come first, then the temporaries as recorded, then what is left of those goes; what is released
   goes last. */
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
    for (size_t i = 0; i < op->temporaries.count; i++) {
        life_t *life = &step->lives[trace->tensor_count + op->temporaries.begin + i];
        life->end = life->end != 0 ? life->end : ++step->time;
    }
    for (size_t i = op->releases.begin; i < op->releases.begin + op->releases.count; i++) {
        step->lives[trace->releases[i]].end = ++step->time;
    }
}

static dao_status_t add_step(const step_lives_t *step, dao_plan_input_t *lifetimes)
{
    const dao_step_trace_t *trace = step->trace;
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < trace->tensor_count && status == DAO_OK; i++) {
        status = add_life(lifetimes, dao_trace_tensor_id(trace, i), &step->lives[i], step->time + 1,
                          trace->tensors[i].size_bytes);
    }
    for (size_t i = 0; i < trace->temporary_count && status == DAO_OK; i++) {
        status =
            add_life(lifetimes, dao_trace_name(trace, trace->temporaries[i].id_offset),
                     &step->lives[trace->tensor_count + i], step->time + 1, trace->temporaries[i].size_bytes);
    }
    return status;
}

dao_status_t dao_plan_input_of_step(const dao_step_trace_t *trace, dao_plan_input_t *out_lifetimes)
{
    dao_plan_input_t lifetimes;
    step_lives_t step = {.trace = trace, .lives = make_lives(trace->tensor_count + trace->temporary_count)};
    if (step.lives == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    for (uint32_t i = 0; i < trace->operator_count; i++) {
        take_operator(&step, i);
    }
    dao_plan_input_init(&lifetimes);
    lifetimes.window_end = step.time + 1;
    dao_status_t status = add_step(&step, &lifetimes);
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
    dao_status_t status = dao_recognise(path, &form);
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
