/* SPDX-License-Identifier: Apache-2.0 */
/* What HIP spells in its own way: host functions are stream callbacks, and virtual memory is a part of the
   runtime. */
#include "tests/loopback/driver.h"
#include "tests/loopback/vmm.h"

#include <stdlib.h>

typedef struct callback {
    hipStreamCallback_t function;
    hipStream_t stream;
    void *user;
} callback_t;

static void run_callback(void *user)
{
    callback_t callback = *(callback_t *)user;
    free(user);
    callback.function(callback.stream, hipSuccess, callback.user);
}

hipError_t hipStreamAddCallback(hipStream_t stream, hipStreamCallback_t function, void *user, unsigned flags)
{
    callback_t *callback = calloc(1, sizeof(*callback));
    if (callback == NULL) {
        abort(); /* the test machine is full */
    }
    *callback = (callback_t){.function = function, .stream = stream, .user = user};
    hipError_t error = flags != 0 ? loopback_breach(LOOPBACK_RULE_BAD_FLAGS, "add callback")
                                  : loopback_host_func("add callback", stream, run_callback, callback);
    if (error != hipSuccess) {
        free(callback);
    }
    return error;
}

#if HIP_VERSION >= 70100000
hipError_t hipStreamGetId(hipStream_t stream, unsigned long long *out_id)
{
    return loopback_stream_id(stream, out_id);
}
#else
/* Only whether there is such a stream is asked for. */
hipError_t hipStreamGetFlags(hipStream_t stream, unsigned *out_flags)
{
    unsigned long long id = 0;
    *out_flags = hipStreamNonBlocking;
    return loopback_stream_id(stream, &id);
}
#endif

hipError_t hipMemGetAddressRange(hipDeviceptr_t *out_base, size_t *out_size_bytes, hipDeviceptr_t address)
{
    return loopback_address_range(out_base, out_size_bytes, address);
}

/* ---- captures ---- */

hipError_t hipStreamBeginCapture(hipStream_t stream, hipStreamCaptureMode mode)
{
    (void)mode; /* every call of the library is checked for it */
    return loopback_capture_begin(stream);
}

hipError_t hipStreamEndCapture(hipStream_t stream, hipGraph_t *out_graph)
{
    void *graph = NULL;
    hipError_t error = loopback_capture_end(stream, &graph);
    *out_graph = graph;
    return error;
}

hipError_t hipGraphDestroy(hipGraph_t graph)
{
    (void)graph; /* a number */
    return hipSuccess;
}

hipError_t hipStreamGetCaptureInfo(hipStream_t stream, hipStreamCaptureStatus *out_status,
                                   unsigned long long *out_id)
{
    return loopback_capture_info(stream, out_status, out_id);
}

/* ---- virtual memory ---- */

/* The one kind of memory that the library asks for, perhaps for other processes, too. */
static bool is_right(const hipMemAllocationProp *memory)
{
    return memory->type == hipMemAllocationTypePinned && memory->location.type == hipMemLocationTypeDevice;
}

/* Where a device has no virtual memory this is refused. */
hipError_t hipMemGetAllocationGranularity(size_t *out_bytes, const hipMemAllocationProp *memory,
                                          hipMemAllocationGranularity_flags option)
{
    if (!is_right(memory) || option != hipMemAllocationGranularityMinimum) {
        return hipErrorInvalidValue;
    }
    if (memory->requestedHandleType == hipMemHandleTypePosixFileDescriptor) {
        int is_shareable = 0;
        hipError_t error = loopback_vmm_shareable(&is_shareable, memory->location.id);
        if (error != hipSuccess || !is_shareable) {
            return error != hipSuccess ? error : loopback_error(hipErrorNotSupported);
        }
    }
    hipError_t error = loopback_vmm_granularity(out_bytes, memory->location.id);
    return error == hipSuccess && *out_bytes == 0 ? loopback_error(hipErrorNotSupported) : error;
}

hipError_t hipMemAddressReserve(void **out_address, size_t size_bytes, size_t alignment, void *wish,
                                unsigned long long flags)
{
    return alignment != 0 || wish != NULL || flags != 0 ? hipErrorInvalidValue
                                                        : loopback_vmm_reserve(out_address, size_bytes);
}

hipError_t hipMemAddressFree(void *address, size_t size_bytes)
{
    return loopback_vmm_release(address, size_bytes);
}

hipError_t hipMemCreate(hipMemGenericAllocationHandle_t *out_handle, size_t size_bytes,
                        const hipMemAllocationProp *memory, unsigned long long flags)
{
    void *handle = NULL;
    if (!is_right(memory) || flags != 0) {
        return hipErrorInvalidValue;
    }
    hipError_t error = memory->requestedHandleType == hipMemHandleTypePosixFileDescriptor
                           ? loopback_vmm_create_shared(&handle, size_bytes, memory->location.id)
                           : loopback_vmm_create(&handle, size_bytes, memory->location.id);
    if (error == hipSuccess) {
        *out_handle = handle;
    }
    return error;
}

hipError_t hipMemExportToShareableHandle(void *out_handle, hipMemGenericAllocationHandle_t handle,
                                         hipMemAllocationHandleType type, unsigned long long flags)
{
    return type != hipMemHandleTypePosixFileDescriptor || flags != 0
               ? hipErrorInvalidValue
               : loopback_vmm_export(out_handle, handle);
}

hipError_t hipMemImportFromShareableHandle(hipMemGenericAllocationHandle_t *out_handle, void *descriptor,
                                           hipMemAllocationHandleType type)
{
    void *handle = NULL;
    if (type != hipMemHandleTypePosixFileDescriptor) {
        return hipErrorInvalidValue;
    }
    hipError_t error = loopback_vmm_import(&handle, (int)(intptr_t)descriptor);
    if (error == hipSuccess) {
        *out_handle = handle;
    }
    return error;
}

hipError_t hipMemRelease(hipMemGenericAllocationHandle_t handle)
{
    return loopback_vmm_destroy(handle);
}

hipError_t hipMemMap(void *address, size_t size_bytes, size_t offset, hipMemGenericAllocationHandle_t handle,
                     unsigned long long flags)
{
    return offset != 0 || flags != 0 ? hipErrorInvalidValue : loopback_vmm_map(address, size_bytes, handle);
}

hipError_t hipMemUnmap(void *address, size_t size_bytes)
{
    return loopback_vmm_unmap(address, size_bytes);
}

hipError_t hipMemSetAccess(void *address, size_t size_bytes, const hipMemAccessDesc *access, size_t count)
{
    uint64_t devices = 0;
    for (size_t i = 0; i < count; i++) {
        if (access[i].location.type != hipMemLocationTypeDevice ||
            access[i].flags != hipMemAccessFlagsProtReadWrite) {
            return hipErrorInvalidValue;
        }
        devices |= UINT64_C(1) << access[i].location.id;
    }
    return loopback_vmm_allow(address, size_bytes, devices);
}
