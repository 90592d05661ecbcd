/* SPDX-License-Identifier: Apache-2.0 */
/* What the files hardened*.c share. */
#ifndef DAO_ALLOCATORS_HARDENED_INTERNAL_H
#define DAO_ALLOCATORS_HARDENED_INTERNAL_H

#include "allocators/layers/hardened.h"

#include "allocators/accounting/ledger.h"
#include "allocators/accounting/word.h"
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

static inline bool dao_hardened_has(const hardened_t *hardened, dao_hardening_t flag)
{
    return (hardened->flags & (uint32_t)flag) != 0;
}

/* Returns what a descriptor says of its block. */
static inline taken_t dao_hardened_taken_of(const dao_descriptor_t *descriptor)
{
    return (taken_t){.address = (char *)(uintptr_t)descriptor->address,
                     .requested_bytes = dao_word_requested_bytes(descriptor->word),
                     .block_bytes = (size_t)descriptor->block_bytes,
                     .word = descriptor->word};
}

/* Finds the descriptor of an address when no check has it in its hands: waits for that. */
static inline dao_descriptor_search_t dao_hardened_find_locked(hardened_t *hardened, const void *address)
{
    for (;;) {
        dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, address);
        if (search.descriptor == NULL || !search.is_intact ||
            (search.descriptor->state != DAO_DESCRIPTOR_LIVE_CHECKED &&
             search.descriptor->state != DAO_DESCRIPTOR_QUARANTINED_CHECKED)) {
            return search;
        }
        dao_cond_wait(&hardened->changed, &hardened->lock);
    }
}

/* Sets the state of a block that this call has in its hands, unless its descriptor was damaged meanwhile. */
static inline void dao_hardened_state_set_locked(hardened_t *hardened, const taken_t *taken,
                                                 dao_descriptor_state_t state)
{
    dao_descriptor_search_t search = dao_descriptors_find(&hardened->descriptors, taken->address);
    if (search.descriptor != NULL && search.is_intact) {
        dao_descriptors_set_state(search.descriptor, state);
    }
}

/* ---- bytes, without the lock: hardened_bytes.c ---- */

/* Returns the bytes that are asked of the inner allocator; a size that cannot be is left for it to refuse. */
size_t dao_hardened_padded_bytes(const hardened_t *hardened, size_t size_bytes);

/* Fills a new block, and its guard; looks at the guard of one that is freed, and fills it. DAO_ERR_CORRUPT
   with a message; the answers of `fill` and `scan`. */
dao_status_t dao_hardened_bytes_prepare(const hardened_t *hardened, char *address, size_t size_bytes);
dao_status_t dao_hardened_bytes_retire(const hardened_t *hardened, const taken_t *taken);

/* Looks at the guard of a block; at a block of the quarantine, its bytes and its guard. DAO_ERR_CORRUPT with
   a message; the answer of `scan` if it fails. */
dao_status_t dao_hardened_guard_check(const hardened_t *hardened, const taken_t *taken);
dao_status_t dao_hardened_quarantine_check(const hardened_t *hardened, const taken_t *taken);

/* ---- the quarantine: hardened_quarantine.c ---- */

/* Makes room in the queue for all blocks and one more. False without memory. */
bool dao_hardened_queue_reserve_locked(hardened_t *hardened);

/* Puts a block that nobody else has in his hands into the quarantine. */
void dao_hardened_quarantine(hardened_t *hardened, const taken_t *taken);

/* Lets blocks leave the quarantine until it holds at most keep_bytes; returns the number of those that went
   back. Damaged ones are logged and kept out of use. One whose bytes cannot be reached now is put back, and
   the others wait with it. */
uint64_t dao_hardened_quarantine_shrink(hardened_t *hardened, uint64_t keep_bytes);

/* Forgets a block and gives it back to the inner allocator. */
void dao_hardened_give_back(hardened_t *hardened, const taken_t *taken);

/* Keeps a block out of use whose bytes are wrong, and logs this thread's message. */
void dao_hardened_keep_damaged(hardened_t *hardened, const taken_t *taken);

#endif
