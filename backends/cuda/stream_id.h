/* SPDX-License-Identifier: Apache-2.0 */
/* The number of a stream, by which a handle that was destroyed and made again is told from the one before. */
#ifndef DAO_BACKENDS_CUDA_STREAM_ID_H
#define DAO_BACKENDS_CUDA_STREAM_ID_H

#include <cuda_runtime_api.h>

/* As cudaStreamGetId(), which is of CUDA 12. *out_id is 0 with an older toolkit. */
cudaError_t dao_cuda_stream_id(cudaStream_t stream, unsigned long long *out_id);

#endif
