/* SPDX-License-Identifier: Apache-2.0 */
/* Registers what a place of a device obtains with somebody who has to know memory before it is used, a
   network or a communicator, and deregisters it before it goes: over the segment callbacks (dao/segment.h).

       registry: { place, ops, user }   entries: address -> handle, one for each stretch that is registered now

   The callbacks come with the place's allocator locked, so that `enter` and `leave` may call nothing of
   libdao. */
#ifndef DAO_INTEGRATIONS_SEGMENT_REGISTRY_H
#define DAO_INTEGRATIONS_SEGMENT_REGISTRY_H

#include <dao/place.h>

typedef struct dao_segment_registry dao_segment_registry_t;

typedef struct dao_segment_registry_ops {
    /* Registers a stretch; false: it was refused, and is used without. */
    bool (*enter)(void *user, void *address, size_t size_bytes, void **out_handle);
    void (*leave)(void *user, void *handle);
} dao_segment_registry_ops_t;

/* Begins to register. As dao_segment_callback_add() of what is obtained from now on; DAO_ERR_NO_HOST_MEMORY.
   `ops` is static, `user` stays valid until dao_segment_registry_destroy(). */
DAO_NODISCARD dao_status_t dao_segment_registry_create(dao_place_t place,
                                                       const dao_segment_registry_ops_t *ops, void *user,
                                                       dao_segment_registry_t **out_registry);

/* Ends it, and deregisters what is there still. NULL is allowed. */
void dao_segment_registry_destroy(dao_segment_registry_t *registry);

/* Gives how many stretches are registered now, none by NULL, and how many were refused so far; that may be
   NULL. */
size_t dao_segment_registry_count(dao_segment_registry_t *registry, size_t *out_refused_count);

#endif
