/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Memory in stream order: blocks are allocated and freed at points in a stream's work, without waiting on the
 * host.
 *
 * The stream that freed a block may reuse it at once, in its own order. Another stream may get it too. It
 * then waits, on the device, for the work before the free, and for nothing later. A plain
 * dao_alloc() only gets memory that no stream uses any more. It waits for streams only where it would fail
 * otherwise.
 *
 * Two kinds of places do less:
 *
 * With the strategies of whole blocks (binary_buddy, size_class, system), a freed block serves at once a
 * request of its stream that would get just such a block. Other streams get it at once only where nothing
 * else is free. All other requests get it when its streams have passed.
 *
 * At a hardened place, a freed block is not reused until its streams have passed. Its guard is checked and
 * its bytes are filled then. Damage is logged, and dao_hardening_check() reports it.
 *
 * Both calls work on a stream that is being captured into a graph. A block freed there is reused in that
 * capture, in the stream's order, and by others when the capture has ended. The capture may get blocks that
 * its streams freed before it began. So launch the graph behind the earlier work of these streams: on one of
 * them, or on one that waits for them. What a graph uses at every launch belongs under a lease (dao/lease.h),
 * which keeps it for the graph.
 */
#ifndef DAO_ASYNC_H
#define DAO_ASYNC_H

#include <dao/place.h>
#include <dao/stream.h>

DAO_BEGIN_DECLS

/**
 * Allocates memory for work that is queued on a stream from now on. Another stream may use the block behind
 * an event. Name it with dao_record_stream() then, unless `stream` waits for it before the block is freed. In
 * C, all three functions take a place of any type.
 *
 * @param place       A device, or pinned memory of a device.
 * @param size_bytes  0 returns NULL and is no error.
 * @param stream      Borrowed, on the place's device; NULL is the device's compute stream.
 * @return The caller owns it until dao_free_async() or dao_free(). NULL with dao_last_status(): as
 *         dao_alloc(); besides, DAO_ERR_INVALID for a stream of another device, or of a start of the library
 *         that dao_finalize() has ended; DAO_ERR_UNSUPPORTED for host memory; DAO_ERR_TOO_MANY if 62 streams
 *         of a place of dao_place_register() that is on no device are used in this way: destroy one, or use
 *         dao_alloc(); DAO_ERR_BACKEND if the stream could not be made to wait.
 *
 * Any number of a device's streams may be used in this way. The first 62 wait only for those that freed the
 * block they get. Streams beyond these share one record: each waits for everything that any of them has freed
 * so far, as soon as it gets a block that one of them freed. While one of them is being captured, nobody gets
 * what they have freed since. A stream that is destroyed makes room for a new one among the 62.
 *
 * Threads: any. Waits: only for the device, when memory is short; on a stream that is being captured, for the
 * streams that still use the block it gets. Cost: as dao_alloc(), and a backend call or two if another stream
 * freed the block; beyond 62 streams two more for each of these that has freed since.
 */
DAO_API DAO_NODISCARD void *dao_alloc_async(dao_place_t place, size_t size_bytes, dao_stream_t *stream);

/**
 * Frees a block behind the work that is queued on a stream so far, and behind that of all streams that
 * dao_record_stream() has named for it. It takes blocks of dao_alloc_async() and dao_alloc() alike.
 *
 * dao_free() takes blocks of dao_alloc_async() too. It asserts that nothing uses the block, and that all
 * earlier work of its stream is done, as after dao_stream_synchronize(). For a block that was never used,
 * call dao_free_async().
 *
 * @param place    The place it was allocated at.
 * @param address  NULL is allowed and does nothing.
 * @param stream   Borrowed, on the place's device; the stream that uses it last. NULL is the device's compute
 *                 stream.
 * @return DAO_OK; the errors of dao_free(): nothing was changed; DAO_ERR_INVALID, DAO_ERR_UNSUPPORTED,
 *         DAO_ERR_TOO_MANY as for dao_alloc_async(); DAO_ERR_BUSY where it would have to wait, see below, for
 *         a stream that is being captured.
 *
 * Threads: any. Waits: as dao_free(). It also waits for the stream's work so far where a block can carry no
 * stream fence. That is a small block of dao_alloc() on a device or in pinned memory: at most the place's
 * `small_bytes`, 4 KiB by default. If host memory has run out, it is also a block of a hardened place or of a
 * strategy of whole blocks. Cost: O(1), and one backend call while several streams of the device free in
 * turns, beyond 62 of them three.
 */
DAO_API dao_status_t dao_free_async(dao_place_t place, void *address, dao_stream_t *stream);

/**
 * Says that work on one more stream uses a block of dao_alloc_async() or of a memory handle. Its
 * dao_free_async(), or the handle's last release, then fences the block behind that stream too: behind the
 * work that is queued on it by the time of the free.
 *
 * @param place    The place it was allocated at.
 * @param address  The start of a live block.
 * @param stream   Borrowed, on the place's device; NULL is the device's compute stream.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER; DAO_ERR_INTERIOR_POINTER; DAO_ERR_UNSUPPORTED also for a block of
 *         dao_alloc(); DAO_ERR_INVALID, DAO_ERR_TOO_MANY as for dao_alloc_async(); DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_record_stream(dao_place_t place, void *address, dao_stream_t *stream);

DAO_END_DECLS

#endif
