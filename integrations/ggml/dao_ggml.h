/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file libdao_ggml.so: buffers of ggml, and so of llama.cpp and whisper.cpp, from libdao's places. With
 * ggml's headers:
 *
 *     ggml_backend_buffer_type_t type = dao_ggml_buffer_type(place, NULL);
 *     ggml_gallocr_t allocator = ggml_gallocr_new(type);                     for the graph, or
 *     buffer = ggml_backend_alloc_ctx_tensors_from_buft(context, type);      for the weights
 *
 * ggml itself is found in the running program. docs/ggml.md shows more.
 */
#ifndef DAO_GGML_H
#define DAO_GGML_H

#include <dao/place.h>

DAO_BEGIN_DECLS

struct ggml_backend_buffer_type; /* ggml's: ggml_backend_buffer_type_t points to it */

/**
 * Returns the buffer type of a place. The memory of host and pinned places is the CPU back end's to compute
 * in. A device place keeps tensors, which are set, got, copied and cleared; ggml's CUDA back end computes in
 * buffers of its own type alone (see dao_ggml_pool_alloc() for what it takes from libdao).
 *
 * The memory of a buffer is one block, which ggml_backend_buffer_free() frees. If there is none, ggml gets
 * NULL, and a message goes to the standard error. What fails later, a copy, ggml cannot be told: that is a
 * message too, and dao_ggml_failure_count() counts it.
 *
 * @param place         Any place.
 * @param ggml_library  What dlopen() answered for libggml-base.so; NULL: ggml is linked to the program, whose
 *                      symbols are looked up. One ggml a process.
 * @return Valid for the rest of the process; the same each time. NULL with dao_ggml_last_message():
 *         DAO_ERR_INVALID for what is no place; DAO_ERR_UNSUPPORTED if there is no ggml, or none whose
 *         buffers are laid out as in October 2024 and later.
 *
 * Threads: any. Waits: never. Cost: O(1); the first call looks up five functions and makes a buffer of none.
 */
DAO_API struct ggml_backend_buffer_type *dao_ggml_buffer_type(dao_place_t place, void *ggml_library);

/**
 * Returns how many copies and fills of tensors have failed, in all threads. Threads: any. Waits: never. Cost:
 * O(1).
 */
DAO_API uint64_t dao_ggml_failure_count(void);

/**
 * The two functions of a memory pool of ggml's CUDA back end (`ggml_cuda_pool`), in the order of a stream.
 * docs/ggml.md has the ten lines that put them there.
 *
 * @param device            From 0.
 * @param size_bytes        0 returns NULL.
 * @param stream            The stream that the pool is for, such as a cudaStream_t.
 * @param out_actual_bytes  May be NULL; what ggml is to name when it frees: size_bytes. Written if there is
 *                          memory.
 * @return Owned by ggml until dao_ggml_pool_free(). NULL if there is no memory; a message goes to the
 *         standard error.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: as dao_alloc_native().
 */
DAO_API void *dao_ggml_pool_alloc(int device, size_t size_bytes, void *stream, size_t *out_actual_bytes);

/** Frees behind the work that is queued on the stream. Threads: any. Waits: as dao_free_async(). */
DAO_API void dao_ggml_pool_free(int device, void *address, void *stream);

/**
 * Returns the message of the latest dao_ggml_buffer_type() that failed in this thread, as dao_last_message().
 * Threads: any, each has its own. Waits: never.
 */
DAO_API const char *dao_ggml_last_message(void);

DAO_END_DECLS

#endif
