/* SPDX-License-Identifier: Apache-2.0 */
/* Between the host and the file: which tensors leave pinned host memory when that is full, and how bytes
   come back. */
#ifndef DAO_RUNTIME_EXECUTOR_FILE_COPY_H
#define DAO_RUNTIME_EXECUTOR_FILE_COPY_H

#include "runtime/executor/core/engine_state.h"

/* Host memory that can be had at once (free, or with its bytes in the file): below the first share of the
   limit writes begin, up to the second one. */
#define DAO_FILE_COPY_LOW_PERCENT  10u
#define DAO_FILE_COPY_HIGH_PERCENT 20u

/* Bytes whose transfer would take as long as an operation of the file costs beside its bytes. */
#define DAO_FILE_COPY_OPERATION_BYTES ((uint64_t)256 << 10)

/* Makes room on the host, by one move: a copy is given up that is somewhere else too, a write to the file is
   begun, or one is waited for. False if there is nothing left to do. An error means that the device has to be
   given up. */
DAO_NODISCARD dao_status_t dao_file_copy_make_room(dao_engine_t *engine, uint64_t size_bytes,
                                                   bool *out_has_moved);

/* Begins writes as long as little host memory can be had at once. What fails is left to
   dao_file_copy_make_room(). */
void dao_file_copy_ahead(dao_engine_t *engine);

/* Looks at operations that have finished. */
void dao_file_copy_settle(dao_engine_t *engine);

/* Stops the file tier and gives up its operations, finished or not. Nothing is queued any more; allows an
   engine without a file tier. */
void dao_file_copy_close(dao_engine_t *engine);

/* DEVICE -> FILE, through the pinned pieces, where the host has no room for a slot; the host waits until the
   bytes are written. DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED: nothing has changed. */
DAO_NODISCARD dao_status_t dao_file_copy_evict(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE, which stays: queues copies to the pinned pieces and writes, for a plan. The copy is WRITING;
   what fails is noted, and leaves it NONE. */
void dao_file_copy_save(dao_engine_t *engine, dao_managed_t *tensor);

/* Waits for the writes of a copy that is WRITING: it is VALID then, or NONE if one has failed. An error means
   that the device has been given up. */
DAO_NODISCARD dao_status_t dao_file_copy_await(dao_engine_t *engine, dao_managed_t *tensor);

/* FILE with a part -> DEVICE: queues reads into the pinned pieces and copies to the device.
   DAO_ERR_COPY_FAILED: nothing has changed. A read that fails is seen by dao_file_copy_verify(). */
DAO_NODISCARD dao_status_t dao_file_copy_fetch(dao_engine_t *engine, dao_managed_t *tensor);

/* Waits until the bytes of a part that come from the file were read; a read that has failed is tried once
   more. DAO_ERR_IO, DAO_ERR_COPY_FAILED: they could not be; the part is given up, and the tensor FILE
   again. */
DAO_NODISCARD dao_status_t dao_file_copy_verify(dao_engine_t *engine, dao_managed_t *tensor);

/* Copies bytes of a tensor that is FILE to the host's memory and waits for it. DAO_ERR_IO. */
DAO_NODISCARD dao_status_t dao_file_copy_read(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                              void *destination);

/* A tensor has come to the device: a file that is full may give up its copy, so that writes are tried
   again. */
void dao_file_copy_came(dao_engine_t *engine, const dao_managed_t *tensor);

/* Gives up the file's copy. */
void dao_file_copy_forget(dao_engine_t *engine, dao_managed_t *tensor);

bool dao_file_copy_is_valid(const dao_engine_t *engine);

#endif
