/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that wait until some memory is freed: an allocation that failed, and that its place lets wait. */
#ifndef DAO_RUNTIME_WAITERS_H
#define DAO_RUNTIME_WAITERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Threads that wait for a free. */
extern _Atomic uint32_t dao_waiter_count;

/* Wakes them all. */
void dao_waiters_wake(void);

/* To be called after a block was freed or retired, or a limit was raised; without an allocator's lock. */
static inline void dao_waiters_note_free(void)
{
    if (__builtin_expect(atomic_load_explicit(&dao_waiter_count, memory_order_relaxed) != 0, false)) {
        dao_waiters_wake();
    }
}

/* This thread waits from now on, until the end. */
void dao_waiters_begin(void);
void dao_waiters_end(void);

/* Returns the number of wakes so far. */
uint64_t dao_waiters_wakes(void);

/* Waits for a wake since `seen` wakes. Returns false once the time is over. */
bool dao_waiters_wait(uint64_t seen, uint64_t until_ns);

#endif
