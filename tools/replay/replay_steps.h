/* SPDX-License-Identifier: Apache-2.0 */
/* The recorded steps of a program, run at a place that serves them from plans: what was recorded asks and
   frees. The addresses that it gets are compared, as no two blocks may ever share a byte. */
#ifndef DAO_TOOLS_REPLAY_STEPS_H
#define DAO_TOOLS_REPLAY_STEPS_H

#include "tools/read/log/event_file.h"
#include "tools/replay/live_ranges.h"

#include <dao/place_config.h>

/* Steps from 1; last is included. */
typedef struct dao_replay_span {
    uint64_t first;
    uint64_t last;
} dao_replay_span_t;

/* The steps before those recorded, and between them and those served, run as they come: without steps,
   and past the plan. */
typedef struct dao_replay_config {
    dao_place_t place;
    dao_place_config_t place_config; /* its max_count is set to what `recorded` says */
    dao_replay_span_t recorded;      /* a plan serves after the last of them */
    dao_replay_span_t served;
    bool has_keys;    /* requests have their operator's number in the step as a key */
    bool is_touched;  /* every page of each block is written; not for devices */
    bool is_compared; /* all of it is run without plans first */
} dao_replay_config_t;

/* What came of a served step. */
typedef struct dao_replay_row {
    uint64_t step;
    dao_step_counts_t counts;
    double served; /* share of the requests that the arena served */
    /* arena and memory beside it at most, over the most bytes that were alive at one time */
    double total_ratio;
    uint64_t reserved_bytes; /* most that the place has taken up to this step, */
    uint64_t alone_bytes;    /* and that without plans; 0 if it was not compared */
    double reserved_ratio;   /* their quotient; 1 if it was not compared */
} dao_replay_row_t;

typedef void (*dao_replay_visit_t)(const dao_replay_row_t *row, void *user);

/* What was seen of the addresses in all runs. */
typedef struct dao_replay_overlaps {
    uint64_t block_count;     /* that were compared with all others that lived at the time */
    uint64_t overlap_count;   /* of these shared a byte with one */
    dao_live_range_t pair[2]; /* the first such block, and the one it shares bytes with; owners are tensors */
    uint64_t step;            /* in which it came */
} dao_replay_overlaps_t;

/* Runs the steps of a file, with dao_init() before and dao_finalize() behind each run, and shows a row a
   served step. DAO_ERR_INVALID with a message: none is left to be served, or the place's config is not valid;
   as dao_alloc() and dao_step_begin() otherwise. Blocks that share bytes are counted, which is no error
   here. */
DAO_NODISCARD dao_status_t dao_replay_run(const dao_event_file_t *file, const dao_replay_config_t *config,
                                          dao_replay_visit_t visit, void *user,
                                          dao_replay_overlaps_t *out_overlaps);

/* DAO_ERR_CORRUPT, with how many and where first in the message, if blocks shared bytes. */
DAO_NODISCARD dao_status_t dao_replay_overlaps_check(const dao_replay_overlaps_t *overlaps);

#endif
