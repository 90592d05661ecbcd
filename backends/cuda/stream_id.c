/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/stream_id.h"

cudaError_t dao_cuda_stream_id(cudaStream_t stream, unsigned long long *out_id)
{
#if CUDART_VERSION >= 12000
    return cudaStreamGetId(stream, out_id);
#else
    (void)stream;
    *out_id = 0;
    return cudaSuccess;
#endif
}
