/* SPDX-License-Identifier: Apache-2.0 */
/* A device that does nothing by itself: each stream is a list of commands, and the test decides which stream
   runs its next one. So it is known exactly what has happened before what. A stream can be declared part of a
   capture: its commands are then not recorded as done, and querying one of its events fails. Recording an
   event on one that is gone would wait for the device: nobody may. */
#ifndef DAO_TESTS_SUPPORT_MANUAL_STREAMS_H
#define DAO_TESTS_SUPPORT_MANUAL_STREAMS_H

#include "backends/backend.h"

#define MANUAL_COUNT_MAX  160
#define COMMAND_COUNT_MAX 8192
#define RECORD_COUNT_MAX  65536

/* For each stream, how many of its commands must have run. */
typedef struct clock_vector {
    uint32_t until[MANUAL_COUNT_MAX];
} clock_vector_t;

typedef enum command_kind { COMMAND_WORK, COMMAND_CHECK, COMMAND_RECORD, COMMAND_WAIT } command_kind_t;

typedef struct command {
    command_kind_t kind;
    uint32_t record;         /* of RECORD and WAIT */
    clock_vector_t *demands; /* of CHECK: what must have happened before; owned */
} command_t;

typedef struct manual_stream {
    command_t commands[COMMAND_COUNT_MAX];
    uint32_t count;
    uint32_t next;
    bool is_hung;
    bool is_gone;     /* its owner has destroyed it */
    uint64_t capture; /* the capture that it is part of; 0: none */
} manual_stream_t;

extern manual_stream_t *manual_streams;
extern uint32_t manual_count;
extern int64_t manual_event_count;
extern uint32_t manual_edge_count;  /* waits within a capture */
extern uint64_t manual_call_count;  /* calls that may fail */
extern uint64_t manual_calls_left;  /* before the one that fails */
extern dao_status_t manual_failure; /* the status of that one */

/* The table: streams, events and waits. A dao_backend_stream_t is a manual_stream_t. */
extern const dao_backend_ops_t manual_ops;

void manual_begin(void);

/* Checks that no event is left. */
void manual_end(void);

/* Returns a new stream. */
manual_stream_t *manual_new(void);

void manual_queue(manual_stream_t *stream, command_t command);

/* Runs the next command of a stream. Returns false if it has none or has to wait. */
bool manual_step(manual_stream_t *stream);

/* Runs the next command of each stream. Returns false if no stream could. */
bool manual_step_all(void);
void manual_run_to_the_end(void);

/* Returns true if every stream has run as many commands. */
bool manual_meet(const clock_vector_t *demands);

#endif
