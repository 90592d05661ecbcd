/* SPDX-License-Identifier: Apache-2.0 */
/* A file in memory, for targets of what reads files by their path. */
#ifndef DAO_TESTS_FUZZ_FUZZ_FILE_H
#define DAO_TESTS_FUZZ_FUZZ_FILE_H

#include "tests/fuzz/fuzz.h"

enum { FUZZ_PATH_BYTES = 64 };

typedef struct fuzz_file {
    int descriptor;
    char path[FUZZ_PATH_BYTES]; /* what it is opened by */
} fuzz_file_t;

fuzz_file_t fuzz_file_begin(void);
void fuzz_file_end(const fuzz_file_t *file);

/* Empties it, then writes what an input is. The next byte says what the others are: the bytes of the file;
   words of it, a byte each, so that what looks like a file is found soon; or those, packed by gzip. `words`
   ends with NULL. */
void fuzz_file_fill(const fuzz_file_t *file, fuzz_input_t *input, const char *const *words);

/* Makes these bytes all that is in it. */
void fuzz_file_put(const fuzz_file_t *file, const void *bytes, size_t size_bytes);

#endif
