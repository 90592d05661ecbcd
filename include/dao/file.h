/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The file tier: where an executor puts tensors when pinned host memory is full. A write has succeeded
 * once the system has taken its bytes: what is full or refuses them loses nothing, but what the system loses
 * afterwards, as it writes them to the disk, is not seen.
 */
#ifndef DAO_FILE_H
#define DAO_FILE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/** How a file is read and written. */
#define DAO_FILE_ENGINE_LIST(X)                                                                              \
    X(0, AUTO, "auto", "io_uring where the kernel offers it, else threads")                                  \
    X(1, URING, "uring", "io_uring: several pieces under way without a thread for each")                     \
    X(2, THREADS, "threads", "pread and pwrite on a few threads")

typedef enum dao_file_engine {
#define DAO_FILE_ENGINE_ENUMERATOR(number, name, text, meaning) DAO_FILE_ENGINE_##name = number,
    DAO_FILE_ENGINE_LIST(DAO_FILE_ENGINE_ENUMERATOR)
#undef DAO_FILE_ENGINE_ENUMERATOR
} dao_file_engine_t;

/** Settings of a file tier. Without a directory there is none; the engine, the limit of reads and the latency
    then apply to sources (dao/source.h) only. */
typedef struct dao_file_config {
    /** Where the unnamed file is created; copied. NULL: no file tier, and no limits of one. */
    const char *directory;
    /** Most bytes of tensors in it, at most 1 TiB; 0: what its file system has free of that. */
    uint64_t limit_bytes;
    uint64_t in_bytes_per_second;  /**< limit of reads, also of sources; 0: none */
    uint64_t out_bytes_per_second; /**< limit of writes; 0: none */
    /** Added to each read and write. In virtual time they take this and bytes / speed. */
    uint64_t latency_ns;
    dao_file_engine_t engine; /**< also of sources */
} dao_file_config_t;

/**
 * Returns the name of an engine, such as "uring"; "unknown" for a number that is none. Threads: any. Waits:
 * never. Cost: O(1).
 */
DAO_API const char *dao_file_engine_name(dao_file_engine_t engine);

/**
 * Finds an engine by its name. DAO_ERR_INVALID if there is none of that name. Threads: any. Waits: never.
 * Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_file_engine_parse(const char *text, dao_file_engine_t *out_engine);

DAO_END_DECLS

#endif
