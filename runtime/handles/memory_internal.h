/* SPDX-License-Identifier: Apache-2.0 */
/* What tensor.c and dlpack.c need of a memory handle beyond its public face. */
#ifndef DAO_RUNTIME_MEMORY_INTERNAL_H
#define DAO_RUNTIME_MEMORY_INTERNAL_H

#include "backends/backend.h"

#include <dao/memory.h>

/* Returns true if the handle came into this process by a fork: its memory must be left alone. */
bool dao_memory_is_forked(const dao_memory_t *memory);

/* Returns the table of the backend that the handle was made with, after dao_finalize() too. */
const dao_backend_ops_t *dao_memory_backend(const dao_memory_t *memory);

/* Returns true if the handle's place is a program's own memory, or the pinned place of such. */
bool dao_memory_is_own(const dao_memory_t *memory);

/* Returns what a handle of dao_memory_from_pointer() hands to its deleter; NULL for any other handle or
   deleter. */
void *dao_memory_user_of(const dao_memory_t *memory, dao_memory_deleter_t deleter);

/* Sets the deleter of a handle of dao_memory_from_pointer() that has none. Nobody else has the handle yet. */
void dao_memory_deleter_set(dao_memory_t *memory, dao_memory_deleter_t deleter, void *user);

#endif
