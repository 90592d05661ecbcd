/* SPDX-License-Identifier: Apache-2.0 */
/* The query for a stream's capture, whose arguments changed with CUDA 13. */
#ifndef DAO_BACKENDS_CUDA_CAPTURE_H
#define DAO_BACKENDS_CUDA_CAPTURE_H

#include <cuda_runtime_api.h>

/* As hipStreamGetCaptureInfo(). Does not disturb the capture. */
cudaError_t dao_cuda_stream_get_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                             unsigned long long *out_id);

#endif
