/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * How the memory of a place is kept: the strategy that places blocks, what is taken at the start, and
 * how it grows.
 */
#ifndef DAO_PLACE_CONFIG_H
#define DAO_PLACE_CONFIG_H

#include <dao/place.h>
#include <dao/step_plan.h>

DAO_BEGIN_DECLS

/**
 * The strategies: number, name, and what each does. The default is for use, the others are there to be
 * compared with.
 */
#define DAO_STRATEGY_LIST(X)                                                                                 \
    X(1, GOOD_FIT, "good_fit", "the lowest of the first holes that fit, merged at once: the default")        \
    X(2, BEST_FIT, "best_fit", "the smallest hole that fits, merged at once")                                \
    X(3, BINARY_BUDDY, "binary_buddy", "textbook buddy: blocks of powers of two, from 256 bytes")            \
    X(4, SIZE_CLASS, "size_class", "blocks of 11 sizes from 32 KiB to 256 MiB, kept for the next request")   \
    X(5, SYSTEM, "system", "no cache: each block is a call of the backend or the system")

/** How blocks are placed. All answer wrong frees with distinct errors, hold limits exactly, follow streams
   (`<dao/async.h>`) and
    have leases (`<dao/lease.h>`); the last three place whole blocks, which limits what is used again at once.
    */
typedef enum dao_strategy {
    DAO_STRATEGY_DEFAULT = 0, /**< for device places what dao_config_t and DAO_STRATEGY say; else good fit */
#define DAO_STRATEGY_ENUMERATOR(number, symbol, name, text)                                                  \
    DAO_STRATEGY_##symbol = number, /**< see the list */
    DAO_STRATEGY_LIST(DAO_STRATEGY_ENUMERATOR)
#undef DAO_STRATEGY_ENUMERATOR
} dao_strategy_t;

/** The most that small_bytes can be. */
#define DAO_SMALL_BYTES_MAX ((size_t)32 << 10)

/** How the memory of one place is kept. All zero means defaults. */
typedef struct dao_place_config {
    dao_strategy_t strategy;
    size_t
        initial_bytes; /**< taken when the place starts, in one piece, and kept until it is trimmed; rounded up to
                               256 bytes, with page mapping to whole pages. Not for SIZE_CLASS and SYSTEM */
    size_t
        segment_bytes; /**< smallest growth where pages are not mapped, rounded up to 256 bytes; 0 is 20 MiB on
                               a device, else 64 MiB. BINARY_BUDDY: the usual chunk, a power of two, 0 is 64 MiB.
                               Not for SIZE_CLASS and SYSTEM */
    size_t
        small_bytes; /**< blocks of at most so many bytes come out of slabs, and threads keep some of them for their next
                          requests, without a lock; at most DAO_SMALL_BYTES_MAX, 0 is 4 KiB. More is quicker where many blocks of a size live at
                          a time, and takes more memory where few do. For device places with GOOD_FIT or BEST_FIT */
    size_t limit_bytes; /**< as dao_limit_set() from the start; 0 is no limit */
    bool
        no_page_mapping; /**< device places: segments, although the device has pages, so that nothing is ever moved
                               to another address. With initial_bytes as large as the device a place is one range. The
                               last three strategies never map pages */
    bool
        memory_pool; /**< device places: segments, and blocks of the last three strategies, come from a pool of the driver's
                        own in stream order (cudaMallocFromPoolAsync) where the device has such (memory_pools of
                        dao_device_info_t), so that giving one back does not wait for all work of the device; pages are
                        not mapped then. Where it has none, it is as if this were false */
    uint32_t
        hardening; /**< of dao_hardening_t; 0 is what dao_config_t says for all places, DAO_HARDENING_NONE nothing */
    dao_step_plan_config_t step_plan; /**< step_plan steps from plans: <dao/step_plan.h> */
} dao_place_config_t;

/**
 * Says how the memory of a place is to be kept, before the place is first used. A second call takes the place
 * of the first. What was said is forgotten by dao_finalize().
 *
 * A device's two places, its own and its pinned one, start together: with the first allocation at either,
 * with a stream, a limit or a question to the device. If what a config asks for cannot be had then, the start
 * of the device fails, and the next use tries again; until then the config can be changed. The host's place
 * starts with its first allocation or limit.
 *
 * @param config  Borrowed for the call.
 * @return DAO_OK; DAO_ERR_BUSY if the place has started; DAO_ERR_INVALID for a place or a config that is not
 *         valid, which the message names; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN; the errors of dao_init() if
 *         this call starts the library.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_place_configure(dao_place_t place, const dao_place_config_t *config);

/**
 * Returns the name of a strategy, such as "good_fit"; "default" for DAO_STRATEGY_DEFAULT, "unknown" for a
 * number that is none.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_strategy_name(dao_strategy_t strategy);

/**
 * Reads the name of a strategy.
 *
 * @param text          One of the names of DAO_STRATEGY_LIST, exactly.
 * @param out_strategy  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_INVALID, with a message that lists the names.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_strategy_parse(const char *text, dao_strategy_t *out_strategy);

DAO_END_DECLS

#endif
