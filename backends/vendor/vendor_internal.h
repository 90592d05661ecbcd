/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the backend for CUDA and HIP share: its objects, the guard around a vendor's call, and
   the slots. DAO_VENDOR_NAMES is the header with one vendor's names. */
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
    int32_t device_count; /* as reported when the driver was opened */
    bool maps_pages;      /* unless the environment forbids it */
    bool tries_pages;     /* before they are used, unless the environment trusts the driver */
};

/* Pages that are mapped once more. */
typedef struct dao_vendor_alias {
    struct dao_vendor_alias *next;
    void *address;
    size_t page_bytes, page_count; /* mapped from its begin on */
    size_t reserved_count;         /* pages that its addresses are for */
} dao_vendor_alias_t;

struct dao_backend_device {
    int index;
    dao_device_info_t info; /* total and free bytes are queried each time */
    size_t page_bytes;      /* granularity of virtual memory; 0: there is none */

    /* Which devices access the memory of this one: vendor_pages.c. */
    dao_mutex_t lock;            /* guards what follows */
    uint64_t reachers;           /* a bit a device: this one and its enabled peers */
    dao_backend_pages_t *mapped; /* all pages that are mapped */
    dao_vendor_alias_t *aliases; /* all ranges of pages that are mapped once more: vendor_alias.c */
    dao_backend_pool_t *pools;   /* all pools: vendor_pool.c */
};

/* Returns true if a device answers nothing but errors after this one. */
bool dao_vendor_is_lost(vendorError_t error);

/* Makes what a device's calls need, such as its primary context. Called once, before the others. */
vendorError_t dao_vendor_start(int index);

/* Makes a status of the vendor's result and clears its last error. `no_memory` is the status for refused
   memory. */
dao_status_t dao_vendor_answer(vendorError_t error, const char *call, int index, dao_status_t no_memory);

/* The state of the thread before the guard changed it. */
typedef struct dao_vendor_guard {
    int device; /* CUDA: whether a context was pushed */
    vendorStreamCaptureMode_t mode;
    bool stays; /* nothing was changed: the thread stays on the device */
} dao_vendor_guard_t;

/* Makes a device current, and relaxes the thread's capture mode: calls of the library would otherwise
   invalidate a capture of the program. After vendorSuccess, dao_vendor_leave() restores both. */
vendorError_t dao_vendor_enter(int index, dao_vendor_guard_t *out_guard);
void dao_vendor_leave(int index, dao_vendor_guard_t *guard);

/* The guard of a thread that stays on a device: entered once, and nothing else to do at each call. */
dao_status_t dao_vendor_thread_stay(dao_backend_device_t *device);
void dao_vendor_thread_part(dao_backend_device_t *device);

/* Makes one vendor call inside the guard of device `index`, and stores its status. */
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

/* Streams, events and their work: vendor_stream.c. */
dao_status_t dao_vendor_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream);
dao_status_t dao_vendor_stream_adopt(dao_backend_device_t *device, void *native,
                                     dao_backend_stream_t **out_stream);
dao_status_t dao_vendor_device_synchronize(dao_backend_device_t *device);
bool dao_vendor_stream_is_gone(dao_backend_stream_t *stream);
dao_status_t dao_vendor_stream_synchronize(dao_backend_stream_t *stream);
void dao_vendor_stream_destroy(dao_backend_stream_t *stream);
dao_status_t dao_vendor_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event);
#ifdef vendorStreamWaitWord
dao_status_t dao_vendor_stream_wait_word(dao_backend_stream_t *stream, _Atomic uint32_t *word,
                                         uint32_t value);
#endif
dao_status_t dao_vendor_stream_capture(dao_backend_stream_t *stream, uint64_t *out_capture);
void *dao_vendor_stream_native(dao_backend_stream_t *stream);
dao_status_t dao_vendor_event_create(dao_backend_device_t *device, bool has_time,
                                     dao_backend_event_t **out_event);
void dao_vendor_event_destroy(dao_backend_event_t *event);
dao_status_t dao_vendor_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream);
dao_status_t dao_vendor_event_query(dao_backend_event_t *event);
dao_status_t dao_vendor_event_synchronize(dao_backend_event_t *event);
dao_status_t dao_vendor_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                      int64_t *out_elapsed_ns);
dao_status_t dao_vendor_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user);
dao_status_t dao_vendor_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                             size_t size_bytes);
#ifdef vendorCopyBatch
dao_status_t dao_vendor_copy_batch(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *const *dsts,
                                   const void *const *srcs, const size_t *sizes_bytes, size_t count);
#endif
dao_status_t dao_vendor_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes);
dao_status_t dao_vendor_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                                  dao_backend_device_t *src_device, const void *src, size_t size_bytes);

/* Virtual memory: vendor_pages.c. */
dao_status_t dao_vendor_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_vendor_address_release(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_vendor_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                     dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes,
                                            size_t page_count, void *address,
                                            dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages);
/* Frees the structure alone. The vendor keeps the memory until the process ends, or lost it with the
   device. */
void dao_vendor_pages_forget(dao_backend_device_t *device, dao_backend_pages_t *pages);

/* Destroys pages where an error cannot be returned. If the vendor refuses, they are forgotten. */
void dao_vendor_pages_discard(dao_backend_device_t *device, dao_backend_pages_t *pages);
dao_status_t dao_vendor_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
dao_status_t dao_vendor_pages_map_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                      size_t page_count, void *address);
dao_status_t dao_vendor_pages_unmap_run(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                        size_t page_count, void *address);
dao_status_t dao_vendor_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
size_t dao_vendor_pages_size(const dao_backend_pages_t *pages);
dao_status_t dao_vendor_pages_create_shared(dao_backend_device_t *device, size_t size_bytes,
                                            dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_import(dao_backend_device_t *device, int descriptor, size_t size_bytes,
                                     dao_backend_pages_t **out_pages);
dao_status_t dao_vendor_pages_export(dao_backend_device_t *device, const dao_backend_pages_t *pages,
                                     int *out_descriptor);

/* Finds the handles of the pages that are mapped from `base` on, each of page_bytes: out_handles[i] is that
   of page i, up to page_count. Returns false if one is not there, or has another size. */
bool dao_vendor_pages_find(dao_backend_device_t *device, const void *base, size_t page_bytes,
                           size_t page_count, vendorVmm_t *out_handles);

/* Returns the size of the mapped pages at an address; 0: none begin there. */
size_t dao_vendor_pages_bytes_at(dao_backend_device_t *device, const void *address);

/* Tries whether a device's pages can be mapped behind others, and again where one was: DAO_ERR_BACKEND where
   the driver allows no access to them. Leaves nothing. */
dao_status_t dao_vendor_pages_try(dao_backend_device_t *device);

/* Lets devices, a bit each, access a range of mapped pages. DAO_ERR_NOT_READY after a second in which the
   driver wanted the device's work to end first. */
dao_status_t dao_vendor_allow(const dao_backend_device_t *device, void *address, size_t size_bytes,
                              uint64_t devices);

/* Pages at several addresses: vendor_alias.c. */
dao_status_t dao_vendor_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                      size_t *out_page_bytes);
dao_status_t dao_vendor_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                                  const uint32_t *pages, size_t page_count, void **out_address);
dao_status_t dao_vendor_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                    size_t page_count, size_t keep_count);

/* Lets device number `reacher` access all of them. The device's lock is held. */
dao_status_t dao_vendor_aliases_allow_locked(const dao_backend_device_t *device, int reacher);

/* Pools: vendor_pool.c. Find returns whether a device has them. */
dao_status_t dao_vendor_pools_find(int index, bool *out_has_pools);
dao_status_t dao_vendor_pool_create(dao_backend_device_t *device, dao_backend_pool_t **out_pool);
void dao_vendor_pool_destroy(dao_backend_device_t *device, dao_backend_pool_t *pool);
dao_status_t dao_vendor_pool_alloc(dao_backend_device_t *device, dao_backend_pool_t *pool, size_t size_bytes,
                                   void **out_address);
dao_status_t dao_vendor_pool_free(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address);

/* Lets one more device access the memory of all pools of a device, whose lock is held. */
dao_status_t dao_vendor_pools_allow_locked(const dao_backend_device_t *device, int reacher);

/* Memory for several processes: vendor_share.c. */
dao_status_t dao_vendor_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                      dao_backend_shared_t **out_shared, void **out_address);
dao_status_t dao_vendor_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                      dao_backend_share_t *out_share);
dao_status_t dao_vendor_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                      size_t size_bytes, dao_backend_shared_t **out_shared,
                                      void **out_address);
dao_status_t dao_vendor_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared);

/* Lets device number `reacher` access all memory that is or will be mapped on a device. */
dao_status_t dao_vendor_pages_open(dao_backend_device_t *device, int reacher);

#endif
