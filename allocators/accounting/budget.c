/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes under a limit.

       take:       read limit, check; used += bytes by compare and swap;
                   read limit again, check, back out if it was lowered
       limit_set:  write limit; read used, check, put the old limit back if more is used

   What holds at every moment, as others see it:

       used_bytes <= limit_bytes, but for takes that are about to back out while a limit is being set
       a limit that was set, and every take that succeeded since, agree: used_bytes <= limit_bytes

   Why: a take that is refused has changed nothing, so that it never makes a smaller one fail. The write of a
   limit and the change of used_bytes are sequentially consistent, and each side looks at the other's after
   its own: at least one of the two sees both. Then the take backs out, or the limit is refused; both may
   happen, never neither. */
#include "allocators/accounting/budget.h"

#include "base/report/assert.h"
#include "base/threads/sync.h"

/* Limits are set one at a time, so that putting an old one back overwrites nobody's. */
static dao_mutex_t limit_lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);

static uint64_t room_under(uint64_t limit_bytes, uint64_t used_bytes)
{
    uint64_t most_bytes = limit_bytes == 0 ? UINT64_MAX : limit_bytes;
    return most_bytes > used_bytes ? most_bytes - used_bytes : 0;
}

static void raise_peak(dao_budget_t *budget, uint64_t used_bytes)
{
    uint64_t peak_bytes = atomic_load_explicit(&budget->peak_bytes, memory_order_relaxed);
    while (used_bytes > peak_bytes &&
           !atomic_compare_exchange_weak_explicit(&budget->peak_bytes, &peak_bytes, used_bytes,
                                                  memory_order_relaxed, memory_order_relaxed)) {
    }
}

bool dao_budget_take(dao_budget_t *budget, uint64_t size_bytes)
{
    uint64_t used_bytes = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    do {
        if (size_bytes > room_under(atomic_load(&budget->limit_bytes), used_bytes)) {
            return false;
        }
    } while (!atomic_compare_exchange_weak(&budget->used_bytes, &used_bytes, used_bytes + size_bytes));
    if (size_bytes > room_under(atomic_load(&budget->limit_bytes), used_bytes)) {
        dao_budget_give(budget, size_bytes);
        return false;
    }
    return true;
}

void dao_budget_note(dao_budget_t *budget)
{
    raise_peak(budget, atomic_load_explicit(&budget->used_bytes, memory_order_relaxed));
}

void dao_budget_give(dao_budget_t *budget, uint64_t size_bytes)
{
    uint64_t before_bytes = atomic_fetch_sub(&budget->used_bytes, size_bytes);
    DAO_ASSERT(before_bytes >= size_bytes);
    (void)before_bytes;
}

uint64_t dao_budget_room(const dao_budget_t *budget)
{
    uint64_t limit_bytes = atomic_load_explicit(&budget->limit_bytes, memory_order_relaxed);
    uint64_t used_bytes = atomic_load_explicit(&budget->used_bytes, memory_order_relaxed);
    return limit_bytes == 0 ? UINT64_MAX : room_under(limit_bytes, used_bytes);
}

bool dao_budget_limit_set(dao_budget_t *budget, uint64_t limit_bytes)
{
    dao_mutex_lock(&limit_lock);
    uint64_t before_bytes = atomic_exchange(&budget->limit_bytes, limit_bytes);
    bool fits = limit_bytes == 0 || atomic_load(&budget->used_bytes) <= limit_bytes;
    if (!fits) {
        atomic_store(&budget->limit_bytes, before_bytes);
    }
    dao_mutex_unlock(&limit_lock);
    return fits;
}

bool dao_budget_is_valid(const dao_budget_t *budget)
{
    uint64_t used_bytes = atomic_load(&budget->used_bytes);
    uint64_t limit_bytes = atomic_load(&budget->limit_bytes);
    return used_bytes <= atomic_load(&budget->peak_bytes) && (limit_bytes == 0 || used_bytes <= limit_bytes);
}
