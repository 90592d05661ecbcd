/* SPDX-License-Identifier: Apache-2.0 */
/* The guard around each vendor call, and how its answer becomes a status.

   A failure is mapped and reported here. The vendor keeps its own last error for the thread; it is cleared
   after a failure of the library's call, so that the program's own checks do not find it. */
#include "backends/vendor/vendor_internal.h"

bool dao_vendor_is_lost(vendorError_t error)
{
#define LOST_CASE(code) case code:
    switch ((int)error) {
        VENDOR_LOST_LIST(LOST_CASE)
        return true;
    default:
        return false;
    }
#undef LOST_CASE
}

static dao_status_t status_of(vendorError_t error, dao_status_t no_memory)
{
    switch ((int)error) {
    case vendorErrorMemoryAllocation:
        return no_memory;
    case vendorErrorInvalidHandle:
        return DAO_ERR_INVALID;
    case vendorErrorNotReady:
        return DAO_ERR_NOT_READY;
    case vendorErrorInvalidDevice:
    case vendorErrorNoDevice:
        return DAO_ERR_NO_DEVICE;
    case vendorErrorNotSupported:
    case vendorErrorPeerAccessUnsupported:
        return DAO_ERR_UNSUPPORTED;
    case vendorErrorHostMemoryAlreadyRegistered:
    case vendorErrorPeerAccessAlreadyEnabled:
    case vendorErrorStreamCaptureUnsupported:
    case vendorErrorCapturedEvent:
        return DAO_ERR_BUSY;
    case vendorErrorHostMemoryNotRegistered:
        return DAO_ERR_FOREIGN_POINTER;
    default:
        return dao_vendor_is_lost(error) ? DAO_ERR_DEVICE_LOST : DAO_ERR_BACKEND;
    }
}

dao_status_t dao_vendor_answer(vendorError_t error, const char *call, int index, dao_status_t no_memory)
{
    if (error == vendorSuccess) {
        return DAO_OK;
    }
    (void)vendorGetLastError(); /* reported here; a lost device returns it again anyway */
    return dao_error_vendor(status_of(error, no_memory), (int)error, "device:%d: %s: %s (%s)", index, call,
                            vendorGetErrorString(error), vendorGetErrorName(error));
}

#ifdef vendorContextStart
vendorError_t dao_vendor_start(int index)
{
    return vendorContextStart(index);
}

static vendorError_t make_current(int index, int *out_previous)
{
    return vendorContextEnter(index, out_previous);
}

static void put_back(int index, int previous)
{
    (void)index;
    vendorContextLeave(previous);
}
#else /* making a device current creates no context on it */
vendorError_t dao_vendor_start(int index)
{
    (void)index;
    return vendorSuccess;
}

static vendorError_t make_current(int index, int *out_previous)
{
    vendorError_t error = vendorGetDevice(out_previous);
    if (error == vendorSuccess && *out_previous != index) {
        error = vendorSetDevice(index);
    }
    return error;
}

static void put_back(int index, int previous)
{
    if (previous != index) {
        (void)vendorSetDevice(previous); /* it was current before; if it is lost, its next call reports it */
    }
}
#endif

/* Swaps the thread's capture mode with *mode. An error is left to the call that follows. */
static void exchange_mode(vendorStreamCaptureMode_t *mode)
{
    (void)vendorThreadExchangeStreamCaptureMode(mode);
}

/* The mode is swapped after the device is current: a thread without a current device makes no other call. */
vendorError_t dao_vendor_enter(int index, dao_vendor_guard_t *out_guard)
{
    *out_guard = (dao_vendor_guard_t){.mode = vendorStreamCaptureModeRelaxed};
    vendorError_t error = make_current(index, &out_guard->device);
    if (error == vendorSuccess) {
        exchange_mode(&out_guard->mode);
    }
    return error;
}

void dao_vendor_leave(int index, dao_vendor_guard_t *guard)
{
    exchange_mode(&guard->mode);
    put_back(index, guard->device);
}
