/* SPDX-License-Identifier: Apache-2.0 */
/* Files in memory, and what is written into them. */
#define _GNU_SOURCE
#include "tests/fuzz/fuzz_file.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

enum { WORDS_BYTES = 1 << 15, GZIP_WINDOW_BITS = 15 + 16 /* zlib.h: 16 more for a gzip header */ };

fuzz_file_t fuzz_file_begin(void)
{
    fuzz_file_t file = {.descriptor = memfd_create("fuzz", MFD_CLOEXEC)};
    FUZZ_REQUIRE(file.descriptor >= 0);
    (void)snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.descriptor);
    return file;
}

void fuzz_file_end(const fuzz_file_t *file)
{
    (void)close(file->descriptor);
}

void fuzz_file_put(const fuzz_file_t *file, const void *bytes, size_t size_bytes)
{
    FUZZ_REQUIRE(ftruncate(file->descriptor, 0) == 0);
    FUZZ_REQUIRE(pwrite(file->descriptor, bytes, size_bytes, 0) == (ssize_t)size_bytes);
}

/* Packs, with as little search as there is: what is looked for is in the reader. */
static void put_packed(const fuzz_file_t *file, char *bytes, size_t size_bytes)
{
    static unsigned char packed[2 * WORDS_BYTES];
    z_stream stream = {.next_in = (unsigned char *)bytes,
                       .avail_in = (unsigned)size_bytes,
                       .next_out = packed,
                       .avail_out = sizeof(packed)};
    FUZZ_REQUIRE(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS, 8, Z_DEFAULT_STRATEGY) ==
                 Z_OK);
    FUZZ_REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    fuzz_file_put(file, packed, stream.total_out);
    FUZZ_REQUIRE(deflateEnd(&stream) == Z_OK);
}

void fuzz_file_fill(const fuzz_file_t *file, fuzz_input_t *input, const char *const *words)
{
    static char text[WORDS_BYTES];
    uint32_t form = fuzz_byte(input), word_count = 0;
    size_t length = 0;
    if (form % 2 == 0) {
        fuzz_file_put(file, input->next, input->left);
        return;
    }
    while (words[word_count] != NULL) {
        word_count++;
    }
    while (input->left > 0) {
        const char *word = words[fuzz_byte(input) % word_count];
        size_t word_bytes = strlen(word);
        if (word_bytes > sizeof(text) - length) {
            break;
        }
        memcpy(text + length, word, word_bytes);
        length += word_bytes;
    }
    if (form % 16 == 15) {
        put_packed(file, text, length);
    } else {
        fuzz_file_put(file, text, length);
    }
}
