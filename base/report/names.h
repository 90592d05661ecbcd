/* SPDX-License-Identifier: Apache-2.0 */
/* Names of enumerators, as settings, command lines and JSON spell them. */
#ifndef DAO_BASE_NAMES_H
#define DAO_BASE_NAMES_H

#include <dao/status.h>

/* A row of a table, built from a list macro of a public header. The last row's name is NULL. */
typedef struct dao_named {
    const char *name;
    int value;
} dao_named_t;

/* Returns a static string; "unknown" for a value without a name. */
const char *dao_name_of(const dao_named_t *names, int value);

/* Finds the value of a name. DAO_ERR_INVALID for NULL and for an unknown name; the message lists the names.
   `noun` says what they name, such as "policy". */
DAO_NODISCARD dao_status_t dao_name_parse(const dao_named_t *names, const char *noun, const char *text,
                                          int *out_value);

#endif
