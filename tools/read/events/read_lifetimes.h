/* SPDX-License-Identifier: Apache-2.0 */
/* Reading what is to be placed, from any of these, packed by gzip or not; the file's beginning tells which it
   is:

       lifetimes    CSV with a header: id (buffer, buffer_id), lower (start, begin), upper or end, which is
                    inclusive, size; if they are there: alignment, offset (where the buffer has to be), gaps;
                    other columns are stepped over
       events       allocations and frees, as read_events.h reads them from many forms; a time is the number
                    of the alloc or free, from 1
       list         lines `id alloc free size` between blanks
       object       JSON, {"id": {"alloc": N, "free": N, "size": N}, ...}
       step         what read_step.h reads; a time is the number of the allocation or free within the step

   Times with colons, `3:0:7`, are vectors of clocks, as many on every line; without gaps. Lines before the
   header that begin with # are stepped over.

   A buffer lives in [lower, upper). gaps are `lower-upper` or `lower-upper@from:to` between blanks: times in
   which the whole buffer, or its bytes [from, to), are not used. What has no bytes or no life is left out,
   and counted. */
#ifndef DAO_TOOLS_READ_LIFETIMES_H
#define DAO_TOOLS_READ_LIFETIMES_H

#include "tools/model/plan_input.h"
#include "tools/model/step_trace.h"
#include "tools/read/log/event_file.h"

/* What to take of a file that has several; all zero: whatever there is most of. */
typedef struct dao_read_choice {
    const char *batch;  /* of a step trace; NULL: the only one there is */
    const char *device; /* of events; NULL: the one with the highest peak */
    bool has_labels;    /* also what made the buffers, where events tell it; a step always does */
} dao_read_choice_t;

/**
 * Reads a file.
 *
 * @param path           A file, the folder of a step trace, or "-" for standard input.
 * @param choice         What to take of a file that has several.
 * @param out_lifetimes  Written only on DAO_OK; the caller owns it, until dao_plan_input_finish().
 * @return DAO_OK; DAO_ERR_PARSE, DAO_ERR_OVERFLOW, DAO_ERR_IO with a message `FILE:LINE:COLUMN: what`;
 *         DAO_ERR_INVALID where a choice has to be made; DAO_ERR_LIMIT, DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the files. Cost: memory in proportion to the files.
 */
DAO_NODISCARD dao_status_t dao_read_lifetimes(const char *path, const dao_read_choice_t *choice,
                                              dao_plan_input_t *out_lifetimes);

/* Adds the lives of events to empty lifetimes: a time is the number of the alloc or free, from 1; what was
   there before lives from 0, what stays to the time behind the last one. DAO_ERR_OVERFLOW,
   DAO_ERR_NO_HOST_MEMORY: the caller finishes what there is. */
DAO_NODISCARD dao_status_t dao_plan_input_of_events(const dao_event_file_t *file,
                                                    dao_plan_input_t *lifetimes);

/* The same from a step trace that was read already. */
DAO_NODISCARD dao_status_t dao_plan_input_of_step(const dao_step_trace_t *trace,
                                                  dao_plan_input_t *out_lifetimes);

#endif
