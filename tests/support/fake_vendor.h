/* A vendor's runtime for tests: two devices over host memory whose streams do their work at once. It checks its caller
   (is the device of the stream current?), counts what is alive, and can make the n-th call fail with any error.
   With it, backends/vendor/vendor.c runs where there is no device and no toolkit. One thread at a time. */
#ifndef DAO_TESTS_SUPPORT_FAKE_VENDOR_H
#define DAO_TESTS_SUPPORT_FAKE_VENDOR_H

#include <stdbool.h>
#include <stddef.h>

#define FAKE_HOST_ALLOC_PORTABLE 1u
#define FAKE_STREAM_NON_BLOCKING 1u
#define FAKE_EVENT_DEFAULT       0u

typedef enum fake_error {
    FAKE_SUCCESS = 0,
    FAKE_ERROR_INVALID_VALUE = 1,
    FAKE_ERROR_MEMORY_ALLOCATION = 2,
    FAKE_ERROR_INSUFFICIENT_DRIVER = 35,
    FAKE_ERROR_NO_DEVICE = 100,
    FAKE_ERROR_INVALID_DEVICE = 101,
    FAKE_ERROR_NOT_READY = 600,
    FAKE_ERROR_ILLEGAL_ADDRESS = 700, /* after it the device answers nothing else */
} fake_error_t;

typedef enum fake_copy_kind {
    FAKE_HOST_TO_DEVICE = 1,
    FAKE_DEVICE_TO_HOST = 2,
    FAKE_DEVICE_TO_DEVICE = 3,
} fake_copy_kind_t;

typedef struct fake_device_prop {
    char name[256];
} fake_device_prop_t;

typedef struct fake_stream *fake_stream_t;
typedef struct fake_event *fake_event_t;

/* What a test sets and reads. */
typedef struct fake_vendor {
    int device_count;
    int driver_version;    /* 0: there is none */
    int refused_device;    /* cannot be made current; -1: none */
    bool events_are_late;  /* recorded events are not ready */
    float elapsed_ms;      /* between any two events */
    long calls_until_fail; /* this many succeed, then one fails; negative: none fails */
    fake_error_t failure;  /* how it fails */
    int current_device;
    fake_error_t last_error;
    long live_count;         /* streams, events, allocations */
    long wrong_device_count; /* calls made with another device current, flags that are not as expected */
    long peer_copy_count;
    long copy_count; /* plain copies */
} fake_vendor_t;

extern fake_vendor_t fake_vendor;

/* Makes everything as it was at the start: two devices, nothing fails. */
void fake_vendor_reset(void);

fake_error_t fake_device_synchronize(void);
fake_error_t fake_driver_get_version(int *out_version);
fake_error_t fake_event_create(fake_event_t *out_event, unsigned flags);
fake_error_t fake_event_destroy(fake_event_t event);
fake_error_t fake_event_elapsed_time(float *out_ms, fake_event_t begin, fake_event_t end);
fake_error_t fake_event_query(fake_event_t event);
fake_error_t fake_event_record(fake_event_t event, fake_stream_t stream);
fake_error_t fake_event_synchronize(fake_event_t event);
fake_error_t fake_free(void *address);
fake_error_t fake_free_host(void *address);
fake_error_t fake_get_device(int *out_device);
fake_error_t fake_get_device_count(int *out_count);
fake_error_t fake_get_device_properties(fake_device_prop_t *out_properties, int device);
const char *fake_get_error_name(fake_error_t error);
const char *fake_get_error_string(fake_error_t error);
fake_error_t fake_get_last_error(void);
fake_error_t fake_host_alloc(void **out_address, size_t size_bytes, unsigned flags);
fake_error_t fake_launch_host_func(fake_stream_t stream, void (*function)(void *), void *user);
fake_error_t fake_malloc(void **out_address, size_t size_bytes);
fake_error_t fake_mem_get_info(size_t *out_free, size_t *out_total);
fake_error_t fake_memcpy_async(void *dst, const void *src, size_t size_bytes, fake_copy_kind_t kind,
                               fake_stream_t stream);
fake_error_t fake_memcpy_peer_async(void *dst, int dst_device, const void *src, int src_device,
                                    size_t size_bytes, fake_stream_t stream);
fake_error_t fake_memset_async(void *dst, int value, size_t size_bytes, fake_stream_t stream);
fake_error_t fake_runtime_get_version(int *out_version);
fake_error_t fake_set_device(int device);
fake_error_t fake_stream_create(fake_stream_t *out_stream, unsigned flags);
fake_error_t fake_stream_destroy(fake_stream_t stream);
fake_error_t fake_stream_synchronize(fake_stream_t stream);
fake_error_t fake_stream_wait_event(fake_stream_t stream, fake_event_t event, unsigned flags);

#endif
