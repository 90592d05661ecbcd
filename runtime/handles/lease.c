/* SPDX-License-Identifier: Apache-2.0 */
/* Leases as a program sees them: the capture and who allocates under a lease, and blocks from elsewhere that
   it retains. The arenas behind them are in allocators/paged/paged_lease.c, and what stands in for arenas
   elsewhere in allocators/layers/stream_ordered.c.

       begin --> capturing --commit--> kept --release--> ended
                     |                 |  ^
                     |            enter|  |leave
                     +-----cancel------|--|----------> ended

       state      allocates under it       ends by
       capturing  the thread that began    commit, cancel: that thread's
       kept       threads that entered     release, when all have left

   A thread lists the leases that it allocates under, at most one a device; an allocation reads their number
   alone while that is 0. A lease holds a reference to its runtime, so that a thread's list never names
   another start's by accident.

   Invariants, while the lock of runtime->retained is free: a capturing lease has an inside_count of 1.
   addresses[0 .. retained_count) are retained, each once, and retained_bytes is their sum. */
#include <dao/lease.h>

#include "allocators/layers/stream_ordered.h"
#include "allocators/paged/paged.h"
#include "allocators/slow_path.h"
#include "base/log.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"
#include "base/text/plural.h"
#include "runtime/core/handle.h"
#include "runtime/core/thread.h"
#include "runtime/core/waiters.h"
#include "runtime/device/block.h"
#include "runtime/observe/event_ring.h"
#include "runtime/place/lookup.h"

#include <inttypes.h>

static_assert(DAO_LEASE_COUNT_MAX == DAO_PAGED_LEASE_MAX, "the public limit is the allocators'");
static_assert(DAO_LEASE_COUNT_MAX == DAO_STREAM_ORDERED_LEASE_MAX, "the public limit is the allocators'");

/* Addresses of the first array; each following one is twice as large. */
#define FIRST_CAPACITY 32u

struct dao_lease {
    dao_handle_t handle;    /* one reference, until it ends */
    dao_runtime_t *runtime; /* a reference of its own */
    uint32_t number;        /* the allocator's */
    dao_live_t live;
    /* guarded by the lock of runtime->retained */
    bool is_capturing;
    uint32_t inside_count; /* threads that allocate under it */
    void **addresses;      /* what it retains */
    size_t retained_count;
    size_t capacity;
    uint64_t retained_bytes;
};

/* ---- what this thread allocates under ---- */

/* Checks whether this thread may begin or enter a lease on a device. */
static dao_status_t check_free_to_enter(const char *function, const dao_runtime_t *runtime)
{
    if (dao_thread_lease_find(runtime) != 0) {
        return dao_error(DAO_ERR_BUSY,
                         "%s: this thread allocates under a lease of device:%" PRId32
                         " already; end that first",
                         function, runtime->device_index);
    }
    if (dao_lease_count_of_thread == DAO_DEVICE_COUNT_MAX) {
        return dao_error(DAO_ERR_TOO_MANY, "%s: this thread allocates under %d leases; leave some", function,
                         DAO_DEVICE_COUNT_MAX);
    }
    return DAO_OK;
}

/* Takes over a stay that is not filled in yet. */
static void thread_enter(dao_lease_t *lease, dao_lease_stay_t *stay)
{
    dao_slow_path_begin(); /* the fast path of dao_alloc() does not look at leases */
    *stay = (dao_lease_stay_t){.lease = lease, .runtime = lease->runtime, .number = lease->number};
    dao_thread_lease_enter(stay);
    lease->inside_count++;
    DAO_ASSERT(!lease->is_capturing || lease->inside_count == 1);
}

static void thread_leave(dao_lease_t *lease)
{
    DAO_ASSERT(lease->inside_count > 0);
    DAO_ASSERT(!lease->is_capturing || lease->inside_count == 1);
    dao_host_free(dao_thread_lease_leave(lease));
    lease->inside_count--;
    dao_slow_path_end();
}

/* ---- begin ---- */

/* Finds the device that a lease is wanted on. */
static dao_status_t device_find(dao_place_t place, dao_runtime_t **out_runtime)
{
    dao_allocator_t *allocator;
    char text[DAO_PLACE_TEXT_BYTES];
    bool is_device = place.kind == DAO_PLACE_KIND_DEVICE;
    dao_status_t status = is_device ? dao_place_find(place, &allocator, out_runtime)
                                    : dao_place_peek(place, &allocator, out_runtime);
    if (status != DAO_OK) {
        return status;
    }
    if (!is_device) {
        return dao_error(DAO_ERR_UNSUPPORTED, "dao_lease_begin: %s has no leases; they need a device place",
                         dao_place_format(place, text));
    }
    return check_free_to_enter("dao_lease_begin", *out_runtime);
}

dao_status_t dao_lease_begin(dao_place_t place, dao_lease_t **out_lease)
{
    if (out_lease == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_lease_begin: out_lease is NULL");
    }
    dao_runtime_t *runtime;
    dao_status_t status = device_find(place, &runtime);
    if (status != DAO_OK) {
        return status;
    }
    dao_lease_t *lease = dao_host_calloc(1, sizeof(*lease));
    dao_lease_stay_t *stay = dao_host_calloc(1, sizeof(*stay));
    if (lease == NULL || stay == NULL) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_lease_begin: no host memory for a lease");
    } else {
        status = runtime->device_memory->ops->lease_begin(runtime->device_memory, &lease->number);
    }
    if (status != DAO_OK) {
        dao_host_free(stay);
        dao_host_free(lease);
        return status;
    }
    atomic_init(&lease->handle.reference_count, 1);
    lease->runtime = dao_runtime_retain(runtime);
    lease->is_capturing = true;
    lease->live = (dao_live_t){.noun = "lease", .place = place, .address = lease};
    dao_live_add(runtime->core, &lease->live);
    dao_mutex_lock(&runtime->retained.lock);
    thread_enter(lease, stay);
    dao_mutex_unlock(&runtime->retained.lock);
    *out_lease = lease;
    return DAO_OK;
}

/* ---- states ---- */

/* The invariants of the head. */
static bool is_valid_locked(const dao_lease_t *lease)
{
    uint64_t retained_bytes = 0;
    for (size_t i = 0; i < lease->retained_count; i++) {
        const dao_retained_block_t *block = dao_retained_find(&lease->runtime->retained, lease->addresses[i]);
        if (block == NULL) {
            return false;
        }
        retained_bytes += block->block_bytes;
    }
    return retained_bytes == lease->retained_bytes && (!lease->is_capturing || lease->inside_count == 1);
}

/* Checks a lease and takes its lock. */
static dao_status_t lease_lock(const char *function, dao_lease_t *lease)
{
    if (lease == NULL) {
        return dao_error(DAO_ERR_INVALID, "%s: lease is NULL", function);
    }
    if (dao_thread_check() != DAO_OK) {
        return DAO_ERR_REENTRANT;
    }
    if (atomic_load(&lease->handle.reference_count) == 0) {
        return dao_error(DAO_ERR_INVALID, "%s: the lease %p has ended", function, (void *)lease);
    }
    if (dao_core_is_forked(lease->runtime->core)) {
        return dao_error(DAO_ERR_FORKED, "%s: the lease began in the parent process", function);
    }
    dao_mutex_lock(&lease->runtime->retained.lock);
    DAO_ASSERT_HEAVY(is_valid_locked(lease));
    return DAO_OK;
}

static void lease_unlock(dao_lease_t *lease)
{
    DAO_ASSERT_HEAVY(is_valid_locked(lease));
    dao_mutex_unlock(&lease->runtime->retained.lock);
}

/* Ends this thread's use of a lease: of its capture, or what enter began. */
static dao_status_t leave_locked(const char *function, dao_lease_t *lease, bool from_capture)
{
    if (!dao_thread_is_inside(lease) || lease->is_capturing != from_capture) {
        return dao_error(DAO_ERR_INVALID, "%s: this thread %s the lease %p", function,
                         from_capture ? "does not capture" : "has not entered", (void *)lease);
    }
    thread_leave(lease);
    lease->is_capturing = false;
    return DAO_OK;
}

dao_status_t dao_lease_commit(dao_lease_t *lease)
{
    dao_status_t status = lease_lock("dao_lease_commit", lease);
    if (status == DAO_OK) {
        status = leave_locked("dao_lease_commit", lease, true);
        lease_unlock(lease);
    }
    return status;
}

dao_status_t dao_lease_leave(dao_lease_t *lease)
{
    dao_status_t status = lease_lock("dao_lease_leave", lease);
    if (status == DAO_OK) {
        status = leave_locked("dao_lease_leave", lease, false);
        lease_unlock(lease);
    }
    return status;
}

dao_status_t dao_lease_enter(dao_lease_t *lease)
{
    dao_status_t status = lease_lock("dao_lease_enter", lease);
    if (status != DAO_OK) {
        return status;
    }
    status = check_free_to_enter("dao_lease_enter", lease->runtime);
    if (status == DAO_OK && lease->is_capturing) {
        status = dao_error(DAO_ERR_BUSY, "dao_lease_enter: the lease %p is being captured", (void *)lease);
    }
    dao_lease_stay_t *stay = status == DAO_OK ? dao_host_calloc(1, sizeof(*stay)) : NULL;
    if (stay != NULL) {
        thread_enter(lease, stay);
    } else if (status == DAO_OK) {
        status = dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_lease_enter: no host memory");
    }
    lease_unlock(lease);
    return status;
}

/* ---- the end ---- */

/* Frees a block that its owner has freed and no lease retains any more. */
static dao_status_t retained_free(dao_runtime_t *runtime, dao_retained_block_t *block)
{
    dao_allocator_t *allocator = runtime->device_memory;
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, runtime->device_index};
    dao_freeing_t freeing = dao_events_free_begins(allocator, place, block->address);
    dao_status_t status =
        dao_stream_fence_is_empty(&block->fence)
            ? dao_allocator_free_owned(allocator, block->address, block->owner)
            : dao_block_free_fenced(runtime, allocator, block->address, &block->fence, block->owner);
    if (status == DAO_OK) {
        dao_events_note_freed(runtime->core, place, &freeing);
    }
    return status;
}

/* Lets go of all that a lease retains, and frees what its owners have freed; without the lock, since that may
   wait. DAO_ERR_REENTRANT if this thread must not, DAO_ERR_BUSY if a stream is being captured: the rest is
   retained still. */
static dao_status_t drop_all(dao_lease_t *lease)
{
    dao_retained_t *retained = &lease->runtime->retained;
    while (lease->retained_count > 0) {
        dao_retained_block_t block;
        dao_mutex_lock(&retained->lock);
        bool is_due = dao_retained_drop(retained, lease->addresses[lease->retained_count - 1], &block);
        dao_mutex_unlock(&retained->lock);
        dao_status_t status = is_due ? retained_free(lease->runtime, &block) : DAO_OK;
        bool stays = dao_stream_fence_must_wait_elsewhere(status);
        if (is_due) {
            dao_mutex_lock(&retained->lock);
            dao_retained_drop_end(retained, stays ? &block : NULL);
            dao_mutex_unlock(&retained->lock);
        }
        if (stays) {
            return status;
        }
        if (status != DAO_OK) { /* another thread freed it while it was being retained */
            dao_log(DAO_LOG_LEVEL_ERROR, "device:%" PRId32 ": a retained block could not be freed: %s",
                    lease->runtime->device_index, dao_last_message());
        }
        lease->retained_count--;
        lease->retained_bytes -= block.block_bytes;
    }
    return DAO_OK;
}

/* Ends a lease that no thread allocates under; releases the lock. */
static dao_status_t end_and_unlock(dao_lease_t *lease)
{
    dao_runtime_t *runtime = lease->runtime;
    bool is_last;
    dao_status_t status = dao_handle_release(&lease->handle, "lease", &is_last);
    DAO_ASSERT(status == DAO_OK && is_last && lease->inside_count == 0);
    dao_mutex_unlock(&runtime->retained.lock);
    status = drop_all(lease); /* nobody else uses the lease from here on */
    if (status != DAO_OK) {
        atomic_store(&lease->handle.reference_count, 1); /* it has not ended */
        return status;
    }
    runtime->device_memory->ops->lease_end(runtime->device_memory, lease->number);
    dao_live_remove(runtime->core, &lease->live);
    dao_host_free(lease->addresses);
    dao_handle_bury(&lease->handle);
    dao_waiters_note_free();
    dao_runtime_release(runtime);
    return DAO_OK;
}

dao_status_t dao_lease_cancel(dao_lease_t *lease)
{
    dao_status_t status = lease_lock("dao_lease_cancel", lease);
    if (status != DAO_OK) {
        return status;
    }
    status = leave_locked("dao_lease_cancel", lease, true);
    if (status != DAO_OK) {
        lease_unlock(lease);
        return status;
    }
    return end_and_unlock(lease);
}

dao_status_t dao_lease_release(dao_lease_t *lease)
{
    dao_status_t status = lease_lock("dao_lease_release", lease);
    if (status != DAO_OK) {
        return status;
    }
    if (lease->inside_count > 0) {
        status = dao_error(DAO_ERR_BUSY, "dao_lease_release: the lease %p %s, by %u thread%s", (void *)lease,
                           lease->is_capturing ? "is being captured" : "is entered", lease->inside_count,
                           dao_plural(lease->inside_count, "s"));
        lease_unlock(lease);
        return status;
    }
    return end_and_unlock(lease);
}

/* ---- retained blocks ---- */

static bool has_retained(const dao_lease_t *lease, const void *address)
{
    for (size_t i = 0; i < lease->retained_count; i++) {
        if (lease->addresses[i] == address) {
            return true;
        }
    }
    return false;
}

/* Makes room for one more address. */
static dao_status_t reserve(dao_lease_t *lease)
{
    if (lease->retained_count < lease->capacity) {
        return DAO_OK;
    }
    size_t capacity = lease->capacity == 0 ? FIRST_CAPACITY : lease->capacity * 2;
    void **addresses = dao_host_realloc(lease->addresses, capacity, sizeof(*addresses));
    if (addresses == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "dao_lease_retain: no host memory for one more block");
    }
    lease->addresses = addresses;
    lease->capacity = capacity;
    return DAO_OK;
}

/* Finds the live block that starts at an address and that its owner has not freed. */
static dao_status_t live_block_find(const dao_runtime_t *runtime, const void *address, dao_block_t *out_block)
{
    dao_allocator_t *allocator = runtime->device_memory;
    const dao_retained_block_t *retained = dao_retained_find(&runtime->retained, address);
    if (retained != NULL && retained->is_freed) {
        return dao_error(DAO_ERR_DOUBLE_FREE, "dao_lease_retain: %p was freed by its owner", address);
    }
    dao_status_t status = allocator->ops->query(allocator, address, out_block);
    if (status == DAO_OK && out_block->address != address) {
        return dao_error(DAO_ERR_INTERIOR_POINTER, "dao_lease_retain: %p lies inside the block %p", address,
                         out_block->address);
    }
    return status;
}

static dao_status_t retain_locked(dao_lease_t *lease, void *address)
{
    dao_retained_t *retained = &lease->runtime->retained;
    dao_block_t block;
    dao_status_t status = live_block_find(lease->runtime, address, &block);
    if (status != DAO_OK) {
        return status;
    }
    if (dao_retained_find(retained, address) != NULL && has_retained(lease, address)) {
        return DAO_OK;
    }
    status = reserve(lease);
    if (status == DAO_OK) {
        status = dao_retained_reserve(retained);
    }
    if (status == DAO_OK) {
        dao_retained_add(retained, address, block.block_bytes, block.owner);
        lease->addresses[lease->retained_count++] = address;
        lease->retained_bytes += block.block_bytes;
    }
    return status;
}

dao_status_t dao_lease_retain(dao_lease_t *lease, void *address)
{
    dao_status_t status = lease_lock("dao_lease_retain", lease);
    if (status == DAO_OK) {
        status = retain_locked(lease, address);
        lease_unlock(lease);
    }
    return status;
}

/* ---- blocks that are taken again ---- */

static dao_status_t resume_locked(dao_lease_t *lease, void *address, const dao_block_request_t *request)
{
    dao_allocator_t *allocator = lease->runtime->device_memory;
    if (allocator->ops->lease_resume == NULL) {
        return dao_error(DAO_ERR_UNSUPPORTED,
                         "dao_lease_resume: device:%" PRId32 " (%s) does not take blocks by address; that "
                         "needs page mapping and the caching strategy, not hardened",
                         lease->runtime->device_index, allocator->ops->name);
    }
    dao_block_grant_t grant;
    dao_status_t status = allocator->ops->lease_resume(allocator, address, request, &grant);
    DAO_ASSERT(status != DAO_OK || (grant.address == address && dao_stream_fence_is_empty(&grant.fence)));
    return status;
}

dao_status_t dao_lease_resume(dao_lease_t *lease, void *address, size_t size_bytes)
{
    if (address == NULL || size_bytes == 0) {
        return dao_error(DAO_ERR_INVALID, "dao_lease_resume: %zu bytes at %p are no block", size_bytes,
                         address);
    }
    dao_status_t status = lease_lock("dao_lease_resume", lease);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_request_t request = {
        .size_bytes = size_bytes, .tag = dao_tag_of_thread, .lease = lease->number};
    dao_place_t place = {DAO_PLACE_KIND_DEVICE, lease->runtime->device_index};
    status = resume_locked(lease, address, &request);
    lease_unlock(lease);
    dao_events_note_alloc(place, &request, status == DAO_OK ? address : NULL, status);
    return status;
}

/* ---- statistics ---- */

dao_status_t dao_lease_stats_get(dao_lease_t *lease, dao_lease_stats_t *out_stats)
{
    if (out_stats == NULL) {
        return dao_error(DAO_ERR_INVALID, "dao_lease_stats_get: out_stats is NULL");
    }
    dao_status_t status = lease_lock("dao_lease_stats_get", lease);
    if (status != DAO_OK) {
        return status;
    }
    dao_block_lease_stats_t blocks;
    dao_allocator_t *allocator = lease->runtime->device_memory;
    allocator->ops->lease_stats(allocator, lease->number, &blocks);
    *out_stats = (dao_lease_stats_t){.held_bytes = blocks.held_bytes,
                                     .used_bytes = blocks.used_bytes,
                                     .live_count = blocks.live_count,
                                     .retained_bytes = lease->retained_bytes,
                                     .retained_count = lease->retained_count};
    lease_unlock(lease);
    return DAO_OK;
}
