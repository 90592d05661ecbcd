/* SPDX-License-Identifier: Apache-2.0 */
/* A tensor's copy in the file, beside its residency.

                begin_write, evict            the write was seen to finish
         NONE ------------------------> WRITING ------------------------> VALID
           ^                               |  it has failed                 |
           +-------------------------------+--------------------------------+ written or discarded

       state     slot in the file   its bytes                               made by
       NONE      no                 -                                       dao_file_copy_forget()
       WRITING   yes                a write is queued, not seen to finish   begin_copy()
       VALID     yes                the same as the tensor's other copies   write_came(), with the last one

   Nothing is given up before the system has taken all bytes of a write. The host slot stays until
   dao_file_copy_make_room() needs it and the copy is VALID, so that a disk that is full, or refuses bytes,
   loses nothing. What the system loses after it took the bytes is not seen: the read then returns what
   there is. The way back is

         file --FILE_IN--> pinned piece --STAGE_IN--> device part

   piece by piece, each behind the events of the one before, and queued like any fetch. Before a kernel
   that reads the part is launched, the host waits for the reads and checks that they have succeeded, so
   that no kernel ever sees bytes that did not come.

   A tensor with a source is VALID as long as it has a content: its bytes come from the source by the same
   way, it has no slot, and leaves for nowhere else.

   The victim on the host has the greatest (distance of the next use) x (bytes freed) / (bytes to move, and
   a constant for the operation).

   Invariants: backed_bytes are the host slots of tensors whose copy is not NONE, writing_bytes of those
   where it is WRITING; a tensor that is FILE has a VALID copy; a part that is unverified belongs to a
   tensor that is DEVICE with a VALID copy. */
#include "runtime/executor/state/file_copy.h"
#include "runtime/executor/core/failure.h"

#include "base/report/assert.h"
#include "base/report/error.h"
#include "runtime/executor/records/access.h"
#include "runtime/executor/state/plan_role.h"
#include "runtime/executor/state/residency.h"

#include <inttypes.h>
#include <string.h>

static const dao_fence_t no_fence;

/* ---- operations ---- */

/* Queues an operation of this tensor's present version; DAO_ERR_COPY_FAILED if the stream refuses it, or if
   an earlier write of this version turns out to have failed. Other errors give the device up. */
static dao_status_t queue_operation(dao_engine_t *engine, dao_managed_t *tensor,
                                    dao_file_operation_t operation, const dao_fence_t *fence,
                                    uint64_t *out_sequence)
{
    operation.tensor = tensor;
    operation.version = tensor->file_version;
    dao_status_t status = dao_file_tier_before(&engine->file_tier, operation.direction, fence);
    if (status == DAO_OK) {
        dao_file_copy_settle(engine);
        status = tensor->file_version == operation.version
                     ? dao_file_tier_queue(&engine->file_tier, &operation, out_sequence)
                     : dao_error(DAO_ERR_COPY_FAILED,
                                 "an earlier part of tensor \"%s\" was not written to the file tier",
                                 tensor->name);
    }
    if (status == DAO_OK) {
        dao_managed_reference(tensor); /* until dao_file_copy_settle() takes the operation off */
        dao_fence_add(&tensor->file_busy, dao_file_tier_stream(operation.direction), *out_sequence);
        *(operation.direction == DAO_FILE_READ ? &engine->stats.file_in_bytes
                                               : &engine->stats.file_out_bytes) += operation.size_bytes;
    } else if (status != DAO_ERR_COPY_FAILED) {
        dao_engine_fail(engine, status, true);
    }
    return status;
}

/* From now on nothing is written until a slot is given back or a sync; the last message says why. */
static void refuse_writes(dao_engine_t *engine, const dao_managed_t *tensor, dao_status_t status)
{
    dao_error_prefix("the file tier in \"%.200s\" cannot take tensor \"%s\": ", engine->config.file.directory,
                     tensor->name);
    dao_error_save(&engine->file_refusal, status);
    engine->is_file_refusing = true;
    engine->stats.file_failure_count++;
}

static void write_came(dao_engine_t *engine, const dao_file_operation_t *operation)
{
    dao_managed_t *tensor = operation->tensor;
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_WRITING);
    if (operation->error != 0) {
        dao_file_copy_forget(engine, tensor);
        refuse_writes(engine, tensor,
                      dao_error(DAO_ERR_IO, "writing %zu bytes: %s", operation->size_bytes,
                                strerror(operation->error)));
    } else if (operation->is_last) {
        dao_residency_set_file_copy(engine, tensor, DAO_FILE_COPY_VALID);
    }
}

static void read_came(dao_engine_t *engine, const dao_file_operation_t *operation)
{
    dao_managed_t *tensor = operation->tensor;
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_VALID);
    if (operation->error != 0) {
        tensor->file_error = operation->error;
        engine->stats.file_failure_count++;
    } else if (operation->is_last && tensor->file_error == 0) {
        tensor->is_unverified = false;
    }
}

void dao_file_copy_settle(dao_engine_t *engine)
{
    for (int i = 0; engine->file_tier.is_there && i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_file_direction_t direction = (dao_file_direction_t)i;
        const dao_file_operation_t *operation = dao_file_tier_finished(&engine->file_tier, direction);
        while (operation != NULL) {
            bool is_current = operation->version == operation->tensor->file_version;
            if (is_current && direction == DAO_FILE_WRITE) {
                write_came(engine, operation);
            } else if (is_current) {
                read_came(engine, operation);
            }
            dao_managed_unreference(dao_file_tier_take_off(&engine->file_tier, direction));
            operation = dao_file_tier_finished(&engine->file_tier, direction);
        }
    }
}

void dao_file_copy_close(dao_engine_t *engine)
{
    dao_file_tier_stop(&engine->file_tier);
    for (int i = 0; engine->file_tier.is_there && i < DAO_FILE_DIRECTION_COUNT; i++) {
        dao_managed_t *tensor = dao_file_tier_give_up(&engine->file_tier, (dao_file_direction_t)i);
        while (tensor != NULL) {
            dao_managed_unreference(tensor);
            tensor = dao_file_tier_give_up(&engine->file_tier, (dao_file_direction_t)i);
        }
    }
}

/* ---- to the file ---- */

void dao_file_copy_forget(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (tensor->file_copy == DAO_FILE_COPY_NONE) {
        return;
    }
    dao_residency_set_file_copy(engine, tensor, DAO_FILE_COPY_NONE);
    tensor->file_version++;
    tensor->is_unverified = false;
    if (tensor->source != NULL) {
        return; /* it is dead: what is under way holds its record, and that the source */
    }
    dao_engine_lose_unless_ok(engine, dao_device_arena_give(&engine->file_tier.slots, &engine->timeline,
                                                            tensor->file_offset_bytes, tensor->size_bytes,
                                                            &tensor->file_busy));
    tensor->file_busy = no_fence;
    engine->is_file_refusing = false; /* there is room again */
    DAO_ASSERT(dao_residency_backed_bytes(tensor) == 0);
}

void dao_file_copy_came(dao_engine_t *engine, const dao_managed_t *tensor)
{
    if (tensor->file_copy != DAO_FILE_COPY_NONE && tensor->source == NULL &&
        engine->file_refusal.status == DAO_ERR_LIMIT) {
        engine->is_file_refusing = false;
    }
}

/* Takes a slot in a file that is full: tensors that the device has, too, give their copies up until it is
   there. Those of tensors that only the host has stay: with a copy they can leave the host at once. */
static dao_status_t take_spare_slot(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_fence_t fence = no_fence;
    dao_fence_add(&fence, DAO_TIMELINE_FILE_IN, engine->timeline.streams[DAO_TIMELINE_FILE_IN].issued);
    dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
    if (status != DAO_OK) {
        return status;
    }
    dao_file_copy_settle(engine); /* what has come from the file is verified */
    status = DAO_ERR_LIMIT;
    for (dao_managed_t *other = engine->table; status == DAO_ERR_LIMIT && other != NULL;
         other = other->table_next) {
        bool is_on_device =
            other->residency == DAO_RESIDENCY_DEVICE || other->residency == DAO_RESIDENCY_BOTH;
        if (is_on_device && other->source == NULL && other->file_copy == DAO_FILE_COPY_VALID &&
            !other->is_unverified) {
            dao_file_copy_forget(engine, other);
            status = dao_file_tier_take(&engine->file_tier, tensor->size_bytes, &tensor->file_offset_bytes);
        }
    }
    return status;
}

/* Takes a slot for a new copy, which is WRITING; `fence` gets what the slot has to wait for. */
static dao_status_t begin_copy(dao_engine_t *engine, dao_managed_t *tensor, dao_fence_t *fence)
{
    dao_device_arena_t *slots = &engine->file_tier.slots;
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_NONE);
    DAO_ASSERT(!tensor->is_unverified);
    dao_status_t status =
        dao_file_tier_take(&engine->file_tier, tensor->size_bytes, &tensor->file_offset_bytes);
    if (status == DAO_ERR_LIMIT) {
        status = take_spare_slot(engine, tensor);
    }
    if (status == DAO_OK) {
        dao_device_arena_fence(slots, tensor->file_offset_bytes, tensor->size_bytes, fence);
        tensor->file_version++;
        tensor->file_busy = no_fence;
        dao_residency_set_file_copy(engine, tensor, DAO_FILE_COPY_WRITING);
    }
    return status;
}

/* Queues the write of a host slot. What fails is noted: no more writes until a sync. */
static void begin_write(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->host_address != NULL);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_fence_t fence = tensor->host_written;
    dao_status_t status = begin_copy(engine, tensor, &fence);
    uint64_t sequence = 0;
    if (status == DAO_OK) {
        dao_file_operation_t operation = {.direction = DAO_FILE_WRITE,
                                          .offset_bytes = tensor->file_offset_bytes,
                                          .address = tensor->host_address,
                                          .size_bytes = tensor->size_bytes,
                                          .is_last = true};
        status = queue_operation(engine, tensor, operation, &fence, &sequence);
    }
    if (status != DAO_OK) {
        dao_file_copy_forget(engine, tensor);
        refuse_writes(engine, tensor, status);
        return;
    }
    dao_fence_add(&tensor->host_busy, DAO_TIMELINE_FILE_OUT, sequence);
    engine->stats.file_write_count++;
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_WRITING);
}

/* ---- victims on the host ---- */

/* Logical times until the next use, at least 1; beyond all known ones where none is known. */
static double distance(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    uint64_t next = dao_access_next_use(tensor);
    if (next != DAO_TIME_NEVER) {
        return (double)(next - engine->now) + 1;
    }
    return (double)(engine->next_time - engine->now) + 2 + (double)(engine->now - tensor->last_use_time);
}

static bool can_go_at_once(const dao_managed_t *tensor)
{
    return tensor->residency == DAO_RESIDENCY_BOTH || tensor->file_copy == DAO_FILE_COPY_VALID;
}

/* Bytes that have to be moved, over the file or in its stead, because a host slot is given up. */
static double bytes_to_move(const dao_managed_t *tensor)
{
    const dao_use_t *next = tensor->first_use;
    if (next != NULL && next->kind == DAO_USE_WRITE) {
        return can_go_at_once(tensor) ? 0 : (double)tensor->size_bytes;
    }
    return (double)tensor->size_bytes * (can_go_at_once(tensor) ? 1 : 2);
}

static double score_of(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    double size = (double)tensor->size_bytes;
    return distance(engine, tensor) * size / (bytes_to_move(tensor) + (double)DAO_FILE_COPY_OPERATION_BYTES);
}

/* What may be chosen. */
typedef enum choice { CHOICE_ANY, CHOICE_AT_ONCE, CHOICE_WRITE_AHEAD } choice_t;

static bool may_leave(const dao_engine_t *engine, const dao_managed_t *tensor, choice_t choice)
{
    if (tensor->host_address == NULL || dao_residency_is_landing(tensor) ||
        tensor->residency == DAO_RESIDENCY_PARTIAL || dao_plan_role_needs_slot(tensor)) {
        return false;
    }
    bool is_at_once = can_go_at_once(tensor);
    bool can_write = !is_at_once && tensor->file_copy == DAO_FILE_COPY_NONE;
    switch (choice) {
    case CHOICE_ANY:
        return is_at_once || can_write;
    case CHOICE_AT_ONCE:
        return is_at_once;
    case CHOICE_WRITE_AHEAD: /* and is not about to be fetched */
        return can_write && tensor->admitted_until <= engine->now;
    }
    return false;
}

static dao_managed_t *choose(const dao_engine_t *engine, choice_t choice)
{
    dao_managed_t *best = NULL;
    double best_score = 0;
    for (dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        if (may_leave(engine, tensor, choice)) {
            double score = score_of(engine, tensor);
            if (best == NULL || score > best_score) {
                best = tensor;
                best_score = score;
            }
        }
    }
    return best;
}

/* The host waits for the oldest write. */
static dao_status_t wait_for_write(dao_engine_t *engine)
{
    dao_fence_t fence = no_fence;
    dao_fence_add(&fence, DAO_TIMELINE_FILE_OUT, engine->file_tier.taken_off[DAO_FILE_WRITE] + 1);
    engine->timeline.throttle_count++;
    dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
    dao_engine_lose_unless_ok(engine, status);
    dao_file_copy_settle(engine);
    return status;
}

dao_status_t dao_file_copy_make_room(dao_engine_t *engine, uint64_t size_bytes, bool *out_has_moved)
{
    *out_has_moved = false;
    DAO_ASSERT_HEAVY(dao_file_copy_is_valid(engine));
    if (!engine->file_tier.has_slots) {
        return DAO_OK;
    }
    dao_managed_t *tensor = choose(engine, engine->is_file_refusing ? CHOICE_AT_ONCE : CHOICE_ANY);
    if (tensor != NULL && can_go_at_once(tensor)) {
        dao_residency_drop_host(engine, tensor);
        *out_has_moved = true;
        return DAO_OK;
    }
    if (tensor != NULL && engine->writing_bytes < size_bytes) {
        begin_write(engine, tensor);
        *out_has_moved = true;
        return engine->is_lost ? dao_error_restore(&engine->failure) : DAO_OK;
    }
    DAO_ASSERT(engine->writing_bytes <= engine->backed_bytes);
    if (engine->writing_bytes > 0) {
        *out_has_moved = true;
        return wait_for_write(engine);
    }
    return DAO_OK;
}

void dao_file_copy_ahead(dao_engine_t *engine)
{
    const dao_host_tier_t *host = &engine->host_tier;
    if (!engine->file_tier.has_slots || host->limit_bytes == 0 || engine->is_file_refusing ||
        engine->is_lost) {
        return;
    }
    uint64_t free_bytes = host->limit_bytes - host->used_bytes;
    if (free_bytes + engine->backed_bytes >= host->limit_bytes / 100 * DAO_FILE_COPY_LOW_PERCENT) {
        return;
    }
    while (free_bytes + engine->backed_bytes < host->limit_bytes / 100 * DAO_FILE_COPY_HIGH_PERCENT &&
           !engine->is_file_refusing) {
        dao_managed_t *tensor = choose(engine, CHOICE_WRITE_AHEAD);
        if (tensor == NULL) {
            return;
        }
        begin_write(engine, tensor);
    }
}

/* ---- through the pinned pieces ---- */

/* A part of a tensor in a pinned piece. */
typedef struct passage {
    dao_file_direction_t direction;
    uint32_t piece;
    uint64_t offset_bytes; /* in the tensor */
    size_t size_bytes;
    bool is_last;
} passage_t;

/* The next part after `done_bytes`, and the piece for it. */
static passage_t next_passage(dao_engine_t *engine, const dao_managed_t *tensor,
                              dao_file_direction_t direction, uint64_t done_bytes)
{
    dao_file_tier_t *tier = &engine->file_tier;
    DAO_ASSERT(done_bytes < tensor->size_bytes);
    uint64_t left = tensor->size_bytes - done_bytes;
    bool is_last = left <= tier->staging_bytes;
    uint32_t piece = tier->next_staging[direction];
    passage_t passage = {direction, piece, done_bytes, is_last ? left : tier->staging_bytes, is_last};
    tier->next_staging[direction] = (piece + 1) % DAO_FILE_STAGING_COUNT;
    return passage;
}

/* Where the part lies: at the piece's begin, or as far behind it as the source's reads want. */
static char *piece_of(const dao_engine_t *engine, const dao_managed_t *tensor, const passage_t *passage)
{
    const dao_source_t *source = tensor->source;
    return engine->file_tier.staging[passage->direction][passage->piece] +
           (source != NULL ? dao_source_phase(source, tensor->file_offset_bytes + passage->offset_bytes) : 0);
}

/* All that uses the piece. */
static dao_fence_t *piece_busy_of(dao_engine_t *engine, const passage_t *passage)
{
    return &engine->file_tier.staging_busy[passage->direction][passage->piece];
}

static dao_file_operation_t operation_of(const dao_engine_t *engine, const dao_managed_t *tensor,
                                         const passage_t *passage)
{
    return (dao_file_operation_t){.direction = passage->direction,
                                  .source = tensor->source,
                                  .offset_bytes = tensor->file_offset_bytes + passage->offset_bytes,
                                  .address = piece_of(engine, tensor, passage),
                                  .size_bytes = passage->size_bytes,
                                  .is_last = passage->is_last};
}

static dao_status_t copy_piece(dao_engine_t *engine, dao_managed_t *tensor, const passage_t *passage,
                               const dao_fence_t *fence, uint64_t *out_sequence)
{
    bool is_in = passage->direction == DAO_FILE_READ;
    char *device = dao_device_arena_at(&engine->arena, tensor->device_offset_bytes + passage->offset_bytes);
    char *piece = piece_of(engine, tensor, passage);
    dao_copy_t copy = {.role = dao_file_tier_staging_stream(passage->direction),
                       .is_in = is_in,
                       .destination = is_in ? device : piece,
                       .source = is_in ? piece : device,
                       .size_bytes = passage->size_bytes};
    dao_status_t status = dao_residency_copy(engine, tensor, &copy, fence, out_sequence);
    if (status == DAO_OK) {
        dao_fence_add(&tensor->device_busy, copy.role, *out_sequence);
        dao_fence_add(piece_busy_of(engine, passage), copy.role, *out_sequence);
    }
    return status;
}

/* Device -> piece -> file. */
static dao_status_t pass_out(dao_engine_t *engine, dao_managed_t *tensor, const passage_t *passage,
                             const dao_fence_t *slot_fence)
{
    dao_fence_t *piece_busy = piece_busy_of(engine, passage);
    dao_fence_t fence = *piece_busy;
    dao_fence_join(&fence, &tensor->device_written);
    uint64_t sequence = 0;
    dao_status_t status = copy_piece(engine, tensor, passage, &fence, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    fence = *slot_fence;
    dao_fence_add(&fence, DAO_TIMELINE_STAGE_OUT, sequence);
    status = queue_operation(engine, tensor, operation_of(engine, tensor, passage), &fence, &sequence);
    if (status == DAO_OK) {
        dao_fence_add(piece_busy, DAO_TIMELINE_FILE_OUT, sequence);
        engine->stats.out_bytes += passage->size_bytes;
    }
    return status;
}

/* File -> piece -> device. */
static dao_status_t pass_in(dao_engine_t *engine, dao_managed_t *tensor, const passage_t *passage,
                            const dao_fence_t *part_fence)
{
    dao_fence_t *piece_busy = piece_busy_of(engine, passage);
    dao_fence_t fence = *piece_busy;
    uint64_t sequence = 0;
    dao_status_t status =
        queue_operation(engine, tensor, operation_of(engine, tensor, passage), &fence, &sequence);
    if (status != DAO_OK) {
        return status;
    }
    dao_fence_add(piece_busy, DAO_TIMELINE_FILE_IN, sequence);
    fence = *part_fence;
    dao_fence_add(&fence, DAO_TIMELINE_FILE_IN, sequence);
    status = copy_piece(engine, tensor, passage, &fence, &sequence);
    if (status == DAO_OK) {
        dao_fence_add(&tensor->device_written, DAO_TIMELINE_STAGE_IN, sequence);
        engine->stats.in_bytes += passage->size_bytes;
    }
    return status;
}

/* Queues the way out of all bytes. The copy is WRITING, or NONE if that failed. */
static dao_status_t queue_way_out(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_fence_t slot_fence = no_fence;
    dao_status_t status = begin_copy(engine, tensor, &slot_fence);
    if (status != DAO_OK) {
        refuse_writes(engine, tensor, status);
        return status;
    }
    for (uint64_t done = 0; status == DAO_OK && done < tensor->size_bytes;) {
        passage_t passage = next_passage(engine, tensor, DAO_FILE_WRITE, done);
        status = pass_out(engine, tensor, &passage, &slot_fence);
        done += passage.size_bytes;
    }
    if (status != DAO_OK) {
        dao_file_copy_forget(engine, tensor);
    }
    return status;
}

dao_status_t dao_file_copy_await(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_fence_t fence = tensor->file_busy;
    engine->timeline.throttle_count++;
    dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
    dao_engine_lose_unless_ok(engine, status);
    dao_file_copy_settle(engine);
    DAO_ASSERT(status != DAO_OK || tensor->file_copy != DAO_FILE_COPY_WRITING);
    return status;
}

/* Writes the bytes out and waits. The tensor is DEVICE with a copy that is VALID, or NONE if that failed. */
static dao_status_t write_through(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_status_t status = queue_way_out(engine, tensor);
    return status == DAO_OK ? dao_file_copy_await(engine, tensor) : status;
}

void dao_file_copy_save(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE);
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_NONE);
    if (engine->file_tier.has_slots && !engine->is_file_refusing && queue_way_out(engine, tensor) == DAO_OK) {
        engine->stats.file_write_count++;
    }
}

static dao_status_t cannot_leave(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    return dao_error(DAO_ERR_HOST_FULL,
                     "tensor \"%s\" (%zu bytes) cannot leave the device: the host has no room, and %.600s",
                     tensor->name, tensor->size_bytes, engine->file_refusal.message);
}

dao_status_t dao_file_copy_evict(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_DEVICE);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    if (engine->is_file_refusing) {
        return cannot_leave(engine, tensor);
    }
    dao_file_copy_forget(
        engine, tensor); /* one that is still being written has the same bytes, but is not waited for here */
    dao_status_t status = write_through(engine, tensor);
    if (engine->is_lost) {
        return dao_error_restore(&engine->failure);
    }
    if (engine->is_file_refusing) {
        return cannot_leave(engine, tensor);
    }
    if (status != DAO_OK) {
        return status;
    }
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_VALID);
    engine->stats.file_write_count++;
    dao_residency_drop_device(engine, tensor);
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_FILE);
    return DAO_OK;
}

dao_status_t dao_file_copy_fetch(dao_engine_t *engine, dao_managed_t *tensor)
{
    DAO_ASSERT(tensor->residency == DAO_RESIDENCY_FILE);
    DAO_ASSERT(dao_residency_is_landing(tensor));
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_fence_t part_fence = no_fence;
    dao_device_arena_fence(&engine->arena, tensor->device_offset_bytes, tensor->size_bytes, &part_fence);
    dao_status_t status = DAO_OK;
    tensor->file_version++;
    tensor->file_error = 0;
    for (uint64_t done = 0; status == DAO_OK && done < tensor->size_bytes;) {
        passage_t passage = next_passage(engine, tensor, DAO_FILE_READ, done);
        status = pass_in(engine, tensor, &passage, &part_fence);
        done += passage.size_bytes;
    }
    if (status != DAO_OK) {
        return status;
    }
    tensor->is_unverified = true;
    tensor->residency = DAO_RESIDENCY_DEVICE;
    dao_file_copy_came(engine, tensor);
    engine->stats.fetch_count++;
    engine->stats.file_fetch_count++;
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return DAO_OK;
}

/* The message of reads that have failed. */
static dao_status_t cannot_come(const dao_engine_t *engine, const dao_managed_t *tensor)
{
    const dao_source_t *source = tensor->source;
    if (source == NULL) {
        return dao_error(DAO_ERR_IO,
                         "tensor \"%s\": reading its %zu bytes back from the file tier in \"%.200s\" failed: "
                         "%s; it cannot be used until they can be read, or it is written anew",
                         tensor->name, tensor->size_bytes, engine->config.file.directory,
                         strerror(tensor->file_error));
    }
    return dao_error(DAO_ERR_IO,
                     "tensor \"%s\": reading its %zu bytes from byte %" PRIu64
                     " of \"%.400s\" on failed: %s; the source had %" PRIu64 " bytes and has %" PRIu64
                     "; it can be used once they can be read",
                     tensor->name, tensor->size_bytes, tensor->file_offset_bytes, dao_source_name(source),
                     strerror(tensor->file_error), dao_source_size(source), dao_source_present_size(source));
}

/* Waits for the reads of a tensor. DAO_ERR_IO if one has failed. */
static dao_status_t wait_for_reads(dao_engine_t *engine, dao_managed_t *tensor)
{
    dao_fence_t fence = no_fence;
    dao_fence_add(&fence, DAO_TIMELINE_FILE_IN, dao_fence_number(&tensor->file_busy, DAO_TIMELINE_FILE_IN));
    dao_status_t status = dao_timeline_wait(&engine->timeline, &fence);
    dao_engine_lose_unless_ok(engine, status);
    dao_file_copy_settle(engine);
    tensor->is_unverified = false;
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_VALID);
    if (status != DAO_OK || tensor->file_error == 0) {
        return status;
    }
    return cannot_come(engine, tensor);
}

dao_status_t dao_file_copy_verify(dao_engine_t *engine, dao_managed_t *tensor)
{
    if (!tensor->is_unverified) {
        return DAO_OK;
    }
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    dao_status_t status = wait_for_reads(engine, tensor);
    if (status != DAO_ERR_IO) {
        return status;
    }
    tensor->residency = DAO_RESIDENCY_FILE; /* it was long ago, perhaps: once more, into the same part */
    status = dao_file_copy_fetch(engine, tensor);
    if (status != DAO_OK) {
        dao_residency_unland(engine, tensor);
        return status;
    }
    status = wait_for_reads(engine, tensor);
    if (status == DAO_ERR_IO) {
        dao_residency_drop_device(engine, tensor);
    }
    DAO_ASSERT(!tensor->is_unverified);
    DAO_ASSERT(dao_residency_has_its_copies(tensor));
    return status;
}

/* One try. */
static dao_status_t read_now(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                             void *destination)
{
    dao_file_operation_t operation = {.direction = DAO_FILE_READ,
                                      .source = tensor->source,
                                      .offset_bytes = tensor->file_offset_bytes + slice.begin_bytes,
                                      .address = destination,
                                      .size_bytes = dao_slice_bytes(slice),
                                      .is_last = true};
    uint64_t sequence = 0;
    tensor->file_version++;
    tensor->file_error = 0;
    dao_status_t status = queue_operation(engine, tensor, operation, &no_fence, &sequence);
    return status == DAO_OK ? wait_for_reads(engine, tensor) : status;
}

dao_status_t dao_file_copy_read(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                void *destination)
{
    DAO_ASSERT(tensor->file_copy == DAO_FILE_COPY_VALID);
    dao_status_t status = read_now(engine, tensor, slice, destination);
    return status == DAO_ERR_IO ? read_now(engine, tensor, slice, destination) : status; /* as those of all */
}

bool dao_file_copy_is_valid(const dao_engine_t *engine)
{
    uint64_t backed = 0;
    uint64_t leaving = 0;
    uint64_t slot_bytes = 0;
    for (const dao_managed_t *tensor = engine->table; tensor != NULL; tensor = tensor->table_next) {
        backed += dao_residency_backed_bytes(tensor);
        leaving += dao_residency_writing_bytes(tensor);
        if (tensor->source != NULL &&
            (tensor->host_address != NULL || tensor->file_copy == DAO_FILE_COPY_WRITING)) {
            return false;
        }
        if (tensor->file_copy != DAO_FILE_COPY_NONE && tensor->source == NULL) {
            slot_bytes += dao_device_arena_part_bytes(tensor->size_bytes);
        }
        if (tensor->is_unverified &&
            (tensor->residency != DAO_RESIDENCY_DEVICE || tensor->file_copy != DAO_FILE_COPY_VALID)) {
            return false;
        }
    }
    return backed == engine->backed_bytes && leaving == engine->writing_bytes &&
           (!engine->file_tier.has_slots || slot_bytes == dao_range_used(engine->file_tier.slots.range)) &&
           dao_file_tier_is_valid(&engine->file_tier);
}
