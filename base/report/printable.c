/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 defines it: shortest forms only, no surrogates. */
#include "base/report/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_BYTES_MAX = 4 };

/* Returns the length of the character that a text starts with; 0 if it is malformed or a control
   character. */
static size_t character_bytes(const unsigned char *text)
{
    static const uint32_t least[UTF8_BYTES_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80) {
        return text[0] >= ' ' && text[0] != 0x7f ? 1 : 0;
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
    bool is_control = character < 0xa0; /* C1 controls, 0x80 to 0x9f */
    return is_character && !is_control ? count : 0;
}

void dao_make_printable(char *text)
{
    while (*text != '\0') {
        size_t count = character_bytes((const unsigned char *)text);
        if (count == 0) {
            *text = '?';
        }
        text += count > 0 ? count : 1;
    }
}
