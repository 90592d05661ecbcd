/* SPDX-License-Identifier: Apache-2.0 */
/* The library finds the stream of a handle (dao/native.h). Kept here is what a framework cannot be told: that
   a device was used, and that a stream could not be followed. */
#include "integrations/stream_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

typedef struct device_use {
    _Atomic bool is_used;       /* memory was allocated there */
    _Atomic bool waits_at_free; /* a stream could not be recorded: each free waits for the device */
} device_use_t;

static device_use_t devices[DAO_DEVICE_COUNT_MAX];
static pthread_once_t start_once = PTHREAD_ONCE_INIT;

static void start(void)
{
    if (dao_init(NULL) != DAO_OK) {
        (void)fprintf(stderr, "libdao did not start: %s\n", dao_last_message());
    }
}

static void report(const char *who, int device_index)
{
    (void)fprintf(stderr, "%s: device %d: %s: %s\n", who, device_index, dao_status_name(dao_last_status()),
                  dao_last_message());
}

static bool is_device(int device_index)
{
    return device_index >= 0 && device_index < DAO_DEVICE_COUNT_MAX;
}

/* Returns true if a call failed because the library cannot follow its stream, and not for want of memory. */
static bool cannot_follow(dao_status_t status)
{
    return status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_TOO_MANY || status == DAO_ERR_INVALID;
}

void *dao_stream_memory_alloc(const char *who, int device_index, size_t size_bytes, void *native_stream)
{
    (void)pthread_once(&start_once, start);
    void *address = dao_alloc_native(device_index, size_bytes, native_stream);
    if (address == NULL && size_bytes > 0 && cannot_follow(dao_last_status())) {
        address = dao_alloc(dao_device_place(device_index), size_bytes);
    }
    if (address == NULL && size_bytes > 0) {
        report(who, device_index);
    }
    if (is_device(device_index) &&
        !atomic_load_explicit(&devices[device_index].is_used, memory_order_relaxed)) {
        atomic_store(&devices[device_index].is_used, true);
    }
    return address;
}

void dao_stream_memory_free(const char *who, int device_index, void *address, void *native_stream)
{
    if (address == NULL) {
        return;
    }
    dao_status_t status = DAO_ERR_UNSUPPORTED;
    if (is_device(device_index) && !atomic_load(&devices[device_index].waits_at_free)) {
        status = dao_free_native(device_index, address, native_stream);
    }
    if (cannot_follow(status)) {
        status = dao_device_synchronize(device_index);
        status = status == DAO_OK ? dao_free(dao_device_place(device_index), address) : status;
    }
    if (status != DAO_OK) {
        report(who, device_index);
    }
}

bool dao_stream_memory_is_used(int device_index)
{
    return is_device(device_index) && atomic_load(&devices[device_index].is_used);
}

bool dao_stream_memory_record(void *address, void *native_stream)
{
    dao_place_t place;
    if (dao_address_place(address, &place) != DAO_OK || place.kind != DAO_PLACE_KIND_DEVICE ||
        !dao_stream_memory_is_used(place.index)) {
        return false;
    }
    if (dao_record_native(place.index, address, native_stream) != DAO_OK) {
        atomic_store(&devices[place.index].waits_at_free, true);
    }
    return true;
}
