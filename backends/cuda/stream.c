/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/stream.h"

#include "backends/cuda/entry.h"

#include <cuda.h>
#include <cudaTypedefs.h>

#define WAIT_VERSION 11070 /* of CUDA, since when every device can without being told to */

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

/* Called once a transfer of a file, so the entry is looked up each time. */
#if CUDART_VERSION >= WAIT_VERSION
cudaError_t dao_cuda_stream_wait_word(cudaStream_t stream, void *word, uint32_t value)
{
    PFN_cuStreamWaitValue32_v11070 wait =
        (PFN_cuStreamWaitValue32_v11070)(uintptr_t)dao_cuda_entry("cuStreamWaitValue32", WAIT_VERSION);
    return wait == NULL ? cudaErrorNotSupported
                        : (cudaError_t)wait(stream, (CUdeviceptr)(uintptr_t)word, value,
                                            CU_STREAM_WAIT_VALUE_GEQ); /* errors have the runtime's numbers */
}
#else
cudaError_t dao_cuda_stream_wait_word(cudaStream_t stream, void *word, uint32_t value)
{
    (void)stream;
    (void)word;
    (void)value;
    return cudaErrorNotSupported;
}
#endif
