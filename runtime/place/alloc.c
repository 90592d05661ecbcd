/* SPDX-License-Identifier: Apache-2.0 */
/* Raw memory at a place: dao_alloc(), dao_free(), dao_used(), and a place's limit, cache and statistics. A
   place leads to its allocator, which does the work; what is done here is finding it, carrying out frees that
   waited for a stream, and telling a wrong place from a wrong address. */
#include <dao/memory.h>
#include <dao/stats.h>

#include "allocators/accounting/ledger.h"
#include "allocators/segments/pinned.h"
#include "allocators/slow_path.h"
#include "base/numbers/path.h"
#include "base/report/error.h"
#include "runtime/observe/event_ring.h"
#include "runtime/observe/tag_internal.h"
#include "runtime/observe/watch.h"
#include "runtime/place/pressure_internal.h"
#include "runtime/sharing/lease_internal.h"

/* In this file they are functions. */
#undef dao_alloc
#undef dao_free
#undef dao_used

/* Gives the host's allocator, starting its place if need be, or says why a place is none. */
static dao_status_t host_find(dao_place_t place, dao_allocator_t **out_allocator)
{
    dao_core_t *core;
    dao_status_t status = dao_place_enter(place, &core);
    if (status != DAO_OK) {
        return status;
    }
    *out_allocator = atomic_load_explicit(&core->host_memory, memory_order_acquire);
    return *out_allocator != NULL ? DAO_OK : dao_core_host_start(core, out_allocator);
}

/* Gives a place's allocator, starting the place if need be. */
static inline dao_status_t allocator_find(dao_place_t place, dao_allocator_t **out_allocator,
                                          dao_runtime_t **out_runtime)
{
    *out_runtime = NULL;
    if (dao_watch_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    if (place.kind == DAO_PLACE_KIND_PINNED || place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_runtime_t *runtime = dao_runtime_started(place.index);
        if (runtime == NULL) {

            dao_status_t status = dao_runtime_borrow(place.index, &runtime);
            if (status != DAO_OK) {
                return status;
            }
        }
        *out_runtime = runtime;
        *out_allocator =
            place.kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
        return DAO_OK;
    }
    return host_find(place, out_allocator);
}

/* allocator_peek() where the place was not used yet, and for the host. */
static dao_status_t allocator_peek_slow(dao_place_t place, dao_allocator_t **out_allocator,
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

/* As allocator_find(), but a place that was not used yet is left alone: *out_allocator is NULL then. */
static inline dao_status_t allocator_peek(dao_place_t place, dao_allocator_t **out_allocator,
                                          dao_runtime_t **out_runtime)
{
    if (dao_watch_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    if (place.kind == DAO_PLACE_KIND_PINNED || place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_runtime_t *runtime = dao_runtime_started(place.index);
        if (runtime != NULL) {

            *out_runtime = runtime;
            *out_allocator =
                place.kind == DAO_PLACE_KIND_PINNED ? runtime->pinned_memory : runtime->device_memory;
            return DAO_OK;
        }
    }
    return allocator_peek_slow(place, out_allocator, out_runtime);
}

dao_status_t dao_place_allocator(dao_place_t place, bool starts, dao_allocator_t **out_allocator,
                                 dao_runtime_t **out_runtime)
{
    return starts ? allocator_find(place, out_allocator, out_runtime)
                  : allocator_peek(place, out_allocator, out_runtime);
}

/* ---- alloc ---- */

static DAO_ON_THE_PATH dao_status_t place_alloc(dao_place_t place, const dao_block_request_t *request,
                                                void **out_address, dao_runtime_t **out_runtime)
{
    dao_allocator_t *allocator;
    dao_status_t status = allocator_find(place, &allocator, out_runtime);
    if (status != DAO_OK) {
        return status;
    }
    if (request->size_bytes == 0) {
        *out_address = NULL;
        return DAO_OK;
    }
    if (*out_runtime != NULL) {
        if (dao_runtime_is_lost(*out_runtime) && place.kind == DAO_PLACE_KIND_DEVICE) {
            return dao_runtime_health(*out_runtime, "no memory");
        }
        dao_runtime_drain(*out_runtime);
    }
    dao_block_grant_t grant;
    dao_block_request_t leased;
    request = dao_lease_name(request, place, *out_runtime, &leased);
    status = allocator->ops->alloc(allocator, request, &grant);
    if (dao_allocator_is_short(status)) {
        dao_pressure_need_t need = {.place = place,
                                    .allocator = allocator,
                                    .runtime = *out_runtime,
                                    .request = request,
                                    .out_grant = &grant};
        status = dao_pressure_relieve(&need, status);
    }
    if (status == DAO_OK) {
        *out_address = grant.address;
    } else if (*out_runtime != NULL) {
        (void)dao_runtime_told(*out_runtime, status);
    }
    dao_events_note_alloc(place, request, *out_address, status);
    return status;
}

dao_status_t dao_place_alloc(dao_place_t place, size_t size_bytes, void **out_address,
                             dao_runtime_t **out_runtime)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = dao_tag_of_thread};
    return place_alloc(place, &request, out_address, out_runtime);
}

static DAO_ON_THE_PATH void *alloc_or_null(dao_place_t place, size_t size_bytes)
{
    dao_block_request_t request = {.size_bytes = size_bytes, .tag = dao_tag_of_thread};
    void *address = NULL;
    dao_runtime_t *runtime;
    return place_alloc(place, &request, &address, &runtime) == DAO_OK ? address : NULL;
}

void *dao_alloc(dao_place_t place, size_t size_bytes)
{
    return alloc_or_null(place, size_bytes);
}

void *dao_alloc_cpu(dao_cpu_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_cpu(place), size_bytes);
}

void *dao_alloc_pinned(dao_pinned_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_pinned(place), size_bytes);
}

static DAO_OFF_THE_PATH void *alloc_device_slow(dao_device_place_t place, size_t size_bytes)
{
    return alloc_or_null(dao_place_from_device(place), size_bytes);
}

/* The shortest way, for the place that is asked most; it ends with alloc_fallback(). */
void *dao_alloc_device(dao_device_place_t place, size_t size_bytes)
{
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    if (runtime == NULL || dao_tag_of_thread != 0 || dao_slow_path_is_needed()) {
        return alloc_device_slow(place, size_bytes);
    }
    return runtime->device_memory->ops->alloc_fast(runtime->device_memory, size_bytes);
}

static dao_status_t options_check(const dao_alloc_options_t *options)
{
    if ((options->alignment_bytes & (options->alignment_bytes - 1)) != 0) {
        return dao_error(DAO_ERR_INVALID, "dao_alloc_with: an alignment of %zu bytes is no power of two",
                         options->alignment_bytes);
    }
    return options->tag == 0 ? DAO_OK : dao_tag_check("dao_alloc_with", options->tag);
}

void *dao_alloc_with(dao_place_t place, size_t size_bytes, const dao_alloc_options_t *options)
{
    static const dao_alloc_options_t defaults;
    options = options != NULL ? options : &defaults;
    if (options_check(options) != DAO_OK) {
        return NULL;
    }
    dao_block_request_t request = {.size_bytes = size_bytes,
                                   .alignment_bytes = options->alignment_bytes,
                                   .tag = options->tag != 0 ? options->tag : dao_tag_of_thread};
    void *address = NULL;
    dao_runtime_t *runtime;
    return place_alloc(place, &request, &address, &runtime) == DAO_OK ? address : NULL;
}

/* ---- free ---- */

/* Tells whether a place that was used already has a live block at an address. */
static bool place_owns(const dao_core_t *core, dao_place_t place, const void *address)
{
    dao_allocator_t *allocator = atomic_load(&core->host_memory);
    if (place.kind != DAO_PLACE_KIND_CPU) {
        dao_runtime_t *runtime = dao_runtime_started(place.index);
        if (runtime == NULL) {
            return false;
        }
        allocator = dao_runtime_allocator(runtime, place.kind);
    }
    dao_block_t block;
    return allocator != NULL && allocator->ops->query(allocator, address, &block) == DAO_OK;
}

/* Looks for another place than the one that was named, to which an address belongs. */
static bool owner_find(const dao_core_t *core, dao_place_t named, const void *address, dao_place_t *out_place)
{
    static const dao_place_kind_t kinds[] = {DAO_PLACE_KIND_CPU, DAO_PLACE_KIND_DEVICE,
                                             DAO_PLACE_KIND_PINNED};
    for (int i = 0; i < 3; i++) {
        int32_t count = kinds[i] == DAO_PLACE_KIND_CPU ? 1 : core->device_count;
        for (int32_t index = 0; index < count; index++) {
            *out_place = (dao_place_t){kinds[i], index};
            if (!dao_place_equal(*out_place, named) && place_owns(core, *out_place, address)) {
                return true;
            }
        }
    }
    return false;
}

dao_status_t dao_free_error(const char *function, dao_place_t place, const void *address, dao_status_t status)
{
    if (status != DAO_ERR_FOREIGN_POINTER && status != DAO_ERR_DOUBLE_FREE && status != DAO_ERR_NO_DEVICE) {
        return status; /* it is not elsewhere */
    }
    dao_core_t *core;
    dao_error_record_t record;
    dao_error_save(&record, status);
    dao_place_t owner;
    if (dao_context_enter(&core) == DAO_OK && owner_find(core, place, address, &owner)) {
        char named_text[DAO_PLACE_TEXT_BYTES];
        char owner_text[DAO_PLACE_TEXT_BYTES];
        return dao_error(DAO_ERR_WRONG_PLACE, "%s: %p was given for %s but belongs to %s; nothing was freed",
                         function, address, dao_place_format(place, named_text),
                         dao_place_format(owner, owner_text));
    }
    return dao_error_restore(&record);
}

static DAO_ON_THE_PATH dao_status_t free_at(dao_place_t place, void *address)
{
    if (address == NULL) {
        return DAO_OK;
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = allocator_peek(place, &allocator, &runtime);
    if (status == DAO_OK && allocator != NULL) {
        if (runtime != NULL) {
            dao_runtime_drain(runtime);
        }
        if (runtime == NULL || !dao_lease_retires(runtime, place.kind, address, NULL, &status)) {
            status = dao_events_are_on() ? dao_events_free(allocator, place, address)
                                         : dao_allocator_free(allocator, address);
        }
        dao_pressure_note_free();
    } else if (status == DAO_OK) {
        char text[DAO_PLACE_TEXT_BYTES];
        status =
            dao_error(DAO_ERR_FOREIGN_POINTER, "dao_free: %p was not handed out at %s, which was never used",
                      address, dao_place_format(place, text));
    }
    return status == DAO_OK ? DAO_OK : dao_free_error("dao_free", place, address, status);
}

dao_status_t dao_free(dao_place_t place, void *address)
{
    return free_at(place, address);
}

dao_status_t dao_free_cpu(dao_cpu_place_t place, void *address)
{
    return free_at(dao_place_from_cpu(place), address);
}

dao_status_t dao_free_pinned(dao_pinned_place_t place, void *address)
{
    return free_at(dao_place_from_pinned(place), address);
}

static DAO_OFF_THE_PATH dao_status_t free_device_slow(dao_device_place_t place, void *address)
{
    return free_at(dao_place_from_device(place), address);
}

/* The shortest way, as in dao_alloc_device(); it is free_fast that looks at the slow path. */
dao_status_t dao_free_device(dao_device_place_t place, void *address)
{
    dao_runtime_t *runtime = dao_runtime_started(place.index);
    return runtime != NULL ? runtime->device_memory->ops->free_fast(runtime->device_memory, address)
                           : free_device_slow(place, address);
}

/* ---- where the shortest ways end ---- */

static void *alloc_fallback(void *user, size_t size_bytes)
{
    const dao_runtime_t *runtime = user;
    return alloc_device_slow(dao_device_place(runtime->device_index), size_bytes);
}

static dao_status_t free_fallback(void *user, void *address)
{
    const dao_runtime_t *runtime = user;
    return free_device_slow(dao_device_place(runtime->device_index), address);
}

void dao_alloc_fallback_set(dao_runtime_t *runtime)
{
    runtime->device_memory->fallback =
        (dao_fallback_t){.alloc = alloc_fallback, .free = free_fallback, .user = runtime};
}

/* ---- what a place holds ---- */

void dao_place_drain(dao_place_t place, dao_runtime_t *runtime)
{
    if (runtime != NULL) {
        dao_runtime_drain(runtime);
        if (place.kind == DAO_PLACE_KIND_PINNED) {
            dao_pinned_drain(runtime->pinned_memory);
        }
    }
}

dao_status_t dao_place_peek(dao_place_t place, dao_allocator_t **out_allocator)
{
    dao_runtime_t *runtime;
    dao_status_t status = allocator_peek(place, out_allocator, &runtime);
    if (status == DAO_OK && *out_allocator != NULL) {
        dao_place_drain(place, runtime);
    }
    return status;
}

dao_status_t dao_stats_get(dao_place_t place, dao_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_stats_get: out_stats is NULL");
    }
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = allocator_peek(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_stats_t stats = {0};
    if (allocator != NULL) {
        dao_place_drain(place, runtime);
        uint64_t cured_count =
            atomic_load(&allocator->ledger->cured_count); /* first: it is not above failed_count */
        allocator->ops->stats_get(allocator, &stats);
        stats.failed_count -= cured_count;
        stats.deferred_count += runtime != NULL ? dao_runtime_deferred_count(runtime, place.kind) : 0;
    }
    if (runtime != NULL && place.kind == DAO_PLACE_KIND_DEVICE) {
        dao_shares_count(&runtime->shares, &stats.shared_bytes, &stats.imported_bytes);
    }
    *out_stats = stats;
    return DAO_OK;
}

dao_status_t dao_stats_reset_peaks(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    dao_status_t status = allocator_peek(place, &allocator, &runtime);
    if (status == DAO_OK && allocator != NULL) {
        dao_place_drain(place, runtime);
        allocator->ops->stats_reset_peaks(allocator);
    }
    return status;
}

static size_t used_at(dao_place_t place)
{
    dao_allocator_t *allocator;
    dao_runtime_t *runtime;
    if (allocator_peek(place, &allocator, &runtime) != DAO_OK || allocator == NULL) {
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
    dao_status_t status = allocator_peek(place, &allocator, &runtime);
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
    dao_status_t status = allocator_find(place, &allocator, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_place_drain(place, runtime);
    status = allocator->ops->limit_set(allocator, limit_bytes);
    if (status == DAO_ERR_LIMIT && runtime != NULL && dao_runtime_wait_frees(runtime, place.kind)) {
        status = allocator->ops->limit_set(allocator, limit_bytes); /* such frees are no live blocks */
    }
    dao_pressure_note_free();
    return status;
}
