/* SPDX-License-Identifier: Apache-2.0 */
/* A device that does nothing by itself: each stream is a list of commands, a lane, and the test says which
   one takes its next. So what must have happened before what is known exactly. Streams can be said to be
   parts of a capture: what is queued on them is not looked at then, and whoever asks for an event of it
   fails. */
#ifndef DAO_TESTS_SUPPORT_LANES_H
#define DAO_TESTS_SUPPORT_LANES_H

#include "backends/backend.h"

#define LANE_COUNT_MAX    96
#define COMMAND_COUNT_MAX 8192
#define RECORD_COUNT_MAX  65536

/* How far each stream must have come. */
typedef struct clock_vector {
    uint32_t until[LANE_COUNT_MAX];
} clock_vector_t;

typedef enum command_kind { COMMAND_WORK, COMMAND_CHECK, COMMAND_RECORD, COMMAND_WAIT } command_kind_t;

typedef struct command {
    command_kind_t kind;
    uint32_t record;         /* of RECORD and WAIT */
    clock_vector_t *demands; /* of CHECK: what has to have happened before; its own */
} command_t;

typedef struct lane { /* a stream */
    command_t commands[COMMAND_COUNT_MAX];
    uint32_t count;
    uint32_t next;
    bool is_hung;
    uint64_t capture; /* which one it is a part of; 0: none */
} lane_t;

extern lane_t *lanes;
extern uint32_t lane_count;
extern int64_t lanes_event_count;
extern uint32_t lanes_edge_count;  /* waits within a capture */
extern uint64_t lanes_call_count;  /* that may fail */
extern uint64_t lanes_calls_left;  /* until the one that fails */
extern dao_status_t lanes_failure; /* what it answers */

/* Its events and waits; a stream is a lane. */
extern const dao_backend_ops_t lanes_ops;

void lanes_begin(void);

/* Checks that no event is left. */
void lanes_end(void);

/* Takes one more lane. */
lane_t *lane_new(void);

void lane_queue(lane_t *lane, command_t command);

/* Lets a stream take its next command; false if it has none or has to wait. */
bool lane_step(lane_t *lane);

/* Lets each stream take its next one; false if none has moved. */
bool lanes_step_all(void);
void lanes_run_to_the_end(void);

/* Tells whether all streams have come as far. */
bool lanes_meet(const clock_vector_t *demands);

#endif
