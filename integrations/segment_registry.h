/* Registers what a place of a device obtains with somebody who has to know memory before it is used, a network or a
   communicator, and deregisters it before it goes: over the segment callbacks (dao/segment.h).

       registry: { place, ops, user }   entries: address -> handle, one for each stretch that is registered now

   The callbacks come with the place's allocator locked, so that `enter` and `leave` may call nothing of libdao. */
#ifndef DAO_INTEGRATIONS_SEGMENT_REGISTRY_H
#define DAO_INTEGRATIONS_SEGMENT_REGISTRY_H

#include <dao/place.h>

typedef struct segment_registry segment_registry_t;

typedef struct segment_registry_ops {
    /* Registers a stretch; false: it was refused, and is used without. */
    bool (*enter)(void *user, void *address, size_t size_bytes, void **out_handle);
    void (*leave)(void *user, void *handle);
} segment_registry_ops_t;

/* Begins to register. As dao_segment_callback_add() of what is obtained from now on; DAO_ERR_NO_HOST_MEMORY. `ops` is static,
   `user` stays valid until segment_registry_destroy(). */
DAO_NODISCARD dao_status_t segment_registry_create(dao_place_t place, const segment_registry_ops_t *ops,
                                                   void *user, segment_registry_t **out_registry);

/* Ends it, and deregisters what is there still. NULL is allowed. */
void segment_registry_destroy(segment_registry_t *registry);

/* Gives how many stretches are registered now, and how many were refused so far. */
size_t segment_registry_count(segment_registry_t *registry, size_t *out_refused_count);

#endif
