/* SPDX-License-Identifier: Apache-2.0 */
/* The reference model: what a program holds, and what the library has to answer. It knows blocks with owner,
   tag and contents, streams, leases and limits; it does not know where blocks lie.

   Contents. A block has words at its begin and at its end, the lanes. Lane 0 belongs to the stream that uses
   the block first (or to the host), lane s to stream s. Work on a stream checks its lane and writes it anew.
   So a block that is handed out too early is seen: its new owner's word is not what the queued work expects,
   or the other way round. */
#ifndef DAO_TESTS_HARNESS_MODEL_H
#define DAO_TESTS_HARNESS_MODEL_H

#include "backends/backend.h"
#include "tests/harness/program.h"

#define MODEL_BLOCK_COUNT   32u
#define MODEL_STREAM_COUNT  8u
#define MODEL_EVENT_COUNT   4u
#define MODEL_LEASE_COUNT   3u
#define MODEL_TENSOR_COUNT  8u
#define MODEL_TAG_COUNT     3u /* tags 1 and 2, and 0 */
#define MODEL_MANAGED_COUNT 6u
#define MODEL_FREED_COUNT   8u
#define MODEL_PLACE_COUNT   4u /* device 0, pinned 0, cpu, device 1 */

#define MODEL_STREAM_OTHER 7u /* the slot of device 1's compute stream; 0 to 2 are device 0's own */
#define MODEL_NO_STREAM    UINT32_MAX

typedef enum model_owner {
    MODEL_NOBODY = 0,
    MODEL_RAW,     /* dao_alloc() and its like */
    MODEL_HANDLE,  /* a dao_memory_t of the library's memory */
    MODEL_POINTER, /* a dao_memory_t of the program's memory */
    MODEL_PART,    /* a dao_memory_t of another one's */
    MODEL_SHARED,  /* a dao_memory_t for other processes */
} model_owner_t;

typedef struct model_block {
    model_owner_t owner;
    unsigned char *address;
    size_t size_bytes;
    dao_place_t place;
    dao_tag_t tag;
    bool is_async;                      /* dao_alloc_async(): it may carry other streams */
    bool is_gone;                       /* its owner has freed it, a lease retains it */
    bool is_leased;                     /* allocated under a lease */
    uint32_t home;                      /* the stream of lane 0, or MODEL_NO_STREAM */
    uint32_t used_by;                   /* streams with work on it that may not have run: bits of slots */
    uint32_t retained_by;               /* leases that retain it: bits of slots */
    uint64_t lanes[MODEL_STREAM_COUNT]; /* 0: not written */
    dao_memory_t *memory;               /* of handles */
    uint32_t reference_count;           /* of the handle */
    uint32_t parent;                    /* MODEL_PART: the block that it keeps */
    bool is_dropped;                    /* the program has no reference, but a part or a tensor has */
} model_block_t;

typedef struct model_stream {
    dao_stream_t *stream; /* NULL: the slot is empty */
    void *native;
    uint32_t handle_count; /* memory handles that name it */
} model_stream_t;

typedef struct model_lease {
    dao_lease_t *lease;
    bool is_capturing;
    bool is_entered;
} model_lease_t;

typedef struct model_tensor {
    dao_tensor_t *tensor;
    uint32_t block;
} model_tensor_t;

/* A managed tensor of the executor. */
typedef struct model_managed {
    dao_managed_t *tensor;
    size_t size_bytes;
    bool is_written;
    bool has_source; /* its bytes are read, and never change */
    bool is_unknown; /* a kernel that writes it may have been skipped */
    uint8_t value;   /* of every byte */
    uint32_t pin_count;
} model_managed_t;

/* What a place counts. */
typedef struct model_books {
    uint64_t alloc_count, free_count, failed_count;
    uint64_t limit_bytes;
    uint64_t late_bytes; /* of handles that were released: their frees may wait */
    uint64_t late_count;
    uint64_t arena_bytes; /* of the executor */
    uint64_t tag_limits[MODEL_TAG_COUNT];
} model_books_t;

typedef struct model {
    const harness_program_t *program;
    const dao_backend_ops_t *(*wrap)(
        const dao_backend_ops_t *ops); /* an engine's, around the device; or NULL */
    const dao_backend_ops_t *ops;      /* of this start */
    bool is_started;
    bool is_configured; /* the subject has the program's config */
    uint64_t host_limit_bytes;
    model_block_t blocks[MODEL_BLOCK_COUNT];
    model_stream_t streams[MODEL_STREAM_COUNT];
    dao_event_t *events[MODEL_EVENT_COUNT];
    uint32_t event_streams[MODEL_EVENT_COUNT]; /* recorded on; MODEL_NO_STREAM: never */
    model_lease_t leases[MODEL_LEASE_COUNT];
    uint32_t lease_here; /* the lease that allocations come from; MODEL_LEASE_COUNT: none */
    model_tensor_t tensors[MODEL_TENSOR_COUNT];
    model_books_t books[MODEL_PLACE_COUNT];
    dao_tag_t tags[MODEL_TAG_COUNT]; /* the library's numbers */
    uint32_t tag_here;
    uint32_t step_depth;
    struct {
        dao_place_t place;
        void *address;
    } freed[MODEL_FREED_COUNT];
    uint32_t freed_next;
    uint64_t stamp;
    bool is_recording, is_registered;
    int32_t own_index;                /* of a place of the program's own memory; 0: none yet */
    uint64_t pressure_id, segment_id; /* of callbacks; 0: none */
    uint64_t peak_mark;               /* at the subject; 0: none */
    dao_peaks_t peaks_since_mark;     /* the place's own, each until it began anew */
    dao_peaks_t peaks_at_mark;        /* of the mark, as it was set */
    dao_executor_t *executor;
    bool learns_steps; /* the executor does, so that a list can be planned */
    model_managed_t managed[MODEL_MANAGED_COUNT];
    uint8_t *bytes;       /* room of the executor's largest tensor */
    bool may_fail;        /* a fault is armed: see model_answer() */
    uint64_t kept_bytes;  /* freed of what leases allocated, who keep it for as long as one is there */
    bool has_company;     /* other threads use the library, each with a model of its own: no books here */
    uint64_t fault_count; /* that had fired when the call began */
    bool has_met_fault;   /* in a call before: a second fault begins to count anew */
    const char *where;    /* the call, for messages */
    uint32_t op_index;
    bool prints; /* each call as C */
} model_t;

/* Prints a statement of the C program that makes the same calls, where that is asked for. */
void model_say(const model_t *model, const char *format, ...) __attribute__((format(printf, 2, 3)));

_Noreturn void model_fail(const model_t *model, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#define MODEL_REQUIRE(model, condition)                                                                      \
    ((condition) ? (void)0 : model_fail((model), "%s:%d: does not hold: %s", __FILE__, __LINE__, #condition))

/* Checks an answer. Returns true if the call has done its work. Where a fault was injected during the call,
   an error is right, too, whatever was expected. */
bool model_answer(model_t *model, dao_status_t got, dao_status_t wanted);

/* Faults that have fired since one was armed. */
uint64_t harness_fault_count(void);

/* Which place a number of MODEL_PLACE_COUNT is, and back. */
dao_place_t model_place(uint32_t number);
uint32_t model_place_number(dao_place_t place);
model_books_t *model_books(model_t *model, dao_place_t place);

/* Whether no other thread uses the place between two calls: an executor's has the pinned ones. */
bool model_is_alone(const model_t *model, dao_place_t place);

/* ---- blocks ---- */

/* Returns the slot of a block: its name in the program. */
uint32_t model_slot(const model_t *model, const model_block_t *block);

/* Returns an empty slot from `slot` on, or NULL. */
model_block_t *model_block_empty(model_t *model, uint32_t slot);

/* Returns the first live block of an owner from `slot` on, or NULL. */
model_block_t *model_block_find(model_t *model, uint32_t slot, model_owner_t owner);

/* Enters a block that the library has handed out: it lies in no other one. */
void model_block_enter(model_t *model, model_block_t *block, void *address, size_t size_bytes,
                       dao_place_t place, dao_tag_t tag);

/* What an allocation may answer: any of these. */
typedef struct model_outcome {
    bool may_succeed;
    dao_status_t refusals[4]; /* DAO_OK: no more */
} model_outcome_t;

model_outcome_t model_alloc_outcome(model_t *model, dao_place_t place, size_t size_bytes,
                                    size_t alignment_bytes, uint32_t tag);

/* Checks the answer of an allocation and that it changed the books as it should. Returns true if there is a
   block. */
bool model_alloc_answer(model_t *model, dao_place_t place, size_t size_bytes, uint32_t tag,
                        const model_outcome_t *outcome, dao_status_t got);

/* Notes that a block's owner has freed it. */
void model_block_leave(model_t *model, model_block_t *block);

/* Returns true if a hardened place may keep freed blocks for good: a fault was in the way of their bytes. */
bool model_may_keep(const model_t *model);

/* Most bytes that what was freed at a place, and has a free that waits, takes from the system. */
uint64_t model_late_most_bytes(const model_t *model, dao_place_t place);

/* Notes that a lease has ended: what it retained last and was freed by its owner, is free. */
void model_lease_end(model_t *model, uint32_t lease);

/* Work of stream slots has all run. */
void model_streams_done(model_t *model, uint32_t slots);

/* ---- contents ---- */

bool model_has_lanes(const model_block_t *block);
void model_write(model_t *model, model_block_t *block); /* by the host */
void model_read(model_t *model, const model_block_t *block);
uint64_t model_lane(const model_block_t *block, uint32_t lane);

/* ---- books ---- */

/* Compares statistics, tags and, if `deep`, all blocks of all places with the model. */
void model_compare(model_t *model, bool deep);

#endif
