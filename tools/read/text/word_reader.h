/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of files that are lines of words with spaces between them. It does not trust its input:
   words are limited, a NUL is refused, numbers are exact, and every error is one line
   `FILE:LINE:COLUMN: what`, where the last word began. */
#ifndef DAO_TOOLS_WORD_READER_H
#define DAO_TOOLS_WORD_READER_H

#include "base/report/format.h"
#include "base/report/step_form.h"
#include "tools/read/bytes/text_source.h"

/* The most that a reader may allow a word to have. */
enum { DAO_WORD_BYTES_MAX = DAO_STEP_WORD_BYTES_MAX };

typedef struct dao_word_reader {
    dao_text_source_t source;
    size_t word_bytes_max; /* of this reader */
    uint64_t line, column; /* of the last word */
    char word[DAO_WORD_BYTES_MAX + 1];
    size_t word_length; /* 0: the line had no more words */
} dao_word_reader_t;

/* Opens a file. On failure nothing is to be closed. word_bytes_max is at most DAO_WORD_BYTES_MAX. */
DAO_NODISCARD dao_status_t dao_word_open(dao_word_reader_t *reader, const char *path, size_t word_bytes_max);
void dao_word_close(dao_word_reader_t *reader);

/* Answers `status` with a message `FILE:LINE:COLUMN: ...` at the last word. */
DAO_PRINTF(3, 4)
dao_status_t dao_word_error(const dao_word_reader_t *reader, dao_status_t status, const char *format, ...);

/* Puts the last word's place before the last message, unless `status` is DAO_OK. Returns `status`. */
dao_status_t dao_word_place(const dao_word_reader_t *reader, dao_status_t status);

/* Takes the next word of the line; it is empty at the line's end. */
DAO_NODISCARD dao_status_t dao_word_next(dao_word_reader_t *reader);

/* Takes what is left of the line; it may be empty. */
DAO_NODISCARD dao_status_t dao_word_rest(dao_word_reader_t *reader);

/* Takes a word that has to be there; `what` says for the message what is expected, "a size in bytes". */
DAO_NODISCARD dao_status_t dao_word_take(dao_word_reader_t *reader, const char *what);

/* Reads whole digits from `text`, in the last word, up to `end`. */
DAO_NODISCARD dao_status_t dao_word_parse_u64(const dao_word_reader_t *reader, const char *text, char end,
                                              const char *what, uint64_t *out_value);

/* Takes a word of whole digits. */
DAO_NODISCARD dao_status_t dao_word_take_u64(dao_word_reader_t *reader, const char *what,
                                             uint64_t *out_value);

/* Reads a duration in microseconds, with or without a point, as whole nanoseconds. */
DAO_NODISCARD dao_status_t dao_word_parse_us(const dao_word_reader_t *reader, const char *text,
                                             uint64_t *out_ns);

/* Takes the end of the line, with a carriage return before it or not; at the file's end too. */
DAO_NODISCARD dao_status_t dao_word_end_line(dao_word_reader_t *reader);

/* Only empty lines may follow. */
DAO_NODISCARD dao_status_t dao_word_end_file(dao_word_reader_t *reader);

#endif
