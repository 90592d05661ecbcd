/* SPDX-License-Identifier: Apache-2.0 */
/* Memory in the order of the vendor's streams: finds the stream of a handle, and makes the call of
   dao/async.h. The library owns each of these streams once, until it stops. */
#include <dao/async.h>
#include <dao/native.h>

#include "runtime/handles/stream_internal.h"
#include "runtime/place/lookup.h"

#include <inttypes.h>

/* What stops a runtime calls once it has waited for the device: gives back the streams that the table has.
   The program may have destroyed them. */
static void natives_end(dao_natives_t *natives)
{
    dao_stream_t *stream;
    while ((stream = dao_natives_take(natives)) != NULL) {
        dao_stream_disown(stream, true);
    }
}

/* Returns true if a stream's handle is another's, as far as that can be known. */
static bool is_gone(const dao_stream_t *stream)
{
    return dao_backend_stream_is_gone(stream->runtime->ops, stream->backend);
}

/* Adopts a stream and enters it. */
static dao_status_t adopt(dao_runtime_t *runtime, void *native, dao_stream_t **out_stream)
{
    dao_stream_t *adopted;
    dao_status_t status = dao_runtime_health(runtime, "dao_alloc_native");
    if (status != DAO_OK || (status = dao_stream_adopt_on(runtime, native, &adopted)) != DAO_OK) {
        return status;
    }
    atomic_store(&runtime->natives.end, natives_end);
    if (!dao_natives_enter(&runtime->natives, adopted, out_stream)) {
        dao_stream_disown(adopted, false); /* the table's own is enough */
    }
    return *out_stream != NULL
               ? DAO_OK
               : dao_error(DAO_ERR_TOO_MANY,
                           "%d streams of device:%" PRId32 " were named by their handles already",
                           DAO_NATIVE_STREAM_MAX, runtime->device_index);
}

/* Finds the stream of a handle, borrowed. */
static dao_status_t native_find(int32_t device_index, void *native, dao_stream_t **out_stream)
{
    dao_runtime_t *runtime = dao_runtime_started(device_index);
    dao_status_t status = DAO_OK;
    if (runtime == NULL && (status = dao_runtime_borrow(device_index, &runtime)) != DAO_OK) {
        return status;
    }
    native = dao_stream_native_on(runtime, native);
    *out_stream = dao_natives_find(&runtime->natives, native);
    return *out_stream != NULL && !is_gone(*out_stream) ? DAO_OK : adopt(runtime, native, out_stream);
}

static dao_place_t place_of(int32_t device_index)
{
    return (dao_place_t){DAO_PLACE_KIND_DEVICE, device_index};
}

void *dao_alloc_native(int32_t device_index, size_t size_bytes, void *native_stream)
{
    dao_stream_t *stream;
    return native_find(device_index, native_stream, &stream) == DAO_OK
               ? dao_alloc_async(place_of(device_index), size_bytes, stream)
               : NULL;
}

dao_status_t dao_free_native(int32_t device_index, void *address, void *native_stream)
{
    if (address == NULL) {
        return DAO_OK;
    }
    dao_stream_t *stream;
    dao_status_t status = native_find(device_index, native_stream, &stream);
    return status == DAO_OK ? dao_free_async(place_of(device_index), address, stream) : status;
}

dao_status_t dao_record_native(int32_t device_index, void *address, void *native_stream)
{
    dao_stream_t *stream;
    dao_status_t status = native_find(device_index, native_stream, &stream);
    return status == DAO_OK ? dao_record_stream(place_of(device_index), address, stream) : status;
}
