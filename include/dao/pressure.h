/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Memory pressure: what happens when memory is short, before an allocation fails.
 *
 * An allocation that finds no memory takes these steps in turn, and tries again after each one that freed
 * something. Callbacks may be called several times, each other step is taken once:
 *
 *     1. frees that wait for a stream
 *     2. free memory of the place: moved, merged, or newly taken
 *     3. cached memory of the place; for host memory, of all host places
 *     4. callbacks
 *     5. waiting for frees of other threads
 *
 * Then it fails, with a message that says what holds the memory and what would help.
 *
 * An allocation whose tag has no room under its limit (dao_tag_limit_set()) takes steps 1 and 5 alone: free
 * memory does not help it, and callbacks are not told of tags. Cached memory stays, and no callback is
 * called.
 */
#ifndef DAO_PRESSURE_H
#define DAO_PRESSURE_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/** Most callbacks at a time, of all places together. */
#define DAO_PRESSURE_CALLBACK_COUNT_MAX 64

/** Most calls of one callback for one allocation. */
#define DAO_PRESSURE_ASK_COUNT_MAX 4096

/**
 * Frees memory of a place on request. Called by the allocating thread, with no lock held. It may wait, as for
 * bytes that are on their way to a file. It is called again for the same allocation as long as it answers
 * that it freed some, less of the place is in use than before the call, and the allocation still finds no
 * memory; at most DAO_PRESSURE_ASK_COUNT_MAX times. Several threads may call it at the same time. It may call
 * any function of the library but dao_finalize(), which answers DAO_ERR_REENTRANT. An allocation inside of it
 * that finds no memory calls no callback and does not wait.
 *
 * @param place         Where memory is short.
 * @param needed_bytes  What the allocation asks for.
 * @param user          As given to dao_pressure_callback_add().
 * @return Bytes that were freed. After 0 the allocation does not try again.
 */
typedef size_t (*dao_pressure_callback_t)(dao_place_t place, size_t needed_bytes, void *user);

/**
 * Adds a callback to a place. Callbacks are called in the order in which they were added, until the
 * allocation succeeds. A request that is larger than the place's limit or device calls none, nor does one
 * that the limit of its tag refuses. A callback that is added while callbacks run is first called for the
 * next allocation. dao_finalize() removes all.
 *
 * @param place     Called when memory is short there.
 * @param function  Stays valid until it is removed.
 * @param user      Handed to `function`.
 * @param out_id    Written only on DAO_OK; for dao_pressure_callback_remove(); never 0, never used again.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_TOO_MANY for more than
 *         DAO_PRESSURE_CALLBACK_COUNT_MAX; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(callbacks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_pressure_callback_add(dao_place_t place,
                                                             dao_pressure_callback_t function, void *user,
                                                             uint64_t *out_id);

/**
 * Removes a callback. After DAO_OK it is not running and is not called again. A callback may remove itself
 * while it runs.
 *
 * @return DAO_OK; DAO_ERR_INVALID for an id that is not there; DAO_ERR_BUSY from inside of a callback if
 *         another thread runs the one to be removed, as waiting there could deadlock: nothing is changed.
 *
 * Threads: any. Waits: for running calls of it, but not from inside of a callback. Cost: O(callbacks).
 */
DAO_API dao_status_t dao_pressure_callback_remove(uint64_t id);

/**
 * Sets how long an allocation at a place waits for other threads to free memory, as the last step before it
 * fails. It tries again after each free and each change of a limit, ten times a second, and once more when
 * the time is over.
 *
 * @param place    Whose allocations wait.
 * @param wait_ns  Nanoseconds; 0, as at the start, does not wait.
 * @return DAO_OK; DAO_ERR_INVALID for a place that is none; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_pressure_wait_set(dao_place_t place, uint64_t wait_ns);

/**
 * Sets the most bytes that host memory may reserve: the host's place and the pinned places of all devices
 * together, cached bytes included. They never exceed it. Before an allocation answers DAO_ERR_LIMIT, cached
 * memory of all these places is released. At the start the limit is the config's host_limit_bytes.
 *
 * @param limit_bytes  0 means no limit. Below what is reserved now, cached memory is released first.
 * @return DAO_OK; DAO_ERR_LIMIT if live blocks hold more than that: the limit stays as it was;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: for deferred frees, if memory has to be released. Cost: as dao_trim().
 */
DAO_API DAO_NODISCARD dao_status_t dao_host_limit_set(uint64_t limit_bytes);

/** What host memory holds: the host's place and all pinned places together. */
typedef struct dao_host_stats {
    uint64_t reserved_bytes;      /**< bytes taken from the system, cached ones included */
    uint64_t peak_reserved_bytes; /**< most reserved_bytes since the start */
    uint64_t limit_bytes;         /**< most reserved_bytes may become; 0 is none */
} dao_host_stats_t;

/**
 * Reads what host memory holds. While other threads allocate, the fields may belong to slightly different
 * moments.
 *
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_host_stats_get(dao_host_stats_t *out_stats);

DAO_END_DECLS

#endif
