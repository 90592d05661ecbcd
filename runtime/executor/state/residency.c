/* SPDX-License-Identifier: Apache-2.0 */
/* Where a tensor's bytes are, and how that changes.

                        discard (from anywhere)
             +------------------------------------------------+
             v                                                |
         +-------+  land, written / zero      +--------+      |
         | EMPTY |--------------------------->| DEVICE |------+
         +-------+                            +--------+
             |                     written  ^  |     ^ |
             | write (program)              |  |     | | evict, drop_device (the file has it)     +------+
             v                              |  |     | +----------------------------------------->| FILE |
         +-------+   evict (copy out)       |  |     |         fetch (copies in)                  +------+
         | HOST  |<----------------------------+     +----------------------------------------------|  ^
         |       |                          |        | drop_host, written                              |
         |       |                          |      +------+                                            |
         |       |------- fetch (copy in) ---------| BOTH |                                            |
         |       |<-- evict, drop_device (no copy) |      |                                            |
         +-------+                                 +------+                                            |
             +------------------------- drop_host (the file has it) -----------------------------------+

   State     authority   device part             host slot   file slot
   EMPTY     none        only while landing      none        none
   DEVICE    device      yes                     none        perhaps
   BOTH      host        yes, the same bytes     yes         perhaps
   HOST      host        only while landing      yes         perhaps
   FILE      file        only while landing      none        yes, valid (or the tensor's source)
   PARTIAL   both        yes, some bytes         yes         perhaps, if none is newer

   PARTIAL is between HOST and BOTH or DEVICE: the part has some of the bytes, and of these some are newer
   than the host's; partial.c has its transitions.

   A slot in the file holds the same bytes once its write was seen to succeed, see file_copy.c. A tensor is
   *landing* between the moment it gets a part of the arena and the moment something is queued that writes
   it. Order is kept by fences, not by waiting. A state names what holds once everything queued so far has
   run. Work that uses a copy first waits, on the device, for its fence:

     device_written  the copy in, the fill or the kernel that put the bytes there: readers wait for it
     device_busy     everything that uses the part: writers wait for it, and so does the part's next owner
     host_written    the copy out that fills the slot: copies in wait for it
     host_busy       everything that uses the slot: it is freed only behind this

   Invariant, between two transitions: a tensor has the copies of its state's row, no more and no fewer,
   but for a part that is landing; a part that is unverified belongs to DEVICE with a VALID copy in the
   file.

   A transition that copies changes nothing unless the copy was queued. The source of a copy is given up with
   the copy's own number on its fence, so that it is not overwritten before all bytes have arrived. */
#include "runtime/executor/state/residency.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/core/failure.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/state/plan_role.h"
#include "runtime/executor/state/victims.h"
#include "runtime/observe/annotate.h"

#include <string.h>

static const dao_fence_t no_fence;

static void *device_address(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    return dao_device_arena_at(&engine->arena, tensor->device_offset_bytes);
}

/* Queues a copy of all of a tensor's bytes between its part of the device and `host`. */
static dao_status_t queue_copy(dao_engine_t *engine, dao_stream_role_t role, const dao_fence_t *fence,
                               void *host, const dao_managed_t *tensor, uint64_t *out_sequence)
{
    return dao_residency_copy_part(engine, tensor, role, (dao_slice_t){0, tensor->size_bytes}, fence, host,
                                   out_sequence);
}

static dao_status_t fetch_from_host(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_fence_t fence = tensor->host_written;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
    uint64_t sequence = 0;
    dao_status_t status =
        queue_copy(engine, DAO_STREAM_ROLE_H2D, &fence, tensor->host_address, tensor, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    dao_fence_add(&tensor->device_written, DAO_STREAM_ROLE_H2D, sequence);
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_H2D, sequence);
    dao_fence_add(&tensor->host_busy, DAO_STREAM_ROLE_H2D, sequence);
    tensor->residency = DAO_RESIDENCY_BOTH;
    dao_file_copy_came(engine, tensor);
    engine->stats.fetch_count++;
    engine->stats.in_bytes += tensor->size_bytes;
    return DAO_OK;
}

dao_status_t dao_residency_fetch(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(dao_residency_is_landing(tensor));
    DAO_ASSERT(tensor->residency != DAO_RESIDENCY_EMPTY);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_status_t status = tensor->residency == DAO_RESIDENCY_FILE ? dao_file_copy_fetch(engine, tensor)
                                                                  : fetch_from_host(engine, tensor);
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_is_landing(tensor) == (status != DAO_OK));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return status;
}

dao_status_t dao_residency_zero(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_EMPTY);
    DAO_ASSERT(dao_residency_is_landing(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_fence_t fence = no_fence;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
    dao_status_t status = dao_engine_before(engine, DAO_STREAM_ROLE_COMPUTE, &fence);
    if (status != DAO_OK) {
        return status;
    }
    status = engine->config.ops->fill(engine->config.streams[DAO_STREAM_ROLE_COMPUTE],
                                      device_address(engine, tensor), 0, tensor->size_bytes);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\": filling it with zeros at its first touch: ", tensor->name);
        return status;
    }
    uint64_t sequence = 0;
    status = dao_timeline_after(&engine->timeline, DAO_STREAM_ROLE_COMPUTE, &sequence);
    dao_engine_lose_unless_ok(engine, status);
    if (status == DAO_OK) {
        dao_residency_written(engine, tensor, DAO_STREAM_ROLE_COMPUTE, sequence);
    }
    return status;
}

dao_status_t dao_residency_move(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes)
{
    dao_stream_role_t role = DAO_STREAM_ROLE_COMPUTE;
    dao_fence_t fence = tensor->device_written;
    uint64_t sequence = 0;
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE || tensor->residency == DAO_RESIDENCY_BOTH);
    DAO_ASSERT(offset_bytes + tensor->size_bytes <= tensor->device_offset_bytes ||
               tensor->device_offset_bytes + tensor->size_bytes <= offset_bytes); /* nor share they a page */
    dao_device_arena_fence(&engine->arena, offset_bytes, tensor->size_bytes, &fence);
    dao_status_t status = dao_engine_before(engine, role, &fence);
    if (status != DAO_OK) {
        return status;
    }
    status = engine->config.ops->copy(engine->config.streams[role], DAO_COPY_KIND_D2D,
                                      dao_device_arena_at(&engine->arena, offset_bytes),
                                      device_address(engine, tensor), tensor->size_bytes);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\": moving it on the device: ", tensor->name);
        return status;
    }
    status = dao_timeline_after(&engine->timeline, role, &sequence);
    if (status != DAO_OK) {
        dao_engine_fail(engine, status, true);
        return status;
    }
    dao_fence_add(&tensor->device_busy, role, sequence);
    dao_residency_give_device(engine, tensor);
    dao_residency_land(engine, tensor, offset_bytes);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_fence_add(&tensor->device_written, role, sequence);
    dao_fence_add(&tensor->device_busy, role, sequence);
    dao_victims_update(engine, tensor);
    return status;
}

dao_status_t dao_residency_take_slot(dao_engine_t *engine, size_t size_bytes, void **out_address)
{
    dao_host_tier_t *tier = &engine->host_tier;
    bool has_moved = true;
    dao_status_t status = DAO_ERR_HOST_FULL;
    while (status == DAO_ERR_HOST_FULL && has_moved) {
        status = dao_host_tier_take(tier, &engine->timeline, size_bytes, out_address);
        if (status == DAO_ERR_HOST_FULL && dao_host_tier_could_hold(tier, size_bytes)) {
            dao_error_record_t host_full;
            dao_error_save(&host_full, status);
            status = dao_file_copy_make_room(engine, size_bytes, &has_moved);
            status = status == DAO_OK ? dao_error_restore(&host_full) : status;
        } else {
            has_moved = false;
        }
    }
    if (status == DAO_ERR_HOST_FULL && engine->is_file_refusing) {
        (void)dao_error(status, "%.400s; %.400s", dao_last_message(), engine->file_refusal.message);
    } else if (status != DAO_OK && status != DAO_ERR_HOST_FULL) {
        dao_engine_fail(engine, status, true);
    }
    return status;
}

dao_status_t dao_residency_take_slot_of(dao_engine_t *engine, const dao_managed_t *tensor, void **out_address,
                                        dao_fence_t *out_busy)
{
    *out_busy = no_fence;
    *out_address = dao_plan_role_take_slot(tensor, out_busy);
    return *out_address != NULL ? DAO_OK : dao_residency_take_slot(engine, tensor->size_bytes, out_address);
}

void dao_residency_return_slot(dao_engine_t *engine, const dao_managed_t *tensor, void *address)
{
    if (!dao_plan_role_has_slot(tensor, address)) {
        (void)dao_host_tier_give(&engine->host_tier, &engine->timeline, address, tensor->size_bytes,
                                 &no_fence); /* idle: no wait */
    }
}

/* Copies a tensor out to a new slot; the device keeps its bytes. Where it is zero elsewhere, the host fills
   the idle slot itself. */
static dao_status_t copy_out(dao_engine_t *engine, dao_managed_t *tensor)
{
    void *address = NULL;
    dao_fence_t fence;
    DAO_ASSERT(tensor->host_address == NULL);
    DAO_ASSERT(tensor->has_device);
    dao_status_t status = dao_residency_take_slot_of(engine, tensor, &address, &fence);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" (%zu bytes) cannot leave the device: ", tensor->name,
                         tensor->size_bytes);
        return status;
    }
    bool is_short = tensor->is_zero_elsewhere && !dao_plan_role_has_slot(tensor, address);
    dao_slice_t slice = is_short ? tensor->device_changed : (dao_slice_t){0, tensor->size_bytes};
    uint64_t sequence = 0;
    dao_fence_join(&fence, &tensor->device_written);
    if (is_short) {
        dao_host_tier_zero_around(&engine->host_tier, address, tensor->size_bytes, slice);
    }
    if (!dao_slice_is_empty(slice)) {
        status = dao_residency_copy_part(engine, tensor, DAO_STREAM_ROLE_D2H, slice, &fence,
                                         (char *)address + slice.begin_bytes, &sequence);
    }
    if (status != DAO_OK) {
        dao_residency_return_slot(engine, tensor, address);
        return status;
    }
    dao_residency_take_host(engine, tensor, address);
    tensor->host_written = no_fence;
    dao_fence_add(&tensor->host_written, DAO_STREAM_ROLE_D2H, sequence);
    tensor->host_busy = tensor->host_written;
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_D2H, sequence);
    engine->stats.out_bytes += dao_slice_bytes(slice);
    return DAO_OK;
}

/* PARTIAL -> PARTIAL without changed bytes, or BOTH: queues their copy out. */
static dao_status_t save_changed(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_slice_t changed = tensor->device_changed;
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_PARTIAL);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    DAO_ASSERT(!dao_slice_is_empty(changed));
    dao_fence_t fence = tensor->device_written;
    dao_fence_join(&fence, &tensor->host_busy);
    uint64_t sequence = 0;
    dao_status_t status =
        dao_residency_copy_part(engine, tensor, DAO_STREAM_ROLE_D2H, changed, &fence,
                                (char *)tensor->host_address + changed.begin_bytes, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    dao_fence_add(&tensor->host_written, DAO_STREAM_ROLE_D2H, sequence);
    dao_fence_add(&tensor->host_busy, DAO_STREAM_ROLE_D2H, sequence);
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_D2H, sequence);
    tensor->device_changed = (dao_slice_t){0, 0};
    engine->stats.out_bytes += dao_slice_bytes(changed);
    bool is_whole = dao_slice_bytes(tensor->device_valid) == tensor->size_bytes;
    tensor->residency = is_whole ? DAO_RESIDENCY_BOTH : DAO_RESIDENCY_PARTIAL;
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_is_clean(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return DAO_OK;
}

dao_status_t dao_residency_save(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (tensor->residency == DAO_RESIDENCY_PARTIAL) {
        return save_changed(engine, tensor);
    }
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_status_t status = copy_out(engine, tensor);
    tensor->residency = status == DAO_OK ? DAO_RESIDENCY_BOTH : DAO_RESIDENCY_DEVICE;
    tensor->is_zero_elsewhere = tensor->is_zero_elsewhere && status != DAO_OK;
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return status;
}

/* Returns true if the file alone keeps a tensor that leaves the device: it has the bytes, and the host no
   room to spare, or it is the tensor's source. */
static bool is_left_to_file(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    return tensor->file_copy == DAO_FILE_COPY_VALID &&
           (tensor->source != NULL || tensor->is_unverified ||
            !dao_host_tier_has_spare(&engine->host_tier, tensor->size_bytes));
}

/* DEVICE or PARTIAL -> HOST, or FILE where the host does not take it. */
static dao_status_t evict_from_device(dao_engine_t *engine, dao_managed_t *tensor)
{
    bool is_partial = tensor->residency == DAO_RESIDENCY_PARTIAL;
    dao_status_t status = is_partial ? save_changed(engine, tensor) : copy_out(engine, tensor);
    if (is_partial && status == DAO_OK) {
        dao_residency_drop_device(engine, tensor);
    } else if (is_partial) {
        return status;
    } else if (status == DAO_OK) {
        tensor->residency = DAO_RESIDENCY_HOST;
        dao_residency_give_device(engine, tensor);
    } else if (status == DAO_ERR_HOST_FULL && dao_residency_is_clean(tensor)) {
        dao_residency_drop_device(engine, tensor);
        status = DAO_OK;
    } else if (status == DAO_ERR_HOST_FULL && engine->file_tier.has_slots) {
        status = dao_file_copy_evict(engine, tensor);
    }
    return status;
}

dao_status_t dao_residency_evict(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(dao_residency_is_on_device(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    DAO_ASSERT(!tensor->is_operand);
    DAO_ASSERT(!dao_access_is_dead(tensor)); /* it would have been discarded */
    bool is_on_host = tensor->residency == DAO_RESIDENCY_BOTH || tensor->residency == DAO_RESIDENCY_PARTIAL;
    if (is_on_host ? dao_residency_is_clean(tensor) : is_left_to_file(engine, tensor)) {
        dao_residency_drop_device(engine, tensor);
        engine->stats.clean_eviction_count++;
    } else {
        dao_status_t status = evict_from_device(engine, tensor);
        if (status != DAO_OK) {
            return status;
        }
    }
    engine->stats.eviction_count++;
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_HOST || tensor->residency == DAO_RESIDENCY_FILE);
    DAO_ASSERT(!tensor->has_device);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return DAO_OK;
}

void dao_residency_written(dao_engine_t *engine, dao_managed_t *tensor, dao_stream_role_t role,
                           uint64_t sequence)
{
    DAO_ASSERT(tensor->has_device);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    tensor->device_written = no_fence;
    dao_fence_add(&tensor->device_written, role, sequence);
    dao_fence_add(&tensor->device_busy, role, sequence);
    tensor->residency = DAO_RESIDENCY_DEVICE;
    tensor->is_zero_elsewhere = false;
    dao_file_copy_forget(engine, tensor);
    if (tensor->host_address != NULL) {
        dao_residency_give_host(engine, tensor);
    }
    dao_victims_update(engine, tensor);
    DAO_ASSERT(!dao_residency_is_clean(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

/* Gives up all copies. */
static void clear(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(!tensor->is_operand);
    tensor->residency = DAO_RESIDENCY_EMPTY;
    tensor->is_zero_elsewhere = false;
    dao_file_copy_forget(engine, tensor);
    if (tensor->has_device) {
        dao_residency_give_device(engine, tensor);
    }
    if (tensor->host_address != NULL) {
        dao_residency_give_host(engine, tensor);
    }
}

void dao_residency_discard(dao_engine_t *engine, dao_managed_t *tensor)
{
    clear(engine, tensor);
    dao_plan_role_unbind(tensor);
    DAO_ASSERT(!tensor->has_device);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
}

/* The host is full: the bytes go straight to the part that the tensor has, and the host waits for the
   copy. */
static dao_status_t write_to_device(dao_engine_t *engine, dao_managed_t *tensor, const void *source)
{
    DAO_ASSERT(tensor->host_address == NULL);
    dao_fence_t fence = tensor->device_busy;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &fence);
    uint64_t sequence = 0;
    dao_status_t status =
        queue_copy(engine, DAO_STREAM_ROLE_H2D, &fence, (void *)(uintptr_t)source, /* it is only read */
                   tensor, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    dao_file_copy_forget(engine, tensor);
    tensor->device_written = no_fence;
    dao_fence_add(&tensor->device_written, DAO_STREAM_ROLE_H2D, sequence);
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_H2D, sequence);
    tensor->residency = DAO_RESIDENCY_DEVICE;
    tensor->is_zero_elsewhere = false;
    dao_victims_update(engine, tensor);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    engine->stats.in_bytes += tensor->size_bytes;
    status = dao_timeline_wait(&engine->timeline, &tensor->device_written);
    dao_engine_lose_unless_ok(engine, status);
    return status;
}

/* The host is full, but for the tensor's own slot: once nothing uses that any more, the bytes go there. */
static dao_status_t write_in_place(dao_engine_t *engine, dao_managed_t *tensor, const void *source)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_BOTH || tensor->residency == DAO_RESIDENCY_PARTIAL ||
               tensor->residency == DAO_RESIDENCY_HOST);
    dao_status_t status = dao_timeline_wait(&engine->timeline, &tensor->host_busy);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" cannot be written: ", tensor->name);
        dao_engine_fail(engine, status, true);
        return status;
    }
    tensor->device_changed = (dao_slice_t){0, 0}; /* it is overwritten */
    if (tensor->residency != DAO_RESIDENCY_HOST) {
        dao_residency_drop_device(engine, tensor);
    }
    dao_file_copy_forget(engine, tensor);
    dao_host_tier_copy(&engine->host_tier, tensor->host_address, source, tensor->size_bytes);
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_HOST);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return DAO_OK;
}

/* A plan or a pin keeps the tensor on the device: the new bytes go to its place. */
static dao_status_t write_where_it_stays(dao_engine_t *engine, dao_managed_t *tensor, const void *source)
{
    DAO_ASSERT(tensor->residency != DAO_RESIDENCY_PARTIAL);
    if (tensor->residency == DAO_RESIDENCY_BOTH) {
        dao_residency_drop_host(engine, tensor);
    }
    return write_to_device(engine, tensor, source);
}

dao_status_t dao_residency_write(dao_engine_t *engine, dao_managed_t *tensor, const void *source)
{
    void *address = NULL;
    dao_fence_t busy;
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    bool stays = tensor->plan_role != NULL || tensor->pin.count > 0;
    if (stays && dao_residency_is_on_device(tensor)) {
        return write_where_it_stays(engine, tensor, source);
    }
    dao_status_t status = dao_residency_take_slot_of(engine, tensor, &address, &busy);
    if (status == DAO_OK) {
        status = dao_timeline_wait(&engine->timeline, &busy); /* an idle slot at once */
        dao_engine_lose_unless_ok(engine, status);
    }
    if (status == DAO_ERR_HOST_FULL && tensor->host_address != NULL) {
        return write_in_place(engine, tensor, source);
    }
    if (status == DAO_ERR_HOST_FULL && tensor->has_device) {
        return write_to_device(engine, tensor, source);
    }
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" (%zu bytes) cannot be written: ", tensor->name, tensor->size_bytes);
        return status;
    }
    dao_host_tier_copy(&engine->host_tier, address, source, tensor->size_bytes);
    clear(engine, tensor);
    dao_residency_take_host(engine, tensor, address);
    tensor->host_written = no_fence;
    tensor->host_busy = no_fence;
    tensor->residency = DAO_RESIDENCY_HOST;
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return DAO_OK;
}

/* Copies straight from the device to the program's memory. */
static dao_status_t read_from_device(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                     void *destination)
{
    uint64_t sequence = 0;
    dao_status_t status = dao_file_copy_verify(engine, tensor);
    if (status == DAO_OK) {
        status = dao_residency_copy_part(engine, tensor, DAO_STREAM_ROLE_D2H, slice, &tensor->device_written,
                                         destination, &sequence);
    }
    if (status != DAO_OK) {
        return status;
    }
    engine->stats.out_bytes += dao_slice_bytes(slice);
    dao_fence_add(&tensor->device_busy, DAO_STREAM_ROLE_D2H, sequence);
    dao_fence_t fence = no_fence;
    dao_fence_add(&fence, DAO_STREAM_ROLE_D2H, sequence);
    status = dao_timeline_wait(&engine->timeline, &fence);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" cannot be read: ", tensor->name);
    }
    dao_engine_lose_unless_ok(engine, status);
    return status;
}

/* Copies from the slot to the program's memory, once the bytes are there. */
static dao_status_t read_from_host(dao_engine_t *engine, const dao_managed_t *tensor, dao_slice_t slice,
                                   void *destination)
{
    dao_status_t status = dao_timeline_wait(&engine->timeline, &tensor->host_written);
    if (status != DAO_OK) {
        dao_error_prefix("tensor \"%s\" cannot be read: ", tensor->name);
    }
    dao_engine_lose_unless_ok(engine, status);
    if (status == DAO_OK) {
        dao_host_tier_copy(&engine->host_tier, destination,
                           (const char *)tensor->host_address + slice.begin_bytes, dao_slice_bytes(slice));
    }
    return status;
}

dao_status_t dao_residency_read(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                void *destination)
{
    dao_status_t status = DAO_OK;
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    DAO_ASSERT(slice.end_bytes <= tensor->size_bytes);
    switch (tensor->residency) {
    case DAO_RESIDENCY_EMPTY:
        if (!tensor->zero_first_touch) {
            return dao_error(DAO_ERR_NEVER_WRITTEN, "tensor \"%s\" is read, but nothing was written to it",
                             tensor->name);
        }
        memset(destination, 0, dao_slice_bytes(slice));
        return DAO_OK;
    case DAO_RESIDENCY_DEVICE:
        return read_from_device(engine, tensor, slice, destination);
    case DAO_RESIDENCY_PARTIAL:
        if (!dao_slice_is_empty(dao_slice_common(slice, tensor->device_changed))) {
            status = save_changed(engine, tensor);
        }
        return status == DAO_OK ? read_from_host(engine, tensor, slice, destination) : status;
    case DAO_RESIDENCY_BOTH:
    case DAO_RESIDENCY_HOST:
        return read_from_host(engine, tensor, slice, destination);
    case DAO_RESIDENCY_FILE:
        return dao_file_copy_read(engine, tensor, slice, destination);
    }
    return dao_error(DAO_ERR_CORRUPT, "tensor \"%s\" has no residency", tensor->name);
}

bool dao_residency_is_valid(const dao_managed_t *tensor)
{
    return dao_residency_has_its_copies(tensor) && (!dao_residency_is_landing(tensor) || tensor->is_operand);
}
