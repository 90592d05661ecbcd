/* SPDX-License-Identifier: Apache-2.0 */
/* What file.c asks of its engines. */
#ifndef DAO_BASE_FILE_INTERNAL_H
#define DAO_BASE_FILE_INTERNAL_H

#include "base/files/file.h"

/* A part of a transfer that is asked of the system. */
typedef struct dao_file_piece {
    uint64_t offset_bytes;
    char *address;
    size_t size_bytes;
} dao_file_piece_t;

/* A transfer under way. Pieces are cut off its front; a piece that came back short goes on with what it
   lacks. */
typedef struct dao_file_job {
    int handle;
    dao_file_direction_t direction;
    dao_file_piece_t rest; /* not cut off yet */
    int error;             /* the first one; nothing more is cut off */
} dao_file_job_t;

/* Cuts the next piece off. False if nothing is left, or after an error. */
bool dao_file_job_cut(dao_file_job_t *job, dao_file_piece_t *out_piece);

/* How many bytes of a piece to ask for now: all, but for a fault point that makes the system give less. */
size_t dao_file_piece_ask(const dao_file_piece_t *piece);

/* An errno that a fault point makes the system answer for a piece; 0: it is asked. */
int dao_file_piece_refusal(dao_file_direction_t direction);

/* Notes what the system gave for a piece: a count of bytes, or -errno. True if the piece has a rest to be
   asked for. */
bool dao_file_job_came(dao_file_job_t *job, dao_file_piece_t *piece, int64_t result);

/* One direction's engine. */
typedef struct dao_file_threads dao_file_threads_t;
dao_status_t dao_file_threads_create(dao_file_threads_t **out_threads);
void dao_file_threads_destroy(dao_file_threads_t *threads); /* NULL is allowed */
void dao_file_threads_run(dao_file_threads_t *threads, dao_file_job_t *job);

/* The same over io_uring; DAO_ERR_UNSUPPORTED where the kernel does not have it, or this build does not know
   it. */
typedef struct dao_file_uring dao_file_uring_t;
dao_status_t dao_file_uring_create(dao_file_uring_t **out_uring);
void dao_file_uring_destroy(dao_file_uring_t *uring); /* NULL is allowed */
void dao_file_uring_run(dao_file_uring_t *uring, dao_file_job_t *job);

#endif
