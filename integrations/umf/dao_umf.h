/* SPDX-License-Identifier: Apache-2.0 */
/**
 * @file libdao_umf.so: pools of the Unified Memory Framework (UMF, of oneAPI) over libdao's places, and
 * places over UMF's memory providers. With UMF's headers:
 *
 *     dao_umf_pool_params_t params = {.place = dao_place_of(dao_cpu_place())};
 *     umfPoolCreate(dao_umf_pool_ops(), provider, &params, 0, &pool);
 *     void *block = umfPoolMalloc(pool, 1000);
 *
 * docs/umf.md shows more. UMF 1.0 or later.
 */
#ifndef DAO_UMF_H
#define DAO_UMF_H

#include <dao/place.h>

DAO_BEGIN_DECLS

struct umf_memory_pool_ops_t; /* these two are UMF's */
struct umf_memory_provider_ops_t;

/** The memory that a provider gives: the fields of dao_own_memory_t which only the program knows. */
typedef struct dao_umf_memory {
    uint64_t capacity_bytes; /**< most bytes to ask the provider for at a time; 0 is no limit of ours */
    /** The memory is a device's that libdao has. Else the host can touch it. */
    bool is_on_device;
    int32_t device_index; /**< which one; 0 if it is on none */
} dao_umf_memory_t;

/** Parameters of a pool: what umfPoolCreate() is handed. */
typedef struct dao_umf_pool_params {
    dao_place_t place; /**< whose blocks the pool hands out */
    /**
     * The pool makes a place of the provider that umfPoolCreate() is given, and `place` is not read. Then UMF
     * knows the pool's memory: umfFree(), umfPoolByPtr() and umfGetIPCHandle() find it.
     */
    bool is_over_provider;
    dao_umf_memory_t memory; /**< with is_over_provider */
} dao_umf_pool_params_t;

/**
 * Returns the table of pools over places, for umfPoolCreate(), whose `params` point to a
 * dao_umf_pool_params_t.
 *
 * Alignment is that of the place; umfPoolAlignedMalloc() takes any power of two. umfPoolRealloc() takes a new
 * block and copies. umfPoolTrimMemory() is dao_trim(). A pool over a provider gives its memory back when it
 * is destroyed, and takes a number among DAO_DEVICE_COUNT_MAX devices and places until dao_finalize().
 *
 * Threads: any. Waits: as dao_alloc(), dao_free(). Cost: as those.
 */
DAO_API const struct umf_memory_pool_ops_t *dao_umf_pool_ops(void);

/**
 * Makes a place over a UMF provider, as dao_place_register().
 *
 * @param ops        The provider's table, such as umfOsMemoryProviderOps(); version 1.0 or later.
 * @param provider   What its initialize() gave. It outlives the place: dao_finalize() gives its memory back.
 * @param memory     Borrowed for the call; NULL is all zero.
 * @param out_place  Written only on DAO_OK.
 * @return As dao_place_register(); DAO_ERR_INVALID for NULL; DAO_ERR_UNSUPPORTED for a table of another major
 *         version. See dao_umf_last_message().
 *
 * Threads: any. Waits: never. Cost: O(1); nothing is obtained before the place is used.
 */
DAO_API int dao_umf_place_register(const struct umf_memory_provider_ops_t *ops, void *provider,
                                   const dao_umf_memory_t *memory, dao_place_t *out_place);

/**
 * Returns the place of a pool: the `pool` that its table's initialize() gave. For statistics and limits of a
 * pool over a provider; with UMF's handle alone, dao_address_place() of one of its blocks tells it, too.
 *
 * Threads: any. Waits: never. Cost: O(1).
 */
DAO_API dao_place_t dao_umf_pool_place(const void *pool);

/**
 * Returns the message of the latest call of this plug-in that failed in this thread, as dao_last_message().
 * Threads: any, each has its own. Waits: never.
 */
DAO_API const char *dao_umf_last_message(void);

DAO_END_DECLS

#endif
