/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device that several processes have, as far as this process has it: created here or imported. */
#ifndef DAO_RUNTIME_SHARE_H
#define DAO_RUNTIME_SHARE_H

#include "base/threads/sync.h"

#include <stddef.h>
#include <stdint.h>

/* All of one device. */
typedef struct dao_shares {
    dao_mutex_t lock; /* guards what follows */
    struct dao_shared *first;
    uint64_t created_bytes;  /* of those in the list that were created here ... */
    uint64_t imported_bytes; /* ... and of the others */
} dao_shares_t;

void dao_shares_init(dao_shares_t *shares);
void dao_shares_finish(dao_shares_t *shares); /* none is left */

/* Gives the bytes of those that were created here, and of those that were imported. */
void dao_shares_count(dao_shares_t *shares, uint64_t *out_created_bytes, uint64_t *out_imported_bytes);

/* Finds the one that an address lies in. False: there is none. */
bool dao_shares_find(dao_shares_t *shares, const void *address, char **out_begin, size_t *out_size_bytes);

#endif
