/* SPDX-License-Identifier: Apache-2.0 */
/* Settings of the virtual devices. */
#include "backends/cpu/cpu_internal.h"
#include "base/numbers/units.h"
#include "base/report/error.h"
#include "base/text/setting.h"

#include <inttypes.h>

typedef dao_status_t (*parse_t)(const char *text, uint64_t *out_value);

/* Reads one setting: `configured` if it is not 0, else the environment's value, else `fallback`. */
static dao_status_t read_setting(uint64_t configured, const char *variable, parse_t parse, uint64_t fallback,
                                 uint64_t *out_value)
{
    const char *text = dao_setting(variable);
    if (configured != 0 || text == NULL) {
        *out_value = configured != 0 ? configured : fallback;
        return DAO_OK;
    }
    dao_status_t status = parse(text, out_value);
    if (status != DAO_OK) {
        return dao_error(DAO_ERR_INVALID, "the environment's %s: %s", variable, dao_last_message());
    }
    return DAO_OK;
}

static dao_status_t check_device_count(uint64_t count, dao_backend_t *backend)
{
    if (count < 1 || count > DAO_DEVICE_COUNT_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "%" PRIu64 " virtual devices are asked for (DAO_CPU_DEVICES); allowed are 1 to %d",
                         count, DAO_DEVICE_COUNT_MAX);
    }
    backend->device_count = (int32_t)count;
    return DAO_OK;
}

/* At least one page, and small enough for the address space. */
static dao_status_t check_device_bytes(uint64_t bytes, dao_backend_t *backend)
{
    if (bytes < DAO_CPU_PAGE_BYTES || bytes > DAO_VIRTUAL_DEVICE_BYTES_MAX) {
        return dao_error(DAO_ERR_INVALID,
                         "virtual devices of %" PRIu64
                         " bytes are asked for (DAO_CPU_DEVICE_BYTES); allowed are %zu to %" PRIu64,
                         bytes, DAO_CPU_PAGE_BYTES, DAO_VIRTUAL_DEVICE_BYTES_MAX);
    }
    backend->device_bytes = bytes;
    return DAO_OK;
}

dao_status_t dao_cpu_read_config(const dao_cpu_config_t *config, dao_backend_t *backend)
{
    if (config->device_count < 0) {
        return dao_error(DAO_ERR_INVALID,
                         "device_count is %" PRId32 "; allowed are 1 to %d, or 0 for the default",
                         config->device_count, DAO_DEVICE_COUNT_MAX);
    }
    uint64_t count = 0;
    uint64_t bytes = 0;
    uint64_t without_pages = 0;
    uint64_t half_duplex = 0;
    dao_status_t status = read_setting((uint64_t)config->device_count, "DAO_CPU_DEVICES",
                                       dao_units_parse_count, DAO_VIRTUAL_DEVICE_COUNT_DEFAULT, &count);
    if (status == DAO_OK) {
        status = check_device_count(count, backend);
    }
    if (status == DAO_OK) {
        status = read_setting(config->device_bytes, "DAO_CPU_DEVICE_BYTES", dao_units_parse_bytes,
                              DAO_VIRTUAL_DEVICE_BYTES_DEFAULT, &bytes);
    }
    if (status == DAO_OK) {
        status = check_device_bytes(bytes, backend);
    }
    if (status == DAO_OK) {
        status = read_setting(config->h2d_bytes_per_second, "DAO_CPU_H2D_BYTES_PER_SECOND",
                              dao_units_parse_rate, 0, &backend->h2d_bytes_per_second);
    }
    if (status == DAO_OK) {
        status = read_setting(config->d2h_bytes_per_second, "DAO_CPU_D2H_BYTES_PER_SECOND",
                              dao_units_parse_rate, 0, &backend->d2h_bytes_per_second);
    }
    if (status == DAO_OK) {
        status = read_setting(config->host_bytes_per_second, "DAO_CPU_HOST_BYTES_PER_SECOND",
                              dao_units_parse_rate, 0, &backend->host_link.bytes_per_second);
    }
    if (status == DAO_OK) {
        status = read_setting(config->copy_latency_ns, "DAO_CPU_COPY_LATENCY_NS", dao_units_parse_time, 0,
                              &backend->copy_latency_ns);
    }
    if (status == DAO_OK) {
        status = read_setting(config->half_duplex ? 1 : 0, "DAO_CPU_HALF_DUPLEX", dao_units_parse_switch, 0,
                              &half_duplex);
    }
    if (status == DAO_OK) {
        status = read_setting(config->no_page_mapping ? 1 : 0, "DAO_CPU_NO_PAGE_MAPPING",
                              dao_units_parse_switch, 0, &without_pages);
    }
    backend->has_pages = without_pages == 0;
    backend->is_half_duplex = half_duplex != 0;
    return status;
}
