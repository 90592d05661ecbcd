/* SPDX-License-Identifier: Apache-2.0 */
/* Two lock-free stacks over one table of slots.

       chunks   [ 64 slots ][ 128 ][ 256 ] ...      never moved, never freed before the end
       free     tag | index -> next -> next         slots without an address
       pending        index -> next -> next         slots with one, newest first

   A slot is in exactly one place: free, pending, or taken out. Who has taken it out gives it back; the owner
   keeps those of wrong addresses, across calls, until they are logged.

   Why it is right:

   - Free: many threads pop. A pop reads `head` and its `next` and swaps head for next. Between the two,
     others may have popped that slot and put it back with another next. Every change of the head changes the
     tag, so the swap then fails and is tried again. (The tag has 32 bits: a thread would have to sleep
     through exactly a multiple of 2^32 changes.) Reading `next` of a slot that is no longer free is harmless:
     slots stay allocated and `next` is atomic.
   - Pending: threads only push, and the owner takes the whole stack with one exchange. Nothing is popped
     singly, so a head that is seen again is really the top again.
   - The address is written by the thread that popped the slot, before its push, which releases; the owner's
     exchange acquires. All changes of pending_head are read-modify-writes, so that the exchange is ordered
     after every push in the stack. Slots go back to free the same way.
   - Enough slots: slot_count >= live blocks + spare, from before a block is handed out. Each pending slot is
     for a live block or for an address that was wrong (foreign, interior, or pushed twice). So a push of a
     live block finds no slot only if more than the spare ones hold wrong addresses that have not been
     logged. Then the push is counted as lost, which the owner logs; the block stays live until the owner is
     destroyed. */
#include "allocators/segments/free_queue.h"

#include "allocators/accounting/ledger.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <assert.h>
#include <inttypes.h>

#define FIRST_CHUNK_COUNT 64u

static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2 && ATOMIC_POINTER_LOCK_FREE == 2,
              "stacks of 64-bit heads are lock-free");

void dao_free_queue_init(dao_free_queue_t *queue)
{
    atomic_init(&queue->free_head, DAO_FREE_QUEUE_NONE);
    atomic_init(&queue->pending_head, DAO_FREE_QUEUE_NONE);
    atomic_init(&queue->pending_count, 0);
    atomic_init(&queue->lost_count, 0);
    for (uint32_t i = 0; i < DAO_FREE_QUEUE_CHUNK_COUNT; i++) {
        atomic_init(&queue->chunks[i], NULL);
    }
    queue->slot_count = 0;
}

void dao_free_queue_finish(dao_free_queue_t *queue)
{
    for (uint32_t i = 0; i < DAO_FREE_QUEUE_CHUNK_COUNT; i++) {
        dao_host_free(atomic_load(&queue->chunks[i]));
    }
    dao_free_queue_init(queue);
}

dao_free_slot_t *dao_free_queue_slot(dao_free_queue_t *queue, uint32_t index)
{
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(index / FIRST_CHUNK_COUNT + 1);
    DAO_ASSERT(chunk < DAO_FREE_QUEUE_CHUNK_COUNT);
    dao_free_slot_t *slots = atomic_load_explicit(&queue->chunks[chunk], memory_order_acquire);
    DAO_ASSERT(slots != NULL);
    return &slots[index - FIRST_CHUNK_COUNT * ((1u << chunk) - 1)];
}

/* Makes a taken slot free again. Lock-free. */
static void give_slot(dao_free_queue_t *queue, uint32_t index)
{
    dao_free_slot_t *slot = dao_free_queue_slot(queue, index);
    uint64_t head = atomic_load_explicit(&queue->free_head, memory_order_relaxed);
    uint64_t changed = 0;
    do {
        atomic_store_explicit(&slot->next, (uint32_t)head, memory_order_relaxed);
        changed = ((head >> 32) + 1) << 32 | index;
    } while (!atomic_compare_exchange_weak_explicit(&queue->free_head, &head, changed, memory_order_release,
                                                    memory_order_relaxed));
}

/* Pops a free slot, or gives DAO_FREE_QUEUE_NONE. */
static uint32_t pop_free(dao_free_queue_t *queue)
{
    uint64_t head = atomic_load_explicit(&queue->free_head, memory_order_acquire);
    for (;;) {
        uint32_t index = (uint32_t)head;
        if (index == DAO_FREE_QUEUE_NONE) {
            return DAO_FREE_QUEUE_NONE;
        }
        dao_free_slot_t *slot = dao_free_queue_slot(queue, index);
        uint32_t next = atomic_load_explicit(&slot->next, memory_order_relaxed);
        uint64_t changed = ((head >> 32) + 1) << 32 | next;
        if (atomic_compare_exchange_weak_explicit(&queue->free_head, &head, changed, memory_order_acq_rel,
                                                  memory_order_acquire)) {
            return index;
        }
    }
}

dao_status_t dao_free_queue_reserve(dao_free_queue_t *queue, uint64_t live_count)
{
    while (queue->slot_count < live_count + DAO_FREE_QUEUE_SPARE_COUNT) {
        uint32_t chunk = 31u - (uint32_t)__builtin_clz(queue->slot_count / FIRST_CHUNK_COUNT + 1);
        uint32_t count = FIRST_CHUNK_COUNT << chunk;
        dao_free_slot_t *slots =
            chunk < DAO_FREE_QUEUE_CHUNK_COUNT ? dao_host_calloc(count, sizeof(*slots)) : NULL;
        if (slots == NULL) {
            return dao_error(DAO_ERR_NO_HOST_MEMORY,
                             "no host memory for the deferred frees of %" PRIu64 " blocks", live_count);
        }
        uint32_t first = queue->slot_count;
        atomic_store_explicit(&queue->chunks[chunk], slots, memory_order_release);
        queue->slot_count += count;
        for (uint32_t i = 0; i < count; i++) {
            give_slot(queue, first + i);
        }
    }
    return DAO_OK;
}

void dao_free_queue_push(dao_free_queue_t *queue, void *address, dao_block_owner_t owner)
{
    uint32_t index = pop_free(queue);
    if (index == DAO_FREE_QUEUE_NONE) {
        atomic_fetch_add_explicit(&queue->lost_count, 1, memory_order_relaxed);
        return;
    }
    dao_free_slot_t *slot = dao_free_queue_slot(queue, index);
    slot->address = address;
    slot->owner = (uint16_t)owner;
    atomic_fetch_add_explicit(&queue->pending_count, 1,
                              memory_order_relaxed); /* before the owner can take it off */
    uint32_t head = atomic_load_explicit(&queue->pending_head, memory_order_relaxed);
    do {
        atomic_store_explicit(&slot->next, head, memory_order_relaxed);
    } while (!atomic_compare_exchange_weak_explicit(&queue->pending_head, &head, index, memory_order_release,
                                                    memory_order_relaxed));
}

uint32_t dao_free_queue_take(dao_free_queue_t *queue)
{
    if (atomic_load_explicit(&queue->pending_head, memory_order_relaxed) == DAO_FREE_QUEUE_NONE) {
        return DAO_FREE_QUEUE_NONE;
    }
    uint32_t first =
        atomic_exchange_explicit(&queue->pending_head, DAO_FREE_QUEUE_NONE, memory_order_acquire);
    uint64_t count = 0;
    for (uint32_t i = first; i != DAO_FREE_QUEUE_NONE;
         i = atomic_load(&dao_free_queue_slot(queue, i)->next)) {
        count++;
    }
    uint64_t before = atomic_fetch_sub_explicit(&queue->pending_count, count, memory_order_relaxed);
    DAO_ASSERT(before >= count); /* a push is counted before its slot can be taken */
    (void)before;
    return first;
}

uint32_t dao_free_queue_reclaim(dao_free_queue_t *queue, uint32_t wrong,
                                dao_status_t (*give)(void *user, void *address, dao_block_owner_t owner),
                                void *user)
{
    uint32_t next = DAO_FREE_QUEUE_NONE;
    for (uint32_t index = dao_free_queue_take(queue); index != DAO_FREE_QUEUE_NONE; index = next) {
        dao_free_slot_t *slot = dao_free_queue_slot(queue, index);
        next = atomic_load(&slot->next);
        slot->status = (uint16_t)give(user, slot->address, (dao_block_owner_t)slot->owner);
        if (slot->status == DAO_OK) {
            give_slot(queue, index);
        } else {
            atomic_store(&slot->next, wrong);
            wrong = index;
        }
    }
    return wrong;
}

void dao_free_queue_report(dao_free_queue_t *queue, uint32_t wrong, const char *name)
{
    for (uint32_t next = wrong; wrong != DAO_FREE_QUEUE_NONE; wrong = next) {
        dao_free_slot_t *slot = dao_free_queue_slot(queue, wrong);
        next = atomic_load(&slot->next);
        void *address = slot->address;
        dao_status_t status = (dao_status_t)slot->status;
        give_slot(queue, wrong); /* first: the callback may call this allocator */
        dao_ledger_log_free(name, address, status);
    }
    if (atomic_load_explicit(&queue->lost_count, memory_order_relaxed) == 0) {
        return;
    }
    uint64_t lost_count = atomic_exchange(&queue->lost_count, 0);
    if (lost_count > 0) {
        dao_log(DAO_LOG_LEVEL_ERROR,
                "%s: %" PRIu64 " deferred frees were lost, because more than %u wrong addresses were waiting",
                name, lost_count, DAO_FREE_QUEUE_SPARE_COUNT);
    }
}
