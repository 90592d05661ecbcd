/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file libdao_torch_cpu.so: all tensors of PyTorch on the CPU from libdao's host place, with its limit,
 * statistics, recording and step plans. Built where PyTorch's headers are (Debian's libtorch-dev).
 * docs/pytorch.md shows its use from Python; this header declares its functions for ctypes and C.
 */
#ifndef DAO_TORCH_CPU_H
#define DAO_TORCH_CPU_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Makes the host place PyTorch's allocator for the CPU, for the rest of the process. Existing tensors keep
 * their memory.
 *
 * @return 0; the dao_status_t of the library's start; DAO_ERR_NO_HOST_MEMORY if no fork handler can be
 *         registered. After a failure PyTorch's allocator stays; see dao_torch_cpu_last_message().
 *
 * Threads: one, before others use PyTorch. Waits: for the start of the library. Cost: that start.
 */
DAO_API int dao_torch_cpu_install(void);

/**
 * dao_torch_cpu_install() with a limit that training is to stay within: the host place keeps its memory in
 * pages (dao_place_config_t::host_pages), smaller ones for a small limit, so that holes between tensors
 * refuse none. A place that has started stays as it is.
 *
 * @param limit_bytes  Only looked at here; dao_torch_cpu_limit() or dao_limit_set() sets it.
 */
DAO_API int dao_torch_cpu_install_in_pages(size_t limit_bytes);

/**
 * Sets the limit of the host place, 0 for none, as dao_limit_set(). Returns 0, or a dao_status_t. Threads:
 * any. Waits: never.
 */
DAO_API int dao_torch_cpu_limit(size_t limit_bytes);

/**
 * Writes the figures of the host place as JSON, by the names of torch.cuda.memory_stats(); as
 * dao_torch_memory_stats().
 *
 * Threads: any. Waits: never. Cost: O(blocks).
 */
DAO_API size_t dao_torch_cpu_memory_stats(char *out_text, size_t text_bytes);

/**
 * Begin and end a training step, as dao_step_begin() and dao_step_end() for the host place. With
 * DAO_STEP_PLAN=offsets the first step is recorded, and the tensors of later ones get their planned
 * addresses. Without it they do nothing.
 *
 * @return 0, or a dao_status_t: DAO_ERR_INVALID for an end without a begin.
 *
 * Threads: any. Waits: the end of the first step for the plan. Cost: O(plan's keys).
 */
DAO_API int dao_torch_cpu_step_begin(void);
DAO_API int dao_torch_cpu_step_end(void);

/**
 * Writes the statistics of the step plan as JSON, see dao_step_plan_stats_t. Returns 0 if there is no step
 * plan.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_torch_cpu_step_plan_stats(char *out_text, size_t text_bytes);

/**
 * Returns the message of the latest of these calls that failed in this thread, as dao_last_message().
 * Threads: any, each has its own. Waits: never.
 */
DAO_API const char *dao_torch_cpu_last_message(void);

/**
 * Returns how many references a storage of PyTorch has: one for each tensor over it, and one for each object
 * of Python that names it. SIZE_MAX for bytes that are not libdao's, such as those of shared memory, of an
 * array of NumPy, or from before dao_torch_cpu_install(): who else has them nobody can tell.
 *
 * @param storage  c10::StorageImpl, as `_cdata` of a storage in Python; NULL: the answer is 0.
 *
 * Threads: any that holds a reference. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_torch_cpu_storage_use_count(void *storage);

/**
 * Returns how many references a tensor of PyTorch has: one for its object of Python, however many variables
 * have that, and those of C++, such as of a graph.
 *
 * @param tensor  c10::TensorImpl, as `_cdata` of a tensor in Python; NULL: the answer is 0.
 *
 * Threads: any that holds a reference. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_torch_cpu_tensor_use_count(void *tensor);

DAO_END_DECLS

#endif
