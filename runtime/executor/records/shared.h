/* SPDX-License-Identifier: Apache-2.0 */
/* A counted object whose type its holders need not know: what tensors and items hold of the executor and of command lists,
   which lie above them. */
#ifndef DAO_RUNTIME_EXECUTOR_SHARED_H
#define DAO_RUNTIME_EXECUTOR_SHARED_H

#include <stdatomic.h>
#include <stdint.h>

/* First in the object. */
typedef struct dao_shared {
    _Atomic uint32_t reference_count;
    void (*destroy)(struct dao_shared *shared); /* called once, with the last reference */
} dao_shared_t;

/* One reference: the creator's. */
static inline void dao_shared_init(dao_shared_t *shared, void (*destroy)(dao_shared_t *shared))
{
    atomic_init(&shared->reference_count, 1);
    shared->destroy = destroy;
}

static inline void dao_shared_reference(dao_shared_t *shared)
{
    atomic_fetch_add(&shared->reference_count, 1);
}

static inline void dao_shared_unreference(dao_shared_t *shared)
{
    if (atomic_fetch_sub(&shared->reference_count, 1) == 1) {
        shared->destroy(shared);
    }
}

#endif
