#include "tests/support/hold.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#define HOLD_VERSION 11070 /* of CUDA, which brought the call as it is now */

static void *entry_find(void)
{
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t error = cudaGetDriverEntryPointByVersion("cuStreamWaitValue32", &entry, HOLD_VERSION,
                                                         cudaEnableDefault, &result);
#else
    cudaError_t error = cudaGetDriverEntryPoint("cuStreamWaitValue32", &entry, cudaEnableDefault, &result);
#endif
    return error == cudaSuccess && result == cudaDriverEntryPointSuccess ? entry : NULL;
}

bool vendor_hold(int32_t device_index, void *native, const uint32_t *word)
{
    PFN_cuStreamWaitValue32_v11070 wait = (PFN_cuStreamWaitValue32_v11070)(uintptr_t)entry_find();
    int count = 0;
    return wait != NULL && cudaGetDeviceCount(&count) == cudaSuccess &&
           cudaSetDevice(device_index % count) == cudaSuccess &&
           wait((CUstream)native, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ) == CUDA_SUCCESS;
}
