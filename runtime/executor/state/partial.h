/* SPDX-License-Identifier: Apache-2.0 */
/* Transitions of tensors of which kernels use some bytes alone. */
#ifndef DAO_RUNTIME_EXECUTOR_PARTIAL_H
#define DAO_RUNTIME_EXECUTOR_PARTIAL_H

#include "runtime/executor/state/residency_parts.h"

/* HOST with a part -> PARTIAL or BOTH; PARTIAL -> the same: queues copies of what the use reads and the part
   lacks. DAO_ERR_COPY_FAILED: the tensor is PARTIAL then, or as it was. */
DAO_NODISCARD dao_status_t dao_partial_fetch(dao_engine_t *engine, dao_managed_t *tensor,
                                             const dao_use_t *use);

/* Bytes that dao_partial_fetch() would copy for a tensor that is HOST or PARTIAL. */
uint64_t dao_partial_missing_bytes(const dao_managed_t *tensor, const dao_use_t *use);

/* PARTIAL -> BOTH, or PARTIAL with all bytes on the device. DAO_ERR_COPY_FAILED. */
DAO_NODISCARD dao_status_t dao_partial_complete(dao_engine_t *engine, dao_managed_t *tensor);

/* EMPTY with a part -> DEVICE, as dao_residency_zero(), for a use that is partial. */
DAO_NODISCARD dao_status_t dao_partial_zero(dao_engine_t *engine, dao_managed_t *tensor);

/* DEVICE, BOTH or PARTIAL -> DEVICE or PARTIAL: what was queued on a stream with this number writes these
   bytes. */
void dao_partial_written(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                         dao_stream_role_t role, uint64_t sequence);

/* What a kernel queued that has failed may have written bytes of a tensor that is DEVICE or PARTIAL, and that
   only the device has: they count. `fence` is behind that work, which is waited for. */
void dao_partial_spoilt(dao_engine_t *engine, const dao_use_t *use, const dao_fence_t *fence);

/* Any -> the same, HOST, or DEVICE where the host is full and the tensor has a part: the program's bytes
   replace some. On an error the content is as it was. */
DAO_NODISCARD dao_status_t dao_partial_write(dao_engine_t *engine, dao_managed_t *tensor, dao_slice_t slice,
                                             const void *source);

#endif
