/* SPDX-License-Identifier: Apache-2.0 */
/* HIP's names for what backends/vendor/ uses: "vendor" instead of "hip", the rest as HIP spells it. */
#ifndef DAO_BACKENDS_HIP_NAMES_H
#define DAO_BACKENDS_HIP_NAMES_H

#include "backends/hip/host_func.h"
#include "backends/hip/stream_id.h"
#include "backends/hip/vmm.h"

#include <dao/dlpack_abi.h>

#include <hip/hip_runtime_api.h>

#define VENDOR_BACKEND_NAME     "hip"
#define VENDOR_NAME             "HIP"
#define VENDOR_DRIVER           "the AMD driver (amdgpu with /dev/kfd)"
#define VENDOR_LIST_DEVICES     "rocminfo"
#define VENDOR_VISIBLE_DEVICES  "HIP_VISIBLE_DEVICES"
#define VENDOR_VERSION_MAJOR(v) ((v) / 10000000)
#define VENDOR_VERSION_MINOR(v) ((v) % 10000000 / 100000)
#define VENDOR_PER_THREAD       "hipStreamPerThread"
#define VENDOR_DLPACK_DEVICE    kDLROCM
#define VENDOR_DLPACK_MANAGED   0 /* it has none */
#define VENDOR_DLPACK_PINNED    kDLROCMHost

/* Pages are not mapped at several addresses unasked: see vendor_alias.c. */
#define VENDOR_ALIASES_FROM_MAJOR 0

/* Whether one unmapping takes several mappings side by side: drivers up to ROCm 6 take one alone. */
#define VENDOR_UNMAPS_RUNS 0

/* Whether pages are tried when a device is opened: see vendor.c. */
#define VENDOR_TRIES_PAGES 1

#define vendorError_t               hipError_t
#define vendorStream_t              hipStream_t
#define vendorEvent_t               hipEvent_t
#define vendorDeviceProp_t          hipDeviceProp_t
#define vendorMemcpyKind_t          hipMemcpyKind
#define vendorDeviceAttr_t          hipDeviceAttribute_t
#define vendorMemAccessDesc_t       hipMemAccessDesc
#define vendorMemPoolProps_t        hipMemPoolProps
#define vendorMemPool_t             hipMemPool_t
#define vendorIpcMemHandle_t        hipIpcMemHandle_t
#define vendorStreamCaptureMode_t   hipStreamCaptureMode
#define vendorStreamCaptureStatus_t hipStreamCaptureStatus

#define vendorSuccess                          hipSuccess
#define vendorErrorInvalidValue                hipErrorInvalidValue
#define vendorErrorMemoryAllocation            hipErrorMemoryAllocation
#define vendorErrorInvalidHandle               hipErrorInvalidHandle
#define vendorErrorNotReady                    hipErrorNotReady
#define vendorErrorNoDevice                    hipErrorNoDevice
#define vendorErrorInvalidDevice               hipErrorInvalidDevice
#define vendorErrorInsufficientDriver          hipErrorInsufficientDriver
#define vendorErrorNotSupported                hipErrorNotSupported
#define vendorErrorHostMemoryAlreadyRegistered hipErrorHostMemoryAlreadyRegistered
#define vendorErrorHostMemoryNotRegistered     hipErrorHostMemoryNotRegistered
#define vendorErrorPeerAccessAlreadyEnabled    hipErrorPeerAccessAlreadyEnabled
#define vendorErrorPeerAccessUnsupported       hipErrorPeerAccessUnsupported
#define vendorErrorStreamCaptureUnsupported    hipErrorStreamCaptureUnsupported
#define vendorErrorStreamCaptureImplicit       hipErrorStreamCaptureImplicit
#define vendorErrorCapturedEvent               hipErrorCapturedEvent

/* After these the device answers nothing but the same error. */
#define VENDOR_LOST_LIST(X)                                                                                  \
    X(hipErrorDeinitialized)                                                                                 \
    X(hipErrorECCNotCorrectable)                                                                             \
    X(hipErrorIllegalAddress)                                                                                \
    X(hipErrorLaunchTimeOut)                                                                                 \
    X(hipErrorContextIsDestroyed)                                                                            \
    X(hipErrorAssert)                                                                                        \
    X(hipErrorLaunchFailure)

#define vendorHostAllocMapped                hipHostMallocMapped
#define vendorHostAllocPortable              hipHostMallocPortable
#define vendorHostRegisterMapped             hipHostRegisterMapped
#define vendorHostRegisterPortable           hipHostRegisterPortable
#define vendorIpcMemLazyEnablePeerAccess     hipIpcMemLazyEnablePeerAccess
#define vendorStreamNonBlocking              hipStreamNonBlocking
#define vendorEventDefault                   hipEventDefault
#define vendorEventDisableTiming             hipEventDisableTiming
#define vendorMemcpyHostToDevice             hipMemcpyHostToDevice
#define vendorMemcpyDeviceToHost             hipMemcpyDeviceToHost
#define vendorMemcpyDeviceToDevice           hipMemcpyDeviceToDevice
#define vendorDevAttrMemoryPoolsSupported    hipDeviceAttributeMemoryPoolsSupported
#define vendorMemAccessFlagsProtReadWrite    hipMemAccessFlagsProtReadWrite
#define vendorMemAllocationTypePinned        hipMemAllocationTypePinned
#define vendorMemLocationTypeDevice          hipMemLocationTypeDevice
#define vendorStreamPerThread                hipStreamPerThread
#define vendorStreamCaptureModeRelaxed       hipStreamCaptureModeRelaxed
#define vendorStreamCaptureStatusNone        hipStreamCaptureStatusNone
#define vendorStreamCaptureStatusActive      hipStreamCaptureStatusActive
#define vendorStreamCaptureStatusInvalidated hipStreamCaptureStatusInvalidated

#define vendorDeviceCanAccessPeer             hipDeviceCanAccessPeer
#define vendorDeviceEnablePeerAccess          hipDeviceEnablePeerAccess
#define vendorDeviceGetAttribute              hipDeviceGetAttribute
#define vendorDeviceSynchronize               hipDeviceSynchronize
#define vendorDriverGetVersion                hipDriverGetVersion
#define vendorEventCreateWithFlags            hipEventCreateWithFlags
#define vendorEventDestroy                    hipEventDestroy
#define vendorEventElapsedTime                hipEventElapsedTime
#define vendorEventQuery                      hipEventQuery
#define vendorEventRecord                     hipEventRecord
#define vendorEventSynchronize                hipEventSynchronize
#define vendorFree                            hipFree
#define vendorFreeAsync                       hipFreeAsync
#define vendorFreeHost                        hipHostFree
#define vendorGetDevice                       hipGetDevice
#define vendorGetDeviceCount                  hipGetDeviceCount
#define vendorGetDeviceProperties             hipGetDeviceProperties
#define vendorGetErrorName                    hipGetErrorName
#define vendorGetErrorString                  hipGetErrorString
#define vendorGetLastError                    hipGetLastError
#define vendorHostAlloc                       hipHostMalloc
#define vendorHostGetDevicePointer            hipHostGetDevicePointer
#define vendorHostRegister                    hipHostRegister
#define vendorHostUnregister                  hipHostUnregister
#define vendorIpcCloseMemHandle               hipIpcCloseMemHandle
#define vendorIpcGetMemHandle                 hipIpcGetMemHandle
#define vendorIpcOpenMemHandle                hipIpcOpenMemHandle
#define vendorLaunchHostFunc                  dao_hip_launch_host_func
#define vendorMalloc                          hipMalloc
#define vendorMallocFromPoolAsync             hipMallocFromPoolAsync
#define vendorMemGetAddressRange              hipMemGetAddressRange
#define vendorMemGetInfo                      hipMemGetInfo
#define vendorMemPoolCreate                   hipMemPoolCreate
#define vendorMemPoolDestroy                  hipMemPoolDestroy
#define vendorMemPoolSetAccess                hipMemPoolSetAccess
#define vendorMemcpyAsync                     hipMemcpyAsync
#define vendorMemcpyPeerAsync                 hipMemcpyPeerAsync
#define vendorMemsetAsync                     hipMemsetAsync
#define vendorRuntimeGetVersion               hipRuntimeGetVersion
#define vendorSetDevice                       hipSetDevice
#define vendorStreamCreateWithFlags           hipStreamCreateWithFlags
#define vendorStreamDestroy                   hipStreamDestroy
#define vendorStreamGetCaptureInfo            hipStreamGetCaptureInfo
#define vendorStreamGetId                     dao_hip_stream_id
#define vendorStreamSynchronize               hipStreamSynchronize
#define vendorStreamWaitEvent                 hipStreamWaitEvent
#define vendorThreadExchangeStreamCaptureMode hipThreadExchangeStreamCaptureMode

#define vendorVmm_t           hipMemGenericAllocationHandle_t
#define vendorVmmAllow        dao_hip_vmm_allow
#define vendorVmmCreate       dao_hip_vmm_create
#define vendorVmmCreateShared dao_hip_vmm_create_shared
#define vendorVmmDestroy      hipMemRelease
#define vendorVmmExport       dao_hip_vmm_export
#define vendorVmmGranularity  dao_hip_vmm_granularity
#define vendorVmmImport       dao_hip_vmm_import
#define vendorVmmMap          dao_hip_vmm_map
#define vendorVmmRelease      hipMemAddressFree
#define vendorVmmReserve      dao_hip_vmm_reserve
#define vendorVmmShareable    dao_hip_vmm_shareable
#define vendorVmmUnmap        hipMemUnmap

#endif
