/* SPDX-License-Identifier: Apache-2.0 */
/* A strict reader of files that are lines of fields. It does not trust its input: lines and fields are
   limited, a NUL is refused, numbers are exact, and every error is one line `FILE:LINE:COLUMN: what`. A field
   may stand in quotes, which end on its line; blanks around it are no part of it. */
#ifndef DAO_TOOLS_CSV_READER_H
#define DAO_TOOLS_CSV_READER_H

#include "base/report/format.h"
#include "tools/read/bytes/text_source.h"

enum {
    DAO_CSV_LINE_BYTES_MAX = 64 * 1024,
    DAO_CSV_FIELD_COUNT_MAX = 32,
};

typedef struct dao_csv_reader {
    dao_text_source_t source;
    /* ',', ';', tab: between two of them is a field; ' ': fields are between blanks; 0: the first line
       decides */
    char separator;
    uint64_t line; /* of the fields, from 1 */
    char *text;    /* the line, cut into its fields by zeros */
    size_t text_length;
    char *fields[DAO_CSV_FIELD_COUNT_MAX]; /* in `text` */
    size_t field_count;
} dao_csv_reader_t;

/* Opens a file, packed by gzip or not. On failure nothing is to be closed. */
DAO_NODISCARD dao_status_t dao_csv_open(dao_csv_reader_t *reader, const char *path, char separator);
void dao_csv_close(dao_csv_reader_t *reader);

/* Takes the next line; while the first one is to decide on the separator, one of blanks, or with a remark
   behind #, is stepped over. False in *out_more: the file has ended. An empty line has one empty field, or
   none between blanks. DAO_ERR_PARSE, DAO_ERR_IO, DAO_ERR_NO_HOST_MEMORY: reading cannot go on. */
DAO_NODISCARD dao_status_t dao_csv_next(dao_csv_reader_t *reader, bool *out_more);

/* Answers DAO_ERR_PARSE with a message `FILE:LINE:COLUMN: ...` at a field of the line; field_count: behind
   the last. */
DAO_PRINTF(3, 4)
dao_status_t dao_csv_error(const dao_csv_reader_t *reader, size_t field, const char *format, ...);

/* The same at a byte of the line. */
DAO_PRINTF(3, 4)
dao_status_t dao_csv_error_at(const dao_csv_reader_t *reader, const char *at, const char *format, ...);

/* Reads a field as a whole number from 0 to 2^64 - 1; `what` is what it is called in messages. */
DAO_NODISCARD dao_status_t dao_csv_u64(const dao_csv_reader_t *reader, size_t field, const char *what,
                                       uint64_t *out_value);

/* Reads the digits at *at, which is moved behind them. */
DAO_NODISCARD dao_status_t dao_csv_digits(const dao_csv_reader_t *reader, const char **at, const char *what,
                                          uint64_t *out_value);

#endif
