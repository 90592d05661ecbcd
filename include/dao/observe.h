/**
 * @file
 * Looking into a place: what happened (events), what it holds (snapshots), who holds a byte (queries), and its figures
 * under the names that other tools know.
 */
#ifndef DAO_OBSERVE_H
#define DAO_OBSERVE_H

#include <dao/stats.h>

DAO_BEGIN_DECLS

/**
 * Takes a piece of text that a writer makes. An answer that is not DAO_OK ends the writing and is what the writer answers.
 *
 * @param text        Borrowed for the call; not closed by a zero.
 * @param text_bytes  At least 1.
 */
typedef dao_status_t (*dao_write_t)(const char *text, size_t text_bytes, void *user);

/* ---- events ---- */

/** What happened. */
typedef enum dao_memory_event_kind {
    DAO_MEMORY_EVENT_KIND_ALLOC = 1,        /**< a block was allocated */
    DAO_MEMORY_EVENT_KIND_FREE = 2,         /**< a block was freed; its size is 0: the allocation has it */
    DAO_MEMORY_EVENT_KIND_ALLOC_FAILED = 3, /**< an allocation failed; its address is 0 */
    DAO_MEMORY_EVENT_KIND_TRIM = 4 /**< so many bytes were given back by dao_trim(); its address is 0 */
} dao_memory_event_kind_t;

/** One event, 32 bytes. */
typedef struct dao_memory_event {
    uint64_t
        time_ns; /**< of a clock that never goes back; a block's free is always before its next allocation */
    uint64_t address;    /**< of the block */
    uint64_t size_bytes; /**< that were asked for; at most 2^41 - 1 are told */
    uint32_t
        thread;   /**< a number of the library's own, from 1 in order of a thread's first event, below 2^18 */
    uint16_t tag; /**< whom the block is counted for; 0 is nobody */
    uint8_t kind; /**< a dao_memory_event_kind_t */
    uint8_t stream; /**< the allocator's number of the stream that the block follows; 0 is none */
} dao_memory_event_t;

/** Events of a ring for which no number was given. */
#define DAO_EVENTS_COUNT_DEFAULT ((size_t)1 << 16)

/** Most events of a ring. */
#define DAO_EVENTS_COUNT_MAX ((size_t)1 << 24)

/**
 * Starts to record what happens at a place, in a ring of fixed size: the latest events are kept. Events of an earlier
 * recording that were not read are forgotten. A place that does not record pays for one branch.
 *
 * @param event_count  Rounded up to a power of two; at most DAO_EVENTS_COUNT_MAX; 0 is DAO_EVENTS_COUNT_DEFAULT. Each takes
 *                     32 bytes, which stay with the library for the next recording until it ends.
 * @return DAO_OK; DAO_ERR_BUSY: it is recording already; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: the memory of the ring.
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_start(dao_place_t place, size_t event_count);

/**
 * Stops recording. What was recorded can be read until the next start.
 *
 * @return DAO_OK; DAO_ERR_NOT_READY: it is not recording; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any; an event that another thread is about to record may still be written. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_stop(dao_place_t place);

/**
 * Reads the events since the last read, while they are being recorded or later. They come in the order in which they were
 * noted; events of different threads that lie close together may be out of order by their times.
 *
 * @param events    Room for `capacity` events; the caller's.
 * @param capacity  At least 1.
 * @param out_count  Events that were written; below `capacity` there are no more now.
 * @param out_lost   May be NULL; events since the last read that were overwritten before they were read.
 * @return DAO_OK; DAO_ERR_NOT_READY: nothing was recorded at this place; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: the first call of a process a few milliseconds, to measure the pace of the processor's clock; for a
 * thread that was interrupted while it noted the next event, at most a second. Cost: O(events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_read(dao_place_t place, dao_memory_event_t *events,
                                                   size_t capacity, size_t *out_count, uint64_t *out_lost);

/**
 * Writes events as CSV with the columns of RMM's log: Thread,Time,Action,Pointer,Size,Stream. Actions are "allocate",
 * "free" and "allocate failure"; trims are left out. Times are hours:minutes:seconds.microseconds of the events' clock.
 *
 * @param with_header  Writes the line of column names first.
 * @param write        Takes the text, a line at a time.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; what `write` answered.
 *
 * Threads: any. Waits: never. Cost: O(events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_write_csv(const dao_memory_event_t *events, size_t count,
                                                        bool with_header, dao_write_t write, void *user);

DAO_END_DECLS

#endif
