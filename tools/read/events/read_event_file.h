/* SPDX-License-Identifier: Apache-2.0 */
/* Reading our own form of events: CSV with the columns `time_ns,event,id,bytes,op`, where event is alloc,
   free or step. */
#ifndef DAO_TOOLS_READ_EVENT_FILE_H
#define DAO_TOOLS_READ_EVENT_FILE_H

#include "tools/read/log/event_file.h"

/* The first line, which tells such a file from others. */
#define DAO_EVENT_FILE_HEADER "time_ns,event,id,bytes,op"

/* Reads a file, packed by gzip or not; on DAO_OK dao_event_file_finish() is owed. DAO_ERR_PARSE, DAO_ERR_IO
   with a message `FILE:LINE:COLUMN: what`; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_event_file_read(const char *path, dao_event_file_t *out_file);

#endif
