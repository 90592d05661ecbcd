/* The fake vendor's names for what backends/vendor/vendor.c calls; see backends/cuda/names.h. */
#ifndef DAO_TESTS_SUPPORT_FAKE_VENDOR_NAMES_H
#define DAO_TESTS_SUPPORT_FAKE_VENDOR_NAMES_H

#include "tests/support/fake_vendor.h"

/* Builds for cuda and hip have a table of the other name already. */
#define dao_vendor_backend_ops dao_fake_vendor_ops

#define VENDOR_BACKEND_NAME     "fake"
#define VENDOR_NAME             "FAKE"
#define VENDOR_DRIVER           "the fake driver"
#define VENDOR_LIST_DEVICES     "fake-list"
#define VENDOR_VISIBLE_DEVICES  "FAKE_VISIBLE_DEVICES"
#define VENDOR_VERSION_MAJOR(v) ((v) / 1000)
#define VENDOR_VERSION_MINOR(v) ((v) % 1000 / 10)
#define VENDOR_DLPACK_DEVICE    12 /* kDLExtDev */
#define VENDOR_DLPACK_MANAGED   0
#define VENDOR_DLPACK_PINNED    1
#define VENDOR_LOST_LIST(X)     X(FAKE_ERROR_ILLEGAL_ADDRESS)

#define vendorError_t      fake_error_t
#define vendorStream_t     fake_stream_t
#define vendorEvent_t      fake_event_t
#define vendorDeviceProp_t fake_device_prop_t
#define vendorMemcpyKind_t fake_copy_kind_t

#define vendorSuccess                 FAKE_SUCCESS
#define vendorErrorMemoryAllocation   FAKE_ERROR_MEMORY_ALLOCATION
#define vendorErrorNotReady           FAKE_ERROR_NOT_READY
#define vendorErrorNoDevice           FAKE_ERROR_NO_DEVICE
#define vendorErrorInvalidDevice      FAKE_ERROR_INVALID_DEVICE
#define vendorErrorInsufficientDriver FAKE_ERROR_INSUFFICIENT_DRIVER

#define vendorHostAllocPortable    FAKE_HOST_ALLOC_PORTABLE
#define vendorStreamNonBlocking    FAKE_STREAM_NON_BLOCKING
#define vendorEventDefault         FAKE_EVENT_DEFAULT
#define vendorMemcpyHostToDevice   FAKE_HOST_TO_DEVICE
#define vendorMemcpyDeviceToHost   FAKE_DEVICE_TO_HOST
#define vendorMemcpyDeviceToDevice FAKE_DEVICE_TO_DEVICE

#define vendorDeviceSynchronize     fake_device_synchronize
#define vendorDriverGetVersion      fake_driver_get_version
#define vendorEventCreateWithFlags  fake_event_create
#define vendorEventDestroy          fake_event_destroy
#define vendorEventElapsedTime      fake_event_elapsed_time
#define vendorEventQuery            fake_event_query
#define vendorEventRecord           fake_event_record
#define vendorEventSynchronize      fake_event_synchronize
#define vendorFree                  fake_free
#define vendorFreeHost              fake_free_host
#define vendorGetDevice             fake_get_device
#define vendorGetDeviceCount        fake_get_device_count
#define vendorGetDeviceProperties   fake_get_device_properties
#define vendorGetErrorName          fake_get_error_name
#define vendorGetErrorString        fake_get_error_string
#define vendorGetLastError          fake_get_last_error
#define vendorHostAlloc             fake_host_alloc
#define vendorLaunchHostFunc        fake_launch_host_func
#define vendorMalloc                fake_malloc
#define vendorMemGetInfo            fake_mem_get_info
#define vendorMemcpyAsync           fake_memcpy_async
#define vendorMemcpyPeerAsync       fake_memcpy_peer_async
#define vendorMemsetAsync           fake_memset_async
#define vendorRuntimeGetVersion     fake_runtime_get_version
#define vendorSetDevice             fake_set_device
#define vendorStreamCreateWithFlags fake_stream_create
#define vendorStreamDestroy         fake_stream_destroy
#define vendorStreamSynchronize     fake_stream_synchronize
#define vendorStreamWaitEvent       fake_stream_wait_event

#endif
