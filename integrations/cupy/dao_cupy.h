/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_cupy.so: device memory of CuPy from libdao, by CuPy's allocator of C functions. In Python:
 *
 *     library = ctypes.CDLL("libdao_cupy.so")
 *     address = lambda function: ctypes.cast(function, ctypes.c_void_p).value
 *     allocator = cupy.cuda.memory.CFunctionAllocator(
 *         stream.ptr, address(library.dao_cupy_alloc), address(library.dao_cupy_free), library)
 *     cupy.cuda.set_allocator(allocator.malloc)
 *
 * CuPy passes no stream. Memory follows the stream that was given to the allocator; 0 is the default stream.
 */
#ifndef DAO_CUPY_H
#define DAO_CUPY_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Allocates device memory for work that is queued on a stream from now on.
 *
 * @param stream      The vendor's handle; NULL is the default stream.
 * @param size_bytes  0 returns NULL.
 * @return Owned by CuPy until dao_cupy_free(). NULL if there is no memory; a message goes to the standard
 *         error.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: as dao_alloc_async(); a stream's first call adopts it.
 */
DAO_API void *dao_cupy_alloc(void *stream, size_t size_bytes, int device);

/** Frees memory after the work that is queued on a stream. Threads: any. Waits: as dao_free_async(). */
DAO_API void dao_cupy_free(void *stream, void *address, int device);

DAO_END_DECLS

#endif
