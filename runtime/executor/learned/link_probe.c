/* SPDX-License-Identifier: Apache-2.0 */
/* Copies between a part of the arena and pinned memory, which the profiler measures as those of a step:

       in     [warm] [small] [large]                          [large] [large]
       out                           [warm] [small] [large]   [large] [large]
                                                              both at once

   The first ones, which touch the memory for the first time, are not measured. The pinned memory is given
   back at once, and is not of the host tier's: what that may have is for tensors. */
#include "runtime/executor/learned/link_probe.h"

#include "base/internal_error.h"
#include "base/numbers/math.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/online/eviction.h"
#include "runtime/executor/state/residency_parts.h"

/* A small copy is the large one over this: between them the latency shows. */
#define SMALL_PART 16u

/* Both directions take at most 1 / this of the arena, so that few tensors have to leave for them. */
#define ARENA_PART 4u

/* Least bytes of the largest copy of a direction, on all but the smallest arenas: those of fewer take little
   more than the latency, and say nothing of the speed. */
#define HALF_BYTES_MIN ((uint64_t)32 << 10)

/* Where the copies go: a half each way. */
typedef struct probe {
    dao_engine_t *engine;
    uint64_t offset_bytes; /* of the arena's part */
    char *host;
    uint64_t half_bytes;
    dao_fence_t done; /* what was queued */
} probe_t;

/* Queues a copy behind a fence. */
static dao_status_t copy(probe_t *probe, dao_stream_role_t role, uint64_t size_bytes,
                         const dao_fence_t *fence)
{
    bool is_in = role == DAO_STREAM_ROLE_H2D;
    uint64_t begin = is_in ? 0 : probe->half_bytes, sequence = 0;
    char *device = dao_device_arena_at(&probe->engine->arena, probe->offset_bytes + begin);
    char *host = probe->host + begin;
    dao_copy_t link_copy = {role, is_in, is_in ? device : host, is_in ? host : device, (size_t)size_bytes};
    DAO_ASSERT(size_bytes <= probe->half_bytes);
    dao_status_t status = dao_residency_copy(probe->engine, NULL, &link_copy, fence, &sequence);
    dao_fence_add(&probe->done, role, sequence);
    return status;
}

/* A direction alone: behind all that was queued. */
static dao_status_t copy_alone(probe_t *probe, dao_stream_role_t role, uint64_t size_bytes)
{
    dao_fence_t before = probe->done;
    return copy(probe, role, size_bytes, &before);
}

static dao_status_t copy_each_way(probe_t *probe, uint64_t size_bytes)
{
    dao_status_t status = copy_alone(probe, DAO_STREAM_ROLE_H2D, size_bytes);
    return status == DAO_OK ? copy_alone(probe, DAO_STREAM_ROLE_D2H, size_bytes) : status;
}

static dao_status_t copy_all(probe_t *probe)
{
    uint64_t small = probe->half_bytes / SMALL_PART;
    dao_status_t status = copy_each_way(probe, probe->half_bytes);
    dao_profiler_start(&probe->engine->profiler);
    status = status == DAO_OK ? copy_each_way(probe, small) : status;
    status = status == DAO_OK ? copy_each_way(probe, probe->half_bytes) : status;
    dao_fence_t before = probe->done;
    for (int i = 0; status == DAO_OK && i < 2; i++) {
        status = copy(probe, DAO_STREAM_ROLE_H2D, probe->half_bytes, &before);
        status = status == DAO_OK ? copy(probe, DAO_STREAM_ROLE_D2H, probe->half_bytes, &before) : status;
    }
    return status;
}

/* What the profiler has seen, once the device is done. */
static dao_status_t note(dao_engine_t *engine, dao_known_links_t *links, dao_status_t status)
{
    dao_profiler_t *profiler = &engine->profiler;
    dao_status_t wait_status = dao_timeline_wait_all(&engine->timeline);
    dao_engine_lose_unless_ok(engine, wait_status);
    status = status == DAO_OK ? wait_status : status;
    if (profiler->state == DAO_PROFILER_RUNNING) {
        dao_profiler_stop(profiler);
        dao_profiler_collect(profiler);
    }
    bool is_measured = profiler->state == DAO_PROFILER_DONE && !profiler->is_spoilt;
    if (status == DAO_OK && is_measured) {
        dao_known_links_note_host(links, profiler);
    } else if (status == DAO_OK) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "the device's copies could not be measured");
    }
    dao_profiler_reset(profiler);
    return status;
}

/* Takes a part of the arena and pinned memory, of two halves each. On an error none. */
static dao_status_t take(probe_t *probe)
{
    dao_engine_t *engine = probe->engine;
    size_t size_bytes = (size_t)(2 * probe->half_bytes);
    void *host = NULL;
    dao_status_t status = dao_eviction_take(engine, size_bytes, DAO_OWNER_WORKSPACE, &probe->offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        return dao_error(status, "the device has no room to measure the link with");
    }
    if (status != DAO_OK) {
        return status;
    }
    if (dao_allocator_alloc_owned(engine->config.host, size_bytes, DAO_BLOCK_OWNER_POOL, &host) != DAO_OK) {
        dao_device_arena_forget(&engine->arena, probe->offset_bytes, size_bytes);
        return dao_error(DAO_ERR_HOST_FULL, "there is no pinned memory to measure the link with: %.300s",
                         dao_last_message());
    }
    probe->host = host;
    dao_device_arena_fence(&engine->arena, probe->offset_bytes, size_bytes, &probe->done);
    return DAO_OK;
}

/* All copies are done, or the device is lost. */
static void give(probe_t *probe)
{
    dao_engine_t *engine = probe->engine;
    size_t size_bytes = (size_t)(2 * probe->half_bytes);
    DAO_MUST_FREE(dao_allocator_free_owned(engine->config.host, probe->host, DAO_BLOCK_OWNER_POOL));
    dao_status_t status = dao_device_arena_give(&engine->arena, &engine->timeline, probe->offset_bytes,
                                                size_bytes, &probe->done);
    dao_engine_lose_unless_ok(engine, status);
}

dao_status_t dao_link_probe(dao_engine_t *engine, dao_known_links_t *links)
{
    uint64_t most = dao_smaller(DAO_LINK_PROBE_BYTES, engine->config.arena_bytes / ARENA_PART);
    uint64_t half_bytes = dao_larger(most / 2, 1);
    uint64_t least_bytes = dao_smaller(half_bytes, HALF_BYTES_MIN);
    probe_t probe = {.engine = engine};
    dao_status_t status = DAO_ERR_LIMIT;
    DAO_ASSERT(engine->plan == NULL);
    DAO_ASSERT(engine->profiler.state == DAO_PROFILER_IDLE);
    while ((status == DAO_ERR_LIMIT || status == DAO_ERR_HOST_FULL) && half_bytes >= least_bytes) {
        probe.half_bytes = dao_round_up(half_bytes, DAO_RANGE_GRANULE);
        status = take(&probe);
        half_bytes /= 2;
    }
    if (status == DAO_OK) {
        status = note(engine, links, copy_all(&probe));
        give(&probe);
    }
    return status;
}
