/* SPDX-License-Identifier: Apache-2.0 */
/* Starting and ending a device: the backend's device, its stream fences, the allocators of its two places,
   its three streams. What is made here is undone here, in reverse, by the last reference to the runtime. */
#include "runtime/start/device_start.h"

#include "allocators/slow_path.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/error.h"
#include "runtime/device/block.h"
#include "runtime/device/deferred_free.h"
#include "runtime/observe/event_ring.h"
#include "runtime/observe/segment_notifier.h"
#include "runtime/own/own_device.h"
#include "runtime/start/hardening.h"
#include "runtime/start/place_start.h"

#include <inttypes.h>

struct dao_device_start {
    dao_segment_notifier_t notifier; /* tells which memory is obtained and released */
    dao_place_origin_t origin;       /* where the allocators' memory comes from */
};

static void runtime_destroy(dao_runtime_t *runtime)
{
    struct dao_device_start *start = runtime->start;
    for (uint32_t i = 0; i < runtime->spare.count; i++) {
        runtime->ops->event_destroy(runtime->spare.events[i]);
    }
    for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
        if (runtime->streams[role].backend != NULL) {
            runtime->ops->stream_destroy(runtime->streams[role].backend);
        }
    }
    if (runtime->pinned_memory != NULL) {
        runtime->pinned_memory->ops->destroy(runtime->pinned_memory);
    }
    if (runtime->device_memory != NULL) {
        runtime->device_memory->ops->destroy(runtime->device_memory);
    }
    dao_segment_notifier_pool_end(&start->notifier);
    if (runtime->lender == NULL) {
        dao_stream_fences_destroy(runtime->fences);
    }
    if (runtime->bytes_stream != NULL) {
        runtime->ops->stream_destroy(runtime->bytes_stream);
    }
    if (runtime->device != NULL && runtime->lender == NULL && runtime->ops->device_close != NULL) {
        runtime->ops->device_close(runtime->device);
    }
    if (runtime->lender != NULL) {
        dao_runtime_release(runtime->lender);
    }
    if (dao_runtime_is_lost(runtime)) {
        dao_slow_path_end();
    }
    dao_core_release(runtime->core);
    dao_retained_finish(&runtime->retained);
    dao_natives_finish(&runtime->natives);
    dao_adopted_finish(&runtime->adopted);
    dao_shares_finish(&runtime->shares);
    dao_deferred_list_finish(&runtime->deferred);
    dao_mutex_finish(&runtime->spare.lock);
    dao_host_free(start);
    dao_host_free(runtime);
}

/* What the last reference to a runtime calls. */
static void runtime_end(dao_runtime_t *runtime)
{
    DAO_ASSERT(atomic_load(&runtime->reference_count) == 0);
    if (!dao_runtime_is_lost(runtime)) {
        (void)dao_runtime_wait_frees(runtime, DAO_PLACE_KIND_DEVICE); /* handles that outlived the start */
    }
    dao_runtime_drain_all(runtime);
    dao_runtime_drain_rest(runtime);
    runtime_destroy(runtime);
}

/* Returns a runtime that runtime_destroy() takes, with nothing opened; NULL without memory. */
static dao_runtime_t *runtime_empty(dao_core_t *core, int32_t device_index)
{
    dao_runtime_t *runtime = dao_host_calloc(1, sizeof(*runtime));
    struct dao_device_start *start = dao_host_calloc(1, sizeof(*start));
    if (runtime == NULL || start == NULL) {
        dao_host_free(start);
        dao_host_free(runtime);
        return NULL;
    }
    dao_mutex_init(&runtime->spare.lock, DAO_RANK_RUNTIME);
    dao_deferred_list_init(&runtime->deferred);
    dao_retained_init(&runtime->retained, device_index);
    dao_shares_init(&runtime->shares);
    dao_adopted_init(&runtime->adopted);
    dao_natives_init(&runtime->natives);
    runtime->core = dao_core_retain(core);
    runtime->ops = core->ops;
    runtime->device_index = device_index;
    atomic_init(&runtime->shown_place, DAO_PLACE_WORD_NONE);
    runtime->start = start;
    runtime->end = runtime_end;
    atomic_init(&runtime->reference_count, 1);
    return runtime;
}

/* Hardens both places, as far as that is said, and makes what the device's needs for it. */
static dao_status_t harden(dao_runtime_t *runtime)
{
    dao_core_t *core = runtime->core;
    dao_place_t device = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    if (dao_hardening_of(core, device) != 0) {
        dao_status_t status = runtime->ops->stream_create(runtime->device, &runtime->bytes_stream);
        if (status != DAO_OK) {
            runtime->bytes_stream = NULL;
            return status;
        }
    }
    dao_status_t status = dao_hardening_wrap(core, runtime, DAO_PLACE_KIND_DEVICE, &runtime->device_memory);
    return status != DAO_OK
               ? status
               : dao_hardening_wrap(core, runtime, DAO_PLACE_KIND_PINNED, &runtime->pinned_memory);
}

static dao_status_t memory_start(dao_runtime_t *runtime, dao_place_t place, const dao_place_config_t *config,
                                 dao_allocator_t **out_allocator)
{
    dao_status_t status = dao_events_history_begin(runtime->core->event_rings, place);
    return status == DAO_OK ? dao_place_start(place, config, &runtime->start->origin, out_allocator) : status;
}

/* Both as they were configured. A config does not change while its device starts. */
static dao_status_t allocators_create(dao_runtime_t *runtime)
{
    struct dao_device_start *start = runtime->start;
    dao_segment_notifier_init(&start->notifier, runtime->memory_ops, runtime->memory_device,
                              runtime->device_index);
    start->notifier.is_poisoned =
        runtime->device_index < runtime->core->device_count && !runtime->ops->has_no_bytes;
    start->origin = (dao_place_origin_t){.ops = &start->notifier.ops,
                                         .device = dao_segment_notifier_device(&start->notifier),
                                         .is_poisoned = start->notifier.is_poisoned,
                                         .fences = runtime->fences,
                                         .step_plan = &runtime->core->step_plan};
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    const dao_place_config_t *config = &runtime->core->device_configs[place.index];
    dao_status_t status = DAO_OK;
    if (config->memory_pool && runtime->info.memory_pools) {
        status = dao_segment_notifier_pool_begin(&start->notifier);
        start->origin.has_pool = status == DAO_OK;
    }
    if (status == DAO_OK) {
        status = memory_start(runtime, place, config, &runtime->device_memory);
    }
    if (status == DAO_OK) {
        place.kind = DAO_PLACE_KIND_PINNED;
        start->origin.budget = &runtime->core->host_budget;
        status = memory_start(runtime, place, &runtime->core->pinned_configs[place.index],
                              &runtime->pinned_memory);
    }
    status = status == DAO_OK ? harden(runtime) : status;
    if (status == DAO_OK) {
        dao_block_fallback_set(runtime);
    }
    return status;
}

static dao_status_t streams_create(dao_runtime_t *runtime)
{
    for (int role = 0; role < DAO_STREAM_ROLE_COUNT; role++) {
        dao_stream_t *stream = &runtime->streams[role];
        stream->runtime = runtime;
        stream->is_builtin = true;
        atomic_init(&stream->reference_count, 1);
        dao_status_t status = runtime->ops->stream_create(runtime->device, &stream->backend);
        if (status != DAO_OK) {
            stream->backend = NULL;
            return status;
        }
    }
    return DAO_OK;
}

/* Opens a device of the backend. */
static dao_status_t device_open(dao_runtime_t *runtime)
{
    dao_core_t *core = runtime->core;
    dao_status_t status = core->ops->device_open(core->backend, runtime->device_index, &runtime->device);
    runtime->memory_ops = runtime->ops;
    runtime->memory_device = runtime->device;
    return status == DAO_OK ? dao_stream_fences_create(runtime->ops, runtime->device, &runtime->fences)
                            : status;
}

/* Takes a program's own memory for a device; what it is on lends it everything else. */
static dao_status_t device_borrow(dao_runtime_t *runtime, dao_backend_device_t *own, dao_runtime_t *lender)
{
    runtime->memory_ops = &dao_own_ops;
    runtime->memory_device = own;
    if (lender == NULL) {
        runtime->ops = &dao_own_ops;
        runtime->device = own;
        return dao_stream_fences_create(runtime->ops, runtime->device, &runtime->fences);
    }
    runtime->lender = dao_runtime_retain(lender);
    runtime->device = lender->device;
    runtime->fences = lender->fences;
    dao_own_device_lend(own, lender->ops, lender->device);
    return DAO_OK;
}

dao_status_t dao_runtime_create(dao_core_t *core, int32_t device_index, dao_runtime_t *lender,
                                dao_runtime_t **out_runtime)
{
    dao_runtime_t *runtime = runtime_empty(core, device_index);
    if (runtime == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no host memory to start device:%" PRId32, device_index);
    }
    dao_status_t status = device_index < core->device_count
                              ? device_open(runtime)
                              : device_borrow(runtime, core->own_devices[device_index], lender);
    if (status == DAO_OK) {
        status = runtime->memory_ops->device_query(runtime->memory_device, &runtime->info);
    }
    if (status == DAO_OK) {
        status = allocators_create(runtime);
    }
    if (status == DAO_OK) {
        status = streams_create(runtime);
    }
    if (status != DAO_OK) {
        dao_error_prefix("device:%" PRId32 " could not be started: ", device_index);
        dao_error_record_t record;
        dao_error_save(&record, status);
        runtime_destroy(runtime);
        return dao_error_restore(&record);
    }
    dao_log(DAO_LOG_LEVEL_INFO, "device:%" PRId32 " started: %s, %" PRIu64 " bytes", device_index,
            runtime->info.name, runtime->info.total_bytes);
    *out_runtime = runtime;
    return DAO_OK;
}
