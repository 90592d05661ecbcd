/* SPDX-License-Identifier: Apache-2.0 */
/* The table of a device's adopted streams.

       buckets[hash of the handle] -> stream -> stream -> NULL     linked by adopted.next

   A program owns a stream once for each time that it has adopted it. Invariants, while the lock is free:

       a stream in the table has an owner, so it has a reference
       a handle is in the table once
       a stream that is gone (its maker has destroyed it, its handle may be another stream's) is not in it,
   but between the two halves of a look-up

   The backend is asked without the lock whether a stream is gone; a reference keeps the record meanwhile. */
#include "runtime/device/adopted.h"

#include "base/memory/probe_table.h"
#include "base/report/assert.h"
#include "runtime/device/runtime.h"

void dao_adopted_init(dao_adopted_t *adopted)
{
    *adopted = (dao_adopted_t){0};
    dao_mutex_init(&adopted->lock, DAO_RANK_LEAF);
}

void dao_adopted_finish(dao_adopted_t *adopted)
{
    for (int i = 0; i < DAO_ADOPTED_BUCKET_COUNT; i++) {
        DAO_ASSERT(adopted->buckets[i] == NULL);
    }
    dao_mutex_finish(&adopted->lock);
}

/* Returns the link that leads to a handle's stream, or to the end of its bucket. */
static dao_stream_t **link_of_locked(dao_adopted_t *adopted, const void *native)
{
    uint64_t hash = dao_probe_hash_address((uint64_t)(uintptr_t)native);
    dao_stream_t **link = &adopted->buckets[hash % DAO_ADOPTED_BUCKET_COUNT];
    while (*link != NULL && (*link)->adopted.native != native) {
        link = &(*link)->adopted.next;
    }
    return link;
}

static void remove_locked(dao_adopted_t *adopted, dao_stream_t *stream)
{
    dao_stream_t **link = link_of_locked(adopted, stream->adopted.native);
    if (*link == stream) { /* else it was found to be gone */
        *link = stream->adopted.next;
        stream->adopted.next = NULL;
    }
}

/* Returns a handle's stream with one more reference; NULL if there is none. */
static dao_stream_t *look_up(dao_adopted_t *adopted, const void *native)
{
    dao_mutex_lock(&adopted->lock);
    dao_stream_t *stream = *link_of_locked(adopted, native);
    if (stream != NULL) {
        dao_stream_retain(stream);
    }
    dao_mutex_unlock(&adopted->lock);
    return stream;
}

/* Adds an owner to a stream that is still in the table, or takes one that is gone out of it. */
static bool own(dao_adopted_t *adopted, dao_stream_t *stream, bool is_gone)
{
    dao_mutex_lock(&adopted->lock);
    bool is_owned = !is_gone && *link_of_locked(adopted, stream->adopted.native) == stream;
    if (is_owned) {
        stream->adopted.owner_count++;
    } else if (is_gone) {
        remove_locked(adopted, stream);
        atomic_store(&stream->adopted.is_gone, true);
        atomic_store(&stream->fast_number, 0);
    }
    dao_mutex_unlock(&adopted->lock);
    return is_owned;
}

/* Between the two looks its last owner may leave it: then it is looked up again. */
dao_stream_t *dao_adopted_find(dao_adopted_t *adopted, void *native)
{
    dao_stream_t *stream;
    while ((stream = look_up(adopted, native)) != NULL) {
        bool is_gone = dao_backend_stream_is_gone(stream->runtime->ops, stream->backend);
        bool is_owned = own(adopted, stream, is_gone);
        dao_stream_release(stream);
        if (is_owned) {
            return stream;
        }
    }
    return NULL;
}

dao_stream_t *dao_adopted_add(dao_adopted_t *adopted, dao_stream_t *stream)
{
    dao_mutex_lock(&adopted->lock);
    dao_stream_t **link = link_of_locked(adopted, stream->adopted.native);
    if (*link == NULL) {
        stream->adopted.owner_count = 1;
        *link = stream;
    } else {
        stream = *link;
        stream->adopted.owner_count++;
    }
    dao_mutex_unlock(&adopted->lock);
    return stream;
}

bool dao_adopted_disown(dao_adopted_t *adopted, dao_stream_t *stream)
{
    dao_mutex_lock(&adopted->lock);
    DAO_ASSERT(stream->adopted.owner_count > 0);
    bool is_last = --stream->adopted.owner_count == 0;
    if (is_last) {
        remove_locked(adopted, stream);
    }
    dao_mutex_unlock(&adopted->lock);
    return is_last;
}

/* ---- those that calls by native handle have named ---- */

/* The table of native handles: open addressing over slots that are filled once.

       slots    [ h, s ][ -, - ][ h', s' ]...      stream NULL: free, and the end of every probe

   A reader loads the stream first: where there is one, the handle beside it is written. A slot keeps its
   handle; only its stream is replaced, where the handle has become another stream's. The old stream stays
   until the end, since a call may be using it. Invariant: each handle is in one slot. */

void dao_natives_init(dao_natives_t *natives)
{
    dao_mutex_init(&natives->lock, DAO_RANK_LEAF);
}

void dao_natives_finish(dao_natives_t *natives)
{
    for (uint32_t i = 0; i < DAO_NATIVE_STREAM_MAX; i++) {
        DAO_ASSERT(atomic_load(&natives->slots[i].stream) == NULL);
    }
    DAO_ASSERT(natives->replaced == NULL);
    dao_mutex_finish(&natives->lock);
}

/* Returns the slot of a handle, or the free one where it belongs; NULL: the table is full without it. */
static dao_native_slot_t *slot_of(dao_natives_t *natives, const void *native)
{
    uint64_t hash = dao_probe_hash_address((uint64_t)(uintptr_t)native);
    for (uint32_t i = 0; i < DAO_NATIVE_STREAM_MAX; i++) {
        dao_native_slot_t *slot = &natives->slots[(hash + i) % DAO_NATIVE_STREAM_MAX];
        if (atomic_load_explicit(&slot->stream, memory_order_acquire) == NULL || slot->native == native) {
            return slot;
        }
    }
    return NULL;
}

dao_stream_t *dao_natives_find(dao_natives_t *natives, const void *native)
{
    dao_native_slot_t *slot = slot_of(natives, native);
    dao_stream_t *stream = slot != NULL ? atomic_load_explicit(&slot->stream, memory_order_acquire) : NULL;
    /* A slot that was free may have become another handle's since. */
    return stream != NULL && slot->native == native ? stream : NULL;
}

bool dao_natives_enter(dao_natives_t *natives, dao_stream_t *stream, dao_stream_t **out_there)
{
    dao_mutex_lock(&natives->lock);
    dao_native_slot_t *slot = slot_of(natives, stream->adopted.native);
    dao_stream_t *there = slot != NULL ? atomic_load(&slot->stream) : NULL;
    bool is_gone = there != NULL && atomic_load(&there->adopted.is_gone);
    bool is_entered = slot != NULL && (there == NULL || is_gone);
    if (is_gone) {
        there->adopted.next = natives->replaced; /* it is in no bucket any more */
        natives->replaced = there;
    }
    if (is_entered && there == NULL) {
        slot->native = stream->adopted.native; /* before the stream, and never again: readers have no lock */
    }
    if (is_entered) {
        atomic_store_explicit(&slot->stream, stream, memory_order_release);
    }
    *out_there = is_entered ? stream : there;
    dao_mutex_unlock(&natives->lock);
    return is_entered;
}

dao_stream_t *dao_natives_take(dao_natives_t *natives)
{
    dao_stream_t *taken = NULL;
    dao_mutex_lock(&natives->lock);
    if (natives->replaced != NULL) {
        taken = natives->replaced;
        natives->replaced = taken->adopted.next;
        taken->adopted.next = NULL;
    }
    for (uint32_t i = 0; i < DAO_NATIVE_STREAM_MAX && taken == NULL; i++) {
        taken = atomic_exchange(&natives->slots[i].stream, NULL);
    }
    dao_mutex_unlock(&natives->lock);
    return taken;
}
