/* SPDX-License-Identifier: Apache-2.0 */
/* The table that a backend fills. Everything above knows a backend only through this table, so tests can wrap
   it, delay it and make its n-th call fail.

   A backend translates: one vendor call, one mapped status. It has no cache, no policy, and no lock but for
   its own bookkeeping. The core has checked the arguments: pointers are not NULL, sizes are at least 1,
   handles belong to the device. Every call makes its device current and then restores the caller's. A call
   that fails changes nothing, its out parameters included, and has called dao_error().

   Threads: any call from any thread, several at once on one stream or event too, since dao_copy() and the
   program's own work share a device's streams. A page handle is used by one thread at a time, and nothing is
   used while it is destroyed. No call is made from inside a host function. */
#ifndef DAO_BACKENDS_BACKEND_H
#define DAO_BACKENDS_BACKEND_H

#include <dao/context.h>
#include <dao/status.h>
#include <dao/stream.h>

#define DAO_BACKEND_OPS_VERSION 1

/* Bytes of a page: the unit in which memory is mapped and moved, 2 MiB as in CUDA's and HIP's calls for
   virtual memory. */
#define DAO_PAGE_BYTES (UINT64_C(2) << 20)

typedef struct dao_backend dao_backend_t;               /* the driver, opened */
typedef struct dao_backend_device dao_backend_device_t; /* a device, opened */
typedef struct dao_backend_stream dao_backend_stream_t;
typedef struct dao_backend_event dao_backend_event_t;
typedef struct dao_backend_pages dao_backend_pages_t;   /* physical memory without an address */
typedef struct dao_backend_shared dao_backend_shared_t; /* memory that other processes can map */
typedef struct dao_backend_pool dao_backend_pool_t;     /* a pool of the driver's stream-ordered allocator */

/* What another process needs to map shared memory: the vendor's bytes, and a descriptor if the vendor uses
   one. */
typedef struct dao_backend_share {
    unsigned char bytes[64];
    int descriptor; /* DAO_NO_DESCRIPTOR (base/memory/shared.h): the bytes alone */
} dao_backend_share_t;

/* Which way a copy goes; "host" is pinned or ordinary host memory. */
typedef enum dao_copy_kind {
    DAO_COPY_KIND_H2H = 0,
    DAO_COPY_KIND_H2D = 1,
    DAO_COPY_KIND_D2H = 2,
    DAO_COPY_KIND_D2D = 3, /* on the stream's own device, or on peers that it may reach */
} dao_copy_kind_t;

typedef struct dao_backend_ops {
    uint32_t version; /* DAO_BACKEND_OPS_VERSION; fields are only ever appended */
    const char *name; /* "cpu", "cuda", "hip" */

    /* Opens the driver. DAO_ERR_NO_DEVICE without a driver or a device, which the message says. */
    dao_status_t (*open)(const dao_config_t *config, dao_backend_t **out_backend);
    void (*close)(dao_backend_t *backend); /* all devices are closed */
    dao_status_t (*device_count)(dao_backend_t *backend, int32_t *out_count);
    dao_status_t (*device_open)(dao_backend_t *backend, int32_t index, dao_backend_device_t **out_device);
    void (*device_close)(dao_backend_device_t *device); /* all its memory, streams and events are gone */
    dao_status_t (*device_query)(dao_backend_device_t *device, dao_device_info_t *out_info);
    dao_status_t (*device_synchronize)(dao_backend_device_t *device);

    /* Device memory, aligned to the device's alignment_bytes. Free may wait for the device; no work uses the
       memory. DAO_ERR_NO_DEVICE_MEMORY when the device is full. */
    dao_status_t (*memory_alloc)(dao_backend_device_t *device, size_t size_bytes, void **out_address);
    dao_status_t (*memory_free)(dao_backend_device_t *device, void *address, size_t size_bytes);

    /* Page-locked host memory, aligned to at least 256 bytes. DAO_ERR_NO_HOST_MEMORY when refused. */
    dao_status_t (*pinned_alloc)(dao_backend_device_t *device, size_t size_bytes, void **out_address);
    dao_status_t (*pinned_free)(dao_backend_device_t *device, void *address, size_t size_bytes);

    /* Streams run their work in order; different streams are independent. Destroy waits for the work, but
       for adopted streams. */
    dao_status_t (*stream_create)(dao_backend_device_t *device, dao_backend_stream_t **out_stream);
    void (*stream_destroy)(dao_backend_stream_t *stream);
    dao_status_t (*stream_synchronize)(dao_backend_stream_t *stream);
    dao_status_t (*stream_wait_event)(dao_backend_stream_t *stream, dao_backend_event_t *event);
    void *(*stream_native)(dao_backend_stream_t *stream);

    /* An event stands for the work before its latest record; never recorded counts as finished. Waiting for
       it binds to that record, whatever is recorded later. Query answers DAO_OK or DAO_ERR_NOT_READY, or the
       work's error. Elapsed is for events that were created with a time, which others do without:
       DAO_ERR_INVALID. */
    dao_status_t (*event_create)(dao_backend_device_t *device, bool has_time,
                                 dao_backend_event_t **out_event);
    void (*event_destroy)(dao_backend_event_t *event);
    dao_status_t (*event_record)(dao_backend_event_t *event, dao_backend_stream_t *stream);
    dao_status_t (*event_query)(dao_backend_event_t *event);
    dao_status_t (*event_synchronize)(dao_backend_event_t *event);
    dao_status_t (*event_elapsed)(dao_backend_event_t *begin, dao_backend_event_t *end,
                                  int64_t *out_elapsed_ns);

    /* Work on a stream. None of these waits. The ranges of a copy do not overlap. */
    dao_status_t (*copy)(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                         size_t size_bytes);
    dao_status_t (*fill)(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes);
    dao_status_t (*host_func)(dao_backend_stream_t *stream, dao_host_func_t function, void *user);

    /* Optional: copies between two devices, queued on a stream of either. NULL: the core goes through pinned
       memory. */
    dao_status_t (*copy_peer)(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                              dao_backend_device_t *src_device, const void *src, size_t size_bytes);

    /* Optional, all seven or none: virtual memory. Sizes and addresses are multiples of the device's
       page_bytes. A handle of pages is mapped as a whole, at one address at a time, and keeps its bytes while
       it is not mapped. Unmap and destroy happen only when no work uses the pages; a lost device's pages are
       destroyed without an error. DAO_ERR_NO_DEVICE_MEMORY from pages_create when full. */
    dao_status_t (*address_reserve)(dao_backend_device_t *device, size_t size_bytes, void **out_address);
    dao_status_t (*address_release)(dao_backend_device_t *device, void *address, size_t size_bytes);
    dao_status_t (*pages_create)(dao_backend_device_t *device, size_t size_bytes,
                                 dao_backend_pages_t **out_pages);
    dao_status_t (*pages_destroy)(dao_backend_device_t *device, dao_backend_pages_t *pages);
    dao_status_t (*pages_map)(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
    dao_status_t (*pages_unmap)(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
    size_t (*pages_size)(const dao_backend_pages_t *pages);

    /* Optional, beside the seven: pages_create and pages_map in one call, for page_count handles of
       page_bytes each, one behind the other from `address`. All or nothing; after a failure out_pages means
       nothing. NULL: the core makes the calls one by one. */
    dao_status_t (*pages_create_mapped)(dao_backend_device_t *device, size_t page_bytes, size_t page_count,
                                        void *address, dao_backend_pages_t **out_pages);

    /* Memory, pinned memory too, has addresses but no bytes: copies take their time and carry nothing, and
       nobody touches an address. */
    bool has_no_bytes;

    /* DLPack's device types (dao/dlpack_abi.h) of device memory, of managed memory, which comes in as device
       memory, and of pinned memory. 0: other libraries cannot use it. */
    int32_t dlpack_device;
    int32_t dlpack_managed;
    int32_t dlpack_pinned;

    /* Optional: a stream that others made, by the vendor's handle, as one of ours. Destroy leaves the stream
       itself to its owner, who may have destroyed it already: it asks nothing about the handle, and the
       caller has waited for the work. DAO_ERR_INVALID for what is no stream, as far as that is known;
       DAO_ERR_UNSUPPORTED for a handle that is another stream in each thread. NULL: there is no such
       thing. */
    dao_status_t (*stream_adopt)(dao_backend_device_t *device, void *native,
                                 dao_backend_stream_t **out_stream);
    bool has_default_stream; /* a NULL handle is a stream, the vendor's default one */

    /* Optional, all four or none: memory that other processes can have, too. Create: as memory_alloc. Export:
       *out_share's descriptor is the caller's. Import: of what another process has exported and still has,
       `size_bytes` as it was created there; the share's descriptor stays the caller's; DAO_ERR_INVALID for
       what is none, or is gone. Destroy: either one, when no work uses it; a lost device's is destroyed
       without an error. Where shares have no descriptor, what was exported is destroyed last. */
    dao_status_t (*shared_create)(dao_backend_device_t *device, size_t size_bytes,
                                  dao_backend_shared_t **out_shared, void **out_address);
    dao_status_t (*shared_export)(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                  dao_backend_share_t *out_share);
    dao_status_t (*shared_import)(dao_backend_device_t *device, const dao_backend_share_t *share,
                                  size_t size_bytes, dao_backend_shared_t **out_shared, void **out_address);
    dao_status_t (*shared_destroy)(dao_backend_device_t *device, dao_backend_shared_t *shared);

    /* Optional, both or neither: a device that reaches another one's memory. Can: whether it is possible.
       Enable: from now on the device's kernels, fills and copies within it reach all memory of the peer, also
       what it maps or allocates later; once more changes nothing. The two are different devices.
       DAO_ERR_UNSUPPORTED where it is not possible. */
    dao_status_t (*peer_can)(dao_backend_device_t *device, dao_backend_device_t *peer, bool *out_can);
    dao_status_t (*peer_enable)(dao_backend_device_t *device, dao_backend_device_t *peer);

    /* Optional, all three or none: page-locks host memory of the program, so all devices copy from and to it
       as with pinned memory and kernels can access it. It overlaps nothing that is registered here.
       DAO_ERR_BUSY: somebody else has registered a part of it; DAO_ERR_NO_HOST_MEMORY: it cannot be locked;
       DAO_ERR_UNSUPPORTED: the device cannot do that. Unregister takes the address that register took; no
       work uses the memory. */
    dao_status_t (*host_register)(dao_backend_device_t *device, void *address, size_t size_bytes);
    dao_status_t (*host_unregister)(dao_backend_device_t *device, void *address);

    /* Finds the address by which the device's kernels access pinned or registered memory.
       DAO_ERR_UNSUPPORTED: none. */
    dao_status_t (*host_device_address)(dao_backend_device_t *device, void *address, void **out_address);

    /* Optional: several copies of one kind, not within the host, by one call. They may run in any order; none
       touches what another one writes. After a failure some may be queued. DAO_ERR_UNSUPPORTED: not on this
       stream or with this driver; none is queued, and the core makes the copies one by one, as it does for
       NULL. */
    dao_status_t (*copy_batch)(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *const *dsts,
                               const void *const *srcs, const size_t *sizes_bytes, size_t count);

    /* Optional, beside virtual memory's seven: pages_map for page_count handles of one size, one behind the
       other from `address`. All or nothing. NULL: the core makes the calls one by one. */
    dao_status_t (*pages_map_run)(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                  size_t page_count, void *address);

    /* Optional: holds a stream up until *word, in pinned memory, is `value` or after it, as numbers that wrap
       around are. The host writes it, in a thread of its own: no host function, which would keep those of
       other streams waiting. The stream is not being captured. DAO_ERR_UNSUPPORTED: the device cannot;
       nothing is queued. NULL: host functions of different streams do not wait for each other, or nobody
       knows better. */
    dao_status_t (*stream_wait_word)(dao_backend_stream_t *stream, _Atomic uint32_t *word, uint32_t value);

    /* Optional: in virtual time, delays a stream by something that takes time outside of the device, such as
       a file. NULL: time is real. */
    dao_status_t (*delay)(dao_backend_stream_t *stream, uint64_t duration_ns);

    /* Optional, all four or none, called where device_query says memory_pools: device memory that the driver
       allocates and frees in the order of a stream of the pool's own, so neither waits for other work. Alloc:
       as memory_alloc; every stream can use the memory at once. Free: no work uses the memory. Destroy: all
       memory has been freed. */
    dao_status_t (*pool_create)(dao_backend_device_t *device, dao_backend_pool_t **out_pool);
    void (*pool_destroy)(dao_backend_device_t *device, dao_backend_pool_t *pool);
    dao_status_t (*pool_alloc)(dao_backend_device_t *device, dao_backend_pool_t *pool, size_t size_bytes,
                               void **out_address);
    dao_status_t (*pool_free)(dao_backend_device_t *device, dao_backend_pool_t *pool, void *address);

    /* Optional: finds the capture that a stream is part of. Work on such a stream is not done but recorded
       into a graph that runs later. 0: none; streams of one capture have one number, which is never used
       again. Does not wait and does not disturb the capture, nor does recording an event on such a stream,
       for which streams of the same capture can wait. Querying or waiting for that event, the stream or its
       device ends the capture. NULL: there are no captures. */
    dao_status_t (*stream_capture)(dao_backend_stream_t *stream, uint64_t *out_capture);

    /* Optional, beside stream_adopt: returns true if the owner of an adopted stream has destroyed it, whether
       or not its handle has become another stream's. For good then: waiting for it, and recording an event on
       it, wait for its device. Does not wait. NULL: an adopted stream lives until its destroy. */
    bool (*stream_is_gone)(dao_backend_stream_t *stream);

    /* Optional, all three or none: pages of device memory at further addresses, beside their own. Prepare:
       the whole pages of [base, base + size_bytes), memory or mapped pages, in which nothing counts: its
       bytes may be lost. *out_page_bytes are those of a page. DAO_ERR_UNSUPPORTED where device, driver or
       memory cannot do it or do it badly. Map: addresses behind which page i is the pages[i]-th one of those
       that were prepared from `base` on; a page may be behind several. All or nothing;
       DAO_ERR_NO_HOST_MEMORY, DAO_ERR_NO_DEVICE_MEMORY. What work writes by one address is seen by another
       one in work that is ordered behind it. Work on other pages goes on meanwhile. Unmap: of what one map
       made and page_count are still there of, the pages from keep_count on, as that takes long for many; with
       keep_count 0 the addresses go, too. No work uses these, and the memory itself goes later. A lost
       device's are unmapped without an error; after another one nobody asks again. */
    dao_status_t (*alias_prepare)(dao_backend_device_t *device, void *base, size_t size_bytes,
                                  size_t *out_page_bytes);
    dao_status_t (*alias_map)(dao_backend_device_t *device, void *base, size_t page_bytes,
                              const uint32_t *pages, size_t page_count, void **out_address);
    dao_status_t (*alias_unmap)(dao_backend_device_t *device, void *address, size_t page_bytes,
                                size_t page_count, size_t keep_count);
    /* Optional, both or neither: a thread of the library's own stays on a device, so that its calls for that
       device need not look each time what is current in the thread, and disturb no capture. Stay: once more
       after code of the program has run in the thread, which may have made another device current. After an
       error, calls look each time again. Part: before the thread ends. */
    dao_status_t (*thread_stay)(dao_backend_device_t *device);
    void (*thread_part)(dao_backend_device_t *device);

    /* Mapping takes as long as the copies that it saves: it is for programs that ask for it. */
    bool alias_is_slow;

    /* Optional, beside virtual memory's seven: pages_unmap for page_count handles of one size that lie one
       behind the other from `address`. All or nothing. NULL: the core makes the calls one by one. */
    dao_status_t (*pages_unmap_run)(dao_backend_device_t *device, dao_backend_pages_t *const *pages,
                                    size_t page_count, void *address);

    /* stream_wait_event waits itself for streams that stream_create has made. */
    bool made_streams_wait_on_host;
} dao_backend_ops_t;

/* The number of a capture that cannot be distinguished from others. */
#define DAO_CAPTURE_UNKNOWN UINT64_MAX

/* Returns the capture that a stream is part of; 0: none, or the driver failed, which its next call
   reports. */
static inline uint64_t dao_backend_stream_capture(const dao_backend_ops_t *ops, dao_backend_stream_t *stream)
{
    uint64_t capture = 0;
    return ops->stream_capture != NULL && ops->stream_capture(stream, &capture) == DAO_OK ? capture : 0;
}

/* Returns true if an adopted stream's owner has destroyed it. Does not wait. */
static inline bool dao_backend_stream_is_gone(const dao_backend_ops_t *ops, dao_backend_stream_t *stream)
{
    return ops->stream_is_gone != NULL && ops->stream_is_gone(stream);
}

/* Checks a table: its version, that nothing required is missing, that optional groups are whole.
   DAO_ERR_INVALID with a message that names the slot. */
DAO_NODISCARD dao_status_t dao_backend_ops_check(const dao_backend_ops_t *ops);

/* Returns true if a table has virtual memory. */
static inline bool dao_backend_has_pages(const dao_backend_ops_t *ops)
{
    return ops->pages_map != NULL;
}

/* Returns true if a table maps pages at several addresses. */
static inline bool dao_backend_has_aliases(const dao_backend_ops_t *ops)
{
    return ops->alias_map != NULL;
}

/* Returns true if a table has memory for several processes. */
static inline bool dao_backend_has_shared(const dao_backend_ops_t *ops)
{
    return ops->shared_create != NULL;
}

/* Returns the table of the backend that this build was made for. */
const dao_backend_ops_t *dao_backend_ops(void);

#endif
