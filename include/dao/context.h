/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file
 * Starting and stopping the library, its devices, and the log.
 *
 * In a child process of fork() the parent's memory, streams and devices are not there: each call that needs
 * them answers DAO_ERR_FORKED, whether its text lists that or not, and releases of handles do nothing. What
 * needs none goes on: tags, sources, plans, names of places. A child that wants memory of its own calls one
 * of exec().
 *
 * The first call that needs a device starts it, or waits for the thread that does. It may answer what goes
 * wrong with that, whether its text lists it or not: DAO_ERR_NO_DEVICE_MEMORY, DAO_ERR_NO_HOST_MEMORY,
 * DAO_ERR_LIMIT, DAO_ERR_THREAD, DAO_ERR_BACKEND, DAO_ERR_DEVICE_LOST. A call at a place waits while another
 * thread grows or trims that place, which may wait for the device or pin memory. A call that says "Waits:
 * never" waits for these two alone.
 *
 * What allocates, frees, logs or waits is no cancellation point: pthread_cancel() takes effect at the next
 * one of the program's own. Calls that open or read files, start the library, or send and receive shares may
 * be one: a thread is not to be cancelled in them.
 *
 * dlclose() leaves the library loaded, since its threads and thread-local memory may be in use. Once
 * dao_finalize() has ended it, only dao_init() starts it again: a plug-in that is loaded anew has to call it.
 */
#ifndef DAO_CONTEXT_H
#define DAO_CONTEXT_H

#include <dao/host_memory.h>
#include <dao/place.h>
#include <dao/place_config.h>

DAO_BEGIN_DECLS

/** Most devices that the library handles; one more is refused by name. */
#define DAO_DEVICE_COUNT_MAX 64

/** How important a line of the log is. docs/settings.md says what is logged at which level. */
typedef enum dao_log_level {
    DAO_LOG_LEVEL_OFF = -1,    /**< in a config: nothing is logged */
    DAO_LOG_LEVEL_DEFAULT = 0, /**< in a config: what DAO_LOG says, else DAO_LOG_LEVEL_WARNING */
    DAO_LOG_LEVEL_ERROR = 1,   /**< memory is damaged, or was lost to the program */
    DAO_LOG_LEVEL_WARNING = 2, /**< the program has made a mistake, or does not get what it asked for */
    DAO_LOG_LEVEL_INFO = 3,    /**< start and stop */
    DAO_LOG_LEVEL_DEBUG = 4,   /**< each refused allocation and free */
} dao_log_level_t;

/**
 * Takes one line of the log: UTF-8, without a line end. No lock is held. The callback may call any function
 * of the library but dao_finalize(), which answers DAO_ERR_REENTRANT. It leaves the thread's current device
 * of CUDA or HIP as it is.
 */
typedef void (*dao_log_callback_t)(dao_log_level_t level, const char *message, void *user);

/**
 * Virtual devices of the cpu backend; other backends ignore it. 0 means the environment's value or the
 * default.
 */
typedef struct dao_cpu_config {
    int32_t device_count; /**< DAO_CPU_DEVICES; default 2 */
    /**
     * Capacity of each; DAO_CPU_DEVICE_BYTES; default 4 GiB. It may be far above the machine's memory: pages
     * are taken when they are touched.
     */
    uint64_t device_bytes;
    uint64_t h2d_bytes_per_second; /**< DAO_CPU_H2D_BYTES_PER_SECOND; 0: as fast as memcpy */
    uint64_t d2h_bytes_per_second; /**< DAO_CPU_D2H_BYTES_PER_SECOND; 0: as fast as memcpy */
    /** DAO_CPU_HOST_BYTES_PER_SECOND; all copies from and to the host together, of all devices; 0: no limit
        but those of their links. Copies between devices do not count. */
    uint64_t host_bytes_per_second;
    uint64_t copy_latency_ns; /**< DAO_CPU_COPY_LATENCY_NS; added for every link that a copy passes */
    bool half_duplex;         /**< DAO_CPU_HALF_DUPLEX=1; copies of both directions take turns on one link */
    bool no_page_mapping;     /**< DAO_CPU_NO_PAGE_MAPPING=1; be a device without virtual memory */
} dao_cpu_config_t;

/**
 * Checks that find misuse of memory at a place. Each costs memory or time.
 *
 * A block freed behind a stream's work, or under a lease, is checked and filled when the stream has passed
 * and the lease has ended. The next call that allocates or trims does it. Damage is logged then, and
 * dao_hardening_check() reports it.
 */
typedef enum dao_hardening {
    DAO_HARDENING_GUARD = 1u << 0, /**< "guard": the bytes behind a block are checked when it is freed */
    DAO_HARDENING_JUNK = 1u << 1,  /**< "junk": new blocks are filled with 0xcd, freed ones with 0xdd */
    DAO_HARDENING_ZERO = 1u << 2,  /**< "zero": freed blocks are filled with zeros instead */
    /** "quarantine": freed blocks are filled, kept back for a while, and checked before reuse */
    DAO_HARDENING_QUARANTINE = 1u << 3,
    /** "checksum": the library's own records of a block are verified when they are used */
    DAO_HARDENING_CHECKSUM = 1u << 4,
    /** alone: none of these at a place, whatever dao_config_t says for all places */
    DAO_HARDENING_NONE = 1u << 5
} dao_hardening_t;

/** Default of dao_config_t::quarantine_bytes. */
#define DAO_QUARANTINE_BYTES_DEFAULT ((size_t)64 << 20)

/** Settings of the library. Zero means the environment's value, where a field names one, or the default. */
typedef struct dao_config { /* a new field goes into SETTING_LIST of runtime/start/settings.c, too */
    dao_cpu_config_t cpu;
    dao_host_memory_config_t host; /**< where the host place's memory lies, in which pages */
    /** Most bytes of all host memory, see dao_host_limit_set(); DAO_HOST_LIMIT; default 0: no limit. */
    uint64_t host_limit_bytes;
    dao_log_callback_t log_callback; /**< NULL: lines go to standard error */
    void *log_user;                  /**< handed to log_callback */
    /**
     * The least important level that is logged; DAO_LOG (off, error, warning, info, debug); default
     * DAO_LOG_LEVEL_WARNING.
     */
    dao_log_level_t log_level;
    /**
     * Flags of dao_hardening_t for all places without a config of their own; DAO_HARDENING: names with
     * commas, such as "guard,junk"; default none.
     */
    uint32_t hardening;
    /**
     * Most bytes of freed blocks that each place keeps back; DAO_QUARANTINE_BYTES; default
     * DAO_QUARANTINE_BYTES_DEFAULT. Larger blocks are not kept back.
     */
    size_t quarantine_bytes;
    /**
     * Strategy of device places whose config names none; DAO_STRATEGY (good_fit, best_fit, binary_buddy,
     * size_class, system); default good_fit.
     */
    dao_strategy_t device_strategy;
} dao_config_t;

/**
 * Starts the library. Later calls start nothing, but each successful one is counted and needs a
 * dao_finalize() of its own. Any other call of the library starts it as well, with defaults, unless it was
 * finalized.
 *
 * A later config may leave fields 0. What it sets must equal what the first config set, also where this
 * backend ignores the field. Values from the environment and defaults do not count as set.
 *
 * Numbers in the environment have units ("4GiB", "50GB/s", "10us") or none: bytes, bytes per second,
 * nanoseconds.
 *
 * @param config  Borrowed for the call; NULL means all defaults.
 * @return DAO_OK; DAO_ERR_INVALID for a setting or an environment value that is not valid, which the message
 *         names; DAO_ERR_NO_DEVICE if the backend has no driver or device; DAO_ERR_BUSY if the library is
 *         started with another config: the message names the setting and both values; DAO_ERR_NO_HOST_MEMORY;
 *         DAO_ERR_FORKED; DAO_ERR_REENTRANT from a segment callback.
 *
 * Threads: any. Waits: for another thread's start. Cost: opens the backend; devices start when they are first
 * used.
 */
DAO_API DAO_NODISCARD dao_status_t dao_init(const dao_config_t *config);

/**
 * Stops the library when every dao_init() is undone. Live blocks and handles are logged, one line each.
 * Blocks of dao_alloc() are freed with their places. Handles stay valid, and keep what they need until their
 * last release.
 *
 * @return DAO_OK; DAO_ERR_BUSY if blocks or handles were live, DAO_ERR_CORRUPT if hardening found memory
 *         damaged at any place, each block of which is logged: the library is stopped all the same;
 *         DAO_ERR_SHUTDOWN if it was not started; DAO_ERR_FORKED; DAO_ERR_REENTRANT from a callback whose
 *         caller goes on using the library: of the log, memory pressure, segments, tags, saving or showing a
 *         plan, and a planner that submits work. Nothing is done then. A call that only undoes a dao_init()
 *         of the callback's own is allowed.
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

/** What a device is and has. */
typedef struct dao_device_info {
    char name[128];
    uint64_t total_bytes;     /**< capacity */
    uint64_t free_bytes;      /**< free now, of all processes */
    uint64_t page_bytes;      /**< granularity of page mapping; 0 without virtual memory. Of a place that may
                                   take above 64 GiB pages are larger: at most 32,768 */
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
 * Asks a device for its properties.
 *
 * @param device_index  From 0, below dao_device_count().
 * @param out_info      Written only on DAO_OK.
 * @return DAO_OK; DAO_ERR_NO_DEVICE; DAO_ERR_INVALID; DAO_ERR_BACKEND; DAO_ERR_SHUTDOWN.
 *
 * Threads: any. Waits: never. Cost: a backend call; the first use of a device starts it.
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_query(int32_t device_index, dao_device_info_t *out_info);

/**
 * Returns whether a device still works, judged by what its calls have answered so far. A device that answered
 * DAO_ERR_DEVICE_LOST is lost until the library is finalized and started again. Calls that need it fail at
 * once, frees only change the library's records, and other places go on.
 *
 * @return DAO_OK, also for a device that was not used yet; DAO_ERR_DEVICE_LOST with the device's first answer
 *         in the message; DAO_ERR_NO_DEVICE; DAO_ERR_SHUTDOWN; the errors of dao_init().
 *
 * Threads: any. Waits: never. Cost: O(1), no backend call.
 */
DAO_API DAO_NODISCARD dao_status_t dao_device_health(int32_t device_index);

/**
 * Sets this thread's current device; every thread begins with device 0. It matters for one thing alone: a
 * block of pinned memory that this thread frees, and that belongs to another device, is freed by that
 * device's next call. No other call of the library uses or changes it.
 *
 * @return DAO_OK; DAO_ERR_NO_DEVICE: nothing is changed; DAO_ERR_SHUTDOWN.
 *
 * Threads: any, each has its own. Waits: never. Cost: O(pinned blocks of the device that other threads have
 * freed).
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
