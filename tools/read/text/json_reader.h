/* SPDX-License-Identifier: Apache-2.0 */
/* A strict pull reader of JSON files: gives token after token and keeps no more than the open containers. It
   does not trust its input: nesting is limited and takes no C stack, numbers stay text until they are read
   exactly, keys are unique, strings are UTF-8 without NUL, and every error is one line `FILE:LINE:COLUMN:
   what`.

   It is our own, rather than json-c's tokener behind a splitter, because errors need the place of each token,
   sizes need all 64 bits without a look through a double, and json-c keeps the last of two equal keys without
   a word. json-c writes what the tool prints. */
#ifndef DAO_TOOLS_JSON_READER_H
#define DAO_TOOLS_JSON_READER_H

#include "base/report/format.h"
#include "tools/base/id_map.h"
#include "tools/read/bytes/text_source.h"

/* Deepest nesting of arrays and objects. */
#define DAO_JSON_DEPTH_MAX 64

/* Longest string or number, in bytes. */
#define DAO_JSON_TEXT_MAX ((size_t)1 << 20)

typedef enum dao_json_token {
    DAO_JSON_TOKEN_OBJECT_BEGIN = 0,
    DAO_JSON_TOKEN_OBJECT_END = 1,
    DAO_JSON_TOKEN_ARRAY_BEGIN = 2,
    DAO_JSON_TOKEN_ARRAY_END = 3,
    DAO_JSON_TOKEN_KEY = 4, /* its colon is taken as well */
    DAO_JSON_TOKEN_STRING = 5,
    DAO_JSON_TOKEN_NUMBER = 6, /* text is as it stands in the file */
    DAO_JSON_TOKEN_TRUE = 7,
    DAO_JSON_TOKEN_FALSE = 8,
    DAO_JSON_TOKEN_NULL = 9,
    DAO_JSON_TOKEN_END = 10, /* of the file */
} dao_json_token_t;

/* A place in a file. */
typedef struct dao_json_position {
    uint64_t line;
    uint64_t column;
} dao_json_position_t;

typedef struct dao_json_reader {
    dao_text_source_t source;
    dao_json_token_t token;       /* the last one */
    dao_json_position_t position; /* where it begins */
    char *text;                   /* of a key, string or number, closed by a zero */
    size_t text_length;
    size_t text_capacity;
    uint32_t depth;
    uint64_t object_bits;                  /* bit d: the container at depth d + 1 is an object */
    int expected;                          /* what may come next, see json_reader.c */
    dao_id_map_t keys[DAO_JSON_DEPTH_MAX]; /* of the open objects: key -> where it stands */
} dao_json_reader_t;

/* Opens a file. On failure nothing is to be closed. */
DAO_NODISCARD dao_status_t dao_json_reader_open(dao_json_reader_t *reader, const char *path);
void dao_json_reader_close(dao_json_reader_t *reader);

/* Takes the next token. DAO_ERR_PARSE, DAO_ERR_IO, DAO_ERR_NO_HOST_MEMORY: reading cannot go on. */
DAO_NODISCARD dao_status_t dao_json_next(dao_json_reader_t *reader);

/* For files of several values, one behind the other (JSON lines): between two of them, steps on to the next
   one, or tells that the file has ended. The error is that of reading. */
DAO_NODISCARD dao_status_t dao_json_next_document(dao_json_reader_t *reader, bool *out_more);

/* Takes the next token, which has to be `wanted`; `what` says for the message what is expected, "a list of
   ids". */
DAO_NODISCARD dao_status_t dao_json_expect(dao_json_reader_t *reader, dao_json_token_t wanted,
                                           const char *what);

/* Steps over the rest of the value that the last token began. */
DAO_NODISCARD dao_status_t dao_json_skip(dao_json_reader_t *reader);

/* Reads the last token, a number, as a whole number from 0 to 2^64 - 1, never through a double. */
DAO_NODISCARD dao_status_t dao_json_u64(const dao_json_reader_t *reader, uint64_t *out_value);

/* Reads the last token, a decimal number of milliseconds, as nanoseconds, rounded to the nearest. */
DAO_NODISCARD dao_status_t dao_json_ms_as_ns(const dao_json_reader_t *reader, uint64_t *out_ns);

/* Answers `status` with a message `FILE:LINE:COLUMN: ...` at a position. */
DAO_PRINTF(4, 5)
dao_status_t dao_json_error_at(const dao_json_reader_t *reader, dao_json_position_t position,
                               dao_status_t status, const char *format, ...);

/* The same, DAO_ERR_PARSE, at the last token. */
DAO_PRINTF(2, 3) dao_status_t dao_json_error(const dao_json_reader_t *reader, const char *format, ...);

/* Puts `FILE:LINE:COLUMN: ` before the message of an error of others. Returns the status. */
dao_status_t dao_json_prefix(const dao_json_reader_t *reader, dao_json_position_t position,
                             dao_status_t status);

/* Returns what the file is called in messages. */
const char *dao_json_name(const dao_json_reader_t *reader);

/* What a token is called in messages. */
const char *dao_json_token_text(dao_json_token_t token);

/* Bytes that hold any quoted text, the closing zero included. */
#define DAO_JSON_QUOTE_BYTES 64

/* Writes text from a file so that it can stand in a message: what is not plain is replaced, the rest of it
   cut. */
const char *dao_json_quote(const char *text, char out_quoted[DAO_JSON_QUOTE_BYTES]);

#if defined(__clang_analyzer__) && !defined(DAO_JSON_READER_IS_DEFINED_HERE) /* as in base/report/error.h */
#define dao_json_error(reader, ...) ((void)dao_json_error(reader, __VA_ARGS__), DAO_ERR_PARSE)
#endif

#endif
