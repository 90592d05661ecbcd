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
        const dao_backend_ops_t *ops = stream->runtime->ops;
        bool is_gone = ops->stream_is_gone != NULL && ops->stream_is_gone(stream->backend);
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
