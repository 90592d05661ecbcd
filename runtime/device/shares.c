/* SPDX-License-Identifier: Apache-2.0 */
/* The list of a device's shared memory.

   Invariant, while the lock is free: created_bytes and imported_bytes are the sums over the list. */
#include "runtime/device/shares.h"

#include "base/report/assert.h"

void dao_shares_init(dao_shares_t *shares)
{
    dao_mutex_init(&shares->lock, DAO_RANK_LEAF);
    shares->first = NULL;
    shares->created_bytes = 0;
    shares->imported_bytes = 0;
}

void dao_shares_finish(dao_shares_t *shares)
{
    DAO_ASSERT(shares->first == NULL && shares->created_bytes == 0 && shares->imported_bytes == 0);
    dao_mutex_finish(&shares->lock);
}

/* The sums are those of the list, and the list leads both ways. */
static bool is_valid_locked(const dao_shares_t *shares)
{
    uint64_t created_bytes = 0, imported_bytes = 0;
    const dao_shared_memory_t *previous = NULL;
    for (const dao_shared_memory_t *shared = shares->first; shared != NULL; shared = shared->next) {
        if (shared->previous != previous) {
            return false;
        }
        *(shared->is_imported ? &imported_bytes : &created_bytes) += shared->size_bytes;
        previous = shared;
    }
    return created_bytes == shares->created_bytes && imported_bytes == shares->imported_bytes;
}

static void lock(dao_shares_t *shares)
{
    dao_mutex_lock(&shares->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(shares));
}

static void unlock(dao_shares_t *shares)
{
    DAO_ASSERT_HEAVY(is_valid_locked(shares));
    dao_mutex_unlock(&shares->lock);
}

bool dao_shares_find(dao_shares_t *shares, const void *address, char **out_begin, size_t *out_size_bytes)
{
    lock(shares);
    const dao_shared_memory_t *shared = shares->first;
    while (shared != NULL && (uintptr_t)address - (uintptr_t)shared->address >= shared->size_bytes) {
        shared = shared->next;
    }
    if (shared != NULL) {
        *out_begin = shared->address;
        *out_size_bytes = shared->size_bytes;
    }
    unlock(shares);
    return shared != NULL;
}

void dao_shares_count(dao_shares_t *shares, uint64_t *out_created_bytes, uint64_t *out_imported_bytes)
{
    lock(shares);
    *out_created_bytes = shares->created_bytes;
    *out_imported_bytes = shares->imported_bytes;
    unlock(shares);
}

/* Which of the two sums a share is part of. */
static uint64_t *sum_of(dao_shares_t *shares, const dao_shared_memory_t *shared)
{
    return shared->is_imported ? &shares->imported_bytes : &shares->created_bytes;
}

void dao_shares_add(dao_shares_t *shares, dao_shared_memory_t *shared)
{
    lock(shares);
    shared->next = shares->first;
    if (shared->next != NULL) {
        shared->next->previous = shared;
    }
    shares->first = shared;
    *sum_of(shares, shared) += shared->size_bytes;
    unlock(shares);
}

void dao_shares_remove(dao_shares_t *shares, dao_shared_memory_t *shared)
{
    lock(shares);
    if (shared->next != NULL) {
        shared->next->previous = shared->previous;
    }
    if (shared->previous != NULL) {
        shared->previous->next = shared->next;
    } else {
        DAO_ASSERT(shares->first == shared);
        shares->first = shared->next;
    }
    *sum_of(shares, shared) -= shared->size_bytes;
    unlock(shares);
}
