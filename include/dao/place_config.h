/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * How a place keeps its memory: the strategy that places blocks, what is taken at the start, and how the
 * place grows.
 */
#ifndef DAO_PLACE_CONFIG_H
#define DAO_PLACE_CONFIG_H

#include <dao/place.h>
#include <dao/step_plan.h>

DAO_BEGIN_DECLS

/**
 * The strategies: number, name, and what each does. The default is for use; the others are for comparison.
 */
#define DAO_STRATEGY_LIST(X)                                                                                 \
    X(1, GOOD_FIT, "good_fit", "the lowest of the first holes that fit, merged at once: the default")        \
    X(2, BEST_FIT, "best_fit", "the smallest hole that fits, merged at once")                                \
    X(3, BINARY_BUDDY, "binary_buddy", "textbook buddy: blocks of powers of two, from 256 bytes")            \
    X(4, SIZE_CLASS, "size_class", "blocks of 11 sizes from 32 KiB to 256 MiB, kept for the next request")   \
    X(5, SYSTEM, "system", "no cache: each block is a call of the backend or the system")

/**
 * How blocks are placed. Every strategy tells wrong frees apart, keeps limits exactly, follows streams
 * (dao/async.h) and has leases (dao/lease.h). The last three place whole blocks, which restricts what can be
 * reused at once.
 */
typedef enum dao_strategy {
    DAO_STRATEGY_DEFAULT = 0, /**< for device places what dao_config_t and DAO_STRATEGY say; else good fit */
#define DAO_STRATEGY_ENUMERATOR(number, symbol, name, text)                                                  \
    DAO_STRATEGY_##symbol = number, /**< see the list */
    DAO_STRATEGY_LIST(DAO_STRATEGY_ENUMERATOR)
#undef DAO_STRATEGY_ENUMERATOR
} dao_strategy_t;

/** Largest value of dao_place_config_t::small_bytes. */
#define DAO_SMALL_BYTES_MAX ((size_t)32 << 10)

/** Range of dao_place_config_t::host_page_bytes. */
#define DAO_HOST_PAGE_BYTES_MIN ((size_t)64 << 10)
#define DAO_HOST_PAGE_BYTES_MAX ((size_t)2 << 20)

/** How the memory of one place is kept. Zero in every field means the defaults. */
typedef struct dao_place_config {
    dao_strategy_t strategy;
    /**
     * Bytes taken in one piece when the place starts and kept until it is trimmed. Rounded up to 256 bytes,
     * or to whole pages where pages are mapped. Not for SIZE_CLASS and SYSTEM.
     */
    size_t initial_bytes;
    /**
     * Smallest growth where pages are not mapped, rounded up to 256 bytes. 0 is 20 MiB on a device, else 64
     * MiB, to which segments grow from 4 MiB unless the place has a limit. For BINARY_BUDDY the usual chunk,
     * a power of two; 0 is 64 MiB. Not for SIZE_CLASS and SYSTEM.
     */
    size_t segment_bytes;
    /**
     * Blocks of at most this size come out of slabs. Each thread keeps a few of them for its next requests,
     * without a lock. At most DAO_SMALL_BYTES_MAX; 0 is 4 KiB. A larger value is faster where many blocks of
     * one size are live together, and wastes memory where few are. For device and pinned places with
     * GOOD_FIT or BEST_FIT; the host's are always DAO_SMALL_BYTES_MAX.
     */
    size_t small_bytes;
    /** As dao_limit_set(), from the start. 0 is no limit. */
    size_t limit_bytes;
    /**
     * Device places: use segments although the device maps pages, so that no block ever moves. With
     * initial_bytes as large as the device, the place is one range. The last three strategies never map
     * pages.
     */
    bool no_page_mapping;
    /**
     * Device places: take segments, and the blocks of the last three strategies, from a pool of the driver
     * (cudaMallocFromPoolAsync). Freeing one then does not wait for the whole device. Pages are not mapped.
     * Ignored where dao_device_info_t::memory_pools is false.
     */
    bool memory_pool;
    /** Flags of dao_hardening_t. 0 is what dao_config_t says for all places, DAO_HARDENING_NONE is none. */
    uint32_t hardening;
    /** Whether steps are planned: dao/step_plan.h. */
    dao_step_plan_config_t step_plan;
    /**
     * The host's place, with GOOD_FIT or BEST_FIT: keep memory in pages that move to where they are missing,
     * as on a device, so that holes of whole pages between blocks refuse no request that a limit has room
     * for. A place with step plans does so anyway. Ignored where the system has not enough addresses, or
     * pages are explicit huge ones.
     */
    bool host_pages;
    /**
     * Of these pages, refused without host_pages: a power of two from DAO_HOST_PAGE_BYTES_MIN to
     * DAO_HOST_PAGE_BYTES_MAX, which is the default. Holes in pages are lost to large blocks, so that a small
     * limit wants small pages; but only those of 2 MiB can be huge pages of the system. Larger ones are taken
     * where the machine has more than 2^20 of the size in memory.
     */
    size_t host_page_bytes;
} dao_place_config_t;

/**
 * Says how a place keeps its memory, before its first use. A later call replaces an earlier one.
 * dao_finalize() forgets the config.
 *
 * A device's own place and its pinned place start together: with the first allocation at either, or with a
 * stream, a limit or a query of the device. If the config cannot be met then, the device does not start, the
 * config can still be changed, and the next use tries again. The host's place starts with its first
 * allocation or limit.
 *
 * @param place   One that was not used so far.
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
