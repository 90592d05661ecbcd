/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's batches of copies: introduced with 12.8, one argument less since 13.0.
   tests/backends/test_cuda_batch.c compiles the form of 12.8 with any toolkit that has it. */
#include "backends/cuda/batch.h"

#ifndef DAO_CUDA_BATCH_VERSION
#define DAO_CUDA_BATCH_VERSION CUDART_VERSION
#endif

#define BATCH_VERSION          12080
#define BATCH_WITHOUT_FAIL_IDX 13000

#if DAO_CUDA_BATCH_VERSION >= BATCH_VERSION
cudaError_t dao_cuda_copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                cudaStream_t stream)
{
    struct cudaMemcpyAttributes attributes = {.srcAccessOrder = cudaMemcpySrcAccessOrderStream};
    size_t first_of_attributes = 0;
    if (stream == NULL || stream == cudaStreamLegacy) {
        return cudaErrorNotSupported;
    }
#if DAO_CUDA_BATCH_VERSION >= BATCH_WITHOUT_FAIL_IDX
    cudaError_t error =
        cudaMemcpyBatchAsync(dsts, srcs, sizes, count, &attributes, &first_of_attributes, 1, stream);
#else
    size_t failed_index = 0; /* the call only reads the arrays, though its arguments are not const */
    cudaError_t error = cudaMemcpyBatchAsync((void **)dsts, (void **)srcs, (size_t *)sizes, count,
                                             &attributes, &first_of_attributes, 1, &failed_index, stream);
#endif
    return error == cudaErrorCallRequiresNewerDriver ? cudaErrorNotSupported : error;
}
#else
cudaError_t dao_cuda_copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                                cudaStream_t stream)
{
    (void)dsts;
    (void)srcs;
    (void)sizes;
    (void)count;
    (void)stream;
    return cudaErrorNotSupported;
}
#endif
