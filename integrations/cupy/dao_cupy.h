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
 * CuPy hands these functions no stream: the allocator's parameter is the stream that its memory follows, 0
 * the default one.
 */
#ifndef DAO_CUPY_H
#define DAO_CUPY_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Gives device memory for work that is queued on a stream from now on.
 *
 * @param stream      The vendor's handle; NULL is the default stream.
 * @param size_bytes  0 gives NULL.
 * @return CuPy's until dao_cupy_free(). NULL if there is none, which is told on the standard error.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: as dao_alloc_async(); a stream's first call adopts it.
 */
DAO_API void *dao_cupy_alloc(void *stream, size_t size_bytes, int device);

/** Frees memory behind the work of a stream, which may go on. Threads: any. Waits: as dao_free_async(). */
DAO_API void dao_cupy_free(void *stream, void *address, int device);

DAO_END_DECLS

#endif
