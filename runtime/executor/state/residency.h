/* SPDX-License-Identifier: Apache-2.0 */
/* The transitions of a tensor's residency. */
#ifndef DAO_RUNTIME_EXECUTOR_RESIDENCY_H
#define DAO_RUNTIME_EXECUTOR_RESIDENCY_H

#include "runtime/executor/state/residency_parts.h"

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

/* Takes a slot for a tensor: that of its role in a plan, which work up to `out_busy` still uses, or one as
   above. Return: gives it back unused. */
DAO_NODISCARD dao_status_t dao_residency_take_slot_of(dao_engine_t *engine, const dao_managed_t *tensor,
                                                      void **out_address, dao_fence_t *out_busy);
void dao_residency_return_slot(dao_engine_t *engine, const dao_managed_t *tensor, void *address);

/* DEVICE -> BOTH, PARTIAL with changed bytes -> without, or BOTH: queues the copy out. DAO_ERR_HOST_FULL,
 * DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_residency_save(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE, BOTH or PARTIAL -> HOST or FILE: gives up the part, after queueing the copy that it needs, unless
   the file has the bytes and the host little room. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: nothing has
   changed. */
DAO_NODISCARD dao_status_t dao_residency_evict(dao_engine_t *engine, dao_managed_t *tensor);

/* Any with a part -> DEVICE: a kernel that was queued with this number writes the tensor. */
void dao_residency_written(dao_engine_t *engine, dao_managed_t *tensor, dao_stream_role_t role,
                           uint64_t sequence);

/* Any -> EMPTY. */
void dao_residency_discard(dao_engine_t *engine, dao_managed_t *tensor);

/* Any -> HOST (or DEVICE, if the host is full and the tensor has a part, or it is to stay on the device): the
   program's bytes replace the content. One that stays is not PARTIAL. */
DAO_NODISCARD dao_status_t dao_residency_write(dao_engine_t *engine, dao_managed_t *tensor,
                                               const void *source);

/* Copies bytes to the program's memory and waits for it. PARTIAL may become BOTH; else nothing changes. */
DAO_NODISCARD dao_status_t dao_residency_read(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                              void *destination);

bool dao_residency_is_valid(const dao_managed_t *tensor);

#endif
