/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors of files that the library keeps, and where among the numbers of the process they lie. */
#ifndef DAO_BASE_DESCRIPTOR_H
#define DAO_BASE_DESCRIPTOR_H

#include <stdbool.h>
#include <stdio.h>

/* No descriptor. */
#define DAO_NO_DESCRIPTOR (-1)

/* Returns another descriptor of the same file, and closes this one: what is kept has a high number, where one
   is free. A process that has closed its standard streams, as daemons do, would write its messages into the
   file, ours too; and shells, like what starts daemons, put files of their own at low numbers. Never one of
   the standard streams'. Anything below 0 is returned as it is, errno with it; DAO_NO_DESCRIPTOR, with errno,
   if there is no other. */
int dao_descriptor_keep(int descriptor);

/* fopen(path, "w") by such a descriptor. Returns NULL with errno if it cannot be opened. */
FILE *dao_descriptor_fopen(const char *path);

/* Writes what is left to be written and closes the file. Returns 0, or the errno of what went wrong: of a
   write before, if it still stands. Then, and if the caller says that it is not whole, a regular file is left
   empty: a part of it is of no use. */
int dao_descriptor_fclose(FILE *file, bool is_whole);

/* Returns a second descriptor of the same file, with a high number, or DAO_NO_DESCRIPTOR if refused. */
int dao_descriptor_copy(int descriptor);

/* DAO_NO_DESCRIPTOR is allowed. */
void dao_descriptor_close(int descriptor);

#endif
