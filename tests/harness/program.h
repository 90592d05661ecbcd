/* SPDX-License-Identifier: Apache-2.0 */
/* One program format for all engines: a byte string is a config and then calls.

       bytes:  [ config: HARNESS_CONFIG_BYTES ][ call: HARNESS_OP_BYTES ][ call ] ...

   Every string is a program: what is missing is 0, what is left over is dropped. A call has a fixed length,
   so a program is shrunk by dropping calls and by clearing bytes. A call names its objects by slots; what a
   slot holds is known when the call is made (model.h). */
#ifndef DAO_TESTS_HARNESS_PROGRAM_H
#define DAO_TESTS_HARNESS_PROGRAM_H

#include <dao/dao.h>

#define HARNESS_CONFIG_BYTES  16u
#define HARNESS_OP_BYTES      8u
#define HARNESS_OP_COUNT_MAX  96u
#define HARNESS_PROGRAM_BYTES (HARNESS_CONFIG_BYTES + HARNESS_OP_COUNT_MAX * HARNESS_OP_BYTES)
#define HARNESS_THREAD_COUNT  4u

/* The calls: symbol, what a program in C writes, how often (of 256) a random program makes it. */
#define HARNESS_CALL_LIST(X)                                                                                 \
    X(ALLOC, "dao_alloc", 17)                                                                                \
    X(ALLOC_WITH, "dao_alloc_with", 8)                                                                       \
    X(ALLOC_ASYNC, "dao_alloc_async", 14)                                                                    \
    X(FREE, "dao_free", 22)                                                                                  \
    X(FREE_ASYNC, "dao_free_async", 14)                                                                      \
    X(FREE_WRONG, "dao_free(wrong)", 6)                                                                      \
    X(RECORD_STREAM, "dao_record_stream", 4)                                                                 \
    X(WORK, "dao_stream_host_func", 10)                                                                      \
    X(STREAM_FILL, "dao_stream_fill", 3)                                                                     \
    X(STREAM_COPY, "dao_stream_copy", 3)                                                                     \
    X(STREAM_COPY_BATCH, "dao_stream_copy_batch", 2)                                                         \
    X(COPY, "dao_copy", 5)                                                                                   \
    X(RUN, "(the device runs)", 6)                                                                           \
    X(STREAM_CREATE, "dao_stream_create", 4)                                                                 \
    X(STREAM_ADOPT, "dao_stream_adopt", 2)                                                                   \
    X(STREAM_DESTROY, "dao_stream_destroy", 2)                                                               \
    X(STREAM_SYNCHRONIZE, "dao_stream_synchronize", 3)                                                       \
    X(DEVICE_SYNCHRONIZE, "dao_device_synchronize", 2)                                                       \
    X(EVENT_CREATE, "dao_event_create", 2)                                                                   \
    X(EVENT_DESTROY, "dao_event_destroy", 1)                                                                 \
    X(EVENT_RECORD, "dao_event_record", 3)                                                                   \
    X(EVENT_QUERY, "dao_event_query", 2)                                                                     \
    X(EVENT_SYNCHRONIZE, "dao_event_synchronize", 1)                                                         \
    X(EVENT_ELAPSED, "dao_event_elapsed", 1)                                                                 \
    X(STREAM_WAIT_EVENT, "dao_stream_wait_event", 2)                                                         \
    X(MEMORY_CREATE, "dao_memory_create", 7)                                                                 \
    X(MEMORY_FROM_POINTER, "dao_memory_from_pointer", 2)                                                     \
    X(MEMORY_SUB_RANGE, "dao_memory_sub_range", 2)                                                           \
    X(MEMORY_RETAIN, "dao_memory_retain", 1)                                                                 \
    X(MEMORY_RELEASE, "dao_memory_release", 7)                                                               \
    X(TENSOR_EMPTY, "dao_tensor_empty", 2)                                                                   \
    X(TENSOR_ZEROS, "dao_tensor_zeros", 2)                                                                   \
    X(TENSOR_FROM_MEMORY, "dao_tensor_from_memory", 2)                                                       \
    X(TENSOR_VIEW, "dao_tensor_narrow", 2)                                                                   \
    X(TENSOR_RELEASE, "dao_tensor_release", 3)                                                               \
    X(DLPACK_EXPORT, "dao_tensor_to_dlpack", 2)                                                              \
    X(DLPACK_IMPORT, "dao_tensor_from_dlpack", 2)                                                            \
    X(LEASE_BEGIN, "dao_lease_begin", 3)                                                                     \
    X(LEASE_COMMIT, "dao_lease_commit", 3)                                                                   \
    X(LEASE_CANCEL, "dao_lease_cancel", 1)                                                                   \
    X(LEASE_ENTER, "dao_lease_enter", 2)                                                                     \
    X(LEASE_LEAVE, "dao_lease_leave", 2)                                                                     \
    X(LEASE_RETAIN, "dao_lease_retain", 3)                                                                   \
    X(LEASE_RELEASE, "dao_lease_release", 2)                                                                 \
    X(TRIM, "dao_trim", 4)                                                                                   \
    X(LIMIT_SET, "dao_limit_set", 3)                                                                         \
    X(HOST_LIMIT_SET, "dao_host_limit_set", 1)                                                               \
    X(TAG_SET_CURRENT, "dao_tag_set_current", 3)                                                             \
    X(TAG_LIMIT_SET, "dao_tag_limit_set", 2)                                                                 \
    X(STEP_BEGIN, "dao_step_begin", 6)                                                                       \
    X(STEP_END, "dao_step_end", 6)                                                                           \
    X(STEP_KEY_SET, "dao_step_plan_key_set", 1)                                                              \
    X(STEP_ENABLE, "dao_step_plan_enable", 1)                                                                \
    X(STEP_RESET, "dao_step_plan_reset", 1)                                                                  \
    X(STEP_SAVE_LOAD, "dao_step_plan_load", 1)                                                               \
    X(STEP_STATS, "dao_step_plan_stats_get", 1)                                                              \
    X(CONFIGURE, "dao_place_configure", 1)                                                                   \
    X(EVENTS, "dao_events_start", 2)                                                                         \
    X(SNAPSHOT, "dao_snapshot_create", 1)                                                                    \
    X(BLOCK_QUERY, "dao_block_query", 3)                                                                     \
    X(STATS_RESET, "dao_stats_reset_peaks", 1)                                                               \
    X(HARDENING_CHECK, "dao_hardening_check", 1)                                                             \
    X(PRESSURE, "dao_pressure_callback_add", 2)                                                              \
    X(SEGMENT, "dao_segment_callback_add", 1)                                                                \
    X(HOST_REGISTER, "dao_host_register", 1)                                                                 \
    X(ADDRESS_PLACE, "dao_address_place", 1)                                                                 \
    X(STREAM_QUERY, "dao_stream_query", 1)                                                                   \
    X(PLACE_REGISTER, "dao_place_register", 1)                                                               \
    X(PEER, "dao_peer_enable", 1)                                                                            \
    X(SHARE, "dao_memory_create_shared", 1)                                                                  \
    X(EXECUTOR_CREATE, "dao_executor_create", 1)                                                             \
    X(EXECUTOR_PUSH, "dao_executor_push", 3)                                                                 \
    X(EXECUTOR_STEP, "dao_executor_step_begin", 1)                                                           \
    X(EXECUTOR_SYNC, "dao_executor_sync", 1)                                                                 \
    X(EXECUTOR_DESTROY, "dao_executor_destroy", 1)                                                           \
    X(MANAGED_CREATE, "dao_managed_create", 2)                                                               \
    X(MANAGED_CREATE_FROM, "dao_managed_create_from", 1)                                                     \
    X(MANAGED_WRITE, "dao_managed_write", 1)                                                                 \
    X(MANAGED_VIEW, "dao_managed_view", 1)                                                                   \
    X(MANAGED_READ, "dao_managed_read", 1)                                                                   \
    X(MANAGED_PIN, "dao_managed_pin", 1)                                                                     \
    X(MANAGED_RELEASE, "dao_managed_release", 1)                                                             \
    X(COMMAND_LIST, "dao_command_list_run", 1)                                                               \
    X(COMMAND_LIST_PLAN, "dao_command_list_plan", 1)                                                         \
    X(FORK, "fork", 1)                                                                                       \
    X(FINALIZE, "dao_finalize", 1)

typedef enum harness_call {
#define HARNESS_CALL_ENUMERATOR(symbol, text, weight) HARNESS_##symbol,
    HARNESS_CALL_LIST(HARNESS_CALL_ENUMERATOR)
#undef HARNESS_CALL_ENUMERATOR
        HARNESS_CALL_COUNT,
} harness_call_t;

/* How the library and the place that the program is about are set up. Whatever is here is a config that
   dao_place_configure() accepts; the call CONFIGURE tries those that it has to refuse. */
typedef struct harness_config {
    dao_place_t place; /* the subject: most calls are about it */
    dao_place_config_t place_config;
    dao_config_t library;
    bool hides_pages;       /* the device has no virtual memory */
    size_t tag_limit_bytes; /* of tag 1 at the place; 0: none */
} harness_config_t;

typedef struct harness_op {
    harness_call_t call;
    uint32_t thread; /* which thread makes it, where an engine has several: below HARNESS_THREAD_COUNT */
    uint8_t slot;    /* of the object it is about */
    uint8_t other;   /* of a second one */
    uint8_t kind;    /* which form of the call */
    uint8_t small;   /* a number */
    uint16_t number; /* another */
} harness_op_t;

typedef struct harness_program {
    harness_config_t config;
    uint32_t op_count;
    harness_op_t ops[HARNESS_OP_COUNT_MAX];
} harness_program_t;

/* Reads a program. */
void harness_decode(const uint8_t *bytes, size_t length, harness_program_t *out_program);

/* Writes a random program of a seed. Returns its length, at most HARNESS_PROGRAM_BYTES. */
size_t harness_random_bytes(uint64_t seed, uint8_t out_bytes[HARNESS_PROGRAM_BYTES]);

/* Returns the first byte that stands for a call. */
uint32_t harness_call_byte(harness_call_t call);

const char *harness_call_text(harness_call_t call);

#endif
