/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/backends/hold.h"

#include "backends/cuda/context.h"
#include "backends/cuda/entry.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#define HOLD_VERSION 11070 /* of CUDA, which brought the call as it is now */

bool vendor_hold(int32_t device_index, void *native, const uint32_t *word)
{
    PFN_cuStreamWaitValue32_v11070 wait =
        (PFN_cuStreamWaitValue32_v11070)(uintptr_t)dao_cuda_entry("cuStreamWaitValue32", HOLD_VERSION);
    int count = 0, is_pushed = 0;
    if (wait == NULL || cudaGetDeviceCount(&count) != cudaSuccess ||
        dao_cuda_context_enter(device_index % count, &is_pushed) != cudaSuccess) {
        return false;
    }
    CUresult result = wait((CUstream)native, (CUdeviceptr)(uintptr_t)word, 1, CU_STREAM_WAIT_VALUE_EQ);
    dao_cuda_context_leave(is_pushed);
    return result == CUDA_SUCCESS;
}
