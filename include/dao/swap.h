/**
 * @file
 * A step whose tensors do not all fit on the device, as numbers alone: how fast it can be at best.
 *
 *     problem --dao_swap_find_bound()--> no scheme that only moves bytes is faster than this, and why
 *
 * The step repeats. The functions are pure: the same arguments give the same answer, and nothing is kept, read or waited for.
 */
#ifndef DAO_SWAP_H
#define DAO_SWAP_H

#include <dao/access.h>
#include <dao/status.h>

DAO_BEGIN_DECLS

/** A tensor of the step. */
typedef struct dao_swap_tensor {
    uint64_t size_bytes; /**< at least 1, at most DAO_SWAP_SIZE_MAX */
    bool
        is_persistent; /**< its content lives on into the next step; a tensor that is read before it is written always does */
} dao_swap_tensor_t;

/** One tensor of a kernel. A tensor that is named twice counts once; reads and writes are joined. */
typedef struct dao_swap_use {
    uint32_t tensor; /**< index */
    dao_access_t access;
} dao_swap_use_t;

/** A kernel. All that it uses is on the device while it runs. After the last use of a tensor that is not persistent its
    memory is free. */
typedef struct dao_swap_kernel {
    uint64_t time_ns;         /**< at most DAO_SWAP_TIME_MAX */
    uint64_t workspace_bytes; /**< device memory for this kernel alone */
    const dao_swap_use_t *uses;
    uint32_t use_count;
} dao_swap_kernel_t;

/** How the two directions of a link share it. */
typedef enum dao_swap_duplex {
    DAO_SWAP_DUPLEX_FULL = 0, /**< each has its own speed at any time */
    DAO_SWAP_DUPLEX_HALF = 1, /**< one copy at a time, whatever its direction */
} dao_swap_duplex_t;

/** A slower tier, and its link to the device. */
typedef struct dao_swap_tier {
    uint64_t in_bytes_per_s;  /**< to the device; host: at least 1; file: 0 says that there is no file tier */
    uint64_t out_bytes_per_s; /**< from the device; 0: as in */
    uint64_t
        shared_bytes_per_s; /**< most of both directions together while both copy; 0: no limit but their own */
    uint64_t latency_ns;    /**< of each copy, during which it holds the link */
    uint64_t limit_bytes;   /**< most bytes kept there; 0: no limit */
    dao_swap_duplex_t duplex;
} dao_swap_tier_t;

#define DAO_SWAP_SIZE_MAX  ((uint64_t)1 << 48) /**< of a tensor, and of all together */
#define DAO_SWAP_TIME_MAX  ((uint64_t)1 << 50) /**< of a kernel, and of all together, in ns: 13 days */
#define DAO_SWAP_COUNT_MAX ((uint32_t)1 << 24) /**< of tensors, of kernels, of uses of all kernels */

/** A step. Borrowed by the calls that take it. */
typedef struct dao_swap_problem {
    const dao_swap_tensor_t *tensors;
    uint32_t tensor_count;
    const dao_swap_kernel_t *kernels; /**< in the order in which they run */
    uint32_t kernel_count;            /**< at least 1 */
    uint64_t capacity_bytes;          /**< of the device */
    dao_swap_tier_t host;
    dao_swap_tier_t
        file; /**< takes what the host's limit leaves over; a path of its own, beside the host's link */
    uint32_t
        alignment_bytes; /**< of addresses and of the parts of tensors, a power of two; 0: DAO_SWAP_ALIGNMENT_DEFAULT */
} dao_swap_problem_t;

#define DAO_SWAP_ALIGNMENT_DEFAULT 256u

/** What fills the time of the window of kernels that decides the bound. */
typedef enum dao_swap_binding {
    DAO_SWAP_BINDING_COMPUTE = 0, /**< kernels: neither memory nor a faster link helps */
    DAO_SWAP_BINDING_IN = 1,      /**< copies to the device */
    DAO_SWAP_BINDING_OUT = 2,     /**< copies from the device */
    DAO_SWAP_BINDING_BOTH = 3,    /**< both, over a link that they share */
} dao_swap_binding_t;

/** What no scheme that only moves bytes can beat. Not covered: recomputing, compressing, kernels that read host memory,
    another order of kernels. */
typedef struct dao_swap_bound {
    uint64_t step_ns;    /**< the greatest of the three below */
    uint64_t compute_ns; /**< sum of kernel times */
    uint64_t volume_ns;  /**< least bytes of a step over the link's speed */
    uint64_t window_ns;  /**< sum over the best cut of the step into windows of kernels */
    uint64_t in_bytes;   /**< least bytes to the device in a step, by parts of any size */
    uint64_t out_bytes;  /**< least bytes from the device in a step */

    uint64_t peak_bytes;            /**< of live tensors: with this capacity nothing has to move */
    uint64_t least_capacity_bytes;  /**< of one kernel: below this the step cannot run */
    uint32_t least_capacity_kernel; /**< the kernel that sets it */

    /** The window that adds most to the bound: kernels first .. first + count - 1, going on at the step's start if it goes
        beyond the end. Count 0: no window takes longer than its kernels. */
    uint32_t window_first_kernel;
    uint32_t window_kernel_count;
    uint64_t window_added_ns; /**< by which it is longer than its kernels */
    dao_swap_binding_t window_binding;

    /** How far ahead of the running kernel copies have to be queued: the time to move in_bytes, at most a step. */
    uint64_t lookahead_ns;
    uint32_t lookahead_kernels; /**< most kernels in such a time */
} dao_swap_bound_t;

/** With at most so many kernels the windows of the bound may begin and end at any; with more, every few kernels. */
#define DAO_SWAP_CUT_MAX 4096u

/**
 * Computes the bound of a step.
 *
 * @param problem    Borrowed.
 * @param out_bound  Written on DAO_OK; with DAO_ERR_KERNEL_TOO_LARGE only compute_ns, peak_bytes and least_capacity_*, all else 0.
 * @return DAO_OK; DAO_ERR_INVALID, DAO_ERR_OVERFLOW for a problem beyond its limits; DAO_ERR_KERNEL_TOO_LARGE where the
 *         capacity is less than one kernel needs; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(uses + cuts^2), cuts at most DAO_SWAP_CUT_MAX; some 20 ms for 2,500 kernels.
 */
DAO_API DAO_NODISCARD dao_status_t dao_swap_find_bound(const dao_swap_problem_t *problem,
                                                       dao_swap_bound_t *out_bound);

DAO_END_DECLS

#endif
