/* SPDX-License-Identifier: Apache-2.0 */
#include "base/report/step_form.h"

#include <inttypes.h>
#include <stdbool.h>

enum {
    LETTER_BYTES_MAX = 4, /* of UTF-8, or three for %XX */
    SIGN_BYTES_MAX = 16,  /* such as "name=" */
};

static bool is_inside_letter(unsigned char byte)
{
    return (byte & 0xc0) == 0x80;
}

/* Writes a text as a word of at most so many bytes. */
static void put(FILE *file, const char *text, size_t room)
{
    for (const char *at = text; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;
        if (room < (is_inside_letter(byte) ? 1 : LETTER_BYTES_MAX)) {
            return;
        }
        if (byte <= ' ' || byte == '%' || byte == 0x7f) {
            (void)fprintf(file, "%%%02X", byte);
            room -= 3;
        } else {
            (void)fputc(byte, file);
            room--;
        }
    }
}

void dao_step_form_put_word(FILE *file, const char *text)
{
    put(file, text, SIZE_MAX);
}

void dao_step_form_put_name(FILE *file, const char *text)
{
    put(file, text, DAO_STEP_WORD_BYTES_MAX - SIGN_BYTES_MAX);
}

void dao_step_form_put_us(FILE *file, uint64_t ns)
{
    unsigned rest = (unsigned)(ns % 1000);
    (void)fprintf(file, "%" PRIu64, ns / 1000);
    if (rest != 0) {
        int places = rest % 100 == 0 ? 1 : rest % 10 == 0 ? 2 : 3;
        (void)fprintf(file, ".%0*u", places, places == 1 ? rest / 100 : places == 2 ? rest / 10 : rest);
    }
}
