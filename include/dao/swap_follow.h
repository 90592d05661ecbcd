/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Following a plan of dao/swap.h by a program that runs its own kernels and moves its own bytes, such as a
 * framework whose allocator places its tensors. The program says what has ended; the follower says what may
 * start. It copies nothing and waits for nothing.
 *
 *     for each kernel k:
 *         act()
 *         while (dao_swap_follower_kernel_begin(f, k, &awaited) == DAO_OK && awaited is a copy's stream)
 *             wait for the oldest copy under way there; dao_swap_follower_copy_end(f, awaited); act()
 *         run k; dao_swap_follower_kernel_end(f, k)
 *
 *     act():
 *         while (dao_swap_follower_next(f, &action))
 *             start action.copy or, where it is NULL, give the action's bytes up
 *
 * Kernels are told in the step's order, also where they are on several compute streams: one has ended once
 * all before it have. Which of them wait for each other there is the program's to see to, as without a plan.
 *
 * A copy that ended in the meantime may be told at any time. That a copy out has ended does not mean that its
 * bytes may go: kernels may still read them. The follower says when.
 */
#ifndef DAO_SWAP_FOLLOW_H
#define DAO_SWAP_FOLLOW_H

#include <dao/swap.h>

DAO_BEGIN_DECLS

typedef struct dao_swap_follower dao_swap_follower_t; /**< where a program is in a schedule */

/** What may be done now. */
typedef struct dao_swap_action {
    /** To be started. NULL: these bytes may be given up, on the device. Borrowed, of the schedule. */
    const dao_swap_copy_t *copy;
    dao_swap_stream_t stream; /**< of the copy; DAO_SWAP_STREAM_COMPUTE without one */
    uint32_t tensor;
    uint64_t offset_bytes; /**< of the part in the tensor */
    uint64_t size_bytes;
    bool is_dead; /**< without a copy: nobody needs this content any more; else a copy brings it back */
} dao_swap_action_t;

/**
 * Makes a follower, before the first step.
 *
 * @param problem       Whose schedule it is; borrowed for the call.
 * @param schedule      Borrowed until dao_swap_follower_destroy(); of dao_swap_plan_schedule(), say.
 * @param out_follower  The caller owns it, until dao_swap_follower_destroy(); written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, a bad problem, or a schedule that is of another one: it moves
 *         what the problem has not, or waits for more than there is; DAO_ERR_OVERFLOW for a problem beyond
 *         its limits; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(uses + copies), with a sort.
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_follower_create(const dao_swap_problem_t *problem,
                                                            const dao_swap_schedule_t *schedule,
                                                            dao_swap_follower_t **out_follower);

/**
 * Frees a follower. NULL is allowed.
 *
 * Threads: any, once. Waits: never. Cost: O(1).
 */
DAO_API void dao_swap_follower_destroy(dao_swap_follower_t *follower);

/**
 * Goes back to where the follower was made: the residents of the schedule are on the device, all else that
 * lives on is in its slot, and nothing is under way. For a program that did something else in between. NULL
 * is allowed.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(residents + parts that leave).
 */
DAO_API void dao_swap_follower_restart(dao_swap_follower_t *follower);

/**
 * Returns the next thing that may be done now: first bytes that may be given up, then copies, of each stream
 * in its order. Copies of one stream run one after the other, also if several are returned before the first
 * has ended. In the first step a copy out of bytes that are not on the device has nothing to do, as they are
 * in their slot: it is said to have ended at once, like any copy that a program leaves out.
 *
 * @param follower    Borrowed.
 * @param out_action  Written only where true is returned.
 * @return false if there is nothing until something else ends; also for NULL, with dao_last_status()
 *         DAO_ERR_INVALID.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(1), after an end O(parts that wait to leave).
 */
DAO_API bool dao_swap_follower_next(dao_swap_follower_t *follower, dao_swap_action_t *out_action);

/**
 * Says whether a kernel may begin.
 *
 * @param follower     Borrowed.
 * @param kernel       The one whose turn it is: the first one that has not ended.
 * @param out_awaited  DAO_SWAP_STREAM_COMPUTE: it may begin; else the oldest copy under way of this stream
 *                     has to end before, perhaps only for another copy that the kernel waits for. None is
 *                     under way there while dao_swap_follower_next() has something to return. Written only
 *                     on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or another kernel.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_follower_kernel_begin(const dao_swap_follower_t *follower,
                                                                  uint32_t kernel,
                                                                  dao_swap_stream_t *out_awaited);

/**
 * Says that a kernel of this step has ended, and with it all before it. Behind the last kernel the next step
 * begins. It is not asked whether the kernel was allowed to begin: a program that has other ways to its bytes
 * may go on, and exceeds the plan's memory then.
 *
 * @param follower  Borrowed.
 * @param kernel    From the one whose turn it is on.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, or a kernel that has ended or is none: nothing changes.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(kernels that ended + parts that leave).
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_follower_kernel_end(dao_swap_follower_t *follower,
                                                                uint32_t kernel);

/**
 * Says that the oldest copy under way of a stream has ended, or is left out.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL, a stream without copies, or one of which none is under way:
 *         nothing changes.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_follower_copy_end(dao_swap_follower_t *follower,
                                                              dao_swap_stream_t stream);

/**
 * Returns the first kernel of this step behind whose end dao_swap_follower_next() may return something though
 * no copy ends in the meantime: until then it need not be asked.
 *
 * @return The kernel; the number of kernels where nothing starts behind any of them, also for NULL, as 0.
 *
 * Threads: one at a time a follower. Waits: never. Cost: O(1).
 */
DAO_API uint32_t dao_swap_follower_due(const dao_swap_follower_t *follower);

DAO_END_DECLS

#endif
