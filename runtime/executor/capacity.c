/* SPDX-License-Identifier: Apache-2.0 */
/* The block of device memory that an executor divides: taken when it is created, and exchanged for another
   one when the program says so.

       capacity      vacate (engine.c)     give         take            take_arena (engine.c)
       old block ----------------------> empty ----> no block ----> new block ----> kernels go on
                                                        |
                                                        `-- refused: the old size again, or none

   Both sizes need not fit beside each other: so the old block is given back first. */
#include "runtime/executor/capacity.h"

#include "base/internal_error.h"
#include "base/log.h"
#include "base/report/error.h"
#include "runtime/device/deferred_free.h"
#include "runtime/device/pressure_ladder.h"
#include "runtime/observe/annotate.h"

#include <inttypes.h>

dao_status_t dao_capacity_check(uint64_t capacity_bytes)
{
    if (capacity_bytes != 0 && capacity_bytes < DAO_RANGE_GRANULE) {
        return dao_error(DAO_ERR_INVALID, "capacity_bytes is %" PRIu64 "; the least is %u", capacity_bytes,
                         DAO_RANGE_GRANULE);
    }
    if (capacity_bytes > DAO_RANGE_CAPACITY_MAX) {
        return dao_error(DAO_ERR_OVERFLOW, "capacity_bytes is %" PRIu64 "; the most is %" PRIu64 ", 1 TiB",
                         capacity_bytes, DAO_RANGE_CAPACITY_MAX);
    }
    return DAO_OK;
}

/* What an arena of capacity 0 leaves free of a device of `total_bytes`: kernels that a library loads later,
   workspaces, other allocations and the driver's own need some. What cudaMemGetInfo() calls free cannot be
   had in full either. 2 % are 2.8 GiB of 139 GiB; small devices keep a sixteenth. */
#define HEADROOM_BYTES ((uint64_t)512 << 20)

static uint64_t headroom_bytes(uint64_t total_bytes)
{
    uint64_t part = total_bytes / 50 > HEADROOM_BYTES ? total_bytes / 50 : HEADROOM_BYTES;
    return total_bytes / 16 < part ? total_bytes / 16 : part;
}

/* Takes an arena of whole units of at most `bytes`. Where memory is short, a capacity that was named is worth
   all that dao_alloc() does before it fails; one of what is free takes no more than that. */
static dao_status_t arena_take(dao_executor_t *executor, uint64_t bytes, uint64_t unit, bool is_named,
                               uint64_t *out_bytes)
{
    dao_runtime_t *runtime = executor->runtime;
    bytes = bytes < DAO_RANGE_CAPACITY_MAX ? bytes : DAO_RANGE_CAPACITY_MAX;
    bytes -= bytes % unit;
    dao_runtime_drain(runtime);
    dao_block_request_t request = {.size_bytes = bytes, .owner = DAO_BLOCK_OWNER_ARENA};
    dao_block_grant_t grant;
    dao_pressure_need_t need = {.place = {DAO_PLACE_KIND_DEVICE, runtime->device_index},
                                .allocator = dao_runtime_allocator(runtime, DAO_PLACE_KIND_DEVICE),
                                .runtime = runtime,
                                .request = &request,
                                .out_grant = &grant};
    dao_status_t status = need.allocator->ops->alloc(need.allocator, &request, &grant);
    if (is_named && dao_allocator_is_short(status)) {
        status = dao_pressure_relieve(&need, status);
    }
    if (status == DAO_OK) {
        executor->arena_address = grant.address;
        *out_bytes = bytes;
    } else {
        dao_error_prefix("an executor's arena of %" PRIu64 " bytes: ", bytes);
    }
    return status;
}

/* Takes what the device has free, but for the headroom. What idles in its place is given back first: the
   device does not count that as free. What is refused is asked for again, an eighth lower each time, down to
   a sixteenth: free memory may lie in pieces, and the place may have a limit. */
static dao_status_t arena_take_most(dao_executor_t *executor, uint64_t *out_bytes)
{
    dao_runtime_t *runtime = executor->runtime;
    dao_allocator_t *allocator = dao_runtime_allocator(runtime, DAO_PLACE_KIND_DEVICE);
    dao_device_info_t info;
    size_t released_bytes;
    dao_runtime_drain(runtime);
    (void)allocator->ops->trim(allocator, 0, &released_bytes); /* what stays, stays */
    dao_status_t status = runtime->ops->device_query(runtime->device, &info);
    if (status != DAO_OK) {
        return status;
    }
    uint64_t unit = info.page_bytes != 0 ? info.page_bytes : DAO_RANGE_GRANULE;
    uint64_t headroom = headroom_bytes(info.total_bytes);
    uint64_t most = info.free_bytes > headroom ? info.free_bytes - headroom : 0;
    if (most < unit) {
        return dao_error(DAO_ERR_NO_DEVICE_MEMORY,
                         "device:%" PRId32 " has %" PRIu64 " bytes free, and an executor without a capacity "
                         "leaves %" PRIu64 "; set capacity_bytes or free memory",
                         runtime->device_index, info.free_bytes, headroom);
    }
    uint64_t bytes = most;
    do {
        status = arena_take(executor, bytes, unit, false, out_bytes);
        bytes -= bytes / 8;
    } while (dao_allocator_is_short(status) && bytes >= unit && bytes >= most / 16);
    if (status == DAO_OK) {
        dao_log(DAO_LOG_LEVEL_INFO,
                "an executor took an arena of %" PRIu64 " bytes; device:%" PRId32 " had %" PRIu64
                " of %" PRIu64 " bytes free, and keeps %" PRIu64,
                *out_bytes, runtime->device_index, info.free_bytes, info.total_bytes,
                info.free_bytes - *out_bytes);
    }
    return status;
}

static dao_place_t place_of(const dao_executor_t *executor)
{
    return (dao_place_t){DAO_PLACE_KIND_DEVICE, executor->runtime->device_index};
}

dao_status_t dao_capacity_take(dao_executor_t *executor, uint64_t capacity_bytes, uint64_t *out_bytes)
{
    dao_status_t status = capacity_bytes == 0
                              ? arena_take_most(executor, out_bytes)
                              : arena_take(executor, capacity_bytes, DAO_RANGE_GRANULE, true, out_bytes);
    if (status == DAO_OK) {
        dao_annotate_alloc(place_of(executor), executor->arena_address, (size_t)*out_bytes);
    }
    return status;
}

void dao_capacity_give(dao_executor_t *executor)
{
    if (executor->arena_address == NULL) {
        return;
    }
    dao_allocator_t *allocator = dao_runtime_allocator(executor->runtime, DAO_PLACE_KIND_DEVICE);
    dao_annotate_free(place_of(executor), executor->arena_address);
    DAO_MUST_FREE(dao_allocator_free_owned(allocator, executor->arena_address, DAO_BLOCK_OWNER_ARENA));
    executor->arena_address = NULL;
}

/* Takes a block, and hands it to the engine. On an error there is none. */
static dao_status_t take_for_engine(dao_executor_t *executor, uint64_t capacity_bytes)
{
    uint64_t bytes = 0;
    dao_device_arena_t arena;
    dao_status_t status = dao_capacity_take(executor, capacity_bytes, &bytes);
    if (status == DAO_OK) {
        status = dao_device_arena_init(&arena, executor->arena_address, bytes);
    }
    if (status == DAO_OK) {
        dao_engine_take_arena(&executor->engine, &arena);
    } else {
        dao_capacity_give(executor);
    }
    return status;
}

void dao_capacity_change(dao_executor_t *executor, dao_request_t *request)
{
    uint64_t old_bytes = executor->engine.config.arena_bytes;
    if (request->error.status != DAO_OK) {
        return;
    }
    dao_capacity_give(executor);
    dao_status_t status = take_for_engine(executor, request->capacity_bytes);
    if (status == DAO_OK) {
        return;
    }
    dao_error_save(&request->error, status);
    if (old_bytes != 0 && take_for_engine(executor, old_bytes) != DAO_OK) {
        dao_engine_take_no_arena(&executor->engine);
        dao_log(DAO_LOG_LEVEL_WARNING,
                "an executor has no device memory: its %" PRIu64 " bytes were given back for another "
                "capacity, and cannot be had again; call dao_executor_capacity_set() when they can",
                old_bytes);
    }
}
