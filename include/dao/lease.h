/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Leases: memory for work that is recorded once and run many times by raw address, such as a captured graph.
 *
 * While a lease lasts, the addresses of what was allocated under it keep their memory, whether freed or not.
 * No other request gets them, and no trim, limit or shortage takes memory from them. What is free under a
 * lease is reused by allocations under the same lease. In short, with no error handled:
 *
 *     dao_lease_begin(place, &lease);      the capture begins: this thread allocates under the lease
 *       ... allocate, record, free ...
 *     dao_lease_commit(lease);             the capture ends
 *       ... run what was recorded; dao_lease_enter() and dao_lease_leave() around more of its allocations ...
 *     dao_lease_release(lease);            the graph is gone: the memory serves any request
 *
 * A lease needs a device place. Its blocks are freed like all others, by any thread, under the lease or not.
 * They stay valid after the lease has ended, until they are freed.
 *
 * With the strategies of whole blocks, and without page mapping, what is free under a lease is only reused by
 * requests that would get just such a block. At hardened places, it is reused by requests of the same size,
 * without junk, and with its guard where it was; the guard is checked when the lease has ended. A new block
 * of a hardened place is filled on a stream of the library's own, for which the call waits.
 */
#ifndef DAO_LEASE_H
#define DAO_LEASE_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/**
 * Most leases of a place at a time. Where pages are mapped and the place is not hardened, an ended lease
 * counts as long as a block that was allocated under it is live.
 */
#define DAO_LEASE_COUNT_MAX 8u

typedef struct dao_lease dao_lease_t;

/**
 * Begins a capture. Until dao_lease_commit() or dao_lease_cancel(), this thread's allocations at `place` come
 * from a new lease: those of dao_alloc(), dao_alloc_with(), dao_alloc_async() and memory handles. What the
 * library allocates for itself does not. A thread may capture at several places at the same time.
 *
 * @param place      A device place; it is started if need be.
 * @param out_lease  The caller owns it, until dao_lease_cancel() or dao_lease_release(). It keeps the device
 *                   alive.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a place that is none; DAO_ERR_NO_DEVICE; DAO_ERR_UNSUPPORTED
 *         for a place that has no leases; DAO_ERR_BUSY if this thread allocates under a lease at this place
 *         already; DAO_ERR_TOO_MANY for more than DAO_LEASE_COUNT_MAX; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_SHUTDOWN; DAO_ERR_REENTRANT; the backend's answer.
 *
 * Threads: any, which is the one that captures. Waits: never. Cost: reserving addresses, unless an ended
 * lease left some.
 */
DAO_API DAO_NODISCARD dao_status_t dao_lease_begin(dao_place_t place, dao_lease_t **out_lease);

/**
 * Ends a capture and keeps the lease. This thread's allocations come from the place again.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL, a lease that has ended (as far as that can be seen: the latest
 *         are remembered), or one that this thread does not capture; DAO_ERR_FORKED; DAO_ERR_REENTRANT.
 *
 * Threads: the one that captures. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_lease_commit(dao_lease_t *lease);

/**
 * Cancels a capture: dao_lease_commit() and dao_lease_release() in one. Works after dao_finalize() too.
 *
 * @return As dao_lease_commit(). The lease is gone on DAO_OK; DAO_ERR_REENTRANT and DAO_ERR_BUSY as
 *         dao_lease_release(): the lease is committed then.
 *
 * Threads: the one that captures. Waits: as dao_lease_release(). Cost: O(retained blocks).
 */
DAO_API dao_status_t dao_lease_cancel(dao_lease_t *lease);

/**
 * Makes this thread allocate under a lease again, as in its capture, until dao_lease_leave(). What is free in
 * the lease is used first. Several threads may do so at the same time. A thread leaves before it ends.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a lease that has ended, as far as that can be seen;
 *         DAO_ERR_BUSY if the lease is being captured, or this thread allocates under a lease at its place
 *         already; DAO_ERR_TOO_MANY for more than DAO_DEVICE_COUNT_MAX leases at a time;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED; DAO_ERR_REENTRANT.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_lease_enter(dao_lease_t *lease);

/**
 * Ends what dao_lease_enter() began.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL, a lease that has ended, or one that this thread has not entered:
 *         a capture ends with dao_lease_commit(); DAO_ERR_FORKED; DAO_ERR_REENTRANT.
 *
 * Threads: the one that entered. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_lease_leave(dao_lease_t *lease);

/**
 * Takes memory of a lease again at the address where it was: what blocks of the lease held that were freed
 * since. So a program that has recorded work, freed its blocks and comes back to them has them live again, by
 * the addresses that it recorded, with the bytes that they have. The block is freed like all others. This
 * thread need not have entered the lease.
 *
 * @param lease       Borrowed.
 * @param address     Where the block begins, as the allocation said it.
 * @param size_bytes  Its bytes, at least 1: as they were, less, or more where what follows is free, too.
 * @return DAO_OK: the block is live, and the tag of this thread is charged; DAO_ERR_INVALID for NULL, 0 bytes
 *         or a lease that has ended; DAO_ERR_FOREIGN_POINTER if the lease has had no memory there;
 *         DAO_ERR_BUSY if a live block has some of it, or a stream that has not come to its free;
 *         DAO_ERR_LIMIT for the limit of the tag; DAO_ERR_UNSUPPORTED at a place that is hardened, of another
 *         strategy, or without page mapping; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED; DAO_ERR_REENTRANT. After
 *         an error nothing has changed.
 *
 * Threads: any. Waits: never. Cost: O(blocks of the lease).
 */
DAO_API DAO_NODISCARD dao_status_t dao_lease_resume(dao_lease_t *lease, void *address, size_t size_bytes);

/**
 * Keeps a block that the recorded work uses but that was allocated elsewhere. When its owner frees it, the
 * free answers DAO_OK and takes effect when the last lease that retains the block ends. Until then the block
 * counts as live, and a second free answers DAO_ERR_DOUBLE_FREE. Retaining a block again under the same lease
 * changes nothing.
 *
 * @param lease    Borrowed.
 * @param address  The start of a live block of the lease's place.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a lease that has ended; DAO_ERR_FOREIGN_POINTER;
 *         DAO_ERR_INTERIOR_POINTER; DAO_ERR_DOUBLE_FREE if its owner has freed it; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_FORKED; DAO_ERR_REENTRANT.
 *
 * Threads: any. Waits: never. Cost: O(retained blocks); while there are any, frees at that device take
 * longer.
 */
DAO_API DAO_NODISCARD dao_status_t dao_lease_retain(dao_lease_t *lease, void *address);

/**
 * Ends a lease. Memory that is free in it serves any request. Its live blocks stay valid until they are
 * freed. Retained blocks that their owners have freed are freed now. Works after dao_finalize() too.
 *
 * @return DAO_OK: the lease is gone; DAO_ERR_INVALID for NULL or one that has ended, as far as that can be
 *         seen; DAO_ERR_BUSY if it is being captured or a thread has entered it, or if a retained block was
 *         freed on a stream that is being captured and would have to be waited for: the lease stays;
 *         DAO_ERR_FORKED; DAO_ERR_REENTRANT from inside of a segment callback, or where it would have to wait
 *         inside of a host function: the lease stays, to be released elsewhere.
 *
 * Threads: any, once. Waits: for streams behind which small retained blocks of dao_alloc() were freed; at a
 * hardened place also for the device, to check the blocks that were freed under the lease. Cost: O(retained
 * blocks); at hardened places and with strategies of whole blocks also O(blocks that wait).
 */
DAO_API dao_status_t dao_lease_release(dao_lease_t *lease);

/** What a lease holds. */
typedef struct dao_lease_stats {
    uint64_t held_bytes;     /**< memory that the lease keeps, whole pages or blocks */
    uint64_t used_bytes;     /**< of that, live blocks, roundings included */
    uint64_t live_count;     /**< live blocks */
    uint64_t retained_bytes; /**< blocks from elsewhere that it retains, roundings included */
    uint64_t retained_count; /**< their number */
} dao_lease_stats_t;

/**
 * Reads what a lease holds. The place's own statistics include all of it.
 *
 * @param lease      Borrowed.
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a lease that has ended, as far as that can be seen;
 *         DAO_ERR_FORKED; DAO_ERR_REENTRANT.
 *
 * Threads: any. Waits: never. Cost: O(1); at hardened places, with strategies of whole blocks and without
 * page mapping O(blocks of leases).
 */
DAO_API DAO_NODISCARD dao_status_t dao_lease_stats_get(dao_lease_t *lease, dao_lease_stats_t *out_stats);

DAO_END_DECLS

#endif
