/* Reasons why dao_alloc() and dao_free() must not take their shortest way, counted by whoever has one: places that record
   events, threads that wait for memory, segment callbacks that run, frees that wait for a stream, threads inside of leases,
   retained blocks. One look at it stands for a look at each. */
#ifndef DAO_RUNTIME_DETOURS_H
#define DAO_RUNTIME_DETOURS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

extern _Atomic uint32_t dao_detour_count; /* alloc.c */

static inline void dao_detours_begin(void)
{
    atomic_fetch_add(&dao_detour_count, 1);
}

static inline void dao_detours_end(void)
{
    atomic_fetch_sub(&dao_detour_count, 1);
}

static inline bool dao_detours_are_needed(void)
{
    return __builtin_expect(atomic_load_explicit(&dao_detour_count, memory_order_relaxed) != 0, 0);
}

#endif
