/* SPDX-License-Identifier: Apache-2.0 */
/* The tables of the sim backend, its driver and devices. sim_clock.c has the time, sim_stream.c streams and
   events, sim_memory.c the memory. */
#include "backends/sim/sim_internal.h"
#include "base/memory/host.h"
#include "base/report/assert.h"
#include "base/report/error.h"

#include <inttypes.h>
#include <stdio.h>

static dao_status_t check_config(const dao_cpu_config_t *config)
{
    if (config->device_count < 0 || config->device_count > DAO_DEVICE_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID, "%" PRId32 " virtual devices are asked for; allowed are 1 to %d",
                         config->device_count, DAO_DEVICE_COUNT_MAX);
    }
    if (config->device_bytes > DAO_VIRTUAL_DEVICE_BYTES_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "virtual devices of %" PRIu64 " bytes are asked for; allowed are up to %" PRIu64,
                         config->device_bytes, DAO_VIRTUAL_DEVICE_BYTES_MAX);
    }
    return DAO_OK;
}

static dao_status_t open_backend(const dao_config_t *config, bool has_bytes, dao_backend_t **out_backend)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        status = check_config(&config->cpu);
    }
    if (status != DAO_OK) {
        return status;
    }
    dao_backend_t *backend = dao_host_calloc(1, sizeof(*backend));
    if (backend == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for the sim backend");
    }
    backend->config = *config;
    backend->has_bytes = has_bytes;
    if (config->cpu.device_count == 0) {
        backend->config.cpu.device_count = DAO_VIRTUAL_DEVICE_COUNT_DEFAULT;
    }
    if (config->cpu.device_bytes == 0) {
        backend->config.cpu.device_bytes = DAO_VIRTUAL_DEVICE_BYTES_DEFAULT;
    }
    dao_mutex_init(&backend->lock, DAO_RANK_BACKEND);
    dao_cond_init(&backend->idle);
    *out_backend = backend;
    return DAO_OK;
}

static dao_status_t sim_open(const dao_config_t *config, dao_backend_t **out_backend)
{
    return open_backend(config, false, out_backend);
}

static dao_status_t sim_open_with_bytes(const dao_config_t *config, dao_backend_t **out_backend)
{
    return open_backend(config, true, out_backend);
}

static void sim_close(dao_backend_t *backend)
{
    DAO_ASSERT(backend->streams == NULL && !backend->is_moving);
    dao_cond_finish(&backend->idle);
    dao_mutex_finish(&backend->lock);
    dao_host_free(backend);
}

static dao_status_t sim_device_count(dao_backend_t *backend, int32_t *out_count)
{
    dao_status_t status = dao_sim_check_thread();
    if (status == DAO_OK) {
        *out_count = backend->config.cpu.device_count;
    }
    return status;
}

static dao_status_t sim_device_open(dao_backend_t *backend, int32_t index, dao_backend_device_t **out_device)
{
    dao_status_t status = dao_sim_check_thread();
    const dao_cpu_config_t *config = &backend->config.cpu;
    if (status != DAO_OK) {
        return status;
    }
    if (index < 0 || index >= config->device_count) {
        return dao_error(DAO_ERR_NO_DEVICE, "there is no virtual device %" PRId32 ": there are %" PRId32,
                         index, config->device_count);
    }
    dao_backend_device_t *device = dao_host_calloc(1, sizeof(*device));
    if (device == NULL) {
        return dao_error(DAO_ERR_NO_HOST_MEMORY, "no memory for virtual device %" PRId32, index);
    }
    device->backend = backend;
    device->index = index;
    device->h2d = (sim_link_t){&device->wires[0], config->h2d_bytes_per_second};
    device->d2h = (sim_link_t){&device->wires[config->half_duplex ? 0 : 1], config->d2h_bytes_per_second};
    device->memory = (dao_virtual_memory_t){.device_index = index,
                                            .capacity_bytes = config->device_bytes,
                                            .alignment_bytes = DAO_SIM_PAGE_BYTES,
                                            .has_no_bytes = !backend->has_bytes};
    dao_virtual_memory_init(&device->memory);
    *out_device = device;
    return DAO_OK;
}

static void sim_device_close(dao_backend_device_t *device)
{
    dao_virtual_memory_finish(&device->memory);
    DAO_ASSERT(device->wires[0].user == NULL && device->wires[1].user == NULL);
    dao_host_free(device);
}

static dao_status_t sim_device_query(dao_backend_device_t *device, dao_device_info_t *out_info)
{
    dao_status_t status = dao_sim_check_thread();
    if (status != DAO_OK) {
        return status;
    }
    const dao_backend_t *backend = device->backend;
    *out_info = (dao_device_info_t){
        .total_bytes = backend->config.cpu.device_bytes,
        .free_bytes = dao_virtual_memory_free_bytes(&device->memory),
        .alignment_bytes = DAO_SIM_ALIGNMENT_BYTES,
        .host_accessible = backend->has_bytes,
    };
    (void)snprintf(out_info->name, sizeof(out_info->name), "device %" PRId32 " in virtual time",
                   device->index);
    return DAO_OK;
}

/* What both tables have in common. */
#define SIM_OPS                                                                                              \
    .version = DAO_BACKEND_OPS_VERSION, .close = sim_close, .device_count = sim_device_count,                \
    .device_open = sim_device_open, .device_close = sim_device_close, .device_query = sim_device_query,      \
    .device_synchronize = dao_sim_device_synchronize, .memory_alloc = dao_sim_memory_alloc,                  \
    .memory_free = dao_sim_memory_free, .pinned_alloc = dao_sim_pinned_alloc,                                \
    .pinned_free = dao_sim_pinned_free, .stream_create = dao_sim_stream_create,                              \
    .stream_destroy = dao_sim_stream_destroy, .stream_synchronize = dao_sim_stream_synchronize,              \
    .stream_wait_event = dao_sim_stream_wait_event, .stream_native = dao_sim_stream_native,                  \
    .event_create = dao_sim_event_create, .event_destroy = dao_sim_event_destroy,                            \
    .event_record = dao_sim_event_record, .event_query = dao_sim_event_query,                                \
    .event_synchronize = dao_sim_event_synchronize, .event_elapsed = dao_sim_event_elapsed,                  \
    .copy = dao_sim_copy, .fill = dao_sim_fill, .host_func = dao_sim_host_func,                              \
    .host_register = dao_sim_host_register, .host_unregister = dao_sim_host_unregister,                      \
    .host_device_address = dao_sim_host_device_address, .delay = dao_sim_stream_delay,                       \
    .alias_prepare = dao_sim_alias_prepare, .alias_map = dao_sim_alias_map,                                  \
    .alias_unmap = dao_sim_alias_unmap

const dao_backend_ops_t dao_sim_backend_ops = {
    .name = "sim", .open = sim_open, .has_no_bytes = true, SIM_OPS};

const dao_backend_ops_t dao_sim_bytes_backend_ops = {
    .name = "sim with bytes", .open = sim_open_with_bytes, SIM_OPS};
