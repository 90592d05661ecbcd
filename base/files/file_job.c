/* SPDX-License-Identifier: Apache-2.0 */
#include "base/files/file_job.h"

#include "base/memory/poison.h"
#include "base/report/assert.h"
#include "base/report/fault.h"

#include <errno.h>

bool dao_file_job_next(dao_file_job_t *job, dao_file_piece_t *out_piece)
{
    if (job->remaining.size_bytes == 0 || job->error != 0) {
        return false;
    }
    *out_piece = job->remaining;
    if (out_piece->size_bytes > DAO_FILE_PIECE_BYTES) {
        out_piece->size_bytes = DAO_FILE_PIECE_BYTES;
    }
    job->remaining.offset_bytes += out_piece->size_bytes;
    job->remaining.address += out_piece->size_bytes;
    job->remaining.size_bytes -= out_piece->size_bytes;
    return true;
}

size_t dao_file_piece_request_bytes(const dao_file_piece_t *piece)
{
    return dao_fault_fires(DAO_FAULT_FILE_SHORT) ? (piece->size_bytes + 1) / 2 : piece->size_bytes;
}

int dao_file_fault(dao_file_direction_t direction)
{
    if (direction == DAO_FILE_READ) {
        return dao_fault_fires(DAO_FAULT_FILE_READ) ? EIO : 0;
    }
    return dao_fault_fires(DAO_FAULT_FILE_WRITE) ? ENOSPC : 0;
}

bool dao_file_job_complete(dao_file_job_t *job, dao_file_piece_t *piece, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN) {
        return job->error == 0;
    }
    if (result <= 0) { /* 0: beyond the end of the file, or the file takes no more */
        job->error = job->error != 0 ? job->error : result == 0 ? EIO : (int)-result;
        return false;
    }
    size_t done = (size_t)result;
    DAO_ASSERT(done <= piece->size_bytes);
    if (job->direction == DAO_FILE_READ) {
        dao_system_has_written(piece->address, done);
    }
    piece->offset_bytes += done;
    piece->address += done;
    piece->size_bytes -= done;
    return piece->size_bytes > 0 && job->error == 0;
}
