/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_torch.so: device memory of PyTorch from libdao. PyTorch loads it by name, in Python:
 *
 *     allocator = torch.cuda.memory.CUDAPluggableAllocator("libdao_torch.so", "dao_torch_alloc",
 *     "dao_torch_free")
 *
 * The two functions have the signatures that PyTorch calls, and the hooks those of its setters (set_init_fn()
 * and so on), which take the functions' addresses. PyTorch for ROCm has the same class. docs/pytorch.md has
 * the whole of it.
 *
 * PyTorch's own statistics see nothing of such memory: dao_torch_memory_stats() gives them.
 */
#ifndef DAO_TORCH_H
#define DAO_TORCH_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Gives device memory for work that is queued on a stream from now on.
 *
 * @param size_bytes  0 gives NULL.
 * @param device      PyTorch's number, which is libdao's.
 * @param stream      The vendor's handle, such as a cudaStream_t; NULL is the default stream.
 * @return PyTorch's until dao_torch_free(). NULL if there is none, which is told on the standard error.
 *
 * Threads: any. Waits: as dao_alloc_async(). Cost: as dao_alloc_async(); a stream's first call adopts it.
 */
DAO_API void *dao_torch_alloc(size_t size_bytes, int device, void *stream);

/**
 * Frees memory behind the work of a stream, which may go on, and of those that were recorded for it.
 *
 * @param size_bytes  Not looked at: the library knows it.
 *
 * Threads: any. Waits: as dao_free_async(). Cost: as dao_free_async().
 */
DAO_API void dao_torch_free(void *address, size_t size_bytes, int device, void *stream);

/* ---- optional hooks ---- */

/**
 * For set_init_fn(): starts the library, and says so if it has fewer devices. Threads: any. Waits: for the
 * start.
 */
DAO_API void dao_torch_init(int device_count);
/**
 * For set_reset_fn(): torch.cuda.empty_cache() gives cached memory back. Threads: any. Waits: as dao_trim().
 */
DAO_API void dao_torch_reset(void);
/**
 * For set_memory_fraction_fn(): limits a device to a part of its memory; 1 is no limit, 0 refuses everything.
 * Threads: any. Waits: as dao_limit_set().
 */
DAO_API void dao_torch_memory_fraction(double fraction, int device);
/**
 * For set_base_alloc_fn(): the start of the driver's memory around an address, and its bytes; NULL if it is
 * not ours. Threads: any. Waits: never. Cost: a snapshot.
 */
DAO_API void *dao_torch_base_alloc(void *address, size_t *out_size_bytes);
/**
 * For set_record_stream_fn(): a stream uses a block that was allocated on another one. Threads: any. Waits:
 * never.
 */
DAO_API void dao_torch_record_stream(void *address, void *stream);

/* ---- what it holds; for ctypes ---- */

/**
 * Writes the figures of a device as JSON, by the names of torch.cuda.memory_stats(); see
 * dao_stats_tree_walk().
 *
 * @param out_text    At most text_bytes bytes are written, the closing zero included; may be NULL if
 *                    text_bytes is 0.
 * @return The bytes that the whole text takes, the closing zero included; 0 if it failed: see
 * dao_torch_last_message().
 *
 * Threads: any. Waits: never. Cost: O(blocks).
 */
DAO_API size_t dao_torch_memory_stats(int device, char *out_text, size_t text_bytes);

/** Sets the peaks to what is held now. Gives 0, or a dao_status_t. Threads: any. Waits: never. */
DAO_API int dao_torch_reset_peaks(int device);

/**
 * Writes a snapshot of a device as a file that PyTorch's memory viewer shows. Gives 0, or a dao_status_t:
 * DAO_ERR_INVALID for NULL, DAO_ERR_IO. Threads: any. Waits: for the file.
 */
DAO_API int dao_torch_snapshot(int device, const char *path);

/**
 * What went wrong in the latest of these calls that failed, as dao_last_message(). Threads: any, each has its
 * own. Waits: never.
 */
DAO_API const char *dao_torch_last_message(void);

DAO_END_DECLS

#endif
