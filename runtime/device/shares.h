/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of a device that several processes have, as far as this process has it: created here or imported. */
#ifndef DAO_RUNTIME_SHARES_H
#define DAO_RUNTIME_SHARES_H

#include "backends/backend.h"
#include "base/threads/sync.h"
#include "runtime/core/core.h"

#include <stddef.h>
#include <stdint.h>

/* One piece of it. handles/share.c makes and ends it. */
typedef struct dao_shared_memory {
    dao_runtime_t *runtime; /* a reference of its own */
    dao_backend_shared_t *backend;
    char *address;
    size_t size_bytes;
    bool is_imported;
    /* guarded by the lock of its device's shares */
    struct dao_shared_memory *previous;
    struct dao_shared_memory *next;
} dao_shared_memory_t;

/* All of one device. */
typedef struct dao_shares {
    dao_mutex_t lock; /* guards what follows */
    struct dao_shared_memory *first;
    uint64_t created_bytes;  /* of those in the list that were created here ... */
    uint64_t imported_bytes; /* ... and of the others */
} dao_shares_t;

void dao_shares_init(dao_shares_t *shares);
void dao_shares_finish(dao_shares_t *shares); /* none is left */

/* Enters one into its device's list, and takes it out. */
void dao_shares_add(dao_shares_t *shares, dao_shared_memory_t *shared);
void dao_shares_remove(dao_shares_t *shares, dao_shared_memory_t *shared);

/* Returns the bytes of those that were created here, and of those that were imported. */
void dao_shares_count(dao_shares_t *shares, uint64_t *out_created_bytes, uint64_t *out_imported_bytes);

/* Finds the one that an address lies in. False: there is none. */
bool dao_shares_find(dao_shares_t *shares, const void *address, char **out_begin, size_t *out_size_bytes);

#endif
