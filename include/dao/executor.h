/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * The executor: runs kernels whose tensors do not all fit on the device.
 *
 *     generator threads --push(kernel)--> bounded queue --> executor thread --> compute, H2D, D2H streams
 *
 * Kernels run on one compute stream, or on up to four (dao_kernel_t::stream_index), of the executor's or of
 * the program's (dao_executor_config_t::streams).
 *
 * The program creates managed tensors, pushes kernels that name what they read and write, and drops its
 * handles. The executor brings every operand onto the device before its kernel, and moves other tensors to
 * pinned host memory for it. A tensor is freed as soon as it has neither a handle nor a pending access.
 *
 * The first failure stops the kernels after it: they are skipped until dao_executor_sync() reports and clears
 * it. A kernel that fails or is skipped leaves its tensors as they were. After the sync the executor goes on.
 *
 * In a child process all calls answer DAO_ERR_FORKED, but releases of handles: the executor is the parent's.
 * In a segment callback (dao/segment.h) those that queue or wait answer DAO_ERR_REENTRANT.
 *
 * A device that is lost stays lost: kernels are skipped, and every sync and dao_executor_destroy() answer
 * DAO_ERR_DEVICE_LOST. Once a sync has said so, dao_managed_read() still returns the bytes of tensors that
 * are all on the host.
 */
#ifndef DAO_EXECUTOR_H
#define DAO_EXECUTOR_H

#include <dao/access.h>
#include <dao/file.h>
#include <dao/source.h>
#include <dao/stream.h>
#include <dao/swap.h>

DAO_BEGIN_DECLS

typedef struct dao_executor dao_executor_t;

/** A counted handle to a tensor whose bytes the executor moves. It has a size, but no address of its own
    unless it is pinned. Every function that takes one answers DAO_ERR_INVALID once the last reference was
    released, as far as that can be seen: the latest handles that died are remembered. */
typedef struct dao_managed dao_managed_t;

typedef struct dao_operand {
    dao_managed_t *tensor; /**< borrowed for the call; the queue takes a reference of its own */
    dao_access_t access;
} dao_operand_t;

/** What a kernel's function gets when it is launched. Valid during the call, and its addresses longer. */
typedef struct dao_launch {
    const char *name;
    uint64_t index; /**< logical time: kernels before this one */
    int32_t device_index;
    dao_stream_t *stream; /**< queue all work here: the kernel's compute stream */
    /** Device addresses, one an operand, in the kernel's order. The array is there until all work has
       finished that the function has queued on the stream, so that a function that dao_stream_host_func()
       queues may read it. That of a DAO_KERNEL_REPEATABLE kernel is there during the call alone. */
    void *const *addresses;
    uint32_t operand_count;
    void *workspace; /**< device address of the workspace; NULL if none was asked for */
    bool is_again;   /**< a repeatable kernel runs once more; its addresses may be others than before */
} dao_launch_t;

/**
 * Queues the kernel's work on launch->stream and returns. With CUDA and HIP that is a launch on the stream's
 * native handle (dao_stream_native()). On the cpu backend device memory is the host's: work is a function
 * that dao_stream_host_func() queues, and that computes on the addresses when the stream gets to it. Called
 * on the executor's thread, with the device current; may leave another one so. Must not call this executor,
 * nor dao_finalize(), which answers DAO_ERR_REENTRANT.
 * Addresses are good for work queued on that stream before the function returns. If it returns an error
 * after it has queued work, each tensor that the kernel writes falls back to its copy on the host or in the
 * file; one that only the device has keeps what that work has written; one without a content still has
 * none.
 */
typedef dao_status_t (*dao_launch_func_t)(const dao_launch_t *launch, void *user);

/**
 * A flag of dao_kernel_t: whenever the kernel reads equal bytes it writes equal bytes, whatever lay there,
 * and it changes nothing else, on the device or the host. Random numbers come from a seed and an offset that
 * are fixed when it is pushed, or from an operand; sums of atomics in any order are not repeatable.
 *
 * The plan of a learnt step (dao_executor_step_begin()) may give up what such a kernel wrote, and call its
 * `launch` once more with the addresses of that moment. So all that `launch` and its work use, `user` above
 * all, stays valid until `drop` is called, behind the last run; without `drop` until dao_executor_sync()
 * answers after the step's end, for a command list until that is destroyed and synced. Tensors that it names
 * are kept for it, also those that the program has released or discarded.
 */
#define DAO_KERNEL_REPEATABLE 1u

/** A kernel. All zero but `launch` is a kernel without operands. The executor copies what it needs. */
typedef struct dao_kernel {
    const char *name;         /**< for messages; NULL is "kernel" */
    dao_launch_func_t launch; /**< required */
    void *user;               /**< handed to launch and to drop */
    void (*drop)(void *user); /**< may be NULL; called once: when all its work has finished, or was skipped */
    const dao_operand_t *operands; /**< a tensor named twice counts once; reads and writes are joined */
    uint32_t operand_count;        /**< at most DAO_OPERAND_COUNT_MAX */
    size_t workspace_bytes;        /**< device memory for this kernel alone, not kept */
    /** Device time that its work takes, as far as the program knows; 0: not known. Prefetching goes by it: a
        wrong one costs time, nothing else. */
    uint64_t cost_ns;
    /** NULL, or for each operand the bytes that the kernel touches; it touches no others. The address that it
       gets is still that of the tensor's, or view's, first byte. Without a plan only these bytes move: those
       that it reads and that are not on the device come, and when the tensor leaves, what was written goes to
       the host, where the rest still is. If a kernel names several spans of one tensor, the bytes between
       them count too. A WRITE of some bytes keeps the others; those of a tensor without a content become
       zeros. A plan moves whole tensors, and is followed only where that takes no longer. */
    const dao_span_t *spans;
    uint32_t flags; /**< DAO_KERNEL_REPEATABLE or 0 */
    /** Which compute stream the kernel runs on, below dao_executor_config_t::stream_count. Kernels of one
       stream run in the order in which they were pushed. Kernels of different streams may overlap, unless
       both name a tensor and one of them writes it: then the later one waits, on the device, for the earlier
       one. What two of them share besides their operands is the program's to order. */
    uint32_t stream_index;
} dao_kernel_t;

/** Most operands of one kernel. */
#define DAO_OPERAND_COUNT_MAX 4096

/**
 * Which tensors are evicted when device memory is needed. The first one is the default: it goes by next uses
 * where the queue or a step tells them, and by age where nothing does. Others are there to be compared with,
 * or where the program knows better (DAO_POLICY_USER).
 */
#define DAO_POLICY_LIST(X)                                                                                   \
    X(0, BELADY, "belady", "furthest next use first; without a known one before all, the oldest first")      \
    X(1, LRU, "lru", "least recently used first")                                                            \
    X(2, WEIGHTED_LRU, "weighted_lru", "window with the greatest mean age, weighted by bytes")               \
    X(3, WEIGHTED_BELADY, "weighted_belady", "window with the greatest mean distance, weighted by bytes")    \
    X(4, WINDOW, "window", "consecutive window with the least score: bytes to move over distance")           \
    X(5, SIZE, "size", "largest first")                                                                      \
    X(6, USER, "user", "the program's own score")

typedef enum dao_policy {
#define DAO_POLICY_ENUMERATOR(number, name, text, meaning) DAO_POLICY_##name = number,
    DAO_POLICY_LIST(DAO_POLICY_ENUMERATOR)
#undef DAO_POLICY_ENUMERATOR
} dao_policy_t;

/** What a policy sees of one tensor on the device. Times are logical: a kernel is one. */
typedef struct dao_victim {
    uint64_t id;
    const char *name;
    size_t size_bytes;
    uint64_t now;
    uint64_t last_use; /**< of the latest kernel that used it; 0 if none did; `now` if it was fetched early */
    uint64_t next_use; /**< UINT64_MAX if none is known */
    bool clean;        /**< the host or the file has a valid copy: leaving costs no copy */
    uint32_t priority; /**< of dao_managed_config_t */
} dao_victim_t;

/**
 * The program's own policy: a higher score leaves sooner. Reads only its arguments. Called on the executor's
 * thread; leaves its current device as it is.
 */
typedef double (*dao_policy_score_t)(const dao_victim_t *victim, void *user);

/** Settings of an executor. All zero means defaults. */
typedef struct dao_executor_config {
    int32_t device_index;
    /**
     * Bytes of device memory to use, rounded down to 256, at most 1 TiB. 0: what is free, but for a headroom
     * for others: the larger of 512 MiB and 2 % of the device, of small devices a sixteenth. What idles in
     * the device's place is free: it is given back first, as by dao_trim(). If that cannot be had it takes
     * less; dao_executor_stats_t::capacity_bytes says what it took, and so does the log.
     */
    size_t capacity_bytes;
    size_t host_bytes;        /**< most pinned host memory to use; 0: no limit of its own */
    uint32_t queue_kernels;   /**< length of the queue; 0: DAO_EXECUTOR_QUEUE_DEFAULT */
    dao_policy_t policy;      /**< DAO_POLICY_BELADY is the default */
    dao_policy_score_t score; /**< for DAO_POLICY_USER */
    void *score_user;         /**< handed to score */
    dao_file_config_t file;   /**< where tensors go when pinned host memory is full; all zero: nowhere */
    /** Most device time of kernels that are queued before the host waits, as far as events have told it; 0:
        DAO_EXECUTOR_IN_FLIGHT_NS_DEFAULT. */
    uint64_t in_flight_ns;
    bool on_demand; /**< fetch operands when their kernel is next, not as soon as there is memory for them */
    bool check;     /**< walk and check all structures after every kernel; for tests */
    /**
     * Each kernel that is flagged DAO_KERNEL_REPEATABLE is launched twice on the same inputs, the second time
     * with `is_again`, and what it writes is compared, byte by byte: a kernel that wrote something else fails
     * with DAO_ERR_KERNEL_FAILED, which names it, the operand and the byte. Waits for the device, and takes
     * three times what the kernel writes of host memory: for tests. Times that plans are made of are longer.
     */
    bool check_repeatable;
    /** Learn no steps, see dao_executor_step_begin(). on_demand and DAO_POLICY_USER learn none either. */
    bool without_plans;
    /** Where plans put tensors. BEST: in pages, if the device can map them and the step is faster for it.
       PAGES: also where mapping takes long, as on the cpu backend; where pages cannot be mapped at several
       addresses addresses are static all the same, and the log says so.
       dao_executor_stats_t::paged_plan_count tells. */
    dao_swap_addresses_t addresses;
    /** Compute streams of its own that kernels may run on (dao_kernel_t::stream_index), at most
       DAO_EXECUTOR_STREAM_COUNT_MAX; 0: one. Plans for steps of several only copy: kernels run again in those
       of one. */
    uint32_t stream_count;
    /**
     * NULL, or as many streams as the executor has compute streams, of the same device, on which kernels run
     * in place of streams of its own: made by dao_stream_create() or adopted, such as a framework's; where
     * one is NULL the executor makes its own. Borrowed for the call; the executor keeps the streams
     * themselves until it is destroyed, also such as the program has given to dao_stream_destroy(). The
     * vendor's stream of an adopted one has to live until then, and none is captured into a graph while
     * kernels are in the queue: kernels that would run on a stream that is gone fail with DAO_ERR_INVALID, as
     * far as that can be seen, and on one that is being captured with DAO_ERR_BUSY, before anything of theirs
     * is queued.
     *
     * What the program queues there before it pushes a kernel runs before that kernel, and what it queues
     * behind dao_executor_sync() behind it. In between it lies wherever it was queued: kernels need not be on
     * the stream yet. The executor waits for its own work alone. An error of the program's work is the
     * device's, and what it takes counts as the time of kernels. Stream 0 also gets zeros of a first touch
     * and moves on the device.
     */
    dao_stream_t *const *streams;
} dao_executor_config_t;

/** Most compute streams of an executor. */
#define DAO_EXECUTOR_STREAM_COUNT_MAX 4u

/** Kernels that wait in the queue before push waits, by default. */
#define DAO_EXECUTOR_QUEUE_DEFAULT 1024

/**
 * Device time of kernels that are queued before the host waits, by default: a second. Copies are queued about
 * as far ahead as kernels. So it should be no less than the time to move what a step moves, or what the
 * device holds: see docs/simulate.md.
 */
#define DAO_EXECUTOR_IN_FLIGHT_NS_DEFAULT UINT64_C(1000000000)

/**
 * Creates an executor, its device arena and its thread. A capacity that is named goes through what
 * dao_alloc() tries before it fails: frees in stream order are waited for, caches given back, pressure
 * callbacks asked. Without one the arena is of what the device has free.
 *
 * @param config        Borrowed for the call; NULL means all defaults.
 * @param out_executor  The caller owns it, until dao_executor_destroy().
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_BUSY for a stream of the program's that is being captured;
 *         DAO_ERR_OVERFLOW for more than 1 TiB on the device or in the file; DAO_ERR_NO_DEVICE;
 *         DAO_ERR_NO_DEVICE_MEMORY or DAO_ERR_LIMIT if the arena cannot be had; DAO_ERR_IO
 *         if no file can be made, DAO_ERR_UNSUPPORTED if its engine is not there; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_THREAD; DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: where memory is short, as dao_alloc(). Cost: reserves the arena.
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_create(const dao_executor_config_t *config,
                                                       dao_executor_t **out_executor);

/**
 * Runs what is queued, stops the thread and gives back all memory. Handles to its tensors and steps stay
 * valid and may only be released.
 *
 * @param executor  NULL is allowed.
 * @return DAO_OK; the first error that no sync reported; DAO_ERR_REENTRANT from the executor's own thread:
 *         nothing is done; DAO_ERR_STOPPED where it was destroyed before and handles to its tensors are left.
 *
 * Threads: one, with no other call on this executor under way. Waits: until the queue is empty; a plan that
 * is being made is given up: within milliseconds, but for its bound, which takes 0.1 s of a processor for a
 * step of 20,000 kernels, and for one choice of runs again, which takes 0.2 s for 12,000.
 */
DAO_API dao_status_t dao_executor_destroy(dao_executor_t *executor);

/** Settings of a managed tensor. */
typedef struct dao_managed_config {
    const char *name;      /**< for messages, copied; NULL gives "tensor ID" */
    size_t size_bytes;     /**< at least 1 */
    bool zero_first_touch; /**< reading it before it was written gives zeros instead of an error */
    /** At most DAO_MANAGED_PRIORITY_MAX. Among tensors whose next use is not known, and among those that are
        used next by the same kernel, the ones with the lower priority leave the device first. A known next
        use counts more, and a plan does not look at it. For DAO_POLICY_BELADY and LRU; a program's own policy
        sees it. */
    uint32_t priority;
} dao_managed_config_t;

/** The highest priority of a managed tensor. */
#define DAO_MANAGED_PRIORITY_MAX 255u

/**
 * Creates a managed tensor. It takes no memory until it is first touched.
 *
 * @param executor    Borrowed.
 * @param config      Borrowed for the call; its name is copied.
 * @param out_tensor  The caller owns one reference, until dao_managed_release().
 * @return DAO_OK; DAO_ERR_INVALID for size 0 or NULL; DAO_ERR_OVERFLOW for more than 1 TiB;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_create(dao_executor_t *executor,
                                                      const dao_managed_config_t *config,
                                                      dao_managed_t **out_tensor);

/**
 * Creates a managed tensor of bytes that the program has already, such as weights: in a file
 * (dao_source_open()) or in memory of its own (dao_source_adopt()).
 *
 *     dao_source_t *file;
 *     dao_managed_t *weights;
 *     dao_source_open("model.bin", DAO_SOURCE_CACHE_AUTO, &file);
 *     dao_managed_create_from(executor, &(dao_managed_config_t){.size_bytes = n}, file, offset, &weights);
 *     dao_source_release(file);
 *
 * Kernels may only read it. It leaves the device without a copy, takes no host memory, and its bytes are read
 * once more when they are needed again: through two pinned pieces of the executor, each copied on to the
 * device while the other one is read. A kernel waits for that until it is known that all bytes were read.
 *
 * What would write it is refused with DAO_ERR_INVALID by the call that says so, and nothing happens: a push
 * of such a kernel, dao_managed_write() and all like it, dao_command_list_discard(). A read that fails twice
 * (a file that has become shorter, a disk's error) fails the kernel, or the call that reads, with DAO_ERR_IO
 * and a message that names tensor and source. The tensor can be used as soon as its bytes can be read.
 *
 * A plan has them come from there, too, as quickly as from the host until that is measured. Limits of their
 * speed are those of dao_file_config_t.
 *
 * @param executor      Borrowed.
 * @param config        As for dao_managed_create(), without zero_first_touch.
 * @param source        Borrowed for the call; the tensor takes a reference of its own.
 * @param offset_bytes  Of the first byte in the source, which has all of the tensor's.
 * @param out_tensor    The caller owns one reference, until dao_managed_release().
 * @return As dao_managed_create(), DAO_ERR_INVALID also for bytes beyond the source's end; of the first call
 *         for an executor also DAO_ERR_LIMIT and DAO_ERR_NO_HOST_MEMORY where the pinned place has no room
 *         for the pieces, DAO_ERR_THREAD, DAO_ERR_UNSUPPORTED, DAO_ERR_STOPPED, the device's own error, and
 *         DAO_ERR_REENTRANT from the executor's own thread: the next call tries again.
 *
 * Threads: any. Waits: the first call for an executor, until that gets there; else never. Cost: O(1); the
 * first one takes streams and pinned pieces, of at most 64 MiB each.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_create_from(dao_executor_t *executor,
                                                           const dao_managed_config_t *config,
                                                           dao_source_t *source, uint64_t offset_bytes,
                                                           dao_managed_t **out_tensor);

/**
 * Makes a handle to some bytes of a tensor, such as a slice of a buffer or the same bytes by another name. It
 * has no bytes of its own: it is where the tensor is, keeps it alive as a handle does, and goes with its own
 * last reference. It can be read, written, pinned, viewed and named as an operand as a tensor can; a kernel
 * gets the address of its first byte, and what is said of dao_kernel_t::spans holds. So a kernel that writes
 * a view of a large tensor that is on the host brings no other bytes. A kernel may name several views of one
 * tensor, also such that overlap. Order is that of the kernels, whatever handles they name.
 *
 * @param tensor        Borrowed; may be a view.
 * @param offset_bytes  Of the first byte in `tensor`.
 * @param size_bytes    At least 1; the last byte lies in `tensor`.
 * @param out_view      The caller owns one reference, until dao_managed_release(). Its number
 *                      (dao_managed_id()) and name are those of the tensor.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_view(dao_managed_t *tensor, size_t offset_bytes,
                                                    size_t size_bytes, dao_managed_t **out_view);

/** Adds a reference. DAO_ERR_INVALID for NULL or a handle without references, see dao_managed_t. Threads:
    any. Waits: never. Cost: O(1). */
DAO_API dao_status_t dao_managed_retain(dao_managed_t *tensor);

/**
 * Drops a reference. The last one travels through the queue: kernels pushed before still use the tensor, then
 * it is freed.
 *
 * @param tensor  NULL is allowed.
 * @return DAO_OK; DAO_ERR_INVALID for a handle without references, as dao_managed_retain().
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_managed_release(dao_managed_t *tensor);

/** Returns the size in bytes; 0 with dao_last_status() DAO_ERR_INVALID for what is no tensor. Threads: any.
    Waits: never. Cost: O(1). */
DAO_API size_t dao_managed_size(const dao_managed_t *tensor);

/** Returns the number by which messages and policies name it; 0 with dao_last_status() DAO_ERR_INVALID for
    what is no tensor. Threads: any. Waits: never. Cost: O(1). */
DAO_API uint64_t dao_managed_id(const dao_managed_t *tensor);

/**
 * Puts bytes into a tensor, after all kernels pushed before.
 *
 * @param tensor      Borrowed.
 * @param source      `size_bytes` bytes on the host; free for reuse when the call returns.
 * @param size_bytes  The size of the tensor.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_HOST_FULL; DAO_ERR_COPY_FAILED and DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the executor's own thread; DAO_ERR_BUSY after a failure
 *         that dao_executor_sync() has not reported yet; DAO_ERR_DEVICE_LOST with the tensor's name. On
 *         failure the tensor is unchanged.
 *
 * Threads: any. Waits: until the executor gets there. Cost: one copy on the host.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_write(dao_managed_t *tensor, const void *source,
                                                     size_t size_bytes);

/**
 * Reads a tensor's bytes, after all kernels pushed before.
 *
 * @param tensor       Borrowed.
 * @param destination  `size_bytes` bytes on the host.
 * @param size_bytes   The size of the tensor.
 * @return As dao_managed_write(); DAO_ERR_NEVER_WRITTEN. On failure `destination` may be partly written.
 *
 * Threads: any. Waits: until the bytes are there. Cost: at most one copy from the device and one on the host.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_read(dao_managed_t *tensor, void *destination,
                                                    size_t size_bytes);

/**
 * Puts bytes into a part of a tensor, as dao_managed_write(). The other bytes stay; those of a tensor without
 * a content become zeros.
 *
 * @param tensor        Borrowed.
 * @param offset_bytes  Of the first byte in the tensor.
 * @param source        `size_bytes` bytes on the host; free for reuse when the call returns.
 * @param size_bytes    At least 1; the last byte lies in the tensor.
 * @return As dao_managed_write(), and DAO_ERR_IO where the file has the others and cannot be read.
 *
 * Threads: any. Waits: until the executor gets there, and for copies of the tensor that are under way.
 * Cost: one copy of these bytes; of all of them where only the file has the tensor.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_write_part(dao_managed_t *tensor, size_t offset_bytes,
                                                          const void *source, size_t size_bytes);

/**
 * Reads a part of a tensor's bytes, as dao_managed_read().
 *
 * @param tensor        Borrowed.
 * @param offset_bytes  Of the first byte in the tensor.
 * @param destination   `size_bytes` bytes on the host.
 * @param size_bytes    At least 1; the last byte lies in the tensor.
 * @return As dao_managed_read().
 *
 * Threads: any. Waits: until the bytes are there. Cost: at most one copy of these bytes from the device, or
 * of those that kernels have written since the tensor came, and one on the host.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_read_part(dao_managed_t *tensor, size_t offset_bytes,
                                                         void *destination, size_t size_bytes);

/**
 * What an asynchronous write or read calls once, when the program's memory is its own again. With anything
 * but DAO_OK dao_last_message() says why. Called on the executor's thread, which waits for it: it must not
 * call this executor, and should signal somebody, or record what is done, and return.
 */
typedef void (*dao_transfer_done_t)(dao_status_t status, void *user);

/**
 * Puts bytes into a tensor as dao_managed_write_part() does, in the order of everything else that is pushed,
 * and returns at once. A write that fails stops the kernels behind it, as a kernel that fails does: they are
 * skipped until dao_executor_sync() reports it.
 *
 * @param tensor        Borrowed for the call.
 * @param offset_bytes  Of the first byte in the tensor.
 * @param source        `size_bytes` bytes on the host. Borrowed, and not to be changed, until `done`.
 * @param size_bytes    At least 1; the last byte lies in the tensor. All of a tensor replaces its content.
 * @param done          Called unless this call fails, also by dao_executor_destroy().
 * @param user          Handed to `done`.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the
 *         executor's own thread. What dao_managed_write_part() may answer besides goes to `done`.
 *
 * Threads: any. Waits: never. Cost: one item in the queue; to the executor what dao_managed_write_part()
 * costs.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_write_async(dao_managed_t *tensor, size_t offset_bytes,
                                                           const void *source, size_t size_bytes,
                                                           dao_transfer_done_t done, void *user);

/**
 * Reads a tensor's bytes as dao_managed_read_part() does, in the order of everything else that is pushed, and
 * returns at once. The executor queues no kernel behind it until the bytes are there; the device goes on with
 * those that are queued.
 *
 * @param tensor        Borrowed for the call.
 * @param offset_bytes  Of the first byte in the tensor.
 * @param destination   `size_bytes` bytes on the host. Borrowed until `done`.
 * @param size_bytes    At least 1; the last byte lies in the tensor.
 * @param done          Called unless this call fails, also by dao_executor_destroy().
 * @param user          Handed to `done`.
 * @return As dao_managed_write_async().
 *
 * Threads: any. Waits: never. Cost: one item in the queue; to the executor what dao_managed_read_part()
 * costs.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_read_async(dao_managed_t *tensor, size_t offset_bytes,
                                                          void *destination, size_t size_bytes,
                                                          dao_transfer_done_t done, void *user);

/**
 * Keeps a tensor on the device until dao_managed_unpin(): it comes now, or, without a content, with its first
 * one, is never moved, and has one address. Pins are counted; the release of the last handle takes them away,
 * after all kernels pushed before.
 *
 * Pinned tensors lie from the top of the capacity down. A kernel can use all that is below them, and those
 * that it names. A plan (dao_executor_step_begin()) is made beside the tensors that are pinned, for what lies
 * below them: it moves none of them, and is followed while these and no others are. With others a step goes
 * on without a plan until it has one for them. A plan runs no kernel again that uses a pinned tensor. So pin
 * what is used by most kernels, and what has to keep its address; a learnt step keeps on the device by itself
 * what is worth it. A kernel that fails after it has queued work may make a pinned tensor that it writes
 * leave until its next use.
 *
 * @param tensor       Borrowed.
 * @param out_address  NULL, or its device address, which kernels find in dao_launch_t until it is unpinned.
 *                     Only work that a kernel that names the tensor has queued may use it.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_LIMIT if the device has no room of that size beside other pinned
 *         tensors, with what is pinned in the message; DAO_ERR_HOST_FULL, DAO_ERR_COPY_FAILED and DAO_ERR_IO
 *         where others cannot leave or it cannot come; DAO_ERR_BUSY after a failure that dao_executor_sync()
 *         has not reported yet; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the
 *         executor's own thread; the device's own error. On failure it is not pinned once more, and no byte
 *         is lost.
 *
 * Threads: any. Waits: until the executor gets there. Cost: O(pinned tensors); a copy in, and what leaves for
 * it.
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_pin(dao_managed_t *tensor, void **out_address);

/**
 * Takes one pin of dao_managed_pin() away, after all kernels pushed before. With the last one the tensor may
 * leave the device as others do. The pin is also taken away after a failure that the next dao_executor_sync()
 * reports.
 *
 * @return DAO_OK; DAO_ERR_INVALID also for a tensor that is not pinned; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the executor's own thread.
 *
 * Threads: any. Waits: until the executor gets there. Cost: O(pinned tensors).
 */
DAO_API DAO_NODISCARD dao_status_t dao_managed_unpin(dao_managed_t *tensor);

/**
 * Pushes a kernel. Kernels run in the order in which they were pushed, as far as they are on one compute
 * stream or share tensors (dao_kernel_t::stream_index); any number of threads may push.
 *
 * @param executor  Borrowed.
 * @param kernel    Borrowed for the call.
 * @return DAO_OK; DAO_ERR_INVALID for a missing launch, a NULL or foreign tensor, a span that does not lie
 *         in its tensor, too many operands, a stream that the executor does not have;
 *         DAO_ERR_OVERFLOW for a workspace of more than 1 TiB; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED;
 *         DAO_ERR_REENTRANT from the executor's own thread. On failure `drop` is not called. What goes wrong
 *         later is reported by dao_executor_sync().
 *
 * Threads: any. Waits: while the queue is full. Cost: O(operands).
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_push(dao_executor_t *executor, const dao_kernel_t *kernel);

/**
 * Waits until everything pushed by this call's begin has run on the device, and reports the first error since
 * the last sync.
 *
 * @return DAO_OK; DAO_ERR_KERNEL_TOO_LARGE, DAO_ERR_HOST_FULL, DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_COPY_FAILED,
 *         DAO_ERR_IO, DAO_ERR_NEVER_WRITTEN, DAO_ERR_KERNEL_FAILED, with a message that names the kernel, the
 *         tensor and the figures; the device's own error; DAO_ERR_STOPPED; DAO_ERR_REENTRANT.
 *
 * Threads: any. Waits: for the queue and the device. Cost: one item in the queue.
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_sync(dao_executor_t *executor);

/**
 * Gives the executor another capacity, after all kernels pushed before: less, for others on the device, or
 * more. All tensors leave the device for that, and come back as kernels need them. Steps stay known, and are
 * planned anew.
 *
 * @param executor        Borrowed.
 * @param capacity_bytes  As in dao_executor_config_t; 0: what is free once its own memory is.
 * @return DAO_OK; DAO_ERR_INVALID and DAO_ERR_OVERFLOW as dao_executor_create(); DAO_ERR_HOST_FULL
 *         and DAO_ERR_COPY_FAILED where a tensor cannot leave; DAO_ERR_NO_DEVICE_MEMORY or DAO_ERR_LIMIT if
 *         the capacity cannot be had; DAO_ERR_BUSY while tensors are pinned, and after a failure that
 *         dao_executor_sync() has not reported yet; DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the executor's
 *         own thread; DAO_ERR_NO_HOST_MEMORY; the device's own error. On failure the capacity is as it was.
 *         If somebody has taken the memory meanwhile it is 0, with a warning in the log: kernels answer
 *         DAO_ERR_KERNEL_TOO_LARGE until another capacity is set. No byte of a tensor is lost.
 *
 * Threads: any. Waits: for the queue and the device, and where memory is short, as dao_alloc(). Cost: a copy
 * out of all that is on the device and changed, and one back of what is used.
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_capacity_set(dao_executor_t *executor, size_t capacity_bytes);

/**
 * Begins a step of the program: a part that is repeated, such as one pass over a batch. A step that has not
 * ended ends here. dao_command_list_run() begins and ends a step by itself.
 *
 * The executor recognizes a step that comes again by its kernels: name, function, workspace, and the sizes,
 * accesses and order of their tensors. Temporaries may be other tensors each time, if the step or the program
 * writes them before the step reads them. From the second time on the executor knows the accesses that
 * follow. Where tensors have to be moved, it measures the step, makes a plan for it (dao/swap.h) on a thread
 * of its own, and follows the plan from the begin of a later step. A step that deviates goes on without its
 * plan from that kernel on. The plans of the last eight steps are kept. A plan is made anew when kernels or
 * copies take other times than it was made with. It is followed only while the step is measured to be no
 * slower than without it.
 *
 * While a plan is followed, a content may be given up that a queued kernel is going to overwrite. If that
 * kernel fails or is skipped, the tensor counts as never written.
 *
 * Where kernels are DAO_KERNEL_REPEATABLE and host memory has no limit of its own, a plan may run some of
 * them again instead of keeping or copying what they wrote, if that makes the step shorter. All other kernels
 * run once, in their order. A step that deviates, or a program that reads or writes such a tensor meanwhile,
 * makes all that was given up come back first: nothing is lost. If a kernel fails when it runs again, that is
 * reported as its failure, and its outputs count as never written.
 *
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the
 *         executor's own thread.
 *
 * Threads: any. Waits: never. Cost: one item in the queue.
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_step_begin(dao_executor_t *executor);

/**
 * Ends the step of dao_executor_step_begin(). Kernels between an end and the next begin are a step of their
 * own, so that steps that follow each other directly need one call between them.
 *
 * @return As dao_executor_step_begin().
 *
 * Threads: any. Waits: never. Cost: one item in the queue.
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_step_end(dao_executor_t *executor);

/**
 * Writes the step that ended last as a file that all commands of `dao` read (docs/formats.md): its kernels
 * and tensors with their names, accesses and sizes, what lives on, what may run again, and the times. Times
 * are those that were measured, which is so once the step has come for the second time; before, the program's
 * dao_kernel_t::cost_ns. An operand of some bytes (dao_kernel_t::spans) stands as the whole tensor.
 *
 * @param executor  Borrowed.
 * @param path      Of a file that is made, or made anew.
 * @return DAO_OK; DAO_ERR_INVALID; DAO_ERR_NOT_READY if no step has ended yet, or the last one failed;
 *         DAO_ERR_UNSUPPORTED for an executor that learns no steps; DAO_ERR_IO: a file that was made is
 *         left empty; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_STOPPED; DAO_ERR_REENTRANT from the executor's own
 *         thread.
 *
 * Threads: any. Waits: for the queue and the device. Cost: O(kernels and operands of the step).
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_step_write(dao_executor_t *executor, const char *path);

/**
 * The fields of dao_executor_stats_t. Stalls, bound and loss are of the steps that were measured, see
 * dao_executor_step_begin().
 */
#define DAO_EXECUTOR_STATS_LIST(X)                                                                           \
    X(uint64_t, kernel_count, "kernels launched")                                                            \
    X(uint64_t, skipped_count, "kernels skipped after a failure")                                            \
    X(uint64_t, eviction_count, "tensors moved off the device")                                              \
    X(uint64_t, clean_eviction_count, "of these, without a copy")                                            \
    X(uint64_t, writeback_count, "tensors copied out before they had to leave")                              \
    X(uint64_t, fetch_count, "tensors or parts of them brought back")                                        \
    X(uint64_t, in_bytes, "bytes copied to the device")                                                      \
    X(uint64_t, out_bytes, "bytes copied to the host")                                                       \
    X(uint64_t, compaction_count, "times all tensors left the device to undo fragmentation")                 \
    X(uint64_t, throttle_count, "times the host waited for the device because too much was in flight")       \
    X(uint64_t, capacity_bytes, "size of the device arena")                                                  \
    X(uint64_t, device_used_bytes, "bytes of it in use")                                                     \
    X(uint64_t, peak_device_used_bytes, "most bytes of it in use")                                           \
    X(uint64_t, pinned_bytes, "bytes of it that pinned tensors have")                                        \
    X(uint64_t, host_used_bytes, "pinned host bytes in use")                                                 \
    X(uint64_t, peak_host_used_bytes, "most pinned host bytes in use")                                       \
    X(uint64_t, file_write_count, "tensors begun to be written to the file")                                 \
    X(uint64_t, file_fetch_count, "tensors brought back from the file")                                      \
    X(uint64_t, file_in_bytes, "bytes read from the file")                                                   \
    X(uint64_t, file_out_bytes, "bytes written to the file")                                                 \
    X(uint64_t, file_used_bytes, "bytes of the file in use")                                                 \
    X(uint64_t, peak_file_used_bytes, "most bytes of the file in use")                                       \
    X(uint64_t, file_failure_count, "writes to the file and reads from it that have failed")                 \
    X(uint64_t, live_tensor_count, "tensors with a handle or a pending access")                              \
    X(uint64_t, plan_count, "plans that are kept")                                                           \
    X(uint64_t, paged_plan_count, "of these, plans with large tensors in pages")                             \
    X(uint64_t, planning_count, "plans that are being made, lie ready, or wait for the measured times")      \
    X(uint64_t, mapped_page_count, "pages that plans have mapped at addresses of their own")                 \
    X(uint64_t, page_call_count, "pages that were mapped or unmapped, a call of the driver each")            \
    X(uint64_t, plan_hit_count, "steps that followed a plan to their end")                                   \
    X(uint64_t, deviation_count, "steps that left their plan")                                               \
    X(uint64_t, better_plan_count, "plans that were found while a first one was followed, and are better")   \
    X(uint64_t, replan_count, "plans made anew, as times had changed")                                       \
    X(uint64_t, plan_dropped_count, "plans that were slower than the one before, or than the step without")  \
    X(uint64_t, again_count, "kernels run again, as plans or what was left of one needed them")              \
    X(uint64_t, again_ns, "their time, by the measurements that their plans were made with")                 \
    X(uint64_t, save_count, "contents that a plan gave up, copied out as they might still be asked for")     \
    X(uint64_t, unplanned_count, "steps on several streams that have no plan, as plans may not copy")        \
    X(uint64_t, measured_step_count, "steps that were measured")                                             \
    X(uint64_t, stall_in_ns, "kernels waited for data")                                                      \
    X(uint64_t, stall_out_ns, "kernels waited for room")                                                     \
    X(uint64_t, stall_host_ns, "kernels waited for the host to queue them")                                  \
    X(uint64_t, bound_ns, "least time of the measured steps that followed a plan")                           \
    X(uint64_t, lost_ns, "by which these took longer")                                                       \
    X(uint64_t, forecast_ns, "what their plans say that they take")

typedef struct dao_executor_stats {
#define DAO_EXECUTOR_STATS_FIELD(type, name, text) type name; /**< see DAO_EXECUTOR_STATS_LIST */
    DAO_EXECUTOR_STATS_LIST(DAO_EXECUTOR_STATS_FIELD)
#undef DAO_EXECUTOR_STATS_FIELD
} dao_executor_stats_t;

/**
 * Reads an executor's counters, as they were after its latest kernel.
 *
 * @param executor   Borrowed.
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_executor_stats_get(dao_executor_t *executor,
                                                          dao_executor_stats_t *out_stats);

/**
 * Returns the name of a policy, such as "weighted_belady"; "unknown" for a number that is none. Threads: any.
 * Waits: never. Cost: O(1).
 */
DAO_API const char *dao_policy_name(dao_policy_t policy);

/**
 * Finds a policy by its name. DAO_ERR_INVALID if there is none of that name. Threads: any. Waits: never.
 * Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_policy_parse(const char *text, dao_policy_t *out_policy);

DAO_END_DECLS

#endif
