/* SPDX-License-Identifier: Apache-2.0 */
/* What the two files of hardened.c share: hardened_check.c looks at all blocks. */
#ifndef DAO_ALLOCATORS_HARDENED_INTERNAL_H
#define DAO_ALLOCATORS_HARDENED_INTERNAL_H

#include "allocators/layers/hardened.h"

#include "allocators/accounting/ledger.h"
#include "allocators/layers/descriptors.h"
#include "base/threads/sync.h"

typedef struct hardened {
    dao_allocator_t base;
    dao_allocator_t *inner; /* owned */
    uint32_t flags;
    size_t quarantine_bytes;
    dao_bytes_t bytes;

    dao_mutex_t lock;
    dao_cond_t changed; /* a check of a block has ended */
    dao_ledger_t ledger;
    dao_descriptors_t descriptors;
    uint64_t *queue; /* addresses; a ring */
    size_t queue_capacity;
    size_t queue_first;
    size_t queue_count;
    uint64_t quarantined_bytes;
} hardened_t;

/* A block in the hands of a call. */
typedef struct taken {
    char *address;
    size_t requested_bytes;
    size_t block_bytes;
    uint64_t word;
} taken_t;

static inline hardened_t *dao_hardened_of(dao_allocator_t *allocator)
{
    return (hardened_t *)allocator;
}

/* Returns what a descriptor says of its block. */
taken_t dao_hardened_taken_of(const dao_descriptor_t *descriptor);

/* Finds the descriptor of an address when no check has it in its hands: waits for that. */
dao_descriptor_search_t dao_hardened_find_locked(hardened_t *hardened, const void *address);

/* Sets the state of a block that this call has in its hands, unless its descriptor was damaged meanwhile. */
void dao_hardened_state_set_locked(hardened_t *hardened, const taken_t *taken, dao_descriptor_state_t state);

/* Looks at the guard of a block; at a block of the quarantine, its bytes and its guard. Without the lock.
   DAO_ERR_CORRUPT with a message; the answer of `scan` if it fails. */
dao_status_t dao_hardened_guard_check(const hardened_t *hardened, const taken_t *taken);
dao_status_t dao_hardened_quarantine_check(const hardened_t *hardened, const taken_t *taken);

#endif
