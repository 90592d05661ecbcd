/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the backend for CUDA and HIP share: its objects, the guard, and how a vendor's answer
   becomes a status. Included behind the names of one vendor (DAO_VENDOR_NAMES). */
#ifndef DAO_BACKENDS_VENDOR_VENDOR_INTERNAL_H
#define DAO_BACKENDS_VENDOR_VENDOR_INTERNAL_H

#include DAO_VENDOR_NAMES

#include "backends/vendor/vendor.h"

#include "base/memory/host.h"
#include "base/report/error.h"
#include "base/threads/sync.h"

#include <stdbool.h>

#define NAME_OF(function)          NAME_OF_EXPANDED(function)
#define NAME_OF_EXPANDED(function) #function

struct dao_backend {
    int32_t device_count; /* as the driver told when it was opened */
    bool maps_pages;      /* unless the environment says no */
};

struct dao_backend_device {
    int index;
    dao_device_info_t info; /* but for what changes */
    size_t page_bytes;      /* granularity of virtual memory; 0: there is none */

    /* vendor_pages.c: who reaches what is mapped here. */
    dao_mutex_t lock;            /* guards what follows */
    uint64_t reachers;           /* a bit a device: this one, and the peers that may */
    dao_backend_pages_t *mapped; /* all pages that are mapped */
    dao_backend_pool_t *pools;   /* all pools: vendor_pool.c */
};

/* Tells whether a device is of no more use after this error. */
bool dao_vendor_is_lost(vendorError_t error);

/* Maps the result of a call on a device; `no_memory` is what it means here that memory was refused. */
dao_status_t dao_vendor_answer(vendorError_t error, const char *call, int index, dao_status_t no_memory);

/* What a call changes in its thread, as it was before. */
typedef struct dao_vendor_guard {
    int device; /* or whether a context was pushed, where the vendor has those */
    vendorStreamCaptureMode_t mode;
} dao_vendor_guard_t;

/* Makes a device current, and says that what follows has nothing to do with streams that are being captured
   into a graph, which it would spoil otherwise. After vendorSuccess dao_vendor_leave() undoes both. */
vendorError_t dao_vendor_enter(int index, dao_vendor_guard_t *out_guard);
void dao_vendor_leave(int index, dao_vendor_guard_t *guard);

/* Makes one vendor call with device number `index` current, and stores its mapped result in `status`. */
#define CALL(status, index, no_memory, function, arguments)                                                  \
    do {                                                                                                     \
        dao_vendor_guard_t guard_;                                                                           \
        vendorError_t error_ = dao_vendor_enter((index), &guard_);                                           \
        if (error_ == vendorSuccess) {                                                                       \
            error_ = function arguments;                                                                     \
            dao_vendor_leave((index), &guard_);                                                              \
        }                                                                                                    \
        (status) = dao_vendor_answer(error_, NAME_OF(function), (index), (no_memory));                       \
    } while (0)

/* Virtual memory: vendor_pages.c. */
dao_status_t dao_vendor_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_vendor_address_release(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_vendor_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                     dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                            size_t page_count, void *address,
                                            dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages);
/* Gives up the structure alone: the vendor keeps the memory until the process ends, or it went with its
   device. */
void dao_vendor_pages_forget(dao_backend_device_t *device, dao_backend_pages_t *pages);

/* Destroys what nobody can be told of; if that is refused it is forgotten. */
void dao_vendor_pages_discard(dao_backend_device_t *device, dao_backend_pages_t *pages);
dao_status_t dao_vendor_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
dao_status_t dao_vendor_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                      size_t page_count, void *address);
dao_status_t dao_vendor_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
size_t dao_vendor_pages_size(const dao_backend_pages_t *pages);
dao_status_t dao_vendor_pages_create_shared(dao_backend_device_t *device, size_t size_bytes,
                                            dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_import(dao_backend_device_t *device, int descriptor, size_t size_bytes,
                                     dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_export(dao_backend_device_t *device, const dao_backend_pages_t *pages,
                                     int *out_descriptor);

/* Pools: vendor_pool.c. Find tells whether a device has them. */
dao_status_t dao_vendor_pools_find(int index, bool *out_has_pools);
dao_status_t dao_vendor_pool_create(dao_backend_device_t *device, dao_backend_pool_t **out_pool);
void dao_vendor_pool_destroy(dao_backend_device_t *device, dao_backend_pool_t *pool);
dao_status_t dao_vendor_pool_alloc(dao_backend_device_t *device, dao_backend_pool_t *pool, size_t size_bytes,
                                   void **out_address);
dao_status_t dao_vendor_pool_free(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address);

/* Lets one more device reach the memory of all pools of a device, whose lock is held. */
dao_status_t dao_vendor_pools_allow_locked(const dao_backend_device_t *device, int reacher);

/* Memory that several processes have: vendor_share.c. */
dao_status_t dao_vendor_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                      dao_backend_shared_t **out_shared, void **out_address);
dao_status_t dao_vendor_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                      dao_backend_share_t *out_share);
dao_status_t dao_vendor_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                      size_t size_bytes, dao_backend_shared_t **out_shared,
                                      void **out_address);
dao_status_t dao_vendor_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared);

/* Lets device number `reacher` reach what is mapped on a device, and what will be. */
dao_status_t dao_vendor_pages_open(dao_backend_device_t *device, int reacher);

#endif
