/* Memory of a device that several processes have, as far as this process has it: created here or imported. */
#ifndef DAO_RUNTIME_SHARE_H
#define DAO_RUNTIME_SHARE_H

#include "base/sync.h"

#include <stddef.h>

/* All of one device. */
typedef struct dao_shares {
    dao_mutex_t lock; /* guards the list */
    struct dao_shared *first;
} dao_shares_t;

void dao_shares_init(dao_shares_t *shares);
void dao_shares_finish(dao_shares_t *shares); /* none is left */

/* Finds the one that an address lies in. False: there is none. */
bool dao_shares_find(dao_shares_t *shares, const void *address, char **out_begin, size_t *out_size_bytes);

#endif
