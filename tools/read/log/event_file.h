/* SPDX-License-Identifier: Apache-2.0 */
/* The allocations and frees of a program, one after the other, and the steps that they belong to. An id is
   allocated at most once; a free of one that was not means that it was alive before the first event. */
#ifndef DAO_TOOLS_EVENT_FILE_H
#define DAO_TOOLS_EVENT_FILE_H

#include "tools/base/id_map.h"
#include "tools/model/life_counts.h"

/* Files have millions of both: they are packed, a tensor in 8 bytes, a record in 4. */
typedef struct dao_event_tensor {
    uint64_t size_bytes : 62; /* may be 0 */
    bool is_before : 1;       /* alive before the first line */
    bool is_live : 1;         /* behind the last line; of those that lines name */
} dao_event_tensor_t;

/* What a file tells of a tensor besides: offsets in the label texts, plus 1; 0 is "". */
typedef struct dao_event_label {
    uint32_t tag, maker, module; /* as of dao_plan_label_t */
} dao_event_label_t;

typedef struct dao_event_record {
    uint32_t tensor : 31;
    bool is_alloc : 1; /* else it is freed */
} dao_event_record_t;

#define DAO_EVENT_SIZE_MAX   ((UINT64_C(1) << 62) - 1)
#define DAO_EVENT_TENSOR_MAX ((UINT32_C(1) << 31) - 1)

typedef struct dao_event_file {
    dao_id_map_t ids; /* id -> tensor; empty: tensors have numbers alone */
    dao_event_tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    dao_event_record_t *records; /* lines without the steps */
    size_t record_count, record_capacity;
    uint64_t *operators; /* that did each record; none where all are of operator 0 */
    size_t operator_count, operator_capacity;
    dao_event_label_t *labels; /* of the first label_count tensors; the others have none */
    size_t label_count, label_capacity;
    dao_id_map_t label_texts;
    size_t *steps; /* the record that each step begins with */
    size_t step_count, step_capacity;
    dao_life_counts_t counts;
} dao_event_file_t;

/* Makes an empty file. */
void dao_event_file_init(dao_event_file_t *file);
void dao_event_file_finish(dao_event_file_t *file);

/* Finds a tensor by its id, or adds it. What dao_event_file_add_tensor() answers. */
DAO_NODISCARD dao_status_t dao_event_file_find_tensor(dao_event_file_t *file, const char *id,
                                                      uint64_t size_bytes, uint32_t *out_tensor,
                                                      bool *out_found);

/* Adds a tensor that was alive before, unless a line names it. The same. */
DAO_NODISCARD dao_status_t dao_event_file_add_before(dao_event_file_t *file, const char *id,
                                                     uint64_t size_bytes);

/* Add a tensor without an id, a record, and a step that the records from here on belong to.
   DAO_ERR_NO_HOST_MEMORY; DAO_ERR_LIMIT for a size above DAO_EVENT_SIZE_MAX, or too many tensors. */
DAO_NODISCARD dao_status_t dao_event_file_add_tensor(dao_event_file_t *file, uint64_t size_bytes,
                                                     uint32_t *out_tensor);
DAO_NODISCARD dao_status_t dao_event_file_add_record(dao_event_file_t *file, uint32_t tensor, bool is_alloc,
                                                     uint64_t operator_index);
DAO_NODISCARD dao_status_t dao_event_file_add_step(dao_event_file_t *file);

/* Returns the operator that did a record. */
static inline uint64_t dao_event_file_operator(const dao_event_file_t *file, size_t record)
{
    return record < file->operator_count ? file->operators[record] : 0;
}

/* Finds a text for labels, or adds it; 0 for "", and where 4 GiB of them are full. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_find_text(dao_event_file_t *file, const char *text,
                                                    uint32_t *out_number);

/* Says what is told of a tensor. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_label(dao_event_file_t *file, uint32_t tensor,
                                                const dao_event_label_t *label);

/* Writes how many lives begin and end in the file to its counts. */
void dao_event_file_count(dao_event_file_t *file);

/* Returns the most bytes that were live at once. DAO_ERR_OVERFLOW: they do not fit 64 bits. */
DAO_NODISCARD dao_status_t dao_event_file_peak(const dao_event_file_t *file, uint64_t *out_peak_bytes);

#endif
