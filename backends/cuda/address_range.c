/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/address_range.h"
#include "backends/cuda/entry.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdint.h>

/* Asked for seldom, so the entry is looked up each time. */
cudaError_t dao_cuda_address_range(void **out_base, size_t *out_size_bytes, void *address)
{
    CUdeviceptr base = 0;
    PFN_cuMemGetAddressRange_v3020 get_range =
        (PFN_cuMemGetAddressRange_v3020)(uintptr_t)dao_cuda_entry("cuMemGetAddressRange", 3020);
    if (get_range == NULL) {
        return cudaErrorInsufficientDriver;
    }
    CUresult result = get_range(&base, out_size_bytes, (CUdeviceptr)(uintptr_t)address);
    *out_base = (void *)(uintptr_t)base;
    return (cudaError_t)result; /* runtime and driver number their errors alike */
}
