/* SPDX-License-Identifier: Apache-2.0 */
/* Texts in the quotes of another form, and times in its units. */
#ifndef DAO_TOOLS_PUT_TEXT_H
#define DAO_TOOLS_PUT_TEXT_H

#include "base/text/json_text.h"

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Writes a field of CSV, in quotes where it needs them. It has no end of a line. */
static inline void dao_put_csv(FILE *file, const char *text)
{
    if (strpbrk(text, ",;\"") == NULL) {
        (void)fputs(text, file);
        return;
    }
    (void)fputc('"', file);
    for (const char *at = text; *at != '\0'; at++) {
        (void)fputs(*at == '"' ? "\"\"" : (const char[]){*at, '\0'}, file);
    }
    (void)fputc('"', file);
}

/* Writes a text of JSON with its quotes. */
static inline void dao_put_json(FILE *file, const char *text)
{
    char piece[DAO_JSON_PIECE_BYTES];
    (void)fputc('"', file);
    for (size_t count; (count = dao_json_text_next(&text, piece)) > 0;) {
        (void)fwrite(piece, 1, count, file);
    }
    (void)fputc('"', file);
}

/* Writes the duration of a slice of Chrome's trace, in microseconds. Readers add it to the begin as doubles;
   where their sum would lie behind the end, and so behind the begin of the next slice, it is 1 ns less:
   Speedscope draws a slice that begins before the one before has ended inside of that one. */
static inline void dao_put_duration(FILE *file, uint64_t begin_ns, uint64_t end_ns)
{
    uint64_t length_ns = end_ns - begin_ns;
    if (length_ns > 0 && (double)begin_ns / 1000 + (double)length_ns / 1000 > (double)end_ns / 1000) {
        length_ns--;
    }
    (void)fprintf(file, ",\"dur\":%" PRIu64 ".%03u", length_ns / 1000, (unsigned)(length_ns % 1000));
}

#endif
