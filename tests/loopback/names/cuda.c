/* SPDX-License-Identifier: Apache-2.0 */
/* What CUDA alone has: the driver's entry points, looked up through the runtime, and the virtual memory
   behind them. */
#include "tests/loopback/driver.h"
#include "tests/loopback/vmm.h"

#include <cuda.h>
#include <cudaTypedefs.h>
#include <string.h>

vendorError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *user)
{
    return loopback_host_func("launch host function", stream, function, user);
}

#if CUDART_VERSION >= 12080
static cudaError_t copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes, size_t count,
                              const struct cudaMemcpyAttributes *attributes, const size_t *firsts,
                              size_t attributes_count, cudaStream_t stream)
{
    if (loopback_driver.settings.has_no_batches) {
        return loopback_error(cudaErrorCallRequiresNewerDriver);
    }
    if (attributes_count != 1 || firsts[0] != 0 || attributes->flags != 0 ||
        attributes->srcAccessOrder != cudaMemcpySrcAccessOrderStream || stream == NULL) {
        return loopback_error(cudaErrorInvalidValue);
    }
    return loopback_queue_batch("copy batch", dsts, srcs, sizes, count, stream);
}

#if CUDART_VERSION >= 13000
cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                 size_t count, struct cudaMemcpyAttributes *attributes, size_t *firsts,
                                 size_t attributes_count, cudaStream_t stream)
{
    return copy_batch(dsts, srcs, sizes, count, attributes, firsts, attributes_count, stream);
}
#else
cudaError_t cudaMemcpyBatchAsync(void **dsts, void **srcs, size_t *sizes, size_t count,
                                 struct cudaMemcpyAttributes *attributes, size_t *firsts,
                                 size_t attributes_count, size_t *out_failed_index, cudaStream_t stream)
{
    *out_failed_index = SIZE_MAX;
    return copy_batch(dsts, (const void *const *)srcs, sizes, count, attributes, firsts, attributes_count,
                      stream);
}
#endif
#endif

#if CUDART_VERSION >= 12000
cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *out_id)
{
    return loopback_stream_id(stream, out_id);
}
#endif

/* ---- captures ---- */

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)mode; /* every call of the library is checked for it */
    return loopback_capture_begin(stream);
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out_graph)
{
    void *graph = NULL;
    cudaError_t error = loopback_capture_end(stream, &graph);
    *out_graph = graph;
    return error;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph; /* a number */
    return cudaSuccess;
}

#if CUDART_VERSION >= 13000
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                     unsigned long long *out_id, cudaGraph_t *out_graph,
                                     const cudaGraphNode_t **out_nodes, const cudaGraphEdgeData **out_edges,
                                     size_t *out_count)
{
    return out_graph != NULL || out_nodes != NULL || out_edges != NULL || out_count != NULL
               ? loopback_error(cudaErrorInvalidValue)
               : loopback_capture_info(stream, out_status, out_id);
}
#else
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *out_status,
                                        unsigned long long *out_id, cudaGraph_t *out_graph,
                                        const cudaGraphNode_t **out_nodes, size_t *out_count)
{
    return out_graph != NULL || out_nodes != NULL || out_count != NULL
               ? loopback_error(cudaErrorInvalidValue)
               : loopback_capture_info(stream, out_status, out_id);
}
#endif

static CUresult device_get(CUdevice *out_device, int index)
{
    *out_device = index;
    return CUDA_SUCCESS;
}

/* ---- contexts: a device's primary one is its number + 1 ---- */

static _Thread_local int below[8]; /* what is current below what was pushed */
static _Thread_local int below_count;

static CUcontext context_of(int device)
{
    return device != LOOPBACK_NO_DEVICE ? (CUcontext)(uintptr_t)(device + 1) : NULL;
}

static CUresult primary_retain(CUcontext *out_context, CUdevice device)
{
    cudaError_t error = loopback_begin_question("primary context retain", LOOPBACK_NO_DEVICE);
    if (error == cudaSuccess) {
        loopback_context_make(device);
        *out_context = context_of(device);
    }
    return (CUresult)error;
}

static CUresult exchange_mode(CUstreamCaptureMode *mode)
{
    enum cudaStreamCaptureMode exchanged = (enum cudaStreamCaptureMode) * mode;
    loopback_exchange_mode(&exchanged);
    *mode = (CUstreamCaptureMode)exchanged;
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *out_context)
{
    cudaError_t error = loopback_begin_current("get current context");
    if (error == cudaSuccess) {
        *out_context = context_of(loopback_context());
    }
    return (CUresult)error;
}

/* As vendorSetDevice() these two never fail by their number. */
static CUresult push_current(CUcontext context)
{
    int device = (int)(uintptr_t)context - 1;
    loopback_count_around();
    if (!loopback_may_be_current(device) || below_count == (int)(sizeof(below) / sizeof(below[0]))) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    below[below_count++] = loopback_context();
    loopback_context_set(device);
    return CUDA_SUCCESS;
}

static CUresult pop_current(CUcontext *out_context)
{
    loopback_count_around();
    if (below_count == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *out_context = context_of(loopback_context());
    loopback_context_set(below[--below_count]);
    return CUDA_SUCCESS;
}

static CUresult get_address_range(CUdeviceptr *out_base, size_t *out_size_bytes, CUdeviceptr address)
{
    void *base = NULL;
    CUresult result = (CUresult)loopback_address_range(&base, out_size_bytes, (void *)(uintptr_t)address);
    *out_base = (CUdeviceptr)(uintptr_t)base;
    return result;
}

static CUresult wait_value(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
    return flags != CU_STREAM_WAIT_VALUE_GEQ
               ? CUDA_ERROR_INVALID_VALUE
               : (CUresult)loopback_wait_word("stream wait value", stream, (void *)(uintptr_t)address, value);
}

/* ---- virtual memory ---- */

static CUresult device_get_attribute(int *out_value, CUdevice_attribute attribute, CUdevice device)
{
    size_t page_bytes = 0;
    if (attribute == CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED) {
        return (CUresult)loopback_vmm_shareable(out_value, device);
    }
    if (attribute == CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED) {
        *out_value = 1;
        return CUDA_SUCCESS;
    }
    if (attribute != CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = (CUresult)loopback_vmm_granularity(&page_bytes, device);
    *out_value = page_bytes != 0;
    return result;
}

/* The one kind of memory that the library asks for, perhaps for other processes, too: network cards can
   register it. */
static bool is_right(const CUmemAllocationProp *memory)
{
    return memory->type == CU_MEM_ALLOCATION_TYPE_PINNED &&
           memory->location.type == CU_MEM_LOCATION_TYPE_DEVICE &&
           memory->allocFlags.gpuDirectRDMACapable == 1;
}

static CUresult get_granularity(size_t *out_bytes, const CUmemAllocationProp *memory,
                                CUmemAllocationGranularity_flags option)
{
    return !is_right(memory) || option != CU_MEM_ALLOC_GRANULARITY_MINIMUM
               ? CUDA_ERROR_INVALID_VALUE
               : (CUresult)loopback_vmm_granularity(out_bytes, memory->location.id);
}

static CUresult address_reserve(CUdeviceptr *out_address, size_t size_bytes, size_t alignment,
                                CUdeviceptr wish, unsigned long long flags)
{
    void *address = NULL;
    if (alignment != 0 || wish != 0 || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = (CUresult)loopback_vmm_reserve(&address, size_bytes);
    if (result == CUDA_SUCCESS) {
        *out_address = (CUdeviceptr)(uintptr_t)address;
    }
    return result;
}

static CUresult address_free(CUdeviceptr address, size_t size_bytes)
{
    return (CUresult)loopback_vmm_release((void *)(uintptr_t)address, size_bytes);
}

static CUresult create(CUmemGenericAllocationHandle *out_handle, size_t size_bytes,
                       const CUmemAllocationProp *memory, unsigned long long flags)
{
    void *handle = NULL;
    if (!is_right(memory) || flags != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    bool is_shared = memory->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    CUresult result =
        (CUresult)(is_shared ? loopback_vmm_create_shared(&handle, size_bytes, memory->location.id)
                             : loopback_vmm_create(&handle, size_bytes, memory->location.id));
    if (result == CUDA_SUCCESS) {
        *out_handle = (CUmemGenericAllocationHandle)(uintptr_t)handle;
    }
    return result;
}

static CUresult export_handle(void *out_handle, CUmemGenericAllocationHandle handle,
                              CUmemAllocationHandleType type, unsigned long long flags)
{
    return type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || flags != 0
               ? CUDA_ERROR_INVALID_VALUE
               : (CUresult)loopback_vmm_export(out_handle, (void *)(uintptr_t)handle);
}

static CUresult import_handle(CUmemGenericAllocationHandle *out_handle, void *descriptor,
                              CUmemAllocationHandleType type)
{
    void *handle = NULL;
    if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUresult result = (CUresult)loopback_vmm_import(&handle, (int)(intptr_t)descriptor);
    if (result == CUDA_SUCCESS) {
        *out_handle = (CUmemGenericAllocationHandle)(uintptr_t)handle;
    }
    return result;
}

static CUresult release(CUmemGenericAllocationHandle handle)
{
    return (CUresult)loopback_vmm_destroy((void *)(uintptr_t)handle);
}

static CUresult map(CUdeviceptr address, size_t size_bytes, size_t offset,
                    CUmemGenericAllocationHandle handle, unsigned long long flags)
{
    return offset != 0 || flags != 0 ? CUDA_ERROR_INVALID_VALUE
                                     : (CUresult)loopback_vmm_map((void *)(uintptr_t)address, size_bytes,
                                                                  (void *)(uintptr_t)handle);
}

static CUresult unmap(CUdeviceptr address, size_t size_bytes)
{
    return (CUresult)loopback_vmm_unmap((void *)(uintptr_t)address, size_bytes);
}

static CUresult set_access(CUdeviceptr address, size_t size_bytes, const CUmemAccessDesc *access,
                           size_t count)
{
    uint64_t devices = 0;
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
            access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        devices |= UINT64_C(1) << access[i].location.id;
    }
    return (CUresult)loopback_vmm_allow((void *)(uintptr_t)address, size_bytes, devices);
}

/* Names, and calls of the versions that the typed pointers below have. */
#define ENTRY_LIST(X)                                                                                        \
    X("cuDeviceGet", PFN_cuDeviceGet_v2000, device_get)                                                      \
    X("cuDevicePrimaryCtxRetain", PFN_cuDevicePrimaryCtxRetain_v7000, primary_retain)                        \
    X("cuThreadExchangeStreamCaptureMode", PFN_cuThreadExchangeStreamCaptureMode_v10010, exchange_mode)      \
    X("cuCtxGetCurrent", PFN_cuCtxGetCurrent_v4000, get_current)                                             \
    X("cuCtxPushCurrent", PFN_cuCtxPushCurrent_v4000, push_current)                                          \
    X("cuCtxPopCurrent", PFN_cuCtxPopCurrent_v4000, pop_current)                                             \
    X("cuDeviceGetAttribute", PFN_cuDeviceGetAttribute_v2000, device_get_attribute)                          \
    X("cuMemGetAddressRange", PFN_cuMemGetAddressRange_v3020, get_address_range)                             \
    X("cuStreamWaitValue32", PFN_cuStreamWaitValue32_v11070, wait_value)                                     \
    X("cuMemGetAllocationGranularity", PFN_cuMemGetAllocationGranularity_v10020, get_granularity)            \
    X("cuMemAddressReserve", PFN_cuMemAddressReserve_v10020, address_reserve)                                \
    X("cuMemAddressFree", PFN_cuMemAddressFree_v10020, address_free)                                         \
    X("cuMemCreate", PFN_cuMemCreate_v10020, create)                                                         \
    X("cuMemRelease", PFN_cuMemRelease_v10020, release)                                                      \
    X("cuMemMap", PFN_cuMemMap_v10020, map)                                                                  \
    X("cuMemUnmap", PFN_cuMemUnmap_v10020, unmap)                                                            \
    X("cuMemSetAccess", PFN_cuMemSetAccess_v10020, set_access)                                               \
    X("cuMemExportToShareableHandle", PFN_cuMemExportToShareableHandle_v10020, export_handle)                \
    X("cuMemImportFromShareableHandle", PFN_cuMemImportFromShareableHandle_v10020, import_handle)

static cudaError_t find_entry(const char *name, void **out_entry,
                              enum cudaDriverEntryPointQueryResult *out_result)
{
#define ENTRY_FIND(entry_name, type, function)                                                               \
    if (strcmp(name, entry_name) == 0) {                                                                     \
        type typed = function;                                                                               \
        *out_entry = (void *)(uintptr_t)typed;                                                               \
        *out_result = cudaDriverEntryPointSuccess;                                                           \
        return cudaSuccess;                                                                                  \
    }
    ENTRY_LIST(ENTRY_FIND)
#undef ENTRY_FIND
    *out_result = cudaDriverEntryPointSymbolNotFound;
    return cudaSuccess;
}

#if CUDART_VERSION >= 12050
cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **out_entry, unsigned version,
                                             unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *out_result)
{
    (void)version;
    (void)flags;
    return find_entry(name, out_entry, out_result);
}
#else
cudaError_t cudaGetDriverEntryPoint(const char *name, void **out_entry, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *out_result)
{
    (void)flags;
    return find_entry(name, out_entry, out_result);
}
#endif
