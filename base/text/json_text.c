/* SPDX-License-Identifier: Apache-2.0 */
#include "base/text/json_text.h"

#include "base/text/utf8.h"

#include <string.h>

size_t dao_json_text_next(const char **text, char out_piece[DAO_JSON_PIECE_BYTES])
{
    static const char digits[] = "0123456789abcdef";
    const char *character = NULL;
    size_t count = dao_utf8_next(text, &character), before = 0;
    unsigned char byte = count > 0 ? (unsigned char)*character : 0;
    if (count == 1 && byte < ' ') {
        memcpy(out_piece, "\\u00", 4);
        out_piece[4] = digits[byte >> 4];
        out_piece[5] = digits[byte & 15];
        count = 6;
    } else if (count > 0) {
        before = byte == '"' || byte == '\\' ? 1 : 0;
        out_piece[0] = '\\';
        memcpy(out_piece + before, character, count);
    }
    out_piece[before + count] = '\0';
    return before + count;
}
