/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Starting and stopping the library, its devices, and the log.
 */
#ifndef DAO_CONTEXT_H
#define DAO_CONTEXT_H

#include <dao/host_memory.h>
#include <dao/place.h>
#include <dao/place_config.h>

DAO_BEGIN_DECLS

/** Most devices that the library handles; one more is refused by name. */
#define DAO_DEVICE_COUNT_MAX 64

typedef enum dao_log_level {
    DAO_LOG_LEVEL_ERROR = 0,
    DAO_LOG_LEVEL_WARNING = 1,
    DAO_LOG_LEVEL_INFO = 2,
    DAO_LOG_LEVEL_DEBUG = 3,
} dao_log_level_t;

/** Takes one line of the log, UTF-8 without a line end. No lock is held; it may call any function of the
   library but
    dao_finalize(), which answers DAO_ERR_REENTRANT. */
typedef void (*dao_log_callback_t)(dao_log_level_t level, const char *message, void *user);

/**
 * Virtual devices of the cpu backend; the other backends ignore this. 0 means the default or the
 * environment's.
 */
typedef struct dao_cpu_config {
    int32_t device_count;  /**< DAO_CPU_DEVICES; default 2 */
    uint64_t device_bytes; /**< capacity of each, DAO_CPU_DEVICE_BYTES; default 4 GiB; may be far beyond the
                                           machine's memory: pages are taken when they are touched */
    uint64_t h2d_bytes_per_second; /**< DAO_CPU_H2D_BYTES_PER_SECOND; 0: as fast as memcpy */
    uint64_t d2h_bytes_per_second; /**< DAO_CPU_D2H_BYTES_PER_SECOND; 0: as fast as memcpy */
    uint64_t copy_latency_ns;      /**< DAO_CPU_COPY_LATENCY_NS; added for every link that a copy passes */
    bool half_duplex;     /**< DAO_CPU_HALF_DUPLEX=1; copies of both directions take turns on one link */
    bool no_page_mapping; /**< DAO_CPU_NO_PAGE_MAPPING=1; be a device without virtual memory */
} dao_cpu_config_t;

/** What is done to find misuse of memory at a place; each costs memory or time. A block that is freed behind
   a stream's work,
    or under a lease, is looked at and filled when the stream has passed and the lease has ended, with the
    next call that asks for memory or trims; what is wrong is logged then, and told by dao_hardening_check().
    */
typedef enum dao_hardening {
    DAO_HARDENING_GUARD = 1u << 0, /**< "guard": bytes behind each block are looked at when it is freed */
    DAO_HARDENING_JUNK = 1u << 1,  /**< "junk": new blocks are filled with 0xcd, freed ones with 0xdd */
    DAO_HARDENING_ZERO = 1u << 2,  /**< "zero": freed blocks are filled with zeros instead */
    DAO_HARDENING_QUARANTINE =
        1u << 3, /**< "quarantine": freed blocks are filled, kept back for a while, and looked at
                                           before they are used again */
    DAO_HARDENING_CHECKSUM =
        1u << 4, /**< "checksum": what the library knows of a block is verified when it is used */
    DAO_HARDENING_NONE = 1u << 5 /**< alone: none of these at a place, whatever all places have */
} dao_hardening_t;

/** Bytes of freed blocks that a place keeps back if it is not said how many. */
#define DAO_QUARANTINE_BYTES_DEFAULT ((size_t)64 << 20)

/** Settings of the library. All zero means defaults, each taken from the environment where it names one. */
typedef struct dao_config { /* a new field goes into SETTING_LIST of runtime/start/context.c, too */
    dao_cpu_config_t cpu;
    dao_host_memory_config_t host; /**< where the host place's memory lies, in which pages */
    uint64_t host_limit_bytes; /**< DAO_HOST_LIMIT; most bytes of all host memory, see dao_host_limit_set();
                                    default 0: no limit */
    dao_log_callback_t log_callback; /**< NULL: nothing is logged */
    void *log_user;                  /**< handed to log_callback */
    dao_log_level_t log_level; /**< the least important level that is logged; DAO_LOG (error, warning, info or
                                   debug); default DAO_LOG_LEVEL_ERROR */
    uint32_t
        hardening; /**< of dao_hardening_t, for all places of which dao_place_configure() says nothing else; DAO_HARDENING (their names with commas between, such as
                                   "guard,junk"); default none */
    size_t
        quarantine_bytes; /**< most bytes of freed blocks that each place keeps back; DAO_QUARANTINE_BYTES; default
                                   DAO_QUARANTINE_BYTES_DEFAULT. Larger blocks are not kept back */
    dao_strategy_t
        device_strategy; /**< of device places for which dao_place_configure() names none; DAO_STRATEGY
                                   (good_fit, best_fit, binary_buddy, size_class, system); default good_fit */
} dao_config_t;

/**
 * Starts the library. Calls after the first one start nothing; those that succeed are counted: each is undone
 * by one dao_finalize(). What their config leaves 0 is as it was started; what it says has to be what the
 * first one's said. Compared are the configs as they are written, also in what this backend ignores: what the
 * environment or a default gave counts as not said. Any other call starts it too, with defaults and nothing
 * said, unless it was finalized. Numbers in the environment take units ("4GiB", "50GB/s", "10us") or none
 * (bytes, bytes per second, nanoseconds).
 *
 * @param config  Borrowed for the call; NULL means all defaults.
 * @return DAO_OK; DAO_ERR_INVALID for a setting or an environment value that it cannot be started with, which
 *         the message names; DAO_ERR_NO_DEVICE if the backend has no driver or device; DAO_ERR_BUSY if it is
 *         started with another config, whether this one is valid or not: the message names the setting and
 *         both values; DAO_ERR_NO_HOST_MEMORY; DAO_ERR_FORKED; DAO_ERR_REENTRANT from a segment callback.
 *
 * Threads: any. Waits: for another thread's start. Cost: opens the backend; devices start when they are first
 * used.
 */
DAO_API DAO_NODISCARD dao_status_t dao_init(const dao_config_t *config);

/**
 * Stops the library once every dao_init() is undone. Live blocks and handles are reported to the log, one
 * line each. Blocks of dao_alloc() are given back with their places. Handles stay valid, and what they need
 * stays with them until the last one is released.
 *
 * @return DAO_OK; DAO_ERR_BUSY if blocks or handles were still live: the library is stopped all the same;
 *         DAO_ERR_SHUTDOWN if it was not started; DAO_ERR_FORKED; DAO_ERR_REENTRANT, and nothing is done,
 *         from a callback whose caller needs the library afterwards: of the log, memory pressure, segments,
 *         tags, a plan that is saved or shown, and a planner that submits work. One that undoes a dao_init()
 *         of the callback's own is no stop.
 *
 * Threads: any, with no other call under way but releases of handles. Waits: for work on the devices.
 */
DAO_API dao_status_t dao_finalize(void);

/**
 * Returns the name of the backend that the library was built with: "cpu", "cuda" or "hip".
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API const char *dao_backend_name(void);

/**
 * Returns the number of devices.
 *
 * @param out_count  Written only on DAO_OK; may be 0.
 * @return DAO_OK; DAO_ERR_NO_DEVICE if there is no driver; DAO_ERR_INVALID; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_count(int32_t *out_count);

/** What a device is. */
typedef struct dao_device_info {
    char name[128];
    uint64_t total_bytes;     /**< capacity */
    uint64_t free_bytes;      /**< not taken by anybody, now */
    uint64_t page_bytes;      /**< granularity of page mapping; 0 without virtual memory */
    uint64_t alignment_bytes; /**< of every address */
    bool memory_pools;        /**< the driver has pools in stream order (cudaMallocAsync), see
                                   dao_place_config_t::memory_pool */
    bool host_accessible;     /**< host functions on its streams may touch its memory (cpu backend) */
    char pci_address[16];     /**< as the system's tools write it, "0000:3b:00.0"; "" of a virtual device */
    int32_t compute_major;    /**< the vendor's version of what its kernels may use, 9.0 of an H100; */
    int32_t compute_minor;    /**< 0.0 of a virtual device */
    int32_t multiprocessor_count; /**< compute units; 0 of a virtual device */
} dao_device_info_t;

/**
 * Asks a device what it is.
 *
 * @param out_info  Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_NO_DEVICE; DAO_ERR_INVALID; DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call; the first use of a device starts it.
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_query(int32_t device_index, dao_device_info_t *out_info);

/**
 * Returns whether a device still works, from what its calls have answered so far. One that answered
 * DAO_ERR_DEVICE_LOST is lost until the library is finalized and started anew: what needs it is refused at
 * once, frees are done in the books, and all other places go on.
 *
 * @return DAO_OK, also for a device that was not used yet; DAO_ERR_DEVICE_LOST with the device's first answer
 *         in the message; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN; the errors of dao_init().
 *
 * Threads: any. Waits: never. Cost: O(1), no backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_health(int32_t device_index);

/**
 * Sets this thread's current device; every thread begins with device 0. It decides one thing: pinned memory
 * that this thread frees and that belongs to another device is given back by that device's next call, not by
 * this thread. No other call of the library uses it or changes it.
 *
 * @return DAO_OK; DAO_ERR_NO_DEVICE: it stays as it was; DAO_ERR_SHUTDOWN.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(1).
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_set_current(int32_t device_index);

/** Returns this thread's current device. Threads: any, each has its own. Waits: never. Cost: O(1). */
DAO_API int32_t dao_device_get_current(void);

/**
 * Waits until all work on a device has finished.
 *
 * @return DAO_OK; DAO_ERR_NO_DEVICE; the first error of that work; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: for the device. Cost: one wait a stream.
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_synchronize(int32_t device_index);

DAO_END_DECLS

#endif
