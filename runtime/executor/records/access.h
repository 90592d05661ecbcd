/* SPDX-License-Identifier: Apache-2.0 */
/* Access lists: the pending uses of a tensor, in order of time. The links lie in the items, so that
   nothing here needs memory. */
#ifndef DAO_RUNTIME_EXECUTOR_ACCESS_H
#define DAO_RUNTIME_EXECUTOR_ACCESS_H

#include "runtime/executor/records/tensor.h"

/* No next use is known. */
#define DAO_TIME_NEVER UINT64_MAX

/* Adds an item's use, later than all uses that are pending. */
void dao_access_append(dao_use_t *use, uint64_t time);

/* Takes the first pending use off the list: it has happened. `use` is that use. */
void dao_access_pop(dao_use_t *use);

/* When the content is needed next; DAO_TIME_NEVER if nothing is pending or it is discarded before. */
uint64_t dao_access_next_use(const dao_managed_t *tensor);

/* Returns true if the content cannot be asked for any more: no pending use needs it, a discard is next or no
   handle is left, and it is not held. */
bool dao_access_is_dead(const dao_managed_t *tensor);

bool dao_access_is_valid(const dao_managed_t *tensor);

#endif
