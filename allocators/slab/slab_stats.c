/* SPDX-License-Identifier: Apache-2.0 */
/* The counters of the thread caches: sums over all threads' counts, beside those of the inner allocator; its
   check; and walks over both. Peaks are the inner allocator's, whose blocks the slabs are: never too low, and
   too high by what is kept in slabs at most. */
#include "allocators/slab/thread_cache_internal.h"

#include "base/numbers/math.h"

#define relaxed memory_order_relaxed

/* ---- counters ---- */

/* Adds counts to others. */
void dao_thread_cache_counts_add(dao_magazine_counts_t *sum, const dao_magazine_counts_t *counts)
{
    (void)dao_count_add(&sum->used_bytes, atomic_load_explicit(&counts->used_bytes, relaxed));
    (void)dao_count_add(&sum->requested_bytes, atomic_load_explicit(&counts->requested_bytes, relaxed));
    atomic_store_explicit(&sum->alloc_count,
                          atomic_load_explicit(&sum->alloc_count, relaxed) +
                              atomic_load_explicit(&counts->alloc_count, relaxed),
                          relaxed);
    atomic_store_explicit(&sum->free_count,
                          atomic_load_explicit(&sum->free_count, relaxed) +
                              atomic_load_explicit(&counts->free_count, relaxed),
                          relaxed);
    atomic_store_explicit(&sum->slow_count,
                          atomic_load_explicit(&sum->slow_count, relaxed) +
                              atomic_load_explicit(&counts->slow_count, relaxed),
                          relaxed);
}

/* What the small blocks are, all threads together. */
typedef struct small_sums {
    uint64_t used_bytes;
    uint64_t requested_bytes;
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t slow_count;
    uint64_t cached_bytes;
} small_sums_t;

static uint64_t at_most(int64_t value, uint64_t most)
{
    return value < 0 ? 0 : (uint64_t)value > most ? most : (uint64_t)value;
}

uint64_t dao_thread_cache_kept_bytes(const dao_magazines_t *magazines)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        const dao_magazine_t *magazine = &magazines->magazines[i];
        bytes += (uint64_t)atomic_load_explicit(&magazine->count, relaxed) * magazine->object_bytes;
    }
    return bytes;
}

/* The sums of all threads. While some of them are at work the parts do not quite fit together: what cannot be
   is cut. */
static small_sums_t sum_locked(const dao_thread_cache_t *cache)
{
    dao_magazine_counts_t sum = {0};
    small_sums_t sums = {0};
    dao_thread_cache_counts_add(&sum, &cache->gone);
    dao_thread_cache_counts_add(&sum, &cache->mailed);
    for (const dao_magazines_t *own = cache->first; own != NULL; own = own->next) {
        dao_thread_cache_counts_add(&sum, &own->counts);
        sums.cached_bytes += dao_thread_cache_kept_bytes(own);
    }
    sums.used_bytes = at_most(atomic_load_explicit(&sum.used_bytes, relaxed),
                              atomic_load_explicit(&cache->slabs.slab_bytes, relaxed));
    sums.requested_bytes = at_most(atomic_load_explicit(&sum.requested_bytes, relaxed), sums.used_bytes);
    sums.alloc_count = atomic_load_explicit(&sum.alloc_count, relaxed);
    sums.free_count = atomic_load_explicit(&sum.free_count, relaxed);
    sums.slow_count = atomic_load_explicit(&sum.slow_count, relaxed);
    return sums;
}
/* ---- members of the table ---- */

uint64_t dao_thread_cache_used_get(dao_allocator_t *allocator)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    dao_thread_cache_lock(cache);
    uint64_t used_bytes = cache->inner->ops->used_get(cache->inner) -
                          atomic_load_explicit(&cache->slabs.slab_bytes, relaxed) +
                          sum_locked(cache).used_bytes;
    dao_thread_cache_unlock(cache);
    return used_bytes;
}

void dao_thread_cache_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    dao_thread_cache_lock(cache);
    cache->inner->ops->stats_get(cache->inner, out_stats);
    const dao_slabs_t *slabs = &cache->slabs;
    uint64_t slab_bytes = atomic_load_explicit(&slabs->slab_bytes, relaxed);
    small_sums_t sums = sum_locked(cache);
    uint64_t below_used = out_stats->used_bytes - slab_bytes;
    uint64_t below_requested = out_stats->requested_bytes - slab_bytes;
    out_stats->used_bytes = below_used + sums.used_bytes;
    out_stats->requested_bytes = below_requested + sums.requested_bytes;
    out_stats->alloc_count = out_stats->alloc_count - slabs->taken_count + sums.alloc_count;
    out_stats->live_count = out_stats->live_count - slabs->slab_count +
                            at_most((int64_t)(sums.alloc_count - sums.free_count), UINT64_MAX);
    out_stats->free_count = out_stats->alloc_count - out_stats->live_count;
    out_stats->slow_count = out_stats->slow_count + sums.slow_count -
                            dao_smaller(slabs->taken_count + slabs->given_count, out_stats->slow_count);
    out_stats->failed_count = atomic_load_explicit(&cache->failed_count, relaxed);
    out_stats->cached_bytes = sums.cached_bytes;
    out_stats->peak_used_bytes = dao_larger(out_stats->peak_used_bytes, out_stats->used_bytes);
    out_stats->peak_requested_bytes = dao_larger(out_stats->peak_requested_bytes, out_stats->requested_bytes);
    dao_thread_cache_unlock(cache);
}

void dao_thread_cache_stats_reset_peaks(dao_allocator_t *allocator, dao_peaks_t *out_peaks)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    cache->inner->ops->stats_reset_peaks(cache->inner, out_peaks);
}

/* Checks that what a thread keeps is idle, and within bounds. */
static bool magazines_are_valid(const dao_thread_cache_t *cache, const dao_magazines_t *own)
{
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        const dao_magazine_t *magazine = &own->magazines[i];
        uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
        for (uint32_t k = 0; k < count && count <= magazine->capacity; k++) {
            const void *address = atomic_load_explicit(&magazine->objects[k].address, relaxed);
            const _Atomic uint32_t *word = atomic_load_explicit(&magazine->objects[k].word, relaxed);
            uint64_t object = dao_slabs_object_at(&cache->slabs, address);
            const dao_slab_t *slab = dao_slab_of_object(object);
            if (slab == NULL || slab->class_index != i || atomic_load_explicit(word, relaxed) != 0 ||
                word != &slab->words[dao_slab_object_index(object)]) {
                return false;
            }
        }
        if (count > magazine->capacity) {
            return false;
        }
    }
    return dao_thread_cache_kept_bytes(own) <= cache->slabs.sizes->kept_bytes;
}

static bool is_valid_locked(const dao_thread_cache_t *cache)
{
    if (!dao_slabs_is_valid(&cache->slabs)) {
        return false;
    }
    for (const dao_magazines_t *own = cache->first; own != NULL; own = own->next) {
        if (!magazines_are_valid(cache, own)) {
            return false;
        }
    }
    dao_recount_t recount = {0};
    uint64_t idle_bytes = dao_slabs_recount(&cache->slabs, &recount);
    small_sums_t sums = sum_locked(cache);
    return recount.used_bytes == sums.used_bytes && recount.requested_bytes == sums.requested_bytes &&
           recount.live_count == sums.alloc_count - sums.free_count &&
           idle_bytes == sums.cached_bytes + dao_slabs_mail_bytes(&cache->slabs);
}

bool dao_thread_cache_is_valid(dao_allocator_t *allocator)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    dao_mutex_lock(&cache->lock);
    bool is_valid = is_valid_locked(cache) && cache->inner->ops->is_valid(cache->inner);
    dao_mutex_unlock(&cache->lock);
    return is_valid;
}

/* ---- walks ---- */

/* A walk over the inner allocator's blocks that leaves slabs out. */
typedef struct inner_walk {
    const dao_thread_cache_t *cache;
    dao_block_visit_t visit;
    void *user;
} inner_walk_t;

static void visit_inner(const dao_block_t *block, void *user)
{
    const inner_walk_t *walk = user;
    uint64_t entry = dao_slab_map_find(&walk->cache->slabs.map, block->address);
    uint32_t first = 0;
    if (entry == 0 || !dao_slab_entry_object_index(walk->cache->slabs.sizes, entry, block->address, &first)) {
        walk->visit(block, walk->user);
    }
}

void dao_thread_cache_walk(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    inner_walk_t walk = {.cache = cache, .visit = visit, .user = user};
    dao_thread_cache_lock(cache);
    dao_slabs_walk(&cache->slabs, visit, user);
    cache->inner->ops->walk(cache->inner, visit_inner, &walk);
    dao_thread_cache_unlock(cache);
}
/* A slab's objects, as walk_all() shows them in its place. */
static void visit_any_inner(const dao_block_t *block, void *user)
{
    const inner_walk_t *walk = user;
    uint64_t entry = dao_slab_map_find(&walk->cache->slabs.map, block->address);
    uint32_t first = 0;
    if (entry == 0 || !dao_slab_entry_object_index(walk->cache->slabs.sizes, entry, block->address, &first)) {
        walk->visit(block, walk->user);
        return;
    }
    const dao_slab_t *slab = dao_slab_of_entry(entry);
    for (uint32_t i = 0; i < dao_slab_entry_object_count(entry); i++) {
        char *address = (char *)block->address + (size_t)i * slab->object_bytes;
        uint32_t word = atomic_load_explicit(&slab->words[i], relaxed);
        dao_block_t object = {.address = address,
                              .requested_bytes = dao_slab_word_requested_bytes(word),
                              .block_bytes = slab->object_bytes,
                              .tag = dao_slab_word_tag(word),
                              .owner = dao_slab_word_owner(word),
                              .state =
                                  dao_slab_word_is_live(word) ? DAO_BLOCK_STATE_LIVE : DAO_BLOCK_STATE_FREE,
                              .begins_segment = i == 0 && block->begins_segment};
        walk->visit(&object, walk->user);
    }
}

void dao_thread_cache_walk_all(dao_allocator_t *allocator, dao_block_visit_t visit, void *user)
{
    dao_thread_cache_t *cache = dao_thread_cache_of(allocator);
    inner_walk_t walk = {.cache = cache, .visit = visit, .user = user};
    dao_thread_cache_lock(cache);
    cache->inner->ops->walk_all(cache->inner, visit_any_inner, &walk);
    dao_thread_cache_unlock(cache);
}
