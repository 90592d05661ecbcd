/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Command lists: kernels registered first and run afterwards, so that every future access is known
 * while they run.
 */
#ifndef DAO_COMMAND_LIST_H
#define DAO_COMMAND_LIST_H

#include <dao/executor.h>

DAO_BEGIN_DECLS

/**
 * A list of kernels, writes and discards for one executor. It may outlive the executor, but only to be
 * destroyed: a run answers DAO_ERR_STOPPED.
 */
typedef struct dao_command_list dao_command_list_t;

/**
 * Creates an empty list.
 *
 * @param executor  Borrowed; runs the list as long as it is there.
 * @param out_list  The caller owns it, until dao_command_list_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_create(dao_executor_t *executor,
                                                           dao_command_list_t **out_list);

/**
 * Adds a kernel to the end of a list. `launch` is called once for every run, and may be called again in it
 * with DAO_KERNEL_REPEATABLE; `drop` once, when the list is destroyed and its runs have finished.
 *
 * @param list    Borrowed.
 * @param kernel  As for dao_executor_push().
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW, DAO_ERR_NO_HOST_MEMORY: the list is as it was.
 *
 * Threads: one at a time for a list. Waits: never. Cost: O(operands).
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_push(dao_command_list_t *list,
                                                         const dao_kernel_t *kernel);

/**
 * Says that a tensor's content is not needed after the kernels added so far. When a run gets there, the
 * tensor counts as never written, and its memory is freed, once no kernel reads it that runs again. Handles
 * stay valid, so that the list can be run again.
 *
 * @return DAO_OK; DAO_ERR_INVALID also for a view; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: one at a time for a list. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_discard(dao_command_list_t *list, dao_managed_t *tensor);

/**
 * Adds a write of the program's bytes, such as a step's input: every run copies them into the tensor when it
 * gets there, so that no thread of the program waits. A failure is reported by dao_executor_sync(), as that
 * of a kernel is; the tensor may then count as never written.
 *
 * @param list        Borrowed.
 * @param tensor      Borrowed; the list takes a reference of its own.
 * @param source      `size_bytes` bytes on the host. Borrowed until the list is destroyed and its runs have
 *                    finished; a run reads it between its call and the next dao_executor_sync().
 * @param size_bytes  The size of the tensor.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: one at a time for a list. Waits: never. Cost: O(1); a run: one copy on the host.
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_write(dao_command_list_t *list, dao_managed_t *tensor,
                                                          const void *source, size_t size_bytes);

/**
 * Finds the least capacity_bytes of an executor that can run the list: what the operands and the workspace of
 * its largest kernel take together. With less, that kernel fails with DAO_ERR_KERNEL_TOO_LARGE.
 *
 * @param list       Borrowed.
 * @param out_bytes  Written only on DAO_OK; 0 for a list without kernels that use memory.
 * @return DAO_OK; DAO_ERR_INVALID.
 *
 * Threads: one at a time for a list. Waits: never. Cost: O(operands of the list).
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_least_capacity(const dao_command_list_t *list,
                                                                   size_t *out_bytes);

/**
 * Plans a list's step before its first run, and moves tensors to where the plan starts. Call it after the
 * tensors that live on from step to step have their contents. The first run follows the plan.
 *
 * - The list need not run itself. A step of the same kernels that is pushed between dao_executor_step_begin()
 *   and dao_executor_step_end() follows the plan as well, and the list may be destroyed before. Temporaries
 *   of that step may be other tensors: those that the list discards, and whose handles are dropped before
 *   this call, do not live on after the step; those that dao_command_list_write() writes first are written
 *   anew. A step that goes on otherwise than it was described leaves its plan, as a learnt one does.
 * - Times are those of dao_kernel_t::cost_ns until they are measured; where they were wrong the plan is made
 *   anew. The link is measured here if no step has shown it: some copies of up to 16 MiB.
 * - A step that fits on the device as a whole, beside pinned tensors that it does not use, gets no plan.
 * - A step that was not ended ends here.
 * - An executor knows 8 steps. A ninth takes the place of the one that has not run for longest, or was
 *   described first, and whose plan goes with it.
 *
 * @param list        Borrowed; nothing of it runs.
 * @param work_limit  As that of dao_swap_plan_config_t: 0 looks for a plan until none better is found, 1
 *                    takes the first one; then a better one is looked for meanwhile, and followed once it is
 *                    there.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_UNSUPPORTED for an executor that learns no steps, or a plan that
 *         cannot be followed; DAO_ERR_KERNEL_TOO_LARGE for a capacity below
 *         dao_command_list_least_capacity(), or where pinned tensors leave a kernel too little;
 *         DAO_ERR_HOST_FULL where host and file do not hold what has to leave; DAO_ERR_LIMIT where pinned
 *         tensors leave no room to measure the link; DAO_ERR_COPY_FAILED; DAO_ERR_BUSY after a failure that
 *         dao_executor_sync() has not reported yet; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED;
 *         DAO_ERR_REENTRANT; the device's own error. On failure there is no plan: the list can be run all the
 *         same, and its step is learnt.
 *
 * Threads: one at a time for a list. Waits: for the queue and the device, then until the plan is made. Cost:
 * dao_swap_plan_make(), on the executor's thread.
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_plan(dao_command_list_t *list, uint64_t work_limit);

/**
 * Queues a copy of the whole list at once, in order with everything else that is pushed, as a step of its
 * own: see dao_executor_step_begin(). Kernels of the list know all accesses after them. May be called again
 * and again.
 *
 * @param list  Borrowed; may be added to or destroyed while the run is under way.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT. The run's own
 *         errors come by dao_executor_sync().
 *
 * Threads: any, while none adds to the list or destroys it. Waits: while the queue is full. Cost: a copy of
 * each item.
 */
DAO_API DAO_NODISCARD dao_status_t dao_command_list_run(dao_command_list_t *list);

/**
 * Gives up a list and its references to tensors, once its runs have finished. NULL is allowed. Threads: one
 * at a time. Waits: never. Cost: O(kernels).
 */
DAO_API void dao_command_list_destroy(dao_command_list_t *list);

DAO_END_DECLS

#endif
