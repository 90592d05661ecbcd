/* SPDX-License-Identifier: Apache-2.0 */
/* A transfer under way, as file.c and its engines share it.

       job    | completed | in flight | remaining |
                          a piece an engine slot     cut off its front next

   An engine takes pieces off the front, asks the system for each, and reports every answer. A short answer
   leaves the piece with its rest, which the engine asks for again. After the first error no piece is cut. */
#ifndef DAO_BASE_FILE_JOB_H
#define DAO_BASE_FILE_JOB_H

#include "base/files/file.h"

/* A part of a transfer that one system call asks for. */
typedef struct dao_file_piece {
    uint64_t offset_bytes;
    char *address;
    size_t size_bytes;
} dao_file_piece_t;

typedef struct dao_file_job {
    int handle;
    dao_file_direction_t direction;
    dao_file_piece_t remaining; /* not cut into pieces yet */
    int error;                  /* the first error; 0: none */
} dao_file_job_t;

/* Cuts the next piece off. Returns false if nothing is left, or after an error. */
bool dao_file_job_next(dao_file_job_t *job, dao_file_piece_t *out_piece);

/* Returns how many bytes of a piece to ask for: all, unless a fault point shortens the request. */
size_t dao_file_piece_request_bytes(const dao_file_piece_t *piece);

/* Returns the errno with which a fault point refuses the next request, or 0. */
int dao_file_fault(dao_file_direction_t direction);

/* Takes the system's answer for a piece: a count of bytes, or -errno. Returns true if the rest of the piece
   has to be asked for. */
bool dao_file_job_complete(dao_file_job_t *job, dao_file_piece_t *piece, int64_t result);

#endif
