/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback driver as a vendor of its own: its types and calls in builds for cpu, where there is no
   vendor's header. The calls mean what CUDA's of the same name mean. */
#ifndef DAO_TESTS_LOOPBACK_OWN_H
#define DAO_TESTS_LOOPBACK_OWN_H

#include <stddef.h>
#include <stdint.h>

#define LOOPBACK_HOST_ALLOC_PORTABLE    1u
#define LOOPBACK_HOST_ALLOC_MAPPED      2u
#define LOOPBACK_HOST_REGISTER_PORTABLE 1u
#define LOOPBACK_HOST_REGISTER_MAPPED   2u
#define LOOPBACK_STREAM_NON_BLOCKING    1u
#define LOOPBACK_EVENT_DEFAULT          0u
#define LOOPBACK_EVENT_DISABLE_TIMING   2u

/* Numbered as CUDA's and HIP's. */
typedef enum loopback_error {
    LOOPBACK_SUCCESS = 0,
    LOOPBACK_ERROR_INVALID_VALUE = 1,
    LOOPBACK_ERROR_MEMORY_ALLOCATION = 2,
    LOOPBACK_ERROR_INSUFFICIENT_DRIVER = 35,
    LOOPBACK_ERROR_NO_DEVICE = 100,
    LOOPBACK_ERROR_INVALID_DEVICE = 101,
    LOOPBACK_ERROR_PEER_ACCESS_UNSUPPORTED = 217,
    LOOPBACK_ERROR_INVALID_HANDLE = 400,
    LOOPBACK_ERROR_NOT_READY = 600,
    LOOPBACK_ERROR_ILLEGAL_ADDRESS = 700,
    LOOPBACK_ERROR_LAUNCH_TIMEOUT = 702,
    LOOPBACK_ERROR_PEER_ACCESS_ALREADY_ENABLED = 704,
    LOOPBACK_ERROR_HOST_MEMORY_ALREADY_REGISTERED = 712,
    LOOPBACK_ERROR_HOST_MEMORY_NOT_REGISTERED = 713,
    LOOPBACK_ERROR_LAUNCH_FAILURE = 719,
    LOOPBACK_ERROR_NOT_PERMITTED = 800,
    LOOPBACK_ERROR_NOT_SUPPORTED = 801,
    LOOPBACK_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
    LOOPBACK_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
    LOOPBACK_ERROR_CAPTURED_EVENT = 907,
} loopback_error_t;

typedef enum loopback_copy_kind {
    LOOPBACK_HOST_TO_DEVICE = 1,
    LOOPBACK_DEVICE_TO_HOST = 2,
    LOOPBACK_DEVICE_TO_DEVICE = 3,
} loopback_copy_kind_t;

typedef enum loopback_capture_mode {
    LOOPBACK_CAPTURE_GLOBAL = 0, /* as a thread begins */
    LOOPBACK_CAPTURE_RELAXED = 2,
} loopback_capture_mode_t;

typedef enum loopback_capture_status {
    LOOPBACK_CAPTURE_NONE = 0,
    LOOPBACK_CAPTURE_ACTIVE = 1,
    LOOPBACK_CAPTURE_INVALIDATED = 2,
} loopback_capture_status_t;

#define LOOPBACK_IPC_LAZY_ENABLE_PEER_ACCESS 1u

typedef struct loopback_ipc_handle {
    char reserved[64];
} loopback_ipc_handle_t;

#define LOOPBACK_ATTRIBUTE_MEMORY_POOLS 115
#define LOOPBACK_POOL_PINNED            1
#define LOOPBACK_LOCATION_DEVICE        1
#define LOOPBACK_ACCESS_READ_WRITE      3

typedef struct loopback_location {
    int type;
    int id;
} loopback_location_t;

typedef struct loopback_pool_props {
    int allocType;
    int handleTypes;
    loopback_location_t location;
} loopback_pool_props_t;

typedef struct loopback_access {
    loopback_location_t location;
    int flags;
} loopback_access_t;

typedef struct loopback_pool *loopback_pool_t;

typedef struct loopback_device_prop {
    char name[256];
    int major;
    int minor;
    int multiProcessorCount;
    int pciDomainID;
    int pciBusID;
    int pciDeviceID;
} loopback_device_prop_t;

typedef struct loopback_stream *loopback_stream_t;
typedef struct loopback_event *loopback_event_t;

#define LOOPBACK_STREAM_PER_THREAD ((loopback_stream_t)2)

loopback_error_t loopback_copy_batch(void *const *dsts, const void *const *srcs, const size_t *sizes,
                                     size_t count, loopback_stream_t stream);
loopback_error_t loopback_device_can_access_peer(int *out_can, int device, int peer);
loopback_error_t loopback_device_enable_peer_access(int peer, unsigned flags);
loopback_error_t loopback_device_get_attribute(int *out_value, int attribute, int device);
loopback_error_t loopback_device_synchronize(void);
loopback_error_t loopback_driver_get_version(int *out_version);
loopback_error_t loopback_event_create(loopback_event_t *out_event, unsigned flags);
loopback_error_t loopback_event_destroy(loopback_event_t event);
loopback_error_t loopback_event_elapsed_time(float *out_ms, loopback_event_t begin, loopback_event_t end);
loopback_error_t loopback_event_query(loopback_event_t event);
loopback_error_t loopback_event_record(loopback_event_t event, loopback_stream_t stream);
loopback_error_t loopback_event_synchronize(loopback_event_t event);
loopback_error_t loopback_free(void *address);
loopback_error_t loopback_free_async(void *address, loopback_stream_t stream);
loopback_error_t loopback_free_host(void *address);
loopback_error_t loopback_get_device(int *out_device);
loopback_error_t loopback_get_device_count(int *out_count);
loopback_error_t loopback_get_device_properties(loopback_device_prop_t *out_properties, int device);
const char *loopback_get_error_name(loopback_error_t error);
const char *loopback_get_error_string(loopback_error_t error);
loopback_error_t loopback_get_last_error(void);
loopback_error_t loopback_host_alloc(void **out_address, size_t size_bytes, unsigned flags);
loopback_error_t loopback_host_get_device_pointer(void **out_address, void *address, unsigned flags);
loopback_error_t loopback_host_register(void *address, size_t size_bytes, unsigned flags);
loopback_error_t loopback_host_unregister(void *address);
loopback_error_t loopback_ipc_close_handle(void *address);
loopback_error_t loopback_ipc_get_handle(loopback_ipc_handle_t *out_handle, void *address);
loopback_error_t loopback_ipc_open_handle(void **out_address, loopback_ipc_handle_t handle, unsigned flags);
loopback_error_t loopback_launch_host_func(loopback_stream_t stream, void (*function)(void *), void *user);
loopback_error_t loopback_malloc(void **out_address, size_t size_bytes);
loopback_error_t loopback_malloc_from_pool_async(void **out_address, size_t size_bytes, loopback_pool_t pool,
                                                 loopback_stream_t stream);
loopback_error_t loopback_pool_create(loopback_pool_t *out_pool, const loopback_pool_props_t *props);
loopback_error_t loopback_pool_destroy(loopback_pool_t pool);
loopback_error_t loopback_pool_set_access(loopback_pool_t pool, const loopback_access_t *accesses,
                                          size_t count);
loopback_error_t loopback_mem_get_address_range(void **out_base, size_t *out_size_bytes, void *address);
loopback_error_t loopback_mem_get_info(size_t *out_free, size_t *out_total);
loopback_error_t loopback_memcpy_async(void *dst, const void *src, size_t size_bytes,
                                       loopback_copy_kind_t kind, loopback_stream_t stream);
loopback_error_t loopback_memcpy_peer_async(void *dst, int dst_device, const void *src, int src_device,
                                            size_t size_bytes, loopback_stream_t stream);
loopback_error_t loopback_memset_async(void *dst, int value, size_t size_bytes, loopback_stream_t stream);
loopback_error_t loopback_runtime_get_version(int *out_version);
loopback_error_t loopback_set_device(int device);
loopback_error_t loopback_stream_begin_capture(loopback_stream_t stream, loopback_capture_mode_t mode);
loopback_error_t loopback_stream_create(loopback_stream_t *out_stream, unsigned flags);
loopback_error_t loopback_stream_destroy(loopback_stream_t stream);
loopback_error_t loopback_stream_end_capture(loopback_stream_t stream, void **out_graph);
loopback_error_t loopback_stream_get_capture_info(loopback_stream_t stream,
                                                  loopback_capture_status_t *out_status,
                                                  unsigned long long *out_id);
loopback_error_t loopback_stream_get_id(loopback_stream_t stream, unsigned long long *out_id);
loopback_error_t loopback_stream_synchronize(loopback_stream_t stream);
loopback_error_t loopback_thread_exchange_capture_mode(loopback_capture_mode_t *mode);
loopback_error_t loopback_stream_wait_event(loopback_stream_t stream, loopback_event_t event, unsigned flags);
loopback_error_t loopback_stream_wait_word(loopback_stream_t stream, void *word, uint32_t value);

#endif
