/* SPDX-License-Identifier: Apache-2.0 */
/* Sources: an open file, or memory.

       offset                                                      offset + size
       |  head  | middle: whole blocks ...                | tail  |
        cached    past the cache, where that is wanted      cached

   Invariant: a source has either an address or an open file. */
#define _GNU_SOURCE
#include "runtime/executor/records/source.h"

#include "base/memory/available.h"
#include "base/memory/descriptor.h"
#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/core/handle.h"
#include "runtime/executor/records/drop.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct dao_source {
    dao_handle_t handle;              /* first: see dao_handle_bury(). The opener's */
    _Atomic uint32_t reference_count; /* the opener counts one; every tensor one */
    char *name;
    uint64_t size_bytes;
    const char *address;      /* of memory; else NULL */
    int file;                 /* -1: none */
    int direct;               /* the same file, past the page cache; -1: not so */
    void (*drop)(void *user); /* of memory; may be NULL */
    void *user;
};

bool dao_source_is_open(const dao_source_t *source)
{
    return atomic_load(&source->handle.reference_count) > 0;
}

void dao_source_hold(dao_source_t *source)
{
    atomic_fetch_add(&source->reference_count, 1);
}

void dao_source_drop(dao_source_t *source)
{
    if (atomic_fetch_sub(&source->reference_count, 1) != 1) {
        return;
    }
    DAO_ASSERT((source->address == NULL) == (source->file >= 0));
    if (source->file >= 0) {
        (void)close(source->file); /* it was only read */
    }
    if (source->direct >= 0) {
        (void)close(source->direct);
    }
    dao_drop_call(source->drop, source->user);
    dao_host_free(source->name);
    dao_handle_bury(&source->handle);
}

static dao_source_t *make(const char *name)
{
    dao_source_t *source = dao_host_calloc(1, sizeof(*source));
    char *copy = source != NULL ? dao_host_strdup(name) : NULL;
    if (copy == NULL) {
        dao_host_free(source);
        return NULL;
    }
    source->name = copy;
    source->file = -1;
    source->direct = -1;
    atomic_init(&source->handle.reference_count, 1);
    atomic_init(&source->reference_count, 1);
    return source;
}

/* ---- files ---- */

/* Opens the file once more, past the cache; -1 where that is not possible, or the name is another file's. */
static int open_direct(const char *path, const struct stat *file)
{
    struct stat same;
    int direct = dao_descriptor_keep(open(path, O_RDONLY | O_DIRECT | O_CLOEXEC));
    if (direct >= 0 &&
        (fstat(direct, &same) != 0 || same.st_dev != file->st_dev || same.st_ino != file->st_ino)) {
        (void)close(direct);
        direct = -1;
    }
    return direct;
}

dao_status_t dao_source_open(const char *path, dao_source_cache_t cache, dao_source_t **out_source)
{
    if (path == NULL || out_source == NULL) {
        return dao_error_null(__func__, path == NULL ? "path" : "out_source");
    }
    if (cache < DAO_SOURCE_CACHE_AUTO || cache > DAO_SOURCE_CACHE_BYPASS) {
        return dao_error(DAO_ERR_INVALID, "there is no way %d to read a source; see dao_source_cache_t",
                         (int)cache);
    }
    struct stat info;
    /* Opening a FIFO would wait. Reads of a file are to wait: io_uring of older kernels answers EAGAIN else.
     */
    int file = dao_descriptor_keep(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (file < 0 || fstat(file, &info) != 0 || (S_ISREG(info.st_mode) && fcntl(file, F_SETFL, 0) != 0)) {
        dao_status_t status =
            dao_error(DAO_ERR_IO, "the source \"%.400s\" cannot be opened: %s", path, strerror(errno));
        if (file >= 0) {
            (void)close(file);
        }
        return status;
    }
    dao_source_t *source = S_ISREG(info.st_mode) ? make(path) : NULL;
    if (source == NULL) {
        (void)close(file);
        return S_ISREG(info.st_mode)
                   ? dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the record of a source")
                   : dao_error(DAO_ERR_INVALID, "the source \"%.400s\" is no regular file", path);
    }
    source->file = file;
    source->size_bytes = (uint64_t)info.st_size;
    bool is_direct = cache == DAO_SOURCE_CACHE_AUTO ? source->size_bytes > dao_available_memory().free_bytes
                                                    : cache == DAO_SOURCE_CACHE_BYPASS;
    source->direct = is_direct ? open_direct(path, &info) : -1;
    *out_source = source;
    return DAO_OK;
}

uint64_t dao_source_present_size(const dao_source_t *source)
{
    struct stat info;
    return source->file >= 0 && fstat(source->file, &info) == 0 ? (uint64_t)info.st_size : source->size_bytes;
}

/* ---- memory ---- */

dao_status_t dao_source_adopt(const void *address, size_t size_bytes, void (*drop)(void *user), void *user,
                              dao_source_t **out_source)
{
    if (address == NULL || out_source == NULL) {
        return dao_error_null(__func__, address == NULL ? "address" : "out_source");
    }
    if (size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "a source needs at least 1 byte");
    }
    dao_source_t *source = make("memory of the program's");
    if (source == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the record of a source");
    }
    source->address = address;
    source->size_bytes = size_bytes;
    source->drop = drop;
    source->user = user;
    *out_source = source;
    return DAO_OK;
}

/* ---- both ---- */

dao_status_t dao_source_release(dao_source_t *source)
{
    bool is_last = false;
    dao_status_t status = source != NULL ? dao_handle_release(&source->handle, "source", &is_last) : DAO_OK;
    if (is_last) {
        dao_source_drop(source);
    }
    return status;
}

uint64_t dao_source_size(const dao_source_t *source)
{
    return source != NULL ? source->size_bytes : 0;
}

const char *dao_source_name(const dao_source_t *source)
{
    return source->name;
}

size_t dao_source_phase(const dao_source_t *source, uint64_t offset_bytes)
{
    return source->direct >= 0 ? (size_t)(offset_bytes % DAO_SOURCE_BLOCK_BYTES) : 0;
}

/* Reads what of some bytes are whole blocks past the cache, if memory lies right for it, and the others
   through it. A file system may still refuse that, or what is left of a block: then the cache is used. */
static int read_direct(const dao_source_t *source, dao_file_t *engine, uint64_t offset_bytes, char *address,
                       size_t size_bytes)
{
    size_t phase = (size_t)(offset_bytes % DAO_SOURCE_BLOCK_BYTES);
    size_t head = phase == 0 ? 0 : DAO_SOURCE_BLOCK_BYTES - phase;
    if ((uintptr_t)address % DAO_SOURCE_BLOCK_BYTES != phase || size_bytes < head + DAO_SOURCE_BLOCK_BYTES) {
        return dao_file_read_from(engine, source->file, offset_bytes, address, size_bytes);
    }
    size_t middle = (size_bytes - head) / DAO_SOURCE_BLOCK_BYTES * DAO_SOURCE_BLOCK_BYTES;
    size_t end = head + middle;
    int error = dao_file_read_from(engine, source->direct, offset_bytes + head, address + head, middle);
    if (error == EINVAL) {
        return dao_file_read_from(engine, source->file, offset_bytes, address, size_bytes);
    }
    if (error == 0 && head > 0) {
        error = dao_file_read_from(engine, source->file, offset_bytes, address, head);
    }
    if (error == 0 && end < size_bytes) {
        error = dao_file_read_from(engine, source->file, offset_bytes + end, address + end, size_bytes - end);
    }
    return error;
}

int dao_source_read(const dao_source_t *source, dao_file_t *engine, uint64_t offset_bytes, void *address,
                    size_t size_bytes)
{
    DAO_ASSERT(offset_bytes <= source->size_bytes && size_bytes <= source->size_bytes - offset_bytes);
    if (source->address != NULL) {
        memcpy(address, source->address + offset_bytes, size_bytes);
        return 0;
    }
    return source->direct >= 0 ? read_direct(source, engine, offset_bytes, address, size_bytes)
                               : dao_file_read_from(engine, source->file, offset_bytes, address, size_bytes);
}
