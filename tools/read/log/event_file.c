/* SPDX-License-Identifier: Apache-2.0 */
/* Growing arrays. Ids are keys of a map to tensors, in the order in which they were added. */
#include "tools/read/log/event_file.h"

#include "base/report/assert.h"
#include "tools/base/grow.h"

#include <inttypes.h>
#include <string.h>

static_assert(sizeof(dao_event_tensor_t) == 8 && sizeof(dao_event_record_t) == 4, "they are packed");

void dao_event_file_init(dao_event_file_t *file)
{
    *file = (dao_event_file_t){0};
    dao_id_map_init(&file->ids);
    dao_id_map_init(&file->label_texts);
}

void dao_event_file_finish(dao_event_file_t *file)
{
    dao_id_map_finish(&file->ids);
    dao_host_free(file->tensors);
    dao_host_free(file->records);
    dao_host_free(file->operators);
    dao_host_free(file->steps);
    dao_host_free(file->labels);
    dao_id_map_finish(&file->label_texts);
    *file = (dao_event_file_t){0};
}

static dao_status_t make_room(dao_event_file_t *file)
{
    dao_event_tensor_t *grown =
        dao_tool_grow(file->tensors, &file->tensor_capacity, file->tensor_count, sizeof(*file->tensors));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    file->tensors = grown;
    return DAO_OK;
}

dao_status_t dao_event_file_add_tensor(dao_event_file_t *file, uint64_t size_bytes, uint32_t *out_tensor)
{
    if (size_bytes > DAO_EVENT_SIZE_MAX || file->tensor_count > DAO_EVENT_TENSOR_MAX) {
        return dao_error(DAO_ERR_LIMIT, "a block of %" PRIu64 " bytes, or too many of them", size_bytes);
    }
    dao_status_t status = make_room(file);
    if (status == DAO_OK) {
        *out_tensor = (uint32_t)file->tensor_count;
        file->tensors[file->tensor_count++] =
            (dao_event_tensor_t){.size_bytes = size_bytes & DAO_EVENT_SIZE_MAX};
    }
    return status;
}

dao_status_t dao_event_file_find_tensor(dao_event_file_t *file, const char *id, uint64_t size_bytes,
                                        uint32_t *out_tensor, bool *out_found)
{
    uint64_t index = file->tensor_count;
    dao_status_t status = make_room(file); /* first: an id without a tensor is not to be */
    if (status == DAO_OK) {
        status = dao_id_map_add(&file->ids, id, strlen(id), index, out_found, &index);
    }
    if (status == DAO_OK && !*out_found) {
        return dao_event_file_add_tensor(file, size_bytes, out_tensor);
    }
    *out_tensor = (uint32_t)index;
    return status;
}

dao_status_t dao_event_file_add_before(dao_event_file_t *file, const char *id, uint64_t size_bytes)
{
    uint32_t index = 0;
    bool is_known = false;
    dao_status_t status = dao_event_file_find_tensor(file, id, size_bytes, &index, &is_known);
    if (status == DAO_OK && !is_known) {
        file->tensors[index].is_before = true;
    }
    return status;
}

/* Says which operator did the next record; those before it that had none get 0. */
static dao_status_t add_operator(dao_event_file_t *file, uint64_t operator_index)
{
    while (file->operator_count <= file->record_count) {
        uint64_t *grown = dao_tool_grow(file->operators, &file->operator_capacity, file->operator_count,
                                        sizeof(*file->operators));
        if (grown == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        file->operators = grown;
        file->operators[file->operator_count++] = 0;
    }
    file->operators[file->record_count] = operator_index;
    return DAO_OK;
}

dao_status_t dao_event_file_add_record(dao_event_file_t *file, uint32_t tensor, bool is_alloc,
                                       uint64_t operator_index)
{
    DAO_ASSERT(tensor < file->tensor_count);
    dao_event_record_t *grown =
        dao_tool_grow(file->records, &file->record_capacity, file->record_count, sizeof(*file->records));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    file->records = grown;
    if (operator_index != 0 || file->operator_count > 0) {
        dao_status_t status = add_operator(file, operator_index);
        if (status != DAO_OK) {
            return status;
        }
    }
    file->records[file->record_count++] =
        (dao_event_record_t){.tensor = tensor & DAO_EVENT_TENSOR_MAX, .is_alloc = is_alloc};
    return DAO_OK;
}

dao_status_t dao_event_file_add_step(dao_event_file_t *file)
{
    size_t *grown = dao_tool_grow(file->steps, &file->step_capacity, file->step_count, sizeof(*file->steps));
    if (grown == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    file->steps = grown;
    file->steps[file->step_count++] = file->record_count;
    return DAO_OK;
}

void dao_event_file_count(dao_event_file_t *file)
{
    dao_life_counts_t *counts = &file->counts;
    counts->in_window_count = counts->open_count = counts->older_freed_count = counts->older_kept_count = 0;
    for (size_t i = 0; i < file->tensor_count; i++) {
        const dao_event_tensor_t *tensor = &file->tensors[i];
        counts->in_window_count += !tensor->is_before;
        counts->open_count += !tensor->is_before && tensor->is_live;
        counts->older_freed_count += tensor->is_before && !tensor->is_live;
        counts->older_kept_count += tensor->is_before && tensor->is_live;
    }
}

dao_status_t dao_event_file_peak(const dao_event_file_t *file, uint64_t *out_peak_bytes)
{
    uint64_t live_bytes = 0, peak_bytes = 0;
    bool fits = true;
    for (size_t i = 0; i < file->tensor_count && fits; i++) {
        const dao_event_tensor_t *tensor = &file->tensors[i];
        fits = !tensor->is_before || !__builtin_add_overflow(live_bytes, tensor->size_bytes, &live_bytes);
    }
    peak_bytes = live_bytes;
    for (size_t i = 0; i < file->record_count && fits; i++) {
        uint64_t size_bytes = file->tensors[file->records[i].tensor].size_bytes;
        fits = file->records[i].is_alloc ? !__builtin_add_overflow(live_bytes, size_bytes, &live_bytes)
                                         : !__builtin_sub_overflow(live_bytes, size_bytes, &live_bytes);
        peak_bytes = live_bytes > peak_bytes ? live_bytes : peak_bytes;
    }
    *out_peak_bytes = peak_bytes;
    return fits ? DAO_OK : dao_error(DAO_ERR_OVERFLOW, "the bytes alive at once do not fit 64 bits");
}

dao_status_t dao_event_file_find_text(dao_event_file_t *file, const char *text, uint32_t *out_number)
{
    uint64_t number = file->label_texts.text_bytes + 1;
    bool is_known = false;
    size_t length = strlen(text);
    *out_number = 0;
    if (length == 0 || number + length > UINT32_MAX) {
        return DAO_OK;
    }
    dao_status_t status = dao_id_map_add(&file->label_texts, text, length, number, &is_known, &number);
    *out_number = (uint32_t)number;
    return status;
}

dao_status_t dao_event_file_label(dao_event_file_t *file, uint32_t tensor, const dao_event_label_t *label)
{
    while (file->label_count <= tensor) {
        dao_event_label_t *labels =
            dao_tool_grow(file->labels, &file->label_capacity, file->label_count, sizeof(*labels));
        if (labels == NULL) {
            return DAO_ERR_NO_HOST_MEMORY;
        }
        file->labels = labels;
        labels[file->label_count++] = (dao_event_label_t){0};
    }
    file->labels[tensor] = *label;
    return DAO_OK;
}
