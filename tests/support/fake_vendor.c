/* The fake vendor: every counted call passes begin_call(), which fails it if it is its turn. */
#include "tests/support/fake_vendor.h"

#include <stdlib.h>
#include <string.h>

struct fake_stream {
    int device;
};

struct fake_event {
    int device;
    bool is_recorded;
};

fake_vendor_t fake_vendor;

void fake_vendor_reset(void)
{
    fake_vendor = (fake_vendor_t){
        .device_count = 2, .driver_version = 12020, .refused_device = -1, .calls_until_fail = -1};
}

static fake_error_t fail(fake_error_t error)
{
    fake_vendor.last_error = error;
    return error;
}

static fake_error_t begin_call(void)
{
    if (fake_vendor.calls_until_fail < 0 || fake_vendor.calls_until_fail-- > 0) {
        return FAKE_SUCCESS;
    }
    return fail(fake_vendor.failure);
}

/* A call on a stream or an event of `device`. */
static fake_error_t begin_call_on(int device)
{
    if (fake_vendor.current_device != device) {
        fake_vendor.wrong_device_count++;
    }
    return begin_call();
}

static void expect_flags(unsigned flags, unsigned expected)
{
    if (flags != expected) {
        fake_vendor.wrong_device_count++;
    }
}

static fake_error_t take(void **out_address, size_t size_bytes)
{
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_address = aligned_alloc(256, (size_bytes + 255) / 256 * 256);
        fake_vendor.live_count++;
    }
    return error;
}

static fake_error_t give(void *address)
{
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS && address != NULL) {
        free(address);
        fake_vendor.live_count--;
    }
    return error;
}

fake_error_t fake_malloc(void **out_address, size_t size_bytes)
{
    return take(out_address, size_bytes);
}

fake_error_t fake_host_alloc(void **out_address, size_t size_bytes, unsigned flags)
{
    expect_flags(flags, FAKE_HOST_ALLOC_PORTABLE);
    return take(out_address, size_bytes);
}

fake_error_t fake_free(void *address)
{
    return give(address);
}

fake_error_t fake_free_host(void *address)
{
    return give(address);
}

fake_error_t fake_mem_get_info(size_t *out_free, size_t *out_total)
{
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_free = 3000 + (size_t)fake_vendor.current_device;
        *out_total = 4000;
    }
    return error;
}

fake_error_t fake_get_device(int *out_device)
{
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_device = fake_vendor.current_device;
    }
    return error;
}

/* Not counted: nothing could mend it if the caller's device did not come back. */
fake_error_t fake_set_device(int device)
{
    if (device == fake_vendor.refused_device || device < 0 || device >= fake_vendor.device_count) {
        return fail(FAKE_ERROR_INVALID_DEVICE);
    }
    fake_vendor.current_device = device;
    return FAKE_SUCCESS;
}

fake_error_t fake_get_device_count(int *out_count)
{
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_count = fake_vendor.device_count;
    }
    return error;
}

fake_error_t fake_get_device_properties(fake_device_prop_t *out_properties, int device)
{
    fake_error_t error = begin_call_on(device);
    if (error == FAKE_SUCCESS) {
        memset(out_properties->name, 'x', sizeof(out_properties->name) - 1); /* longer than a name may be */
        out_properties->name[sizeof(out_properties->name) - 1] = '\0';
    }
    return error;
}

fake_error_t fake_driver_get_version(int *out_version)
{
    *out_version = fake_vendor.driver_version;
    return FAKE_SUCCESS;
}

fake_error_t fake_runtime_get_version(int *out_version)
{
    *out_version = 13000;
    return FAKE_SUCCESS;
}

fake_error_t fake_device_synchronize(void)
{
    return begin_call();
}

const char *fake_get_error_name(fake_error_t error)
{
    return error == FAKE_ERROR_MEMORY_ALLOCATION ? "fakeErrorMemoryAllocation" : "fakeError";
}

const char *fake_get_error_string(fake_error_t error)
{
    return error == FAKE_ERROR_MEMORY_ALLOCATION ? "out of memory" : "something failed";
}

fake_error_t fake_get_last_error(void)
{
    fake_error_t error = fake_vendor.last_error;
    fake_vendor.last_error = FAKE_SUCCESS;
    return error;
}

fake_error_t fake_stream_create(fake_stream_t *out_stream, unsigned flags)
{
    expect_flags(flags, FAKE_STREAM_NON_BLOCKING);
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_stream = calloc(1, sizeof(**out_stream));
        (*out_stream)->device = fake_vendor.current_device;
        fake_vendor.live_count++;
    }
    return error;
}

/* As with a real vendor, a failing destroy reports older work: the stream goes all the same. */
fake_error_t fake_stream_destroy(fake_stream_t stream)
{
    fake_error_t error = begin_call_on(stream->device);
    free(stream);
    fake_vendor.live_count--;
    return error;
}

fake_error_t fake_stream_synchronize(fake_stream_t stream)
{
    return begin_call_on(stream->device);
}

fake_error_t fake_stream_wait_event(fake_stream_t stream, fake_event_t event, unsigned flags)
{
    (void)event;
    expect_flags(flags, 0);
    return begin_call_on(stream->device);
}

fake_error_t fake_event_create(fake_event_t *out_event, unsigned flags)
{
    expect_flags(flags, FAKE_EVENT_DEFAULT);
    fake_error_t error = begin_call();
    if (error == FAKE_SUCCESS) {
        *out_event = calloc(1, sizeof(**out_event));
        (*out_event)->device = fake_vendor.current_device;
        fake_vendor.live_count++;
    }
    return error;
}

fake_error_t fake_event_destroy(fake_event_t event)
{
    fake_error_t error = begin_call_on(event->device);
    free(event);
    fake_vendor.live_count--;
    return error;
}

fake_error_t fake_event_record(fake_event_t event, fake_stream_t stream)
{
    fake_error_t error = begin_call_on(stream->device);
    if (error == FAKE_SUCCESS) {
        event->is_recorded = true;
    }
    return error;
}

fake_error_t fake_event_query(fake_event_t event)
{
    fake_error_t error = begin_call_on(event->device);
    if (error == FAKE_SUCCESS && event->is_recorded && fake_vendor.events_are_late) {
        return fail(FAKE_ERROR_NOT_READY);
    }
    return error;
}

fake_error_t fake_event_synchronize(fake_event_t event)
{
    return begin_call_on(event->device);
}

fake_error_t fake_event_elapsed_time(float *out_ms, fake_event_t begin, fake_event_t end)
{
    fake_error_t error = begin_call_on(end->device);
    if (error == FAKE_SUCCESS && !(begin->is_recorded && end->is_recorded)) {
        return fail(FAKE_ERROR_INVALID_VALUE);
    }
    if (error == FAKE_SUCCESS && fake_vendor.events_are_late) {
        return fail(FAKE_ERROR_NOT_READY);
    }
    if (error == FAKE_SUCCESS) {
        *out_ms = fake_vendor.elapsed_ms;
    }
    return error;
}

fake_error_t fake_launch_host_func(fake_stream_t stream, void (*function)(void *), void *user)
{
    fake_error_t error = begin_call_on(stream->device);
    if (error == FAKE_SUCCESS) {
        function(user);
    }
    return error;
}

fake_error_t fake_memcpy_async(void *dst, const void *src, size_t size_bytes, fake_copy_kind_t kind,
                               fake_stream_t stream)
{
    fake_error_t error = begin_call_on(stream->device);
    if (error == FAKE_SUCCESS && kind != FAKE_HOST_TO_DEVICE && kind != FAKE_DEVICE_TO_HOST &&
        kind != FAKE_DEVICE_TO_DEVICE) {
        return fail(FAKE_ERROR_INVALID_VALUE);
    }
    if (error == FAKE_SUCCESS) {
        memcpy(dst, src, size_bytes);
        fake_vendor.copy_count++;
    }
    return error;
}

fake_error_t fake_memcpy_peer_async(void *dst, int dst_device, const void *src, int src_device,
                                    size_t size_bytes, fake_stream_t stream)
{
    fake_error_t error = begin_call_on(stream->device);
    if (error == FAKE_SUCCESS && dst_device == src_device) {
        fake_vendor.wrong_device_count++;
    }
    if (error == FAKE_SUCCESS) {
        memcpy(dst, src, size_bytes);
        fake_vendor.peer_copy_count++;
    }
    return error;
}

fake_error_t fake_memset_async(void *dst, int value, size_t size_bytes, fake_stream_t stream)
{
    fake_error_t error = begin_call_on(stream->device);
    if (error == FAKE_SUCCESS) {
        memset(dst, value, size_bytes);
    }
    return error;
}
