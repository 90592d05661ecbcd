/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/loopback/veil.h"

#include "backends/cpu/cpu.h"
#include "base/memory/host.h"

#include <stdlib.h>

static const dao_backend_ops_t *const cpu = &dao_cpu_backend_ops;

/* As the memory of the cpu backend's devices. */
#define ADDRESS_ALIGNMENT_BYTES ((size_t)2 << 20)

void *loopback_veil(size_t size_bytes)
{
    return dao_host_reserve(size_bytes, ADDRESS_ALIGNMENT_BYTES);
}

void loopback_unveil(const loopback_span_t *span)
{
    dao_host_unmap(span->begin, span->size_bytes);
}

void *loopback_bytes(const void *address, size_t size_bytes)
{
    loopback_driver_t *driver = &loopback_driver;
    char *bytes = (char *)(uintptr_t)address;
    dao_mutex_lock(&driver->lock);
    const loopback_span_t *span = loopback_spans_in(&driver->memory, address, size_bytes);
    span = span != NULL ? span : loopback_spans_in(&driver->reserved, address, size_bytes);
    if (span != NULL && span->bytes != NULL) {
        if (bytes < span->begin || bytes + size_bytes > span->begin + span->size_bytes) {
            abort(); /* the caller has checked the range */
        }
        bytes = span->bytes + (bytes - span->begin);
    }
    dao_mutex_unlock(&driver->lock);
    return bytes;
}

vendorError_t loopback_memory_take(size_t size_bytes, loopback_span_t *out_span)
{
    loopback_span_t span = {.size_bytes = size_bytes, .device = loopback_current_device()};
    void *bytes = NULL;
    dao_status_t status = cpu->memory_alloc(loopback_device(), size_bytes, &bytes);
    if (status != DAO_OK) {
        return loopback_from(status);
    }
    span.bytes = bytes;
    span.begin = loopback_veil(size_bytes);
    if (span.begin == NULL) {
        (void)cpu->memory_free(loopback_device(), bytes, size_bytes);
        return loopback_error(vendorErrorMemoryAllocation);
    }
    *out_span = span;
    return vendorSuccess;
}

vendorError_t loopback_memory_give(const loopback_span_t *span)
{
    loopback_unveil(span);
    return loopback_from(
        cpu->memory_free(loopback_driver.devices[span->device], span->bytes, span->size_bytes));
}
