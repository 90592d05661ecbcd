/* SPDX-License-Identifier: Apache-2.0 */
/* Whether dao_alloc() and dao_free() must take the slow path: a count of the reasons. Reasons are places that
   record events, annotated blocks, threads that wait for memory, and segment callbacks that run; threads
   inside of leases, and devices that have failed. One load stands for a look at each.

   A free looks once, with the lock under which it makes memory free for all. A thread that is about to wait
   for memory counts itself first and takes all those locks then, to look once more: so either it finds what
   was freed, or whoever frees later finds the count, and wakes it. A free into what a thread keeps takes no
   lock: for that one it looks again now and then. */
#ifndef DAO_ALLOCATORS_SLOW_PATH_H
#define DAO_ALLOCATORS_SLOW_PATH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic uint32_t dao_slow_path_count;

static inline void dao_slow_path_begin(void)
{
    atomic_fetch_add(&dao_slow_path_count, 1);
}

static inline void dao_slow_path_end(void)
{
    atomic_fetch_sub(&dao_slow_path_count, 1);
}

static inline bool dao_slow_path_is_needed(void)
{
    return __builtin_expect(atomic_load_explicit(&dao_slow_path_count, memory_order_relaxed) != 0, 0);
}

#endif
