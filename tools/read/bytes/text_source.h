/* SPDX-License-Identifier: Apache-2.0 */
/* The bytes of a file, one after the other, with the line and column of each. A file packed by gzip
   or zstd is unpacked. The path "-" stands for standard input, which can be opened several times. */
#ifndef DAO_TOOLS_TEXT_SOURCE_H
#define DAO_TOOLS_TEXT_SOURCE_H

#include <dao/status.h>

enum { DAO_TEXT_SOURCE_BYTES = 64 * 1024 };

typedef struct dao_text_source {
    const char *path; /* borrowed */
    int file;         /* -1: not open */
    uint64_t line;    /* of the next byte, from 1 */
    uint64_t column;  /* in characters, from 1 */
    uint64_t offset;  /* of buffer[0] in the file */
    size_t begin;     /* the next byte is buffer[begin] */
    size_t end;
    unsigned char *buffer;
    struct dao_unpack *unpack; /* NULL: the file is not packed */
} dao_text_source_t;

/* What dao_text_source_peek() gives at the file's end. */
#define DAO_TEXT_SOURCE_END (-1)

/* Opens a regular file and steps over a byte order mark. DAO_ERR_IO with the reason for anything else; what
   unpacking answers. */
DAO_NODISCARD dao_status_t dao_text_source_open(dao_text_source_t *source, const char *path);
void dao_text_source_close(dao_text_source_t *source);

/* Returns the next byte without taking it, or DAO_TEXT_SOURCE_END. DAO_ERR_IO when the file cannot be read,
   DAO_ERR_PARSE when it cannot be unpacked. */
DAO_NODISCARD dao_status_t dao_text_source_peek(dao_text_source_t *source, int *out_byte);

/* Takes the byte that peek gave. */
void dao_text_source_take(dao_text_source_t *source);

/* Takes `count` bytes, or all there are; for files that are no text: lines and columns are not counted. */
DAO_NODISCARD dao_status_t dao_text_source_read(dao_text_source_t *source, void *out_bytes, size_t count,
                                                size_t *out_count);

/* Takes `count` bytes where they lie, if they are all in the buffer; else NULL, and nothing is taken. They
   are good until the next call. */
static inline const unsigned char *dao_text_source_here(dao_text_source_t *source, size_t count)
{
    if (source->end - source->begin < count) {
        return NULL;
    }
    source->begin += count;
    return source->buffer + source->begin - count;
}

/* Returns where the next byte stands in the file, unpacked. */
uint64_t dao_text_source_offset(const dao_text_source_t *source);

/* The path as it stands in messages: its end, if it is long; "standard input" for "-". */
const char *dao_text_source_name(const dao_text_source_t *source);

#endif
