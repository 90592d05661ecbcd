/* SPDX-License-Identifier: Apache-2.0 */
/* The adopted streams: a short list for each device, which only grows. It is read without a lock: an entry is
   written before the count that includes it. */
#include "integrations/stream_memory.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

/* Streams of a device that the library can follow. PyTorch makes up to 65; the rest take the slow path. */
#define STREAM_COUNT_MAX 63

typedef struct adopted {
    void *native;
    dao_stream_t *stream; /* the library's, for the rest of the process */
} adopted_t;

typedef struct device_streams {
    _Atomic uint32_t count;     /* of entries that are written */
    _Atomic bool waits_at_free; /* a stream could not be recorded: each free waits for the device */
    adopted_t entries[STREAM_COUNT_MAX];
} device_streams_t;

static device_streams_t devices[DAO_DEVICE_COUNT_MAX];
static pthread_mutex_t adopt_lock = PTHREAD_MUTEX_INITIALIZER;
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

static dao_stream_t *stream_among(const device_streams_t *streams, uint32_t count, const void *native)
{
    for (uint32_t i = 0; i < count; i++) {
        if (streams->entries[i].native == native) {
            return streams->entries[i].stream;
        }
    }
    return NULL;
}

static dao_stream_t *stream_adopt_locked(int device_index, void *native)
{
    device_streams_t *streams = &devices[device_index];
    uint32_t count = atomic_load_explicit(&streams->count, memory_order_relaxed);
    dao_stream_t *stream = stream_among(streams, count, native); /* another thread may have adopted it */
    if (stream != NULL || count == STREAM_COUNT_MAX ||
        dao_stream_adopt(device_index, native, &stream) != DAO_OK) {
        return stream;
    }
    streams->entries[count] = (adopted_t){native, stream};
    atomic_store_explicit(&streams->count, count + 1, memory_order_release);
    return stream;
}

/* Returns the stream for a native handle, adopted if need be; NULL if it cannot be adopted. */
static dao_stream_t *stream_find(int device_index, void *native)
{
    if (device_index < 0 || device_index >= DAO_DEVICE_COUNT_MAX) {
        return NULL;
    }
    device_streams_t *streams = &devices[device_index];
    uint32_t count = atomic_load_explicit(&streams->count, memory_order_acquire);
    dao_stream_t *stream = stream_among(streams, count, native);
    if (stream == NULL) {
        (void)pthread_once(&start_once, start);
        (void)pthread_mutex_lock(&adopt_lock);
        stream = stream_adopt_locked(device_index, native);
        (void)pthread_mutex_unlock(&adopt_lock);
    }
    return stream;
}

/* Returns true if the last call failed because the library cannot follow one more stream, and not for want of
   memory. */
static bool has_too_many_streams(void)
{
    return dao_last_status() == DAO_ERR_UNSUPPORTED || dao_last_status() == DAO_ERR_TOO_MANY;
}

void *dao_stream_memory_alloc(const char *who, int device_index, size_t size_bytes, void *native_stream)
{
    dao_device_place_t place = dao_device_place(device_index);
    dao_stream_t *stream = stream_find(device_index, native_stream);
    void *address = stream != NULL ? dao_alloc_async(place, size_bytes, stream) : NULL;
    if (address == NULL && size_bytes > 0 && (stream == NULL || has_too_many_streams())) {
        address = dao_alloc(place, size_bytes);
    }
    if (address == NULL && size_bytes > 0) {
        report(who, device_index);
    }
    return address;
}

void dao_stream_memory_free(const char *who, int device_index, void *address, void *native_stream)
{
    dao_device_place_t place = dao_device_place(device_index);
    if (address == NULL) {
        return;
    }
    dao_stream_t *stream = stream_find(device_index, native_stream);
    dao_status_t status = DAO_ERR_UNSUPPORTED;
    if (stream != NULL && !atomic_load(&devices[device_index].waits_at_free)) {
        status = dao_free_async(place, address, stream);
    }
    if (status == DAO_ERR_UNSUPPORTED || status == DAO_ERR_TOO_MANY) {
        status = dao_device_synchronize(device_index);
        status = status == DAO_OK ? dao_free(place, address) : status;
    }
    if (status != DAO_OK) {
        report(who, device_index);
    }
}

bool dao_stream_memory_is_used(int device_index)
{
    return device_index >= 0 && device_index < DAO_DEVICE_COUNT_MAX &&
           atomic_load_explicit(&devices[device_index].count, memory_order_acquire) > 0;
}

bool dao_stream_memory_record(void *address, void *native_stream)
{
    for (int device_index = 0; device_index < DAO_DEVICE_COUNT_MAX; device_index++) {
        dao_place_t place = dao_place_of(dao_device_place(device_index));
        dao_block_info_t block;
        if (dao_stream_memory_is_used(device_index) && dao_block_query(place, address, &block) == DAO_OK) {
            dao_stream_t *stream = stream_find(device_index, native_stream);
            if (stream == NULL || dao_record_stream(place, address, stream) != DAO_OK) {
                atomic_store(&devices[device_index].waits_at_free, true);
            }
            return true;
        }
    }
    return false;
}
