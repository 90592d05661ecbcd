/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of runtime/ share of the last resorts before an allocation fails. */
#ifndef DAO_RUNTIME_PRESSURE_INTERNAL_H
#define DAO_RUNTIME_PRESSURE_INTERNAL_H

#include "runtime/core/context_internal.h"

/* An allocation, where it is made, and what came of it. */
typedef struct dao_pressure_need {
    dao_place_t place;
    dao_allocator_t *allocator;
    dao_runtime_t *runtime; /* NULL for the host */
    const dao_block_request_t *request;
    dao_block_grant_t *out_grant;
} dao_pressure_need_t;

/* Goes on with an allocation whose first attempt has answered `status`, which is short: frees what can be
   freed and tries again, a bounded number of times. The answer of the last attempt. Called without a lock. */
DAO_NODISCARD dao_status_t dao_pressure_relieve(const dao_pressure_need_t *need, dao_status_t status);

/* Gives back the cached memory of all host places that are in use; gives the number of bytes. */
uint64_t dao_pressure_trim_host(dao_core_t *core);

/* Threads that wait for a free. */
extern _Atomic uint32_t dao_pressure_waiter_count;

/* Wakes them all. */
void dao_pressure_wake(void);

/* To be called after a block was freed, a free was put off until a stream is done, or a limit was raised;
   after the allocator's lock was given up. */
static inline void dao_pressure_note_free(void)
{
    if (__builtin_expect(atomic_load_explicit(&dao_pressure_waiter_count, memory_order_relaxed) != 0,
                         false)) {
        dao_pressure_wake();
    }
}

/* Forgets all callbacks and waits: the library stops, and nobody is in a call. */
void dao_pressure_clear(void);

#endif
