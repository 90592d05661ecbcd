/* SPDX-License-Identifier: Apache-2.0 */
/* A file that a command writes: under a temporary name beside it until all of it has arrived, so that what is
   interrupted or fails leaves what was there before. What is no plain file, such as a pipe, is written to as
   it comes. One file is open at a time. */
#ifndef DAO_TOOLS_OUT_FILE_H
#define DAO_TOOLS_OUT_FILE_H

#include <dao/status.h>

#include <stdbool.h>
#include <stdio.h>

/* Returns true for "-", which is standard output; false for NULL. */
bool dao_out_file_is_standard(const char *path);

/* Looks at a file that is to be written, or NULL, before the work for it begins. DAO_ERR_INVALID: it is the
   one that is read, or NULL, and would be lost; DAO_ERR_IO: it cannot be written where it is asked for. */
DAO_NODISCARD dao_status_t dao_out_file_check(const char *path, const char *input);

/* Opens a file for writing, or says why not and returns NULL. "-" is standard output. */
FILE *dao_out_file_open(const char *path);

/* Closes it; standard output stays open. Returns `status` if that is not DAO_OK; DAO_ERR_IO if something did
   not arrive. */
DAO_NODISCARD dao_status_t dao_out_file_close(FILE *file, const char *path, dao_status_t status);

#endif
