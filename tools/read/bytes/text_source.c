/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a file through one buffer, unpacking it if it begins as gzip or zstd files
   do. Only regular files: a pipe
   without a writer would hang, a directory cannot be read.

   Invariant: buffer[begin .. end) are the bytes not taken yet, and buffer[0] is at `offset`, unpacked. */
#define _GNU_SOURCE
#include "tools/read/bytes/text_source.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/report/fault.h"
#include "tools/base/progress.h"
#include "tools/read/bytes/standard_input.h"
#include "tools/read/bytes/unpack.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_PATH_BYTES = 200 };

const char *dao_text_source_name(const dao_text_source_t *source)
{
    size_t length = strlen(source->path);
    if (dao_path_is_standard_input(source->path)) {
        return "standard input";
    }
    return length > SHOWN_PATH_BYTES ? source->path + length - SHOWN_PATH_BYTES : source->path;
}

static dao_status_t check_regular(const dao_text_source_t *source)
{
    struct stat about;
    char phase[SHOWN_PATH_BYTES + 16];
    if (fstat(source->file, &about) != 0) {
        return dao_error(DAO_ERR_IO, "%s: %s", dao_text_source_name(source), strerror(errno));
    }
    if (S_ISDIR(about.st_mode)) {
        return dao_error(DAO_ERR_IO, "%s: this is a folder, not a file", dao_text_source_name(source));
    }
    if (!S_ISREG(about.st_mode)) {
        return dao_error(DAO_ERR_IO, "%s: this is not a regular file; - reads standard input",
                         dao_text_source_name(source));
    }
    (void)snprintf(phase, sizeof(phase), "reading %s", dao_text_source_name(source));
    dao_progress_phase(phase, DAO_PROGRESS_UNIT_BYTES, (uint64_t)about.st_size);
    return DAO_OK;
}

/* Reads bytes of the file as they stand in it. */
static dao_status_t read_file(void *user, unsigned char *bytes, size_t most, size_t *out_count)
{
    dao_text_source_t *source = user;
    ssize_t count;
    do {
        count = dao_fault_fires(DAO_FAULT_FILE_READ) ? (errno = EIO, -1) : read(source->file, bytes, most);
    } while (count < 0 && errno == EINTR);
    *out_count = count < 0 ? 0 : (size_t)count;
    dao_progress_add(*out_count);
    return count >= 0 ? DAO_OK
                      : dao_error(DAO_ERR_IO, "cannot read on at byte %" PRIu64 ": %s", source->offset,
                                  strerror(errno));
}

static dao_status_t fill_buffer(dao_text_source_t *source)
{
    source->offset += source->end;
    source->begin = source->end = 0;
    dao_status_t status = source->unpack == NULL
                              ? read_file(source, source->buffer, DAO_TEXT_SOURCE_BYTES, &source->end)
                              : dao_unpack_next(source->unpack, read_file, source, source->buffer,
                                                DAO_TEXT_SOURCE_BYTES, &source->end);
    if (status != DAO_OK) {
        source->end = 0;
        dao_error_prefix("%s:%" PRIu64 ":%" PRIu64 ": ", dao_text_source_name(source), source->line,
                         source->column);
    }
    return status;
}

dao_status_t dao_text_source_peek(dao_text_source_t *source, int *out_byte)
{
    if (source->begin == source->end) {
        dao_status_t status = fill_buffer(source);
        if (status != DAO_OK) {
            return status;
        }
    }
    *out_byte = source->begin == source->end ? DAO_TEXT_SOURCE_END : source->buffer[source->begin];
    return DAO_OK;
}

void dao_text_source_take(dao_text_source_t *source)
{
    unsigned char byte = source->buffer[source->begin++];
    if (byte == '\n') {
        source->line++;
        source->column = 1;
    } else if ((byte & 0xc0) != 0x80) { /* not the inside of a UTF-8 character */
        source->column++;
    }
}

dao_status_t dao_text_source_read(dao_text_source_t *source, void *out_bytes, size_t count, size_t *out_count)
{
    char *bytes = out_bytes;
    int next = 0;
    for (*out_count = 0; *out_count < count;) {
        dao_status_t status = dao_text_source_peek(source, &next);
        if (status != DAO_OK || next == DAO_TEXT_SOURCE_END) {
            return status;
        }
        size_t there = source->end - source->begin;
        size_t piece = count - *out_count < there ? count - *out_count : there;
        memcpy(bytes + *out_count, source->buffer + source->begin, piece);
        source->begin += piece;
        *out_count += piece;
    }
    return DAO_OK;
}

uint64_t dao_text_source_offset(const dao_text_source_t *source)
{
    return source->offset + source->begin;
}

static dao_status_t begin_unpacking(dao_text_source_t *source)
{
    dao_status_t status = dao_unpack_create(source->buffer, source->end, &source->unpack);
    source->end = 0;
    if (status != DAO_OK) {
        dao_error_prefix("%s: ", dao_text_source_name(source));
        return status;
    }
    return fill_buffer(source);
}

/* Fills the buffer for the first time. */
static dao_status_t begin(dao_text_source_t *source)
{
    dao_status_t status = fill_buffer(source);
    if (status == DAO_OK && dao_unpack_is_packed(source->buffer, source->end)) {
        status = begin_unpacking(source);
    }
    if (status == DAO_OK && source->end >= 3 && memcmp(source->buffer, "\xef\xbb\xbf", 3) == 0) {
        source->begin = 3; /* a byte order mark */
    }
    return status;
}

static dao_status_t open_file(dao_text_source_t *source)
{
    if (dao_path_is_standard_input(source->path)) {
        return dao_standard_input_open(&source->file);
    }
    source->file = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    return source->file >= 0 ? DAO_OK
                             : dao_error(DAO_ERR_IO, "%s: %s", dao_text_source_name(source), strerror(errno));
}

dao_status_t dao_text_source_open(dao_text_source_t *source, const char *path)
{
    *source = (dao_text_source_t){.path = path, .file = -1, .line = 1, .column = 1};
    source->buffer = dao_host_calloc(DAO_TEXT_SOURCE_BYTES, 1);
    if (source->buffer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no memory to read it", dao_text_source_name(source));
    }
    dao_status_t status = open_file(source);
    if (status == DAO_OK) {
        status = check_regular(source);
    }
    if (status == DAO_OK) {
        status = begin(source);
    }
    if (status != DAO_OK) {
        dao_text_source_close(source);
    }
    return status;
}

void dao_text_source_close(dao_text_source_t *source)
{
    if (source->file >= 0) {
        (void)close(source->file); /* it was only read */
    }
    source->file = -1;
    dao_unpack_destroy(source->unpack);
    source->unpack = NULL;
    dao_host_free(source->buffer);
    source->buffer = NULL;
}
