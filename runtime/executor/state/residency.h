/* SPDX-License-Identifier: Apache-2.0 */
/* The transitions of a tensor's residency. */
#ifndef DAO_RUNTIME_EXECUTOR_RESIDENCY_H
#define DAO_RUNTIME_EXECUTOR_RESIDENCY_H

#include "runtime/executor/engine.h"
#include "runtime/executor/state/tensor.h"

/* A copy over the host's link. */
typedef struct dao_copy {
    dao_stream_role_t role; /* H2D or D2H, or one of a file tier's DAO_TIMELINE_STAGE_* */
    bool is_in;             /* to the device */
    void *destination;
    const void *source;
    size_t size_bytes;
} dao_copy_t;

/* Queues a copy of a tensor's bytes, or of some of them, behind a fence and numbers it. A refused one is
   tried again; DAO_ERR_COPY_FAILED: then nothing was queued. Any other error: the device is given up. */
DAO_NODISCARD dao_status_t dao_residency_copy(dao_engine_t *engine, const dao_managed_t *tensor,
                                              const dao_copy_t *copy, const dao_fence_t *fence,
                                              uint64_t *out_sequence);

/* Gives a tensor a part of the arena that was taken for it, to be written soon. */
void dao_residency_land(dao_managed_t *tensor, uint64_t offset_bytes);

/* Takes that part away again from a tensor that nothing was written to. */
void dao_residency_unland(dao_engine_t *engine, dao_managed_t *tensor);

/* HOST with a part -> BOTH, FILE with a part -> DEVICE: queues the copies to the device. DAO_ERR_COPY_FAILED:
   nothing has changed. */
DAO_NODISCARD dao_status_t dao_residency_fetch(dao_engine_t *engine, dao_managed_t *tensor);

/* EMPTY with a part -> DEVICE: queues a fill with zeros. On an error nothing has changed. */
DAO_NODISCARD dao_status_t dao_residency_zero(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE or BOTH, as it was: moves to another part of the arena that was taken for it, which its own does not
   overlap. On an error nothing has changed. */
DAO_NODISCARD dao_status_t dao_residency_move(dao_engine_t *engine, dao_managed_t *tensor,
                                              uint64_t offset_bytes);

/* Takes a slot of the host tier, for which others may go on to the file. DAO_ERR_HOST_FULL; any other error
   comes from waiting for the device, which is given up. */
DAO_NODISCARD dao_status_t dao_residency_take_slot(dao_engine_t *engine, size_t size_bytes,
                                                   void **out_address);

/* DEVICE -> BOTH: queues the copy out. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_residency_save(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE or BOTH -> HOST or FILE: gives up the part, after queueing the copy that DEVICE needs, unless the
   file has the bytes and the host little room. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: nothing has changed.
   */
DAO_NODISCARD dao_status_t dao_residency_evict(dao_engine_t *engine, dao_managed_t *tensor);

/* Any with a part -> DEVICE: a kernel that was queued with this number writes the tensor. */
void dao_residency_written(dao_engine_t *engine, dao_managed_t *tensor, uint64_t compute_sequence);

/* BOTH -> DEVICE, HOST with a valid copy in the file -> FILE: gives up the host's copy. */
void dao_residency_drop_host(dao_engine_t *engine, dao_managed_t *tensor);

/* BOTH -> HOST, DEVICE with a valid copy in the file -> FILE: gives up the device's copy. */
void dao_residency_drop_device(dao_engine_t *engine, dao_managed_t *tensor);

/* Any -> EMPTY. */
void dao_residency_discard(dao_engine_t *engine, dao_managed_t *tensor);

/* Any -> HOST (or DEVICE, if the host is full and the tensor has a part): the program's bytes replace the
   content. */
DAO_NODISCARD dao_status_t dao_residency_write(dao_engine_t *engine, dao_managed_t *tensor,
                                               const void *source);

/* Copies the content to the program's memory and waits for it; changes nothing. */
DAO_NODISCARD dao_status_t dao_residency_read(dao_engine_t *engine, dao_managed_t *tensor, void *destination);

/* Is on the device, with the same bytes elsewhere, too: leaving costs no copy. */
bool dao_residency_is_clean(const dao_managed_t *tensor);

/* Holds a part of the arena that nothing was written to yet. */
bool dao_residency_is_landing(const dao_managed_t *tensor);

bool dao_residency_is_valid(const dao_managed_t *tensor);

#endif
