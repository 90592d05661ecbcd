/* SPDX-License-Identifier: Apache-2.0 */
/* A device's memory calls, observed. Allocators are handed this table and device in place of the backend's
   own. They tell the callbacks of dao/segment.h which memory is obtained and released. */
#ifndef DAO_RUNTIME_SEGMENT_NOTIFIER_H
#define DAO_RUNTIME_SEGMENT_NOTIFIER_H

#include "backends/backend.h"

#include <dao/segment.h>

typedef struct dao_segment_notifier {
    dao_backend_ops_t ops; /* only what allocators call; its device is dao_segment_notifier_device() */
    const dao_backend_ops_t *inner;
    dao_backend_device_t *device;
    dao_backend_pool_t *pool; /* what device memory comes from; NULL: from the device itself */
    int32_t device_index;
    bool is_poisoned; /* the allocators' freed blocks are: see allocators/layers/poisoned.h; else it is false
                       */
} dao_segment_notifier_t;

/* The notifier outlives the allocators, the device outlives the notifier. */
void dao_segment_notifier_init(dao_segment_notifier_t *notifier, const dao_backend_ops_t *ops,
                               dao_backend_device_t *device, int32_t device_index);

/* Takes the device's memory from a pool from now on, before there is any: the device has such. The backend's
   answer. */
DAO_NODISCARD dao_status_t dao_segment_notifier_pool_begin(dao_segment_notifier_t *notifier);
void dao_segment_notifier_pool_end(
    dao_segment_notifier_t *notifier); /* all memory is given back; also without a begin */

/* The device to hand to the calls of notifier->ops. */
static inline dao_backend_device_t *dao_segment_notifier_device(dao_segment_notifier_t *notifier)
{
    return (dao_backend_device_t *)(void *)notifier;
}

/* Tells callbacks of memory that is obtained and released without the allocators. No lock is held. */
void dao_segment_notify(int32_t device_index, dao_segment_event_t event, void *address, size_t size_bytes);

/* Adds a callback of a place that is there. Returns false if there are too many. */
bool dao_segment_notifier_add(dao_place_t place, dao_segment_callback_t function, void *user,
                              uint64_t *out_id);

/* Forgets all callbacks: the library has stopped. */
void dao_segment_notifier_clear(void);

#endif
