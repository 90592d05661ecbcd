/* SPDX-License-Identifier: Apache-2.0 */
/* An unnamed file with one engine a direction. Invariant: both directions use the same kind of engine,
   io_uring or threads. */
#define _GNU_SOURCE
#include "base/files/file_threads.h"
#include "base/files/file_uring.h"
#include "base/memory/descriptor.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/report/names.h"
#include "base/threads/sync.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Where the file system has no unnamed files, the file gets a name first. */
#define NAME_PATTERN "/dao-XXXXXX"

typedef struct direction {
    dao_mutex_t lock;            /* held for the whole of a transfer */
    dao_file_uring_t *uring;     /* NULL: the threads are used */
    dao_file_threads_t *threads; /* NULL: io_uring is used */
} direction_t;

struct dao_file {
    int handle; /* -1: it is an engine alone */
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
    if (status == DAO_OK && out_engine != NULL) {
        *out_engine = (dao_file_engine_t)value;
    }
    return status;
}

/* Returns a descriptor or -1. Where the file system has no O_TMPFILE, a named file is made and unlinked at
   once. */
static int open_unnamed(const char *directory)
{
    int handle = dao_descriptor_keep(open(directory, O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
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
        (void)unlink(path); /* a refusal leaves an empty name behind, no more */
    }
    handle = dao_descriptor_keep(handle);
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

dao_status_t dao_file_engine_check(dao_file_engine_t engine)
{
    if ((int)engine < DAO_FILE_ENGINE_AUTO || engine > DAO_FILE_ENGINE_THREADS) {
        return dao_error(DAO_ERR_INVALID, "file engine %d is none; see DAO_FILE_ENGINE_LIST", (int)engine);
    }
    return DAO_OK;
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
    file->handle = directory != NULL ? open_unnamed(directory) : -1;
    dao_status_t status = DAO_OK;
    if (directory != NULL && file->handle < 0) {
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
        (void)close(file->handle); /* the file goes away: errors of its last writes do not matter */
    }
    dao_host_free(file);
}

uint64_t dao_file_free_bytes(const dao_file_t *file)
{
    struct statvfs info;
    return fstatvfs(file->handle, &info) == 0 ? (uint64_t)info.f_bavail * info.f_frsize : 0;
}

/* Runs a job by the engine of its direction. Returns 0 or an errno. */
static int run(dao_file_t *file, dao_file_job_t *job)
{
    direction_t *way = &file->directions[job->direction];
    dao_mutex_lock(&way->lock);
    if (way->uring != NULL) {
        dao_file_uring_run(way->uring, job);
    } else {
        dao_file_threads_run(way->threads, job);
    }
    dao_mutex_unlock(&way->lock);
    return job->error;
}

int dao_file_transfer(dao_file_t *file, dao_file_direction_t direction, uint64_t offset_bytes, void *address,
                      size_t size_bytes)
{
    if (direction == DAO_FILE_WRITE && dao_host_file_is_limited(offset_bytes, size_bytes)) {
        return EFBIG;
    }
    dao_file_job_t job = {
        .handle = file->handle, .direction = direction, .remaining = {offset_bytes, address, size_bytes}};
    return run(file, &job);
}

int dao_file_read_from(dao_file_t *file, int handle, uint64_t offset_bytes, void *address, size_t size_bytes)
{
    dao_file_job_t job = {
        .handle = handle, .direction = DAO_FILE_READ, .remaining = {offset_bytes, address, size_bytes}};
    return run(file, &job);
}
