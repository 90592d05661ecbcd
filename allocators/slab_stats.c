/* The counters of the small front: sums over all threads' counts, beside those of the inner allocator; and its check.

   Peaks. A thread's `window` is the most that its counts have shown since it last looked at what the inner allocator holds,
   which it does before it enters there; in between that cannot change if no other thread was there. So the most that the
   whole allocator held in that time is inner used - slabs + outside + window, and it is raised into `total` at the next look.
   That is exact if all other threads' counts (outside) stayed as they were at the reset, which is known when the statistics
   are read. If they did not, or a thread has ended, the inner allocator's own peak is given: small objects lie in slabs, slabs
   are its blocks, so it was never exceeded. */
#include "allocators/slab_internal.h"

#define relaxed memory_order_relaxed

/* ---- counters ---- */

/* Adds counts to others. */
void dao_front_counts_add(dao_magazine_counts_t *sum, const dao_magazine_counts_t *counts)
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
}

/* What the small blocks are, all threads together. */
typedef struct small_sums {
    uint64_t used_bytes;
    uint64_t requested_bytes;
    uint64_t alloc_count;
    uint64_t free_count;
    uint64_t cached_bytes;
} small_sums_t;

static uint64_t at_most(int64_t value, uint64_t most)
{
    return value < 0 ? 0 : (uint64_t)value > most ? most : (uint64_t)value;
}

static uint64_t cached_bytes_of(const dao_magazines_t *magazines)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        const dao_magazine_t *magazine = &magazines->magazines[i];
        bytes += (uint64_t)atomic_load_explicit(&magazine->count, relaxed) * (uint64_t)magazine->object_bytes;
    }
    return bytes;
}

/* The sums of all threads. While some of them are at work the parts do not quite fit together: what cannot be is cut. */
static small_sums_t sum_locked(const dao_front_t *front)
{
    dao_magazine_counts_t sum = {0};
    small_sums_t sums = {0};
    dao_front_counts_add(&sum, &front->gone);
    for (const dao_magazines_t *own = front->first; own != NULL; own = own->next) {
        dao_front_counts_add(&sum, &own->counts);
        sums.cached_bytes += cached_bytes_of(own);
    }
    sums.used_bytes = at_most(atomic_load_explicit(&sum.used_bytes, relaxed),
                              atomic_load_explicit(&front->slabs.slab_bytes, relaxed));
    sums.requested_bytes = at_most(atomic_load_explicit(&sum.requested_bytes, relaxed), sums.used_bytes);
    sums.alloc_count = atomic_load_explicit(&sum.alloc_count, relaxed);
    sums.free_count = atomic_load_explicit(&sum.free_count, relaxed);
    return sums;
}
/* ---- peaks ---- */

static void look(const dao_front_t *front, dao_magazine_peak_t *peak, const uint64_t *field,
                 _Atomic int64_t *count)
{
    int64_t below_bytes = dao_front_below(front, field);
    int64_t own_bytes = atomic_load_explicit(count, relaxed);
    dao_peak_raise(&peak->total, dao_front_window_top(peak, below_bytes));
    atomic_store_explicit(&peak->window, own_bytes, relaxed);
    peak->limit = atomic_load_explicit(&peak->total, relaxed) -
                  atomic_load_explicit(&peak->outside, relaxed) - own_bytes +
                  (int64_t)atomic_load_explicit(&front->slabs.slab_bytes, relaxed);
}

void dao_front_look(const dao_front_t *front, dao_magazines_t *own)
{
    look(front, &own->used_peak, &front->view->used_bytes, &own->counts.used_bytes);
    look(front, &own->requested_peak, &front->view->requested_bytes, &own->counts.requested_bytes);
    own->look_count = dao_magazines_call_count(own);
}

static bool was_here(const dao_magazines_t *own)
{
    return atomic_load_explicit(&own->has_entered, relaxed) ||
           dao_magazines_call_count(own) != atomic_load_explicit(&own->reset_count, relaxed);
}

static void peak_reset(dao_magazine_peak_t *peak, int64_t own_bytes, int64_t all_bytes)
{
    atomic_store_explicit(&peak->window, own_bytes, relaxed);
    atomic_store_explicit(&peak->total, 0, relaxed);
    atomic_store_explicit(&peak->outside, all_bytes - own_bytes, relaxed);
}

/* Begins a thread's peaks. */
void dao_front_peaks_begin_locked(const dao_front_t *front, dao_magazines_t *own)
{
    dao_magazine_counts_t sum = {0};
    dao_front_counts_add(&sum, &front->gone);
    for (const dao_magazines_t *other = front->first; other != NULL; other = other->next) {
        dao_front_counts_add(&sum, &other->counts);
    }
    peak_reset(&own->used_peak, atomic_load_explicit(&own->counts.used_bytes, relaxed),
               atomic_load_explicit(&sum.used_bytes, relaxed));
    peak_reset(&own->requested_peak, atomic_load_explicit(&own->counts.requested_bytes, relaxed),
               atomic_load_explicit(&sum.requested_bytes, relaxed));
    atomic_store_explicit(&own->has_entered, false, relaxed);
    atomic_store_explicit(&own->reset_count, dao_magazines_call_count(own), relaxed);
}

/* Gives the one thread whose peaks are those of the allocator; NULL if there were several, or none. */
static const dao_magazines_t *sole_thread_locked(const dao_front_t *front, bool *out_is_shared)
{
    const dao_magazines_t *sole = NULL;
    *out_is_shared = !front->has_view || atomic_load_explicit(&front->is_shared, relaxed);
    for (const dao_magazines_t *own = front->first; own != NULL; own = own->next) {
        if (was_here(own)) {
            *out_is_shared = *out_is_shared || sole != NULL;
            sole = own;
        }
    }
    return *out_is_shared ? NULL : sole;
}

static uint64_t peak_of(const dao_magazine_peak_t *peak, uint64_t now_bytes, int64_t below_bytes)
{
    int64_t top = dao_front_window_top(peak, below_bytes);
    int64_t total = atomic_load_explicit(&peak->total, relaxed);
    top = top > total ? top : total;
    return top > (int64_t)now_bytes ? (uint64_t)top : now_bytes;
}

static uint64_t larger(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

/* Puts the peaks of the front in place of those of the inner allocator. */
static void peaks_get_locked(const dao_front_t *front, int64_t below_used, int64_t below_requested,
                             dao_stats_t *stats)
{
    bool is_shared = false;
    const dao_magazines_t *sole = sole_thread_locked(front, &is_shared);
    if (is_shared) {
        stats->peak_used_bytes = larger(stats->peak_used_bytes, stats->used_bytes);
        stats->peak_requested_bytes = larger(stats->peak_requested_bytes, stats->requested_bytes);
    } else if (sole == NULL) {
        stats->peak_used_bytes = stats->used_bytes;
        stats->peak_requested_bytes = stats->requested_bytes;
    } else {
        stats->peak_used_bytes = peak_of(&sole->used_peak, stats->used_bytes, below_used);
        stats->peak_requested_bytes = peak_of(&sole->requested_peak, stats->requested_bytes, below_requested);
    }
}
/* ---- members of the table ---- */

uint64_t dao_front_used_get(dao_allocator_t *allocator)
{
    dao_front_t *front = dao_front_of(allocator);
    dao_front_lock(front);
    uint64_t used_bytes = front->inner->ops->used_get(front->inner) -
                          atomic_load_explicit(&front->slabs.slab_bytes, relaxed) +
                          sum_locked(front).used_bytes;
    dao_front_unlock(front);
    return used_bytes;
}

void dao_front_stats_get(dao_allocator_t *allocator, dao_stats_t *out_stats)
{
    dao_front_t *front = dao_front_of(allocator);
    dao_front_lock(front);
    front->inner->ops->stats_get(front->inner, out_stats);
    const dao_slabs_t *slabs = &front->slabs;
    uint64_t slab_bytes = atomic_load_explicit(&slabs->slab_bytes, relaxed);
    small_sums_t sums = sum_locked(front);
    uint64_t below_used = out_stats->used_bytes - slab_bytes;
    uint64_t below_requested = out_stats->requested_bytes - slab_bytes;
    out_stats->used_bytes = below_used + sums.used_bytes;
    out_stats->requested_bytes = below_requested + sums.requested_bytes;
    out_stats->alloc_count = out_stats->alloc_count - slabs->taken_count + sums.alloc_count;
    out_stats->live_count = out_stats->live_count - slabs->slab_count +
                            at_most((int64_t)(sums.alloc_count - sums.free_count), UINT64_MAX);
    out_stats->free_count = out_stats->alloc_count - out_stats->live_count;
    out_stats->failed_count = atomic_load_explicit(&front->failed_count, relaxed);
    out_stats->cached_bytes = sums.cached_bytes;
    peaks_get_locked(front, (int64_t)below_used, (int64_t)below_requested, out_stats);
    dao_front_unlock(front);
}

void dao_front_stats_reset_peaks(dao_allocator_t *allocator)
{
    dao_front_t *front = dao_front_of(allocator);
    dao_front_lock(front);
    front->inner->ops->stats_reset_peaks(front->inner);
    for (dao_magazines_t *own = front->first; own != NULL; own = own->next) {
        dao_front_peaks_begin_locked(front, own);
    }
    atomic_store_explicit(&front->is_shared, false, relaxed);
    dao_front_call_locked(front); /* so that each thread forgets its last look */
    dao_front_unlock(front);
}
/* Checks that what a thread keeps is idle, and within bounds. */
static bool magazines_are_valid(const dao_front_t *front, const dao_magazines_t *own)
{
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        const dao_magazine_t *magazine = &own->magazines[i];
        uint32_t count = atomic_load_explicit(&magazine->count, relaxed);
        for (uint32_t k = 0; k < count && count <= magazine->capacity; k++) {
            const void *address = atomic_load_explicit(&magazine->objects[k].address, relaxed);
            const _Atomic uint32_t *word = atomic_load_explicit(&magazine->objects[k].word, relaxed);
            uint64_t object = dao_slabs_object_at(&front->slabs, address);
            const dao_slab_t *slab = dao_slab_of_object(object);
            if (slab == NULL || slab->class_index != i || atomic_load_explicit(word, relaxed) != 0 ||
                word != &slab->words[dao_slab_object_unit(object)]) {
                return false;
            }
        }
        if (count > magazine->capacity) {
            return false;
        }
    }
    return cached_bytes_of(own) <= DAO_MAGAZINES_BYTES_MAX;
}

static bool is_valid_locked(const dao_front_t *front)
{
    if (!dao_slabs_is_valid(&front->slabs)) {
        return false;
    }
    for (const dao_magazines_t *own = front->first; own != NULL; own = own->next) {
        if (!magazines_are_valid(front, own)) {
            return false;
        }
    }
    dao_recount_t recount = {0};
    uint64_t idle_bytes = dao_slabs_recount(&front->slabs, &recount);
    small_sums_t sums = sum_locked(front);
    return recount.used_bytes == sums.used_bytes && recount.requested_bytes == sums.requested_bytes &&
           recount.live_count == sums.alloc_count - sums.free_count &&
           idle_bytes == sums.cached_bytes + dao_slabs_mail_bytes(&front->slabs);
}

bool dao_front_is_valid(dao_allocator_t *allocator)
{
    dao_front_t *front = dao_front_of(allocator);
    dao_mutex_lock(&front->lock);
    bool is_valid = is_valid_locked(front) && front->inner->ops->is_valid(front->inner);
    dao_mutex_unlock(&front->lock);
    return is_valid;
}
