/* SPDX-License-Identifier: Apache-2.0 */
/* Names of files that the library writes by itself, with what makes them unlike: %p is the process, %n a
   number, %l the place (device0), %% a %. */
#ifndef DAO_RUNTIME_FILE_NAME_H
#define DAO_RUNTIME_FILE_NAME_H

#include <dao/place.h>

/* A longer name is refused. */
#define DAO_FILE_NAME_BYTES 4096

/* Keeps a name that a variable of the environment gives, if each of its % is one of `known`, "pnl" or fewer.
   DAO_ERR_INVALID with a message. */
DAO_NODISCARD dao_status_t dao_file_name_keep(const char *variable, const char *text, const char *known,
                                              char out_name[DAO_FILE_NAME_BYTES]);

/* Puts the path together. Returns false if it is too long. */
bool dao_file_name_make(const char *name, dao_place_t place, uint32_t number,
                        char out_path[DAO_FILE_NAME_BYTES]);

#endif
