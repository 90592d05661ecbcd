/* SPDX-License-Identifier: Apache-2.0 */
/* What only the files of runtime/ share: the core that outlives the context, and the freeing of a runtime's
   memory. */
#ifndef DAO_RUNTIME_CONTEXT_INTERNAL_H
#define DAO_RUNTIME_CONTEXT_INTERNAL_H

#include "allocators/accounting/budget.h"
#include "allocators/paged/host_pages.h"
#include "runtime/core/runtime_internal.h"
#include "runtime/handles/handle.h"

#include <dao/place_config.h>

/* A live handle or stream, for the report of what is left at shutdown. Embedded in it, linked while it lives.
   */
typedef struct dao_live {
    struct dao_live *previous;
    struct dao_live *next;
    const char *noun; /* "memory handle", "stream", "event" */
    dao_place_t place;
    void *address;
    size_t size_bytes;
    bool is_block; /* the allocator of the place reports it */
} dao_live_t;

typedef struct dao_event_rings dao_event_rings_t;   /* event_ring.h */
typedef struct dao_registration dao_registration_t; /* host_register.c */

/* What one start of the library opened, and what handles of that start need even after dao_finalize():
   counted by the context, by every runtime and by every memory handle. */
typedef struct dao_core {
    const dao_backend_ops_t *ops;
    dao_config_t config; /* as it was started, what is 0 not filled in */
    dao_backend_t *backend;
    int32_t device_count;
    uint32_t fork_count;                    /* forks before the start */
    dao_budget_t host_budget;               /* what host_memory and all pinned memory take from */
    _Atomic(dao_allocator_t *) host_memory; /* NULL until it is first used */
    dao_event_rings_t *event_rings;
    uint32_t hardening;      /* of dao_hardening_t, where a place's config says nothing */
    size_t quarantine_bytes; /* of each place */
    _Atomic uint32_t reference_count;
    dao_strategy_t device_strategy; /* where a config names none */
    dao_host_memory_config_t host_settings;
    dao_host_pages_t host_pages;      /* of host_memory, if it is kept in pages */
    dao_step_plan_config_t step_plan; /* where a place's config says nothing of it */
    /* guarded by the context's lock; a place's own does not change any more once it has started */
    dao_place_config_t host_config;
    dao_place_config_t pinned_configs[DAO_DEVICE_COUNT_MAX];
    dao_place_config_t device_configs[DAO_DEVICE_COUNT_MAX];
    dao_mutex_t lock; /* rank leaf; guards the lists */
    dao_live_t *first_live;
    dao_registration_t *first_registration;
} dao_core_t;

/* What is started, for calls that cannot afford more than a look: the core is there while the library is
   STARTED, and a runtime from its first use until then; all is NULL otherwise, in a child process too.
   Written by context.c alone. */
typedef struct dao_started {
    _Atomic(dao_runtime_t *) runtimes[DAO_DEVICE_COUNT_MAX];
    _Atomic(dao_core_t *) core;
} dao_started_t;
extern dao_started_t dao_started;

/* Makes sure that the library is started, and gives the core, borrowed. DAO_ERR_SHUTDOWN, DAO_ERR_FORKED, and
   the errors of dao_init(). */
DAO_NODISCARD dao_status_t dao_context_enter(dao_core_t **out_core);

/* What was said about a place. */
static inline dao_place_config_t *dao_core_config(dao_core_t *core, dao_place_t place)
{
    return place.kind == DAO_PLACE_KIND_CPU      ? &core->host_config
           : place.kind == DAO_PLACE_KIND_PINNED ? &core->pinned_configs[place.index]
                                                 : &core->device_configs[place.index];
}

/* Gives the strategy that is in effect for a kind of place where a config names `strategy`. */
static inline dao_strategy_t dao_core_strategy(const dao_core_t *core, dao_place_kind_t kind,
                                               dao_strategy_t strategy)
{
    dao_strategy_t fallback = kind == DAO_PLACE_KIND_DEVICE ? core->device_strategy : DAO_STRATEGY_GOOD_FIT;
    return strategy != DAO_STRATEGY_DEFAULT ? strategy : fallback;
}

/* Keeps a checked config, in which the strategy is named, for a place that the core has. DAO_ERR_BUSY if it
   has started. */
DAO_NODISCARD dao_status_t dao_context_configure(dao_core_t *core, dao_place_t place,
                                                 const dao_place_config_t *config);

/* Makes sure that the host's place is started, and gives its allocator. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_core_host_start(dao_core_t *core, dao_allocator_t **out_allocator);

/* Makes sure that a device's runtime is started, and gives it, borrowed. As dao_runtime_acquire() otherwise.
   */
DAO_NODISCARD dao_status_t dao_runtime_borrow(int32_t device_index, dao_runtime_t **out_runtime);

/* Gives a device's runtime, borrowed, or NULL if it was not used yet or cannot be. Any number is a device
   here. */
static inline dao_runtime_t *dao_runtime_started(int32_t device_index)
{
    return (uint32_t)device_index < DAO_DEVICE_COUNT_MAX
               ? atomic_load_explicit(&dao_started.runtimes[(uint32_t)device_index], memory_order_acquire)
               : NULL;
}

/* DAO_ERR_INVALID for a kind that is none or an index that no place has, DAO_ERR_NO_DEVICE for a device that
   is not there, with a message. */
DAO_NODISCARD dao_status_t dao_place_check(const dao_core_t *core, dao_place_t place);

/* Both: the library is started, has this place, and gives the core. */
DAO_NODISCARD static inline dao_status_t dao_place_enter(dao_place_t place, dao_core_t **out_core)
{
    dao_status_t status = dao_context_enter(out_core);
    return status == DAO_OK ? dao_place_check(*out_core, place) : status;
}

dao_core_t *dao_core_retain(dao_core_t *core); /* gives its argument back */
void dao_core_release(dao_core_t *core);       /* the last one closes the backend */

/* Tells whether this process is a child of the one that made the core: nothing of it may be touched then. */
bool dao_core_is_forked(const dao_core_t *core);

void dao_live_add(dao_core_t *core, dao_live_t *live);
void dao_live_remove(dao_core_t *core, dao_live_t *live);

/* Starts a device: runtime.c. The caller gets the first reference. */
DAO_NODISCARD dao_status_t dao_runtime_create(dao_core_t *core, int32_t device_index,
                                              dao_runtime_t **out_runtime);
dao_runtime_t *dao_runtime_retain(dao_runtime_t *runtime); /* gives its argument back */
dao_core_t *dao_runtime_core(dao_runtime_t *runtime);      /* borrowed */

/* Events of the runtime, kept for reuse: a handle takes one when it is made, so that its release needs
   nothing. */
DAO_NODISCARD dao_status_t dao_runtime_event_take(dao_runtime_t *runtime, dao_backend_event_t **out_event);
void dao_runtime_event_give(dao_runtime_t *runtime, dao_backend_event_t *event); /* NULL is allowed */

/* A block whose handle is gone while a stream may still use it. */
typedef struct dao_deferred {
    struct dao_deferred *next;
    dao_place_kind_t kind;
    void *address;
    dao_backend_event_t *event; /* recorded behind the last use */
    dao_stream_t *stream;       /* on which it is to be recorded, when the stream's capture has ended, with a
                                   reference; NULL: it is recorded */
    uint64_t
        passed_by; /* the latest dao_runtime_drain_all() that left it, as the stream was being captured; 0: none */
    dao_handle_t *container; /* buried when the block is freed */
} dao_deferred_t;

/* Records an event behind the work on a stream. DAO_ERR_BUSY: the stream is being captured, and the event
   stands for nothing. */
DAO_NODISCARD dao_status_t dao_runtime_record(dao_runtime_t *runtime, dao_backend_event_t *event,
                                              const dao_stream_t *stream);

/* Frees a block once its event has finished; takes over the event and the container, and takes a reference to
   the stream. Never needs memory. */
void dao_runtime_defer(dao_runtime_t *runtime, dao_deferred_t *deferred);

/* Reclaims deferred frees whose events have finished: a bounded number, so that one that hangs holds up
   nobody. */
void dao_runtime_drain_some(dao_runtime_t *runtime);
static inline bool dao_runtime_has_deferred(const dao_runtime_t *runtime)
{
    return __builtin_expect(atomic_load_explicit(&runtime->deferred_count, memory_order_relaxed) > 0, 0);
}
static inline void dao_runtime_drain(dao_runtime_t *runtime)
{
    if (dao_runtime_has_deferred(runtime)) {
        dao_runtime_drain_some(runtime);
    }
}

/* Reclaims all deferred frees, waiting for their events; but for those whose streams are being captured.
   */
void dao_runtime_drain_all(dao_runtime_t *runtime);

/* Reclaims the deferred frees that were made while a stream was being captured, whose work has ended: none
   holds it then. */
void dao_runtime_drain_late(dao_runtime_t *runtime, dao_stream_t *stream);

/* Waits on the host for all frees that wait for a stream: those of a kind of memory that are deferred, and
   those in stream order. Tells whether there were any. */
bool dao_runtime_wait_frees(dao_runtime_t *runtime, dao_place_kind_t kind);

/* Gives the number of deferred frees of a kind of memory. */
uint64_t dao_runtime_deferred_count(dao_runtime_t *runtime, dao_place_kind_t kind);

/* Frees a block that nothing uses. Pinned memory goes through the queue if this thread's current device is
   another one. */
void dao_runtime_block_free(dao_runtime_t *runtime, dao_place_kind_t kind, void *address);

/* Waits for all work on the device. The backend's answer. */
DAO_NODISCARD dao_status_t dao_runtime_synchronize(dao_runtime_t *runtime);

/* Waits for the work on a stream so far. */
DAO_NODISCARD dao_status_t dao_runtime_wait(dao_runtime_t *runtime, dao_backend_stream_t *stream);

/* A reference to a stream for a handle, and its end: stream.c. A device's own streams are not counted. */
void dao_stream_retain(dao_stream_t *stream);
void dao_stream_release(dao_stream_t *stream);

/* dao_stream_release() in two parts: the first waits for nothing and may be called under a lock; true: the
   second has to follow. */
DAO_NODISCARD bool dao_stream_drop(dao_stream_t *stream);
void dao_stream_end(dao_stream_t *stream);

/* Tells whether a stream's work is written down as a part of a graph now, instead of being done. */
bool dao_stream_is_captured(const dao_stream_t *stream);

/* Finds the limit of all host memory: the config's, else DAO_HOST_LIMIT's, else 0: host_limit.c.
   DAO_ERR_INVALID. */
DAO_NODISCARD dao_status_t dao_host_memory_find(const dao_host_memory_config_t *config,
                                                dao_host_memory_config_t *out_settings);
DAO_NODISCARD dao_status_t dao_host_limit_find(const dao_config_t *config, uint64_t *out_bytes);

/* Finds a place's allocator and runtime, borrowed; the runtime is NULL for the host. With `starts` a place
   that was not used yet is started; without, *out_allocator is NULL for it: alloc.c. */
DAO_NODISCARD dao_status_t dao_place_allocator(dao_place_t place, bool starts,
                                               dao_allocator_t **out_allocator, dao_runtime_t **out_runtime);

/* Reclaims the frees of a place that wait, as far as they can be; NULL is allowed: alloc.c. */
void dao_place_drain(dao_place_t place, dao_runtime_t *runtime);

/* Waits for a stream's work, and learns from it what was freed behind that: stream_order.c. The backend's
   answer. */
DAO_NODISCARD dao_status_t dao_stream_order_synchronize(dao_stream_t *stream);

/* Frees a block with its fence, or once that has ended where the block follows no stream: stream_order.c. As
   free of dao_allocator_ops_t; DAO_ERR_REENTRANT if this thread must not wait. */
dao_status_t dao_stream_order_free(dao_runtime_t *runtime, dao_allocator_t *allocator, void *address,
                                   dao_stream_fence_t *fence);

/* Ends what a stream has in its runtime's holds, before it is destroyed: stream_order.c. Waits for the
   stream's work. */
void dao_stream_order_end(dao_stream_t *stream);

/* Gives the error of a free that was refused with `status`, naming the place that the address belongs to, if
   there is one: alloc.c. */
dao_status_t dao_free_error(const char *function, dao_place_t place, const void *address,
                            dao_status_t status);

/* dao_alloc() with a status: alloc.c. *out_runtime is the borrowed runtime, NULL for the host. size_bytes is
   at least 1. */
DAO_NODISCARD dao_status_t dao_place_alloc(dao_place_t place, size_t size_bytes, void **out_address,
                                           dao_runtime_t **out_runtime);

/* Makes a runtime's device memory end its shortest ways with what dao_alloc() and dao_free() do around all
   others: alloc.c. Nobody else knows of the runtime yet. */
void dao_alloc_fallback_set(dao_runtime_t *runtime);

/* Gives a place's allocator, after the frees that wait were reclaimed as far as they can be: alloc.c.
   *out_allocator is NULL for a device that was not used yet. */
DAO_NODISCARD dao_status_t dao_place_peek(dao_place_t place, dao_allocator_t **out_allocator);

/* Prepares an error of a copy: DAO_ERR_DEVICE_LOST stays, all else becomes DAO_ERR_COPY_FAILED with the same
   text. */
dao_status_t dao_copy_error(dao_status_t status, dao_place_t dst_place, dao_place_t src_place,
                            size_t size_bytes);

#endif
