/* Which capture a stream is a part of: the question, which had other arguments before CUDA 13. */
#ifndef DAO_BACKENDS_CUDA_CAPTURE_H
#define DAO_BACKENDS_CUDA_CAPTURE_H

#include <cuda_runtime_api.h>
#include <stdint.h>

/* Gives the number of the capture; 0: none; DAO_CAPTURE_UNKNOWN: one that has failed, or, asked for the default stream, that of
   any other stream which waits for it. Does the capture no harm. */
cudaError_t dao_cuda_stream_capture(cudaStream_t stream, uint64_t *out_capture);

#endif
