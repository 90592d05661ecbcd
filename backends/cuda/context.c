/* SPDX-License-Identifier: Apache-2.0 */
#include "backends/cuda/context.h"
#include "backends/cuda/entry.h"

#include <dao/context.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Name here, the driver's name, type of the pointer, and the version of CUDA that introduced it. */
#define ENTRY_LIST(X)                                                                                        \
    X(device_get, cuDeviceGet, PFN_cuDeviceGet_v2000, 2000)                                                  \
    X(primary_retain, cuDevicePrimaryCtxRetain, PFN_cuDevicePrimaryCtxRetain_v7000, 7000)                    \
    X(exchange_mode, cuThreadExchangeStreamCaptureMode, PFN_cuThreadExchangeStreamCaptureMode_v10010, 10010) \
    X(get_current, cuCtxGetCurrent, PFN_cuCtxGetCurrent_v4000, 4000)                                         \
    X(push_current, cuCtxPushCurrent, PFN_cuCtxPushCurrent_v4000, 4000)                                      \
    X(pop_current, cuCtxPopCurrent, PFN_cuCtxPopCurrent_v4000, 4000)

/* Threads that look them up at the same time write the same values. */
#define ENTRY_DEFINE(entry, name, type, version) static _Atomic(type) entry;
ENTRY_LIST(ENTRY_DEFINE)
#undef ENTRY_DEFINE

static _Atomic(CUcontext) contexts[DAO_DEVICE_COUNT_MAX];

/* Returns false if one is missing. */
static bool look_up(void)
{
    bool is_whole = true;
#define ENTRY_FIND(entry, name, type, version)                                                               \
    atomic_store(&entry, (type)(uintptr_t)dao_cuda_entry(#name, version));                                   \
    is_whole = is_whole && atomic_load(&entry) != NULL;
    ENTRY_LIST(ENTRY_FIND)
#undef ENTRY_FIND
    return is_whole;
}

cudaError_t dao_cuda_context_start(int index)
{
    CUdevice device;
    CUcontext context;
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* captures of others go on */
    if (!look_up()) {
        return cudaErrorInsufficientDriver;
    }
    (void)atomic_load (&exchange_mode)(&mode);
    CUresult result = atomic_load(&device_get)(&device, index);
    if (result == CUDA_SUCCESS) {
        result = atomic_load(&primary_retain)(&context, device);
    }
    (void)atomic_load (&exchange_mode)(&mode);
    if (result == CUDA_SUCCESS) {
        atomic_store(&contexts[index], context);
    }
    return (cudaError_t)result; /* runtime and driver number their errors alike */
}

cudaError_t dao_cuda_context_enter(int index, int *out_is_pushed)
{
    CUcontext context = atomic_load_explicit(&contexts[index], memory_order_relaxed);
    CUcontext current = NULL;
    CUresult result = atomic_load_explicit(&get_current, memory_order_relaxed)(&current);
    bool is_pushed = result == CUDA_SUCCESS && current != context;
    if (is_pushed) {
        result = atomic_load_explicit(&push_current, memory_order_relaxed)(context);
    }
    *out_is_pushed = is_pushed;
    return (cudaError_t)result;
}

void dao_cuda_context_leave(int is_pushed)
{
    CUcontext context;
    if (is_pushed) {
        (void)atomic_load_explicit(&pop_current, memory_order_relaxed)(&context); /* it was pushed */
    }
}
