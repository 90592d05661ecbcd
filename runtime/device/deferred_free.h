/* SPDX-License-Identifier: Apache-2.0 */
/* Frees that wait for a stream, and their end. */
#ifndef DAO_RUNTIME_DEFERRED_FREE_H
#define DAO_RUNTIME_DEFERRED_FREE_H

#include "runtime/core/handle.h"
#include "runtime/device/runtime.h"

/* A block whose handle is gone while its stream may still use it. A part of that handle. */
typedef struct dao_deferred_free {
    struct dao_deferred_free *next;
    dao_place_kind_t kind;
    void *address;
    dao_backend_event_t *event; /* for behind the last use; NULL: none could be had yet */
    dao_stream_t *stream;       /* on which it is to be recorded, with a reference; NULL: it is recorded */
    uint64_t passed_by;         /* the latest dao_runtime_drain_all() that left it, as the stream was being
                                   captured; 0: none */
    dao_handle_t *container;    /* buried when the block is freed */
} dao_deferred_free_t;

void dao_deferred_list_init(dao_deferred_list_t *list);
void dao_deferred_list_finish(dao_deferred_list_t *list); /* nothing waits any more */

/* Frees a block once the work on its stream so far has finished; takes over the container, and takes a
   reference to the stream. `event` is NULL. Never fails: what it has no memory for is done later. */
void dao_runtime_defer(dao_runtime_t *runtime, dao_deferred_free_t *deferred);

/* Reclaims deferred frees whose events have finished. Looks at a bounded number of them, so that one caller
   does not pay for all. */
void dao_runtime_drain_some(dao_runtime_t *runtime);
static inline bool dao_runtime_has_deferred(const dao_runtime_t *runtime)
{
    return __builtin_expect(atomic_load_explicit(&runtime->deferred.count, memory_order_relaxed) > 0, 0);
}
static inline void dao_runtime_drain(dao_runtime_t *runtime)
{
    if (dao_runtime_has_deferred(runtime)) {
        dao_runtime_drain_some(runtime);
    }
}

/* Reclaims the frees of a place that wait, as far as they can be; NULL, the host's runtime, is allowed. */
void dao_place_drain(dao_place_t place, dao_runtime_t *runtime);

/* Reclaims all deferred frees, waiting for their events; but for those whose streams are being captured. */
void dao_runtime_drain_all(dao_runtime_t *runtime);

/* Reclaims the deferred frees that were made while a stream was being captured, whose work has ended: none
   names it then. */
void dao_runtime_drain_late(dao_runtime_t *runtime, dao_stream_t *stream);

/* Reclaims what is left when the runtime has no reference any more: frees on the device's own streams, while
   these are being captured. */
void dao_runtime_drain_rest(dao_runtime_t *runtime);

/* Waits on the host for all frees that wait for a stream: those of a kind of memory that are deferred, and
   those in stream order. Returns true if there were any. */
bool dao_runtime_wait_frees(dao_runtime_t *runtime, dao_place_kind_t kind);

/* Returns the number of deferred frees of a kind of memory. */
uint64_t dao_runtime_deferred_count(dao_runtime_t *runtime, dao_place_kind_t kind);

/* Frees a block that nothing uses. Pinned memory goes through the queue if this thread's current device is
   another one. */
void dao_runtime_block_free(dao_runtime_t *runtime, dao_place_kind_t kind, void *address);

#endif
