/* SPDX-License-Identifier: Apache-2.0 */
/* Makes text from outside fit into one line of a message or a table. */
#ifndef DAO_BASE_PRINTABLE_H
#define DAO_BASE_PRINTABLE_H

/* Replaces with '?' every control character and every byte that is no part of a whole UTF-8 character. */
void dao_make_printable(char *text);

#endif
