/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the cpu backend share. */
#ifndef DAO_BACKENDS_CPU_CPU_INTERNAL_H
#define DAO_BACKENDS_CPU_CPU_INTERNAL_H

#include "backends/backend.h"
#include "backends/virtual_memory.h"
#include "base/threads/sync.h"

#include <stdatomic.h>

/* Alignment of device and pinned memory, and the size of a page: that of a huge page of the host. */
#define DAO_CPU_PAGE_BYTES ((size_t)2 << 20)

/* Alignment that device_query promises. */
#define DAO_CPU_ALIGNMENT_BYTES 256

/* A wire carries one copy at a time. Both directions of a half-duplex link are one wire. */
typedef struct cpu_wire {
    dao_mutex_t lock;
    uint64_t free_at_ns; /* guarded: when all copies booked so far are through */
} cpu_wire_t;

/* One direction of a device's link to the host. */
typedef struct cpu_link {
    uint64_t bytes_per_second; /* 0: as fast as memcpy */
    uint64_t latency_ns;
    cpu_wire_t *wire;
} cpu_link_t;

struct dao_backend {
    int32_t device_count;
    uint64_t device_bytes;
    uint64_t h2d_bytes_per_second;
    uint64_t d2h_bytes_per_second;
    uint64_t copy_latency_ns;
    bool is_half_duplex;
    bool has_pages;
    cpu_wire_t host_wire;
    cpu_link_t host_link; /* of all devices together, to the host's memory */
};

struct dao_backend_device {
    dao_backend_t *backend;
    int32_t index;
    cpu_wire_t wires[2];
    cpu_link_t h2d;
    cpu_link_t d2h;

    dao_virtual_memory_t memory;
    uint32_t page_handle_count; /* guarded by memory.lock */

    dao_mutex_t stream_lock; /* guards the list */
    dao_backend_stream_t *streams;
};

/* Returns DAO_ERR_REENTRANT on a stream's own thread: host functions must not call the table. */
DAO_NODISCARD dao_status_t dao_cpu_check_thread(void);

/* Reads the settings: the config's, else the environment's, else the default (cpu_config.c). */
DAO_NODISCARD dao_status_t dao_cpu_read_config(const dao_cpu_config_t *config, dao_backend_t *backend);

/* cpu_memory.c */
dao_status_t dao_cpu_memory_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_cpu_memory_free(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_cpu_pinned_alloc(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_cpu_pinned_free(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_cpu_address_reserve(dao_backend_device_t *device, size_t size_bytes, void **out_address);
dao_status_t dao_cpu_address_release(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_cpu_pages_create_mapped(dao_backend_device_t *device, size_t page_bytes, size_t page_count,
                                         void *address, dao_backend_pages_t **out_pages);
dao_status_t dao_cpu_pages_create(dao_backend_device_t *device, size_t size_bytes,
                                  dao_backend_pages_t **out_pages);
dao_status_t dao_cpu_pages_destroy(dao_backend_device_t *device, dao_backend_pages_t *pages);
dao_status_t dao_cpu_pages_map(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
dao_status_t dao_cpu_pages_unmap(dao_backend_device_t *device, dao_backend_pages_t *pages, void *address);
size_t dao_cpu_pages_size(const dao_backend_pages_t *pages);

dao_status_t dao_cpu_host_register(dao_backend_device_t *device, void *address, size_t size_bytes);
dao_status_t dao_cpu_host_unregister(dao_backend_device_t *device, void *address);
dao_status_t dao_cpu_host_device_address(dao_backend_device_t *device, void *address, void **out_address);

dao_status_t dao_cpu_alias_prepare(dao_backend_device_t *device, void *base, size_t size_bytes,
                                   size_t *out_page_bytes);
dao_status_t dao_cpu_alias_map(dao_backend_device_t *device, void *base, size_t page_bytes,
                               const uint32_t *pages, size_t page_count, void **out_address);
dao_status_t dao_cpu_alias_unmap(dao_backend_device_t *device, void *address, size_t page_bytes,
                                 size_t page_count, size_t keep_count);

/* cpu_share.c */
dao_status_t dao_cpu_shared_create(dao_backend_device_t *device, size_t size_bytes,
                                   dao_backend_shared_t **out_shared, void **out_address);
dao_status_t dao_cpu_shared_export(dao_backend_device_t *device, dao_backend_shared_t *shared,
                                   dao_backend_share_t *out_share);
dao_status_t dao_cpu_shared_import(dao_backend_device_t *device, const dao_backend_share_t *share,
                                   size_t size_bytes, dao_backend_shared_t **out_shared, void **out_address);
dao_status_t dao_cpu_shared_destroy(dao_backend_device_t *device, dao_backend_shared_t *shared);

/* cpu_stream.c */
dao_status_t dao_cpu_stream_create(dao_backend_device_t *device, dao_backend_stream_t **out_stream);
dao_status_t dao_cpu_stream_adopt(dao_backend_device_t *device, void *native,
                                  dao_backend_stream_t **out_stream);
void dao_cpu_stream_destroy(dao_backend_stream_t *stream);
dao_status_t dao_cpu_stream_synchronize(dao_backend_stream_t *stream);
dao_status_t dao_cpu_stream_wait_event(dao_backend_stream_t *stream, dao_backend_event_t *event);
void *dao_cpu_stream_native(dao_backend_stream_t *stream);
dao_status_t dao_cpu_device_synchronize(dao_backend_device_t *device);
dao_status_t dao_cpu_event_create(dao_backend_device_t *device, bool has_time,
                                  dao_backend_event_t **out_event);
void dao_cpu_event_destroy(dao_backend_event_t *event);
dao_status_t dao_cpu_event_record(dao_backend_event_t *event, dao_backend_stream_t *stream);
dao_status_t dao_cpu_event_query(dao_backend_event_t *event);
dao_status_t dao_cpu_event_synchronize(dao_backend_event_t *event);
dao_status_t dao_cpu_event_elapsed(dao_backend_event_t *begin, dao_backend_event_t *end,
                                   int64_t *out_elapsed_ns);
dao_status_t dao_cpu_copy(dao_backend_stream_t *stream, dao_copy_kind_t kind, void *dst, const void *src,
                          size_t size_bytes);
dao_status_t dao_cpu_copy_peer(dao_backend_stream_t *stream, dao_backend_device_t *dst_device, void *dst,
                               dao_backend_device_t *src_device, const void *src, size_t size_bytes);
dao_status_t dao_cpu_fill(dao_backend_stream_t *stream, void *dst, uint8_t value, size_t size_bytes);
dao_status_t dao_cpu_host_func(dao_backend_stream_t *stream, dao_host_func_t function, void *user);

#endif
