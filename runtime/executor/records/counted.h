/* SPDX-License-Identifier: Apache-2.0 */
/* A counted object whose type its holders need not know: what tensors and items hold of the executor and
   of command lists, which lie above them. */
#ifndef DAO_RUNTIME_EXECUTOR_COUNTED_H
#define DAO_RUNTIME_EXECUTOR_COUNTED_H

#include <stdatomic.h>
#include <stdint.h>

/* First in the object. */
typedef struct dao_counted {
    _Atomic uint32_t reference_count;
    void (*destroy)(struct dao_counted *shared); /* called once, with the last reference */
} dao_counted_t;

/* One reference: the creator's. */
static inline void dao_counted_init(dao_counted_t *shared, void (*destroy)(dao_counted_t *shared))
{
    atomic_init(&shared->reference_count, 1);
    shared->destroy = destroy;
}

static inline void dao_counted_reference(dao_counted_t *shared)
{
    atomic_fetch_add(&shared->reference_count, 1);
}

static inline void dao_counted_unreference(dao_counted_t *shared)
{
    if (atomic_fetch_sub(&shared->reference_count, 1) == 1) {
        shared->destroy(shared);
    }
}

#endif
