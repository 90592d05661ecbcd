/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/utf8.h"

#include <stdbool.h>
#include <stdint.h>

enum { UTF8_BYTES_MAX = 4 };

static const char unknown[] = "\xef\xbf\xbd";

/* Returns the length of the character that a text starts with; 0 if it is malformed. */
static size_t character_bytes(const unsigned char *text)
{
    static const uint32_t least[UTF8_BYTES_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80) {
        return 1;
    }
    size_t count = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    uint32_t character = text[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) { /* the closing zero ends it as well */
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (text[i] & 0x3fu);
    }
    bool is_character = text[0] >= 0xc2 && text[0] <= 0xf4 && character >= least[count] &&
                        character <= 0x10ffff && (character < 0xd800 || character > 0xdfff);
    return is_character ? count : 0;
}

size_t dao_utf8_next(const char **text, const char **out_character)
{
    if (**text == '\0') {
        return 0;
    }
    size_t count = character_bytes((const unsigned char *)*text);
    *out_character = count > 0 ? *text : unknown;
    *text += count > 0 ? count : 1;
    return count > 0 ? count : sizeof(unknown) - 1;
}
