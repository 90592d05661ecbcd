/* SPDX-License-Identifier: Apache-2.0 */
/* The table of the cpu backend, its driver and devices. cpu_memory.c has the memory, cpu_stream.c streams and
   events, cpu_share.c memory for several processes. */
#include "backends/cpu/cpu.h"

#include "backends/cpu/cpu_internal.h"
#include "base/memory/host.h"
#include "base/report/error.h"

#include <dao/dlpack_abi.h>

#include <inttypes.h>
#include <stdio.h>

static dao_status_t cpu_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_t *backend = dao_host_calloc(1, sizeof(*backend));
    if (backend == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the cpu backend");
    }
    status = dao_cpu_read_config(&config->cpu, backend);
    if (status != DAO_OK) {
        dao_host_free(backend);
        return status;
    }
    dao_mutex_init(&backend->host_wire.lock, DAO_RANK_BACKEND);
    backend->host_link.wire = &backend->host_wire;
    *out_backend = backend;
    return DAO_OK;
}

static void cpu_close(dao_backend_t *backend)
{
    dao_mutex_finish(&backend->host_wire.lock);
    dao_host_free(backend);
}

static dao_status_t cpu_device_count(dao_backend_t *backend, int32_t *out_count)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    *out_count = backend->device_count;
    return DAO_OK;
}

static void init_links(dao_backend_device_t *device)
{
    const dao_backend_t *backend = device->backend;
    cpu_wire_t *back = &device->wires[backend->is_half_duplex ? 0 : 1];
    dao_mutex_init(&device->wires[0].lock, DAO_RANK_BACKEND);
    dao_mutex_init(&device->wires[1].lock, DAO_RANK_BACKEND);
    device->h2d = (cpu_link_t){backend->h2d_bytes_per_second, backend->copy_latency_ns, &device->wires[0]};
    device->d2h = (cpu_link_t){backend->d2h_bytes_per_second, backend->copy_latency_ns, back};
}

static dao_status_t cpu_device_open(dao_backend_t *backend, int32_t index, dao_backend_device_t **out_device)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    if (index < 0 || index >= backend->device_count) {
        return dao_error(DAO_ERR_NO_DEVICE,
                         "there is no virtual device %" PRId32 ": there are %" PRId32 " (DAO_CPU_DEVICES)",
                         index, backend->device_count);
    }
    dao_backend_device_t *device = dao_host_calloc(1, sizeof(*device));
    if (device == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for virtual device %" PRId32, index);
    }
    device->backend = backend;
    device->index = index;
    init_links(device);
    device->memory = (dao_virtual_memory_t){.device_index = index,
                                            .capacity_bytes = backend->device_bytes,
                                            .alignment_bytes = DAO_CPU_PAGE_BYTES};
    dao_virtual_memory_init(&device->memory);
    dao_mutex_init(&device->stream_lock, DAO_RANK_BACKEND);
    *out_device = device;
    return DAO_OK;
}

static void cpu_device_close(dao_backend_device_t *device)
{
    DAO_ASSERT(device->streams == NULL);
    DAO_ASSERT(device->page_handle_count == 0);
    dao_mutex_finish(&device->stream_lock);
    dao_virtual_memory_finish(&device->memory);
    dao_mutex_finish(&device->wires[1].lock);
    dao_mutex_finish(&device->wires[0].lock);
    dao_host_free(device);
}

static dao_status_t cpu_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    dao_status_t status = dao_cpu_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    *out_info = (dao_device_info_t){
        .total_bytes = device->backend->device_bytes,
        .free_bytes = dao_virtual_memory_free_bytes(&device->memory),
        .page_bytes = device->backend->has_pages ? DAO_CPU_PAGE_BYTES : 0,
        .alignment_bytes = DAO_CPU_ALIGNMENT_BYTES,
        .host_accessible = true,
    };
    (void)snprintf(out_info->name, sizeof(out_info->name), "virtual device %" PRId32, device->index);
    return DAO_OK;
}

/* All virtual devices are in one process and reach all memory: peer access is always possible. */

static dao_status_t cpu_peer_can(dao_backend_device_t *device, dao_backend_device_t *peer, bool *out_can)
{
    (void)device;
    (void)peer;
    dao_status_t status = dao_cpu_check_thread();
    if (status == DAO_OK) {
        *out_can = true;
    }
    return status;
}

static dao_status_t cpu_peer_enable(dao_backend_device_t *device, dao_backend_device_t *peer)
{
    (void)device;
    (void)peer;
    return dao_cpu_check_thread();
}

const dao_backend_ops_t dao_cpu_backend_ops = {
    .version = DAO_BACKEND_OPS_VERSION,
    .name = "cpu",
    .open = cpu_open,
    .close = cpu_close,
    .device_count = cpu_device_count,
    .device_open = cpu_device_open,
    .device_close = cpu_device_close,
    .device_query = cpu_device_query,
    .device_synchronize = dao_cpu_device_synchronize,
    .memory_alloc = dao_cpu_memory_alloc,
    .memory_free = dao_cpu_memory_free,
    .pinned_alloc = dao_cpu_pinned_alloc,
    .pinned_free = dao_cpu_pinned_free,
    .stream_create = dao_cpu_stream_create,
    .stream_destroy = dao_cpu_stream_destroy,
    .stream_synchronize = dao_cpu_stream_synchronize,
    .stream_wait_event = dao_cpu_stream_wait_event,
    .stream_native = dao_cpu_stream_native,
    .event_create = dao_cpu_event_create,
    .event_destroy = dao_cpu_event_destroy,
    .event_record = dao_cpu_event_record,
    .event_query = dao_cpu_event_query,
    .event_synchronize = dao_cpu_event_synchronize,
    .event_elapsed = dao_cpu_event_elapsed,
    .copy = dao_cpu_copy,
    .fill = dao_cpu_fill,
    .host_func = dao_cpu_host_func,
    .copy_peer = dao_cpu_copy_peer,
    .address_reserve = dao_cpu_address_reserve,
    .address_release = dao_cpu_address_release,
    .pages_create = dao_cpu_pages_create,
    .pages_create_mapped = dao_cpu_pages_create_mapped,
    .pages_destroy = dao_cpu_pages_destroy,
    .pages_map = dao_cpu_pages_map,
    .pages_unmap = dao_cpu_pages_unmap,
    .pages_size = dao_cpu_pages_size,
    .stream_adopt = dao_cpu_stream_adopt,
    .shared_create = dao_cpu_shared_create,
    .shared_export = dao_cpu_shared_export,
    .shared_import = dao_cpu_shared_import,
    .shared_destroy = dao_cpu_shared_destroy,
    .peer_can = cpu_peer_can,
    .peer_enable = cpu_peer_enable,
    .host_register = dao_cpu_host_register,
    .host_unregister = dao_cpu_host_unregister,
    .host_device_address = dao_cpu_host_device_address,
    .alias_prepare = dao_cpu_alias_prepare,
    .alias_map = dao_cpu_alias_map,
    .alias_unmap = dao_cpu_alias_unmap,
    .alias_is_slow = true,   /* as long as the system has no huge pages of shared memory: docs/swap.md */
    .dlpack_pinned = kDLCPU, /* device memory is not offered: no other library follows virtual streams */
};
