/* SPDX-License-Identifier: Apache-2.0 */
/* Several copies by one call, available from CUDA 12.8 on. */
#ifndef DAO_BACKENDS_CUDA_BATCH_H
#define DAO_BACKENDS_CUDA_BATCH_H

#include <cuda_runtime_api.h>

#include <stddef.h>

/* Queues copies that may run in any order. cudaErrorNotSupported if the toolkit or driver is older, or for
   the default stream, which the call refuses; nothing is queued then. */
cudaError_t dao_cuda_copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                cudaStream_t stream);

#endif
