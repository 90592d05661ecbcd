/* SPDX-License-Identifier: Apache-2.0 */
/* A slot for each thread that has a number:

       slots      [ 7 * 1024 + 0 | 0 | 9 * 1024 + 2 | ... ]      0: free
       number     (numbers issued so far) * DAO_THREAD_NUMBER_MAX + slot

   A thread writes its number to a free slot, and 0 as it ends. Invariant: the thread of a number lives while
   its slot holds that number. */
#include "base/threads/thread_number.h"

#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdatomic.h>

static _Atomic uint64_t slots[DAO_THREAD_NUMBER_MAX];
static _Thread_local uint64_t own_number;
static _Thread_local bool has_none; /* no number was free, or this thread is just asking for one */

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF);
DAO_HELD_OVER_FORK(lock)

/* Guarded by the lock. */
static dao_thread_exit_t thread_exit;
static bool has_thread_exit;
static uint64_t given_count;

/* Runs as the thread ends. Code that runs after it in the same thread may ask for a new number. */
static void number_finish(void *user)
{
    own_number = 0;
    atomic_store_explicit((_Atomic uint64_t *)user, 0, memory_order_release);
}

/* The library is unloaded: threads that live on must not call into it as they end. */
__attribute__((destructor)) static void unload(void)
{
    dao_mutex_lock(&lock);
    if (has_thread_exit) {
        dao_thread_exit_finish(&thread_exit);
        has_thread_exit = false;
    }
    dao_mutex_unlock(&lock);
}

static uint64_t number_create_locked(void)
{
    if (!has_thread_exit && dao_thread_exit_init(&thread_exit, number_finish) != DAO_OK) {
        return 0;
    }
    has_thread_exit = true;
    uint32_t slot = 0;
    while (slot < DAO_THREAD_NUMBER_MAX && atomic_load_explicit(&slots[slot], memory_order_acquire) != 0) {
        slot++;
    }
    if (slot == DAO_THREAD_NUMBER_MAX || !dao_thread_exit_set(&thread_exit, &slots[slot])) {
        return 0;
    }
    has_none = false;
    own_number = ++given_count * DAO_THREAD_NUMBER_MAX + slot;
    atomic_store_explicit(&slots[slot], own_number, memory_order_relaxed);
    return own_number;
}

uint64_t dao_thread_number(void)
{
    if (own_number != 0 || has_none) {
        return own_number;
    }
    has_none = true;
    dao_error_record_t record;
    dao_error_save(&record, dao_last_status());
    dao_mutex_lock(&lock);
    uint64_t number = number_create_locked();
    dao_mutex_unlock(&lock);
    (void)dao_error_restore(&record); /* the caller has not failed */
    return number;
}

bool dao_thread_number_lives(uint64_t number)
{
    return atomic_load_explicit(&slots[number % DAO_THREAD_NUMBER_MAX], memory_order_acquire) == number;
}
