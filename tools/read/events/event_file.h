/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded events of a program: CSV with the columns `time_ns,event,id,bytes,op`, where event is alloc,
   free or step. An id is allocated at most once; a free of one that was not means that it was alive before
   the first line. */
#ifndef DAO_TOOLS_EVENT_FILE_H
#define DAO_TOOLS_EVENT_FILE_H

#include "tools/read/text/id_map.h"

/* The first line, which tells such a file from others. */
#define DAO_EVENT_FILE_HEADER "time_ns,event,id,bytes,op"

typedef struct dao_event_tensor {
    uint64_t size_bytes; /* may be 0 */
    bool is_before;      /* alive before the first line */
    bool is_live;        /* behind the last line; of those that lines name */
} dao_event_tensor_t;

typedef struct dao_event_record {
    uint32_t tensor;
    bool is_alloc;           /* else it is freed */
    uint64_t operator_index; /* of the operator that did it */
} dao_event_record_t;

typedef struct dao_event_file {
    dao_id_map_t ids; /* id -> tensor */
    dao_event_tensor_t *tensors;
    size_t tensor_count, tensor_capacity;
    dao_event_record_t *records; /* lines without the steps */
    size_t record_count, record_capacity;
    size_t *steps; /* the record that each step begins with */
    size_t step_count, step_capacity;
} dao_event_file_t;

/* Reads a file, packed by gzip or not; on DAO_OK dao_event_file_finish() is owed. DAO_ERR_PARSE, DAO_ERR_IO
   with a message `FILE:LINE:COLUMN: what`; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_read(const char *path, dao_event_file_t *out_file);
void dao_event_file_finish(dao_event_file_t *file);

/* Adds a tensor that was alive before, unless a line names it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_add_before(dao_event_file_t *file, const char *id,
                                                     uint64_t size_bytes);

/* Makes an empty file, to be written. */
void dao_event_file_init(dao_event_file_t *file);

/* Add a tensor without an id, a record, and a step that the records from here on belong to.
   DAO_ERR_NO_HOST_MEMORY, without a message. */
DAO_NODISCARD dao_status_t dao_event_file_add_tensor(dao_event_file_t *file, uint64_t size_bytes,
                                                     uint32_t *out_tensor);
DAO_NODISCARD dao_status_t dao_event_file_add_record(dao_event_file_t *file,
                                                     const dao_event_record_t *record);
DAO_NODISCARD dao_status_t dao_event_file_add_step(dao_event_file_t *file);

#endif
