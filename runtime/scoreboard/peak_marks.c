/* SPDX-License-Identifier: Apache-2.0 */
/* A table of marks and one of the places' own peaks, guarded by one lock.

       allocator's peaks --taken: reset--> raised into own[place] and into each mark there

   Invariants: ids only increase; a slot without an id is empty; has_own is set before own[place] of any place
   is raised for the first time. */
#include "runtime/scoreboard/peak_marks.h"

#include "base/report/error.h"
#include "base/threads/sync.h"

#include <dao/context.h>

#include <string.h>

typedef struct mark_slot {
    uint64_t id;
    dao_place_t place;
    dao_peaks_t peaks;
} mark_slot_t;

static struct {
    atomic_bool has_own;
    dao_mutex_t lock;
    /* guarded by the lock */
    uint64_t last_id;
    mark_slot_t marks[DAO_PEAK_MARK_COUNT_MAX];
    dao_peaks_t own[DAO_PLACE_KIND_COUNT][DAO_DEVICE_COUNT_MAX];
} table = {.lock = DAO_MUTEX_INITIALIZER(DAO_RANK_RUNTIME)};

static void raise_peaks(dao_peaks_t *peaks, const dao_peaks_t *others)
{
    dao_stats_raise(&peaks->requested_bytes, others->requested_bytes);
    dao_stats_raise(&peaks->used_bytes, others->used_bytes);
    dao_stats_raise(&peaks->reserved_bytes, others->reserved_bytes);
}

/* Takes an allocator's peaks. */
static void take_locked(dao_place_t place, dao_allocator_t *allocator)
{
    dao_peaks_t peaks = {0};
    if (allocator != NULL) {
        allocator->ops->stats_reset_peaks(allocator, &peaks);
    }
    raise_peaks(&table.own[place.kind][place.index], &peaks);
    for (size_t i = 0; i < DAO_PEAK_MARK_COUNT_MAX; i++) {
        if (table.marks[i].id != 0 && dao_place_equal(table.marks[i].place, place)) {
            raise_peaks(&table.marks[i].peaks, &peaks);
        }
    }
}

static mark_slot_t *find_locked(uint64_t id)
{
    for (size_t i = 0; i < DAO_PEAK_MARK_COUNT_MAX; i++) {
        if (table.marks[i].id == id) {
            return &table.marks[i];
        }
    }
    return NULL;
}

dao_status_t dao_peak_marks_add(dao_place_t place, dao_allocator_t *allocator, uint64_t *out_mark)
{
    dao_mutex_lock(&table.lock);
    mark_slot_t *empty = find_locked(0);
    if (empty != NULL) {
        atomic_store(&table.has_own, true);
        take_locked(place, allocator);
        *empty = (mark_slot_t){.id = ++table.last_id, .place = place};
        *out_mark = empty->id;
    }
    dao_mutex_unlock(&table.lock);
    return empty != NULL ? DAO_OK
                         : dao_error(DAO_ERR_TOO_MANY,
                                     "dao_peak_mark_add: there are %d marks already: remove one with "
                                     "dao_peak_mark_remove()",
                                     DAO_PEAK_MARK_COUNT_MAX);
}

bool dao_peak_marks_find(uint64_t mark, dao_place_t *out_place)
{
    dao_mutex_lock(&table.lock);
    const mark_slot_t *slot = mark != 0 ? find_locked(mark) : NULL;
    if (slot != NULL) {
        *out_place = slot->place;
    }
    dao_mutex_unlock(&table.lock);
    return slot != NULL;
}

bool dao_peak_marks_read(uint64_t mark, dao_place_t place, dao_allocator_t *allocator, bool moves,
                         dao_peaks_t *out_peaks)
{
    dao_mutex_lock(&table.lock);
    mark_slot_t *slot = find_locked(mark);
    if (slot != NULL) {
        take_locked(place, allocator);
        *out_peaks = slot->peaks;
        if (moves) {
            slot->peaks = (dao_peaks_t){0}; /* what the allocator shows next is at least what it holds now */
        }
    }
    dao_mutex_unlock(&table.lock);
    return slot != NULL;
}

bool dao_peak_marks_remove(uint64_t mark)
{
    dao_mutex_lock(&table.lock);
    mark_slot_t *slot = mark != 0 ? find_locked(mark) : NULL;
    if (slot != NULL) {
        *slot = (mark_slot_t){0};
    }
    dao_mutex_unlock(&table.lock);
    return slot != NULL;
}

void dao_peak_marks_clear(void)
{
    dao_mutex_lock(&table.lock);
    atomic_store(&table.has_own, false);
    memset(table.marks, 0, sizeof(table.marks));
    memset(table.own, 0, sizeof(table.own));
    dao_mutex_unlock(&table.lock);
}

void dao_peak_marks_raise(dao_place_t place, dao_stats_t *stats)
{
    if (!atomic_load(&table.has_own)) {
        return;
    }
    dao_mutex_lock(&table.lock);
    dao_peaks_t own = table.own[place.kind][place.index];
    dao_mutex_unlock(&table.lock);
    dao_stats_raise(&stats->peak_requested_bytes, own.requested_bytes);
    dao_stats_raise(&stats->peak_used_bytes, own.used_bytes);
    dao_stats_raise(&stats->peak_reserved_bytes, own.reserved_bytes);
}

void dao_peak_marks_reset(dao_place_t place, dao_allocator_t *allocator)
{
    dao_mutex_lock(&table.lock);
    take_locked(place, allocator);
    table.own[place.kind][place.index] = (dao_peaks_t){0};
    dao_mutex_unlock(&table.lock);
}
