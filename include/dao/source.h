/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Sources: bytes that the program has already, in a file or in memory of its own, and of which it makes
 * managed tensors (dao_managed_create_from()): weights above all. An executor reads them when a kernel needs
 * them, and once more after the tensor has left the device. It never writes them, nor copies them elsewhere.
 *
 *     file or memory   [ header | w0 ...... | w1 ............ | w2 .... ]      one source
 *                                 tensor      tensor            tensor         of one executor or of several
 */
#ifndef DAO_SOURCE_H
#define DAO_SOURCE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/** Bytes of the program's. Counted: its opener holds it until dao_source_release(), and each tensor does. */
typedef struct dao_source dao_source_t;

/** Whether a file is read through the system's page cache. */
typedef enum dao_source_cache {
    /** Unless the file is larger than the memory that the system, and the container, have available as it is
        opened: then each byte would have left the cache before it is asked for again. */
    DAO_SOURCE_CACHE_AUTO = 0,
    DAO_SOURCE_CACHE_USE = 1,
    /** Read past it (O_DIRECT), but for the ends of a tensor that do not fill a block of 4 KiB. Where the
        file system has no such reads the cache is used. */
    DAO_SOURCE_CACHE_BYPASS = 2,
} dao_source_cache_t;

/**
 * Opens a file to make tensors of. It is kept open, so that its name may go; its bytes must not change while
 * tensors are made of them.
 *
 * @param path        Of a regular file; copied, for messages.
 * @param cache       AUTO unless you know better.
 * @param out_source  The caller owns one reference, until dao_source_release().
 * @return DAO_OK; DAO_ERR_INVALID also for what is no regular file; DAO_ERR_IO if it cannot be opened, with
 *         the system's reason; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: for the file system. Cost: a few system calls; no byte is read.
 */
DAO_API DAO_NODISCARD dao_status_t dao_source_open(const char *path, dao_source_cache_t cache,
                                                   dao_source_t **out_source);

/**
 * Adopts memory of the program's to make tensors of. It is not copied: its bytes must stay, unchanged, until
 * the last tensor that is made of them is gone, and the source released.
 *
 * @param address     Of the first byte, on the host. Mapped files and pinned memory do as well.
 * @param size_bytes  At least 1.
 * @param drop        NULL: the memory stays the program's, which knows when it is free again. Else the source
 *                    takes it over, and calls this once when nobody will read it any more, on the thread that
 *                    dropped the last reference, which may be an executor's: it must not call that executor.
 * @param user        Handed to `drop`.
 * @param out_source  The caller owns one reference, until dao_source_release().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY. On failure `drop` is not called.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_source_adopt(const void *address, size_t size_bytes,
                                                    void (*drop)(void *user), void *user,
                                                    dao_source_t **out_source);

/**
 * Drops the opener's reference. Tensors that were made of the source go on.
 *
 * @param source  NULL is allowed.
 * @return DAO_OK; DAO_ERR_INVALID for one that was released before, as far as that can be seen.
 *
 * Threads: any. Waits: never. Cost: O(1), and `drop` or a close with the last reference.
 */
DAO_API dao_status_t dao_source_release(dao_source_t *source);

/** Returns its size in bytes, of a file as it was opened; 0 for NULL. Threads: any. Waits: never. Cost:
    O(1). */
DAO_API uint64_t dao_source_size(const dao_source_t *source);

DAO_END_DECLS

#endif
