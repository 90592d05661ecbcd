/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of a device that were adopted, by their handles: one record a stream, however often it is
   adopted. */
#ifndef DAO_RUNTIME_ADOPTED_H
#define DAO_RUNTIME_ADOPTED_H

#include <dao/native.h>
#include <dao/stream.h>

#include "base/threads/sync.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* PyTorch makes up to 65 streams a device. */
#define DAO_ADOPTED_BUCKET_COUNT 128

/* What a stream keeps for it. */
typedef struct dao_adopted_stream {
    void *native; /* the handle, under which it is listed; NULL as well for one that was not adopted */
    _Atomic bool is_gone; /* its maker has destroyed it: it takes no more work */
    /* guarded by the lock of dao_adopted_t */
    uint32_t
        owner_count;    /* times that the program has adopted it less those it has destroyed it; at least 1 */
    dao_stream_t *next; /* in its bucket */
} dao_adopted_stream_t;

typedef struct dao_adopted {
    dao_mutex_t lock; /* guards what follows */
    dao_stream_t *buckets[DAO_ADOPTED_BUCKET_COUNT];
} dao_adopted_t;

void dao_adopted_init(dao_adopted_t *adopted);
void dao_adopted_finish(dao_adopted_t *adopted); /* none is left */

/* Returns the stream behind a handle, with one more owner; NULL if it was not adopted, or if its handle has
   become another stream's: then it is taken off the list and refuses work. O(1) and one backend call. */
dao_stream_t *dao_adopted_find(dao_adopted_t *adopted, void *native);

/* Enters a stream with its first owner. Returns it, or the one that another thread has entered meanwhile for
   its handle, with one more owner. */
dao_stream_t *dao_adopted_add(dao_adopted_t *adopted, dao_stream_t *stream);

/* Takes an owner off a stream. Returns true if that was the last one: the stream is off the list. */
bool dao_adopted_disown(dao_adopted_t *adopted, dao_stream_t *stream);

/* Of these, the streams that calls by native handle have named (dao/native.h): a table by handle, which is
   read without a lock. */
typedef struct dao_native_slot {
    void *native; /* written before the stream, then never again */
    _Atomic(dao_stream_t *) stream;
} dao_native_slot_t;

typedef struct dao_natives {
    dao_native_slot_t slots[DAO_NATIVE_STREAM_MAX];
    dao_mutex_t lock;       /* rank leaf; guards what follows, and writes of slots */
    dao_stream_t *replaced; /* streams whose handles are others' by now, linked by adopted.next */
    void (*_Atomic end)(
        struct dao_natives *natives); /* set with the first stream; gives back what there is */
} dao_natives_t;

void dao_natives_init(dao_natives_t *natives);
void dao_natives_finish(dao_natives_t *natives); /* nothing is in it */

/* Returns the stream of a handle, or NULL. Threads: any. O(1), loads alone. */
dao_stream_t *dao_natives_find(dao_natives_t *natives, const void *native);

/* Enters a stream for its handle, in place of one that is gone; false: there is one already, or the table is
   full. *out_there is the one that is there now; NULL: none. */
bool dao_natives_enter(dao_natives_t *natives, dao_stream_t *stream, dao_stream_t **out_there);

/* Takes a stream out of the table, any; NULL: it is empty. Nobody else uses it any more. */
dao_stream_t *dao_natives_take(dao_natives_t *natives);

#endif
