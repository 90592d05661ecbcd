/* SPDX-License-Identifier: Apache-2.0 */
/* The forms that are written besides our own (write_dao_step.h), one a file. All bytes go to an open file;
   whether they arrived is for dao_out_file_close(). docs/formats.md tells each form. */
#ifndef DAO_TOOLS_WRITERS_H
#define DAO_TOOLS_WRITERS_H

#include "tools/model/history.h"

#include <stdio.h>

/* write_snapshot.c: a pickle as torch.cuda.memory._dump_snapshot() writes it. The history is placed.
   DAO_ERR_IO, DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_write_snapshot(FILE *file, const dao_history_t *history);

/* write_rmm.c: RMM's log; frees have their sizes. What was alive before is allocated first. The history is
   placed. */
void dao_write_rmm(FILE *file, const dao_history_t *history);

/* write_chrome_trace.c: Chrome's trace events: operators, buffers, memory; and the events by which
   torch.profiler tells of memory, so that readers of those take it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_write_chrome_trace(FILE *file, const dao_history_t *history);

/* write_events.c: allocations and frees with the columns of read_event_file.h. What was alive before is
   allocated first, before the step begins. DAO_ERR_INVALID for an id with the end of a line. */
DAO_NODISCARD dao_status_t dao_write_events(FILE *file, const dao_history_t *history);

/* write_tr.c: a step as read_tr.h reads it. A workspace becomes a tensor that one kernel writes; a tensor
   lives to its last access, whenever it was released. */
void dao_write_tr(FILE *file, const dao_step_trace_t *trace);

#endif
