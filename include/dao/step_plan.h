/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Step plans: a program that asks for the same memory in each step is recorded once, and then gets each
 * buffer where a plan has a place for it, in one arena that is hardly larger than what lives at one time.
 * In short, with no error handled:
 *
 *     dao_place_config_t config = {.step_plan = {.mode = DAO_STEP_PLAN_OFFSETS}};
 *     dao_place_configure(place, &config);
 *     for (...) {
 *         dao_step_begin(place);   the first step is recorded, the next ones follow its plan
 *           ... allocate and free as always ...
 *         dao_step_end(place);
 *     }
 *
 * A plan is used while the steps match it: while half of the bytes of a step are in it. Up to eight
 * plans are kept. The first requests of a step say which one it follows: training, evaluation, sequence
 * lengths. A request that is in no plan, or finds its place taken, gets idle memory of the arena, or memory
 * beside it. No two blocks ever share a byte. A program that never repeats itself is looked at less and less
 * often.
 *
 * Step plans are for memory that is mapped in pages: the host's, and that of devices which map pages. There
 * the idle pages of an arena serve other requests. Elsewhere (pinned memory, devices whose memory comes in
 * segments, explicit huge pages) nobody else could have them: there all calls answer as usual, and all steps
 * are plain.
 */
#ifndef DAO_STEP_PLAN_H
#define DAO_STEP_PLAN_H

#include <dao/observe.h>
#include <dao/place.h>
#include <dao/plan.h>

DAO_BEGIN_DECLS

/** The kinds of plans: number, name, and what each does. */
#define DAO_STEP_PLAN_LIST(X)                                                                                \
    X(1, OFF, "off", "no plan: every request goes to the place's usual allocator")                           \
    X(2, OFFSETS, "offsets", "each buffer has an offset in the arena: the smallest")                         \
    X(3, BINS, "bins", "the arena is cut into blocks of equal sizes, as many of each as were alive at a time")

typedef enum dao_step_plan_mode {
    DAO_STEP_PLAN_DEFAULT = 0, /**< what the environment's DAO_STEP_PLAN says; else off */
#define DAO_STEP_PLAN_ENUMERATOR(number, symbol, name, text)                                                 \
    DAO_STEP_PLAN_##symbol = number, /**< see the list */
    DAO_STEP_PLAN_LIST(DAO_STEP_PLAN_ENUMERATOR)
#undef DAO_STEP_PLAN_ENUMERATOR
} dao_step_plan_mode_t;

/** Who makes plans. */
typedef enum dao_step_plan_worker {
    DAO_STEP_PLAN_WORKER_CALLER = 0, /**< dao_step_end(), which takes longer then; bins: dao_step_begin() */
    DAO_STEP_PLAN_WORKER_THREAD = 1, /**< a thread of the place; the plan is used from a later step on */
    DAO_STEP_PLAN_WORKER_SUBMIT = 2, /**< the program's executor, by `submit` */
} dao_step_plan_worker_t;

/** How a place plans its steps. All zero is off, unless DAO_STEP_PLAN says otherwise. */
typedef struct dao_step_plan_config {
    dao_step_plan_mode_t mode;
    dao_step_plan_worker_t worker;
    /** For WORKER_SUBMIT, as in dao_planner_config_t. */
    void (*submit)(dao_plan_run_func_t run, void *argument, void *submit_user);
    void *submit_user;
    /** Steps that go by before the first is recorded; 0: DAO_STEP_PLAN_START, else none. */
    uint32_t start_step;
    /** From this step on nothing is learnt, and what was learnt is used; 0: DAO_STEP_PLAN_STOP, else
       never. */
    uint32_t stop_step;
    /** A plan is used once more than this many steps in a row have left it unchanged; 0:
       DAO_STEP_PLAN_STABLE, else after the first, unless max_count says otherwise. */
    uint32_t stable_count;
    /** A plan is also used after more than so many recorded steps; 0: DAO_STEP_PLAN_MAX, else no limit. */
    uint32_t max_count;
    /** Allocations of a step, room for which is made at the start; 0: 65,536. A step with more takes memory
       for them as it goes. */
    uint32_t allocation_count;
    /** Allocations by which every life is planned longer, for threads that free in any order. */
    uint32_t margin;
    /** Smaller requests go to the usual allocator; 0: 1, with bins 32 KiB + 1. */
    size_t smallest_bytes;
    /** Of the planner, for offsets. */
    dao_plan_method_t method;
    /** Of the planner; 0: DAO_STEP_PLAN_WORK_DEFAULT. */
    uint64_t work_limit;
    /** The tag of a block is its key, where no other one is set. Tags are numbers of a process: a plan is
        loaded by one that makes its tags in the same order. */
    bool uses_tags;
    /** Wall times, too, for dao_step_plan_walk(). */
    bool records_time;
    /** Frees in a step, of blocks of steps, are done at its end. */
    bool defers_frees;
    /** Host memory: the arena's pages are touched when it is made, where the system has a call for it (Linux
        5.14). */
    bool prefault;
} dao_step_plan_config_t;

/** Most allocations of a step that can be recorded. */
#define DAO_STEP_PLAN_ALLOCATION_COUNT_MAX ((uint32_t)1 << 26)

/** Work of the planner for a plan, where a config does not say; some tenths of a second at most. */
#define DAO_STEP_PLAN_WORK_DEFAULT (UINT64_C(1) << 24)

/**
 * Returns the name of a mode, such as "offsets"; "default" for DAO_STEP_PLAN_DEFAULT, "unknown" for a number
 * that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_step_plan_mode_name(dao_step_plan_mode_t mode);

/**
 * Reads the name of a mode.
 *
 * @param text      One of the names of DAO_STEP_PLAN_LIST, exactly.
 * @param out_mode  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID, with a message that gives the names.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_mode_parse(const char *text, dao_step_plan_mode_t *out_mode);

/* ---- steps ---- */

/**
 * Begins a step at a place: a step of training, a request that is answered. Steps that begin while
 * one is under way, in this thread or another, are a part of it. At a place without plans this does
 * nothing.
 *
 * @return DAO_OK; DAO_ERR_INVALID for a place that is none; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN;
 *         DAO_ERR_REENTRANT from a segment callback, and from any callback while this thread is in a call of
 *         this header; the errors of the place's start. That a plan cannot be used for want of memory is no
 *         error: the place goes on without.
 *
 * Threads: any. Waits: never, but for the device when a plan is used for the first time. Cost: O(plan's
 * keys).
 */
DAO_API dao_status_t dao_step_begin(dao_place_t place);

/**
 * Ends a step. Blocks may outlive it.
 *
 * @return As dao_step_begin(); DAO_ERR_INVALID also where none is under way.
 *
 * Threads: any, not only the one that began. Waits: never. Cost: O(1), and the plan if the caller is the one
 * who makes it.
 */
DAO_API dao_status_t dao_step_end(dao_place_t place);

#if !defined(__cplusplus) && defined(__GNUC__)
/** What DAO_STEP() leaves to the end of its block: the step's place, and whether it has begun. */
typedef struct dao_step_scope {
    dao_place_t place;
    dao_status_t status;
} dao_step_scope_t;

static inline dao_step_scope_t dao_step_scope_begin(dao_place_t place)
{
    dao_step_scope_t scope = {place, dao_step_begin(place)};
    return scope;
}

static inline void dao_step_scope_end(const dao_step_scope_t *scope)
{
    if (scope->status == DAO_OK) {
        (void)dao_step_end(scope->place); /* what can be wrong was answered when it began */
    }
}

#define dao_step_scope_begin(place) dao_step_scope_begin(dao_place_of(place))

#define DAO_STEP_NAME_OF(line) dao_step_scope_##line
#define DAO_STEP_NAME(line)    DAO_STEP_NAME_OF(line)

/**
 * Makes what is left of the enclosing block of code a step, however it is left:
 * `DAO_STEP(place);`, at a place of any type; a line for each place, where there are several. In C++:
 * `dao::step_scope scope(place);`.
 */
#define DAO_STEP(place)                                                                                      \
    __attribute__((cleanup(dao_step_scope_end), unused)) const dao_step_scope_t DAO_STEP_NAME(__LINE__) =    \
        dao_step_scope_begin(place)
#endif

/**
 * Says who asks, for this thread's requests from now on: a number that the program gives to an operator, a
 * call site, a layer. Requests with a key are told apart by it and by how often it came in the step, in
 * any order; those without one by the order of their sizes.
 *
 * @param key  0 is nobody.
 * @return The key before, to be set again.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API uint64_t dao_step_plan_key_set(uint64_t key);

/* ---- control ---- */

/**
 * Turns a place's step plans off, or on again. Blocks stay where they are. While plans are off all requests
 * go to the usual allocator, and nothing is recorded.
 *
 * @return DAO_OK; DAO_ERR_UNSUPPORTED: the place is not configured for it; as dao_step_begin()
 *         otherwise.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_status_t dao_step_plan_enable(dao_place_t place, bool is_enabled);

/**
 * Waits until nobody makes a plan for a place.
 *
 * @param place       Whose plan is being made.
 * @param timeout_ns  At most so long; UINT64_MAX: for as long as it takes.
 * @return DAO_OK; DAO_ERR_NOT_READY: the time is over; as dao_step_plan_enable().
 *
 * Threads: any. Waits: as described. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_wait(dao_place_t place, uint64_t timeout_ns);

/**
 * Forgets all plans. The next step is recorded.
 *
 * @return DAO_OK; DAO_ERR_BUSY in a step or while a plan is made; as dao_step_plan_enable().
 *
 * Threads: any. Waits: never. Cost: O(plan).
 */
DAO_API dao_status_t dao_step_plan_reset(dao_place_t place);

/**
 * Writes the plans of a place as text, to be loaded by a later run.
 *
 * @param place  Whose plans are written.
 * @param write  Takes the text, a line at a time. It may call any function of the library but dao_finalize()
 *               and those of this header that take a place, which answer DAO_ERR_REENTRANT.
 * @param user   Handed to `write`.
 * @return DAO_OK; DAO_ERR_NOT_READY: there is no plan yet; DAO_ERR_BUSY in a step; DAO_ERR_INVALID for
 *         NULL; what `write` answered; as dao_step_plan_enable().
 *
 * Threads: any. Waits: never. Cost: O(plan).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_save(dao_place_t place, dao_write_t write, void *user);

/**
 * Loads the plans that dao_step_plan_save() wrote, so that the first step follows one. They are trusted in
 * nothing: a text that is not such plans is refused.
 *
 * @param place       Which follows them.
 * @param text        Borrowed for the call.
 * @param text_bytes  Its length.
 * @return DAO_OK; DAO_ERR_PARSE with the line and what is wrong in it; DAO_ERR_INVALID for NULL and for
 *         offsets that are no plan; DAO_ERR_BUSY in a step or while a plan is made;
 *         DAO_ERR_NO_HOST_MEMORY; as dao_step_plan_enable().
 *
 * Threads: any. Waits: never. Cost: O(n log n) of the plan's entries.
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_load(dao_place_t place, const char *text, size_t text_bytes);

/* ---- figures ---- */

/** What is counted in steps. Each request of at least smallest_bytes in a step with a plan is a hit,
    missed, unplanned or null_bin; one that fails is not counted. Text and JSON forms come from this list. */
#define DAO_STEP_COUNTS_LIST(X)                                                                              \
    X(request_count, "requests")                                                                             \
    X(hit_count, "requests that got the place planned for them")                                             \
    X(missed_count, "requests that are in the plan and did not: larger than planned, or it was in use")      \
    X(unplanned_count, "requests that are not in the plan")                                                  \
    X(null_bin_count, "requests of a size that no bin has, nor one that could lend a block")                 \
    X(borrowed_count, "of those that are no hit, how many got idle memory of the arena")                     \
    X(small_count, "requests below smallest_bytes")                                                          \
    X(dropped_count, "requests that were not recorded for want of memory")                                   \
    X(planned_bytes, "bytes asked for by requests that got memory of the arena")                             \
    X(requested_bytes, "bytes asked for by all of them")                                                     \
    X(minor_fault_count, "minor page faults of the process meanwhile")

/** The counters of one step or of all. */
typedef struct dao_step_counts {
#define DAO_STEP_COUNTS_FIELD(name, text) uint64_t name; /**< see DAO_STEP_COUNTS_LIST */
    DAO_STEP_COUNTS_LIST(DAO_STEP_COUNTS_FIELD)
#undef DAO_STEP_COUNTS_FIELD
} dao_step_counts_t;

/** How a place plans its steps. */
typedef struct dao_step_plan_stats {
    bool has_plan;             /**< there is a plan to be used, with an arena */
    uint64_t step_count;       /**< that have ended */
    uint64_t learn_count;      /**< steps that were learnt */
    uint64_t plan_count;       /**< plans that came to be used */
    uint64_t failed_count;     /**< plans that could not be made, or not used, for want of memory */
    uint64_t backoff_count;    /**< steps that were plain because those before matched no plan */
    uint64_t arena_bytes;      /**< of the arena; 0: there is none now */
    uint64_t plan_bytes;       /**< of the plan's highest byte */
    uint64_t plan_bound_bytes; /**< no plan for the same lifetimes is smaller */
    uint64_t bound_bytes;      /**< latest step: most bytes of its requests that were alive at one time */
    uint64_t total_bytes;      /**< the same, each block rounded up to what it takes */
    dao_step_counts_t latest;  /**< of the latest step that has ended; all zero where it was not recorded */
    dao_step_counts_t all;     /**< of all steps since the start */
} dao_step_plan_stats_t;

/**
 * Reads how a place plans its steps.
 *
 * @param place      Whose figures are read.
 * @param out_stats  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID for NULL; as dao_step_plan_enable().
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_stats_get(dao_place_t place,
                                                           dao_step_plan_stats_t *out_stats);

/** A buffer as it was recorded in the latest step that was recorded. Times count allocations. */
typedef struct dao_step_plan_lifetime {
    uint64_t size_bytes;
    uint64_t key;
    uint64_t begin;    /**< so many allocations were made before it */
    uint64_t end;      /**< and so many before its free; UINT64_MAX: not freed before the next step */
    uint64_t begin_ns; /**< of the clock of dao_memory_event_t; 0 unless records_time is set */
    uint64_t end_ns;
    uint32_t thread_slot; /**< which thread it was, in the order in which they came */
} dao_step_plan_lifetime_t;

/** Sees one lifetime. It may call any function of the library but dao_finalize() and those of this header
    that take a place, which answer DAO_ERR_REENTRANT. */
typedef void (*dao_step_plan_visit_t)(const dao_step_plan_lifetime_t *lifetime, void *user);

/**
 * Shows the lifetimes of the latest step that was recorded, in order.
 *
 * @return DAO_OK; DAO_ERR_INVALID for NULL; DAO_ERR_BUSY in a step; as dao_step_plan_enable().
 *
 * Threads: any. Waits: never. Cost: O(allocations).
 */
DAO_API DAO_NODISCARD dao_status_t dao_step_plan_walk(dao_place_t place, dao_step_plan_visit_t visit,
                                                      void *user);

DAO_END_DECLS

#endif
