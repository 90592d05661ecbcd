/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/core/callback_table.h"

#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>

static bool is_valid_locked(const dao_callback_table_t *table)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < table->slot_count; i++) {
        const dao_callback_slot_t *callback = &table->slots[i];
        bool is_empty = callback->id == 0;
        count += !is_empty;
        if (callback->id > table->last_id ||
            (is_empty
                 ? callback->running_count > 0 || callback->is_removed
                 : callback->function == NULL || (callback->is_removed && callback->running_count == 0))) {
            return false;
        }
    }
    return count == atomic_load(&table->count);
}

static void lock(dao_callback_table_t *table)
{
    dao_mutex_lock(&table->lock);
    DAO_ASSERT_HEAVY(is_valid_locked(table));
}

static void unlock(dao_callback_table_t *table)
{
    DAO_ASSERT_HEAVY(is_valid_locked(table));
    dao_mutex_unlock(&table->lock);
}

static dao_callback_slot_t *find_locked(dao_callback_table_t *table, uint64_t id)
{
    for (uint32_t i = 0; i < table->slot_count; i++) {
        if (table->slots[i].id == id) {
            return &table->slots[i];
        }
    }
    return NULL;
}

static void empty_locked(dao_callback_table_t *table, dao_callback_slot_t *callback)
{
    *callback = (dao_callback_slot_t){0};
    atomic_fetch_sub(&table->count, 1);
    dao_cond_broadcast(&table->changed);
}

bool dao_callback_table_add(dao_callback_table_t *table, dao_place_t place, void (*function)(void),
                            void *user, uint64_t *out_id)
{
    lock(table);
    dao_callback_slot_t *empty = find_locked(table, 0);
    if (empty != NULL) {
        *empty =
            (dao_callback_slot_t){.id = ++table->last_id, .place = place, .function = function, .user = user};
        atomic_fetch_add(&table->count, 1);
        *out_id = empty->id;
    }
    unlock(table);
    return empty != NULL;
}

static dao_status_t remove_locked(dao_callback_table_t *table, uint64_t id, const dao_callback_slot_t *own,
                                  const char *function)
{
    dao_callback_slot_t *callback = id == 0 ? NULL : find_locked(table, id);
    if (callback == NULL || callback->is_removed) {
        return dao_error(DAO_ERR_INVALID, "%s: there is no callback %" PRIu64, function, id);
    }
    bool is_own = callback == own;
    if (own != NULL && callback->running_count > (is_own ? 1u : 0u)) {
        return dao_error(DAO_ERR_BUSY,
                         "%s: another thread runs callback %" PRIu64
                         ", and it cannot be waited for from inside of a callback",
                         function, id);
    }
    if (callback->running_count == 0) {
        empty_locked(table, callback);
        return DAO_OK;
    }
    callback->is_removed = true; /* the last running call empties the slot */
    while (!is_own && callback->id == id) {
        dao_cond_wait(&table->changed, &table->lock);
    }
    return DAO_OK;
}

dao_status_t dao_callback_table_remove(dao_callback_table_t *table, uint64_t id,
                                       const dao_callback_slot_t *own, const char *function)
{
    lock(table);
    dao_status_t status = remove_locked(table, id, own, function);
    unlock(table);
    return status;
}

void dao_callback_table_clear(dao_callback_table_t *table)
{
    lock(table);
    for (uint32_t i = 0; i < table->slot_count; i++) {
        dao_callback_slot_t *callback = &table->slots[i];
        callback->is_removed = callback->running_count > 0; /* by a thread that should not be in a call now */
        if (callback->id != 0 && !callback->is_removed) {
            empty_locked(table, callback);
        }
    }
    unlock(table);
}

uint64_t dao_callback_table_last(dao_callback_table_t *table)
{
    lock(table);
    uint64_t last = table->last_id;
    unlock(table);
    return last;
}

dao_callback_slot_t *dao_callback_table_enter(dao_callback_table_t *table, dao_place_t place, uint64_t after,
                                              uint64_t last)
{
    dao_callback_slot_t *next = NULL;
    lock(table);
    for (uint32_t i = 0; i < table->slot_count; i++) {
        dao_callback_slot_t *callback = &table->slots[i];
        if (callback->id > after && callback->id <= last && !callback->is_removed &&
            dao_place_equal(callback->place, place) && (next == NULL || callback->id < next->id)) {
            next = callback;
        }
    }
    if (next != NULL) {
        next->running_count++;
    }
    unlock(table);
    return next;
}

void dao_callback_table_leave(dao_callback_table_t *table, dao_callback_slot_t *callback)
{
    lock(table);
    DAO_ASSERT(callback->running_count > 0);
    callback->running_count--;
    if (callback->is_removed && callback->running_count == 0) {
        empty_locked(table, callback);
    }
    unlock(table);
}
