/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/support/backends/hold.h"

#include <hip/hip_runtime_api.h>

bool vendor_hold(int32_t device_index, void *native, const uint32_t *word)
{
    int count = 0;
    return hipGetDeviceCount(&count) == hipSuccess && hipSetDevice(device_index % count) == hipSuccess &&
           hipStreamWaitValue32((hipStream_t)native, (void *)(uintptr_t)word, 1, hipStreamWaitValueEq,
                                UINT32_MAX) == hipSuccess;
}
