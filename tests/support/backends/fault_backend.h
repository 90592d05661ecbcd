/* SPDX-License-Identifier: Apache-2.0 */
/* A backend around another one, for tests: makes the n-th call of any kind fail, holds commands back so that
   independent streams interleave in other ways, reports finished events late, counts calls and live objects,
   and stops the test when a stream or an event is used after it was destroyed. */
#ifndef DAO_TESTS_SUPPORT_FAULT_BACKEND_H
#define DAO_TESTS_SUPPORT_FAULT_BACKEND_H

#include "backends/backend.h"

/* Calls that can fail, and what they answer then. */
#define FAULT_CALL_LIST(X)                                                                                   \
    X(OPEN, "open", ERR_NO_DEVICE)                                                                           \
    X(DEVICE_OPEN, "device_open", ERR_NO_DEVICE)                                                             \
    X(DEVICE_QUERY, "device_query", ERR_BACKEND)                                                             \
    X(MEMORY_ALLOC, "memory_alloc", ERR_NO_DEVICE_MEMORY)                                                    \
    X(PINNED_ALLOC, "pinned_alloc", ERR_NO_HOST_MEMORY)                                                      \
    X(STREAM_CREATE, "stream_create", ERR_BACKEND)                                                           \
    X(STREAM_WAIT_EVENT, "stream_wait_event", ERR_BACKEND)                                                   \
    X(STREAM_WAIT_WORD, "stream_wait_word", ERR_BACKEND)                                                     \
    X(EVENT_CREATE, "event_create", ERR_BACKEND)                                                             \
    X(EVENT_RECORD, "event_record", ERR_BACKEND)                                                             \
    X(COPY, "copy", ERR_BACKEND)                                                                             \
    X(COPY_BATCH, "copy_batch", ERR_BACKEND)                                                                 \
    X(COPY_PEER, "copy_peer", ERR_BACKEND)                                                                   \
    X(FILL, "fill", ERR_BACKEND)                                                                             \
    X(HOST_FUNC, "host_func", ERR_BACKEND)                                                                   \
    X(PEER_ENABLE, "peer_enable", ERR_BACKEND)                                                               \
    X(HOST_REGISTER, "host_register", ERR_NO_HOST_MEMORY)                                                    \
    X(HOST_UNREGISTER, "host_unregister", ERR_BACKEND)                                                       \
    X(HOST_DEVICE_ADDRESS, "host_device_address", ERR_BACKEND)                                               \
    X(ADDRESS_RESERVE, "address_reserve", ERR_NO_HOST_MEMORY)                                                \
    X(PAGES_CREATE, "pages_create", ERR_NO_DEVICE_MEMORY)                                                    \
    X(PAGES_MAP, "pages_map", ERR_BACKEND)                                                                   \
    X(SHARED_CREATE, "shared_create", ERR_NO_DEVICE_MEMORY)                                                  \
    X(SHARED_EXPORT, "shared_export", ERR_BACKEND)                                                           \
    X(SHARED_IMPORT, "shared_import", ERR_BACKEND)                                                           \
    X(EVENT_QUERY, "event_query", ERR_DEVICE_LOST)                                                           \
    X(EVENT_SYNCHRONIZE, "event_synchronize", ERR_DEVICE_LOST)                                               \
    X(STREAM_SYNCHRONIZE, "stream_synchronize", ERR_DEVICE_LOST)

typedef enum fault_call {
#define FAULT_CALL_ENUMERATOR(name, text, status) FAULT_CALL_##name,
    FAULT_CALL_LIST(FAULT_CALL_ENUMERATOR)
#undef FAULT_CALL_ENUMERATOR
        FAULT_CALL_COUNT,
} fault_call_t;

/* Armed with this, every call counts that can be refused while the device goes on: all but those that answer
   DAO_ERR_DEVICE_LOST. */
#define FAULT_CALL_ANY FAULT_CALL_COUNT

/* Armed with this, the device is lost at the n-th call on a stream or an event: it answers
   DAO_ERR_DEVICE_LOST. With `persistent` all after it do too. Calls that wait have waited even so: a lost
   device touches no memory any more. */
#define FAULT_CALL_LOSS (FAULT_CALL_COUNT + 1)

typedef struct fault_config {
    uint64_t seed;          /* of the delays */
    uint32_t delay_ns_max;  /* commands are held back by up to this, every other one; 0: none */
    uint32_t not_ready_max; /* a finished event is reported as not ready up to this many times */
    bool hide_host_access;  /* be a device whose memory the host cannot touch */
    bool hide_pages;        /* be a device without virtual memory */
    bool runs_on_when_lost; /* waiting for a lost device fails at once, while what it was given still runs */
} fault_config_t;

/* Returns the table. One backend is wrapped at a time; both arguments are copied or static. Nothing is
   armed. */
const dao_backend_ops_t *fault_backend_wrap(const dao_backend_ops_t *inner, const fault_config_t *config);

/* Makes the `skip_count`-th next call (0: the very next) of a kind fail; with `persistent` all after it
   too. */
void fault_backend_arm(fault_call_t call, uint64_t skip_count, bool persistent);

/* Makes so many calls of a kind in a row fail, the first one as above. */
void fault_backend_arm_row(fault_call_t call, uint64_t skip_count, uint64_t fail_count);

/* Lets everything succeed again. Returns the number of calls that failed since it was armed. */
uint64_t fault_backend_disarm(void);

/* Returns the number of calls that failed since it was armed. */
uint64_t fault_backend_fired_count(void);

/* What the last call that failed answered; DAO_OK if none ever did. */
dao_status_t fault_backend_fired_status(void);

/* Spares this thread's calls, or no more: they are not counted and do not fail. For what a test does beside
   the scenario. */
void fault_backend_spare(bool is_exempt);

/* Calls of a kind since the wrap. */
uint64_t fault_backend_calls(fault_call_t call);

/* Objects that were created and not destroyed: memory, pinned memory, streams, events, page handles,
   reservations, registered host memory. */
int64_t fault_backend_live_count(void);

const char *fault_call_text(fault_call_t call);

#endif
