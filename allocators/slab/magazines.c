/* SPDX-License-Identifier: Apache-2.0 */
/* Threads' tables, and the owners that they point to.

       thread A   table  [ magazines of owner 0 | - | magazines of owner 2 | ... ]
       thread B   table  [ magazines of owner 0 | - |          -           | ... ]

   Magazines end in one of two ways: their thread ends, or their owner does. Both happen under one
   lock, and each takes them out of the other's hands: the thread's end unlinks them from the owner, the
   owner's end clears the pointer in the thread's table, which belongs to the thread and stays. So neither
   outlives what it points to, in either order, and a slot is free for another owner only when no table points
   to anything there.

   A thread reads its own table without a lock. Another thread writes there only to clear a pointer whose
   owner nobody may use any more; whoever hands a later owner of that slot to the thread also hands over the
   cleared pointer. */
#include "allocators/slab/magazines.h"

#include "base/memory/host.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/threads/sync.h"

#include <assert.h>
#include <string.h>

dao_magazines_t dao_magazines_none = {.epoch = DAO_MAGAZINES_EPOCH_NONE};

#define NONE   &dao_magazines_none
#define NONE_8 NONE, NONE, NONE, NONE, NONE, NONE, NONE, NONE

/* The table of a thread that has none of its own; never written. */
static dao_thread_table_t empty_table = {.own = {NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8,
                                                 NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8, NONE_8,
                                                 NONE_8, NONE_8, NONE}};

static_assert(DAO_MAGAZINES_OWNER_MAX == 16 * 8, "every pointer of the empty table is set");

DAO_FAST_THREAD_LOCAL dao_thread_table_t *dao_thread_table = &empty_table;

static dao_mutex_t lock = DAO_MUTEX_INITIALIZER(DAO_RANK_THREADS);

/* guarded by the lock */
static dao_magazine_owner_t *owners[DAO_MAGAZINES_OWNER_MAX];
static dao_thread_exit_t thread_exit;
static bool has_thread_exit;

/* ---- owners ---- */

void dao_magazines_owner_init(dao_magazine_owner_t *owner)
{
    dao_mutex_lock(&lock);
    owner->slot = 0;
    while (owner->slot < DAO_MAGAZINES_OWNER_MAX && owners[owner->slot] != NULL) {
        owner->slot++;
    }
    if (owner->slot < DAO_MAGAZINES_OWNER_MAX) {
        owners[owner->slot] = owner;
    }
    dao_mutex_unlock(&lock);
}

void dao_magazines_owner_finish(dao_magazine_owner_t *owner, dao_magazines_t **first)
{
    dao_mutex_lock(&lock);
    DAO_ASSERT(owner->slot == DAO_MAGAZINES_OWNER_MAX || owners[owner->slot] == owner);
    while (*first != NULL) { /* a thread that ended meanwhile has taken its own off */
        dao_magazines_t *magazines = *first;
        *first = magazines->next;
        DAO_ASSERT(atomic_load_explicit(&magazines->table->own[owner->slot], memory_order_relaxed) ==
                   magazines);
        atomic_store_explicit(&magazines->table->own[owner->slot], NONE, memory_order_relaxed);
        dao_host_free(magazines);
    }
    if (owner->slot < DAO_MAGAZINES_OWNER_MAX) {
        owners[owner->slot] = NULL;
    }
    dao_mutex_unlock(&lock);
}

/* ---- threads ---- */

/* Returns true if a thread keeps no object. */
static bool is_empty(const dao_magazines_t *magazines)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < DAO_SLAB_CLASS_COUNT; i++) {
        count += atomic_load_explicit(&magazines->magazines[i].count, memory_order_relaxed);
    }
    return count == 0;
}

/* A thread ends. */
static void table_finish(void *user)
{
    dao_thread_table_t *table = user;
    if (table->process != dao_process_self()) {
        return; /* a copy: the locks on the way may be held by threads that were not copied */
    }
    dao_thread_table = &empty_table; /* what is called after this may begin anew */
    dao_mutex_lock(&lock);
    for (uint32_t slot = 0; slot < DAO_MAGAZINES_OWNER_MAX; slot++) {
        dao_magazines_t *magazines = atomic_load_explicit(&table->own[slot], memory_order_relaxed);
        if (magazines != NONE) {
            DAO_ASSERT(magazines->table == table);
            DAO_ASSERT(owners[slot] != NULL);
            owners[slot]->detach(owners[slot], magazines);
            DAO_ASSERT(is_empty(magazines));
            dao_host_free(magazines);
        }
    }
    dao_mutex_unlock(&lock);
    dao_host_free(table);
}

/* The library is unloaded: the ends of threads that live on are not its business any more. */
__attribute__((destructor)) static void unload(void)
{
    if (!dao_mutex_try_lock(&lock)) {
        return; /* a child of fork() ends, whose parent had a thread in here: nobody gives it back */
    }
    if (has_thread_exit) {
        dao_thread_exit_finish(&thread_exit);
        has_thread_exit = false;
    }
    dao_mutex_unlock(&lock);
}

/* Makes a table for this thread. */
static dao_thread_table_t *table_create_locked(void)
{
    if (!has_thread_exit && dao_thread_exit_init(&thread_exit, table_finish) != DAO_OK) {
        return NULL;
    }
    has_thread_exit = true;
    dao_thread_table_t *table = dao_host_calloc(1, sizeof(*table));
    if (table == NULL) {
        return NULL;
    }
    for (uint32_t slot = 0; slot <= DAO_MAGAZINES_OWNER_MAX; slot++) {
        atomic_init(&table->own[slot], NONE);
    }
    table->process = dao_process_self();
    if (!dao_thread_exit_set(&thread_exit, table)) {
        dao_host_free(table);
        return NULL;
    }
    dao_thread_table = table;
    return table;
}

/* Returns how many objects of a size a thread keeps: fewer of large ones. */
static uint32_t capacity_of(const dao_slab_sizes_t *sizes, uint32_t object_bytes)
{
    uint32_t count = (uint32_t)(sizes->magazine_bytes / object_bytes);
    count = count > DAO_MAGAZINE_OBJECT_MIN ? count : DAO_MAGAZINE_OBJECT_MIN;
    return count < DAO_MAGAZINE_OBJECT_MAX ? count : DAO_MAGAZINE_OBJECT_MAX;
}

/* Makes empty magazines. */
static dao_magazines_t *magazines_create(const dao_slab_sizes_t *sizes)
{
    size_t object_count = 0;
    uint32_t class_count = dao_slab_class_count(sizes);
    for (uint32_t i = 0; i < class_count; i++) {
        object_count += capacity_of(sizes, dao_slab_object_bytes(sizes, i));
    }
    size_t size_bytes = sizeof(dao_magazines_t) + object_count * sizeof(dao_slab_item_t);
    size_bytes = dao_round_up(size_bytes, DAO_MAGAZINES_ALIGNMENT_BYTES);
    dao_magazines_t *magazines = dao_host_aligned(size_bytes, DAO_MAGAZINES_ALIGNMENT_BYTES);
    if (magazines == NULL) {
        return NULL;
    }
    memset(magazines, 0, sizeof(*magazines)); /* objects are written before they are read */
    dao_slab_item_t *objects = magazines->objects;
    for (uint32_t i = 0; i < class_count; i++) {
        dao_magazine_t *magazine = &magazines->magazines[i];
        magazine->object_bytes = dao_slab_object_bytes(sizes, i);
        magazine->reciprocal = dao_slab_reciprocal(magazine->object_bytes);
        magazine->capacity = capacity_of(sizes, magazine->object_bytes);
        magazine->objects = objects;
        objects += magazine->capacity;
    }
    magazines->used_floor = -(int64_t)sizes->kept_bytes;
    return magazines;
}

dao_magazines_t *dao_magazines_create(dao_magazine_owner_t *owner)
{
    if (owner->slot == DAO_MAGAZINES_OWNER_MAX) {
        return NULL;
    }
    dao_magazines_t *magazines = magazines_create(owner->sizes);
    if (magazines == NULL) {
        return NULL;
    }
    dao_mutex_lock(&lock);
    dao_thread_table_t *table = dao_thread_table != &empty_table ? dao_thread_table : table_create_locked();
    if (table != NULL) {
        DAO_ASSERT(owners[owner->slot] == owner);
        DAO_ASSERT(atomic_load_explicit(&table->own[owner->slot], memory_order_relaxed) == NONE);
        magazines->table = table;
        owner->attach(owner, magazines);
        DAO_ASSERT(atomic_load_explicit(&magazines->epoch, memory_order_relaxed) != DAO_MAGAZINES_EPOCH_NONE);
        atomic_store_explicit(&table->own[owner->slot], magazines, memory_order_relaxed);
    }
    dao_mutex_unlock(&lock);
    if (table == NULL) {
        dao_host_free(magazines);
        return NULL;
    }
    return magazines;
}
