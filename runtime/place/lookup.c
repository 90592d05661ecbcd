/* SPDX-License-Identifier: Apache-2.0 */
/* From a place to its allocator, where it takes more than a look. */
#include "runtime/place/lookup.h"

#include "runtime/device/deferred_free.h"

dao_status_t dao_place_find_host(dao_place_t place, dao_allocator_t **out_allocator)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status != DAO_OK) {
        return status;
    }
    *out_allocator = atomic_load_explicit(&core->host_memory, memory_order_acquire);
    return *out_allocator != NULL ? DAO_OK : dao_core_host_start(core, out_allocator);
}

dao_status_t dao_place_peek_slow(dao_place_t place, dao_allocator_t **out_allocator,
                                 dao_runtime_t **out_runtime)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status != DAO_OK) {
        return status;
    }
    *out_runtime = NULL;
    *out_allocator = atomic_load(&core->host_memory);
    if (place.kind != DAO_PLACE_KIND_CPU) {
        *out_runtime = dao_runtime_started(place.index);
        *out_allocator = *out_runtime != NULL ? dao_runtime_allocator(*out_runtime, place.kind) : NULL;
    }
    return DAO_OK;
}

dao_status_t dao_place_peek_drained(dao_place_t place, dao_allocator_t **out_allocator)
{
    dao_runtime_t *runtime;
    dao_status_t status = dao_place_peek(place, out_allocator, &runtime);
    if (status == DAO_OK && *out_allocator != NULL) {
        dao_place_drain(place, runtime);
    }
    return status;
}
