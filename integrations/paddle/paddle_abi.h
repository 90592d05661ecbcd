/* SPDX-License-Identifier: Apache-2.0 */
/* The part of Paddle's interface for custom devices that the plug-in fills: the beginning of
   C_DeviceInterface and of CustomRuntimeParams, as in paddle/phi/backends/device_ext.h. Paddle 2.4, 2.6
   and 3.x agree on it, and differ behind it: in what a device can compute, communicate and profile. No
   package of Debian has it. */
#ifndef DAO_INTEGRATIONS_PADDLE_ABI_H
#define DAO_INTEGRATIONS_PADDLE_ABI_H

#include <assert.h>
#include <stddef.h>

typedef enum paddle_status {
    PADDLE_SUCCESS = 0,
    PADDLE_WARNING = 1, /* Paddle takes it for a failure */
    PADDLE_FAILED = 2,  /* nothing left, or not ready */
    PADDLE_ERROR = 3,   /* an argument is wrong */
    PADDLE_INTERNAL_ERROR = 4,
} paddle_status_t;

typedef struct paddle_device {
    int id;
} paddle_device_t;

typedef const paddle_device_t *paddle_device_in_t; /* C_Device is a pointer; written where so named alone */
typedef struct paddle_stream paddle_stream_t;
typedef struct paddle_event paddle_event_t;
typedef void (*paddle_callback_t)(paddle_device_t *device, paddle_stream_t *stream, void *user,
                                  paddle_status_t *out_status);

#define PADDLE_RESERVED 8 /* pointers behind each part */

typedef struct paddle_interface {
    size_t size_bytes; /* of Paddle's table, which Paddle fills */

    paddle_status_t (*initialize)(void);
    paddle_status_t (*finalize)(void);
    paddle_status_t (*init_device)(paddle_device_t *device);
    paddle_status_t (*set_device)(paddle_device_in_t device);
    paddle_status_t (*get_device)(paddle_device_t *out_device);
    paddle_status_t (*deinit_device)(paddle_device_in_t device);
    paddle_status_t (*create_stream)(paddle_device_in_t device, paddle_stream_t **out_stream);
    paddle_status_t (*destroy_stream)(paddle_device_in_t device, paddle_stream_t *stream);
    paddle_status_t (*query_stream)(paddle_device_in_t device, paddle_stream_t *stream);
    paddle_status_t (*stream_add_callback)(paddle_device_in_t device, paddle_stream_t *stream,
                                           paddle_callback_t callback, void *user);
    paddle_status_t (*create_event)(paddle_device_in_t device, paddle_event_t **out_event);
    paddle_status_t (*record_event)(paddle_device_in_t device, paddle_stream_t *stream,
                                    paddle_event_t *event);
    paddle_status_t (*destroy_event)(paddle_device_in_t device, paddle_event_t *event);
    paddle_status_t (*query_event)(paddle_device_in_t device, paddle_event_t *event);
    paddle_status_t (*synchronize_device)(paddle_device_in_t device);
    paddle_status_t (*synchronize_stream)(paddle_device_in_t device, paddle_stream_t *stream);
    paddle_status_t (*synchronize_event)(paddle_device_in_t device, paddle_event_t *event);
    paddle_status_t (*stream_wait_event)(paddle_device_in_t device, paddle_stream_t *stream,
                                         paddle_event_t *event);
    void *reserved_device[PADDLE_RESERVED];

    paddle_status_t (*device_memory_allocate)(paddle_device_in_t device, void **out_address,
                                              size_t size_bytes);
    paddle_status_t (*device_memory_deallocate)(paddle_device_in_t device, void *address, size_t size_bytes);
    paddle_status_t (*device_memory_set)(paddle_device_in_t device, void *address, unsigned char value,
                                         size_t size_bytes);
    paddle_status_t (*host_memory_allocate)(paddle_device_in_t device, void **out_address, size_t size_bytes);
    paddle_status_t (*host_memory_deallocate)(paddle_device_in_t device, void *address, size_t size_bytes);
    paddle_status_t (*unified_memory_allocate)(paddle_device_in_t device, void **out_address,
                                               size_t size_bytes);
    paddle_status_t (*unified_memory_deallocate)(paddle_device_in_t device, void *address, size_t size_bytes);
    paddle_status_t (*memory_copy_h2d)(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes);
    paddle_status_t (*memory_copy_d2h)(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes);
    paddle_status_t (*memory_copy_d2d)(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes);
    paddle_status_t (*memory_copy_p2p)(paddle_device_in_t dst_device, paddle_device_in_t src_device,
                                       void *dst, const void *src, size_t size_bytes);
    paddle_status_t (*async_memory_copy_h2d)(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes);
    paddle_status_t (*async_memory_copy_d2h)(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes);
    paddle_status_t (*async_memory_copy_d2d)(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes);
    paddle_status_t (*async_memory_copy_p2p)(paddle_device_in_t dst_device, paddle_device_in_t src_device,
                                             paddle_stream_t *stream, void *dst, const void *src,
                                             size_t size_bytes);
    void *reserved_memory[PADDLE_RESERVED];

    paddle_status_t (*get_device_count)(size_t *out_count);
    paddle_status_t (*get_device_list)(size_t *out_devices);
    paddle_status_t (*device_memory_stats)(paddle_device_in_t device, size_t *out_total_bytes,
                                           size_t *out_free_bytes);
    paddle_status_t (*device_min_chunk_size)(paddle_device_in_t device, size_t *out_bytes);
    paddle_status_t (*device_max_chunk_size)(paddle_device_in_t device, size_t *out_bytes);
    paddle_status_t (*device_max_alloc_size)(paddle_device_in_t device, size_t *out_bytes);
    paddle_status_t (*device_extra_padding_size)(paddle_device_in_t device, size_t *out_bytes);
} paddle_interface_t;

typedef struct paddle_params {
    size_t size_bytes; /* of Paddle's, which Paddle fills */
    paddle_interface_t *interface;
    struct {
        size_t major, minor, patch;
    } version; /* of the interface: Paddle takes the one that it has, or a later one */
    const char *device_type;
    const char *sub_device_type;
} paddle_params_t;

static_assert(sizeof(paddle_status_t) == sizeof(int), "Paddle's statuses are ints");
static_assert(offsetof(paddle_interface_t, device_memory_allocate) == 27 * sizeof(void *),
              "18 and 8 come first");
static_assert(offsetof(paddle_interface_t, get_device_count) == 50 * sizeof(void *), "15 and 8 more");
static_assert(sizeof(paddle_interface_t) == 57 * sizeof(void *), "and seven");
static_assert(sizeof(paddle_params_t) == 7 * sizeof(void *), "seven words");

#endif
