/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for a free. No wake by a free that takes an allocator's lock is missed if a waiter

       1. calls dao_waiters_begin()
       2. takes the allocator's locks once, in an attempt to allocate
       3. reads dao_waiters_wakes() before each later attempt, and waits for a wake after that number

   The allocator's locks order step 2 and each such free. What was freed before is seen by the later attempts.
   The thread of a later free sees dao_waiter_count and increments the number of wakes.

   A free into what its thread keeps (allocators/slab/) takes no lock. One that had begun before step 1 may
   end behind the last attempt, and wakes nobody: so a waiter tries again now and then, and when its time is
   over. */
#include "runtime/core/waiters.h"

#include "allocators/slow_path.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"

static struct {
    dao_mutex_t lock;
    /* guarded by the lock */
    dao_cond_t freed; /* wake_count has changed */
    uint64_t wake_count;
} waiters = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF), .freed = DAO_COND_INITIALIZER};

_Atomic uint32_t dao_waiter_count;

void dao_waiters_begin(void)
{
    dao_slow_path_begin(); /* frees of the fast path do not look at waiters */
    atomic_fetch_add(&dao_waiter_count, 1);
}

void dao_waiters_end(void)
{
    uint32_t before = atomic_fetch_sub(&dao_waiter_count, 1);
    DAO_ASSERT(before > 0);
    (void)before;
    dao_slow_path_end();
}

void dao_waiters_wake(void)
{
    dao_mutex_lock(&waiters.lock);
    waiters.wake_count++;
    dao_cond_broadcast(&waiters.freed);
    dao_mutex_unlock(&waiters.lock);
}

uint64_t dao_waiters_wakes(void)
{
    dao_mutex_lock(&waiters.lock);
    uint64_t wake_count = waiters.wake_count;
    dao_mutex_unlock(&waiters.lock);
    return wake_count;
}

bool dao_waiters_wait(uint64_t seen, uint64_t until_ns)
{
    dao_mutex_lock(&waiters.lock);
    DAO_ASSERT(waiters.wake_count >= seen);
    bool in_time = dao_clock_ns() < until_ns;
    while (in_time && waiters.wake_count == seen) {
        in_time = dao_cond_wait_until(&waiters.freed, &waiters.lock, until_ns);
    }
    dao_mutex_unlock(&waiters.lock);
    return in_time;
}
