/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the sim backend share. One lock guards everything below; `_locked` functions hold it. */
#ifndef DAO_BACKENDS_SIM_SIM_INTERNAL_H
#define DAO_BACKENDS_SIM_SIM_INTERNAL_H

#include "backends/sim/sim.h"
#include "backends/virtual_memory.h"
#include "base/ring.h"
#include "base/threads/sync.h"

/* Alignment that device_query promises, and that of addresses, which are reserved in pages. */
#define DAO_SIM_ALIGNMENT_BYTES 256
#define DAO_SIM_PAGE_BYTES      4096

/* A wire carries one copy at a time. Both directions of a half-duplex link are one wire. */
typedef struct sim_wire {
    dao_backend_stream_t *user; /* whose copy it carries; NULL: none */
} sim_wire_t;

/* One direction of a device's link to the host. */
typedef struct sim_link {
    sim_wire_t *wire;
    uint64_t bytes_per_second; /* 0: no limit */
} sim_link_t;

/* The state of one record of an event. References: the event, the record's command, every waiting command. */
typedef struct sim_mark {
    uint32_t reference_count;
    bool is_done;
    uint64_t time_ns; /* when it was done */
} sim_mark_t;

typedef enum sim_command_kind {
    SIM_COMMAND_COPY,
    SIM_COMMAND_FILL,
    SIM_COMMAND_WORK,
    SIM_COMMAND_DELAY,
    SIM_COMMAND_FUNCTION,
    SIM_COMMAND_RECORD,
    SIM_COMMAND_WAIT,
} sim_command_kind_t;

typedef struct sim_command {
    sim_command_kind_t kind;
    void *dst;
    const void *src;
    size_t size_bytes;
    uint8_t value;          /* of a fill */
    const sim_link_t *link; /* of a copy; NULL: it takes no time */
    uint64_t duration_ns;   /* of work and delays */
    dao_host_func_t function;
    void *user;
    sim_mark_t *mark; /* of RECORD and WAIT: a reference */
} sim_command_t;

struct dao_backend_stream {
    dao_backend_device_t *device;
    dao_backend_stream_t *next; /* of the backend's, in the order of their creation */
    dao_ring_t queue;           /* of sim_command_t, the running one included */
    uint64_t queued_count, done_count;
    bool is_running; /* the first command has begun at begin_ns and ends at end_ns */
    uint64_t begin_ns, end_ns;
    uint64_t wire_rank; /* order in which the first command, a copy, asked for its wire; 0: not yet */
};

struct dao_backend_event {
    dao_backend_t *backend;
    sim_mark_t *mark; /* of the latest record; done before the first one */
    bool is_recorded;
    bool has_time; /* from its creation on */
};

struct dao_sim_gate {
    dao_backend_t *backend;
    sim_mark_t *mark;
};

struct dao_backend {
    dao_config_t config; /* `cpu` with its defaults filled in */
    bool has_bytes;
    dao_mutex_t lock; /* guards what follows, and all that devices, streams and events have */
    dao_cond_t idle;  /* is_moving has become false */
    bool is_moving;   /* some thread moves time; it lets go of the lock for host functions */
    uint64_t now_ns;
    uint64_t wire_ranks; /* given out */
    dao_sim_span_callback_t span_callback;
    void *span_user;
    dao_backend_stream_t *streams;
};

struct dao_backend_device {
    dao_backend_t *backend;
    int32_t index;
    sim_wire_t wires[2];
    sim_link_t h2d, d2h;
    dao_virtual_memory_t memory; /* has a lock of its own */
};

/* DAO_ERR_REENTRANT inside a host function: no call of the table is made from there. */
DAO_NODISCARD dao_status_t dao_sim_check_thread(void);

/* sim_clock.c: moves time until `is_reached(target)`. DAO_ERR_BACKEND if nothing is left that could reach
   it. */
typedef bool (*sim_reached_t)(const void *target);
dao_status_t dao_sim_run(dao_backend_t *backend, sim_reached_t is_reached, const void *target);

/* sim_clock.c: takes the lock when no thread moves the time. */
void dao_sim_lock_still(dao_backend_t *backend);

/* Lets go of a mark; the last one frees it. */
void dao_sim_mark_unreference_locked(sim_mark_t *mark);

/* sim_memory.c */
dao_status_t dao_sim_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_sim_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_sim_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_sim_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_sim_host_register(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_sim_host_unregister(dao_backend_device_t *device, void *address);
dao_status_t dao_sim_host_device_address(dao_backend_device_t *device, void *address, void **out_address);

dao_status_t dao_sim_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                   size_t *out_page_bytes);
dao_status_t dao_sim_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                               const uint32_t *pages, size_t page_count, void **out_address);
dao_status_t dao_sim_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                 size_t page_count, size_t keep_count);

/* sim_stream.c */
dao_status_t dao_sim_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream);
void dao_sim_stream_destroy(dao_backend_stream_t *stream);
dao_status_t dao_sim_stream_synchronize(dao_backend_stream_t *stream);
dao_status_t dao_sim_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event);
void *dao_sim_stream_native(dao_backend_stream_t *stream);
dao_status_t dao_sim_device_synchronize(dao_backend_device_t *device);
dao_status_t dao_sim_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes);
dao_status_t dao_sim_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes);
dao_status_t dao_sim_stream_delay(dao_backend_stream_t *stream, uint64_t duration_ns);
dao_status_t dao_sim_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user);
dao_status_t dao_sim_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event);
void dao_sim_event_destroy(dao_backend_event_t *event);
dao_status_t dao_sim_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream);
dao_status_t dao_sim_event_query(dao_backend_event_t *event);
dao_status_t dao_sim_event_synchronize(dao_backend_event_t *event);
dao_status_t dao_sim_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns);

#endif
