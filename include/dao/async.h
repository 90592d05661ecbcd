/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Memory in stream order: blocks that are allocated and freed at points in a stream's work, without
 * waiting on the host.
 *
 * A block freed on a stream is at once used again by that stream, in its own order. Another stream may get
 * it, too: it then waits, on the device, for the work before the free, and for nothing that came after.
 * dao_alloc() gets only memory that no stream uses any more, and waits for streams only before it would fail.
 *
 * Two kinds of places do less. With the strategies of whole blocks (binary_buddy, size_class, system) a freed
 * block goes at once to a request of its stream that would get just such a block, to another stream's where
 * there is nothing else, and to all others when its streams have passed. At a hardened place it goes to
 * nobody before that: then its guard is looked at and its bytes are filled, and what is found damaged is
 * logged and told by dao_hardening_check().
 *
 * On a stream that is being captured into a graph both can be called, and the capture goes on: a block that
 * is freed there is used again in that capture, in the stream's order, and by others when it has ended. What
 * a graph uses whenever it runs belongs under a lease (dao/lease.h), which keeps it for the graph. The
 * capture may get what its streams freed before it began: the program launches the graph behind the work that
 * they were given before, on one of them or on one that waits for them.
 */
#ifndef DAO_ASYNC_H
#define DAO_ASYNC_H

#include <dao/place.h>
#include <dao/stream.h>

DAO_BEGIN_DECLS

/**
 * Allocates memory for work that is queued on a stream from now on. Another stream may use it behind an
 * event, and is to be named by dao_record_stream() then, unless `stream` waits for it before the block is
 * freed. In C, all three functions take a place of any type.
 *
 * @param place       A device, or pinned memory of a device.
 * @param size_bytes  0 returns NULL and is no error.
 * @param stream      Borrowed, on the place's device; NULL is the device's compute stream.
 * @return The caller owns it until dao_free_async() or dao_free(). NULL with dao_last_status(): as
 *         dao_alloc(), and DAO_ERR_INVALID for a stream of another device or of a start of the library that
 *         dao_finalize() has ended; DAO_ERR_UNSUPPORTED for host memory; DAO_ERR_TOO_MANY if 63 streams of
 *         the device have been used so: destroy one, or use dao_alloc(); DAO_ERR_BACKEND if the stream could
 *         not be made to wait.
 *
 * Threads: any. Waits: only for the device, when memory is short, and on a stream that is being captured, for
 * the streams that hold the block it gets. Cost: as dao_alloc(); a backend call or two if the block was freed
 * on another stream.
 */
DAO_API DAO_NODISCARD void *dao_alloc_async(dao_place_t place, size_t size_bytes, dao_stream_t *stream);

/**
 * Frees a block behind the work that is queued on a stream so far, and behind that of all streams that
 * dao_record_stream() has named for it. It takes blocks of dao_alloc_async() and dao_alloc() alike.
 *
 * dao_free() takes blocks of dao_alloc_async(), too. It says that nothing uses them, and that all their
 * stream was asked to do before is done, as after dao_stream_synchronize(): a block that was given up unused
 * is one for dao_free_async().
 *
 * @param place    The place it was allocated at.
 * @param address  NULL is allowed and does nothing.
 * @param stream   Borrowed, on the place's device; the one that uses it last. NULL is the device's compute
 *                 stream.
 * @return DAO_OK; the errors of dao_free(): nothing was changed; DAO_ERR_INVALID, DAO_ERR_UNSUPPORTED,
 *         DAO_ERR_TOO_MANY as for dao_alloc_async(); DAO_ERR_BUSY where it would have to wait, see below, for
 *         a stream that is being captured.
 *
 * Threads: any. Waits: as dao_free(); and for a block of dao_alloc() of at most `small_bytes` of its place (4
 * KiB unless said otherwise) on a device, which no hold can be put on, and at a hardened place or with a
 * strategy of whole blocks if host memory has run out, for the stream's work so far. Cost: O(1), and one
 * backend call while several streams of the device free in turns.
 */
DAO_API dao_status_t dao_free_async(dao_place_t place, void *address, dao_stream_t *stream);

/**
 * Says that a block of dao_alloc_async() is used by work on one more stream, up to its free: dao_free_async()
 * then holds the block for that stream, too, up to the work that is queued on it by the time of the free.
 *
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
