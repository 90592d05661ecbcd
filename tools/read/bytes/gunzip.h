/* SPDX-License-Identifier: Apache-2.0 */
/* Inflates a gzip file piece by piece, with memory of the tool's own. */
#ifndef DAO_TOOLS_GUNZIP_H
#define DAO_TOOLS_GUNZIP_H

#include <dao/status.h>

/* Most bytes that one file may inflate to: a few kilobytes can be made to hold as many. */
#define DAO_GUNZIP_BYTES_MAX ((uint64_t)1 << 32)

typedef struct dao_gunzip dao_gunzip_t;

/* Reads at most `most` bytes of the packed file; 0 in `out_count`: it has ended. */
typedef dao_status_t (*dao_gunzip_read_t)(void *user, unsigned char *bytes, size_t most, size_t *out_count);

/* Returns true if a file that begins so is packed. */
bool dao_gunzip_is_packed(const unsigned char *bytes, size_t count);

/* Begins; the first bytes, at most DAO_GUNZIP_INPUT_BYTES, were read already. DAO_ERR_NO_HOST_MEMORY. */
enum { DAO_GUNZIP_INPUT_BYTES = 64 * 1024 };
DAO_NODISCARD dao_status_t dao_gunzip_create(const unsigned char *bytes, size_t count,
                                             dao_gunzip_t **out_gunzip);
void dao_gunzip_destroy(dao_gunzip_t *gunzip); /* NULL is allowed */

/* Returns the next bytes; 0 in `out_count`: the end. DAO_ERR_PARSE for what is damaged, cut off or too large,
   with what is wrong as its message; what `read` answers. */
DAO_NODISCARD dao_status_t dao_gunzip_next(dao_gunzip_t *gunzip, dao_gunzip_read_t read, void *user,
                                           unsigned char *out_bytes, size_t most, size_t *out_count);

#endif
