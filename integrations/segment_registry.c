/* SPDX-License-Identifier: Apache-2.0 */
#include "integrations/segment_registry.h"

#include <dao/dao.h>

#include <pthread.h>
#include <stdlib.h>

typedef struct entry {
    struct entry *next;
    void *address;
    void *handle;
} entry_t;

struct dao_segment_registry {
    const dao_segment_registry_ops_t *ops;
    void *user;
    uint64_t callback_id;
    pthread_mutex_t lock; /* guards what follows */
    entry_t *entries;
    size_t count;
    size_t refused_count;
};

static void obtained_locked(dao_segment_registry_t *registry, void *address, size_t size_bytes)
{
    entry_t *entry = malloc(sizeof(*entry));
    if (entry == NULL || !registry->ops->enter(registry->user, address, size_bytes, &entry->handle)) {
        free(entry);
        registry->refused_count++;
        return;
    }
    entry->address = address;
    entry->next = registry->entries;
    registry->entries = entry;
    registry->count++;
}

/* Removes the entry that a link points to. */
static void leave_locked(dao_segment_registry_t *registry, entry_t **link)
{
    entry_t *entry = *link;
    *link = entry->next;
    registry->count--;
    registry->ops->leave(registry->user, entry->handle);
    free(entry);
}

static void releasing_locked(dao_segment_registry_t *registry, const void *address)
{
    entry_t **link = &registry->entries;
    while (*link != NULL && (*link)->address != address) {
        link = &(*link)->next;
    }
    if (*link != NULL) { /* else it was refused, or obtained before the registry */
        leave_locked(registry, link);
    }
}

static void on_segment(dao_place_t place, dao_segment_event_t event, void *address, size_t size_bytes,
                       void *user)
{
    dao_segment_registry_t *registry = user;
    (void)place;
    (void)pthread_mutex_lock(&registry->lock);
    if (event == DAO_SEGMENT_EVENT_OBTAINED) {
        obtained_locked(registry, address, size_bytes);
    } else {
        releasing_locked(registry, address);
    }
    (void)pthread_mutex_unlock(&registry->lock);
}

dao_status_t dao_segment_registry_create(dao_place_t place, const dao_segment_registry_ops_t *ops, void *user,
                                         dao_segment_registry_t **out_registry)
{
    dao_segment_registry_t *registry = calloc(1, sizeof(*registry));
    if (registry == NULL) {
        return DAO_ERR_NO_HOST_MEMORY;
    }
    registry->ops = ops;
    registry->user = user;
    (void)pthread_mutex_init(&registry->lock, NULL);
    dao_status_t status = dao_segment_callback_add(place, on_segment, registry, &registry->callback_id);
    if (status != DAO_OK) {
        (void)pthread_mutex_destroy(&registry->lock);
        free(registry);
        return status;
    }
    *out_registry = registry;
    return DAO_OK;
}

void dao_segment_registry_destroy(dao_segment_registry_t *registry)
{
    if (registry == NULL) {
        return;
    }
    (void)dao_segment_callback_remove(registry->callback_id); /* gone already if the library has stopped */
    (void)pthread_mutex_lock(&registry->lock);
    while (registry->entries != NULL) {
        leave_locked(registry, &registry->entries);
    }
    (void)pthread_mutex_unlock(&registry->lock);
    (void)pthread_mutex_destroy(&registry->lock);
    free(registry);
}

size_t dao_segment_registry_count(dao_segment_registry_t *registry, size_t *out_refused_count)
{
    size_t count = 0;
    size_t refused_count = 0;
    if (registry != NULL) {
        (void)pthread_mutex_lock(&registry->lock);
        count = registry->count;
        refused_count = registry->refused_count;
        (void)pthread_mutex_unlock(&registry->lock);
    }
    if (out_refused_count != NULL) {
        *out_refused_count = refused_count;
    }
    return count;
}
