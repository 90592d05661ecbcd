/* SPDX-License-Identifier: Apache-2.0 */
/* The thread cache: the table of allocator.h over slab.c and magazines.c.

       small request    -> this thread's magazine -> slabs, in batches, under the lock -> a block of `inner`
       any other        -> the inner allocator

       address -> the map has an entry? -> an object of a slab, or behind the last one -> `inner`'s

   The way down to the slabs is in thread_visits.c.

   What holds while no call is under way:

       used, requested and live of the cache ==
           those of the inner allocator - its slabs + the sums of all threads' counts
       inner blocks == blocks of the cache that are not small + slabs
       a thread's used_bytes - used_floor == sizes->kept_bytes - the bytes in its magazines >= 0 */
#include "allocators/slab/thread_cache.h"

#include "allocators/accounting/ledger.h"
#include "allocators/slab/thread_cache_internal.h"
#include "allocators/slow_path.h"
#include "base/memory/host.h"
#include "base/numbers/path.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#define relaxed memory_order_relaxed

/* ---- counters ---- */

static DAO_ON_THE_PATH void count_alloc(dao_magazines_t *own, int64_t requested_bytes, int64_t object_bytes)
{
    (void)dao_count_add(&own->counts.used_bytes, object_bytes);
    (void)dao_count_add(&own->counts.requested_bytes, requested_bytes);
    dao_count_up(&own->counts.alloc_count);
}

static DAO_ON_THE_PATH void count_free(dao_magazine_counts_t *counts, int64_t requested_bytes,
                                       int64_t object_bytes)
{
    (void)dao_count_add(&counts->used_bytes, -object_bytes);
    (void)dao_count_add(&counts->requested_bytes, -requested_bytes);
    dao_count_up(&counts->free_count);
}

/* ---- this thread's magazines ---- */

/* Returns this thread's magazines, NULL if it has none. */
static dao_magazines_t *own_or_null(const dao_thread_cache_t *cache)
{
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    return own == &dao_magazines_none ? NULL : own;
}

/* Returns true if magazines are this thread's, which is inside of a call, and need no flush. */
static inline bool is_ready(const dao_thread_cache_t *cache, const dao_magazines_t *own)
{
    return atomic_load_explicit(&own->epoch, relaxed) == atomic_load_explicit(&cache->epoch, relaxed);
}

/* Begins a call with this thread's magazines: makes them, or flushes them if that was called for. NULL: it
   has to do without. Ended by own_leave(). */
static dao_magazines_t *own_enter(dao_thread_cache_t *cache)
{
    dao_magazines_t *own = own_or_null(cache);
    if (own == NULL) {
        own = dao_magazines_create(&cache->owner);
    }
    if (own != NULL) {
        dao_magazines_enter_slow(own);
        if (!is_ready(cache, own)) {
            dao_thread_cache_follow_epoch(cache, own);
        }
    }
    return own;
}

static void own_leave(dao_magazines_t *own)
{
    if (own != NULL) {
        dao_magazines_leave_slow(own);
    }
}

/* ---- alloc ---- */

/* The inner allocator has refused. */
static DAO_OFF_THE_PATH dao_status_t forward_again(dao_thread_cache_t *cache, dao_status_t status,
                                                   const dao_block_request_t *request,
                                                   dao_block_grant_t *out_grant)
{
    if (dao_allocator_is_short(status) && dao_thread_cache_relieve(cache, own_or_null(cache))) {
        status = cache->inner->ops->alloc(cache->inner, request, out_grant);
    }
    if (status != DAO_OK) {
        (void)atomic_fetch_add_explicit(&cache->failed_count, 1, relaxed);
    }
    return status;
}

/* Hands a request to the inner allocator. */
static DAO_ON_THE_PATH dao_status_t forward_alloc(dao_thread_cache_t *cache,
                                                  const dao_block_request_t *request,
                                                  dao_block_grant_t *out_grant)
{
    dao_status_t status = cache->inner->ops->alloc(cache->inner, request, out_grant);
    return __builtin_expect(status == DAO_OK, true) ? DAO_OK
                                                    : forward_again(cache, status, request, out_grant);
}

static bool is_small(const dao_thread_cache_t *cache, const dao_block_request_t *request)
{
    return request->size_bytes <= cache->small_bytes &&
           request->alignment_bytes <= (size_t)1 << cache->slabs.unit_shift &&
           (request->stream | request->lease) == 0;
}

/* Hands the latest object of a magazine out, which has `count` of them, at least 1. */
static DAO_ON_THE_PATH void *hand_out(dao_magazines_t *own, dao_magazine_t *magazine, uint32_t count,
                                      size_t size_bytes, uint32_t mark)
{
    dao_slab_item_t *object = &magazine->objects[count - 1];
    _Atomic uint32_t *word = atomic_load_explicit(&object->word, relaxed);
    DAO_ASSERT(count > 0 && atomic_load_explicit(word, relaxed) == 0);
    atomic_store_explicit(word, dao_slab_word(size_bytes, mark), relaxed);
    atomic_store_explicit(&magazine->count, count - 1, relaxed);
    count_alloc(own, (int64_t)size_bytes, magazine->object_bytes);
    return atomic_load_explicit(&object->address, relaxed);
}

/* Hands an object out, for which the magazine may have to be filled. NULL: there is none. */
static void *refill_and_hand_out(dao_thread_cache_t *cache, dao_magazines_t *own, size_t size_bytes,
                                 uint32_t mark, dao_refill_from_t from)
{
    uint32_t class_index = dao_slabs_class_of(&cache->slabs, size_bytes);
    dao_magazine_t *magazine = &own->magazines[class_index];
    uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
    if (count == 0 && dao_thread_cache_refill(cache, own, class_index, from)) {
        count = atomic_load_explicit(&magazine->count, relaxed); /* a callback may have taken all */
    }
    if (count == 0) {
        return NULL;
    }
    dao_count_up(&own->counts.slow_count);
    return hand_out(own, magazine, count, size_bytes, mark);
}

/* The magazine is empty, or there is none yet, or it is to be flushed. The block is charged to its tag. */
static void *refill_and_alloc(dao_thread_cache_t *cache, const dao_block_request_t *request)
{
    dao_magazines_t *own = own_enter(cache);
    void *address = own == NULL ? NULL
                                : refill_and_hand_out(cache, own, request->size_bytes, dao_slab_mark(request),
                                                      DAO_REFILL_FROM_ANY);
    own_leave(own);
    return address;
}

/* Any small request: charges its tag, and fills the magazine if that is empty. One that finds no slab may
   still fit into what the inner allocator has. */
static DAO_OFF_THE_PATH dao_status_t alloc_slow(dao_thread_cache_t *cache, const dao_block_request_t *request,
                                                dao_block_grant_t *out_grant)
{
    uint32_t class_index = dao_slabs_class_of(&cache->slabs, request->size_bytes);
    uint64_t object_bytes = dao_slab_object_bytes(cache->slabs.sizes, class_index);
    dao_status_t status = dao_ledger_charge(cache->base.ledger, request, object_bytes);
    if (status != DAO_OK) { /* let the inner allocator say so */
        return forward_alloc(cache, request, out_grant);
    }
    *out_grant = (dao_block_grant_t){.address = refill_and_alloc(cache, request)};
    if (out_grant->address == NULL) {
        dao_ledger_refund(cache->base.ledger, request, object_bytes);
        return forward_alloc(cache, request, out_grant);
    }
    if (request->tag != 0) {
        dao_tags_count_alloc(cache->base.ledger->tags, request->tag);
    }
    return DAO_OK;
}

static dao_status_t thread_cache_alloc(dao_allocator_t *allocator, const dao_block_request_t *request,
                                       dao_block_grant_t *out_grant)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    DAO_ASSERT(request->size_bytes > 0 && request->tag < DAO_TAG_COUNT_MAX);
    return is_small(cache, request) ? alloc_slow(cache, request, out_grant)
                                    : forward_alloc(cache, request, out_grant);
}

/* The magazine is empty, or there is none yet, or it is to be flushed. An empty one is filled from the slabs
   that there are, which takes their lock alone; the slow path does all else. */
static DAO_OFF_THE_PATH void *refill_and_alloc_fast(dao_thread_cache_t *cache, size_t size_bytes)
{
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    dao_magazines_enter_slow(own);
    void *address =
        is_ready(cache, own) ? refill_and_hand_out(cache, own, size_bytes, 0, DAO_REFILL_FROM_SLABS) : NULL;
    dao_magazines_leave_slow(own);
    return address != NULL ? address : dao_allocator_alloc_fallback(&cache->base, size_bytes);
}

/* A small request. Apart from thread_cache_alloc_fast(), which then leaves its registers as they are for what
   is not small. */
static DAO_OFF_THE_PATH void *alloc_small_fast(dao_thread_cache_t *cache, size_t size_bytes)
{
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    dao_magazine_t *magazine = &own->magazines[dao_slabs_class_of(&cache->slabs, size_bytes)];
    dao_magazines_enter(own);
    uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
    if (__builtin_expect(!is_ready(cache, own) || count == 0, false)) {
        dao_magazines_leave(own);
        return refill_and_alloc_fast(cache, size_bytes);
    }
    void *address = hand_out(own, magazine, count, size_bytes, 0);
    dao_magazines_leave(own);
    return address;
}

static void *thread_cache_alloc_fast(dao_allocator_t *allocator, size_t size_bytes)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    return size_bytes - 1 < cache->small_bytes /* 0 is none of the sizes here */
               ? alloc_small_fast(cache, size_bytes)
               : cache->inner->ops->alloc_fast(cache->inner, size_bytes);
}

/* ---- free ---- */

static dao_status_t free_error(const dao_thread_cache_t *cache, dao_status_t status, const void *address)
{
    return dao_error(status, "%s: %p cannot be freed: %s", cache->name, address, dao_status_text(status));
}

/* An object comes back to a thread that has no magazines. */
static void give_directly(dao_thread_cache_t *cache, uint64_t object, uint32_t word)
{
    dao_thread_cache_lock(cache);
    int64_t object_bytes = dao_slab_of_object(object)->object_bytes;
    count_free(&cache->gone, (int64_t)dao_slab_word_requested_bytes(word), object_bytes);
    dao_count_up(&cache->gone.slow_count);
    dao_slabs_give(&cache->slabs, object);
    (void)dao_thread_cache_unlock_and_give_back(cache);
}

/* Makes room for one more object in a magazine, and in what the thread may keep. Returns true if there was
   none. */
static bool make_room(dao_thread_cache_t *cache, dao_magazines_t *own, dao_magazine_t *magazine)
{
    bool is_full = atomic_load_explicit(&magazine->count, relaxed) == magazine->capacity;
    if (is_full) {
        dao_thread_cache_flush_half(cache, own, magazine, 1);
    }
    int64_t used_bytes = atomic_load_explicit(&own->counts.used_bytes, relaxed) - magazine->object_bytes;
    bool is_over = used_bytes < own->used_floor;
    if (is_over) {
        dao_thread_cache_flush_half(cache, own, own->magazines, DAO_SLAB_CLASS_COUNT);
    }
    return is_full || is_over;
}

/* Takes an object back, whose word was taken off, into a magazine that has `count` of them, and room. */
static DAO_ON_THE_PATH void take_back(dao_magazines_t *own, dao_magazine_t *magazine, uint32_t count,
                                      void *address, _Atomic uint32_t *word_place, uint32_t word)
{
    DAO_ASSERT(word != 0 && count < magazine->capacity);
    dao_slab_item_t *object = &magazine->objects[count];
    atomic_store_explicit(&object->address, address, relaxed);
    atomic_store_explicit(&object->word, word_place, relaxed);
    atomic_store_explicit(&magazine->count, count + 1, relaxed);
    count_free(&own->counts, (int64_t)dao_slab_word_requested_bytes(word), magazine->object_bytes);
}

/* Returns the charge of an object that was freed to its tag. */
static void refund(const dao_thread_cache_t *cache, uint32_t word, uint32_t object_bytes)
{
    uint32_t tag = dao_slab_word_tag(word);
    if (tag != 0) {
        dao_tags_count_free(cache->base.ledger->tags, tag, object_bytes);
    }
}

/* ---- a wrong free beside the right one ----

   free_small() takes a word off before it sees whose it is, and puts another owner's back. An owner that
   frees its object in between finds no word. It leaves WORD_LEFT there instead of waiting for a thread that
   may not run for long, and is done. Who holds the word, or WORD_LEFT, puts it back only where there is
   nothing; where the other one is, it takes that off, has both, and takes the object back for the owner. Each
   of the two is in its place or in the hands of one thread, so that one thread has both in the end.

   What the owner did with the object's bytes comes before what its next user does, who is of the thread that
   takes it back: WORD_LEFT is put there with release, by whomever, and taken off with acquire. */

/* Takes the word off an object that `owner` frees. `*out_word` is 0 if another thread has it and will take
   the object back. DAO_ERR_DOUBLE_FREE; DAO_ERR_NOT_YOURS. */
static dao_status_t take_word(_Atomic uint32_t *word_place, dao_block_owner_t owner, uint32_t *out_word)
{
    uint32_t word = atomic_load_explicit(word_place, relaxed), left = 0;
    do {
        if (word == DAO_SLAB_WORD_LEFT || (word == 0 && owner == DAO_BLOCK_OWNER_RAW)) {
            return DAO_ERR_DOUBLE_FREE;
        }
        if (word != 0 && dao_slab_word_owner(word) != owner) {
            return DAO_ERR_NOT_YOURS;
        }
        left = word == 0 ? DAO_SLAB_WORD_LEFT : 0;
    } while (!atomic_compare_exchange_weak_explicit(word_place, &word, left, memory_order_release, relaxed));
    *out_word = word;
    return DAO_OK;
}

/* Puts back what was taken off: another owner's word, or WORD_LEFT. Returns 0, or the word of an object that
   its owner has left to this thread. */
static uint32_t put_back(_Atomic uint32_t *word_place, uint32_t word)
{
    for (;;) {
        uint32_t other = 0;
        if (atomic_compare_exchange_weak_explicit(word_place, &other, word, memory_order_release, relaxed)) {
            return 0;
        }
        if (other != 0 &&
            atomic_compare_exchange_weak_explicit(word_place, &other, 0, memory_order_acquire, relaxed)) {
            DAO_ASSERT((word == DAO_SLAB_WORD_LEFT) != (other == DAO_SLAB_WORD_LEFT));
            return word == DAO_SLAB_WORD_LEFT ? other : word;
        }
    }
}

/* Takes an object back, whose word was taken off. `own`: this thread's magazines, inside of a call, or
   NULL. */
static void take_back_any(dao_thread_cache_t *cache, dao_magazines_t *own, uint64_t object, void *address,
                          uint32_t word)
{
    if (own == NULL) {
        give_directly(cache, object, word);
        return;
    }
    dao_slab_t *slab = dao_slab_of_object(object);
    dao_magazine_t *magazine = &own->magazines[slab->class_index];
    dao_count_up(&own->counts.slow_count);
    (void)make_room(cache, own, magazine);
    take_back(own, magazine, atomic_load_explicit(&magazine->count, relaxed), address,
              &slab->words[dao_slab_object_index(object)], word);
}

/* Frees an object whose word was not 0 a moment ago. */
static dao_status_t free_object(dao_thread_cache_t *cache, uint64_t object, void *address,
                                dao_stream_fence_t *fence, dao_block_owner_t owner)
{
    if (fence != NULL && !dao_stream_fence_is_empty(fence)) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "%s: %p follows no stream: it can be freed once it is idle, not before", cache->name,
                         address);
    }
    dao_slab_t *slab = dao_slab_of_object(object);
    uint32_t object_bytes = slab->object_bytes, word = 0;
    dao_magazines_t *own = own_enter(cache);
    dao_status_t status = take_word(&slab->words[dao_slab_object_index(object)], owner, &word);
    if (word != 0) {
        take_back_any(cache, own, object, address, word);
        refund(cache, word, object_bytes);
    }
    own_leave(own);
    return status == DAO_OK ? DAO_OK : free_error(cache, status, address);
}

/* A free of an address in a slab's granules that is wrong, or another block's, or has something in its
   way. */
static DAO_OFF_THE_PATH dao_status_t free_slow(dao_thread_cache_t *cache, void *address,
                                               dao_stream_fence_t *fence, dao_block_owner_t owner,
                                               uint64_t entry)
{
    uint32_t index = 0;
    if (!dao_slab_entry_object_index(cache->slabs.sizes, entry, address, &index)) {
        return cache->inner->ops->free_owned(cache->inner, address, fence, owner);
    }
    dao_slab_t *slab = dao_slab_of_entry(entry);
    uint32_t word = atomic_load_explicit(&slab->words[index], relaxed);
    if (word == 0 && owner == DAO_BLOCK_OWNER_RAW) {
        return free_error(cache, DAO_ERR_DOUBLE_FREE, address);
    }
    if (!dao_slab_entry_begins_object(cache->slabs.sizes, entry, address)) {
        return free_error(cache, DAO_ERR_INTERIOR_POINTER, address);
    }
    return free_object(cache, dao_slab_object(slab, index), address, fence, owner);
}

static dao_status_t free_fast_small(dao_thread_cache_t *cache, void *address, uint64_t entry);

/* Frees in every other way what free_fast_small() leaves. If its magazine had no room, that is made, and it
   is called again: it looks whether somebody waits for what has come back to the slabs. */
static DAO_OFF_THE_PATH dao_status_t free_fast_otherwise(dao_thread_cache_t *cache, void *address,
                                                         uint64_t entry)
{
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    dao_magazine_t *magazine = &own->magazines[dao_slab_entry_class(entry)];
    bool is_object = true, is_room_made = false;
    dao_magazines_enter_slow(own);
    if (is_ready(cache, own)) {
        is_object = dao_slab_entry_offset(entry, address) <
                    dao_slab_entry_object_count(entry) * magazine->object_bytes;
        is_room_made = is_object && make_room(cache, own, magazine);
    }
    if (is_room_made) {
        dao_count_up(&own->counts.slow_count);
    }
    dao_magazines_leave_slow(own);
    if (!is_object) {
        return cache->inner->ops->free_fast(cache->inner, address);
    }
    return is_room_made ? free_fast_small(cache, address, entry)
                        : dao_allocator_free_fallback(&cache->base, address);
}

/* Frees in every other way: what free_small() leaves. */
static DAO_ON_THE_PATH dao_status_t free_otherwise(dao_thread_cache_t *cache, void *address, uint64_t entry,
                                                   bool is_fast)
{
    return is_fast ? free_fast_otherwise(cache, address, entry)
                   : free_slow(cache, address, NULL, DAO_BLOCK_OWNER_RAW, entry);
}

/* Ends free_small() for a word that was taken off and is not plain, and the call of the magazines: a tagged
   object is the program's, another owner's word is put back. It looks the object up again, so that
   free_small() keeps nothing for it. */
static DAO_OFF_THE_PATH dao_status_t free_marked(dao_thread_cache_t *cache, void *address, uint32_t word,
                                                 bool is_fast)
{
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    dao_magazine_t *magazine = &own->magazines[dao_slab_entry_class(entry)];
    uint32_t index = dao_slab_index(dao_slab_entry_offset(entry, address), magazine->reciprocal);
    _Atomic uint32_t *word_place = &dao_slab_of_entry(entry)->words[index];
    bool is_ours = dao_slab_word_owner(word) == DAO_BLOCK_OWNER_RAW;
    word = is_ours ? word : put_back(word_place, word);
    if (word != 0) {
        uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
        take_back(own, magazine, count, address, word_place, word);
        refund(cache, word, magazine->object_bytes);
    }
    dao_magazines_leave(own);
    return is_ours ? DAO_OK : free_otherwise(cache, address, entry, is_fast);
}

/* Frees an object of the program's into a magazine that has room for it, inside of a call of the magazines:
   most objects. False: nothing is done, but that *out_marked, if it is not 0, is a word that was taken off
   and is not plain. */
static DAO_ON_THE_PATH bool free_inside(dao_thread_cache_t *cache, dao_magazines_t *own, void *address,
                                        uint64_t entry, uint32_t *out_marked)
{
    if (!is_ready(cache, own)) {
        return false;
    }
    dao_magazine_t *magazine = &own->magazines[dao_slab_entry_class(entry)];
    uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
    int64_t used_bytes = atomic_load_explicit(&own->counts.used_bytes, relaxed) - magazine->object_bytes;
    if (count == magazine->capacity || used_bytes < own->used_floor) {
        return false;
    }
    uint32_t offset = dao_slab_entry_offset(entry, address);
    uint32_t index = dao_slab_index(offset, magazine->reciprocal);
    if (index * magazine->object_bytes != offset) { /* interior, or a block behind the last object */
        return false;
    }
    _Atomic uint32_t *word_place = &dao_slab_of_entry(entry)->words[index];
    uint32_t word = atomic_exchange_explicit(word_place, 0, memory_order_acquire);
    if (word == 0) { /* freed twice, or a block behind the last object */
        return false;
    }
    if (__builtin_expect(word > DAO_SLAB_WORD_REQUESTED_MAX, false)) {
        *out_marked = word;
        return false;
    }
    take_back(own, magazine, count, address, word_place, word);
    return true;
}

static DAO_ON_THE_PATH dao_status_t free_small(dao_thread_cache_t *cache, void *address, uint64_t entry,
                                               bool is_fast)
{
    dao_magazines_t *own = dao_magazines_own(&cache->owner);
    uint32_t marked = 0;
    dao_magazines_enter(own);
    bool is_done = free_inside(cache, own, address, entry, &marked);
    if (__builtin_expect(marked != 0, false)) {
        return free_marked(cache, address, marked, is_fast);
    }
    dao_magazines_leave(own);
    return is_done ? DAO_OK : free_otherwise(cache, address, entry, is_fast);
}

static dao_status_t thread_cache_free_owned(dao_allocator_t *allocator, void *address,
                                            dao_stream_fence_t *fence, dao_block_owner_t owner)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    return entry == 0 ? cache->inner->ops->free_owned(cache->inner, address, fence, owner)
                      : free_slow(cache, address, fence, owner, entry);
}

static dao_status_t thread_cache_free(dao_allocator_t *allocator, void *address, dao_stream_fence_t *fence)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    if (entry == 0) {
        return cache->inner->ops->free(cache->inner, address, fence);
    }
    return fence == NULL ? free_small(cache, address, entry, false)
                         : free_slow(cache, address, fence, DAO_BLOCK_OWNER_RAW, entry);
}

/* thread_cache_free_fast() in a slab's granules. The look at the slow path is made without a lock: a thread
   that begins to wait for memory behind it is not woken by this free, and looks again by itself
   (runtime/core/waiters.c). */
static DAO_OFF_THE_PATH dao_status_t free_fast_small(dao_thread_cache_t *cache, void *address, uint64_t entry)
{
    return !dao_slow_path_is_needed() ? free_small(cache, address, entry, true)
                                      : dao_allocator_free_fallback(&cache->base, address);
}

static dao_status_t thread_cache_free_fast(dao_allocator_t *allocator, void *address)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    return entry == 0 ? cache->inner->ops->free_fast(cache->inner, address)
                      : free_fast_small(cache, address, entry);
}

/* Small blocks follow no stream. */
static void *thread_cache_alloc_ordered(dao_allocator_t *allocator, size_t size_bytes, uint32_t stream)
{
    dao_allocator_t *inner = dao_thread_cache_of(allocator)->inner;
    return inner->ops->alloc_ordered(inner, size_bytes, stream);
}

/* An object of a slab is none of the inner allocator's blocks, and a slab is one of another owner's: both are
   refused there. */
static dao_status_t thread_cache_free_ordered(dao_allocator_t *allocator, void *address, uint32_t stream,
                                              dao_block_owner_t owner)
{
    dao_allocator_t *inner = dao_thread_cache_of(allocator)->inner;
    return inner->ops->free_ordered(inner, address, stream, owner);
}

/* ---- frees from elsewhere, where the inner allocator has a queue of them ---- */

static void count_mailed(dao_thread_cache_t *cache, uint32_t word, uint32_t object_bytes)
{
    dao_magazine_counts_t *mailed = &cache->mailed;
    (void)atomic_fetch_sub_explicit(&mailed->used_bytes, (int64_t)object_bytes, relaxed);
    (void)atomic_fetch_sub_explicit(&mailed->requested_bytes, (int64_t)dao_slab_word_requested_bytes(word),
                                    relaxed);
    (void)atomic_fetch_add_explicit(&mailed->free_count, 1, relaxed);
    (void)atomic_fetch_add_explicit(&mailed->slow_count, 1, relaxed);
}

/* The mail is the queue of objects: whoever takes the lock next puts them back. What is wrong is seen at
   once. */
static void thread_cache_free_deferred(dao_allocator_t *allocator, void *address, dao_block_owner_t owner)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    uint32_t index = 0, word = 0;
    if (entry == 0 || !dao_slab_entry_object_index(cache->slabs.sizes, entry, address, &index)) {
        cache->inner->ops->free_deferred(cache->inner, address, owner);
        return;
    }
    dao_slab_t *slab = dao_slab_of_entry(entry);
    dao_status_t status = dao_slab_entry_begins_object(cache->slabs.sizes, entry, address)
                              ? take_word(&slab->words[index], owner, &word)
                              : DAO_ERR_INTERIOR_POINTER;
    if (status != DAO_OK) {
        dao_ledger_log_free(cache->name, address, status);
    } else if (word != 0) {
        uint32_t object_bytes = slab->object_bytes;
        count_mailed(cache, word, object_bytes);
        dao_slabs_mail(&cache->slabs, dao_slab_object(slab, index)); /* then the slab may end */
        refund(cache, word, object_bytes);
    }
}

static void thread_cache_drain(dao_allocator_t *allocator)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    if (dao_slabs_has_mail(&cache->slabs)) {
        dao_thread_cache_lock(cache);
        dao_slabs_drain(&cache->slabs);
        (void)dao_thread_cache_unlock_and_give_back(cache);
    }
    cache->inner->ops->drain(cache->inner);
}

/* ---- the rest of the table ---- */

/* Finds the object that an address lies in, handed out or not: its entry, and its word. 0: it lies in
   none. */
static uint64_t object_find(const dao_thread_cache_t *cache, const void *address, uint32_t *out_word)
{
    uint64_t entry = dao_slab_map_find(&cache->slabs.map, address);
    if (entry == 0) {
        return 0;
    }
    uint32_t index = 0;
    if (!dao_slab_entry_object_index(cache->slabs.sizes, entry, address, &index)) {
        return 0;
    }
    *out_word = atomic_load_explicit(&dao_slab_of_entry(entry)->words[index], relaxed);
    return entry;
}

static dao_status_t thread_cache_query(dao_allocator_t *allocator, const void *address,
                                       dao_block_t *out_block)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint32_t word = 0;
    uint64_t entry = object_find(cache, address, &word);
    if (entry == 0) {
        return cache->inner->ops->query(cache->inner, address, out_block);
    }
    if (!dao_slab_word_is_live(word)) {
        return dao_error(DAO_ERR_FOREIGN_POINTER, "%s: no live block at %p", cache->name, address);
    }
    *out_block = dao_slab_describe(cache->slabs.sizes, entry, address, word);
    return DAO_OK;
}

static dao_status_t thread_cache_stream_mark(dao_allocator_t *allocator, void *address, uint32_t stream)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    uint32_t word = 0;
    if (object_find(cache, address, &word) == 0) {
        return cache->inner->ops->stream_mark(cache->inner, address, stream);
    }
    dao_block_t block;
    dao_status_t status = thread_cache_query(allocator, address, &block);
    if (status == DAO_OK) {
        status = block.address == address ? DAO_ERR_UNSUPPORTED : DAO_ERR_INTERIOR_POINTER;
    }
    return dao_error(status, "%s: %p cannot be marked as used by a stream: %s", cache->name, address,
                     dao_status_text(status));
}

static dao_status_t thread_cache_trim(dao_allocator_t *allocator, size_t keep_bytes,
                                      size_t *out_released_bytes)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    (void)dao_thread_cache_relieve(cache,
                                   own_or_null(cache)); /* what it finds, the inner allocator gives back */
    return cache->inner->ops->trim(cache->inner, keep_bytes, out_released_bytes);
}

static dao_status_t thread_cache_limit_set(dao_allocator_t *allocator, size_t limit_bytes)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    dao_status_t status = cache->inner->ops->limit_set(cache->inner, limit_bytes);
    if (status == DAO_ERR_LIMIT && dao_thread_cache_relieve(cache, own_or_null(cache))) {
        status = cache->inner->ops->limit_set(cache->inner, limit_bytes);
    }
    return status;
}
/* ---- create and destroy ---- */

/* Frees the cache; the inner allocator stays. */
static void front_destroy(dao_thread_cache_t *cache)
{
    dao_magazines_owner_finish(&cache->owner, &cache->first);
    dao_slabs_finish(&cache->slabs);
    dao_mutex_finish(&cache->lock);
    dao_host_free(cache->name);
    dao_host_free(cache);
}

static void thread_cache_destroy(dao_allocator_t *allocator)
{
    dao_allocator_t *inner = dao_thread_cache_of(allocator)->inner;
    front_destroy(dao_thread_cache_of(allocator));
    inner->ops->destroy(inner);
}

static const dao_allocator_ops_t thread_cache_ops = {
    .name = "slab",
    .alloc = thread_cache_alloc,
    .alloc_fast = thread_cache_alloc_fast,
    .free = thread_cache_free,
    .free_owned = thread_cache_free_owned,
    .free_fast = thread_cache_free_fast,
    .alloc_ordered = thread_cache_alloc_ordered,
    .free_ordered = thread_cache_free_ordered,
    .stream_mark = thread_cache_stream_mark,
    .query = thread_cache_query,
    .trim = thread_cache_trim,
    .limit_set = thread_cache_limit_set,
    .used_get = dao_thread_cache_used_get,
    .stats_get = dao_thread_cache_stats_get,
    .stats_reset_peaks = dao_thread_cache_stats_reset_peaks,
    .walk = dao_thread_cache_walk,
    .walk_all = dao_thread_cache_walk_all,
    .is_valid = dao_thread_cache_is_valid,
    .destroy = thread_cache_destroy,
    .free_deferred = thread_cache_free_deferred,
    .drain = thread_cache_drain,
};

dao_status_t dao_thread_cache_create(dao_allocator_t *inner, const char *name, const dao_slab_sizes_t *sizes,
                                     size_t small_bytes, dao_allocator_t **out_allocator)
{
    DAO_ASSERT(small_bytes <= DAO_SLAB_OBJECT_BYTES_MAX);
    dao_thread_cache_t *cache = dao_host_calloc(1, sizeof(*cache));
    if (cache == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    cache->ops = thread_cache_ops;
    dao_front_init((dao_front_t *)cache, inner, &cache->ops);
    cache->small_bytes = small_bytes != 0 ? small_bytes : sizes->default_bytes;
    cache->owner.attach = dao_thread_cache_attach;
    cache->owner.detach = dao_thread_cache_detach;
    cache->owner.sizes = sizes;
    dao_mutex_init(&cache->lock, DAO_RANK_FRONT);
    dao_magazines_owner_init(&cache->owner);
    atomic_init(&cache->epoch, DAO_MAGAZINES_EPOCH_NONE + 1);
    dao_slabs_init(&cache->slabs, sizes);
    cache->name = dao_host_strdup(name);
    if (cache->name == NULL) {
        front_destroy(cache);
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "%s: no host memory for the allocator", name);
    }
    (void)dao_threads_barrier(); /* the system's first one takes long where there are many threads */
    *out_allocator = &cache->base;
    return DAO_OK;
}
