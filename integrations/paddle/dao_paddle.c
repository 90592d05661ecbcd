/* SPDX-License-Identifier: Apache-2.0 */
/* Paddle's custom device over libdao: each entry of the table is a call of the library. */
#include "integrations/paddle/dao_paddle.h"

#include "integrations/paddle/paddle_abi.h"

#include <dao/dao.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MIN_CHUNK_BYTES 256 /* what every block is aligned to */

static const dao_place_t host = {DAO_PLACE_KIND_CPU, 0};

static dao_place_t device_place(paddle_device_in_t device)
{
    return dao_place_of(dao_device_place(device->id));
}

static dao_place_t pinned_place(paddle_device_in_t device)
{
    return dao_place_of(dao_pinned_place(device->id));
}

/* Turns a status into Paddle's, which has no messages: a failure is printed. */
static paddle_status_t answer(const char *what, dao_status_t status)
{
    if (status == DAO_OK) {
        return PADDLE_SUCCESS;
    }
    if (status == DAO_ERR_NOT_READY) {
        return PADDLE_FAILED; /* no failure */
    }
    (void)fprintf(stderr, "dao_paddle: %s: %s: %s\n", what, dao_status_name(status), dao_last_message());
    switch (status) {
    case DAO_ERR_NO_HOST_MEMORY:
    case DAO_ERR_NO_DEVICE_MEMORY:
    case DAO_ERR_LIMIT:
        return PADDLE_FAILED;
    case DAO_ERR_INVALID:
    case DAO_ERR_OUT_OF_BOUNDS:
    case DAO_ERR_NO_DEVICE:
    case DAO_ERR_FOREIGN_POINTER:
    case DAO_ERR_INTERIOR_POINTER:
    case DAO_ERR_DOUBLE_FREE:
    case DAO_ERR_WRONG_PLACE:
    case DAO_ERR_NOT_YOURS:
        return PADDLE_ERROR;
    default:
        return PADDLE_INTERNAL_ERROR;
    }
}

/* ---- the device ---- */

static paddle_status_t initialize(void)
{
    return answer("initialize", dao_init(NULL));
}

/* Blocks that Paddle leaves behind at its end are logged by the library, and no failure. */
static paddle_status_t finalize(void)
{
    dao_status_t status = dao_finalize();
    return answer("finalize", status == DAO_ERR_BUSY ? DAO_OK : status);
}

static paddle_status_t init_device(paddle_device_t *device)
{
    dao_device_info_t info; /* starts the device; its number stays */
    return answer("init_device", dao_device_query(device->id, &info));
}

static paddle_status_t set_device(paddle_device_in_t device)
{
    return answer("set_device", dao_device_set_current(device->id));
}

static paddle_status_t get_device(paddle_device_t *out_device)
{
    out_device->id = dao_device_get_current();
    return PADDLE_SUCCESS;
}

static paddle_status_t deinit_device(paddle_device_in_t device)
{
    return answer("deinit_device", dao_device_synchronize(device->id));
}

static paddle_status_t synchronize_device(paddle_device_in_t device)
{
    return answer("synchronize_device", dao_device_synchronize(device->id));
}

static paddle_status_t get_device_count(size_t *out_count)
{
    int32_t count = 0;
    dao_status_t status = dao_device_count(&count);
    *out_count = status == DAO_OK ? (size_t)count : 0;
    return answer("get_device_count", status);
}

static paddle_status_t get_device_list(size_t *out_devices)
{
    size_t count = 0;
    paddle_status_t status = get_device_count(&count);
    for (size_t i = 0; i < count; i++) {
        out_devices[i] = i;
    }
    return status;
}

/* What is cached counts as free: the next request gets it. */
static paddle_status_t device_memory_stats(paddle_device_in_t device, size_t *out_total_bytes,
                                           size_t *out_free_bytes)
{
    dao_device_info_t info;
    dao_stats_t stats;
    dao_status_t status = dao_device_query(device->id, &info);
    if (status == DAO_OK) {
        status = dao_stats_get(device_place(device), &stats);
    }
    if (status != DAO_OK) {
        return answer("device_memory_stats", status);
    }
    uint64_t free_bytes = info.free_bytes + stats.reserved_bytes - stats.used_bytes;
    if (stats.limit_bytes > 0 && stats.limit_bytes - stats.used_bytes < free_bytes) {
        free_bytes = stats.limit_bytes - stats.used_bytes;
    }
    *out_total_bytes =
        stats.limit_bytes > 0 && stats.limit_bytes < info.total_bytes ? stats.limit_bytes : info.total_bytes;
    *out_free_bytes = free_bytes;
    return PADDLE_SUCCESS;
}

static paddle_status_t device_min_chunk_size(paddle_device_in_t device, size_t *out_bytes)
{
    (void)device;
    *out_bytes = MIN_CHUNK_BYTES;
    return PADDLE_SUCCESS;
}

/* No chunks: with its naive_best_fit strategy Paddle hands on each request then, and libdao divides. */
static paddle_status_t device_no_size(paddle_device_in_t device, size_t *out_bytes)
{
    (void)device;
    *out_bytes = 0;
    return PADDLE_SUCCESS;
}

/* ---- streams and events ---- */

/* The streams that Paddle has on each device. Memory follows the one, where there is just one. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    size_t count;
    dao_stream_t *latest;
} streams[DAO_DEVICE_COUNT_MAX];

/* Returns the device's stream if Paddle has made just one, else NULL. */
static dao_stream_t *only_stream(int device)
{
    dao_stream_t *stream = NULL;
    if (device >= 0 && device < DAO_DEVICE_COUNT_MAX) {
        (void)pthread_mutex_lock(&lock);
        stream = streams[device].count == 1 ? streams[device].latest : NULL;
        (void)pthread_mutex_unlock(&lock);
    }
    return stream;
}

/* Waits for what memory was freed behind the one stream, when there comes to be another, or none. */
static dao_status_t streams_change(int device, dao_stream_t *made)
{
    dao_status_t status = dao_device_synchronize(device);
    (void)pthread_mutex_lock(&lock);
    if (made != NULL) {
        streams[device].count++;
        streams[device].latest = made;
    } else {
        streams[device].count--;
        streams[device].latest = NULL; /* with one left it is not known which: frees wait */
    }
    (void)pthread_mutex_unlock(&lock);
    return status;
}

/* Finds the stream of a handle; NULL is the device's compute stream, as with all vendors. */
static dao_status_t stream_of(paddle_device_in_t device, paddle_stream_t *stream, dao_stream_t **out_stream)
{
    if (stream == NULL) {
        return dao_stream_get(device->id, DAO_STREAM_ROLE_COMPUTE, out_stream);
    }
    *out_stream = (dao_stream_t *)stream;
    return DAO_OK;
}

static paddle_status_t create_stream(paddle_device_in_t device, paddle_stream_t **out_stream)
{
    dao_stream_t *stream;
    dao_status_t status = dao_stream_create(device->id, &stream);
    if (status == DAO_OK) {
        status = streams_change(device->id, stream);
        *out_stream = (paddle_stream_t *)stream;
    }
    return answer("create_stream", status);
}

static paddle_status_t destroy_stream(paddle_device_in_t device, paddle_stream_t *stream)
{
    dao_status_t status = streams_change(device->id, NULL);
    dao_status_t destroyed = dao_stream_destroy((dao_stream_t *)stream);
    return answer("destroy_stream", status == DAO_OK ? destroyed : status);
}

static paddle_status_t query_stream(paddle_device_in_t device, paddle_stream_t *stream)
{
    dao_stream_t *found;
    dao_status_t status = stream_of(device, stream, &found);
    return answer("query_stream", status == DAO_OK ? dao_stream_query(found) : status);
}

static paddle_status_t synchronize_stream(paddle_device_in_t device, paddle_stream_t *stream)
{
    dao_stream_t *found;
    dao_status_t status = stream_of(device, stream, &found);
    return answer("synchronize_stream", status == DAO_OK ? dao_stream_synchronize(found) : status);
}

typedef struct callback {
    paddle_callback_t function;
    paddle_device_t device;
    paddle_stream_t *stream;
    void *user;
} callback_t;

static void callback_run(void *user)
{
    callback_t *callback = user;
    paddle_status_t status = PADDLE_SUCCESS;
    callback->function(&callback->device, callback->stream, callback->user, &status);
    free(callback);
}

static paddle_status_t stream_add_callback(paddle_device_in_t device, paddle_stream_t *stream,
                                           paddle_callback_t function, void *user)
{
    dao_stream_t *found;
    callback_t *callback = malloc(sizeof(*callback));
    if (callback == NULL) {
        return PADDLE_FAILED;
    }
    *callback = (callback_t){function, *device, stream, user};
    dao_status_t status = stream_of(device, stream, &found);
    if (status == DAO_OK) {
        status = dao_stream_host_func(found, callback_run, callback);
    }
    if (status != DAO_OK) {
        free(callback);
    }
    return answer("stream_add_callback", status);
}

static paddle_status_t create_event(paddle_device_in_t device, paddle_event_t **out_event)
{
    return answer("create_event", dao_event_create(device->id, (dao_event_t **)out_event));
}

static paddle_status_t record_event(paddle_device_in_t device, paddle_stream_t *stream, paddle_event_t *event)
{
    dao_stream_t *found;
    dao_status_t status = stream_of(device, stream, &found);
    return answer("record_event", status == DAO_OK ? dao_event_record((dao_event_t *)event, found) : status);
}

static paddle_status_t destroy_event(paddle_device_in_t device, paddle_event_t *event)
{
    (void)device;
    return answer("destroy_event", dao_event_destroy((dao_event_t *)event));
}

static paddle_status_t query_event(paddle_device_in_t device, paddle_event_t *event)
{
    (void)device;
    return answer("query_event", dao_event_query((dao_event_t *)event));
}

static paddle_status_t synchronize_event(paddle_device_in_t device, paddle_event_t *event)
{
    (void)device;
    return answer("synchronize_event", dao_event_synchronize((dao_event_t *)event));
}

static paddle_status_t stream_wait_event(paddle_device_in_t device, paddle_stream_t *stream,
                                         paddle_event_t *event)
{
    dao_stream_t *found;
    dao_status_t status = stream_of(device, stream, &found);
    return answer("stream_wait_event",
                  status == DAO_OK ? dao_stream_wait_event(found, (dao_event_t *)event) : status);
}

/* ---- memory ---- */

static paddle_status_t block_answer(const char *what, void *address, size_t size_bytes, void **out_address)
{
    if (address == NULL && size_bytes > 0) {
        return answer(what, dao_last_status());
    }
    *out_address = address;
    return PADDLE_SUCCESS;
}

static paddle_status_t device_memory_allocate(paddle_device_in_t device, void **out_address,
                                              size_t size_bytes)
{
    dao_stream_t *stream = only_stream(device->id);
    dao_place_t place = device_place(device);
    void *address =
        stream != NULL ? dao_alloc_async(place, size_bytes, stream) : dao_alloc(place, size_bytes);
    return block_answer("device_memory_allocate", address, size_bytes, out_address);
}

static paddle_status_t device_memory_deallocate(paddle_device_in_t device, void *address, size_t size_bytes)
{
    dao_stream_t *stream = only_stream(device->id);
    dao_status_t status;
    (void)size_bytes;
    if (stream != NULL) {
        status = dao_free_async(device_place(device), address, stream);
    } else {
        status = dao_device_synchronize(device->id);
        status = status == DAO_OK ? dao_free(device_place(device), address) : status;
    }
    return answer("device_memory_deallocate", status);
}

static paddle_status_t host_memory_allocate(paddle_device_in_t device, void **out_address, size_t size_bytes)
{
    return block_answer("host_memory_allocate", dao_alloc(pinned_place(device), size_bytes), size_bytes,
                        out_address);
}

/* Copies that use the block may be queued still. */
static paddle_status_t host_memory_deallocate(paddle_device_in_t device, void *address, size_t size_bytes)
{
    (void)size_bytes;
    dao_status_t status = dao_device_synchronize(device->id);
    return answer("host_memory_deallocate",
                  status == DAO_OK ? dao_free(pinned_place(device), address) : status);
}

/* A block that was freed behind the one stream, and handed out again, may be in use there: what does not run
   on that stream waits for it. */
static dao_status_t settle(paddle_device_in_t device)
{
    dao_stream_t *stream = only_stream(device->id);
    return stream != NULL ? dao_stream_synchronize(stream) : DAO_OK;
}

static paddle_status_t device_memory_set(paddle_device_in_t device, void *address, unsigned char value,
                                         size_t size_bytes)
{
    dao_stream_t *stream;
    dao_status_t status = settle(device);
    if (status == DAO_OK) {
        status = stream_of(device, NULL, &stream);
    }
    if (status == DAO_OK) {
        status = dao_stream_fill(stream, address, value, size_bytes);
    }
    return answer("device_memory_set", status == DAO_OK ? dao_stream_synchronize(stream) : status);
}

/* ---- copies ---- */

/* Copies at once, with bytes of `device` on one side at least. */
static paddle_status_t copy_now(const char *what, paddle_device_in_t device, dao_place_t dst_place, void *dst,
                                dao_place_t src_place, const void *src, size_t size_bytes)
{
    dao_status_t status = settle(device);
    return answer(what, status == DAO_OK ? dao_copy(dst_place, dst, src_place, src, size_bytes) : status);
}

static paddle_status_t memory_copy_h2d(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes)
{
    return copy_now("memory_copy_h2d", device, device_place(device), dst, host, src, size_bytes);
}

static paddle_status_t memory_copy_d2h(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes)
{
    return copy_now("memory_copy_d2h", device, host, dst, device_place(device), src, size_bytes);
}

static paddle_status_t memory_copy_d2d(paddle_device_in_t device, void *dst, const void *src,
                                       size_t size_bytes)
{
    return copy_now("memory_copy_d2d", device, device_place(device), dst, device_place(device), src,
                    size_bytes);
}

static paddle_status_t memory_copy_p2p(paddle_device_in_t dst_device, paddle_device_in_t src_device,
                                       void *dst, const void *src, size_t size_bytes)
{
    dao_status_t status = settle(src_device);
    return status == DAO_OK ? copy_now("memory_copy_p2p", dst_device, device_place(dst_device), dst,
                                       device_place(src_device), src, size_bytes)
                            : answer("memory_copy_p2p", status);
}

/* One of a copy's places is host memory: pinned if the block is the library's and so, else any. */
static dao_place_t host_place_of(const void *address)
{
    dao_place_t place;
    return dao_address_place(address, &place) == DAO_OK && place.kind == DAO_PLACE_KIND_PINNED ? place : host;
}

/* Queues a copy. Paddle may free host memory that is not pinned right after the call, so that such a copy is
   waited for. */
static paddle_status_t copy_queue(const char *what, paddle_device_in_t device, paddle_stream_t *stream,
                                  dao_place_t dst_place, void *dst, dao_place_t src_place, const void *src,
                                  size_t size_bytes)
{
    dao_stream_t *found;
    dao_status_t status = stream_of(device, stream, &found);
    if (status == DAO_OK) {
        status = dao_stream_copy(found, dst_place, dst, src_place, src, size_bytes);
    }
    if (status == DAO_OK && (dst_place.kind == DAO_PLACE_KIND_CPU || src_place.kind == DAO_PLACE_KIND_CPU)) {
        status = dao_stream_synchronize(found);
    }
    return answer(what, status);
}

static paddle_status_t async_memory_copy_h2d(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes)
{
    return copy_queue("async_memory_copy_h2d", device, stream, device_place(device), dst, host_place_of(src),
                      src, size_bytes);
}

static paddle_status_t async_memory_copy_d2h(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes)
{
    return copy_queue("async_memory_copy_d2h", device, stream, host_place_of(dst), dst, device_place(device),
                      src, size_bytes);
}

static paddle_status_t async_memory_copy_d2d(paddle_device_in_t device, paddle_stream_t *stream, void *dst,
                                             const void *src, size_t size_bytes)
{
    return copy_queue("async_memory_copy_d2d", device, stream, device_place(device), dst,
                      device_place(device), src, size_bytes);
}

/* Where the backend has no queued copy between devices, the bytes are copied when the stream has passed. */
static paddle_status_t async_memory_copy_p2p(paddle_device_in_t dst_device, paddle_device_in_t src_device,
                                             paddle_stream_t *stream, void *dst, const void *src,
                                             size_t size_bytes)
{
    dao_stream_t *found;
    dao_place_t dst_place = device_place(dst_device);
    dao_place_t src_place = device_place(src_device);
    dao_status_t status = stream_of(src_device, stream, &found);
    if (status == DAO_OK) {
        status = dao_stream_copy(found, dst_place, dst, src_place, src, size_bytes);
    }
    if (status == DAO_ERR_UNSUPPORTED) {
        status = dao_stream_synchronize(found);
        status = status == DAO_OK ? dao_copy(dst_place, dst, src_place, src, size_bytes) : status;
    }
    return answer("async_memory_copy_p2p", status);
}

/* ---- the table ---- */

static void fill_devices(paddle_interface_t *table)
{
    table->initialize = initialize;
    table->finalize = finalize;
    table->init_device = init_device;
    table->set_device = set_device;
    table->get_device = get_device;
    table->deinit_device = deinit_device;
    table->create_stream = create_stream;
    table->destroy_stream = destroy_stream;
    table->query_stream = query_stream;
    table->stream_add_callback = stream_add_callback;
    table->create_event = create_event;
    table->record_event = record_event;
    table->destroy_event = destroy_event;
    table->query_event = query_event;
    table->synchronize_device = synchronize_device;
    table->synchronize_stream = synchronize_stream;
    table->synchronize_event = synchronize_event;
    table->stream_wait_event = stream_wait_event;
    table->get_device_count = get_device_count;
    table->get_device_list = get_device_list;
}

static void fill_memory(paddle_interface_t *table)
{
    table->device_memory_allocate = device_memory_allocate;
    table->device_memory_deallocate = device_memory_deallocate;
    table->device_memory_set = device_memory_set;
    table->host_memory_allocate = host_memory_allocate;
    table->host_memory_deallocate = host_memory_deallocate;
    table->memory_copy_h2d = memory_copy_h2d;
    table->memory_copy_d2h = memory_copy_d2h;
    table->memory_copy_d2d = memory_copy_d2d;
    table->memory_copy_p2p = memory_copy_p2p;
    table->async_memory_copy_h2d = async_memory_copy_h2d;
    table->async_memory_copy_d2h = async_memory_copy_d2h;
    table->async_memory_copy_d2d = async_memory_copy_d2d;
    table->async_memory_copy_p2p = async_memory_copy_p2p;
    table->device_memory_stats = device_memory_stats;
    table->device_min_chunk_size = device_min_chunk_size;
    table->device_max_chunk_size = device_no_size;
    table->device_extra_padding_size = device_no_size;
}

void InitPlugin(struct CustomRuntimeParams *given)
{
    paddle_params_t *params = (paddle_params_t *)given;
    if (params->size_bytes < sizeof(*params) || params->interface->size_bytes < sizeof(*params->interface)) {
        (void)fprintf(
            stderr,
            "dao_paddle: this Paddle's table has %zu bytes and its parameters %zu; from 2.4 on they "
            "have at least %zu and %zu\n",
            params->size_bytes < sizeof(*params) ? (size_t)0 : params->interface->size_bytes,
            params->size_bytes, sizeof(*params->interface), sizeof(*params));
        return;
    }
    params->version.major = 0;
    params->version.minor = 1;
    params->version.patch = 1;
    params->device_type = "dao";
    params->sub_device_type = dao_backend_name();
    fill_devices(params->interface);
    fill_memory(params->interface);
}
