/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback driver's own names for what backends/vendor/ calls; see backends/cuda/names.h. */
#ifndef DAO_TESTS_LOOPBACK_OWN_NAMES_H
#define DAO_TESTS_LOOPBACK_OWN_NAMES_H

#include "tests/loopback/names/own.h"

#include <dao/dlpack_abi.h>

#define VENDOR_BACKEND_NAME       "loopback"
#define VENDOR_NAME               "LOOPBACK"
#define VENDOR_DRIVER             "the loopback driver"
#define VENDOR_LIST_DEVICES       "loopback-list"
#define VENDOR_VISIBLE_DEVICES    "LOOPBACK_VISIBLE_DEVICES"
#define VENDOR_VERSION_MAJOR(v)   ((v) / 1000)
#define VENDOR_VERSION_MINOR(v)   ((v) % 1000 / 10)
#define VENDOR_PER_THREAD         "LOOPBACK_STREAM_PER_THREAD"
#define VENDOR_DLPACK_DEVICE      12 /* kDLExtDev: none of the library's backends has it */
#define VENDOR_DLPACK_MANAGED     0
#define VENDOR_DLPACK_PINNED      kDLCPU
#define VENDOR_ALIASES_FROM_MAJOR 8
#define VENDOR_TRIES_PAGES        1
#define VENDOR_UNMAPS_RUNS        1

#define VENDOR_LOST_LIST(X)                                                                                  \
    X(LOOPBACK_ERROR_ILLEGAL_ADDRESS)                                                                        \
    X(LOOPBACK_ERROR_LAUNCH_TIMEOUT)                                                                         \
    X(LOOPBACK_ERROR_LAUNCH_FAILURE)

#define vendorError_t               loopback_error_t
#define vendorStream_t              loopback_stream_t
#define vendorEvent_t               loopback_event_t
#define vendorDeviceProp_t          loopback_device_prop_t
#define vendorMemcpyKind_t          loopback_copy_kind_t
#define vendorDeviceAttr_t          int
#define vendorMemAccessDesc_t       loopback_access_t
#define vendorMemPoolProps_t        loopback_pool_props_t
#define vendorMemPool_t             loopback_pool_t
#define vendorIpcMemHandle_t        loopback_ipc_handle_t
#define vendorStreamCaptureMode_t   loopback_capture_mode_t
#define vendorStreamCaptureStatus_t loopback_capture_status_t

#define vendorSuccess                          LOOPBACK_SUCCESS
#define vendorErrorInvalidValue                LOOPBACK_ERROR_INVALID_VALUE
#define vendorErrorMemoryAllocation            LOOPBACK_ERROR_MEMORY_ALLOCATION
#define vendorErrorInvalidHandle               LOOPBACK_ERROR_INVALID_HANDLE
#define vendorErrorNotReady                    LOOPBACK_ERROR_NOT_READY
#define vendorErrorNoDevice                    LOOPBACK_ERROR_NO_DEVICE
#define vendorErrorInvalidDevice               LOOPBACK_ERROR_INVALID_DEVICE
#define vendorErrorInsufficientDriver          LOOPBACK_ERROR_INSUFFICIENT_DRIVER
#define vendorErrorNotPermitted                LOOPBACK_ERROR_NOT_PERMITTED
#define vendorErrorNotSupported                LOOPBACK_ERROR_NOT_SUPPORTED
#define vendorErrorHostMemoryAlreadyRegistered LOOPBACK_ERROR_HOST_MEMORY_ALREADY_REGISTERED
#define vendorErrorHostMemoryNotRegistered     LOOPBACK_ERROR_HOST_MEMORY_NOT_REGISTERED
#define vendorErrorPeerAccessAlreadyEnabled    LOOPBACK_ERROR_PEER_ACCESS_ALREADY_ENABLED
#define vendorErrorPeerAccessUnsupported       LOOPBACK_ERROR_PEER_ACCESS_UNSUPPORTED
#define vendorErrorStreamCaptureUnsupported    LOOPBACK_ERROR_STREAM_CAPTURE_UNSUPPORTED
#define vendorErrorStreamCaptureImplicit       LOOPBACK_ERROR_STREAM_CAPTURE_IMPLICIT
#define vendorErrorCapturedEvent               LOOPBACK_ERROR_CAPTURED_EVENT

#define vendorHostAllocMapped                LOOPBACK_HOST_ALLOC_MAPPED
#define vendorHostRegisterMapped             LOOPBACK_HOST_REGISTER_MAPPED
#define vendorHostRegisterPortable           LOOPBACK_HOST_REGISTER_PORTABLE
#define vendorHostAllocPortable              LOOPBACK_HOST_ALLOC_PORTABLE
#define vendorIpcMemLazyEnablePeerAccess     LOOPBACK_IPC_LAZY_ENABLE_PEER_ACCESS
#define vendorStreamNonBlocking              LOOPBACK_STREAM_NON_BLOCKING
#define vendorEventDefault                   LOOPBACK_EVENT_DEFAULT
#define vendorEventDisableTiming             LOOPBACK_EVENT_DISABLE_TIMING
#define vendorMemcpyHostToDevice             LOOPBACK_HOST_TO_DEVICE
#define vendorMemcpyDeviceToHost             LOOPBACK_DEVICE_TO_HOST
#define vendorMemcpyDeviceToDevice           LOOPBACK_DEVICE_TO_DEVICE
#define vendorDevAttrMemoryPoolsSupported    LOOPBACK_ATTRIBUTE_MEMORY_POOLS
#define vendorMemAccessFlagsProtReadWrite    LOOPBACK_ACCESS_READ_WRITE
#define vendorMemAllocationTypePinned        LOOPBACK_POOL_PINNED
#define vendorMemLocationTypeDevice          LOOPBACK_LOCATION_DEVICE
#define vendorStreamPerThread                LOOPBACK_STREAM_PER_THREAD
#define vendorStreamCaptureModeRelaxed       LOOPBACK_CAPTURE_RELAXED
#define vendorStreamCaptureStatusNone        LOOPBACK_CAPTURE_NONE
#define vendorStreamCaptureStatusActive      LOOPBACK_CAPTURE_ACTIVE
#define vendorStreamCaptureStatusInvalidated LOOPBACK_CAPTURE_INVALIDATED

#define vendorCopyBatch                       loopback_copy_batch
#define vendorDeviceCanAccessPeer             loopback_device_can_access_peer
#define vendorDeviceEnablePeerAccess          loopback_device_enable_peer_access
#define vendorDeviceGetAttribute              loopback_device_get_attribute
#define vendorDeviceSynchronize               loopback_device_synchronize
#define vendorDriverGetVersion                loopback_driver_get_version
#define vendorEventCreateWithFlags            loopback_event_create
#define vendorEventDestroy                    loopback_event_destroy
#define vendorEventElapsedTime                loopback_event_elapsed_time
#define vendorEventQuery                      loopback_event_query
#define vendorEventRecord                     loopback_event_record
#define vendorEventSynchronize                loopback_event_synchronize
#define vendorFree                            loopback_free
#define vendorFreeAsync                       loopback_free_async
#define vendorFreeHost                        loopback_free_host
#define vendorGetDevice                       loopback_get_device
#define vendorGetDeviceCount                  loopback_get_device_count
#define vendorGetDeviceProperties             loopback_get_device_properties
#define vendorGetErrorName                    loopback_get_error_name
#define vendorGetErrorString                  loopback_get_error_string
#define vendorGetLastError                    loopback_get_last_error
#define vendorHostAlloc                       loopback_host_alloc
#define vendorHostGetDevicePointer            loopback_host_get_device_pointer
#define vendorHostRegister                    loopback_host_register
#define vendorHostUnregister                  loopback_host_unregister
#define vendorIpcCloseMemHandle               loopback_ipc_close_handle
#define vendorIpcGetMemHandle                 loopback_ipc_get_handle
#define vendorIpcOpenMemHandle                loopback_ipc_open_handle
#define vendorLaunchHostFunc                  loopback_launch_host_func
#define vendorMalloc                          loopback_malloc
#define vendorMallocFromPoolAsync             loopback_malloc_from_pool_async
#define vendorMemGetAddressRange              loopback_mem_get_address_range
#define vendorMemGetInfo                      loopback_mem_get_info
#define vendorMemPoolCreate                   loopback_pool_create
#define vendorMemPoolDestroy                  loopback_pool_destroy
#define vendorMemPoolSetAccess                loopback_pool_set_access
#define vendorMemcpyAsync                     loopback_memcpy_async
#define vendorMemcpyPeerAsync                 loopback_memcpy_peer_async
#define vendorMemsetAsync                     loopback_memset_async
#define vendorRuntimeGetVersion               loopback_runtime_get_version
#define vendorSetDevice                       loopback_set_device
#define vendorStreamCreateWithFlags           loopback_stream_create
#define vendorStreamDestroy                   loopback_stream_destroy
#define vendorStreamGetCaptureInfo            loopback_stream_get_capture_info
#define vendorStreamGetId                     loopback_stream_get_id
#define vendorStreamSynchronize               loopback_stream_synchronize
#define vendorStreamWaitEvent                 loopback_stream_wait_event
#define vendorStreamWaitWord                  loopback_stream_wait_word
#define vendorThreadExchangeStreamCaptureMode loopback_thread_exchange_capture_mode

#define vendorVmm_t           void *
#define vendorVmmAllow        loopback_vmm_allow
#define vendorVmmCreate       loopback_vmm_create
#define vendorVmmCreateShared loopback_vmm_create_shared
#define vendorVmmDestroy      loopback_vmm_destroy
#define vendorVmmExport       loopback_vmm_export
#define vendorVmmGranularity  loopback_vmm_granularity
#define vendorVmmImport       loopback_vmm_import
#define vendorVmmMap          loopback_vmm_map
#define vendorVmmRelease      loopback_vmm_release
#define vendorVmmReserve      loopback_vmm_reserve
#define vendorVmmShareable    loopback_vmm_shareable
#define vendorVmmUnmap        loopback_vmm_unmap

#include "tests/loopback/vmm.h"

#endif
