/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Callbacks for the memory that a place takes from the backend and returns to it. With them a program
 * registers this memory elsewhere: with a network, a communication library, a profiler.
 */
#ifndef DAO_SEGMENT_H
#define DAO_SEGMENT_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/** Most callbacks at a time, of all places together. */
#define DAO_SEGMENT_CALLBACK_COUNT_MAX 16

typedef enum dao_segment_event {
    DAO_SEGMENT_EVENT_OBTAINED = 1,  /**< the memory is there */
    DAO_SEGMENT_EVENT_RELEASING = 2, /**< the memory goes when the callbacks have returned */
} dao_segment_event_t;

/**
 * Receives a range of memory. Each range is released with the address and size with which it was obtained.
 * With page mapping a range is one page. A page that moves is released at its old address and obtained at the
 * new one. If the backend refuses to take a range back, the range is obtained once more.
 *
 * The place's allocator is locked during the call, and several threads may call for different places. So the
 * callback has to be quick, must not wait for a thread that uses the library, and leaves the thread's current
 * device as it is, that of CUDA or HIP, too. It may call dao_status_*() and dao_last_*() alone. Functions
 * that need an allocator, an executor or a mover answer DAO_ERR_REENTRANT and change nothing; void functions
 * do nothing and set dao_last_status().
 */
typedef void (*dao_segment_callback_t)(dao_place_t place, dao_segment_event_t event, void *address,
                                       size_t size_bytes, void *user);

/**
 * Adds a callback to a place of a device, its own or its pinned one. It only sees what is obtained from now
 * on: add it before the device is first used, or after dao_trim(). dao_finalize() releases all memory, tells
 * the callbacks, and removes them.
 *
 * @param place     DAO_PLACE_KIND_DEVICE or DAO_PLACE_KIND_PINNED; the host's memory comes from no backend.
 * @param function  Stays valid until it is removed.
 * @param user      Handed to `function`.
 * @param out_id    Written only on DAO_OK; for dao_segment_callback_remove(); never 0, never used again.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_UNSUPPORTED for the host's place; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_TOO_MANY for more than DAO_SEGMENT_CALLBACK_COUNT_MAX; DAO_ERR_REENTRANT from inside of
 *         one; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(callbacks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_segment_callback_add(dao_place_t place,
                                                            dao_segment_callback_t function, void *user,
                                                            uint64_t *out_id);

/**
 * Removes a callback. After DAO_OK it is not running and is not called again.
 *
 * @return DAO_OK; DAO_ERR_INVALID for an id that is not there; DAO_ERR_REENTRANT from inside of a callback.
 *
 * Threads: any. Waits: for running calls of it. Cost: O(callbacks).
 */
DAO_API dao_status_t dao_segment_callback_remove(uint64_t id);

DAO_END_DECLS

#endif
