/* Which streams may still use a piece of free memory, and until when. A hold is a value that free blocks carry: small,
   copied when a block is cut, joined when two are merged, and it never needs memory. The table behind it knows each
   stream's events and what is known to have finished.

   A device has one table; its streams are numbered 1 .. DAO_HOLD_STREAM_MAX. Every free in stream order draws an epoch, a
   number that only grows. An event that was recorded on a stream at epoch e stands for all frees on that stream up to e. */
#ifndef DAO_ALLOCATORS_HOLDS_H
#define DAO_ALLOCATORS_HOLDS_H

#include "backends/backend.h"

/* Streams of one device that free in stream order, at the same time. */
#define DAO_HOLD_STREAM_MAX 63u

/* All zero: nobody. */
typedef struct dao_hold {
    uint64_t streams; /* bit n: stream n may use it */
    uint64_t epoch;   /* up to the event that stands for this epoch */
} dao_hold_t;

static inline bool dao_hold_is_empty(const dao_hold_t *hold)
{
    return hold->streams == 0;
}

/* Tells whether only `stream` may use it, so that it follows in the stream's own order. */
static inline bool dao_hold_is_own(const dao_hold_t *hold, uint32_t stream)
{
    return stream != 0 && (hold->streams & ~(UINT64_C(1) << stream)) == 0;
}

/* Adds what another hold waits for. */
static inline void dao_hold_join(dao_hold_t *hold, const dao_hold_t *other)
{
    hold->streams |= other->streams;
    hold->epoch = other->epoch > hold->epoch ? other->epoch : hold->epoch;
}

typedef struct dao_holds dao_holds_t;

/* The device is borrowed. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_holds_create(const dao_backend_ops_t *ops, dao_backend_device_t *device,
                                            dao_holds_t **out_fences);
void dao_holds_destroy(dao_holds_t *holds); /* NULL is allowed */

/* Gives a stream a number. DAO_ERR_LIMIT: DAO_HOLD_STREAM_MAX streams have one; DAO_ERR_BACKEND. */
DAO_NODISCARD dao_status_t dao_holds_stream_add(dao_holds_t *holds, dao_backend_stream_t *stream,
                                                uint32_t *out_stream);

/* Ends a number; the stream's work has finished. */
void dao_holds_stream_remove(dao_holds_t *holds, uint32_t stream);

/* Gives the hold of a block that is freed now, on `stream`. Threads: any. Lock-free, makes no backend call. */
dao_hold_t dao_holds_mark(dao_holds_t *holds, uint32_t stream);

/* Records events behind a hold that has just been attached to a free block, on those of its streams for which waiting for
   a later event would wait for too much. Called without a lock. An error is kept back: whoever waits records again. */
void dao_holds_record(dao_holds_t *holds, const dao_hold_t *hold);

/* Tells whether all that a hold stands for is known to have finished. Threads: any. Loads only. */
bool dao_holds_is_done(const dao_holds_t *holds, const dao_hold_t *hold);

/* Asks the devices' events, a bounded number a stream, what has finished. True if anything is newly known. Does not wait.
   May be called under an allocator's lock. */
bool dao_holds_poll(dao_holds_t *holds);

/* Makes `stream` wait, on the device, for a hold. Called without a lock. The backend's answer. */
DAO_NODISCARD dao_status_t dao_holds_wait_on(dao_holds_t *holds, const dao_hold_t *hold, uint32_t stream);

/* Waits on the host for a hold. Called without a lock. The backend's answer. */
DAO_NODISCARD dao_status_t dao_holds_wait(dao_holds_t *holds, const dao_hold_t *hold);

bool dao_holds_is_valid(dao_holds_t *holds);

#endif
