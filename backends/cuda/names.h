/* SPDX-License-Identifier: Apache-2.0 */
/* CUDA's names for what backends/vendor/ uses: "vendor" instead of "cuda", the rest as CUDA spells it. */
#ifndef DAO_BACKENDS_CUDA_NAMES_H
#define DAO_BACKENDS_CUDA_NAMES_H

#include "backends/cuda/address_range.h"
#include "backends/cuda/batch.h"
#include "backends/cuda/capture.h"
#include "backends/cuda/context.h"
#include "backends/cuda/stream.h"
#include "backends/cuda/vmm.h"

#include <dao/dlpack_abi.h>

#include <cuda_runtime_api.h>

#define VENDOR_BACKEND_NAME     "cuda"
#define VENDOR_NAME             "CUDA"
#define VENDOR_DRIVER           "the NVIDIA driver"
#define VENDOR_LIST_DEVICES     "nvidia-smi"
#define VENDOR_VISIBLE_DEVICES  "CUDA_VISIBLE_DEVICES"
#define VENDOR_VERSION_MAJOR(v) ((v) / 1000)
#define VENDOR_VERSION_MINOR(v) ((v) % 1000 / 10)
#define VENDOR_PER_THREAD       "cudaStreamPerThread"
#define VENDOR_DLPACK_DEVICE    kDLCUDA
#define VENDOR_DLPACK_MANAGED   kDLCUDAManaged
#define VENDOR_DLPACK_PINNED    kDLCUDAHost

/* Least major compute capability of devices whose pages are mapped at several addresses unasked. */
#define VENDOR_ALIASES_FROM_MAJOR 8

/* Whether one unmapping takes several mappings side by side, as that of CUDA's sample vectorAddMMAP does. */
#define VENDOR_UNMAPS_RUNS 1

/* Whether pages are tried when a device is opened: see vendor.c. */
#define VENDOR_TRIES_PAGES 0

#define vendorError_t               cudaError_t
#define vendorStream_t              cudaStream_t
#define vendorEvent_t               cudaEvent_t
#define vendorDeviceProp_t          struct cudaDeviceProp
#define vendorMemcpyKind_t          enum cudaMemcpyKind
#define vendorDeviceAttr_t          enum cudaDeviceAttr
#define vendorMemAccessDesc_t       struct cudaMemAccessDesc
#define vendorMemPoolProps_t        struct cudaMemPoolProps
#define vendorMemPool_t             cudaMemPool_t
#define vendorIpcMemHandle_t        cudaIpcMemHandle_t
#define vendorStreamCaptureMode_t   enum cudaStreamCaptureMode
#define vendorStreamCaptureStatus_t enum cudaStreamCaptureStatus

#define vendorSuccess                          cudaSuccess
#define vendorErrorInvalidValue                cudaErrorInvalidValue
#define vendorErrorMemoryAllocation            cudaErrorMemoryAllocation
#define vendorErrorInvalidHandle               cudaErrorInvalidResourceHandle
#define vendorErrorNotReady                    cudaErrorNotReady
#define vendorErrorNoDevice                    cudaErrorNoDevice
#define vendorErrorInvalidDevice               cudaErrorInvalidDevice
#define vendorErrorInsufficientDriver          cudaErrorInsufficientDriver
#define vendorErrorNotPermitted                cudaErrorNotPermitted /* in a host function */
#define vendorErrorNotSupported                cudaErrorNotSupported
#define vendorErrorHostMemoryAlreadyRegistered cudaErrorHostMemoryAlreadyRegistered
#define vendorErrorHostMemoryNotRegistered     cudaErrorHostMemoryNotRegistered
#define vendorErrorPeerAccessAlreadyEnabled    cudaErrorPeerAccessAlreadyEnabled
#define vendorErrorPeerAccessUnsupported       cudaErrorPeerAccessUnsupported
#define vendorErrorStreamCaptureUnsupported    cudaErrorStreamCaptureUnsupported
#define vendorErrorStreamCaptureImplicit       cudaErrorStreamCaptureImplicit
#define vendorErrorCapturedEvent               cudaErrorCapturedEvent

/* After these the context answers nothing but the same error. Those by number: not every toolkit has the
   names. */
#define VENDOR_LOST_LIST(X)                                                                                  \
    X(cudaErrorCudartUnloading)                                                                              \
    X(cudaErrorECCUncorrectable)                                                                             \
    X(cudaErrorNvlinkUncorrectable)                                                                          \
    X(cudaErrorIllegalAddress)                                                                               \
    X(cudaErrorLaunchTimeout)                                                                                \
    X(cudaErrorContextIsDestroyed)                                                                           \
    X(cudaErrorAssert)                                                                                       \
    X(cudaErrorHardwareStackError)                                                                           \
    X(cudaErrorIllegalInstruction)                                                                           \
    X(cudaErrorMisalignedAddress)                                                                            \
    X(cudaErrorInvalidAddressSpace)                                                                          \
    X(cudaErrorInvalidPc)                                                                                    \
    X(cudaErrorLaunchFailure)                                                                                \
    X(226 /* cudaErrorContained */)                                                                          \
    X(721 /* cudaErrorTensorMemoryLeak */)                                                                   \
    X(810 /* cudaErrorMpsClientTerminated */)                                                                \
    X(911 /* cudaErrorExternalDevice */)

#define vendorHostAllocMapped                cudaHostAllocMapped
#define vendorHostAllocPortable              cudaHostAllocPortable
#define vendorHostRegisterMapped             cudaHostRegisterMapped
#define vendorHostRegisterPortable           cudaHostRegisterPortable
#define vendorIpcMemLazyEnablePeerAccess     cudaIpcMemLazyEnablePeerAccess
#define vendorStreamNonBlocking              cudaStreamNonBlocking
#define vendorEventDefault                   cudaEventDefault
#define vendorEventDisableTiming             cudaEventDisableTiming
#define vendorMemcpyHostToDevice             cudaMemcpyHostToDevice
#define vendorMemcpyDeviceToHost             cudaMemcpyDeviceToHost
#define vendorMemcpyDeviceToDevice           cudaMemcpyDeviceToDevice
#define vendorDevAttrMemoryPoolsSupported    cudaDevAttrMemoryPoolsSupported
#define vendorMemAccessFlagsProtReadWrite    cudaMemAccessFlagsProtReadWrite
#define vendorMemAllocationTypePinned        cudaMemAllocationTypePinned
#define vendorMemLocationTypeDevice          cudaMemLocationTypeDevice
#define vendorStreamPerThread                cudaStreamPerThread
#define vendorStreamCaptureModeRelaxed       cudaStreamCaptureModeRelaxed
#define vendorStreamCaptureStatusNone        cudaStreamCaptureStatusNone
#define vendorStreamCaptureStatusActive      cudaStreamCaptureStatusActive
#define vendorStreamCaptureStatusInvalidated cudaStreamCaptureStatusInvalidated

#define vendorContextEnter                    dao_cuda_context_enter
#define vendorContextLeave                    dao_cuda_context_leave
#define vendorContextStart                    dao_cuda_context_start
#define vendorCopyBatch                       dao_cuda_copy_batch
#define vendorDeviceCanAccessPeer             cudaDeviceCanAccessPeer
#define vendorDeviceEnablePeerAccess          cudaDeviceEnablePeerAccess
#define vendorDeviceGetAttribute              cudaDeviceGetAttribute
#define vendorDeviceSynchronize               cudaDeviceSynchronize
#define vendorDriverGetVersion                cudaDriverGetVersion
#define vendorEventCreateWithFlags            cudaEventCreateWithFlags
#define vendorEventDestroy                    cudaEventDestroy
#define vendorEventElapsedTime                cudaEventElapsedTime
#define vendorEventQuery                      cudaEventQuery
#define vendorEventRecord                     cudaEventRecord
#define vendorEventSynchronize                cudaEventSynchronize
#define vendorFree                            cudaFree
#define vendorFreeAsync                       cudaFreeAsync
#define vendorFreeHost                        cudaFreeHost
#define vendorGetDevice                       cudaGetDevice
#define vendorGetDeviceCount                  cudaGetDeviceCount
#define vendorGetDeviceProperties             cudaGetDeviceProperties
#define vendorGetErrorName                    cudaGetErrorName
#define vendorGetErrorString                  cudaGetErrorString
#define vendorGetLastError                    cudaGetLastError
#define vendorHostAlloc                       cudaHostAlloc
#define vendorHostGetDevicePointer            cudaHostGetDevicePointer
#define vendorHostRegister                    cudaHostRegister
#define vendorHostUnregister                  cudaHostUnregister
#define vendorIpcCloseMemHandle               cudaIpcCloseMemHandle
#define vendorIpcGetMemHandle                 cudaIpcGetMemHandle
#define vendorIpcOpenMemHandle                cudaIpcOpenMemHandle
#define vendorLaunchHostFunc                  cudaLaunchHostFunc
#define vendorMalloc                          cudaMalloc
#define vendorMallocFromPoolAsync             cudaMallocFromPoolAsync
#define vendorMemGetAddressRange              dao_cuda_address_range
#define vendorMemGetInfo                      cudaMemGetInfo
#define vendorMemPoolCreate                   cudaMemPoolCreate
#define vendorMemPoolDestroy                  cudaMemPoolDestroy
#define vendorMemPoolSetAccess                cudaMemPoolSetAccess
#define vendorMemcpyAsync                     cudaMemcpyAsync
#define vendorMemcpyPeerAsync                 cudaMemcpyPeerAsync
#define vendorMemsetAsync                     cudaMemsetAsync
#define vendorRuntimeGetVersion               cudaRuntimeGetVersion
#define vendorSetDevice                       cudaSetDevice
#define vendorStreamCreateWithFlags           cudaStreamCreateWithFlags
#define vendorStreamDestroy                   cudaStreamDestroy
#define vendorStreamGetCaptureInfo            dao_cuda_stream_get_capture_info
#define vendorStreamGetId                     dao_cuda_stream_id
#define vendorStreamSynchronize               cudaStreamSynchronize
#define vendorStreamWaitEvent                 cudaStreamWaitEvent
#define vendorStreamWaitWord                  dao_cuda_stream_wait_word
#define vendorThreadExchangeStreamCaptureMode cudaThreadExchangeStreamCaptureMode

#define vendorVmm_t           dao_cuda_vmm_t
#define vendorVmmAllow        dao_cuda_vmm_allow
#define vendorVmmCreate       dao_cuda_vmm_create
#define vendorVmmCreateShared dao_cuda_vmm_create_shared
#define vendorVmmDestroy      dao_cuda_vmm_destroy
#define vendorVmmExport       dao_cuda_vmm_export
#define vendorVmmGranularity  dao_cuda_vmm_granularity
#define vendorVmmImport       dao_cuda_vmm_import
#define vendorVmmMap          dao_cuda_vmm_map
#define vendorVmmRelease      dao_cuda_vmm_release
#define vendorVmmReserve      dao_cuda_vmm_reserve
#define vendorVmmShareable    dao_cuda_vmm_shareable
#define vendorVmmUnmap        dao_cuda_vmm_unmap

#endif
