/* SPDX-License-Identifier: Apache-2.0 */
/* A file and its two directions. Invariant: of both engines one is there in both directions. */
#define _GNU_SOURCE
#include "base/files/file_internal.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "base/report/names.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Of a file that has to be made with a name first. */
#define NAME_PATTERN "/dao-XXXXXX"

static_assert((DAO_FILE_DEPTH & (DAO_FILE_DEPTH - 1)) == 0, "rings have a power of two of entries");

typedef struct direction {
    dao_mutex_t lock;            /* held over a transfer */
    dao_file_uring_t *uring;     /* or */
    dao_file_threads_t *threads; /* the one that is used */
} direction_t;

struct dao_file {
    int handle;
    direction_t directions[DAO_FILE_DIRECTION_COUNT];
};

static const dao_named_t engines[] = {
#define ENGINE_ROW(number, symbol, name, meaning) {name, DAO_FILE_ENGINE_##symbol},
    DAO_FILE_ENGINE_LIST(ENGINE_ROW)
#undef ENGINE_ROW
        {NULL, 0}};

const char *dao_file_engine_name(dao_file_engine_t engine)
{
    return dao_name_of(engines, (int)engine);
}

dao_status_t dao_file_engine_parse(const char *text, dao_file_engine_t *out_engine)
{
    int value;
    dao_status_t status =
        dao_name_parse(engines, "engine for files", text, out_engine != NULL ? &value : NULL);
    if (status == DAO_OK) {
        *out_engine = (dao_file_engine_t)value;
    }
    return status;
}

/* ---- pieces ---- */

bool dao_file_job_cut(dao_file_job_t *job, dao_file_piece_t *out_piece)
{
    if (job->rest.size_bytes == 0 || job->error != 0) {
        return false;
    }
    *out_piece = job->rest;
    if (out_piece->size_bytes > DAO_FILE_PIECE_BYTES) {
        out_piece->size_bytes = DAO_FILE_PIECE_BYTES;
    }
    job->rest.offset_bytes += out_piece->size_bytes;
    job->rest.address += out_piece->size_bytes;
    job->rest.size_bytes -= out_piece->size_bytes;
    return true;
}

size_t dao_file_piece_ask(const dao_file_piece_t *piece)
{
    return dao_fault_fires(DAO_FAULT_FILE_SHORT) ? (piece->size_bytes + 1) / 2 : piece->size_bytes;
}

int dao_file_piece_refusal(dao_file_direction_t direction)
{
    if (direction == DAO_FILE_READ) {
        return dao_fault_fires(DAO_FAULT_FILE_READ) ? EIO : 0;
    }
    return dao_fault_fires(DAO_FAULT_FILE_WRITE) ? ENOSPC : 0;
}

bool dao_file_job_came(dao_file_job_t *job, dao_file_piece_t *piece, int64_t result)
{
    if (result == -EINTR || result == -EAGAIN) {
        return job->error == 0;
    }
    if (result <= 0) { /* 0: the file ends before the bytes do, or takes none */
        job->error = job->error != 0 ? job->error : result == 0 ? EIO : (int)-result;
        return false;
    }
    size_t done = (size_t)result;
    DAO_ASSERT(done <= piece->size_bytes);
    piece->offset_bytes += done;
    piece->address += done;
    piece->size_bytes -= done;
    return piece->size_bytes > 0 && job->error == 0;
}

/* ---- files ---- */

/* Without a name from the start where the file system can do that, else the name goes at once. */
static int open_unnamed(const char *directory)
{
    int handle = open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (handle >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) {
        return handle;
    }
    size_t path_bytes = strlen(directory) + sizeof(NAME_PATTERN);
    char *path = dao_host_calloc(1, path_bytes);
    if (path == NULL) {
        errno = ENOMEM;
        return -1;
    }
    (void)snprintf(path, path_bytes, "%s%s", directory, NAME_PATTERN);
    handle = mkostemp(path, O_CLOEXEC);
    if (handle >= 0) {
        (void)unlink(path); /* it could only outlive us */
    }
    int error = errno;
    dao_host_free(path);
    errno = error;
    return handle;
}

static dao_status_t create_urings(dao_file_t *file)
{
    dao_status_t status = DAO_OK;
    for (int i = 0; status == DAO_OK && i < DAO_FILE_DIRECTION_COUNT; i++) {
        status = dao_file_uring_create(&file->directions[i].uring);
    }
    return status;
}

static void destroy_engines(dao_file_t *file)
{
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_file_uring_destroy(file->directions[i].uring);
        dao_file_threads_destroy(file->directions[i].threads);
        file->directions[i].uring = NULL;
        file->directions[i].threads = NULL;
    }
}

static dao_status_t create_engine(dao_file_t *file, dao_file_engine_t engine)
{
    dao_status_t status = DAO_ERR_UNSUPPORTED;
    if (engine != DAO_FILE_ENGINE_THREADS) {
        status = create_urings(file);
        if (status == DAO_OK || engine == DAO_FILE_ENGINE_URING) {
            return status;
        }
        destroy_engines(file);
    }
    status = DAO_OK;
    for (int i = 0; status == DAO_OK && i < DAO_FILE_DIRECTION_COUNT; i++) {
        status = dao_file_threads_create(&file->directions[i].threads);
    }
    return status;
}

dao_status_t dao_file_create(const char *directory, dao_file_engine_t engine, dao_file_t **out_file)
{
    dao_file_t *file = dao_host_calloc(1, sizeof(*file));
    if (file == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for a file's record");
    }
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_mutex_init(&file->directions[i].lock, DAO_RANK_BACKEND);
    }
    file->handle = open_unnamed(directory);
    dao_status_t status = DAO_OK;
    if (file->handle < 0) {
        status = dao_error(errno == ENOMEM ? DAO_ERR_NO_HOST_MEMORY : DAO_ERR_IO,
                           "no file can be made in \"%.200s\": %s", directory, strerror(errno));
    } else {
        status = create_engine(file, engine);
    }
    if (status != DAO_OK) {
        dao_file_destroy(file);
        return status;
    }
    *out_file = file;
    return DAO_OK;
}

void dao_file_destroy(dao_file_t *file)
{
    if (file == NULL) {
        return;
    }
    destroy_engines(file);
    for (int i = 0; i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_mutex_finish(&file->directions[i].lock);
    }
    if (file->handle >= 0) {
        (void)close(file->handle); /* what it could report, nobody needs any more */
    }
    dao_host_free(file);
}

uint64_t dao_file_free_bytes(const dao_file_t *file)
{
    struct statvfs info;
    return fstatvfs(file->handle, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

/* Whether a write would go beyond what the process may write to a file: the system answers that with a signal
   that ends it. */
static bool is_beyond_limit(uint64_t offset_bytes, size_t size_bytes)
{
    struct rlimit most;
    return getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur != RLIM_INFINITY &&
           (offset_bytes > most.rlim_cur || size_bytes > most.rlim_cur - offset_bytes);
}

int dao_file_transfer(dao_file_t *file, dao_file_direction_t direction, uint64_t offset_bytes, void *address,
                      size_t size_bytes)
{
    if (direction == DAO_FILE_WRITE && is_beyond_limit(offset_bytes, size_bytes)) {
        return EFBIG;
    }
    direction_t *way = &file->directions[direction];
    dao_file_job_t job = {
        .handle = file->handle, .direction = direction, .rest = {offset_bytes, address, size_bytes}};
    dao_mutex_lock(&way->lock);
    if (way->uring != NULL) {
        dao_file_uring_run(way->uring, &job);
    } else {
        dao_file_threads_run(way->threads, &job);
    }
    dao_mutex_unlock(&way->lock);
    return job.error;
}
