/* SPDX-License-Identifier: Apache-2.0 */
/* A thread at the slabs: what comes into its magazines and out of them, and how it comes and goes.

   The way down to the slabs is taken when a magazine is empty (refill), full (flush), when a thread ends, and
   when memory is short: then the epoch changes, which each thread compares at its next call and flushes all
   it has. A flush that finds the lock taken puts its objects in the mail (slab.c) instead of waiting.
   Flushes, and refills from slabs that there are, take the slabs' lock alone: the fast paths make them.

   What a thread keeps that makes no call, whoever has the lock puts back for it:

       the thread                                   another one, with the lock
       is_inside = true, or slow_depth + 1          its epoch, or the cache's, is another one now
       epochs alike? then its magazines are its     a barrier in all threads (dao_threads_barrier())
       is_inside = false, or slow_depth - 1         neither? then its magazines are the other one's

   Either the thread sees the change as it reads the epochs, and asks for the lock, or it was inside before
   the barrier, so that the other one sees that and leaves it alone. Where the system has no such barrier, all
   wait for the thread's next call. So the usual call has two stores for it, and no order of its own. There
   are two marks as callbacks of the program may make usual calls within slow ones. tests/protocols has a
   model of it.

   Decay needs no thread and no clock: after every DECAY_VISIT_COUNT refills and flushes there is a tick.
   Spare slabs that were idle since the last one end. Each thread sees the tick as it refills or flushes next,
   and gives half of every magazine back that was not refilled since its own last one. From threads that have
   made no call since the last tick all is taken. While no thread is at the slabs there are no ticks: then
   each keeps what it has, sizes->kept_bytes at most, until somebody trims, or memory is short.

   The lock is not held over calls of the inner allocator, but for reading its counters and walking its
   blocks. */
#include "allocators/slab/thread_cache_internal.h"

#include "base/internal_error.h"
#include "base/report/assert.h"

#include <stddef.h>

#define relaxed memory_order_relaxed

/* Refills and flushes from tick to tick: so many that every size in use, of at most DAO_SLAB_CLASS_COUNT, is
   refilled in between, sixteen times if they are used alike. */
#define DECAY_VISIT_COUNT (16u * DAO_SLAB_CLASS_COUNT)

/* Frees the memory of slabs that have ended. With the lock or without it. */
static void free_memory(dao_thread_cache_t *cache, const dao_slab_t *retired)
{
    for (const dao_slab_t *slab = retired; slab != NULL; slab = slab->next) {
        DAO_MUST(dao_allocator_free_owned(cache->inner, slab->address, DAO_BLOCK_OWNER_SLAB));
    }
}

static void recycle_locked(dao_thread_cache_t *cache, dao_slab_t *retired)
{
    while (retired != NULL) {
        dao_slab_t *slab = retired;
        retired = slab->next;
        dao_slabs_recycle(&cache->slabs, slab);
    }
}

/* Releases the memory of slabs that have ended. Without the lock. */
static void give_back(dao_thread_cache_t *cache, dao_slab_t *retired)
{
    if (retired == NULL) {
        return;
    }
    free_memory(cache, retired);
    dao_thread_cache_lock(cache);
    recycle_locked(cache, retired);
    dao_thread_cache_unlock(cache);
}

bool dao_thread_cache_unlock_and_give_back(dao_thread_cache_t *cache)
{
    dao_slab_t *retired = dao_slabs_take_retired(&cache->slabs);
    dao_thread_cache_unlock(cache);
    give_back(cache, retired);
    return retired != NULL;
}

/* ---- flush and refill ---- */

/* Checks what magazines.h says of a thread's magazines: no magazine has more than its capacity, and
   used_bytes - used_floor is what the thread may still keep. Called by the thread itself. */
static bool own_is_valid(const dao_thread_cache_t *cache, const dao_magazines_t *own)
{
    int64_t kept_bytes = 0;
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        const dao_magazine_t *magazine = &own->magazines[i];
        uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
        if (count > magazine->capacity) {
            return false;
        }
        kept_bytes += count * magazine->object_bytes;
    }
    return atomic_load_explicit(&own->counts.used_bytes, relaxed) - own->used_floor ==
           (int64_t)cache->slabs.sizes->kept_bytes - kept_bytes;
}

/* How objects of one size go back to the slabs. */
typedef void (*give_t)(dao_slabs_t *slabs, const dao_slab_item_t *items, uint32_t count);

/* By mail: another thread is at the slabs. */
static void mail_all(dao_slabs_t *slabs, const dao_slab_item_t *items, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        dao_slab_t *slab = dao_slabs_slab_of(slabs, &items[i]);
        dao_slabs_mail(slabs, dao_slab_object(slab, dao_slab_item_index(slab, &items[i])));
    }
}

/* Gives the `count` objects that have been in a magazine longest back. */
static void give_oldest(dao_thread_cache_t *cache, dao_magazines_t *own, dao_magazine_t *magazine,
                        uint32_t count, give_t give)
{
    uint32_t all_count = atomic_load_explicit(&magazine->count, relaxed);
    DAO_ASSERT(count <= all_count);
    if (count == 0) {
        return;
    }
    dao_slab_item_t *items = magazine->objects;
    give(&cache->slabs, items, count);
    for (uint32_t i = count; i < all_count; i++) {
        dao_slab_item_t *kept = &items[i], *place = kept - count;
        atomic_store_explicit(&place->address, atomic_load_explicit(&kept->address, relaxed), relaxed);
        atomic_store_explicit(&place->word, atomic_load_explicit(&kept->word, relaxed), relaxed);
    }
    atomic_store_explicit(&magazine->count, all_count - count, relaxed);
    own->used_floor -= count * magazine->object_bytes;
    DAO_ASSERT_HEAVY(own_is_valid(cache, own));
}

/* Puts all that a thread keeps back into the slabs. */
static void flush_all_locked(dao_thread_cache_t *cache, dao_magazines_t *own)
{
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        dao_magazine_t *magazine = &own->magazines[i];
        give_oldest(cache, own, magazine, atomic_load_explicit(&magazine->count, relaxed),
                    dao_slabs_give_all);
    }
}

/* Returns half of what some magazines have, one after the other, to the slabs, under the lock or by
   mail. */
static void give_half(dao_thread_cache_t *cache, dao_magazines_t *own, dao_magazine_t *magazine,
                      uint32_t magazine_count, give_t give)
{
    for (uint32_t i = 0; i < magazine_count; i++) {
        uint32_t count = (atomic_load_explicit(&magazine[i].count, relaxed) + 1) / 2;
        give_oldest(cache, own, &magazine[i], count, give);
    }
}

/* ---- what other threads keep ---- */

/* Returns true if a thread keeps anything, and will ask for the lock before it touches it, unless it is
   inside of a call already. */
static bool is_called(const dao_thread_cache_t *cache, const dao_magazines_t *other)
{
    return atomic_load_explicit(&other->epoch, relaxed) != atomic_load_explicit(&cache->epoch, relaxed) &&
           dao_thread_cache_kept_bytes(other) > 0;
}

/* Puts back what other threads keep that were called on to flush and are outside of a call. */
static void take_from_called_locked(dao_thread_cache_t *cache, const dao_magazines_t *own)
{
    bool is_any = false;
    for (const dao_magazines_t *other = cache->first; other != NULL && !is_any; other = other->next) {
        is_any = other != own && is_called(cache, other);
    }
    if (!is_any || !dao_threads_barrier()) {
        return;
    }
    for (dao_magazines_t *other = cache->first; other != NULL; other = other->next) {
        if (other != own && is_called(cache, other) && !dao_magazines_are_entered(other)) {
            flush_all_locked(cache, other);
        }
    }
}

/* Takes what those threads keep that have made no call since the last tick. */
static void take_from_idle_locked(dao_thread_cache_t *cache, const dao_magazines_t *own)
{
    for (dao_magazines_t *other = cache->first; other != NULL; other = other->next) {
        uint32_t call_count = (uint32_t)(atomic_load_explicit(&other->counts.alloc_count, relaxed) +
                                         atomic_load_explicit(&other->counts.free_count, relaxed));
        if (other != own && other->call_count == call_count) {
            atomic_store_explicit(&other->epoch, DAO_MAGAZINES_EPOCH_NONE, relaxed);
        }
        other->call_count = call_count;
    }
    take_from_called_locked(cache, own);
}

/* A visit of the slabs by a thread: gives back what has been idle. */
static void decay_locked(dao_thread_cache_t *cache, dao_magazines_t *own)
{
    if (++cache->visit_count % DECAY_VISIT_COUNT == 0) {
        cache->tick++;
        take_from_idle_locked(cache, own);
        dao_slabs_drop_idle(&cache->slabs);
    }
    if (own->tick == cache->tick) {
        return;
    }
    own->tick = cache->tick;
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        dao_magazine_t *magazine = &own->magazines[i];
        if (!magazine->was_refilled) {
            give_half(cache, own, magazine, 1, dao_slabs_give_all);
        }
        magazine->was_refilled = false;
    }
}

void dao_thread_cache_flush_half(dao_thread_cache_t *cache, dao_magazines_t *own, dao_magazine_t *magazine,
                                 uint32_t magazine_count)
{
    if (!dao_mutex_try_lock(&cache->lock)) {
        give_half(cache, own, magazine, magazine_count, mail_all);
        return;
    }
    dao_slabs_drain(&cache->slabs);
    give_half(cache, own, magazine, magazine_count, dao_slabs_give_all);
    decay_locked(cache, own);
    (void)dao_thread_cache_unlock_and_give_back(cache);
}

void dao_thread_cache_follow_epoch(dao_thread_cache_t *cache, dao_magazines_t *own)
{
    dao_thread_cache_lock(cache);
    atomic_store_explicit(&own->epoch, atomic_load_explicit(&cache->epoch, relaxed), relaxed);
    dao_slabs_drain(&cache->slabs);
    flush_all_locked(cache, own);
    (void)dao_thread_cache_unlock_and_give_back(cache);
}

/* Takes objects out of the slabs and into a magazine that is empty, one to be handed out at once and as many
   others as the thread may keep; false if there are none. */
static bool refill_locked(dao_thread_cache_t *cache, dao_magazines_t *own, uint32_t class_index)
{
    dao_magazine_t *magazine = &own->magazines[class_index];
    int64_t room_bytes = atomic_load_explicit(&own->counts.used_bytes, relaxed) - own->used_floor;
    DAO_ASSERT_HEAVY(own_is_valid(cache, own));
    DAO_ASSERT(atomic_load_explicit(&magazine->count, relaxed) == 0);
    DAO_ASSERT(room_bytes >= 0);
    uint32_t room_count = (uint32_t)(room_bytes / magazine->object_bytes);
    uint32_t batch_count = (magazine->capacity + 1) / 2;
    uint32_t count = dao_slabs_take(&cache->slabs, class_index, magazine->objects,
                                    batch_count <= room_count ? batch_count : room_count + 1);
    atomic_store_explicit(&magazine->count, count, relaxed);
    own->used_floor += count * magazine->object_bytes;
    DAO_ASSERT_HEAVY(own_is_valid(cache, own));
    return count > 0;
}

/* Takes a block of the inner allocator for a slab that was prepared. Without the lock. */
static bool slab_take(dao_thread_cache_t *cache, dao_slab_t *slab, void **out_address)
{
    dao_block_request_t request = {.size_bytes = (size_t)slab->object_bytes * slab->object_count,
                                   .alignment_bytes = DAO_SLAB_GRANULE_BYTES,
                                   .owner = DAO_BLOCK_OWNER_SLAB};
    dao_block_grant_t grant;
    if (cache->inner->ops->alloc(cache->inner, &request, &grant) != DAO_OK) {
        return false;
    }
    *out_address = grant.address;
    return true;
}

/* Refills a magazine that was empty from a slab that was prepared. While its memory is taken the inner
   allocator may log, and the program's callback allocate and free here: where that has filled the magazine,
   the slab is not needed and goes back. */
static bool refill_anew(dao_thread_cache_t *cache, dao_magazines_t *own, uint32_t class_index,
                        dao_slab_t *slab)
{
    void *address = NULL;
    bool is_taken = slab_take(cache, slab, &address);
    dao_thread_cache_lock(cache);
    bool is_refilled = atomic_load_explicit(&own->magazines[class_index].count, relaxed) > 0;
    bool is_added = is_taken && !is_refilled && dao_slabs_add(&cache->slabs, slab, address);
    if (is_added) {
        is_refilled = refill_locked(cache, own, class_index);
    } else {
        dao_slabs_recycle(&cache->slabs, slab);
        cache->slabs.taken_count += is_taken;
        cache->slabs.given_count += is_taken;
    }
    dao_thread_cache_unlock(cache);
    if (is_taken && !is_added) {
        DAO_MUST(dao_allocator_free_owned(cache->inner, address, DAO_BLOCK_OWNER_SLAB));
    }
    return is_refilled;
}

bool dao_thread_cache_refill(dao_thread_cache_t *cache, dao_magazines_t *own, uint32_t class_index,
                             dao_refill_from_t from)
{
    dao_slab_t *slab = NULL;
    dao_thread_cache_lock(cache);
    dao_slabs_drain(&cache->slabs);
    bool is_refilled = refill_locked(cache, own, class_index);
    own->magazines[class_index].was_refilled = true; /* in any case, soon */
    decay_locked(cache, own);
    if (!is_refilled && from == DAO_REFILL_FROM_ANY) {
        slab =
            dao_slabs_prepare(&cache->slabs, class_index, dao_slabs_next_count(&cache->slabs, class_index));
    }
    (void)dao_thread_cache_unlock_and_give_back(cache);
    return slab != NULL ? refill_anew(cache, own, class_index, slab) : is_refilled;
}

bool dao_thread_cache_relieve(dao_thread_cache_t *cache, dao_magazines_t *own)
{
    dao_thread_cache_lock(cache);
    uint32_t epoch = dao_thread_cache_call_locked(cache);
    dao_slabs_drain(&cache->slabs);
    if (own != NULL) {
        atomic_store_explicit(&own->epoch, epoch, relaxed);
        flush_all_locked(cache, own);
        DAO_ASSERT_HEAVY(own_is_valid(cache, own));
    }
    take_from_called_locked(cache, own);
    dao_slabs_drop_spares(&cache->slabs);
    return dao_thread_cache_unlock_and_give_back(cache);
}

/* ---- threads come and go ---- */

static dao_thread_cache_t *front_of_owner(dao_magazine_owner_t *owner)
{
    return (dao_thread_cache_t *)(void *)((char *)owner - offsetof(dao_thread_cache_t, owner));
}

void dao_thread_cache_attach(dao_magazine_owner_t *owner, dao_magazines_t *own)
{
    dao_thread_cache_t *cache = front_of_owner(owner);
    dao_thread_cache_lock(cache);
    atomic_store_explicit(&own->epoch, atomic_load_explicit(&cache->epoch, relaxed), relaxed);
    own->tick = cache->tick;
    own->next = cache->first;
    if (cache->first != NULL) {
        cache->first->previous = own;
    }
    cache->first = own;
    dao_thread_cache_unlock(cache);
}

void dao_thread_cache_detach(dao_magazine_owner_t *owner, dao_magazines_t *own)
{
    dao_thread_cache_t *cache = front_of_owner(owner);
    dao_thread_cache_lock(cache);
    dao_slabs_drain(&cache->slabs);
    flush_all_locked(cache, own);
    dao_thread_cache_counts_add(&cache->gone, &own->counts);
    if (own->previous != NULL) {
        own->previous->next = own->next;
    } else {
        cache->first = own->next;
    }
    if (own->next != NULL) {
        own->next->previous = own->previous;
    }
    /* A thread may end while the library stops, which must not find memory that is neither a slab's nor
       free. */
    dao_slab_t *retired = dao_slabs_take_retired(&cache->slabs);
    free_memory(cache, retired);
    recycle_locked(cache, retired);
    dao_thread_cache_unlock(cache);
}
