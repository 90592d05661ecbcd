/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Offset planning: buffers with known lifetimes get offsets in a pool. Buffers that are alive together share
 * no bytes, and the peak, which is the highest byte used, is as low as can be found.
 *
 *     dao_plan_make(&problem, NULL, &plan);             works to the end: bound met, or no method helps
 *
 *     dao_planner_create(&problem, &config, &planner);  copies the problem
 *     dao_planner_work(planner, 0, NULL);               until there is a first valid plan
 *     dao_planner_start(planner);                       goes on, on its own thread or the program's executor
 *     dao_planner_best(planner, &plan);                 at any moment: the best plan so far
 *     dao_planner_destroy(planner);                     plans that were handed out stay
 *
 * A plan that leaves out fewer bytes is better; of two that leave out as many, the one with the lower peak.
 * With several pools the peak is the sum of the pools' peaks. So a buffer goes to a later pool where that
 * costs less, and not only where the pools before it are full.
 *
 * A plan is immutable and counted. Work is counted in steps of the methods, not in time. The same problem and
 * settings give the same plans after the same work, in whatever slices and on whatever thread. Nothing here
 * needs dao_init(). In a forked child a planner of the parent answers DAO_ERR_FORKED, and
 * dao_planner_destroy() does nothing; plans can be used.
 */
#ifndef DAO_PLAN_H
#define DAO_PLAN_H

#include <dao/status.h>

DAO_BEGIN_DECLS

/** As a fixed offset: none. As an offset in a plan: this buffer did not fit into any pool. */
#define DAO_PLAN_NOWHERE UINT64_MAX

/** As a buffer's pool: any. As a pool in a plan: this buffer did not fit into any pool. */
#define DAO_PLAN_ANY_POOL UINT32_MAX

/** Largest buffer, in bytes. */
#define DAO_PLAN_SIZE_MAX ((uint64_t)1 << 48)

/** Most bytes of a problem: all sizes, each rounded up to its alignment, and the largest fixed end of each
    pool. Also the most that a pool may hold. */
#define DAO_PLAN_TOTAL_MAX ((uint64_t)1 << 61)

/** Most buffers, and most pieces that gaps and a period cut their lifetimes into. */
#define DAO_PLAN_BUFFER_COUNT_MAX ((uint32_t)1 << 28)

/** Longest period: times beyond it, of lifetimes that go over its end, stay countable. */
#define DAO_PLAN_PERIOD_MAX ((uint64_t)1 << 62)

#define DAO_PLAN_POOL_COUNT_MAX  64u
#define DAO_PLAN_CLOCK_COUNT_MAX 256u

/** A buffer and its lifetime. Times are in any unit; only their order counts, except for the margin. */
typedef struct dao_plan_buffer {
    /** Alive from here on; with a period, below it. */
    uint64_t begin_time;
    /** Alive up to here, not included; above begin_time; with a period, at most begin_time + period. */
    uint64_t end_time;
    /** 1 to DAO_PLAN_SIZE_MAX. */
    uint64_t size_bytes;
    /** Where it has to lie, a multiple of its alignment; DAO_PLAN_NOWHERE: anywhere. */
    uint64_t fixed_offset;
    /** Of its offset, a power of two; 0: the problem's. */
    uint32_t alignment_bytes;
    /** The pool that it has to lie in, or DAO_PLAN_ANY_POOL, which with a fixed offset is pool 0. */
    uint32_t pool;
} dao_plan_buffer_t;

/** A gap: a time within a lifetime in which some bytes are not used, so that other buffers may have them. */
typedef struct dao_plan_gap {
    size_t buffer;       /**< index of the buffer */
    uint64_t begin_time; /**< not used from here; not before the buffer's begin_time */
    uint64_t end_time;   /**< up to here, not included; not after the buffer's end_time */
    uint64_t low_byte;   /**< bytes from here, counted from the buffer's start */
    uint64_t high_byte;  /**< up to here, not included; both 0: all of it */
} dao_plan_gap_t;

/** A pool of memory, all zero: without limit. Its tag is longer since dao_plan_pool() is a function. */
typedef struct dao_plan_pool_config {
    uint64_t capacity_bytes; /**< 0: no limit */
} dao_plan_pool_t;

/**
 * A problem. All zero but the buffers: one pool without limit, half-open lifetimes. Borrowed by each call.
 */
typedef struct dao_plan_problem {
    const dao_plan_buffer_t *buffers;
    size_t buffer_count; /**< 0 is a problem with an empty plan */
    /** In the order of their buffers; the gaps of a buffer in the order of time, without overlap. */
    const dao_plan_gap_t *gaps;
    size_t gap_count; /**< with gaps, no clocks */
    /** Of plans that are equally good, those that fill earlier pools first are preferred, where they are
        found. */
    const dao_plan_pool_t *pools;
    uint32_t pool_count; /**< 0: one pool without limit */
    /**
     * Vector clocks, instead of begin_time and end_time: lifetimes by happens-before. Buffer i begins at
     * begin_clocks[i * clock_count ...] and ends at end_clocks[i * clock_count ...], which is below the begin
     * in no component and above it in at least one. Two buffers may share bytes if the end of one is above
     * the begin of the other in no component. Without period, margin, gaps and is_closed.
     */
    const uint32_t *begin_clocks;
    const uint32_t *end_clocks;
    uint32_t clock_count; /**< 0: times; at most DAO_PLAN_CLOCK_COUNT_MAX */
    bool is_closed;       /**< lifetimes include their end_time: a buffer overlaps one that begins then */
    /** The step repeats after so long: lifetimes that go beyond it go on at its start; 0: it does not
        repeat. */
    uint64_t period;
    /**
     * Every use ends so much later than it says, for threads whose frees have no fixed order. Right before a
     * gap that does not begin the lifetime all bytes count as used, even if another gap ends there.
     */
    uint64_t margin;
    uint32_t alignment_bytes; /**< of every offset, a power of two; 0: 1 */
} dao_plan_problem_t;

/** How offsets are found. A number never changes its meaning. */
#define DAO_PLAN_METHOD_LIST(X)                                                                              \
    X(0, BEST, "best", "several methods, then improvement until the bound is met")                           \
    X(1, SKYLINE_START, "skyline_start", "skyline: the lowest place gets what starts first")                 \
    X(2, SKYLINE_DURATION, "skyline_duration", "skyline: the lowest place gets what lives longest")          \
    X(3, SKYLINE_AREA, "skyline_area", "skyline: the lowest place gets the most bytes times life")           \
    X(4, SKYLINE_SIZE, "skyline_size", "skyline: the lowest place gets what is largest")                     \
    X(5, START_FIRST_FIT, "start_first_fit", "by start, lowest hole")                                        \
    X(6, START_BEST_FIT, "start_best_fit", "by start, smallest hole")                                        \
    X(7, SIZE_FIRST_FIT, "size_first_fit", "by size, lowest hole")                                           \
    X(8, SIZE_BEST_FIT, "size_best_fit", "by size, smallest hole")                                           \
    X(9, DURATION_FIRST_FIT, "duration_first_fit", "by duration, lowest hole")                               \
    X(10, DURATION_BEST_FIT, "duration_best_fit", "by duration, smallest hole")                              \
    X(11, AREA_FIRST_FIT, "area_first_fit", "by bytes times duration, lowest hole")                          \
    X(12, AREA_BEST_FIT, "area_best_fit", "by bytes times duration, smallest hole")                          \
    X(13, SEARCH, "search",                                                                                  \
      "exact: below skyline_area's plan, for one pool and whole lives, or few buffers")                      \
    X(14, BINS, "bins", "lifetime bins: blocks of one size, which buffers share in turn")                    \
    X(15, BREADTH_FIRST_FIT, "breadth_first_fit", "by the most bytes alive during its life, lowest hole")    \
    X(16, BREADTH_BEST_FIT, "breadth_best_fit", "by the most bytes alive during its life, smallest hole")    \
    X(17, SQUEAKY_WHEEL, "squeaky_wheel", "fills the skyline again and again; what was high comes sooner")

typedef enum dao_plan_method {
#define DAO_PLAN_METHOD_ENUMERATOR(number, name, text, description) DAO_PLAN_METHOD_##name = number,
    DAO_PLAN_METHOD_LIST(DAO_PLAN_METHOD_ENUMERATOR)
#undef DAO_PLAN_METHOD_ENUMERATOR
        DAO_PLAN_METHOD_COUNT,
} dao_plan_method_t;

/**
 * Returns the name of a method, such as "best".
 *
 * @return A static string; "unknown" for a number that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_plan_method_name(dao_plan_method_t method);

/**
 * Finds a method by its name.
 *
 * @param name        One that dao_plan_method_name() returns, exactly.
 * @param out_method  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a name that no method has: the message lists the names.
 *
 * Threads: any. Waits: never. Cost: O(methods).
 */
DAO_API DAO_NODISCARD dao_status_t dao_plan_method_parse(const char *name, dao_plan_method_t *out_method);

/** A plan, immutable and counted: a planner keeps its best one while callers have it. Plans of dao/swap.h and
    dao/recompute.h have one owner each, and are destroyed. */
typedef struct dao_plan dao_plan_t;

/** The quality of a plan, and what it cost. */
typedef struct dao_plan_report {
    uint64_t peak_bytes;      /**< highest byte used, over all pools together */
    uint64_t bound_bytes;     /**< no plan that places every buffer has a lower peak */
    uint64_t unplaced_bytes;  /**< size of the buffers that did not fit */
    size_t unplaced_count;    /**< their number; their offset is DAO_PLAN_NOWHERE */
    bool is_proved;           /**< no plan is better: all are placed, and a lower peak is not possible */
    dao_plan_method_t method; /**< that found it; BEST for a plan that was made from offsets */
    uint64_t version;         /**< 1 for a planner's first plan, then counted up */
    uint64_t work;            /**< the planner's work until it was found */
    uint64_t memory_bytes; /**< most host memory that the planner held until then, the problem not included */
} dao_plan_report_t;

/**
 * Makes a plan of offsets from elsewhere, such as a file, after checking them as dao_plan_check() does.
 *
 * @param problem   Borrowed.
 * @param offsets   One a buffer, DAO_PLAN_NOWHERE for one that is not placed; copied.
 * @param pools     One a buffer; NULL: all are in pool 0; copied.
 * @param out_plan  The caller owns a reference; written only on DAO_OK.
 * @return As dao_plan_check().
 *
 * Threads: any. Waits: never. Cost: as dao_plan_check().
 */
DAO_API DAO_NODISCARD dao_status_t dao_plan_create(const dao_plan_problem_t *problem, const uint64_t *offsets,
                                                   const uint32_t *pools, dao_plan_t **out_plan);

/**
 * Takes one more reference, which dao_plan_release() gives back.
 *
 * @return The plan; NULL for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_plan_t *dao_plan_retain(dao_plan_t *plan);

/**
 * Drops a reference; the last one frees the plan. NULL is allowed.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API void dao_plan_release(dao_plan_t *plan);

/**
 * Returns all offsets, in the order of the problem's buffers.
 *
 * @return Borrowed, as long as the plan; NULL for NULL or an empty plan.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const uint64_t *dao_plan_offsets(const dao_plan_t *plan);

/**
 * Returns the offset of a buffer in its pool.
 *
 * @return DAO_PLAN_NOWHERE if it is not placed, and for NULL or an index that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API uint64_t dao_plan_offset(const dao_plan_t *plan, size_t buffer);

/**
 * Returns the pool of a buffer.
 *
 * @return DAO_PLAN_ANY_POOL if it is not placed, and for NULL or an index that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API uint32_t dao_plan_pool(const dao_plan_t *plan, size_t buffer);

/**
 * Returns the highest byte used of a pool.
 *
 * @return 0 for NULL or a pool that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API uint64_t dao_plan_pool_peak(const dao_plan_t *plan, uint32_t pool);

/** Policies of the method `bins`: they round sizes up in steps of 4, 8 and 16 KiB. */
#define DAO_PLAN_BIN_POLICY_COUNT 3u

/**
 * Returns the bytes that a policy of the method `bins` needs: all its blocks, to the end of each. The plan is
 * that of the least, where nothing is fixed and nothing is limited; its peak may be lower, by what the last
 * block's buffers leave of it.
 *
 * @return 0 for NULL, a plan of another method or a policy that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API uint64_t dao_plan_bin_policy_bytes(const dao_plan_t *plan, uint32_t policy);

/**
 * Returns the number of buffers; 0 for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API size_t dao_plan_count(const dao_plan_t *plan);

/**
 * Writes the quality of a plan and what it cost.
 *
 * @param plan        Borrowed.
 * @param out_report  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_plan_report_get(const dao_plan_t *plan, dao_plan_report_t *out_report);

/**
 * Checks offsets against a problem: no two buffers share bytes at the same time, each lies where it may, in a
 * pool that holds it. Buffers that are not placed are not checked. The check shares no code with the methods.
 *
 * @param problem  Borrowed.
 * @param offsets  One a buffer, DAO_PLAN_NOWHERE for one that is not placed. May be NULL for an empty
 *                 problem.
 * @param pools    One a buffer; NULL: all are in pool 0.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, a problem that is not valid, or offsets that break a rule: the
 *         message names the buffers; DAO_ERR_OVERFLOW for sizes that are too large together;
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(n log n); with clocks up to O(n^2).
 */
DAO_API DAO_NODISCARD dao_status_t dao_plan_check(const dao_plan_problem_t *problem, const uint64_t *offsets,
                                                  const uint32_t *pools);

/** A planner works on one problem. */
typedef struct dao_planner dao_planner_t;

/**
 * A unit of work for an executor: `run(argument)`, once, on any thread, at some time after `submit` or inside
 * it.
 */
typedef void (*dao_plan_run_func_t)(void *argument);

/**
 * Settings of a planner. All zero: the method `best`, until it is done, on a thread of its own if it is
 * started.
 */
typedef struct dao_planner_config {
    dao_plan_method_t method;
    uint64_t work_limit; /**< steps, though `best` always finds a first plan; 0: no limit */
    uint64_t seed;       /**< of what is drawn at random; 0 is a seed like any other */
    /**
     * Hands work to the program's executor, for dao_planner_start(); NULL: the planner has a thread. Each run
     * works for about a millisecond and then submits the next one. Called without locks, never by two threads
     * at the same time. It may call any function of the library but dao_finalize(), which answers
     * DAO_ERR_REENTRANT, and those that wait for this planner.
     */
    void (*submit)(dao_plan_run_func_t run, void *argument, void *submit_user);
    void *submit_user;
} dao_planner_config_t;

/**
 * Makes a planner: checks the problem and copies it. Plans come with the work: with the method `best` a first
 * one after about a third of a microsecond a buffer, from other methods when they are done.
 *
 * @param problem      Borrowed for the call.
 * @param config       Copied; NULL: all defaults.
 * @param out_planner  The caller owns it, until dao_planner_destroy(); written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL or a problem or config that is not valid: the message says what;
 *         DAO_ERR_OVERFLOW for sizes that are too large together; DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any. Waits: never. Cost: O(n), some 20 ns a buffer.
 */
DAO_API DAO_NODISCARD dao_status_t dao_planner_create(const dao_plan_problem_t *problem,
                                                      const dao_planner_config_t *config,
                                                      dao_planner_t **out_planner);

/**
 * Works in the calling thread.
 *
 * @param planner      Borrowed.
 * @param work         Steps, at least some 4096 at a time; 0: until there is a plan. A step takes some 5 to
 *                     50 ns. What cannot be taken up again halfway, such as sorting all buffers once, may
 *                     exceed it; a cancellation ends that, too.
 * @param out_is_done  May be NULL. True: the bound is met, the limit of work is reached, or nothing helps any
 *                     more.
 * @return DAO_OK; DAO_ERR_INVALID for NULL, and for what is seen only when lives are laid side by side: fixed
 *         buffers that share bytes, one that gaps leave nothing of, too many pieces; DAO_ERR_BUSY for a
 *         planner that was started; DAO_ERR_STOPPED for one that was cancelled; DAO_ERR_NO_HOST_MEMORY: the
 *         plans so far stay, and the method goes on with the next call.
 *
 * Threads: one at a time. Waits: never. Cost: the work.
 */
DAO_API DAO_NODISCARD dao_status_t dao_planner_work(dao_planner_t *planner, uint64_t work, bool *out_is_done);

/**
 * Starts work in the background, once. It ends when the planner is done or cancelled.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_BUSY if it was started; DAO_ERR_STOPPED if it was
 *         cancelled; DAO_ERR_THREAD if the system has no thread: it was not started.
 *
 * Threads: any, but not while another one is in dao_planner_work(). Waits: never; an executor may run inside
 * of it. Cost: starting a thread.
 */
DAO_API DAO_NODISCARD dao_status_t dao_planner_start(dao_planner_t *planner);

/**
 * Waits until work in the background has ended.
 *
 * @param planner     Borrowed.
 * @param timeout_ns  At most so long; UINT64_MAX: for as long as it takes.
 * @return DAO_OK: it is done, or was never started; DAO_ERR_NOT_READY: the time is over; DAO_ERR_STOPPED: it
 *         was cancelled before; DAO_ERR_INVALID for NULL; what ended the work, such as
 *         DAO_ERR_NO_HOST_MEMORY.
 *
 * Threads: any, but for a run of the executor. Waits: yes. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_planner_wait(dao_planner_t *planner, uint64_t timeout_ns);

/**
 * Ends the work: the thread that does it returns within a millisecond or two of processor time, with up to
 * millions of buffers. The best plan so far stays.
 *
 * @return DAO_OK, also if it was done; DAO_ERR_INVALID for NULL.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_planner_cancel(dao_planner_t *planner);

/**
 * Returns the best plan so far.
 *
 * @param planner   Borrowed.
 * @param out_plan  The caller owns a reference; written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_NOT_READY before there is one.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_planner_best(dao_planner_t *planner, dao_plan_t **out_plan);

/**
 * Cancels, waits until no thread works any more, and frees. An executor must have run what was submitted, or
 * do so now. NULL is allowed. Plans that were handed out stay.
 *
 * Threads: any, once; not a run of the executor. Waits: as described. Cost: O(1).
 */
DAO_API void dao_planner_destroy(dao_planner_t *planner);

/**
 * Makes a planner, works to the end in the calling thread, and returns its best plan.
 *
 * @param problem   Borrowed for the call.
 * @param config    Copied, NULL: all defaults; with no limit of work the method `best` may take long.
 * @param out_plan  The caller owns a reference; written only on DAO_OK.
 * @return As dao_planner_create() and dao_planner_work().
 *
 * Threads: any. Waits: never. Cost: the work.
 */
DAO_API DAO_NODISCARD dao_status_t dao_plan_make(const dao_plan_problem_t *problem,
                                                 const dao_planner_config_t *config, dao_plan_t **out_plan);

DAO_END_DECLS

#endif
