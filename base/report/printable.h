/* SPDX-License-Identifier: Apache-2.0 */
/* Text of others in one line of ours: a message, a table, JSON. */
#ifndef DAO_BASE_PRINTABLE_H
#define DAO_BASE_PRINTABLE_H

/* Puts a '?' for every control character, and for every byte that is not of a whole UTF-8 character. */
void dao_make_printable(char *text);

#endif
