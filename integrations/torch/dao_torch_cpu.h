/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * libdao_torch_cpu.so: all tensors of PyTorch on the CPU from libdao's host place, so that its limit,
 * its statistics, its recording and its plans hold for them. Built where PyTorch's headers are (Debian's
 * libtorch-dev). docs/pytorch.md shows its use from Python; here is what it exports, for ctypes and for C.
 */
#ifndef DAO_TORCH_CPU_H
#define DAO_TORCH_CPU_H

#include <dao/api.h>

DAO_BEGIN_DECLS

/**
 * Makes the host place PyTorch's allocator for the CPU, for the rest of the process. Tensors that are there
 * already keep theirs.
 *
 * @return 0, or the dao_status_t of the library's start, or DAO_ERR_NO_HOST_MEMORY if the system has no room
 *         to note forks: PyTorch's allocator stays then; see dao_torch_cpu_last_message().
 *
 * Threads: one, before others use PyTorch. Waits: for the start of the library. Cost: that start.
 */
DAO_API int dao_torch_cpu_install(void);

/**
 * Sets the limit of the host place, 0 for none, as dao_limit_set(). Gives 0, or a dao_status_t. Threads: any.
 * Waits: never.
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
 * Begins and ends a step of training, as dao_step_begin() and dao_step_end() at the host place:
 * with DAO_STEP_PLAN=offsets the first step is recorded, and the next ones get each tensor where a plan has a
 * place for it. Without, they do nothing.
 *
 * @return 0, or a dao_status_t: DAO_ERR_INVALID for an end without a begin.
 *
 * Threads: any. Waits: the end of the first step for the plan. Cost: O(plan's keys).
 */
DAO_API int dao_torch_cpu_step_begin(void);
DAO_API int dao_torch_cpu_step_end(void);

/**
 * Writes as JSON how the latest step was served: see dao_step_plan_stats_t; 0 where nothing is served.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_torch_cpu_step_plan_stats(char *out_text, size_t text_bytes);

/**
 * What went wrong in the latest of these calls that failed, as dao_last_message(). Threads: any, each has its
 * own. Waits: never.
 */
DAO_API const char *dao_torch_cpu_last_message(void);

DAO_END_DECLS

#endif
