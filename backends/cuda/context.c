#include "backends/cuda/context.h"
#include "backends/cuda/entry.h"

#include <dao/context.h>

#include <cuda.h>
#include <cudaTypedefs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Threads that look them up at the same time write the same values. */
static _Atomic(PFN_cuDeviceGet_v2000) device_get;
static _Atomic(PFN_cuDevicePrimaryCtxRetain_v7000) primary_retain;
static _Atomic(PFN_cuCtxGetCurrent_v4000) get_current;
static _Atomic(PFN_cuCtxPushCurrent_v4000) push_current;
static _Atomic(PFN_cuCtxPopCurrent_v4000) pop_current;

static _Atomic(CUcontext) contexts[DAO_DEVICE_COUNT_MAX];

static bool look_up(void)
{
    atomic_store(&device_get, (PFN_cuDeviceGet_v2000)(uintptr_t)dao_cuda_entry("cuDeviceGet", 2000));
    atomic_store(&primary_retain, (PFN_cuDevicePrimaryCtxRetain_v7000)(uintptr_t)dao_cuda_entry(
                                      "cuDevicePrimaryCtxRetain", 7000));
    atomic_store(&get_current, (PFN_cuCtxGetCurrent_v4000)(uintptr_t)dao_cuda_entry("cuCtxGetCurrent", 4000));
    atomic_store(&push_current,
                 (PFN_cuCtxPushCurrent_v4000)(uintptr_t)dao_cuda_entry("cuCtxPushCurrent", 4000));
    atomic_store(&pop_current, (PFN_cuCtxPopCurrent_v4000)(uintptr_t)dao_cuda_entry("cuCtxPopCurrent", 4000));
    return atomic_load(&device_get) != NULL && atomic_load(&primary_retain) != NULL &&
           atomic_load(&get_current) != NULL && atomic_load(&push_current) != NULL &&
           atomic_load(&pop_current) != NULL;
}

cudaError_t dao_cuda_context_start(int index)
{
    CUdevice device;
    CUcontext context;
    if (!look_up()) {
        return cudaErrorInsufficientDriver;
    }
    CUresult result = atomic_load(&device_get)(&device, index);
    if (result == CUDA_SUCCESS) {
        result = atomic_load(&primary_retain)(&context, device);
    }
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
