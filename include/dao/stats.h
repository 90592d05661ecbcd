/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * What a place holds, in bytes and counts. Reading changes nothing.
 */
#ifndef DAO_STATS_H
#define DAO_STATS_H

#include <dao/place.h>

DAO_BEGIN_DECLS

/** The fields of dao_stats_t: type, name, and what it counts. Text and JSON forms come from this list. */
#define DAO_STATS_LIST(X)                                                                                    \
    X(uint64_t, requested_bytes, "bytes asked for by live blocks")                                           \
    X(uint64_t, used_bytes, "bytes of live blocks, roundings included")                                      \
    X(uint64_t, reserved_bytes, "bytes taken from the system, cached ones included")                         \
    X(uint64_t, peak_requested_bytes, "most requested_bytes since the last reset")                           \
    X(uint64_t, peak_used_bytes, "most used_bytes since the last reset")                                     \
    X(uint64_t, peak_reserved_bytes, "most reserved_bytes since the last reset")                             \
    X(uint64_t, largest_hole_bytes, "largest request that fits without asking the system")                   \
    X(uint64_t, limit_bytes, "most reserved_bytes may become; 0 is none")                                    \
    X(uint64_t, live_count, "live blocks")                                                                   \
    X(uint64_t, alloc_count, "successful allocations")                                                       \
    X(uint64_t, free_count, "successful frees")                                                              \
    X(uint64_t, failed_count, "allocations that failed")                                                     \
    X(uint64_t, grow_count, "times memory was taken from the system")                                        \
    X(uint64_t, grow_pieces_count, "of these, those beside enough idle bytes, in pieces too small")          \
    X(uint64_t, grow_fenced_count, "of these, those beside enough bytes, which streams might still use")     \
    X(uint64_t, shrink_count, "times memory was given back to it")                                           \
    X(uint64_t, remap_count, "pages moved to where they were needed")                                        \
    X(uint64_t, remap_limit_count, "of these, those that a limit left no new ones for")                      \
    X(uint64_t, remap_device_count, "of these, those that the device had no new ones for")                   \
    X(uint64_t, deferred_count, "frees that wait for a stream or, of large blocks, for another thread")      \
    X(uint64_t, driver_call_count, "calls that took memory from the backend, gave it back or moved it")      \
    X(uint64_t, slow_count, "of alloc_count and free_count, those that left the fast path")                  \
    X(uint64_t, miss_count, "allocations, slabs for small blocks among them, that no idle hole held")        \
    X(uint64_t, lock_wait_count, "times a lock was found taken")                                             \
    X(uint64_t, cached_bytes, "bytes of small blocks that threads keep for their next requests")             \
    X(uint64_t, shared_bytes, "bytes created here for several processes, beside all the others")             \
    X(uint64_t, imported_bytes, "bytes of other processes that are open here, beside all the others")        \
    X(uint64_t, internal_error_count, "internal errors of the process, at no place; the log has each")

typedef struct dao_stats {
#define DAO_STATS_FIELD(type, name, text) type name; /**< see DAO_STATS_LIST */
    DAO_STATS_LIST(DAO_STATS_FIELD)
#undef DAO_STATS_FIELD
} dao_stats_t;

/**
 * Reads the statistics of a place. Where more than 256 holes are about as large as the largest one,
 * largest_hole_bytes may be that of one which is up to a fifth smaller. All fields belong to one moment, with
 * two exceptions: deferred_count, which is read first, and what other threads do with small blocks during the
 * call, which each field may include or not.
 *
 * Peaks of large blocks are exact while one thread uses the place. With several threads they are upper
 * bounds. So are those of small blocks, whose slabs count whole.
 *
 * @param place      Whose statistics are read.
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1), and for the largest hole a walk of the largest free blocks.
 */
DAO_API DAO_NODISCARD dao_status_t dao_stats_get(dao_place_t place, dao_stats_t *out_stats);

/** The most that a place held over some time, as the peaks of dao_stats_t. */
typedef struct dao_peaks {
    uint64_t requested_bytes;
    uint64_t used_bytes;
    uint64_t reserved_bytes;
} dao_peaks_t;

/** Most marks at a time, of all places together. */
#define DAO_PEAK_MARK_COUNT_MAX 64

/**
 * Sets a mark of one's own at a place, from which on peaks are kept beside dao_stats_t's: for a library in a
 * program that looks at its peaks itself. Allocations do not know of marks. dao_finalize() removes all.
 *
 * @param place     Whose peaks.
 * @param out_mark  For the calls below; never 0, never used again. Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL and for what is no place; DAO_ERR_NO_DEVICE; DAO_ERR_TOO_MANY for
 *         more than DAO_PEAK_MARK_COUNT_MAX; DAO_ERR_SHUTDOWN; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(marks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_peak_mark_add(dao_place_t place, uint64_t *out_mark);

/**
 * Reads the most that a mark's place has held since the mark was set, under the terms of dao_stats_get().
 *
 * @param mark       Of dao_peak_mark_add(), not removed.
 * @param out_peaks  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, or a mark that is not there; DAO_ERR_SHUTDOWN; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(marks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_peak_mark_get(uint64_t mark, dao_peaks_t *out_peaks);

/**
 * As dao_peak_mark_get(), and sets the mark anew: what the place holds now is the least that it reads next.
 * No peak is missed between the two.
 *
 * @param mark       Of dao_peak_mark_add(), not removed.
 * @param out_peaks  Written only on DAO_OK; may be NULL.
 * @return As dao_peak_mark_get().
 *
 * Threads: any. Waits: never. Cost: O(marks).
 */
DAO_API dao_status_t dao_peak_mark_move(uint64_t mark, dao_peaks_t *out_peaks);

/**
 * Removes a mark.
 *
 * @return DAO_OK; DAO_ERR_INVALID for a mark that is not there; DAO_ERR_SHUTDOWN; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(marks).
 */
DAO_API dao_status_t dao_peak_mark_remove(uint64_t mark);

/**
 * Sets the peaks of a place to what it holds now, those of dao_stats_get(); marks keep theirs.
 *
 * @return DAO_OK; DAO_ERR_INVALID for what is no place; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_stats_reset_peaks(dao_place_t place);

DAO_END_DECLS

#endif
