/* SPDX-License-Identifier: Apache-2.0 */
/* Which capture a stream is a part of: the question, which had other arguments before CUDA 13. */
#ifndef DAO_BACKENDS_CUDA_CAPTURE_H
#define DAO_BACKENDS_CUDA_CAPTURE_H

#include <cuda_runtime_api.h>

/* As hipStreamGetCaptureInfo(). Does the capture no harm. */
cudaError_t dao_cuda_stream_get_capture_info(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                             unsigned long long *out_id);

#endif
