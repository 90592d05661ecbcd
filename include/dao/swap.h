/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Swapping for a step whose tensors do not all fit on the device, from numbers alone: the least time that it
 * takes, a plan of the copies between the device and slower tiers, and the exact time of a plan.
 *
 *     problem --dao_swap_find_bound()--> no scheme that only moves bytes is faster than this, and why
 *        |
 *     dao_swap_plan_make()  -->  plan: copies, what each one waits for, and an address for every operand
 *                                  |
 *                         dao_swap_plan_replay()  -->  time of a step, stalls; also with other kernel times
 *                                                      and links
 *                         dao/swap_follow.h       -->  what a program that follows it may do next
 *
 * The step repeats: a plan's end is its start. All functions are pure: the same arguments give the same
 * answer, unless a plan has a time limit, and nothing is kept, read or waited for.
 */
#ifndef DAO_SWAP_H
#define DAO_SWAP_H

#include <dao/access.h>
#include <dao/status.h>

DAO_BEGIN_DECLS

/** A tensor of the step. */
typedef struct dao_swap_tensor {
    uint64_t size_bytes; /**< at least 1, at most DAO_SWAP_SIZE_MAX */
    /** Its content lives on into the next step, as that of a tensor always does which is read before it is
        written. */
    bool is_persistent;
    /** Its bytes are those of a file that nobody writes, such as weights: it comes over the file tier's link
        each time, and takes nothing of the tiers' limits. No kernel may write it. */
    bool is_from_file;
} dao_swap_tensor_t;

/** One tensor of a kernel. A tensor that is named twice counts once; reads and writes are joined. */
typedef struct dao_swap_use {
    uint32_t tensor; /**< index */
    dao_access_t access;
} dao_swap_use_t;

/** A kernel. All that it uses is on the device while it runs. The memory of a tensor that is not persistent
    is free after its last use. */
typedef struct dao_swap_kernel {
    uint64_t time_ns; /**< at most DAO_SWAP_TIME_MAX */
    /** Device memory for this kernel alone. In plans without addresses just a number of bytes that are in use
        while the kernel runs. */
    uint64_t workspace_bytes;
    const dao_swap_use_t *uses;
    uint32_t use_count;
    /** Run again on equal inputs it writes equal bytes and does nothing else; see dao/recompute.h. Plans that
        only swap do not look at it. */
    bool is_repeatable;
    /** The compute stream that it runs on, below DAO_SWAP_COMPUTE_STREAM_MAX. Kernels of one stream run in
       their order; those of two beside each other, but where one uses what the other writes: that waits for
       the one before it in the step. */
    uint32_t stream;
} dao_swap_kernel_t;

#define DAO_SWAP_COMPUTE_STREAM_MAX 4u

/** How the two directions of a link share it. */
typedef enum dao_swap_duplex {
    DAO_SWAP_DUPLEX_FULL = 0, /**< each has its own speed at any time */
    DAO_SWAP_DUPLEX_HALF = 1, /**< one copy at a time, whatever its direction */
} dao_swap_duplex_t;

/** A slower tier, and its link to the device. */
typedef struct dao_swap_tier {
    /** To the device; host: at least 1; file: 0 if there is no file tier. */
    uint64_t in_bytes_per_second;
    /** From the device; 0: as in. */
    uint64_t out_bytes_per_second;
    /** Most of both directions together while both copy; 0: no limit but their own. */
    uint64_t shared_bytes_per_second;
    uint64_t latency_ns;  /**< of each copy, during which it holds the link */
    uint64_t limit_bytes; /**< most bytes kept there; 0: no limit */
    dao_swap_duplex_t duplex;
} dao_swap_tier_t;

#define DAO_SWAP_SIZE_MAX ((uint64_t)1 << 48) /**< of a tensor, and of all together */
/** In ns, 13 days: of a kernel, of all together, and of copying in and out what each uses. */
#define DAO_SWAP_TIME_MAX  ((uint64_t)1 << 50)
#define DAO_SWAP_COUNT_MAX ((uint32_t)1 << 24) /**< of tensors, of kernels, of uses of all kernels */

/** A step. Borrowed by the calls that take it. */
typedef struct dao_swap_problem {
    const dao_swap_tensor_t *tensors;
    uint32_t tensor_count;
    const dao_swap_kernel_t *kernels; /**< in the order in which they run */
    uint32_t kernel_count;            /**< at least 1 */
    uint64_t capacity_bytes;          /**< of the device */
    dao_swap_tier_t host;
    /** Takes what the host's limit leaves over, and has what comes from files of the program's; its path does
        not share the host's link. */
    dao_swap_tier_t file;
    /** Of addresses and of the parts of tensors, a power of two; 0: DAO_SWAP_ALIGNMENT_DEFAULT. */
    uint32_t alignment_bytes;
    /**
     * Of the pages that the device can map at several addresses, a power of two, at least the alignment; 0:
     * it maps none, or not well enough.
     */
    uint64_t page_bytes;
} dao_swap_problem_t;

#define DAO_SWAP_ALIGNMENT_DEFAULT 256u

/**
 * Tensors of at least so many pages lie in pages: rounding up costs them a 32nd of their bytes on average.
 * All others lie at static addresses; where that leaves holes that cost more than rounding, only those of
 * less than DAO_SWAP_PAGED_PAGES_LEAST.
 */
#define DAO_SWAP_PAGED_PAGES       16u
#define DAO_SWAP_PAGED_PAGES_LEAST 4u

/** What fills the time of the window of kernels that decides the bound. */
typedef enum dao_swap_binding {
    DAO_SWAP_BINDING_COMPUTE = 0, /**< kernels: neither memory nor a faster link helps */
    DAO_SWAP_BINDING_IN = 1,      /**< copies to the device */
    DAO_SWAP_BINDING_OUT = 2,     /**< copies from the device */
    DAO_SWAP_BINDING_BOTH = 3,    /**< both, over a link that they share */
} dao_swap_binding_t;

/** A bound that no scheme beats which only moves bytes, a tensor's or fewer in a copy. Not covered:
    recomputing, compressing, kernels that read host memory, another order of kernels. Where kernels are on
    several compute streams, step_ns is the bound of a step on these, and all else is said of the same kernels
    on one. */
typedef struct dao_swap_bound {
    uint64_t step_ns;    /**< the greatest of the three below, on one compute stream */
    uint64_t compute_ns; /**< sum of kernel times */
    uint64_t volume_ns;  /**< least time of the link for all bytes of a step, with their copies' latencies */
    uint64_t window_ns;  /**< sum over the best cut of the step into windows of kernels, with latencies */
    uint64_t in_bytes;   /**< least bytes to the device in a step, by parts of any size */
    uint64_t out_bytes;  /**< least bytes from the device in a step */

    uint64_t peak_bytes;            /**< of live tensors: with this capacity nothing has to move */
    uint64_t least_capacity_bytes;  /**< of one kernel: below this the step cannot run */
    uint32_t least_capacity_kernel; /**< the kernel that sets it */

    /** The window that adds most to the bound: kernels first .. first + count - 1, around the step's end.
        Count 0: no window takes longer than its kernels. */
    uint32_t window_first_kernel;
    uint32_t window_kernel_count;
    uint64_t window_added_ns; /**< by which it is longer than its kernels, without latencies */
    dao_swap_binding_t window_binding;

    /**
     * How far ahead of the running kernel copies have to be queued: the time to move in_bytes, at most a
     * step.
     */
    uint64_t lookahead_ns;
    uint32_t lookahead_kernels; /**< most kernels in such a time */
} dao_swap_bound_t;

/**
 * With at most so many kernels the windows of the bound may begin and end at any; with more, every few
 * kernels.
 */
#define DAO_SWAP_CUT_MAX 4096u

/**
 * Computes the bound of a step.
 *
 * @param problem    Borrowed.
 * @param out_bound  Written on DAO_OK; with DAO_ERR_KERNEL_TOO_LARGE only compute_ns, peak_bytes and
 *                   least_capacity_*, all else 0.
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem beyond its limits; DAO_ERR_KERNEL_TOO_LARGE
 *         where the capacity is less than one kernel needs; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(256 x uses + cuts^2), cuts at most DAO_SWAP_CUT_MAX; some 10 ms for
 * 2,500 kernels. On several compute streams some of that again for each.
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_find_bound(const dao_swap_problem_t *problem,
                                                       dao_swap_bound_t *out_bound);

/** A stream runs one operation after the other: kernels, or the copies of one direction of one tier. Half
    duplex: both directions of a tier are on its IN stream. COMPUTE stands for all compute streams where they
    are not told apart. */
typedef enum dao_swap_stream {
    DAO_SWAP_STREAM_COMPUTE = 0,
    DAO_SWAP_STREAM_HOST_IN = 1,
    DAO_SWAP_STREAM_HOST_OUT = 2,
    DAO_SWAP_STREAM_FILE_IN = 3,
    DAO_SWAP_STREAM_FILE_OUT = 4,
} dao_swap_stream_t;

#define DAO_SWAP_STREAM_COUNT 5u

/** What an operation waits for on each stream, where done[stream] is:

    - n > 0: the first n operations of this step;
    - 0: all operations of the step before;
    - -n: all operations of the step before, but its last n;
    - DAO_SWAP_NO_WAIT: none.

    Kernels are counted over all compute streams, in their order in the step. Of those that
    done[DAO_SWAP_STREAM_COMPUTE] counts, the ones on compute stream 0 are waited for; of those that
    done_beside[i] counts, the ones on compute stream i + 1. */
typedef struct dao_swap_fence {
    int32_t done[DAO_SWAP_STREAM_COUNT];
    int32_t done_beside[DAO_SWAP_COMPUTE_STREAM_MAX - 1];
} dao_swap_fence_t;

#define DAO_SWAP_NO_WAIT INT32_MIN

/** A copy of a part of a tensor. Those of a stream run in their order, one at a time. */
typedef struct dao_swap_copy {
    uint32_t tensor;
    bool is_in;             /**< to the device */
    bool is_file;           /**< the file tier, not the host */
    uint64_t offset_bytes;  /**< of the part in the tensor */
    uint64_t size_bytes;    /**< at least 1 */
    uint64_t address_bytes; /**< of the part in the device arena; means nothing in plans without addresses */
    uint64_t slot_bytes;    /**< of the part in its tier's arena */
    dao_swap_fence_t after;
} dao_swap_copy_t;

/** A part of a tensor that is on the device when a step starts. */
typedef struct dao_swap_resident {
    uint32_t tensor;
    uint64_t offset_bytes;
    uint64_t size_bytes;
    uint64_t address_bytes;
} dao_swap_resident_t;

/**
 * A plan, read-only. A replayer does with it:
 *
 * - Before the first step: make an arena of arena_bytes on the device, of host_bytes in the host, of
 *   file_bytes in the file. Put every part that some copy brings in, and whose content lives on over the
 *   step's start, into its slot, and every resident to its address.
 * - In each step: queue the kernels in their order, each on its compute stream, and the copies of each stream
 *   in theirs, on a stream each. Each operation waits for its fence: of each stream named, the event recorded
 *   behind the operation with that number. In the first step, waits for the step before count as over.
 * - After the last step: residents are at their addresses, all else that lives on is in its slot.
 *
 * A kernel finds the operand of use i (counted over all kernels) at use_address[i], all of it in one piece,
 * and its workspace at workspace_address. Nothing else has to be waited for, looked up or decided; a step may
 * be queued while the one before it runs. One host thread may queue in any order in which no event is waited
 * for before it is recorded. There always is one, with the kernels of all compute streams in their order: the
 * next of them, or of a stream of copies, has a fence that names only what is queued.
 *
 * In a plan without addresses use_address and workspace_address are NULL, and arena_bytes are the most bytes
 * that are on the device at once. A tensor takes its bytes as the copy in or the kernel that writes it
 * begins, and gives them up behind the last kernel that uses it before, and its copy out if there is one.
 */
typedef struct dao_swap_schedule {
    const dao_swap_copy_t *copies[DAO_SWAP_STREAM_COUNT]; /**< [DAO_SWAP_STREAM_COMPUTE] is NULL */
    uint32_t copy_count[DAO_SWAP_STREAM_COUNT];
    const dao_swap_fence_t *kernel_after; /**< one a kernel; its own stream is not in it */
    const uint64_t *use_address;          /**< one a use, in the order of the problem's kernels and uses */
    const uint64_t *workspace_address;    /**< one a kernel; 0 without a workspace */
    const dao_swap_resident_t *residents; /**< as a step starts */
    uint32_t resident_count;
    uint64_t arena_bytes; /**< of the device; at most the capacity */
    uint64_t host_bytes;  /**< of the host tier */
    uint64_t file_bytes;  /**< of the file tier, and of the program's own files, which no limit is for */
    uint64_t in_bytes;    /**< moved in a step, both tiers */
    uint64_t out_bytes;
    uint64_t step_ns; /**< time of a step in the long run */
    /** The same if tensors needed bytes, but no addresses: the difference is what holes cost. On several
        compute streams an estimate, at most step_ns. */
    uint64_t fluid_step_ns;
    uint64_t part_bytes; /**< size of the parts that tensors are moved in; 0: whole tensors */
    /**
     * Pages; page_bytes 0: there are none. Addresses from paged_begin on, a multiple of page_bytes and at
     * least arena_bytes, are not of the arena: page i of them is the arena's page pages[i]. Each use and copy
     * finds all of its bytes there in one piece. All mappings stay as they are for as long as the plan is
     * used; a page of the arena may be mapped at several addresses, and fences order who uses it.
     */
    uint64_t page_bytes;
    uint64_t paged_begin;
    const uint32_t *pages;
    uint32_t page_count; /**< that are mapped */
} dao_swap_schedule_t;

/** The granularity in which tensors move. */
typedef enum dao_swap_granularity {
    DAO_SWAP_GRANULARITY_BEST = 0,  /**< both are tried */
    DAO_SWAP_GRANULARITY_WHOLE = 1, /**< whole tensors */
    DAO_SWAP_GRANULARITY_PARTS = 2, /**< parts of tensors */
} dao_swap_granularity_t;

/** Where tensors lie. */
typedef enum dao_swap_addresses {
    /** In pages or at static addresses, whichever makes the shorter step; static addresses where the device
        maps no pages. Both searches share the budget, so that with one of them alone a plan may be some
        percent shorter. */
    DAO_SWAP_ADDRESSES_BEST = 0,
    DAO_SWAP_ADDRESSES_STATIC = 1, /**< at static addresses */
    DAO_SWAP_ADDRESSES_PAGES = 2,  /**< large tensors in pages, the others at static addresses */
    /** Nowhere: the plan counts bytes, for memory whose owner places tensors himself. workspace_bytes of a
        kernel need not lie in one piece, so they may stand for all bytes that stay beside the tensors. */
    DAO_SWAP_ADDRESSES_NONE = 3,
} dao_swap_addresses_t;

/** How a plan is made. All zero: the defaults. */
typedef struct dao_swap_plan_config {
    dao_swap_granularity_t granularity;
    dao_swap_addresses_t addresses;
    uint64_t part_bytes; /**< size of parts; 0: a 64th of the capacity, at least DAO_SWAP_PART_BYTES_MIN */
    /**
     * How much work may go into the plan, in steps of some 10 ns of a processor: the same limit gives the
     * same plan on every machine. The first plan is made to its end whatever it takes, so 1 gives just that;
     * better ones are looked for with what is left. 0: DAO_SWAP_WORK_PER_KERNEL for each kernel, at most
     * DAO_SWAP_WORK_DEFAULT, but no less than DAO_SWAP_WORK_LEAST a kernel, and twice that where kernels are
     * on several compute streams; UINT64_MAX: until no change helps any more.
     */
    uint64_t work_limit;
    /** Most time from the call on that may go into better plans; then plans depend on the machine. 0: no
        limit but `work_limit`. */
    uint64_t time_limit_ns;
    /** Called in the calling thread about every millisecond of its work, or more often. True ends the call
        with DAO_ERR_STOPPED, and it is not called again. It must not wait. NULL: the plan is made to its
        end. */
    bool (*is_cancelled)(void *cancel_user);
    void *cancel_user;
} dao_swap_plan_config_t;

#define DAO_SWAP_PART_BYTES_MIN ((uint64_t)1 << 20)
/** Some 6 ms: for steps so small that more work seldom helps. */
#define DAO_SWAP_WORK_PER_KERNEL ((uint64_t)600000)
#define DAO_SWAP_WORK_DEFAULT    ((uint64_t)200000000) /**< some 2 s */
#define DAO_SWAP_WORK_LEAST      ((uint64_t)50000)     /**< some 0.5 ms: for a few layouts of long steps */

/** A plan, immutable. It has one owner, the caller that made it, and is destroyed: nobody else keeps it. A
    dao_plan_t, which its planner keeps too, is counted. */
typedef struct dao_swap_plan dao_swap_plan_t;

/**
 * Makes a plan: of some variants the one whose step is the shortest once its tensors have addresses.
 *
 * @param problem   Borrowed for the call.
 * @param config    Copied; NULL: all defaults.
 * @param out_plan  The caller owns it, until dao_swap_plan_destroy(); written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem beyond its limits; DAO_ERR_KERNEL_TOO_LARGE
 *         where the capacity is less than one kernel needs; DAO_ERR_HOST_FULL where the tiers' limits do not
 *         hold what has to leave; DAO_ERR_STOPPED where `is_cancelled` said so; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: `work_limit`, or what a first plan takes: some 0.1 ms a kernel.
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_plan_make(const dao_swap_problem_t *problem,
                                                      const dao_swap_plan_config_t *config,
                                                      dao_swap_plan_t **out_plan);

/**
 * Frees a plan and its schedule. NULL is allowed.
 *
 * Threads: any, once. Waits: never. Cost: O(1).
 */
DAO_API void dao_swap_plan_destroy(dao_swap_plan_t *plan);

/**
 * Returns the schedule of a plan.
 *
 * @return Borrowed, as long as the plan; NULL for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const dao_swap_schedule_t *dao_swap_plan_schedule(const dao_swap_plan_t *plan);

/** What a kernel waited for. */
typedef struct dao_swap_stall {
    uint64_t time_ns; /**< from the end of the kernel before it on its stream to its begin */
    /** Of the copy that ended last: on an IN stream it brought data, on an OUT stream it freed memory.
       COMPUTE: it was a kernel of another stream. */
    dao_swap_stream_t stream;
} dao_swap_stall_t;

/** How a plan is replayed. All zero: as it was planned. */
typedef struct dao_swap_replay_config {
    uint32_t step_count; /**< at least 2; 0: 8 */
    /** Of the kernels of all steps, one step after the other; NULL: the problem's. */
    const uint64_t *kernel_times_ns;
    const dao_swap_tier_t *host; /**< speeds and latency in place of the problem's; NULL: those */
    const dao_swap_tier_t *file;
    dao_swap_stall_t *out_stalls; /**< written, one a kernel: in the last step; may be NULL */
} dao_swap_replay_config_t;

/** The time of a plan. */
typedef struct dao_swap_replay {
    uint64_t step_ns;       /**< mean of the last half of the steps, of the slowest stream */
    uint64_t first_step_ns; /**< with all residents in place */
    uint64_t stall_ns[DAO_SWAP_STREAM_COUNT]; /**< of the last step: what its kernels waited for, by stream */
    uint64_t busy_ns[DAO_SWAP_STREAM_COUNT];  /**< of the last step */
} dao_swap_replay_t;

/**
 * Plays a plan by its fences alone and computes its exact time, for the planned times or for others.
 *
 * @param plan        Borrowed.
 * @param config      Borrowed; NULL: as it was planned.
 * @param out_replay  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, one step, a tier without speed or with another duplex than the
 *         plan's; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: about 0.1 us a kernel, copy and step.
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_plan_replay(const dao_swap_plan_t *plan,
                                                        const dao_swap_replay_config_t *config,
                                                        dao_swap_replay_t *out_replay);

DAO_END_DECLS

#endif
