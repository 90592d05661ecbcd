/* SPDX-License-Identifier: Apache-2.0 */
/* The record of one device: its allocators, its streams, its spare events, its health. start/device_start.c
   makes it, and says in `end` what its last reference has to undo. */
#ifndef DAO_RUNTIME_DEVICE_RUNTIME_H
#define DAO_RUNTIME_DEVICE_RUNTIME_H

#include "allocators/allocator.h"
#include "allocators/stream_fence.h"
#include "backends/backend.h"
#include "base/report/error.h"
#include "base/threads/sync.h"
#include "runtime/core/core.h"
#include "runtime/device/adopted.h"
#include "runtime/device/retained.h"
#include "runtime/device/shares.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

struct dao_stream {
    dao_runtime_t *runtime; /* a reference of its own, but for the runtime's own streams */
    dao_backend_stream_t *backend;
    _Atomic uint32_t reference_count; /* the creator, and every memory handle that names it */
    bool is_builtin;                  /* the runtime has made it: it lives and dies with that */
    _Atomic uint32_t number;          /* in the table of stream fences; 0: it has none yet */
    /* The same for the fast path; 0: also if the handle is another's, or device memory has no such path. */
    _Atomic uint32_t fast_number;
    uint32_t
        late_count; /* deferred frees that name it, with a reference; guarded by runtime->deferred.lock */
    dao_adopted_stream_t adopted; /* of one that the program has made or adopted */
};

/* Events kept for reuse. Invariant, while the lock is free: events[0 .. count) are in no other use. */
#define DAO_SPARE_EVENT_COUNT 64

typedef struct dao_spare_events {
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_backend_event_t *events[DAO_SPARE_EVENT_COUNT];
    uint32_t count;
} dao_spare_events_t;

/* Blocks whose handles are gone while a stream may still use them: deferred_free.c. */
typedef struct dao_deferred_list {
    _Atomic uint64_t count;        /* on the list, and taken off it by threads that drain */
    _Atomic uint64_t pinned_count; /* of these, those of pinned memory */
    dao_mutex_t lock;
    /* guarded by the lock */
    struct dao_deferred_free *first;
    struct dao_deferred_free *last;
    uint64_t pass; /* the latest dao_runtime_drain_all(), from 1 */
} dao_deferred_list_t;

/* One device: its allocators and its streams. Counted: the context and every handle hold a reference. */
struct dao_runtime {
    const dao_backend_ops_t *ops;
    dao_backend_device_t *device;
    /* Where memory comes from; the same two, but for a program's own memory on a device. */
    const dao_backend_ops_t *memory_ops;
    dao_backend_device_t *memory_device;
    dao_runtime_t *lender; /* whose device, streams and fences these are, with a reference; NULL: its own */
    int32_t device_index;
    _Atomic uint64_t shown_place; /* dao_place_word() of its place while dao_started has it, else of none */
    dao_device_info_t info;       /* as of the start; free_bytes is not kept up */
    dao_stream_fences_t *fences; /* streams that allocate and free in stream order; outlives the allocators */
    dao_allocator_t *device_memory;
    dao_allocator_t *pinned_memory;
    dao_backend_stream_t *bytes_stream; /* by which a hardened place reaches its bytes; else NULL */
    dao_stream_t streams[DAO_STREAM_ROLE_COUNT];
    dao_core_t *core; /* a reference of its own */
    _Atomic uint32_t reference_count;
    void (*end)(dao_runtime_t *runtime); /* called by the last dao_runtime_release() */
    struct dao_device_start *start;      /* what start/device_start.c keeps for the end */
    dao_spare_events_t spare;
    dao_deferred_list_t deferred;
    dao_retained_t retained;  /* device memory whose frees wait for a lease */
    dao_shares_t shares;      /* device memory that other processes have, too */
    dao_adopted_t adopted;    /* streams that others made */
    dao_natives_t natives;    /* of these, those that calls by native handle have named */
    _Atomic uint64_t reached; /* devices whose memory this one may reach, a bit each: handles/peer.c */
    _Atomic int loss;         /* of dao_loss_t: health.c */
    dao_error_record_t loss_error;
};

/* ---- references: runtime.c ---- */

dao_runtime_t *dao_runtime_retain(dao_runtime_t *runtime); /* returns its argument */
void dao_runtime_release(dao_runtime_t *runtime);          /* the last one calls runtime->end */

/* Returns the allocator of a pinned or device place of this runtime. */
dao_allocator_t *dao_runtime_allocator(dao_runtime_t *runtime, dao_place_kind_t kind);

/* Returns a place as one number, so that comparing two takes one instruction. */
static inline uint64_t dao_place_word(dao_place_t place)
{
    uint64_t word;
    static_assert(sizeof(word) == sizeof(place), "a place fits a word");
    memcpy(&word, &place, sizeof(word));
    return word;
}

/* The word of no place; a program may ask for it all the same. */
#define DAO_PLACE_WORD_NONE UINT64_MAX

/* Returns true if a runtime, which the caller has a reference to, is what dao_started has for a device
   place. */
static inline bool dao_runtime_is_shown_at(const dao_runtime_t *runtime, dao_place_t place)
{
    uint64_t shown = atomic_load_explicit(&runtime->shown_place, memory_order_relaxed);
    return shown == dao_place_word(place) && shown != DAO_PLACE_WORD_NONE;
}

/* Returns true if a stream orders the blocks of a runtime's places: it is that runtime's, or its lender's. */
static inline bool dao_runtime_follows(const dao_runtime_t *runtime, const dao_stream_t *stream)
{
    return stream->runtime == runtime || stream->runtime->fences == runtime->fences;
}

/* ---- events and waits: runtime.c ---- */

/* Events of the runtime, kept for reuse. */
DAO_NODISCARD dao_status_t dao_runtime_event_take(dao_runtime_t *runtime, dao_backend_event_t **out_event);
void dao_runtime_event_give(dao_runtime_t *runtime, dao_backend_event_t *event); /* NULL is allowed */

/* Waits for all work on the device. The backend's answer. */
DAO_NODISCARD dao_status_t dao_runtime_synchronize(dao_runtime_t *runtime);

/* Waits for the work on a stream so far. */
DAO_NODISCARD dao_status_t dao_runtime_wait(dao_runtime_t *runtime, dao_backend_stream_t *stream);

/* ---- streams: stream_record.c ---- */

/* A reference to a stream for a handle, and its end. A device's own streams are not counted. */
void dao_stream_retain(dao_stream_t *stream);
void dao_stream_release(dao_stream_t *stream);

/* dao_stream_release() in two parts: the first waits for nothing and may be called under a lock; true: the
   second has to follow. It waits for the stream's work, unless the caller says that there is none: then it
   asks the backend nothing about an adopted stream, whose handle may be dead. */
DAO_NODISCARD bool dao_stream_drop(dao_stream_t *stream);
void dao_stream_end(dao_stream_t *stream, bool is_idle);

/* DAO_ERR_INVALID for an adopted stream that its maker has destroyed, as far as that is known. */
DAO_NODISCARD dao_status_t dao_stream_alive_check(const dao_stream_t *stream, const char *function);

/* Asks whether work can be queued on a stream of the program's, whose owner may have destroyed or captured it
   by now. DAO_ERR_INVALID: it is gone, as far as that can be seen; DAO_ERR_BUSY: it is being captured. */
DAO_NODISCARD dao_status_t dao_stream_takes_work(const dao_stream_t *stream);

/* Returns true if a stream's work is written down as a part of a graph now, instead of being done. */
bool dao_stream_is_captured(const dao_stream_t *stream);

/* Records an event behind the work on a stream. DAO_ERR_BUSY: the stream is being captured, and the event
   stands for nothing. */
DAO_NODISCARD dao_status_t dao_runtime_record(dao_runtime_t *runtime, dao_backend_event_t *event,
                                              const dao_stream_t *stream);

/* Finds a stream's number in the table of stream fences; the first call gives it one. The errors of
   dao_stream_fences_stream_add(). */
DAO_NODISCARD dao_status_t dao_stream_number_find(dao_stream_t *stream, uint32_t *out_number);

/* Waits for a stream's work, and learns from it what was freed behind that. The backend's answer. */
DAO_NODISCARD dao_status_t dao_stream_wait(dao_stream_t *stream);

/* ---- health: health.c ---- */

/* What is known of a device's health. */
typedef enum dao_loss {
    DAO_LOSS_NONE = 0,
    DAO_LOSS_NOTED = 1, /* loss_error is being written */
    DAO_LOSS_TOLD = 2,  /* loss_error says why, and does not change any more */
} dao_loss_t;

/* Notes that a device is lost, for good: this thread's last error is its answer. Takes no lock. */
void dao_runtime_lose(dao_runtime_t *runtime);

/* Hands on what a call on a device answered, and learns from it. */
static inline dao_status_t dao_runtime_told(dao_runtime_t *runtime, dao_status_t status)
{
    if (__builtin_expect(status == DAO_ERR_DEVICE_LOST, 0)) {
        dao_runtime_lose(runtime);
    }
    return status;
}

/* As dao_runtime_told(), of a call on `runtime` that touches the memory of `other` too: each is asked whether
   it is lost. */
dao_status_t dao_runtime_told_of_two(dao_runtime_t *runtime, dao_runtime_t *other, dao_status_t status);

static inline bool dao_runtime_is_lost(const dao_runtime_t *runtime)
{
    return __builtin_expect(atomic_load_explicit(&runtime->loss, memory_order_acquire) == DAO_LOSS_TOLD, 0);
}

/* DAO_ERR_DEVICE_LOST, saying why, if the device is lost. */
DAO_NODISCARD dao_status_t dao_runtime_health(const dao_runtime_t *runtime, const char *function);

#endif
