/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's virtual memory calls, with the arguments that are always the same. Not every version can tell whether
   a device has virtual memory; a device without it answers the query of its granularity with
   hipErrorNotSupported. */
#include "backends/hip/vmm.h"

#include <stdint.h>

static hipMemAllocationProp memory_of(int device)
{
    return (hipMemAllocationProp){
        .type = hipMemAllocationTypePinned,
        .location = {.type = hipMemLocationTypeDevice, .id = device},
    };
}

/* Finds the granularity; 0: there is no such memory. */
static hipError_t granularity_of(size_t *out_bytes, const hipMemAllocationProp *memory)
{
    size_t page_bytes = 0;
    hipError_t error =
        hipMemGetAllocationGranularity(&page_bytes, memory, hipMemAllocationGranularityMinimum);
    if (error == hipErrorNotSupported) {
        (void)hipGetLastError();
        page_bytes = 0;
        error = hipSuccess;
    }
    if (error == hipSuccess) {
        *out_bytes = page_bytes;
    }
    return error;
}

hipError_t dao_hip_vmm_granularity(size_t *out_bytes, int device)
{
    hipMemAllocationProp memory = memory_of(device);
    return granularity_of(out_bytes, &memory);
}

hipError_t dao_hip_vmm_reserve(void **out_address, size_t size_bytes)
{
    return hipMemAddressReserve(out_address, size_bytes, 0, NULL, 0);
}

hipError_t dao_hip_vmm_create(hipMemGenericAllocationHandle_t *out_handle, size_t size_bytes, int device)
{
    hipMemAllocationProp memory = memory_of(device);
    return hipMemCreate(out_handle, size_bytes, &memory, 0);
}

hipError_t dao_hip_vmm_map(void *address, size_t size_bytes, hipMemGenericAllocationHandle_t handle)
{
    return hipMemMap(address, size_bytes, 0, handle, 0);
}

hipError_t dao_hip_vmm_allow(void *address, size_t size_bytes, uint64_t devices)
{
    enum { DEVICE_BITS = 64 };
    hipMemAccessDesc accesses[DEVICE_BITS];
    size_t count = 0;
    for (int device = 0; device < DEVICE_BITS; device++) {
        if ((devices >> device & 1) != 0) {
            accesses[count++] = (hipMemAccessDesc){
                .location = {.type = hipMemLocationTypeDevice, .id = device},
                .flags = hipMemAccessFlagsProtReadWrite,
            };
        }
    }
    return hipMemSetAccess(address, size_bytes, accesses, count);
}

static hipMemAllocationProp shared_memory_of(int device)
{
    hipMemAllocationProp memory = memory_of(device);
    memory.requestedHandleType = hipMemHandleTypePosixFileDescriptor;
    return memory;
}

hipError_t dao_hip_vmm_shareable(int *out_is_shareable, int device)
{
    hipMemAllocationProp memory = shared_memory_of(device);
    size_t page_bytes = 0;
    hipError_t error = granularity_of(&page_bytes, &memory);
    if (error == hipSuccess) {
        *out_is_shareable = page_bytes != 0;
    }
    return error;
}

hipError_t dao_hip_vmm_create_shared(hipMemGenericAllocationHandle_t *out_handle, size_t size_bytes,
                                     int device)
{
    hipMemAllocationProp memory = shared_memory_of(device);
    return hipMemCreate(out_handle, size_bytes, &memory, 0);
}

hipError_t dao_hip_vmm_export(int *out_descriptor, hipMemGenericAllocationHandle_t handle)
{
    return hipMemExportToShareableHandle(out_descriptor, handle, hipMemHandleTypePosixFileDescriptor, 0);
}

hipError_t dao_hip_vmm_import(hipMemGenericAllocationHandle_t *out_handle, int descriptor)
{
    return hipMemImportFromShareableHandle(out_handle, (void *)(intptr_t)descriptor,
                                           hipMemHandleTypePosixFileDescriptor);
}
