/* SPDX-License-Identifier: Apache-2.0 */
/* Registers memory that a place obtains from its device with a network or communicator, and deregisters it
   before the place releases it: over the segment callbacks (dao/segment.h).

       registry: { place, ops, user }   entries: address -> handle, one for each registered segment

   The callbacks run with the place's allocator locked: `enter` and `leave` must not call libdao. */
#ifndef DAO_INTEGRATIONS_SEGMENT_REGISTRY_H
#define DAO_INTEGRATIONS_SEGMENT_REGISTRY_H

#include <dao/place.h>

typedef struct dao_segment_registry dao_segment_registry_t;

typedef struct dao_segment_registry_ops {
    /* Registers a segment. False: it was refused, and is used unregistered. */
    bool (*enter)(void *user, void *address, size_t size_bytes, void **out_handle);
    void (*leave)(void *user, void *handle);
} dao_segment_registry_ops_t;

/* Registers all segments that are obtained from now on. Errors of dao_segment_callback_add();
   DAO_ERR_NO_HOST_MEMORY. `ops` is static; `user` stays valid until dao_segment_registry_destroy(). */
DAO_NODISCARD dao_status_t dao_segment_registry_create(dao_place_t place,
                                                       const dao_segment_registry_ops_t *ops, void *user,
                                                       dao_segment_registry_t **out_registry);

/* Stops, and deregisters the segments that are left. NULL is allowed. */
void dao_segment_registry_destroy(dao_segment_registry_t *registry);

/* Returns how many segments are registered now, 0 for NULL. *out_refused_count, which may be NULL, gets how
   many were refused so far. */
size_t dao_segment_registry_count(dao_segment_registry_t *registry, size_t *out_refused_count);

#endif
