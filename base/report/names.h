/* SPDX-License-Identifier: Apache-2.0 */
/* Names of enumerators, as programs and command lines spell them. */
#ifndef DAO_BASE_NAMES_H
#define DAO_BASE_NAMES_H

#include <dao/status.h>

/* A row of a table, which a list of a public header makes; the last row's name is NULL. */
typedef struct dao_named {
    const char *name;
    int value;
} dao_named_t;

/* A static string; "unknown" for a value that has no name. */
const char *dao_name_of(const dao_named_t *names, int value);

/* Finds the value of a name. DAO_ERR_INVALID for NULL, and for what is no name: the message says what there
   is. `noun`: what the values are, such as "policy". */
DAO_NODISCARD dao_status_t dao_name_parse(const dao_named_t *names, const char *noun, const char *text,
                                          int *out_value);

#endif
