/* SPDX-License-Identifier: Apache-2.0 */
/* The guard around each vendor call, and how its answer becomes a status.

   A failure is mapped and reported here. The vendor keeps its own last error for the thread; it is cleared
   after a failure of the library's call, so that the program's own checks do not find it.

   A call costs three to five more than itself, since it has to look what is current in the thread, relax its
   capture mode, and put both back. A thread of the library's own does so once (thread_stay), and looks what
   is current after code of the program has run in it. */
#include "backends/vendor/vendor_internal.h"

#include "base/threads/thread_local.h"

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
#ifdef vendorErrorNotPermitted
    case vendorErrorNotPermitted:
        return DAO_ERR_REENTRANT;
#endif
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

/* Which device a thread stays on, + 1; 0: none; and what the thread had before. */
static DAO_FAST_THREAD_LOCAL int stays_on;
static DAO_FAST_THREAD_LOCAL dao_vendor_guard_t before;

/* The mode is swapped after the device is current: a thread without a current device makes no other call. */
static vendorError_t enter(int index, dao_vendor_guard_t *out_guard)
{
    *out_guard = (dao_vendor_guard_t){.mode = vendorStreamCaptureModeRelaxed};
    vendorError_t error = make_current(index, &out_guard->device);
    if (error == vendorSuccess) {
        exchange_mode(&out_guard->mode);
    }
    return error;
}

vendorError_t dao_vendor_enter(int index, dao_vendor_guard_t *out_guard)
{
    if (stays_on == index + 1) {
        *out_guard = (dao_vendor_guard_t){.stays = true};
        return vendorSuccess;
    }
    return enter(index, out_guard);
}

void dao_vendor_leave(int index, dao_vendor_guard_t *guard)
{
    if (!guard->stays) {
        exchange_mode(&guard->mode);
        put_back(index, guard->device);
    }
}

/* ---- threads that stay ---- */

/* Looks whether the device that the thread stays on is still current, and makes it so. With CUDA what the
   program has put in the place of a pushed context goes first, or one more would be left each time. */
static vendorError_t look_again(int index)
{
    int found = 0;
    vendorError_t error = make_current(index, &found);
#ifdef vendorContextStart
    if (error == vendorSuccess && found) {
        put_back(index, found);
        put_back(index, before.device);
        error = make_current(index, &before.device);
    }
#endif
    return error;
}

dao_status_t dao_vendor_thread_stay(dao_backend_device_t *device)
{
    int index = device->index;
    bool is_first = stays_on != index + 1;
    vendorError_t error = is_first ? enter(index, &before) : look_again(index);
    stays_on = error == vendorSuccess ? index + 1 : 0;
    return dao_vendor_answer(error, "stay", index, DAO_ERR_NO_DEVICE_MEMORY);
}

void dao_vendor_thread_part(dao_backend_device_t *device)
{
    if (stays_on == device->index + 1) {
        stays_on = 0;
        exchange_mode(&before.mode);
        put_back(device->index, before.device);
    }
}
