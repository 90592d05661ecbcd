/* SPDX-License-Identifier: Apache-2.0 */
/* The events become a trace once all of them are known: what was alive before them is taken first. */
#include "bench/traces/recorded_trace.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "tools/read/events/read_event_file.h"
#include "tools/read/step/read_json_step.h"
#include "tools/read/step/trace_files.h"

#include <stdio.h>

/* Adds the tensors that were alive before and that no line names. */
static dao_status_t add_silent(dao_event_file_t *file, const dao_step_trace_t *step)
{
    dao_status_t status = DAO_OK;
    for (uint32_t i = 0; i < step->tensor_count && status == DAO_OK; i++) {
        if (step->tensors[i].producer == DAO_TRACE_NONE) {
            status =
                dao_event_file_add_before(file, dao_trace_tensor_id(step, i), step->tensors[i].size_bytes);
        }
    }
    return status;
}

/* Takes or gives a tensor; one without bytes takes no memory. */
static dao_status_t replay(dao_alloc_trace_t *trace, const dao_event_tensor_t *tensor, uint32_t *slot,
                           bool is_alloc)
{
    if (tensor->size_bytes == 0) {
        return DAO_OK;
    }
    return is_alloc ? dao_alloc_trace_take(trace, tensor->size_bytes, slot)
                    : dao_alloc_trace_give(trace, *slot);
}

/* `slots` has one for each tensor. */
static dao_status_t fill(const dao_event_file_t *file, uint32_t *slots, dao_alloc_trace_t *trace)
{
    dao_status_t status = DAO_OK;
    for (size_t i = 0; i < file->tensor_count && status == DAO_OK; i++) {
        if (file->tensors[i].is_before) {
            status = replay(trace, &file->tensors[i], &slots[i], true);
        }
    }
    dao_alloc_trace_steady(trace);
    for (size_t i = 0; i < file->record_count && status == DAO_OK; i++) {
        const dao_event_record_t *record = &file->records[i];
        status = replay(trace, &file->tensors[record->tensor], &slots[record->tensor], record->is_alloc);
    }
    return status;
}

static dao_status_t build(const dao_event_file_t *file, const char *path, dao_alloc_trace_t *trace)
{
    uint32_t *slots = dao_host_calloc(file->tensor_count + 1, sizeof(*slots));
    if (slots == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%.200s: no memory to read it", path);
    }
    dao_status_t status = fill(file, slots, trace);
    dao_host_free(slots);
    if (status == DAO_OK && trace->pair_count == 0) {
        status = dao_error(DAO_ERR_PARSE, "%.200s: nothing is freed", path);
    }
    return status;
}

static dao_status_t events_path(const char *folder, const dao_step_trace_t *step,
                                char out_path[DAO_TRACE_PATH_BYTES])
{
    int length =
        snprintf(out_path, DAO_TRACE_PATH_BYTES, "%s/%s.%s.events.csv", folder, step->model, step->batch);
    return length > 0 && length < DAO_TRACE_PATH_BYTES
               ? DAO_OK
               : dao_error(DAO_ERR_INVALID, "%.200s: the path is too long", folder);
}

static dao_status_t read_trace(const char *path, const dao_step_trace_t *step, dao_alloc_trace_t *trace)
{
    dao_event_file_t file;
    dao_status_t status = dao_event_file_read(path, &file);
    if (status != DAO_OK) {
        return status;
    }
    status = add_silent(&file, step);
    if (status == DAO_OK) {
        status = build(&file, path, trace);
    }
    dao_event_file_finish(&file);
    return status;
}

dao_status_t dao_alloc_trace_read(const char *folder, const char *name, dao_alloc_trace_t *out_trace)
{
    dao_step_trace_t step;
    char path[DAO_TRACE_PATH_BYTES];
    dao_status_t status = dao_read_json_step(folder, NULL, &step);
    if (status != DAO_OK) {
        return status;
    }
    dao_alloc_trace_t trace;
    dao_alloc_trace_init(&trace, name);
    status = events_path(folder, &step, path);
    if (status == DAO_OK) {
        status = read_trace(path, &step, &trace);
    }
    dao_step_trace_finish(&step);
    if (status != DAO_OK) {
        dao_alloc_trace_finish(&trace);
        return status;
    }
    *out_trace = trace;
    return DAO_OK;
}
