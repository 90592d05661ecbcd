/* SPDX-License-Identifier: Apache-2.0 */
/* Callbacks that a program adds to places: a table of slots.

       state      id   is_removed   running_count   left by
       empty       0   false        0               add
       there     > 0   false        any             remove
       leaving   > 0   true         > 0             the last of its running calls

   They are called in the order of their ids, which only increase. A round calls those with an id up to the
   latest one at its begin, and finds the next one by its id alone, so that callbacks may come and go during a
   round. No lock is held while one runs. */
#ifndef DAO_RUNTIME_CALLBACK_TABLE_H
#define DAO_RUNTIME_CALLBACK_TABLE_H

#include "base/threads/sync.h"

#include <dao/place.h>

#include <stdatomic.h>

typedef struct dao_callback_slot {
    uint64_t id;
    dao_place_t place;
    void (*function)(void); /* whatever its type is */
    void *user;
    uint32_t running_count;
    bool is_removed;
} dao_callback_slot_t;

typedef struct dao_callback_table {
    dao_callback_slot_t *slots;
    uint32_t slot_count;
    _Atomic uint32_t count; /* of slots that are not empty */
    dao_mutex_t lock;
    /* guarded by the lock, as the slots are */
    dao_cond_t changed; /* a slot was emptied: remove waits for that */
    uint64_t last_id;
} dao_callback_table_t;

/* A table over an array of slots that are zero. */
#define DAO_CALLBACK_TABLE_INITIALIZER(array)                                                                \
    {                                                                                                        \
        .slots = (array), .slot_count = sizeof(array) / sizeof((array)[0]),                                  \
        .lock = DAO_MUTEX_INITIALIZER(DAO_RANK_LEAF), .changed = DAO_COND_INITIALIZER                        \
    }

/* False: there is no empty slot. */
bool dao_callback_table_add(dao_callback_table_t *table, dao_place_t place, void (*function)(void),
                            void *user, uint64_t *out_id);

/* Removes a callback, and waits for its calls; `own` is the one that this thread runs, whose call is not
   waited for; NULL: none. `function` is for messages. DAO_ERR_INVALID: there is none; DAO_ERR_BUSY: another
   thread runs it, and this one runs a callback. */
DAO_NODISCARD dao_status_t dao_callback_table_remove(dao_callback_table_t *table, uint64_t id,
                                                     const dao_callback_slot_t *own, const char *function);

/* Removes all; those that run leave with their calls. */
void dao_callback_table_clear(dao_callback_table_t *table);

/* The latest id. */
uint64_t dao_callback_table_last(dao_callback_table_t *table);

/* Returns the callback of a place with the lowest id in (after, last], which counts as running; NULL: there
   is none. */
dao_callback_slot_t *dao_callback_table_enter(dao_callback_table_t *table, dao_place_t place, uint64_t after,
                                              uint64_t last);
void dao_callback_table_leave(dao_callback_table_t *table, dao_callback_slot_t *callback);

#endif
