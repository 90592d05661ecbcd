/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/printable.h"

#include "base/text/utf8.h"

#include <stdbool.h>

/* C0, DEL, and C1: 0x80 to 0x9f. */
static bool is_control(const unsigned char *character)
{
    return character[0] < ' ' || character[0] == 0x7f || (character[0] == 0xc2 && character[1] < 0xa0);
}

void dao_make_printable(char *text)
{
    while (*text != '\0') {
        if (*text >= ' ' && *text < 0x7f) { /* most characters of most texts: a refusal should stay cheap */
            text++;
            continue;
        }
        const char *next = text;
        const char *character = NULL;
        size_t count = dao_utf8_next(&next, &character);
        if (character != text || is_control((const unsigned char *)text)) {
            *text = '?';
            count = 1;
        }
        text += count;
    }
}
