/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams may still use a piece of free memory, and until when. A fence is a value that free blocks
   carry: small, copied when a block is cut, joined when two are merged, and it never needs memory. The table
   behind it knows each stream's events and what is known to have finished.

   A device has one table; its streams are numbered from 1 on, and each number has a line. Every free in
   stream order has an epoch, a number that only grows: the one that is open then. An event that was recorded
   on a stream and has closed epoch e stands for all frees on that stream up to e. */
#ifndef DAO_ALLOCATORS_STREAM_FENCE_H
#define DAO_ALLOCATORS_STREAM_FENCE_H

#include "backends/backend.h"

#include <stdatomic.h>

/* Lines of a fence: bit n of its streams is line n. All but the last are one stream's each. */
#define DAO_STREAM_FENCE_STREAM_MAX 63u

/* The last line is that of the crowd: of all streams that found no line of their own (stream_crowd.h). What
   one of them freed is behind the work of each that freed before, and none has a free block in its own order
   alone: it waits for the line, too. Their numbers are above this one. */
#define DAO_STREAM_FENCE_CROWD DAO_STREAM_FENCE_STREAM_MAX

/* Events that are kept of a stream. A free whose event was given up for later ones is waited for by the
   oldest that is left: that waits for more than is needed, never for less. */
#define DAO_STREAM_FENCE_EVENT_MAX 32u

/* A stream that has freed so often while no other stream freed or waited is alone: its frees are recorded no
   longer. */
#define DAO_STREAM_FENCE_ALONE_COUNT 1024u

/* All zero: nobody. */
typedef struct dao_stream_fence {
    uint64_t streams; /* bit n: stream n may use it */
    uint64_t epoch;   /* up to the event that stands for this epoch */
} dao_stream_fence_t;

static inline bool dao_stream_fence_is_empty(const dao_stream_fence_t *fence)
{
    return fence->streams == 0;
}

/* Returns the line of a stream's number: what allocators know of it. */
static inline uint32_t dao_stream_fence_line(uint32_t stream)
{
    return stream < DAO_STREAM_FENCE_CROWD ? stream : DAO_STREAM_FENCE_CROWD;
}

/* Returns true if only the line `stream` may use it. */
static inline bool dao_stream_fence_is_own(const dao_stream_fence_t *fence, uint32_t stream)
{
    return stream != 0 && (fence->streams & ~(UINT64_C(1) << stream)) == 0;
}

/* Returns true if the stream of a number need not wait for it: it follows in the stream's own order. */
static inline bool dao_stream_fence_follows(const dao_stream_fence_t *fence, uint32_t stream)
{
    return dao_stream_fence_is_empty(fence) ||
           (stream < DAO_STREAM_FENCE_CROWD && dao_stream_fence_is_own(fence, stream));
}

/* Adds what another fence waits for. */
static inline void dao_stream_fence_join(dao_stream_fence_t *fence, const dao_stream_fence_t *other)
{
    fence->streams |= other->streams;
    fence->epoch = other->epoch > fence->epoch ? other->epoch : fence->epoch;
}

/* Returns true if an answer of dao_stream_fences_wait() means that not all of the fence was waited for: this
   thread must not wait, or a stream is being captured into a graph, which waiting would end. */
static inline bool dao_stream_fence_must_wait_elsewhere(dao_status_t status)
{
    return status == DAO_ERR_REENTRANT || status == DAO_ERR_BUSY;
}

/* Returns true if a backend's answer about an event means that the work before it has ended. */
static inline bool dao_stream_fence_means_ended(dao_status_t status)
{
    return status != DAO_ERR_NOT_READY && !dao_stream_fence_must_wait_elsewhere(status);
}

/* Lines; 0 is nobody's. */
#define DAO_STREAM_FENCE_NUMBER_COUNT (DAO_STREAM_FENCE_STREAM_MAX + 1)

/* How a table begins: what every free looks at. */
typedef struct dao_stream_fences_now {
    _Atomic uint64_t epoch;          /* the open one: that of frees now */
    _Atomic uint64_t recorded_until; /* frees up to this epoch get events */
    _Atomic uint32_t latest_stream;  /* the one that freed or waited last; 0: none yet */
    _Atomic uint64_t freed_epochs[DAO_STREAM_FENCE_NUMBER_COUNT]; /* of each stream's last free */
} dao_stream_fences_now_t;

typedef struct dao_stream_fences dao_stream_fences_t;

/* The device is borrowed. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_stream_fences_create(const dao_backend_ops_t *ops,
                                                    dao_backend_device_t *device,
                                                    dao_stream_fences_t **out_fences);
void dao_stream_fences_destroy(dao_stream_fences_t *fences); /* NULL is allowed; nobody waits any more */

/* Returns a stream a number: one that nobody has, perhaps one that somebody had. It is one above
   DAO_STREAM_FENCE_CROWD where no line is free. The stream is borrowed until it is removed.
   DAO_ERR_TOO_MANY without a message: no line is free, and the backend's own streams wait on the host, so
   that there is no crowd. DAO_ERR_NO_HOST_MEMORY; the backend's answer for the crowd's stream. Threads:
   any. */
DAO_NODISCARD dao_status_t dao_stream_fences_stream_add(dao_stream_fences_t *fences,
                                                        dao_backend_stream_t *stream, uint32_t *out_stream);

/* Ends a number; the stream's work has finished, and nobody frees on it any more. Fences that name it are
   done as far as it goes. Threads: any. */
void dao_stream_fences_stream_remove(dao_stream_fences_t *fences, uint32_t stream);

/* Says that blocks which others free may be in use on `stream`, too: to be called before the first of them is
   marked with it (dao_allocator_ops_t.stream_mark). Threads: any. Lock-free. */
void dao_stream_fences_share(dao_stream_fences_t *fences, uint32_t stream);

/* Returns the fence of a block that is freed now, on `stream`. The block's work on it is queued. Threads:
   any. Lock-free but for the crowd's streams, makes no backend call. */
dao_stream_fence_t dao_stream_fences_mark(dao_stream_fences_t *fences, uint32_t stream);

/* Records events behind a fence that has just been attached to a free block, on those of its streams for
   which waiting for a later event would wait for too much: not on a stream that is alone. Called without a
   lock. An error is kept back: whoever waits records again. */
void dao_stream_fences_record(dao_stream_fences_t *fences, const dao_stream_fence_t *fence);

/* Records an event behind a free of a stream, which has a line of its own, that has just been noted at an
   epoch. */
void dao_stream_fences_record_one(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch);

/* Notes a free of a stream, which has a line of its own, at an epoch. */
void dao_stream_fences_note_own(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch);

/* As dao_stream_fences_mark(), of a block that no other stream was marked on: its fence's epoch. Called with
   the allocator's lock, so that what it frees is of growing epochs. */
static inline uint64_t dao_stream_fences_mark_own(dao_stream_fences_t *fences, uint32_t stream)
{
    const dao_stream_fences_now_t *now = (const dao_stream_fences_now_t *)(const void *)fences;
    uint64_t epoch = atomic_load(&now->epoch);
    bool is_noted = atomic_load(&now->freed_epochs[stream]) >= epoch &&
                    atomic_load_explicit(&now->latest_stream, memory_order_relaxed) == stream;
    if (!__builtin_expect(is_noted, true)) {
        dao_stream_fences_note_own(fences, stream, epoch);
    }
    return epoch;
}

/* dao_stream_fences_record() for such a block. */
static inline void dao_stream_fences_record_own(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch)
{
    const dao_stream_fences_now_t *now = (const dao_stream_fences_now_t *)(const void *)fences;
    if (epoch <= atomic_load_explicit(&now->recorded_until, memory_order_relaxed)) {
        dao_stream_fences_record_one(fences, stream, epoch);
    }
}

/* Returns true if all that a fence stands for is known to have finished. Threads: any. Loads only. */
bool dao_stream_fences_is_done(const dao_stream_fences_t *fences, const dao_stream_fence_t *fence);

/* Returns up to which epoch fences of a stream are known to have finished; UINT64_MAX: all of its frees so
   far. For fences that have been attached before, under a lock that the caller holds. `fences` is a
   dao_stream_fences_t. Threads: any. Loads only. */
uint64_t dao_stream_fences_done_epoch(uint32_t stream, void *fences);

/* Asks the device's events, a bounded number a stream, what has finished; a stream whose last frees have no
   event gets one, but for one that is gone, which is left to whoever waits. True if anything is newly known.
   An event that answers an error has finished: the error is for whoever synchronizes. Leaves the thread's
   last error as it is. Does not wait. May be called under an allocator's lock. */
bool dao_stream_fences_poll(dao_stream_fences_t *fences);

/* Closes the open epoch, and returns it: frees so far have at most this one, later ones another. Threads:
   any. Lock-free. */
uint64_t dao_stream_fences_close(dao_stream_fences_t *fences);

/* Says that the host has waited for the work of a stream (0: of all streams), and closed that epoch before.
   What is known so needs no event. Threads: any. */
void dao_stream_fences_finished(dao_stream_fences_t *fences, uint32_t stream, uint64_t epoch);

/* Returns the fence of all that was freed and is not known to have finished. Threads: any. Loads only. */
dao_stream_fence_t dao_stream_fences_pending(const dao_stream_fences_t *fences);

/* Makes `stream` wait, on the device, for a fence. The host waits instead if a stream of the fence is gone
   without an event, and if `stream` is being captured into a graph, and the fence is of others than the
   streams of that capture: what waits for a graph's first run would not wait for its second. Called without a
   lock. The backend's answer: after an error the stream may wait for a part of it. DAO_ERR_BUSY: a stream of
   the fence is being captured, and the waiting one is no part of that. */
DAO_NODISCARD dao_status_t dao_stream_fences_wait_on(dao_stream_fences_t *fences,
                                                     const dao_stream_fence_t *fence, uint32_t stream);

/* Waits on the host for a fence. Called without a lock. The first answer that
   dao_stream_fence_must_wait_elsewhere() knows, else the backend's first error: the work has ended then, too,
   and the fence is done. */
dao_status_t dao_stream_fences_wait(dao_stream_fences_t *fences, const dao_stream_fence_t *fence);

/* Counts the streams that have a number, and the lines whose last frees are not known to have finished.
   Threads: any. Loads only. */
void dao_stream_fences_count(const dao_stream_fences_t *fences, uint64_t *out_stream_count,
                             uint64_t *out_pending_count);

bool dao_stream_fences_is_valid(dao_stream_fences_t *fences);

#endif
