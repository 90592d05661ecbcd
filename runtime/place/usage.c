/* SPDX-License-Identifier: Apache-2.0 */
/* How much a place has: dao_used(), its cache and its limit. */
#include <dao/memory.h>
#include <dao/stats.h>

#include "runtime/core/waiters.h"
#include "runtime/device/deferred_free.h"
#include "runtime/observe/annotate.h"
#include "runtime/observe/event_ring.h"
#include "runtime/place/lookup.h"

/* In this file it is a function. */
#undef dao_used

static size_t used_at(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    if (dao_place_peek(place, &allocator, &runtime) != DAO_OK || allocator == NULL) {
        return 0;
    }
    dao_place_drain(place, runtime);
    return (size_t)allocator->ops->used_get(allocator);
}

size_t dao_used(dao_place_t place)
{
    return used_at(place);
}

size_t dao_used_cpu(dao_cpu_place_t place)
{
    return used_at(dao_place_from_cpu(place));
}

size_t dao_used_pinned(dao_pinned_place_t place)
{
    return used_at(dao_place_from_pinned(place));
}

size_t dao_used_device(dao_device_place_t place)
{
    return used_at(dao_place_from_device(place));
}

dao_status_t dao_trim(dao_place_t place, size_t keep_bytes, size_t *out_released_bytes)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, &allocator, &runtime);
    size_t released_bytes = 0;
    if (status == DAO_OK && runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE) {
        status = dao_runtime_health(runtime, "dao_trim");
    }
    if (status == DAO_OK && allocator != NULL) {
        if (runtime != NULL) {
            (void)dao_runtime_wait_frees(runtime, place.kind);
        }
        dao_place_drain(place, runtime);
        dao_annotate_begin("dao: trim");
        status = allocator->ops->trim(allocator, keep_bytes, &released_bytes);
        dao_annotate_end();
        dao_events_note_trim(place, released_bytes);
    }
    if (status == DAO_OK && out_released_bytes != NULL) {
        *out_released_bytes = released_bytes;
    }
    return status;
}

dao_status_t dao_limit_set(dao_place_t place, size_t limit_bytes)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_find(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_place_drain(place, runtime);
    status = allocator->ops->limit_set(allocator, limit_bytes);
    if (status == DAO_ERR_LIMIT && runtime != NULL && dao_runtime_wait_frees(runtime, place.kind)) {
        status = allocator->ops->limit_set(allocator, limit_bytes); /* such frees are no live blocks */
    }
    dao_waiters_note_free();
    return status;
}
