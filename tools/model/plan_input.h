/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be placed: buffers with a begin, an end and a size, read from a file or made. Times are the
   file's own, or numbers of events; a buffer is alive in [begin, end). With clocks, begins and ends are
   vectors of them (dao/plan.h), and the buffers' times mean nothing. */
#ifndef DAO_TOOLS_PLAN_INPUT_H
#define DAO_TOOLS_PLAN_INPUT_H

#include "tools/model/alloc_trace.h"
#include "tools/model/life_counts.h"

#include <dao/plan.h>

/* What a file tells of a buffer besides: numbers of texts, for dao_plan_input_text(); 0 is "". */
typedef struct dao_plan_label {
    size_t tag;    /* what it is for */
    size_t maker;  /* the operator or function that made it */
    size_t module; /* of the program that it belongs to, see dao_plan_module_between() */
} dao_plan_label_t;

/* Returns what stands between the parts of a module: of "encoder.0.mlp" dots; of a call stack,
   ";main (a.py:3);step (a.py:9)", which has the outermost call first, semicolons. */
static inline const char *dao_plan_module_between(const char *module)
{
    return *module == ';' ? ";" : ".";
}

typedef struct dao_plan_input {
    dao_plan_buffer_t *buffers;
    size_t buffer_count, buffer_capacity;
    dao_plan_gap_t *gaps; /* in the order of their buffers */
    size_t gap_count, gap_capacity;
    uint32_t clock_count;                /* 0: times */
    uint32_t *begin_clocks, *end_clocks; /* clock_count a buffer */
    size_t begin_clock_capacity, end_clock_capacity;
    size_t *id_offsets; /* of each buffer's id in `ids`; NULL: buffers are called by their numbers */
    size_t id_capacity;
    char *ids;
    size_t id_bytes, id_bytes_capacity;
    dao_plan_label_t *labels; /* of the first label_count buffers; the others have none */
    size_t label_count, label_capacity;
    char *texts; /* of labels */
    size_t text_bytes, text_capacity;
    uint64_t *operator_times; /* of a step: the first time that is an operator's; operator_count of them */
    size_t operator_count, operator_time_capacity;
    uint64_t window_end;     /* of events and steps: lives from 0 began before, lives to here go on; else 0 */
    uint64_t left_out_count; /* what the file has without bytes or without a life */
    dao_life_counts_t counts; /* how events became lives; all zero where the file tells lives itself */
    uint32_t pool_count;      /* one above the highest that a buffer has to be in; 0: all may be in any */
} dao_plan_input_t;

void dao_plan_input_init(dao_plan_input_t *lifetimes);
void dao_plan_input_finish(dao_plan_input_t *lifetimes);

/* Adds a buffer, or counts it as left out if it has no bytes or no life; out_added, if not NULL, tells. `id`
   NULL: all are called by their numbers. DAO_ERR_LIMIT for the 2^32nd; DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_input_add(dao_plan_input_t *lifetimes, const char *id,
                                              const dao_plan_buffer_t *buffer, bool *out_added);

/* Adds a gap of the last buffer. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_input_add_gap(dao_plan_input_t *lifetimes, const dao_plan_gap_t *gap);

/* Adds the clocks of the last buffer, clock_count each. DAO_ERR_NO_HOST_MEMORY: the buffer is taken out
   again. */
DAO_NODISCARD dao_status_t dao_plan_input_add_clocks(dao_plan_input_t *lifetimes, const uint32_t *begin,
                                                     const uint32_t *end);

/* Adds a text for labels; the caller sees to it that equal ones are added once. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_input_add_text(dao_plan_input_t *lifetimes, const char *text,
                                                   size_t *out_number);

/* Says of the last buffer what it is for and what made it. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_plan_input_add_label(dao_plan_input_t *lifetimes,
                                                    const dao_plan_label_t *label);

/* Returns what is told of a buffer, and a text of it. */
dao_plan_label_t dao_plan_input_label(const dao_plan_input_t *lifetimes, size_t buffer);
const char *dao_plan_input_text(const dao_plan_input_t *lifetimes, size_t number);

/* The problem of placing these buffers, everything else 0; it borrows them. */
dao_plan_problem_t dao_plan_input_problem(const dao_plan_input_t *lifetimes);

/* Bytes that hold the text of any number. */
enum { DAO_PLAN_INPUT_NUMBER_BYTES = 24 };

/* What a buffer is called: its id, or its number in `number`. */
const char *dao_plan_input_id(const dao_plan_input_t *lifetimes, size_t buffer,
                              char number[DAO_PLAN_INPUT_NUMBER_BYTES]);

/* Makes the allocations and frees that these lifetimes are: at each time first the frees, then the
   allocations, each in the order of the buffers; if lives include their ends (`is_closed`) the allocations
   come first. Gaps are as if they were used. The trace's peak_bytes is the most bytes alive at once.
   DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY; DAO_ERR_UNSUPPORTED for clocks, which leave the order open. Cost:
   O(n log n). */
DAO_NODISCARD dao_status_t dao_plan_input_replay(const dao_plan_input_t *lifetimes, bool is_closed,
                                                 dao_alloc_trace_t *out_trace);

#endif
