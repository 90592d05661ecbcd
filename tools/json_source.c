/* Reads a file through one buffer. Only regular files: a pipe without a writer would hang, a directory cannot be read.
   Invariant: buffer[begin .. end) are the bytes not taken yet, and buffer[0] is at `offset`. */
#define _GNU_SOURCE
#include "tools/json_source.h"

#include "base/error.h"
#include "base/fault.h"
#include "base/host.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SHOWN_PATH_BYTES = 200 };

const char *dao_json_source_name(const dao_json_source_t *source)
{
    size_t length = strlen(source->path);
    return length > SHOWN_PATH_BYTES ? source->path + length - SHOWN_PATH_BYTES : source->path;
}

static dao_status_t check_regular(const dao_json_source_t *source)
{
    struct stat about;
    if (fstat(source->file, &about) != 0) {
        return dao_error(DAO_ERR_IO, "%s: %s", dao_json_source_name(source), strerror(errno));
    }
    if (S_ISDIR(about.st_mode)) {
        return dao_error(DAO_ERR_IO, "%s: this is a folder, not a file", dao_json_source_name(source));
    }
    if (!S_ISREG(about.st_mode)) {
        return dao_error(DAO_ERR_IO, "%s: this is not a regular file", dao_json_source_name(source));
    }
    return DAO_OK;
}

static dao_status_t fill_buffer(dao_json_source_t *source)
{
    source->offset += source->end;
    source->begin = source->end = 0;
    ssize_t count;
    do {
        count = dao_fault_fires(DAO_FAULT_FILE_READ)
                    ? (errno = EIO, -1)
                    : read(source->file, source->buffer, DAO_JSON_SOURCE_BYTES);
    } while (count < 0 && errno == EINTR);
    if (count < 0) {
        return dao_error(DAO_ERR_IO, "%s:%" PRIu64 ":%" PRIu64 ": cannot read on at byte %" PRIu64 ": %s",
                         dao_json_source_name(source), source->line, source->column, source->offset,
                         strerror(errno));
    }
    source->end = (size_t)count;
    return DAO_OK;
}

dao_status_t dao_json_source_peek(dao_json_source_t *source, int *out_byte)
{
    if (source->begin == source->end) {
        dao_status_t status = fill_buffer(source);
        if (status != DAO_OK) {
            return status;
        }
    }
    *out_byte = source->begin == source->end ? DAO_JSON_SOURCE_END : source->buffer[source->begin];
    return DAO_OK;
}

void dao_json_source_take(dao_json_source_t *source)
{
    unsigned char byte = source->buffer[source->begin++];
    if (byte == '\n') {
        source->line++;
        source->column = 1;
    } else if ((byte & 0xc0) != 0x80) { /* not the inside of a UTF-8 character */
        source->column++;
    }
}

static dao_status_t skip_byte_order_mark(dao_json_source_t *source)
{
    dao_status_t status = fill_buffer(source);
    if (status == DAO_OK && source->end >= 3 && memcmp(source->buffer, "\xef\xbb\xbf", 3) == 0) {
        source->begin = 3;
    }
    return status;
}

dao_status_t dao_json_source_open(dao_json_source_t *source, const char *path)
{
    *source = (dao_json_source_t){.path = path, .file = -1, .line = 1, .column = 1};
    source->buffer = dao_host_calloc(DAO_JSON_SOURCE_BYTES, 1);
    if (source->buffer == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no memory to read it", dao_json_source_name(source));
    }
    source->file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    dao_status_t status = DAO_OK;
    if (source->file < 0) {
        status = dao_error(DAO_ERR_IO, "%s: %s", dao_json_source_name(source), strerror(errno));
    }
    if (status == DAO_OK) {
        status = check_regular(source);
    }
    if (status == DAO_OK) {
        status = skip_byte_order_mark(source);
    }
    if (status != DAO_OK) {
        dao_json_source_close(source);
    }
    return status;
}

void dao_json_source_close(dao_json_source_t *source)
{
    if (source->file >= 0) {
        (void)close(source->file); /* it was only read */
    }
    source->file = -1;
    dao_host_free(source->buffer);
    source->buffer = NULL;
}
