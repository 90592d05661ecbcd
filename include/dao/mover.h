/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Moves of host memory that the program owns: out to pinned memory or to a file, and back in, beside the
 * program. A framework that frees and allocates its tensors itself takes a mover where an executor's managed
 * tensors do not fit: those have no address of the program's.
 *
 *     dao_mover_out(mover, address, size, &parked)    queued: the bytes at the address must stay as they are
 *     dao_parked_wait(parked)                         DAO_OK: they are safe, the address may be given up
 *     dao_mover_in(mover, parked, other_address)      queued, behind the way out; as often as wanted
 *     dao_parked_wait(parked)                         DAO_OK: the bytes are there
 *     dao_parked_release(parked)
 *
 * In a segment callback (dao/segment.h) all of it answers DAO_ERR_REENTRANT, by dao_last_status() where a
 * function returns nothing, and changes nothing.
 *
 * Each direction has a thread of its own, which moves one item after the other, a file's in
 * several pieces at a time. A move that fails leaves the memory that it comes from as it was, and is told by
 * dao_parked_wait(); one in can be tried again.
 */
#ifndef DAO_MOVER_H
#define DAO_MOVER_H

#include <dao/file.h>

DAO_BEGIN_DECLS

/** A direction. */
typedef enum dao_move_direction {
    DAO_MOVE_OUT = 0,
    DAO_MOVE_IN = 1,
} dao_move_direction_t;

#define DAO_MOVE_DIRECTION_COUNT 2

/** Where bytes go: to pinned memory as long as there is room, then to the file. At least one of the two. */
typedef struct dao_mover_config {
    uint64_t pinned_bytes; /**< most pinned memory to use; 0: none */
    int32_t pinned_device; /**< whose pinned place */
    const char *directory; /**< of the unnamed file; copied; NULL: no file */
    uint64_t file_bytes;   /**< most bytes in the file; 0: what its file system has free */
    dao_file_engine_t file_engine;
} dao_mover_config_t;

typedef struct dao_mover dao_mover_t;   /**< two directions, and what was moved */
typedef struct dao_parked dao_parked_t; /**< bytes that have been moved out */

/**
 * Makes a mover.
 *
 * @param config     Borrowed for the call.
 * @param out_mover  The caller owns it, until dao_mover_destroy(); written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, where bytes can go nowhere, or for settings of a file without a
 *         directory; DAO_ERR_NO_DEVICE; DAO_ERR_IO if no file can be made in the directory;
 *         DAO_ERR_UNSUPPORTED if the file's engine is not there; DAO_ERR_THREAD; DAO_ERR_NO_HOST_MEMORY; what
 *         dao_alloc() answers for a byte of pinned memory.
 *
 * Threads: any. Waits: as dao_alloc() of pinned memory. Cost: a file and two threads.
 */
DAO_API DAO_NODISCARD dao_status_t dao_mover_create(const dao_mover_config_t *config,
                                                    dao_mover_t **out_mover);

/**
 * Ends a mover, after all moves that are queued, and frees what is parked: those handles are not used any
 * more. To be called before dao_finalize().
 *
 * @param mover  NULL is allowed. On an error it stays as it is, and the caller still owns it.
 * @return DAO_OK; DAO_ERR_FORKED; DAO_ERR_REENTRANT in a segment callback.
 *
 * Threads: one, while no other uses the mover. Waits: for its moves. Cost: O(parked).
 */
DAO_API dao_status_t dao_mover_destroy(dao_mover_t *mover);

/**
 * Queues a move out of memory that the host can read.
 *
 * @param mover       Borrowed.
 * @param address     Its bytes are neither changed nor freed until dao_parked_wait() has answered.
 * @param size_bytes  At least 1.
 * @param out_parked  The caller owns it, until dao_parked_release(); written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_HOST_FULL where neither pinned memory nor the file has room;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED; where there is no file, what dao_alloc() answers for pinned
 *         memory that `pinned_bytes` allows.
 *
 * Threads: any. Waits: as dao_alloc() of pinned memory. Cost: O(1), and that allocation.
 */
DAO_API DAO_NODISCARD dao_status_t dao_mover_out(dao_mover_t *mover, const void *address, size_t size_bytes,
                                                 dao_parked_t **out_parked);

/**
 * Queues a move of parked bytes to memory that the host can write. They stay parked.
 *
 * @param mover    Borrowed: the one that parked them.
 * @param parked   Borrowed.
 * @param address  Of as many bytes as have been moved out; nothing else uses them until dao_parked_wait().
 * @return DAO_OK; DAO_ERR_INVALID for NULL or what is released; the failure of the way out;
 *         DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_mover_in(dao_mover_t *mover, dao_parked_t *parked, void *address);

/**
 * Waits for all moves of these bytes that are queued.
 *
 * @return DAO_OK; the first failure of these moves, with a message: DAO_ERR_IO, DAO_ERR_HOST_FULL where the
 *         file's system had no room; DAO_ERR_INVALID for NULL; DAO_ERR_FORKED. It is answered until another
 *         move of these bytes is queued.
 *
 * Threads: any. Waits: for those moves, and those queued before them in their directions. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_parked_wait(dao_parked_t *parked);

/**
 * Frees parked bytes, once the moves that are queued have ended.
 *
 * @param parked  NULL is allowed. On an error the bytes stay parked.
 * @return DAO_OK; DAO_ERR_FORKED; DAO_ERR_REENTRANT in a segment callback; DAO_ERR_INVALID for a second time,
 *         which is noticed only while moves are under way.
 *
 * Threads: any, once. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_parked_release(dao_parked_t *parked);

/**
 * Returns how many moves of a direction have ended since the mover was made. They end in the order in which
 * they were queued. 0 for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API uint64_t dao_mover_done(const dao_mover_t *mover, dao_move_direction_t direction);

/** What was moved in a direction. */
typedef struct dao_move_direction_stats {
    uint64_t queued_count;
    uint64_t done_count;   /**< of these, ended, failed ones included */
    uint64_t failed_count; /**< of these */
    uint64_t moved_bytes;
    uint64_t busy_ns; /**< in which bytes were moved: moved_bytes over this is its speed */
} dao_move_direction_stats_t;

/** What a mover has done, and what is parked now. */
typedef struct dao_mover_stats {
    dao_move_direction_stats_t directions[DAO_MOVE_DIRECTION_COUNT];
    uint64_t pinned_bytes; /**< parked in pinned memory */
    uint64_t file_bytes;   /**< parked in the file */
    uint64_t parked_count;
} dao_mover_stats_t;

/**
 * Reads what a mover has done.
 *
 * @param mover      Borrowed.
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_FORKED.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_mover_stats_get(dao_mover_t *mover, dao_mover_stats_t *out_stats);

DAO_END_DECLS

#endif
