/* SPDX-License-Identifier: Apache-2.0 */
/* UTF-8 as RFC 3629 defines it: shortest forms only, no surrogates. */
#ifndef DAO_BASE_UTF8_H
#define DAO_BASE_UTF8_H

#include <stddef.h>

/* Reads the next character of a text, and goes behind it. A byte that is no part of a whole one counts as
   U+FFFD. Returns how many bytes `out_character` has; 0 at the end of the text. */
size_t dao_utf8_next(const char **text, const char **out_character);

#endif
