/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_torch.so: device memory of PyTorch from libdao. PyTorch loads it by name, in Python:
 *
 *     allocator = torch.cuda.memory.CUDAPluggableAllocator("libdao_torch.so", "dao_torch_alloc",
 *     "dao_torch_free")
 *
 * The two functions have the signatures that PyTorch calls. The hooks have those of its setters,
 * set_init_fn() and so on, which take the functions' addresses. PyTorch for ROCm has the same class.
 * docs/pytorch.md shows all of it.
 *
 * PyTorch's own statistics do not include such memory; dao_torch_memory_stats() writes them.
 */
#ifndef DAO_TORCH_H
#define DAO_TORCH_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Allocates device memory for work that is queued on a stream from now on.
 *
 * @param size_bytes  0 returns NULL.
 * @param device      PyTorch's number, which is libdao's.
 * @param stream      The vendor's handle, such as a cudaStream_t; NULL is the default stream.
 * @return Owned by PyTorch until dao_torch_free(). NULL if there is no memory; a message goes to the standard
 *         error.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: as dao_alloc_async(); a stream's first call adopts it.
 */
DAO_API void *dao_torch_alloc(size_t size_bytes, int device, void *stream);

/**
 * Frees memory after the work that is queued on its stream and on the streams that were recorded for it.
 *
 * @param size_bytes  Ignored; the library knows the size.
 *
 * Threads: any. Waits: as dao_free_async(). Cost: as dao_free_async().
 */
DAO_API void dao_torch_free(void *address, size_t size_bytes, int device, void *stream);

/* ---- optional hooks ---- */

/**
 * For set_init_fn(): starts the library. Prints a warning if it has fewer devices than PyTorch. Threads: any.
 * Waits: for the start.
 */
DAO_API void dao_torch_init(int device_count);
/**
 * For set_reset_fn(): torch.cuda.empty_cache() returns cached memory to the device. Threads: any. Waits: as
 * dao_trim().
 */
DAO_API void dao_torch_reset(void);
/**
 * For set_memory_fraction_fn(): limits a device to a part of its memory; 1 is no limit, 0 refuses everything.
 * Threads: any. Waits: as dao_limit_set().
 */
DAO_API void dao_torch_memory_fraction(double fraction, int device);
/**
 * For set_base_alloc_fn(): returns the start of the segment around an address, and its size; NULL for an
 * address that libdao did not allocate. Threads: any. Waits: never. Cost: a snapshot.
 */
DAO_API void *dao_torch_base_alloc(void *address, size_t *out_size_bytes);
/**
 * For set_record_stream_fn(): records that a stream uses a block that was allocated on another one. Threads:
 * any. Waits: never.
 */
DAO_API void dao_torch_record_stream(void *address, void *stream);

/* ---- statistics, for ctypes ---- */

/**
 * Writes the figures of a device as JSON, by the names of torch.cuda.memory_stats(); see
 * dao_stats_tree_walk().
 *
 * @param out_text    At most text_bytes bytes are written, the closing zero included; may be NULL if
 *                    text_bytes is 0.
 * @return The size of the whole text with its closing zero; 0 after a failure, see dao_torch_last_message().
 *
 * Threads: any. Waits: never. Cost: O(blocks).
 */
DAO_API size_t dao_torch_memory_stats(int device, char *out_text, size_t text_bytes);

/** Sets the peaks to the current values. Returns 0, or a dao_status_t. Threads: any. Waits: never. */
DAO_API int dao_torch_reset_peaks(int device);

/**
 * Writes a snapshot of a device as a pickle, which PyTorch's memory viewer opens
 * (dao_snapshot_write_pickle()). Returns 0, or a dao_status_t: DAO_ERR_INVALID for NULL, DAO_ERR_IO. Threads:
 * any. Waits: for the file.
 */
DAO_API int dao_torch_snapshot(int device, const char *path);

/**
 * Returns the message of the latest of these calls that failed in this thread, as dao_last_message().
 * Threads: any, each has its own. Waits: never.
 */
DAO_API const char *dao_torch_last_message(void);

DAO_END_DECLS

#endif
