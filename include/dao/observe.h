/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Observing a place: what happened (events), which blocks it has (snapshots), which block an address is in
 * (queries), and its figures under the names of other tools.
 */
#ifndef DAO_OBSERVE_H
#define DAO_OBSERVE_H

#include <dao/stats.h>

DAO_BEGIN_DECLS

/**
 * Receives text that is being written. Any answer but DAO_OK stops the writing, and the writing function
 * returns it.
 *
 * @param text        Borrowed for the call; not closed by a zero.
 * @param text_bytes  At least 1.
 * @param user        As given to the writing function.
 */
typedef dao_status_t (*dao_write_t)(const char *text, size_t text_bytes, void *user);

/* ---- events ---- */

/** What happened. */
typedef enum dao_memory_event_kind {
    DAO_MEMORY_EVENT_KIND_ALLOC = 1,        /**< a block was allocated */
    DAO_MEMORY_EVENT_KIND_FREE = 2,         /**< a block was freed */
    DAO_MEMORY_EVENT_KIND_ALLOC_FAILED = 3, /**< an allocation failed; its address is 0 */
    DAO_MEMORY_EVENT_KIND_TRIM = 4 /**< so many bytes were given back by dao_trim(); its address is 0 */
} dao_memory_event_kind_t;

/** One event, 32 bytes. */
typedef struct dao_memory_event {
    /** From a clock that never goes back. A block's free is always before its next allocation. */
    uint64_t time_ns;
    uint64_t address;    /**< of the block */
    uint64_t size_bytes; /**< as requested; larger ones are recorded as 2^41 - 1 */
    /** The library's number of the thread: from 1 in order of the first event, below 2^18. */
    uint32_t thread;
    uint16_t tag;   /**< the tag of the block; 0 is none */
    uint8_t kind;   /**< a dao_memory_event_kind_t */
    uint8_t stream; /**< the allocator's number of the stream that the block follows; 0 is none */
} dao_memory_event_t;

/** Events of a ring by default. */
#define DAO_EVENTS_COUNT_DEFAULT ((size_t)1 << 16)

/** Most events of a ring. */
#define DAO_EVENTS_COUNT_MAX ((size_t)1 << 24)

/**
 * Starts to record what happens at a place, in a ring that keeps the latest events. Unread events of an
 * earlier recording are dropped. A place that does not record pays for one branch.
 *
 * @param place        What happens there is recorded.
 * @param event_count  Rounded up to a power of two; at most DAO_EVENTS_COUNT_MAX; 0 is
 *                     DAO_EVENTS_COUNT_DEFAULT. Each takes 32 bytes, which stay with the library for the next
 *                     recording until it ends.
 * @return DAO_OK; DAO_ERR_BUSY: it is recording already; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: the memory of the ring.
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_start(dao_place_t place, size_t event_count);

/**
 * Stops recording. What was recorded can be read until the next start.
 *
 * @return DAO_OK; DAO_ERR_NOT_READY: it is not recording; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any; an event that another thread is about to record may still be written. Waits: never. Cost:
 * O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_stop(dao_place_t place);

/**
 * Reads the events since the last read, while they are recorded or later. They come in the order in which
 * they were noted. Events of different threads that lie close together may be out of order by their times.
 *
 * @param place      One that records, or did.
 * @param events     Room for `capacity` events; the caller's.
 * @param capacity   At least 1.
 * @param out_count  Events that were written; below `capacity` there are no more now.
 * @param out_lost   May be NULL; events since the last read that were overwritten before they were read.
 * @return DAO_OK; DAO_ERR_NOT_READY: nothing was recorded at this place; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: a few milliseconds in the first call of a process, to measure the processor's clock;
 * at most a second for a thread that was interrupted while it noted the next event. Cost: O(events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_read(dao_place_t place, dao_memory_event_t *events,
                                                   size_t capacity, size_t *out_count, uint64_t *out_lost);

/**
 * Writes events as CSV with the columns of RMM's log: Thread,Time,Action,Pointer,Size,Stream. Actions are
 * "allocate", "free" (with the size of the block, too) and "allocate failure"; trims are left out. Times are
 * hours:minutes:seconds.microseconds of the events' clock.
 *
 * @param events       `count` events, borrowed for the call.
 * @param count        Of the events; 0 writes no more than the header.
 * @param with_header  Writes the line of column names first.
 * @param write        Takes the text, a line at a time.
 * @param user         Handed to `write`.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; what `write` answered.
 *
 * Threads: any. Waits: never. Cost: O(events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_events_write_csv(const dao_memory_event_t *events, size_t count,
                                                        bool with_header, dao_write_t write, void *user);

/* ---- snapshots ---- */

/** The state of a block. */
typedef enum dao_block_state {
    DAO_BLOCK_STATE_LIVE = 0,   /**< handed out */
    DAO_BLOCK_STATE_FREE = 1,   /**< there for the next request */
    DAO_BLOCK_STATE_PENDING = 2 /**< freed, but kept back for now */
} dao_block_state_t;

/** A block of a snapshot. */
typedef struct dao_snapshot_block {
    uint64_t address;
    uint64_t size_bytes;      /**< roundings included */
    uint64_t requested_bytes; /**< 0 unless it is live */
    uint32_t tag;             /**< its tag; 0 is none */
    uint32_t stream;          /**< the allocator's number of the stream that it follows; 0 is none */
    dao_block_state_t state;
    uint32_t segment; /**< index of its segment */
} dao_snapshot_block_t;

/**
 * A range of memory that was taken from the system: mapped pages, or one piece. Its blocks fill it. Bytes
 * that alignment skips before a block are a free block, with the last three strategies too.
 */
typedef struct dao_snapshot_segment {
    uint64_t address;
    uint64_t size_bytes;
    uint64_t live_bytes;      /**< of its live blocks, roundings included */
    uint64_t pending_bytes;   /**< of its pending blocks */
    uint64_t requested_bytes; /**< of its live blocks */
    size_t first_block;       /**< index of the first of its blocks */
    size_t block_count;
} dao_snapshot_segment_t;

/** All blocks of a place at one moment, and the events before it if the place records. */
typedef struct dao_snapshot dao_snapshot_t;

/**
 * Takes a snapshot of a place. If the place's allocator does not show its free blocks, the snapshot has the
 * live ones alone, each in a segment of its own.
 *
 * @param place         Whose blocks are copied.
 * @param out_snapshot  The caller owns it, until dao_snapshot_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_BUSY if the place grew
 *         faster, time after time, than room for its blocks could be made; DAO_ERR_SHUTDOWN.
 *
 * Threads: any; calls at the place wait while its blocks are copied, well below a millisecond for 10,000.
 * Waits: never. Cost: O(blocks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_snapshot_create(dao_place_t place, dao_snapshot_t **out_snapshot);

/** Frees a snapshot; NULL is allowed. Threads: one at a time. Waits: never. Cost: O(1). */
DAO_API void dao_snapshot_destroy(dao_snapshot_t *snapshot);

/**
 * Returns the blocks, borrowed, segment by segment in order of address; `out_count` may be NULL. Threads:
 * any. Waits: never. Cost: O(1).
 */
DAO_API const dao_snapshot_block_t *dao_snapshot_blocks(const dao_snapshot_t *snapshot, size_t *out_count);

/** Returns the segments, borrowed. Threads: any. Waits: never. Cost: O(1). */
DAO_API const dao_snapshot_segment_t *dao_snapshot_segments(const dao_snapshot_t *snapshot,
                                                            size_t *out_count);

/**
 * Writes a snapshot as JSON: "segments", each with its "blocks", and in "device_traces" a list of events for
 * each device up to the place's. Keys and values are named as in torch.cuda.memory._snapshot(): a live block
 * is "active_allocated", a pending one "active_pending_free", a free one "inactive". Stack traces and pools
 * are not kept: the only one of "frames" is the name of the tag, and every "segment_type" is "large". A block
 * also has its "tag", and the file its "place". PyTorch's memory viewer reads JSON since 2026; all versions
 * read dao_snapshot_write_pickle(), where it is said of which events there are.
 *
 * @param snapshot  Borrowed.
 * @param write     Takes the text in pieces.
 * @param user      Handed to `write`.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; what `write` answered.
 *
 * Threads: any. Waits: never. Cost: O(blocks + events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_snapshot_write_json(const dao_snapshot_t *snapshot, dao_write_t write,
                                                           void *user);

/**
 * Writes the same as a pickle of protocol 2, as torch.cuda.memory._dump_snapshot() does: PyTorch's memory
 * viewer (https://pytorch.org/memory_viz) opens it and shows the segments and their blocks. Of a place that
 * records (dao_events_start(), DAO_HISTORY) it has the events up to the snapshot, for the viewer's timeline:
 * as many as the ring keeps, with the names of tags as categories and frames, times in microseconds of the
 * events' clock. Without them all blocks are alive all the time. A segment that was given back since is shown
 * from the first event on to its last free.
 *
 * @param snapshot  Borrowed.
 * @param write     Takes the bytes in pieces.
 * @param user      Handed to `write`.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; what `write` answered.
 *
 * Threads: any. Waits: never. Cost: O(blocks + events).
 */
DAO_API DAO_NODISCARD dao_status_t dao_snapshot_write_pickle(const dao_snapshot_t *snapshot,
                                                             dao_write_t write, void *user);

/* ---- which block a byte is in ---- */

/** Who owns a block, and frees it: number, name, text, and what the owner's block ends with. */
#define DAO_BLOCK_OWNER_LIST(X)                                                                              \
    X(0, RAW, "the program", "dao_free()")                                                                   \
    X(1, HANDLE, "a memory handle", "dao_memory_release()")                                                  \
    X(2, ARENA, "an executor's arena", "dao_executor_destroy()")                                             \
    X(3, POOL, "the library's pool for copies", "the executor or the copy that uses it")                     \
    X(4, SLAB, "a slab of small blocks", "the last of them")                                                 \
    X(5, LEASE, "a lease, since the program has freed it", "dao_lease_release()")

typedef enum dao_block_owner {
#define DAO_BLOCK_OWNER_ENUMERATOR(number, name, text, end) DAO_BLOCK_OWNER_##name = number,
    DAO_BLOCK_OWNER_LIST(DAO_BLOCK_OWNER_ENUMERATOR)
#undef DAO_BLOCK_OWNER_ENUMERATOR
} dao_block_owner_t;

/**
 * Returns the text of an owner, such as "a memory handle".
 *
 * @return A static string; "unknown" for a number that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_block_owner_text(dao_block_owner_t owner);

/** The live block around an address. */
typedef struct dao_block_info {
    void *address;
    size_t size_bytes;       /**< roundings included */
    size_t requested_bytes;  /**< what was asked for */
    size_t offset_bytes;     /**< of the address that was asked about, in the block */
    uint32_t tag;            /**< its tag; 0 is none */
    uint32_t stream;         /**< the allocator's number of the stream that it follows; 0 is none */
    dao_block_owner_t owner; /**< who may free it: others are refused with DAO_ERR_NOT_YOURS */
    /** Memory handles whose bytes include the address; 0: a block of dao_alloc(). */
    uint32_t handle_count;
    void *handle_address; /**< of the smallest of these handles; else NULL */
    size_t handle_bytes;  /**< its size */
} dao_block_info_t;

/**
 * Finds the live block that an address lies in, and the handles to it. For debugging.
 *
 * @param place     Whose blocks are searched.
 * @param address   Any address; it is not touched.
 * @param out_info  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER: no live block of this place is there; DAO_ERR_INVALID;
 *         DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(blocks) at worst, and a walk of the live handles.
 */
DAO_API DAO_NODISCARD dao_status_t dao_block_query(dao_place_t place, const void *address,
                                                   dao_block_info_t *out_info);

/**
 * Finds the place that has a live block at an address, for who was handed a pointer alone.
 *
 * @param address    Any address; it is not touched.
 * @param out_place  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_FOREIGN_POINTER: no place has a live block there; DAO_ERR_INVALID;
 *         DAO_ERR_REENTRANT from a segment callback; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(places that were used * log blocks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_address_place(const void *address, dao_place_t *out_place);

/* ---- figures under PyTorch's names ---- */

/** Receives one figure. `name` is valid for the call. */
typedef void (*dao_stats_visit_t)(const char *name, uint64_t value, void *user);

/**
 * Returns the figures of a place under the names of torch.cuda.memory_stats(): those that are counted here,
 * and no others.
 *
 * | name | what it is here |
 * | --- | --- |
 * | allocated_bytes.all.current, .peak | used_bytes and its peak |
 * | active_bytes.all.current | bytes of live and of pending blocks |
 * | requested_bytes.all.current, .peak | requested_bytes and its peak |
 * | reserved_bytes.all.current, .peak | reserved_bytes and its peak |
 * | inactive_split_bytes.all.current | free bytes of segments that also hold a block |
 * | allocation.all.current, .allocated, .freed | live_count, alloc_count, free_count |
 * | active.all.current | live and pending blocks |
 * | segment.all.current | segments, or runs of mapped pages |
 * | inactive_split.all.current | free blocks of segments that also hold a block |
 * | num_ooms | failed_count |
 * | num_device_alloc, num_device_free | grow_count, shrink_count |
 *
 * The figures of blocks and segments (active, inactive_split, segment) come from a snapshot, the others from
 * one dao_stats_get() just before it; other threads may work in between. Where no snapshot can be had for
 * want of memory, the call fails before anything is seen.
 *
 * @param place  Whose figures are shown.
 * @param visit  Called with no lock held.
 * @param user   Handed to `visit`.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_BUSY as
 *         dao_snapshot_create(); DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(blocks).
 */
DAO_API DAO_NODISCARD dao_status_t dao_stats_tree_walk(dao_place_t place, dao_stats_visit_t visit,
                                                       void *user);

/* ---- misuse ---- */

/**
 * Checks all blocks of a hardened place (see dao_hardening_t): the guards of live blocks, the bytes of freed
 * blocks that are kept back, and the library's records of them.
 *
 * @return DAO_OK: nothing is wrong; DAO_ERR_CORRUPT with a message that names place, address, size and offset
 *         of the first wrong byte of every damaged block, as far as there is room: the log has the
 *         others, an error each; DAO_ERR_UNSUPPORTED: the place is not hardened;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_BACKEND or DAO_ERR_DEVICE_LOST if the bytes cannot be read;
 *         DAO_ERR_INVALID; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN.
 *
 * Threads: any; a free of the block that is being checked waits. Waits: on a device, for copies of the
 * bytes. Cost: reads all guards, and all bytes that are kept back.
 */
DAO_API DAO_NODISCARD dao_status_t dao_hardening_check(dao_place_t place);

DAO_END_DECLS

#endif
