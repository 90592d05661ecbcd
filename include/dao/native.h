/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Memory in stream order by the vendor's own streams: what a framework's allocator hook is given. The library
 * adopts each stream once, with its first call, and finds it by its handle from then on.
 *
 * A stream that was destroyed by its maker, and whose handle is another stream's by now, is adopted anew,
 * where the vendor numbers its streams. Elsewhere a stream that was named lives until dao_finalize(): on the
 * cpu backend the library sees to it. With a vendor's runtime a stream whose handle is no other stream's has
 * to live as long as calls of the library may ask the vendor about it: dao_finalize() does not.
 */
#ifndef DAO_NATIVE_H
#define DAO_NATIVE_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/**
 * Allocates device memory for work that is queued on a stream from now on. As dao_alloc_async() on the
 * stream of dao_stream_adopt().
 *
 * @param device_index   From 0; a place of dao_place_register() too, by its index.
 * @param size_bytes     0 returns NULL and is no error.
 * @param native_stream  The vendor's handle, such as a cudaStream_t; NULL is the vendor's default stream. On
 *                       the cpu backend one of dao_stream_native(); NULL is the device's compute stream.
 * @return The caller owns it until dao_free_native(), dao_free_async() or dao_free(). NULL with
 *         dao_last_status(): as dao_alloc_async() and dao_stream_adopt(); DAO_ERR_TOO_MANY also if
 *         DAO_NATIVE_STREAM_MAX streams of the device were named in this way.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: O(1) more than dao_alloc_async(), without a lock; a
 * backend call where the vendor numbers its streams.
 */
DAO_API DAO_NODISCARD void *dao_alloc_native(int32_t device_index, size_t size_bytes, void *native_stream);

/**
 * Frees a block behind the work that is queued on a stream so far, and on the streams recorded for it. As
 * dao_free_async().
 *
 * @param device_index   The device it was allocated on.
 * @param address        NULL is allowed and does nothing.
 * @param native_stream  The stream that uses it last.
 * @return DAO_OK; as dao_free_async() and dao_stream_adopt(): nothing was changed then.
 *
 * Threads: any. Waits: as dao_free_async(). Cost: as dao_alloc_native().
 */
DAO_API dao_status_t dao_free_native(int32_t device_index, void *address, void *native_stream);

/**
 * Says that work on one more stream uses a block. As dao_record_stream().
 *
 * @param device_index   The device it was allocated on.
 * @param address        The start of a live block.
 * @param native_stream  That stream.
 * @return DAO_OK; as dao_record_stream() and dao_stream_adopt().
 *
 * Threads: any. Waits: never. Cost: as dao_alloc_native().
 */
DAO_API dao_status_t dao_record_native(int32_t device_index, void *address, void *native_stream);

/** Most streams of a device that these calls keep. */
#define DAO_NATIVE_STREAM_MAX 1024

DAO_END_DECLS

#endif
