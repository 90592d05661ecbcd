/* SPDX-License-Identifier: Apache-2.0 */
/* A file as a report shows it: buffers with lives, offsets and groups.

       file --> step, if it is one --> lifetimes --> plan of offsets
                                          └──> order of begins, peak, groups (tag, kind, module, operator) */
#ifndef DAO_TOOLS_REPORT_VIEW_H
#define DAO_TOOLS_REPORT_VIEW_H

#include "tools/model/plan_input.h"
#include "tools/model/step_trace.h"
#include "tools/read/events/read_lifetimes.h"
#include "tools/read/form/recognise.h"

/* Ways to sum buffers up: symbol, name, and what it is for people. */
#define DAO_REPORT_GROUPING_LIST(X)                                                                          \
    X(TAG, "tag", "what the program says it is for")                                                         \
    X(KIND, "kind", "how long it lives")                                                                     \
    X(MODULE, "module", "the part of the program that it belongs to")                                        \
    X(OPERATOR, "operator", "what made it")

typedef enum dao_report_grouping {
#define DAO_REPORT_GROUPING(symbol, name, about) DAO_REPORT_GROUPING_##symbol,
    DAO_REPORT_GROUPING_LIST(DAO_REPORT_GROUPING)
#undef DAO_REPORT_GROUPING
        DAO_REPORT_GROUPING_COUNT,
} dao_report_grouping_t;

/* Numbers up to this are exact in the page. */
#define DAO_REPORT_NUMBER_MAX (UINT64_C(1) << 53)

/* One way to sum up. */
typedef struct dao_report_groups {
    bool is_told;         /* the file says more than "" of some buffer */
    uint32_t *of;         /* the group of each buffer */
    const char **names;   /* of groups; borrowed from the lifetimes */
    uint64_t *peak_bytes; /* what each group holds at the peak */
    size_t count, capacity;
} dao_report_groups_t;

typedef struct dao_report_view {
    const char *path; /* borrowed */
    dao_file_form_t form;
    bool has_step;
    bool has_times; /* its operators have them */
    dao_step_trace_t trace;
    dao_plan_input_t lifetimes;
    dao_plan_t *plan;
    uint64_t planned_bytes, bound_bytes; /* of the plan, and below which there is none */
    uint64_t first_time, last_time;      /* of all lives */
    uint32_t *order;                     /* the buffers by their begins */
    uint64_t peak_bytes;
    uint64_t peak_time;     /* the first of it */
    uint32_t peak_operator; /* that runs then; DAO_TRACE_NONE: not told */
    dao_report_groups_t groups[DAO_REPORT_GROUPING_COUNT];
} dao_report_view_t;

/**
 * Reads a file and finds what a report shows.
 *
 * @return DAO_OK; what the readers answer; DAO_ERR_UNSUPPORTED for lives by several clocks; DAO_ERR_OVERFLOW
 *         for sizes or times that the page cannot count; DAO_ERR_NO_HOST_MEMORY.
 *
 * The caller finishes it, whatever is answered. Cost: a plan of offsets, up to a second of search.
 */
DAO_NODISCARD dao_status_t dao_report_view_make(const char *path, const dao_read_choice_t *choice,
                                                dao_report_view_t *out_view);

void dao_report_view_finish(dao_report_view_t *view);

/* Returns the buffers at the peak, the largest first, those of equal size by their begins. The caller frees
   them. NULL: DAO_ERR_NO_HOST_MEMORY. */
uint32_t *dao_report_view_holders(const dao_report_view_t *view, size_t *out_count);

/* Returns the name of a grouping: "tag". */
const char *dao_report_grouping_name(dao_report_grouping_t grouping);

#endif
