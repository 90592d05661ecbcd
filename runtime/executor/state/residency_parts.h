/* SPDX-License-Identifier: Apache-2.0 */
/* What a tensor holds of each memory, under the transitions of residency.h and file_copy.h. */
#ifndef DAO_RUNTIME_EXECUTOR_RESIDENCY_PARTS_H
#define DAO_RUNTIME_EXECUTOR_RESIDENCY_PARTS_H

#include "runtime/executor/core/engine_state.h"
#include "runtime/executor/records/tensor.h"

/* A copy over the host's link. */
typedef struct dao_copy {
    dao_stream_role_t role; /* H2D or D2H, or one of a file tier's DAO_TIMELINE_STAGE_* */
    bool is_in;             /* to the device */
    void *destination;
    const void *source;
    size_t size_bytes;
} dao_copy_t;

/* Queues a copy of a tensor's bytes, or of some of them, behind a fence and numbers it; without a tensor, one
   of nothing in particular that measures the link. A refused one is tried again; DAO_ERR_COPY_FAILED: then
   nothing was queued. Any other error: the device is given up. */
DAO_NODISCARD dao_status_t dao_residency_copy(dao_engine_t *engine, const dao_managed_t *tensor,
                                              const dao_copy_t *copy, const dao_fence_t *fence,
                                              uint64_t *out_sequence);

/* The same for some of its bytes, between its part of the device and `host`, where the first of them lies. */
DAO_NODISCARD dao_status_t dao_residency_copy_part(dao_engine_t *engine, const dao_managed_t *tensor,
                                                   dao_stream_role_t role, dao_slice_t slice,
                                                   const dao_fence_t *fence, void *host,
                                                   uint64_t *out_sequence);

/* Gives a tensor a part of the arena that was taken for it, to be written soon. */
void dao_residency_land(dao_engine_t *engine, dao_managed_t *tensor, uint64_t offset_bytes);

/* Takes that part away again from a tensor that nothing was written to. */
void dao_residency_unland(dao_engine_t *engine, dao_managed_t *tensor);

/* Notes that a tensor that was fetched early is used now, or has gone again. */
static inline void dao_residency_not_early(dao_engine_t *engine, dao_managed_t *tensor)
{
    engine->early_bytes -= tensor->is_early ? tensor->size_bytes : 0;
    tensor->is_early = false;
}

/* Gives the part back, behind all that uses it; the place is the plan's if one is followed. */
void dao_residency_give_device(dao_engine_t *engine, dao_managed_t *tensor);

/* Gives a tensor without a slot this one; or takes its slot away, back to its role in a plan or to the
   host tier. */
void dao_residency_take_host(dao_engine_t *engine, dao_managed_t *tensor, void *address);
void dao_residency_give_host(dao_engine_t *engine, dao_managed_t *tensor);

/* BOTH, or PARTIAL with all bytes on the device -> DEVICE, HOST with a valid copy in the file -> FILE: gives
 * up the host's copy. */
void dao_residency_drop_host(dao_engine_t *engine, dao_managed_t *tensor);

/* BOTH, or PARTIAL without changed bytes -> HOST, DEVICE with a valid copy in the file -> FILE: gives up the
   device's copy. */
void dao_residency_drop_device(dao_engine_t *engine, dao_managed_t *tensor);

/* Changes the state of the copy in the file. */
void dao_residency_set_file_copy(dao_engine_t *engine, dao_managed_t *tensor, dao_file_copy_t copy);

/* The tensor's share of engine->backed_bytes and engine->writing_bytes. */
uint64_t dao_residency_backed_bytes(const dao_managed_t *tensor);
uint64_t dao_residency_writing_bytes(const dao_managed_t *tensor);

/* The copies are those that residency.c lists for the state; a part of the arena may be landing. */
bool dao_residency_has_its_copies(const dao_managed_t *tensor);

/* Is on the device, with the same bytes elsewhere, too: leaving costs no copy. */
static inline bool dao_residency_is_clean(const dao_managed_t *tensor)
{
    return tensor->residency == DAO_RESIDENCY_BOTH ||
           (tensor->residency == DAO_RESIDENCY_PARTIAL && dao_slice_is_empty(tensor->device_changed)) ||
           (tensor->residency == DAO_RESIDENCY_DEVICE && tensor->file_copy == DAO_FILE_COPY_VALID);
}

/* Has bytes in its part of the arena. */
static inline bool dao_residency_is_on_device(const dao_managed_t *tensor)
{
    return tensor->residency == DAO_RESIDENCY_DEVICE || tensor->residency == DAO_RESIDENCY_BOTH ||
           tensor->residency == DAO_RESIDENCY_PARTIAL;
}

/* Holds a part of the arena that nothing was written to yet. */
bool dao_residency_is_landing(const dao_managed_t *tensor);

#endif
