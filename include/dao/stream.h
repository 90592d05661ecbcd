/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Streams: work on a device in order; events: points in that work.
 *
 * A stream of a virtual device has a thread from its first work on: what queues that may answer
 * DAO_ERR_THREAD, whether its text lists it or not.
 */
#ifndef DAO_STREAM_H
#define DAO_STREAM_H

#include <dao/place.h>

DAO_BEGIN_DECLS

typedef struct dao_stream dao_stream_t;
typedef struct dao_event dao_event_t;

/**
 * A function that a stream calls on a host thread when it reaches it. It must not call the library, except to
 * read fields of tensors.
 */
typedef void (*dao_host_func_t)(void *user);

/**
 * Creates a stream on a device.
 *
 * @param device_index  The device.
 * @param out_stream    The caller owns it, until dao_stream_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_THREAD;
 *         DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_create(int32_t device_index, dao_stream_t **out_stream);

/**
 * Wraps a stream that other code created, such as PyTorch's: memory follows it, copies are queued on it,
 * events are recorded on it. Adopting a stream again returns the same object, which then has to be destroyed
 * once more: a library that gets a handle with each call may adopt it each time.
 *
 * A handle that was destroyed and became another stream's, while the object still stood for the first one, is
 * told apart where the vendor numbers its streams (CUDA since 12.0, HIP since 7.1). The new stream gets an
 * object of its own; the old one refuses work with DAO_ERR_INVALID, what was freed on it waits for the
 * device, and it is still to be destroyed.
 *
 * @param device_index  The device it is of.
 * @param native        The vendor's handle, such as a cudaStream_t; NULL is the vendor's default stream. On
 *                      the cpu backend what dao_stream_native() returns; NULL is the device's compute stream.
 * @param out_stream    The caller owns it, until dao_stream_destroy(), which leaves the vendor's stream
 *                      alone. That one has to live until then, and until all memory handles that name it,
 *                      and executors that have it, are gone.
 * @return DAO_OK; DAO_ERR_INVALID, on the cpu backend also for what is no stream of the device;
 *         DAO_ERR_NO_DEVICE; DAO_ERR_UNSUPPORTED where the backend cannot, and for cudaStreamPerThread and
 *         hipStreamPerThread, which stand for another stream in each thread; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_adopt(int32_t device_index, void *native,
                                                    dao_stream_t **out_stream);

/**
 * Waits for a stream's work and destroys the stream; one that was adopted several times is destroyed as
 * often. Memory handles that name it, and executors that have it, keep the vendor's stream until they are
 * released or destroyed. Handles that were released while it was being captured into a graph keep it no
 * longer.
 *
 * @param stream  NULL is allowed. On an error nothing is done.
 * @return DAO_OK; DAO_ERR_INVALID for one of a device's own streams; DAO_ERR_BUSY for one that is being
 *         captured: the capture goes on; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: for the stream's work. Cost: a backend call.
 */
DAO_API dao_status_t dao_stream_destroy(dao_stream_t *stream);

/** Which of a device's own streams. */
typedef enum dao_stream_role {
    DAO_STREAM_ROLE_COMPUTE = 0, /**< kernels */
    DAO_STREAM_ROLE_H2D = 1,     /**< copies from the host */
    DAO_STREAM_ROLE_D2H = 2,     /**< copies to the host */
    DAO_STREAM_ROLE_COUNT = 3,
} dao_stream_role_t;

/**
 * Returns one of the streams that every device has.
 *
 * @param device_index  From 0, below dao_device_count().
 * @param role          Which of them.
 * @param out_stream    Borrowed, valid until dao_finalize().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1); the first use of a device starts it.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_get(int32_t device_index, dao_stream_role_t role,
                                                  dao_stream_t **out_stream);

/** Returns the device of a stream. Threads: any. Waits: never. Cost: O(1). */
DAO_API int32_t dao_stream_device(const dao_stream_t *stream);

/**
 * Returns the vendor's handle of a stream, such as a cudaStream_t; on the cpu backend an opaque address.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API void *dao_stream_native(const dao_stream_t *stream);

/**
 * Waits until all work queued on a stream so far has finished.
 *
 * @return DAO_OK; DAO_ERR_INVALID; the first error of that work.
 *
 * Threads: any. Waits: for the stream. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_synchronize(dao_stream_t *stream);

/**
 * Asks whether all work queued on a stream so far has finished.
 *
 * @return DAO_OK if it has; DAO_ERR_NOT_READY, which is no failure; DAO_ERR_BUSY for a stream that is being
 *         captured into a graph, which asking would end; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_BACKEND; the error of that work.
 *
 * It asks by an event: an idle stream may answer DAO_ERR_NOT_READY until it has passed that.
 *
 * Threads: any. Waits: never. Cost: two backend calls. On DAO_OK, blocks freed behind that work may be reused
 * by any stream.
 */
DAO_API dao_status_t dao_stream_query(dao_stream_t *stream);

/**
 * Queues a copy. The places say its direction. The bytes are read and written when the stream reaches it.
 *
 * @param stream          Borrowed.
 * @param dst_place       Where dst is.
 * @param dst             Where to; stays allocated until the copy is done.
 * @param src_place       Where src is.
 * @param src             Where from; stays allocated and unchanged until the copy is done.
 * @param size_bytes      0 does nothing. Whether the bytes lie in blocks is not checked; dao_copy() does
 *                        that.
 * @return DAO_OK; DAO_ERR_INVALID, also for bytes that overlap or go beyond the address space, and if neither
 *         place is the stream's device and one is a device; DAO_ERR_COPY_FAILED; DAO_ERR_DEVICE_LOST;
 *         DAO_ERR_UNSUPPORTED between devices where the backend has no such copy: see dao_copy(), and within
 *         the host while the stream is being captured into a graph.
 *
 * Threads: any. Waits: never for pinned and device memory; a vendor may wait for other host memory. Cost: a
 * backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_copy(dao_stream_t *stream, dao_place_t dst_place, void *dst,
                                                   dao_place_t src_place, const void *src, size_t size_bytes);

/** Several copies: three arrays of `count`, borrowed for the call. */
typedef struct dao_copy_batch {
    size_t count;              /**< 0: nothing is copied */
    void *const *dsts;         /**< each stays allocated until its copy is done */
    const void *const *srcs;   /**< each stays allocated and unchanged until its copy is done */
    const size_t *sizes_bytes; /**< each at least 1 */
} dao_copy_batch_t;

/**
 * Queues several copies from one place to another: in one call where the vendor has one (CUDA from 12.8 on),
 * else one after the other. Work before and after them is ordered as with dao_stream_copy(). Among each other
 * they run in any order, so none may read or write what another one writes.
 *
 * @return As dao_stream_copy(). After DAO_ERR_COPY_FAILED some of them may be queued.
 *
 * Threads: any. Waits: as dao_stream_copy(). Cost: a backend call, or one each.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_copy_batch(dao_stream_t *stream, dao_place_t dst_place,
                                                         dao_place_t src_place,
                                                         const dao_copy_batch_t *batch);

/**
 * Queues a fill of device memory with one byte value.
 *
 * @param stream      Borrowed.
 * @param dst         Memory of the stream's device, which is not checked; stays allocated until the fill is
 *                    done.
 * @param value       Of every byte.
 * @param size_bytes  0 does nothing.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_BACKEND.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_fill(dao_stream_t *stream, void *dst, uint8_t value,
                                                   size_t size_bytes);

/**
 * Queues a host function: it runs after all work queued before, and before all work queued after.
 *
 * @param stream    Borrowed.
 * @param function  Runs on a thread of the backend.
 * @param user      Handed to it.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_BACKEND; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_host_func(dao_stream_t *stream, dao_host_func_t function,
                                                        void *user);

/**
 * Creates an event on a device, not yet recorded.
 *
 * @param device_index  From 0, below dao_device_count().
 * @param out_event     The caller owns it, until dao_event_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_BACKEND;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_event_create(int32_t device_index, dao_event_t **out_event);

/**
 * Destroys an event; work that waits for it is not disturbed. NULL is allowed.
 *
 * @return DAO_OK; DAO_ERR_FORKED: nothing is done.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API dao_status_t dao_event_destroy(dao_event_t *event);

/**
 * Makes an event stand for all work queued on a stream so far. A later record replaces an earlier one.
 *
 * @return DAO_OK; DAO_ERR_INVALID, also for a stream of another device or start; DAO_ERR_BACKEND.
 *
 * Threads: any, one at a time for an event. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_event_record(dao_event_t *event, dao_stream_t *stream);

/**
 * Makes later work of a stream wait, on the device, for what an event stands for now. Waiting for an event
 * that was never recorded does nothing.
 *
 * @param stream  Waits.
 * @param event   Of any device of the backend, as the stream; a place of a program's own memory counts as the
 *                device that it is on. One on no device has events for its own streams only.
 * @return DAO_OK; DAO_ERR_INVALID, also for an event of such another place, or of another start of the
 *         library; DAO_ERR_BACKEND.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stream_wait_event(dao_stream_t *stream, dao_event_t *event);

/**
 * Asks whether what an event stands for has finished.
 *
 * @return DAO_OK if finished or never recorded; DAO_ERR_NOT_READY, which is no failure and has no message;
 *         DAO_ERR_INVALID; the error of the work before it.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API dao_status_t dao_event_query(dao_event_t *event);

/**
 * Waits until what an event stands for has finished.
 *
 * @return DAO_OK; DAO_ERR_INVALID; the error of the work before it.
 *
 * Threads: any. Waits: for the device. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_event_synchronize(dao_event_t *event);

/**
 * Returns the time between two finished events.
 *
 * @param begin           Borrowed.
 * @param end             Borrowed; on the same device.
 * @param out_elapsed_ns  Nanoseconds; negative if `end` came first.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NOT_READY if one was not recorded or has not finished.
 *
 * Threads: any. Waits: never. Cost: a backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_event_elapsed(dao_event_t *begin, dao_event_t *end,
                                                     int64_t *out_elapsed_ns);

DAO_END_DECLS

#endif
