/* SPDX-License-Identifier: Apache-2.0 */
/* The driver's virtual memory calls. A thread that finds the table of entry points incomplete looks all of
   them up; threads that do so at the same time write the same values. */
#include "backends/cuda/vmm.h"
#include "backends/cuda/entry.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Name, type of the pointer, and the version of CUDA that brought it. */
#define ENTRY_LIST(X)                                                                                        \
    X(cuDeviceGet, PFN_cuDeviceGet_v2000, 2000)                                                              \
    X(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000, 2000)                                            \
    X(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020, 10020)                        \
    X(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020, 10020)                                            \
    X(cuMemAddressFree, PFN_cuMemAddressFree_v10020, 10020)                                                  \
    X(cuMemCreate, PFN_cuMemCreate_v10020, 10020)                                                            \
    X(cuMemRelease, PFN_cuMemRelease_v10020, 10020)                                                          \
    X(cuMemMap, PFN_cuMemMap_v10020, 10020)                                                                  \
    X(cuMemUnmap, PFN_cuMemUnmap_v10020, 10020)                                                              \
    X(cuMemSetAccess, PFN_cuMemSetAccess_v10020, 10020)                                                      \
    X(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020, 10020)                          \
    X(cuMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020, 10020)

enum {
#define ENTRY_INDEX(name, type, version) INDEX_##name,
    ENTRY_LIST(ENTRY_INDEX)
#undef ENTRY_INDEX
        ENTRY_COUNT
};

static const struct {
    const char *name;
    unsigned version;
} entries[ENTRY_COUNT] = {
#define ENTRY_ROW(name, type, version) {#name, version},
    ENTRY_LIST(ENTRY_ROW)
#undef ENTRY_ROW
};

static _Atomic(void *) found[ENTRY_COUNT];

/* A driver's call, looked up before. */
#define DRIVER(name, type) ((type)(uintptr_t)atomic_load_explicit(&found[INDEX_##name], memory_order_acquire))

static bool look_up(int index)
{
    void *entry = dao_cuda_entry(entries[index].name, entries[index].version);
    if (entry == NULL) {
        return false; /* an old driver: there is no virtual memory, which is no error */
    }
    atomic_store_explicit(&found[index], entry, memory_order_release);
    return true;
}

static bool is_ready(void)
{
    for (int i = 0; i < ENTRY_COUNT; i++) {
        if (atomic_load_explicit(&found[i], memory_order_acquire) == NULL && !look_up(i)) {
            return false;
        }
    }
    return true;
}

/* Runtime and driver number their errors alike (CUDA 10.1 and later). */
static cudaError_t as_runtime(CUresult result)
{
    return (cudaError_t)result;
}

static CUresult ask(int *out_value, CUdevice_attribute attribute, int device)
{
    CUdevice handle;
    CUresult result = DRIVER(cuDeviceGet, PFN_cuDeviceGet_v2000)(&handle, device);
    return result != CUDA_SUCCESS
               ? result
               : DRIVER(cuDeviceGetAttribute, PFN_cuDeviceGetAttribute_v2000)(out_value, attribute, handle);
}

/* Network cards can register such memory only if it was created for that. A driver that does not know the
   question cannot. */
static CUmemAllocationProp memory_of(int device)
{
    int is_for_cards = 0;
    CUmemAllocationProp memory = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
    };
    if (ask(&is_for_cards, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, device) ==
            CUDA_SUCCESS &&
        is_for_cards) {
        memory.allocFlags.gpuDirectRDMACapable = 1;
    }
    return memory;
}

cudaError_t dao_cuda_vmm_granularity(size_t *out_bytes, int device)
{
    *out_bytes = 0;
    int is_supported = 0;
    if (!is_ready()) {
        return cudaSuccess;
    }
    CUresult result = ask(&is_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device);
    if (result != CUDA_SUCCESS || !is_supported) {
        return as_runtime(result);
    }
    CUmemAllocationProp memory = memory_of(device);
    return as_runtime(DRIVER(cuMemGetAllocationGranularity, PFN_cuMemGetAllocationGranularity_v10020)(
        out_bytes, &memory, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
}

cudaError_t dao_cuda_vmm_reserve(void **out_address, size_t size_bytes)
{
    CUdeviceptr address = 0;
    CUresult result =
        DRIVER(cuMemAddressReserve, PFN_cuMemAddressReserve_v10020)(&address, size_bytes, 0, 0, 0);
    if (result == CUDA_SUCCESS) {
        *out_address = (void *)(uintptr_t)address;
    }
    return as_runtime(result);
}

cudaError_t dao_cuda_vmm_release(void *address, size_t size_bytes)
{
    return as_runtime(
        DRIVER(cuMemAddressFree, PFN_cuMemAddressFree_v10020)((CUdeviceptr)(uintptr_t)address, size_bytes));
}

cudaError_t dao_cuda_vmm_create(dao_cuda_vmm_t *out_handle, size_t size_bytes, int device)
{
    CUmemAllocationProp memory = memory_of(device);
    return as_runtime(DRIVER(cuMemCreate, PFN_cuMemCreate_v10020)(out_handle, size_bytes, &memory, 0));
}

cudaError_t dao_cuda_vmm_shareable(int *out_is_shareable, int device)
{
    *out_is_shareable = 0;
    return as_runtime(
        ask(out_is_shareable, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device));
}

cudaError_t dao_cuda_vmm_create_shared(dao_cuda_vmm_t *out_handle, size_t size_bytes, int device)
{
    CUmemAllocationProp memory = memory_of(device);
    memory.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return as_runtime(DRIVER(cuMemCreate, PFN_cuMemCreate_v10020)(out_handle, size_bytes, &memory, 0));
}

cudaError_t dao_cuda_vmm_export(int *out_descriptor, dao_cuda_vmm_t handle)
{
    return as_runtime(DRIVER(cuMemExportToShareableHandle, PFN_cuMemExportToShareableHandle_v10020)(
        out_descriptor, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
}

cudaError_t dao_cuda_vmm_import(dao_cuda_vmm_t *out_handle, int descriptor)
{
    return as_runtime(DRIVER(cuMemImportFromShareableHandle, PFN_cuMemImportFromShareableHandle_v10020)(
        out_handle, (void *)(intptr_t)descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
}

cudaError_t dao_cuda_vmm_destroy(dao_cuda_vmm_t handle)
{
    return as_runtime(DRIVER(cuMemRelease, PFN_cuMemRelease_v10020)(handle));
}

cudaError_t dao_cuda_vmm_map(void *address, size_t size_bytes, dao_cuda_vmm_t handle)
{
    return as_runtime(
        DRIVER(cuMemMap, PFN_cuMemMap_v10020)((CUdeviceptr)(uintptr_t)address, size_bytes, 0, handle, 0));
}

cudaError_t dao_cuda_vmm_unmap(void *address, size_t size_bytes)
{
    return as_runtime(DRIVER(cuMemUnmap, PFN_cuMemUnmap_v10020)((CUdeviceptr)(uintptr_t)address, size_bytes));
}

cudaError_t dao_cuda_vmm_allow(void *address, size_t size_bytes, uint64_t devices)
{
    enum { DEVICE_BITS = 64 };
    CUmemAccessDesc accesses[DEVICE_BITS];
    size_t count = 0;
    for (int device = 0; device < DEVICE_BITS; device++) {
        if ((devices >> device & 1) != 0) {
            accesses[count++] = (CUmemAccessDesc){
                .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device},
                .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
            };
        }
    }
    return as_runtime(DRIVER(cuMemSetAccess, PFN_cuMemSetAccess_v10020)((CUdeviceptr)(uintptr_t)address,
                                                                        size_bytes, accesses, count));
}
