/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 has it: the shortest form of a character, and no surrogates. */
#include "base/report/printable.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { UTF8_BYTES_MAX = 4 };

/* Gives the bytes of the character that a text begins with; 0 if it is none, or one that cannot be printed.
   */
static size_t character_bytes(const unsigned char *text)
{
    static const uint32_t least[UTF8_BYTES_MAX + 1] = {0, 0, 0x80, 0x800, 0x10000};
    if (text[0] < 0x80) {
        return text[0] >= ' ' && text[0] != 0x7f ? 1 : 0;
    }
    size_t count = text[0] >= 0xf0 ? 4 : text[0] >= 0xe0 ? 3 : 2;
    uint32_t character = text[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) { /* ends at the closing zero, too */
        if ((text[i] & 0xc0) != 0x80) {
            return 0;
        }
        character = character << 6 | (text[i] & 0x3fu);
    }
    bool is_character = text[0] >= 0xc2 && text[0] <= 0xf4 && character >= least[count] &&
                        character <= 0x10ffff && (character < 0xd800 || character > 0xdfff);
    bool is_control = character < 0xa0; /* the second page of them, from 0x80 */
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
