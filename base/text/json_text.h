/* SPDX-License-Identifier: Apache-2.0 */
/* How a text stands between the quotes of JSON. All that write JSON themselves write it so. */
#ifndef DAO_BASE_JSON_TEXT_H
#define DAO_BASE_JSON_TEXT_H

#include <stddef.h>

/* The longest piece, \u001f, and a closing zero. */
#define DAO_JSON_PIECE_BYTES 7

/* Writes the next character of a text as JSON has it, and goes behind it: quotes, backslashes and control
   characters are escaped, a byte that is no part of a whole character of UTF-8 is U+FFFD. Returns how many
   bytes the piece has, without its closing zero; 0 at the end of the text. */
size_t dao_json_text_next(const char **text, char out_piece[DAO_JSON_PIECE_BYTES]);

#endif
