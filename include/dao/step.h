/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Steps: kernels registered first and run afterwards, so that every future access is known while they run.
 */
#ifndef DAO_STEP_H
#define DAO_STEP_H

#include <dao/executor.h>

DAO_BEGIN_DECLS

/**
 * A list of kernels and releases for one executor. It may outlive the executor, but only to be destroyed: a
 * run answers DAO_ERR_STOPPED.
 */
typedef struct dao_step dao_step_t;

/**
 * Begins an empty step.
 *
 * @param out_step  The caller owns it, until dao_step_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_create(dao_executor_t *executor, dao_step_t **out_step);

/**
 * Adds a kernel to the end of a step. `launch` is called once for every run; `drop` once, when the
 * step is destroyed and its runs have finished.
 *
 * @param kernel  As for dao_executor_push().
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY: the step is as it was.
 *
 * Threads: one at a time for a step. Waits: never. Cost: O(operands).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_push(dao_step_t *step, const dao_kernel_t *kernel);

/**
 * Says that a tensor's content is not needed after the kernels added so far. When a run gets there, the
 * tensor's memory is freed and the tensor counts as never written. Handles stay valid, so that the step can
 * be run again.
 *
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: one at a time for a step. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_discard(dao_step_t *step, dao_managed_t *tensor);

/**
 * Runs a step: queues all of it at once, in order with everything else that is pushed. Kernels of the step
 * know all accesses after them. May be called again and again.
 *
 * @param step  Borrowed; may be added to or destroyed while the run is under way.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT. The run's own
 * errors come by dao_executor_sync().
 *
 * Threads: any. Waits: while the queue is full. Cost: one item in the queue.
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_run(dao_step_t *step);

/**
 * Gives up a step and its references to tensors, once its runs have finished. NULL is allowed. Threads: one
 * at a time. Waits: never. Cost: O(kernels).
 */
DAO_API void dao_step_destroy(dao_step_t *step);

DAO_END_DECLS

#endif
