/* SPDX-License-Identifier: Apache-2.0 */
/* Texts of a file in the quotes of another form. */
#ifndef DAO_TOOLS_PUT_TEXT_H
#define DAO_TOOLS_PUT_TEXT_H

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
    (void)fputc('"', file);
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (byte < ' ') {
            (void)fprintf(file, "\\u%04x", byte);
        } else {
            (void)fprintf(file, byte == '"' || byte == '\\' ? "\\%c" : "%c", byte);
        }
    }
    (void)fputc('"', file);
}

#endif
