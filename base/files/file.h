/* SPDX-License-Identifier: Apache-2.0 */
/* A file without a name, for what does not fit into memory: made in a directory of the program's choice, gone
   with the process at the latest. A transfer is cut into pieces that are under way together, and its caller
   waits for the last one.

       dao_file_transfer(write, offset, size)
           |  pieces of DAO_FILE_PIECE_BYTES, at most DAO_FILE_DEPTH of them at a time
           +--> io_uring, one ring a direction     where the kernel has it and lets the process use it
           +--> pread and pwrite, some threads a direction                                   everywhere else

   What a piece leaves over (the system may read or write less than it was asked to) is asked for again. The
   first error ends the transfer, once all pieces that are under way have come back; bytes of memory or file
   that it covers are then undefined. */
#ifndef DAO_BASE_FILE_H
#define DAO_BASE_FILE_H

#include <dao/file.h>
#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What is asked of the system at once. */
#define DAO_FILE_PIECE_BYTES ((size_t)1 << 20)

/* Pieces of one direction that are under way at the same time. A power of two. */
#define DAO_FILE_DEPTH 8u

typedef enum dao_file_direction { DAO_FILE_READ = 0, DAO_FILE_WRITE = 1 } dao_file_direction_t;
enum { DAO_FILE_DIRECTION_COUNT = 2 };

typedef struct dao_file dao_file_t;

/* Makes an empty file. DAO_ERR_IO where the directory refuses it, DAO_ERR_UNSUPPORTED for an engine that is
   asked for by name and not there, DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD. */
DAO_NODISCARD dao_status_t dao_file_create(const char *directory, dao_file_engine_t engine,
                                           dao_file_t **out_file);

/* Nobody transfers any more. NULL is allowed. */
void dao_file_destroy(dao_file_t *file);

/* Bytes that the directory's file system has free for this user. */
uint64_t dao_file_free_bytes(const dao_file_t *file);

/* Reads into memory or writes from it. Gives 0 or an errno: ENOSPC, EFBIG and EDQUOT where there is no more
   room, EIO beyond the file's end, or for what cannot be read. Threads: any; transfers of one direction wait
   for each other. */
int dao_file_transfer(dao_file_t *file, dao_file_direction_t direction, uint64_t offset_bytes, void *address,
                      size_t size_bytes);

#endif
