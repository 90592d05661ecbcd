/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses handed over by threads that must not take the owner's lock. Pushing is lock-free and takes no
   memory: the owner reserves a slot for every live block beforehand. */
#ifndef DAO_ALLOCATORS_FREE_QUEUE_H
#define DAO_ALLOCATORS_FREE_QUEUE_H

#include <dao/observe.h>

#include <stdatomic.h>

/* Slots beyond those of live blocks, for addresses that should not have been pushed. */
#define DAO_FREE_QUEUE_SPARE_COUNT 64u

/* Room for 64 * (2^26 - 1) slots. */
#define DAO_FREE_QUEUE_CHUNK_COUNT 26u

/* No slot. */
#define DAO_FREE_QUEUE_NONE UINT32_MAX

typedef struct dao_free_slot {
    void *address;
    uint16_t owner;        /* a dao_block_owner_t: as whom the address is to be freed */
    uint16_t status;       /* a dao_status_t, the owner's own, while it holds the slot */
    _Atomic uint32_t next; /* in the stack that the slot is in, or the owner's own */
} dao_free_slot_t;

typedef struct dao_free_queue {
    _Atomic uint64_t free_head;     /* index of a slot below, a tag above */
    _Atomic uint32_t pending_head;  /* index of a slot */
    _Atomic uint64_t pending_count; /* pushed and not yet taken; a counter */
    _Atomic uint64_t lost_count;    /* pushes that found no slot */
    uint32_t slot_count;            /* guarded by the owner's lock */
    _Atomic(dao_free_slot_t *) chunks[DAO_FREE_QUEUE_CHUNK_COUNT];
} dao_free_queue_t;

void dao_free_queue_init(dao_free_queue_t *queue);
void dao_free_queue_finish(dao_free_queue_t *queue); /* nobody pushes any more */

/* Makes sure of slots for live_count blocks, under the owner's lock. DAO_ERR_NO_HOST_MEMORY. */
DAO_NODISCARD dao_status_t dao_free_queue_reserve(dao_free_queue_t *queue, uint64_t live_count);

/* Hands an address over. Threads: any. Lock-free. */
void dao_free_queue_push(dao_free_queue_t *queue, void *address, dao_block_owner_t owner);

/* Takes all that was handed over: the first slot, the others follow by `next`; DAO_FREE_QUEUE_NONE if there
   is nothing. */
uint32_t dao_free_queue_take(dao_free_queue_t *queue);

/* Returns a slot that was taken. */
dao_free_slot_t *dao_free_queue_slot(dao_free_queue_t *queue, uint32_t index);

/* Takes all that was handed over and calls `give` for it, under the owner's lock. Returns the slots of
   addresses that were refused, before those of `wrong`, an earlier answer or DAO_FREE_QUEUE_NONE: for
   dao_free_queue_report(). */
uint32_t dao_free_queue_reclaim(dao_free_queue_t *queue, uint32_t wrong,
                                dao_status_t (*give)(void *user, void *address, dao_block_owner_t owner),
                                void *user);

/* Logs addresses that were refused and pushes that were lost, once the lock is given up. `name` is the
   place. */
void dao_free_queue_report(dao_free_queue_t *queue, uint32_t wrong, const char *name);

#endif
