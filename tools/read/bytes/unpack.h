/* SPDX-License-Identifier: Apache-2.0 */
/* Unpacks a file piece by piece, by whichever method its first bytes tell: gzip, and zstd where the tool was
   built with it. */
#ifndef DAO_TOOLS_UNPACK_H
#define DAO_TOOLS_UNPACK_H

#include "tools/read/bytes/gunzip.h"

typedef struct dao_unpack dao_unpack_t;

/* Returns true if a file that begins so is packed. */
bool dao_unpack_is_packed(const unsigned char *bytes, size_t count);

/* Begins; the first bytes, at most DAO_GUNZIP_INPUT_BYTES, were read already. DAO_ERR_NO_HOST_MEMORY;
   DAO_ERR_UNSUPPORTED for a method that this build does not have. */
DAO_NODISCARD dao_status_t dao_unpack_create(const unsigned char *bytes, size_t count,
                                             dao_unpack_t **out_unpack);
void dao_unpack_destroy(dao_unpack_t *unpack); /* NULL is allowed */

/* As dao_gunzip_next(). */
DAO_NODISCARD dao_status_t dao_unpack_next(dao_unpack_t *unpack, dao_gunzip_read_t read, void *user,
                                           unsigned char *out_bytes, size_t most, size_t *out_count);

#endif
