/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/entry.h"

#include <cuda_runtime_api.h>
#include <stddef.h>

void *dao_cuda_entry(const char *name, unsigned version)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion(name, &entry, version, cudaEnableDefault, &result);
#else
    (void)version; /* the one of the toolkit */
    cudaError_t error = cudaGetDriverEntryPoint(name, &entry, cudaEnableDefault, &result);
#endif
    if (error != cudaSuccess || result != cudaDriverEntryPointSuccess) {
        (void)cudaGetLastError(); /* an old driver, which is no error */
        return NULL;
    }
    return entry;
}
