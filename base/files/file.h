/* SPDX-License-Identifier: Apache-2.0 */
/* An unnamed file in a directory of the program's choice, for bytes that do not fit into memory. The system
   removes it with the process at the latest. A transfer is cut into pieces, several of which are in flight
   together.

       dao_file_transfer(write, offset, size)
           |  pieces of DAO_FILE_PIECE_BYTES, at most DAO_FILE_DEPTH of them at a time
           +--> io_uring, one ring a direction                where the kernel has it and permits it
           +--> pread and pwrite, a few threads a direction   everywhere else

   The system may transfer less than a piece; the rest is asked for again. The first error ends the transfer
   as soon as no piece is in flight. The bytes that it covers are then undefined. */
#ifndef DAO_BASE_FILE_H
#define DAO_BASE_FILE_H

#include <dao/file.h>
#include <dao/status.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of one system call: large enough that its cost does not count beside the transfer. */
#define DAO_FILE_PIECE_BYTES ((size_t)1 << 20)

/* Pieces of one direction that are in flight at the same time. A power of two. */
#define DAO_FILE_DEPTH 8u

typedef enum dao_file_direction { DAO_FILE_READ = 0, DAO_FILE_WRITE = 1 } dao_file_direction_t;
enum { DAO_FILE_DIRECTION_COUNT = 2 };

typedef struct dao_file dao_file_t;

/* DAO_ERR_INVALID, with a message, for a number that is no engine. */
DAO_NODISCARD dao_status_t dao_file_engine_check(dao_file_engine_t engine);

/* Creates an empty file; with NULL none, but an engine for dao_file_read_from(). DAO_ERR_IO if it cannot be
   created in the directory, DAO_ERR_UNSUPPORTED if the engine was chosen and is not available,
   DAO_ERR_NO_HOST_MEMORY, DAO_ERR_THREAD. */
DAO_NODISCARD dao_status_t dao_file_create(const char *directory, dao_file_engine_t engine,
                                           dao_file_t **out_file);

/* No transfer is running. NULL is allowed. */
void dao_file_destroy(dao_file_t *file);

/* Reads from a file of somebody else's, as dao_file_transfer(), by this one's engine. */
int dao_file_read_from(dao_file_t *file, int handle, uint64_t offset_bytes, void *address, size_t size_bytes);

/* Returns the bytes that the directory's file system has free for this user. */
uint64_t dao_file_free_bytes(const dao_file_t *file);

/* Reads into memory or writes from it, and waits for the end. Returns 0 or an errno: ENOSPC, EFBIG or EDQUOT
   if there is no room, EIO beyond the end of the file or for bytes that cannot be read. Threads: any;
   transfers of one direction wait for each other. */
int dao_file_transfer(dao_file_t *file, dao_file_direction_t direction, uint64_t offset_bytes, void *address,
                      size_t size_bytes);

#endif
